#!/usr/bin/env bash
# The everyday gate.
. "$(dirname "$0")/../tools.sh"
cargo test --workspace
