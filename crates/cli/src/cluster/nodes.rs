//! The nodes of a cluster, each with the state that it reports of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use client::{info_field, printable};
use wire::nodes_conf::BUS_PORT_OFFSET;
use wire::response::Value;

use super::line::{Line, lines};
use super::{Access, Level, print};
use crate::Failure;
use crate::session::{Session, SessionError};

/// A node.
pub struct Node {
    pub session: Session,
    pub id: String,
    pub host: String,
    pub port: u16,
    /// Its port for other nodes, if that is not the one that follows from `port`.
    pub bus_port: Option<u16>,
    /// Its address as other nodes know it.
    address: (String, u16),
    pub flags: Vec<String>,
    /// The id of its primary, if it is a replica.
    pub replicates: Option<String>,
    pub slots: BTreeSet<usize>,
    /// Slots that are migrated from this node, with the node that gets them.
    pub migrating: BTreeMap<usize, String>,
    /// Slots that are imported to this node, with the node that has them.
    pub importing: BTreeMap<usize, String>,
    /// Its configuration epoch.
    pub epoch: u64,
    /// Whether it has answered.
    pub is_reachable: bool,
    databases: Option<u32>,
    /// The database that its connection has selected.
    database: u32,
}

/// Why a node has not done what a command asks for.
#[derive(Debug)]
pub enum NodeError {
    /// The text of its error.
    Refused(String),
    Lost(SessionError),
}

/// What becomes of nodes that cannot be reached.
#[derive(Clone, Copy, PartialEq)]
pub enum Unreachable {
    Skipped,
    /// They are part of the cluster as other nodes see them.
    Kept,
}

pub struct Cluster {
    /// The node of the command line, then the nodes that it lists.
    pub nodes: Vec<Node>,
    pub unreachable_primaries: usize,
}

fn malformed() -> Failure {
    Failure::Reply("Error: invalid CLUSTER NODES reply".to_owned())
}

/// Splits the lines of a node's list of nodes into its own and the others.
fn own_and_others(session: &mut Session) -> Result<(Line, Vec<Line>), Failure> {
    let (own, others): (Vec<Line>, Vec<Line>) =
        lines(session)?.into_iter().partition(|line| line.has_flag("myself"));
    Ok((own.into_iter().next().ok_or_else(malformed)?, others))
}

/// Prints why a node is not accepted.
pub fn print_rejection(host: &str, port: u16, reason: &str) -> Failure {
    print(Level::Error, format!("[ERR] Node {host}:{port} {}", printable(reason)));
    Failure::Reported
}

impl Node {
    fn new(line: Line, session: Session, host: &str, port: u16, is_reachable: bool) -> Node {
        let bus_port =
            line.bus_port.filter(|bus| port.checked_add(BUS_PORT_OFFSET) != Some(*bus) && *bus != 0);
        Node {
            session,
            id: line.id,
            host: host.to_owned(),
            port,
            bus_port,
            address: (host.to_owned(), port),
            flags: line.flags,
            replicates: line.primary,
            slots: line.slots,
            migrating: line.migrating,
            importing: line.importing,
            epoch: line.epoch,
            is_reachable,
            databases: None,
            database: 0,
        }
    }

    /// Connects to a node and queries its own state; also returns what it knows of other nodes. Prints why that fails.
    pub fn join(access: &Access, host: &str, port: u16) -> Result<(Node, Vec<Line>), Failure> {
        let mut session = access.connect(host, port)?;
        let reply = session.request(&["INFO"])?;
        let info = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if info_field(&info, "cluster_enabled") != Some("1") {
            let reason = if reply.is_error() { &info } else { "is not configured as a cluster node." };
            return Err(print_rejection(host, port, reason));
        }
        let (own, others) = own_and_others(&mut session)?;
        Ok((Node::new(own, session, host, port, true), others))
    }

    fn query(access: &Access, host: &str, port: u16) -> Result<(Node, Vec<Line>), Failure> {
        let mut session = access.connect(host, port)?;
        let (own, others) = own_and_others(&mut session)?;
        Ok((Node::new(own, session, host, port, true), others))
    }

