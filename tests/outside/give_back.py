#!/usr/bin/env python3
"""What a server gives back when data goes, and whom it keeps waiting meanwhile.

usage: give_back.py [--cases REGEX] NAME=COMMAND ...      COMMAND contains {port} and {dir}
Memory: resident bytes after loading values of one length, after deleting nine keys in ten at random, and after
FLUSHALL, the last two once the server has had time to settle. Waiting: the slowest PING of a client that asks for
nothing else, and the most processor time that the server's main thread spent between a PING and its reply, which other
work on the machine does not change.
"""
import argparse, os, random, re, shlex, socket, subprocess, sys, tempfile, time

PORT = 15100
SETTLE_S = 15
DATA_BYTES = 256 << 20
LENGTHS = [10, 100, 500, 1000, 5000, 20000]
KEYS = 1000000

def encode(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words)

class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile('rb')
    def reply(self):
        line = self.file.readline()
        if line[:1] == b'-': raise SystemExit('refused: %r' % line)
        if line[:1] == b'*': return [self.reply() for _ in range(int(line[1:]))]
        if line[:1] != b'$': return line[1:-2]
        return self.file.read(int(line[1:]) + 2)[:-2] if int(line[1:]) >= 0 else None
    def ask(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()
    def pipe(self, commands, batch=500):
        """Sends commands in batches, waiting for the replies of each."""
        chunk, n = [], 0
        def flush():
            self.socket.sendall(b''.join(chunk))
            for _ in range(n): self.reply()
        for command in commands:
            chunk.append(encode(*command)); n += 1
            if n == batch: flush(); chunk, n = [], 0
        flush()
    def info(self):
        lines = self.ask('INFO').decode().splitlines()
        return dict(line.split(':', 1) for line in lines if ':' in line)

class Server:
    def __init__(self, name, command, port, *options):
        self.name, self.port = name, port
        self.dir = tempfile.mkdtemp(prefix='give-back-')
        words = shlex.split(command.format(port=port, dir=self.dir)) + list(options)
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.dir)
        for _ in range(200):
            try: self.client = Client(port); break
            except OSError: time.sleep(0.05)
        else: raise SystemExit('%s does not start' % name)
    def resident_bytes(self):
        return int(open('/proc/%d/statm' % self.process.pid).read().split()[1]) * 4096
    def main_thread_s(self):
        return int(open('/proc/%d/task/%d/schedstat' % (self.process.pid, self.process.pid)).read().split()[0]) / 1e9
    def stop(self):
        self.process.kill(); self.process.wait()
        subprocess.run(['rm', '-rf', self.dir])

def mb(n): return '%.1f' % (n / 1048576)

