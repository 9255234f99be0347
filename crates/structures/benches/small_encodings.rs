//! Bytes per element and nanoseconds per operation of the small and special encodings.
//!
//! `cargo bench -p warmline-structures --bench small_encodings [name]`. Memory is counted in the allocator's
//! size classes.

mod measuring;

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Mutex;

use structures::integer_set::IntegerSet;
use structures::listpack::{Element, Listpack};
use structures::lzf::{Compressor, compress_small, decompress_into};
use structures::packed_list::{Direction, PackedList};
use structures::radix_tree::RadixTree;
use structures::random::Random;
use structures::stream::{self, NodeLimits, Stream, StreamId, TrimTo};

/// Name of the current measurement, for the results.
static SECTION: Mutex<String> = Mutex::new(String::new());

fn section() -> String {
    SECTION.lock().expect("no section panics").clone()
}

fn begin_section(name: impl ToString) {
    *SECTION.lock().expect("no section panics") = name.to_string();
}

/// Nanoseconds of processor time of this thread, so that other load does not count.
fn running_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `work`, which does `operations`, and records the time of one.
fn time<R>(name: &str, operations: u64, work: impl FnOnce() -> R) -> R {
    let start = running_ns();
    let result = black_box(work());
    let nanoseconds = (running_ns() - start) as f64 / operations as f64;
    measuring::note_time(&section(), name, operations as usize, "hot", nanoseconds);
    result
}

/// Records the bytes that `make` leaves allocated per element.
fn memory<R>(name: &str, elements: u64, make: impl FnOnce() -> R) -> R {
    let before = measuring::allocated_bytes();
    let made = make();
    let bytes = (measuring::allocated_bytes() - before) as f64 / elements as f64;
    measuring::note_memory(&section(), name, elements as usize, bytes);
    made
}

fn listpack() {
    begin_section("listpack");
    let texts: Vec<String> = (0..128).map(|i| format!("value:{i:04}")).collect();
    time("push_back, 128 elements of 10 B", 128 * 10_000, || {
        for _ in 0..10_000 {
            let mut listpack = Listpack::new();
            texts.iter().for_each(|text| listpack.push_back(text.as_bytes()));
            black_box(listpack);
        }
    });
    let full: Listpack = texts.iter().map(|text| Element::Bytes(text.as_bytes())).collect();
    measuring::note_memory(&section(), "128 elements", 128, full.memory_bytes() as f64 / 128.0);
    let first = full.first().expect("not empty");
    time("find the last of 128", 100_000, || {
        (0..100_000).filter(|_| full.find(black_box(first), b"value:0127", 0).is_some()).count()
    });
    time("iterate, an element", 128 * 20_000, || {
        (0..20_000).map(|_| black_box(&full).iter().map(|e| e.text_len()).sum::<usize>()).sum::<usize>()
    });
}

fn packed_list() {
    begin_section("packed list");
    const COUNT: u64 = 1_000_000;
    let texts: Vec<String> = (0..COUNT).map(|i| format!("e{i:09}")).collect();
    time("for comparison: a length and the bytes to a Vec", COUNT, || {
        let mut buffer = Vec::new();
        for text in &texts {
            buffer.push(text.len() as u8);
            buffer.extend_from_slice(text.as_bytes());
        }
        buffer
    });
    let mut list = memory("push_back", COUNT, || {
        let mut list = PackedList::new(-2, 0);
        time("push_back", COUNT, || texts.iter().for_each(|text| list.push_back(text.as_bytes())));
        list
    });
    let mut random = Random::new(1);
    time("get at a random index", 100_000, || {
        (0..100_000)
            .map(|_| list.get(random.below(COUNT) as i64, |e| e.text_len()).unwrap_or(0))
            .sum::<usize>()
    });
    time("get the last", 1_000_000, || {
        (0..1_000_000).map(|_| black_box(&list).get(-1, |e| e.text_len()).unwrap_or(0)).sum::<usize>()
    });
    for direction in [Direction::Forward, Direction::Backward] {
        time(&format!("walk {direction:?}, an element"), COUNT, || {
            let (mut bytes, from) = (0, if direction == Direction::Forward { 0 } else { COUNT - 1 });
            list.for_each(from, COUNT, direction, |element| bytes += element.text_len());
            bytes
        });
    }
    time("search for what is not there, an element", COUNT, || list.position(b"nothing"));
    time("insert at a random index", 20_000, || {
        (0..20_000).for_each(|_| _ = list.insert(random.below(COUNT), b"e000000000"));
    });
    measuring::note_memory(
        &section(),
        "after those inserts",
        COUNT as usize,
        list.memory_bytes() as f64 / list.len() as f64,
    );
    time("pop_back", 500_000, || (0..500_000).for_each(|_| _ = list.pop_back(|e| e.text_len())));
    time("pop_front", 500_000, || (0..500_000).for_each(|_| _ = list.pop_front(|e| e.text_len())));
    let mut list = memory("push_front", COUNT, || {
        let mut list = PackedList::new(-2, 0);
        time("push_front", COUNT, || texts.iter().for_each(|text| list.push_front(text.as_bytes())));
        list
    });
    time("queue: push_front and pop_back", COUNT, || {
        for text in &texts {
            list.push_front(text.as_bytes());
            list.pop_back(|element| element.text_len());
        }
    });
    memory("push_back, compressed", COUNT, || {
        let mut list = PackedList::new(-2, 1);
        time("push_back, compressed", COUNT, || {
            texts.iter().for_each(|text| list.push_back(text.as_bytes()))
        });
        list
    });
}

