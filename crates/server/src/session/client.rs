//! A client's state in the executor: identity, protocol state and output. Its socket belongs to `net`.

use super::blocked::Blocked;
use super::clients::{ClientHandle, ClientId};
use super::held_output::HeldOutput;
use super::pubsub::Subscriptions;
use super::tracking::Tracking;
use super::watch::Watched;
use crate::acl::UserHandle;
use crate::clock::Reading;
use crate::command::args::OwnedArgs;
use crate::command::flag::Flags;
use crate::command::registry::CommandId;
use cluster::JobId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use wire::cluster_bus::NodeId;
use wire::convert::{signed_count, usize_of};
use wire::reply::{Protocol, ReplyBuffer};

/// The reply mode of a client (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No reply is sent until CLIENT REPLY ON.
    Off,
    /// The current command is CLIENT REPLY SKIP: the next reply is suppressed.
    SkipNext,
    /// The current command's reply is suppressed.
    Skip,
}

impl ReplyMode {
    /// Returns the mode for the next command.
    pub fn after_command(self) -> Self {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            mode => mode,
        }
    }
}

/// What READONLY and ASKING have set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// READONLY: a replica answers reads.
    pub reads_replicas: bool,
    /// ASKING: the number of the following commands, the current one included, that may use a slot which this node imports.
    pub asking: u8,
    /// It is the other node of a slot migration.
    pub slot_link: Option<SlotLink>,
    /// The CLUSTER SETSLOT that runs now has waited for the replicas.
    pub replicas_know_slot: bool,
}

/// An open transaction.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The database for commands queued next, following queued SELECTs.
    pub db_index: usize,
    /// Queued commands, in order.
    pub queued: Vec<(CommandId, OwnedArgs)>,
    /// A command was refused at queueing: EXEC will fail.
    pub aborted: bool,
    /// Bytes of all queued arguments.
    pub argument_bytes: usize,
    /// The union of the queued commands' flags.
    pub flags: Flags,
    /// The flags that any of the queued commands lacks.
    pub missing_flags: Flags,
}

impl Transaction {
    /// Drops the queue, which will not run, and frees its memory.
    pub fn forget_queue(&mut self) {
        self.queued = Vec::new();
        self.argument_bytes = 0;
        self.flags = 0;
    }

    /// Returns the memory of the queue.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.argument_bytes + self.queued.capacity() * size_of::<(CommandId, OwnedArgs)>()
    }
}

/// A client's output buffer class, for limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    /// Ordinary clients.
    Normal,
    /// Replicas.
    Replica,
    /// Clients with subscriptions.
    PubSub,
}

/// Figures of the connection that `net` keeps up to date for CLIENT LIST and the limits.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFigures {
    /// Address of the peer, as `ip:port` or the path of the Unix socket.
    pub address: String,
    /// Address of this server, in the same form.
    pub local_address: String,
    /// File descriptor of the socket.
    pub fd: i32,
    /// The client connected by a Unix socket.
    pub is_unix_socket: bool,
    /// The connection is encrypted.
    pub is_tls: bool,
    /// The client connected from a loopback address or by a Unix socket.
    pub is_loopback: bool,
    /// Index of the I/O thread that reads and writes the socket; 0: the executor.
    pub io_thread: usize,
    /// Figures kept by the connection's I/O thread, which replace the figures below.
    pub meter: Option<Arc<Meter>>,
    /// The socket is polled for input.
    pub watches_readable: bool,
    /// The socket is polled for output.
    pub watches_writable: bool,
    /// A TLS handshake is in progress.
    pub is_handshaking: bool,
    /// Bytes in the query buffer that are not yet part of a command; 0 while the connection has no buffer of its own.
    pub input_bytes: usize,
    /// Free capacity of the query buffer; 0 while the connection has no buffer of its own.
    pub input_free_bytes: usize,
    /// Memory of the connection: its query buffer and the arguments parsed from it.
    pub memory_bytes: usize,
    /// Bytes received since the client connected.
    pub input_bytes_total: u64,
    /// Bytes sent since the client connected, including those passed to an I/O thread.
    pub output_bytes_total: u64,
    /// Progress of the socket at the last check of an idle client.
    pub last_progress: Option<SocketProgress>,
    /// Unsent bytes that the statistics of all connections already count: an I/O thread returned them unsent.
    pub output_bytes_counted: u64,
}

