use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::listpack::Element;
use crate::listpack::encoding::{Encoded, backlen};
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;

type Items = Vec<Vec<u8>>;
const ALL: (StreamId, StreamId) = (StreamId::MIN, StreamId::MAX);
const LIMITS: NodeLimits = NodeLimits { bytes: 4096, entries: 100 };

fn items(entry: &Entry<'_>) -> Items {
    entry.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]).collect()
}

fn entries(stream: &Stream, range: (StreamId, StreamId), direction: Direction) -> Vec<(StreamId, Items)> {
    stream.range(range.0, range.1, direction).map(|entry| (entry.id, items(&entry))).collect()
}

fn random_items(random: &mut Random) -> Items {
    match random.below(4) {
        0 => (0..2 * (1 + random.below(4))).map(|_| random_text(random)).collect(),
        1 => vec![b"other".to_vec(), random_text(random)],
        _ => vec![b"a".to_vec(), random_text(random), b"7".to_vec(), random_text(random)],
    }
}

fn random_id(model: &BTreeMap<StreamId, Items>, random: &mut Random) -> StreamId {
    let nth = random.below(model.len() as u64 + 1) as usize;
    let near = model.keys().nth(nth).copied().unwrap_or(StreamId::new(random.below(5_000), random.below(3)));
    match random.below(4) {
        0 => near.next().unwrap_or(near),
        1 => near.previous().unwrap_or(near),
        _ => near,
    }
}

fn trim(stream: &mut Stream, model: &mut BTreeMap<StreamId, Items>, random: &mut Random) {
    let approximate = random.below(2) == 0;
    let limit = if random.below(3) == 0 { random.below(60) } else { 0 };
    let to = match random.below(2) {
        0 => TrimTo::Length(random.below(model.len() as u64 + 5).max(model.len() as u64 / 2)),
        _ => TrimTo::Id(random_id(model, random)),
    };
    let removed = stream.trim(to, approximate, limit);
    let exact = match to {
        TrimTo::Length(length) => (model.len() as u64).saturating_sub(length),
        TrimTo::Id(id) => model.range(..id).count() as u64,
    };
    if approximate || limit > 0 {
        assert!(removed <= exact);
    } else {
        assert_eq!(removed, exact);
    }
    for _ in 0..removed {
        model.pop_first();
    }
}

/// The pending ids of two groups, and how far they have read.
type Groups = [(StreamId, std::collections::BTreeSet<StreamId>); 2];

fn group_name(at: usize) -> &'static [u8] {
    [b"one", b"two"][at]
}

fn read_some(stream: &mut Stream, groups: &mut Groups, random: &mut Random) {
    let at = random.below(2) as usize;
    let (last_id, pending) = &mut groups[at];
    let mut group = stream.group_mut(group_name(at)).unwrap();
    let consumer = group.find_consumer(b"c").unwrap_or_else(|| group.create_consumer(b"c", 0).unwrap());
    drop(group);
    stream.read_new(group_name(at), consumer, random.below(9), false, 0, |id, _, _| {
        *last_id = id;
        pending.insert(id);
    });
    for id in pending.clone().into_iter().filter(|_| random.below(3) > 0) {
        assert!(stream.group_mut(group_name(at)).unwrap().acknowledge(id));
        pending.remove(&id);
    }
}

