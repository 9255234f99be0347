//! Where fields stand in frames. All numbers are big-endian.

pub(super) const SIGNATURE: [u8; 4] = *b"RCmb";
pub(super) const VERSION: u16 = 1;
/// Bit of the type that light frames have set.
pub(super) const LIGHT: u16 = 1 << 15;

/// Length of the beginning that both kinds of frames have, and of a light frame's header.
pub(super) const PREFIX_LEN: usize = 16;
pub(super) const LENGTH: usize = 4;
pub(super) const VERSION_AT: usize = 8;
pub(super) const PORT: usize = 10;
pub(super) const TYPE: usize = 12;
pub(super) const COUNT: usize = 14;

pub(super) const CURRENT_EPOCH: usize = 16;
pub(super) const CONFIG_EPOCH: usize = 24;
pub(super) const OFFSET: usize = 32;
pub(super) const SENDER: usize = 40;
pub(super) const SLOTS: usize = 80;
pub(super) const REPLICA_OF: usize = 2128;
pub(super) const ADDRESS: usize = 2168;
pub(super) const EXTENSIONS: usize = 2214;
pub(super) const OTHER_PORT: usize = 2246;
pub(super) const BUS_PORT: usize = 2248;
pub(super) const FLAGS: usize = 2250;
pub(super) const STATE: usize = 2252;
pub(super) const MESSAGE_FLAGS: usize = 2253;
/// Length of a full header.
pub(super) const HEADER_LEN: usize = 2256;

/// Length of an address's field, which holds a NUL at least.
pub(super) const ADDRESS_LEN: usize = 46;
/// Length of a gossip entry: id, two times, address, three ports around the flags, and two bytes that are not used.
pub(super) const GOSSIP_LEN: usize = 104;

/// Length of an extension's beginning: its length with this, its type, and two bytes that are not used.
pub(super) const EXTENSION_PREFIX_LEN: usize = 8;
/// Extensions are as long as this, or a multiple.
pub(super) const EXTENSION_UNIT: usize = 8;

/// Types of extensions.
pub(super) mod extension {
    pub(in super::super) const HOSTNAME: u16 = 0;
    pub(in super::super) const NODENAME: u16 = 1;
    pub(in super::super) const FORGOTTEN: u16 = 2;
    pub(in super::super) const SHARD_ID: u16 = 3;
    pub(in super::super) const CLIENT_IPV4: u16 = 4;
    pub(in super::super) const CLIENT_IPV6: u16 = 5;
    pub(in super::super) const CLIENT_PORT: u16 = 6;
    pub(in super::super) const CLIENT_TLS_PORT: u16 = 7;
    pub(in super::super) const AVAILABILITY_ZONE: u16 = 8;
}

/// Length of the numbers before a channel and its message.
pub(super) const PUBLICATION_PREFIX_LEN: usize = 8;
/// Length of what precedes a module's payload.
pub(super) const MODULE_PREFIX_LEN: usize = 13;
