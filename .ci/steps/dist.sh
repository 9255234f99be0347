#!/usr/bin/env bash
# What users install is built, answers, and ends when it is told to.
. "$(dirname "$0")/../tools.sh"
cargo build --profile dist --workspace
directory=$(mktemp -d)
target/dist/warmline-server --port 0 --unixsocket "$directory/socket" --dir "$directory" --save '' >"$directory/log" &
server=$!
trap 'kill $server 2>/dev/null || true; cat "$directory/log"; rm -rf "$directory"' EXIT
ask() {
    target/dist/warmline-cli -s "$directory/socket" "$@"
}
for _ in $(seq 100); do
    [ "$(ask ping 2>/dev/null)" = PONG ] && break
    sleep 0.1
done
[ "$(ask set key value)" = OK ]
[ "$(ask get key)" = value ]
ask shutdown nosave
wait $server
