//! SLOWLOG and COMMANDLOG: slow and large commands.

use super::latency::show_stages;
use crate::command::flag::{ADMIN, LOADING, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::error::{ClientError, quoted};
use crate::observe::command_log::LogKind;

const READ_TIPS: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const LEN_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"];
const RESET_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const KINDS: &str = "slow | large-request | large-reply";

/// The number of entries that SLOWLOG GET shows by default.
const SHOWN_BY_DEFAULT: usize = 10;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("commandlog", -2, Group::Server, super::container)
        .since("8.1.0", "Depends on subcommand.")
        .doc("Shows slow and large commands.", "")
        .subcommands(&[
            Command::new("commandlog|get", 4, Group::Server, get)
                .flags(ADMIN | LOADING | STALE)
                .since("8.1.0", "O(N) where N is the number of entries returned")
                .doc(
                    "Returns the latest entries of a command log; a count of -1 returns all.",
                    "count <type: SLOW | LARGE-REQUEST | LARGE-REPLY>",
                )
                .tips(READ_TIPS),
            Command::new("commandlog|help", 2, Group::Server, super::help)
                .flags(LOADING | STALE)
                .since("8.1.0", "O(1)")
                .doc("Lists the subcommands.", ""),
            Command::new("commandlog|len", 3, Group::Server, len)
                .flags(ADMIN | LOADING | STALE)
                .since("8.1.0", "O(1)")
                .doc(
                    "Returns the number of entries in a command log.",
                    "<type: SLOW | LARGE-REQUEST | LARGE-REPLY>",
                )
                .tips(LEN_TIPS),
            Command::new("commandlog|reset", 3, Group::Server, reset)
                .flags(ADMIN | LOADING | STALE)
                .since("8.1.0", "O(N) where N is the number of entries in the commandlog")
                .doc("Clears a command log.", "<type: SLOW | LARGE-REQUEST | LARGE-REPLY>")
                .tips(RESET_TIPS),
        ]),
    Command::new("slowlog", -2, Group::Server, super::container)
        .since("2.2.12", "Depends on subcommand.")
        .doc("Shows slow commands.", "")
        .subcommands(&[
            Command::new("slowlog|get", -2, Group::Server, slow_get)
                .flags(ADMIN | LOADING | STALE)
                .since("2.2.12", "O(N) where N is the number of entries returned")
                .doc("Returns the latest slow commands; a count of -1 returns all.", "[count] [STAGES]")
                .history(&[("4.0.0", "Address and name of the client.")])
                .tips(READ_TIPS),
            Command::new("slowlog|help", 2, Group::Server, super::help)
                .flags(LOADING | STALE)
                .since("6.2.0", "O(1)")
                .doc("Lists the subcommands.", ""),
            Command::new("slowlog|len", 2, Group::Server, slow_len)
                .flags(ADMIN | LOADING | STALE)
                .since("2.2.12", "O(1)")
                .doc("Returns the number of entries in the slow log.", "")
                .tips(LEN_TIPS),
            Command::new("slowlog|reset", 2, Group::Server, slow_reset)
                .flags(ADMIN | LOADING | STALE)
                .since("2.2.12", "O(N) where N is the number of entries in the slowlog")
                .doc("Clears the slow log.", "")
                .tips(RESET_TIPS),
        ]),
];

fn kind_named(word: &[u8]) -> Result<LogKind, ClientError> {
    let kinds = KINDS.split(" | ").zip([LogKind::Slow, LogKind::LargeRequest, LogKind::LargeReply]);
    let mut matching = kinds.filter(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    matching
        .next()
        .map(|(_, kind)| kind)
        .ok_or(ClientError::text("ERR type should be one of the following: slow, large-request, large-reply"))
}

/// A number of entries; `None` is all of them.
fn count_at(args: Args<'_>, index: usize) -> Result<Option<usize>, ClientError> {
    let refusal = ClientError::text("ERR count should be greater than or equal to -1");
    let count = args.integer_in(index, -1, i64::MAX, refusal)?;
    Ok(usize::try_from(count).ok())
}

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = count_at(args, 2)?;
    show(ctx, kind_named(args.at(3))?, count.unwrap_or(usize::MAX), false);
    Ok(())
}

fn slow_get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let with_stages = args.len() > 2 && args.is(args.len() - 1, "STAGES");
    let count = match args.len() - usize::from(with_stages) {
        2 => SHOWN_BY_DEFAULT,
        3 => count_at(args, 2)?.unwrap_or(usize::MAX),
        _ => {
            return Err(ClientError::SubcommandSyntax { command: "SLOWLOG", subcommand: quoted(args.at(1)) });
        }
    };
    show(ctx, LogKind::Slow, count, with_stages);
    Ok(())
}

/// With stages, an entry has a seventh field: the stages of the request's time, empty if it was not traced.
fn show(ctx: &mut Context<'_>, kind: LogKind, count: usize, with_stages: bool) {
    let log = ctx.server.observed.command_logs.log(kind);
    let reply = &mut *ctx.reply;
    reply.array(log.len().min(count));
    for entry in log.entries().take(count) {
        reply.array(if with_stages { 7 } else { 6 });
        reply.count(entry.id);
        reply.integer(entry.unix_s);
        reply.count(entry.value);
        reply.array(entry.args.len());
        for arg in &entry.args {
            reply.bulk(arg);
        }
        reply.bulk(entry.client_address.as_bytes());
        reply.bulk(&entry.client_name);
        match entry.stages.filter(|_| with_stages) {
            Some(stages) => show_stages(reply, stages),
            None if with_stages => reply.map(0),
            None => {}
        }
    }
}

fn len(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let kind = kind_named(args.at(2))?;
    ctx.reply.count(ctx.server.observed.command_logs.log(kind).len());
    Ok(())
}

fn reset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let kind = kind_named(args.at(2))?;
    ctx.server.observed.command_logs.log_mut(kind).clear();
    ctx.reply.ok();
    Ok(())
}

fn slow_len(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.count(ctx.server.observed.command_logs.log(LogKind::Slow).len());
    Ok(())
}

fn slow_reset(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.server.observed.command_logs.log_mut(LogKind::Slow).clear();
    ctx.reply.ok();
    Ok(())
}
