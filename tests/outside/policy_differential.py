#!/usr/bin/env python3
"""Rules by key must not show: the same random commands go to two servers of one program, one of which keeps values
compressed and gets other rules at random all the while, and every reply must be the same.

    policy_differential.py [--seed 1] [--commands 300000] SERVER

Strings of 64 bytes to 20 KB (sessions and replies of an API in JSON, HTML, random bytes) are written, changed in place, read
whole and in part, copied, renamed, moved, dumped and restored, from clients, transactions and scripts, in three databases that
are exchanged; collections are written beside them. Every 2,000 commands the rules change, and DEBUG DIGEST of all
databases is compared, what has expired meanwhile is asked for, both load their own snapshots or
append-only files anew, or the one with rules has to evict: what is not left there is removed from the other one.
POLICY STATS must have the bytes that MEMORY USAGE adds up to. In the end each family of texts must have compressed values.

Exits with 1 at the first difference, with the seed, the command and both replies.
"""
import argparse
import random
import re
import sys
import time

from policy_servers import Server, eventually, exact_statistics, in_parts, keys_of, pool, statistics

DATABASES, KEYS = 3, 60
# What the values of keys that begin with a letter are made of; those of m are of all kinds, those of s are short.
KINDS = {"a": "session", "b": "api", "c": "html", "d": "random"}
LETTERS = "abcdms"
BATCH, ROUND = 50, 2000
GLOBS = ["a:*", "b:*", "c:*", "d:*", "m:*", "s:*", "*", "[ab]:*", "?:1*", "[^d]:*", "c:?", "h:*", "*:*", "m:[0-4]*", "\\a:*"]
ENCODINGS = [
    ("hash-max-listpack-entries", (0, 3, 64, 512)), ("hash-max-listpack-value", (1, 64, 300)), ("list-max-listpack-size", (-5, -2, 1, 7, 128)),
    ("list-compress-depth", (0, 1, 3)), ("set-max-intset-entries", (0, 4, 512)), ("set-max-listpack-entries", (0, 5, 128)),
    ("set-max-listpack-value", (1, 64)), ("zset-max-listpack-entries", (0, 5, 128)), ("zset-max-listpack-value", (1, 64)),
    ("zset-index", ("fbtree", "skiplist")), ("stream-node-max-entries", (1, 7, 100)), ("stream-node-max-bytes", (100, 4096)),
]
SCRIPTS = [
    "return {redis.call('GET', KEYS[1]), redis.call('STRLEN', KEYS[2])}",
    "local v = redis.call('GET', KEYS[1]); if v then redis.call('SET', KEYS[2], v .. ARGV[1]) end; return redis.call('GET', KEYS[2])",
    "redis.call('SET', KEYS[1], ARGV[1]); redis.call('APPEND', KEYS[1], ARGV[2]); return redis.call('GETRANGE', KEYS[1], 10, -10)",
    "redis.call('SET', KEYS[1], ARGV[1]); redis.call('RENAME', KEYS[1], KEYS[2]); return redis.call('STRLEN', KEYS[2])",
    "return redis.pcall('INCR', KEYS[1])",
]
UNORDERED = {"SMEMBERS", "HGETALL", "SUNION", "SINTER", "KEYS"}