/// Progress of a socket's transfer. A client whose socket makes progress is not idle, however long its request or its
/// reply takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketProgress {
    /// Monotonic time of the client's last interaction; the figures are void after the next one.
    pub since_us: u64,
    /// Bytes in the query buffer.
    pub input_bytes: usize,
    /// Bytes sent since the client connected.
    pub output_bytes_total: u64,
    /// Bytes in the kernel's send buffer that the peer has not acknowledged.
    pub undelivered_bytes: usize,
}

impl ConnectionFigures {
    /// Returns the present progress of the socket.
    pub fn progress(&self, since_us: u64, undelivered_bytes: usize) -> SocketProgress {
        let meter = self.meter.as_ref();
        let sent = meter.map(|meter| meter.output_bytes_total.load(Ordering::Relaxed));
        SocketProgress {
            since_us,
            input_bytes: self.input_bytes(),
            output_bytes_total: sent.unwrap_or(self.output_bytes_total),
            undelivered_bytes,
        }
    }

    /// Returns how many of `bytes`, which are sent now, the statistics do not count yet.
    pub fn take_uncounted(&mut self, bytes: u64) -> u64 {
        let counted = self.output_bytes_counted.min(bytes);
        self.output_bytes_counted -= counted;
        bytes - counted
    }
}

/// Figures of a connection in an I/O thread. That thread writes them, and the executor writes those of the input while
/// it has the query buffer.
#[derive(Debug, Default)]
pub struct Meter {
    /// Bytes in the query buffer.
    pub input_bytes: AtomicUsize,
    /// Free capacity of the query buffer.
    pub input_free_bytes: AtomicUsize,
    /// Memory of the connection.
    pub memory_bytes: AtomicUsize,
    /// Bytes sent, on the same scale as [`ConnectionFigures::output_bytes_total`].
    pub output_bytes_total: AtomicU64,
    /// The count at which a traced request is answered; 0: none. The executor sets it.
    pub awaited_bytes: AtomicU64,
    /// When that count was last reached, on the monotonic clock.
    pub written_us: AtomicU64,
}

impl Meter {
    /// Requests the time at which this total of bytes has been sent.
    pub fn await_written(&self, bytes_total: u64) {
        self.awaited_bytes.store(bytes_total, Ordering::Relaxed);
    }

