//! Confirmed replies: what shows a change waits until the change is where it cannot be lost, and nothing else waits. Used
//! while `appendfsync always` applies, and while `min-replicas-durable` is set.
//!
//! ```text
//!   a call changes keys -> unconfirmed_keys[key] = this turn ---------> its client's output awaits this turn
//!   a call reads keys   -> unconfirmed_keys[key] = an earlier turn? --> its client's output awaits that turn
//!   a message to a client, outside its own command --------------------> it awaits what this turn has changed or shown
//!   end of the turn     -> unconfirmed_turns: (turn, ends in file and stream); an fsync begins, replicas are asked
//!   fsync, REPLCONF ACK -> turns up to the reached positions are confirmed -> the outputs that awaited them are sent
//! ```
//!
//! A turn is one pass of the event loop, so that an fsync confirms all that was written while the one before it was under
//! way. Turns are numbered only if they change data.
//!
//! 1. No byte that shows a change of an unconfirmed turn is offered to a socket: [`release`] is called before each write.
//! 2. Keys are distinguished by their hashes alone: a reply may wait without need, never the other way round.
//! 3. `unconfirmed_keys` has the keys of unconfirmed turns only, and at most [`KEYS_MAX`]; beyond that, `all_keys` stands
//!    for all keys.
//! 4. Other servers are never kept waiting: their output is no reply.
//! 5. A turn that replicas do not confirm in time has *failed*: what awaits it is answered with an error. It stays
//!    unconfirmed until they do.

mod progress;

use super::Executor;
use super::call::Call;
use crate::command::key_spec::Begin;
use crate::command::registry::Registry;
use crate::command::{Group, access, flag};
use crate::db::Db;
use crate::persist::aof::Wake;
use crate::server::{NOT_CONFIRMED, Server};
use crate::session::{Client, ClientHandle};
use progress::{Ends, Turns};
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::reply::ReplyBuffer;

pub(super) use progress::LogProgress;

/// Maximum number of keys that are remembered singly.
const KEYS_MAX: usize = 1 << 20;

/// Which turns are confirmed, and which outputs wait for them.
#[derive(Debug, Default)]
pub(super) struct Confirmation {
    turns: Turns,
    /// Hashes of the keys that unconfirmed turns have changed, with the latest such turn.
    unconfirmed_keys: HashMap<u64, u64>,
    /// The entries of `unconfirmed_keys` as they were made.
    key_order: VecDeque<(u64, u64)>,
    /// The latest turn that changed keys which are not known singly.
    all_keys: u64,
    /// Clients by the turn that their first chunk waits for; some may have disconnected.
    waiting: BTreeMap<u64, Vec<ClientHandle>>,
    /// Clients with output to write.
    ready: Vec<ClientHandle>,
    /// The turns that were confirmed, and that had failed, when clients were last listed.
    answered_up_to: (u64, u64),
    /// A script was suspended at the end of the last turn.
    has_suspended_script: bool,
    /// The turn that messages of the current turn await: the latest that a call in it has changed or shown; 0: none.
    messages_await: u64,
    /// Number of calls that have changed data since the last confirmation.
    calls: usize,
    /// Number of clients that the last confirmation has answered: while as many have not written again, the next fsync is put
    /// off a little.
    answered: usize,
}

