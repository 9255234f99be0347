//! Clients that wait: putting them to wait, waking them, and telling them that their time is up.

use super::Executor;
use crate::command::registry::CommandId;
use crate::command::{Args, Command, Group, Next, Origin, flag};
use crate::db::Turn;
use crate::db::stream::Stream;
use crate::session::blocked::{Arrival, Blocked};
use crate::session::{BlockRequest, BlockedOn, ClientHandle, TimeoutReply};

impl Executor {
    pub(super) fn block(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        request: BlockRequest,
    ) {
        let now_us = self.server.now.monotonic_us;
        let row = self.server.registry.row(id);
        let blocked = Blocked {
            on: request.on,
            timeout_reply: request.timeout_reply,
            deadline_us: request.timeout_us.map(|us| now_us.saturating_add(us)),
            claimed: None,
            since_us: now_us,
            command: id,
            args: args.to_owned(),
            // Of all that wait for keys, only a group's consumer has to hear that it was removed.
            wants_absence: row.group == Group::Stream && row.is(flag::WRITE),
            arrival: Arrival::default(),
        };
        self.server.blocked.block(&mut self.server.clients, handle, blocked, request.claim);
    }

    /// Runs again the commands of those who wait for keys that have changed, first come first served. What they
    /// change may make further keys ready.
    pub(super) fn serve_blocked(&mut self) {
        // A script that is put aside, or data that is loaded, has not come to its end: nobody may see, let alone
        // change, what it has done so far.
        if self.is_busy() || self.is_loading() {
            return;
        }
        // What has made them ready may have taken its time, and their keys may be expired meanwhile.
        self.server.now = self.clock.read();
        while let Some(mut ready) = self.server.blocked.next_ready() {
            loop {
                self.db.begin(Turn { database: ready.db_index, ..self.own_turn() });
                // What is expired counts as gone, and stays until somebody asks for it.
                let kind = self.db.kind_there(ready.db_index, &ready.key);
                let stream = kind.and_then(|_| self.db.stored::<Stream>(&ready.key));
                let last = stream.and_then(Stream::last_live_id);
                let Some(handle) = self.server.blocked.next_waiter(&mut ready, kind, last) else { break };
                self.retry(handle);
            }
        }
    }

    fn retry(&mut self, handle: ClientHandle) {
        let blocked = self.server.clients[handle].blocked.take().expect("those who wait are blocked");
        let mut reply = self.borrow_output(handle);
        let start = reply.len();
        let begun = self.is_tracing().then(|| self.begin_retry());
        let origin = Origin { retried: true, ..Origin::default() };
        let (id, args) = (blocked.command, blocked.args.view());
        let next = match self.permission(handle, id, args) {
            Ok(()) => self.call(handle, id, args, &mut reply, origin),
            Err(error) => {
                // Its permission was withdrawn while it waited.
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
            self.note_retried(handle, begun, !still_waits);
        }
        if !still_waits {
            self.after_command(handle, start, &mut reply);
        }
        self.return_output(handle, reply);
        if !still_waits && !self.server.clients[handle].close_asap {
            self.server.wake(handle, |_| ());
        }
    }

    /// Runs again the commands for which time alone may have changed something. Not while the server is paused: what they
    /// change would be a part of what somebody waits for the end of.
    pub(super) fn retry_those_due(&mut self) {
        if self.server.pauses.are_any() {
            return;
        }
        while let Some(handle) = self.server.blocked.claims().first_due(self.server.now.monotonic_us) {
            let on = self.server.clients[handle].blocked.as_ref().map(|blocked| &blocked.on);
            let Some(&BlockedOn::Keys { db_index, .. }) = on else { break };
            self.db.begin(Turn { database: db_index, ..self.own_turn() });
            self.retry(handle);
        }
        self.serve_ready();
    }

    /// Answers those whose time is up.
    pub fn time_out_blocked(&mut self) {
        let now_us = self.server.now.monotonic_us;
        while let Some(handle) = self.server.blocked.expired(now_us) {
            let answer = self.server.clients[handle].blocked.as_ref().map(|blocked| blocked.timeout_reply);
            self.server.note_given_up(handle, false);
            let acknowledged = self.server.acknowledged_by(handle);
            self.server.wake(handle, |reply| answer.unwrap_or(TimeoutReply::Null).write(acknowledged, reply));
        }
    }

    /// While the server is paused: makes the command wait if it is of the kind that waits.
    pub(super) fn hold_back(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        row: &Command,
        args: Args<'_>,
    ) -> bool {
        if self.server.clients[handle].is_replica {
            // What replicas have is what somebody who pauses clients may wait for.
            return false;
        }
        let holds = self.pauses_hold(handle, row, args);
        if holds {
            self.hold(handle, id, args);
        }
        holds
    }

    /// Whether a pause that is in force is one for this command.
    fn pauses_hold(&self, handle: ClientHandle, row: &Command, args: Args<'_>) -> bool {
        let pauses = &self.server.pauses;
        let writes = || self.flags_with_queue(handle, row, args) & (flag::WRITE | flag::MAY_REPLICATE) != 0;
        pauses.are_any() && (pauses.hold_all() || writes())
    }

    /// Whether what a client waits with has to wait on. To run it again would have it refused for a role that changed
    /// during the pause, before whoever paused it has closed its connection.
    fn is_still_held(&self, handle: ClientHandle) -> bool {
        let Some(blocked) = &self.server.clients[handle].blocked else { return false };
        self.pauses_hold(handle, self.server.registry.row(blocked.command), blocked.args.view())
    }

    /// Makes a command wait for the end of a pause.
    pub(super) fn hold(&mut self, handle: ClientHandle, id: CommandId, args: Args<'_>) {
        self.block(handle, id, args, BlockRequest::until(BlockedOn::Pause));
    }

    /// What was held back runs now, or waits for something else.
    fn execute_held(&mut self, handle: ClientHandle, args: Args<'_>) {
        let begun = self.is_tracing().then(|| self.begin_retry());
        self.execute(handle, args);
        if let Some(begun) = begun {
            let is_done = self.server.clients.get(handle).is_none_or(|client| client.blocked.is_none());
            self.note_retried(handle, begun, is_done);
        }
    }

    /// Ends pauses whose time has come, and runs what is not held back any more.
    pub fn end_pauses_if_due(&mut self) {
        self.server.pauses.end_those_due(self.server.now.monotonic_us);
        if !self.server.pauses.take_eased() {
            return;
        }
        for handle in self.server.blocked.paused() {
            if self.ends {
                // One of them was SHUTDOWN: what ran now would be acknowledged and lost.
                return;
            }
            if self.is_still_held(handle) {
                continue;
            }
            let Some(blocked) = self.server.blocked.unblock(&mut self.server.clients, handle) else {
                continue;
            };
            self.execute_held(handle, blocked.args.view());
            self.server.clients.push(handle, |_| ());
            if self.server.clients[handle].blocked.is_none() {
                self.server.resumed.push_back(handle);
            }
        }
    }
}
