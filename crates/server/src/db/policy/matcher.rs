//! Finds the first of many globs that matches a key, without trying them one after another.
//!
//! ```text
//! node                          entry, one for each literal beginning of a glob
//! +----------------------+      +---------------------------------------------+
//! | position in the key  |      | the beginning's first 8 bytes, its last 8   |
//! | the entry if the key |      | the first of its candidates: the globs that |
//! | ends before that     | ---> | a key which begins so may match, in order   |
//! | the next step for    |      | the next shorter entry that it begins with  |
//! | each of 256 bytes    |      |                                             |
//! +----------------------+      +---------------------------------------------+
//! ```
//!
//! A glob is split into its literal beginning, up to the first special byte, and a rest. All beginnings form a tree that
//! tests only the bytes in which they differ; the bytes between are compared once, at the end. A key that differs there
//! belongs to a shorter beginning, down to the empty one. Most keys test one node or two and one entry, whose first
//! candidate is a beginning with `*` after it, and are done.
//!
//! 1. Entries are sorted by their beginnings, which are unique; entry 0 is the empty one, whether a glob has it or not.
//! 2. A node's children differ at its position, and all begin with the same bytes before it. Bytes without a child lead
//!    to `otherwise`: the longest entry that a key beginning with these bytes can begin with.
//! 3. An entry's candidates are the globs whose beginnings it begins with, in the globs' order, up to the first that any
//!    key of this entry matches.
//!
//! Rejected: nodes of a cache line each, with a bit for each byte that has a child and children indexed by the number of
//! bits before it: 157 instructions a key with 50 rules instead of 79, a third of them to count bits and to compare in a
//! call.

use std::ops::Range;
use wire::convert::{len_u16, short_len};

/// Maximum number of globs of a matcher.
pub const GLOBS_MAX: usize = 1 << 12;

/// A compiled list of globs.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    first: Step,
    nodes: Vec<Node>,
    entries: Vec<Entry>,
    candidates: Vec<Candidate>,
    globs: Vec<Box<[u8]>>,
}

/// A node, or an entry.
#[derive(Clone, Copy, Debug, Default)]
struct Step(u16);

const ENTRY: u16 = 1 << 15;

#[derive(Clone, Debug)]
struct Node {
    position: u16,
    otherwise: Step,
    next: [Step; 256],
}

const WORD_BYTES: usize = size_of::<u64>();

#[derive(Clone, Debug)]
struct Entry {
    /// The first bytes of the beginning, and a mask of the bytes it has.
    head: u64,
    mask: u64,
    /// The last bytes of a beginning longer than a word.
    tail: u64,
    beginning: Box<[u8]>,
    first: Option<Candidate>,
    others: Range<u32>,
    shorter: u16,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    glob: u16,
    matches: Matches,
}

/// Which keys with an entry's beginning match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matches {
    /// All but the empty key, which a star does not match.
    All,
    /// The key of this length.
    Whole(u16),
    /// The keys that the glob matches.
    Some,
}

fn literal_bytes(glob: &[u8]) -> usize {
    glob.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(glob.len())
}

impl Matches {
    fn of(glob: &[u8]) -> Self {
        let (literal, rest) = glob.split_at(literal_bytes(glob));
        match rest {
            [] => Matches::Whole(len_u16(literal.len())),
            rest if rest.iter().all(|byte| *byte == b'*') => Matches::All,
            _ => Matches::Some,
        }
    }
}

/// The word at `at`, if the text is long enough.
#[inline]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

impl Entry {
    fn new(beginning: &[u8]) -> Self {
        let (mut head, mut mask) = ([0; WORD_BYTES], [0; WORD_BYTES]);
        for (at, &byte) in beginning.iter().take(WORD_BYTES).enumerate() {
            (head[at], mask[at]) = (byte, u8::MAX);
        }
        Entry {
            head: u64::from_le_bytes(head),
            mask: u64::from_le_bytes(mask),
            tail: beginning.len().checked_sub(WORD_BYTES).and_then(|at| word(beginning, at)).unwrap_or(0),
            beginning: beginning.into(),
            first: None,
            others: 0..0,
            shorter: 0,
        }
    }

    #[inline]
    fn begins(&self, key: &[u8]) -> bool {
        let Some(first) = word(key, 0) else { return key.starts_with(&self.beginning) };
        let len = self.beginning.len();
        if (first ^ self.head) & self.mask != 0 {
            return false;
        }
        len <= WORD_BYTES
            || word(key, len - WORD_BYTES) == Some(self.tail)
                && (len <= 2 * WORD_BYTES || key.starts_with(&self.beginning))
    }
}

