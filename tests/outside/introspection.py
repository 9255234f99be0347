#!/usr/bin/env python3
"""What the server says of itself, compared with a reference server: COMMAND, COMMAND INFO, COMMAND DOCS, COMMAND LIST,
COMMAND GETKEYS, GETKEYSANDFLAGS, HELP of every container, names of INFO's fields and of options.

    introspection.py target/release/warmline-server path/to/valkey-server [SEED]

Prints every difference that docs/differences.md does not name, and fails if there is one. Texts that each server words
for itself (summaries, changes by version, notes) are compared by whether they are there, and by the versions in them.
"""
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

# What docs/differences.md names.
NOT_HERE_SUBCOMMANDS = {f"{container}|{word}" for container, words in {
    "module": "load loadex unload",
    "script": "debug",
}.items() for word in words.split()}
OURS_ALONE = {"object|layout", "delex", "digest", "hotkeys", "latency|trace", "memory|bigkeys", "memory|prefixes", "policy", "xackdel",
              "xcfgset", "xdelex", "xidmprecord"}
ARGUMENTS_OF_OUR_OWN = {"DOCS slowlog|get: stages"}
# Whose keys are found among fewer arguments there.
FIND_MORE_KEYS = {"pfmerge", "sort", "xreadgroup"}
# Of Redis alone: Valkey has no such versions.
REDIS_VERSIONS = {"8.2.0", "8.4.0", "8.6.0"}


class Map(list):
    """Pairs of a RESP3 map, in order."""

    def as_dict(self):
        return dict(self)


class Set(list):
    pass


class Error(str):
    pass


class Status(str):
    pass


class Server:
    def __init__(self, program, directory):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""],
            cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.time() + 30
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if self.process.poll() is not None or time.time() > deadline:
                    sys.exit(f"{program} does not start")
                time.sleep(0.05)
        self.reader = self.socket.makefile("rb")
        self.ask("HELLO", "3")

    def ask(self, *words):
        words = [word.encode() for word in words]
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        self.socket.sendall(request)
        return self.reply()

    def reply(self):
        line = self.reader.readline()
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        if kind == b"$":
            return None if rest == "-1" else self.reader.read(int(rest) + 2)[:-2].decode(errors="replace")
        if kind == b"=":
            return self.reader.read(int(rest) + 2)[4:-2].decode(errors="replace")
        if kind == b"*":
            return [self.reply() for _ in range(max(int(rest), 0))]
        if kind == b"~":
            return Set(self.reply() for _ in range(int(rest)))
        if kind == b"%":
            return Map((self.reply(), self.reply()) for _ in range(int(rest)))
        if kind == b"-":
            return Error(rest)
        if kind == b"+":
            return Status(rest)
        return int(rest) if kind == b":" else None

    def end(self):
        self.process.kill()
        self.process.wait()


def shape(value):
    """As a text in which types show, sets sorted."""
    if isinstance(value, Set):
        return "~{" + ", ".join(sorted(shape(v) for v in value)) + "}"
    if isinstance(value, Map):
        return "%{" + ", ".join(f"{shape(k)}: {shape(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shape(v) for v in value) + "]"
    return ("+" if isinstance(value, Status) else "-" if isinstance(value, Error) else "") + repr(value)


class Comparison:
    def __init__(self):
        self.found = 0

    def differs(self, where, ours, theirs):
        self.found += 1
        print(f"{where}\n    here   {ours}\n    there  {theirs}")

    def same(self, where, ours, theirs):
        if shape(ours) != shape(theirs):
            self.differs(where, shape(ours), shape(theirs))


INFO_FIELDS = ["name", "arity", "flags", "first key", "last key", "step", "categories", "tips", "key specs", "subcommands"]


def without_words(key_specs):
    """Key specifications with `there` for their notes."""
    return Set(Map((k, "there" if k == "notes" else v) for k, v in spec) for spec in key_specs)


