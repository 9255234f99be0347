//! One client as the executor sees it: identity, protocol state and output; its socket is `net`'s.

use super::blocked::Blocked;
use super::clients::{ClientHandle, ClientId};
use super::pubsub::Subscriptions;
use super::tracking::Tracking;
use super::watch::Watched;
use crate::acl::UserHandle;
use crate::clock::Reading;
use crate::command::args::OwnedArgs;
use crate::command::flag::Flags;
use crate::command::registry::CommandId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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

impl ReplyMode {
    /// What holds for the next command.
    pub fn after_command(self) -> Self {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            mode => mode,
        }
    }
}

/// What MULTI has opened.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The one that the commands queued next run in: a SELECT among those before them is followed.
    pub db_index: usize,
    pub queued: Vec<(CommandId, OwnedArgs)>,
    /// A command was refused while queueing: EXEC will refuse too.
    pub aborted: bool,
    /// Bytes of all queued arguments.
    pub argument_bytes: usize,
    /// The flags of all queued commands together.
    pub flags: Flags,
    /// The flags that any of the queued commands lacks.
    pub missing_flags: Flags,
}

impl Transaction {
    /// Nothing of what is queued will run: gives its memory back.
    pub fn forget_queue(&mut self) {
        self.queued = Vec::new();
        self.argument_bytes = 0;
        self.flags = 0;
    }

    /// What the queue occupies.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.argument_bytes + self.queued.capacity() * size_of::<(CommandId, OwnedArgs)>()
    }
}

/// A client's output buffer class, for limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    Normal,
    Replica,
    PubSub,
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
    /// The thread that reads and writes the socket; 0 is the executor itself.
    pub io_thread: usize,
    /// What another thread tells of the connection while it lives there, in place of the figures below.
    pub meter: Option<Arc<Meter>>,
    /// What the socket is watched for.
    pub watches_readable: bool,
    pub watches_writable: bool,
    /// A handshake of TLS is under way.
    pub is_handshaking: bool,
    /// Bytes in the query buffer that are not yet part of a command, and the room left in it. Both are zero while
    /// the connection has no buffer of its own.
    pub input_bytes: usize,
    pub input_free_bytes: usize,
    /// All that the connection holds: its buffer and the arguments found in it.
    pub memory_bytes: usize,
    pub input_bytes_total: u64,
    /// Sent, or handed to the thread that sends it.
    pub output_bytes_total: u64,
    /// So much of what is to be sent has been counted in the statistics of all connections already: when it was handed to a
    /// thread, which has given it back.
    pub output_bytes_counted: u64,
}

impl ConnectionFigures {
    /// How many of `bytes`, which go out now, have yet to be counted.
    pub fn take_uncounted(&mut self, bytes: u64) -> u64 {
        let counted = self.output_bytes_counted.min(bytes);
        self.output_bytes_counted -= counted;
        bytes - counted
    }
}

/// Figures of a connection that lives in an I/O thread. That thread writes them, and the executor those of the input
/// while the input is with it.
#[derive(Debug, Default)]
pub struct Meter {
    pub input_bytes: AtomicUsize,
    pub input_free_bytes: AtomicUsize,
    pub memory_bytes: AtomicUsize,
    /// Bytes sent, on the same scale as [`ConnectionFigures::output_bytes_total`].
    pub output_bytes_total: AtomicU64,
    /// Where it has to be for a traced request to be answered; 0: nobody waits for that. The executor sets it.
    pub awaited_bytes: AtomicU64,
    /// When it last came to that, on the monotonic clock.
    pub written_us: AtomicU64,
}

impl Meter {
    /// Has it noted when so many bytes have been sent, in all.
    pub fn await_written(&self, bytes_total: u64) {
        self.awaited_bytes.store(bytes_total, Ordering::Relaxed);
    }

