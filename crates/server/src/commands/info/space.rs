//! Sections about memory and the keyspace.

use super::{Lines, Sources, human_bytes, ratio};
use crate::config::Named;
use crate::observe::memory::ALLOCATOR_NAME;
use crate::server::Server;
use crate::server::cluster_node::ClusterNode;
use std::sync::atomic::Ordering;
use wire::convert::signed_count;

/// The breakdown of memory in MEMORY STATS and INFO memory.
pub(in crate::commands) struct Breakdown {
    /// Memory in use.
    pub used_bytes: u64,
    /// Memory in use at startup.
    pub startup_bytes: u64,
    /// Memory of clients, without replicas.
    pub clients_bytes: u64,
    /// Data waiting to be written to the append-only file.
    pub log_buffer_bytes: u64,
    /// The replication backlog.
    pub backlog_bytes: u64,
    /// The part of the stream beyond the backlog, kept for slower replicas.
    pub replicas_bytes: u64,
    /// The primary's stream that this replica buffers during a full sync.
    pub kept_stream_bytes: u64,
    /// Links of the cluster bus, with what they have to send.
    pub cluster_links_bytes: u64,
    /// Clients that are sources of slot migrations.
    pub slot_import_bytes: u64,
    /// What exports of slots have to send.
    pub slot_export_bytes: u64,
    /// The ghost of an s3fifo policy; `None` with other policies.
    pub ghost_bytes: Option<u64>,
    /// Bucket tables of each database that has keys, and of the first, by database number.
    pub tables_bytes: Vec<(usize, u64)>,
    /// All memory that is not the data set: startup, clients, buffers and tables.
    pub overhead_bytes: u64,
    /// Memory in use without the overhead.
    pub dataset_bytes: u64,
    /// Percentage of the memory allocated after startup.
    pub dataset_percent: f64,
    /// Number of keys in all databases.
    pub keys: u64,
}

impl Breakdown {
    /// Measures the server's memory.
    pub fn of(db: &mut crate::db::Db, server: &Server) -> Self {
        let memory = &server.observed.memory;
        let clients_bytes = server.clients.memory_bytes() as u64;
        let (mut tables_bytes, mut keys) = (Vec::new(), 0);
        let first = std::iter::once(0);
        for index in first.chain(db.databases_in_use().filter(|&index| index > 0)) {
            db.with_database(index, |db| {
                if !db.is_empty() || index == 0 {
                    keys += db.selected_database().shown_len() as u64;
                    tables_bytes.push((index, db.table_bytes() as u64));
                }
            });
        }
        let used_bytes = memory.used_bytes();
        let tables_total: u64 = tables_bytes.iter().map(|(_, bytes)| bytes).sum();
        let log_buffer_bytes = server.observed.persistence.log.buffer_memory_bytes
            + server.observed.persistence.log.confirmation_memory_bytes;
        let replication = &server.observed.replication;
        let replicas_bytes = replication.beyond_size_bytes;
        let backlog_bytes = replication.buffer_bytes - replicas_bytes;
        let kept_stream_bytes = replication.kept_memory_bytes;
        let ghost_bytes = db.access.queues().map(|queues| queues.figures().ghost_bytes);
        let sources = server.clients.iter().filter(|client| client.is_slot_source());
        let slot_import_bytes = sources.map(|client| client.counted_bytes as u64).sum();
        let slot_export_bytes = server.cluster.as_deref().map_or(0, ClusterNode::export_memory_bytes);
        let cluster_links_bytes = server.cluster.as_deref().map_or(0, |node| node.view.links_memory_bytes());
        let overhead_bytes = memory.startup_bytes
            + cluster_links_bytes
            + clients_bytes
            + slot_export_bytes
            + log_buffer_bytes
            + replication.buffer_bytes
            + kept_stream_bytes
            + memory.dictionaries_bytes
            + ghost_bytes.unwrap_or(0)
            + tables_total;
        let dataset_bytes = used_bytes.saturating_sub(overhead_bytes);
        let net_bytes = used_bytes.saturating_sub(memory.startup_bytes).max(1);
        Breakdown {
            used_bytes,
            startup_bytes: memory.startup_bytes,
            clients_bytes,
            log_buffer_bytes,
            backlog_bytes,
            replicas_bytes,
            kept_stream_bytes,
            cluster_links_bytes,
            slot_import_bytes,
            slot_export_bytes,
            ghost_bytes,
            tables_bytes,
            overhead_bytes,
            dataset_bytes,
            dataset_percent: ratio(dataset_bytes, net_bytes) * 100.0,
            keys,
        }
    }
}

