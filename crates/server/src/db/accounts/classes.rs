//! Classes by which keys are counted: given prefixes, or learnt prefixes.
//!
//! A class is a number with a name: the prefix and a `*`. Keys of no other class are in the class `*`.
//!
//! Of the given prefixes the longest match counts. They are sorted, each with the longest other prefix that it begins
//! with: the last one not behind the key in that order begins with every prefix of the key, so following those links
//! finds the longest.
//!
//! A learnt prefix ends with a key's first separator. The first [`LEARNT_MAX`] prefixes are classes for good, even after
//! their keys are removed; keys of later prefixes count as `*`, like keys without a separator among their first
//! [`PREFIX_LEN_MAX`] bytes. Reusing a class for another prefix would move keys out of the tally of `*`, which only a
//! recount of all keys can do.

use crate::config::{PREFIX_LEN_MAX, PrefixRule};
use crate::db::policy::matcher::Matcher;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of prefixes learnt in each database.
const LEARNT_MAX: usize = 4096;
/// Dashes and underscores are not separators: they occur within names and random numbers.
const SEPARATORS: &[u8] = b":/|.#";

/// A classifier. A key's class must never change.
#[derive(Debug)]
pub enum Classes {
    /// By the prefixes that an option lists.
    Given(Arc<Prefixes>),
    /// By prefixes up to a separator, as they occur in the data.
    Learnt(Learnt),
    /// By the rules of `key-policy`.
    Ruled(Arc<Ruled>),
}

impl Classes {
    pub(super) fn by_prefix(rule: &PrefixRule) -> Option<Classes> {
        match rule {
            PrefixRule::Off => None,
            PrefixRule::Learn => Some(Classes::Learnt(Learnt::default())),
            PrefixRule::Given(prefixes) => Some(Classes::Given(Arc::new(Prefixes::new(prefixes)))),
        }
    }

    /// The classes in their initial state, before any key.
    pub(super) fn renewed(&self) -> Classes {
        match self {
            Classes::Given(prefixes) => Classes::Given(Arc::clone(prefixes)),
            Classes::Learnt(_) => Classes::Learnt(Learnt::default()),
            Classes::Ruled(rules) => Classes::Ruled(Arc::clone(rules)),
        }
    }

    pub(super) fn class_of(&mut self, key: &[u8]) -> usize {
        match self {
            Classes::Given(prefixes) => prefixes.class_of(key),
            Classes::Learnt(learnt) => learnt.class_of(key),
            Classes::Ruled(rules) => rules.class_of(key),
        }
    }

    /// The class of a key that has been classified before.
    pub(super) fn known_class_of(&self, key: &[u8]) -> usize {
        match self {
            Classes::Given(prefixes) => prefixes.class_of(key),
            Classes::Learnt(learnt) => learnt.known_class_of(key),
            Classes::Ruled(rules) => rules.class_of(key),
        }
    }

    pub(super) fn name(&self, class: usize) -> &[u8] {
        match self {
            Classes::Given(prefixes) => prefixes.names.get(class).map_or(REST, |name| name),
            Classes::Learnt(learnt) => learnt.names.get(class).map_or(REST, |name| name),
            Classes::Ruled(rules) => &rules.names[class],
        }
    }
}

/// The rules of `key-policy`. A class is the rule's number, which is its name too, for a glob may be any text; the last
/// class is that of keys without a rule.
#[derive(Debug)]
pub struct Ruled {
    matcher: Matcher,
    names: Vec<Box<[u8]>>,
}

impl Ruled {
    /// Creates the classes of rules with these globs.
    pub fn new<'a>(globs: impl Iterator<Item = &'a [u8]>) -> Ruled {
        let matcher = Matcher::new(globs);
        let names = (0..=matcher.globs().len()).map(Ruled::name_of).collect();
        Ruled { matcher, names }
    }

    /// The name of a rule's class.
    pub fn name_of(rule: usize) -> Box<[u8]> {
        rule.to_string().into_bytes().into()
    }

    fn class_of(&self, key: &[u8]) -> usize {
        self.matcher.first_match(key).unwrap_or(self.names.len() - 1)
    }
}

/// Name of the class of keys without another class.
const REST: &[u8] = b"*";

fn name_of(prefix: &[u8]) -> Box<[u8]> {
    [prefix, REST].concat().into()
}

/// Given prefixes, in order.
#[derive(Debug)]
pub struct Prefixes {
    prefixes: Vec<Prefix>,
    names: Vec<Box<[u8]>>,
}

#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    /// The longest other prefix that it begins with.
    shorter: Option<usize>,
}

