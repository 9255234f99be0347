//! Databases whose keys are divided by slots, against a map.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use structures::hash::HashSeed;
use structures::key_slot::{SLOTS, key_slot};

struct World {
    keyspace: Keyspace,
    seed: KeySeed,
    model: BTreeMap<Vec<u8>, (i64, Option<i64>)>,
    hidden: SlotSet,
    random: Random,
}

impl World {
    fn new(seed: u64) -> World {
        let key_seed = KeySeed::new(HashSeed::new(seed, !seed), true);
        World {
            keyspace: Keyspace::new(2, key_seed),
            seed: key_seed,
            model: BTreeMap::new(),
            hidden: SlotSet::new(),
            random: Random::new(seed),
        }
    }

    /// Many slots have one key, and one slot has many.
    fn key(&mut self) -> Vec<u8> {
        match self.random.below(3) {
            0 => format!("{{tag}}{}", self.random.below(3000)).into(),
            1 => format!("{{{}}}", self.random.below(20)).into(),
            _ => format!("key:{}", self.random.below(3000)).into(),
        }
    }

    fn change(&mut self) {
        let (bytes, number) = (self.key(), self.random.below(100) as i64);
        let key = Key::new(&bytes, self.seed);
        let expiry_ms = (number % 3 == 0).then_some(number + 1);
        let database = self.keyspace.database_mut(0);
        match self.random.below(10) {
            0..5 => {
                database.put_over(key, NewValue::Integer(number), expiry_ms, |_| 0);
                self.model.insert(bytes, (number, expiry_ms));
            }
            5 => {
                let found = database.set_expiry(key, expiry_ms);
                assert_eq!(found, self.model.contains_key(&bytes));
                if let Some(value) = self.model.get_mut(&bytes) {
                    value.1 = expiry_ms;
                }
            }
            6..9 => {
                let was_there = database.contains(key);
                database.remove(key);
                assert_eq!(was_there, self.model.remove(&bytes).is_some());
                assert!(!database.contains(key));
            }
            _ => {
                let is_set = database.get_mut(key).map(|mut entry| entry.set_integer(number));
                assert_eq!(is_set.is_some(), self.model.contains_key(&bytes));
                if let Some(value) = self.model.get_mut(&bytes) {
                    value.0 = number;
                }
            }
        }
    }

    /// Hides some of the slots that keys are in, and others.
    fn hide(&mut self) {
        let share = self.random.below(4);
        let slots = self.model.keys().map(|key| key_slot(key)).chain(0..100).collect::<BTreeSet<_>>();
        self.hidden = slots.into_iter().filter(|_| self.random.below(4) < share).collect();
        self.keyspace.hide(self.hidden.clone());
    }

    fn shown(&self) -> BTreeMap<&[u8], Option<i64>> {
        let shown = self.model.iter().filter(|(key, _)| !self.hidden.contains(key_slot(key)));
        shown.map(|(key, (_, expiry_ms))| (key.as_slice(), *expiry_ms)).collect()
    }

    /// Compares what does not have the hidden keys.
    fn compare_shown(&mut self) {
        let (shown, database) = (self.shown(), self.keyspace.database(0));
        let expiring: BTreeSet<&[u8]> =
            shown.iter().filter(|(_, expiry_ms)| expiry_ms.is_some()).map(|(key, _)| *key).collect();
        assert_eq!((database.shown_len(), database.shown_expiring_len()), (shown.len(), expiring.len()));
        let listed: BTreeSet<&[u8]> = database.iter_shown().map(|entry| entry.key()).collect();
        assert!(shown.keys().eq(listed.iter()));
        let mut random = Random::new(shown.len() as u64);
        let is_shown = |entry: EntryRef<'_, Object>| assert!(shown.contains_key(entry.key()));
        let does_expire = |entry: EntryRef<'_, Object>| assert!(expiring.contains(entry.key()));
        for _ in 0..50 {
            assert_eq!(database.random(&mut random).map(is_shown).is_some(), !shown.is_empty());
            assert_eq!(
                database.random_expiring(&mut random).map(does_expire).is_some(),
                !expiring.is_empty()
            );
            let (mut all, mut some) = (0, 0);
            database.sample(&mut random, 5, false, &mut |entry| {
                is_shown(entry);
                all += 1;
            });
            database.sample(&mut random, 5, true, &mut |entry| {
                does_expire(entry);
                some += 1;
            });
            assert!(all >= shown.len().min(5) && some >= expiring.len().min(5), "{all} {some}");
            database.visit_bucket(&mut random, false, &mut |entry| is_shown(entry));
            database.visit_bucket(&mut random, true, &mut |entry| is_shown(entry));
        }
        let next = (0..SLOTS as u16)
            .find(|slot| database.next_slot(*slot).is_some_and(|next| self.hidden.contains(next)));
        assert_eq!(next, None);
    }

