//! Replicas of this server: attaching, their commands, and detaching.

use super::super::Executor;
use super::full_sync::FileTransfer;
use super::history::Refusal;
use super::{KnownAcknowledgements, OutputLimit, SoftLimit};
use crate::command::Next;
use crate::error::{ClientError, NO_LOG_TO_WAIT_FOR, on_the_wire, quoted};
use crate::observe::replication::{ReplicaFigures, ReplicaState};
use crate::server::{AcknowledgedOffsets, Point, ReplicationRequest};
use crate::session::{BlockedOn, ClientHandle, TimeoutReply};
use wire::reply::ReplyBuffer;

const SECOND_US: u64 = 1_000_000;
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// State of a replica.
pub(crate) enum Stage {
    /// Its snapshot has not begun.
    Waiting { since_us: u64 },
    /// Its snapshot is being written to a file.
    Snapshot,
    /// It is sent that file.
    File(Box<FileTransfer>),
    /// It is sent a snapshot as it is written: `position` is its place in the transfer.
    Pipe { position: u64, progress_us: u64 },
    /// It is sent only a snapshot, by a child that writes to its socket.
    RdbChannel,
    /// It is sent the stream, while another connection of the same replica carries the snapshot.
    MainChannel { rdb: ClientHandle },
    /// It is sent the stream; not before its first acknowledgement, if `awaits_acknowledgement`.
    Online { awaits_acknowledgement: bool },
}

/// Another server that is sent the stream, or will be.
pub(crate) struct Replica {
    pub stage: Stage,
    /// Its next byte of the stream, counted from 0; `None` before its snapshot has begun, and if it needs no stream.
    pub position: Option<u64>,
    pub acknowledged: AcknowledgedOffsets,
    /// When it last acknowledged or came online, on the monotonic clock.
    pub heard_us: u64,
    pub(super) soft_limit: SoftLimit,
}

impl Replica {
    fn new(stage: Stage, now_us: u64) -> Self {
        Replica {
            stage,
            position: None,
            acknowledged: AcknowledgedOffsets::default(),
            heard_us: now_us,
            soft_limit: SoftLimit::default(),
        }
    }

    /// Records a sign of life. While a replica loads its snapshot, that is an occasional empty line; later only
    /// acknowledgements count.
    pub fn note_heard(&mut self, now_us: u64) {
        if self.acknowledged.stream.is_none() {
            self.heard_us = now_us;
        }
    }

    /// Returns whether it has its snapshot and is sent the stream.
    pub fn is_online(&self) -> bool {
        matches!(self.stage, Stage::Online { .. })
    }

    /// Returns whether it is an rdb channel.
    pub fn is_rdb_channel(&self) -> bool {
        matches!(self.stage, Stage::RdbChannel)
    }

    fn state(&self) -> ReplicaState {
        match self.stage {
            Stage::Waiting { .. } | Stage::Snapshot | Stage::Pipe { .. } | Stage::RdbChannel => {
                ReplicaState::WaitsForSnapshot
            }
            Stage::MainChannel { .. } => ReplicaState::Loads,
            Stage::File(_) => ReplicaState::TakesFile,
            Stage::Online { .. } => ReplicaState::Online,
        }
    }
}

impl Executor {
    /// Does what a command has requested of replication.
    pub(in crate::engine) fn replicate(
        &mut self,
        handle: ClientHandle,
        request: ReplicationRequest,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        match request {
            ReplicationRequest::Follow(primary) => return self.follow_on_request(handle, primary, reply),
            ReplicationRequest::Synchronize { from } => self.synchronize(handle, from, reply)?,
            ReplicationRequest::Acknowledged { stream, on_disk, is_heard } => {
                self.take_acknowledgement(handle, stream, on_disk, is_heard);
            }
            ReplicationRequest::Failover(wanted) => return self.begin_failover(wanted, reply),
            ReplicationRequest::AbortFailover => return self.abort_failover_on_request(reply),
            ReplicationRequest::Feed(command) => {
                if self.feeds_stream() {
                    self.feed_verbatim(&command);
                }
                reply.ok();
                return Ok(Next::Reply);
            }
            ReplicationRequest::ChangeId => {
                log::info!("Changing replication IDs after receiving DEBUG change-repl-id");
                let id = self.replication.draw_id();
                self.replication.history.begin_anew(id);
                self.note_stream();
                reply.ok();
                return Ok(Next::Reply);
            }
        }
        Ok(Next::NoReply)
    }

