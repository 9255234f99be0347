// What the page asks the server, as whom, and what answers are in here.

/** Bytes that are no text. */
export class Bytes {
  constructor(base64) { this.base64 = base64; }
  get bytes() { return Uint8Array.from(atob(this.base64), c => c.charCodeAt(0)); }
  toString() {
    const shown = byte => byte >= 32 && byte < 127 && byte !== 92 ? String.fromCharCode(byte) : '\\x' + byte.toString(16).padStart(2, '0');
    return Array.from(this.bytes, shown).join('');
  }
}

/** A status such as OK. */
export class Status {
  constructor(text) { this.text = text; }
  toString() { return String(this.text); }
}

/** An error that a command was answered with. */
export class Refused {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

/** Pairs in the order in which the server sent them. */
export class Pairs {
  constructor(pairs) { this.pairs = pairs; }
  get(name) { return this.pairs.find(([key]) => String(key) === name)?.[1]; }
}

export class Members {
  constructor(items) { this.items = items; }
}

/** The server, or the way to it, does not give an answer. */
export class Unanswered extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

const DECODERS = {
  base64: reply => new Bytes(reply.base64),
  simple: reply => new Status(decoded(reply.simple)),
  error: reply => new Refused(reply.error),
  integer: reply => BigInt(reply.integer),
  bignumber: reply => BigInt(reply.bignumber),
  double: reply => ({ inf: Infinity, '-inf': -Infinity })[reply.double] ?? Number(reply.double),
  map: reply => new Pairs(reply.map.map(([key, value]) => [decoded(key), decoded(value)])),
  set: reply => new Members(reply.set.map(decoded)),
  push: reply => reply.push.map(decoded),
  verbatim: reply => decoded(reply.text),
  attributes: reply => decoded(reply.value),
};

function decoded(reply) {
  if (Array.isArray(reply)) return reply.map(decoded);
  if (reply === null || typeof reply !== 'object') return reply;
  return DECODERS[Object.keys(reply)[0]](reply);
}

/** The word of a command that stands for a key or value from a reply. */
const encoded = word => word instanceof Bytes ? { base64: word.base64 } : String(word);

// User and password live as long as the page, nowhere else.
let authorization = null;
let user = null;

export const login = {
  get user() { return user; },
  set(name, password) {
    user = name || 'default';
    const text = new TextEncoder().encode(`${user}:${password}`);
    authorization = 'Basic ' + btoa(Array.from(text, byte => String.fromCharCode(byte)).join(''));
  },
};

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (authorization) headers.Authorization = authorization;
  let answer;
  try {
    // Without the browser's own credentials it does not ask for a password by itself.
    answer = await fetch(path, { ...options, headers, credentials: 'omit', cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Unanswered(0, 'The server cannot be reached.');
  }
  if (!answer.ok) throw new Unanswered(answer.status, (await answer.text()).trim());
  return answer.json();
}

/** The replies to commands, which are lists of words; they run one after another on one connection. */
export async function run(commands, signal) {
  const body = JSON.stringify(commands.map(words => words.map(encoded)));
  const headers = { 'Content-Type': 'application/json' };
  return (await ask('/api/commands', { method: 'POST', headers, body, signal })).replies.map(decoded);
}

/** As `run`, in a database. */
export async function runIn(database, commands, signal) {
  const [selected, ...replies] = await run([['SELECT', database], ...commands], signal);
  return selected instanceof Refused ? commands.map(() => selected) : replies;
}

export const history = since => ask(`/api/history?since=${since}`);

export const options = async () => (await ask('/api/options')).options;

/** Why clients should not be sent to the server now, or nothing. It is answered to anybody, without asking whoever runs commands. */
export async function reasonsUnready() {
  let answer;
  try { answer = await fetch('/ready', { credentials: 'omit', cache: 'no-store' }); } catch { throw new Unanswered(0, 'The server cannot be reached.'); }
  return answer.ok ? '' : (await answer.text()).trim().replaceAll('\n', ', ');
}

/** INFO's fields by name. */
export function fieldsOf(text) {
  const fields = new Map();
  for (const line of String(text).split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0 && !line.startsWith('#')) fields.set(line.slice(0, at), line.slice(at + 1));
  }
  return fields;
}

export const isAbort = error => error?.name === 'AbortError';
