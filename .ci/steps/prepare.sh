#!/usr/bin/env bash
# Installs what is missing of Debian's packages and of the Rust toolchain. What cannot be had fails the run.
. "$(dirname "$0")/../tools.sh"

missing=()
needs() {
    command -v "$1" >/dev/null || missing+=("${@:2}")
}
needs cc gcc libc6-dev
# The C++ part of libFuzzer.
needs c++ g++
needs make make
needs aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
needs qemu-aarch64 qemu-user
needs mmdebstrap mmdebstrap
needs lintian lintian
needs pip3 python3-pip python3-venv
needs npm npm
needs systemd-analyze systemd
if [ ${#missing[@]} -gt 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get update -q
    as_root apt-get install -yq --no-install-recommends "${missing[@]}"
fi

if ! command -v rustup >/dev/null; then
    echo 'rustup is missing: install Rust with it first, see https://rustup.rs' >&2
    exit 1
fi
rustup component add rustfmt clippy
rustup target add "$ARM"
rustup toolchain list | grep -q "^$NIGHTLY" ||
    rustup toolchain install "$NIGHTLY" --profile minimal --no-self-update
rustup component add --toolchain "$NIGHTLY" miri rust-src
cargo fuzz --version 2>/dev/null | grep -qx "cargo-fuzz $CARGO_FUZZ" ||
    cargo install --locked --version "$CARGO_FUZZ" cargo-fuzz
# Without optimisation it is built in half of the time, and takes three seconds.
cargo deny --version 2>/dev/null | grep -qx "cargo-deny $CARGO_DENY" ||
    cargo install --locked --debug --version "$CARGO_DENY" cargo-deny
