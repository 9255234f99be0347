//! Runs one command, from request to reply.

use super::Executor;
use super::call::Call;
use super::observation::Finished;
use super::script::ScriptEnd;
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
        self.end_plain();
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
            // It will not be sent, and its memory is freed before the connection closes.
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
        match request.id {
            Some(id) if self.takes_short_way(handle, id, &request) => {
                self.run_plain(handle, id, request, reply)
            }
            _ => self.execute_at_length(handle, request, reply),
        }
    }

    /// The slow path, which makes every check.
    fn execute_at_length(
        &mut self,
        handle: ClientHandle,
        request: Request<'_>,
        reply: &mut ReplyBuffer,
    ) -> Flow {
        self.end_plain();
        let Request { id, args, .. } = request;
        let start = reply.len();
        self.server.clients[handle].last_interaction = self.server.now;
        if limits_client_memory(&self.server)
            && is_evicted(&mut self.server, handle, args.bytes() + reply.len())
        {
            return Flow::Stop;
        }
        let admitted = self.admit(handle, id, args);
        // Messages sent by eviction concern values from before the client's command.
        self.let_through_deferred(handle, reply);
        let start = start.max(reply.len());
        match admitted {
            Ok(Admitted::Run(call)) => self.run(&call, reply),
            Ok(Admitted::Queued) => reply.simple("QUEUED"),
            Ok(Admitted::Paused | Admitted::Closed) => return Flow::Stop,
            Err(error) => self.refuse(handle, args, error, reply),
        }
        if self.is_waiting(handle) {
            // Its reply, or the reply to be suppressed, is yet to come.
            self.let_through_deferred(handle, reply);
            return Flow::Stop;
        }
        self.after_command(handle, start, reply);
        if self.accepts_requests(handle) { Flow::Next } else { Flow::Stop }
    }

    /// Returns whether the client's next request may run now.
    #[inline]
    pub fn accepts_requests(&self, handle: ClientHandle) -> bool {
        !self.ending.is_over() && !self.server.clients[handle].is_closing() && !self.is_waiting(handle)
    }

    /// Returns whether the client is blocked, and its further requests with it.
    #[inline]
    pub fn is_waiting(&self, handle: ClientHandle) -> bool {
        let client = &self.server.clients[handle];
        client.blocked.is_some() || (self.is_busy() || client.is_primary) && self.is_held(handle)
    }

    /// Returns whether the client's script is suspended; or whether the client is the primary and must wait, because
    /// its commands would interleave with a suspended script or a load, or would prolong a wait for replicas.
    #[cold]
    fn is_held(&self, handle: ClientHandle) -> bool {
        let is_suspended = self.is_put_aside(handle);
        let holds_primary =
            || self.is_busy() || self.has_load_under_way() || self.ending.waits_for_replicas_to_end();
        is_suspended || self.server.clients[handle].is_primary && holds_primary()
    }

    /// Handles input that does not parse, of which `unparsed` is the rest: sends the error, then closes.
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

    /// Look-up, refusals, pause, and queueing in an open transaction.
    #[inline]
    fn admit<'a>(
        &mut self,
        handle: ClientHandle,
        id: Option<CommandId>,
        args: Args<'a>,
    ) -> Result<Admitted<'a>, ClientError> {
        self.server.clients[handle].last_command = id;
        let row = id.map(|id| self.server.registry.row(id));
        if row.is_none() && is_http(args) {
            log::warn!(
                "A client sent what looks like HTTP, from {}: a web page may be trying to reach this server. \
                 The connection is closed.",
                self.server.clients[handle].connection.address
            );
            self.server.close_asap(handle);
            return Ok(Admitted::Closed);
        }
        self.authentication(handle, row)?;
        let id = id.map_or_else(|| self.server.registry.find(args), Ok)?;
        let call = Call::new(&self.server.registry, handle, id, args);
        if let Err(error) = self.refusal(&call) {
            if error.is_redirect() && self.is_handing_over() {
                // The replica would redirect the client back here until it is promoted.
                self.hold(&call);
                return Ok(Admitted::Paused);
            }
            return Err(error);
        }
        if self.server.pauses.are_any() && self.hold_back(&call) {
            return Ok(Admitted::Paused);
        }
        if self.server.clients[handle].transaction.is_some() && !call.row.control.runs_inside_multi() {
            self.queue(&call);
            return Ok(Admitted::Queued);
        }
        Ok(Admitted::Run(call))
    }

    fn refuse(&mut self, handle: ClientHandle, args: Args<'_>, error: ClientError, reply: &mut ReplyBuffer) {
        let id = self.server.registry.find(args).ok();
        if let Some(id) = id {
            self.server.observed.commands[id.0 as usize].rejected += 1;
        }
        self.abort_transaction(handle);
        let is_exec = id.is_some_and(|id| self.server.registry.row(id).control == Control::RunsTransaction);
        let line = if is_exec { self.abort_exec(handle, &error) } else { error.to_string() };
        self.server.observed.statistics.count_error(&line);
        reply.error(on_the_wire(&line));
    }

    /// Runs an admitted command and applies its effects. Inlined in both callers: another call cost 2 % of a GET.
    #[inline(always)]
    pub(super) fn run(&mut self, call: &Call<'_>, reply: &mut ReplyBuffer) {
        self.run_alone(call, reply);
        self.serve_ready();
    }

    /// As [`Self::run`], without serving blocked clients.
    #[inline(always)]
    pub(super) fn run_alone(&mut self, call: &Call<'_>, reply: &mut ReplyBuffer) {
        match self.call(call, reply) {
            Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_) => {}
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
        let &Call { client, row, args, origin, .. } = call;
        self.bound_discarded();
        self.begin_changes(origin.replayed);
        self.turn_to_data(call);
        let (start, seed) = (reply.len(), self.db.seed());
        let mut context = Context {
            db: &mut self.db,
            server: &mut self.server,
            reply,
            client,
            command: row,
            origin,
            next: Next::Reply,
        };
        let mut outcome = (row.handler)(&mut context, args.with_seed(seed));
        let mut next = context.next;
        if matches!(next, Next::Persist(_) | Next::Replicate(_)) {
            let done = self.do_requested(call, next, reply);
            (next, outcome) = done.map_or_else(|error| (Next::Reply, Err(error)), |next| (next, Ok(())));
        }
        let mut failed = outcome.is_err();
        if let Err(error) = outcome {
            self.fail(error, reply);
        }
        self.db.end();
        self.propagate(call);
        self.apply_effects(Some(client));
        // After its changes are applied, since a read may change data too (PFCOUNT, an expired key).
        self.remember_read_keys(call);
        if let Some(prepared) = self.server.prepared_config.take()
            && let Err(error) = self.put_in_force(origin, *prepared)
        {
            reply.truncate(start);
            self.fail(error, reply);
            failed = true;
        }
        match next {
            Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_) => {
                let elapsed_ns = self.lap_ns();
                let reply_bytes = reply.len().saturating_sub(start);
                self.observe_call(Finished { call, elapsed_ns, reply_bytes, failed });
            }
            Next::Block(_) | Next::BlockAs(..) => {}
            // Recorded when all queued commands have run.
            Next::RunTransaction | Next::RunScript(_) => return next,
        }
        if !origin.retried {
            feed_monitors(&mut self.server, &self.clock, call, failed);
        }
        next
    }

    /// Sets the database's per-command state for the next command.
    #[inline(always)]
    fn turn_to_data(&mut self, call: &Call<'_>) {
        self.db.begin(self.turn_of(call));
        self.announce_keys(call.row, call.args);
        self.db.name_keys(|| named_keys(call.row, call.args));
    }

    /// Does what a command has requested of the engine.
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

    /// Applies the configuration that CONFIG SET has prepared, all of it or nothing.
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

    /// Suppresses unwanted replies, lets deferred messages through, and checks the output limits.
    #[inline]
    pub(super) fn after_command(&mut self, handle: ClientHandle, start: usize, reply: &mut ReplyBuffer) {
        let client = &mut self.server.clients[handle];
        if client.reply_mode != ReplyMode::On {
            reply.truncate(start);
            client.reply_mode = client.reply_mode.after_command();
        }
        if client.is_replica || client.is_primary {
            self.after_peer_command(handle, start, reply);
        }
        self.let_through_deferred(handle, reply);
        let much = reply.len() > REPLY_BUFFER_BYTES_MIN || self.server.switches.enforce_reply_list;
        if much || reply.is_overflowed() {
            check_reply(&mut self.server, &self.clock, handle, reply);
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
    fn let_through_deferred(&mut self, handle: ClientHandle, reply: &mut ReplyBuffer) {
        let client = &mut self.server.clients[handle];
        if !client.deferred_output.is_empty() {
            reply.raw(&client.deferred_output);
            client.deferred_output.clear();
        }
    }

    /// Remembers a tracking client's reads for invalidation.
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

enum Admitted<'a> {
    Run(Call<'a>),
    Queued,
    Paused,
    Closed,
}

/// Returns whether this is a header of an HTTP request: a browser was made to connect to this server.
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "host:") || args.is(0, "post")
}

/// Returns the keys that the command may touch, which debug builds check; `None`: any.
pub(super) fn named_keys(row: &Command, args: Args<'_>) -> Option<NamedKeys> {
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
