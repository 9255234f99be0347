//! One client as the executor sees it: identity, protocol state and output; its socket is `net`'s.

use super::blocked::Blocked;
use super::clients::ClientSlot;
use super::tracking::Tracking;
use crate::clock::Reading;
use crate::command::args::OwnedArgs;
use crate::command::registry::CommandId;
use std::collections::HashSet;
use wire::reply::{Protocol, ReplyBuffer};

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    #[default]
    On,
    Off,
    /// The command at hand is CLIENT REPLY SKIP: swallow the next one's reply.
    SkipNext,
    Skip,
}

/// What MULTI has opened.
#[derive(Debug, Default)]
pub struct Transaction {
    pub queued: Vec<(CommandId, OwnedArgs)>,
    /// A command was refused while queueing: EXEC will refuse too.
    pub aborted: bool,
    /// Bytes of all queued arguments.
    pub argument_bytes: usize,
}

/// A client's output buffer class, for limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    Normal,
    Replica,
    PubSub,
}

/// Names of what a client subscribes to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    pub channels: HashSet<Box<[u8]>>,
    pub patterns: HashSet<Box<[u8]>>,
    pub shard_channels: HashSet<Box<[u8]>>,
}

impl Subscriptions {
    /// Channels and patterns, as SUBSCRIBE counts them.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0 && self.shard_channels.is_empty()
    }
}

/// Figures of the connection that `net` keeps up to date for CLIENT LIST and the limits.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFigures {
    pub address: String,
    pub local_address: String,
    pub fd: i32,
    pub is_unix_socket: bool,
    /// From this machine: a loopback address or a Unix socket.
    pub is_loopback: bool,
    pub io_thread: usize,
    /// Unread bytes in the query buffer, and the room left in it.
    pub input_bytes: usize,
    pub input_free_bytes: usize,
    pub input_bytes_total: u64,
    pub output_bytes_total: u64,
}

#[derive(Debug)]
pub struct Client {
    pub id: u64,
    pub slot: ClientSlot,
    pub connection: ConnectionFigures,
    pub created: Reading,
    pub last_interaction: Reading,
    pub name: Vec<u8>,
    pub library_name: Vec<u8>,
    pub library_version: Vec<u8>,
    pub db_index: usize,
    pub authenticated: bool,
    pub user: Vec<u8>,

    /// Replies not yet sent; holds the protocol in force.
    pub output: ReplyBuffer,
    /// Messages to itself that arrived while its command ran.
    pub deferred_output: Vec<u8>,
    /// Its command is running and holds the output: what others send it meanwhile waits in `deferred_output`.
    pub output_borrowed: bool,
    /// Listed in [`super::Clients::with_output`].
    pub output_pending: bool,
    /// Since when the output has been over its soft limit.
    pub output_over_soft_limit_since_us: Option<u64>,
    pub reply_mode: ReplyMode,

    pub transaction: Option<Box<Transaction>>,
    pub watched: Vec<super::watch::Watched>,
    /// A watched key has changed: EXEC answers null.
    pub watch_broken: bool,
    pub subscriptions: Subscriptions,
    pub tracking: Option<Box<Tracking>>,
    pub blocked: Option<Box<Blocked>>,

    pub is_monitor: bool,
    pub no_evict: bool,
    pub no_touch: bool,
    pub import_source: bool,
    pub capabilities_redirect: bool,
    /// Nothing blocks for this client: a script's or a transaction's commands.
    pub deny_blocking: bool,
    /// Close once the output has been written (QUIT, protocol errors).
    pub close_after_reply: bool,
    /// Close without more ado (limits, CLIENT KILL).
    pub close_asap: bool,
    pub last_command: Option<CommandId>,
    pub commands_total: u64,
}

impl Client {
    pub fn new(
        id: u64,
        slot: ClientSlot,
        connection: ConnectionFigures,
        now: Reading,
        authenticated: bool,
    ) -> Self {
        Client {
            id,
            slot,
            connection,
            created: now,
            last_interaction: now,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            db_index: 0,
            authenticated,
            user: b"default".to_vec(),
            output: ReplyBuffer::new(Protocol::Resp2),
            deferred_output: Vec::new(),
            output_borrowed: false,
            output_pending: false,
            output_over_soft_limit_since_us: None,
            reply_mode: ReplyMode::On,
            transaction: None,
            watched: Vec::new(),
            watch_broken: false,
            subscriptions: Subscriptions::default(),
            tracking: None,
            blocked: None,
            is_monitor: false,
            no_evict: false,
            no_touch: false,
            import_source: false,
            capabilities_redirect: false,
            deny_blocking: false,
            close_after_reply: false,
            close_asap: false,
            last_command: None,
            commands_total: 0,
        }
    }

    pub fn protocol(&self) -> Protocol {
        self.output.protocol
    }

    /// In RESP2, a subscriber may only send a few commands.
    pub fn in_subscribed_context(&self) -> bool {
        self.protocol() == Protocol::Resp2 && !self.subscriptions.is_empty()
    }

    /// What the client occupies: itself, its buffers and what it has queued.
    pub fn memory_bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, |transaction| transaction.argument_bytes);
        let buffers = self.output.capacity() + self.deferred_output.capacity();
        let input = self.connection.input_bytes + self.connection.input_free_bytes;
        size_of::<Client>() + buffers + input + queued + self.name.capacity()
    }

    pub fn output_class(&self) -> OutputClass {
        if self.subscriptions.is_empty() { OutputClass::Normal } else { OutputClass::PubSub }
    }
}
