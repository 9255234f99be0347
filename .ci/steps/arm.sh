#!/usr/bin/env bash
# 64-bit ARM: the whole workspace compiles, and the unit tests of what has NEON in it pass under an emulator.
. "$(dirname "$0")/../tools.sh"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$ARM_RUNNER
cargo check --workspace --target "$ARM"
# Two tests take as long as all others under the emulator, and compare no bytes that others do not compare.
cargo test --target "$ARM" -p warmline-structures -p warmline-wire --lib -- \
    --skip a_crowded_page_takes_what_it_says --skip random_values_are_equally_likely
discard "target/$ARM" target/debug
