#!/usr/bin/env python3
"""Rules by key must not show in what leaves a server: its RDB and append-only files and what its replicas are sent go both ways
between it and another server while values are compressed and collections have encodings by rules.

    policy_files.py target/release/warmline-server path/to/valkey-server

Strings of three families (sessions, replies of an API, HTML) and collections of each type and size are written under rules,
and again under others, while files are rewritten and replicas attach. At each end DEBUG DIGEST must be the same, and
DEBUG DIGEST-VALUE of each key; POLICY STATS must have compressed values of each family wherever this server has the data.
"""
import os
import shutil
import sys
import tempfile
import threading

from cross_files import fill
from policy_servers import Connection, Server, eventually, in_parts, keys_of, pool, statistics

FAMILIES = {"sess": "session", "api": "api", "html": "html"}
STRINGS = 400
COMPRESS = [f"{name}:* compress-values yes" for name in FAMILIES]
# Some of what is in cross_files.fill is above the limits and some below.
RULES = [
    ["hash:* hash-max-listpack-entries 2000 hash-max-listpack-value 20", "list:* list-max-listpack-size 7 list-compress-depth 2",
     "set:* set-max-listpack-entries 0", "integers:* set-max-intset-entries 200", "wide:* set-max-intset-entries 0 set-max-listpack-entries 600",
     "sorted:* zset-max-listpack-entries 3 zset-index skiplist", "stream:* stream-node-max-entries 7"],
    ["hash:* hash-max-listpack-entries 0", "list:* list-max-listpack-size -5", "set:* set-max-listpack-entries 4000 set-max-listpack-value 100",
     "integers:* set-max-intset-entries 4000", "sorted:* zset-max-listpack-entries 4000 zset-max-listpack-value 100",
     "stream:* stream-node-max-bytes 200",
     "string:* compress-values yes"],
]
FILES = {"rdb": (), "aof": ("--appendonly", "yes"), "aof without rdb": ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")}
REPLICATION = {"from memory": ("yes", "disabled"), "into memory": ("yes", "swapdb"), "by files": ("no", "disabled")}


class Data:
    """What is written."""

    def __init__(self):
        self.values = {name: pool(1, kind, STRINGS, most=16_000) for name, kind in FAMILIES.items()}

    def strings(self, shift=0):
        return [("SET", f"{name}:{at}", values[(at + shift) % STRINGS]) for name, values in self.values.items() for at in range(STRINGS)]

    def fill(self, server):
        fill(server, True)
        for part in in_parts(self.strings()):
            assert all(reply == b"OK" for reply in server.replies(part))
        for at in range(0, STRINGS, 5):
            server.do("PEXPIREAT", f"api:{at}", 4_000_000_000_000 + at)


def changes(data, shift):
    """What is done to a server beside a sync or a rewrite."""
    commands = data.strings(shift)[shift::3]
    for count in (5, 128, 513, 3000):
        commands += [("LPOP", f"list:{count}"), ("RPUSH", f"list:{count}", "x" * 70), ("HSET", f"hash:{count}", f"new{shift}", "y" * 70)]
        commands += [("SADD", f"set:{count}", f"new{shift}"), ("SADD", f"integers:{count}", 10 ** 6 + shift)]
        commands += [("ZADD", f"sorted:{count}", 3, f"new{shift}")]
        commands += [("XADD", f"stream:{count}", f"{10 ** 6 + shift}-1", "f", "v"), ("APPEND", f"sess:{count % STRINGS}", "tail")]
        commands += [("SETRANGE", f"html:{count % STRINGS}", 40, "changed"), ("COPY", f"sess:{count % 97}", f"api:c{count}")]
        commands += [("RENAME", f"api:{count % STRINGS}", f"sess:r{count}")]
    return commands


class Checks:
    def __init__(self):
        self.failures = 0

    def same(self, what, one, other):
        digests = one.do("DEBUG", "DIGEST"), other.do("DEBUG", "DIGEST")
        different, keys = [], 0
        for database in (0, 3):
            here, there = keys_of(one, database), keys_of(other, database)
            keys += len(here)
            different += here ^ there
            for part in in_parts(sorted(here & there), 200):
                values = [server.do("DEBUG", "DIGEST-VALUE", *part) for server in (one, other)]
                different += [key for key, value, others in zip(part, *values) if value != others]
            for server in (one, other):
                server.do("SELECT", 0)
        is_same = digests[0] == digests[1] and not different
        self.failures += not is_same
        print(f"{'same' if is_same else 'DIFFERENT'}  {what:62} {keys} keys {different[:5] or ''}", flush=True)


def rule(server, number, compress=True):
    server.do("CONFIG", "SET", "key-policy", " ; ".join(RULES[number] + (COMPRESS if compress else [])))


def is_compressed(server):
    figures = statistics(server)
    return all(figures[f"{name}:*".encode()][b"compressed-values"] > STRINGS / 3 for name in FAMILIES)


def wait_until_compressed(server):
    eventually(lambda: f"each family has compressed values: {statistics(server)}", lambda: is_compressed(server), 20)


def settled(server):
    fields = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress")
    eventually("no child writes", lambda: all(server.info("persistence", field) == "0" for field in fields))


def write_files(source, data, kind, has_rules):
    data.fill(source)
    if has_rules:
        wait_until_compressed(source)
        rule(source, 1)
        source.replies(changes(data, 1))
    if kind == "rdb":
        source.do("SAVE")
        return
    settled(source)
    source.do("BGREWRITEAOF")
    source.replies(changes(data, 2))
    settled(source)
    source.replies(changes(data, 3))
    if has_rules:
        wait_until_compressed(source)


def by_files(checks, data, writer, reader, kind, ours):
    """Files that one server has written, another one loads."""
    directory = tempfile.mkdtemp(prefix="policy-files-")
    copy = os.path.join(directory, "copy")
    source = Server(writer, FILES[kind], directory)
    try:
        if writer == ours:
            rule(source, 0)
        write_files(source, data, kind, writer == ours)
        # The append-only file is written behind the reply.
        if kind != "rdb":
            source.do("WAITAOF", 1, 0, 5000)
        shutil.copytree(directory, copy)
        options = FILES[kind]
        if reader == ours:
            options = (*options, *[word for text in RULES[0] + COMPRESS for word in ("--key-policy", *text.split())])
        target = Server(reader, options, copy)
        try:
            way = f"{kind}: {names(writer, reader)}"
            if reader == ours:
                wait_until_compressed(target)
            checks.same(way, source, target)
            if reader == ours:
                target.do("DEBUG", "RELOAD")
                wait_until_compressed(target)
                checks.same(f"{way}, reloaded", source, target)
        finally:
            target.end()
    finally:
        source.end()
        shutil.rmtree(directory, ignore_errors=True)


def by_replication(checks, data, primary, replica, how, ours):
    """A replica attaches while its primary is written to and the rules of either change."""
    sync, load = REPLICATION[how]
    source = Server(primary, ("--repl-diskless-sync", sync, "--repl-diskless-sync-delay", "0"))
    target = Server(replica, ("--repl-diskless-load", load))
    stop = threading.Event()
    try:
        if primary == ours:
            rule(source, 0)
        if replica == ours:
            rule(target, 0)
        data.fill(source)
        if primary == ours:
            wait_until_compressed(source)
        writer = threading.Thread(target=write_on, args=(source.port, data, stop))
        writer.start()
        target.do("REPLICAOF", "127.0.0.1", source.port)
        for server, program in ((source, primary), (target, replica)):
            if program == ours:
                rule(server, 1)
        eventually("the replica is in step", lambda: target.info("replication", "master_link_status") == "up")
        stop.set()
        writer.join()
        eventually("all is sent", lambda: source.info("replication", "master_repl_offset") == target.info("replication", "slave_repl_offset"))
        for server, program in ((source, primary), (target, replica)):
            if program == ours:
                wait_until_compressed(server)
        checks.same(f"replica {how}: {names(primary, replica)}", source, target)
        target.do("REPLICAOF", "NO", "ONE")
        source.do("REPLICAOF", "127.0.0.1", target.port)
        eventually("roles are exchanged", lambda: source.info("replication", "master_link_status") == "up")
        if primary == ours:
            rule(source, 0)
        target.replies(changes(data, 7))
        eventually("all is sent", lambda: target.info("replication", "master_repl_offset") == source.info("replication", "slave_repl_offset"))
        for server, program in ((source, primary), (target, replica)):
            if program == ours:
                wait_until_compressed(server)
        checks.same(f"roles exchanged {how}: {names(replica, primary)}", target, source)
    finally:
        stop.set()
        target.end()
        source.end()


def write_on(port, data, stop):
    connection, shift = Connection(port), 4
    while not stop.is_set():
        connection.replies(changes(data, shift))
        shift += 1


def names(*programs):
    return " -> ".join(os.path.basename(os.path.realpath(program)) for program in programs)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ours, theirs = (os.path.abspath(path) for path in sys.argv[1:])
    checks, data = Checks(), Data()
    ways = [(ours, theirs), (theirs, ours), (ours, ours)]
    for kind in FILES:
        for writer, reader in ways:
            by_files(checks, data, writer, reader, kind, ours)
    for how in REPLICATION:
        for primary, replica in ways:
            by_replication(checks, data, primary, replica, how, ours)
    sys.exit(1 if checks.failures else 0)


if __name__ == "__main__":
    main()
