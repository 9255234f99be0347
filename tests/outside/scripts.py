#!/usr/bin/env python3
"""Processor time of scripts, of one server or of two side by side.

usage: scripts.py 'SERVER --port {port} --save ""' ['OTHER --port {port} ...'] [--rounds N] [--only REGEX]

Both servers do the same work in turn. Counted is the processor time of all their threads, from /proc (Linux), so other
work on the machine disturbs little. Printed are microseconds per request, the median of the rounds, and their ratio.
"""
import argparse
import glob
import os
import re
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LOOP = "for i = 1, 1000 do redis.call(%s) end"
FILL = """
for number = 1, 100 do
    local members = {}
    for score = 1, 129 do
        members[#members + 1] = score
        members[#members + 1] = 'member:' .. score
    end
    redis.call('ZADD', 'set:' .. ARGV[1] .. ':' .. number, unpack(members))
end
"""
# name: script, requests of a round, requests of a batch
WORK = {
    "eval-set": ("return redis.call('SET', KEYS[1], ARGV[1])", 50_000, 10),
    "eval-table": ("return {KEYS[1], ARGV[1], {1, 2, 3}}", 50_000, 10),
    "loop-get": (LOOP % "'GET', KEYS[1]", 400, 1),
    "loop-set": (LOOP % "'SET', KEYS[1], i", 400, 1),
    "loop-incr": (LOOP % "'INCR', KEYS[1]", 400, 1),
    "loop-hset": (LOOP % "'HSET', 'hash', i, 'value'", 400, 1),
    "loop-zadd": (LOOP % "'ZADD', 'set', i, 'member:' .. i", 400, 1),
    "fill-10000-sets-of-129": (FILL, 100, 1),
}


def request(*words):
    words = [str(word).encode() for word in words]
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)])


class Server:
    def __init__(self, command):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.directory = tempfile.TemporaryDirectory()
        words = shlex.split(command.format(port=port))
        words[0] = os.path.abspath(words[0]) if os.path.exists(words[0]) else words[0]
        self.process = subprocess.Popen(words, cwd=self.directory.name, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.05)
        else:
            sys.exit(f"{command} does not listen")
        self.replies = self.socket.makefile("rb")

    def ask(self, requests):
        self.socket.sendall(b"".join(requests))
        for _ in requests:
            self.read()

    def read(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            sys.exit(f"an error: {rest.decode()}")
        if kind == b"$" and rest != b"-1":
            self.replies.read(int(rest) + 2)
        if kind == b"*":
            for _ in range(int(rest)):
                self.read()

    def processor_us(self):
        threads = glob.glob(f"/proc/{self.process.pid}/task/*/schedstat")
        return sum(int(open(thread).read().split()[0]) for thread in threads) / 1000

    def end(self):
        self.process.kill()
        self.process.wait()


def round_us(server, script, requests, batch):
    """Processor time of one request."""
    server.ask([request("FLUSHALL", "SYNC"), request("SET", "key", 1)])
    before_us = server.processor_us()
    for first in range(0, requests, batch):
        server.ask([request("EVAL", script, 1, "key", number) for number in range(first, first + batch)])
    return (server.processor_us() - before_us) / requests


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("servers", nargs="+")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default=".")
    options = options.parse_args()
    servers = [Server(command) for command in options.servers]
    try:
        for name, work in WORK.items():
            if not re.search(options.only, name):
                continue
            rounds = [[round_us(server, *work) for server in servers] for _ in range(options.rounds)]
            medians = [statistics.median(times) for times in zip(*rounds)]
            ratio = f"   ratio {medians[0] / medians[1]:.2f}" if len(medians) == 2 else ""
            print(f"{name:24}", *(f"{median:12.2f} us" for median in medians), ratio, flush=True)
    finally:
        for server in servers:
            server.end()


if __name__ == "__main__":
    main()
