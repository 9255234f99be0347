// What the server does now and has done in the last hour.
import { fieldsOf, history, run } from './api.js';
import { binned, heatMap, lines, quantile } from './charts.js';
import { bytes, card, count, each, h, heading, inBytes, inCount, inTime, percent, segments, span, time, whole } from './page.js';

export const title = 'Overview';

const WINDOWS = [[300e3, '5 min', 2e3], [900e3, '15 min', 10e3], [3600e3, '1 hour', 30e3]];
const HOUR_MS = 3600e3;

// What has been fetched stays when another view is looked at.
const kept = { number: 0, names: { counters: [], gauges: [] }, firstNs: 128, samples: [] };

async function fetchSamples(restarted) {
  let answer = await history(kept.number);
  if (answer.number < kept.number) {
    // The server has been started again.
    kept.samples = [];
    restarted();
    answer = await history(0);
  }
  kept.names = { counters: answer.counters, gauges: answer.gauges };
  kept.firstNs = answer.latency_first_ns;
  for (const [number, endMs, spanMs, counters, gauges, latencies] of answer.samples) {
    if (number > kept.number || kept.samples.length === 0) kept.samples.push({ number, endMs, spanMs, counters, gauges, latencies });
  }
  kept.number = answer.number;
  const newest = kept.samples.at(-1)?.endMs ?? 0;
  kept.samples = kept.samples.filter(sample => sample.endMs > newest - HOUR_MS);
}

const counter = (bin, name) => bin.counters[kept.names.counters.indexOf(name)] ?? 0;
const gauge = (bin, name) => bin.gauges ? bin.gauges[kept.names.gauges.indexOf(name)] ?? null : null;
const rate = name => bin => counter(bin, name) / bin.spanMs * 1000;
const level = name => bin => gauge(bin, name);
const latency = part => bin => quantile(bin.latencies, part, kept.firstNs);
const hitRate = bin => {
  const [hits, misses] = [counter(bin, 'hits'), counter(bin, 'misses')];
  return hits + misses ? hits / (hits + misses) : null;
};

const perSecond = value => `${count(value)}/s`;
const bytesPerSecond = value => `${bytes(value)}/s`;

function charts() {
  return [
    ['Commands', 'a second', lines('Commands a second', [{ name: 'commands', value: rate('commands') }, { name: 'errors', value: rate('errors') }], perSecond)],
    ['Latency', 'execution', lines('Latency of commands', [{ name: 'half', value: latency(0.5) }, { name: '99 %', value: latency(0.99) }, { name: '99.9 %', value: latency(0.999) }], time, { log: true })],
    ['Latency over time', 'calls by how long they took', heatMap('Calls by latency', kept.firstNs, time), 'wide'],
    ['Memory', '', lines('Memory', [{ name: 'used', value: level('used_bytes') }, { name: 'resident', value: level('resident_bytes') }], bytes, { base: 1024 })],
    ['Network', 'a second', lines('Network', [{ name: 'in', value: rate('input_bytes') }, { name: 'out', value: rate('output_bytes') }], bytesPerSecond, { base: 1024 })],
    ['Hit rate', 'of reads of keys', lines('Hit rate', [{ name: 'found', value: hitRate }], percent, { max: 1 })],
    ['Clients', '', lines('Clients', [{ name: 'connected', value: level('clients') }, { name: 'blocked', value: level('blocked_clients') }], count)],
    ['Keys that went', 'a second', lines('Keys that went', [{ name: 'expired', value: rate('expired_keys') }, { name: 'evicted', value: rate('evicted_keys') }], perSecond)],
    ['Busy with commands', 'share of the time', lines('Busy with commands', [{ name: 'busy', value: bin => counter(bin, 'busy_ns') / bin.spanMs / 1e6 }], percent, { max: 1 })],
  ];
}

function tile(name) {
  const figure = h('dd', { class: 'figure' });
  const note = h('dd', { class: 'note' });
  const element = h('div', { class: 'tile' }, h('dt', {}, name), figure, note);
  return {
    element,
    set([value, unit], text = '') {
      figure.replaceChildren(value, h('span', { class: 'unit' }, unit));
      note.textContent = text;
    },
  };
}

