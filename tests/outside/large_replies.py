#!/usr/bin/env python3
"""Processor time of a server per GET of a large value, by the value's size.

usage: large_replies.py BENCHMARK RUNS NAME=COMMAND ...      COMMAND contains {port}
BENCHMARK is valkey-benchmark. Servers take turns, so that what else the machine does hits all of them alike. Medians.
SIZES and PIPELINES in the environment (lists of numbers) choose other cases than the usual ones.
"""
import os, re, shlex, socket, statistics, subprocess, sys, time

KB = 1024
SIZES = [int(s) for s in os.environ.get('SIZES', '2048 8192 16384 32768 65536 262144 1048576').split()]
PIPELINES = [int(s) for s in os.environ.get('PIPELINES', '1 10').split()]
# Values that stay in the processor's caches, and values that do not.
DATA_BYTES = {'one key': 1, '128 MB of keys': 128 * KB * KB}
CLIENTS = 16

def used_us(pid):
    """Processor time of all threads by the scheduler's books, which are in nanoseconds."""
    tasks = '/proc/%d/task' % pid
    return sum(int(open('%s/%s/schedstat' % (tasks, t)).read().split()[0]) for t in os.listdir(tasks)) / 1e3

def start(command, port):
    p = subprocess.Popen(shlex.split(command.format(port=port)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            return p, socket.create_connection(('127.0.0.1', port))
        except OSError:
            time.sleep(0.05)
    raise SystemExit('no server')

def ask(s, *words):
    s.sendall(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words))
    assert s.recv(100)[:1] == b'+'

bench, runs = sys.argv[1], int(sys.argv[2])
servers = [(name, *start(command, 48150 + i), 48150 + i)
           for i, (name, command) in enumerate(a.split('=', 1) for a in sys.argv[3:])]
print('| data | value | pipeline | ' + ' | '.join('%s, us' % name for name, *_ in servers) + ' | shares of the first |')
for data, data_bytes in DATA_BYTES.items():
    for size in SIZES:
        keys = max(1, data_bytes // size)
        for _, _, s, _ in servers:
            ask(s, b'FLUSHALL')
            for key in range(keys):
                ask(s, b'SET', b'key:%012d' % key, b'x' * size)
        for pipeline in PIPELINES:
            n = max(1000, min(60000 * min(pipeline, 2), 3 * 2**29 // size))
            used = {name: [] for name, *_ in servers}
            for run in range(runs + 1):
                for name, p, _, port in servers:
                    before = used_us(p.pid)
                    subprocess.run([bench, '-p', str(port), '-c', str(CLIENTS), '-n', str(n), '-P', str(pipeline),
                                    '-r', str(keys), '-t', 'get', '-q'], stdout=subprocess.DEVNULL, check=True)
                    # The first run is to warm up.
                    if run: used[name].append((used_us(p.pid) - before) / n)
            medians = [statistics.median(u) for u in used.values()]
            print('| %s | %d KB | %d | ' % (data, size // KB, pipeline) + ' | '.join('%.2f' % m for m in medians) + ' | '
                  + ', '.join('%.2f' % (m / medians[0]) for m in medians[1:]) + ' |', flush=True)
for _, p, *_ in servers:
    p.kill()
