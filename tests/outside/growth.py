#!/usr/bin/env python3
"""How the processor time of each data command grows with the collection, beside another server; and slowest calls.

usage: growth.py [options] NAME=COMMAND NAME=COMMAND      COMMAND contains {port}; the second server is the reference

--sizes 1000,30000,1000000   elements of each collection
--kinds list,set,...         only these kinds of collection; see KINDS
--members short,long,integer only elements of 10 to 16 bytes, of 100 bytes, integers
--cases TEXT                 only forms of calls that contain TEXT
--seconds 2400               no new collection is begun after so many
--tails                      instead: the slowest call while collections grow, expire, are evicted, flushed, deleted, saved
--tail-elements 5000000      elements in these

Prints microseconds of processor time a call, at each size, by both servers. A call is flagged

grows   when from the smallest size to the largest it takes GROWS_MAX times more of what the reference's call takes more,
stalls  when at the largest size it takes over STALL_US, and STALLS_MAX times what the reference's takes.

Of each form the least of three rounds counts, in each as many calls in one pipeline as take some milliseconds. What a call
destroys is copied before each, which is not counted. Servers have to know COPY and take no snapshots on their own.
"""
import argparse, os, random, shlex, socket, subprocess, sys, tempfile, time

GROWS_MAX, STALLS_MAX, STALL_US, FLOOR_US = 3.0, 3.0, 2000.0, 3.0
ROUNDS, ROUND_US, CALLS_MAX = 3, 3000.0, 200
RESTORED_MAX = 100000
FIRST_PORT = int(os.environ.get('FIRST_PORT', '48250'))

class Server:
    def __init__(self, name, command, port):
        self.name = name
        folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(shlex.split(command.format(port=port)), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.connection = self.connect(port)
        self.port = port
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

    def send(self, commands):
        self.socket.sendall(b''.join(encoded(c) for c in commands))

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

def encoded(words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words)

# ---- elements ----

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
            'bits': lambda: [8 * n], 'bit': lambda: [r.randrange(8 * n)], 'text': lambda: [b'x' * 100], 'long': lambda: [r.uniform(-180, 180)], 'lat': lambda: [r.uniform(-80, 80)],
            'where': lambda: [r.uniform(-180, 180), r.uniform(-80, 80)],
        }[name]()

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

# ---- forms of calls; one that starts with "copy" works on a copy of the key, `t`, made anew before each call ----

GENERIC = '''TYPE k|EXISTS k|TTL k|OBJECT ENCODING k|OBJECT IDLETIME k|MEMORY USAGE k|MEMORY USAGE k SAMPLES 50|TOUCH k|EXPIRE k 10000|PERSIST k
copy DEL t|copy UNLINK t|copy RENAME t u|copy SET t x|copy EXPIRE t -1|copy MOVE t 5|COPY k t REPLACE|DUMP k'''
SMALL = [[b'DEL', b'few', b'fewz', b'fewh'], [b'SADD', b'few', b'a', b'b', b'c'], [b'ZADD', b'fewz', b'1', b'a', b'2', b'b', b'3', b'c']]

