//! The state of a running server except its data: configuration, clients, and observations. The executor owns one;
//! handlers reach it through their context.

mod certificates;
pub mod client_line;
mod clients;
pub mod cluster_node;
pub mod denials;
pub mod pause;

use crate::acl::{ArgumentError, Changed, Rules, Users};
use crate::clock::Reading;
use crate::command::registry::Registry;
use crate::command::repetition::Allowance;
use crate::config::{AclPubsubDefault, Change, Config, OptionId, ReplicaOf, SetError};
use crate::error::ClientError;
use crate::observe::Observations;
use crate::script::{Mode, Scripts, environment};
use crate::session::blocked::BlockedTable;
use crate::session::pubsub::PubSub;
use crate::session::tracking::TrackingTable;
use crate::session::watch::WatchTable;
use crate::session::{ClientHandle, ClientId, Clients, ReplyMode};
use pause::Pauses;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tls::ClientConfig;
use wire::convert::signed_len;
use wire::rdb::PayloadWriter;
use wire::reply::ReplyBuffer;

/// The error in place of replies that have waited too long for replicas.
pub const NOT_CONFIRMED: &str =
    "NOREPLICAS Not enough replicas have confirmed the changes in time: they may have been made.";
/// The error reply to writes without enough good replicas.
pub const TOO_FEW_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// A command's request to the process around the executor, carried out after the tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessRequest {
    /// End the process.
    Shutdown,
    /// Connect a client without a connection to a server.
    Connect {
        /// The client of the connection.
        client: ClientHandle,
        /// The address.
        target: Target,
    },
}

/// A server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address.
    pub host: Vec<u8>,
    /// TCP port.
    pub port: u16,
    /// The local address of the connection.
    pub source: Option<Vec<u8>>,
}

/// A command's request to persistence. The engine carries it out at once and writes the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersistRequest {
    /// SAVE.
    Save,
    /// BGSAVE.
    BackgroundSave {
        /// While another child writes, save afterwards.
        schedule: bool,
    },
    /// BGSAVE CANCEL.
    CancelSave,
    /// BGREWRITEAOF.
    RewriteAof,
    /// FLUSHALL has removed all data.
    AllFlushed,
    /// DEBUG RELOAD.
    Reload {
        /// Save before loading.
        save: bool,
        /// Remove all data before loading.
        flush: bool,
        /// Keys in the file replace those in memory.
        merge: bool,
    },
    /// DEBUG LOADAOF.
    LoadAof,
    /// MIGRATE.
    Migrate(Box<Migration>),
    /// ACL LOAD.
    LoadUsers,
    /// ACL SAVE.
    SaveUsers,
    /// SHUTDOWN.
    Shutdown(Shutdown),
    /// SHUTDOWN ABORT.
    AbortShutdown,
}

/// A command's request to replication. The engine carries it out at once and writes the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicationRequest {
    /// PSYNC, or SYNC if no starting point is given.
    Synchronize {
        /// The point from which the replica can continue.
        from: Option<Point>,
    },
    /// REPLCONF ACK, of a replica.
    Acknowledged {
        /// Offset in the stream up to which the replica has applied it.
        stream: i64,
        /// The offset that its append-only file has on disk.
        on_disk: Option<i64>,
        /// The message was valid to its end.
        is_sign_of_life: bool,
    },
    /// DEBUG REPLICATE: an encoded command for replicas only.
    Feed(Vec<u8>),
    /// DEBUG CHANGE-REPL-ID.
    ChangeId,
    /// REPLICAOF: follow another server, or none.
    Follow(Option<ReplicaOf>),
    /// FAILOVER.
    Failover(FailoverRequest),
    /// FAILOVER ABORT.
    AbortFailover,
}

/// FAILOVER: hand this server's role over to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverRequest {
    /// Host and port as announced by the replica; `None`: the first that has all of the stream.
    pub target: Option<(Vec<u8>, i64)>,
    /// At the timeout the target takes over with the data it has.
    pub force: bool,
    /// How long to wait for the target to have all of the stream; `None`: without limit.
    pub timeout_ms: Option<u64>,
}

/// The position from which a replica can continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The id of its history.
    pub id: Vec<u8>,
    /// Number of the next byte it needs; `None`: no number was given.
    pub next: Option<i64>,
    /// The requesting server becomes this server's replica.
    pub takes_over: bool,
}

