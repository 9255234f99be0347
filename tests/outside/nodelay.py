#!/usr/bin/env python3
"""What `tcp-nodelay` is worth: values of 2 KB at some pipeline depths, with three settings of the server's sockets.

usage: nodelay.py SERVER BENCHMARK [RUNS]      SERVER is a binary, BENCHMARK valkey-benchmark

set      the server sets TCP_NODELAY (`tcp-nodelay yes`, the default)
default  the server leaves the system's setting alone (`tcp-nodelay no`): Nagle's algorithm, unless the system says otherwise
nagle    Nagle's algorithm explicitly on: a relay library clears TCP_NODELAY on every socket that is accepted

Needs a C compiler for `nagle`. Prints requests a second, the server's processor time a request, and its writes a request, which
shows that the replies of a batch leave in one write whatever the setting.
"""
import os, re, statistics, subprocess, sys, tempfile, time, socket

RELAY = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <stddef.h>
static void nagle(int fd) { int off = 0; if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &off, sizeof off); }
int accept4(int s, struct sockaddr *a, socklen_t *l, int f) {
    int (*next)(int, struct sockaddr *, socklen_t *, int) = dlsym(RTLD_NEXT, "accept4");
    int fd = next(s, a, l, f); nagle(fd); return fd;
}
int accept(int s, struct sockaddr *a, socklen_t *l) {
    int (*next)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    int fd = next(s, a, l); nagle(fd); return fd;
}
'''
DEPTHS = [(1, 20000), (10, 100000), (100, 200000)]

def info(port, field):
    s = socket.create_connection(('127.0.0.1', port)); s.sendall(b'INFO\r\n'); got = b''
    while field.encode() + b':' not in got or not got.endswith(b'\r\n'): got += s.recv(65536)
    s.close()
    return int(re.search(field.encode() + rb':(\d+)', got).group(1))

def cpu_s(pid):
    return sum(int(open('/proc/%d/task/%s/schedstat' % (pid, t)).read().split()[0]) for t in os.listdir('/proc/%d/task' % pid)) / 1e9

def main():
    server, bench = sys.argv[1:3]; runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder = tempfile.mkdtemp(); source, library = folder + '/relay.c', folder + '/relay.so'
    open(source, 'w').write(RELAY)
    subprocess.run(['cc', '-shared', '-fPIC', '-o', library, source, '-ldl'], check=True)
    servers = []
    for i, (name, option, preload) in enumerate([('set', 'yes', ''), ('default', 'no', ''), ('nagle', 'no', library)]):
        port = 48071 + i
        p = subprocess.Popen([server, '--port', str(port), '--save', '', '--tcp-nodelay', option], cwd=folder,
                             env=dict(os.environ, LD_PRELOAD=preload), stdout=subprocess.DEVNULL)
        for _ in range(100):
            try: socket.create_connection(('127.0.0.1', port)).close(); break
            except OSError: time.sleep(0.05)
        subprocess.run([bench, '-p', str(port), '-c', '10', '-P', '10', '-n', '20000', '-r', '1000', '-d', '2048', '-t', 'set', '-q'], stdout=subprocess.DEVNULL)
        servers.append((name, p, port))
    print('%-8s %-8s %9s %10s %14s %9s' % ('setting', 'pipeline', 'req/s', 'cpu us/req', 'writes/pipeline', 'p99 ms'))
    for depth, n in DEPTHS:
        rows = {name: [] for name, _, _ in servers}
        for _ in range(runs):
            for name, p, port in servers:
                cpu, writes = cpu_s(p.pid), info(port, 'total_writes_processed')
                out = subprocess.run([bench, '-p', str(port), '-c', '20', '-P', str(depth), '-n', str(n), '-r', '1000', '-t', 'get', '--csv'],
                                     capture_output=True, text=True).stdout
                fields = [f.strip('"') for f in out.strip().splitlines()[-1].split(',')]
                cpu, writes = cpu_s(p.pid) - cpu, info(port, 'total_writes_processed') - writes - 1
                rows[name].append((float(fields[1]), cpu / n * 1e6, writes / (n / depth), float(fields[6])))
        for name, got in rows.items():
            print('%-8s %-8d %9.0f %10.2f %14.2f %9.3f' % (name, depth, *[statistics.median(c) for c in zip(*got)]), flush=True)
    for _, p, _ in servers: p.kill()

main()