KINDS = {
'list': (build_list, '''LLEN k|LPUSH k @new|RPUSH k @new|RPUSH k @new*100|LPUSHX k @new|LPOP k|RPOP k|LPOP k 10|RPOP k 10|copy LPOP t @n|copy RPOP t @half
LINDEX k 0|LINDEX k -1|LINDEX k @middle|LINDEX k @at|LINDEX k 99999999|LRANGE k 0 9|LRANGE k -10 -1|LRANGE k @ten|LRANGE k @middle @n|LRANGE k 0 -1|LRANGE k 5 1
LSET k 0 @new|LSET k -1 @new|LSET k @middle @new|LSET k @at @new|LINSERT k BEFORE @any @new|LINSERT k AFTER @none @new|LREM k 1 @any|LREM k -1 @any|LREM k 0 @none|copy LREM t 0 @any
LTRIM k 0 -1|LTRIM k 1 -2|copy LTRIM t 0 9|copy LTRIM t -10 -1|copy LTRIM t 5 1|copy LTRIM t @third @half|LPOS k @any|LPOS k @none|LPOS k @any RANK -1|LPOS k @any MAXLEN 100|LPOS k @any COUNT 0
LMOVE k k LEFT RIGHT|LMOVE k k RIGHT LEFT|RPOPLPUSH k k|LMPOP 1 k LEFT|LMPOP 1 k RIGHT COUNT 10|BLPOP k 1|BRPOP k 1|BLMOVE k k LEFT LEFT 1|SORT k BY nosort LIMIT 0 10|SORT k ALPHA LIMIT 0 10|SORT_RO k ALPHA'''),
'set': (build_set, '''SCARD k|SADD k @any|SADD k @new|SADD k @new*100|SADD k @any*100|SREM k @any|SREM k @none|SREM k @any*10|SISMEMBER k @any|SISMEMBER k @none|SMISMEMBER k @any*10|SMEMBERS k
SRANDMEMBER k|SRANDMEMBER k 10|SRANDMEMBER k -10|SRANDMEMBER k 500|SRANDMEMBER k -500|SRANDMEMBER k @half|SRANDMEMBER k @most|SRANDMEMBER k @n|SPOP k|SPOP k 10|copy SPOP t @half|copy SPOP t @most|copy SPOP t @n|copy SADD t text
SSCAN k 0|SSCAN k 0 COUNT 1000|SSCAN k 0 COUNT @n|SSCAN k 0 MATCH nothing|SINTER k few|SINTER few k|SINTER k k|SINTERCARD 2 k few|SINTERCARD 2 k k LIMIT 10|SUNION k few|SUNION k k|SDIFF few k|SDIFF k few|SDIFF k k
SINTERSTORE t k few|SINTERSTORE t k k|SUNIONSTORE t k few|SUNIONSTORE t k k|SDIFFSTORE t k few|SDIFFSTORE t k k|SMOVE k t @any|SMOVE k t @none|SORT k BY nosort LIMIT 0 10|SORT k ALPHA LIMIT 0 10'''),
'zset': (build_zset, '''ZCARD k|ZADD k @rescored|ZADD k @scored|ZADD k XX @rescored|ZADD k NX @scored|ZADD k GT @rescored|ZADD k CH @rescored|ZADD k @scored*100|ZADD k @rescored*100|ZINCRBY k 1 @any|ZINCRBY k 1000000 @any|ZREM k @any|ZREM k @none|ZREM k @any*10
ZSCORE k @any|ZSCORE k @none|ZMSCORE k @any*10|ZCOUNT k -inf +inf|ZCOUNT k @ten|ZRANK k @any|ZREVRANK k @any|ZRANK k @any WITHSCORE|ZRANK k @none
ZRANGE k 0 9|ZRANGE k -10 -1|ZRANGE k @ten|ZRANGE k @hundred WITHSCORES|ZRANGE k 0 9 REV|ZRANGE k 0 -1|ZRANGE k @ten BYSCORE|ZRANGE k -inf +inf BYSCORE LIMIT @most 10|ZRANGE k +inf -inf BYSCORE REV LIMIT @middle 10|ZREVRANGE k 0 9|ZRANGEBYSCORE k @ten|ZREVRANGEBYSCORE k @tenback
ZRANGESTORE t k 0 9|ZRANGESTORE t k 0 -1|ZRANGESTORE t k @ten BYSCORE|ZREMRANGEBYRANK k 0 0|ZREMRANGEBYRANK k -1 -1|ZREMRANGEBYSCORE k @same|ZREMRANGEBYSCORE k 5 1|copy ZREMRANGEBYRANK t 0 -1|copy ZREMRANGEBYRANK t @third @most|copy ZREMRANGEBYSCORE t -inf @middle|copy ZREMRANGEBYSCORE t -inf +inf
ZPOPMIN k|ZPOPMAX k|ZPOPMIN k 10|ZPOPMAX k 10|copy ZPOPMIN t @n|ZMPOP 1 k MIN|ZMPOP 1 k MAX COUNT 10|BZPOPMIN k 1|BZMPOP 1 1 k MAX|ZRANDMEMBER k|ZRANDMEMBER k 10|ZRANDMEMBER k -10|ZRANDMEMBER k 500 WITHSCORES|ZRANDMEMBER k @half|ZRANDMEMBER k @most|ZRANDMEMBER k @n
ZSCAN k 0|ZSCAN k 0 COUNT 1000|ZSCAN k 0 COUNT @n|ZSCAN k 0 MATCH nothing|ZUNION 2 k fewz|ZUNION 2 k k|ZINTER 2 k fewz|ZINTER 2 k k|ZINTER 2 k few|ZINTERCARD 2 k fewz|ZINTERCARD 2 k k LIMIT 10|ZDIFF 2 fewz k|ZDIFF 2 k fewz|ZDIFF 2 k k|ZUNIONSTORE t 2 k fewz|ZUNIONSTORE t 2 k k WEIGHTS 1 2|ZINTERSTORE t 2 k fewz|ZINTERSTORE t 2 k k|ZDIFFSTORE t 2 k fewz|SORT k BY nosort LIMIT 0 10|SORT k ALPHA LIMIT 0 10'''),
'lex': (build_lex, '''ZLEXCOUNT k - +|ZLEXCOUNT k @lex +|ZRANGEBYLEX k @lex + LIMIT 0 10|ZRANGEBYLEX k - + LIMIT @most 10|ZREVRANGEBYLEX k @lex - LIMIT 0 10|ZRANGE k @lex + BYLEX LIMIT 0 10|ZRANGE k + - BYLEX REV LIMIT @middle 10|ZREMRANGEBYLEX k @samelex|copy ZREMRANGEBYLEX t - +|copy ZREMRANGEBYLEX t @lex +|ZADD k 0 @new|ZADD k 0 @any|ZREM k @any|ZRANK k @any|ZRANGESTORE t k @lex + BYLEX LIMIT 0 10|ZPOPMIN k|ZINCRBY k 0 @any|ZCOUNT k 0 0|ZRANGE k 0 0 BYSCORE LIMIT @most 10'''),
'hash': (build_hash, '''HLEN k|HSET k @pair|HSET k @longpair|HSET k @newpair|HSET k @newpair*100|HSET k @pair*100|HMSET k @pair*10|HSETNX k @newpair|HSETNX k @pair|HGET k @any|HGET k @none|HMGET k @any*10|HDEL k @any|HDEL k @none|HDEL k @any*10|HEXISTS k @any|HSTRLEN k @any|HINCRBY k counter 1|HINCRBYFLOAT k float 1.5
HKEYS k|HVALS k|HGETALL k|HSCAN k 0|HSCAN k 0 COUNT 1000|HSCAN k 0 COUNT @n|HSCAN k 0 NOVALUES|HSCAN k 0 MATCH nothing|HRANDFIELD k|HRANDFIELD k 10|HRANDFIELD k -10|HRANDFIELD k 500 WITHVALUES|HRANDFIELD k @half|HRANDFIELD k @most|HRANDFIELD k @n
HTTL k FIELDS 1 @any|HPERSIST k FIELDS 1 @any|copy HEXPIRE t 1000 FIELDS 1 @any|HGETEX k FIELDS 1 @any|copy HSETEX t EX 1000 FIELDS 1 @pair'''),
'expiring': (build_expiring, '''HLEN k|HSET k @pair|HSET k @newpair|HSETNX k @newpair|HGET k @any|HGET k @none|HMGET k @any*10|HDEL k @any|HDEL k @any*10|HINCRBY k counter 1|HKEYS k|HVALS k|HGETALL k|HSCAN k 0|HSCAN k 0 COUNT 1000|HRANDFIELD k|HRANDFIELD k 10|HRANDFIELD k -10|HRANDFIELD k 500|HRANDFIELD k @half|HRANDFIELD k @most|HRANDFIELD k @n
HEXPIRE k 1000 FIELDS 1 @any|HEXPIRE k 100000 GT FIELDS 1 @any|HPEXPIRE k 1000000 FIELDS 10 @any*10|HEXPIREAT k 9999999999 FIELDS 1 @any|HEXPIRE k 0 FIELDS 1 @any|HTTL k FIELDS 10 @any*10|HPTTL k FIELDS 1 @any|HEXPIRETIME k FIELDS 1 @any|HPERSIST k FIELDS 1 @any|HGETEX k EX 1000 FIELDS 1 @any|HGETEX k PERSIST FIELDS 1 @any|HSETEX k EX 1000 FIELDS 1 @pair|HSETEX k KEEPTTL FIELDS 1 @pair'''),
'stream': (build_stream, '''XLEN k|XADD k * f @new|XADD k MAXLEN ~ @n * f @new|XADD k MAXLEN = @n * f @new|XADD k MAXLEN = @half * f @new|XADD k MINID ~ @id * f @new|XRANGE k - + COUNT 10|XRANGE k @id + COUNT 10|XRANGE k @id @lastid COUNT 100|XREVRANGE k + - COUNT 10|XREVRANGE k @id - COUNT 10|XRANGE k - +|XREAD COUNT 10 STREAMS k 0|XREAD COUNT 10 STREAMS k @id|XREAD COUNT 10 STREAMS k $
XDEL k @id|XDEL k @id @id @id|XDEL k 99999999-1|copy XTRIM t MAXLEN @half|copy XTRIM t MAXLEN 0|copy XTRIM t MAXLEN ~ @tenth|copy XTRIM t MINID @halfid|XTRIM k MAXLEN @n|XINFO STREAM k|XINFO STREAM k FULL|XINFO STREAM k FULL COUNT 100|XINFO GROUPS k|XSETID k 99999999999999-0|XGROUP CREATE k fresh $|XGROUP CREATE k fresher 0|XGROUP SETID k fresh 0|XGROUP SETID k fresh @id|XGROUP CREATECONSUMER k fresh c|XREADGROUP GROUP fresh c COUNT 10 STREAMS k >|XGROUP DESTROY k fresher'''),
'pending': (build_pending, '''XPENDING k g|XPENDING k g - + 10|XPENDING k g @id + 10|XPENDING k g - + 10 c3|XPENDING k g IDLE 0 - + 10|XPENDING k g IDLE 99999999 - + 10|XPENDING k g IDLE 99999999 - + @n|XACK k g @id|XACK k g @id @id @id|XACK k g 99999999-1|XCLAIM k g c1 0 @id|XCLAIM k g c1 99999999 @id|XCLAIM k g c1 0 @id JUSTID|XAUTOCLAIM k g c2 0 0 COUNT 10|XAUTOCLAIM k g c2 99999999 0 COUNT 10|XAUTOCLAIM k g c2 0 @id JUSTID|XREADGROUP GROUP g c1 COUNT 10 STREAMS k 0|XREADGROUP GROUP g c1 COUNT 10 STREAMS k @id
XINFO GROUPS k|XINFO CONSUMERS k g|XINFO STREAM k FULL|XINFO STREAM k FULL COUNT 1000|XDEL k @id|XTRIM k MAXLEN @n|copy XTRIM t MAXLEN @half|copy XGROUP DESTROY t g|copy XGROUP DELCONSUMER t g c1|XGROUP SETID k g 0|XGROUP CREATECONSUMER k g another|XADD k * f @new'''),
'geo': (build_geo, '''GEOADD k @where @any|GEOADD k @where @new|GEODIST k @any @any|GEOPOS k @any|GEOHASH k @any|GEOSEARCH k FROMLONLAT @where BYRADIUS 10 km|GEOSEARCH k FROMLONLAT @where BYRADIUS 100 km COUNT 10|GEOSEARCH k FROMLONLAT @where BYRADIUS 100 km COUNT 10 ANY|GEOSEARCH k FROMMEMBER @any BYBOX 50 50 km ASC
GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 10|GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 10 ANY|GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 30000 km|GEOSEARCH k FROMLONLAT 0 0 BYBOX 40000 20000 km DESC COUNT 100|GEOSEARCHSTORE t k FROMLONLAT @where BYRADIUS 100 km|GEOSEARCHSTORE t k FROMLONLAT 0 0 BYRADIUS 20000 km STOREDIST|GEORADIUS k 0 0 5000 km COUNT 10|GEORADIUSBYMEMBER k @any 100 km WITHDIST'''),
'string': (build_string, '''GET k|STRLEN k|GETRANGE k 0 9|GETRANGE k @ten|GETRANGE k -10 -1|GETRANGE k 0 -1|SUBSTR k @ten|SETRANGE k 0 xyz|SETRANGE k @at xyz|copy SETRANGE t @n xyz|APPEND k x|APPEND k @text|copy APPEND t x|GETBIT k @bit|SETBIT k @bit 1|copy SETBIT t @bits 1|BITCOUNT k|BITCOUNT k 0 9|BITCOUNT k @ten|BITCOUNT k @ten BIT|BITPOS k 1|BITPOS k 0 @at|BITPOS k 1 -10 -1
BITOP NOT t k|BITOP AND t k k|BITOP OR t k k k|BITOP XOR t k missing|BITFIELD k GET u8 @bit|BITFIELD k SET u8 @bit 7|BITFIELD k INCRBY u16 @bit 1|BITFIELD_RO k GET u8 @bit|LCS k few-text LEN|GETEX k|copy GETDEL t|copy GETSET t x|copy SET t x GET|MGET k k|SET t x|PFCOUNT missing k|copy INCR t'''),
'hyperloglog': (build_hyperloglog, '''PFADD k @new|PFADD k @any|PFADD k @new*100|PFCOUNT k|PFCOUNT k k|PFMERGE t k|PFMERGE t k k|PFMERGE k|STRLEN k|GETRANGE k 0 10'''),
'keys': (build_keys, '''GET @key|SET @key x|SET @newkey x|SETEX @newkey 1000 x|MGET @key @key @key|EXISTS @key|DEL @key|UNLINK @key|EXPIRE @key 1000|PERSIST @key|TTL @key|TYPE @key|TOUCH @key|INCR counter|APPEND @key x|RENAME @key t|RENAMENX @key @newkey|COPY @key @newkey|OBJECT ENCODING @key|OBJECT FREQ @key|DUMP @key|RANDOMKEY|DBSIZE|SCAN 0|SCAN 0 COUNT 1000|SCAN 0 MATCH nothing|SCAN 0 TYPE list COUNT 100|KEYS nothing|KEYS key:1*|LPUSH @newkey a|SADD @newkey a|HSET @newkey f v|ZADD @newkey 1 a|XADD @newkey * f v|SWAPDB 0 1|SWAPDB 1 0|MOVE @key 3|GETDEL @key|MEMORY USAGE @key|INFO keyspace|INFO memory'''),
# Every key has an expiry.
'volatile': (build_volatile, '''GET @key|SET @key x|SET @key x KEEPTTL|SET @newkey x EX 1000|GETEX @key PX 10000000|GETEX @key PERSIST|EXPIRE @key 1000|PEXPIRE @key 10000000 GT|PERSIST @key|TTL @key|EXPIRETIME @key|DEL @key|EXPIRE @key -1|RENAME @key t|COPY @key @newkey|RANDOMKEY|SCAN 0 COUNT 1000|INFO keyspace|INFO|DBSIZE|SWAPDB 0 1|SWAPDB 1 0|MOVE @key 3'''),
}
UNLIKE_MEMBERS = {'string', 'keys', 'volatile', 'geo', 'hyperloglog', 'stream', 'pending'}   # one kind of member is enough

