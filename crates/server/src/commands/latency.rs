//! LATENCY: latency spikes by kind of event, and the durations of commands.

mod trace;

use crate::command::flag::{ADMIN, LOADING, NO_SCRIPT, STALE};
use crate::command::registry::CommandId;
use crate::command::{Args, Command, Context, Flags, Group, Outcome};
use crate::error::{ClientError, quoted};
use crate::observe::latency::{self, Event, Summary};
use crate::observe::statistics::Latency;
use crate::server::Server;
use std::fmt::Write;
use wire::reply::ReplyBuffer;

pub(super) use trace::show_stages;

const FLAGS: Flags = ADMIN | NO_SCRIPT | LOADING | STALE;
const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("latency", -2, Group::Server, super::container)
    .since("2.8.13", "Depends on subcommand.")
    .doc("Shows latencies of the server.", "")
    .subcommands(&[
        Command::new("latency|doctor", 2, Group::Server, doctor)
            .flags(FLAGS)
            .since("2.8.13", "O(1)")
            .doc("Analyses latency spikes and gives advice.", "")
            .tips(TIPS),
        Command::new("latency|graph", 3, Group::Server, graph)
            .flags(FLAGS)
            .since("2.8.13", "O(1)")
            .doc("Draws a graph of an event's latency spikes.", "event")
            .tips(TIPS),
        Command::new("latency|help", 2, Group::Server, super::help)
            .flags(LOADING | STALE)
            .since("2.8.13", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("latency|histogram", -2, Group::Server, histogram)
            .flags(FLAGS)
            .since(
                "7.0.0",
                "O(N) where N is the number of commands with latency information being retrieved.",
            )
            .doc("Returns latency histograms of commands.", "[command ...]")
            .tips(TIPS),
        Command::new("latency|history", 3, Group::Server, history)
            .flags(FLAGS)
            .since("2.8.13", "O(1)")
            .doc("Returns the latency spikes of an event.", "event")
            .tips(TIPS),
        Command::new("latency|latest", 2, Group::Server, latest)
            .flags(FLAGS)
            .since("2.8.13", "O(1)")
            .doc("Returns the latest latency spike of each event.", "")
            .tips(TIPS),
        Command::new("latency|reset", -2, Group::Server, reset)
            .flags(FLAGS)
            .since("2.8.13", "O(1)")
            .doc("Clears the latency spikes of some events, or of all.", "[event ...]")
            .tips(&["request_policy:all_nodes", "response_policy:agg_sum"]),
        Command::new("latency|trace", -3, Group::Server, trace::trace)
            .flags(FLAGS)
            .since("9.1.0", "O(1), GET and JSON O(N) where N is the number of traces returned.")
            .doc("Traces the stages of sampled requests.", trace::SYNTAX)
            .tips(TIPS),
    ])];

fn history(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some((_, event)) = ctx.server.observed.latency.event(args.at(2)) else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.reply.array(event.spikes().len());
    for spike in event.spikes() {
        ctx.reply.array(2);
        ctx.reply.integer(spike.unix_s);
        ctx.reply.count(spike.latency_ms);
    }
    Ok(())
}

fn latest(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let events = ctx.server.observed.latency.iter();
    ctx.reply.array(events.len());
    for (name, event) in events {
        let spike = event.latest();
        ctx.reply.array(6);
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(spike.unix_s);
        for number in [spike.latency_ms, event.max_ms, event.sum_ms, event.count] {
            ctx.reply.count(number);
        }
    }
    Ok(())
}

fn reset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let monitor = &mut ctx.server.observed.latency;
    let forgotten = match args.len() {
        2 => monitor.reset(None),
        _ => args.from(2).iter().map(|name| monitor.reset(Some(name))).sum(),
    };
    ctx.reply.count(forgotten);
    Ok(())
}

const GRAPH_COLUMNS: usize = 80;
const GRAPH_ROWS: usize = 4;

