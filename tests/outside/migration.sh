#!/usr/bin/env bash
# Moves a server's data to Warmline while clients write, by the steps of docs/replication.md, and compares both ends.
#
# usage: migration.sh CLIENT SOURCE_SERVER WARMLINE_SERVER
#
# CLIENT is a redis-cli, valkey-cli or warmline-cli, SOURCE_SERVER a redis-server or valkey-server. Tried are: both ends with a
# password, REPLICAOF NO ONE after a pause, and FAILOVER and back again. PORT (14000) and the next are used.
set -euo pipefail
cli=$1 source_server=$2 warmline=$3
old_port=${PORT:-14000}
new_port=$((old_port + 1))
folder=$(mktemp -d)
mkdir "$folder/old" "$folder/new"
export REDISCLI_AUTH=secret VALKEYCLI_AUTH=secret
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT

old() { "$cli" -p "$old_port" "$@" | tr -d '\r'; }
new() { "$cli" -p "$new_port" "$@" | tr -d '\r'; }
fail() { echo "FAILED: $*"; tail -n 20 "$folder/new/log"; exit 1; }
# field SIDE SECTION FIELD
field() { "$1" INFO "$2" | sed -n "s/^$3://p"; }
# within SECONDS WHAT COMMAND...
within() {
    local ends=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $ends ] || fail "$what"
        sleep 0.05
    done
}
answers() { [ "$("$1" PING 2>/dev/null)" = PONG ]; }
is_up() { [ "$(field "$1" replication master_link_status)" = up ]; }
is_primary() { [ "$(field "$1" replication role)" = master ]; }
# The replica first: what comes in between can only make it seem behind.
has_all_of() {
    local reached
    reached=$(field "$2" replication slave_repl_offset)
    [ "$reached" = "$(field "$1" replication master_repl_offset)" ]
}

start_old() {
    "$source_server" --port "$old_port" --dir "$folder/old" --save '' --requirepass secret --masterauth secret \
        --repl-diskless-sync-delay 0 >"$folder/old/log" 2>&1 &
    within 20 "the source starts" answers old
}

# Data of all types, in two databases, with times to live, also of fields where the source has them.
fill() {
    {
        for n in $(seq 400); do
            printf 'SET string:%s value%s\nSET expiring:%s x EX 86400\nHSET hash:%s f%s v\nZADD zset %s m%s\nSADD set m%s\n' \
                "$n" "$n" "$n" $((n % 50)) "$n" "$n" "$n" "$n"
            printf 'RPUSH list:%s %s\nXADD stream:%s * f v\nPFADD loglog %s\nSETBIT bits %s 1\n' $((n % 50)) "$n" $((n % 9)) "$n" "$n"
        done
        printf 'XGROUP CREATE stream:1 group 0\nXREADGROUP GROUP group me COUNT 20 STREAMS stream:1 >\n'
        printf 'SELECT 3\nSET elsewhere 1\nSELECT 0\n'
    } | old >/dev/null
    old FUNCTION LOAD $'#!lua name=library\nredis.register_function{function_name="answer", callback=function() return 42 end, flags={"no-writes"}}' >/dev/null
    old HPEXPIRE hash:1 86400000 FIELDS 1 f1 >/dev/null || true
}

# Counts up, wherever the primary is: a number that is answered is a write that must be there in the end.
write_for_ever() {
    local count=0 answer port
    while :; do
        port=$(cat "$folder/primary")
        answer=$(timeout 5 "$cli" -p "$port" INCR counter 2>/dev/null | tr -d '\r') || true
        [[ $answer =~ ^[0-9]+$ ]] && count=$((count + 1)) && echo "$answer" >"$folder/confirmed"
        [ ! -e "$folder/stop" ] || break
    done
}
start_writer() {
    rm -f "$folder/stop" "$folder/confirmed"
    echo "$old_port" >"$folder/primary"
    write_for_ever &
    writer=$!
}
stop_writer() {
    touch "$folder/stop"
    wait "$writer"
    [ -s "$folder/confirmed" ] || fail "nothing was written meanwhile"
}

