//! Anything can come over the bus: frames of senders that are known, unknown, in handshake or this node
//! itself, about any of these, with any epoch, flag and slot, on links of any kind. Nothing of it may stop the node or
//! break its tables.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{IpAddr, Ipv4Addr};

use cluster::{
    BusAction, Cluster, Facts, Failover, Input, LinkId, NODES_MAX, Now, Settings, SlotState, TICK_MS,
};
use structures::random::Random;
use wire::cluster_bus::{
    Address, Body, EPOCH_MAX, Extensions, Forgotten, Frame, Gossip, GossipEntry, Header, Light, MessageFlags,
    NodeFlags, NodeId, Publication, SLOTS, SlotSet, Update,
};

fn id(random: &mut Random) -> NodeId {
    NodeId::from_random(std::array::from_fn(|_| random.below(256) as u8))
}

struct Attack {
    random: Random,
    cluster: Cluster,
    now_ms: u64,
    links: Vec<LinkId>,
    accepted: u64,
    /// Ids that were made up.
    invented: Vec<NodeId>,
}

impl Attack {
    fn new(seed: u64) -> Attack {
        let mut random = Random::new(seed);
        let settings = Settings { node_timeout_ms: 500, ..Settings::default() };
        let now = Now { monotonic_ms: 0, unix_ms: 1_700_000_000_000 };
        let cluster = Cluster::new(settings, Random::new(seed), now);
        let invented = (0..8).map(|_| id(&mut random)).collect();
        Attack { random, cluster, now_ms: 0, links: Vec::new(), accepted: 0, invented }
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.now_ms, unix_ms: 1_700_000_000_000 + self.now_ms }
    }

    /// A node that is known, in handshake, this one, or none.
    fn any_id(&mut self) -> NodeId {
        let known: Vec<NodeId> = self.cluster.nodes().map(|node| node.id()).collect();
        match self.random.below(8) {
            0 => id(&mut self.random),
            1..=3 => self.invented[self.random.index(self.invented.len())],
            _ => known[self.random.index(known.len())],
        }
    }

    fn epoch(&mut self) -> u64 {
        let current = self.cluster.current_epoch();
        match self.random.below(100) {
            0 => EPOCH_MAX,
            1..=30 => current,
            31..=60 => self.random.below(current + 1),
            _ => (current + self.random.below(2)).min(EPOCH_MAX),
        }
    }

    fn slots(&mut self) -> SlotSet {
        match self.random.below(4) {
            0 => SlotSet::new(),
            1 => SlotSet::full(),
            2 => self.cluster.myself().slots().clone(),
            _ => {
                let first = self.random.below(u64::from(SLOTS)) as u16;
                (first..SLOTS).take(self.random.index(50)).collect()
            }
        }
    }

    fn address(&mut self) -> Option<Address> {
        match self.random.below(4) {
            0 => None,
            1 => Address::parse("some-name"),
            n => Some(Address::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, n as u8)))),
        }
    }

    fn flags(&mut self) -> NodeFlags {
        NodeFlags::from_bits(self.random.next_u64() as u16)
    }

    fn header(&mut self) -> Header {
        Header {
            sender: self.any_id(),
            port: self.random.below(3) as u16,
            other_port: self.random.below(3) as u16,
            bus_port: self.random.below(3) as u16,
            current_epoch: self.epoch(),
            config_epoch: self.epoch(),
            offset: self.random.below(3).wrapping_sub(1),
            slots: self.slots(),
            replica_of: (self.random.below(2) == 0).then(|| self.any_id()),
            address: self.address(),
            flags: self.flags(),
            is_state_ok: self.random.below(2) == 0,
            mflags: MessageFlags {
                is_paused: self.random.below(2) == 0,
                forces_vote: self.random.below(2) == 0,
                has_extensions: self.random.below(2) == 0,
            },
        }
    }

    fn gossip(&mut self) -> Gossip {
        let mut entries = Vec::new();
        for _ in 0..self.random.below(6) {
            entries.push(GossipEntry {
                id: self.any_id(),
                ping_sent_s: self.random.next_u64() as u32,
                pong_received_s: self.random.next_u64() as u32,
                address: self.address(),
                port: self.random.below(3) as u16,
                other_port: 0,
                bus_port: self.random.below(3) as u16,
                flags: self.flags(),
            });
        }
        let mut extensions = Extensions::default();
        if self.random.below(2) == 0 {
            extensions.shard_id = Some(self.any_id());
            for _ in 0..self.random.below(3) {
                let ttl_s = if self.random.below(2) == 0 { u64::MAX } else { self.random.below(3) };
                extensions.forgotten.push(Forgotten { id: self.any_id(), ttl_s });
            }
        }
        Gossip { entries, extensions }
    }

    fn frame(&mut self) -> Frame {
        let publication = Publication { channel: b"c".to_vec(), message: b"m".to_vec() };
        let body = match self.random.below(16) {
            0..=3 => Body::Ping(self.gossip()),
            4..=7 => Body::Pong(self.gossip()),
            8..=9 => Body::Meet(self.gossip()),
            10 => Body::Fail(self.any_id()),
            11 => Body::FailoverAuthRequest,
            12 => Body::FailoverAuthAck,
            13 => {
                let (id, config_epoch, slots) = (self.any_id(), self.epoch(), self.slots());
                Body::Update(Update { id, config_epoch, slots })
            }
            14 => Body::ManualFailoverStart,
            _ if self.random.below(2) == 0 => return Frame::Light(Light::Publish(publication)),
            _ => Body::PublishShard(publication),
        };
        Frame::Full(Box::new(self.header()), body)
    }

    fn input(&mut self) -> Input {
        let link = match self.links.len() {
            0 => LinkId::accepted(0),
            links => self.links[self.random.index(links)],
        };
        match self.random.below(40) {
            0 => {
                self.accepted += 1;
                let link = LinkId::accepted(self.accepted);
                self.links.push(link);
                let ip = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
                Input::LinkAccepted { link, peer: ip(2), local: ip(1) }
            }
            1 => {
                self.links.retain(|other| *other != link);
                Input::LinkClosed(link)
            }
            2..=3 => Input::LinkOpened(link),
            4..=6 => {
                self.now_ms += TICK_MS;
                Input::Tick
            }
            7 => Input::Facts(Facts { replication_offset: self.random.below(3), data_age_ms: 0 }),
            _ => Input::Frame(link, self.frame()),
        }
    }

    /// What operators do meanwhile, whether it is refused or not.
    fn command(&mut self) {
        let (now, node) = (self.now(), self.any_id());
        let slot = self.random.below(u64::from(SLOTS)) as u16;
        let cluster = &mut self.cluster;
        match self.random.below(12) {
            0 => drop(cluster.add_slots(&[(slot, slot)])),
            1 => drop(cluster.delete_slots(&[(slot, slot)])),
            2 => drop(cluster.set_slot(slot, SlotState::Importing(node.as_bytes()), 0, false)),
            3 => drop(cluster.set_slot(slot, SlotState::Migrating(node.as_bytes()), 0, false)),
            4 => drop(cluster.set_slot(slot, SlotState::Node(node.as_bytes()), 0, false)),
            5 => drop(cluster.forget(node.as_bytes(), "", now)),
            6 => drop(cluster.replicate(node.as_bytes(), true, now)),
            7 => drop(cluster.failover(Failover::Force, "", false, now)),
            8 => drop(cluster.failover(Failover::Agreed, "", false, now)),
            9 => drop(cluster.meet("10.0.0.2", 1, 1, "", now)),
            10 => drop(cluster.flush_slots(true)),
            _ => cluster.replicate_no_one("", now),
        }
    }

    fn step(&mut self) {
        let input = self.input();
        self.cluster.step(input, self.now());
        if self.random.below(50) == 0 {
            self.command();
        }
        if self.random.below(3) == 0 {
            for action in self.cluster.end_turn(self.now()) {
                match action {
                    BusAction::Connect { link, .. } => self.links.push(link),
                    BusAction::Close(link) => self.links.retain(|other| *other != link),
                    BusAction::Send(..) | BusAction::Bound(_) => {}
                    BusAction::Save { text, .. } => {
                        let seed = self.random.next_u64();
                        let random = Random::new(seed);
                        Cluster::load(text.as_bytes(), Settings::default(), random, self.now()).unwrap();
                    }
                }
            }
        }
        self.cluster.take_effects();
    }
}

