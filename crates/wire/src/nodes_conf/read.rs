//! The text of a file to rows.

use super::line::{Direction, FLAG_WORDS, NO_FLAGS, OpenSlot};
use super::{BUS_PORT_OFFSET, NodeRow, NodesConf};
use crate::cluster_bus::{Address, EPOCH_MAX, NodeFlags, NodeId, SLOTS, Text};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; 0 if the file as a whole lacks something.
    pub line: usize,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Bytes that are no text.
    Encoding,
    /// A line of a node has fewer than eight fields.
    Fields,
    /// The node's id is none.
    Id,
    /// The node has a line already.
    DuplicateId,
    /// The address has no port, or is none.
    Address,
    /// A port is no number from 0 to 65535.
    Port,
    /// The host name has characters that no name has.
    Hostname,
    /// A field behind the host name is not a name and a value.
    Field,
    /// A field behind the host name has an unknown name.
    FieldName,
    /// A field behind the host name has a value that it cannot have.
    FieldValue,
    /// An unknown word among the flags.
    Flag,
    /// Two nodes are this one.
    SecondMyself,
    /// No node is this one.
    NoMyself,
    /// More nodes than the reader supports.
    TooManyNodes,
    /// The primary's id is none.
    PrimaryId,
    /// A time is no number.
    Time,
    /// An epoch is no number, or too large for one.
    Epoch,
    /// The state of the link is neither `connected` nor `disconnected`.
    LinkState,
    /// Slots are not a number or a range below 16384.
    Slots,
    /// An open slot is not a slot, a direction and an id.
    OpenSlot,
    /// The variables are not names and values.
    Variables,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Encoding => "not UTF-8",
            FaultKind::Fields => "too few fields",
            FaultKind::Id => "invalid node id",
            FaultKind::DuplicateId => "duplicate node id",
            FaultKind::Address => "invalid address",
            FaultKind::Port => "invalid port",
            FaultKind::Hostname => "invalid host name",
            FaultKind::Field => "field without a value",
            FaultKind::FieldName => "unknown field",
            FaultKind::FieldValue => "invalid value of a field",
            FaultKind::Flag => "unknown flag",
            FaultKind::SecondMyself => "second node with the flag myself",
            FaultKind::TooManyNodes => "too many nodes",
            FaultKind::NoMyself => "no node with the flag myself",
            FaultKind::PrimaryId => "invalid id of the primary",
            FaultKind::Time => "invalid time",
            FaultKind::Epoch => "invalid epoch",
            FaultKind::LinkState => "invalid link state",
            FaultKind::Slots => "invalid slots",
            FaultKind::OpenSlot => "invalid open slot",
            FaultKind::Variables => "invalid variables",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => self.kind.fmt(f),
            line => write!(f, "line {line}: {}", self.kind),
        }
    }
}

impl std::error::Error for Fault {}

/// Reads a file. `uses_tls` decides what the one port in files of old servers is for: the option `tls-cluster`.
///
/// # Errors
///
/// Fails at the first line that no server writes, or if no line is about this node.
pub fn read(text: &[u8], uses_tls: bool) -> Result<NodesConf, Fault> {
    let mut conf = NodesConf::default();
    let (mut ids, mut has_myself) = (HashSet::new(), false);
    for (line, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let fault = |kind| Fault { line, kind };
        let text = std::str::from_utf8(bytes).map_err(|_| fault(FaultKind::Encoding))?;
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if first.eq_ignore_ascii_case("vars") {
            read_variables(&mut conf, words).map_err(fault)?;
            continue;
        }
        let node = read_node(first, words, uses_tls).map_err(fault)?;
        if !ids.insert(node.id) {
            return Err(fault(FaultKind::DuplicateId));
        }
        let is_myself = node.flags.contains(NodeFlags::MYSELF);
        if is_myself && has_myself {
            return Err(fault(FaultKind::SecondMyself));
        }
        has_myself |= is_myself;
        conf.current_epoch = conf.current_epoch.max(node.config_epoch);
        conf.nodes.push(node);
    }
    if has_myself { Ok(conf) } else { Err(Fault { line: 0, kind: FaultKind::NoMyself }) }
}

fn read_variables<'a>(
    conf: &mut NodesConf,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<(), FaultKind> {
    while let Some(name) = words.next() {
        let value = words.next().ok_or(FaultKind::Variables)?;
        // Others are those of later servers.
        if name.eq_ignore_ascii_case("currentEpoch") {
            conf.current_epoch = conf.current_epoch.max(epoch(value)?);
        } else if name.eq_ignore_ascii_case("lastVoteEpoch") {
            conf.last_vote_epoch = epoch(value)?;
        }
    }
    Ok(())
}

fn read_node<'a>(
    id: &str,
    mut words: impl Iterator<Item = &'a str>,
    uses_tls: bool,
) -> Result<NodeRow, FaultKind> {
    let mut next = || words.next().ok_or(FaultKind::Fields);
    let (place, flags, primary) = (next()?, next()?, next()?);
    let (ping_sent, pong_received, config_epoch, link) = (next()?, next()?, next()?, next()?);
    let mut node = NodeRow::new(NodeId::parse(id.as_bytes()).ok_or(FaultKind::Id)?);
    read_place(&mut node, place, uses_tls)?;
    node.flags = read_flags(flags)?;
    if primary != "-" {
        node.replica_of = Some(NodeId::parse(primary.as_bytes()).ok_or(FaultKind::PrimaryId)?);
    }
    node.ping_sent_ms = number(ping_sent).ok_or(FaultKind::Time)?;
    node.pong_received_ms = number(pong_received).ok_or(FaultKind::Time)?;
    let is_replica = node.flags.contains(NodeFlags::REPLICA) && node.replica_of.is_some();
    let config_epoch = epoch(config_epoch)?;
    node.config_epoch = if is_replica { 0 } else { config_epoch };
    node.is_connected = match link {
        "connected" => true,
        "disconnected" => false,
        _ => return Err(FaultKind::LinkState),
    };
    for word in words {
        read_slots(&mut node, word)?;
    }
    Ok(node)
}

