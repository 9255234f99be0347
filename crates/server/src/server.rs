//! Everything of a running server that is not data: configuration, clients, and what is observed. The executor
//! owns one; handlers reach it through their context.

mod certificates;
pub mod client_line;
mod clients;
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
use tls::ClientConfig;
use wire::rdb::PayloadWriter;
use wire::reply::ReplyBuffer;

/// What a client is answered that may not write because of it.
pub const TOO_FEW_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// What a command asks of the process around the executor, which does it after the tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessRequest {
    Shutdown,
    /// A connection to a server, for a client that has none yet.
    Connect {
        client: ClientHandle,
        target: Target,
    },
}

/// A server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: Vec<u8>,
    pub port: u16,
    /// The address of this machine that the connection is to come from.
    pub source: Option<Vec<u8>>,
}

/// What a command asks of those who keep the data on disk. The engine does it at once and writes the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersistRequest {
    Save,
    BackgroundSave {
        /// When something else is being written, after that.
        schedule: bool,
    },
    CancelSave,
    RewriteAof,
    /// FLUSHALL has removed all data.
    AllFlushed,
    /// DEBUG RELOAD.
    Reload {
        save: bool,
        flush: bool,
        /// Keys in the file take the place of those in memory.
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
    Shutdown(Shutdown),
    /// SHUTDOWN ABORT.
    AbortShutdown,
}

/// What a command asks of replication. The engine does it at once and writes the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicationRequest {
    /// PSYNC, or SYNC if it is not said from where on.
    Synchronize {
        from: Option<Point>,
    },
    /// REPLCONF ACK, of a replica.
    Acknowledged {
        stream: i64,
        /// What is in its append-only file, on disk.
        on_disk: Option<i64>,
        /// The message makes sense to its end.
        is_heard: bool,
    },
    /// DEBUG REPLICATE: a command, encoded, for replicas only.
    Feed(Vec<u8>),
    /// DEBUG CHANGE-REPL-ID.
    ChangeId,
    /// REPLICAOF: another server's data from now on, or none.
    Follow(Option<ReplicaOf>),
    Failover(FailoverWish),
    /// FAILOVER ABORT.
    AbortFailover,
}

/// FAILOVER: a replica is to take this server's role over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverWish {
    /// Host and port, as the replica has told them; `None`: whichever has all of the stream first.
    pub target: Option<(Vec<u8>, i64)>,
    /// When the time is over the target takes over with what it has.
    pub force: bool,
    pub timeout_ms: Option<u64>,
}

/// Where a replica wants to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Of the history that it has seen.
    pub id: Vec<u8>,
    /// Number of the first byte that it has not; `None`: no number was given.
    pub next: Option<i64>,
    /// Whoever asks is to be this server's replica from now on.
    pub takes_over: bool,
}

/// Keys on their way to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    pub host: Vec<u8>,
    pub port: Vec<u8>,
    /// For each step of the conversation.
    pub timeout_ms: u64,
    pub target_db: i64,
    /// The command that comes first, if any.
    pub authentication: Option<Vec<Vec<u8>>>,
    /// The keys stay here too.
    pub copy: bool,
    pub keys: Vec<Vec<u8>>,
    /// One RESTORE for each key, as it is sent.
    pub commands: Vec<u8>,
}

/// How the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// Saved or not saved, whatever the configuration says.
    pub save: Option<bool>,
    /// Goes on after failures.
    pub force: bool,
    /// Waits for no replica.
    pub now: bool,
}

/// What commands go by that wait for the append-only file; the engine keeps it true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// The append-only file is in use.
    pub aof_enabled: bool,
    /// So many of all bytes appended to it are on disk; `None` if none of them would be loaded from there.
    pub aof_synced: Option<u64>,
}

impl Durability {
    /// Whether what ends there, counted as [`Durability::aof_synced`] is, survives a loss of power.
    pub fn is_synced(&self, end: u64) -> bool {
        self.aof_synced.is_some_and(|synced| synced >= end)
    }
}

