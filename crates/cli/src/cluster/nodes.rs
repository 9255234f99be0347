//! The nodes of a cluster, each with the state that it reports of itself.

use std::collections::BTreeSet;
use std::fmt;

use client::info_field;

use super::{Access, Level, SLOTS, print};
use crate::Failure;
use crate::session::Session;

/// A reachable node.
pub struct Node {
    pub session: Session,
    pub id: String,
    pub host: String,
    pub port: u16,
    pub flags: Vec<String>,
    /// The id of its primary, if it is a replica.
    pub replicates: Option<String>,
    pub slots: BTreeSet<usize>,
    /// Slots that are migrated from this node, and those imported to it.
    pub migrating: Vec<String>,
    pub importing: Vec<String>,
    /// Its configuration epoch.
    pub epoch: u64,
}

pub struct Cluster {
    /// The node of the command line, then the nodes that it lists.
    pub nodes: Vec<Node>,
}

/// A line of CLUSTER NODES.
#[derive(Debug, PartialEq)]
struct Line {
    id: String,
    host: String,
    port: Option<u16>,
    flags: Vec<String>,
    primary: Option<String>,
    slots: BTreeSet<usize>,
    migrating: Vec<String>,
    importing: Vec<String>,
    epoch: u64,
}

/// Parses `host:port`; the parts after an `@` or a comma are ignored.
pub fn host_and_port(address: &str) -> Option<(String, Option<u16>)> {
    let address = address.split(['@', ',']).next()?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()))
}

impl Line {
    fn read(line: &str) -> Option<Line> {
        let mut words = line.split(' ');
        let (id, address, flags, primary) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (host, port) = host_and_port(address)?;
        let flags: Vec<String> = flags.split(',').map(str::to_owned).collect();
        let is_replica = flags.iter().any(|flag| flag == "slave" || flag == "replica");
        let (mut slots, mut migrating, mut importing) = (BTreeSet::new(), Vec::new(), Vec::new());
        // Fields: ping sent, pong received, epoch, state of the link, slots.
        let epoch = words.nth(2).and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        for word in words.skip(1) {
            if let Some(open) = word.strip_prefix('[') {
                if let Some((slot, _)) = open.split_once("->-") {
                    migrating.push(slot.to_owned());
                } else if let Some((slot, _)) = open.split_once("-<-") {
                    importing.push(slot.to_owned());
                }
                continue;
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
                slots.extend(first..=last.min(SLOTS - 1));
            }
        }
        let primary = is_replica.then(|| primary.to_owned());
        Some(Line { id: id.to_owned(), host, port, flags, primary, slots, migrating, importing, epoch })
    }

    fn has_flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    fn node(self, session: Session, host: &str, port: u16) -> Node {
        let Line { id, flags, primary: replicates, slots, migrating, importing, epoch, .. } = self;
        Node {
            session,
            id,
            host: host.to_owned(),
            port,
            flags,
            replicates,
            slots,
            migrating,
            importing,
            epoch,
        }
    }
}

/// Returns a node's CLUSTER NODES, which includes the node itself.
fn lines(session: &mut Session) -> Result<Vec<Line>, Failure> {
    let reply = session.request(&["CLUSTER", "NODES"])?;
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
    if reply.is_error() {
        return Err(Failure::Reply(text));
    }
    let malformed = || Failure::Reply("Error: invalid CLUSTER NODES reply".to_owned());
    // The text is printed, and ids become parts of file names.
    if text.lines().any(|line| line.contains(|letter: char| letter.is_control() || letter == '/')) {
        return Err(malformed());
    }
    text.lines().map(|line| Line::read(line).ok_or_else(malformed)).collect()
}

impl Cluster {
    /// Queries a node for the list of nodes, and each of them for its own state. Unreachable nodes are reported and skipped.
    pub fn load(access: &Access, host: &str, port: u16) -> Result<Cluster, Failure> {
        let mut session = access.connect(host, port)?;
        let reply = session.request(&["INFO"])?;
        let info = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if info_field(&info, "cluster_enabled") != Some("1") {
            let reason =
                if reply.is_error() { info } else { "is not configured as a cluster node.".to_owned() };
            print(Level::Error, format!("[ERR] Node {host}:{port} {reason}"));
            return Err(Failure::Reported);
        }
        let (own, others): (Vec<Line>, Vec<Line>) =
            lines(&mut session)?.into_iter().partition(|line| line.has_flag("myself"));
        let own = own.into_iter().next();
        let own = own.ok_or_else(|| Failure::Reply("Error: invalid CLUSTER NODES reply".to_owned()))?;
        let mut nodes = vec![own.node(session, host, port)];
        for other in others {
            if ["noaddr", "disconnected", "fail"].iter().any(|flag| other.has_flag(flag)) {
                continue;
            }
            let Some(port) = other.port else { continue };
            let host = other.host.clone();
            match Self::query(access, &host, port) {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    eprint_line!("{error}");
                    print(Level::Error, format!("[ERR] Unable to load info for node {host}:{port}"));
                }
            }
        }
        Ok(Cluster { nodes })
    }

    fn query(access: &Access, host: &str, port: u16) -> Result<Node, Failure> {
        let mut session = access.connect(host, port)?;
        let own = lines(&mut session)?.into_iter().find(|line| line.has_flag("myself"));
        let own = own.ok_or_else(|| Failure::Reply("Error: invalid CLUSTER NODES reply".to_owned()))?;
        Ok(own.node(session, host, port))
    }
}

impl Node {
    /// Returns the owners of slots in this node's configuration.
    pub fn configuration(&mut self) -> Result<BTreeSet<(String, BTreeSet<usize>)>, Failure> {
        let lines = lines(&mut self.session)?;
        Ok(lines
            .into_iter()
            .filter(|line| !line.slots.is_empty())
            .map(|line| (line.id, line.slots))
            .collect())
    }
}

/// Returns the first and last slot of each contiguous range.
pub fn ranges(slots: &BTreeSet<usize>) -> Vec<(usize, usize)> {
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
pub fn ranges_text(slots: &BTreeSet<usize>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = Line::read(
            "07c3 127.0.0.1:30004@31004,host slave e7d1 0 1426238317239 4 connected 0-2 5 [93-<-292f] [77->-e7d1]",
        )
        .unwrap();
        assert_eq!((line.host.as_str(), line.port), ("127.0.0.1", Some(30004)));
        assert_eq!(line.primary.as_deref(), Some("e7d1"));
        assert_eq!(ranges_text(&line.slots), "[0-2],[5]");
        assert_eq!(line.epoch, 4);
        assert_eq!((line.importing, line.migrating), (vec!["93".to_owned()], vec!["77".to_owned()]));
        assert_eq!(Line::read("07c3 nowhere"), None);
        assert_eq!(host_and_port("::1:7000"), Some(("::1".to_owned(), Some(7000))));
    }
}
