//! LATENCY TRACE: the durations of requests' stages.

use crate::command::{Args, Context, Outcome};
use crate::error::ClientError;
use crate::observe::otlp::{self, Process};
use crate::observe::trace::{Choice, Stage, Stages, Trace};
use std::num::NonZeroU64;
use wire::convert::{signed_count, signed_len};
use wire::reply::ReplyBuffer;

pub(super) const SYNTAX: &str = "<operation: <start: START [EVERY requests:integer] [SLOWER microseconds:integer]> | STOP | \
    <get: GET [COUNT count]> | <json: JSON [COUNT count]> | STATUS | RESET | HELP>";

const HELP: &[&str] = &[
    "LATENCY TRACE <operation>. Operations are:",
    "START [EVERY <requests>] [SLOWER <microseconds>]",
    "    Trace one in <requests> requests, and those that take at least <microseconds>; by default one in 1000.",
    "STOP",
    "    Stop tracing. Recorded traces are kept.",
    "GET [COUNT <count>]",
    "    Return the latest traces, newest first: 10, or <count>; -1 returns all.",
    "JSON [COUNT <count>]",
    "    Return traces in OpenTelemetry's JSON format.",
    "STATUS",
    "    Return the settings and the number of traces.",
    "RESET",
    "    Delete all traces.",
    "HELP",
    "    Print this help.",
];

const EVERY_DEFAULT: NonZeroU64 = NonZeroU64::new(1000).expect("1000 is not zero");
const SHOWN_BY_DEFAULT: usize = 10;
/// The maximum of microseconds that can be represented in nanoseconds.
const NUMBER_MAX: i64 = 1 << 50;

pub(super) fn trace(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let traces = &mut ctx.server.observed.traces;
    match args.len() {
        _ if args.is(2, "START") => {
            traces.start(choice(args)?);
            ctx.reply.ok();
        }
        _ if args.is(2, "GET") => {
            let count = count(args)?;
            ctx.reply.array(traces.len().min(count));
            for trace in ctx.server.observed.traces.entries().take(count) {
                show(ctx.reply, trace);
            }
        }
        _ if args.is(2, "JSON") => show_json(ctx, count(args)?),
        3 if args.is(2, "STOP") => {
            traces.stop();
            ctx.reply.ok();
        }
        3 if args.is(2, "RESET") => {
            traces.clear();
            ctx.reply.ok();
        }
        3 if args.is(2, "STATUS") => status(ctx),
        3 if args.is(2, "HELP") => {
            ctx.reply.array(HELP.len());
            HELP.iter().for_each(|line| ctx.reply.simple(line));
        }
        _ => return Err(ClientError::Syntax),
    }
    Ok(())
}

fn choice(args: Args<'_>) -> Result<Choice, ClientError> {
    let mut choice = Choice::default();
    for at in (3..args.len()).step_by(2) {
        if at + 1 == args.len() {
            return Err(ClientError::Syntax);
        }
        if args.is(at, "EVERY") {
            let refusal = ClientError::text("ERR EVERY must be a number of requests, at least 1");
            let every = args.integer_in(at + 1, 1, NUMBER_MAX, refusal)?;
            choice.every = NonZeroU64::new(every as u64);
        } else if args.is(at, "SLOWER") {
            let refusal = ClientError::text("ERR SLOWER must be a number of microseconds, at least 0");
            choice.slower_us = Some(args.integer_in(at + 1, 0, NUMBER_MAX, refusal)? as u64);
        } else {
            return Err(ClientError::Syntax);
        }
    }
    if choice == Choice::default() {
        choice.every = Some(EVERY_DEFAULT);
    }
    Ok(choice)
}

fn count(args: Args<'_>) -> Result<usize, ClientError> {
    match args.len() {
        3 => Ok(SHOWN_BY_DEFAULT),
        5 if args.is(3, "COUNT") => {
            let refusal = ClientError::text("ERR count should be greater than or equal to -1");
            let count = args.integer_in(4, -1, i64::MAX, refusal)?;
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
        }
        _ => Err(ClientError::Syntax),
    }
}

fn show(reply: &mut ReplyBuffer, trace: &Trace) {
    reply.map(10);
    for (name, number) in [
        ("id", signed_count(trace.id)),
        ("time-us", trace.unix_us),
        ("client-id", signed_count(trace.client_id)),
        ("db", signed_len(trace.db_index)),
        ("total-us", signed_count(trace.stages.total_ns() / 1000)),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    }
    for (name, text) in [
        ("client-address", trace.client_address.as_bytes()),
        ("client-name", &trace.client_name),
        ("user", &trace.user),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"command");
    reply.array(trace.args.len());
    for arg in &trace.args {
        reply.bulk(arg);
    }
    reply.bulk(b"stages");
    show_stages(reply, trace.stages);
}

/// Writes each stage and its microseconds.
pub(in crate::commands) fn show_stages(reply: &mut ReplyBuffer, stages: Stages) {
    reply.map(Stage::ALL.len());
    for stage in Stage::ALL {
        reply.bulk(stage.name().as_bytes());
        reply.count(stages.ns(stage) / 1000);
    }
}

fn show_json(ctx: &mut Context<'_>, count: usize) {
    let server = &ctx.server;
    let process = Process {
        run_id: &server.identity.run_id,
        version: env!("CARGO_PKG_VERSION"),
        port: server.config.port,
    };
    let text = otlp::json(&process, server.observed.traces.entries().take(count));
    ctx.reply.bulk(text.as_bytes());
}

fn status(ctx: &mut Context<'_>) {
    let traces = &ctx.server.observed.traces;
    let choice = traces.choice().unwrap_or_default();
    let or_none = |number: Option<u64>| number.map_or(-1, signed_count);
    ctx.reply.map(6);
    for (name, number) in [
        ("active", i64::from(traces.is_active())),
        ("every", or_none(choice.every.map(NonZeroU64::get))),
        ("slower-us", or_none(choice.slower_us)),
        ("kept", signed_len(traces.len())),
        ("traced-total", signed_count(traces.kept_total())),
        ("missed", signed_count(traces.missed)),
    ] {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(number);
    }
}
