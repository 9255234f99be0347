#!/usr/bin/env python3
"""The web console in a real browser, against a live server with many keys of all types, some of which are HTML or script.

usage: console.py SERVER_BINARY AXE_JS [--keys 1000000] [--pictures DIRECTORY] [--page-port PORT] [--only VIEW]

Needs `chromium` and `chromium-driver` (Debian), `selenium` (PyPI), and AXE_JS, `axe.min.js` of the npm package `axe-core`. Each view is
used as a person would, compared with what the server says by its own protocol, and looked at light and dark, 360 and 1280 wide. Then the
server changes while the page is open: its password, what is switched off, its process, its role. Fails on a message in the browser's console, a
dialog, a script that has run, a page wider than its window, a serious fault that axe finds, or a step whose result does not appear.
"""
import argparse, json, os, random, shutil, socket, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PASSWORD = 'p\u00e4ss'
ATTACKS = ['<img src=x onerror="window.ran=1;alert(1)">', '<script>window.ran=1</script>', '"><svg onload=window.ran=1>', "javascript:window.ran=1",
    "';window.ran=1;//", '<iframe srcdoc="<script>parent.ran=1</script>">', '{{constructor.constructor("window.ran=1")()}}', '\u202eevil', '<a href="javascript:window.ran=1">x</a>']
VIEWS = ['overview', 'memory', 'hot', 'slow', 'clients', 'replication', 'configuration', 'keys', 'terminal']

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

class Client:
    def __init__(self, port, password=PASSWORD):
        self.socket = socket.create_connection(('127.0.0.1', port), 60)
        self.file = self.socket.makefile('rb')
        self('HELLO', 3, 'AUTH', 'default', password)
    def encoded(self, words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)
    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b'$': return None if rest == b'-1' else self.file.read(int(rest) + 2)[:-2]
        if kind in b'*~': return [self.read() for _ in range(max(int(rest), 0))]
        if kind == b'%': return {self.read(): self.read() for _ in range(int(rest))}
        if kind == b'=': return self.file.read(int(rest) + 2)[4:-2]
        if kind == b':': return int(rest)
        if kind == b',': return float(rest)
        return None if kind == b'_' else rest
    def __call__(self, *words):
        self.socket.sendall(self.encoded(words))
        return self.read()
    def pipeline(self, commands):
        self.socket.sendall(b''.join(map(self.encoded, commands)))
        return [self.read() for _ in commands]

def fill(client, keys):
    """Keys of all types; what could be taken for markup is in keys, fields, elements, names and the slow log."""
    client('DEBUG', 'POPULATE', keys, 'session:user', 40)
    client('CONFIG', 'SET', 'latency-monitor-threshold', 1, 'slowlog-log-slower-than', 0)
    client('CONFIG', 'SET', 'memory-prefixes', 'user:* cart:* session:*')
    client('POLICY', 'SET', 'cache:*', 'compress-values', 'yes')
    client('POLICY', 'SET', '<b>rule</b>:*', 'hash-max-listpack-entries', 8)
    client('LATENCY', 'TRACE', 'START', 'EVERY', 100)
    commands = []
    for i in range(2000):
        commands.append(['HSET', 'user:%d' % i, 'name', 'Name %d' % i, 'mail', 'name%d@example.org' % i, 'visits', i])
        commands.append(['SET', 'cache:page:%d' % i, 'x' * random.randrange(10, 2000), 'EX', 3600 + i])
        commands.append(['ZADD', 'board:%d' % (i % 20), i * 1.5, 'player-%d' % i])
        commands.append(['SADD', 'tags:%d' % (i % 50), 'tag-%d' % i])
        commands.append(['RPUSH', 'queue:%d' % (i % 10), json.dumps({'job': i, 'big': 12345678901234567890})])
        commands.append(['XADD', 'events', '*', 'kind', 'login', 'user', i])
    commands += [['HSET', 'large:hash'] + [word for i in range(500) for word in ('field-%d-%d' % (part, i), i)] for part in range(20)]
    commands += [['ZADD', 'large:scores'] + [word for i in range(500) for word in (part * 500 + i, 'member-%d-%d' % (part, i))] for part in range(20)]
    commands += [['XGROUP', 'CREATE', 'events', 'workers', '0'], ['SET', 'json', json.dumps({'name': 'A', 'parts': [1, 2, {'deep': True}], 'empty': {}})],
        ['SET', 'binary', bytes(range(256)) * 20], [b'SET', b'\xff\x00key', b'\xfe'], ['SET', 'long:text', 'Words and more words. ' * 20000], ['SET', '', 'empty name'],
        ['PFADD', 'visitors'] + list(range(1000)), ['SETBIT', 'bits', 1000, 1], ['SADD', 'numbers'] + list(range(3000)),
        ['SET', 'large:element', 'x'], ['RPUSH', 'large:list'] + ['v' * 3000000] * 4]
    for attack in ATTACKS:
        commands += [['SET', 'attack:' + attack, attack], ['HSET', 'attack:hash', attack, attack], ['RPUSH', 'attack:list', attack], ['SADD', 'attack:set', attack],
            ['ZADD', 'attack:zset', 1, attack], ['XADD', 'attack:stream', '*', attack, attack], ['CONFIG', 'SET', 'latency-monitor-threshold', 1]]
    # Names that are long, also together, and one of which nothing can be asked.
    commands += [['SELECT', 1]] + [['SET', 'n' * 9000 + str(i), i] for i in range(100)] + [['SET', 'm' * 150000, 'x'], ['SELECT', 0]]
    commands += [['SELECT', 2], ['SET', 'l' * (9 << 20), 'x'], ['SELECT', 0]]
    for at in range(0, len(commands), 500):
        client.pipeline(commands[at:at + 500])
    client('CLIENT', 'SETNAME', '<b>name</b>')
    client('ACL', 'SETUSER', 'weak', 'on', '>weak', '~user:*', '+info', '+scan', '+type', '+@connection')

