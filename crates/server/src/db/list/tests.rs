//! Lists in a database compared with models: embedded, not embedded, and converted between both.

use super::*;
use crate::config::{Config, PrefixRule};
use crate::db::Turn;
use crate::db::object::Value;
use crate::db::policy::Policies;
use crate::db::rdb::LoadedKey;
use crate::db::value_type::ValueType;
use crate::db::{ChangeLog, Db};
use crate::persist::rdb::save::dump_payload;
use std::collections::{BTreeMap, VecDeque};
use structures::key_table::Value as Stored;
use structures::random::Random;
use wire::rdb::{PayloadWriter, Reader};

const SEED: HashSeed = HashSeed::new(3, 4);

type Model = VecDeque<Vec<u8>>;

struct Lists {
    db: Db,
    models: BTreeMap<Vec<u8>, Model>,
    random: Random,
}

fn policies(list_max_listpack_size: i32) -> Policies {
    Policies::of(&Config { list_max_listpack_size, ..Config::default() })
}

fn is_embedded(db: &mut Db, key: &[u8]) -> bool {
    let value = db.find(db.key(key)).expect("the key exists");
    matches!(value.entry().value(), Stored::Embedded(_))
}

impl Lists {
    fn new(seed: u64) -> Lists {
        let mut db = Db::new(2, SEED, seed);
        db.begin(Turn::new(0, 1000));
        db.count_prefixes(&PrefixRule::Learn);
        Lists { db, models: BTreeMap::new(), random: Random::new(seed) }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    /// Short and long keys, some of which need another kind of entry header.
    fn key(&mut self) -> Vec<u8> {
        let len = [1, 1, 16, 16, 17, 130, 255, 256][self.below(8)];
        vec![b'a' + self.below(3) as u8; len]
    }

    fn text(&mut self) -> Vec<u8> {
        match self.below(30) {
            0..6 => self.below(300).to_string().into_bytes(),
            6..9 => b"again".to_vec(),
            9 => Vec::new(),
            10 => vec![b'x'; 100 + self.below(60)],
            11 => vec![b'x'; self.below(1100)],
            _ => vec![b'x'; self.below(14)],
        }
    }

    fn end(&mut self) -> End {
        if self.below(2) == 0 { End::Left } else { End::Right }
    }

    fn push(&mut self, key: &[u8]) {
        let count = if self.below(20) == 0 { 60 } else { [1, 1, 1, 2, 9][self.below(5)] };
        let end = self.end();
        let texts: Vec<Vec<u8>> = (0..count).map(|_| self.text()).collect();
        let len = self.db.change_or_create(self.db.key(key), |list: &mut List, context| {
            match &texts[..] {
                [text] => list.push(end, text, context.limits),
                texts => list.push_all(end, texts.iter().map(Vec::as_slice), context.limits),
            }
            list.len()
        });
        let model = self.models.entry(key.to_vec()).or_default();
        for text in texts {
            if end == End::Left { model.push_front(text) } else { model.push_back(text) }
        }
        assert_eq!(len.unwrap(), model.len());
    }

    fn pop(&mut self, key: &[u8]) {
        let (end, count) = (self.end(), [1, 1, 1, 2, 30][self.below(5)]);
        let mut popped = Vec::new();
        let found = self.db.change(self.db.key(key), |list: &mut List, context| {
            if count == 1 {
                popped.extend(list.pop(end, |element| element.to_vec()));
            } else {
                list.pop_many(end, count, &mut |element| popped.push(element.to_vec()));
            }
            list.shrunk(context.limits);
        });
        let model = self.models.get_mut(key);
        assert_eq!(found.unwrap().is_some(), model.is_some());
        let Some(model) = model else { return };
        let pop = |_| if end == End::Left { model.pop_front() } else { model.pop_back() };
        assert_eq!(popped, (0..count).map_while(pop).collect::<Vec<_>>());
    }

    /// A random change in the middle.
    fn edit(&mut self, key: &[u8]) {
        let Some(mut model) = self.models.remove(key) else { return };
        let (text, at, kind) = (self.text(), self.below(model.len()), self.below(4));
        let (pivot, kept) = (model[at].clone(), self.below(model.len() - at) + 1);
        let edited = self.db.change(self.db.key(key), |list: &mut List, context| {
            match kind {
                0 => assert!(list.set(at as i64 - list.len() as i64, &text, context.limits)),
                1 => {
                    list.expect(1, text.len(), context.limits);
                    assert!(list.insert(true, &pivot, &text, context.limits));
                }
                2 => _ = list.remove_equal(&pivot, End::Left, 0),
                _ => list.retain(Some((at, at + kept - 1))),
            }
            list.shrunk(context.limits);
        });
        assert_eq!(edited.unwrap(), Some(()));
        match kind {
            0 => model[at] = text,
            1 => {
                let first = model.iter().position(|other| *other == pivot);
                model.insert(first.unwrap(), text);
            }
            2 => model.retain(|other| *other != pivot),
            _ => model = model.iter().skip(at).take(kept).cloned().collect(),
        }
        self.models.insert(key.to_vec(), model);
    }

    /// A random change of keys, whatever their values.
    fn carry(&mut self, key: &[u8]) {
        let other = self.key();
        match self.below(7) {
            0 => {
                let copy = self.db.find(self.db.key(key)).map(|value| value.to_owned_entry());
                if let Some(copy) = copy {
                    self.db.put_owned(self.db.key(&other), copy);
                    self.models.insert(other, self.models[key].clone());
                }
            }
            1 => {
                if let Some(entry) = self.db.take(self.db.key(key)) {
                    self.db.put_owned(self.db.key(&other), entry);
                    let model = self.models.remove(key).unwrap();
                    self.models.insert(other, model);
                }
            }
            2 => {
                let expiry_ms = (self.below(2) == 0).then_some(1 << 40);
                assert_eq!(self.db.set_expiry(self.db.key(key), expiry_ms), self.models.contains_key(key));
            }
            3 => {
                assert_eq!(self.db.remove(self.db.key(key)), self.models.remove(key).is_some());
            }
            4 => self.restore(key, &other),
            5 => self.db.policies = policies([-2, -2, -2, 3, 128][self.below(5)]),
            _ => {
                // A string replaces it, and it replaces a string.
                let text = vec![b's'; self.below(200)];
                self.db.put_string(self.db.key(&other), &text, None);
                self.models.remove(&other);
                self.push_refused(&other);
                self.db.remove(self.db.key(&other));
            }
        }
    }

    fn push_refused(&mut self, key: &[u8]) {
        let refused = self.db.change_or_create(self.db.key(key), |list: &mut List, _| list.len());
        assert!(refused.is_err() && self.db.read_collection::<List>(self.db.key(key)).is_err());
    }

    fn restore(&mut self, key: &[u8], other: &[u8]) {
        let Some(value) = self.db.find(self.db.key(key)) else { return };
        let payload = dump_payload(&value, true, &mut PayloadWriter::default(), std::mem::take);
        let mut reader = Reader::of_bytes(&payload);
        let kind = reader.byte().unwrap();
        let value = self.db.read_value(other, &mut reader, kind, None).unwrap();
        self.db.load_read(self.db.key(other), value, LoadedKey { replaces: true, ..LoadedKey::default() });
        self.models.insert(other.to_vec(), self.models[key].clone());
    }

    fn compare(&mut self, key: &[u8]) {
        self.db.check();
        self.models.retain(|_, model| !model.is_empty());
        assert_eq!(self.db.len(), self.models.len());
        let Some(model) = self.models.get(key) else { return };
        let index = self.random.below(model.len() as u64) as usize;
        let list = self.db.read_collection::<List>(self.db.key(key)).unwrap().unwrap();
        let mut texts = Model::new();
        list.for_each(0, usize::MAX, &mut |element| texts.push_back(element.to_vec()));
        assert_eq!((list.len(), &texts), (model.len(), model));
        assert_eq!(list.get(index as i64, |element| element.to_vec()).as_ref(), model.get(index));
        assert!(list.positions(&model[index], 1, 0, 0).contains(&(index as u64)));
        // A list that is never small gives the same replies.
        let mut beside = Db::new(1, SEED, 0);
        beside.policies = policies(1);
        _ = beside.change_or_create(beside.key(key), |list: &mut List, context| {
            model.iter().for_each(|text| list.push(End::Right, text, context.limits));
        });
        let digest = |db: &Db| {
            let entry = db.selected_database().get(db.key(key)).unwrap();
            (db.value_of(entry).kind(), db.value_of(entry).elements(), commands(&db.value_of(entry)))
        };
        assert_eq!(digest(&self.db), digest(&beside));
        let expiry_ms = self.db.find(self.db.key(key)).and_then(|value| value.expiry_ms());
        beside.set_expiry(beside.key(key), expiry_ms);
        assert_eq!(self.db.digest_of(self.db.key(key)), beside.digest_of(beside.key(key)));
    }
}

fn commands(value: &Value<'_>) -> Vec<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut sink = |command: &[&[u8]]| {
        all.push(command.iter().map(|word| word.to_vec()).collect());
        Ok(())
    };
    value.rewrite(&mut sink).unwrap();
    all
}

