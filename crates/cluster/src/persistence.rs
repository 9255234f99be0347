//! What a node keeps of its cluster, and the lines of CLUSTER NODES.

use std::fmt::Display;

use structures::random::Random;
use wire::cluster_bus::NodeFlags;
use wire::nodes_conf::{self, Direction, Fault, FaultKind, NodeLine, NodeRow, NodesConf, OpenSlot};

use crate::action::{Level, Now};
use crate::cluster::Cluster;
use crate::node::{Endpoints, Node};
use crate::nodes::NODES_MAX;
use crate::settings::Settings;

impl Cluster {
    /// Starts with the content of nodes.conf. The generator's seed must differ from that of any other node.
    ///
    /// # Errors
    ///
    /// Fails if the file is none that a server writes, or has more than [`NODES_MAX`] nodes.
    pub fn load(text: &[u8], settings: Settings, random: Random, now: Now) -> Result<Cluster, Fault> {
        let conf = nodes_conf::read(text, settings.tls_cluster)?;
        if conf.nodes.len() > NODES_MAX {
            return Err(Fault { line: 0, kind: FaultKind::TooManyNodes });
        }
        let no_myself = Fault { line: 0, kind: FaultKind::NoMyself };
        let is_myself = |row: &&NodeRow| row.flags.contains(NodeFlags::MYSELF);
        let myself = conf.nodes.iter().find(is_myself).ok_or(no_myself)?;
        let mut random = random;
        let node = node_of(myself, &mut random, now);
        let mut cluster = Cluster::with(node, settings, random, now);
        for row in conf.nodes.iter().filter(|row| row.id != myself.id) {
            let node = node_of(row, &mut cluster.random, now);
            cluster.nodes.insert(node);
        }
        cluster.take_rows(&conf);
        let id = cluster.my_id();
        cluster.log(Level::Notice, format!("Node configuration loaded, I'm {id}"));
        Ok(cluster)
    }

    /// Takes what connects rows: primaries, slots and shards.
    fn take_rows(&mut self, conf: &NodesConf) {
        for row in &conf.nodes {
            if let Some(primary) = row.replica_of.filter(|primary| *primary != row.id) {
                self.nodes.attach(row.id, primary);
            }
        }
        for row in &conf.nodes {
            for slot in row.slots.iter() {
                self.add_slot(row.id, slot);
            }
            for open in row.open_slots.iter().filter(|open| self.nodes.get(open.node).is_some()) {
                match open.direction {
                    Direction::Migrating => self.slots.migrating.insert(open.slot, open.node),
                    Direction::Importing => self.slots.importing.insert(open.slot, open.node),
                };
            }
            self.follow_shard_of_primary(row);
        }
        self.current_epoch = conf.current_epoch;
        self.last_vote_epoch = conf.last_vote_epoch;
    }

    /// A replica is in its primary's shard, whatever the file says.
    fn follow_shard_of_primary(&mut self, row: &NodeRow) {
        let Some(primary) = self.nodes.get(row.id).and_then(|node| node.primary) else { return };
        let Some(shard_id) = self.nodes.get(primary).map(|node| node.shard_id) else { return };
        if row.shard_id.is_some_and(|written| written != shard_id) {
            let text = format!(
                "Node {} has a different shard id ({}) than its primary {primary} ({shard_id}). Updating replica's \
                 shard id to match primary's shard id.",
                row.id,
                row.shard_id.map(|written| written.to_string()).unwrap_or_default()
            );
            self.log(Level::Notice, text);
        }
        if let Some(node) = self.nodes.get_mut(row.id) {
            node.shard_id = shard_id;
        }
    }

    /// The text of nodes.conf.
    pub(crate) fn file_text(&self) -> String {
        let known = self.nodes().filter(|node| !node.is_in_handshake());
        let conf = NodesConf {
            nodes: known.map(|node| self.row(node)).collect(),
            current_epoch: self.current_epoch,
            last_vote_epoch: self.last_vote_epoch,
        };
        conf.text()
    }

