//! Reading frames. Any client that reaches the bus may send anything, and any frame may be the last of its link or its node:
//! links and nodes are looked up by their ids at each step, and no step relies on what an earlier one has found.

use wire::cluster_bus::{Address, Body, Frame, Gossip, Header, Kind, Light, NodeFlags, NodeId};

use crate::action::{Effect, Level, LinkId};
use crate::cluster::Cluster;
use crate::membership::Whereabouts;
use crate::settings::FrameFilter;

impl Cluster {
    pub(crate) fn receive(&mut self, link: LinkId, frame: Frame) {
        if self.links.get(link).is_none() {
            return;
        }
        let kind = frame.kind();
        self.statistics.received(kind);
        if self.faults.drop == FrameFilter::Everything || self.faults.drop == FrameFilter::Kind(kind) {
            return self.drop_frame(link, kind);
        }
        match frame {
            Frame::Light(light) => self.receive_light(link, kind, light),
            Frame::Full(header, body) => self.receive_full(link, &header, body),
        }
    }

    /// DEBUG asks for frames of this type to be lost.
    fn drop_frame(&mut self, link: LinkId, kind: Kind) {
        let name = kind.name();
        self.log(Level::Warning, format!("Dropping packet of type {name} that matches debug drop filter"));
        if self.faults.close_link_on_drop {
            self.close_link(link);
            self.log(Level::Warning, format!("Closing link for matching packet type {name}"));
        }
    }

    fn receive_light(&mut self, link: LinkId, kind: Kind, light: Light) {
        let now_ms = self.now_ms();
        let sender = self.links.node(link).and_then(|id| self.nodes.get_mut(id));
        let Some(sender) = sender.filter(|node| !node.is_in_handshake()) else {
            let text = format!(
                "Closing link that sent a lightweight message of type {} as its first message on the link",
                kind.name()
            );
            self.log(Level::Notice, text);
            return self.close_link(link);
        };
        sender.times.data_received = Some(now_ms);
        match light {
            Light::Publish(publication) => self.effect(Effect::Deliver { publication, is_sharded: false }),
            Light::PublishShard(publication) => {
                self.effect(Effect::Deliver { publication, is_sharded: true })
            }
            // There are no modules.
            Light::Module(_) => {}
        }
    }

    fn receive_full(&mut self, link: LinkId, header: &Header, body: Body) {
        if !self.believes(header) {
            let text = format!("Ignoring a frame of node {} with an impossible epoch", header.sender);
            return self.log(Level::Warning, text);
        }
        let sender = self.sender_of(link, header);
        if let Some(link) = self.links.get_mut(link) {
            link.reads_extensions |= header.mflags.has_extensions;
        }
        if let Some(sender) = sender {
            self.note_sender(sender, link, header);
        }
        match body {
            Body::Ping(gossip) => self.receive_ping(link, sender, header, Kind::Ping, gossip),
            Body::Pong(gossip) => self.receive_ping(link, sender, header, Kind::Pong, gossip),
            Body::Meet(gossip) => self.receive_ping(link, sender, header, Kind::Meet, gossip),
            Body::Fail(failed) => self.receive_fail(sender, header.sender, failed),
            other => {
                // Others are read from known nodes only, and not with this node's own id.
                if let Some(sender) = sender.filter(|id| !self.is_me(*id)) {
                    self.receive_from(sender, link, header, other);
                }
            }
        }
    }

    /// Frames that only known nodes may send.
    fn receive_from(&mut self, sender: NodeId, link: LinkId, header: &Header, body: Body) {
        match body {
            Body::Publish(publication) => self.effect(Effect::Deliver { publication, is_sharded: false }),
            Body::PublishShard(publication) => self.effect(Effect::Deliver { publication, is_sharded: true }),
            Body::FailoverAuthRequest => self.vote_if_right(sender, header),
            Body::FailoverAuthAck => self.count_vote(sender, header),
            Body::ManualFailoverStart => self.start_pause_for(sender, link),
            Body::Update(update) => self.receive_update(sender, &update),
            // The others were taken before; there are no modules.
            _ => {}
        }
    }

    /// The node that sent a frame, if it is known. An accepted link is bound to it.
    fn sender_of(&mut self, link: LinkId, header: &Header) -> Option<NodeId> {
        let bound = self.links.node(link);
        let is_known = |id: &NodeId| self.nodes.get(*id).is_some_and(|node| !node.is_in_handshake());
        if let Some(id) = bound.filter(is_known) {
            return Some(id);
        }
        let id = self.nodes.get(header.sender)?.id;
        if bound.is_none() && !self.is_me(id) {
            self.bind_link(link, id);
        }
        Some(id)
    }

