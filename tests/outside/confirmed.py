#!/usr/bin/env python3
"""Shows who waits for the disk under `appendfsync always`: requests/s of readers and writers, and medians, when each fsync takes
a fixed time.

    confirmed.py SERVER [SERVER...] [--fsync-us 5000] [--seconds 3]

Each server is started without an append-only file, then with one whose fsyncs are delayed by a preloaded library. Needs a C
compiler."""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

SHIM = """
#include <stdlib.h>
#include <time.h>
static int delay(void) {
    const char *text = getenv("FSYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, 0);
    return 0;
}
int fsync(int file) { return delay(); }
int fdatasync(int file) { return delay(); }
"""
# Numbers of writers and readers.
LOADS = [(0, 8), (8, 8), (1, 0), (50, 0)]


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server of its own, in a directory of its own."""

    def __init__(self, program, options, environment):
        self.directory = tempfile.mkdtemp()
        self.port = free_port()
        command = [program, "--port", str(self.port), "--dir", self.directory, "--save", "", *options]
        self.process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"{program} does not start")

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory)


def ask_until(server, request, stop, times):
    client = server.connect()
    while not stop.is_set():
        began = time.perf_counter()
        client.sendall(request)
        if not client.recv(4096):
            sys.exit("the server has closed a connection")
        times.append(time.perf_counter() - began)
    client.close()


def measure(server, writers, readers, seconds):
    """Requests/s and the median time in ms of writers, and of readers."""
    stop, written, read = threading.Event(), [], []
    work = [(encode(b"SET", b"key:%d" % number, b"value"), written) for number in range(writers)]
    work += [(encode(b"GET", b"other"), read)] * readers
    threads = [threading.Thread(target=ask_until, args=(server, request, stop, times)) for request, times in work]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return [(len(times) / seconds, 1000 * sorted(times)[len(times) // 2] if times else 0) for times in (written, read)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="+", metavar="SERVER")
    parser.add_argument("--fsync-us", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        source, library = os.path.join(directory, "fsync.c"), os.path.join(directory, "fsync.so")
        with open(source, "w") as file:
            file.write(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
        environment = {"LD_PRELOAD": library, "FSYNC_US": str(arguments.fsync_us)}
        for program in arguments.servers:
            for name, options in [("no file", []), ("always", ["--appendonly", "yes", "--appendfsync", "always"])]:
                server = Server(program, options, environment)
                for writers, readers in LOADS:
                    (sets, set_ms), (gets, get_ms) = measure(server, writers, readers, arguments.seconds)
                    print(
                        f"{os.path.basename(program)}, {name}, {writers} writers, {readers} readers: "
                        f"{sets:.0f} SET/s ({set_ms:.2f} ms), {gets:.0f} GET/s ({get_ms:.2f} ms)",
                        flush=True,
                    )
                server.stop()


if __name__ == "__main__":
    main()
