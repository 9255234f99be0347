// The nodes of the cluster, whose each slot is, and what moves.
import { fieldsOf, run } from './api.js';
import { colour, prepared } from './charts.js';
import { bytes, card, day, each, figures, h, heading, inBytes, isRefused, measured, notice, refusal, renewed, table, whole } from './page.js';

export const title = 'Cluster';

const SLOTS = 16384;
const ROWS = 16;
const ROW_SLOTS = SLOTS / ROWS;
const MARGIN = { left: 48, right: 6, top: 2, bottom: 2 };
const HUES = 7;

// The states of a slot migration that is well, in their order; progress is how many have passed.
const STEPS = {
  EXPORT: ['connecting', 'sending-auth-command', 'reading-auth-response', 'sending-establish-command', 'reading-establish-response', 'waiting-to-snapshot',
    'snapshotting', 'replicating', 'waiting-to-pause', 'failover-paused', 'failover-granted', 'success'],
  IMPORT: ['waiting-for-ack', 'receiving-snapshot', 'waiting-for-paused', 'failover-requested', 'failover-granted', 'cleaning-up', 'success'],
};
const ENDED = ['success', 'failed', 'cancelled', 'canceled'];

const state = (isGood, text) => h('span', { class: `badge ${isGood ? 'good' : 'bad'}` }, text);
const text = (pairs, name) => String(pairs.get(name) ?? '');
const number = (pairs, name) => Number(pairs.get(name) ?? 0);
const hue = at => `s${at % HUES + 1}`;
const inRanges = ranges => ranges.map(([first, last]) => first === last ? String(first) : `${first}–${last}`).join(', ');

/** Shards with their nodes and ranges of slots. Their order, and with it their colours, stays while slots move and roles change. */
function shardsOf(reply) {
  const shards = reply.map(shard => {
    const ends = (shard.get('slots') ?? []).map(Number);
    const ranges = Array.from({ length: ends.length / 2 }, (_, at) => [ends[2 * at], ends[2 * at + 1]]);
    const nodes = (shard.get('nodes') ?? []).map(node => ({
      id: text(node, 'id'), isPrimary: text(node, 'role') === 'master', health: text(node, 'health'), offset: number(node, 'replication-offset'),
      address: `${text(node, 'hostname') || text(node, 'ip') || text(node, 'endpoint')}:${node.get('port') ?? node.get('tls-port') ?? ''}`,
    }));
    nodes.sort((a, b) => b.isPrimary - a.isPrimary || a.address.localeCompare(b.address, 'en', { numeric: true }));
    return { ranges, nodes, slots: ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0) };
  });
  const compared = (a, b) => a.localeCompare(b, 'en', { numeric: true });
  const first = shard => shard.nodes.map(node => node.address).sort(compared)[0] ?? '';
  shards.sort((a, b) => (b.slots > 0) - (a.slots > 0) || compared(first(a), first(b)));
  shards.forEach((shard, at) => { shard.at = at; });
  return shards;
}

/** Slots that SETSLOT has opened on this node, as CLUSTER NODES lists them: `[5->-id]` goes there, `[5-<-id]` comes from there. */
function openSlots(lines) {
  const mine = String(lines).split('\n').find(line => line.split(' ')[2]?.split(',').includes('myself')) ?? '';
  return [...mine.matchAll(/\[(\d+)-([<>])-([0-9a-f]+)\]/g)].map(([, slot, way, node]) => ({ slot: Number(slot), isLeaving: way === '>', node }));
}

/** Names of nodes by their ids. */
function namesOf(shards) {
  const names = new Map(shards.flatMap(shard => shard.nodes.map(node => [node.id, node.address])));
  return id => names.get(id) ?? id.slice(0, 8);
}

const rangesOf = job => text(job, 'slot_ranges').split(' ').filter(Boolean).map(range => range.split('-').map(Number)).map(([first, last = first]) => [first, last]);

