//! Extensions: what a PING, PONG or MEET contains about its sender beside the header.

use super::{NodeId, Text};
use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv6 address as it was written: one address has several texts, and clients are shown that of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipv6Text(Box<str>);

impl FromStr for Ipv6Text {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Ipv6Addr>().map(|_| Ipv6Text(text.into()))
    }
}

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The extensions of a frame. What is absent is not known, or no longer set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Host name that clients reach the sender by, or an empty text.
    pub hostname: Text,
    /// Name for people, or an empty text.
    pub nodename: Text,
    /// Address for clients that came by IPv4.
    pub client_ipv4: Option<Ipv4Addr>,
    /// Address for clients that came by IPv6.
    pub client_ipv6: Option<Ipv6Text>,
    /// Port for clients.
    pub client_port: Option<u16>,
    /// Port for clients that use TLS.
    pub client_tls_port: Option<u16>,
    /// Availability zone, or an empty text.
    pub availability_zone: Text,
    /// Nodes that all nodes are to forget, in the order of the frame.
    pub forgotten: Vec<Forgotten>,
    /// Shard of the sender. Servers before version 7.2 have none.
    pub shard_id: Option<NodeId>,
}

/// A node that is to be forgotten, and not added again for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The node.
    pub id: NodeId,
    /// Seconds during which gossip about it is ignored.
    pub ttl_s: u64,
}
