"""What the programs share that look at rules by key from outside, and counters.py: servers, connections, values, and what rules have come to."""
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

import compression

PATIENCE_SECONDS = 120


class Refused(bytes):
    """An error that a server answered."""


def encoded(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 1 << 20)

    def send(self, commands):
        self.socket.sendall(b"".join(map(encoded, commands)))

    def reply(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        return Refused(rest) if kind == b"-" else rest

    def replies(self, commands):
        self.send(commands)
        return [self.reply() for _ in commands]

    def ask(self, *words):
        return self.replies([words])[0]

    def do(self, *words):
        reply = self.ask(*words)
        if isinstance(reply, Refused):
            raise RuntimeError(f"{words[:4]}: {reply.decode()}")
        return reply

    def info(self, section, name):
        lines = self.do("INFO", section).decode().splitlines()
        return next(line.split(":", 1)[1] for line in lines if line.startswith(name + ":"))


class Server(Connection):
    """A server of its own, in a directory of its own, which goes with it."""

    def __init__(self, program, options=(), directory=None):
        self.program, self.options = os.path.abspath(program), list(options)
        self.owns_directory = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="policies-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = open(os.path.join(self.directory, "log"), "ab")
        fixed = ["--port", str(self.port), "--dir", self.directory, "--save", "", "--enable-debug-command", "yes"]
        command = [self.program, *fixed, *self.options]
        self.process = subprocess.Popen(command, cwd=self.directory, stdout=self.log, stderr=self.log)
        deadline = time.time() + PATIENCE_SECONDS
        while True:
            try:
                super().__init__(self.port)
                break
            except OSError:
                if self.process.poll() is not None or time.time() > deadline:
                    with open(self.log.name, encoding="utf-8", errors="replace") as log:
                        raise SystemExit(f"{program} does not start: {log.read()}") from None
                time.sleep(0.05)
        while self.ask("PING") != b"PONG":
            time.sleep(0.05)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        if self.owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)


def mapping(reply):
    return dict(zip(reply[::2], reply[1::2]))


def statistics(connection):
    """POLICY STATS by glob."""
    return {rule[b"glob"]: rule for rule in map(mapping, connection.do("POLICY", "STATS"))}


def eventually(what, is_so, seconds=PATIENCE_SECONDS):
    deadline = time.time() + seconds
    while not is_so():
        if time.time() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def exact_statistics(connection):
    eventually("all keys counted", lambda: all(rule[b"state"] == b"exact" for rule in statistics(connection).values()))
    return statistics(connection)


def keys_of(connection, database=0):
    connection.do("SELECT", database)
    cursor, keys = b"0", set()
    while True:
        cursor, some = connection.do("SCAN", cursor, "COUNT", 1000)
        keys.update(some)
        if cursor == b"0":
            return keys


def in_parts(items, size=500):
    items = list(items)
    return (items[at:at + size] for at in range(0, len(items), size))


def pool(seed, kind, count, least=64, most=20_000):
    """Values of a kind, of lengths that are spread evenly by their logarithm."""
    r = random.Random(f"{seed}{kind}")
    make = {"session": compression.session, "api": compression.api, "html": compression.html, "random": compression.noise}[kind]
    lengths = [int(least * (most / least) ** (n / max(count - 1, 1))) for n in range(count)]
    return [make(r, length) if length >= 300 or kind == "random" else make(r, 300)[:length] for length in lengths]
