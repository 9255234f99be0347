//! The table of INFO's fields, one row each. A field without a row becomes a gauge under its own name.
//!
//! Each row has the name here, in base units (seconds, bytes), and the name in redis_exporter, whose value is that of
//! INFO. Names of counters are without `_total`.

use crate::metrics::Kind;

/// The metric of a field of INFO.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the field.
    pub field: &'static str,
    /// Type of the metric.
    pub kind: Kind,
    /// Name after `warmline_`.
    pub name: &'static str,
    /// Number of INFO's units in a base unit.
    pub per_unit: f64,
    /// Name after `redis_`; empty if redis_exporter has none.
    pub exporter: &'static str,
    /// The HELP text.
    pub help: &'static str,
}

macro_rules! rows {
    ($($kind:ident $field:literal, $name:literal, $per_unit:ident, $exporter:literal, $help:literal;)*) => {
        &[$(Row {
            field: $field,
            kind: $kind,
            name: $name,
            per_unit: $per_unit,
            exporter: $exporter,
            help: $help,
        }),*]
    };
}

#[expect(non_upper_case_globals, reason = "a word of the table")]
const gauge: Kind = Kind::Gauge;
#[expect(non_upper_case_globals, reason = "a word of the table")]
const counter: Kind = Kind::Counter;
const ONE: f64 = 1.0;
const MICROSECONDS: f64 = 1e6;
const MILLISECONDS: f64 = 1e3;
const KILOBYTES: f64 = 1.0 / 1024.0;
const PERCENT: f64 = 100.0;

