//! Client-side caching: the keys that clients may have cached, and the invalidation of stale copies.

use super::client::Client;
use super::clients::{ClientHandle, ClientId, Clients};
use super::members::Members;
use crate::acl::{UserHandle, Users};
use crate::command::access;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use structures::size_class::usable_size;
use wire::convert::signed_count;
use wire::reply::{Protocol, ReplyBuffer};

/// The channel on which RESP2 clients receive invalidations.
pub const INVALIDATE_CHANNEL: &[u8] = b"__redis__:invalidate";

/// Slots per key at which the table of readers shrinks.
const SPARSE: usize = 8;
/// Minimum capacity of the table.
const ROOM_KEPT: usize = 64;

/// Maximum number of keys visited by one call of [`TrackingTable::forget_departed`].
const KEYS_LOOKED_AT_MAX: usize = 5000;

/// Memory of a prefix besides its text: its entries in two trees, and a tree of one client.
const PREFIX_BYTES: usize = 260;

/// Memory of a tracked prefix. Each client is charged in full: each may be the last that holds the text.
fn prefix_bytes(prefix: &[u8]) -> usize {
    PREFIX_BYTES + usable_size(2 * size_of::<usize>() + prefix.len())
}

/// Memory of a tracked key besides its name: an entry in the table, which is two thirds full.
const TRACKED_KEY_BYTES: usize = 100;

/// Memory of a tracked key. Each client is charged in full: each may be the last one for which the key is tracked.
fn tracked_bytes(key: &[u8]) -> usize {
    TRACKED_KEY_BYTES + usable_size(key.len())
}

/// Maximum number of keys removed by one call of [`TrackingTable::limit`].
const KEYS_FORGOTTEN_MAX: usize = 100;

/// A client's options of CLIENT TRACKING ON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// REDIRECT: the client that receives the invalidations instead of this one.
    pub redirect: Option<ClientId>,
    /// The user that client must still have, unless this one may redirect to any user.
    pub redirect_user: Option<UserHandle>,
    /// BCAST: changes to all keys with the prefixes are sent.
    pub broadcast: bool,
    /// PREFIX: the prefixes of broadcast mode; an empty prefix matches all keys.
    pub prefixes: BTreeSet<Arc<[u8]>>,
    /// OPTIN: reads are tracked only after CLIENT CACHING YES.
    pub opt_in: bool,
    /// OPTOUT: reads are tracked except after CLIENT CACHING NO.
    pub opt_out: bool,
    /// NOLOOP: the client's own changes are not sent to it.
    pub no_loop: bool,
    /// The previous command was CLIENT CACHING, which applies to the current one.
    pub caching_given: bool,
    /// The client of REDIRECT has disconnected.
    pub broken_redirect: bool,
    /// Memory of the prefixes, here and in the table.
    pub prefixes_bytes: usize,
}

impl Tracking {
    /// Returns whether the keys that the current command reads are tracked.
    pub fn remembers_reads(&self) -> bool {
        let is_tracked = if self.opt_in { self.caching_given } else { !(self.opt_out && self.caching_given) };
        is_tracked && !self.broadcast
    }

    /// Returns the memory of the options and the prefixes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.prefixes_bytes
    }
}

/// The ids of the clients that have read a key.
type Readers = Members<ClientId>;

/// A broadcast prefix: its followers, and the changed keys below it.
#[derive(Default)]
struct Prefix {
    followers: BTreeSet<ClientHandle>,
    /// Since the last flush, with the last client to change the key.
    changed: BTreeMap<Box<[u8]>, Option<ClientHandle>>,
}

