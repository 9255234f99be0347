//! Execution of one command, from request to reply.

use super::Executor;
use super::call::Call;
use super::cluster::carry_out_effects;
use super::gate::{Refused, needs_authentication};
use super::observation::Finished;
use super::script::ScriptEnd;
use super::slot_migration;
use crate::command::key_spec::Begin;
use crate::command::registry::CommandId;
use crate::command::{
    Access, Args, Command, Context, Control, Group, KeySpec, Next, Origin, Request, access, flag,
};
use crate::db::audit::{NamedKey, NamedKeys};
use crate::engine::client_limits::{check_reply, is_evicted, limits_client_memory, output_len_max};
use crate::engine::observation::feed_monitors;
use crate::error::{ClientError, on_the_wire};
use crate::server::PreparedConfig;
use crate::session::client::REPLY_BUFFER_BYTES_MIN;
use crate::session::{ClientHandle, ReplyMode};
use wire::reply::ReplyBuffer;
use wire::request::ProtocolError;

/// Whether the client's next request may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It may run.
    Next,
    /// The client is blocked or being closed: its further requests stay in the buffer.
    Stop,
}

impl Executor {
    /// Runs one request of a client; appends the reply to its output.
    pub fn execute(&mut self, handle: ClientHandle, args: Args<'_>) -> Flow {
        let mut reply = self.borrow_output(handle);
        let request = self.request(args);
        let flow = self.execute_into(handle, request, &mut reply);
        self.return_output(handle, reply);
        flow
    }