class Load(threading.Thread):
    """Somebody whose work the charts show."""
    def __init__(self, port):
        super().__init__(daemon=True)
        self.client, self.runs, self.rests = Client(port), True, False
        self.client('CLIENT', 'SETNAME', 'load')
    def run(self):
        while self.runs:
            if self.rests: time.sleep(0.05); continue
            ranks = [min(int(random.paretovariate(1.0)), 2000) - 1 for _ in range(60)]
            commands = [random.choice([['HGETALL', 'user:%d' % rank], ['GET', 'cache:page:%d' % rank], ['GET', 'nothing:%d' % rank], ['HINCRBY', 'user:%d' % rank, 'visits', 1],
                ['ZRANGE', 'board:%d' % (rank % 20), 0, 20]]) for rank in ranks]
            commands += [['INCR', '<img src=x onerror=window.ran=1>:%d' % rank] for rank in range(3)]
            if random.random() < 0.05: commands += [['SMEMBERS', 'numbers'], ['GET', ATTACKS[0]], ['INCR', 'json']]
            self.client.pipeline(commands)
            time.sleep(0.01)

class Browser:
    def __init__(self, address, axe, pictures):
        options = webdriver.ChromeOptions()
        for argument in ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--lang=en']: options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        # Nothing is looked for elsewhere, and nobody is told.
        os.environ.update(SE_OFFLINE='true', SE_AVOID_STATS='true')
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which('chromedriver')))
        self.address, self.axe, self.pictures, self.faults = address, axe, pictures, []
    def wait(self, what, check, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if check(): return
            except Exception as error:
                if 'alert' in type(error).__name__.lower(): raise
                what = '%s (%r)' % (what.split(' (')[0], error)
            time.sleep(0.1)
        picture = os.path.join(tempfile.gettempdir(), 'console-fault-%d.png' % os.getpid())
        self.driver.save_screenshot(picture)
        sys.exit('%s: it does not come true. The page: %s\nin %s' % (what, self.text()[:2000], picture))
    def rows(self, card):
        """The texts of a card's table, cell by cell; blanks between figures and units left out."""
        return self.driver.execute_script("""const card = [...document.querySelectorAll('main .card')].find(c => c.querySelector('h2')?.textContent === arguments[0]);
            return [...card?.querySelectorAll('tbody tr') ?? []].map(row => [...row.cells].map(cell => {
                const unit = cell.querySelector('.unit');
                return unit ? unit.previousSibling.textContent + unit.textContent : cell.textContent; }));""", card)
    def stages(self, card):
        return self.driver.execute_script("""const card = [...document.querySelectorAll('main .card')].find(c => c.querySelector('h2')?.textContent === arguments[0]);
            return [...card.querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('.legend')].map(l => l.textContent));""", card)
    def figure(self, name):
        return self.driver.execute_script("return [...document.querySelectorAll('main dt')].find(dt => dt.textContent === arguments[0])?.nextElementSibling.textContent", name)
    def tile(self, name): return self.figure(name)
    def text(self, selector='body'):
        return self.driver.find_element(By.CSS_SELECTOR, selector).text
    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)
    def button(self, name):
        self.wait('a button ' + name, lambda: self.buttons(name))
        self.buttons(name)[0].click()
    def buttons(self, name):
        return [b for b in self.driver.find_elements(By.CSS_SELECTOR, 'button') if b.text.strip() == name and b.is_displayed() and b.is_enabled()]
    def shows(self, *words):
        for word in words: self.wait('%r is shown' % word, lambda: word in self.text('main'))
    def type(self, selector, text):
        field = self.find(selector)
        field.clear(); field.send_keys(text)
    def size(self, width, height):
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': width < 500})
    def theme(self, theme):
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': theme}]})
    def visit(self, view):
        self.driver.execute_script('location.hash = "#/" + arguments[0]', view)
        self.wait(view + ' is current', lambda: self.driver.execute_script('return document.querySelector("nav a[aria-current]")?.hash') == '#/' + view.split('?')[0])
        self.wait(view + ' is there', lambda: 'Asking the server' not in self.text('main') and self.driver.find_elements(By.CSS_SELECTOR, 'main h1'))
    def check(self, what):
        """What must hold at any time."""
        for entry in self.driver.get_log('browser'): self.faults.append('%s: the console says %s' % (what, entry['message']))
        if self.driver.execute_script('return window.ran'): sys.exit(what + ': a script has run')
        wide = self.driver.execute_script('return document.documentElement.scrollWidth - window.innerWidth')
        if wide > 0: self.faults.append('%s: the page is %d pixels wider than its window' % (what, wide))
    def accessible(self, what):
        if not self.driver.execute_script('return typeof axe === "object"'): self.driver.execute_script(self.axe)
        found = self.driver.execute_async_script('''const done = arguments[0];
            axe.run(document, { resultTypes: ["violations"] }).then(r => done(r.violations.map(v => [v.impact, v.id, v.nodes.length, v.nodes[0].html, v.nodes[0].failureSummary])))
                .catch(e => done([["serious", String(e), 0, "", ""]]))''')
        for impact, rule, count, html, summary in found:
            line = '%s: %s %s (%d): %s %s' % (what, impact, rule, count, html[:200], summary.replace('\n', ' ')[:300])
            if impact in ('serious', 'critical'): self.faults.append(line)
            else: print('note:', line)
    def picture(self, name):
        if self.pictures: self.driver.save_screenshot(os.path.join(self.pictures, name + '.png'))

