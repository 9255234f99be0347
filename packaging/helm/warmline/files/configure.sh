#!/bin/sh
# Writes what differs from pod to pod: which server this one follows, and the name under which others find it. Both files
# are on the volume of the data, for Sentinel has both rewritten at each failover: a pod that comes back goes on from there.
set -eu
directory=${CONFIGURATION_DIRECTORY:-/data/configuration}
server=$directory/server.conf
sentinel=$directory/sentinel.conf
own=$POD_NAME.$DOMAIN
first=${POD_NAME%-*}-0.$DOMAIN
umask 077
mkdir -p "$directory"

# set_option FILE OPTION VALUE...: in place of what the file says of it.
set_option() {
    file=$1 option=$2
    shift 2
    touch "$file"
    grep -v "^$option " "$file" >"$file.new" || true
    echo "$option $*" >>"$file.new"
    mv "$file.new" "$file"
}

drop_option() {
    touch "$1"
    grep -v "^$2 " "$1" >"$1.new" || true
    mv "$1.new" "$1"
}

ask_sentinel() {
    if [ -n "${TLS:-}" ]; then
        set -- --tls --cert /tls/tls.crt --key /tls/tls.key --cacert /tls/ca.crt "$@"
    fi
    REDISCLI_AUTH=${PASSWORD:-} timeout 5 valkey-cli -h "$SENTINEL_SERVICE" -p "$SENTINEL_PORT" "$@" \
        SENTINEL GET-PRIMARY-ADDR-BY-NAME "$SENTINEL_NAME" 2>/dev/null | head -n 1
}

# The name of the primary: what the Sentinels that run say; if none does, what the last failover has left here; at first
# the first pod.
primary=
if [ -n "${SENTINEL_NAME:-}" ]; then
    primary=$(ask_sentinel || true)
fi
case $primary in
*[!A-Za-z0-9.:-]* | '') primary= ;;
esac
if [ -z "$primary" ] && [ -n "${SENTINEL_NAME:-}" ] && [ -s "$server" ]; then
    primary=$(sed -n 's/^replicaof \([^ ]*\) .*/\1/p' "$server")
    primary=${primary:-$own}
fi
primary=${primary:-$first}

[ -s "$server" ] || echo 'include /etc/warmline/warmline.conf' >"$server"
if [ "$primary" = "$own" ]; then
    drop_option "$server" replicaof
else
    set_option "$server" replicaof "$primary" "$PORT"
fi
set_option "$server" replica-announce-ip "$own"
set_option "$server" replica-announce-port "$PORT"
if [ -n "${PASSWORD:-}" ]; then
    set_option "$server" requirepass "$PASSWORD"
    set_option "$server" primaryauth "$PASSWORD"
else
    drop_option "$server" requirepass
    drop_option "$server" primaryauth
fi
[ -n "${SENTINEL_NAME:-}" ] || exit 0

# What a Sentinel knows of others stays; where it listens and what it goes by follow the chart.
if ! grep -q "^sentinel monitor $SENTINEL_NAME " "$sentinel" 2>/dev/null; then
    {
        echo 'sentinel resolve-hostnames yes'
        echo 'sentinel announce-hostnames yes'
        echo "sentinel monitor $SENTINEL_NAME $primary $PORT $SENTINEL_QUORUM"
    } >"$sentinel"
fi
sed "s/^\(sentinel monitor $SENTINEL_NAME .*\) [0-9]*\$/\1 $SENTINEL_QUORUM/" "$sentinel" >"$sentinel.new"
mv "$sentinel.new" "$sentinel"
set_option "$sentinel" "sentinel down-after-milliseconds $SENTINEL_NAME" "$SENTINEL_DOWN_AFTER_MS"
set_option "$sentinel" "sentinel failover-timeout $SENTINEL_NAME" "$SENTINEL_FAILOVER_TIMEOUT_MS"
set_option "$sentinel" 'sentinel announce-ip' "$own"
set_option "$sentinel" 'sentinel announce-port' "$SENTINEL_PORT"
set_option "$sentinel" dir /tmp
if [ -n "${PASSWORD:-}" ]; then
    set_option "$sentinel" requirepass "$PASSWORD"
    set_option "$sentinel" "sentinel auth-pass $SENTINEL_NAME" "$PASSWORD"
    set_option "$sentinel" 'sentinel sentinel-pass' "$PASSWORD"
    drop_option "$sentinel" protected-mode
else
    drop_option "$sentinel" requirepass
    drop_option "$sentinel" "sentinel auth-pass $SENTINEL_NAME"
    drop_option "$sentinel" 'sentinel sentinel-pass'
    set_option "$sentinel" protected-mode no
fi
if [ -n "${TLS:-}" ]; then
    set_option "$sentinel" port 0
    set_option "$sentinel" tls-port "$SENTINEL_PORT"
    set_option "$sentinel" tls-cert-file /tls/tls.crt
    set_option "$sentinel" tls-key-file /tls/tls.key
    set_option "$sentinel" tls-ca-cert-file /tls/ca.crt
    set_option "$sentinel" tls-auth-clients "$TLS_AUTH_CLIENTS"
    set_option "$sentinel" tls-replication yes
else
    for option in tls-port tls-cert-file tls-key-file tls-ca-cert-file tls-auth-clients tls-replication; do
        drop_option "$sentinel" "$option"
    done
    set_option "$sentinel" port "$SENTINEL_PORT"
fi
