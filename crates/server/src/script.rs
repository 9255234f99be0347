//! Lua scripts and functions: their environment, the conversion of values in both directions, and the script cache. Knows
//! nothing of commands: those run through a [`Caller`].
//!
//! - [`environment`] creates an interpreter's globals; [`api`] is their `server` table, [`libraries`] are cjson,
//!   cmsgpack, struct and bit.
//! - [`values`] turns replies into Lua's values and a script's result into a reply.
//! - [`cache`] stores compiled scripts, [`functions`] libraries of functions.
//! - [`flags`] parses the flags in the first line of a script.

pub mod api;
pub mod cache;
pub mod environment;
pub mod flags;
pub mod functions;
pub mod libraries;
pub mod numbers;
pub mod values;

use crate::sys::lua;
use cache::Cache;
use flags::ScriptFlags;
use functions::{Libraries, NewFunction};
use numbers::Random48;
use std::rc::Rc;
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::ArgRange;

pub use lua::{Interrupt, Kind, PIECE_BYTES, Raise, Reference, Turn};

/// The stack of a native function.
pub type Stack<'a> = lua::Stack<'a, dyn Caller>;
/// An interpreter whose native functions use a [`Caller`].
pub type Interpreter = lua::Interpreter<dyn Caller>;
/// A coroutine that runs a script.
pub type Fiber = lua::Fiber<dyn Caller>;
/// The state of a coroutine after it ran.
pub type Progress = lua::Progress<dyn Caller>;

/// The version of Redis that the server reports to scripts.
pub const REDIS_VERSION: &str = "7.2.4";
/// The version of Valkey that the server reports to scripts.
pub const VALKEY_VERSION: &str = "9.1.2";

/// The maximum length of an error's text, and of a log line; the rest is ignored.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The interface from scripts to the server.
pub trait Caller {
    /// Runs a command and writes its reply, in the protocol of `reply`. Returns whether it took long enough that
    /// [`Self::interrupt`] is due.
    fn call(&mut self, command: &mut CommandLine, reply: &mut ReplyBuffer) -> bool;
    /// Whether the script's user has permission to run the command; `None` if there is no such command.
    fn may_call(&mut self, command: &CommandLine) -> Option<bool>;
    /// Stores a function of the library that is being loaded.
    fn register(&mut self, function: NewFunction) -> Result<(), &'static str>;
    /// Called periodically while a script runs.
    fn interrupt(&mut self) -> Turn;
    /// Returns the settings that scripts can change.
    fn settings(&mut self) -> &mut Settings;
    /// Returns the buffers shared by all calls.
    fn scratch(&mut self) -> &mut Scratch;
    /// Returns the generator of `math.random`.
    fn random(&mut self) -> &mut Random48;
}

/// A command that a script calls.
#[derive(Debug, Default)]
pub struct CommandLine {
    /// The bytes of all arguments.
    pub buffer: Vec<u8>,
    /// Each argument within `buffer`.
    pub ranges: Vec<ArgRange>,
}

impl CommandLine {
    /// Removes all arguments.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.ranges.clear();
    }

    /// Appends an argument.
    #[inline]
    pub fn push(&mut self, argument: &[u8]) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(argument);
        self.close_argument(start);
    }

    /// Makes the bytes appended to the buffer since it had this length an argument.
    #[inline]
    pub fn close_argument(&mut self, start: usize) {
        let range = ArgRange::within(start, self.buffer.len() - start);
        self.ranges.push(range.expect("a script's command is shorter than a client's request may be"));
    }
}

/// Buffers that are reused between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The command that a script calls.
    pub command: CommandLine,
    /// Its reply, before it becomes values of Lua.
    pub reply: ReplyBuffer,
}

/// The capacity of each buffer that is kept between scripts.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Scratch {
    /// Frees the capacity that one large command or reply has left.
    fn trim(&mut self) {
        if self.command.buffer.capacity() > SCRATCH_BYTES_MAX {
            self.command = CommandLine::default();
        }
        if self.reply.capacity() > SCRATCH_BYTES_MAX {
            self.reply = ReplyBuffer::default();
        }
    }
}

