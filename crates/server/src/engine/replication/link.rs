//! The replica's role: the link to the primary, from REPLICAOF to its end, and its retries.
//!
//! ```text
//! Connect --(connection)--> Connecting --> Handshake --+FULLRESYNC--> Transfer --> Loading --> Connected
//!    ^                                         |                     ^                            ^
//!    |                                         +-+DUALCHANNELSYNC--> OpensRdbChannel              |
//!    |                                         +--------------------+CONTINUE---------------------+
//!    +------- after any failure, and after the end of the connection
//! ```
//!
//! 1. There is a link exactly while `replicaof` names a primary.
//! 2. The connection's client exists from Connecting on; while a snapshot is received or loaded it may have
//!    disconnected.
//! 3. If `continues`, the history's id and offset are those of the applied part of the primary's stream.
//!
//! `handshake` comes first, `transfer` receives the snapshot, and `stream` applies the stream after it; `channels` is the
//! second connection of a sync.

use super::super::Executor;
use super::Replication;
use super::channels::{Channels, KeptStream};
use super::handshake::{Event, Handshake};
use super::link_timers::{self, Phase, Timers};
use super::stream::LogPoints;
use super::stream_load::StreamLoad;
use super::transfer::{Origin as SnapshotOrigin, Transfer};
use crate::acl::UserHandle;
use crate::command::{Next, Origin, flag};
use crate::config::{Config, ReplicaOf};
use crate::db::Db;
use crate::error::{ClientError, on_the_wire};
use crate::observe::replication::{LinkFigures, LinkState, TransferFigures};
use crate::persist::rdb::PlaceInStream;
use crate::server::{ProcessRequest, Server, Target};
use crate::session::client::ConnectionFigures;
use crate::session::{BlockedOn, Client, ClientHandle};
use std::io;
use std::path::PathBuf;
use wire::reply::ReplyBuffer;

/// State of the link.
pub(super) enum Stage {
    /// To be connected.
    Connect,
    Connecting,
    Handshake(Handshake),
    /// The snapshot is requested over a second connection (`channels`).
    OpensRdbChannel(Handshake),
    Transfer(Box<Transfer>),
    /// The received snapshot is being loaded. `origin` is `None` if the primary has not sent it; then a partial sync is
    /// impossible.
    Loading {
        origin: Option<SnapshotOrigin>,
        received: TransferFigures,
        /// The received file; `None`: in memory alone.
        file: Option<PathBuf>,
    },
    Connected,
}

/// The link to the primary.
pub(crate) struct Link {
    pub(super) stage: Stage,
    /// The connection's client.
    pub(super) client: Option<ClientHandle>,
    timers: Timers,
    /// The applied part of the primary's stream can be continued.
    pub(super) continues: bool,
    /// The database selected in the stream.
    pub(super) db_index: usize,
    /// The open transaction of the stream, encoded.
    pub(super) open_transaction: Vec<u8>,
    pub(super) log_points: LogPoints,
    /// State of the two connections, while the snapshot is received over the second one; see there.
    pub(super) channels: Option<Box<Channels>>,
    /// The stream received during the snapshot and not yet applied.
    pub(super) kept: Option<KeptStream>,
    /// The load of a snapshot that is still being received; see there.
    pub(super) load: Option<Box<StreamLoad>>,
    /// Monotonic time of the last keep-alive sent during a load.
    pub(super) signed_us: u64,
    /// Monotonic time of the last log line about a failing disk.
    pub(super) disk_trouble_logged_us: u64,
    /// Time of the disconnection, in seconds since 1970.
    pub(super) down_since_s: Option<i64>,
}

impl Link {
    /// Creates a link to be connected. `continues`: the data of this server may be that of the primary up to the history's
    /// offset.
    fn new(continues: bool) -> Self {
        Link {
            stage: Stage::Connect,
            client: None,
            timers: Timers::default(),
            continues,
            db_index: 0,
            open_transaction: Vec::new(),
            log_points: LogPoints::default(),
            channels: None,
            kept: None,
            load: None,
            signed_us: 0,
            disk_trouble_logged_us: 0,
            down_since_s: None,
        }
    }