/// One key's readers by client id, and every broadcast prefix's followers.
#[derive(Default)]
pub struct TrackingTable {
    readers: IndexMap<Box<[u8]>, Readers>,
    /// Number of pairs of key and reader.
    items: usize,
    /// Index of the next key that [`Self::limit`] removes.
    forget_at: usize,
    /// Entries before this index may have readers that do not track keys any more.
    departed_before: usize,
    prefixes: BTreeMap<Arc<[u8]>, Prefix>,
    /// Number of prefixes of each length, for finding a key's prefixes.
    prefix_lens: BTreeMap<usize, usize>,
    /// Prefixes with changed keys since the last flush; some may have no followers any more.
    changed: BTreeSet<Arc<[u8]>>,
    /// Number of clients with tracking on.
    pub clients: usize,
}

impl TrackingTable {
    /// Returns the number of tracked keys.
    pub fn keys(&self) -> usize {
        self.readers.len()
    }

    /// Returns the number of pairs of key and reader.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Returns the number of broadcast prefixes.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Starts or changes tracking for a client. Prefixes are added to those it follows.
    pub fn enable(&mut self, clients: &mut Clients, handle: ClientHandle, mut tracking: Tracking) {
        if tracking.broadcast && tracking.prefixes.is_empty() {
            tracking.prefixes.insert(Arc::from(&b""[..]));
        }
        let wanted = std::mem::take(&mut tracking.prefixes);
        match clients[handle].tracking.take() {
            Some(previous) => {
                (tracking.prefixes, tracking.prefixes_bytes) = (previous.prefixes, previous.prefixes_bytes);
            }
            None => self.clients += 1,
        }
        for prefix in wanted {
            let bytes = prefix_bytes(&prefix);
            if tracking.prefixes.insert(self.follow(prefix, handle)) {
                tracking.prefixes_bytes += bytes;
            }
        }
        clients[handle].tracking = Some(Box::new(tracking));
    }

    /// Adds the client to the prefix's followers; returns the prefix as the table holds it.
    fn follow(&mut self, prefix: Arc<[u8]>, handle: ClientHandle) -> Arc<[u8]> {
        let shared = match self.prefixes.get_key_value(&prefix) {
            Some((shared, _)) => shared.clone(),
            None => {
                *self.prefix_lens.entry(prefix.len()).or_default() += 1;
                prefix
            }
        };
        self.prefixes.entry(shared.clone()).or_default().followers.insert(handle);
        shared
    }

    /// Ends tracking for a client. Its reads are removed when their keys change, or by [`Self::forget_departed`].
    pub fn disable(&mut self, clients: &mut Clients, handle: ClientHandle) {
        if clients[handle].tracked_bytes > 0 {
            self.departed_before = self.readers.len();
        }
        let Some(tracking) = clients[handle].tracking.take() else { return };
        self.clients -= 1;
        for prefix in &tracking.prefixes {
            let entry = self.prefixes.get_mut(prefix).expect("a followed prefix is in the table");
            entry.followers.remove(&handle);
            if entry.followers.is_empty() {
                self.prefixes.remove(prefix);
                self.forget_prefix_len(prefix.len());
            }
        }
    }

    fn forget_prefix_len(&mut self, len: usize) {
        let count = self.prefix_lens.get_mut(&len).expect("the lengths of all prefixes are counted");
        *count -= 1;
        if *count == 0 {
            self.prefix_lens.remove(&len);
        }
    }

    /// Records that the client read the key and may cache it; returns the memory of a new record, otherwise 0.
    pub fn remember(&mut self, id: ClientId, key: &[u8]) -> usize {
        let is_new = match self.readers.get_mut(key) {
            Some(readers) => readers.insert(id, ()),
            None => {
                self.readers.insert(key.into(), Readers::One(id, ()));
                true
            }
        };
        self.items += usize::from(is_new);
        if is_new { tracked_bytes(key) } else { 0 }
    }

    /// Handles a changed key while `current` runs a command: notifies its readers now, and followers of prefixes at the
    /// next flush. `changed_by_itself`: it was expired or evicted rather than changed by the command.
    pub fn key_changed(
        &mut self,
        clients: &mut Clients,
        key: &[u8],
        current: Option<ClientHandle>,
        changed_by_itself: bool,
    ) {
        if !self.prefixes.is_empty() {
            self.note_for_followers(key, current.filter(|_| !changed_by_itself));
        }
        self.invalidate_readers(clients, key, current);
    }