pub(super) fn memory(sources: &mut Sources<'_>, lines: &mut Lines) {
    let breakdown = Breakdown::of(sources.db, sources.server);
    sources.server.observed.memory.note_peak(breakdown.used_bytes);
    let memory = &sources.server.observed.memory;
    let with_human = |lines: &mut Lines, name: &str, bytes: u64| {
        lines.field(name, bytes);
        lines.field(&format!("{name}_human"), human_bytes(bytes));
    };
    with_human(lines, "used_memory", breakdown.used_bytes);
    with_human(lines, "used_memory_rss", memory.sample.process_resident_bytes);
    with_human(lines, "used_memory_peak", memory.peak_bytes);
    let peak_percent = ratio(breakdown.used_bytes, memory.peak_bytes) * 100.0;
    lines.field("used_memory_peak_perc", format_args!("{peak_percent:.2}%"));
    lines.field("used_memory_overhead", breakdown.overhead_bytes);
    lines.field("used_memory_startup", breakdown.startup_bytes);
    lines.field("used_memory_dataset", breakdown.dataset_bytes);
    lines.field("used_memory_dataset_perc", format_args!("{:.2}%", breakdown.dataset_percent));
    lines.field("allocator_allocated", memory.sample.allocated_bytes);
    lines.field("allocator_active", memory.sample.active_bytes);
    lines.field("allocator_resident", memory.sample.resident_bytes);
    lines.field("allocator_muzzy", memory.sample.muzzy_bytes);
    with_human(lines, "total_system_memory", memory.system_bytes);
    scripts(sources.server, lines);
    with_human(lines, "maxmemory", sources.server.config.maxmemory_bytes);
    lines.field("maxmemory_policy", sources.server.config.maxmemory_policy.name());
    fragmentation(sources.server, lines);
    buffers(&breakdown, lines);
    let reclaiming = &sources.server.observed.memory.reclaiming;
    lines.field("lazyfree_pending_objects", reclaiming.pending.load(Ordering::Relaxed));
    lines.field("lazyfreed_objects", reclaiming.freed.load(Ordering::Relaxed));
    lines.field("used_memory_dictionaries", sources.server.observed.memory.dictionaries_bytes);
    lines.field("number_of_hash_shapes", sources.server.observed.memory.hash_shapes);
    lines.field("used_memory_hash_shapes", sources.server.observed.memory.hash_shapes_bytes);
    if let Some(ghost_bytes) = breakdown.ghost_bytes {
        lines.field("used_memory_s3fifo_ghost", ghost_bytes);
    }
}