    /// Sends a command and returns its reply.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, NodeError> {
        match self.session.request(args) {
            Ok(Value::Error(text)) => Err(NodeError::Refused(String::from_utf8_lossy(&text).into_owned())),
            Ok(reply) => Ok(reply),
            Err(error) => {
                // The next command connects again, and replies of this one are not taken for its.
                self.session.disconnect();
                self.database = 0;
                Err(NodeError::Lost(error))
            }
        }
    }

    /// As [`Self::command`]; prints an error.
    pub fn must<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, Failure> {
        self.command(args).map_err(|error| self.report(&error))
    }

    /// Prints an error of this node.
    pub fn report(&self, error: &NodeError) -> Failure {
        match error {
            NodeError::Refused(text) => {
                print(Level::Error, format!("Node {self} replied with error:\n{}", printable(text)));
            }
            NodeError::Lost(error) => eprint_line!("Node {self}: {error}"),
        }
        Failure::Reported
    }

    pub fn is_primary(&self) -> bool {
        self.replicates.is_none()
    }

    /// The address at which other nodes reach it.
    pub fn address(&self) -> (&str, u16) {
        (&self.address.0, self.address.1)
    }

    /// Returns whether it has neither keys nor other nodes, or why that is unknown.
    pub fn is_empty(&mut self) -> Result<bool, NodeError> {
        let text = |reply: Value| String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        let keyspace = text(self.command(&["INFO"])?);
        let known = text(self.command(&["CLUSTER", "INFO"])?);
        let has_keys = keyspace.lines().any(|line| line.starts_with("db") && line.contains(":keys="));
        Ok(!has_keys && info_field(&known, "cluster_known_nodes") == Some("1"))
    }

    fn lines(&mut self) -> Result<Vec<Line>, Failure> {
        lines(&mut self.session).inspect_err(|_| {
            self.session.disconnect();
            self.database = 0;
        })
    }

    /// Returns the owners of slots in this node's configuration.
    pub fn configuration(&mut self) -> Result<BTreeSet<(String, BTreeSet<usize>)>, Failure> {
        let owners = self.lines()?.into_iter().filter(|line| !line.slots.is_empty());
        Ok(owners.map(|line| (line.id, line.slots)).collect())
    }

    /// Returns how many nodes this one knows and has greeted.
    pub fn known_nodes(&mut self) -> Result<usize, Failure> {
        Ok(self.lines()?.iter().filter(|line| !line.has_flag("handshake")).count())
    }

    /// Returns the addresses of nodes to which this one has no link.
    pub fn missing_links(&mut self) -> Result<Vec<String>, Failure> {
        let others = self.lines()?.into_iter().filter(|line| !line.has_flag("myself"));
        let missing = others.filter(|line| !line.is_connected || line.has_flag("handshake"));
        Ok(missing.map(|line| line.address).collect())
    }

    /// Returns the number of its databases. Before Valkey 9 nodes had one.
    pub fn databases(&mut self) -> Result<u32, Failure> {
        if let Some(count) = self.databases {
            return Ok(count);
        }
        let count = match self.command(&["CONFIG", "GET", "cluster-databases"]) {
            Ok(reply) => {
                let entries = reply.entries();
                let value =
                    entries.first().and_then(|(_, value)| std::str::from_utf8(value.as_bytes()?).ok());
                value.and_then(|value| value.parse().ok()).unwrap_or(1)
            }
            Err(NodeError::Refused(text)) => {
                let text = printable(&text);
                eprint_line!("CONFIG GET cluster-databases fails: {text}, use default value 1 instead");
                1
            }
            Err(error) => return Err(self.report(&error)),
        };
        self.databases = Some(count);
        Ok(count)
    }

    pub fn select(&mut self, database: u32) -> Result<(), Failure> {
        if self.database != database {
            self.must(&["SELECT", &database.to_string()])?;
            self.database = database;
        }
        Ok(())
    }

    /// Returns the number of keys of each of these slots, in all databases.
    pub fn count_keys(&mut self, slots: &[usize]) -> Result<Vec<i64>, Failure> {
        let count = |slot: &usize| {
            vec![b"CLUSTER".to_vec(), b"COUNTKEYSINSLOT".to_vec(), slot.to_string().into_bytes()]
        };
        let commands: Vec<Vec<Vec<u8>>> = slots.iter().map(count).collect();
        let mut counts = vec![0i64; slots.len()];
        for database in 0..self.databases()? {
            self.select(database)?;
            let replies = self.session.pipeline(&commands);
            let replies = replies.map_err(|error| self.report(&NodeError::Lost(error)))?;
            for (sum, reply) in counts.iter_mut().zip(replies) {
                let Value::Integer(count) = reply else {
                    let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
                    return Err(self.report(&NodeError::Refused(text)));
                };
                *sum = sum.saturating_add(count);
            }
        }
        self.select(0)?;
        Ok(counts)
    }

    pub fn count_keys_in(&mut self, slot: usize) -> Result<i64, Failure> {
        Ok(self.count_keys(&[slot])?.first().copied().unwrap_or(0))
    }
}

impl Cluster {
    /// Queries a node for the list of nodes, and each of them for its own state. Unreachable nodes are reported.
    pub fn load(
        access: &Access,
        host: &str,
        port: u16,
        unreachable: Unreachable,
    ) -> Result<Cluster, Failure> {
        let (first, others) = Node::join(access, host, port)?;
        let mut cluster = Cluster { nodes: vec![first], unreachable_primaries: 0 };
        for other in others {
            cluster.add(access, other, unreachable);
        }
        for node in &cluster.nodes {
            if let Some(primary) = node.replicates.as_ref().filter(|id| cluster.find(id).is_none()) {
                let text = format!("*** WARNING: {node} claims to be replica of unknown node ID {primary}.");
                print(Level::Warning, text);
            }
        }
        Ok(cluster)
    }

