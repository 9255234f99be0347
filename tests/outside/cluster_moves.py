"""Slots move between servers of two kinds in all directions, at a steady rate of writes; every key is compared after each move.

usage: cluster_moves.py [options] SERVER REFERENCE      each is a command that starts a server, and contains {port}

A cluster has two primaries of each. Its lowest slots go round: SERVER -> SERVER -> REFERENCE -> REFERENCE -> SERVER, so that
each round has a move in each direction, the one within REFERENCE to compare with. Rounds take turns in how:

atomic    CLUSTER MIGRATESLOTS to the owner
CLI...    `CLI --cluster reshard`, for each --cli: SETSLOT and MIGRATE, slot by slot

Meanwhile strings are written to the moving slots at a steady rate, in pipelines, by a process of its own; keys of all types there
are changed one by one, with times to live of keys and fields and with consumer groups, and in the same way in a server that is no
cluster; and single keys are written at each node to slots that stay. After each move everything in the moving slots is read from
the new owner and compared with what was acknowledged, and the former owner must have no key of these slots.

--moves 100        moves in total
--cli PROGRAM      may be given more than once
--slots 100        slots that move
--keys 1000        strings in each of these slots
--value 64         bytes of each
--rate 50000       SET per second into the moving slots
--port 21700       the first port, of 5; the bus uses these plus 10000

Prints for each way and direction, each as the median of all moves and the worst: how long a move took, the rate of SET that was
achieved meanwhile, how long a pipeline of them waited at most until all was acknowledged, and a single write to other slots of source and
target; and keys that were lost or wrong. Fails if there are any, if a move from or to SERVER failed, or if nodes replied with anything
but MOVED, ASK, TRYAGAIN and CLUSTERDOWN. A move that failed is tried again.
"""
import argparse
import collections
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

from cluster_client import EXPECTED, RETRY_S, ClusterClient, slot_of, tags_of, word_of
from cluster_servers import SLOTS, Cluster, Unsettled
from replication_servers import Client, Contents, Exactness, Gone, Node, Refused, encode, first_difference

MOVE_S_MAX = 180
SETTLE_S_MAX = 60
BATCH = 100
# A cycle writes as many pipelines as the rate needs in this time.
CYCLE_S = 0.01
REST_S = 1.0
FAILED_MOVES_MAX = 5
FAULTS_SHOWN = 20
OTHER_PAUSE_S = 0.002


class Worker:
    """A process that works until it is asked: `report` gives what was measured since the last one, `check` looks at its keys."""

    def __init__(self, target, *arguments):
        self.pipe, far = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=target, args=(far, *arguments), daemon=True)
        self.process.start()

    def ask(self, word):
        self.pipe.send(word)
        if not self.pipe.poll(MOVE_S_MAX):
            raise Unsettled(f"{self.process.name} does not answer")
        return self.pipe.recv()

    def end(self):
        self.process.kill()
        self.process.join()


# ---- Strings in pipelines, to the moving slots ----


