//! Observation of every command that has run: counters, latency, the logs of slow and large commands, and MONITOR
//! clients.

use super::Executor;
use super::call::Call;
use super::loading::Loads;
use super::redirection::slot_of_keys;
use super::tracing::Tracing;
use crate::clock::Clock;
use crate::command::{Args, Command, Group, flag};
use crate::observe::REDACTED;
use crate::observe::command_log::{Entry, LogKind, shortened, shortened_name};
use crate::observe::hot_keys::Cost;
use crate::observe::hottest::Costs;
use crate::server::Server;

/// A command that has run.
#[derive(Clone, Copy)]
pub(super) struct Finished<'a> {
    /// The command.
    pub call: &'a Call<'a>,
    /// Execution time.
    pub elapsed_ns: u64,
    /// Length of the reply.
    pub reply_bytes: usize,
    /// Whether the reply is an error.
    pub failed: bool,
    /// The slot of the keys that a script's commands had, if it declared none and kept to one slot.
    pub script_slot: Option<u16>,
}

#[inline(never)]
fn note_command_latency(server: &mut Server, row: &Command, elapsed_ns: u64) {
    let event = if row.is(flag::FAST) { "fast-command" } else { "command" };
    let (unix_s, threshold_ms) = (server.now.unix_s(), server.config.latency_monitor_threshold_ms);
    server.observed.latency.note(event, elapsed_ns / 1000, threshold_ms, unix_s);
}

/// The cost of a script includes its commands.
#[inline(never)]
fn note_hot_keys(server: &mut Server, finished: Finished<'_>) {
    let Finished { call: &Call { row, args, origin, .. }, elapsed_ns, reply_bytes, .. } = finished;
    let now_ms = server.now.unix_ms();
    let Some(keys) = &mut server.observed.hot_keys else { return };
    if origin.in_script || !row.has_keys() || !keys.is_active(now_ms) {
        return;
    }
    // Scripts may have no keys.
    if row.group == Group::Scripting && key_count(row, args) == 0 {
        return;
    }
    let net_bytes = args.request_bytes_encoded() as u64 + reply_bytes as u64;
    if let Some(paid) = keys.note(Cost { cpu_ns: elapsed_ns, net_bytes }) {
        let count = key_count(row, args);
        if count > 0 {
            row.visit_keys(args, &mut |at, _| keys.pay(args.at(at), paid, count));
        }
    }
}

/// As [`note_hot_keys`]: a script's cost is attributed to its keys.
#[inline(never)]
fn note_hottest(server: &mut Server, loading: &Loads, finished: Finished<'_>, costs: Costs) {
    let &Call { client, row, args, origin, .. } = finished.call;
    let observed = &mut server.observed;
    let Some(hottest) = &mut observed.hottest else { return };
    // Replay of an append-only file is not use by clients.
    let is_use = !origin.in_script && !loading.is_replaying() && row.has_keys();
    let count = if is_use { key_count(row, args) } else { 0 };
    let mut paid = hottest.take(&mut observed.countdown, costs, count);
    if count > 0 {
        let db_index = server.clients[client].db_index;
        let writes = !row.is(flag::READONLY);
        row.visit_keys(args, &mut |at, _| hottest.pay(db_index, writes, args.at(at), &mut paid));
    }
}

/// Counts a command for its slot, and its bytes in the replication stream. Those of a transaction or script are counted with
/// it.
#[inline(never)]
fn note_slot(server: &mut Server, finished: Finished<'_>, stream_bytes: u64) {
    let Finished { call, elapsed_ns, reply_bytes, .. } = finished;
    if call.origin.in_script || call.origin.in_transaction {
        return;
    }
    if let Some(slot) = slot_of_keys(call).or(finished.script_slot) {
        let bytes_in = call.args.request_bytes_encoded() as u64;
        server.count_slot(call.client, slot, elapsed_ns, [bytes_in, reply_bytes as u64 + stream_bytes]);
    }
}

#[cold]
fn log_remarkable(server: &mut Server, tracing: &mut Tracing, finished: Finished<'_>, request_bytes: u64) {
    let config = &server.config;
    let logs = [
        (
            LogKind::Slow,
            finished.elapsed_ns / 1000,
            config.commandlog_execution_slower_than_us,
            config.commandlog_slow_execution_max_len,
        ),
        (
            LogKind::LargeRequest,
            request_bytes,
            config.commandlog_request_larger_than_bytes,
            config.commandlog_large_request_max_len,
        ),
        (
            LogKind::LargeReply,
            finished.reply_bytes as u64,
            config.commandlog_reply_larger_than_bytes,
            config.commandlog_large_reply_max_len,
        ),
    ];
    for (kind, value, threshold, len_max) in logs {
        if reaches(value, threshold) {
            log(server, tracing, finished, kind, value, len_max);
        }
    }
}

