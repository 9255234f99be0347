//! What INFO, ROLE and others show of replication: copies that the engine makes. Nothing is decided by them.

/// The stream of changes, and who is sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// Of the history that the data is at the end of; forty hexadecimal digits.
    pub id: String,
    /// The id that it had before, and the number of the first byte for which that is not good.
    pub second_id: Option<(String, u64)>,
    /// Bytes of the stream so far.
    pub offset: u64,
    pub backlog: Option<BacklogFigures>,
    /// Held for the backlog and for replicas that are behind.
    pub buffer_bytes: u64,
    /// Of these what is beyond the backlog's size, for replicas.
    pub beyond_size_bytes: u64,
    /// In the order in which they came.
    pub replicas: Vec<ReplicaFigures>,
    /// Of the primary's stream, while a snapshot comes over another connection: bytes, the most of them in the last such
    /// sync, and the memory they take.
    pub kept_bytes: u64,
    pub kept_peak_bytes: u64,
    pub kept_memory_bytes: u64,
    /// To this server's own primary; `None`: it has none.
    pub link: Option<LinkFigures>,
    pub failover: FailoverState,
}

/// How far this server is in handing its role over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailoverState {
    #[default]
    None,
    WaitsForSync,
    HandsOver,
}

impl FailoverState {
    /// As INFO shows it.
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
    pub address: String,
    pub port: i64,
    pub state: ReplicaState,
    /// It is a connection that takes a snapshot alone.
    pub is_rdb_channel: bool,
    pub acknowledged: u64,
    /// When it last acknowledged anything, on the monotonic clock.
    pub heard_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    WaitsForSnapshot,
    TakesFile,
    /// Takes the stream while it loads a snapshot.
    Loads,
    Online,
}

impl ReplicaState {
    /// As INFO shows it.
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
    pub fn is_online(&self) -> bool {
        self.state == ReplicaState::Online
    }

    /// What of a replica the connection is, as INFO shows it.
    pub fn channel_name(&self) -> &'static str {
        match self.state {
            _ if self.is_rdb_channel => "rdb-channel",
            ReplicaState::Loads => "main-channel",
            _ => "replica",
        }
    }

    /// Seconds since it was last heard of; 0 before it could be.
    pub fn lag_s(&self, now_us: u64) -> u64 {
        if self.is_online() { now_us.saturating_sub(self.heard_us) / 1_000_000 } else { 0 }
    }
}

/// The last bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogFigures {
    /// Bytes are numbered from 1.
    pub first_byte_offset: u64,
}

impl Replication {
    /// Bytes in the backlog.
    pub fn backlog_len(&self) -> u64 {
        self.backlog.map_or(0, |backlog| (self.offset + 1).saturating_sub(backlog.first_byte_offset))
    }
}

/// How far the link to the primary has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Connect,
    Connecting,
    Handshake,
    Sync,
    Connected,
}

impl LinkState {
    /// As ROLE shows it.
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
    pub state: LinkState,
    /// What was applied of the primary's stream can be gone on with.
    pub continues: bool,
    /// When something last came from the primary, on the monotonic clock.
    pub heard_us: u64,
    /// Since when the stream has not been followed, in seconds since 1970; `None`: it is, or never was.
    pub down_since_s: Option<i64>,
    pub transfer: Option<TransferFigures>,
}

/// A snapshot that is coming in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferFigures {
    /// 0: the primary does not know; `None`: it has not said.
    pub total_bytes: Option<u64>,
    pub read_bytes: u64,
}
