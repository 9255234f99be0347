// The redlock package's locks, on one server: node redlock.mjs PORT
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock from "redlock";

const { version } = createRequire(import.meta.url)("redlock/package.json");
const redis = new Redis(Number(process.argv[2]));
await redis.flushall();
const patient = new Redlock([redis], { retryCount: 50, retryDelay: 20, retryJitter: 10 });
const hasty = new Redlock([redis], { retryCount: 0 });
for (const locks of [patient, hasty]) locks.on("clientError", (error) => assert.fail(error));

let lock = await patient.lock("resource", 1000);
await assert.rejects(hasty.lock("resource", 1000));
lock = await lock.extend(3000);
assert.ok((await redis.pttl("resource")) > 2000);
await lock.unlock();
assert.equal(await redis.exists("resource"), 0);
await assert.rejects(lock.unlock(), "an unlocked lock is not there any more");

await hasty.lock("resource", 50);
await sleep(80);
lock = await hasty.lock(["resource", "another"], 1000);
await assert.rejects(hasty.lock("another", 1000));
await lock.unlock();

let inside = 0;
let rounds = 0;
await Promise.all(
  Array.from({ length: 10 }, async () => {
    const held = await patient.lock("shared", 2000);
    assert.equal(++inside, 1, "one at a time");
    await sleep(2);
    inside -= 1;
    rounds += 1;
    await held.unlock();
  }),
);
assert.equal(rounds, 10);
redis.disconnect();
console.log(`redlock ${version}: lock, extend, unlock, expiry, several resources, ten at once`);
