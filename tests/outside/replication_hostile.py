"""Peers that lie: a primary to the server under test as its replica, then replicas to it as their primary.

usage: replication.py --hostile [options] COMMAND      COMMAND starts a server, and contains {port}

--only TEXT          only cases whose name contains TEXT
--first-port 14000   two ports

After each lie the server has to live, to answer PING soon, to have grown by no more than a bound, to have said something in
its log, to try again, and to sync with an honest peer. What it held before must still be there, unless it had begun to load a
snapshot in place of it. Prints a line for each case, and fails if one fails.
"""
import os
import re
import socket
import tempfile
import threading
import time

from replication_servers import Client, Gone, Node, Refused, encode, run_checks

ID = b"0123456789abcdef0123456789abcdef01234567"
REPLICATION_TIMEOUT_S = 3
# A server that reads a snapshot from its socket may wait for it as long as for any reply.
ANSWER_S_MAX = REPLICATION_TIMEOUT_S + 1
GROWTH_BYTES_MAX = 96 << 20
FLOOD_BYTES = 256 << 20
MARK = b"m" * 40


def snapshot(body=b"\xfe\x00\x00\x03new\x05value", magic=b"REDIS0009", end=b"\xff" + bytes(8)):
    """A snapshot by hand; a checksum of zero is none."""
    return magic + body + end


GOOD = snapshot()
FULL = b"+FULLRESYNC " + ID + b" 100\r\n"


def sized(data, length=None):
    return b"$%d\r\n" % (len(data) if length is None else length) + data


def marked(data, mark=MARK):
    return b"$EOF:" + MARK + b"\r\n" + data + mark


class Peer:
    """One connection of the server under test to the lying primary."""

    def __init__(self, connection):
        self.socket = connection
        self.reader = connection.makefile("rb")

    def command(self):
        line = self.reader.readline()
        if not line:
            raise Gone("closed")
        if line[:1] != b"*":
            return line.split() or [b""]
        words = []
        for _ in range(int(line[1:])):
            words.append(self.reader.read(int(self.reader.readline()[1:]) + 2)[:-2])
        return words

    def until(self, name, other=b"+OK\r\n"):
        """Answers as a primary does until the replica sends `name`, which stays unanswered."""
        while True:
            words = self.command()
            if words[0].upper() == name:
                return words
            self.socket.sendall(b"+PONG\r\n" if words[0].upper() == b"PING" else other)

    def linger(self):
        """Says nothing more until the replica has had enough."""
        while self.reader.read(1):
            pass

    def flood(self, data):
        sent = 0
        while sent < FLOOD_BYTES:
            self.socket.sendall(data)
            sent += len(data)


def silent_at(name):
    def lie(peer):
        peer.until(name)
        peer.linger()
    return lie


def answers(name, data, then_close=False):
    def lie(peer):
        peer.until(name)
        peer.socket.sendall(data)
        if not then_close:
            peer.linger()
    return lie


def floods(name, start, data):
    def lie(peer):
        peer.until(name)
        peer.socket.sendall(start)
        peer.flood(data)
        peer.linger()
    return lie


def refuses_everything(peer):
    while True:
        peer.command()
        peer.socket.sendall(b"-ERR no\r\n")


def refuses_psync(data):
    def lie(peer):
        peer.until(b"PSYNC")
        peer.socket.sendall(data)
        peer.until(b"SYNC")
        peer.linger()
    return lie


def keeps_alive_for_ever(peer):
    peer.until(b"PSYNC")
    peer.socket.sendall(FULL)
    for _ in range(80):
        peer.socket.sendall(b"\n")
        time.sleep(0.1)


def drips(peer):
    """A transfer of a byte at a time, which never becomes anything."""
    peer.until(b"PSYNC")
    peer.socket.sendall(FULL + b"$100000\r\n")
    for byte in snapshot(b"\xfe\x00\x00\x03new\x6f\xff", end=b"x" * 60):
        peer.socket.sendall(bytes([byte]))
        time.sleep(0.1)


def asks_for_acks(peer):
    """Asks for an ACK again and again, and reads none."""
    peer.until(b"PSYNC")
    peer.socket.sendall(FULL + sized(GOOD))
    getack = encode(["REPLCONF", "GETACK", "*"]) * 1000
    for _ in range(2000):
        peer.socket.sendall(getack)
    time.sleep(1)


def after_sync(data):
    return answers(b"PSYNC", FULL + sized(GOOD) + data)


