// Graphs over time, drawn on canvases; what they show stands in words below each.
import { clock, h } from './page.js';

const MARGIN = { left: 58, right: 6, top: 8, bottom: 20 };

/** What a bin of samples says. `values` are rates or gauges by name, `latencies` calls by bucket. */
export function binned(samples, names, windowMs, binMs) {
  const last = samples.at(-1)?.endMs ?? Date.now();
  const end = Math.ceil(last / binMs) * binMs;
  const bins = Array.from({ length: Math.round(windowMs / binMs) }, (_, at) => ({
    endMs: end - windowMs + (at + 1) * binMs, spanMs: 0, counters: names.counters.map(() => 0), gauges: null, latencies: [],
  }));
  for (const sample of samples) {
    const bin = bins[bins.length - 1 - Math.floor((end - sample.endMs) / binMs)];
    if (!bin || sample.endMs > end) continue;
    bin.spanMs += sample.spanMs;
    sample.counters.forEach((more, at) => { bin.counters[at] += more; });
    bin.gauges = sample.gauges;
    for (let at = 0; at < sample.latencies.length; at += 2) {
      bin.latencies[sample.latencies[at]] = (bin.latencies[sample.latencies[at]] ?? 0) + sample.latencies[at + 1];
    }
  }
  return bins;
}

/** The time, in microseconds, that a part of the calls did not exceed; `null` without calls. */
export function quantile(latencies, part, firstNs) {
  const total = latencies.reduce((sum, calls) => sum + calls, 0);
  if (!total) return null;
  let passed = 0;
  for (let bucket = 0; bucket < latencies.length; bucket += 1) {
    const calls = latencies[bucket] ?? 0;
    if (calls && passed + calls >= part * total) {
      const inside = (part * total - passed) / calls;
      return firstNs * 2 ** ((bucket - 1 + inside) / 2) / 1000;
    }
    passed += calls;
  }
  return null;
}

/** A canvas at the density of the screen, with nothing on it. */
export function prepared(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const density = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * density)) canvas.width = Math.round(width * density);
  if (canvas.height !== Math.round(height * density)) canvas.height = Math.round(height * density);
  const pen = canvas.getContext('2d');
  pen.setTransform(density, 0, 0, density, 0, 0);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  pen.font = `11.5px ${style.fontFamily}`;
  return { pen, width, height, dim: style.color, line: colour('--line') };
}

// Colours with a light and a dark side are resolved by the browser where they are used.
const probe = h('span', { hidden: true });
export function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** `2.50 k/s` as `2.5 k/s`: marks of an axis need no more digits than tell them apart. */
const short = text => text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');

function timeAxis({ pen, width, height, dim }, bins) {
  pen.fillStyle = dim;
  pen.textBaseline = 'alphabetic';
  const marks = width < 420 ? 2 : 4;
  for (let at = 0; at <= marks; at += 1) {
    const bin = bins[Math.min(bins.length - 1, Math.round(bins.length * at / marks))];
    const x = MARGIN.left + (width - MARGIN.left - MARGIN.right) * at / marks;
    pen.textAlign = at === 0 ? 'left' : at === marks ? 'right' : 'center';
    pen.fillText(clock(bin.endMs), x, height - 5);
  }
}

/** Round steps between 0 and a little more than `max`; of bytes, whole powers of two. */
function steps(max, base) {
  const wanted = Math.max(max, 1e-9) / 4;
  const scale = base === 1024 ? 1024 ** Math.max(0, Math.floor(Math.log(wanted) / Math.log(1024))) : 1;
  const power = 10 ** Math.floor(Math.log10(wanted / scale));
  const step = [1, 2, 2.5, 5, 10].map(factor => factor * power * scale).find(step => step >= wanted);
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 || 2 }, (_, at) => at * step);
}

/** Powers of ten from below the least to above the most. */
function powers(min, max) {
  const first = Math.floor(Math.log10(min));
  const last = Math.max(first + 1, Math.ceil(Math.log10(max)));
  return Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
}