    fn synchronize(
        &mut self,
        handle: ClientHandle,
        from: Option<Point>,
        reply: &ReplyBuffer,
    ) -> Result<(), ClientError> {
        let client = &mut self.server.clients[handle];
        if client.is_replica || client.is_monitor {
            return Ok(());
        }
        let has_output = !reply.is_empty() || client.connection.output_under_way() > 0;
        let profile = client.replica.get_or_insert_default();
        let is_filtered = profile.without_data || profile.without_functions;
        let can_be_filtered = profile.finds_end_mark;
        if let Some(point) = from.as_ref().filter(|point| point.takes_over)
            && self.replication.failover.is_none()
        {
            self.take_over_for(handle, &point.id)?;
        }
        self.may_serve_replicas()?;
        if has_output {
            return Err(ClientError::text("ERR SYNC and PSYNC are invalid with pending output"));
        }
        if is_filtered && !can_be_filtered {
            return Err(ClientError::text("ERR Filtered replica requires EOF capability"));
        }
        log::info!("Replica {} asks for synchronization", self.replica_name(handle));
        match from {
            Some(point) => {
                let Some(next) = point.next else {
                    log::warn!(
                        "Replica {} asks for synchronization but with a wrong offset",
                        self.replica_name(handle)
                    );
                    return Err(ClientError::NotInteger);
                };
                if self.go_on_from(handle, &point.id, next) {
                    return Ok(());
                }
                if self.takes_rdb_channel(handle) {
                    self.offer_rdb_channel(handle);
                    return Ok(());
                }
            }
            None => self.server.clients[handle].replica.get_or_insert_default().came_with_sync = true,
        }
        self.begin_full_sync(handle);
        Ok(())
    }

    /// Promotes this replica, for a FAILOVER of its primary.
    fn take_over_for(&mut self, handle: ClientHandle, id: &[u8]) -> Result<(), ClientError> {
        log::info!("Failover request received for replid {}.", String::from_utf8_lossy(id));
        if !self.is_replica() {
            return Err(ClientError::text("ERR PSYNC FAILOVER can't be sent to a master."));
        }
        if !self.replication.history.id().as_bytes().eq_ignore_ascii_case(id) {
            return Err(ClientError::text("ERR PSYNC FAILOVER replid must match my replid."));
        }
        self.follow_nobody();
        let client = &self.server.clients[handle];
        let (id, address) = (client.id, &client.connection.address);
        log::info!("PRIMARY MODE enabled (failover request from 'id={id} addr={address}')");
        Ok(())
    }

    /// Refuses to serve replicas while this replica has no link to its own primary, or while this server is handing its
    /// role over.
    fn may_serve_replicas(&self) -> Result<(), ClientError> {
        if self.replication.failover.is_some() {
            return Err(ClientError::text("NOMASTERLINK Can't SYNC while failing over"));
        }
        match self.server.config.replicaof {
            None => Ok(()),
            Some(_) if self.is_linked() => Ok(()),
            Some(_) => Err(ClientError::text("NOMASTERLINK Can't SYNC while not connected with my master")),
        }
    }

    /// Continues a replica from its offset, if the backlog still has the rest; returns whether it does.
    fn go_on_from(&mut self, handle: ClientHandle, id: &[u8], next: i64) -> bool {
        let sendable = self.replication.sendable();
        let next = match self.replication.history.may_continue(id, next, sendable) {
            Ok(next) => next,
            Err(refusal) => {
                let statistics = &mut self.server.observed.statistics;
                statistics.partial_syncs_refused += u64::from(refusal != Refusal::KnowsNone);
                self.log_refusal(handle, id, next, &refusal);
                return false;
            }
        };
        self.server.observed.statistics.partial_syncs += 1;
        let position = next - 1;
        let stage = match self.take_up_reservation(handle) {
            Some(rdb) => Stage::MainChannel { rdb },
            None => Stage::Online { awaits_acknowledgement: false },
        };
        self.add_replica(handle, stage, Some(position));
        let takes_new_ids =
            self.server.clients[handle].replica.as_ref().is_some_and(|profile| profile.takes_new_ids);
        let line = match takes_new_ids {
            true => format!("+CONTINUE {}\r\n", self.replication.history.id()),
            false => "+CONTINUE\r\n".to_owned(),
        };
        self.server.clients.push(handle, |reply| reply.raw(line.as_bytes()));
        log::info!(
            "Partial resynchronization request from {} accepted. Sending {} bytes of backlog starting from offset {next}.",
            self.replica_name(handle),
            self.replication.history.offset() - position,
        );
        true
    }

