//! The frames that this node sends.

use std::sync::Arc;

use wire::cluster_bus::{
    Body, Extensions, Forgotten, Frame, Gossip, GossipEntry, Header, Kind, Light, MessageFlags, NodeFlags,
    NodeId, Publication, Update,
};

use crate::action::{Level, LinkId};
use crate::cluster::Cluster;
use crate::node::Node;

/// Least number of nodes that a frame has gossip about, if there are as many.
const GOSSIP_MIN: usize = 3;
/// Nodes that are looked at for each of those: few can be in gossip while many are in handshake.
const CHOICES: usize = 8;
/// Limit of nodes that one frame asks to forget.
const FORGOTTEN_MAX: usize = 1_000;

impl Cluster {
    /// The header of full frames. That of a replica contains the slots of its primary.
    fn header(&self) -> Header {
        let (myself, primary) = (self.myself(), self.my_primary());
        let endpoints = &myself.endpoints;
        let (port, other_port) = self.in_order_of_bus(endpoints.tcp_port, endpoints.tls_port);
        Header {
            sender: myself.id,
            port,
            other_port,
            bus_port: endpoints.bus_port,
            current_epoch: self.current_epoch,
            config_epoch: primary.config_epoch,
            offset: self.facts.replication_offset,
            slots: primary.slots.clone(),
            replica_of: myself.primary,
            address: self.settings.announce_ip.clone(),
            flags: myself.flags,
            is_state_ok: self.state.is_ok,
            mflags: MessageFlags {
                is_paused: myself.is_primary() && self.manual.is_active(),
                forces_vote: false,
                has_extensions: false,
            },
        }
    }

    /// Ports without and with TLS as the port that nodes use and the other, which is their order in frames; and the
    /// other way round.
    pub(crate) fn in_order_of_bus(&self, tcp_port: u16, tls_port: u16) -> (u16, u16) {
        if self.settings.tls_cluster { (tls_port, tcp_port) } else { (tcp_port, tls_port) }
    }

    fn frame(&self, body: Body) -> Arc<Frame> {
        Arc::new(Frame::Full(Box::new(self.header()), body))
    }

    /// Sends a frame to all nodes that there is a link to.
    fn broadcast(&mut self, frame: &Arc<Frame>) {
        let links: Vec<LinkId> =
            self.nodes.iter().filter(|node| is_peer(node)).filter_map(|node| node.link).collect();
        for link in links {
            self.send(link, Arc::clone(frame));
        }
    }

    /// Sends FAIL about a node to all.
    pub(crate) fn broadcast_fail(&mut self, id: NodeId) {
        let frame = self.frame(Body::Fail(id));
        self.broadcast(&frame);
    }

    /// Asks all for their votes.
    pub(crate) fn broadcast_vote_request(&mut self, forces_vote: bool) {
        let mut header = self.header();
        header.mflags.forces_vote = forces_vote;
        let frame = Arc::new(Frame::Full(Box::new(header), Body::FailoverAuthRequest));
        self.broadcast(&frame);
    }

    /// Sends a frame without gossip to one node, if there is a link to it.
    pub(crate) fn send_to(&mut self, id: NodeId, body: Body) {
        if let Some(link) = self.nodes.get(id).and_then(|node| node.link) {
            let frame = self.frame(body);
            self.send(link, frame);
        }
    }

    /// Sends a node the slots of another, of which it claims some with an older epoch.
    pub(crate) fn send_update(&mut self, to: NodeId, about: NodeId) {
        let Some(node) = self.nodes.get(about) else { return };
        let mut slots = node.slots.clone();
        // What the owner itself no longer claims is not spread.
        slots.remove_all(&self.slots.unclaimed);
        let update = Update { id: about, config_epoch: node.config_epoch, slots };
        self.log_with(Level::Verbose, |cluster| {
            format!(
                "Node {} has old slots configuration, sending an UPDATE message about {}",
                cluster.called(to),
                cluster.called(about)
            )
        });
        self.send_to(to, Body::Update(update));
    }

