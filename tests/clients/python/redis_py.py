"""What redis-py's documentation shows, against a server: redis_py.py PORT"""
import sys
import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, ResponseError, WatchError

port = int(sys.argv[1])


def strings(r):
    assert r.ping()
    assert r.set("foo", "bar") and r.get("foo") == "bar"
    assert r.set("foo", "other", nx=True) is None
    assert r.set("foo", "new", ex=100, get=True) == "bar" and 0 < r.ttl("foo") <= 100
    assert r.mset({"a": 1, "b": 2}) and r.mget("a", "b", "none") == ["1", "2", None]
    assert r.incrby("a", 5) == 6 and r.incrbyfloat("b", 0.5) == 2.5
    assert sorted(r.scan_iter(match="[ab]", count=10)) == ["a", "b"]
    try:
        r.lpush("foo", 1)
        raise AssertionError("a list operation on a string")
    except ResponseError as error:
        assert str(error).startswith("WRONGTYPE")


def binary():
    raw = redis.Redis(port=port)
    value = bytes(range(256)) * 1000
    raw.set(b"\0\r\n", value)
    assert raw.get(b"\0\r\n") == value


def hashes(r):
    assert r.hset("user:1", mapping={"name": "John", "age": 29}) == 2
    assert r.hgetall("user:1") == {"name": "John", "age": "29"}
    assert r.hincrby("user:1", "age", 1) == 30 and r.hexists("user:1", "name")
    assert r.hexpire("user:1", 100, "age") == [1] and 0 < r.httl("user:1", "age")[0] <= 100
    assert dict(r.hscan_iter("user:1")) == {"name": "John", "age": "30"}


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        pipe.set("x", 1).incr("x").get("x")
        assert pipe.execute() == [True, 2, "2"]
    with r.pipeline() as pipe:
        pipe.set("x", 1).lpush("x", 1).incr("x")
        result = pipe.execute(raise_on_error=False)
        assert result[0] is True and isinstance(result[1], ResponseError) and result[2] == 2
    with r.pipeline() as pipe:
        pipe.watch("x")
        r.set("x", 10)
        pipe.multi()
        pipe.incr("x")
        try:
            pipe.execute()
            raise AssertionError("the watched key has changed")
        except WatchError:
            pass

    def increment(pipe):
        value = int(pipe.get("x"))
        pipe.multi()
        pipe.set("x", value + 1)

    assert r.transaction(increment, "x") == [True]
    assert r.get("x") == "11"


def subscriptions(r):
    subscriber = r.pubsub()
    subscriber.subscribe("channel")
    subscriber.psubscribe("pat*")
    kinds = [subscriber.get_message(timeout=5)["type"] for _ in range(2)]
    assert kinds == ["subscribe", "psubscribe"]
    assert r.publish("channel", "hello") == 1 and r.publish("pattern", "there") == 1
    first, second = subscriber.get_message(timeout=5), subscriber.get_message(timeout=5)
    assert (first["channel"], first["data"]) == ("channel", "hello")
    assert (second["pattern"], second["channel"], second["data"]) == ("pat*", "pattern", "there")
    subscriber.close()
    received, subscriber = [], r.pubsub()
    subscriber.subscribe(**{"handled": received.append})
    thread = subscriber.run_in_thread(sleep_time=0.01)
    deadline = time.time() + 5
    while not received and time.time() < deadline:
        r.publish("handled", "by a thread")
        time.sleep(0.02)
    thread.stop()
    thread.join()
    assert received[0]["data"] == "by a thread"
    subscriber.close()


def sorted_sets(r):
    assert r.zadd("scores", {"ann": 1, "bob": 2, "cat": 3}) == 3
    assert r.zadd("scores", {"ann": 5}, gt=True, ch=True) == 1
    assert r.zrange("scores", 0, -1, withscores=True) == [("bob", 2.0), ("cat", 3.0), ("ann", 5.0)]
    assert r.zrangebyscore("scores", "(2", "+inf", start=0, num=1) == ["cat"]
    assert r.zrevrank("scores", "ann") == 0 and r.zscore("scores", "none") is None
    assert r.zpopmin("scores") == [("bob", 2.0)] and r.bzpopmax("scores", 1) == ("scores", "ann", 5.0)
    assert r.zunionstore("all", {"scores": 2}) == 1 and r.zscore("all", "cat") == 6


def streams(r):
    ids = [r.xadd("events", {"n": n}, maxlen=1000, approximate=True) for n in range(5)]
    assert r.xlen("events") == 5 and r.xrange("events", count=1) == [(ids[0], {"n": "0"})]
    assert r.xgroup_create("events", "workers", id="0")
    [[name, entries]] = r.xreadgroup("workers", "one", {"events": ">"}, count=3)
    assert name == "events" and [entry[0] for entry in entries] == ids[:3]
    assert r.xack("events", "workers", ids[0]) == 1
    assert r.xpending("events", "workers")["pending"] == 2
    claimed = r.xautoclaim("events", "workers", "two", min_idle_time=0)
    assert [entry[0] for entry in claimed[1]] == ids[1:3]
    assert r.xinfo_groups("events")[0]["name"] == "workers" and r.xinfo_stream("events")["length"] == 5
    later = threading.Timer(0.1, lambda: r.xadd("events", {"n": "late"}))
    later.start()
    [[_, entries]] = r.xread({"events": "$"}, block=5000)
    later.join()
    assert entries[0][1] == {"n": "late"}


def scripts(r):
    r.script_flush()
    multiply = r.register_script("return redis.call('GET', KEYS[1]) * ARGV[1]")
    r.set("foo", 2)
    assert multiply(keys=["foo"], args=[5]) == 10
    with r.pipeline() as pipe:
        pipe.set("foo", 3)
        multiply(keys=["foo"], args=[5], client=pipe)
        assert pipe.execute() == [True, 15]
    assert r.script_exists(multiply.sha, "0" * 40) == [True, False]
    r.script_flush()
    try:
        r.evalsha(multiply.sha, 1, "foo", 5)
        raise AssertionError("the script was flushed")
    except NoScriptError:
        pass
    assert multiply(keys=["foo"], args=[7]) == 21
    r.function_load("#!lua name=greetings\nredis.register_function('greet', function(_, args) return 'hi ' .. args[1] end)", replace=True)
    assert r.fcall("greet", 0, "you") == "hi you"
    assert r.function_delete("greetings")


def locks(r):
    with r.lock("lock", timeout=5) as lock:
        assert lock.locked() and lock.owned()
        assert not r.lock("lock").acquire(blocking=False)
        assert lock.extend(10) and r.pttl("lock") > 5000 and lock.reacquire()
    assert not r.exists("lock")
    short = r.lock("lock", timeout=0.05)
    assert short.acquire()
    time.sleep(0.1)
    other = r.lock("lock", timeout=5, blocking_timeout=1)
    assert other.acquire()
    try:
        short.release()
        raise AssertionError("the lock is somebody else's")
    except (LockError, LockNotOwnedError):
        other.release()


ANY_PROTOCOL = (strings, hashes, pipelines, subscriptions, scripts, locks)
# With RESP3, redis-py gives these replies other shapes.
DEFAULT_PROTOCOL = (sorted_sets, streams)
for options, examples in (({}, ANY_PROTOCOL + DEFAULT_PROTOCOL), ({"protocol": 3}, ANY_PROTOCOL)):
    client = redis.Redis(port=port, decode_responses=True, **options)
    client.flushall()
    for example in examples:
        example(client)
binary()
print(f"redis-py {redis.__version__}: strings, hashes, pipelines, pub/sub, sorted sets, streams, scripts, functions, locks")
