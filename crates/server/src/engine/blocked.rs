//! Blocked clients: blocking, serving and timing out.

use super::Executor;
use super::call::Call;
use super::gate::{flags_with_queue, run_by};
use super::redirection::slot_named;
use super::script::flags_of;
use super::slot_migration;
use crate::command::args::OwnedArgs;
use crate::command::{Args, Command, Control, Group, Next, Origin, flag};
use crate::db::Turn;
use crate::db::stream::Stream;
use crate::session::blocked::{Arrival, Blocked};
use crate::session::{BlockRequest, BlockedOn, Client, ClientHandle, TimeoutReply};

impl Executor {
    pub(super) fn block(&mut self, call: &Call<'_>, request: BlockRequest) {
        let &Call { client, id, row, args, .. } = call;
        let now_us = self.server.now.monotonic_us;
        let blocked = Blocked {
            on: request.on,
            timeout_reply: request.timeout_reply,
            deadline_us: request.timeout_us.map(|us| now_us.saturating_add(us)),
            claimed: None,
            since_us: now_us,
            command: id,
            args: OwnedArgs::default(),
            keys: Vec::new(),
            keys_bytes: 0,
            // Only a consumer of a group gets an error when its stream is removed.
            unblocks_on_removal: row.group == Group::Stream && row.is(flag::WRITE),
            arrival: Arrival::default(),
        };
        self.server.blocked.block(&mut self.server.clients, client, blocked, args, request.claim);
    }

    /// Retries the commands of clients that wait for changed keys, in the order in which they blocked. Their changes
    /// may make further keys ready.
    pub(super) fn serve_blocked(&mut self) {
        // A suspended script or a running load is incomplete: its intermediate state must be neither seen nor changed.
        if self.is_busy() || self.is_loading() {
            return;
        }
        // The command that made the keys ready may have run long, and keys may have expired meanwhile.
        self.set_now(self.clock.read());
        while let Some(mut ready) = self.server.blocked.next_ready() {
            loop {
                self.begin_turn(Turn { database: ready.db_index, ..self.own_turn() });
                // An expired key counts as missing, and stays until it is accessed.
                let key = self.db.key(&ready.key);
                let kind = self.db.live_kind(ready.db_index, key);
                let stream = kind.and_then(|_| self.db.stored_collection::<Stream>(key));
                let last = stream.and_then(Stream::last_live_id);
                let Some(handle) = self.server.blocked.next_waiter(&mut ready, kind, last) else { break };
                self.retry(handle);
            }
        }
    }

    fn retry(&mut self, handle: ClientHandle) {
        let blocked = self.server.clients[handle].blocked.take().expect("waiting clients are blocked");
        let mut reply = self.borrow_output(handle);
        let start = reply.len();
        let begun = self.is_tracing().then(|| self.begin_retry());
        let origin = Origin { retried: true, ..Origin::default() };
        let (id, all_args) = (blocked.command, blocked.all_args().into_owned());
        let call = Call { origin, ..Call::new(&self.server.registry, handle, id, all_args.view()) };
        let next = match self.permission(&call) {
            Ok(()) => self.call(&call, &mut reply),
            Err(error) => {
                // The permission was revoked while the client was blocked.
                self.server.observed.commands[id.0 as usize].rejected += 1;
                self.fail(error, &mut reply);
                Next::Reply
            }
        };
        let waits_for = match &next {
            Next::Block(request) => Some(&**request),
            Next::BlockAs(again) => Some(&again.0),
            _ => None,
        };
        let still_waits = waits_for.is_some();
        if let Some(request) = waits_for
            && let Some(claimed) = &blocked.claimed
        {
            let due_after_us = request.claim.as_ref().and_then(|claim| claim.due_after_us);
            let due_us = due_after_us.map(|us| self.server.now.monotonic_us.saturating_add(us));
            self.server.blocked.claims().set_due(claimed, due_us);
        }
        self.server.clients[handle].blocked = Some(blocked);
        if let Some(begun) = begun {
            self.tracing.note_retried(&self.server, &self.clock, handle, begun, !still_waits);
        }
        if !still_waits {
            self.after_command(handle, start, &mut reply);
        }
        self.return_output(handle, reply);
        if !still_waits && !self.server.clients[handle].close_asap {
            self.server.wake(handle, |_| ());
        }
    }

    /// Retries commands whose result depends on time alone. Not while the server is paused, since their changes would
    /// violate the pause.
    pub(super) fn retry_those_due(&mut self) {
        if self.server.pauses.are_any() || self.server.pauses.hold_slots() {
            return;
        }
        while let Some(handle) = self.server.blocked.claims().first_due(self.server.now.monotonic_us) {
            let on = self.server.clients[handle].blocked.as_ref().map(|blocked| &blocked.on);
            let Some(&BlockedOn::Keys { db_index, .. }) = on else { break };
            self.begin_turn(Turn { database: db_index, ..self.own_turn() });
            self.retry(handle);
        }
        self.serve_ready();
    }

