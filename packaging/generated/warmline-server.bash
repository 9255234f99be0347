_warmline__server() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="warmline__server"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        warmline__server)
            opts="-v -h --version --help --check-config --check-health --check-rdb --check-aof --print-config --daemonize --supervised --pidfile --loglevel --log-format --log-timestamp-format --logfile --crash-log-enabled --hide-user-data-from-log --set-proc-title --proc-title-template --extended-redis-compatibility --enable-protected-configs --enable-debug-command --enable-module-command --dir --databases --hz --shutdown-timeout --shutdown-on-sigint --shutdown-on-sigterm --bind --bind-source-addr --port --protected-mode --unixsocket --unixsocketgroup --unixsocketperm --tcp-backlog --tcp-keepalive --tcp-nodelay --timeout --maxclients --max-new-connections-per-cycle --max-new-tls-connections-per-cycle --availability-zone --io-threads --prefetch-batch-max-size --client-output-buffer-limit --client-query-buffer-limit --proto-max-bulk-len --maxmemory-clients --tracking-table-max-keys --requirepass --aclfile --acllog-max-len --acl-pubsub-default --maxmemory --maxmemory-policy --maxmemory-samples --maxmemory-eviction-tenacity --lfu-log-factor --lfu-decay-time --active-expire-effort --import-mode --lazyfree-lazy-eviction --lazyfree-lazy-expire --lazyfree-lazy-server-del --lazyfree-lazy-user-del --lazyfree-lazy-user-flush --hash-seed --jemalloc-bg-thread --disable-thp --hash-max-listpack-entries --hash-max-listpack-value --list-max-listpack-size --list-compress-depth --set-max-intset-entries --set-max-listpack-entries --set-max-listpack-value --zset-max-listpack-entries --zset-max-listpack-value --zset-index --hll-sparse-max-bytes --stream-node-max-bytes --stream-node-max-entries --stream-idmp-duration --stream-idmp-maxsize --key-policy --save --dbfilename --rdbcompression --rdbchecksum --rdb-version-check --rdb-del-sync-files --rdb-save-incremental-fsync --stop-writes-on-bgsave-error --appendonly --appendfilename --appenddirname --appendfsync --no-appendfsync-on-rewrite --auto-aof-rewrite-percentage --auto-aof-rewrite-min-size --aof-load-truncated --aof-use-rdb-preamble --aof-timestamp-enabled --aof-rewrite-incremental-fsync --busy-reply-threshold --commandlog-execution-slower-than --commandlog-slow-execution-max-len --commandlog-request-larger-than --commandlog-large-request-max-len --commandlog-reply-larger-than --commandlog-large-reply-max-len --latency-monitor-threshold --latency-trace-max-len --latency-tracking --latency-tracking-info-percentiles --hot-keys --memory-prefixes --notify-keyspace-events --replicaof --primaryauth --primaryuser --replica-serve-stale-data --replica-read-only --replica-priority --replica-announced --replica-announce-ip --replica-announce-port --replica-lazy-flush --replica-ignore-maxmemory --replica-ignore-disk-write-errors --propagation-error-behavior --min-replicas-to-write --min-replicas-max-lag --min-replicas-durable --min-replicas-durable-on-disk --min-replicas-durable-timeout --repl-diskless-sync --repl-diskless-sync-delay --repl-diskless-sync-max-replicas --repl-diskless-load --dual-channel-replication-enabled --repl-ping-replica-period --repl-timeout --repl-disable-tcp-nodelay --repl-backlog-size --repl-backlog-ttl --cluster-enabled --cluster-config-file --cluster-config-save-behavior --cluster-databases --cluster-node-timeout --cluster-port --cluster-replica-validity-factor --cluster-replica-no-failover --cluster-migration-barrier --cluster-allow-replica-migration --cluster-require-full-coverage --cluster-manual-failover-timeout --cluster-allow-reads-when-down --cluster-allow-pubsubshard-when-down --cluster-link-sendbuf-limit --cluster-blacklist-ttl --cluster-preferred-endpoint-type --cluster-slot-stats-enabled --cluster-slot-migration-log-max-len --slot-migration-max-failover-repl-bytes --cluster-announce-ip --cluster-announce-client-ipv4 --cluster-announce-client-ipv6 --cluster-announce-hostname --cluster-announce-human-nodename --cluster-announce-port --cluster-announce-tls-port --cluster-announce-bus-port --cluster-announce-client-port --cluster-announce-client-tls-port --http-port --http-tls --http-bind --http-hosts --http-commands --tls-port --tls-cluster --tls-replication --tls-auth-clients --tls-auth-clients-user --tls-cert-file --tls-key-file --tls-key-file-pass --tls-client-cert-file --tls-client-key-file --tls-client-key-file-pass --tls-ca-cert-file --tls-ca-cert-dir --tls-protocols --tls-ciphers --tls-ciphersuites --tls-prefer-server-ciphers --tls-session-caching --tls-session-cache-size --tls-session-cache-timeout --tls-auto-reload-interval --rdma-port"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --check-rdb)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --check-aof)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --daemonize)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --supervised)
                    COMPREPLY=($(compgen -W "upstart systemd auto no" -- "${cur}"))
                    return 0
                    ;;
                --pidfile)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --loglevel)
                    COMPREPLY=($(compgen -W "debug verbose notice warning nothing" -- "${cur}"))
                    return 0
                    ;;
                --log-format)
                    COMPREPLY=($(compgen -W "legacy logfmt json" -- "${cur}"))
                    return 0
                    ;;
                --log-timestamp-format)
                    COMPREPLY=($(compgen -W "legacy iso8601 milliseconds" -- "${cur}"))
                    return 0
                    ;;
                --logfile)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --crash-log-enabled)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --hide-user-data-from-log)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --set-proc-title)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --proc-title-template)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --extended-redis-compatibility)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --enable-protected-configs)
                    COMPREPLY=($(compgen -W "no yes local" -- "${cur}"))
                    return 0
                    ;;
                --enable-debug-command)
                    COMPREPLY=($(compgen -W "no yes local" -- "${cur}"))
                    return 0
                    ;;
                --enable-module-command)
                    COMPREPLY=($(compgen -W "no yes local" -- "${cur}"))
                    return 0
                    ;;
                --dir)
                    COMPREPLY=()
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o plusdirs
                    fi
                    return 0
                    ;;
                --databases)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hz)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --shutdown-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --shutdown-on-sigint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --shutdown-on-sigterm)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bind)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bind-source-addr)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --protected-mode)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --unixsocket)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --unixsocketgroup)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --unixsocketperm)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tcp-backlog)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tcp-keepalive)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tcp-nodelay)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --maxclients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-new-connections-per-cycle)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-new-tls-connections-per-cycle)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --availability-zone)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --io-threads)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --prefetch-batch-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-output-buffer-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-query-buffer-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --proto-max-bulk-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --maxmemory-clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tracking-table-max-keys)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --requirepass)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aclfile)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --acllog-max-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --acl-pubsub-default)
                    COMPREPLY=($(compgen -W "allchannels resetchannels" -- "${cur}"))
                    return 0
                    ;;
                --maxmemory)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --maxmemory-policy)
                    COMPREPLY=($(compgen -W "volatile-lru volatile-lfu volatile-random volatile-ttl volatile-lrm volatile-s3fifo allkeys-lru allkeys-lfu allkeys-random allkeys-lrm allkeys-s3fifo noeviction" -- "${cur}"))
                    return 0
                    ;;
                --maxmemory-samples)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --maxmemory-eviction-tenacity)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --lfu-log-factor)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --lfu-decay-time)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --active-expire-effort)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --import-mode)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --lazyfree-lazy-eviction)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --lazyfree-lazy-expire)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --lazyfree-lazy-server-del)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --lazyfree-lazy-user-del)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --lazyfree-lazy-user-flush)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --hash-seed)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --jemalloc-bg-thread)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --disable-thp)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --hash-max-listpack-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hash-max-listpack-value)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --list-max-listpack-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --list-compress-depth)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --set-max-intset-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --set-max-listpack-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --set-max-listpack-value)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zset-max-listpack-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zset-max-listpack-value)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --zset-index)
                    COMPREPLY=($(compgen -W "skiplist fbtree" -- "${cur}"))
                    return 0
                    ;;
                --hll-sparse-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stream-node-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stream-node-max-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stream-idmp-duration)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stream-idmp-maxsize)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key-policy)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --save)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --dbfilename)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rdbcompression)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --rdbchecksum)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --rdb-version-check)
                    COMPREPLY=($(compgen -W "strict relaxed" -- "${cur}"))
                    return 0
                    ;;
                --rdb-del-sync-files)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --rdb-save-incremental-fsync)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --stop-writes-on-bgsave-error)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --appendonly)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --appendfilename)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --appenddirname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --appendfsync)
                    COMPREPLY=($(compgen -W "everysec always no" -- "${cur}"))
                    return 0
                    ;;
                --no-appendfsync-on-rewrite)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --auto-aof-rewrite-percentage)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auto-aof-rewrite-min-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aof-load-truncated)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --aof-use-rdb-preamble)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --aof-timestamp-enabled)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --aof-rewrite-incremental-fsync)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --busy-reply-threshold)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --commandlog-execution-slower-than)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --commandlog-slow-execution-max-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --commandlog-request-larger-than)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --commandlog-large-request-max-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --commandlog-reply-larger-than)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --commandlog-large-reply-max-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --latency-monitor-threshold)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --latency-trace-max-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --latency-tracking)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --latency-tracking-info-percentiles)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hot-keys)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --memory-prefixes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --notify-keyspace-events)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --replicaof)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --primaryauth)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --primaryuser)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --replica-serve-stale-data)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --replica-read-only)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --replica-priority)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --replica-announced)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --replica-announce-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --replica-announce-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --replica-lazy-flush)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --replica-ignore-maxmemory)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --replica-ignore-disk-write-errors)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --propagation-error-behavior)
                    COMPREPLY=($(compgen -W "ignore panic panic-on-replicas" -- "${cur}"))
                    return 0
                    ;;
                --min-replicas-to-write)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --min-replicas-max-lag)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --min-replicas-durable)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --min-replicas-durable-on-disk)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --min-replicas-durable-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --repl-diskless-sync)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --repl-diskless-sync-delay)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --repl-diskless-sync-max-replicas)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --repl-diskless-load)
                    COMPREPLY=($(compgen -W "disabled on-empty-db swapdb flush-before-load" -- "${cur}"))
                    return 0
                    ;;
                --dual-channel-replication-enabled)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --repl-ping-replica-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --repl-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --repl-disable-tcp-nodelay)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --repl-backlog-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --repl-backlog-ttl)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-enabled)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-config-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --cluster-config-save-behavior)
                    COMPREPLY=($(compgen -W "sync best-effort" -- "${cur}"))
                    return 0
                    ;;
                --cluster-databases)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-node-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-replica-validity-factor)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-replica-no-failover)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-migration-barrier)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-allow-replica-migration)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-require-full-coverage)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-manual-failover-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-allow-reads-when-down)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-allow-pubsubshard-when-down)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-link-sendbuf-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-blacklist-ttl)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-preferred-endpoint-type)
                    COMPREPLY=($(compgen -W "ip hostname unknown-endpoint" -- "${cur}"))
                    return 0
                    ;;
                --cluster-slot-stats-enabled)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --cluster-slot-migration-log-max-len)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --slot-migration-max-failover-repl-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-client-ipv4)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-client-ipv6)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-hostname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-human-nodename)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-tls-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-bus-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-client-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster-announce-client-tls-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --http-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --http-tls)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --http-bind)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --http-hosts)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --http-commands)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --tls-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-cluster)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --tls-replication)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --tls-auth-clients)
                    COMPREPLY=($(compgen -W "no yes optional" -- "${cur}"))
                    return 0
                    ;;
                --tls-auth-clients-user)
                    COMPREPLY=($(compgen -W "CN URI off" -- "${cur}"))
                    return 0
                    ;;
                --tls-cert-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --tls-key-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --tls-key-file-pass)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-client-cert-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --tls-client-key-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --tls-client-key-file-pass)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-ca-cert-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --tls-ca-cert-dir)
                    COMPREPLY=()
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o plusdirs
                    fi
                    return 0
                    ;;
                --tls-protocols)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-ciphers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-ciphersuites)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-prefer-server-ciphers)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --tls-session-caching)
                    COMPREPLY=($(compgen -W "yes no" -- "${cur}"))
                    return 0
                    ;;
                --tls-session-cache-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-session-cache-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-auto-reload-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rdma-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _warmline__server -o nosort -o bashdefault -o default warmline-server
else
    complete -F _warmline__server -o bashdefault -o default warmline-server
fi
