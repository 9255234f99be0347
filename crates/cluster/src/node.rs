//! A node as this one knows it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use wire::cluster_bus::{Address, Ipv6Text, NodeFlags, NodeId, SlotSet, Text};

use crate::action::LinkId;
use crate::membership::Whereabouts;

/// What a node can be reached by, apart from its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Port without TLS; 0: none.
    pub tcp_port: u16,
    /// Port with TLS; 0: none.
    pub tls_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Port for clients without TLS, where it is another; 0: not set.
    pub client_tcp_port: u16,
    /// Port for clients with TLS, where it is another; 0: not set.
    pub client_tls_port: u16,
    /// Address for clients that came by IPv4, where it is another.
    pub client_ipv4: Option<Ipv4Addr>,
    /// Address for clients that came by IPv6, where it is another.
    pub client_ipv6: Option<Ipv6Text>,
    /// Host name, or an empty text.
    pub hostname: Text,
    /// Name for people, or an empty text.
    pub nodename: Text,
    /// Availability zone, or an empty text.
    pub availability_zone: Text,
}

/// A node as this one knows it.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) shard_id: NodeId,
    pub(crate) flags: NodeFlags,
    /// Of a primary; what a replica has here means nothing.
    pub(crate) config_epoch: u64,
    pub(crate) slots: SlotSet,
    pub(crate) slot_count: u16,
    pub(crate) primary: Option<NodeId>,
    /// Sorted.
    pub(crate) replicas: Vec<NodeId>,
    pub(crate) address: Option<Address>,
    pub(crate) endpoints: Endpoints,
    pub(crate) replication_offset: u64,
    pub(crate) times: Times,
    /// The link that this node opened to the other.
    pub(crate) link: Option<LinkId>,
    /// The link that the other opened.
    pub(crate) inbound_link: Option<LinkId>,
    /// Primaries that do not reach the node, and when they said so last.
    pub(crate) failure_reports: BTreeMap<NodeId, u64>,
}

/// When what happened last, by the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pub(crate) created: u64,
    /// A PING that has not been answered.
    pub(crate) ping_sent: Option<u64>,
    pub(crate) pong_received: Option<u64>,
    pub(crate) data_received: Option<u64>,
    pub(crate) meet_sent: Option<u64>,
    pub(crate) failed: Option<u64>,
    pub(crate) orphaned: Option<u64>,
    pub(crate) connected: Option<u64>,
    pub(crate) inbound_link_closed: u64,
}

/// How long ago this was; for ever if it never was.
pub(crate) fn age_ms(now_ms: u64, at: Option<u64>) -> u64 {
    at.map_or(u64::MAX, |at| now_ms.saturating_sub(at))
}

impl Node {
    pub(crate) fn new(id: NodeId, shard_id: NodeId, flags: NodeFlags, now_ms: u64) -> Node {
        Node {
            id,
            shard_id,
            flags,
            config_epoch: 0,
            slots: SlotSet::new(),
            slot_count: 0,
            primary: None,
            replicas: Vec::new(),
            address: None,
            endpoints: Endpoints::default(),
            replication_offset: 0,
            times: Times { created: now_ms, inbound_link_closed: now_ms, ..Times::default() },
            link: None,
            inbound_link: None,
            failure_reports: BTreeMap::new(),
        }
    }

    /// The node's id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The id of its shard: a primary and its replicas.
    pub fn shard_id(&self) -> NodeId {
        self.shard_id
    }

    /// What is known about it, in bits.
    pub fn flags(&self) -> NodeFlags {
        self.flags
    }

    /// The node is a primary.
    pub fn is_primary(&self) -> bool {
        self.flags.contains(NodeFlags::PRIMARY)
    }

    /// The node is a replica.
    pub fn is_replica(&self) -> bool {
        self.flags.contains(NodeFlags::REPLICA)
    }

    /// The node is this one.
    pub fn is_myself(&self) -> bool {
        self.flags.contains(NodeFlags::MYSELF)
    }

    /// A majority of primaries does not reach the node.
    pub fn is_failed(&self) -> bool {
        self.flags.contains(NodeFlags::FAILED)
    }

    /// This node does not reach it.
    pub fn is_possibly_failed(&self) -> bool {
        self.flags.contains(NodeFlags::POSSIBLY_FAILED)
    }

    /// The node's id is not known yet.
    pub fn is_in_handshake(&self) -> bool {
        self.flags.contains(NodeFlags::HANDSHAKE)
    }

    /// The node has a vote: it is a primary that has slots.
    pub fn has_vote(&self) -> bool {
        self.is_primary() && self.slot_count > 0
    }

    /// The primary of a replica, if it is known.
    pub fn primary(&self) -> Option<NodeId> {
        self.primary
    }

    /// The replicas that are known, by their ids.
    pub fn replicas(&self) -> &[NodeId] {
        &self.replicas
    }

    /// The slots that are the node's.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// How many slots are the node's.
    pub fn slot_count(&self) -> u16 {
        self.slot_count
    }

    /// The node's address, unless none is known.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Ports and names.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The replication offset of the node's latest frame.
    pub fn replication_offset(&self) -> u64 {
        self.replication_offset
    }

    /// This node has a link to it, or opens one.
    pub fn is_linked(&self) -> bool {
        self.link.is_some() || self.is_myself()
    }

    /// Notes where the node is reached.
    pub(crate) fn place_at(&mut self, at: Whereabouts) {
        self.address = Some(at.address);
        self.endpoints.tcp_port = at.tcp_port;
        self.endpoints.tls_port = at.tls_port;
        self.endpoints.bus_port = at.bus_port;
    }

    pub(crate) fn has(&self, flags: NodeFlags) -> bool {
        self.flags.intersects(flags)
    }

    /// The port of the address that other nodes and replicas use.
    pub(crate) fn port(&self, tls: bool) -> u16 {
        if tls { self.endpoints.tls_port } else { self.endpoints.tcp_port }
    }

    /// The address as CLUSTER NODES has it: empty if it is not known.
    pub(crate) fn address_text(&self) -> String {
        self.address.as_ref().map(Address::to_string).unwrap_or_default()
    }

    /// What people call the node, for the log.
    pub(crate) fn name(&self, tls: bool) -> String {
        if !self.endpoints.nodename.is_empty() {
            return self.endpoints.nodename.to_string();
        }
        let (address, port) = (self.address_text(), self.port(tls));
        if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
    }
}