# ---- measuring ----

def measure(server, collection, form):
    """Microseconds a call, and the first reply."""
    connection, copied = server.connection, form.startswith('copy ')
    form = form.removeprefix('copy ')
    best, calls, first = None, 1, None
    for round in range(ROUNDS + 1):
        if copied:
            used = 0
            for _ in range(min(calls, 3)):
                connection.ask(b'DEL', b't', b'u'); connection.ask(b'COPY', b'k', b't')
                used += timed(server, [collection.words(form)])[0]
            each = used / min(calls, 3)
        else:
            used, first = timed(server, [collection.words(form) for _ in range(calls)])
            each = used / calls
        if round == 0:
            calls = max(1, min(20 if '*100' in form else CALLS_MAX, int(ROUND_US / max(each, 1))))
            if each > 300000: return each, first   # once is enough
        best = each if best is None or round == 1 else min(best, each)
    return best, first

def timed(server, commands):
    time.sleep(0.0003)
    before = server.used_us()
    server.connection.send(commands)
    replies = [server.connection.reply() for _ in commands]
    time.sleep(0.0003)
    return server.used_us() - before, replies[0]

def forms_of(kind, cases):
    text = KINDS[kind][1] + '\n' + ('' if kind in ('keys', 'volatile') else GENERIC)
    forms = [form for line in text.splitlines() for form in line.split('|') if form]
    return [form for form in forms if cases in form]

