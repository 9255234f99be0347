//! One command from request to reply.

use super::Executor;
use super::observation::Finished;
use crate::command::registry::CommandId;
use crate::command::{Args, Command, Context, Next, Origin, flag};
use crate::error::ClientError;
use crate::session::client::OutputClass;
use crate::session::{ClientSlot, ReplyMode};
use wire::reply::ReplyBuffer;
use wire::request::ProtocolError;

/// Whether the client's next request may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Next,
    /// The client waits, or is being closed: leave its further requests where they are.
    Stop,
}

impl Executor {
    /// Runs one request of a client; the reply is appended to its output.
    pub fn execute(&mut self, slot: ClientSlot, args: Args<'_>) -> Flow {
        let mut reply = self.borrow_output(slot);
        let flow = self.execute_into(slot, args, &mut reply);
        self.return_output(slot, reply);
        flow
    }

    /// Takes a client's output to write replies into; [`Self::return_output`] gives it back.
    #[inline]
    pub fn borrow_output(&mut self, slot: ClientSlot) -> ReplyBuffer {
        let client = &mut self.server.clients[slot];
        client.output_borrowed = true;
        let protocol = client.output.protocol;
        std::mem::replace(&mut client.output, ReplyBuffer::new(protocol))
    }

    #[inline]
    pub fn return_output(&mut self, slot: ClientSlot, reply: ReplyBuffer) {
        let client = &mut self.server.clients[slot];
        client.output = reply;
        client.output_borrowed = false;
    }

    /// As [`Self::execute`], into an output taken with [`Self::borrow_output`]: what a pipeline runs.
    pub fn execute_into(&mut self, slot: ClientSlot, args: Args<'_>, reply: &mut ReplyBuffer) -> Flow {
        let start = reply.len();
        self.server.clients[slot].last_interaction = self.server.now;
        match self.admit(slot, args) {
            Ok(Admitted::Run(id)) => self.run(slot, id, args, reply),
            Ok(Admitted::Queued) => reply.simple("QUEUED"),
            Ok(Admitted::Paused) => return Flow::Stop,
            Err(error) => self.refuse(slot, args, error, reply),
        }
        self.after_command(slot, start, reply);
        if self.accepts_requests(slot) { Flow::Next } else { Flow::Stop }
    }

    /// Whether the client's next request may run now.
    #[inline]
    pub fn accepts_requests(&self, slot: ClientSlot) -> bool {
        let client = &self.server.clients[slot];
        client.blocked.is_none() && !client.close_asap && !client.close_after_reply
    }

    /// The client's bytes make no sense: tells it why and closes once that is sent.
    pub fn protocol_error(&mut self, slot: ClientSlot, error: ProtocolError, reply: &mut ReplyBuffer) {
        let line = [b"ERR Protocol error: ", error.text().as_slice()].concat();
        reply.error(&line);
        self.server.observed.statistics.count_error("ERR");
        self.server.clients[slot].close_after_reply = true;
    }

    /// Condemns a client whose unsent output is over its class's limit. `sent` bytes of the output have left.
    pub fn check_output_limit(&mut self, slot: ClientSlot, sent: usize) {
        let client = &self.server.clients[slot];
        let unsent = (client.output.len() - sent) as u64;
        let limits = &self.server.config.client_output_buffer_limit;
        let limit = match client.output_class() {
            OutputClass::Normal => limits.normal,
            OutputClass::Replica => limits.replica,
            OutputClass::PubSub => limits.pubsub,
        };
        let now_us = self.server.now.monotonic_us;
        let hard = limit.hard_bytes > 0 && unsent >= limit.hard_bytes;
        let over_soft = limit.soft_bytes > 0 && unsent >= limit.soft_bytes;
        let since_us = client.output_over_soft_limit_since_us;
        let soft = over_soft && since_us.is_some_and(|since| now_us - since > limit.soft_seconds * 1_000_000);
        self.server.clients[slot].output_over_soft_limit_since_us =
            if over_soft { since_us.or(Some(now_us)) } else { None };
        if hard || soft {
            log::warn!("Closing a client whose output buffer is over its limit");
            self.server.condemn(slot);
        }
    }

    /// Look-up, refusals, pause, and the queue of an open transaction.
    #[inline]
    fn admit(&mut self, slot: ClientSlot, args: Args<'_>) -> Result<Admitted, ClientError> {
        let id = self.server.registry.find(args)?;
        let row = self.server.registry.row(id);
        self.refusal(slot, row, args)?;
        if self.server.pause.is_some() && self.hold_back(slot, id, row, args) {
            return Ok(Admitted::Paused);
        }
        if self.server.clients[slot].transaction.is_some() && !runs_inside_multi(row) {
            self.queue(slot, id, args);
            return Ok(Admitted::Queued);
        }
        Ok(Admitted::Run(id))
    }

