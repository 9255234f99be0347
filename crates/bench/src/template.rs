//! Requests that are sent repeatedly, with placeholders for numbers.
//!
//! A placeholder has as many characters as its number, so a batch is encoded once, and only the numbers are
//! overwritten.

use std::sync::atomic::{AtomicU64, Ordering};

use client::append_request;

use crate::cluster::{TAG_LEN, Tags};
use crate::load::Requests;

/// Length of placeholders and numbers.
const PLACE_LEN: usize = 12;
/// `__rand_int__`, whose occurrences are independent, and the nine whose occurrences are equal.
const PLACEHOLDERS: [&[u8; PLACE_LEN]; 10] = [
    b"__rand_int__",
    b"__rand_1st__",
    b"__rand_2nd__",
    b"__rand_3rd__",
    b"__rand_4th__",
    b"__rand_5th__",
    b"__rand_6th__",
    b"__rand_7th__",
    b"__rand_8th__",
    b"__rand_9th__",
];
const INDEPENDENT: usize = 0;
/// The placeholder of a cluster's hash tag, which is used between braces.
const TAG: &[u8; TAG_LEN + 2] = b"{tag}";

/// Counters of sequential numbers, one per placeholder.
pub type Sequence = [AtomicU64; PLACEHOLDERS.len()];

/// A sequence of commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub bytes: Vec<u8>,
    /// Number of commands, and so of replies.
    pub commands: u64,
    /// Positions of numbers, with their placeholders.
    places: Vec<(usize, usize)>,
    /// Positions of hash tags.
    tag_places: Vec<usize>,
}

/// The source of numbers.
pub enum Numbers<'a> {
    /// Placeholders are kept.
    None,
    Random(Random),
    /// Sequential numbers, shared by all connections.
    Sequential {
        below: u64,
        next: &'a Sequence,
    },
}

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random {
    below: u64,
    state: u64,
}

impl Random {
    /// Returns a number below a bound.
    pub fn new(below: u64, seed: u64) -> Self {
        Self { below, state: seed }
    }

    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn next_number(&mut self) -> u64 {
        ((u128::from(self.next_bits()) * u128::from(self.below)) >> 64) as u64
    }
}

/// Returns printable bytes that compress badly, the same at each call.
pub fn data(len: usize) -> Vec<u8> {
    let mut random = Random::new(64, len as u64);
    (0..len).map(|_| b'0' + random.next_number() as u8).collect()
}

impl Numbers<'_> {
    fn next(&mut self, placeholder: usize) -> u64 {
        match self {
            Self::None => 0,
            Self::Random(random) => random.next_number(),
            Self::Sequential { below, next } => {
                next[placeholder].fetch_add(1, Ordering::Relaxed) % (*below).max(1)
            }
        }
    }
}

impl Template {
    /// Inline commands.
    pub fn inline(line: &[u8]) -> Self {
        Self::of_bytes(line.to_vec(), 1)
    }

    pub fn command<A: AsRef<[u8]>>(args: &[A]) -> Self {
        let mut bytes = Vec::new();
        append_request(&mut bytes, args);
        Self::of_bytes(bytes, 1)
    }

    /// Parses a command line: commands separated by `;`, a number before one repeats it.
    pub fn sequence(words: &[Vec<u8>]) -> Result<Self, String> {
        let (mut bytes, mut commands) = (Vec::new(), 0);
        for command in words.split(|word| word == b";").filter(|command| !command.is_empty()) {
            let count = std::str::from_utf8(&command[0]).ok().and_then(|word| word.parse::<u64>().ok());
            let (count, args) = match count {
                Some(count) => (count, &command[1..]),
                None => (1, command),
            };
            if args.is_empty() {
                return Err("a number must be followed by the command that it repeats".to_string());
            }
            (0..count).for_each(|_| append_request(&mut bytes, args));
            commands += count;
        }
        match commands {
            0 => Err("no command".to_string()),
            _ => Ok(Self::of_bytes(bytes, commands)),
        }
    }

    fn of_bytes(bytes: Vec<u8>, commands: u64) -> Self {
        let placeholder = |start: usize| {
            let letters = bytes.get(start..start + PLACE_LEN)?;
            let index = PLACEHOLDERS.iter().position(|placeholder| letters == *placeholder)?;
            Some((start, index))
        };
        let places = (0..bytes.len()).filter_map(placeholder).collect();
        let is_tag = |start: &usize| bytes[*start..].starts_with(TAG);
        let tag_places = (0..bytes.len()).filter(is_tag).collect();
        Self { bytes, commands, places, tag_places }
    }

    /// Repeats the template.
    pub fn repeated(&self, count: usize) -> Vec<u8> {
        self.bytes.repeat(count)
    }

