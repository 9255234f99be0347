//! The replicas attached to this server, and the progress of each.

use super::full_sync::FileTransfer;
use super::sync_plan::Phase;
use super::{OutputLimit, SoftLimit, note_exceeded_limit};
use crate::observe::replication::{ReplicaFigures, ReplicaState};
use crate::server::{AcknowledgedOffsets, Server};
use crate::session::ClientHandle;
use crate::session::client::ReplicaProfile;
use indexmap::IndexMap;

const SECOND_US: u64 = 1_000_000;
/// The first version whose replicas take CLUSTER SETSLOT from the stream, 8.0.0.
const KNOWS_SLOTS_VERSION_MIN: u32 = 0x08_00_00;

/// State of a replica.
pub(crate) enum Stage {
    /// Its snapshot has not begun.
    Waiting { since_us: u64 },
    /// Its snapshot is being written to a file.
    Snapshot,
    /// That file is being sent.
    File(Box<FileTransfer>),
    /// A snapshot is sent while a child writes it; `position`: offset in the transfer.
    Pipe { position: u64, progress_us: u64 },
    /// A child writes a snapshot to its socket; no stream follows.
    RdbChannel,
    /// The stream is sent, while another connection of the same replica carries the snapshot.
    MainChannel { rdb: ClientHandle },
    /// The stream is sent; only after the first acknowledgement, if `awaits_acknowledgement`.
    Online { awaits_acknowledgement: bool },
}

/// A server that receives the stream, or will receive it.
pub(crate) struct Replica {
    /// Its progress from attachment to the stream.
    pub stage: Stage,
    /// Offset of the next byte of the stream to send, counted from 0; `None` before its snapshot has begun, and if it needs no
    /// stream.
    pub position: Option<u64>,
    /// The offsets that it has acknowledged.
    pub acknowledged: AcknowledgedOffsets,
    /// Monotonic time of its last acknowledgement, or of its start of streaming.
    pub last_ack_us: u64,
    soft_limit: SoftLimit,
}

impl Replica {
    fn new(stage: Stage, position: Option<u64>, now_us: u64) -> Self {
        Replica {
            stage,
            position,
            acknowledged: AcknowledgedOffsets::default(),
            last_ack_us: now_us,
            soft_limit: SoftLimit::default(),
        }
    }

    /// Records a sign of life. While a replica loads its snapshot it sends empty lines; later only acknowledgements count.
    pub fn note_sign_of_life(&mut self, now_us: u64) {
        if self.acknowledged.stream.is_none() {
            self.last_ack_us = now_us;
        }
    }

    /// Returns whether it has its snapshot and receives the stream.
    pub fn is_online(&self) -> bool {
        matches!(self.stage, Stage::Online { .. })
    }

    /// Returns whether it is an rdb channel.
    pub fn is_rdb_channel(&self) -> bool {
        matches!(self.stage, Stage::RdbChannel)
    }

