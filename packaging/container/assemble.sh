#!/usr/bin/env bash
# assemble.sh DIRECTORY: puts there the whole file system of the image: the programs that `cargo build --profile dist
# --workspace` has built, the C library that they are linked to, a user, and a place for data. No shell, nothing else.
# BINARIES is another directory than `target/dist`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$1
binaries=${BINARIES:-target/dist}
programs=(warmline-server warmline-cli warmline-benchmark)

for program in "${programs[@]}"; do
    install -D -m 755 "$binaries/$program" "$root/usr/bin/$program"
done
for tool in check-rdb check-aof; do
    ln -sf warmline-server "$root/usr/bin/warmline-$tool"
done
# Libraries at the paths by which they are found here; the linker's own path is part of each program.
for program in "${programs[@]}"; do
    ldd "$binaries/$program"
done | grep -o '/[^ ]*' | sort -u | while read -r library; do
    install -D -m 755 "$library" "$root$library"
    # Debian's packages say whose they are, and under which licence.
    package=$(dpkg -S "$library" 2>/dev/null || dpkg -S "$(realpath "$library")")
    package=${package%%:*}
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
mkdir -p "$root/etc" "$root/tmp"
chmod 1777 "$root/tmp"
echo 'warmline:x:65532:65532::/data:/' >"$root/etc/passwd"
echo 'warmline:x:65532:' >"$root/etc/group"
install -D -m 644 warmline.conf "$root/etc/warmline/warmline.conf"
install -D -m 644 -t "$root/usr/share/doc/warmline" LICENSE packaging/generated/third-party-notices.txt
install -d -o 65532 -g 65532 -m 750 "$root/data"
