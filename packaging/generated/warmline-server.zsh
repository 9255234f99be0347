#compdef warmline-server

autoload -U is-at-least

_warmline-server() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'--check-rdb=[Only check whether this RDB file is sound, as warmline-check-rdb does]:FILE:_files' \
'--check-aof=[Only check whether this append-only file is sound, as warmline-check-aof does]:FILE:_files' \
'--daemonize=[Runs the server in the background. Takes yes, no; default no]:VALUE:(yes no)' \
'--supervised=[The service manager of the process\: systemd is notified of startup, readiness and stopping over its socket (Type=notify), upstart by a signal, auto detects which of the two is in use. Takes upstart, systemd, auto, no; default no]:VALUE:(upstart systemd auto no)' \
'--pidfile=[The file that holds the process ID; removed at shutdown. A server in the background writes /var/run/warmline.pid unless this names another file. Takes text; default ""]:VALUE:_files' \
'--loglevel=[The lowest level of messages that are logged. Takes debug, verbose, notice, warning, nothing; default notice]:VALUE:(debug verbose notice warning nothing)' \
'--log-format=[The format of log lines\: the traditional text, key=value pairs, or JSON. Takes legacy, logfmt, json; default legacy]:VALUE:(legacy logfmt json)' \
'--log-timestamp-format=[The format of timestamps in the log. Takes legacy, iso8601, milliseconds; default legacy]:VALUE:(legacy iso8601 milliseconds)' \
'--logfile=[The log file; empty is standard output. Takes text; default ""]:VALUE:_files' \
'--crash-log-enabled=[Logs a crash with a stack trace. Takes yes, no; default yes]:VALUE:(yes no)' \
'--hide-user-data-from-log=[Keeps keys and clients'\'' data out of the log. Takes yes, no; default yes]:VALUE:(yes no)' \
'--set-proc-title=[Shows address and mode in the process title. Takes yes, no; default yes]:VALUE:(yes no)' \
'--proc-title-template=[The template of the process title\: text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, {unixsocket} and {config-file}. Takes text; default "{title} {listen-addr} {server-mode}"]:VALUE:_default' \
'--extended-redis-compatibility=[Reports the name Redis and the compatible Redis version to clients (HELLO, INFO) and in errors. Takes yes, no; default no]:VALUE:(yes no)' \
'--enable-protected-configs=[Which clients can change protected options with CONFIG SET, such as the paths of files (dir, dbfilename)\: none, all, or clients of this machine. Takes no, yes, local; default no]:VALUE:(no yes local)' \
'--enable-debug-command=[Which clients can use DEBUG\: none, all, or clients of this machine. Takes no, yes, local; default no]:VALUE:(no yes local)' \
'--enable-module-command=[Which clients can use MODULE\: none, all, or clients of this machine. Takes no, yes, local; default no]:VALUE:(no yes local)' \
'--dir=[The working directory\: it contains the RDB file and the directory of the append-only file, and relative paths start there. Takes a directory that exists; default .]:VALUE:_files -/' \
'--databases=[The number of databases, numbered from 0. Takes 1 to 65536; default 16]:VALUE:_default' \
'--hz=[How often per second the periodic work runs. Values out of range are clamped. Takes 1 to 500; default 10]:VALUE:_default' \
'--shutdown-timeout=[How long a shutdown waits for replicas that lag behind; 0 does not wait. Takes 0 or more seconds; default 10]:VALUE:_default' \
'--shutdown-on-sigint=[How SIGINT shuts the server down, in the options of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default]:VALUE:_default' \
'--shutdown-on-sigterm=[How SIGTERM shuts the server down, in the options of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default]:VALUE:_default' \
'--bind=[The addresses to listen on, up to 16. * is all IPv4 addresses, \:\:* all IPv6 addresses; an address with - in front is skipped if it is not available. Takes addresses; default * -\:\:*]:VALUE:_default' \
'--bind-source-addr=[The source address of connections to a primary. Takes text; default ""]:VALUE:_default' \
'--port=[The TCP port for clients; 0 is none. Takes 0 to 65535; default 6379]:VALUE:_default' \
'--protected-mode=[Refuses clients from other machines while the user default has no password. Takes yes, no; default yes]:VALUE:(yes no)' \
'--unixsocket=[The path of a Unix socket to listen on; empty is none. Takes text; default ""]:VALUE:_default' \
'--unixsocketgroup=[The group of the Unix socket, by name or number. Takes text; default ""]:VALUE:_default' \
'--unixsocketperm=[The permissions of the Unix socket; 0 applies the process'\''s umask to 770. Takes 0 to 777, octal; default 0]:VALUE:_default' \
'--tcp-backlog=[The maximum number of connections that wait to be accepted; the system can lower it. Takes 0 or more; default 511]:VALUE:_default' \
'--tcp-keepalive=[The idle time after which the system sends TCP keepalive probes; 0 sends none. Takes 0 or more seconds; default 300]:VALUE:_default' \
'--tcp-nodelay=[Sends replies immediately; no enables Nagle'\''s algorithm on client connections\: fewer packets, later replies. Takes yes, no; default yes]:VALUE:(yes no)' \
'--timeout=[The idle time after which a client is closed; 0 closes none. Takes 0 or more seconds; default 0]:VALUE:_default' \
'--maxclients=[The maximum number of connected clients; more are refused. Takes 1 or more; default 10000]:VALUE:_default' \
'--max-new-connections-per-cycle=[The maximum number of connections that one iteration of the event loop accepts. Takes 1 to 1000; default 10]:VALUE:_default' \
'--max-new-tls-connections-per-cycle=[The maximum number of TLS connections that one iteration of the event loop accepts. Takes 1 to 1000; default 1]:VALUE:_default' \
'--availability-zone=[The availability zone of this server, for clients that prefer near servers\: shown in HELLO and INFO. Takes text; default ""]:VALUE:_default' \
'--io-threads=[The number of threads that serve sockets, including the main thread, which runs all commands. Takes 1 to 256; default 1]:VALUE:_default' \
'--prefetch-batch-max-size=[The maximum number of keys of pending commands that are prefetched from memory together; 0 is off. Takes 0 to 128; default 32]:VALUE:_default' \
'--client-output-buffer-limit=[For a class of clients (normal, replica, pubsub)\: the unsent output that closes a client immediately, and the unsent output that closes it if it lasts for the given number of seconds. 0 is no limit. Takes groups of class, size, size, seconds; default normal 0 0 0; replica 256mb 64mb 60; pubsub 32mb 8mb 60]:VALUE:_default' \
'--client-query-buffer-limit=[The maximum size of an incomplete request; more closes the connection. Takes a size, 1mb or more; default 1gb]:VALUE:_default' \
'--proto-max-bulk-len=[The maximum length of a command'\''s argument, and of a string that commands create. Takes a size, 1mb or more; default 512mb]:VALUE:_default' \
'--maxmemory-clients=[The total size of all clients'\'' buffers above which the largest clients are closed; 0 is no limit, a percentage is relative to maxmemory. Takes a size or a percentage; default 0]:VALUE:_default' \
'--tracking-table-max-keys=[The maximum number of keys that are tracked for client-side caching; above it, some are invalidated. 0 is no limit. Takes 0 or more; default 1000000]:VALUE:_default' \
'--requirepass=[The password of the user default; empty is none. Users with rules are defined by user lines or an aclfile. Takes text; default ""]:VALUE:_default' \
'--aclfile=[A file with users, one per line, instead of user lines here. Takes text; default ""]:VALUE:_files' \
'--acllog-max-len=[The maximum number of entries in ACL LOG. Takes 0 or more; default 128]:VALUE:_default' \
'--acl-pubsub-default=[Whether a new user has access to all channels or none. Takes allchannels, resetchannels; default resetchannels]:VALUE:(allchannels resetchannels)' \
'--maxmemory=[The memory for data and clients above which keys are evicted or writes refused; 0 is no limit. Takes a size; default 0]:VALUE:_default' \
'--maxmemory-policy=[What is evicted above maxmemory\: any key (allkeys-) or one with a time to live (volatile-), the least recently or frequently used, a random one, or the one that expires next. noeviction evicts nothing, and writes are refused. Takes volatile-lru, volatile-lfu, volatile-random, volatile-ttl, volatile-lrm, volatile-s3fifo, allkeys-lru, allkeys-lfu, allkeys-random, allkeys-lrm, allkeys-s3fifo, noeviction; default noeviction]:VALUE:(volatile-lru volatile-lfu volatile-random volatile-ttl volatile-lrm volatile-s3fifo allkeys-lru allkeys-lfu allkeys-random allkeys-lrm allkeys-s3fifo noeviction)' \
'--maxmemory-samples=[The number of keys that are compared to find one to evict\: more are more exact and slower. Takes 1 to 64; default 5]:VALUE:_default' \
'--maxmemory-eviction-tenacity=[The time that eviction takes at once; with 100 it runs until memory is within its limit. Takes 0 to 100; default 10]:VALUE:_default' \
'--lfu-log-factor=[The range of the access frequency counter\: the higher, the more accesses it distinguishes. Takes 0 or more; default 10]:VALUE:_default' \
'--lfu-decay-time=[The time without access after which the frequency counter decreases by one; 0 never decreases it. Takes 0 or more minutes; default 1]:VALUE:_default' \
'--active-expire-effort=[The processor time for finding expired keys that are not accessed\: the higher, the more. Takes 1 to 10; default 1]:VALUE:_default' \
'--import-mode=[Disables expiry and eviction while data is imported from another server. Takes yes, no; default no]:VALUE:(yes no)' \
'--lazyfree-lazy-eviction=[Frees evicted values in a background thread. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-expire=[Frees expired values in a background thread. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-server-del=[Frees values that commands replace (RENAME, SET, ...) in a background thread. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-user-del=[DEL frees values in a background thread, as UNLINK does. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-user-flush=[FLUSHALL and FLUSHDB without SYNC or ASYNC free values in a background thread. Takes yes, no; default yes]:VALUE:(yes no)' \
'--hash-seed=[A seed that makes the order of SCAN the same after each start; empty is a random seed, which clients cannot guess. Takes text; default ""]:VALUE:_default' \
'--jemalloc-bg-thread=[Threads of the allocator return free memory to the system. Takes yes, no; default yes]:VALUE:(yes no)' \
'--disable-thp=[Disables transparent huge pages, which make copy-on-write after a fork expensive. Takes yes, no; default yes]:VALUE:(yes no)' \
'--hash-max-listpack-entries=[The maximum number of fields of a compact hash. Takes 0 or more; default 512]:VALUE:_default' \
'--hash-max-listpack-value=[The maximum length of fields and values of a compact hash. Takes a size; default 64]:VALUE:_default' \
'--list-max-listpack-size=[The size of a list'\''s nodes. Positive\: the number of elements. -1 to -5\: 4, 8, 16, 32 or 64 KB. Takes a whole number; default -2]:VALUE:_default' \
'--list-compress-depth=[The number of nodes at each end of a list that stay uncompressed; 0 compresses none. Takes 0 or more; default 0]:VALUE:_default' \
'--set-max-intset-entries=[The maximum number of integers of a set that is one sorted array. Takes 0 or more; default 512]:VALUE:_default' \
'--set-max-listpack-entries=[The maximum number of members of a compact set. Takes 0 or more; default 128]:VALUE:_default' \
'--set-max-listpack-value=[The maximum length of members of a compact set. Takes 0 or more bytes; default 64]:VALUE:_default' \
'--zset-max-listpack-entries=[The maximum number of members of a compact sorted set. Takes 0 or more; default 128]:VALUE:_default' \
'--zset-max-listpack-value=[The maximum length of members of a compact sorted set. Takes a size; default 64]:VALUE:_default' \
'--zset-index=[The data structure of new sorted sets above the compact limits. Takes skiplist, fbtree; default fbtree]:VALUE:(skiplist fbtree)' \
'--hll-sparse-max-bytes=[The maximum size of a sparse HyperLogLog. Takes a size; default 3000]:VALUE:_default' \
'--stream-node-max-bytes=[The maximum size of a stream'\''s node; 0 is no limit. Takes a size; default 4kb]:VALUE:_default' \
'--stream-node-max-entries=[The maximum number of entries in a stream'\''s node; 0 is no limit. Takes 0 or more; default 100]:VALUE:_default' \
'--stream-idmp-duration=[The seconds for which a new stream remembers messages that are added only once (XADD with IDMP). Takes 1 to 86400; default 100]:VALUE:_default' \
'--stream-idmp-maxsize=[The maximum number of such messages of each producer that a new stream remembers. Takes 1 to 10000; default 100]:VALUE:_default' \
'--key-policy=[Settings that replace the options above for the keys that a glob matches\: the glob, then pairs of setting and value (POLICY HELP lists them). Of several rules, one per line, the first whose glob matches applies; POLICY changes single rules, "" is no rule. Takes a glob, then pairs of setting and value; \`;\` between rules; default ""]:VALUE:_default' \
'--save=[When to save in the background\: pairs of seconds and changes; a save starts when that number of seconds has passed since the last save and that number of changes was made. "" never saves. Takes pairs of seconds and changes; default 3600 1 300 100 60 10000]:VALUE:_default' \
'--dbfilename=[The name of the RDB file in dir. Takes text; default "dump.rdb"]:VALUE:_default' \
'--rdbcompression=[Compresses long strings in RDB files. Takes yes, no; default yes]:VALUE:(yes no)' \
'--rdbchecksum=[Writes a checksum at the end of RDB files, and checks it. Takes yes, no; default yes]:VALUE:(yes no)' \
'--rdb-version-check=[Whether RDB files of unknown versions are refused or tried. Takes strict, relaxed; default strict]:VALUE:(strict relaxed)' \
'--rdb-del-sync-files=[Removes the RDB files of replication if persistence is off. Takes yes, no; default no]:VALUE:(yes no)' \
'--rdb-save-incremental-fsync=[Saves are synced to disk in parts, not only at the end. Takes yes, no; default yes]:VALUE:(yes no)' \
'--stop-writes-on-bgsave-error=[Refuses writes after a failed background save, if there are save points. Takes yes, no; default yes]:VALUE:(yes no)' \
'--appendonly=[Writes an append-only file\: changes are on disk within a second, or as appendfsync configures. Takes yes, no; default no]:VALUE:(yes no)' \
'--appendfilename=[The prefix of the names of the append-only files. Takes text; default "appendonly.aof"]:VALUE:_default' \
'--appenddirname=[The directory of the append-only files, in dir. Takes text; default "appendonlydir"]:VALUE:_default' \
'--appendfsync=[When the append-only file is synced to disk\: before each reply, once a second, or by the system'\''s decision. Takes everysec, always, no; default everysec]:VALUE:(everysec always no)' \
'--no-appendfsync-on-rewrite=[Does not sync the append-only file to disk while a child process saves or rewrites. Takes yes, no; default no]:VALUE:(yes no)' \
'--auto-aof-rewrite-percentage=[The growth in percent since the last rewrite that starts a rewrite of the append-only file; 0 never starts one. Takes 0 or more percent; default 100]:VALUE:_default' \
'--auto-aof-rewrite-min-size=[The minimum size of the append-only file for an automatic rewrite. Takes a size; default 64mb]:VALUE:_default' \
'--aof-load-truncated=[Loads an append-only file with an incomplete end, which is cut off; no refuses to start. Takes yes, no; default yes]:VALUE:(yes no)' \
'--aof-use-rdb-preamble=[Writes the base of the append-only file as an RDB file, which is smaller and loads faster. Takes yes, no; default yes]:VALUE:(yes no)' \
'--aof-timestamp-enabled=[Writes timestamps to the append-only file, so that it can be truncated at one of them. Takes yes, no; default no]:VALUE:(yes no)' \
'--aof-rewrite-incremental-fsync=[Rewrites are synced to disk in parts, not only at the end. Takes yes, no; default yes]:VALUE:(yes no)' \
'--busy-reply-threshold=[The run time of a script after which other clients get BUSY errors. Takes 0 or more milliseconds; default 5000]:VALUE:_default' \
'--commandlog-execution-slower-than=[Logs commands that take longer (SLOWLOG); 0 logs all, -1 none. Takes -1 or more microseconds; default 10000]:VALUE:_default' \
'--commandlog-slow-execution-max-len=[The maximum number of slow commands in the log. Takes 0 or more; default 128]:VALUE:_default' \
'--commandlog-request-larger-than=[Logs commands with larger requests (COMMANDLOG); -1 logs none. Takes -1 or more bytes; default 1048576]:VALUE:_default' \
'--commandlog-large-request-max-len=[The maximum number of large requests in the log. Takes 0 or more; default 128]:VALUE:_default' \
'--commandlog-reply-larger-than=[Logs commands with larger replies (COMMANDLOG); -1 logs none. Takes -1 or more bytes; default 1048576]:VALUE:_default' \
'--commandlog-large-reply-max-len=[The maximum number of large replies in the log. Takes 0 or more; default 128]:VALUE:_default' \
'--latency-monitor-threshold=[Records events that take at least this long (LATENCY); 0 is off. Takes 0 or more milliseconds; default 0]:VALUE:_default' \
'--latency-trace-max-len=[The maximum number of traces of requests (LATENCY TRACE). Takes 0 to 1048576; default 1024]:VALUE:_default' \
'--latency-tracking=[Records a histogram of each command'\''s duration (LATENCY HISTOGRAM, INFO latencystats). Takes yes, no; default yes]:VALUE:(yes no)' \
'--latency-tracking-info-percentiles=[The percentiles of these durations in INFO; "" is none. Takes numbers from 0 to 100; default 50 99 99.9]:VALUE:_default' \
'--hot-keys=[Records the most used keys (HOTKEYS TOP), from samples of at most one command in 64. Takes yes, no; default yes]:VALUE:(yes no)' \
'--memory-prefixes=[Prefixes for which keys and their memory are counted (MEMORY PREFIXES), like user\:* session\:*; a key counts for its longest prefix. learn takes the prefixes of keys up to the first of \:, /, |, . and #. Empty counts nothing. Takes prefixes, or \`learn\`; default ""]:VALUE:_default' \
'--notify-keyspace-events=[Which keyspace events are published, in letters\: K and E select the channels, g\$lshzxetdmn the events; A is all events but m and n. Takes letters; default ""]:VALUE:_default' \
'--replicaof=[The primary to replicate, as host and port; no one is none. Takes host and port; default no one]:VALUE:_default' \
'--primaryauth=[The password for authentication at the primary. Takes text; default ""]:VALUE:_default' \
'--primaryuser=[The user name for authentication at the primary. Takes text; default ""]:VALUE:_default' \
'--replica-serve-stale-data=[Serves clients while the link to the primary is down or the first sync is in progress. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-read-only=[Refuses clients'\'' writes while this server is a replica. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-priority=[The priority for promotion by Sentinel, the lowest first; 0 is never promoted. Takes 0 or more; default 100]:VALUE:_default' \
'--replica-announced=[Whether Sentinel reports this replica to clients. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-announce-ip=[The address that this replica reports to its primary. Takes text; default ""]:VALUE:_default' \
'--replica-announce-port=[The port that this replica reports to its primary; 0 is its own. Takes 0 to 65535; default 0]:VALUE:_default' \
'--replica-lazy-flush=[Frees the data that a full sync replaces in a background thread. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-ignore-maxmemory=[A replica does not evict keys\: its primary does. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-ignore-disk-write-errors=[A replica continues after failed writes to disk; no ends the process. Takes yes, no; default no]:VALUE:(yes no)' \
'--propagation-error-behavior=[The effect of a failed command from the primary\: none, or the end of the process. Takes ignore, panic, panic-on-replicas; default ignore]:VALUE:(ignore panic panic-on-replicas)' \
'--min-replicas-to-write=[Refuses writes while fewer replicas are up to date; 0 is off. Takes 0 or more; default 0]:VALUE:_default' \
'--min-replicas-max-lag=[The maximum age of the last acknowledgement of a replica that is up to date. Takes 0 or more seconds; default 10]:VALUE:_default' \
'--min-replicas-durable=[Replies that show a change wait until this number of replicas has the change, and writes are refused while fewer are online; 0 is off. Takes 0 to 1000; default 0]:VALUE:_default' \
'--min-replicas-durable-on-disk=[The replicas must have forced such changes to disk in their append-only files. Takes yes, no; default no]:VALUE:(yes no)' \
'--min-replicas-durable-timeout=[How long such replies wait, in milliseconds; then they are NOREPLICAS errors. Takes 1 or more milliseconds; default 5000]:VALUE:_default' \
'--repl-diskless-sync=[Sends snapshots to replicas directly from the child process, without a file. Takes yes, no; default yes]:VALUE:(yes no)' \
'--repl-diskless-sync-delay=[How long such a sync waits for further replicas. Takes 0 or more seconds; default 5]:VALUE:_default' \
'--repl-diskless-sync-max-replicas=[The number of replicas that ends the wait; 0 always waits for the whole time. Takes 0 or more; default 0]:VALUE:_default' \
'--repl-diskless-load=[How a replica loads a snapshot\: from a file (disabled), or while receiving it\: only without data of its own, beside the old data, or in place of it. Takes disabled, on-empty-db, swapdb, flush-before-load; default disabled]:VALUE:(disabled on-empty-db swapdb flush-before-load)' \
'--dual-channel-replication-enabled=[Runs full syncs over two connections, if both sides have this option\: the snapshot and the changes are sent in parallel. Takes yes, no; default no]:VALUE:(yes no)' \
'--repl-ping-replica-period=[The interval at which a primary sends pings to its replicas. Takes 1 or more seconds; default 10]:VALUE:_default' \
'--repl-timeout=[The silence after which a replication link is closed. Takes 1 or more seconds; default 60]:VALUE:_default' \
'--repl-disable-tcp-nodelay=[Combines small writes on the link to a replica\: fewer packets, later. Takes yes, no; default no]:VALUE:(yes no)' \
'--repl-backlog-size=[The size of the replication backlog, for replicas that reconnect. Less than 16kb is 16kb. Takes a size; default 10mb]:VALUE:_default' \
'--repl-backlog-ttl=[How long the backlog is kept after the last replica has disconnected; 0 is for ever. Takes 0 or more seconds; default 3600]:VALUE:_default' \
'--cluster-enabled=[Makes this server a node of a cluster\: keys are divided into 16,384 slots, and each node serves the slots that it owns. Takes yes, no; default no]:VALUE:(yes no)' \
'--cluster-config-file=[The file in which a node keeps its view of the cluster. The server writes it; no two servers can share one. Takes text; default "nodes.conf"]:VALUE:_files' \
'--cluster-config-save-behavior=[Whether a node ends when it cannot write that file (sync), or goes on (best-effort), with the risk that it votes twice after a restart. Takes sync, best-effort; default sync]:VALUE:(sync best-effort)' \
'--cluster-databases=[The number of databases of a node, instead of databases. Takes 1 to 65536; default 1]:VALUE:_default' \
'--cluster-node-timeout=[The silence in milliseconds after which a node counts as failed. Takes 0 or more milliseconds; default 15000]:VALUE:_default' \
'--cluster-port=[The port for other nodes; 0 is port plus 10000. Takes 0 to 65535; default 0]:VALUE:_default' \
'--cluster-replica-validity-factor=[How long a replica can have been without its primary and still take over, as a multiple of cluster-node-timeout; 0 is for ever. Takes 0 or more; default 10]:VALUE:_default' \
'--cluster-replica-no-failover=[Whether this replica never takes over by itself. Takes yes, no; default no]:VALUE:(yes no)' \
'--cluster-migration-barrier=[The minimum number of replicas that stay with a primary when others move to a primary without any. Takes 0 or more; default 1]:VALUE:_default' \
'--cluster-allow-replica-migration=[Whether replicas move to primaries without one, and a primary without slots becomes a replica. Takes yes, no; default yes]:VALUE:(yes no)' \
'--cluster-require-full-coverage=[Whether no command with keys is served while slots have no node. Takes yes, no; default yes]:VALUE:(yes no)' \
'--cluster-manual-failover-timeout=[The maximum duration of a manual failover, in milliseconds. Takes 1 or more milliseconds; default 5000]:VALUE:_default' \
'--cluster-allow-reads-when-down=[Whether reads are served while the cluster is down. Takes yes, no; default no]:VALUE:(yes no)' \
'--cluster-allow-pubsubshard-when-down=[Whether sharded channels are served while the cluster is down. Takes yes, no; default yes]:VALUE:(yes no)' \
'--cluster-link-sendbuf-limit=[The maximum size of unsent data for one node, above which its connection is closed; 0 is no limit. Takes a size; default 0]:VALUE:_default' \
'--cluster-blacklist-ttl=[For how many seconds a forgotten node is not added again. Takes 0 or more seconds; default 60]:VALUE:_default' \
'--cluster-preferred-endpoint-type=[What clients get as the endpoint of a node\: its address, its host name, or nothing. Takes ip, hostname, unknown-endpoint; default ip]:VALUE:(ip hostname unknown-endpoint)' \
'--cluster-slot-stats-enabled=[Whether processor time and traffic are counted by slot, for CLUSTER SLOT-STATS. Takes yes, no; default no]:VALUE:(yes no)' \
'--cluster-slot-migration-log-max-len=[The number of jobs of slot migration that are listed, those that have ended included; a job that goes on always is. Takes 0 or more; default 1000]:VALUE:_default' \
'--slot-migration-max-failover-repl-bytes=[Writes to slots that move to another node are paused when at most this is unsent; after two seconds they are paused in any case. Takes a size, or -1 for no limit; default 0]:VALUE:_default' \
'--cluster-announce-ip=[The announced address, if it is not the one by which other nodes and clients reach this node. Takes text; default ""]:VALUE:_default' \
'--cluster-announce-client-ipv4=[The announced address for clients that use IPv4. Takes text; default ""]:VALUE:_default' \
'--cluster-announce-client-ipv6=[The announced address for clients that use IPv6. Takes text; default ""]:VALUE:_default' \
'--cluster-announce-hostname=[The announced host name for clients. Takes text; default ""]:VALUE:_default' \
'--cluster-announce-human-nodename=[The node'\''s name in logs. Takes text; default ""]:VALUE:_default' \
'--cluster-announce-port=[The announced port; 0 is port. Takes 0 to 65535; default 0]:VALUE:_default' \
'--cluster-announce-tls-port=[The announced TLS port; 0 is tls-port. Takes 0 to 65535; default 0]:VALUE:_default' \
'--cluster-announce-bus-port=[The announced port of the cluster bus; 0 is the port that it listens on. Takes 0 to 65535; default 0]:VALUE:_default' \
'--cluster-announce-client-port=[The announced port for clients; 0 is the one for other nodes. Takes 0 to 65535; default 0]:VALUE:_default' \
'--cluster-announce-client-tls-port=[The announced TLS port for clients; 0 is the one for other nodes. Takes 0 to 65535; default 0]:VALUE:_default' \
'--http-port=[The port of the HTTP server with a console (/), metrics (/metrics), health (/health) and readiness (/ready); 0 is none. Takes 0 to 65535; default 0]:VALUE:_default' \
'--http-tls=[HTTP over TLS only, with the tls-* options of the TLS port, which need not be open. Takes yes, no; default no]:VALUE:(yes no)' \
'--http-bind=[The addresses of the HTTP server, in the syntax of bind. Without http-tls nothing is encrypted. Takes addresses; default 127.0.0.1 -\:\:1]:VALUE:_default' \
'--http-hosts=[Host names of this server that HTTP requests can use; addresses and localhost are always accepted. Takes addresses; default ""]:VALUE:_default' \
'--http-commands=[Whether HTTP also runs commands that change something, for users with the permission; otherwise only commands that read. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-port=[The port for TLS clients; 0 is none. Takes 0 to 65535; default 0]:VALUE:_default' \
'--tls-cluster=[MIGRATE uses TLS. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-replication=[The link to the primary uses TLS. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-auth-clients=[Whether clients must present a certificate. Takes no, yes, optional; default yes]:VALUE:(no yes optional)' \
'--tls-auth-clients-user=[Which field of a client'\''s certificate names its user. Takes CN, URI, off; default off]:VALUE:(CN URI off)' \
'--tls-cert-file=[The server'\''s certificate, in PEM; its chain can follow. Takes text; default ""]:VALUE:_files' \
'--tls-key-file=[The key of the server'\''s certificate, in PEM. Takes text; default ""]:VALUE:_files' \
'--tls-key-file-pass=[The password of that key. Takes text; default ""]:VALUE:_default' \
'--tls-client-cert-file=[The certificate for outgoing connections; empty is that of tls-cert-file. Takes text; default ""]:VALUE:_files' \
'--tls-client-key-file=[The key of that certificate. Takes text; default ""]:VALUE:_files' \
'--tls-client-key-file-pass=[The password of that key. Takes text; default ""]:VALUE:_default' \
'--tls-ca-cert-file=[Certificates of the trusted authorities. Takes text; default ""]:VALUE:_files' \
'--tls-ca-cert-dir=[A directory of such certificates. Takes text; default ""]:VALUE:_files -/' \
'--tls-protocols=[The permitted versions of TLS, TLSv1.2 and TLSv1.3; empty is both. Takes text; default ""]:VALUE:_default' \
'--tls-ciphers=[The cipher suites of TLS 1.2, by OpenSSL'\''s names; empty is all that are supported. Takes text; default ""]:VALUE:_default' \
'--tls-ciphersuites=[The cipher suites of TLS 1.3; empty is all that are supported. Takes text; default ""]:VALUE:_default' \
'--tls-prefer-server-ciphers=[Uses the server'\''s order of cipher suites, not the client'\''s. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-session-caching=[Permits clients to resume sessions. Takes yes, no; default yes]:VALUE:(yes no)' \
'--tls-session-cache-size=[The maximum number of sessions that are remembered by id; 0 is none. Takes 0 or more; default 20480]:VALUE:_default' \
'--tls-session-cache-timeout=[How long a session can be resumed. Takes 0 or more seconds; default 300]:VALUE:_default' \
'--tls-auto-reload-interval=[How often the certificate files are checked for changes; 0 is only when an option changes. Takes 0 or more seconds; default 0]:VALUE:_default' \
'--rdma-port=[As above\: a port prevents the start. Takes 0; default 0]:VALUE:_default' \
'-v[Print the version]' \
'--version[Print the version]' \
'-h[Print how it is called]' \
'--help[Print how it is called]' \
'--check-config[Only check whether the server would start with this configuration]' \
'--check-health[Only check whether a running server answers on every socket that it listens on]' \
'--print-config[Print a configuration file in which every option is explained]' \
'::file -- Configuration file:_files' \
&& ret=0
}

(( $+functions[_warmline-server_commands] )) ||
_warmline-server_commands() {
    local commands; commands=()
    _describe -t commands 'warmline-server commands' commands "$@"
}

if [ "$funcstack[1]" = "_warmline-server" ]; then
    _warmline-server "$@"
else
    compdef _warmline-server warmline-server
fi