/// A model of a trim by references: what it must remove, and what it must leave.
fn trim_with(
    stream: &mut Stream,
    model: &mut BTreeMap<StreamId, Items>,
    groups: &mut Groups,
    random: &mut Random,
) {
    let references = [References::Keep, References::Remove, References::Respect][random.below(3) as usize];
    let limit = if random.below(3) == 0 { random.below(60) } else { 0 };
    let to = match random.below(2) {
        0 => TrimTo::Length(random.below(model.len() as u64 + 5).max(model.len() as u64 / 2)),
        _ => TrimTo::Id(random_id(model, random)),
    };
    let before = model.clone();
    let deleted_before = stream.state().max_deleted_id;
    let trimmed = stream.trim_with(to, limit, references);
    let stays = |id: &StreamId| groups.iter().any(|(last_id, pending)| last_id < id || pending.contains(id));
    let (mut leading, mut behind) = (0, Vec::new());
    for id in before.keys() {
        let done = match to {
            TrimTo::Length(length) => model.len() as u64 <= length,
            TrimTo::Id(end) => *id >= end,
        };
        if done || limit > 0 && leading + behind.len() as u64 == trimmed.count() {
            break;
        }
        if references == References::Respect && stays(id) {
            continue;
        }
        model.remove(id);
        if model.first_key_value().is_none_or(|(first, _)| first > id) {
            leading += 1;
        } else {
            behind.push(*id);
        }
    }
    assert_eq!((trimmed.leading, &trimmed.behind), (leading, &behind));
    let max_deleted = behind.last().copied().unwrap_or_default().max(deleted_before);
    assert_eq!(stream.state().max_deleted_id, max_deleted);
    for (at, (_, pending)) in groups.iter_mut().enumerate() {
        let found = trimmed.unreferenced.iter().find(|(name, _)| **name == *group_name(at));
        let removed = found.map_or(&[][..], |(_, ids)| ids);
        let gone = |id: &StreamId| {
            references == References::Remove && before.contains_key(id) && !model.contains_key(id)
        };
        assert_eq!(removed, pending.iter().copied().filter(gone).collect::<Vec<_>>());
        pending.retain(|id| !gone(id));
    }
}

#[test]
fn random_trims_see_to_what_groups_have() {
    with_seeds(0..16, |random| {
        let limits = NodeLimits { bytes: 4096, entries: 1 + random.below(12) };
        let (mut stream, mut model) = (Stream::new(), BTreeMap::<StreamId, Items>::new());
        let mut groups = Groups::default();
        (0..2).for_each(|at| assert!(stream.create_group(group_name(at), StreamId::MIN, None)));
        for step in 0..scaled(600) {
            match random.below(12) {
                0..8 => {
                    let id = stream.next_id(1 + step).unwrap();
                    let items = random_items(random);
                    assert_eq!(stream.append(id, &items, limits), Ok(()));
                    model.insert(id, items);
                }
                8 => {
                    let id = random_id(&model, random);
                    assert_eq!(stream.delete(id), model.remove(&id).is_some());
                    let expected: Vec<_> = (0..2).filter(|&at| groups[at].1.remove(&id)).collect();
                    let mut unreferenced = Unreferenced::new();
                    stream.remove_references(id, &mut unreferenced);
                    let names: Vec<_> = expected.iter().map(|&at| group_name(at)).collect();
                    assert_eq!(unreferenced.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), names);
                }
                9 | 10 => read_some(&mut stream, &mut groups, random),
                _ => trim_with(&mut stream, &mut model, &mut groups, random),
            }
            let id = random_id(&model, random);
            let expected = groups.iter().any(|(last_id, pending)| *last_id < id || pending.contains(&id));
            assert_eq!(stream.is_referenced(id), expected);
            if step % 16 == 0 {
                compare(&stream, &model, random);
            }
        }
    });
}

#[test]
fn random_operations_match_a_tree_map() {
    with_seeds(0..8, |random| {
        let limits =
            NodeLimits { bytes: [0, 60, 500, 4096][random.below(4) as usize], entries: random.below(30) };
        let (mut stream, mut model) = (Stream::new(), BTreeMap::<StreamId, Items>::new());
        let (mut now, mut added, mut deleted) = (1, 0, StreamId::MIN);
        for step in 0..scaled(1_500) {
            now += random.below(3);
            match random.below(10) {
                0..6 => {
                    let id = stream.next_id(now).unwrap();
                    let items = random_items(random);
                    assert_eq!(stream.append(id, &items, limits), Ok(()));
                    assert_eq!(stream.append(id, &items, limits), Err(AppendError::NotAboveLast));
                    model.insert(id, items);
                    added += 1;
                }
                6..9 => {
                    let id = random_id(&model, random);
                    assert_eq!(stream.delete(id), model.contains_key(&id));
                    if model.remove(&id).is_some() {
                        deleted = deleted.max(id);
                    }
                    assert!(stream.get(id).is_none());
                }
                _ if random.below(10) == 0 => trim(&mut stream, &mut model, random),
                _ => {}
            }
            if step % 16 == 0 {
                compare(&stream, &model, random);
                let state = stream.state();
                assert_eq!((state.entries_added, state.max_deleted_id), (added, deleted));
            }
        }
        stream.clone().check();
    });
}

