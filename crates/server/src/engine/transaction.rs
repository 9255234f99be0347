//! MULTI's queue and EXEC.

use super::Executor;
use crate::command::registry::CommandId;
use crate::command::{Args, Next, Origin};
use crate::error::ClientError;
use crate::session::ClientSlot;
use wire::reply::ReplyBuffer;

impl Executor {
    /// Keeps the command until EXEC; one that EXEC is going to refuse in any case is only acknowledged.
    pub(super) fn queue(&mut self, slot: ClientSlot, id: CommandId, args: Args<'_>) {
        let flags = self.server.registry.row(id).flags;
        let client = &mut self.server.clients[slot];
        let transaction = client.transaction.as_mut().expect("admit saw an open transaction");
        if transaction.aborted || client.watch_broken {
            return;
        }
        let args = args.to_owned();
        transaction.flags |= flags;
        transaction.argument_bytes += args.memory_bytes();
        transaction.queued.push((id, args));
    }

    /// A command was refused while a transaction is open: EXEC will refuse too, so that nothing of it runs.
    pub(super) fn abort_transaction(&mut self, slot: ClientSlot) {
        if let Some(transaction) = &mut self.server.clients[slot].transaction {
            transaction.aborted = true;
            transaction.forget_queue();
        }
    }

    /// EXEC itself was refused: the transaction is over, and the error says so.
    pub(super) fn abort_exec(&mut self, slot: ClientSlot, error: &ClientError) -> String {
        self.end_transaction(slot);
        let line = error.to_string();
        let text = line.strip_prefix("ERR ").unwrap_or(&line).to_owned();
        format!("EXECABORT Transaction discarded because of: {text}")
    }

    fn end_transaction(&mut self, slot: ClientSlot) {
        self.server.clients[slot].transaction = None;
        self.server.watch.unwatch_all(&mut self.server.clients, slot);
    }

    /// Runs all that the client has queued, as one: nothing else runs in between, and what it changes wakes
    /// nobody until it is done.
    pub(super) fn run_transaction(&mut self, slot: ClientSlot, reply: &mut ReplyBuffer) {
        let client = &mut self.server.clients[slot];
        let transaction = client.transaction.take().expect("EXEC found a transaction");
        self.server.watch.unwatch_all(&mut self.server.clients, slot);
        reply.array(transaction.queued.len());
        let origin = Origin { in_transaction: true, ..Origin::default() };
        for (id, args) in &transaction.queued {
            let next = self.call(slot, *id, args.view(), reply, origin);
            assert!(
                !matches!(next, Next::Block(_) | Next::BlockAs(..) | Next::RunTransaction),
                "nothing waits inside EXEC"
            );
        }
        self.end_unit();
        // CLIENT CACHING before MULTI was about all of it.
        if let Some(tracking) = &mut self.server.clients[slot].tracking {
            tracking.caching_given = false;
        }
    }
}