    fn state(&self) -> LinkState {
        match self.stage {
            Stage::Connect => LinkState::Connect,
            Stage::Connecting => LinkState::Connecting,
            Stage::Handshake(_) | Stage::OpensRdbChannel(_) => LinkState::Handshake,
            Stage::Transfer(_) | Stage::Loading { .. } => LinkState::Sync,
            Stage::Connected => LinkState::Connected,
        }
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Connect => Phase::ToConnect,
            Stage::Connecting | Stage::Handshake(_) | Stage::OpensRdbChannel(_) => Phase::Connecting,
            Stage::Transfer(_) => Phase::Receiving,
            Stage::Loading { .. } => Phase::Loading,
            Stage::Connected => Phase::Applying,
        }
    }

    /// Records input from the primary, which restarts the timeout.
    #[inline]
    pub(super) fn note_input(&mut self, now_us: u64) {
        self.timers.note_input(now_us);
    }

    /// Returns whether a complete snapshot has been received but not yet loaded.
    pub(super) fn has_received_all(&self) -> bool {
        matches!(&self.stage, Stage::Transfer(transfer) if transfer.is_whole())
    }

    pub(super) fn is_of(&self, handle: ClientHandle) -> bool {
        self.client == Some(handle)
    }

    fn rdb_channel(&self) -> Option<ClientHandle> {
        self.channels.as_ref().and_then(|channels| channels.rdb)
    }

    /// Returns whether the timeout applies to this connection: the snapshot's, until it has been received.
    fn listens_to(&self, handle: ClientHandle) -> bool {
        match self.stage {
            Stage::OpensRdbChannel(_) | Stage::Transfer(_) if self.channels.is_some() => {
                self.rdb_channel() == Some(handle)
            }
            _ => self.is_of(handle),
        }
    }
}

/// State of the replica's role.
#[derive(Default)]
pub struct Upstream {
    pub(super) link: Option<Link>,
}

impl Upstream {
    /// Returns whether the primary's stream is being applied.
    pub(in crate::engine) fn is_linked(&self) -> bool {
        self.link.as_ref().is_some_and(|link| matches!(link.stage, Stage::Connected))
    }

