use super::*;
use crate::db::Turn;
use crate::db::hash::{FieldExpiry, Hash};
use crate::db::list::{End, List};
use crate::db::set::Set;
use crate::db::sorted_set::SortedSet;
use crate::db::stream::{MESSAGES, MessageLimits, Pending, Stream, StreamId};
use crate::persist::rdb::save::dump_payload;
use wire::rdb::PayloadWriter;

const SEED: HashSeed = HashSeed::new(1, 2);

fn empty_db() -> Db {
    let mut db = Db::new(1, SEED, 3);
    db.begin(Turn::new(0, 1_000_000));
    db
}

/// Strings of every encoding, and each collection in each of its encodings.
fn every_encoding() -> Db {
    let mut db = empty_db();
    for (key, text) in
        [("integer", &b"12345"[..]), ("text", b"hello world"), ("empty", b""), ("zero", b"007")]
    {
        db.put_string(db.key(key.as_bytes()), text, Some(2_000_000));
    }
    db.put_string(db.key(b"large"), &[b'x'; 5000], None);
    for (key, count, width) in [("few", 3, 3), ("many", 700, 5), ("wide", 3, 300)] {
        let element = |n: usize| format!("{n:0width$}e").into_bytes();
        add_collections(&mut db, key, count, &element);
    }
    add_collections(&mut db, "integers", 10, &|n| (n * 1000).to_string().into_bytes());
    add_collections(&mut db, "manyintegers", 700, &|n| (n * 70_000).to_string().into_bytes());
    let mut hash = Hash::new(&db.policies.otherwise().limits.clone(), SEED);
    let limits = db.policies.otherwise().limits.clone();
    let mut random = Random::new(1);
    let mut context = context(&limits, &mut random);
    hash.set(b"stays", b"1", FieldExpiry::Clear, &mut context);
    hash.set(b"goes", b"2", FieldExpiry::At(5_000_000), &mut context);
    db.store_collection(db.key(b"expiring"), hash);
    db.store_collection(db.key(b"stream"), sample_stream(&limits));
    db.change_log.flushed(None);
    db.change_log.take();
    db
}

fn context<'a>(limits: &'a EncodingLimits, random: &'a mut Random) -> CollectionContext<'a> {
    let shapes = &*Box::leak(Box::default());
    CollectionContext { limits, seed: SEED, random, now_ms: 0, expired_fields: None, shapes }
}

fn add_collections(db: &mut Db, key: &str, count: usize, element: &dyn Fn(usize) -> Vec<u8>) {
    let limits = db.policies.otherwise().limits.clone();
    let mut random = Random::new(1);
    let mut context = context(&limits, &mut random);
    let (mut list, mut set) = (List::new(&limits, SEED), Set::new(&limits, SEED));
    let (mut hash, mut sorted) = (Hash::new(&limits, SEED), SortedSet::new(&limits, SEED));
    for n in 0..count {
        let element = element(n);
        list.push(End::Right, &element, &limits);
        set.add(&element, &context);
        hash.set(&element, &element, FieldExpiry::Clear, &mut context);
        sorted.insert(&element, n as f64 * 1.5 - 7.0, &context).unwrap();
    }
    list.completed(1, &limits);
    db.store_collection(db.key(format!("list:{key}").as_bytes()), list);
    db.store_collection(db.key(format!("set:{key}").as_bytes()), set);
    db.store_collection(db.key(format!("hash:{key}").as_bytes()), hash);
    db.store_collection(db.key(format!("sorted:{key}").as_bytes()), sorted);
}

fn sample_stream(limits: &EncodingLimits) -> Stream {
    let mut stream = Stream::new(limits, SEED);
    for ms in 1..250 {
        stream.add(StreamId { ms, seq: 0 }, &[b"field", ms.to_string().as_bytes()], limits).unwrap();
    }
    stream.delete(StreamId { ms: 9, seq: 0 });
    stream.create_group(b"group", StreamId { ms: 5, seq: 0 }, Some(5));
    stream.create_group(b"unknown", StreamId { ms: 9, seq: 0 }, None);
    let mut group = stream.group_mut(b"group").unwrap();
    let consumer = group.create_consumer(b"someone", 77).unwrap();
    group.create_consumer(b"idle", 78).unwrap();
    for ms in 1..4 {
        group.assign(StreamId { ms, seq: 0 }, Pending { consumer, delivered_ms: 99, deliveries: ms });
    }
    drop(group);
    stream
}