    /// More has been sent.
    #[inline]
    pub fn note_written(&self, now_us: impl FnOnce() -> u64) {
        let awaited_bytes = self.awaited_bytes.load(Ordering::Relaxed);
        if awaited_bytes != 0 && self.output_bytes_total.load(Ordering::Relaxed) >= awaited_bytes {
            self.written_us.store(now_us(), Ordering::Relaxed);
            self.awaited_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Bytes in the input buffer and the room left, and all that is held for the connection.
    pub fn report(&self, (input_bytes, input_free_bytes): (usize, usize), memory_bytes: usize) {
        self.input_bytes.store(input_bytes, Ordering::Relaxed);
        self.input_free_bytes.store(input_free_bytes, Ordering::Relaxed);
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
    }
}

impl ConnectionFigures {
    pub fn input_bytes(&self) -> usize {
        self.meter.as_ref().map_or(self.input_bytes, |meter| meter.input_bytes.load(Ordering::Relaxed))
    }

    pub fn input_free_bytes(&self) -> usize {
        let metered = self.meter.as_ref().map(|meter| meter.input_free_bytes.load(Ordering::Relaxed));
        metered.unwrap_or(self.input_free_bytes)
    }

    pub fn memory_bytes(&self) -> usize {
        self.meter.as_ref().map_or(self.memory_bytes, |meter| meter.memory_bytes.load(Ordering::Relaxed))
    }

    /// Output that has been handed to an I/O thread and that the socket has not taken yet.
    pub fn output_under_way(&self) -> usize {
        let sent = |meter: &Arc<Meter>| meter.output_bytes_total.load(Ordering::Relaxed);
        self.meter.as_ref().map_or(0, |meter| self.output_bytes_total.saturating_sub(sent(meter)) as usize)
    }
}

/// The most that a client's reply buffer holds.
pub const OUTPUT_CHUNK_BYTES: usize = 16 * 1024;
/// Unsent output beyond the reply buffer counts in chunks, as limits that were set for the reference server expect: 16 KB
/// and a header, in the allocator's size class of 20 KB, and a place in a list.
const CHUNK_ROOM_BYTES: usize = 20_440;
const CHUNK_COUNTED_BYTES: usize = 20_504;
/// The least that a reply buffer shrinks to.
pub const REPLY_BUFFER_BYTES_MIN: usize = 1024;

/// How much output a client may hold that counts as its reply buffer rather than as a backlog. Follows the size of
/// its replies: halved while they are small, doubled while they fill it.
#[derive(Clone, Debug)]
pub struct ReplyBufferFigures {
    /// At most [`OUTPUT_CHUNK_BYTES`], as the peak is.
    pub bytes: u32,
    /// The most that was unsent of it, since the peak was last reset.
    pub peak_bytes: u32,
    /// On the monotonic clock.
    pub peak_reset_us: u64,
}

impl Default for ReplyBufferFigures {
    fn default() -> Self {
        let bytes = OUTPUT_CHUNK_BYTES as u32;
        ReplyBufferFigures { bytes, peak_bytes: bytes, peak_reset_us: 0 }
    }
}

impl ReplyBufferFigures {
    /// So much of it is unsent.
    #[inline]
    pub fn note_unsent(&mut self, unsent_bytes: usize) {
        self.peak_bytes = self.peak_bytes.max(unsent_bytes as u32);
    }
}

/// Unsent output, as CLIENT LIST shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Within the reply buffer.
    pub buffered_bytes: usize,
    /// Beyond it: what output limits are about.
    pub chunks: usize,
    pub chunk_bytes: usize,
}

/// What a replica has said of itself (REPLCONF), before it asks to be sent anything.
#[derive(Clone, Debug, Default)]
pub struct ReplicaProfile {
    /// Where it listens itself; 0: it has not said.
    pub listening_port: i64,
    /// By which others are to know it, in place of the one that its connection comes from.
    pub address: Option<String>,
    /// It finds the end of a snapshot whose length nobody knows beforehand.
    pub finds_end_mark: bool,
    /// It takes a new id for the history that it goes on with.
    pub takes_new_ids: bool,
    /// It can be sent a snapshot by another connection than the stream.
    pub takes_rdb_channel: bool,
    /// It is that other connection.
    pub is_rdb_channel: bool,
    /// That of the same replica.
    pub rdb_client: Option<ClientId>,
    /// 0x090102 is 9.1.2; 0: it has not said.
    pub version: u32,
    /// It wants no stream behind the snapshot.
    pub wants_snapshot_only: bool,
    pub without_data: bool,
    pub without_functions: bool,
    /// It came with SYNC: it acknowledges nothing, and is told neither id nor offset.
    pub came_with_sync: bool,
    /// Of the stream, what it has yet to be sent; noted about once a second.
    pub unsent_stream_bytes: u64,
    /// Its socket is to gather small writes, and has not been told yet.
    pub gathers_small_writes: bool,
}

#[derive(Debug)]
pub struct Client {
    pub id: ClientId,
    pub handle: ClientHandle,
    pub connection: ConnectionFigures,
    pub created: Reading,
    pub last_interaction: Reading,
    pub name: Vec<u8>,
    pub library_name: Vec<u8>,
    pub library_version: Vec<u8>,
    pub db_index: usize,
    pub authenticated: bool,
    /// It has proved who it is, or needed not to, at any time.
    pub ever_authenticated: bool,
    /// So many passwords in a row were wrong.
    pub authentication_failures: u8,
    pub user: UserHandle,

    /// Replies not yet sent; holds the protocol in force.
    pub output: ReplyBuffer,
    pub reply_buffer: ReplyBufferFigures,
    /// Messages to itself that arrived while its command ran.
    pub deferred_output: Vec<u8>,
    /// Its command is running and holds the output: what others send it meanwhile waits in `deferred_output`.
    pub output_borrowed: bool,
    /// Listed in [`super::Clients::with_output`].
    pub output_pending: bool,
    /// What it has been sent by others has not been counted since.
    pub is_uncounted_receiver: bool,
    /// Since when the output has been over its soft limit.
    pub output_over_soft_limit_since_us: Option<u64>,
    pub reply_mode: ReplyMode,