/** All slots, a row for each 1,024, in the colours of their shards. */
function slotMap() {
  const canvas = h('canvas', { class: 'slots', role: 'img', tabindex: '0', 'aria-label': 'Slots' });
  const caption = h('figcaption');
  const legend = h('figcaption');
  let shown = { shards: [], moving: [] };
  let chosen = null;

  const shardOf = slot => shown.shards.find(shard => shard.ranges.some(([first, last]) => slot >= first && slot <= last));
  function draw() {
    if (!canvas.clientWidth) return;
    const { pen, width, height, dim } = prepared(canvas);
    const inner = width - MARGIN.left - MARGIN.right;
    const row = (height - MARGIN.top - MARGIN.bottom) / ROWS;
    // Neighbours meet at whole pixels, and no slot is too narrow to be seen.
    function fill(first, last, lift, part, least) {
      for (let from = first; from <= last; from = (Math.floor(from / ROW_SLOTS) + 1) * ROW_SLOTS) {
        const at = Math.floor(from / ROW_SLOTS);
        const to = Math.min(last, (at + 1) * ROW_SLOTS - 1);
        const [left, right] = [from, to + 1].map(slot => Math.round(MARGIN.left + (slot - at * ROW_SLOTS) / ROW_SLOTS * inner));
        pen.fillRect(left, MARGIN.top + row * (at + lift), Math.max(least, right - left), row * part);
      }
    }
    pen.fillStyle = colour('--raised');
    fill(0, SLOTS - 1, 0, 0.86, 1);
    for (const shard of shown.shards) {
      pen.fillStyle = colour(`--series-${shard.at % HUES + 1}`);
      // More shards than colours are told apart by strength.
      pen.globalAlpha = Math.max(0.35, 1 - 0.3 * Math.floor(shard.at / HUES));
      for (const [first, last] of shard.ranges) fill(first, last, 0, 0.86, 1);
      pen.globalAlpha = 1;
      if (shard.nodes.some(node => node.isPrimary && node.health !== 'fail')) continue;
      pen.fillStyle = colour('--bad');
      for (const [first, last] of shard.ranges) fill(first, last, 0.5, 0.36, 1);
    }
    pen.fillStyle = colour('--text');
    for (const { ranges } of shown.moving) for (const [first, last] of ranges) fill(first, last, 0.28, 0.3, 3);
    if (chosen !== null) fill(chosen, chosen, 0, 0.95, 2);
    pen.fillStyle = dim;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    for (let at = 0; at < ROWS; at += 2) pen.fillText(String(at * ROW_SLOTS), MARGIN.left - 8, MARGIN.top + row * (at + 0.45));
    inWords();
  }
  function inWords() {
    const owned = shown.shards.reduce((sum, shard) => sum + shard.slots, 0);
    const rest = owned === SLOTS ? 'each of the 16,384 slots has an owner' : `${whole(SLOTS - owned)} slots have no owner`;
    const told = shown.shards.filter(shard => shard.slots).map(shard => `${shard.nodes[0]?.address ?? 'no node'} has ${whole(shard.slots)}`);
    canvas.setAttribute('aria-label', `Slots: ${[rest, ...told].join('; ')}`);
    if (chosen === null) return caption.replaceChildren(h('span', {}, `${rest[0].toUpperCase()}${rest.slice(1)}.`));
    const shard = shardOf(chosen);
    const move = shown.moving.find(({ ranges }) => ranges.some(([first, last]) => chosen >= first && chosen <= last));
    caption.replaceChildren(h('span', {}, `Slot ${chosen}: ${shard ? shard.nodes[0].address : 'no owner'}${move ? `, ${move.what}` : ''}`));
  }
  canvas.addEventListener('pointermove', event => {
    const at = Math.floor((event.offsetY - MARGIN.top) / (canvas.clientHeight - MARGIN.top - MARGIN.bottom) * ROWS);
    const within = Math.floor((event.offsetX - MARGIN.left) / (canvas.clientWidth - MARGIN.left - MARGIN.right) * ROW_SLOTS);
    const isOn = at >= 0 && at < ROWS && within >= 0 && within < ROW_SLOTS;
    chosen = isOn ? at * ROW_SLOTS + within : null;
    draw();
  });
  for (const name of ['pointerleave', 'blur']) canvas.addEventListener(name, () => { chosen = null; draw(); });
  canvas.addEventListener('keydown', event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -ROW_SLOTS, ArrowDown: ROW_SLOTS }[event.key];
    if (!step) return;
    event.preventDefault();
    chosen = chosen === null ? 0 : Math.max(0, Math.min(SLOTS - 1, chosen + step));
    draw();
  });
  new ResizeObserver(draw).observe(canvas);
  return {
    element: h('figure', {}, canvas, caption, legend),
    update(shards, moving) {
      shown = { shards, moving };
      const name = shard => h('span', { class: `legend ${hue(shard.at)}` }, h('span', { class: 'dim' }, `${shard.nodes[0]?.address ?? '–'} `), h('b', {}, whole(shard.slots)));
      // A cluster may have hundreds of shards; the table has all of them.
      const owners = shards.filter(shard => shard.slots);
      legend.replaceChildren(...owners.slice(0, 24).map(name), owners.length > 24 ? h('span', {}, `and ${owners.length - 24} more`) : '');
      draw();
    },
  };
}