    /// Returns whether this is the client of the link's own connection.
    fn is_of_link(&self, handle: ClientHandle) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_of(handle))
    }

    /// Returns the client of the link's own connection.
    pub(super) fn link_client(&self) -> Option<ClientHandle> {
        self.link.as_ref().and_then(|link| link.client)
    }

    /// Returns whether this replica has its primary's data, as of now or as of when the link was lost.
    pub(in crate::engine) fn has_data(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.continues || matches!(link.stage, Stage::Connected))
    }

    /// Returns for how long this replica has not heard of its primary, in whole seconds: since ever if it never has; 0 on a
    /// primary.
    pub(in crate::engine) fn data_age_ms(&self, server: &Server) -> u64 {
        let Some(link) = &self.link else { return 0 };
        let now = server.now;
        let age_s = match link.client.filter(|_| self.is_linked()) {
            Some(handle) => {
                let heard_us = server.clients[handle].last_interaction.monotonic_us;
                now.monotonic_us.saturating_sub(heard_us) / 1_000_000
            }
            None => now.unix_s().saturating_sub(link.down_since_s.unwrap_or(0)).unsigned_abs(),
        };
        age_s.saturating_mul(1000)
    }

    /// Lets the primary's pending commands run.
    pub(in crate::engine) fn resume_primary(&self, server: &mut Server) {
        if let Some(link) = &self.link {
            server.resumed.extend(link.client.into_iter().chain(link.rdb_channel()));
        }
    }

    /// Returns the database selected in the primary's stream; `None`: there is no primary.
    fn streamed_db(&self, server: &Server) -> Option<usize> {
        let link = self.link.as_ref()?;
        let client = link.client.filter(|_| matches!(link.stage, Stage::Connected));
        Some(client.map_or(link.db_index, |handle| server.clients[handle].db_index))
    }

    /// Returns whether the running load is of a snapshot from the primary.
    pub(in crate::engine) fn loads_for_sync(&self) -> bool {
        self.link.as_ref().is_some_and(|link| matches!(link.stage, Stage::Loading { .. }))
    }

    fn connect_to_primary(&mut self, server: &mut Server) {
        let Some(target) = primary_target(&server.config).filter(|_| self.link.is_some()) else { return };
        log::info!("Connecting to PRIMARY {}:{}", String::from_utf8_lossy(&target.host), target.port);
        let client = connect_client_to(server, target);
        if let Some(link) = &mut self.link {
            (link.stage, link.client) = (Stage::Connecting, Some(client));
            link.note_input(server.now.monotonic_us);
        }
        log::info!("PRIMARY <-> REPLICA sync started");
        self.note_link(server);
    }

    /// Handles a failed connection; its client is about to be disconnected.
    pub fn connecting_failed(&self, handle: ClientHandle, error: &io::Error) {
        if self.is_of_link(handle) {
            log::warn!("Error condition on socket for SYNC: {}", crate::sys::file::system_text(error));
        } else if self.is_rdb_channel(handle) {
            log::warn!(
                "Dual channel replication: Error condition on socket for dual channel replication: {}",
                crate::sys::file::system_text(error)
            );
        }
    }

    /// Returns whether the connection's input goes to [`Executor::received`] rather than being parsed as commands.
    #[inline]
    pub fn takes_bytes(&self, server: &Server, handle: ClientHandle) -> bool {
        server.clients[handle].is_primary && self.link_takes_bytes(server, handle)
    }

    #[cold]
    fn link_takes_bytes(&self, server: &Server, handle: ClientHandle) -> bool {
        let takes = self.link.as_ref().is_some_and(|link| match &link.stage {
            _ if link.rdb_channel() == Some(handle) => true,
            _ if !link.is_of(handle) => false,
            _ if link.channels.is_some() => true,
            Stage::Handshake(_) => true,
            Stage::Transfer(transfer) => !transfer.is_whole(),
            _ => false,
        });
        takes && !server.clients[handle].close_asap
    }

    /// Detaches the client and keeps the applied data; `false`: it is not the link's.
    fn detach(&mut self, server: &Server, handle: ClientHandle) -> bool {
        if let Some(channels) = self.link.as_mut().and_then(|link| link.channels.as_mut())
            && channels.rdb.take_if(|rdb| *rdb == handle).is_some()
        {
            return true;
        }
        let Some(link) = self.link.as_mut().filter(|link| link.is_of(handle)) else { return false };
        if matches!(link.stage, Stage::Connected) {
            link.db_index = server.clients[handle].db_index;
        }
        link.client = None;
        link.open_transaction.clear();
        true
    }

    /// Publishes the state of the link.
    pub(super) fn note_link(&self, server: &mut Server) {
        let kept = self.link.as_ref().and_then(|link| link.kept.as_ref());
        let (bytes, memory_bytes) = kept.map_or((0, 0), |kept| (kept.len(), kept.memory_bytes() as u64));
        let figures = &mut server.observed.replication;
        (figures.kept_bytes, figures.kept_memory_bytes) = (bytes, memory_bytes);
        figures.link = self.link.as_ref().map(|link| {
            let transfer = match &link.stage {
                Stage::Transfer(transfer) => Some(transfer.figures()),
                Stage::Loading { received, .. } => Some(*received),
                _ => None,
            };
            LinkFigures {
                state: link.state(),
                continues: link.continues,
                last_input_us: link.timers.last_input_us(),
                down_since_s: link.down_since_s,
                transfer,
            }
        });
    }
}

impl Replication {
    /// Returns the database selected in the stream to replicas; `None`: the next command selects its own.
    pub(super) fn selected_db(&self, server: &Server) -> Option<usize> {
        self.upstream.streamed_db(server).or(self.outgoing.selected())
    }

    /// Returns the stream position for a replica that continues from a snapshot alone.
    pub(in crate::engine) fn place_in_stream(&self, server: &Server) -> Option<PlaceInStream> {
        self.outgoing.has_backlog().then(|| PlaceInStream {
            db_index: self.selected_db(server).unwrap_or(0),
            id: self.outgoing.history().id().to_owned(),
            offset: self.outgoing.offset(),
        })
    }

    /// Adopts the history of the data loaded at the start, so that this server and its replicas can continue it.
    pub(in crate::engine) fn take_up_stream(
        &mut self,
        db: &mut Db,
        server: &mut Server,
        place: PlaceInStream,
    ) {
        if server.config.replicaof.is_some() {
            let db_index = if place.db_index < db.database_count() { place.db_index } else { 0 };
            self.outgoing.take_over(place.id, place.offset);
            self.upstream.link = Some(Link { db_index, ..Link::new(true) });
            self.upstream.note_link(server);
        } else {
            self.outgoing.inherit(place.id, place.offset);
            self.note_without_replicas(server.now.monotonic_us);
        }
        self.note_stream(db, server);
    }

    fn timer_facts(&self, server: &Server) -> link_timers::Facts {
        link_timers::Facts {
            now_us: server.now.monotonic_us,
            timeout_us: u64::from(server.config.repl_timeout_seconds) * 1_000_000,
            is_failing_over: self.failover.is_running(),
        }
    }

