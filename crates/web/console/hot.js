// Which keys are used most: by calls, by processor time, by bytes.
import { run } from './api.js';
import { card, each, h, heading, inBytes, inCount, inTime, isRefused, measured, notice, refusal, segments, share, table } from './page.js';
import { keyLink } from './replies.js';

export const title = 'Hot keys';

const ORDERS = [['CALLS', 'Calls'], ['CPU', 'Processor time'], ['BYTES', 'Bytes']];

const number = name => row => Number(row.get(name) ?? 0);
const [calls, cpu, bytesIn, bytesOut] = ['calls', 'cpu_us', 'bytes_in', 'bytes_out'].map(number);
const WEIGHTS = { CALLS: calls, CPU: cpu, BYTES: row => bytesIn(row) + bytesOut(row) };

const perSecond = ([figure, unit]) => measured([figure, `${unit}/s`]);

export async function start(root, { failed }) {
  let order = 'CALLS';
  let most = 1;
  const place = h('div', { class: 'stack' });
  const made = table('Rates, of an average in which a minute ago counts half', [
    { title: 'Key', value: row => String(row.get('key')), show: row => keyLink(row.get('db'), row.get('key')), kind: 'cut' },
    { title: 'Database', number: true, value: number('db'), show: row => String(row.get('db')) },
    { title: 'Kind', value: row => String(row.get('kind')), show: row => h('span', { class: 'badge' }, String(row.get('kind') ?? '')) },
    { title: 'Calls', number: true, value: calls, show: row => perSecond(inCount(calls(row))) },
    { title: 'Processor', number: true, value: cpu, show: row => perSecond(inTime(cpu(row))) },
    { title: 'In', number: true, value: bytesIn, show: row => perSecond(inBytes(bytesIn(row))) },
    { title: 'Out', number: true, value: bytesOut, show: row => perSecond(inBytes(bytesOut(row))) },
    { title: 'To the first', show: row => share(WEIGHTS[order](row) / most) },
  ], { empty: 'No key has been used often enough to be known.' });

  async function refresh() {
    try {
      const asked = order;
      const [reply] = await run([['HOTKEYS', 'TOP', 'BY', asked, 'COUNT', '50']]);
      // Another order has been chosen meanwhile.
      if (asked !== order) return;
      failed(null);
      if (isRefused(reply) && String(reply).includes('hot-keys')) return place.replaceChildren(notice('No hot keys are kept: the option hot-keys is no.'));
      if (isRefused(reply)) return place.replaceChildren(refusal(reply, 'Hot keys'));
      most = Math.max(1, ...reply.map(WEIGHTS[order]));
      made.fill(reply);
      if (!place.contains(made.element)) place.replaceChildren(card('Hot keys', '', made.element));
    } catch (error) { failed(error); place.replaceChildren(notice(String(error.message), 'bad')); }
  }
  root.replaceChildren(heading(title, segments('Ordered by', ORDERS, order, chosen => { order = chosen; refresh(); })), place);
  return each(3, refresh);
}
