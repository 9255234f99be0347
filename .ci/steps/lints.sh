#!/usr/bin/env bash
# No warning of the compiler's or clippy's.
. "$(dirname "$0")/../tools.sh"
cargo clippy --workspace --all-targets -- -D warnings
