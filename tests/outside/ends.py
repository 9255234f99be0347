#!/usr/bin/env python3
"""What calls on the ends of sorted sets cost: processor time a request, with both indexes and of a reference server.

usage: ends.py SERVER_BINARY [--reference valkey-server] [--calls regex] [--sets 10000,40000,100000,500000] [--pipelines 1,16]
               [--members 129] [--runs 5] [--requests 100000] [--server-core 0] [--load-core 1] [--json FILE]

For each number of sets, all servers hold the same sets, stored in random order, and receive the same requests: batches of PIPELINE on each
of 50 connections, each for a random set. They take turns, in an order that changes. Popped members are added again by the next call, beyond
the end, so that sets keep their size. The table has the medians of the processor time of all threads a request, in microseconds, and in
brackets the medians of the ratios of neighbouring runs: the tree's time over that of the skip list, and of the reference server.
"""
import argparse, json, os, random, re, socket, statistics, subprocess, sys, tempfile, time

CONNECTIONS = 50
# Requests of a case with pipeline 1, relative to others: they cost more.
SINGLE_PART = 0.4

def encoded(*words):
    words = [str(word).encode() for word in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)

def key(number): return 'zset:%012d' % number

class Sets:
    """The scores at the ends of each set, for members that are added beyond them."""
    def __init__(self, sets, members):
        self.low, self.high, self.members, self.added = [0] * sets, [members - 1] * sets, members, 0
    def below(self, number):
        self.low[number] -= 1
        return self.add(number, self.low[number])
    def above(self, number):
        self.high[number] += 1
        return self.add(number, self.high[number])
    def add(self, number, score):
        self.added += 1
        return encoded('ZADD', key(number), score, 'added:%09d' % self.added)

# The request for a set, and the lines of its reply. Those that remove stand before those that add as much.
CALLS = {
    'ZRANGE 0 0': (lambda sets, n: encoded('ZRANGE', key(n), 0, 0), 3),
    'ZRANGE 0 9': (lambda sets, n: encoded('ZRANGE', key(n), 0, 9), 21),
    'ZRANGE 0 9 WITHSCORES': (lambda sets, n: encoded('ZRANGE', key(n), 0, 9, 'WITHSCORES'), 41),
    'ZREVRANGE 0 0': (lambda sets, n: encoded('ZREVRANGE', key(n), 0, 0), 3),
    'ZREVRANGE 0 9': (lambda sets, n: encoded('ZREVRANGE', key(n), 0, 9), 21),
    'ZRANGEBYSCORE -inf +inf LIMIT 0 1': (lambda sets, n: encoded('ZRANGEBYSCORE', key(n), '-inf', '+inf', 'LIMIT', 0, 1), 3),
    'ZRANGEBYSCORE -inf 1e9 LIMIT 0 1': (lambda sets, n: encoded('ZRANGEBYSCORE', key(n), '-inf', 1000000000, 'LIMIT', 0, 1), 3),
    'ZPOPMIN': (lambda sets, n: encoded('ZPOPMIN', key(n)), 5),
    'ZADD below': (Sets.below, 1),
    'ZPOPMAX': (lambda sets, n: encoded('ZPOPMAX', key(n)), 5),
    'ZADD above': (Sets.above, 1),
}
# Always together, in this order.
PAIRS = [('ZPOPMIN', 'ZADD below'), ('ZPOPMAX', 'ZADD above')]

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

class Server:
    def __init__(self, o, name, binary, options):
        self.name, self.port, self.times = name, free_port(), []
        self.process = subprocess.Popen(
            ['taskset', '-c', o.server_core, binary, '--port', str(self.port), '--save', '', '--dir', tempfile.mkdtemp(prefix='ends-'), *options],
            stdout=subprocess.DEVNULL)
        self.connections = [self.connect()]
        self.connections += [self.connect() for _ in range(CONNECTIONS - 1)]
    def connect(self):
        for _ in range(200):
            try:
                connection = socket.create_connection(('127.0.0.1', self.port), 60)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except OSError: time.sleep(0.05)
        sys.exit('%s does not listen' % self.name)
    def receive(self, connection, lines):
        while lines > 0:
            data = connection.recv(1 << 18)
            if not data: sys.exit('%s closed a connection' % self.name)
            if data[:1] == b'-': sys.exit('%s says %r' % (self.name, data[:200]))
            lines -= data.count(b'\n')
    def used(self):
        """Processor time of all threads, in nanoseconds."""
        tasks = '/proc/%d/task' % self.process.pid
        return sum(int(open('%s/%s/schedstat' % (tasks, task)).read().split()[0]) for task in os.listdir(tasks))
    def store(self, order, members):
        words = [str(word).encode() for number in range(members) for word in (number, 'member:%d' % number)]
        pairs = b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)
        for first in range(0, len(order), 100):
            part = order[first:first + 100]
            self.connections[0].sendall(b''.join(b'*%d\r\n$4\r\nZADD\r\n$17\r\n%s\r\n%s' % (2 + len(words), key(n).encode(), pairs) for n in part))
            self.receive(self.connections[0], len(part))
    def run(self, rounds, lines):
        """Microseconds of one request of these rounds of batches, one for each connection."""
        before, requests = self.used(), 0
        for batches in rounds:
            for connection, (batch, count) in zip(self.connections, batches): connection.sendall(batch)
            for connection, (batch, count) in zip(self.connections, batches): self.receive(connection, lines * count)
            requests += sum(count for batch, count in batches)
        return (self.used() - before) / 1000 / requests
    def stop(self):
        for connection in self.connections: connection.close()
        self.process.kill(); self.process.wait()