fn payloads(db: &Db, compresses: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut writer = PayloadWriter::default();
    let mut payload = |entry| dump_payload(&db.value_of(entry), compresses, &mut writer, std::mem::take);
    db.database(0).iter().map(|entry| (entry.key().to_vec(), payload(entry))).collect()
}

/// Reads a payload without checking its checksum.
fn restore(db: &mut Db, key: &[u8], payload: &[u8]) -> Result<Loaded> {
    let mut reader = Reader::of_bytes(payload);
    let kind = reader.byte()?;
    let about = LoadedKey { replaces: true, ..LoadedKey::default() };
    let result =
        db.read_value(key, &mut reader, kind, None).map(|value| db.load_read(db.key(key), value, about));
    db.change_log.flushed(None);
    db.change_log.take();
    result
}

#[test]
fn every_value_comes_back_as_it_was() {
    let db = every_encoding();
    for compresses in [false, true] {
        let mut copy = empty_db();
        for (key, payload) in payloads(&db, compresses) {
            assert_eq!(restore(&mut copy, &key, &payload).unwrap(), Loaded::Stored);
            assert_eq!(copy.digest_of(copy.key(&key)), {
                let mut bare = empty_db();
                restore(&mut bare, &key, &payload).unwrap();
                bare.digest_of(bare.key(&key))
            });
            let encoding = |db: &mut Db| db.find(db.key(&key)).unwrap().encoding_name();
            let (was, is) = (encoding(&mut every_encoding()), encoding(&mut copy));
            assert_eq!(is, was, "{}", String::from_utf8_lossy(&key));
        }
        // Expiries are not part of a value: without them the data sets are equal.
        let mut plain = every_encoding();
        for key in ["integer", "text", "empty", "zero"] {
            plain.set_expiry(plain.key(key.as_bytes()), None);
        }
        plain.change_log.flushed(None);
        plain.change_log.take();
        assert_eq!(copy.digest(), plain.digest());
    }
}

/// The field after a stream in a payload, also truncated and changed.
#[test]
fn messages_of_producers_come_back() {
    let mut stream = sample_stream(&empty_db().policies.otherwise().limits);
    stream.set_message_limits(MessageLimits { kept_s: 500, messages_max: 300 }, SEED);
    let producers = stream.producers_mut(SEED);
    for n in 0..3000u64 {
        let (producer, message) =
            (format!("producer {}", n % 7), format!("{n}{}", "x".repeat(n as usize % 900)));
        producers.record(producer.as_bytes(), message.as_bytes(), StreamId { ms: 999_000, seq: n }, 999_000);
    }
    producers.set_counts(4000, 5);
    let mut db = empty_db();
    db.store_collection(db.key(b"stream"), stream);
    let written = |db: &mut Db| {
        let mut writer = PayloadWriter::default();
        dump_payload(&db.find(db.key(b"stream")).unwrap(), true, &mut writer, std::mem::take)
    };
    let payload = written(&mut db);
    let read = |content: &[u8], now_ms: i64| {
        let mut copy = empty_db();
        copy.begin(Turn::new(0, now_ms));
        let mut reader = Reader::of_bytes(content);
        let kind = reader.byte()?;
        let mut value = copy.read_value(b"stream", &mut reader, kind, None)?;
        copy.read_asides(&mut reader, &mut value)?;
        copy.load_read(copy.key(b"stream"), value, LoadedKey::default());
        copy.check();
        Ok::<_, ReadError>(copy)
    };
    let content = &payload[..payload.len() - 10];
    assert!(
        content.windows(MESSAGES.len()).filter(|bytes| *bytes == MESSAGES.as_bytes()).count() > 1,
        "parts"
    );
    assert_eq!(written(&mut read(content, 1_000_000).unwrap()), payload);
    let mut later = read(content, 999_000 + 500_000).unwrap();
    assert_eq!(
        later.find(later.key(b"stream")).unwrap().collection::<Stream>().unwrap().producers().unwrap().len(),
        0
    );
    for at in (0..content.len()).step_by(content.len() / 300) {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = content.to_vec();
            damaged[at] ^= flip;
            read(&damaged, 1_000_000).map(|mut copy| written(&mut copy)).ok();
        }
        read(&content[..at], 1_000_000).map(|mut copy| written(&mut copy)).ok();
    }
}

