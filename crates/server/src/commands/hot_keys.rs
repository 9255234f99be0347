//! HOTKEYS, of Redis 8.6: the most expensive keys during a recording; and HOTKEYS TOP: the most used keys, at any time.

use crate::command::flag::{ADMIN, Flags, LOADING, NO_SCRIPT, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::error::ClientError;
use crate::observe::hot_keys::{HotKeys, Options};
use crate::observe::hottest::{HotKey, Metric, Order};
use wire::convert::{signed_count, signed_len, whole_us};
use wire::reply::ReplyBuffer;

const FLAGS: Flags = ADMIN | NO_SCRIPT;
const METRICS: usize = 2;
const COUNT_DEFAULT: usize = 10;
const COUNT_MAX: usize = 64;
const DURATION_S_MAX: i64 = 1_000_000;
/// The last slot; a server without a cluster reports all slots.
const LAST_SLOT: i64 = 16_383;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("hotkeys", -2, Group::Server, super::container)
    .since("8.6.0", "Depends on subcommand.")
    .doc("Shows the most expensive keys.", "")
    .subcommands(&[
        Command::new("hotkeys|get", 2, Group::Server, get)
            .flags(FLAGS)
            .since("8.6.0", "O(K) where K is the number of keys returned")
            .doc("Returns the most expensive keys of the collection.", "")
            .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
        Command::new("hotkeys|help", 2, Group::Server, super::help)
            .flags(LOADING | STALE)
            .since("8.6.1", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("hotkeys|reset", 2, Group::Server, reset)
            .flags(FLAGS)
            .since("8.6.0", "O(1)")
            .doc("Discards the collected data.", "")
            .tips(&["request_policy:special"]),
        Command::new("hotkeys|start", -2, Group::Server, start)
            .flags(FLAGS)
            .since("8.6.0", "O(1)")
            .doc(
                "Starts collecting the cost of keys.",
                "<metrics: METRICS count [CPU] [NET]> [COUNT k:integer] [DURATION seconds:integer] \
                    [SAMPLE ratio:integer] [slots: SLOTS count slot:integer ...]",
            )
            .tips(&["request_policy:special"]),
        Command::new("hotkeys|stop", 2, Group::Server, stop)
            .flags(FLAGS)
            .since("8.6.0", "O(1)")
            .doc("Stops the collection and keeps its data.", "")
            .tips(&["request_policy:special"]),
        Command::new("hotkeys|top", -2, Group::Server, top)
            .flags(FLAGS)
            .since("9.1.0", "O(K) where K is the number of keys kept")
            .doc(
                "Returns the most frequently used keys, independent of a collection.",
                "[BY <order: CALLS | CPU | BYTES>] [COUNT count:integer] [DB index:integer]",
            )
            .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
    ])];

fn now_ms(ctx: &Context<'_>) -> i64 {
    ctx.server.now.unix_ms()
}

fn is_active(ctx: &mut Context<'_>) -> bool {
    let now_ms = now_ms(ctx);
    ctx.server.observed.hot_keys.as_mut().is_some_and(|keys| keys.is_active(now_ms))
}

fn start(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if is_active(ctx) {
        return Err(ClientError::text("ERR hotkey tracking session already in progress"));
    }
    let options = parse(args)?;
    let now_ms = now_ms(ctx);
    ctx.server.observed.hot_keys = Some(Box::new(HotKeys::begin(options, now_ms)));
    ctx.reply.ok();
    Ok(())
}

fn parse(args: Args<'_>) -> Result<Options, ClientError> {
    if args.len() < 4 || !args.is(2, "METRICS") {
        return Err(ClientError::text("ERR METRICS parameter is required"));
    }
    let wrong_count = ClientError::text("ERR METRICS count must be > 0 and <= 2");
    let count = args.count_in(3, 1, METRICS, wrong_count)?;
    let mut options =
        Options { by_cpu: false, by_net: false, count: COUNT_DEFAULT, duration_ms: None, sample_ratio: 1 };
    for at in 4..args.len().min(4 + count) {
        if args.is(at, "CPU") && std::mem::replace(&mut options.by_cpu, true) {
            return Err(ClientError::text("ERR METRICS CPU defined more than once!"));
        }
        if args.is(at, "NET") && std::mem::replace(&mut options.by_net, true) {
            return Err(ClientError::text("ERR METRICS NET defined more than once!"));
        }
    }
    if args.len() < 4 + count {
        return Err(ClientError::text("ERR METRICS count does not match number of metric types provided"));
    }
    if !options.by_cpu && !options.by_net {
        return Err(ClientError::text("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    let mut at = 4 + count;
    while at < args.len() {
        parse_option(args, at, &mut options)?;
        at += 2;
    }
    Ok(options)
}

fn parse_option(args: Args<'_>, at: usize, options: &mut Options) -> Outcome {
    let number = |max: i64, error: &'static str| args.integer_in(at + 1, 1, max, ClientError::text(error));
    if at + 1 >= args.len() {
        return Err(ClientError::text("ERR syntax error"));
    }
    if args.is(at, "COUNT") {
        options.count =
            args.count_in(at + 1, 1, COUNT_MAX, ClientError::text("ERR COUNT must be between 1 and 64"))?;
    } else if args.is(at, "DURATION") {
        let seconds = number(DURATION_S_MAX, "ERR DURATION must be between 1 and 1000000")?;
        options.duration_ms = Some(seconds * 1000);
    } else if args.is(at, "SAMPLE") {
        options.sample_ratio = number(i32::MAX.into(), "ERR SAMPLE ratio must be positive")? as u64;
    } else if args.is(at, "SLOTS") {
        return Err(ClientError::text("ERR SLOTS parameter cannot be used in non-cluster mode"));
    } else {
        return Err(ClientError::text("ERR syntax error"));
    }
    Ok(())
}

fn stop(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if !is_active(ctx) {
        ctx.reply.null();
        return Ok(());
    }
    let now_ms = now_ms(ctx);
    if let Some(keys) = &mut ctx.server.observed.hot_keys {
        keys.end(now_ms);
    }
    ctx.reply.ok();
    Ok(())
}

fn reset(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if is_active(ctx) {
        return Err(ClientError::text("ERR hotkey tracking session in progress, stop tracking first"));
    }
    ctx.server.observed.hot_keys = None;
    ctx.reply.ok();
    Ok(())
}

fn get(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let (now_ms, is_active) = (now_ms(ctx), is_active(ctx));
    let Some(keys) = &ctx.server.observed.hot_keys else {
        ctx.reply.null();
        return Ok(());
    };
    let Options { by_cpu, by_net, sample_ratio, .. } = keys.options;
    let reply = &mut *ctx.reply;
    reply.array(1);
    reply.map(7 + 3 * usize::from(by_cpu) + 2 * usize::from(by_net));
    number(reply, "tracking-active", is_active.into());
    number(reply, "sample-ratio", signed_count(sample_ratio));
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    number(reply, "all-commands-all-slots-us", signed_count(keys.total.cpu_ns / 1000));
    number(reply, "net-bytes-all-commands-all-slots", signed_count(keys.total.net_bytes));
    number(reply, "collection-start-time-unix-ms", keys.started_ms);
    number(reply, "collection-duration-ms", keys.duration_ms(now_ms));
    if by_cpu {
        let times = keys.cpu_times();
        number(reply, "total-cpu-time-user-ms", signed_count(whole_us(times.user) / 1000));
        number(reply, "total-cpu-time-sys-ms", signed_count(whole_us(times.system) / 1000));
    }
    if by_net {
        number(reply, "total-net-bytes", signed_count(keys.keys_net_bytes));
    }
    if by_cpu {
        list(reply, "by-cpu-time-us", &keys.by_cpu_us());
    }
    if by_net {
        list(reply, "by-net-bytes", &keys.by_net_bytes());
    }
    Ok(())
}

fn number(reply: &mut ReplyBuffer, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}

fn list(reply: &mut ReplyBuffer, name: &str, keys: &[(&[u8], u64)]) {
    reply.bulk(name.as_bytes());
    reply.array(keys.len() * 2);
    for (key, cost) in keys {
        reply.bulk(key);
        reply.count(*cost);
    }
}

fn top(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut order, mut count, mut db_index) = (Order::Calls, COUNT_DEFAULT, None);
    let mut at = 2;
    while at < args.len() {
        if at + 1 == args.len() {
            return Err(ClientError::Syntax);
        }
        if args.is(at, "BY") {
            let orders = [("CALLS", Order::Calls), ("CPU", Order::Cpu), ("BYTES", Order::Bytes)];
            let found = orders.into_iter().find(|(name, _)| args.is(at + 1, name));
            order = found.ok_or(ClientError::Syntax)?.1;
        } else if args.is(at, "COUNT") {
            let error = ClientError::text("ERR COUNT must be positive");
            count = args.count_in(at + 1, 1, usize::MAX, error)?;
        } else if args.is(at, "DB") {
            let last = ctx.db.database_count() - 1;
            let error = ClientError::text("ERR DB index is out of range");
            db_index = Some(args.count_in(at + 1, 0, last, error)?);
        } else {
            return Err(ClientError::Syntax);
        }
        at += 2;
    }
    let Some(hottest) = &ctx.server.observed.hottest else {
        return Err(ClientError::text("ERR hot keys are disabled: see the option hot-keys"));
    };
    let keys = hottest.hottest(order, count, db_index);
    ctx.reply.array(keys.len());
    keys.iter().for_each(|key| write_hot_key(ctx.reply, key));
    Ok(())
}

fn write_hot_key(reply: &mut ReplyBuffer, hot: &HotKey) {
    reply.map(7);
    reply.bulk(b"key");
    reply.bulk(&hot.key);
    number(reply, "db", signed_len(hot.db_index));
    let rates = [
        ("calls", Metric::Calls),
        ("cpu_us", Metric::Cpu),
        ("bytes_in", Metric::BytesIn),
        ("bytes_out", Metric::BytesOut),
    ];
    for (name, metric) in rates {
        reply.bulk(name.as_bytes());
        // More digits would exceed the accuracy.
        reply.double((hot.rates[metric as usize] * 1000.0).round() / 1000.0);
    }
    reply.bulk(b"kind");
    reply.bulk(if hot.writes { b"write" } else { b"read" });
}