    fn compare_scans(&mut self) {
        let (mut seen, mut expiring, mut cursor) = (BTreeSet::new(), BTreeSet::new(), 0);
        loop {
            cursor = self.keyspace.database(0).scan_shown(cursor, &mut |entry| {
                seen.insert(entry.key().to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        loop {
            cursor = self.keyspace.database_mut(0).scan_expiring(cursor, &mut |entry| {
                expiring.insert(entry.key().to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        let shown = self.shown();
        assert!(shown.keys().eq(seen.iter()));
        let expire = shown.iter().filter(|(_, expiry_ms)| expiry_ms.is_some()).map(|(key, _)| key);
        assert!(expire.eq(expiring.iter()));
    }

    fn compare(&self) {
        let database = self.keyspace.database(0);
        database.check();
        assert_eq!(database.len(), self.model.len());
        let expiring = self.model.values().filter(|(_, expiry_ms)| expiry_ms.is_some()).count();
        assert_eq!(database.expiring_len(), expiring);
        for (bytes, (number, expiry_ms)) in &self.model {
            let entry = database.get(Key::new(bytes, self.seed)).expect("a key of the model");
            assert!(matches!(entry.value(), Stored::Integer(stored) if stored == *number));
            assert_eq!(entry.expiry_ms(), *expiry_ms);
        }
        let keys: Vec<Vec<u8>> = database.iter().map(|entry| entry.key().to_vec()).collect();
        assert!(keys.is_sorted_by_key(|key| key_slot(key)));
        assert_eq!(keys.len(), self.model.len());
        let by_slot: usize = (0..SLOTS as u16).map(|slot| database.keys_in_slot(slot)).sum();
        assert_eq!(by_slot, self.model.len());
    }

    fn scan(&mut self, mut between: impl FnMut(&mut World)) -> BTreeSet<Vec<u8>> {
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = self.keyspace.database(0).scan(cursor, &mut |entry| {
                seen.insert(entry.key().to_vec());
            });
            if cursor == 0 {
                return seen;
            }
            between(self);
        }
    }
}

#[test]
fn random_changes_agree_with_a_map() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for round in 0..12 {
            (0..500).for_each(|_| world.change());
            world.compare();
            if round % 3 == 0 {
                world.keyspace.step(100);
                world.compare();
            }
        }
    }
}

/// Keys come to hidden slots and go, and slots are hidden and shown, also while the database has no tables.
#[test]
fn what_is_hidden_is_left_out_and_is_there() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        world.hide();
        for round in 0..12 {
            (0..300).for_each(|_| world.change());
            if round % 2 == 0 {
                world.hide();
            }
            world.keyspace.step(100);
            world.compare();
            world.compare_shown();
            world.compare_scans();
        }
        assert!(world.keyspace.take(0).is_some());
        world.model.clear();
        (0..300).for_each(|_| world.change());
        world.compare();
        world.compare_shown();
        world.keyspace.hide(SlotSet::full());
        world.keyspace.database(0).check();
        assert_eq!(
            (world.keyspace.database(0).shown_len(), world.scan(|_| ()).len()),
            (0, world.model.len())
        );
        world.keyspace.hide(SlotSet::new());
        assert_eq!(world.keyspace.database(0).shown_len(), world.model.len());
    }
}

#[test]
fn a_scan_visits_all_that_stays_while_keys_come_and_go() {
    for seed in 0..3 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        (0..3000).for_each(|_| world.change());
        let mut stayed: BTreeSet<Vec<u8>> = world.model.keys().cloned().collect();
        let seen = world.scan(|world| {
            (0..3).for_each(|_| world.change());
            stayed.retain(|key| world.model.contains_key(key));
            if world.random.below(10) == 0 {
                world.keyspace.step(10);
            }
        });
        assert!(stayed.is_subset(&seen), "seed {seed}");
    }
}

#[test]
fn a_scan_for_expiry_visits_each_key_that_expires_and_no_other() {
    let mut world = World::new(5);
    (0..3000).for_each(|_| world.change());
    let (mut seen, mut cursor) = (BTreeSet::new(), 0);
    loop {
        cursor = world.keyspace.database_mut(0).scan_expiring(cursor, &mut |entry| {
            seen.insert(entry.key().to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    let expiring = world.model.iter().filter(|(_, (_, expiry_ms))| expiry_ms.is_some());
    assert!(seen.iter().eq(expiring.map(|(key, _)| key)));
}

#[test]
fn keys_are_drawn_alike_whatever_their_slots() {
    let mut world = World::new(6);
    let keys: Vec<Vec<u8>> = (0..50)
        .map(|i| format!("{{tag}}{i}"))
        .chain((0..50).map(|i| format!("key:{i}")))
        .map(Into::into)
        .collect();
    for key in &keys {
        let key = Key::new(key, world.seed);
        world.keyspace.database_mut(0).put_new(key, NewValue::Integer(1), None, 0);
    }
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for _ in 0..20_000 {
        let entry = world.keyspace.database(0).random(&mut world.random).expect("there are keys");
        *counts.entry(entry.key().to_vec()).or_default() += 1;
    }
    assert!(keys.iter().all(|key| (100..320).contains(&counts[key])), "{counts:?}");
    let mut sampled = 0;
    world.keyspace.database(0).sample(&mut world.random, 30, false, &mut |_| sampled += 1);
    assert_eq!(sampled, 30);
}

#[test]
fn a_slot_has_its_own_keys_and_its_place_in_the_order() {
    let mut world = World::new(7);
    (0..3000).for_each(|_| world.change());
    let database = world.keyspace.database(0);
    let slot = key_slot(b"tag");
    let keys: BTreeSet<Vec<u8>> = database.iter_slot(slot).map(|entry| entry.key().to_vec()).collect();
    let expected = world.model.keys().filter(|key| key_slot(key) == slot);
    assert!(keys.iter().eq(expected) && keys.len() == database.keys_in_slot(slot));
    let mut first = None;
    let next = database.scan(cursor_of_slot(slot), &mut |entry| {
        first.get_or_insert(key_slot(entry.key()));
    });
    assert_eq!((first, slot_of_cursor(next)), (Some(slot), slot));
    assert_eq!(database.next_slot(slot), Some(slot));
}

#[test]
fn a_database_without_keys_owns_no_tables() {
    let mut world = World::new(8);
    (0..100).for_each(|_| world.change());
    assert!(world.keyspace.database(0).table_bytes() > 0);
    let keys: Vec<Vec<u8>> = world.model.keys().cloned().collect();
    for key in &keys {
        world.keyspace.database_mut(0).remove(Key::new(key, world.seed));
    }
    assert_eq!(world.keyspace.in_use_count(), 1);
    (0..10).for_each(|_| world.keyspace.step(100));
    assert_eq!((world.keyspace.in_use_count(), world.keyspace.database(0).table_bytes()), (0, 0));
    world.keyspace.database_mut(0).remove(Key::new(b"none", world.seed));
    assert_eq!(world.keyspace.database(0).table_bytes(), 0);
}

#[test]
fn samples_pass_over_tables_without_keys() {
    let mut world = World::new(10);
    (0..3000).for_each(|_| world.change());
    let keys: Vec<Vec<u8>> = world.model.keys().cloned().collect();
    let (kept, removed) = keys.split_at(3);
    let database = world.keyspace.database_mut(0);
    removed.iter().for_each(|key| _ = database.remove(Key::new(key, world.seed)));
    database.set_expiry(Key::new(&kept[1], world.seed), Some(5));
    for (only_expiring, expected) in [(false, kept), (true, &kept[1..2])] {
        let mut seen = BTreeSet::new();
        world.keyspace.database(0).sample(&mut world.random, 30, only_expiring, &mut |entry| {
            seen.insert(entry.key().to_vec());
        });
        assert!(seen.iter().eq(expected), "{seen:?}");
    }
    let mut slots: Vec<u16> = kept.iter().map(|key| key_slot(key)).collect();
    slots.sort_unstable();
    assert_eq!(world.keyspace.database(0).next_slot(0), Some(slots[0]));
}