impl Confirmation {
    /// Returns whether replies wait.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.turns.is_on()
    }

    /// Lists the clients whose output may be written, and forgets the keys of confirmed turns.
    fn answer(&mut self) {
        let confirmed = self.turns.confirmed();
        while let Some((hash, turn)) = self.key_order.pop_front_if(|&mut (_, turn)| turn <= confirmed) {
            if self.unconfirmed_keys.get(&hash) == Some(&turn) {
                self.unconfirmed_keys.remove(&hash);
            }
        }
        if self.key_order.is_empty() {
            // The memory of a large batch is not kept.
            (self.key_order, self.unconfirmed_keys) = Default::default();
        }
        let (before, decided) = (self.ready.len(), self.turns.decided());
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= decided) {
            self.ready.append(&mut first.remove());
        }
        (self.calls, self.answered) = (0, self.ready.len() - before);
    }

    /// Records what a call has changed or read, and makes its client's output wait for it. `is_aborted`: a transaction whose
    /// watched keys have changed.
    #[inline(never)]
    pub fn note_call(&mut self, db: &Db, server: &mut Server, call: &Call<'_>, is_aborted: bool) {
        if self.turns.needs_replicas() && changes_session(&server.registry, call) {
            server.clients[call.client].held.get_or_insert_default().note_session_change();
        }
        let has_changed = db.change_log.has_changed_data();
        if !has_changed && self.turns.latest() == 0 {
            return;
        }
        let keys = call.row.find_keys(call.args);
        let mut awaits = 0;
        if has_changed {
            self.turns.note_change();
            self.calls += 1;
            awaits = self.turns.latest();
        }
        if is_aborted || names_no_keys(call, keys.is_empty(), has_changed) {
            awaits = self.turns.latest();
            self.all_keys = if has_changed { awaits } else { self.all_keys };
        }
        for (at, _) in keys {
            let hash = db.key(&call.args[at]).hash();
            awaits = awaits.max(self.turn_of(hash));
            if has_changed {
                self.change(hash, awaits);
            }
        }
        if awaits <= self.turns.confirmed() {
            return;
        }
        self.messages_await = self.messages_await.max(awaits);
        let client = &mut server.clients[call.client];
        if is_answered(client) {
            client.held.get_or_insert_default().await_turn(awaits);
        }
    }

    /// Returns the latest unconfirmed turn that may have changed a key; 0 or a confirmed turn: there is none.
    fn turn_of(&self, hash: u64) -> u64 {
        self.unconfirmed_keys.get(&hash).map_or(0, |&turn| turn).max(self.all_keys)
    }

    fn change(&mut self, hash: u64, turn: u64) {
        if self.key_order.len() >= KEYS_MAX {
            self.all_keys = turn;
        } else if self.unconfirmed_keys.insert(hash, turn) != Some(turn) {
            self.key_order.push_back((hash, turn));
        }
    }

    /// Returns the memory in bytes.
    fn memory_bytes(&self) -> usize {
        let keys = self.unconfirmed_keys.capacity() + self.key_order.capacity();
        keys * size_of::<(u64, u64)>() + self.turns.memory_bytes()
    }
}

/// Returns whether the call may have read or changed keys beside those that it names.
fn names_no_keys(call: &Call<'_>, is_without_keys: bool, has_changed: bool) -> bool {
    let follows_patterns =
        || call.row.keys.iter().any(|spec| spec.begin == Begin::Unknown && spec.access & access::RO != 0);
    let shows_data = call.row.is(flag::READONLY) || call.row.group == Group::Scripting;
    is_without_keys && (has_changed || shows_data)
        || call.row.is(flag::TOUCHES_ARBITRARY_KEYS)
        || follows_patterns()
}

/// Returns whether the call's reply shows a change of its client's session.
fn changes_session(registry: &Registry, call: &Call<'_>) -> bool {
    match call.row.group {
        Group::Connection => !registry.is_plain(call.id),
        Group::PubSub => call.row.is(flag::NO_SCRIPT),
        _ => false,
    }
}

/// Returns whether the client's output are replies and messages: invariant 4.
fn is_answered(client: &Client) -> bool {
    !client.is_replica && !client.is_peer() && !client.is_linking
}

/// Moves the client's new output behind what it waits for, and what may be sent into its output. Call before a write.
#[inline]
pub fn release(executor: &mut Executor, handle: ClientHandle) {
    let client = &executor.server.clients[handle];
    if client.held.is_some() || client.output_pending && executor.confirmation.is_on() {
        release_held(executor, handle);
    }
}

