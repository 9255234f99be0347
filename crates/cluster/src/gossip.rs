//! Gossip: what frames contain about other nodes, and about their sender beside the header.

use wire::cluster_bus::{Extensions, Gossip, GossipEntry, NodeFlags, NodeId};

use crate::action::Level;
use crate::cluster::Cluster;
use crate::membership::{Whereabouts, role};
use crate::node::{Endpoints, Node};

/// How far ahead of this node's clock a time of another may be.
const CLOCK_TOLERANCE_MS: u64 = 500;

/// What nodes that gossip makes known start with; the rest is this node's own to find out.
const TAKEN_OVER: NodeFlags = {
    let failed = NodeFlags::POSSIBLY_FAILED.bits() | NodeFlags::FAILED.bits();
    let reads =
        NodeFlags::EXTENSIONS.bits() | NodeFlags::LIGHT_PUBLISH.bits() | NodeFlags::LIGHT_MODULE.bits();
    NodeFlags::from_bits(failed | reads | NodeFlags::NO_FAILOVER.bits() | NodeFlags::PRIMARY_FAILED.bits())
};

impl Cluster {
    /// Reads gossip about other nodes; `sender` is `None` for a node that sends MEET where no more nodes fit.
    pub(crate) fn read_gossip(&mut self, sender: Option<NodeId>, gossip: &Gossip) {
        for entry in &gossip.entries {
            self.log_with(Level::Debug, |_| {
                let address = entry.address.as_ref().map(ToString::to_string).unwrap_or_default();
                let (port, bus_port) = (entry.port, entry.bus_port);
                format!("GOSSIP {} {address}:{port}@{bus_port} {:?}", entry.id, entry.flags)
            });
            match self.nodes.get(entry.id) {
                Some(node) if node.is_myself() => {}
                Some(_) => self.read_about_known(sender, entry),
                None => self.read_about_new(sender, entry),
            }
        }
    }

    fn read_about_known(&mut self, sender: Option<NodeId>, entry: &GossipEntry) {
        let id = entry.id;
        let is_unreachable = entry.flags.intersects(NodeFlags::FAILED | NodeFlags::POSSIBLY_FAILED);
        if let Some(sender) = sender {
            self.note_report(id, sender, is_unreachable);
        }
        if !is_unreachable {
            self.note_pong_of_others(entry);
            self.note_address_of_others(entry);
        }
    }

    /// Counts a sender's word on whether it reaches a node.
    fn note_report(&mut self, id: NodeId, sender: NodeId, is_unreachable: bool) {
        let has_vote = self.nodes.get(sender).is_some_and(Node::has_vote);
        if is_unreachable {
            if has_vote && self.add_failure_report(id, sender) {
                self.log_with(Level::Verbose, |cluster| {
                    let (sender, node) = (cluster.called(sender), cluster.called(id));
                    format!("Node {sender} reported node {node} as not reachable.")
                });
            }
            self.fail_by_majority(id);
        } else if self.nodes.get_mut(id).is_some_and(|node| node.failure_reports.remove(&sender).is_some()) {
            self.log_with(Level::Verbose, |cluster| {
                let (sender, node) = (cluster.called(sender), cluster.called(id));
                format!("Node {sender} reported node {node} is back online.")
            });
        }
    }

    /// A PONG that another node got shows that a node works, so that this one does not have to ask.
    fn note_pong_of_others(&mut self, entry: &GossipEntry) {
        self.drop_old_reports(entry.id);
        let now = self.now;
        let Some(node) = self.nodes.get_mut(entry.id) else { return };
        let unsettled =
            NodeFlags::HANDSHAKE | NodeFlags::MEET | NodeFlags::POSSIBLY_FAILED | NodeFlags::FAILED;
        let is_doubtful = node.has(unsettled) || node.times.ping_sent.is_some();
        if is_doubtful || !node.failure_reports.is_empty() {
            return;
        }
        let at_unix_ms = u64::from(entry.pong_received_s) * 1_000;
        if at_unix_ms > now.unix_ms + CLOCK_TOLERANCE_MS {
            return;
        }
        let age_ms = now.unix_ms.saturating_sub(at_unix_ms);
        if let Some(at) = now.monotonic_ms.checked_sub(age_ms)
            && node.times.pong_received < Some(at)
        {
            node.times.pong_received = Some(at);
        }
    }

