#!/usr/bin/env bash
# build.sh [DIRECTORY]: makes the Python wheel there, `target/python` unless told otherwise, and prints its path. BINARIES is
# another directory than `target/dist`, ARCHITECTURE (amd64 or arm64) what its programs are for. Needs pip and binutils.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=$(realpath -m "${1:-target/python}")
binaries=${BINARIES:-target/dist}
WARMLINE_VERSION=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
case ${ARCHITECTURE:-$(dpkg --print-architecture)} in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) echo "no wheel is known for $ARCHITECTURE" >&2; exit 1 ;;
esac
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

cp -r packaging/python/{pyproject.toml,hatch_build.py,README.md,warmline} LICENSE packaging/generated/third-party-notices.txt "$tree/"
rm -rf "$tree/warmline/__pycache__"
install -m 755 packaging/supervise.sh "$tree/warmline/"
for program in warmline-server warmline-cli; do
    install -D -m 755 "$binaries/$program" "$tree/warmline/bin/$program"
done
# The C library that it needs is as new as the newest symbol that the programs use.
glibc=$(readelf --version-info --wide "$tree"/warmline/bin/* | grep -o 'GLIBC_[0-9]*\.[0-9]*' | sort -uV | tail -1)
glibc=${glibc#GLIBC_}
export WARMLINE_VERSION WARMLINE_PLATFORM=manylinux_${glibc/./_}_$machine
"${PYTHON:-python3}" -m pip wheel --quiet --no-deps --wheel-dir "$tree/wheel" "$tree" >&2
mkdir -p "$output"
cp "$tree"/wheel/*.whl "$output/"
basename -a "$tree"/wheel/*.whl | sed "s|^|$output/|"
