#!/usr/bin/env python3
"""What values kept compressed save and cost, as docs/policies.md lists it: compression.py SERVER [KIND ...]

SERVER is the program; it is started on a free port, with an empty directory. KIND is the beginning of a row's name
(session, api, html, random; all of them by default). Bytes a key are the growth of used_memory, dictionaries
included, by the number of keys; times are the processor time of the thread that serves for a command, in pipelines of 16.
"""
import base64
import json
import random
import socket
import subprocess
import sys
import tempfile
import time

WORDS = """account active address amount article available balance basic blue brand browser cart category city client code
color comment company contact content country create currency customer data date deliver description detail discount display
document email enable event express feature field first garden gift green group guide hardware header height history home image
index inside invoice item kitchen label language large last level light limit list local location login market material media
member message method mobile model module month name network news notice number offer office online option order owner package
page parent partner payment people phone picture plan policy post price printer private product profile project promo public
quality quantity query queue quick random rating record region release report request response result return review sale search
season section secure service session setting shipping simple single size small source special standard status stock store street
student style summer support system table target team term ticket time title token total track trade travel type update user value
vendor version video view visit warehouse warranty water week weight white winter wood work world year yellow zone""".split()
FIRST = "Anna Ben Carla David Elena Felix Greta Hannah Igor Jana Karim Lena Marco Nina Oskar Paula Rosa Stefan Tara Umut Vera Zoe"
LAST = "Meyer Schmidt Garcia Rossi Novak Kowalski Dubois Jansen Silva Andersson Nagy Popescu Haddad Tanaka Kim Singh Okafor Brown"
CITIES = "Berlin Hamburg Madrid Paris Roma Wien Praha Lisboa Stockholm Budapest Oslo Dublin London Tokyo Seoul Mumbai Lagos Boston"
BROWSERS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_{} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0",
]
# Of each row there are as many keys as make this many bytes of values, within limits.
BYTES = 25_000_000
KEYS = 50_000
ASKED = 100_000
PIPELINE = 16


def some(r, names):
    return r.choice(names.split())


def sentence(r, words):
    return " ".join(r.choice(WORDS) for _ in range(words))


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def session(r, size):
    value = {
        "id": base64.urlsafe_b64encode(r.randbytes(18)).decode(),
        "user_id": r.randint(1, 5_000_000),
        "email": f"{some(r, FIRST).lower()}.{some(r, LAST).lower()}{r.randint(1, 999)}@example.com",
        "created_at": r.randint(1_700_000_000, 1_760_000_000),
        "ip": ".".join(str(r.randint(1, 254)) for _ in range(4)),
    }
    if size > 250:
        value["roles"] = r.sample(["user", "editor", "admin", "billing", "support"], r.randint(1, 2))
        value["csrf"] = r.randbytes(16).hex()
        value["user_agent"] = r.choice(BROWSERS).format(r.randint(100, 140))
    value["cart"] = []
    while len(compact(value)) < size - 25:
        item = {"sku": f"SKU-{r.randint(10000, 99999)}", "qty": r.randint(1, 5), "price": round(r.uniform(1, 300), 2)}
        value["cart"].append(item)
    return compact(value).encode()


def api(r, size):
    value = {"id": r.randint(1, 9_999_999), "type": r.choice(["product", "article", "bundle"]), "name": sentence(r, 3).title()}
    if size > 250:
        value["price"] = {"amount": round(r.uniform(1, 999), 2), "currency": r.choice(["EUR", "USD", "GBP"])}
        value["updated_at"] = f"2025-{r.randint(1, 12):02}-{r.randint(1, 28):02}T{r.randint(0, 23):02}:{r.randint(0, 59):02}:00Z"
        value["links"] = {
            "self": f"https://api.example.com/v2/products/{value['id']}",
            "image": f"https://cdn.example.com/images/{r.randbytes(8).hex()}.webp",
        }
    value["tags"], value["reviews"] = [], []
    while len(compact(value)) < size - 60:
        if len(value["tags"]) < 4:
            value["tags"].append(r.choice(WORDS))
        else:
            author = f"{some(r, FIRST)} {some(r, LAST)}"
            review = {"author": author, "city": some(r, CITIES), "stars": r.randint(1, 5), "text": sentence(r, r.randint(5, 14))}
            value["reviews"].append(review)
    return compact(value).encode()


