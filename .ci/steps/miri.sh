#!/usr/bin/env bash
# The small structures' tests under Miri, which sees every wrong use of memory that they make.
. "$(dirname "$0")/../tools.sh"
# Addresses are tagged in `thin_bytes` and the table of keys: exposed, so provenance is permissive there.
export MIRIFLAGS=-Zmiri-permissive-provenance
filters=(
    decimal listpack unaligned_box
)
# A filter that matches nothing would pass unseen.
tests=$(cargo "+$NIGHTLY" miri test -p warmline-structures --lib -- --list)
for filter in "${filters[@]}"; do
    grep -q "$filter.*: test\$" <<<"$tests" || { echo "no test is named $filter" >&2; exit 1; }
done
cargo "+$NIGHTLY" miri test -p warmline-structures --lib -- "${filters[@]}"
discard target/miri
