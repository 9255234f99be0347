//! Sections about the process: server, TLS, threads, CPU, cluster, engines, debug.

use super::super::connection::COMPATIBLE_VERSION;
use super::{Lines, Sources};
use crate::config::Config;
use crate::db::slots;
use crate::observe::IoThreadFigures;
use crate::observe::process::{CpuTimes, Whose, cpu_times};
use crate::observe::supervisor;
use crate::observe::tls::Certificates;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tls::certificate::Details;
use wire::convert::signed_count;

/// The reference release whose behaviour this server follows.
pub const VALKEY_VERSION: &str = "9.1.2";

pub(super) fn server(sources: &mut Sources<'_>, lines: &mut Lines) {
    let server = &*sources.server;
    let (config, identity) = (&server.config, &server.identity);
    let machine = rustix::system::uname();
    let mode = if config.extended_redis_compatibility { "redis_mode" } else { "server_mode" };
    let uptime_s = (server.now.unix_us - identity.started.unix_us).max(0) / 1_000_000;
    lines.field("redis_version", COMPATIBLE_VERSION);
    lines.field("server_name", if config.extended_redis_compatibility { "redis" } else { "valkey" });
    lines.field("valkey_version", VALKEY_VERSION);
    lines.field("valkey_release_stage", "ga");
    lines.field("warmline_version", env!("CARGO_PKG_VERSION"));
    lines.field("redis_git_sha1", "00000000");
    lines.field("redis_git_dirty", 0);
    lines.field("redis_build_id", "0000000000000000");
    lines.field(mode, if server.cluster.is_some() { "cluster" } else { "standalone" });
    lines.field(
        "os",
        format_args!(
            "{} {} {}",
            machine.sysname().to_string_lossy(),
            machine.release().to_string_lossy(),
            machine.machine().to_string_lossy()
        ),
    );
    lines.field("arch_bits", usize::BITS);
    lines.field("monotonic_clock", "POSIX clock_gettime");
    lines.field("multiplexing_api", "epoll");
    lines.field("gcc_version", "0.0.0");
    lines.field("process_id", identity.process_id);
    lines.field("process_supervised", supervisor::name());
    lines.field("run_id", &identity.run_id);
    lines.field("tcp_port", if config.port != 0 { config.port } else { config.tls_port });
    lines.field("server_time_usec", server.now.unix_us);
    lines.field("uptime_in_seconds", uptime_s);
    lines.field("uptime_in_days", uptime_s / (24 * 3600));
    lines.field("hz", config.hz);
    lines.field("configured_hz", config.hz);
    lines.field("clients_hz", config.hz);
    lines.field("lru_clock", server.now.unix_us / 1_000_000 & 0xff_ffff);
    lines.field("executable", &identity.executable);
    lines.field("config_file", &identity.config_file);
    lines.field("io_threads_active", u8::from(config.io_threads > 1));
    lines.field("availability_zone", String::from_utf8_lossy(&config.availability_zone));
    if let Some(deadline_us) = server.observed.shutdown_deadline_us {
        let left_us = signed_count(deadline_us) - signed_count(server.now.monotonic_us);
        lines.field("shutdown_in_milliseconds", left_us / 1000);
    }
    listeners(config, lines);
}

fn listeners(config: &Config, lines: &mut Lines) {
    let mut count = 0;
    if config.port != 0 {
        let binds: String = config.bind.iter().map(|host| format!("bind={host},")).collect();
        lines.field("listener0", format_args!("name=tcp,{binds}port={}", config.port));
        count += 1;
    }
    if let Some(path) = &config.unixsocket {
        let path = String::from_utf8_lossy(path);
        lines.field(&format!("listener{count}"), format_args!("name=unix,bind={path}"));
        count += 1;
    }
    if config.tls_port != 0 {
        let binds: String = config.bind.iter().map(|host| format!("bind={host},")).collect();
        lines.field(&format!("listener{count}"), format_args!("name=tls,{binds}port={}", config.tls_port));
    }
}

pub(super) fn tls(sources: &mut Sources<'_>, lines: &mut Lines) {
    let Certificates { server, client, authority } = sources.server.observed.tls.certificates();
    let now_s = sources.server.now.unix_ms() / 1000;
    for (role, certificate) in [("server", server), ("client", client), ("ca", authority)] {
        let (serial, left_s) = match certificate {
            Some(Details { serial, expires_s }) => (serial, (expires_s - now_s).max(0)),
            None => ("none".to_owned(), 0),
        };
        lines.field(&format!("tls_{role}_cert_serial"), serial);
        lines.field(&format!("tls_{role}_cert_expires_in_seconds"), left_s);
    }
}