/// What commands go by that depend on replicas; the engine keeps it true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStanding {
    /// What each replica that is online has acknowledged.
    pub acknowledged: Vec<AcknowledgedOffsets>,
    /// Those that have been heard of lately enough for `min-replicas-max-lag`.
    pub good: usize,
    /// Somebody has begun to wait: replicas are to say at once how far they are.
    pub acknowledgements_wanted: bool,
    /// Clients of which each has been promised that the stream is kept for another that names it.
    pub awaiting_main_channel: Vec<ClientId>,
}

/// Bytes of the stream that a replica has taken in; `None` before it has said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedOffsets {
    pub stream: Option<u64>,
    /// And forced to disk; `None` for one that has no append-only file, too.
    pub on_disk: Option<u64>,
}

/// Who has a client's last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// The append-only file, on disk.
    pub local: bool,
    pub replicas: usize,
    pub replicas_on_disk: usize,
}

impl Acknowledgements {
    /// Whether these are as many as WAIT or, with `on_disk`, WAITAOF has asked for.
    pub fn satisfies(&self, local: bool, replicas: i64, on_disk: bool) -> bool {
        let count = if on_disk { self.replicas_on_disk } else { self.replicas };
        count as i64 >= replicas && (self.local || !local)
    }
}

/// How long the stream is kept for the main channel of a replica whose other one has ended, unless DEBUG says otherwise.
const RDB_CLIENT_FREE_DELAY_S: u64 = 5;
/// How long a client's largest reply of late counts when its buffer may shrink, unless DEBUG says otherwise.
pub const REPLY_PEAK_RESET_MS: u64 = 5000;

/// What DEBUG switches on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Due keys are searched for in the background.
    pub active_expire: bool,
    pub cron: bool,
    /// Tables of keys grow and shrink in the background.
    pub table_steps: bool,
    /// Scripts are denied the commands that they may not call.
    pub deny_scripts: bool,
    /// Reply buffers shrink.
    pub reply_resizing: bool,
    /// `None`: a client's largest reply counts for ever.
    pub reply_peak_reset_ms: Option<u64>,
    /// All unsent output counts against a client's limits, and none as its reply buffer.
    pub enforce_reply_list: bool,
    /// Payloads and files are taken whatever their checksums say.
    pub skip_checksums: bool,
    /// A pause before each write to the append-only file.
    pub aof_write_delay_us: u64,
    /// The process stops itself when a child has begun to write a snapshot for replicas.
    pub pause_after_fork: bool,
    /// So long is the stream kept for the main channel of a replica whose other one has ended.
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

/// Whether data is being loaded. The engine says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loading {
    #[default]
    Nothing,
    /// The data itself: only commands that need none run.
    InPlace,
    /// What is going to take the place of the data, which goes on being served.
    Beside,
}

/// Who this process is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Forty hexadecimal digits, new for each start.
    pub run_id: String,
    pub process_id: u32,
    pub executable: String,
    pub config_file: String,
    pub started: Reading,
}

/// What the configuration steers outside the executor: sockets, the working directory, limits of the process.
pub trait ProcessSettings {
    /// Gets ready all that `next` needs, without which it cannot be put in force. On failure, and when the result is
    /// dropped, everything stays as `current` says.
    fn prepare(
        &mut self,
        current: &Config,
        next: &Config,
        changes: &[Change],
    ) -> Result<Box<dyn PreparedSettings>, SetError>;

    /// What connections to other servers speak TLS by; `None`: there is no TLS.
    fn tls_client(&self) -> Option<Arc<ClientConfig>> {
        None
    }
}

/// What has been got ready for another configuration.
pub trait PreparedSettings {
    /// Makes the world what `config` says, for which this was prepared. It cannot fail.
    fn commit(self: Box<Self>, config: &Config);
}

/// A configuration that a command asks for and that is not in force yet.
pub struct PreparedConfig {
    pub config: Config,
    pub changes: Vec<Change>,
    pub settings: Box<dyn PreparedSettings>,
}

/// A world without sockets or files, for tests.
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

