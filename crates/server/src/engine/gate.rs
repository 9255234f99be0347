//! Whether a command may run now: a list of refusals, each with its error, in the order in which clients rely
//! on them.
//!
//! What a refusal depends on beside the command is the same for all of a client's turn, as are the database, the time and
//! the listeners that its commands are given. So the refusals that concern the client at all are found once, when a
//! [`Gate`] is opened, and the gate is kept until it is closed. An ordinary client of an ordinary server is concerned by
//! none, one of a server with limited memory by one: what remains is whether that covers the command.
//!
//! Invariants:
//! 1. An open gate has at least the refusals and steps that a new one would have, and the database and the change log
//!    have begun the turn of its client. In debug builds [`Executor::check_gate`] compares with a new gate for each
//!    command.
//! 2. So what changes more than data closes it: a command that is not plain
//!    ([`is_plain`](crate::command::registry::Registry::is_plain)), a refusal, a new time ([`Executor::set_now`]), the
//!    end of a script, work of the server itself ([`Executor::begin_turn`]), and the beginning of a client's requests
//!    ([`Executor::borrow_output`]).
//! 3. Each refusal is a row of [`REFUSALS`].

use super::Executor;
use super::call::Call;
use super::client_limits::{is_evicted, limits_client_memory};
use super::memory::Room;
use super::redirection::Redirections;
use super::script::flags_of;
use crate::command::{Control, flag};
use crate::error::{ClientError, PRIMARY_DOWN, READ_ONLY_REPLICA};
use crate::server::{Loading, Server, TOO_FEW_REPLICAS};
use crate::session::client::Transaction;
use crate::session::{Client, ClientHandle, ReplyMode};
use wire::reply::ReplyBuffer;

/// Returns whether the client must authenticate. Clients connected before a password was set stay authenticated;
/// without a password no client must authenticate.
#[inline]
pub fn needs_authentication(server: &Server, handle: ClientHandle) -> bool {
    !server.clients[handle].authenticated && !server.users.default_is_open()
}

/// Bounds the memory of client-side caching.
#[inline]
pub(super) fn limit_tracking(server: &mut Server) {
    if server.tracking.clients > 0 {
        server.tracking.limit(&mut server.clients, server.config.tracking_table_max_keys);
    }
}

/// Removes the reads of clients that have stopped tracking, a limited number at a time.
pub(super) fn forget_departed_trackers(server: &mut Server) {
    if server.tracking.remembers_departed() {
        server.tracking.forget_departed(&mut server.clients);
    }
}

/// What a client's commands need beside being run; see the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Its client; `None` while it is closed.
    client: Option<ClientHandle>,
    /// The refusals that concern the client: one bit for each row of [`REFUSALS`].
    refusals: u32,
    /// Tracking clients or monitors learn of each command, or its reply may wait for the disk.
    pub is_watched: bool,
    /// Writes treat expired keys in another way than other commands, and begin turns of their own.
    pub writes_differ: bool,
    /// Output shorter than this is within all limits, and nothing is to be done with a reply. 0 while the gate is closed:
    /// the command that closed it may have changed its client.
    output_len_end: usize,
    /// Maximum arguments: more may be more keys than a batch has prefetched.
    args_max: usize,
}

impl Gate {
    #[inline(always)]
    fn of(executor: &Executor, handle: ClientHandle, replayed: bool) -> Gate {
        let server = &executor.server;
        let client = &server.clients[handle];
        let mut refusals = 0;
        for (at, refusal) in REFUSALS.iter().enumerate() {
            refusals |= u32::from((refusal.concerns)(executor, client)) << at;
        }
        let is_watched =
            server.tracking.clients > 0 || !server.monitors.is_empty() || executor.confirmation.is_on();
        let room = client.reply_buffer.bytes.saturating_sub(client.connection.output_under_way());
        let turn_of = |writes| executor.turn_of(client, replayed, writes);
        Gate {
            client: Some(handle),
            refusals,
            is_watched,
            writes_differ: turn_of(true) != turn_of(false),
            output_len_end: if is_followed_up(executor, client) { 0 } else { room.saturating_add(1) },
            args_max: match server.config.prefetch_batch_max_size {
                0 => usize::MAX,
                keys_max => keys_max as usize,
            },
        }
    }

