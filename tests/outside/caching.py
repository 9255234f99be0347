#!/usr/bin/env python3
"""Hit ratios by eviction policy: replays traces as a cache does, GET and after a miss SET.

usage: caching.py [--reference PROGRAM] [--traces DIRECTORY] [--requests 1000000] [--write] SERVER

Each trace is replayed with `maxmemory` for 1 % and for 10 % of its keys, on SERVER with allkeys-lru, allkeys-lfu and
allkeys-s3fifo, and on the reference with the first two. The limit is what the server itself uses for so many of the trace's keys,
so all hold about the same number of keys. Values have 200 to 4,000 bytes by key, every other key has a time to live (three hours
to a day). A batch of pipelined GETs ends before a key comes twice, so no key counts as a miss that a SET has just stored.
Beside it, for the scale: exact LRU and exact S3-FIFO of as many keys, simulated.

Loads: zipf (exponent 1, 100,000 keys), scans (the same, and after every 20,000 requests 4,000 keys that come once), changing
(the same, and a quarter of the keys is replaced twenty times). Seeded. Public traces are replayed if DIRECTORY has the files of
TRACES below, which the simulator of the Caffeine library (github.com/ben-manes/caffeine) collects.

Then processor time: keys are SET that are all new, so each evicts one; allkeys-lru and allkeys-s3fifo in turns, the median.

--write puts tables and plot into docs.
"""
import argparse, bisect, collections, gzip, itertools, lzma, os, random, socket, statistics, struct, subprocess, tempfile, time

PORT = int(os.environ.get('FIRST_PORT', '48490'))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
BATCH = 32
SHARES = (0.01, 0.1)
BLOB = random.Random(1).randbytes(8192)

# File, name, bytes of a record (0: a line), what it is.
TRACES = [
    ('w106.trace.xz', 'CloudPhysics w106', 4, 'blocks of a virtual machine'),
    ('scarab-recs.trace.xz', 'Scarab', 8, 'recommendations of an online shop'),
    ('orm-busy.trace.xz', 'ORM, busy', 4, "a web application's objects, by day"),
    ('orm-night.trace.xz', 'ORM, night', 4, 'the same, by night'),
    ('web12.trace.xz', 'Web, December', 4, "product pages of an online shop"),
    ('request.trace.xz', 'CDN', 0, 'a content delivery network'),
    ('trace_vaultservice.gz', 'Corda', 8, 'objects of a ledger'),
]

# ---- loads

def zipf(keys, length, seed):
    draw = random.Random(seed)
    sums = list(itertools.accumulate(1 / rank for rank in range(1, keys + 1)))
    return [bisect.bisect_left(sums, draw.random() * sums[-1]) for _ in range(length)]