/// Reads address, ports, host name and what follows it.
fn read_place(node: &mut NodeRow, place: &str, uses_tls: bool) -> Result<(), FaultKind> {
    let mut parts = place.split(',');
    let (host, port) = parts.next().and_then(|part| part.rsplit_once(':')).ok_or(FaultKind::Address)?;
    if !host.is_empty() {
        node.address = Some(Address::parse(host).ok_or(FaultKind::Address)?);
    }
    node.hostname = Text::parse(parts.next().unwrap_or("")).ok_or(FaultKind::Hostname)?;
    let (mut tcp_port, mut tls_port) = (None, None);
    for part in parts {
        let (name, value) = part.split_once('=').ok_or(FaultKind::Field)?;
        match name {
            "tcp-port" => tcp_port = Some(field(value)?),
            "tls-port" => tls_port = Some(field(value)?),
            _ => read_field(node, name, value)?,
        }
    }
    let (port, bus_port) = match port.split_once('@') {
        Some((port, bus_port)) => (port, Some(bus_port)),
        None => (port, None),
    };
    let port: u16 = number(port).ok_or(FaultKind::Port)?;
    // A port that has no field is that of the address. Old files have no fields.
    (node.tcp_port, node.tls_port) = match (tcp_port, tls_port) {
        (Some(tcp_port), Some(tls_port)) => (tcp_port, tls_port),
        (None, Some(tls_port)) => (port, tls_port),
        (Some(tcp_port), None) => (tcp_port, port),
        (None, None) if uses_tls => (0, port),
        (None, None) => (port, 0),
    };
    let client_port = if uses_tls { node.tls_port } else { node.tcp_port };
    node.bus_port = match bus_port {
        Some(bus_port) => number(bus_port),
        None => client_port.checked_add(BUS_PORT_OFFSET),
    }
    .ok_or(FaultKind::Port)?;
    Ok(())
}

fn read_field(node: &mut NodeRow, name: &str, value: &str) -> Result<(), FaultKind> {
    let text = || Text::parse(value).ok_or(FaultKind::FieldValue);
    match name {
        "shard-id" => {
            node.shard_id = Some(NodeId::parse(value.as_bytes()).ok_or(FaultKind::FieldValue)?);
        }
        "nodename" => node.nodename = text()?,
        "availability-zone" => node.availability_zone = text()?,
        "client-ipv4" => node.client_ipv4 = address(value)?,
        "client-ipv6" => node.client_ipv6 = address(value)?,
        "client-tcp-port" => node.client_tcp_port = field(value)?,
        "client-tls-port" => node.client_tls_port = field(value)?,
        _ => return Err(FaultKind::FieldName),
    }
    Ok(())
}

/// Reads the number of a field.
fn field(value: &str) -> Result<u16, FaultKind> {
    number(value).ok_or(FaultKind::FieldValue)
}

fn address<T: FromStr>(value: &str) -> Result<Option<T>, FaultKind> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| FaultKind::FieldValue)
}

fn read_flags(words: &str) -> Result<NodeFlags, FaultKind> {
    let mut flags = NodeFlags::NONE;
    for word in words.split(',') {
        let known = FLAG_WORDS.iter().find(|(_, known)| word.eq_ignore_ascii_case(known));
        flags |= match known {
            Some((flag, _)) => *flag,
            None if word.eq_ignore_ascii_case("primary") => NodeFlags::PRIMARY,
            None if word.eq_ignore_ascii_case("replica") => NodeFlags::REPLICA,
            None if word.eq_ignore_ascii_case(NO_FLAGS) => NodeFlags::NONE,
            None => return Err(FaultKind::Flag),
        };
    }
    // Without an address it cannot be reached.
    if flags.contains(NodeFlags::NO_ADDRESS) {
        flags |= NodeFlags::FAILED;
    }
    Ok(flags)
}

/// Reads a slot, a range of slots, or a slot that is moved by hand.
fn read_slots(node: &mut NodeRow, word: &str) -> Result<(), FaultKind> {
    if let Some(open) = word.strip_prefix('[') {
        node.open_slots.push(read_open_slot(open).ok_or(FaultKind::OpenSlot)?);
        return Ok(());
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (slot(first), slot(last)) {
        (Some(first), Some(last)) if first <= last => node.slots.extend(first..=last),
        _ => return Err(FaultKind::Slots),
    }
    Ok(())
}

fn read_open_slot(word: &str) -> Option<OpenSlot> {
    let (number, rest) = word.strip_suffix(']')?.split_once('-')?;
    let (sign, node) = rest.split_once('-')?;
    let direction = match sign {
        ">" => Direction::Migrating,
        "<" => Direction::Importing,
        _ => return None,
    };
    Some(OpenSlot { slot: slot(number)?, direction, node: NodeId::parse(node.as_bytes())? })
}

pub(super) fn slot(word: &str) -> Option<u16> {
    number(word).filter(|slot| *slot < SLOTS)
}

fn epoch(word: &str) -> Result<u64, FaultKind> {
    number(word).filter(|epoch| *epoch <= EPOCH_MAX).ok_or(FaultKind::Epoch)
}

/// Reads digits alone.
fn number<T: FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}
