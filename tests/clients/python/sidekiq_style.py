"""A job queue in the manner of Sidekiq, whose clients and workers share lists, sets, sorted sets and two scripts, against
a server: sidekiq_style.py PORT. Many workers at once must run each job once."""
import json
import sys
import threading
import time

import redis

port = int(sys.argv[1])
JOBS = 300

# Takes the first member whose score has been reached: what a poller does with jobs that are scheduled or to be retried.
POP_BY_SCORE = """
local due = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 1)
if due[1] then
  redis.call('ZREM', KEYS[1], due[1])
  return due[1]
end
"""

# Counts within a window and refuses what is too much: a rate limiter. Answers how many may still come, or -1.
LIMIT = """
local now, window, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local count = redis.call('ZCARD', KEYS[1])
if count >= most then return -1 end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window)
return most - count - 1
"""


def connect():
    return redis.Redis(port=port, decode_responses=True)


def push(r, queue, jobs):
    with r.pipeline() as pipe:
        pipe.sadd("queues", queue)
        pipe.lpush(f"queue:{queue}", *[json.dumps({"queue": queue, **job}) for job in jobs])
        pipe.execute()


def poll(stop):
    """Moves jobs whose time has come to their queues."""
    r = connect()
    pop = r.register_script(POP_BY_SCORE)
    while not stop.is_set():
        for name in ("retry", "schedule"):
            while job := pop(keys=[name], args=[time.time()]):
                job = json.loads(job)
                push(r, job["queue"], [{"id": job["id"], "tries": job["tries"]}])
        time.sleep(0.01)


def work(stop, name):
    r = connect()
    while not stop.is_set():
        taken = r.brpop(["queue:critical", "queue:default"], timeout=0.2)
        if taken is None:
            continue
        job = json.loads(taken[1])
        with r.pipeline() as pipe:
            pipe.sadd("processes", name).hset(f"{name}:work", threading.get_native_id(), taken[1]).expire(f"{name}:work", 60)
            pipe.execute()
        if job["id"] % 10 == 0 and job["tries"] == 0:
            r.zadd("retry", {json.dumps({**job, "tries": 1}): time.time() + 0.05})
            r.incr("stat:failed")
        else:
            with r.pipeline() as pipe:
                pipe.incr("stat:processed").lpush("done", job["id"]).execute()


def queue():
    r = connect()
    r.flushall()
    stop = threading.Event()
    threads = [threading.Thread(target=poll, args=(stop,)) for _ in range(3)]
    threads += [threading.Thread(target=work, args=(stop, f"worker-{n}")) for n in range(5)]
    for thread in threads:
        thread.start()
    push(r, "default", [{"id": n, "tries": 0} for n in range(0, JOBS, 3)])
    push(r, "critical", [{"id": n, "tries": 0} for n in range(1, JOBS, 3)])
    later = {json.dumps({"queue": "default", "id": n, "tries": 0}): time.time() + 0.1 for n in range(2, JOBS, 3)}
    r.zadd("schedule", later)
    deadline = time.time() + 20
    while r.llen("done") < JOBS and time.time() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert sorted(map(int, r.lrange("done", 0, -1))) == list(range(JOBS)), "each job once"
    assert int(r.get("stat:failed")) == JOBS // 10 and r.zcard("retry") == r.zcard("schedule") == 0
    assert r.smembers("queues") == {"default", "critical"}


def limiter():
    r = connect()
    limit = r.register_script(LIMIT)
    answers = [limit(keys=["limited"], args=[1000 + n, 100, 5, n]) for n in range(8)]
    assert answers == [4, 3, 2, 1, 0, -1, -1, -1]
    assert limit(keys=["limited"], args=[1101, 100, 5, "after"]) == 1


queue()
limiter()
print(f"Sidekiq-style scripts: {JOBS} jobs by 5 workers and 3 pollers, retries, a rate limiter")