    fn log_refusal(&self, handle: ClientHandle, id: &[u8], next: i64, refusal: &Refusal) {
        let (history, name) = (&self.replication.history, self.replica_name(handle));
        let asked = String::from_utf8_lossy(id);
        match refusal {
            Refusal::KnowsNone => log::info!("Full resync requested by replica {name}"),
            Refusal::OtherHistory => {
                let second = history.second().map_or_else(no_id, |second| second.id.clone());
                log::info!(
                    "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{asked}', my replication IDs are '{}' and '{second}')",
                    history.id()
                );
            }
            Refusal::BeyondSecond { first_other } => log::info!(
                "Partial resynchronization not accepted: Requested offset for second ID was {next}, but I can reply up to {first_other}"
            ),
            Refusal::NoBacklog => log::info!(
                "Unable to partial resync with replica {name} for lack of backlog (Replica request was: {asked}:{next})."
            ),
            Refusal::OutOfBacklog { numbers } => log::info!(
                "Unable to partial resync with replica {name} for lack of backlog (Replica request was {asked}:{next}, and I can only reply with the range [{}, {}]).",
                numbers.start(),
                numbers.end()
            ),
        }
        let lacks_bytes = matches!(refusal, Refusal::NoBacklog | Refusal::OutOfBacklog { .. });
        if lacks_bytes && u64::try_from(next).is_ok_and(|next| next > history.offset()) {
            log::warn!(
                "Warning: replica {name} tried to PSYNC with an offset ({next}) that is greater than the primary replication offset ({})",
                history.offset()
            );
        }
    }

    pub(super) fn add_replica(&mut self, handle: ClientHandle, stage: Stage, position: Option<u64>) {
        let now_us = self.server.now.monotonic_us;
        self.server.clients[handle].is_replica = true;
        self.server.clients.count_memory(handle);
        self.replication.replicas.insert(handle, Replica { position, ..Replica::new(stage, now_us) });
        self.replication.has_changed = true;
    }

    /// Returns the replica's name in log lines.
    pub(super) fn replica_name(&self, handle: ClientHandle) -> String {
        let (address, port) = self.replica_address(handle);
        match port {
            0 => format!("{address}:<unknown-replica-port>"),
            port if address.contains(':') => format!("[{address}]:{port}"),
            port => format!("{address}:{port}"),
        }
    }

    pub(super) fn replica_address(&self, handle: ClientHandle) -> (String, i64) {
        let client = &self.server.clients[handle];
        let profile = client.replica.as_deref();
        let own = || {
            let (ip, _) = client.connection.address.rsplit_once(':').unwrap_or_default();
            ip.trim_start_matches('[').trim_end_matches(']').to_owned()
        };
        let address = profile.and_then(|profile| profile.address.clone()).unwrap_or_else(own);
        (address, profile.map_or(0, |profile| profile.listening_port))
    }

    /// Starts the stream to a replica, with at least one command, so that the replica learns an offset.
    pub(super) fn begin_stream(&mut self) {
        if self.replication.history.offset() == 0 && self.feeds_stream() {
            self.append_to_stream(PING);
        }
    }

    /// Records an acknowledgement; an offset beyond the stream's end is invalid and counts as 0.
    fn take_acknowledgement(
        &mut self,
        handle: ClientHandle,
        stream: i64,
        on_disk: Option<i64>,
        is_heard: bool,
    ) {
        let offset = self.replication.history.offset();
        let now_us = self.server.now.monotonic_us;
        let Some(replica) = self.replication.replicas.get_mut(&handle) else { return };
        let known =
            |number: i64| Some(u64::try_from(number).ok().filter(|&number| number <= offset).unwrap_or(0));
        let acknowledged = &mut replica.acknowledged;
        acknowledged.stream = acknowledged.stream.max(known(stream));
        acknowledged.on_disk = acknowledged.on_disk.max(on_disk.and_then(known));
        self.replication.has_changed = true;
        if !is_heard {
            return;
        }
        replica.heard_us = now_us;
        match replica.stage {
            Stage::Online { awaits_acknowledgement: true } => {
                replica.stage = Stage::Online { awaits_acknowledgement: false };
                self.begin_stream();
            }
            // The snapshot is loaded.
            Stage::MainChannel { .. } => {
                replica.stage = Stage::Online { awaits_acknowledgement: false };
                log::info!("Synchronization with replica {} succeeded", self.replica_name(handle));
                self.begin_stream();
            }
            _ => {}
        }
    }

