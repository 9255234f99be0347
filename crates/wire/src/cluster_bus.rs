//! The cluster bus, version 1: the frames that the nodes of a cluster send each other, as owned values. Numbers are
//! big-endian, a node's id is 40 bytes, and strings end in NUL within their field.
//!
//! ```text
//!  full frame: header of 2,256 bytes, then what the type asks for
//!     0 "RCmb"   4 length of the frame   8 version 1   10 port   12 type   14 number of gossip entries
//!    16 current epoch   24 config epoch   32 replication offset   40 sender   80 slots (2,048)
//!  2128 primary's id   2168 address (46)   2214 number of extensions   2246 other port   2248 bus port
//!  2250 flags   2252 state   2253 flags of the message (3)
//!
//!  light frame: header of 16 bytes, the type has its highest bit set; publications and modules only
//!
//!  PING, PONG, MEET   gossip entries of 104 bytes, extensions of 8 n bytes
//!  FAIL               id
//!  PUBLISH[SHARD]     length of channel, length of message, channel, message
//!  UPDATE             config epoch, id, slots
//!  MODULE             module (8, the sender's byte order), length, kind (1), payload
//! ```
//!
//! Any client that reaches the port may send anything, so that these hold for each frame that has been read:
//!
//! 1. It has the length that its header and its parts announce, and no more than its type can have.
//! 2. Ids have 40 bytes of `[0-9a-z]`, texts only characters that `nodes.conf` can hold, and epochs are below 2^63.
//! 3. Flags that are unknown are cleared.

mod address;
mod encode;
mod extensions;
mod flags;
mod frame;
mod incoming;
mod layout;
mod node_id;
mod read;
mod slot_set;

pub use address::{Address, Text};
pub use encode::Encoded;
pub use extensions::{Extensions, Forgotten, Ipv6Text};
pub use flags::{MessageFlags, NodeFlags};
pub use frame::{Body, Frame, Gossip, GossipEntry, Header, Kind, Light, ModuleMessage, Publication, Update};
pub use incoming::{Incoming, Received};
pub use node_id::NodeId;
pub use read::Fault;
pub use slot_set::{SLOTS, SlotSet};

/// Limit of epochs that are believed: there is always a next one.
pub const EPOCH_MAX: u64 = (1 << 63) - 1;

/// Reads one whole frame. Publications and messages of modules may have up to `message_bytes_max` bytes.
///
/// # Errors
///
/// Fails if the bytes are anything else than one frame.
pub fn read(bytes: &[u8], message_bytes_max: usize) -> Result<Frame, Fault> {
    read::read_frame(bytes, message_bytes_max)
}

#[cfg(test)]
mod tests;