    /// Takes a header's statements about its sender.
    fn note_sender(&mut self, sender: NodeId, link: LinkId, header: &Header) {
        let now_ms = self.now_ms();
        let reads_extensions = self.links.get(link).is_some_and(|link| link.reads_extensions);
        if self.is_me(sender) {
            return;
        }
        let Some(node) = self.nodes.get_mut(sender) else { return };
        node.flags.set(NodeFlags::EXTENSIONS, reads_extensions || node.has(NodeFlags::EXTENSIONS));
        let stated = [NodeFlags::LIGHT_PUBLISH, NodeFlags::LIGHT_MODULE, NodeFlags::PRIMARY_FAILED];
        for flag in stated {
            node.flags.set(flag, header.flags.contains(flag));
        }
        node.times.data_received = Some(now_ms);
        if node.is_in_handshake() {
            return;
        }
        // CLUSTER SLOTS leaves replicas without data out.
        self.version += u64::from((node.replication_offset == 0) != (header.offset == 0));
        node.replication_offset = header.offset;
        self.current_epoch = self.current_epoch.max(header.current_epoch);
        if header.replica_of.is_none() {
            self.note_epoch(sender, header.config_epoch);
        }
        if header.mflags.is_paused {
            self.note_paused_offset(sender, header.offset);
        }
    }

    /// A primary's epoch has become known.
    pub(crate) fn note_epoch(&mut self, id: NodeId, epoch: u64) {
        let Some(node) = self.nodes.get_mut(id).filter(|node| node.config_epoch < epoch) else { return };
        node.config_epoch = epoch;
        // An epoch may be ahead of what its owner calls the current one, if a frame was made by hand.
        self.current_epoch = self.current_epoch.max(epoch);
        self.save_synced();
        self.lose_election_to(id, epoch);
    }

    fn receive_ping(
        &mut self,
        link: LinkId,
        sender: Option<NodeId>,
        header: &Header,
        kind: Kind,
        gossip: Gossip,
    ) {
        if kind != Kind::Pong {
            self.note_own_address(link, kind);
            if kind == Kind::Meet {
                self.receive_meet(link, sender, header, &gossip);
            }
            self.send_ping(link, Kind::Pong);
        }
        let is_outbound = !link.is_inbound();
        if let Some(sender) = sender {
            self.note_met(sender);
        }
        if is_outbound && !self.check_identity(link, sender, header) {
            return;
        }
        // Frames from this node's own id come from itself, by a MEET of its own address, or from an impostor.
        let sender = sender.filter(|id| !self.is_me(*id));
        if let Some(sender) = sender {
            self.note_failover_flag(sender, header);
            if kind == Kind::Ping && self.update_address(sender, link, header) {
                self.save_and_update_state();
            }
        }
        if is_outbound && kind == Kind::Pong {
            self.note_pong(link);
        }
        if let Some(sender) = sender {
            self.read_configuration(sender, header, gossip);
        }
    }

    /// The other end of an accepted link has reached this node at the link's own address.
    fn note_own_address(&mut self, link: LinkId, kind: Kind) {
        let is_asked = kind == Kind::Meet || self.myself().address.is_none();
        let local = self.links.get(link).and_then(|link| link.local).map(Address::from);
        let Some(local) = local.filter(|_| is_asked && self.settings.announce_ip.is_none()) else { return };
        if self.myself().address.as_ref() != Some(&local) {
            self.log(Level::Notice, format!("IP address for this node updated to {local}"));
            self.nodes.myself_mut().address = Some(local);
            self.save();
        }
    }

    /// MEET: a handshake begins with a sender that is not known; one that is known does not know this node.
    fn receive_meet(&mut self, link: LinkId, sender: Option<NodeId>, header: &Header, gossip: &Gossip) {
        if let Some(sender) = sender {
            let Some(node) = self.nodes.get(sender) else { return };
            if let Some(outbound) = node.link.filter(|outbound| *outbound != link)
                && self.is_past_handshake_time(node)
            {
                let text = format!(
                    "Freeing outbound link to node {} after receiving a MEET packet from this known node",
                    self.called(sender)
                );
                self.log(Level::Notice, text);
                self.close_link(outbound);
            }
            return;
        }
        if self.links.node(link).is_none() && link.is_inbound() {
            let Some(at) = self.whereabouts(link, header) else { return };
            let reads = header.mflags.has_extensions;
            let flags = if reads { NodeFlags::EXTENSIONS } else { NodeFlags::NONE };
            if let Some(id) = self.add_in_handshake(at, flags) {
                self.bind_link(link, id);
                self.save();
            }
        }
        // From here on the sender is a node in handshake: what it knows helps where the handshake fails.
        self.read_gossip(self.links.node(link), gossip);
    }

