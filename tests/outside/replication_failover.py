"""Failover under load: no write that WAIT confirmed may be lost, however often the primary goes.

usage: replication.py --failover [options] COMMAND      COMMAND starts a server, and contains {port}

A primary and two replicas with `min-replicas-to-write 1`; clients write, WAIT for one replica, and note what was confirmed.
Then the primary goes, in one of these ways, and the replica with the highest offset takes its place; the old one comes back as
a replica. Afterwards the new primary must have every confirmed write, and in the end all three the same data.

--count 10           how many failovers
--how kill,failover  ways to choose from: kill (SIGKILL), stop (SIGSTOP, woken later; only with Sentinel), shutdown (SIGTERM),
                     failover (the command FAILOVER; with Sentinel, SENTINEL FAILOVER)
--sentinel PATH      three of these (valkey-sentinel, redis-sentinel) watch, and nobody else promotes
--writers 3          clients that write

Prints the time without a primary that confirms writes, from the moment the primary went, as a table.
"""
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from replication_servers import Client, Contents, Exactness, Gone, Node, Refused, remove_folder

SERVICE = "warm"
KEYS_EACH = 300
RECOVERY_S_MAX = 60
DOWN_AFTER_MS = 1500
# Sentinel waits twice as long before it fails over again.
FAILOVER_TIMEOUT_MS = 3000


class Lost(Exception):
    """A confirmed write is gone, or no primary comes."""


class Writer(threading.Thread):
    def __init__(self, number, where):
        super().__init__(daemon=True)
        self.number, self.where = number, where
        self.confirmed = {}
        self.count = self.confirmed_count = 0
        self.confirmed_at = 0.0
        self.ended = False

    def run(self):
        client, port = None, None
        while not self.ended:
            try:
                if client is None or self.where() != port:
                    if client:
                        client.close()
                    port = self.where()
                    client = Client(port, reply_s_max=2)
                self.count += 1
                key = f"writer{self.number}:{self.count % KEYS_EACH}"
                written, replicas = client.pipe([("SET", key, self.count), ("WAIT", 1, 500)])
                if written == b"OK" and not isinstance(replicas, Refused) and replicas >= 1:
                    self.confirmed[key] = self.count
                    self.confirmed_count += 1
                    self.confirmed_at = time.monotonic()
                elif isinstance(written, Refused):
                    time.sleep(0.005)
            except Gone:
                if client:
                    client.close()
                client = None
                time.sleep(0.005)


class Sentinels:
    def __init__(self, program, folder, first_port, primary_port):
        self.ports = [first_port + n for n in range(3)]
        self.processes = []
        for port in self.ports:
            own = os.path.join(folder, f"sentinel{port}")
            os.makedirs(own)
            path = os.path.join(own, "sentinel.conf")
            with open(path, "w") as file:
                file.write(f"port {port}\ndir {own}\nlogfile {own}/log\n"
                           f"sentinel monitor {SERVICE} 127.0.0.1 {primary_port} 2\n"
                           f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
                           f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}\nsentinel parallel-syncs {SERVICE} 2\n")
            by_name = os.path.basename(program).endswith("sentinel")
            words = [program, path] if by_name else [program, path, "--sentinel"]
            self.processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def ask(self, *words):
        for port in self.ports:
            try:
                client = Client(port, reply_s_max=2)
                reply = client.ask(*words)
                client.close()
                return reply
            except Gone:
                pass
        raise Gone("no Sentinel answers")

    def primary_port(self):
        return int(self.ask("SENTINEL", "get-master-addr-by-name", SERVICE)[1])

    def wait_until_complete(self, deadline):
        """Until all know each other and both replicas, or no vote can be won."""
        for port in self.ports:
            while True:
                try:
                    client = Client(port, reply_s_max=2)
                    state = client.ask("SENTINEL", "MASTER", SERVICE)
                    client.close()
                    fields = dict(zip(state[::2], state[1::2]))
                    if fields[b"num-slaves"] == b"2" and fields[b"num-other-sentinels"] == b"2" and fields[b"flags"] == b"master":
                        break
                except (Gone, Refused):
                    pass
                if time.monotonic() > deadline:
                    raise Lost("the Sentinels do not find each other and the replicas")
                time.sleep(0.1)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


