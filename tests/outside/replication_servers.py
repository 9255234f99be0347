"""Servers, links between them that can be cut, and what a server holds; for replication.py and its modes."""
import collections
import dataclasses
import os
import random
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

REPLY_S_MAX = 30
START_S_MAX = 60
# Of what a server was sent, so much is kept for whoever looks for the cause of a difference.
PASSED_BYTES_MAX = 8 << 20
# What a server writes into its log when it has met something that must not happen.
ALARMS = re.compile(r"CRITICAL|ASSERTION FAILED|BUG REPORT|panicked|crashed by signal|sending an error to its")


class Refused(Exception):
    """An error reply."""


class Gone(Exception):
    """The connection ended, or no reply came in time."""


def encode(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Client:
    def __init__(self, port, reply_s_max=REPLY_S_MAX):
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=reply_s_max)
        except OSError as error:
            raise Gone(str(error)) from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def reply(self):
        """A reply; errors come back as `Refused`, and are not raised."""
        try:
            line = self.reader.readline()
            if not line.endswith(b"\r\n"):
                raise Gone("connection closed")
            kind, rest = line[:1], line[1:-2]
            if kind == b"$":
                if rest == b"-1":
                    return None
                data = self.reader.read(int(rest) + 2)
                if len(data) != int(rest) + 2:
                    raise Gone("connection closed in a reply")
                return data[:-2]
        except OSError as error:
            raise Gone(str(error)) from error
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            return Refused(rest.decode(errors="replace"))
        return int(rest) if kind == b":" else rest

    def pipe(self, commands):
        self.send(b"".join(encode(command) for command in commands))
        return [self.reply() for _ in commands]

    def try_ask(self, *words):
        return self.pipe([words])[0]

    def ask(self, *words):
        reply = self.try_ask(*words)
        if isinstance(reply, Refused):
            raise reply
        return reply

    def info(self, section="everything"):
        text = self.ask("INFO", section).decode(errors="replace")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def close(self):
        try:
            self.reader.close()
            self.socket.close()
        except OSError:
            pass


class Node:
    """A server with a folder of its own, which outlives its processes."""

    def __init__(self, name, command, port, folder, options=(), config_file=False):
        self.name, self.port, self.folder, self.options = name, port, folder, list(options)
        os.makedirs(folder, exist_ok=True)
        self.words = shlex.split(command.format(port=port, dir=folder))
        self.program = self.words[0]
        self.config_file = os.path.join(folder, "server.conf") if config_file else None
        self.process = self.client = None
        self.parent = None
        self.counted = {"sync_full": 0, "sync_partial_ok": 0, "sync_partial_err": 0}
        self.seen = dict(self.counted)
        self.alarms_read = 0

    def start(self, replica_of=None):
        options = [*self.options, "--dir", self.folder]
        if replica_of:
            options += ["--replicaof", "127.0.0.1", str(replica_of)]
        words = [*self.words, *options]
        if self.config_file:
            first_start = not os.path.exists(self.config_file)
            open(self.config_file, "a").close()
            words = [self.program, self.config_file, *(words[1:] if first_start else [])]
        self.wait_for_port()
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + START_S_MAX
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}: see {self.log_path}")
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not answer: see {self.log_path}")
            try:
                self.client = Client(self.port)
                if self.client.try_ask("PING") == b"PONG" or replica_of and b"loading:0" in self.client.ask("INFO", "persistence"):
                    break
            except Gone:
                pass
            time.sleep(0.05)
        self.seen = dict.fromkeys(self.seen, 0)

    def wait_for_port(self):
        """The child of a server that was killed holds it until it has run for the first time."""
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            try:
                socket.create_server(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.01)

    @property
    def log_path(self):
        return os.path.join(self.folder, "log")

    def ask(self, *words):
        """Asks by the connection kept for it, and by a new one if that has ended."""
        for attempt in (1, 2):
            try:
                if self.client is None:
                    self.client = Client(self.port)
                return self.client.ask(*words)
            except Gone:
                self.drop_client()
                if attempt == 2:
                    raise

    def drop_client(self):
        if self.client:
            self.client.close()
        self.client = None

    def info(self, section="everything"):
        text = self.ask("INFO", section).decode(errors="replace")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def set(self, option, value):
        """Whether the server has such an option, and took the value."""
        try:
            self.ask("CONFIG", "SET", option, value)
            return True
        except Refused:
            return False

    def count_syncs(self):
        """Adds what the process counted since the last look: its counters begin anew with each process."""
        info = self.info("stats")
        for field in self.counted:
            now = int(info.get(field, 0))
            self.counted[field] += max(0, now - self.seen[field])
            self.seen[field] = now

    def alarms(self):
        """Lines of the log, since the last look, that must not be there."""
        with open(self.log_path, "rb") as log:
            log.seek(self.alarms_read)
            text = log.read()
        self.alarms_read += len(text)
        return [line for line in text.decode(errors="replace").splitlines() if ALARMS.search(line)]

    def has_alarms(self):
        """Whether the next look finds such lines, which leaves them for it."""
        before = self.alarms_read
        found = self.alarms()
        if found:
            self.alarms_read = before
        return bool(found)

    def stop(self, how=signal.SIGKILL):
        self.drop_client()
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def family(self):
        """Name and version: what a server can follow, and whose digests are alike, depends on both."""
        info = self.info("server")
        for name in ("warmline", "valkey", "redis"):
            version = info.get(name + "_version")
            if version:
                return name, tuple(int(n) for n in re.findall(r"\d+", version)[:2])
        raise SystemExit(f"{self.name} does not say what it is")


