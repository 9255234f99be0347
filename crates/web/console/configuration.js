// Every option: its value, what it would be if nobody had set it, and what it does.
import { options, run } from './api.js';
import { card, field, h, heading, isRefused, refusal, table, whole } from './page.js';
import { shortened } from './replies.js';

export const title = 'Configuration';

export async function start(root) {
  const [[reply], known] = await Promise.all([run([['CONFIG', 'GET', '*']]), options()]);
  if (isRefused(reply)) return root.replaceChildren(heading(title), refusal(reply, 'The configuration'));
  const texts = new Map(known.map(option => [option.name, option]));
  const rows = reply.pairs.map(([name, value]) => {
    const option = texts.get(String(name));
    return { name: String(name), value: String(value), option, differs: option !== undefined && option.default !== String(value) };
  });
  const made = table('Options', [
    { title: 'Option', value: row => row.name, show: row => [row.name, row.differs && [' ', h('span', { class: 'badge hot' }, 'set')]], kind: 'key' },
    { title: 'Value', value: row => row.value, show: row => shortened(row.value) || h('span', { class: 'dim' }, 'empty'), kind: 'mono' },
    { title: 'Default', value: row => row.option?.default ?? '', show: row => row.differs ? shortened(row.option.default) || h('span', { class: 'dim' }, 'empty') : h('span', { class: 'dim' }, 'the same'), kind: 'mono' },
    { title: 'What it does', show: row => row.option ? [row.option.text.replaceAll('`', ''), h('span', { class: 'dim' }, ` Takes ${row.option.takes}.${row.option.fixed ? ' Only at the start.' : ''}`)] : '', kind: 'cut' },
  ], { sortedBy: 0, falls: false, tall: true, empty: 'No option matches.' });
  const search = h('input', { type: 'search', id: 'option-search', oninput: () => show() });
  const only = h('input', { type: 'checkbox', onchange: () => show() });
  function show() {
    const wanted = search.value.toLowerCase().split(/\s+/);
    const matches = row => wanted.every(part => `${row.name} ${row.value} ${row.option?.text ?? ''}`.toLowerCase().includes(part));
    const chosen = rows.filter(row => (!only.checked || row.differs) && matches(row));
    made.fill(chosen, `${whole(chosen.length)} of ${whole(rows.length)} options; ${whole(rows.filter(row => row.differs).length)} are set to something else than their default`);
  }
  show();
  root.replaceChildren(heading(title),
    h('div', { class: 'fields' }, field('Search names, values and texts', search, 'grows'), h('label', {}, only, ' Only what differs from the default')),
    card('Options', '', made.element));
}
