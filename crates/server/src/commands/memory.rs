//! MEMORY: reports memory use.

mod big_keys;
pub(super) mod prefixes;

use super::info::Breakdown;
use crate::command::flag::{ADMIN, LOADING, READONLY, STALE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::error::ClientError;
use crate::server::Server;
use wire::convert::signed_count;

const SHARDS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("memory", -2, Group::Server, super::container)
    .since("4.0.0", "Depends on subcommand.")
    .doc("Shows the use of memory.", "")
    .subcommands(&[
        Command::new("memory|bigkeys", -2, Group::Server, big_keys::big_keys)
            .flags(ADMIN)
            .since("9.1.0", "O(N log(N)) where N is the number of keys kept")
            .doc("Returns the largest known keys.", "[COUNT count:integer]")
            .tips(SHARDS),
        Command::new("memory|doctor", 2, Group::Server, doctor)
            .since("4.0.0", "O(1)")
            .doc("Analyses the use of memory and gives advice.", "")
            .tips(SHARDS),
        Command::new("memory|help", 2, Group::Server, super::help)
            .flags(LOADING | STALE)
            .since("4.0.0", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("memory|malloc-stats", 2, Group::Server, malloc_stats)
            .flags(LOADING)
            .since("4.0.0", "Depends on how much memory is allocated, could be slow")
            .doc("Returns the allocator's statistics.", "")
            .tips(SHARDS),
        Command::new("memory|prefixes", -2, Group::Server, prefixes::prefixes)
            .flags(ADMIN)
            .since("9.1.0", "O(N log(N)) where N is the number of prefixes")
            .doc("Returns keys and bytes by configured prefix.", "[COUNT count:integer]")
            .tips(SHARDS),
        Command::new("memory|purge", 2, Group::Server, purge)
            .flags(LOADING)
            .since("4.0.0", "Depends on how much memory is allocated, could be slow")
            .doc("Returns unused memory to the operating system.", "")
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
        Command::new("memory|stats", 2, Group::Server, stats)
            .since("4.0.0", "O(1)")
            .doc("Returns details of the use of memory.", "")
            .tips(SHARDS),
        Command::new("memory|usage", -3, Group::Server, usage)
            .flags(READONLY)
            .keys(&[KeySpec::one(2, access::RO)])
            .since("4.0.0", "O(N) where N is the number of samples.")
            .doc("Returns the memory of a key and its value in bytes.", "key [SAMPLES count]"),
    ])];

fn usage(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut at = 3;
    while at < args.len() {
        if !args.is(at, "SAMPLES") || at + 1 == args.len() {
            return Err(ClientError::Syntax);
        }
        // SAMPLES has no effect, because the size of a value is known exactly.
        if args.integer(at + 1)? < 0 {
            return Err(ClientError::Syntax);
        }
        at += 2;
    }
    match ctx.db.memory_bytes(args.key(2)) {
        Some(bytes) => ctx.reply.count(bytes),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn purge(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    if !ctx.server.observed.memory.purge() {
        return Err(ClientError::text("ERR Error purging dirty pages"));
    }
    ctx.reply.ok();
    Ok(())
}

fn malloc_stats(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let report = ctx.server.observed.memory.allocator_report();
    ctx.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

enum Figure {
    Bytes(i64),
    Ratio(f64),
}

fn stats(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let breakdown = Breakdown::of(ctx.db, ctx.server);
    ctx.server.observed.memory.note_peak(breakdown.used_bytes);
    let mark = ctx.reply.begin();
    let before = totals(ctx.server, &breakdown);
    let mut after = overheads(&breakdown);
    after.extend(ratios(ctx.server, &breakdown));
    let pairs = before.len() + breakdown.tables_bytes.len() + after.len();
    write(ctx, before);
    for (index, bytes) in &breakdown.tables_bytes {
        ctx.reply.bulk(format!("db.{index}").as_bytes());
        ctx.reply.map(2);
        ctx.reply.bulk(b"overhead.hashtable.main");
        ctx.reply.count(*bytes);
        ctx.reply.bulk(b"overhead.hashtable.expires");
        ctx.reply.integer(0);
    }
    write(ctx, after);
    ctx.reply.end_map(mark, pairs);
    Ok(())
}

type Figures = Vec<(&'static str, Figure)>;

fn write(ctx: &mut Context<'_>, figures: Figures) {
    for (name, figure) in figures {
        ctx.reply.bulk(name.as_bytes());
        match figure {
            Figure::Bytes(bytes) => ctx.reply.integer(bytes),
            Figure::Ratio(ratio) => ctx.reply.double(ratio),
        }
    }
}

fn bytes(value: u64) -> Figure {
    Figure::Bytes(signed_count(value))
}

fn totals(server: &Server, breakdown: &Breakdown) -> Figures {
    vec![
        ("peak.allocated", bytes(server.observed.memory.peak_bytes)),
        ("total.allocated", bytes(breakdown.used_bytes)),
        ("startup.allocated", bytes(breakdown.startup_bytes)),
        ("replication.backlog", bytes(breakdown.backlog_bytes)),
        ("replicas.repl.buffer", bytes(breakdown.kept_stream_bytes)),
        ("clients.slaves", bytes(breakdown.replicas_bytes)),
        ("clients.normal", bytes(breakdown.clients_bytes)),
        ("cluster.links", bytes(breakdown.cluster_links_bytes)),
        ("cluster.slot_import", bytes(breakdown.slot_import_bytes)),
        ("cluster.slot_export", bytes(breakdown.slot_export_bytes)),
        ("aof.buffer", bytes(breakdown.log_buffer_bytes)),
        ("lua.caches", bytes(server.scripts.cache.used_bytes() as u64)),
        ("functions.caches", bytes(server.scripts.libraries.used_bytes() as u64)),
    ]
}

fn overheads(breakdown: &Breakdown) -> Figures {
    let tables: u64 = breakdown.tables_bytes.iter().map(|(_, bytes)| bytes).sum();
    let ghost = breakdown.ghost_bytes.map(|ghost_bytes| ("s3fifo.ghost", bytes(ghost_bytes)));
    let others = [
        ("overhead.db.hashtable.lut", bytes(tables)),
        ("overhead.db.hashtable.rehashing", bytes(0)),
        ("overhead.total", bytes(breakdown.overhead_bytes)),
        ("db.dict.rehashing.count", bytes(0)),
        ("keys.count", bytes(breakdown.keys)),
        ("keys.bytes-per-key", bytes(breakdown.dataset_bytes.checked_div(breakdown.keys).unwrap_or(0))),
        ("dataset.bytes", bytes(breakdown.dataset_bytes)),
        ("dataset.percentage", Figure::Ratio(breakdown.dataset_percent)),
    ];
    ghost.into_iter().chain(others).collect()
}

fn ratios(server: &Server, breakdown: &Breakdown) -> Figures {
    let memory = &server.observed.memory;
    let sample = &memory.sample;
    let ratio =
        |part: u64, whole: u64| Figure::Ratio(if whole == 0 { 0.0 } else { part as f64 / whole as f64 });
    let difference = |a: u64, b: u64| Figure::Bytes(signed_count(a) - signed_count(b));
    let percent = breakdown.used_bytes as f64 * 100.0 / memory.peak_bytes.max(1) as f64;
    vec![
        ("peak.percentage", Figure::Ratio(percent)),
        ("allocator.allocated", bytes(sample.allocated_bytes)),
        ("allocator.active", bytes(sample.active_bytes)),
        ("allocator.resident", bytes(sample.resident_bytes)),
        ("allocator.muzzy", bytes(sample.muzzy_bytes)),
        (
            "allocator-fragmentation.ratio",
            ratio(sample.allocated_bytes + sample.fragmented_bytes, sample.allocated_bytes),
        ),
        ("allocator-fragmentation.bytes", bytes(sample.fragmented_bytes)),
        ("allocator-rss.ratio", ratio(sample.resident_bytes, sample.active_bytes)),
        ("allocator-rss.bytes", difference(sample.resident_bytes, sample.active_bytes)),
        ("rss-overhead.ratio", ratio(sample.process_resident_bytes, sample.resident_bytes)),
        ("rss-overhead.bytes", difference(sample.process_resident_bytes, sample.resident_bytes)),
        ("fragmentation", ratio(sample.process_resident_bytes, sample.used_bytes)),
        ("fragmentation.bytes", difference(sample.process_resident_bytes, sample.used_bytes)),
    ]
}

/// Below this size, ratios are not meaningful.
const EMPTY_BYTES: u64 = 5 << 20;
/// The minimum of wasted memory that is reported.
const WASTE_BYTES: u64 = 10 << 20;
const CLIENT_BYTES: u64 = 200 << 10;

fn doctor(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let breakdown = Breakdown::of(ctx.db, ctx.server);
    let report = diagnosis(ctx.server, &breakdown);
    ctx.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn diagnosis(server: &Server, breakdown: &Breakdown) -> String {
    if breakdown.used_bytes < EMPTY_BYTES {
        return "The data is too small for an analysis of memory use.\n".to_owned();
    }
    let memory = &server.observed.memory;
    let sample = &memory.sample;
    let wasteful = |whole: u64, part: u64, factor: f64| {
        whole as f64 > part as f64 * factor && whole.saturating_sub(part) > WASTE_BYTES
    };
    let clients = server.clients.len().max(1) as u64;
    let findings = [
        (
            memory.peak_bytes as f64 > breakdown.used_bytes as f64 * 1.5,
            "Peak: the maximum memory use was more than 1.5 times the current use. After a peak memory may not be returned to the system; MEMORY PURGE returns free pages.",
        ),
        (
            wasteful(sample.process_resident_bytes, sample.used_bytes, 1.4),
            "Resident memory: more than 1.4 times the memory in use, after a peak or because of fragmentation.",
        ),
        (
            wasteful(sample.allocated_bytes + sample.fragmented_bytes, sample.allocated_bytes, 1.1),
            "Fragmentation: more than a tenth of the allocator's pages is unused; a restart removes the fragmentation.",
        ),
        (
            wasteful(sample.resident_bytes, sample.active_bytes, 1.1),
            "Allocator: it has more pages than it uses, usually after a peak; MEMORY PURGE returns them to the system.",
        ),
        (
            wasteful(sample.process_resident_bytes, sample.resident_bytes, 1.1),
            "Process: memory outside the allocator is more than a tenth of it.",
        ),
        (
            breakdown.clients_bytes / clients > CLIENT_BYTES,
            "Clients: their buffers take more than 200 KB each. CLIENT LIST shows clients that read slowly or request large replies.",
        ),
    ];
    let mut report = String::new();
    for (_, sentence) in findings.iter().filter(|(found, _)| *found) {
        report += &format!(" * {sentence}\n");
    }
    if report.is_empty() { "No memory problem was found.\n".to_owned() } else { report }
}