    /// Passes an event to the timers of the link.
    fn step_timers(&mut self, server: &Server, event: link_timers::Event) -> Vec<link_timers::Action> {
        let facts = self.timer_facts(server);
        self.upstream.link.as_mut().map_or_else(Vec::new, |link| link.timers.step(event, facts))
    }

    /// Passes the time to the timers; also creates the link that the configuration names at the start.
    fn tick_link(&mut self, server: &Server) -> Vec<link_timers::Action> {
        if server.config.replicaof.is_none() {
            return Vec::new();
        }
        let phase = self.upstream.link.get_or_insert_with(|| Link::new(false)).phase();
        self.step_timers(server, link_timers::Event::Tick(phase))
    }

    /// Records bytes from the primary or a replica, even a part of a command.
    #[cold]
    pub(in crate::engine) fn note_received(
        &mut self,
        server: &mut Server,
        handle: ClientHandle,
        bytes: usize,
    ) {
        let now_us = server.now.monotonic_us;
        if let Some(link) = &mut self.upstream.link
            && (link.is_of(handle) || link.rdb_channel() == Some(handle))
        {
            if link.listens_to(handle) {
                link.note_input(now_us);
            }
            if !matches!(link.stage, Stage::Handshake(_) | Stage::OpensRdbChannel(_)) {
                server.observed.statistics.replication_input_bytes += bytes as u64;
            }
        }
        if let Some(replica) = self.replicas.get_mut(handle) {
            replica.note_sign_of_life(now_us);
        }
    }
}

/// Unblocks clients that wait for keys or replicas, which a replica does not serve.
pub(super) fn end_waiting_of_all(server: &mut Server) {
    let Some(primary) = server.config.replicaof.clone() else { return };
    let is_waiting = |client: &&Client| {
        client.blocked.as_ref().is_some_and(|blocked| match blocked.on {
            BlockedOn::Keys { .. } | BlockedOn::Acknowledgement { .. } => true,
            // A command of clusters, where roles change in another way.
            BlockedOn::SlotReplicas(_) => false,
            // These waits end in any role.
            BlockedOn::Pause | BlockedOn::Save { .. } | BlockedOn::Loading | BlockedOn::Shutdown => false,
        })
    };
    let waiting: Vec<_> = server.clients.by_age().filter(is_waiting).map(|client| client.handle).collect();
    for handle in waiting {
        let client = &server.clients[handle];
        let Some(blocked) = &client.blocked else { continue };
        let writes = server.registry.row(blocked.command).is(flag::WRITE);
        if client.routing.reads_replicas && !writes {
            continue;
        }
        let waits_for_keys = matches!(blocked.on, BlockedOn::Keys { .. });
        let is_redirected = client.capabilities_redirect && waits_for_keys;
        let error = match is_redirected {
            true => ClientError::redirect(&primary.host, primary.port),
            false => ClientError::text(
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            ),
        };
        let line = error.to_string();
        server.observed.statistics.count_error(&line);
        server.note_given_up(handle, true);
        server.wake(handle, |reply| reply.error(on_the_wire(&line)));
        if !is_redirected {
            server.clients[handle].close_after_reply = true;
        }
    }
}

/// Returns the configured primary's address.
pub(super) fn primary_target(config: &Config) -> Option<Target> {
    let primary = config.replicaof.clone()?;
    let source = config.bind_source_addr.clone();
    Some(Target { host: primary.host, port: primary.port, source })
}

/// Begins a connection to the primary; returns its client.
pub(super) fn connect_client_to(server: &mut Server, target: Target) -> ClientHandle {
    let now = server.now;
    let client =
        server.clients.add(|id, handle| Client::new(id, handle, ConnectionFigures::default(), now, true));
    server.clients[client].is_primary = true;
    server.clients[client].is_linking = true;
    server.clients.set_user(client, UserHandle::SUPERUSER);
    // Commands of the stream must not block: all later ones would wait.
    server.clients[client].deny_blocking = true;
    server.process_requests.push(ProcessRequest::Connect { client, target });
    client
}

impl Executor {
    pub(crate) fn is_replica(&self) -> bool {
        self.server.config.replicaof.is_some()
    }

    /// Returns whether expired keys and fields stay until the source of the data removes them.
    #[inline]
    pub(crate) fn leaves_expiry_to_source(&self) -> bool {
        self.server.config.import_mode || self.is_replica()
    }

