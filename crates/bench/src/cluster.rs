//! Nodes of a cluster, and hash tags for their slots.

use clap::ValueEnum;
use client::Address;
use wire::response::Value;

use crate::connection::{Conversation, Setup};

const SLOTS: u16 = 16_384;
/// Length of a hash tag.
pub const TAG_LEN: usize = 3;

/// The nodes that receive requests.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum ReadFrom {
    /// Primaries only
    No,
    /// Replicas only
    Yes,
    /// All nodes
    All,
}

impl ReadFrom {
    /// The description in the report.
    pub fn roles(self) -> &'static str {
        match self {
            Self::No => "primary",
            Self::Yes => "replica",
            Self::All => "cluster",
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct Node {
    pub host: String,
    pub port: u16,
    pub id: String,
    pub is_replica: bool,
    pub slots: Vec<u16>,
}

/// Returns the nodes of the server's cluster.
pub fn nodes(setup: &Setup, read_from: ReadFrom) -> Result<Vec<Node>, String> {
    let answer =
        Conversation::new(setup).and_then(|mut conversation| conversation.ask(&["CLUSTER", "SLOTS"]));
    let answer = answer.map_err(|error| format!("Failed to fetch cluster configuration: {error}"))?;
    let Address::Tcp(host, _) = &setup.address else {
        return Err("a cluster is reached by host and port".to_string());
    };
    let nodes =
        of_slots(&answer, host, read_from).ok_or("Failed to fetch cluster configuration: no slots")?;
    match nodes.is_empty() {
        true => Err("Invalid cluster: 0 node(s).".to_string()),
        false => Ok(nodes),
    }
}

/// Parses a reply to CLUSTER SLOTS; `host` is used for nodes without an address.
fn of_slots(answer: &Value, host: &str, read_from: ReadFrom) -> Option<Vec<Node>> {
    let slot = |value: &Value| match value {
        Value::Integer(slot) => u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    };
    let text = |value: &Value| value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mut nodes: Vec<Node> = Vec::new();
    for range in answer.as_list()? {
        let [first, last, servers @ ..] = range.as_list()? else { return None };
        let (first, last) = (slot(first)?, slot(last)?);
        if first > last {
            return None;
        }
        for (place, server) in servers.iter().enumerate() {
            let [address, Value::Integer(port), id, ..] = server.as_list()? else { return None };
            let is_replica = place > 0;
            let is_wanted = match read_from {
                ReadFrom::No => !is_replica,
                ReadFrom::Yes => is_replica,
                ReadFrom::All => true,
            };
            if !is_wanted {
                continue;
            }
            let (id, port) = (text(id)?, u16::try_from(*port).ok()?);
            if !nodes.iter().any(|node| node.id == id) {
                let host =
                    text(address).filter(|address| !address.is_empty()).unwrap_or_else(|| host.to_string());
                nodes.push(Node { host, port, id: id.clone(), is_replica, slots: Vec::new() });
            }
            let node = nodes.iter_mut().find(|node| node.id == id)?;
            node.slots.extend(first..=last);
        }
    }
    Some(nodes)
}

/// A hash tag for each slot.
pub struct Tags(Vec<[u8; TAG_LEN]>);

impl Tags {
    /// Tries short tags until each slot has one.
    pub fn new() -> Self {
        const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut tags = vec![[0; TAG_LEN]; usize::from(SLOTS)];
        for number in 0..DIGITS.len().pow(TAG_LEN as u32) {
            let digit = |place: u32| DIGITS[number / DIGITS.len().pow(place) % DIGITS.len()];
            let tag = [digit(2), digit(1), digit(0)];
            tags[usize::from(slot_of(&tag))] = tag;
        }
        Self(tags)
    }

    pub fn of(&self, slot: u16) -> &[u8; TAG_LEN] {
        &self.0[usize::from(slot)]
    }
}

/// Returns the slot of a key: CRC-16/XMODEM modulo the number of slots.
fn slot_of(key: &[u8]) -> u16 {
    let step = |crc: u16, bit: u16| {
        let is_odd = (crc >> 15) ^ bit == 1;
        (crc << 1) ^ if is_odd { 0x1021 } else { 0 }
    };
    let byte =
        |crc: u16, byte: &u8| (0..8).rev().fold(crc, |crc, place| step(crc, u16::from(byte >> place) & 1));
    key.iter().fold(0, byte) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        assert_eq!((slot_of(b"123456789"), slot_of(b"foo")), (0x31c3, 12_182));
        let tags = Tags::new();
        assert!((0..SLOTS).all(|slot| slot_of(tags.of(slot)) == slot));
    }

    #[test]
    fn nodes_are_those_asked_for() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let server =
            |host: &str, port: i64, id: &str| Value::Array(vec![bulk(host), Value::Integer(port), bulk(id)]);
        let range = |first, last, servers: Vec<Value>| {
            Value::Array([vec![Value::Integer(first), Value::Integer(last)], servers].concat())
        };
        let answer = Value::Array(vec![
            range(0, 1, vec![server("a", 1, "one"), server("b", 2, "two")]),
            range(5, 5, vec![server("a", 1, "one")]),
            range(9, 9, vec![server("", 3, "three")]),
        ]);
        let found = |read_from| -> Vec<(String, u16, Vec<u16>)> {
            let nodes = of_slots(&answer, "home", read_from).unwrap();
            nodes.into_iter().map(|node| (node.host, node.port, node.slots)).collect()
        };
        let node = |host: &str, port, slots: &[u16]| (host.to_string(), port, slots.to_vec());
        assert_eq!(found(ReadFrom::No), [node("a", 1, &[0, 1, 5]), node("home", 3, &[9])]);
        assert_eq!(found(ReadFrom::Yes), [node("b", 2, &[0, 1])]);
        assert_eq!(found(ReadFrom::All).len(), 3);
        for odd in [
            Value::Null,
            Value::Array(vec![range(0, 99_999, vec![])]),
            Value::Array(vec![range(5, 4, vec![])]),
            Value::Array(vec![bulk("x")]),
        ] {
            assert_eq!(of_slots(&odd, "home", ReadFrom::No), None);
        }
    }
}
