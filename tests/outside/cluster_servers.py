"""Clusters of servers on this machine, made by commands alone; for cluster_failover.py, cluster_size.py and tests/clients/cluster.py."""
import os
import signal
import tempfile
import time

from replication_servers import Client, Gone, Node, Refused, remove_folder

SLOTS = 16384
POLL_S = 0.05


class Unsettled(Exception):
    """The cluster has not come to the wanted state in time."""


class Cluster:
    """Primaries, each with its replicas: node `i` and the nodes `i + primaries`, `i + 2 * primaries`, ... are a shard."""

    def __init__(self, name, command, first_port, primaries=3, replicas_each=1, node_timeout_ms=5000, options=()):
        self.name, self.primaries = name, primaries
        self.folder = tempfile.mkdtemp(prefix=f"cluster-{name}-")
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms), *options]
        self.nodes = [
            Node(f"{name}{i}", command, first_port + i, os.path.join(self.folder, str(i)), options)
            for i in range(primaries * (1 + replicas_each))]
        self.ids = {}

    def start(self):
        for node in self.nodes:
            node.start()
            self.ids[node] = node.ask("CLUSTER", "MYID").decode()

    def give_slots(self):
        for i, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i < self.primaries:
                node.ask("CLUSTER", "ADDSLOTSRANGE", i * SLOTS // self.primaries, (i + 1) * SLOTS // self.primaries - 1)

    def meet(self):
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", node.port)

    def create(self, patience_s=60):
        self.start()
        self.give_slots()
        self.meet()
        self.wait(self.agreed, patience_s)
        for i, node in enumerate(self.nodes[self.primaries:]):
            self.until(patience_s, lambda: self.replicates(node, self.nodes[i % self.primaries]))
        self.wait(self.in_sync, patience_s)

    def replicates(self, node, primary):
        try:
            return node.ask("CLUSTER", "REPLICATE", self.ids[primary]) == b"OK"
        except Refused:
            return False

    def alive(self):
        return [node for node in self.nodes if node.process and node.process.poll() is None]

    def agreed(self, node):
        info = cluster_info(node)
        return int(info["cluster_known_nodes"]) == len(self.nodes) and info["cluster_state"] == "ok"

    def in_sync(self, node):
        """Whether the node is a primary whose replicas have all that it has, or a replica with a link."""
        info = node.info("replication")
        if info["role"] == "slave":
            return info["master_link_status"] == "up"
        replicas = [value for name, value in info.items() if name.startswith("slave") and "offset=" in value]
        return all(f"state=online,offset={info['master_repl_offset']}," in value for value in replicas)

    def wait(self, holds, patience_s):
        """Until something holds for all nodes that run."""
        waiting = self.alive()
        deadline = time.monotonic() + patience_s
        while waiting:
            waiting = [node for node in waiting if not holds(node)]
            if waiting and time.monotonic() > deadline:
                raise Unsettled(f"{self.name}: {holds.__name__} is not true of {[node.port for node in waiting]}")
            time.sleep(POLL_S)

    def until(self, patience_s, holds):
        deadline = time.monotonic() + patience_s
        while not holds():
            if time.monotonic() > deadline:
                raise Unsettled(self.name)
            time.sleep(POLL_S)

    def owner(self, slot, asked=None):
        """The node that serves a slot, as one of them says, or None."""
        for line in (asked or self.alive()[0]).ask("CLUSTER", "NODES").decode().splitlines():
            fields = line.split(" ")
            if "master" not in fields[2] or "fail" in fields[2]:
                continue
            for text in fields[8:]:
                first, _, last = text.partition("-")
                if not text.startswith("[") and int(first) <= slot <= int(last or first):
                    return next((node for node, its_id in self.ids.items() if its_id == fields[0]), None)
        return None

    def restart(self, node, patience_s=60):
        """Starts a node that was killed, and waits until it is a replica in sync and all nodes agree."""
        node.start()
        self.until(patience_s, lambda: node.info("replication")["role"] == "slave")
        self.wait(self.agreed, patience_s)
        self.wait(self.in_sync, patience_s)

    def end(self, keeps_files=False):
        for node in self.nodes:
            node.stop(signal.SIGKILL)
        if not keeps_files:
            remove_folder(self.folder)


def cluster_info(node):
    text = node.ask("CLUSTER", "INFO").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Probe:
    """Writes one key at whichever node takes it."""

    def __init__(self, ports, key):
        self.clients, self.key = dict.fromkeys(ports), key
        self.count = 0
        self.refusals = {}

    def accepted_at(self):
        """The port of the node that took a write, asked in turn, or None."""
        for port in self.clients:
            try:
                self.clients[port] = self.clients[port] or Client(port, reply_s_max=1)
                self.count += 1
                reply = self.clients[port].try_ask("SET", self.key, self.count)
            except Gone:
                self.clients[port] = None
                continue
            if reply == b"OK":
                return port
            word = str(reply).split(" ")[0]
            self.refusals[word] = self.refusals.get(word, 0) + 1
        return None

    def close(self):
        for client in self.clients.values():
            if client:
                client.close()