/// Settings that apply to the rest of a script's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The protocol of the replies to its commands.
    pub protocol: Protocol,
    /// The targets of its changes: 1 the append-only file, 2 replicas.
    pub replication: u8,
}

/// Changes go to the append-only file and to replicas.
pub const REPLICATE_ALL: u8 = 3;

impl Default for Settings {
    fn default() -> Self {
        Settings { protocol: Protocol::Resp2, replication: REPLICATE_ALL }
    }
}

/// The two kinds of scripts; each has its own interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// EVAL: a script by its source or digest.
    Eval,
    /// FCALL: a function of a library.
    Function,
}

/// A script to run; its keys and arguments are in the command that calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The interpreter that runs it.
    pub mode: Mode,
    /// The compiled function within that interpreter.
    pub function: Reference,
    /// The function's name, or the script's digest.
    pub name: Rc<str>,
    /// The number of the command's arguments, from the fourth on, that are keys.
    pub keys: usize,
    /// Commands that write are refused.
    pub read_only: bool,
    /// It runs when memory is short.
    pub allows_oom: bool,
    /// Its commands may have keys of several slots of a cluster.
    pub crosses_slots: bool,
}

/// The state of the running script.
#[derive(Debug)]
pub struct Running {
    /// The script.
    pub call: Call,
    /// What it has set for its own commands.
    pub settings: Settings,
    /// On the monotonic clock.
    pub started_us: u64,
    /// When the server's time was read that is frozen for the script's unit, on the stopwatch.
    pub frozen_ns: u64,
    /// The time from then to the call of the current command.
    pub passed_us: u64,
    /// The slot of its declared keys, or of the first key that a command of it had.
    pub slot: Option<u16>,
    /// It has run a command that may write: it can no longer be killed.
    pub wrote: bool,
    /// It came from the primary: without its changes the data here would differ.
    pub is_streamed: bool,
    /// It has run longer than other clients wait without a reply.
    pub is_slow: bool,
    /// SCRIPT KILL or FUNCTION KILL has asked it to end.
    pub killed: bool,
    /// The command line that called it, once it is slow.
    pub command: Vec<Vec<u8>>,
}

impl Running {
    /// The state of a script that starts now.
    pub fn new(call: Call, started_us: u64, frozen_ns: u64, is_streamed: bool) -> Self {
        Running {
            call,
            settings: Settings::default(),
            started_us,
            frozen_ns,
            passed_us: 0,
            slot: None,
            wrote: false,
            is_streamed,
            is_slow: false,
            killed: false,
            command: vec![],
        }
    }
}

/// The latest time that TIME has returned. Until the server's time is read again, TIME returns no earlier one: neither
/// to the next script, which begins on another reading of the clocks, nor outside of scripts, where time is frozen.
#[derive(Clone, Copy, Debug, Default)]
pub struct LatestTime {
    /// The frozen time, in microseconds since the Unix epoch.
    frozen_us: i64,
    passed_us: i64,
}

impl LatestTime {
    /// Returns the time `passed_us` after the frozen one, or the latest returned if that is later.
    pub fn advance(&mut self, frozen_us: i64, passed_us: u64) -> i64 {
        if self.frozen_us != frozen_us {
            *self = LatestTime { frozen_us, passed_us: 0 };
        }
        self.passed_us = self.passed_us.max(i64::try_from(passed_us).unwrap_or(i64::MAX));
        frozen_us.saturating_add(self.passed_us)
    }
}

/// All state of scripts in the server.
pub struct Scripts {
    environment: environment::Options,
    eval: Option<Interpreter>,
    function: Option<Interpreter>,
    /// Scripts by their digests.
    pub cache: Cache,
    /// Libraries of functions.
    pub libraries: Libraries,
    /// The script that runs now.
    pub running: Option<Running>,
    /// The time that a script was given last.
    pub latest_time: LatestTime,
    /// Buffers of commands that scripts call.
    pub scratch: Scratch,
    /// The generator of Lua's `math.random`, seeded anew for each script.
    pub random: Random48,
    runs: u64,
    /// Scripts that the cache has dropped.
    pub evicted: u64,
}

/// The number of runs after which garbage is collected, and the number of steps of each collection.
const RUNS_PER_COLLECTION: u64 = 50;
const COLLECTION_STEPS: u16 = 50;