/** Under the pointer, or moved by the arrow keys, a moment is shown in words. */
function followed(canvas, redraw) {
  let at = null;
  const set = index => { at = index; redraw(); };
  const binOf = (x, count) => {
    const inner = canvas.clientWidth - MARGIN.left - MARGIN.right;
    return Math.max(0, Math.min(count - 1, Math.floor((x - MARGIN.left) / inner * count)));
  };
  canvas.addEventListener('pointermove', event => set(binOf(event.offsetX, canvas.bins)));
  canvas.addEventListener('pointerleave', () => set(null));
  canvas.addEventListener('blur', () => set(null));
  canvas.addEventListener('keydown', event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    set(Math.max(0, Math.min(canvas.bins - 1, (at ?? canvas.bins - 1) + step)));
  });
  return () => at;
}

function framed(title, kind, draw) {
  const canvas = h('canvas', { class: kind, role: 'img', tabindex: '0', 'aria-label': title });
  const caption = h('figcaption');
  const element = h('figure', {}, canvas, caption);
  let bins = [];
  const redraw = () => { if (bins.length && canvas.clientWidth) draw(canvas, caption, bins, chosen()); };
  const chosen = followed(canvas, redraw);
  canvas.bins = 1;
  new ResizeObserver(redraw).observe(canvas);
  return { element, update(newBins) { bins = newBins; canvas.bins = bins.length; redraw(); } };
}

/** Lines. A series has a `name` and `value(bin)`, which is `null` where nothing is known; `show` puts a value into words. */
export function lines(title, series, show, { base = 1000, log = false, max = 0 } = {}) {
  return framed(title, '', (canvas, caption, bins, chosen) => {
    const frame = prepared(canvas);
    const { pen, width, height, dim } = frame;
    const values = series.map(({ value }) => bins.map(bin => bin.spanMs ? value(bin) : null));
    const known = values.flat().filter(value => value !== null && Number.isFinite(value) && (!log || value > 0));
    const top = Math.max(max, ...known, log ? 0 : 1);
    const ticks = log ? powers(Math.min(...known, 1e9), Math.max(top, 1)) : steps(top, base);
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const lift = value => log
      ? (Math.log(value) - Math.log(ticks[0])) / (Math.log(ticks.at(-1)) - Math.log(ticks[0]))
      : value / ticks.at(-1);
    const y = value => MARGIN.top + inner.height * (1 - lift(value));
    const x = at => MARGIN.left + inner.width * (at + 0.5) / bins.length;
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    if (known.length || !log) {
      for (const tick of ticks) {
        pen.fillStyle = dim;
        pen.fillText(short(show(tick)), MARGIN.left - 8, y(tick));
        pen.fillStyle = frame.line;
        pen.fillRect(MARGIN.left, Math.round(y(tick)), inner.width, 1);
      }
    }
    values.forEach((line, at) => drawLine(pen, line, x, y, colour(`--series-${at + 1}`), log));
    if (chosen !== null) {
      pen.fillStyle = dim;
      pen.fillRect(Math.round(x(chosen)), MARGIN.top, 1, inner.height);
    }
    timeAxis(frame, bins);
    inWords(canvas, caption, title, series, values, bins, chosen, show);
  });
}

function drawLine(pen, line, x, y, stroke, log) {
  pen.strokeStyle = pen.fillStyle = stroke;
  pen.lineWidth = 1.8;
  pen.lineJoin = 'round';
  pen.beginPath();
  let isDown = false;
  line.forEach((value, at) => {
    const isKnown = value !== null && Number.isFinite(value) && (!log || value > 0);
    if (isKnown && isDown) pen.lineTo(x(at), y(value));
    else if (isKnown) {
      pen.moveTo(x(at), y(value));
      // One that stands alone would not be seen.
      if (line[at + 1] === null || line[at + 1] === undefined) pen.fillRect(x(at) - 1, y(value) - 1, 2, 2);
    }
    isDown = isKnown;
  });
  pen.stroke();
}

