//! Lua scripts and functions: what they find around them, how values go in and out, which of them are kept. Knows
//! nothing of commands: those run through a [`Caller`].
//!
//! - [`environment`] makes an interpreter's globals; [`api`] is the `server` table in them, [`libraries`] are cjson,
//!   cmsgpack, struct and bit.
//! - [`values`] turns replies into Lua's values and a script's result into a reply.
//! - [`cache`] keeps compiled scripts, [`functions`] libraries of functions.
//! - [`flags`] is what a script says of itself in its first line.

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

pub type Stack<'a> = lua::Stack<'a, dyn Caller>;
pub type Interpreter = lua::Interpreter<dyn Caller>;
pub type Fiber = lua::Fiber<dyn Caller>;
pub type Progress = lua::Progress<dyn Caller>;

/// What scripts see of the server: the versions that it is compatible with.
pub const REDIS_VERSION: &str = "7.2.4";
pub const VALKEY_VERSION: &str = "9.1.2";

/// What is read of an error's text, and of a line for the log.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What a script reaches of the server.
pub trait Caller {
    /// Runs a command and writes its reply, in the protocol that `reply` says. Whether it has taken so long that it is
    /// time to ask [`Self::interrupt`].
    fn call(&mut self, command: &CommandLine, reply: &mut ReplyBuffer) -> bool;
    /// Whether the script's user may run the command; `None` if there is no such command.
    fn may_call(&mut self, command: &CommandLine) -> Option<bool>;
    /// Keeps a function of the library that is being loaded.
    fn register(&mut self, function: NewFunction) -> Result<(), &'static str>;
    /// Asked now and then while a script runs.
    fn interrupt(&mut self) -> Turn;
    fn settings(&mut self) -> &mut Settings;
    fn scratch(&mut self) -> &mut Scratch;
    fn random(&mut self) -> &mut Random48;
}

/// A command that a script wants to run.
#[derive(Debug, Default)]
pub struct CommandLine {
    pub buffer: Vec<u8>,
    pub ranges: Vec<ArgRange>,
}

impl CommandLine {
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.ranges.clear();
    }

    #[inline]
    pub fn push(&mut self, argument: &[u8]) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(argument);
        self.close_argument(start);
    }

    /// What has been appended to the buffer since it had this length is an argument.
    #[inline]
    pub fn close_argument(&mut self, start: usize) {
        self.ranges.push(ArgRange { start: start as _, len: (self.buffer.len() - start) as _ });
    }
}

/// Buffers used again from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    pub command: CommandLine,
    pub reply: ReplyBuffer,
}

/// What is kept of each buffer from script to script.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Scratch {
    /// Gives back what one large command or reply has left behind.
    fn trim(&mut self) {
        if self.command.buffer.capacity() > SCRATCH_BYTES_MAX {
            self.command = CommandLine::default();
        }
        if self.reply.capacity() > SCRATCH_BYTES_MAX {
            self.reply = ReplyBuffer::default();
        }
    }
}

/// What a script sets for the rest of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of the replies to its commands.
    pub protocol: Protocol,
    /// Where its changes go: 1 the append-only file, 2 replicas.
    pub replication: u8,
}

/// Changes go everywhere.
pub const REPLICATE_ALL: u8 = 3;

impl Default for Settings {
    fn default() -> Self {
        Settings { protocol: Protocol::Resp2, replication: REPLICATE_ALL }
    }
}

/// The two kinds of scripts, each with an interpreter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Eval,
    Function,
}

/// A script to run, with its keys and arguments in the command that asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub mode: Mode,
    pub function: Reference,
    /// The function's name, or the script's digest.
    pub name: Rc<str>,
    /// How many of the command's arguments, from the fourth on, are keys.
    pub keys: usize,
    pub read_only: bool,
    pub allows_oom: bool,
}

