#!/usr/bin/env bash
# test.sh: runs what the image would hold, in a directory of its own, as its user: the server, and the check of its health.
# Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(mktemp -d)
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap clean_up EXIT
chmod 755 "$root"
./assemble.sh "$root"
# Every runtime gives a container these.
mkdir -p "$root/dev" "$root/proc"
mount -t proc proc "$root/proc"
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/null" c 1 3
enter=(chroot --userspec=65532:65532 "$root")
within() { timeout 60 "${enter[@]}" "$@"; }
within /usr/bin/warmline-server --check-config /etc/warmline/warmline.conf
health() { within "$(sed -n 's/^HEALTHCHECK .*CMD \["\(.*\)", "--check-health"\]$/\1/p' Containerfile)" --check-health; }
[ "$(health 2>&1)" = 'No server is running' ]
"${enter[@]}" /usr/bin/warmline-server --port 0 --unixsocket /data/socket --dir /data --requirepass secret >"$root/log" 2>&1 &
server=$!
ask() { within /usr/bin/warmline-cli --no-auth-warning -a secret -s /data/socket "$@"; }
for _ in $(seq 100); do
    if ask ping 2>/dev/null; then break; fi
    sleep 0.1
done
[ "$(ask set key value)" = OK ]
[ "$(ask get key)" = value ]
[ "$(health)" = '/data/socket answers.' ]
kill "$server"
wait "$server"
server=
[ -s "$root/data/dump.rdb" ]
echo '-- the image runs as its user, without a shell'
