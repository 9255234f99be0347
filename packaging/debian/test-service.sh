#!/usr/bin/env bash
# test-service.sh PACKAGE NEWER: as test.sh, on a system that systemd runs in a container: the service starts as it is
# installed, with all that it may not do, and is restarted by an upgrade, with its data. Needs root, mmdebstrap and
# systemd-nspawn, and a machine that lets systemd run within (not every sandbox does).
set -euo pipefail
package=$(realpath "$1")
newer=$(realpath "$2")
# shellcheck disable=SC1091
. /etc/os-release
root=$(mktemp -d)
container=
clean_up() {
    [ -z "$container" ] || { kill "$container" 2>/dev/null && wait "$container" 2>/dev/null; } || true
    rm -rf --one-file-system "$root" "$root.log"
}
trap clean_up EXIT
say() { printf -- '-- %s\n' "$*"; }

say "a $VERSION_CODENAME with systemd"
if [ -n "${SYSTEM:-}" ]; then
    tar -xf "$SYSTEM" -C "$root"
else
    mmdebstrap --quiet --aptopt='Acquire::Retries "3"' --variant=essential --include=adduser,init-system-helpers,systemd,systemd-sysv,dbus \
        "$VERSION_CODENAME" "$root"
fi
cp "$package" "$root/old.deb"
cp "$newer" "$root/new.deb"
systemd-nspawn --quiet --register=no --keep-unit --private-network --directory "$root" --boot </dev/null >"$root.log" 2>&1 &
container=$!
# The first process within, which is the child of the one that started it.
leader=
for _ in $(seq 300); do
    leader=$(pgrep -P "$container" -x systemd || true)
    if [ -n "$leader" ] && [ -S "$root/run/dbus/system_bus_socket" ]; then break; fi
    sleep 0.1
done
within() {
    timeout 60 nsenter --target "$leader" --all --wd=/ /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
        DEBIAN_FRONTEND=noninteractive "$@"
}
expect() {
    local wanted=$1 found
    shift
    found=$("$@")
    [ "$found" = "$wanted" ] || { echo "$*: $found, not $wanted" >&2; within journalctl -u warmline >&2; exit 1; }
}
serves() { expect active within systemctl is-active warmline; expect PONG within warmline-cli ping; }

say 'installing'
within dpkg --install /old.deb
serves
expect enabled within systemctl is-enabled warmline
expect 'Ready to accept connections' within systemctl show --property StatusText --value warmline
within warmline-cli info server | grep process_supervised:systemd >/dev/null

say 'using'
expect OK within warmline-cli set kept 'as it was'
expect OK within warmline-cli config set maxmemory 100mb
expect OK within warmline-cli config rewrite
# One child at a time: the rewrite that begins the append-only file comes when the save has ended.
expect 'Background saving started' within warmline-cli bgsave
expect OK within warmline-cli config set appendonly yes
expect OK within warmline-cli config set io-threads 2
expect 6 within warmline-cli eval 'return 1 + 2 + 3' 0
expect warmline within stat -c %U /var/lib/warmline/appendonlydir
for _ in $(seq 100); do
    if within test -s /var/lib/warmline/dump.rdb; then break; fi
    sleep 0.1
done
within test -s /var/lib/warmline/dump.rdb
for _ in $(seq 100); do
    if within warmline-cli info persistence | grep aof_rewrite_in_progress:0 >/dev/null; then break; fi
    sleep 0.1
done

say 'upgrading'
expect OK within warmline-cli config set appendonly no
before=$(within systemctl show --property MainPID --value warmline)
within dpkg --install /new.deb
serves
[ "$(within systemctl show --property MainPID --value warmline)" != "$before" ]
expect 'as it was' within warmline-cli get kept
expect 104857600 cat <(within warmline-cli config get maxmemory | tail -1)

say 'a fault'
within systemctl kill --signal=SEGV warmline
for _ in $(seq 100); do
    if [ "$(within warmline-cli ping 2>/dev/null)" = PONG ]; then break; fi
    sleep 0.1
done
serves
within journalctl -u warmline | grep 'BUG REPORT START' >/dev/null

say 'removing and purging'
within dpkg --remove warmline
[ "$(within systemctl is-active warmline || true)" = inactive ]
within test -s /var/lib/warmline/dump.rdb
within dpkg --purge warmline
if within test -e /var/lib/warmline -o -e /etc/warmline; then exit 1; fi
say 'the service was installed, used, upgraded, restarted, removed and purged'