    /// Sends a PONG to all nodes for which this holds.
    pub(crate) fn broadcast_pong(&mut self, wanted: impl Fn(&Cluster, &Node) -> bool) {
        let peers = self.nodes.iter().filter(|node| is_peer(node) && wanted(self, node));
        let mut links: Vec<(bool, LinkId)> =
            peers.filter_map(|node| Some((self.reads_extensions(node.link?), node.link?))).collect();
        // A frame that follows itself is encoded once.
        links.sort_unstable();
        let mut frames = [None, None];
        for (reads_extensions, link) in links {
            self.log_sending(link, Kind::Pong);
            let frame = frames[usize::from(reads_extensions)]
                .get_or_insert_with(|| self.gossip_frame(Kind::Pong, None, reads_extensions));
            let frame = Arc::clone(frame);
            self.send(link, frame);
        }
    }

    /// Sends PING, PONG or MEET with what this node knows of some others.
    pub(crate) fn send_ping(&mut self, link: LinkId, kind: Kind) {
        let Some(record) = self.links.get(link) else { return };
        let receiver = record.node;
        let now_ms = self.now_ms();
        if let Some(node) = receiver.and_then(|id| self.nodes.get_mut(id))
            && !link.is_inbound()
        {
            match kind {
                Kind::Ping => node.times.ping_sent = Some(now_ms),
                Kind::Meet => node.times.meet_sent = Some(now_ms),
                _ => {}
            }
        }
        self.log_sending(link, kind);
        let frame = self.gossip_frame(kind, receiver, self.reads_extensions(link));
        self.send(link, frame);
    }

    fn log_sending(&mut self, link: LinkId, kind: Kind) {
        self.log_with(Level::Debug, |cluster| {
            let node = cluster.links.node(link).map(|id| cluster.called(id).to_string());
            let direction = if link.is_inbound() { "inbound" } else { "outbound" };
            format!(
                "Sending {} packet to node {} on {direction} link",
                kind.name(),
                node.as_deref().unwrap_or("<unknown> (<unknown>)")
            )
        });
    }

    /// The other end of a link reads extensions.
    fn reads_extensions(&self, link: LinkId) -> bool {
        let can_read = |node: &Node| node.has(NodeFlags::EXTENSIONS);
        self.links.get(link).is_some_and(|link| {
            link.reads_extensions || link.node.and_then(|id| self.nodes.get(id)).is_some_and(can_read)
        })
    }

    /// A PING, PONG or MEET; its gossip is not about the receiver, if there is only one.
    fn gossip_frame(&mut self, kind: Kind, receiver: Option<NodeId>, reads_extensions: bool) -> Arc<Frame> {
        let extensions = if reads_extensions { self.extensions() } else { Extensions::default() };
        let gossip = Gossip { entries: self.gossip_for(receiver), extensions };
        let body = match kind {
            Kind::Pong => Body::Pong(gossip),
            Kind::Meet => Body::Meet(gossip),
            _ => Body::Ping(gossip),
        };
        let mut header = self.header();
        header.mflags.has_extensions = true;
        Arc::new(Frame::Full(Box::new(header), body))
    }

    /// A frame's gossip: about some nodes at random, and all that this node does not reach.
    fn gossip_for(&mut self, receiver: Option<NodeId>) -> Vec<GossipEntry> {
        let known = self.nodes.len();
        let percent = usize::try_from(self.settings.gossip_percent).unwrap_or(100);
        let wanted = (known * percent / 100).max(GOSSIP_MIN).min(known.saturating_sub(2));
        let unknown_place = NodeFlags::HANDSHAKE | NodeFlags::NO_ADDRESS;
        let left_out = unknown_place | NodeFlags::MYSELF | NodeFlags::POSSIBLY_FAILED;
        let is_included = |node: &&Node| {
            !node.has(left_out) && receiver != Some(node.id) && (node.link.is_some() || node.slot_count > 0)
        };
        let some = self
            .nodes
            .iter_from_random_place(&mut self.random)
            .take(wanted * CHOICES)
            .filter(is_included)
            .take(wanted);
        let unreachable = self.has_unreachable.then(|| self.nodes.unreachable()).into_iter().flatten();
        let unreachable = unreachable.filter(|node| !node.has(unknown_place));
        some.chain(unreachable).map(|node| self.gossip_entry(node)).collect()
    }