    pub transaction: Option<Box<Transaction>>,
    pub watched: Vec<Watched>,
    /// A watched key has changed: EXEC answers null.
    pub watch_broken: bool,
    pub subscriptions: Subscriptions,
    pub tracking: Option<Box<Tracking>>,
    pub blocked: Option<Box<Blocked>>,

    pub is_monitor: bool,
    /// It is sent the stream of changes, or waits for that: it is answered nothing.
    pub is_replica: bool,
    pub replica: Option<Box<ReplicaProfile>>,
    /// The other end of this server's link to its primary.
    pub is_primary: bool,
    /// That, and no commands come from there yet: nobody is shown it.
    pub is_linking: bool,
    pub no_evict: bool,
    pub no_touch: bool,
    /// Would be content with a replica's data (READONLY).
    pub reads_replicas: bool,
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
    /// Where its last change ends in the append-only file: the bytes of all that has been appended by then.
    pub log_end: u64,
    /// And in the stream that replicas are sent.
    pub stream_end: u64,
    /// Its memory as it is counted in [`super::Clients::memory_bytes`].
    pub counted_bytes: usize,
    /// As it is counted in [`super::Clients::unauthenticated_bytes`].
    pub unauthenticated_bytes: usize,
}

impl Client {
    pub fn new(
        id: ClientId,
        handle: ClientHandle,
        connection: ConnectionFigures,
        now: Reading,
        authenticated: bool,
    ) -> Self {
        Client {
            id,
            handle,
            connection,
            created: now,
            last_interaction: now,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            db_index: 0,
            authenticated,
            ever_authenticated: authenticated,
            authentication_failures: 0,
            user: UserHandle::DEFAULT,
            output: ReplyBuffer::new(Protocol::Resp2),
            reply_buffer: ReplyBufferFigures::default(),
            deferred_output: Vec::new(),
            output_borrowed: false,
            output_pending: false,
            is_uncounted_receiver: false,
            output_over_soft_limit_since_us: None,
            reply_mode: ReplyMode::On,
            transaction: None,
            watched: Vec::new(),
            watch_broken: false,
            subscriptions: Subscriptions::default(),
            tracking: None,
            blocked: None,
            is_monitor: false,
            is_replica: false,
            replica: None,
            is_primary: false,
            is_linking: false,
            no_evict: false,
            no_touch: false,
            reads_replicas: false,
            import_source: false,
            capabilities_redirect: false,
            deny_blocking: false,
            close_after_reply: false,
            close_asap: false,
            last_command: None,
            commands_total: 0,
            log_end: 0,
            stream_end: 0,
            counted_bytes: 0,
            unauthenticated_bytes: 0,
        }
    }

    pub fn protocol(&self) -> Protocol {
        self.output.protocol
    }

    /// In RESP2, a subscriber may only send a few commands.
    pub fn in_subscribed_context(&self) -> bool {
        self.protocol() == Protocol::Resp2 && !self.subscriptions.is_empty()
    }

    pub fn output_class(&self) -> OutputClass {
        match self.subscriptions.is_empty() {
            _ if self.is_replica => OutputClass::Replica,
            true => OutputClass::Normal,
            false => OutputClass::PubSub,
        }
    }

    /// Whether it will hear no more than what it has been answered.
    pub fn is_closing(&self) -> bool {
        self.close_asap || self.close_after_reply
    }

    /// What is unsent of its output.
    pub fn unsent(&self) -> Unsent {
        self.unsent_of(self.output.len())
    }

    /// What of the stream a replica has yet to be sent: limits of its own are about that.
    pub fn unsent_stream(&self) -> Unsent {
        let bytes = self.replica.as_ref().map_or(0, |replica| replica.unsent_stream_bytes as usize);
        let chunks = bytes.div_ceil(CHUNK_ROOM_BYTES);
        Unsent { buffered_bytes: 0, chunks, chunk_bytes: chunks * CHUNK_COUNTED_BYTES }
    }

    /// As [`Self::unsent`], for output that has been taken out to be written to.
    pub fn unsent_of(&self, output_len: usize) -> Unsent {
        let unsent = output_len + self.connection.output_under_way();
        let buffered_bytes = unsent.min(self.reply_buffer.bytes as usize);
        let chunks = (unsent - buffered_bytes).div_ceil(CHUNK_ROOM_BYTES);
        Unsent { buffered_bytes, chunks, chunk_bytes: chunks * CHUNK_COUNTED_BYTES }
    }

    /// All the memory that is held for this client.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.connection.memory_bytes()
            + self.connection.output_under_way()
            + self.connection.address.capacity()
            + self.connection.local_address.capacity()
            + self.name.capacity()
            + self.library_name.capacity()
            + self.library_version.capacity()
            + self.output.memory_bytes()
            + self.deferred_output.capacity()
            + self.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes())
            + self.watched.len() * Watched::MEMORY_BYTES
            + self.subscriptions.memory_bytes
            + self.tracking.as_ref().map_or(0, |tracking| tracking.memory_bytes())
            + self.blocked.as_ref().map_or(0, |blocked| blocked.memory_bytes())
    }
}
