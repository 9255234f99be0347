#!/usr/bin/env bash
# build.sh [DIRECTORY]: makes warmline_VERSION_ARCHITECTURE.deb there, `target/debian` unless told otherwise, of what
# `cargo build --profile dist --workspace` has built, and prints its path. VERSION is another version than the workspace's,
# BINARIES another directory than `target/dist`, ARCHITECTURE what its programs are for, RUNNER what runs them here (see
# ../place.sh). Times within are at most SOURCE_DATE_EPOCH. Needs dpkg-deb and binutils.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=$(realpath -m "${1:-target/debian}")
binaries=${BINARIES:-target/dist}
version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)}
architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

BINARIES=$binaries packaging/place.sh "$tree/usr"
# What the package sets: who is not on this machine is not listened to, and data has its own directory.
install -D -m 640 warmline.conf "$tree/etc/warmline/warmline.conf"
for line in 'bind 127.0.0.1 -::1' 'dir /var/lib/warmline'; do
    sed -i "s|^#${line%% *} .*|$line|" "$tree/etc/warmline/warmline.conf"
    grep -qx "$line" "$tree/etc/warmline/warmline.conf"
done

install -D -m 644 packaging/debian/lintian-overrides "$tree/usr/share/lintian/overrides/warmline"

# The C library that it needs is as new as the newest symbol that the programs use.
glibc=$(readelf --version-info --wide "$tree"/usr/bin/warmline-* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
needed=$(readelf --dynamic --wide "$tree"/usr/bin/warmline-* | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
depends="adduser, libc6 (>= ${glibc#GLIBC_})"
for library in $needed; do
    case $library in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*) ;;
    libgcc_s.so.1) depends+=", libgcc-s1" ;;
    *) echo "no package is known that has $library" >&2; exit 1 ;;
    esac
done

mkdir "$tree/DEBIAN"
install -m 755 packaging/debian/{postinst,prerm,postrm} "$tree/DEBIAN/"
echo /etc/warmline/warmline.conf >"$tree/DEBIAN/conffiles"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: warmline
Version: $version
Architecture: $architecture
Maintainer: The Warmline project
Section: database
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: $depends
Description: in-memory data-structure server, compatible with Redis and Valkey
 Warmline keeps strings, hashes, lists, sets, sorted sets and streams in memory
 and on disk, replicates them, and speaks the protocol of Redis and Valkey. Its
 structures are packed, so that the same data takes less memory.
 .
 With the server come warmline-cli, warmline-benchmark, and tools that check
 files.
CONTROL
(cd "$tree" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
mkdir -p "$output"
package=$output/warmline_${version}_$architecture.deb
dpkg-deb --root-owner-group ${COMPRESSION:+-Z$COMPRESSION} --build "$tree" "$package" >&2
echo "$package"
