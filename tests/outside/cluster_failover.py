"""How long a cluster takes to replace a primary that is killed, for one server beside others.

usage: cluster_failover.py [options] COMMAND [COMMAND...]      each COMMAND starts a server, and contains {port}

Each server gets a cluster of three primaries and three replicas. In turn, a primary of each is killed (SIGKILL), and one key of
its slots is written at every node that is left, each 20 ms, until one takes it. Then the killed node is started again, and the
next is killed when it is a replica in sync.

--count 20             kills for each cluster
--node-timeout 5000    cluster-node-timeout in ms
--port 21000           the first port; the bus uses these plus 10000

Prints the median and the longest time from the kill to the write, and what nodes replied before, as a table. Fails if a key
written before a kill, and replicated, is gone after it.
"""
import argparse
import signal
import statistics
import sys
import time

from cluster_servers import Cluster, Probe, Unsettled

PROBE_S = 0.02
TAKEN_S_MAX = 60
# One key each of a slot in the first, second and third third.
KEYS = ["k2", "k0", "k1"]


class Lost(Exception):
    """A key that a replica had is gone."""


def fail_over(cluster, round_number):
    """Kills the primary of a key; the seconds until the key can be written, and the replies before."""
    key = KEYS[round_number % len(KEYS)]
    slot = cluster.nodes[0].ask("CLUSTER", "KEYSLOT", key)
    victim = cluster.owner(slot)
    kept = f"{{{key}}}:kept"
    victim.ask("SET", kept, round_number)
    cluster.wait(cluster.in_sync, TAKEN_S_MAX)
    probe = Probe([node.port for node in cluster.nodes if node is not victim], key)
    began = time.monotonic()
    victim.stop(signal.SIGKILL)
    port = None
    while port is None:
        asked = time.monotonic()
        if asked - began > TAKEN_S_MAX:
            raise Unsettled(f"{cluster.name}: no node took a write in {TAKEN_S_MAX} s: {probe.refusals}")
        port = probe.accepted_at()
        if port is None:
            time.sleep(max(0.0, PROBE_S - (time.monotonic() - asked)))
    taken_s = time.monotonic() - began
    probe.close()
    winner = next(node for node in cluster.nodes if node.port == port)
    if winner.ask("GET", kept) != str(round_number).encode():
        raise Lost(f"{cluster.name}: {kept} is {winner.ask('GET', kept)}, not {round_number}")
    cluster.restart(victim)
    return taken_s, probe.refusals


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--node-timeout", type=int, default=5000)
    parser.add_argument("--port", type=int, default=21000)
    options = parser.parse_args()
    clusters = [
        Cluster(f"server{i}-", command, options.port + 100 * i, node_timeout_ms=options.node_timeout, options=["--save", ""])
        for i, command in enumerate(options.commands)]
    taken = {cluster.name: [] for cluster in clusters}
    refusals = {cluster.name: {} for cluster in clusters}
    finished = False
    try:
        for cluster in clusters:
            cluster.create()
        for round_number in range(options.count):
            for cluster in clusters:
                taken_s, replies = fail_over(cluster, round_number)
                taken[cluster.name].append(taken_s)
                for word, count in replies.items():
                    refusals[cluster.name][word] = refusals[cluster.name].get(word, 0) + count
                print(f"{cluster.name} {round_number + 1}: {taken_s:.2f} s", file=sys.stderr, flush=True)
        finished = True
    finally:
        for cluster in clusters:
            cluster.end(keeps_files=not finished)
            if not finished:
                print(f"files and logs: {cluster.folder}")
    print("| server | kills | median s | longest s | shortest s | replies before |")
    print("|---|---|---|---|---|---|")
    for cluster, command in zip(clusters, options.commands):
        times = taken[cluster.name]
        print(f"| {command.split()[0]} | {len(times)} | {statistics.median(times):.2f} | {max(times):.2f} | {min(times):.2f} "
              f"| {refusals[cluster.name]} |")


if __name__ == "__main__":
    main()