class Different(Exception):
    pass


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pools = {kind: pool(seed, kind, 400) for kind in set(KINDS.values())}
        self.payloads = []
        self.soon = 0
        self.expiring = set()
        table = {
            self.sets: 30, self.gets: 20, self.in_place: 14, self.bits: 8, self.numbers: 5, self.moves: 10, self.serialised: 4,
            self.expiry: 6, self.looks: 6, self.scripts: 4, self.sorts: 1, self.collections: 8, self.transaction: 2, self.logs: 2,
        }
        self.makers, self.weights = zip(*table.items())

    def key(self, letters=LETTERS):
        return f"{self.random.choice(letters)}:{self.random.randrange(KEYS)}"

    def value(self, key):
        r = self.random
        if r.random() < 0.06:
            return r.choice(["", str(r.randrange(10 ** 9)), "1.5", "x" * 63, "y" * 64, "z" * 16383, "w" * 16384, "v" * 129]).encode()
        kind = KINDS.get(key[0]) or r.choice(list(KINDS.values()))
        values = self.pools[kind]
        text = values[r.randrange(80 if key[0] == "s" else len(values))]
        if r.random() < 0.5 and text:
            at = r.randrange(len(text))
            text = text[:at] + str(r.randrange(10 ** 4)).encode() + text[at + 4:]
        return text

    def command(self):
        return self.random.choices(self.makers, self.weights)[0]()

    def time_soon(self):
        """A time that comes before the round's end is looked at, and after all its commands."""
        return self.soon

    def late(self):
        return int(4_000_000_000_000 + self.random.randrange(1000))

    def sets(self):
        r, key = self.random, self.key()
        value = self.value(key)
        return r.choice([
            ("SET", key, value), ("SET", key, value), ("SET", key, value), ("SET", key, value, "KEEPTTL"), ("SET", key, value, "GET"),
            ("SET", key, value, "NX"), ("SET", key, value, "XX", "PXAT", self.late()), ("SETNX", key, value), ("GETSET", key, value),
            ("SET", key, value, "IFEQ", self.value(key)), ("MSET", key, value, self.key(), self.value(key)),
            ("MSETNX", key, value, self.key(), self.value(key)), ("SET", key, value, "PXAT", self.late()),
        ])

    def gets(self):
        r, key = self.random, self.key()
        ends = [r.choice([0, 1, -1, r.randrange(25_000), -r.randrange(25_000)]) for _ in range(2)]
        return r.choice([
            ("GET", key), ("GET", key), ("GET", key), ("GETRANGE", key, *ends), ("GETRANGE", key, *ends), ("SUBSTR", key, *ends), ("STRLEN", key),
            ("MGET", key, self.key(), key, self.key()), ("GETDEL", key), ("GETEX", key), ("GETEX", key, "PXAT", self.late()),
            ("GETEX", key, "PERSIST"), ("LCS", self.key("s"), self.key("s"), "LEN"), ("LCS", self.key("s"), self.key("s")),
            ("LCS", self.key("s"), self.key("s"), "IDX", "MINMATCHLEN", 8, "WITHMATCHLEN"),
        ])

    def in_place(self):
        r, key = self.random, self.key()
        text = self.value(key)[:r.choice([0, 5, 100, 3000])]
        return r.choice([("APPEND", key, text), ("SETRANGE", key, r.choice([0, 3, r.randrange(20_000)]), text)])

    def bits(self):
        r, key, at = self.random, self.key(), self.random.randrange(160_000)
        return r.choice([
            ("SETBIT", key, at, r.randrange(2)), ("GETBIT", key, at), ("BITCOUNT", key), ("BITCOUNT", key, r.randrange(9000), -1),
            ("BITPOS", key, r.randrange(2), r.randrange(100)), ("BITOP", r.choice(["AND", "OR", "XOR"]), self.key(), key, self.key()),
            ("BITOP", "NOT", self.key(), key), ("BITFIELD", key, "GET", "u8", at, "INCRBY", "i5", r.randrange(3000), 7),
            ("BITFIELD", key, "SET", "u16", r.randrange(100_000), 4711), ("BITFIELD_RO", key, "GET", "i64", at),
        ])

    def numbers(self):
        key = self.key()
        return self.random.choice([("INCR", key), ("DECRBY", key, 3), ("INCRBYFLOAT", key, "1.5"), ("SET", key, 17)])

    def moves(self):
        r, key, other = self.random, self.key(), self.key()
        return r.choice([
            ("COPY", key, other), ("COPY", key, other, "REPLACE"), ("COPY", key, other, "DB", r.randrange(DATABASES), "REPLACE"),
            ("RENAME", key, other), ("RENAMENX", key, other), ("MOVE", key, r.randrange(DATABASES)), ("SWAPDB", 0, r.randrange(DATABASES)),
            ("SELECT", r.randrange(DATABASES)), ("SELECT", 0), ("DEL", key), ("UNLINK", key, other),
        ])

    def serialised(self):
        if self.payloads and self.random.random() < 0.6:
            extra = self.random.choice([("REPLACE",), (), ("REPLACE", "ABSTTL")])
            time_to_live = self.late() if "ABSTTL" in extra else 0
            return ("RESTORE", self.key(), time_to_live, self.random.choice(self.payloads), *extra)
        return ("DUMP", self.key("abcdms"))

    def expiry(self):
        r, key = self.random, self.key()
        if r.random() < 0.4:
            key = f"e:{r.randrange(200)}"
            self.expiring.add(key)
            return ("SET", key, self.value(self.key()), "PXAT", self.time_soon())
        return r.choice([("PEXPIREAT", key, self.late()), ("PERSIST", key), ("PEXPIRETIME", key), ("EXPIREAT", key, 1), ("EXPIRETIME", key)])

    def looks(self):
        key = self.key()
        return self.random.choice([
            ("OBJECT", "ENCODING", key), ("OBJECT", "REFCOUNT", key), ("TYPE", key), ("EXISTS", key, self.key()), ("DBSIZE",),
            ("DEBUG", "DIGEST-VALUE", key, self.key()), ("DIGEST", key), ("KEYS", "a:1*"), ("TOUCH", key),
        ])

    def scripts(self):
        key = self.key()
        return ("EVAL", self.random.choice(SCRIPTS), 2, key, self.key(), self.value(key), self.value(key)[:50])

    def sorts(self):
        letter = self.random.choice(LETTERS)
        order = ("BY", letter + ":*", "ALPHA", "GET", letter + ":*", "GET", "#")
        ends = self.random.choice([(), ("DESC", "LIMIT", 2, 5), ("STORE", "h:sorted")])
        return ("SORT", "order", *order, *ends)

    def collections(self):
        r, text, n = self.random, self.value("s:1")[:100], self.random.randrange(40)
        return r.choice([
            ("HSET", f"h:h{n}", n, text), ("HSET", f"h:h{n % 3}", text, n), ("HGETALL", f"h:h{n % 3}"), ("HDEL", f"h:h{n % 3}", n),
            ("RPUSH", f"h:l{n % 3}", text), ("LRANGE", f"h:l{n % 3}", 0, -1), ("LPOP", f"h:l{n % 3}"), ("LSET", f"h:l{n % 3}", 0, text),
            ("SADD", f"h:s{n % 3}", n), ("SADD", f"h:s{n % 3}", text), ("SMEMBERS", f"h:s{n % 3}"), ("SREM", f"h:s{n % 3}", n),
            ("ZADD", f"h:z{n % 3}", n, text), ("ZRANGE", f"h:z{n % 3}", 0, -1, "WITHSCORES"), ("ZPOPMIN", f"h:z{n % 3}"),
            ("XADD", f"h:x{n % 3}", "MAXLEN", 200, f"{self.next_id()}-1", "f", text), ("XRANGE", f"h:x{n % 3}", "-", "+"),
            ("SUNIONSTORE", "h:s2", "h:s0", "h:s1"), ("RENAME", f"h:h{n % 3}", f"a:h{n % 3}"), ("COPY", f"a:h{n % 3}", f"h:h{n % 3}", "REPLACE"),
        ])

    def next_id(self):
        self.identity = getattr(self, "identity", 0) + 1
        return self.identity

    def transaction(self):
        commands = [command for command in (self.command() for _ in range(self.random.randrange(1, 6))) if isinstance(command, tuple)]
        return [("MULTI",), *commands, ("EXEC",) if self.random.random() < 0.9 else ("DISCARD",)]

    def logs(self):
        r, key = self.random, self.key("m")
        elements = [r.randrange(10 ** 6) for _ in range(r.choice([1, 300]))]
        return r.choice([("PFADD", key, *elements), ("PFCOUNT", key, self.key("m")), ("PFMERGE", key, self.key("m"))])

    def rule(self, compressing=None):
        r = self.random
        words = [r.choice(GLOBS)]
        if compressing or r.random() < 0.8:
            words += ["compress-values", "yes" if compressing or r.random() < 0.75 else "no"]
        for name, values in r.sample(ENCODINGS, r.randrange(0 if len(words) > 1 else 1, 5)):
            words += [name, str(r.choice(values))]
        return words


