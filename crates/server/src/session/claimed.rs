//! Clients blocked in XREADGROUP with CLAIM, which also wait for a group's pending entries: an entry becomes claimable
//! without a change to its key, once its idle time is reached.
//!
//! All clients with the same claim on the same keys become due at the same time: the first is tried, and the others
//! only once it has been served. Without pending entries no client is tried.

use super::blocked::Arrival;
use super::clients::ClientHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use structures::size_class::usable_size;
use structures::work;

/// The pending entries that a blocked command would claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimed {
    /// The consumer group.
    pub group: Box<[u8]>,
    /// Database of the keys.
    pub db_index: usize,
    /// Minimum idle time of an entry.
    pub idle_ms: i64,
    /// Streams of the command.
    pub keys: Vec<Box<[u8]>>,
}

/// Memory of a key besides its name, which is held twice: its entries in the list of keys and in the table by key, and a
/// set of one claim.
const CLAIMED_KEY_BYTES: usize = 230;

impl Claimed {
    /// Returns the memory of the claim, including its entries in the table. Each client is charged in full: each may be the
    /// last that holds it.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 2 * usable_size(key.len()) + CLAIMED_KEY_BYTES).sum();
        size_of::<Self>() + usable_size(self.group.len()) + keys
    }

    /// Returns the value that sorts before all claims of a group.
    fn first_of(group: &[u8]) -> Self {
        Claimed { group: group.into(), db_index: 0, idle_ms: i64::MIN, keys: Vec::new() }
    }
}

/// Clients waiting for the same claim.
#[derive(Debug, Default)]
struct Claimants {
    waiters: BTreeMap<Arrival, ClientHandle>,
    /// Monotonic time at which the first client is tried; `None` while nothing is pending.
    due_us: Option<u64>,
}

/// Waiting clients by claim, with due times.
#[derive(Debug, Default)]
pub struct ClaimTable {
    claims: BTreeMap<Arc<Claimed>, Claimants>,
    due: BTreeSet<(u64, Arc<Claimed>)>,
    /// Claims by key.
    by_key: BTreeMap<(usize, Box<[u8]>), BTreeSet<Arc<Claimed>>>,
}

impl ClaimTable {
    /// Adds a client; returns its claim as the table holds it.
    pub fn join(&mut self, claimed: Claimed, arrival: Arrival, handle: ClientHandle) -> Arc<Claimed> {
        let shared = match self.claims.get_key_value(&claimed) {
            Some((shared, _)) => Arc::clone(shared),
            None => {
                let shared = Arc::new(claimed);
                for key in &shared.keys {
                    let of_key = self.by_key.entry((shared.db_index, key.clone())).or_default();
                    of_key.insert(Arc::clone(&shared));
                }
                shared
            }
        };
        self.claims.entry(Arc::clone(&shared)).or_default().waiters.insert(arrival, handle);
        shared
    }

    /// Removes a client.
    pub fn leave(&mut self, claimed: &Arc<Claimed>, arrival: Arrival) {
        let Some(claimants) = self.claims.get_mut(claimed) else { return };
        claimants.waiters.remove(&arrival);
        if !claimants.waiters.is_empty() {
            return;
        }
        self.set_due(claimed, None);
        self.claims.remove(claimed);
        for key in &claimed.keys {
            let place = (claimed.db_index, key.clone());
            let Some(of_key) = self.by_key.get_mut(&place) else { continue };
            of_key.remove(claimed);
            if of_key.is_empty() {
                self.by_key.remove(&place);
            }
        }
    }

    /// Sets when the first client of this claim is tried.
    pub fn set_due(&mut self, claimed: &Arc<Claimed>, due_us: Option<u64>) {
        let Some(claimants) = self.claims.get_mut(claimed) else { return };
        let before_us = std::mem::replace(&mut claimants.due_us, due_us);
        if before_us == due_us {
            return;
        }
        if let Some(before_us) = before_us {
            self.due.remove(&(before_us, Arc::clone(claimed)));
        }
        self.due.extend(due_us.map(|due_us| (due_us, Arc::clone(claimed))));
    }

    /// Handles new pending entries of a group, or, if `may_be_due_earlier`, entries whose idle time was increased.
    pub fn became_pending(
        &mut self,
        (db_index, key): (usize, &[u8]),
        group: &[u8],
        may_be_due_earlier: bool,
        now_us: u64,
    ) {
        let Some(of_key) = self.by_key.get(&(db_index, key.into())) else { return };
        let of_group = of_key.range::<Claimed, _>(Claimed::first_of(group)..);
        let concerned = of_group.take_while(|claimed| *claimed.group == *group);
        for claimed in concerned.cloned().collect::<Vec<_>>() {
            work::visited(1);
            let is_idle = self.claims.get(&claimed).is_some_and(|claimants| claimants.due_us.is_none());
            if is_idle || may_be_due_earlier {
                self.set_due(&claimed, Some(now_us));
            }
        }
    }

    /// Returns when the first client is to be tried.
    pub fn next_due_us(&self) -> Option<u64> {
        self.due.first().map(|&(due_us, _)| due_us)
    }

    /// Returns the client to try at `now_us`: the first of its claim, until it leaves or its due time is set later.
    pub fn first_due(&self, now_us: u64) -> Option<ClientHandle> {
        let (_, claimed) = self.due.first().filter(|&&(due_us, _)| due_us <= now_us)?;
        work::visited(1);
        self.claims.get(claimed)?.waiters.first_key_value().map(|(_, &handle)| handle)
    }
}
