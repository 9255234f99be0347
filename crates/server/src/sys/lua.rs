//! Interface to Lua: an [`Interpreter`] whose values are reached through its [`Stack`], native functions written in Rust,
//! and chunks that run on a stack of their own ([`fiber`]), so that a long one can be suspended while the server serves
//! others.
//!
//! `H` is the host, which native functions access from within a script. It is lent while the script runs.
//!
//! Why this is sound:
//!
//! 1. Every index is checked against the stack before it is passed to Lua, and every push against the room that Lua has
//!    promised ([`Stack::reserve`]).
//! 2. Lua reports errors by jumping over the frames in between. A native function never jumps: it returns
//!    [`Raise`], and only the trampoline, which by then owns nothing, lets Lua jump.
//! 3. Lua's own reasons to jump are excluded before its functions are called: tables are accessed raw, keys and types are
//!    checked, and no memory limit applies while native code runs ([`Memory::limited`]). When the system itself is out of
//!    memory the process ends, as anywhere else.
//! 4. The host is borrowed mutably by its lender, and handed out once at a time: [`Stack::host`] borrows the stack.
//! 5. A state is used by one thread, and is closed only when none of its chunks runs: a fiber owns its interpreter.

use mlua_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use wire::convert::int_len;

use lua_sources as _;

pub mod fiber;
mod memory;
mod stack;

pub use fiber::{Fiber, Progress};
pub use stack::{Kind, PIECE_BYTES, Raise, Stack, truncated};

use memory::Memory;

unsafe extern "C-unwind" {
    fn lua_setreadonly(state: *mut ffi::lua_State, index: c_int, readonly: c_int);
    fn lua_isreadonly(state: *mut ffi::lua_State, index: c_int) -> c_int;
    fn lua_raise(state: *mut ffi::lua_State) -> c_int;
    fn lua_spend(state: *mut ffi::lua_State, units: c_int);
    fn lua_setpause(state: *mut ffi::lua_State, pause: Option<Pause>);
}

/// Callback that Lua calls during long work of its own.
type Pause = unsafe extern "C-unwind" fn(*mut ffi::lua_State);

/// A function that scripts can call. Its arguments are the whole stack, its results the last values on it; returns the
/// number of results.
pub type Native<H> = fn(&mut Stack<'_, H>) -> Result<usize, Raise>;

/// What to do with a long-running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Continue.
    GoOn,
    /// Yield the thread to the script's caller, and ask again after resuming.
    Suspend,
    /// End it, with the error `{err = text}`.
    Kill(&'static str),
}

/// The host's decision about the running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The decision.
    pub interrupt: Interrupt,
    /// Other work waits for the thread, also when the script has to end.
    pub gives_way: bool,
    /// Time the script has run since the last question or resumption.
    pub lasted_us: u64,
}

/// A Lua value held by Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference(c_int);

/// Instructions between two calls of the interrupt at normal speed.
const INSTRUCTIONS_PER_INTERRUPT: c_int = 10_000;
/// Above this time the interrupt is called after fewer instructions; below the next, after more.
const LONG_TURN_US: u64 = 400;
const SHORT_TURN_US: u64 = 100;
/// Cost of native code in instructions: of each of its steps, and the fewest steps counted.
const INSTRUCTIONS_PER_STEP: u32 = 8;
const STEPS_SPENT_MIN: u32 = 16;

/// Data that a state's callbacks find through its allocator.
#[repr(C)]
struct Shared<H: ?Sized> {
    /// First, where the allocator expects it.
    memory: Memory,
    host: Option<NonNull<H>>,
    interrupt: fn(&mut H) -> Turn,
    /// Instructions until the next interrupt.
    instructions: c_int,
    /// Yielder of the running fiber.
    yielder: Option<NonNull<fiber::Yielder>>,
    /// The hook interrupts at each line, because a killed script must not catch its end.
    kills: bool,
}

/// One Lua state.
pub struct Interpreter<H: ?Sized + 'static> {
    state: NonNull<ffi::lua_State>,
    shared: NonNull<Shared<H>>,
    spare_stack: Option<fiber::OwnStack>,
}

