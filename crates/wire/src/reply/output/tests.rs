use super::*;
use crate::reference::{Random, scaled};
use crate::reply::{Protocol, ReplyBuffer};
use std::num::NonZeroUsize;

fn shared(len: usize, letter: u8) -> SharedBytes {
    SharedBytes::new(vec![letter; len])
}

fn referring() -> ReplyBuffer {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.take_references();
    reply
}

/// Replies of every kind in turn, with the bytes that they come to.
fn mixed() -> (ReplyBuffer, Vec<u8>) {
    let (mut reply, mut copied) = (referring(), ReplyBuffer::new(Protocol::Resp2));
    for reply in [&mut reply, &mut copied] {
        reply.bulk_shared(&shared(7, b'a'));
        reply.ok();
        reply.array(3);
        reply.bulk_shared(&shared(1, b'b'));
        reply.bulk_shared(&shared(12, b'c'));
        reply.bulk(b"own");
        reply.bulk_shared(&shared(0, b'd'));
        reply.bulk_shared(&shared(3, b'e'));
        reply.integer(12);
    }
    assert_eq!((reply.shared_len(), copied.shared_len()), (23, 0));
    (reply, copied.read_back().to_vec())
}

#[test]
fn references_are_the_bytes_that_a_copy_is() {
    let (mut reply, copied) = mixed();
    assert_eq!(reply.len(), copied.len());
    for start in 0..=copied.len() + 1 {
        assert_eq!(reply.copy_from(start), copied[start.min(copied.len())..]);
    }
    let output = reply.take();
    output.check();
    assert!(reply.is_empty() && output.as_slice().is_none());
    assert!(output.runs().all(|run| !run.is_empty()));
    assert_eq!(output.runs().collect::<Vec<_>>().concat(), copied);
    let mut slices = [IoSlice::new(&[]); 3];
    assert_eq!(output.gather(&mut slices), 3);
    assert_eq!(slices.map(|slice| slice.to_vec()).concat(), b"$7\r\naaaaaaa\r\n+OK\r\n*3\r\n$1\r\n");
    let mut slices = [IoSlice::new(&[]); 64];
    assert!(output.gather(&mut slices) < 64);
}

#[test]
fn an_output_goes_on_wherever_a_write_has_ended() {
    let (_, copied) = mixed();
    for first in 0..=copied.len() {
        for second in 0..=copied.len() - first {
            let (mut reply, _) = mixed();
            let output = reply.output();
            for sent in [first, second] {
                output.advance(sent);
                output.check();
            }
            assert_eq!(output.len(), copied.len() - first - second);
            assert_eq!(output.copy_from(0), copied[first + second..]);
            assert_eq!(output.is_empty(), first + second == copied.len());
            // What is written next follows.
            reply.bulk_shared(&shared(5, b'z'));
            reply.ok();
            assert_eq!(reply.copy_from(0), [&copied[first + second..], b"$5\r\nzzzzz\r\n+OK\r\n"].concat());
            reply.output().check();
        }
    }
}

#[test]
fn truncating_at_any_length_leaves_what_was_before() {
    let (_, copied) = mixed();
    for sent in 0..=copied.len() {
        for len in 0..=copied.len() - sent {
            let (mut reply, _) = mixed();
            reply.output().advance(sent);
            reply.truncate(len);
            reply.output().check();
            assert_eq!(reply.len(), len);
            assert_eq!(reply.copy_from(0), copied[sent..sent + len]);
        }
    }
}

#[test]
fn outputs_follow_each_other() {
    let (_, copied) = mixed();
    for first in 0..=copied.len() {
        let (mut a, mut b) = (mixed().0.take(), mixed().0.take());
        a.advance(first);
        b.advance(copied.len() - first);
        a.append(b);
        a.check();
        assert_eq!(
            a.copy_from(0),
            copied[first..].iter().chain(&copied[copied.len() - first..]).copied().collect::<Vec<_>>()
        );
    }
}

