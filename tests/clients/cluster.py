"""Clients in cluster mode while slots move and primaries are killed.

usage: cluster.py [options] COMMAND CLI [CLIENT...]

COMMAND starts a server, and contains {port}; CLI is valkey-cli, warmline-cli or another with --cluster reshard. Without CLIENTs all
are run, one after another, each with a cluster of its own of three primaries and three replicas.

--seconds 60         how long each client writes
--kills 2            primaries that are killed meanwhile, and started again
--cli-options ""     more options for each reshard, as --cluster-use-atomic-slot-migration
--port 20000         the first port; the bus uses these plus 10000

A client is a program that takes the port of a node, the seconds, and hash tags of slots that move. It writes numbers that grow to
keys of its own, reads them back, and prints one line of JSON: how many it wrote and read, the errors that its library let through, and the values that were
not the last acknowledged ones (`lost`: older, with the time of the acknowledgement; `wrong`: never written, or newer than any).

All is well if nothing is wrong, what is lost was acknowledged by a primary less than two seconds before its end, and nodes replied
with no other errors than MOVED, ASK, TRYAGAIN and CLUSTERDOWN.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "outside"))
from cluster_servers import Cluster, Unsettled  # noqa: E402
from replication_servers import Client, Gone, Refused  # noqa: E402

EXPECTED = {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"}
LOST_BEFORE_KILL_S_MAX = 2.0
# A move takes the lowest slots of a node, so that those below this are always on the move.
SLOTS_A_MOVE = 30
WORK = os.environ.get("CLIENTS") or tempfile.mkdtemp(prefix="cluster-clients-")


def prepared(folder, marker, *commands):
    """Copies the folder of a language, and installs its packages once."""
    target = os.path.join(WORK, folder)
    shutil.copytree(os.path.join(HERE, folder), target, dirs_exist_ok=True)
    if not os.path.exists(os.path.join(target, marker)):
        for command in commands:
            subprocess.run(command, cwd=target, shell=True, check=True, stdout=subprocess.DEVNULL)
    return target


def python(name):
    folder = prepared("python", "venv", "python3 -m venv venv", "venv/bin/pip install -q -r requirements.txt")
    return [os.path.join(folder, "venv/bin/python"), os.path.join(folder, name + ".py")]


def node_js(name):
    folder = prepared("node", "node_modules", "npm install --no-audit --no-fund --no-package-lock")
    return ["node", os.path.join(folder, name + ".mjs")]


def go_lang(name):
    folder = prepared("go", "no-marker", f"go build -o go-{name} ./{name}")
    return [os.path.join(folder, "go-" + name)]


def java(name):
    folder = prepared("java", "built", "mvn -q -B dependency:copy-dependencies",
                      "javac -cp 'target/dependency/*' -d target/classes *.java", "touch built")
    return ["java", "-cp", f"{folder}/target/dependency/*:{folder}/target/classes", name]


CLIENTS = {
    "redis-py": (python, "cluster_redis_py"),
    "valkey-glide": (python, "cluster_glide"),
    "ioredis": (node_js, "cluster_ioredis"),
    "node-redis": (node_js, "cluster_node_redis"),
    "go-redis": (go_lang, "cluster"),
    "jedis": (java, "ClusterJedis"),
    "lettuce": (java, "ClusterLettuce"),
}


def is_primary(node):
    """Asks by a connection of its own: that of the node is the other thread's."""
    client = Client(node.port)
    try:
        return client.info("replication")["role"] == "master"
    finally:
        client.close()


