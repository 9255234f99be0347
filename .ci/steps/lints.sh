#!/usr/bin/env bash
# No warning of the compiler's or clippy's, in the fuzz targets neither: they are a workspace of their own.
. "$(dirname "$0")/../tools.sh"
cargo clippy --workspace --all-targets -- -D warnings
cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target -- -D warnings