    /// Returns whether it is open for this client.
    #[inline(always)]
    pub fn is_open_for(&self, client: ClientHandle) -> bool {
        self.client == Some(client)
    }

    /// Something may have changed on which it depends: the next command gets a new one.
    #[inline(always)]
    pub fn close(&mut self) {
        self.client = None;
        self.output_len_end = 0;
    }

    /// Returns whether nothing more is to be done after a command that leaves output of this length.
    #[inline(always)]
    pub fn lets_go(&self, output_len: usize) -> bool {
        output_len < self.output_len_end
    }

    /// Returns whether a command of this number of arguments may have more keys than a batch has prefetched.
    #[inline(always)]
    pub fn exceeds_batch(&self, args: usize) -> bool {
        args > self.args_max
    }
}

/// Returns whether something is done with each reply, or messages may arrive while a command runs.
fn is_followed_up(executor: &Executor, client: &Client) -> bool {
    client.reply_mode != ReplyMode::On
        || !client.subscriptions.is_empty()
        || client.is_closing()
        || client.is_monitor
        || client.is_replica
        || client.is_peer()
        || !client.deferred_output.is_empty()
        || client.output_over_soft_limit_since_us.is_some()
        || client.routing.asking > 0
        || executor.server.tracking.clients > 0
        || executor.server.switches.enforce_reply_list
        || executor.ending.is_over()
}