def rounds_of(requests, pipeline):
    batches = [(b''.join(requests[at:at + pipeline]), len(requests[at:at + pipeline])) for at in range(0, len(requests), pipeline)]
    return [batches[at:at + CONNECTIONS] for at in range(0, len(batches), CONNECTIONS)]

def chosen(o):
    """Groups of calls that follow each other."""
    groups = [[call] for call in CALLS if not any(call in pair for pair in PAIRS)] + [list(pair) for pair in PAIRS]
    return [group for group in groups if any(re.search(o.calls, call) for call in group)]

def measure(o, servers, sets, state, group, pipeline, draw):
    count = max(int(o.requests * (SINGLE_PART if pipeline == 1 else 1)), CONNECTIONS * pipeline)
    times = {call: {server.name: [] for server in servers} for call in group}
    for turn in range(o.runs + 1):
        numbers = [draw.randrange(sets) for _ in range(count)]
        for call in group:
            make, lines = CALLS[call]
            draw.shuffle(numbers)
            rounds = rounds_of([make(state, number) for number in numbers], pipeline)
            for server in servers[turn % len(servers):] + servers[:turn % len(servers)]:
                time_us = server.run(rounds, lines)
                # The first one warms up.
                if turn: times[call][server.name].append(time_us)
    return times

def row(o, sets, pipeline, call, times, names):
    medians = {name: statistics.median(times[name]) for name in names}
    ratio = lambda name: statistics.median(a / b for a, b in zip(times['tree'], times[name]))
    cells = ['%.3f' % medians['tree']] + ['%.3f (%.2f)' % (medians[name], ratio(name)) for name in names[1:]]
    print('| %s | %d | %d | %s |' % (call, sets, pipeline, ' | '.join(cells)), flush=True)
    return {'call': call, 'sets': sets, 'pipeline': pipeline, 'us': medians, 'tree_over': {name: ratio(name) for name in names[1:]}}

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('--reference'); p.add_argument('--other', help='another build of the server, with the tree')
    p.add_argument('--calls', default='.'); p.add_argument('--sets', default='10000,40000,100000,500000')
    p.add_argument('--pipelines', default='1,16'); p.add_argument('--members', type=int, default=129)
    p.add_argument('--runs', type=int, default=5); p.add_argument('--requests', type=int, default=100_000)
    p.add_argument('--server-core', default='0'); p.add_argument('--load-core', type=int, default=1)
    p.add_argument('--without-skip-list', action='store_true'); p.add_argument('--json')
    o = p.parse_args()
    os.sched_setaffinity(0, {o.load_core})
    kinds = [('tree', o.server, ['--zset-index', 'fbtree'])]
    if not o.without_skip_list: kinds.append(('skip list', o.server, ['--zset-index', 'skiplist']))
    if o.other: kinds.append(('other build', o.other, ['--zset-index', 'fbtree']))
    if o.reference: kinds.append(('reference', o.reference, []))
    names, found = [name for name, _, _ in kinds], []
    print('| call | sets | pipeline | %s |\n|---|---|---|%s' % (' | '.join(names), '---|' * len(names)), flush=True)
    for sets in map(int, o.sets.split(',')):
        draw = random.Random(sets)
        order = list(range(sets)); draw.shuffle(order)
        servers = [Server(o, *kind) for kind in kinds]
        try:
            for server in servers: server.store(order, o.members)
            state = Sets(sets, o.members)
            for pipeline in map(int, o.pipelines.split(',')):
                for group in chosen(o):
                    times = measure(o, servers, sets, state, group, pipeline, draw)
                    found += [row(o, sets, pipeline, call, times[call], names) for call in group]
        finally:
            for server in servers: server.stop()
    if o.json:
        with open(o.json, 'w') as file: json.dump(found, file, indent=1)

if __name__ == '__main__':
    main()