class Trial:
    """One client and its cluster."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.cluster = Cluster(name + "-", options.command, options.port, node_timeout_ms=2000, options=["--save", ""])
        self.moved = self.failed_moves = self.fixes = 0
        self.errors, self.seen, self.kill_times = {}, {}, []
        self.ended = False
        self.lock = threading.Lock()

    def run(self, words):
        self.cluster.create()
        port = str(self.options.port)
        log = open(os.path.join(self.cluster.folder, "client.log"), "wb")
        client = subprocess.Popen([*words, port, str(self.options.seconds), self.tags()], stdout=subprocess.PIPE, stderr=log)
        mover = threading.Thread(target=self.move_slots)
        mover.start()
        try:
            self.kill_primaries()
            output, _ = client.communicate(timeout=self.options.seconds + 60)
        finally:
            client.kill()
            self.ended = True
            mover.join()
        for node in self.cluster.alive():
            self.count_errors(node)
        return json.loads(output.splitlines()[-1])

    def tags(self):
        """Words of slots that move."""
        client = self.cluster.nodes[0]
        return ",".join(str(n) for n in range(20000) if client.ask("CLUSTER", "KEYSLOT", n) < SLOTS_A_MOVE)

    def kill_primaries(self):
        kills = self.options.kills
        for i in range(kills):
            time.sleep(max(1, self.options.seconds / (kills + 1) - 8))
            victim = self.cluster.owner(5461 * (i % 3) + 2700)
            if victim is None:
                raise Unsettled(f"{self.name}: no owner of a slot")
            self.count_errors(victim)
            self.seen.pop(victim, None)
            self.kill_times.append(time.time())
            victim.stop(signal.SIGKILL)
            time.sleep(8)
            self.cluster.restart(victim)

    def count_errors(self, node):
        """Adds what a node has replied since the last look; a restarted node begins anew."""
        with self.lock:
            stats = {name[len("errorstat_"):]: int(value.split("=")[1])
                     for name, value in node.info("errorstats").items() if name.startswith("errorstat_")}
            # What moving slots is refused, because nodes are down, concerns no client.
            moves = [dict(pair.split("=") for pair in value.split(",")) for name, value in node.info("commandstats").items()
                     if name in ("cmdstat_migrate", "cmdstat_cluster|setslot")]
            stats["ERR"] = stats.get("ERR", 0) - sum(int(move["failed_calls"]) + int(move["rejected_calls"]) for move in moves)
            for word, count in stats.items():
                self.errors[word] = self.errors.get(word, 0) + count - self.seen.get(node, {}).get(word, 0)
            self.seen[node] = stats

    def cli(self, *words):
        log = os.path.join(self.cluster.folder, "cli.log")
        with open(log, "ab") as file:
            file.write(f"\n{time.time():.3f} {words}\n".encode())
            return subprocess.run([self.options.cli, "--cluster", *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                  timeout=60, check=False).returncode

    def move_slots(self):
        turn = 0
        while not self.ended:
            try:
                node = self.cluster.alive()[turn % 2]
                primaries = [n for n in self.cluster.alive() if is_primary(n)]
                address = f"127.0.0.1:{node.port}"
                source, target = (primaries[(turn + i) % len(primaries)] for i in (0, 1))
                turn += 1
                code = self.cli("reshard", address, "--cluster-from", self.cluster.ids[source], "--cluster-to",
                                self.cluster.ids[target], "--cluster-slots", str(SLOTS_A_MOVE), "--cluster-yes",
                                *self.options.cli_options.split())
                if code == 0:
                    self.moved += SLOTS_A_MOVE
                    continue
                self.failed_moves += 1
                self.fixes += self.cli("fix", address) == 0
            except (Gone, Refused, OSError, IndexError, subprocess.TimeoutExpired):
                self.failed_moves += 1
            time.sleep(0.2)

    def verdict(self, report):
        """Problems, as lines."""
        found = [f"wrong: {wrong}" for wrong in report["wrong"][:5]]
        for key, had, acknowledged, at in report["lost"]:
            if not any(0 <= killed - at < LOST_BEFORE_KILL_S_MAX for killed in self.kill_times):
                found.append(f"lost: {key} is {had}, acknowledged was {acknowledged} at {at:.3f}; kills at {self.kill_times}")
        found += [f"nodes replied {word} {count} times" for word, count in self.errors.items() if word not in EXPECTED and count > 0]
        return found if report["writes"] else [*found, "nothing was written"]


def goes_well(name, options):
    """Runs one client, and prints what came of it."""
    prepare, file = CLIENTS[name]
    trial = Trial(name, options)
    problems = ["it did not end"]
    try:
        report = trial.run(prepare(file))
        problems = trial.verdict(report)
        errors = {re.sub(r"[0-9a-f]{40}|\d+", "N", text): count for text, count in report["errors"].items()}
        print(f"{'FAILED' if problems else 'ok':7} {name} {report['version']}: {report['writes']} writes, {report['reads']} reads, "
              f"{len(report['lost'])} lost, {len(report['wrong'])} wrong; {len(trial.kill_times)} kills, {trial.moved} slots moved, "
              f"{trial.failed_moves} moves failed, {trial.fixes} mended; nodes replied {trial.errors}; raised {errors}", flush=True)
    except (Unsettled, subprocess.TimeoutExpired) as error:
        problems.append(type(error).__name__)
        print(f"FAILED  {name}")
    finally:
        trial.cluster.end(keeps_files=bool(problems))
    for line in problems[:10]:
        print(f"        {line[:300]}", flush=True)
    if problems:
        print(f"        files and logs: {trial.cluster.folder}", flush=True)
    return not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", metavar="COMMAND")
    parser.add_argument("cli", metavar="CLI")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", default=list(CLIENTS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--cli-options", default="")
    parser.add_argument("--port", type=int, default=20000)
    options = parser.parse_args()
    failed = sum(not goes_well(name, options) for name in options.clients)
    if not os.environ.get("CLIENTS"):
        shutil.rmtree(WORK, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
