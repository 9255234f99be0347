use super::*;
use crate::config::{Config, EventClasses, SetOrigin};
use crate::db::Turn;
use crate::db::hash::FieldExpiry;
use crate::db::policy::Policies;
use crate::db::{ChangeLog, Hash, Set};
use structures::random::Random;

fn key_of(random: &mut Random, keys: u64) -> Vec<u8> {
    let prefix = ["user:", "u", "session:", "", "a.b:"][random.below(5) as usize];
    format!("{prefix}{}", random.below(keys)).into_bytes()
}

fn given() -> PrefixRule {
    PrefixRule::Given(vec![b"user:*".into(), b"u".into(), b"user:1*".into(), b"none:".into()])
}

/// Makes a random change to a key's entry.
fn change(db: &mut Db, random: &mut Random, keys: u64) {
    let key = &key_of(random, keys)[..];
    let number = random.below(1 << 20);
    let expiry_ms = (random.below(3) == 0).then_some(1 << 40);
    match random.below(13) {
        0 => db.put_string(db.key(key), number.to_string().as_bytes(), expiry_ms),
        1 => db.put_string(db.key(key), &vec![b'v'; random.below(3000) as usize], expiry_ms),
        2 => {
            _ = db.edit_string(db.key(key), |text| {
                text.resize(text.len() / 2 + random.below(500) as usize, b'e')
            })
        }
        3 => db.put_integer_keeping_expiry(db.key(key), number as i64),
        4 | 5 => {
            let member = number.to_string();
            _ = db
                .change_or_create(db.key(key), |set: &mut Set, context| set.add(member.as_bytes(), &context));
            db.touched(db.key(key));
        }
        6 => {
            let field = (number % 40).to_string();
            _ = db.change_or_create(db.key(key), |hash: &mut Hash, mut context| {
                hash.set(field.as_bytes(), b"value", FieldExpiry::Clear, &mut context);
                hash.set_expiry(field.as_bytes(), expiry_ms, &context);
            });
            db.touched(db.key(key));
        }
        7 => _ = db.set_expiry(db.key(key), expiry_ms),
        8 => _ = db.remove(db.key(key)),
        9 => {
            if let Some(entry) = db.take(db.key(key)) {
                db.put_owned(db.key(&key_of(random, keys)), entry);
            }
        }
        10 => _ = db.share_string(db.key(key)),
        11 => {
            let copy = db.find(db.key(key)).map(|value| value.to_owned_entry());
            if let Some(copy) = copy {
                db.with_database(1, |db| db.put_owned(db.key(key), copy));
            }
        }
        _ => {
            // Stored until it is found expired.
            db.put_string(db.key(key), b"gone", Some(db.now_ms() + 1));
            db.changed(EventClasses::STRING, "set", db.key(key));
            db.begin(Turn::new(db.selected(), db.now_ms() + random.below(3) as i64));
            _ = db.find(db.key(&key_of(random, keys)));
        }
    }
}

/// Makes a random change to a whole database now and then.
fn upheave(db: &mut Db, random: &mut Random) {
    match random.below(9) {
        0 => db.swap(0, 1),
        1 => db.clear(random.below(2) == 0),
        2 => db.count_prefixes(&PrefixRule::Learn),
        3 => db.count_prefixes(&given()),
        4 => db.count_prefixes(&PrefixRule::Off),
        5 => {
            let mut beside = db.empty_beside();
            (0..random.below(300)).for_each(|_| change(&mut beside, random, 200));
            if random.below(2) == 0 {
                db.count_prefixes(&given());
            }
            db.replace_all(beside, true);
        }
        6 => {
            let rules =
                [&b"k* hash-max-listpack-entries 4"[..], b"*1 zset-index skiplist ; * list-compress-depth 1"];
            let mut config = Config::default();
            let rules = rules[random.below(2) as usize];
            config.set(&[(b"key-policy", rules)], SetOrigin::default()).unwrap();
            db.policies = Policies::of(&config);
            db.forget_policy_tallies();
        }
        7 => db.count_policies(),
        _ => (0..100).for_each(|_| db.step_accounts(3)),
    }
    db.forget_cleared();
    db.discarded.clear();
    db.free_scattered();
}

#[test]
fn tallies_are_exact_whatever_changes() {
    let scale = std::env::var("WARMLINE_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap_or(1));
    for seed in 0..20 * scale {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let keys = [20, 300, 3000][random.below(3) as usize];
        let mut db = Db::new(2, structures::hash::HashSeed::new(1, 2), seed);
        db.begin(Turn::new(0, 1000));
        db.count_prefixes(&given());
        for step in 0..4000 {
            change(&mut db, &mut random, keys);
            db.change_log = ChangeLog::default();
            if random.below(4) == 0 {
                db.step_accounts(1);
                db.step_tables(2);
            }
            if random.below(200) == 0 {
                upheave(&mut db, &mut random);
                db.check();
            }
            if step % 50 == 0 {
                db.check();
            }
        }
        while db.has_keys_to_count() {
            db.step_accounts(10);
        }
        db.check();
        assert!(db.tallies(Respect::Prefix).is_none_or(|(_, is_exact)| is_exact));
    }
}

#[test]
fn keys_that_are_there_already_are_counted_a_step_at_a_time() {
    let mut db = Db::new(1, structures::hash::HashSeed::new(1, 2), 1);
    for number in 0..5000 {
        db.put_string(db.key(format!("user:{number}").as_bytes()), b"value", None);
    }
    db.count_prefixes(&PrefixRule::Learn);
    db.step_accounts(10);
    let (tallies, is_exact) = db.tallies(Respect::Prefix).unwrap();
    assert!(!is_exact && (1..200).contains(&tallies[&b"user:*"[..]].keys()));
    let mut steps = 0;
    while db.has_keys_to_count() {
        db.step_accounts(10);
        steps += 1;
    }
    assert!(steps > 50, "{steps}");
    let (tallies, is_exact) = db.tallies(Respect::Prefix).unwrap();
    let tally = &tallies[&b"user:*"[..]];
    let bytes = db.memory_bytes(db.key(b"user:1000")).unwrap() as u64;
    assert!(is_exact && tally.keys() == 5000 && tally.bytes().abs_diff(5000 * bytes) < 1000 * 8);
    assert_eq!(tally.cells().count(), 1);
    db.clear(false);
    assert_eq!(db.tallies(Respect::Prefix), Some((BTreeMap::new(), true)));
}