/// Keys being moved to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Name or address of the target.
    pub host: Vec<u8>,
    /// Its TCP port, as text.
    pub port: Vec<u8>,
    /// For each step of the exchange.
    pub timeout_ms: u64,
    /// The database there.
    pub target_db: i64,
    /// The authentication command sent first, if any.
    pub authentication: Option<Vec<Vec<u8>>>,
    /// The keys stay here too.
    pub copy: bool,
    /// The keys, as named here and there.
    pub keys: Vec<Vec<u8>>,
    /// One encoded RESTORE for each key.
    pub commands: Vec<u8>,
}

/// Options of a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether to save; `None`: as configured.
    pub save: Option<bool>,
    /// Ends even after failures.
    pub force: bool,
    /// Waits for no replica.
    pub now: bool,
    /// Does not end a node of a cluster that has slots.
    pub safe: bool,
    /// A replica that has all data takes the slots of this node of a cluster over.
    pub hands_over: bool,
    /// Requested by a signal, without a reply: a script that does not end cannot prevent it.
    pub by_signal: bool,
    /// The server starts again, after this time.
    pub restarts_after: Option<Duration>,
}

/// State of the append-only file for commands that wait for it; maintained by the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// The append-only file is enabled.
    pub aof_enabled: bool,
    /// Appended bytes that are on disk; `None` while the file is not loadable.
    pub aof_synced: Option<u64>,
}

impl Durability {
    /// Returns whether a change that ends there, in the count of [`Durability::aof_synced`], survives a power failure.
    pub fn is_synced(&self, end: u64) -> bool {
        self.aof_synced.is_some_and(|synced| synced >= end)
    }
}

/// State of the replicas for commands that depend on it; maintained by the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStanding {
    /// The acknowledged offsets of each online replica.
    pub acknowledged: Vec<AcknowledgedOffsets>,
    /// Number of replicas within `min-replicas-max-lag`.
    pub good: usize,
    /// Number of online replicas that take CLUSTER SETSLOT from the stream.
    pub know_slots: usize,
    /// A client has begun to wait: acknowledgements of the replicas are requested.
    pub acknowledgements_requested: bool,
    /// Rdb channels for each of which the stream is kept until a main channel names it.
    pub awaiting_main_channel: Vec<ClientId>,
}

/// Stream bytes that a replica has applied; `None` before its first acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedOffsets {
    /// Bytes that it has applied.
    pub stream: Option<u64>,
    /// Bytes it has on disk; `None` also without an append-only file.
    pub on_disk: Option<u64>,
}

/// The copies that have a client's last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// This server's append-only file has it on disk.
    pub local: bool,
    /// Number of replicas that have applied it.
    pub replicas: usize,
    /// Number of replicas whose append-only files have it on disk.
    pub replicas_on_disk: usize,
}

impl Acknowledgements {
    /// Returns whether the condition of WAIT or, with `on_disk`, WAITAOF holds.
    pub fn satisfies(&self, local: bool, replicas: i64, on_disk: bool) -> bool {
        let count = if on_disk { self.replicas_on_disk } else { self.replicas };
        signed_len(count) >= replicas && (self.local || !local)
    }
}

/// How long the stream is kept for the main channel after its rdb channel has closed, unless changed by DEBUG.
const RDB_CLIENT_FREE_DELAY_S: u64 = 5;
/// Period after which a client's peak reply size is reset, unless changed by DEBUG.
pub const REPLY_PEAK_RESET_MS: u64 = 5000;

/// Switches of DEBUG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Expired keys are searched for in the background.
    pub active_expire: bool,
    /// Periodic work is done.
    pub cron: bool,
    /// Tables of keys grow and shrink in the background.
    pub table_steps: bool,
    /// Scripts are denied the commands that they may not call.
    pub deny_scripts: bool,
    /// Reply buffers shrink.
    pub reply_resizing: bool,
    /// `None`: the peak reply size is never reset.
    pub reply_peak_reset_ms: Option<u64>,
    /// All unsent output counts against a client's limits, none of it as reply buffer.
    pub enforce_reply_list: bool,
    /// Payloads and files are accepted with wrong checksums.
    pub skip_checksums: bool,
    /// Delay before each write to the append-only file.
    pub aof_write_delay_us: u64,
    /// The process stops itself when a child has begun to write a snapshot for replicas.
    pub pause_after_fork: bool,
    /// How long the stream is kept for the main channel after its rdb channel has closed.
    pub rdb_client_free_delay_s: u64,
}