    fn gossip_entry(&self, node: &Node) -> GossipEntry {
        let seconds = |at| u32::try_from(self.now.date_ms(at) / 1_000).unwrap_or(u32::MAX);
        let (port, other_port) = self.in_order_of_bus(node.endpoints.tcp_port, node.endpoints.tls_port);
        GossipEntry {
            id: node.id,
            ping_sent_s: seconds(node.times.ping_sent),
            pong_received_s: seconds(node.times.pong_received),
            address: node.address.clone(),
            port,
            other_port,
            bus_port: node.endpoints.bus_port,
            flags: node.flags,
        }
    }

    fn extensions(&self) -> Extensions {
        let (myself, now_ms) = (self.myself(), self.now_ms());
        let endpoints = &myself.endpoints;
        let forgotten = self.forgotten.iter().filter(|(_, until)| **until > now_ms);
        let forgotten =
            forgotten.map(|(id, until)| Forgotten { id: *id, ttl_s: (until - now_ms).div_ceil(1_000) });
        Extensions {
            hostname: endpoints.hostname.clone(),
            nodename: endpoints.nodename.clone(),
            client_ipv4: endpoints.client_ipv4,
            client_ipv6: endpoints.client_ipv6.clone(),
            client_port: Some(endpoints.client_tcp_port).filter(|port| *port != 0),
            client_tls_port: Some(endpoints.client_tls_port).filter(|port| *port != 0),
            availability_zone: endpoints.availability_zone.clone(),
            forgotten: forgotten.take(FORGOTTEN_MAX).collect(),
            shard_id: Some(myself.shard_id),
        }
    }

    /// Sends a message of a client to the subscribers of other nodes: of all, or of the shard's.
    pub fn publish(&mut self, channel: &[u8], message: &[u8], is_sharded: bool) {
        let publication = Publication { channel: channel.to_vec(), message: message.to_vec() };
        let shard_id = self.myself().shard_id;
        let receivers =
            self.nodes.iter().filter(|node| is_peer(node) && (!is_sharded || node.shard_id == shard_id));
        let links: Vec<(LinkId, bool)> =
            receivers.filter_map(|node| Some((node.link?, self.reads_light_frames(node)))).collect();
        let all_read_light = links.iter().all(|(_, light)| *light);
        let full = (!all_read_light).then(|| {
            let publication = publication.clone();
            self.frame(if is_sharded { Body::PublishShard(publication) } else { Body::Publish(publication) })
        });
        let light = if is_sharded { Light::PublishShard(publication) } else { Light::Publish(publication) };
        let light = Arc::new(Frame::Light(light));
        for (link, reads_light) in links {
            let frame = full.as_ref().filter(|_| !reads_light).unwrap_or(&light);
            self.send(link, Arc::clone(frame));
        }
    }

    /// A light frame does not say who sends it: the other end has to know that from an earlier frame.
    fn reads_light_frames(&self, node: &Node) -> bool {
        let created = node.link.and_then(|link| self.links.get(link)).map(|link| link.created);
        node.has(NodeFlags::LIGHT_PUBLISH)
            && created.is_some_and(|created| node.times.pong_received >= Some(created))
    }
}

/// The node is another one, whose id is known.
fn is_peer(node: &Node) -> bool {
    !node.has(NodeFlags::MYSELF | NodeFlags::HANDSHAKE)
}
