#!/usr/bin/env bash
# The small structures' tests under Miri, which sees every wrong use of memory that they make.
. "$(dirname "$0")/../tools.sh"
# Addresses are tagged in `thin_bytes` and the table of keys: exposed, so provenance is permissive there.
export MIRIFLAGS=-Zmiri-permissive-provenance
cargo "+$NIGHTLY" miri test -p warmline-structures --lib -- \
    decimal listpack thin_bytes unaligned_box