    /// A node that is not reached here, but there, may have moved.
    fn note_address_of_others(&mut self, entry: &GossipEntry) {
        let Some(node) = self.nodes.get(entry.id) else { return };
        let is_lost = node.has(NodeFlags::FAILED | NodeFlags::POSSIBLY_FAILED) || node.address.is_none();
        if !is_lost || entry.flags.contains(NodeFlags::NO_ADDRESS) {
            return;
        }
        let Some(at) = self.whereabouts_of(entry) else { return };
        if at.is_of(node) {
            return;
        }
        if let Some(link) = node.link {
            self.close_link(link);
        }
        self.move_node(entry.id, at);
    }

    fn whereabouts_of(&self, entry: &GossipEntry) -> Option<Whereabouts> {
        let (tcp_port, tls_port) = self.in_order_of_bus(entry.port, entry.other_port);
        Some(Whereabouts { address: entry.address.clone()?, tcp_port, tls_port, bus_port: entry.bus_port })
    }

    /// A known node, or one in handshake, knows one that this node does not.
    fn read_about_new(&mut self, sender: Option<NodeId>, entry: &GossipEntry) {
        let refused = NodeFlags::NO_ADDRESS | NodeFlags::HANDSHAKE;
        // A full table would have each entry of each frame make a node in vain.
        if self.nodes.is_full()
            || sender.is_none()
            || entry.flags.intersects(refused)
            || self.is_forgotten(entry.id)
        {
            return;
        }
        let Some(at) = self.whereabouts_of(entry) else { return };
        let (shard_id, now_ms) = (self.new_id(), self.now_ms());
        let flags = entry.flags & TAKEN_OVER | role(entry.flags);
        let mut node = Node::new(entry.id, shard_id, flags, now_ms);
        node.times.failed = node.is_failed().then_some(now_ms);
        self.has_unreachable |= node.is_possibly_failed();
        node.place_at(at);
        if self.nodes.insert(node).is_some() {
            self.save();
        }
    }

    /// Reads a sender's extensions: what is absent is not set.
    pub(crate) fn read_extensions(&mut self, sender: NodeId, extensions: Extensions) {
        let Some(node) = self.nodes.get_mut(sender) else { return };
        let announced = Endpoints {
            hostname: extensions.hostname,
            nodename: extensions.nodename,
            availability_zone: extensions.availability_zone,
            client_ipv4: extensions.client_ipv4,
            client_ipv6: extensions.client_ipv6.clone(),
            client_tcp_port: extensions.client_port.unwrap_or(0),
            client_tls_port: extensions.client_tls_port.unwrap_or(0),
            ..node.endpoints.clone()
        };
        if node.endpoints != announced {
            node.endpoints = announced;
            self.save();
        }
        // Servers that know nothing of shards are in that of their primary.
        let Some(node) = self.nodes.get(sender) else { return };
        let primary = node.primary.and_then(|primary| self.nodes.get(primary)).unwrap_or(node);
        let shard_id = extensions.shard_id.unwrap_or(primary.shard_id);
        self.set_shard_id(sender, shard_id);
        for forgotten in &extensions.forgotten {
            let id = forgotten.id;
            let is_needed = self.is_me(id) || self.myself().primary == Some(id);
            // Nobody asks others to forget it: such a frame was made to do harm.
            if is_needed || id == sender || self.nodes.get(id).is_none() {
                continue;
            }
            self.note_forgotten(id, forgotten.ttl_s);
            self.remove_node(id);
            self.save_and_update_state();
        }
    }
}