/// Thread 0 is the executor: it runs all commands, and serves the sockets of some clients.
pub(super) fn threads(sources: &mut Sources<'_>, lines: &mut Lines) {
    let server = &*sources.server;
    let statistics = &server.observed.statistics;
    let threads = &server.observed.memory.io_threads;
    let of = |thread: &IoThreadFigures| {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (thread.clients.load(Ordering::Relaxed), load(&thread.reads), load(&thread.writes))
    };
    let elsewhere: usize = threads.iter().map(|thread| of(thread).0).sum();
    let own =
        (server.clients.len().saturating_sub(elsewhere), statistics.total_reads, statistics.total_writes);
    for (number, (clients, reads, writes)) in std::iter::once(own)
        .chain(threads.iter().map(|thread| of(thread)))
        .take(server.config.io_threads as usize)
        .enumerate()
    {
        let value = format_args!("clients={clients},reads={reads},writes={writes}").to_string();
        lines.field(&format!("io_thread_{number}"), value);
    }
}

pub(super) fn cpu(sources: &mut Sources<'_>, lines: &mut Lines) {
    for (whose, suffix) in
        [(Whose::Process, ""), (Whose::Children, "_children"), (Whose::ThisThread, "_main_thread")]
    {
        let CpuTimes { user, system } = cpu_times(whose);
        lines.field(&format!("used_cpu_sys{suffix}"), seconds(system));
        lines.field(&format!("used_cpu_user{suffix}"), seconds(user));
    }
    let active = Duration::from_micros(sources.server.observed.statistics.loop_us);
    lines.field("used_active_time_main_thread", seconds(active));
    let threads = &sources.server.observed.memory.io_threads;
    for number in 1..sources.server.config.io_threads as usize {
        let active_us = threads.get(number - 1).map_or(0, |thread| thread.busy_us.load(Ordering::Relaxed));
        let active = Duration::from_micros(active_us);
        lines.field(&format!("used_active_time_io_thread_{number}"), seconds(active));
    }
}

fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

pub(super) fn cluster(sources: &mut Sources<'_>, lines: &mut Lines) {
    lines.field("cluster_enabled", u8::from(sources.server.cluster.is_some()));
}

pub(super) fn cluster_info(sources: &mut Sources<'_>, lines: &mut Lines) {
    let Some(node) = &sources.server.cluster else { return };
    node.info_lines().iter().for_each(|(name, value)| lines.field(name, value));
    // The following are not in CLUSTER INFO.
    let own = node.view.my_primary().slots();
    lines.field("cluster_own_slots", own.len());
    lines.field("cluster_own_slot_keys", slots::keys_in_all(sources.db, own));
    lines.field("cluster_slot_stats_enabled", u8::from(sources.server.config.cluster_slot_stats_enabled));
}

/// The script engine is listed as a module, as in MODULE LIST.
pub(super) fn modules(_sources: &mut Sources<'_>, lines: &mut Lines) {
    lines.field("module", "name=lua,ver=1,api=1,filters=0,usedby=[],using=[],options=[]");
}

pub(super) fn scripting_engines(sources: &mut Sources<'_>, lines: &mut Lines) {
    let scripts = &sources.server.scripts;
    let (eval_bytes, function_bytes) = scripts.interpreter_bytes();
    let used_bytes = eval_bytes + function_bytes;
    let overhead_bytes = (scripts.cache.used_bytes() + scripts.libraries.used_bytes()) as u64;
    lines.fields(&[
        ("engines_count", 1),
        ("engines_total_used_memory", used_bytes),
        ("engines_total_memory_overhead", overhead_bytes),
    ]);
    lines.field(
        "engine_0",
        format_args!(
            "name=LUA,module=lua,abi_version=4,used_memory={used_bytes},memory_overhead={overhead_bytes}"
        ),
    );
}

pub(super) fn debug(sources: &mut Sources<'_>, lines: &mut Lines) {
    let statistics = &sources.server.observed.statistics;
    let calls = statistics.commands_processed.max(1);
    lines.field("eventloop_duration_aof_sum", 0);
    lines.field("eventloop_duration_cron_sum", statistics.cron_us);
    lines.field("eventloop_duration_max", statistics.loop_us_max);
    lines.field("eventloop_cmd_per_cycle_max", statistics.commands_per_loop_max);
    lines.field("command_duration_mean_nsec", statistics.command_ns / calls);
    lines.field("allocator_name", crate::observe::memory::ALLOCATOR_NAME);
}
