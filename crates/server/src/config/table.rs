//! The table of options, one row each: the only definition of an option's field, its name in files and CONFIG, its default
//! and its kind. The sentence after `///` is shown to users in the configuration file (`--print-config`) and in
//! docs/reference/configuration.md.

use std::path::PathBuf;

use super::buffer_limits::{BufferLimits, OutputBufferLimits};
use super::checks;
use super::choices::*;
use super::events::{EventClasses, EventLetters};
use super::key_policy::{KeyPolicies, KeyPolicy};
use super::kinds::*;
use super::option::{Flags, Kind, Row, options};
use super::prefixes::{PrefixRule, Prefixes};
use super::special::*;

const KB: i128 = 1 << 10;
const MB: i128 = 1 << 20;
/// Each uses memory, and time in the periodic work, even without keys.
const DATABASES_MAX: i128 = 1 << 16;
/// Why the options of RDMA cannot be set; the text of a reference that was built without it.
pub const NO_RDMA: &str = "No RDMA building support.";

options! {
    @ "General"
    /// Runs the server in the background.
    daemonize: bool = false, "daemonize", YesNo, IMMUTABLE;
    /// The service manager of the process: `systemd` is notified of startup, readiness and stopping over its socket
    /// (`Type=notify`), `upstart` by a signal, `auto` detects which of the two is in use.
    supervised: Supervised = Supervised::No, "supervised", Choice, IMMUTABLE;
    /// The file that holds the process ID; removed at shutdown. A server in the background writes
    /// /var/run/warmline.pid unless this names another file.
    pidfile: Option<Vec<u8>> = None, "pidfile", Text(checks::anything), IMMUTABLE;
    /// The lowest level of messages that are logged.
    loglevel: LogLevel = LogLevel::Notice, "loglevel", Choice;
    /// The format of log lines: the traditional text, `key=value` pairs, or JSON.
    log_format: LogFormat = LogFormat::Legacy, "log-format", Choice;
    /// The format of timestamps in the log.
    log_timestamp_format: LogTimestampFormat = LogTimestampFormat::Legacy, "log-timestamp-format", Choice;
    /// The log file; empty is standard output.
    logfile: Vec<u8> = Vec::new(), "logfile", Text(checks::anything), IMMUTABLE;
    /// Also logs to syslog. Not supported: the service manager collects standard output.
    syslog_enabled: bool = false, "syslog-enabled", YesNo, IMMUTABLE, NO_EFFECT;
    /// The identity in syslog.
    syslog_ident: Vec<u8> = b"warmline".into(), "syslog-ident", Text(checks::anything), IMMUTABLE, NO_EFFECT;
    /// The facility in syslog.
    syslog_facility: SyslogFacility = SyslogFacility::Local0, "syslog-facility", Choice, IMMUTABLE, NO_EFFECT;
    /// Logs a crash with a stack trace.
    crash_log_enabled: bool = true, "crash-log-enabled", YesNo;
    /// Tests the memory after a crash. Not supported: crash reports contain no memory test.
    crash_memcheck_enabled: bool = true, "crash-memcheck-enabled", YesNo, NO_EFFECT;
    /// Made for tests of Valkey itself.
    use_exit_on_panic: bool = false, "use-exit-on-panic", YesNo, HIDDEN, NO_EFFECT;
    /// Shows a logo at startup. Not supported: there is no logo.
    always_show_logo: bool = false, "always-show-logo", YesNo, IMMUTABLE, NO_EFFECT;
    /// Keeps keys and clients' data out of the log.
    hide_user_data_from_log: bool = true, "hide-user-data-from-log", YesNo;
    /// Shows address and mode in the process title.
    set_proc_title: bool = true, "set-proc-title", YesNo, IMMUTABLE;
    /// The template of the process title: text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port},
    /// {unixsocket} and {config-file}.
    proc_title_template: Vec<u8> = b"{title} {listen-addr} {server-mode}".into(), "proc-title-template",
        Text(checks::proc_title_template);
    /// The collation of `SORT ALPHA`. Not supported: it compares bytes.
    locale_collate: Vec<u8> = Vec::new(), "locale-collate", Text(checks::locale), NO_EFFECT;
    /// Warnings to suppress. Valkey's only one, `ARM64-COW-BUG`, does not exist here.
    ignore_warnings: Vec<u8> = Vec::new(), "ignore-warnings", Text(checks::anything), NO_EFFECT;
    /// Text in crash reports; made for tests of Valkey itself.
    debug_context: Vec<u8> = Vec::new(), "debug-context", Text(checks::anything), HIDDEN, NO_EFFECT;
    /// Enables debug assertions. Not supported: they are selected at build time.
    enable_debug_assert: bool = false, "enable-debug-assert", YesNo, IMMUTABLE, HIDDEN, NO_EFFECT;
    /// Logs a stack trace if one iteration of the event loop takes longer than this; 0 is off.
    watchdog_period_ms: u32 = 0, "watchdog-period", Integer(0, INT_MAX), HIDDEN;
    /// Reports the name Redis and the compatible Redis version to clients (HELLO, INFO) and in errors.
    extended_redis_compatibility: bool = false, "extended-redis-compatibility", YesNo;
    /// Which clients can change protected options with CONFIG SET, such as the paths of files (`dir`, `dbfilename`):
    /// none, all, or clients of this machine.
    enable_protected_configs: ProtectedAction = ProtectedAction::No, "enable-protected-configs", Choice, IMMUTABLE;
    /// Which clients can use DEBUG: none, all, or clients of this machine.
    enable_debug_command: ProtectedAction = ProtectedAction::No, "enable-debug-command", Choice, IMMUTABLE;
    /// Which clients can use MODULE: none, all, or clients of this machine.
    enable_module_command: ProtectedAction = ProtectedAction::No, "enable-module-command", Choice, IMMUTABLE;
    /// The working directory: it contains the RDB file and the directory of the append-only file, and relative paths
    /// start there.
    dir: PathBuf = current_directory(), "dir", Directory, PROTECTED, DENIED_WHILE_LOADING;
    /// The number of databases, numbered from 0.
    databases: u32 = 16, "databases", Integer(1, DATABASES_MAX), IMMUTABLE;
    /// How often per second the periodic work runs. Values out of range are clamped.
    hz: u32 = 10, "hz", Hertz;
    /// How long a shutdown waits for replicas that lag behind; 0 does not wait.
    shutdown_timeout_seconds: u32 = 10, "shutdown-timeout", Integer(0, INT_MAX);
    /// How SIGINT shuts the server down, in the options of SHUTDOWN.
    shutdown_on_sigint: ShutdownFlags = ShutdownFlags::DEFAULT, "shutdown-on-sigint", ShutdownWords, MULTI;
    /// How SIGTERM shuts the server down, in the options of SHUTDOWN.
    shutdown_on_sigterm: ShutdownFlags = ShutdownFlags::DEFAULT, "shutdown-on-sigterm", ShutdownWords, MULTI;

    @ "Network"
    /// The addresses to listen on, up to 16. `*` is all IPv4 addresses, `::*` all IPv6 addresses; an address with `-` in front
    /// is skipped if it is not available.
    bind: Vec<String> = vec!["*".into(), "-::*".into()], "bind", Addresses, MULTI;
    /// The source address of connections to a primary.
    bind_source_addr: Option<Vec<u8>> = None, "bind-source-addr", Text(checks::anything);
    /// The TCP port for clients; 0 is none.
    port: u16 = 6379, "port", Integer(0, 65535);
    /// Refuses clients from other machines while the user `default` has no password.
    protected_mode: bool = true, "protected-mode", YesNo;
    /// The path of a Unix socket to listen on; empty is none.
    unixsocket: Option<Vec<u8>> = None, "unixsocket", Text(checks::one_line), IMMUTABLE;
    /// The group of the Unix socket, by name or number.
    unixsocketgroup: Option<Vec<u8>> = None, "unixsocketgroup", Text(checks::anything), IMMUTABLE;
    /// The permissions of the Unix socket; 0 applies the process's umask to 770.
    unixsocketperm: u32 = 0, "unixsocketperm", Octal(0o777), IMMUTABLE;
    /// The maximum number of connections that wait to be accepted; the system can lower it.
    tcp_backlog: u32 = 511, "tcp-backlog", Integer(0, INT_MAX), IMMUTABLE;
    /// The idle time after which the system sends TCP keepalive probes; 0 sends none.
    tcp_keepalive_seconds: u32 = 300, "tcp-keepalive", Integer(0, INT_MAX);
    /// Sends replies immediately; `no` enables Nagle's algorithm on client connections: fewer packets, later replies.
    tcp_nodelay: bool = true, "tcp-nodelay", YesNo;
    /// Listens with multipath TCP. Not supported.
    mptcp: bool = false, "mptcp", YesNo, IMMUTABLE, NO_EFFECT;
    /// The packet mark of the server's sockets, for the system's filters. Not supported.
    socket_mark_id: u32 = 0, "socket-mark-id", Integer(0, UINT_MAX), IMMUTABLE, NO_EFFECT;
    /// The idle time after which a client is closed; 0 closes none.
    timeout_seconds: u32 = 0, "timeout", Integer(0, INT_MAX);
    /// The maximum number of connected clients; more are refused.
    maxclients: u32 = 10_000, "maxclients", Integer(1, UINT_MAX);
    /// The maximum number of connections that one iteration of the event loop accepts.
    max_new_connections_per_cycle: u32 = 10, "max-new-connections-per-cycle", Integer(1, 1000);
    /// The maximum number of TLS connections that one iteration of the event loop accepts.
    max_new_tls_connections_per_cycle: u32 = 1, "max-new-tls-connections-per-cycle", Integer(1, 1000);
    /// The availability zone of this server, for clients that prefer near servers: shown in HELLO and INFO.
    availability_zone: Vec<u8> = Vec::new(), "availability-zone", Bytes(checks::one_line);

    @ "Threads and batches"
    /// The number of threads that serve sockets, including the main thread, which runs all commands.
    io_threads: u32 = 1, "io-threads", Integer(1, 256);
    /// All threads serve connections at any load, not only when the main thread is overloaded.
    io_threads_always_active: bool = false, "io-threads-always-active", YesNo, HIDDEN;
    /// The maximum number of keys of pending commands that are prefetched from memory together; 0 is off.
    prefetch_batch_max_size: u32 = 32, "prefetch-batch-max-size", Integer(0, 128);
    /// The number of threads from which on replies refer to long strings. Not supported: replies refer to strings of 16 KB and
    /// more with any number of threads.
    min_io_threads_avoid_copy_reply: u32 = 7, "min-io-threads-avoid-copy-reply", Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    /// As above: the minimum length of a string that is not copied.
    min_string_size_avoid_copy_reply_bytes: u32 = 16384, "min-string-size-avoid-copy-reply",
        Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    /// As above: the minimum length of a string that is not copied, with threads.
    min_string_size_avoid_copy_reply_threaded_bytes: u32 = 65536, "min-string-size-avoid-copy-reply-threaded",
        Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    /// The processors of the threads that serve clients. Not supported: use the service manager's setting or taskset.
    server_cpulist: Option<Vec<u8>> = None, "server-cpulist" | "server_cpulist", Text(checks::anything), IMMUTABLE,
        NO_EFFECT;
    /// As above: the processors of background work.
    bio_cpulist: Option<Vec<u8>> = None, "bio-cpulist" | "bio_cpulist", Text(checks::anything), IMMUTABLE,
        NO_EFFECT;
    /// As above: the processors of rewrites of the append-only file.
    aof_rewrite_cpulist: Option<Vec<u8>> = None, "aof-rewrite-cpulist" | "aof_rewrite_cpulist",
        Text(checks::anything), IMMUTABLE, NO_EFFECT;
    /// As above: the processors of background saves.
    bgsave_cpulist: Option<Vec<u8>> = None, "bgsave-cpulist" | "bgsave_cpulist", Text(checks::anything), IMMUTABLE,
        NO_EFFECT;

    @ "Limits of clients"
    /// For a class of clients (`normal`, `replica`, `pubsub`): the unsent output that closes a client immediately, and the
    /// unsent output that closes it if it lasts for the given number of seconds. 0 is no limit.
    client_output_buffer_limit: OutputBufferLimits = OutputBufferLimits::DEFAULT, "client-output-buffer-limit",
        BufferLimits, MULTI;
    /// The maximum size of an incomplete request; more closes the connection.
    client_query_buffer_limit_bytes: u64 = 1 << 30, "client-query-buffer-limit", Memory(MB, LONG_MAX);
    /// The maximum length of a command's argument, and of a string that commands create.
    proto_max_bulk_len_bytes: usize = 512 << 20, "proto-max-bulk-len", Memory(MB, LONG_MAX);
    /// The total size of all clients' buffers above which the largest clients are closed; 0 is no limit, a percentage is
    /// relative to `maxmemory`.
    maxmemory_clients: MemoryLimit = MemoryLimit::Bytes(0), "maxmemory-clients", MemoryOrPercent;
    /// The maximum number of keys that are tracked for client-side caching; above it, some are invalidated. 0 is no limit.
    tracking_table_max_keys: usize = 1_000_000, "tracking-table-max-keys", Integer(0, LONG_MAX);

    @ "Access"
    /// The password of the user `default`; empty is none. Users with rules are defined by `user` lines or an `aclfile`.
    requirepass: Option<Vec<u8>> = None, "requirepass", Bytes(checks::anything), SENSITIVE;
    /// A file with users, one per line, instead of `user` lines here.
    aclfile: Vec<u8> = Vec::new(), "aclfile", Text(checks::anything), IMMUTABLE;
    /// The maximum number of entries in ACL LOG.
    acllog_max_len: usize = 128, "acllog-max-len", Integer(0, LONG_MAX);
    /// Whether a new user has access to all channels or none.
    acl_pubsub_default: AclPubsubDefault = AclPubsubDefault::ResetChannels, "acl-pubsub-default", Choice;

    @ "Memory, expiry and eviction"
    /// The memory for data and clients above which keys are evicted or writes refused; 0 is no limit.
    maxmemory_bytes: u64 = 0, "maxmemory", Memory(0, ULONG_MAX);
    /// What is evicted above `maxmemory`: any key (`allkeys-`) or one with a time to live (`volatile-`), the least recently or
    /// frequently used, a random one, or the one that expires next. `noeviction` evicts nothing, and writes are refused.
    maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::NoEviction, "maxmemory-policy", Choice;
    /// The number of keys that are compared to find one to evict: more are more exact and slower.
    maxmemory_samples: u32 = 5, "maxmemory-samples", Integer(1, 64);
    /// The time that eviction takes at once; with 100 it runs until memory is within its limit.
    maxmemory_eviction_tenacity: u32 = 10, "maxmemory-eviction-tenacity", Integer(0, 100);
    /// The range of the access frequency counter: the higher, the more accesses it distinguishes.
    lfu_log_factor: u32 = 10, "lfu-log-factor", Integer(0, INT_MAX);
    /// The time without access after which the frequency counter decreases by one; 0 never decreases it.
    lfu_decay_time_minutes: u32 = 1, "lfu-decay-time", Integer(0, INT_MAX);
    /// The processor time for finding expired keys that are not accessed: the higher, the more.
    active_expire_effort: u32 = 1, "active-expire-effort", Integer(1, 10);
    /// Disables expiry and eviction while data is imported from another server.
    import_mode: bool = false, "import-mode", YesNo;
    /// Frees evicted values in a background thread.
    lazyfree_lazy_eviction: bool = true, "lazyfree-lazy-eviction", YesNo;
    /// Frees expired values in a background thread.
    lazyfree_lazy_expire: bool = true, "lazyfree-lazy-expire", YesNo;
    /// Frees values that commands replace (RENAME, SET, ...) in a background thread.
    lazyfree_lazy_server_del: bool = true, "lazyfree-lazy-server-del", YesNo;
    /// DEL frees values in a background thread, as UNLINK does.
    lazyfree_lazy_user_del: bool = true, "lazyfree-lazy-user-del", YesNo;
    /// FLUSHALL and FLUSHDB without SYNC or ASYNC free values in a background thread.
    lazyfree_lazy_user_flush: bool = true, "lazyfree-lazy-user-flush", YesNo;
    /// Grows hash tables in the periodic work. Not supported: they always grow in small steps.
    activerehashing: bool = true, "activerehashing", YesNo, NO_EFFECT;
    /// A seed that makes the order of SCAN the same after each start; empty is a random seed, which clients cannot guess.
    hash_seed: Option<Vec<u8>> = None, "hash-seed", Bytes(checks::hash_seed), IMMUTABLE;
    /// Active defragmentation is not supported yet; CONFIG SET to `yes` is refused.
    activedefrag: bool = false, "activedefrag", YesNo, NO_EFFECT;
    /// As above: the waste below which nothing is defragmented.
    active_defrag_ignore_bytes: u64 = 100 << 20, "active-defrag-ignore-bytes", Memory(1, LONG_MAX), NO_EFFECT;
    /// As above: the percentage of waste from which on it runs.
    active_defrag_threshold_lower: u32 = 10, "active-defrag-threshold-lower", Integer(0, 1000), NO_EFFECT;
    /// As above: the percentage of waste from which on it runs with full effort.
    active_defrag_threshold_upper: u32 = 100, "active-defrag-threshold-upper", Integer(0, 1000), NO_EFFECT;
    /// As above: the percentage of processor time at the lower threshold.
    active_defrag_cycle_min: u32 = 1, "active-defrag-cycle-min", Integer(1, 99), NO_EFFECT;
    /// As above: the percentage of processor time at the upper threshold.
    active_defrag_cycle_max: u32 = 25, "active-defrag-cycle-max", Integer(1, 99), NO_EFFECT;
    /// As above: the maximum duration of one step.
    active_defrag_cycle_us: u32 = 500, "active-defrag-cycle-us", Integer(0, 100_000), NO_EFFECT;
    /// As above: the maximum number of a collection's elements in one step.
    active_defrag_max_scan_fields: u64 = 1000, "active-defrag-max-scan-fields", Integer(1, LONG_MAX),
        NO_EFFECT;
    /// Threads of the allocator return free memory to the system.
    jemalloc_bg_thread: bool = true, "jemalloc-bg-thread", YesNo;
    /// Disables transparent huge pages, which make copy-on-write after a fork expensive.
    disable_thp: bool = true, "disable-thp", YesNo, IMMUTABLE;
    /// The preference of the system for killing this process when memory is short. Not supported: use the service manager's
    /// setting.
    oom_score_adj: OomScoreAdj = OomScoreAdj::No, "oom-score-adj", Choice, NO_EFFECT;
    /// As above: the values for a primary, a replica, a child process.
    oom_score_adj_values: OomScoreAdjValues = OomScoreAdjValues::DEFAULT, "oom-score-adj-values", OomScores, MULTI,
        NO_EFFECT;

    @ "Encodings"
    /// The maximum number of fields of a compact hash.
    hash_max_listpack_entries: usize = 512, "hash-max-listpack-entries" | "hash-max-ziplist-entries",
        Integer(0, LONG_MAX), BY_KEY;
    /// The maximum length of fields and values of a compact hash.
    hash_max_listpack_value_bytes: usize = 64, "hash-max-listpack-value" | "hash-max-ziplist-value",
        Memory(0, LONG_MAX), BY_KEY;
    /// The size of a list's nodes. Positive: the number of elements. -1 to -5: 4, 8, 16, 32 or 64 KB.
    list_max_listpack_size: i32 = -2, "list-max-listpack-size" | "list-max-ziplist-size",
        Integer(INT_MIN, INT_MAX), BY_KEY;
    /// The number of nodes at each end of a list that stay uncompressed; 0 compresses none.
    list_compress_depth: u32 = 0, "list-compress-depth", Integer(0, INT_MAX), BY_KEY;
    /// The maximum number of integers of a set that is one sorted array.
    set_max_intset_entries: usize = 512, "set-max-intset-entries", Integer(0, LONG_MAX), BY_KEY;
    /// The maximum number of members of a compact set.
    set_max_listpack_entries: usize = 128, "set-max-listpack-entries", Integer(0, LONG_MAX), BY_KEY;
    /// The maximum length of members of a compact set.
    set_max_listpack_value_bytes: usize = 64, "set-max-listpack-value", Integer(0, LONG_MAX), BY_KEY;
    /// The maximum number of members of a compact sorted set.
    zset_max_listpack_entries: usize = 128, "zset-max-listpack-entries" | "zset-max-ziplist-entries",
        Integer(0, LONG_MAX), BY_KEY;
    /// The maximum length of members of a compact sorted set.
    zset_max_listpack_value_bytes: usize = 64, "zset-max-listpack-value" | "zset-max-ziplist-value",
        Memory(0, LONG_MAX), BY_KEY;
    /// The data structure of new sorted sets above the compact limits.
    zset_index: ZsetIndex = ZsetIndex::Fbtree, "zset-index", Choice, BY_KEY;
    /// The maximum size of a sparse HyperLogLog.
    hll_sparse_max_bytes: usize = 3000, "hll-sparse-max-bytes", Memory(0, LONG_MAX);
    /// The maximum size of a stream's node; 0 is no limit.
    stream_node_max_bytes: usize = 4096, "stream-node-max-bytes", Memory(0, LONG_MAX), BY_KEY;
    /// The maximum number of entries in a stream's node; 0 is no limit.
    stream_node_max_entries: u64 = 100, "stream-node-max-entries", Integer(0, LONG_MAX), BY_KEY;
    /// The seconds for which a new stream remembers messages that are added only once (`XADD` with `IDMP`).
    stream_idmp_duration_s: u32 = 100, "stream-idmp-duration", Integer(1, 86_400);
    /// The maximum number of such messages of each producer that a new stream remembers.
    stream_idmp_maxsize: u32 = 100, "stream-idmp-maxsize", Integer(1, 10_000);
    /// Settings that replace the options above for the keys that a glob matches: the glob, then pairs of setting and value
    /// (POLICY HELP lists them). Of several rules, one per line, the first whose glob matches applies; `POLICY` changes
    /// single rules, `""` is no rule.
    key_policy: Vec<KeyPolicy> = Vec::new(), "key-policy", KeyPolicies, MULTI, QUOTED;

    @ "Snapshots"
    /// When to save in the background: pairs of seconds and changes; a save starts when that number of seconds has passed
    /// since the last save and that number of changes was made. `""` never saves.
    save: Vec<SavePoint> = default_save_points(), "save", SavePoints, MULTI;
    /// The name of the RDB file in `dir`.
    dbfilename: Vec<u8> = b"dump.rdb".into(), "dbfilename", Text(checks::dbfilename), PROTECTED;
    /// Compresses long strings in RDB files.
    rdbcompression: bool = true, "rdbcompression", YesNo;
    /// Writes a checksum at the end of RDB files, and checks it.
    rdbchecksum: bool = true, "rdbchecksum", YesNo, IMMUTABLE;
    /// Whether RDB files of unknown versions are refused or tried.
    rdb_version_check: RdbVersionCheck = RdbVersionCheck::Strict, "rdb-version-check", Choice;
    /// Removes the RDB files of replication if persistence is off.
    rdb_del_sync_files: bool = false, "rdb-del-sync-files", YesNo;
    /// Saves are synced to disk in parts, not only at the end.
    rdb_save_incremental_fsync: bool = true, "rdb-save-incremental-fsync", YesNo;
    /// Refuses writes after a failed background save, if there are save points.
    stop_writes_on_bgsave_error: bool = true, "stop-writes-on-bgsave-error", YesNo;
    /// A pause after each saved key; negative: the number of keys in a microsecond. Made for tests.
    rdb_key_save_delay_us: i32 = 0, "rdb-key-save-delay", Integer(INT_MIN, INT_MAX), HIDDEN;
    /// A pause after each loaded key; negative: the number of keys in a microsecond. Made for tests.
    key_load_delay_us: i32 = 0, "key-load-delay", Integer(INT_MIN, INT_MAX), HIDDEN;
    /// The interval in bytes at which clients are served while data is loaded. Not supported: the interval is a time.
    loading_process_events_interval_bytes: u64 = 2 << 20, "loading-process-events-interval-bytes",
        Integer(KB, INT_MAX), HIDDEN, NO_EFFECT;

    @ "Append-only file"
    /// Writes an append-only file: changes are on disk within a second, or as `appendfsync` configures.
    appendonly: bool = false, "appendonly", YesNo, DENIED_WHILE_LOADING;
    /// The prefix of the names of the append-only files.
    appendfilename: Vec<u8> = b"appendonly.aof".into(), "appendfilename", Text(checks::appendfilename), IMMUTABLE;
    /// The directory of the append-only files, in `dir`.
    appenddirname: Vec<u8> = b"appendonlydir".into(), "appenddirname", Text(checks::appenddirname), IMMUTABLE;
    /// When the append-only file is synced to disk: before each reply, once a second, or by the system's decision.
    appendfsync: AppendFsync = AppendFsync::EverySecond, "appendfsync", Choice;
    /// Does not sync the append-only file to disk while a child process saves or rewrites.
    no_appendfsync_on_rewrite: bool = false, "no-appendfsync-on-rewrite", YesNo;
    /// The growth in percent since the last rewrite that starts a rewrite of the append-only file; 0 never starts one.
    auto_aof_rewrite_percentage: u32 = 100, "auto-aof-rewrite-percentage", Integer(0, INT_MAX);
    /// The minimum size of the append-only file for an automatic rewrite.
    auto_aof_rewrite_min_size_bytes: u64 = 64 << 20, "auto-aof-rewrite-min-size", Memory(0, LONG_MAX);
    /// Loads an append-only file with an incomplete end, which is cut off; `no` refuses to start.
    aof_load_truncated: bool = true, "aof-load-truncated", YesNo;
    /// Writes the base of the append-only file as an RDB file, which is smaller and loads faster.
    aof_use_rdb_preamble: bool = true, "aof-use-rdb-preamble", YesNo;
    /// Writes timestamps to the append-only file, so that it can be truncated at one of them.
    aof_timestamp_enabled: bool = false, "aof-timestamp-enabled", YesNo;
    /// Rewrites are synced to disk in parts, not only at the end.
    aof_rewrite_incremental_fsync: bool = true, "aof-rewrite-incremental-fsync", YesNo;
    /// Keeps append-only files that are no longer needed. Made for tests.
    aof_disable_auto_gc: bool = false, "aof-disable-auto-gc", YesNo, HIDDEN;

    @ "Scripts"
    /// The run time of a script after which other clients get BUSY errors.
    busy_reply_threshold_ms: u64 = 5000, "busy-reply-threshold" | "lua-time-limit", Integer(0, LONG_MAX);
    /// Provides deprecated functions to scripts, which are not safe.
    lua_enable_insecure_api: bool = false, "lua-enable-insecure-api" | "lua-enable-deprecated-api", YesNo,
        HIDDEN, PROTECTED;

    @ "Observation"
    /// Logs commands that take longer (SLOWLOG); 0 logs all, -1 none.
    commandlog_execution_slower_than_us: i64 = 10_000, "commandlog-execution-slower-than" | "slowlog-log-slower-than",
        Integer(-1, LONG_MAX);
    /// The maximum number of slow commands in the log.
    commandlog_slow_execution_max_len: usize = 128, "commandlog-slow-execution-max-len" | "slowlog-max-len",
        Integer(0, LONG_MAX);
    /// Logs commands with larger requests (COMMANDLOG); -1 logs none.
    commandlog_request_larger_than_bytes: i64 = 1 << 20, "commandlog-request-larger-than", Integer(-1, LONG_MAX);
    /// The maximum number of large requests in the log.
    commandlog_large_request_max_len: usize = 128, "commandlog-large-request-max-len", Integer(0, LONG_MAX);
    /// Logs commands with larger replies (COMMANDLOG); -1 logs none.
    commandlog_reply_larger_than_bytes: i64 = 1 << 20, "commandlog-reply-larger-than", Integer(-1, LONG_MAX);
    /// The maximum number of large replies in the log.
    commandlog_large_reply_max_len: usize = 128, "commandlog-large-reply-max-len", Integer(0, LONG_MAX);
    /// Records events that take at least this long (LATENCY); 0 is off.
    latency_monitor_threshold_ms: u64 = 0, "latency-monitor-threshold", Integer(0, LONG_MAX);
    /// The maximum number of traces of requests (LATENCY TRACE).
    latency_trace_max_len: usize = 1024, "latency-trace-max-len", Integer(0, 1 << 20);
    /// Records a histogram of each command's duration (LATENCY HISTOGRAM, INFO latencystats).
    latency_tracking: bool = true, "latency-tracking", YesNo;
    /// The percentiles of these durations in INFO; `""` is none.
    latency_tracking_info_percentiles: Vec<f64> = vec![50.0, 99.0, 99.9], "latency-tracking-info-percentiles",
        Percentiles, MULTI;
    /// Records the most used keys (HOTKEYS TOP), from samples of at most one command in 64.
    hot_keys: bool = true, "hot-keys", YesNo;
    /// Prefixes for which keys and their memory are counted (MEMORY PREFIXES), like `user:* session:*`; a key counts for its
    /// longest prefix. `learn` takes the prefixes of keys up to the first of `:`, `/`, `|`, `.` and `#`. Empty counts nothing.
    memory_prefixes: PrefixRule = PrefixRule::Off, "memory-prefixes", Prefixes, MULTI;
    /// Which keyspace events are published, in letters: `K` and `E` select the channels, `g$lshzxetdmn` the events; `A` is
    /// all events but `m` and `n`.
    notify_keyspace_events: EventClasses = EventClasses::NONE, "notify-keyspace-events", EventLetters;

    @ "Replication"
    /// The primary to replicate, as host and port; `no one` is none.
    replicaof: Option<ReplicaOf> = None, "replicaof" | "slaveof", Primary, IMMUTABLE, MULTI;
    /// The password for authentication at the primary.
    primaryauth: Option<Vec<u8>> = None, "primaryauth" | "masterauth", Bytes(checks::anything), SENSITIVE;
    /// The user name for authentication at the primary.
    primaryuser: Option<Vec<u8>> = None, "primaryuser" | "masteruser", Text(checks::anything), SENSITIVE;
    /// Serves clients while the link to the primary is down or the first sync is in progress.
    replica_serve_stale_data: bool = true, "replica-serve-stale-data" | "slave-serve-stale-data", YesNo;
    /// Refuses clients' writes while this server is a replica.
    replica_read_only: bool = true, "replica-read-only" | "slave-read-only", YesNo;
    /// The priority for promotion by Sentinel, the lowest first; 0 is never promoted.
    replica_priority: u32 = 100, "replica-priority" | "slave-priority", Integer(0, INT_MAX);
    /// Whether Sentinel reports this replica to clients.
    replica_announced: bool = true, "replica-announced", YesNo;
    /// The address that this replica reports to its primary.
    replica_announce_ip: Option<Vec<u8>> = None, "replica-announce-ip" | "slave-announce-ip", Text(checks::host);
    /// The port that this replica reports to its primary; 0 is its own.
    replica_announce_port: u16 = 0, "replica-announce-port" | "slave-announce-port", Integer(0, 65535);
    /// Frees the data that a full sync replaces in a background thread.
    replica_lazy_flush: bool = true, "replica-lazy-flush" | "slave-lazy-flush", YesNo;
    /// A replica does not evict keys: its primary does.
    replica_ignore_maxmemory: bool = true, "replica-ignore-maxmemory" | "slave-ignore-maxmemory", YesNo;
    /// A replica continues after failed writes to disk; `no` ends the process.
    replica_ignore_disk_write_errors: bool = false, "replica-ignore-disk-write-errors", YesNo;
    /// The effect of a failed command from the primary: none, or the end of the process.
    propagation_error_behavior: PropagationError = PropagationError::Ignore, "propagation-error-behavior", Choice;
    /// Refuses writes while fewer replicas are up to date; 0 is off.
    min_replicas_to_write: u32 = 0, "min-replicas-to-write" | "min-slaves-to-write", Integer(0, INT_MAX);
    /// The maximum age of the last acknowledgement of a replica that is up to date.
    min_replicas_max_lag_seconds: u32 = 10, "min-replicas-max-lag" | "min-slaves-max-lag", Integer(0, INT_MAX);
    /// Replies that show a change wait until this number of replicas has the change, and writes are refused while fewer are
    /// online; 0 is off.
    min_replicas_durable: u32 = 0, "min-replicas-durable", Integer(0, 1000);
    /// The replicas must have forced such changes to disk in their append-only files.
    min_replicas_durable_on_disk: bool = false, "min-replicas-durable-on-disk", YesNo;
    /// How long such replies wait, in milliseconds; then they are NOREPLICAS errors.
    min_replicas_durable_timeout_ms: u64 = 5000, "min-replicas-durable-timeout", Integer(1, LONG_MAX);
    /// Sends snapshots to replicas directly from the child process, without a file.
    repl_diskless_sync: bool = true, "repl-diskless-sync", YesNo;
    /// How long such a sync waits for further replicas.
    repl_diskless_sync_delay_seconds: u32 = 5, "repl-diskless-sync-delay", Integer(0, INT_MAX);
    /// The number of replicas that ends the wait; 0 always waits for the whole time.
    repl_diskless_sync_max_replicas: u32 = 0, "repl-diskless-sync-max-replicas", Integer(0, INT_MAX);
    /// How a replica loads a snapshot: from a file (`disabled`), or while receiving it: only without data of its own, beside the
    /// old data, or in place of it.
    repl_diskless_load: ReplDisklessLoad = ReplDisklessLoad::Disabled, "repl-diskless-load", Choice,
        DENIED_WHILE_LOADING;
    /// Runs full syncs over two connections, if both sides have this option: the snapshot and the changes are sent in parallel.
    dual_channel_replication_enabled: bool = false, "dual-channel-replication-enabled", YesNo;
    /// The interval at which a primary sends pings to its replicas.
    repl_ping_replica_period_seconds: u32 = 10, "repl-ping-replica-period" | "repl-ping-slave-period",
        Integer(1, INT_MAX);
    /// The silence after which a replication link is closed.
    repl_timeout_seconds: u32 = 60, "repl-timeout", Integer(1, INT_MAX);
    /// Combines small writes on the link to a replica: fewer packets, later.
    repl_disable_tcp_nodelay: bool = false, "repl-disable-tcp-nodelay", YesNo;
    /// Links to primaries with multipath TCP. Not supported.
    repl_mptcp: bool = false, "repl-mptcp", YesNo, IMMUTABLE, NO_EFFECT;
    /// The size of the replication backlog, for replicas that reconnect. Less than 16kb is 16kb.
    repl_backlog_size_bytes: u64 = 10 << 20, "repl-backlog-size", BacklogSize;
    /// How long the backlog is kept after the last replica has disconnected; 0 is for ever.
    repl_backlog_ttl_seconds: u64 = 3600, "repl-backlog-ttl", Integer(0, LONG_MAX);

    @ "Cluster"
    /// Makes this server a node of a cluster: keys are divided into 16,384 slots, and each node serves the slots that it owns.
    cluster_enabled: bool = false, "cluster-enabled", YesNo, IMMUTABLE;
    /// The file in which a node keeps its view of the cluster. The server writes it; no two servers can share one.
    cluster_config_file: Vec<u8> = b"nodes.conf".into(), "cluster-config-file",
        Text(checks::cluster_config_file), IMMUTABLE;
    /// Whether a node ends when it cannot write that file (`sync`), or goes on (`best-effort`), with the risk that it votes twice
    /// after a restart.
    cluster_config_save_behavior: ClusterConfigSave = ClusterConfigSave::Sync, "cluster-config-save-behavior", Choice;
    /// The number of databases of a node, instead of `databases`.
    cluster_databases: u32 = 1, "cluster-databases", Integer(1, DATABASES_MAX), IMMUTABLE;
    /// The silence in milliseconds after which a node counts as failed.
    cluster_node_timeout_ms: u64 = 15_000, "cluster-node-timeout", Integer(0, LONG_MAX);
    /// The interval of pings in milliseconds; 0 is half of `cluster-node-timeout`. Made for tests.
    cluster_ping_interval_ms: u64 = 0, "cluster-ping-interval", Integer(0, LONG_MAX), HIDDEN;
    /// The percentage of the known nodes that a ping tells of. Made for tests.
    cluster_message_gossip_perc: u32 = 10, "cluster-message-gossip-perc", Integer(1, 100), HIDDEN;
    /// The port for other nodes; 0 is `port` plus 10000.
    cluster_port: u16 = 0, "cluster-port", Integer(0, 65535), IMMUTABLE;
    /// How long a replica can have been without its primary and still take over, as a multiple of `cluster-node-timeout`; 0
    /// is for ever.
    cluster_replica_validity_factor: u32 = 10, "cluster-replica-validity-factor" | "cluster-slave-validity-factor",
        Integer(0, INT_MAX);
    /// Whether this replica never takes over by itself.
    cluster_replica_no_failover: bool = false, "cluster-replica-no-failover" | "cluster-slave-no-failover", YesNo;
    /// The minimum number of replicas that stay with a primary when others move to a primary without any.
    cluster_migration_barrier: u32 = 1, "cluster-migration-barrier", Integer(0, INT_MAX);
    /// Whether replicas move to primaries without one, and a primary without slots becomes a replica.
    cluster_allow_replica_migration: bool = true, "cluster-allow-replica-migration", YesNo;
    /// Whether no command with keys is served while slots have no node.
    cluster_require_full_coverage: bool = true, "cluster-require-full-coverage", YesNo;
    /// The maximum duration of a manual failover, in milliseconds.
    cluster_manual_failover_timeout_ms: u32 = 5000, "cluster-manual-failover-timeout", Integer(1, INT_MAX);
    /// Whether reads are served while the cluster is down.
    cluster_allow_reads_when_down: bool = false, "cluster-allow-reads-when-down", YesNo;
    /// Whether sharded channels are served while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool = true, "cluster-allow-pubsubshard-when-down", YesNo;
    /// The maximum size of unsent data for one node, above which its connection is closed; 0 is no limit.
    cluster_link_sendbuf_limit_bytes: u64 = 0, "cluster-link-sendbuf-limit", Memory(0, ULONG_MAX);
    /// For how many seconds a forgotten node is not added again.
    cluster_blacklist_ttl_seconds: u64 = 60, "cluster-blacklist-ttl", Integer(0, ULONG_MAX);
    /// What clients get as the endpoint of a node: its address, its host name, or nothing.
    cluster_preferred_endpoint_type: ClusterEndpointType = ClusterEndpointType::Ip, "cluster-preferred-endpoint-type",
        Choice;
    /// Whether processor time and traffic are counted by slot, for CLUSTER SLOT-STATS.
    cluster_slot_stats_enabled: bool = false, "cluster-slot-stats-enabled", YesNo;
    /// The number of jobs of slot migration that are listed, those that have ended included; a job that goes on always is.
    cluster_slot_migration_log_max_len: u64 = 1000, "cluster-slot-migration-log-max-len", Integer(0, LONG_MAX);
    /// Writes to slots that move to another node are paused when at most this is unsent; after two seconds they are paused in
    /// any case.
    slot_migration_max_failover_repl_bytes: i64 = 0, "slot-migration-max-failover-repl-bytes",
        SignedMemory(-1, LONG_MAX);
    /// The announced address, if it is not the one by which other nodes and clients reach this node.
    cluster_announce_ip: Option<Vec<u8>> = None, "cluster-announce-ip", Text(checks::cluster_announce_ip);
    /// The announced address for clients that use IPv4.
    cluster_announce_client_ipv4: Option<Vec<u8>> = None, "cluster-announce-client-ipv4", Text(checks::ipv4);
    /// The announced address for clients that use IPv6.
    cluster_announce_client_ipv6: Option<Vec<u8>> = None, "cluster-announce-client-ipv6", Text(checks::ipv6);
    /// The announced host name for clients.
    cluster_announce_hostname: Option<Vec<u8>> = None, "cluster-announce-hostname", Text(checks::hostname);
    /// The node's name in logs.
    cluster_announce_human_nodename: Option<Vec<u8>> = None, "cluster-announce-human-nodename",
        Text(checks::human_nodename);
    /// The announced port; 0 is `port`.
    cluster_announce_port: u16 = 0, "cluster-announce-port", Integer(0, 65535);
    /// The announced TLS port; 0 is `tls-port`.
    cluster_announce_tls_port: u16 = 0, "cluster-announce-tls-port", Integer(0, 65535);
    /// The announced port of the cluster bus; 0 is the port that it listens on.
    cluster_announce_bus_port: u16 = 0, "cluster-announce-bus-port", Integer(0, 65535);
    /// The announced port for clients; 0 is the one for other nodes.
    cluster_announce_client_port: u16 = 0, "cluster-announce-client-port", Integer(0, 65535);
    /// The announced TLS port for clients; 0 is the one for other nodes.
    cluster_announce_client_tls_port: u16 = 0, "cluster-announce-client-tls-port", Integer(0, 65535);

    @ "HTTP"
    /// The port of the HTTP server with a console (`/`), metrics (`/metrics`), health (`/health`) and readiness (`/ready`); 0 is
    /// none.
    http_port: u16 = 0, "http-port", Integer(0, 65535);
    /// HTTP over TLS only, with the `tls-*` options of the TLS port, which need not be open.
    http_tls: bool = false, "http-tls", YesNo;
    /// The addresses of the HTTP server, in the syntax of `bind`. Without `http-tls` nothing is encrypted.
    http_bind: Vec<String> = vec!["127.0.0.1".into(), "-::1".into()], "http-bind", Addresses, MULTI;
    /// Host names of this server that HTTP requests can use; addresses and `localhost` are always accepted.
    http_hosts: Vec<String> = Vec::new(), "http-hosts", Addresses, MULTI;
    /// Whether HTTP also runs commands that change something, for users with the permission; otherwise only commands that
    /// read.
    http_commands: bool = false, "http-commands", YesNo;

    @ "TLS"
    /// The port for TLS clients; 0 is none.
    tls_port: u16 = 0, "tls-port", Integer(0, 65535);
    /// MIGRATE uses TLS.
    tls_cluster: bool = false, "tls-cluster", YesNo;
    /// The link to the primary uses TLS.
    tls_replication: bool = false, "tls-replication", YesNo;
    /// Whether clients must present a certificate.
    tls_auth_clients: TlsAuthClients = TlsAuthClients::Yes, "tls-auth-clients", Choice;
    /// Which field of a client's certificate names its user.
    tls_auth_clients_user: TlsAuthClientsUser = TlsAuthClientsUser::Off, "tls-auth-clients-user", Choice;
    /// The server's certificate, in PEM; its chain can follow.
    tls_cert_file: Option<Vec<u8>> = None, "tls-cert-file", Text(checks::anything), VOLATILE;
    /// The key of the server's certificate, in PEM.
    tls_key_file: Option<Vec<u8>> = None, "tls-key-file", Text(checks::anything), VOLATILE;
    /// The password of that key.
    tls_key_file_pass: Option<Vec<u8>> = None, "tls-key-file-pass", Text(checks::anything), SENSITIVE;
    /// The certificate for outgoing connections; empty is that of `tls-cert-file`.
    tls_client_cert_file: Option<Vec<u8>> = None, "tls-client-cert-file", Text(checks::anything), VOLATILE;
    /// The key of that certificate.
    tls_client_key_file: Option<Vec<u8>> = None, "tls-client-key-file", Text(checks::anything), VOLATILE;
    /// The password of that key.
    tls_client_key_file_pass: Option<Vec<u8>> = None, "tls-client-key-file-pass", Text(checks::anything), SENSITIVE;
    /// Diffie-Hellman parameters. Not supported: the key exchange is not offered, and the log says so.
    tls_dh_params_file: Option<Vec<u8>> = None, "tls-dh-params-file", Text(checks::anything), VOLATILE,
        NO_EFFECT;
    /// Certificates of the trusted authorities.
    tls_ca_cert_file: Option<Vec<u8>> = None, "tls-ca-cert-file", Text(checks::anything), VOLATILE;
    /// A directory of such certificates.
    tls_ca_cert_dir: Option<Vec<u8>> = None, "tls-ca-cert-dir", Text(checks::anything), VOLATILE;
    /// The permitted versions of TLS, `TLSv1.2` and `TLSv1.3`; empty is both.
    tls_protocols: Option<Vec<u8>> = None, "tls-protocols", Text(checks::anything);
    /// The cipher suites of TLS 1.2, by OpenSSL's names; empty is all that are supported.
    tls_ciphers: Option<Vec<u8>> = None, "tls-ciphers", Text(checks::anything);
    /// The cipher suites of TLS 1.3; empty is all that are supported.
    tls_ciphersuites: Option<Vec<u8>> = None, "tls-ciphersuites", Text(checks::anything);
    /// Uses the server's order of cipher suites, not the client's.
    tls_prefer_server_ciphers: bool = false, "tls-prefer-server-ciphers", YesNo;
    /// Permits clients to resume sessions.
    tls_session_caching: bool = true, "tls-session-caching", YesNo;
    /// The maximum number of sessions that are remembered by id; 0 is none.
    tls_session_cache_size: u32 = 20 * 1024, "tls-session-cache-size", Integer(0, INT_MAX);
    /// How long a session can be resumed.
    tls_session_cache_timeout_seconds: u32 = 300, "tls-session-cache-timeout", Integer(0, INT_MAX);
    /// How often the certificate files are checked for changes; 0 is only when an option changes.
    tls_auto_reload_interval_seconds: u32 = 0, "tls-auto-reload-interval", Integer(0, INT_MAX);

    @ "RDMA"
    /// There is no RDMA transport.
    rdma_bind: Vec<String> = Vec::new(), "rdma-bind", Addresses, MULTI, NO_EFFECT, VOLATILE;
    /// As above: a port prevents the start.
    rdma_port: u16 = 0, "rdma-port", Only(Integer(0, 65535), NO_RDMA);
    /// As above.
    rdma_rx_size_bytes: u32 = 1 << 20, "rdma-rx-size", Integer(64 * KB, 16 * MB), IMMUTABLE, NO_EFFECT;
    /// As above.
    rdma_completion_vector: i32 = -1, "rdma-completion-vector", Integer(-1, 1024), IMMUTABLE, NO_EFFECT;
}
