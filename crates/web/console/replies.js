// Replies as a person reads them: lines of a console, words of a command, bytes.
import { Bytes, Members, Pairs, Refused, Status } from './api.js';
import { h } from './page.js';

const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text of which nothing is invisible or turns what follows around. */
export const visible = text => String(text).replace(CONTROL, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** A key or an element in a table: as text, of which only the beginning is shown where it is long. */
export function shortened(value, max = 240) {
  const text = visible(value);
  return text.length <= max ? text : `${text.slice(0, max)} … (${(text.length - max).toLocaleString('en')} more)`;
}

/** A word of a command line, in quotes where it would be read otherwise. */
export function quoted(word) {
  if (word instanceof Bytes) return `"${word.toString().replaceAll('"', '\\x22')}"`;
  const text = String(word);
  if (text !== '' && !/[\s"'\\]/.test(text) && !text.match(CONTROL)) return text;
  return `"${visible(text.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t'))}"`;
}

/** The words of a line as the command line's clients read it: quotes, and within double ones \n, \xff and the like. */
export function words(line) {
  const found = [];
  let at = 0;
  while (at < line.length) {
    if (/\s/.test(line[at])) { at += 1; continue; }
    let word = '';
    let isBinary = false;
    while (at < line.length && !/\s/.test(line[at])) {
      const mark = line[at];
      if (mark !== '"' && mark !== "'") { word += line[at++]; continue; }
      at += 1;
      while (at < line.length && line[at] !== mark) {
        if (line[at] !== '\\' || (mark === "'" && line[at + 1] !== "'")) { word += line[at++]; continue; }
        const hex = mark === '"' && line.slice(at).match(/^\\x([0-9a-f]{2})/i);
        if (hex) { word += String.fromCharCode(parseInt(hex[1], 16)); isBinary = true; at += 4; continue; }
        word += { n: '\n', r: '\r', t: '\t', b: '\b', a: '\x07' }[line[at + 1]] ?? line[at + 1] ?? '';
        at += 2;
      }
      if (at >= line.length) return null;
      at += 1;
      if (at < line.length && !/\s/.test(line[at])) return null;
    }
    found.push(isBinary ? ofBytes(word) : word);
  }
  return found;
}

/** A word in which some bytes were named. */
function ofBytes(word) {
  const bytes = Array.from(word).flatMap(c => c.charCodeAt(0) < 256 ? [c.charCodeAt(0)] : [...new TextEncoder().encode(c)]);
  return new Bytes(btoa(String.fromCharCode(...bytes)));
}

/** A reply over several lines. */
export function printed(reply, indent = '') {
  if (reply === null) return '(nil)';
  if (reply instanceof Refused) return `(error) ${reply.text}`;
  if (reply instanceof Status) return String(reply);
  if (reply instanceof Pairs) {
    return listed(reply.pairs.map(([key, value], at) => [`${at + 1}# ${inLine(key)} => `, value]), indent, '(empty map)');
  }
  if (reply instanceof Members) return listed(reply.items.map((item, at) => [`${at + 1}~ `, item]), indent, '(empty set)');
  if (Array.isArray(reply)) return listed(reply.map((item, at) => [`${at + 1}) `, item]), indent, '(empty array)');
  if (typeof reply === 'number' || typeof reply === 'bigint') return Number.isInteger(Number(reply)) ? `(integer) ${reply}` : `(double) ${reply}`;
  if (typeof reply === 'boolean') return `(${reply})`;
  // What consists of lines is meant to be read as such.
  if (typeof reply === 'string' && indent === '' && /\r?\n/.test(reply)) return visible(reply.replaceAll('\r\n', '\n'));
  return inLine(reply);
}

const inLine = reply => {
  const text = reply instanceof Bytes ? reply.toString() : visible(JSON.stringify(String(reply)).slice(1, -1));
  return `"${text}"`;
};

function listed(items, indent, empty) {
  if (items.length === 0) return empty;
  return items.map(([head, item], at) => {
    const lead = at === 0 ? '' : indent;
    return lead + head + printed(item, indent + ' '.repeat(Math.min(head.length, 4)));
  }).join('\n');
}

/** Sixteen bytes a line: where, in hexadecimal, and as text. */
export function hexDump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = Array.from(bytes.slice(at, at + 16));
    const text = part.map(byte => byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·').join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${part.map(byte => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ${text}`);
  }
  return lines.join('\n');
}

export const bytesOf = value => value instanceof Bytes ? value.bytes : new TextEncoder().encode(String(value));

/** Levels of JSON that are indented: what is deeper would be mostly spaces, of which the square of its depth. */
const LEVELS_MAX = 100;

/** JSON with its parts on lines of their own, otherwise as it is written: numbers keep all their digits. `null` if it is none. */
export function indentedJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try { JSON.parse(text); } catch { return null; }
  const out = [];
  let [opens, depth] = [false, 0];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const closes = token === '}' || token === ']';
    if (closes) depth -= 1;
    if (opens !== closes) out.push(`\n${'  '.repeat(depth)}`);
    opens = token === '{' || token === '[';
    if (opens) depth += 1;
    if (depth > LEVELS_MAX) return null;
    out.push(token === ',' ? `,\n${'  '.repeat(depth)}` : token === ':' ? ': ' : token);
  }
  return out.join('');
}

/** Where the browser of keys shows this one. */
export function keyAddress(database, key) {
  const name = key instanceof Bytes ? `key64=${encodeURIComponent(key.base64)}` : `key=${encodeURIComponent(key)}`;
  return `#/keys?db=${Number(database) || 0}&${name}`;
}

export const keyLink = (database, key) => h('a', { class: 'key', href: keyAddress(database, key) }, shortened(key, 120) || '(empty)');