class Link:
    """A relay in front of a server, that cuts connections in the middle of what they carry."""

    def __init__(self, ports, seed):
        """Listens on each of `ports`, so that a server can be told to follow another address."""
        self.random = random.Random(seed)
        self.target = None
        self.lock = threading.Lock()
        self.pairs = set()
        self.cut_after = None
        self.byte_delay_s = 0.0
        self.cuts = 0
        self.passed = collections.deque()
        self.passed_bytes = self.carried_bytes = 0
        self.ports = ports
        self.listeners = [socket.create_server(("127.0.0.1", port), backlog=16) for port in ports]
        self.closed = False
        for listener in self.listeners:
            threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        while not self.closed:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except (OSError, TypeError):
                near.close()
                continue
            pair = (near, far)
            for end in pair:
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self.pump, args=(source, sink, pair), daemon=True).start()

    def pump(self, source, sink, pair):
        downwards = source is pair[1]
        try:
            while data := source.recv(65536):
                if self.byte_delay_s:
                    time.sleep(min(1.0, self.byte_delay_s * len(data)))
                if downwards and self.cut_after is not None:
                    with self.lock:
                        left = self.cut_after
                        self.cut_after = None if left is None or left <= len(data) else left - len(data)
                    if left is not None and left <= len(data):
                        self.remember(data[:left])
                        sink.sendall(data[:left])
                        self.cuts += 1
                        break
                if downwards:
                    self.remember(data)
                sink.sendall(data)
        except OSError:
            pass
        self.end(pair)

    def remember(self, data):
        with self.lock:
            self.passed.append(data)
            self.passed_bytes += len(data)
            self.carried_bytes += len(data)
            while self.passed_bytes > PASSED_BYTES_MAX:
                self.passed_bytes -= len(self.passed.popleft())

    def save_passed(self, path):
        """The last of what the server was sent."""
        with self.lock, open(path, "wb") as file:
            file.writelines(self.passed)

    def end(self, pair):
        with self.lock:
            if pair not in self.pairs:
                return
            self.pairs.discard(pair)
            abort = self.random.random() < 0.3
        for end in pair:
            try:
                if abort:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    # Another thread may be reading, and would keep it open.
                    end.shutdown(socket.SHUT_RD)
                else:
                    end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def cut(self):
        """Cuts what is connected now."""
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            self.cuts += 1
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.closed = True
        for listener in self.listeners:
            listener.close()
        self.cut()


def remove_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)


# ---- What a server holds ----

def pending_of(entries, width):
    return sorted(tuple(entry[:width]) for entry in entries)


@dataclasses.dataclass
class Exactness:
    """What servers can be asked, and what they are alike in."""
    field_expiry: bool
    # The reference does not pass on that XAUTOCLAIM made a consumer for which there was nothing.
    idle_consumers: bool
    # Versions of Redis differ in which places in a stream they can count.
    entries_read: bool


def stream_of(info, exact):
    """What replication keeps of XINFO STREAM FULL: not when consumers were last seen."""
    fields = dict(zip(info[::2], info[1::2]))
    groups = []
    for group in fields.get(b"groups") or []:
        of_group = dict(zip(group[::2], group[1::2]))
        consumers = [dict(zip(c[::2], c[1::2])) for c in of_group[b"consumers"]]
        groups.append((
            of_group[b"name"], of_group[b"last-delivered-id"], of_group.get(b"entries-read") if exact.entries_read else None,
            pending_of(of_group[b"pending"], 4),
            sorted((c[b"name"], pending_of(c[b"pending"], 3)) for c in consumers if c[b"pending"] or exact.idle_consumers)))
    ids = [fields.get(name) for name in (b"last-generated-id", b"max-deleted-entry-id", b"entries-added", b"length")]
    return [ids, sorted(groups)]


