#!/usr/bin/env python3
"""The web console in a real browser, against a live server with many keys of all types, some of which are HTML or script.

usage: console.py SERVER_BINARY AXE_JS [--keys 1000000] [--pictures DIRECTORY] [--page-port PORT] [--only VIEW]

Needs `chromium` and `chromium-driver` (Debian), `selenium` (PyPI), and AXE_JS, `axe.min.js` of the npm package `axe-core`. Each view is
used as a person would, and looked at light and dark, 360 and 1280 wide. Fails on a message in the browser's console, a dialog, a script
that has run, a page wider than its window, a serious fault that axe finds, or a step whose result does not appear.
"""
import argparse, json, os, random, shutil, socket, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request
from selenium import webdriver
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
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), 60)
        self.file = self.socket.makefile('rb')
        self('AUTH', PASSWORD)
    def encoded(self, words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)
    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b'$': return None if rest == b'-1' else self.file.read(int(rest) + 2)[:-2]
        if kind == b'*': return [self.read() for _ in range(max(int(rest), 0))]
        return rest
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
    for at in range(0, len(commands), 500):
        client.pipeline(commands[at:at + 500])
    client('CLIENT', 'SETNAME', '<b>name</b>')
    client('ACL', 'SETUSER', 'weak', 'on', '>weak', '~user:*', '+info', '+scan', '+type', '+@connection')

class Load(threading.Thread):
    """Somebody whose work the charts show."""
    def __init__(self, port):
        super().__init__(daemon=True)
        self.client, self.runs = Client(port), True
    def run(self):
        while self.runs:
            ranks = [min(int(random.paretovariate(1.0)), 2000) - 1 for _ in range(60)]
            commands = [random.choice([['HGETALL', 'user:%d' % rank], ['GET', 'cache:page:%d' % rank], ['GET', 'nothing:%d' % rank], ['HINCRBY', 'user:%d' % rank, 'visits', 1],
                ['ZRANGE', 'board:%d' % (rank % 20), 0, 20]]) for rank in ranks]
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
            time.sleep(0.1)
        picture = os.path.join(tempfile.gettempdir(), 'console-fault-%d.png' % os.getpid())
        self.driver.save_screenshot(picture)
        sys.exit('%s: it does not come true. The page: %s\nin %s' % (what, self.text()[:2000], picture))
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

def use_overview(browser):
    browser.shows('Commands', 'Latency', 'Hit rate', 'Keys')
    browser.wait('rates', lambda: '/s' in browser.text('.tiles'))
    browser.wait('latencies in words', lambda: 'calls: half within' in browser.text('main'))
    for window in ['15 min', '1 hour', '5 min']: browser.button(window)
    canvas = browser.find('canvas')
    canvas.send_keys(Keys.ARROW_LEFT)
    assert 'commands now' in canvas.get_attribute('aria-label')

def use_memory(browser):
    browser.shows('By class', 'Data', 'Big keys', 'Look through keys')
    browser.button('Look through keys')
    browser.wait('progress', lambda: 'of 1' in browser.text('main') or 'keys' in browser.text('main'))
    browser.button('Cancel')
    browser.shows('A part of the keys')

def use_hot(browser):
    browser.button('Processor time')
    browser.wait('an answer', lambda: 'Hot keys' in browser.text('main') and ('Calls' in browser.text('main')))

def use_slow(browser):
    browser.shows('Slow commands', 'Where time went', 'Events')
    browser.wait('an entry', lambda: len(browser.driver.find_elements(By.CSS_SELECTOR, 'tbody tr')) > 20)
    browser.driver.find_element(By.XPATH, '//th/button[text()="Took"]').click()

def use_clients(browser):
    browser.shows('<b>name</b>')
    browser.type('#client-filter', 'b>name')
    browser.shows('1 of')

def use_replication(browser):
    browser.shows('primary', 'Last save', 'Append-only file')

def use_configuration(browser):
    browser.shows('maxmemory')
    browser.type('#option-search', 'http-port')
    browser.wait('it is found', lambda: browser.text('caption').startswith('1 of'))
    browser.find('input[type=checkbox]').click()
    browser.shows('set')

def open_key(browser, key):
    browser.visit('keys')
    browser.driver.execute_script('location.hash = "#/keys?db=0&key=" + encodeURIComponent(arguments[0])', key)
    browser.wait('the key ' + key, lambda: (key[:20] or 'empty') in browser.text('.key-name'))
    browser.wait('its value', lambda: 'Layout in memory' in browser.text('main') or 'cannot be shown' in browser.text('main'))

def use_keys(browser):
    browser.shows('keys in the database')
    browser.type('#key-pattern', 'attack:*')
    browser.button('Search')
    browser.wait('a search of all keys is under way', lambda: 'found' in browser.text('main'))
    browser.wait('all are found', lambda: browser.text('caption').startswith('%d keys' % (len(ATTACKS) + 5)), 120)
    browser.button('Count all')
    browser.button('Cancel')
    browser.shows('(cancelled)')
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

def use_terminal(browser):
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
        globals()['use_' + view](browser)
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

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('server'); p.add_argument('axe'); p.add_argument('--keys', type=int, default=1000000); p.add_argument('--pictures')
    p.add_argument('--page-port', type=int, help='another server of the page, for work on it'); p.add_argument('--only', choices=VIEWS)
    p.add_argument('--seconds', type=int, default=5, help='how long the charts fill before they are looked at')
    p.add_argument('--http-port', type=int); o = p.parse_args()
    with open(o.axe) as f: axe = f.read()
    directory = tempfile.mkdtemp(prefix='console-')
    port, http = free_port(), o.http_port or free_port()
    with open(directory + '/log', 'w') as log:
        server = subprocess.Popen([o.server, '--port', str(port), '--http-port', str(http), '--save', '', '--dir', directory, '--enable-debug-command', 'yes',
            '--requirepass', PASSWORD, '--maxmemory', '2gb'], stdout=log, stderr=log)
    browser = load = None
    try:
        for _ in range(100):
            try: client = Client(port); break
            except OSError: time.sleep(0.1)
        else: sys.exit('the server does not listen')
        fill(client, o.keys)
        load = Load(port); load.start()
        attack_from_outside(http)
        browser = Browser('http://127.0.0.1:%d/' % (o.page_port or http), axe, o.pictures)
        run(o, browser, client)
        if client('PING') != b'PONG': sys.exit('the server is gone')
        for fault in browser.faults: print(fault)
        if browser.faults: sys.exit('%d faults' % len(browser.faults))
        print('each view works, and axe finds no serious fault')
    finally:
        if load: load.runs = False
        if browser: browser.driver.quit()
        server.terminate(); server.wait()

if __name__ == '__main__':
    main()
