//! This server as a node of a cluster: its view of the cluster, figures by slot, and the addresses by which it sends clients to
//! other nodes.

use crate::clock::Reading;
use crate::config::ClusterEndpointType;
use crate::session::client::ConnectionFigures;
use cluster::{Cluster, JobId, Node, Now};
use structures::key_slot::SLOTS;
use wire::cluster_bus::Kind;
use wire::nodes_conf::{Direction, OpenSlot};

/// See the module's documentation.
pub struct ClusterNode {
    /// All nodes and slots as this node knows them.
    pub view: Cluster,
    /// Bytes on the bus.
    pub traffic: BusTraffic,
    /// Options may have changed since the bus thread was last configured.
    pub is_reconfigured: bool,
    /// One for each slot; empty unless `cluster-slot-stats-enabled`.
    figures: Vec<SlotFigures>,
    /// Of exports with a connection.
    unsent_exports: Vec<(JobId, u64)>,
    /// Memory of what exports have to send.
    export_memory_bytes: u64,
}

/// Bytes of all frames of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusTraffic {
    /// Of all frames sent.
    pub sent: u64,
    /// Of all frames received.
    pub received: u64,
    /// Of published messages sent.
    pub messages_sent: u64,
    /// Of published messages received.
    pub messages_received: u64,
}

impl BusTraffic {
    /// Counts a frame that is sent.
    pub fn note_sent(&mut self, kind: Kind, bytes: u64) {
        self.sent += bytes;
        self.messages_sent += if is_message(kind) { bytes } else { 0 };
    }

    /// Counts a frame that has come; its type may be unknown.
    pub fn note_received(&mut self, kind: Option<Kind>, bytes: u64) {
        self.received += bytes;
        self.messages_received += if kind.is_some_and(is_message) { bytes } else { 0 };
    }
}

/// The frame is a message for subscribers.
fn is_message(kind: Kind) -> bool {
    matches!(kind, Kind::Publish | Kind::PublishShard)
}

/// What a slot's commands have used since the slot came to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotFigures {
    /// Time of commands.
    pub cpu_ns: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies, and of commands and transactions in the replication stream, for each replica.
    pub bytes_out: u64,
}

/// Returns the clocks as the cluster takes them.
pub fn now(reading: Reading) -> Now {
    let unix_ms = u64::try_from(reading.unix_us / 1000).unwrap_or_default();
    Now { monotonic_ms: reading.monotonic_us / 1000, unix_ms }
}

impl ClusterNode {
    /// Creates a node with this view.
    pub fn new(view: Cluster) -> ClusterNode {
        ClusterNode {
            view,
            traffic: BusTraffic::default(),
            is_reconfigured: false,
            figures: Vec::new(),
            unsent_exports: Vec::new(),
            export_memory_bytes: 0,
        }
    }

    /// Returns whether SETSLOT has a slot in migrating or importing state.
    pub fn has_open_slots(&self) -> bool {
        self.view.migrating_slots().next().is_some() || self.view.importing_slots().next().is_some()
    }

    /// Returns the slots that SETSLOT has left open, as snapshots for replicas have them.
    pub fn open_slots(&self) -> Vec<OpenSlot> {
        let open = |direction| move |(slot, node)| OpenSlot { slot, direction, node };
        let importing = self.view.importing_slots().map(open(Direction::Importing));
        importing.chain(self.view.migrating_slots().map(open(Direction::Migrating))).collect()
    }

    /// Takes the open slots of the primary.
    pub fn set_open_slots(&mut self, open_slots: &[OpenSlot]) {
        let of = |open: &OpenSlot| (open.slot, open.direction == Direction::Importing, open.node);
        self.view.set_open_slots(&open_slots.iter().map(of).collect::<Vec<_>>());
    }

    /// Publishes what the exports that have a connection have to send, and its memory.
    pub fn publish_unsent_exports(&mut self, unsent: Vec<(JobId, u64)>, memory_bytes: u64) {
        (self.unsent_exports, self.export_memory_bytes) = (unsent, memory_bytes);
    }

    /// Returns the memory of what exports have to send.
    pub fn export_memory_bytes(&self) -> u64 {
        self.export_memory_bytes
    }

    /// Returns the unsent bytes of the exports that have a connection, as of the turn's end.
    pub fn unsent_exports(&self) -> &[(JobId, u64)] {
        &self.unsent_exports
    }

    /// Returns the unsent bytes of an export.
    pub fn unsent_export_bytes(&self, id: JobId) -> u64 {
        self.unsent_exports.iter().find(|(job, _)| *job == id).map_or(0, |(_, bytes)| *bytes)
    }

