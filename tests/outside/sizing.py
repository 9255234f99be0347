#!/usr/bin/env python3
"""Bytes that keys and elements take, as docs/sizing.md lists them: sizing.py PORT [PORT ...]

Each server at 127.0.0.1 **is emptied**. One column a server, by the growth of used_memory.
"""
import itertools
import socket
import sys

N = 100_000


class Server:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 120)
        self.replies = self.socket.makefile("rb")

    def ask(self, *words):
        self.send([words])
        return self.reply()

    def send(self, commands):
        out = bytearray()
        for words in commands:
            out += b"*%d\r\n" % len(words)
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                out += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(out)

    def reply(self):
        line = self.replies.readline()
        if line[:1] == b"-":
            raise RuntimeError(line.decode())
        return self.replies.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line

    def run(self, commands):
        commands = iter(commands)
        while batch := list(itertools.islice(commands, 500)):
            self.send(batch)
            for _ in batch:
                self.reply()

    def used(self):
        return int(next(line for line in self.ask("INFO", "memory").split() if line.startswith(b"used_memory:"))[12:])


def text(i, length):
    return str(i).rjust(length, "x")


def keys(command, *arguments):
    return N, lambda: ((command, text(i, 20), *arguments) for i in range(N))


def one(command, *arguments):
    return N, lambda: ((command, "key", *(a(i) if callable(a) else a for a in arguments)) for i in range(N))


CASES = {
    "string, key of 20 B, value of 10 B": keys("SET", "v" * 10),
    "string, value of 100 B": keys("SET", "v" * 100),
    "string, value of 1,000 B": keys("SET", "v" * 1000),
    "string, an integer": keys("SET", 123456),
    "the same with a time to live": keys("SET", 123456, "EX", 100000),
    "hash of 1 field, 5 B + 10 B": keys("HSET", "field", "v" * 10),
    "hash of 5 fields, 5 B + 10 B": keys("HSET", *itertools.chain(*((f"fiel{n}", "v" * 10) for n in range(5)))),
    "list of 5 elements of 10 B": keys("RPUSH", *["v" * 10] * 5),
    "set of 5 members of 10 B": keys("SADD", *(text(n, 10) for n in range(5))),
    "sorted set of 5 members of 10 B": keys("ZADD", *itertools.chain(*((n, text(n, 10)) for n in range(5)))),
    "stream of 5 entries of 5 B + 10 B": (
        N,
        lambda: (("XADD", text(i % (N // 5), 20), f"{i + 1}-1", "field", "v" * 10) for i in range(N)),
    ),
    "field of a large hash, 10 B + 10 B": one("HSET", lambda i: text(i, 10), "v" * 10),
    "field of a large hash, 10 B + 100 B": one("HSET", lambda i: text(i, 10), "v" * 100),
    "field with a time to live, 10 B + 10 B": one(
        "HSETEX", "EX", 100000, "FIELDS", 1, lambda i: text(i, 10), "v" * 10
    ),
    "member of a large set, 10 B": one("SADD", lambda i: text(i, 10)),
    "member of a large set, 36 B": one("SADD", lambda i: text(i, 36)),
    "member of a set of random integers": one("SADD", lambda i: i * 7919 + i * i % 7919),
    "member of a large sorted set, 10 B": one("ZADD", lambda i: i * 7919 % N, lambda i: text(i, 10)),
    "member of a large sorted set, 36 B": one("ZADD", lambda i: i * 7919 % N, lambda i: text(i, 36)),
    "element of a long list, 10 B": one("RPUSH", lambda i: text(i, 10)),
    "element of a long list, 100 B": one("RPUSH", lambda i: text(i, 100)),
    "entry of a long stream, 5 B + 10 B": one("XADD", lambda i: f"{i + 1}-1", "field", lambda i: text(i, 10)),
}


def main():
    servers = [Server(int(port)) for port in sys.argv[1:]]
    for name, (count, commands) in CASES.items():
        row = []
        for server in servers:
            server.ask("FLUSHALL", "SYNC")
            before = server.used()
            server.run(commands())
            made = int(server.ask("DBSIZE")[1:])
            row.append((server.used() - before) / (made if made > 1 else count))
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row) + " |", flush=True)
    for server in servers:
        server.ask("FLUSHALL", "SYNC")


if __name__ == "__main__":
    main()
