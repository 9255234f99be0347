//! Glob patterns of KEYS, SCAN, PSUBSCRIBE and CONFIG GET.
//!
//! `*` matches any bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a-z]` one byte of a class, `\x` the byte x. There are no
//! syntax errors: an unclosed class ends with the pattern, and a trailing backslash matches itself.
//!
//! Time is at most proportional to pattern times text: after a mismatch only the latest star is tried at a later
//! position, because it can reach all texts that an earlier one could.
//!
//! Peculiarities of the reference that are kept: only the empty pattern matches the empty text, not even `*`; bounds
//! of a range are compared as signed bytes; an escaped byte in a class is case-sensitive; and after the thousandth
//! star nothing matches, unless that star ends the pattern.

use crate::convert::signed_byte;

/// Maximum number of stars (consecutive ones counted once) before matching gives up.
const STARS_MAX: usize = 1000;

/// A pattern to be compared with many texts: most of them differ in the bytes before the first special one.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    pattern: &'a [u8],
    /// The literal bytes at the beginning.
    literal: usize,
}

impl<'a> Pattern<'a> {
    /// Prepares a pattern; every pattern is valid.
    pub fn new(pattern: &'a [u8]) -> Self {
        let literal = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
        Pattern { pattern, literal }
    }

    /// Returns whether the pattern matches all of `text`.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        let (literal, rest) = self.pattern.split_at(self.literal);
        // Comparing slices of unknown length is a call: with 100 names of which none matches, SSCAN took 1.3 of the
        // reference's time.
        if self.literal > 0 && text.first() != literal.first() {
            return false;
        }
        match text.strip_prefix(literal) {
            None => false,
            Some(_) if rest == b"*" => !text.is_empty(),
            Some(_) => matches(self.pattern, text),
        }
    }

    /// Returns whether an integer's text can match.
    pub fn may_match_integers(&self) -> bool {
        self.literal == 0 || matches!(self.pattern[0], b'-' | b'0'..=b'9')
    }
}

/// Returns whether `pattern` matches all of `text`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_with::<false>(pattern, text)
}

/// Like [`matches`], ignoring the case of ASCII letters.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_with::<true>(pattern, text)
}

fn matches_with<const IGNORE_CASE: bool>(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut in_pattern, mut in_text, mut stars) = (0, 0, 0);
    // The pattern after the latest star, and the position in the text where it was last tried.
    let mut latest_star: Option<(usize, usize)> = None;
    loop {
        let rest = &pattern[in_pattern..];
        let star_run = rest.iter().take_while(|&&byte| byte == b'*').count();
        if star_run == rest.len() && (star_run > 0 || in_text == text.len()) {
            return true;
        }
        if in_text == text.len() {
            // A later start would leave even less text.
            return false;
        }
        if star_run > 0 {
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            in_pattern += star_run;
            latest_star = Some((in_pattern, in_text));
        } else if let Some(len) = match_one::<IGNORE_CASE>(rest, text[in_text]) {
            in_pattern += len;
            in_text += 1;
        } else {
            let Some((behind_star, tried)) = &mut latest_star else { return false };
            *tried += 1;
            (in_pattern, in_text) = (*behind_star, *tried);
        }
    }
}

fn fold<const IGNORE_CASE: bool>(byte: u8) -> u8 {
    if IGNORE_CASE { byte.to_ascii_lowercase() } else { byte }
}

/// Matches one byte with the first element of `pattern`, which is not a star; returns the element's length on a
/// match.
#[inline]
fn match_one<const IGNORE_CASE: bool>(pattern: &[u8], byte: u8) -> Option<usize> {
    let same = |a: u8| fold::<IGNORE_CASE>(a) == fold::<IGNORE_CASE>(byte);
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => {
            let (matched, len) = match_class::<IGNORE_CASE>(class, byte);
            matched.then_some(1 + len)
        }
        [b'\\', escaped, ..] => same(escaped).then_some(2),
        [literal, ..] => same(literal).then_some(1),
    }
}

/// Returns whether a class has this byte, and the class's length with its closing bracket. `class` starts after the
/// opening bracket.
fn match_class<const IGNORE_CASE: bool>(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut cursor = usize::from(negated);
    let mut found = false;
    loop {
        let rest = &class[cursor.min(class.len())..];
        cursor += match *rest {
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                2
            }
            [] => return (found != negated, class.len()),
            [b']', ..] => return (found != negated, cursor + 1),
            [start, b'-', end, ..] => {
                found |= in_range::<IGNORE_CASE>(start, end, byte);
                3
            }
            [member, ..] => {
                found |= fold::<IGNORE_CASE>(member) == fold::<IGNORE_CASE>(byte);
                1
            }
        };
    }
}

