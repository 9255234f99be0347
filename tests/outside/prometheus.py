#!/usr/bin/env python3
"""A real Prometheus scrapes a server under load: does it take every scrape, and what does a scrape cost the server?

usage: prometheus.py SERVER_BINARY [--seconds 600] [--interval-s 1]

Needs `prometheus` and `promtool` (Debian's package `prometheus`). The server gets 250 kinds of commands' worth of statistics, 16
databases and a client that keeps writing. Fails when a scrape failed, when promtool cannot parse the text, when a sample that must be
there is not, or when the alert rules of contrib/ do not do what their unit tests say. Every loop is bounded; servers listen on 127.0.0.1 only.
"""
import argparse, json, os, shutil, socket, subprocess, sys, tempfile, threading, time, urllib.parse, urllib.request

ACCEPTS = 'application/openmetrics-text; version=1.0.0'

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), 20)
        self.file = self.socket.makefile('rb')
    def send(self, *words):
        self.socket.sendall(b''.join([b'*%d\r\n' % len(words)] + [b'$%d\r\n%s\r\n' % (len(w), w) for w in (str(w).encode() for w in words)]))
    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind in b'+-:': return rest
        if kind == b'$': return None if rest == b'-1' else self.file.read(int(rest) + 2)[:-2]
        if kind == b'*': return [self.read() for _ in range(max(int(rest), 0))]
        sys.exit('unexpected reply %r' % line)
    def __call__(self, *words):
        self.send(*words)
        return self.read()

def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
        return answer.read().decode()

def eventually(what, check, seconds=30):
    for _ in range(seconds * 10):
        try:
            if check(): return
        except OSError: pass
        time.sleep(0.1)
    sys.exit(what + ' does not come true')

def checked(text):
    """promtool's complaints that are no matters of taste: about text that cannot be parsed."""
    out = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True, text=True)
    return [line for line in out.stderr.splitlines() if 'error while linting' in line or 'parse' in line]

def usec_of(client, command):
    lines = client('INFO', 'commandstats').decode().splitlines()
    found = [line for line in lines if line.startswith('cmdstat_%s:' % command)]
    fields = dict(part.split('=') for part in found[0].split(':', 1)[1].split(',')) if found else {}
    return float(fields.get('usec', 0)), int(fields.get('calls', 0))

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('--seconds', type=int, default=600); p.add_argument('--interval-s', type=int, default=1)
    o = p.parse_args()
    for tool in ['prometheus', 'promtool']:
        if not shutil.which(tool): sys.exit(tool + ' is not installed')
    rules = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'contrib', 'prometheus')
    for check in [['check', 'rules', 'alerts.yml'], ['test', 'rules', 'alerts_test.yml']]:
        out = subprocess.run(['promtool'] + check, cwd=rules, capture_output=True, text=True)
        if out.returncode: sys.exit('FAILED: promtool %s\n%s%s' % (' '.join(check), out.stdout, out.stderr))
    directory = tempfile.mkdtemp(prefix='prometheus-')
    port, http, ui = free_port(), free_port(), free_port()
    with open(directory + '/prometheus.yml', 'w') as f:
        f.write('global: {scrape_interval: %ds}\nrule_files: [%s/alerts.yml]\nscrape_configs: [{job_name: warmline, static_configs: [{targets: ["127.0.0.1:%d"]}]}]\n' % (o.interval_s, os.path.abspath(rules), http))
    started = []
    try:
        started.append(subprocess.Popen([o.server, '--port', str(port), '--http-port', str(http), '--save', '', '--dir', directory], stdout=subprocess.DEVNULL))
        eventually('the server listens', lambda: Client(port)('PING') == b'PONG')
        client = Client(port)
        for database in range(16):
            client('SELECT', database); client('SET', 'key', 1, 'EX', 10000)
        client('SELECT', 0)
        # Every command has been called, if only to be refused.
        stays_away = {b'shutdown', b'debug', b'monitor', b'sync', b'psync', b'subscribe', b'psubscribe', b'ssubscribe', b'quit', b'reset',
            b'failover', b'replicaof', b'slaveof', b'swapdb', b'flushall', b'flushdb', b'multi', b'client', b'acl', b'config', b'save', b'bgsave'}
        names = [name for name in client('COMMAND', 'LIST') if name.split(b'|')[0] not in stays_away]
        for name in names:
            other = Client(port)
            other(*[part.decode() for part in name.split(b'|')], 'key')
            other.socket.close()
        started.append(subprocess.Popen(['prometheus', '--config.file=' + directory + '/prometheus.yml', '--storage.tsdb.path=' + directory + '/data',
            '--web.listen-address=127.0.0.1:%d' % ui], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        stop, written = threading.Event(), [0]
        def write():
            writer = Client(port)
            while not stop.is_set():
                for i in range(100): writer.send('SET', 'key:%d' % (written[0] + i), 'v' * 100)
                for i in range(100): writer.read()
                written[0] += 100
                time.sleep(0.01)
        threading.Thread(target=write, daemon=True).start()
        def ask(query):
            answer = get('http://127.0.0.1:%d/api/v1/query?query=%s' % (ui, urllib.parse.quote(query)))
            return [(r['metric'], float(r['value'][1])) for r in json.loads(answer)['data']['result']]
        eventually('Prometheus scrapes', lambda: ask('up') and ask('up')[0][1] == 1)
        asked = ['info', 'latency|histogram', 'slowlog|len', 'slowlog|get']
        before = {name: usec_of(client, name) for name in asked}
        ends = time.time() + o.seconds
        bad = []
        while time.time() < ends:
            time.sleep(min(10, max(0.1, ends - time.time())))
            bad += checked(get('http://127.0.0.1:%d/metrics' % http))
        stop.set()
        cost_us = 0
        for name in asked:
            usec, calls = (after - first for after, first in zip(usec_of(client, name), before[name]))
            # This script asks for INFO too, a smaller one; what it asked does not make the mean larger.
            cost_us += usec / max(calls, 1)
        scrapes = int(ask('count_over_time(up[%ds])' % o.seconds)[0][1])
        failed = scrapes - int(ask('sum_over_time(up[%ds])' % o.seconds)[0][1])
        samples = int(ask('scrape_samples_scraped')[0][1])
        keys = [value for labels, value in ask('redis_db_keys') if labels['db'] == 'db0']
        rate = ask('rate(redis_commands_total{cmd="set"}[1m])')
        print('%d scrapes, %d failed, %d samples each; %d commands with statistics; %.0f us of the command thread a scrape' % (
            scrapes, failed, samples, len(ask('redis_commands_total')), cost_us))
        print('keys %s, sets a second %s, p99 of SET %s s' % (keys, [round(v) for _, v in rate],
            [v for _, v in ask('histogram_quantile(0.99, rate(warmline_command_duration_seconds_bucket{cmd="set"}[1m]))')]))
        for line in bad[:10]: print('promtool:', line)
        firing = {labels['alertname'] for labels, _ in ask('ALERTS{alertstate="firing"}')} - {'WarmlineRestarted'}
        if firing: print('alerts that fire:', ', '.join(sorted(firing)))
        missing = [name for name in ['redis_up', 'warmline_build', 'redis_memory_used_bytes', 'warmline_memory_used_bytes', 'redis_instance_info'] if not ask(name)]
        if failed or bad or missing or not keys or not rate: sys.exit('FAILED: missing %s' % missing)
        print('ok')
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)
        shutil.rmtree(directory, ignore_errors=True)

main()