    fn note_for_followers(&mut self, key: &[u8], by: Option<ClientHandle>) {
        for (&len, _) in self.prefix_lens.range(..=key.len()) {
            let place = (Bound::Included(&key[..len]), Bound::Included(&key[..len]));
            if let Some((name, prefix)) = self.prefixes.range_mut::<[u8], _>(place).next() {
                if prefix.changed.is_empty() {
                    self.changed.insert(Arc::clone(name));
                }
                prefix.changed.insert(key.into(), by);
            }
        }
    }

    fn invalidate_readers(&mut self, clients: &mut Clients, key: &[u8], current: Option<ClientHandle>) {
        let Some(readers) = self.readers.swap_remove(key) else { return };
        self.shrink_if_sparse();
        self.items -= readers.len();
        for (id, ()) in readers.iter() {
            let Some(handle) = clients.by_id(id) else { continue };
            clients[handle].tracked_bytes -= tracked_bytes(key);
            // A client that has switched to broadcast mode receives changes by its prefixes only.
            let Some(tracking) = &clients[handle].tracking else { continue };
            let own_change = tracking.no_loop && current == Some(handle);
            if !tracking.broadcast && !own_change {
                send_invalidation(clients, handle, Stale::Keys(&[key]));
            }
        }
    }

    /// Handles FLUSHALL: all copies are stale.
    pub fn all_changed(&mut self, clients: &mut Clients) {
        if self.clients > 0 {
            let handles: Vec<_> = clients.iter().filter(|c| c.tracking.is_some()).map(|c| c.handle).collect();
            for handle in handles {
                send_invalidation(clients, handle, Stale::All);
            }
        }
        if self.items > 0 {
            clients.iter_mut().for_each(|client| client.tracked_bytes = 0);
        }
        self.readers = IndexMap::new();
        (self.items, self.departed_before) = (0, 0);
    }

    /// Removes the reads of clients that have disconnected or do not track keys any more, a limited number of keys at a time,
    /// and shrinks the table.
    pub fn forget_departed(&mut self, clients: &mut Clients) {
        if self.departed_before == 0 {
            return;
        }
        let mut at = self.departed_before.min(self.readers.len());
        let end = at.saturating_sub(KEYS_LOOKED_AT_MAX);
        // Backwards: a removed entry is replaced by the table's last one, which has been visited or is beyond this step.
        while at > end {
            at -= 1;
            let Some((key, readers)) = self.readers.get_index_mut(at) else { continue };
            let bytes = tracked_bytes(key);
            let before = readers.len();
            readers.retain(|id| {
                let Some(handle) = clients.by_id(id) else { return false };
                let stays = clients[handle].tracking.as_ref().is_some_and(|tracking| !tracking.broadcast);
                if !stays {
                    clients[handle].tracked_bytes -= bytes;
                }
                stays
            });
            self.items -= before - readers.len();
            if readers.is_empty() {
                self.readers.swap_remove_index(at);
            }
        }
        self.departed_before = end;
        self.shrink_if_sparse();
    }

    /// Shrinks a sparse table after removals.
    fn shrink_if_sparse(&mut self) {
        let (keys, room) = (self.readers.len(), self.readers.capacity());
        if room > ROOM_KEPT && room / SPARSE > keys {
            self.readers.shrink_to(keys * 2);
        }
    }

    /// Returns whether [`Self::forget_departed`] has entries left to visit.
    pub fn remembers_departed(&self) -> bool {
        self.departed_before > 0
    }