fn compare(stream: &Stream, model: &BTreeMap<StreamId, Items>, random: &mut Random) {
    stream.check();
    assert_eq!(stream.len(), model.len() as u64);
    assert_eq!(stream.first().map(|entry| entry.id), model.keys().next().copied());
    assert_eq!(stream.last().map(|entry| entry.id), model.keys().next_back().copied());
    let (a, b) = (random_id(model, random), random_id(model, random));
    for range in [ALL, (a.min(b), a.max(b)), (a.max(b), a.min(b))] {
        let mut expected: Vec<_> = model
            .iter()
            .filter(|(id, _)| (range.0..=range.1).contains(id))
            .map(|(id, items)| (*id, items.clone()))
            .collect();
        assert_eq!(entries(stream, range, Direction::Forward), expected);
        expected.reverse();
        assert_eq!(entries(stream, range, Direction::Backward), expected);
    }
    let mut asked: Vec<StreamId> = model.keys().copied().filter(|_| random.below(3) == 0).collect();
    asked.extend((0..5).map(|_| random_id(model, random)));
    asked.sort_unstable();
    asked.dedup();
    let mut finder = stream.finder();
    for id in asked {
        let found = finder.find(id).map(|entry| (entry.id, entry.fields().count()));
        assert_eq!(found, stream.get(id).map(|entry| (entry.id, entry.fields().count())));
        assert_eq!(found.is_some(), model.contains_key(&id));
    }
}

#[test]
fn trimming_the_live_entries_before_a_deleted_one_drops_their_node() {
    let mut stream = Stream::new();
    for ms in 1..=4 {
        stream.append(StreamId::new(ms, 0), &["f", "v"], LIMITS).unwrap();
    }
    assert!(stream.delete(StreamId::new(4, 0)));
    assert_eq!(stream.trim(TrimTo::Id(StreamId::new(4, 0)), true, 0), 0);
    assert_eq!(stream.trim(TrimTo::Id(StreamId::new(4, 0)), false, 0), 3);
    assert_eq!((stream.len(), stream.node_count(), stream.state().first_id), (0, 0, StreamId::MIN));
    stream.check();
}

/// Five entries in two nodes, one deleted.
fn sample() -> Stream {
    let limits = NodeLimits { bytes: 4096, entries: 4 };
    let mut stream = Stream::new();
    for (ms, seq, items) in [
        (1, 0, &["f", "v1", "g", "7"][..]),
        (2, 0, &["f", "v2", "g", "7"]),
        (3, 0, &["f", "v3", "g", "7"]),
        (4, 1, &["other", "z"]),
        (4, 2, &["f", "1", "g", "2"]),
    ] {
        assert_eq!(stream.append(StreamId::new(ms, seq), items, limits), Ok(()));
    }
    assert!(stream.delete(StreamId::new(2, 0)));
    stream
}