impl<H: ?Sized + 'static> Interpreter<H> {
    /// Creates a state with the base, string, table and math libraries. `bytes_max` limits its scripts' memory, and
    /// `interrupt` is called now and then while one runs.
    pub fn new(bytes_max: usize, interrupt: fn(&mut H) -> Turn) -> Self {
        let shared = Box::new(Shared {
            memory: Memory::new(bytes_max),
            host: None,
            interrupt,
            instructions: INSTRUCTIONS_PER_INTERRUPT,
            yielder: None,
            kills: false,
        });
        let shared = NonNull::from(Box::leak(shared));
        // SAFETY: invariant 5: the allocator finds a Memory at the beginning of `shared`, which lives as
        // long as the state.
        let state = unsafe { ffi::lua_newstate(memory::allocate, shared.as_ptr().cast()) };
        let state = NonNull::new(state).expect("memory for a Lua state");
        let interpreter = Interpreter { state, shared, spare_stack: None };
        interpreter.set_hook();
        interpreter
    }

    /// Opens Lua's own libraries, through the globals' `__newindex` if there is one.
    pub fn open_libraries(&mut self) {
        for open in [ffi::luaopen_base, ffi::luaopen_table, ffi::luaopen_string, ffi::luaopen_math] {
            // SAFETY: invariant 2: the libraries' openers are called with a name, as Lua's own `linit.c`
            // does.
            unsafe {
                ffi::lua_pushcfunction(self.state.as_ptr(), open);
                ffi::lua_pushstring_(self.state.as_ptr(), c"".as_ptr());
                ffi::lua_call(self.state.as_ptr(), 1, 0);
            }
        }
    }

    fn set_hook(&self) {
        // SAFETY: invariant 5: the hook is one of this type of state.
        unsafe {
            (*self.shared.as_ptr()).instructions = INSTRUCTIONS_PER_INTERRUPT;
            let state = self.state.as_ptr();
            ffi::lua_sethook(state, Some(hook::<H>), ffi::LUA_MASKCOUNT, INSTRUCTIONS_PER_INTERRUPT);
        }
    }

    /// The state's stack.
    pub fn stack(&mut self) -> Stack<'_, H> {
        Stack::new(self.state.as_ptr())
    }

    /// Bytes that the state occupies.
    pub fn used_bytes(&self) -> usize {
        // SAFETY: invariant 5: `shared` is alive, and no reference to it outlives a statement.
        unsafe { (*self.shared.as_ptr()).memory.used_bytes }
    }

    /// Whether the next script may lack the memory that this one has left in use.
    pub fn is_nearly_full(&self) -> bool {
        // SAFETY: invariant 5, as above.
        unsafe { (*self.shared.as_ptr()).memory.is_nearly_full() }
    }

    /// Collects garbage in `steps` steps, even if a script has stopped the collector.
    pub fn collect(&mut self, steps: u16) {
        // SAFETY: invariant 3: these take numbers and return; no value of this server has a finalizer that
        // could fail.
        unsafe {
            ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCRESTART, 0);
            ffi::lua_gc(self.state.as_ptr(), ffi::LUA_GCSTEP, c_int::from(steps));
        }
    }
}

impl<H: ?Sized + 'static> Interpreter<H> {
    /// Collects all garbage.
    pub fn collect_all(&mut self) {
        // SAFETY: invariant 3, as in `collect`.
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
    // SAFETY: invariant 5: the state is alive, and its allocator was given a Shared<H>.
    unsafe { ffi::lua_getallocf(state, &mut shared) };
    shared.cast()
}

/// Calls the native function that the closure holds.
unsafe extern "C-unwind" fn trampoline<H: ?Sized + 'static>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: invariants 2 and 5: only `push_native` makes closures of this function, each with a `Native<H>` as
    // its one value; the state is alive while it calls, and no reference into `shared` is kept over the call.
    let (outcome, steps) = unsafe {
        let shared = shared_of::<H>(state);
        let native: Native<H> = std::mem::transmute(ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)));
        let limited = std::mem::replace(&mut (*shared).memory.limited, false);
        let mut stack = Stack::new(state);
        let outcome = native(&mut stack);
        (*shared).memory.limited = limited;
        (outcome, stack.steps())
    };
    // SAFETY: what native functions raise lies on top of the stack, and this frame owns nothing that a jump over it
    // would leave behind (invariant 2).
    unsafe {
        if steps >= STEPS_SPENT_MIN {
            lua_spend(state, (steps * INSTRUCTIONS_PER_STEP).cast_signed());
        }
        match outcome {
            Ok(results) => int_len(results),
            Err(Raise::Value) => ffi::lua_error(state),
            Err(Raise::Argument(index)) => {
                ffi::luaL_argerror(state, index, ffi::lua_tolstring(state, -1, std::ptr::null_mut()))
            }
        }
    }
}