#[test]
fn no_frame_breaks_a_node() {
    for seed in 1..=4 {
        let mut attack = Attack::new(seed);
        let mut known = 0;
        for step in 0..5_000 {
            attack.step();
            known = known.max(attack.cluster.node_count());
            if step % 20 == 0 {
                attack.cluster.check();
            }
            if step % 1_000 == 999 {
                let now = attack.now();
                let _ = attack.cluster.reset(step % 2_000 == 1_999, true, "", now);
                attack.cluster.check();
            }
        }
        assert!(known > 3, "nothing was known");
    }
}

/// A frame that forgets its sender stopped Valkey 9.1.2.
#[test]
fn a_sender_that_is_to_be_forgotten_stays() {
    let mut attack = Attack::new(1);
    let now = attack.now();
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    let link = LinkId::accepted(1);
    attack.cluster.step(Input::LinkAccepted { link, peer: ip, local: ip }, now);
    let (sender, victim) = (attack.invented[0], attack.invented[1]);
    attack.cluster.meet("10.0.0.2", 1, 2, "", now).unwrap();
    attack.cluster.step(Input::Tick, now);
    let actions = attack.cluster.end_turn(now);
    let connect = actions.iter().find_map(|action| match action {
        BusAction::Connect { link, .. } => Some(*link),
        _ => None,
    });
    let mut header = attack.header();
    header.sender = sender;
    (header.current_epoch, header.config_epoch) = (1, 1);
    header.replica_of = None;
    header.mflags.has_extensions = true;
    let about = |id| GossipEntry {
        id,
        ping_sent_s: 0,
        pong_received_s: 0,
        address: Address::parse("10.0.0.3"),
        port: 1,
        other_port: 0,
        bus_port: 2,
        flags: NodeFlags::PRIMARY,
    };
    let pong = |forgotten: &[NodeId]| {
        let forgotten = forgotten.iter().map(|id| Forgotten { id: *id, ttl_s: 60 }).collect();
        let extensions = Extensions { forgotten, ..Extensions::default() };
        Body::Pong(Gossip { entries: vec![about(victim)], extensions })
    };
    let outbound = connect.unwrap();
    attack.cluster.step(Input::LinkOpened(outbound), now);
    attack.cluster.step(Input::Frame(outbound, Frame::Full(Box::new(header.clone()), pong(&[]))), now);
    attack.cluster.step(Input::Frame(outbound, Frame::Full(Box::new(header.clone()), pong(&[]))), now);
    assert!(attack.cluster.node(sender).is_some() && attack.cluster.node(victim).is_some());
    let frame = Frame::Full(Box::new(header), pong(&[sender, attack.cluster.my_id(), victim]));
    attack.cluster.step(Input::Frame(outbound, frame), now);
    assert!(attack.cluster.node(sender).is_some() && attack.cluster.node(victim).is_none());
    attack.cluster.check();
}

#[test]
fn the_table_of_nodes_has_a_limit() {
    let mut attack = Attack::new(2);
    let mut now = attack.now();
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    let mut header = attack.header();
    header.slots = SlotSet::new();
    (header.current_epoch, header.config_epoch) = (1, 1);
    for n in 0..NODES_MAX as u64 + 100 {
        let link = LinkId::accepted(n);
        attack.cluster.step(Input::LinkAccepted { link, peer: ip, local: ip }, now);
        header.sender = id(&mut attack.random);
        let frame = Frame::Full(Box::new(header.clone()), Body::Meet(Gossip::default()));
        attack.cluster.step(Input::Frame(link, frame), now);
    }
    assert_eq!(attack.cluster.node_count(), NODES_MAX);
    // None of them completes its handshake.
    now.monotonic_ms += 1_001;
    attack.cluster.step(Input::Tick, now);
    assert_eq!(attack.cluster.node_count(), 1);
    attack.cluster.check();
}
