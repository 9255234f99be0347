// Where memory goes: by class, prefix, type, encoding; the largest keys.
import { Bytes, fieldsOf, isAbort, run, runIn } from './api.js';
import { bytes, card, figures, h, heading, isRefused, measured, inBytes, inCount, notice, percent, refusal, share, table, whole } from './page.js';
import { keyLink, shortened } from './replies.js';

export const title = 'Memory';

/** A row that has keys and bytes, of all the rows' bytes. */
const sizeColumns = total => [
  { title: 'Keys', number: true, value: row => row.keys, show: row => whole(row.keys) },
  { title: 'Bytes', number: true, value: row => row.bytes, show: row => measured(inBytes(row.bytes)) },
  { title: 'A key', number: true, value: row => row.bytes / row.keys, show: row => row.keys ? measured(inBytes(row.bytes / row.keys)) : '–' },
  { title: 'Share', number: true, value: row => row.bytes, show: row => [percent(total() ? row.bytes / total() : 0), share(total() ? row.bytes / total() : 0)] },
];

const sum = rows => rows.reduce((bytes, row) => bytes + row.bytes, 0);

function sizes(caption, head, rows) {
  const total = sum(rows);
  const made = table(caption, [head, ...sizeColumns(() => total)], { sortedBy: 2, tall: true });
  made.fill(rows);
  return made.element;
}

const named = (heading, show = row => row.name) => ({ title: heading, value: row => String(row.name), show, kind: 'key' });

/** A class of memory for each part of MEMORY STATS and INFO that is one. */
function classes(info, stats) {
  const of = name => Number(stats.get(name) ?? 0);
  const tables = stats.pairs.filter(([name]) => /^db\.\d+$/.test(String(name)));
  const rows = [
    ['Data', of('dataset.bytes'), 'keys and values'],
    ['Key tables', tables.reduce((bytes, [, table]) => bytes + Number(table.get?.('overhead.hashtable.main') ?? 0), 0), 'where keys are looked up'],
    ['Clients', of('clients.normal'), 'buffers of connections'],
    ['Replicas', of('clients.slaves') + of('replication.backlog'), 'their output and the backlog'],
    ['Append-only file', of('aof.buffer'), 'what waits to be written'],
    ['Scripts and functions', of('lua.caches') + of('functions.caches'), 'what is kept of them'],
    ['At the start', of('startup.allocated'), 'before there was any data'],
  ].map(([name, bytes, note]) => ({ name, bytes, note }));
  const used = Number(info.get('used_memory'));
  const made = table('Memory in use, by what it is for', [
    { title: 'Class', value: row => row.name, show: row => [row.name, h('span', { class: 'under' }, row.note)] },
    { title: 'Bytes', number: true, value: row => row.bytes, show: row => measured(inBytes(row.bytes)) },
    { title: 'Share', number: true, value: row => row.bytes, show: row => [percent(row.bytes / used), share(row.bytes / used)] },
  ], { sortedBy: 1 });
  made.fill(rows);
  return made.element;
}

function summary(info) {
  const of = name => Number(info.get(name) ?? 0);
  const limit = of('maxmemory');
  return figures([
    ['In use', bytes(of('used_memory'))],
    ['At most so far', bytes(of('used_memory_peak'))],
    ['Limit (maxmemory)', limit ? `${bytes(limit)}, ${percent(of('used_memory') / limit)} used` : 'none'],
    ['When it is reached', info.get('maxmemory_policy') ?? '–'],
    ['Resident', bytes(of('used_memory_rss'))],
    ['Resident to in use', info.get('mem_fragmentation_ratio') ?? '–'],
    ['Of the machine', bytes(of('total_system_memory'))],
  ]);
}

/** The rows of all prefixes added up, by type or encoding. */
function added(prefixes, field) {
  const rows = new Map();
  for (const prefix of prefixes) {
    for (const [name, value] of prefix.get(field)?.pairs ?? []) {
      const [keys, bytes] = [value.get('keys'), value.get('bytes')];
      const row = rows.get(String(name)) ?? { name: String(name), keys: 0, bytes: 0 };
      rows.set(row.name, { name: row.name, keys: row.keys + keys, bytes: row.bytes + bytes });
    }
  }
  return [...rows.values()];
}