    /// Appends a command that changes no data.
    fn append_to_stream(&mut self, command: &[u8]) {
        self.replication.append_control(command);
        self.after_feeding();
    }

    /// Requests acknowledgements from all replicas, unless the stream must not grow.
    pub(in crate::engine) fn ask_replicas_at_once(&mut self) {
        if self.feeds_stream() && self.has_replicas() && !self.server.pauses.are_any() {
            self.append_to_stream(GETACK);
        }
    }

    fn is_synced(&self, replica: &Replica) -> bool {
        replica.acknowledged.stream.unwrap_or(0) >= self.replication.data_end()
    }

    /// Returns whether all replicas have all data; those receiving a snapshot do not.
    pub(in crate::engine) fn has_all_replicas_synced(&self) -> bool {
        self.replication.replicas.values().all(|replica| self.is_synced(replica))
    }

    /// Logs the lag of each replica.
    pub(in crate::engine) fn log_lagging_replicas(&self) {
        let replicas = &self.replication.replicas;
        let mut synced = 0;
        for (&handle, replica) in replicas {
            if self.is_synced(replica) {
                synced += 1;
                continue;
            }
            let silent_us = self.server.now.monotonic_us.saturating_sub(replica.heard_us);
            log::info!(
                "Lagging replica {} reported offset {} behind master, lag={}, state={}.",
                self.replica_name(handle),
                self.replication.history.offset() - replica.acknowledged.stream.unwrap_or(0),
                if replica.is_online() { silent_us / SECOND_US } else { 0 },
                replica.state().name()
            );
        }
        if !replicas.is_empty() {
            log::info!("{synced} of {} replicas are in sync when shutting down.", replicas.len());
        }
    }

    /// Requests acknowledgements, once for all clients that blocked since the last request.
    pub(in crate::engine) fn ask_for_acknowledgements(&mut self) {
        // While writes are paused the stream must not grow: a client may wait for replicas to catch up.
        if self.server.replicas.acknowledgements_wanted && !self.server.pauses.are_any() {
            self.server.replicas.acknowledgements_wanted = false;
            if self.feeds_stream() && !self.replication.replicas.is_empty() {
                self.append_to_stream(GETACK);
            }
        }
        self.note_replicas();
    }

    fn known_acknowledgements(&self) -> KnownAcknowledgements {
        KnownAcknowledgements {
            replicas: self.server.replicas.acknowledged.clone(),
            durability: self.server.durability,
            histories_forgotten: self.server.clients.histories_forgotten(),
        }
    }

    /// Replies to clients that wait for replicas, or for the append-only file to be on disk, once their condition holds
    /// or can no longer hold.
    pub(in crate::engine) fn serve_acknowledged(&mut self) {
        self.note_replicas();
        if self.server.blocked.for_acknowledgement().len() == 0 {
            return;
        }
        self.aof.note_log(&mut self.server);
        // Waiting clients were checked against the last known state: they are checked again when it has changed.
        let known = self.known_acknowledgements();
        if self.replication.acknowledgements_served.as_ref() == Some(&known) {
            return;
        }
        self.replication.acknowledgements_served = Some(known);
        let handles: Vec<ClientHandle> = self.server.blocked.for_acknowledgement().collect();
        structures::work::visited(handles.len());
        for handle in handles {
            let blocked = self.server.clients[handle].blocked.as_ref().map(|blocked| &blocked.on);
            let Some(&BlockedOn::Acknowledgement { local, replicas, on_disk }) = blocked else { continue };
            let acknowledged = self.server.acknowledged_by(handle);
            if local && !self.server.durability.aof_enabled {
                let line = NO_LOG_TO_WAIT_FOR.to_string();
                self.server.wake(handle, |reply| reply.error(on_the_wire(&line)));
            } else if acknowledged.satisfies(local, replicas, on_disk) {
                let answer = if on_disk { TimeoutReply::OnDisk } else { TimeoutReply::Replicas };
                self.server.wake(handle, |reply| answer.write(acknowledged, reply));
            }
        }
    }

