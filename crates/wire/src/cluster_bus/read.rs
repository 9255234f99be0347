//! Bytes to values: the checks that each frame passes.

use super::layout::{self, extension};
use super::{
    Address, Body, EPOCH_MAX, Extensions, Forgotten, Frame, Gossip, GossipEntry, Header, Kind, Light,
    MessageFlags, ModuleMessage, NodeFlags, NodeId, Publication, SlotSet, Text, Update,
};
use std::fmt;

/// Why a frame is not read. Each drops the frame; those of [`Fault::closes_link`] leave no end that the next one
/// could follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The frame does not begin as frames do.
    Signature,
    /// The announced length is below that of a header.
    LengthBelowHeader(u32),
    /// The announced length is beyond what is read of this type.
    LengthBeyondLimit(u32),
    /// The announced length is not the sum of the parts' lengths.
    Length,
    /// Another version of the protocol.
    Version(u16),
    /// An unknown type.
    Type(u16),
    /// A light frame of a type that has none.
    LightType(Kind),
    /// An id has other characters than ids have.
    Id,
    /// A text does not end within its field.
    Text,
    /// An epoch that no cluster reaches.
    Epoch,
    /// An extension with a length that it cannot have.
    Extension(u16),
}

impl Fault {
    /// Returns whether nothing can be read from the link any more.
    pub fn closes_link(self) -> bool {
        matches!(self, Fault::Signature | Fault::LengthBelowHeader(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Signature => f.write_str("bad signature"),
            Fault::LengthBelowHeader(len) => write!(f, "length {len} is below that of a header"),
            Fault::LengthBeyondLimit(len) => write!(f, "length {len} is beyond the limit"),
            Fault::Length => f.write_str("length is not that of the content"),
            Fault::Version(version) => write!(f, "unknown version {version}"),
            Fault::Type(number) => write!(f, "unknown type {number}"),
            Fault::LightType(kind) => write!(f, "type '{}' has no light header", kind.name()),
            Fault::Id => f.write_str("invalid node id"),
            Fault::Text => f.write_str("unterminated text"),
            Fault::Epoch => f.write_str("epoch out of range"),
            Fault::Extension(kind) => write!(f, "bad length of extension {kind}"),
        }
    }
}

impl std::error::Error for Fault {}

/// The first 16 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Length of the whole frame, as announced.
    pub(super) len: u32,
    version: u16,
    /// Number of the type, known or not.
    number: u16,
    is_light: bool,
    gossip_count: u16,
}

impl Prefix {
    /// Reads the beginning of a frame. An error leaves no way to go on.
    pub(super) fn read(bytes: &[u8; layout::PREFIX_LEN]) -> Result<Prefix, Fault> {
        if bytes[..4] != layout::SIGNATURE {
            return Err(Fault::Signature);
        }
        let number = u16_at(bytes, layout::TYPE);
        let prefix = Prefix {
            len: u32::from_be_bytes(array_at(bytes, layout::LENGTH)),
            version: u16_at(bytes, layout::VERSION_AT),
            number: number & !layout::LIGHT,
            is_light: number & layout::LIGHT != 0,
            gossip_count: u16_at(bytes, layout::COUNT),
        };
        let header_len = if prefix.is_light { layout::PREFIX_LEN } else { layout::HEADER_LEN };
        if (prefix.len as usize) < header_len {
            return Err(Fault::LengthBelowHeader(prefix.len));
        }
        Ok(prefix)
    }

