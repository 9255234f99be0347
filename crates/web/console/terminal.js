// A command line: with history, completion of names, and what the server's documentation says of each command.
import { isAbort, Pairs, Refused, run, runIn } from './api.js';
import { announce, card, field, figures, h, heading, notice, whole } from './page.js';
import { printed, quoted, words } from './replies.js';

export const title = 'Command line';

/** Replies that are kept on the page. */
const SHOWN_MAX = 50;
const LINES_MAX = 200;
/** Of a reply so many characters are shown. */
const REPLY_MAX = 200_000;

// They stay when another view is looked at, and go with the page.
const lines = [];
const log = h('div', { class: 'log', role: 'log', 'aria-label': 'Replies', tabindex: '0' });
let docs = null;

/** Commands and subcommands by their names in upper case. */
async function documentation() {
  const [reply] = await run([['COMMAND', 'DOCS']]);
  if (reply instanceof Refused) return new Map();
  const known = new Map();
  for (const [name, command] of reply.pairs) {
    known.set(String(name).toUpperCase(), command);
    for (const [sub, about] of command.get('subcommands')?.pairs ?? []) known.set(String(sub).replace('|', ' ').toUpperCase(), about);
  }
  return known;
}

/** Arguments as manuals write them: `key [NX | XX] value [value ...]`. */
function syntax(args) {
  return (args ?? []).map(arg => {
    const flags = [...(arg.get('flags')?.items ?? arg.get('flags') ?? [])].map(String);
    const token = arg.get('token') === undefined ? '' : String(arg.get('token'));
    const inner = { oneof: () => parts(arg).join(' | '), block: () => parts(arg).join(' '), 'pure-token': () => '' }[String(arg.get('type'))]?.()
      ?? String(arg.get('display_text') ?? arg.get('name'));
    let shown = [token, flags.includes('multiple') ? `${inner} [${inner} ...]` : inner].filter(Boolean).join(' ');
    if (flags.includes('optional')) shown = `[${shown}]`;
    else if (String(arg.get('type')) === 'oneof') shown = `<${shown}>`;
    return shown;
  }).join(' ');
}

const parts = arg => (arg.get('arguments') ?? []).map(inner => syntax([inner]));

/** The command that a line begins with, of two words if there is one. */
function commandOf(line) {
  const [first = '', second = ''] = line.trim().toUpperCase().split(/\s+/);
  return [`${first} ${second}`, first].find(name => docs?.has(name)) ?? null;
}

function described(name) {
  const command = docs.get(name);
  const subcommands = [...docs.keys()].filter(other => other.startsWith(`${name} `));
  return [h('p', { class: 'mono syntax' }, `${name} ${syntax(command.get('arguments'))}`), h('p', {}, String(command.get('summary') ?? '')),
    figures([['Since', String(command.get('since') ?? '–')], ['Cost', String(command.get('complexity') ?? '–')], ['Group', String(command.get('group') ?? '–')]]),
    subcommands.length > 0 && h('p', { class: 'dim' }, `Subcommands: ${subcommands.map(sub => sub.slice(name.length + 1)).join(', ')}`)].filter(Boolean);
}

export async function start(root, { failed }) {
  if (!docs?.size) docs = await documentation();
  const names = h('datalist', { id: 'command-names' });
  const input = h('input', { id: 'command', type: 'text', list: 'command-names', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', class: 'mono' });
  const database = h('input', { id: 'command-db', type: 'number', min: '0', value: '0', class: 'short' });
  const help = h('div', {}, notice('Begin to write a command to read about it.'));
  const end = h('button', { type: 'button', class: 'quiet', hidden: true }, 'Cancel');
  let recalled = lines.length;
  let draft = '';

  function note() {
    const typed = input.value.trim().toUpperCase();
    const fitting = [...docs.keys()].filter(name => name.startsWith(typed)).slice(0, 40);
    names.replaceChildren(...fitting.map(name => h('option', { value: name })));
    const name = commandOf(input.value);
    help.replaceChildren(...name ? described(name) : [notice(typed && fitting.length === 0 ? 'No command begins like that.' : 'Begin to write a command to read about it.')]);
  }

  function recall(step) {
    if (recalled === lines.length) draft = input.value;
    recalled = Math.max(0, Math.min(lines.length, recalled + step));
    input.value = recalled === lines.length ? draft : lines[recalled];
    note();
  }

  async function send(event) {
    event.preventDefault();
    const line = input.value.trim();
    if (!line) return;
    if (lines.at(-1) !== line) lines.push(line);
    if (lines.length > LINES_MAX) lines.shift();
    [recalled, draft, input.value] = [lines.length, '', ''];
    note();
    const found = words(line);
    if (found === null) return add(line, new Refused('The quotes do not match'), null);
    const cancel = new AbortController();
    end.onclick = () => cancel.abort();
    end.hidden = false;
    const began = performance.now();
    try {
      const [reply] = await runIn(database.value, [found], cancel.signal);
      add(found.map(quoted).join(' '), reply, performance.now() - began);
      if (/^select$/i.test(String(found[0])) && !(reply instanceof Refused)) database.value = String(found[1]);
    } catch (error) {
      add(line, new Refused(isAbort(error) ? 'Cancelled; the server may go on with it.' : String(error.message)), null);
      failed(error);
    } finally { end.hidden = true; }
  }

  function add(line, reply, ms) {
    const isBad = reply instanceof Refused;
    const text = printed(reply);
    const shown = text.length <= REPLY_MAX ? text : `${text.slice(0, REPLY_MAX)}\n… (${whole(text.length - REPLY_MAX)} characters more)`;
    log.append(h('div', { class: 'entry' }, h('p', { class: 'prompt' }, h('span', { class: 'mono' }, line), ms === null ? '' : h('span', { class: 'dim' }, `${ms.toFixed(ms < 10 ? 1 : 0)} ms`)),
      h('pre', { class: isBad ? 'bad-text' : '' }, shown)));
    while (log.childElementCount > SHOWN_MAX) log.firstElementChild.remove();
    log.scrollTop = log.scrollHeight;
    if (isBad) announce(printed(reply));
  }

  input.addEventListener('input', note);
  input.addEventListener('keydown', event => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    // While names are offered, the arrows choose among them.
    if (step && (lines.length || draft) && (input.value === '' || recalled < lines.length || event.ctrlKey)) { event.preventDefault(); recall(step); }
  });
  root.replaceChildren(heading(title), h('div', { class: 'terminal' },
    card('Replies', 'commands that change something need http-commands yes', log,
      h('form', { class: 'fields', onsubmit: send }, field('Database', database), field('Command', input, 'grows'), names, h('button', {}, 'Run'), end)),
    card('Documentation', '', help)));
  if (docs.size === 0) help.replaceChildren(notice('The user may not run COMMAND DOCS: there is nothing to complete from.'));
  else note();
}