    /// Records sent bytes.
    #[inline]
    pub fn note_written(&self, now_us: impl FnOnce() -> u64) {
        let awaited_bytes = self.awaited_bytes.load(Ordering::Relaxed);
        if awaited_bytes != 0 && self.output_bytes_total.load(Ordering::Relaxed) >= awaited_bytes {
            self.written_us.store(now_us(), Ordering::Relaxed);
            self.awaited_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Publishes the input buffer's used bytes and free capacity, and the connection's memory.
    pub fn report(&self, (input_bytes, input_free_bytes): (usize, usize), memory_bytes: usize) {
        self.input_bytes.store(input_bytes, Ordering::Relaxed);
        self.input_free_bytes.store(input_free_bytes, Ordering::Relaxed);
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
    }
}

impl ConnectionFigures {
    /// Returns the bytes in the input buffer.
    pub fn input_bytes(&self) -> usize {
        self.meter.as_ref().map_or(self.input_bytes, |meter| meter.input_bytes.load(Ordering::Relaxed))
    }

    /// Returns the free capacity of the input buffer.
    pub fn input_free_bytes(&self) -> usize {
        let metered = self.meter.as_ref().map(|meter| meter.input_free_bytes.load(Ordering::Relaxed));
        metered.unwrap_or(self.input_free_bytes)
    }

    /// Returns the connection's memory.
    pub fn memory_bytes(&self) -> usize {
        self.meter.as_ref().map_or(self.memory_bytes, |meter| meter.memory_bytes.load(Ordering::Relaxed))
    }

    /// Returns the bytes handed to an I/O thread that the socket has not taken yet.
    pub fn output_under_way(&self) -> usize {
        let sent = |meter: &Arc<Meter>| meter.output_bytes_total.load(Ordering::Relaxed);
        self.meter.as_ref().map_or(0, |meter| usize_of(self.output_bytes_total.saturating_sub(sent(meter))))
    }
}

/// Maximum size of a client's reply buffer.
pub const OUTPUT_CHUNK_BYTES: usize = 16 * 1024;
/// Unsent output beyond the reply buffer is counted in chunks, as limits set for the reference server expect: 16 KB and
/// a header, in the allocator's size class of 20 KB, and a list entry.
const CHUNK_ROOM_BYTES: usize = 20_440;
const CHUNK_COUNTED_BYTES: usize = 20_504;
/// Minimum size of a reply buffer.
pub const REPLY_BUFFER_BYTES_MIN: usize = 1024;

/// How much output counts as a client's reply buffer rather than as a backlog. Follows the size of its replies: halved
/// while they are small, doubled while they fill it.
#[derive(Clone, Debug)]
pub struct ReplyBufferFigures {
    /// At most [`OUTPUT_CHUNK_BYTES`], like the peak.
    pub bytes: usize,
    /// Peak of unsent bytes since the last reset.
    pub peak_bytes: usize,
    /// On the monotonic clock.
    pub peak_reset_us: u64,
}

impl Default for ReplyBufferFigures {
    fn default() -> Self {
        let bytes = OUTPUT_CHUNK_BYTES;
        ReplyBufferFigures { bytes, peak_bytes: bytes, peak_reset_us: 0 }
    }
}

impl ReplyBufferFigures {
    /// Updates the peak of unsent bytes.
    #[inline]
    pub fn note_unsent(&mut self, unsent_bytes: usize) {
        self.peak_bytes = self.peak_bytes.max(unsent_bytes);
    }
}

/// Unsent output, as CLIENT LIST shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Within the reply buffer.
    pub buffered_bytes: usize,
    /// Beyond it: subject to output limits.
    pub chunks: usize,
    /// Total size of those chunks.
    pub chunk_bytes: usize,
}

/// A replica's description of itself (REPLCONF), sent before it requests a sync.
#[derive(Clone, Debug, Default)]
pub struct ReplicaProfile {
    /// The port it listens on; 0: not sent.
    pub listening_port: i64,
    /// Its announced address, which replaces the connection's.
    pub address: Option<String>,
    /// It accepts a snapshot of unknown length with an end mark.
    pub finds_end_mark: bool,
    /// It accepts a new id for a continued history.
    pub takes_new_ids: bool,
    /// It accepts the snapshot over a separate connection.
    pub takes_rdb_channel: bool,
    /// This is that separate connection.
    pub is_rdb_channel: bool,
    /// The rdb channel of the same replica.
    pub rdb_client: Option<ClientId>,
    /// 0x090102 is 9.1.2; 0: not sent.
    pub version: u32,
    /// Which node of the cluster it is.
    pub node_id: Option<NodeId>,
    /// It needs no stream after the snapshot.
    pub snapshot_only: bool,
    /// It accepts a snapshot without keys.
    pub without_data: bool,
    /// It accepts a snapshot without functions.
    pub without_functions: bool,
    /// It attached with SYNC: it sends no acknowledgements, and gets neither id nor offset.
    pub attached_with_sync: bool,
    /// Stream bytes not yet sent to it, updated about once a second.
    pub unsent_stream_bytes: u64,
    /// Its socket is to gather small writes; the option is not set yet.
    pub gathers_small_writes: bool,
}

impl ReplicaProfile {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.address.as_ref().map_or(0, String::capacity)
    }
}

/// The library of a client, as it says by CLIENT SETINFO.
#[derive(Clone, Debug, Default)]
pub struct ClientLibrary {
    /// Its name; empty: unknown.
    pub name: Vec<u8>,
    /// Its version; empty: unknown.
    pub version: Vec<u8>,
}

/// A client's state in the executor.
#[derive(Debug)]
pub struct Client {
    /// The id that CLIENT ID returns; never reused.
    pub id: ClientId,
    /// The client's index in the table of clients.
    pub handle: ClientHandle,
    /// Figures of the connection.
    pub connection: ConnectionFigures,
    /// Time of the connection's acceptance.
    pub created: Reading,
    /// Time of the last command, or of the last output sent.
    pub last_interaction: Reading,
    /// The name of CLIENT SETNAME; empty: none.
    pub name: Vec<u8>,
    /// The library that it uses.
    pub library: ClientLibrary,
    /// The selected database.
    pub db_index: usize,
    /// The client has authenticated, or `default` needs no password.
    pub authenticated: bool,
    /// The client was authenticated at some time.
    pub ever_authenticated: bool,
    /// Consecutive wrong passwords.
    pub authentication_failures: u8,
    /// Set by [`super::Clients::set_user`], which lists the clients of users.
    pub(super) user: UserHandle,

