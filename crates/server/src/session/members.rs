//! Clients under a common name: subscribers of a channel, watchers of a key. A single client, the usual case, is stored
//! without an allocation; adding or removing one of many does not scan the others.

use std::collections::BTreeMap;
use structures::work;

/// Members in ascending order, each with a value.
#[derive(Debug)]
pub enum Members<K, V = ()> {
    /// One member, without an allocation.
    One(K, V),
    /// Any other number of members.
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for Members<K, V> {
    fn default() -> Self {
        Members::Many(BTreeMap::new())
    }
}

impl<K: Ord + Copy, V> Members<K, V> {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match self {
            Members::One(..) => 1,
            Members::Many(members) => members.len(),
        }
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the member's value.
    pub fn get(&self, member: K) -> Option<&V> {
        work::visited(1);
        match self {
            Members::One(one, value) => (*one == member).then_some(value),
            Members::Many(members) => members.get(&member),
        }
    }

    /// Returns whether `member` is in the set.
    pub fn contains(&self, member: K) -> bool {
        self.get(member).is_some()
    }

    /// Adds a member; returns whether it is new. An existing one keeps its value.
    pub fn insert(&mut self, member: K, value: V) -> bool {
        if self.contains(member) {
            return false;
        }
        match std::mem::take(self) {
            Members::One(one, its_value) => {
                *self = Members::Many(BTreeMap::from([(one, its_value), (member, value)]));
            }
            Members::Many(members) if members.is_empty() => *self = Members::One(member, value),
            Members::Many(mut members) => {
                members.insert(member, value);
                *self = Members::Many(members);
            }
        }
        true
    }

    /// Removes a member; returns whether it was one.
    pub fn remove(&mut self, member: K) -> bool {
        work::visited(1);
        match self {
            Members::One(one, _) if *one == member => {
                *self = Members::default();
                true
            }
            Members::One(..) => false,
            Members::Many(members) => members.remove(&member).is_some(),
        }
    }

    /// Keeps those that `stays` is true of.
    pub fn retain(&mut self, mut stays: impl FnMut(K) -> bool) {
        work::visited(self.len());
        match self {
            Members::One(one, _) if stays(*one) => {}
            Members::One(..) => *self = Members::default(),
            Members::Many(members) => members.retain(|&member, _| stays(member)),
        }
    }

    /// Iterates over the members in ascending order, each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        work::visited(self.len());
        let (one, many) = match self {
            Members::One(one, value) => (Some((*one, value)), None),
            Members::Many(members) => (None, Some(members.iter().map(|(&member, value)| (member, value)))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// As [`Self::iter`], with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        work::visited(self.len());
        let (one, many) = match self {
            Members::One(one, value) => (Some((*one, value)), None),
            Members::Many(members) => {
                (None, Some(members.iter_mut().map(|(&member, value)| (member, value))))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_and_go_in_any_order() {
        let mut random = structures::random::Random::new(1);
        let (mut members, mut model) = (Members::default(), BTreeMap::new());
        for _ in 0..10_000 {
            let (member, value) = (random.below(8), random.below(100));
            if random.below(10) == 0 {
                members.retain(|other| other != member);
                model.remove(&member);
            } else if random.below(2) == 0 {
                assert_eq!(members.insert(member, value), !model.contains_key(&member));
                model.entry(member).or_insert(value);
            } else {
                assert_eq!(members.remove(member), model.remove(&member).is_some());
            }
            assert!(members.iter().eq(model.iter().map(|(&member, value)| (member, value))));
            assert_eq!((members.len(), members.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(members.get(member), model.get(&member));
        }
    }
}