def log_in(browser, user, password):
    browser.wait('the form', lambda: browser.driver.find_elements(By.ID, 'password'))
    browser.type('#user', user); browser.type('#password', password)
    browser.find('#password').send_keys(Keys.ENTER)

def use_overview(browser, client):
    browser.shows('Commands', 'Latency', 'Hit rate', 'Keys')
    browser.wait('rates', lambda: '/s' in browser.text('.tiles'))
    browser.wait('latencies in words', lambda: 'calls: half within' in browser.text('main'))
    agrees(browser, 'keys', lambda: browser.tile('Keys'), lambda: scaled(sum(int(line.split(b'keys=')[1].split(b',')[0])
        for line in client('INFO', 'keyspace').split() if b'keys=' in line), 1000, ['', 'k', 'M']))
    for window in ['15 min', '1 hour', '5 min']: browser.button(window)
    canvas = browser.find('canvas')
    canvas.send_keys(Keys.ARROW_LEFT)
    assert 'commands now' in canvas.get_attribute('aria-label')

def scaled(number, step, units):
    """A figure as the page writes it."""
    at, value = 0, float(number)
    while abs(value) >= step * 0.9995 and at + 1 < len(units): value, at = value / step, at + 1
    digits = 0 if at == 0 and value == int(value) else 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return '%.*f%s' % (digits, value, units[at])

def in_bytes(number): return scaled(number, 1024, ['B', 'KB', 'MB', 'GB', 'TB'])

def text_of(value):
    """Bytes as the page writes them."""
    try: text = value.decode()
    except UnicodeDecodeError: return ''.join(chr(b) if 32 <= b < 127 and b != 92 else '\\x%02x' % b for b in value)
    return ''.join('\\u%04x' % ord(c) if ord(c) < 32 and c not in '\t\n' or 0x202a <= ord(c) <= 0x202e else c for c in text)

def same(what, shown, told):
    if shown != told: sys.exit('%s: the page shows\n%s\nand the server says\n%s' % (what, shown, told))

def agrees(browser, what, read, tell):
    """What the page shows comes to be what the server says, while both go on."""
    last = []
    def check():
        last[:] = [read(), tell()]
        return last[0] == last[1]
    try: browser.wait(what, check, 15)
    except SystemExit: same(what, *last)

def prefix_rows(client):
    return sorted([text_of(row[b'prefix']), '%s' % format(row[b'keys'], ','), in_bytes(row[b'bytes'])] for row in client('MEMORY', 'PREFIXES'))

def use_memory(browser, client):
    browser.shows('By class', 'Data', 'Big keys', 'Look through keys', 'By rule')
    browser.wait('keys are counted', lambda: all(row[b'state'] == b'exact' for row in client('MEMORY', 'PREFIXES') + client('POLICY', 'STATS')), 120)
    # What changes between two answers would differ.
    browser.load.rests = True
    def shown(card, *columns):
        def read():
            browser.button('Refresh'); time.sleep(0.4)
            return sorted([row[at] for at in columns] for row in browser.rows(card))
        return read
    agrees(browser, 'prefixes', shown('By prefix', 0, 1, 2), lambda: prefix_rows(client))
    for card, field in [('By type', b'types'), ('By encoding', b'encodings')]:
        def sums():
            found = {}
            for row in client('MEMORY', 'PREFIXES'):
                for name, part in row[field].items():
                    keys, size = found.get(name, (0, 0))
                    found[name] = keys + part[b'keys'], size + part[b'bytes']
            return sorted([name.decode(), format(keys, ','), in_bytes(size)] for name, (keys, size) in found.items())
        agrees(browser, card, shown(card, 0, 1, 2), sums)
    agrees(browser, 'rules', shown('By rule', 0, 1, 2, 5, 6), lambda: sorted([text_of(row[b'glob']), format(row[b'keys'], ','), in_bytes(row[b'bytes']),
        format(row[b'compressed-values'], ','), in_bytes(row[b'saved-bytes'])] for row in client('POLICY', 'STATS')))
    if not any(row[b'saved-bytes'] for row in client('POLICY', 'STATS')): sys.exit('no rule has saved anything')
    agrees(browser, 'big keys', shown('Big keys', 1, 2, 3, 4), lambda: sorted([row[b'type'].decode(), row[b'encoding'].decode(), format(row[b'elements'], ','),
        in_bytes(row[b'bytes'])] for row in client('MEMORY', 'BIGKEYS', 'COUNT', 50)))
    browser.load.rests = False
    browser.button('Look through keys')
    browser.wait('progress', lambda: 'of 1' in browser.text('main') or 'keys' in browser.text('main'))
    browser.button('Cancel')
    browser.shows('A part of the keys')