def compare_info(to, ours, theirs):
    name = theirs[0]
    for field, here, there in zip(INFO_FIELDS[:-1], ours, theirs):
        if field == "key specs":
            # Their order is what key_spec_index counts.
            here, there = list(without_words(here)), list(without_words(there))
        to.same(f"INFO {name}: {field}", here, there)
    here, there = ({sub[0]: sub for sub in row[9]} for row in (ours, theirs))
    for sub in sorted(here.keys() | there.keys()):
        if sub in here and sub in there:
            compare_info(to, here[sub], there[sub])
        elif not is_known_absence(sub):
            to.differs(f"INFO {name}: subcommand {sub}", sub in here, sub in there)


def is_known_absence(name):
    return name in NOT_HERE_SUBCOMMANDS or name in OURS_ALONE



def essence(field, text):
    """What of a text that each server words for itself must be the same."""
    return [version for version, _ in text if version not in REDIS_VERSIONS] if field == "history" else "there"


def compare_arguments(to, where, ours, theirs):
    ours = [argument for argument in ours if dict(argument).get("since") not in REDIS_VERSIONS]
    for at in range(max(len(ours), len(theirs))):
        here = dict(ours[at]) if at < len(ours) else {}
        there = dict(theirs[at]) if at < len(theirs) else {}
        name = there.get("name", here.get("name"))
        inner_here, inner_there = here.pop("arguments", []), there.pop("arguments", [])
        for side in (here, there):
            side.pop("summary", None)
        if f"{where} {name}" in ARGUMENTS_OF_OUR_OWN:
            continue
        if shape(Map(here.items())) != shape(Map(there.items())):
            to.differs(f"{where} {name}", shape(Map(here.items())), shape(Map(there.items())))
        compare_arguments(to, f"{where} {name}", inner_here, inner_there)


def compare_docs(to, name, ours, theirs):
    here, there = ours.as_dict(), theirs.as_dict()
    for field in sorted(here.keys() | there.keys()):
        a, b = here.get(field), there.get(field)
        if field == "arguments":
            compare_arguments(to, f"DOCS {name}:", a or [], b or [])
        elif field == "subcommands":
            subs_a, subs_b = (a or Map()).as_dict(), (b or Map()).as_dict()
            for sub in sorted(subs_a.keys() & subs_b.keys()):
                compare_docs(to, sub, subs_a[sub], subs_b[sub])
        elif field == "history":
            to.same(f"DOCS {name}: history", essence(field, a or []), essence(field, b or []))
        elif a is not None and b is not None and field == "summary":
            to.same(f"DOCS {name}: {field}", essence(field, a), essence(field, b))
        elif field != "complexity":
            to.same(f"DOCS {name}: {field}", a, b)
    order = [k for k, _ in theirs if k in here]
    to.same(f"DOCS {name}: order of fields", [k for k, _ in ours if k in there], order)


def words_of(arguments, random, fill):
    """A call that the documented arguments allow."""
    words = []
    for argument in arguments:
        argument = dict(argument)
        flags = argument.get("flags", [])
        if "optional" in flags and random.random() < 0.5:
            continue
        times = random.randint(1, 3) if "multiple" in flags else 1
        for time in range(times):
            token = argument.get("token")
            if token is not None and (time == 0 or "multiple_token" in flags or argument["type"] == "pure-token"):
                words.append(token or '""')
            if argument["type"] == "oneof":
                words += words_of([random.choice(argument["arguments"])], random, fill)
            elif argument["type"] == "block":
                words += words_of(argument["arguments"], random, fill)
            elif argument["type"] != "pure-token":
                words.append(fill(argument))
    return words


def value_for(argument, random):
    if argument["name"] in ("numkeys", "numfields"):
        return random.choice(["1", "2", "3", "0", "-1", "x", "99999999999"])
    return {"integer": "7", "double": "3", "key": "key%d" % random.randint(1, 9)}.get(
        argument["type"], random.choice(["a", "b", "STORE", "GET", "5"]))


