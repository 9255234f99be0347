//! Sections about activity: clients, persistence, counters, replication, commands and errors.

use super::{Lines, Sources, ratio, safe_name};
use crate::observe::IoThreadFigures;
use crate::observe::replication::LinkState;
use crate::server::{Loading, Server};
use crate::session::pubsub::Kind;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::convert::{signed_count, usize_of};

pub(super) fn clients(sources: &mut Sources<'_>, lines: &mut Lines) {
    let server = &*sources.server;
    let (mut input_max, mut output_max) = (0, 0);
    let (mut connected, mut pubsub, mut watching) = (0, 0, 0);
    for client in server.clients.iter() {
        connected += u32::from(!client.is_replica && !client.is_linking);
        input_max = input_max.max(client.connection.input_bytes() + client.connection.input_free_bytes());
        output_max = output_max.max(client.output.len() + client.connection.output_under_way());
        pubsub += u32::from(!client.subscriptions.is_empty());
        watching += u32::from(!client.watched.is_empty());
    }
    lines.field("connected_clients", connected);
    lines.field("cluster_connections", server.cluster.as_ref().map_or(0, |node| node.view.links().count()));
    lines.field("maxclients", server.config.maxclients);
    lines.field("client_recent_max_input_buffer", input_max);
    lines.field("client_recent_max_output_buffer", output_max);
    lines.field("blocked_clients", server.blocked.count());
    lines.field("tracking_clients", server.tracking.clients);
    lines.field("pubsub_clients", pubsub);
    lines.field("watching_clients", watching);
    lines.field("clients_in_timeout_table", server.blocked.deadlines());
    lines.field("total_watched_keys", server.watch.keys());
    lines.field("total_blocking_keys", server.blocked.keys());
    lines.field("total_blocking_keys_on_nokey", server.blocked.keys_unblocking_on_removal());
    let (reason, actions, left_ms) = match server.pauses.shown(server.now) {
        None => ("none", "none", 0),
        Some((reason, all, left_ms)) => (reason, if all { "all" } else { "write" }, left_ms),
    };
    lines.field("paused_reason", reason);
    lines.field("paused_actions", actions);
    lines.field("paused_timeout_milliseconds", left_ms);
}

pub(super) fn persistence(sources: &mut Sources<'_>, lines: &mut Lines) {
    let figures = &sources.server.observed.persistence;
    let now_s = sources.server.now.unix_us / 1_000_000;
    let elapsed_s = |since: Option<i64>| since.map_or(-1, |since_s| now_s - since_s);
    let child = &figures.child;
    lines.fields(&[
        ("loading", u64::from(sources.server.loading == Loading::InPlace)),
        ("async_loading", u64::from(sources.server.loading == Loading::Beside)),
        ("current_cow_peak", child.copied_bytes_peak),
        ("current_cow_size", child.copied_bytes),
        ("current_cow_size_age", 0),
    ]);
    lines.field(
        "current_fork_perc",
        format!("{:.2}", 100.0 * ratio(child.keys_processed, child.keys_total.max(1))),
    );
    lines.fields(&[
        ("current_save_keys_processed", child.keys_processed),
        ("current_save_keys_total", child.keys_total),
        ("rdb_changes_since_last_save", sources.db.change_log.dirty),
        ("rdb_bgsave_in_progress", figures.save_started_s.is_some().into()),
    ]);
    lines.field("rdb_last_save_time", figures.last_save_s);
    lines.field("rdb_last_bgsave_status", if figures.last_save_ok { "ok" } else { "err" });
    lines.field("rdb_last_bgsave_time_sec", figures.last_background_save_duration_s);
    lines.field("rdb_current_bgsave_time_sec", elapsed_s(figures.save_started_s));
    lines.fields(&[
        ("rdb_saves", figures.saves),
        ("rdb_last_cow_size", figures.last_save_copied_bytes),
        ("rdb_last_load_keys_expired", figures.keys_expired),
        ("rdb_last_load_keys_loaded", figures.keys_loaded),
    ]);
    log(sources, lines, now_s);
    lines.fields(&[
        ("module_fork_in_progress", 0),
        ("module_fork_last_cow_size", 0),
        ("slot_migration_fork_in_progress", figures.exports_slots.into()),
    ]);
    appended(sources, lines);
    loading(sources, lines, now_s);
}

