// A browser of keys: found by pattern and type, each shown as a person reads it.
import { Bytes, isAbort, run, runIn } from './api.js';
import { bytes, card, field, figures, h, heading, inBytes, isRefused, measured, notice, refusal, span, table, whole } from './page.js';
import { keyAddress, shortened } from './replies.js';
import { layoutOf, valueOf } from './values.js';

export const title = 'Keys';

const TYPES = ['any type', 'string', 'list', 'hash', 'set', 'zset', 'stream'];
/** Keys of a page: each takes three commands of a request. */
const PAGE = 80;
/** Bytes of names that one request may carry, which names each key three times; one whose name is longer than the other is not asked about. */
const NAMES_BYTES = 250_000;
const NAME_MAX = 120_000;
/** Keys that one step of a search looks at, the first and the longest: each is a moment in which the server does nothing else. */
const STEP_MIN = 100;
const STEP_MAX = 2000;

/** What the address asks for: which database, and perhaps which key. */
function asked() {
  const parameters = new URLSearchParams(location.hash.split('?')[1] ?? '');
  const key = parameters.has('key64') ? new Bytes(parameters.get('key64')) : parameters.get('key');
  return { database: Number(parameters.get('db') ?? 0) || 0, key };
}

const nameLength = key => key instanceof Bytes ? key.base64.length : new TextEncoder().encode(JSON.stringify(key)).length;

/** Keys in groups of which one request can tell; one whose name is too long is alone. */
function inRequests(keys) {
  const groups = [];
  let room = 0;
  for (const key of keys) {
    room -= nameLength(key);
    if (groups.length === 0 || room < 0 || groups.at(-1).length === PAGE) { groups.push([]); room = NAMES_BYTES - nameLength(key); }
    groups.at(-1).push(key);
  }
  return groups;
}

const lifetime = ms => ms === null ? '–' : ms === -1 ? h('span', { class: 'dim' }, 'none') : ms === -2 ? 'gone' : span(ms / 1000);

