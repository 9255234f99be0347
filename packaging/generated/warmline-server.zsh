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
'--daemonize=[Goes into the background at the start. Takes yes, no; default no]:VALUE:(yes no)' \
'--supervised=[Who supervises the process\: systemd is told of starting, readiness and stopping over its socket (Type=notify), upstart by a signal, auto finds out which of the two it is. Takes upstart, systemd, auto, no; default no]:VALUE:(upstart systemd auto no)' \
'--pidfile=[The file to write the process'\''s number to; removed at the end. A server in the background writes /var/run/warmline.pid unless this names another. Takes text; default ""]:VALUE:_files' \
'--loglevel=[The least important lines that are still logged. Takes debug, verbose, notice, warning, nothing; default notice]:VALUE:(debug verbose notice warning nothing)' \
'--log-format=[How lines of the log are written\: as people know them, as key=value pairs, or as JSON. Takes legacy, logfmt, json; default legacy]:VALUE:(legacy logfmt json)' \
'--log-timestamp-format=[How the log writes times. Takes legacy, iso8601, milliseconds; default legacy]:VALUE:(legacy iso8601 milliseconds)' \
'--logfile=[The file to log to; empty is standard output. Takes text; default ""]:VALUE:_files' \
'--crash-log-enabled=[Logs a fault of the process with the calls that led to it. Takes yes, no; default yes]:VALUE:(yes no)' \
'--hide-user-data-from-log=[Keeps keys and what clients send out of the log. Takes yes, no; default yes]:VALUE:(yes no)' \
'--set-proc-title=[Shows address and mode in the list of processes. Takes yes, no; default yes]:VALUE:(yes no)' \
'--proc-title-template=[What the list of processes shows\: text with {title}, {listen-addr}, {server-mode}, {port}, {tls-port}, {unixsocket} and {config-file}. Takes text; default "{title} {listen-addr} {server-mode}"]:VALUE:_default' \
'--extended-redis-compatibility=[Calls itself Redis, in the version it is compatible with, wherever clients ask (HELLO, INFO) and in errors. Takes yes, no; default no]:VALUE:(yes no)' \
'--enable-protected-configs=[Whether CONFIG SET may change where files are written (dir, dbfilename) and other protected options\: nobody, everybody, or clients of this machine. Takes no, yes, local; default no]:VALUE:(no yes local)' \
'--enable-debug-command=[Who may use DEBUG\: nobody, everybody, or clients of this machine. Takes no, yes, local; default no]:VALUE:(no yes local)' \
'--enable-module-command=[Who may use MODULE\: nobody, everybody, or clients of this machine. Takes no, yes, local; default no]:VALUE:(no yes local)' \
'--dir=[The working directory\: where the RDB file and the directory of the append-only file are, and what relative paths count from. Takes a directory that exists; default .]:VALUE:_files -/' \
'--databases=[How many databases there are, numbered from 0. Takes 1 to 65536; default 16]:VALUE:_default' \
'--hz=[How often in a second the periodic work runs. Values out of range are brought into it. Takes 1 to 500; default 10]:VALUE:_default' \
'--shutdown-timeout=[How long a shutdown waits for replicas that lack something; 0 waits for none. Takes 0 or more seconds; default 10]:VALUE:_default' \
'--shutdown-on-sigint=[How SIGINT ends the server, in the words of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default]:VALUE:_default' \
'--shutdown-on-sigterm=[How SIGTERM ends the server, in the words of SHUTDOWN. Takes any of default, save, nosave, now, force, safe, failover; default default]:VALUE:_default' \
'--bind=[The addresses to listen on, up to 16. * is every IPv4 address, \:\:* every IPv6 one; with - in front an address may be missing. Takes addresses; default * -\:\:*]:VALUE:_default' \
'--bind-source-addr=[The address that connections to a primary come from. Takes text; default ""]:VALUE:_default' \
'--port=[The TCP port for clients; 0 is none. Takes 0 to 65535; default 6379]:VALUE:_default' \
'--protected-mode=[Without a password of the user default, refuses clients from other machines. Takes yes, no; default yes]:VALUE:(yes no)' \
'--unixsocket=[The path of a Unix socket to listen on; empty is none. Takes text; default ""]:VALUE:_default' \
'--unixsocketgroup=[The group that the Unix socket belongs to, by name or number. Takes text; default ""]:VALUE:_default' \
'--unixsocketperm=[The permissions of the Unix socket; 0 is what the process'\''s umask leaves of 770. Takes 0 to 777, octal; default 0]:VALUE:_default' \
'--tcp-backlog=[How many connections may wait to be accepted; the system may allow fewer. Takes 0 or more; default 511]:VALUE:_default' \
'--tcp-keepalive=[Silence after which the system asks whether the peer is still there; 0 never asks. Takes 0 or more seconds; default 300]:VALUE:_default' \
'--tcp-nodelay=[Sends replies at once; no leaves Nagle'\''s algorithm on for clients\: fewer packets, later replies. Takes yes, no; default yes]:VALUE:(yes no)' \
'--timeout=[Closes clients that have been silent for so long; 0 never. Takes 0 or more seconds; default 0]:VALUE:_default' \
'--maxclients=[How many clients may be connected; more are refused. Takes 1 or more; default 10000]:VALUE:_default' \
'--max-new-connections-per-cycle=[How many connections one turn of the loop accepts. Takes 1 to 1000; default 10]:VALUE:_default' \
'--max-new-tls-connections-per-cycle=[How many TLS connections one turn of the loop accepts. Takes 1 to 1000; default 1]:VALUE:_default' \
'--availability-zone=[Where this server is, for clients that prefer near ones\: shown in HELLO and INFO. Takes text; default ""]:VALUE:_default' \
'--io-threads=[Threads that serve sockets; the main one, which runs all commands, is one of them. Takes 1 to 256; default 1]:VALUE:_default' \
'--prefetch-batch-max-size=[How many keys of the commands at hand are fetched from memory together; 0 is off. Takes 0 to 128; default 32]:VALUE:_default' \
'--client-output-buffer-limit=[For a class of clients (normal, replica, pubsub)\: how much unsent output closes one at once, and how much does so when it lasts for so many seconds. 0 is no limit. Takes groups of class, size, size, seconds; default normal 0 0 0; replica 256mb 64mb 60; pubsub 32mb 8mb 60]:VALUE:_default' \
'--client-query-buffer-limit=[How much of a request a client may send before it is whole; more closes the connection. Takes a size, 1mb or more; default 1gb]:VALUE:_default' \
'--proto-max-bulk-len=[The longest argument of a command, and the longest string that commands make. Takes a size, 1mb or more; default 512mb]:VALUE:_default' \
'--maxmemory-clients=[What all clients'\'' buffers may take together before those that take most are closed; 0 is no limit, a percentage is one of maxmemory. Takes a size or a percentage; default 0]:VALUE:_default' \
'--tracking-table-max-keys=[How many keys are remembered for clients that cache; beyond that some are told that theirs have changed. 0 is no limit. Takes 0 or more; default 1000000]:VALUE:_default' \
'--requirepass=[The password of the user default; empty is none. Users with rules are described by user lines or an aclfile. Takes text; default ""]:VALUE:_default' \
'--aclfile=[A file with users, one in a line, instead of user lines here. Takes text; default ""]:VALUE:_files' \
'--acllog-max-len=[How many entries ACL LOG keeps. Takes 0 or more; default 128]:VALUE:_default' \
'--acl-pubsub-default=[Whether a new user may use all channels or none. Takes allchannels, resetchannels; default resetchannels]:VALUE:(allchannels resetchannels)' \
'--maxmemory=[How much memory data and clients may take before keys are evicted or writes refused; 0 is no limit. Takes a size; default 0]:VALUE:_default' \
'--maxmemory-policy=[What goes when memory is full\: any key (allkeys-) or one with a time to live (volatile-), the least recently or frequently used, at random, the one that expires next; or nothing, and writes are refused. Takes volatile-lru, volatile-lfu, volatile-random, volatile-ttl, volatile-lrm, allkeys-lru, allkeys-lfu, allkeys-random, allkeys-lrm, noeviction; default noeviction]:VALUE:(volatile-lru volatile-lfu volatile-random volatile-ttl volatile-lrm allkeys-lru allkeys-lfu allkeys-random allkeys-lrm noeviction)' \
'--maxmemory-samples=[How many keys are compared to find one to evict\: more are more exact and slower. Takes 1 to 64; default 5]:VALUE:_default' \
'--maxmemory-eviction-tenacity=[How long eviction may take at a time; 100 is until memory is within its limit. Takes 0 to 100; default 10]:VALUE:_default' \
'--lfu-log-factor=[How many uses the counter of frequency tells apart\: the higher, the more. Takes 0 or more; default 10]:VALUE:_default' \
'--lfu-decay-time=[Time without use after which the counter of frequency falls by one; 0 never. Takes 0 or more minutes; default 1]:VALUE:_default' \
'--active-expire-effort=[How much processor time goes into finding expired keys that nobody asks for. Takes 1 to 10; default 1]:VALUE:_default' \
'--import-mode=[Expires and evicts nothing, while data is copied here from another server. Takes yes, no; default no]:VALUE:(yes no)' \
'--lazyfree-lazy-eviction=[Frees evicted values on a thread of their own. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-expire=[Frees expired values on a thread of their own. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-server-del=[Frees values that commands replace (RENAME, SET, ...) on a thread of their own. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-user-del=[DEL frees as UNLINK does, on a thread of its own. Takes yes, no; default yes]:VALUE:(yes no)' \
'--lazyfree-lazy-user-flush=[FLUSHALL and FLUSHDB without SYNC or ASYNC free on a thread of their own. Takes yes, no; default yes]:VALUE:(yes no)' \
'--hash-seed=[Makes the order of SCAN the same from start to start; empty is another one each time, which clients cannot guess. Takes text; default ""]:VALUE:_default' \
'--jemalloc-bg-thread=[Threads of the allocator give free memory back to the system. Takes yes, no; default yes]:VALUE:(yes no)' \
'--disable-thp=[Asks the system for no huge pages, which make a fork'\''s copies expensive. Takes yes, no; default yes]:VALUE:(yes no)' \
'--hash-max-listpack-entries=[Fields up to which a hash is compact. Takes 0 or more; default 512]:VALUE:_default' \
'--hash-max-listpack-value=[Length of fields and values up to which a hash is compact. Takes a size; default 64]:VALUE:_default' \
'--list-max-listpack-size=[The size of a list'\''s nodes. Positive\: so many elements. -1 to -5\: 4, 8, 16, 32 or 64 KB. Takes a whole number; default -2]:VALUE:_default' \
'--list-compress-depth=[Nodes at each end of a list that stay uncompressed; 0 compresses none. Takes 0 or more; default 0]:VALUE:_default' \
'--set-max-intset-entries=[Integers up to which a set of them is one sorted array. Takes 0 or more; default 512]:VALUE:_default' \
'--set-max-listpack-entries=[Members up to which a set is compact. Takes 0 or more; default 128]:VALUE:_default' \
'--set-max-listpack-value=[Length of members up to which a set is compact. Takes 0 or more bytes; default 64]:VALUE:_default' \
'--zset-max-listpack-entries=[Members up to which a sorted set is compact. Takes 0 or more; default 128]:VALUE:_default' \
'--zset-max-listpack-value=[Length of members up to which a sorted set is compact. Takes a size; default 64]:VALUE:_default' \
'--zset-index=[The structure of sorted sets past the compact limits, of those made from then on. Takes skiplist, fbtree; default fbtree]:VALUE:(skiplist fbtree)' \
'--hll-sparse-max-bytes=[Size up to which a HyperLogLog is sparse. Takes a size; default 3000]:VALUE:_default' \
'--stream-node-max-bytes=[Size of a stream'\''s node; 0 is no limit. Takes a size; default 4kb]:VALUE:_default' \
'--stream-node-max-entries=[Entries in a stream'\''s node; 0 is no limit. Takes 0 or more; default 100]:VALUE:_default' \
'--stream-idmp-duration=[Seconds for which a stream made from then on remembers messages that are to be added once (XADD with IDMP). Takes 1 to 86400; default 100]:VALUE:_default' \
'--stream-idmp-maxsize=[Such messages of each producer that a stream made from then on remembers. Takes 1 to 10000; default 100]:VALUE:_default' \
'--key-policy=[What holds for the keys that a glob matches instead of the options above\: the glob, then pairs of setting and value (POLICY HELP lists them). Of several rules, each in a line of its own, the first whose glob matches holds; POLICY changes them one by one, "" is none. Takes a glob, then pairs of setting and value; \`;\` between rules; default ""]:VALUE:_default' \
'--save=[When to save in the background\: pairs of seconds and changes; a save begins when so many seconds have passed since the last one and so many changes were made. "" never saves. Takes pairs of seconds and changes; default 3600 1 300 100 60 10000]:VALUE:_default' \
'--dbfilename=[The name of the RDB file in dir. Takes text; default "dump.rdb"]:VALUE:_default' \
'--rdbcompression=[Compresses long strings in RDB files. Takes yes, no; default yes]:VALUE:(yes no)' \
'--rdbchecksum=[Writes a checksum at the end of RDB files, and checks it. Takes yes, no; default yes]:VALUE:(yes no)' \
'--rdb-version-check=[Whether RDB files of versions that are not known are refused or tried. Takes strict, relaxed; default strict]:VALUE:(strict relaxed)' \
'--rdb-del-sync-files=[Removes the RDB files of replication when nothing else asks for files. Takes yes, no; default no]:VALUE:(yes no)' \
'--rdb-save-incremental-fsync=[Saves write to disk piece by piece, not all at the end. Takes yes, no; default yes]:VALUE:(yes no)' \
'--stop-writes-on-bgsave-error=[Refuses writes after a save in the background has failed, if there are save points. Takes yes, no; default yes]:VALUE:(yes no)' \
'--appendonly=[Keeps an append-only file\: what was done is on disk within a second, or as appendfsync says. Takes yes, no; default no]:VALUE:(yes no)' \
'--appendfilename=[The beginning of the names of the append-only files. Takes text; default "appendonly.aof"]:VALUE:_default' \
'--appenddirname=[The directory of the append-only files, in dir. Takes text; default "appendonlydir"]:VALUE:_default' \
'--appendfsync=[When the append-only file is forced to disk\: before each reply, once a second, or when the system wants to. Takes everysec, always, no; default everysec]:VALUE:(everysec always no)' \
'--no-appendfsync-on-rewrite=[Forces nothing to disk while a child saves or rewrites. Takes yes, no; default no]:VALUE:(yes no)' \
'--auto-aof-rewrite-percentage=[Rewrites the append-only file when it has grown by so many percent since the last rewrite; 0 never. Takes 0 or more percent; default 100]:VALUE:_default' \
'--auto-aof-rewrite-min-size=[Size below which the append-only file is not rewritten by itself. Takes a size; default 64mb]:VALUE:_default' \
'--aof-load-truncated=[Starts with an append-only file whose end is missing, and cuts off what is not whole; no refuses. Takes yes, no; default yes]:VALUE:(yes no)' \
'--aof-use-rdb-preamble=[Writes the base of the append-only file as an RDB file, which is smaller and loads faster. Takes yes, no; default yes]:VALUE:(yes no)' \
'--aof-timestamp-enabled=[Notes times in the append-only file, so that it can be cut off at one of them. Takes yes, no; default no]:VALUE:(yes no)' \
'--aof-rewrite-incremental-fsync=[Rewrites write to disk piece by piece, not all at the end. Takes yes, no; default yes]:VALUE:(yes no)' \
'--busy-reply-threshold=[How long a script may run before other clients are answered, with BUSY. Takes 0 or more milliseconds; default 5000]:VALUE:_default' \
'--commandlog-execution-slower-than=[Logs commands (SLOWLOG) that take longer; 0 logs all, -1 none. Takes -1 or more microseconds; default 10000]:VALUE:_default' \
'--commandlog-slow-execution-max-len=[How many of the slow commands are kept. Takes 0 or more; default 128]:VALUE:_default' \
'--commandlog-request-larger-than=[Logs commands (COMMANDLOG) whose arguments are larger; -1 none. Takes -1 or more bytes; default 1048576]:VALUE:_default' \
'--commandlog-large-request-max-len=[How many of the large requests are kept. Takes 0 or more; default 128]:VALUE:_default' \
'--commandlog-reply-larger-than=[Logs commands (COMMANDLOG) whose reply is larger; -1 none. Takes -1 or more bytes; default 1048576]:VALUE:_default' \
'--commandlog-large-reply-max-len=[How many of the large replies are kept. Takes 0 or more; default 128]:VALUE:_default' \
'--latency-monitor-threshold=[Keeps events (LATENCY) that take so long; 0 is off. Takes 0 or more milliseconds; default 0]:VALUE:_default' \
'--latency-trace-max-len=[How many traces of requests are kept (LATENCY TRACE). Takes 0 to 1048576; default 1024]:VALUE:_default' \
'--latency-tracking=[Keeps a histogram of each command'\''s time (LATENCY HISTOGRAM, INFO latencystats). Takes yes, no; default yes]:VALUE:(yes no)' \
'--latency-tracking-info-percentiles=[The percentiles of these times in INFO; "" is none. Takes numbers from 0 to 100; default 50 99 99.9]:VALUE:_default' \
'--hot-keys=[Keeps which keys are used most (HOTKEYS TOP)\: of one command in 64 at most. Takes yes, no; default yes]:VALUE:(yes no)' \
'--memory-prefixes=[Prefixes by which keys and their memory are counted (MEMORY PREFIXES), like user\:* session\:*; the longest that a key has counts. learn takes those that keys have, up to the first of \:, /, |, . and #. Empty counts nothing. Takes prefixes, or \`learn\`; default ""]:VALUE:_default' \
'--notify-keyspace-events=[Which changes of keys are published, in letters\: K and E choose the channels, g\$lshzxetdmn the events, A all of them but m and n. Takes letters; default ""]:VALUE:_default' \
'--replicaof=[The primary to replicate, as host and port; no one is none. Takes host and port; default no one]:VALUE:_default' \
'--primaryauth=[The password to log in with at the primary. Takes text; default ""]:VALUE:_default' \
'--primaryuser=[The user to log in as at the primary. Takes text; default ""]:VALUE:_default' \
'--replica-serve-stale-data=[Answers clients while the link to the primary is down, or the first sync is under way. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-read-only=[Refuses writes of clients while this is a replica. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-priority=[The order in which Sentinel promotes replicas, the lowest first; 0 is never. Takes 0 or more; default 100]:VALUE:_default' \
'--replica-announced=[Whether Sentinel tells clients of this replica. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-announce-ip=[The address that this replica tells its primary. Takes text; default ""]:VALUE:_default' \
'--replica-announce-port=[The port that this replica tells its primary; 0 is its own. Takes 0 to 65535; default 0]:VALUE:_default' \
'--replica-lazy-flush=[Frees what a full sync replaces on a thread of its own. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-ignore-maxmemory=[A replica evicts nothing\: its primary does. Takes yes, no; default yes]:VALUE:(yes no)' \
'--replica-ignore-disk-write-errors=[A replica goes on when its files cannot be written; no ends the process. Takes yes, no; default no]:VALUE:(yes no)' \
'--propagation-error-behavior=[What a command of the primary'\''s stream that fails does\: nothing, or ends the process. Takes ignore, panic, panic-on-replicas; default ignore]:VALUE:(ignore panic panic-on-replicas)' \
'--min-replicas-to-write=[Refuses writes while fewer replicas follow; 0 is off. Takes 0 or more; default 0]:VALUE:_default' \
'--min-replicas-max-lag=[How old a replica'\''s last acknowledgement may be for it to count. Takes 0 or more seconds; default 10]:VALUE:_default' \
'--repl-diskless-sync=[Sends snapshots to replicas straight from the child, without a file. Takes yes, no; default yes]:VALUE:(yes no)' \
'--repl-diskless-sync-delay=[How long such a sync waits for more replicas to come. Takes 0 or more seconds; default 5]:VALUE:_default' \
'--repl-diskless-sync-max-replicas=[How many replicas end that wait; 0 waits for all of its time. Takes 0 or more; default 0]:VALUE:_default' \
'--repl-diskless-load=[Whether a replica loads a snapshot by way of a file (disabled) or as it comes\: if it has no data, beside the old data, or in its place. Takes disabled, on-empty-db, swapdb, flush-before-load; default disabled]:VALUE:(disabled on-empty-db swapdb flush-before-load)' \
'--dual-channel-replication-enabled=[Full syncs over two connections, where both sides have this\: the snapshot and the changes come side by side. Takes yes, no; default no]:VALUE:(yes no)' \
'--repl-ping-replica-period=[How often a primary gives its replicas a sign of life. Takes 1 or more seconds; default 10]:VALUE:_default' \
'--repl-timeout=[Silence after which a link of replication is given up. Takes 1 or more seconds; default 60]:VALUE:_default' \
'--repl-disable-tcp-nodelay=[The link to a replica gathers small writes\: fewer packets, later. Takes yes, no; default no]:VALUE:(yes no)' \
'--repl-backlog-size=[How much of the stream is kept for replicas that come back. Less than 16kb is 16kb. Takes a size; default 10mb]:VALUE:_default' \
'--repl-backlog-ttl=[How long it is kept after the last replica has gone; 0 is for ever. Takes 0 or more seconds; default 3600]:VALUE:_default' \
'--cluster-enabled=[There is no cluster yet\: yes stops the start. Takes no; default no]:VALUE:_default' \
'--http-port=[The port at which a console (/), metrics (/metrics), health (/health) and readiness (/ready) are answered over HTTP; 0 is none. Takes 0 to 65535; default 0]:VALUE:_default' \
'--http-tls=[Speaks TLS there and nothing else, by the tls-* options of the TLS port, which need not be open. Takes yes, no; default no]:VALUE:(yes no)' \
'--http-bind=[The addresses to answer HTTP at, written as those of bind. Without http-tls nothing is encrypted. Takes addresses; default 127.0.0.1 -\:\:1]:VALUE:_default' \
'--http-hosts=[Names of this machine that an HTTP request may ask for; addresses and localhost it always may. Takes addresses; default ""]:VALUE:_default' \
'--http-commands=[Whether commands that change something run over HTTP too, for users who may run them; otherwise only those that read. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-port=[The port for clients with TLS; 0 is none. Takes 0 to 65535; default 0]:VALUE:_default' \
'--tls-cluster=[MIGRATE speaks TLS. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-replication=[The link to the primary speaks TLS. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-auth-clients=[Whether clients have to show a certificate. Takes no, yes, optional; default yes]:VALUE:(no yes optional)' \
'--tls-auth-clients-user=[Which field of a client'\''s certificate names its user. Takes CN, URI, off; default off]:VALUE:(CN URI off)' \
'--tls-cert-file=[The server'\''s certificate, in PEM; a chain may follow. Takes text; default ""]:VALUE:_files' \
'--tls-key-file=[The key of the server'\''s certificate, in PEM. Takes text; default ""]:VALUE:_files' \
'--tls-key-file-pass=[The password of that key. Takes text; default ""]:VALUE:_default' \
'--tls-client-cert-file=[The certificate for connections that the server makes; empty is that of tls-cert-file. Takes text; default ""]:VALUE:_files' \
'--tls-client-key-file=[The key of that certificate. Takes text; default ""]:VALUE:_files' \
'--tls-client-key-file-pass=[The password of that key. Takes text; default ""]:VALUE:_default' \
'--tls-ca-cert-file=[Certificates of the authorities that are believed. Takes text; default ""]:VALUE:_files' \
'--tls-ca-cert-dir=[A directory with files of such certificates. Takes text; default ""]:VALUE:_files -/' \
'--tls-protocols=[Versions of TLS that are spoken, TLSv1.2 and TLSv1.3; empty is both. Takes text; default ""]:VALUE:_default' \
'--tls-ciphers=[Cipher suites of TLS 1.2, in OpenSSL'\''s words; empty is all there are. Takes text; default ""]:VALUE:_default' \
'--tls-ciphersuites=[Cipher suites of TLS 1.3; empty is all there are. Takes text; default ""]:VALUE:_default' \
'--tls-prefer-server-ciphers=[The server'\''s order of suites counts, not the client'\''s. Takes yes, no; default no]:VALUE:(yes no)' \
'--tls-session-caching=[Lets clients resume sessions. Takes yes, no; default yes]:VALUE:(yes no)' \
'--tls-session-cache-size=[Sessions that are remembered by id; 0 is none. Takes 0 or more; default 20480]:VALUE:_default' \
'--tls-session-cache-timeout=[How long a session can be resumed. Takes 0 or more seconds; default 300]:VALUE:_default' \
'--tls-auto-reload-interval=[How often the files of certificates are looked at; 0 is only when an option changes. Takes 0 or more seconds; default 0]:VALUE:_default' \
'--rdma-port=[As above\: a port for it stops the start. Takes 0; default 0]:VALUE:_default' \
'-v[Print the version]' \
'--version[Print the version]' \
'-h[Print how it is called]' \
'--help[Print how it is called]' \
'--check-config[Only tell whether the server would start with this configuration]' \
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
