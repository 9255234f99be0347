//! Clients that wait: putting them to wait, waking them, and telling them that their time is up.

use super::Executor;
use crate::command::registry::CommandId;
use crate::command::{Args, Command, Next, Origin, flag};
use crate::session::blocked::Blocked;
use crate::session::{BlockRequest, BlockedOn, ClientSlot, TimeoutReply};

impl Executor {
    pub(super) fn block(&mut self, slot: ClientSlot, id: CommandId, args: Args<'_>, request: BlockRequest) {
        let now_us = self.server.now.monotonic_us;
        let blocked = Blocked {
            on: request.on,
            timeout_reply: request.timeout_reply,
            deadline_us: request.timeout_us.map(|us| now_us.saturating_add(us)),
            since_us: now_us,
            command: id,
            args: args.to_owned(),
        };
        self.server.blocked.block(&mut self.server.clients, slot, blocked);
    }

    /// Runs again the commands of those who wait for keys that have changed, first come first served. What they
    /// change may make further keys ready.
    pub(super) fn serve_blocked(&mut self) {
        while let Some(slots) = self.server.blocked.next_ready() {
            for slot in slots {
                if self.server.clients[slot].blocked.is_some() {
                    self.retry(slot);
                }
            }
        }
    }

    fn retry(&mut self, slot: ClientSlot) {
        let blocked = self.server.clients[slot].blocked.take().expect("only waiting clients are retried");
        let mut reply = self.borrow_output(slot);
        let origin = Origin { in_transaction: false, retried: true };
        let next = self.call(slot, blocked.command, blocked.args.view(), &mut reply, origin);
        self.return_output(slot, reply);
        self.server.clients[slot].blocked = Some(blocked);
        if !matches!(next, Next::Block(_)) {
            self.wake(slot);
        }
    }

    /// The client's waiting is over: its reply goes out and its further requests may run.
    pub(super) fn wake(&mut self, slot: ClientSlot) {
        self.server.blocked.unblock(&mut self.server.clients, slot);
        let deferred = std::mem::take(&mut self.server.clients[slot].deferred_output);
        self.server.clients.push(slot, |reply| reply.raw(&deferred));
        self.server.resumed.push(slot);
    }

    /// Answers those whose time is up.
    pub fn time_out_blocked(&mut self) {
        let now_us = self.server.now.monotonic_us;
        while let Some(slot) = self.server.blocked.expired(now_us) {
            let answer = self.server.clients[slot].blocked.as_ref().map(|blocked| blocked.timeout_reply);
            self.wake(slot);
            self.server.clients.push(slot, |reply| match answer {
                Some(TimeoutReply::NullArray) => reply.null_array(),
                Some(TimeoutReply::Integer(n)) => reply.integer(n),
                Some(TimeoutReply::Integers(a, b)) => {
                    reply.array(2);
                    reply.integer(a);
                    reply.integer(b);
                }
                Some(TimeoutReply::Null) | None => reply.null(),
            });
        }
    }

    /// While the server is paused: makes the command wait if it is of the kind that waits.
    pub(super) fn hold_back(
        &mut self,
        slot: ClientSlot,
        id: CommandId,
        row: &Command,
        args: Args<'_>,
    ) -> bool {
        let Some(pause) = self.server.pause else { return false };
        let writes = row.is(flag::WRITE) || row.is(flag::MAY_REPLICATE) || self.queued_writes(slot, row);
        if !(pause.all || writes) {
            return false;
        }
        let request =
            BlockRequest { on: BlockedOn::Pause, timeout_us: None, timeout_reply: TimeoutReply::Null };
        self.block(slot, id, args, request);
        true
    }

    fn queued_writes(&self, slot: ClientSlot, row: &Command) -> bool {
        let Some(transaction) = &self.server.clients[slot].transaction else { return false };
        row.name == "exec"
            && transaction.queued.iter().any(|(id, _)| {
                let queued = self.server.registry.row(*id);
                queued.is(flag::WRITE) || queued.is(flag::MAY_REPLICATE)
            })
    }

    /// Ends the pause when its time has come, or when CLIENT UNPAUSE has; runs what it held back.
    pub fn end_pause_if_due(&mut self) {
        if self.server.pause.is_some_and(|pause| pause.until_us <= self.server.now.monotonic_us) {
            self.server.pause = None;
        }
        if self.server.pause.is_some() {
            return;
        }
        for slot in self.server.blocked.paused() {
            let Some(blocked) = self.server.blocked.unblock(&mut self.server.clients, slot) else { continue };
            self.execute(slot, blocked.args.view());
            self.server.clients.push(slot, |_| ());
            if self.server.clients[slot].blocked.is_none() {
                self.server.resumed.push(slot);
            }
        }
    }
}
