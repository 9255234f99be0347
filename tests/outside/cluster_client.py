"""A client that follows redirections as client libraries do, and counts what nodes reply; for cluster_walk.py and cluster_moves.py."""
import binascii
import collections
import time

from cluster_servers import SLOTS
from replication_servers import Client, Gone, Refused

# What a cluster may reply while it changes.
EXPECTED = {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"}
RETRY_S = 0.005


def slot_of(key):
    """The slot of a key, as bytes or text."""
    key = key if isinstance(key, bytes) else key.encode()
    first = key.find(b"{")
    last = key.find(b"}", first + 1)
    return binascii.crc_hqx(key[first + 1:last] if -1 < first < last - 1 else key, 0) % SLOTS


def word_of(error):
    return str(error).split(" ", 1)[0]


def tags_of(first, last):
    """A word for each slot of a range, in its order."""
    found = {}
    number = 0
    while len(found) <= last - first:
        if first <= slot_of(str(number)) <= last:
            found.setdefault(slot_of(str(number)), str(number))
        number += 1
    return [found[slot] for slot in range(first, last + 1)]


class ClusterClient:
    """One request at a time. `replies` counts the errors that nodes replied, `closed` are the connections that they closed."""

    def __init__(self, ports, patience_s=60):
        self.seeds, self.patience_s = list(ports), patience_s
        self.clients, self.ports = {}, [None] * SLOTS
        self.replies = collections.Counter()
        self.closed = []

    def at(self, port):
        if port not in self.clients:
            self.clients[port] = Client(port)
        return self.clients[port]

    def learn(self, port):
        """Takes the owners of all slots from one node."""
        for first, last, primary, *_ in self.at(port).ask("CLUSTER", "SLOTS"):
            self.ports[first:last + 1] = [primary[1]] * (last + 1 - first)

    def forget_connection(self, port, why):
        self.closed.append((round(time.time(), 3), port, why))
        if port in self.clients:
            self.clients.pop(port).close()
        self.ports = [None if known == port else known for known in self.ports]

    def port_of(self, slot):
        for port in [*self.clients, *self.seeds]:
            if self.ports[slot] is None:
                try:
                    self.learn(port)
                except Gone as error:
                    self.forget_connection(port, f"CLUSTER SLOTS: {error}")
        if self.ports[slot] is None:
            raise Gone(f"no node says whose slot {slot} is")
        return self.ports[slot]

    def ask(self, key, *words):
        """The reply of the node that serves the key. An error that is not of a cluster is raised, as is the end of a connection."""
        slot = slot_of(key)
        port, asking = self.port_of(slot), False
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            try:
                reply = self.at(port).pipe([("ASKING",), words] if asking else [words])[-1]
            except Gone as error:
                self.forget_connection(port, f"{words[0]}: {error}")
                raise
            asking = False
            if not isinstance(reply, Refused):
                return reply
            word = word_of(reply)
            self.replies[word] += 1
            if word not in EXPECTED:
                raise reply
            if word in ("MOVED", "ASK"):
                port, asking = int(str(reply).rsplit(":", 1)[1]), word == "ASK"
                if not asking:
                    self.learn(port)
                    self.ports[slot] = port
            else:
                time.sleep(RETRY_S)
                port = self.port_of(slot)
        raise Refused(f"no node took {words[0]} in {self.patience_s} s: {dict(self.replies)}")

    def close(self):
        for client in self.clients.values():
            client.close()
        self.clients.clear()