def run_kind(servers, kind, member, sizes, cases):
    """Rows of (form, times by server and size, first replies)."""
    forms = forms_of(kind, cases)
    times = {form: {server.name: [] for server in servers} for form in forms}
    for size in sizes if forms else []:
        for server in servers:
            server.connection.ask(b'FLUSHALL')
            # Freed in the background: what is left of the last collection must not be counted.
            time.sleep(0.2 if size < 100000 else 1.5)
            collection = Collection(size, MEMBERS[member])
            server.connection.load(SMALL + [[b'SET', b'few-text', b'abc' * 10]])
            server.connection.load(KINDS[kind][0](collection))
            server.connection.ask(b'COPY', b'k', b'as it was')
            for form in forms:
                times[form][server.name].append(measure(server, collection, form)[0])
                if size <= RESTORED_MAX and not form.startswith('copy '):
                    # Else the faster server's collection would have grown, or shrunk, by more calls.
                    server.connection.ask(b'COPY', b'as it was', b'k', b'REPLACE')
    return [(form, times[form]) for form in forms]

def verdict(ours, theirs):
    flags = []
    if ours[-1] > FLOOR_US and ours[-1] - ours[0] > FLOOR_US:
        # Less than a microsecond is noise, and a call that grows by as many times from nothing is none.
        grown, allowed = ours[-1] / max(ours[0], 1.0), theirs[-1] / max(theirs[0], 1.0)
        if grown > GROWS_MAX * allowed and ours[-1] > theirs[-1]: flags.append('grows')
    if ours[-1] > STALL_US and ours[-1] > STALLS_MAX * theirs[-1]: flags.append('stalls')
    return ' '.join(flags)

