#!/usr/bin/env python3
"""Bytes a key of small collections, by used_memory, of one or several servers that hold the same data.

usage: small_collections.py SERVER_BINARY [--reference valkey-server] [--other SERVER_BINARY] [--keys 100000] [--rows regex] [--json FILE]

The data is made up from a fixed seed: users, sessions, products, features, carts, tags, leaderboards and tokens, as applications store
them. The table has a line for each kind and a column for each server.
"""
import argparse, json, random, re, socket, subprocess, sys, tempfile, time, uuid

LETTERS = 'abcdefghijklmnopqrstuvwxyz'
DAY_S = 24 * 3600
BATCH_KEYS = 200

def word(draw, shortest, longest):
    return ''.join(draw.choice(LETTERS) for _ in range(draw.randint(shortest, longest)))

class Data:
    """The commands that create one key of each kind."""
    def __init__(self, seed=7):
        self.draw = random.Random(seed)
        self.cities = [word(self.draw, 4, 12).title() for _ in range(150)]
        self.names = [word(self.draw, 3, 9).title() for _ in range(500)]
        self.agents = ['Mozilla/5.0 (X11; Linux x86_64)', 'Mozilla/5.0 (iPhone)', 'curl/8.5.0']
    def uuid(self): return str(uuid.UUID(int=self.draw.getrandbits(128)))
    def user(self, n):
        draw, first, last = self.draw, self.draw.choice(self.names), word(self.draw, 4, 10).title()
        mail = '%s.%s@%s' % (first.lower(), last.lower(), draw.choice(['gmail.com', 'example.org', 'mail.net']))
        yield ('HSET', 'user:%d' % n, 'name', first + ' ' + last, 'mail', mail, 'city', draw.choice(self.cities),
               'country', draw.choice(['DE', 'FR', 'US', 'UK', 'IT', 'ES']), 'age', draw.randint(18, 90),
               'created', 1700000000 + draw.randint(0, 60000000), 'score', '%.2f' % (draw.random() * 100),
               'plan', draw.choice(['free', 'basic', 'pro', 'team']), 'active', draw.choice([0, 1]))
    def session(self, n):
        draw, key = self.draw, 'session:' + self.uuid()
        address = '.'.join(str(draw.randint(1, 255)) for _ in range(4))
        yield ('HSET', key, 'user', draw.randint(1, 1000000), 'token', '%032x' % draw.getrandbits(128), 'ip', address,
               'agent', draw.choice(self.agents), 'created', 1764000000 + n, 'seen', 1764000000 + n + draw.randint(0, 9999),
               'csrf', self.uuid())
        yield 'EXPIRE', key, DAY_S
    def product(self, n):
        draw = self.draw
        yield ('HSET', 'product:%d' % n, 'sku', 'SKU-%d' % draw.randint(1000000, 9999999),
               'title', ' '.join(word(draw, 3, 9) for _ in range(5)), 'price', '%.2f' % (draw.random() * 500), 'currency', 'EUR',
               'stock', draw.randint(0, 1000), 'category', draw.choice(self.cities), 'brand', draw.choice(self.names),
               'weight', draw.randint(10, 9999), 'url', '/p/' + word(draw, 12, 12))
    def features(self, n):
        draw, pairs = self.draw, []
        for feature in range(20):
            value = draw.choice([draw.randint(0, 100), draw.randint(0, 100000), '%.4f' % draw.random()])
            pairs += ['feature_%02d' % feature, value]
        yield 'HSET', 'features:%d' % n, *pairs
    def five_fields(self, n):
        yield 'HSET', 'key:%09d' % n, *(text for field in range(5) for text in ('fld%02d' % field, word(self.draw, 10, 10)))
    def cart(self, n):
        draw = self.draw
        items = {'sku:%d' % draw.randint(100000, 999999): draw.randint(1, 9) for _ in range(4)}
        yield 'HSET', 'cart:%d' % n, *(text for item in items.items() for text in item)
    def recent(self, n):
        time_s, pairs = 1764000000, []
        for _ in range(20):
            time_s += self.draw.randint(1, 5000)
            pairs += [time_s, self.draw.randint(1000000, 9999999)]
        yield 'ZADD', 'recent:%d' % n, *pairs
    def tags(self, n): yield 'SADD', 'tags:%d' % n, *(self.draw.choice(self.names).lower() for _ in range(5))
    def ids(self, n): yield 'SADD', 'ids:%d' % n, *('u%d' % self.draw.randint(1000000, 9999999) for _ in range(10))
    def token(self, n): yield 'SET', 'token:' + self.uuid(), self.draw.randint(1, 1000000), 'EX', DAY_S
    def lock(self, n): yield 'SET', 'lock:%d' % n, self.uuid(), 'EX', DAY_S
    def counter(self, n): yield 'SET', 'counter:%d' % n, self.draw.randint(1, 1000000), 'EX', DAY_S

