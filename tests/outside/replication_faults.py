"""What the world does to a sync: links cut at any byte, servers killed at any moment, a wrong password, a full disk, a replica
that cannot keep up.

usage: replication.py --faults [options] COMMAND [COMMAND]      COMMAND starts a server, and contains {port}

The first is the primary; the last is the replica, and the server under test. After each fault the replica has to hold all that it
held before or all that the primary holds, never a part, to have said why in its log, and to follow once the fault is over.

--count 40           bytes at which links are cut, and moments at which servers are killed
--only TEXT          only cases whose name contains TEXT
--first-port 14000   four ports

The full disk needs the right to mount a tmpfs; without it that case is left out, and a line says so.
"""
import os
import random
import signal
import subprocess
import tempfile
import time

from replication_servers import Client, Gone, Link, Node, Refused, run_checks

OLD_KEYS, NEW_KEYS = 200, 20_000
SETTLE_S_MAX = 30
SMALL_DISK_BYTES, LARGE_DISK_BYTES = 4 << 20, 64 << 20
SLOW_BYTES_PER_S = 2_000_000
WRITTEN_BYTES = 192 << 20
REPLICA_LIMIT_BYTES = 16 << 20
# Beside the limit: the backlog, what the socket holds, and what the allocator has not given back.
GROWTH_BYTES_MAX = REPLICA_LIMIT_BYTES + (48 << 20)
OPTIONS = ["--enable-debug-command", "yes", "--enable-protected-configs", "yes", "--save", "", "--repl-diskless-sync-delay", "0", "--repl-timeout", "5",
           "--client-output-buffer-limit", "replica", str(REPLICA_LIMIT_BYTES), "0", "0"]


class Fault(Exception):
    """What must not be, or what must be and does not come."""


