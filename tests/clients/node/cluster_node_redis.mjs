// node-redis' cluster writes and reads back: node cluster_node_redis.mjs PORT SECONDS TAGS
import { createRequire } from "node:module";
import { createCluster } from "redis";
import { Record } from "./cluster_record.mjs";

const { version } = createRequire(import.meta.url)("redis/package.json");
const client = createCluster({
  rootNodes: [{ url: `redis://127.0.0.1:${process.argv[2]}` }],
  defaults: { socket: { socketTimeout: 5000 } },
});
client.on("error", () => {});
await client.connect();
await new Record(version).run(Number(process.argv[3]), (key, value) => client.set(key, value), (key) => client.get(key));
client.destroy();
