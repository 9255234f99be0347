//! Clients that wait also for what others leave pending in a group of a stream (XREADGROUP with CLAIM): time alone may let
//! their commands run.
//!
//! All who wait for the same, of the same keys, wait for the same instant: the first of them is tried, and the others only
//! when it has been answered. While nothing is pending nobody is tried at all.

use super::blocked::Arrival;
use super::clients::ClientHandle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use structures::work;

/// What a command may claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimed {
    pub group: Box<[u8]>,
    pub db_index: usize,
    /// For how long it has to have been pending.
    pub idle_ms: i64,
    pub keys: Vec<Box<[u8]>>,
}

impl Claimed {
    /// What the place in the table takes, too.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 2 * (key.len() + size_of::<Box<[u8]>>())).sum();
        size_of::<Self>() + self.group.len() + keys
    }

    /// What orders before all that may be claimed of a group.
    fn first_of(group: &[u8]) -> Self {
        Claimed { group: group.into(), db_index: 0, idle_ms: i64::MIN, keys: Vec::new() }
    }
}

/// Those who wait to claim the same.
#[derive(Debug, Default)]
struct Claimants {
    waiters: BTreeMap<Arrival, ClientHandle>,
    /// When the first of them is tried; `None` while nothing is pending.
    due_us: Option<u64>,
}

/// Who waits to claim what, and when it may be there.
#[derive(Debug, Default)]
pub struct ClaimTable {
    claims: BTreeMap<Arc<Claimed>, Claimants>,
    due: BTreeSet<(u64, Arc<Claimed>)>,
    /// Claims that name a key, by that.
    by_key: BTreeMap<(usize, Box<[u8]>), BTreeSet<Arc<Claimed>>>,
}

impl ClaimTable {
    /// Adds a client; what it claims, as the table holds it.
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

    /// When the first of those who claim this is tried.
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

    /// Entries have come to be pending in a group, or, if `may_be_due_earlier`, are said to have been for longer than before.
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

    /// When the first client is to be tried.
    pub fn next_due_us(&self) -> Option<u64> {
        self.due.first().map(|&(due_us, _)| due_us)
    }

    /// Who is to be tried at `now_us`. It is the first of its claim again until it has gone, or that is put off.
    pub fn first_due(&self, now_us: u64) -> Option<ClientHandle> {
        let (_, claimed) = self.due.first().filter(|&&(due_us, _)| due_us <= now_us)?;
        work::visited(1);
        self.claims.get(claimed)?.waiters.first_key_value().map(|(_, &handle)| handle)
    }
}
