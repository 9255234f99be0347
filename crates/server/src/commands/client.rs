//! CLIENT: information about connections, and changes to one's own and others'.

mod filter;
mod others;
mod tracking;

use crate::command::flag::{ADMIN, ALLOW_BUSY, KEEPS_CACHING, LOADING, NO_MULTI, NO_SCRIPT, SENTINEL, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::error::{ClientError, quoted};
use crate::session::ReplyMode;
use filter::Filter;

/// Flags of nearly all subcommands.
const COMMON: u32 = NO_SCRIPT | LOADING | STALE | KEEPS_CACHING;

const fn row(name: &'static str, arity: i32, handler: crate::command::Handler) -> Command {
    Command::new(name, arity, Group::Connection, handler).flags(COMMON | ALLOW_BUSY)
}

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("client", -2, Group::Connection, super::container)
    .flags(SENTINEL)
    .since("2.4.0", "Depends on subcommand.")
    .doc("Shows and controls client connections.", "")
    .subcommands(SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    row("client|caching", 3, tracking::caching)
        .since("6.0.0", "O(1)")
        .doc("Sets whether the keys of the next command are tracked.", "<mode: YES | NO>"),
    row("client|capa", -3, capa)
        .since("8.0.0", "O(1)")
        .doc("Declares capabilities of the client.", "capability ..."),
    row("client|getname", 2, get_name).since("2.6.9", "O(1)").doc("Returns the connection's name.", ""),
    row("client|getredir", 2, tracking::get_redirection)
        .since("6.0.0", "O(1)")
        .doc("Returns the client that receives this connection's invalidations.", ""),
    Command::new("client|help", 2, Group::Connection, super::help)
        .flags(LOADING | STALE | KEEPS_CACHING)
        .since("5.0.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    row("client|id", 2, id).since("5.0.0", "O(1)").doc("Returns the connection's id.", ""),
    row("client|import-source", 3, import_source)
        .flags(COMMON)
        .since("8.1.0", "O(1)")
        .doc("Marks the connection as a source of imported data.", "<enabled: ON | OFF>"),
    row("client|info", 2, info)
        .flags(COMMON)
        .since("6.2.0", "O(1)")
        .doc("Returns information about this connection.", "")
        .tips(&["nondeterministic_output"]),
    row("client|kill", -3, others::kill)
        .flags(COMMON | ADMIN)
        .since("2.4.0", "O(N) where N is the number of client connections")
        .doc("Closes connections.", others::KILL_SYNTAX).history(&[("2.8.12", "Filters other than the address."), ("2.8.12", "`ID`."), ("3.2.0", "`TYPE` accepts `master`."), ("5.0.0", "`TYPE` accepts `replica`; `slave` is still accepted."), ("6.2.0", "`LADDR`."), ("8.0.0", "`MAXAGE`."), ("8.0.0", "`TYPE` accepts `primary`; `master` is still accepted."), ("8.1.0", "`ID` accepts several ids."), ("9.0.0", "`NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA`, `IP`, and filters that begin with `NOT-`.")]),
    row("client|list", -2, list)
        .flags(COMMON | ADMIN)
        .since("2.4.0", "O(N) where N is the number of client connections")
        .doc("Lists connections, one per line.", others::LIST_SYNTAX).history(&[("2.8.12", "Shows `id`."), ("5.0.0", "`TYPE`."), ("6.0.0", "Shows `user`."), ("6.2.0", "`ID`; shows `argv-mem`, `tot-mem`, `laddr` and `redir`."), ("7.0.0", "Shows `resp`, `multi-mem`, `rbs` and `rbp`."), ("7.0.3", "Shows `ssub`."), ("8.0.0", "`TYPE` accepts `primary`; `master` is still accepted."), ("8.1.0", "`USER`, `ADDR`, `LADDR`, `SKIPME`, `MAXAGE`."), ("9.0.0", "`NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA`, `IP`, and filters that begin with `NOT-`.")])
        .tips(&["nondeterministic_output"]),
    row("client|no-evict", 3, no_evict)
        .flags(COMMON | ADMIN | ALLOW_BUSY)
        .since("7.0.0", "O(1)")
        .doc("Exempts the connection from client eviction.", "<enabled: ON | OFF>"),
    row("client|no-touch", 3, no_touch)
        .since("7.2.0", "O(1)")
        .doc("Sets whether this connection's commands update access times of keys.", "<enabled: ON | OFF>"),
    row("client|pause", -3, others::pause)
        .flags(COMMON | ADMIN)
        .since("3.0.0", "O(1)")
        .doc("Suspends the commands of all clients for some time.", "timeout:integer [mode@6.2.0: WRITE | ALL]").history(&[("6.2.0", "`WRITE` and `ALL`.")]),
    row("client|reply", 3, reply)
        .flags(COMMON | ALLOW_BUSY | NO_MULTI)
        .since("3.2.0", "O(1)")
        .doc("Sets which replies the connection receives.", "<action: ON | OFF | SKIP>"),
    row("client|setinfo", 4, set_info)
        .since("7.2.0", "O(1)")
        .doc("Sets the name and version of the client's library.", "<attr: LIB-NAME libname | LIB-VER libver>")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    row("client|setname", 3, set_name)
        .since("2.6.9", "O(1)")
        .doc("Sets the connection's name.", "connection-name")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    row("client|tracking", -3, tracking::tracking)
        .flags(COMMON)
        .since("6.0.0", "O(1). Some options may introduce additional complexity.")
        .doc("Enables or disables invalidation messages for client-side caching.", tracking::SYNTAX),
    row("client|trackinginfo", 2, tracking::info)
        .flags(COMMON)
        .since("6.2.0", "O(1)")
        .doc("Returns how this connection tracks keys.", ""),
    row("client|unblock", -3, others::unblock)
        .flags(COMMON | ADMIN)
        .since("5.0.0", "O(log N) where N is the number of client connections")
        .doc("Unblocks another client that is blocked.", "client-id [unblock-type: TIMEOUT | ERROR]"),
    row("client|unpause", 2, others::unpause)
        .flags(COMMON | ADMIN)
        .since("6.2.0", "O(N) where N is the number of paused clients")
        .doc("Resumes the commands of clients that were suspended.", ""),
];

/// `ON` or `OFF`.
fn on_or_off(args: Args<'_>, index: usize) -> Result<bool, ClientError> {
    match () {
        () if args.is(index, "ON") => Ok(true),
        () if args.is(index, "OFF") => Ok(false),
        () => Err(ClientError::Syntax),
    }
}

fn capa(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    // Unknown capabilities are ignored, as they can be of later versions.
    if (2..args.len()).any(|at| args.is(at, "REDIRECT")) {
        ctx.server.clients[ctx.client].capabilities_redirect = true;
    }
    ctx.reply.ok();
    Ok(())
}

fn get_name(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let name = &ctx.server.clients[ctx.client].name;
    ctx.reply.bulk_or_null((!name.is_empty()).then_some(name));
    Ok(())
}

fn set_name(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    super::connection::check_name(args.at(2), "Client names")?;
    ctx.server.clients[ctx.client].name = args.at(2).to_vec();
    ctx.reply.ok();
    Ok(())
}

fn set_info(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let option = quoted(args.at(2));
    let client = &mut ctx.server.clients[ctx.client];
    let field = match () {
        () if args.is(2, "LIB-NAME") => &mut client.library.name,
        () if args.is(2, "LIB-VER") => &mut client.library.version,
        () => return Err(ClientError::formatted(format!("ERR Unrecognized option '{option}'"))),
    };
    super::connection::check_name(args.at(3), &option)?;
    *field = args.at(3).to_vec();
    ctx.reply.ok();
    Ok(())
}

fn id(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    ctx.reply.count(ctx.server.clients[ctx.client].id.0);
    Ok(())
}

fn info(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut text = String::new();
    ctx.server.describe_client(&mut text, &ctx.server.clients[ctx.client], ctx.client, args);
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 3 {
        return Err(ClientError::Syntax);
    }
    let filter = Filter::parse(ctx, args.from(2))?;
    let mut text = String::new();
    for client in filter.matching(ctx, false) {
        ctx.server.describe_client(&mut text, client, ctx.client, args);
    }
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn reply(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mode = &mut ctx.server.clients[ctx.client].reply_mode;
    match () {
        () if args.is(2, "ON") => {
            *mode = ReplyMode::On;
            ctx.reply.ok();
        }
        () if args.is(2, "OFF") => *mode = ReplyMode::Off,
        () if args.is(2, "SKIP") && *mode == ReplyMode::Off => {}
        () if args.is(2, "SKIP") => *mode = ReplyMode::SkipNext,
        () => return Err(ClientError::Syntax),
    }
    Ok(())
}

fn no_evict(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.clients[ctx.client].no_evict = on_or_off(args, 2)?;
    ctx.reply.ok();
    Ok(())
}

fn no_touch(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.server.clients[ctx.client].no_touch = on_or_off(args, 2)?;
    ctx.reply.ok();
    Ok(())
}

fn import_source(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !ctx.server.config.import_mode && !args.is(2, "OFF") {
        return Err(ClientError::text("ERR Server is not in import mode"));
    }
    ctx.server.clients[ctx.client].import_source = on_or_off(args, 2)?;
    ctx.reply.ok();
    Ok(())
}