    /// Closes a replica whose command produced a reply: it would take the reply for a part of the stream.
    #[cold]
    pub(in crate::engine) fn close_talkative_replica(&mut self, handle: ClientHandle, reply: &[u8]) {
        let client = &self.server.clients[handle];
        let command = client.last_command.map_or("<unknown>", |id| self.server.registry.row(id).name);
        if let [b'-', error @ ..] = reply {
            log::warn!(
                "== CRITICAL == This primary is sending an error to its replica: '{}' after processing the command '{command}'",
                quoted(error.trim_ascii_end())
            );
        }
        log::warn!(
            "Replica generated a reply to command '{command}', disconnecting it: id={} addr={}",
            client.id,
            client.connection.address
        );
        self.server.close_asap(handle);
    }

    /// Removes a disconnected replica, and ends work done only for it.
    pub(in crate::engine) fn forget_replica(&mut self, handle: ClientHandle) {
        let Some(replica) = self.replication.replicas.shift_remove(&handle) else { return };
        let name = self.replica_name(handle);
        match replica.stage {
            Stage::RdbChannel => {
                log::info!("Dual channel replication: Replica {name} rdb channel disconnected.");
            }
            _ => log::info!("Connection with replica {name} lost."),
        }
        self.replication.has_changed = true;
        if self.replication.replicas.is_empty() {
            self.replication.without_replicas_since_us = self.server.now.monotonic_us;
        }
        self.orphan_reservation(handle);
        self.leave_sync(&replica.stage);
        // Frees the bytes kept only for it.
        self.limit_backlog();
    }

    /// Closes all replicas: the following stream does not continue theirs.
    pub fn disconnect_replicas(&mut self) {
        self.forget_reservations();
        for handle in self.replication.replicas.keys().copied().collect::<Vec<_>>() {
            // None of them reads the backlog any more, which may now be freed.
            self.forget_replica(handle);
            self.server.close_asap(handle);
        }
    }

    /// Periodic work for replicas, once a second.
    pub(in crate::engine) fn replication_cron(&mut self) {
        let now_us = self.server.now.monotonic_us;
        self.limit_grown_backlog();
        if now_us < self.replication.next_cron_us {
            return;
        }
        self.replication.next_cron_us = now_us + SECOND_US;
        self.replication.has_changed = true;
        self.ping_replicas(now_us);
        self.note_snapshots_under_way(now_us);
        self.time_out_replicas(now_us);
        self.keep_waiting_replicas();
        self.expire_reservations(now_us);
        self.limit_backlog();
        self.free_backlog_if_idle(now_us);
        self.begin_pending_sync();
        self.remove_sync_file_if_wanted();
    }

    fn ping_replicas(&mut self, now_us: u64) {
        let period_us = u64::from(self.server.config.repl_ping_replica_period_seconds) * SECOND_US;
        if now_us >= self.replication.pinged_us + period_us
            && self.feeds_stream()
            && !self.replication.replicas.is_empty()
            && !self.has_failover_deadline()
        {
            self.replication.pinged_us = now_us;
            self.append_to_stream(PING);
        }
    }

    /// Sends a newline to waiting replicas as a sign of life.
    fn keep_waiting_replicas(&mut self) {
        for (&handle, replica) in &self.replication.replicas {
            if matches!(replica.stage, Stage::Waiting { .. } | Stage::Snapshot) {
                self.server.clients.push(handle, |reply| reply.raw(b"\n"));
            }
        }
    }

    fn time_out_replicas(&mut self, now_us: u64) {
        let timeout_s = u64::from(self.server.config.repl_timeout_seconds);
        let is_late = |since_us: u64| now_us.saturating_sub(since_us) / SECOND_US > timeout_s;
        let transfer_end = self.replication.transfer.as_ref().map(|transfer| transfer.log.end());
        let mut late = Vec::new();
        for (&handle, replica) in &self.replication.replicas {
            let profile = self.server.clients[handle].replica.as_ref();
            let acknowledges = profile.is_none_or(|profile| !profile.came_with_sync);
            match replica.stage {
                Stage::Online { .. } if acknowledges && is_late(replica.heard_us) => {
                    late.push((handle, "streaming sync"));
                }
                Stage::MainChannel { .. } if is_late(replica.heard_us) => {
                    late.push((handle, "streaming sync"))
                }
                Stage::Pipe { position, progress_us }
                    if Some(position) < transfer_end && is_late(progress_us) =>
                {
                    late.push((handle, "full sync"));
                }
                Stage::Waiting { since_us } if is_late(since_us) && self.holds_up_rdb_channels(handle) => {
                    late.push((handle, "full sync"));
                }
                _ => {}
            }
        }
        for (handle, what) in late {
            log::warn!("Disconnecting timedout replica ({what}): {}", self.replica_name(handle));
            self.server.close_asap(handle);
        }
    }

