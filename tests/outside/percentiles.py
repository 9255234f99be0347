#!/usr/bin/env python3
"""Whether two load generators measure the same latencies of one server, where the server's time is most of them.

usage: percentiles.py PORT NAME=BENCHMARK_BINARY NAME=BENCHMARK_BINARY

Each sends a script that takes 20 to 400 us, as a random key says, from 1, 8 and 50 connections, by turns; the median of five
runs of each percentile counts. The programs take the options of valkey-benchmark, and run on processor 1: start the server
on another.
"""
import statistics, subprocess, sys

ROUNDS = 5
SCRIPT = 'local sum = 0  for i = 1, 100 + 40 * tonumber(string.sub(KEYS[1], 5)) do sum = sum + i end  return sum'
CONNECTIONS = {1: 8000, 8: 16000, 50: 16000}
COLUMNS = ['requests/s', 'average', 'least', '50 %', '95 %', '99 %', 'most']


def figures(binary, port, connections, requests):
    command = ['taskset', '-c', '1', binary, '-p', port, '--csv', '-c', str(connections), '-n', str(requests), '-r', '1000',
               'eval', SCRIPT, '1', 'key:__rand_int__']
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split('\n')
    return [float(cell.strip('"')) for cell in lines[-1].split('","')[-len(COLUMNS):]]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    port, binaries = sys.argv[1], [argument.split('=', 1) for argument in sys.argv[2:]]
    for connections, requests in CONNECTIONS.items():
        rows = {name: [] for name, _ in binaries}
        for turn in range(ROUNDS):
            for name, binary in binaries if turn % 2 else binaries[::-1]:
                rows[name].append(figures(binary, port, connections, requests))
        medians = {name: [statistics.median(column) for column in zip(*of)] for name, of in rows.items()}
        first, second = (medians[name] for name, _ in binaries)
        print('%d connections' % connections)
        for at, column in enumerate(COLUMNS):
            print('  %-12s %12.3f %12.3f   %.3f' % (column, first[at], second[at], first[at] / second[at]), flush=True)


if __name__ == '__main__':
    main()