fn graph(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now_s = ctx.server.now.unix_us / 1_000_000;
    let Some((name, event)) = ctx.server.observed.latency.event(args.at(2)) else {
        let name = quoted(args.at(2));
        return Err(ClientError::formatted(format!("ERR No samples available for event '{name}'")));
    };
    let Summary { min_ms, max_ms, .. } = event.summary(now_s);
    let mut text =
        format!("{name} - high {max_ms} ms, low {min_ms} ms (all time high {} ms)\n", event.max_ms);
    text += &"-".repeat(GRAPH_COLUMNS);
    text.push('\n');
    let bars: Vec<(u64, String)> =
        event.spikes().map(|spike| (spike.latency_ms, age(now_s - spike.unix_s))).collect();
    text += &latency::graph(&bars, GRAPH_COLUMNS, GRAPH_ROWS);
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The elapsed time in the largest unit that fits.
fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{}s", seconds.max(0)),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn doctor(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let report = diagnosis(ctx.server);
    ctx.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn diagnosis(server: &Server) -> String {
    let monitor = &server.observed.latency;
    let threshold_ms = server.config.latency_monitor_threshold_ms;
    if monitor.iter().len() == 0 {
        return match threshold_ms {
            0 => "Latency monitoring is disabled. CONFIG SET latency-monitor-threshold <milliseconds> enables it.\n",
            _ => "No event has exceeded the threshold so far.\n",
        }
        .to_owned();
    }
    let now_s = server.now.unix_us / 1_000_000;
    let mut report = "Spikes since the last LATENCY RESET:\n\n".to_owned();
    let mut advice: Vec<String> = Vec::new();
    for (number, (name, event)) in monitor.iter().enumerate() {
        describe(&mut report, number + 1, name, event, now_s);
        for sentence in advice_about(name, server) {
            if !advice.contains(&sentence) {
                advice.push(sentence);
            }
        }
    }
    if !advice.is_empty() {
        report += "\nAdvice:\n\n";
    }
    for sentence in advice {
        // Writing to a String cannot fail.
        let _ = writeln!(report, "- {sentence}");
    }
    report
}

fn describe(report: &mut String, number: usize, name: &str, event: &Event, now_s: i64) {
    let Summary { spikes, mean_ms, deviation_ms, period_s, .. } = event.summary(now_s);
    // Writing to a String cannot fail.
    let _ = writeln!(
        report,
        "{number}. {name}: {spikes} latency spikes (average {mean_ms}ms, mean deviation {deviation_ms}ms, period {period_s:.2} sec). Worst all time event {}ms.",
        event.max_ms
    );
}

fn advice_about(event: &str, server: &Server) -> Vec<String> {
    let config = &server.config;
    let threshold_us = config.latency_monitor_threshold_ms.saturating_mul(1000);
    let large_values = "Deleting, expiring and evicting large values is slow: split them into several keys, or use UNLINK and the lazyfree-* options.".to_owned();
    match event {
        "command" => {
            let slower_than_us = config.commandlog_execution_slower_than_us;
            let log = if slower_than_us < 0 || slower_than_us as u64 > threshold_us {
                format!("Log slow commands: CONFIG SET slowlog-log-slower-than {threshold_us}.")
            } else {
                "SLOWLOG GET lists the slow commands.".to_owned()
            };
            vec![log, large_values]
        }
        "fast-command" => vec![
            "Commands that do little were slow, so the process did not get the processor: lower the machine's load, or give the server a core of its own."
                .to_owned(),
        ],
        "expire-cycle" => {
            let mut advice = vec![large_values];
            if config.hz < 100 {
                advice.push("A higher hz expires keys in smaller steps: CONFIG SET hz 100.".to_owned());
            }
            advice
        }
        "eviction-cycle" => {
            vec!["Lowering maxmemory, or storing large results, evicts many keys at once.".to_owned()]
        }
        _ => Vec::new(),
    }
}

fn histogram(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let server = &*ctx.server;
    let wanted: Vec<CommandId> = match args.len() {
        2 => server.registry.iter().map(|(id, _)| id).collect(),
        _ => args
            .from(2)
            .iter()
            .filter_map(|name| server.registry.named(name))
            .flat_map(|id| with_parts(server, id))
            .collect(),
    };
    let mark = ctx.reply.begin();
    let mut shown = 0;
    for id in wanted {
        let figures = &server.observed.commands[id.0 as usize];
        if let Some(latency) = &figures.latency {
            ctx.reply.bulk(server.registry.row(id).name.as_bytes());
            distribution(ctx.reply, latency);
            shown += 1;
        }
    }
    ctx.reply.end_map(mark, shown);
    Ok(())
}

/// A command and its subcommands.
fn with_parts(server: &Server, id: CommandId) -> impl Iterator<Item = CommandId> + '_ {
    let subcommands = server.registry.row(id).subcommands.iter();
    std::iter::once(id).chain(subcommands.filter_map(|sub| server.registry.named(sub.name.as_bytes())))
}

/// Microseconds, and the number of calls that took at most that long.
fn distribution(reply: &mut ReplyBuffer, latency: &Latency) {
    reply.map(2);
    reply.bulk(b"calls");
    reply.count(latency.buckets().map(|(_, calls)| calls).sum::<u64>());
    reply.bulk(b"histogram_usec");
    let mark = reply.begin();
    let (mut buckets, mut counted) = (0, 0);
    for (last_ns, calls) in latency.buckets() {
        counted += calls;
        reply.count(last_ns / 1000);
        reply.count(counted);
        buckets += 1;
    }
    reply.end_map(mark, buckets);
}