function nodeTable() {
  const behind = row => row.isPrimary ? 0 : Math.max(0, (row.shard.nodes.find(node => node.isPrimary)?.offset ?? row.offset) - row.offset);
  return table('Nodes by shard', [
    { title: 'Node', value: row => row.address, show: row => [`${row.address} `, row.isMe && h('span', { class: 'badge hot' }, 'this node'), h('span', { class: 'under mono' }, row.id.slice(0, 12))].filter(Boolean) },
    { title: 'Shard', number: true, value: row => row.shard.at, show: row => h('span', { class: `legend ${hue(row.shard.at)}` }, h('b', {}, String(row.shard.at + 1))) },
    { title: 'Role', value: row => row.isPrimary ? 'primary' : 'replica', show: row => row.isPrimary ? 'primary' : 'replica' },
    { title: 'Health', value: row => row.health, show: row => state(row.health === 'online', row.health) },
    { title: 'Slots', number: true, value: row => row.isPrimary ? row.shard.slots : 0, show: row => row.isPrimary ? whole(row.shard.slots) : '' },
    { title: 'Offset', number: true, value: row => row.offset, show: row => whole(row.offset) },
    { title: 'Behind', number: true, value: behind, show: row => row.isPrimary ? '' : measured(inBytes(behind(row))) },
  ], { sortedBy: 1, falls: false, tall: true });
}

function linkTable(nameOf) {
  return table('Connections of the cluster bus', [
    { title: 'Node', value: row => nameOf()(text(row, 'node')), show: row => nameOf()(text(row, 'node')) },
    { title: 'Direction', value: row => text(row, 'direction'), show: row => text(row, 'direction') },
    { title: 'Since', value: row => number(row, 'create-time'), show: row => day(number(row, 'create-time')) },
    { title: 'Waits to be sent', number: true, value: row => number(row, 'send-buffer-used'), show: row => measured(inBytes(number(row, 'send-buffer-used'))) },
  ], { sortedBy: 0, falls: false, tall: true, empty: 'There is no link.' });
}

function progress(job) {
  const [now, steps] = [text(job, 'state'), STEPS[text(job, 'operation')] ?? []];
  if (ENDED.includes(now)) return state(now === 'success', now);
  const at = steps.indexOf(now);
  return at < 0 ? now : h('label', {}, `${now} `, h('progress', { max: steps.length - 1, value: at }), ` step ${at + 1} of ${steps.length}`);
}

function moveTable(nameOf) {
  const isOut = job => text(job, 'operation') === 'EXPORT';
  const other = job => text(job, isOut(job) ? 'target_node' : 'source_node');
  return table('The newest first', [
    { title: 'Slots', value: job => rangesOf(job)[0]?.[0] ?? 0, show: job => inRanges(rangesOf(job)), kind: 'cut' },
    { title: 'With', value: other, show: job => `${isOut(job) ? 'to' : 'from'} ${nameOf()(other(job))}` },
    { title: 'State', value: job => text(job, 'state'), show: job => [progress(job), text(job, 'message') && h('span', { class: 'under' }, text(job, 'message'))].filter(Boolean) },
    { title: 'Left', number: true, value: job => number(job, 'remaining_repl_size'), show: job => measured(inBytes(number(job, 'remaining_repl_size'))) },
    { title: 'Begun', value: job => number(job, 'create_time'), show: job => day(number(job, 'create_time') * 1000) },
    { title: 'In this state since', value: job => number(job, 'last_update_time'), show: job => day(number(job, 'last_update_time') * 1000) },
  ], { sortedBy: 4, tall: true, empty: 'No slots have been moved by CLUSTER MIGRATESLOTS.' });
}

