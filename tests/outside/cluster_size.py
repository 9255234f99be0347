"""What a cluster of many nodes costs: time to agree, bytes of the bus, processor time and memory of a node.

usage: cluster_size.py [options] COMMAND      COMMAND starts a server, and contains {port}

All nodes are primaries with a share of the slots. The first is told to MEET the others; the time is from the last MEET until
each node knows all and its state is ok. Then the nodes are left alone, and what they used is read from their INFO and /proc.

--nodes 100             how many
--node-timeout 15000    cluster-node-timeout in ms
--idle 30               seconds without clients
--port 22000            the first port; the bus uses these plus 10000

Needs `ss` of iproute2.
"""
import argparse
import os
import re
import subprocess
import time

from cluster_servers import Cluster, cluster_info

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
AGREE_S_MAX = 240


def processor_s(node):
    with open(f"/proc/{node.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def resident_bytes(node):
    with open(f"/proc/{node.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def bus_bytes(first_port, count):
    """What both ends of all links have sent, as the kernel counted it, without headers of TCP."""
    ports = f"sport >= :{first_port} and sport < :{first_port + count}"
    text = subprocess.run(["ss", "-tinHO", f"( {ports} ) or ( {ports.replace('sport', 'dport')} )"],
                          capture_output=True, text=True, check=True).stdout
    return sum(int(sent) for sent in re.findall(r"bytes_sent:(\d+)", text))


def messages(nodes):
    return sum(int(cluster_info(node)["cluster_stats_messages_sent"]) for node in nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", metavar="COMMAND")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--node-timeout", type=int, default=15000)
    parser.add_argument("--idle", type=float, default=30)
    parser.add_argument("--port", type=int, default=22000)
    options = parser.parse_args()
    cluster = Cluster("many", options.command, options.port, options.nodes, 0, options.node_timeout, ["--save", ""])
    finished = False
    try:
        cluster.start()
        cluster.give_slots()
        cluster.meet()
        began = time.monotonic()
        cluster.wait(cluster.agreed, AGREE_S_MAX)
        agreed_s = time.monotonic() - began
        print(f"| nodes | {options.nodes} |\n| agreed after | {agreed_s:.1f} s |", flush=True)
        time.sleep(options.node_timeout / 1000)
        before = (messages(cluster.nodes), bus_bytes(options.port + 10000, options.nodes), sum(map(processor_s, cluster.nodes)),
                  time.monotonic())
        time.sleep(options.idle)
        used_s = sum(map(processor_s, cluster.nodes))
        bytes_then = bus_bytes(options.port + 10000, options.nodes)
        elapsed_s = time.monotonic() - before[3]
        sent = messages(cluster.nodes) - before[0]
        a_node = elapsed_s * options.nodes
        print(f"| messages a node and second | {sent / a_node:.1f} |")
        print(f"| bytes of the bus a node and second | {(bytes_then - before[1]) / a_node:.0f} |")
        print(f"| bytes a message | {(bytes_then - before[1]) / max(1, sent):.0f} |")
        print(f"| processor a node | {1000 * (used_s - before[2]) / a_node:.2f} ms/s |")
        print(f"| resident a node | {sum(map(resident_bytes, cluster.nodes)) / options.nodes / 1e6:.1f} MB |")
        failed = [node.port for node in cluster.nodes if not cluster.agreed(node)]
        print(f"| nodes that no longer agree | {failed or 'none'} |")
        finished = True
    finally:
        cluster.end(keeps_files=not finished)
        if not finished:
            print(f"files and logs: {cluster.folder}")


if __name__ == "__main__":
    main()
