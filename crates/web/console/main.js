// Which view is shown, who has logged in, and whether the server answers.
import { fieldsOf, isAbort, login, reasonsUnready, run, Unanswered } from './api.js';
import { announce, each, h, heading, notice } from './page.js';
import * as clients from './clients.js';
import * as cluster from './cluster.js';
import * as configuration from './configuration.js';
import * as hot from './hot.js';
import * as keys from './keys.js';
import * as memory from './memory.js';
import * as overview from './overview.js';
import * as replication from './replication.js';
import * as slow from './slow.js';
import * as terminal from './terminal.js';

const VIEWS = { overview, memory, hot, slow, clients, replication, cluster, configuration, keys, terminal };

const root = document.getElementById('view');
const nav = document.getElementById('views');
const menu = document.getElementById('menu');
const leave = document.getElementById('leave');

let stop = () => {};
// A view that is still being made when another is chosen must not appear.
let turn = 0;
// The server is a node of a cluster: others have no view of it.
let isNode = false;
// Why clients should not be sent to the server, as it was told last.
let reasons = '';
// It could not be reached, or had no data yet; and whether it did not answer what the view that is chosen needs.
let [isAway, isEmpty, isMissing] = [false, false, false];

function viewName() {
  const name = location.hash.replace(/^#\/?/, '').split('?')[0];
  return Object.hasOwn(VIEWS, name) && isOffered(name) ? name : 'overview';
}

const isOffered = name => name !== 'cluster' || isNode;

function drawNav(current) {
  nav.replaceChildren(h('ul', {}, Object.entries(VIEWS).filter(([name]) => isOffered(name)).map(([name, view]) =>
    h('li', {}, h('a', { href: `#/${name}`, 'aria-current': name === current ? 'page' : undefined }, view.title)))));
}

/** Says above whether the server answers; who has to log in is asked to. */
function failed(error) {
  if (isAbort(error)) return;
  if (error instanceof Unanswered && error.status === 401) return askLogin(error.message);
  if (error) tell('bad', 'no answer');
  else if (reasons) tell('bad', `not ready: ${reasons}`);
  else tell('good', 'live');
}

function tell(kind, text) {
  const link = document.getElementById('link');
  link.className = `link ${kind}`;
  if (link.textContent !== text) link.textContent = text;
}

/** Looks whether the server is there and ready; a view that could not be shown is, once it is back. */
async function look() {
  if (root.querySelector('.login')) return;
  try {
    reasons = await reasonsUnready();
  } catch (error) {
    isAway = true;
    return failed(error);
  }
  failed(null);
  const [wasAway, wasEmpty] = [isAway, isEmpty];
  [isAway, isEmpty] = [false, /^(starting|loading)/.test(reasons)];
  if (isMissing || wasEmpty && !isEmpty) await begin();
  else if (wasAway) await describe();
}

async function show() {
  const name = viewName();
  const view = VIEWS[name];
  const mine = ++turn;
  const isCurrent = () => mine === turn;
  // What is still under way for a view that has been left says nothing any more, least of all for a form that somebody fills in.
  const context = { isCurrent, failed: error => isCurrent() && failed(error), restarted: describe };
  stop();
  stop = () => {};
  isMissing = false;
  drawNav(name);
  nav.classList.remove('open');
  menu.setAttribute('aria-expanded', 'false');
  document.title = `${view.title} – Warmline`;
  root.replaceChildren(heading(view.title), h('p', { class: 'dim' }, 'Asking the server …'));
  const place = h('div', { class: 'stack' });
  try {
    // Asks for everything again, and leaves what is shown until it has come.
    context.refresh = async () => { try { await view.start(place, context); context.failed(null); } catch (error) { context.failed(error); } };
    const ended = await view.start(place, context);
    if (mine !== turn) return ended?.();
    stop = ended ?? (() => {});
    root.replaceChildren(place);
    failed(null);
    announce('');
  } catch (error) {
    if (mine !== turn) return;
    failed(error);
    if (error instanceof Unanswered && error.status === 401) return;
    isMissing = error instanceof Unanswered && [0, 503].includes(error.status);
    const who = login.user ? `The user ${login.user} may not see this` : 'This cannot be shown';
    const text = error instanceof Unanswered && error.status === 403 ? `${who}: ${error.message}` : String(error.message ?? error);
    root.replaceChildren(heading(view.title), notice(text, 'bad'), h('button', { type: 'button', onclick: show }, 'Try again'));
    if (!(error instanceof Unanswered)) throw error;
  }
  if (document.activeElement === document.body) root.querySelector('h1')?.focus({ preventScroll: true });
}

function askLogin(message) {
  turn += 1;
  stop();
  stop = () => {};
  const user = h('input', { id: 'user', autocomplete: 'username', value: login.user ?? 'default', autocapitalize: 'none' });
  const password = h('input', { id: 'password', type: 'password', autocomplete: 'current-password' });
  const isWrong = message.startsWith('WRONGPASS');
  const form = h('form', {
    class: 'card login',
    onsubmit: async event => {
      event.preventDefault();
      login.set(user.value.trim(), password.value);
      await begin();
    },
  }, h('h1', { tabindex: '-1' }, 'Log in'),
  h('p', { class: 'dim' }, 'The server asks who you are. User and password stay in this page, until it is closed.'),
  isWrong && h('p', { class: 'notice bad', role: 'alert' }, 'The user is unknown or off, or the password is wrong.'),
  h('label', {}, 'User', user), h('label', {}, 'Password', password), h('button', {}, 'Log in'));
  document.title = 'Log in – Warmline';
  nav.replaceChildren();
  leave.hidden = true;
  document.getElementById('link').className = 'link';
  document.getElementById('link').textContent = 'logged out';
  root.replaceChildren(form);
  (login.user ? password : user).focus();
  if (isWrong) announce('The user is unknown or off, or the password is wrong.');
}

/** Says above which server this is; whether somebody has to log in. */
async function describe() {
  try {
    const [info] = await run([['INFO', 'server', 'cluster']]);
    const fields = fieldsOf(info);
    const wasNode = isNode;
    isNode = fields.get('cluster_enabled') === '1';
    if (isNode !== wasNode && nav.firstChild) drawNav(viewName());
    const version = fields.get('warmline_version') ?? fields.get('valkey_version') ?? '';
    document.getElementById('server').textContent = fields.size
      ? `${location.host} · version ${version} · port ${fields.get('tcp_port')} · process ${fields.get('process_id')}` : location.host;
  } catch (error) {
    if (!(error instanceof Unanswered && error.status === 401)) return false;
    askLogin(error.message);
    return true;
  }
  return false;
}

async function begin() {
  leave.hidden = login.user === null;
  if (!await describe()) await show();
}

const THEMES = ['system', 'light', 'dark'];
const themeButton = document.getElementById('theme');
function setTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }[theme];
}
function keptTheme() {
  try { return THEMES.find(theme => theme === localStorage.getItem('theme')) ?? 'system'; } catch { return 'system'; }
}
themeButton.addEventListener('click', () => {
  const theme = THEMES[(THEMES.indexOf(keptTheme()) + 1) % THEMES.length];
  try { localStorage.setItem('theme', theme); } catch { /* It holds for as long as the page, then. */ }
  setTheme(theme);
});
menu.addEventListener('click', () => menu.setAttribute('aria-expanded', String(nav.classList.toggle('open'))));
// A new page knows nothing of what this one has shown.
leave.addEventListener('click', () => location.reload());
document.querySelector('.skip').addEventListener('click', event => { event.preventDefault(); root.focus(); });
window.addEventListener('hashchange', event => {
  // The browser of keys follows its own addresses.
  const isWithinKeys = [event.oldURL, event.newURL].every(url => url.includes('#/keys'));
  if (!isWithinKeys || viewName() !== 'keys') show();
});

setTheme(keptTheme());
begin().then(() => each(3, look));
