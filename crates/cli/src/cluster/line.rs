//! Lines of CLUSTER NODES.

use std::collections::{BTreeMap, BTreeSet};

use super::SLOTS;
use crate::Failure;
use crate::session::Session;

/// What a node knows of a node.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub id: String,
    /// Host and ports, without the host name.
    pub address: String,
    pub host: String,
    pub port: Option<u16>,
    pub bus_port: Option<u16>,
    pub flags: Vec<String>,
    pub primary: Option<String>,
    pub epoch: u64,
    /// Whether there is a link to it.
    pub is_connected: bool,
    pub slots: BTreeSet<usize>,
    /// Open slots with the other node's id.
    pub migrating: BTreeMap<usize, String>,
    pub importing: BTreeMap<usize, String>,
}

/// Parses `host:port`; the parts after an `@` or a comma are ignored.
pub fn host_and_port(address: &str) -> Option<(String, Option<u16>)> {
    let address = address.split(['@', ',']).next()?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()))
}

fn open_slot(text: &str, arrow: &str) -> Option<(usize, String)> {
    let (slot, node) = text.split_once(arrow)?;
    let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    Some((slot, node.trim_end_matches(']').to_owned()))
}

impl Line {
    pub fn read(line: &str) -> Option<Line> {
        let mut words = line.split(' ');
        let (id, address, flags, primary) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let address = address.split(',').next()?;
        let (host, port) = host_and_port(address)?;
        let bus_port = address.split_once('@').and_then(|(_, port)| port.parse().ok());
        let flags: Vec<String> = flags.split(',').map(str::to_owned).collect();
        let is_replica = flags.iter().any(|flag| flag == "slave" || flag == "replica");
        // Fields: ping sent, pong received, epoch, state of the link, slots.
        let epoch = words.nth(2).and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        let is_connected = words.next().is_none_or(|state| state == "connected");
        let (mut slots, mut migrating, mut importing) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for word in words {
            if let Some(open) = word.strip_prefix('[') {
                migrating.extend(open_slot(open, "->-"));
                importing.extend(open_slot(open, "-<-"));
                continue;
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
                slots.extend(first..=last.min(SLOTS - 1));
            }
        }
        Some(Line {
            id: id.to_owned(),
            address: address.to_owned(),
            host,
            port,
            bus_port,
            flags,
            primary: is_replica.then(|| primary.to_owned()),
            epoch,
            is_connected,
            slots,
            migrating,
            importing,
        })
    }

    pub fn has_flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }
}

/// Returns a node's CLUSTER NODES, which includes the node itself.
pub fn lines(session: &mut Session) -> Result<Vec<Line>, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::nodes::ranges_text;

    #[test]
    fn lines_are_read() {
        let line = Line::read(
            "07c3 127.0.0.1:30004@31004,host slave e7d1 0 1426238317239 4 connected 0-2 5 [93-<-292f] [77->-e7d1]",
        )
        .unwrap();
        assert_eq!((line.host.as_str(), line.port, line.bus_port), ("127.0.0.1", Some(30004), Some(31004)));
        assert_eq!(line.address, "127.0.0.1:30004@31004");
        assert_eq!(line.primary.as_deref(), Some("e7d1"));
        assert_eq!(ranges_text(&line.slots), "[0-2],[5]");
        assert!(line.is_connected && line.epoch == 4);
        assert_eq!(line.importing, [(93, "292f".to_owned())].into());
        assert_eq!(line.migrating, [(77, "e7d1".to_owned())].into());
        let line =
            Line::read("07c3 :0@0 master,noaddr - 1 2 3 disconnected [16384->-a] 16380-20000").unwrap();
        assert!(!line.is_connected && line.migrating.is_empty() && line.slots.len() == 4);
        assert_eq!((line.host.as_str(), line.port), ("", Some(0)));
        assert_eq!(Line::read("07c3 nowhere"), None);
        assert_eq!(host_and_port("::1:7000"), Some(("::1".to_owned(), Some(7000))));
    }
}
