//! Which acknowledged writes must exist in the end. A write may be lost only for one of these reasons, each of which is
//! noted when it occurs:
//!
//! 1. A crash: it was not on the disk of the owner of its slot, or the ownership was not.
//! 2. A failover: it was not on the replica that took the slot, or a deposed primary has acknowledged it.
//! 3. The source of a migration has given up waiting for the claim, and has warned of that.
//! 4. A client has deleted it.

use std::collections::BTreeMap;

use crate::data::{has_keys, slots_with_keys};
use crate::network::Host;
use crate::world::World;
use cluster::JobId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    MayBeLost,
    /// Deleted by a client.
    Deleted,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    slot: u16,
    /// Who has acknowledged it.
    host: Host,
    fate: Fate,
}

/// How a server got a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a migration from this host, which had been started that often, and has not given the slot up since.
    Migration(Host, u64),
    /// By a failover, a restart or an operator.
    Other,
}

/// All writes, by their numbers from 1.
#[derive(Default)]
pub struct Ledger {
    writes: Vec<Write>,
    of_slot: BTreeMap<u16, Vec<u64>>,
}

impl Ledger {
    fn add(&mut self, slot: u16, host: Host, fate: Fate) -> u64 {
        self.writes.push(Write { slot, host, fate });
        let number = self.writes.len() as u64;
        self.of_slot.entry(slot).or_default().push(number);
        number
    }

    fn get_mut(&mut self, write: u64) -> &mut Write {
        &mut self.writes[write as usize - 1]
    }

    /// A write that must exist may be lost from now on.
    fn give_up(&mut self, write: u64) {
        let write = self.get_mut(write);
        if write.fate == Fate::Kept {
            write.fate = Fate::MayBeLost;
        }
    }

    fn is_deleted(&self, write: u64) -> bool {
        self.writes[write as usize - 1].fate == Fate::Deleted
    }

    /// Writes that may be lost.
    pub fn excused(&self) -> u64 {
        self.writes.iter().filter(|write| write.fate == Fate::MayBeLost).count() as u64
    }

    fn kept_in(&self, slot: u16) -> Vec<u64> {
        let writes = self.of_slot.get(&slot).into_iter().flatten().copied();
        writes.filter(|write| self.writes[*write as usize - 1].fate == Fate::Kept).collect()
    }
}

/// What a server claims: its epoch and its slots with keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rights {
    pub epoch: u64,
    pub slots: BTreeMap<u16, Origin>,
}

impl World {
    /// Another server that claims a slot of this one, with the same right or a better one: it has no smaller epoch, or the
    /// other is the source that will give the slot up.
    fn rival(&self, host: Host, slot: u16) -> Option<(Host, Origin)> {
        let rights = &self.servers[host].rights;
        let mine = rights.slots.get(&slot).copied();
        let others = self.servers.iter().filter(|server| server.host != host);
        let mut rivals = others.filter_map(|server| {
            let origin = *server.rights.slots.get(&slot)?;
            let is_better = self.is_granted_by(host, slot, Some(origin))
                || !self.is_granted_by(server.host, slot, mine) && server.rights.epoch >= rights.epoch;
            is_better.then_some((server.host, origin))
        });
        rivals.next()
    }

    /// A slot was taken from this source, which will give it up when it hears of that.
    fn is_granted_by(&self, source: Host, slot: u16, origin: Option<Origin>) -> bool {
        let server = &self.servers[source];
        origin == Some(Origin::Migration(source, server.starts)) && !server.at_risk.contains_key(&slot)
    }

    fn has_other_claim(&self, host: Host, slot: u16) -> bool {
        self.servers.iter().any(|server| server.host != host && server.rights.slots.contains_key(&slot))
    }

    /// A host acknowledges a write; returns its number.
    pub fn note_write(&mut self, host: Host, slot: u16) -> u64 {
        self.figures.writes += 1;
        let server = &self.servers[host];
        let Some((other, origin)) = self.rival(host, slot) else {
            return self.ledger.add(slot, host, Fate::Kept);
        };
        let is_at_risk =
            server.at_risk.contains_key(&slot) || self.servers[other].at_risk.contains_key(&slot);
        let is_source = origin == Origin::Migration(host, server.starts);
        let text = format!("R{host} acknowledges a write to slot {slot}, which is R{other}'s by {origin:?}");
        assert!(is_at_risk || self.has_failures && !is_source, "{}", self.report(&text));
        self.figures.writes_at_risk += u64::from(is_at_risk);
        self.ledger.add(slot, host, Fate::MayBeLost)
    }

