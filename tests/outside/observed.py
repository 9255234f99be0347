#!/usr/bin/env python3
"""What being watched costs: requests a second and processor time a request of a server that is, over those of one that is not.

usage: observed.py SERVER_BINARY BENCHMARK [--cases get,set,mget,zadd] [--runs 9] [--requests 2000000] [--prefixes] [--trace]

BENCHMARK is valkey-benchmark or one with its options. One server has hot keys, a scrape of /metrics each second, and a client that asks as
the console's overview does while it is open: the history each second, INFO each five, and HOTKEYS TOP each three, as its page of hot keys
does; with --prefixes memory-prefixes, with --trace LATENCY TRACE of one in 1,000. The other one has none of it. They take turns, in an
order that changes; each has a million keys, and the first core; the load has the second one. Told are the medians of the ratios of
neighbouring runs, with their quartiles.
"""
import argparse, json, os, random, re, socket, statistics, subprocess, sys, tempfile, threading, time, urllib.request

MILLION = 1_000_000
CASES = {
    'get': ['GET', 'key:__rand_int__'], 'set': ['SET', 'key:__rand_int__', 'x' * 10],
    'mget': ['MGET'] + ['key:__rand_int__'] * 10, 'zadd': ['ZADD', 'z', '__rand_int__', 'member:__rand_int__'],
}
# Of the requests of a case, whose costs differ.
PARTS = {'get': 1.0, 'set': 1.0, 'mget': 0.2, 'zadd': 0.4}

def encoded(words):
    words = [str(word).encode() for word in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

class Server:
    def __init__(self, binary, options):
        self.port, directory = free_port(), tempfile.mkdtemp(prefix='observed-')
        self.process = subprocess.Popen(['taskset', '-c', '0', binary, '--port', str(self.port), '--save', '', '--dir', directory, *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try: self.socket = socket.create_connection(('127.0.0.1', self.port), 60); break
            except OSError: time.sleep(0.05)
        else: sys.exit('the server does not listen')
        self.file = self.socket.makefile('rb')
    def pipeline(self, commands):
        self.socket.sendall(b''.join(map(encoded, commands)))
        for _ in commands:
            line = self.file.readline()
            if line[:1] not in b'+:': sys.exit('the server says %r' % line)
    def used(self):
        """Processor time in seconds, of all threads, in nanoseconds' resolution."""
        tasks = '/proc/%d/task' % self.process.pid
        return sum(int(open('%s/%s/schedstat' % (tasks, task)).read().split()[0]) for task in os.listdir(tasks)) / 1e9
    def stop(self):
        self.process.terminate(); self.process.wait()

class Watcher(threading.Thread):
    """Prometheus, and the console in a browser."""
    def __init__(self, port):
        super().__init__(daemon=True)
        self.address, self.runs, self.faults, self.asked = 'http://127.0.0.1:%d' % port, True, [], 0
    def ask(self, path, commands=None):
        body = commands and json.dumps(commands).encode()
        request = urllib.request.Request(self.address + path, body, {'Content-Type': 'application/json'} if body else {})
        with urllib.request.urlopen(request, timeout=10) as answer: return answer.read()
    def run(self):
        number, turn, due = 0, 0, time.monotonic()
        while self.runs:
            try:
                self.ask('/metrics')
                number = json.loads(self.ask('/api/history?since=%d' % number))['number']
                if turn % 5 == 0: self.ask('/api/commands', [['INFO', 'server', 'replication', 'persistence']])
                if turn % 3 == 0: self.ask('/api/commands', [['HOTKEYS', 'TOP', 'BY', 'CALLS', 'COUNT', '50']])
                self.asked += 1
            except Exception as error: self.faults.append(repr(error))
            turn, due = turn + 1, due + 1
            time.sleep(max(due - time.monotonic(), 0))

def load(server, case):
    numbers = list(range(MILLION))
    random.Random(7).shuffle(numbers)
    for first in range(0, MILLION, 1000):
        part = range(first, first + 1000)
        if case == 'zadd': server.pipeline([['ZADD', 'z', numbers[n], 'member:%012d' % n] for n in part])
        else: server.pipeline([['SET', 'key:%012d' % n, 'x' * 10] for n in part])

def once(o, server, case, requests):
    used, began = server.used(), time.monotonic()
    arguments = ['taskset', '-c', '1', o.benchmark, '-p', str(server.port), '-c', '50', '-P', '16', '-n', str(requests), '-r', str(MILLION), '-q', *CASES[case]]
    out = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    elapsed, used = time.monotonic() - began, server.used() - used
    rates = re.findall(r'([\d.]+) requests per second', out)
    if not rates: sys.exit('no rate in %r' % out)
    return float(rates[-1]), used / requests * 1e6, elapsed

def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return '%.3f (%.3f to %.3f)' % (middle, low, high)

def measure(o, case):
    http = free_port()
    prefixes = ['--memory-prefixes', 'key:* member:*'] if o.prefixes else []
    watched = Server(o.server, ['--http-port', str(http), '--hot-keys', 'yes', *prefixes])
    plain = Server(o.server, ['--hot-keys', 'no'])
    watcher = Watcher(http)
    try:
        load(watched, case); load(plain, case)
        if o.trace: watched.pipeline([['LATENCY', 'TRACE', 'START', 'EVERY', 1000]])
        watcher.start()
        requests = int(o.requests * PARTS[case])
        rates, times, costs = [], [], []
        for turn in range(o.runs + 1):
            pair = [watched, plain] if turn % 2 else [plain, watched]
            seen = {server.port: once(o, server, case, requests) for server in pair}
            if turn == 0: continue
            a, b = seen[watched.port], seen[plain.port]
            rates.append(b[0] / a[0]); times.append(a[1] / b[1]); costs.append(b[1])
        print('%-5s requests/s of the plain one over those of the watched one %s; processor time of the watched one over that of the plain one %s; %.3f us a request, '
              '%d runs, %d scrapes' % (case, quartiles(rates), quartiles(times), statistics.median(costs), o.runs, watcher.asked), flush=True)
        if watcher.faults: sys.exit('%d faults while watching: %s' % (len(watcher.faults), watcher.faults[0]))
    finally:
        watcher.runs = False
        watched.stop(); plain.stop()

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('benchmark'); p.add_argument('--cases', default=','.join(CASES))
    p.add_argument('--runs', type=int, default=9); p.add_argument('--requests', type=int, default=2_000_000)
    p.add_argument('--prefixes', action='store_true'); p.add_argument('--trace', action='store_true')
    o = p.parse_args()
    for case in o.cases.split(','): measure(o, case)

if __name__ == '__main__':
    main()
