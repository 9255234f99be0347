//! Figures of replication for INFO, ROLE and others: copies made by the engine. No decision depends on them.

/// The stream of changes, and its receivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// The id of the current history; forty hexadecimal digits.
    pub id: String,
    /// The previous id, and the number of the first byte beyond its validity.
    pub second_id: Option<(String, u64)>,
    /// Bytes of the stream so far.
    pub offset: u64,
    /// The backlog, if there is one.
    pub backlog: Option<BacklogFigures>,
    /// Memory of the backlog and of replicas that are behind.
    pub buffer_bytes: u64,
    /// The part of it beyond the backlog's size, for replicas.
    pub beyond_size_bytes: u64,
    /// In the order of attachment.
    pub replicas: Vec<ReplicaFigures>,
    /// Bytes of the primary's stream that are buffered while a snapshot arrives on another connection.
    pub kept_bytes: u64,
    /// Maximum of `kept_bytes` in the last such sync.
    pub kept_peak_bytes: u64,
    /// Memory of these bytes.
    pub kept_memory_bytes: u64,
    /// The link to this server's own primary; `None`: it has none.
    pub link: Option<LinkFigures>,
    /// State of a failover.
    pub failover: FailoverState,
}

/// State of a failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailoverState {
    /// No failover.
    #[default]
    None,
    /// The target is not in sync yet.
    WaitsForSync,
    /// The target takes over.
    HandsOver,
}

impl FailoverState {
    /// Returns the name in INFO.
    pub fn name(self) -> &'static str {
        match self {
            FailoverState::None => "no-failover",
            FailoverState::WaitsForSync => "waiting-for-sync",
            FailoverState::HandsOver => "failover-in-progress",
        }
    }
}

/// Another server that is sent the stream, or will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFigures {
    /// Address of the replica.
    pub address: String,
    /// Port of the replica.
    pub port: i64,
    /// State of the replica.
    pub state: ReplicaState,
    /// It is a connection that takes only a snapshot.
    pub is_rdb_channel: bool,
    /// Offset that it has acknowledged.
    pub acknowledged: u64,
    /// When it last acknowledged, on the monotonic clock.
    pub last_ack_us: u64,
}

/// State of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It waits for a snapshot.
    WaitsForSnapshot,
    /// It receives a snapshot from a file.
    TakesFile,
    /// Receives the stream while it loads a snapshot.
    Loads,
    /// It receives the stream.
    Online,
}

impl ReplicaState {
    /// Returns the name in INFO.
    pub fn name(self) -> &'static str {
        match self {
            ReplicaState::WaitsForSnapshot => "wait_bgsave",
            ReplicaState::TakesFile => "send_bulk",
            ReplicaState::Loads => "bg_transfer",
            ReplicaState::Online => "online",
        }
    }
}

impl ReplicaFigures {
    /// Returns whether it has its snapshot and is sent the stream.
    pub fn is_online(&self) -> bool {
        self.state == ReplicaState::Online
    }

    /// Returns the connection's role for the replica, as in INFO.
    pub fn channel_name(&self) -> &'static str {
        match self.state {
            _ if self.is_rdb_channel => "rdb-channel",
            ReplicaState::Loads => "main-channel",
            _ => "replica",
        }
    }

    /// Returns the seconds since its last acknowledgement; 0 before it is online.
    pub fn lag_s(&self, now_us: u64) -> u64 {
        if self.is_online() { now_us.saturating_sub(self.last_ack_us) / 1_000_000 } else { 0 }
    }
}

/// The last bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogFigures {
    /// Bytes are numbered from 1.
    pub first_byte_offset: u64,
}

impl Replication {
    /// Returns the bytes in the backlog.
    pub fn backlog_len(&self) -> u64 {
        self.backlog.map_or(0, |backlog| (self.offset + 1).saturating_sub(backlog.first_byte_offset))
    }
}

/// State of the link to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Not connected.
    Connect,
    /// The connection is being established.
    Connecting,
    /// The handshake is in progress.
    Handshake,
    /// A full sync is in progress.
    Sync,
    /// It receives the stream.
    Connected,
}

impl LinkState {
    /// Returns the name in ROLE.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// The link to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFigures {
    /// State of the link.
    pub state: LinkState,
    /// The applied part of the primary's stream can be continued.
    pub continues: bool,
    /// Time of the last input from the primary, on the monotonic clock.
    pub last_input_us: u64,
    /// Since when the stream is interrupted, in seconds since 1970; `None`: it is followed, or never was.
    pub down_since_s: Option<i64>,
    /// The snapshot that is being received.
    pub transfer: Option<TransferFigures>,
}

/// A snapshot being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferFigures {
    /// 0: unknown to the primary; `None`: not received yet.
    pub total_bytes: Option<u64>,
    /// Bytes received.
    pub read_bytes: u64,
}