/// A reason for which commands do not run.
struct Refusal {
    /// Whether it can apply to some command of the client. What this depends on changes only where gates are closed.
    concerns: fn(&Executor, &Client) -> bool,
    /// Whether it may apply to this command of a client that it concerns; changes nothing.
    covers: fn(&Executor, &Call<'_>) -> bool,
    /// Decides about a command that it covers. The client's output has this length.
    decide: fn(&mut Executor, &Call<'_>, usize) -> Result<(), Refused>,
}

/// The row of [`REFUSALS`] that depends on the command alone: [`is_unfit`].
const UNFIT: usize = 2;

/// In the order of the errors that clients get.
const REFUSALS: [Refusal; 19] = [
    // The memory of clients is counted before each command.
    Refusal {
        concerns: |executor, _| limits_client_memory(&executor.server),
        covers: |_, _| true,
        decide: client_memory,
    },
    Refusal {
        concerns: |executor, client| !client.authenticated && !executor.server.users.default_is_open(),
        covers: |_, call| !call.row.is(flag::NO_AUTH),
        decide: |_, _, _| Err(ClientError::NoAuth.into()),
    },
    Refusal { concerns: |_, _| false, covers: |_, _| true, decide: unfit },
    Refusal {
        concerns: |_, client| client.transaction.is_some(),
        covers: |_, call| call.row.is(flag::NO_MULTI),
        decide: |_, call, _| Err(ClientError::NotAllowedInTransaction { command: call.row.name }.into()),
    },
    Refusal {
        concerns: |executor, client| !executor.server.users.permits_all(client.user()),
        covers: |executor, call| executor.check_permission(call).is_err(),
        decide: |executor, call, _| Ok(executor.permission(call)?),
    },
    // A node of a cluster serves the keys of its slots.
    Refusal {
        concerns: |executor, client| executor.server.cluster.is_some() && !client.is_primary,
        covers: |executor, call| Redirections::of(executor).find(call).is_some(),
        decide: |executor, call, _| {
            Redirections::of(executor).error(call).map_or(Ok(()), |error| Err(error.into()))
        },
    },
    // A capable client is sent to the primary for what a replica does not run or may be stale in.
    Refusal {
        concerns: |executor, client| {
            executor.is_replica() && client.capabilities_redirect && executor.server.cluster.is_none()
        },
        covers: |executor, call| reads_or_writes_on_primary(&executor.server, call),
        decide: redirected,
    },
    Refusal {
        concerns: |executor, _| {
            executor.server.config.maxmemory_bytes != 0 || executor.server.short_of_memory
        },
        covers: |executor, _| executor.server.short_of_memory || !executor.needs_no_room(),
        decide: memory_shortage,
    },
    // Writes could be lost.
    Refusal {
        concerns: |executor, _| executor.disk_error().is_some(),
        covers: |executor, call| writes(&executor.server, call) || call.row.control == Control::Ping,
        decide: |executor, _, _| executor.disk_error().map_or(Ok(()), |error| Err(error.into())),
    },
    Refusal {
        concerns: |executor, _| executor.server.lacks_replicas(),
        covers: |executor, call| writes(&executor.server, call),
        decide: |_, _, _| Err(ClientError::text(TOO_FEW_REPLICAS).into()),
    },
    // A replica takes writes from its primary only.
    Refusal {
        concerns: |executor, _| executor.is_replica() && executor.server.config.replica_read_only,
        covers: |executor, call| writes(&executor.server, call),
        decide: |_, _, _| Err(READ_ONLY_REPLICA.into()),
    },
    // Refuses nothing: before a command is the time to forget what clients have read.
    Refusal {
        concerns: |executor, _| executor.server.tracking.clients > 0,
        covers: |_, _| true,
        decide: |executor, _, _| {
            limit_tracking(&mut executor.server);
            Ok(())
        },
    },
    Refusal {
        concerns: |_, client| client.in_subscribed_context(),
        covers: |_, call| !call.row.is(flag::WHILE_SUBSCRIBED),
        decide: |_, call, _| Err(ClientError::SubscribedContext { command: call.row.name.to_owned() }.into()),
    },
    // Without its primary a replica's data may be stale.
    Refusal {
        concerns: |executor, _| executor.has_stale_data(),
        covers: |executor, call| lacks(&executor.server, call, flag::STALE),
        decide: |_, _, _| Err(PRIMARY_DOWN.into()),
    },
    Refusal {
        concerns: |executor, _| executor.server.loading != Loading::Nothing,
        covers: |executor, call| conflicts_with_load(&executor.server, call),
        decide: |executor, _, _| Err(ClientError::loading(executor.server.name()).into()),
    },
    Refusal {
        concerns: |executor, _| executor.server.scripts.slow().is_some(),
        covers: |_, call| !call.row.is(flag::ALLOW_BUSY),
        decide: |executor, _, _| {
            executor.server.slow_script_error().map_or(Ok(()), |error| Err(error.into()))
        },
    },
    // MONITOR clients count as replicas.
    Refusal {
        concerns: |_, client| client.is_monitor || client.is_replica,
        covers: |executor, call| flags_with_queue(&executor.server, call) & DATA != 0,
        decide: |_, _, _| Err(ClientError::text("ERR Replica can't interact with the keyspace").into()),
    },
    Refusal {
        concerns: |executor, _| executor.server.pauses.are_any() || executor.server.pauses.hold_slots(),
        covers: |_, _| true,
        decide: |executor, call, _| if executor.hold_back(call) { Err(Refused::Paused) } else { Ok(()) },
    },
    Refusal {
        concerns: |_, client| client.transaction.is_some(),
        covers: |_, call| !call.row.control.runs_inside_multi(),
        decide: |executor, call, _| {
            executor.queue(call);
            Err(Refused::Queued)
        },
    },
];

const DATA: flag::Flags = flag::WRITE | flag::READONLY | flag::MAY_REPLICATE;

/// Why a command does not run now.
#[derive(Debug)]
pub(super) enum Refused {
    /// Its reply.
    Error(ClientError),
    /// It runs when the pause ends.
    Paused,
    /// EXEC runs it.
    Queued,
    /// Its client is being closed.
    Evicted,
}

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        Refused::Error(error)
    }
}

/// Returns whether the command's row may refuse the call, whatever its client and the server.
#[inline(always)]
fn is_unfit(call: &Call<'_>) -> bool {
    !call.row.accepts(call.args.len()) || call.row.is(flag::PROTECTED)
}