unsafe extern "C-unwind" fn hook<H: ?Sized + 'static>(state: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: invariants 2 and 5: the hook is set on states of this type only, and nothing here keeps a
    // reference when Lua jumps.
    unsafe {
        let (end, lasted_us) = ask::<H>(state);
        let Some(text) = end else { return pace::<H>(state, lasted_us) };
        let shared = shared_of::<H>(state);
        let limited = std::mem::replace(&mut (*shared).memory.limited, false);
        push_end::<H>(state, text);
        (*shared).memory.limited = limited;
        lua_raise(state);
    }
}

/// Pushes the error that ends a script, with its place. Owns nothing when it returns, for its caller jumps.
fn push_end<H: ?Sized + 'static>(state: *mut ffi::lua_State, text: &str) {
    let mut stack = Stack::<H>::new(state);
    let place = (0..2).filter_map(|level| stack.caller(level)).find(|caller| !caller.is_native);
    stack.push_table(0, 3);
    stack.push_bytes(text.as_bytes());
    stack.set_field(-2, "err");
    if let Some(place) = place {
        stack.push_bytes(place.source.as_bytes());
        stack.set_field(-2, "source");
        stack.push_number(f64::from(place.line));
        stack.set_field(-2, "line");
    }
}

/// Yields the thread while the host wants that, in the middle of Lua's own work: raises nothing. A script that has to end
/// does so at its next instruction.
unsafe extern "C-unwind" fn pause<H: ?Sized + 'static>(state: *mut ffi::lua_State) {
    // SAFETY: it is set on states of this type only, whose host is lent while a script runs (invariant 4); the yielder
    // lives as long as the fiber that this is called on.
    unsafe {
        let shared = shared_of::<H>(state);
        loop {
            let (Some(mut host), Some(yielder)) = ((*shared).host, (*shared).yielder) else { return };
            let turn = ((*shared).interrupt)(host.as_mut());
            if !turn.gives_way && turn.interrupt != Interrupt::Suspend {
                return;
            }
            yielder.as_ref().suspend(());
        }
    }
}

/// Shortens the interval where instructions are slow, such as those that find all keys of a table in one bucket.
///
/// # Safety
/// `state` belongs to an `Interpreter<H>`.
unsafe fn pace<H: ?Sized + 'static>(state: *mut ffi::lua_State, lasted_us: u64) {
    // SAFETY: invariant 5: the state is alive, and the hook is one of this type of state.
    unsafe {
        let shared = shared_of::<H>(state);
        let now = (*shared).instructions;
        let next = match lasted_us {
            SHORT_TURN_US..=LONG_TURN_US => now,
            ..SHORT_TURN_US => now.saturating_mul(2).min(INSTRUCTIONS_PER_INTERRUPT),
            _ => c_int::try_from(u64::from(now.unsigned_abs()) * SHORT_TURN_US / lasted_us)
                .unwrap_or(now)
                .max(1),
        };
        if next != now {
            (*shared).instructions = next;
            ffi::lua_sethook(state, Some(hook::<H>), ffi::LUA_MASKCOUNT, next);
        }
    }
}

/// Asks the host about the running script, and yields the thread while it wants that. A returned text ends the script,
/// which cannot catch that: from now on the host is asked at each line. Also returns the time the script had run.
///
/// # Safety
/// As for [`look`].
unsafe fn ask<H: ?Sized + 'static>(state: *mut ffi::lua_State) -> (Option<&'static str>, u64) {
    // SAFETY: invariant 5, as the caller promises.
    unsafe {
        let (end, lasted_us) = look::<H>(state);
        if end.is_some() {
            (*shared_of::<H>(state)).kills = true;
            ffi::lua_sethook(state, Some(hook::<H>), ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT, 1);
        }
        (end, lasted_us)
    }
}

/// As [`ask`], but does not end the script.
///
/// # Safety
/// `state` belongs to an `Interpreter<H>`, and no reference to its host exists.
unsafe fn look<H: ?Sized + 'static>(state: *mut ffi::lua_State) -> (Option<&'static str>, u64) {
    // SAFETY: the host is lent while a script runs (invariant 4), and the yielder lives as long as the fiber that this
    // is called on.
    unsafe {
        let shared = shared_of::<H>(state);
        let mut first_us = None;
        loop {
            let Some(mut host) = (*shared).host else { return (None, 0) };
            let turn = ((*shared).interrupt)(host.as_mut());
            let lasted_us = *first_us.get_or_insert(turn.lasted_us);
            match (turn.interrupt, (*shared).yielder) {
                (Interrupt::Suspend, Some(yielder)) => yielder.as_ref().suspend(()),
                (Interrupt::Kill(text), _) => return (Some(text), lasted_us),
                (Interrupt::GoOn | Interrupt::Suspend, _) => return (None, lasted_us),
            }
        }
    }
}
