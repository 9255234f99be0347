#!/usr/bin/env python3
"""A real Prometheus scrapes a server under load: does it take every scrape, and what does a scrape cost the server?

usage: prometheus.py SERVER_BINARY [--seconds 600] [--interval-s 1] [--alerts]

Needs `prometheus` and `promtool` (Debian's package `prometheus`). The server gets 250 kinds of commands' worth of statistics, 16
databases and a client that keeps writing. Fails when a scrape failed, when promtool cannot parse the text, when a sample that must be
there is not, or when the alert rules of contrib/ do not do what their unit tests say. Every loop is bounded; servers listen on 127.0.0.1 only.

With --alerts (and `openssl`) it asks instead which of the rules fire, as they are shipped and without the time for which each waits: of a
default server, of a primary and its replica with all that can be switched on, each under a load, of a node of a cluster, whose other node
and open slot it should speak of, and of one whose certificate ends in a week and which is then killed. Fails when one fires that should not or does not that should, and when a metric says of what is not
there that it is below nothing.
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
    def read_any(self, *words):
        """Whether anything comes back, if only that a password is needed."""
        self.send(*words)
        return self.file.readline() != b''

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

# All that a server can be asked to do beside serving.
EVERYTHING = ['--appendonly', 'yes', '--aof-timestamp-enabled', 'yes', '--save', '30 1', '--io-threads', '2', '--io-threads-always-active', 'yes',
    '--http-commands', 'yes', '--hot-keys', 'yes', '--memory-prefixes', 'learn', '--key-policy', 'key:* compress-values yes', '--maxmemory', '1gb',
    '--maxmemory-policy', 'allkeys-lfu', '--maxmemory-clients', '10%', '--notify-keyspace-events', 'AKE', '--latency-monitor-threshold', '1',
    '--tls-replication', 'yes', '--repl-diskless-sync-delay', '0', '--requirepass', 'secret', '--primaryauth', 'secret', '--list-compress-depth', '1',
    '--lazyfree-lazy-expire', 'yes', '--watchdog-period', '500', '--commandlog-request-larger-than', '1', '--tls-auth-clients', 'optional']

def certificates(directory, days):
    """Options of TLS, with a certificate for so many days."""
    def openssl(*words): subprocess.run(('openssl',) + words, check=True, cwd=directory, capture_output=True)
    name = 'server-%d' % days
    if not os.path.exists(directory + '/ca.crt'):
        openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=ca', '-days', '365', '-keyout', 'ca.key', '-out', 'ca.crt')
    openssl('req', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost', '-keyout', name + '.key', '-out', name + '.csr')
    with open(directory + '/names', 'w') as f: f.write('subjectAltName=DNS:localhost,IP:127.0.0.1\n')
    openssl('x509', '-req', '-in', name + '.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', str(days), '-extfile', 'names', '-out', name + '.crt')
    files = [('tls-cert-file', name + '.crt'), ('tls-key-file', name + '.key'), ('tls-ca-cert-file', 'ca.crt')]
    return [word for option, file in files for word in ('--' + option, '%s/%s' % (directory, file))]

class Load:
    """A client that writes and reads values of all types, some of which expire, about 4,000 commands a second."""
    def __init__(self, port, password, stop):
        self.port, self.password, self.stop, self.error = port, password, stop, None
        threading.Thread(target=self.run, daemon=True).start()
    def run(self):
        try:
            client, n = Client(self.port), 0
            if self.password: client('AUTH', self.password)
            client('CLIENT', 'TRACKING', 'ON')
            while not self.stop.is_set():
                for n in range(n, n + 20):
                    i = n % 50000
                    commands = [('SET', 'key:%d' % i, 'value %d of some length ' % i * 8, 'EX', 60), ('GET', 'key:%d' % (i // 2)), ('HSET', 'hash:%d' % (i % 5000), 'f%d' % i, i),
                        ('ZADD', 'board', i, 'm%d' % i), ('LPUSH', 'list', i), ('LTRIM', 'list', 0, 1000), ('XADD', 'stream', 'MAXLEN', '~', 1000, '*', 'f', i), ('GET', 'nothing')]
                    for command in commands: client.send(*command)
                    for command in commands: client.read()
                n += 1
                time.sleep(0.04)
        except (OSError, ValueError) as error: self.error = error

def alerts(o, rules):
    directory = tempfile.mkdtemp(prefix='prometheus-')
    with open(rules + '/alerts.yml') as f: shipped = f.read()
    with open(directory + '/alerts.yml', 'w') as f: f.write(shipped)
    # The same without their patience: what minutes do not show, it does.
    with open(directory + '/impatient.yml', 'w') as f:
        lines = [line for line in shipped.splitlines() if not line.strip().startswith('for: ')]
        f.write('\n'.join(lines).replace('alert: Warmline', 'alert: Impatient').replace('name: warmline', 'name: impatient') + '\n')
    started, stop = {}, threading.Event()
    try:
        def start(name, *options):
            port, http = free_port(), free_port()
            os.mkdir('%s/%s' % (directory, name))
            log = open('%s/%s.log' % (directory, name), 'w')
            words = [o.server, '--port', str(port), '--bind', '127.0.0.1', '--http-port', str(http), '--dir', '%s/%s' % (directory, name)]
            started[name] = subprocess.Popen(words + list(options), stdout=log, stderr=log)
            eventually(name + ' listens', lambda: Client(port).read_any('PING'))
            return port, http
        tls_port = free_port()
        tls = certificates(directory, 365)
        servers = {'default': start('default')}
        servers['primary'] = start('primary', *EVERYTHING, *tls, '--tls-port', str(tls_port), '--min-replicas-to-write', '0')
        servers['replica'] = start('replica', *EVERYTHING, *tls, '--tls-port', str(free_port()), '--replicaof', '127.0.0.1 %d' % tls_port)
        servers['ending'] = start('ending', *certificates(directory, 7), '--tls-port', str(free_port()))
        node = ('--cluster-enabled', 'yes', '--cluster-slot-stats-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-require-full-coverage', 'no')
        buses = [free_port(), free_port()]
        servers['node'], servers['lost'] = (start(name, *node, '--cluster-port', str(bus)) for name, bus in zip(['node', 'lost'], buses))
        nodes = [Client(servers[name][0]) for name in ('node', 'lost')]
        nodes[0]('CLUSTER', 'ADDSLOTSRANGE', 0, 16383)
        nodes[0]('CLUSTER', 'MEET', '127.0.0.1', servers['lost'][0], buses[1])
        eventually('the node is known', lambda: nodes[0]('CLUSTER', 'NODES').count(b' connected') == 2 and b'handshake' not in nodes[0]('CLUSTER', 'NODES'))
        if nodes[0]('CLUSTER', 'SETSLOT', 5, 'MIGRATING', nodes[1]('CLUSTER', 'MYID').decode()) != b'OK': sys.exit('no slot can be opened')
        started['lost'].kill(); started['lost'].wait(20)
        del servers['lost']
        loads = [Load(servers['default'][0], None, stop), Load(servers['primary'][0], 'secret', stop)]
        def targets(*names): return ', '.join('{targets: ["127.0.0.1:%d"], labels: {server: %s}}' % (servers[name][1], name) for name in names)
        scrape = ['{job_name: warmline, static_configs: [%s]}' % targets('default', 'ending', 'node'),
            '{job_name: with-password, basic_auth: {username: default, password: secret}, static_configs: [%s], relabel_configs: [{target_label: job, replacement: warmline}]}' % targets('primary', 'replica')]
        with open(directory + '/prometheus.yml', 'w') as f:
            f.write('global: {scrape_interval: %ds, evaluation_interval: 5s}\nrule_files: [alerts.yml, impatient.yml]\nscrape_configs: [%s]\n' % (o.interval_s, ', '.join(scrape)))
        ui = free_port()
        started['prometheus'] = subprocess.Popen(['prometheus', '--config.file=%s/prometheus.yml' % directory, '--storage.tsdb.path=%s/data' % directory,
            '--web.listen-address=127.0.0.1:%d' % ui], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def ask(query):
            answer = get('http://127.0.0.1:%d/api/v1/query?query=%s' % (ui, urllib.parse.quote(query)))
            return [(r['metric'], float(r['value'][1])) for r in json.loads(answer)['data']['result']]
        eventually('Prometheus scrapes all', lambda: sum(value for _, value in ask('up')) == len(servers))
        time.sleep(o.seconds)
        for load in loads:
            if load.error: sys.exit('FAILED: a client ended with %r' % load.error)
        # Whatever has fired at any time, not only what does so now.
        seen = {}
        for labels, count in ask('count_over_time(ALERTS{alertstate="firing"}[%ds])' % o.seconds):
            seen.setdefault(labels.get('server', '?'), {})[labels['alertname']] = count
        new = {'WarmlineRestarted', 'ImpatientRestarted'}
        wanted = {name: set(new) for name in servers}
        wanted['ending'] |= {'WarmlineCertificateExpires', 'ImpatientCertificateExpires'}
        # Which node a failing one is told by does not matter: the alert has its own labels.
        wanted['node'].add('ImpatientClusterSlotsOpen')
        failing = {name for name in seen.get('?', {}) if 'Cluster' in name}
        wrong = [] if failing == {'WarmlineClusterNodeFails', 'ImpatientClusterNodeFails'} else ['of a lost node fires %s' % sorted(failing)]
        for name in servers:
            print('%s: %s' % (name, ', '.join('%s %d' % pair for pair in sorted(seen.get(name, {}).items()))))
            wrong += ['%s fires of %s' % (alert, name) for alert in seen.get(name, {}).keys() - wanted[name]]
            wrong += ['%s does not fire of %s' % (alert, name) for alert in wanted[name] - seen.get(name, {}).keys()]
        wrong += ['%s of %s is %g' % (labels['__name__'], labels['server'], value) for labels, value in ask('{__name__=~"warmline_.*"} < 0')
            if not labels['__name__'].startswith(('warmline_allocator_', 'warmline_memory_fragmentation', 'warmline_rss'))]
        failed = [labels['server'] for labels, value in ask('min_over_time(up[%ds])' % max(o.seconds - 5, 1)) if value < 1]
        wrong += ['a scrape of %s failed' % name for name in failed]
        rates = {labels['server']: round(value) for labels, value in ask('rate(warmline_commands_processed_total[1m])')}
        print('commands a second: %s' % rates)
        wrong += ['%s has no load' % name for name in ('default', 'primary') if rates.get(name, 0) < 500]
        # What should fire once a server has gone.
        started['ending'].kill(); started['ending'].wait(20)
        eventually('WarmlineDown fires', lambda: any(labels['server'] == 'ending' for labels, _ in ask('ALERTS{alertname="WarmlineDown", alertstate="firing"}')), 120)
        for line in wrong: print('FAULT:', line)
        if wrong: sys.exit('FAILED')
        print('ok')
    finally:
        stop.set()
        for process in reversed(list(started.values())):
            process.terminate()
            try: process.wait(30)
            except subprocess.TimeoutExpired: process.kill()
        shutil.rmtree(directory, ignore_errors=True)

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('--seconds', type=int, default=600); p.add_argument('--interval-s', type=int, default=1)
    p.add_argument('--alerts', action='store_true')
    o = p.parse_args()
    for tool in ['prometheus', 'promtool']:
        if not shutil.which(tool): sys.exit(tool + ' is not installed')
    rules = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'contrib', 'prometheus')
    for check in [['check', 'rules', 'alerts.yml'], ['test', 'rules', 'alerts_test.yml']]:
        out = subprocess.run(['promtool'] + check, cwd=rules, capture_output=True, text=True)
        if out.returncode: sys.exit('FAILED: promtool %s\n%s%s' % (' '.join(check), out.stdout, out.stderr))
    if o.alerts: return alerts(o, rules)
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
