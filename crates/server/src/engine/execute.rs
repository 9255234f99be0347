//! One command from request to reply.

use super::Executor;
use super::observation::Finished;
use super::script::ScriptEnd;
use crate::command::key_spec::Begin;
use crate::command::registry::CommandId;
use crate::command::{
    Access, Args, Command, Context, Control, FirstKey, Group, KeySpec, Next, Origin, Request, access, flag,
};
use crate::db::audit::{NamedKey, NamedKeys};
use crate::error::{ClientError, on_the_wire};
use crate::server::PreparedConfig;
use crate::session::client::REPLY_BUFFER_BYTES_MIN;
use crate::session::{ClientHandle, ReplyMode};
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
    pub fn execute(&mut self, handle: ClientHandle, args: Args<'_>) -> Flow {
        let mut reply = self.borrow_output(handle);
        let request = self.request(args);
        let flow = self.execute_into(handle, request, &mut reply);
        self.return_output(handle, reply);
        flow
    }

    /// What is known of a request that was not parsed by a connection.
    pub fn request<'a>(&self, args: Args<'a>) -> Request<'a> {
        let registry = &self.server.registry;
        registry.plan(registry.find(args).ok(), args, self.db.seed())
    }

    /// Takes a client's output to write replies into; [`Self::return_output`] gives it back.
    #[inline]
    pub fn borrow_output(&mut self, handle: ClientHandle) -> ReplyBuffer {
        let client = &mut self.server.clients[handle];
        client.output_borrowed = true;
        let protocol = client.output.protocol;
        let mut reply = std::mem::replace(&mut client.output, ReplyBuffer::new(protocol));
        self.server.clients.lend_output(&mut reply);
        reply.set_limit(self.output_len_max(handle));
        self.end_plain();
        self.start_stopwatch();
        reply
    }

    #[inline]
    pub fn return_output(&mut self, handle: ClientHandle, mut reply: ReplyBuffer) {
        let client = &mut self.server.clients[handle];
        reply.set_limit(None);
        if !client.deferred_output.is_empty() {
            reply.raw(&std::mem::take(&mut client.deferred_output));
        }
        if client.close_asap {
            // Nobody will read it, and others may need the memory before the connection is closed.
            drop(reply.take());
        }
        client.output = reply;
        client.output_borrowed = false;
    }

    /// As [`Self::execute`], into an output taken with [`Self::borrow_output`]: what a pipeline runs.
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

    /// The long way, on which everything is asked that may be about a command.
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
        if self.limits_client_memory() && self.is_evicted(handle, args.bytes() + reply.len()) {
            return Flow::Stop;
        }
        let admitted = self.admit(handle, id, args);
        // What eviction has sent to the client is about values from before its command.
        self.let_through_deferred(handle, reply);
        let start = start.max(reply.len());
        match admitted {
            Ok(Admitted::Run(id)) => {
                let FirstKey { at, hash } = request.first_key;
                if at > 0 {
                    self.db.plan_key(args.at(at as usize), hash);
                }
                self.run(handle, id, args, reply);
            }
            Ok(Admitted::Queued) => reply.simple("QUEUED"),
            Ok(Admitted::Paused | Admitted::Closed) => return Flow::Stop,
            Err(error) => self.refuse(handle, args, error, reply),
        }
        if self.is_waiting(handle) {
            // Its reply, or what is to be swallowed in its place, is yet to come.
            self.let_through_deferred(handle, reply);
            return Flow::Stop;
        }
        self.after_command(handle, start, reply);
        if self.accepts_requests(handle) { Flow::Next } else { Flow::Stop }
    }

    /// Whether the client's next request may run now.
    #[inline]
    pub fn accepts_requests(&self, handle: ClientHandle) -> bool {
        !self.ends && !self.server.clients[handle].is_closing() && !self.is_waiting(handle)
    }

    /// Whether the client waits for something that others do, and its further requests with it.
    #[inline]
    pub fn is_waiting(&self, handle: ClientHandle) -> bool {
        let client = &self.server.clients[handle];
        client.blocked.is_some() || (self.is_busy() || client.is_primary) && self.is_held(handle)
    }

    /// Whether the client's script has been put aside; or it is the primary, and what it sends would come between what
    /// a script, or a file that is loaded, does first and what it does next, or would have to be waited for by whoever
    /// waits for replicas to have all there is.
    #[cold]
    fn is_held(&self, handle: ClientHandle) -> bool {
        let is_suspended = self.is_put_aside(handle);
        let holds_primary =
            || self.is_busy() || self.has_load_under_way() || self.waits_for_replicas_to_end();
        is_suspended || self.server.clients[handle].is_primary && holds_primary()
    }

    /// The client's bytes, of which `unparsed` are the last, make no sense: tells it why and closes once that is sent.
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

    /// Look-up, refusals, pause, and the queue of an open transaction.
    #[inline]
    fn admit(
        &mut self,
        handle: ClientHandle,
        id: Option<CommandId>,
        args: Args<'_>,
    ) -> Result<Admitted, ClientError> {
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
        let row = self.server.registry.row(id);
        if let Err(error) = self.refusal(handle, id, args) {
            if error.is_redirect() && self.is_handing_over() {
                // The replica would send the client back here until it is the primary.
                self.hold(handle, id, args);
                return Ok(Admitted::Paused);
            }
            return Err(error);
        }
        if self.server.pauses.are_any() && self.hold_back(handle, id, row, args) {
            return Ok(Admitted::Paused);
        }
        if self.server.clients[handle].transaction.is_some() && !row.control.runs_inside_multi() {
            self.queue(handle, id, args);
            return Ok(Admitted::Queued);
        }
        Ok(Admitted::Run(id))
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

    /// Runs a command that may run, and what follows from it. Into both callers: a call more was 2 % of a GET.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        reply: &mut ReplyBuffer,
    ) {
        self.run_alone(handle, id, args, reply);
        self.serve_ready();
    }

    /// As [`Self::run`]; who has waited for what it does waits on.
    #[inline(always)]
    pub(super) fn run_alone(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        reply: &mut ReplyBuffer,
    ) {
        match self.call(handle, id, args, reply, Origin::default()) {
            Next::Reply | Next::NoReply | Next::Persist(_) | Next::Replicate(_) => {}
            Next::Block(request) => self.block(handle, id, args, *request),
            Next::BlockAs(again) => {
                let (request, args) = *again;
                self.block(handle, id, args.view(), request);
            }
            Next::RunTransaction => self.run_transaction(handle, id, args, reply),
            Next::RunScript(call) => {
                // When it is put aside, the reply follows with its end.
                if self.run_script(handle, id, args, *call, reply) == ScriptEnd::Done {
                    self.end_unit(handle);
                }
            }
        }
    }

    /// Serves those who have waited for what has just been done.
    #[inline(always)]
    pub(super) fn serve_ready(&mut self) {
        if self.server.blocked.has_ready() {
            self.serve_blocked();
        }
    }

    /// Calls the handler and does what follows from every single command, inside transactions too.
    pub(super) fn call(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        args: Args<'_>,
        reply: &mut ReplyBuffer,
        origin: Origin,
    ) -> Next {
        let command = self.server.registry.row(id);
        self.bound_discarded();
        self.begin_changes(origin.replayed);
        self.turn_to_data(handle, command, args, origin);
        let start = reply.len();
        let mut context = Context {
            db: &mut self.db,
            server: &mut self.server,
            reply,
            client: handle,
            command,
            origin,
            next: Next::Reply,
        };
        let mut outcome = (command.handler)(&mut context, args);
        let mut next = context.next;
        if matches!(next, Next::Persist(_) | Next::Replicate(_)) {
            let done = self.do_requested(handle, next, origin, reply);
            (next, outcome) = done.map_or_else(|error| (Next::Reply, Err(error)), |next| (next, Ok(())));
        }
        let mut failed = outcome.is_err();
        if let Err(error) = outcome {
            self.fail(error, reply);
        }
        self.db.forget_plan();
        self.propagate(handle, command, args, origin);
        self.apply_effects(Some(handle));
        // After what it has changed, for a read may do that too (PFCOUNT, a key that was expired).
        self.remember_read_keys(handle, command, args, origin);
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
                self.observe_call(Finished {
                    handle,
                    id,
                    args,
                    elapsed_ns,
                    reply_bytes,
                    failed,
                    is_in_script: origin.in_script,
                });
            }
            Next::Block(_) | Next::BlockAs(..) => {}
            // Is noted when all that was queued has run.
            Next::RunTransaction | Next::RunScript(_) => return next,
        }
        if !origin.retried {
            self.feed_monitors(handle, command, args, origin, failed);
        }
        next
    }

    /// Tells the database what it must know of the command that runs next.
    #[inline(always)]
    fn turn_to_data(
        &mut self,
        handle: ClientHandle,
        command: &'static Command,
        args: Args<'_>,
        origin: Origin,
    ) {
        self.db.begin(self.turn_of(handle, command, origin));
        self.announce_keys(command, args);
        self.db.name_keys(|| named_keys(command, args));
    }

    /// What a command has asked of the engine.
    #[cold]
    fn do_requested(
        &mut self,
        handle: ClientHandle,
        next: Next,
        origin: Origin,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        match next {
            Next::Persist(request) => self.persist(handle, request, origin, reply),
            Next::Replicate(request) => self.replicate(handle, *request, reply),
            next => Ok(next),
        }
    }

    #[cold]
    pub(super) fn fail(&mut self, error: ClientError, reply: &mut ReplyBuffer) {
        let line = error.to_string();
        self.server.observed.statistics.count_error(&line);
        reply.error(on_the_wire(&line));
    }

    /// Makes what CONFIG SET has prepared the configuration, all of it or nothing.
    fn put_in_force(&mut self, origin: Origin, prepared: PreparedConfig) -> Result<(), ClientError> {
        let PreparedConfig { config, changes, settings } = prepared;
        let before = std::mem::replace(&mut self.server.config, config);
        // The last that can fail, by the options that come with it.
        if let Err(error) = self.follow_appendonly(origin) {
            self.server.config = before;
            return Err(error);
        }
        settings.commit(&self.server.config);
        self.server.follow_password(&changes);
        self.reconfigured();
        Ok(())
    }

    /// Swallows replies the client does not want, lets through what arrived for it meanwhile, and sees whether the
    /// output is within its limits.
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
            self.check_reply(handle, reply);
        }
    }

    /// Nobody on the stream is answered.
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

    /// A tracking client's reads are remembered, so that they can be invalidated.
    #[inline]
    fn remember_read_keys(
        &mut self,
        handle: ClientHandle,
        command: &Command,
        args: Args<'_>,
        origin: Origin,
    ) {
        if self.server.tracking.clients == 0 {
            return;
        }
        let client = &mut self.server.clients[handle];
        let Some(tracking) = &mut client.tracking else { return };
        // Of a script, the keys that its commands read count, not those that it names.
        let is_script = command.group == Group::Scripting;
        let reads = command.is(flag::READONLY) && !command.is(flag::PUBSUB) && !is_script;
        if reads && tracking.remembers_reads() {
            for spec in command.keys {
                spec.positions(args, &mut |at| self.server.tracking.remember(client.id, &args[at]));
            }
        }
        // CLIENT CACHING is about one command, or one transaction.
        let in_transaction = origin.in_transaction || client.transaction.is_some();
        if !in_transaction && !is_script && !command.is(flag::KEEPS_CACHING) {
            tracking.caching_given = false;
        }
    }
}

