#!/usr/bin/env python3
"""Those who mean no good come over HTTP: does anybody who comes for the data notice?

usage: http_hostile.py SERVER_BINARY [--seconds 600] [--connections 10000] [--seed N] [--http-commands yes]

At the same time: requests that are changed at random, in pieces, and cut off, many of them to the console's API with and without a password;
clients that send a byte at a time or read nothing; as many connections as are asked for, held; foreign hosts and foreign sites. A process of
its own asks for a key in between, by turns of the server that is attacked and of another one on the same machine that is not: what both
have in common is the machine's doing. Fails when an answer has a status that no refusal has, when something that is no metric leaks to a
stranger, when a client waits for more than a second, when memory grows, or when the server ends. Every loop is bounded; servers listen on
127.0.0.1 only.
"""
import argparse, json, multiprocessing, os, random, resource, select, shutil, socket, subprocess, sys, tempfile, threading, time

STATUSES = {200, 400, 401, 403, 404, 405, 408, 413, 414, 415, 421, 431, 500, 501, 503, 505}
SECRET = b'a value that nobody may see'
PLACES = 64

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), 30)
        self.file = self.socket.makefile('rb')
    def __call__(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b''.join([b'*%d\r\n' % len(words)] + [b'$%d\r\n%s\r\n' % (len(w), w) for w in words]))
        line = self.file.readline()
        return self.file.read(int(line[1:]) + 2)[:-2] if line[:1] == b'$' and line[1:2] != b'-' else line[1:-2]

def valid(r, port):
    path = r.choice(['/api/commands', '/api/commands', '/api/commands', '/api/history?since=' + r.choice(['0', '-1', '1' * 30]), '/api/options', '/console/main.js', '/metrics', '/health', '/ready', '/', '/index.html', '/%2e%2e/etc/passwd', '/metrics?a=b', 'http://evil.example/metrics', '*'])
    headers = [r.choice(['Host: localhost', 'Host: localhost:%d' % port, 'Host: 127.0.0.1', 'Host: evil.example', 'Host:', 'Host: [::1]:%d' % port])]
    for text in ['Origin: http://evil.example', 'Origin: null', 'Authorization: Bearer password', 'Authorization: Basic ' + 'QQ' * r.randrange(300),
            'Authorization: Basic \xff', 'Accept: application/openmetrics-text', 'Accept: ' + 'x,' * 400, 'Content-Length: %d' % r.randrange(1 << 40), 'Transfer-Encoding: chunked',
            'Connection: ' + r.choice(['close', 'keep-alive', 'upgrade']), 'Upgrade: h2c', 'Expect: 100-continue', 'Range: bytes=0-', 'X: ' + 'y' * r.randrange(20000)]:
        if r.random() < 0.15: headers.append(text)
    body = ''
    if path == '/api/commands':
        if r.random() < 0.8: headers.append('Content-Type: ' + r.choice(['application/json'] * 4 + ['text/plain', 'application/jsonp', '']))
        if r.random() < 0.6: headers.append('Authorization: Bearer ' + r.choice(['password', 'password', 'password', 'wrong', 'eve:eve']))
        if r.random() < 0.7: headers[0] = 'Host: localhost'
        body = r.choice([commands(r)] * 4 + ['[' * r.randrange(2000), '[[' + '"x",' * r.randrange(2000), '{}', '[[]]', '\ufeff[["PING"]]', '[["GET",{"base64":"' + '/' * r.randrange(99) + '"}]]'])
        headers.append('Content-Length: %d' % (len(body.encode()) + r.choice([0, 0, 0, 0, 0, 1, -1, 1 << 20])))
    method = 'POST' if body and r.random() < 0.9 else r.choice(['GET', 'GET', 'GET', 'HEAD', 'POST', 'OPTIONS', 'CONNECT', 'get', 'PRI'])
    version = r.choice(['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', ''])
    return ('%s %s %s\r\n%s\r\n\r\n' % (method, path, version, '\r\n'.join(headers))).encode('latin-1') + body.encode()

def commands(r):
    """The body of a request to the console's API: what may run, what may not, and replies that are large, deep or none."""
    deep = 'local t = {} for i = 1, %d do t = {t} end return t' % r.randrange(200)
    lines = [['PING'], ['SET', 'other', 'x' * r.randrange(5000)], ['GET', 'other'], ['INFO'], ['CONFIG', 'GET', '*'], ['COMMAND', 'DOCS'], ['SCAN', '0'], ['MULTI'], ['EXEC'], ['DISCARD'],
        ['WATCH', 'other'], ['EVAL', deep, '0'], ['EVAL', 'return string.rep("\\1", %d)' % r.randrange(1 << 21), '0'], ['EVAL', 'return redis.status_reply(string.rep("x", %d))' % r.randrange(100000), '0'],
        ['BLPOP', 'nothing', '0'], ['SUBSCRIBE', 'a'], ['MONITOR'], ['HELLO', '2'], ['RESET'], ['QUIT'], ['CLIENT', 'REPLY', 'OFF'], ['CLIENT', 'KILL', 'TYPE', 'pubsub'], ['CLIENT', 'NO-EVICT', 'ON'],
        ['SELECT', str(r.randrange(20))], ['LATENCY', 'TRACE', 'GET'], ['HOTKEYS', 'TOP'], ['MEMORY', 'BIGKEYS'], ['SLOWLOG', 'GET', '-1'], ['NOSUCH', 'x'], ['PUBLISH', 'a', 'b'], ['WAIT', '1', '0']]
    return json.dumps([r.choice(lines) for _ in range(r.choice([0, 1, 1, 2, 5, 256, 257]))])

