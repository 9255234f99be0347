//! Lua as the rest of the server sees it: an [`Interpreter`] whose values are reached through its [`Stack`], native
//! functions written in Rust, and chunks that run on a stack of their own ([`fiber`]), so that one that takes long
//! can be put aside while the server answers others.
//!
//! `H` is the host: what native functions reach from within a script. It is lent for as long as the script runs.
//!
//! Why this is sound:
//!
//! 1. Every index is checked against the stack before Lua sees it, and every push against the room that Lua has
//!    promised ([`Stack::reserve`]).
//! 2. Lua reports errors by jumping over the frames in between. A native function never jumps: it returns
//!    [`Raise`], and only the trampoline, which by then owns nothing, lets Lua jump.
//! 3. What Lua's functions could jump for by themselves is excluded before they are called: tables are accessed raw,
//!    keys and types are checked, and no memory limit holds while native code runs ([`Memory::limited`]). When the
//!    system itself is out of memory the process ends, as it does anywhere else.
//! 4. The host is borrowed mutably by whoever lends it, and handed out once at a time: [`Stack::host`] borrows the
//!    stack.
//! 5. A state is used by one thread, and is closed only when no chunk of it runs: a fiber owns its interpreter.

use mlua_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use lua_sources as _;

pub mod fiber;
mod memory;
mod stack;

pub use fiber::{Fiber, Progress};
pub use stack::{Kind, Raise, Stack, truncated};

use memory::Memory;

unsafe extern "C-unwind" {
    fn lua_setreadonly(state: *mut ffi::lua_State, index: c_int, readonly: c_int);
    fn lua_isreadonly(state: *mut ffi::lua_State, index: c_int) -> c_int;
}

/// A function that scripts can call. Its arguments are the whole stack, its results the last values on it; answers
/// how many.
pub type Native<H> = fn(&mut Stack<'_, H>) -> Result<usize, Raise>;

/// What to do with a script that has run for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    GoOn,
    /// Give the thread back to whoever runs the script, and ask again when it goes on.
    Suspend,
    /// End it, with the error `{err = text}`.
    Kill(&'static str),
}

/// A value that Lua keeps for Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference(c_int);

/// Instructions between two calls of the interrupt.
const INSTRUCTIONS_PER_INTERRUPT: c_int = 100_000;

/// What a state's callbacks find by way of its allocator.
#[repr(C)]
struct Shared<H: ?Sized> {
    /// First, where the allocator looks for it.
    memory: Memory,
    host: Option<NonNull<H>>,
    interrupt: fn(&mut H) -> Interrupt,
    /// Of the fiber that runs.
    yielder: Option<NonNull<fiber::Yielder>>,
    /// The hook was set to interrupt at each line, because a killed script must not catch its end.
    kills: bool,
}

/// One Lua state.
pub struct Interpreter<H: ?Sized + 'static> {
    state: NonNull<ffi::lua_State>,
    shared: NonNull<Shared<H>>,
    spare_stack: Option<fiber::OwnStack>,
}

impl<H: ?Sized + 'static> Interpreter<H> {
    /// A state with the base, string, table and math libraries. `bytes_max` is what its scripts may fill, and
    /// `interrupt` is asked now and then while one runs.
    pub fn new(bytes_max: usize, interrupt: fn(&mut H) -> Interrupt) -> Self {
        let shared = Box::new(Shared {
            memory: Memory::new(bytes_max),
            host: None,
            interrupt,
            yielder: None,
            kills: false,
        });
        let shared = NonNull::from(Box::leak(shared));
        // SAFETY: the allocator finds a Memory at the beginning of `shared`, which lives as long as the state.
        let state = unsafe { ffi::lua_newstate(memory::allocate, shared.as_ptr().cast()) };
        let state = NonNull::new(state).expect("memory for a Lua state");
        let interpreter = Interpreter { state, shared, spare_stack: None };
        interpreter.set_hook(ffi::LUA_MASKCOUNT);
        interpreter
    }

    /// Opens Lua's own libraries, through the globals' `__newindex` if there is one.
    pub fn open_libraries(&mut self) {
        for open in [ffi::luaopen_base, ffi::luaopen_table, ffi::luaopen_string, ffi::luaopen_math] {
            // SAFETY: the libraries' openers are called with a name, as Lua's own `linit.c` does.
            unsafe {
                ffi::lua_pushcfunction(self.state.as_ptr(), open);
                ffi::lua_pushstring_(self.state.as_ptr(), c"".as_ptr());
                ffi::lua_call(self.state.as_ptr(), 1, 0);
            }
        }
    }

    fn set_hook(&self, mask: c_int) {
        // SAFETY: the hook is one of this type of state.
        unsafe {
            ffi::lua_sethook(self.state.as_ptr(), Some(hook::<H>), mask, INSTRUCTIONS_PER_INTERRUPT);
        }
    }

    pub fn stack(&mut self) -> Stack<'_, H> {
        Stack::new(self.state.as_ptr())
    }

    /// Bytes that the state occupies.
    pub fn used_bytes(&self) -> usize {
        // SAFETY: `shared` is alive, and no reference to it outlives a statement.
        unsafe { (*self.shared.as_ptr()).memory.used_bytes }
    }

    /// Collects garbage for a while; also when a script has stopped the collector.
    pub fn collect(&mut self, steps: u16) {
        // SAFETY: these take numbers and return; no value of this server has a finalizer that could fail.
        unsafe {
            ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCRESTART, 0);
            ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCSTEP, c_int::from(steps));
        }
    }
}