def use_hot(browser, client):
    for order, name, weigh in [('CALLS', 'Calls', lambda row: row[b'calls']), ('CPU', 'Processor time', lambda row: row[b'cpu_us']),
            ('BYTES', 'Bytes', lambda row: row[b'bytes_in'] + row[b'bytes_out'])]:
        browser.button(name)
        def matches():
            told = client('HOTKEYS', 'TOP', 'BY', order, 'COUNT', 50)
            known = {(text_of(row[b'key']), str(row[b'db']), row[b'kind'].decode()): row for row in told}
            rows = [(tuple(row[:3]), row[3]) for row in browser.rows('Hot keys')]
            first = [known.get(key) for key, _ in rows[:5]]
            # Rates go on changing; who is first is not in doubt by more than they do.
            return len(rows) == len(told) and len(told) > 20 and all(first) and weigh(first[0]) >= 0.8 * weigh(told[0]) and all(calls.endswith('/s') for _, calls in rows)
        browser.wait('the hottest keys by ' + order, matches)
    browser.button('Calls')
    browser.shows('<img src=x onerror=window.ran=1>:0')

def use_slow(browser, client):
    browser.shows('Slow commands', 'Where time went', 'Events')
    browser.wait('an entry', lambda: len(browser.driver.find_elements(By.CSS_SELECTOR, 'tbody tr')) > 20)
    # Nothing is added from here on.
    client('LATENCY', 'TRACE', 'STOP')
    client('CONFIG', 'SET', 'slowlog-log-slower-than', 10000000)
    browser.button('Refresh')
    def time(us): return '%dµs' % us if us < 999.5 else scaled_time(us)
    def log():
        return [[str(entry[0]), time(entry[2]), text_of(entry[4]), text_of(entry[5])] for entry in client('SLOWLOG', 'GET', 128, 'STAGES')]
    agrees(browser, 'the slow log', lambda: [[row[-1].replace(',', ''), row[1], row[-3], row[-2]] for row in browser.rows('Slow commands')], log)
    if not any(entry[6] for entry in client('SLOWLOG', 'GET', 128, 'STAGES')): sys.exit('no entry of the slow log has its stages')
    traces = client('LATENCY', 'TRACE', 'GET', 'COUNT', 100)
    agrees(browser, 'traces', lambda: [[row[1], row[5], row[6]] for row in browser.rows('Where time went')],
        lambda: [[time(row[b'total-us']), row[b'user'].decode(), str(row[b'db'])] for row in traces])
    parts = [sorted(name.decode().replace('-', ' ') + ' ' + spaced(time(us)) for name, us in row[b'stages'].items() if us > 0) for row in traces]
    agrees(browser, 'stages', lambda: [sorted(part.strip() for part in row) for row in browser.stages('Where time went')], lambda: parts)
    agrees(browser, 'events', lambda: sorted(row[0] for row in browser.rows('Events') if len(row) > 1), lambda: sorted(row[0].decode() for row in client('LATENCY', 'LATEST')))
    browser.driver.find_element(By.XPATH, '//th/button[text()="Took"]').click()
    client('LATENCY', 'TRACE', 'START', 'EVERY', 100)
    client('CONFIG', 'SET', 'slowlog-log-slower-than', 0)

def scaled_time(us):
    if us < 999500: return '%.*fms' % (2 if us < 9995 else 1 if us < 99950 else 0, us / 1e3)
    return '%.*fs' % (2 if us < 9.995e6 else 1, us / 1e6)

def spaced(figure): return figure.replace('µs', ' µs').replace('ms', ' ms') if not figure[-2:-1].isdigit() else figure[:-1] + ' s'

def use_clients(browser, client):
    browser.shows('<b>name</b>')
    def lines(): return sorted(line.split()[0][3:].decode() for line in client('CLIENT', 'LIST', 'TYPE', 'normal').splitlines() if b'name=<b>' in line or b'name=load' in line)
    agrees(browser, 'clients', lambda: sorted(row[0] for row in browser.rows('Clients') if row[2] in ('<b>name</b>', 'load')), lines)
    browser.type('#client-filter', 'b>name')
    browser.shows('1 of')

def use_replication(browser, client):
    browser.shows('primary', 'Last save', 'Append-only file')
    def info(name): return next(line.split(b':')[1].decode() for line in client('INFO', 'replication', 'persistence').splitlines() if line.startswith(name + b':'))
    agrees(browser, 'the stream', lambda: browser.figure('Stream'), lambda: info(b'master_replid'))
    agrees(browser, 'saves', lambda: browser.figure('Saves'), lambda: info(b'rdb_saves'))

def use_configuration(browser, client):
    browser.shows('maxmemory')
    told = {name.decode(): value for name, value in client('CONFIG', 'GET', '*').items()}
    rows = {row[0].split()[0]: row[1] for row in browser.rows('Options')}
    same('names of options', sorted(rows), sorted(told))
    for name, value in told.items():
        if len(value) < 100 and rows[name] != (text_of(value).strip() or 'empty'): same('the option ' + name, rows[name], value)
    browser.type('#option-search', 'http-port')
    browser.wait('it is found', lambda: browser.text('caption').startswith('1 of'))
    browser.find('input[type=checkbox]').click()
    browser.shows('set')

