#!/usr/bin/env python3
"""Processor time of each thread per request, for servers with different numbers of I/O threads.

usage: threads.py BENCHMARK RUNS NAME=COMMAND ...      COMMAND contains {port}
BENCHMARK is valkey-benchmark. Servers take turns, so that what else the machine does hits all of them alike.
"""
import os, re, shlex, statistics, subprocess, sys, time, socket

CASES = {
    'GET, pipeline 1': ('-P 1 -t get -d 10', 60000),
    'SET, pipeline 1': ('-P 1 -t set -d 10', 60000),
    'GET, pipeline 16': ('-P 16 -t get -d 10', 600000),
    'SET, pipeline 16': ('-P 16 -t set -d 10', 600000),
}
TICK = os.sysconf('SC_CLK_TCK')

def thread_times(pid):
    """Seconds of each thread by scheduler's books (nanoseconds in schedstat)."""
    times = {}
    for task in os.listdir('/proc/%d/task' % pid):
        base = '/proc/%d/task/%s/' % (pid, task)
        name = open(base + 'comm').read().strip()
        times[name + ':' + task] = int(open(base + 'schedstat').read().split()[0]) / 1e9
    return times

def start(command, port):
    p = subprocess.Popen(shlex.split(command.format(port=port)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(('127.0.0.1', port)).close()
            return p
        except OSError:
            time.sleep(0.05)
    raise SystemExit('no server')

bench, runs = sys.argv[1], int(sys.argv[2])
servers = [(name, start(command, 48050 + i), 48050 + i)
           for i, (name, command) in enumerate(a.split('=', 1) for a in sys.argv[3:])]
print('%-18s %-12s %9s | us of processor time per request: main, I/O threads, all' % ('', '', 'req/s'))
for case, (args, n) in CASES.items():
    rows = {name: [] for name, _, _ in servers}
    for run in range(runs + 1):
        for name, p, port in servers:
            before = thread_times(p.pid)
            out = subprocess.run([bench, '-p', str(port), '-c', '50', '-n', str(n), '-r', '1000000', '-q'] + args.split(),
                                 capture_output=True, text=True).stdout.replace('\r', '\n')
            after = thread_times(p.pid)
            rps = float(re.findall(r'([\d.]+) requests per second', out)[-1])
            used = {t: (s - before.get(t, 0)) / n * 1e6 for t, s in after.items()}
            main = used.pop([t for t in used if t.endswith(':%d' % p.pid)][0])
            others = sum(used.values())
            if run: rows[name].append((rps, main, others, main + others))
    for name, got in rows.items():
        m = [statistics.median(column) for column in zip(*got)]
        print('%-18s %-12s %9.0f | %6.2f %6.2f %6.2f' % (case, name, *m), flush=True)
for _, p, _ in servers: p.kill()