    fn row(&self, node: &Node) -> NodeRow {
        let endpoints = node.endpoints.clone();
        NodeRow {
            id: node.id,
            address: node.address.clone(),
            tcp_port: endpoints.tcp_port,
            tls_port: endpoints.tls_port,
            bus_port: endpoints.bus_port,
            hostname: endpoints.hostname,
            nodename: endpoints.nodename,
            shard_id: Some(node.shard_id),
            client_ipv4: endpoints.client_ipv4,
            client_ipv6: endpoints.client_ipv6.clone(),
            client_tcp_port: endpoints.client_tcp_port,
            client_tls_port: endpoints.client_tls_port,
            availability_zone: endpoints.availability_zone,
            flags: node.flags,
            replica_of: node.primary,
            ping_sent_ms: self.now.date_ms(node.times.ping_sent),
            pong_received_ms: self.now.date_ms(node.times.pong_received),
            config_epoch: self.epoch_of(node),
            is_connected: node.is_linked(),
            slots: node.slots.clone(),
            open_slots: self.open_slots_of(node),
        }
    }

    fn open_slots_of(&self, node: &Node) -> Vec<OpenSlot> {
        if !node.is_myself() {
            return Vec::new();
        }
        let open = |direction| move |(&slot, &node)| OpenSlot { slot, direction, node };
        let migrating = self.slots.migrating.iter().map(open(Direction::Migrating));
        let mut all: Vec<OpenSlot> = migrating.collect();
        let importing =
            self.slots.importing.iter().filter(|(slot, _)| !self.slots.migrating.contains_key(slot));
        all.extend(importing.map(open(Direction::Importing)));
        all.sort_by_key(|open| open.slot);
        all
    }

    /// Appends a node's line of CLUSTER NODES, without its end: with the address and port that the reader of the line
    /// reaches the node at.
    pub fn append_line(&self, node: &Node, host: &dyn Display, port: u16, out: &mut String) {
        let line = NodeLine {
            id: node.id,
            host,
            port,
            bus_port: node.endpoints.bus_port,
            hostname: &node.endpoints.hostname,
            flags: node.flags,
            replica_of: node.primary,
            ping_sent_ms: self.now.date_ms(node.times.ping_sent),
            pong_received_ms: self.now.date_ms(node.times.pong_received),
            epoch: self.epoch_of(node),
            is_connected: node.is_linked(),
            slots: &node.slots,
            open_slots: &self.open_slots_of(node),
        };
        line.append_to(out);
    }
}

/// The node of a row.
fn node_of(row: &NodeRow, random: &mut Random, now: Now) -> Node {
    let now_ms = now.monotonic_ms;
    let shard_id = row.shard_id.unwrap_or_else(|| crate::cluster::random_id(random));
    // What passes does not outlast a restart, and this node reaches itself.
    let passing = NodeFlags::HANDSHAKE | NodeFlags::MEET | NodeFlags::MIGRATE_TO;
    let of_others = NodeFlags::FAILED | NodeFlags::POSSIBLY_FAILED | NodeFlags::NO_ADDRESS;
    let is_myself = row.flags.contains(NodeFlags::MYSELF);
    let flags = row.flags - passing - if is_myself { of_others } else { NodeFlags::NONE };
    let mut node = Node::new(row.id, shard_id, flags, now_ms);
    node.config_epoch = row.config_epoch;
    node.address.clone_from(&row.address);
    node.endpoints = Endpoints {
        tcp_port: row.tcp_port,
        tls_port: row.tls_port,
        bus_port: row.bus_port,
        client_tcp_port: row.client_tcp_port,
        client_tls_port: row.client_tls_port,
        client_ipv4: row.client_ipv4,
        client_ipv6: row.client_ipv6.clone(),
        hostname: row.hostname.clone(),
        nodename: row.nodename.clone(),
        availability_zone: row.availability_zone.clone(),
    };
    node.times.failed = node.is_failed().then_some(now_ms);
    node.times.ping_sent = (row.ping_sent_ms != 0).then_some(now_ms);
    node.times.pong_received = (row.pong_received_ms != 0).then_some(now_ms);
    node
}
