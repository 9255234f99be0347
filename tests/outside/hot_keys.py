#!/usr/bin/env python3
"""Whether HOTKEYS TOP finds the keys that are used most, and tells how much.

usage: hot_keys.py SERVER_BINARY [--seconds 20] [--keys 10000000] [--existing 1000000] [--io-threads 1 4] [--seed 1]

Starts the server on a free port. Processes ask for keys by Zipf's law with powers 1.0 and 1.2 in deep pipelines, as fast as the server
answers, and count what they ask for; most of the keys do not exist. Among them are requests for one key whose value is of 100 KB. Then
    by calls   the 20 most called must be among those told, one neighbour more or less, each within 10 % of its share;
    by bytes   the key of 100 KB must be first;
    by time    it must be told with more time a call than keys of small values.
Ends with 1 if anything is not so.
"""
import argparse, array, bisect, collections, itertools, multiprocessing, random, socket, subprocess, sys, tempfile, time

PIPELINE, BATCHES, LOADERS, ASKED = 1000, 1500, 2, 20
LARGE, LARGE_BYTES = b'large', 100_000

def encoded(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)

class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), 60)
        self.file = self.socket.makefile('rb')
    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b'-': raise RuntimeError(rest.decode())
        if kind == b'$': return None if rest == b'-1' else self.file.read(int(rest) + 2)[:-2]
        if kind == b'*': return [self.read() for _ in range(max(int(rest), 0))]
        return int(rest) if kind == b':' else rest
    def __call__(self, *words):
        self.socket.sendall(encoded(words))
        return self.read()

def load(port, sums, existing, seed, begin, seconds, results):
    """Sends batches again and again that were drawn before, in an order of their own; what was asked for goes to `results`."""
    draw = random.Random(seed)
    batches, counts = [], []
    for _ in range(BATCHES):
        keys = [bisect.bisect(sums, draw.random() * sums[-1]) for _ in range(PIPELINE)]
        # One large reply in 5,000: little beside the others by calls, half of everything by bytes.
        large = draw.random() < PIPELINE / 5000
        batches.append(b''.join(encoded([b'GET', b'key:%d' % key]) for key in keys) + (encoded([b'GET', LARGE]) if large else b''))
        found = sum(key < existing for key in keys)
        counts.append((keys, large, 5 * (PIPELINE - found) + 8 * found + (LARGE_BYTES + 11 if large else 0)))
    client = Client(port).socket
    begin.wait()
    sent, into, ends_at = [0] * BATCHES, bytearray(1 << 20), time.monotonic() + seconds
    while time.monotonic() < ends_at:
        at = draw.randrange(BATCHES)
        client.sendall(batches[at])
        left = counts[at][2]
        while left > 0:
            count = client.recv_into(into)
            if count == 0: raise RuntimeError('the server has closed a connection')
            left -= count
        if left < 0: raise RuntimeError('replies are longer than expected')
        sent[at] += 1
    asked = collections.Counter()
    for (keys, large, _), times in zip(counts, sent):
        if times:
            for key in keys: asked[b'key:%d' % key] += times
            if large: asked[LARGE] += times
    results.put((asked.most_common(5 * ASKED), sum(asked.values()), asked[LARGE]))

def told(client, order):
    rows = client('HOTKEYS', 'TOP', 'BY', order, 'COUNT', ASKED)
    return [dict(zip(row[::2], row[1::2])) for row in rows]

def start_load(o, port, client, power, existing):
    sums = array.array('d', itertools.accumulate(rank ** -power for rank in range(1, o.keys + 1)))
    client('FLUSHALL')
    for first in range(0, existing, 10_000):
        client.socket.sendall(b''.join(encoded([b'SET', b'key:%d' % key, b'xy']) for key in range(first, first + 10_000)))
        for _ in range(10_000): client.read()
    client('SET', LARGE, b'x' * LARGE_BYTES)
    begin, results = multiprocessing.Barrier(LOADERS + 1), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=load, args=(port, sums, existing, o.seed + n, begin, o.seconds, results), daemon=True) for n in range(LOADERS)]
    for worker in workers: worker.start()
    return workers, begin, results

