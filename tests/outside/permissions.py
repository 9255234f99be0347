#!/usr/bin/env python3
"""Random users and random commands: whether a user may run a command, as ACL DRYRUN says, and how rules are refused and
printed, compared with a reference server.

    permissions.py target/release/warmline-server path/to/valkey-server [PAIRS] [SEED]

Both servers start on ports of their own. Prints every difference that docs/differences.md does not name, and fails if
there is one.
"""
import os
import random
import re
import sys
import tempfile

from introspection import Server

PIPELINE = 400
COMMANDS_A_USER = 250
KEYS = ["a", "ab", "abc", "b", "b1", "c*", "d?", "d1", "[x]", "e-", "\\", "", "a" * 40]
PATTERNS = ["a", "ab*", "a*", "b?", "b[0-9]", "c\\*", "*", "d?", "", "*b*", "[^a]*", "e-", "a**", "x", "ab", "\\\\"]
CHANNELS = ["news", "news.a", "n*", "news.*", "chat?", "chat1", "*", "__x__"]
INTEGERS = ["0", "1", "2", "3", "15", "16", "99", "-1", "-2"]
NUMBERS = [*INTEGERS, "1.5", "+1", "007", "99999999999999999999"]
WORDS = """GET SET STORE STOREDIST DB REPLACE KEYS STREAMS BY LIMIT COUNT NX XX EX PX MATCH KEEPTTL BLOCK GROUP WITHSCORES WEIGHTS
    AGGREGATE SUM LEFT RIGHT BEFORE ASC DESC ALPHA COPY AUTH AUTH2 FIELDS ID # nosuch INCRBY u8 OVERFLOW ASYNC yes""".split()
# Positions of keys in these calls differ, or are words of this server's alone; docs/differences.md names them.
LEFT_OUT = {"sort", "xreadgroup", "pfmerge", "migrate"}
CATEGORIES = """keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow
    blocking dangerous connection transaction scripting all""".split()


def cased(dice, word):
    return dice.choice([word, word, word.upper(), word.capitalize()])


def command_rule(dice, names):
    sign, kind = dice.choice("++-"), dice.random()
    if kind < 0.35:
        return sign + "@" + cased(dice, dice.choice(CATEGORIES))
    name = dice.choice(names)
    if kind < 0.45:
        name += "|" + dice.choice(["a", "0", "x", "GET", "set", "1", "", "a|b"])
    elif kind < 0.55:
        name = name.split("|")[0]
    elif kind < 0.57:
        name = dice.choice(["nosuch", "", "config|nosuch", "get|", "@", "@nosuch", "|"])
    return sign + cased(dice, name)


def selector_rule(dice, names):
    kind = dice.random()
    if kind < 0.45:
        return command_rule(dice, names)
    if kind < 0.75:
        rights = dice.choice(["~", "~", "%R~", "%W~", "%RW~", "%wr~", "%r~", "%", "%R", "%RR~", "%x~", "%~"][:9 if dice.random() < 0.98 else 12])
        return rights + dice.choice(PATTERNS)
    if kind < 0.87:
        return "&" + dice.choice(CHANNELS)
    if kind < 0.93:
        return "db=" + ",".join(dice.choice(["0", "1", "2", "3", "15", "16", "77"]) for _ in range(dice.randint(1, 4)))
    return dice.choice("""allkeys resetkeys allchannels resetchannels alldbs resetdbs allcommands nocommands ALLKEYS
        db= db=x db=1,,2 db=-1 db=99999999999 (x nosuch""".split()[:8 if dice.random() < 0.9 else 15])


def rules(dice, names):
    """Rules for a user, most of which make sense."""
    found = ["reset"] if dice.random() < 0.8 else []
    # Many users of rights that have little to do with each other would be denied everything.
    if dice.random() < 0.5:
        found.append("+@all")
    for _ in range(dice.randint(0, 12)):
        kind = dice.random()
        if kind < 0.1:
            found.append(dice.choice(["on", "off", "nopass", ">x", ">y", "<x", "resetpass", "clearselectors", "sanitize-payload"]))
        elif kind < 0.3:
            inner = " ".join(selector_rule(dice, names) for _ in range(dice.randint(0, 6)))
            joined = "(" + (dice.choice(["", "+@all "]) + inner).strip() + ")"
            found.extend([joined] if dice.random() < 0.5 else joined.split(" "))
        else:
            found.append(selector_rule(dice, names))
    return found


def argument(dice, name):
    kind = dice.random()
    # A count of keys that is no integer is read by each server in its own way, and refused by the command itself.
    numbers = NUMBERS if name in ("select", "swapdb", "move", "copy") else INTEGERS
    if kind < 0.55:
        return dice.choice(KEYS)
    if kind < 0.75:
        return dice.choice(numbers)
    if kind < 0.9:
        return cased(dice, dice.choice(WORDS))
    return dice.choice(CHANNELS)


def call(dice, name, arity):
    words = [cased(dice, word) for word in name.split("|")]
    count = abs(arity) if arity > 0 or dice.random() < 0.3 else abs(arity) + dice.randint(0, 6)
    if dice.random() < 0.02:
        count += dice.choice([-1, 1])
    while len(words) < count:
        words.append(argument(dice, name))
    return words


