//! The primary's role: attachment of replicas, their commands, and their detachment.

use super::super::Executor;
use super::super::blocked::go_on_with_slot;
use super::failover;
use super::history::Refusal;
use super::rdb_channel::{offer_rdb_channel, takes_rdb_channel};
use super::replicas::{Replica, Stage, profile_of, replica_name};
use super::{KnownAcknowledgements, Replication, reservations, sync_plan};
use crate::clock::Clock;
use crate::command::Next;
use crate::db::Db;
use crate::error::{ClientError, NO_LOG_TO_WAIT_FOR, on_the_wire, quoted};
use crate::server::{Point, ReplicationRequest, Server};
use crate::session::{BlockedOn, ClientHandle, TimeoutReply};
use wire::aof::write_command;
use wire::reply::ReplyBuffer;

const SECOND_US: u64 = 1_000_000;
/// The first version that takes CLUSTER FAILOVER with REPLICAID from the stream, 9.0.0.
const TAKES_SUCCESSOR_VERSION_MIN: u32 = 0x09_00_00;
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

impl Executor {
    /// Carries out a command's request to replication.
    pub(in crate::engine) fn replicate(
        &mut self,
        handle: ClientHandle,
        request: ReplicationRequest,
        reply: &mut ReplyBuffer,
    ) -> Result<Next, ClientError> {
        match request {
            ReplicationRequest::Follow(primary) => return self.follow_on_request(handle, primary, reply),
            ReplicationRequest::Synchronize { from } => self.synchronize(handle, from, reply)?,
            ReplicationRequest::Acknowledged { stream, on_disk, is_sign_of_life } => {
                self.replication.take_acknowledgement(
                    &mut self.db,
                    &mut self.server,
                    &self.clock,
                    handle,
                    Acknowledgement { stream, on_disk, is_sign_of_life },
                );
            }
            ReplicationRequest::Failover(wanted) => {
                return self.fail_over_on_request(failover::Event::Requested(wanted), reply);
            }
            ReplicationRequest::AbortFailover => {
                return self.fail_over_on_request(failover::Event::AbortRequested, reply);
            }
            ReplicationRequest::Feed(command) => {
                if self.feeds_stream() {
                    self.feed_verbatim(&command);
                }
                reply.ok();
                return Ok(Next::Reply);
            }
            ReplicationRequest::ChangeId => {
                log::info!("Changing replication IDs after receiving DEBUG change-repl-id");
                self.replication.outgoing.begin_anew();
                self.replication.note_stream(&mut self.db, &mut self.server);
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
            && !self.replication.failover.is_running()
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
        log::info!("Replica {} asks for synchronization", replica_name(&self.server, handle));
        match from {
            Some(point) => {
                let Some(next) = point.next else {
                    log::warn!(
                        "Replica {} asks for synchronization but with a wrong offset",
                        replica_name(&self.server, handle)
                    );
                    return Err(ClientError::NotInteger);
                };
                if self.replication.go_on_from(&mut self.server, handle, &point.id, next) {
                    return Ok(());
                }
                if takes_rdb_channel(&self.server, handle) {
                    offer_rdb_channel(&mut self.server, handle);
                    return Ok(());
                }
            }
            None => self.server.clients[handle].replica.get_or_insert_default().attached_with_sync = true,
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
        if !self.replication.outgoing.history().id().as_bytes().eq_ignore_ascii_case(id) {
            return Err(ClientError::text("ERR PSYNC FAILOVER replid must match my replid."));
        }
        self.promote();
        let client = &self.server.clients[handle];
        let (id, address) = (client.id, &client.connection.address);
        log::info!("PRIMARY MODE enabled (failover request from 'id={id} addr={address}')");
        Ok(())
    }

    /// Refuses to serve replicas while this replica has no link to its own primary, or during a failover.
    fn may_serve_replicas(&self) -> Result<(), ClientError> {
        if self.replication.failover.is_running() {
            return Err(ClientError::text("NOMASTERLINK Can't SYNC while failing over"));
        }
        match self.server.config.replicaof {
            None => Ok(()),
            Some(_) if self.replication.upstream.is_linked() => Ok(()),
            Some(_) => Err(ClientError::text("NOMASTERLINK Can't SYNC while not connected with my master")),
        }
    }
}

/// An acknowledgement of a replica (REPLCONF ACK).
struct Acknowledgement {
    stream: i64,
    on_disk: Option<i64>,
    /// It counts as a sign of life.
    is_sign_of_life: bool,
}

impl Replication {
    /// Continues a replica from its offset, if the backlog has all bytes from there on; returns whether it does.
    fn go_on_from(&mut self, server: &mut Server, handle: ClientHandle, id: &[u8], next: i64) -> bool {
        let sendable = self.outgoing.sendable();
        let next = match self.outgoing.history().may_continue(id, next, sendable) {
            Ok(next) => next,
            Err(refusal) => {
                let statistics = &mut server.observed.statistics;
                statistics.partial_syncs_refused += u64::from(refusal != Refusal::NoHistory);
                self.log_refusal(&replica_name(server, handle), id, next, &refusal);
                return false;
            }
        };
        server.observed.statistics.partial_syncs += 1;
        let position = next - 1;
        let stage = match self.take_up_reservation(server, handle) {
            Some(rdb) => Stage::MainChannel { rdb },
            None => Stage::Online { awaits_acknowledgement: false },
        };
        self.replicas.add(server, handle, stage, Some(position));
        let line = match profile_of(server, handle).takes_new_ids {
            true => format!("+CONTINUE {}\r\n", self.outgoing.history().id()),
            false => "+CONTINUE\r\n".to_owned(),
        };
        server.clients.push(handle, |reply| reply.raw(line.as_bytes()));
        log::info!(
            "Partial resynchronization request from {} accepted. Sending {} bytes of backlog starting from offset {next}.",
            replica_name(server, handle),
            self.outgoing.offset() - position,
        );
        true
    }

    fn log_refusal(&self, name: &str, id: &[u8], next: i64, refusal: &Refusal) {
        let history = self.outgoing.history();
        let shown_id = String::from_utf8_lossy(id);
        match refusal {
            Refusal::NoHistory => log::info!("Full resync requested by replica {name}"),
            Refusal::OtherHistory => {
                let second = history.second().map_or_else(no_id, |second| second.id.clone());
                log::info!(
                    "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{shown_id}', my replication IDs are '{}' and '{second}')",
                    history.id()
                );
            }
            Refusal::BeyondSecond { first_other } => log::info!(
                "Partial resynchronization not accepted: Requested offset for second ID was {next}, but I can reply up to {first_other}"
            ),
            Refusal::NoBacklog => log::info!(
                "Unable to partial resync with replica {name} for lack of backlog (Replica request was: {shown_id}:{next})."
            ),
            Refusal::OutOfBacklog { numbers } => log::info!(
                "Unable to partial resync with replica {name} for lack of backlog (Replica request was {shown_id}:{next}, and I can only reply with the range [{}, {}]).",
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

    /// Starts the stream to a replica, with at least one command, so that the replica acknowledges an offset.
    pub(super) fn begin_stream(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        if self.outgoing.offset() == 0 && self.feeds_stream(&server.config) {
            self.append_control(db, server, clock, PING);
        }
    }

    /// Records an acknowledgement; an offset beyond the stream's end is invalid and counts as 0.
    fn take_acknowledgement(
        &mut self,
        db: &mut Db,
        server: &mut Server,
        clock: &Clock,
        handle: ClientHandle,
        said: Acknowledgement,
    ) {
        let offset = self.outgoing.offset();
        let Some(replica) = self.replicas.get_mut(handle) else { return };
        let known =
            |number: i64| Some(u64::try_from(number).ok().filter(|&number| number <= offset).unwrap_or(0));
        let acknowledged = &mut replica.acknowledged;
        acknowledged.stream = acknowledged.stream.max(known(said.stream));
        acknowledged.on_disk = acknowledged.on_disk.max(said.on_disk.and_then(known));
        self.replicas.note_change();
        if !said.is_sign_of_life {
            return;
        }
        let Some(replica) = self.replicas.get_mut(handle) else { return };
        replica.last_ack_us = server.now.monotonic_us;
        match replica.stage {
            Stage::Online { awaits_acknowledgement: true } => {}
            // The snapshot is loaded.
            Stage::MainChannel { .. } => {
                log::info!("Synchronization with replica {} succeeded", replica_name(server, handle));
            }
            _ => return,
        }
        replica.stage = Stage::Online { awaits_acknowledgement: false };
        self.begin_stream(db, server, clock);
    }

    /// Requests acknowledgements from all replicas, unless the stream must not grow.
    pub(in crate::engine) fn request_acknowledgements_now(
        &mut self,
        db: &mut Db,
        server: &mut Server,
        clock: &Clock,
    ) {
        if self.feeds_stream(&server.config) && !self.replicas.is_empty() && !server.pauses.are_any() {
            self.append_control(db, server, clock, GETACK);
        }
    }

    fn is_synced(&self, replica: &Replica) -> bool {
        replica.acknowledged.stream.unwrap_or(0) >= self.outgoing.data_end()
    }

    /// Returns whether all replicas have all data; those receiving a snapshot do not.
    pub(in crate::engine) fn has_all_replicas_synced(&self) -> bool {
        !self.replicas.any(|replica| !self.is_synced(replica))
    }

    /// Names to the replicas of a primary in a cluster, which is about to stop, the one that is to take its slots over: one
    /// that has all data. A replica of a version that does not know the command would close its link: with such a replica
    /// the command is sent to none.
    pub(in crate::engine) fn name_successor(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        if !self.feeds_stream(&server.config) || server.cluster.is_none() {
            return;
        }
        let is_old = |(handle, _): (ClientHandle, &Replica)| {
            profile_of(server, handle).version < TAKES_SUCCESSOR_VERSION_MIN
        };
        if self.replicas.iter().any(is_old) {
            log::info!("Unable to perform auto failover on shutdown since there are legacy replicas.");
            return;
        }
        let synced =
            self.replicas.iter().filter(|(_, replica)| replica.is_online() && self.is_synced(replica));
        let Some(id) = synced.filter_map(|(handle, _)| profile_of(server, handle).node_id).last() else {
            log::info!("Unable to find a replica to perform the auto failover on shutdown.");
            return;
        };
        log::info!("Perform auto failover to replica {id} on shutdown.");
        let mut command = Vec::new();
        let words = [&b"CLUSTER"[..], b"FAILOVER", b"FORCE", b"REPLICAID", id.as_bytes()];
        write_command(&mut command, words.into_iter()).expect("writing to memory cannot fail");
        self.append_control(db, server, clock, &command);
    }

    /// Logs the lag of each replica.
    pub(in crate::engine) fn log_lagging_replicas(&self, server: &Server) {
        let mut synced = 0;
        for (handle, replica) in self.replicas.iter() {
            if self.is_synced(replica) {
                synced += 1;
                continue;
            }
            let silent_us = server.now.monotonic_us.saturating_sub(replica.last_ack_us);
            log::info!(
                "Lagging replica {} reported offset {} behind master, lag={}, state={}.",
                replica_name(server, handle),
                self.outgoing.offset() - replica.acknowledged.stream.unwrap_or(0),
                if replica.is_online() { silent_us / SECOND_US } else { 0 },
                replica.state().name()
            );
        }
        if !self.replicas.is_empty() {
            log::info!("{synced} of {} replicas are in sync when shutting down.", self.replicas.len());
        }
    }

    /// Requests acknowledgements, once for all clients that blocked since the last request.
    pub(in crate::engine) fn request_acknowledgements(
        &mut self,
        db: &mut Db,
        server: &mut Server,
        clock: &Clock,
    ) {
        // While writes are paused the stream must not grow: a client may wait for replicas to catch up.
        if server.replicas.acknowledgements_requested && !server.pauses.are_any() {
            server.replicas.acknowledgements_requested = false;
            if self.feeds_stream(&server.config) && !self.replicas.is_empty() {
                self.append_control(db, server, clock, GETACK);
            }
        }
        self.note_replicas(db, server);
    }

    /// Returns whether acknowledgements may have changed since the last call.
    fn has_new_acknowledgements(&mut self, server: &Server) -> bool {
        let known = KnownAcknowledgements {
            replicas: server.replicas.acknowledged.clone(),
            durability: server.durability,
            histories_forgotten: server.clients.histories_forgotten(),
        };
        let is_new = self.acknowledgements_served.as_ref() != Some(&known);
        self.acknowledgements_served = Some(known);
        is_new
    }

    /// Periodic work for the stream, once a second.
    fn stream_cron(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        let now_us = server.now.monotonic_us;
        self.replicas.note_change();
        self.ping_replicas(db, server, clock);
        self.replicas.note_snapshots_under_way(now_us);
    }

    /// Releases the parts of the stream that no main channel or replica needs any more, once a second.
    fn backlog_cron(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        self.step_reservations(server, reservations::Event::Tick);
        self.limit_backlog(db, server, clock);
        self.free_backlog_if_idle(db, server);
    }

    fn ping_replicas(&mut self, db: &mut Db, server: &mut Server, clock: &Clock) {
        let now_us = server.now.monotonic_us;
        let period_us = u64::from(server.config.repl_ping_replica_period_seconds) * SECOND_US;
        if now_us >= self.pinged_us + period_us
            && self.feeds_stream(&server.config)
            && !self.replicas.is_empty()
            && !self.failover.has_deadline()
        {
            self.pinged_us = now_us;
            self.append_control(db, server, clock, PING);
        }
    }

    /// Frees the backlog of a primary that has had no replicas for long.
    fn free_backlog_if_idle(&mut self, db: &mut Db, server: &mut Server) {
        let ttl_s = server.config.repl_backlog_ttl_seconds;
        let idle_us = self.replicas.none_for_us(server.now.monotonic_us);
        let is_idle = idle_us.is_some_and(|idle_us| idle_us > ttl_s.saturating_mul(SECOND_US))
            && self.reservations.is_empty()
            && self.feeds_stream(&server.config)
            && ttl_s > 0;
        if is_idle {
            // Later changes are not numbered: no replica may continue from old offsets.
            self.outgoing.begin_anew();
            self.outgoing.remove_backlog();
            self.note_stream(db, server);
            log::info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
        }
    }
}

impl Executor {
    /// Replies to clients that wait for replicas, or for the append-only file to be on disk, once their condition holds
    /// or can no longer hold.
    pub(in crate::engine) fn serve_acknowledged(&mut self) {
        self.note_replicas();
        if self.server.blocked.for_acknowledgement().len() == 0 {
            return;
        }
        self.aof.note_log(&mut self.server);
        // Waiting clients are checked again only when the acknowledgements have changed.
        if !self.replication.has_new_acknowledgements(&self.server) {
            return;
        }
        let handles: Vec<ClientHandle> = self.server.blocked.for_acknowledgement().collect();
        structures::work::visited(handles.len());
        for handle in handles {
            let Some(client) = self.server.clients.get(handle) else { continue };
            let blocked = client.blocked.as_ref().map(|blocked| &blocked.on);
            let acknowledged = self.server.acknowledged_by(handle);
            let (local, replicas, on_disk) = match blocked {
                Some(&BlockedOn::Acknowledgement { local, replicas, on_disk }) => (local, replicas, on_disk),
                Some(&BlockedOn::SlotReplicas(replicas)) if acknowledged.replicas >= replicas => {
                    go_on_with_slot(self, handle);
                    continue;
                }
                _ => continue,
            };
            if local && !self.server.durability.aof_enabled {
                let line = NO_LOG_TO_WAIT_FOR.to_string();
                self.server.wake(handle, |reply| reply.error(on_the_wire(&line)));
            } else if acknowledged.satisfies(local, replicas, on_disk) {
                let answer = if on_disk { TimeoutReply::OnDisk } else { TimeoutReply::Replicas };
                self.server.wake(handle, |reply| answer.write(acknowledged, reply));
            }
        }
    }

    /// Closes a replica whose command produced a reply: it would apply the reply as a part of the stream.
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

    /// Removes a disconnected replica, and ends the work for that replica alone.
    pub(in crate::engine) fn forget_replica(&mut self, handle: ClientHandle) {
        let now_us = self.server.now.monotonic_us;
        let Some(replica) = self.replication.replicas.remove(handle, now_us) else { return };
        let name = replica_name(&self.server, handle);
        match replica.stage {
            Stage::RdbChannel => {
                log::info!("Dual channel replication: Replica {name} rdb channel disconnected.");
            }
            _ => log::info!("Connection with replica {name} lost."),
        }
        self.replication.step_reservations(&mut self.server, reservations::Event::Closed(handle));
        self.leave_sync(&replica);
        // Frees the bytes that only this replica needed.
        self.replication.limit_backlog(&mut self.db, &mut self.server, &self.clock);
    }

    /// Closes all replicas: this server's stream no longer continues their history.
    pub fn disconnect_replicas(&mut self) {
        self.replication.step_reservations(&mut self.server, reservations::Event::Parted);
        for handle in self.replication.replicas.those(|_| true) {
            // No replica reads the backlog any more; it may be freed.
            self.forget_replica(handle);
            self.server.close_asap(handle);
        }
    }

    /// Periodic work for replicas, once a second.
    pub(in crate::engine) fn replication_cron(&mut self) {
        let now_us = self.server.now.monotonic_us;
        self.replication.limit_grown_backlog(&mut self.db, &mut self.server, &self.clock);
        if now_us < self.replication.next_cron_us {
            return;
        }
        self.replication.next_cron_us = now_us + SECOND_US;
        self.replication.stream_cron(&mut self.db, &mut self.server, &self.clock);
        self.plan_syncs(sync_plan::Event::Second);
        self.replication.backlog_cron(&mut self.db, &mut self.server, &self.clock);
        self.plan_syncs(sync_plan::Event::Tick);
        self.replication.remove_unneeded_sync_file(&self.server, &self.disk);
    }
}

/// The placeholder for a missing id.
pub(super) fn no_id() -> String {
    "0".repeat(super::history::ID_LEN)
}