class Faults:
    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(f"{arguments.seed} faults")
        self.folder = tempfile.mkdtemp(prefix="faults-")
        first, last = arguments.commands[0], arguments.commands[-1]
        port = arguments.first_port
        self.primary = Node("primary", first, port, os.path.join(self.folder, "primary"), OPTIONS)
        self.replica = Node("replica", last, port + 1, os.path.join(self.folder, "replica"), OPTIONS)
        self.link = Link([port + 2], arguments.seed)
        self.failures = 0

    # ---- Both ends ----

    def fill(self, node, prefix, count, length=60):
        client = Client(node.port)
        for at in range(0, count, 500):
            values = (self.random.randbytes(length) for _ in range(500))
            client.pipe([("SET", f"{prefix}:{at + n}", value) for n, value in enumerate(values) if at + n < count])
        client.close()

    def stand_apart(self):
        """The replica holds old data, the primary new data, and nothing connects them."""
        self.link.cut_after, self.link.byte_delay_s = None, 0.0
        self.until("REPLICAOF NO ONE is taken", lambda: self.replica.ask("REPLICAOF", "NO", "ONE") == b"OK")
        self.link.target = self.primary.port
        self.replica.ask("FLUSHALL")
        self.fill(self.replica, "old", OLD_KEYS)
        self.replica.ask("SAVE")
        self.old, self.new = self.replica.ask("DEBUG", "DIGEST"), self.primary.ask("DEBUG", "DIGEST")

    def follow(self):
        self.replica.ask("REPLICAOF", "127.0.0.1", self.link.ports[0])

    def until(self, what, check, seconds=SETTLE_S_MAX):
        deadline = time.monotonic() + seconds
        while True:
            try:
                if check():
                    return
            except (Gone, Refused):
                pass
            if time.monotonic() > deadline:
                raise Fault(f"not within {seconds} s: {what}")
            time.sleep(0.02)

    def is_loaded(self):
        return self.replica.info("persistence")["loading"] == "0"

    def has_followed(self):
        there, here = self.primary.info("replication"), self.replica.info("replication")
        return here["master_link_status"] == "up" and here["slave_repl_offset"] == there["master_repl_offset"]

    def expect_all_or_nothing(self):
        self.until("the replica answers", self.is_loaded)
        digest = self.replica.ask("DEBUG", "DIGEST")
        if digest not in (self.old, self.new):
            raise Fault(f"the replica holds {self.replica.ask('DBSIZE')} keys, and neither what it did nor what the primary does")
        return digest == self.old

    def expect_to_follow(self):
        self.link.cut_after, self.link.byte_delay_s = None, 0.0
        self.link.target = self.primary.port
        self.until("the replica follows", self.has_followed)
        if self.replica.ask("DEBUG", "DIGEST") != self.primary.ask("DEBUG", "DIGEST"):
            raise Fault("both ends do not hold the same")

    def logged(self, since):
        with open(self.replica.log_path, errors="replace") as log:
            log.seek(since)
            return log.read()

    def log_size(self):
        return os.path.getsize(self.replica.log_path)

    def slow_down(self, microseconds):
        self.primary.set("rdb-key-save-delay", microseconds)
        self.replica.set("key-load-delay", microseconds)

    # ---- Cases ----

    def cut_at_many_bytes(self, diskless, how_to_load="disabled"):
        """The last bytes are those of the stream behind the snapshot."""
        self.primary.set("repl-diskless-sync", diskless)
        self.replica.set("repl-diskless-load", how_to_load)
        self.stand_apart()
        before = self.link.carried_bytes
        self.follow()
        self.expect_to_follow()
        total = self.link.carried_bytes - before
        kept = 0
        places = [0, 1, 2, 50, 100, 150, 200, total - 100, total - 50, total - 40, total - 1]
        places += [self.random.randrange(total) for _ in range(self.arguments.count)]
        for place in places:
            self.stand_apart()
            cuts, since = self.link.cuts, self.log_size()
            self.link.cut_after = place
            self.follow()
            self.until(f"the link is cut after {place} bytes", lambda: self.push() or self.link.cuts > cuts)
            self.link.target = None
            is_old = self.expect_all_or_nothing()
            kept += is_old
            if not is_old and place < total // 2:
                raise Fault(f"what the replica held is gone after {place} of {total} bytes")
            if "onnect" not in self.logged(since):
                raise Fault("nothing in the log")
            self.expect_to_follow()
        return f"{len(places)} cuts in {total:,} bytes, old data kept in {kept}"

    def push(self):
        """Something in the stream that changes nothing."""
        self.primary.ask("PUBLISH", "channel", "x" * 50)

    def kill_at_many_moments(self, victim):
        """Whatever was under way, what comes up from the file is whole."""
        kept = 0
        self.primary.set("repl-diskless-sync", "no")
        self.primary.ask("SAVE")
        for _ in range(self.arguments.count):
            self.stand_apart()
            self.slow_down(self.random.choice((0, 5, 20)))
            self.follow()
            time.sleep(self.random.uniform(0, 0.8))
            self.link.target = None
            victim.stop(signal.SIGKILL)
            if victim is self.primary:
                self.link.cut()
                kept += self.expect_all_or_nothing()
                victim.start()
            else:
                self.link.cut()
                victim.start()
                kept += self.expect_all_or_nothing()
                self.follow()
            self.slow_down(0)
            self.expect_to_follow()
        return f"{self.arguments.count} times, old data kept in {kept}"

    def wrong_password(self):
        self.stand_apart()
        since = self.log_size()
        self.primary.set("requirepass", "right")
        self.primary.client.ask("AUTH", "right")
        try:
            for password in ("", "wrong"):
                self.replica.set("masterauth", password)
                self.follow()
                self.until("the replica asks again", lambda: self.logged(since).count("Connecting to") >= 3)
                text = self.logged(since)
                if "NOAUTH" not in text and "WRONGPASS" not in text:
                    raise Fault("the log does not tell why")
                if not self.expect_all_or_nothing():
                    raise Fault("what the replica held is gone")
                since = self.log_size()
                self.replica.ask("REPLICAOF", "NO", "ONE")
            self.replica.set("masterauth", "right")
            self.follow()
            self.expect_to_follow()
        finally:
            self.primary.set("requirepass", "")
            self.replica.set("masterauth", "")
        return "none, and a wrong one"

    def full_disk(self):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "none", self.disk()], capture_output=True)
        if mounted.returncode:
            return "LEFT OUT: " + mounted.stderr.decode().strip()
        try:
            self.stand_apart()
            self.replica.ask("CONFIG", "SET", "dir", self.disk())
            self.fill(self.primary, "large", 200, 100_000)
            self.new = self.primary.ask("DEBUG", "DIGEST")
            for diskless in ("no", "yes"):
                self.primary.set("repl-diskless-sync", diskless)
                since = self.log_size()
                self.follow()
                self.until("the replica says that the disk is full, twice", lambda: self.logged(since).count("o space left") >= 2, 60)
                if not self.expect_all_or_nothing():
                    raise Fault("what the replica held is gone")
                self.replica.ask("REPLICAOF", "NO", "ONE")
                self.until("what was received is removed", lambda: not any(name.startswith("temp-") for name in os.listdir(self.disk())))
            self.follow()
            subprocess.run(["mount", "-o", f"remount,size={LARGE_DISK_BYTES}", self.disk()], check=True)
            self.expect_to_follow()
            self.replica.ask("CONFIG", "SET", "dir", self.replica.folder)
        finally:
            subprocess.run(["umount", "-l", self.disk()], check=False)
        return "by length and by mark"

    def disk(self):
        path = os.path.join(self.folder, "disk")
        os.makedirs(path, exist_ok=True)
        return path

    def slower_than_writes(self):
        """The primary's memory is bounded by its limits, and the replica comes back once it is over."""
        self.stand_apart()
        self.follow()
        self.expect_to_follow()
        before = peak = self.rss(self.primary)
        self.link.byte_delay_s = 1 / SLOW_BYTES_PER_S
        client = Client(self.primary.port)
        slowest = written = 0
        while written < WRITTEN_BYTES:
            asked = time.monotonic()
            client.pipe([("SET", f"fast:{self.random.randrange(100)}", "x" * 10_000)] * 100)
            slowest = max(slowest, time.monotonic() - asked)
            written += 1_000_000
            peak = max(peak, self.rss(self.primary))
        client.close()
        if peak - before > GROWTH_BYTES_MAX:
            raise Fault(f"the primary grew by {(peak - before) >> 20} MB")
        dropped = self.primary.info("stats").get("client_output_buffer_limit_disconnections", "0")
        self.link.cut()
        self.expect_to_follow()
        return f"{written >> 20} MB, the primary grew by {(peak - before) >> 20} MB, slowest 1 MB of writes {slowest:.2f} s, dropped {dropped} times"

    def rss(self, node):
        with open(f"/proc/{node.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # ---- All of them ----

    def run(self):
        for node in (self.primary, self.replica):
            node.start()
        self.fill(self.primary, "new", NEW_KEYS)
        for name, steps in (
            ("cut at many bytes, by length", lambda: self.cut_at_many_bytes("no")),
            ("cut at many bytes, by mark", lambda: self.cut_at_many_bytes("yes")),
            ("cut at many bytes, by length into memory", lambda: self.cut_at_many_bytes("no", "swapdb")),
            ("cut at many bytes, by mark into memory", lambda: self.cut_at_many_bytes("yes", "swapdb")),
            ("the replica is killed at many moments", lambda: self.kill_at_many_moments(self.replica)),
            ("the primary is killed at many moments", lambda: self.kill_at_many_moments(self.primary)),
            ("a wrong password", self.wrong_password),
            ("a replica slower than writes", self.slower_than_writes),
            ("a full disk", self.full_disk),
        ):
            if self.arguments.only not in name:
                continue
            try:
                outcome = "ok", steps()
            except (Fault, Gone, Refused, OSError) as fault:
                outcome = "FAILED", str(fault)
                self.failures += 1
                self.revive()
            for node in (self.primary, self.replica):
                if alarms := node.alarms():
                    self.failures += 1
                    outcome = "FAILED", f"{node.name} logged {alarms[0]}"
            print(f"{outcome[0]:7} {name}: {outcome[1]}", flush=True)

    def revive(self):
        for node in (self.primary, self.replica):
            if node.process.poll() is not None:
                node.start()

    def end(self):
        for node in (self.primary, self.replica):
            node.stop()
        self.link.close()


def run_faults(arguments):
    return run_checks(Faults(arguments), arguments.keep)
