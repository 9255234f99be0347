//! Values to bytes.

use super::layout::{self, extension};
use super::{
    Address, Body, Extensions, Frame, Gossip, GossipEntry, Header, Kind, Light, ModuleMessage, NodeId,
    Publication,
};
use std::sync::Arc;

/// A frame's bytes. A clone is cheap, so that one frame is sent on many links.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    bytes: Arc<[u8]>,
}

impl Encoded {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoded({} bytes)", self.bytes.len())
    }
}

impl Frame {
    /// Returns the frame's bytes.
    ///
    /// What a frame cannot hold is left out: more than 65,535 gossip entries, more than 65,535 extensions, an address
    /// that is longer than its field. Extensions are left out unless the header's flags have `has_extensions`.
    pub fn encode(&self) -> Encoded {
        let mut out = Vec::with_capacity(self.expected_len());
        match self {
            Frame::Full(header, body) => {
                append_header(&mut out, header, body.kind());
                append_body(&mut out, body, header.mflags.has_extensions);
            }
            Frame::Light(light) => {
                append_light_header(&mut out, self.kind());
                match light {
                    Light::Publish(publication) | Light::PublishShard(publication) => {
                        append_publication(&mut out, publication);
                    }
                    Light::Module(message) => append_module(&mut out, message),
                }
            }
        }
        // What is longer than a frame can be, no command makes.
        let len = u32::try_from(out.len()).unwrap_or(u32::MAX);
        put(&mut out, layout::LENGTH, &len.to_be_bytes());
        Encoded { bytes: out.into() }
    }

    /// Returns about how many bytes the frame has: what is long, exactly.
    pub fn expected_len(&self) -> usize {
        let (start, rest) = match self {
            Frame::Full(_, body) => (layout::HEADER_LEN, body.expected_len()),
            Frame::Light(Light::Publish(publication) | Light::PublishShard(publication)) => {
                (layout::PREFIX_LEN, publication.encoded_len())
            }
            Frame::Light(Light::Module(message)) => (layout::PREFIX_LEN, message.encoded_len()),
        };
        start + rest
    }
}

impl Body {
    fn expected_len(&self) -> usize {
        match self {
            Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) => {
                gossip.entries.len() * layout::GOSSIP_LEN + 512
            }
            Body::Publish(publication) | Body::PublishShard(publication) => publication.encoded_len(),
            Body::Module(message) => message.encoded_len(),
            Body::Update(_) => 2096,
            _ => NodeId::LEN,
        }
    }
}

impl Publication {
    fn encoded_len(&self) -> usize {
        layout::PUBLICATION_PREFIX_LEN + self.channel.len() + self.message.len()
    }
}

impl ModuleMessage {
    fn encoded_len(&self) -> usize {
        layout::MODULE_PREFIX_LEN + self.payload.len()
    }
}

