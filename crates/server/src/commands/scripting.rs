//! EVAL and similar commands, and SCRIPT: scripts by their text or their digest.

use crate::command::flag::{
    ALLOW_BUSY, LOADING, MAY_REPLICATE, NO_MANDATORY_KEYS, NO_SCRIPT, READONLY, SKIP_MONITOR, STALE,
};
use crate::command::{Args, Command, Context, Group, KeySpec, Next, Outcome, access};
use crate::error::ClientError;
use crate::script::flags::ScriptFlags;
use crate::script::{Call, Mode};
use std::rc::Rc;
use wire::convert::signed_len;

const RUNS: u32 = NO_SCRIPT | SKIP_MONITOR | NO_MANDATORY_KEYS | STALE;
pub(super) const MAY_WRITE: u32 = RUNS | MAY_REPLICATE;
pub(super) const ONLY_READS: u32 = RUNS | READONLY;
const USED: KeySpec = KeySpec::counted(2, access::RW | access::ACCESS | access::UPDATE);
const READ: KeySpec = KeySpec::counted(2, access::RO | access::ACCESS);
pub(super) const KEYS: &[KeySpec] = &[USED.noted("the script determines the access to the keys")];
pub(super) const KEYS_READ: &[KeySpec] = &[READ.noted("the script determines which keys are read")];
const COST: &str = "Depends on the script that is executed";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("eval", -3, Group::Scripting, eval)
        .flags(MAY_WRITE)
        .keys(KEYS)
        .since("2.6.0", COST)
        .doc("Runs a script.", "script numkeys [key ...] [arg ...]"),
    Command::new("eval_ro", -3, Group::Scripting, eval_read_only)
        .flags(ONLY_READS)
        .keys(KEYS_READ)
        .since("7.0.0", COST)
        .doc("Runs a script in read-only mode.", "script numkeys [key ...] [arg ...]"),
    Command::new("evalsha", -3, Group::Scripting, eval_digest)
        .flags(MAY_WRITE)
        .keys(&[USED])
        .since("2.6.0", COST)
        .doc("Runs a cached script by its SHA1 digest.", "sha1 numkeys [key ...] [arg ...]"),
    Command::new("evalsha_ro", -3, Group::Scripting, eval_digest_read_only)
        .flags(ONLY_READS)
        .keys(&[READ])
        .since("7.0.0", COST)
        .doc(
            "Runs a cached script by its SHA1 digest in read-only mode.",
            "sha1 numkeys [key ...] [arg ...]",
        ),
    Command::new("script", -2, Group::Scripting, super::container)
        .since("2.6.0", "Depends on subcommand")
        .doc("Manages cached scripts.", "")
        .subcommands(SUBCOMMANDS),
];

const SUBCOMMANDS: &[Command] = &[
    Command::new("script|exists", -3, Group::Scripting, exists)
        .flags(NO_SCRIPT | STALE)
        .since(
            "2.6.0",
            "O(N) where N is the number of scripts to check (so checking a single script is an O(1) operation)",
        )
        .doc("Returns which scripts are cached.", "sha1 ...")
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]),
    Command::new("script|flush", -2, Group::Scripting, flush)
        .flags(NO_SCRIPT | STALE)
        .since("2.6.0", "O(N) where N is the number of scripts in cache")
        .doc("Removes all cached scripts.", "[flush-type@6.2.0: ASYNC | SYNC]").history(&[("6.2.0", "`ASYNC` and `SYNC`.")])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    Command::new("script|help", 2, Group::Scripting, super::help)
        .flags(LOADING | STALE)
        .since("5.0.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    Command::new("script|kill", 2, Group::Scripting, kill)
        .flags(NO_SCRIPT | ALLOW_BUSY)
        .since("2.6.0", "O(1)")
        .doc("Stops the running script unless it has written.", "")
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    Command::new("script|load", 3, Group::Scripting, load)
        .flags(NO_SCRIPT | STALE)
        .since("2.6.0", "O(N) where N is the length in bytes of the script body")
        .doc("Caches a script for EVALSHA.", "script")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    Command::new("script|show", 3, Group::Scripting, show)
        .flags(NO_SCRIPT | STALE)
        .since("8.0.0", "O(1)")
        .doc("Returns the text of a cached script.", "sha1"),
];

const NO_SUCH_SCRIPT: ClientError = ClientError::text("NOSCRIPT No matching script.");

fn eval(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, false, false)
}

fn eval_read_only(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, false, true)
}

fn eval_digest(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, true, false)
}

fn eval_digest_read_only(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, true, true)
}

