//! The table of INFO's fields: one row each. A field without a row is shown all the same, as a gauge under its own name.
//!
//! Each row gives the name here, in base units (seconds, bytes), and the name that dashboards made for redis_exporter
//! know, with the number as INFO gives it. Counters stand without `_total`.

use crate::metrics::Kind;

#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Of INFO.
    pub field: &'static str,
    pub kind: Kind,
    /// Behind `warmline_`.
    pub name: &'static str,
    /// What INFO counts in: how many of it make a base unit.
    pub per_unit: f64,
    /// Behind `redis_`; empty: it has none there.
    pub exporter: &'static str,
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

/// By INFO's sections.
pub const ROWS: &[Row] = rows! {
    gauge "uptime_in_seconds", "uptime_seconds", ONE, "uptime_in_seconds", "Time since the server's start";
    gauge "process_id", "process_id", ONE, "process_id", "The process's number";
    gauge "server_time_usec", "time_seconds", MICROSECONDS, "", "The server's clock, since 1970";
    gauge "io_threads_active", "io_threads_active", ONE, "io_threads_active", "Whether other threads serve sockets";
    gauge "tls_server_cert_expires_in_seconds", "tls_server_certificate_expires_seconds", ONE, "",
        "Until the server's certificate ends";
    gauge "tls_client_cert_expires_in_seconds", "tls_client_certificate_expires_seconds", ONE, "",
        "Until the certificate for the server's own connections ends";
    gauge "tls_ca_cert_expires_in_seconds", "tls_ca_certificate_expires_seconds", ONE, "",
        "Until the certificate that signs others ends";
    // Clients
    gauge "connected_clients", "connected_clients", ONE, "connected_clients", "Clients, without replicas";
    gauge "maxclients", "clients_max", ONE, "max_clients", "Clients that may be connected";
    gauge "client_recent_max_input_buffer", "client_input_buffer_max_bytes", ONE, "client_recent_max_input_buffer_bytes",
        "The largest query buffer";
    gauge "client_recent_max_output_buffer", "client_output_buffer_max_bytes", ONE, "client_recent_max_output_buffer_bytes",
        "The most unsent output of a client";
    gauge "blocked_clients", "blocked_clients", ONE, "blocked_clients", "Clients that wait in a blocking command";
    gauge "tracking_clients", "tracking_clients", ONE, "tracking_clients", "Clients that are told of changed keys";
    gauge "pubsub_clients", "pubsub_clients", ONE, "pubsub_clients", "Clients with subscriptions";
    gauge "watching_clients", "watching_clients", ONE, "watching_clients", "Clients with watched keys";
    gauge "clients_in_timeout_table", "clients_with_timeout", ONE, "clients_in_timeout_table",
        "Blocked clients whose wait has an end";
    gauge "total_watched_keys", "watched_keys", ONE, "total_watched_keys", "Keys that are watched";
    gauge "total_blocking_keys", "blocking_keys", ONE, "total_blocking_keys", "Keys that clients wait for";
    gauge "total_blocking_keys_on_nokey", "blocking_keys_on_nokey", ONE, "total_blocking_keys_on_nokey",
        "Keys whose end clients wait for";
    gauge "paused_timeout_milliseconds", "clients_paused_seconds", MILLISECONDS, "",
        "Until clients go on that are paused";
    // Memory
    gauge "used_memory", "memory_used_bytes", ONE, "memory_used_bytes", "Memory in use";
    gauge "used_memory_rss", "memory_resident_bytes", ONE, "memory_used_rss_bytes",
        "Memory that the system counts for the process";
    gauge "used_memory_peak", "memory_used_peak_bytes", ONE, "memory_used_peak_bytes",
        "The most memory that was in use";
    gauge "used_memory_peak_perc", "memory_used_of_peak_ratio", PERCENT, "", "Memory in use as a part of its peak";
    gauge "used_memory_overhead", "memory_overhead_bytes", ONE, "memory_used_overhead_bytes",
        "Memory in use that holds no data";
    gauge "used_memory_startup", "memory_startup_bytes", ONE, "memory_used_startup_bytes",
        "Memory in use at the start";
    gauge "used_memory_dataset", "memory_dataset_bytes", ONE, "memory_used_dataset_bytes", "Memory that holds data";
    gauge "used_memory_dataset_perc", "memory_dataset_ratio", PERCENT, "",
        "Memory that holds data as a part of what is in use";
    gauge "allocator_allocated", "allocator_allocated_bytes", ONE, "allocator_allocated_bytes",
        "What the allocator has given out";
    gauge "allocator_active", "allocator_active_bytes", ONE, "allocator_active_bytes",
        "Pages of which the allocator has given out a part";
    gauge "allocator_resident", "allocator_resident_bytes", ONE, "allocator_resident_bytes",
        "Pages that the allocator holds";
    gauge "allocator_muzzy", "allocator_muzzy_bytes", ONE, "allocator_muzzy_bytes",
        "Pages that the system may take back";
    gauge "allocator_frag_ratio", "allocator_fragmentation_ratio", ONE, "allocator_frag_ratio",
        "Active over allocated memory";
    gauge "allocator_frag_bytes", "allocator_fragmentation_bytes", ONE, "allocator_frag_bytes",
        "Active memory that is not allocated";
    gauge "allocator_rss_ratio", "allocator_resident_ratio", ONE, "allocator_rss_ratio",
        "Resident over active memory";
    gauge "allocator_rss_bytes", "allocator_resident_unused_bytes", ONE, "allocator_rss_bytes",
        "Resident memory that is not active";
    gauge "total_system_memory", "system_memory_bytes", ONE, "total_system_memory_bytes", "The machine's memory";
    gauge "used_memory_lua", "memory_lua_bytes", ONE, "memory_used_lua_bytes", "Memory of scripts that run";
    gauge "used_memory_vm_eval", "memory_scripts_vm_bytes", ONE, "memory_used_vm_eval_bytes",
        "Memory of the interpreter of scripts";
    gauge "used_memory_scripts_eval", "memory_scripts_cached_bytes", ONE, "memory_used_scripts_eval_bytes",
        "Memory of cached scripts";
    gauge "number_of_cached_scripts", "scripts_cached", ONE, "number_of_cached_scripts", "Scripts in the cache";
    gauge "number_of_functions", "functions", ONE, "number_of_functions", "Functions in libraries";
    gauge "number_of_libraries", "function_libraries", ONE, "number_of_libraries", "Libraries of functions";
    gauge "used_memory_vm_functions", "memory_functions_vm_bytes", ONE, "memory_used_vm_functions_bytes",
        "Memory of the interpreter of functions";
    gauge "used_memory_vm_total", "memory_vm_bytes", ONE, "", "Memory of interpreters";
    gauge "used_memory_functions", "memory_functions_bytes", ONE, "memory_used_functions_bytes",
        "Memory of libraries of functions";
    gauge "used_memory_scripts", "memory_scripts_bytes", ONE, "memory_used_scripts_bytes",
        "Memory of scripts and functions";
    gauge "maxmemory", "memory_max_bytes", ONE, "memory_max_bytes", "Memory that may be in use; 0 is no limit";
    gauge "mem_fragmentation_ratio", "memory_fragmentation_ratio", ONE, "mem_fragmentation_ratio",
        "Resident memory over memory in use";
    gauge "mem_fragmentation_bytes", "memory_fragmentation_bytes", ONE, "mem_fragmentation_bytes",
        "Resident memory that is not in use";
    gauge "mem_not_counted_for_evict", "memory_not_counted_for_eviction_bytes", ONE, "mem_not_counted_for_eviction_bytes",
        "Memory in use that maxmemory does not count";
    gauge "mem_replication_backlog", "memory_replication_backlog_bytes", ONE, "mem_replication_backlog_bytes",
        "Memory of the replication backlog";
    gauge "mem_total_replication_buffers", "memory_replication_buffers_bytes", ONE, "mem_total_replication_buffers_bytes",
        "Memory of the backlog and of what replicas have yet to be sent";
    gauge "mem_clients_slaves", "memory_replicas_bytes", ONE, "mem_clients_slaves", "Memory of replicas' connections";
    gauge "mem_clients_normal", "memory_clients_bytes", ONE, "mem_clients_normal", "Memory of clients' connections";
    gauge "mem_cluster_links", "memory_cluster_links_bytes", ONE, "mem_cluster_links_bytes",
        "Memory of connections between nodes";
    gauge "mem_aof_buffer", "memory_aof_buffer_bytes", ONE, "mem_aof_buffer_bytes",
        "Memory of what the append-only file has yet to be given";
    gauge "used_memory_dictionaries", "memory_dictionaries_bytes", ONE, "",
        "Memory of dictionaries that values are compressed with";
    gauge "mem_overhead_db_hashtable_rehashing", "memory_tables_growing_bytes", ONE, "mem_overhead_db_hashtable_rehashing_bytes",
        "Memory of tables of keys that are about to go";
    gauge "active_defrag_running", "active_defragmentation_running", ONE, "active_defrag_running",
        "Processor time that defragmentation may take, in percent";
    gauge "lazyfree_pending_objects", "lazyfree_pending_objects", ONE, "lazyfree_pending_objects",
        "Values that wait to be freed in the background";
    counter "lazyfreed_objects", "lazyfreed_objects", ONE, "", "Values that were freed in the background";
    // Persistence
    gauge "loading", "loading", ONE, "loading_dump_file", "Whether data is being loaded";
    gauge "async_loading", "async_loading", ONE, "async_loading", "Whether data is being loaded beside the old";
    gauge "current_cow_size", "child_copied_bytes", ONE, "", "Memory copied for the child that writes a file";
    gauge "current_cow_peak", "child_copied_peak_bytes", ONE, "", "The most memory copied for such a child";
    gauge "current_fork_perc", "child_progress_ratio", PERCENT, "", "How much of its work the child has done";
    gauge "current_save_keys_processed", "child_keys_done", ONE, "", "Keys that the child has written";
    gauge "current_save_keys_total", "child_keys", ONE, "", "Keys that it has to write";
    gauge "rdb_changes_since_last_save", "rdb_changes_since_last_save", ONE, "rdb_changes_since_last_save",
        "Changes since the last snapshot";
    gauge "rdb_bgsave_in_progress", "rdb_save_in_progress", ONE, "rdb_bgsave_in_progress",
        "Whether a snapshot is being written";
    gauge "rdb_last_save_time", "rdb_last_save_timestamp_seconds", ONE, "rdb_last_save_timestamp_seconds",
        "When the last snapshot was written, since 1970";
    gauge "rdb_last_bgsave_status", "rdb_last_save_ok", ONE, "rdb_last_bgsave_status",
        "Whether the last snapshot was written well";
    gauge "rdb_last_bgsave_time_sec", "rdb_last_save_duration_seconds", ONE, "rdb_last_bgsave_duration_sec",
        "How long the last snapshot took; -1 is never";
    gauge "rdb_current_bgsave_time_sec", "rdb_current_save_duration_seconds", ONE, "rdb_current_bgsave_duration_sec",
        "How long the snapshot under way has taken; -1 is none";
    counter "rdb_saves", "rdb_saves", ONE, "rdb_saves", "Snapshots written";
    gauge "rdb_last_cow_size", "rdb_last_copied_bytes", ONE, "rdb_last_cow_size_bytes",
        "Memory copied for the last snapshot";
    gauge "rdb_last_load_keys_expired", "rdb_last_load_expired_keys", ONE, "rdb_last_load_expired_keys",
        "Keys of the last loaded snapshot that had expired";
    gauge "rdb_last_load_keys_loaded", "rdb_last_load_keys", ONE, "rdb_last_load_loaded_keys",
        "Keys of the last loaded snapshot";
    gauge "aof_enabled", "aof_enabled", ONE, "aof_enabled", "Whether there is an append-only file";
    gauge "aof_rewrite_in_progress", "aof_rewrite_in_progress", ONE, "aof_rewrite_in_progress",
        "Whether it is being rewritten";
    gauge "aof_rewrite_scheduled", "aof_rewrite_scheduled", ONE, "aof_rewrite_scheduled",
        "Whether it will be rewritten after what is under way";
    gauge "aof_last_rewrite_time_sec", "aof_last_rewrite_duration_seconds", ONE, "aof_last_rewrite_duration_sec",
        "How long the last rewrite took; -1 is never";
    gauge "aof_current_rewrite_time_sec", "aof_current_rewrite_duration_seconds", ONE, "aof_current_rewrite_duration_sec",
        "How long the rewrite under way has taken; -1 is none";
    gauge "aof_last_bgrewrite_status", "aof_last_rewrite_ok", ONE, "aof_last_bgrewrite_status",
        "Whether the last rewrite went well";
    counter "aof_rewrites", "aof_rewrites", ONE, "", "Rewrites of the append-only file";
    gauge "aof_last_write_status", "aof_last_write_ok", ONE, "aof_last_write_status",
        "Whether the append-only file takes what is written";
    gauge "aof_last_cow_size", "aof_last_copied_bytes", ONE, "aof_last_cow_size_bytes",
        "Memory copied for the last rewrite";
    gauge "aof_current_size", "aof_size_bytes", ONE, "aof_current_size_bytes", "Bytes of the append-only file";
    gauge "aof_base_size", "aof_base_size_bytes", ONE, "aof_base_size_bytes", "Its bytes after the last rewrite";
    gauge "aof_pending_rewrite", "aof_pending_rewrite", ONE, "aof_pending_rewrite", "Whether a rewrite waits";
    gauge "aof_buffer_length", "aof_buffer_bytes", ONE, "aof_buffer_length", "Bytes that it has yet to be given";
    gauge "aof_pending_bio_fsync", "aof_pending_fsync", ONE, "aof_pending_bio_fsync",
        "Whether a sync to disk is under way";
    counter "aof_delayed_fsync", "aof_delayed_fsyncs", ONE, "", "Syncs to disk that others had to wait for";
    gauge "module_fork_in_progress", "module_fork_in_progress", ONE, "module_fork_in_progress",
        "Always 0: there are no modules";
    gauge "module_fork_last_cow_size", "module_fork_last_copied_bytes", ONE, "module_fork_last_cow_size",
        "Always 0: there are no modules";
    gauge "loading_start_time", "loading_start_timestamp_seconds", ONE, "", "When loading began, since 1970";
    gauge "loading_total_bytes", "loading_file_bytes", ONE, "", "Bytes of the file that is loaded";
    gauge "loading_loaded_bytes", "loading_loaded_bytes", ONE, "", "Bytes of it that are loaded";
    gauge "loading_loaded_perc", "loading_progress_ratio", PERCENT, "", "The part of it that is loaded";
    gauge "loading_eta_seconds", "loading_left_seconds", ONE, "", "How long the rest will take";
    // Stats
    counter "total_connections_received", "connections_received", ONE, "connections_received", "Connections accepted";
    counter "total_commands_processed", "commands_processed", ONE, "commands_processed", "Commands run";
    gauge "instantaneous_ops_per_sec", "commands_per_second", ONE, "instantaneous_ops_per_sec",
        "Commands a second, of late";
    counter "total_net_input_bytes", "network_input_bytes", ONE, "net_input_bytes", "Bytes received from clients";
    counter "total_net_output_bytes", "network_output_bytes", ONE, "net_output_bytes", "Bytes sent to clients";
    counter "total_net_repl_input_bytes", "replication_input_bytes", ONE, "net_repl_input_bytes",
        "Bytes received from the primary";
    counter "total_net_repl_output_bytes", "replication_output_bytes", ONE, "net_repl_output_bytes",
        "Bytes sent to replicas";
    gauge "instantaneous_input_kbps", "network_input_bytes_per_second", KILOBYTES, "instantaneous_input_kbps",
        "Bytes a second received from clients, of late";
    gauge "instantaneous_output_kbps", "network_output_bytes_per_second", KILOBYTES, "instantaneous_output_kbps",
        "Bytes a second sent to clients, of late";
    gauge "instantaneous_input_repl_kbps", "replication_input_bytes_per_second", KILOBYTES, "",
        "Bytes a second received from the primary, of late";
    gauge "instantaneous_output_repl_kbps", "replication_output_bytes_per_second", KILOBYTES, "",
        "Bytes a second sent to replicas, of late";
    counter "rejected_connections", "rejected_connections", ONE, "rejected_connections", "Connections refused";
    counter "sync_full", "full_syncs", ONE, "", "Full syncs of replicas";
    counter "sync_partial_ok", "partial_syncs", ONE, "", "Partial syncs of replicas";
    counter "sync_partial_err", "partial_syncs_refused", ONE, "", "Partial syncs that could not be had";
    counter "expired_keys", "expired_keys", ONE, "expired_keys", "Keys removed because their time was over";
    counter "expired_fields", "expired_fields", ONE, "", "Fields removed because their time was over";
    gauge "expired_stale_perc", "expired_stale_ratio", PERCENT, "",
        "The part of keys with a time that is over, as estimated";
    counter "expired_time_cap_reached_count", "expire_cycles_cut_short", ONE, "expired_time_cap_reached",
        "Rounds of expiry that ran out of time";
    counter "expire_cycle_cpu_milliseconds", "expire_cycle_seconds", MILLISECONDS, "expire_cycle_cpu_time_ms",
        "Time that expiry took";
    counter "evicted_keys", "evicted_keys", ONE, "evicted_keys", "Keys removed for want of memory";
    counter "evicted_clients", "evicted_clients", ONE, "evicted_clients", "Clients closed for what they held";
    counter "evicted_scripts", "evicted_scripts", ONE, "evicted_scripts", "Scripts removed from the cache";
    counter "total_eviction_exceeded_time", "memory_exceeded_seconds", MILLISECONDS, "eviction_exceeded_time_ms",
        "Time in which more memory was in use than may be";
    gauge "current_eviction_exceeded_time", "memory_exceeded_now_seconds", MILLISECONDS, "current_eviction_exceeded_time_ms",
        "Since when more memory is in use than may be";
    counter "keyspace_hits", "keyspace_hits", ONE, "keyspace_hits", "Lookups that found their key";
    counter "keyspace_misses", "keyspace_misses", ONE, "keyspace_misses", "Lookups that found none";
    gauge "pubsub_channels", "pubsub_channels", ONE, "pubsub_channels", "Channels with subscribers";
    gauge "pubsub_patterns", "pubsub_patterns", ONE, "pubsub_patterns", "Patterns with subscribers";
    gauge "pubsubshard_channels", "pubsub_shard_channels", ONE, "pubsubshard_channels",
        "Shard channels with subscribers";
    gauge "latest_fork_usec", "last_fork_seconds", MICROSECONDS, "latest_fork_usec", "How long the last fork took";
    counter "total_forks", "forks", ONE, "", "Forks";
    gauge "migrate_cached_sockets", "migrate_cached_connections", ONE, "", "Connections that MIGRATE keeps";
    counter "active_defrag_hits", "defragmentation_hits", ONE, "", "Values moved by defragmentation";
    counter "active_defrag_misses", "defragmentation_misses", ONE, "", "Values that it left alone";
    counter "active_defrag_key_hits", "defragmentation_key_hits", ONE, "", "Keys of which it moved something";
    counter "active_defrag_key_misses", "defragmentation_key_misses", ONE, "", "Keys of which it moved nothing";
    counter "total_active_defrag_time", "defragmentation_seconds", MILLISECONDS, "", "Time that it ran";
    gauge "tracking_total_keys", "tracked_keys", ONE, "tracking_total_keys", "Keys of which clients are told";
    gauge "tracking_total_items", "tracked_items", ONE, "tracking_total_items", "Pairs of such a key and a client";
    gauge "tracking_total_prefixes", "tracked_prefixes", ONE, "tracking_total_prefixes",
        "Prefixes of which clients are told";
    counter "unexpected_error_replies", "unexpected_error_replies", ONE, "", "Errors from a primary or a file";
    counter "total_error_replies", "error_replies", ONE, "", "Errors that clients were sent";
    counter "dump_payload_sanitizations", "dump_payloads_checked", ONE, "", "Payloads that were looked through";
    counter "total_reads_processed", "socket_reads", ONE, "", "Reads of clients' sockets";
    counter "total_writes_processed", "socket_writes", ONE, "", "Writes to clients' sockets";
    counter "io_threaded_reads_processed", "io_threads_reads", ONE, "", "Reads by other threads";
    counter "io_threaded_writes_processed", "io_threads_writes", ONE, "", "Writes by other threads";
    counter "client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections", ONE, "client_query_buffer_limit_disconnections",
        "Clients closed for what they sent";
    counter "client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections", ONE, "client_output_buffer_limit_disconnections",
        "Clients closed for what they did not read";
    counter "reply_buffer_shrinks", "reply_buffer_shrinks", ONE, "", "Reply buffers made smaller";
    counter "reply_buffer_expands", "reply_buffer_expands", ONE, "", "Reply buffers made larger";
    counter "eventloop_cycles", "event_loop_turns", ONE, "eventloop_cycles", "Turns of the event loop";
    counter "eventloop_duration_sum", "event_loop_seconds", MICROSECONDS, "eventloop_duration_sum_usec",
        "Time in the event loop, without waiting";
    counter "eventloop_duration_cmd_sum", "event_loop_commands_seconds", MICROSECONDS, "eventloop_duration_cmd_sum_usec",
        "Time in commands";
    gauge "instantaneous_eventloop_cycles_per_sec", "event_loop_turns_per_second", ONE, "instantaneous_eventloop_cycles_per_sec",
        "Turns a second, of late";
    gauge "instantaneous_eventloop_duration_usec", "event_loop_turn_seconds", MICROSECONDS, "instantaneous_eventloop_duration_usec",
        "How long a turn takes, of late";
    counter "acl_access_denied_auth", "acl_denied_logins", ONE, "", "Failed logins";
    counter "acl_access_denied_cmd", "acl_denied_commands", ONE, "", "Commands refused to users";
    counter "acl_access_denied_key", "acl_denied_keys", ONE, "", "Keys refused to users";
    counter "acl_access_denied_channel", "acl_denied_channels", ONE, "", "Channels refused to users";
    counter "acl_access_denied_db", "acl_denied_databases", ONE, "", "Databases refused to users";
    counter "acl_access_denied_tls_cert", "acl_denied_certificates", ONE, "", "Certificates that name no user";
    // Replication
    gauge "connected_slaves", "connected_replicas", ONE, "connected_slaves", "Replicas";
    gauge "master_repl_offset", "replication_offset_bytes", ONE, "master_repl_offset",
        "How far the stream of changes has come";
    gauge "second_repl_offset", "replication_second_offset_bytes", ONE, "second_repl_offset",
        "Up to where the former primary's replicas may go on here";
    gauge "slave_repl_offset", "replica_offset_bytes", ONE, "", "How far this replica has come";
    gauge "slave_read_repl_offset", "replica_read_offset_bytes", ONE, "", "How far this replica has read";
    gauge "master_last_io_seconds_ago", "primary_silent_seconds", ONE, "", "Since when the primary is silent";
    gauge "master_link_status", "primary_link_up", ONE, "", "Whether the link to the primary is up";
    gauge "master_link_down_since_seconds", "primary_link_down_seconds", ONE, "", "Since when it is down";
    gauge "master_sync_in_progress", "primary_sync_in_progress", ONE, "", "Whether the primary sends a snapshot";
    gauge "slave_priority", "replica_priority", ONE, "slave_priority", "Its rank when a new primary is chosen";
    gauge "slave_expires_tracked_keys", "replica_expiring_keys", ONE, "slave_expires_tracked_keys",
        "Keys with a time that were written on the replica itself";
    gauge "repl_backlog_active", "replication_backlog_active", ONE, "repl_backlog_is_active",
        "Whether the stream of changes is kept";
    gauge "repl_backlog_size", "replication_backlog_size_bytes", ONE, "replication_backlog_bytes",
        "How much of it is kept";
    gauge "repl_backlog_first_byte_offset", "replication_backlog_first_offset_bytes", ONE, "repl_backlog_first_byte_offset",
        "From where on it is kept";
    gauge "repl_backlog_histlen", "replication_backlog_history_bytes", ONE, "repl_backlog_history_bytes",
        "How much is kept by now";
    // Processor time
    counter "used_cpu_sys", "processor_system_seconds", ONE, "cpu_sys_seconds", "Processor time in the system";
    counter "used_cpu_user", "processor_user_seconds", ONE, "cpu_user_seconds", "Processor time outside of it";
    counter "used_cpu_sys_children", "processor_children_system_seconds", ONE, "cpu_sys_children_seconds",
        "Processor time of children in the system";
    counter "used_cpu_user_children", "processor_children_user_seconds", ONE, "cpu_user_children_seconds",
        "Processor time of children outside of it";
    counter "used_cpu_sys_main_thread", "processor_main_thread_system_seconds", ONE, "cpu_sys_main_thread_seconds",
        "Processor time of the main thread in the system";
    counter "used_cpu_user_main_thread", "processor_main_thread_user_seconds", ONE, "cpu_user_main_thread_seconds",
        "Processor time of the main thread outside of it";
    counter "used_active_time_main_thread", "main_thread_active_seconds", ONE, "",
        "Time in which the main thread did not wait";
    gauge "engines_count", "scripting_engines", ONE, "", "Languages of scripts";
    gauge "cluster_enabled", "cluster_enabled", ONE, "cluster_enabled", "Whether this is a node of a cluster";
};

/// Replicas' full and partial syncs are gauges under the names that dashboards know, as are other counters whose names
/// there do not end in `_total`.
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