    /// Frees the backlog of a primary that has had no replicas for long.
    fn free_backlog_if_idle(&mut self, now_us: u64) {
        let ttl_s = self.server.config.repl_backlog_ttl_seconds;
        let idle_us = now_us.saturating_sub(self.replication.without_replicas_since_us);
        let is_idle = self.replication.replicas.is_empty()
            && self.replication.reservations.is_empty()
            && self.feeds_stream()
            && ttl_s > 0
            && idle_us > ttl_s.saturating_mul(SECOND_US);
        if is_idle {
            // Later changes are not numbered: no replica may continue from old offsets.
            let id = self.replication.draw_id();
            self.replication.history.begin_anew(id);
            self.replication.remove_backlog();
            self.note_stream();
            log::info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
        }
    }

    /// Closes replicas that are too far behind. The clock's reading is that of the soft limit.
    pub(super) fn limit_replicas(&mut self) {
        let config = &self.server.config;
        let (kept_bytes, now_us) = (config.repl_backlog_size_bytes, self.clock.monotonic_us());
        let limit = OutputLimit::new(config.client_output_buffer_limit.replica, kept_bytes, now_us);
        let end = self.replication.history.offset();
        let mut over = Vec::new();
        for (&handle, replica) in &mut self.replication.replicas {
            let behind_bytes = replica.position.map_or(0, |position| end - position);
            if limit.is_exceeded(behind_bytes, &mut replica.soft_limit) {
                over.push(handle);
            }
        }
        for handle in over {
            let client = &self.server.clients[handle];
            if !client.close_asap {
                let (client_id, address) = (client.id, client.connection.address.clone());
                self.note_exceeded_limit(client_id, &address);
                self.server.close_asap(handle);
            }
            // Stops keeping the stream for it.
            if let Some(replica) = self.replication.replicas.get_mut(&handle) {
                replica.position = None;
            }
        }
        self.limit_reservations(&limit);
    }

    /// Publishes the state of the replicas.
    pub fn note_replicas(&mut self) {
        if !std::mem::take(&mut self.replication.has_changed) {
            return;
        }
        let max_lag_us = u64::from(self.server.config.min_replicas_max_lag_seconds) * SECOND_US;
        let now_us = self.server.now.monotonic_us;
        let replicas = &self.replication.replicas;
        let online = || replicas.values().filter(|replica| replica.is_online());
        self.server.replicas.acknowledged = online().map(|replica| replica.acknowledged).collect();
        // Compares whole seconds, as they are shown.
        let lag_us = |replica: &Replica| now_us.saturating_sub(replica.heard_us) / SECOND_US * SECOND_US;
        self.server.replicas.good = online().filter(|replica| lag_us(replica) <= max_lag_us).count();
        let figures = replicas.iter().map(|(&handle, replica)| {
            let (address, port) = self.replica_address(handle);
            let (state, acknowledged) = (replica.state(), replica.acknowledged.stream.unwrap_or(0));
            let profile = self.server.clients[handle].replica.as_ref();
            let is_rdb_channel = profile.is_some_and(|profile| profile.is_rdb_channel);
            ReplicaFigures { address, port, state, is_rdb_channel, acknowledged, heard_us: replica.heard_us }
        });
        self.server.observed.replication.replicas = figures.collect();
        let end = self.replication.history.offset();
        for (&handle, replica) in &self.replication.replicas {
            if let Some(profile) = &mut self.server.clients[handle].replica {
                profile.unsent_stream_bytes = replica.position.map_or(0, |position| end - position);
            }
        }
        self.note_stream();
    }
}

/// The placeholder for a missing id.
pub(super) fn no_id() -> String {
    "0".repeat(super::history::ID_LEN)
}