const TILES = ['Commands', 'Latency, half', 'Latency, 99 %', 'Memory', 'Keys', 'Hit rate', 'Clients', 'Network', 'Replicas', 'Up'];

function fillTiles(tiles, info) {
  const last = kept.samples.at(-1);
  if (!last) return;
  // The last few seconds: one alone jumps too much to be read.
  const [recent] = binned(kept.samples.slice(-5), kept.names, 5e3, 5e3).slice(-1).map(bin => ({ ...bin, gauges: last.gauges }));
  const bin = recent.spanMs ? recent : { ...last, latencies: [] };
  const errors = rate('errors')(bin);
  tiles.get('Commands').set(withUnit(inCount(rate('commands')(bin)), '/s'), errors ? `${perSecond(errors)} errors` : 'no errors');
  tiles.get('Latency, half').set(inTime(latency(0.5)(bin)), 'in execution');
  tiles.get('Latency, 99 %').set(inTime(latency(0.99)(bin)), `99.9 %: ${time(latency(0.999)(bin))}`);
  const limit = gauge(bin, 'maxmemory_bytes');
  const used = gauge(bin, 'used_bytes');
  tiles.get('Memory').set(inBytes(used), limit ? `${percent(used / limit)} of ${bytes(limit)}` : `resident ${bytes(gauge(bin, 'resident_bytes'))}`);
  tiles.get('Keys').set(inCount(gauge(bin, 'keys')), `${whole(gauge(bin, 'keys'))}`);
  const found = hitRate(bin);
  tiles.get('Hit rate').set(found === null ? ['–', ''] : percent(found).split(' '), `${perSecond(rate('misses')(bin))} misses`);
  tiles.get('Clients').set([whole(gauge(bin, 'clients')), ''], `${whole(gauge(bin, 'blocked_clients'))} blocked`);
  tiles.get('Network').set(withUnit(inBytes(rate('output_bytes')(bin)), '/s'), `in ${bytesPerSecond(rate('input_bytes')(bin))}`);
  const role = info.get('role') ?? '';
  tiles.get('Replicas').set([whole(gauge(bin, 'replicas')), ''], role === 'slave' ? `a replica, link ${info.get('master_link_status')}` : role && 'a primary');
  tiles.get('Up').set(span(info.get('uptime_in_seconds')).split(' '), { err: 'the last save failed', ok: 'the last save is fine' }[info.get('rdb_last_bgsave_status')] ?? '');
}

const withUnit = ([figure, unit], rest) => [figure, unit + rest];

export async function start(root, { failed, restarted }) {
  await fetchSamples(restarted);
  let chosen = WINDOWS[0];
  const tiles = new Map(TILES.map(name => [name, tile(name)]));
  const drawn = charts();
  let info = new Map();
  const show = () => {
    fillTiles(tiles, info);
    const bins = binned(kept.samples, kept.names, chosen[0], chosen[2]);
    drawn.forEach(([, , chart]) => chart.update(bins));
  };
  root.replaceChildren(
    heading(title, segments('Time shown', WINDOWS.map(window => [window, window[1]]), chosen, window => { chosen = window; show(); })),
    h('dl', { class: 'tiles' }, [...tiles.values()].map(tile => tile.element)),
    h('div', { class: 'pair' }, drawn.map(([name, note, chart, kind]) => {
      const made = card(name, note, chart.element);
      if (kind) made.classList.add(kind);
      return made;
    })));
  const stops = [
    each(1, async () => {
      try { await fetchSamples(restarted); show(); failed(null); } catch (error) { failed(error); }
    }),
    each(5, async () => {
      try { [info] = (await run([['INFO', 'server', 'replication', 'persistence']])).map(fieldsOf); show(); } catch (error) { failed(error); }
    }),
  ];
  return () => stops.forEach(stop => stop());
}