function summary(info) {
  const of = name => info.get(name) ?? '0';
  const sum = (a, b) => `${a} sent, ${b} received`;
  const bad = ['pfail', 'fail'].map(kind => `${of(`cluster_nodes_${kind}`)} ${kind === 'fail' ? 'failed' : 'not reached'}`);
  return figures([['State', state(of('cluster_state') === 'ok', of('cluster_state'))],
    ['Slots with an owner', `${whole(of('cluster_slots_assigned'))} of ${whole(SLOTS)}`],
    ['Slots that are served', whole(of('cluster_slots_ok'))], ['Known nodes', `${of('cluster_known_nodes')}: ${bad.join(', ')}`],
    ['Primaries with slots', of('cluster_size')], ['Epoch', `${of('cluster_current_epoch')}, of this node ${of('cluster_my_epoch')}`],
    ['Messages', sum(whole(of('cluster_stats_messages_sent')), whole(of('cluster_stats_messages_received')))],
    ['Traffic', sum(bytes(of('cluster_stats_bytes_sent')), bytes(of('cluster_stats_bytes_received')))]]);
}

export async function start(root, { failed }) {
  let nameOf = id => id.slice(0, 8);
  const place = h('div', { class: 'stack' });
  const parts = Object.fromEntries(['summary', 'slots', 'nodes', 'moves', 'open', 'links'].map(name => [name, h('div')]));
  const [map, nodes, links, moves] = [slotMap(), nodeTable(), linkTable(() => nameOf), moveTable(() => nameOf)];
  const open = table('Opened by CLUSTER SETSLOT on this node', [
    { title: 'Slot', number: true, value: row => row.slot, show: row => String(row.slot) },
    { title: 'State', value: row => row.isLeaving ? 'migrating' : 'importing', show: row => row.isLeaving ? 'migrating' : 'importing' },
    { title: 'Other node', value: row => nameOf(row.node), show: row => `${row.isLeaving ? 'to' : 'from'} ${nameOf(row.node)}` },
  ], { sortedBy: 0, falls: false, tall: true, empty: 'No slot is open.' });
  const put = (name, made, reply, what) => {
    const shown = isRefused(reply) ? refusal(reply, what) : made;
    if (parts[name].firstChild !== shown) parts[name].replaceChildren(shown);
  };

  function show([info, myId, reply, lines, jobs, wires]) {
    const shards = isRefused(reply) ? [] : shardsOf(reply);
    nameOf = namesOf(shards);
    const opened = isRefused(lines) ? [] : openSlots(lines);
    const running = isRefused(jobs) ? [] : jobs.filter(job => !ENDED.includes(text(job, 'state')));
    const moving = [...opened.map(({ slot, isLeaving, node }) => ({ ranges: [[slot, slot]], what: `${isLeaving ? 'migrating to' : 'importing from'} ${nameOf(node)}` })),
      ...running.map(job => ({ ranges: rangesOf(job), what: `moves: ${text(job, 'state')}` }))];
    renewed(place, () => put('summary', isRefused(info) ? null : summary(fieldsOf(info)), info, 'The state'));
    put('slots', map.element, reply, 'Slots');
    put('nodes', nodes.element, reply, 'Nodes');
    put('open', open.element, lines, 'Open slots');
    put('moves', moves.element, jobs, 'Slot migrations');
    put('links', links.element, wires, 'Links');
    map.update(shards, moving);
    nodes.fill(shards.flatMap(shard => shard.nodes.map(node => ({ ...node, shard, isMe: node.id === String(myId) }))));
    open.fill(opened);
    if (!isRefused(jobs)) moves.fill(jobs);
    if (!isRefused(wires)) links.fill(wires);
  }

  async function refresh() {
    try {
      const replies = await run(['INFO', 'MYID', 'SHARDS', 'NODES', 'GETSLOTMIGRATIONS', 'LINKS'].map(word => ['CLUSTER', word]));
      failed(null);
      if (replies.every(reply => isRefused(reply) && String(reply).includes('cluster support disabled'))) {
        return place.replaceChildren(notice('This server is no node of a cluster (cluster-enabled no).'));
      }
      if (!place.contains(parts.slots)) {
        place.replaceChildren(h('div', { class: 'pair' }, card('Cluster', 'as this node sees it', parts.summary), card('Open slots', '', parts.open)),
          card('Slots', '', parts.slots), card('Nodes', '', parts.nodes), card('Slot migrations', 'of this node', parts.moves), card('Links', 'of this node', parts.links));
      }
      show(replies);
    } catch (error) { failed(error); if (!place.firstChild) place.replaceChildren(notice(String(error.message), 'bad')); }
  }
  root.replaceChildren(heading(title), place);
  return each(2, refresh);
}
