#!/usr/bin/env python3
"""What each encoding of a collection costs, and what rules by key (`key-policy`) save in examples.

usage: policies.py [--elements 10000] [--examples] SERVER       SERVER: the program, which is started on a port of its own

A hash, a list, a set and a sorted set of so many integers are built by each rule in turn, and by none (the default):
bytes (MEMORY USAGE), and microseconds of processor time a call: to write (HSET, RPUSH, SADD, ZADD of one element more, in no
order), to read (HGET, LINDEX, SISMEMBER, ZSCORE of any element), and to take all elements out one by one, from each end of
those that have ends (LPOP, RPOP, ZPOPMIN, ZPOPMAX), else by name (HDEL, SREM). Calls come in pipelines of 100; a PING in such a
one costs what is printed first. Of three rounds, which the rules take in turns, the least counts.

--examples: instead, the examples of docs/policies.md, with and without their rule: bytes a key, and microseconds a call.
"""
import argparse, os, random, shlex, socket, subprocess, tempfile, time

PORT = int(os.environ.get('FIRST_PORT', '48390'))

ROUNDS, PIPELINE = 3, 100
INTEGERS = {
    'hash': [('', 'default'), ('hash-max-listpack-entries {n}', 'one listpack')],
    'list': [('', 'default'), ('list-max-listpack-size -1', 'nodes of 4 KB'), ('list-max-listpack-size -5', 'nodes of 64 KB'),
             ('list-max-listpack-size 32', 'nodes of 32 elements'), ('list-compress-depth 1', 'compressed, depth 1')],
    'set': [('', 'default'), ('set-max-intset-entries 0 set-max-listpack-entries {n}', 'one listpack'),
            ('set-max-intset-entries {n}', 'intset')],
    'sorted set': [('', 'default'), ('zset-index skiplist', 'skip list'), ('zset-max-listpack-entries {n}', 'one listpack')],
}
WRITE = {'hash': ('HSET', 2), 'list': ('RPUSH', 1), 'set': ('SADD', 1), 'sorted set': ('ZADD', 2)}

class Server:
    def __init__(self, program):
        command = [os.path.abspath(program), '--port', str(PORT), '--save', '']
        self.process = subprocess.Popen(command, cwd=tempfile.mkdtemp(), stdout=subprocess.DEVNULL)
        self.books = open('/proc/%d/task/%d/schedstat' % (self.process.pid, self.process.pid), 'rb', buffering=0)
        for _ in range(100):
            try:
                self.connection = Connection(PORT)
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit('no server')

    def used_us(self):
        """Processor time of the thread that runs commands, by the scheduler's books, which are in nanoseconds."""
        return int(os.pread(self.books.fileno(), 100, 0).split()[0]) / 1e3

class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = self.socket.makefile('rb')

    def send(self, commands):
        encoded = lambda command: b''.join([b'*%d\r\n' % len(command)] + [b'$%d\r\n%s\r\n' % (len(word), word.encode()) for word in command])
        self.socket.sendall(b''.join(map(encoded, commands)))

    def reply(self):
        """The reply's first line; what follows is skipped."""
        first = self.read.readline().rstrip()
        if first[:1] == b'$' and first != b'$-1': self.read.read(int(first[1:]) + 2)
        if first[:1] == b'*': [self.reply() for _ in range(int(first[1:]))]
        return first

class Costs:
    def __init__(self, server):
        self.server, self.connection = server, server.connection

    def of(self, commands):
        """Microseconds of processor time a command."""
        before = self.server.used_us()
        for at in range(0, len(commands), PIPELINE):
            part = commands[at:at + PIPELINE]
            self.connection.send(part)
            for _ in part:
                first = self.connection.reply()
                assert first[:1] != b'-', (part[0], first)
        return (self.server.used_us() - before) / len(commands)

    def do(self, *words):
        self.connection.send([words])
        first = self.connection.reply()
        assert first[:1] != b'-', (words, first)
        return first

    def bytes(self, key):
        return int(self.do('MEMORY', 'USAGE', key)[1:])

def written(kind, key, numbers):
    name, words = WRITE[kind]
    return [[name, key, str(n), str(n)] if words == 2 else [name, key, str(n)] for n in numbers]

def ways_out(kind, key, numbers):
    if kind == 'list': return {'LPOP': [['LPOP', key]] * len(numbers), 'RPOP': [['RPOP', key]] * len(numbers)}
    if kind == 'sorted set': return {'ZPOPMIN': [['ZPOPMIN', key]] * len(numbers), 'ZPOPMAX': [['ZPOPMAX', key]] * len(numbers)}
    name = 'HDEL' if kind == 'hash' else 'SREM'
    return {name: [[name, key, str(n)] for n in numbers]}

def reads(kind, key, numbers):
    if kind == 'list': return [['LINDEX', key, str(at)] for at in random.sample(range(len(numbers)), min(len(numbers), 2000))]
    name = {'hash': 'HGET', 'set': 'SISMEMBER', 'sorted set': 'ZSCORE'}[kind]
    return [[name, key, str(n)] for n in random.sample(numbers, min(len(numbers), 2000))]

