#!/usr/bin/env python3
"""Add up MEMORY USAGE of all keys and compare with MEMORY PREFIXES.

usage: prefixes.py HOST:PORT [--load COMMANDS] [--seed N]

--load first has four clients' worth of random commands change keys of every type: it adds keys to the server, lets them
expire, renames, copies, moves and exchanges databases. Without it what is there is compared, which nobody must change meanwhile.
Ends with 1 if a prefix's keys, bytes, types, encodings or share with a time to live are not what the keys say.
"""
import argparse
import collections
import random
import socket
import sys
import time

PREFIXES = ["user:", "session:", "cache/", "a.b:", "plain"]


class Connection:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.file = self.socket.makefile("rb")

    def read(self):
        line = self.file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind in b"+-":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        return None if rest == b"-1" else [self.read() for _ in range(int(rest))]

    def many(self, commands):
        out = []
        for words in commands:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            out.append(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        self.socket.sendall(b"".join(out))
        return [self.read() for _ in commands]

    def one(self, *words):
        return self.many([words])[0]


def command(rng):
    key = rng.choice(PREFIXES) + str(rng.randrange(3000))
    other = rng.choice(PREFIXES) + str(rng.randrange(3000))
    n = rng.randrange(1000)
    return rng.choice([
        ["SET", key, n], ["SET", key, "v" * rng.randrange(4000), "PX", 1 + n], ["APPEND", key, "x" * n],
        ["SETRANGE", key, n * 10, "y"], ["INCR", key], ["RPUSH", key, *range(n // 4)], ["LPOP", key, 20],
        ["SADD", key, *range(n // 4 + 1)], ["SADD", key, "m%d" % n], ["SPOP", key, 5], ["HSET", key, "f%d" % n, n],
        ["HSET", key, *sum([["f%d" % i, "v" * 20] for i in range(n // 4 + 1)], [])],
        ["HPEXPIRE", key, 1 + n, "FIELDS", 1, "f%d" % (n // 8)], ["ZADD", key, n, "m%d" % n],
        ["ZADD", key, *sum([[i, "m%d" % i] for i in range(n // 4 + 1)], [])], ["XADD", key, "*", "f", "v" * n],
        ["PFADD", key, n], ["EXPIRE", key, 1000], ["PEXPIRE", key, n + 1], ["PERSIST", key], ["DEL", key],
        ["RENAME", key, other], ["COPY", key, other, "REPLACE"], ["MOVE", key, 1], ["SELECT", rng.randrange(3)],
        ["SUNIONSTORE", key, key, other], ["ZUNIONSTORE", key, 2, key, other], ["BITOP", "NOT", key, other],
        ["SWAPDB", 0, 1] if n < 50 else ["GET", key], ["FLUSHDB"] if n < 2 else ["LRANGE", key, 0, -1],
        ["EVAL", "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('DEL', KEYS[2])", 2, key, other, n],
    ])


def scanned(connection):
    """By prefix as `learn` takes it: keys, bytes, keys with a time to live, and both of each type and encoding."""
    found = collections.defaultdict(lambda: [0, 0, 0, collections.Counter(), collections.Counter()])
    for db in range(int(connection.one("CONFIG", "GET", "databases")[1])):
        connection.one("SELECT", db)
        cursor = b"0"
        while True:
            cursor, keys = connection.one("SCAN", cursor, "COUNT", 1000)
            asked = [[*words, key] for key in keys
                     for words in (["MEMORY", "USAGE"], ["PTTL"], ["TYPE"], ["OBJECT", "ENCODING"])]
            answers = connection.many(asked) if asked else []
            for at, key in enumerate(keys):
                size, ttl, kind, encoding = answers[4 * at:4 * at + 4]
                signs = [key[:128].find(sign) for sign in (b":", b"/", b"|", b".", b"#")]
                ends = [end for end in signs if end >= 0]
                name = key[:min(ends) + 1] + b"*" if ends else b"*"
                row = found[name]
                row[0] += 1
                row[1] += size
                row[2] += ttl >= 0
                for table, word in ((row[3], kind), (row[4], encoding)):
                    table[word, b"keys"] += 1
                    table[word, b"bytes"] += size
            if cursor == b"0":
                break
    connection.one("SELECT", 0)
    return found


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def counted(connection):
    rows = {}
    for flat in connection.one("MEMORY", "PREFIXES", "COUNT", 100000):
        row = pairs(flat)
        tables = [collections.Counter({(word, field): value for word, sums in pairs(row[name]).items()
                                       for field, value in pairs(sums).items()}) for name in (b"types", b"encodings")]
        expiring = round(float(row[b"expiring"]) * row[b"keys"])
        rows[row[b"prefix"]] = [row[b"keys"], row[b"bytes"], expiring, *tables], row[b"state"]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    connection = Connection(options.address)
    rng = random.Random(options.seed)
    for at in range(options.load // 100):
        if at == options.load // 300:
            # From here on keys are counted while they change.
            connection.one("CONFIG", "SET", "memory-prefixes", "learn")
        connection.many([command(rng) for _ in range(100)])
    connection.one("SELECT", 0)
    if connection.one("CONFIG", "GET", "memory-prefixes")[1] != b"learn":
        connection.one("CONFIG", "SET", "memory-prefixes", "learn")
    # What has a second to live at most, and what was there before the option, is gone or counted by then.
    time.sleep(3)
    found, rows = scanned(connection), counted(connection)
    if any(state != b"exact" for _, state in rows.values()):
        sys.exit("keys are still being counted: try again")
    differences = [name for name in set(found) | set(rows) if name not in rows or found.get(name) != rows[name][0]]
    for name in differences:
        print(name, "scanned", found.get(name), "counted", rows.get(name))
    keys = sum(row[0] for row in found.values())
    print(f"{keys} keys, {sum(row[1] for row in found.values())} bytes, {len(rows)} prefixes: "
          f"{len(differences)} differ")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