impl Default for Switches {
    fn default() -> Self {
        Switches {
            active_expire: true,
            cron: true,
            table_steps: true,
            deny_scripts: true,
            reply_resizing: true,
            reply_peak_reset_ms: Some(REPLY_PEAK_RESET_MS),
            enforce_reply_list: false,
            skip_checksums: false,
            aof_write_delay_us: 0,
            pause_after_fork: false,
            rdb_client_free_delay_s: RDB_CLIENT_FREE_DELAY_S,
        }
    }
}

/// The running load of data, set by the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loading {
    /// No load is running.
    #[default]
    Nothing,
    /// The data in use: only commands that need no data run.
    InPlace,
    /// A replacement of the data in use, which clients can read.
    Beside,
}

/// The identity of this process.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Forty hexadecimal digits, new for each start.
    pub run_id: String,
    /// The number of this process.
    pub process_id: u32,
    /// The path of the program.
    pub executable: String,
    /// The path of the configuration file; empty if there is none.
    pub config_file: String,
    /// When the process started.
    pub started: Reading,
}

/// Configuration applied outside the executor: sockets, the working directory, limits of the process.
pub trait ProcessSettings {
    /// Prepares everything that `next` requires to be put in force. On failure, and when the result is dropped,
    /// everything stays as in `current`.
    fn prepare(
        &mut self,
        current: &Config,
        next: &Config,
        changes: &[Change],
    ) -> Result<Box<dyn PreparedSettings>, SetError>;

    /// Returns the TLS configuration of outgoing connections; `None`: TLS is off.
    fn tls_client(&self) -> Option<Arc<ClientConfig>> {
        None
    }
}

/// The prepared settings of another configuration.
pub trait PreparedSettings {
    /// Applies `config`, for which this was prepared. It cannot fail.
    fn commit(self: Box<Self>, config: &Config);
}

/// A requested configuration that is not in force yet.
pub struct PreparedConfig {
    /// All options, changed ones included.
    pub config: Config,
    /// The options that change.
    pub changes: Vec<Change>,
    /// What the process has got ready for it.
    pub settings: Box<dyn PreparedSettings>,
}

/// Settings without sockets or files, for tests.
pub struct NoProcessSettings;

impl ProcessSettings for NoProcessSettings {
    fn prepare(
        &mut self,
        _current: &Config,
        _next: &Config,
        _changes: &[Change],
    ) -> Result<Box<dyn PreparedSettings>, SetError> {
        Ok(Box::new(NoProcessSettings))
    }
}

impl PreparedSettings for NoProcessSettings {
    fn commit(self: Box<Self>, _config: &Config) {}
}

/// The state of a running server except its data.
pub struct Server {
    /// The options in force.
    pub config: Config,
    /// The configuration requested by CONFIG SET; the executor applies it after the command.
    pub prepared_config: Option<Box<PreparedConfig>>,
    /// Puts options in force that concern sockets and the process.
    pub process_settings: Box<dyn ProcessSettings>,
    /// The time of the current command.
    pub now: Reading,
    /// All commands, by name and by number.
    pub registry: Registry,
    /// What this process is.
    pub identity: Identity,
    /// Users and their rules.
    pub users: Users,
    /// All clients, by handle.
    pub clients: Clients,
    /// Subscribers by channel and pattern.
    pub pubsub: PubSub,
    /// Which clients have read which keys: client-side caching.
    pub tracking: TrackingTable,
    /// Which clients watch which keys: WATCH.
    pub watch: WatchTable,
    /// Clients that wait, by what they wait for.
    pub blocked: BlockedTable,
    /// Which clients are paused, and until when: CLIENT PAUSE.
    pub pauses: Pauses,
    /// Switches of DEBUG.
    pub switches: Switches,
    /// Scripts and libraries.
    pub scripts: Scripts,
    /// For DUMP and similar commands, one at a time.
    pub payload_writer: PayloadWriter,
    /// Eviction failed; DENY_OOM commands are refused.
    pub short_of_memory: bool,
    /// The rest of the current transaction's allowance for negative counts; see
    /// [`Context::begin_repetition`](crate::command::Context::begin_repetition).
    pub allowance: Allowance,
    /// The load of data that is running.
    pub loading: Loading,
    /// How far the append-only file is on disk.
    pub durability: Durability,
    /// Whether figures of slots are kept: `cluster-slot-stats-enabled` on a node of a cluster.
    pub counts_slots: bool,
    /// This server as a node of a cluster; `None` unless `cluster-enabled`.
    pub cluster: Option<Box<cluster_node::ClusterNode>>,
    /// What replicas have acknowledged.
    pub replicas: ReplicaStanding,
    /// Counters, logs and figures.
    pub observed: Observations,
    /// MONITOR clients; one that has stopped is dropped at the next command.
    pub monitors: Vec<ClientHandle>,
    /// Commands' requests to the process, carried out after the tick.
    pub process_requests: Vec<ProcessRequest>,
    /// The server starts again after the shutdown, and after this time.
    pub restarts_after: Option<Duration>,
    /// Clients scheduled for closing by a command or a limit; the event loop closes them after the tick.
    pub clients_to_close: Vec<ClientHandle>,
    /// Unblocked clients: their pending requests may run.
    pub resumed: VecDeque<ClientHandle>,
}