    /// Notifies followers of prefixes of the changes since the last flush, each in one message. Keys that a follower's
    /// user may not read are left out.
    pub fn flush_broadcasts(&mut self, clients: &mut Clients, users: &Users) {
        if self.changed.is_empty() {
            return;
        }
        for name in std::mem::take(&mut self.changed) {
            structures::work::visited(1);
            let Some(prefix) = self.prefixes.get_mut(&name) else { continue };
            let changed = std::mem::take(&mut prefix.changed);
            if changed.is_empty() {
                continue;
            }
            let all: Vec<&[u8]> = changed.keys().map(|key| &**key).collect();
            for &handle in &prefix.followers {
                let client = &clients[handle];
                let no_loop = client.tracking.as_ref().is_some_and(|tracking| tracking.no_loop);
                let user = client.user();
                let sees_all = users.permits_all(user);
                if !no_loop && sees_all {
                    send_invalidation(clients, handle, Stale::Keys(&all));
                    continue;
                }
                let by_others = changed.iter().filter(|(_, by)| !no_loop || **by != Some(handle));
                let keys = by_others.map(|(key, _)| &**key);
                let may_read = |key: &&[u8]| sees_all || users.permits_key(user, key, access::ACCESS);
                let keys: Vec<&[u8]> = keys.filter(may_read).collect();
                if !keys.is_empty() {
                    send_invalidation(clients, handle, Stale::Keys(&keys));
                }
            }
        }
    }

    /// While there are more than `keys_max` keys (0: no limit), removes some and sends invalidations to their readers.
    pub fn limit(&mut self, clients: &mut Clients, keys_max: usize) {
        if keys_max == 0 {
            return;
        }
        for _ in 0..KEYS_FORGOTTEN_MAX {
            if self.readers.len() <= keys_max {
                return;
            }
            // A removed slot is refilled with the newest key: round-robin removes old and new keys alike.
            self.forget_at = (self.forget_at + 1) % self.readers.len();
            let (key, _) = self.readers.get_index(self.forget_at).expect("the index is within the table");
            let key = key.clone();
            self.invalidate_readers(clients, &key, None);
        }
    }
}

/// The copies to invalidate.
enum Stale<'a> {
    Keys(&'a [&'a [u8]]),
    All,
}

/// Sends one invalidation, to the client or its redirection target.
fn send_invalidation(clients: &mut Clients, handle: ClientHandle, stale: Stale<'_>) {
    let tracking = clients[handle].tracking.as_ref();
    let redirect = tracking.and_then(|tracking| tracking.redirect);
    let redirect_user = tracking.and_then(|tracking| tracking.redirect_user);
    let may_hear = |target: &Client| {
        !target.is_closing() && redirect_user.is_none_or(|redirect_user| target.user() == redirect_user)
    };
    let target = match redirect {
        None => handle,
        Some(id) => match clients.by_id(id).filter(|&target| may_hear(&clients[target])) {
            Some(target) => target,
            None => return redirection_broken(clients, handle, id),
        },
    };
    let listens = redirect.is_some() && !clients[target].subscriptions.is_empty();
    // A null has the form of the caching client's protocol, also when another client receives it.
    let protocol = clients[handle].protocol();
    match clients[target].protocol() {
        Protocol::Resp3 => clients.push(target, |reply| {
            reply.push(2);
            reply.bulk(b"invalidate");
            write_keys(reply, stale, protocol);
        }),
        Protocol::Resp2 if listens => clients.push(target, |reply| {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(INVALIDATE_CHANNEL);
            write_keys(reply, stale, protocol);
        }),
        Protocol::Resp2 => {}
    }
}

fn redirection_broken(clients: &mut Clients, handle: ClientHandle, id: ClientId) {
    let Some(tracking) = clients[handle].tracking.as_mut() else { return };
    tracking.broken_redirect = true;
    if clients[handle].protocol() == Protocol::Resp3 {
        clients.push(handle, |reply| {
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(signed_count(id.0));
        });
    }
}

fn write_keys(reply: &mut ReplyBuffer, stale: Stale<'_>, protocol: Protocol) {
    match stale {
        Stale::All => reply.raw(if protocol == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" }),
        Stale::Keys(keys) => {
            reply.array(keys.len());
            for key in keys {
                reply.bulk(key);
            }
        }
    }
}
