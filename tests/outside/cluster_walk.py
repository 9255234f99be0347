"""A cluster goes over to another server and back, node by node, while clients write; nothing that was acknowledged may be lost.

usage: cluster_walk.py [options] FROM TO      each is a command that starts a server, and contains {port}

Three primaries and three replicas of FROM are replaced by nodes of TO, and these by nodes of FROM, in both ways of an operator:

failover    a new replica joins, gets the data and is failed over to by CLUSTER FAILOVER; the former primary is forgotten
slots       a new primary joins, CLUSTER MIGRATESLOTS moves all slots of the old one to it; the emptied node is forgotten

In both, a replica is replaced by another one that joins before it goes. Meanwhile clients write to all thirds of the slots and
read back what they wrote: growing numbers, lists to which numbers are appended, and counters, so that a write that is lost or done
twice is seen. After each walk all keys are compared with what was acknowledged, and replicas with their primaries.

--ways failover,slots   which ways, in this order, each there and back
--keys 3000             keys of each writer
--writers 2             writers for each third of the slots
--port 21500            the first port, of 30; the bus uses these plus 10000

A change of the cluster is saved before others are told of it: with files on a busy disk (TMPDIR), writers wait for its fsync.

Prints for each walk: nodes replaced, writes, the longest time in which a writer had no successful write, what nodes replied. Fails if
a value is wrong, if nodes replied with anything but MOVED, ASK, TRYAGAIN and CLUSTERDOWN, or closed a connection before they had
sent all clients elsewhere.
"""
import argparse
import os
import signal
import sys
import threading
import time

from cluster_client import EXPECTED, ClusterClient, slot_of
from cluster_servers import POLL_S, SLOTS, Cluster, Unsettled
from replication_servers import Client, Contents, Exactness, Gone, Node, Refused, first_difference

STEP_S_MAX = 60
PRIMARIES = 3
# A failover that did not come to its end is asked for again; clients pause for twice the time-out of one.
FAILOVER_S_MAX = 12
FAILOVERS_MAX = 3
DIFFERENCES_SHOWN = 10


class Writer(threading.Thread):
    """Writes and reads back keys of its own, all in one third of the slots."""

    def __init__(self, number, ports, keys):
        super().__init__(daemon=True)
        self.third = number % PRIMARIES
        candidates = (f"walk:{number}:{i}" for i in range(100 * keys))
        first, end = (third * SLOTS // PRIMARIES for third in (self.third, self.third + 1))
        of_third = (key for key in candidates if first <= slot_of(key) < end)
        self.keys = [next(of_third) for _ in range(keys)]
        self.acknowledged = [[] for _ in self.keys]
        self.unknown = [set() for _ in self.keys]
        self.client = ClusterClient(ports)
        self.number, self.turn, self.writes, self.ended = 0, 0, 0, False
        self.longest_s, self.last = 0.0, None
        self.wrong = []
        self.go_on = threading.Event()
        self.rests = threading.Event()

    def run(self):
        try:
            while not self.ended:
                if not self.go_on.is_set():
                    self.last = None
                    self.rests.set()
                    self.go_on.wait(POLL_S)
                    continue
                self.write(self.turn % len(self.keys))
                self.turn += 1
        except (Refused, OSError) as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
        self.rests.set()

    def write(self, at):
        key, kind = self.keys[at], at % 3
        self.number += 1
        words = [("SET", key, self.number), ("RPUSH", key, self.number), ("INCR", key)][kind]
        try:
            self.client.ask(key, *words)
        except Gone:
            self.unknown[at].add(self.number)
            return
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - (self.last or now))
        self.last = now
        self.writes += 1
        self.acknowledged[at].append(self.number)
        try:
            found = self.client.ask(key, *[("GET", key), ("LINDEX", key, -1), ("GET", key)][kind])
        except Gone:
            return
        if not self.is_right(at, int(found or 0)):
            self.wrong.append(f"{key} is {found} after {words}")

    def is_right(self, at, value):
        """Whether a value, the last one of a list, can be what the writes have left."""
        acknowledged, unknown = self.acknowledged[at], self.unknown[at]
        if at % 3 == 2:
            return len(acknowledged) <= value <= len(acknowledged) + len(unknown)
        last = acknowledged[-1] if acknowledged else 0
        return value == last or value > last and value in unknown

    def check(self):
        """Compares all keys with what was acknowledged."""
        for at, key in enumerate(self.keys):
            value = self.client.ask(key, *(("LRANGE", key, 0, -1) if at % 3 == 1 else ("GET", key)))
            if at % 3 == 1:
                had = [int(element) for element in value]
                right = [number for number in had if number not in self.unknown[at]] == self.acknowledged[at] \
                    and len(had) == len(set(had))
            else:
                right = self.is_right(at, int(value or 0))
            if not right:
                self.wrong.append(f"{key} is {value}, acknowledged: {self.acknowledged[at][-5:]}")