    /// Unsent replies, and the protocol in force.
    pub output: ReplyBuffer,
    /// Output that waits for changes to be confirmed.
    pub held: Option<Box<HeldOutput>>,
    /// Size and peak of the reply buffer.
    pub reply_buffer: ReplyBufferFigures,
    /// Messages to it that arrived while its command ran.
    pub deferred_output: Vec<u8>,
    /// Its command is running and holds the output: messages from others go to `deferred_output`.
    pub output_borrowed: bool,
    /// Listed in [`super::Clients::with_output`].
    pub output_pending: bool,
    /// Output from others has not been counted in its memory.
    pub is_uncounted_receiver: bool,
    /// Monotonic time since which the output has exceeded its soft limit.
    pub output_over_soft_limit_since_us: Option<u64>,
    /// The mode of CLIENT REPLY.
    pub reply_mode: ReplyMode,

    /// The transaction that MULTI opened.
    pub transaction: Option<Box<Transaction>>,
    /// The keys of WATCH.
    pub watched: Vec<Watched>,
    /// Memory of the watched keys, here and in the table of watched keys.
    pub watched_bytes: usize,
    /// A watched key has changed: EXEC replies null.
    pub watch_broken: bool,
    /// Channels and patterns that the client subscribed to.
    pub subscriptions: Subscriptions,
    /// Options of CLIENT TRACKING; `None`: off.
    pub tracking: Option<Box<Tracking>>,
    /// Memory of the client's reads in the table of tracked keys; it may remain after tracking is turned off.
    pub tracked_bytes: usize,
    /// Memory of the client's suspended script.
    pub suspended_bytes: usize,
    /// The blocked command; `None`: the client is not blocked.
    pub blocked: Option<Box<Blocked>>,

    /// The client receives MONITOR's output.
    pub is_monitor: bool,
    /// It receives the replication stream, or waits for it, and gets no replies.
    pub is_replica: bool,
    /// The description that a replica sent by REPLCONF.
    pub replica: Option<Box<ReplicaProfile>>,
    /// It is this server's primary.
    pub is_primary: bool,
    /// It is the primary before the stream begins, or the target of a slot migration before the keys: hidden from lists.
    pub is_linking: bool,
    /// CLIENT NO-EVICT: its memory is not limited by `maxmemory-clients`.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH: its reads leave the keys' access bits as they are.
    pub no_touch: bool,
    /// What a node of a cluster serves for it.
    pub routing: Routing,
    /// CLIENT IMPORT-SOURCE: it may read and write expired keys while `import-mode` is on.
    pub import_source: bool,
    /// CLIENT CAPA REDIRECT: it follows a redirection to another server.
    pub capabilities_redirect: bool,
    /// Commands never block this client: it runs a script or a transaction.
    pub deny_blocking: bool,
    /// Close once the output has been written (QUIT, protocol errors).
    pub close_after_reply: bool,
    /// Close at once (limits, CLIENT KILL).
    pub close_asap: bool,
    /// The last command that it sent.
    pub last_command: Option<CommandId>,
    /// Number of commands that it has run.
    pub commands_total: u64,
    /// End of its last change in the append-only file, in total bytes appended.
    pub log_end: u64,
    /// End of its last change in the replication stream, as an offset.
    pub stream_end: u64,
    /// Its memory as counted in [`super::Clients::memory_bytes`].
    pub counted_bytes: usize,
    /// Its memory as counted in [`super::Clients::unauthenticated_bytes`].
    pub unauthenticated_bytes: usize,
}

/// The connection of a slot migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLink {
    /// The job.
    pub job: JobId,
    /// The slots go to the client's node; otherwise they come from there.
    pub is_export: bool,
}

impl Client {
    /// Returns whether it is another server that sends changes of data, or receives those of slots.
    #[inline]
    pub fn is_peer(&self) -> bool {
        self.is_primary || self.routing.slot_link.is_some()
    }

    /// Returns whether it is the source of a slot migration.
    #[inline]
    pub fn is_slot_source(&self) -> bool {
        self.routing.slot_link.is_some_and(|link| !link.is_export)
    }

    /// Returns whether it is the target of a slot migration.
    #[inline]
    pub fn is_slot_target(&self) -> bool {
        self.routing.slot_link.is_some_and(|link| link.is_export)
    }