    /// Where the sender of a frame is: at the address that it announces, or at the link's other end.
    fn whereabouts(&self, link: LinkId, header: &Header) -> Option<Whereabouts> {
        let peer = self.links.get(link)?.peer.map(Address::from);
        let address = header.address.clone().or(peer)?;
        let (tcp_port, tls_port) = self.in_order_of_bus(header.port, header.other_port);
        Some(Whereabouts { address, tcp_port, tls_port, bus_port: header.bus_port })
    }

    /// A node that was sent MEET has answered.
    fn note_met(&mut self, sender: NodeId) {
        if let Some(node) = self.nodes.get_mut(sender)
            && node.has(NodeFlags::MEET)
        {
            node.flags.set(NodeFlags::MEET, false);
            let text = format!("Successfully completed handshake with {}", self.called(sender));
            self.log(Level::Notice, text);
        }
    }

    /// Compares the sender with the node that a link was opened to, and returns whether the frame is read further.
    fn check_identity(&mut self, link: LinkId, sender: Option<NodeId>, header: &Header) -> bool {
        let Some(id) = self.links.node(link) else { return false };
        let Some(node) = self.nodes.get(id) else { return false };
        if node.is_in_handshake() {
            if let Some(sender) = sender.filter(|sender| *sender != id) {
                self.log_with(Level::Verbose, |cluster| {
                    format!(
                        "Handshake: we already know node {}, updating the address if needed.",
                        cluster.called(sender)
                    )
                });
                if !self.is_me(sender) && self.update_address(sender, link, header) {
                    self.save_and_update_state();
                }
                self.remove_node(id);
                return false;
            }
            self.complete_handshake(id, header.sender, header.flags);
        } else if id != header.sender {
            self.lost_identity(link, id);
            return false;
        }
        true
    }

    /// Whether a replica competes is known to the others by its latest frame.
    fn note_failover_flag(&mut self, sender: NodeId, header: &Header) {
        let flag = NodeFlags::NO_FAILOVER;
        if let Some(node) = self.nodes.get_mut(sender)
            && node.has(flag) != header.flags.contains(flag)
        {
            node.flags.set(flag, header.flags.contains(flag));
            self.save();
        }
    }

    /// Takes another address or port of a sender. A frame on the link that this node opened says nothing new.
    fn update_address(&mut self, sender: NodeId, link: LinkId, header: &Header) -> bool {
        let Some(at) = self.whereabouts(link, header) else { return false };
        let Some(node) = self.nodes.get(sender) else { return false };
        let outbound = node.link;
        if outbound == Some(link) || node.is_in_handshake() || at.is_of(node) {
            return false;
        }
        if let Some(outbound) = outbound {
            self.close_link(outbound);
        }
        self.move_node(sender, at);
        true
    }

    /// Notes where a node is now, and replicates from there if it is the primary.
    pub(crate) fn move_node(&mut self, id: NodeId, to: Whereabouts) {
        let tls = self.settings.tls_cluster;
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.place_at(to);
        node.flags.set(NodeFlags::NO_ADDRESS, false);
        let at = format!("{}:{}", node.address_text(), node.port(tls));
        let text = format!("Address updated for node {}, now {at}", self.called(id));
        self.log(Level::Notice, text);
        if self.myself().is_replica() && self.myself().primary == Some(id) {
            self.announce_primary(false);
        }
    }

    fn note_pong(&mut self, link: LinkId) {
        let now_ms = self.now_ms();
        let Some(id) = self.links.node(link) else { return };
        if let Some(node) = self.nodes.get_mut(id) {
            node.times.pong_received = Some(now_ms);
            node.times.ping_sent = None;
            self.mark_reachable(id);
        }
    }

    fn receive_fail(&mut self, sender: Option<NodeId>, claimed: NodeId, failed: NodeId) {
        let Some(sender) = sender else {
            let text = format!("Ignoring FAIL message from unknown node {claimed} about {failed}");
            return self.log(Level::Notice, text);
        };
        let is_news = |node: &crate::node::Node| !node.has(NodeFlags::FAILED | NodeFlags::MYSELF);
        if self.nodes.get(failed).is_some_and(is_news) {
            let text =
                format!("FAIL message received from {} about {}", self.called(sender), self.called(failed));
            self.log(Level::Notice, text);
            self.mark_failed(failed);
        }
    }
}

impl Whereabouts {
    /// The node is known to be there.
    pub(crate) fn is_of(&self, node: &crate::node::Node) -> bool {
        let endpoints = &node.endpoints;
        node.address.as_ref() == Some(&self.address)
            && (endpoints.tcp_port, endpoints.tls_port) == (self.tcp_port, self.tls_port)
            && endpoints.bus_port == self.bus_port
    }
}
