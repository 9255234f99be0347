use super::*;
use crate::config::{Config, EventClasses};
use crate::db::Db;
use crate::db::rdb::{Loaded, LoadedKey};
use crate::persist::rdb::save::dump_payload;
use std::collections::BTreeMap;
use structures::random::Random;
use wire::rdb::PayloadWriter;

const SEED: HashSeed = HashSeed::new(3, 4);

/// Texts of fields: many repeat, and many spell integers, so that a filter of them has false positives now and then.
fn text(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => random.below(900).to_string().into_bytes(),
        1 => format!("-{}", random.below(300)).into_bytes(),
        2 => format!("0{}", random.below(30)).into_bytes(),
        _ => format!("field:{}", random.below(600)).into_bytes(),
    }
}

/// Setting many fields at once, in lists of any length below and beyond the limit, equals setting them one by one.
#[test]
fn fields_set_together_are_as_if_set_one_by_one() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut limits = EncodingLimits::of(&Config::default());
        limits.hash_listpack_entries_max = [128, 512, 4_000][seed as usize % 3];
        let mut lots = random.clone();
        let shapes = Shapes::default();
        let mut context = CollectionContext {
            limits: &limits,
            seed: SEED,
            random: &mut lots,
            now_ms: 0,
            expired_fields: None,
            shapes: &shapes,
        };
        let (mut hash, mut model) = (Hash::new(&limits, SEED), BTreeMap::new());
        for _ in 0..8 {
            let count = random.below(200);
            let pairs: Vec<(Vec<u8>, Vec<u8>)> =
                (0..count).map(|_| (text(&mut random), text(&mut random))).collect();
            let given = pairs.iter().map(|(field, value)| (field.as_slice(), value.as_slice()));
            let added = hash.set_all(given, &mut context);
            let new = pairs
                .into_iter()
                .filter(|(field, value)| model.insert(field.clone(), value.clone()).is_none());
            assert_eq!(added, new.count());
            let mut found = BTreeMap::new();
            hash.for_each(0, &mut |field, value| {
                let [field, value] = [field, value].map(|cell| cell.with_bytes(<[u8]>::to_vec));
                assert!(found.insert(field, value).is_none(), "a field occurs twice");
            });
            assert_eq!(found, model);
        }
    }
}

/// One hash, with its fields in the order of insertion.
type Model = Vec<(Vec<u8>, Vec<u8>, Option<i64>)>;

fn pairs_of(hash: HashView<'_>) -> Model {
    let mut pairs = Model::new();
    hash.for_each(i64::MIN, &mut |field, value| {
        let [field, value] = [field, value].map(|cell| cell.with_bytes(<[u8]>::to_vec));
        let expiry_ms = hash.get_with_expiry(&field, i64::MIN).and_then(|(_, expiry_ms)| expiry_ms);
        pairs.push((field, value, expiry_ms));
    });
    pairs
}