fn scripts(server: &Server, lines: &mut Lines) {
    let scripts = &server.scripts;
    let (eval_bytes, function_bytes) = scripts.interpreter_bytes();
    let (cached_bytes, library_bytes) =
        (scripts.cache.used_bytes() as u64, scripts.libraries.used_bytes() as u64);
    lines.fields(&[("used_memory_lua", eval_bytes), ("used_memory_vm_eval", eval_bytes)]);
    lines.field("used_memory_lua_human", human_bytes(eval_bytes));
    lines.fields(&[
        ("used_memory_scripts_eval", cached_bytes),
        ("number_of_cached_scripts", scripts.cache.len() as u64),
        ("number_of_functions", scripts.libraries.functions_len() as u64),
        ("number_of_libraries", scripts.libraries.len() as u64),
        ("used_memory_vm_functions", function_bytes),
        ("used_memory_vm_total", eval_bytes + function_bytes),
    ]);
    lines.field("used_memory_vm_total_human", human_bytes(eval_bytes + function_bytes));
    let scripts_bytes = cached_bytes + library_bytes;
    lines.fields(&[("used_memory_functions", library_bytes), ("used_memory_scripts", scripts_bytes)]);
    lines.field("used_memory_scripts_human", human_bytes(scripts_bytes));
}

fn fragmentation(server: &Server, lines: &mut Lines) {
    let sample = &server.observed.memory.sample;
    let difference = |a: u64, b: u64| signed_count(a) - signed_count(b);
    let two_digits = |value: f64| format!("{value:.2}");
    let rss_bytes = sample.process_resident_bytes;
    lines.field(
        "allocator_frag_ratio",
        two_digits(1.0 + ratio(sample.fragmented_bytes, sample.allocated_bytes)),
    );
    lines.field("allocator_frag_bytes", sample.fragmented_bytes);
    lines.field("allocator_rss_ratio", two_digits(ratio(sample.resident_bytes, sample.active_bytes)));
    lines.field("allocator_rss_bytes", difference(sample.resident_bytes, sample.active_bytes));
    lines.field("rss_overhead_ratio", two_digits(ratio(rss_bytes, sample.resident_bytes)));
    lines.field("rss_overhead_bytes", difference(rss_bytes, sample.resident_bytes));
    lines.field("mem_fragmentation_ratio", two_digits(ratio(rss_bytes, sample.used_bytes)));
    lines.field("mem_fragmentation_bytes", difference(rss_bytes, sample.used_bytes));
}

fn buffers(breakdown: &Breakdown, lines: &mut Lines) {
    let Breakdown {
        clients_bytes,
        log_buffer_bytes,
        backlog_bytes,
        replicas_bytes,
        kept_stream_bytes,
        cluster_links_bytes,
        slot_import_bytes,
        slot_export_bytes,
        ..
    } = *breakdown;
    let stream_bytes = backlog_bytes + replicas_bytes + kept_stream_bytes;
    lines.fields(&[
        ("mem_not_counted_for_evict", log_buffer_bytes + stream_bytes + slot_export_bytes),
        ("mem_replication_backlog", backlog_bytes),
        ("mem_total_replication_buffers", backlog_bytes + replicas_bytes + kept_stream_bytes),
        ("mem_replicas_repl_buffer", kept_stream_bytes),
        ("mem_clients_slaves", replicas_bytes),
        ("mem_clients_normal", clients_bytes),
        ("mem_cluster_links", cluster_links_bytes),
        ("mem_cluster_slot_import", slot_import_bytes),
        ("mem_cluster_slot_export", slot_export_bytes),
        ("mem_aof_buffer", log_buffer_bytes),
    ]);
    lines.field("mem_allocator", ALLOCATOR_NAME);
    lines.fields(&[("mem_overhead_db_hashtable_rehashing", 0), ("active_defrag_running", 0)]);
}

pub(super) fn keyspace(sources: &mut Sources<'_>, lines: &mut Lines) {
    for index in sources.db.databases_in_use() {
        sources.db.with_database(index, |db| {
            if db.selected_database().shown_len() == 0 {
                return;
            }
            let average_ttl_ms = db.average_ttl_ms();
            lines.field(
                &format!("db{index}"),
                format_args!(
                    "keys={},expires={},avg_ttl={average_ttl_ms},keys_with_volatile_items={}",
                    db.selected_database().shown_len(),
                    db.selected_database().shown_expiring_len(),
                    db.expiring_fields_len()
                ),
            );
        });
    }
}
