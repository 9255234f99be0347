#!/usr/bin/env python3
"""What TLS costs a server beside another one: processor time of a request, of a handshake, memory of an idle connection.

usage: tls.py [--rounds N] [--requests N] NAME=SERVER_BINARY ... --benchmark BINARY --certificates DIR

SERVER_BINARY is a server with TLS, BENCHMARK one that takes the options of valkey-benchmark. DIR has ca.crt, server.crt, server.key,
client.crt and client.key (the reference's utils/gen-test-certs.sh makes them). Servers listen on 127.0.0.1 only, one after the
other; each figure is the least of the rounds, which servers take in turn. Every loop is bounded.
"""
import argparse, os, resource, socket, ssl, subprocess, sys, tempfile, time

TICK = os.sysconf('SC_CLK_TCK')
LOADS = [('GET p1', 1, 3, 50), ('GET p16', 16, 3, 50), ('GET 1 KB p1', 1, 1024, 50), ('GET 1 KB p16', 16, 1024, 50), ('GET 64 KB p1', 1, 65536, 20)]

class Server:
    def __init__(self, binary, port, o):
        self.port, self.o, self.directory = port, o, tempfile.mkdtemp(prefix='tls-')
        c = o.certificates
        self.process = subprocess.Popen([binary, '--port', '0', '--tls-port', str(port), '--bind', '127.0.0.1', '--save', '',
            '--dir', self.directory, '--tls-cert-file', c + '/server.crt', '--tls-key-file', c + '/server.key', '--tls-ca-cert-file', c + '/ca.crt',
            '--tls-auth-clients', 'no', '--maxclients', '20000'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try: socket.create_connection(('127.0.0.1', port)).close(); return
            except OSError: time.sleep(0.05)
        sys.exit(binary + ' does not listen')
    def cpu_s(self):
        with open('/proc/%d/stat' % self.process.pid) as f: fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK
    def resident_kb(self):
        with open('/proc/%d/status' % self.process.pid) as f: return next(int(l.split()[1]) for l in f if l.startswith('VmRSS'))
    def load(self, *arguments):
        c = self.o.certificates
        before = self.cpu_s()
        subprocess.run([self.o.benchmark, '-p', str(self.port), '--tls', '--cacert', c + '/ca.crt', '-q', *arguments], check=True, stdout=subprocess.DEVNULL, timeout=300)
        return self.cpu_s() - before
    def connect(self, context):
        s = context.wrap_socket(socket.create_connection(('127.0.0.1', self.port)), server_hostname='localhost')
        s.sendall(b'PING\r\n'); assert s.recv(16) == b'+PONG\r\n'
        return s
    def stop(self):
        self.process.terminate(); self.process.wait(timeout=30)

def context_of(o, version=None):
    context = ssl.create_default_context(cafile=o.certificates + '/ca.crt'); context.check_hostname = False
    if version: context.minimum_version = context.maximum_version = version
    return context
def measure(binary, port, o):
    figures, server = {}, Server(binary, port, o)
    try:
        context, before = context_of(o), server.resident_kb()
        idle = [server.connect(context) for _ in range(1000)]
        time.sleep(1)
        figures['idle connection, KB'] = (server.resident_kb() - before) / 1000
        for s in idle: s.close()
        for name, pipeline, size, clients in LOADS:
            server.load('-n', '1000', '-d', str(size), '-t', 'set')
            requests = o.requests * (4 if pipeline > 1 else 1) // (10 if size > 4096 else 1)
            figures[name + ', us of processor time'] = server.load('-n', str(requests), '-d', str(size), '-P', str(pipeline), '-c', str(clients), '-t', 'get') / requests * 1e6
        for name, version in (('1.3', ssl.TLSVersion.TLSv1_3), ('1.2', ssl.TLSVersion.TLSv1_2)):
            context, before = context_of(o, version), server.cpu_s()
            began = time.monotonic()
            for _ in range(o.handshakes): server.connect(context).close()
            figures['full handshake ' + name + ', us from connecting to the first reply'] = (time.monotonic() - began) / o.handshakes * 1e6
            figures['full handshake ' + name + ', us of processor time'] = (server.cpu_s() - before) / o.handshakes * 1e6
    finally: server.stop()
    return figures

def main():
    ap = argparse.ArgumentParser(usage=__doc__); ap.add_argument('servers', nargs='+'); ap.add_argument('--benchmark', required=True); ap.add_argument('--certificates', required=True)
    ap.add_argument('--rounds', type=int, default=3); ap.add_argument('--requests', type=int, default=100000); ap.add_argument('--handshakes', type=int, default=500); ap.add_argument('--port', type=int, default=13500)
    o = ap.parse_args(); names = [s.split('=', 1) for s in o.servers]; best = {}
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 8192), limit))
    for turn in range(o.rounds):
        for at, (name, binary) in enumerate(names):
            for what, figure in measure(binary, o.port + at + turn * len(names), o).items():
                best[what, name] = min(best.get((what, name), figure), figure)
    first = names[0][0]
    for what in dict.fromkeys(what for what, _ in best):
        print('%-42s' % what + ''.join('  %s %8.2f' % (name, best[what, name]) for name, _ in names)
            + ''.join('  %s/%s %.2f' % (first, name, best[what, first] / max(best[what, name], 1e-9)) for name, _ in names[1:]), flush=True)
main()
