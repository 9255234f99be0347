#!/usr/bin/env python3
"""Compares what data commands count and announce on two servers.

usage: counters.py PORT REFERENCE_PORT [OPTION=VALUE...]

Both servers need `--enable-debug-command yes`; what they hold is lost. Each call below is made with its key `k` live, missing,
expired but still stored, and with a time to live, with and without a second key `m` of the same type; hashes also with one
or all fields due. After each call the differences of the counters in COUNTERS and all events of keys must agree, and with an
OPTION like maxmemory-policy=allkeys-lfu lfu-log-factor=0 how often the keys were used. What docs/differences.md
explains is told as `known`. Ends with 1 if anything else differs.
"""
import itertools, shlex, sys, time

from policy_servers import Connection

COUNTERS = {'keyspace_hits', 'keyspace_misses', 'expired_keys', 'expired_fields', 'evicted_keys', 'total_error_replies',
            'rdb_changes_since_last_save'}
MAKE = {'string': 'SET {} 10', 'list': 'RPUSH {} 1 2 3', 'hash': 'HSET {} f 1 g 2', 'set': 'SADD {} 1 2 3',
        'zset': 'ZADD {} 1 a 2 b', 'stream': 'XADD {} 1-1 f v', 'hyperloglog': 'PFADD {} a b'}
