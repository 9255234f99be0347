// Starts the program as it is: by_binary.mjs SERVER.
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import {once} from "node:events";
import {mkdtemp, rm} from "node:fs/promises";
import {createServer} from "node:net";
import {tmpdir} from "node:os";
import {join} from "node:path";
import Redis from "ioredis";

async function withServer(program, body) {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const {port} = probe.address();
  probe.close();
  const directory = await mkdtemp(join(tmpdir(), "recipe-"));
  const options = ["--port", port, "--bind", "127.0.0.1", "--dir", directory, "--save", ""];
  const server = spawn(program, options.map(String), {stdio: "ignore"});
  const ended = once(server, "exit");
  // The client tries until the server listens, and its first command waits for that.
  const client = new Redis({port, host: "127.0.0.1", retryStrategy: () => 20, maxRetriesPerRequest: null});
  client.on("error", () => {});
  try {
    return await body(client);
  } finally {
    client.disconnect();
    server.kill();
    assert.deepEqual(await ended, [0, null]);
    await rm(directory, {recursive: true});
  }
}

await withServer(process.argv[2], async (client) => {
  await client.lpush("jobs", "one", "two");
  assert.equal(await client.rpop("jobs"), "one");
});
console.log("by_binary.mjs: started, used and ended");
