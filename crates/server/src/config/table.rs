//! The table of options: one row each. A row's field, its name in files and CONFIG, its default and its kind stand
//! together here and nowhere else, and so does the sentence behind `///`, which people read in the configuration file
//! (`--print-config`) and in docs/reference/configuration.md.

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
/// Each takes memory, and its turn in periodic work, whether it has keys or not.
const DATABASES_MAX: i128 = 1 << 16;

options! {
    @ "General"
    /// Goes into the background at the start.
    daemonize: bool = false, "daemonize", YesNo, IMMUTABLE;
    /// Who supervises the process: `systemd` is told of starting, readiness and stopping over its socket
    /// (`Type=notify`), `upstart` by a signal, `auto` finds out which of the two it is.
    supervised: Supervised = Supervised::No, "supervised", Choice, IMMUTABLE;
    /// The file to write the process's number to; removed at the end. A server in the background writes
    /// /var/run/warmline.pid unless this names another.
    pidfile: Option<Vec<u8>> = None, "pidfile", Text(checks::anything), IMMUTABLE;
    /// The least important lines that are still logged.
    loglevel: LogLevel = LogLevel::Notice, "loglevel", Choice;
    /// How lines of the log are written: as people know them, as `key=value` pairs, or as JSON.
    log_format: LogFormat = LogFormat::Legacy, "log-format", Choice;
    /// How the log writes times.
    log_timestamp_format: LogTimestampFormat = LogTimestampFormat::Legacy, "log-timestamp-format", Choice;
    /// The file to log to; empty is standard output.
    logfile: Vec<u8> = Vec::new(), "logfile", Text(checks::anything), IMMUTABLE;
    /// Also logs to the system's log, which this server cannot: its service manager collects standard output.
    syslog_enabled: bool = false, "syslog-enabled", YesNo, IMMUTABLE, NO_EFFECT;
    /// The name in the system's log.
    syslog_ident: Vec<u8> = b"warmline".into(), "syslog-ident", Text(checks::anything), IMMUTABLE, NO_EFFECT;
    /// The facility in the system's log.
    syslog_facility: SyslogFacility = SyslogFacility::Local0, "syslog-facility", Choice, IMMUTABLE, NO_EFFECT;
    /// Logs a fault of the process with the calls that led to it.
    crash_log_enabled: bool = true, "crash-log-enabled", YesNo;
    /// A crash is reported without a memory test.
    crash_memcheck_enabled: bool = true, "crash-memcheck-enabled", YesNo, NO_EFFECT;
    /// Made for tests of Valkey itself.
    use_exit_on_panic: bool = false, "use-exit-on-panic", YesNo, HIDDEN, NO_EFFECT;
    /// There is no logo.
    always_show_logo: bool = false, "always-show-logo", YesNo, IMMUTABLE, NO_EFFECT;
    /// Keeps keys and what clients send out of the log.
    hide_user_data_from_log: bool = true, "hide-user-data-from-log", YesNo;
    /// Shows address and mode in the list of processes.
    set_proc_title: bool = true, "set-proc-title", YesNo, IMMUTABLE;
    /// What the list of processes shows: text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port},
    /// {unixsocket} and {config-file}.
    proc_title_template: Vec<u8> = b"{title} {listen-addr} {server-mode}".into(), "proc-title-template",
        Text(checks::proc_title_template);
    /// `SORT ALPHA` compares bytes.
    locale_collate: Vec<u8> = Vec::new(), "locale-collate", Text(checks::anything), NO_EFFECT;
    /// Warnings about the machine that are not to be logged: the one that Valkey knows, `ARM64-COW-BUG`, is not given here.
    ignore_warnings: Vec<u8> = Vec::new(), "ignore-warnings", Text(checks::anything), NO_EFFECT;
    /// Text that reports of faults show; made for tests of Valkey itself.
    debug_context: Vec<u8> = Vec::new(), "debug-context", Text(checks::anything), HIDDEN, NO_EFFECT;
    /// Assertions are chosen when the program is built.
    enable_debug_assert: bool = false, "enable-debug-assert", YesNo, IMMUTABLE, HIDDEN, NO_EFFECT;
    /// Logs where the server is when one turn of its loop takes longer than this; 0 is off.
    watchdog_period_ms: u32 = 0, "watchdog-period", Integer(0, INT_MAX), HIDDEN;
    /// Calls itself Redis, in the version it is compatible with, wherever clients ask (HELLO, INFO) and in
    /// errors.
    extended_redis_compatibility: bool = false, "extended-redis-compatibility", YesNo;
    /// Whether CONFIG SET may change where files are written (`dir`, `dbfilename`) and other protected options:
    /// nobody, everybody, or clients of this machine.
    enable_protected_configs: ProtectedAction = ProtectedAction::No, "enable-protected-configs", Choice, IMMUTABLE;
    /// Who may use DEBUG: nobody, everybody, or clients of this machine.
    enable_debug_command: ProtectedAction = ProtectedAction::No, "enable-debug-command", Choice, IMMUTABLE;
    /// Who may use MODULE: nobody, everybody, or clients of this machine.
    enable_module_command: ProtectedAction = ProtectedAction::No, "enable-module-command", Choice, IMMUTABLE;
    /// The working directory: where the RDB file and the directory of the append-only file are, and what
    /// relative paths count from.
    dir: PathBuf = current_directory(), "dir", Directory, PROTECTED, DENIED_WHILE_LOADING;
    /// How many databases there are, numbered from 0.
    databases: u32 = 16, "databases", Integer(1, DATABASES_MAX), IMMUTABLE;
    /// How often in a second the periodic work runs. Values out of range are brought into it.
    hz: u32 = 10, "hz", Hertz;
    /// How long a shutdown waits for replicas that lack something; 0 waits for none.
    shutdown_timeout_seconds: u32 = 10, "shutdown-timeout", Integer(0, INT_MAX);
    /// How SIGINT ends the server, in the words of SHUTDOWN.
    shutdown_on_sigint: ShutdownFlags = ShutdownFlags::DEFAULT, "shutdown-on-sigint", ShutdownWords, MULTI;
    /// How SIGTERM ends the server, in the words of SHUTDOWN.
    shutdown_on_sigterm: ShutdownFlags = ShutdownFlags::DEFAULT, "shutdown-on-sigterm", ShutdownWords, MULTI;

    @ "Network"
    /// The addresses to listen on, up to 16. `*` is every IPv4 address, `::*` every IPv6 one; with `-` in front
    /// an address may be missing.
    bind: Vec<String> = vec!["*".into(), "-::*".into()], "bind", Addresses, MULTI;
    /// The address that connections to a primary come from.
    bind_source_addr: Option<Vec<u8>> = None, "bind-source-addr", Text(checks::anything);
    /// The TCP port for clients; 0 is none.
    port: u16 = 6379, "port", Integer(0, 65535);
    /// Without a password of the user `default`, refuses clients from other machines.
    protected_mode: bool = true, "protected-mode", YesNo;
    /// The path of a Unix socket to listen on; empty is none.
    unixsocket: Option<Vec<u8>> = None, "unixsocket", Text(checks::one_line), IMMUTABLE;
    /// The group that the Unix socket belongs to, by name or number.
    unixsocketgroup: Option<Vec<u8>> = None, "unixsocketgroup", Text(checks::anything), IMMUTABLE;
    /// The permissions of the Unix socket; 0 is what the process's umask leaves of 770.
    unixsocketperm: u32 = 0, "unixsocketperm", Octal(0o777), IMMUTABLE;
    /// How many connections may wait to be accepted; the system may allow fewer.
    tcp_backlog: u32 = 511, "tcp-backlog", Integer(0, INT_MAX), IMMUTABLE;
    /// Silence after which the system asks whether the peer is still there; 0 never asks.
    tcp_keepalive_seconds: u32 = 300, "tcp-keepalive", Integer(0, INT_MAX);
    /// Sends replies at once; `no` leaves Nagle's algorithm on for clients: fewer packets, later replies.
    tcp_nodelay: bool = true, "tcp-nodelay", YesNo;
    /// Listens with multipath TCP, which this server does not.
    mptcp: bool = false, "mptcp", YesNo, IMMUTABLE, NO_EFFECT;
    /// A mark on the server's sockets for the system's filters, which this server does not set.
    socket_mark_id: u32 = 0, "socket-mark-id", Integer(0, UINT_MAX), IMMUTABLE, NO_EFFECT;
    /// Closes clients that have been silent for so long; 0 never.
    timeout_seconds: u32 = 0, "timeout", Integer(0, INT_MAX);
    /// How many clients may be connected; more are refused.
    maxclients: u32 = 10_000, "maxclients", Integer(1, UINT_MAX);
    /// How many connections one turn of the loop accepts.
    max_new_connections_per_cycle: u32 = 10, "max-new-connections-per-cycle", Integer(1, 1000);
    /// How many TLS connections one turn of the loop accepts.
    max_new_tls_connections_per_cycle: u32 = 1, "max-new-tls-connections-per-cycle", Integer(1, 1000);
    /// Where this server is, for clients that prefer near ones: shown in HELLO and INFO.
    availability_zone: Vec<u8> = Vec::new(), "availability-zone", Bytes(checks::one_line);

    @ "Threads and batches"
    /// Threads that serve sockets; the main one, which runs all commands, is one of them.
    io_threads: u32 = 1, "io-threads", Integer(1, 256);
    /// All threads serve connections however little there is to do, rather than only when the main one has too much.
    io_threads_always_active: bool = false, "io-threads-always-active", YesNo, HIDDEN;
    /// How many keys of the commands at hand are fetched from memory together; 0 is off.
    prefetch_batch_max_size: u32 = 32, "prefetch-batch-max-size", Integer(0, 128);
    /// Replies are written straight into the output buffer, or refer to strings of 16 KB and more.
    min_io_threads_avoid_copy_reply: u32 = 7, "min-io-threads-avoid-copy-reply", Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    /// As above.
    min_string_size_avoid_copy_reply_bytes: u32 = 16384, "min-string-size-avoid-copy-reply",
        Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    /// As above.
    min_string_size_avoid_copy_reply_threaded_bytes: u32 = 65536, "min-string-size-avoid-copy-reply-threaded",
        Integer(0, INT_MAX), HIDDEN, NO_EFFECT;
    /// The processors that threads which serve clients may run on; use the service manager's setting or
    /// taskset.
    server_cpulist: Option<Vec<u8>> = None, "server-cpulist" | "server_cpulist", Text(checks::anything), IMMUTABLE,
        NO_EFFECT;
    /// The processors for work in the background; as above.
    bio_cpulist: Option<Vec<u8>> = None, "bio-cpulist" | "bio_cpulist", Text(checks::anything), IMMUTABLE,
        NO_EFFECT;
    /// The processors for rewrites of the append-only file; as above.
    aof_rewrite_cpulist: Option<Vec<u8>> = None, "aof-rewrite-cpulist" | "aof_rewrite_cpulist",
        Text(checks::anything), IMMUTABLE, NO_EFFECT;
    /// The processors for saves in the background; as above.
    bgsave_cpulist: Option<Vec<u8>> = None, "bgsave-cpulist" | "bgsave_cpulist", Text(checks::anything), IMMUTABLE,
        NO_EFFECT;

    @ "Limits of clients"
    /// For a class of clients (`normal`, `replica`, `pubsub`): how much unsent output closes one at once, and
    /// how much does so when it lasts for so many seconds. 0 is no limit.
    client_output_buffer_limit: OutputBufferLimits = OutputBufferLimits::DEFAULT, "client-output-buffer-limit",
        BufferLimits, MULTI;
    /// How much of a request a client may send before it is whole; more closes the connection.
    client_query_buffer_limit_bytes: u64 = 1 << 30, "client-query-buffer-limit", Memory(MB, LONG_MAX);
    /// The longest argument of a command, and the longest string that commands make.
    proto_max_bulk_len_bytes: u64 = 512 << 20, "proto-max-bulk-len", Memory(MB, LONG_MAX);
    /// What all clients' buffers may take together before those that take most are closed; 0 is no limit, a
    /// percentage is one of `maxmemory`.
    maxmemory_clients: MemoryLimit = MemoryLimit::Bytes(0), "maxmemory-clients", MemoryOrPercent;
    /// How many keys are remembered for clients that cache; beyond that some are told that theirs have changed.
    /// 0 is no limit.
    tracking_table_max_keys: u64 = 1_000_000, "tracking-table-max-keys", Integer(0, LONG_MAX);

    @ "Access"
    /// The password of the user `default`; empty is none. Users with rules are described by `user` lines or an
    /// `aclfile`.
    requirepass: Option<Vec<u8>> = None, "requirepass", Bytes(checks::anything), SENSITIVE;
    /// A file with users, one in a line, instead of `user` lines here.
    aclfile: Vec<u8> = Vec::new(), "aclfile", Text(checks::anything), IMMUTABLE;
    /// How many entries ACL LOG keeps.
    acllog_max_len: u64 = 128, "acllog-max-len", Integer(0, LONG_MAX);
    /// Whether a new user may use all channels or none.
    acl_pubsub_default: AclPubsubDefault = AclPubsubDefault::ResetChannels, "acl-pubsub-default", Choice;

    @ "Memory, expiry and eviction"
    /// How much memory data and clients may take before keys are evicted or writes refused; 0 is no limit.
    maxmemory_bytes: u64 = 0, "maxmemory", Memory(0, ULONG_MAX);
    /// What goes when memory is full: any key (`allkeys-`) or one with a time to live (`volatile-`), the least
    /// recently or frequently used, at random, the one that expires next; or nothing, and writes are refused.
    maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::NoEviction, "maxmemory-policy", Choice;
    /// How many keys are compared to find one to evict: more are more exact and slower.
    maxmemory_samples: u32 = 5, "maxmemory-samples", Integer(1, 64);
    /// How long eviction may take at a time; 100 is until memory is within its limit.
    maxmemory_eviction_tenacity: u32 = 10, "maxmemory-eviction-tenacity", Integer(0, 100);
    /// How many uses the counter of frequency tells apart: the higher, the more.
    lfu_log_factor: u32 = 10, "lfu-log-factor", Integer(0, INT_MAX);
    /// Time without use after which the counter of frequency falls by one; 0 never.
    lfu_decay_time_minutes: u32 = 1, "lfu-decay-time", Integer(0, INT_MAX);
    /// How much processor time goes into finding expired keys that nobody asks for.
    active_expire_effort: u32 = 1, "active-expire-effort", Integer(1, 10);
    /// Expires and evicts nothing, while data is copied here from another server.
    import_mode: bool = false, "import-mode", YesNo;
    /// Frees evicted values on a thread of their own.
    lazyfree_lazy_eviction: bool = true, "lazyfree-lazy-eviction", YesNo;
    /// Frees expired values on a thread of their own.
    lazyfree_lazy_expire: bool = true, "lazyfree-lazy-expire", YesNo;
    /// Frees values that commands replace (RENAME, SET, ...) on a thread of their own.
    lazyfree_lazy_server_del: bool = true, "lazyfree-lazy-server-del", YesNo;
    /// DEL frees as UNLINK does, on a thread of its own.
    lazyfree_lazy_user_del: bool = true, "lazyfree-lazy-user-del", YesNo;
    /// FLUSHALL and FLUSHDB without SYNC or ASYNC free on a thread of their own.
    lazyfree_lazy_user_flush: bool = true, "lazyfree-lazy-user-flush", YesNo;
    /// Tables always grow in small steps.
    activerehashing: bool = true, "activerehashing", YesNo, NO_EFFECT;
    /// Makes the order of SCAN the same from start to start; empty is another one each time, which clients
    /// cannot guess.
    hash_seed: Option<Vec<u8>> = None, "hash-seed", Bytes(checks::hash_seed), IMMUTABLE;
    /// Active defragmentation does not exist yet; CONFIG SET to `yes` is refused.
    activedefrag: bool = false, "activedefrag", YesNo, NO_EFFECT;
    /// As above: waste below which nothing is done.
    active_defrag_ignore_bytes: u64 = 100 << 20, "active-defrag-ignore-bytes", Memory(1, LONG_MAX), NO_EFFECT;
    /// As above: percentage of waste from which on it runs.
    active_defrag_threshold_lower: u32 = 10, "active-defrag-threshold-lower", Integer(0, 1000), NO_EFFECT;
    /// As above: percentage of waste at which it runs with all effort.
    active_defrag_threshold_upper: u32 = 100, "active-defrag-threshold-upper", Integer(0, 1000), NO_EFFECT;
    /// As above: percentage of processor time at the lower threshold.
    active_defrag_cycle_min: u32 = 1, "active-defrag-cycle-min", Integer(1, 99), NO_EFFECT;
    /// As above: percentage of processor time at the upper threshold.
    active_defrag_cycle_max: u32 = 25, "active-defrag-cycle-max", Integer(1, 99), NO_EFFECT;
    /// As above: how long one step may take.
    active_defrag_cycle_us: u32 = 500, "active-defrag-cycle-us", Integer(0, 100_000), NO_EFFECT;
    /// As above: elements of a collection in one step.
    active_defrag_max_scan_fields: u64 = 1000, "active-defrag-max-scan-fields", Integer(1, LONG_MAX),
        NO_EFFECT;
    /// Threads of the allocator give free memory back to the system.
    jemalloc_bg_thread: bool = true, "jemalloc-bg-thread", YesNo;
    /// Asks the system for no huge pages, which make a fork's copies expensive.
    disable_thp: bool = true, "disable-thp", YesNo, IMMUTABLE;
    /// Which process the system kills first when memory is short: the server does not change that; use the
    /// service manager's setting.
    oom_score_adj: OomScoreAdj = OomScoreAdj::No, "oom-score-adj", Choice, NO_EFFECT;
    /// As above: for a primary, a replica, a child.
    oom_score_adj_values: OomScoreAdjValues = OomScoreAdjValues::DEFAULT, "oom-score-adj-values", OomScores, MULTI,
        NO_EFFECT;

    @ "Encodings"
    /// Fields up to which a hash is compact.
    hash_max_listpack_entries: usize = 512, "hash-max-listpack-entries" | "hash-max-ziplist-entries",
        Integer(0, LONG_MAX), BY_KEY;
    /// Length of fields and values up to which a hash is compact.
    hash_max_listpack_value_bytes: usize = 64, "hash-max-listpack-value" | "hash-max-ziplist-value",
        Memory(0, LONG_MAX), BY_KEY;
    /// The size of a list's nodes. Positive: so many elements. -1 to -5: 4, 8, 16, 32 or 64 KB.
    list_max_listpack_size: i32 = -2, "list-max-listpack-size" | "list-max-ziplist-size",
        Integer(INT_MIN, INT_MAX), BY_KEY;
    /// Nodes at each end of a list that stay uncompressed; 0 compresses none.
    list_compress_depth: u32 = 0, "list-compress-depth", Integer(0, INT_MAX), BY_KEY;
    /// Integers up to which a set of them is one sorted array.
    set_max_intset_entries: usize = 512, "set-max-intset-entries", Integer(0, LONG_MAX), BY_KEY;
    /// Members up to which a set is compact.
    set_max_listpack_entries: usize = 128, "set-max-listpack-entries", Integer(0, LONG_MAX), BY_KEY;
    /// Length of members up to which a set is compact.
    set_max_listpack_value_bytes: usize = 64, "set-max-listpack-value", Integer(0, LONG_MAX), BY_KEY;
    /// Members up to which a sorted set is compact.
    zset_max_listpack_entries: usize = 128, "zset-max-listpack-entries" | "zset-max-ziplist-entries",
        Integer(0, LONG_MAX), BY_KEY;
    /// Length of members up to which a sorted set is compact.
    zset_max_listpack_value_bytes: usize = 64, "zset-max-listpack-value" | "zset-max-ziplist-value",
        Memory(0, LONG_MAX), BY_KEY;
    /// The structure of sorted sets past the compact limits, of those made from then on.
    zset_index: ZsetIndex = ZsetIndex::Fbtree, "zset-index", Choice, BY_KEY;
    /// Size up to which a HyperLogLog is sparse.
    hll_sparse_max_bytes: usize = 3000, "hll-sparse-max-bytes", Memory(0, LONG_MAX);
    /// Size of a stream's node; 0 is no limit.
    stream_node_max_bytes: usize = 4096, "stream-node-max-bytes", Memory(0, LONG_MAX), BY_KEY;
    /// Entries in a stream's node; 0 is no limit.
    stream_node_max_entries: u64 = 100, "stream-node-max-entries", Integer(0, LONG_MAX), BY_KEY;
    /// Seconds for which a stream made from then on remembers messages that are to be added once (`XADD` with `IDMP`).
    stream_idmp_duration_s: u32 = 100, "stream-idmp-duration", Integer(1, 86_400);
    /// Such messages of each producer that a stream made from then on remembers.
    stream_idmp_maxsize: u32 = 100, "stream-idmp-maxsize", Integer(1, 10_000);
    /// What holds for the keys that a glob matches instead of the options above: the glob, then pairs of setting and
    /// value (POLICY HELP lists them). Of several rules, each in a line of its own, the first whose glob matches holds;
    /// `POLICY` changes them one by one, `""` is none.
    key_policy: Vec<KeyPolicy> = Vec::new(), "key-policy", KeyPolicies, MULTI, QUOTED;

    @ "Snapshots"
    /// When to save in the background: pairs of seconds and changes; a save begins when so many seconds have
    /// passed since the last one and so many changes were made. `""` never saves.
    save: Vec<SavePoint> = default_save_points(), "save", SavePoints, MULTI;
    /// The name of the RDB file in `dir`.
    dbfilename: Vec<u8> = b"dump.rdb".into(), "dbfilename", Text(checks::dbfilename), PROTECTED;
    /// Compresses long strings in RDB files.
    rdbcompression: bool = true, "rdbcompression", YesNo;
    /// Writes a checksum at the end of RDB files, and checks it.
    rdbchecksum: bool = true, "rdbchecksum", YesNo, IMMUTABLE;
    /// Whether RDB files of versions that are not known are refused or tried.
    rdb_version_check: RdbVersionCheck = RdbVersionCheck::Strict, "rdb-version-check", Choice;
    /// Removes the RDB files of replication when nothing else asks for files.
    rdb_del_sync_files: bool = false, "rdb-del-sync-files", YesNo;
    /// Saves write to disk piece by piece, not all at the end.
    rdb_save_incremental_fsync: bool = true, "rdb-save-incremental-fsync", YesNo;
    /// Refuses writes after a save in the background has failed, if there are save points.
    stop_writes_on_bgsave_error: bool = true, "stop-writes-on-bgsave-error", YesNo;
    /// A pause behind each key that is saved; negative: so many keys in a microsecond. Made for tests.
    rdb_key_save_delay_us: i32 = 0, "rdb-key-save-delay", Integer(INT_MIN, INT_MAX), HIDDEN;
    /// A pause behind each key that is loaded; negative: so many keys in a microsecond. Made for tests.
    key_load_delay_us: i32 = 0, "key-load-delay", Integer(INT_MIN, INT_MAX), HIDDEN;
    /// How often clients are answered while data is loaded, which here depends on time alone.
    loading_process_events_interval_bytes: u64 = 2 << 20, "loading-process-events-interval-bytes",
        Integer(KB, INT_MAX), HIDDEN, NO_EFFECT;

    @ "Append-only file"
    /// Keeps an append-only file: what was done is on disk within a second, or as `appendfsync` says.
    appendonly: bool = false, "appendonly", YesNo, DENIED_WHILE_LOADING;
    /// The beginning of the names of the append-only files.
    appendfilename: Vec<u8> = b"appendonly.aof".into(), "appendfilename", Text(checks::appendfilename), IMMUTABLE;
    /// The directory of the append-only files, in `dir`.
    appenddirname: Vec<u8> = b"appendonlydir".into(), "appenddirname", Text(checks::appenddirname), IMMUTABLE;
    /// When the append-only file is forced to disk: before each reply, once a second, or when the system wants
    /// to.
    appendfsync: AppendFsync = AppendFsync::EverySecond, "appendfsync", Choice;
    /// Forces nothing to disk while a child saves or rewrites.
    no_appendfsync_on_rewrite: bool = false, "no-appendfsync-on-rewrite", YesNo;
    /// Rewrites the append-only file when it has grown by so many percent since the last rewrite; 0 never.
    auto_aof_rewrite_percentage: u32 = 100, "auto-aof-rewrite-percentage", Integer(0, INT_MAX);
    /// Size below which the append-only file is not rewritten by itself.
    auto_aof_rewrite_min_size_bytes: u64 = 64 << 20, "auto-aof-rewrite-min-size", Memory(0, LONG_MAX);
    /// Starts with an append-only file whose end is missing, and cuts off what is not whole; `no` refuses.
    aof_load_truncated: bool = true, "aof-load-truncated", YesNo;
    /// Writes the base of the append-only file as an RDB file, which is smaller and loads faster.
    aof_use_rdb_preamble: bool = true, "aof-use-rdb-preamble", YesNo;
    /// Notes times in the append-only file, so that it can be cut off at one of them.
    aof_timestamp_enabled: bool = false, "aof-timestamp-enabled", YesNo;
    /// Rewrites write to disk piece by piece, not all at the end.
    aof_rewrite_incremental_fsync: bool = true, "aof-rewrite-incremental-fsync", YesNo;
    /// Leaves append-only files that are no longer needed. Made for tests.
    aof_disable_auto_gc: bool = false, "aof-disable-auto-gc", YesNo, HIDDEN;

    @ "Scripts"
    /// How long a script may run before other clients are answered, with BUSY.
    busy_reply_threshold_ms: u64 = 5000, "busy-reply-threshold" | "lua-time-limit", Integer(0, LONG_MAX);
    /// Gives scripts functions that have been withdrawn because they are not safe.
    lua_enable_insecure_api: bool = false, "lua-enable-insecure-api" | "lua-enable-deprecated-api", YesNo,
        HIDDEN, PROTECTED;

    @ "Observation"
    /// Logs commands (SLOWLOG) that take longer; 0 logs all, -1 none.
    commandlog_execution_slower_than_us: i64 = 10_000, "commandlog-execution-slower-than" | "slowlog-log-slower-than",
        Integer(-1, LONG_MAX);
    /// How many of the slow commands are kept.
    commandlog_slow_execution_max_len: u64 = 128, "commandlog-slow-execution-max-len" | "slowlog-max-len",
        Integer(0, LONG_MAX);
    /// Logs commands (COMMANDLOG) whose arguments are larger; -1 none.
    commandlog_request_larger_than_bytes: i64 = 1 << 20, "commandlog-request-larger-than", Integer(-1, LONG_MAX);
    /// How many of the large requests are kept.
    commandlog_large_request_max_len: u64 = 128, "commandlog-large-request-max-len", Integer(0, LONG_MAX);
    /// Logs commands (COMMANDLOG) whose reply is larger; -1 none.
    commandlog_reply_larger_than_bytes: i64 = 1 << 20, "commandlog-reply-larger-than", Integer(-1, LONG_MAX);
    /// How many of the large replies are kept.
    commandlog_large_reply_max_len: u64 = 128, "commandlog-large-reply-max-len", Integer(0, LONG_MAX);
    /// Keeps events (LATENCY) that take so long; 0 is off.
    latency_monitor_threshold_ms: u64 = 0, "latency-monitor-threshold", Integer(0, LONG_MAX);
    /// How many traces of requests are kept (LATENCY TRACE).
    latency_trace_max_len: u64 = 1024, "latency-trace-max-len", Integer(0, 1 << 20);
    /// Keeps a histogram of each command's time (LATENCY HISTOGRAM, INFO latencystats).
    latency_tracking: bool = true, "latency-tracking", YesNo;
    /// The percentiles of these times in INFO; `""` is none.
    latency_tracking_info_percentiles: Vec<f64> = vec![50.0, 99.0, 99.9], "latency-tracking-info-percentiles",
        Percentiles, MULTI;
    /// Keeps which keys are used most (HOTKEYS TOP): of one command in 64 at most.
    hot_keys: bool = true, "hot-keys", YesNo;
    /// Prefixes by which keys and their memory are counted (MEMORY PREFIXES), like `user:* session:*`; the longest that a
    /// key has counts. `learn` takes those that keys have, up to the first of `:`, `/`, `|`, `.` and `#`. Empty counts nothing.
    memory_prefixes: PrefixRule = PrefixRule::Off, "memory-prefixes", Prefixes, MULTI;
    /// Which changes of keys are published, in letters: `K` and `E` choose the channels, `g$lshzxetdmn` the
    /// events, `A` all of them but `m` and `n`.
    notify_keyspace_events: EventClasses = EventClasses::NONE, "notify-keyspace-events", EventLetters;

    @ "Replication"
    /// The primary to replicate, as host and port; `no one` is none.
    replicaof: Option<ReplicaOf> = None, "replicaof" | "slaveof", Primary, IMMUTABLE, MULTI;
    /// The password to log in with at the primary.
    primaryauth: Option<Vec<u8>> = None, "primaryauth" | "masterauth", Bytes(checks::anything), SENSITIVE;
    /// The user to log in as at the primary.
    primaryuser: Option<Vec<u8>> = None, "primaryuser" | "masteruser", Text(checks::anything), SENSITIVE;
    /// Answers clients while the link to the primary is down, or the first sync is under way.
    replica_serve_stale_data: bool = true, "replica-serve-stale-data" | "slave-serve-stale-data", YesNo;
    /// Refuses writes of clients while this is a replica.
    replica_read_only: bool = true, "replica-read-only" | "slave-read-only", YesNo;
    /// The order in which Sentinel promotes replicas, the lowest first; 0 is never.
    replica_priority: u32 = 100, "replica-priority" | "slave-priority", Integer(0, INT_MAX);
    /// Whether Sentinel tells clients of this replica.
    replica_announced: bool = true, "replica-announced", YesNo;
    /// The address that this replica tells its primary.
    replica_announce_ip: Option<Vec<u8>> = None, "replica-announce-ip" | "slave-announce-ip", Text(checks::host);
    /// The port that this replica tells its primary; 0 is its own.
    replica_announce_port: u16 = 0, "replica-announce-port" | "slave-announce-port", Integer(0, 65535);
    /// Frees what a full sync replaces on a thread of its own.
    replica_lazy_flush: bool = true, "replica-lazy-flush" | "slave-lazy-flush", YesNo;
    /// A replica evicts nothing: its primary does.
    replica_ignore_maxmemory: bool = true, "replica-ignore-maxmemory" | "slave-ignore-maxmemory", YesNo;
    /// A replica goes on when its files cannot be written; `no` ends the process.
    replica_ignore_disk_write_errors: bool = false, "replica-ignore-disk-write-errors", YesNo;
    /// What a command of the primary's stream that fails does: nothing, or ends the process.
    propagation_error_behavior: PropagationError = PropagationError::Ignore, "propagation-error-behavior", Choice;
    /// Refuses writes while fewer replicas follow; 0 is off.
    min_replicas_to_write: u32 = 0, "min-replicas-to-write" | "min-slaves-to-write", Integer(0, INT_MAX);
    /// How old a replica's last acknowledgement may be for it to count.
    min_replicas_max_lag_seconds: u32 = 10, "min-replicas-max-lag" | "min-slaves-max-lag", Integer(0, INT_MAX);
    /// Sends snapshots to replicas straight from the child, without a file.
    repl_diskless_sync: bool = true, "repl-diskless-sync", YesNo;
    /// How long such a sync waits for more replicas to come.
    repl_diskless_sync_delay_seconds: u32 = 5, "repl-diskless-sync-delay", Integer(0, INT_MAX);
    /// How many replicas end that wait; 0 waits for all of its time.
    repl_diskless_sync_max_replicas: u32 = 0, "repl-diskless-sync-max-replicas", Integer(0, INT_MAX);
    /// Whether a replica loads a snapshot by way of a file (`disabled`) or as it comes: if it has no data,
    /// beside the old data, or in its place.
    repl_diskless_load: ReplDisklessLoad = ReplDisklessLoad::Disabled, "repl-diskless-load", Choice,
        DENIED_WHILE_LOADING;
    /// Full syncs over two connections, where both sides have this: the snapshot and the changes come side by
    /// side.
    dual_channel_replication_enabled: bool = false, "dual-channel-replication-enabled", YesNo;
    /// How often a primary gives its replicas a sign of life.
    repl_ping_replica_period_seconds: u32 = 10, "repl-ping-replica-period" | "repl-ping-slave-period",
        Integer(1, INT_MAX);
    /// Silence after which a link of replication is given up.
    repl_timeout_seconds: u32 = 60, "repl-timeout", Integer(1, INT_MAX);
    /// The link to a replica gathers small writes: fewer packets, later.
    repl_disable_tcp_nodelay: bool = false, "repl-disable-tcp-nodelay", YesNo;
    /// Links to primaries with multipath TCP, which this server does not make.
    repl_mptcp: bool = false, "repl-mptcp", YesNo, IMMUTABLE, NO_EFFECT;
    /// How much of the stream is kept for replicas that come back. Less than 16kb is 16kb.
    repl_backlog_size_bytes: u64 = 10 << 20, "repl-backlog-size", BacklogSize;
    /// How long it is kept after the last replica has gone; 0 is for ever.
    repl_backlog_ttl_seconds: u64 = 3600, "repl-backlog-ttl", Integer(0, LONG_MAX);

    @ "Cluster"
    /// There is no cluster yet: `yes` stops the start.
    cluster_enabled: bool = false, "cluster-enabled", Only(YesNo, "This server has no cluster"), IMMUTABLE;
    /// As above: where a node keeps what it knows.
    cluster_config_file: Vec<u8> = b"nodes.conf".into(), "cluster-config-file",
        Text(checks::cluster_config_file), IMMUTABLE, NO_EFFECT;
    /// As above: whether that file has to be on disk.
    cluster_config_save_behavior: ClusterConfigSave = ClusterConfigSave::Sync, "cluster-config-save-behavior", Choice,
        NO_EFFECT;
    /// As above: databases of a node.
    cluster_databases: u32 = 1, "cluster-databases", Integer(1, INT_MAX), IMMUTABLE, NO_EFFECT;
    /// As above: silence after which a node counts as gone.
    cluster_node_timeout_ms: u64 = 15_000, "cluster-node-timeout", Integer(0, LONG_MAX), NO_EFFECT;
    /// As above: made for tests.
    cluster_ping_interval_ms: u64 = 0, "cluster-ping-interval", Integer(0, LONG_MAX), HIDDEN, NO_EFFECT;
    /// As above: made for tests.
    cluster_message_gossip_perc: u32 = 10, "cluster-message-gossip-perc", Integer(1, 100), HIDDEN, NO_EFFECT;
    /// As above: the port for other nodes.
    cluster_port: u16 = 0, "cluster-port", Integer(0, 65535), IMMUTABLE, NO_EFFECT;
    /// As above: how old a replica's data may be to take over.
    cluster_replica_validity_factor: u32 = 10, "cluster-replica-validity-factor" | "cluster-slave-validity-factor",
        Integer(0, INT_MAX), NO_EFFECT;
    /// As above: replicas that never take over.
    cluster_replica_no_failover: bool = false, "cluster-replica-no-failover" | "cluster-slave-no-failover", YesNo,
        NO_EFFECT;
    /// As above: replicas that stay with a primary.
    cluster_migration_barrier: u32 = 1, "cluster-migration-barrier", Integer(0, INT_MAX), NO_EFFECT;
    /// As above: replicas that move to primaries without one.
    cluster_allow_replica_migration: bool = true, "cluster-allow-replica-migration", YesNo, NO_EFFECT;
    /// As above: refuses everything while slots have no node.
    cluster_require_full_coverage: bool = true, "cluster-require-full-coverage", YesNo, NO_EFFECT;
    /// As above: how long a manual failover may take.
    cluster_manual_failover_timeout_ms: u32 = 5000, "cluster-manual-failover-timeout", Integer(1, INT_MAX),
        NO_EFFECT;
    /// As above: reads while the cluster is down.
    cluster_allow_reads_when_down: bool = false, "cluster-allow-reads-when-down", YesNo, NO_EFFECT;
    /// As above: messages while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool = true, "cluster-allow-pubsubshard-when-down", YesNo, NO_EFFECT;
    /// As above: what may wait for one node.
    cluster_link_sendbuf_limit_bytes: u64 = 0, "cluster-link-sendbuf-limit", Memory(0, ULONG_MAX), NO_EFFECT;
    /// As above: how long a forgotten node stays forgotten.
    cluster_blacklist_ttl_seconds: u64 = 60, "cluster-blacklist-ttl", Integer(0, ULONG_MAX), NO_EFFECT;
    /// As above: what clients are told of nodes.
    cluster_preferred_endpoint_type: ClusterEndpointType = ClusterEndpointType::Ip, "cluster-preferred-endpoint-type",
        Choice, NO_EFFECT;
    /// As above: figures for each slot.
    cluster_slot_stats_enabled: bool = false, "cluster-slot-stats-enabled", YesNo, NO_EFFECT;
    /// As above: migrations that are remembered.
    cluster_slot_migration_log_max_len: u64 = 1000, "cluster-slot-migration-log-max-len", Integer(0, LONG_MAX),
        NO_EFFECT;
    /// As above: what may be missing for a slot to move.
    slot_migration_max_failover_repl_bytes: i64 = 0, "slot-migration-max-failover-repl-bytes",
        SignedMemory(-1, LONG_MAX), NO_EFFECT;
    /// As above: the address that others are told.
    cluster_announce_ip: Option<Vec<u8>> = None, "cluster-announce-ip", Text(checks::cluster_announce_ip),
        NO_EFFECT;
    /// As above: the IPv4 address for clients.
    cluster_announce_client_ipv4: Option<Vec<u8>> = None, "cluster-announce-client-ipv4", Text(checks::ipv4),
        NO_EFFECT;
    /// As above: the IPv6 address for clients.
    cluster_announce_client_ipv6: Option<Vec<u8>> = None, "cluster-announce-client-ipv6", Text(checks::ipv6),
        NO_EFFECT;
    /// As above: the host name for clients.
    cluster_announce_hostname: Option<Vec<u8>> = None, "cluster-announce-hostname", Text(checks::hostname),
        NO_EFFECT;
    /// As above: the name in logs.
    cluster_announce_human_nodename: Option<Vec<u8>> = None, "cluster-announce-human-nodename",
        Text(checks::human_nodename), NO_EFFECT;
    /// As above: the port that others are told.
    cluster_announce_port: u16 = 0, "cluster-announce-port", Integer(0, 65535), NO_EFFECT;
    /// As above: the TLS port that others are told.
    cluster_announce_tls_port: u16 = 0, "cluster-announce-tls-port", Integer(0, 65535), NO_EFFECT;
    /// As above: the bus port that others are told.
    cluster_announce_bus_port: u16 = 0, "cluster-announce-bus-port", Integer(0, 65535), NO_EFFECT;
    /// As above: the port for clients.
    cluster_announce_client_port: u16 = 0, "cluster-announce-client-port", Integer(0, 65535), NO_EFFECT;
    /// As above: the TLS port for clients.
    cluster_announce_client_tls_port: u16 = 0, "cluster-announce-client-tls-port", Integer(0, 65535),
        NO_EFFECT;

    @ "HTTP"
    /// The port at which a console (`/`), metrics (`/metrics`), health (`/health`) and readiness (`/ready`) are answered over
    /// HTTP; 0 is none.
    http_port: u16 = 0, "http-port", Integer(0, 65535);
    /// Speaks TLS there and nothing else, by the `tls-*` options of the TLS port, which need not be open.
    http_tls: bool = false, "http-tls", YesNo;
    /// The addresses to answer HTTP at, written as those of `bind`. Without `http-tls` nothing is encrypted.
    http_bind: Vec<String> = vec!["127.0.0.1".into(), "-::1".into()], "http-bind", Addresses, MULTI;
    /// Names of this machine that an HTTP request may ask for; addresses and `localhost` it always may.
    http_hosts: Vec<String> = Vec::new(), "http-hosts", Addresses, MULTI;
    /// Whether commands that change something run over HTTP too, for users who may run them; otherwise only those that
    /// read.
    http_commands: bool = false, "http-commands", YesNo;

    @ "TLS"
    /// The port for clients with TLS; 0 is none.
    tls_port: u16 = 0, "tls-port", Integer(0, 65535);
    /// MIGRATE speaks TLS.
    tls_cluster: bool = false, "tls-cluster", YesNo;
    /// The link to the primary speaks TLS.
    tls_replication: bool = false, "tls-replication", YesNo;
    /// Whether clients have to show a certificate.
    tls_auth_clients: TlsAuthClients = TlsAuthClients::Yes, "tls-auth-clients", Choice;
    /// Which field of a client's certificate names its user.
    tls_auth_clients_user: TlsAuthClientsUser = TlsAuthClientsUser::Off, "tls-auth-clients-user", Choice;
    /// The server's certificate, in PEM; a chain may follow.
    tls_cert_file: Option<Vec<u8>> = None, "tls-cert-file", Text(checks::anything), VOLATILE;
    /// The key of the server's certificate, in PEM.
    tls_key_file: Option<Vec<u8>> = None, "tls-key-file", Text(checks::anything), VOLATILE;
    /// The password of that key.
    tls_key_file_pass: Option<Vec<u8>> = None, "tls-key-file-pass", Text(checks::anything), SENSITIVE;
    /// The certificate for connections that the server makes; empty is that of `tls-cert-file`.
    tls_client_cert_file: Option<Vec<u8>> = None, "tls-client-cert-file", Text(checks::anything), VOLATILE;
    /// The key of that certificate.
    tls_client_key_file: Option<Vec<u8>> = None, "tls-client-key-file", Text(checks::anything), VOLATILE;
    /// The password of that key.
    tls_client_key_file_pass: Option<Vec<u8>> = None, "tls-client-key-file-pass", Text(checks::anything), SENSITIVE;
    /// Parameters of a key exchange that is not offered; a line in the log says so.
    tls_dh_params_file: Option<Vec<u8>> = None, "tls-dh-params-file", Text(checks::anything), VOLATILE,
        NO_EFFECT;
    /// Certificates of the authorities that are believed.
    tls_ca_cert_file: Option<Vec<u8>> = None, "tls-ca-cert-file", Text(checks::anything), VOLATILE;
    /// A directory with files of such certificates.
    tls_ca_cert_dir: Option<Vec<u8>> = None, "tls-ca-cert-dir", Text(checks::anything), VOLATILE;
    /// Versions of TLS that are spoken, `TLSv1.2` and `TLSv1.3`; empty is both.
    tls_protocols: Option<Vec<u8>> = None, "tls-protocols", Text(checks::anything);
    /// Cipher suites of TLS 1.2, in OpenSSL's words; empty is all there are.
    tls_ciphers: Option<Vec<u8>> = None, "tls-ciphers", Text(checks::anything);
    /// Cipher suites of TLS 1.3; empty is all there are.
    tls_ciphersuites: Option<Vec<u8>> = None, "tls-ciphersuites", Text(checks::anything);
    /// The server's order of suites counts, not the client's.
    tls_prefer_server_ciphers: bool = false, "tls-prefer-server-ciphers", YesNo;
    /// Lets clients resume sessions.
    tls_session_caching: bool = true, "tls-session-caching", YesNo;
    /// Sessions that are remembered by id; 0 is none.
    tls_session_cache_size: u32 = 20 * 1024, "tls-session-cache-size", Integer(0, INT_MAX);
    /// How long a session can be resumed.
    tls_session_cache_timeout_seconds: u32 = 300, "tls-session-cache-timeout", Integer(0, INT_MAX);
    /// How often the files of certificates are looked at; 0 is only when an option changes.
    tls_auto_reload_interval_seconds: u32 = 0, "tls-auto-reload-interval", Integer(0, INT_MAX);

    @ "RDMA"
    /// There is no RDMA transport.
    rdma_bind: Vec<String> = Vec::new(), "rdma-bind", Addresses, MULTI, NO_EFFECT;
    /// As above: a port for it stops the start.
    rdma_port: u16 = 0, "rdma-port", Only(Integer(0, 65535), "This server has no RDMA transport");
    /// As above.
    rdma_rx_size_bytes: u32 = 1 << 20, "rdma-rx-size", Integer(64 * KB, 16 * MB), IMMUTABLE, NO_EFFECT;
    /// As above.
    rdma_completion_vector: i32 = -1, "rdma-completion-vector", Integer(-1, 1024), IMMUTABLE, NO_EFFECT;
}
