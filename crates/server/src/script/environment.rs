//! The globals of scripts. All scripts of an interpreter share them, and they are read-only: no script can leave data
//! for the next, or change a library.

use super::{Interpreter, Kind, MESSAGE_BYTES_MAX, Mode, Raise, Stack, api, libraries};
use std::time::Duration;

/// The memory limit of an interpreter; a script that exceeds it gets Lua's out-of-memory error.
pub const BYTES_MAX: usize = 1 << 30;

/// The configuration that an environment depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `newproxy`, `getfenv` and `setfenv` exist (lua-enable-insecure-api).
    pub insecure: bool,
}

/// Functions of Lua's base library that scripts do not have.
const REFUSED: [&str; 3] = ["dofile", "loadfile", "print"];
const INSECURE: [&str; 3] = ["newproxy", "setfenv", "getfenv"];

/// Registry keys of the error handler, of the globals while a library is loaded, and of the globals while functions run.
const ERROR_HANDLER: &str = "error handler";
const LOADING: &str = "globals while loading";
const RUNNING: &str = "globals while running";

/// Creates an interpreter for scripts of this kind.
pub fn interpreter(mode: Mode, options: Options) -> Interpreter {
    let mut interpreter = Interpreter::new(BYTES_MAX, |caller| caller.interrupt());
    interpreter.open_libraries();
    let mut stack = interpreter.stack();
    stack.push_globals();
    let removed = REFUSED.iter().chain(INSECURE.iter().filter(|_| !options.insecure));
    for name in removed {
        stack.push_nil();
        stack.set_field(1, name);
    }
    stack.push_native(api::protected_call);
    stack.set_field(1, "pcall");
    push_os(&mut stack);
    stack.set_field(1, "os");
    libraries::open(&mut stack);
    replace_chance(&mut stack);
    push_server(&mut stack, mode);
    stack.push_value(-1);
    stack.set_field(1, "server");
    stack.set_field(1, "redis");
    if mode == Mode::Eval {
        for name in ["__server__err__handler", "__redis__err__handler"] {
            stack.push_native(handle_error);
            stack.set_field(1, name);
        }
    }
    refuse_unknown_fields(&mut stack);
    lock(&mut stack);
    lock_metatables(&mut stack);
    if mode == Mode::Function {
        set_globals_of_functions(&mut stack);
    }
    keep_error_handler(&mut stack);
    stack.set_top(0);
    interpreter
}

/// Pushes the handler that converts an error to a table with the position in the script.
pub fn push_error_handler(stack: &mut Stack<'_>) {
    push_registered(stack, ERROR_HANDLER);
}

fn keep_error_handler(stack: &mut Stack<'_>) {
    stack.push_native(handle_error);
    register(stack, ERROR_HANDLER);
}

/// Stores the value on top in the registry, which scripts cannot access.
fn register(stack: &mut Stack<'_>, name: &str) {
    stack.push_registry();
    stack.insert(-2);
    stack.set_field(-2, name);
    stack.pop(1);
}

fn push_registered(stack: &mut Stack<'_>, name: &str) {
    stack.push_registry();
    stack.get_field(-1, name);
    stack.remove(-2);
}

/// Returns an error's table, with the position where it was raised; the caller's, if a native function raised it.
fn handle_error(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    stack.set_top(1);
    let place = stack.caller(1).and_then(|place| match place.is_native {
        true => stack.caller(2),
        false => Some(place),
    });
    if stack.kind(1) != Kind::Table {
        let text = stack.text_up_to(1, MESSAGE_BYTES_MAX).unwrap_or_else(|| match stack.kind(1) {
            Kind::Boolean => stack.truth(1).to_string().into_bytes(),
            kind => kind.name().into(),
        });
        stack.push_table(0, 3);
        stack.push_bytes(&[b"ERR ", text.as_slice()].concat());
        stack.set_field(-2, "err");
    }
    let locked = stack.is_readonly(-1);
    if let Some(place) = place.filter(|_| !locked) {
        stack.push_bytes(place.source.as_bytes());
        stack.set_field(-2, "source");
        stack.push_number(f64::from(place.line));
        stack.set_field(-2, "line");
    }
    Ok(1)
}

/// The `os` table of scripts has only the process's CPU time.
fn push_os(stack: &mut Stack<'_>) {
    stack.push_table(0, 1);
    stack.push_native(clock);
    stack.set_field(-2, "clock");
}

fn clock(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let times = crate::sys::process::cpu_times(crate::sys::process::Whose::Process);
    let spent: Duration = times.user + times.system;
    stack.push_number(spent.as_secs_f64());
    Ok(1)
}

fn replace_chance(stack: &mut Stack<'_>) {
    stack.get_field(1, "math");
    stack.push_native(api::random);
    stack.set_field(-2, "random");
    stack.push_native(api::random_seed);
    stack.set_field(-2, "randomseed");
    stack.pop(1);
}

