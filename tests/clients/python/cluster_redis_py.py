"""redis-py's RedisCluster writes and reads back: cluster_redis_py.py PORT SECONDS TAGS"""
import sys
import time

import redis
from redis.cluster import RedisCluster
from redis.maint_notifications import MaintNotificationsConfig

from cluster_record import KEYS, Record

record = Record(redis.__version__)
# These notices are of one vendor's service; other servers reply with an error, which is not to be counted here.
no_notices = MaintNotificationsConfig(enabled=False)
client = RedisCluster(
    host="127.0.0.1", port=int(sys.argv[1]), decode_responses=True, socket_timeout=5, maint_notifications_config=no_notices)


def attempt(number):
    value = record.next_value(number)
    try:
        client.set(record.key(number), value)
        record.written(number, value)
        record.read(number, client.get(record.key(number)))
    except redis.RedisError as error:
        record.error(error)
        time.sleep(0.1)


def read_all():
    for number in range(KEYS):
        for _ in range(100):
            try:
                record.read(number, client.get(record.key(number)))
                break
            except redis.RedisError as error:
                record.error(error)
                time.sleep(0.2)


end = time.monotonic() + int(sys.argv[2])
turn = 0
while time.monotonic() < end:
    attempt(turn * 7 % KEYS)
    turn += 1
read_all()
record.print()
