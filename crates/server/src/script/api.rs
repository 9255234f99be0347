//! The functions of the `server` table (and `redis`, its alias), and replacements for functions of Lua's own.

use super::functions::NewFunction;
use super::numbers::{RANDOM_MAX, push_argument_text};
use super::values::{push_error, push_reply, until_nul};
use super::{CommandLine, Kind, MESSAGE_BYTES_MAX, PIECE_BYTES, REPLICATE_ALL, Raise, Stack, cache};
use crate::sys::lua::{Native, truncated};
use wire::convert::{low_i32, low_u8};
use wire::reply::Protocol;

type Functions = &'static [(&'static str, Native<dyn super::Caller>)];

/// Available to scripts and functions.
pub const FUNCTIONS: Functions = &[
    ("call", call),
    ("pcall", call_protected),
    ("setresp", set_protocol),
    ("sha1hex", sha1),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("set_repl", set_replication),
    ("acl_check_cmd", check_command),
];

/// Available to scripts of EVAL only, for compatibility: they have no effect any more.
pub const EVAL_FUNCTIONS: Functions = &[
    ("breakpoint", |stack| answer(stack, false)),
    ("debug", |_| Ok(0)),
    ("replicate_commands", |stack| answer(stack, true)),
];

/// The constants for `server.set_repl`.
pub const REPLICATION_FLAGS: &[(&str, u8)] =
    &[("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", REPLICATE_ALL)];