    /// The type, if it is known.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.number)
    }

    /// Decides whether the frame is worth its memory, before any of it is held. `message_bytes_max` is the limit for
    /// what publications and modules carry.
    pub(super) fn check(&self, message_bytes_max: usize) -> Result<Kind, Fault> {
        if self.version != layout::VERSION {
            return Err(Fault::Version(self.version));
        }
        let kind = self.kind().ok_or(Fault::Type(self.number))?;
        let is_fit_for_light = matches!(kind, Kind::Publish | Kind::PublishShard | Kind::Module);
        if self.is_light && !is_fit_for_light {
            return Err(Fault::LightType(kind));
        }
        let len = self.len as usize;
        let limit = match kind {
            Kind::Ping | Kind::Pong | Kind::Meet => {
                let gossip = usize::from(self.gossip_count) * layout::GOSSIP_LEN;
                layout::HEADER_LEN + gossip + EXTENSIONS_BYTES_MAX
            }
            Kind::Publish | Kind::PublishShard | Kind::Module => layout::HEADER_LEN + message_bytes_max,
            Kind::Fail => layout::HEADER_LEN + NodeId::LEN,
            Kind::FailoverAuthRequest | Kind::FailoverAuthAck | Kind::ManualFailoverStart => {
                layout::HEADER_LEN
            }
            Kind::Update => layout::HEADER_LEN + UPDATE_LEN,
        };
        if len > limit { Err(Fault::LengthBeyondLimit(self.len)) } else { Ok(kind) }
    }
}

/// Limit of the extensions of a frame: 18,000 forgotten nodes fit.
pub(super) const EXTENSIONS_BYTES_MAX: usize = 1 << 20;
const UPDATE_LEN: usize = 8 + NodeId::LEN + SlotSet::BYTES;

/// Reads a whole frame, which is as long as it has announced.
pub(super) fn read_frame(bytes: &[u8], message_bytes_max: usize) -> Result<Frame, Fault> {
    let prefix = Prefix::read(bytes.first_chunk().ok_or(Fault::Length)?)?;
    let kind = prefix.check(message_bytes_max)?;
    if bytes.len() != prefix.len as usize {
        return Err(Fault::Length);
    }
    if prefix.is_light {
        let mut rest = Rest(&bytes[layout::PREFIX_LEN..]);
        let light = match kind {
            Kind::Publish => Light::Publish(rest.publication()?),
            Kind::PublishShard => Light::PublishShard(rest.publication()?),
            _ => Light::Module(rest.module()?),
        };
        rest.end()?;
        return Ok(Frame::Light(light));
    }
    let (head, rest) = bytes.split_first_chunk::<{ layout::HEADER_LEN }>().ok_or(Fault::Length)?;
    let header = read_header(head)?;
    let body = read_body(kind, head, &header, Rest(rest))?;
    Ok(Frame::Full(Box::new(header), body))
}

fn read_header(bytes: &[u8; layout::HEADER_LEN]) -> Result<Header, Fault> {
    let replica_of: [u8; NodeId::LEN] = array_at(bytes, layout::REPLICA_OF);
    Ok(Header {
        sender: id(&array_at::<{ NodeId::LEN }>(bytes, layout::SENDER))?,
        port: u16_at(bytes, layout::PORT),
        other_port: u16_at(bytes, layout::OTHER_PORT),
        bus_port: u16_at(bytes, layout::BUS_PORT),
        current_epoch: epoch(array_at(bytes, layout::CURRENT_EPOCH))?,
        config_epoch: epoch(array_at(bytes, layout::CONFIG_EPOCH))?,
        offset: u64::from_be_bytes(array_at(bytes, layout::OFFSET)),
        slots: SlotSet::from_bytes(&array_at(bytes, layout::SLOTS)),
        replica_of: if replica_of == [0; NodeId::LEN] { None } else { Some(id(&replica_of)?) },
        address: address(&array_at::<{ layout::ADDRESS_LEN }>(bytes, layout::ADDRESS))?,
        flags: NodeFlags::from_bits(u16_at(bytes, layout::FLAGS)),
        is_state_ok: bytes[layout::STATE] == 0,
        mflags: MessageFlags::from_bits(bytes[layout::MESSAGE_FLAGS]),
    })
}