    /// Resolves a request that was not parsed by a connection.
    pub fn request<'a>(&self, args: Args<'a>) -> Request<'a> {
        let registry = &self.server.registry;
        Request { id: registry.find(args).ok(), args }
    }

    /// Takes a client's output for writing replies; [`Self::return_output`] returns it.
    #[inline]
    pub fn borrow_output(&mut self, handle: ClientHandle) -> ReplyBuffer {
        let client = &mut self.server.clients[handle];
        client.output_borrowed = true;
        let protocol = client.output.protocol;
        let mut reply = std::mem::replace(&mut client.output, ReplyBuffer::new(protocol));
        self.server.clients.lend_output(&mut reply);
        reply.set_limit(output_len_max(&self.server, handle));
        self.gate.close();
        self.start_stopwatch();
        reply
    }

    /// Returns an output taken with [`Self::borrow_output`] to its client.
    #[inline]
    pub fn return_output(&mut self, handle: ClientHandle, mut reply: ReplyBuffer) {
        let client = &mut self.server.clients[handle];
        reply.set_limit(None);
        if !client.deferred_output.is_empty() {
            reply.raw(&std::mem::take(&mut client.deferred_output));
        }
        if client.close_asap {
            // The output will not be sent; its memory is freed before the connection closes.
            drop(reply.take());
        }
        client.output = reply;
        client.output_borrowed = false;
    }

    /// As [`Self::execute`], into an output taken with [`Self::borrow_output`]: the path of a pipeline.
    #[inline]
    pub fn execute_into(
        &mut self,
        handle: ClientHandle,
        request: Request<'_>,
        reply: &mut ReplyBuffer,
    ) -> Flow {
        let Request { id, args } = request;
        self.server.clients[handle].last_command = id;
        let id = match id.map_or_else(|| self.server.registry.find(args), Ok) {
            Ok(id) => id,
            Err(error) => return self.refuse_unknown(handle, args, error, reply),
        };
        let call = Call::new(&self.server.registry, handle, id, args);
        match self.gate.is_open_for(handle) {
            true => self.check_gate(&call),
            false => self.begin_requests(handle),
        }
        let mut start = reply.len();
        let refusals = self.refusals_of(&call);
        if refusals != 0 {
            match self.admit(&call, refusals, reply) {
                Ok(begins_at) => start = begins_at,
                Err(refused) => return self.refuse(&call, refused, reply),
            }
        }
        match self.call_through_gate(&call, start, reply) {
            // It is empty, which the compiler cannot know.
            next @ Next::Reply => std::mem::forget(next),
            next => self.do_next(&call, next, reply),
        }
        self.serve_ready();
        match self.gate.lets_go(reply.len()) && !reply.is_overflowed() {
            true => Flow::Next,
            false => self.follow_up(handle, start, reply),
        }
    }

    /// Begins a client's requests, or continues them after a command that changed more than data.
    #[inline(never)]
    fn begin_requests(&mut self, handle: ClientHandle) {
        self.server.clients[handle].last_interaction = self.server.now;
        if self.server.counts_slots {
            // What the server has fed by itself is not the command's.
            self.replication.take_command_bytes();
        }
        self.renew_gate(handle, false);
    }

    /// Ends a request whose reply begins at `start`.
    #[inline(never)]
    fn follow_up(&mut self, handle: ClientHandle, start: usize, reply: &mut ReplyBuffer) -> Flow {
        // Also of a command that waits for the disk: the next one may be another client's.
        carry_out_effects(self);
        if self.is_waiting(handle) {
            // The reply, or the reply to be suppressed, follows later.
            self.let_through_deferred(handle, reply);
            return Flow::Stop;
        }
        self.after_command(handle, start, reply);
        // The source of a slot migration sends commands of another kind from now on.
        let became_peer = self.server.clients[handle].routing.slot_link.is_some();
        if self.accepts_requests(handle) && !became_peer { Flow::Next } else { Flow::Stop }
    }

    /// Returns whether the client's next request may run now.
    #[inline]
    pub fn accepts_requests(&self, handle: ClientHandle) -> bool {
        !self.ending.is_over() && !self.server.clients[handle].is_closing() && !self.is_waiting(handle)
    }

    /// Returns whether the client is blocked, so that its further requests wait.
    #[inline]
    pub fn is_waiting(&self, handle: ClientHandle) -> bool {
        let client = &self.server.clients[handle];
        client.blocked.is_some() || (self.is_busy() || client.is_peer()) && self.is_held(handle)
    }

    /// Returns whether the client's script is suspended; or whether the client is another server and must wait, because
    /// its commands would interleave with a suspended script or a load, or would prolong a wait for replicas.
    #[cold]
    fn is_held(&self, handle: ClientHandle) -> bool {
        let is_suspended = self.is_put_aside(handle);
        let client = &self.server.clients[handle];
        let holds_peers =
            || self.is_busy() || self.has_load_under_way() || self.ending.waits_for_replicas_to_end();
        // Changes of an import would violate a pause; those of the primary are already part of its data.
        let holds_import = || client.is_slot_source() && self.server.pauses.are_any();
        is_suspended || client.is_peer() && (holds_peers() || holds_import())
    }

    /// Handles a protocol error: sends the error, then closes the client. `unparsed`: the input from the error on.
    pub fn protocol_error(
        &mut self,
        handle: ClientHandle,
        error: ProtocolError,
        unparsed: &[u8],
        reply: &mut ReplyBuffer,
    ) {
        let client = &self.server.clients[handle];
        if client.is_primary {
            return self.stream_is_broken(handle, &String::from_utf8_lossy(&error.text()));
        }
        if let Some(link) = client.routing.slot_link {
            return slot_migration::fail(self, link, &String::from_utf8_lossy(&error.text()));
        }
        log::debug!(
            "Protocol error ({}) from client: id={} addr={}. Query buffer: {}",
            String::from_utf8_lossy(&error.text()),
            client.id,
            client.connection.address,
            if self.server.config.hide_user_data_from_log {
                "*redacted*".to_owned()
            } else {
                sample(unparsed)
            },
        );
        let line = [b"ERR Protocol error: ", error.text().as_slice()].concat();
        reply.error(&line);
        self.server.observed.statistics.count_error("ERR");
        self.server.clients[handle].close_after_reply = true;
    }

    /// Replies to a request whose command does not run now.
    #[inline(never)]
    fn refuse(&mut self, call: &Call<'_>, refused: Refused, reply: &mut ReplyBuffer) -> Flow {
        let handle = call.client;
        self.let_through_deferred(handle, reply);
        let start = reply.len();
        match refused {
            Refused::Queued => reply.simple("QUEUED"),
            Refused::Paused | Refused::Evicted => {
                self.gate.close();
                return Flow::Stop;
            }
            Refused::Error(error) => self.reject(handle, Some(call.id), error, reply),
        }
        self.follow_up(handle, start, reply)
    }

    /// Replies to a request whose command is not known.
    #[cold]
    fn refuse_unknown(
        &mut self,
        handle: ClientHandle,
        args: Args<'_>,
        error: ClientError,
        reply: &mut ReplyBuffer,
    ) -> Flow {
        if limits_client_memory(&self.server)
            && is_evicted(&mut self.server, handle, args.bytes() + reply.len())
        {
            return Flow::Stop;
        }
        self.let_through_deferred(handle, reply);
        let start = reply.len();
        if is_http(args) {
            log::warn!(
                "A client sent what looks like HTTP, from {}: a web page may be trying to reach this server. \
                 The connection is closed.",
                self.server.clients[handle].connection.address
            );
            self.server.close_asap(handle);
            return Flow::Stop;
        }
        // Authentication comes before all else, even whether the command exists.
        let error = if needs_authentication(&self.server, handle) { ClientError::NoAuth } else { error };
        self.reject(handle, None, error, reply);
        self.follow_up(handle, start, reply)
    }

    fn reject(
        &mut self,
        handle: ClientHandle,
        id: Option<CommandId>,
        error: ClientError,
        reply: &mut ReplyBuffer,
    ) {
        if let Some(id) = id {
            self.server.observed.commands[id.0 as usize].rejected += 1;
        }
        self.abort_transaction(handle);
        let is_exec = id.is_some_and(|id| self.server.registry.row(id).control == Control::RunsTransaction);
        let line = if is_exec { self.abort_exec(handle, &error) } else { error.to_string() };
        self.gate.close();
        self.server.observed.statistics.count_error(&line);
        reply.error(on_the_wire(&line));
    }

    /// Does what a command has requested beside its reply.
    #[inline(never)]
    pub(super) fn do_next(&mut self, call: &Call<'_>, next: Next, reply: &mut ReplyBuffer) {
        match next {
            Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_) => return,
            Next::Block(request) => self.block(call, *request),
            Next::BlockAs(again) => {
                let (request, args) = *again;
                self.block(&Call { args: args.view(), ..*call }, request);
            }
            Next::RunTransaction => self.run_transaction(call, reply),
            Next::RunScript(script) => {
                // A suspended script replies when it ends.
                if self.run_script(call, *script, reply) == ScriptEnd::Done {
                    self.end_unit(call.client);
                }
            }
        }
        self.gate.close();
    }

    /// Serves clients that were blocked on the last command's changes.
    #[inline(always)]
    pub(super) fn serve_ready(&mut self) {
        if self.server.blocked.has_ready() {
            self.serve_blocked();
        }
    }

    /// Calls the handler and applies the effects of a single command, inside transactions too.
    pub(super) fn call(&mut self, call: &Call<'_>, reply: &mut ReplyBuffer) -> Next {
        self.open_gate(call);
        self.call_through_gate(call, reply.len(), reply)
    }

    /// As [`Self::call`], with the client's gate open; the reply begins at `start`. Inlined: another call cost 2 % of a
    /// GET.
    #[inline(always)]
    fn call_through_gate(&mut self, call: &Call<'_>, start: usize, reply: &mut ReplyBuffer) -> Next {
        self.bound_discarded();
        self.begin_call(call);
        let seed = self.db.key_seed();
        let mut context = Context {
            db: &mut self.db,
            server: &mut self.server,
            reply,
            client: call.client,
            command: call.row,
            origin: call.origin,
            next: Next::Reply,
        };
        let outcome = (call.row.handler)(&mut context, call.args.with_seed(&seed));
        let next = context.next;
        if !self.server.registry.is_plain(call.id) || self.gate.is_watched {
            return self.end_special_call(call, outcome, next, start, reply);
        }
        assert!(matches!(next, Next::Reply), "{} is not plain", call.row.name);
        // It is empty, which the compiler cannot know.
        std::mem::forget(next);
        let failed = self.apply(call, outcome, reply);
        self.observe(call, start, failed, reply);
        Next::Reply
    }

    /// Applies the effects of a command that may have changed more than data, or that tracking clients or monitors learn
    /// of.
    #[inline(never)]
    fn end_special_call(
        &mut self,
        call: &Call<'_>,
        mut outcome: Result<(), ClientError>,
        mut next: Next,
        start: usize,
        reply: &mut ReplyBuffer,
    ) -> Next {
        if matches!(next, Next::Persist(_) | Next::Replicate(_)) {
            let done = self.do_requested(call, next, reply);
            (next, outcome) = done.map_or_else(|error| (Next::Reply, Err(error)), |next| (next, Ok(())));
        }
        let mut failed = self.apply(call, outcome, reply);
        // After its changes are applied, since a read may change data too (PFCOUNT, an expired key).
        self.remember_read_keys(call);
        if self.confirmation.is_on() {
            // A transaction that does not run tells that watched keys have changed.
            let is_aborted =
                call.row.control == Control::RunsTransaction && !matches!(next, Next::RunTransaction);
            self.confirmation.note_call(&self.db, &mut self.server, call, is_aborted);
        }
        failed |= self.put_prepared_in_force(call.origin, start, reply);
        if !self.server.registry.is_plain(call.id) {
            self.gate.close();
        }
        match next {
            Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_) => {
                self.observe(call, start, failed, reply);
            }
            Next::Block(_) | Next::BlockAs(..) => {}
            // Recorded when all its commands have run.
            Next::RunTransaction | Next::RunScript(_) => return next,
        }
        if !call.origin.retried {
            feed_monitors(&mut self.server, &self.clock, call, failed);
        }
        next
    }

    /// Replies with the handler's error, propagates what it changed, and applies the effects; returns whether it failed.
    #[inline(always)]
    fn apply(&mut self, call: &Call<'_>, outcome: Result<(), ClientError>, reply: &mut ReplyBuffer) -> bool {
        let failed = outcome.is_err();
        if let Err(error) = outcome {
            self.fail(error, reply);
        }
        self.db.end();
        self.propagate(call);
        self.apply_effects(Some(call.client));
        failed
    }

    #[inline(always)]
    fn observe(&mut self, call: &Call<'_>, start: usize, failed: bool, reply: &ReplyBuffer) {
        let elapsed_ns = self.lap_ns();
        let reply_bytes = reply.len().saturating_sub(start);
        self.observe_call(Finished { call, elapsed_ns, reply_bytes, failed, script_slot: None });
    }

    /// Applies what CONFIG SET has prepared; returns whether that failed, and replaces the reply, which begins at
    /// `start`.
    fn put_prepared_in_force(&mut self, origin: Origin, start: usize, reply: &mut ReplyBuffer) -> bool {
        if let Some(prepared) = self.server.prepared_config.take()
            && let Err(error) = self.put_in_force(origin, *prepared)
        {
            reply.truncate(start);
            self.fail(error, reply);
            return true;
        }
        false
    }

    /// Begins a command in the data.
    #[inline(always)]
    fn begin_call(&mut self, call: &Call<'_>) {
        self.db.change_log.begin_next();
        match self.gate.writes_differ && call.row.is(flag::WRITE) {
            // It closes the gate: the client's next command begins a turn again.
            true => self.begin_turn(self.turn_of_call(call)),
            false => self.db.begin_next(),
        }
        debug_assert_eq!(self.db.turn(), self.turn_of_call(call));
        debug_assert_eq!(self.db.change_log.is_recording(), self.records_changes() && !call.origin.replayed);
        if self.gate.exceeds_batch(call.args.len()) {
            self.announce_keys(call.row, call.args);
        }
        self.db.name_keys(|| named_keys(call.row, call.args));
    }

    /// Carries out a command's request to the engine.
    #[cold]
    fn do_requested(
        &mut self,
        call: &Call<'_>,
        next: Next,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        match next {
            Next::Persist(request) => self.persist(call.client, request, call.origin, reply),
            Next::Replicate(request) => self.replicate(call.client, *request, reply),
            next => Ok(next),
        }
    }

    #[cold]
    pub(super) fn fail(&mut self, error: ClientError, reply: &mut ReplyBuffer) {
        let line = error.to_string();
        self.server.observed.statistics.count_error(&line);
        reply.error(on_the_wire(&line));
    }

    /// Applies the options of CONFIG SET, all or none.
    fn put_in_force(&mut self, origin: Origin, prepared: PreparedConfig) -> Result<(), ClientError> {
        let PreparedConfig { config, changes, settings } = prepared;
        let before = std::mem::replace(&mut self.server.config, config);
        let is_loading = self.is_loading();
        // The last step that can fail.
        if let Err(error) =
            self.aof.follow_appendonly(&mut self.disk, &mut self.db, &mut self.server, origin, is_loading)
        {
            self.server.config = before;
            return Err(error);
        }
        settings.commit(&self.server.config);
        self.server.follow_password(&changes);
        self.reconfigured();
        Ok(())
    }

    /// Suppresses replies by CLIENT REPLY, appends deferred messages, and checks the output limits.
    #[inline]
    pub(super) fn after_command(&mut self, handle: ClientHandle, start: usize, reply: &mut ReplyBuffer) {
        let client = &mut self.server.clients[handle];
        if client.reply_mode != ReplyMode::On {
            reply.truncate(start);
            client.reply_mode = client.reply_mode.after_command();
        }
        if client.routing.asking > 0 && client.transaction.is_none() {
            client.routing.asking -= 1;
        }
        if client.is_replica || client.is_primary {
            self.after_peer_command(handle, start, reply);
        }
        self.let_through_deferred(handle, reply);
        let much = reply.len() > REPLY_BUFFER_BYTES_MIN || self.server.switches.enforce_reply_list;
        if much || reply.is_overflowed() {
            check_reply(&mut self.server, &self.clock, handle, reply);
            // The client may now exceed a soft limit.
            self.gate.close();
        }
    }

    /// Drops the reply: a replication stream is not answered.
    #[cold]
    fn after_peer_command(&mut self, handle: ClientHandle, start: usize, reply: &mut ReplyBuffer) {
        if self.server.clients[handle].is_primary {
            reply.truncate(start);
        } else if reply.len() > start {
            self.close_talkative_replica(handle, &reply.copy_from(start));
        }
    }

    #[inline]
    pub(super) fn let_through_deferred(&mut self, handle: ClientHandle, reply: &mut ReplyBuffer) {
        let client = &mut self.server.clients[handle];
        if !client.deferred_output.is_empty() {
            reply.raw(&client.deferred_output);
            client.deferred_output.clear();
        }
    }

    /// Records a tracking client's reads for invalidation.
    #[inline]
    fn remember_read_keys(&mut self, call: &Call<'_>) {
        if self.server.tracking.clients == 0 {
            return;
        }
        let &Call { client, row, args, origin, .. } = call;
        let client = &mut self.server.clients[client];
        let Some(tracking) = &mut client.tracking else { return };
        // For a script, the keys its commands read count, not the keys it declares.
        let is_script = row.group == Group::Scripting;
        let reads = row.is(flag::READONLY) && !row.is(flag::PUBSUB) && !is_script;
        if reads && tracking.remembers_reads() {
            for spec in row.keys {
                spec.positions(args, &mut |at| {
                    client.tracked_bytes += self.server.tracking.remember(client.id, &args[at]);
                });
            }
        }
        // CLIENT CACHING covers one command or one transaction.
        let in_transaction = origin.in_transaction || client.transaction.is_some();
        if !in_transaction && !is_script && !row.is(flag::KEEPS_CACHING) {
            tracking.caching_given = false;
        }
    }
}

