//! Libraries of functions: loading a library runs its code once, which registers functions.

use super::flags::{LibraryHead, ScriptFlags, is_name, library_head};
use super::numbers::Random48;
use super::values::error_information;
use super::{
    Caller, CommandLine, Interrupt, Kind, Mode, Progress, Reference, Scratch, Scripts, Settings, Stack, Turn,
    environment,
};
use crate::clock::Clock;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use wire::reply::ReplyBuffer;

/// The time limit of a library's code when it is loaded.
const LOAD_US_MAX: u64 = 500_000;

/// A function that a library's code has registered.
#[derive(Clone, Debug)]
pub struct NewFunction {
    /// Name of the function.
    pub name: Vec<u8>,
    /// Description of the function.
    pub description: Option<Vec<u8>>,
    /// Flags of the function.
    pub flags: ScriptFlags,
    /// The Lua function.
    pub function: Reference,
}

/// A registered function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name of the function.
    pub name: Rc<str>,
    /// Description of the function.
    pub description: Option<Vec<u8>>,
    /// Flags of the function.
    pub flags: ScriptFlags,
    /// The Lua function.
    pub reference: Reference,
}

/// A library with its functions.
#[derive(Clone, Debug)]
pub struct Library {
    /// Name of the library.
    pub name: String,
    /// The source, including its first line.
    pub code: Vec<u8>,
    /// The functions.
    pub functions: Vec<Function>,
}

/// All libraries by name, and all functions by name in lower case: FCALL ignores case.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Library>,
    functions: HashMap<String, (Function, String), foldhash::fast::RandomState>,
}

/// What FUNCTION RESTORE does with existing libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They are kept; a library of the same name is an error.
    Append,
    /// Libraries of the same name are replaced.
    Replace,
    /// They are deleted.
    Flush,
}

impl Libraries {
    /// The sources, ordered by library name.
    pub fn codes(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(|library| library.code.as_slice())
    }

    /// All libraries, ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Library> {
        self.by_name.values()
    }

    /// The number of libraries.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are no libraries.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The number of functions in all libraries.
    pub fn functions_len(&self) -> usize {
        self.functions.len()
    }

    /// Finds a function, ignoring case.
    pub fn function(&self, name: &[u8]) -> Option<&Function> {
        let name = std::str::from_utf8(name).ok()?;
        match self.functions.get(name) {
            Some((function, _)) => Some(function),
            None => self.functions.get(&name.to_ascii_lowercase()).map(|(function, _)| function),
        }
    }

    /// Bytes that libraries occupy besides the interpreter.
    pub fn used_bytes(&self) -> usize {
        let function = |function: &Function| {
            size_of::<Function>() + function.name.len() + function.description.as_ref().map_or(0, Vec::len)
        };
        let library = |library: &Library| {
            let functions: usize = library.functions.iter().map(function).sum();
            size_of::<Library>() + library.name.len() + library.code.len() + 2 * functions
        };
        self.iter().map(library).sum()
    }

    fn insert(&mut self, library: Library) {
        for function in &library.functions {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (function.clone(), library.name.clone()));
        }
        self.by_name.insert(library.name.clone(), library);
    }

    fn remove(&mut self, name: &str) -> Option<Library> {
        let library = self.by_name.remove(name)?;
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        Some(library)
    }

    /// The first of the library's functions whose name another library uses.
    fn collision(&self, library: &Library) -> Option<String> {
        let taken = |function: &&Function| self.functions.contains_key(&function.name.to_ascii_lowercase());
        library
            .functions
            .iter()
            .find(taken)
            .map(|function| format!("Function {} already exists", function.name))
    }
}

impl Scripts {
    /// Compiles a library and stores it; returns its name, or the error.
    pub fn load_library(&mut self, code: &[u8], replace: bool) -> Result<String, String> {
        let head = library_head(code)?;
        let name = String::from_utf8_lossy(&head.name).into_owned();
        let exists = self.libraries.by_name.contains_key(&name);
        if exists && !replace {
            return Err(format!("Library '{name}' already exists"));
        }
        let library = self.compile_library(code, head)?;
        let old = self.libraries.remove(&name);
        if let Some(error) = self.libraries.collision(&library) {
            if let Some(old) = old {
                self.libraries.insert(old);
            }
            self.forget_library(&library);
            return Err(error);
        }
        if let Some(old) = old {
            self.forget_library(&old);
        }
        self.libraries.insert(library);
        Ok(name)
    }

