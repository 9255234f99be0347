#!/usr/bin/env bash
# What users install on Debian and in containers: installed, started, used, upgraded, removed and purged.
. "$(dirname "$0")/../tools.sh"
packaging/third-party.py --check
cargo build --profile dist --workspace
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
older=$(VERSION=0.0.1 COMPRESSION=gzip packaging/debian/build.sh "$packages")
newer=$(COMPRESSION=gzip packaging/debian/build.sh "$packages")
as_root packaging/debian/test.sh "$older" "$newer"
as_root packaging/container/test.sh