fn push_server(stack: &mut Stack<'_>, mode: Mode) {
    stack.push_table(0, 32);
    for (name, native) in api::FUNCTIONS {
        stack.push_native(*native);
        stack.set_field(-2, name);
    }
    if mode == Mode::Eval {
        for (name, native) in api::EVAL_FUNCTIONS {
            stack.push_native(*native);
            stack.set_field(-2, name);
        }
    }
    push_log(stack);
    push_versions(stack);
    for (name, value) in api::REPLICATION_FLAGS {
        stack.push_number(f64::from(*value));
        stack.set_field(-2, name);
    }
}

fn push_log(stack: &mut Stack<'_>) {
    stack.push_native(api::log);
    stack.set_field(-2, "log");
    for (name, level) in api::LOG_LEVELS {
        stack.push_number(f64::from(*level));
        stack.set_field(-2, name);
    }
}

fn push_versions(stack: &mut Stack<'_>) {
    for (name, version) in [("REDIS", super::REDIS_VERSION), ("VALKEY", super::VALKEY_VERSION)] {
        stack.push_bytes(version.as_bytes());
        stack.set_field(-2, &format!("{name}_VERSION"));
        let digits = version.split('.').map(|part| part.parse().unwrap_or(0));
        stack.push_number(f64::from(digits.fold(0u32, |number, digit: u32| number << 8 | digit)));
        stack.set_field(-2, &format!("{name}_VERSION_NUM"));
    }
    stack.push_bytes(b"valkey");
    stack.set_field(-2, "SERVER_NAME");
}

/// Makes reading a missing field of the table on top an error.
fn refuse_unknown_fields(stack: &mut Stack<'_>) {
    stack.push_table(0, 1);
    stack.push_native(unknown_field);
    stack.set_field(-2, "__index");
    stack.set_metatable(-2);
}

fn unknown_field(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if stack.top() != 2 {
        return Err(stack.error("Wrong number of arguments to luaProtectedTableError"));
    }
    let Some(name) = stack.text_up_to(2, MESSAGE_BYTES_MAX) else {
        return Err(stack.error("Second argument to luaProtectedTableError must be a string or number"));
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    Err(stack.error(&format!("Script attempted to access nonexistent global variable '{name}'")))
}

/// Makes the table on top, and all tables reachable from it, read-only.
fn lock(stack: &mut Stack<'_>) {
    if stack.is_readonly(-1) {
        return;
    }
    stack.set_readonly(-1, true);
    stack.reserve(8);
    stack.push_nil();
    while stack.next(-2) {
        if stack.kind(-1) == Kind::Table {
            lock(stack);
        }
        stack.pop(1);
    }
    if stack.push_metatable(-1) {
        lock(stack);
        stack.pop(1);
    }
}

/// Makes the shared metatables of strings and other values that are not tables read-only.
fn lock_metatables(stack: &mut Stack<'_>) {
    let pushes: [fn(&mut Stack<'_>); 6] = [
        |stack| stack.push_bytes(b""),
        |stack| stack.push_number(0.0),
        |stack| stack.push_boolean(false),
        |stack| stack.push_nil(),
        |stack| stack.push_native(clock),
        |stack| stack.push_null_pointer(),
    ];
    for push in pushes {
        push(stack);
        if stack.push_metatable(-1) {
            lock(stack);
            stack.pop(1);
        }
        stack.pop(1);
    }
}

/// Gives functions an empty table whose metatable leads to the actual globals, so that these can be exchanged while a
/// library is loaded.
fn set_globals_of_functions(stack: &mut Stack<'_>) {
    stack.push_table(0, 2);
    stack.push_table(0, 16);
    stack.push_native(api::register_function);
    stack.set_field(-2, "register_function");
    push_log(stack);
    push_versions(stack);
    refuse_unknown_fields(stack);
    stack.push_value(-1);
    stack.set_field(-3, "server");
    stack.set_field(-2, "redis");
    refuse_unknown_fields(stack);
    lock(stack);
    register(stack, LOADING);
    stack.push_globals();
    register(stack, RUNNING);
    stack.push_table(0, 0);
    stack.push_table(0, 1);
    stack.push_globals();
    stack.set_field(-2, "__index");
    stack.set_readonly(-1, true);
    stack.set_metatable(-2);
    stack.set_readonly(-1, true);
    stack.replace_globals();
}

/// Switches the globals of the functions' interpreter to those of loading a library, or back to those of running
/// functions.
pub fn exchange_globals(stack: &mut Stack<'_>, loading: bool) {
    stack.push_globals();
    assert!(stack.push_metatable(-1), "the globals of functions have a metatable");
    stack.set_readonly(-1, false);
    push_registered(stack, if loading { LOADING } else { RUNNING });
    stack.set_field(-2, "__index");
    stack.set_readonly(-1, true);
    stack.pop(2);
}
