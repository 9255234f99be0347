//! How nodes become known and are forgotten: MEET, handshakes, and the list of those that gossip does not bring back.
//!
//! ```text
//!  CLUSTER MEET: node with a random id -> link -> MEET -> PONG: the node gets its id
//!  MEET from a sender that is not known: PONG, and a node with a random id -> link -> PING -> PONG: it gets its id
//! ```

use std::net::IpAddr;

use wire::cluster_bus::{Address, NodeFlags, NodeId};

use crate::action::{Level, LinkId, Now};
use crate::cluster::Cluster;
use crate::node::Node;
use crate::nodes::NODES_MAX;
use crate::refusal::Refusal;

/// Least time that a handshake may take.
const HANDSHAKE_MS_MIN: u64 = 1_000;
/// Longest time for which another node can have one forgotten.
const FORGOTTEN_S_MAX: u64 = 24 * 3600;

/// Where a node in handshake is said to be.
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    pub(crate) address: Address,
    pub(crate) tcp_port: u16,
    pub(crate) tls_port: u16,
    pub(crate) bus_port: u16,
}

impl Cluster {
    /// MEET: makes this node known to another, and that one to this. `requested_by` names the client in the log.
    pub fn meet(
        &mut self,
        ip: &str,
        port: u16,
        bus_port: u16,
        requested_by: &str,
        now: Now,
    ) -> Result<(), Refusal> {
        self.now = now;
        let parsed: IpAddr = ip.parse().map_err(|_| Refusal::BadAddress(ip.to_string(), port))?;
        let address = Address::from(parsed);
        if !self.is_in_handshake_with(&address, port, bus_port) {
            let (tcp_port, tls_port) = self.in_order_of_bus(port, 0);
            let at = Whereabouts { address, tcp_port, tls_port, bus_port };
            self.add_in_handshake(at, NodeFlags::MEET).ok_or(Refusal::TooManyNodes)?;
        }
        self.log(Level::Notice, format!("Cluster meet {ip}:{port} (user request from '{requested_by}')."));
        Ok(())
    }

    fn is_in_handshake_with(&self, address: &Address, port: u16, bus_port: u16) -> bool {
        let tls = self.settings.tls_cluster;
        self.nodes.iter().any(|node| {
            node.is_in_handshake()
                && node.address.as_ref() == Some(address)
                && node.port(tls) == port
                && node.endpoints.bus_port == bus_port
        })
    }

    /// Adds a node that has no id yet.
    pub(crate) fn add_in_handshake(&mut self, at: Whereabouts, flags: NodeFlags) -> Option<NodeId> {
        if self.nodes.is_full() {
            return None;
        }
        let (id, shard_id) = (self.new_id(), self.new_id());
        let mut node = Node::new(id, shard_id, flags | NodeFlags::HANDSHAKE, self.now_ms());
        node.place_at(at);
        self.nodes.insert(node)?;
        Some(id)
    }

    /// Gives a node in handshake the id of its frame.
    pub(crate) fn complete_handshake(&mut self, node: NodeId, id: NodeId, flags: NodeFlags) {
        self.log_with(Level::Debug, |cluster| format!("Renaming node {} into {id}", cluster.called(node)));
        if !self.nodes.rename(node, id) {
            return self.remove_node(node);
        }
        self.rename_links(node, id);
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags.set(NodeFlags::HANDSHAKE, false);
            node.flags |= role(flags);
        }
        self.log_with(Level::Debug, |cluster| {
            format!("Handshake with node {} completed.", cluster.called(id))
        });
        self.save();
    }

    /// Time after which a handshake has failed.
    pub(crate) fn handshake_timeout_ms(&self) -> u64 {
        self.settings.node_timeout_ms.max(HANDSHAKE_MS_MIN)
    }

    pub(crate) fn is_past_handshake_time(&self, node: &Node) -> bool {
        self.now_ms().saturating_sub(node.times.created) > self.handshake_timeout_ms()
    }

    /// Keeps gossip from bringing a node back for a while, and asks others to forget it.
    pub(crate) fn note_forgotten(&mut self, id: NodeId, ttl_s: u64) {
        let now_ms = self.now_ms();
        self.forgotten.retain(|_, until| *until > now_ms);
        if self.forgotten.len() < NODES_MAX {
            self.forgotten.insert(id, now_ms + ttl_s.min(FORGOTTEN_S_MAX) * 1_000);
        }
    }

    pub(crate) fn is_forgotten(&self, id: NodeId) -> bool {
        self.forgotten.get(&id).is_some_and(|until| *until > self.now_ms())
    }

    /// A link's other end turned out to be another node: the one that was looked for is gone.
    pub(crate) fn lost_identity(&mut self, link: LinkId, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let text = format!(
            "PONG contains mismatching sender ID. About node {} added {} ms ago, having flags {}",
            self.called_in_shard(id),
            self.now_ms().saturating_sub(node.times.created),
            node.flags.bits()
        );
        let was_failed = node.is_failed();
        self.log(Level::Notice, text);
        if let Some(node) = self.nodes.get_mut(id) {
            node.flags |= NodeFlags::NO_ADDRESS;
            node.address = None;
            node.endpoints.tcp_port = 0;
            node.endpoints.tls_port = 0;
            node.endpoints.bus_port = 0;
        }
        self.close_link(link);
        if !was_failed {
            // Nobody can reach it again: its replicas have to act, and clients are not sent to nowhere.
            self.mark_failed(id);
            self.broadcast_fail(id);
        }
        self.save_and_update_state();
    }
}

/// The flags that say whether a node is a primary or a replica: one of them.
pub(crate) fn role(flags: NodeFlags) -> NodeFlags {
    if flags.contains(NodeFlags::REPLICA) { NodeFlags::REPLICA } else { flags & NodeFlags::PRIMARY }
}