    /// Removes a library; returns whether it existed.
    pub fn delete_library(&mut self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name).into_owned();
        let Some(library) = self.libraries.remove(&name) else { return false };
        self.forget_library(&library);
        true
    }

    /// Loads libraries from their sources: all of them or, with an error, none.
    pub fn restore_libraries(&mut self, codes: &[Vec<u8>], policy: RestorePolicy) -> Result<(), String> {
        let mut new = Libraries::default();
        let outcome = self.compile_libraries(codes, &mut new).and_then(|()| {
            if policy == RestorePolicy::Flush { Ok(Libraries::default()) } else { self.others(&new, policy) }
        });
        let mut kept = match outcome {
            Ok(kept) => kept,
            Err(error) => {
                new.iter()
                    .cloned()
                    .collect::<Vec<_>>()
                    .iter()
                    .for_each(|library| self.forget_library(library));
                return Err(error);
            }
        };
        let old: Vec<_> = self.libraries.iter().cloned().collect();
        for library in old.iter().filter(|library| !kept.by_name.contains_key(&library.name)) {
            self.forget_library(library);
        }
        new.iter().cloned().for_each(|library| kept.insert(library));
        self.libraries = kept;
        Ok(())
    }

    fn compile_libraries(&mut self, codes: &[Vec<u8>], new: &mut Libraries) -> Result<(), String> {
        for code in codes {
            let head = library_head(code)?;
            let name = String::from_utf8_lossy(&head.name).into_owned();
            if new.by_name.contains_key(&name) {
                return Err(format!("Library '{name}' already exists"));
            }
            let library = self.compile_library(code, head)?;
            if let Some(error) = new.collision(&library) {
                self.forget_library(&library);
                return Err(error);
            }
            new.insert(library);
        }
        Ok(())
    }

    /// The existing libraries that stay besides the new ones.
    fn others(&self, new: &Libraries, policy: RestorePolicy) -> Result<Libraries, String> {
        let mut kept = self.libraries.clone();
        for library in new.iter() {
            if kept.by_name.contains_key(&library.name) && policy == RestorePolicy::Append {
                return Err(format!("Library {} already exists", library.name));
            }
            kept.remove(&library.name);
        }
        match new.iter().find_map(|library| kept.collision(library)) {
            Some(error) => Err(error),
            None => Ok(kept),
        }
    }

    fn forget_library(&mut self, library: &Library) {
        let mut stack = self.interpreter(Mode::Function).stack();
        library.functions.iter().for_each(|function| stack.forget(function.reference));
    }

    /// Runs a library's code and collects the functions that it registers.
    fn compile_library(&mut self, code: &[u8], head: LibraryHead) -> Result<Library, String> {
        let mut loading = Loading {
            functions: Vec::new(),
            settings: Settings::default(),
            scratch: Scratch::default(),
            random: self.random.clone(),
            clock: Clock::machine(),
            asked_us: 0,
        };
        let mut interpreter = self.take(Mode::Function);
        let mut stack = interpreter.stack();
        environment::exchange_globals(&mut stack, true);
        environment::push_error_handler(&mut stack);
        let source = super::values::until_nul(&code[head.len..]);
        let outcome = if stack.load(source, c"@user_function") {
            let (ended, outcome) = match interpreter.run(0, 1, &mut loading) {
                Progress::Done { interpreter, failed } => (interpreter, failed),
                Progress::Suspended(_) => unreachable!("loading is not suspended"),
            };
            interpreter = ended;
            match outcome {
                true => {
                    let error = error_information(&mut interpreter.stack());
                    let message = crate::error::quoted(&error.message);
                    Err(format!("Error registering functions: {message}"))
                }
                false => Ok(()),
            }
        } else {
            let message = crate::error::quoted(stack.bytes(-1).unwrap_or_default());
            Err(format!("Error compiling function: {message}"))
        };
        let mut stack = interpreter.stack();
        stack.set_top(0);
        environment::exchange_globals(&mut stack, false);
        let library = outcome.and_then(|()| library(code, head, &loading.functions));
        if library.is_err() {
            loading.functions.iter().for_each(|new| stack.forget(new.function));
        }
        self.give_back(Mode::Function, interpreter);
        library
    }
}

fn library(code: &[u8], head: LibraryHead, new: &[NewFunction]) -> Result<Library, String> {
    let mut functions: Vec<Function> = Vec::new();
    for new in new {
        if !is_name(&new.name) {
            let text = "Function names can only contain letters, numbers, or underscores(_) and must be at least one character long";
            return Err(text.into());
        }
        let name: Rc<str> = Rc::from(String::from_utf8_lossy(&new.name));
        if functions.iter().any(|function| function.name == name) {
            return Err("Function already exists in the library".into());
        }
        let (flags, reference) = (new.flags, new.function);
        functions.push(Function { name, description: new.description.clone(), flags, reference });
    }
    if functions.is_empty() {
        return Err("No functions registered".into());
    }
    let name = String::from_utf8_lossy(&head.name).into_owned();
    Ok(Library { name, code: code.to_vec(), functions })
}

