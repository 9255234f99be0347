//! Entries that are referenced by groups: not read yet by one, or pending in one; and the removal of entries with regard
//! to these references.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#streams).

use super::node::{Mark, NodeView};
use super::{GroupMut, Stream, StreamId, TrimTo};

/// The treatment of groups' references to an entry that is to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// The entry stays pending.
    #[default]
    Keep,
    /// The entry is removed from the pending ones.
    Remove,
    /// The entry is kept if a group has not read it yet, or has it pending.
    Respect,
}

/// Ids that are no longer pending, by group.
pub type Unreferenced = Vec<(Box<[u8]>, Vec<StreamId>)>;

/// The entries removed by a trim.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Number of entries before the first one that stays.
    pub leading: u64,
    /// Entries behind it, which count as deleted one by one.
    pub behind: Vec<StreamId>,
    /// Ids that are no longer pending, by group.
    pub unreferenced: Unreferenced,
}

impl Trimmed {
    /// Number of removed entries.
    pub fn count(&self) -> u64 {
        self.leading + self.behind.len() as u64
    }
}

impl Stream {
    /// Returns whether a group has not read the entry yet, or has it pending.
    pub fn is_referenced(&self, id: StreamId) -> bool {
        self.groups().any(|(_, group)| group.last_id < id || group.pending(id).is_some())
    }

    /// Removes the id from all groups' pending entries; adds the groups that had it to `unreferenced`.
    pub fn remove_references(&mut self, id: StreamId, unreferenced: &mut Unreferenced) {
        for (name, group) in self.groups.iter_mut() {
            if !GroupMut::new(group, &mut self.part_bytes).acknowledge(id) {
                continue;
            }
            match unreferenced.iter_mut().find(|(other, _)| other == name) {
                Some((_, ids)) => ids.push(id),
                None => unreferenced.push((name.clone(), vec![id])),
            }
        }
    }

    /// As [`Stream::trim`], entry by entry. A `limit` above 0 stops before a node that would make the number of examined
    /// entries exceed it.
    pub fn trim_with(&mut self, to: TrimTo, limit: u64, references: References) -> Trimmed {
        let (mut trimmed, mut looked_at) = (Trimmed::default(), 0);
        let (mut from, mut is_leading) = (Some(StreamId::MIN), true);
        while let Some((key, listpack)) = from.and_then(|from| self.nodes.at_or_after(&from.to_key()).get()) {
            let base = StreamId::from_key(key);
            let view = NodeView::new(base, listpack);
            let live: Vec<(StreamId, Mark)> = view
                .entries()
                .filter(|raw| !raw.is_deleted())
                .map(|raw| (raw.entry.id, raw.mark()))
                .collect();
            looked_at += live.len() as u64;
            if self.is_trimmed(to, 0, base) || limit > 0 && looked_at > limit {
                break;
            }
            let live_len = live.len();
            let (mut marks, mut is_whole) = (Vec::new(), true);
            for (id, mark) in live {
                if self.is_trimmed(to, marks.len() as u64, id) {
                    is_whole = false;
                    break;
                }
                if references == References::Respect && self.is_referenced(id) {
                    is_leading = false;
                    continue;
                }
                if references == References::Remove {
                    self.remove_references(id, &mut trimmed.unreferenced);
                }
                if is_leading {
                    trimmed.leading += 1;
                } else {
                    trimmed.behind.push(id);
                }
                marks.push(mark);
            }
            self.state.len -= marks.len() as u64;
            if marks.len() == live_len {
                self.remove_node(&key);
            } else if !marks.is_empty() {
                self.delete_in_node(&key, &marks);
            }
            if !is_whole {
                break;
            }
            from = base.next();
        }
        if let Some(&last) = trimmed.behind.last() {
            self.state.max_deleted_id = self.state.max_deleted_id.max(last);
        }
        if trimmed.count() > 0 {
            self.find_first_id();
        }
        trimmed
    }

    /// Returns whether a trim ends at the entry `id`, after `removed` entries were removed that are still counted.
    fn is_trimmed(&self, to: TrimTo, removed: u64, id: StreamId) -> bool {
        match to {
            TrimTo::Length(length) => self.state.len - removed <= length,
            TrimTo::Id(end) => id >= end,
        }
    }
}
