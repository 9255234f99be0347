// Parts that views are made of. Whatever the server says becomes text here, never markup.
import { Refused } from './api.js';

/** An element: attributes, `class`, `on…` listeners and properties by name; children are elements or text. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** Told to those who do not see the page change. */
export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

export const card = (title, note, ...content) =>
  h('section', { class: 'card' }, h('header', {}, h('h2', {}, title), note && h('span', { class: 'dim' }, note)), ...content);

export const heading = (title, ...controls) => h('div', { class: 'heading' }, h('h1', { tabindex: '-1' }, title), ...controls);

export const notice = (text, kind = '') => h('p', { class: `notice ${kind}` }, text);

/** What to say in place of a reply that is an error. */
export function refusal(reply, what) {
  const text = String(reply);
  if (/^ERR unknown (sub)?command/i.test(text)) return notice(`${what} cannot be shown: this server does not know the command.`);
  if (text.startsWith('NOPERM')) return notice(`${what} cannot be shown: ${text.slice(7)}`);
  return notice(`${what} cannot be shown: ${text}`, 'bad');
}

export const isRefused = reply => reply instanceof Refused;

/** Buttons of which one is chosen. */
export function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, text]) => h('button', {
    type: 'button', 'aria-pressed': String(value === chosen),
    onclick: event => {
      buttons.forEach(button => button.setAttribute('aria-pressed', String(button === event.currentTarget)));
      choose(value);
    },
  }, text));
  return h('div', { class: 'segments', role: 'group', 'aria-label': label }, buttons);
}

export function field(label, control, kind = '') {
  return h('label', { class: kind }, h('span', {}, label), control);
}

/** A list of names and figures. */
export const figures = pairs => h('dl', { class: 'figures' }, pairs.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

// Numbers as people read them: [figure, unit].
const SCALES = {
  count: [1000, ['', 'k', 'M', 'G', 'T']],
  bytes: [1024, ['B', 'KB', 'MB', 'GB', 'TB', 'PB']],
};

function scaled(number, [step, units]) {
  let at = 0;
  let value = Number(number);
  while (Math.abs(value) >= step * 0.9995 && at + 1 < units.length) { value /= step; at += 1; }
  const digits = at === 0 && Number.isInteger(value) ? 0 : Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0;
  return [value.toFixed(digits), units[at]];
}

export const inCount = number => scaled(number, SCALES.count);
export const inBytes = number => scaled(number, SCALES.bytes);
export function inTime(us) {
  if (us === null || Number.isNaN(us)) return ['–', ''];
  if (us < 999.5) return [us.toFixed(us < 9.95 && !Number.isInteger(us) ? 1 : 0), 'µs'];
  if (us < 999500) return [(us / 1e3).toFixed(us < 9995 ? 2 : us < 99950 ? 1 : 0), 'ms'];
  return [(us / 1e6).toFixed(us < 9.995e6 ? 2 : 1), 's'];
}
export const joined = ([figure, unit]) => unit ? `${figure} ${unit}` : figure;
export const count = number => joined(inCount(number));
export const bytes = number => joined(inBytes(number));
export const time = us => joined(inTime(us));
export const whole = number => Number(number).toLocaleString('en');
export const percent = part => `${(part * 100).toFixed(part > 0.9995 || part < 0.0005 ? 0 : 1)} %`;

export function span(seconds) {
  const left = Number(seconds);
  if (!Number.isFinite(left) || left < 0) return '–';
  if (left < 120) return `${Math.round(left)} s`;
  if (left < 7200) return `${Math.round(left / 60)} min`;
  if (left < 172800) return `${(left / 3600).toFixed(1)} h`;
  return `${(left / 86400).toFixed(1)} d`;
}

export const clock = ms => new Date(ms).toLocaleTimeString('en-GB');
export const day = ms => new Date(ms).toLocaleString('sv-SE');

/** A figure with its unit set apart. */
export const measured = ([figure, unit]) => [figure, h('span', { class: 'unit' }, unit)];

/** A bar that says how large a part is; the figure beside it says it in words. */
export function share(part) {
  const inner = h('span');
  inner.style.width = `${Math.max(0, Math.min(1, part || 0)) * 100}%`;
  return h('span', { class: 'share', 'aria-hidden': 'true' }, inner);
}

/** Makes a place anew; whoever is on a part of it that is there again stays on it. */
export function renewed(place, work) {
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const [name, value] = ['href', 'id', 'aria-label'].map(name => [name, held?.getAttribute(name)]).find(([, value]) => value) ?? [];
  work();
  if (!value || held.isConnected) return;
  [...place.querySelectorAll(`[${name}]`)].find(element => element.getAttribute(name) === value)?.focus({ preventScroll: true });
}

/**
 * A table that can be sorted. A column has a `title`, `show(row)` for its cells, and may have `value(row)` to sort by,
 * `number` for what stands at the right, and `kind` for the cell's class; the first column heads the row.
 * `fill` shows other rows, and leaves the head and whoever is on it where they are.
 */
export function table(caption, columns, { sortedBy = null, falls = true, tall = false, empty = 'Nothing is there.' } = {}) {
  let rows = [];
  let order = { by: sortedBy, falls };
  const heads = columns.map((column, at) => {
    const title = column.value
      ? h('button', { type: 'button', onclick: () => { order = { by: at, falls: order.by === at ? !order.falls : Boolean(column.number) }; show(); } }, column.title)
      : column.title;
    return h('th', { scope: 'col', class: column.number ? 'number' : '' }, title);
  });
  const body = h('tbody');
  const title = h('caption', {}, caption);
  const element = h('div', { class: tall ? 'scroll tall' : 'scroll', role: 'region', tabindex: '0', 'aria-label': caption },
    h('table', {}, title, h('thead', {}, h('tr', {}, heads)), body));
  function cell(column, at, row) {
    const shown = [column.show(row)].flat(2);
    const kind = [column.number && 'number', column.kind].filter(Boolean).join(' ');
    return at === 0 ? h('th', { scope: 'row', class: kind }, shown) : h('td', { class: kind }, shown);
  }
  function show() {
    heads.forEach((head, at) => {
      if (order.by === at) head.setAttribute('aria-sort', order.falls ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    const value = columns[order.by]?.value;
    const sorted = value ? [...rows].sort((a, b) => compared(value(a), value(b)) * (order.falls ? -1 : 1)) : rows;
    const shown = sorted.map(row => h('tr', {}, columns.map((column, at) => cell(column, at, row))));
    const rest = h('tr', {}, h('td', { colspan: String(columns.length), class: 'dim' }, empty));
    renewed(body, () => body.replaceChildren(...shown.length ? shown : [rest]));
  }
  return {
    element,
    fill(newRows, newCaption) { rows = newRows; if (newCaption) title.textContent = newCaption; show(); },
  };
}

function compared(a, b) {
  if (typeof a === 'string') return a.localeCompare(String(b), 'en', { numeric: true });
  return Number(a) - Number(b);
}

/** Calls `work` now and then every so many seconds while the page is seen; the result ends that. */
export function each(seconds, work) {
  let timer = null;
  let ended = false;
  async function turn() {
    if (!document.hidden) await work();
    if (!ended) timer = setTimeout(turn, seconds * 1000);
  }
  turn();
  return () => { ended = true; clearTimeout(timer); };
}
