#!/usr/bin/env bash
# build.sh [DIRECTORY]: makes the npm package there, `target/npm` unless told otherwise, and prints its path. BINARIES is another
# directory than `target/dist`, ARCHITECTURE (amd64 or arm64) what its programs are for; FURTHER_BINARIES, if set, has those
# of the other one, for a package of both. Needs npm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
output=$(realpath -m "${1:-target/npm}")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

cp -r packaging/npm/{package.json,index.js,index.d.ts,README.md,bin} LICENSE packaging/generated/third-party-notices.txt "$tree/"
install -m 755 packaging/supervise.sh "$tree/"
# add ARCHITECTURE DIRECTORY: under Node's name of the architecture.
add() {
    for program in warmline-server warmline-cli; do
        install -D -m 755 "$2/$program" "$tree/programs/$1/$program"
    done
}
names=(x64 arm64)
[ "${ARCHITECTURE:-$(dpkg --print-architecture)}" = amd64 ] || names=(arm64 x64)
add "${names[0]}" "${BINARIES:-target/dist}"
[ -z "${FURTHER_BINARIES:-}" ] || add "${names[1]}" "$FURTHER_BINARIES"
mkdir -p "$output"
cd "$tree"
for name in programs/*; do
    cpu+=${cpu:+,}\"${name#programs/}\"
done
npm pkg set --json "version=\"$version\"" "cpu=[$cpu]"
npm pack --silent --pack-destination "$output" | sed "s|^|$output/|"
