#!/usr/bin/env python3
"""Processor time of each data command at growing sizes, beside another server: what costs more, what grows more; and slowest calls.

usage: growth.py [options] NAME=COMMAND NAME=COMMAND      COMMAND contains {port}; the second server is the reference
       growth.py --summary FILE...                        what runs with --to have written, together

--sizes 100,10000,1000000    elements of each collection; of the kind `sources`, collections that one call combines
--kinds list,set,...         only these kinds of collection; see KINDS
--members short,long,integer only elements of 10 to 16 bytes, of 100 bytes, integers
--cases TEXT                 only forms of calls that contain TEXT
--seconds 2400               no new collection is begun after so many
--to FILE                    each case is appended to FILE: kind, member, size, form, microseconds here and there
--missing                    instead: data commands of the reference of which there is no form
--tails                      instead: the slowest call while collections grow, expire, are evicted, flushed, deleted, saved
--tail-elements 5000000      elements in these

Prints microseconds of processor time a call, at each size, by both servers, and how many times the reference's it is.
In the end: the cases (a form at one size), their median, and those above 1.05. A form is flagged

grows   when from the smallest size to the largest it takes GROWS_MAX times more of what the reference's call takes more,
stalls  when at the largest size it takes over STALL_US, and STALLS_MAX times what the reference's takes.

Of each case the least of three rounds counts, which the servers take in turns, with the same calls: as many in one pipeline as
take some milliseconds. One that is above 1.05 gets more rounds, with both. What a call changes is copied before each round,
which is not counted: at small sizes many times, so that few calls change each copy. Servers have to know COPY and take no
snapshots on their own.
"""
import argparse, hashlib, os, random, shlex, socket, statistics, subprocess, sys, tempfile, time

GROWS_MAX, STALLS_MAX, STALL_US, FLOOR_US, RATIO_MAX = 3.0, 3.0, 2000.0, 3.0, 1.05
ROUNDS, ROUNDS_MORE, ROUND_US, CALLS_MAX, CASE_SECONDS = 3, 9, 3000.0, 300, 4
COPIED_MAX, COPIES_MAX, KEYS_MIN, SOURCES_MAX = 100000, 60, 1000, 10000
ALL_PROCESSORS = os.sched_getaffinity(0)
FIRST_PORT = int(os.environ.get('FIRST_PORT', '48250'))