    /// Handles REPLICAOF.
    pub(crate) fn follow_on_request(
        &mut self,
        handle: ClientHandle,
        primary: Option<ReplicaOf>,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        if self.replication.failover.is_running() {
            return Err(ClientError::text("ERR REPLICAOF not allowed while failing over."));
        }
        let Some(primary) = primary else {
            if self.is_replica() {
                self.promote();
                log::info!("PRIMARY MODE enabled (user request)");
            }
            reply.ok();
            return Ok(Next::Reply);
        };
        if self.server.clients[handle].is_replica {
            return Err(ClientError::text("ERR Command is not valid when client is a replica."));
        }
        let known = self.server.config.replicaof.as_ref();
        if known
            .is_some_and(|known| known.port == primary.port && known.host.eq_ignore_ascii_case(&primary.host))
        {
            log::info!(
                "REPLICAOF would result into synchronization with the primary we are already connected with. No operation performed."
            );
            reply.simple("OK Already connected to specified master");
            return Ok(Next::Reply);
        }
        let shown = format!("{}:{}", String::from_utf8_lossy(&primary.host), primary.port);
        // The transaction's earlier changes belong to this server's own history.
        self.feed_unit();
        let was_primary = !self.is_replica();
        self.follow(primary);
        if was_primary {
            end_waiting_of_all(&mut self.server);
        }
        log::info!("REPLICAOF {shown} enabled (user request)");
        reply.ok();
        Ok(Next::Reply)
    }

    /// Follows another primary; blocked clients stay blocked.
    pub(super) fn follow(&mut self, primary: ReplicaOf) {
        let continues = match &self.replication.upstream.link {
            Some(link) => link.continues,
            None => {
                log::info!(
                    "Before turning into a replica, using my own primary parameters to synthesize a cached primary: I may be able to synchronize with the new primary with just a partial transfer."
                );
                true
            }
        };
        // Leaving records the stream's database, for a partial sync.
        self.drop_link();
        let db_index = self.replication.upstream.link.as_ref().map_or(0, |link| link.db_index);
        self.server.config.replicaof = Some(primary);
        self.reconfigured();
        let down_since_s = self.replication.upstream.link.as_ref().and_then(|link| link.down_since_s);
        self.replication.upstream.link = Some(Link { db_index, down_since_s, ..Link::new(continues) });
        self.replication.upstream.connect_to_primary(&mut self.server);
    }

    /// Promotes this server to a primary.
    pub(in crate::engine) fn promote(&mut self) {
        if self.server.config.replicaof.is_none() {
            return;
        }
        self.drop_link();
        self.replication.upstream.link = None;
        self.server.config.replicaof = None;
        self.reconfigured();
        self.replication.take_history_over(&mut self.db, &mut self.server);
        self.disconnect_replicas();
        self.replication.upstream.note_link(&mut self.server);
        // The command may be part of a transaction, of which the base would contain half.
        self.aof.restart_log(
            &mut self.disk,
            &mut self.db,
            &mut self.server,
            None,
            Origin { in_transaction: true, ..Origin::default() },
        );
    }

    /// Closes the connection, if there is one; the applied data stays.
    fn drop_link(&mut self) {
        if let Some(handle) = self.replication.upstream.link_client() {
            self.leave(handle);
        }
        self.abandon_stream_load();
        self.replication.upstream.abandon_channels(&mut self.server, &self.reclaimer);
    }

    /// Periodic work of the link.
    pub(crate) fn link_cron(&mut self) {
        for action in self.replication.tick_link(&self.server) {
            match action {
                link_timers::Action::Connect => {
                    self.replication.upstream.connect_to_primary(&mut self.server)
                }
                link_timers::Action::Acknowledge => self.replication.acknowledge(&mut self.server, &self.aof),
                link_timers::Action::Reconnect { why } => {
                    log::warn!("{why}");
                    self.reconnect();
                }
                link_timers::Action::Publish => self.replication.upstream.note_link(&mut self.server),
            }
        }
    }

    fn reconnect(&mut self) {
        self.drop_link();
        if let Some(primary) = &self.server.config.replicaof {
            log::info!(
                "Reconnecting to PRIMARY {}:{} after failure",
                String::from_utf8_lossy(&primary.host),
                primary.port
            );
        }
        self.replication.upstream.connect_to_primary(&mut self.server);
    }

