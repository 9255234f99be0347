//! FUNCTION and FCALL: libraries of functions that clients call by name.

use super::scripting::{KEYS, KEYS_READ, MAY_WRITE, ONLY_READS, end_script, key_count, start};
use crate::command::flag::{ALLOW_BUSY, DENY_OOM, LOADING, NO_SCRIPT, STALE, WRITE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::config::RdbVersionCheck;
use crate::error::{ClientError, quoted};
use crate::script::functions::{Function, Library, RestorePolicy};
use crate::script::{Call, Mode, Running};
use std::rc::Rc;
use wire::rdb::read::split_payload;
use wire::rdb::{Magic, Origin, PayloadWriter, Reader, Writer, accepts_version, opcode};

const COST: &str = "Depends on the function that is executed";
const ON_ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("fcall", -3, Group::Scripting, call)
        .flags(MAY_WRITE)
        .keys(KEYS)
        .since("7.0.0", COST)
        .doc("Calls a function.", "function numkeys [key ...] [arg ...]"),
    Command::new("fcall_ro", -3, Group::Scripting, call_read_only)
        .flags(ONLY_READS)
        .keys(KEYS_READ)
        .since("7.0.0", COST)
        .doc("Calls a function in read-only mode.", "function numkeys [key ...] [arg ...]"),
    Command::new("function", -2, Group::Scripting, super::container)
        .since("7.0.0", "Depends on subcommand")
        .doc("Manages libraries of functions.", "")
        .subcommands(SUBCOMMANDS),
];

const SUBCOMMANDS: &[Command] = &[
    Command::new("function|delete", 3, Group::Scripting, delete)
        .flags(NO_SCRIPT | WRITE)
        .since("7.0.0", "O(1)")
        .doc("Deletes a library.", "library-name")
        .tips(ON_ALL_SHARDS),
    Command::new("function|dump", 2, Group::Scripting, dump)
        .flags(NO_SCRIPT)
        .since("7.0.0", "O(N) where N is the number of functions")
        .doc("Serializes all libraries for FUNCTION RESTORE.", ""),
    Command::new("function|flush", -2, Group::Scripting, flush)
        .flags(NO_SCRIPT | WRITE)
        .since("7.0.0", "O(N) where N is the number of functions deleted")
        .doc("Deletes all libraries.", "[flush-type: ASYNC | SYNC]")
        .tips(ON_ALL_SHARDS),
    Command::new("function|help", 2, Group::Scripting, super::help)
        .flags(LOADING | STALE)
        .since("7.0.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    Command::new("function|kill", 2, Group::Scripting, kill)
        .flags(NO_SCRIPT | ALLOW_BUSY)
        .since("7.0.0", "O(1)")
        .doc("Stops the running function unless it has written.", "")
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    Command::new("function|list", -2, Group::Scripting, list)
        .flags(NO_SCRIPT)
        .since("7.0.0", "O(N) where N is the number of functions")
        .doc("Returns information about all libraries.", "[LIBRARYNAME library-name-pattern] [WITHCODE]")
        .tips(&["nondeterministic_output_order"]),
    Command::new("function|load", -3, Group::Scripting, load)
        .flags(NO_SCRIPT | WRITE | DENY_OOM)
        .since("7.0.0", "O(1) excluding compilation")
        .doc("Creates a library.", "[REPLACE] function-code")
        .tips(ON_ALL_SHARDS),
    Command::new("function|restore", -3, Group::Scripting, restore)
        .flags(NO_SCRIPT | WRITE | DENY_OOM)
        .since("7.0.0", "O(N) where N is the number of functions in the payload")
        .doc("Restores libraries from FUNCTION DUMP.", "serialized-value [policy: FLUSH | APPEND | REPLACE]")
        .tips(ON_ALL_SHARDS),
    Command::new("function|stats", 2, Group::Scripting, stats)
        .flags(NO_SCRIPT | ALLOW_BUSY)
        .since("7.0.0", "O(1)")
        .doc("Returns the running function and counts of functions.", "")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
];

fn call(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, false)
}