def open_key(browser, key):
    browser.visit('keys')
    browser.driver.execute_script('location.hash = "#/keys?db=0&key=" + encodeURIComponent(arguments[0])', key)
    browser.wait('the key ' + key, lambda: (key[:20] or 'empty') in browser.text('.key-name'))
    browser.wait('its value', lambda: 'Layout in memory' in browser.text('main') or 'cannot be shown' in browser.text('main'))

def use_keys(browser, client):
    browser.shows('keys in the database')
    browser.type('#key-pattern', 'attack:*')
    browser.button('Search')
    browser.wait('a search of all keys is under way', lambda: 'found' in browser.text('main'))
    browser.wait('all are found', lambda: browser.text('caption').startswith('%d keys' % (len(ATTACKS) + 5)), 120)
    browser.button('Count all')
    browser.button('Cancel')
    browser.shows('(cancelled)')
    browser.button('Count all')
    browser.wait('all are counted', lambda: '%d of %s keys match.' % (len(ATTACKS) + 5, format(client('DBSIZE'), ',')) in browser.text('main'), 300)
    for database, words in [(1, ['101 keys', 'more)']), (2, ['The replies exceed'])]:
        browser.type('#key-db', str(database)); browser.type('#key-pattern', '*')
        browser.button('Search')
        browser.wait('names that are long', lambda: 'in the database' in browser.text('main') or 'Replies' in browser.text('main'))
        while browser.buttons('More'): browser.button('More')
        browser.shows(*words)
    # Nothing that large can be answered: the browser says so too.
    browser.driver.get_log('browser')
    browser.driver.execute_script('location.hash = "#/keys?db=1&key=" + "m".repeat(150000)')
    browser.shows('Its name is too long')
    browser.type('#key-db', '0')
    for key, words in [('attack:' + ATTACKS[0], [ATTACKS[0]]), ('attack:hash', ATTACKS[:3]), ('attack:list', ATTACKS[:3]), ('attack:set', ATTACKS[:3]), ('attack:zset', ATTACKS[:3]),
            ('attack:stream', ATTACKS[:3]), ('json', ['"deep": true']), ('binary', ['000010']), ('long:text', ['Part 1 of']), ('user:7', ['name7@example.org']), ('visitors', ['string']),
            ('events', ['workers', 'login']), ('', ['empty name']), ('large:list', ['Index'])]:
        open_key(browser, key)
        browser.shows(*words)
        browser.check('the key ' + key)
    open_key(browser, 'large:scores')
    browser.shows('member-0-0')
    browser.button('Next')
    browser.shows('member-0-50')
    browser.button('Previous')
    browser.shows('member-0-0')
    browser.driver.execute_script('location.hash = "#/keys?db=0&key64=%2FwBrZXk%3D"')
    browser.shows('\\xff\\x00key')

def use_terminal(browser, client):
    def say(line):
        browser.find('#command').send_keys(line + Keys.ENTER)
    browser.wait('the field', lambda: browser.find('#command'))
    browser.find('#command').send_keys('zrange')
    browser.shows('ZRANGE key start stop')
    browser.find('#command').send_keys(' large:scores 0 1' + Keys.ENTER)
    browser.shows('member-0-1')
    for line, reply in [('PING', 'PONG'), ('SET a b', 'NOPERM'), ('MONITOR', 'does not run over HTTP'), ('GET "attack:%s' % 'x', 'quotes'), ('GET json', '\\"deep\\"'),
            ('HGETALL attack:hash', '<script>window.ran=1</script>'), ('NOSUCH', 'unknown command'), ('INFO server', 'process_id')]:
        say(line)
        browser.wait(line, lambda: reply in browser.text('.log'))
    browser.find('#command').send_keys(Keys.ARROW_UP)
    assert browser.find('#command').get_attribute('value') == 'INFO server'
    browser.find('#command').clear()

def attack_from_outside(http):
    """What a page of another site, or a foreign name that leads here, may learn: nothing."""
    for headers, status in [({'Host': 'evil.example'}, 421), ({'Origin': 'http://evil.example'}, 403)]:
        try:
            urllib.request.urlopen(urllib.request.Request('http://127.0.0.1:%d/' % http, headers=headers), timeout=10)
            sys.exit('%s was answered' % headers)
        except urllib.error.HTTPError as error:
            if error.code != status: sys.exit('%s: %d' % (headers, error.code))

def run(o, browser, client):
    browser.size(1280, 900)
    browser.driver.get(browser.address)
    log_in(browser, 'default', 'wrong')
    browser.shows('password is wrong')
    browser.driver.get_log('browser')
    browser.accessible('the form')
    browser.picture('login')
    log_in(browser, 'default', PASSWORD)
    browser.shows('Commands')
    browser.driver.get_log('browser')
    views = [view for view in VIEWS if o.only in (None, view)]
    for view in views:
        browser.visit(view)
        globals()['use_' + view](browser, client)
        browser.check(view)
        print(view, 'is used', flush=True)
    if o.seconds: browser.visit('overview'); time.sleep(o.seconds)
    for width, height in [(1280, 900), (360, 740)]:
        browser.size(width, height)
        for theme in ['light', 'dark']:
            browser.theme(theme)
            for view in views:
                what = '%s-%s-%d' % (view, theme, width)
                if view == 'keys': open_key(browser, 'large:hash')
                else: browser.visit(view)
                time.sleep(1.2)
                browser.check(what); browser.accessible(what); browser.picture(what)
    # Somebody who may little is told what is missing, and the rest works.
    browser.size(1280, 900)
    browser.button('Log out')
    log_in(browser, 'weak', 'weak')
    browser.wait('somebody is logged in', lambda: browser.buttons('Log out'))
    # Before somebody has logged in, the server has refused to answer.
    browser.driver.get_log('browser')
    for view in views:
        browser.visit(view)
        time.sleep(0.5)
        browser.accessible('weak ' + view)
    browser.check('a user who may little')