#[test]
fn every_truncation_is_an_error() {
    let mut target = empty_db();
    for (key, payload) in payloads(&every_encoding(), true) {
        let content = &payload[..payload.len() - 10];
        let step = (content.len() / 400).max(1);
        for len in (0..content.len()).step_by(step) {
            let result = restore(&mut target, b"key", &content[..len]);
            assert!(result.is_err(), "{} cut to {len}", String::from_utf8_lossy(&key));
        }
    }
}

#[test]
fn damage_is_an_error_or_another_value_but_never_a_panic() {
    let mut target = empty_db();
    let scale: usize =
        std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for compresses in [false, true] {
        for (_, payload) in payloads(&every_encoding(), compresses) {
            let content = &payload[..payload.len() - 10];
            let step = (content.len() / (200 * scale)).max(1);
            for at in (0..content.len()).step_by(step) {
                for flip in [0x01, 0x80, 0xff] {
                    let mut damaged = content.to_vec();
                    damaged[at] ^= flip;
                    if let Ok(Loaded::Stored) = restore(&mut target, b"key", &damaged) {
                        use_it(&mut target);
                    }
                }
            }
        }
    }
}

/// Accepted values must be usable.
fn use_it(db: &mut Db) {
    db.digest();
    let value = db.find(db.key(b"key")).unwrap();
    value.memory_bytes();
    let payload = dump_payload(&value, true, &mut PayloadWriter::default(), std::mem::take);
    assert_eq!(restore(db, b"copy", &payload).unwrap(), Loaded::Stored);
    db.change(db.key(b"key"), |stream: &mut Stream, _| {
        stream.trim(super::super::stream::TrimTo::Length(1), false, 0)
    })
    .ok();
    db.remove(db.key(b"copy"));
    db.change_log.flushed(None);
    db.change_log.take();
}

/// Payloads of old servers, from the documentation of their formats.
#[test]
fn old_forms_are_read() {
    let mut db = empty_db();
    let mut read = |kind: u8, body: &[u8]| {
        let payload = [&[kind][..], body].concat();
        restore(&mut db, b"old", &payload).map(|_| {
            let value = db.find(db.key(b"old")).unwrap();
            (value.encoding_name(), value.elements())
        })
    };
    assert_eq!(read(kind::LIST, b"\x02\x01a\xc0\x05").unwrap(), ("listpack", Some(2)));
    assert_eq!(read(kind::ZSET, b"\x02\x01a\x031.5\x01b\xff").unwrap(), ("listpack", Some(2)));
    assert!(read(kind::ZSET, b"\x01\x01a\xfd").is_err(), "not a number");
    let zipmap = b"\x02\x03foo\x03\x00bar\x05hello\x05\x00world\xff";
    let body = [&[zipmap.len() as u8][..], zipmap].concat();
    assert_eq!(read(kind::HASH_ZIPMAP, &body).unwrap(), ("listpack", Some(2)));
    let ziplist = b"\x0f\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\xf2\xff";
    let body = [&[ziplist.len() as u8][..], ziplist].concat();
    assert!(read(kind::HASH_ZIPLIST, &body).is_ok() || ziplist.len() != 15);
    assert!(read(kind::MODULE_2, b"\x01").is_err());
    assert!(read(kind::SET, b"\x02\x01a\x01a").is_err(), "a double");
}

/// A listpack whose integers may be written wider than they need, or as text.
fn loose_listpack(elements: &[&[u8]]) -> Vec<u8> {
    let body: Vec<u8> =
        elements.iter().flat_map(|element| [*element, &[element.len() as u8]].concat()).collect();
    let total = (body.len() as u32 + 7).to_le_bytes();
    [&total[..], &(elements.len() as u16).to_le_bytes(), &body, &[0xff]].concat()
}

const FIVE_WIDE: &[u8] = b"\xf4\x05\0\0\0\0\0\0\0";
const FIVE_TEXT: &[u8] = b"\x815";
const FIVE: &[u8] = b"\x05";

fn restore_loose(db: &mut Db, kind: u8, elements: &[&[u8]]) -> Result<Loaded> {
    let listpack = loose_listpack(elements);
    restore(db, b"key", &[&[kind, listpack.len() as u8], &listpack[..]].concat())
}