#[test]
fn what_is_sent_is_let_go_of_at_once() {
    let (first, second) = (shared(100, b'x'), shared(100, b'y'));
    let mut reply = referring();
    reply.bulk_shared(&first);
    reply.bulk_shared(&second);
    let counts = || (SharedBytes::strong_count(&first), SharedBytes::strong_count(&second));
    assert_eq!(counts(), (2, 2));
    reply.output().advance(105);
    assert_eq!(counts(), (2, 2));
    reply.output().advance(1);
    assert_eq!(counts(), (1, 2));
    reply.truncate(10);
    assert_eq!(counts(), (1, 2));
    reply.clear();
    assert_eq!(counts(), (1, 1));
    assert!(reply.is_empty());
}

#[test]
fn own_bytes_that_have_been_sent_do_not_stay() {
    let mut reply = referring();
    let long = vec![b'l'; 300_000];
    let mut expected = Vec::new();
    for _ in 0..4 {
        reply.bulk(&long);
        reply.bulk_shared(&shared(50_000, b's'));
        expected
            .extend([b"$300000\r\n", &long[..], b"\r\n$50000\r\n", &vec![b's'; 50_000], b"\r\n"].concat());
    }
    let mut received: Vec<u8> = Vec::new();
    while !reply.is_empty() {
        let sent = reply.len().min(30_011);
        received.extend(&reply.copy_from(0)[..sent]);
        reply.output().advance(sent);
        reply.output().check();
        assert!(reply.output.bytes.len() <= 2 * (reply.len() - reply.shared_len()) + SENT_BYTES_KEPT_MAX);
    }
    assert!(received == expected);
}

#[test]
fn aggregates_of_unknown_length_move_references_along() {
    for elements in [1, 9, 10, 1000] {
        let mut reply = referring();
        reply.bulk_shared(&shared(6, b'a'));
        let outer = reply.begin_array();
        let inner = reply.begin();
        for _ in 0..elements {
            reply.bulk_shared(&shared(2, b'b'));
        }
        reply.end_set(inner, elements);
        reply.end_array(outer, 1);
        reply.output().check();
        let expected = format!("$6\r\naaaaaa\r\n*1\r\n*{elements}\r\n{}", "$2\r\nbb\r\n".repeat(elements));
        assert_eq!(String::from_utf8(reply.copy_from(0)).unwrap(), expected);
    }
}

#[test]
fn references_count_towards_the_limit() {
    let value = shared(1000, b'v');
    let mut reply = referring();
    reply.set_limit(NonZeroUsize::new(2100));
    reply.bulk_shared(&value);
    reply.bulk_shared(&value);
    assert!(!reply.is_overflowed() && SharedBytes::strong_count(&value) == 3);
    reply.bulk_shared(&value);
    assert!(reply.is_overflowed() && reply.is_empty() && SharedBytes::strong_count(&value) == 1);
    reply.bulk_shared(&shared(1, b'w'));
    reply.truncate(1050);
    assert!(reply.is_empty());
    reply.set_limit(None);
    reply.bulk_shared(&value);
    assert_eq!(reply.len(), 1009);
}

#[test]
fn single_bytes_are_found_where_they_were_written() {
    let (reply, copy) = mixed();
    for (position, &byte) in copy.iter().enumerate() {
        assert_eq!(reply.byte_at(position), Some(byte));
    }
    assert_eq!(reply.byte_at(copy.len()), None);
}

#[test]
#[should_panic(expected = "read back")]
fn what_refers_is_not_read_back() {
    let (reply, _) = mixed();
    let _ = reply.read_back();
}

/// Replies long and short, nested and not, referred to and not, with writes and truncations between them.
#[test]
fn what_is_set_aside_stays_in_its_place() {
    for seed in 0..scaled(300) as u64 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let (mut reply, mut copied) = (referring(), ReplyBuffer::new(Protocol::Resp2));
        let mut sent = 0;
        for _ in 0..1 + random.below(11) {
            let plan = Plan::random(random, 0);
            plan.write(&mut reply);
            plan.write(&mut copied);
            reply.output().check();
            let left = &copied.read_back()[sent..];
            assert_eq!(reply.len(), left.len());
            assert!(reply.copy_from(0) == left);
            match random.below(4) {
                0 => {
                    let len = random.below(reply.len() + 1);
                    reply.output().advance(len);
                    sent += len;
                }
                1 => {
                    let len = random.below(reply.len() + 1);
                    reply.truncate(len);
                    copied.truncate(sent + len);
                }
                2 => {
                    let mut other = referring();
                    let plan = Plan::random(random, 0);
                    plan.write(&mut other);
                    plan.write(&mut copied);
                    reply.output().append(other.take());
                }
                _ => {}
            }
            reply.output().check();
            assert!(reply.copy_from(0) == copied.read_back()[sent..]);
        }
    }
}

