#!/usr/bin/env bash
# The everyday gate.
. "$(dirname "$0")/../tools.sh"
cargo test --workspace
# A million simulated commands, where the everyday gate has half as many.
WARMLINE_TEST_SCALE=2 cargo test -p warmline-server --test simulation what_was
# Ten times as many episodes of the simulated network, with other seeds.
WARMLINE_NETWORK_FIRST=13 WARMLINE_NETWORK_EPISODES=160 cargo test -p warmline-server --test simulation network