/// Names that many hashes share, and others; values of every form.
fn name(random: &mut Random) -> Vec<u8> {
    match random.below(60) {
        0 => text(random),
        1 => vec![b'n'; random.below(80) as usize],
        _ => ["name", "mail", "added", "city", "plan", "x"][random.below(6) as usize].into(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => format!("{}.{:02}", random.below(1000), random.below(100)).into_bytes(),
        1 => format!("{:032x}", random.next_u64()).into_bytes(),
        2 => format!("10.0.{}.{}", random.below(256), random.below(300)).into_bytes(),
        3 => vec![b'v'; random.below(80) as usize],
        4 => format!("0{:07x}-{:04x}-4a5b-8c7d-0123456789ab", random.below(1 << 28), random.below(1 << 16))
            .into(),
        _ => text(random),
    }
}

fn change(hash: &mut Hash, model: &mut Model, random: &mut Random, context: &mut CollectionContext<'_>) {
    if random.below(20) == 0 {
        // As an application writes its hashes: always the same fields, in the same order.
        model.drain(..).for_each(|(field, ..)| assert!(hash.remove(&field, context)));
        for field in ["name", "mail", "added", "city", "plan"].iter().take(1 + random.index(5)) {
            let value = value(random);
            assert_eq!(hash.set(field.as_bytes(), &value, FieldExpiry::Clear, context), Written::Added);
            model.push((field.as_bytes().to_vec(), value, None));
        }
        return;
    }
    let field = name(random);
    let at = model.iter().position(|(other, ..)| *other == field);
    match random.below(12) {
        0..=2 => {
            assert_eq!(hash.remove(&field, context), at.is_some());
            at.map(|at| model.remove(at));
        }
        3 if random.below(30) == 0 && at.is_some() => {
            hash.set_expiry(&field, Some(5), context);
            at.into_iter().for_each(|at| model[at].2 = Some(5));
        }
        _ => {
            let value = value(random);
            let written = hash.set(&field, &value, FieldExpiry::Clear, context);
            assert_eq!(written == Written::Replaced, at.is_some());
            match at {
                Some(at) => model[at] = (field, value, None),
                None => model.push((field, value, None)),
            }
        }
    }
}

fn assert_same(hash: HashView<'_>, is_ordered: bool, model: &Model) {
    let (mut found, mut expected) = (pairs_of(hash), model.clone());
    if !is_ordered {
        found.sort();
        expected.sort();
    }
    assert!(found == expected, "the pairs differ");
    assert_eq!(hash.len(), model.len());
}

/// The hash at `key` of the selected database after a payload has brought it into `other`.
fn by_payload(db: &mut Db, other: &mut Db, key: &[u8]) -> Model {
    let value = db.find(db.key(key)).expect("the hash is stored");
    let payload = dump_payload(&value, true, &mut PayloadWriter::default(), std::mem::take);
    let mut reader = wire::rdb::Reader::new(&payload[1..]);
    let read = other.read_value(key, &mut reader, payload[0], None).expect("the payload is whole");
    let about = LoadedKey { replaces: true, ..LoadedKey::default() };
    assert_eq!(other.load_read(other.key(key), read, about), Loaded::Stored);
    pairs_of(other.stored_collection::<Hash>(other.key(key)).expect("it was just stored"))
}

fn forget_changes(db: &mut Db) {
    db.change_log.flushed(None);
    db.change_log.take();
    db.change_log.audit.forget_unpropagated();
}

/// Hashes in a database, as records and in every other encoding, equal lists of pairs: the order too, until they are
/// unpacked. Shapes are born, shared, left and dissolved on the way.
#[test]
fn stored_hashes_equal_lists_of_pairs() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (mut db, mut other) = (Db::new(1, SEED, seed), Db::new(1, SEED, seed + 1));
        let mut all: Vec<Model> = vec![Model::new(); 80];
        let mut shaped = 0;
        for step in 0..12_000 {
            let at = random.index(all.len());
            let (key, model) = (format!("{at}").into_bytes(), &mut all[at]);
            let stored = db.key(&key);
            let mut lots = random.clone();
            db.change_or_create(stored, |hash: &mut Hash, mut context| {
                for _ in 0..=lots.below(3) {
                    change(hash, model, &mut lots, &mut context);
                }
            })
            .expect("the key is a hash or free");
            random = lots;
            db.changed(EventClasses::HASH, "hset", stored);
            forget_changes(&mut db);
            let Some(value) = db.find(stored) else {
                assert!(model.is_empty());
                continue;
            };
            let structure = value.layout().structure;
            let hash = value.collection::<Hash>().expect("it is a hash");
            assert_same(hash, structure != "packed map", model);
            shaped += usize::from(structure == "shaped record in the entry");
            if step % 64 == 0 {
                let (mut found, mut copy) = (pairs_of(hash), by_payload(&mut db, &mut other, &key));
                if structure == "packed map" {
                    found.sort();
                    copy.sort();
                }
                assert!(copy == found, "a payload brings other pairs");
            }
            if step % 1000 == 0 {
                while db.step_shapes(true) {}
                db.check();
            }
        }
        db.check();
        assert!(shaped > 100, "{shaped} of the hashes had a shape");
    }
}