impl<H: ?Sized + 'static> Interpreter<H> {
    /// Collects all garbage.
    pub fn collect_all(&mut self) {
        // SAFETY: as in `collect`.
        unsafe { ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCCOLLECT, 0) };
    }
}

impl<H: ?Sized + 'static> Drop for Interpreter<H> {
    fn drop(&mut self) {
        // SAFETY: nothing of the state runs (invariant 5); `shared` came from a Box and is not used after this.
        unsafe {
            ffi::lua_close(self.state.as_ptr());
            drop(Box::from_raw(self.shared.as_ptr()));
        }
    }
}

/// # Safety
/// `state` belongs to an `Interpreter<H>`.
unsafe fn shared_of<H: ?Sized + 'static>(state: *mut ffi::lua_State) -> *mut Shared<H> {
    let mut shared: *mut c_void = std::ptr::null_mut();
    // SAFETY: the state is alive, and its allocator was given a Shared<H>.
    unsafe { ffi::lua_getallocf(state, &mut shared) };
    shared.cast()
}

/// Calls the native function that the closure holds.
unsafe extern "C-unwind" fn trampoline<H: ?Sized + 'static>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: only `push_native` makes closures of this function, each with a `Native<H>` as its one value; the state
    // is alive while it calls, and no reference into `shared` is kept over the call.
    let outcome = unsafe {
        let shared = shared_of::<H>(state);
        let native: Native<H> = std::mem::transmute(ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)));
        let limited = std::mem::replace(&mut (*shared).memory.limited, false);
        let outcome = native(&mut Stack::new(state));
        (*shared).memory.limited = limited;
        outcome
    };
    // SAFETY: what native functions raise lies on top of the stack, and this frame owns nothing that a jump over it
    // would leave behind (invariant 2).
    unsafe {
        match outcome {
            Ok(results) => results as c_int,
            Err(Raise::Value) => ffi::lua_error(state),
            Err(Raise::Argument(index)) => {
                ffi::luaL_argerror(state, index, ffi::lua_tolstring(state, -1, std::ptr::null_mut()))
            }
        }
    }
}

unsafe extern "C-unwind" fn hook<H: ?Sized + 'static>(state: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: the hook is set on states of this type only, and nothing here keeps a reference when Lua jumps.
    unsafe {
        if let Some(text) = ask::<H>(state) {
            let shared = shared_of::<H>(state);
            (*shared).memory.limited = false;
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_pushlstring_(state, text.as_ptr().cast(), text.len());
            ffi::lua_setfield(state, -2, c"err".as_ptr());
            (*shared).memory.limited = true;
            ffi::lua_error(state);
        }
    }
}

/// Asks what is to become of the script that runs, and gives the thread back for as long as that is wanted. A text
/// ends the script, which cannot catch that: it is asked at each line from now on.
///
/// # Safety
/// `state` belongs to an `Interpreter<H>`, and nobody holds a reference to its host.
unsafe fn ask<H: ?Sized + 'static>(state: *mut ffi::lua_State) -> Option<&'static str> {
    // SAFETY: the host is lent while a script runs (invariant 4), and the yielder lives as long as the fiber that this
    // is called on.
    unsafe {
        let shared = shared_of::<H>(state);
        loop {
            let mut host = (*shared).host?;
            match ((*shared).interrupt)(host.as_mut()) {
                Interrupt::GoOn => return None,
                Interrupt::Suspend => (*shared).yielder?.as_ref().suspend(()),
                Interrupt::Kill(text) => {
                    (*shared).kills = true;
                    ffi::lua_sethook(state, Some(hook::<H>), ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT, 1);
                    return Some(text);
                }
            }
        }
    }
}