fn lzf() {
    begin_section("LZF");
    let input: Vec<u8> = (0..1024).flat_map(|i| format!("e{i:07}").into_bytes()).collect();
    let mut output = vec![0; input.len()];
    let mut compressor = Compressor::new();
    let bytes = input.len() as u64 * 500;
    time("with the table of the reference, kept", bytes, || {
        (0..500).filter_map(|_| compressor.compress(black_box(&input), &mut output)).sum::<usize>()
    });
    time("with a small table on the stack", bytes, || {
        (0..500).filter_map(|_| compress_small(black_box(&input), &mut output)).sum::<usize>()
    });
    let len = compressor.compress(&input, &mut output).expect("digits compress");
    println!("  {} bytes became {len}", input.len());
    let mut expanded = Vec::new();
    time("decompress", bytes, || {
        (0..500).filter(|_| decompress_into(&output[..len], input.len(), &mut expanded).is_ok()).count()
    });
}

fn integer_set() {
    const COUNT: u64 = 1_000_000;
    let mut random = Random::new(1);
    let shapes: [(&str, Vec<i64>); 4] = [
        ("consecutive", (0..COUNT as i64).collect()),
        ("half of 0..2M", (0..COUNT).map(|_| random.below(2 * COUNT) as i64).collect()),
        ("sparse in 0..8e9", (0..COUNT).map(|_| random.below(8_000_000_000) as i64).collect()),
        ("all 64 bits", (0..COUNT).map(|_| random.next_u64() as i64).collect()),
    ];
    for (name, values) in shapes {
        begin_section(format!("integer set, {name}"));
        let before = measuring::allocated_bytes();
        let mut set = IntegerSet::new();
        time("insert", COUNT, || values.iter().for_each(|&value| _ = set.insert(value)));
        let bytes = measuring::allocated_bytes() - before;
        measuring::note_memory(&section(), "insert", COUNT as usize, bytes as f64 / set.len() as f64);
        time("contains", COUNT, || {
            (0..COUNT).filter(|_| set.contains(values[random.below(COUNT) as usize])).count()
        });
        time("random member", 100_000, || {
            (0..100_000).filter_map(|_| set.at(random.below(set.len()))).fold(0i64, i64::wrapping_add)
        });
        time("iterate", set.len(), || set.iter().fold(0i64, i64::wrapping_add));
        time("remove", COUNT, || values.iter().for_each(|&value| _ = set.remove(value)));
    }
    begin_section("integer set, small");
    time("insert 128 descending into a new set", 128 * 10_000, || {
        for _ in 0..10_000 {
            let mut set = IntegerSet::new();
            (0..128).rev().for_each(|value| _ = set.insert(value));
            black_box(set);
        }
    });
}

fn radix_tree() {
    begin_section("radix tree");
    const COUNT: u64 = 1_000_000;
    let id = |i: u64| StreamId::new(1_700_000_000_000 + i, 0).to_key();
    let mut tree = RadixTree::new();
    memory("insert ascending, values of 8 B", COUNT, || {
        time("insert ascending", COUNT, || (0..COUNT).for_each(|i| _ = tree.insert(&id(i), i)));
    });
    let mut random = Random::new(1);
    time("get", COUNT, || (0..COUNT).filter(|_| tree.get(&id(random.below(COUNT))).is_some()).count());
    time("iterate", COUNT, || tree.iter().map(|(_, value)| value).sum::<u64>());
    time("remove at random places", COUNT / 2, || {
        (0..COUNT / 2).filter(|_| tree.remove(&id(random.below(COUNT))).is_some()).count()
    });
}

fn stream() {
    begin_section("stream");
    const COUNT: u64 = 1_000_000;
    let limits = NodeLimits { bytes: 4096, entries: 100 };
    let mut stream = Stream::new();
    memory("append", COUNT, || {
        time("append", COUNT, || {
            for i in 0..COUNT {
                _ = black_box(stream.append(
                    StreamId::new(1_700_000_000_000 + i, 0),
                    &["field", "value:0123"],
                    limits,
                ));
            }
        });
    });
    for direction in [stream::Direction::Forward, stream::Direction::Backward] {
        time(&format!("range {direction:?}, an entry"), COUNT, || {
            let range = stream.range(StreamId::MIN, StreamId::MAX, direction);
            range.map(|entry| entry.fields().map(|(_, value)| value.text_len()).sum::<usize>()).sum::<usize>()
        });
    }
    let mut random = Random::new(1);
    let any = |random: &mut Random| StreamId::new(1_700_000_000_000 + random.below(COUNT), 0);
    time("get one at random", 200_000, || {
        (0..200_000).filter(|_| stream.get(any(&mut random)).is_some()).count()
    });
    stream.create_group(b"group", StreamId::MIN, None);
    let consumer = stream.group_mut(b"group").and_then(|mut group| group.create_consumer(b"consumer", 0));
    let consumer = consumer.expect("the group is new");
    memory("pending, an entry", COUNT, || {
        time("deliver to a group", COUNT, || {
            stream.read_new(b"group", consumer, COUNT, false, 1, |_, _, _| ())
        });
    });
    let mut group = stream.group_mut(b"group").expect("the group exists");
    time("acknowledge in order", COUNT, || {
        (0..COUNT).filter(|&i| group.acknowledge(StreamId::new(1_700_000_000_000 + i, 0))).count()
    });
    drop(group);
    time("delete one at random", 200_000, || {
        (0..200_000).filter(|_| stream.delete(any(&mut random))).count()
    });
    time("trim to half", COUNT / 2, || stream.trim(TrimTo::Length(COUNT / 2), false, 0));
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let all: [(&str, fn()); 6] = [
        ("listpack", listpack),
        ("lzf", lzf),
        ("packed_list", packed_list),
        ("integer_set", integer_set),
        ("radix_tree", radix_tree),
        ("stream", stream),
    ];
    for (name, run) in all {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            run();
        }
    }
    measuring::save("small_encodings");
}