#[test]
fn nodes_are_those_of_the_reference() {
    // The listpacks within DUMP x in Valkey 9.1, stream-node-max-entries 4, after the commands of `sample`.
    let first = [
        &[83, 0, 0, 0, 31, 0, 3, 1, 1, 1, 2, 1, 0x81, b'f', 2, 0x81, b'g', 2, 0, 1][..],
        &[2, 1, 0, 1, 0, 1, 0x82, b'v', b'1', 3, 7, 1, 5, 1],
        &[3, 1, 1, 1, 0, 1, 0x82, b'v', b'2', 3, 7, 1, 5, 1],
        &[2, 1, 2, 1, 0, 1, 0x82, b'v', b'3', 3, 7, 1, 5, 1],
        &[0, 1, 3, 1, 1, 1, 1, 1, 0x85, b'o', b't', b'h', b'e', b'r', 6, 0x81, b'z', 2, 6, 1, 0xFF],
    ]
    .concat();
    let second = [
        &[33, 0, 0, 0, 12, 0, 1, 1, 0, 1, 2, 1, 0x81, b'f', 2, 0x81, b'g', 2, 0, 1][..],
        &[2, 1, 0, 1, 0, 1, 1, 1, 2, 1, 5, 1, 0xFF],
    ]
    .concat();
    let stream = sample();
    let nodes: Vec<_> = stream.nodes().map(|(id, listpack)| (id, listpack.as_bytes().to_vec())).collect();
    assert_eq!(nodes, [(StreamId::new(1, 0), first), (StreamId::new(4, 2), second)]);
    let mut again = Stream::new();
    for (id, listpack) in stream.nodes() {
        let listpack = Listpack::validate(listpack.as_bytes()).unwrap();
        assert_eq!(again.add_node(id, listpack.clone()), Ok(()));
        assert_eq!(again.add_node(id, listpack), Err(InvalidNode));
    }
    again.set_counters(StreamId::new(4, 2), Some(5), Some(StreamId::new(2, 0)));
    assert_eq!(again.state(), stream.state());
    assert_eq!(entries(&again, ALL, Direction::Forward), entries(&stream, ALL, Direction::Forward));
}

