//! The table of options: one row each. A row's field, its name in files and CONFIG, its default and its kind stand
//! together here and nowhere else.

use std::path::PathBuf;

use super::buffer_limits::{BufferLimits, OutputBufferLimits};
use super::checks;
use super::choices::*;
use super::events::{EventClasses, EventLetters};
use super::kinds::*;
use super::option::{Flags, Kind, Row, options};
use super::special::*;

const KB: i128 = 1 << 10;
const MB: i128 = 1 << 20;

options! {
    // General.
    daemonize: bool = false, "daemonize", YesNo, IMMUTABLE;
    supervised: Supervised = Supervised::No, "supervised", Choice, IMMUTABLE;
    pidfile: Option<Vec<u8>> = None, "pidfile", Text(checks::anything), IMMUTABLE;
    loglevel: LogLevel = LogLevel::Notice, "loglevel", Choice;
    log_format: LogFormat = LogFormat::Legacy, "log-format", Choice;
    log_timestamp_format: LogTimestampFormat = LogTimestampFormat::Legacy, "log-timestamp-format", Choice;
    /// Empty: standard output.
    logfile: Vec<u8> = Vec::new(), "logfile", Text(checks::anything), IMMUTABLE;
    syslog_enabled: bool = false, "syslog-enabled", YesNo, IMMUTABLE;
    syslog_ident: Vec<u8> = b"warmline".into(), "syslog-ident", Text(checks::anything), IMMUTABLE;
    syslog_facility: SyslogFacility = SyslogFacility::Local0, "syslog-facility", Choice, IMMUTABLE;
    crash_log_enabled: bool = true, "crash-log-enabled", YesNo;
    crash_memcheck_enabled: bool = true, "crash-memcheck-enabled", YesNo, NO_EFFECT;
    use_exit_on_panic: bool = false, "use-exit-on-panic", YesNo, HIDDEN, NO_EFFECT;
    always_show_logo: bool = false, "always-show-logo", YesNo, IMMUTABLE, NO_EFFECT;
    hide_user_data_from_log: bool = true, "hide-user-data-from-log", YesNo;
    set_proc_title: bool = true, "set-proc-title", YesNo, IMMUTABLE;
    proc_title_template: Vec<u8> = b"{title} {listen-addr} {server-mode}".into(), "proc-title-template",
        Text(checks::proc_title_template);
    locale_collate: Vec<u8> = Vec::new(), "locale-collate", Text(checks::anything), NO_EFFECT;
    ignore_warnings: Vec<u8> = Vec::new(), "ignore-warnings", Text(checks::anything);
    debug_context: Vec<u8> = Vec::new(), "debug-context", Text(checks::anything), HIDDEN;
    enable_debug_assert: bool = false, "enable-debug-assert", YesNo, IMMUTABLE, HIDDEN, NO_EFFECT;
    watchdog_period_ms: u32 = 0, "watchdog-period", Integer(0, INT_MAX), HIDDEN;
    extended_redis_compatibility: bool = false, "extended-redis-compatibility", YesNo;
    enable_protected_configs: ProtectedAction = ProtectedAction::No, "enable-protected-configs", Choice, IMMUTABLE;
    enable_debug_command: ProtectedAction = ProtectedAction::No, "enable-debug-command", Choice, IMMUTABLE;
    enable_module_command: ProtectedAction = ProtectedAction::No, "enable-module-command", Choice, IMMUTABLE;
    /// Absolute.
    dir: PathBuf = current_directory(), "dir", Directory, PROTECTED, DENIED_WHILE_LOADING;
    databases: u32 = 16, "databases", Integer(1, INT_MAX), IMMUTABLE;
    /// Runs of the periodic work per second.
    hz: u32 = 10, "hz", Hertz;
    shutdown_timeout_seconds: u32 = 10, "shutdown-timeout", Integer(0, INT_MAX);
    shutdown_on_sigint: ShutdownFlags = ShutdownFlags::DEFAULT, "shutdown-on-sigint", ShutdownWords, MULTI;
    shutdown_on_sigterm: ShutdownFlags = ShutdownFlags::DEFAULT, "shutdown-on-sigterm", ShutdownWords, MULTI;

    // Network.
    bind: Vec<String> = vec!["*".into(), "-::*".into()], "bind", Addresses, MULTI;
    bind_source_addr: Option<Vec<u8>> = None, "bind-source-addr", Text(checks::anything);
    /// 0: no TCP.
    port: u16 = 6379, "port", Integer(0, 65535);
    protected_mode: bool = true, "protected-mode", YesNo;
    unixsocket: Option<Vec<u8>> = None, "unixsocket", Text(checks::anything), IMMUTABLE;
    unixsocketgroup: Option<Vec<u8>> = None, "unixsocketgroup", Text(checks::anything), IMMUTABLE;
    /// 0: what the process's umask leaves.
    unixsocketperm: u32 = 0, "unixsocketperm", Octal(0o777), IMMUTABLE;
    tcp_backlog: u32 = 511, "tcp-backlog", Integer(0, INT_MAX), IMMUTABLE;
    /// 0: off.
    tcp_keepalive_seconds: u32 = 300, "tcp-keepalive", Integer(0, INT_MAX);
    /// False leaves Nagle's algorithm on for clients.
    tcp_nodelay: bool = true, "tcp-nodelay", YesNo;
    mptcp: bool = false, "mptcp", YesNo, IMMUTABLE;
    socket_mark_id: u32 = 0, "socket-mark-id", Integer(0, UINT_MAX), IMMUTABLE;
    /// 0: idle clients stay.
    timeout_seconds: u32 = 0, "timeout", Integer(0, INT_MAX);
    maxclients: u32 = 10_000, "maxclients", Integer(1, UINT_MAX);
    max_new_connections_per_cycle: u32 = 10, "max-new-connections-per-cycle", Integer(1, 1000);
    max_new_tls_connections_per_cycle: u32 = 1, "max-new-tls-connections-per-cycle", Integer(1, 1000);
    availability_zone: Vec<u8> = Vec::new(), "availability-zone", Bytes(checks::anything);

    // Threads and batches.
    io_threads: u32 = 1, "io-threads", Integer(1, 256);
    io_threads_always_active: bool = false, "io-threads-always-active", YesNo, HIDDEN;
    /// 0: no prefetch.
    prefetch_batch_max_size: u32 = 32, "prefetch-batch-max-size", Integer(0, 128);
    min_io_threads_avoid_copy_reply: u32 = 7, "min-io-threads-avoid-copy-reply", Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    min_string_size_avoid_copy_reply_bytes: u32 = 16384, "min-string-size-avoid-copy-reply",
        Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    min_string_size_avoid_copy_reply_threaded_bytes: u32 = 65536, "min-string-size-avoid-copy-reply-threaded",
        Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    server_cpulist: Option<Vec<u8>> = None, "server-cpulist" | "server_cpulist", Text(checks::anything), IMMUTABLE;
    bio_cpulist: Option<Vec<u8>> = None, "bio-cpulist" | "bio_cpulist", Text(checks::anything), IMMUTABLE;
    aof_rewrite_cpulist: Option<Vec<u8>> = None, "aof-rewrite-cpulist" | "aof_rewrite_cpulist",
        Text(checks::anything), IMMUTABLE;
    bgsave_cpulist: Option<Vec<u8>> = None, "bgsave-cpulist" | "bgsave_cpulist", Text(checks::anything), IMMUTABLE;

    // Clients' limits.
    client_output_buffer_limit: OutputBufferLimits = OutputBufferLimits::DEFAULT, "client-output-buffer-limit",
        BufferLimits, MULTI;
    client_query_buffer_limit_bytes: u64 = 1 << 30, "client-query-buffer-limit", Memory(MB, LONG_MAX);
    proto_max_bulk_len_bytes: u64 = 512 << 20, "proto-max-bulk-len", Memory(MB, LONG_MAX);
    maxmemory_clients: MemoryLimit = MemoryLimit::Bytes(0), "maxmemory-clients", MemoryOrPercent;
    tracking_table_max_keys: u64 = 1_000_000, "tracking-table-max-keys", Integer(0, LONG_MAX);

    // Access.
    requirepass: Option<Vec<u8>> = None, "requirepass", Bytes(checks::anything), SENSITIVE;
    aclfile: Vec<u8> = Vec::new(), "aclfile", Text(checks::anything), IMMUTABLE;
    acllog_max_len: u64 = 128, "acllog-max-len", Integer(0, LONG_MAX);
    acl_pubsub_default: AclPubsubDefault = AclPubsubDefault::ResetChannels, "acl-pubsub-default", Choice;

    // Memory, expiry and eviction.
    /// 0: no limit.
    maxmemory_bytes: u64 = 0, "maxmemory", Memory(0, ULONG_MAX);
    maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::NoEviction, "maxmemory-policy", Choice;
    maxmemory_samples: u32 = 5, "maxmemory-samples", Integer(1, 64);
    maxmemory_eviction_tenacity: u32 = 10, "maxmemory-eviction-tenacity", Integer(0, 100);
    lfu_log_factor: u32 = 10, "lfu-log-factor", Integer(0, INT_MAX);
    lfu_decay_time_minutes: u32 = 1, "lfu-decay-time", Integer(0, INT_MAX);
    active_expire_effort: u32 = 1, "active-expire-effort", Integer(1, 10);
    import_mode: bool = false, "import-mode", YesNo;
    lazyfree_lazy_eviction: bool = true, "lazyfree-lazy-eviction", YesNo;
    lazyfree_lazy_expire: bool = true, "lazyfree-lazy-expire", YesNo;
    lazyfree_lazy_server_del: bool = true, "lazyfree-lazy-server-del", YesNo;
    lazyfree_lazy_user_del: bool = true, "lazyfree-lazy-user-del", YesNo;
    lazyfree_lazy_user_flush: bool = true, "lazyfree-lazy-user-flush", YesNo;
    activerehashing: bool = true, "activerehashing", YesNo, NO_EFFECT;
    hash_seed: Option<Vec<u8>> = None, "hash-seed", Bytes(checks::hash_seed), IMMUTABLE;
    activedefrag: bool = false, "activedefrag", YesNo;
    active_defrag_ignore_bytes: u64 = 100 << 20, "active-defrag-ignore-bytes", Memory(1, LONG_MAX);
    active_defrag_threshold_lower: u32 = 10, "active-defrag-threshold-lower", Integer(0, 1000);
    active_defrag_threshold_upper: u32 = 100, "active-defrag-threshold-upper", Integer(0, 1000);
    active_defrag_cycle_min: u32 = 1, "active-defrag-cycle-min", Integer(1, 99);
    active_defrag_cycle_max: u32 = 25, "active-defrag-cycle-max", Integer(1, 99);
    active_defrag_cycle_us: u32 = 500, "active-defrag-cycle-us", Integer(0, 100_000);
    active_defrag_max_scan_fields: u64 = 1000, "active-defrag-max-scan-fields", Integer(1, LONG_MAX);
    jemalloc_bg_thread: bool = true, "jemalloc-bg-thread", YesNo;
    disable_thp: bool = true, "disable-thp", YesNo, IMMUTABLE;
    oom_score_adj: OomScoreAdj = OomScoreAdj::No, "oom-score-adj", Choice;
    oom_score_adj_values: OomScoreAdjValues = OomScoreAdjValues::DEFAULT, "oom-score-adj-values", OomScores, MULTI;

    // Encodings.
    hash_max_listpack_entries: usize = 512, "hash-max-listpack-entries" | "hash-max-ziplist-entries", Integer(0, LONG_MAX);
    hash_max_listpack_value_bytes: usize = 64, "hash-max-listpack-value" | "hash-max-ziplist-value", Memory(0, LONG_MAX);
    /// Positive: entries in a node. -1 to -5: 4, 8, 16, 32 or 64 KB.
    list_max_listpack_size: i32 = -2, "list-max-listpack-size" | "list-max-ziplist-size", Integer(INT_MIN, INT_MAX);
    list_compress_depth: u32 = 0, "list-compress-depth", Integer(0, INT_MAX);
    set_max_intset_entries: usize = 512, "set-max-intset-entries", Integer(0, LONG_MAX);
    set_max_listpack_entries: usize = 128, "set-max-listpack-entries", Integer(0, LONG_MAX);
    set_max_listpack_value_bytes: usize = 64, "set-max-listpack-value", Integer(0, LONG_MAX);
    zset_max_listpack_entries: usize = 128, "zset-max-listpack-entries" | "zset-max-ziplist-entries", Integer(0, LONG_MAX);
    zset_max_listpack_value_bytes: usize = 64, "zset-max-listpack-value" | "zset-max-ziplist-value", Memory(0, LONG_MAX);
    zset_index: ZsetIndex = ZsetIndex::Fbtree, "zset-index", Choice;
    hll_sparse_max_bytes: usize = 3000, "hll-sparse-max-bytes", Memory(0, LONG_MAX);
    stream_node_max_bytes: usize = 4096, "stream-node-max-bytes", Memory(0, LONG_MAX);
    stream_node_max_entries: u64 = 100, "stream-node-max-entries", Integer(0, LONG_MAX);

    // Snapshots.
    save: Vec<SavePoint> = default_save_points(), "save", SavePoints, MULTI;
    dbfilename: Vec<u8> = b"dump.rdb".into(), "dbfilename", Text(checks::dbfilename), PROTECTED;
    rdbcompression: bool = true, "rdbcompression", YesNo;
    rdbchecksum: bool = true, "rdbchecksum", YesNo, IMMUTABLE;
    rdb_version_check: RdbVersionCheck = RdbVersionCheck::Strict, "rdb-version-check", Choice;
    rdb_del_sync_files: bool = false, "rdb-del-sync-files", YesNo;
    rdb_save_incremental_fsync: bool = true, "rdb-save-incremental-fsync", YesNo;
    stop_writes_on_bgsave_error: bool = true, "stop-writes-on-bgsave-error", YesNo;
    /// Per key; negative: that many keys in a microsecond. For tests.
    rdb_key_save_delay_us: i32 = 0, "rdb-key-save-delay", Integer(INT_MIN, INT_MAX), HIDDEN;
    /// Like `rdb_key_save_delay_us`.
    key_load_delay_us: i32 = 0, "key-load-delay", Integer(INT_MIN, INT_MAX), HIDDEN;
    loading_process_events_interval_bytes: u64 = 2 << 20, "loading-process-events-interval-bytes",
        Integer(KB, INT_MAX), HIDDEN;

    // Append-only file.
    appendonly: bool = false, "appendonly", YesNo, DENIED_WHILE_LOADING;
    appendfilename: Vec<u8> = b"appendonly.aof".into(), "appendfilename", Text(checks::appendfilename), IMMUTABLE;
    appenddirname: Vec<u8> = b"appendonlydir".into(), "appenddirname", Text(checks::appenddirname), IMMUTABLE;
    appendfsync: AppendFsync = AppendFsync::EverySecond, "appendfsync", Choice;
    no_appendfsync_on_rewrite: bool = false, "no-appendfsync-on-rewrite", YesNo;
    auto_aof_rewrite_percentage: u32 = 100, "auto-aof-rewrite-percentage", Integer(0, INT_MAX);
    auto_aof_rewrite_min_size_bytes: u64 = 64 << 20, "auto-aof-rewrite-min-size", Memory(0, LONG_MAX);
    aof_load_truncated: bool = true, "aof-load-truncated", YesNo;
    aof_use_rdb_preamble: bool = true, "aof-use-rdb-preamble", YesNo;
    aof_timestamp_enabled: bool = false, "aof-timestamp-enabled", YesNo;
    aof_rewrite_incremental_fsync: bool = true, "aof-rewrite-incremental-fsync", YesNo;
    aof_disable_auto_gc: bool = false, "aof-disable-auto-gc", YesNo, HIDDEN;

    // Scripts.
    busy_reply_threshold_ms: u64 = 5000, "busy-reply-threshold" | "lua-time-limit", Integer(0, LONG_MAX);
    lua_enable_insecure_api: bool = false, "lua-enable-insecure-api" | "lua-enable-deprecated-api", YesNo,
        HIDDEN, PROTECTED;

    // What is observed.
    /// Negative: off.
    commandlog_execution_slower_than_us: i64 = 10_000, "commandlog-execution-slower-than" | "slowlog-log-slower-than",
        Integer(-1, LONG_MAX);
    commandlog_slow_execution_max_len: u64 = 128, "commandlog-slow-execution-max-len" | "slowlog-max-len",
        Integer(0, LONG_MAX);
    /// Negative: off.
    commandlog_request_larger_than_bytes: i64 = 1 << 20, "commandlog-request-larger-than", Integer(-1, LONG_MAX);
    commandlog_large_request_max_len: u64 = 128, "commandlog-large-request-max-len", Integer(0, LONG_MAX);
    /// Negative: off.
    commandlog_reply_larger_than_bytes: i64 = 1 << 20, "commandlog-reply-larger-than", Integer(-1, LONG_MAX);
    commandlog_large_reply_max_len: u64 = 128, "commandlog-large-reply-max-len", Integer(0, LONG_MAX);
    /// 0: off.
    latency_monitor_threshold_ms: u64 = 0, "latency-monitor-threshold", Integer(0, LONG_MAX);
    latency_tracking: bool = true, "latency-tracking", YesNo;
    latency_tracking_info_percentiles: Vec<f64> = vec![50.0, 99.0, 99.9], "latency-tracking-info-percentiles",
        Percentiles, MULTI;
    notify_keyspace_events: EventClasses = EventClasses::NONE, "notify-keyspace-events", EventLetters;

    // Replication.
    replicaof: Option<ReplicaOf> = None, "replicaof" | "slaveof", Primary, IMMUTABLE, MULTI;
    primaryauth: Option<Vec<u8>> = None, "primaryauth" | "masterauth", Bytes(checks::anything), SENSITIVE;
    primaryuser: Option<Vec<u8>> = None, "primaryuser" | "masteruser", Text(checks::anything), SENSITIVE;
    replica_serve_stale_data: bool = true, "replica-serve-stale-data" | "slave-serve-stale-data", YesNo;
    replica_read_only: bool = true, "replica-read-only" | "slave-read-only", YesNo;
    replica_priority: u32 = 100, "replica-priority" | "slave-priority", Integer(0, INT_MAX);
    replica_announced: bool = true, "replica-announced", YesNo;
    replica_announce_ip: Option<Vec<u8>> = None, "replica-announce-ip" | "slave-announce-ip", Text(checks::anything);
    replica_announce_port: u16 = 0, "replica-announce-port" | "slave-announce-port", Integer(0, 65535);
    replica_lazy_flush: bool = true, "replica-lazy-flush" | "slave-lazy-flush", YesNo;
    replica_ignore_maxmemory: bool = true, "replica-ignore-maxmemory" | "slave-ignore-maxmemory", YesNo;
    replica_ignore_disk_write_errors: bool = false, "replica-ignore-disk-write-errors", YesNo;
    propagation_error_behavior: PropagationError = PropagationError::Ignore, "propagation-error-behavior", Choice;
    min_replicas_to_write: u32 = 0, "min-replicas-to-write" | "min-slaves-to-write", Integer(0, INT_MAX);
    min_replicas_max_lag_seconds: u32 = 10, "min-replicas-max-lag" | "min-slaves-max-lag", Integer(0, INT_MAX);
    repl_diskless_sync: bool = true, "repl-diskless-sync", YesNo;
    repl_diskless_sync_delay_seconds: u32 = 5, "repl-diskless-sync-delay", Integer(0, INT_MAX);
    repl_diskless_sync_max_replicas: u32 = 0, "repl-diskless-sync-max-replicas", Integer(0, INT_MAX);
    repl_diskless_load: ReplDisklessLoad = ReplDisklessLoad::Disabled, "repl-diskless-load", Choice,
        DENIED_WHILE_LOADING;
    dual_channel_replication_enabled: bool = false, "dual-channel-replication-enabled", YesNo;
    repl_ping_replica_period_seconds: u32 = 10, "repl-ping-replica-period" | "repl-ping-slave-period",
        Integer(1, INT_MAX);
    repl_timeout_seconds: u32 = 60, "repl-timeout", Integer(1, INT_MAX);
    repl_disable_tcp_nodelay: bool = false, "repl-disable-tcp-nodelay", YesNo;
    repl_mptcp: bool = false, "repl-mptcp", YesNo, IMMUTABLE;
    repl_backlog_size_bytes: u64 = 10 << 20, "repl-backlog-size", BacklogSize;
    repl_backlog_ttl_seconds: u64 = 3600, "repl-backlog-ttl", Integer(0, LONG_MAX);

    // Cluster.
    cluster_enabled: bool = false, "cluster-enabled", YesNo, IMMUTABLE;
    cluster_config_file: Vec<u8> = b"nodes.conf".into(), "cluster-config-file",
        Text(checks::cluster_config_file), IMMUTABLE;
    cluster_config_save_behavior: ClusterConfigSave = ClusterConfigSave::Sync, "cluster-config-save-behavior", Choice;
    cluster_databases: u32 = 1, "cluster-databases", Integer(1, INT_MAX), IMMUTABLE;
    cluster_node_timeout_ms: u64 = 15_000, "cluster-node-timeout", Integer(0, LONG_MAX);
    cluster_ping_interval_ms: u64 = 0, "cluster-ping-interval", Integer(0, LONG_MAX), HIDDEN;
    cluster_message_gossip_perc: u32 = 10, "cluster-message-gossip-perc", Integer(1, 100), HIDDEN;
    cluster_port: u16 = 0, "cluster-port", Integer(0, 65535), IMMUTABLE;
    cluster_replica_validity_factor: u32 = 10, "cluster-replica-validity-factor" | "cluster-slave-validity-factor",
        Integer(0, INT_MAX);
    cluster_replica_no_failover: bool = false, "cluster-replica-no-failover" | "cluster-slave-no-failover", YesNo;
    cluster_migration_barrier: u32 = 1, "cluster-migration-barrier", Integer(0, INT_MAX);
    cluster_allow_replica_migration: bool = true, "cluster-allow-replica-migration", YesNo;
    cluster_require_full_coverage: bool = true, "cluster-require-full-coverage", YesNo;
    cluster_manual_failover_timeout_ms: u32 = 5000, "cluster-manual-failover-timeout", Integer(1, INT_MAX);
    cluster_allow_reads_when_down: bool = false, "cluster-allow-reads-when-down", YesNo;
    cluster_allow_pubsubshard_when_down: bool = true, "cluster-allow-pubsubshard-when-down", YesNo;
    cluster_link_sendbuf_limit_bytes: u64 = 0, "cluster-link-sendbuf-limit", Memory(0, ULONG_MAX);
    cluster_blacklist_ttl_seconds: u64 = 60, "cluster-blacklist-ttl", Integer(0, ULONG_MAX);
    cluster_preferred_endpoint_type: ClusterEndpointType = ClusterEndpointType::Ip, "cluster-preferred-endpoint-type",
        Choice;
    cluster_slot_stats_enabled: bool = false, "cluster-slot-stats-enabled", YesNo;
    cluster_slot_migration_log_max_len: u64 = 1000, "cluster-slot-migration-log-max-len", Integer(0, LONG_MAX);
    /// Negative: no limit.
    slot_migration_max_failover_repl_bytes: i64 = 0, "slot-migration-max-failover-repl-bytes",
        SignedMemory(-1, LONG_MAX);
    cluster_announce_ip: Option<Vec<u8>> = None, "cluster-announce-ip", Text(checks::cluster_announce_ip);
    cluster_announce_client_ipv4: Option<Vec<u8>> = None, "cluster-announce-client-ipv4", Text(checks::ipv4);
    cluster_announce_client_ipv6: Option<Vec<u8>> = None, "cluster-announce-client-ipv6", Text(checks::ipv6);
    cluster_announce_hostname: Option<Vec<u8>> = None, "cluster-announce-hostname", Text(checks::hostname);
    cluster_announce_human_nodename: Option<Vec<u8>> = None, "cluster-announce-human-nodename",
        Text(checks::human_nodename);
    cluster_announce_port: u16 = 0, "cluster-announce-port", Integer(0, 65535);
    cluster_announce_tls_port: u16 = 0, "cluster-announce-tls-port", Integer(0, 65535);
    cluster_announce_bus_port: u16 = 0, "cluster-announce-bus-port", Integer(0, 65535);
    cluster_announce_client_port: u16 = 0, "cluster-announce-client-port", Integer(0, 65535);
    cluster_announce_client_tls_port: u16 = 0, "cluster-announce-client-tls-port", Integer(0, 65535);

    // TLS.
    /// 0: no TLS.
    tls_port: u16 = 0, "tls-port", Integer(0, 65535);
    tls_cluster: bool = false, "tls-cluster", YesNo;
    tls_replication: bool = false, "tls-replication", YesNo;
    tls_auth_clients: TlsAuthClients = TlsAuthClients::Yes, "tls-auth-clients", Choice;
    tls_auth_clients_user: TlsAuthClientsUser = TlsAuthClientsUser::Off, "tls-auth-clients-user", Choice;
    tls_cert_file: Option<Vec<u8>> = None, "tls-cert-file", Text(checks::anything), VOLATILE;
    tls_key_file: Option<Vec<u8>> = None, "tls-key-file", Text(checks::anything), VOLATILE;
    tls_key_file_pass: Option<Vec<u8>> = None, "tls-key-file-pass", Text(checks::anything), SENSITIVE;
    tls_client_cert_file: Option<Vec<u8>> = None, "tls-client-cert-file", Text(checks::anything), VOLATILE;
    tls_client_key_file: Option<Vec<u8>> = None, "tls-client-key-file", Text(checks::anything), VOLATILE;
    tls_client_key_file_pass: Option<Vec<u8>> = None, "tls-client-key-file-pass", Text(checks::anything), SENSITIVE;
    tls_dh_params_file: Option<Vec<u8>> = None, "tls-dh-params-file", Text(checks::anything), VOLATILE;
    tls_ca_cert_file: Option<Vec<u8>> = None, "tls-ca-cert-file", Text(checks::anything), VOLATILE;
    tls_ca_cert_dir: Option<Vec<u8>> = None, "tls-ca-cert-dir", Text(checks::anything), VOLATILE;
    tls_protocols: Option<Vec<u8>> = None, "tls-protocols", Text(checks::anything);
    tls_ciphers: Option<Vec<u8>> = None, "tls-ciphers", Text(checks::anything);
    tls_ciphersuites: Option<Vec<u8>> = None, "tls-ciphersuites", Text(checks::anything);
    tls_prefer_server_ciphers: bool = false, "tls-prefer-server-ciphers", YesNo;
    tls_session_caching: bool = true, "tls-session-caching", YesNo;
    tls_session_cache_size: u32 = 20 * 1024, "tls-session-cache-size", Integer(0, INT_MAX);
    tls_session_cache_timeout_seconds: u32 = 300, "tls-session-cache-timeout", Integer(0, INT_MAX);
    /// 0: certificates are only read when an option changes.
    tls_auto_reload_interval_seconds: u32 = 0, "tls-auto-reload-interval", Integer(0, INT_MAX);

    // Remote direct memory access, for which this server has no transport.
    rdma_bind: Vec<String> = Vec::new(), "rdma-bind", Addresses, MULTI, NO_EFFECT;
    rdma_port: u16 = 0, "rdma-port", Integer(0, 65535), NO_EFFECT;
    rdma_rx_size_bytes: u32 = 1 << 20, "rdma-rx-size", Integer(64 * KB, 16 * MB), IMMUTABLE, NO_EFFECT;
    rdma_completion_vector: i32 = -1, "rdma-completion-vector", Integer(-1, 1024), IMMUTABLE, NO_EFFECT;
}