    /// A target has taken the slots of its job: it has all writes, unless the source was replaced.
    pub fn note_claim(&mut self, host: Host, job: JobId) {
        let Some(cluster) = &self.servers[host].cluster else { return };
        let Some(job) = cluster.migration(job) else { return };
        let (slots, source) = (job.slots().clone(), job.other().and_then(|source| self.host_with(source)));
        let Some(source) = source else { return };
        self.figures.slot_claims += 1;
        let starts = self.servers[source].starts;
        for slot in slots.iter().filter(|slot| has_keys(*slot)) {
            let rights = |server: &crate::host::Server| server.rights.slots.contains_key(&slot);
            let is_contested = self
                .servers
                .iter()
                .any(|server| server.host != source && server.host != host && rights(server));
            let is_cancelled = self.servers[source].at_risk.get(&slot) == Some(&true);
            for write in self.ledger.kept_in(slot) {
                if self.servers[host].data.contains(slot, write) {
                    continue;
                }
                let text = format!("R{host} takes slot {slot} from R{source} without write {write}");
                assert!(is_contested || is_cancelled, "{}", self.report(&text));
                self.ledger.give_up(write);
            }
            self.servers[host].rights.slots.insert(slot, Origin::Migration(source, starts));
            self.servers[host].claimed.insert(slot);
            self.servers[host].at_risk.remove(&slot);
        }
    }

    /// A source says that it serves slots again which a target may have taken.
    pub fn note_risk(&mut self, host: Host, text: &str) {
        let Some(cluster) = &self.servers[host].cluster else { return };
        let slots = cluster.migrations().filter(|job| text.contains(job.name().as_str()));
        let slots: Vec<u16> =
            slots.flat_map(|job| job.slots().iter()).filter(|slot| has_keys(*slot)).collect();
        let is_cancelled = text.contains("is canceled");
        self.servers[host].at_risk.extend(slots.iter().map(|slot| (*slot, is_cancelled)));
        for slot in slots {
            self.give_up_beaten(host, slot);
        }
    }

    /// Compares what a server claims with what it claimed before: a claim that does not come from a migration may lose
    /// writes that the server lacks, where accidents are allowed that lead to such claims.
    pub fn note_rights(&mut self, host: Host) {
        let Some(cluster) = &self.servers[host].cluster else { return };
        let is_primary = cluster.myself().is_primary();
        let epoch = cluster.epoch_of(cluster.myself());
        let owned: Vec<u16> = slots_with_keys().filter(|slot| is_primary && cluster.owns(*slot)).collect();
        let before = std::mem::take(&mut self.servers[host].rights);
        let claimed = std::mem::take(&mut self.servers[host].claimed);
        let mut slots = BTreeMap::new();
        for slot in owned {
            let origin = before.slots.get(&slot).copied();
            slots.insert(slot, origin.unwrap_or(Origin::Other));
        }
        for slot in before.slots.keys().filter(|slot| !slots.contains_key(slot)) {
            self.servers[host].at_risk.remove(slot);
            self.note_loss(host, *slot);
        }
        let new: Vec<u16> = slots.keys().copied().filter(|slot| !before.slots.contains_key(slot)).collect();
        let has_newer_epoch = epoch != before.epoch;
        let old = before.slots.into_keys().filter(|slot| has_newer_epoch && !claimed.contains(slot));
        let old: Vec<u16> = old.filter(|slot| slots.contains_key(slot)).collect();
        self.servers[host].rights = Rights { epoch, slots };
        for slot in new {
            self.give_up_missing(host, slot);
        }
        for slot in old {
            self.give_up_beaten(host, slot);
        }
    }

    /// Another server may have to give a slot up for this one.
    fn give_up_beaten(&mut self, host: Host, slot: u16) {
        let is_owner = self.servers[host].rights.slots.contains_key(&slot);
        if is_owner && self.has_other_claim(host, slot) && self.rival(host, slot).is_none() {
            self.give_up_missing(host, slot);
        }
    }

    /// A server has given a slot up: the target that took it from there has no rival.
    fn note_loss(&mut self, host: Host, slot: u16) {
        for server in &mut self.servers {
            let origin = server.rights.slots.get_mut(&slot);
            if let Some(origin) =
                origin.filter(|origin| matches!(origin, Origin::Migration(from, ..) if *from == host))
            {
                *origin = Origin::Other;
            }
        }
    }

