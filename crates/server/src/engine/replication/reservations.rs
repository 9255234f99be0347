//! Reservations of the stream for main channels that are yet to connect (see `rdb_channel`), and their release. It is a
//! state machine, as the handshake is: [`Reservations::step`] takes an event and returns actions.
//!
//! ```text
//! Begun --> kept --(its main channel connects)-------------------------> the main channel's
//!            |  \--(the rdb channel closes)--> kept, for a short time --> the main channel's
//!            |                                    |
//!            +------------------------------------+--> released: timeout, output limit exceeded, or the
//!                                                      snapshot has failed
//! ```
//!
//! 1. Release while the rdb channel is open closes the channel: its snapshot could not be followed by the stream.

use super::{OutputLimit, SoftLimit};
use crate::session::{ClientHandle, ClientId};
use indexmap::IndexMap;
use log::Level;

const SECOND_US: u64 = 1_000_000;

/// What has happened.
pub(super) enum Event<'a> {
    /// The snapshot of this rdb channel has begun.
    Begun(RdbChannel),
    /// This rdb channel has closed; its main channel may yet come.
    Closed(ClientHandle),
    /// The snapshot of this rdb channel has failed.
    Failed(ClientHandle),
    /// The stream ends at `end` now, and replicas may be this far behind.
    Fed { end: u64, limit: &'a OutputLimit },
    /// Time has passed.
    Tick,
    /// No replica may continue the stream.
    Parted,
}

/// What is to be done, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Log(Level, String),
    /// Close the rdb channel.
    Close(ClientHandle),
    /// Account for a client that was closed because it was too far behind.
    NoteExceededLimit {
        client_id: ClientId,
        address: String,
    },
}

/// What reservations depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// On the monotonic clock, as all times here.
    pub now_us: u64,
    /// How long replicas may be silent.
    pub timeout_s: u64,
    /// How long the stream is kept after the rdb channel has closed.
    pub free_delay_s: u64,
}

/// A connection that carries a snapshot.
pub(super) struct RdbChannel {
    pub client_id: ClientId,
    pub handle: ClientHandle,
    pub address: String,
    /// Names the replica in the log.
    pub name: String,
    /// The offset of the snapshot: the stream is kept from there on.
    pub position: u64,
    /// The backlog has bytes.
    pub holds_bytes: bool,
}

struct Reservation {
    channel: RdbChannel,
    soft_limit: SoftLimit,
    since_us: u64,
    /// Since when the rdb channel is closed.
    orphaned_us: Option<u64>,
}

/// All reservations, keyed by the client of the rdb channel.
#[derive(Default)]
pub(super) struct Reservations {
    kept: IndexMap<ClientId, Reservation>,
}

fn debug(text: String) -> Action {
    Action::Log(Level::Debug, text)
}

impl Reservations {
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the rdb channels that a main channel may name.
    pub fn client_ids(&self) -> impl Iterator<Item = ClientId> {
        self.kept.keys().copied()
    }

    /// Returns the first byte of the stream that is kept.
    pub fn slowest(&self) -> Option<u64> {
        self.kept.values().map(|reservation| reservation.channel.position).min()
    }

    /// Hands the kept stream over to the main channel that has named this rdb channel.
    pub fn take_up(&mut self, client_id: ClientId) -> Option<RdbChannel> {
        self.kept.shift_remove(&client_id).map(|reservation| reservation.channel)
    }

    /// Takes an event; returns what is to be done.
    pub fn step(&mut self, event: Event<'_>, facts: Facts) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Begun(channel) => self.begin(channel, facts, &mut actions),
            Event::Closed(handle) => self.orphan(handle, facts, &mut actions),
            Event::Failed(handle) => self.kept.retain(|_, kept| kept.channel.handle != handle),
            Event::Fed { end, limit } => self.limit(end, limit, &mut actions),
            Event::Tick => self.expire(facts, &mut actions),
            Event::Parted => self.kept.clear(),
        }
        actions
    }

    fn begin(&mut self, channel: RdbChannel, facts: Facts, actions: &mut Vec<Action>) {
        let client_id = channel.client_id;
        actions.push(debug(format!(
            "Dual channel replication: Add rdb replica {} to waiting psync, with cid {}, {}",
            channel.name,
            client_id.0,
            if channel.holds_bytes { "tracking repl-backlog tail" } else { "no repl-backlog to track" }
        )));
        let (soft_limit, since_us) = (SoftLimit::default(), facts.now_us);
        self.kept.insert(client_id, Reservation { channel, soft_limit, since_us, orphaned_us: None });
    }

    fn orphan(&mut self, handle: ClientHandle, facts: Facts, actions: &mut Vec<Action>) {
        let mut own = self.kept.iter_mut().filter(|(_, kept)| kept.channel.handle == handle);
        if let Some((client_id, kept)) = own.next() {
            kept.orphaned_us = Some(facts.now_us);
            actions.push(debug(format!(
                "Dual channel replication: Postpone RDB client id={} ({}) free for {} seconds",
                client_id.0, kept.channel.name, facts.free_delay_s
            )));
        }
    }

    /// Releases those whose main channel has not connected in time.
    fn expire(&mut self, facts: Facts, actions: &mut Vec<Action>) {
        let timeout_s = facts.free_delay_s.max(facts.timeout_s);
        let mut over = Vec::new();
        for (&client_id, kept) in &self.kept {
            let (since_us, patience_s) = kept
                .orphaned_us
                .map_or((kept.since_us, timeout_s), |since_us| (since_us, facts.free_delay_s));
            let waited_s = facts.now_us.saturating_sub(since_us) / SECOND_US;
            if waited_s > patience_s {
                let text = format!(
                    "Dual channel replication: Replica main channel failed to establish PSYNC within the grace period ({waited_s} seconds). Freeing RDB client {}.",
                    client_id.0
                );
                actions.push(Action::Log(Level::Info, text));
                over.push(client_id);
            }
        }
        for client_id in over {
            self.release(client_id, actions);
        }
    }

    /// Releases those beyond the output limit of replicas.
    fn limit(&mut self, end: u64, limit: &OutputLimit, actions: &mut Vec<Action>) {
        let mut over = Vec::new();
        for (&client_id, kept) in &mut self.kept {
            let channel = &mut kept.channel;
            if !channel.holds_bytes && end > channel.position {
                channel.holds_bytes = true;
                actions.push(debug(format!(
                    "Dual channel replication: Attach replica rdb client {} to repl buf block",
                    client_id.0
                )));
            }
            if limit.is_exceeded(end - channel.position, &mut kept.soft_limit) {
                over.push(client_id);
            }
        }
        for client_id in over {
            if let Some(RdbChannel { address, .. }) = self.release(client_id, actions) {
                actions.push(Action::NoteExceededLimit { client_id, address });
            }
        }
    }

    fn release(&mut self, client_id: ClientId, actions: &mut Vec<Action>) -> Option<RdbChannel> {
        let Reservation { channel, orphaned_us, .. } = self.kept.shift_remove(&client_id)?;
        if orphaned_us.is_none() {
            actions.push(Action::Close(channel.handle));
        }
        Some(channel)
    }
}
