complete -c warmline-server -l daemonize -d 'Goes into the background at the start. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l supervised -d 'Who supervises the process: systemd is told of starting, readiness and stopping over its socket (Type=notify), upstart by a signal, auto finds out which of the two it is. Takes upstart, systemd, auto, no; default no' -r -f -a "upstart\t''
systemd\t''
auto\t''
no\t''"
complete -c warmline-server -l pidfile -d 'The file to write the process\'s number to; removed at the end. A server in the background writes /var/run/warmline.pid unless this names another. Takes text; default ""' -r -F
complete -c warmline-server -l loglevel -d 'The least important lines that are still logged. Takes debug, verbose, notice, warning, nothing; default notice' -r -f -a "debug\t''
verbose\t''
notice\t''
warning\t''
nothing\t''"
complete -c warmline-server -l log-format -d 'How lines of the log are written: as people know them, as key=value pairs, or as JSON. Takes legacy, logfmt, json; default legacy' -r -f -a "legacy\t''
logfmt\t''
json\t''"
complete -c warmline-server -l log-timestamp-format -d 'How the log writes times. Takes legacy, iso8601, milliseconds; default legacy' -r -f -a "legacy\t''
iso8601\t''
milliseconds\t''"
complete -c warmline-server -l logfile -d 'The file to log to; empty is standard output. Takes text; default ""' -r -F
complete -c warmline-server -l crash-log-enabled -d 'Logs a fault of the process with the calls that led to it. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l hide-user-data-from-log -d 'Keeps keys and what clients send out of the log. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l set-proc-title -d 'Shows address and mode in the list of processes. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l proc-title-template -d 'What the list of processes shows: text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, {unixsocket} and {config-file}. Takes text; default "{title} {listen-addr} {server-mode}"' -r
complete -c warmline-server -l extended-redis-compatibility -d 'Calls itself Redis, in the version it is compatible with, wherever clients ask (HELLO, INFO) and in errors. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l enable-protected-configs -d 'Whether CONFIG SET may change where files are written (dir, dbfilename) and other protected options: nobody, everybody, or clients of this machine. Takes no, yes, local; default no' -r -f -a "no\t''
yes\t''
local\t''"
complete -c warmline-server -l enable-debug-command -d 'Who may use DEBUG: nobody, everybody, or clients of this machine. Takes no, yes, local; default no' -r -f -a "no\t''
yes\t''
local\t''"
complete -c warmline-server -l enable-module-command -d 'Who may use MODULE: nobody, everybody, or clients of this machine. Takes no, yes, local; default no' -r -f -a "no\t''
yes\t''
local\t''"
complete -c warmline-server -l dir -d 'The working directory: where the RDB file and the directory of the append-only file are, and what relative paths count from. Takes a directory that exists; default .' -r -f -a "(__fish_complete_directories)"
complete -c warmline-server -l databases -d 'How many databases there are, numbered from 0. Takes 1 to 65536; default 16' -r
complete -c warmline-server -l hz -d 'How often in a second the periodic work runs. Values out of range are brought into it. Takes 1 to 500; default 10' -r
complete -c warmline-server -l shutdown-timeout -d 'How long a shutdown waits for replicas that lack something; 0 waits for none. Takes 0 or more seconds; default 10' -r
complete -c warmline-server -l shutdown-on-sigint -d 'How SIGINT ends the server, in the words of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default' -r
complete -c warmline-server -l shutdown-on-sigterm -d 'How SIGTERM ends the server, in the words of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default' -r
complete -c warmline-server -l bind -d 'The addresses to listen on, up to 16. * is every IPv4 address, ::* every IPv6 one; with - in front an address may be missing. Takes addresses; default * -::*' -r
complete -c warmline-server -l bind-source-addr -d 'The address that connections to a primary come from. Takes text; default ""' -r
complete -c warmline-server -l port -d 'The TCP port for clients; 0 is none. Takes 0 to 65535; default 6379' -r
complete -c warmline-server -l protected-mode -d 'Without a password of the user default, refuses clients from other machines. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l unixsocket -d 'The path of a Unix socket to listen on; empty is none. Takes text; default ""' -r
complete -c warmline-server -l unixsocketgroup -d 'The group that the Unix socket belongs to, by name or number. Takes text; default ""' -r
complete -c warmline-server -l unixsocketperm -d 'The permissions of the Unix socket; 0 is what the process\'s umask leaves of 770. Takes 0 to 777, octal; default 0' -r
complete -c warmline-server -l tcp-backlog -d 'How many connections may wait to be accepted; the system may allow fewer. Takes 0 or more; default 511' -r
complete -c warmline-server -l tcp-keepalive -d 'Silence after which the system asks whether the peer is still there; 0 never asks. Takes 0 or more seconds; default 300' -r
complete -c warmline-server -l tcp-nodelay -d 'Sends replies at once; no leaves Nagle\'s algorithm on for clients: fewer packets, later replies. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l timeout -d 'Closes clients that have been silent for so long; 0 never. Takes 0 or more seconds; default 0' -r
complete -c warmline-server -l maxclients -d 'How many clients may be connected; more are refused. Takes 1 or more; default 10000' -r
complete -c warmline-server -l max-new-connections-per-cycle -d 'How many connections one turn of the loop accepts. Takes 1 to 1000; default 10' -r
complete -c warmline-server -l max-new-tls-connections-per-cycle -d 'How many TLS connections one turn of the loop accepts. Takes 1 to 1000; default 1' -r
complete -c warmline-server -l availability-zone -d 'Where this server is, for clients that prefer near ones: shown in HELLO and INFO. Takes text; default ""' -r
complete -c warmline-server -l io-threads -d 'Threads that serve sockets; the main one, which runs all commands, is one of them. Takes 1 to 256; default 1' -r
complete -c warmline-server -l prefetch-batch-max-size -d 'How many keys of the commands at hand are fetched from memory together; 0 is off. Takes 0 to 128; default 32' -r
complete -c warmline-server -l client-output-buffer-limit -d 'For a class of clients (normal, replica, pubsub): how much unsent output closes one at once, and how much does so when it lasts for so many seconds. 0 is no limit. Takes groups of class, size, size, seconds; default normal 0 0 0; replica 256mb 64mb 60; pubsub 32mb 8mb 60' -r
complete -c warmline-server -l client-query-buffer-limit -d 'How much of a request a client may send before it is whole; more closes the connection. Takes a size, 1mb or more; default 1gb' -r
complete -c warmline-server -l proto-max-bulk-len -d 'The longest argument of a command, and the longest string that commands make. Takes a size, 1mb or more; default 512mb' -r
complete -c warmline-server -l maxmemory-clients -d 'What all clients\' buffers may take together before those that take most are closed; 0 is no limit, a percentage is one of maxmemory. Takes a size or a percentage; default 0' -r
complete -c warmline-server -l tracking-table-max-keys -d 'How many keys are remembered for clients that cache; beyond that some are told that theirs have changed. 0 is no limit. Takes 0 or more; default 1000000' -r
complete -c warmline-server -l requirepass -d 'The password of the user default; empty is none. Users with rules are described by user lines or an aclfile. Takes text; default ""' -r
complete -c warmline-server -l aclfile -d 'A file with users, one in a line, instead of user lines here. Takes text; default ""' -r -F
complete -c warmline-server -l acllog-max-len -d 'How many entries ACL LOG keeps. Takes 0 or more; default 128' -r
complete -c warmline-server -l acl-pubsub-default -d 'Whether a new user may use all channels or none. Takes allchannels, resetchannels; default resetchannels' -r -f -a "allchannels\t''
resetchannels\t''"
complete -c warmline-server -l maxmemory -d 'How much memory data and clients may take before keys are evicted or writes refused; 0 is no limit. Takes a size; default 0' -r
complete -c warmline-server -l maxmemory-policy -d 'What goes when memory is full: any key (allkeys-) or one with a time to live (volatile-), the least recently or frequently used, at random, the one that expires next; or nothing, and writes are refused. Takes volatile-lru, volatile-lfu, volatile-random, volatile-ttl, volatile-lrm, allkeys-lru, allkeys-lfu, allkeys-random, allkeys-lrm, noeviction; default noeviction' -r -f -a "volatile-lru\t''
volatile-lfu\t''
volatile-random\t''
volatile-ttl\t''
volatile-lrm\t''
allkeys-lru\t''
allkeys-lfu\t''
allkeys-random\t''
allkeys-lrm\t''
noeviction\t''"
complete -c warmline-server -l maxmemory-samples -d 'How many keys are compared to find one to evict: more are more exact and slower. Takes 1 to 64; default 5' -r
complete -c warmline-server -l maxmemory-eviction-tenacity -d 'How long eviction may take at a time; 100 is until memory is within its limit. Takes 0 to 100; default 10' -r
complete -c warmline-server -l lfu-log-factor -d 'How many uses the counter of frequency tells apart: the higher, the more. Takes 0 or more; default 10' -r
complete -c warmline-server -l lfu-decay-time -d 'Time without use after which the counter of frequency falls by one; 0 never. Takes 0 or more minutes; default 1' -r
complete -c warmline-server -l active-expire-effort -d 'How much processor time goes into finding expired keys that nobody asks for. Takes 1 to 10; default 1' -r
complete -c warmline-server -l import-mode -d 'Expires and evicts nothing, while data is copied here from another server. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-eviction -d 'Frees evicted values on a thread of their own. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-expire -d 'Frees expired values on a thread of their own. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-server-del -d 'Frees values that commands replace (RENAME, SET, ...) on a thread of their own. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-user-del -d 'DEL frees as UNLINK does, on a thread of its own. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l lazyfree-lazy-user-flush -d 'FLUSHALL and FLUSHDB without SYNC or ASYNC free on a thread of their own. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l hash-seed -d 'Makes the order of SCAN the same from start to start; empty is another one each time, which clients cannot guess. Takes text; default ""' -r
complete -c warmline-server -l jemalloc-bg-thread -d 'Threads of the allocator give free memory back to the system. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l disable-thp -d 'Asks the system for no huge pages, which make a fork\'s copies expensive. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l hash-max-listpack-entries -d 'Fields up to which a hash is compact. Takes 0 or more; default 512' -r
complete -c warmline-server -l hash-max-listpack-value -d 'Length of fields and values up to which a hash is compact. Takes a size; default 64' -r
complete -c warmline-server -l list-max-listpack-size -d 'The size of a list\'s nodes. Positive: so many elements. -1 to -5: 4, 8, 16, 32 or 64 KB. Takes a whole number; default -2' -r
complete -c warmline-server -l list-compress-depth -d 'Nodes at each end of a list that stay uncompressed; 0 compresses none. Takes 0 or more; default 0' -r
complete -c warmline-server -l set-max-intset-entries -d 'Integers up to which a set of them is one sorted array. Takes 0 or more; default 512' -r
complete -c warmline-server -l set-max-listpack-entries -d 'Members up to which a set is compact. Takes 0 or more; default 128' -r
complete -c warmline-server -l set-max-listpack-value -d 'Length of members up to which a set is compact. Takes 0 or more bytes; default 64' -r
complete -c warmline-server -l zset-max-listpack-entries -d 'Members up to which a sorted set is compact. Takes 0 or more; default 128' -r
complete -c warmline-server -l zset-max-listpack-value -d 'Length of members up to which a sorted set is compact. Takes a size; default 64' -r
complete -c warmline-server -l zset-index -d 'The structure of sorted sets past the compact limits, of those made from then on. Takes skiplist, fbtree; default fbtree' -r -f -a "skiplist\t''
fbtree\t''"
complete -c warmline-server -l hll-sparse-max-bytes -d 'Size up to which a HyperLogLog is sparse. Takes a size; default 3000' -r
complete -c warmline-server -l stream-node-max-bytes -d 'Size of a stream\'s node; 0 is no limit. Takes a size; default 4kb' -r
complete -c warmline-server -l stream-node-max-entries -d 'Entries in a stream\'s node; 0 is no limit. Takes 0 or more; default 100' -r
complete -c warmline-server -l stream-idmp-duration -d 'Seconds for which a stream made from then on remembers messages that are to be added once (XADD with IDMP). Takes 1 to 86400; default 100' -r
complete -c warmline-server -l stream-idmp-maxsize -d 'Such messages of each producer that a stream made from then on remembers. Takes 1 to 10000; default 100' -r
complete -c warmline-server -l key-policy -d 'What holds for the keys that a glob matches instead of the options above: the glob, then pairs of setting and value (POLICY HELP lists them). Of several rules, each in a line of its own, the first whose glob matches holds; POLICY changes them one by one, "" is none. Takes a glob, then pairs of setting and value; `;` between rules; default ""' -r
complete -c warmline-server -l save -d 'When to save in the background: pairs of seconds and changes; a save begins when so many seconds have passed since the last one and so many changes were made. "" never saves. Takes pairs of seconds and changes; default 3600 1 300 100 60 10000' -r
complete -c warmline-server -l dbfilename -d 'The name of the RDB file in dir. Takes text; default "dump.rdb"' -r
complete -c warmline-server -l rdbcompression -d 'Compresses long strings in RDB files. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l rdbchecksum -d 'Writes a checksum at the end of RDB files, and checks it. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l rdb-version-check -d 'Whether RDB files of versions that are not known are refused or tried. Takes strict, relaxed; default strict' -r -f -a "strict\t''
relaxed\t''"
complete -c warmline-server -l rdb-del-sync-files -d 'Removes the RDB files of replication when nothing else asks for files. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l rdb-save-incremental-fsync -d 'Saves write to disk piece by piece, not all at the end. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l stop-writes-on-bgsave-error -d 'Refuses writes after a save in the background has failed, if there are save points. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l appendonly -d 'Keeps an append-only file: what was done is on disk within a second, or as appendfsync says. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l appendfilename -d 'The beginning of the names of the append-only files. Takes text; default "appendonly.aof"' -r
complete -c warmline-server -l appenddirname -d 'The directory of the append-only files, in dir. Takes text; default "appendonlydir"' -r
complete -c warmline-server -l appendfsync -d 'When the append-only file is forced to disk: before each reply, once a second, or when the system wants to. Takes everysec, always, no; default everysec' -r -f -a "everysec\t''
always\t''
no\t''"
complete -c warmline-server -l no-appendfsync-on-rewrite -d 'Forces nothing to disk while a child saves or rewrites. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l auto-aof-rewrite-percentage -d 'Rewrites the append-only file when it has grown by so many percent since the last rewrite; 0 never. Takes 0 or more percent; default 100' -r
complete -c warmline-server -l auto-aof-rewrite-min-size -d 'Size below which the append-only file is not rewritten by itself. Takes a size; default 64mb' -r
complete -c warmline-server -l aof-load-truncated -d 'Starts with an append-only file whose end is missing, and cuts off what is not whole; no refuses. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l aof-use-rdb-preamble -d 'Writes the base of the append-only file as an RDB file, which is smaller and loads faster. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l aof-timestamp-enabled -d 'Notes times in the append-only file, so that it can be cut off at one of them. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l aof-rewrite-incremental-fsync -d 'Rewrites write to disk piece by piece, not all at the end. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l busy-reply-threshold -d 'How long a script may run before other clients are answered, with BUSY. Takes 0 or more milliseconds; default 5000' -r
complete -c warmline-server -l commandlog-execution-slower-than -d 'Logs commands (SLOWLOG) that take longer; 0 logs all, -1 none. Takes -1 or more microseconds; default 10000' -r
complete -c warmline-server -l commandlog-slow-execution-max-len -d 'How many of the slow commands are kept. Takes 0 or more; default 128' -r
complete -c warmline-server -l commandlog-request-larger-than -d 'Logs commands (COMMANDLOG) whose arguments are larger; -1 none. Takes -1 or more bytes; default 1048576' -r
complete -c warmline-server -l commandlog-large-request-max-len -d 'How many of the large requests are kept. Takes 0 or more; default 128' -r
complete -c warmline-server -l commandlog-reply-larger-than -d 'Logs commands (COMMANDLOG) whose reply is larger; -1 none. Takes -1 or more bytes; default 1048576' -r
complete -c warmline-server -l commandlog-large-reply-max-len -d 'How many of the large replies are kept. Takes 0 or more; default 128' -r
complete -c warmline-server -l latency-monitor-threshold -d 'Keeps events (LATENCY) that take so long; 0 is off. Takes 0 or more milliseconds; default 0' -r
complete -c warmline-server -l latency-trace-max-len -d 'How many traces of requests are kept (LATENCY TRACE). Takes 0 to 1048576; default 1024' -r
complete -c warmline-server -l latency-tracking -d 'Keeps a histogram of each command\'s time (LATENCY HISTOGRAM, INFO latencystats). Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l latency-tracking-info-percentiles -d 'The percentiles of these times in INFO; "" is none. Takes numbers from 0 to 100; default 50 99 99.9' -r
complete -c warmline-server -l hot-keys -d 'Keeps which keys are used most (HOTKEYS TOP): of one command in 64 at most. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l memory-prefixes -d 'Prefixes by which keys and their memory are counted (MEMORY PREFIXES), like user:* session:*; the longest that a key has counts. learn takes those that keys have, up to the first of :, /, |, . and #. Empty counts nothing. Takes prefixes, or `learn`; default ""' -r
complete -c warmline-server -l notify-keyspace-events -d 'Which changes of keys are published, in letters: K and E choose the channels, g$lshzxetdmn the events, A all of them but m and n. Takes letters; default ""' -r
complete -c warmline-server -l replicaof -d 'The primary to replicate, as host and port; no one is none. Takes host and port; default no one' -r
complete -c warmline-server -l primaryauth -d 'The password to log in with at the primary. Takes text; default ""' -r
complete -c warmline-server -l primaryuser -d 'The user to log in as at the primary. Takes text; default ""' -r
complete -c warmline-server -l replica-serve-stale-data -d 'Answers clients while the link to the primary is down, or the first sync is under way. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-read-only -d 'Refuses writes of clients while this is a replica. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-priority -d 'The order in which Sentinel promotes replicas, the lowest first; 0 is never. Takes 0 or more; default 100' -r
complete -c warmline-server -l replica-announced -d 'Whether Sentinel tells clients of this replica. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-announce-ip -d 'The address that this replica tells its primary. Takes text; default ""' -r
complete -c warmline-server -l replica-announce-port -d 'The port that this replica tells its primary; 0 is its own. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l replica-lazy-flush -d 'Frees what a full sync replaces on a thread of its own. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-ignore-maxmemory -d 'A replica evicts nothing: its primary does. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l replica-ignore-disk-write-errors -d 'A replica goes on when its files cannot be written; no ends the process. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l propagation-error-behavior -d 'What a command of the primary\'s stream that fails does: nothing, or ends the process. Takes ignore, panic, panic-on-replicas; default ignore' -r -f -a "ignore\t''
panic\t''
panic-on-replicas\t''"
complete -c warmline-server -l min-replicas-to-write -d 'Refuses writes while fewer replicas follow; 0 is off. Takes 0 or more; default 0' -r
complete -c warmline-server -l min-replicas-max-lag -d 'How old a replica\'s last acknowledgement may be for it to count. Takes 0 or more seconds; default 10' -r
complete -c warmline-server -l repl-diskless-sync -d 'Sends snapshots to replicas straight from the child, without a file. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l repl-diskless-sync-delay -d 'How long such a sync waits for more replicas to come. Takes 0 or more seconds; default 5' -r
complete -c warmline-server -l repl-diskless-sync-max-replicas -d 'How many replicas end that wait; 0 waits for all of its time. Takes 0 or more; default 0' -r
complete -c warmline-server -l repl-diskless-load -d 'Whether a replica loads a snapshot by way of a file (disabled) or as it comes: if it has no data, beside the old data, or in its place. Takes disabled, on-empty-db, swapdb, flush-before-load; default disabled' -r -f -a "disabled\t''
on-empty-db\t''
swapdb\t''
flush-before-load\t''"
complete -c warmline-server -l dual-channel-replication-enabled -d 'Full syncs over two connections, where both sides have this: the snapshot and the changes come side by side. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l repl-ping-replica-period -d 'How often a primary gives its replicas a sign of life. Takes 1 or more seconds; default 10' -r
complete -c warmline-server -l repl-timeout -d 'Silence after which a link of replication is given up. Takes 1 or more seconds; default 60' -r
complete -c warmline-server -l repl-disable-tcp-nodelay -d 'The link to a replica gathers small writes: fewer packets, later. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l repl-backlog-size -d 'How much of the stream is kept for replicas that come back. Less than 16kb is 16kb. Takes a size; default 10mb' -r
complete -c warmline-server -l repl-backlog-ttl -d 'How long it is kept after the last replica has gone; 0 is for ever. Takes 0 or more seconds; default 3600' -r
complete -c warmline-server -l cluster-enabled -d 'There is no cluster yet: yes stops the start. Takes no; default no' -r
complete -c warmline-server -l http-port -d 'The port at which a console (/), metrics (/metrics), health (/health) and readiness (/ready) are answered over HTTP; 0 is none. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l http-tls -d 'Speaks TLS there and nothing else, by the tls-* options of the TLS port, which need not be open. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l http-bind -d 'The addresses to answer HTTP at, written as those of bind. Without http-tls nothing is encrypted. Takes addresses; default 127.0.0.1 -::1' -r
complete -c warmline-server -l http-hosts -d 'Names of this machine that an HTTP request may ask for; addresses and localhost it always may. Takes addresses; default ""' -r
complete -c warmline-server -l http-commands -d 'Whether commands that change something run over HTTP too, for users who may run them; otherwise only those that read. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-port -d 'The port for clients with TLS; 0 is none. Takes 0 to 65535; default 0' -r
complete -c warmline-server -l tls-cluster -d 'MIGRATE speaks TLS. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-replication -d 'The link to the primary speaks TLS. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-auth-clients -d 'Whether clients have to show a certificate. Takes no, yes, optional; default yes' -r -f -a "no\t''
yes\t''
optional\t''"
complete -c warmline-server -l tls-auth-clients-user -d 'Which field of a client\'s certificate names its user. Takes CN, URI, off; default off' -r -f -a "CN\t''
URI\t''
off\t''"
complete -c warmline-server -l tls-cert-file -d 'The server\'s certificate, in PEM; a chain may follow. Takes text; default ""' -r -F
complete -c warmline-server -l tls-key-file -d 'The key of the server\'s certificate, in PEM. Takes text; default ""' -r -F
complete -c warmline-server -l tls-key-file-pass -d 'The password of that key. Takes text; default ""' -r
complete -c warmline-server -l tls-client-cert-file -d 'The certificate for connections that the server makes; empty is that of tls-cert-file. Takes text; default ""' -r -F
complete -c warmline-server -l tls-client-key-file -d 'The key of that certificate. Takes text; default ""' -r -F
complete -c warmline-server -l tls-client-key-file-pass -d 'The password of that key. Takes text; default ""' -r
complete -c warmline-server -l tls-ca-cert-file -d 'Certificates of the authorities that are believed. Takes text; default ""' -r -F
complete -c warmline-server -l tls-ca-cert-dir -d 'A directory with files of such certificates. Takes text; default ""' -r -f -a "(__fish_complete_directories)"
complete -c warmline-server -l tls-protocols -d 'Versions of TLS that are spoken, TLSv1.2 and TLSv1.3; empty is both. Takes text; default ""' -r
complete -c warmline-server -l tls-ciphers -d 'Cipher suites of TLS 1.2, in OpenSSL\'s words; empty is all there are. Takes text; default ""' -r
complete -c warmline-server -l tls-ciphersuites -d 'Cipher suites of TLS 1.3; empty is all there are. Takes text; default ""' -r
complete -c warmline-server -l tls-prefer-server-ciphers -d 'The server\'s order of suites counts, not the client\'s. Takes yes, no; default no' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-session-caching -d 'Lets clients resume sessions. Takes yes, no; default yes' -r -f -a "yes\t''
no\t''"
complete -c warmline-server -l tls-session-cache-size -d 'Sessions that are remembered by id; 0 is none. Takes 0 or more; default 20480' -r
complete -c warmline-server -l tls-session-cache-timeout -d 'How long a session can be resumed. Takes 0 or more seconds; default 300' -r
complete -c warmline-server -l tls-auto-reload-interval -d 'How often the files of certificates are looked at; 0 is only when an option changes. Takes 0 or more seconds; default 0' -r
complete -c warmline-server -l rdma-port -d 'As above: a port for it stops the start. Takes 0; default 0' -r
complete -c warmline-server -s v -l version -d 'Print the version'
complete -c warmline-server -s h -l help -d 'Print how it is called'
complete -c warmline-server -l check-config -d 'Only tell whether the server would start with this configuration'
complete -c warmline-server -l print-config -d 'Print a configuration file in which every option is explained'
