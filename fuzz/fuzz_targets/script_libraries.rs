//! What scripts decode: cjson, cmsgpack and struct, on any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::script::environment::{self, Options};
use server::script::{Interpreter, Mode};
use std::cell::RefCell;

thread_local! {
    static INTERPRETER: RefCell<Interpreter> =
        RefCell::new(environment::interpreter(Mode::Eval, Options::default()));
}

/// Calls a function of a library; whether it succeeded.
fn call(interpreter: &mut Interpreter, library: &str, function: &str, arguments: &[&[u8]]) -> bool {
    let mut stack = interpreter.stack();
    stack.push_globals();
    stack.get_field(-1, library);
    stack.get_field(-1, function);
    stack.remove(1);
    stack.remove(1);
    arguments.iter().for_each(|argument| stack.push_bytes(argument));
    stack.call(arguments.len() as i32)
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    INTERPRETER.with_borrow_mut(|interpreter| {
        match kind % 3 {
            0 => call(interpreter, "cjson", "decode", &[data]),
            1 => call(interpreter, "cmsgpack", "unpack", &[data]),
            _ => {
                let (format, data) = data.split_at(data.len().min(usize::from(kind) / 3));
                call(interpreter, "struct", "unpack", &[format, data])
            }
        };
        interpreter.stack().set_top(0);
        interpreter.collect(10);
    });
});
