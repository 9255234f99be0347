use super::*;
use crate::db::ChangeLog;
use std::collections::HashMap;
use structures::hash::HashSeed;
use structures::random::Random;

const LENGTHS: [usize; 23] = [
    0,
    1,
    127,
    128,
    129,
    500,
    2047,
    2048,
    2049,
    5119,
    5120,
    5121,
    10_000,
    10_240,
    10_241,
    16_383,
    16_384,
    16_385,
    20_479,
    20_480,
    20_481,
    70_000,
    1 << 20,
];

struct Kept {
    text: Vec<u8>,
    expiry_ms: Option<i64>,
    /// It was stored anew after its last edit.
    is_plain: bool,
    /// A reply has referred to it: its buffer may keep a different head than that of a new string.
    was_shared: bool,
}

fn memory(db: &mut Db, key: &[u8]) -> usize {
    db.memory_bytes(db.key(key)).expect("the key exists")
}

/// Memory of the string in a fresh database.
fn fresh_memory(key: &[u8], kept: &Kept) -> usize {
    let mut db = Db::new(1, HashSeed::new(1, 2), 1);
    db.begin(Turn::new(0, 1000));
    db.put_bytes(db.key(key), &kept.text, kept.expiry_ms);
    memory(&mut db, key)
}

#[test]
fn strings_put_over_others_are_as_if_nothing_had_been_there() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut db = Db::new(1, HashSeed::new(1, 2), seed);
        db.begin(Turn::new(0, 1000));
        let mut model: HashMap<Vec<u8>, Kept> = HashMap::new();
        let mut replies: Vec<(SharedBytes, Vec<u8>)> = Vec::new();
        for step in 0..3000 {
            let key = format!("key:{}", random.below(6)).into_bytes();
            match random.below(10) {
                0..=6 => {
                    let longest = if random.below(50) == 0 { LENGTHS.len() } else { LENGTHS.len() - 2 };
                    let mut text = vec![step as u8; LENGTHS[random.below(longest as u64) as usize]];
                    if let Some(kept) = model.get(&key).filter(|_| random.below(2) == 0) {
                        text.resize(kept.text.len().saturating_sub(random.below(9) as usize), step as u8);
                    }
                    let expiry_ms = (random.below(3) == 0).then(|| 5000 + random.below(9) as i64);
                    db.put_bytes(db.key(&key), &text, expiry_ms);
                    let was_shared = model.get(&key).is_some_and(|kept| kept.was_shared);
                    model.insert(key.clone(), Kept { text, expiry_ms, is_plain: true, was_shared });
                }
                7 => {
                    if let Some(shared) = db.share_string(db.key(&key)) {
                        replies.push((SharedBytes::clone(shared), shared.to_vec()));
                        model.get_mut(&key).expect("it is there").was_shared = true;
                    }
                }
                8 => {
                    replies.clear();
                    assert_eq!(db.remove(db.key(&key)), model.remove(&key).is_some());
                }
                _ => {
                    let edited = db.edit_string(db.key(&key), |text| text.push(b'!'));
                    edited.expect("it is a string");
                    let kept = model.entry(key.clone()).or_insert_with(|| Kept {
                        text: Vec::new(),
                        expiry_ms: None,
                        is_plain: false,
                        was_shared: false,
                    });
                    kept.text.push(b'!');
                    kept.is_plain = false;
                }
            }
            db.change_log = ChangeLog::default();
            for (reply, text) in &replies {
                assert!(reply[..] == text[..], "a reply keeps its bytes");
            }
            let Some(kept) = model.get(&key) else { continue };
            let text = db.read_string(db.key(&key)).expect("it is a string").expect("it exists").to_vec();
            assert!(text == kept.text, "{} bytes of {}", text.len(), kept.text.len());
            assert_eq!(db.find(db.key(&key)).expect("it is there").expiry_ms(), kept.expiry_ms);
            if kept.is_plain && !kept.was_shared {
                assert_eq!(memory(&mut db, &key), fresh_memory(&key, kept), "{} bytes", kept.text.len());
            }
        }
        db.check();
        assert_eq!(db.len(), model.len());
    }
}
