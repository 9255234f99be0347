// A key's value, as a person reads its type: in pages where it is large.
import { Bytes, Members, Pairs, runIn, Unanswered } from './api.js';
import { bytes, day, figures, h, isRefused, notice, refusal, segments, table, whole } from './page.js';
import { bytesOf, hexDump, indentedJson, printed, shortened, visible } from './replies.js';

/** Of a string so much is fetched at a time. */
const PART_BYTES = 64 * 1024;
const PAGE = 50;
/** Of large elements a page has fewer, so that it stays about this large. */
const PAGE_BYTES = 2 * 1024 * 1024;
/** A hexadecimal view of more would only slow the page down. */
const HEX_BYTES = 4096;
const TOO_LARGE = 413;

/** Bytes from the middle of a text may lack the ends of a letter; as text if they are one otherwise. */
function readable(value) {
  if (!(value instanceof Bytes)) return String(value);
  const { bytes } = value;
  for (let cut = 0; cut < 4; cut += 1) {
    try { return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, bytes.length - cut)); } catch { /* One byte less, then. */ }
  }
  return null;
}

/** Bytes in the form that suits them, and the others to choose. */
export function blob(value) {
  const text = readable(value);
  const raw = bytesOf(value);
  const json = text === null ? null : indentedJson(text);
  const isText = text !== null && !/[\u0000-\u0008\u000e-\u001f]/.test(text);
  const forms = [['json', 'JSON', json], ['text', 'Text', isText ? text : null], ['hex', 'Bytes', '']].filter(([, , form]) => form !== null);
  const body = h('pre', { class: 'blob', tabindex: '0', role: 'region', 'aria-label': 'Value' });
  const show = form => {
    if (form === 'json') body.textContent = visible(json);
    else if (form === 'text') body.textContent = visible(text);
    else body.textContent = hexDump(raw.subarray(0, HEX_BYTES)) + (raw.length > HEX_BYTES ? `\n… ${whole(raw.length - HEX_BYTES)} bytes more` : '');
  };
  show(forms[0][0]);
  return h('div', { class: 'stack tight' }, forms.length > 1 && segments('Shown as', forms.map(([name, text]) => [name, text]), forms[0][0], show), body);
}

async function stringOf(source) {
  const [length] = await source.run([['STRLEN', source.key]]);
  if (isRefused(length)) return refusal(length, 'The value');
  const place = h('div', { class: 'stack tight' });
  const parts = Math.max(1, Math.ceil(length / PART_BYTES));
  async function show(part) {
    const [value] = await source.run([['GETRANGE', source.key, part * PART_BYTES, (part + 1) * PART_BYTES - 1]]);
    if (isRefused(value)) return place.replaceChildren(refusal(value, 'The value'));
    const turn = to => h('button', { type: 'button', class: 'quiet', disabled: to < 0 || to >= parts, onclick: () => turned(to) }, to < part ? 'Previous part' : 'Next part');
    place.replaceChildren(...[parts > 1 && h('div', { class: 'fields' }, turn(part - 1), turn(part + 1),
      h('span', { class: 'dim' }, `Part ${whole(part + 1)} of ${whole(parts)}, ${bytes(PART_BYTES)} each`)), blob(value)].filter(Boolean));
  }
  async function turned(part) {
    try { await show(part); } catch (error) { place.append(notice(String(error.message), 'bad')); source.failed(error); }
  }
  await show(0);
  return place;
}

const element = heading => ({ title: heading, show: row => elementText(row.value), kind: 'mono' });

function elementText(value) {
  const text = shortened(value, 400);
  if (text.length < 400 && !(value instanceof Bytes)) return text || h('span', { class: 'dim' }, 'empty');
  // What nobody opens is not made.
  const whole = h('details', { ontoggle: () => { if (whole.childElementCount === 1) whole.append(blob(value)); } }, h('summary', {}, shortened(value, 120)));
  return whole;
}