function inWords(canvas, caption, title, series, values, bins, chosen, show) {
  const lastKnown = line => line.findLast(value => value !== null) ?? null;
  const shown = value => value === null ? '–' : show(value);
  caption.replaceChildren(h('span', { class: 'when' }, chosen === null ? 'now' : clock(bins[chosen].endMs)),
    ...series.map(({ name }, at) => h('span', { class: `legend s${at + 1}` },
      h('span', { class: 'dim' }, `${name} `), h('b', {}, shown(chosen === null ? lastKnown(values[at]) : values[at][chosen])))));
  canvas.setAttribute('aria-label', `${title}: ` + series.map(({ name }, at) => {
    const known = values[at].filter(value => value !== null);
    return `${name} now ${shown(lastKnown(values[at]))}, at most ${known.length ? show(Math.max(...known)) : '–'}`;
  }).join('; '));
}

/** Calls by time (across) and latency (up): the more, the stronger. */
export function heatMap(title, firstNs, show) {
  return framed(title, 'heat', (canvas, caption, bins, chosen) => {
    const frame = prepared(canvas);
    const { pen, width, height, dim } = frame;
    let [low, high, most] = [Infinity, -Infinity, 0];
    for (const bin of bins) bin.latencies.forEach((calls, bucket) => {
      if (!calls) return;
      low = Math.min(low, bucket); high = Math.max(high, bucket); most = Math.max(most, calls);
    });
    if (most === 0) [low, high] = [0, 12];
    low = Math.max(0, low - 1);
    high = Math.max(high + 1, low + 10);
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const cell = { width: inner.width / bins.length, height: inner.height / (high - low + 1) };
    pen.fillStyle = colour('--series-1');
    bins.forEach((bin, at) => bin.latencies.forEach((calls, bucket) => {
      if (!calls) return;
      pen.globalAlpha = 0.1 + 0.9 * Math.log(calls + 1) / Math.log(most + 1);
      // Cells meet at whole pixels: where two lay over each other, lines would be seen.
      const [left, right] = [at, at + 1].map(edge => Math.round(MARGIN.left + edge * cell.width));
      const [top, bottom] = [high - bucket, high - bucket + 1].map(edge => Math.round(MARGIN.top + edge * cell.height));
      pen.fillRect(left, top, right - left, bottom - top);
    }));
    pen.globalAlpha = 1;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    for (let us = 0.1; us <= 1e7; us *= 10) {
      const bucket = Math.log2(us * 1000 / firstNs) * 2;
      if (bucket < low - 1 || bucket > high) continue;
      const y = MARGIN.top + (high - bucket) * cell.height;
      pen.fillStyle = dim;
      pen.fillText(short(show(us)), MARGIN.left - 8, y);
      pen.fillStyle = frame.line;
      pen.fillRect(MARGIN.left, Math.round(y), inner.width, 1);
    }
    if (chosen !== null) {
      pen.strokeStyle = dim;
      pen.strokeRect(MARGIN.left + chosen * cell.width, MARGIN.top, cell.width, inner.height);
    }
    timeAxis(frame, bins);
    const bin = chosen === null ? bins.findLast(bin => bin.latencies.length) : bins[chosen];
    const calls = bin ? bin.latencies.reduce((sum, more) => sum + more, 0) : 0;
    const told = calls
      ? `${calls.toLocaleString('en')} calls: half within ${show(quantile(bin.latencies, 0.5, firstNs))}, 99 % within ${show(quantile(bin.latencies, 0.99, firstNs))}, the slowest ${show(quantile(bin.latencies, 1, firstNs))}`
      : 'no calls were timed';
    caption.replaceChildren(h('span', { class: 'when' }, chosen === null ? 'now' : clock(bins[chosen].endMs)), h('span', {}, told));
    canvas.setAttribute('aria-label', `${title}: now ${told}`);
  });
}