    /// A server gets the right to a slot: what it lacks of the slot's writes may be lost, and what it has of deleted ones may
    /// come back.
    fn give_up_missing(&mut self, host: Host, slot: u16) {
        let data = &self.servers[host].data;
        let kept = self.ledger.kept_in(slot).into_iter();
        let mut wrong: Vec<u64> = kept.filter(|write| !data.contains(slot, *write)).collect();
        wrong.extend(data.writes_of(slot).filter(|write| self.ledger.is_deleted(*write)));
        if wrong.is_empty() {
            return;
        }
        let text = format!("R{host} gets slot {slot} without writes or deletions of {wrong:?}");
        // Also writes of a source that has warned, when its target outranks it at last.
        let is_at_risk = self.servers.iter().any(|server| server.at_risk.contains_key(&slot));
        assert!(self.has_failures || is_at_risk, "{}", self.report(&text));
        for write in wrong {
            self.ledger.get_mut(write).fate = Fate::MayBeLost;
        }
    }

    /// A crash has removed these writes from a server: those of its own slots may be lost.
    pub fn note_crash(&mut self, host: Host, removed: Vec<u64>) {
        for write in removed {
            let slot = self.ledger.get_mut(write).slot;
            if self.servers[host].rights.slots.contains_key(&slot) {
                self.ledger.give_up(write);
            }
        }
    }

    /// A server has started: what it acknowledged for slots that it does not remember may be lost.
    pub fn note_start(&mut self, host: Host) {
        let Some(cluster) = &self.servers[host].cluster else { return };
        let forgotten: Vec<u16> =
            self.servers[host].rights.slots.keys().copied().filter(|slot| !cluster.owns(*slot)).collect();
        for slot in forgotten {
            for write in self.ledger.kept_in(slot) {
                if self.ledger.get_mut(write).host == host {
                    self.ledger.give_up(write);
                }
            }
        }
        self.servers[host].rights.slots.clear();
        self.note_rights(host);
    }

    /// A client deletes the keys of a slot.
    pub fn note_deletion(&mut self, host: Host, slot: u16) {
        let rights = &self.servers[host].rights;
        let is_owner = rights.slots.contains_key(&slot) && self.rival(host, slot).is_none();
        let fate = if self.has_failures { Fate::MayBeLost } else { Fate::Deleted };
        let writes: Vec<u64> = self.servers[host].data.writes_of(slot).collect();
        for write in writes.into_iter().filter(|_| is_owner) {
            self.ledger.get_mut(write).fate = fate;
        }
    }

    /// Checked all the time: no key is seen on two servers, and what is hidden has a job.
    pub fn check_keys(&self, host: Host) {
        let server = &self.servers[host];
        let Some(cluster) = server.cluster.as_ref().filter(|cluster| cluster.myself().is_primary()) else {
            return;
        };
        for slot in slots_with_keys() {
            let is_imported = cluster.imports().any(|job| job.slots().contains(slot));
            let is_hidden = server.hidden.contains(slot);
            assert_eq!(is_hidden, is_imported, "{}", self.report(&format!("R{host} hides slot {slot}")));
            let has_keys = server.data.writes_of(slot).next().is_some();
            let is_foreign = !cluster.owns(slot) && cluster.owner(slot).is_some();
            let text = format!("R{host} shows keys of slot {slot}, which is another's");
            assert!(!has_keys || is_hidden || !is_foreign, "{}", self.report(&text));
        }
    }

    /// Checked in the end: each write is where it has to be, once and in order, and nowhere else.
    pub fn check_writes(&self) {
        for (key, writes) in self.servers.iter().flat_map(|server| &server.data.store) {
            let is_ordered = writes.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(is_ordered, "{}", self.report(&format!("key {key:?} has taken {writes:?}")));
        }
        for (at, write) in self.ledger.writes.iter().enumerate() {
            let number = at as u64 + 1;
            let is_owner = |server: &&crate::host::Server| server.rights.slots.contains_key(&write.slot);
            let owner = self.servers.iter().find(is_owner);
            let exists = owner.is_some_and(|server| server.data.contains(write.slot, number));
            let is_right = match write.fate {
                Fate::Kept => exists,
                Fate::Deleted => !exists,
                Fate::MayBeLost => true,
            };
            let text = format!("write {number}, {write:?}: exists {exists}");
            assert!(is_right, "{}", self.report(&text));
        }
        for server in &self.servers {
            self.check_keys(server.host);
            assert!(server.paused_slots.is_empty(), "{}", self.report("a pause has no end"));
            let source = server.data.source.map(|(source, _)| &self.servers[source].data);
            let is_copied = source.is_none_or(|source| source.store == server.data.store);
            assert!(is_copied, "{}", self.report(&format!("R{} has other data", server.host)));
        }
    }
}