def scans(keys, length, seed):
    trace, once = [], keys
    for at, key in enumerate(zipf(keys, length * 5 // 6, seed)):
        trace.append(key)
        if at % 20_000 == 19_999:
            trace.extend(range(once, once + 4000))
            once += 4000
    return trace

def changing(keys, length, seed):
    period = length // 20
    return [key + keys * (at // period) if key % 4 == 0 else key for at, key in enumerate(zipf(keys, length, seed))]

def public(path, record):
    data = (lzma if path.endswith('.xz') else gzip).open(path).read()
    if record == 0:
        return [line.split()[1] for line in data.split(b'\n') if line.count(b' ') >= 2]
    return [data[at:at + record] for at in range(0, len(data) - record + 1, record)]

def loads(options):
    n = options.requests
    yield 'Zipf', 'exponent 1', zipf(100_000, n, 7)
    yield 'Zipf with scans', 'of keys that come once', scans(100_000, n, 8)
    yield 'Zipf, changing', 'keys are replaced', changing(100_000, n, 9)
    for file, name, record, what in TRACES:
        path = os.path.join(options.traces or '', file)
        if options.traces and os.path.exists(path):
            yield name, what, public(path, record)[:n]

def numbered(trace):
    numbers = {}
    return [numbers.setdefault(key, len(numbers)) for key in trace], len(numbers)

# ---- exact policies, for the scale

def exact_lru(trace, capacity):
    kept, hits = collections.OrderedDict(), 0
    for key in trace:
        if key in kept:
            hits += 1
            kept.move_to_end(key)
        else:
            if len(kept) >= capacity: kept.popitem(last=False)
            kept[key] = None
    return hits / len(trace)

def exact_s3fifo(trace, capacity):
    small_max = max(capacity // 10, 1)
    small, main, uses, ghost, hits = collections.deque(), collections.deque(), {}, collections.OrderedDict(), 0
    for key in trace:
        if key in uses:
            hits += 1
            uses[key] = min(uses[key] + 1, 3)
            continue
        while len(uses) >= capacity:
            if len(small) >= small_max or not main:
                old = small.popleft()
                if uses[old] >= 2:
                    uses[old] = 0
                    main.append(old)
                else:
                    del uses[old]
                    ghost[old] = None
                    if len(ghost) > capacity - small_max: ghost.popitem(last=False)
            else:
                old = main.popleft()
                if uses[old]:
                    uses[old] -= 1
                    main.append(old)
                else:
                    del uses[old]
        if key in ghost:
            del ghost[key]
            main.append(key)
        else:
            small.append(key)
        uses[key] = 0
    return hits / len(trace)

# ---- servers

def scrambled(key):
    return (key * 0x9e3779b97f4a7c15 + 0x1234567) >> 13 & 0xffffffff

def get(key):
    return b'*2\r\n$3\r\nGET\r\n$10\r\nkey%07d\r\n' % key

def put(key):
    number = scrambled(key)
    size = (200 + number % 300, 500 + number % 1000, 500 + number % 1000, 1500 + number % 2500)[number >> 16 & 3]
    at = number % (len(BLOB) - size)
    if number & 1:
        return b'*5\r\n$3\r\nSET\r\n$10\r\nkey%07d\r\n$%d\r\n%s\r\n$2\r\nEX\r\n$5\r\n%d\r\n' % (
            key, size, BLOB[at:at + size], 10_000 + number % 75_000)
    return b'*3\r\n$3\r\nSET\r\n$10\r\nkey%07d\r\n$%d\r\n%s\r\n' % (key, size, BLOB[at:at + size])

class Server:
    def __init__(self, program, port):
        command = [os.path.abspath(program), '--port', str(port), '--save', '', '--appendonly', 'no', '--loglevel', 'warning']
        self.process = subprocess.Popen(command, cwd=tempfile.mkdtemp(), stdout=subprocess.DEVNULL)
        self.books = open('/proc/%d/task/%d/schedstat' % (self.process.pid, self.process.pid), 'rb', buffering=0)
        for _ in range(200):
            try:
                self.socket = socket.create_connection(('127.0.0.1', port))
                break
            except OSError:
                time.sleep(0.05)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b''

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def used_us(self):
        """Processor time of the thread that runs commands."""
        return int(os.pread(self.books.fileno(), 100, 0).split()[0]) / 1e3

    def replies(self, count):
        """For each of so many replies whether it is something else than nil. Bulk strings and lines only."""
        data, at, found = self.rest, 0, []
        while len(found) < count:
            end = data.find(b'\r\n', at)
            if end >= 0:
                first, after = data[at], end + 2
                if first == 45: raise SystemExit(data[at:end].decode())
                length = int(data[at + 1:end]) if first == 36 else -1
                if length >= 0: after += length + 2
                if after <= len(data):
                    found.append(first != 36 or length >= 0)
                    self.last, at = data[end + 2:after - 2] if length >= 0 else data[at:end], after
                    continue
            data, at = data[at:] + self.socket.recv(1 << 18), 0
        self.rest = data[at:]
        return found

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words))
        self.replies(1)
        return self.last.decode()

    def info(self, field):
        lines = dict(line.split(':', 1) for line in self.ask('INFO', 'everything').split('\r\n') if ':' in line)
        return int(lines[field])

    def put_all(self, keys):
        for at in range(0, len(keys), 200):
            part = keys[at:at + 200]
            self.socket.sendall(b''.join(map(put, part)))
            self.replies(len(part))

    def limit_to(self, keys, policy):
        """Sets `maxmemory` to what these keys need, and empties the server."""
        for option, value in (('maxmemory', 0), ('maxmemory-policy', policy)):
            self.ask('CONFIG', 'SET', option, value)
        self.ask('FLUSHALL', 'SYNC')
        self.put_all(keys)
        self.replay(keys[:1000])  # so that the connection has its buffers
        bytes_used = self.info('used_memory')
        self.ask('FLUSHALL', 'SYNC')
        self.ask('CONFIG', 'SET', 'maxmemory', bytes_used)
        return bytes_used

    def replay(self, trace):
        """Hits; and the number of keys at the end."""
        hits, at = 0, 0
        while at < len(trace):
            batch = []
            for key in trace[at:at + BATCH]:
                if key in batch: break
                batch.append(key)
            at += len(batch)
            self.socket.sendall(b''.join(map(get, batch)))
            found = self.replies(len(batch))
            hits += sum(found)
            missed = [key for key, is_found in zip(batch, found) if not is_found]
            if missed:
                self.socket.sendall(b''.join(map(put, missed)))
                self.replies(len(missed))
        return hits, int(self.ask('DBSIZE')[1:])

# ---- measuring

COLUMNS = [('reference', 'allkeys-lru'), ('reference', 'allkeys-lfu'),
           ('Warmline', 'allkeys-lru'), ('Warmline', 'allkeys-lfu'), ('Warmline', 'allkeys-s3fifo')]

def typical(keys, count):
    """So many of the keys, which have sizes like all."""
    return random.Random(3).sample(range(keys), count)

def measure(servers, options):
    rows = []
    for name, what, trace in loads(options):
        trace, keys = numbered(trace)
        for share in SHARES:
            capacity = int(keys * share)
            row = {'trace': name, 'what': what, 'requests': len(trace), 'keys': keys, 'share': share, 'hits': {}, 'held': {},
                   'exact LRU': exact_lru(trace, capacity), 'exact S3-FIFO': exact_s3fifo(trace, capacity)}
            for column in COLUMNS:
                if column[0] not in servers: continue
                server = servers[column[0]]
                server.limit_to(typical(keys, capacity), column[1])
                hits, held = server.replay(trace)
                row['hits'][column], row['held'][column] = hits / len(trace), held / capacity
            rows.append(row)
            print(name, keys, share, 'exact LRU %.2f S3-FIFO %.2f' % (row['exact LRU'] * 100, row['exact S3-FIFO'] * 100),
                  {' '.join(c): '%.2f (%.2f)' % (100 * h, row['held'][c]) for c, h in row['hits'].items()}, flush=True)
    return rows

def eviction_time(server, rounds=7, keys=20_000):
    """Microseconds of processor time a SET that evicts a key: by policy, in turns."""
    times = collections.defaultdict(list)
    sample = range(keys)
    for round in range(rounds):
        for policy in ('allkeys-lru', 'allkeys-s3fifo', 'noeviction'):
            server.limit_to(list(sample), 'allkeys-lru' if policy == 'noeviction' else policy)
            if policy == 'noeviction': server.ask('CONFIG', 'SET', 'maxmemory', 0)
            server.put_all(list(sample))
            new = list(range(keys * 2, keys * 5))
            evicted, before = server.info('evicted_keys'), server.used_us()
            server.put_all(new)
            used = server.used_us() - before
            evicted = server.info('evicted_keys') - evicted
            times[policy].append(used / len(new))
            if policy != 'noeviction': assert evicted > len(new) * 0.8, evicted
    return {policy: statistics.median(all) for policy, all in times.items()}

def percent(value):
    return '%.1f' % (100 * value)

def tables(rows, times):
    out = []
    columns = [column for column in COLUMNS if column in rows[0]['hits']]
    short = lambda column: column[1].replace('allkeys-', '') + (', reference' if column[0] == 'reference' else '')
    for share in SHARES:
        out.append('Hits in percent with memory for %g %% of the keys:\n' % (100 * share))
        out.append('| trace | keys | requests | ' + ' | '.join(map(short, columns)) + ' | exact LRU | exact S3-FIFO |')
        out.append('|---|' + '---:|' * (len(columns) + 4))
        for row in rows:
            if row['share'] != share: continue
            cells = [percent(row['hits'][column]) for column in columns]
            out.append('| %s: %s | %d | %d | ' % (row['trace'], row['what'], row['keys'], row['requests'])
                       + ' | '.join(cells + [percent(row['exact LRU']), percent(row['exact S3-FIFO'])]) + ' |')
        out.append('')
    if times:
        out.append('Microseconds of processor time a SET of a new key in pipelines of 200: %.2f without eviction, %.2f with allkeys-lru, '
                   '%.2f with allkeys-s3fifo.\n' % (times['noeviction'], times['allkeys-lru'], times['allkeys-s3fifo']))
    return '\n'.join(out)

COLOURS = {('reference', 'allkeys-lru'): '#aec7e8', ('reference', 'allkeys-lfu'): '#ffbb78', ('Warmline', 'allkeys-lru'): '#1f77b4',
           ('Warmline', 'allkeys-lfu'): '#ff7f0e', ('Warmline', 'allkeys-s3fifo'): '#2ca02c'}

def plot(rows, share):
    """Groups of bars as SVG."""
    rows = [row for row in rows if row['share'] == share]
    columns = [column for column in COLUMNS if column in rows[0]['hits']]
    width, height, left, top, floor = 860, 420, 60, 70, 350
    group = (width - left - 20) / len(rows)
    bar = group * 0.8 / len(columns)
    text = lambda x, y, words, anchor='middle', size=12, turn='': (
        '<text x="%.1f" y="%.1f" text-anchor="%s" font-family="sans-serif" font-size="%d"%s>%s</text>' % (x, y, anchor, size, turn, words))
    out = ['<svg width="%d" height="%d" viewBox="0 0 %d %d" xmlns="http://www.w3.org/2000/svg">' % (width, height, width, height),
           '<rect width="%d" height="%d" fill="#FFFFFF"/>' % (width, height),
           text(width / 2, 28, 'Hits in percent with memory for %g %% of the keys' % (100 * share), size=20)]
    for mark in range(0, 101, 20):
        y = floor - (floor - top) * mark / 100
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>' % (left, y, width - 20, y))
        out.append(text(left - 8, y + 4, mark, 'end'))
    for number, row in enumerate(rows):
        x = left + group * (number + 0.1)
        for at, column in enumerate(columns):
            tall = (floor - top) * row['hits'][column]
            out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (
                x + bar * at, floor - tall, bar * 0.92, tall, COLOURS[column]))
        out.append(text(x + group * 0.4, floor + 18 + number % 2 * 16, row['trace']))
    for at, column in enumerate(columns):
        x = left + at * 158
        out.append('<rect x="%d" y="42" width="12" height="12" fill="%s"/>' % (x, COLOURS[column]))
        out.append(text(x + 17, 53, column[1] + (', reference' if column[0] == 'reference' else ''), 'start'))
    return '\n'.join(out + ['</svg>', ''])

SECTION = """
## Hits by eviction policy

Not by the command above but by `tests/outside/caching.py --write`, which says what it does: traces replayed as a cache does, GET and
after a miss SET. [Caching](caching.md) explains the policies.

<!-- caching.py -->
<!-- end of caching.py -->

![Hits with memory for 1 % of the keys](results/eviction-1.svg)

![Hits with memory for 10 % of the keys](results/eviction-10.svg)
"""

def put_into(page, words):
    """Replaces what stands between the marks. A page that has been written anew gets the section at its end."""
    path = os.path.join(ROOT, 'docs', page)
    with open(path) as file: text = file.read()
    begin, end = '<!-- caching.py -->\n', '<!-- end of caching.py -->\n'
    if begin not in text: text += SECTION
    before, rest = text.split(begin)
    _, after = rest.split(end)
    with open(path, 'w') as file: file.write(before + begin + '\n' + words + '\n' + end + after)

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('server', metavar='SERVER')
    parser.add_argument('--reference', metavar='PROGRAM')
    parser.add_argument('--traces', metavar='DIRECTORY')
    parser.add_argument('--requests', type=int, default=1_000_000)
    parser.add_argument('--no-time', action='store_true', help='leave processor time out')
    parser.add_argument('--write', action='store_true')
    options = parser.parse_args()
    if options.write and not (options.reference and options.traces):
        parser.error('--write needs --reference and --traces: the pages have their rows')
    servers = {'Warmline': Server(options.server, PORT)}
    if options.reference: servers['reference'] = Server(options.reference, PORT + 1)
    try:
        rows = measure(servers, options)
        times = {} if options.no_time else eviction_time(servers['Warmline'])
    finally:
        for server in servers.values(): server.stop()
    words = tables(rows, times)
    print(words)
    if options.write:
        for page in ('caching.md', 'results.md'): put_into(page, words)
        for share in SHARES:
            with open(os.path.join(ROOT, 'docs', 'results', 'eviction-%d.svg' % (100 * share)), 'w') as file:
                file.write(plot(rows, share))

if __name__ == '__main__':
    main()