def changed(r, data):
    data = bytearray(data)
    for _ in range(r.randrange(4)):
        at = r.randrange(len(data) + 1)
        how = r.randrange(5)
        if how == 0: data[at:at + 1] = bytes([r.randrange(256)])
        elif how == 1: del data[at:at + r.randrange(1, 9)]
        elif how == 2: data[at:at] = r.choice([b'\r\n', b'\0', b'\n', b': ', b' ', b'\xff' * 9, b'%', b'\r\n\r\n', b'*1\r\n$4\r\nPING\r\n', b'\t'])
        elif how == 3: data[at:at] = bytes(r.randrange(256) for _ in range(r.randrange(40)))
        else: data = data[:at]
        if not data: break
    return bytes(data)

class Attack:
    def __init__(self, http, seconds):
        self.http, self.ends = http, time.time() + seconds
        self.faults, self.answers, self.lock = [], {}, threading.Lock()
    def goes_on(self): return time.time() < self.ends and not self.faults
    def fault(self, text):
        with self.lock: self.faults.append(text)
    def exchange(self, sent, pieces, patience, half_close=False, is_foreign=False):
        """What comes back; None where nobody took the connection or answered."""
        try:
            s = socket.create_connection(('127.0.0.1', self.http), 5)
        except OSError: return None
        with s:
            s.settimeout(patience)
            got = b''
            try:
                for piece in pieces: s.sendall(piece)
                # A server may take this for the end of whoever asks.
                if half_close: s.shutdown(socket.SHUT_WR)
                while len(got) < 1 << 22:
                    part = s.recv(65536)
                    if not part: break
                    got += part
            except OSError: pass
        self.judge(sent, got, is_foreign)
        return got
    def judge(self, sent, got, is_foreign):
        if SECRET in got: self.fault('what a stranger may not see, after %r' % sent[:300])
        # The answer is behind that.
        while got.startswith(b'HTTP/1.1 100 '): got = got.partition(b'\r\n\r\n')[2]
        if not got: return
        try: status = int(got.split(b' ', 2)[1])
        except (IndexError, ValueError): return self.fault('no status in %r after %r' % (got[:100], sent[:300]))
        with self.lock: self.answers[status] = self.answers.get(status, 0) + 1
        if status not in STATUSES: self.fault('status %d after %r' % (status, sent[:300]))
        if is_foreign and b'redis_up' in got: self.fault('metrics for a foreign site after %r' % sent[:300])
        if b'access-control-' in got.lower(): self.fault('a header that lets other sites read, after %r' % sent[:300])

def change(attack, seed):
    r = random.Random(seed)
    while attack.goes_on():
        whole = [valid(r, attack.http) for _ in range(r.choice([1, 1, 1, 3]))]
        data = changed(r, b''.join(whole))
        # What was changed may mean something else.
        is_foreign = [data] == whole and any(text in data for text in [b'Host: evil.example', b'Origin: http://evil', b'Origin: null'])
        cuts = sorted(r.randrange(len(data) + 1) for _ in range(r.choice([0, 0, 2])))
        attack.exchange(data, [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])], 0.3, r.random() < 0.7, is_foreign)

def dawdle(attack, seed):
    """A byte at a time, or many requests whose answers nobody reads."""
    r = random.Random(seed)
    while attack.goes_on():
        try:
            with socket.create_connection(('127.0.0.1', attack.http), 5) as s:
                s.settimeout(1)
                if r.random() < 0.5:
                    for byte in valid(r, attack.http)[:r.randrange(1, 60)]:
                        s.sendall(bytes([byte]))
                        time.sleep(0.05)
                        if not attack.goes_on(): return
                else:
                    for _ in range(2000): s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
                    time.sleep(r.random() * 3)
        except OSError: pass

def hold(attack, wanted):
    """So many connections at once, of which the server holds only a few."""
    held = []
    while attack.goes_on():
        while len(held) < wanted and attack.goes_on():
            try: held.append(socket.create_connection(('127.0.0.1', attack.http), 1))
            except OSError: time.sleep(0.01)
        time.sleep(1)
        poll = select.poll()
        for s in held: poll.register(s, select.POLLIN)
        left = len(held) - len(poll.poll(0))
        if left > PLACES + 64: attack.fault('%d connections are held' % left)
        for s in held: s.close()
        held.clear()

