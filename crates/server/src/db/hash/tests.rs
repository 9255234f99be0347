use super::*;
use crate::config::Config;
use std::collections::BTreeMap;

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
        let mut context = CollectionContext {
            limits: &limits,
            seed: SEED,
            random: &mut lots,
            now_ms: 0,
            expired_fields: None,
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
