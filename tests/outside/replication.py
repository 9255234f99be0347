#!/usr/bin/env python3
"""Chains of servers of any kind that replicate, under a random load, while links are cut and servers killed: all must
hold the same in the end.

usage: replication.py [options] COMMAND COMMAND ...      COMMAND starts a server, and contains {port}
       replication.py --failover [options] COMMAND       see replication_failover.py
       replication.py --hostile [options] COMMAND        see replication_hostile.py
       replication.py --faults [options] COMMAND         see replication_faults.py

The second server is made a replica of the first, the third of the second, and so on. The load is of commands that all
of them know. A server that cannot read another's snapshots is never made its replica (Valkey 9.1 reads those of Redis up to
7.2, Redis 7.0 only its own); Warmline has to read all.

--seconds 60         how long the load runs
--seed 1             of the load and of what is done to the servers
--maxmemory BYTES    eviction: what keys may take, about
--calm               no link is cut, nothing killed
--only NAME,NAME     only these disturbances, see DISTURBANCES
--break              writes to the last replica behind the others' back: proves that differences are found
--check-every 8      seconds between checks, about
--settle 60          seconds that the replicas have to catch up before each check
--first-port 14000   ten ports for each server
--keep               leaves the folder with logs and files, as it does when something differs

Prints what was done and how many full and partial syncs it took. Fails at the first difference, and names keys and commands.
"""
import argparse
import collections
import os
import random
import select
import signal
import sys
import tempfile
import time

from replication_failover import run_failover
from replication_faults import run_faults
from replication_hostile import run_hostile
from replication_load import DATABASES, Load
from replication_servers import Client, Contents, Exactness, Gone, Link, Node, Refused, encode, first_difference, remove_folder

HISTORY_MAX = 300_000
WAITERS = 6
# So long servers that have caught up may differ by what has expired.
COMPARE_S = 8
# What a server comes to use beside its keys once replicas are there: the backlog counts, and buffers of clients.
FIXED_BYTES = 6 << 20


class Different(Exception):
    """The servers do not hold the same, or do not come to."""


class Waiter:
    """A client of the head that waits in blocking commands."""

    def __init__(self, load, record):
        self.load, self.record = load, record
        self.client = None
        self.asked = False

    def step(self, port):
        try:
            if self.client is None:
                self.client = Client(port)
            if self.asked and select.select([self.client.socket], [], [], 0)[0]:
                self.client.reply()
                self.asked = False
            if not self.asked:
                command = self.load.waiting()
                if command[0].lower() in self.load.known:
                    self.record(command)
                    self.client.send(encode(command))
                    self.asked = True
        except Gone:
            self.leave()

    def leave(self):
        if self.client:
            self.client.close()
        self.client, self.asked = None, False


