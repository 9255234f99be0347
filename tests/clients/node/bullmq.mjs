// A job queue, BullMQ, against a server: node bullmq.mjs PORT
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";

const { version } = createRequire(import.meta.url)("bullmq/package.json");
const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
const redis = new Redis(connection);
await redis.flushall();

/** Runs an example with a queue, its events, and whatever else it opens. */
async function withQueue(name, example) {
  const queue = new Queue(name, { connection });
  const events = new QueueEvents(name, { connection });
  // Each job that is waited for listens to both.
  for (const emitter of [queue, events]) emitter.setMaxListeners(1000);
  const opened = [queue, events];
  await events.waitUntilReady();
  const worker = (process, options = {}) => {
    const worker = new Worker(name, process, { connection, ...options });
    worker.on("error", (error) => assert.fail(error));
    opened.unshift(worker);
    return worker;
  };
  await example({ queue, events, worker });
  for (const closable of opened) await closable.close();
}

const MS_MAX = 20_000;

await withQueue("results", async ({ queue, events, worker }) => {
  const jobs = await queue.addBulk(Array.from({ length: 100 }, (_, n) => ({ name: "add", data: { n } })));
  assert.equal(await queue.getWaitingCount(), 100);
  worker(async (job) => {
    await job.updateProgress(50);
    await job.log("half way");
    return job.data.n + 1;
  }, { concurrency: 10 });
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, MS_MAX)));
  assert.deepEqual(results, Array.from({ length: 100 }, (_, n) => n + 1));
  const counts = await queue.getJobCounts("completed", "failed", "waiting", "active");
  assert.deepEqual(counts, { completed: 100, failed: 0, waiting: 0, active: 0 });
  assert.equal((await queue.getJobLogs(jobs[0].id)).logs[0], "half way");
  assert.equal((await queue.clean(0, 1000, "completed")).length, 100);
});

await withQueue("failures", async ({ queue, events, worker }) => {
  let attempts = 0;
  worker(async (job) => {
    attempts += 1;
    if (job.name === "hopeless" || job.attemptsMade < 2) throw new Error("as planned");
    return "at last";
  });
  const retried = await queue.add("retried", {}, { attempts: 3, backoff: { type: "fixed", delay: 20 } });
  assert.equal(await retried.waitUntilFinished(events, MS_MAX), "at last");
  assert.equal(attempts, 3);
  const hopeless = await queue.add("hopeless", {});
  await assert.rejects(hopeless.waitUntilFinished(events, MS_MAX), /as planned/);
  assert.equal((await queue.getFailed())[0].failedReason, "as planned");
  await (await queue.getJob(hopeless.id)).remove();
  assert.equal(await queue.getFailedCount(), 0);
});

await withQueue("order", async ({ queue, events, worker }) => {
  const done = [];
  await queue.pause();
  const jobs = [
    await queue.add("later", {}, { delay: 300 }),
    await queue.add("low", {}, { priority: 10 }),
    await queue.add("high", {}, { priority: 1 }),
    await queue.add("plain", {}),
    await queue.add("front", {}, { lifo: true }),
    await queue.add("once", {}, { jobId: "the-one" }),
    await queue.add("once", {}, { jobId: "the-one" }),
  ];
  worker(async (job) => done.push(job.name));
  await sleep(50);
  assert.deepEqual(done, []);
  assert.deepEqual((await queue.getDelayed()).map((job) => job.name), ["later"]);
  assert.equal(await queue.getPrioritizedCount(), 2);
  await queue.resume();
  await Promise.all(jobs.map((job) => job.waitUntilFinished(events, MS_MAX)));
  assert.deepEqual(done, ["front", "plain", "once", "high", "low", "later"]);
});

await withQueue("repeated", async ({ queue, worker }) => {
  const seen = [];
  worker(async (job) => seen.push(job.name));
  await queue.upsertJobScheduler("every-50-ms", { every: 50 }, { name: "tick" });
  await queue.upsertJobScheduler("by-pattern", { pattern: "* * * * * *" }, { name: "tock" });
  const deadline = Date.now() + MS_MAX;
  while (seen.filter((name) => name === "tick").length < 4 || !seen.includes("tock")) {
    assert.ok(Date.now() < deadline, `only ${seen}`);
    await sleep(20);
  }
  assert.equal((await queue.getJobSchedulers()).length, 2);
  assert.ok(await queue.removeJobScheduler("every-50-ms"));
  assert.ok(await queue.removeJobScheduler("by-pattern"));
  assert.equal((await queue.getJobSchedulers()).length, 0);
});

await withQueue("limited", async ({ queue, events, worker }) => {
  const jobs = await queue.addBulk(Array.from({ length: 6 }, () => ({ name: "limited", data: {} })));
  const started = Date.now();
  worker(async () => {}, { limiter: { max: 2, duration: 200 } });
  await Promise.all(jobs.map((job) => job.waitUntilFinished(events, MS_MAX)));
  assert.ok(Date.now() - started >= 350, "two in 200 ms");
});

await withQueue("flows", async ({ queue, events, worker }) => {
  worker(async (job) => {
    if (job.name !== "sum") return job.data.n;
    return Object.values(await job.getChildrenValues()).reduce((sum, n) => sum + n, 0);
  }, { concurrency: 4 });
  const flows = new FlowProducer({ connection });
  const leaf = (n) => ({ name: "leaf", queueName: "flows", data: { n } });
  const tree = await flows.add({
    name: "sum",
    queueName: "flows",
    children: [leaf(1), leaf(2), { name: "sum", queueName: "flows", children: [leaf(10), leaf(20)] }],
  });
  assert.equal(await tree.job.waitUntilFinished(events, MS_MAX), 33);
  await flows.close();
});

await withQueue("stalled", async ({ queue, events, worker }) => {
  // A worker that takes a job and is never heard of again.
  const lost = new Worker("stalled", null, { connection, lockDuration: 100, skipStalledCheck: true });
  const job = await queue.add("job", {});
  assert.equal((await lost.getNextJob("token")).id, job.id);
  await lost.close(true);
  worker(async () => "by another", { stalledInterval: 100, lockDuration: 1000 });
  assert.equal(await job.waitUntilFinished(events, MS_MAX), "by another");
});

const queue = new Queue("results", { connection });
await queue.obliterate({ force: true });
await queue.close();
assert.deepEqual(await redis.keys("bull:results:*"), []);
await redis.quit();
console.log(`BullMQ ${version}: results, retries, delays, priorities, repetition, rate limits, flows, stalled jobs`);