/// The script that runs.
#[derive(Debug)]
pub struct Running {
    pub call: Call,
    pub settings: Settings,
    /// On the monotonic clock.
    pub started_us: u64,
    /// On the stopwatch.
    pub started_ns: u64,
    /// How long it had run when it called the command at hand.
    pub passed_us: u64,
    /// It has run a command that may write: it can no longer be ended.
    pub wrote: bool,
    /// The primary has sent it: without what it does the data here would differ.
    pub is_streamed: bool,
    /// It runs for longer than others are made to wait without an answer.
    pub is_slow: bool,
    pub killed: bool,
    /// The command line that asked for it, once it is slow.
    pub command: Vec<Vec<u8>>,
}

impl Running {
    pub fn new(call: Call, started_us: u64, started_ns: u64, is_streamed: bool) -> Self {
        Running {
            call,
            settings: Settings::default(),
            started_us,
            started_ns,
            passed_us: 0,
            wrote: false,
            is_streamed,
            is_slow: false,
            killed: false,
            command: vec![],
        }
    }
}

/// All that the server keeps of scripts.
pub struct Scripts {
    environment: environment::Options,
    eval: Option<Interpreter>,
    function: Option<Interpreter>,
    pub cache: Cache,
    pub libraries: Libraries,
    pub running: Option<Running>,
    pub scratch: Scratch,
    pub random: Random48,
    runs: u64,
    pub evicted: u64,
}

/// After how many runs garbage is collected for a while, and for how many steps.
const RUNS_PER_COLLECTION: u64 = 50;
const COLLECTION_STEPS: u16 = 50;

impl Scripts {
    pub fn new(environment: environment::Options) -> Self {
        Scripts {
            environment,
            eval: None,
            function: None,
            cache: Cache::default(),
            libraries: Libraries::default(),
            running: None,
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

    /// The interpreter of this kind, made when it is first needed.
    pub fn interpreter(&mut self, mode: Mode) -> &mut Interpreter {
        let environment = self.environment;
        self.slot(mode).get_or_insert_with(|| environment::interpreter(mode, environment))
    }

    /// Takes the interpreter for a run; [`Self::give_back`] returns it.
    pub fn take(&mut self, mode: Mode) -> Interpreter {
        self.interpreter(mode);
        self.slot(mode).take().expect("one was made if there was none")
    }

    pub fn give_back(&mut self, mode: Mode, mut interpreter: Interpreter) {
        self.runs += 1;
        if self.runs.is_multiple_of(RUNS_PER_COLLECTION) {
            interpreter.collect(COLLECTION_STEPS);
        }
        // What one script has filled must not be missing for the next.
        if interpreter.is_nearly_full() {
            interpreter.collect_all();
        }
        self.scratch.trim();
        *self.slot(mode) = Some(interpreter);
    }

    /// Forgets all cached scripts and the interpreter that knew them.
    pub fn flush_cache(&mut self) {
        self.cache = Cache::default();
        self.eval = None;
    }

    /// Scripts that ran in another environment are forgotten; functions keep theirs until they are flushed.
    pub fn change_environment(&mut self, environment: environment::Options) {
        if self.environment != environment {
            self.environment = environment;
            self.flush_cache();
        }
    }

    /// Forgets all functions and the interpreter that knew them.
    pub fn flush_functions(&mut self) {
        self.libraries = Libraries::default();
        self.function = None;
    }

    /// Bytes of the interpreters: of scripts, of functions.
    pub fn interpreter_bytes(&self) -> (u64, u64) {
        let bytes = |interpreter: &Option<Interpreter>| {
            interpreter.as_ref().map_or(0, |interpreter| interpreter.used_bytes() as u64)
        };
        (bytes(&self.eval), bytes(&self.function))
    }

    /// A script that others get an error for.
    pub fn slow(&self) -> Option<&Running> {
        self.running.as_ref().filter(|running| running.is_slow)
    }

    /// Compiles a script and keeps it; the error is why it is no script. `lasting`: it is never evicted.
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

    /// Flags of a cached script, or of one that is not cached yet, as far as its first line can be read.
    pub fn flags_of_body(&self, body: &[u8]) -> Option<ScriptFlags> {
        match self.cache.find_body(body) {
            Some(at) => self.cache.get(at).flags,
            None => flags::eval_head(body).ok()?.flags,
        }
    }
}