    /// Returns whether its snapshot has not begun.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. })
    }

    /// Returns whether a snapshot is sent to it while a child writes it.
    pub fn is_piped(&self) -> bool {
        matches!(self.stage, Stage::Pipe { .. })
    }

    /// Returns its phase in the plan of syncs.
    pub fn phase(&self) -> Phase {
        let last_ack_us = self.last_ack_us;
        match self.stage {
            Stage::Waiting { since_us } => Phase::Waiting { since_us },
            Stage::Snapshot => Phase::Snapshot,
            Stage::File(_) => Phase::File,
            Stage::Pipe { position, progress_us } => Phase::Piped { position, progress_us },
            Stage::RdbChannel => Phase::RdbChannel,
            Stage::MainChannel { .. } => Phase::MainChannel { last_ack_us },
            Stage::Online { .. } => Phase::Online { last_ack_us },
        }
    }

    /// Returns its state as INFO shows it.
    pub fn state(&self) -> ReplicaState {
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

/// All replicas of this server.
#[derive(Default)]
pub(crate) struct Replicas {
    /// In the order of attachment.
    attached: IndexMap<ClientHandle, Replica>,
    /// The published figures are outdated.
    has_changed: bool,
    /// Monotonic time since which there are no replicas.
    none_since_us: u64,
}

impl Replicas {
    /// Returns whether no replica is attached.
    pub fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    /// Returns the number of attached replicas.
    pub fn len(&self) -> usize {
        self.attached.len()
    }

    /// Returns the replica with this client.
    pub fn get(&self, handle: ClientHandle) -> Option<&Replica> {
        self.attached.get(&handle)
    }

    /// As [`Self::get`], mutably.
    pub fn get_mut(&mut self, handle: ClientHandle) -> Option<&mut Replica> {
        self.attached.get_mut(&handle)
    }

    /// As [`Self::get_mut`], for a change that the figures show.
    pub fn change(&mut self, handle: ClientHandle) -> Option<&mut Replica> {
        self.has_changed = true;
        self.attached.get_mut(&handle)
    }

    /// Returns the replicas in the order of attachment.
    pub fn iter(&self) -> impl Iterator<Item = (ClientHandle, &Replica)> {
        self.attached.iter().map(|(&handle, replica)| (handle, replica))
    }

    /// Returns the replicas for which `is_meant` holds, in the order of attachment.
    pub fn those(&self, is_meant: impl Fn(&Replica) -> bool) -> Vec<ClientHandle> {
        self.iter().filter(|(_, replica)| is_meant(replica)).map(|(handle, _)| handle).collect()
    }

    /// Returns whether `is_meant` holds for any replica.
    pub fn any(&self, is_meant: impl Fn(&Replica) -> bool) -> bool {
        self.attached.values().any(is_meant)
    }

    /// Marks the published figures as outdated.
    pub fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Returns whether the published figures are outdated, and marks them as current.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Attaches a replica.
    pub fn add(&mut self, server: &mut Server, handle: ClientHandle, stage: Stage, position: Option<u64>) {
        server.clients[handle].is_replica = true;
        server.clients.count_memory(handle);
        self.attached.insert(handle, Replica::new(stage, position, server.now.monotonic_us));
        self.has_changed = true;
    }

    /// Detaches a replica.
    pub fn remove(&mut self, handle: ClientHandle, now_us: u64) -> Option<Replica> {
        let replica = self.attached.shift_remove(&handle)?;
        self.has_changed = true;
        if self.attached.is_empty() {
            self.none_since_us = now_us;
        }
        Some(replica)
    }

    /// Sends replicas an error and detaches them.
    pub fn refuse(&mut self, server: &mut Server, replicas: &[ClientHandle], text: &str) {
        for &handle in replicas {
            self.attached.shift_remove(&handle);
            server.clients[handle].is_replica = false;
            server.clients.push(handle, |reply| reply.error(text));
            server.clients[handle].close_after_reply = true;
        }
        self.has_changed = true;
    }

    /// Records that there are no replicas from now on.
    pub fn note_none_since(&mut self, now_us: u64) {
        self.none_since_us = now_us;
    }

    /// Returns the time without replicas; `None`: there are replicas.
    pub fn none_for_us(&self, now_us: u64) -> Option<u64> {
        self.attached.is_empty().then(|| now_us.saturating_sub(self.none_since_us))
    }

    /// Returns the first byte of the stream that must be kept for a replica.
    pub fn slowest(&self) -> Option<u64> {
        self.attached.values().filter_map(|replica| replica.position).min()
    }

    /// Exempts main channels from the timeout while their replica receives its snapshot on the rdb channel.
    pub fn note_snapshots_under_way(&mut self, now_us: u64) {
        for at in 0..self.attached.len() {
            let Stage::MainChannel { rdb } = self.attached[at].stage else { continue };
            if self.attached.contains_key(&rdb) {
                self.attached[at].note_sign_of_life(now_us);
            }
        }
    }

    /// Closes replicas beyond the output limit, and releases their part of the stream.
    pub fn limit(&mut self, server: &mut Server, limit: &OutputLimit, end: u64) {
        for (&handle, replica) in &mut self.attached {
            let behind_bytes = replica.position.map_or(0, |position| end - position);
            if !limit.is_exceeded(behind_bytes, &mut replica.soft_limit) {
                continue;
            }
            replica.position = None;
            let client = &server.clients[handle];
            if !client.close_asap {
                let (client_id, address) = (client.id, client.connection.address.clone());
                note_exceeded_limit(server, client_id, &address);
                server.close_asap(handle);
            }
        }
    }

    /// Publishes the state of the replicas; `end` is that of the stream.
    pub fn publish(&self, server: &mut Server, end: u64) {
        let max_lag_us = u64::from(server.config.min_replicas_max_lag_seconds) * SECOND_US;
        let now_us = server.now.monotonic_us;
        let online = || self.attached.values().filter(|replica| replica.is_online());
        server.replicas.acknowledged = online().map(|replica| replica.acknowledged).collect();
        // Compares whole seconds, as they are shown.
        let lag_us = |replica: &Replica| now_us.saturating_sub(replica.last_ack_us) / SECOND_US * SECOND_US;
        server.replicas.good = online().filter(|replica| lag_us(replica) <= max_lag_us).count();
        let versions = self.iter().filter(|(_, replica)| replica.is_online());
        let versions = versions.map(|(handle, _)| profile_of(server, handle).version);
        server.replicas.know_slots = versions.filter(|version| *version >= KNOWS_SLOTS_VERSION_MIN).count();
        let figures = self.iter().map(|(handle, replica)| {
            let (address, port) = replica_address(server, handle);
            let (state, acknowledged) = (replica.state(), replica.acknowledged.stream.unwrap_or(0));
            let profile = server.clients[handle].replica.as_ref();
            let is_rdb_channel = profile.is_some_and(|profile| profile.is_rdb_channel);
            ReplicaFigures {
                address,
                port,
                state,
                is_rdb_channel,
                acknowledged,
                last_ack_us: replica.last_ack_us,
            }
        });
        server.observed.replication.replicas = figures.collect();
        for (&handle, replica) in &self.attached {
            if let Some(profile) = &mut server.clients[handle].replica {
                profile.unsent_stream_bytes = replica.position.map_or(0, |position| end - position);
            }
        }
    }
}

/// Returns the replica's description by REPLCONF.
pub(super) fn profile_of(server: &Server, handle: ClientHandle) -> &ReplicaProfile {
    let profile = server.clients[handle].replica.as_deref();
    profile.expect("the command that attaches a replica creates its profile")
}

/// Returns the replica's name in log lines.
pub(super) fn replica_name(server: &Server, handle: ClientHandle) -> String {
    let (address, port) = replica_address(server, handle);
    match port {
        0 => format!("{address}:<unknown-replica-port>"),
        port if address.contains(':') => format!("[{address}]:{port}"),
        port => format!("{address}:{port}"),
    }
}

/// Returns the replica's address and its port; port 0: not sent.
pub(super) fn replica_address(server: &Server, handle: ClientHandle) -> (String, i64) {
    let client = &server.clients[handle];
    let profile = client.replica.as_deref();
    let own = || {
        let (ip, _) = client.connection.address.rsplit_once(':').unwrap_or_default();
        ip.trim_start_matches('[').trim_end_matches(']').to_owned()
    };
    let address = profile.and_then(|profile| profile.address.clone()).unwrap_or_else(own);
    (address, profile.map_or(0, |profile| profile.listening_port))
}