class Strings:
    """Keys in batches of one slot, all of which get the same value at once."""

    def __init__(self, pipe, ports, tags, options):
        self.pipe, self.client = pipe, ClusterClient(ports)
        self.batches = []
        marker, filler = b"V" * 16, b"x" * (options.value - 16)
        for tag in tags:
            for first in range(0, options.keys, BATCH):
                keys = [f"{{{tag}}}:steady:{i}" for i in range(first, min(first + BATCH, options.keys))]
                words = [encode(("SET", key, marker + filler)) for key in keys]
                self.batches.append({"slot": slot_of(keys[0]), "keys": keys, "pattern": b"".join(words), "value": 0, "filler": filler})
        self.marker = marker
        self.a_cycle = max(1, round(options.rate * CYCLE_S / BATCH))
        self.cycle_s = self.a_cycle * BATCH / options.rate
        self.sequence = 0
        self.problems = collections.Counter()
        self.reset()

    def reset(self):
        self.began, self.acknowledged, self.longest_s = time.monotonic(), 0, 0.0

    def run(self):
        self.fill()
        at, due = 0, time.monotonic()
        while True:
            while self.pipe.poll(0):
                self.pipe.send({"report": self.report, "check": self.check}[self.pipe.recv()]())
                due = time.monotonic()
            chosen = [self.batches[(at + i) % len(self.batches)] for i in range(min(self.a_cycle, len(self.batches)))]
            at += len(chosen)
            self.write(chosen)
            due = max(due + self.cycle_s, time.monotonic() - REST_S)
            time.sleep(max(0.0, due - time.monotonic()))

    def fill(self):
        for at in range(0, len(self.batches), 10):
            self.write(self.batches[at:at + 10])
        self.reset()

    def report(self):
        elapsed_s = time.monotonic() - self.began
        found = {"rate": self.acknowledged / elapsed_s, "longest_s": self.longest_s, "problems": dict(self.problems),
                 "replies": dict(self.client.replies)}
        self.reset()
        return found

    def write(self, batches):
        began = time.monotonic()
        sent, refused = [], []
        for batch in batches:
            self.sequence += 1
            batch["value"] = self.sequence
            port = self.client.port_of(batch["slot"])
            self.client.at(port).send(batch["pattern"].replace(self.marker, b"%016d" % self.sequence))
            sent.append((port, batch))
        for port, batch in sent:
            lines = self.lines(self.client.at(port), len(batch["keys"]))
            left = [(key, Refused(line[1:].decode())) for key, line in zip(batch["keys"], lines) if line != b"+OK"]
            if left:
                refused.append((batch, left))
            else:
                self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.acknowledged += len(batch["keys"]) - len(left)
        # Only now: connections have no replies under way.
        for batch, left in refused:
            self.redirect(batch, left)
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    @staticmethod
    def lines(client, count):
        """Replies of one line each; none if all are OK, since an error is longer."""
        data = client.reader.read(5 * count)
        if data == b"+OK\r\n" * count:
            return []
        while data.count(b"\r\n") < count:
            more = client.reader.readline()
            if not more:
                raise Gone("connection closed")
            data += more
        return data.split(b"\r\n")[:count]

    def redirect(self, batch, left):
        """Writes the keys that were refused, where the errors say."""
        value = b"%016d" % batch["value"] + batch["filler"]
        deadline = time.monotonic() + MOVE_S_MAX
        while left and time.monotonic() < deadline:
            ways = collections.defaultdict(list)
            for key, error in left:
                word = word_of(error)
                self.client.replies[word] += 1
                if word in ("MOVED", "ASK"):
                    port = int(str(error).rsplit(":", 1)[1])
                    ways[port, word == "ASK"].append(key)
                    if word == "MOVED":
                        self.client.ports[batch["slot"]] = port
                elif word in EXPECTED:
                    time.sleep(RETRY_S)
                    ways[self.client.port_of(batch["slot"]), False].append(key)
                else:
                    self.problems[str(error)] += 1
            left = []
            for (port, asking), keys in ways.items():
                words = [words for key in keys for words in ([("ASKING",)] if asking else []) + [("SET", key, value)]]
                replies = self.client.at(port).pipe(words)[1 if asking else 0::2 if asking else 1]
                left += [(key, reply) for key, reply in zip(keys, replies) if reply != b"OK"]
                self.acknowledged += sum(reply == b"OK" for reply in replies)
        if left:
            self.problems[f"no node took a key in {MOVE_S_MAX} s"] += len(left)

    def check(self):
        """Compares all keys: how many there are, and what is wrong."""
        wrong = []
        for batch in self.batches:
            client = self.client.at(self.client.port_of(batch["slot"]))
            wanted = b"%016d" % batch["value"] + batch["filler"]
            for key, value in zip(batch["keys"], client.pipe([("GET", key) for key in batch["keys"]])):
                if isinstance(value, Refused):
                    value = self.client.ask(key, "GET", key)
                if value != wanted:
                    wrong.append(f"{key} is {value[:16] if value else value}, not {wanted[:16]}")
        return sum(len(batch["keys"]) for batch in self.batches), wrong


