// Who follows whom, and what is on disk.
import { fieldsOf, run } from './api.js';
import { bytes, card, day, each, figures, h, heading, inBytes, isRefused, measured, notice, refusal, renewed, span, table, whole } from './page.js';

export const title = 'Replication and persistence';

const state = (isGood, text) => h('span', { class: `badge ${isGood ? 'good' : 'bad'}` }, text);
const word = value => state(value === 'ok' || value === 'up', value ?? '–');

function role(info) {
  const of = name => info.get(name) ?? '–';
  const shared = [['Stream', h('span', { class: 'key' }, of('master_replid'))], ['Offset', whole(of('master_repl_offset'))],
    ['Backlog', info.get('repl_backlog_active') === '1' ? `${bytes(of('repl_backlog_histlen'))} of ${bytes(of('repl_backlog_size'))}` : 'none'],
    ['Failover', of('master_failover_state')]];
  if (of('role') !== 'slave') return figures([['Role', 'primary'], ['Replicas', of('connected_slaves')], ...shared]);
  return figures([['Role', 'replica'], ['Primary', `${of('master_host')}:${of('master_port')}`], ['Link', word(info.get('master_link_status'))],
    ['Last heard of', span(of('master_last_io_seconds_ago'))], ['Full sync under way', of('master_sync_in_progress') === '1' ? 'yes' : 'no'],
    ['Replicas of its own', of('connected_slaves')], ...shared]);
}

function replicas(info) {
  const rows = [...info].filter(([name]) => /^slave\d+$/.test(name))
    .map(([, text]) => Object.fromEntries(text.split(',').map(part => part.split('='))));
  const end = Number(info.get('master_repl_offset'));
  const made = table('Replicas', [
    { title: 'Address', value: row => row.ip, show: row => `${row.ip}:${row.port}` },
    { title: 'State', value: row => row.state, show: row => state(row.state === 'online', row.state) },
    { title: 'Behind', number: true, value: row => end - row.offset, show: row => measured(inBytes(Math.max(0, end - row.offset))) },
    { title: 'Silent for', number: true, value: row => Number(row.lag), show: row => span(row.lag) },
    { title: 'Over', value: row => row.type ?? '', show: row => row.type ?? '' },
  ], { sortedBy: 0, falls: false, empty: 'No replica is connected.' });
  made.fill(rows);
  return made.element;
}

function snapshots(info) {
  const of = name => info.get(name) ?? '–';
  const isSaving = of('rdb_bgsave_in_progress') === '1';
  const progress = Number(info.get('current_fork_perc') ?? 0) / 100;
  return [isSaving && h('p', {}, h('label', {}, 'Saving ', h('progress', { max: 1, value: progress }), ` ${Math.round(progress * 100)} %`)),
    figures([['Last save', word(of('rdb_last_bgsave_status'))], ['At', day(of('rdb_last_save_time') * 1000)],
      ['It took', span(of('rdb_last_bgsave_time_sec'))], ['Changes since', whole(of('rdb_changes_since_last_save'))],
      ['Copied meanwhile', bytes(of('rdb_last_cow_size'))], ['Saves', whole(of('rdb_saves'))]])];
}

function appended(info) {
  const of = name => info.get(name) ?? '–';
  if (of('aof_enabled') !== '1') return h('p', {}, 'It is off (appendonly no).');
  return figures([['Last write', word(of('aof_last_write_status'))], ['Size', bytes(of('aof_current_size'))],
    ['When last rewritten', bytes(of('aof_base_size'))], ['Waits to be written', bytes(of('aof_buffer_length'))],
    ['Delayed syncs', whole(of('aof_delayed_fsync'))], ['Rewrite under way', of('aof_rewrite_in_progress') === '1' ? 'yes' : 'no'],
    ['Last rewrite', word(of('aof_last_bgrewrite_status'))], ['It took', span(of('aof_last_rewrite_time_sec'))]]);
}

export async function start(root, { failed }) {
  const place = h('div', { class: 'pair' });
  let shown = '';
  async function refresh() {
    try {
      const [text] = await run([['INFO', 'replication', 'persistence']]);
      failed(null);
      if (isRefused(text)) return place.replaceChildren(refusal(text, 'Replication'));
      if (String(text) === shown) return;
      shown = String(text);
      const info = fieldsOf(text);
      renewed(place, () => place.replaceChildren(card('Replication', '', role(info)), card('Replicas', '', replicas(info)),
        card('Snapshots', '', ...[snapshots(info)].flat().filter(Boolean)), card('Append-only file', '', appended(info))));
    } catch (error) { failed(error); if (!shown) place.replaceChildren(notice(String(error.message), 'bad')); }
  }
  root.replaceChildren(heading(title), place);
  return each(2, refresh);
}