    /// Replies to clients whose timeout has passed.
    pub fn time_out_blocked(&mut self) {
        let now_us = self.server.now.monotonic_us;
        while let Some(handle) = self.server.blocked.expired(now_us) {
            let answer = self.server.clients[handle].blocked.as_ref().map(|blocked| blocked.timeout_reply);
            self.server.note_given_up(handle, false);
            if answer == Some(TimeoutReply::TooFewReplicas) {
                self.server.observed.statistics.count_error("NOREPLICAS");
            }
            let acknowledged = self.server.acknowledged_by(handle);
            self.server.wake(handle, |reply| answer.unwrap_or(TimeoutReply::Null).write(acknowledged, reply));
        }
    }

    /// Holds back a command that the current pause covers.
    pub(super) fn hold_back(&mut self, call: &Call<'_>) -> bool {
        if self.server.clients[call.client].is_replica {
            // The client that paused the server may wait for its replicas to catch up.
            return false;
        }
        let holds = self.pauses_hold(call);
        if holds {
            self.hold(call);
        }
        holds
    }

    /// Returns whether the current pause covers this command.
    fn pauses_hold(&self, call: &Call<'_>) -> bool {
        let pauses = &self.server.pauses;
        let writes = || flags_with_queue(&self.server, call) & (flag::WRITE | flag::MAY_REPLICATE) != 0;
        pauses.are_any() && (pauses.hold_all() || writes())
            || pauses.hold_slots() && writes() && may_change_paused_slot(self, call)
    }

    /// Returns whether a held command has to wait on. Retrying it would fail if the role changed during the pause,
    /// before the connection that set the pause is closed.
    fn is_still_held(&self, handle: ClientHandle) -> bool {
        let Some(blocked) = &self.server.clients[handle].blocked else { return false };
        let args = blocked.all_args();
        self.pauses_hold(&Call::new(&self.server.registry, handle, blocked.command, args.view()))
    }

    /// Holds a command until the pause ends.
    pub(super) fn hold(&mut self, call: &Call<'_>) {
        self.block(call, BlockRequest::until(BlockedOn::Pause));
    }

    /// Runs a held command, which may block again.
    fn execute_held(&mut self, handle: ClientHandle, args: Args<'_>) {
        let begun = self.is_tracing().then(|| self.begin_retry());
        self.execute(handle, args);
        if let Some(begun) = begun {
            let is_done = self.server.clients.get(handle).is_none_or(|client| client.blocked.is_none());
            self.tracing.note_retried(&self.server, &self.clock, handle, begun, is_done);
        }
    }

    /// Ends expired pauses and runs the commands they held.
    pub fn end_pauses_if_due(&mut self) {
        self.server.pauses.end_those_due(self.server.now.monotonic_us);
        if !self.server.pauses.take_eased() {
            return;
        }
        slot_migration::resume_sources(&mut self.server);
        for handle in self.server.blocked.paused() {
            if self.ending.is_over() {
                // One of them was SHUTDOWN: later writes would be acknowledged and lost.
                return;
            }
            if self.is_still_held(handle) {
                continue;
            }
            let Some(blocked) = self.server.blocked.unblock(&mut self.server.clients, handle) else {
                continue;
            };
            self.execute_held(handle, blocked.all_args().view());
            self.server.clients.push(handle, |_| ());
            if self.server.clients[handle].blocked.is_none() {
                self.server.resumed.push_back(handle);
            }
        }
    }
}

/// Returns whether a command that writes may change keys of slots that are paused. A script may change keys that it does not
/// name, and a command without keys any: both wait, also in a transaction.
fn may_change_paused_slot(executor: &Executor, call: &Call<'_>) -> bool {
    let server = &executor.server;
    let is_held = |row: &Command, args: Args<'_>| {
        let slot = slot_named(row, args);
        row.group == Group::Scripting || slot.is_none_or(|slot| server.pauses.hold_slot(slot))
    };
    match run_by(server, call) {
        _ if call.row.control == Control::SlotMigration => false,
        None => is_held(call.row, call.args),
        Some(transaction) => transaction.queued.iter().any(|(id, args)| {
            let row = server.registry.row(*id);
            let writes =
                flags_of(&server.scripts, row, args.view()) & (flag::WRITE | flag::MAY_REPLICATE) != 0;
            writes && is_held(row, args.view())
        }),
    }
}

/// Runs each CLUSTER SETSLOT that waits for replicas: this node has become one, and refuses it.
pub(super) fn refuse_waiting_slots(executor: &mut Executor) {
    let waits = |client: &&Client| {
        client.blocked.as_ref().is_some_and(|blocked| matches!(blocked.on, BlockedOn::SlotReplicas(_)))
    };
    let waiting: Vec<ClientHandle> =
        executor.server.clients.iter().filter(waits).map(|client| client.handle).collect();
    waiting.into_iter().for_each(|handle| go_on_with_slot(executor, handle));
}

/// Runs a CLUSTER SETSLOT that the replicas have run.
pub(super) fn go_on_with_slot(executor: &mut Executor, handle: ClientHandle) {
    if executor.ending.is_over() {
        return;
    }
    let server = &mut executor.server;
    let Some(blocked) = server.blocked.unblock(&mut server.clients, handle) else { return };
    server.clients[handle].routing.replicas_know_slot = true;
    executor.execute_held(handle, blocked.all_args().view());
    let server = &mut executor.server;
    server.clients[handle].routing.replicas_know_slot = false;
    server.clients.push(handle, |_| ());
    if server.clients[handle].blocked.is_none() {
        server.resumed.push_back(handle);
    }
}