fn call_read_only(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, true)
}

fn run(ctx: &mut Context<'_>, args: Args<'_>, read_only: bool) -> Outcome {
    let function = ctx.server.scripts.libraries.function(args.at(1));
    let Function { name, flags, reference, .. } =
        function.ok_or(ClientError::text("ERR Function not found"))?;
    let number = args.integer(2).map_err(|_| ClientError::text("ERR Bad number of keys provided"))?;
    let keys = key_count(args, number)?;
    let (name, flags, function) = (Rc::clone(name), *flags, *reference);
    let call = Call {
        mode: Mode::Function,
        function,
        name,
        keys,
        read_only,
        allows_oom: false,
        crosses_slots: true,
    };
    start(ctx, call, Some(flags))
}

fn load(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let last = args.len() - 1;
    for at in 2..last {
        if !args.is(at, "REPLACE") {
            let option = quoted(args.at(at));
            return Err(ClientError::formatted(format!("ERR Unknown option given: {option}")));
        }
    }
    let loaded = ctx.server.scripts.load_library(args.at(last), last > 2);
    let name = loaded.map_err(|text| ClientError::formatted(format!("ERR {text}")))?;
    ctx.db.change_log.add_dirty(1);
    ctx.reply.bulk(name.as_bytes());
    Ok(())
}

fn dump(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let codes = ctx.server.scripts.libraries.codes();
    let compresses = ctx.server.config.rdbcompression;
    let payload = libraries_payload(codes, compresses, &mut ctx.server.payload_writer);
    ctx.reply.bulk(&payload);
    Ok(())
}

fn libraries_payload<'a>(
    mut codes: impl Iterator<Item = &'a [u8]>,
    compresses: bool,
    writer: &mut PayloadWriter,
) -> Vec<u8> {
    let write = |writer: &mut Writer<std::io::Sink>| {
        codes.try_for_each(|code| {
            writer.byte(opcode::FUNCTION_2)?;
            writer.string(code)
        })
    };
    writer.make(compresses, write, std::mem::take)
}