function byPrefix(reply) {
  const what = 'Memory by prefix';
  const isOff = isRefused(reply) && String(reply).includes('memory-prefixes');
  if (isOff || reply.length === 0) return [card('By prefix', '', notice('No prefixes are counted: the option memory-prefixes says which are.'))];
  if (isRefused(reply)) return [card('By prefix', '', refusal(reply, what))];
  const rows = reply.map(map => ({
    name: map.get('prefix'), keys: Number(map.get('keys')), bytes: Number(map.get('bytes')), expiring: Number(map.get('expiring')),
  }));
  const total = sum(rows);
  const columns = [named('Prefix', row => shortened(row.name) || '(none)'), ...sizeColumns(() => total),
    { title: 'With a time', number: true, value: row => row.expiring, show: row => percent(row.expiring) }];
  const isExact = reply.every(map => String(map.get('state') ?? 'exact') === 'exact');
  const made = table(isExact ? 'Exact, counted as keys change' : 'Keys that were there before are still being counted', columns, { sortedBy: 2, tall: true });
  made.fill(rows);
  return [
    card('By prefix', '', made.element),
    card('By type', '', sizes('Types of all prefixes together', named('Type'), added(reply, 'types'))),
    card('By encoding', '', sizes('Encodings of all prefixes together', named('Encoding'), added(reply, 'encodings'))),
  ];
}

/** What each rule of `key-policy` has, and saves; the server begins to count that when it is asked first. */
function byRule(rules, stats) {
  const made = rows => card('By rule', '', rows);
  if (isRefused(rules)) return made(refusal(rules, 'Rules for families of keys'));
  if (rules.length === 0) return made(notice('There are no rules: the option key-policy gives families of keys settings of their own.'));
  if (isRefused(stats)) return made(refusal(stats, 'What the rules come to'));
  const rows = stats.map(map => ({
    name: map.get('glob'), keys: map.get('keys'), bytes: map.get('bytes'), compressed: map.get('compressed-values'), saved: map.get('saved-bytes'),
  }));
  const isExact = stats.every(map => String(map.get('state')) === 'exact');
  const shown = table(isExact ? 'Rules of key-policy, in the order in which they are tried' : 'Keys that were there before are still being counted', [
    named('Rule', row => shortened(row.name) || '(empty)'), ...sizeColumns(() => sum(rows)),
    { title: 'Compressed', number: true, value: row => row.compressed, show: row => whole(row.compressed) },
    { title: 'Saved', number: true, value: row => row.saved, show: row => measured(inBytes(row.saved)) },
  ], { tall: true });
  shown.fill(rows);
  return made(shown.element);
}

function bigKeys(reply) {
  if (isRefused(reply)) return refusal(reply, 'The largest keys');
  const made = table('The largest that are known', [
    { title: 'Key', value: row => String(row.get('key')), show: row => keyLink(row.get('db'), row.get('key')), kind: 'cut' },
    { title: 'Type', value: row => String(row.get('type')), show: row => String(row.get('type')) },
    { title: 'Encoding', value: row => String(row.get('encoding')), show: row => String(row.get('encoding')) },
    { title: 'Elements', number: true, value: row => row.get('elements') ?? 0, show: row => whole(row.get('elements') ?? 0) },
    { title: 'Bytes', number: true, value: row => row.get('bytes'), show: row => measured(inBytes(row.get('bytes'))) },
  ], { sortedBy: 4, tall: true });
  made.fill(reply);
  return made.element;
}

// Of the key space so many keys are looked at, so many at a time: three commands for each.
const SAMPLED_MAX = 20000;
const AT_A_TIME = 80;

/** What a key begins with, up to the first separator. */
const prefixOf = key => key instanceof Bytes ? '(binary)' : (String(key).match(/^[^:/|._-]{0,60}[:/|._-]/)?.[0] ?? '(no prefix)');

