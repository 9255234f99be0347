# shellcheck shell=bash
# What the steps need, in the versions that they were tried with. Sourced by `run` and by each step.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Sanitizers, Miri and the fuzzer need a nightly compiler; a later one may fail where this one does not.
NIGHTLY=nightly-2026-10-30
CARGO_FUZZ=0.13.2
CARGO_DENY=0.20.2
# Only for a release.
CARGO_CYCLONEDX=0.5.9
# Checks the compose file.
COMPOSE_GO=v2.16.2
ARM=aarch64-unknown-linux-gnu
# How this machine runs programs for it.
ARM_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
export NIGHTLY CARGO_FUZZ CARGO_DENY CARGO_CYCLONEDX COMPOSE_GO ARM ARM_RUNNER

if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then
    # shellcheck disable=SC1091
    . "$HOME/.cargo/env"
fi

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# In CI each clone is built once: what incremental builds keep, gigabytes of it, would never be read.
if [ -n "${CI:-}" ]; then
    export CARGO_INCREMENTAL=0
fi

# Removes directories that no later step reads. In CI only: a developer's next build needs them.
discard() {
    if [ -n "${CI:-}" ]; then rm -rf "$@"; fi
}