def growth(servers, options):
    started, flagged, forms = time.time(), [], 0
    ours, theirs = servers
    print('| kind | elements | form | %s, us | %s, us | |' % (ours.name, theirs.name) + '\n|---|---|---|---|---|---|')
    for kind in options.kinds:
        for member in options.members[:1] if kind in UNLIKE_MEMBERS else options.members:
            if time.time() - started > options.seconds:
                print('no time left for %s of %s' % (kind, member)); continue
            for form, times in run_kind(servers, kind, member, options.sizes, options.cases):
                a, b = times[ours.name], times[theirs.name]
                row = '| %s | %s | %s | %s | %s | %s |' % (kind, member, form, ' '.join('%.1f' % t for t in a), ' '.join('%.1f' % t for t in b), verdict(a, b))
                forms += 1
                if verdict(a, b): flagged.append(row)
                print(row, flush=True)
    print('\n%d forms, %d flagged' % (forms, len(flagged)), *flagged, sep='\n')
    return len(flagged)

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
    parser.add_argument('servers', nargs=2, metavar='NAME=COMMAND')
    parser.add_argument('--sizes', type=numbers, default=[1000, 30000, 1000000])
    parser.add_argument('--kinds', type=lambda text: text.split(','), default=list(KINDS))
    parser.add_argument('--members', type=lambda text: text.split(','), default=list(MEMBERS))
    parser.add_argument('--cases', default='')
    parser.add_argument('--seconds', type=float, default=2400)
    parser.add_argument('--tails', action='store_true')
    parser.add_argument('--tail-elements', type=int, default=5000000)
    options = parser.parse_args()
    servers = [Server(*argument.split('=', 1), FIRST_PORT + i) for i, argument in enumerate(options.servers)]
    try:
        sys.exit(tails(servers, options) if options.tails else growth(servers, options))
    finally:
        for server in servers: server.process.kill()

main()