fn in_range<const IGNORE_CASE: bool>(start: u8, end: u8, byte: u8) -> bool {
    let (start, end) = if signed_byte(start) > signed_byte(end) { (end, start) } else { (start, end) };
    let signed = |byte: u8| signed_byte(fold::<IGNORE_CASE>(byte));
    (signed(start)..=signed(end)).contains(&signed(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Random, Reference, scaled};

    #[test]
    fn a_pattern_that_was_looked_at_first_matches_the_same() {
        let special: &[&[u8]] = &[b"a", b"b", b"-", b"7", b"*", b"?", b"[", b"]", b"\\", b"^"];
        let plain: &[&[u8]] = &[b"a", b"b", b"-", b"7", b"*", b"[", b"\\"];
        let mut random = Random(7);
        for _ in 0..scaled(200_000) {
            let (pattern, text) = (random_text(&mut random, special, 5), random_text(&mut random, plain, 5));
            let known = Pattern::new(&pattern);
            assert_eq!(known.matches(&text), matches(&pattern, &text), "{pattern:?} {text:?}");
            let is_integer = crate::number::parse_i64(&text).is_some();
            assert!(
                !is_integer || !known.matches(&text) || known.may_match_integers(),
                "{pattern:?} {text:?}"
            );
        }
    }

    #[test]
    fn patterns() {
        let cases: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("*", "", false),
            ("", "a", false),
            ("*", "a", true),
            ("**", "abc", true),
            ("a*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*ab", "aab", true),
            ("*aab*", "aaaab", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[abc", "c", true),
            ("[", "a", false),
            ("[^", "a", true),
            ("[\\]]", "]", true),
            ("[a-]", "b", false),
            ("[a-]x]", "^", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("?", "", false),
            ("a?", "a", false),
        ];
        for &(pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
        assert!(matches_ignoring_case(b"MAX*[A-Z]\\X", b"maxMEMory\x78"));
        assert!(!matches_ignoring_case(b"[\\A]", b"a"));
        assert!(!matches(b"A", b"a"));
    }

    #[test]
    fn hostile_patterns_end_soon() {
        let text = vec![b'a'; 10_000];
        let pattern = [b"*a".repeat(900), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &text));
        assert!(matches(&b"a*".repeat(1000), &text));
        assert!(!matches(&[b"a*".repeat(1001), b"a".to_vec()].concat(), &text));
    }

    fn random_text(random: &mut Random, alphabet: &[&[u8]], len_max: usize) -> Vec<u8> {
        (0..random.below(len_max + 1)).flat_map(|_| alphabet[random.below(alphabet.len())].to_vec()).collect()
    }

    #[test]
    fn keys_match_as_in_the_reference() {
        let Some(mut reference) = Reference::connect() else { return };
        let special: &[&[u8]] = &[
            b"*",
            b"?",
            b"[",
            b"]",
            b"[a-c]",
            b"[^b]",
            b"-",
            b"^",
            b"\\",
            b"a",
            b"b",
            b"c",
            b"B",
            b"\xff",
            b"\x01",
            b"*a",
            b"[\xf0-\x10]",
        ];
        let plain: &[&[u8]] = &[b"a", b"b", b"c", b"B", b"\xff", b"\x01", b"]", b"-", b"^", b"\\", b"*"];
        let mut random = Random(5);
        let (mut commands, mut expected) =
            (vec![vec![b"SELECT".to_vec(), b"9".to_vec()]], vec![b"OK".to_vec()]);
        for _ in 0..scaled(10_000) {
            let (pattern, text) = (random_text(&mut random, special, 6), random_text(&mut random, plain, 5));
            expected.push(b"OK".to_vec());
            commands.push(vec![b"SET".to_vec(), text.clone(), b"".to_vec()]);
            // KEYS * asks no pattern.
            let found = matches(&pattern, &text) || pattern == b"*";
            expected.push(if found { text.clone() } else { Vec::new() });
            commands.push(vec![b"KEYS".to_vec(), pattern]);
            expected.push(b"1".to_vec());
            commands.push(vec![b"DEL".to_vec(), text]);
        }
        let replies = reference.pipeline(&commands);
        for ((command, expected), reply) in commands.iter().zip(expected).zip(replies) {
            assert_eq!(reply, expected, "{:?}", command[1].escape_ascii().to_string());
        }
    }

    #[test]
    fn case_is_ignored_as_in_the_reference() {
        let Some(mut reference) = Reference::connect() else { return };
        reference.send(&[b"COMMAND", b"LIST"]);
        let names = reference.receive();
        let names: Vec<&[u8]> = names.split(|&byte| byte == b' ').collect();
        let alphabet: &[&[u8]] = &[
            b"*", b"?", b"[a-F]", b"[^S]", b"[\\G]", b"[Z-m]", b"G", b"e", b"T", b"s", b"*", b"[gETs]", b"R",
        ];
        let mut random = Random(6);
        for _ in 0..scaled(300) {
            let pattern = random_text(&mut random, alphabet, 5);
            reference.send(&[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", &pattern]);
            let mut theirs: Vec<Vec<u8>> =
                reference.receive().split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
            let mut ours: Vec<Vec<u8>> = names
                .iter()
                .filter(|name| matches_ignoring_case(&pattern, name))
                .map(|name| name.to_vec())
                .collect();
            if ours.is_empty() {
                ours.push(Vec::new());
            }
            theirs.sort();
            ours.sort();
            assert_eq!(theirs, ours, "{:?}", pattern.escape_ascii().to_string());
        }
    }
}
