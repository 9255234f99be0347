//! The file in which a node keeps what it knows of its cluster, `nodes.conf`, and the lines of CLUSTER NODES, which are
//! nearly the same.
//!
//! ```text
//!  <id> <ip>:<port>@<bus port>[,<host name>] <flags> <primary's id|-> <ping sent> <pong received> <epoch> connected
//!                             [ <slot>][ <first>-<last>]...[ [<slot>->-<id>]][ [<slot>-<-<id>]]
//!
//!  in the file also, behind the host name, which may then be empty:  ,<name>=<value>...
//!  vars currentEpoch <epoch> lastVoteEpoch <epoch>
//! ```
//!
//! 1. What was written is read as the same, but for the epoch of a replica, which is its primary's and not stored.
//! 2. A file with a fault is refused as a whole: to go on with half of a cluster would lose the other half.
//! 3. Files of older servers are read: without fields behind the address, without the bus's port, with other words for
//!    primary and replica.

mod line;
mod open_slots;
mod read;
mod write;

pub use line::{Direction, NodeLine, OpenSlot};
pub use open_slots::{OPEN_SLOTS, open_slots_text, read_open_slots};
pub use read::{Fault, FaultKind, read};

use crate::cluster_bus::{Address, Ipv6Text, NodeFlags, NodeId, SlotSet, Text};
use std::net::Ipv4Addr;

/// How far a port of the bus is from that of clients, unless another is set.
pub const BUS_PORT_OFFSET: u16 = 10_000;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesConf {
    /// The nodes, of which exactly one has the flag `MYSELF`, in the order of the file.
    pub nodes: Vec<NodeRow>,
    /// Highest epoch that this node knows, at least that of each node.
    pub current_epoch: u64,
    /// Epoch of the last election that this node has voted in.
    pub last_vote_epoch: u64,
}

/// A node in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Its id.
    pub id: NodeId,
    /// Its address, if it is known.
    pub address: Option<Address>,
    /// Port without TLS, or 0.
    pub tcp_port: u16,
    /// Port with TLS, or 0.
    pub tls_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Host name, or an empty text.
    pub hostname: Text,
    /// Name for people, or an empty text.
    pub nodename: Text,
    /// Shard. Servers before version 7.2 have none.
    pub shard_id: Option<NodeId>,
    /// Address for clients that came by IPv4, where it is another.
    pub client_ipv4: Option<Ipv4Addr>,
    /// Address for clients that came by IPv6, where it is another.
    pub client_ipv6: Option<Ipv6Text>,
    /// Port for clients without TLS, where it is another, or 0.
    pub client_tcp_port: u16,
    /// Port for clients with TLS, where it is another, or 0.
    pub client_tls_port: u16,
    /// Availability zone, or an empty text.
    pub availability_zone: Text,
    /// What is known about it: only the flags that have a word.
    pub flags: NodeFlags,
    /// Primary of a replica.
    pub replica_of: Option<NodeId>,
    /// When a PING was sent that is not answered, in milliseconds since 1970, or 0.
    pub ping_sent_ms: u64,
    /// When it last sent a PONG, in milliseconds since 1970, or 0.
    pub pong_received_ms: u64,
    /// Epoch of its slots. What is read of a replica has 0.
    pub config_epoch: u64,
    /// There was a link to it.
    pub is_connected: bool,
    /// Its slots.
    pub slots: SlotSet,
    /// Slots that are moved by hand, of this node only.
    pub open_slots: Vec<OpenSlot>,
}

impl NodeRow {
    /// Returns a node of which nothing but its id is known.
    pub fn new(id: NodeId) -> NodeRow {
        NodeRow {
            id,
            address: None,
            tcp_port: 0,
            tls_port: 0,
            bus_port: 0,
            hostname: Text::default(),
            nodename: Text::default(),
            shard_id: None,
            client_ipv4: None,
            client_ipv6: None,
            client_tcp_port: 0,
            client_tls_port: 0,
            availability_zone: Text::default(),
            flags: NodeFlags::NONE,
            replica_of: None,
            ping_sent_ms: 0,
            pong_received_ms: 0,
            config_epoch: 0,
            is_connected: false,
            slots: SlotSet::new(),
            open_slots: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