    fn add(&mut self, access: &Access, line: Line, unreachable: Unreachable) {
        let has_failed = ["noaddr", "fail"].iter().any(|flag| line.has_flag(flag));
        let port = line.port.filter(|port| *port != 0 && !line.host.is_empty());
        // What has failed may be back already; it is asked only where nodes are removed.
        let port = port.filter(|_| !has_failed || unreachable == Unreachable::Kept);
        let answer = port.map(|port| Node::query(access, &line.host, port));
        match answer {
            Some(Ok((node, known))) => {
                if self.nodes.len() == 1 {
                    self.correct_address(&known);
                }
                self.unreachable_primaries += usize::from(has_failed && node.is_primary());
                self.nodes.push(node);
                return;
            }
            Some(Err(error)) => {
                eprint_line!("{error}");
                let address = format!("{}:{}", line.host, line.port.unwrap_or(0));
                print(Level::Error, format!("[ERR] Unable to load info for node {address}"));
            }
            None => {}
        }
        self.unreachable_primaries += usize::from(line.primary.is_none());
        if unreachable == Unreachable::Kept {
            let (host, port) = (line.host.clone(), line.port.unwrap_or(0));
            let session = access.session(&host, port);
            self.nodes.push(Node::new(line, session, &host, port, false));
        }
    }

    /// The address of the command line need not be one that other nodes can use, such as 127.0.0.1.
    fn correct_address(&mut self, known: &[Line]) {
        let first = &mut self.nodes[0];
        let line = known.iter().find(|line| line.id == first.id && !line.host.is_empty());
        if let Some((host, port)) = line.and_then(|line| Some((line.host.clone(), line.port?))) {
            first.address = (host, port);
        }
    }

    /// Returns the node with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.id.eq_ignore_ascii_case(id))
    }

    /// Returns the primaries.
    pub fn primaries(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].is_primary()).collect()
    }

    pub fn replicas_of(&self, node: usize) -> usize {
        let id = Some(&self.nodes[node].id);
        self.nodes.iter().filter(|other| other.replicates.as_ref() == id).count()
    }

    /// Returns the reachable primary with the fewest replicas, other than `except`.
    pub fn with_fewest_replicas(&self, except: Option<usize>) -> Option<usize> {
        let primaries = self.primaries().into_iter();
        let reachable = primaries.filter(|&node| Some(node) != except && self.nodes[node].is_reachable);
        reachable.min_by_key(|&node| self.replicas_of(node))
    }

    /// Describes a node on several lines.
    pub fn description(&self, index: usize, indent: usize) -> String {
        let (node, space) = (&self.nodes[index], " ".repeat(indent));
        let role = if node.is_primary() { 'M' } else { 'S' };
        let flags: Vec<&str> =
            node.flags.iter().map(String::as_str).filter(|flag| *flag != "myself").collect();
        let (slots, count) = (ranges_text(&node.slots), node.slots.len());
        let mut text = format!(
            "{space}{role}: {} {node}\n{space}   slots:{slots} ({count} slots) {}",
            node.id,
            flags.join(",")
        );
        match (&node.replicates, self.replicas_of(index)) {
            (Some(primary), _) => text += &format!("\n{space}   replicates {primary}"),
            (None, 0) => {}
            (None, replicas) => text += &format!("\n{space}   {replicas} additional replica(s)"),
        }
        text
    }

    /// Returns whether all nodes have the same owners of slots; those that do not answer have not.
    pub fn agrees(&mut self) -> bool {
        if self.nodes.len() <= 1 {
            return true;
        }
        let beliefs: Option<BTreeSet<_>> =
            self.nodes.iter_mut().map(|node| node.configuration().ok()).collect();
        beliefs.is_some_and(|beliefs| {
            beliefs.len() == 1 && beliefs.first().is_some_and(|first| !first.is_empty())
        })
    }
}

/// Returns the first and last slot of each contiguous range.
pub fn ranges<'a>(slots: impl IntoIterator<Item = &'a usize>) -> Vec<(usize, usize)> {
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for &slot in slots {
        match rows.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => rows.push((slot, slot)),
        }
    }
    rows
}

/// Formats slots as ranges: `[0-5460],[6000]`.
pub fn ranges_text<'a>(slots: impl IntoIterator<Item = &'a usize>) -> String {
    let row = |(first, last): (usize, usize)| {
        if first == last { format!("[{first}]") } else { format!("[{first}-{last}]") }
    };
    ranges(slots).into_iter().map(row).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