/// Rows in the order of INFO's sections.
pub const ROWS: &[Row] = rows! {
    gauge "uptime_in_seconds", "uptime_seconds", ONE, "uptime_in_seconds", "Uptime of the server";
    gauge "process_id", "process_id", ONE, "process_id", "Process id";
    gauge "server_time_usec", "time_seconds", MICROSECONDS, "", "The server's Unix time";
    gauge "io_threads_active", "io_threads_active", ONE, "io_threads_active", "Whether I/O threads are active";
    gauge "tls_server_cert_expires_in_seconds", "tls_server_certificate_expires_seconds", ONE, "",
        "Time until the server certificate expires";
    gauge "tls_client_cert_expires_in_seconds", "tls_client_certificate_expires_seconds", ONE, "",
        "Time until the client certificate of the server's own connections expires";
    gauge "tls_ca_cert_expires_in_seconds", "tls_ca_certificate_expires_seconds", ONE, "",
        "Time until the CA certificate expires";
    // Clients
    gauge "connected_clients", "connected_clients", ONE, "connected_clients", "Connected clients, without replicas";
    gauge "maxclients", "clients_max", ONE, "max_clients", "Limit of connected clients";
    gauge "client_recent_max_input_buffer", "client_input_buffer_max_bytes", ONE, "client_recent_max_input_buffer_bytes",
        "Largest query buffer of a client";
    gauge "client_recent_max_output_buffer", "client_output_buffer_max_bytes", ONE, "client_recent_max_output_buffer_bytes",
        "Largest unsent output of a client";
    gauge "blocked_clients", "blocked_clients", ONE, "blocked_clients", "Clients blocked by a command";
    gauge "tracking_clients", "tracking_clients", ONE, "tracking_clients", "Clients with client-side caching enabled";
    gauge "pubsub_clients", "pubsub_clients", ONE, "pubsub_clients", "Clients with subscriptions";
    gauge "watching_clients", "watching_clients", ONE, "watching_clients", "Clients with watched keys";
    gauge "clients_in_timeout_table", "clients_with_timeout", ONE, "clients_in_timeout_table",
        "Blocked clients with a timeout";
    gauge "total_watched_keys", "watched_keys", ONE, "total_watched_keys", "Watched keys";
    gauge "total_blocking_keys", "blocking_keys", ONE, "total_blocking_keys", "Keys on which clients are blocked";
    gauge "total_blocking_keys_on_nokey", "blocking_keys_on_nokey", ONE, "total_blocking_keys_on_nokey",
        "Keys on whose deletion clients are blocked";
    gauge "paused_timeout_milliseconds", "clients_paused_seconds", MILLISECONDS, "",
        "Time until CLIENT PAUSE ends";
    // Memory
    gauge "used_memory", "memory_used_bytes", ONE, "memory_used_bytes", "Memory used, as counted by the allocator";
    gauge "used_memory_rss", "memory_resident_bytes", ONE, "memory_used_rss_bytes",
        "Resident memory of the process";
    gauge "used_memory_peak", "memory_used_peak_bytes", ONE, "memory_used_peak_bytes",
        "Peak of memory used";
    gauge "used_memory_peak_perc", "memory_used_of_peak_ratio", PERCENT, "", "Memory used as a fraction of its peak";
    gauge "used_memory_overhead", "memory_overhead_bytes", ONE, "memory_used_overhead_bytes",
        "Memory used for other purposes than data";
    gauge "used_memory_startup", "memory_startup_bytes", ONE, "memory_used_startup_bytes",
        "Memory used at startup";
    gauge "used_memory_dataset", "memory_dataset_bytes", ONE, "memory_used_dataset_bytes", "Memory used for data";
    gauge "used_memory_dataset_perc", "memory_dataset_ratio", PERCENT, "",
        "Memory used for data as a fraction of memory used";
    gauge "allocator_allocated", "allocator_allocated_bytes", ONE, "allocator_allocated_bytes",
        "Memory allocated from the allocator";
    gauge "allocator_active", "allocator_active_bytes", ONE, "allocator_active_bytes",
        "Memory in pages that hold allocations";
    gauge "allocator_resident", "allocator_resident_bytes", ONE, "allocator_resident_bytes",
        "Resident pages of the allocator";
    gauge "allocator_muzzy", "allocator_muzzy_bytes", ONE, "allocator_muzzy_bytes",
        "Unused pages that the system may reclaim";
    gauge "allocator_frag_ratio", "allocator_fragmentation_ratio", ONE, "allocator_frag_ratio",
        "Ratio of active to allocated memory";
    gauge "allocator_frag_bytes", "allocator_fragmentation_bytes", ONE, "allocator_frag_bytes",
        "Active memory that is not allocated";
    gauge "allocator_rss_ratio", "allocator_resident_ratio", ONE, "allocator_rss_ratio",
        "Ratio of resident to active memory";
    gauge "allocator_rss_bytes", "allocator_resident_unused_bytes", ONE, "allocator_rss_bytes",
        "Resident memory that is not active";
    gauge "total_system_memory", "system_memory_bytes", ONE, "total_system_memory_bytes", "Total memory of the machine";
    gauge "used_memory_lua", "memory_lua_bytes", ONE, "memory_used_lua_bytes", "Memory of running scripts";
    gauge "used_memory_vm_eval", "memory_scripts_vm_bytes", ONE, "memory_used_vm_eval_bytes",
        "Memory of the script interpreter";
    gauge "used_memory_scripts_eval", "memory_scripts_cached_bytes", ONE, "memory_used_scripts_eval_bytes",
        "Memory of cached scripts";
    gauge "number_of_cached_scripts", "scripts_cached", ONE, "number_of_cached_scripts", "Cached scripts";
    gauge "number_of_functions", "functions", ONE, "number_of_functions", "Loaded functions";
    gauge "number_of_libraries", "function_libraries", ONE, "number_of_libraries", "Loaded function libraries";
    gauge "used_memory_vm_functions", "memory_functions_vm_bytes", ONE, "memory_used_vm_functions_bytes",
        "Memory of the function interpreter";
    gauge "used_memory_vm_total", "memory_vm_bytes", ONE, "", "Memory of interpreters";
    gauge "used_memory_functions", "memory_functions_bytes", ONE, "memory_used_functions_bytes",
        "Memory of function libraries";
    gauge "used_memory_scripts", "memory_scripts_bytes", ONE, "memory_used_scripts_bytes",
        "Memory of scripts and functions";
    gauge "maxmemory", "memory_max_bytes", ONE, "memory_max_bytes", "maxmemory; 0 is no limit";
    gauge "mem_fragmentation_ratio", "memory_fragmentation_ratio", ONE, "mem_fragmentation_ratio",
        "Ratio of resident memory to memory used";
    gauge "mem_fragmentation_bytes", "memory_fragmentation_bytes", ONE, "mem_fragmentation_bytes",
        "Resident memory minus memory used";
    gauge "mem_not_counted_for_evict", "memory_not_counted_for_eviction_bytes", ONE, "mem_not_counted_for_eviction_bytes",
        "Memory used that maxmemory does not count";
    gauge "mem_replication_backlog", "memory_replication_backlog_bytes", ONE, "mem_replication_backlog_bytes",
        "Memory of the replication backlog";
    gauge "mem_total_replication_buffers", "memory_replication_buffers_bytes", ONE, "mem_total_replication_buffers_bytes",
        "Memory of the backlog and of unsent replica output";
    gauge "mem_clients_slaves", "memory_replicas_bytes", ONE, "mem_clients_slaves", "Memory of replicas' connections";
    gauge "mem_clients_normal", "memory_clients_bytes", ONE, "mem_clients_normal", "Memory of clients' connections";
    gauge "mem_cluster_links", "memory_cluster_links_bytes", ONE, "mem_cluster_links_bytes",
        "Memory of cluster links";
    gauge "mem_cluster_slot_import", "memory_slot_imports_bytes", ONE, "", "Memory of connections of slot imports";
    gauge "mem_cluster_slot_export", "memory_slot_exports_bytes", ONE, "", "Memory of connections of slot exports";
    gauge "mem_aof_buffer", "memory_aof_buffer_bytes", ONE, "mem_aof_buffer_bytes",
        "Memory of buffers not yet written to the append-only file";
    gauge "used_memory_dictionaries", "memory_dictionaries_bytes", ONE, "",
        "Memory of compression dictionaries";
    gauge "number_of_hash_shapes", "hash_shapes", ONE, "",
        "Lists of field names that small hashes share";
    gauge "used_memory_hash_shapes", "memory_hash_shapes_bytes", ONE, "",
        "Memory of lists of field names that small hashes share";
    gauge "used_memory_s3fifo_ghost", "memory_s3fifo_ghost_bytes", ONE, "",
        "Memory of the ghost, with an s3fifo policy";
    gauge "mem_overhead_db_hashtable_rehashing", "memory_tables_growing_bytes", ONE, "mem_overhead_db_hashtable_rehashing_bytes",
        "Memory of key tables that are being freed";
    gauge "active_defrag_running", "active_defragmentation_running", ONE, "active_defrag_running",
        "Processor time of defragmentation in percent; 0 is inactive";
    gauge "lazyfree_pending_objects", "lazyfree_pending_objects", ONE, "lazyfree_pending_objects",
        "Values waiting to be freed in the background";
    counter "lazyfreed_objects", "lazyfreed_objects", ONE, "", "Values freed in the background";
    // Persistence
    gauge "loading", "loading", ONE, "loading_dump_file", "Whether data is being loaded";
    gauge "async_loading", "async_loading", ONE, "async_loading", "Whether data is being loaded while the old data is served";
    gauge "current_cow_size", "child_copied_bytes", ONE, "", "Copy-on-write memory of the running child";
    gauge "current_cow_peak", "child_copied_peak_bytes", ONE, "", "Peak of copy-on-write memory of children";
    gauge "current_fork_perc", "child_progress_ratio", PERCENT, "", "Progress of the running child";
    gauge "current_save_keys_processed", "child_keys_done", ONE, "", "Keys written by the running child";
    gauge "current_save_keys_total", "child_keys", ONE, "", "Keys that the running child has to write";
    gauge "rdb_changes_since_last_save", "rdb_changes_since_last_save", ONE, "rdb_changes_since_last_save",
        "Changes since the last snapshot";
    gauge "rdb_bgsave_in_progress", "rdb_save_in_progress", ONE, "rdb_bgsave_in_progress",
        "Whether a snapshot is in progress";
    gauge "rdb_last_save_time", "rdb_last_save_timestamp_seconds", ONE, "rdb_last_save_timestamp_seconds",
        "Unix time of the last successful snapshot";
    gauge "rdb_last_bgsave_status", "rdb_last_save_ok", ONE, "rdb_last_bgsave_status",
        "Whether the last snapshot succeeded";
    gauge "rdb_last_bgsave_time_sec", "rdb_last_save_duration_seconds", ONE, "rdb_last_bgsave_duration_sec",
        "Duration of the last snapshot; -1 is none";
    gauge "rdb_current_bgsave_time_sec", "rdb_current_save_duration_seconds", ONE, "rdb_current_bgsave_duration_sec",
        "Duration of the snapshot in progress; -1 is none";
    counter "rdb_saves", "rdb_saves", ONE, "rdb_saves", "Snapshots written";
    gauge "rdb_last_cow_size", "rdb_last_copied_bytes", ONE, "rdb_last_cow_size_bytes",
        "Copy-on-write memory of the last snapshot";
    gauge "rdb_last_load_keys_expired", "rdb_last_load_expired_keys", ONE, "rdb_last_load_expired_keys",
        "Expired keys in the last loaded snapshot";
    gauge "rdb_last_load_keys_loaded", "rdb_last_load_keys", ONE, "rdb_last_load_loaded_keys",
        "Keys in the last loaded snapshot";
    gauge "aof_enabled", "aof_enabled", ONE, "aof_enabled", "Whether the append-only file is enabled";
    gauge "aof_rewrite_in_progress", "aof_rewrite_in_progress", ONE, "aof_rewrite_in_progress",
        "Whether a rewrite of the append-only file is in progress";
    gauge "aof_rewrite_scheduled", "aof_rewrite_scheduled", ONE, "aof_rewrite_scheduled",
        "Whether a rewrite of the append-only file is scheduled";
    gauge "aof_last_rewrite_time_sec", "aof_last_rewrite_duration_seconds", ONE, "aof_last_rewrite_duration_sec",
        "Duration of the last rewrite; -1 is none";
    gauge "aof_current_rewrite_time_sec", "aof_current_rewrite_duration_seconds", ONE, "aof_current_rewrite_duration_sec",
        "Duration of the rewrite in progress; -1 is none";
    gauge "aof_last_bgrewrite_status", "aof_last_rewrite_ok", ONE, "aof_last_bgrewrite_status",
        "Whether the last rewrite succeeded";
    counter "aof_rewrites", "aof_rewrites", ONE, "", "Rewrites of the append-only file";
    gauge "aof_last_write_status", "aof_last_write_ok", ONE, "aof_last_write_status",
        "Whether the last write to the append-only file succeeded";
    gauge "aof_last_cow_size", "aof_last_copied_bytes", ONE, "aof_last_cow_size_bytes",
        "Copy-on-write memory of the last rewrite";
    gauge "aof_current_size", "aof_size_bytes", ONE, "aof_current_size_bytes", "Size of the append-only file";
    gauge "aof_base_size", "aof_base_size_bytes", ONE, "aof_base_size_bytes", "Size of the append-only file after the last rewrite";
    gauge "aof_pending_rewrite", "aof_pending_rewrite", ONE, "aof_pending_rewrite", "Whether a rewrite is pending";
    gauge "aof_buffer_length", "aof_buffer_bytes", ONE, "aof_buffer_length", "Bytes not yet written to the append-only file";
    gauge "aof_pending_bio_fsync", "aof_pending_fsync", ONE, "aof_pending_bio_fsync",
        "Whether an fsync is in progress";
    counter "aof_delayed_fsync", "aof_delayed_fsyncs", ONE, "", "Writes delayed by an fsync in progress";
    gauge "module_fork_in_progress", "module_fork_in_progress", ONE, "module_fork_in_progress",
        "Always 0: modules are not supported";
    gauge "module_fork_last_cow_size", "module_fork_last_copied_bytes", ONE, "module_fork_last_cow_size",
        "Always 0: modules are not supported";
    gauge "loading_start_time", "loading_start_timestamp_seconds", ONE, "", "Unix time at which loading began";
    gauge "loading_total_bytes", "loading_file_bytes", ONE, "", "Size of the file being loaded";
    gauge "loading_loaded_bytes", "loading_loaded_bytes", ONE, "", "Bytes loaded";
    gauge "loading_loaded_perc", "loading_progress_ratio", PERCENT, "", "Fraction of the file loaded";
    gauge "loading_eta_seconds", "loading_left_seconds", ONE, "", "Estimated time until loading ends";
    // Stats
    counter "total_connections_received", "connections_received", ONE, "connections_received", "Connections accepted";
    counter "total_commands_processed", "commands_processed", ONE, "commands_processed", "Commands processed";
    gauge "instantaneous_ops_per_sec", "commands_per_second", ONE, "instantaneous_ops_per_sec",
        "Commands processed per second";
    counter "total_net_input_bytes", "network_input_bytes", ONE, "net_input_bytes", "Bytes received from clients";
    counter "total_net_output_bytes", "network_output_bytes", ONE, "net_output_bytes", "Bytes sent to clients";
    counter "total_net_repl_input_bytes", "replication_input_bytes", ONE, "net_repl_input_bytes",
        "Bytes received from the primary";
    counter "total_net_repl_output_bytes", "replication_output_bytes", ONE, "net_repl_output_bytes",
        "Bytes sent to replicas";
    counter "total_net_cluster_slot_import_bytes", "slot_imports_input_bytes", ONE, "", "Bytes received by slot imports";
    counter "total_net_cluster_slot_export_bytes", "slot_exports_output_bytes", ONE, "", "Bytes sent by slot exports";
    gauge "instantaneous_input_kbps", "network_input_bytes_per_second", KILOBYTES, "instantaneous_input_kbps",
        "Bytes received from clients per second";
    gauge "instantaneous_output_kbps", "network_output_bytes_per_second", KILOBYTES, "instantaneous_output_kbps",
        "Bytes sent to clients per second";
    gauge "instantaneous_input_repl_kbps", "replication_input_bytes_per_second", KILOBYTES, "",
        "Bytes received from the primary per second";
    gauge "instantaneous_output_repl_kbps", "replication_output_bytes_per_second", KILOBYTES, "",
        "Bytes sent to replicas per second";
    counter "rejected_connections", "rejected_connections", ONE, "rejected_connections", "Connections rejected";
    counter "sync_full", "full_syncs", ONE, "", "Full syncs of replicas";
    counter "sync_partial_ok", "partial_syncs", ONE, "", "Partial syncs of replicas";
    counter "sync_partial_err", "partial_syncs_refused", ONE, "", "Partial syncs refused";
    counter "expired_keys", "expired_keys", ONE, "expired_keys", "Expired keys removed";
    counter "expired_fields", "expired_fields", ONE, "", "Expired hash fields removed";
    gauge "expired_stale_perc", "expired_stale_ratio", PERCENT, "",
        "Estimated fraction of expired keys among keys with an expiry";
    counter "expired_time_cap_reached_count", "expire_cycles_cut_short", ONE, "expired_time_cap_reached",
        "Expiry cycles that reached their time limit";
    counter "expire_cycle_cpu_milliseconds", "expire_cycle_seconds", MILLISECONDS, "expire_cycle_cpu_time_ms",
        "Time spent in expiry cycles";
    counter "evicted_keys", "evicted_keys", ONE, "evicted_keys", "Keys evicted";
    gauge "s3fifo_small_keys", "s3fifo_small_keys", ONE, "", "Keys in small, with an s3fifo policy";
    gauge "s3fifo_main_keys", "s3fifo_main_keys", ONE, "", "Keys in main, with an s3fifo policy";
    counter "s3fifo_promoted_keys", "s3fifo_promoted_keys", ONE, "", "Keys moved from small to main";
    counter "s3fifo_ghost_hits", "s3fifo_ghost_hits", ONE, "", "New keys that were in the ghost";
    counter "evicted_clients", "evicted_clients", ONE, "evicted_clients", "Clients evicted";
    counter "evicted_scripts", "evicted_scripts", ONE, "evicted_scripts", "Scripts evicted from the cache";
    counter "total_eviction_exceeded_time", "memory_exceeded_seconds", MILLISECONDS, "eviction_exceeded_time_ms",
        "Time during which memory used exceeded maxmemory";
    gauge "current_eviction_exceeded_time", "memory_exceeded_now_seconds", MILLISECONDS, "current_eviction_exceeded_time_ms",
        "Time since memory used exceeded maxmemory";
    counter "keyspace_hits", "keyspace_hits", ONE, "keyspace_hits", "Key lookups that hit";
    counter "keyspace_misses", "keyspace_misses", ONE, "keyspace_misses", "Key lookups that missed";
    gauge "pubsub_channels", "pubsub_channels", ONE, "pubsub_channels", "Channels with subscribers";
    gauge "pubsub_patterns", "pubsub_patterns", ONE, "pubsub_patterns", "Patterns with subscribers";
    gauge "pubsubshard_channels", "pubsub_shard_channels", ONE, "pubsubshard_channels",
        "Shard channels with subscribers";
    gauge "latest_fork_usec", "last_fork_seconds", MICROSECONDS, "latest_fork_usec", "Duration of the last fork";
    counter "total_forks", "forks", ONE, "", "Forks";
    gauge "migrate_cached_sockets", "migrate_cached_connections", ONE, "", "Cached connections of MIGRATE";
    counter "active_defrag_hits", "defragmentation_hits", ONE, "", "Values moved by defragmentation";
    counter "active_defrag_misses", "defragmentation_misses", ONE, "", "Values not moved by defragmentation";
    counter "active_defrag_key_hits", "defragmentation_key_hits", ONE, "", "Keys with values moved by defragmentation";
    counter "active_defrag_key_misses", "defragmentation_key_misses", ONE, "", "Keys without values moved by defragmentation";
    counter "total_active_defrag_time", "defragmentation_seconds", MILLISECONDS, "", "Time spent in defragmentation";
    gauge "tracking_total_keys", "tracked_keys", ONE, "tracking_total_keys", "Keys tracked for client-side caching";
    gauge "tracking_total_items", "tracked_items", ONE, "tracking_total_items", "Pairs of tracked key and client";
    gauge "tracking_total_prefixes", "tracked_prefixes", ONE, "tracking_total_prefixes",
        "Prefixes tracked for client-side caching";
    counter "unexpected_error_replies", "unexpected_error_replies", ONE, "", "Unexpected errors from a primary or a file";
    counter "total_error_replies", "error_replies", ONE, "", "Error replies";
    counter "dump_payload_sanitizations", "dump_payloads_checked", ONE, "", "Payloads validated by RESTORE";
    counter "total_reads_processed", "socket_reads", ONE, "", "Reads of clients' sockets";
    counter "total_writes_processed", "socket_writes", ONE, "", "Writes to clients' sockets";
    counter "io_threaded_reads_processed", "io_threads_reads", ONE, "", "Reads by I/O threads";
    counter "io_threaded_writes_processed", "io_threads_writes", ONE, "", "Writes by I/O threads";
    counter "client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections", ONE, "client_query_buffer_limit_disconnections",
        "Clients closed because of the query buffer limit";
    counter "client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections", ONE, "client_output_buffer_limit_disconnections",
        "Clients closed because of the output buffer limit";
    counter "reply_buffer_shrinks", "reply_buffer_shrinks", ONE, "", "Reply buffers shrunk";
    counter "reply_buffer_expands", "reply_buffer_expands", ONE, "", "Reply buffers expanded";
    counter "eventloop_cycles", "event_loop_turns", ONE, "eventloop_cycles", "Cycles of the event loop";
    counter "eventloop_duration_sum", "event_loop_seconds", MICROSECONDS, "eventloop_duration_sum_usec",
        "Time spent in the event loop, without waiting";
    counter "eventloop_duration_cmd_sum", "event_loop_commands_seconds", MICROSECONDS, "eventloop_duration_cmd_sum_usec",
        "Time spent in commands";
    gauge "instantaneous_eventloop_cycles_per_sec", "event_loop_turns_per_second", ONE, "instantaneous_eventloop_cycles_per_sec",
        "Event loop cycles per second";
    gauge "instantaneous_eventloop_duration_usec", "event_loop_turn_seconds", MICROSECONDS, "instantaneous_eventloop_duration_usec",
        "Mean duration of an event loop cycle";
    counter "acl_access_denied_auth", "acl_denied_logins", ONE, "", "Failed authentications";
    counter "acl_access_denied_cmd", "acl_denied_commands", ONE, "", "Commands denied by ACL";
    counter "acl_access_denied_key", "acl_denied_keys", ONE, "", "Keys denied by ACL";
    counter "acl_access_denied_channel", "acl_denied_channels", ONE, "", "Channels denied by ACL";
    counter "acl_access_denied_db", "acl_denied_databases", ONE, "", "Databases denied by ACL";
    counter "acl_access_denied_tls_cert", "acl_denied_certificates", ONE, "", "Client certificates without a matching user";
    // Replication
    gauge "connected_slaves", "connected_replicas", ONE, "connected_slaves", "Replicas";
    gauge "master_repl_offset", "replication_offset_bytes", ONE, "master_repl_offset",
        "Replication offset";
    gauge "second_repl_offset", "replication_second_offset_bytes", ONE, "second_repl_offset",
        "Replication offset up to which the previous replication id is valid";
    gauge "slave_repl_offset", "replica_offset_bytes", ONE, "", "Replication offset of this replica";
    gauge "slave_read_repl_offset", "replica_read_offset_bytes", ONE, "", "Replication offset read by this replica";
    gauge "master_last_io_seconds_ago", "primary_silent_seconds", ONE, "", "Time since the last data from the primary";
    gauge "master_link_status", "primary_link_up", ONE, "", "Whether the link to the primary is up";
    gauge "master_link_down_since_seconds", "primary_link_down_seconds", ONE, "", "Time since the link to the primary went down";
    gauge "master_sync_in_progress", "primary_sync_in_progress", ONE, "", "Whether a full sync from the primary is in progress";
    gauge "slave_priority", "replica_priority", ONE, "slave_priority", "Priority of this replica for promotion";
    gauge "slave_expires_tracked_keys", "replica_expiring_keys", ONE, "slave_expires_tracked_keys",
        "Keys with an expiry written on this replica itself";
    gauge "repl_backlog_active", "replication_backlog_active", ONE, "repl_backlog_is_active",
        "Whether the replication backlog is active";
    gauge "repl_backlog_size", "replication_backlog_size_bytes", ONE, "replication_backlog_bytes",
        "Size of the replication backlog";
    gauge "repl_backlog_first_byte_offset", "replication_backlog_first_offset_bytes", ONE, "repl_backlog_first_byte_offset",
        "First offset in the replication backlog";
    gauge "repl_backlog_histlen", "replication_backlog_history_bytes", ONE, "repl_backlog_history_bytes",
        "Bytes in the replication backlog";
    // Processor time
    counter "used_cpu_sys", "processor_system_seconds", ONE, "cpu_sys_seconds", "System processor time";
    counter "used_cpu_user", "processor_user_seconds", ONE, "cpu_user_seconds", "User processor time";
    counter "used_cpu_sys_children", "processor_children_system_seconds", ONE, "cpu_sys_children_seconds",
        "System processor time of children";
    counter "used_cpu_user_children", "processor_children_user_seconds", ONE, "cpu_user_children_seconds",
        "User processor time of children";
    counter "used_cpu_sys_main_thread", "processor_main_thread_system_seconds", ONE, "cpu_sys_main_thread_seconds",
        "System processor time of the main thread";
    counter "used_cpu_user_main_thread", "processor_main_thread_user_seconds", ONE, "cpu_user_main_thread_seconds",
        "User processor time of the main thread";
    counter "used_active_time_main_thread", "main_thread_active_seconds", ONE, "",
        "Time during which the main thread was active";
    gauge "engines_count", "scripting_engines", ONE, "", "Script engines";
    gauge "cluster_enabled", "cluster_enabled", ONE, "cluster_enabled", "Whether cluster mode is enabled";
    gauge "cluster_connections", "cluster_connections", ONE, "", "Links to and from other nodes";
    // Cluster, on nodes
    gauge "cluster_state", "cluster_ok", ONE, "cluster_state", "Whether the node serves its keys: the cluster's state is ok";
    gauge "cluster_slots_assigned", "cluster_slots_assigned", ONE, "cluster_slots_assigned", "Slots with an owner";
    gauge "cluster_slots_ok", "cluster_slots_ok", ONE, "cluster_slots_ok", "Slots whose owner is reached";
    gauge "cluster_slots_pfail", "cluster_slots_pfail", ONE, "cluster_slots_pfail", "Slots whose owner this node does not reach";
    gauge "cluster_slots_fail", "cluster_slots_fail", ONE, "cluster_slots_fail", "Slots whose owner has failed";
    gauge "cluster_nodes_pfail", "cluster_nodes_pfail", ONE, "", "Nodes that this node does not reach";
    gauge "cluster_nodes_fail", "cluster_nodes_fail", ONE, "", "Nodes that have failed";
    gauge "cluster_voting_nodes_pfail", "cluster_voting_nodes_pfail", ONE, "",
        "Primaries with slots that this node does not reach";
    gauge "cluster_voting_nodes_fail", "cluster_voting_nodes_fail", ONE, "", "Primaries with slots that have failed";
    gauge "cluster_known_nodes", "cluster_known_nodes", ONE, "cluster_known_nodes", "Known nodes, this one included";
    gauge "cluster_size", "cluster_size", ONE, "cluster_size", "Primaries with slots";
    gauge "cluster_current_epoch", "cluster_current_epoch", ONE, "cluster_current_epoch", "Highest epoch of the cluster";
    gauge "cluster_my_epoch", "cluster_my_epoch", ONE, "cluster_my_epoch", "Epoch of this node's slots";
    counter "cluster_stats_bytes_sent", "cluster_bus_sent_bytes", ONE, "", "Bytes sent to other nodes";
    counter "cluster_stats_bytes_received", "cluster_bus_received_bytes", ONE, "", "Bytes received from other nodes";
    counter "cluster_stats_pubsub_bytes_sent", "cluster_bus_pubsub_sent_bytes", ONE, "",
        "Bytes of clients' messages sent to other nodes";
    counter "cluster_stats_pubsub_bytes_received", "cluster_bus_pubsub_received_bytes", ONE, "",
        "Bytes of clients' messages received from other nodes";
    counter "cluster_stats_module_bytes_sent", "cluster_bus_module_sent_bytes", ONE, "",
        "Always 0: modules are not supported";
    counter "cluster_stats_module_bytes_received", "cluster_bus_module_received_bytes", ONE, "",
        "Always 0: modules are not supported";
    counter "total_cluster_links_buffer_limit_exceeded", "cluster_link_buffer_limit_disconnections", ONE, "",
        "Links closed because of the send buffer limit";
    gauge "cluster_own_slots", "cluster_own_slots", ONE, "", "Slots of this node; of a replica, those of its primary";
    gauge "cluster_own_slot_keys", "cluster_own_slot_keys", ONE, "", "Keys in the node's slots, in all databases";
    gauge "cluster_slot_stats_enabled", "cluster_slot_stats_enabled", ONE, "", "Whether figures of slots are kept";
};