export async function start(root, { isCurrent, failed }) {
  const wanted = asked();
  const database = h('input', { type: 'number', min: '0', value: String(wanted.database), id: 'key-db', class: 'short' });
  const pattern = h('input', { type: 'search', value: '*', id: 'key-pattern', spellcheck: 'false', autocapitalize: 'none' });
  const type = h('select', { id: 'key-type' }, TYPES.map(name => h('option', { value: name }, name)));
  const told = h('span', { class: 'dim', role: 'status' });
  const bar = h('progress', { max: 1, value: 0, hidden: true, 'aria-label': 'Keys looked at' });
  const end = h('button', { type: 'button', class: 'quiet', hidden: true }, 'Cancel');
  const more = h('button', { type: 'button', class: 'quiet', disabled: true, onclick: () => find(false) }, 'More');
  const counting = h('button', { type: 'button', class: 'quiet', onclick: () => countAll() }, 'Count all');
  const place = h('div', { class: 'stack', tabindex: '-1' });
  const made = table('Keys', [
    { title: 'Key', value: row => String(row.key), show: row => h('a', { class: 'key', href: keyAddress(database.value, row.key) }, shortened(row.key, 160) || '(empty)') },
    { title: 'Type', value: row => row.type, show: row => h('span', { class: 'badge' }, row.type) },
    { title: 'Time left', number: true, value: row => row.ttl, show: row => lifetime(row.ttl) },
    { title: 'Bytes', number: true, value: row => row.bytes, show: row => row.bytes === null ? '–' : measured(inBytes(row.bytes)) },
  ], { tall: true, empty: 'No key has been found.' });

  let rows = [];
  let cursor = '0';
  let cancel = new AbortController();

  /** Runs long work that says how far it is and can be ended. */
  async function working(work) {
    cancel.abort();
    cancel = new AbortController();
    const { signal } = cancel;
    end.onclick = () => cancel.abort();
    more.disabled = counting.disabled = true;
    end.hidden = bar.hidden = false;
    bar.value = 0;
    try {
      await work(signal);
    } catch (error) {
      if (!isAbort(error)) { told.textContent = String(error.message); failed(error); }
      else if (!signal.reason?.isReplaced) told.textContent += ' (cancelled)';
    }
    if (signal !== cancel.signal) return;
    end.hidden = bar.hidden = true;
    counting.disabled = false;
    more.disabled = cursor === '0';
  }

  const scan = (at, step) => ['SCAN', at, 'MATCH', pattern.value || '*', 'COUNT', step, ...type.selectedIndex ? ['TYPE', type.value] : []];

  function find(isNew) {
    if (isNew) { rows = []; cursor = '0'; made.fill(rows); }
    return working(async signal => {
      const [total] = await runIn(database.value, [['DBSIZE']], signal);
      const [found, size] = [[], Number(total) || 0];
      let [looked, step] = [0, STEP_MIN];
      do {
        const [reply] = await runIn(database.value, [scan(cursor, step)], signal);
        if (isRefused(reply)) { told.textContent = String(reply); return; }
        cursor = String(reply[0]);
        found.push(...reply[1]);
        looked += step;
        step = Math.min(STEP_MAX, step * 2);
        bar.value = size ? Math.min(1, looked / size) : 1;
        told.textContent = `${whole(rows.length + found.length)} found, about ${whole(Math.min(looked, size))} of ${whole(size)} looked at`;
      } while (cursor !== '0' && found.length < PAGE);
      for (const keys of inRequests(found)) rows = [...rows, ...await described(keys, signal)];
      made.fill(rows, `${whole(rows.length)} keys${cursor === '0' ? '' : ', and there may be more'}`);
      told.textContent = size ? `${whole(size)} keys in the database` : 'The database is empty.';
    });
  }

  async function described(keys, signal) {
    if (nameLength(keys[0]) > NAME_MAX) return keys.map(key => ({ key, type: '?', ttl: null, bytes: null }));
    const commands = keys.flatMap(key => [['TYPE', key], ['PTTL', key], ['MEMORY', 'USAGE', key]]);
    const [, ...replies] = await runIn(database.value, [['CLIENT', 'NO-TOUCH', 'ON'], ...commands], signal);
    return keys.map((key, at) => {
      const [kind, ttl, size] = replies.slice(at * 3, at * 3 + 3);
      return { key, type: isRefused(kind) ? '?' : String(kind), ttl: isRefused(ttl) ? -2 : ttl, bytes: typeof size === 'number' ? size : null };
    });
  }

  function countAll() {
    return working(async signal => {
      const [total] = await runIn(database.value, [['DBSIZE']], signal);
      let [at, number, looked] = ['0', 0, 0];
      do {
        const [reply] = await runIn(database.value, [scan(at, STEP_MAX)], signal);
        if (isRefused(reply)) { told.textContent = String(reply); return; }
        at = String(reply[0]);
        number += reply[1].length;
        looked += STEP_MAX;
        bar.value = total ? Math.min(1, looked / total) : 1;
        told.textContent = `${whole(number)} match so far, about ${whole(Math.min(looked, total))} of ${whole(total)} looked at`;
      } while (at !== '0');
      told.textContent = `${whole(number)} of ${whole(total)} keys match.`;
    });
  }

  async function open({ key }) {
    if (key === null) return place.replaceChildren(notice('Choose a key to see what it holds.'));
    if (nameLength(key) > NAME_MAX) return place.replaceChildren(card('Key', '', h('p', { class: 'key key-name' }, shortened(key, 1000)), notice('Its name is too long for the console to ask about it.')));
    const replies = await runIn(asked().database, [['CLIENT', 'NO-TOUCH', 'ON'], ['TYPE', key], ['PTTL', key], ['OBJECT', 'ENCODING', key],
      ['MEMORY', 'USAGE', key, 'SAMPLES', '0'], ['OBJECT', 'IDLETIME', key], ['OBJECT', 'LAYOUT', key]]);
    const [, kind, ttl, encoding, size, idle, layout] = replies;
    if (isRefused(kind)) return place.replaceChildren(refusal(kind, 'The key'));
    const name = h('p', { class: 'key key-name' }, shortened(key, 1000) || '(empty)');
    if (String(kind) === 'none') return place.replaceChildren(card('Key', '', name, notice('It is not there, or not any more.')));
    const or = (reply, show) => reply === null || isRefused(reply) ? '–' : show(reply);
    const facts = figures([['Type', String(kind)], ['Encoding', or(encoding, String)], ['Time left', or(ttl, lifetime)],
      ['Memory', or(size, bytes)], ['Not used for', or(idle, span)]]);
    const value = await valueOf(asked().database, key, String(kind), failed);
    const drawn = isRefused(layout) ? refusal(layout, 'The layout') : layoutOf(layout);
    place.replaceChildren(card('Key', '', name, facts), card('Value', String(kind), value), ...drawn ? [card('Layout in memory', '', drawn)] : []);
  }

  async function opened() {
    try { await open(asked()); } catch (error) { place.replaceChildren(notice(String(error.message), 'bad')); failed(error); }
  }
  // Another key of this view is shown beside the list, which stays.
  async function moved() {
    if (!isCurrent() || !location.hash.startsWith('#/keys')) return;
    await opened();
    if (window.matchMedia('(max-width: 75rem)').matches) place.scrollIntoView();
    place.focus({ preventScroll: true });
  }
  window.addEventListener('hashchange', moved);

  root.replaceChildren(heading(title), h('form', { class: 'fields', onsubmit: event => { event.preventDefault(); find(true); } },
    field('Database', database), field('Pattern', pattern, 'grows'), field('Type', type), h('button', {}, 'Search'), counting),
  h('div', { class: 'browser' }, card('Keys', '', h('div', { class: 'fields' }, more, end, bar, told), made.element), place));
  const [[ping]] = await Promise.all([run([['PING']]), opened()]);
  if (isRefused(ping)) told.textContent = String(ping);
  find(true);
  return () => { window.removeEventListener('hashchange', moved); cancel.abort(); };
}
