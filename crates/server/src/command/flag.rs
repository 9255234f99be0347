//! The properties of commands that the gate, COMMAND INFO and the ACL categories read.

/// A set of the constants below.
pub type Flags = u32;

/// Can change data.
pub const WRITE: Flags = 1 << 0;
/// Only reads data.
pub const READONLY: Flags = 1 << 1;
/// Can increase memory use: refused when memory is short.
pub const DENY_OOM: Flags = 1 << 2;
/// An administrative command.
pub const ADMIN: Flags = 1 << 3;
/// Accesses channels.
pub const PUBSUB: Flags = 1 << 4;
/// Not allowed in scripts.
pub const NO_SCRIPT: Flags = 1 << 5;
/// Can block its client.
pub const BLOCKING: Flags = 1 << 6;
/// Allowed while the data set loads.
pub const LOADING: Flags = 1 << 7;
/// Allowed on a replica whose data is stale.
pub const STALE: Flags = 1 << 8;
/// Not shown by MONITOR.
pub const SKIP_MONITOR: Flags = 1 << 9;
/// Not logged in the command log.
pub const SKIP_COMMANDLOG: Flags = 1 << 10;
/// Behaves as after ASKING in a cluster.
pub const ASKING: Flags = 1 << 11;
/// Takes constant or logarithmic time.
pub const FAST: Flags = 1 << 12;
/// Allowed before authentication.
pub const NO_AUTH: Flags = 1 << 13;
/// Can write although it is no WRITE command (a script, PUBLISH). Not shown.
pub const MAY_REPLICATE: Flags = 1 << 14;
/// Can be called without keys.
pub const NO_MANDATORY_KEYS: Flags = 1 << 15;
/// Allowed only for clients that an option permits (DEBUG). Not shown.
pub const PROTECTED: Flags = 1 << 16;
/// Not allowed while a replica loads data beside its old data.
pub const NO_ASYNC_LOADING: Flags = 1 << 17;
/// Not allowed in a transaction.
pub const NO_MULTI: Flags = 1 << 18;
/// Allowed while a slow script runs.
pub const ALLOW_BUSY: Flags = 1 << 19;
/// Reads keys that its arguments do not name (SCAN). Not shown.
pub const TOUCHES_ARBITRARY_KEYS: Flags = 1 << 20;
/// Key positions depend on the arguments' content; derived from the key specifications.
pub const MOVABLE_KEYS: Flags = 1 << 21;
/// Is in the table only as the container of its subcommands and HELP.
pub const SENTINEL: Flags = 1 << 22;
/// Allowed while the client is subscribed under RESP2. Not shown.
pub const WHILE_SUBSCRIBED: Flags = 1 << 23;
/// Its changes are artificial or read from files: they go to the append-only file and not to replicas (DEBUG). Not shown.
pub const LOCAL: Flags = 1 << 24;
/// Never appears in a primary's stream, although it writes: other commands replace it there (MIGRATE). Not shown.
pub const NOT_STREAMED: Flags = 1 << 25;
/// Keeps CLIENT CACHING, which applies to the next command, in force (CLIENT). Not shown.
pub const KEEPS_CACHING: Flags = 1 << 26;
/// Can have an effect in a database other than its client's (MOVE, COPY). Not shown.
pub const LEAVES_DATABASE: Flags = 1 << 27;
/// Moves keys to another server, and so is served for slots that are being moved (MIGRATE). Not shown.
pub const MOVES_KEYS: Flags = 1 << 28;
/// A primary may send it to its replicas although it changes no data (CLUSTER FAILOVER). Not shown.
pub const STREAMED: Flags = 1 << 29;

/// A command's effect on the requests of its client, besides data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// No effect.
    #[default]
    None,
    /// MULTI: the following requests are queued.
    OpensTransaction,
    /// EXEC: the queue runs; its permissions are those of the queued commands.
    RunsTransaction,
    /// DISCARD.
    DropsTransaction,
    /// QUIT, RESET: the connection's state is reset, an open transaction included.
    EndsSession,
    /// SELECT: the first argument is the database of the following requests.
    SelectsDatabase,
    /// PING: a liveness check, which fails while disk errors disable writes.
    Ping,
    /// REPLCONF: between a primary and its replica.
    Link,
    /// CLUSTER SYNCSLOTS: between source and target of a slot migration.
    SlotMigration,
}

impl Control {
    /// Whether MULTI runs the command instead of queueing it.
    pub const fn runs_inside_multi(self) -> bool {
        matches!(self, Control::RunsTransaction | Control::DropsTransaction | Control::EndsSession)
    }

    /// Whether a primary sends the command although it changes no data: it brackets or controls commands that do, or
    /// keeps the link alive.
    pub const fn belongs_to_stream(self) -> bool {
        !matches!(self, Control::None | Control::EndsSession)
    }
}

/// Names in the order in which COMMAND INFO lists them; flags of this server alone have none.
pub const NAMES: &[(Flags, &str)] = &[
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENY_OOM, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NO_SCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_COMMANDLOG, "skip_commandlog"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (MOVABLE_KEYS, "movablekeys"),
    (ALLOW_BUSY, "allow_busy"),
];

/// The group under which documentation lists a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands for keys of any type.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Publish/subscribe.
    PubSub,
    /// Transactions.
    Transactions,
    /// The connection and its client.
    Connection,
    /// The server.
    Server,
    /// Scripts and functions.
    Scripting,
    /// HyperLogLog.
    HyperLogLog,
    /// Cluster mode.
    Cluster,
    /// Geo positions.
    Geo,
    /// Streams.
    Stream,
    /// Bitmaps.
    Bitmap,
}

impl Group {
    /// The name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Scripting => "scripting",
            Group::HyperLogLog => "hyperloglog",
            Group::Cluster => "cluster",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
        }
    }

    /// The ACL category of the group's commands, if it has one.
    pub const fn category(self) -> Option<&'static str> {
        match self {
            Group::Generic => Some("keyspace"),
            Group::SortedSet => Some("sortedset"),
            Group::Transactions => Some("transaction"),
            // PUBSUB is also a flag, and the flag decides: PUBSUB HELP accesses no channels.
            Group::Server | Group::Cluster | Group::PubSub => None,
            _ => Some(self.name()),
        }
    }
}