/// The append-only file, enabled or not.
fn log(sources: &Sources<'_>, lines: &mut Lines, now_s: i64) {
    let figures = &sources.server.observed.persistence.log;
    let status = |ok: bool| if ok { "ok" } else { "err" };
    lines.fields(&[
        ("aof_enabled", u8::from(figures.enabled)),
        ("aof_rewrite_in_progress", figures.rewriting.into()),
        ("aof_rewrite_scheduled", figures.rewrite_scheduled.into()),
    ]);
    lines.field("aof_last_rewrite_time_sec", figures.last_rewrite_duration_s);
    lines.field(
        "aof_current_rewrite_time_sec",
        figures.rewrite_started_s.map_or(-1, |since_s| now_s - since_s),
    );
    lines.field("aof_last_bgrewrite_status", status(figures.last_rewrite_ok));
    lines.fields(&[
        ("aof_rewrites", figures.rewrites),
        ("aof_rewrites_consecutive_failures", figures.rewrites_failed_in_a_row),
    ]);
    lines.field("aof_last_write_status", status(figures.last_write_ok && figures.last_fsync_ok));
    lines.field("aof_last_cow_size", figures.last_rewrite_copied_bytes);
    lines.fields(&[
        ("unconfirmed_turns", figures.unconfirmed_turns),
        ("unconfirmed_keys", figures.unconfirmed_keys),
    ]);
}

/// Lines for an enabled append-only file only.
fn appended(sources: &Sources<'_>, lines: &mut Lines) {
    let figures = &sources.server.observed.persistence.log;
    if !figures.enabled {
        return;
    }
    lines.fields(&[
        ("aof_current_size", figures.bytes),
        ("aof_base_size", figures.base_bytes),
        ("aof_pending_rewrite", u64::from(figures.rewrite_scheduled)),
        ("aof_buffer_length", figures.buffered_bytes),
        ("aof_pending_bio_fsync", u64::from(figures.pending_fsync)),
        ("aof_delayed_fsync", figures.delayed_fsyncs),
    ]);
}

fn loading(sources: &Sources<'_>, lines: &mut Lines, now_s: i64) {
    let Some(progress) = sources.server.observed.persistence.loading else { return };
    lines.field("loading_start_time", progress.started_s);
    lines.fields(&[
        ("loading_total_bytes", progress.total_bytes),
        ("loading_rdb_used_mem", 0),
        ("loading_loaded_bytes", progress.loaded_bytes),
    ]);
    lines.field("loading_loaded_perc", format!("{:.2}", progress.percent()));
    lines.field("loading_eta_seconds", progress.seconds_left(now_s).unwrap_or(1));
}

pub(super) fn stats(sources: &mut Sources<'_>, lines: &mut Lines) {
    traffic(sources, lines);
    data(sources, lines);
    observers(sources, lines);
    loops(sources, lines);
}

fn traffic(sources: &Sources<'_>, lines: &mut Lines) {
    let observed = &sources.server.observed;
    let (statistics, rates) = (&observed.statistics, &observed.rates);
    let kilobytes = |bytes: u64| format!("{:.2}", ratio(bytes, 1024));
    lines.fields(&[
        ("total_connections_received", statistics.connections_received),
        ("total_commands_processed", statistics.commands_processed),
        ("instantaneous_ops_per_sec", rates.commands.mean()),
        ("total_net_input_bytes", statistics.input_bytes),
        (
            "total_net_output_bytes",
            statistics.output_bytes + statistics.replication_output_bytes + statistics.slot_export_bytes,
        ),
        ("total_net_repl_input_bytes", statistics.replication_input_bytes),
        ("total_net_repl_output_bytes", statistics.replication_output_bytes),
        ("total_net_cluster_slot_import_bytes", statistics.slot_import_bytes),
        ("total_net_cluster_slot_export_bytes", statistics.slot_export_bytes),
    ]);
    lines.field("instantaneous_input_kbps", kilobytes(rates.input_bytes.mean()));
    lines.field("instantaneous_output_kbps", kilobytes(rates.output_bytes.mean()));
    lines.field("instantaneous_input_repl_kbps", kilobytes(rates.replication_input_bytes.mean()));
    lines.field("instantaneous_output_repl_kbps", kilobytes(rates.replication_output_bytes.mean()));
    lines.fields(&[
        ("rejected_connections", statistics.connections_rejected),
        ("sync_full", statistics.full_syncs),
        ("sync_partial_ok", statistics.partial_syncs),
        ("sync_partial_err", statistics.partial_syncs_refused),
    ]);
}