    /// Creates a newly connected client.
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
            library: ClientLibrary::default(),
            db_index: 0,
            authenticated,
            ever_authenticated: authenticated,
            authentication_failures: 0,
            user: UserHandle::DEFAULT,
            output: ReplyBuffer::new(Protocol::Resp2),
            held: None,
            reply_buffer: ReplyBufferFigures::default(),
            deferred_output: Vec::new(),
            output_borrowed: false,
            output_pending: false,
            is_uncounted_receiver: false,
            output_over_soft_limit_since_us: None,
            reply_mode: ReplyMode::On,
            transaction: None,
            watched: Vec::new(),
            watched_bytes: 0,
            watch_broken: false,
            subscriptions: Subscriptions::default(),
            tracking: None,
            tracked_bytes: 0,
            suspended_bytes: 0,
            blocked: None,
            is_monitor: false,
            is_replica: false,
            replica: None,
            is_primary: false,
            is_linking: false,
            no_evict: false,
            no_touch: false,
            routing: Routing::default(),
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

    /// Returns the protocol in force.
    pub fn protocol(&self) -> Protocol {
        self.output.protocol
    }

    /// Returns whether this is a RESP2 subscriber, which may send only a few commands.
    pub fn in_subscribed_context(&self) -> bool {
        self.protocol() == Protocol::Resp2 && !self.subscriptions.is_empty()
    }

    /// Returns the class that decides its output limits.
    pub fn output_class(&self) -> OutputClass {
        match self.subscriptions.is_empty() {
            _ if self.is_replica => OutputClass::Replica,
            true => OutputClass::Normal,
            false => OutputClass::PubSub,
        }
    }

    /// Returns whether it is about to be closed: no output follows its present replies.
    pub fn is_closing(&self) -> bool {
        self.close_asap || self.close_after_reply
    }

    /// Returns the id of the client that receives its invalidations, for replies. 0: itself; -1: it does not track.
    pub fn redirection(&self) -> i64 {
        self.tracking.as_ref().map_or(-1, |tracking| tracking.redirect.map_or(0, |id| signed_count(id.0)))
    }

    #[inline]
    /// Returns the handle of the client's user.
    pub fn user(&self) -> UserHandle {
        self.user
    }

    /// Returns whether output waits for changes to be confirmed.
    pub fn holds_output(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.is_empty())
    }

    /// Returns its unsent output.
    pub fn unsent(&self) -> Unsent {
        self.unsent_of(self.output.len())
    }

    /// Returns the stream bytes not yet sent to a replica, which has limits of its own.
    pub fn unsent_stream(&self) -> Unsent {
        let bytes = self.replica.as_ref().map_or(0, |replica| usize_of(replica.unsent_stream_bytes));
        let chunks = bytes.div_ceil(CHUNK_ROOM_BYTES);
        Unsent { buffered_bytes: 0, chunks, chunk_bytes: chunks * CHUNK_COUNTED_BYTES }
    }

    /// As [`Self::unsent`], for output taken out for writing.
    pub fn unsent_of(&self, output_len: usize) -> Unsent {
        let held_len = self.held.as_ref().map_or(0, |held| held.len());
        let unsent = output_len + held_len + self.connection.output_under_way();
        let buffered_bytes = unsent.min(self.reply_buffer.bytes);
        let chunks = (unsent - buffered_bytes).div_ceil(CHUNK_ROOM_BYTES);
        Unsent { buffered_bytes, chunks, chunk_bytes: chunks * CHUNK_COUNTED_BYTES }
    }

    /// As [`Self::memory_bytes`]; unsent output counts in whole chunks, as [`Self::unsent`] counts it.
    pub fn memory_bytes_in_chunks(&self) -> usize {
        let held_len = self.held.as_ref().map_or(0, |held| held.len());
        let output_bytes = self.output.memory_bytes() + held_len + self.connection.output_under_way();
        self.memory_bytes() + self.unsent().chunk_bytes.saturating_sub(output_bytes)
    }

    /// Returns the memory held for this client.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.connection.memory_bytes()
            + self.connection.output_under_way()
            + self.connection.address.capacity()
            + self.connection.local_address.capacity()
            + self.name.capacity()
            + self.library.name.capacity()
            + self.library.version.capacity()
            + self.output.memory_bytes()
            + self.held.as_ref().map_or(0, |held| held.memory_bytes())
            + self.deferred_output.capacity()
            + self.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes())
            + self.watched_bytes
            + self.subscriptions.memory_bytes
            + self.tracking.as_ref().map_or(0, |tracking| tracking.memory_bytes())
            + self.tracked_bytes
            + self.suspended_bytes
            + self.replica.as_ref().map_or(0, |replica| replica.memory_bytes())
            + self.blocked.as_ref().map_or(0, |blocked| blocked.memory_bytes())
    }
}
