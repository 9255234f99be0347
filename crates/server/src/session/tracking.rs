//! Client-side caching: who holds a copy of which keys, and telling them when a copy is stale.

use super::clients::{ClientSlot, Clients};
use std::collections::{BTreeMap, HashMap, HashSet};
use wire::reply::{Protocol, ReplyBuffer};

/// The channel on which RESP2 clients hear of stale keys.
pub const INVALIDATE_CHANNEL: &[u8] = b"__redis__:invalidate";

/// What CLIENT TRACKING ON chose for one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// The id of the client to tell instead of this one.
    pub redirect: Option<u64>,
    pub broadcast: bool,
    /// In broadcast mode, the prefixes of interest; an empty prefix is all keys.
    pub prefixes: Vec<Box<[u8]>>,
    pub opt_in: bool,
    pub opt_out: bool,
    pub no_loop: bool,
    /// CLIENT CACHING was the last command: its choice holds for the next one.
    pub caching: Option<bool>,
    /// The client redirected to is gone.
    pub broken_redirect: bool,
}

/// One key's readers by client id, and every broadcast prefix's followers.
#[derive(Default)]
pub struct TrackingTable {
    readers: HashMap<Box<[u8]>, HashSet<u64>>,
    items: usize,
    prefixes: BTreeMap<Box<[u8]>, Vec<ClientSlot>>,
    /// Clients with tracking on.
    pub clients: usize,
    /// Keys that changed for each prefix since the last flush, with the client that changed them.
    changed: Vec<(Box<[u8]>, Option<ClientSlot>)>,
}

impl TrackingTable {
    pub fn keys(&self) -> usize {
        self.readers.len()
    }

    /// Pairs of key and reader.
    pub fn items(&self) -> usize {
        self.items
    }

    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Starts or changes tracking for a client.
    pub fn enable(&mut self, clients: &mut Clients, slot: ClientSlot, tracking: Tracking) {
        for prefix in &tracking.prefixes {
            let followers = self.prefixes.entry(prefix.clone()).or_default();
            if !followers.contains(&slot) {
                followers.push(slot);
            }
        }
        if clients[slot].tracking.replace(Box::new(tracking)).is_none() {
            self.clients += 1;
        }
    }

    /// Ends tracking for a client; what it had read is forgotten when those keys next change.
    pub fn disable(&mut self, clients: &mut Clients, slot: ClientSlot) {
        let Some(tracking) = clients[slot].tracking.take() else { return };
        self.clients -= 1;
        for prefix in &tracking.prefixes {
            if let Some(followers) = self.prefixes.get_mut(prefix) {
                followers.retain(|&other| other != slot);
                if followers.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
    }

    /// The client read the key and may keep a copy.
    pub fn remember(&mut self, id: u64, key: &[u8]) {
        let readers = match self.readers.get_mut(key) {
            Some(readers) => readers,
            None => self.readers.entry(key.into()).or_default(),
        };
        if readers.insert(id) {
            self.items += 1;
        }
    }

    /// A key changed, by `by` if by a client: tells its readers now and prefix followers at the next flush.
    pub fn key_changed(&mut self, clients: &mut Clients, key: &[u8], by: Option<ClientSlot>) {
        if !self.prefixes.is_empty() {
            self.changed.push((key.into(), by));
        }
        let Some(readers) = self.readers.remove(key) else { return };
        self.items -= readers.len();
        for id in readers {
            let Some(slot) = clients.by_id(id) else { continue };
            let wants = clients[slot]
                .tracking
                .as_ref()
                .is_some_and(|t| !t.broadcast && !(t.no_loop && by == Some(slot)));
            if wants {
                tell(clients, slot, Some(&[key]));
            }
        }
    }

    /// Everything changed (FLUSHALL): all copies are stale.
    pub fn all_changed(&mut self, clients: &mut Clients) {
        let slots: Vec<_> = clients.iter().filter(|c| c.tracking.is_some()).map(|c| c.slot).collect();
        for slot in slots {
            tell(clients, slot, None);
        }
        self.readers.clear();
        self.items = 0;
    }

    /// Tells followers of prefixes what changed since the last time, each in one message.
    pub fn flush_broadcasts(&mut self, clients: &mut Clients) {
        if self.changed.is_empty() {
            return;
        }
        let changed = std::mem::take(&mut self.changed);
        let prefixes: Vec<_> = self.prefixes.iter().map(|(p, f)| (p.clone(), f.clone())).collect();
        for (prefix, followers) in prefixes {
            for slot in followers {
                let no_loop = clients[slot].tracking.as_ref().is_some_and(|t| t.no_loop);
                let mut seen = HashSet::new();
                let keys: Vec<&[u8]> = changed
                    .iter()
                    .filter(|(key, by)| key.starts_with(&prefix) && !(no_loop && *by == Some(slot)))
                    .map(|(key, _)| &**key)
                    .filter(|key| seen.insert(*key))
                    .collect();
                if !keys.is_empty() {
                    tell(clients, slot, Some(&keys));
                }
            }
        }
    }

    /// Forgets keys until at most `keys_max` remain, telling their readers as if they had changed.
    pub fn limit(&mut self, clients: &mut Clients, keys_max: usize) {
        while self.readers.len() > keys_max {
            let Some(key) = self.readers.keys().next().cloned() else { return };
            self.key_changed(clients, &key, None);
        }
    }
}

/// Sends one invalidation, to the client or to whom it redirects; `None` means all keys.
fn tell(clients: &mut Clients, slot: ClientSlot, keys: Option<&[&[u8]]>) {
    let redirect = clients[slot].tracking.as_ref().and_then(|t| t.redirect);
    let target = match redirect.map(|id| clients.by_id(id)) {
        None => slot,
        Some(Some(target)) => target,
        Some(None) => return redirection_broken(clients, slot),
    };
    let subscribed = clients[target].subscriptions.channels.contains(INVALIDATE_CHANNEL);
    match clients[target].protocol() {
        Protocol::Resp3 => clients.push(target, |reply| {
            reply.push(2);
            reply.bulk(b"invalidate");
            write_keys(reply, keys);
        }),
        Protocol::Resp2 if redirect.is_some() && subscribed => clients.push(target, |reply| {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(INVALIDATE_CHANNEL);
            write_keys(reply, keys);
        }),
        Protocol::Resp2 => {}
    }
}

fn redirection_broken(clients: &mut Clients, slot: ClientSlot) {
    let Some(tracking) = clients[slot].tracking.as_mut() else { return };
    tracking.broken_redirect = true;
    let id = tracking.redirect.unwrap_or(0);
    if clients[slot].protocol() == Protocol::Resp3 {
        clients.push(slot, |reply| {
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(id as i64);
        });
    }
}

fn write_keys(reply: &mut ReplyBuffer, keys: Option<&[&[u8]]>) {
    match keys {
        None => reply.null(),
        Some(keys) => {
            reply.array(keys.len());
            for key in keys {
                reply.bulk(key);
            }
        }
    }
}