class Walk:
    """The cluster, what an operator does with it, and the writers."""

    def __init__(self, options):
        self.options = options
        servers = [("--save", ""), ("--repl-diskless-sync-delay", "0"), ("--appendonly", "no")]
        self.node_options = [word for pair in servers for word in pair]
        self.cluster = Cluster("walk-", options.source, options.port, PRIMARIES, node_timeout_ms=5000, options=self.node_options)
        self.next_port = options.port + 2 * PRIMARIES
        self.failures = []
        self.writers = []

    # What an operator does.

    def join(self, command):
        """A new node, which all nodes know."""
        cluster = self.cluster
        port = self.next_port
        self.next_port += 1
        node = Node(f"walk{port}", command, port, os.path.join(cluster.folder, str(port)), cluster.nodes[0].options)
        cluster.nodes.append(node)
        node.start()
        cluster.ids[node] = node.ask("CLUSTER", "MYID").decode()
        cluster.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", port)
        cluster.wait(cluster.agreed, STEP_S_MAX)
        return node

    def follow(self, node, primary):
        self.cluster.until(STEP_S_MAX, lambda: self.cluster.replicates(node, primary))
        self.cluster.until(STEP_S_MAX, lambda: node.info("replication")["master_link_status"] == "up")
        self.cluster.until(STEP_S_MAX, lambda: self.primary_of(node) is primary)

    def primary_of(self, node):
        """The primary of a replica, as the replica says; None for a primary."""
        for line in node.ask("CLUSTER", "NODES").decode().splitlines():
            fields = line.split(" ")
            if "myself" in fields[2]:
                return next((one for one, its_id in self.cluster.ids.items() if its_id == fields[3]), None)
        return None

    def all_know_owner(self, slot, node):
        return all(self.cluster.owner(slot, asked) is node for asked in self.cluster.nodes)

    def leave(self, node):
        """All others forget a node, and it is shut down."""
        cluster = self.cluster
        rest = [other for other in cluster.nodes if other is not node]
        cluster.until(STEP_S_MAX, lambda: all(self.primary_of(other) is not node for other in rest))
        for other in rest:
            try:
                other.ask("CLUSTER", "FORGET", cluster.ids[node])
            except Refused as error:
                # The news of it may have come from another node before.
                if "Unknown node" not in str(error):
                    raise
        cluster.nodes = rest
        node.stop(signal.SIGTERM)
        cluster.wait(cluster.agreed, STEP_S_MAX)

    def replace_by_failover(self, old, command):
        slot = self.first_slot(old)
        new = self.join(command)
        self.follow(new, old)
        for attempt in range(FAILOVERS_MAX):
            new.ask("CLUSTER", "FAILOVER")
            try:
                self.cluster.until(FAILOVER_S_MAX, lambda: self.all_know_owner(slot, new))
                break
            except Unsettled:
                print(f"  no failover to {new.port} in {FAILOVER_S_MAX} s", file=sys.stderr)
                if attempt == FAILOVERS_MAX - 1:
                    raise
        self.leave(old)
        return new

    def replace_by_slots(self, old, command):
        slot = self.first_slot(old)
        new = self.join(command)
        ranges = [text.split("-") for text in self.ranges(old)]
        words = [word for pair in ranges for word in (pair[0], pair[-1])]
        old.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *words, "NODE", self.cluster.ids[new])
        self.cluster.until(STEP_S_MAX, lambda: self.migrated(old))
        self.cluster.until(STEP_S_MAX, lambda: self.all_know_owner(slot, new))
        for node in self.cluster.nodes:
            if node is not old and self.primary_of(node) is old:
                self.follow(node, new)
        self.leave(old)
        return new

    def migrated(self, node):
        """Whether the newest job of a node has ended well. An emptied node becomes a replica, and forgets its jobs when it loads data."""
        if self.primary_of(node) is not None:
            return True
        newest = node.ask("CLUSTER", "GETSLOTMIGRATIONS")[0]
        job = dict(zip(newest[::2], newest[1::2]))
        if job[b"state"] in (b"failed", b"cancelled"):
            raise Unsettled(f"slots of {node.port}: {job[b'state'].decode()}: {job[b'message'].decode()}")
        return job[b"state"] == b"success"

    def replace_replica(self, old, command):
        primary = self.primary_of(old)
        new = self.join(command)
        self.follow(new, primary)
        self.leave(old)
        return new

    def ranges(self, node):
        line = next(line for line in node.ask("CLUSTER", "NODES").decode().splitlines() if "myself" in line)
        return [text for text in line.split(" ")[8:] if not text.startswith("[")]

    def first_slot(self, node):
        return int(self.ranges(node)[0].split("-")[0])

    # The walk.

    def whole_way(self, way, command):
        """Replaces all nodes; each primary and then its replica. The number of nodes."""
        replace = {"failover": self.replace_by_failover, "slots": self.replace_by_slots}[way]
        primaries = [node for node in self.cluster.nodes if self.primary_of(node) is None]
        count = 0
        for primary in primaries:
            replicas = [node for node in self.cluster.nodes if self.primary_of(node) is primary]
            self.step(way, replace, primary, command)
            for replica in replicas:
                self.step("replica", self.replace_replica, replica, command)
            count += 1 + len(replicas)
        return count

    def step(self, name, replace, old, command):
        began = time.monotonic()
        before = [writer.longest_s for writer in self.writers]
        for writer in self.writers:
            writer.longest_s = 0.0
        new = replace(old, command)
        longest_s = max(writer.longest_s for writer in self.writers)
        print(f"  {name}: {old.port} by {new.port}, {time.monotonic() - began:.1f} s; longest without a write {longest_s:.3f} s",
              file=sys.stderr, flush=True)
        for writer, longest in zip(self.writers, before):
            writer.longest_s = max(writer.longest_s, longest)

    def run(self):
        options = self.options
        self.cluster.create()
        ports = [node.port for node in self.cluster.nodes]
        self.writers = [Writer(i, ports, options.keys) for i in range(PRIMARIES * options.writers)]
        for writer in self.writers:
            writer.start()
        print("| way | to | nodes | s | writes | longest s without a write, by third | replies | closed |\n|---|---|---|---|---|---|---|---|")
        for way in options.ways.split(","):
            for command in (options.target, options.source):
                self.walk(way, command)

    def walk(self, way, command):
        began = time.monotonic()
        replies = sum((writer.client.replies for writer in self.writers), start=type(self.writers[0].client.replies)())
        for writer in self.writers:
            writer.client.closed.clear()
        writes = sum(writer.writes for writer in self.writers)
        for writer in self.writers:
            writer.longest_s = 0.0
            writer.rests.clear()
            writer.go_on.set()
        time.sleep(1)
        count = self.whole_way(way, command)
        time.sleep(1)
        for writer in self.writers:
            writer.go_on.clear()
            writer.rests.wait(STEP_S_MAX)
        elapsed_s = time.monotonic() - began
        longest = [max(w.longest_s for w in self.writers if w.third == third) for third in range(PRIMARIES)]
        replied = sum((writer.client.replies for writer in self.writers), start=type(replies)()) - replies
        closed = [(writer.third, *entry) for writer in self.writers for entry in writer.client.closed]
        self.verify(replied, closed)
        families = {node.family() for node in self.cluster.nodes}
        to = ", ".join(f"{name} {'.'.join(map(str, version))}" for name, version in sorted(families))
        writes = sum(writer.writes for writer in self.writers) - writes
        print(f"| {way} | {to} | {count} | {elapsed_s:.0f} | {writes} | {', '.join(f'{s:.3f}' for s in longest)} | {dict(replied)} | {len(closed)} |",
              flush=True)

    def verify(self, replied, closed):
        """Adds what is wrong after a walk."""
        self.failures += [f"nodes replied {word} {count} times" for word, count in replied.items() if word not in EXPECTED]
        self.failures += [f"third {third}: {at:.3f}: connection to {port} closed: {why}" for third, at, port, why in closed]
        for writer in self.writers:
            writer.check()
            self.failures += writer.wrong[:DIFFERENCES_SHOWN]
            writer.wrong.clear()
        self.cluster.wait(self.cluster.in_sync, STEP_S_MAX)
        exact = Exactness(field_expiry=False, idle_consumers=False, entries_read=False)
        for node in self.cluster.nodes:
            primary = self.primary_of(node)
            if primary is None:
                continue
            sides = []
            for one in (primary, node):
                client = Client(one.port)
                client.ask("READONLY")
                sides.append(Contents(client, 1, exact))
                client.close()
            for (_, key), here, there in sides[0].differences(sides[1])[:DIFFERENCES_SHOWN]:
                self.failures.append(f"replica {node.port} of {primary.port}: {key} differs: {first_difference(here, there)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO")
    parser.add_argument("--ways", default="failover,slots")
    parser.add_argument("--keys", type=int, default=3000)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--port", type=int, default=21500)
    options = parser.parse_args()
    walk = Walk(options)
    finished = False
    try:
        walk.run()
        finished = True
    finally:
        for writer in walk.writers:
            writer.ended = True
        failed = bool(walk.failures) or not finished
        walk.cluster.end(keeps_files=failed)
        for line in walk.failures:
            print(f"FAILED  {line[:300]}")
        if failed:
            print(f"files and logs: {walk.cluster.folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