impl Server {
    /// `secret` is the seed for generated passwords.
    pub fn new(
        config: Config,
        registry: Registry,
        identity: Identity,
        now: Reading,
        secret: [u8; 32],
    ) -> Self {
        let commands = registry.len();
        let scripts = Scripts::new(environment::Options { insecure: config.lua_enable_insecure_api });
        let users = Users::new(&registry, config.requirepass.as_deref(), secret);
        Server {
            users,
            config,
            prepared_config: None,
            process_settings: Box::new(NoProcessSettings),
            now,
            registry,
            identity,
            clients: Clients::default(),
            pubsub: PubSub::default(),
            tracking: TrackingTable::default(),
            watch: WatchTable::default(),
            blocked: BlockedTable::default(),
            pauses: Pauses::default(),
            switches: Switches::default(),
            scripts,
            payload_writer: PayloadWriter::default(),
            short_of_memory: false,
            allowance: Allowance::default(),
            loading: Loading::default(),
            durability: Durability::default(),
            counts_slots: false,
            cluster: None,
            replicas: ReplicaStanding::default(),
            observed: Observations::new(commands, now.unix_us / 1_000_000),
            monitors: Vec::new(),
            process_requests: Vec::new(),
            restarts_after: None,
            clients_to_close: Vec::new(),
            resumed: VecDeque::new(),
        }
    }

    /// Marks a client for closing without sending its remaining output. It takes part in nothing from now on.
    pub fn close_asap(&mut self, handle: ClientHandle) {
        let client = &mut self.clients[handle];
        if !client.close_asap {
            client.close_asap = true;
            self.clients_to_close.push(handle);
            self.detach(handle);
            self.clients.count_memory(handle);
        }
    }

    /// Removes a client from all tables that connect it with keys, channels and other clients.
    pub fn detach(&mut self, handle: ClientHandle) {
        self.blocked.unblock(&mut self.clients, handle);
        self.watch.unwatch_all(&mut self.clients, handle);
        self.pubsub.unsubscribe_all(&mut self.clients, handle);
        self.tracking.disable(&mut self.clients, handle);
        self.monitors.retain(|&other| other != handle);
    }

    /// Unblocks a client: `answer` writes its reply, and its further requests may run.
    pub fn wake(&mut self, handle: ClientHandle, answer: impl FnOnce(&mut ReplyBuffer)) {
        self.blocked.unblock(&mut self.clients, handle);
        match self.clients[handle].reply_mode {
            ReplyMode::On => self.clients.push(handle, answer),
            mode => self.clients[handle].reply_mode = mode.after_command(),
        }
        self.resumed.push_back(handle);
    }

    /// Adds a client's command to the figures of a slot; `bytes_out`: its reply and its bytes in the replication stream. The
    /// primary gets no replies.
    pub fn count_slot(
        &mut self,
        client: ClientHandle,
        slot: u16,
        elapsed_ns: u64,
        [bytes_in, bytes_out]: [u64; 2],
    ) {
        if let Some(node) = &mut self.cluster {
            let figures = node.figures_mut(slot);
            figures.cpu_ns += elapsed_ns;
            figures.bytes_in += bytes_in;
            figures.bytes_out += if self.clients[client].is_primary { 0 } else { bytes_out };
        }
    }

