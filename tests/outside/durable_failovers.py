#!/usr/bin/env python3
"""Kills primaries while clients write, and counts confirmed writes that the next primary does not have.

    durable_failovers.py SERVER [--failovers 500] [--durable 1] [--seed 1]

One primary and two replicas without files, `min-replicas-durable` as given. After each kill the replica with the highest offset is
promoted and must have every write that was confirmed; the killed server starts again as a replica. With `--durable 0` the same is
counted for replies that wait for nothing. Exit status 0: nothing was lost."""
import argparse
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

WRITERS = 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    """A connection that sends one command at a time."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        line = self.reader.readline()
        if not line:
            raise OSError("closed")
        if line[:1] != b"$":
            return line[:-2].decode().removeprefix("+")
        length = int(line[1:])
        return None if length < 0 else self.reader.read(length + 2)[:-2].decode()

    def field(self, name):
        lines = self.ask("INFO", "replication").splitlines()
        return next(line.split(":")[1] for line in lines if line.startswith(name + ":"))


class Server:
    """A server that is started again on the same port."""

    def __init__(self, program, options):
        self.program, self.options, self.port = program, options, free_port()
        self.directory = tempfile.mkdtemp()

    def start(self, primary=None):
        command = [self.program, "--port", str(self.port), "--dir", self.directory, "--save", "", *self.options]
        if primary:
            command += ["--replicaof", "127.0.0.1", str(primary.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.client().ask("PING"), "the start")

    def client(self):
        return Client(self.port)

    def kill(self):
        self.process.kill()
        self.process.wait()


def until(check, what):
    """Waits until something holds; failed connections are tried again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            if check():
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            sys.exit(f"{what} takes more than 30 s")
        time.sleep(0.01)


class Writer(threading.Thread):
    """Writes growing numbers to one key until its connection breaks."""

    def __init__(self, port, number, first):
        super().__init__()
        self.port, self.key = port, f"key:{number}"
        self.confirmed, self.sent, self.count = first, first, 0

    def run(self):
        try:
            client = Client(self.port)
            while True:
                self.sent += 1
                if client.ask("SET", self.key, self.sent) == "OK":
                    self.confirmed = self.sent
                    self.count += 1
        except OSError:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--failovers", type=int, default=500)
    parser.add_argument("--durable", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    options = ["--repl-diskless-sync-delay", "0"]
    if arguments.durable:
        options += ["--min-replicas-durable", str(arguments.durable)]
    servers = [Server(arguments.server, options) for _ in range(3)]
    primary, replicas = servers[0], servers[1:]
    primary.start()
    for replica in replicas:
        replica.start(primary)
    lost = written = 0
    known = [0] * WRITERS
    times = []
    for failover in range(arguments.failovers):
        until(lambda: primary.client().field("connected_slaves") == "2", "the replicas' connection")
        until(lambda: all(r.client().field("master_link_status") == "up" for r in replicas), "the replicas' sync")
        writers = [Writer(primary.port, number, first) for number, first in enumerate(known)]
        for writer in writers:
            writer.start()
        time.sleep(draw.uniform(0.02, 0.2))
        primary.kill()
        for writer in writers:
            writer.join()
        began = time.monotonic()
        until(lambda: all(r.client().field("master_link_status") == "down" for r in replicas), "the loss of the link")
        replicas.sort(key=lambda replica: int(replica.client().field("slave_repl_offset")))
        promoted, other = replicas.pop(), replicas.pop()
        client = promoted.client()
        client.ask("REPLICAOF", "NO", "ONE")
        other.client().ask("REPLICAOF", "127.0.0.1", promoted.port)
        for number, writer in enumerate(writers):
            found = int(client.ask("GET", writer.key) or 0)
            if found < writer.confirmed:
                lost += writer.confirmed - found
                print(f"failover {failover}: {writer.key} is {found}, {writer.confirmed} was confirmed", flush=True)
            written += writer.count
            known[number] = max(writer.sent, found)
        until(lambda: client.ask("SET", "alive", failover) == "OK", "the first write")
        times.append(time.monotonic() - began)
        primary.start(promoted)
        replicas = [other, primary]
        primary = promoted
    for server in servers:
        server.kill()
        shutil.rmtree(server.directory)
    times.sort()
    print(
        f"{arguments.failovers} failovers, {written} confirmed writes, {lost} lost; first write after "
        f"{times[len(times) // 2]:.3f} s (median), {times[-1]:.3f} s (longest)"
    )
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