HUGE = b"$%d\r\n"
# name, lie, whether what was there must stay: "kept", "kept by swapdb" or "either".
PRIMARY_LIES = [
    ("closes at once", lambda peer: None, "kept"),
    ("never answers PING", silent_at(b"PING"), "kept"),
    ("answers PING with an error", answers(b"PING", b"-ERR no\r\n"), "kept"),
    ("answers PING with bytes", answers(b"PING", bytes(range(1, 256)) + b"\r\n"), "kept"),
    ("answers PING with a line without end", floods(b"PING", b"+", b"x" * 65536), "kept"),
    ("answers PING with many lines", answers(b"PING", b"+PONG\r\n" * 1000), "kept"),
    ("never answers REPLCONF", silent_at(b"REPLCONF"), "kept"),
    ("refuses everything", refuses_everything, "kept"),
    ("never answers PSYNC", silent_at(b"PSYNC"), "kept"),
    ("answers PSYNC with a line without end", floods(b"PSYNC", b"+FULLRESYNC ", b"0" * 65536), "kept"),
    ("answers PSYNC with lines without end", floods(b"PSYNC", b"", b"\n" * 65536), "either"),
    ("answers PSYNC with an array", answers(b"PSYNC", b"*1\r\n$3\r\nfoo\r\n"), "kept"),
    ("refuses PSYNC, silent at SYNC", refuses_psync(b"-ERR unknown command\r\n"), "kept"),
    ("has no link of its own", answers(b"PSYNC", b"-NOMASTERLINK Can't SYNC\r\n", True), "kept"),
    ("is loading for ever", answers(b"PSYNC", b"-LOADING loading\r\n", True), "kept"),
    ("continues what never began", answers(b"PSYNC", b"+CONTINUE " + ID + b"\r\n"), "either"),
    ("continues with a short id", answers(b"PSYNC", b"+CONTINUE abc\r\n"), "either"),
    ("FULLRESYNC alone", answers(b"PSYNC", b"+FULLRESYNC\r\n"), "kept"),
    ("a short id", answers(b"PSYNC", b"+FULLRESYNC 123 0\r\n", True), "kept"),
    ("an offset of letters", answers(b"PSYNC", b"+FULLRESYNC " + ID + b" abc\r\n", True), "kept"),
    ("a negative offset", answers(b"PSYNC", b"+FULLRESYNC " + ID + b" -77\r\n", True), "kept"),
    ("an offset beyond 64 bits", answers(b"PSYNC", b"+FULLRESYNC " + ID + b" 99999999999999999999\r\n", True), "kept"),
    ("the largest offset", answers(b"PSYNC", b"+FULLRESYNC " + ID + b" 9223372036854775807\r\n" + sized(GOOD) + encode(["PING"])), "either"),
    ("nothing after FULLRESYNC", answers(b"PSYNC", FULL), "kept"),
    ("keep-alives for ever", keeps_alive_for_ever, "kept"),
    ("no length", answers(b"PSYNC", FULL + b"hello\r\n"), "kept"),
    ("a length of letters", answers(b"PSYNC", FULL + b"$abc\r\n", True), "kept"),
    ("a negative length", answers(b"PSYNC", FULL + b"$-1\r\n", True), "kept"),
    ("a length beyond 64 bits", answers(b"PSYNC", FULL + b"$99999999999999999999\r\nREDIS0009", True), "kept"),
    ("the largest length", answers(b"PSYNC", FULL + HUGE % (2**63 - 1) + GOOD), "either"),
    ("a length line without end", floods(b"PSYNC", FULL + b"$", b"1" * 65536), "kept"),
    ("a short mark", answers(b"PSYNC", FULL + b"$EOF:abc\r\n" + GOOD), "either"),
    ("closes in the transfer", answers(b"PSYNC", FULL + sized(GOOD[:20], 5000), True), "kept by swapdb"),
    ("silent in the transfer", answers(b"PSYNC", FULL + sized(GOOD[:20], 5000)), "kept by swapdb"),
    ("drips", drips, "kept by swapdb"),
    ("too short a length", answers(b"PSYNC", FULL + sized(GOOD, len(GOOD) - 12)), "either"),
    ("too long a length", answers(b"PSYNC", FULL + sized(GOOD, len(GOOD) + 12)), "either"),
    ("no mark", answers(b"PSYNC", FULL + marked(GOOD, b"")), "either"),
    ("half a mark", answers(b"PSYNC", FULL + marked(GOOD, MARK[:20]), True), "either"),
    ("another mark", floods(b"PSYNC", FULL + marked(GOOD, b"n" * 40), b"n" * 65536), "either"),
    ("an empty snapshot", answers(b"PSYNC", FULL + b"$0\r\n"), "kept by swapdb"),
    ("a bad magic", answers(b"PSYNC", FULL + sized(snapshot(magic=b"RODIS0009"))), "kept by swapdb"),
    ("a version of the future", answers(b"PSYNC", FULL + sized(snapshot(magic=b"REDIS9999"))), "kept by swapdb"),
    ("an unknown type", answers(b"PSYNC", FULL + sized(snapshot(b"\xfe\x00\xc8\x03new\x05value"))), "kept by swapdb"),
    ("a string of 2^40 bytes", answers(b"PSYNC", FULL + sized(snapshot(b"\xfe\x00\x00\x03new\x81" + (2**40).to_bytes(8, "big") + b"x"))), "kept by swapdb"),
    ("a string of 2^40 bytes, by a mark", answers(b"PSYNC", FULL + marked(snapshot(b"\xfe\x00\x00\x03new\x81" + (2**40).to_bytes(8, "big") + b"x"))), "kept by swapdb"),
    ("a list of 2^60 elements", answers(b"PSYNC", FULL + sized(snapshot(b"\xfe\x00\x01\x03new\x81" + (2**60).to_bytes(8, "big") + b"\x01x"))), "kept by swapdb"),
    ("a listpack of nonsense", answers(b"PSYNC", FULL + sized(snapshot(b"\xfe\x00\x10\x03new\x08abcdefgh"))), "kept by swapdb"),
    ("a wrong checksum", answers(b"PSYNC", FULL + sized(snapshot(end=b"\xff" + b"checksum"))), "kept by swapdb"),
    ("a database of 2^31", answers(b"PSYNC", FULL + sized(snapshot(b"\xfe\x80\x7f\xff\xff\xff\x00\x03new\x05value"))), "kept by swapdb"),
    ("a snapshot cut short", answers(b"PSYNC", FULL + sized(GOOD[:-12])), "kept by swapdb"),
    ("bytes in the stream", after_sync(bytes(range(1, 256)) * 10), "either"),
    ("a negative array in the stream", after_sync(b"*-5\r\n" + encode(["SET", "x", "1"])), "either"),
    ("an array of 2^31 in the stream", after_sync(b"*2147483647\r\n$3\r\nSET\r\n"), "either"),
    ("a bulk beyond the limit in the stream", after_sync(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n" + HUGE % (2**40)), "either"),
    ("a negative bulk in the stream", after_sync(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-7\r\n"), "either"),
    ("a line without end in the stream", floods(b"PSYNC", FULL + sized(GOOD), b"x" * 65536), "either"),
    ("an unknown command in the stream", after_sync(encode(["NOSUCH", "a", "b"])), "either"),
    ("a wrong number of words in the stream", after_sync(encode(["SET", "a"])), "either"),
    ("a wrong type in the stream", after_sync(encode(["LPUSH", "new", "b"])), "either"),
    ("half a transaction", after_sync(encode(["MULTI"]) + encode(["SET", "half", "1"])), "either"),
    ("EXEC without MULTI", after_sync(encode(["EXEC"])), "either"),
    ("a database that is not there", after_sync(encode(["SELECT", "100000"]) + encode(["SET", "x", "1"])), "either"),
    ("half a command", after_sync(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$100\r\nabc"), "either"),
    ("subscribes its replica", after_sync(encode(["SUBSCRIBE", "channel"])), "either"),
    ("has its replica watch and wait", after_sync(encode(["WATCH", "a"]) + encode(["BLPOP", "none", "0"]) + encode(["SET", "x", "1"])), "either"),
    ("asks its replica for PSYNC", after_sync(encode(["PSYNC", "?", "-1"])), "either"),
    ("asks for ACKs and reads none", asks_for_acks, "either"),
]


class LyingPrimary:
    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.lie = None
        self.connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection, self.lie), daemon=True).start()

    def serve(self, connection, lie):
        connection.settimeout(30)
        try:
            lie(Peer(connection))
        except (OSError, Gone, ValueError):
            pass
        connection.close()

    def close(self):
        self.listener.close()


class Hostile:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.mkdtemp(prefix="hostile-")
        options = ["--enable-debug-command", "yes", "--save", "", "--repl-timeout", str(REPLICATION_TIMEOUT_S), "--repl-diskless-sync-delay", "0",
                   "--client-output-buffer-limit", "replica", "16777216", "0", "0", "--client-query-buffer-limit", "16777216"]
        self.node = Node("server", arguments.commands[0], arguments.first_port, os.path.join(self.folder, "server"), options)
        self.liar = LyingPrimary(arguments.first_port + 1)
        self.failures = 0

    def rss(self):
        with open(f"/proc/{self.node.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def wait_for(self, what, seconds):
        """Whether `what` comes true in time; the server must answer all the while."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.answer_within()
            if what():
                return True
            time.sleep(0.05)
        return False

    def answer_within(self):
        asked = time.monotonic()
        reply = self.node.client.try_ask("PING")
        self.slowest = max(self.slowest, time.monotonic() - asked)
        return reply

    def log_size(self):
        return os.path.getsize(self.node.log_path)

    def revive(self):
        if self.node.process.poll() is not None or self.node.client is None:
            self.node.stop()
            for name in os.listdir(self.node.folder):
                if name.endswith(".rdb"):
                    os.remove(os.path.join(self.node.folder, name))
            self.node.start()

    def case(self, name, steps):
        """Runs what yields complaints, and adds those that hold for every case."""
        complaints = []
        self.slowest = 0.0
        before = self.peak = self.rss()
        watch_ended = threading.Event()
        watcher = threading.Thread(target=self.watch_memory, args=(watch_ended,), daemon=True)
        watcher.start()
        try:
            complaints += steps()
            if self.slowest > ANSWER_S_MAX:
                complaints.append(f"PING took {self.slowest:.1f} s")
        except (Gone, Refused, OSError) as error:
            ended = self.node.process.poll()
            complaints.append(f"died with {ended}" if ended is not None else f"does not answer: {error}")
            self.node.drop_client()
        watch_ended.set()
        watcher.join()
        if self.peak - before > GROWTH_BYTES_MAX:
            complaints.append(f"grew by {(self.peak - before) >> 20} MB")
        complaints += [f"logged {line}" for line in self.node.alarms() if re.search("panicked|ASSERTION|BUG REPORT|crashed", line)]
        self.failures += bool(complaints)
        print(f"{'FAILED' if complaints else 'ok':7} {name}{': ' if complaints else ''}{'; '.join(complaints)[:300]}", flush=True)
        self.revive()

    def watch_memory(self, ended):
        while not ended.wait(0.02):
            try:
                self.peak = max(self.peak, self.rss())
            except OSError:
                return

    # ---- A lying primary ----

    def stand_alone(self):
        """A server that loads what it was sent refuses for so long."""
        ends = time.monotonic() + REPLICATION_TIMEOUT_S + 12
        while True:
            try:
                return self.node.ask("REPLICAOF", "NO", "ONE")
            except Refused:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.01)

    def fresh(self, how_to_load):
        self.stand_alone()
        self.node.set("repl-diskless-load", how_to_load)
        self.node.ask("FLUSHALL")
        for n in range(50):
            self.node.ask("SET", f"old:{n}", n)

    def old_is_there(self):
        return all(value is not None for value in self.node.client.pipe([("GET", f"old:{n}") for n in range(50)]))

    def lied_to(self, lie, expected, how_to_load):
        complaints = []
        self.fresh(how_to_load)
        logged = self.log_size()
        self.liar.lie, self.liar.connections = lie, 0
        self.node.ask("REPLICAOF", "127.0.0.1", self.arguments.first_port + 1)
        accepted = expected == "either"
        tried_again = self.wait_for(lambda: self.liar.connections >= 2, 2 if accepted else REPLICATION_TIMEOUT_S + 12)
        if not tried_again and not accepted:
            complaints.append("does not try again")
        if expected == "kept" or expected == "kept by swapdb" and how_to_load == "swapdb":
            if not self.old_is_there():
                complaints.append("what it held is gone")
        if self.log_size() == logged:
            complaints.append("nothing in its log")
        return complaints + self.sync_honestly()

    def sync_honestly(self):
        self.stand_alone()
        self.liar.lie = after_sync(encode(["SELECT", "0"]) + encode(["SET", "honest", "1"]))
        self.node.ask("REPLICAOF", "127.0.0.1", self.arguments.first_port + 1)
        come = self.wait_for(lambda: self.node.client.try_ask("GET", "honest") == b"1" and self.node.client.try_ask("GET", "new") == b"value", 10)
        return [] if come else ["does not sync with an honest primary afterwards"]

    def closes_at_each_byte(self, whole, where):
        """The conversation ends after so many bytes of what the primary says."""
        complaints = []
        for length in where:
            self.fresh("disabled")
            self.liar.lie, self.liar.connections = says_so_many_bytes(whole, length), 0
            self.node.ask("REPLICAOF", "127.0.0.1", self.arguments.first_port + 1)
            if not self.wait_for(lambda: self.liar.connections >= 1, 5):
                complaints.append(f"does not connect for {length}")
            time.sleep(0.03)
            if not self.old_is_there():
                complaints.append(f"what it held is gone after {length} bytes")
        return complaints + self.sync_honestly()

    # ---- Lying replicas ----

    def replica(self, *commands, capa=True):
        """A connection that has said what a replica says first, and then `commands`, whose replies are not read."""
        client = Client(self.node.port, reply_s_max=10)
        client.pipe([("PING",), ("REPLCONF", "listening-port", 1), *([("REPLCONF", "capa", "eof", "capa", "psync2")] if capa else [])])
        client.send(b"".join(encode(command) for command in commands))
        return client

    def serve_honestly(self):
        """A replica that plays by the rules gets a snapshot and then the stream."""
        client = self.replica(("PSYNC", "?", -1), capa=False)
        client.socket.settimeout(10)
        try:
            return self.follow_honestly(client)
        except (OSError, Gone) as error:
            return [f"an honest replica: {error}"]
        finally:
            client.close()

    def follow_honestly(self, client):
        line = b""
        while not line.startswith(b"+FULLRESYNC"):
            line = client.reader.readline()
            if not line:
                return ["no FULLRESYNC for an honest replica"]
        length = b"\n"
        while length == b"\n":
            length = client.reader.readline()
        if not length.startswith(b"$"):
            return [f"no snapshot for an honest replica, but {length!r}"]
        snapshot_read = client.reader.read(int(length[1:]))
        if len(snapshot_read) < int(length[1:]) or not snapshot_read.startswith((b"REDIS", b"VALKEY")):
            return ["no whole snapshot for an honest replica"]
        client.send(encode(["REPLCONF", "ACK", int(line.split()[2])]))
        self.node.ask("SET", "for the honest", "1")
        received = b""
        while b"for the honest" not in received:
            more = client.reader.read1(65536)
            if not more:
                return ["no stream for an honest replica"]
            received += more
        return []

    def no_replica_stays(self):
        gone = self.wait_for(lambda: self.node.info("replication")["connected_slaves"] == "0"
                             and self.node.info("persistence")["rdb_bgsave_in_progress"] == "0", REPLICATION_TIMEOUT_S + 12)
        return [] if gone else ["a replica or its snapshot stays"]

    def write_much(self, megabytes):
        value = b"v" * 65536
        for n in range(megabytes * 2):
            self.node.client.pipe([("SET", f"much:{n % 50}", value)] * 8)

    def never_reads(self, *commands, wait_s=1.0):
        def steps():
            client = self.replica(*commands)
            time.sleep(wait_s)
            client.send(encode(["REPLCONF", "ACK", 0]))
            self.write_much(128)
            complaints = self.no_replica_stays()
            client.close()
            return complaints + self.serve_honestly()
        return steps

    def says(self, *commands):
        """What the server makes of it is its own affair: it has to live, and to serve others."""
        def steps():
            client = self.replica(("PSYNC", "?", -1), *commands)
            time.sleep(0.3)
            try:
                client.send(b"".join(encode(command) for command in commands))
                self.node.client.pipe([("SET", "x", 1), ("WAIT", 1, 100)])
            except Gone:
                pass
            client.close()
            return self.no_replica_stays() + self.serve_honestly()
        return steps

    def says_before(self, *commands):
        def steps():
            for command in commands:
                client = self.replica(command)
                client.socket.settimeout(0.3)
                try:
                    client.reader.readline()
                except OSError:
                    pass
                client.close()
                self.answer_within()
            return self.no_replica_stays() + self.serve_honestly()
        return steps

    def comes_and_goes(self):
        for n in range(150):
            client = self.replica(("PSYNC", "?", -1))
            time.sleep((n % 5) * 0.01)
            client.close()
        return self.no_replica_stays() + self.serve_honestly()

    def crowd(self):
        clients = [self.replica(("PSYNC", "?", -1)) for _ in range(60)]
        self.write_much(32)
        complaints = self.no_replica_stays()
        for client in clients:
            client.close()
        return complaints + self.serve_honestly()

    def replica_lies(self):
        replication_id = self.node.info("replication").get("master_replid", "?" * 40)
        long = "x" * 100_000
        odd = [("PSYNC", replication_id, offset) for offset in (-1, 0, 1, 2**62, 2**63 - 1, -2**63, "abc", "")]
        odd += [("PSYNC",), ("PSYNC", "?"), ("PSYNC", long, 1), ("PSYNC", "?", -1, "FAILOVER"), ("PSYNC", replication_id, 1, "FAILOVER"),
                ("PSYNC", "?", -1, "a", "b"), ("SYNC", "x")]
        words = [("REPLCONF",), ("REPLCONF", "ACK"), ("REPLCONF", "nonsense", long), ("REPLCONF", "listening-port", 2**40), ("REPLCONF", "listening-port", "abc"),
                 ("REPLCONF", "ip-address", long), ("REPLCONF", *["capa", "x"] * 10_000), ("REPLCONF", "version", long), ("REPLCONF", "version", "-1.-1.-1"),
                 ("REPLCONF", "rdb-filter-only", "nonsense \"x"), ("REPLCONF", "rdb-only", "7"), ("REPLCONF", "rdb-channel", "1"), ("REPLCONF", "set-rdb-client-id", 2**63 - 1),
                 ("REPLCONF", "GETACK", "*"), ("REPLCONF", "ACK", 5), ("REPLCONF", "capa"), ("REPLCONF", "capa", "\0\xff")]
        acks = [("REPLCONF", "ACK", ack) for ack in (2**63 - 1, -1, -2**63, "abc", "", 2**70)] + [("REPLCONF", "ACK", 2**62, "FACK", 2**62)]
        return [
            ("a replica never reads: by a mark", self.never_reads(("PSYNC", "?", -1))),
            ("a replica never reads: the stream", self.never_reads(("PSYNC", "?", -1), ("REPLCONF", "ACK", 0), wait_s=2)),
            ("a replica acknowledges the future", self.says(*acks)),
            ("a replica has strange words to say", self.says(*words)),
            ("a replica writes", self.says(("SET", "from the replica", 1), ("MULTI",), ("FLUSHALL",), ("SUBSCRIBE", "c"), ("MONITOR",), ("SYNC",), ("PSYNC", "?", -1))),
            ("a replica says what is no command", self.says(("REPLCONF", "ACK", "1"), (b"\0" * 3000,))),
            ("strange words before PSYNC", self.says_before(*words)),
            ("strange PSYNCs", self.says_before(*odd)),
            ("PSYNC where it does not belong", self.says_before(("EVAL", "return redis.call('PSYNC', '?', '-1')", 0), ("EVAL", "return redis.call('REPLCONF', 'ACK', '1')", 0))),
            ("a snapshot only, never read", self.never_reads(("REPLCONF", "rdb-only", 1), ("SYNC",))),
            ("a second channel without a first", self.never_reads(("REPLCONF", "capa", "eof", "rdb-only", 1, "rdb-channel", 1), ("SYNC",))),
            ("replicas come and go", self.comes_and_goes),
            ("a crowd of silent replicas", self.crowd),
        ]

    # ---- All of them ----

    def run(self):
        self.node.start()
        for name, lie, expected in PRIMARY_LIES:
            for how_to_load in ("disabled", "swapdb"):
                # What is over before a snapshot comes does not depend on how it would be loaded.
                if self.arguments.only in name and (how_to_load == "disabled" or expected != "kept"):
                    self.case(f"{name} ({how_to_load})", lambda: self.lied_to(lie, expected, how_to_load))
        whole = [b"+PONG\r\n", *[b"+OK\r\n"] * 4, FULL + b"$%d\r\n" % len(GOOD)]
        total = sum(map(len, whole))
        if self.arguments.only in "closes at each byte":
            self.case("closes at each byte", lambda: self.closes_at_each_byte(whole, range(0, total)))
        self.stand_alone()
        for name, steps in self.replica_lies():
            if self.arguments.only in name:
                self.case(name, steps)

    def end(self):
        self.node.stop()
        self.liar.close()


def says_so_many_bytes(whole, length):
    def lie(peer):
        left = length
        replies = {b"PING": whole[0], b"PSYNC": whole[-1]}
        while left > 0:
            reply = replies.get(peer.command()[0].upper(), whole[1])
            peer.socket.sendall(reply[:left])
            left -= len(reply)
    return lie


def run_hostile(arguments):
    return run_checks(Hostile(arguments), arguments.keep)
