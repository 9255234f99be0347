//! What nodes say about themselves, about others, and about a frame.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub};

/// Flags of a node: in a header its own, in gossip those that the sender has noted for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NodeFlags(u16);

impl NodeFlags {
    /// No flag.
    pub const NONE: NodeFlags = NodeFlags(0);
    /// The node is a primary.
    pub const PRIMARY: NodeFlags = NodeFlags(1);
    /// The node is a replica.
    pub const REPLICA: NodeFlags = NodeFlags(1 << 1);
    /// The sender does not reach the node.
    pub const POSSIBLY_FAILED: NodeFlags = NodeFlags(1 << 2);
    /// A majority does not reach the node.
    pub const FAILED: NodeFlags = NodeFlags(1 << 3);
    /// The node is the one that says so.
    pub const MYSELF: NodeFlags = NodeFlags(1 << 4);
    /// The node has an id for the time being, and has not answered yet.
    pub const HANDSHAKE: NodeFlags = NodeFlags(1 << 5);
    /// The node's address is not known.
    pub const NO_ADDRESS: NodeFlags = NodeFlags(1 << 6);
    /// The first frame to the node is MEET.
    pub const MEET: NodeFlags = NodeFlags(1 << 7);
    /// Replicas of others may become replicas of this primary.
    pub const MIGRATE_TO: NodeFlags = NodeFlags(1 << 8);
    /// The replica does not start elections.
    pub const NO_FAILOVER: NodeFlags = NodeFlags(1 << 9);
    /// The node reads extensions.
    pub const EXTENSIONS: NodeFlags = NodeFlags(1 << 10);
    /// The node reads light frames with publications.
    pub const LIGHT_PUBLISH: NodeFlags = NodeFlags(1 << 11);
    /// The node reads light frames of modules, and takes a MEET of a node that it knows.
    pub const LIGHT_MODULE: NodeFlags = NodeFlags(1 << 12);
    /// The replica's primary has failed, as the replica sees it.
    pub const PRIMARY_FAILED: NodeFlags = NodeFlags(1 << 13);

    const NAMES: [(NodeFlags, &str); 14] = [
        (NodeFlags::MYSELF, "myself"),
        (NodeFlags::PRIMARY, "primary"),
        (NodeFlags::REPLICA, "replica"),
        (NodeFlags::POSSIBLY_FAILED, "possibly failed"),
        (NodeFlags::FAILED, "failed"),
        (NodeFlags::HANDSHAKE, "handshake"),
        (NodeFlags::NO_ADDRESS, "no address"),
        (NodeFlags::MEET, "meet"),
        (NodeFlags::MIGRATE_TO, "migrate to"),
        (NodeFlags::NO_FAILOVER, "no failover"),
        (NodeFlags::EXTENSIONS, "extensions"),
        (NodeFlags::LIGHT_PUBLISH, "light publish"),
        (NodeFlags::LIGHT_MODULE, "light module"),
        (NodeFlags::PRIMARY_FAILED, "primary failed"),
    ];

    /// Returns the flags that have a meaning.
    pub const fn known() -> NodeFlags {
        NodeFlags((1 << 14) - 1)
    }

    /// Reads flags from a frame: those without a meaning are left out.
    pub const fn from_bits(bits: u16) -> NodeFlags {
        NodeFlags(bits & NodeFlags::known().0)
    }

    /// Returns the flags as frames have them.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether all of these flags are set.
    pub const fn contains(self, flags: NodeFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns whether one of these flags is set.
    pub const fn intersects(self, flags: NodeFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets or clears flags.
    pub fn set(&mut self, flags: NodeFlags, is_set: bool) {
        self.0 = if is_set { self.0 | flags.0 } else { self.0 & !flags.0 };
    }
}

impl BitOr for NodeFlags {
    type Output = NodeFlags;

    fn bitor(self, other: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 | other.0)
    }
}

impl BitOrAssign for NodeFlags {
    fn bitor_assign(&mut self, other: NodeFlags) {
        self.0 |= other.0;
    }
}

impl BitAnd for NodeFlags {
    type Output = NodeFlags;

    fn bitand(self, other: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 & other.0)
    }
}

impl Not for NodeFlags {
    type Output = NodeFlags;

    fn not(self) -> NodeFlags {
        NodeFlags(!self.0 & NodeFlags::known().0)
    }
}

impl Sub for NodeFlags {
    type Output = NodeFlags;

    fn sub(self, other: NodeFlags) -> NodeFlags {
        NodeFlags(self.0 & !other.0)
    }
}

impl fmt::Debug for NodeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = NodeFlags::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        f.debug_set().entries(set.map(|(_, name)| name)).finish()
    }
}

/// Flags of a frame with a full header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags {
    /// The sender's clients wait for a manual failover.
    pub is_paused: bool,
    /// A vote is asked for although the primary has not failed.
    pub forces_vote: bool,
    /// The sender reads extensions, and has sent those that it has.
    pub has_extensions: bool,
}

impl MessageFlags {
    pub(super) const fn from_bits(bits: u8) -> MessageFlags {
        MessageFlags { is_paused: bits & 1 != 0, forces_vote: bits & 2 != 0, has_extensions: bits & 4 != 0 }
    }

    pub(super) const fn bits(self) -> u8 {
        self.is_paused as u8 | (self.forces_vote as u8) << 1 | (self.has_extensions as u8) << 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_are_left_out() {
        let flags = NodeFlags::from_bits(0xffff);
        assert_eq!((flags, flags.bits()), (NodeFlags::known(), 0x3fff));
        assert_eq!(!NodeFlags::NONE, NodeFlags::known());
    }

    #[test]
    fn flags_are_joined_and_taken_away() {
        let mut flags = NodeFlags::PRIMARY | NodeFlags::FAILED;
        assert!(
            flags.contains(NodeFlags::PRIMARY) && flags.intersects(NodeFlags::FAILED | NodeFlags::REPLICA)
        );
        assert!(!flags.contains(NodeFlags::PRIMARY | NodeFlags::REPLICA));
        flags.set(NodeFlags::FAILED, false);
        assert_eq!((flags, flags - NodeFlags::PRIMARY), (NodeFlags::PRIMARY, NodeFlags::NONE));
        flags.set(NodeFlags::MYSELF, true);
        assert_eq!(format!("{flags:?}"), r#"{"myself", "primary"}"#);
    }

    #[test]
    fn each_flag_of_a_message_has_its_bit() {
        for bits in 0..8 {
            assert_eq!(MessageFlags::from_bits(bits).bits(), bits);
        }
        assert!(MessageFlags::from_bits(1).is_paused && MessageFlags::from_bits(2).forces_vote);
        assert!(MessageFlags::from_bits(4).has_extensions);
    }
}
