//! Transactions: the queue of MULTI, and EXEC.

use super::Executor;
use super::call::Call;
use super::redirection::Redirections;
use super::script::{ScriptEnd, flags_of};
use crate::command::args::OwnedArgs;
use crate::command::registry::CommandId;
use crate::command::repetition::Allowance;
use crate::command::{Control, Next, Origin};
use crate::engine::observation::feed_monitors;
use crate::error::ClientError;
use crate::session::ClientHandle;
use crate::session::client::Transaction;
use wire::reply::ReplyBuffer;

/// Bytes of MULTI as clients send it.
const MULTI_BYTES: usize = b"*1\r\n$5\r\nmulti\r\n".len();
/// Bytes of the reply to a queued command.
const QUEUED_BYTES: usize = b"+QUEUED\r\n".len();

impl Executor {
    /// Queues the command until EXEC; if EXEC is certain to fail, only acknowledges it.
    pub(super) fn queue(&mut self, call: &Call<'_>) {
        let &Call { client, id, row, args, .. } = call;
        let (flags, databases) = (flags_of(&self.server.scripts, row, args), self.db.database_count());
        let client = &mut self.server.clients[client];
        let transaction = client.transaction.as_mut().expect("admit saw an open transaction");
        if transaction.aborted || client.watch_broken {
            return;
        }
        if row.control == Control::SelectsDatabase
            && let Some(index) = args.integer(1).ok().and_then(|index| usize::try_from(index).ok())
            && index < databases
        {
            transaction.db_index = index;
        }
        let args = args.to_owned();
        transaction.flags |= flags;
        transaction.missing_flags |= !flags;
        transaction.argument_bytes += args.memory_bytes();
        transaction.queued.push((id, args));
    }

    /// Marks the open transaction as failed after a refused command: EXEC will refuse to run any of it.
    pub(super) fn abort_transaction(&mut self, handle: ClientHandle) {
        let client = &mut self.server.clients[handle];
        if let Some(transaction) = &mut client.transaction {
            transaction.aborted = true;
            transaction.db_index = client.db_index;
            transaction.forget_queue();
        }
    }

    /// Ends the transaction after EXEC itself was refused. Returns the error, EXECABORT with the reason or a redirection.
    pub(super) fn abort_exec(&mut self, handle: ClientHandle, error: &ClientError) -> String {
        self.end_transaction(handle);
        let line = error.to_string();
        if error.is_redirect() {
            return line;
        }
        let text = line.strip_prefix("ERR ").unwrap_or(&line).to_owned();
        format!("EXECABORT Transaction discarded because of: {text}")
    }

    fn end_transaction(&mut self, handle: ClientHandle) {
        self.server.clients[handle].transaction = None;
        self.server.watch.unwatch_all(&mut self.server.clients, handle);
    }

    /// Runs all queued commands as one unit: no other command runs in between, and its changes unblock clients only at its
    /// end. `call`: EXEC.
    pub(super) fn run_transaction(&mut self, call: &Call<'_>, reply: &mut ReplyBuffer) {
        let &Call { client: handle, id, args, .. } = call;
        let started_ns = self.stopwatch_ns;
        let client = &mut self.server.clients[handle];
        let transaction = client.transaction.take().expect("EXEC found a transaction");
        self.server.watch.unwatch_all(&mut self.server.clients, handle);
        self.server.allowance = Allowance::default();
        let start = reply.len();
        reply.array(transaction.queued.len());
        let run = TransactionRun { transaction, next: 0, id, args: args.to_owned(), started_ns };
        // If a script is suspended, the rest runs after it.
        let _ = self.go_on_with_transaction(handle, run, start, reply);
    }

    /// Runs the rest of a transaction. If a script in it is suspended, the reply, which begins at `start`, is stored
    /// with it.
    pub(super) fn go_on_with_transaction(
        &mut self,
        handle: ClientHandle,
        mut run: TransactionRun,
        start: usize,
        reply: &mut ReplyBuffer,
    ) -> ScriptEnd {
        let origin = Origin { in_transaction: true, ..Origin::default() };
        while let Some((id, args)) = run.transaction.queued.get(run.next) {
            run.next += 1;
            let call = Call { origin, ..Call::new(&self.server.registry, handle, *id, args.view()) };
            if let Err(denied) = self.check_permission(&call) {
                let error = self.denied_in_transaction(&call, denied);
                self.fail(error, reply);
                continue;
            }
            match self.call(&call, reply) {
                Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_) => {}
                Next::RunScript(script) => {
                    let end = self.run_script(&call, *script, reply);
                    if end == ScriptEnd::Suspended {
                        self.script.keep_with_suspended(&mut self.server, reply.copy_from(start), Some(run));
                        reply.truncate(start);
                        return end;
                    }
                }
                Next::Block(_) | Next::BlockAs(..) | Next::RunTransaction => {
                    unreachable!("no command blocks inside EXEC")
                }
            }
        }
        self.end_unit(handle);
        let stream_bytes = if self.server.counts_slots { self.replication.take_command_bytes() } else { 0 };
        let reply_bytes = reply.len().saturating_sub(start);
        let exec = Call::new(&self.server.registry, handle, run.id, run.args.view());
        self.observe_composite(&exec, run.started_ns, reply_bytes, false, None);
        if self.server.counts_slots
            && let Some(slot) = Redirections::of(self).slot_of_queue(&run.transaction)
        {
            let elapsed_ns = self.stopwatch_ns.saturating_sub(run.started_ns);
            let queued = run.transaction.queued.iter().map(|(_, args)| args.view().request_bytes_encoded());
            let bytes_in = MULTI_BYTES + exec.args.request_bytes_encoded() + queued.sum::<usize>();
            let bytes_out = (QUEUED_BYTES * run.transaction.queued.len() + reply_bytes) as u64 + stream_bytes;
            self.server.count_slot(handle, slot, elapsed_ns, [bytes_in as u64, bytes_out]);
        }
        feed_monitors(&mut self.server, &self.clock, &exec, false);
        ScriptEnd::Done
    }
}

impl TransactionRun {
    /// Returns the memory of the queue.
    pub(super) fn memory_bytes(&self) -> usize {
        self.transaction.memory_bytes() + self.args.memory_bytes()
    }
}

/// A transaction that is being run.
pub(super) struct TransactionRun {
    transaction: Box<Transaction>,
    /// Index of the next queued command.
    next: usize,
    /// EXEC's id, for recording it.
    id: CommandId,
    args: OwnedArgs,
    started_ns: u64,
}
