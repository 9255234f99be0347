// What clients of clusters remember of each key, and how they write and read back.
const KEYS = 2000;
// Every second key is of one of the slots that move, which these words are of.
const TAGS = process.argv[4].split(",");
const name = (number) => `{${number % 2 ? TAGS[(number >> 1) % TAGS.length] : number}}:cluster-client:${number}`;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Record {
  report = { writes: 0, reads: 0, errors: {}, lost: [], wrong: [] };
  keys = Array.from({ length: KEYS }, () => ({ acknowledged: 0, at: 0, tried: 0 }));

  constructor(version) {
    this.report.version = version;
  }

  read(number, text) {
    this.report.reads += 1;
    const entry = this.keys[number];
    const value = Number(text ?? 0);
    if (entry.acknowledged <= value && value <= entry.tried) return;
    const found = value < entry.acknowledged ? this.report.lost : this.report.wrong;
    found.push([name(number), value, entry.acknowledged, entry.at]);
    // From here on the older value is the right one.
    entry.acknowledged = Math.min(value, entry.tried);
  }

  error(error) {
    const text = `${error.name}: ${error.message}`.slice(0, 120);
    this.report.errors[text] = (this.report.errors[text] ?? 0) + 1;
  }

  // `set` and `get` are the client's own; four loops run at once, each with keys of its own.
  async run(seconds, set, get) {
    const end = Date.now() + seconds * 1000;
    await Promise.all([0, 1, 2, 3].map((first) => this.write(first, end, set, get)));
    for (let number = 0; number < KEYS; number += 1) await this.readUntil(number, get);
    console.log(JSON.stringify(this.report));
  }

  async write(first, end, set, get) {
    for (let turn = first; Date.now() < end; turn += 4) {
      const number = (turn * 7) % KEYS;
      const entry = this.keys[number];
      entry.tried += 1;
      const value = entry.tried;
      try {
        await set(name(number), String(value));
        this.report.writes += 1;
        [entry.acknowledged, entry.at] = [value, Date.now() / 1000];
        this.read(number, await get(name(number)));
      } catch (error) {
        this.error(error);
        await pause(100);
      }
    }
  }

  async readUntil(number, get) {
    for (let attempt = 0; attempt < 100; attempt += 1) {
      try {
        this.read(number, await get(name(number)));
        return;
      } catch (error) {
        this.error(error);
        await pause(200);
      }
    }
  }
}