/// Replaces bytes of the frame.
fn put(out: &mut [u8], position: usize, bytes: &[u8]) {
    if let Some(field) = out.get_mut(position..position + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

/// Writes what both headers begin with, but for the length, which is not known yet.
fn append_prefix(out: &mut Vec<u8>, kind: u16, port: u16) {
    out.extend(layout::SIGNATURE);
    out.extend([0; 4]);
    for number in [layout::VERSION, port, kind, 0] {
        out.extend(number.to_be_bytes());
    }
}

fn append_light_header(out: &mut Vec<u8>, kind: Kind) {
    append_prefix(out, kind.number() | layout::LIGHT, 0);
}

fn append_header(out: &mut Vec<u8>, header: &Header, kind: Kind) {
    append_prefix(out, kind.number(), header.port);
    for number in [header.current_epoch, header.config_epoch, header.offset] {
        out.extend(number.to_be_bytes());
    }
    out.extend(header.sender.as_bytes());
    header.slots.append_to(out);
    match &header.replica_of {
        Some(primary) => out.extend(primary.as_bytes()),
        None => out.extend([0; NodeId::LEN]),
    }
    append_address(out, header.address.as_ref());
    out.resize(layout::OTHER_PORT, 0);
    for number in [header.other_port, header.bus_port, header.flags.bits()] {
        out.extend(number.to_be_bytes());
    }
    out.extend([u8::from(!header.is_state_ok), header.mflags.bits(), 0, 0]);
}

fn append_address(out: &mut Vec<u8>, address: Option<&Address>) {
    let end = out.len() + layout::ADDRESS_LEN;
    let text = address.map(Address::to_string).unwrap_or_default();
    if text.len() <= Address::BYTES_MAX {
        out.extend(text.as_bytes());
    }
    out.resize(end, 0);
}

fn append_body(out: &mut Vec<u8>, body: &Body, has_extensions: bool) {
    match body {
        Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) => {
            append_gossip(out, gossip, has_extensions);
        }
        Body::Fail(id) => out.extend(id.as_bytes()),
        Body::Publish(publication) | Body::PublishShard(publication) => append_publication(out, publication),
        Body::FailoverAuthRequest | Body::FailoverAuthAck | Body::ManualFailoverStart => {}
        Body::Update(update) => {
            out.extend(update.config_epoch.to_be_bytes());
            out.extend(update.id.as_bytes());
            update.slots.append_to(out);
        }
        Body::Module(message) => append_module(out, message),
    }
}

fn append_gossip(out: &mut Vec<u8>, gossip: &Gossip, has_extensions: bool) {
    let mut count = 0_u16;
    for entry in gossip.entries.iter().take(usize::from(u16::MAX)) {
        append_entry(out, entry);
        count += 1;
    }
    put(out, layout::COUNT, &count.to_be_bytes());
    if has_extensions {
        let count = append_extensions(out, &gossip.extensions);
        put(out, layout::EXTENSIONS, &count.to_be_bytes());
    }
}

fn append_entry(out: &mut Vec<u8>, entry: &GossipEntry) {
    out.extend(entry.id.as_bytes());
    out.extend(entry.ping_sent_s.to_be_bytes());
    out.extend(entry.pong_received_s.to_be_bytes());
    append_address(out, entry.address.as_ref());
    for number in [entry.port, entry.bus_port, entry.flags.bits(), entry.other_port, 0] {
        out.extend(number.to_be_bytes());
    }
}

/// Writes the extensions that are set, in the order in which all servers send them, and returns their number.
fn append_extensions(out: &mut Vec<u8>, extensions: &Extensions) -> u16 {
    let mut count = 0_u16;
    let mut append = |kind: u16, data: &[&[u8]]| {
        count += 1;
        append_extension(out, kind, data);
    };
    let mut text = |kind: u16, text: &str| {
        if !text.is_empty() {
            append(kind, &[text.as_bytes(), b"\0"]);
        }
    };
    text(extension::HOSTNAME, extensions.hostname.as_str());
    text(extension::NODENAME, extensions.nodename.as_str());
    text(extension::CLIENT_IPV4, &extensions.client_ipv4.map(|ip| ip.to_string()).unwrap_or_default());
    text(
        extension::CLIENT_IPV6,
        &extensions.client_ipv6.as_ref().map(ToString::to_string).unwrap_or_default(),
    );
    let ports = [
        (extension::CLIENT_PORT, extensions.client_port),
        (extension::CLIENT_TLS_PORT, extensions.client_tls_port),
    ];
    for (kind, port) in ports {
        if let Some(port) = port {
            append(kind, &[&port.to_be_bytes(), &[0; 6]]);
        }
    }
    let zone = &extensions.availability_zone;
    if !zone.is_empty() {
        append(extension::AVAILABILITY_ZONE, &[zone.as_str().as_bytes(), b"\0"]);
    }
    // The others are few.
    const FORGOTTEN_MAX: usize = u16::MAX as usize - 8;
    for forgotten in extensions.forgotten.iter().take(FORGOTTEN_MAX) {
        append(extension::FORGOTTEN, &[forgotten.id.as_bytes(), &forgotten.ttl_s.to_be_bytes()]);
    }
    if let Some(shard_id) = &extensions.shard_id {
        append(extension::SHARD_ID, &[shard_id.as_bytes()]);
    }
    count
}

fn append_extension(out: &mut Vec<u8>, kind: u16, data: &[&[u8]]) {
    let data_len: usize = data.iter().map(|part| part.len()).sum();
    let len = (layout::EXTENSION_PREFIX_LEN + data_len).next_multiple_of(layout::EXTENSION_UNIT);
    let end = out.len() + len;
    // Texts and ids are short.
    out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend([0; 2]);
    for part in data {
        out.extend(*part);
    }
    out.resize(end, 0);
}

fn append_len(out: &mut Vec<u8>, len: usize) {
    // No command takes a text that is as long as that.
    out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
}

fn append_publication(out: &mut Vec<u8>, publication: &Publication) {
    append_len(out, publication.channel.len());
    append_len(out, publication.message.len());
    out.extend(&publication.channel);
    out.extend(&publication.message);
}

fn append_module(out: &mut Vec<u8>, message: &ModuleMessage) {
    out.extend(message.module);
    append_len(out, message.payload.len());
    out.push(message.kind);
    out.extend(&message.payload);
}
