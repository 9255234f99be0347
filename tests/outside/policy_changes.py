#!/usr/bin/env python3
"""Rules are changed while a million JSON values of 500 bytes live and clients write at full speed.

    policy_changes.py [--keys 1000000] [--seconds 6] target/release/warmline-server

Two processes write values (SET in pipelines of 16), another one sends a PING each millisecond and waits for its reply. Compression is
switched on, off and on again; its rule is deleted, comes back, and is moved before another; a snapshot is written amid the walk, a replica
attaches amid it, and FLUSHALL ASYNC comes amid training. The table has, for each step, the longest wait of a PING and how many
values were compressed at its end. Then no value may be another than was written last, POLICY STATS must have the bytes
that MEMORY USAGE adds up to, the snapshot must load, and the replica must have the same DEBUG DIGEST.
"""
import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time

from policy_servers import Connection, Server, encoded, eventually, exact_statistics, in_parts, pool, statistics

WRITERS, PIPELINE, POOL = 2, 16, 4000
FAMILY, OTHER = "cache:* compress-values yes", "cache:1* zset-index skiplist"


def value_of(tails, key, at):
    return b'{"key":%d,' % key + tails[at][1:]


def write_on(port, writer, keys, tails, written, running):
    """Writes values at keys of its own, and notes which."""
    connection, r = Connection(port), random.Random(writer)
    mine = range(writer, keys, WRITERS)
    while running.value:
        # A key that is twice in a batch has what was put last, as here.
        batch = [(r.choice(mine), r.randrange(POOL)) for _ in range(PIPELINE)]
        replies = connection.replies([("SET", f"cache:{key}", value_of(tails, key, at)) for key, at in batch])
        assert replies == [b"OK"] * PIPELINE, replies
        for key, at in batch:
            written[key] = at + 1


def ping_on(port, longest_us, running):
    connection = Connection(port)
    while running.value:
        asked = time.perf_counter()
        connection.ask("PING")
        waited_us = int((time.perf_counter() - asked) * 1e6)
        with longest_us.get_lock():
            longest_us.value = max(longest_us.value, waited_us)
        time.sleep(0.001)


