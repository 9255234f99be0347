//! What the cluster wants done: by the executor, which owns the data, and by the bus thread, which owns sockets and the
//! file.

use std::sync::Arc;

use wire::cluster_bus::{Address, Frame, Publication, SlotSet};

use crate::slot_migration::{JobId, MigrationAction};

/// The clocks at an instant. Spans are measured by the first, so that a change of the date makes no node fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since any instant. It never goes back.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

impl Now {
    /// The date of an instant of the first clock; 0 of none.
    pub(crate) fn date_ms(self, at: Option<u64>) -> u64 {
        at.map_or(0, |at| self.unix_ms.saturating_sub(self.monotonic_ms.saturating_sub(at)))
    }
}

/// How important a line of the log is, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the search of faults.
    Debug,
    /// Details.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// What an operator has to know.
    Warning,
}

/// A connection of the bus. This node chooses even numbers for those that it opens, the bus thread odd ones for those
/// that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

impl LinkId {
    /// The id of the nth link that was accepted.
    pub const fn accepted(n: u64) -> LinkId {
        LinkId(n << 1 | 1)
    }

    /// The id of the nth link that was opened.
    pub(crate) const fn opened(n: u64) -> LinkId {
        LinkId(n << 1)
    }

    /// Returns whether another node opened the link.
    pub const fn is_inbound(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// What the executor does, in order, before it runs another command.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes a line of the log.
    Log(Level, String),
    /// Replicates from this primary from now on. What the server has is given up for a full copy where asked.
    ReplicateFrom {
        /// Where the primary is.
        address: Address,
        /// Its port, for TLS if `tls-replication` is set.
        port: u16,
        /// The primary has another history: no partial synchronisation.
        full_sync: bool,
    },
    /// Stops replication; keeps the data.
    BecomePrimary,
    /// Deletes all data.
    Flush(Flush),
    /// Deletes the keys of slots that went to another node while this one stays a primary, with their deletions in
    /// the replication stream, and writes [`crate::Cluster::dirty_slot_text`] for each slot that has keys.
    DeleteKeysInSlots(SlotSet),
    /// Calls [`crate::Cluster::verify_data`] with the slots that have keys.
    VerifyData,
    /// Statistics of these slots begin anew, and the subscriptions of their channels end.
    SlotsLeft(SlotSet),
    /// Holds writes of clients, expiry and eviction back, at most until this instant of the monotonic clock.
    PauseWrites {
        /// When the pause ends by itself.
        until_ms: u64,
    },
    /// Ends the pause.
    ResumeWrites,
    /// Holds writes to these slots back, and to no others, at most until this instant of the monotonic clock.
    PauseSlots {
        /// The slots.
        slots: SlotSet,
        /// When the pause ends by itself.
        until_ms: u64,
    },
    /// Ends the pause of slots.
    ResumeSlots,
    /// Carries out an action for a job of slot migration.
    Migration(JobId, MigrationAction),
    /// Gives a message to subscribers of this server.
    Deliver {
        /// The message.
        publication: Publication,
        /// Its channel is a shard's.
        is_sharded: bool,
    },
}

/// Why all data is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// `CLUSTER REPLICATE NO ONE`.
    Detached,
    /// `CLUSTER RESET`.
    Reset,
}

/// What the bus thread does, in order. What stands behind a [`BusAction::Save`] with `sync` is done once the file is on
/// disk, so that no vote and no epoch is known to others that a crash could undo. Commands are answered then, too (see
/// [`crate::Cluster::awaited_save`]): a tool that learns that a slot has gone to a node repeats that to other nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum BusAction {
    /// Opens a link. Frames for it are kept until it is open.
    Connect {
        /// The link.
        link: LinkId,
        /// The node's address.
        address: Address,
        /// The port of its bus.
        port: u16,
    },
    /// Closes a link. What has not been sent is dropped, and no input is about the link from then on.
    Close(LinkId),
    /// Sends a frame. A link that is not there is ignored.
    Send(LinkId, Arc<Frame>),
    /// The other end of an accepted link is a known node: the link is not closed to make room for others.
    Bound(LinkId),
    /// Replaces nodes.conf. A later content may be written in its place, and counts as this one and all before it.
    Save {
        /// Its number, which grows from 1.
        number: u64,
        /// The file's content.
        text: String,
        /// It has to be on disk before what follows.
        sync: bool,
    },
}

/// What happens to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time has passed: comes every 100 ms.
    Tick,
    /// What the server knows of itself: comes before the other inputs of a turn.
    Facts(Facts),
    /// A link that was asked for is open.
    LinkOpened(LinkId),
    /// Another node has opened a link.
    LinkAccepted {
        /// Its id, by [`LinkId::accepted`].
        link: LinkId,
        /// The other end's address.
        peer: std::net::IpAddr,
        /// This end's address.
        local: std::net::IpAddr,
    },
    /// A link was closed by the other end, could not be opened, or has failed.
    LinkClosed(LinkId),
    /// How much a link has to send; needed for links that have more than nothing.
    LinkBacklog(LinkId, u64),
    /// A frame was read.
    Frame(LinkId, Frame),
}

/// What the server knows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// A primary's replication offset; of a replica, that of what it has processed.
    pub replication_offset: u64,
    /// Milliseconds since a replica last heard of its primary, or since it lost it; 0 on a primary.
    pub data_age_ms: u64,
}