#[cold]
fn release_held(executor: &mut Executor, handle: ClientHandle) {
    let (confirmation, server) = (&mut executor.confirmation, &mut executor.server);
    let turns = &confirmation.turns;
    let client = &mut server.clients[handle];
    let mut held = client.held.take().unwrap_or_default();
    if client.output_pending && is_answered(client) {
        held.await_turn(confirmation.messages_await);
    }
    held.push(client.output.take());
    let mut output = held.take_confirmed(turns.confirmed());
    if held.has_failed(turns.confirmed(), turns.failed()) {
        // Messages have no error in their place.
        let is_listener = client.is_monitor || client.in_subscribed_context();
        match held.take_failed(turns.failed(), NOT_CONFIRMED).filter(|_| !is_listener) {
            Some(errors) => output.append(errors),
            None => server.close_asap(handle),
        }
    }
    let client = &mut server.clients[handle];
    client.output = ReplyBuffer::with_output(output, client.output.protocol);
    if let Some(turn) = held.turn_to_list(turns.confirmed()) {
        confirmation.waiting.entry(turn).or_default().push(handle);
    }
    client.held = (!held.is_over(turns.confirmed())).then_some(held);
}

/// Makes bytes that the socket did not take precede what is held, and what the next turn adds. Call after a write.
#[inline]
pub fn keep_order(executor: &mut Executor, handle: ClientHandle) {
    let client = &mut executor.server.clients[handle];
    if client.held.is_some() || executor.confirmation.is_on() {
        set_unsent_aside(client);
    }
}

fn set_unsent_aside(client: &mut Client) {
    if !client.output.is_empty() && is_answered(client) {
        client.held.get_or_insert_default().push_back_unsent(client.output.take());
    }
}

/// Moves the clients whose output may be written now, some of which may have disconnected, to `ready`.
pub fn take_ready(executor: &mut Executor, ready: &mut Vec<ClientHandle>) {
    ready.append(&mut executor.confirmation.ready);
}

/// Returns whether there are changes that are not confirmed.
#[inline]
pub fn is_pending(executor: &Executor) -> bool {
    executor.confirmation.turns.latest() > 0
}

/// Returns whether changes wait for the disk.
#[inline]
pub fn awaits_disk(executor: &Executor) -> bool {
    executor.confirmation.turns.await_disk()
}

/// Returns whether changes wait for the disk and no fsync is under way, nor put off: one has ended since the last turn.
pub fn disk_has_answered(executor: &Executor) -> bool {
    executor.confirmation.turns.await_disk()
        && !executor.aof.is_syncing()
        && executor.aof.gathers_until_us().is_none()
}

/// Sets what is called, in the thread of fsyncs, when one has ended.
pub fn wake_when_synced(executor: &mut Executor, wake: Wake) {
    executor.aof.wake_when_synced(wake);
}

/// Forces all changes to disk now, if replies wait for the disk.
pub(super) fn sync_if_promised(executor: &mut Executor) {
    if executor.confirmation.turns.needs_disk() {
        executor.aof.sync_promised();
    }
}

/// Returns the monotonic time at which a turn is due.
pub(super) fn next_turn_us(executor: &Executor) -> Option<u64> {
    let turns = &executor.confirmation.turns;
    let sync_us = executor.aof.gathers_until_us().filter(|_| turns.await_disk());
    sync_us.into_iter().chain(turns.next_failure_us(&executor.server)).min()
}

/// Begins a turn.
#[inline]
pub(super) fn begin_turn(executor: &mut Executor) {
    let confirmation = &mut executor.confirmation;
    // Messages of a suspended script may show what it has changed before.
    confirmation.messages_await =
        if confirmation.has_suspended_script { confirmation.turns.latest() } else { 0 };
    let turns = &mut confirmation.turns;
    let was_on = turns.is_on();
    if !turns.needs_disk() && executor.aof.confirms(&executor.disk, &executor.server) {
        turns.need_disk(executor.aof.log_progress().opening);
    }
    if !turns.needs_replicas() && executor.server.needs_durable_replicas() {
        turns.need_replicas();
    }
    if executor.confirmation.is_on() && !was_on {
        executor.server.clients.iter_mut().for_each(set_unsent_aside);
    }
}