    /// Handles an established connection.
    pub fn connected(&mut self, handle: ClientHandle) {
        if self.replication.upstream.is_of_link(handle) {
            log::info!("Non blocking connect for SYNC fired the event.");
            self.replication.upstream.expect(&mut self.server, Handshake::of_link());
            self.go_on_with_handshake(handle, Event::Established);
        } else if self.replication.upstream.is_rdb_channel(handle) {
            self.go_on_with_handshake(handle, Event::Established);
        }
    }

    /// Handles input; returns the number of bytes taken.
    pub fn received(&mut self, handle: ClientHandle, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.replication.upstream.takes_bytes(&self.server, handle) {
            let Some(link) = &mut self.replication.upstream.link else { break };
            if link.listens_to(handle) {
                link.note_input(self.server.now.monotonic_us);
            }
            let rest = &bytes[taken..];
            let more = match &link.stage {
                _ if link.channels.is_some() && link.is_of(handle) => {
                    match self.replication.upstream.keep_bytes(&mut self.server, rest) {
                        Some(kept) => kept,
                        None => self.handle_line(handle, rest),
                    }
                }
                Stage::Handshake(_) | Stage::OpensRdbChannel(_) => self.handle_line(handle, rest),
                Stage::Transfer(transfer) if !transfer.is_whole() => self.take_in(handle, rest),
                // The rdb channel carries no bytes after the snapshot.
                _ => rest.len(),
            };
            if more == 0 {
                break;
            }
            taken += more;
        }
        if taken > 0 {
            self.replication.upstream.note_link(&mut self.server);
        }
        taken
    }

    /// Handles a disconnected client. If it was the link's, the link reconnects.
    pub(crate) fn note_disconnected(&mut self, handle: ClientHandle) {
        let was_rdb_channel = self.replication.upstream.is_rdb_channel(handle);
        if !self.forget_connection(handle) {
            return;
        }
        let Some(link) = &self.replication.upstream.link else { return };
        match &link.stage {
            // The snapshot is complete: it is loaded, and the stream continued from there.
            Stage::Loading { .. } => {}
            Stage::Transfer(transfer) if transfer.is_whole() && (link.load.is_some() || was_rdb_channel) => {}
            Stage::Connected => {
                log::warn!("Connection with primary lost.");
                log::info!("Caching the disconnected primary state.");
                self.note_lost_link();
                self.reconnect();
            }
            _ => self.note_lost_link(),
        }
    }

    /// Schedules a reconnection.
    pub(super) fn note_lost_link(&mut self) {
        self.abandon_stream_load();
        self.replication.upstream.abandon_channels(&mut self.server, &self.reclaimer);
        let Some(link) = &mut self.replication.upstream.link else { return };
        match std::mem::replace(&mut link.stage, Stage::Connect) {
            Stage::Transfer(transfer) => transfer.abandon(self.disk.world()),
            Stage::Connected => link.down_since_s = Some(self.server.now.unix_s()),
            _ => {}
        }
        self.replication.step_timers(&self.server, link_timers::Event::Lost);
        self.replication.upstream.note_link(&mut self.server);
    }

    /// Closes the connection, to reconnect.
    pub(super) fn leave(&mut self, handle: ClientHandle) {
        if self.forget_connection(handle) {
            self.server.close_asap(handle);
            self.note_lost_link();
        }
    }

    /// Detaches the client and keeps the applied data; `false`: it is not the link's.
    fn forget_connection(&mut self, handle: ClientHandle) -> bool {
        if self.is_put_aside(handle) {
            self.forward_script(handle);
        }
        self.replication.upstream.detach(&self.server, handle)
    }

    /// Schedules a full sync after a delay, when the primary's stream cannot be followed.
    pub(super) fn schedule_full_sync(&mut self, handle: ClientHandle) {
        self.retry_later(handle);
        if let Some(link) = &mut self.replication.upstream.link {
            link.continues = false;
        }
        self.replication.upstream.note_link(&mut self.server);
    }

    /// Reconnects after a delay, when the primary's input is invalid but the data of this server is intact.
    pub(super) fn retry_later(&mut self, handle: ClientHandle) {
        self.leave(handle);
        self.replication.step_timers(&self.server, link_timers::Event::Refused);
    }
}

/// Follows the primary of this node's shard. `full_sync`: its history is another.
pub(in crate::engine) fn follow_in_cluster(executor: &mut Executor, primary: ReplicaOf, full_sync: bool) {
    executor.feed_unit();
    executor.follow(primary);
    if full_sync && let Some(link) = &mut executor.replication.upstream.link {
        link.continues = false;
    }
}
