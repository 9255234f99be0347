#!/bin/sh
# supervise.sh DIRECTORY PROGRAM OPTION...: runs a server for another program, and ends it when that program ends, however
# it does: standard input is a pipe whose other end only that program has. The directory is removed in the end. What the
# Python and the npm package start.
directory=$1
shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{
    read -r _ <&3
    kill "$server"
} 2>/dev/null &
watcher=$!
exec 3<&-
wait "$server"
status=$?
kill "$watcher" 2>/dev/null
rm -rf "$directory"
exit $status