fn data(sources: &Sources<'_>, lines: &mut Lines) {
    let (figures, statistics) = (&sources.db.figures, &sources.server.observed.statistics);
    let now_us = sources.server.now.monotonic_us;
    lines.fields(&[("expired_keys", figures.expired_keys), ("expired_fields", figures.expired_fields)]);
    lines.field("expired_stale_perc", format!("{:.2}", figures.stale_percent));
    lines.field("expired_keys_with_volatile_items_stale_perc", "0.00");
    lines.fields(&[
        ("expired_time_cap_reached_count", statistics.expire_time_cap_reached),
        ("expire_cycle_cpu_milliseconds", figures.expire_cycle_cpu_us / 1000),
        ("evicted_keys", figures.evicted_keys),
    ]);
    if let Some(queues) = sources.db.access.queues() {
        let queues = queues.figures();
        lines.fields(&[
            ("s3fifo_small_keys", queues.small_keys),
            ("s3fifo_main_keys", queues.main_keys),
            ("s3fifo_promoted_keys", queues.promoted_keys),
            ("s3fifo_ghost_hits", queues.ghost_hits),
        ]);
    }
    lines.fields(&[
        ("evicted_clients", statistics.evicted_clients),
        ("evicted_scripts", sources.server.scripts.evicted),
        ("total_eviction_exceeded_time", statistics.over_memory_us(now_us) / 1000),
        ("current_eviction_exceeded_time", statistics.over_memory_now_us(now_us) / 1000),
        ("keyspace_hits", figures.hits),
        ("keyspace_misses", figures.misses),
    ]);
}

fn observers(sources: &Sources<'_>, lines: &mut Lines) {
    let (pubsub, tracking) = (&sources.server.pubsub, &sources.server.tracking);
    let persistence = &sources.server.observed.persistence;
    lines.fields(&[
        ("pubsub_channels", pubsub.listeners(Kind::Channel).len()),
        ("pubsub_patterns", pubsub.listeners(Kind::Pattern).len()),
        ("pubsubshard_channels", pubsub.listeners(Kind::ShardChannel).len()),
        ("latest_fork_usec", usize_of(persistence.fork_us)),
        ("total_forks", usize_of(persistence.forks)),
        ("migrate_cached_sockets", persistence.migration_connections),
        ("slave_expires_tracked_keys", sources.db.client_expiring_len()),
        ("active_defrag_hits", 0),
        ("active_defrag_misses", 0),
        ("active_defrag_key_hits", 0),
        ("active_defrag_key_misses", 0),
        ("total_active_defrag_time", 0),
        ("current_active_defrag_time", 0),
        ("tracking_total_keys", tracking.keys()),
        ("tracking_total_items", tracking.items()),
        ("tracking_total_prefixes", tracking.prefixes()),
    ]);
}