def write_strings(pipe, ports, tags, options):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Strings(pipe, ports, tags, options).run()


# ---- Single writes to slots that stay ----


def write_elsewhere(pipe, port, tags):
    """To one node: how long each takes. Nothing but OK is right."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client = Client(port)
    problems, values = collections.Counter(), {}
    longest_s, number = 0.0, 0
    while True:
        while pipe.poll(0):
            if pipe.recv() == "check":
                found = client.pipe([("GET", key) for key in values])
                wrong = [f"{key} is {had}, not {value}" for (key, value), had in zip(values.items(), found) if had != b"%d" % value]
                pipe.send((len(values), wrong))
                continue
            pipe.send({"longest_s": longest_s, "problems": dict(problems)})
            longest_s = 0.0
        number += 1
        key = f"{{{tags[number % len(tags)]}}}:elsewhere:{number % 500}"
        began = time.monotonic()
        reply = client.try_ask("SET", key, number)
        longest_s = max(longest_s, time.monotonic() - began)
        if reply == b"OK":
            values[key] = number
        else:
            problems[str(reply)] += 1
        time.sleep(OTHER_PAUSE_S)


# ---- Keys of all types, beside a server that is no cluster ----


class Typed(threading.Thread):
    """Changes keys of all types in the cluster and in a model. A change that is done twice or not at all makes them differ."""

    KINDS = ("string", "list", "set", "zset", "hash", "stream", "loglog")

    def __init__(self, ports, model, tags, seed):
        super().__init__(daemon=True)
        self.client, self.model = ClusterClient(ports), Client(model.port)
        self.random = random.Random(seed)
        self.names = [f"{{{tag}}}:{kind}:{i}" for tag in tags for kind in self.KINDS for i in range(2)]
        self.lock = threading.Lock()
        self.ended, self.changes, self.problems = False, 0, []
        self.ids = {name: collections.deque([], 50) for name in self.names}
        self.stream_id, self.later_ms = 1, int(time.time() * 1000) + 10**8
        for name in self.names:
            if ":stream:" in name:
                self.both(name, "XGROUP", "CREATE", name, "group", "0", "MKSTREAM")
            for _ in range(30):
                self.change(name)

    def run(self):
        while not self.ended:
            with self.lock:
                try:
                    self.change(self.random.choice(self.names))
                except (Refused, Gone, OSError) as error:
                    self.problems.append(f"typed: {type(error).__name__}: {error}")
                    return
            time.sleep(0.001)

    def both(self, name, *words):
        reply, of_model = self.client.ask(name, *words), self.model.ask(*words)
        if reply != of_model:
            self.problems.append(f"{words} was answered {reply}, by the model {of_model}")
        self.changes += 1

    def change(self, name):
        n = self.random.randrange
        kind = name.split(":")[1]
        if n(40) == 0:
            self.both(name, "PEXPIREAT", name, self.later_ms + n(10**6))
        elif n(200) == 0:
            self.both(name, "PERSIST", name)
        if kind == "stream":
            self.change_stream(name)
        elif kind == "hash" and n(4) == 0:
            self.both(name, "HPEXPIREAT", name, self.later_ms + n(10**6), "FIELDS", 1, f"f{n(200)}")
        else:
            self.both(name, *self.random.choice({
                "string": [("APPEND", name, f"{n(1000)},"), ("SETRANGE", name, n(300), "range"), ("SETBIT", name, n(3000), n(2))],
                "list": [("RPUSH", name, n(10**6), "x" * n(200)), ("LPUSH", name, n(10**6)), ("LPOP", name), ("LTRIM", name, 0, 200)],
                "set": [("SADD", name, n(1000), f"m{n(300)}"), ("SREM", name, f"m{n(300)}"), ("SADD", name, n(1000))],
                "zset": [("ZINCRBY", name, n(100) / 8, f"m{n(300)}"), ("ZADD", name, n(1000), f"m{n(300)}"), ("ZPOPMIN", name)],
                "hash": [("HINCRBY", name, f"f{n(200)}", n(100)), ("HSET", name, f"f{n(200)}", n(10**6)), ("HDEL", name, f"f{n(200)}")],
                "loglog": [("PFADD", name, n(10**6)), ("PFADD", name, n(10**6), n(10**6))],
            }[kind]))

    def change_stream(self, name):
        """Times of deliveries are given, so that they are the same in both."""
        self.stream_id += 1
        own = f"{self.stream_id}-1"
        self.ids[name].append(own)
        self.both(name, "XADD", name, own, "field", self.random.randrange(10**6))
        choice = self.random.randrange(6)
        if choice == 0:
            self.both(name, "XCLAIM", name, "group", f"c{self.random.randrange(3)}", 0, own, "TIME", self.later_ms - 10**9, "RETRYCOUNT",
                      self.random.randrange(5), "FORCE", "JUSTID")
        elif choice == 1:
            self.both(name, "XGROUP", "SETID", name, "group", own)
        elif choice == 2:
            self.both(name, "XTRIM", name, "MAXLEN", 100)
        elif choice == 3:
            self.both(name, "XDEL", name, self.random.choice(self.ids[name]))
        elif choice == 4:
            pending = self.client.ask(name, "XPENDING", name, "group", "-", "+", 1)
            if pending:
                self.both(name, "XACK", name, "group", pending[0][0])

    def differences(self, owner, drift_ms):
        """
        How many keys there are, and how those of a node differ from the model's; the caller holds the lock. MIGRATE tells how long a
        key still lives, not until when: a later end by up to `drift_ms` is right, and given to the model.
        """
        here, there = (Named(client, self.names) for client in (Client(owner.port), self.model))
        here.client.close()
        for (db, name), (_, expires, *_) in here.keys.items():
            of_model = there.keys.get((db, name))
            if of_model and 0 < expires - of_model[1] <= drift_ms and of_model[1] > 0:
                self.model.ask("PEXPIREAT", name, expires)
                of_model[1] = expires
        return len(self.names), [f"{key.decode()}: {first_difference(*sides)}" for (_, key), *sides in here.differences(there)]


class Named(Contents):
    """
    What a server has of some keys. Not compared are pending entries that are no longer in their stream: MIGRATESLOTS sends the commands
    of an append-only file, and there is none that makes these, in the reference neither.
    """

    def __init__(self, client, names):
        self.client, self.keys, self.functions = client, {}, []
        self.exact = Exactness(field_expiry=True, idle_consumers=True, entries_read=True)
        for at in range(0, len(names), 200):
            self.read(0, [name.encode() for name in names[at:at + 200]])
        for kind, _, value, *_ in self.keys.values():
            if kind == b"stream":
                there = {entry[0] for entry in value[0]}
                value[1][1] = [
                    (*group, [one for one in pending if one[0] in there],
                     [(consumer, [one for one in of_consumer if one[0] in there]) for consumer, of_consumer in consumers])
                    for *group, pending, consumers in value[1][1]]


# ---- Moves ----


class Result:
    def __init__(self):
        self.times, self.rates, self.failed, self.checked, self.wrong = [], [], 0, 0, 0
        # Of each move.
        self.longest = {"moving": [], "source": [], "target": []}


class Moves:
    def __init__(self, options):
        self.options = options
        commands = (options.server, options.server, options.reference, options.reference)
        node_options = ["--save", "", "--appendonly", "no"]
        self.cluster = Cluster("moves-", options.server, options.port, len(commands), 0, 15000, node_options)
        self.cluster.nodes = [
            Node(f"moves{i}", command, options.port + i, os.path.join(self.cluster.folder, str(i)), self.cluster.nodes[0].options)
            for i, command in enumerate(commands)]
        self.model = Node("model", options.reference, options.port + len(commands), os.path.join(self.cluster.folder, "model"), ["--save", ""])
        self.workers, self.typed, self.results, self.failures = [], None, {}, []

    def run(self):
        cluster, options = self.cluster, self.options
        cluster.create()
        self.model.start()
        ports = [node.port for node in cluster.nodes]
        tags = tags_of(0, options.slots - 1)
        share = SLOTS // len(ports)
        # Processes first: they are forked.
        self.strings = Worker(write_strings, ports, tags, options)
        # The last slots of a node do not move.
        self.elsewhere = {
            node: Worker(write_elsewhere, node.port, tags_of((i + 1) * share - 20, (i + 1) * share - 1)) for i, node in enumerate(cluster.nodes)}
        self.workers = [self.strings, *self.elsewhere.values()]
        self.typed = Typed(ports, self.model, tags, options.seed)
        self.typed.start()
        self.strings.ask("report")
        ways = ["atomic"]
        for cli in options.cli or []:
            ways += [cli, "atomic"]
        ways = ways[:-1] if len(ways) > 1 else ways
        for number in range(options.moves):
            way = ways[number // len(ports) % len(ways)]
            source, target = (cluster.nodes[(number + i) % len(ports)] for i in (0, 1))
            self.move(way, source, target)
        self.print()

    def move(self, way, source, target):
        direction = f"{source.family()[0]} -> {target.family()[0]}"
        result = self.results.setdefault((os.path.basename(way), direction), Result())
        # Some writes before, so that a move begins under the load.
        time.sleep(REST_S)
        for worker in self.workers:
            worker.ask("report")
        began = time.monotonic()
        self.carry_out(way, source, target, result)
        took_s = time.monotonic() - began
        load = self.strings.ask("report")
        result.times.append(took_s)
        result.rates.append(load["rate"])
        result.longest["moving"].append(load["longest_s"])
        others = {name: self.elsewhere[node].ask("report") for name, node in (("source", source), ("target", target))}
        for name, other in others.items():
            result.longest[name].append(other["longest_s"])
        for found in (load, *others.values()):
            self.failures += [f"{way} {direction}: nodes replied {text} {count} times" for text, count in found["problems"].items()]
        checked, wrong = self.check(source, target, 0 if way == "atomic" else 1000 * took_s)
        result.checked += checked
        result.wrong += len(wrong)
        self.failures += [f"{way} {direction}: {line}" for line in [*wrong, *self.typed.problems][:FAULTS_SHOWN]]
        print(f"  {os.path.basename(way)} {direction}: {took_s:.2f} s, {load['rate']:.0f} SET/s, longest {load['longest_s']:.3f} s, elsewhere "
              f"{max(other['longest_s'] for other in others.values()):.3f} s, {checked} keys, {len(wrong)} wrong", file=sys.stderr, flush=True)
        if self.failures:
            raise Unsettled("; ".join(self.failures[:FAULTS_SHOWN]))

    def carry_out(self, way, source, target, result):
        move = self.atomic if way == "atomic" else lambda *nodes: self.reshard(way, *nodes)
        for _ in range(FAILED_MOVES_MAX):
            message = move(source, target)
            if message is None:
                break
            result.failed += 1
            if not {source, target} <= set(self.cluster.nodes[2:]):
                self.failures.append(f"{way} {source.port} -> {target.port} failed: {message}")
            print(f"  {way} {source.port} -> {target.port} failed: {message}", file=sys.stderr, flush=True)
        else:
            raise Unsettled(f"{way}: {FAILED_MOVES_MAX} moves failed from {source.port} to {target.port}")
        self.cluster.until(SETTLE_S_MAX, lambda: all(self.owns_all(target, asked) for asked in self.cluster.nodes))

    def owns_all(self, node, asked):
        for first, last, primary, *_ in asked.ask("CLUSTER", "SLOTS"):
            if first <= 0 <= last:
                return primary[1] == node.port and last >= self.options.slots - 1
        return False

    def atomic(self, source, target):
        """Moves the slots at once; the message if that failed."""
        source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, self.options.slots - 1, "NODE", self.cluster.ids[target])
        deadline = time.monotonic() + MOVE_S_MAX
        while time.monotonic() < deadline:
            newest = source.ask("CLUSTER", "GETSLOTMIGRATIONS")[0]
            job = dict(zip(newest[::2], newest[1::2]))
            if job[b"state"] == b"success":
                return None
            if job[b"state"] in (b"failed", b"cancelled"):
                return job[b"message"].decode()
            time.sleep(0.01)
        raise Unsettled(f"slots of {source.port} do not move: {job}")

    def reshard(self, cli, source, target):
        words = [cli, "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", self.cluster.ids[source], "--cluster-to",
                 self.cluster.ids[target], "--cluster-slots", str(self.options.slots), "--cluster-yes", "--cluster-pipeline", "100"]
        with open(os.path.join(self.cluster.folder, "cli.log"), "ab") as log:
            code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=MOVE_S_MAX, check=False).returncode
        return f"exit code {code}, see cli.log" if code else None

    def check(self, source, target, drift_ms):
        """How many keys were compared, and what is wrong."""
        with self.typed.lock:
            checked, wrong = self.typed.differences(target, drift_ms)
            count, of_strings = self.strings.ask("check")
            expected = self.model.ask("DBSIZE") + count
            present = self.count_keys(target)
        wrong += of_strings
        checked += count
        for node in (source, target):
            count, of_others = self.elsewhere[node].ask("check")
            checked += count
            wrong += of_others
        if present != expected:
            wrong.append(f"{target.port} has {present} keys of the slots, not {expected}")
        try:
            self.cluster.until(SETTLE_S_MAX, lambda: self.count_keys(source) == 0)
        except Unsettled:
            wrong.append(f"{source.port} still has {self.count_keys(source)} keys of the slots")
        return checked, wrong

    def count_keys(self, node):
        return sum(node.ask("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in range(self.options.slots))

    def print(self):
        print("| way | direction | moves | failed | s | SET/s | longest wait of writes to moving slots s | to other slots of source s "
              "| of target s | keys compared | lost or wrong |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for (way, direction), result in sorted(self.results.items()):
            waits = [f"{statistics.median(times):.3f}, {max(times):.3f}" for times in result.longest.values()]
            print(f"| {way} | {direction} | {len(result.times)} | {result.failed} | {statistics.median(result.times):.2f}, {max(result.times):.2f} "
                  f"| {statistics.median(result.rates):.0f}, {min(result.rates):.0f} | {' | '.join(waits)} | {result.checked} | {result.wrong} |")
        print(f"changes of keys of all types: {self.typed.changes}; nodes replied {dict(self.typed.client.replies)} to them, "
              f"{self.strings.ask('report')['replies']} to the strings")

    def end(self, keeps_files):
        if self.typed:
            self.typed.ended = True
        for worker in self.workers:
            worker.end()
        self.model.stop()
        self.cluster.end(keeps_files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", metavar="SERVER")
    parser.add_argument("reference", metavar="REFERENCE")
    parser.add_argument("--cli", action="append")
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--value", type=int, default=64)
    parser.add_argument("--rate", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=21700)
    options = parser.parse_args()
    moves = Moves(options)
    finished = False
    try:
        moves.run()
        finished = True
    finally:
        moves.end(keeps_files=not finished)
        if not finished:
            print(f"files and logs: {moves.cluster.folder}")
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(main())