def run(o, port, client, threads, power, existing):
    workers, begin, results = start_load(o, port, client, power, existing)
    # They draw their keys before they begin.
    begin.wait(300)
    client('CONFIG', 'SET', 'hot-keys', 'no'); client('CONFIG', 'SET', 'hot-keys', 'yes')
    time.sleep(o.seconds - 0.3)
    by_calls, by_bytes, by_time = told(client, 'CALLS'), told(client, 'BYTES'), told(client, 'CPU')
    counts, calls, large_calls = collections.Counter(), 0, 0
    for _ in workers:
        asked, sent, large = results.get(timeout=120)
        calls += sent; large_calls += large
        for key, times in asked: counts[key] += times
    for worker in workers: worker.join()
    rate = calls / o.seconds
    faults = []
    top = [key for key, _ in counts.most_common(ASKED)]
    found = [row for row in by_calls if row[b'key'] in top]
    if not found: sys.exit('none of the hottest keys is told: %s' % by_calls)
    if len(found) < ASKED - 1: faults.append('%d of %d are found' % (len(found), ASKED))
    errors = [abs(float(row[b'calls']) / (counts[row[b'key']] / o.seconds) - 1) for row in found]
    if max(errors) > 0.1: faults.append('calls are told that are off by %.0f %%' % (100 * max(errors)))
    if by_bytes[0][b'key'] != LARGE: faults.append('by bytes %r is first' % by_bytes[0][b'key'])
    bytes_error = float(by_bytes[0][b'bytes_out']) / (large_calls * (LARGE_BYTES + 11) / o.seconds) - 1
    if abs(bytes_error) > 0.1: faults.append('its bytes are off by %.0f %%' % (100 * bytes_error))
    times = {row[b'key']: float(row[b'cpu_us']) / float(row[b'calls']) for row in by_calls + by_bytes + by_time}
    small = times[by_calls[0][b'key']]
    if times[LARGE] < small: faults.append('%.2f us for a call with 100 KB, %.2f for a small one' % (times[LARGE], small))
    print('io-threads %d, power %.1f, %7d keys exist: %7.0f requests/s, %d of %d found, calls off by %.1f %% at most, %.1f %% on average; bytes of the '
          'large key by %.1f %%; %.2f us a call of it, %.2f of the hottest %s' % (threads, power, existing, rate, len(found), ASKED, 100 * max(errors),
          100 * sum(errors) / len(errors), 100 * abs(bytes_error), times[LARGE], small, '; '.join(faults) and 'FAULTS: ' + '; '.join(faults)), flush=True)
    return faults

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('--seconds', type=int, default=20); p.add_argument('--keys', type=int, default=10_000_000)
    p.add_argument('--existing', type=int, default=1_000_000); p.add_argument('--io-threads', type=int, nargs='+', default=[1, 4])
    p.add_argument('--powers', type=float, nargs='+', default=[1.0, 1.2]); p.add_argument('--seed', type=int, default=1)
    o = p.parse_args()
    faults = []
    for threads in o.io_threads:
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        directory = tempfile.mkdtemp(prefix='hot-keys-')
        server = subprocess.Popen([o.server, '--port', str(port), '--save', '', '--dir', directory, '--io-threads', str(threads)], stdout=subprocess.DEVNULL)
        try:
            for _ in range(100):
                try: client = Client(port); break
                except OSError: time.sleep(0.1)
            else: sys.exit('the server does not listen')
            for power in o.powers:
                for existing in (0, o.existing): faults += run(o, port, client, threads, power, existing)
        finally:
            server.terminate(); server.wait()
    sys.exit(1 if faults else 0)

if __name__ == '__main__':
    main()