/// The [`Caller`] of a library's code while it is loaded: only registering functions is possible.
struct Loading {
    functions: Vec<NewFunction>,
    settings: Settings,
    scratch: Scratch,
    random: Random48,
    /// Started when the code starts.
    clock: Clock,
    asked_us: u64,
}

impl Caller for Loading {
    fn call(&mut self, _: &mut CommandLine, reply: &mut ReplyBuffer) -> bool {
        reply.error("ERR can not run commands while a library is loaded");
        false
    }

    fn may_call(&mut self, _: &CommandLine) -> Option<bool> {
        None
    }

    fn register(&mut self, function: NewFunction) -> Result<(), &'static str> {
        self.functions.push(function);
        Ok(())
    }

    fn interrupt(&mut self) -> Turn {
        let now_us = self.clock.monotonic_us();
        let lasted_us = now_us - std::mem::replace(&mut self.asked_us, now_us);
        let interrupt = match now_us > LOAD_US_MAX {
            true => Interrupt::Kill("ERR FUNCTION LOAD timeout"),
            false => Interrupt::GoOn,
        };
        Turn { interrupt, gives_way: false, lasted_us }
    }

    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn scratch(&mut self) -> &mut Scratch {
        &mut self.scratch
    }

    fn random(&mut self) -> &mut Random48 {
        &mut self.random
    }
}

/// The error of `register_function` outside of FUNCTION LOAD.
pub const REGISTERED_TOO_LATE: &str = "server.register_function can only be called on FUNCTION LOAD command";

/// Reads the arguments of `register_function`.
pub(super) fn read_registration(stack: &mut Stack<'_>) -> Result<NewFunction, &'static str> {
    match stack.top() {
        1 => read_named(stack),
        2 => {
            let name = stack.text(1).ok_or("first argument to server.register_function must be a string")?;
            if stack.kind(2) != Kind::Function {
                return Err("second argument to server.register_function must be a function");
            }
            let function = stack.keep();
            Ok(NewFunction { name, description: None, flags: ScriptFlags::default(), function })
        }
        _ => Err("wrong number of arguments to server.register_function"),
    }
}

fn read_named(stack: &mut Stack<'_>) -> Result<NewFunction, &'static str> {
    if stack.kind(1) != Kind::Table {
        return Err(
            "calling server.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        );
    }
    let (mut name, mut description, mut flags, mut function) = (None, None, ScriptFlags::default(), None);
    stack.push_nil();
    let error = loop {
        if !stack.next(1) {
            break None;
        }
        let Some(key) = stack.text(-2) else {
            break Some("named argument key given to server.register_function is not a string");
        };
        let problem = match key.to_ascii_lowercase().as_slice() {
            b"function_name" => take_text(stack, &mut name)
                .err()
                .map(|()| "function_name argument given to server.register_function must be a string"),
            b"description" => take_text(stack, &mut description)
                .err()
                .map(|()| "description argument given to server.register_function must be a string"),
            b"callback" if stack.kind(-1) == Kind::Function => {
                stack.push_value(-1);
                function = Some(stack.keep());
                None
            }
            b"callback" => Some("callback argument given to server.register_function must be a function"),
            b"flags" if stack.kind(-1) != Kind::Table => {
                Some("flags argument to server.register_function must be a table representing function flags")
            }
            b"flags" => read_flags(stack).map(|read| flags = read).err(),
            _ => Some("unknown argument given to server.register_function"),
        };
        stack.pop(1);
        if problem.is_some() {
            break problem;
        }
    };
    let missing = match (&name, &function) {
        (None, _) => Some("server.register_function must get a function name argument"),
        (_, None) => Some("server.register_function must get a callback argument"),
        _ => None,
    };
    match (error.or(missing), name, function) {
        (None, Some(name), Some(function)) => Ok(NewFunction { name, description, flags, function }),
        (error, _, function) => {
            if let Some(function) = function {
                stack.forget(function);
            }
            Err(error.unwrap_or_default())
        }
    }
}

fn take_text(stack: &mut Stack<'_>, place: &mut Option<Vec<u8>>) -> Result<(), ()> {
    *place = Some(stack.text(-1).ok_or(())?);
    Ok(())
}

fn read_flags(stack: &mut Stack<'_>) -> Result<ScriptFlags, &'static str> {
    let mut flags = ScriptFlags::default();
    for number in 1.. {
        stack.get_element(-1, number);
        let (kind, text) = (stack.kind(-1), stack.text(-1));
        stack.pop(1);
        if kind == Kind::Nil {
            break;
        }
        let text = text.unwrap_or_default();
        let known = ScriptFlags::NAMES.iter().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(&text));
        flags = flags.with(known.ok_or("unknown flag given")?.0);
    }
    Ok(flags)
}