/** How each type is paged: `fetch(from, count)` answers rows, and from where it goes on, if it does. */
const PAGED = {
  list: {
    columns: [{ title: 'Index', number: true, show: row => whole(row.at) }, element('Element')],
    start: 0,
    async fetch(source, from, count) {
      const [items, length] = await source.run([['LRANGE', source.key, from, from + count - 1], ['LLEN', source.key]]);
      return isRefused(items) ? items : { rows: items.map((value, at) => ({ at: from + at, value })), next: from + count < length ? from + count : null };
    },
  },
  zset: {
    columns: [{ title: 'Rank', number: true, show: row => whole(row.at) }, { title: 'Score', number: true, show: row => String(row.score) }, element('Member')],
    start: 0,
    async fetch(source, from, count) {
      const [items, length] = await source.run([['ZRANGE', source.key, from, from + count - 1, 'WITHSCORES'], ['ZCARD', source.key]]);
      return isRefused(items) ? items
        : { rows: items.map(([value, score], at) => ({ at: from + at, value, score })), next: from + count < length ? from + count : null };
    },
  },
  hash: {
    columns: [{ title: 'Field', show: row => elementText(row.field), kind: 'key' }, element('Value')],
    start: '0',
    async fetch(source, from, count) {
      const [reply] = await source.run([['HSCAN', source.key, from, 'COUNT', count]]);
      if (isRefused(reply)) return reply;
      const rows = [];
      for (let at = 0; at + 1 < reply[1].length; at += 2) rows.push({ field: reply[1][at], value: reply[1][at + 1] });
      return { rows, next: nextCursor(reply[0]) };
    },
  },
  set: {
    columns: [element('Member')],
    start: '0',
    async fetch(source, from, count) {
      const [reply] = await source.run([['SSCAN', source.key, from, 'COUNT', count]]);
      return isRefused(reply) ? reply : { rows: [...(reply[1] instanceof Members ? reply[1].items : reply[1])].map(value => ({ value })), next: nextCursor(reply[0]) };
    },
  },
  stream: {
    columns: [{ title: 'Entry', show: row => row.id, kind: 'key' }, { title: 'Time', show: row => day(Number(row.id.split('-')[0])) },
      { title: 'Fields', show: row => row.fields.map(([name, value]) => h('div', {}, h('span', { class: 'dim' }, `${shortened(name, 60)}: `), shortened(value))), kind: 'mono' }],
    start: '-',
    async fetch(source, from, count) {
      const [entries] = await source.run([['XRANGE', source.key, from, '+', 'COUNT', count + 1]]);
      if (isRefused(entries)) return entries;
      const rows = entries.slice(0, count).map(([id, words]) => ({
        id: String(id), fields: Array.from({ length: words.length / 2 }, (_, at) => [words[2 * at], words[2 * at + 1]]),
      }));
      return { rows, next: entries.length > count ? String(entries[count][0]) : null };
    },
  },
};

const LENGTHS = { list: 'LLEN', zset: 'ZCARD', hash: 'HLEN', set: 'SCARD', stream: 'XLEN' };

const nextCursor = cursor => String(cursor) === '0' ? null : String(cursor);

async function pagesOf(type, source) {
  const { columns, start, fetch } = PAGED[type];
  const [size, length] = await source.run([['MEMORY', 'USAGE', source.key, 'SAMPLES', '5'], [LENGTHS[type], source.key]]);
  const fitting = Number(size) > 0 && Number(length) > 0 ? Math.floor(PAGE_BYTES * length / size) : PAGE;
  const made = table('Elements', columns, { tall: true });
  const told = h('span', { class: 'dim', role: 'status' });
  // Where the pages before began.
  const before = [];
  let [from, next] = [start, null];
  const back = h('button', { type: 'button', class: 'quiet', onclick: () => move(() => { from = before.pop(); }) }, 'Previous');
  const on = h('button', { type: 'button', class: 'quiet', onclick: () => move(() => { before.push(from); from = next; }) }, 'Next');
  const place = h('div', { class: 'stack tight' }, h('div', { class: 'fields' }, back, on, told), made.element);
  /** Shows another page; one that does not come leaves everything as it is. */
  async function move(choose) {
    const [was, pages] = [from, [...before]];
    choose();
    try { await show(); } catch (error) {
      from = was;
      before.splice(0, Infinity, ...pages);
      [back.disabled, on.disabled] = [before.length === 0, next === null];
      told.textContent = String(error.message);
      source.failed(error);
    }
  }

  async function show() {
    back.disabled = on.disabled = true;
    let page = null;
    // Some may be much larger than most: fewer fit into an answer, then.
    for (let count = Math.max(1, Math.min(PAGE, fitting)); page === null && count >= 1; count = Math.floor(count / 5)) {
      try { page = await fetch(source, from, count); } catch (error) {
        if (!(error instanceof Unanswered && error.status === TOO_LARGE)) throw error;
      }
    }
    if (page === null) {
      // Where they have places, those behind this one may be shown.
      const isPassed = typeof from === 'number' && from + 1 < Number(length);
      page = { rows: [], next: isPassed ? from + 1 : null, text: 'The elements here are larger than the console shows.' };
    }
    if (isRefused(page)) return place.replaceChildren(refusal(page, 'The value'));
    next = page.next;
    back.disabled = before.length === 0;
    on.disabled = next === null;
    made.fill(page.rows, `${whole(page.rows.length)} elements on page ${before.length + 1}`);
    told.textContent = page.text ?? (next === null ? 'The last page' : '');
  }
  await show();
  return place;
}