fn loops(sources: &Sources<'_>, lines: &mut Lines) {
    let (statistics, rates) = (&sources.server.observed.statistics, &sources.server.observed.rates);
    let denials = sources.server.observed.denials;
    let threads = &sources.server.observed.memory.io_threads;
    let total = |counter: fn(&IoThreadFigures) -> &AtomicU64| {
        threads.iter().map(|thread| counter(thread).load(Ordering::Relaxed)).sum()
    };
    lines.fields(&[
        ("unexpected_error_replies", 0),
        ("total_error_replies", statistics.errors),
        ("dump_payload_sanitizations", 0),
        ("total_reads_processed", statistics.total_reads + total(|thread| &thread.reads)),
        ("total_writes_processed", statistics.total_writes + total(|thread| &thread.writes)),
        ("io_threaded_reads_processed", total(|thread| &thread.reads)),
        ("io_threaded_writes_processed", total(|thread| &thread.writes)),
        ("io_threaded_freed_objects", 0),
        ("io_threaded_accept_processed", 0),
        ("io_threaded_poll_processed", total(|thread| &thread.polls)),
        ("io_threaded_total_prefetch_batches", sources.db.figures.prefetch_batches),
        ("io_threaded_total_prefetch_entries", sources.db.figures.prefetched_keys),
        ("client_query_buffer_limit_disconnections", statistics.query_buffer_limit_disconnections),
        ("client_output_buffer_limit_disconnections", statistics.output_buffer_limit_disconnections),
        ("reply_buffer_shrinks", 0),
        ("reply_buffer_expands", 0),
        ("eventloop_cycles", statistics.loops),
        ("eventloop_duration_sum", statistics.loop_us),
        ("eventloop_duration_cmd_sum", statistics.command_ns / 1000),
        ("instantaneous_eventloop_cycles_per_sec", rates.loops.mean()),
        ("instantaneous_eventloop_duration_usec", rates.loop_us.mean()),
        ("acl_access_denied_auth", denials.authentications),
        ("acl_access_denied_cmd", denials.commands),
        ("acl_access_denied_key", denials.keys),
        ("acl_access_denied_channel", denials.channels),
        ("acl_access_denied_tls_cert", denials.certificates),
        ("acl_access_denied_db", denials.databases),
    ]);
}

/// The server's role and, on a replica, the link to its primary.
fn link(server: &Server, lines: &mut Lines) {
    let Some(primary) = &server.config.replicaof else { return lines.field("role", "master") };
    let figures = server.observed.replication.link;
    let state = figures.map_or(LinkState::Connect, |link| link.state);
    let now = server.now;
    let since_input_s = figures
        .map_or(-1, |link| signed_count(now.monotonic_us.saturating_sub(link.last_input_us) / 1_000_000));
    let is_up = state == LinkState::Connected;
    lines.field("role", "slave");
    lines.field("master_host", String::from_utf8_lossy(&primary.host));
    lines.field("master_port", primary.port);
    lines.field("master_link_status", if is_up { "up" } else { "down" });
    lines.field("master_last_io_seconds_ago", if is_up { since_input_s } else { -1 });
    lines.field("master_sync_in_progress", i32::from(state == LinkState::Sync));
    // A replica without a known stream starts at the stream's first byte.
    let applied =
        if figures.is_some_and(|link| link.continues) { server.observed.replication.offset } else { 1 };
    let primary_client = server.clients.iter().find(|client| client.is_primary && !client.is_linking);
    let stream = &server.observed.replication;
    let unread = primary_client.map_or(0, |client| client.connection.input_bytes() as u64);
    let unapplied = if is_up { unread + stream.kept_bytes } else { unread };
    lines.field("slave_read_repl_offset", applied + unapplied);
    lines.field("slave_repl_offset", applied);
    lines.field("replicas_repl_buffer_size", stream.kept_bytes);
    lines.field("replicas_repl_buffer_peak", stream.kept_peak_bytes);
    if state == LinkState::Sync {
        let transfer = figures.and_then(|link| link.transfer);
        let total = transfer.and_then(|transfer| transfer.total_bytes).map_or(-1, signed_count);
        let read = transfer.map_or(0, |transfer| signed_count(transfer.read_bytes));
        let percent = if total > 0 { 100.0 * read as f64 / total as f64 } else { 0.0 };
        lines.field("master_sync_total_bytes", total);
        lines.field("master_sync_read_bytes", read);
        lines.field("master_sync_left_bytes", total - read);
        lines.field("master_sync_perc", format!("{percent:.2}"));
        lines.field("master_sync_last_io_seconds_ago", since_input_s);
    }
    if !is_up {
        let since_s = figures.and_then(|link| link.down_since_s);
        let down_s = since_s.map_or(-1, |since_s| now.unix_us / 1_000_000 - since_s);
        lines.field("master_link_down_since_seconds", down_s);
    }
    lines.field("slave_priority", server.config.replica_priority);
    lines.field("slave_read_only", i32::from(server.config.replica_read_only));
    lines.field("replica_announced", i32::from(server.config.replica_announced));
}

