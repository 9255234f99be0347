//! The server as a whole: TIME, ROLE, MONITOR, SHUTDOWN, LOLWUT.

use crate::command::flag::{ADMIN, ALLOW_BUSY, FAST, LOADING, NO_MULTI, NO_SCRIPT, READONLY, STALE};
use crate::command::{Args, Command, Context, Group, Next, Outcome};
use crate::error::ClientError;
use crate::server::{PersistRequest, Shutdown};

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("lolwut", -1, Group::Server, lolwut)
        .flags(READONLY | FAST)
        .since("5.0.0", "")
        .doc("Returns a picture and the server's version.", "[VERSION version:integer]"),
    Command::new("monitor", 1, Group::Server, monitor)
        .flags(ADMIN | NO_SCRIPT | LOADING | STALE)
        .since("1.0.0", "")
        .doc("Streams every command that the server runs.", ""),
    Command::new("readonly", 1, Group::Cluster, read_only)
        .flags(FAST | LOADING | STALE)
        .categories(&["connection"])
        .since("3.0.0", "O(1)")
        .doc("Enables reads from a replica of a cluster.", ""),
    Command::new("readwrite", 1, Group::Cluster, read_write)
        .flags(FAST | LOADING | STALE)
        .categories(&["connection"])
        .since("3.0.0", "O(1)")
        .doc("Disables reads from a replica of a cluster.", ""),
    Command::new("shutdown", -1, Group::Server, shutdown)
        .flags(ADMIN | NO_SCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY)
        .since(
            "1.0.0",
            "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
        )
        .doc("Stops the server.", "[abort-selector: <save-selector-block: [save-selector: NOSAVE | SAVE] [NOW@7.0.0] \
                [FORCE@7.0.0] [SAFE@9.0.0] [FAILOVER@9.0.0]> | ABORT@7.0.0]").history(&[("7.0.0", "`NOW`, `FORCE` and `ABORT`."), ("9.0.0", "`SAFE` and `FAILOVER`.")]),
    Command::new("time", 1, Group::Server, time)
        .flags(LOADING | STALE | FAST)
        .since("2.6.0", "O(1)")
        .doc("Returns the server's time as Unix seconds and microseconds.", "")
        .tips(&["nondeterministic_output"]),
];

fn read_only(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    set_reads_replicas(ctx, true);
    Ok(())
}

/// A script's commands do not change the connection of its client.
fn set_reads_replicas(ctx: &mut Context<'_>, reads: bool) {
    if !ctx.origin.in_script {
        ctx.server.clients[ctx.client].routing.reads_replicas = reads;
    }
    ctx.reply.ok();
}

fn read_write(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    set_reads_replicas(ctx, false);
    Ok(())
}

/// The clock stands still in a script until that counts as slow, as in the reference; then it advances, since the script may
/// wait for it, and does not go back after it. Nothing expires meanwhile.
fn time(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let is_slow = ctx.server.scripts.slow().is_some();
    let running = ctx.server.scripts.running.as_ref().filter(|_| ctx.origin.in_script && is_slow);
    let passed_us = running.map_or(0, |running| running.passed_us);
    let now_us = ctx.server.scripts.latest_time.advance(ctx.server.now.unix_us, passed_us);
    ctx.reply.array(2);
    ctx.reply.bulk_integer(now_us / 1_000_000);
    ctx.reply.bulk_integer(now_us % 1_000_000);
    Ok(())
}

fn monitor(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if !ctx.may_block() {
        return Err(ClientError::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let client = &mut ctx.server.clients[ctx.client];
    if !client.is_monitor {
        client.is_monitor = true;
        ctx.server.monitors.push(ctx.client);
    }
    ctx.reply.ok();
    Ok(())
}

fn shutdown(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let has = |word: &str| args.from(1).iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    const WORDS: [&str; 7] = ["nosave", "save", "now", "force", "safe", "failover", "abort"];
    let known = |arg: &[u8]| WORDS.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
    let abort = has("abort");
    let others = WORDS[..6].iter().any(|word| has(word));
    if !args.from(1).iter().all(known) || abort && others || has("save") && has("nosave") {
        return Err(ClientError::Syntax);
    }
    if has("failover") && ctx.server.cluster.is_none() {
        return Err(ClientError::text("ERR SHUTDOWN FAILOVER is only supported in cluster mode."));
    }
    if abort {
        ctx.next = Next::Persist(PersistRequest::AbortShutdown);
        return Ok(());
    }
    if !has("now") && ctx.server.clients[ctx.client].deny_blocking {
        return Err(ClientError::text(
            "ERR SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client",
        ));
    }
    let save = if has("save") { Some(true) } else { has("nosave").then_some(false) };
    let how = Shutdown {
        save,
        force: has("force"),
        now: has("now"),
        safe: has("safe"),
        hands_over: has("failover"),
        ..Shutdown::default()
    };
    ctx.next = Next::Persist(PersistRequest::Shutdown(how));
    Ok(())
}

/// A sun over warm water, the further down the cooler.
const PICTURE: &str = "
                      .  |  .
                   `. \\ _._ / .'
                 -- ( warmline ) --
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
          ~  ~~  ~~~  ~~~~~~~~  ~~~  ~~  ~
             .   ~   ~~   ~~   ~~   ~   .
                 .     .    .     .
";

fn lolwut(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() >= 3 && args.is(1, "VERSION") {
        args.integer(2)?;
    }
    let name = ctx.server.name();
    let version = match name {
        "Redis" => super::connection::COMPATIBLE_VERSION,
        _ => super::info::VALKEY_VERSION,
    };
    let own = env!("CARGO_PKG_VERSION");
    let text = format!("{PICTURE}\nWarmline {own}, at your service as {name} ver. {version}\n");
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}