def memory(commands, length, out):
    servers = [Server(name, command, PORT + i) for i, (name, command) in enumerate(commands)]
    keys = min(KEYS, DATA_BYTES // length)
    gone = list(range(keys)); random.Random(1).shuffle(gone); gone = gone[:keys * 9 // 10]
    rows = []
    def note(when):
        rows.append((when, [(int(s.client.info()['used_memory']), s.resident_bytes()) for s in servers]))
    for s in servers: s.client.pipe(('SET', 'key:%012d' % i, b'x' * length) for i in range(keys))
    time.sleep(1); note('loaded')
    for s in servers: s.client.pipe(('DEL', 'key:%012d' % i) for i in gone)
    time.sleep(SETTLE_S); note('a tenth left')
    for s in servers: s.client.ask('FLUSHALL')
    time.sleep(SETTLE_S); note('flushed')
    for when, figures in rows:
        out('| %d x %d B | %s | ' % (keys, length, when) + ' | '.join('%s / %s' % (mb(u), mb(r)) for u, r in figures) + ' |')
    for s in servers: s.stop()

class Watch:
    """Asks PING again and again, from a process of its own: this one is busy."""
    CODE = r'''
import socket, sys, time, select
port, stat = int(sys.argv[1]), open(sys.argv[2])
s = socket.create_connection(('127.0.0.1', port)); s.setsockopt(6, 1, 1)
def spent(): stat.seek(0); return int(stat.read().split()[0])
slowest = most = 0
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    c, t = spent(), time.perf_counter(); s.sendall(b'PING\r\n'); s.recv(100); t = time.perf_counter() - t; c = spent() - c
    slowest, most = max(slowest, t * 1e3), max(most, c / 1e6)
print(slowest, most)
'''
    def __init__(self, server):
        pid = server.process.pid
        self.process = subprocess.Popen([sys.executable, '-c', self.CODE, str(server.port), '/proc/%d/task/%d/schedstat' % (pid, pid)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(0.3)
    def result(self):
        out = self.process.communicate(b'\n')[0].split()
        return float(out[0]), float(out[1])

def strings(n, length=10, *more):
    return (('SET', 'key:%012d' % i, b'x' * length, *more) for i in range(n))

def many(command, n, words, batch=1000):
    """One collection, built of calls with `batch` elements each."""
    return ([command, 'big'] + [w for i in range(at, min(n, at + batch)) for w in words(i)] for at in range(0, n, batch))

def wait_for(s, done, limit_s=60):
    end = time.time() + limit_s
    while not done(s.client) and time.time() < end: time.sleep(0.05)

def empty(c): return c.ask('DBSIZE') == b'0'
def at_limit(c): i = c.info(); return int(i['used_memory']) <= int(i['maxmemory'])

def expire_together(s):
    at = int(time.time() * 1000) + 20000
    s.client.pipe(strings(KEYS, 10, 'PXAT', at)); yield
    wait_for(s, lambda c: time.time() * 1000 > at and empty(c))

def expire_many_databases(s):
    at = int(time.time() * 1000) + 20000
    for db in range(16):
        s.client.ask('SELECT', db); s.client.pipe(strings(KEYS // 16, 10, 'PXAT', at))
    yield
    for db in range(16):
        s.client.ask('SELECT', db); wait_for(s, lambda c: time.time() * 1000 > at and empty(c))

def expire_fields(s):
    at = int(time.time() * 1000) + 20000
    s.client.pipe(many('HSET', KEYS, lambda i: ('field:%d' % i, 'v')))
    s.client.pipe((['HPEXPIREAT', 'big', at, 'FIELDS', 1000] + ['field:%d' % i for i in range(first, first + 1000)]
                   for first in range(0, KEYS, 1000)), 10)
    yield
    wait_for(s, lambda c: time.time() * 1000 > at and empty(c))

def halve(s):
    s.client.pipe(strings(KEYS, 100)); s.client.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru'); yield
    s.client.ask('CONFIG', 'SET', 'maxmemory', int(s.client.info()['used_memory']) // 2); wait_for(s, at_limit)

def halve_large(s):
    s.client.pipe(strings(40000, 5000)); s.client.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru'); yield
    s.client.ask('CONFIG', 'SET', 'maxmemory', int(s.client.info()['used_memory']) // 2); wait_for(s, at_limit)

def halve_volatile(s):
    s.client.pipe(strings(KEYS)); s.client.pipe(('SET', 'few:%d' % i, b'x' * 1000, 'EX', 10000) for i in range(10000))
    s.client.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru'); yield
    s.client.ask('CONFIG', 'SET', 'maxmemory', int(s.client.info()['used_memory']) - 5000000); wait_for(s, at_limit)

def flush(*words):
    def run(s):
        s.client.pipe(strings(KEYS, 100)); yield
        s.client.ask(*words); time.sleep(1)
    return run

def delete(word, build):
    def run(s):
        s.client.pipe(build()); yield
        s.client.ask(word, 'big'); time.sleep(1)
    return run

def grow(s):
    yield
    s.client.pipe(strings(2 * KEYS), 50)

def shrink(s):
    s.client.pipe(strings(KEYS)); yield
    s.client.pipe((('DEL', 'key:%012d' % i) for i in range(KEYS)), 50)

def snapshot(s):
    s.client.pipe(strings(KEYS, 100)); yield
    s.client.ask('BGSAVE'); s.client.pipe(strings(KEYS // 2, 100), 50)
    wait_for(s, lambda c: c.info()['rdb_bgsave_in_progress'] == '0')

def swap(s):
    s.client.pipe(strings(KEYS)); yield
    for _ in range(100): s.client.ask('SWAPDB', 0, 1)

WITH_LOG = ('--appendonly', 'yes')
WAITS = {
    'a million keys expire': (expire_together, ()),
    'a million keys expire, append-only file': (expire_together, WITH_LOG),
    'a million keys expire, notified': (expire_together, ('--notify-keyspace-events', 'KEA')),
    'a million keys of 16 databases expire': (expire_many_databases, ()),
    'a million fields expire': (expire_fields, ()),
    'a million fields expire, append-only file': (expire_fields, WITH_LOG),
    'maxmemory halved, 100 B': (halve, ()),
    'maxmemory halved, 100 B, append-only file': (halve, WITH_LOG),
    'maxmemory halved, 5 KB': (halve_large, ()),
    'one key in a hundred volatile': (halve_volatile, ()),
    'FLUSHALL': (flush('FLUSHALL'), ()),
    'FLUSHALL SYNC': (flush('FLUSHALL', 'SYNC'), ()),
    'DEL of a hash': (delete('DEL', lambda: many('HSET', KEYS, lambda i: ('field:%d' % i, 'v'))), ()),
    'DEL of a sorted set': (delete('DEL', lambda: many('ZADD', KEYS, lambda i: (i, 'member:%d' % i))), ()),
    'DEL of a list': (delete('DEL', lambda: many('RPUSH', KEYS, lambda i: (b'x' * 100,))), ()),
    'UNLINK of a set': (delete('UNLINK', lambda: many('SADD', KEYS, lambda i: ('member:%d' % i,))), ()),
    'two million keys come': (grow, ()),
    'a million keys go': (shrink, ()),
    'BGSAVE under writes': (snapshot, ()),
    'SWAPDB': (swap, ()),
}

def waits(commands, name, out):
    case, options = WAITS[name]
    figures = []
    for i, (server, command) in enumerate(commands):
        s = Server(server, command, PORT + i, *options)
        steps = case(s); next(steps)
        watch = Watch(s)
        for _ in steps: pass
        figures.append(watch.result()); s.stop()
    out('| %s | ' % name + ' | '.join('%.1f / %.1f' % f for f in figures) + ' |')

def main():
    parser = argparse.ArgumentParser(); parser.add_argument('--cases', default='.'); parser.add_argument('commands', nargs='+')
    options = parser.parse_args()
    commands = [c.split('=', 1) for c in options.commands]
    out = lambda line: print(line, flush=True)
    lengths = [n for n in LENGTHS if re.search(options.cases, 'memory %d' % n)]
    names = ' | '.join(name for name, _ in commands)
    if lengths: out('| data | when | %s |  (used / resident, MB)' % names)
    for length in lengths: memory(commands, length, out)
    cases = [n for n in WAITS if re.search(options.cases, n)]
    if cases: out('| case | %s |  (slowest PING / most processor time behind one, ms)' % names)
    for name in cases: waits(commands, name, out)
if __name__ == '__main__': main()