CALLS = {
    'string': '''
        GET k|SET k v|SET k v PX 100000|SET k v KEEPTTL|SET k v NX|SET k v XX|SET k v GET|SET k v XX GET|SETNX k v|
        SETEX k 100 v|PSETEX k 100000 v|GETSET k v|GETDEL k|GETEX k|GETEX k EX 100|GETEX k PERSIST|APPEND k v|STRLEN k|
        GETRANGE k 0 1|SUBSTR k 0 1|SETRANGE k 1 x|SETRANGE k 1 ""|INCR k|DECR k|INCRBY k 3|INCRBYFLOAT k 1.5|MGET k m|
        MGET k k|MSET k v m w|MSETNX k v m w|SETBIT k 3 1|GETBIT k 3|BITCOUNT k|BITPOS k 1|BITFIELD k GET u8 0|
        BITFIELD k SET u8 0 1|BITFIELD k INCRBY u8 0 1|BITFIELD_RO k GET u8 0|BITOP AND d k m|BITOP NOT d k|LCS k m|DEL k|
        DEL k m|UNLINK k|EXISTS k|EXISTS k k m|TYPE k|TOUCH k|TOUCH k k|TTL k|PTTL k|EXPIRETIME k|PEXPIRETIME k|EXPIRE k 100|
        EXPIRE k 100 NX|EXPIRE k 200 GT|EXPIRE k 50 GT|EXPIRE k -1|PEXPIRE k 100000|EXPIREAT k 1|PERSIST k|RENAME k d|RENAMENX k d|COPY k d|
        COPY k d REPLACE|MOVE k 1|DUMP k|OBJECT ENCODING k|OBJECT REFCOUNT k|OBJECT IDLETIME k|OBJECT FREQ k|MEMORY USAGE k|
        SORT k|KEYS *|SCAN 0|DBSIZE|PFCOUNT k|PFADD k x|DEBUG OBJECT k|LPUSH k x|HGET k f|HSET k f v|SADD k x|
        ZADD k 1 x|XADD k * f v|LLEN k|RESTORE k 0 PAYLOAD|RESTORE k 0 PAYLOAD REPLACE|RESTORE k 1 PAYLOAD ABSTTL|
        RESTORE k 1 PAYLOAD ABSTTL REPLACE|RESTORE k 100000 PAYLOAD REPLACE|WATCH k|GETEX k PXAT 1|SET k v PXAT 1|
        SET k v EXAT 1 GET|MSETEX 1 k v EX 100|DELIFEQ k 10|SET k v IFEQ 10|SET k v IFEQ 11|COPY m k|COPY m k REPLACE|
        RENAME m k|RENAMENX m k|EVAL "return redis.call('GET',KEYS[1])" 1 k|EVAL "return redis.call('SET',KEYS[1],'x')" 1 k|
        BITOP OR k m n|SORT m STORE k|OBJECT HELP''',
    'list': '''
        LPUSH k x|RPUSH k x|LPUSHX k x|RPUSHX k x|LPOP k|RPOP k|LPOP k 2|LPOP k 0|LPOP k 9|LLEN k|LINDEX k 0|LINDEX k 9|
        LRANGE k 0 -1|LRANGE k 5 9|LSET k 0 x|LSET k 9 x|LINSERT k BEFORE 1 x|LINSERT k BEFORE zz x|LREM k 0 1|LREM k 0 zz|
        LTRIM k 1 1|LTRIM k 9 1|LPOS k 1|LPOS k zz|LMOVE k d LEFT RIGHT|LMOVE k k LEFT RIGHT|LMOVE m k LEFT RIGHT|
        RPOPLPUSH k d|RPOPLPUSH m k|LMPOP 1 k LEFT|LMPOP 2 m k LEFT COUNT 2|BLPOP k 0.01|BLPOP m k 0.01|BRPOP k m 0.01|
        BLMOVE k d LEFT RIGHT 0.01|BRPOPLPUSH k d 0.01|BLMPOP 0.01 1 k LEFT|SORT k|SORT_RO k|SORT k BY nosort GET w_*|
        SORT k BY w_* GET #|SORT k STORE d|GET k|INCR k|SCARD k|COPY k d|DUMP k|TYPE k|DEL k''',
    'hash': '''
        HSET k f v|HSET k f 1|HSETNX k f v|HSETNX k z v|HMSET k f v|HGET k f|HGET k z|HMGET k f z|HGETALL k|HKEYS k|HVALS k|
        HLEN k|HSTRLEN k f|HEXISTS k f|HEXISTS k z|HDEL k f|HDEL k z|HDEL k f g|HINCRBY k f 1|HINCRBYFLOAT k f 1|HRANDFIELD k|
        HRANDFIELD k 1|HRANDFIELD k 1 WITHVALUES|HSCAN k 0|HEXPIRE k 100 FIELDS 1 f|HEXPIRE k 100 FIELDS 1 z|
        HEXPIRE k 0 FIELDS 1 f|HEXPIRE k 0 FIELDS 2 f g|HPEXPIRE k 100000 NX FIELDS 1 f|HPERSIST k FIELDS 1 f|
        HTTL k FIELDS 1 f|HPTTL k FIELDS 1 z|HEXPIRETIME k FIELDS 1 f|HPEXPIRETIME k FIELDS 1 f|HGETEX k FIELDS 1 f|
        HGETEX k EX 100 FIELDS 1 f|HGETEX k PERSIST FIELDS 1 f|HGETEX k PXAT 1 FIELDS 1 f|HSETEX k EX 100 FIELDS 1 f v|
        HSETEX k FNX FIELDS 1 f v|HSETEX k FXX FIELDS 1 f v|HSETEX k PXAT 1 FIELDS 1 f v|HGETDEL k FIELDS 1 f|
        HGETDEL k FIELDS 2 f g|HGETDEL k FIELDS 1 z|GET k|LPUSH k x|COPY k d''',
    'set': '''
        SADD k x|SADD k 1|SREM k 1|SREM k zz|SREM k 1 2 3|SISMEMBER k 1|SISMEMBER k z|SMISMEMBER k 1 z|SCARD k|SMEMBERS k|
        SPOP k|SPOP k 2|SPOP k 0|SPOP k 9|SRANDMEMBER k|SRANDMEMBER k 2|SRANDMEMBER k -2|SSCAN k 0|SMOVE k d 1|SMOVE k d zz|
        SMOVE m k zz|SMOVE k k 1|SINTER k m|SINTER k k|SINTER m k|SUNION k m|SDIFF k m|SDIFF m k|SINTERCARD 2 k m|
        SINTERCARD 2 k k LIMIT 1|SINTERSTORE d k m|SINTERSTORE d k k|SUNIONSTORE d k m|SUNIONSTORE k m n|SDIFFSTORE d k m|
        SDIFFSTORE d m k|SORT k|GET k|SINTERSTORE k m n''',
    'zset': '''
        ZADD k 1 a|ZADD k 5 a|ZADD k NX 5 a|ZADD k XX 5 a|ZADD k XX 5 z|ZADD k GT 0 a|ZADD k INCR 1 a|ZADD k XX INCR 1 z|
        ZINCRBY k 1 a|ZREM k a|ZREM k z|ZREM k a b|ZCARD k|ZSCORE k a|ZSCORE k z|ZMSCORE k a z|ZRANK k a|ZRANK k z|
        ZREVRANK k a|ZRANK k a WITHSCORE|ZRANGE k 0 -1|ZRANGE k 5 9|ZRANGE k 0 1 BYSCORE|ZRANGE k - + BYLEX|ZREVRANGE k 0 -1|
        ZRANGEBYSCORE k 0 9|ZREVRANGEBYSCORE k 9 0|ZRANGEBYLEX k - +|ZREVRANGEBYLEX k + -|ZCOUNT k 0 9|ZLEXCOUNT k - +|
        ZPOPMIN k|ZPOPMAX k 2|ZPOPMIN k 0|ZPOPMIN k 9|BZPOPMIN k 0.01|BZPOPMAX m k 0.01|ZMPOP 1 k MIN|ZMPOP 2 m k MAX COUNT 5|
        BZMPOP 0.01 1 k MIN|ZREMRANGEBYRANK k 0 0|ZREMRANGEBYRANK k 5 9|ZREMRANGEBYSCORE k 0 9|ZREMRANGEBYSCORE k 50 90|
        ZREMRANGEBYLEX k - +|ZRANDMEMBER k|ZRANDMEMBER k 2|ZRANDMEMBER k -2 WITHSCORES|ZSCAN k 0|ZUNION 2 k m|ZINTER 2 k m|
        ZINTER 2 k k|ZDIFF 2 k m|ZDIFF 2 m k|ZUNIONSTORE d 2 k m|ZINTERSTORE d 2 k m|ZDIFFSTORE d 2 k m|ZUNIONSTORE k 2 m n|
        ZINTERCARD 2 k m|ZINTERCARD 2 k k|ZRANGESTORE d k 0 -1|ZRANGESTORE d k 5 9|ZRANGESTORE k m 0 -1|GEOADD k 1 1 p|
        GEOPOS k a|GEOHASH k a|GEODIST k a b|GEODIST k a z|GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 1000 km|
        GEOSEARCH k FROMMEMBER a BYRADIUS 1000 km|GEORADIUS k 0 0 1000 km|GEORADIUS k 0 0 1000 km STORE d|
        GEORADIUSBYMEMBER k a 10 km|GEOSEARCHSTORE d k FROMLONLAT 0 0 BYRADIUS 1000 km|GET k|SORT k''',
    'stream': '''
        XADD k * f v|XADD k NOMKSTREAM * f v|XADD k MAXLEN 1 * f v|XLEN k|XRANGE k - +|XREVRANGE k + -|XDEL k 1-1|XDEL k 9-9|
        XTRIM k MAXLEN 0|XTRIM k MAXLEN 5|XREAD STREAMS k 0|XREAD STREAMS k $|XREAD STREAMS k m 0 0|XREAD BLOCK 10 STREAMS k $|
        XGROUP CREATE k g 0|XGROUP CREATE k g 0 MKSTREAM|XGROUP CREATE k G 0|XGROUP SETID k G 0|XGROUP DESTROY k g|
        XGROUP DESTROY k G|XGROUP CREATECONSUMER k G c|XGROUP DELCONSUMER k G c|
        XREADGROUP GROUP G c STREAMS k >|XREADGROUP GROUP G c STREAMS k 0|XREADGROUP GROUP g c STREAMS k >|XACK k G 1-1|
        XPENDING k G|XPENDING k G - + 10|XCLAIM k G c 0 1-1|XAUTOCLAIM k G c 0 0|XINFO STREAM k|XINFO GROUPS k|
        XINFO CONSUMERS k G|XSETID k 5-5|GET k''',
    'hyperloglog': '''
        PFADD k x|PFADD k a|PFCOUNT k|PFCOUNT k m|PFCOUNT k k|PFMERGE d k|PFMERGE k m|PFMERGE k|PFMERGE d m n|GET k|STRLEN k''',
}