pub(super) fn replication(sources: &mut Sources<'_>, lines: &mut Lines) {
    let server = &*sources.server;
    link(server, lines);
    let figures = &server.observed.replication;
    lines.field("connected_slaves", figures.replicas.len());
    if server.config.min_replicas_to_write > 0 && server.config.min_replicas_max_lag_seconds > 0 {
        lines.field("min_slaves_good_slaves", server.replicas.good);
    }
    for (index, replica) in figures.replicas.iter().enumerate() {
        lines.field(
            &format!("slave{index}"),
            format_args!(
                "ip={},port={},state={},offset={},lag={},type={}",
                replica.address,
                replica.port,
                replica.state.name(),
                replica.acknowledged,
                replica.lag_s(server.now.monotonic_us),
                replica.channel_name()
            ),
        );
    }
    lines.field("replicas_waiting_psync", server.replicas.awaiting_main_channel.len());
    lines.field("master_failover_state", figures.failover.name());
    let (second_id, first_other) = match &figures.second_id {
        Some((id, first_other)) => (id.clone(), signed_count(*first_other)),
        None => ("0".repeat(40), -1),
    };
    lines.field("master_replid", &figures.id);
    lines.field("master_replid2", second_id);
    lines.field("master_repl_offset", figures.offset);
    lines.field("second_repl_offset", first_other);
    lines.field("repl_backlog_active", u8::from(figures.backlog.is_some()));
    lines.field("repl_backlog_size", server.config.repl_backlog_size_bytes);
    let first_byte_offset = figures.backlog.map_or(0, |backlog| backlog.first_byte_offset);
    lines.field("repl_backlog_first_byte_offset", first_byte_offset);
    lines.field("repl_backlog_histlen", figures.backlog_len());
}

pub(super) fn command_statistics(sources: &mut Sources<'_>, lines: &mut Lines) {
    let server = &*sources.server;
    for (id, row) in server.registry.iter() {
        let figures = &server.observed.commands[id.0 as usize];
        if figures.is_empty() {
            continue;
        }
        // Each scrape of metrics contains hundreds of these lines: uses integers, without intermediate strings.
        let busy_us = figures.busy_us();
        let hundredths =
            (busy_us.saturating_mul(100) + figures.calls / 2).checked_div(figures.calls).unwrap_or(0);
        lines.text("cmdstat_").text(row.name);
        lines.text(":calls=").number(figures.calls);
        lines.text(",usec=").number(busy_us);
        lines.text(",usec_per_call=").number(hundredths / 100).text(".");
        lines.number(hundredths / 10 % 10).number(hundredths % 10);
        lines.text(",rejected_calls=").number(figures.rejected);
        lines.text(",failed_calls=").number(figures.failed).text("\r\n");
    }
}

pub(super) fn error_statistics(sources: &mut Sources<'_>, lines: &mut Lines) {
    for (code, count) in &sources.server.observed.statistics.errors_by_code {
        lines.field(&format!("errorstat_{}", safe_name(code)), format_args!("count={count}"));
    }
}

pub(super) fn latency_statistics(sources: &mut Sources<'_>, lines: &mut Lines) {
    let server = &*sources.server;
    for (id, row) in server.registry.iter() {
        let Some(latency) = &server.observed.commands[id.0 as usize].latency else { continue };
        let histogram = latency.histogram();
        let percentiles = server.config.latency_tracking_info_percentiles.iter().map(|&percentile| {
            let latency_us = histogram.value_at_percentile(percentile) as f64 / 1000.0;
            let shown = format!("{percentile:.6}");
            format!("p{}={latency_us:.3}", shown.trim_end_matches('0').trim_end_matches('.'))
        });
        let percentiles: Vec<String> = percentiles.collect();
        lines.field(&format!("latency_percentiles_usec_{}", safe_name(row.name)), percentiles.join(","));
    }
}