enum Admitted {
    Run(CommandId),
    Queued,
    Paused,
    Closed,
}

/// A header of the Hypertext Transfer Protocol: such a client is a browser that was made to talk to this server.
fn is_http(args: Args<'_>) -> bool {
    args.is(0, "host:") || args.is(0, "post")
}

/// The keys that the command may touch, for debug builds to see whether it touches others; `None`: any.
pub(super) fn named_keys(row: &Command, args: Args<'_>) -> Option<NamedKeys> {
    const CHANGES: Access = access::INSERT | access::UPDATE | access::DELETE;
    let is_led_to = |spec: &KeySpec| spec.begin == Begin::Unknown && spec.access & access::RO != 0;
    if row.is(flag::TOUCHES_ARBITRARY_KEYS | flag::ADMIN) {
        return None;
    }
    let changes = |bits: Access| {
        // Some reads keep what they have worked out beside the value (PFCOUNT).
        bits & CHANGES != 0 || row.is(flag::READONLY) && bits & access::RW != 0
    };
    let keys = row.find_keys(args).into_iter();
    let keys = keys.map(|(at, bits)| NamedKey { key: args.at(at).into(), changes: changes(bits) });
    let reads_others = row.keys.iter().any(is_led_to);
    Some(NamedKeys { command: row.name, keys: keys.collect(), reads_others })
}

/// Of bytes that make no sense, the first and the last so many are shown.
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
