// Slow commands, where the time of requests went, and what else has held the server up.
import { Pairs, run } from './api.js';
import { card, day, h, heading, inTime, isRefused, measured, notice, refusal, share, table, time, whole } from './page.js';
import { quoted, shortened } from './replies.js';

export const title = 'Slow log';

/** Each has the same colour everywhere. */
const STAGES = ['query-buffer', 'prefetch', 'execution', 'blocked', 'batch', 'append-only-file', 'output'];

const line = args => Array.isArray(args) ? args.map(quoted).join(' ') : String(args ?? '');

function slowLog(entries) {
  const most = Math.max(1, ...entries.map(entry => Number(entry[2])));
  const made = table('The last slow commands', [
    { title: 'Time', value: ([, unix]) => unix, show: ([, unix]) => h('span', { class: 'number' }, day(unix * 1000)) },
    { title: 'Took', number: true, value: entry => entry[2], show: entry => [measured(inTime(Number(entry[2]))), share(entry[2] / most)] },
    { title: 'Command', value: entry => line(entry[3]), show: entry => shortened(line(entry[3]), 400), kind: 'mono cut' },
    ...entries.some(entry => entry[6] instanceof Pairs && entry[6].pairs.length) ? [{ title: 'Where it went', show: entry => stages(entry[6]), kind: 'cut' }] : [],
    { title: 'Client', value: entry => String(entry[4]), show: entry => String(entry[4]) },
    { title: 'Name', value: entry => String(entry[5]), show: entry => shortened(entry[5], 60) },
    { title: 'Number', number: true, value: ([id]) => id, show: ([id]) => whole(id) },
  ], { tall: true, empty: 'No command has been that slow.' });
  made.fill(entries);
  return made.element;
}

/** Stages side by side, each as wide as its part of the time. */
function stages(map) {
  const parts = map instanceof Pairs ? map.pairs.filter(([, us]) => us > 0) : [];
  const total = parts.reduce((sum, [, us]) => sum + us, 0);
  const bar = h('div', { class: 'stages', 'aria-hidden': 'true' }, parts.map(([, us], at) => {
    const part = h('span', { class: `stage s${STAGES.indexOf(String(parts[at][0])) % 7 + 1}` });
    part.style.width = `${100 * Number(us) / Math.max(total, 1)}%`;
    return part;
  }));
  return [bar, h('span', { class: 'stage-names' }, parts.map(([name, us]) => h('span', { class: `legend s${STAGES.indexOf(String(name)) % 7 + 1}` },
    h('span', { class: 'dim' }, `${String(name).replaceAll('-', ' ')} `), h('b', {}, time(us)))))];
}

function traces(reply) {
  if (isRefused(reply)) return refusal(reply, 'Where time went');
  if (reply.length === 0) return notice('Nothing has been traced. LATENCY TRACE START begins to.');
  const total = map => Number(map.get('total-us') ?? 0);
  const made = table('Traced requests', [
    { title: 'Time', value: map => map.get('time-us'), show: map => h('span', { class: 'number' }, day(map.get('time-us') / 1000)) },
    { title: 'Took', number: true, value: total, show: map => measured(inTime(total(map))) },
    { title: 'Command', value: map => line(map.get('command')), show: map => shortened(line(map.get('command')), 200), kind: 'mono cut' },
    { title: 'Where it went', show: map => stages(map.get('stages')), kind: 'cut' },
    { title: 'Client', value: map => String(map.get('client-address')), show: map => `${map.get('client-address')} ${shortened(map.get('client-name') ?? '', 40)}` },
    { title: 'User', value: map => String(map.get('user')), show: map => shortened(map.get('user') ?? '', 40) },
    { title: 'Database', number: true, value: map => map.get('db'), show: map => String(map.get('db')) },
  ], { tall: true });
  made.fill(reply);
  return made.element;
}

function events(reply) {
  if (isRefused(reply)) return refusal(reply, 'Events');
  const made = table('Since the start or LATENCY RESET', [
    { title: 'Event', value: row => String(row[0]), show: row => String(row[0]) },
    { title: 'Last at', value: row => row[1], show: row => day(row[1] * 1000) },
    { title: 'Took', number: true, value: row => row[2], show: row => measured(inTime(row[2] * 1000)) },
    { title: 'At most', number: true, value: row => row[3], show: row => measured(inTime(row[3] * 1000)) },
  ], { sortedBy: 3, empty: 'Nothing has taken longer than latency-monitor-threshold, or that is 0.' });
  made.fill(reply);
  return made.element;
}

export async function start(root, { refresh }) {
  const [staged, plain, traced, latest, options] = await run([
    ['SLOWLOG', 'GET', '128', 'STAGES'], ['SLOWLOG', 'GET', '128'], ['LATENCY', 'TRACE', 'GET', 'COUNT', '100'], ['LATENCY', 'LATEST'],
    ['CONFIG', 'GET', 'slowlog-log-slower-than', 'latency-monitor-threshold']]);
  // A server that traces nothing knows the second form alone.
  const entries = isRefused(staged) ? plain : staged;
  const option = name => isRefused(options) ? null : options.get(name);
  const threshold = option('slowlog-log-slower-than');
  const isOff = Number(threshold) < 0;
  root.replaceChildren(
    heading(title, h('button', { type: 'button', class: 'quiet', onclick: refresh }, 'Refresh')),
    card('Slow commands', threshold && (isOff ? 'none are kept' : threshold === '0' ? 'all are kept' : `longer than ${time(Number(threshold))}`), isRefused(entries) ? refusal(entries, 'The slow log') : slowLog(entries)),
    card('Where time went', 'traced requests', traces(traced)),
    card('Events', option('latency-monitor-threshold') === '0' ? 'the latency monitor is off' : '', events(latest)));
}