    fn refuse(&mut self, slot: ClientSlot, args: Args<'_>, error: ClientError, reply: &mut ReplyBuffer) {
        let id = self.server.registry.find(args).ok();
        if let Some(id) = id {
            self.server.observed.commands[id.0 as usize].rejected += 1;
        }
        if let Some(transaction) = &mut self.server.clients[slot].transaction {
            transaction.aborted = true;
        }
        let is_exec = id.is_some_and(|id| self.server.registry.row(id).name == "exec");
        let line = if is_exec { self.abort_exec(slot, &error) } else { error.to_string() };
        self.server.observed.statistics.count_error(&line);
        reply.error(&line);
    }

    /// Runs a command that may run, and what follows from it.
    #[inline]
    fn run(&mut self, slot: ClientSlot, id: CommandId, args: Args<'_>, reply: &mut ReplyBuffer) {
        match self.call(slot, id, args, reply, Origin::default()) {
            Next::Reply | Next::NoReply => {}
            Next::Block(request) => self.block(slot, id, args, request),
            Next::RunTransaction => self.exec(slot, id, args, reply),
        }
        if self.server.blocked.has_ready() {
            self.serve_blocked();
        }
    }

    fn exec(&mut self, slot: ClientSlot, id: CommandId, args: Args<'_>, reply: &mut ReplyBuffer) {
        let (started_ns, start) = (self.clock.monotonic_ns(), reply.len());
        self.run_transaction(slot, reply);
        let elapsed_ns = self.clock.monotonic_ns() - started_ns;
        let reply_bytes = reply.len() - start;
        self.observe_call(Finished { slot, id, args, elapsed_ns, reply_bytes, failed: false });
        self.feed_monitors(slot, self.server.registry.row(id), args);
    }

    /// Calls the handler and does what follows from every single command, inside transactions too.
    pub(super) fn call(
        &mut self,
        slot: ClientSlot,
        id: CommandId,
        args: Args<'_>,
        reply: &mut ReplyBuffer,
        origin: Origin,
    ) -> Next {
        let command = self.server.registry.row(id);
        self.db.journal.listening = self.server.listens_to_changes();
        self.db.begin(self.server.clients[slot].db_index, self.server.now.unix_ms());
        let (started_ns, start) = (self.clock.monotonic_ns(), reply.len());
        let mut context = Context {
            db: &mut self.db,
            server: &mut self.server,
            reply,
            client: slot,
            command,
            origin,
            next: Next::Reply,
        };
        let outcome = (command.handler)(&mut context, args);
        let next = context.next;
        let failed = outcome.is_err();
        if let Err(error) = outcome {
            let line = error.to_string();
            self.server.observed.statistics.count_error(&line);
            reply.error(&line);
        }
        self.remember_read_keys(slot, command, args);
        self.apply_effects(Some(slot));
        if self.server.config_changed {
            self.reconfigured();
        }
        match next {
            Next::Reply | Next::NoReply => {
                let elapsed_ns = self.clock.monotonic_ns() - started_ns;
                let reply_bytes = reply.len() - start;
                self.observe_call(Finished { slot, id, args, elapsed_ns, reply_bytes, failed });
            }
            Next::Block(_) => {}
            // Is noted when all that was queued has run.
            Next::RunTransaction => return next,
        }
        if !origin.retried {
            self.feed_monitors(slot, command, args);
        }
        next
    }

    /// Swallows replies the client does not want, and lets through what arrived for it meanwhile.
    #[inline]
    fn after_command(&mut self, slot: ClientSlot, start: usize, reply: &mut ReplyBuffer) {
        let client = &mut self.server.clients[slot];
        if client.reply_mode != ReplyMode::On {
            reply.truncate(start);
            client.reply_mode = match client.reply_mode {
                ReplyMode::SkipNext => ReplyMode::Skip,
                ReplyMode::Skip => ReplyMode::On,
                mode => mode,
            };
        }
        if !client.deferred_output.is_empty() {
            reply.raw(&client.deferred_output);
            client.deferred_output.clear();
        }
    }

    /// A tracking client's reads are remembered, so that it can be told when they are stale.
    #[inline]
    fn remember_read_keys(&mut self, slot: ClientSlot, command: &Command, args: Args<'_>) {
        if self.server.tracking.clients == 0 || !command.is(flag::READONLY) {
            return;
        }
        let client = &mut self.server.clients[slot];
        let id = client.id;
        let Some(tracking) = &mut client.tracking else { return };
        let caching = match tracking.caching {
            Some(choice) => choice,
            None => !tracking.opt_in,
        };
        if tracking.broadcast || !caching {
            return;
        }
        for spec in command.keys {
            spec.positions(args, &mut |at| self.server.tracking.remember(id, &args[at]));
        }
    }
}

enum Admitted {
    Run(CommandId),
    Queued,
    Paused,
}

/// Commands that MULTI does not queue.
fn runs_inside_multi(row: &Command) -> bool {
    matches!(row.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}