#[test]
fn room_of_replies_that_were_taken_back_is_used_again() {
    let value = shared(20_000, b's');
    for elements in [&[1_000_000][..], &[1_000_000, 1_000_000], &[50_000, 50_000, 50_000], &[100; 2000]] {
        for refers in [false, true] {
            let (mut reply, mut expected) = (referring(), Vec::new());
            for _ in 0..100 {
                let before = reply.len();
                elements.iter().for_each(|&len| reply.bulk(&vec![b'l'; len]));
                reply.truncate(before);
                reply.output().check();
                reply.ok();
                expected.extend(b"+OK\r\n");
                if refers {
                    reply.bulk_shared(&value);
                    expected.extend([b"$20000\r\n", &value[..], b"\r\n"].concat());
                }
            }
            assert!(reply.copy_from(0) == expected);
            assert!(refers || reply.shared_len() == 0, "what is left is too little to be set aside");
            assert!(reply.capacity() < 2_100_000);
        }
    }
}

#[test]
fn deep_aggregates_that_end_behind_a_set_aside_buffer_do_not_divide_it() {
    for elements in [1, 12] {
        let (mut reply, mut copied) = (referring(), ReplyBuffer::new(Protocol::Resp2));
        for reply in [&mut reply, &mut copied] {
            reply.bulk_shared(&shared(20_000, b's'));
            let marks: Vec<_> = (0..5000).map(|_| reply.begin_array()).collect();
            (0..2).for_each(|_| reply.bulk(&[b'o'; 40_000]));
            marks.into_iter().rev().for_each(|mark| reply.end_array(mark, elements));
        }
        reply.output().check();
        assert!(reply.copy_from(0) == copied.read_back());
        assert!(reply.output().runs().count() <= 4);
    }
}

#[test]
fn a_buffer_that_is_being_sent_counts_whole() {
    let mut reply = referring();
    reply.bulk(&vec![b'o'; 1_000_000]);
    reply.bulk(&vec![b'o'; 1_000_000]);
    let len = reply.len();
    assert!((len..len + 200_000).contains(&reply.output().memory_bytes()));
    reply.output().advance(1_000_000);
    assert!((len..len + 200_000).contains(&reply.output().memory_bytes()));
    reply.output().advance(50);
    assert!(reply.output().memory_bytes() < 1_200_000);
}

#[test]
fn a_buffer_with_references_between_its_parts_counts_once() {
    let mut reply = referring();
    reply.bulk(&vec![b'o'; 1_000_000]);
    reply.truncate(0);
    for len in [600_000, 300_000, 200_000] {
        reply.bulk_shared(&shared(20_000, b's'));
        reply.bulk(&vec![b'o'; len]);
    }
    let len = reply.len();
    assert!((len..len + 100_000).contains(&reply.output().memory_bytes()));
}

enum Plan {
    Own(usize),
    Shared(usize),
    Aggregate(Vec<Plan>),
}

impl Plan {
    fn random(random: &mut Random, depth: usize) -> Self {
        match random.below(if depth < 3 { 4 } else { 2 }) {
            0 => Plan::Own(match random.below(8) {
                0 => random.below(190_000),
                1 | 2 => random.below(20_000),
                _ => random.below(100),
            }),
            1 => Plan::Shared(random.below(1000)),
            _ => Plan::Aggregate((0..random.below(15)).map(|_| Plan::random(random, depth + 1)).collect()),
        }
    }

    fn write(&self, reply: &mut ReplyBuffer) {
        match self {
            Plan::Own(len) => reply.bulk(&vec![b'o'; *len]),
            Plan::Shared(len) => reply.bulk_shared(&shared(*len, b's')),
            Plan::Aggregate(elements) => {
                let mark = reply.begin_array();
                elements.iter().for_each(|element| element.write(reply));
                reply.end_array(mark, elements.len());
            }
        }
    }
}