class Chain:
    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(f"{arguments.seed} disturbances")
        self.folder = tempfile.mkdtemp(prefix="replication-")
        self.nodes = []
        for at, command in enumerate(arguments.commands):
            port = arguments.first_port + 10 * at
            appendonly = self.random.choice(("yes", "no", "no"))
            options = ["--enable-debug-command", "yes", "--save", "", "--appendonly", appendonly,
                       "--repl-diskless-sync-delay", "0", "--repl-timeout", "10"]
            node = Node(f"{at}:{os.path.basename(command.split()[0])}", command, port, os.path.join(self.folder, str(at)), options)
            node.link = Link([port + 1, port + 2], arguments.seed * 100 + at)
            node.address = 0
            self.nodes.append(node)
        self.head = self.nodes[0]
        self.history = collections.deque(maxlen=HISTORY_MAX)
        self.done = collections.Counter()
        self.refused = collections.Counter()
        self.commands_sent = self.checks = self.keys_compared = 0
        self.evicted = collections.Counter()
        self.client = None

    # ---- Setting up ----

    def start(self):
        for node in self.nodes:
            node.start()
            node.name += "-" + ".".join(map(str, node.family()[1]))
        known = [set(node.ask("COMMAND", "LIST")) for node in self.nodes]
        self.known = {name.decode() for name in set.intersection(*known)}
        families = [node.family() for node in self.nodes]
        if ("redis", (7, 4)) in families:
            # Of a field that expires it may tell another key, a string's, once hashes have had other names.
            self.known -= {"rename", "renamenx", "move", "copy"}
        downgrades = any(child[0] == "redis" and parent[0] != "redis" for parent, child in zip(families, families[1:]))
        # Such a replica gets snapshots of a version that has no place for a field's expiry.
        self.field_expiry = "hpexpire" in self.known and not downgrades
        for parent, child in zip(self.nodes, self.nodes[1:]):
            if not self.can_follow(child, parent):
                raise SystemExit(f"{child.name} cannot read the snapshots of {parent.name}")
        self.load = Load(self.arguments.seed, self.known, self.field_expiry)
        self.waiters = [Waiter(self.load, self.record) for _ in range(WAITERS)]
        if self.arguments.maxmemory:
            policy = self.random.choice(("allkeys-lru", "allkeys-lfu", "allkeys-random"))
            for node in self.nodes:
                maxmemory = int(node.info("memory")["used_memory"]) + FIXED_BYTES + self.arguments.maxmemory
                for option, value in (("maxmemory-policy", policy), ("maxmemory", maxmemory), ("repl-backlog-size", "1mb")):
                    node.options += ["--" + option, str(value)]
                    node.set(option, value)
        for parent, child in zip(self.nodes, self.nodes[1:]):
            self.follow(child, parent)

    def can_follow(self, child, parent):
        (child_name, child_version), (parent_name, parent_version) = child.family(), parent.family()
        if child_name == "warmline":
            return True
        if child_name == "valkey":
            return parent_name != "redis" or parent_version <= (7, 2)
        if parent_name == "redis":
            return parent_version <= child_version
        return child_version >= (7, 2) and not self.field_expiry

    def follow(self, child, parent):
        child.parent = parent
        child.link.target = parent.port
        child.link.cut()
        child.address = 1 - child.address
        child.ask("REPLICAOF", "127.0.0.1", child.link.ports[child.address])

    def is_below(self, node, other):
        while node:
            if node is other:
                return True
            node = node.parent
        return False

    # ---- The load ----

    def record(self, command):
        self.history.append((self.head.name, command))

    def send(self, commands):
        """A batch to the head; what comes back does not matter, unless it is no reply."""
        try:
            if self.client is None:
                self.client = Client(self.head.port)
            self.history.extend((self.head.name, command) for command in commands)
            for reply in self.client.pipe(commands):
                if isinstance(reply, Refused):
                    self.refused[str(reply).split(" ")[0]] += 1
            self.commands_sent += len(commands)
        except Gone:
            self.leave_head()

    def leave_head(self):
        if self.client:
            self.client.close()
        self.client = None
        for waiter in self.waiters:
            waiter.leave()

    def run(self):
        ends = time.monotonic() + self.arguments.seconds
        next_check = time.monotonic() + 5
        next_disturbance = time.monotonic() + 1
        while time.monotonic() < ends:
            self.send(self.load.batch(self.random.choice((1, 20, 100, 300))))
            for waiter in self.waiters:
                waiter.step(self.head.port)
            if self.arguments.break_last and self.checks:
                self.break_last()
            if time.monotonic() > next_disturbance:
                if not self.arguments.calm:
                    self.disturb()
                next_disturbance = time.monotonic() + self.random.choice((0.05, 0.2, 0.5, 1.5))
            if time.monotonic() > next_check or any(node.has_alarms() for node in self.nodes):
                self.check()
                next_check = time.monotonic() + self.random.uniform(0.5, 1.5) * self.arguments.check_every
        self.check()

    def break_last(self):
        last = self.nodes[-1]
        last.set("replica-read-only", "no")
        last.ask("SET", "behind their back", "1")

    # ---- What is done to the servers ----

    def disturb(self):
        names = self.arguments.only.split(",") if self.arguments.only else list(DISTURBANCES)
        name = self.random.choices(names, [DISTURBANCES[name][0] for name in names])[0]
        try:
            if DISTURBANCES[name][1](self) is not False:
                self.done[name] += 1
                self.record((f"<{name}>",))
        except (Gone, Refused) as error:
            self.refused[f"<{name}>: {str(error)[:60]}"] += 1

    def replica(self):
        return self.random.choice([node for node in self.nodes if node.parent])

    def cut(self):
        self.replica().link.cut()

    def cut_within(self):
        """Ends the link when it has carried so much more; with a full sync on its way, often in its middle."""
        node = self.replica()
        node.link.cut_after = self.random.choice((1, 10, 50, 100, 1000, 10_000, 300_000))
        if self.random.random() < 0.6:
            node.link.cut()

    def cut_full_sync(self):
        """Has the replica begin anew, and cuts that."""
        node = self.replica()
        node.link.cut_after = self.random.randrange(1 << self.random.randrange(21))
        node.ask("REPLICAOF", "NO", "ONE")
        node.address = 1 - node.address
        self.write_at(node, [("SET", "on the way", "1")])
        node.ask("REPLICAOF", "127.0.0.1", node.link.ports[node.address])

    def write_at(self, node, commands):
        client = Client(node.port)
        client.pipe(commands)
        client.close()

    def slow_down(self):
        self.replica().link.byte_delay_s = self.random.choice((0, 0, 1e-7, 1e-6))

    def kill_replicas(self):
        self.random.choice(self.nodes).ask("CLIENT", "KILL", "TYPE", "replica")

    def kill_primary(self):
        self.replica().ask("CLIENT", "KILL", "TYPE", "master")

    def pause(self):
        self.random.choice(self.nodes).ask("CLIENT", "PAUSE", self.random.randrange(300), self.random.choice(("WRITE", "ALL")))

    def stop_a_moment(self):
        node = self.random.choice(self.nodes)
        node.process.send_signal(signal.SIGSTOP)
        ends = time.monotonic() + self.random.choice((0.05, 0.3, 1.5))
        while time.monotonic() < ends:
            if node is self.head:
                time.sleep(0.05)
            else:
                self.send(self.load.batch(100))
        node.process.send_signal(signal.SIGCONT)

    def restart(self, node, how):
        node.count_syncs()
        node.stop(how)
        if node is self.head:
            self.leave_head()
        for _ in range(self.random.choice((0, 0, 3, 20))):
            if node is not self.head:
                self.send(self.load.batch(100))
        node.start(node.link.ports[node.address] if node.parent else None)

    def kill(self):
        node = self.random.choice(self.nodes)
        if self.random.random() < 0.5:
            node.ask("BGSAVE")
            time.sleep(self.random.choice((0, 0.2)))
        self.restart(node, signal.SIGKILL)

    def shut_down(self):
        node = self.random.choice(self.nodes)
        if self.random.random() < 0.7:
            node.set("save", "3600 1")
        self.restart(node, signal.SIGTERM)

    def promote_for_a_moment(self):
        """A replica goes its own way, and comes back."""
        node = self.replica()
        node.ask("REPLICAOF", "NO", "ONE")
        if self.random.random() < 0.7:
            self.write_at(node, [("SET", "own way", self.random.random()), *self.load.batch(20)])
        node.ask("REPLICAOF", "127.0.0.1", node.link.ports[node.address])

    def swap_head(self):
        heirs = [node for node in self.nodes if node.parent is self.head and self.can_follow(self.head, node)]
        if not heirs:
            return False
        old, new = self.head, self.random.choice(heirs)
        self.leave_head()
        new.ask("REPLICAOF", "NO", "ONE")
        new.parent = None
        self.head = new
        self.send(self.load.batch(self.random.choice((1, 100))))
        self.follow(old, new)

    def follow_another(self):
        node = self.replica()
        parents = [other for other in self.nodes if not self.is_below(other, node) and self.can_follow(node, other)]
        self.follow(node, self.random.choice(parents))

    def change_setting(self):
        option, values = self.random.choice((
            # A backlog counts as used memory, so a large one would leave no place for keys.
            ("repl-backlog-size", ("16kb", "100kb", "1mb", "1mb" if self.arguments.maxmemory else "10mb")),
            ("repl-diskless-sync", ("yes", "no")),
            ("repl-diskless-load", ("disabled", "swapdb", "on-empty-db", "flush-before-load")),
            ("appendonly", ("yes", "no")),
            ("rdb-key-save-delay", ("0", "0", "20", "200")),
            ("key-load-delay", ("0", "0", "20", "200")),
            ("dual-channel-replication-enabled", ("yes", "no")),
            ("repl-ping-replica-period", ("1", "10")),
            ("replica-lazy-flush", ("yes", "no")),
            ("hash-max-listpack-entries", ("8", "128", "1000")),
            ("zset-max-listpack-entries", ("8", "128", "1000")),
            ("list-max-listpack-size", ("4", "-1", "-2")),
        ))
        return self.random.choice(self.nodes).set(option, self.random.choice(values))

    # ---- Checks ----

    def check(self):
        for node in self.nodes:
            node.link.byte_delay_s = 0.0
            node.link.cut_after = None
            for option in ("rdb-key-save-delay", "key-load-delay"):
                node.set(option, 0)
        deadline = time.monotonic() + self.arguments.settle
        self.wait_for_offsets(deadline)
        # What has a time to live of less than a second goes meanwhile, also where nobody looks for it.
        found = None
        deadline = time.monotonic() + COMPARE_S
        while found is None or found and time.monotonic() < deadline:
            time.sleep(0.4)
            found = self.compare(deadline + self.arguments.settle)
        if found:
            self.report(found)
            raise Different("contents")
        for node in self.nodes:
            node.count_syncs()
            self.evicted[node.name] = max(self.evicted[node.name], int(node.info("stats")["evicted_keys"]))
            if alarms := node.alarms():
                raise Different(f"{node.name} logged: " + "\n".join(alarms[:10]))
        self.checks += 1

    def wait_for_offsets(self, deadline):
        while True:
            try:
                states = [node.info("replication") for node in self.nodes]
                again = self.head.info("replication")["master_repl_offset"]
                behind = [
                    node.name for node, state in zip(self.nodes, states)
                    if node.parent and (state.get("master_link_status") != "up" or state.get("slave_repl_offset") != again)]
                if not behind:
                    return
            except (Gone, Refused) as error:
                behind, states = [str(error)], []
            if time.monotonic() > deadline:
                for node, state in zip(self.nodes, states):
                    print(node.name, {k: v for k, v in state.items() if "offset" in k or "master" in k or "replid" in k or "role" in k})
                raise Different(f"not caught up after {self.arguments.settle} s: {behind}")
            time.sleep(0.1)

    def compare(self, deadline):
        """Keys that differ between the head and another: [(node, differences)]."""
        contents = []
        names = {node.family()[0] for node in self.nodes}
        exact = Exactness(self.field_expiry, names == {"warmline"}, "redis" not in names or len({n.family() for n in self.nodes}) == 1)
        for node in (self.head, *(node for node in self.nodes if node is not self.head)):
            client = Client(node.port)
            contents.append((node, Contents(client, DATABASES, exact)))
            client.close()
        self.wait_for_offsets(deadline)
        of_head = contents[0][1]
        self.keys_compared += len(of_head.keys)
        found = [(node, differences) for node, of_node in contents[1:] if (differences := of_head.differences(of_node))]
        if not found:
            digests = collections.defaultdict(dict)
            for node in self.nodes:
                name, version = node.family()
                digests["valkey" if name == "warmline" else (name, version)][node.name] = node.ask("DEBUG", "DIGEST")
            found = [(self.head, [((0, b"<digest>"), group, "alike")]) for group in digests.values() if len(set(group.values())) > 1]
        return found

    def report(self, found):
        for node, differences in found:
            print(f"{len(differences)} keys differ between {self.head.name} and {node.name}:")
            for (db, key), here, there in differences[:5]:
                print(f"  db {db} {key}: {first_difference(here, there)}")
                word = key.decode(errors="replace")
                named = [entry for entry in self.history if word in map(str, entry[1])]
                for where, command in named[-6:]:
                    print("      ", where, " ".join(str(part)[:40] for part in command[:12]))

    def summary(self):
        print(f"seed {self.arguments.seed}: {' -> '.join(node.name for node in self.nodes)}")
        print(f"  {self.commands_sent:,} commands, {self.checks} checks of {self.keys_compared:,} keys, "
              f"{sum(node.link.cuts for node in self.nodes)} links cut, {sum(self.evicted.values()):,} keys evicted")
        print("  " + ", ".join(f"{name} {count}" for name, count in sorted(self.done.items())))
        print("  refused: " + ", ".join(f"{name} {count}" for name, count in self.refused.most_common(12)))
        for node in self.nodes:
            print(f"  {node.name}: served full syncs {node.counted['sync_full']}, partial {node.counted['sync_partial_ok']}, "
                  f"partial refused {node.counted['sync_partial_err']}")
        sys.stdout.flush()

    def end(self):
        for node in self.nodes:
            node.stop()
            node.link.close()