def comparable(command, reply):
    """What of a reply must be the same: what has no order is put into one."""
    name = str(command[0])
    if not isinstance(reply, list):
        return reply
    if name == "HGETALL":
        return sorted(zip(reply[::2], reply[1::2]))
    if name in UNORDERED:
        return sorted(reply)
    return reply


class Play:
    def __init__(self, program, seed):
        options = ["--databases", str(DATABASES), "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes", "--appendfsync", "no"]
        options += ["--auto-aof-rewrite-percentage", "0"]
        self.ruled, self.plain = Server(program, options), Server(program, options)
        self.generator, self.random = Generator(seed), random.Random(seed + 1)
        self.sent, self.tally, self.compressed, self.rules, self.evicted = 0, {}, [], 0, 0

    def end(self):
        self.ruled.end()
        self.plain.end()

    def both(self, commands):
        self.ruled.send(commands)
        self.plain.send(commands)
        found, queued, replies = None, [], []
        for at, command in enumerate(commands):
            one, other = self.ruled.reply(), self.plain.reply()
            replies.append(other)
            one, other = self.comparable_in_turn(command, one, other, queued)
            if one != other and found is None:
                found = (at, command, one, other)
        if found is not None:
            at, command, one, other = found
            before = "\n".join("  " + shown(command) for command in commands[max(0, at - 5):at])
            replies = f"  with rules: {shown(one)}\n  without:    {shown(other)}"
            raise Different(f"after {self.sent + at} commands: {shown(command)}\n{replies}\nbefore it:\n{before}")
        self.sent += len(commands)
        return replies

    @staticmethod
    def comparable_in_turn(command, one, other, queued):
        """Replies of EXEC are compared as those of the commands that it runs."""
        name = command[0]
        if other == b"QUEUED":
            queued.append(command)
        if name == "EXEC" and isinstance(one, list) and isinstance(other, list):
            pairs = [[comparable(command, reply) for command, reply in zip(queued, replies)] for replies in (one, other)]
            queued.clear()
            return pairs
        if name in ("MULTI", "DISCARD", "EXEC"):
            queued.clear()
        return comparable(command, one), comparable(command, other)

    def round(self, count):
        self.generator.soon = int(time.time() * 1000) + 60_000
        sent_to = self.sent + count
        while self.sent < sent_to:
            commands = []
            while len(commands) < BATCH:
                command = self.generator.command()
                commands.extend(command if isinstance(command, list) else [command])
            for command in commands:
                self.tally[command[0]] = self.tally.get(command[0], 0) + 1
            replies = self.both(commands)
            payloads = [reply for command, reply in zip(commands, replies) if command[0] == "DUMP" and reply and reply != b"QUEUED"]
            self.generator.payloads = (self.generator.payloads + payloads)[-40:]

    def change_rules(self):
        r, rules = self.random, [rule[3] for rule in self.ruled.do("POLICY", "LIST")]
        choice = r.randrange(10)
        if choice == 0 and rules:
            self.ruled.do("POLICY", "DEL", *r.sample(rules, r.randrange(1, len(rules) + 1)))
        elif choice == 1:
            chosen = {rule[0]: rule for rule in (self.generator.rule() for _ in range(r.randrange(6)))}
            text = " ; ".join(" ".join(quoted(word) for word in rule) for rule in chosen.values())
            self.ruled.do("CONFIG", "SET", "key-policy", text)
        else:
            place = ["BEFORE", r.randrange(len(rules) + 1)] if r.random() < 0.5 else []
            self.ruled.do("POLICY", "SET", *self.generator.rule(), *place)
        self.rules += 1

    def compare_all(self):
        """The digests of all databases, and of each key where they differ."""
        self.both([("DEBUG", "DIGEST")])
        self.expire()

    def expire(self):
        """What was to expire is brought to its time, and is gone."""
        past = int(time.time() * 1000) + 30
        keys = sorted(self.generator.expiring)
        for database in range(DATABASES):
            self.both([("SELECT", database), *(("PEXPIREAT", key, past) for key in keys)])
        time.sleep(max(0.0, past / 1000 - time.time()) + 0.01)
        for database in range(DATABASES):
            self.both([("SELECT", database), *(("GET", key) for key in keys), ("DBSIZE",)])
        self.both([("SELECT", 0)])
        self.generator.expiring.clear()

    def note(self):
        figures = statistics(self.ruled)
        self.compressed.append(sum(rule[b"compressed-values"] for rule in figures.values()))

    def check_bytes(self):
        """POLICY STATS has what MEMORY USAGE adds up to, at a time when no walk compresses values."""
        for _ in range(20):
            before = counted(self.ruled)
            added = self.added_up({glob: (0, 0) for glob in before})
            if counted(self.ruled) == before:
                break
            time.sleep(0.1)
        if before != added:
            raise Different(f"POLICY STATS counts {before}, MEMORY USAGE {added}")

    def added_up(self, added):
        for database in range(DATABASES):
            for keys in in_parts(keys_of(self.ruled, database)):
                usages = self.ruled.replies([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys])
                explained = self.ruled.replies([("POLICY", "EXPLAIN", key) for key in keys])
                for usage, (_, _, _, glob, *_) in zip(usages, explained):
                    if glob is not None:
                        added[glob] = (added[glob][0] + 1, added[glob][1] + usage)
        self.ruled.do("SELECT", 0)
        return added

    def reload(self):
        """Both do it: strings that were changed in place are as new afterwards, which OBJECT ENCODING tells."""
        how = self.random.choice(["RELOAD", "LOADAOF", "rewrite"])
        for server in (self.ruled, self.plain):
            if how == "rewrite":
                server.do("BGREWRITEAOF")
                eventually("rewritten", lambda server=server: server.info("persistence", "aof_rewrite_in_progress") == "0")
            server.do("DEBUG", "RELOAD" if how == "RELOAD" else "LOADAOF")
        self.both([("DEBUG", "DIGEST")])

    def evict(self):
        """The server with rules has too little memory for a while; values that are left are those of the other one."""
        evicted = lambda: int(self.ruled.info("stats", "evicted_keys"))
        before = evicted()
        while evicted() == before:
            # What is compressed meanwhile may make enough room.
            used = int(self.ruled.info("memory", "used_memory")) - int(self.ruled.info("memory", "mem_not_counted_for_evict"))
            self.ruled.do("CONFIG", "SET", "maxmemory", used - 300_000)
            commands = [self.generator.sets() for _ in range(200)]
            commands = [command for command in commands if command[0] == "SET" and len(command) == 3]
            self.ruled.replies(commands)
            self.plain.replies(commands)
        self.ruled.do("CONFIG", "SET", "maxmemory", 0)
        self.evicted += evicted() - before
        for database in range(DATABASES):
            here, there = keys_of(self.ruled, database), keys_of(self.plain, database)
            if not here <= there:
                raise Different(f"eviction leaves keys that were not there: {sorted(here - there)[:5]}")
            for keys in in_parts(there - here):
                self.plain.do("DEL", *keys)
        self.ruled.do("SELECT", 0)
        self.plain.do("SELECT", 0)
        self.both([("DEBUG", "DIGEST")])

    def run(self, commands):
        self.both([("RPUSH", "order", *range(20))])
        turn = 0
        while self.sent < commands:
            self.change_rules()
            self.round(ROUND // 2)
            if self.random.random() < 0.3:
                self.change_rules()
            self.round(ROUND // 2)
            self.both([("SELECT", 0)])
            self.note()
            self.compare_all()
            if turn % 8 == 3:
                self.check_bytes()
            if turn % 8 == 5:
                self.reload()
            if turn % 16 == 7:
                self.evict()
            if turn % 16 == 15:
                self.both([("FLUSHDB",) if turn % 32 == 15 else ("FLUSHALL", "ASYNC"), ("RPUSH", "order", *range(20))])
            turn += 1
        self.finish()

    def finish(self):
        """Each family of texts is compressed, and its values are as they were."""
        self.ruled.do("CONFIG", "SET", "key-policy", " ; ".join(f"{letter}:* compress-values yes" for letter in "abc"))
        for at in range(400):
            self.both([("SET", f"{letter}:{at}", self.generator.pools[KINDS[letter]][at]) for letter in "abc"])
        at_least = lambda: min(rule[b"compressed-values"] for rule in statistics(self.ruled).values())
        eventually("each family compressed", lambda: at_least() > 300)
        self.both([("GET", f"{letter}:{at}") for letter in "abc" for at in range(400)])
        self.compare_all()
        self.check_bytes()
        for glob, rule in statistics(self.ruled).items():
            values, plain, stored = (rule[b"compressed-" + name] for name in (b"values", b"plain-bytes", b"stored-bytes"))
            print(f"{glob.decode()}: {values} compressed values, {plain} bytes as {stored}")
        with_compressed = sum(count > 0 for count in self.compressed)
        if 2 * with_compressed < len(self.compressed):
            raise Different(f"values were compressed at the end of {with_compressed} of {len(self.compressed)} rounds: too few to tell")
        print(f"compressed values at the end of {with_compressed} of {len(self.compressed)} rounds, {max(self.compressed)} at most;"
              f" {self.rules} changes of rules; {self.evicted} keys evicted")


def counted(server):
    return {glob: (rule[b"keys"], rule[b"bytes"]) for glob, rule in exact_statistics(server).items()}


def shown(words):
    if isinstance(words, (list, tuple)):
        return " ".join(shown(word) for word in words[:12]) + (f" ... {len(words)}" if len(words) > 12 else "")
    if not isinstance(words, bytes):
        return str(words)
    text = words[:60].decode("latin-1")
    return repr(text) + (f"... {len(words)} bytes" if len(words) > 60 else "")


def quoted(word):
    return '"' + word.replace("\\", "\\\\") + '"' if re.search(r"[\\;\s]", word) else word


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", type=int, default=300_000)
    arguments = parser.parse_args()
    started, play = time.time(), Play(arguments.server, arguments.seed)
    try:
        play.run(arguments.commands)
    except Different as difference:
        rules = [rule for rule in play.ruled.ask("POLICY", "LIST") or []]
        sys.exit(f"DIFFERENT, seed {arguments.seed}, {difference}\nrules: {rules}")
    finally:
        play.end()
    names = ", ".join(f"{name} {count}" for name, count in sorted(play.tally.items(), key=lambda row: -row[1]))
    print(f"same: {play.sent} commands, seed {arguments.seed}, {time.time() - started:.0f} s\n{names}")


if __name__ == "__main__":
    main()
