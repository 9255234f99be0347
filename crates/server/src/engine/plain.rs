//! The fast path of plain commands. Most checks before and after a command concern its client and the server, and their
//! results are the same for all of a pipeline. So they are made once per client's turn ([`Executor::begin_plain`]), and
//! a command that can change none of them ([`is_plain`](crate::command::registry::Registry::is_plain)) gets only the
//! checks that depend on itself.
//!
//! Invariants:
//! 1. [`PlainTurn::client`] is `None` unless that client's requests are being run, and only its own plain commands have
//!    run since it was set. So the cached results still hold. In debug builds each plain command also passes the gate
//!    ([`Executor::check_plain`]), and a refusal there stops the process.
//! 2. The permissions of a restricted user are checked for each command (invariant 10 of ARCHITECTURE.md).
//! 3. A plain command's reply is complete when its handler returns: none blocks, saves, or runs others.
//!
//! Measured: a GET in pipelines of 100 takes 1,690 instructions in place of 2,290, parsing and prefetch improvements
//! included (callgrind), and 0.89 of the time; ZSCORE in pipelines of 16 0.94.

use super::call::Call;
use super::execute::named_keys;
use super::observation::Finished;
use super::{Executor, Flow};
use crate::command::registry::CommandId;
use crate::command::{Context, Next, Request, flag};
use crate::engine::client_limits::{check_reply, limits_client_memory};
use crate::engine::gate::needs_authentication;
use crate::server::Loading;
use crate::session::{Client, ClientHandle, ReplyMode};
use wire::reply::ReplyBuffer;

/// Cached results for a client's turn.
#[derive(Debug, Default)]
pub(super) struct PlainTurn {
    /// The client whose plain commands take the fast path.
    client: Option<ClientHandle>,
    /// Commands with one of these flags take the slow path.
    unfit: flag::Flags,
    /// Maximum arguments: more may be more keys than a batch has prefetched.
    args_max: usize,
    permits_all: bool,
    limits_memory: bool,
    /// Output up to this length is within all limits.
    output_len_max: usize,
}

impl Executor {
    /// Drops the cached results: a command that is not plain, or another client's, comes next.
    #[inline]
    pub(super) fn end_plain(&mut self) {
        self.plain.client = None;
    }

    /// Returns whether the request takes the fast path, and opens it if possible.
    #[inline]
    pub(super) fn takes_short_way(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        request: &Request<'_>,
    ) -> bool {
        if !self.server.registry.is_plain(id) {
            return false;
        }
        let call = Call::new(&self.server.registry, handle, id, request.args);
        let Call { row, args, .. } = call;
        let is_open = self.plain.client == Some(handle) || self.begin_plain(&call);
        is_open
            && !row.is(self.plain.unfit)
            && row.accepts(args.len())
            && args.len() <= self.plain.args_max
            && (self.plain.permits_all || self.check_permission(&call).is_ok())
            // Eviction changes the selected database.
            && (!self.plain.limits_memory || self.needs_no_room())
    }

    /// Returns whether client and server are in their usual state; then plain commands of this client take the fast
    /// path.
    #[inline(never)]
    fn begin_plain(&mut self, call: &Call<'_>) -> bool {
        let handle = call.client;
        let client = &self.server.clients[handle];
        if !is_ordinary(client) || !self.is_nothing_special() || needs_authentication(&self.server, handle) {
            return false;
        }
        let is_replica = self.is_replica();
        if is_replica && (client.capabilities_redirect || self.has_stale_data()) {
            return false;
        }
        self.plain = PlainTurn {
            client: Some(handle),
            unfit: if is_replica { flag::WRITE } else { 0 },
            args_max: match self.server.config.prefetch_batch_max_size {
                0 => usize::MAX,
                keys_max => keys_max as usize,
            },
            permits_all: self.server.users.permits_all(client.user()),
            limits_memory: self.server.config.maxmemory_bytes != 0,
            output_len_max: client.reply_buffer.bytes.saturating_sub(client.connection.output_under_way()),
        };
        // The slow path sets this for commands that found no room.
        self.server.short_of_memory = false;
        self.begin_changes(false);
        self.server.clients[handle].last_interaction = self.server.now;
        // Only a replica leaves expiry to its source, and its plain commands are all reads: one turn serves all.
        self.db.begin(self.turn_of(call));
        true
    }