fn read_body(
    kind: Kind,
    head: &[u8; layout::HEADER_LEN],
    header: &Header,
    mut rest: Rest<'_>,
) -> Result<Body, Fault> {
    let gossip = |rest: &mut Rest<'_>| {
        let entries = rest.entries(u16_at(head, layout::COUNT))?;
        let extensions = match header.mflags.has_extensions {
            true => rest.extensions(u16_at(head, layout::EXTENSIONS))?,
            false => Extensions::default(),
        };
        Ok(Gossip { entries, extensions })
    };
    let body = match kind {
        Kind::Ping => Body::Ping(gossip(&mut rest)?),
        Kind::Pong => Body::Pong(gossip(&mut rest)?),
        Kind::Meet => Body::Meet(gossip(&mut rest)?),
        Kind::Fail => Body::Fail(rest.id()?),
        Kind::Publish => Body::Publish(rest.publication()?),
        Kind::PublishShard => Body::PublishShard(rest.publication()?),
        Kind::FailoverAuthRequest => Body::FailoverAuthRequest,
        Kind::FailoverAuthAck => Body::FailoverAuthAck,
        Kind::Update => {
            let config_epoch = epoch(*rest.array()?)?;
            let id = rest.id()?;
            Body::Update(Update { id, config_epoch, slots: SlotSet::from_bytes(rest.array()?) })
        }
        Kind::ManualFailoverStart => Body::ManualFailoverStart,
        Kind::Module => Body::Module(rest.module()?),
    };
    rest.end()?;
    Ok(body)
}

/// What of a frame has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Fault::Length)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const LEN: usize>(&mut self) -> Result<&'a [u8; LEN], Fault> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Fault::Length)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn len(&mut self) -> Result<usize, Fault> {
        Ok(u32::from_be_bytes(*self.array()?) as usize)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { Err(Fault::Length) }
    }

    fn id(&mut self) -> Result<NodeId, Fault> {
        id(self.array::<{ NodeId::LEN }>()?)
    }

    fn publication(&mut self) -> Result<Publication, Fault> {
        let (channel, message) = (self.len()?, self.len()?);
        Ok(Publication { channel: self.bytes(channel)?.to_vec(), message: self.bytes(message)?.to_vec() })
    }

    fn module(&mut self) -> Result<ModuleMessage, Fault> {
        let module = *self.array()?;
        let len = self.len()?;
        let [kind] = *self.array()?;
        Ok(ModuleMessage { module, kind, payload: self.bytes(len)?.to_vec() })
    }

    /// Reads gossip: all of it or, if one of the ids is none, nothing.
    fn entries(&mut self, count: u16) -> Result<Vec<GossipEntry>, Fault> {
        let bytes = self.bytes(usize::from(count) * layout::GOSSIP_LEN)?;
        let (entries, _) = bytes.as_chunks::<{ layout::GOSSIP_LEN }>();
        let mut read = Vec::with_capacity(entries.len());
        for bytes in entries {
            match entry(bytes) {
                Ok(entry) => read.push(entry),
                Err(Fault::Id) => return Ok(Vec::new()),
                Err(fault) => return Err(fault),
            }
        }
        Ok(read)
    }

    fn extensions(&mut self, count: u16) -> Result<Extensions, Fault> {
        let mut read = Extensions::default();
        for _ in 0..count {
            let len = self.len()?;
            let kind = u16::from_be_bytes(*self.array()?);
            self.bytes(2)?;
            if len % layout::EXTENSION_UNIT != 0 {
                return Err(Fault::Extension(kind));
            }
            let data_len = len.checked_sub(layout::EXTENSION_PREFIX_LEN).ok_or(Fault::Extension(kind))?;
            read_extension(&mut read, kind, self.bytes(data_len)?)?;
        }
        Ok(read)
    }
}

