//! Bytes an element and nanoseconds an operation of the small and special encodings.
//!
//! `cargo bench -p warmline-structures --bench small_encodings [name]`. Memory is what the allocator hands
//! out, in its size classes.

mod measuring;

use std::hint::black_box;
use std::time::Instant;

use structures::integer_set::IntegerSet;
use structures::listpack::{Element, Listpack};
use structures::packed_list::{Direction, PackedList};
use structures::random::Random;

/// Nanoseconds this thread has run, where the system tells, so that a busy machine does not count.
fn running_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Runs `work`, which does `operations`, and notes the time of one.
fn time<R>(structure: &str, name: &str, operations: u64, work: impl FnOnce() -> R) -> R {
    let (start, wall) = (running_ns(), Instant::now());
    let result = black_box(work());
    let ran = running_ns().zip(start).map(|(end, start)| end - start);
    let nanoseconds = ran.unwrap_or(wall.elapsed().as_nanos() as u64) as f64 / operations as f64;
    measuring::note_time(structure, name, operations as usize, "hot", nanoseconds);
    result
}

/// Notes what `make` leaves allocated for each of `elements`.
fn memory<R>(structure: &str, name: &str, elements: u64, make: impl FnOnce() -> R) -> R {
    let before = measuring::allocated_bytes();
    let made = make();
    let bytes = (measuring::allocated_bytes() - before) as f64 / elements as f64;
    measuring::note_memory(structure, name, elements as usize, bytes);
    made
}

fn listpack() {
    let texts: Vec<String> = (0..128).map(|i| format!("value:{i:04}")).collect();
    time("listpack", "push_back, 128 elements of 10 B", 128 * 10_000, || {
        for _ in 0..10_000 {
            let mut listpack = Listpack::new();
            texts.iter().for_each(|text| listpack.push_back(text.as_bytes()));
            black_box(listpack);
        }
    });
    let full: Listpack = memory("listpack", "128 elements of 10 B", 128, || {
        texts.iter().map(|text| Element::Bytes(text.as_bytes())).collect()
    });
    let first = full.first().expect("not empty");
    time("listpack", "find the last of 128", 100_000, || {
        (0..100_000).filter(|_| full.find(black_box(first), b"value:0127", 0).is_some()).count()
    });
    time("listpack", "iterate, an element", 128 * 20_000, || {
        (0..20_000).map(|_| black_box(&full).iter().map(|e| e.text_len()).sum::<usize>()).sum::<usize>()
    });
}

fn packed_list() {
    const COUNT: u64 = 1_000_000;
    let texts: Vec<String> = (0..COUNT).map(|i| format!("e{i:09}")).collect();
    let mut list = memory("packed list", "push_back", COUNT, || {
        let mut list = PackedList::new(-2, 0);
        time("packed list", "push_back", COUNT, || {
            texts.iter().for_each(|text| list.push_back(text.as_bytes()))
        });
        list
    });
    let mut random = Random::new(1);
    time("packed list", "get at a random index", 100_000, || {
        (0..100_000)
            .map(|_| list.get(random.below(COUNT) as i64, |e| e.text_len()).unwrap_or(0))
            .sum::<usize>()
    });
    time("packed list", "get the last", 1_000_000, || {
        (0..1_000_000).map(|_| black_box(&list).get(-1, |e| e.text_len()).unwrap_or(0)).sum::<usize>()
    });
    for direction in [Direction::Forward, Direction::Backward] {
        time("packed list", &format!("walk {direction:?}, an element"), COUNT, || {
            let (mut bytes, from) = (0, if direction == Direction::Forward { 0 } else { COUNT - 1 });
            list.for_each(from, COUNT, direction, |element| bytes += element.text_len());
            bytes
        });
    }
    time("packed list", "search for what is not there, an element", COUNT, || list.position(b"nothing"));
    time("packed list", "insert at a random index", 20_000, || {
        (0..20_000).for_each(|_| _ = list.insert(random.below(COUNT), b"e000000000"));
    });
    time("packed list", "pop_back", 500_000, || {
        (0..500_000).for_each(|_| _ = list.pop_back(|e| e.text_len()))
    });
    time("packed list", "pop_front", 500_000, || {
        (0..500_000).for_each(|_| _ = list.pop_front(|e| e.text_len()))
    });
    let mut list = memory("packed list", "push_front", COUNT, || {
        let mut list = PackedList::new(-2, 0);
        time("packed list", "push_front", COUNT, || {
            texts.iter().for_each(|text| list.push_front(text.as_bytes()))
        });
        list
    });
    time("packed list", "queue: push_front and pop_back", COUNT, || {
        for text in &texts {
            list.push_front(text.as_bytes());
            list.pop_back(|element| element.text_len());
        }
    });
    memory("packed list", "push_back, compressed", COUNT, || {
        let mut list = PackedList::new(-2, 1);
        time("packed list", "push_back, compressed", COUNT, || {
            texts.iter().for_each(|text| list.push_back(text.as_bytes()))
        });
        list
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
        let structure = format!("integer set, {name}");
        let mut set = memory(&structure, "insert", COUNT, || {
            let mut set = IntegerSet::new();
            time(&structure, "insert", COUNT, || values.iter().for_each(|&value| _ = set.insert(value)));
            set
        });
        time(&structure, "contains", COUNT, || {
            (0..COUNT).filter(|_| set.contains(values[random.below(COUNT) as usize])).count()
        });
        time(&structure, "random member", 100_000, || {
            (0..100_000).filter_map(|_| set.at(random.below(set.len()))).fold(0i64, i64::wrapping_add)
        });
        time(&structure, "iterate", set.len(), || set.iter().fold(0i64, i64::wrapping_add));
        time(&structure, "remove", COUNT, || values.iter().for_each(|&value| _ = set.remove(value)));
    }
    time("integer set", "insert 128 descending into a new set", 128 * 10_000, || {
        for _ in 0..10_000 {
            let mut set = IntegerSet::new();
            (0..128).rev().for_each(|value| _ = set.insert(value));
            black_box(set);
        }
    });
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let all: [(&str, fn()); 3] =
        [("listpack", listpack), ("packed_list", packed_list), ("integer_set", integer_set)];
    for (name, run) in all {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            run();
        }
    }
    measuring::save("small_encodings");
}