class Contents:
    """Every key of every database of a server, as far as all servers can tell: {(db, key): value}."""

    def __init__(self, client, databases, exact):
        self.client, self.exact = client, exact
        self.keys = {}
        for db in range(databases):
            client.ask("SELECT", db)
            names = set()
            cursor = b"0"
            while True:
                cursor, some = client.ask("SCAN", cursor, "COUNT", 1000)
                names.update(some)
                if cursor == b"0":
                    break
            names = sorted(names)
            for at in range(0, len(names), 200):
                self.read(db, names[at:at + 200])
        self.functions = sorted(map(repr, client.ask("FUNCTION", "LIST", "WITHCODE")))

    def read(self, db, names):
        questions = []
        types = self.client.pipe([("TYPE", name) for name in names])
        for name, kind in zip(names, types):
            questions += [("PEXPIRETIME", name), *self.questions(name, kind)]
        replies = iter(self.client.pipe(questions))
        hashes = []
        for name, kind in zip(names, types):
            expires = next(replies)
            value = [next(replies) for _ in self.questions(name, kind)]
            if expires == -2 or kind == b"none":
                continue
            if kind in (b"set", b"hash") and isinstance(value[0], list):
                width = 1 if kind == b"set" else 2
                flat = value[0]
                value[0] = sorted(tuple(flat[i:i + width]) for i in range(0, len(flat), width))
            if kind == b"zset" and isinstance(value[0], list):
                value[0][1::2] = map(float, value[0][1::2])
            if kind == b"stream" and isinstance(value[1], list):
                value[1] = stream_of(value[1], self.exact)
            if kind == b"hash" and self.exact.field_expiry and value[0]:
                hashes.append((name, [pair[0] for pair in value[0]]))
            self.keys[db, name] = [kind, expires, value]
        times = self.client.pipe([("HPEXPIRETIME", name, "FIELDS", len(fields), *fields) for name, fields in hashes])
        for (name, fields), of_fields in zip(hashes, times):
            if isinstance(of_fields, list):
                self.keys[db, name].append([pair for pair in zip(fields, of_fields) if pair[1] != -1])

    @staticmethod
    def questions(name, kind):
        return {
            b"string": [("GET", name)], b"list": [("LRANGE", name, 0, -1)], b"set": [("SMEMBERS", name)],
            b"zset": [("ZRANGE", name, 0, -1, "WITHSCORES")], b"hash": [("HGETALL", name)],
            b"stream": [("XRANGE", name, "-", "+"), ("XINFO", "STREAM", name, "FULL", "COUNT", 0)],
        }.get(kind, [])

    def differences(self, other):
        """Keys that are not the same: [((db, key), here, there)]."""
        keys = sorted(self.keys.keys() | other.keys.keys())
        found = [(key, self.keys.get(key), other.keys.get(key)) for key in keys if self.keys.get(key) != other.keys.get(key)]
        if self.functions != other.functions:
            found.append(((0, b"<functions>"), self.functions, other.functions))
        return found


def first_difference(here, there, path=""):
    """The innermost place at which two values part."""
    if isinstance(here, (list, tuple)) and isinstance(there, (list, tuple)):
        for at, (one, other) in enumerate(zip(here, there)):
            if one != other:
                return first_difference(one, other, f"{path}[{at}]")
        longer = here if len(here) > len(there) else there
        return f"{path}: {len(here)} and {len(there)} elements, the first more is {shown(longer[min(len(here), len(there))])}"
    return f"{path}: {shown(here)} and {shown(there)}"


def shown(value):
    text = repr(value)
    return text if len(text) < 200 else f"{text[:150]}... ({len(text)})"


def run_checks(checks, keeps_files):
    """Runs all checks; their files stay if one failed. The exit code."""
    finished = False
    try:
        checks.run()
        finished = True
    finally:
        checks.end()
        if checks.failures or keeps_files or not finished:
            print(f"{checks.failures} failed; files and logs: {checks.folder}")
        else:
            remove_folder(checks.folder)
    return 1 if checks.failures else 0