/// Returns whether this is a header of an HTTP request: a browser was made to connect to this server.
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "host:") || args.is(0, "post")
}

/// Returns the keys that the command may touch, which debug builds check; `None`: any.
fn named_keys(row: &Command, args: Args<'_>) -> Option<NamedKeys> {
    const CHANGES: Access = access::INSERT | access::UPDATE | access::DELETE;
    let is_led_to = |spec: &KeySpec| spec.begin == Begin::Unknown && spec.access & access::RO != 0;
    if row.is(flag::TOUCHES_ARBITRARY_KEYS | flag::ADMIN) {
        return None;
    }
    let changes = |bits: Access| {
        // Some reads store a computed result with the value (PFCOUNT).
        bits & CHANGES != 0 || row.is(flag::READONLY) && bits & access::RW != 0
    };
    let keys = row.find_keys(args).into_iter();
    let keys = keys.map(|(at, bits)| NamedKey { key: args.at(at).into(), changes: changes(bits) });
    let reads_others = row.keys.iter().any(is_led_to);
    Some(NamedKeys { command: row.name, keys: keys.collect(), reads_others })
}

/// Number of bytes shown from the start and the end of invalid input.
const SAMPLE_BYTES: usize = 64;

fn sample(bytes: &[u8]) -> String {
    let shown = |bytes: &[u8]| -> String {
        bytes.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' }).collect()
    };
    match bytes.len().checked_sub(2 * SAMPLE_BYTES) {
        None => format!("'{}'", shown(bytes)),
        Some(left_out) => format!(
            "'{}' (... more {left_out} bytes ...) '{}'",
            shown(&bytes[..SAMPLE_BYTES]),
            shown(&bytes[SAMPLE_BYTES + left_out..])
        ),
    }
}