#[test]
fn hostile_nodes_never_panic() {
    let stream = sample();
    let node = stream.nodes().next().map(|(_, listpack)| listpack.as_bytes().to_vec()).unwrap();
    with_seeds(0..4, |random| {
        let mut accepted = 0;
        for _ in 0..scaled(20_000) {
            let mut bytes = node.clone();
            for _ in 0..1 + random.below(2) {
                let at = 6 + random.below(bytes.len() as u64 - 7) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            let Ok(listpack) = Listpack::validate(&bytes) else { continue };
            let mut stream = Stream::new();
            if stream.add_node(StreamId::new(1, 0), listpack).is_err() {
                continue;
            }
            accepted += 1;
            stream.check();
            let forward = entries(&stream, ALL, Direction::Forward);
            let mut backward = entries(&stream, ALL, Direction::Backward);
            backward.reverse();
            assert_eq!(forward, backward);
            for (id, _) in forward {
                assert!(stream.delete(id));
            }
            assert_eq!((stream.len(), stream.node_count()), (0, 0));
        }
        assert!(accepted > 0);
    });
}

#[test]
fn every_shortened_node_is_refused() {
    let stream = sample();
    let (id, node) = stream.nodes().next().unwrap();
    for count in 1..node.len() {
        let mut shorter = node.clone();
        shorter.remove_range(-(count as i64), count);
        assert_eq!(Stream::new().add_node(id, shorter), Err(InvalidNode));
    }
}

#[test]
fn ids_follow_each_other() {
    let id = StreamId::new(5, u64::MAX);
    assert_eq!(id.next(), Some(StreamId::new(6, 0)));
    assert_eq!(StreamId::new(6, 0).previous(), Some(id));
    assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    assert_eq!(StreamId::from_key(id.to_key()), id);
    assert_eq!(StreamId::new(7, 8).to_string(), "7-8");
    let mut stream = sample();
    assert_eq!(stream.next_id(3), Some(StreamId::new(4, 3)));
    assert_eq!(stream.next_id(9), Some(StreamId::new(9, 0)));
    assert_eq!(stream.next_id_in(4), Some(StreamId::new(4, 3)));
    assert_eq!((stream.next_id_in(3), stream.next_id_in(5)), (None, Some(StreamId::new(5, 0))));
    stream.set_counters(StreamId::MAX, None, None);
    assert_eq!((stream.next_id(9), stream.next_id_in(u64::MAX)), (None, None));
}

#[test]
fn groups_deliver_acknowledge_and_claim() {
    let mut stream = sample();
    assert!(
        stream.create_group(b"g", StreamId::MIN, None) && !stream.create_group(b"g", StreamId::MIN, None)
    );
    let mut group = stream.group_mut(b"g").unwrap();
    let alice = group.create_consumer(b"alice", 10).unwrap();
    let bob = group.create_consumer(b"bob", 11).unwrap();
    assert_eq!((group.create_consumer(b"bob", 12), group.find_consumer(b"alice")), (None, Some(alice)));
    drop(group);
    let mut seen = Vec::new();
    assert_eq!(stream.read_new(b"g", alice, 2, false, 20, |id, _, _| seen.push(id)), Some(2));
    assert_eq!(seen, [StreamId::new(1, 0), StreamId::new(3, 0)]);
    assert_eq!(stream.read_new(b"g", bob, 1, true, 21, |_, _, pending| assert!(pending.is_none())), Some(1));
    assert_eq!(stream.read_new(b"none", bob, 1, true, 21, |_, _, _| ()), None);
    stream.check();
    let group = stream.group(b"g").unwrap();
    assert_eq!((group.pending_len(), group.last_id), (2, StreamId::new(4, 1)));
    assert_eq!(group.consumer(alice).active_ms, Some(20));
    assert_eq!(group.consumer(bob).active_ms, None);
    assert_eq!(group.pending_bounds(), Some((StreamId::new(1, 0), StreamId::new(3, 0))));

    assert!(stream.delete(StreamId::new(3, 0)));
    let mut again = Vec::new();
    stream.read_pending(b"g", alice, StreamId::MIN, 9, 30, |id, entry| again.push((id, entry.is_some())));
    assert_eq!(again, [(StreamId::new(1, 0), true), (StreamId::new(3, 0), false)]);
    let mut group = stream.group_mut(b"g").unwrap();
    let first = Pending { consumer: alice, delivered_ms: 30, deliveries: 2 };
    assert_eq!(group.pending(StreamId::new(1, 0)), Some(first));
    group.assign(StreamId::new(1, 0), Pending { consumer: bob, delivered_ms: 40, deliveries: 7 });
    assert_eq!((group.consumer(alice).pending_len(), group.consumer(bob).pending_len()), (1, 1));
    group.assign(StreamId::new(1, 0), Pending { consumer: bob, delivered_ms: 40, deliveries: u64::MAX });
    drop(group);
    stream.read_pending(b"g", bob, StreamId::MIN, 9, 50, |_, _| ());
    let mut group = stream.group_mut(b"g").unwrap();
    assert_eq!(group.pending(StreamId::new(1, 0)).map(|pending| pending.deliveries), Some(0));
    assert!(group.acknowledge(StreamId::new(1, 0)) && !group.acknowledge(StreamId::new(1, 0)));
    assert_eq!(group.remove_consumer(b"alice"), Some(1));
    assert_eq!((group.remove_consumer(b"alice"), group.pending_len()), (None, 0));
    assert_eq!(group.consumers().map(|(id, _)| id).collect::<Vec<_>>(), [bob]);
    drop(group);
    stream.check();
    assert!(stream.remove_group(b"g").is_some() && stream.group(b"g").is_none());
}

#[test]
fn the_lag_of_a_group_is_known_or_unknown() {
    let mut stream = Stream::new();
    stream.create_group(b"g", StreamId::MIN, Some(0));
    let lag = |stream: &Stream| stream.group(b"g").unwrap().lag(&stream.state());
    assert_eq!(lag(&stream), Some(0));
    for ms in 1..=5 {
        stream.append(StreamId::new(ms, 0), &["f", "v"], LIMITS).unwrap();
    }
    assert_eq!(lag(&stream), Some(5));
    let consumer = stream.group_mut(b"g").unwrap().create_consumer(b"c", 0).unwrap();
    stream.read_new(b"g", consumer, 2, false, 0, |_, _, _| ());
    assert_eq!((lag(&stream), stream.group(b"g").unwrap().entries_read), (Some(3), Some(2)));
    assert!(stream.delete(StreamId::new(4, 0)));
    assert_eq!(lag(&stream), None);
    stream.read_new(b"g", consumer, 9, false, 0, |_, _, _| ());
    assert_eq!(lag(&stream), Some(0));
    assert_eq!(stream.trim(TrimTo::Length(1), false, 0), 3);
    assert_eq!(stream.state().entries_added_up_to(StreamId::new(4, 5)), Some(4));
}

#[test]
fn groups_stay_consistent_under_random_use() {
    with_seeds(0..4, |random| {
        let mut stream = Stream::new();
        for ms in 1..200 {
            stream.append(StreamId::new(ms, 0), &["f", "v"], LIMITS).unwrap();
        }
        stream.create_group(b"g", StreamId::MIN, None);
        let mut model = BTreeMap::<StreamId, (Vec<u8>, u64)>::new();
        for _ in 0..scaled(2_000) {
            let name = vec![b'a' + random.below(4) as u8];
            let id = StreamId::new(random.below(210), 0);
            {
                let mut group = stream.group_mut(b"g").unwrap();
                let consumer =
                    group.find_consumer(&name).or_else(|| group.create_consumer(&name, 0)).unwrap();
                match random.below(20) {
                    0..4 => {
                        drop(group);
                        let count = random.below(4);
                        let read = |id, _: Entry<'_>, _| _ = model.insert(id, (name.clone(), 1));
                        stream.read_new(b"g", consumer, count, false, 1, read);
                    }
                    4..10 => {
                        let deliveries = random.below(9);
                        group.assign(id, Pending { consumer, delivered_ms: 2, deliveries });
                        model.insert(id, (name, deliveries));
                    }
                    10..18 => assert_eq!(group.acknowledge(id), model.remove(&id).is_some()),
                    18 => {
                        let gone = group.remove_consumer(&name).unwrap();
                        let before = model.len();
                        model.retain(|_, (owner, _)| *owner != name);
                        assert_eq!(gone, before - model.len());
                    }
                    _ => group.last_id = id,
                }
            }
            let group = stream.group(b"g").unwrap();
            let pending = group.pending_from(StreamId::MIN);
            let pending =
                pending.map(|(id, p)| (id, (group.consumer(p.consumer).name().to_vec(), p.deliveries)));
            assert!(pending.eq(model.clone()));
            stream.check();
        }
        stream.clone().check();
    });
}

/// The same elements with integers in wider encodings than necessary, or as text: readable, but not canonical.
fn loosely_written(listpack: &Listpack, random: &mut Random) -> Listpack {
    let (mut body, mut count) = (Vec::new(), 0u16);
    for element in listpack {
        let from = body.len();
        match element {
            Element::Integer(value) if random.below(3) > 0 => {
                let little = value.to_le_bytes();
                match random.below(4) {
                    0 if i16::try_from(value).is_ok() => body.extend([0xF1, little[0], little[1]]),
                    1 if i32::try_from(value).is_ok() => body.extend([&[0xF3], &little[..4]].concat()),
                    2 => body.extend([&[0xF4], &little[..]].concat()),
                    _ => {
                        let text = value.to_string();
                        body.push(0x80 | text.len() as u8);
                        body.extend(text.bytes());
                    }
                }
            }
            element => {
                let encoded = Encoded::element(element);
                body.extend([encoded.head(), encoded.body()].concat());
            }
        }
        let (backlen, len) = backlen(body.len() - from);
        body.extend(&backlen[..len]);
        count += 1;
    }
    let total = (body.len() as u32 + 7).to_le_bytes();
    let bytes = [&total[..], &count.to_le_bytes(), &body, &[0xFF]].concat();
    Listpack::validate(&bytes).expect("well formed, if loosely")
}

#[test]
fn entries_of_loosely_written_nodes_can_be_deleted() {
    with_seeds(0..12, |random| {
        let (mut written, mut model) = (Stream::new(), BTreeMap::new());
        for ms in 1..=scaled(300) {
            let (id, items) = (StreamId::new(ms * (1 + ms % 5), random.below(900)), random_items(random));
            if written.append(id, &items, LIMITS).is_ok() {
                model.insert(id, items);
            }
        }
        let mut stream = Stream::new();
        for (base, listpack) in written.nodes() {
            stream.add_node(base, loosely_written(listpack, random)).expect("the layout of a node");
        }
        for _ in 0..scaled(40) {
            if random.below(2) == 0 {
                let id = random_id(&model, random);
                assert_eq!(stream.delete(id), model.remove(&id).is_some());
            } else {
                let id = *model.keys().nth(random.below(model.len().min(30) as u64) as usize).unwrap();
                let removed = stream.trim(TrimTo::Id(id), false, 0);
                assert_eq!(removed, model.range(..id).count() as u64);
                model = model.split_off(&id);
            }
            let items = random_items(random);
            let id = stream.state().last_id.next().unwrap();
            stream.append(id, &items, LIMITS).unwrap();
            model.insert(id, items);
            stream.check();
            let expected: Vec<_> = model.iter().map(|(&id, items)| (id, items.clone())).collect();
            assert_eq!(entries(&stream, ALL, Direction::Forward), expected);
        }
    });
}

#[test]
fn counters_from_elsewhere_stay_within_what_commands_can_say() {
    let mut stream = Stream::new();
    let id = |ms| StreamId { ms, seq: 0 };
    stream.create_group(b"group", id(0), Some(u64::MAX));
    stream.set_counters(id(1), Some(u64::MAX), None);
    stream.append(id(2), &[b"field", b"value"], NodeLimits { bytes: 4096, entries: 100 }).unwrap();
    assert_eq!(stream.state().entries_added, COUNTER_MAX);
    assert_eq!(stream.group_mut(b"group").unwrap().entries_read, Some(COUNTER_MAX));
    stream.check();
}

#[test]
fn entries_added_below_deleted_ones_come_in_their_place() {
    for kept in 1..=4 {
        let mut stream = Stream::new();
        let id = |ms| StreamId { ms, seq: 0 };
        (1..=4).for_each(|nth| stream.append(id(10 * nth), &["f", "v"], LIMITS).unwrap());
        (kept + 1..=4).for_each(|nth| assert!(stream.delete(id(10 * nth))));
        // Between the last two entries that are left, one is deleted that stays.
        if kept > 2 {
            assert!(stream.delete(id(10 * (kept - 1))));
        }
        for lowered in [40, 10 * kept + 5, 10 * kept] {
            stream.set_counters(id(lowered), None, Some(id(1)));
            stream.check();
        }
        stream.append(id(10 * kept + 7), &["f", "w"], LIMITS).unwrap();
        stream.check();
        assert_eq!(stream.get(id(10 * kept + 7)).map(|entry| entry.id), Some(id(10 * kept + 7)));
        assert!(stream.delete(id(10 * kept + 7)));
        stream.check();
    }
}

#[test]
fn what_may_be_claimed_is_the_longest_idle_that_exists() {
    let mut stream = Stream::new();
    let id = |ms| StreamId::new(ms, 0);
    for ms in 1..=6 {
        stream.append(id(ms), &["f", "v"], NodeLimits { bytes: 0, entries: 2 }).unwrap();
    }
    stream.create_group(b"g", StreamId::MIN, None);
    let mut group = stream.group_mut(b"g").unwrap();
    let consumer = group.create_consumer(b"c", 0).unwrap();
    for (ms, delivered_ms) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 50)] {
        group.assign(id(ms), Pending { consumer, delivered_ms, deliveries: 1 });
    }
    drop(group);
    let claimable = |stream: &mut Stream, until_ms, count| {
        let found = stream.claimable(b"g", until_ms, count).unwrap();
        stream.check();
        (found.ids.iter().map(|id| id.ms).collect::<Vec<_>>(), found.next_ms)
    };
    assert_eq!(claimable(&mut stream, 9, 10), (vec![], Some(10)));
    assert_eq!(claimable(&mut stream, 30, 2), (vec![2, 4], Some(20)));
    assert_eq!(claimable(&mut stream, 30, 10), (vec![2, 4, 3, 1], Some(50)));
    assert_eq!(claimable(&mut stream, 10, 2), (vec![2, 4], Some(20)));
    stream.delete(id(2));
    assert_eq!(claimable(&mut stream, 30, 2), (vec![4, 3], Some(30)));
    for ms in 3..=4 {
        stream.group_mut(b"g").unwrap().assign(id(ms), Pending { consumer, delivered_ms: 60, deliveries: 2 });
    }
    assert_eq!(claimable(&mut stream, 25, 2), (vec![], Some(30)), "deleted entries are not examined again");
    stream.group_mut(b"g").unwrap().assign(id(6), Pending { consumer, delivered_ms: 5, deliveries: 1 });
    assert_eq!(claimable(&mut stream, 25, 2), (vec![6], Some(30)));
    for ms in 1..=6 {
        stream.group_mut(b"g").unwrap().acknowledge(id(ms));
    }
    assert_eq!(claimable(&mut stream, 100, 2), (vec![], None));
    assert_eq!(stream.claimable(b"other", 100, 2), None);
}

