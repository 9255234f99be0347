#!/usr/bin/env bash
# test.sh PACKAGE NEWER: installs a package on a bare Debian system of the same release as this one, starts the server as
# its unit says, uses it, upgrades to the newer package with the data kept, removes and purges it, all with apt, which fetches
# what the package needs. Needs root and mmdebstrap, or a bare system with apt and its lists in the archive that SYSTEM names;
# works in a temporary directory, which it removes.
set -euo pipefail
package=$(realpath "$1")
newer=$(realpath "$2")
# shellcheck disable=SC1091
. /etc/os-release
root=$(mktemp -d)
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$root/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap clean_up EXIT
say() { printf -- '-- %s\n' "$*"; }
enter=(chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive)
become=(setpriv --reuid warmline --regid warmline --init-groups '--bounding-set=-all' --no-new-privs)
within() { timeout 60 "${enter[@]}" "$@"; }
apt() { timeout 300 "${enter[@]}" apt-get --quiet --yes -o Acquire::Retries=3 "$@" >>"$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }; }
ask() { within warmline-cli -s /var/lib/warmline/socket "$@"; }
expect() {
    local wanted=$1 found
    shift
    found=$("$@")
    [ "$found" = "$wanted" ] || { echo "$*: $found, not $wanted" >&2; exit 1; }
}

# The command of the unit, or of that of an instance, as its user, in its directory.
start() {
    local command unit=warmline.service directory
    [ $# -eq 0 ] || unit=warmline@.service
    unit=$(sed "s/%i/${1:-}/g" "$root/usr/lib/systemd/system/$unit")
    read -ra command < <(sed -n 's/^ExecStart=//p' <<<"$unit")
    directory=$(sed -n 's/^WorkingDirectory=//p' <<<"$unit")
    [ "$directory" = "/var/lib/$(sed -n 's/^StateDirectory=//p' <<<"$unit")" ]
    within "${become[@]}" mkdir -p -m 750 "$directory"
    # Each of these takes the place of the one before: in the end the process is the server.
    "${enter[@]}" "${become[@]}" sh -c 'cd "$0" && umask 077 && exec "$@"' "$directory" "${command[@]}" \
        >>"$root/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        if [ "$(ask ping 2>/dev/null)" = PONG ]; then return; fi
        sleep 0.1
    done
    cat "$root/log" >&2
    exit 1
}
stop() {
    kill "$server"
    wait "$server"
    server=
}

say "a bare $VERSION_CODENAME"
if [ -n "${SYSTEM:-}" ]; then
    tar -xf "$SYSTEM" -C "$root"
else
    mmdebstrap --quiet --aptopt='Acquire::Retries "3"' --variant=apt --skip=cleanup/apt/lists \
        "$VERSION_CODENAME" "$root"
fi
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$package" "$root/old.deb"
cp "$newer" "$root/new.deb"

say 'installing'
apt install /old.deb
expect 'warmline:warmline 640' within stat -c '%U:%G %a' /etc/warmline/warmline.conf
expect 'warmline:warmline 750' within stat -c '%U:%G %a' /var/lib/warmline
[ -L "$root/etc/systemd/system/multi-user.target.wants/warmline.service" ]
for file in usr/share/man/man1/warmline-{server,cli,benchmark,check-rdb,check-aof}.1.gz \
    usr/share/bash-completion/completions/warmline-{server,cli,benchmark} usr/share/doc/warmline/copyright; do
    [ -s "$root/$file" ]
done

say 'configuring'
printf 'port 0\nunixsocket /var/lib/warmline/socket\nrename-command KEYS ""\n' >>"$root/etc/warmline/warmline.conf"
within "${become[@]}" warmline-server --check-config /etc/warmline/warmline.conf

say 'using'
start
expect OK ask set kept 'as it was'
expect 3 ask rpush list a b c
expect OK ask config set maxmemory 100mb
expect OK ask config rewrite
expect '' cat <(ask eval 'return redis.call("keys", "*")' 0 | grep -v -i 'unknown' || true)
stop
within sh -c 'test -s /var/lib/warmline/dump.rdb'
within warmline-check-rdb /var/lib/warmline/dump.rdb >/dev/null

say 'an instance'
within cp -p /etc/warmline/warmline.conf /etc/warmline/second.conf
start second
expect '' ask get kept
expect /var/lib/warmline/second cat <(ask config get dir | tail -1)
expect OK ask set kept 'by the second'
stop
within sh -c 'test -s /var/lib/warmline/second/dump.rdb'

say 'upgrading'
apt install /new.deb
start
expect 'as it was' ask get kept
expect 3 ask llen list
expect '104857600' cat <(ask config get maxmemory | tail -1)
stop

say 'removing'
apt remove warmline
[ ! -e "$root/usr/bin/warmline-server" ]
[ -s "$root/var/lib/warmline/dump.rdb" ] && [ -s "$root/etc/warmline/warmline.conf" ]
apt install /new.deb
start
expect 'as it was' ask get kept
stop

say 'purging'
apt purge warmline
[ ! -e "$root/var/lib/warmline" ] && [ ! -e "$root/etc/warmline" ]
if within getent passwd warmline; then exit 1; fi
within find /usr /etc /var -name '*warmline*' -not -path '*/dpkg/*' -not -name '*.log' | { ! grep .; }
say 'installed, used, upgraded, removed and purged'
