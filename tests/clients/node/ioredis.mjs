// What ioredis' documentation shows, against a server: node ioredis.mjs PORT
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { Redis } from "ioredis";

const { version } = createRequire(import.meta.url)("ioredis/package.json");
const port = Number(process.argv[2]);
const redis = new Redis(port);
await redis.flushall();

async function basics() {
  assert.equal(await redis.set("mykey", "value"), "OK");
  assert.equal(await redis.get("mykey"), "value");
  assert.equal(await redis.set("key", "data", "EX", 60, "NX"), "OK");
  assert.equal(await redis.zadd("sorted", 1, "one", 2, "dos", 4, "quatro", 3, "three"), 4);
  assert.deepEqual(await redis.zrange("sorted", 0, 2, "WITHSCORES"), ["one", "1", "dos", "2", "three", "3"]);
  await redis.sadd("set", [1, 3, 5, 7]);
  assert.equal(await redis.scard("set"), 4);
  await redis.hset("hash", { a: 1, b: "two" });
  assert.deepEqual(await redis.hgetall("hash"), { a: "1", b: "two" });
  const bytes = Buffer.from([0, 13, 10, 255]);
  await redis.set("bytes", bytes);
  assert.deepEqual(await redis.getBuffer("bytes"), bytes);
  await assert.rejects(redis.lpush("mykey", 1), /WRONGTYPE/);
}

async function pipelinesAndTransactions() {
  const results = await redis.pipeline().set("foo", "1").incr("foo").lpush("foo", 1).get("foo").exec();
  assert.deepEqual(results.map(([error, reply]) => (error ? error.message.split(" ")[0] : reply)), ["OK", 2, "WRONGTYPE", "2"]);
  assert.deepEqual(await redis.multi().set("foo", "5").get("foo").exec(), [[null, "OK"], [null, "5"]]);
  const other = redis.duplicate();
  await redis.watch("foo");
  await other.incr("foo");
  assert.equal(await redis.multi().incr("foo").exec(), null);
  other.disconnect();
  const batched = new Redis(port, { enableAutoPipelining: true });
  const replies = await Promise.all(Array.from({ length: 500 }, (_, i) => batched.incrby("many", i)));
  assert.equal(replies.at(-1), (499 * 500) / 2);
  batched.disconnect();
}

async function subscriptions() {
  const subscriber = redis.duplicate();
  await subscriber.subscribe("news", "music");
  await subscriber.psubscribe("pat?ern");
  const message = once(subscriber, "message");
  await redis.publish("news", "hello");
  assert.deepEqual(await message, ["news", "hello"]);
  const matched = once(subscriber, "pmessage");
  await redis.publish("pattern", "there");
  assert.deepEqual(await matched, ["pat?ern", "pattern", "there"]);
  subscriber.disconnect();
}

async function streams() {
  const id = await redis.xadd("stream", "*", "random", "0.5");
  assert.deepEqual(await redis.xread("STREAMS", "stream", "0"), [["stream", [[id, ["random", "0.5"]]]]]);
  const reader = redis.duplicate();
  const waiting = reader.xread("BLOCK", 5000, "STREAMS", "stream", "$");
  await new Promise((resolve) => setTimeout(resolve, 100));
  const next = await redis.xadd("stream", "*", "user", "ann");
  assert.deepEqual(await waiting, [["stream", [[next, ["user", "ann"]]]]]);
  reader.disconnect();
}

async function scripts() {
  redis.defineCommand("echoTwo", { numberOfKeys: 2, lua: "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2]}" });
  assert.deepEqual(await redis.echoTwo("k1", "k2", "a1", "a2"), ["k1", "k2", "a1", "a2"]);
  await redis.script("FLUSH");
  assert.deepEqual(await redis.echoTwo("k1", "k2", "a1", "a2"), ["k1", "k2", "a1", "a2"]);
  const results = await redis.pipeline().set("k1", "v").echoTwo("k1", "k2", "x", "y").exec();
  assert.deepEqual(results[1], [null, ["k1", "k2", "x", "y"]]);
}

async function scansAndMonitor() {
  await redis.mset(Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`scanned:${i}`, i])));
  const found = new Set();
  for await (const keys of redis.scanStream({ match: "scanned:*", count: 50 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 300);
  const monitor = await redis.monitor();
  const seen = once(monitor, "monitor");
  await redis.get("foo");
  assert.deepEqual((await seen)[1], ["get", "foo"]);
  monitor.disconnect();
}

for (const example of [basics, pipelinesAndTransactions, subscriptions, streams, scripts, scansAndMonitor]) await example();
redis.disconnect();
console.log(`ioredis ${version}: strings, sets, hashes, pipelines, transactions, pub/sub, streams, scripts, scans, MONITOR`);