/// Reads one extension. Of several of a kind the last one counts; an unknown one is ignored.
fn read_extension(read: &mut Extensions, kind: u16, data: &[u8]) -> Result<(), Fault> {
    let port = || match data {
        [high, low, _, _, _, _, _, _] => {
            Ok(Some(u16::from_be_bytes([*high, *low])).filter(|port| *port != 0))
        }
        _ => Err(Fault::Extension(kind)),
    };
    match kind {
        extension::HOSTNAME => {
            read.hostname = Some(text(data)?).filter(Text::is_host_name).unwrap_or_default();
        }
        extension::NODENAME => read.nodename = text(data)?,
        extension::CLIENT_IPV4 => read.client_ipv4 = text(data)?.as_str().parse().ok(),
        extension::CLIENT_IPV6 => read.client_ipv6 = text(data)?.as_str().parse().ok(),
        extension::CLIENT_PORT => read.client_port = port()?,
        extension::CLIENT_TLS_PORT => read.client_tls_port = port()?,
        extension::AVAILABILITY_ZONE => read.availability_zone = text(data)?,
        extension::FORGOTTEN => {
            let mut rest = Rest(data);
            let read_one = |rest: &mut Rest<'_>| {
                let (id, ttl_s) = (*rest.array::<{ NodeId::LEN }>()?, u64::from_be_bytes(*rest.array()?));
                rest.end().map(|()| (id, ttl_s))
            };
            let (bytes, ttl_s) = read_one(&mut rest).map_err(|_| Fault::Extension(kind))?;
            read.forgotten.push(Forgotten { id: id(&bytes)?, ttl_s });
        }
        extension::SHARD_ID => {
            let bytes: &[u8; NodeId::LEN] = data.try_into().map_err(|_| Fault::Extension(kind))?;
            read.shard_id = Some(id(bytes)?);
        }
        _ => {}
    }
    Ok(())
}

fn entry(bytes: &[u8; layout::GOSSIP_LEN]) -> Result<GossipEntry, Fault> {
    let mut rest = Rest(bytes);
    Ok(GossipEntry {
        id: rest.id()?,
        ping_sent_s: u32::from_be_bytes(*rest.array()?),
        pong_received_s: u32::from_be_bytes(*rest.array()?),
        address: address(rest.array::<{ layout::ADDRESS_LEN }>()?)?,
        port: u16::from_be_bytes(*rest.array()?),
        bus_port: u16::from_be_bytes(*rest.array()?),
        flags: NodeFlags::from_bits(u16::from_be_bytes(*rest.array()?)),
        other_port: u16::from_be_bytes(*rest.array()?),
    })
}

fn id(bytes: &[u8]) -> Result<NodeId, Fault> {
    NodeId::parse(bytes).ok_or(Fault::Id)
}

fn epoch(bytes: [u8; 8]) -> Result<u64, Fault> {
    let epoch = u64::from_be_bytes(bytes);
    if epoch > EPOCH_MAX { Err(Fault::Epoch) } else { Ok(epoch) }
}

/// The bytes of a field before its first NUL.
fn terminated(field: &[u8]) -> Result<&[u8], Fault> {
    let end = memchr::memchr(0, field).ok_or(Fault::Text)?;
    Ok(&field[..end])
}

/// A text that no name can be is read as one that is not known: older servers allow more characters than are safe.
fn text(field: &[u8]) -> Result<Text, Fault> {
    let text = std::str::from_utf8(terminated(field)?).ok();
    Ok(text.and_then(Text::parse).unwrap_or_default())
}

fn address(field: &[u8]) -> Result<Option<Address>, Fault> {
    let text = std::str::from_utf8(terminated(field)?).ok();
    Ok(text.and_then(Address::parse))
}

/// The bytes at a position that the array is known to have.
fn array_at<const LEN: usize>(bytes: &[u8], position: usize) -> [u8; LEN] {
    let mut array = [0; LEN];
    array.copy_from_slice(&bytes[position..position + LEN]);
    array
}

fn u16_at(bytes: &[u8], position: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, position))
}