    /// Records a blocked command that ended without running again as run: by timeout, CLIENT UNBLOCK or a save.
    pub fn note_given_up(&mut self, handle: ClientHandle, refused: bool) {
        let Some(blocked) = &self.clients[handle].blocked else { return };
        let figures = &mut self.observed.commands[blocked.command.0 as usize];
        figures.count(0, false, self.config.latency_tracking);
        figures.rejected += u64::from(refused);
        self.observed.statistics.commands_processed += 1;
        self.clients[handle].commands_total += 1;
    }

    /// Applies `requirepass`, the password of the user `default`.
    pub fn follow_password(&mut self, changes: &[Change]) {
        if changes.iter().any(|change| change.option == OptionId::requirepass) {
            self.users.set_default_password(self.config.requirepass.as_deref());
        }
    }

    /// Returns the copies that have the client's last change.
    pub fn acknowledged_by(&self, handle: ClientHandle) -> Acknowledgements {
        let client = &self.clients[handle];
        let offsets = &self.replicas.acknowledged;
        let has = |offset: Option<u64>| offset.is_some_and(|offset| offset >= client.stream_end);
        Acknowledgements {
            local: self.durability.is_synced(client.log_end),
            replicas: offsets.iter().filter(|replica| has(replica.stream)).count(),
            replicas_on_disk: offsets.iter().filter(|replica| has(replica.on_disk)).count(),
        }
    }

    /// Returns whether there are fewer good replicas than required. A replica requires none.
    pub fn lacks_replicas(&self) -> bool {
        let config = &self.config;
        let lacks_good = config.min_replicas_max_lag_seconds > 0
            && self.replicas.good < config.min_replicas_to_write as usize;
        let lacks_durable = self.replicas.acknowledged.len() < config.min_replicas_durable as usize;
        config.replicaof.is_none() && (lacks_good || lacks_durable)
    }

    /// Returns whether replies wait for replicas. Those of a replica do not.
    pub fn needs_durable_replicas(&self) -> bool {
        self.config.min_replicas_durable > 0 && self.config.replicaof.is_none()
    }

    /// Returns the offset of the stream up to which `min-replicas-durable` replicas have all changes; `None`: there are
    /// fewer.
    pub fn durable_stream_offset(&self) -> Option<u64> {
        let config = &self.config;
        let last = (config.min_replicas_durable as usize).checked_sub(1)?;
        let of_replica = |replica: &AcknowledgedOffsets| match config.min_replicas_durable_on_disk {
            true => replica.on_disk,
            false => replica.stream,
        };
        let mut offsets: Vec<u64> = self.replicas.acknowledged.iter().filter_map(of_replica).collect();
        (last < offsets.len()).then(|| *offsets.select_nth_unstable_by(last, |a, b| b.cmp(a)).1)
    }

    /// Returns the name under which clients know this server.
    pub fn name(&self) -> &'static str {
        if self.config.extended_redis_compatibility { "Redis" } else { "Valkey" }
    }

    /// Returns the error for other clients while a slow script runs.
    pub fn slow_script_error(&self) -> Option<ClientError> {
        let running = self.scripts.slow()?;
        let name = self.name();
        let kill = if running.call.mode == Mode::Eval { "SCRIPT KILL" } else { "FUNCTION KILL" };
        Some(ClientError::formatted(format!(
            "BUSY {name} is busy running a script. You can only call {kill} or SHUTDOWN NOSAVE."
        )))
    }

    /// Returns the context for parsing user rules.
    pub fn rules(&self) -> Rules<'_> {
        rules_of(&self.registry, &self.config)
    }

    /// Applies rules to a user, created if missing.
    pub fn set_user(&mut self, name: &[u8], arguments: &[&[u8]]) -> Result<Changed, ArgumentError> {
        self.users.set(name, arguments, rules_of(&self.registry, &self.config))
    }

    /// Returns whether changes to keys must be reported to any client.
    #[inline]
    pub fn listens_to_changes(&self) -> bool {
        !self.watch.is_empty()
            || self.tracking.clients > 0
            || self.blocked.waits_for_keys()
            || !self.config.notify_keyspace_events.is_empty()
    }
}

fn rules_of<'a>(registry: &'a Registry, config: &Config) -> Rules<'a> {
    Rules { registry, all_channels: config.acl_pubsub_default == AclPubsubDefault::AllChannels }
}