same_data() {
    local key
    [ "$(old DBSIZE)" = "$(new DBSIZE)" ] || fail "$(old DBSIZE) keys there and $(new DBSIZE) here"
    [ "$(old -n 3 GET elsewhere)" = "$(new -n 3 GET elsewhere)" ] || fail "another database"
    for key in string:7 expiring:7; do
        [ "$(old GET $key) $(old PEXPIRETIME $key)" = "$(new GET $key) $(new PEXPIRETIME $key)" ] || fail "$key"
    done
    [ "$(old ZRANGE zset 0 -1 WITHSCORES)" = "$(new ZRANGE zset 0 -1 WITHSCORES)" ] || fail zset
    [ "$(old SMEMBERS set | sort)" = "$(new SMEMBERS set | sort)" ] || fail set
    [ "$(old LRANGE list:7 0 -1)" = "$(new LRANGE list:7 0 -1)" ] || fail list
    [ "$(old HGETALL hash:1 | sort)" = "$(new HGETALL hash:1 | sort)" ] || fail hash
    [ "$(old XRANGE stream:1 - +)" = "$(new XRANGE stream:1 - +)" ] || fail stream
    [ "$(old XPENDING stream:1 group)" = "$(new XPENDING stream:1 group)" ] || fail "stream's group"
    [ "$(old PFCOUNT loglog)" = "$(new PFCOUNT loglog)" ] || fail loglog
    [ "$(old GET bits)" = "$(new GET bits)" ] || fail bits
    [ "$(new FCALL answer 0)" = 42 ] || fail function
    if [ "$(old HPEXPIRETIME hash:1 FIELDS 1 f1 2>/dev/null | grep -c '^[0-9][0-9]*$')" = 1 ]; then
        [ "$(old HPEXPIRETIME hash:1 FIELDS 1 f1)" = "$(new HPEXPIRETIME hash:1 FIELDS 1 f1)" ] || fail "time of a field"
    fi
}

# Step 1: Warmline beside it.
start_beside() {
    "$warmline" --port "$new_port" --dir "$folder/new" --requirepass secret --primaryauth secret \
        --replicaof 127.0.0.1 "$old_port" >>"$folder/new/log" 2>&1 &
    beside=$!
}
# Step 2: until it has all.
wait_for_it() {
    within 60 "the link is up" is_up new
    within 60 "equal offsets" has_all_of old new
}

by_promotion() {
    start_writer
    start_beside
    wait_for_it
    # Step 3: writers wait, and it has what they have written.
    old CLIENT PAUSE 60000 WRITE >/dev/null
    within 10 "equal offsets while nobody writes" has_all_of old new
    same_data
    # Step 4: it is the primary, and clients go there.
    new REPLICAOF NO ONE >/dev/null
    echo "$new_port" >"$folder/primary"
    sleep 1
    stop_writer
    [ "$(new GET counter)" -ge "$(cat "$folder/confirmed")" ] || fail "a confirmed write is lost"
    [ "$(new GET counter)" -gt "$(old GET counter)" ] || fail "nobody has written since"
    old CLIENT UNPAUSE >/dev/null
    echo "ok      $1: REPLICAOF NO ONE after a pause, $(cat "$folder/confirmed") writes"
    kill "$beside"
    wait "$beside" || true
    rm -f "$folder/new/dump.rdb"
}

by_failover() {
    start_writer
    start_beside
    wait_for_it
    old FAILOVER TO 127.0.0.1 "$new_port" >/dev/null
    within 20 "it is the primary" is_primary new
    echo "$new_port" >"$folder/primary"
    sleep 1
    stop_writer
    [ "$(new GET counter)" -ge "$(cat "$folder/confirmed")" ] || fail "a confirmed write is lost"
    # The way back: the old server follows, without another snapshot.
    within 20 "the old server follows" is_up old
    within 20 "equal offsets on the way back" has_all_of new old
    same_data
    [ "$(old GET counter)" = "$(new GET counter)" ] || fail "counters"
    [ "$(field new stats sync_full)" = 0 ] || fail "the old server needed a snapshot"
    echo "ok      $1: FAILOVER TO, $(cat "$folder/confirmed") writes, and the old server follows"
}

name=$("$source_server" --version | grep -o 'v=[0-9.]*')
start_old
fill
by_promotion "$(basename "$source_server") $name"
by_failover "$(basename "$source_server") $name"