fn run(ctx: &mut Context<'_>, args: Args<'_>, by_digest: bool, read_only: bool) -> Outcome {
    if by_digest && args.at(1).len() != 40 {
        return Err(NO_SUCH_SCRIPT);
    }
    let keys = key_count(args, args.integer(2)?)?;
    let scripts = &mut ctx.server.scripts;
    let at = match by_digest {
        true => scripts.cache.find_digest(args.at(1)).ok_or(NO_SUCH_SCRIPT)?,
        false => scripts.load(args.at(1), false).map_err(loading_error)?,
    };
    scripts.cache.touch(at);
    let script = scripts.cache.get(at);
    let (function, flags) = (script.function, script.flags);
    let name = Rc::clone(&script.digest);
    let call =
        Call { mode: Mode::Eval, function, name, keys, read_only, allows_oom: false, crosses_slots: true };
    start(ctx, call, flags)
}

fn loading_error(text: String) -> ClientError {
    ClientError::formatted(format!("ERR {text}"))
}

/// The number of keys, checked against the number of arguments.
pub(super) fn key_count(args: Args<'_>, number: i64) -> Result<usize, ClientError> {
    if number > signed_len(args.len()) - 3 {
        return Err(ClientError::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(number).map_err(|_| ClientError::text("ERR Number of keys can't be negative"))
}

/// Requests to run the script, unless its flags forbid that now.
pub(super) fn start(ctx: &mut Context<'_>, mut call: Call, flags: Option<ScriptFlags>) -> Outcome {
    if let Some(flags) = flags {
        let writes = !flags.has(ScriptFlags::NO_WRITES);
        if writes && call.read_only {
            return Err(ClientError::text(
                "ERR Can not execute a script with write flag using *_ro command.",
            ));
        }
        call.allows_oom = flags.has(ScriptFlags::ALLOW_OOM);
        if ctx.server.short_of_memory && writes && !call.allows_oom {
            return Err(ClientError::text(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
            ));
        }
        let is_replica = ctx.server.config.replicaof.is_some() && ctx.server.config.replica_read_only;
        if writes && is_replica && !ctx.server.clients[ctx.client].is_primary {
            return Err(ClientError::text("READONLY Can not run script with write flag on readonly replica"));
        }
        if ctx.server.cluster.is_some() && flags.has(ScriptFlags::NO_CLUSTER) {
            return Err(ClientError::text("ERR Can not run script on cluster, 'no-cluster' flag is set."));
        }
        call.crosses_slots = flags.has(ScriptFlags::ALLOW_CROSS_SLOT);
        call.read_only |= !writes;
    }
    ctx.next = Next::RunScript(Box::new(call));
    Ok(())
}

fn load(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let scripts = &mut ctx.server.scripts;
    let at = scripts.load(args.at(2), true).map_err(loading_error)?;
    ctx.reply.bulk(scripts.cache.get(at).digest.as_bytes());
    Ok(())
}

fn exists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.array(args.len() - 2);
    for digest in args.from(2).iter() {
        let found = ctx.server.scripts.cache.find_digest(digest).is_some();
        ctx.reply.integer(i64::from(found));
    }
    Ok(())
}

fn show(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cache = &ctx.server.scripts.cache;
    let at = cache.find_digest(args.at(2)).ok_or(NO_SUCH_SCRIPT)?;
    ctx.reply.bulk(&cache.get(at).body);
    Ok(())
}

fn flush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 || args.len() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
        return Err(ClientError::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    ctx.server.scripts.flush_cache();
    ctx.reply.ok();
    Ok(())
}

fn kill(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    end_script(ctx, Mode::Eval)
}

/// Kills the running script, if it is of this kind.
pub(super) fn end_script(ctx: &mut Context<'_>, mode: Mode) -> Outcome {
    let error = ctx.server.slow_script_error();
    let Some(running) = &mut ctx.server.scripts.running else {
        return Err(ClientError::text("NOTBUSY No scripts in execution right now."));
    };
    if running.is_streamed {
        return Err(ClientError::text(
            "UNKILLABLE The busy script was sent by a master instance in the context of replication and cannot be killed.",
        ));
    }
    if running.wrote {
        return Err(ClientError::text(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        ));
    }
    match error {
        Some(error) if running.call.mode != mode => Err(error),
        _ => {
            running.killed = true;
            let command = if mode == Mode::Eval { "SCRIPT KILL" } else { "FUNCTION KILL" };
            log::info!("Script killed by user with {command}.");
            ctx.reply.ok();
            Ok(())
        }
    }
}