fn restore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 4 {
        let subcommand = quoted(args.at(1));
        return Err(ClientError::SubcommandSyntax { command: "FUNCTION", subcommand });
    }
    let policy = match args.get(3).map(<[u8]>::to_ascii_uppercase).as_deref() {
        None | Some(b"APPEND") => RestorePolicy::Append,
        Some(b"REPLACE") => RestorePolicy::Replace,
        Some(b"FLUSH") => RestorePolicy::Flush,
        Some(_) => {
            return Err(ClientError::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let strict = ctx.server.config.rdb_version_check == RdbVersionCheck::Strict;
    let (body, version) = split_payload(args.at(2))
        .filter(|&(_, version)| accepts_version(version, Magic::Absent, strict))
        .ok_or(ClientError::text("ERR DUMP payload version or checksum are wrong"))?;
    let codes = libraries_of(body).map_err(ClientError::text)?;
    let restored = ctx.server.scripts.restore_libraries(&codes, policy);
    restored.map_err(|text| ClientError::formatted(format!("ERR {text}")))?;
    ctx.db.change_log.add_dirty(1);
    if Origin::of(Magic::Absent, version) == Origin::Redis && ctx.db.change_log.is_recording() {
        // Replicas and readers of the append-only file may not accept a payload of Redis.
        let compresses = ctx.server.config.rdbcompression;
        let codes = codes.iter().map(Vec::as_slice);
        let payload = libraries_payload(codes, compresses, &mut ctx.server.payload_writer);
        let mut arguments: Vec<&[u8]> = args.iter().collect();
        arguments[2] = &payload;
        ctx.db.propagate_as(&arguments);
    }
    ctx.reply.ok();
    Ok(())
}

/// The sources of the libraries in a payload.
fn libraries_of(body: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut reader = Reader::of_bytes(body);
    let mut codes = Vec::new();
    while !reader.is_at_end().unwrap_or(true) {
        match reader.byte() {
            Ok(opcode::FUNCTION_2) => {}
            Ok(opcode::FUNCTION_PRE_GA) => return Err("ERR Pre-GA function format not supported"),
            Ok(_) => return Err("ERR given type is not a function"),
            Err(_) => return Err("ERR can not read data type"),
        }
        let code = reader.string().map_err(|_| "ERR failed loading the given functions payload")?;
        codes.push(code.to_vec());
    }
    Ok(codes)
}

fn delete(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !ctx.server.scripts.delete_library(args.at(2)) {
        return Err(ClientError::text("ERR Library not found"));
    }
    ctx.db.change_log.add_dirty(1);
    ctx.reply.ok();
    Ok(())
}

fn flush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        let subcommand = quoted(args.at(1));
        return Err(ClientError::SubcommandSyntax { command: "FUNCTION", subcommand });
    }
    if args.len() == 3 && !args.is(2, "ASYNC") && !args.is(2, "SYNC") {
        return Err(ClientError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    ctx.server.scripts.flush_functions();
    ctx.db.change_log.add_dirty(1);
    ctx.reply.ok();
    Ok(())
}

fn kill(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    end_script(ctx, Mode::Function)
}

fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut at = 2;
    while at < args.len() {
        if !with_code && args.is(at, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && args.is(at, "LIBRARYNAME") {
            at += 1;
            let missing = ClientError::text("ERR library name argument was not given");
            pattern = Some(args.get(at).ok_or(missing)?);
        } else {
            let word = quoted(args.at(at));
            return Err(ClientError::formatted(format!("ERR Unknown argument {word}")));
        }
        at += 1;
    }
    let wanted = |library: &&Library| {
        pattern.is_none_or(|pattern| wire::glob::matches_ignoring_case(pattern, library.name.as_bytes()))
    };
    let libraries: Vec<_> = ctx.server.scripts.libraries.iter().filter(wanted).collect();
    ctx.reply.array(libraries.len());
    for library in libraries {
        describe(ctx.reply, library, with_code);
    }
    Ok(())
}

fn describe(reply: &mut wire::reply::ReplyBuffer, library: &Library, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        reply.bulk_or_null(function.description.as_deref());
        reply.bulk(b"flags");
        let names = function.flags.names();
        reply.set(names.clone().count());
        names.for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

fn stats(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let scripts = &ctx.server.scripts;
    if let Some(Running { call: Call { mode: Mode::Eval, .. }, .. }) = &scripts.running {
        return Err(ctx.server.slow_script_error().unwrap_or(ClientError::Syntax));
    }
    ctx.reply.map(2);
    ctx.reply.bulk(b"running_script");
    match &scripts.running {
        None => ctx.reply.null(),
        Some(running) => {
            ctx.reply.map(3);
            ctx.reply.bulk(b"name");
            ctx.reply.bulk(running.call.name.as_bytes());
            ctx.reply.bulk(b"command");
            ctx.reply.array(running.command.len());
            running.command.iter().for_each(|word| ctx.reply.bulk(word));
            ctx.reply.bulk(b"duration_ms");
            let elapsed_us = ctx.server.now.monotonic_us.saturating_sub(running.started_us);
            ctx.reply.count(elapsed_us / 1000);
        }
    }
    ctx.reply.bulk(b"engines");
    ctx.reply.map(1);
    ctx.reply.bulk(b"LUA");
    ctx.reply.map(2);
    ctx.reply.bulk(b"libraries_count");
    ctx.reply.count(scripts.libraries.len());
    ctx.reply.bulk(b"functions_count");
    ctx.reply.count(scripts.libraries.functions_len());
    Ok(())
}