/// Counters that are gauges in redis_exporter, since their names there do not end in `_total`.
pub const EXPORTER_GAUGES: &[(&str, &str)] = &[
    ("sync_full", "replica_resyncs_full"),
    ("sync_partial_ok", "replica_partial_resync_accepted"),
    ("sync_partial_err", "replica_partial_resync_denied"),
    ("active_defrag_hits", "defrag_hits"),
    ("active_defrag_misses", "defrag_misses"),
    ("active_defrag_key_hits", "defrag_key_hits"),
    ("active_defrag_key_misses", "defrag_key_misses"),
    ("unexpected_error_replies", "unexpected_error_replies"),
    ("total_error_replies", "total_error_replies"),
    ("dump_payload_sanitizations", "dump_payload_sanitizations"),
    ("total_reads_processed", "total_reads_processed"),
    ("total_writes_processed", "total_writes_processed"),
    ("io_threaded_reads_processed", "io_threaded_reads_processed"),
    ("io_threaded_writes_processed", "io_threaded_writes_processed"),
    ("lazyfreed_objects", "lazyfreed_objects"),
    ("aof_delayed_fsync", "aof_delayed_fsync"),
    ("acl_access_denied_auth", "acl_access_denied_auth"),
    ("acl_access_denied_cmd", "acl_access_denied_cmd"),
    ("acl_access_denied_key", "acl_access_denied_key"),
    ("acl_access_denied_channel", "acl_access_denied_channel"),
    ("hz", "hz"),
    ("configured_hz", "configured_hz"),
];