#[test]
fn random_claims_take_the_longest_idle() {
    let id = |ms| StreamId::new(ms, 0);
    with_seeds(0..scaled(6), |random| {
        let mut stream = Stream::new();
        let count = 1 + random.below(4000);
        for ms in 1..=count {
            stream.append(id(ms), &["f", "v"], LIMITS).unwrap();
        }
        stream.create_group(b"g", StreamId::MIN, None);
        let consumer = stream.group_mut(b"g").unwrap().create_consumer(b"c", 0).unwrap();
        let (mut model, mut deleted) = (BTreeMap::<u64, i64>::new(), BTreeSet::new());
        let mut now_ms = 0;
        for ms in 1..=count {
            let pending = Pending { consumer, delivered_ms: -(ms as i64 % 700), deliveries: 1 };
            stream.group_mut(b"g").unwrap().assign(id(ms), pending);
            model.insert(ms, pending.delivered_ms);
        }
        for _ in 0..1000 {
            now_ms += random.below(3) as i64 / 2;
            let ms = 1 + random.below(count);
            // Some were delivered long ago.
            let ago_ms = if random.below(20) == 0 { random.below(2000) as i64 } else { 0 };
            match random.below(10) {
                0..6 => {
                    let delivered_ms = now_ms - ago_ms;
                    let mut group = stream.group_mut(b"g").unwrap();
                    group.assign(id(ms), Pending { consumer, delivered_ms, deliveries: 1 });
                    model.insert(ms, delivered_ms);
                }
                6 => {
                    let was_pending = stream.group_mut(b"g").unwrap().acknowledge(id(ms));
                    assert_eq!(was_pending, model.remove(&ms).is_some());
                }
                7 if random.below(4) == 0 => {
                    stream.delete(id(ms));
                    deleted.insert(ms);
                }
                _ => {
                    let (until_ms, at_most) = (now_ms - random.below(3000) as i64, random.below(20) as usize);
                    let found = stream.claimable(b"g", until_ms, at_most).unwrap();
                    let exists = |&(_, ms): &(i64, u64)| !deleted.contains(&ms);
                    let mut all: Vec<(i64, u64)> = model.iter().map(|(&ms, &at_ms)| (at_ms, ms)).collect();
                    all.sort_unstable();
                    let all: Vec<(i64, u64)> = all.into_iter().filter(exists).collect();
                    let due = all.iter().take_while(|(at_ms, _)| *at_ms <= until_ms).take(at_most);
                    let expected: Vec<StreamId> = due.map(|&(_, ms)| id(ms)).collect();
                    assert_eq!(found.ids, expected);
                    let next_ms = all.get(expected.len()).map(|(at_ms, _)| *at_ms);
                    assert!(
                        next_ms.is_none_or(|next_ms| found.next_ms.is_some_and(|told_ms| told_ms <= next_ms))
                    );
                    for taken in found.ids.into_iter().filter(|_| random.below(8) > 0) {
                        let pending = Pending { consumer, delivered_ms: now_ms, deliveries: 2 };
                        stream.group_mut(b"g").unwrap().assign(taken, pending);
                        model.insert(taken.ms, now_ms);
                    }
                }
            }
        }
        stream.check();
    });
}