def see_by_keyboard(browser):
    """Everything that can be used is reached with Tab, and shows that it has been; what is made anew beneath somebody stays where it is."""
    tab = lambda: ActionChains(browser.driver).send_keys(Keys.TAB).perform()
    for view in VIEWS:
        browser.visit(view)
        time.sleep(1)
        browser.driver.execute_script("""document.activeElement.blur(); getSelection().removeAllRanges(); window.reached = new Set(); window.unseen = [];
            document.querySelector('.skip').focus(); window.reached.add(document.activeElement);""")
        for _ in range(120):
            tab()
            if browser.driver.execute_script("""const one = document.activeElement; if (one === document.body) return true;
                const style = getComputedStyle(one), name = one.tagName + (one.getAttribute('aria-label') ?? one.id ?? '') + one.textContent.slice(0, 30);
                if ((style.outlineStyle === 'none' || parseFloat(style.outlineWidth) === 0) && style.boxShadow === 'none') window.unseen.push(name);
                if (one.closest('tbody')) { [...document.querySelectorAll('main .scroll')].find(s => s.contains(one)).querySelectorAll('tbody a').forEach(a => window.reached.add(a)); }
                window.reached.add(one); return false;"""): break
            # The rest of a long table is like its beginning.
            browser.driver.execute_script("""const links = document.activeElement.closest('tbody')?.querySelectorAll('a, summary'); if (links?.length > 3) links[links.length - 1].focus();""")
        missed, unseen = browser.driver.execute_script("""const all = [...document.querySelectorAll('a[href], button:not([disabled]), input, select, summary, [tabindex="0"]')];
            const shown = all.filter(one => one.getClientRects().length && !one.closest('tbody'));
            return [shown.filter(one => !window.reached.has(one)).map(one => one.outerHTML.slice(0, 120)), window.unseen];""")
        if missed: browser.faults.append('%s: Tab does not come to %s' % (view, missed))
        if unseen: browser.faults.append('%s: nothing shows that one is at %s' % (view, unseen))
    browser.visit('hot')
    browser.wait('a key', lambda: browser.rows('Hot keys'))
    browser.driver.execute_script("document.querySelector('tbody a').focus()")
    key = browser.driver.execute_script("return document.activeElement.getAttribute('href')")
    time.sleep(7)
    same('who is on a key, after the table was made anew', browser.driver.execute_script("return document.activeElement.getAttribute('href')"), key)
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    browser.wait('the key', lambda: browser.driver.find_elements(By.CSS_SELECTOR, '.key-name') and browser.driver.execute_script('return location.hash') == key)

def see_what_is_off(browser, client):
    """What is switched off, or has nothing yet, is said in its place."""
    rules = [(row[b'glob'], [word for pair in row[b'settings'].items() for word in pair]) for row in client('POLICY', 'LIST')]
    client('POLICY', 'DEL', *(glob for glob, _ in rules))
    client('CONFIG', 'SET', 'hot-keys', 'no', 'memory-prefixes', '', 'latency-monitor-threshold', 0, 'slowlog-log-slower-than', -1)
    for words in [('LATENCY', 'TRACE', 'STOP'), ('LATENCY', 'TRACE', 'RESET'), ('SLOWLOG', 'RESET'), ('LATENCY', 'RESET')]: client(*words)
    for view, words in [('memory', ['No prefixes are counted', 'There are no rules']), ('hot', ['the option hot-keys is no']),
            ('slow', ['Nothing has been traced', 'none are kept', 'No command has been that slow', 'the latency monitor is off'])]:
        browser.visit(view)
        browser.shows(*words)
        browser.check('what is off: ' + view)
        browser.accessible('what is off: ' + view)
    browser.visit('hot')
    client('CONFIG', 'SET', 'hot-keys', 'yes', 'memory-prefixes', 'user:* cart:* session:*', 'slowlog-log-slower-than', 0)
    for glob, words in rules: client('POLICY', 'SET', glob, *words)
    client('LATENCY', 'TRACE', 'START', 'EVERY', 100)
    browser.wait('hot keys again', lambda: len(browser.rows('Hot keys')) > 5)

