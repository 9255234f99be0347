//! A chunk on a stack of its own that can be suspended anywhere and resumed later.

use super::{Interpreter, Shared, lua_setpause, pause};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use mlua_sys as ffi;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use wire::convert::int_len;

/// Address space; only touched pages take memory. Lua nests 200 C calls, each with up to 9 KB of buffers; patterns nest
/// 10,000 times 150 bytes; the rest is for the commands that scripts call.
const STACK_BYTES: usize = 8 << 20;

pub(super) type Yielder = corosensei::Yielder<(), ()>;
pub(super) type OwnStack = DefaultStack;

/// A suspended call. One dropped in the middle leaks its memory: the only way to end it is to let it run.
pub struct Fiber<H: ?Sized + 'static> {
    parts: ManuallyDrop<(Interpreter<H>, Coroutine<(), (), c_int, OwnStack>)>,
}

/// Progress of a call.
pub enum Progress<H: ?Sized + 'static> {
    /// It has ended; its single result, or the error, is on top of the interpreter's stack.
    Done {
        /// The interpreter, returned to the caller.
        interpreter: Interpreter<H>,
        /// Whether the result is an error.
        failed: bool,
    },
    /// It is suspended.
    Suspended(Fiber<H>),
}

impl<H: ?Sized + 'static> Interpreter<H> {
    /// Calls the function below its `arguments` on the stack, for one result. `handler` is the stack index of the
    /// function that converts an error to an error value.
    pub fn run(mut self, arguments: usize, handler: i32, host: &mut H) -> Progress<H> {
        assert!((1..=self.stack().top()).contains(&handler), "the handler is on the stack");
        assert!(self.stack().top() as usize > arguments, "a function and its arguments are on the stack");
        let (state, shared) = (self.state, self.shared);
        let stack = self.spare_stack.take().or_else(|| OwnStack::new(STACK_BYTES).ok());
        let stack = stack.expect("address space for a script's stack");
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder, ()| {
            // SAFETY: invariants 2 and 5 of `lua`: the interpreter is owned by the fiber that runs this;
            // it is entered protected, so that no jump leaves this frame; `yielder` lives as long as
            // this call.
            unsafe {
                (*shared.as_ptr()).yielder = Some(NonNull::from(yielder));
                (*shared.as_ptr()).memory.limited = true;
                let status = ffi::lua_pcall(state.as_ptr(), int_len(arguments), 1, handler);
                (*shared.as_ptr()).memory.limited = false;
                if (*shared.as_ptr()).memory.is_nearly_full() {
                    // Other work runs in between.
                    ffi::lua_gc(state.as_ptr(), ffi::LUA_GCCOLLECT, 0);
                }
                (*shared.as_ptr()).yielder = None;
                status
            }
        });
        Fiber { parts: ManuallyDrop::new((self, coroutine)) }.resume(host)
    }
}

impl<H: ?Sized + 'static> Fiber<H> {
    /// Runs until the call ends or is suspended again.
    pub fn resume(mut self, host: &mut H) -> Progress<H> {
        let shared: *mut Shared<H> = self.parts.0.shared.as_ptr();
        // SAFETY: invariant 4 of `lua`: `shared` lives as long as the interpreter. The host is borrowed for
        // all of this call and is taken back before it ends.
        unsafe {
            (*shared).host = Some(NonNull::from(host));
            lua_setpause(self.parts.0.state.as_ptr(), Some(pause::<H>));
        }
        let result = self.parts.1.resume(());
        // SAFETY: invariant 5 of `lua`, as above.
        unsafe {
            lua_setpause(self.parts.0.state.as_ptr(), None);
            (*shared).host = None;
        }
        match result {
            CoroutineResult::Yield(()) => Progress::Suspended(self),
            CoroutineResult::Return(status) => {
                // SAFETY: invariant 5 of `lua`: the parts are taken once: `self` is gone after this,
                // and dropping it does nothing.
                let (mut interpreter, coroutine) = unsafe { ManuallyDrop::take(&mut self.parts) };
                interpreter.spare_stack = Some(coroutine.into_stack());
                // SAFETY: invariant 5 of `lua`, as above.
                if std::mem::take(unsafe { &mut (*shared).kills }) {
                    interpreter.set_hook();
                }
                Progress::Done { interpreter, failed: status != ffi::LUA_OK }
            }
        }
    }
}