def html(r, size):
    out = f'<div class="product-list" data-page="{r.randint(1, 99)}">'
    while len(out) < size - 200:
        link = f"/shop/{r.choice(WORDS)}/{r.choice(WORDS)}-{r.randint(100, 99999)}"
        image = f'<img loading="lazy" src="/media/{r.randbytes(6).hex()}.jpg" alt="{sentence(r, 3)}">'
        out += f'<article class="card card--product" id="p{r.randint(1, 999999)}"><a href="{link}">{image}</a>'
        out += f'<h3 class="card__title">{sentence(r, 4).title()}</h3><p class="card__text">{sentence(r, r.randint(5, 12))}.</p>'
        out += f'<span class="price">{r.uniform(1, 500):.2f} EUR</span></article>'
    return (out + "</div>").encode()


def noise(r, size):
    return r.randbytes(size)


CASES = [("session", session, size) for size in (200, 500, 1000, 4000)]
CASES += [("api", api, size) for size in (200, 500, 1000, 4000)]
CASES += [("html", html, size) for size in (500, 1000, 4000)]
CASES += [("random", noise, size) for size in (500, 4000)]


class Server:
    def __init__(self, program, directory):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["--port", str(port), "--dir", directory, "--save", "", "--appendonly", "no", "--daemonize", "no"]
        self.process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), 120)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb", 1 << 20)

    def ask(self, *words):
        self.socket.sendall(encoded(words))
        line = self.replies.readline()
        if line[:1] == b"-":
            raise RuntimeError(line.decode())
        return self.replies.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line

    def info(self, name):
        return int(next(line for line in self.ask("INFO", "memory").split() if line.startswith(name.encode() + b":")).split(b":")[1])

    def cpu_us(self):
        with open(f"/proc/{self.process.pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1000

    def time(self, batches):
        """Processor time of each of so many commands: pairs of requests and how long their replies are."""
        before = self.cpu_us()
        for request, length in batches:
            self.socket.sendall(request)
            assert len(self.replies.read(length)) == length
        return (self.cpu_us() - before) / (len(batches) * PIPELINE)


def encoded(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def key_of(i):
    return b"cache:%010d" % i


def batches_of(r, values, command):
    batches = []
    for _ in range(ASKED // PIPELINE):
        wanted = [r.randrange(len(values)) for _ in range(PIPELINE)]
        if command == "GET":
            request = b"".join(encoded(("GET", key_of(i))) for i in wanted)
            length = sum(len(values[i]) + len(str(len(values[i]))) + 5 for i in wanted)
        else:
            request = b"".join(encoded(("SET", key_of(i), values[i])) for i in wanted)
            length = 5 * PIPELINE
        batches.append((request, length))
    return batches


def wait_for_walk(server):
    """Until used memory has stood still for a second."""
    deadline, last, still_since = time.time() + 60, None, time.time()
    while time.time() < deadline and time.time() - still_since < 1:
        used = server.info("used_memory")
        if last is None or abs(used - last) > 10_000:
            last, still_since = used, time.time()
        time.sleep(0.1)


def measure(server, values, policy, batches):
    server.ask("FLUSHALL", "SYNC")
    server.ask("CONFIG", "SET", "key-policy", policy)
    time.sleep(0.3)
    before = server.info("used_memory")
    for i, value in enumerate(values):
        server.socket.sendall(encoded(("SET", key_of(i), value)))
    assert len(server.replies.read(5 * len(values))) == 5 * len(values)
    if policy:
        wait_for_walk(server)
    bytes_a_key = (server.info("used_memory") - before) / len(values)
    for i in range(0, len(values), 997):
        assert server.ask("GET", key_of(i)) == values[i]
    gets = min(server.time(batches["GET"]) for _ in range(3))
    sets = min(server.time(batches["SET"]) for _ in range(3))
    return bytes_a_key, gets, sets


def main():
    program, kinds = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as directory:
        server = Server(program, directory)
        try:
            print("| values | bytes of a value | bytes a key | compressed | of it | GET, us | compressed | SET, us | compressed |")
            print("|---|---|---|---|---|---|---|---|---|")
            for name, make, size in CASES:
                if kinds and not any(f"{name} {size}".startswith(kind) for kind in kinds):
                    continue
                r = random.Random(f"{name}{size}")
                values = [make(r, int(size * r.uniform(0.9, 1.1))) for _ in range(min(KEYS, BYTES // size))]
                batches = {command: batches_of(r, values, command) for command in ("GET", "SET")}
                plain = measure(server, values, "", batches)
                packed = measure(server, values, "cache:* compress-values yes", batches)
                mean = sum(map(len, values)) / len(values)
                cells = [f"{name} {size}", f"{mean:.0f}", f"{plain[0]:.0f}", f"{packed[0]:.0f}", f"{packed[0] / plain[0]:.2f}"]
                cells += [f"{plain[1]:.2f}", f"{packed[1]:.2f}", f"{plain[2]:.2f}", f"{packed[2]:.2f}"]
                print("| " + " | ".join(cells) + " |", flush=True)
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