ROWS = [
    ('user, 9 fields', Data.user), ('session, 7 fields, TTL', Data.session), ('product, 9 fields', Data.product),
    ('features, 20 numeric fields', Data.features), ('5 fields of 5 B, values of 10 B', Data.five_fields), ('cart, 4 entries', Data.cart),
    ('sorted set of 20 ids by time', Data.recent), ('set of 5 tags', Data.tags), ('set of 10 ids', Data.ids),
    ('token, TTL', Data.token), ('lock, TTL', Data.lock), ('counter, TTL', Data.counter),
]

def encoded(words):
    words = [str(word).encode() for word in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)

class Server:
    def __init__(self, binary):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        self.process = subprocess.Popen([binary, '--port', str(port), '--save', '', '--dir', tempfile.mkdtemp(prefix='small-')],
                                        stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.connection = socket.create_connection(('127.0.0.1', port), 60)
                return
            except OSError: time.sleep(0.05)
        sys.exit('%s does not listen' % binary)
    def run(self, commands):
        """Sends commands whose replies are one line each."""
        self.connection.sendall(b''.join(map(encoded, commands)))
        lines, data = len(commands), b''
        while data.count(b'\n') < lines:
            received = self.connection.recv(1 << 20)
            if not received: sys.exit('a server closed the connection')
            data += received
        if b'-ERR' in data: sys.exit('a server says %r' % data[:200])
    def used_bytes(self):
        self.connection.sendall(encoded(['INFO', 'memory']) + encoded(['PING']))
        data = b''
        while not data.endswith(b'+PONG\r\n'): data += self.connection.recv(1 << 20)
        return int(re.search(rb'\nused_memory:(\d+)', data).group(1))
    def bytes_per_key(self, kind, keys):
        self.run([['FLUSHALL']])
        # Freed memory, buffers and tables are settled.
        time.sleep(0.5)
        before, data = self.used_bytes(), Data()
        for first in range(0, keys, BATCH_KEYS):
            self.run([command for n in range(first, min(first + BATCH_KEYS, keys)) for command in kind(data, n)])
        return (self.used_bytes() - before) / keys
    def stop(self):
        self.process.terminate()
        self.process.wait()

def main():
    p = argparse.ArgumentParser(usage=__doc__.split('\n\n')[1])
    p.add_argument('server')
    p.add_argument('--reference')
    p.add_argument('--other')
    p.add_argument('--keys', type=int, default=100000)
    p.add_argument('--rows', default='')
    p.add_argument('--json')
    o = p.parse_args()
    servers = [(name, Server(binary)) for name, binary in
               [('reference', o.reference), ('other', o.other), ('warmline', o.server)] if binary]
    print('| bytes a key, %d keys | %s |' % (o.keys, ' | '.join(name for name, _ in servers)))
    print('|---|%s' % ('---:|' * len(servers)))
    table = {}
    for name, kind in ROWS:
        if re.search(o.rows, name):
            table[name] = {of: round(server.bytes_per_key(kind, o.keys), 1) for of, server in servers}
            print('| %s | %s |' % (name, ' | '.join('%.1f' % figure for figure in table[name].values())), flush=True)
    if o.json: json.dump(table, open(o.json, 'w'), indent=1)
    for _, server in servers: server.stop()

main()