class Server:
    def __init__(self, name, command, port):
        self.name = name
        folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(shlex.split(command.format(port=port)), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.connection = self.connect(port)
        self.port = port
        # Servers take turns on one processor, and whoever asks has another: what others do there slows them alike.
        if len(ALL_PROCESSORS) > 1: os.sched_setaffinity(self.pid, {max(ALL_PROCESSORS)})
        self.books = open('/proc/%d/task/%d/schedstat' % (self.pid, self.pid), 'rb', buffering=0)

    def connect(self, port):
        for _ in range(100):
            try:
                return Connection(port)
            except OSError:
                time.sleep(0.05)
        raise SystemExit('no server: ' + self.name)

    def used_us(self):
        """Processor time of the thread that runs commands, by the scheduler's books, which are in nanoseconds."""
        return int(os.pread(self.books.fileno(), 100, 0).split()[0]) / 1e3

class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.at = b'', 0

    def line(self):
        while (end := self.buffer.find(b'\r\n', self.at)) < 0:
            self.more()
        line, self.at = self.buffer[self.at:end], end + 2
        return line

    def more(self):
        got = self.socket.recv(1 << 20)
        if not got: raise SystemExit('the server is gone')
        self.buffer, self.at = self.buffer[self.at:] + got, 0

    def reply(self):
        """The reply's first line; what follows is skipped."""
        first, left = None, 1
        while left:
            line, left = self.line(), left - 1
            if first is None: first = line
            kind, rest = line[:1], line[1:]
            if kind == b'$' and rest != b'-1':
                skip = int(rest) + 2
                while len(self.buffer) - self.at < skip:
                    skip -= len(self.buffer) - self.at
                    self.buffer, self.at = b'', 0
                    self.more()
                self.at += skip
            elif kind in b'*~>' and rest != b'-1':
                left += int(rest)
            elif kind == b'%':
                left += 2 * int(rest)
        return first

    def bulk(self, *words):
        self.send([words])
        length = int(self.line()[1:])
        while len(self.buffer) - self.at < length + 2: self.more()
        start, self.at = self.at, self.at + length + 2
        return self.buffer[start:start + length]

    def names(self, *words):
        self.send([words])
        count = int(self.line()[1:])
        return [(self.line(), self.line())[1] for _ in range(count)]

    def send(self, commands):
        self.socket.sendall(b''.join(encoded(c) for c in commands))

    def exchange(self, commands):
        """Sends encoded commands, waits until the last has been answered, and gives the first bytes of the replies."""
        self.socket.sendall(commands + LAST)
        first = tail = self.socket.recv(1 << 20)
        while not tail.endswith(LAST_REPLY):
            tail = tail[-len(LAST_REPLY):] + self.socket.recv(1 << 20)
            if len(first) < 100: first += tail[-100:]
        return first[:100]

    def ask(self, *words):
        self.send([words])
        return self.reply()

    def load(self, commands):
        """Commands in pipelines; none may fail."""
        batch, size = [], 0
        def flush():
            self.send(batch)
            for _ in batch:
                first = self.reply()
                assert first[:1] != b'-', first
        for command in commands:
            batch.append(command); size += len(command)
            if size >= 4000:
                flush(); batch, size = [], 0
        flush()

LAST, LAST_REPLY = b'*2\r\n$4\r\nECHO\r\n$12\r\n=that is all\r\n', b'$12\r\n=that is all\r\n'

def encoded(words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words)

# ---- elements ----

GETTER = b"return redis.call('get', KEYS[1])"
GETTER_SHA = hashlib.sha1(GETTER).hexdigest().encode()

def spread(i):
    """A number below 2^32 that no other i has, and whose neighbours are far from it."""
    return i * 2654435761 % 2**32

MEMBERS = {
    'short': lambda i: b'm%x:%d' % (spread(i), i),
    'long': lambda i: b'%0100x' % (spread(i) << 32 | i),
    'integer': lambda i: b'%d' % spread(i),
}

class Collection:
    """A key and what is known of it; `word` gives the arguments that forms name."""
    def __init__(self, size, member, seed=1):
        self.size, self.member, self.random, self.fresh = size, member, random.Random(seed), size

    def any(self): return self.member(self.random.randrange(self.size))
    def new(self):
        self.fresh += 1
        return self.member(self.fresh)

    def words(self, form):
        words = []
        for word in form.split():
            if not word.startswith('@'): words.append(word.encode()); continue
            name, _, count = word[1:].partition('*')
            for _ in range(int(count or 1)): words += self.word(name)
        return words

    def word(self, name):
        n, r = self.size, self.random
        at = r.randrange(n)
        return {
            'any': lambda: [self.any()], 'new': lambda: [self.new()], 'none': lambda: [b'nobody:%d' % at],
            'scored': lambda: [at, self.new()], 'rescored': lambda: [at, self.any()],
            'pair': lambda: [self.any(), b'v%d' % at], 'newpair': lambda: [self.new(), b'v%d' % at],
            'longpair': lambda: [self.any(), b'v' * (1 + at % 200)],
            'at': lambda: [at], 'ten': lambda: [at, at + 10], 'tenback': lambda: [at + 10, at], 'hundred': lambda: [at, at + 100], 'same': lambda: [at, at], 'n': lambda: [n], 'half': lambda: [n // 2],
            'middle': lambda: [n // 2], 'most': lambda: [n - n // 10], 'third': lambda: [n // 3], 'tenth': lambda: [max(1, n // 10)],
            'lex': lambda: [b'[' + self.any()], 'samelex': lambda: [b'[' + self.member(at)] * 2, 'id': lambda: [b'%d-0' % (at + 1)], 'lastid': lambda: [b'%d-0' % n], 'halfid': lambda: [b'%d-0' % (n // 2)],
            'cursor': lambda: [0], 'key': lambda: [b'key:%d' % at], 'newkey': lambda: [b'key:%d' % self.fresh_number()],
            'dumped': lambda: [self.dumped], 'getter': lambda: [GETTER_SHA], 'kilo': lambda: [b'x' * 1024], 'value': lambda: [b'y' * n],
            'bits': lambda: [8 * n], 'bit': lambda: [r.randrange(8 * n)], 'text': lambda: [b'x' * 100], 'long': lambda: [r.uniform(-180, 180)], 'lat': lambda: [r.uniform(-80, 80)],
            'where': lambda: [r.uniform(-180, 180), r.uniform(-80, 80)],
            'sets': lambda: self.sources(b's'), 'alike': lambda: self.sources(b'a'), 'strings': lambda: self.sources(b'b'), 'sketches': lambda: self.sources(b'p'),
            'zsets': lambda: [n, *self.sources(b'z')], 'nsets': lambda: [n, *self.sources(b's')],
            'largezsets': lambda: [n + 1, b'zlarge', *self.sources(b'z')], 'largensets': lambda: [n + 1, b'large', *self.sources(b's')],
        }[name]()

    def sources(self, letter): return [letter + b':%d' % i for i in range(self.size)]

    def fresh_number(self):
        self.fresh += 1
        return self.fresh

def chunks(n, step=1000):
    return (range(start, min(n, start + step)) for start in range(0, n, step))

def build_list(c): return ([b'RPUSH', b'k', *map(c.member, part)] for part in chunks(c.size))
def build_set(c): return ([b'SADD', b'k', *map(c.member, part)] for part in chunks(c.size))
def build_zset(c): return ([b'ZADD', b'k', *(w for i in part for w in (i, c.member(i)))] for part in chunks(c.size))
def build_lex(c): return ([b'ZADD', b'k', *(w for i in part for w in (0, c.member(i)))] for part in chunks(c.size))
def build_hash(c): return ([b'HSET', b'k', *(w for i in part for w in (c.member(i), b'v%d' % i))] for part in chunks(c.size))
def build_stream(c): return ([b'XADD', b'k', b'%d-0' % (i + 1), b'f', c.member(i)] for i in range(c.size))
def build_keys(c): return ([b'MSET', *(w for i in part for w in (b'key:%d' % i, c.member(i)))] for part in chunks(c.size))
def build_volatile(c): return ([b'SET', b'key:%d' % i, c.member(i), b'PX', 10**7 + spread(i) % 10**7] for i in range(c.size))
def build_string(c): return [[b'SET', b'k', (c.member(7) * (c.size // 10 + 1))[:c.size]]]
def build_hyperloglog(c): return ([b'PFADD', b'k', *map(c.member, part)] for part in chunks(c.size))
def build_geo(c):
    where = random.Random(2)
    return ([b'GEOADD', b'k', *(w for i in part for w in (where.uniform(-180, 180), where.uniform(-80, 80), c.member(i)))] for part in chunks(c.size))
def build_expiring(c):
    yield from build_hash(c)
    for part in chunks(c.size):
        fields = [c.member(i) for i in part]
        yield [b'HEXPIRE', b'k', 100000 + part[0] % 1000, b'FIELDS', len(fields), *fields]
def build_pending(c):
    yield from build_stream(c)
    yield [b'XGROUP', b'CREATE', b'k', b'g', b'0']
    for part in chunks(c.size): yield [b'XREADGROUP', b'GROUP', b'g', b'c%d' % (part[0] // 1000 % 10), b'COUNT', len(part), b'STREAMS', b'k', b'>']

def build_sources(c):
    """Many small collections: sets of members of their own and of the same, sorted sets, strings and sketches; and a large one."""
    yield [b'SADD', b'large', *map(c.member, range(2000))]
    yield [b'ZADD', b'zlarge', *(w for i in range(2000) for w in (i, c.member(i)))]
    for i in range(c.size):
        own = [c.member(2000 + 3 * i + j) for j in range(3)]
        yield [b'SADD', b's:%d' % i, *own]
        yield [b'SADD', b'a:%d' % i, *map(c.member, range(200 if c.size <= 1000 else 20)), own[0]]
        yield [b'ZADD', b'z:%d' % i, *(w for member in own for w in (1, member))]
        yield [b'SET', b'b:%d' % i, own[0]]
        yield [b'PFADD', b'p:%d' % i, *own]

# ---- forms of calls; one that starts with "copy" works on a copy of the key, `t`, made anew before each call ----

GENERIC = '''TYPE k|EXISTS k|TTL k|OBJECT ENCODING k|OBJECT IDLETIME k|MEMORY USAGE k|MEMORY USAGE k SAMPLES 50|TOUCH k|EXPIRE k 10000|PERSIST k
copy DEL t|copy UNLINK t|copy RENAME t u|copy SET t x|copy EXPIRE t -1|COPY k t REPLACE|DUMP k|RESTORE t 0 @dumped REPLACE|PTTL k|PEXPIRE k 10000000|EXPIREAT k 9999999999|PEXPIREAT k 9999999999999|EXPIRETIME k|PEXPIRETIME k|OBJECT REFCOUNT k|OBJECT FREQ k'''
SMALL = [[b'DEL', b'few', b'fewz', b'fewh'], [b'SADD', b'few', b'a', b'b', b'c'], [b'ZADD', b'fewz', b'1', b'a', b'2', b'b', b'3', b'c']]

KINDS = {
'list': (build_list, '''LLEN k|LPUSH k @new|RPUSH k @new|RPUSH k @new*100|LPUSHX k @new|LPOP k|RPOP k|LPOP k 10|RPOP k 10|copy LPOP t @n|copy RPOP t @half
LINDEX k 0|LINDEX k -1|LINDEX k @middle|LINDEX k @at|LINDEX k 99999999|LRANGE k 0 9|LRANGE k -10 -1|LRANGE k @ten|LRANGE k @middle @n|LRANGE k 0 -1|LRANGE k 5 1
LSET k 0 @new|LSET k -1 @new|LSET k @middle @new|LSET k @at @new|LINSERT k BEFORE @any @new|LINSERT k AFTER @none @new|LREM k 1 @any|LREM k -1 @any|LREM k 0 @none|copy LREM t 0 @any
LTRIM k 0 -1|LTRIM k 1 -2|copy LTRIM t 0 9|copy LTRIM t -10 -1|copy LTRIM t 5 1|copy LTRIM t @third @half|LPOS k @any|LPOS k @none|LPOS k @any RANK -1|LPOS k @any MAXLEN 100|LPOS k @any COUNT 0
LMOVE k k LEFT RIGHT|LMOVE k k RIGHT LEFT|RPOPLPUSH k k|LMPOP 1 k LEFT|LMPOP 1 k RIGHT COUNT 10|BLPOP k 1|BRPOP k 1|BLMOVE k k LEFT LEFT 1|SORT k BY nosort LIMIT 0 10|SORT k ALPHA LIMIT 0 10|SORT_RO k ALPHA|RPUSHX k @new|LPUSH k @new*10|copy LPOP t @half|BLMPOP 1 1 k LEFT|BRPOPLPUSH k k 1|LSET k @at @text|SORT k ALPHA STORE t|SORT k BY nosort GET # LIMIT 0 100|copy LTRIM t 1 -1|LTRIM k 1 -1|copy LINSERT t BEFORE @any @new'''),
'set': (build_set, '''SCARD k|SADD k @any|SADD k @new|SADD k @new*100|SADD k @any*100|SREM k @any|SREM k @none|SREM k @any*10|SISMEMBER k @any|SISMEMBER k @none|SMISMEMBER k @any*10|SMEMBERS k
SRANDMEMBER k|SRANDMEMBER k 10|SRANDMEMBER k -10|SRANDMEMBER k 500|SRANDMEMBER k -500|SRANDMEMBER k @half|SRANDMEMBER k @most|SRANDMEMBER k @n|SPOP k|SPOP k 10|copy SPOP t @half|copy SPOP t @most|copy SPOP t @n|copy SADD t text
SSCAN k 0|SSCAN k 0 COUNT 1000|SSCAN k 0 COUNT @n|SSCAN k 0 MATCH nothing|SINTER k few|SINTER few k|SINTER k k|SINTERCARD 2 k few|SINTERCARD 2 k k LIMIT 10|SUNION k few|SUNION k k|SDIFF few k|SDIFF k few|SDIFF k k
SINTERSTORE t k few|SINTERSTORE t k k|SUNIONSTORE t k few|SUNIONSTORE t k k|SDIFFSTORE t k few|SDIFFSTORE t k k|SMOVE k t @any|SMOVE k t @none|SORT k BY nosort LIMIT 0 10|SORT k ALPHA LIMIT 0 10|SSCAN k 0 MATCH m1*|SSCAN k 0 MATCH *1*|SORT k ALPHA STORE t|SINTER k k few|SUNION few few|SINTERSTORE t few k|SPOP k 3'''),
'zset': (build_zset, '''ZCARD k|ZADD k @rescored|ZADD k @scored|ZADD k XX @rescored|ZADD k NX @scored|ZADD k GT @rescored|ZADD k CH @rescored|ZADD k @scored*100|ZADD k @rescored*100|ZINCRBY k 1 @any|ZINCRBY k 1000000 @any|ZREM k @any|ZREM k @none|ZREM k @any*10
ZSCORE k @any|ZSCORE k @none|ZMSCORE k @any*10|ZCOUNT k -inf +inf|ZCOUNT k @ten|ZRANK k @any|ZREVRANK k @any|ZRANK k @any WITHSCORE|ZRANK k @none
ZRANGE k 0 9|ZRANGE k -10 -1|ZRANGE k @ten|ZRANGE k @hundred WITHSCORES|ZRANGE k 0 9 REV|ZRANGE k 0 -1|ZRANGE k @ten BYSCORE|ZRANGE k -inf +inf BYSCORE LIMIT @most 10|ZRANGE k +inf -inf BYSCORE REV LIMIT @middle 10|ZREVRANGE k 0 9|ZRANGEBYSCORE k @ten|ZREVRANGEBYSCORE k @tenback
ZRANGESTORE t k 0 9|ZRANGESTORE t k 0 -1|ZRANGESTORE t k @ten BYSCORE|ZREMRANGEBYRANK k 0 0|ZREMRANGEBYRANK k -1 -1|ZREMRANGEBYSCORE k @same|ZREMRANGEBYSCORE k 5 1|copy ZREMRANGEBYRANK t 0 -1|copy ZREMRANGEBYRANK t @third @most|copy ZREMRANGEBYSCORE t -inf @middle|copy ZREMRANGEBYSCORE t -inf +inf
ZPOPMIN k|ZPOPMAX k|ZPOPMIN k 10|ZPOPMAX k 10|copy ZPOPMIN t @n|ZMPOP 1 k MIN|ZMPOP 1 k MAX COUNT 10|BZPOPMIN k 1|BZMPOP 1 1 k MAX|ZRANDMEMBER k|ZRANDMEMBER k 10|ZRANDMEMBER k -10|ZRANDMEMBER k 500 WITHSCORES|ZRANDMEMBER k @half|ZRANDMEMBER k @most|ZRANDMEMBER k @n
ZSCAN k 0|ZSCAN k 0 COUNT 1000|ZSCAN k 0 COUNT @n|ZSCAN k 0 MATCH nothing|ZUNION 2 k fewz|ZUNION 2 k k|ZINTER 2 k fewz|ZINTER 2 k k|ZINTER 2 k few|ZINTERCARD 2 k fewz|ZINTERCARD 2 k k LIMIT 10|ZDIFF 2 fewz k|ZDIFF 2 k fewz|ZDIFF 2 k k|ZUNIONSTORE t 2 k fewz|ZUNIONSTORE t 2 k k WEIGHTS 1 2|ZINTERSTORE t 2 k fewz|ZINTERSTORE t 2 k k|ZDIFFSTORE t 2 k fewz|ZSCAN k 0 MATCH m1*|ZSCAN k 0 MATCH *1*|BZPOPMAX k 1|copy ZPOPMIN t @half|copy ZPOPMAX t @half|ZRANGESTORE t k 0 99|ZRANGESTORE t k @middle @most|ZRANGESTORE t k @hundred|ZREVRANGE k 0 -1 WITHSCORES|ZREMRANGEBYSCORE k @ten|ZINTERSTORE t 2 fewz k|ZUNION 2 fewz fewz|SORT k BY nosort LIMIT 0 10|SORT k ALPHA LIMIT 0 10'''),
'lex': (build_lex, '''ZLEXCOUNT k - +|ZLEXCOUNT k @lex +|ZRANGEBYLEX k @lex + LIMIT 0 10|ZRANGEBYLEX k - + LIMIT @most 10|ZREVRANGEBYLEX k @lex - LIMIT 0 10|ZRANGE k @lex + BYLEX LIMIT 0 10|ZRANGE k + - BYLEX REV LIMIT @middle 10|ZREMRANGEBYLEX k @samelex|copy ZREMRANGEBYLEX t - +|copy ZREMRANGEBYLEX t @lex +|ZADD k 0 @new|ZADD k 0 @any|ZREM k @any|ZRANK k @any|ZRANGESTORE t k @lex + BYLEX LIMIT 0 10|ZPOPMIN k|ZINCRBY k 0 @any|ZCOUNT k 0 0|ZRANGE k 0 0 BYSCORE LIMIT @most 10|ZPOPMAX k|ZRANGEBYLEX k - +|ZRANGEBYSCORE k 0 0 LIMIT 0 10|ZREVRANGEBYSCORE k 0 0 LIMIT 0 10|ZREVRANK k @any|ZRANDMEMBER k 10'''),
'hash': (build_hash, '''HLEN k|HSET k @pair|HSET k @longpair|HSET k @newpair|HSET k @newpair*100|HSET k @pair*100|HMSET k @pair*10|HSETNX k @newpair|HSETNX k @pair|HGET k @any|HGET k @none|HMGET k @any*10|HDEL k @any|HDEL k @none|HDEL k @any*10|HEXISTS k @any|HSTRLEN k @any|HINCRBY k counter 1|HINCRBYFLOAT k float 1.5
HKEYS k|HVALS k|HGETALL k|HSCAN k 0|HSCAN k 0 COUNT 1000|HSCAN k 0 COUNT @n|HSCAN k 0 NOVALUES|HSCAN k 0 MATCH nothing|HRANDFIELD k|HRANDFIELD k 10|HRANDFIELD k -10|HRANDFIELD k 500 WITHVALUES|HRANDFIELD k @half|HRANDFIELD k @most|HRANDFIELD k @n
HTTL k FIELDS 1 @any|HPERSIST k FIELDS 1 @any|copy HEXPIRE t 1000 FIELDS 1 @any|HGETEX k FIELDS 1 @any|copy HSETEX t EX 1000 FIELDS 1 @pair|HGETDEL k FIELDS 1 @any|HSCAN k 0 MATCH m1*|HGET k nobody|HKEYS nobody'''),
'expiring': (build_expiring, '''HLEN k|HSET k @pair|HSET k @newpair|HSETNX k @newpair|HGET k @any|HGET k @none|HMGET k @any*10|HDEL k @any|HDEL k @any*10|HINCRBY k counter 1|HKEYS k|HVALS k|HGETALL k|HSCAN k 0|HSCAN k 0 COUNT 1000|HRANDFIELD k|HRANDFIELD k 10|HRANDFIELD k -10|HRANDFIELD k 500|HRANDFIELD k @half|HRANDFIELD k @most|HRANDFIELD k @n
HEXPIRE k 1000 FIELDS 1 @any|HEXPIRE k 100000 GT FIELDS 1 @any|HPEXPIRE k 1000000 FIELDS 10 @any*10|HEXPIREAT k 9999999999 FIELDS 1 @any|HEXPIRE k 0 FIELDS 1 @any|HTTL k FIELDS 10 @any*10|HPTTL k FIELDS 1 @any|HEXPIRETIME k FIELDS 1 @any|HPERSIST k FIELDS 1 @any|HGETEX k EX 1000 FIELDS 1 @any|HGETEX k PERSIST FIELDS 1 @any|HSETEX k EX 1000 FIELDS 1 @pair|HSETEX k KEEPTTL FIELDS 1 @pair|HPEXPIREAT k 9999999999999 FIELDS 1 @any|HPEXPIRETIME k FIELDS 1 @any|HGETDEL k FIELDS 1 @any|HEXISTS k @any|HSTRLEN k @any|HMSET k @pair*10|HINCRBYFLOAT k float 1.5|HSCAN k 0 NOVALUES|HSCAN k 0 MATCH nothing'''),
'stream': (build_stream, '''XLEN k|XADD k * f @new|XADD k MAXLEN ~ @n * f @new|XADD k MAXLEN = @n * f @new|XADD k MAXLEN = @half * f @new|XADD k MINID ~ @id * f @new|XRANGE k - + COUNT 10|XRANGE k @id + COUNT 10|XRANGE k @id @lastid COUNT 100|XREVRANGE k + - COUNT 10|XREVRANGE k @id - COUNT 10|XRANGE k - +|XREAD COUNT 10 STREAMS k 0|XREAD COUNT 10 STREAMS k @id|XREAD COUNT 10 STREAMS k $
XDEL k @id|XDEL k @id @id @id|XDEL k 99999999-1|copy XTRIM t MAXLEN @half|copy XTRIM t MAXLEN 0|copy XTRIM t MAXLEN ~ @tenth|copy XTRIM t MINID @halfid|XTRIM k MAXLEN @n|XINFO STREAM k|XINFO STREAM k FULL|XINFO STREAM k FULL COUNT 100|XINFO GROUPS k|XSETID k 99999999999999-0|XGROUP CREATE k fresh $|XGROUP CREATE k fresher 0|XGROUP SETID k fresh 0|XGROUP SETID k fresh @id|XGROUP CREATECONSUMER k fresh c|XREADGROUP GROUP fresh c COUNT 10 STREAMS k >|XGROUP DESTROY k fresher'''),
'pending': (build_pending, '''XPENDING k g|XPENDING k g - + 10|XPENDING k g @id + 10|XPENDING k g - + 10 c3|XPENDING k g IDLE 0 - + 10|XPENDING k g IDLE 99999999 - + 10|XPENDING k g IDLE 99999999 - + @n|XACK k g @id|XACK k g @id @id @id|XACK k g 99999999-1|XCLAIM k g c1 0 @id|XCLAIM k g c1 99999999 @id|XCLAIM k g c1 0 @id JUSTID|XAUTOCLAIM k g c2 0 0 COUNT 10|XAUTOCLAIM k g c2 99999999 0 COUNT 10|XAUTOCLAIM k g c2 0 @id JUSTID|XREADGROUP GROUP g c1 COUNT 10 STREAMS k 0|XREADGROUP GROUP g c1 COUNT 10 STREAMS k @id
XINFO GROUPS k|XINFO CONSUMERS k g|XINFO STREAM k FULL|XINFO STREAM k FULL COUNT 1000|XDEL k @id|XTRIM k MAXLEN @n|copy XTRIM t MAXLEN @half|copy XGROUP DESTROY t g|copy XGROUP DELCONSUMER t g c1|XGROUP SETID k g 0|XGROUP CREATECONSUMER k g another|XADD k * f @new'''),
'geo': (build_geo, '''GEOADD k @where @any|GEOADD k @where @new|GEODIST k @any @any|GEOPOS k @any|GEOHASH k @any|GEOSEARCH k FROMLONLAT @where BYRADIUS 10 km|GEOSEARCH k FROMLONLAT @where BYRADIUS 100 km COUNT 10|GEOSEARCH k FROMLONLAT @where BYRADIUS 100 km COUNT 10 ANY|GEOSEARCH k FROMMEMBER @any BYBOX 50 50 km ASC
GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 10|GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 10 ANY|GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 30000 km|GEOSEARCH k FROMLONLAT 0 0 BYBOX 40000 20000 km DESC COUNT 100|GEOSEARCHSTORE t k FROMLONLAT @where BYRADIUS 100 km|GEOSEARCHSTORE t k FROMLONLAT 0 0 BYRADIUS 20000 km STOREDIST|GEORADIUS k 0 0 5000 km COUNT 10|GEORADIUSBYMEMBER k @any 100 km WITHDIST|GEORADIUS_RO k 0 0 5000 km COUNT 10|GEORADIUSBYMEMBER_RO k @any 100 km|GEORADIUS k @where 100 km STORE t|GEOSEARCH k FROMLONLAT @where BYRADIUS 500 km ASC WITHCOORD WITHDIST WITHHASH'''),
'string': (build_string, '''GET k|STRLEN k|GETRANGE k 0 9|GETRANGE k @ten|GETRANGE k -10 -1|GETRANGE k 0 -1|SUBSTR k @ten|SETRANGE k 0 xyz|SETRANGE k @at xyz|copy SETRANGE t @n xyz|APPEND k x|APPEND k @text|copy APPEND t x|GETBIT k @bit|SETBIT k @bit 1|copy SETBIT t @bits 1|BITCOUNT k|BITCOUNT k 0 9|BITCOUNT k @ten|BITCOUNT k @ten BIT|BITPOS k 1|BITPOS k 0 @at|BITPOS k 1 -10 -1
BITOP NOT t k|BITOP AND t k k|BITOP OR t k k k|BITOP XOR t k missing|BITFIELD k GET u8 @bit|BITFIELD k SET u8 @bit 7|BITFIELD k INCRBY u16 @bit 1|BITFIELD_RO k GET u8 @bit|LCS k few-text LEN|GETEX k|copy GETDEL t|copy GETSET t x|copy SET t x GET|MGET k k|SET t x|PFCOUNT missing k|copy INCR t|EVAL return(redis.call('get',KEYS[1])) 1 k|EVAL_RO return(redis.call('get',KEYS[1])) 1 k|EVAL return(#redis.call('get',KEYS[1])) 1 k|EVALSHA @getter 1 k|EVALSHA_RO @getter 1 k|EVAL return(redis.call('set',KEYS[1],ARGV[1])) 1 t @text|APPEND k @kilo|SETRANGE k @at @text|copy SETRANGE t @n @text|DELIFEQ k x|SET t @value|MSET t @value|GETSET t @value|BITCOUNT k 0 -1 BIT|BITPOS k 0|BITFIELD k GET u8 @bit SET u4 @bit 3 INCRBY i32 @bit 7'''),
'hyperloglog': (build_hyperloglog, '''PFADD k @new|PFADD k @any|PFADD k @new*100|PFCOUNT k|PFCOUNT k k|PFMERGE t k|PFMERGE t k k|PFMERGE k|STRLEN k|GETRANGE k 0 10|PFCOUNT k few-none|PFMERGE t k few-none|PFADD k'''),
'keys': (build_keys, '''GET @key|SET @key x|SET @newkey x|SETEX @newkey 1000 x|MGET @key @key @key|EXISTS @key|DEL @key|UNLINK @key|EXPIRE @key 1000|PERSIST @key|TTL @key|TYPE @key|TOUCH @key|INCR counter|APPEND @key x|RENAME @key t|RENAMENX @key @newkey|COPY @key @newkey|OBJECT ENCODING @key|OBJECT FREQ @key|DUMP @key|RANDOMKEY|DBSIZE|SCAN 0|SCAN 0 COUNT 1000|SCAN 0 MATCH nothing|SCAN 0 TYPE list COUNT 100|KEYS nothing|KEYS key:1*|LPUSH @newkey a|SADD @newkey a|HSET @newkey f v|ZADD @newkey 1 a|XADD @newkey * f v|SWAPDB 0 1|SWAPDB 1 0|MOVE @key 3|GETDEL @key|MEMORY USAGE @key|INFO keyspace|INFO memory|SETNX @newkey x|SETNX @key x|MSETNX @newkey a @newkey b|MSETEX 2 @newkey a @newkey b EX 1000|DECR counter|DECRBY counter 2|INCRBY counter 3|INCRBYFLOAT float 1.5|PSETEX @newkey 10000000 x|SET @newkey @kilo|SET @key @kilo|GETSET @key x|GETEX @key|STRLEN @key|GETRANGE @key 0 3|SETRANGE @key 0 x|DELIFEQ @key x|SET @key x GET|SET @key x XX|SET @newkey x NX|MGET @key*100|MSET @newkey a @newkey b @newkey c|DEL @key @key @key|EXISTS @key @key @key|GETBIT @key 3|SETBIT @newkey 100 1|PFADD @newkey a|GEOADD @newkey 1 2 a|BITCOUNT @key|EVAL return(redis.call('get',KEYS[1])) 1 @key|EVAL return(1) 0|EVALSHA @getter 1 @key|SCAN 0 MATCH key:1*|PING|ECHO x'''),
# Every key has an expiry.
'volatile': (build_volatile, '''GET @key|SET @key x|SET @key x KEEPTTL|SET @newkey x EX 1000|GETEX @key PX 10000000|GETEX @key PERSIST|EXPIRE @key 1000|PEXPIRE @key 10000000 GT|PERSIST @key|TTL @key|EXPIRETIME @key|DEL @key|EXPIRE @key -1|RENAME @key t|COPY @key @newkey|RANDOMKEY|SCAN 0 COUNT 1000|INFO keyspace|INFO|DBSIZE|SWAPDB 0 1|SWAPDB 1 0|MOVE @key 3|SET @newkey @kilo EX 1000|SET @key @kilo EX 1000|SET @key @kilo PX 10000000|SETEX @key 1000 x|PTTL @key|PEXPIRETIME @key|EXPIREAT @key 9999999999|PEXPIREAT @key 9999999999999|EXPIRE @key 1000 NX|EXPIRE @key 1000 LT|UNLINK @key|GETDEL @key|APPEND @key x|INCR counter|DUMP @key|MGET @key*10'''),
# As many as there are elements in the others are combined by a call.
'sources': (build_sources, '''SUNION @sets|SUNION large @sets|SUNION @alike|SINTER @sets|SINTER large @alike|SINTER @alike|SDIFF @sets|SDIFF large @sets|SDIFF @alike|SINTERCARD @nsets|SUNIONSTORE t @sets|SUNIONSTORE t @alike|SINTERSTORE t @alike|SDIFFSTORE t large @sets
ZUNION @zsets|ZUNION @largezsets|ZUNION @nsets|ZINTER @zsets|ZINTER @largezsets|ZDIFF @zsets|ZDIFF @largezsets|ZDIFF @largensets|ZINTERCARD @zsets|ZUNIONSTORE t @zsets|ZUNIONSTORE t @largezsets|ZINTERSTORE t @zsets|ZDIFFSTORE t @largezsets
BITOP AND t @strings|BITOP OR t @strings|BITOP XOR t @strings|PFCOUNT @sketches|PFMERGE t @sketches|MGET @strings|EXISTS @strings|TOUCH @sets'''),
}
UNLIKE_MEMBERS = {'string', 'keys', 'volatile', 'geo', 'hyperloglog', 'stream', 'pending', 'sources'}   # one kind of member is enough
UNKEYED = {'keys', 'volatile', 'sources'}   # many keys instead of `k`
DATA = [name.encode() for name in 'string list set sortedset hash hyperloglog stream bitmap geo keyspace scripting'.split()]

# ---- measuring ----

class Case:
    """One form at one size with both servers, and how it is measured."""
    def __init__(self, bench, form):
        self.bench, self.copied, self.form = bench, form.startswith('copy '), form.removeprefix('copy ')
        words, size = self.form.split(), bench.size
        self.writes = words[0].lower().encode() in bench.writing
        self.weight = max([int(w.partition('*')[2]) for w in words if '*' in w[1:] and w[0] == '@'] + [10 if words[-1] == '10' else 1])
        self.calls_max, self.copies = max(1, CALLS_MAX // self.weight), 0
        if self.copied:
            self.each, self.copies = 1, max(1, min(COPIES_MAX, 3 * COPIED_MAX // 10 // size))
            self.calls_max = min(self.calls_max, self.copies)
        elif self.writes and bench.keyed and size <= COPIED_MAX:
            self.each = max(1, size // 8 // self.weight)
            self.copies = max(1, min(COPIES_MAX, self.calls_max // self.each))
            self.calls_max = min(self.calls_max, self.each * self.copies)
        elif self.writes:
            self.calls_max = max(1, min(self.calls_max, size // 8 // self.weight))

    def commands(self, server, calls):
        collection = self.bench.collections[server.name]
        made = []
        for call in range(calls):
            words = collection.words(self.form)
            if self.copies: words = [w + b':%d' % (call // self.each) if w in (b'k', b't', b'u') else w for w in words]
            made.append(encoded(words))
        return b''.join(made)

    def round(self, server, calls):
        """Microseconds a call, and the first bytes of the replies."""
        ask = server.connection.ask
        if self.copies:
            copies = range((calls + self.each - 1) // self.each)
            if not (self.copied and self.form.startswith('COPY')): ask(b'DEL', *(b'%s:%d' % (key, i) for i in copies for key in (b't', b'u')))
            for i in copies:
                ask(b'COPY', b'k', b'k:%d' % i, b'REPLACE')
                if self.copied: ask(b'COPY', b'k', b't:%d' % i, b'REPLACE')
            # What was there is freed in the background. For a random time: a timer's period, which a copy that blocks for long
            # begins anew, would have each call find the code in the cache that the timer has just run.
            time.sleep(0.001 if self.bench.size * len(copies) < COPIED_MAX else random.uniform(0.1, 0.2))
        return timed(server, self.commands(server, calls), calls)

    def measure(self):
        """Microseconds a call by server, least of all rounds; None when they answer with an error, or unlike each other."""
        ours, theirs = self.bench.servers
        calls = min(self.calls_max, 4)
        first = [self.round(server, calls) for server in (ours, theirs)]
        if len({reply[:1] for _, reply in first}) > 1 or first[0][1][:1] == b'-':
            print('not counted: %s: %r %r' % (self.form, first[0][1][:60], first[1][1][:60]), file=sys.stderr)
            return None
        slower = max(us for us, _ in first)
        calls = max(1, min(self.calls_max, int(ROUND_US / max(slower - 2, 0.5))))
        best, rounds, started = [float('inf')] * 2, 0, time.time()
        while rounds < ROUNDS or (rounds < ROUNDS_MORE and best[0] > RATIO_MAX * best[1]):
            if rounds and time.time() - started > CASE_SECONDS: break
            for i, server in enumerate((ours, theirs)): best[i] = min(best[i], self.round(server, calls)[0])
            rounds += 1
        return best

class Bench:
    """A kind of collection at one size in both servers."""
    def __init__(self, servers, kind, member, size, writing):
        self.servers, self.kind, self.member, self.size, self.writing = servers, kind, member, size, writing
        self.keyed = kind not in UNKEYED
        self.build()

    def build(self):
        self.collections = {}
        for server in self.servers:
            server.connection.ask(b'FLUSHALL')
            # Freed in the background: what is left of the last collection must not be counted.
            time.sleep(0.05 if self.size < COPIED_MAX else 1.5)
            collection = self.collections[server.name] = Collection(self.size, MEMBERS[self.member])
            server.connection.load(SMALL + [[b'SET', b'few-text', b'abc' * 10]])
            server.connection.load(KINDS[self.kind][0](collection))
            server.connection.ask(b'SCRIPT', b'LOAD', GETTER)
            if self.keyed:
                collection.dumped = server.connection.bulk(b'DUMP', b'k')

    def measure(self, form):
        case = Case(self, form)
        times = case.measure()
        if case.writes and not case.copies and not self.keyed and self.size < COPIED_MAX: self.build()
        return times

def timed(server, commands, calls):
    time.sleep(0.0003)
    before = server.used_us()
    first = server.connection.exchange(commands)
    time.sleep(0.0003)
    return (server.used_us() - before) / calls, first

def forms_of(kind, cases):
    text = KINDS[kind][1] + '\n' + ('' if kind in UNKEYED else GENERIC)
    forms = [form for line in text.splitlines() for form in line.split('|') if form]
    return [form for form in forms if cases in form]

def run_kind(servers, kind, member, sizes, cases, writing):
    """Rows of (form, {size: times by server})."""
    forms = forms_of(kind, cases)
    times = {form: {} for form in forms}
    for size in sizes if forms else []:
        if size > SOURCES_MAX if kind == 'sources' else kind in UNKEYED and size < KEYS_MIN: continue
        bench = Bench(servers, kind, member, size, writing)
        for form in forms:
            if measured := bench.measure(form): times[form][size] = measured
    return [(form, times[form]) for form in forms if times[form]]

def verdict(ours, theirs):
    flags = []
    if ours[-1] > FLOOR_US and ours[-1] - ours[0] > FLOOR_US:
        # Less than a microsecond is noise, and a call that grows by as many times from nothing is none.
        grown, allowed = ours[-1] / max(ours[0], 1.0), theirs[-1] / max(theirs[0], 1.0)
        if grown > GROWS_MAX * allowed and ours[-1] > theirs[-1]: flags.append('grows')
    if ours[-1] > STALL_US and ours[-1] > STALLS_MAX * theirs[-1]: flags.append('stalls')
    return ' '.join(flags)

def growth(servers, options):
    started, flagged, measured = time.time(), [], []
    ours, theirs = servers
    writing = set(theirs.connection.names(b'COMMAND', b'LIST', b'FILTERBY', b'ACLCAT', b'write')) | {b'eval'}
    print('| kind | elements | form | %s, us | %s, us | times | |' % (ours.name, theirs.name) + '\n|---|---|---|---|---|---|---|')
    for kind in options.kinds:
        for member in options.members[:1] if kind in UNLIKE_MEMBERS else options.members:
            if time.time() - started > options.seconds:
                print('no time left for %s of %s' % (kind, member)); continue
            for form, times in run_kind(servers, kind, member, options.sizes, options.cases, writing):
                a, b = zip(*times.values())
                flags = verdict(a, b)
                texts = [' '.join('%.*f' % (digits, t) for t in c) for c, digits in ((a, 1), (b, 1), ([x / y for x, y in zip(a, b)], 2))]
                row = '| %s | %s | %s | %s | %s |' % (kind, member, form, ' | '.join(texts), flags)
                cases = [(kind, member, size, form, *us) for size, us in times.items()]
                measured += cases
                if options.to: options.to.writelines('\t'.join(map(str, case)) + '\n' for case in cases)
                if flags: flagged.append(row)
                print(row, flush=True)
    print('\n%d flagged' % len(flagged), *flagged, sep='\n')
    summary(measured)
    return len(flagged)

def summary(measured):
    ratios = [(ours / theirs, kind, member, size, form, ours, theirs) for kind, member, size, form, ours, theirs in measured]
    above = sorted((row for row in ratios if row[0] > RATIO_MAX), reverse=True)
    if not ratios: return
    print('\n%d cases, median %.2f, %d above %.2f' % (len(ratios), statistics.median(row[0] for row in ratios), len(above), RATIO_MAX))
    print('\n| times | kind | elements | size | form | us | |\n|---|---|---|---|---|---|---|')
    for row in above: print('| %.2f | %s | %s | %d | %s | %.2f | %.2f |' % row)

def read_cases(paths):
    for path in paths:
        for line in open(path):
            kind, member, size, form, ours, theirs = line.rstrip('\n').split('\t')
            yield kind, member, int(size), form, float(ours), float(theirs)

def missing(server):
    """Data commands of the reference that no form calls."""
    called = {form.removeprefix('copy ').split()[0].lower() for kind in KINDS for form in forms_of(kind, '')}
    names = {name for category in DATA for name in server.connection.names(b'COMMAND', b'LIST', b'FILTERBY', b'ACLCAT', category)}
    print(*sorted(name.decode() for name in names if name.decode().partition('|')[0] not in called))

# ---- tails ----

BATCH = 32

class Slowest:
    """The longest of many pieces of work, by the clock and by the server's processor time."""
    def __init__(self, server):
        self.server, self.wall_us, self.used_us, self.at = server, 0.0, 0.0, 0

    def time(self, connection, commands, at=0):
        used, start = self.server.used_us(), time.perf_counter()
        connection.send(commands)
        for _ in commands: connection.reply()
        wall, used = (time.perf_counter() - start) * 1e6, self.server.used_us() - used
        if used > self.used_us: self.used_us, self.at = used, at
        self.wall_us = max(self.wall_us, wall)

GROWING = {
    'RPUSH': lambda i, m: [b'RPUSH', b'k', m(i)], 'SADD': lambda i, m: [b'SADD', b'k', m(i)], 'ZADD': lambda i, m: [b'ZADD', b'k', spread(i), m(i)],
    'HSET': lambda i, m: [b'HSET', b'k', m(i), b'v%d' % i], 'XADD': lambda i, m: [b'XADD', b'k', b'*', b'f', m(i)], 'SET': lambda i, m: [b'SET', b'key:' + m(i), b'v'],
    'SETBIT': lambda i, m: [b'SETBIT', b'k', i * 100, 1], 'APPEND': lambda i, m: [b'APPEND', b'k', m(i)], 'PSETEX': lambda i, m: [b'PSETEX', b'key:' + m(i), 10**9 + i, b'v'],
    'HSETEX': lambda i, m: [b'HSETEX', b'k', b'EX', 100000 + i % 1000, b'FIELDS', 1, m(i), b'v'],
}

def while_growing(server, name, member, elements):
    server.connection.ask(b'FLUSHALL'); time.sleep(1)
    slowest = Slowest(server)
    for start in range(0, elements, BATCH):
        slowest.time(server.connection, [GROWING[name](i, MEMBERS[member]) for i in range(start, start + BATCH)], start)
    return slowest

def while_happening(server, elements, trigger, seconds, before=()):
    """The slowest GET of one client while something else happens in the server."""
    server.connection.ask(b'FLUSHALL'); time.sleep(1)
    server.connection.load([[b'SET', b'probe', b'v']])
    server.connection.load(before(elements))
    other, slowest = Connection(server.port), Slowest(server)
    other.send([trigger])
    end = max(time.time(), getattr(before, 'due_s', 0)) + seconds
    while time.time() < end:
        slowest.time(server.connection, [[b'GET', b'probe']])
        time.sleep(0.0005)
    if trigger[0] == b'CONFIG':
        server.connection.ask(b'CONFIG', b'SET', b'maxmemory', b'0')
    return slowest

def load_keys(n): return ([b'MSET', *(w for i in part for w in (b'key:%d' % i, b'v' * 50))] for part in chunks(n))
def load_expiring(n):
    deadline = int(time.time() * 1000) + 2000 + n // 20
    load_expiring.due_s = deadline / 1000
    for i in range(n): yield [b'SET', b'key:%d' % i, b'v', b'PXAT', deadline]
def load_of(kind): return lambda n: KINDS[kind][0](Collection(n, MEMBERS['short']))

HAPPENING = {
    'FLUSHALL': ([b'FLUSHALL'], 3, load_keys), 'FLUSHALL SYNC': ([b'FLUSHALL', b'SYNC'], 3, load_keys), 'BGSAVE': ([b'BGSAVE'], 5, load_keys), 'BGREWRITEAOF': ([b'BGREWRITEAOF'], 5, load_keys),
    'expiry at once': ([b'PING'], 6, load_expiring), 'eviction': ([b'CONFIG', b'SET', b'maxmemory', b'30mb', b'maxmemory-policy', b'allkeys-lru'], 5, load_keys),
    **{command + ' of a ' + kind: ([command.encode(), b'k'], 2, load_of(kind)) for command in ('DEL', 'UNLINK') for kind in ('list', 'set', 'zset', 'hash', 'stream')},
}

def tails(servers, options):
    ours, theirs = servers
    print('| what | slowest, ms: %s, processor / clock | %s | |' % (ours.name, theirs.name) + '\n|---|---|---|---|')
    cases = [('%s of %s elements' % (name, member), lambda s, n=name, m=member: while_growing(s, n, m, options.tail_elements)) for name in GROWING for member in (options.members[:1])]
    cases += [(name, lambda s, case=case: while_happening(s, options.tail_elements // 5, case[0], case[1], case[2])) for name, case in HAPPENING.items()]
    for name, run in cases:
        if options.cases not in name: continue
        results = [run(server) for server in servers]
        slow = results[0].used_us > STALL_US and results[0].used_us > STALLS_MAX * results[1].used_us
        print('| %s | %s | %s |' % (name, ' | '.join('%.2f / %.2f (at %d)' % (r.used_us / 1e3, r.wall_us / 1e3, r.at) for r in results), 'stalls' if slow else ''), flush=True)

def main():
    numbers = lambda text: [int(n) for n in text.split(',')]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('servers', nargs='*', metavar='NAME=COMMAND')
    parser.add_argument('--sizes', type=numbers, default=[100, 10000, 1000000])
    parser.add_argument('--kinds', type=lambda text: text.split(','), default=list(KINDS))
    parser.add_argument('--members', type=lambda text: text.split(','), default=list(MEMBERS))
    parser.add_argument('--cases', default='')
    parser.add_argument('--seconds', type=float, default=2400)
    parser.add_argument('--to', type=lambda path: open(path, 'a', buffering=1))
    parser.add_argument('--summary', nargs='+')
    parser.add_argument('--missing', action='store_true')
    parser.add_argument('--tails', action='store_true')
    parser.add_argument('--tail-elements', type=int, default=5000000)
    options = parser.parse_args()
    if options.summary: return summary(list(read_cases(options.summary)))
    if len(options.servers) != 2: parser.error('two servers are compared')
    if len(ALL_PROCESSORS) > 1: os.sched_setaffinity(0, {min(ALL_PROCESSORS)})
    servers = [Server(*argument.split('=', 1), FIRST_PORT + i) for i, argument in enumerate(options.servers)]
    try:
        if options.missing: return missing(servers[1])
        sys.exit(tails(servers, options) if options.tails else growth(servers, options))
    finally:
        for server in servers: server.process.kill()

main()
