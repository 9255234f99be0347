#!/usr/bin/env bash
# Every fuzz target builds and finds nothing for a while: `FUZZ_SECONDS`, 20 unless told otherwise.
. "$(dirname "$0")/../tools.sh"
# The address sanitizer sees only what comes from the C library's allocator.
export RUSTFLAGS='--cfg system_allocator'
# An executor's thread that frees memory may end a moment after it, which is no leak.
export ASAN_OPTIONS=detect_leaks=0
cargo "+$NIGHTLY" fuzz build
for target in $(cargo "+$NIGHTLY" fuzz list); do
    printf -- '-- %s\n' "$target"
    cargo "+$NIGHTLY" fuzz run "$target" -- \
        -max_total_time="${FUZZ_SECONDS:-20}" -timeout=60 -verbosity=0 -print_final_stats=1
done