def damaged(words, random):
    words = list(words)
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(words))
        change = random.randrange(4)
        if change == 0 and len(words) > 1:
            del words[at]
        elif change == 1:
            words.insert(at, random.choice(["x", "1", "KEYS", "STREAMS", "STORE", "LIMIT", "GET", "-1"]))
        elif change == 2:
            words[at] = random.choice(["", "0", "1", "-1", "2", "STORE", "key"])
        else:
            other = random.randrange(len(words))
            words[at], words[other] = words[other], words[at]
    return words


def calls_of(docs, random, each):
    """Calls of every command that is documented, some of them damaged."""
    for name, doc in docs:
        doc = doc.as_dict()
        for full_name, about in [(name, doc)] + [(n, d.as_dict()) for n, d in doc.get("subcommands", [])]:
            if is_known_absence(full_name):
                continue
            for _ in range(each):
                arguments = about.get("arguments", [])
                call = full_name.split("|") + words_of(arguments, random, lambda a: value_for(a, random))
                yield call
                yield call[:1] + damaged(call[1:], random) if len(call) > 1 else call


def compare_commands(to, ours, theirs):
    here, there = ({row[0]: row for row in server.ask("COMMAND")} for server in (ours, theirs))
    for name in sorted(here.keys() | there.keys()):
        if name in here and name in there:
            compare_info(to, here[name], there[name])
        elif not is_known_absence(name):
            to.differs(f"COMMAND: {name}", name in here, name in there)
    for names in (["get", "nothing", "config|get", "CONFIG|GET", "config get", ""], []):
        known = [Map((r[0], r[1]) for r in server.ask("COMMAND", "INFO", *names) if r and r[0] in here and not is_known_absence(r[0]))
                 for server in (ours, theirs)]
        to.same(f"COMMAND INFO {names}", *(Map(sorted(side)) for side in known))
    docs_here, docs_there = (server.ask("COMMAND", "DOCS").as_dict() for server in (ours, theirs))
    for name in sorted(docs_here.keys() & docs_there.keys()):
        compare_docs(to, name, docs_here[name], docs_there[name])
    to.same("COMMAND DOCS, unknown", ours.ask("COMMAND", "DOCS", "nothing"), theirs.ask("COMMAND", "DOCS", "nothing"))
    return [(name, doc) for name, doc in theirs.ask("COMMAND", "DOCS") if name in here], set(docs_here)


def compare_lists(to, ours, theirs):
    def known(names):
        kept = [n for n in names if not is_known_absence(n) and not is_known_absence(n.split("|")[0])]
        return sorted(kept)
    categories = theirs.ask("ACL", "CAT")
    to.same("ACL CAT", sorted(ours.ask("ACL", "CAT")), sorted(categories))
    filters = [["ACLCAT", c] for c in categories + ["READ", "nothing", "@read"]]
    filters += [["PATTERN", p] for p in ("*", "x*", "X*", "config|*", "*|help", "[a-c]*", "nothing", "")]
    filters += [["MODULE", m] for m in ("nothing", "lua", "LUA")]
    for by in filters:
        a, b = (server.ask("COMMAND", "LIST", "FILTERBY", *by) for server in (ours, theirs))
        lists = isinstance(a, list) and isinstance(b, list)
        to.same(f"COMMAND LIST FILTERBY {by}", *((known(a), known(b)) if lists else (a, b)))
    for category in categories:
        to.same(f"ACL CAT {category}", *(known(server.ask("ACL", "CAT", category)) for server in (ours, theirs)))
    for words in (["FILTERBY"], ["FILTERBY", "ACLCAT"], ["FILTERBY", "X", "y"], ["X"]):
        to.same(f"COMMAND LIST {words}", *(server.ask("COMMAND", "LIST", *words) for server in (ours, theirs)))


def compare_keys(to, ours, theirs, docs, random):
    calls = calls_of(docs, random, 12)
    # See docs/differences.md for MIGRATE whose last word is KEYS.
    is_compared = lambda call: call[0].lower() not in FIND_MORE_KEYS and (call[0], call[-1]) != ("migrate", "KEYS")
    for call in filter(is_compared, calls):
        for command in ("GETKEYS", "GETKEYSANDFLAGS"):
            a, b = (server.ask("COMMAND", command, *call) for server in (ours, theirs))
            to.same(f"COMMAND {command} {' '.join(call)}", a, b)


