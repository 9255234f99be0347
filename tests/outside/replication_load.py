"""A random load of data commands for replication.py: those that all servers of a chain know."""
import random
import time

DATABASES = 4
LIBRARIES = 3
SCRIPTS = (
    "redis.call('SET', KEYS[1], ARGV[1]) redis.call('INCR', KEYS[2]) return redis.call('RPUSH', KEYS[3], ARGV[1], ARGV[2])",
    "for i = 1, 10 do redis.call('HSET', KEYS[1], 'f' .. i, ARGV[1] .. i) end redis.call('EXPIRE', KEYS[1], 5000) return 1",
    "local t = redis.call('TIME') redis.call('ZADD', KEYS[1], t[2], ARGV[1]) return redis.call('SPOP', KEYS[2])",
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', 40) return redis.pcall('LPUSH', KEYS[1], 1)",
    "redis.call('SELECT', 2) redis.call('SET', KEYS[1], ARGV[1]) redis.call('SELECT', 0) return redis.call('DEL', KEYS[2])",
    "redis.call('APPEND', KEYS[1], ARGV[1]) return redis.call('NO SUCH COMMAND')",
    "local v = redis.call('RANDOMKEY') if v then redis.call('TOUCH', v) end return redis.call('SADD', KEYS[1], ARGV[1])",
    "redis.call('FLUSHDB') redis.call('SET', KEYS[1], ARGV[1]) return redis.call('RENAME', KEYS[1], KEYS[2])",
)
MIXED_KINDS = ("string", "number", "list", "set", "zset", "hash", "stream", "bits", "places")
# The reference's PFADD keeps, and does not pass on, what it did before it found that a HyperLogLog is damaged: so nothing
# else writes into those.
KINDS = (*MIXED_KINDS, "loglog")


