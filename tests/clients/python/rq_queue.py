"""A job queue, RQ, against a server: rq_queue.py PORT"""
import sys
import time
from datetime import timedelta

import redis
import rq
from rq import Queue, Retry, SimpleWorker, Worker
from rq.job import Job, JobStatus
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry

sys.modules["rq_queue"] = sys.modules["__main__"]
port = int(sys.argv[1])


def add(a, b):
    return a + b


def fail():
    raise ValueError("as planned")


def note(word):
    redis.Redis(port=port).rpush("noted", word)


def named(function):
    return f"rq_queue.{function.__name__}"


def work(queues, connection, kind=SimpleWorker, **options):
    kind(queues, connection=connection).work(burst=True, logging_level="CRITICAL", **options)


def results(connection):
    queue = Queue(connection=connection)
    jobs = [queue.enqueue(named(add), n, 1) for n in range(20)]
    assert len(queue) == 20 and queue.job_ids == [job.id for job in jobs]
    work([queue], connection)
    assert [job.return_value() for job in jobs] == [n + 1 for n in range(20)]
    assert len(FinishedJobRegistry(queue=queue)) == 20 and len(queue) == 0
    forked = queue.enqueue(named(add), 40, 2)
    work([queue], connection, kind=Worker)
    assert forked.return_value() == 42


def failures(connection):
    queue = Queue(connection=connection)
    job = queue.enqueue(named(fail), retry=Retry(max=2))
    work([queue], connection)
    assert job.get_status() == JobStatus.FAILED and "as planned" in job.latest_result().exc_string
    registry = FailedJobRegistry(queue=queue)
    assert job.id in registry
    registry.requeue(job.id)
    assert Job.fetch(job.id, connection=connection).get_status() == JobStatus.QUEUED
    queue.empty()


def order(connection):
    high, low = Queue("high", connection=connection), Queue("low", connection=connection)
    low.enqueue(named(note), "low")
    high.enqueue(named(note), "high")
    high.enqueue(named(note), "first", at_front=True)
    parent = low.enqueue(named(note), "parent")
    low.enqueue(named(note), "child", depends_on=parent)
    work([high, low], connection)
    assert connection.lrange("noted", 0, -1) == [b"first", b"high", b"low", b"parent", b"child"]


def delays(connection):
    queue = Queue("delayed", connection=connection)
    job = queue.enqueue_in(timedelta(milliseconds=200), named(add), 1, 2)
    assert job.get_status() == JobStatus.SCHEDULED and len(ScheduledJobRegistry(queue=queue)) == 1
    time.sleep(1.1)
    scheduler = rq.scheduler.RQScheduler([queue], connection=connection, logging_level="CRITICAL")
    scheduler.acquire_locks()
    scheduler.enqueue_scheduled_jobs()
    scheduler.release_locks()
    work([queue], connection)
    assert job.return_value() == 3


if __name__ == "__main__":
    connection = redis.Redis(port=port)
    connection.flushall()
    for example in (results, failures, order, delays):
        example(connection)
    print(f"RQ {rq.VERSION}: results, retries, failed jobs, priorities, dependencies, delayed jobs")
