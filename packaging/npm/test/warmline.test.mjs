// The package as it is installed, with ioredis.
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import {existsSync} from "node:fs";
import {connect} from "node:net";
import {test} from "node:test";
import {setTimeout as sleep} from "node:timers/promises";
import Redis from "ioredis";
import {Warmline, WarmlineError, withWarmline} from "warmline";

async function eventually(condition) {
  for (const deadline = Date.now() + 30_000; !(await condition()); await sleep(20)) assert(Date.now() < deadline);
}

function isGone(port) {
  return new Promise((resolve) => {
    const connection = connect(port, "127.0.0.1");
    connection.once("connect", () => resolve(false)).once("error", () => resolve(true));
    connection.once("connect", () => connection.destroy());
  });
}

test("a function has a server", async () => {
  let port, directory;
  const value = await withWarmline(async (url, server) => {
    ({port, directory} = server);
    const client = new Redis(url);
    await client.set("greeting", "hello");
    const value = await client.get("greeting");
    await client.quit();
    assert.match(server.log, /Ready to accept connections/);
    return value;
  });
  assert.equal(value, "hello");
  assert(await isGone(port));
  assert(!existsSync(directory));
});

test("options are properties", async () => {
  const settings = {requirepass: "a/b@c", maxmemory: "100mb", maxmemoryPolicy: "allkeys-lru"};
  await withWarmline(async (url) => {
    const client = new Redis(url);
    assert.deepEqual(await client.config("GET", "maxmemory-policy"), ["maxmemory-policy", "allkeys-lru"]);
    await client.quit();
  }, settings);
});

test("a wrong option is reported with the log", async () => {
  const server = new Warmline({noSuchOption: 1});
  await assert.rejects(server.start(), (error) => error instanceof WarmlineError && /no-such-option/.test(error.message));
  assert.throws(() => server.url, WarmlineError);
});

test("a function that fails ends its server", async () => {
  let port;
  const failing = withWarmline((_, server) => {
    ({port} = server);
    throw new RangeError();
  });
  await assert.rejects(failing, RangeError);
  assert(await isGone(port));
});

const parent = `
import {Warmline} from "warmline";
const server = await new Warmline().start();
console.log(server.port, server.directory);
`;
for (const [end, last] of [["is killed", "setInterval(() => {}, 1000);"], ["returns", ""], ["throws", "throw new Error();"]]) {
  test(`a server ends with a program that ${end}`, async () => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", parent + last], {stdio: ["ignore", "pipe", "ignore"]});
    const line = await new Promise((resolve) => child.stdout.once("data", (data) => resolve(String(data))));
    const [port, directory] = line.trim().split(" ");
    if (end === "is killed") {
      assert(!(await isGone(port)));
      child.kill("SIGKILL");
    }
    await eventually(() => isGone(port));
    await eventually(() => !existsSync(directory));
  });
}