impl Executor {
    /// Gets the gate for a command.
    #[inline]
    pub(super) fn open_gate(&mut self, call: &Call<'_>) {
        match self.gate.is_open_for(call.client) {
            true => self.check_gate(call),
            false => self.renew_gate(call.client, call.origin.replayed),
        }
    }

    /// `replayed`: the client is the one whose commands come from the append-only file.
    #[inline(never)]
    pub(super) fn renew_gate(&mut self, handle: ClientHandle, replayed: bool) {
        self.gate = Gate::of(self, handle, replayed);
        self.db.change_log.begin(self.server.listens_to_changes(), !replayed && self.records_changes());
        self.db.begin(self.turn_of(&self.server.clients[handle], replayed, false));
    }

    /// Invariant 1, in debug builds.
    #[inline(always)]
    pub(super) fn check_gate(&self, call: &Call<'_>) {
        if !cfg!(debug_assertions) {
            return;
        }
        let (open, new) = (&self.gate, Gate::of(self, call.client, call.origin.replayed));
        assert_eq!(new.refusals & !open.refusals, 0, "gate: invariant 1: refusals");
        assert!(open.is_watched || !new.is_watched, "gate: invariant 1: tracking clients and monitors");
        assert!(open.writes_differ || !new.writes_differ, "gate: invariant 1: writes");
        assert!(new.output_len_end >= open.output_len_end, "gate: invariant 1: replies");
        assert_eq!(new.args_max, open.args_max, "gate: invariant 1: arguments");
        let log = &self.db.change_log;
        assert!(log.is_listening() || !self.server.listens_to_changes(), "gate: invariant 1: listeners");
    }

    /// Returns the refusals from the first that covers the command: 0 if it may run.
    #[inline(always)]
    pub(super) fn refusals_of(&self, call: &Call<'_>) -> u32 {
        let mut refusals = self.gate.refusals | u32::from(is_unfit(call)) << UNFIT;
        while refusals != 0 && !(REFUSALS[refusals.trailing_zeros() as usize].covers)(self, call) {
            refusals &= refusals - 1;
        }
        refusals
    }

    /// Lets the refusals decide; returns where the reply begins if the command runs now. Nothing has run yet.
    #[inline(never)]
    pub(super) fn admit(
        &mut self,
        call: &Call<'_>,
        mut refusals: u32,
        reply: &mut ReplyBuffer,
    ) -> Result<usize, Refused> {
        while refusals != 0 {
            let refusal = &REFUSALS[refusals.trailing_zeros() as usize];
            if (refusal.covers)(self, call) {
                (refusal.decide)(self, call, reply.len())?;
            }
            refusals &= refusals - 1;
        }
        // Messages sent by eviction concern values from before the client's command.
        self.let_through_deferred(call.client, reply);
        // Eviction has begun a turn of its own.
        self.open_gate(call);
        Ok(reply.len())
    }

    /// Returns the error for writes while the disk fails.
    pub(super) fn disk_error(&self) -> Option<ClientError> {
        let config = &self.server.config;
        if self.saving.has_failed() && config.stop_writes_on_bgsave_error && !config.save.is_empty() {
            return Some(ClientError::saves_fail(self.server.name()));
        }
        let reason = self.aof.trouble()?;
        Some(ClientError::formatted(format!("MISCONF Errors writing to the AOF file: {reason}")))
    }

    /// Returns whether this is a replica with possibly stale data that must refuse dependent commands.
    pub(super) fn has_stale_data(&self) -> bool {
        self.is_replica() && !self.server.config.replica_serve_stale_data && !self.is_linked()
    }
}

/// Returns the transaction that the call would run.
pub(super) fn run_by<'a>(server: &'a Server, call: &Call<'_>) -> Option<&'a Transaction> {
    match call.row.control {
        Control::RunsTransaction => server.clients[call.client].transaction.as_deref(),
        _ => None,
    }
}