class Failover:
    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(f"{arguments.seed} failover")
        self.folder = tempfile.mkdtemp(prefix="failover-")
        options = ["--enable-debug-command", "yes", "--save", "", "--repl-diskless-sync-delay", "0", "--repl-timeout", "10",
                   "--min-replicas-to-write", "1", "--min-replicas-max-lag", "3"]
        self.nodes = [
            Node(str(n), arguments.commands[n % len(arguments.commands)], arguments.first_port + n,
                 os.path.join(self.folder, str(n)), options, config_file=bool(arguments.sentinel)) for n in range(3)]
        self.primary = self.nodes[0]
        self.sentinels = None
        self.without = {}
        self.writers = []

    def start(self):
        for node in self.nodes:
            node.start()
        if "failover" in self.arguments.how and not self.arguments.sentinel and b"failover" not in self.primary.ask("COMMAND", "LIST"):
            raise Lost("the server has no FAILOVER; see --how")
        for node in self.nodes[1:]:
            node.ask("REPLICAOF", "127.0.0.1", self.primary.port)
        for node in self.nodes:
            if node.config_file:
                node.ask("CONFIG", "REWRITE")
        if self.arguments.sentinel:
            self.sentinels = Sentinels(self.arguments.sentinel, self.folder, self.arguments.first_port + 10, self.primary.port)
        self.wait_until_whole()
        self.writers = [Writer(n, lambda: self.primary.port) for n in range(self.arguments.writers)]
        for writer in self.writers:
            writer.start()

    def look_up_primary(self):
        """Sentinel may have gone on to another one meanwhile."""
        if self.sentinels:
            port = self.sentinels.primary_port()
            self.primary = next(node for node in self.nodes if node.port == port)

    def wait_until_whole(self):
        """Until the primary has two replicas that follow."""
        deadline = time.monotonic() + RECOVERY_S_MAX
        while True:
            try:
                self.look_up_primary()
                info = self.primary.info("replication")
                if info["role"] == "master" and sum("state=online" in info.get(f"slave{n}", "") for n in range(4)) == 2:
                    break
            except (Gone, Refused):
                pass
            if time.monotonic() > deadline:
                raise Lost("the primary does not come to have two replicas")
            time.sleep(0.05)
        if self.sentinels:
            self.sentinels.wait_until_complete(deadline)

    def one(self):
        how = self.random.choice(self.arguments.how.split(","))
        old = self.primary
        went_at = time.monotonic()
        if how == "failover":
            if self.sentinels:
                self.sentinels.ask("SENTINEL", "FAILOVER", SERVICE)
            else:
                old.ask("FAILOVER")
        elif how == "stop":
            old.process.send_signal(signal.SIGSTOP)
        else:
            old.stop(signal.SIGKILL if how == "kill" else signal.SIGTERM)
        old.drop_client()
        self.primary = self.next_by_sentinel(old) if self.sentinels else self.next_by_command(old) if how == "failover" else self.promote(old)
        self.wait_for_confirmed_write(went_at)
        self.without.setdefault(how, []).append(self.writers[0].confirmed_at - went_at)
        if how == "stop":
            time.sleep(self.random.uniform(0, 2))
            old.process.send_signal(signal.SIGCONT)
        elif how != "failover":
            old.start(None if self.sentinels else self.primary.port)
        self.wait_until_whole()
        self.verify(self.primary)
        if self.sentinels:
            time.sleep(2 * FAILOVER_TIMEOUT_MS / 1000)

    def wait_for_confirmed_write(self, went_at):
        deadline = time.monotonic() + RECOVERY_S_MAX
        looked_at = promoted_at = time.monotonic()
        first = self.writers[0]
        seen = first.confirmed_at
        while first.confirmed_at <= max(promoted_at, seen):
            if time.monotonic() > deadline:
                raise Lost(f"no write is confirmed {time.monotonic() - went_at:.1f} s after the primary went")
            time.sleep(0.001)
            if time.monotonic() > looked_at + 0.1:
                looked_at = time.monotonic()
                self.look_up_primary()

    def next_by_sentinel(self, old):
        deadline = time.monotonic() + RECOVERY_S_MAX
        while time.monotonic() < deadline:
            port = self.sentinels.primary_port()
            if port != old.port:
                return next(node for node in self.nodes if node.port == port)
            time.sleep(0.02)
        raise Lost("Sentinel names no other primary")

    def next_by_command(self, old):
        deadline = time.monotonic() + RECOVERY_S_MAX
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node is not old and node.info("replication")["role"] == "master":
                    # The third server still follows the old one.
                    other = next(other for other in self.nodes if other not in (old, node))
                    other.ask("REPLICAOF", "127.0.0.1", node.port)
                    return node
            time.sleep(0.01)
        raise Lost("FAILOVER makes no other primary")

    def promote(self, old):
        others = [node for node in self.nodes if node is not old]
        before = None
        deadline = time.monotonic() + RECOVERY_S_MAX
        while True:
            if time.monotonic() > deadline:
                raise Lost("the replicas do not notice that the primary has gone")
            offsets = [int(node.info("replication")["slave_repl_offset"]) for node in others]
            down = all(node.info("replication")["master_link_status"] == "down" for node in others)
            if down and offsets == before:
                break
            before = offsets
            time.sleep(0.01)
        new, other = others if offsets[0] >= offsets[1] else others[::-1]
        new.ask("REPLICAOF", "NO", "ONE")
        other.ask("REPLICAOF", "127.0.0.1", new.port)
        return new

    def verify(self, node):
        """Values only grow, so a smaller one than what was confirmed before the look is a lost write."""
        confirmed = [(key, number) for writer in self.writers for key, number in dict(writer.confirmed).items()]
        client = Client(node.port)
        values = client.pipe([("GET", key) for key, _ in confirmed])
        client.close()
        lost = [(key, number, value) for (key, number), value in zip(confirmed, values) if value is None or int(value) < number]
        if lost:
            raise Lost(f"{len(lost)} confirmed writes are not at {node.port}: {lost[:5]}")

    def finish(self):
        for writer in self.writers:
            writer.ended = True
            writer.join(10)
        deadline = time.monotonic() + RECOVERY_S_MAX
        while True:
            contents = []
            for node in self.nodes:
                client = Client(node.port)
                contents.append(Contents(client, 1, Exactness(False, True, True)))
                client.close()
            if not any(contents[0].differences(other) for other in contents[1:]):
                break
            if time.monotonic() > deadline:
                raise Lost("the servers do not come to hold the same")
            time.sleep(0.2)
        for node in self.nodes:
            self.verify(node)

    def end(self):
        for writer in self.writers:
            writer.ended = True
        if self.sentinels:
            self.sentinels.end()
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
            node.stop()

    def summary(self):
        print(f"seed {self.arguments.seed}: {sum(map(len, self.without.values()))} failovers, "
              f"{sum(writer.confirmed_count for writer in self.writers):,} confirmed writes")
        print("| how | failovers | ms without a primary: least | median | nine in ten | most |\n|---|---:|---:|---:|---:|---:|")
        for how, seconds in sorted(self.without.items()):
            ms = sorted(1000 * s for s in seconds)
            nine_in_ten = ms[min(len(ms) - 1, len(ms) * 9 // 10)]
            print(f"| {how} | {len(ms)} | {ms[0]:.0f} | {statistics.median(ms):.0f} | {nine_in_ten:.0f} | {ms[-1]:.0f} |")


def run_failover(arguments):
    if arguments.sentinel and not shutil.which(arguments.sentinel):
        raise SystemExit(f"there is no {arguments.sentinel}")
    if "stop" in arguments.how and not arguments.sentinel:
        raise SystemExit("a server that is only stopped wakes up as a primary: that needs --sentinel")
    failover = Failover(arguments)
    failed = True
    try:
        failover.start()
        for _ in range(arguments.count):
            time.sleep(failover.random.uniform(0.1, 1))
            failover.one()
        failover.finish()
        failed = False
    except (Lost, Gone, Refused) as lost:
        print(f"LOST: {lost}")
    finally:
        failover.end()
        failover.summary()
        if failed or arguments.keep:
            print(f"files and logs: {failover.folder}")
        else:
            remove_folder(failover.folder)
    return 1 if failed else 0
