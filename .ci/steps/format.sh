#!/usr/bin/env bash
# Code is laid out as rustfmt does it.
. "$(dirname "$0")/../tools.sh"
cargo fmt --all -- --check
cargo fmt --manifest-path fuzz/Cargo.toml -- --check
