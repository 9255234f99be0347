// Warmline for tests and scripts: a server of its own that ends with the program.
import {spawn} from "node:child_process";
import {existsSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync} from "node:fs";
import {connect, createServer} from "node:net";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {setTimeout as sleep} from "node:timers/promises";
import {fileURLToPath} from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const ATTEMPTS = 10;

/** The server has not started; its log is in the message. */
export class WarmlineError extends Error {}

/** The path of a program of this package, or of the one that the environment variable WARMLINE_SERVER names. */
export function program(name = "warmline-server") {
  if (process.env.WARMLINE_SERVER && name === "warmline-server") return process.env.WARMLINE_SERVER;
  const path = join(here, "programs", process.arch, name);
  if (!existsSync(path)) throw new WarmlineError(`this package has no ${name} for ${process.platform} on ${process.arch}`);
  return path;
}

export class Warmline {
  #options;
  #password;
  #startTimeout;
  #child = null;
  #ended = null;
  port = null;
  directory = null;

  /** `settings` are options of the server, with capitals for hyphens: `{maxmemoryPolicy: "allkeys-lru"}`. */
  constructor(settings = {}, {options = [], startTimeout = 30_000} = {}) {
    this.#options = [...options];
    for (const [name, value] of Object.entries(settings)) {
      this.#options.push(`--${name.replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)}`, String(value));
    }
    this.#password = settings.requirepass;
    this.#startTimeout = startTimeout;
  }

  /** redis://127.0.0.1:PORT, with the password of `requirepass`. */
  get url() {
    if (this.port === null) throw new WarmlineError("the server is not running");
    const user = this.#password ? `:${encodeURIComponent(this.#password)}@` : "";
    return `redis://${user}127.0.0.1:${this.port}`;
  }

  /** What the server has logged. */
  get log() {
    return this.directory === null ? "" : readFileSync(join(this.directory, "log"), "utf8");
  }

  async start() {
    if (this.#child !== null) throw new WarmlineError("the server is running already");
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      // Another program may take the port before the server does.
      if (await this.#startOn(await freePort())) return this;
    }
    throw new WarmlineError("no port was free for long enough");
  }

  async #startOn(port) {
    const directory = (this.directory = mkdtempSync(join(tmpdir(), "warmline-")));
    const log = openSync(join(directory, "log"), "a+");
    // Opened before the server starts: the directory goes with a server that ends at once.
    const reader = openSync(join(directory, "log"), "r");
    const own = ["--port", port, "--bind", "127.0.0.1", "--dir", directory, "--save", ""];
    const command = [join(here, "supervise.sh"), directory, program(), ...own, ...this.#options];
    // A session of its own: the terminal's Ctrl-C is for the program, which then ends the server.
    const child = spawn("sh", command.map(String), {stdio: ["pipe", log, log], detached: true});
    closeSync(log);
    // The server does not keep the program running.
    child.unref();
    child.stdin.unref?.();
    child.stdin.on("error", () => {});
    let hasEnded = false;
    this.#child = child;
    this.#ended = new Promise((resolve) => child.once("exit", () => resolve((hasEnded = true))));
    try {
      const deadline = Date.now() + this.#startTimeout;
      while (!(await answers(port))) {
        if (hasEnded || Date.now() > deadline) {
          const text = readFileSync(reader, "utf8");
          const isTaken = hasEnded && text.includes("Address already in use");
          await this.stop();
          if (isTaken) return false;
          throw new WarmlineError(`the server has not started:\n${text}`);
        }
        await sleep(5);
      }
    } finally {
      closeSync(reader);
    }
    // A server of another program may have answered.
    if (hasEnded) {
      await this.stop();
      return false;
    }
    this.port = port;
    return true;
  }

  /** Ends the server, and removes its directory. */
  async stop() {
    const [child, directory] = [this.#child, this.directory];
    if (child === null) return;
    this.#child = this.port = this.directory = null;
    child.ref();
    child.stdin.end();
    const giveUp = setTimeout(() => {
      process.kill(-child.pid, "SIGKILL");
      rmSync(directory, {recursive: true, force: true});
    }, 30_000);
    await this.#ended;
    clearTimeout(giveUp);
  }

  async [Symbol.asyncDispose]() {
    await this.stop();
  }
}

/** Runs `body` with the URL of a server that ends with it. */
export async function withWarmline(body, settings, more) {
  const server = await new Warmline(settings, more).start();
  try {
    return await body(server.url, server);
  } finally {
    await server.stop();
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const {port} = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** An error is an answer too, of a server that asks for a password; one that loads its data is not ready. */
function answers(port) {
  return new Promise((resolve) => {
    const connection = connect(port, "127.0.0.1", () => connection.write("PING\r\n"));
    const end = (result) => {
      connection.destroy();
      resolve(result);
    };
    connection.setTimeout(1000, () => end(false));
    connection.once("error", () => end(false));
    connection.once("close", () => end(false));
    connection.once("data", (reply) => end(/^[+-]/.test(reply) && !/^-LOADING/.test(reply)));
  });
}