# How often each comes, and what it does; False when it could not be done.
DISTURBANCES = {
    "cut": (10, Chain.cut), "cut_within": (14, Chain.cut_within), "cut_full_sync": (5, Chain.cut_full_sync),
    "slow_down": (3, Chain.slow_down), "kill_replicas": (5, Chain.kill_replicas), "kill_primary": (5, Chain.kill_primary),
    "pause": (4, Chain.pause), "stop_a_moment": (4, Chain.stop_a_moment), "kill": (3, Chain.kill), "shut_down": (3, Chain.shut_down),
    "promote_for_a_moment": (4, Chain.promote_for_a_moment), "swap_head": (3, Chain.swap_head),
    "follow_another": (3, Chain.follow_another), "change_setting": (14, Chain.change_setting),
}


def run_chain(arguments):
    chain = Chain(arguments)
    failed = True
    try:
        chain.start()
        chain.run()
        failed = False
    except (Different, Gone, Refused) as difference:
        print(f"DIFFERENT: {difference}")
        for node in chain.nodes:
            if node.process and node.process.poll() is not None:
                print(f"{node.name} ended with {node.process.returncode}")
    finally:
        chain.end()
        chain.summary()
        if failed:
            for node in chain.nodes:
                node.link.save_passed(os.path.join(node.folder, "stream"))
        if failed or arguments.keep:
            print(f"  files and logs: {chain.folder}")
        else:
            remove_folder(chain.folder)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--maxmemory", type=int, default=0)
    parser.add_argument("--settle", type=float, default=60)
    parser.add_argument("--check-every", type=float, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--calm", action="store_true")
    parser.add_argument("--break", dest="break_last", action="store_true")
    parser.add_argument("--failover", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--how", default="kill")
    parser.add_argument("--sentinel")
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--first-port", type=int, default=14000)
    arguments = parser.parse_args()
    modes = [(arguments.failover, run_failover), (arguments.hostile, run_hostile), (arguments.faults, run_faults)]
    run = next((run for is_chosen, run in modes if is_chosen), run_chain)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