impl Scripts {
    /// No scripts yet; interpreters are created when needed.
    pub fn new(environment: environment::Options) -> Self {
        Scripts {
            environment,
            eval: None,
            function: None,
            cache: Cache::default(),
            libraries: Libraries::default(),
            running: None,
            latest_time: LatestTime::default(),
            scratch: Scratch::default(),
            random: Random48::default(),
            runs: 0,
            evicted: 0,
        }
    }

    fn slot(&mut self, mode: Mode) -> &mut Option<Interpreter> {
        match mode {
            Mode::Eval => &mut self.eval,
            Mode::Function => &mut self.function,
        }
    }

    /// The interpreter of this kind, created when it is first needed.
    pub fn interpreter(&mut self, mode: Mode) -> &mut Interpreter {
        let environment = self.environment;
        self.slot(mode).get_or_insert_with(|| environment::interpreter(mode, environment))
    }

    /// Takes the interpreter for a run; [`Self::give_back`] returns it.
    pub fn take(&mut self, mode: Mode) -> Interpreter {
        self.interpreter(mode);
        self.slot(mode).take().expect("`interpreter` has created it")
    }

    /// Returns the interpreter after a run, and collects garbage.
    pub fn give_back(&mut self, mode: Mode, mut interpreter: Interpreter) {
        self.runs += 1;
        if self.runs.is_multiple_of(RUNS_PER_COLLECTION) {
            interpreter.collect(COLLECTION_STEPS);
        }
        // Memory that one script has filled must be available to the next.
        if interpreter.is_nearly_full() {
            interpreter.collect_all();
        }
        self.scratch.trim();
        *self.slot(mode) = Some(interpreter);
    }

    /// Removes all cached scripts and their interpreter.
    pub fn flush_cache(&mut self) {
        self.cache = Cache::default();
        self.eval = None;
    }

    /// Changes the environment of scripts. Cached scripts are removed; functions keep their environment until they are flushed.
    pub fn change_environment(&mut self, environment: environment::Options) {
        if self.environment != environment {
            self.environment = environment;
            self.flush_cache();
        }
    }

    /// Removes all functions and their interpreter.
    pub fn flush_functions(&mut self) {
        self.libraries = Libraries::default();
        self.function = None;
    }

    /// Bytes of the interpreters of scripts and of functions.
    pub fn interpreter_bytes(&self) -> (u64, u64) {
        let bytes = |interpreter: &Option<Interpreter>| {
            interpreter.as_ref().map_or(0, |interpreter| interpreter.used_bytes() as u64)
        };
        (bytes(&self.eval), bytes(&self.function))
    }

    /// The running script, if it is slow: other clients get an error.
    pub fn slow(&self) -> Option<&Running> {
        self.running.as_ref().filter(|running| running.is_slow)
    }

    /// Compiles a script and caches it; the error is the compiler's. `lasting`: it is never evicted.
    pub fn load(&mut self, body: &[u8], lasting: bool) -> Result<u32, String> {
        if let Some(at) = self.cache.find_body(body) {
            if lasting {
                self.cache.make_lasting(at);
            }
            return Ok(at);
        }
        let head = flags::eval_head(body)?;
        let interpreter = self.interpreter(Mode::Eval);
        let mut stack = interpreter.stack();
        if !stack.load(&body[head.len..], c"@user_script") {
            let message = crate::error::quoted(stack.bytes(-1).unwrap_or_default());
            stack.pop(1);
            return Err(format!("Error compiling script (new function): {message}"));
        }
        let function = stack.keep();
        if !lasting {
            while let Some(evicted) = self.cache.evict_if_full() {
                self.interpreter(Mode::Eval).stack().forget(evicted);
                self.evicted += 1;
            }
        }
        Ok(self.cache.insert(body, head.flags, function, lasting))
    }

    /// Flags of a script, cached or not; `None` without valid flags.
    pub fn flags_of_body(&self, body: &[u8]) -> Option<ScriptFlags> {
        match self.cache.find_body(body) {
            Some(at) => self.cache.get(at).flags,
            None => flags::eval_head(body).ok()?.flags,
        }
    }
}
