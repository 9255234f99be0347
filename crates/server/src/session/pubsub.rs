//! Channels: who listens to what, and delivery.

use super::clients::{ClientSlot, Clients};
use std::collections::HashMap;
use wire::reply::ReplyBuffer;

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Channel,
    Pattern,
    ShardChannel,
}

type Listeners = HashMap<Box<[u8]>, Vec<ClientSlot>>;

#[derive(Default)]
pub struct PubSub {
    channels: Listeners,
    patterns: Listeners,
    shard_channels: Listeners,
}

impl PubSub {
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

    /// Returns whether the client was not subscribed yet.
    pub fn subscribe(&mut self, clients: &mut Clients, slot: ClientSlot, kind: Kind, name: &[u8]) -> bool {
        if !names_of(clients, slot, kind).insert(name.into()) {
            return false;
        }
        self.listeners_mut(kind).entry(name.into()).or_default().push(slot);
        true
    }

    /// Returns whether the client was subscribed.
    pub fn unsubscribe(&mut self, clients: &mut Clients, slot: ClientSlot, kind: Kind, name: &[u8]) -> bool {
        if !names_of(clients, slot, kind).remove(name) {
            return false;
        }
        let listeners = self.listeners_mut(kind);
        if let Some(list) = listeners.get_mut(name) {
            list.retain(|&other| other != slot);
            if list.is_empty() {
                listeners.remove(name);
            }
        }
        true
    }

    /// Forgets a client that goes.
    pub fn unsubscribe_all(&mut self, clients: &mut Clients, slot: ClientSlot) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::ShardChannel] {
            let names: Vec<_> = names_of(clients, slot, kind).iter().cloned().collect();
            for name in names {
                self.unsubscribe(clients, slot, kind, &name);
            }
        }
    }

    /// Delivers to the channel's listeners and to those of every pattern it matches; returns how many got it.
    pub fn publish(&self, clients: &mut Clients, channel: &[u8], message: &[u8]) -> usize {
        let mut receivers = 0;
        for &slot in self.channels.get(channel).into_iter().flatten() {
            clients.push(slot, |reply| message_parts(reply, "message", &[channel, message]));
            receivers += 1;
        }
        for (pattern, slots) in &self.patterns {
            if wire::glob::matches(pattern, channel) {
                for &slot in slots {
                    clients
                        .push(slot, |reply| message_parts(reply, "pmessage", &[pattern, channel, message]));
                    receivers += 1;
                }
            }
        }
        receivers
    }

    /// Delivers to the shard channel's listeners.
    pub fn publish_to_shard(&self, clients: &mut Clients, channel: &[u8], message: &[u8]) -> usize {
        let slots = self.shard_channels.get(channel).map_or(&[][..], |slots| slots);
        for &slot in slots {
            clients.push(slot, |reply| message_parts(reply, "smessage", &[channel, message]));
        }
        slots.len()
    }
}

fn names_of(
    clients: &mut Clients,
    slot: ClientSlot,
    kind: Kind,
) -> &mut std::collections::HashSet<Box<[u8]>> {
    let subscriptions = &mut clients[slot].subscriptions;
    match kind {
        Kind::Channel => &mut subscriptions.channels,
        Kind::Pattern => &mut subscriptions.patterns,
        Kind::ShardChannel => &mut subscriptions.shard_channels,
    }
}

fn message_parts(reply: &mut ReplyBuffer, word: &str, parts: &[&[u8]]) {
    reply.push(1 + parts.len());
    reply.bulk(word.as_bytes());
    for part in parts {
        reply.bulk(part);
    }
}