/** Consumer groups of a stream, and its bounds. */
async function streamFacts(source) {
  const [info, groups] = await source.run([['XINFO', 'STREAM', source.key], ['XINFO', 'GROUPS', source.key]]);
  if (isRefused(info)) return null;
  const made = table('Consumer groups', ['name', 'consumers', 'pending', 'last-delivered-id', 'lag'].map(name => ({
    title: name, number: ['consumers', 'pending', 'lag'].includes(name), show: group => shortened(group.get(name) ?? '–'),
  })), { empty: 'No group reads it.' });
  made.fill(isRefused(groups) ? [] : groups);
  return h('div', { class: 'stack tight' }, figures([['Entries', whole(info.get('length'))], ['Last entry', String(info.get('last-generated-id'))],
    ['Entries ever added', whole(info.get('entries-added') ?? 0)]]), made.element);
}

/** The value of a key, of whichever type. */
export async function valueOf(database, key, type, failed) {
  const source = { key, failed, run: commands => runIn(database, [['CLIENT', 'NO-TOUCH', 'ON'], ...commands]).then(replies => replies.slice(1)) };
  if (type === 'string') return stringOf(source);
  if (!PAGED[type]) return notice(`Values of the type ${type} are not shown.`);
  const pages = await pagesOf(type, source);
  return type === 'stream' ? h('div', { class: 'stack tight' }, await streamFacts(source), pages) : pages;
}

// Of many parts of one kind so many are drawn.
const DRAWN_MAX = 60;
const LAYOUT_FIGURES = ['structure', 'elements', 'fill', 'bytes-per-element', 'total-bytes'];

/** OBJECT LAYOUT, drawn: its parts as boxes, and how full they are. */
export function layoutOf(reply) {
  if (!(reply instanceof Pairs)) return null;
  const fill = reply.get('fill');
  const parts = reply.pairs.filter(([name]) => !LAYOUT_FIGURES.includes(String(name)));
  const boxes = number => Array.from({ length: Math.min(number, DRAWN_MAX) }, () => {
    const inner = h('span');
    inner.style.height = `${Math.round((fill ?? 1) * 100)}%`;
    return h('span', { class: 'box' }, inner);
  });
  const drawn = parts.filter(([, number]) => typeof number === 'number').map(([name, number]) => h('div', { class: 'part' },
    h('p', {}, `${whole(number)} `, h('span', { class: 'dim' }, String(name).replaceAll('-', ' '))),
    h('div', { class: 'boxes', 'aria-hidden': 'true' }, boxes(number), number > DRAWN_MAX && h('span', { class: 'dim' }, '…'))));
  const told = [['Structure', String(reply.get('structure'))], ['Elements', reply.get('elements')], ['Full', fill === undefined ? undefined : `${Math.round(fill * 100)} %`],
    ['Bytes an element', reply.get('bytes-per-element')], ['Bytes', reply.get('total-bytes')]];
  const shown = value => typeof value === 'number' ? value.toLocaleString('en') : printedOnce(value);
  return h('div', { class: 'layout' }, figures(told.filter(([, value]) => value !== undefined).map(([name, value]) => [name, shown(value)])), drawn);
}

const printedOnce = value => typeof value === 'string' ? value : printed(value);