def see_the_password_change(browser, client):
    """Who has logged in is asked once the password is another, and goes on with the new one."""
    for view in ['overview', 'hot', 'keys', 'memory']:
        browser.visit(view)
        browser.check('before the password changes')
        password = 'other-' + view
        client('CONFIG', 'SET', 'requirepass', password)
        if view == 'memory': browser.button('Refresh')
        if view == 'keys': browser.button('Search')
        browser.wait('the form', lambda: browser.driver.find_elements(By.ID, 'password'), 60)
        # What is still under way does not take away what somebody types.
        browser.type('#password', password)
        time.sleep(3)
        same('what was typed', browser.find('#password').get_attribute('value'), password)
        browser.find('#password').send_keys(Keys.ENTER)
        browser.wait(view + ' is there again', lambda: browser.driver.execute_script('return document.querySelector("nav a[aria-current]")?.hash') == '#/' + view)
        browser.wait('it is live', lambda: browser.text('#link') == 'live')
        # A refusal is a message of the browser's.
        browser.driver.get_log('browser')
    browser.visit('hot')
    client('CONFIG', 'SET', 'requirepass', PASSWORD)
    log_in(browser, 'default', PASSWORD)
    browser.wait('it is live', lambda: browser.text('#link') == 'live')

def see_it_restart(browser, server, keys):
    """A page that is open comes back by itself, with what the new process says; while data is loaded it says so."""
    for view, option in [('overview', []), ('memory', ['--key-load-delay', str(max(1, 10_000_000 // keys))])]:
        browser.visit(view)
        old = browser.text('#server')
        Client(server.port)('SAVE')
        server.stop()
        browser.wait('nobody answers', lambda: browser.text('#link') == 'no answer')
        if view == 'memory': browser.driver.execute_script('location.hash = "#/slow"')
        server.start(option)
        if option:
            browser.wait('it is not ready', lambda: 'loading the data' in browser.text('#link'), 60)
            browser.wait('what it can say', lambda: 'cannot be reached' not in browser.text('main'))
            browser.picture('loading')
        browser.wait('it is live again', lambda: browser.text('#link') == 'live', 400)
        browser.wait('another process', lambda: browser.text('#server') != old and 'process %d' % server.process.pid in browser.text('#server'))
        if view == 'memory': browser.shows('Slow commands')
        else: browser.wait('rates', lambda: '/s' in browser.text('.tiles') and 'no answer' not in browser.text())
        browser.driver.get_log('browser')

def see_a_replica(browser, server, other):
    """A primary and its replica, each in its own page."""
    client, replica = Client(server.port), Client(other.port)
    replica('CONFIG', 'SET', 'primaryauth', PASSWORD)
    replica('REPLICAOF', '127.0.0.1', server.port)
    browser.visit('replication')
    browser.wait('a replica', lambda: [row[1] for row in browser.rows('Replicas') if len(row) > 1] == ['online'], 120)
    same('its port', browser.rows('Replicas')[0][0], '127.0.0.1:%d' % other.port)
    browser.check('a primary'); browser.accessible('a primary')
    browser.driver.get('http://127.0.0.1:%d/#/replication' % other.http)
    log_in(browser, 'default', PASSWORD)
    browser.shows('replica', 'up', '127.0.0.1:%d' % server.port)
    same('its link', browser.figure('Link'), 'up')
    browser.wait('it is live', lambda: browser.text('#link') == 'live')
    # Nobody who loads its data can do without it: a primary that goes is told of.
    server.stop()
    browser.wait('the link is down', lambda: browser.figure('Link') == 'down' and 'the link to the primary is down' in browser.text('#link'))
    browser.accessible('a replica')
    replica('REPLICAOF', 'NO', 'ONE')
    browser.wait('it is a primary', lambda: browser.figure('Role') == 'primary' and browser.text('#link') == 'live')
    browser.driver.get_log('browser')

def see_a_cluster(browser, nodes):
    """Three nodes: who has which slot, what is open, what has moved. A server that is no node has no such view."""
    if 'Cluster' in browser.text('nav').split('\n'): sys.exit('a server that is no node shows a cluster')
    clients = [node.start() for node in nodes]
    for at, (client, (first, last)) in enumerate(zip(clients, [(0, 5460), (5461, 10922), (10923, 16383)])):
        client('CLUSTER', 'SET-CONFIG-EPOCH', at + 1)
        client('CLUSTER', 'ADDSLOTSRANGE', first, last)
        if at: clients[0]('CLUSTER', 'MEET', '127.0.0.1', nodes[at].port, nodes[at].bus)
    browser.wait('the cluster', lambda: all(b'cluster_state:ok' in client('CLUSTER', 'INFO') and b'cluster_known_nodes:3' in client('CLUSTER', 'INFO') for client in clients), 60)
    ids = [client('CLUSTER', 'MYID').decode() for client in clients]
    if clients[0]('CLUSTER', 'SETSLOT', 100, 'MIGRATING', ids[1]) != b'OK': sys.exit('a slot cannot be opened')
    browser.driver.get('http://127.0.0.1:%d/#/cluster' % nodes[0].http)
    log_in(browser, 'default', PASSWORD)
    browser.wait('the view', lambda: len(browser.rows('Nodes')) == 3)
    browser.driver.get_log('browser')
    def told():
        return sorted(('127.0.0.1:%d' % node[b'port'], node[b'health'].decode(), format(sum(last - first + 1 for first, last in zip(shard[b'slots'][::2], shard[b'slots'][1::2])), ','))
            for shard in clients[0]('CLUSTER', 'SHARDS') for node in shard[b'nodes'])
    def shown(): return sorted((row[0].split(' ')[0], row[3], row[4]) for row in browser.rows('Nodes'))
    agrees(browser, 'nodes', shown, told)
    same('its state', browser.figure('State'), 'ok')
    agrees(browser, 'open slots', lambda: browser.rows('Open slots'), lambda: [['100', 'migrating', 'to 127.0.0.1:%d' % nodes[1].port]])
    agrees(browser, 'links', lambda: len(browser.rows('Links')), lambda: len(clients[0]('CLUSTER', 'LINKS')))
    canvas = browser.find('canvas.slots')
    if 'each of the 16,384 slots has an owner' not in canvas.get_attribute('aria-label'): sys.exit('not all slots are drawn')
    canvas.send_keys(Keys.ARROW_DOWN, *[Keys.ARROW_RIGHT] * 100)
    browser.shows('Slot 100: 127.0.0.1:%d, migrating to 127.0.0.1:%d' % (nodes[0].port, nodes[1].port))
    clients[0]('CLUSTER', 'SETSLOT', 100, 'STABLE')
    browser.shows('No slot is open.')
    if clients[0]('CLUSTER', 'MIGRATESLOTS', 'SLOTSRANGE', 200, 300, 'NODE', ids[2]) != b'OK': sys.exit('slots cannot be moved')
    browser.wait('slots have moved', lambda: [row[:3] for row in browser.rows('Slot migrations')] == [['200\u2013300', 'to 127.0.0.1:%d' % nodes[2].port, 'success']], 60)
    agrees(browser, 'nodes', shown, told)
    for width, height in [(1280, 900), (360, 740)]:
        browser.size(width, height)
        for theme in ['light', 'dark']:
            what = 'cluster-%s-%d' % (theme, width)
            browser.theme(theme)
            time.sleep(2.2)
            browser.check(what); browser.accessible(what); browser.picture(what)
    browser.size(1280, 900)
    nodes[2].stop()
    browser.wait('a node has failed', lambda: 'fail' in [row[3] for row in browser.rows('Nodes')] and browser.figure('State') == 'fail', 60)
    browser.check('a cluster that is down')

class Server:
    def __init__(self, program, http=None, options=()):
        self.program, self.options, self.port, self.http, self.process = program, list(options), free_port(), http or free_port(), None
        self.directory = tempfile.mkdtemp(prefix='console-')
    def start(self, options=()):
        """Returns once it can be asked; its data may not be there yet."""
        with open(self.directory + '/log', 'a') as log:
            self.process = subprocess.Popen([self.program, '--port', str(self.port), '--http-port', str(self.http), '--save', '', '--dir', self.directory, '--enable-debug-command', 'yes',
                '--requirepass', PASSWORD, '--maxmemory', '2gb', *self.options, *options], stdout=log, stderr=log)
        for _ in range(100):
            try: return Client(self.port)
            except OSError: time.sleep(0.1)
        sys.exit('the server does not listen')
    def stop(self):
        if self.process: self.process.terminate(); self.process.wait()
        self.process = None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('axe'); p.add_argument('--keys', type=int, default=1000000); p.add_argument('--pictures')
    p.add_argument('--page-port', type=int, help='another server of the page, for work on it'); p.add_argument('--only', choices=[*VIEWS, 'changes', 'cluster'])
    p.add_argument('--seconds', type=int, default=5, help='how long the charts fill before they are looked at')
    p.add_argument('--http-port', type=int); p.add_argument('--io-threads', type=int, default=1); o = p.parse_args()
    with open(o.axe) as f: axe = f.read()
    options = ['--io-threads', str(o.io_threads)]
    server, other = Server(o.server, o.http_port, options), Server(o.server, None, options)
    nodes = [Server(o.server, None, options) for _ in range(3)]
    for node in nodes:
        node.bus = free_port()
        node.options += ['--cluster-enabled', 'yes', '--cluster-port', str(node.bus), '--cluster-node-timeout', '2000', '--primaryauth', PASSWORD]
    browser = load = None
    try:
        client = server.start()
        fill(client, o.keys)
        load = Load(server.port); load.start()
        attack_from_outside(server.http)
        browser = Browser('http://127.0.0.1:%d/' % (o.page_port or server.http), axe, o.pictures)
        browser.load = load
        if o.only not in ('changes', 'cluster'): run(o, browser, client)
        if client('PING') != b'PONG': sys.exit('the server is gone')
        if o.only in (None, 'changes'):
            browser.driver.get(browser.address)
            browser.driver.get_log('browser')
            log_in(browser, 'default', PASSWORD)
            see_by_keyboard(browser)
            see_what_is_off(browser, client)
            see_the_password_change(browser, client)
            load.runs = False
            load.join()
            see_it_restart(browser, server, o.keys)
            other.start()
            see_a_replica(browser, server, other)
        if o.only in (None, 'cluster'):
            if o.only: browser.driver.get(browser.address); browser.driver.get_log('browser'); log_in(browser, 'default', PASSWORD); browser.shows('Commands')
            see_a_cluster(browser, nodes)
        for fault in browser.faults: print(fault)
        if browser.faults: sys.exit('%d faults' % len(browser.faults))
        print('each view works, and axe finds no serious fault')
    finally:
        if load: load.runs = False
        if browser: browser.driver.quit()
        for one in (server, other, *nodes):
            one.stop()
            shutil.rmtree(one.directory, ignore_errors=True)

if __name__ == '__main__':
    main()