class Load:
    """Makes commands from a seed; whether they succeed is no matter, but most do."""

    def __init__(self, seed, known, field_expiry):
        """`known`: names of commands that every server has; `field_expiry`: whether all can pass on fields that expire."""
        self.random = random.Random(seed)
        self.known, self.field_expiry = known, field_expiry
        groups = [
            (16, self.strings), (8, self.numbers), (12, self.lists), (10, self.sets), (14, self.zsets), (14, self.hashes),
            (12, self.streams), (5, self.bits), (3, self.places), (3, self.loglogs), (8, self.expiries), (6, self.of_any),
            (3, self.scripts), (1, self.functions), (1, self.big), (1, self.whole_databases)]
        self.groups = [group for _, group in groups]
        self.weights = [weight for weight, _ in groups]
        self.stream_id = int(time.time() * 1000)

    # Words.

    def n(self, below):
        return self.random.randrange(below)

    def one_of(self, *words):
        return self.random.choice(words)

    def key(self, kind):
        if self.random.random() < 0.02 and kind != "loglog":
            kind = self.random.choice(MIXED_KINDS)
        return f"{kind}:{min(self.n(60), self.n(60))}"

    def value(self):
        kind = self.n(12)
        if kind == 0:
            return self.random.randbytes(self.n(400))
        if kind == 1:
            return self.n(2**63) - 2**62
        return self.one_of("", "a", "value", "x" * 70, "y" * 300, f"v{self.n(100000)}", self.n(300), "\r\n")

    def member(self):
        return self.one_of(f"m{self.n(40)}", f"m{self.n(400)}", self.n(500), self.n(20), "long" * 20 + str(self.n(9)))

    def members(self):
        count = self.n(300) if self.random.random() < 0.03 else 1 + self.n(5)
        return [self.member() for _ in range(count)]

    def score(self):
        return self.one_of(self.n(100), self.n(10) - 5, round(self.random.random() * 1000, 3), "inf", "-inf", 1e17, 0)

    def short_ms(self):
        return 1 + self.n(250)

    def long_ms(self):
        return 3_600_000 + self.n(10**9)

    def soon_or_late_ms(self):
        return self.short_ms() if self.random.random() < 0.4 else self.long_ms()

    def at_ms(self):
        past = -self.n(10**6) if self.random.random() < 0.1 else self.soon_or_late_ms()
        return int(time.time() * 1000) + past

    def range(self):
        return [self.n(12) - 6, self.n(20) - 6]

    # Commands of each type.

    def strings(self):
        key, other = self.key("string"), self.key("string")
        return self.one_of(
            ["SET", key, self.value()], ["SET", key, self.value(), "PX", self.soon_or_late_ms()],
            ["SET", key, self.value(), "PXAT", self.at_ms()], ["SET", key, self.value(), self.one_of("NX", "XX"), "GET"],
            ["SET", key, self.value(), "KEEPTTL"], ["SETEX", key, 5000, self.value()], ["PSETEX", key, self.short_ms(), "brief"],
            ["SETNX", key, self.value()], ["GETSET", key, self.value()], ["GETDEL", key], ["GETEX", key, "PX", self.soon_or_late_ms()],
            ["GETEX", key, "PERSIST"], ["APPEND", key, self.value()], ["SETRANGE", key, self.n(100), self.value()],
            ["MSET", key, self.value(), other, self.value()], ["MSETNX", key, self.value(), other, self.value()], ["GET", key],
            ["MSETEX", 2, key, self.value(), other, self.value(), "PX", self.soon_or_late_ms()],
            ["DELIFEQ", key, "value"], ["DELEX", key])

    def numbers(self):
        key = self.key("number")
        return self.one_of(
            ["INCR", key], ["DECR", key], ["INCRBY", key, self.n(10**6) - 5 * 10**5], ["DECRBY", key, self.n(1000)],
            ["INCRBYFLOAT", key, self.one_of("0.1", "-3.25", "1e3", "5")], ["SET", key, self.n(10**6)], ["DEL", key])

    def lists(self):
        key, other = self.key("list"), self.key("list")
        push = [self.one_of("LPUSH", "RPUSH", "LPUSHX", "RPUSHX"), key, *self.members()]
        return self.one_of(
            push, push, push, ["LPOP", key], ["RPOP", key, 1 + self.n(4)], ["LSET", key, self.n(8) - 4, self.value()],
            ["LINSERT", key, self.one_of("BEFORE", "AFTER"), self.member(), self.member()],
            ["LREM", key, self.n(5) - 2, self.member()], ["LTRIM", key, *self.range()], ["RPOPLPUSH", key, other],
            ["LMOVE", key, other, self.one_of("LEFT", "RIGHT"), self.one_of("LEFT", "RIGHT")],
            ["LMPOP", 2, key, other, "LEFT", "COUNT", 1 + self.n(3)],
            self.seldom(self.one_of(
                ["BLPOP", key, other, "0.001"], ["BLMPOP", "0.001", 1, key, "RIGHT"], ["BLMOVE", key, other, "LEFT", "LEFT", "0.001"],
                ["BRPOPLPUSH", key, other, "0.001"])))

    def sets(self):
        key, other, target = self.key("set"), self.key("set"), self.key("set")
        add = ["SADD", key, *self.members()]
        return self.one_of(
            add, add, add, ["SREM", key, *self.members()], ["SPOP", key], ["SPOP", key, self.n(20)], ["SMOVE", key, other, self.member()],
            ["SINTERSTORE", target, key, other], ["SUNIONSTORE", target, key, other], ["SDIFFSTORE", target, key, other],
            ["SRANDMEMBER", key, 3])

    def zsets(self):
        key, other, target = self.key("zset"), self.key("zset"), self.key("zset")
        add = ["ZADD", key, *(word for m in self.members() for word in (self.score(), m))]
        options = self.one_of(["NX"], ["XX"], ["GT"], ["LT", "CH"], ["XX", "GT"])
        store = [self.one_of("ZUNIONSTORE", "ZINTERSTORE"), target, 2, key, other, "WEIGHTS", 2, 3, "AGGREGATE", self.one_of("SUM", "MIN", "MAX")]
        return self.one_of(
            add, add, add, ["ZADD", key, *options, self.score(), self.member()], ["ZADD", key, "INCR", 3, self.member()],
            ["ZINCRBY", key, self.n(20) - 10, self.member()], ["ZREM", key, *self.members()], ["ZPOPMIN", key], ["ZPOPMAX", key, 1 + self.n(3)],
            ["ZREMRANGEBYSCORE", key, self.n(50), self.n(100)], ["ZREMRANGEBYRANK", key, *self.range()],
            *self.names(), ["ZRANGESTORE", target, key, 0, self.n(20)], store, ["ZDIFFSTORE", target, 2, key, other],
            ["ZMPOP", 2, key, other, self.one_of("MIN", "MAX"), "COUNT", 2],
            self.seldom(["BZPOPMIN", key, "0.001"]), self.seldom(["BZMPOP", "0.001", 1, key, "MAX"]))

    def names(self):
        """What goes by order of members is defined where all scores are equal, so such sets have keys of their own."""
        key, low = f"names:{self.n(9)}", self.n(400)
        return ["ZADD", key, *(word for m in self.members() for word in (0, m))], ["ZREMRANGEBYLEX", key, f"[m{low}", f"(m{low + 9}"]

    def hashes(self):
        key, field = self.key("hash"), self.member()
        # Redis 8.6 ends with an assertion at HSETEX that names a field twice.
        fields = list(dict.fromkeys(map(str, self.members()[:20])))
        put = ["HSET", key, *(word for f in fields for word in (f, self.value()))]
        plain = self.one_of(
            put, put, put, ["HSETNX", key, field, self.value()], ["HDEL", key, *fields], ["HINCRBY", key, f"n{self.n(5)}", self.n(100)],
            ["HINCRBYFLOAT", key, f"x{self.n(5)}", "0.25"], ["HMSET", key, field, self.value()], ["HGETDEL", key, "FIELDS", 1, field])
        if not self.field_expiry or self.random.random() < 0.5:
            return plain
        count = ["FIELDS", len(fields), *fields]
        pairs = ["FIELDS", len(fields), *(word for f in fields for word in (f, self.value()))]
        return self.one_of(
            ["HPEXPIRE", key, self.soon_or_late_ms(), *count], ["HEXPIRE", key, 5000 + self.n(9999), self.one_of("NX", "XX", "GT", "LT"), *count],
            ["HPEXPIREAT", key, self.at_ms(), *count], ["HPERSIST", key, *count], ["HSETEX", key, "PX", self.soon_or_late_ms(), *pairs],
            ["HSETEX", key, self.one_of("FXX", "FNX"), "PXAT", self.at_ms(), *pairs], ["HSETEX", key, "KEEPTTL", *pairs],
            ["HGETEX", key, "PX", self.soon_or_late_ms(), *count], ["HGETEX", key, "PERSIST", *count])

    def streams(self):
        key, group, consumer = self.key("stream"), f"g{self.n(3)}", f"c{self.n(4)}"
        self.stream_id += self.n(3)
        entry = f"{self.stream_id}-{self.n(1000)}"
        other = f"{self.stream_id - self.n(300)}-{self.n(1000)}"
        trim = self.one_of(["MAXLEN", self.n(60)], ["MAXLEN", "~", self.n(60)], ["MINID", other], ["MINID", "~", other])
        add = ["XADD", key, self.one_of("*", entry, f"{self.stream_id}-*"), "field", self.value(), self.member(), self.value()]
        read = ["XREADGROUP", "GROUP", group, consumer, "COUNT", 1 + self.n(8), *self.one_of([], [], ["NOACK"]), "STREAMS", key, ">"]
        return self.one_of(
            add, add, add, add, ["XADD", key, "NOMKSTREAM", *trim, entry, "f", "v"], ["XTRIM", key, *trim], ["XDEL", key, entry, other],
            ["XGROUP", "CREATE", key, group, self.one_of("0", "$", other), "MKSTREAM"], ["XGROUP", "CREATE", key, group, "$"],
            ["XGROUP", "SETID", key, group, self.one_of("0", "$", other)], ["XGROUP", "CREATECONSUMER", key, group, consumer],
            ["XGROUP", "DELCONSUMER", key, group, consumer], self.seldom(["XGROUP", "DESTROY", key, group]), read, read, read, read,
            ["XACK", key, group, entry, other], ["XAUTOCLAIM", key, group, consumer, 0, "0", "COUNT", 5],
            ["XAUTOCLAIM", key, group, consumer, 0, other, "COUNT", 3, "JUSTID"], ["XCLAIM", key, group, consumer, 0, entry, other],
            ["XCLAIM", key, group, consumer, 0, other, "FORCE", "RETRYCOUNT", 3], self.seldom(["XSETID", key, f"{self.stream_id + 5}-0"]))

    def bits(self):
        key, other = self.key("bits"), self.key("bits")
        return self.one_of(
            ["SETBIT", key, self.n(2000), self.n(2)], ["SETBIT", key, self.n(2000), 1],
            ["BITOP", self.one_of("AND", "OR", "XOR"), self.key("bits"), key, other], ["BITOP", "NOT", key, other],
            ["BITFIELD", key, "SET", "u8", self.n(100), self.n(256), "OVERFLOW", self.one_of("WRAP", "SAT", "FAIL"), "INCRBY", "i5", f"#{self.n(50)}", 7])

    def places(self):
        key = self.key("places")
        place = [round(self.random.uniform(-170, 170), 5), round(self.random.uniform(-80, 80), 5), self.member()]
        centre = ["FROMLONLAT", *place[:2], "BYRADIUS", 3000, "km"]
        return self.one_of(
            ["GEOADD", key, *place], ["GEOADD", key, *place], ["GEOADD", key, "NX", *place], ["GEOSEARCHSTORE", self.key("places"), key, *centre],
            ["GEORADIUS", key, *place[:2], 2000, "km", "STORE", self.key("places")], ["ZREM", key, self.member()])

    def loglogs(self):
        key = self.key("loglog")
        many = [self.n(10**6) for _ in range(self.one_of(1, 5, 200))]
        return self.one_of(["PFADD", key, *many], ["PFADD", key, *many], ["PFMERGE", self.key("loglog"), key, self.key("loglog")], ["PFCOUNT", key])

    def any_key(self):
        return self.key(self.random.choice(MIXED_KINDS))

    def expiries(self):
        key = self.key(self.random.choice(KINDS))
        condition = self.one_of([], [], [], ["NX"], ["XX"], ["GT"], ["LT"])
        return self.one_of(
            ["PEXPIRE", key, self.soon_or_late_ms(), *condition], ["PEXPIREAT", key, self.at_ms(), *condition],
            ["EXPIRE", key, self.one_of(-1, 4000, 9000)], ["EXPIREAT", key, int(time.time()) + 7000], ["PERSIST", key], ["TTL", key])

    def of_any(self):
        """Commands on keys of any type. A stream or list that only grows makes every check longer, so DEL is frequent."""
        kind = self.random.choice(KINDS)
        key, other, db = self.key(kind), self.key(kind), self.n(DATABASES)
        return self.one_of(
            ["DEL", key], ["DEL", key, other], ["UNLINK", key, other], ["RENAME", key, other], ["RENAMENX", key, other],
            ["COPY", key, other, *self.one_of([], ["REPLACE"], ["DB", db], ["DB", db, "REPLACE"])], ["MOVE", key, db],
            ["SORT", self.key(self.one_of("list", "set")), "ALPHA", "STORE", self.key("list")],
            ["SORT", self.key("zset"), "ALPHA", "LIMIT", 0, 5, "STORE", self.key("list")], ["TOUCH", key], ["SELECT", db])

    def scripts(self):
        script = self.one_of(*SCRIPTS[:7]) if self.random.random() < 0.9995 else SCRIPTS[7]
        keys = [self.any_key() for _ in range(3)]
        if "ZADD" in script:
            keys[:2] = self.key("zset"), self.key("set")
        return ["EVAL", script, 3, *keys, self.value(), self.value()]

    def functions(self):
        name = f"library{self.n(LIBRARIES)}"
        body = f"function(keys, args) redis.call('SET', keys[1], '{self.n(1000)}') return redis.call('HSET', keys[2], 'f', args[1]) end"
        load = ["FUNCTION", "LOAD", "REPLACE", f"#!lua name={name}\nredis.register_function('{name}_f', {body})"]
        call = ["FCALL", f"{name}_f", 2, self.key("string"), self.key("hash"), self.value()]
        return self.one_of(load, call, call, call, call, ["FUNCTION", "DELETE", name], self.seldom(["FUNCTION", "FLUSH"]))

    def big(self):
        if self.random.random() < 0.7:
            return self.lists()
        return self.one_of(
            ["SET", self.key("string"), self.random.randbytes(1 << self.n(21))], ["SETRANGE", self.key("string"), self.n(1 << 20), "end"],
            ["RPUSH", self.key("list"), *("x" * self.n(3000) for _ in range(200))], ["SADD", self.key("set"), *range(2000)],
            ["ZADD", self.key("zset"), *(word for n in range(1000) for word in (n, f"many{n}"))],
            ["HSET", self.key("hash"), *(word for n in range(1000) for word in (f"many{n}", n))])

    def whole_databases(self):
        if self.random.random() < 0.6:
            return ["SWAPDB", self.n(DATABASES), self.n(DATABASES)]
        return self.seldom(self.one_of(["FLUSHDB"], ["FLUSHDB", "ASYNC"], ["FLUSHALL"], ["FLUSHALL", "ASYNC"]), 0.005)

    def seldom(self, command, chance=0.1):
        return command if self.random.random() < chance else ["PING"]

    # Streams of commands.

    def command(self):
        while True:
            command = self.random.choices(self.groups, self.weights)[0]()
            if command[0].lower() in self.known:
                return command

    def batch(self, count):
        commands = []
        while len(commands) < count:
            if self.random.random() > 0.04:
                commands.append(self.command())
                continue
            inner = [self.command() for _ in range(1 + self.n(8))]
            broken = [["SET", "too", "many", "words", "here"]] if self.random.random() < 0.05 else []
            watch = [["WATCH", self.any_key()]] if self.random.random() < 0.2 else []
            commands += [*watch, ["MULTI"], *inner, *broken, [self.one_of("EXEC", "EXEC", "EXEC", "EXEC", "DISCARD")]]
        return commands

    def waiting(self):
        """A command that waits until another client gives it something."""
        key = self.key("list")
        return self.one_of(
            ["BLPOP", key, 0], ["BRPOP", key, self.key("list"), 0], ["BLMOVE", key, self.key("list"), "LEFT", "RIGHT", 0],
            ["BLMPOP", 0, 1, key, "LEFT", "COUNT", 3], ["BZPOPMAX", self.key("zset"), 0], ["BZMPOP", 0, 1, self.key("zset"), "MIN"],
            ["XREADGROUP", "GROUP", "g0", "waiting", "COUNT", 5, "BLOCK", 0, "STREAMS", self.key("stream"), ">"])
