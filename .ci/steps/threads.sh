#!/usr/bin/env bash
# The tests of I/O threads under the thread sanitizer: a data race fails them.
. "$(dirname "$0")/../tools.sh"
export RUSTFLAGS='-Zsanitizer=thread --cfg system_allocator'
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 suppressions=$PWD/.ci/thread-sanitizer.txt"
cargo "+$NIGHTLY" test -Zbuild-std --target x86_64-unknown-linux-gnu --target-dir target/sanitized \
    -p warmline-server --test io_threads
discard target/sanitized