def resident(pid):
    with open('/proc/%d/status' % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS')) << 10

def watch(ports, ends, told):
    """Asks each server by turns, and tells what each took, in milliseconds, until it ends; then what went wrong, if anything did."""
    times, fault = {port: [] for port in ports}, None
    try:
        clients = {port: Client(port) for port in ports}
        for client in clients.values():
            client('AUTH', 'password')
            client('CLIENT', 'SETNAME', 'watcher')
        while time.time() < ends and not fault:
            for port, client in clients.items():
                began = time.perf_counter()
                if client('GET', 'key') != SECRET: fault = 'another answer to GET'
                times[port].append(1000 * (time.perf_counter() - began))
                time.sleep(0.005)
    except OSError as error: fault = 'the client beside: %r' % error
    told.send((times, fault))

def spread(times):
    times = sorted(times) or [0]
    return 'half within %.2f ms, 99 %% %.1f, 99.9 %% %.1f, the slowest %.0f' % (*(times[int(len(times) * part)] for part in (0.5, 0.99, 0.999)), times[-1])

def started(o, port, directory, *options):
    server = subprocess.Popen([o.server, '--port', str(port), '--save', '', '--dir', directory, *options], stdout=subprocess.DEVNULL)
    for _ in range(200):
        try: client = Client(port); break
        except OSError: time.sleep(0.1)
    else: sys.exit('the server does not listen')
    client('ACL', 'SETUSER', 'default', 'on', '>password')
    client('ACL', 'SETUSER', 'eve', 'on', '>eve', '~other', '+@all', '-@admin')
    client('AUTH', 'password')
    client('SET', 'key', SECRET)
    return server

def executor_seconds(pid):
    """Processor time of the thread that runs commands, which is the first."""
    return int(open('/proc/%d/task/%d/schedstat' % (pid, pid)).read().split()[0]) / 1e9

def conclude(o, attack, server, times, ports, memory):
    for text, port in zip(['attacked', 'not attacked'], ports):
        print('%d GETs of the server that is %s: %s' % (len(times[port]), text, spread(times[port])))
    print('answers', dict(sorted(attack.answers.items())))
    first, most = memory
    print('memory %.0f MB at first, %.0f MB at most' % (first / 1e6, most / 1e6))
    for _ in range(100):
        got = attack.exchange(b'', [b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'], 5)
        if got and b' 200 ' in got.split(b'\r\n')[0]: break
        time.sleep(0.2)
    else: attack.fault('nobody is answered any more')
    if server.poll() is not None: attack.fault('the server has ended')
    worst = max(times[ports[0]], default=0) / 1000
    if worst > 1: attack.fault('a client waited for %.1f s' % worst)
    if most > first + (256 << 20): attack.fault('memory grew to %d MB' % (most >> 20))

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('--seconds', type=int, default=600)
    p.add_argument('--connections', type=int, default=10000); p.add_argument('--seed', type=int, default=random.randrange(1 << 30))
    p.add_argument('--http-commands', choices=['yes', 'no'], default='no'); o = p.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if o.connections + 500 > hard: sys.exit('ulimit -n is %d' % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, o.connections + 500), hard))
    print('seed', o.seed, flush=True)
    directory = tempfile.mkdtemp(prefix='http-hostile-')
    ports, http = [free_port(), free_port()], free_port()
    servers = []
    try:
        servers.append(started(o, ports[0], directory, '--http-port', str(http), '--http-commands', o.http_commands))
        servers.append(started(o, ports[1], directory))
        server, ends = servers[0], time.time() + o.seconds
        mine, its = multiprocessing.Pipe()
        watcher = multiprocessing.Process(target=watch, args=(ports, ends, its), daemon=True)
        watcher.start()
        attack = Attack(http, o.seconds)
        threads = [threading.Thread(target=change, args=(attack, o.seed + n), daemon=True) for n in range(4)]
        threads += [threading.Thread(target=dawdle, args=(attack, o.seed + 100 + n), daemon=True) for n in range(8)]
        threads.append(threading.Thread(target=hold, args=(attack, o.connections), daemon=True))
        used = [executor_seconds(each.pid) for each in servers]
        first = most = resident(server.pid)
        for thread in threads: thread.start()
        while attack.goes_on() and all(each.poll() is None for each in servers):
            most = max(most, resident(server.pid))
            time.sleep(0.1)
        if server.poll() is None:
            used = [executor_seconds(each.pid) - before for each, before in zip(servers, used)]
            print('the executor worked for %.2f s where it is attacked, for %.2f s where it is not' % tuple(used))
        for thread in threads: thread.join(40)
        times, fault = mine.recv() if mine.poll(60) else ({port: [] for port in ports}, 'the client beside does not end')
        if fault: attack.fault(fault)
        conclude(o, attack, server, times, ports, (first, most))
        for text in attack.faults[:10]: print('FAULT:', text)
        if attack.faults: sys.exit('FAILED')
        print('ok')
    finally:
        for each in servers: each.kill(); each.wait(20)
        shutil.rmtree(directory, ignore_errors=True)

if __name__ == '__main__':
    main()