/// Before the turn's changes are written: confirms what an fsync has reached that has ended, lets the next one begin if all
/// clients that are likely to write have done so, and asks replicas for acknowledgements.
#[inline]
pub(super) fn before_write(executor: &mut Executor) {
    if executor.confirmation.is_on() {
        prepare_write(executor);
    }
}

fn prepare_write(executor: &mut Executor) {
    confirm(executor);
    let confirmation = &mut executor.confirmation;
    if confirmation.calls >= confirmation.answered {
        executor.aof.end_gathering();
    }
    if confirmation.turns.note_stream_end(executor.replication.data_end()) {
        executor.server.replicas.acknowledgements_requested = true;
    }
}

/// Ends a turn, after its changes were written.
#[inline]
pub(super) fn end_turn(executor: &mut Executor) {
    if !executor.confirmation.turns.needs_disk() && executor.aof.confirms(&executor.disk, &executor.server) {
        // The turn may have changed data after the option.
        executor.aof.sync_promised();
    }
    if executor.confirmation.is_on() {
        end_changes(executor);
    }
}

fn end_changes(executor: &mut Executor) {
    let turns = &mut executor.confirmation.turns;
    turns.forget_demotion();
    if turns.needs_disk() && !executor.aof.confirms(&executor.disk, &executor.server) {
        // What waits has been promised to be on disk.
        executor.aof.sync_promised();
        turns.need_no_disk();
    }
    if turns.needs_replicas() && !executor.server.needs_durable_replicas() {
        // What waited for replicas of a primary is not confirmed by its demotion.
        let was_demoted = executor.server.config.replicaof.is_some();
        turns.need_no_replicas(was_demoted);
    }
    end_turn_of_changes(executor);
    confirm(executor);
    note_figures(executor);
}

/// Ends the turn of the changes that were written. Those of a suspended script are written when it ends: they are a turn of
/// their own, which lasts until then.
fn end_turn_of_changes(executor: &mut Executor) {
    let confirmation = &mut executor.confirmation;
    let ends = Ends { log: executor.aof.end().unwrap_or(0), now_us: executor.server.now.monotonic_us };
    let suspended = executor.script.suspended_client();
    let has_just_been = suspended.is_some() && !confirmation.has_suspended_script;
    confirmation.has_suspended_script = suspended.is_some();
    if suspended.is_none() || has_just_been {
        let has_changed = confirmation.turns.end_turn(ends);
        if let Some(client) = suspended.filter(|_| has_changed) {
            confirmation.turns.note_change();
            confirmation.all_keys = confirmation.turns.latest();
            let client = &mut executor.server.clients[client];
            if is_answered(client) {
                client.held.get_or_insert_default().await_turn(confirmation.all_keys);
            }
        }
    }
}

/// Confirms the turns whose changes are where they must be, fails those that waited too long, and lists the clients whose
/// output may be written.
fn confirm(executor: &mut Executor) {
    let confirmation = &mut executor.confirmation;
    let turns = &mut confirmation.turns;
    let log = turns.needs_disk().then(|| executor.aof.log_progress());
    turns.advance(log, executor.server.durable_stream_offset());
    turns.fail_overdue(&executor.server);
    let decided = (turns.confirmed(), turns.failed());
    let before = std::mem::replace(&mut confirmation.answered_up_to, decided);
    if decided == before {
        return;
    }
    confirmation.answer();
    if decided.0 == before.0 {
        return;
    }
    if executor.confirmation.answered > 1 {
        executor.aof.gather(executor.server.now.monotonic_us);
    }
    if executor.is_linked() {
        // Clients of the primary may wait for this disk.
        executor.replication.acknowledge(&mut executor.server, &executor.aof);
    }
}

/// Publishes the figures for INFO.
fn note_figures(executor: &mut Executor) {
    let confirmation = &executor.confirmation;
    let figures = &mut executor.server.observed.persistence.log;
    figures.unconfirmed_turns = confirmation.turns.unconfirmed() as u64;
    figures.unconfirmed_keys = confirmation.unconfirmed_keys.len() as u64;
    figures.confirmation_memory_bytes = confirmation.memory_bytes() as u64;
}