def measure(costs, kind, rule, count):
    """Figures by name."""
    costs.do('CONFIG', 'SET', 'key-policy', 'p:* ' + rule if rule else '')
    key, figures = 'p:' + kind, {}
    numbers = random.sample(range(10 ** 6), count)
    for way, taken in ways_out(kind, key, random.sample(numbers, count)).items():
        figures['write'] = min(figures.get('write', 1e9), costs.of(written(kind, key, numbers)))
        figures['bytes'] = costs.bytes(key)
        figures['read'] = min(figures.get('read', 1e9), costs.of(reads(kind, key, numbers)))
        figures[way] = costs.of(taken)
        assert costs.do('EXISTS', key) == b':0'
    return figures

def least(rounds):
    return {name: min(figures[name] for figures in rounds) for name in rounds[0]}

def table(costs, count):
    print('PING: %.2f us' % min(costs.of([['PING']] * 10000) for _ in range(ROUNDS)))
    for kind, rules in INTEGERS.items():
        rounds = [[measure(costs, kind, rule.format(n=2 * count), count) for rule, _ in rules] for _ in range(ROUNDS)]
        best = [least([figures[at] for figures in rounds]) for at in range(len(rules))]
        names = [name for name in best[0] if name != 'bytes']
        print('\n| %s of %s integers | rule | bytes | %s |' % (kind, format(count, ','), ' | '.join(name + ', us' for name in names)))
        print('|---|---|%s' % ('---:|' * (1 + len(names))))
        for (rule, label), figures in zip(rules, best):
            rule = '`%s`' % rule.format(n=2 * count) if rule else 'none'
            print('| %s | %s | %s | %s |' % (label, rule, format(figures['bytes'], ','), ' | '.join('%.2f' % figures[name] for name in names)))

def session(number, chooser):
    fields = [('user', str(chooser.randrange(10 ** 8))), ('created', str(1700000000 + number)), ('seen', str(1700000000 + 7 * number)),
              ('address', '10.%d.%d.%d' % tuple(chooser.randrange(256) for _ in range(3))), ('language', 'en-GB'), ('cart', str(chooser.randrange(10))),
              ('agent', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0 Safari/537.36' % chooser.randrange(90, 140)),
              ('token', '%0128x' % chooser.getrandbits(512))]
    return [word for field in fields for word in field]

def example(costs, rule, keys, write, read):
    costs.do('FLUSHALL', 'SYNC')
    costs.do('CONFIG', 'SET', 'key-policy', rule)
    chooser = random.Random(1)
    commands = [command for number in range(keys) for command in write(number, chooser)]
    wrote = costs.of(commands)
    bytes_each = sum(costs.bytes('%s' % read(number)[0][1]) for number in range(keys)) / keys
    asked = [command for number in chooser.sample(range(keys), keys) for command in read(number)]
    return bytes_each, wrote, min(costs.of(asked) for _ in range(ROUNDS))

def examples(costs):
    def board(number, chooser):
        return [['ZADD', 'board:%d' % number, str(chooser.randrange(10 ** 6)), 'player:%d' % player] for player in chooser.sample(range(10 ** 5), 400)]
    rows = [
        ('session: 8 fields, two of them of 100 to 128 bytes', 'session:* hash-max-listpack-value 256', 20000,
         lambda number, chooser: [['HSET', 'session:%d' % number] + session(number, chooser)],
         lambda number: [['HGET', 'session:%d' % number, 'user']]),
        ('leaderboard of 400 players', 'board:* zset-max-listpack-entries 512', 200, board,
         lambda number: [['ZREVRANGE', 'board:%d' % number, '0', '9', 'WITHSCORES']]),
        ('leaderboard of 400 players', 'board:* zset-index skiplist', 200, board,
         lambda number: [['ZREVRANGE', 'board:%d' % number, '0', '9', 'WITHSCORES']]),
    ]
    print('| example | rule | bytes a key | write, us | read, us |\n|---|---|---:|---:|---:|')
    for label, rule, keys, write, read in rows:
        for tried in ('', rule):
            best = least([dict(zip('bwr', example(costs, tried, keys, write, read))) for _ in range(ROUNDS)])
            print('| %s | %s | %.0f | %.2f | %.2f |' % (label, '`%s`' % tried if tried else 'none', best['b'], best['w'], best['r']))

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('server')
    parser.add_argument('--elements', type=int, default=10000)
    parser.add_argument('--examples', action='store_true')
    arguments = parser.parse_args()
    random.seed(7)
    server = Server(arguments.server)
    try:
        costs = Costs(server)
        examples(costs) if arguments.examples else table(costs, arguments.elements)
    finally:
        server.process.kill()
        server.process.wait()

if __name__ == '__main__':
    main()
