// Who is connected, and what each of them takes.
import { run } from './api.js';
import { card, each, field, h, heading, inBytes, inCount, isRefused, measured, notice, refusal, span, table, whole } from './page.js';
import { shortened } from './replies.js';

export const title = 'Clients';

const parsed = line => Object.fromEntries(line.split(' ').map(part => [part.slice(0, part.indexOf('=')), part.slice(part.indexOf('=') + 1)]));

const text = (heading, name, show = value => shortened(value, 80)) => ({ title: heading, value: row => row[name] ?? '', show: row => show(row[name] ?? '') });
const size = (heading, name) => ({ title: heading, number: true, value: row => Number(row[name]), show: row => measured(inBytes(row[name] ?? 0)) });
const span_ = (heading, name) => ({ title: heading, number: true, value: row => Number(row[name]), show: row => span(row[name]) });

const COLUMNS = [
  { title: 'Number', number: true, value: row => Number(row.id), show: row => row.id },
  text('Address', 'addr'), text('Name', 'name'), text('User', 'user'),
  { title: 'Last command', value: row => row.cmd ?? '', show: row => h('span', { class: 'mono' }, row.cmd ?? '') },
  { title: 'Database', number: true, value: row => Number(row.db), show: row => row.db },
  span_('Since', 'age'), span_('Idle', 'idle'),
  { title: 'Commands', number: true, value: row => Number(row['tot-cmds'] ?? 0), show: row => measured(inCount(row['tot-cmds'] ?? 0)) },
  size('Memory', 'tot-mem'), size('Waiting in', 'qbuf'), size('Waiting out', 'omem'), size('Read', 'tot-net-in'), size('Sent', 'tot-net-out'),
  text('Flags', 'flags'), text('Library', 'lib-name'),
];

export async function start(root, { failed }) {
  const made = table('Connected clients', COLUMNS, { sortedBy: 0, falls: false, tall: true, empty: 'No client matches.' });
  const filter = h('input', { type: 'search', id: 'client-filter', oninput: () => show() });
  const live = h('input', { type: 'checkbox', checked: true });
  const place = h('div', { class: 'stack' });
  let rows = [];
  function show() {
    const wanted = filter.value.toLowerCase();
    const chosen = rows.filter(row => Object.values(row).some(value => value.toLowerCase().includes(wanted)));
    made.fill(chosen, chosen.length === rows.length ? `${whole(rows.length)} connected clients` : `${whole(chosen.length)} of ${whole(rows.length)} clients`);
  }
  async function refresh() {
    if (!live.checked && rows.length) return;
    try {
      const [reply] = await run([['CLIENT', 'LIST']]);
      if (isRefused(reply)) return place.replaceChildren(refusal(reply, 'The list of clients'));
      rows = String(reply).split('\n').filter(Boolean).map(parsed);
      show();
      if (!place.contains(made.element)) place.replaceChildren(card('Clients', '', made.element));
      failed(null);
    } catch (error) { failed(error); if (!rows.length) place.replaceChildren(notice(String(error.message), 'bad')); }
  }
  root.replaceChildren(heading(title),
    h('div', { class: 'fields' }, field('Search', filter, 'grows'), h('label', {}, live, ' Live')), place);
  return each(2, refresh);
}