    /// Writes new numbers into the first `count` copies of the template in `batch`.
    pub fn renew(&self, batch: &mut [u8], count: usize, numbers: &mut Numbers<'_>) {
        if self.places.is_empty() || matches!(numbers, Numbers::None) {
            return;
        }
        for copy in batch.chunks_exact_mut(self.bytes.len()).take(count) {
            let mut shared = [None; PLACEHOLDERS.len()];
            for &(start, placeholder) in &self.places {
                let number = match placeholder {
                    INDEPENDENT => numbers.next(placeholder),
                    _ => *shared[placeholder].get_or_insert_with(|| numbers.next(placeholder)),
                };
                write_number(&mut copy[start..start + PLACE_LEN], number);
            }
        }
    }
}

/// The slots of a node, with hash tags.
pub struct Route<'a> {
    pub tags: &'a Tags,
    pub slots: &'a [u16],
    pub random: Random,
}

impl Route<'_> {
    /// Writes a hash tag of the node into each of the first `count` copies of the template; all keys of a copy share
    /// it.
    fn renew(&mut self, template: &Template, batch: &mut [u8], count: usize) {
        for copy in batch.chunks_exact_mut(template.bytes.len()).take(count) {
            let tag = self.tags.of(self.slots[self.random.next_number() as usize]);
            for start in &template.tag_places {
                copy[start + 1..start + 1 + TAG_LEN].copy_from_slice(tag);
            }
        }
    }
}

fn write_number(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Number of sequences that all connections together may still send.
pub struct Claims {
    pub sequences: u64,
    pub claimed: AtomicU64,
}

impl Claims {
    pub fn new(sequences: u64) -> Self {
        Self { sequences, claimed: AtomicU64::new(0) }
    }

    /// Takes up to this number of sequences.
    fn claim(&self, count: u64) -> u64 {
        let before = self.claimed.fetch_add(count, Ordering::Relaxed);
        self.sequences.saturating_sub(before).min(count)
    }
}

/// Sends a template repeatedly, once per pipeline slot.
pub struct Repeated<'a> {
    template: &'a Template,
    claims: &'a Claims,
    pipeline: u64,
    numbers: Numbers<'a>,
    /// The node's hash tags, in a cluster.
    route: Option<Route<'a>>,
    /// A full batch, of which `len` bytes are sent.
    batch: Vec<u8>,
    len: usize,
}

impl<'a> Repeated<'a> {
    pub fn new(template: &'a Template, claims: &'a Claims, pipeline: u64, numbers: Numbers<'a>) -> Self {
        let batch = template.repeated(pipeline as usize);
        Self { template, claims, pipeline, numbers, route: None, batch, len: 0 }
    }

    pub fn routed(self, route: Option<Route<'a>>) -> Self {
        Self { route, ..self }
    }
}

impl Requests for Repeated<'_> {
    fn next_batch(&mut self, is_warming: bool) -> u64 {
        let sequences = if is_warming { self.pipeline } else { self.claims.claim(self.pipeline) };
        self.template.renew(&mut self.batch, sequences as usize, &mut self.numbers);
        if let Some(route) = &mut self.route {
            route.renew(self.template, &mut self.batch, sequences as usize);
        }
        self.len = self.template.bytes.len() * sequences as usize;
        self.template.commands * sequences
    }

    fn bytes(&self) -> &[u8] {
        &self.batch[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn number(batch: &[u8], at: usize) -> u64 {
        std::str::from_utf8(&batch[at..at + PLACE_LEN]).unwrap().parse().unwrap()
    }

    #[test]
    fn numbers_take_the_places_of_their_letters() {
        let template =
            Template::command(&["ZADD", "k", "__rand_int__", "__rand_1st__:__rand_1st__:__rand_2nd__"]);
        let mut batch = template.repeated(3);
        let untouched = batch.clone();
        template.renew(&mut batch, 3, &mut Numbers::None);
        assert_eq!(batch, untouched);

        let mut numbers = Numbers::Random(Random::new(1000, 7));
        template.renew(&mut batch, 2, &mut numbers);
        let copy_len = template.bytes.len();
        for copy in batch[..2 * copy_len].chunks(copy_len) {
            let values: Vec<u64> = template.places.iter().map(|&(at, _)| number(copy, at)).collect();
            assert!(
                values.iter().all(|&value| value < 1000) && values[1] == values[2] && values[1] != values[3]
            );
        }
        assert_eq!(batch[2 * copy_len..], untouched[2 * copy_len..]);

        let next = Default::default();
        let mut numbers = Numbers::Sequential { below: 2, next: &next };
        template.renew(&mut batch, 3, &mut numbers);
        let firsts = [0, 1, 2].map(|copy| number(&batch, copy * copy_len + template.places[0].0));
        assert_eq!(firsts, [0, 1, 0]);
    }

    #[test]
    fn sequences_of_commands() {
        let one = Template::command(&["GET", "a"]);
        assert_eq!(Template::sequence(&words("GET a")), Ok(one.clone()));
        let sequence = Template::sequence(&words("2 GET a ; GET a")).unwrap();
        assert_eq!((sequence.bytes, sequence.commands), (one.repeated(3), 3));
        for line in ["5", ";", "0 GET a", "GET a ; 3"] {
            assert!(Template::sequence(&words(line)).is_err(), "{line}");
        }
    }
}
