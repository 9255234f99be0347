use std::collections::BTreeMap;

use super::*;
use crate::model::{scaled, with_seeds};
use crate::random::Random;

/// Keys like stream ids of several patterns, and keys without a pattern.
fn key(shape: u64, random: &mut Random) -> Key {
    let (ms, seq) = match shape {
        0 => (1_700_000_000_000 + random.below(5_000), 0),
        1 => (1_700_000_000_000 + random.below(3), random.below(2_000)),
        2 => (random.next_u64(), random.next_u64()),
        3 => (random.below(4) << (8 * random.below(8)), random.below(4) << (8 * random.below(8))),
        _ => (0, random.below(600)),
    };
    ((ms as u128) << 64 | seq as u128).to_be_bytes()
}

fn compare(tree: &RadixTree<u64>, model: &BTreeMap<Key, u64>, at: Key) {
    tree.check();
    assert_eq!(tree.len(), model.len());
    assert!(
        tree.iter().map(|(key, value)| (key, *value)).eq(model.iter().map(|(key, value)| (*key, *value)))
    );
    let found = |cursor: Cursor<'_, u64>| cursor.get().map(|(key, value)| (key, *value));
    let pair = |(key, value): (&Key, &u64)| (*key, *value);
    assert_eq!(found(tree.first()), model.first_key_value().map(pair));
    assert_eq!(found(tree.last()), model.last_key_value().map(pair));
    let mut cursor = tree.at_or_after(&at);
    for expected in model.range(at..).take(5) {
        assert_eq!(found(cursor.clone()), Some(pair(expected)));
        cursor.move_next();
    }
    let mut cursor = tree.at_or_before(&at);
    for expected in model.range(..=at).rev().take(5) {
        assert_eq!(found(cursor.clone()), Some(pair(expected)));
        cursor.move_back();
    }
    if model.range(..at).next().is_none() && !model.contains_key(&at) {
        assert!(tree.at_or_before(&at).get().is_none());
    }
    if model.range(at..).next().is_none() {
        assert!(tree.at_or_after(&at).get().is_none());
    }
}

#[test]
fn random_operations_match_a_tree_map() {
    with_seeds(0..10, |random| {
        let shape = random.below(5);
        let (mut tree, mut model) = (RadixTree::new(), BTreeMap::new());
        for step in 0..scaled(8_000) {
            let shrinking = step / 1_500 % 3 == 2;
            let key = key(shape, random);
            if random.below(4) < if shrinking { 1 } else { 3 } {
                assert_eq!(tree.insert(&key, step), model.insert(key, step));
            } else {
                let near = model.range(key..).next().map_or(key, |(key, _)| *key);
                assert_eq!(tree.remove(&near), model.remove(&near));
                assert_eq!(tree.remove(&key), model.remove(&key));
                if random.below(2) == 0 {
                    assert_eq!(tree.pop_first(), model.pop_first().map(|(_, value)| value));
                }
            }
            assert_eq!(tree.get(&key), model.get(&key));
            assert_eq!(tree.get_mut(&key), model.get_mut(&key));
            if step % 97 == 0 {
                compare(&tree, &model, super::tests::key(shape, random));
            }
        }
        for key in model.keys().copied().collect::<Vec<_>>() {
            assert!(tree.remove(&key).is_some());
        }
        tree.check();
        assert!(tree.is_empty() && tree.memory_bytes() < 1024);
    });
}

#[test]
fn ascending_keys_are_compact() {
    if cfg!(miri) {
        return;
    }
    let mut tree = RadixTree::new();
    for ms in 0..100_000u128 {
        tree.insert(&((1_700_000_000_000 + ms) << 64).to_be_bytes(), 0u64);
    }
    let per_key = tree.memory_bytes() as f64 / 1e5;
    assert!(per_key < 32.0, "{per_key}");
}