# Calls whose keys are found in ways of their own; K is a key, N a count of keys with as many keys behind it, and what is in
# brackets may be missing.
FORMS = """sort K [BY x*] [LIMIT 0 1] [GET y*] [STORE K]|sort_ro K [BY x*] [GET #]|eval body N [a]|evalsha digest N|fcall f N a
    fcall_ro f N|zunionstore K N [WEIGHTS 1]|zinterstore K N|zdiffstore K N|zunion N [WITHSCORES]|zinter N|zintercard N [LIMIT 1]
    sintercard N|lmpop N LEFT|blmpop 0 N RIGHT|zmpop N MIN|bzmpop 0 N MAX [COUNT 1]|xread [COUNT 1] [BLOCK 0] STREAMS K K 0 0
    xreadgroup GROUP g c [COUNT 1] [NOACK] STREAMS K K 0 0|migrate host 1 K 0 9|migrate host 1 @ 0 9 [COPY] [AUTH a] KEYS K K
    georadius K 1 2 3 km [WITHDIST] [COUNT 1] [STORE K] [STOREDIST K]|georadiusbymember K m 3 km [STORE K]|set K v [GET] [EX 5]
    bitfield K GET u8 0|bitfield K SET u8 0 1|bitfield K [OVERFLOW FAIL] INCRBY u8 0 1|mset K v K v|msetnx K v|msetex N v EX 9
    pfmerge K K K|pfcount K K|copy K K [DB 1] [REPLACE] [DB 2]|move K 1|rename K K|lmove K K LEFT RIGHT|object encoding K|xgroup create K g 0
    memory usage K [SAMPLES 1]|publish news x|subscribe news chat1|psubscribe news.* *|spublish chat1 x|ssubscribe news|hello 3 AUTH a b
    swapdb 0 1|select 2|flushall|flushdb|randomkey|keys *|scan 0|dbsize|debug object K|command getkeys get K|client kill ID 1|restore K 0 x
    sunionstore K K K|bitop AND K K K|hsetex K FIELDS 1 a b|blpop K K 0|brpoplpush K K 0|watch K K|exists K K|zrangestore K K 0 1"""
FORMS = [form.strip() for line in FORMS.splitlines() for form in line.split("|")]


def formed_call(dice):
    words = []
    for part in re.findall(r"\[[^]]*\]|\S+", dice.choice(FORMS)):
        if part.startswith("["):
            part = part[1:-1] if dice.random() < 0.5 else ""
        for word in part.split():
            if word == "N":
                count = dice.randint(1, 3)
                words += [str(count), *(dice.choice(KEYS) for _ in range(count))]
            else:
                words.append(dice.choice(KEYS) if word == "K" else "" if word == "@" else word)
    return [cased(dice, words[0]), *words[1:]]


class Pair:
    """The two servers, asked the same."""

    def __init__(self, here, there):
        self.servers = [here, there]
        self.differences = self.permitted = 0

    def ask_all(self, requests):
        text = []
        for words in requests:
            words = [word.encode() for word in words]
            text.append(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        for server in self.servers:
            server.socket.sendall(b"".join(text))
        return list(zip(*([server.reply() for _ in requests] for server in self.servers)))

    def compare(self, requests, context):
        for words, (here, there) in zip(requests, self.ask_all(requests)):
            self.permitted += here == "OK" and words[1] == "DRYRUN"
            # Beside other patterns, this server writes it as it can be read back.
            if re.sub(r"%RW~\*(?=[ ')])", "~*", str(here)) != re.sub(r"%RW~\*(?=[ ')])", "~*", str(there)):
                self.differences += 1
                if self.differences <= 20:
                    print(f"{' '.join(map(repr, words))}\n  here:  {here}\n  there: {there}\n  {context}")


def commands_of(server):
    """Names of commands and subcommands with the number of their words."""
    found = {}
    for row in server.ask("COMMAND"):
        for entry in [row, *row[9]]:
            found[entry[0]] = entry[1]
    return found


def main():
    programs, pairs = [os.path.abspath(program) for program in sys.argv[1:3]], int(sys.argv[3]) if len(sys.argv) > 3 else 200_000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 32)
    print(f"{pairs} pairs, seed {seed}", flush=True)
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        servers = [Server(program, directory) for program in programs]
        here, there = (commands_of(server) for server in servers)
        known = sorted((name, arity) for name, arity in there.items() if here.get(name) == arity and name not in LEFT_OUT)
        for server, own, other in [(servers[0], here, there), (servers[1], there, here)]:
            extra = sorted(name for name in own if name not in other)
            print(f"{server.process.args[0]} alone has: {' '.join(extra) or 'nothing'}")
        names = [name for name, _ in known]
        both, tried, databases = Pair(*servers), 0, ["0", "1", "2", "15"]
        while tried < pairs:
            user = f"u{dice.randrange(30)}"
            words = ["ACL", "SETUSER", user, *rules(dice, names)]
            both.compare([words, ["ACL", "GETUSER", user]], "")
            database = dice.choice(databases)
            both.compare([["SELECT", database]], "")
            description = [row for row in servers[0].ask("ACL", "LIST") if row.split(" ")[1] == user]
            requests = [["ACL", "DRYRUN", user, *(formed_call(dice) if dice.random() < 0.3 else call(dice, *dice.choice(known)))] for _ in range(COMMANDS_A_USER if description else 0)]
            for start in range(0, len(requests), PIPELINE):
                both.compare(requests[start:start + PIPELINE], f"in {database}: {description}")
            tried += len(requests)
        both.compare([["ACL", "LIST"]], "at the end")
        print(f"{tried} pairs, {both.permitted} permitted, {both.differences} differences")
        for server in servers:
            server.process.kill()
    sys.exit(1 if both.differences else 0)


if __name__ == "__main__":
    main()