#[cold]
fn log(
    server: &mut Server,
    tracing: &mut Tracing,
    finished: Finished<'_>,
    kind: LogKind,
    value: u64,
    len_max: usize,
) {
    let &Call { client, row, args, .. } = finished.call;
    if row.is(flag::SKIP_COMMANDLOG) || len_max == 0 {
        return;
    }
    let client = &server.clients[client];
    let entry = Entry {
        id: 0,
        unix_s: server.now.unix_s(),
        value,
        args: shortened(args.iter(), &hidden_arguments(row, args)),
        client_address: client.connection.address.clone(),
        client_name: shortened_name(&client.name),
        stages: None,
    };
    let log = server.observed.command_logs.log_mut(kind);
    let id = log.next_id();
    log.push(entry, len_max);
    if kind == LogKind::Slow && tracing.is_on() {
        tracing.note_slow_log(id);
    }
}

#[inline]
pub(super) fn feed_monitors(server: &mut Server, clock: &Clock, call: &Call<'_>, failed: bool) {
    let row = call.row;
    if server.monitors.is_empty() || row.is(flag::ADMIN) {
        return;
    }
    // A script is reported at its start, before its own commands.
    let is_shown = row.is(flag::SKIP_MONITOR) && !(failed && row.group == Group::Scripting);
    if !is_shown {
        show_to_monitors(server, clock, call);
    }
}

#[cold]
pub(super) fn show_to_monitors(server: &mut Server, clock: &Clock, call: &Call<'_>) {
    let &Call { client, row, args, origin, .. } = call;
    let now_us = clock.read().unix_us;
    let client = &server.clients[client];
    let (db_index, connection) = (client.db_index, &client.connection);
    let unix = if connection.is_unix_socket { "unix:" } else { "" };
    let address = connection.address.strip_suffix(":0").filter(|_| connection.is_unix_socket);
    let address: &str = address.unwrap_or(&connection.address);
    let (unix, address) = if origin.in_script { ("", "lua") } else { (unix, address) };
    let (seconds, microseconds) = (now_us / 1_000_000, now_us % 1_000_000);
    let mut line = format!("+{seconds}.{microseconds:06} [{db_index} {unix}{address}]").into_bytes();
    let hidden = hidden_arguments(row, args);
    for (at, arg) in args.iter().enumerate() {
        line.push(b' ');
        line.extend(crate::config::quoted(if hidden.contains(&at) { REDACTED } else { arg }));
    }
    line.extend(b"\r\n");
    let clients = &mut server.clients;
    server.monitors.retain(|&monitor| clients[monitor].is_monitor);
    for &monitor in &server.monitors {
        clients.push(monitor, |reply| reply.raw(&line));
    }
}

impl Executor {
    #[inline(always)]
    pub(super) fn observe_call(&mut self, finished: Finished<'_>) {
        let Finished { call, elapsed_ns, .. } = finished;
        let server = &mut self.server;
        let (observed, config) = (&mut server.observed, &server.config);
        observed.commands[call.id.0 as usize].count(elapsed_ns, finished.failed, config.latency_tracking);
        observed.statistics.commands_processed += 1;
        observed.statistics.command_ns += elapsed_ns;
        let monitors_latency = config.latency_monitor_threshold_ms != 0;
        let client = &mut server.clients[call.client];
        client.commands_total += 1;
        let (is_sampled, counts_slots) = (observed.hot_keys.is_some(), server.counts_slots);
        let request_bytes = call.args.request_bytes() as u64;
        let costs = [1, elapsed_ns, request_bytes, finished.reply_bytes as u64];
        if observed.countdown.pass(costs) {
            note_hottest(&mut self.server, &self.loads, finished, costs);
        }
        if is_sampled {
            note_hot_keys(&mut self.server, finished);
        }
        if counts_slots {
            note_slot(&mut self.server, finished, self.replication.take_command_bytes());
        }
        if monitors_latency {
            note_command_latency(&mut self.server, call.row, elapsed_ns);
        }
        let thresholds = self.server.observed.command_logs.thresholds;
        if thresholds.are_reached(elapsed_ns, request_bytes, finished.reply_bytes as u64) {
            log_remarkable(&mut self.server, &mut self.tracing, finished, request_bytes);
        }
    }

    /// Records a command that ran others, EXEC or a script, which began at `started_ns` on the stopwatch: its time is
    /// that of all of them, and a preceding CLIENT CACHING covered it. `script_slot`: the slot that a script kept to.
    pub(super) fn observe_composite(
        &mut self,
        call: &Call<'_>,
        started_ns: u64,
        reply_bytes: usize,
        failed: bool,
        script_slot: Option<u16>,
    ) {
        if let Some(tracking) = &mut self.server.clients[call.client].tracking {
            tracking.caching_given = false;
        }
        self.start_stopwatch();
        let elapsed_ns = self.stopwatch_ns - started_ns;
        self.observe_call(Finished { call, elapsed_ns, reply_bytes, failed, script_slot });
    }
}

/// Returns whether the value reaches the threshold; a negative threshold is disabled.
#[inline(always)]
fn reaches(value: u64, threshold: i64) -> bool {
    threshold >= 0 && value >= threshold as u64
}

/// Returns 0 if the arguments are invalid.
fn key_count(row: &Command, args: Args<'_>) -> u64 {
    let mut count = 0;
    let is_valid = row.visit_keys(args, &mut |_, _| count += 1);
    if is_valid { count } else { 0 }
}

pub(super) fn hidden_arguments(row: &Command, args: Args<'_>) -> Vec<usize> {
    row.hidden.map_or_else(Vec::new, |hidden| hidden(args))
}