    /// Returns the figures of a slot.
    pub fn figures(&self, slot: u16) -> SlotFigures {
        self.figures.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// Returns the figures of a slot, to be added to.
    pub fn figures_mut(&mut self, slot: u16) -> &mut SlotFigures {
        if self.figures.is_empty() {
            self.figures = vec![SlotFigures::default(); SLOTS];
        }
        &mut self.figures[usize::from(slot) % SLOTS]
    }

    /// Forgets what has been counted.
    pub fn reset_statistics(&mut self) {
        self.view.reset_statistics();
        self.traffic = BusTraffic::default();
        self.forget_figures();
    }

    /// Forgets the figures of all slots.
    pub fn forget_figures(&mut self) {
        self.figures = Vec::new();
    }

    /// Forgets the figures of a slot.
    pub fn forget_figures_of(&mut self, slot: u16) {
        if let Some(figures) = self.figures.get_mut(usize::from(slot)) {
            *figures = SlotFigures::default();
        }
    }

    /// Returns the lines of CLUSTER INFO.
    pub fn info_lines(&self) -> Vec<(String, String)> {
        let info = self.view.info();
        let mut lines = vec![("cluster_state".to_owned(), if info.is_ok { "ok" } else { "fail" }.to_owned())];
        let numbers = [
            ("slots_assigned", info.slots_assigned as u64),
            ("slots_ok", info.slots_ok as u64),
            ("slots_pfail", info.slots_pfail as u64),
            ("slots_fail", info.slots_fail as u64),
            ("nodes_pfail", info.nodes_pfail as u64),
            ("nodes_fail", info.nodes_fail as u64),
            ("voting_nodes_pfail", info.voting_nodes_pfail as u64),
            ("voting_nodes_fail", info.voting_nodes_fail as u64),
            ("known_nodes", info.known_nodes as u64),
            ("size", info.size as u64),
            ("current_epoch", info.current_epoch),
            ("my_epoch", info.my_epoch),
        ];
        lines.extend(numbers.map(|(name, number)| (format!("cluster_{name}"), number.to_string())));
        for (direction, counts) in [("sent", &info.sent), ("received", &info.received)] {
            for (kind, count) in counts.iter().filter(|(_, count)| *count > 0) {
                let name = format!("cluster_stats_messages_{}_{direction}", kind.name());
                lines.push((name, count.to_string()));
            }
            let sum: u64 = counts.iter().map(|(_, count)| count).sum();
            lines.push((format!("cluster_stats_messages_{direction}"), sum.to_string()));
        }
        let BusTraffic { sent, received, messages_sent, messages_received } = self.traffic;
        let bytes = [
            ("bytes_sent", sent),
            ("bytes_received", received),
            ("pubsub_bytes_sent", messages_sent),
            ("pubsub_bytes_received", messages_received),
            ("module_bytes_sent", 0),
            ("module_bytes_received", 0),
        ];
        lines.extend(bytes.map(|(name, bytes)| (format!("cluster_stats_{name}"), bytes.to_string())));
        let exceeded = info.links_over_limit.to_string();
        lines.push(("total_cluster_links_buffer_limit_exceeded".to_owned(), exceeded));
        lines
    }
}

/// How a client reaches a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address or host name; `None`: the client uses the address by which it has reached this node.
    pub host: Option<String>,
    /// `host` is an address.
    pub is_address: bool,
    /// Port, for TLS if the client uses TLS.
    pub port: u16,
    /// The address for clients that use the client's version of the internet protocol.
    pub address: String,
}

impl Endpoint {
    /// Returns the endpoint of a node for the client of this connection.
    pub fn of(node: &Node, kind: ClusterEndpointType, seen_by: &ConnectionFigures) -> Endpoint {
        let endpoints = node.endpoints();
        let is_ipv6 = seen_by.local_address.matches(':').count() > 1;
        let announced = match is_ipv6 {
            true => endpoints.client_ipv6.as_ref().map(|address| address.to_string()),
            false => endpoints.client_ipv4.map(|address| address.to_string()),
        };
        let address = announced.or_else(|| node.address().map(ToString::to_string)).unwrap_or_default();
        let host = match kind {
            ClusterEndpointType::Ip => Some(address.clone()),
            ClusterEndpointType::Hostname if endpoints.hostname.is_empty() => Some("?".to_owned()),
            ClusterEndpointType::Hostname => Some(endpoints.hostname.to_string()),
            ClusterEndpointType::UnknownEndpoint => None,
        };
        let is_address = kind == ClusterEndpointType::Ip;
        Endpoint { host, is_address, port: Self::port_of(node, seen_by.is_tls), address }
    }

    /// Returns the port for clients.
    pub fn port_of(node: &Node, is_tls: bool) -> u16 {
        let endpoints = node.endpoints();
        let (own, client) = match is_tls {
            true => (endpoints.tls_port, endpoints.client_tls_port),
            false => (endpoints.tcp_port, endpoints.client_tcp_port),
        };
        if client == 0 { own } else { client }
    }

    /// Returns the endpoint as MOVED and ASK name it.
    pub fn redirection(&self) -> String {
        format!("{}:{}", self.host.as_deref().unwrap_or_default(), self.port)
    }
}