/// Returns the command's flags; EXEC has those of all its queued commands.
pub(super) fn flags_with_queue(server: &Server, call: &Call<'_>) -> flag::Flags {
    flags_of(&server.scripts, call.row, call.args)
        | run_by(server, call).map_or(0, |transaction| transaction.flags)
}

/// Returns whether EXEC would run a command that lacks this flag.
fn has_queued_without(server: &Server, call: &Call<'_>, flag: flag::Flags) -> bool {
    run_by(server, call).is_some_and(|transaction| transaction.missing_flags & flag != 0)
}

fn writes(server: &Server, call: &Call<'_>) -> bool {
    flags_with_queue(server, call) & flag::WRITE != 0
}

/// Returns whether the command, or one that EXEC would run, lacks this flag.
fn lacks(server: &Server, call: &Call<'_>, flag: flag::Flags) -> bool {
    flags_of(&server.scripts, call.row, call.args) & flag == 0 || has_queued_without(server, call, flag)
}

/// Closes the client if it is the one to be closed for the memory of all clients.
fn client_memory(executor: &mut Executor, call: &Call<'_>, output_len: usize) -> Result<(), Refused> {
    match is_evicted(&mut executor.server, call.client, call.args.bytes() + output_len) {
        true => Err(Refused::Evicted),
        false => Ok(()),
    }
}

/// Refuses what the command's row decides.
fn unfit(executor: &mut Executor, call: &Call<'_>, _: usize) -> Result<(), Refused> {
    let row = call.row;
    if !row.accepts(call.args.len()) {
        return Err(ClientError::WrongArity { command: row.name.to_owned() }.into());
    }
    // What is left are commands that only a local administrator may use, unless configured otherwise.
    let (container, _) = row.name.split_once('|').unwrap_or((row.name, ""));
    let config = &executor.server.config;
    let (permission, option) = match container {
        "debug" => (config.enable_debug_command, "enable-debug-command"),
        _ => (config.enable_module_command, "enable-module-command"),
    };
    if permission.allows(executor.server.clients[call.client].connection.is_loopback) {
        return Ok(());
    }
    Err(Refused::Error(ClientError::formatted(format!(
        "ERR {} command not allowed. If the {option} option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        container.to_ascii_uppercase()
    ))))
}

/// Returns whether the command belongs on the primary, for a client that can be redirected.
fn reads_or_writes_on_primary(server: &Server, call: &Call<'_>) -> bool {
    let flags = flags_with_queue(server, call);
    let reads = flags & flag::READONLY != 0 && !server.clients[call.client].routing.reads_replicas;
    flags & flag::WRITE != 0 || reads
}

fn redirected(executor: &mut Executor, call: &Call<'_>, _: usize) -> Result<(), Refused> {
    if executor.is_handing_over() {
        // The replica would redirect the client back here until it is promoted.
        executor.hold(call);
        return Err(Refused::Paused);
    }
    let Some(primary) = &executor.server.config.replicaof else { return Ok(()) };
    Err(ClientError::redirect(&primary.host, primary.port).into())
}

fn memory_shortage(executor: &mut Executor, call: &Call<'_>, _: usize) -> Result<(), Refused> {
    // The result from before the slow script began holds for its commands.
    if executor.is_busy() {
        return Ok(());
    }
    let is_limited = executor.server.config.maxmemory_bytes != 0 && !executor.is_loading();
    let is_short = is_limited && executor.make_room() == Room::None;
    executor.server.short_of_memory = is_short;
    if is_short && flags_with_queue(&executor.server, call) & flag::DENY_OOM != 0 {
        return Err(ClientError::OutOfMemory.into());
    }
    Ok(())
}

/// Returns whether the command does not run while data is loaded: it needs data, or conflicts with a load that is to
/// replace the data.
fn conflicts_with_load(server: &Server, call: &Call<'_>) -> bool {
    match server.loading {
        Loading::Nothing => false,
        Loading::InPlace => !call.row.is(flag::LOADING) || has_queued_without(server, call, flag::LOADING),
        Loading::Beside => flags_with_queue(server, call) & flag::NO_ASYNC_LOADING != 0,
    }
}
