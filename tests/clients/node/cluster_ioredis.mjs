// ioredis' Cluster writes and reads back: node cluster_ioredis.mjs PORT SECONDS TAGS
import { createRequire } from "node:module";
import { Cluster } from "ioredis";
import { Record } from "./cluster_record.mjs";

const { version } = createRequire(import.meta.url)("ioredis/package.json");
const client = new Cluster([{ host: "127.0.0.1", port: Number(process.argv[2]) }]);
client.on("error", () => {});
await new Record(version).run(Number(process.argv[3]), (key, value) => client.set(key, value), (key) => client.get(key));
client.disconnect();
