#!/usr/bin/env bash
# What users install on Debian and in containers: installed, started, used, upgraded, removed and purged.
. "$(dirname "$0")/../tools.sh"
packaging/third-party.py --check
cargo build --profile dist --workspace
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
older=$(VERSION=0.0.1 COMPRESSION=gzip packaging/debian/build.sh "$packages")
newer=$(COMPRESSION=gzip packaging/debian/build.sh "$packages")
lintian --fail-on error "$newer"
# Words of units that systemd does not know are warnings to it.
mkdir "$packages/root"
dpkg-deb -x "$newer" "$packages/root"
cp /usr/lib/systemd/system/*.target "$packages/root/usr/lib/systemd/system/"
found=$(systemd-analyze verify --man=no --root="$packages/root" warmline.service warmline@second.service 2>&1)
[ -z "$found" ] || { echo "$found" >&2; exit 1; }
as_root packaging/debian/test.sh "$older" "$newer"
as_root packaging/container/test.sh
