use super::*;
use crate::config::EventClasses;
use crate::db::Db;
use crate::db::rdb::{Loaded, LoadedKey};
use crate::persist::rdb::save::dump_payload;
use structures::random::Random;
use wire::rdb::{PayloadWriter, Reader};

const SEED: HashSeed = HashSeed::new(5, 6);

type Model = Vec<(f64, Vec<u8>)>;

/// Members of every form, few enough to meet again.
fn member(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => format!("{}.{:02}", random.below(10), random.below(10)).into_bytes(),
        1 => format!("{:032x}", random.below(20)).into_bytes(),
        2 => format!("10.0.0.{}", random.below(30)).into_bytes(),
        3 => vec![b'm'; random.below(70) as usize],
        4 => format!("0{:07x}-0000-4a5b-8c7d-0123456789ab", random.below(20)).into(),
        5 => random.below(40).to_string().into_bytes(),
        _ => format!("player:{}", random.below(40)).into_bytes(),
    }
}

fn score(random: &mut Random) -> f64 {
    match random.below(12) {
        0 => random.below(1000) as f64 / 8.0,
        1 => -0.0,
        2 => f64::INFINITY,
        3 => -((random.next_u64() >> (11 + random.below(50))) as f64),
        4..7 => random.below(5) as f64,
        _ => 1_764_000_000.0 + random.below(1_000_000) as f64,
    }
}

fn listed(set: SortedSetView<'_>) -> Model {
    let mut all = Model::new();
    set.for_range(0..set.len(), false, &mut |member, score| {
        all.push((score, member.to_vec()));
        true
    });
    all
}

/// The set at `key` of the selected database after a payload has brought it into `other`.
fn by_payload(db: &mut Db, other: &mut Db, key: &[u8]) -> Model {
    let value = db.find(db.key(key)).expect("the set is stored");
    let payload = dump_payload(&value, true, &mut PayloadWriter::default(), std::mem::take);
    let mut reader = Reader::new(&payload[1..]);
    let read = other.read_value(key, &mut reader, payload[0], None).expect("the payload is whole");
    let about = LoadedKey { replaces: true, ..LoadedKey::default() };
    assert_eq!(other.load_read(other.key(key), read, about), Loaded::Stored);
    listed(other.stored_collection::<SortedSet>(other.key(key)).expect("it was just stored"))
}

fn change(set: &mut SortedSet, model: &mut Model, random: &mut Random, context: &CollectionContext<'_>) {
    let add = |set: &mut SortedSet, model: &mut Model, member: Vec<u8>, score: f64, increments: bool| {
        let at = model.iter().position(|(_, other)| *other == member);
        let previous = at.map(|at| model[at].0);
        let insertion = match increments {
            true => {
                let insertion = set.insert_if(&member, context, &mut |there| {
                    assert_eq!(there, previous);
                    Some(score)
                });
                insertion.expect("there is room").expect("a score is wanted")
            }
            false => set.insert(&member, score, context).expect("there is room"),
        };
        let expected = match previous {
            None => Insertion::Added,
            Some(previous) if previous == score => Insertion::Unchanged,
            Some(previous) => Insertion::Updated { previous },
        };
        assert_eq!(insertion, expected);
        if insertion != Insertion::Unchanged {
            at.map(|at| model.remove(at));
            model.push((score + 0.0, member));
            model.sort_by(|a, b| a.partial_cmp(b).expect("no score is NaN"));
        }
    };
    match random.below(40) {
        // Beyond an entry, and sometimes beyond a list.
        0 => {
            let count_max = if random.below(4) == 0 { 160 } else { 40 };
            let count = random.index(count_max);
            set.expect(count, 0, context);
            (0..count).for_each(|_| add(set, model, member(random), score(random), false));
        }
        1..=3 => {
            let start = random.index(model.len() + 1);
            let range = start..start + random.index(model.len() - start + 2);
            let mut removed = Model::new();
            let count = set.remove_range(range, &mut |member, score| removed.push((score, member.to_vec())));
            assert_eq!((count, &removed[..]), (removed.len(), &model[start..start + count]));
            model.drain(start..start + count);
        }
        4 => {
            let start = random.index(model.len() + 1);
            let count = set.drop_range(start..start + 3);
            model.drain(start..start + count);
        }
        5..18 => {
            let member = member(random);
            let at = model.iter().position(|(_, other)| *other == member);
            assert_eq!(set.remove(&member), at.map(|at| model.remove(at).0));
        }
        lot => add(set, model, member(random), score(random), lot % 2 == 0),
    }
}