def compare_help(to, ours, theirs, docs):
    for name, doc in docs:
        if name == "cluster" or f"{name}|help" not in doc.as_dict().get("subcommands", Map()).as_dict():
            continue
        a, b = (server.ask(name.upper(), "HELP") for server in (ours, theirs))
        for side, lines in (("here", a), ("there", b)):
            if not all(isinstance(line, Status) for line in lines):
                to.differs(f"{name} HELP: lines are no statuses", side, "")
        to.same(f"{name} HELP: first line", a[0], b[0])
        to.same(f"{name} HELP: last call", a[-2], b[-2])
        words_here, words_there = ({line.split()[0] for line in side[1:] if line[0] not in " ("} for side in (a, b))
        for word in sorted(words_here ^ words_there):
            if not is_known_absence(f"{name}|{word.lower()}"):
                to.differs(f"{name} HELP: {word}", word in words_here, word in words_there)


def field_names(server):
    names = []
    for line in server.ask("INFO", "EVERYTHING").splitlines():
        name = line.split(":")[0]
        if name and not re.match("cmdstat|latency_perc|errorstat|db[0-9]", name):
            names.append(name)
    return names


def compare_fields(to, ours, theirs):
    a, b = field_names(ours), field_names(theirs)
    for name in sorted(set(a) ^ set(b)):
        if name not in INFO_FIELDS_OF_OUR_OWN:
            to.differs(f"INFO: {name}", name in a, name in b)
    to.same("INFO: order", [n for n in a if n in b], [n for n in b if n in a])
    a, b = (server.ask("CONFIG", "GET", "*").as_dict() for server in (ours, theirs))
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name) and name not in OPTIONS_OF_OUR_OWN:
            to.differs(f"CONFIG GET {name}", a.get(name), b.get(name))
    for words in (["CLIENT", "INFO"], ["CLIENT", "LIST"]):
        a, b = ([field.split("=")[0] for field in server.ask(*words).split()] for server in (ours, theirs))
        to.same(" ".join(words), [name for name in a if name != "io-thread"], b)
    for words in (["MEMORY", "STATS"], ["HELLO"], ["MODULE", "LIST"], ["LATENCY", "HISTOGRAM", "ping"]):
        a, b = (server.ask(*words) for server in (ours, theirs))
        if isinstance(a, Map):
            a, b = ([k for k, _ in side] for side in (a, b))
        to.same(" ".join(words), a, b)


INFO_FIELDS_OF_OUR_OWN = {"warmline_version", "# Threads", "io_thread_0", "used_memory_dictionaries", "number_of_hash_shapes", "used_memory_hash_shapes"}
OPTIONS_OF_OUR_OWN = {"port", "dir", "zset-index", "tcp-nodelay", "syslog-ident", "prefetch-batch-max-size", "hot-keys", "key-policy",
                      "latency-trace-max-len", "memory-prefixes", "stream-idmp-duration", "stream-idmp-maxsize",
                      *(f"http-{name}" for name in ("bind", "commands", "hosts", "port", "tls"))}


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    seed = int(sys.argv[3]) if len(sys.argv) == 4 else 1
    directory = tempfile.mkdtemp(prefix="introspection-")
    ours, theirs = (Server(os.path.abspath(program), directory) for program in sys.argv[1:3])
    to = Comparison()
    try:
        docs, _ = compare_commands(to, ours, theirs)
        compare_lists(to, ours, theirs)
        compare_keys(to, ours, theirs, docs, random.Random(seed))
        compare_help(to, ours, theirs, docs)
        compare_fields(to, ours, theirs)
    finally:
        ours.end()
        theirs.end()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{to.found} differences")
    sys.exit(1 if to.found else 0)


if __name__ == "__main__":
    main()