impl Prefixes {
    /// Creates them from texts that may end with a `*`.
    fn new(texts: &[Vec<u8>]) -> Prefixes {
        let mut texts: Vec<&[u8]> =
            texts.iter().map(|text| text.strip_suffix(REST).unwrap_or(text)).collect();
        texts.sort_unstable();
        texts.dedup();
        let longest = |at: usize| (0..at).rev().find(|&shorter| texts[at].starts_with(texts[shorter]));
        let prefix = |at: usize| Prefix { text: texts[at].into(), shorter: longest(at) };
        Prefixes {
            prefixes: (0..texts.len()).map(prefix).collect(),
            names: texts.iter().map(|text| name_of(text)).collect(),
        }
    }

    fn class_of(&self, key: &[u8]) -> usize {
        let behind = self.prefixes.partition_point(|prefix| *prefix.text <= *key);
        let mut candidate = behind.checked_sub(1);
        while let Some(at) = candidate {
            if key.starts_with(&self.prefixes[at].text) {
                return at;
            }
            candidate = self.prefixes[at].shorter;
        }
        self.prefixes.len()
    }
}

/// Prefixes of the keys seen so far; class 0 is that of all other keys.
#[derive(Debug)]
pub struct Learnt {
    /// Clients choose keys: the table's hash function has a secret seed.
    classes: HashMap<Box<[u8]>, usize>,
    names: Vec<Box<[u8]>>,
    /// Class of the last prefix: keys of a class often come together.
    last: usize,
}

impl Default for Learnt {
    fn default() -> Self {
        Learnt { classes: HashMap::new(), names: vec![REST.into()], last: 0 }
    }
}

const LEARNT_REST: usize = 0;

impl Learnt {
    fn class_of(&mut self, key: &[u8]) -> usize {
        let Some(prefix) = prefix_of(key) else { return LEARNT_REST };
        let name = &self.names[self.last];
        if name.len() == prefix.len() + REST.len() && name.starts_with(prefix) {
            return self.last;
        }
        let class = match self.classes.get(prefix) {
            Some(&class) => class,
            None if self.names.len() > LEARNT_MAX => return LEARNT_REST,
            None => self.learn(prefix),
        };
        self.last = class;
        class
    }

    #[cold]
    fn learn(&mut self, prefix: &[u8]) -> usize {
        let class = self.names.len();
        self.classes.insert(prefix.into(), class);
        self.names.push(name_of(prefix));
        class
    }

    fn known_class_of(&self, key: &[u8]) -> usize {
        prefix_of(key).and_then(|prefix| self.classes.get(prefix)).copied().unwrap_or(LEARNT_REST)
    }
}

/// The key up to its first separator, inclusive.
fn prefix_of(key: &[u8]) -> Option<&[u8]> {
    let start = &key[..key.len().min(PREFIX_LEN_MAX)];
    let at = start.iter().position(|byte| SEPARATORS.contains(byte))?;
    Some(&start[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    #[test]
    fn the_longest_of_given_prefixes_counts() {
        let mut random = Random::new(1);
        for _ in 0..300 {
            let text = |random: &mut Random, len_max: u64| -> Vec<u8> {
                (0..random.below(len_max)).map(|_| b'a' + random.below(2) as u8).collect()
            };
            let count = random.below(12);
            let texts: Vec<Vec<u8>> = (0..count).map(|_| text(&mut random, 5)).collect();
            let prefixes = Prefixes::new(&texts);
            for _ in 0..50 {
                let key = text(&mut random, 8);
                let longest = texts.iter().filter(|text| key.starts_with(text)).max_by_key(|text| text.len());
                let found = prefixes.prefixes.get(prefixes.class_of(&key)).map(|prefix| prefix.text.to_vec());
                assert_eq!(found.as_ref(), longest, "{key:?} of {texts:?}");
            }
        }
    }

    #[test]
    fn a_prefix_ends_with_the_first_separator() {
        for (key, prefix) in [("user:1:x", "user:"), ("a.b:c", "a."), (":", ":"), ("path/to", "path/")] {
            assert_eq!(prefix_of(key.as_bytes()), Some(prefix.as_bytes()));
        }
        assert_eq!(prefix_of(b"no-separator_here"), None);
        assert_eq!(prefix_of(b""), None);
        let long = [vec![b'k'; PREFIX_LEN_MAX - 1], b":x".into()].concat();
        assert_eq!(prefix_of(&long), Some(&long[..PREFIX_LEN_MAX]));
        assert_eq!(prefix_of(&[b"k", &long[..]].concat()), None);
    }

    #[test]
    fn what_comes_when_there_is_no_more_room_belongs_to_the_rest_and_stays_there() {
        let mut learnt = Learnt::default();
        for at in 0..LEARNT_MAX + 10 {
            let expected = if at < LEARNT_MAX { at + 1 } else { LEARNT_REST };
            let key = format!("{at}:key");
            assert_eq!(learnt.class_of(key.as_bytes()), expected);
            assert_eq!(learnt.known_class_of(key.as_bytes()), expected);
        }
        assert_eq!(learnt.class_of(b"0:other"), 1);
        assert_eq!(learnt.class_of(b"4100:other"), LEARNT_REST);
        assert_eq!(learnt.names[1][..], b"0:*"[..]);
    }
}