class Trial:
    def __init__(self, arguments):
        self.keys, self.seconds, self.program = arguments.keys, arguments.seconds, arguments.server
        self.directory = tempfile.mkdtemp(prefix="policy-changes-")
        self.server = Server(self.program, ("--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"), self.directory)
        self.tails = pool(1, "session", POOL, 480, 520)
        self.written = multiprocessing.RawArray("H", self.keys)
        self.running, self.longest_us = multiprocessing.Value("b", 1), multiprocessing.Value("q", 0)
        self.processes, self.replica, self.writes = [], None, 0

    def start(self):
        for writer in range(WRITERS):
            arguments = (self.server.port, writer, self.keys, self.tails, self.written, self.running)
            self.processes.append(multiprocessing.Process(target=write_on, args=arguments, daemon=True))
        self.processes.append(multiprocessing.Process(target=ping_on, args=(self.server.port, self.longest_us, self.running), daemon=True))
        for process in self.processes:
            process.start()

    def stop(self):
        self.running.value = 0
        for process in self.processes:
            process.join()
            assert process.exitcode == 0

    def load(self):
        r, chosen = random.Random(7), lambda: r.randrange(POOL)
        for keys in in_parts(range(self.keys), 2000):
            batch = [(key, chosen()) for key in keys]
            self.server.socket.sendall(b"".join(encoded(("SET", f"cache:{key}", value_of(self.tails, key, at))) for key, at in batch))
            assert self.server.reader.read(5 * len(batch)) == b"+OK\r\n" * len(batch)
            for key, at in batch:
                self.written[key] = at + 1

    def compressed(self):
        return sum(rule[b"compressed-values"] for rule in statistics(self.server).values())

    def step(self, what, change, until=None):
        """Makes a change; then clients go on for some seconds, and until something has happened."""
        with self.longest_us.get_lock():
            self.longest_us.value = 0
        commands, started = int(self.server.info("stats", "total_commands_processed")), time.time()
        change()
        if until is not None:
            eventually(what, until)
        time.sleep(max(0.0, started + self.seconds - time.time()))
        rate = (int(self.server.info("stats", "total_commands_processed")) - commands) / (time.time() - started)
        print(f"| {what} | {self.longest_us.value / 1000:.1f} | {rate / 1000:.0f} | {self.compressed():,} |", flush=True)

    def steps(self):
        do, step = self.server.do, self.step
        walked = lambda: self.compressed() > 0.9 * int(do("DBSIZE"))
        begun = lambda: eventually("the walk has begun", lambda: self.compressed() > self.keys / 100)
        print("| step | longest PING, ms | commands a second, thousands | values compressed |\n|---|---:|---:|---:|")
        step("no rule", lambda: None)
        step("compression on", lambda: do("POLICY", "SET", *FAMILY.split()), walked)
        step("off", lambda: do("POLICY", "SET", "cache:*", "compress-values", "no"))
        step("on again", lambda: do("POLICY", "SET", *FAMILY.split()), walked)
        step("the rule is deleted", lambda: do("POLICY", "DEL", "cache:*"))
        step("the rule comes back behind another", lambda: (do("POLICY", "SET", *OTHER.split()), do("POLICY", "SET", *FAMILY.split())))
        step("the rule is moved before the other", lambda: do("POLICY", "SET", *FAMILY.split(), "BEFORE", 0), walked)
        step("128 rules", self.set_many, walked)
        step("FLUSHALL ASYNC amid training", self.flush_amid_training)
        self.stop_and_fill()
        step("on, BGSAVE amid the walk", lambda: (do("POLICY", "SET", *FAMILY.split()), begun(), do("BGSAVE")), lambda: self.saved() and walked())
        self.leave_and_fill()
        step("on, a replica attaches amid the walk", lambda: (do("POLICY", "SET", *FAMILY.split()), begun(), self.attach()), walked)

    def set_many(self):
        rules = [f"other:{n}:* zset-index skiplist" for n in range(127)] + [FAMILY]
        self.server.do("CONFIG", "SET", "key-policy", " ; ".join(rules))

    def flush_amid_training(self):
        """Samples are there at once; a dictionary takes some 30 ms."""
        self.server.do("CONFIG", "SET", "key-policy", FAMILY.replace("cache:*", "cache:[0-9]*"))
        for _ in range(20):
            self.server.do("FLUSHALL", "ASYNC")
            time.sleep(0.015)

    def stop_and_fill(self):
        self.server.do("POLICY", "DEL", "cache:[0-9]*")
        self.fill_while_writing()

    def leave_and_fill(self):
        self.server.do("POLICY", "DEL", "cache:*")
        self.server.do("FLUSHALL", "SYNC")
        self.fill_while_writing()

    def fill_while_writing(self):
        """Clients that write have a part of the keys back in a few seconds."""
        eventually("clients have written", lambda: int(self.server.do("DBSIZE")) > 0.3 * self.keys)

    def saved(self):
        return self.server.info("persistence", "rdb_bgsave_in_progress") == "0"

    def attach(self):
        self.replica = Server(self.program)
        self.replica.do("POLICY", "SET", *FAMILY.split())
        self.replica.do("REPLICAOF", "127.0.0.1", self.server.port)

    def check(self):
        """What is there is what was written last."""
        wrong, there = 0, 0
        for keys in in_parts(range(self.keys), 2000):
            for key, value in zip(keys, self.server.replies([("GET", f"cache:{key}") for key in keys])):
                there += value is not None
                wrong += value is not None and value != value_of(self.tails, key, self.written[key] - 1)
        assert wrong == 0 and there == self.server.do("DBSIZE"), f"{wrong} values of {there} are not what was written last"
        print(f"{there:,} values are what was written last")
        eventually("the walk is done", self.stands_still)
        rule = exact_statistics(self.server)[b"cache:*"]
        added = 0
        for keys in in_parts(range(self.keys), 2000):
            added += sum(usage or 0 for usage in self.server.replies([("MEMORY", "USAGE", f"cache:{key}") for key in keys]))
        assert (rule[b"keys"], rule[b"bytes"]) == (there, added), f"POLICY STATS: {rule}, MEMORY USAGE: {added}"
        print(f"POLICY STATS and MEMORY USAGE agree on {added:,} bytes, {rule[b'compressed-values']:,} values compressed")
        assert self.replica is not None
        eventually("the replica is in step", self.is_replica_in_step)
        assert self.replica.do("DEBUG", "DIGEST") == self.server.do("DEBUG", "DIGEST")
        print("the replica's DEBUG DIGEST is the same")
        self.check_snapshot()

    def stands_still(self):
        before = statistics(self.server)
        time.sleep(0.5)
        return statistics(self.server) == before

    def is_replica_in_step(self):
        if self.replica.info("replication", "master_link_status") != "up":
            return False
        return self.replica.info("replication", "slave_repl_offset") == self.server.info("replication", "master_repl_offset")

    def check_snapshot(self):
        directory = os.path.join(self.directory, "copy")
        os.mkdir(directory)
        shutil.copy(os.path.join(self.directory, "dump.rdb"), directory)
        loaded, known = Server(self.program, directory=directory), {tail[1:] for tail in self.tails}
        try:
            there = 0
            for keys in in_parts(range(self.keys), 2000):
                for key, value in zip(keys, loaded.replies([("GET", f"cache:{key}") for key in keys])):
                    head, _, tail = (value or b"").partition(b",")
                    there += value is not None
                    assert value is None or (head == b'{"key":%d' % key and tail in known), (key, value)
            assert there == loaded.do("DBSIZE") and there > 0
            print(f"the snapshot amid the walk loads: {there:,} values that were written")
        finally:
            loaded.end()

    def end(self):
        self.running.value = 0
        if self.replica is not None:
            self.replica.end()
        self.server.end()
        shutil.rmtree(self.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=6)
    trial = Trial(parser.parse_args())
    try:
        trial.load()
        trial.start()
        trial.steps()
        trial.stop()
        trial.check()
    finally:
        trial.end()


if __name__ == "__main__":
    sys.exit(main())