impl Matcher {
    /// Creates a matcher of at most [`GLOBS_MAX`] globs, each shorter than 64 KB.
    pub fn new<'a>(globs: impl Iterator<Item = &'a [u8]>) -> Self {
        let globs: Vec<Box<[u8]>> = globs.map(Box::from).collect();
        debug_assert!(globs.len() <= GLOBS_MAX && globs.iter().all(|glob| glob.len() <= u16::MAX.into()));
        let mut beginnings: Vec<&[u8]> = globs.iter().map(|glob| &glob[..literal_bytes(glob)]).collect();
        beginnings.push(b"");
        beginnings.sort_unstable();
        beginnings.dedup();
        let mut matcher = Matcher {
            entries: beginnings.iter().map(|beginning| Entry::new(beginning)).collect(),
            ..Matcher::default()
        };
        matcher.find_shorter();
        matcher.collect_candidates(&globs);
        matcher.first = matcher.build(0..matcher.entries.len(), 0);
        matcher.globs = globs;
        matcher
    }

    /// The globs in order.
    pub fn globs(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.globs.iter().map(|glob| &**glob)
    }

    /// In sorted order, an entry's own beginning stands before it: it is the entry before it, or a beginning of that one.
    fn find_shorter(&mut self) {
        for at in 1..self.entries.len() {
            let mut shorter = at - 1;
            while !self.entries[at].beginning.starts_with(&self.entries[shorter].beginning) {
                shorter = self.entries[shorter].shorter.into();
            }
            self.entries[at].shorter = len_u16(shorter);
        }
    }

    fn collect_candidates(&mut self, globs: &[Box<[u8]>]) {
        for entry in &mut self.entries {
            let start = self.candidates.len();
            for (index, glob) in globs.iter().enumerate() {
                if !entry.beginning.starts_with(&glob[..literal_bytes(glob)]) {
                    continue;
                }
                let matches = Matches::of(glob);
                // A key longer than the whole glob does not match it.
                if matches!(matches, Matches::Whole(len) if usize::from(len) < entry.beginning.len()) {
                    continue;
                }
                self.candidates.push(Candidate { glob: len_u16(index), matches });
                if matches == Matches::All && !entry.beginning.is_empty() {
                    break;
                }
            }
            entry.first = self.candidates.get(start).copied();
            entry.others = short_len(start + 1)..short_len(self.candidates.len().max(start + 1));
        }
    }

    /// Builds the tree of a range of entries; `otherwise` is the longest entry for keys without a child.
    fn build(&mut self, mut range: Range<usize>, mut otherwise: u16) -> Step {
        if range.len() == 1 {
            return Step(len_u16(range.start) | ENTRY);
        }
        let beginning = |at: usize| &self.entries[at].beginning;
        let (first, last) = (beginning(range.start), beginning(range.end - 1));
        let position = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        if first.len() == position {
            otherwise = len_u16(range.start);
            range.start += 1;
        }
        let (index, otherwise_step) = (self.nodes.len(), Step(otherwise | ENTRY));
        let next = [otherwise_step; 256];
        self.nodes.push(Node { position: len_u16(position), otherwise: otherwise_step, next });
        while !range.is_empty() {
            let byte = self.entries[range.start].beginning[position];
            let is_child = |entry: &&Entry| entry.beginning[position] == byte;
            let count = self.entries[range.clone()].iter().take_while(is_child).count();
            let child = self.build(range.start..range.start + count, otherwise);
            self.nodes[index].next[usize::from(byte)] = child;
            range.start += count;
        }
        Step(len_u16(index))
    }

    /// The first glob that matches the key.
    #[inline]
    pub fn first_match(&self, key: &[u8]) -> Option<usize> {
        let mut step = self.first;
        while step.0 & ENTRY == 0 {
            let node = &self.nodes[usize::from(step.0)];
            let byte = key.get(usize::from(node.position));
            step = byte.map_or(node.otherwise, |byte| node.next[usize::from(*byte)]);
        }
        let mut at = step.0 & !ENTRY;
        loop {
            let entry = &self.entries[usize::from(at)];
            if entry.begins(key) {
                let first = entry.first?;
                return match first.matches {
                    Matches::All if !key.is_empty() => Some(usize::from(first.glob)),
                    _ => self.first_candidate(entry, key),
                };
            }
            at = entry.shorter;
        }
    }

    fn first_candidate(&self, entry: &Entry, key: &[u8]) -> Option<usize> {
        let others = &self.candidates[entry.others.start as usize..entry.others.end as usize];
        let found = entry.first.iter().chain(others).find(|candidate| match candidate.matches {
            Matches::All => !key.is_empty(),
            Matches::Whole(len) => key.len() == usize::from(len),
            Matches::Some => wire::glob::matches(&self.globs[usize::from(candidate.glob)], key),
        });
        found.map(|candidate| usize::from(candidate.glob))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    fn naive(globs: &[Vec<u8>], key: &[u8]) -> Option<usize> {
        globs.iter().position(|glob| wire::glob::matches(glob, key))
    }

    fn compare(globs: &[Vec<u8>], keys: impl Iterator<Item = Vec<u8>>) {
        let matcher = Matcher::new(globs.iter().map(Vec::as_slice));
        for key in keys {
            assert_eq!(matcher.first_match(&key), naive(globs, &key), "{globs:?} {key:?}");
        }
    }

    fn text(random: &mut Random, words: &[&[u8]], words_max: u64) -> Vec<u8> {
        let count = random.below(words_max + 1);
        (0..count).flat_map(|_| words[random.below(words.len() as u64) as usize].to_vec()).collect()
    }

    #[test]
    fn matches_what_the_first_glob_matches_that_does() {
        let scale: u64 = std::env::var("WARMLINE_TEST_SCALE").map_or(1, |text| text.parse().unwrap());
        let alphabets: [(&[&[u8]], &[&[u8]]); 3] = [
            (&[b"a", b"b", b"c", b"*", b"?", b"[ab]", b"\\*", b"**"], &[b"a", b"b", b"c", b"*"]),
            // Beginnings around the length of a head.
            (&[b"user", b":", b"session", b"1", b"*", b"?1"], &[b"user", b":", b"session", b"1", b"2"]),
            (
                &[b"\x00", b"\x3f", b"\x40", b"\x7f", b"\x80", b"\xbf", b"\xc0", b"\xff", b"*"],
                &[b"\x00", b"\x3f", b"\x40", b"\x7f", b"\x80", b"\xbf", b"\xc0", b"\xff"],
            ),
        ];
        for seed in 0..600 * scale {
            let mut random = Random::new(seed);
            let (globs, keys) = alphabets[seed as usize % alphabets.len()];
            let count = random.below(if seed % 5 == 0 { 100 } else { 8 });
            let globs: Vec<Vec<u8>> = (0..count).map(|_| text(&mut random, globs, 5)).collect();
            let keys: Vec<Vec<u8>> = (0..200).map(|_| text(&mut random, keys, 6)).collect();
            // A glob's own text is close to the keys that it matches.
            let near = globs.iter().flat_map(|glob| [glob.clone(), [glob, &b"x"[..]].concat()]);
            compare(&globs, keys.into_iter().chain(near).chain([Vec::new()]));
        }
    }

    #[test]
    fn beginnings_of_all_lengths_that_begin_with_each_other() {
        let word = b"abcdefghijklmnopqrstuvwxyz";
        let globs = |stars: bool| {
            (0..=word.len()).rev().map(move |len| [&word[..len], if stars { b"*" } else { b"" }].concat())
        };
        let keys = || {
            (0..=word.len()).flat_map(|len| {
                let mut other = word.to_vec();
                if let Some(byte) = other.get_mut(len) {
                    *byte = b'-';
                }
                [word[..len].to_vec(), other]
            })
        };
        for stars in [true, false] {
            let longest_first: Vec<Vec<u8>> = globs(stars).collect();
            let shortest_first: Vec<Vec<u8>> = longest_first.iter().rev().cloned().collect();
            compare(&longest_first, keys());
            compare(&shortest_first, keys());
        }
    }

    #[test]
    fn as_many_globs_as_may_be() {
        let globs: Vec<Vec<u8>> = (0..GLOBS_MAX).map(|n| format!("key:{n}:*").into_bytes()).collect();
        compare(&globs, (0..GLOBS_MAX + 10).step_by(7).map(|n| format!("key:{n}:x").into_bytes()));
        compare(&[], [Vec::new(), b"a".to_vec()].into_iter());
    }
}
