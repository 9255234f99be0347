#!/usr/bin/env bash
# What users install on Debian and in containers: installed, started, used, upgraded, removed and purged.
. "$(dirname "$0")/../tools.sh"
packaging/third-party.py --check
cargo build --profile dist --workspace
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
older=$(VERSION=0.0.1 COMPRESSION=gzip packaging/debian/build.sh "$packages")
architecture=$(dpkg --print-architecture)
COMPRESSION=gzip packaging/release.sh --no-bills --architectures "$architecture" --binaries "$architecture=target/dist" "$packages/release"
(cd "$packages/release" && sha256sum --quiet -c SHA256SUMS)
newer=$(ls "$packages"/release/*.deb)
mkdir "$packages/tarball"
tar -xzf "$packages"/release/*.tar.gz -C "$packages/tarball" --strip-components=1
"$packages/tarball/bin/warmline-server" --check-config "$packages/tarball/share/doc/warmline/warmline.conf"
[ -s "$packages/tarball/share/doc/warmline/third-party-notices.txt" ]
lintian --fail-on error "$newer"
# Words of units that systemd does not know are warnings to it.
mkdir "$packages/root"
dpkg-deb -x "$newer" "$packages/root"
cp /usr/lib/systemd/system/*.target "$packages/root/usr/lib/systemd/system/"
found=$(systemd-analyze verify --man=no --root="$packages/root" warmline.service warmline@second.service 2>&1)
[ -z "$found" ] || { echo "$found" >&2; exit 1; }
as_root packaging/debian/test.sh "$older" "$newer"
as_root packaging/container/test.sh
if command -v go >/dev/null && GOBIN=$packages/bin go install "github.com/compose-spec/compose-go/v2/cmd@$COMPOSE_GO"; then
    touch "$packages/credentials.conf"
    (cd packaging/container && WARMLINE_CREDENTIALS=$packages/credentials.conf "$packages/bin/cmd" -format json compose.yaml >/dev/null)
else
    echo '-- the program that reads compose files cannot be built: the compose file was NOT checked'
fi
packaging/helm/test.sh
packaging/python/test.sh
packaging/npm/test.sh
tests/recipes/run target/dist/warmline-server