#[test]
fn random_operations_match_deques() {
    let scale = std::env::var("WARMLINE_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap_or(1));
    let mut embedded = 0;
    let (mut came, mut went, mut of_one_node) = (0, 0, 0);
    for seed in 0..12 * scale {
        println!("seed {seed}");
        let mut lists = Lists::new(seed);
        for _ in 0..1500 {
            let key = lists.key();
            let was_there = lists.models.contains_key(&key);
            let before = was_there && is_embedded(&mut lists.db, &key);
            match lists.below(10) {
                0..4 => lists.push(&key),
                4..7 => lists.pop(&key),
                7 | 8 => lists.edit(&key),
                _ => lists.carry(&key),
            }
            lists.db.change_log = ChangeLog::default();
            lists.compare(&key);
            if was_there && lists.models.contains_key(&key) {
                let after = is_embedded(&mut lists.db, &key);
                embedded += usize::from(after);
                came += usize::from(after && !before);
                went += usize::from(before && !after);
                let list = lists.db.read_collection::<List>(lists.db.key(&key)).unwrap().unwrap();
                of_one_node += usize::from(!after && list.len() > 32 && list.node_count() == 1);
            }
        }
    }
    println!("{embedded} embedded, {came} came into their entries, {went} left");
    println!("{of_one_node} of one node");
    assert!(embedded > 1000 && came > 50 && went > 50 && of_one_node > 1000);
}

/// Bytes of the count, and of one element of this text's length: see `listpack/encoding.rs`.
#[test]
fn the_last_byte_that_is_embedded() {
    for (len, embedded) in [(125, true), (126, false)] {
        let mut lists = Lists::new(1);
        for (key, end) in [(b"l", End::Left), (b"r", End::Right)] {
            _ = lists.db.change_or_create(lists.db.key(key), |list: &mut List, context| {
                list.push(end, &vec![b'x'; len], context.limits);
            });
            assert_eq!(is_embedded(&mut lists.db, key), embedded, "{len}");
            _ = lists
                .db
                .change(lists.db.key(key), |list: &mut List, context| list.push(end, b"", context.limits));
            assert!(!is_embedded(&mut lists.db, key), "{len}");
            _ = lists.db.change(lists.db.key(key), |list: &mut List, _| list.pop(end, |_| ()));
            assert_eq!(is_embedded(&mut lists.db, key), embedded, "{len}");
            lists.db.check();
        }
    }
}

#[test]
fn an_embedded_list_takes_no_more_than_its_entry() {
    let mut lists = Lists::new(1);
    let sizes = [(1, 40), (3, 56), (5, 80), (10, 160)];
    for (count, bytes) in sizes {
        let key = format!("key:{count:012}");
        for number in 0..count {
            _ = lists.db.change_or_create(lists.db.key(key.as_bytes()), |list: &mut List, context| {
                list.push(End::Right, format!("e{number:09}").as_bytes(), context.limits);
            });
        }
        assert_eq!(lists.db.memory_bytes(lists.db.key(key.as_bytes())), Some(bytes), "{count}");
    }
}

#[test]
fn a_change_keeps_the_expiry_and_the_access_bits() {
    let mut lists = Lists::new(1);
    let push = |db: &mut Db, len: usize| {
        _ = db.change_or_create(db.key(b"key"), |list: &mut List, context| {
            list.push(End::Right, &vec![b'x'; len], context.limits);
        });
    };
    push(&mut lists.db, 10);
    lists.db.set_expiry(lists.db.key(b"key"), Some(1 << 40));
    for len in [1, 0, 100, 1, 30, 2000] {
        lists.db.begin(Turn::new(0, lists.db.now_ms() + 100_000));
        let time = lists.db.access.changed(lists.db.now_ms());
        push(&mut lists.db, len);
        let value = lists.db.find(lists.db.key(b"key")).unwrap();
        assert_eq!((value.expiry_ms(), value.entry().access()), (Some(1 << 40), time), "{len}");
    }
    assert!(!is_embedded(&mut lists.db, b"key"));
}

/// A list is reported, and saved, as one listpack while all of it fits one, whichever of its nodes grow.
#[test]
fn a_list_of_several_nodes_outgrows_a_listpack_by_all_of_them() {
    for (first, then) in [(End::Right, End::Left), (End::Left, End::Right)] {
        let mut lists = Lists::new(1);
        let text = [b'x'; 100];
        let push = |db: &mut Db, end: End| {
            let pushed = db.change_or_create(db.key(b"list"), |list: &mut List, context| {
                list.push(end, &text, context.limits);
                (list.len(), list.node_count(), list.encoding_name())
            });
            pushed.unwrap()
        };
        (0..76).for_each(|_| _ = push(&mut lists.db, first));
        // Contents that nearly fill a buffer are not moved within it for an element at the other end: another node
        // begins.
        let mut pushed = push(&mut lists.db, then);
        let listpack_elements = (8192 - 7) / (100 + 3);
        while pushed.2 == List::SMALL_ENCODING && pushed.0 < 10_000 {
            pushed = push(&mut lists.db, first);
        }
        assert!((listpack_elements - 1..=listpack_elements + 1).contains(&pushed.0), "{pushed:?}");
        assert!(pushed.1 > 1, "{pushed:?}");
    }
}