class Server:
    def __init__(self, port, options):
        connection, self.listener, self.options = Connection(port), Connection(port), options
        self.client = connection.ask
        for option in ['notify-keyspace-events=KEAmn', 'maxmemory-policy=noeviction', *options]:
            self.client('CONFIG', 'SET', *option.split('='))
        self.client('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
        self.listener.ask('PSUBSCRIBE', '__keyevent@*')
        self.client('SET', 'payload', 'abc')
        self.payload = self.client('DUMP', 'payload')

    def events(self):
        """What has been announced since the last call."""
        self.listener.send([['PING']])
        messages = iter(self.listener.reply, [b'pong', b''])
        return [(channel.split(b':')[1].decode(), key.decode()) for _, _, channel, key in messages]

    def counters(self):
        lines = (self.client('INFO', 'stats') + self.client('INFO', 'persistence')).decode().split('\r\n')
        pairs = (line.split(':', 1) for line in lines if ':' in line)
        return {name: int(value) for name, value in pairs if name in COUNTERS}

    def prepare(self, kind, state, is_beside):
        client = self.client
        client('FLUSHALL')
        if state != 'missing':
            client(*MAKE[kind].format('k').split())
            if kind == 'stream': client('XGROUP', 'CREATE', 'k', 'G', '0')
        if is_beside: client(*MAKE[kind].format('m').split())
        due = {'expired': 'PEXPIRE k 1', 'a field due': 'HPEXPIRE k 1 FIELDS 1 f', 'all fields due': 'HPEXPIRE k 1 FIELDS 2 f g'}
        if state in due:
            client(*due[state].split())
            time.sleep(0.003)
        if state == 'to live': client('EXPIRE', 'k', '100')
        self.events()

    def told(self, kind, call, state, is_beside):
        """What the call has counted, by name, its events, and how often keys are said to have been used."""
        self.prepare(kind, state, is_beside)
        before = self.counters()
        self.client(*(self.payload if word == 'PAYLOAD' else word for word in shlex.split(call)))
        counted = {name: value - before[name] for name, value in self.counters().items() if value != before[name]}
        used = [self.client('OBJECT', 'FREQ', key) for key in 'kmd'] if any('lfu' in option for option in self.options) else []
        return counted, self.events(), used

# They look at a key more than once for an argument.
LOOK_AGAIN = {'BLMOVE', 'BRPOPLPUSH', 'BZMPOP', 'BZPOPMAX', 'BZPOPMIN', 'GETSET', 'PFMERGE', 'XREAD', 'XREADGROUP'}

def is_known(kind, call, state, differing):
    """See docs/differences.md."""
    return (call == 'MEMORY USAGE k' and state == 'expired'
            or kind == 'hash' and 'due' in state and call.split()[0] in ('HEXPIRE', 'HPEXPIRE', 'HPERSIST', 'HGETEX')
            or call == 'SPOP k 9' and differing == ['keyspace_hits']
            or call == 'ZDIFF 2 m k' and state == 'expired' and differing == ['events']
            or differing == ['uses'] and (call.split()[0] in LOOK_AGAIN or call.split()[-1] == 'GET'))

def main():
    ports, options = sys.argv[1:3], sys.argv[3:]
    servers = [Server(int(port), options) for port in ports]
    for server in servers: server.payload = servers[1].payload
    cases, known, faults = 0, 0, 0
    for kind, calls in CALLS.items():
        states = ['live', 'missing', 'expired', 'to live'] + ['a field due', 'all fields due'] * (kind == 'hash')
        for call, state, is_beside in itertools.product(calls.split('|'), states, (False, True)):
            ours, theirs = (server.told(kind, call.strip(), state, is_beside) for server in servers)
            cases += 1
            if ours == theirs: continue
            differing = sorted(name for name in ours[0].keys() | theirs[0].keys() if ours[0].get(name) != theirs[0].get(name))
            differing += ['events'] * (ours[1] != theirs[1]) + ['uses'] * (ours[2] != theirs[2])
            is_explained = is_known(kind, call.strip(), state, differing)
            known, faults = known + is_explained, faults + (not is_explained)
            word = 'known' if is_explained else 'FAULT'
            print(f'{word} {kind} {state}{" beside m" * is_beside}: {call.strip()}: {", ".join(differing)}: {ours} / {theirs}', flush=True)
    print(f'{cases} cases, {known} known differences, {faults} faults')
    sys.exit(bool(faults))

if __name__ == '__main__': main()
