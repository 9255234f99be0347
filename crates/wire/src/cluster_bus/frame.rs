//! Frames as values.

use super::{Address, Extensions, MessageFlags, NodeFlags, NodeId, SlotSet};

/// What a link carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A frame with a header about its sender.
    Full(Box<Header>, Body),
    /// A frame without sender, which is known by its link.
    Light(Light),
}

impl Frame {
    /// Returns the frame's type, for counts.
    pub fn kind(&self) -> Kind {
        match self {
            Frame::Full(_, body) => body.kind(),
            Frame::Light(Light::Publish(_)) => Kind::Publish,
            Frame::Light(Light::PublishShard(_)) => Kind::PublishShard,
            Frame::Light(Light::Module(_)) => Kind::Module,
        }
    }
}

/// The header of a full frame: the state of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sender.
    pub sender: NodeId,
    /// Port for clients: with `tls-cluster` that of TLS.
    pub port: u16,
    /// The other port for clients, or 0.
    pub other_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Highest epoch that the sender knows.
    pub current_epoch: u64,
    /// Epoch of the sender's slots; of a replica, of its primary's.
    pub config_epoch: u64,
    /// Replication offset.
    pub offset: u64,
    /// Slots that the sender claims; of a replica, those of its primary.
    pub slots: SlotSet,
    /// Primary of a replica.
    pub replica_of: Option<NodeId>,
    /// Where the sender wants to be reached. Otherwise its link's other end is its address.
    pub address: Option<Address>,
    /// The sender's own flags.
    pub flags: NodeFlags,
    /// The cluster works, as the sender sees it.
    pub is_state_ok: bool,
    /// Flags of this frame.
    pub mflags: MessageFlags,
}

/// What follows a full header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Asks for a PONG.
    Ping(Gossip),
    /// Answers PING and MEET, or announces a change.
    Pong(Gossip),
    /// Begins a handshake.
    Meet(Gossip),
    /// A node has failed.
    Fail(NodeId),
    /// A message for subscribers on all nodes.
    Publish(Publication),
    /// A message for subscribers of a shard's channel.
    PublishShard(Publication),
    /// A replica asks for votes.
    FailoverAuthRequest,
    /// A primary's vote.
    FailoverAuthAck,
    /// Slots of a node that the receiver does not know of.
    Update(Update),
    /// A replica asks its primary to let it take over.
    ManualFailoverStart,
    /// A message of a module.
    Module(ModuleMessage),
}

impl Body {
    /// Returns the frame's type.
    pub fn kind(&self) -> Kind {
        match self {
            Body::Ping(_) => Kind::Ping,
            Body::Pong(_) => Kind::Pong,
            Body::Meet(_) => Kind::Meet,
            Body::Fail(_) => Kind::Fail,
            Body::Publish(_) => Kind::Publish,
            Body::PublishShard(_) => Kind::PublishShard,
            Body::FailoverAuthRequest => Kind::FailoverAuthRequest,
            Body::FailoverAuthAck => Kind::FailoverAuthAck,
            Body::Update(_) => Kind::Update,
            Body::ManualFailoverStart => Kind::ManualFailoverStart,
            Body::Module(_) => Kind::Module,
        }
    }
}

/// What a light frame carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Light {
    /// A message for subscribers on all nodes.
    Publish(Publication),
    /// A message for subscribers of a shard's channel.
    PublishShard(Publication),
    /// A message of a module.
    Module(ModuleMessage),
}

/// What PING, PONG and MEET carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gossip {
    /// What the sender says about other nodes. Empty if one of the ids was no id.
    pub entries: Vec<GossipEntry>,
    /// What the sender says about itself. They are sent and read if the header's flags have `has_extensions`.
    pub extensions: Extensions,
}

/// What the sender of a frame says about another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipEntry {
    /// The node.
    pub id: NodeId,
    /// When the sender sent it a PING that is not answered, in seconds since 1970, or 0.
    pub ping_sent_s: u32,
    /// When the sender last got a PONG from it, in seconds since 1970, or 0.
    pub pong_received_s: u32,
    /// Its address, if the sender knows one.
    pub address: Option<Address>,
    /// Port for clients: with `tls-cluster` that of TLS.
    pub port: u16,
    /// The other port for clients, or 0.
    pub other_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// What the sender has noted about it.
    pub flags: NodeFlags,
}

/// A message for subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Channel.
    pub channel: Vec<u8>,
    /// Message.
    pub message: Vec<u8>,
}

/// Slots of a primary, sent to a node that claims some of them with an older epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The primary.
    pub id: NodeId,
    /// Epoch of its slots.
    pub config_epoch: u64,
    /// Its slots.
    pub slots: SlotSet,
}

/// A message from a module to a module of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleMessage {
    /// The module, in the order of bytes of the frame.
    pub module: [u8; 8],
    /// What the module calls its kind.
    pub kind: u8,
    /// Its content.
    pub payload: Vec<u8>,
}

/// The types of frames, with their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// PING.
    Ping = 0,
    /// PONG.
    Pong = 1,
    /// MEET.
    Meet = 2,
    /// FAIL.
    Fail = 3,
    /// PUBLISH.
    Publish = 4,
    /// FAILOVER_AUTH_REQUEST.
    FailoverAuthRequest = 5,
    /// FAILOVER_AUTH_ACK.
    FailoverAuthAck = 6,
    /// UPDATE.
    Update = 7,
    /// MFSTART.
    ManualFailoverStart = 8,
    /// MODULE.
    Module = 9,
    /// PUBLISHSHARD.
    PublishShard = 10,
}

impl Kind {
    /// All types, by their numbers.
    pub const ALL: [Kind; 11] = [
        Kind::Ping,
        Kind::Pong,
        Kind::Meet,
        Kind::Fail,
        Kind::Publish,
        Kind::FailoverAuthRequest,
        Kind::FailoverAuthAck,
        Kind::Update,
        Kind::ManualFailoverStart,
        Kind::Module,
        Kind::PublishShard,
    ];

    /// Returns the type that has this number.
    pub fn from_number(number: u16) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the type's name in CLUSTER INFO.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Ping => "ping",
            Kind::Pong => "pong",
            Kind::Meet => "meet",
            Kind::Fail => "fail",
            Kind::Publish => "publish",
            Kind::FailoverAuthRequest => "auth-req",
            Kind::FailoverAuthAck => "auth-ack",
            Kind::Update => "update",
            Kind::ManualFailoverStart => "mfstart",
            Kind::Module => "module",
            Kind::PublishShard => "publishshard",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_their_places() {
        for (number, kind) in (0..).zip(Kind::ALL) {
            assert_eq!((kind.number(), Kind::from_number(number)), (number, Some(kind)));
        }
        assert_eq!(Kind::from_number(11), None);
    }
}