/// The same value can be written in several ways; the stored value behaves as if written in ours.
#[test]
fn loosely_written_payloads_behave_like_others() {
    let mut db = empty_db();
    for five in [FIVE, FIVE_WIDE, FIVE_TEXT] {
        restore_loose(&mut db, kind::HASH_LISTPACK, &[five, five, b"\x82-0", b"\x8205"]).unwrap();
        let hash = db.stored_collection::<Hash>(db.key(b"key")).unwrap();
        assert!(hash.contains(b"5", 0) && hash.contains(b"-0", 0) && !hash.contains(b"0", 0));
        assert_eq!(
            db.change(db.key(b"key"), |hash: &mut Hash, mut context| hash.remove(b"5", &mut context))
                .unwrap(),
            Some(true)
        );
        restore_loose(&mut db, kind::SET_LISTPACK, &[five, b"\x8205", b"\x82-0"]).unwrap();
        let removed = db.change(db.key(b"key"), |set: &mut Set, _| {
            [set.remove(b"5"), set.remove(b"5"), set.remove(b"05")]
        });
        assert_eq!(removed.unwrap(), Some([true, false, true]));
        // Out of order, and with two zeros.
        let elements: [&[u8]; 8] =
            [b"\x81b", five, b"\x81z", b"\x82-0", b"\x81a", b"\x83005", b"\x81y", b"\x00"];
        restore_loose(&mut db, kind::ZSET_LISTPACK, &elements).unwrap();
        let set = db.stored_collection::<SortedSet>(db.key(b"key")).unwrap();
        let mut order = Vec::new();
        set.for_range(0..4, false, &mut |member, score| {
            order.push((member.to_vec(), score.to_bits()));
            true
        });
        let expected = [(b"y", 0.0f64), (b"z", 0.0), (b"a", 5.0), (b"b", 5.0)];
        assert_eq!(order, expected.map(|(member, score)| (member.to_vec(), score.to_bits())));
        let listpack = loose_listpack(&[five, b"\x815", five, b"\x81x"]);
        let payload = [&[kind::LIST_QUICKLIST_2, 1, 2, listpack.len() as u8][..], &listpack].concat();
        restore(&mut db, b"key", &payload).unwrap();
        let removed = db.change(db.key(b"key"), |list: &mut List, _| list.remove_equal(b"5", End::Left, 0));
        assert_eq!(removed.unwrap(), Some(3));
        db.change_log.flushed(None);
        db.change_log.take();
    }
}

#[test]
fn the_same_element_written_twice_in_different_ways_is_refused() {
    let mut db = empty_db();
    for (a, b) in [(FIVE, FIVE_TEXT), (FIVE_WIDE, FIVE), (FIVE_TEXT, FIVE_WIDE), (FIVE, FIVE)] {
        assert!(restore_loose(&mut db, kind::SET_LISTPACK, &[a, b"\x81x", b]).is_err());
        assert!(restore_loose(&mut db, kind::HASH_LISTPACK, &[a, b"\x81x", b, b"\x81y"]).is_err());
        assert!(restore_loose(&mut db, kind::ZSET_LISTPACK, &[a, b"\x01", b, b"\x02"]).is_err());
    }
    // Among many, which are distinguished by their hashes.
    let fillers = (10..30).map(|value| vec![value]).collect::<Vec<_>>();
    for (a, b) in [(FIVE, FIVE_TEXT), (FIVE_WIDE, FIVE), (FIVE_TEXT, FIVE_WIDE), (FIVE_TEXT, b"\x815")] {
        let members = || fillers.iter().map(Vec::as_slice).chain([a]);
        let twice: Vec<&[u8]> = members().chain([b]).collect();
        assert!(restore_loose(&mut db, kind::SET_LISTPACK, &twice).is_err(), "{a:?} {b:?}");
        let once: Vec<&[u8]> = members().collect();
        assert!(restore_loose(&mut db, kind::SET_LISTPACK, &once).is_ok(), "{a:?}");
    }
    assert!(restore_loose(&mut db, kind::ZSET_LISTPACK, &[FIVE, b"\x83nan"]).is_err());
    assert!(restore_loose(&mut db, kind::ZSET_LISTPACK, &[FIVE, b"\x84-nan"]).is_err());
    assert!(restore_loose(&mut db, kind::ZSET_LISTPACK, &[FIVE, b"\x80"]).is_err());
    let mut intset = |values: &[i16]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let header =
            [&[kind::SET_INTSET, 8 + bytes.len() as u8, 2, 0, 0, 0, values.len() as u8, 0, 0, 0][..], &bytes];
        restore(&mut db, b"key", &header.concat())
    };
    assert!(intset(&[-3, 0, 9]).is_ok());
    assert!(intset(&[0, -3, 9]).is_err() && intset(&[0, 0]).is_err() && intset(&[]).is_err());
}
