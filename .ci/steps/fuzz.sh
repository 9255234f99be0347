#!/usr/bin/env bash
# Every fuzz target builds and finds nothing for a while: `FUZZ_SECONDS`, 20 unless told otherwise.
. "$(dirname "$0")/../tools.sh"
# The address sanitizer sees only what comes from the C library's allocator.
export RUSTFLAGS='--cfg system_allocator'
# An executor's thread that frees memory may end a moment after it, which is no leak.
export ASAN_OPTIONS=detect_leaks=0
cargo "+$NIGHTLY" fuzz build
# On a line of its own, for a failure within a loop's words ends nothing.
targets=$(cargo "+$NIGHTLY" fuzz list)
[ -n "$targets" ]
for target in $targets; do
    printf -- '-- %s\n' "$target"
    # The same change gets the same verdict; another `FUZZ_SEED` looks elsewhere.
    cargo "+$NIGHTLY" fuzz run "$target" -- -seed="${FUZZ_SEED:-1}" \
        -max_total_time="${FUZZ_SECONDS:-20}" -timeout=60 -verbosity=0 -print_final_stats=1
done
discard fuzz/target
