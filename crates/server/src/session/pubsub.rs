//! Publish/subscribe: subscriptions and delivery.

use super::clients::{ClientHandle, Clients};
use super::members::Members;
use super::name_table::NameTable;
use std::collections::BTreeSet;
use std::sync::Arc;
use structures::size_class::usable_size;
use wire::reply::{Protocol, ReplyBuffer};

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    ShardChannel,
}

/// The subscriptions of one client.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Channels of SUBSCRIBE.
    pub channels: Names,
    /// Patterns of PSUBSCRIBE.
    pub patterns: Names,
    /// Channels of SSUBSCRIBE.
    pub shard_channels: Names,
    /// Memory of these subscriptions, here and in [`PubSub`].
    pub memory_bytes: usize,
}

/// Names in order. The text is shared with the table of listeners.
pub type Names = BTreeSet<Arc<[u8]>>;

/// Memory of a subscription besides its name: its entries in the client's set of names and in the table of names.
const SUBSCRIPTION_BYTES: usize = 115;

/// Memory of a subscription. Each client is charged in full: each may be the last that holds the name.
fn bytes_of(name: &[u8]) -> usize {
    SUBSCRIPTION_BYTES + usable_size(2 * size_of::<usize>() + name.len())
}

impl Subscriptions {
    /// Returns the number of channels and patterns, as SUBSCRIBE counts them.
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Returns whether there are no subscriptions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count() == 0 && self.shard_channels.is_empty()
    }

    /// Returns the names of this kind.
    pub fn of(&self, kind: Kind) -> &Names {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::ShardChannel => &self.shard_channels,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Names {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::ShardChannel => &mut self.shard_channels,
        }
    }
}

/// The listeners of each name, in ascending order of their handles.
pub type Listeners = NameTable<Arc<[u8]>, Members<ClientHandle>>;

/// The listeners of all channels and patterns.
#[derive(Default)]
pub struct PubSub {
    channels: Listeners,
    patterns: Listeners,
    shard_channels: Listeners,
}

impl PubSub {
    /// Returns the listeners of this kind.
    pub fn listeners(&self, kind: Kind) -> &Listeners {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::ShardChannel => &self.shard_channels,
        }
    }

    fn listeners_mut(&mut self, kind: Kind) -> &mut Listeners {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::ShardChannel => &mut self.shard_channels,
        }
    }

    /// Returns the number of clients subscribed to this name.
    pub fn listener_count(&self, kind: Kind, name: &[u8]) -> usize {
        self.listeners(kind).get(name).map_or(0, Members::len)
    }

    /// Subscribes a client; returns whether it was not subscribed yet.
    pub fn subscribe(
        &mut self,
        clients: &mut Clients,
        handle: ClientHandle,
        kind: Kind,
        name: &[u8],
    ) -> bool {
        let subscriptions = &mut clients[handle].subscriptions;
        if subscriptions.of(kind).contains(name) {
            return false;
        }
        let listeners = self.listeners_mut(kind);
        let shared = listeners.shared(name).map_or_else(|| Arc::from(name), Arc::clone);
        subscriptions.memory_bytes += bytes_of(name);
        subscriptions.of_mut(kind).insert(shared.clone());
        let is_new = listeners.get_or_default(shared).insert(handle, ());
        assert!(is_new, "a listener is also in its own set of names");
        true
    }

    /// Unsubscribes a client; returns whether it was subscribed.
    pub fn unsubscribe(
        &mut self,
        clients: &mut Clients,
        handle: ClientHandle,
        kind: Kind,
        name: &[u8],
    ) -> bool {
        let subscriptions = &mut clients[handle].subscriptions;
        if !subscriptions.of_mut(kind).remove(name) {
            return false;
        }
        subscriptions.memory_bytes -= bytes_of(name);
        let listeners = self.listeners_mut(kind);
        let handles = listeners.get_mut(name).expect("a subscribed name has listeners");
        let was_there = handles.remove(handle);
        assert!(was_there, "a subscriber is among the listeners");
        if handles.is_empty() {
            listeners.remove(name);
        }
        true
    }

    /// Removes a disconnected client.
    pub fn unsubscribe_all(&mut self, clients: &mut Clients, handle: ClientHandle) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::ShardChannel] {
            while let Some(name) = clients[handle].subscriptions.of(kind).first().cloned() {
                self.unsubscribe(clients, handle, kind, &name);
            }
        }
    }

    /// Unsubscribes all clients from the shard channels that `leaves` names, and tells them.
    pub fn leave_shard_channels(&mut self, clients: &mut Clients, leaves: impl Fn(&[u8]) -> bool) {
        let names: Vec<Arc<[u8]>> =
            self.shard_channels.keys().filter(|name| leaves(name)).map(Arc::clone).collect();
        for name in names {
            let handles: Vec<ClientHandle> = self
                .shard_channels
                .get(&name)
                .map(|handles| handles.iter().map(|(handle, _)| handle).collect())
                .unwrap_or_default();
            for handle in handles {
                self.unsubscribe(clients, handle, Kind::ShardChannel, &name);
                let count = clients[handle].subscriptions.shard_channels.len();
                clients.push(handle, |reply| {
                    reply.push(3);
                    reply.bulk(b"sunsubscribe");
                    reply.bulk(&name);
                    reply.count(count);
                });
            }
        }
    }

    /// Delivers to the channel's listeners and to those of each pattern that it matches; returns the number of deliveries.
    pub fn publish(&self, clients: &mut Clients, channel: &[u8], message: &[u8]) -> usize {
        let mut receivers = 0;
        if let Some(handles) = self.channels.get(channel) {
            receivers += deliver(clients, handles, &[b"message", channel, message]).listeners;
        }
        for (pattern, handles) in self.patterns.iter() {
            if wire::glob::matches(pattern, channel) {
                receivers += deliver(clients, handles, &[b"pmessage", pattern, channel, message]).listeners;
            }
        }
        receivers
    }

    /// Delivers to the shard channel's listeners.
    pub fn publish_to_shard(&self, clients: &mut Clients, channel: &[u8], message: &[u8]) -> Delivered {
        let Some(handles) = self.shard_channels.get(channel) else { return Delivered::default() };
        deliver(clients, handles, &[b"smessage", channel, message])
    }
}

/// What a message was delivered to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Number of listeners.
    pub listeners: usize,
    /// Bytes that they are sent.
    pub bytes: usize,
}

/// Encodes the message once per protocol version in use, and copies it to each listener.
fn deliver(clients: &mut Clients, handles: &Members<ClientHandle>, parts: &[&[u8]]) -> Delivered {
    let mut bytes = 0;
    let mut texts = [const { None }; 2];
    for (handle, _) in handles.iter() {
        let protocol = clients[handle].protocol();
        let text =
            texts[usize::from(protocol == Protocol::Resp3)].get_or_insert_with(|| written(protocol, parts));
        bytes += text.read_back().len();
        clients.push(handle, |reply| reply.raw(text.read_back()));
    }
    Delivered { listeners: handles.len(), bytes }
}

fn written(protocol: Protocol, parts: &[&[u8]]) -> ReplyBuffer {
    let mut text = ReplyBuffer::new(protocol);
    text.push(parts.len());
    for part in parts {
        text.bulk(part);
    }
    text
}
