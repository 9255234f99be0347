"""What clients of clusters remember of each key: what was acknowledged, and what was only tried."""
import json
import sys
import time

KEYS = 2000
# Every second key is of one of the slots that move, which these words are of.
TAGS = sys.argv[3].split(",")


class Record:
    def __init__(self, version):
        self.version = version
        self.acknowledged, self.at, self.tried = [0] * KEYS, [0.0] * KEYS, [0] * KEYS
        self.writes = self.reads = 0
        self.errors, self.lost, self.wrong = {}, [], []

    @staticmethod
    def key(number):
        tag = TAGS[number // 2 % len(TAGS)] if number % 2 else number
        return f"{{{tag}}}:cluster-client:{number}"

    def next_value(self, number):
        self.tried[number] += 1
        return self.tried[number]

    def written(self, number, value):
        self.writes += 1
        self.acknowledged[number], self.at[number] = value, time.time()

    def read(self, number, value):
        self.reads += 1
        value = int(value or 0)
        if self.acknowledged[number] <= value <= self.tried[number]:
            return
        entry = [self.key(number), value, self.acknowledged[number], self.at[number]]
        (self.lost if value < self.acknowledged[number] else self.wrong).append(entry)
        # From here on the older value is the right one.
        self.acknowledged[number] = min(value, self.tried[number])

    def error(self, error):
        text = f"{type(error).__name__}: {error}"[:120]
        self.errors[text] = self.errors.get(text, 0) + 1

    def print(self):
        names = ("version", "writes", "reads", "errors", "lost", "wrong")
        print(json.dumps({name: getattr(self, name) for name in names}))
