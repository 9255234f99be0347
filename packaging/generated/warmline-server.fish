complete -c warmline-server -l check-rdb -d 'Only check whether this RDB file is sound, as warmline-check-rdb does' -r -F
complete -c warmline-server -l check-aof -d 'Only check whether this append-only file is sound, as warmline-check-aof does' -r -F
complete -c warmline-server -l daemonize -d 'Runs the server in the background. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l supervised -d 'The service manager of the process: systemd is notified of startup, readiness and stopping over its socket (Type=notify), upstart by a signal, auto detects which of the two is in use. Takes upstart, systemd, auto, no; default no' -r -f -a "upstart\t''
systemd\t''
auto\t''
no\t''"
complete -c warmline-server -l pidfile -d 'The file that holds the process ID; removed at shutdown. A server in the background writes /var/run/warmline.pid unless this names another file. Takes text; default ""' -r -F
complete -c warmline-server -l loglevel -d 'The lowest level of messages that are logged. Takes debug, verbose, notice, warning, nothing; default notice' -r -f -a "debug\t''
verbose\t''
notice\t''
warning\t''
nothing\t''"
complete -c warmline-server -l log-format -d 'The format of log lines: the traditional text, key=value pairs, or JSON. Takes legacy, logfmt, json; default legacy' -r -f -a "legacy\t''
logfmt\t''
json\t''"
complete -c warmline-server -l log-timestamp-format -d 'The format of timestamps in the log. Takes legacy, iso8601, milliseconds; default legacy' -r -f -a "legacy\t''
iso8601\t''
milliseconds\t''"
complete -c warmline-server -l logfile -d 'The log file; empty is standard output. Takes text; default ""' -r -F
complete -c warmline-server -l crash-log-enabled -d 'Logs a crash with a stack trace. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l hide-user-data-from-log -d 'Keeps keys and clients\' data out of the log. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l set-proc-title -d 'Shows address and mode in the process title. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l proc-title-template -d 'The template of the process title: text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, {unixsocket} and {config-file}. Takes text; default "{title} {listen-addr} {server-mode}"' -r
complete -c warmline-server -l extended-redis-compatibility -d 'Reports the name Redis and the compatible Redis version to clients (HELLO, INFO) and in errors. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l enable-protected-configs -d 'Which clients can change protected options with CONFIG SET, such as the paths of files (dir, dbfilename): none, all, or clients of this machine. Takes no, yes, local; default no' -r -f -a "no\t''
yes\t''
local\t''"
complete -c warmline-server -l enable-debug-command -d 'Which clients can use DEBUG: none, all, or clients of this machine. Takes no, yes, local; default no' -r -f -a "no\t''
yes\t''
local\t''"
complete -c warmline-server -l enable-module-command -d 'Which clients can use MODULE: none, all, or clients of this machine. Takes no, yes, local; default no' -r -f -a "no\t''
yes\t''
local\t''"
complete -c warmline-server -l dir -d 'The working directory: it contains the RDB file and the directory of the append-only file, and relative paths start there. Takes a directory that exists; default .' -r -f -a "(__fish_complete_directories)"
complete -c warmline-server -l databases -d 'The number of databases, numbered from 0. Takes 1 to 65536; default 16' -r
complete -c warmline-server -l hz -d 'How often per second the periodic work runs. Values out of range are clamped. Takes 1 to 500; default 10' -r
complete -c warmline-server -l shutdown-timeout -d 'How long a shutdown waits for replicas that lag behind; 0 does not wait. Takes 0 or more seconds; default 10' -r
complete -c warmline-server -l shutdown-on-sigint -d 'How SIGINT shuts the server down, in the options of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default' -r
complete -c warmline-server -l shutdown-on-sigterm -d 'How SIGTERM shuts the server down, in the options of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default' -r
complete -c warmline-server -l bind -d 'The addresses to listen on, up to 16. * is all IPv4 addresses, ::* all IPv6 addresses; an address with - in front is skipped if it is not available. Takes addresses; default * -::*' -r
complete -c warmline-server -l bind-source-addr -d 'The source address of connections to a primary. Takes text; default ""' -r
complete -c warmline-server -l port -d 'The TCP port for clients; 0 is none. Takes 0 to 65535; default 6379' -r
complete -c warmline-server -l protected-mode -d 'Refuses clients from other machines while the user default has no password. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l unixsocket -d 'The path of a Unix socket to listen on; empty is none. Takes text; default ""' -r
complete -c warmline-server -l unixsocketgroup -d 'The group of the Unix socket, by name or number. Takes text; default ""' -r
complete -c warmline-server -l unixsocketperm -d 'The permissions of the Unix socket; 0 applies the process\'s umask to 770. Takes 0 to 777, octal; default 0' -r
complete -c warmline-server -l tcp-backlog -d 'The maximum number of connections that wait to be accepted; the system can lower it. Takes 0 or more; default 511' -r
complete -c warmline-server -l tcp-keepalive -d 'The idle time after which the system sends TCP keepalive probes; 0 sends none. Takes 0 or more seconds; default 300' -r
complete -c warmline-server -l tcp-nodelay -d 'Sends replies immediately; no enables Nagle\'s algorithm on client connections: fewer packets, later replies. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l timeout -d 'The idle time after which a client is closed; 0 closes none. Takes 0 or more seconds; default 0' -r
complete -c warmline-server -l maxclients -d 'The maximum number of connected clients; more are refused. Takes 1 or more; default 10000' -r
complete -c warmline-server -l max-new-connections-per-cycle -d 'The maximum number of connections that one iteration of the event loop accepts. Takes 1 to 1000; default 10' -r
complete -c warmline-server -l max-new-tls-connections-per-cycle -d 'The maximum number of TLS connections that one iteration of the event loop accepts. Takes 1 to 1000; default 1' -r
complete -c warmline-server -l availability-zone -d 'The availability zone of this server, for clients that prefer near servers: shown in HELLO and INFO. Takes text; default ""' -r
complete -c warmline-server -l io-threads -d 'The number of threads that serve sockets, including the main thread, which runs all commands. Takes 1 to 256; default 1' -r
complete -c warmline-server -l prefetch-batch-max-size -d 'The maximum number of keys of pending commands that are prefetched from memory together; 0 is off. Takes 0 to 128; default 32' -r
complete -c warmline-server -l client-output-buffer-limit -d 'For a class of clients (normal, replica, pubsub): the unsent output that closes a client immediately, and the unsent output that closes it if it lasts for the given number of seconds. 0 is no limit. Takes groups of class, size, size, seconds; default normal 0 0 0; replica 256mb 64mb 60; pubsub 32mb 8mb 60' -r
complete -c warmline-server -l client-query-buffer-limit -d 'The maximum size of an incomplete request; more closes the connection. Takes a size, 1mb or more; default 1gb' -r
complete -c warmline-server -l proto-max-bulk-len -d 'The maximum length of a command\'s argument, and of a string that commands create. Takes a size, 1mb or more; default 512mb' -r
complete -c warmline-server -l maxmemory-clients -d 'The total size of all clients\' buffers above which the largest clients are closed; 0 is no limit, a percentage is relative to maxmemory. Takes a size or a percentage; default 0' -r
complete -c warmline-server -l tracking-table-max-keys -d 'The maximum number of keys that are tracked for client-side caching; above it, some are invalidated. 0 is no limit. Takes 0 or more; default 1000000' -r
complete -c warmline-server -l requirepass -d 'The password of the user default; empty is none. Users with rules are defined by user lines or an aclfile. Takes text; default ""' -r
complete -c warmline-server -l aclfile -d 'A file with users, one per line, instead of user lines here. Takes text; default ""' -r -F
complete -c warmline-server -l acllog-max-len -d 'The maximum number of entries in ACL LOG. Takes 0 or more; default 128' -r
complete -c warmline-server -l acl-pubsub-default -d 'Whether a new user has access to all channels or none. Takes allchannels, resetchannels; default resetchannels' -r -f -a "allchannels\t''
resetchannels\t''"
complete -c warmline-server -l maxmemory -d 'The memory for data and clients above which keys are evicted or writes refused; 0 is no limit. Takes a size; default 0' -r
complete -c warmline-server -l maxmemory-policy -d 'What is evicted above maxmemory: any key (allkeys-) or one with a time to live (volatile-), the least recently or frequently used, a random one, or the one that expires next. noeviction evicts nothing, and writes are refused. Takes volatile-lru, volatile-lfu, volatile-random, volatile-ttl, volatile-lrm, volatile-s3fifo, allkeys-lru, allkeys-lfu, allkeys-random, allkeys-lrm, allkeys-s3fifo, noeviction; default noeviction' -r -f -a "volatile-lru\t''
volatile-lfu\t''
volatile-random\t''
volatile-ttl\t''
volatile-lrm\t''
volatile-s3fifo\t''
allkeys-lru\t''
allkeys-lfu\t''
allkeys-random\t''
allkeys-lrm\t''
allkeys-s3fifo\t''
noeviction\t''"
complete -c warmline-server -l maxmemory-samples -d 'The number of keys that are compared to find one to evict: more are more exact and slower. Takes 1 to 64; default 5' -r
complete -c warmline-server -l maxmemory-eviction-tenacity -d 'The time that eviction takes at once; with 100 it runs until memory is within its limit. Takes 0 to 100; default 10' -r
complete -c warmline-server -l lfu-log-factor -d 'The range of the access frequency counter: the higher, the more accesses it distinguishes. Takes 0 or more; default 10' -r
complete -c warmline-server -l lfu-decay-time -d 'The time without access after which the frequency counter decreases by one; 0 never decreases it. Takes 0 or more minutes; default 1' -r
complete -c warmline-server -l active-expire-effort -d 'The processor time for finding expired keys that are not accessed: the higher, the more. Takes 1 to 10; default 1' -r
complete -c warmline-server -l import-mode -d 'Disables expiry and eviction while data is imported from another server. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-eviction -d 'Frees evicted values in a background thread. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-expire -d 'Frees expired values in a background thread. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-server-del -d 'Frees values that commands replace (RENAME, SET, ...) in a background thread. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-user-del -d 'DEL frees values in a background thread, as UNLINK does. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-user-flush -d 'FLUSHALL and FLUSHDB without SYNC or ASYNC free values in a background thread. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l hash-seed -d 'A seed that makes the order of SCAN the same after each start; empty is a random seed, which clients cannot guess. Takes text; default ""' -r
complete -c warmline-server -l jemalloc-bg-thread -d 'Threads of the allocator return free memory to the system. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l disable-thp -d 'Disables transparent huge pages, which make copy-on-write after a fork expensive. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l hash-max-listpack-entries -d 'The maximum number of fields of a compact hash. Takes 0 or more; default 512' -r
complete -c warmline-server -l hash-max-listpack-value -d 'The maximum length of fields and values of a compact hash. Takes a size; default 64' -r
complete -c warmline-server -l list-max-listpack-size -d 'The size of a list\'s nodes. Positive: the number of elements. -1 to -5: 4, 8, 16, 32 or 64 KB. Takes a whole number; default -2' -r
complete -c warmline-server -l list-compress-depth -d 'The number of nodes at each end of a list that stay uncompressed; 0 compresses none. Takes 0 or more; default 0' -r
complete -c warmline-server -l set-max-intset-entries -d 'The maximum number of integers of a set that is one sorted array. Takes 0 or more; default 512' -r
complete -c warmline-server -l set-max-listpack-entries -d 'The maximum number of members of a compact set. Takes 0 or more; default 128' -r
complete -c warmline-server -l set-max-listpack-value -d 'The maximum length of members of a compact set. Takes 0 or more bytes; default 64' -r
complete -c warmline-server -l zset-max-listpack-entries -d 'The maximum number of members of a compact sorted set. Takes 0 or more; default 128' -r
complete -c warmline-server -l zset-max-listpack-value -d 'The maximum length of members of a compact sorted set. Takes a size; default 64' -r
complete -c warmline-server -l zset-index -d 'The data structure of new sorted sets above the compact limits. Takes skiplist, fbtree; default fbtree' -r -f -a "skiplist\t''
fbtree\t''"
complete -c warmline-server -l hll-sparse-max-bytes -d 'The maximum size of a sparse HyperLogLog. Takes a size; default 3000' -r
complete -c warmline-server -l stream-node-max-bytes -d 'The maximum size of a stream\'s node; 0 is no limit. Takes a size; default 4kb' -r
complete -c warmline-server -l stream-node-max-entries -d 'The maximum number of entries in a stream\'s node; 0 is no limit. Takes 0 or more; default 100' -r
complete -c warmline-server -l stream-idmp-duration -d 'The seconds for which a new stream remembers messages that are added only once (XADD with IDMP). Takes 1 to 86400; default 100' -r
complete -c warmline-server -l stream-idmp-maxsize -d 'The maximum number of such messages of each producer that a new stream remembers. Takes 1 to 10000; default 100' -r
complete -c warmline-server -l key-policy -d 'Settings that replace the options above for the keys that a glob matches: the glob, then pairs of setting and value (POLICY HELP lists them). Of several rules, one per line, the first whose glob matches applies; POLICY changes single rules, "" is no rule. Takes a glob, then pairs of setting and value; `;` between rules; default ""' -r
complete -c warmline-server -l save -d 'When to save in the background: pairs of seconds and changes; a save starts when that number of seconds has passed since the last save and that number of changes was made. "" never saves. Takes pairs of seconds and changes; default 3600 1 300 100 60 10000' -r
complete -c warmline-server -l dbfilename -d 'The name of the RDB file in dir. Takes text; default "dump.rdb"' -r
complete -c warmline-server -l rdbcompression -d 'Compresses long strings in RDB files. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l rdbchecksum -d 'Writes a checksum at the end of RDB files, and checks it. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l rdb-version-check -d 'Whether RDB files of unknown versions are refused or tried. Takes strict, relaxed; default strict' -r -f -a "strict\t''
relaxed\t''"
complete -c warmline-server -l rdb-del-sync-files -d 'Removes the RDB files of replication if persistence is off. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l rdb-save-incremental-fsync -d 'Saves are synced to disk in parts, not only at the end. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l stop-writes-on-bgsave-error -d 'Refuses writes after a failed background save, if there are save points. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l appendonly -d 'Writes an append-only file: changes are on disk within a second, or as appendfsync configures. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l appendfilename -d 'The prefix of the names of the append-only files. Takes text; default "appendonly.aof"' -r
complete -c warmline-server -l appenddirname -d 'The directory of the append-only files, in dir. Takes text; default "appendonlydir"' -r
complete -c warmline-server -l appendfsync -d 'When the append-only file is synced to disk: before each reply, once a second, or by the system\'s decision. Takes everysec, always, no; default everysec' -r -f -a "everysec\t''
always\t''
no\t''"
complete -c warmline-server -l no-appendfsync-on-rewrite -d 'Does not sync the append-only file to disk while a child process saves or rewrites. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l auto-aof-rewrite-percentage -d 'The growth in percent since the last rewrite that starts a rewrite of the append-only file; 0 never starts one. Takes 0 or more percent; default 100' -r
complete -c warmline-server -l auto-aof-rewrite-min-size -d 'The minimum size of the append-only file for an automatic rewrite. Takes a size; default 64mb' -r
complete -c warmline-server -l aof-load-truncated -d 'Loads an append-only file with an incomplete end, which is cut off; no refuses to start. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l aof-use-rdb-preamble -d 'Writes the base of the append-only file as an RDB file, which is smaller and loads faster. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l aof-timestamp-enabled -d 'Writes timestamps to the append-only file, so that it can be truncated at one of them. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l aof-rewrite-incremental-fsync -d 'Rewrites are synced to disk in parts, not only at the end. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l busy-reply-threshold -d 'The run time of a script after which other clients get BUSY errors. Takes 0 or more milliseconds; default 5000' -r
complete -c warmline-server -l commandlog-execution-slower-than -d 'Logs commands that take longer (SLOWLOG); 0 logs all, -1 none. Takes -1 or more microseconds; default 10000' -r
complete -c warmline-server -l commandlog-slow-execution-max-len -d 'The maximum number of slow commands in the log. Takes 0 or more; default 128' -r
complete -c warmline-server -l commandlog-request-larger-than -d 'Logs commands with larger requests (COMMANDLOG); -1 logs none. Takes -1 or more bytes; default 1048576' -r
complete -c warmline-server -l commandlog-large-request-max-len -d 'The maximum number of large requests in the log. Takes 0 or more; default 128' -r
complete -c warmline-server -l commandlog-reply-larger-than -d 'Logs commands with larger replies (COMMANDLOG); -1 logs none. Takes -1 or more bytes; default 1048576' -r
complete -c warmline-server -l commandlog-large-reply-max-len -d 'The maximum number of large replies in the log. Takes 0 or more; default 128' -r
complete -c warmline-server -l latency-monitor-threshold -d 'Records events that take at least this long (LATENCY); 0 is off. Takes 0 or more milliseconds; default 0' -r
complete -c warmline-server -l latency-trace-max-len -d 'The maximum number of traces of requests (LATENCY TRACE). Takes 0 to 1048576; default 1024' -r
complete -c warmline-server -l latency-tracking -d 'Records a histogram of each command\'s duration (LATENCY HISTOGRAM, INFO latencystats). Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l latency-tracking-info-percentiles -d 'The percentiles of these durations in INFO; "" is none. Takes numbers from 0 to 100; default 50 99 99.9' -r
complete -c warmline-server -l hot-keys -d 'Records the most used keys (HOTKEYS TOP), from samples of at most one command in 64. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l memory-prefixes -d 'Prefixes for which keys and their memory are counted (MEMORY PREFIXES), like user:* session:*; a key counts for its longest prefix. learn takes the prefixes of keys up to the first of :, /, |, . and #. Empty counts nothing. Takes prefixes, or `learn`; default ""' -r
complete -c warmline-server -l notify-keyspace-events -d 'Which keyspace events are published, in letters: K and E select the channels, g$lshzxetdmn the events; A is all events but m and n. Takes letters; default ""' -r
complete -c warmline-server -l replicaof -d 'The primary to replicate, as host and port; no one is none. Takes host and port; default no one' -r
complete -c warmline-server -l primaryauth -d 'The password for authentication at the primary. Takes text; default ""' -r
complete -c warmline-server -l primaryuser -d 'The user name for authentication at the primary. Takes text; default ""' -r
complete -c warmline-server -l replica-serve-stale-data -d 'Serves clients while the link to the primary is down or the first sync is in progress. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-read-only -d 'Refuses clients\' writes while this server is a replica. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-priority -d 'The priority for promotion by Sentinel, the lowest first; 0 is never promoted. Takes 0 or more; default 100' -r
complete -c warmline-server -l replica-announced -d 'Whether Sentinel reports this replica to clients. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-announce-ip -d 'The address that this replica reports to its primary. Takes text; default ""' -r
complete -c warmline-server -l replica-announce-port -d 'The port that this replica reports to its primary; 0 is its own. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l replica-lazy-flush -d 'Frees the data that a full sync replaces in a background thread. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-ignore-maxmemory -d 'A replica does not evict keys: its primary does. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-ignore-disk-write-errors -d 'A replica continues after failed writes to disk; no ends the process. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l propagation-error-behavior -d 'The effect of a failed command from the primary: none, or the end of the process. Takes ignore, panic, panic-on-replicas; default ignore' -r -f -a "ignore\t''
panic\t''
panic-on-replicas\t''"
complete -c warmline-server -l min-replicas-to-write -d 'Refuses writes while fewer replicas are up to date; 0 is off. Takes 0 or more; default 0' -r
complete -c warmline-server -l min-replicas-max-lag -d 'The maximum age of the last acknowledgement of a replica that is up to date. Takes 0 or more seconds; default 10' -r
complete -c warmline-server -l min-replicas-durable -d 'Replies that show a change wait until this number of replicas has the change, and writes are refused while fewer are online; 0 is off. Takes 0 to 1000; default 0' -r
complete -c warmline-server -l min-replicas-durable-on-disk -d 'The replicas must have forced such changes to disk in their append-only files. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l min-replicas-durable-timeout -d 'How long such replies wait, in milliseconds; then they are NOREPLICAS errors. Takes 1 or more milliseconds; default 5000' -r
complete -c warmline-server -l repl-diskless-sync -d 'Sends snapshots to replicas directly from the child process, without a file. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l repl-diskless-sync-delay -d 'How long such a sync waits for further replicas. Takes 0 or more seconds; default 5' -r
complete -c warmline-server -l repl-diskless-sync-max-replicas -d 'The number of replicas that ends the wait; 0 always waits for the whole time. Takes 0 or more; default 0' -r
complete -c warmline-server -l repl-diskless-load -d 'How a replica loads a snapshot: from a file (disabled), or while receiving it: only without data of its own, beside the old data, or in place of it. Takes disabled, on-empty-db, swapdb, flush-before-load; default disabled' -r -f -a "disabled\t''
on-empty-db\t''
swapdb\t''
flush-before-load\t''"
complete -c warmline-server -l dual-channel-replication-enabled -d 'Runs full syncs over two connections, if both sides have this option: the snapshot and the changes are sent in parallel. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l repl-ping-replica-period -d 'The interval at which a primary sends pings to its replicas. Takes 1 or more seconds; default 10' -r
complete -c warmline-server -l repl-timeout -d 'The silence after which a replication link is closed. Takes 1 or more seconds; default 60' -r
complete -c warmline-server -l repl-disable-tcp-nodelay -d 'Combines small writes on the link to a replica: fewer packets, later. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l repl-backlog-size -d 'The size of the replication backlog, for replicas that reconnect. Less than 16kb is 16kb. Takes a size; default 10mb' -r
complete -c warmline-server -l repl-backlog-ttl -d 'How long the backlog is kept after the last replica has disconnected; 0 is for ever. Takes 0 or more seconds; default 3600' -r
complete -c warmline-server -l cluster-enabled -d 'Makes this server a node of a cluster: keys are divided into 16,384 slots, and each node serves the slots that it owns. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-config-file -d 'The file in which a node keeps its view of the cluster. The server writes it; no two servers can share one. Takes text; default "nodes.conf"' -r -F
complete -c warmline-server -l cluster-config-save-behavior -d 'Whether a node ends when it cannot write that file (sync), or goes on (best-effort), with the risk that it votes twice after a restart. Takes sync, best-effort; default sync' -r -f -a "sync\t''
best-effort\t''"
complete -c warmline-server -l cluster-databases -d 'The number of databases of a node, instead of databases. Takes 1 to 65536; default 1' -r
complete -c warmline-server -l cluster-node-timeout -d 'The silence in milliseconds after which a node counts as failed. Takes 0 or more milliseconds; default 15000' -r
complete -c warmline-server -l cluster-port -d 'The port for other nodes; 0 is port plus 10000. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l cluster-replica-validity-factor -d 'How long a replica can have been without its primary and still take over, as a multiple of cluster-node-timeout; 0 is for ever. Takes 0 or more; default 10' -r
complete -c warmline-server -l cluster-replica-no-failover -d 'Whether this replica never takes over by itself. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-migration-barrier -d 'The minimum number of replicas that stay with a primary when others move to a primary without any. Takes 0 or more; default 1' -r
complete -c warmline-server -l cluster-allow-replica-migration -d 'Whether replicas move to primaries without one, and a primary without slots becomes a replica. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-require-full-coverage -d 'Whether no command with keys is served while slots have no node. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-manual-failover-timeout -d 'The maximum duration of a manual failover, in milliseconds. Takes 1 or more milliseconds; default 5000' -r
complete -c warmline-server -l cluster-allow-reads-when-down -d 'Whether reads are served while the cluster is down. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-allow-pubsubshard-when-down -d 'Whether sharded channels are served while the cluster is down. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-link-sendbuf-limit -d 'The maximum size of unsent data for one node, above which its connection is closed; 0 is no limit. Takes a size; default 0' -r
complete -c warmline-server -l cluster-blacklist-ttl -d 'For how many seconds a forgotten node is not added again. Takes 0 or more seconds; default 60' -r
complete -c warmline-server -l cluster-preferred-endpoint-type -d 'What clients get as the endpoint of a node: its address, its host name, or nothing. Takes ip, hostname, unknown-endpoint; default ip' -r -f -a "ip\t''
hostname\t''
unknown-endpoint\t''"
complete -c warmline-server -l cluster-slot-stats-enabled -d 'Whether processor time and traffic are counted by slot, for CLUSTER SLOT-STATS. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l cluster-slot-migration-log-max-len -d 'The number of jobs of slot migration that are listed, those that have ended included; a job that goes on always is. Takes 0 or more; default 1000' -r
complete -c warmline-server -l slot-migration-max-failover-repl-bytes -d 'Writes to slots that move to another node are paused when at most this is unsent; after two seconds they are paused in any case. Takes a size, or -1 for no limit; default 0' -r
complete -c warmline-server -l cluster-announce-ip -d 'The announced address, if it is not the one by which other nodes and clients reach this node. Takes text; default ""' -r
complete -c warmline-server -l cluster-announce-client-ipv4 -d 'The announced address for clients that use IPv4. Takes text; default ""' -r
complete -c warmline-server -l cluster-announce-client-ipv6 -d 'The announced address for clients that use IPv6. Takes text; default ""' -r
complete -c warmline-server -l cluster-announce-hostname -d 'The announced host name for clients. Takes text; default ""' -r
complete -c warmline-server -l cluster-announce-human-nodename -d 'The node\'s name in logs. Takes text; default ""' -r
complete -c warmline-server -l cluster-announce-port -d 'The announced port; 0 is port. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l cluster-announce-tls-port -d 'The announced TLS port; 0 is tls-port. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l cluster-announce-bus-port -d 'The announced port of the cluster bus; 0 is the port that it listens on. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l cluster-announce-client-port -d 'The announced port for clients; 0 is the one for other nodes. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l cluster-announce-client-tls-port -d 'The announced TLS port for clients; 0 is the one for other nodes. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l http-port -d 'The port of the HTTP server with a console (/), metrics (/metrics), health (/health) and readiness (/ready); 0 is none. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l http-tls -d 'HTTP over TLS only, with the tls-* options of the TLS port, which need not be open. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l http-bind -d 'The addresses of the HTTP server, in the syntax of bind. Without http-tls nothing is encrypted. Takes addresses; default 127.0.0.1 -::1' -r
complete -c warmline-server -l http-hosts -d 'Host names of this server that HTTP requests can use; addresses and localhost are always accepted. Takes addresses; default ""' -r
complete -c warmline-server -l http-commands -d 'Whether HTTP also runs commands that change something, for users with the permission; otherwise only commands that read. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-port -d 'The port for TLS clients; 0 is none. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l tls-cluster -d 'MIGRATE uses TLS. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-replication -d 'The link to the primary uses TLS. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-auth-clients -d 'Whether clients must present a certificate. Takes no, yes, optional; default yes' -r -f -a "no\t''
yes\t''
optional\t''"
complete -c warmline-server -l tls-auth-clients-user -d 'Which field of a client\'s certificate names its user. Takes CN, URI, off; default off' -r -f -a "CN\t''
URI\t''
off\t''"
complete -c warmline-server -l tls-cert-file -d 'The server\'s certificate, in PEM; its chain can follow. Takes text; default ""' -r -F
complete -c warmline-server -l tls-key-file -d 'The key of the server\'s certificate, in PEM. Takes text; default ""' -r -F
complete -c warmline-server -l tls-key-file-pass -d 'The password of that key. Takes text; default ""' -r
complete -c warmline-server -l tls-client-cert-file -d 'The certificate for outgoing connections; empty is that of tls-cert-file. Takes text; default ""' -r -F
complete -c warmline-server -l tls-client-key-file -d 'The key of that certificate. Takes text; default ""' -r -F
complete -c warmline-server -l tls-client-key-file-pass -d 'The password of that key. Takes text; default ""' -r
complete -c warmline-server -l tls-ca-cert-file -d 'Certificates of the trusted authorities. Takes text; default ""' -r -F
complete -c warmline-server -l tls-ca-cert-dir -d 'A directory of such certificates. Takes text; default ""' -r -f -a "(__fish_complete_directories)"
complete -c warmline-server -l tls-protocols -d 'The permitted versions of TLS, TLSv1.2 and TLSv1.3; empty is both. Takes text; default ""' -r
complete -c warmline-server -l tls-ciphers -d 'The cipher suites of TLS 1.2, by OpenSSL\'s names; empty is all that are supported. Takes text; default ""' -r
complete -c warmline-server -l tls-ciphersuites -d 'The cipher suites of TLS 1.3; empty is all that are supported. Takes text; default ""' -r
complete -c warmline-server -l tls-prefer-server-ciphers -d 'Uses the server\'s order of cipher suites, not the client\'s. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-session-caching -d 'Permits clients to resume sessions. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-session-cache-size -d 'The maximum number of sessions that are remembered by id; 0 is none. Takes 0 or more; default 20480' -r
complete -c warmline-server -l tls-session-cache-timeout -d 'How long a session can be resumed. Takes 0 or more seconds; default 300' -r
complete -c warmline-server -l tls-auto-reload-interval -d 'How often the certificate files are checked for changes; 0 is only when an option changes. Takes 0 or more seconds; default 0' -r
complete -c warmline-server -l rdma-port -d 'As above: a port prevents the start. Takes 0; default 0' -r
complete -c warmline-server -s v -l version -d 'Print the version'
complete -c warmline-server -s h -l help -d 'Print how it is called'
complete -c warmline-server -l check-config -d 'Only check whether the server would start with this configuration'
complete -c warmline-server -l check-health -d 'Only check whether a running server answers on every socket that it listens on'
complete -c warmline-server -l print-config -d 'Print a configuration file in which every option is explained'
