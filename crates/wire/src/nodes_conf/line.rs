//! A node as a line, for the file and for CLUSTER NODES.

use crate::cluster_bus::{NodeFlags, NodeId, SlotSet, Text};
use std::fmt::{self, Write as _};

/// A slot that is moved by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    /// The slot.
    pub slot: u16,
    /// Whether it leaves or comes.
    pub direction: Direction,
    /// The node at the other end.
    pub node: NodeId,
}

/// Where an open slot goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the other node: `>`.
    Migrating,
    /// From the other node: `<`.
    Importing,
}

impl Direction {
    pub(super) const fn sign(self) -> char {
        match self {
            Direction::Migrating => '>',
            Direction::Importing => '<',
        }
    }
}

/// The words of flags, in the order of a line.
pub(super) const FLAG_WORDS: [(NodeFlags, &str); 8] = [
    (NodeFlags::MYSELF, "myself"),
    (NodeFlags::PRIMARY, "master"),
    (NodeFlags::REPLICA, "slave"),
    (NodeFlags::POSSIBLY_FAILED, "fail?"),
    (NodeFlags::FAILED, "fail"),
    (NodeFlags::HANDSHAKE, "handshake"),
    (NodeFlags::NO_ADDRESS, "noaddr"),
    (NodeFlags::NO_FAILOVER, "nofailover"),
];
/// The word of a line without flags.
pub(super) const NO_FLAGS: &str = "noflags";

/// What a line shows.
pub struct NodeLine<'a> {
    /// The node.
    pub id: NodeId,
    /// Where the reader of the line reaches it; nothing if that is not known.
    pub host: &'a dyn fmt::Display,
    /// The port there.
    pub port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Host name, or an empty text.
    pub hostname: &'a Text,
    /// Flags. Those without a word are left out.
    pub flags: NodeFlags,
    /// Primary of a replica.
    pub replica_of: Option<NodeId>,
    /// When a PING was sent that is not answered, in milliseconds since 1970, or 0.
    pub ping_sent_ms: u64,
    /// When it last sent a PONG, in milliseconds since 1970, or 0.
    pub pong_received_ms: u64,
    /// Epoch of its slots; of a replica, its primary's.
    pub epoch: u64,
    /// There is a link to it, or it is this node.
    pub is_connected: bool,
    /// Its slots.
    pub slots: &'a SlotSet,
    /// Slots that are moved by hand, of this node only.
    pub open_slots: &'a [OpenSlot],
}

impl NodeLine<'_> {
    /// Appends the line of CLUSTER NODES, without its end.
    pub fn append_to(&self, out: &mut String) {
        self.append_address(out);
        self.append_rest(out);
    }

    /// Appends what comes before the fields of the file.
    pub(super) fn append_address(&self, out: &mut String) {
        append(out, format_args!("{} {}:{}@{}", self.id, self.host, self.port, self.bus_port));
        if !self.hostname.is_empty() {
            append(out, format_args!(",{}", self.hostname));
        }
    }

    /// Appends what comes behind the fields of the file.
    pub(super) fn append_rest(&self, out: &mut String) {
        out.push(' ');
        append_flags(out, self.flags);
        match self.replica_of {
            Some(primary) => append(out, format_args!(" {primary}")),
            None => out.push_str(" -"),
        }
        let state = if self.is_connected { "connected" } else { "disconnected" };
        let (ping, pong) = (self.ping_sent_ms, self.pong_received_ms);
        append(out, format_args!(" {ping} {pong} {} {state}", self.epoch));
        for (first, last) in self.slots.ranges() {
            append(out, format_args!(" {first}"));
            if last > first {
                append(out, format_args!("-{last}"));
            }
        }
        for OpenSlot { slot, direction, node } in self.open_slots {
            append(out, format_args!(" [{slot}-{}-{node}]", direction.sign()));
        }
    }
}

fn append_flags(out: &mut String, flags: NodeFlags) {
    let start = out.len();
    for (flag, word) in FLAG_WORDS {
        if flags.contains(flag) {
            if out.len() > start {
                out.push(',');
            }
            out.push_str(word);
        }
    }
    if out.len() == start {
        out.push_str(NO_FLAGS);
    }
}

/// Writing to memory does not fail.
pub(super) fn append(out: &mut String, arguments: fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}