/** Goes through keys of a database and tells sizes by type, encoding and prefix; can be ended at any time. */
function sampler(failed) {
  const database = h('input', { type: 'number', min: '0', value: '0', size: '4', id: 'sample-db' });
  const begin = h('button', { type: 'button', onclick: () => look() }, 'Look through keys');
  const end = h('button', { type: 'button', class: 'quiet', hidden: true }, 'Cancel');
  const bar = h('progress', { max: 1, value: 0, hidden: true, 'aria-label': 'Keys looked at' });
  const told = h('p', { class: 'dim', role: 'status' });
  const results = h('div', { class: 'pair' });

  async function look() {
    const cancel = new AbortController();
    end.onclick = () => cancel.abort();
    begin.disabled = true;
    end.hidden = bar.hidden = false;
    const groups = { type: new Map(), encoding: new Map(), prefix: new Map() };
    let [seen, total, isWhole] = [0, 0, false];
    try {
      [total] = await runIn(database.value, [['DBSIZE']], cancel.signal);
      let cursor = '0';
      do {
        const [found] = await runIn(database.value, [['SCAN', cursor, 'COUNT', AT_A_TIME]], cancel.signal);
        if (isRefused(found)) return told.replaceChildren(String(found));
        cursor = String(found[0]);
        for (let from = 0; from < found[1].length; from += AT_A_TIME) {
          const keys = found[1].slice(from, from + AT_A_TIME);
          const commands = keys.flatMap(key => [['TYPE', key], ['OBJECT', 'ENCODING', key], ['MEMORY', 'USAGE', key, 'SAMPLES', '5']]);
          const replies = await runIn(database.value, [['CLIENT', 'NO-TOUCH', 'ON'], ...commands], cancel.signal);
          keys.forEach((key, at) => note(groups, key, replies.slice(1 + at * 3, 4 + at * 3)));
          seen += keys.length;
        }
        bar.value = total ? Math.min(1, seen / Math.min(total, SAMPLED_MAX)) : 1;
        told.textContent = `${whole(seen)} of ${whole(total)} keys`;
      } while (cursor !== '0' && seen < SAMPLED_MAX);
      isWhole = cursor === '0';
    } catch (error) {
      if (!isAbort(error)) { told.textContent = String(error.message); failed(error); }
    } finally {
      begin.disabled = false;
      end.hidden = bar.hidden = true;
      if (seen) {
        told.textContent = isWhole ? `All ${whole(seen)} keys.` : `A part of the keys: ${whole(seen)} of ${whole(total)}.`;
        results.replaceChildren(...[['By type', 'type', 'Type'], ['By encoding', 'encoding', 'Encoding'], ['By prefix', 'prefix', 'Prefix']].map(
          ([title, group, head]) => h('section', { 'aria-label': `${title}, of the keys looked at` }, h('h3', {}, title),
            sizes(`${title}, of the keys looked at`, named(head, row => shortened(row.name)), [...groups[group].values()]))));
      }
    }
  }

  return card('Look through keys', 'a sample, by SCAN',
    h('div', { class: 'fields' }, h('label', {}, h('span', {}, 'Database'), database), begin, end, bar), told, results);
}

function note(groups, key, [type, encoding, bytes]) {
  // It may have gone meanwhile.
  if (typeof bytes !== 'number') return;
  const names = { type: String(type), encoding: String(encoding), prefix: prefixOf(key) };
  for (const [group, name] of Object.entries(names)) {
    const row = groups[group].get(name) ?? { name, keys: 0, bytes: 0 };
    row.keys += 1;
    row.bytes += bytes;
    groups[group].set(name, row);
  }
}

export async function start(root, { failed, refresh }) {
  const [text, stats, prefixes, big, rules] = await run([
    ['INFO', 'memory'], ['MEMORY', 'STATS'], ['MEMORY', 'PREFIXES'], ['MEMORY', 'BIGKEYS', 'COUNT', '50'], ['POLICY', 'LIST']]);
  const [ruled] = isRefused(rules) || rules.length === 0 ? [[]] : await run([['POLICY', 'STATS']]);
  const info = fieldsOf(text);
  root.replaceChildren(
    heading(title, h('button', { type: 'button', class: 'quiet', onclick: refresh }, 'Refresh')),
    h('div', { class: 'pair' },
      card('In short', '', isRefused(text) ? refusal(text, 'Memory') : summary(info)),
      card('By class', '', isRefused(stats) ? refusal(stats, 'Memory by class') : classes(info, stats)),
      ...byPrefix(prefixes)),
    byRule(rules, ruled),
    card('Big keys', '', bigKeys(big)),
    sampler(failed));
}