    /// Returns whether the server is in its usual state: each condition is the first check of a refusal or an effect.
    fn is_nothing_special(&self) -> bool {
        let server = &self.server;
        let config = &server.config;
        !self.ending.is_over()
            && !self.is_tracing()
            && !self.is_busy()
            && !limits_client_memory(&self.server)
            && !self.is_loading()
            && server.loading == Loading::Nothing
            && self.disk_error().is_none()
            && !server.lacks_replicas()
            && !server.pauses.are_any()
            && !self.is_handing_over()
            && server.tracking.clients == 0
            && server.monitors.is_empty()
            && server.scripts.slow().is_none()
            && !server.switches.enforce_reply_list
            && (!config.import_mode || self.is_replica())
    }

    /// Runs a request that [`Self::takes_short_way`].
    #[inline]
    pub(super) fn run_plain(
        &mut self,
        handle: ClientHandle,
        id: CommandId,
        request: Request<'_>,
        reply: &mut ReplyBuffer,
    ) -> Flow {
        let call = &Call::new(&self.server.registry, handle, id, request.args);
        let &Call { row, args, origin, .. } = call;
        self.check_plain(call);
        self.server.clients[handle].last_command = Some(id);
        self.bound_discarded();
        self.db.change_log.begin_next();
        self.db.begin_next();
        self.db.name_keys(|| named_keys(row, args));
        let (start, seed) = (reply.len(), self.db.seed());
        let mut context = Context {
            db: &mut self.db,
            server: &mut self.server,
            reply,
            client: handle,
            command: row,
            origin,
            next: Next::Reply,
        };
        let outcome = (row.handler)(&mut context, args.with_seed(seed));
        assert!(matches!(context.next, Next::Reply), "invariant 3: {} is not plain", row.name);
        // It is empty, which the compiler cannot know.
        std::mem::forget(context.next);
        let failed = match outcome {
            Ok(()) => false,
            Err(error) => {
                self.fail(error, reply);
                true
            }
        };
        self.db.end();
        self.propagate(call);
        self.apply_effects(Some(handle));
        let elapsed_ns = self.lap_ns();
        let reply_bytes = reply.len().saturating_sub(start);
        self.observe_call(Finished { call, elapsed_ns, reply_bytes, failed });
        if self.server.blocked.has_ready() {
            self.end_plain();
            self.serve_blocked();
        }
        if reply.len() > self.plain.output_len_max || reply.is_overflowed() {
            return self.end_of_long_reply(handle, reply);
        }
        Flow::Next
    }

    /// Handles a reply beyond the length that is certainly within the output limits.
    #[cold]
    fn end_of_long_reply(&mut self, handle: ClientHandle, reply: &mut ReplyBuffer) -> Flow {
        // The client may now exceed a soft limit.
        self.end_plain();
        check_reply(&mut self.server, &self.clock, handle, reply);
        if self.accepts_requests(handle) { Flow::Next } else { Flow::Stop }
    }

    /// In debug builds, checks invariant 1: the gate would admit the command, to the same database at the same time.
    #[inline(always)]
    fn check_plain(&mut self, call: &Call<'_>) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert!(
            self.is_nothing_special() && is_ordinary(&self.server.clients[call.client]),
            "plain: invariant 1"
        );
        assert_eq!(self.db.selected(), self.server.clients[call.client].db_index, "plain: invariant 1");
        assert_eq!(self.db.now_ms(), self.server.now.unix_ms(), "plain: invariant 1");
        // Where memory is limited the gate may evict: other threads use memory too.
        if !self.plain.limits_memory {
            let refusal = self.refusal(call);
            assert!(refusal.is_ok(), "plain: invariant 1: {refusal:?}");
        }
    }
}

/// Returns whether the client is in the usual state: it sends requests and gets replies.
fn is_ordinary(client: &Client) -> bool {
    !client.is_closing()
        && client.transaction.is_none()
        && client.reply_mode == ReplyMode::On
        && client.subscriptions.is_empty()
        && client.tracking.is_none()
        && client.blocked.is_none()
        && client.deferred_output.is_empty()
        && client.output_over_soft_limit_since_us.is_none()
        && !client.is_monitor
        && !client.is_replica
        && !client.is_primary
}