fn bound(random: &mut Random) -> ScoreBound {
    if random.below(2) == 0 {
        ScoreBound::Inclusive(score(random))
    } else {
        ScoreBound::Exclusive(score(random))
    }
}

/// Everything that is read of a set.
fn compare(set: SortedSetView<'_>, model: &Model, random: &mut Random) {
    assert_eq!(set.len(), model.len());
    assert_eq!(&listed(set), model);
    let asked = member(random);
    let rank = model.iter().position(|(_, other)| *other == asked);
    assert_eq!(set.score(&asked), rank.map(|rank| model[rank].0));
    assert_eq!(set.rank(&asked), rank.map(|rank| (rank, model[rank].0)));
    let (min, max) = (bound(random), bound(random));
    let is_within = |score: f64| {
        let above = match min {
            ScoreBound::Inclusive(bound) => score >= bound,
            ScoreBound::Exclusive(bound) => score > bound,
        };
        above
            && match max {
                ScoreBound::Inclusive(bound) => score <= bound,
                ScoreBound::Exclusive(bound) => score < bound,
            }
    };
    let within: Model = model.iter().filter(|(score, _)| is_within(*score)).cloned().collect();
    for reverse in [false, true] {
        let mut found = Model::new();
        set.for_range(set.score_range(min, max), reverse, &mut |member, score| {
            found.push((score, member.to_vec()));
            true
        });
        if reverse {
            found.reverse();
        }
        assert_eq!(found, within);
    }
    let mut found = Model::new();
    set.for_score_ranges(&[(min, max), (min, max)], &mut |member, score| {
        found.push((score, member.to_vec()));
        true
    });
    assert_eq!(found, [&within[..], &within].concat());
    let mut drawn = Model::new();
    set.random_distinct(3, random, &mut |member, score| {
        drawn.push((score, member.to_vec()));
        true
    });
    assert!(drawn.len() == 3.min(model.len()) && drawn.iter().all(|pair| model.contains(pair)));
    for wanted in [1, 4] {
        set.random_each(wanted, random, &mut |member, score| {
            assert!(model.contains(&(score, member.to_vec())));
            true
        });
    }
}

/// Sorted sets in a database, as records and in every other encoding, equal sorted lists of pairs.
#[test]
fn stored_sorted_sets_equal_lists_of_pairs() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (mut db, mut other) = (Db::new(1, SEED, seed), Db::new(1, SEED, seed + 1));
        let mut all: Vec<Model> = vec![Model::new(); 40];
        let mut records = 0;
        for step in 0..8_000 {
            let at = random.index(all.len());
            let (key, model) = (format!("{at}").into_bytes(), &mut all[at]);
            let (stored, mut lots) = (db.key(&key), random.clone());
            db.change_or_create(stored, |set: &mut SortedSet, context| {
                change(set, model, &mut lots, &context);
            })
            .expect("the key is a sorted set or free");
            random = lots;
            db.changed(EventClasses::ZSET, "zadd", stored);
            db.change_log.flushed(None);
            db.change_log.take();
            db.change_log.audit.forget_unpropagated();
            let Some(value) = db.find(stored) else {
                assert!(model.is_empty());
                continue;
            };
            let (structure, encoding) = (value.layout().structure, value.encoding_name());
            records += usize::from(structure == "record in the entry");
            let is_listed = matches!(structure, "record in the entry" | "listpack");
            assert_eq!(is_listed, encoding == "listpack", "{structure} is {encoding}");
            compare(value.collection::<SortedSet>().expect("it is a sorted set"), model, &mut random);
            if step % 16 == 0 {
                assert_eq!(&by_payload(&mut db, &mut other, &key), model);
            }
            if step % 1000 == 0 {
                db.check();
                other.check();
            }
        }
        db.check();
        assert!(records > 1000, "{records} of the sorted sets were records");
    }
}
