#!/usr/bin/env python3
"""Files cross between Warmline and other servers: each writes a data set of every type and encoding, the other loads
it, and DEBUG DIGEST must be the same on both sides.

    cross_files.py target/release/warmline-server path/to/valkey-server [path/to/redis-server...]

Goes both ways with RDB and with append-only files (with and without RDB in the base). Further servers are of Redis,
and given only what they know; their files are loaded here, and ours are not loaded there, since they cannot read them.
With Redis 7.4 and later, which has hashes whose fields expire in its digest in a way of its own, digests are compared
key by key, and such hashes field by field.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time


class Server:
    def __init__(self, program, directory, options=()):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = open(os.path.join(directory, "log"), "w")
        fixed = ["--port", str(self.port), "--dir", directory, "--save", "", "--enable-debug-command", "yes"]
        self.process = subprocess.Popen(
            [program, *fixed, *options], cwd=directory, stdout=self.log, stderr=self.log)
        deadline = time.time() + 60
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port))
                break
            except OSError:
                if self.process.poll() is not None or time.time() > deadline:
                    sys.exit(f"{program} does not start: {open(self.log.name).read()}")
                time.sleep(0.05)
        self.reader = self.socket.makefile("rb")
        while self.ask("PING") != b"PONG":
            time.sleep(0.05)

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        self.socket.sendall(request)
        return self.reply()

    def reply(self):
        line = self.reader.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(max(int(rest), 0))]
        return line[:-2] if kind == b"-" else rest

    def digest(self):
        return self.ask("DEBUG", "DIGEST")

    def rewritten(self):
        self.ask("BGREWRITEAOF")
        while b"aof_rewrite_in_progress:1" in self.ask("INFO", "persistence"):
            time.sleep(0.05)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def fill(server, modern):
    """Values of every type and encoding; `modern` adds what came after Redis 7.0."""
    def ask(*words):
        reply = server.ask(*words)
        assert not (isinstance(reply, bytes) and reply.startswith(b"-")), (words[:3], reply)
    for db in (0, 3):
        ask("SELECT", db)
        for name, value in (("int", 12345), ("big", 2**62), ("negative", -7), ("empty", ""), ("text", "some text"),
                            ("binary", bytes(range(256))), ("long", "ab" * 5000), ("float", "3.25")):
            ask("SET", f"string:{name}", value)
        for count in (1, 5, 127, 128, 129, 513, 3000):
            for n in range(count):
                text = f"{n}:" + "x" * (n % 90)
                ask("RPUSH", f"list:{count}", text)
                ask("SADD", f"set:{count}", text)
                ask("SADD", f"integers:{count}", n * 3 - 7)
                ask("SADD", f"wide:{count}", n * 10**12)
                ask("ZADD", f"sorted:{count}", f"{n % 7}.5", text)
                ask("HSET", f"hash:{count}", text, n)
                ask("XADD", f"stream:{count}", f"{n + 1}-1", "field", text, "n", n)
            ask("PFADD", f"log:{count}", *range(count))
            ask("XGROUP", "CREATE", f"stream:{count}", "group", "0")
            ask("XREADGROUP", "GROUP", "group", "someone", "COUNT", "5", "STREAMS", f"stream:{count}", ">")
            ask("XDEL", f"stream:{count}", "1-1")
            ask("PEXPIREAT", f"list:{count}", 4000000000000 + count)
            if modern:
                for n in range(0, count, 3):
                    ask("HPEXPIREAT", f"hash:{count}", 4000000000000 + n, "FIELDS", 1, f"{n}:" + "x" * (n % 90))
        ask("RPUSH", "list:plain", "x" * 20000, 5, "y" * 9000)
        if modern:  # Older servers spell such scores otherwise in their digests, for Valkey's files too.
            ask("ZADD", "sorted:extremes", "-inf", "low", "+inf", "high", "0", "zero", "1e300", "large", "5e-324", "small")
        ask("XADD", "stream:emptied", "5-5", "f", "v")
        ask("XDEL", "stream:emptied", "5-5")
        ask("GEOADD", "places", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")
        ask("SETBIT", "bits", 10007, 1)
    ask("SELECT", 0)
    ask("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 'from a file' end)")


def fill_fields(server):
    """Hashes whose fields expire, as Redis has them since 7.4."""
    for db in (0, 3):
        server.ask("SELECT", db)
        for count in (1, 5, 127, 129, 513, 3000):
            for n in range(count):
                server.ask("HSET", f"fields:{count}", n, "x" * (n % 90))
                if n % 3 == 0:
                    server.ask("HPEXPIREAT", f"fields:{count}", 4000000000000 + n * 1000, "FIELDS", 1, n)
    server.ask("SELECT", 0)


def contents(server):
    """What is held: digests of values, and in hashes whose fields expire each value and time."""
    found = {}
    for db in (0, 3):
        server.ask("SELECT", db)
        for key in server.ask("KEYS", "*"):
            value = server.ask("DEBUG", "DIGEST-VALUE", key)
            if key.startswith(b"fields:"):
                pairs = server.ask("HGETALL", key)
                fields = dict(zip(pairs[::2], pairs[1::2]))
                times = server.ask("HPEXPIRETIME", key, "FIELDS", len(fields), *fields)
                value = {field: (fields[field], time) for field, time in zip(fields, times)}
            found[db, key] = value, server.ask("PEXPIRETIME", key)
    server.ask("SELECT", 0)
    return found


def cross(kind, writer, reader, modern):
    options = {"rdb": (), "aof": ("--appendonly", "yes"),
               "aof without rdb": ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")}[kind]
    directory = tempfile.mkdtemp(prefix="cross-")
    try:
        source = Server(writer, directory, options)
        fill(source, modern)
        by_key = not modern and isinstance(source.ask("HPEXPIREAT", "none", 1, "FIELDS", 1, "f"), list)
        if by_key:
            fill_fields(source)
        if kind == "rdb":
            assert source.ask("SAVE") == b"OK"
        else:
            source.rewritten()
            for n in range(50):
                source.ask("SET", f"later:{n}", n)
                source.ask("LPOP", "list:513")
        held = contents if by_key else Server.digest
        expected, keys = held(source), source.ask("DBSIZE")
        source.end()
        target = Server(reader, directory, options)
        same = held(target) == expected and target.ask("FCALL", "f", 0) == b"from a file"
        target.end()
        names = " -> ".join(os.path.basename(os.path.realpath(program)) for program in (writer, reader))
        print(f"{'same' if same else 'DIFFERENT'}  {kind:15}  {names}  {keys.decode()} keys in database 0")
        return same
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    ours, theirs = (os.path.abspath(path) for path in sys.argv[1:3])
    outcomes = []
    for kind in ("rdb", "aof", "aof without rdb"):
        outcomes.append(cross(kind, ours, theirs, True))
        outcomes.append(cross(kind, theirs, ours, True))
    for redis in sys.argv[3:]:
        for kind in ("rdb", "aof", "aof without rdb"):
            outcomes.append(cross(kind, os.path.abspath(redis), ours, False))
    sys.exit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()