/// The constants for `server.log`.
pub const LOG_LEVELS: &[(&str, u8)] =
    &[("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];

fn answer(stack: &mut Stack<'_>, value: bool) -> Result<usize, Raise> {
    stack.push_boolean(value);
    Ok(1)
}

/// Pushes an error's table and raises it.
fn fail(stack: &mut Stack<'_>, text: &str) -> Raise {
    push_error(stack, text.as_bytes());
    Raise::Value
}

fn call(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    run_command(stack, true)
}

fn call_protected(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    run_command(stack, false)
}

/// Runs the command in the arguments. Its error is raised if `raises`, else it is the result.
fn run_command(stack: &mut Stack<'_>, raises: bool) -> Result<usize, Raise> {
    let mut scratch = std::mem::take(stack.host().scratch());
    let mut is_expired = false;
    let failed = match read_arguments(stack, &mut scratch.command) {
        Ok(()) => {
            stack.set_top(0);
            scratch.reply.clear();
            let host = stack.host();
            scratch.reply.protocol = host.settings().protocol;
            is_expired = host.call(&mut scratch.command, &mut scratch.reply);
            if let Err(raised) = push_reply(stack, scratch.reply.read_back()) {
                *stack.host().scratch() = scratch;
                return Err(raised);
            }
            scratch.reply.byte_at(0) == Some(b'-')
        }
        Err(text) => {
            push_error(stack, text.as_bytes());
            true
        }
    };
    *stack.host().scratch() = scratch;
    if is_expired {
        stack.checkpoint()?;
    }
    if failed && raises { Err(Raise::Value) } else { Ok(1) }
}

/// The default limit of a client's request.
const COMMAND_BYTES_MAX: usize = 1 << 30;

fn read_arguments(stack: &mut Stack<'_>, command: &mut CommandLine) -> Result<(), &'static str> {
    command.clear();
    let count = stack.top();
    if count == 0 {
        return Err("Please specify at least one argument for this call");
    }
    for index in 1..=count {
        match stack.kind(index) {
            Kind::Number => {
                let start = command.buffer.len();
                push_argument_text(&mut command.buffer, stack.number(index).unwrap_or_default());
                command.close_argument(start);
            }
            _ => match stack.bytes(index) {
                Some(argument) if command.buffer.len() + argument.len() > COMMAND_BYTES_MAX => {
                    stack.count_bytes(command.buffer.len());
                    return Err("Command is too large");
                }
                Some(argument) if argument.len() <= PIECE_BYTES => command.push(argument),
                Some(_) => {
                    let start = command.buffer.len();
                    stack.append_bytes(index, &mut command.buffer);
                    command.close_argument(start);
                }
                None => return Err("Command arguments must be strings or integers"),
            },
        }
    }
    stack.count_bytes(command.buffer.len());
    Ok(())
}

fn check_command(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let mut command = CommandLine::default();
    if let Err(text) = read_arguments(stack, &mut command) {
        drop(command);
        return Err(fail(stack, text));
    }
    match stack.host().may_call(&command) {
        Some(allowed) => answer(stack, allowed),
        None => Err(fail(stack, "Invalid command passed to server.acl_check_cmd()")),
    }
}

fn set_protocol(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if stack.top() != 1 {
        return Err(fail(stack, "server.setresp() requires one argument."));
    }
    stack.host().settings().protocol = match truncated(stack.number(1).unwrap_or_default()) {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(fail(stack, "RESP version must be 2 or 3.")),
    };
    Ok(0)
}

fn sha1(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if stack.top() != 1 {
        return Err(fail(stack, "wrong number of arguments"));
    }
    let text = stack.text(1).unwrap_or_default();
    let pieces = text.chunks(PIECE_BYTES).inspect(|piece| stack.count_bytes(piece.len()));
    let digest = cache::sha1_text_of(pieces);
    stack.push_bytes(&digest);
    Ok(1)
}

fn error_reply(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if !is_only_string(stack) {
        return Ok(1);
    }
    let text = stack.text_up_to(1, MESSAGE_BYTES_MAX).unwrap_or_default();
    let text = until_nul(&text);
    match text.starts_with(b"-") {
        true => push_error(stack, text),
        false => push_error(stack, &[b"-", text].concat()),
    }
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if !is_only_string(stack) {
        return Ok(1);
    }
    stack.push_table(0, 1);
    stack.push_value(1);
    stack.set_field(-2, "ok");
    Ok(1)
}

/// Whether the only argument is a string; if not, pushes an error table.
fn is_only_string(stack: &mut Stack<'_>) -> bool {
    let is_only = stack.top() == 1 && stack.kind(1) == Kind::String;
    if !is_only {
        push_error(stack, b"wrong number or type of arguments");
    }
    is_only
}

fn set_replication(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if stack.top() != 1 {
        return Err(fail(stack, "server.set_repl() requires one argument."));
    }
    let flags = truncated(stack.number(1).unwrap_or_default());
    if flags & !i64::from(REPLICATE_ALL) != 0 {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(fail(stack, text));
    }
    stack.host().settings().replication = low_u8(flags as u64);
    Ok(0)
}

/// `server.log(level, text, ...)`.
pub fn log(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let count = stack.top();
    if count < 2 {
        return Err(fail(stack, "server.log() requires two arguments or more."));
    }
    let Some(level) = stack.number(1) else {
        return Err(fail(stack, "First argument must be a number (log level)."));
    };
    let level = match truncated(level) {
        0 => log::Level::Trace,
        1 => log::Level::Debug,
        2 => log::Level::Info,
        3 => log::Level::Warn,
        _ => return Err(fail(stack, "Invalid log level.")),
    };
    let mut line = Vec::new();
    for index in 2..=count {
        if let Some(text) = stack.text_up_to(index, MESSAGE_BYTES_MAX.saturating_sub(line.len())) {
            line.extend(if line.is_empty() { &b""[..] } else { b" " });
            line.extend(text);
        }
    }
    log::log!(level, "{}", String::from_utf8_lossy(&line));
    Ok(0)
}

/// Lua's `pcall`, but an error table is returned as its text, for compatibility: errors used to be strings.
pub fn protected_call(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let arguments = stack.top() - 1;
    if arguments < 0 {
        return Err(stack.argument_error(1, "value expected"));
    }
    let succeeded = stack.call(arguments);
    if !succeeded && stack.kind(-1) == Kind::Table {
        stack.get_field(-1, "err");
        if matches!(stack.kind(-1), Kind::String | Kind::Number) {
            stack.remove(-2);
        } else {
            stack.pop(1);
        }
    }
    if !stack.reserve(2) {
        stack.set_top(0);
        return Err(stack.error("too many results to pcall"));
    }
    stack.push_boolean(succeeded);
    stack.insert(1);
    Ok(stack.top() as usize)
}

/// `math.random`, with a generator that gives the same sequence on every machine.
pub fn random(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let drawn = f64::from(stack.host().random().draw() % RANDOM_MAX) / f64::from(RANDOM_MAX);
    let int = |stack: &mut Stack<'_>, argument| stack.integer_argument(argument).map(low_i32);
    let number = match stack.top() {
        0 => drawn,
        1 => {
            let max = int(stack, 1)?;
            if max < 1 {
                return Err(stack.argument_error(1, "interval is empty"));
            }
            (drawn * f64::from(max)).floor() + 1.0
        }
        2 => {
            let (min, max) = (int(stack, 1)?, int(stack, 2)?);
            if min > max {
                return Err(stack.argument_error(2, "interval is empty"));
            }
            (drawn * f64::from(max.wrapping_sub(min).wrapping_add(1))).floor() + f64::from(min)
        }
        _ => return Err(stack.error("wrong number of arguments")),
    };
    stack.push_number(number);
    Ok(1)
}

/// `math.randomseed`.
pub fn random_seed(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let seed = low_i32(stack.integer_argument(1)?);
    stack.host().random().seed(seed);
    Ok(0)
}

/// `server.register_function`, with named arguments in one table or with a name and a function.
pub fn register_function(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    let new = match super::functions::read_registration(stack) {
        Ok(new) => new,
        Err(text) => return Err(fail(stack, text)),
    };
    let NewFunction { function, .. } = new;
    match stack.host().register(new) {
        Ok(()) => Ok(0),
        Err(text) => {
            stack.forget(function);
            Err(fail(stack, text))
        }
    }
}