pub struct Server {
    pub config: Config,
    /// What CONFIG SET asks for; the executor puts it in force when the command has run.
    pub prepared_config: Option<Box<PreparedConfig>>,
    pub process_settings: Box<dyn ProcessSettings>,
    /// The instant of the command at hand.
    pub now: Reading,
    pub registry: Registry,
    pub identity: Identity,
    pub users: Users,
    pub clients: Clients,
    pub pubsub: PubSub,
    pub tracking: TrackingTable,
    pub watch: WatchTable,
    pub blocked: BlockedTable,
    pub pauses: Pauses,
    pub switches: Switches,
    pub scripts: Scripts,
    /// For DUMP and its like, one at a time.
    pub payload_writer: PayloadWriter,
    /// There was no room for the command at hand: what may need more is refused.
    pub short_of_memory: bool,
    /// What counts below zero may still ask for in the transaction that runs; see
    /// [`Context::begin_repetition`](crate::command::Context::begin_repetition).
    pub allowance: Allowance,
    pub loading: Loading,
    pub durability: Durability,
    pub replicas: ReplicaStanding,
    pub observed: Observations,
    /// Clients that watch every command (MONITOR); one that has stopped is dropped at the next command.
    pub monitors: Vec<ClientHandle>,
    pub process_requests: Vec<ProcessRequest>,
    /// Clients that a command or a limit has scheduled to be closed; the event loop closes them after the tick.
    pub clients_to_close: Vec<ClientHandle>,
    /// Clients whose waiting is over: what they have sent meanwhile may run.
    pub resumed: VecDeque<ClientHandle>,
}

impl Server {
    /// `secret` is for passwords that are made up.
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
            replicas: ReplicaStanding::default(),
            observed: Observations::new(commands, now.unix_us / 1_000_000),
            monitors: Vec::new(),
            process_requests: Vec::new(),
            clients_to_close: Vec::new(),
            resumed: VecDeque::new(),
        }
    }

    /// Marks a client to be closed without sending what it has not received yet. It takes part in nothing from now.
    pub fn close_asap(&mut self, handle: ClientHandle) {
        let client = &mut self.clients[handle];
        if !client.close_asap {
            client.close_asap = true;
            self.clients_to_close.push(handle);
            self.detach(handle);
            self.clients.count_memory(handle);
        }
    }

    /// Takes a client out of all that connects it with keys, channels and other clients.
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

    /// A blocked client gives up, because its time is over or because of CLIENT UNBLOCK: the command counts as run.
    pub fn note_given_up(&mut self, handle: ClientHandle, refused: bool) {
        let Some(blocked) = &self.clients[handle].blocked else { return };
        let figures = &mut self.observed.commands[blocked.command.0 as usize];
        figures.count(0, false, self.config.latency_tracking);
        figures.rejected += u64::from(refused);
        self.observed.statistics.commands_processed += 1;
        self.clients[handle].commands_total += 1;
    }

    /// `requirepass` is the password of the user `default`.
    pub fn follow_password(&mut self, changes: &[Change]) {
        if changes.iter().any(|change| change.option == OptionId::requirepass) {
            self.users.set_default_password(self.config.requirepass.as_deref());
        }
    }

    /// Who has what the client has changed last.
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

    /// Whether more good replicas are asked for than there are. Of a replica none are.
    pub fn lacks_replicas(&self) -> bool {
        let config = &self.config;
        config.replicaof.is_none()
            && config.min_replicas_max_lag_seconds > 0
            && self.replicas.good < config.min_replicas_to_write as usize
    }

    /// What others are answered while a script takes long.
    pub fn slow_script_error(&self) -> Option<ClientError> {
        let running = self.scripts.slow()?;
        let name = if self.config.extended_redis_compatibility { "Redis" } else { "Valkey" };
        let kill = if running.call.mode == Mode::Eval { "SCRIPT KILL" } else { "FUNCTION KILL" };
        Some(ClientError::formatted(format!(
            "BUSY {name} is busy running a script. You can only call {kill} or SHUTDOWN NOSAVE."
        )))
    }

    /// How rules for users are to be read.
    pub fn rules(&self) -> Rules<'_> {
        rules_of(&self.registry, &self.config)
    }

    /// Applies rules to a user, who is made if there is none.
    pub fn set_user(&mut self, name: &[u8], arguments: &[&[u8]]) -> Result<Changed, ArgumentError> {
        self.users.set(name, arguments, rules_of(&self.registry, &self.config))
    }

    /// Whether changes to keys interest anybody.
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
