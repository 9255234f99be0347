//! What arguments are made of: few enough different words that commands meet each other's elements, and every kind
//! of text that is hard: empty, binary, huge, nearly a number, a number that just fits.

use super::random::Random;

const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "aa",
    "ab",
    "abc",
    "A",
    "foo",
    "bar",
    "baz",
    "hello world",
    "field",
    "member",
    "value",
    "Palermo",
    "Catania",
    "x",
    "y",
    "z",
    "zz",
    "one",
    "two",
    "three",
    "ten",
    "\n",
    "\"quoted\"",
    "*",
];
const NEARLY_NUMBERS: &[&str] = &[
    "3.5",
    "-0.25",
    "1e3",
    "1e400",
    "-0",
    "+1",
    "01",
    " 1",
    "1 ",
    "nan",
    "inf",
    "-inf",
    "+inf",
    "Infinity",
    "0x10",
    "1.",
    ".5",
    "1e",
    "5e-324",
    "1.7976931348623157e308",
    "0.1",
    "3.0",
    "--1",
    "1.0000000000000002",
    "1,5",
    "1\0",
];
const EXTREMES: &[i64] = &[
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    i64::MIN + 1,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 31,
    1 << 32,
    1 << 53,
    (1 << 53) + 1,
    1 << 62,
    -(1 << 53),
    32767,
    32768,
    -32769,
    8191,
    -4097,
    127,
    128,
    255,
    256,
    12,
    13,
];

pub fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

pub fn pick<'a, T: ?Sized>(random: &mut Random, list: &[&'a T]) -> &'a T {
    list[random.below(list.len() as u64) as usize]
}

/// An element, a field, a member, a value.
pub fn word(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..40 => random.below(40).to_string().into_bytes(),
        40..70 => pick(random, WORDS).into(),
        70..78 => any_integer(random).to_string().into_bytes(),
        78..84 => pick(random, NEARLY_NUMBERS).into(),
        84..87 => Vec::new(),
        87..94 => {
            let length = 1 + random.below(20);
            (0..length).map(|_| random.below(256) as u8).collect()
        }
        94..99 => {
            let letter = b'a' + random.below(4) as u8;
            vec![letter; 30 + random.below(170) as usize]
        }
        _ => {
            let letter = b'p' + random.below(2) as u8;
            let length = if chance(random, 10) { 9000 } else { 900 };
            vec![letter; (length + random.below(length)) as usize]
        }
    }
}

fn any_integer(random: &mut Random) -> i64 {
    match random.below(4) {
        0 => EXTREMES[random.below(EXTREMES.len() as u64) as usize],
        1 => -((random.next_u64() >> (1 + random.below(62))) as i64),
        _ => (random.next_u64() >> (1 + random.below(62))) as i64,
    }
}

/// An integer, most of the time a small one.
pub fn integer(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..60 => (random.below(20) as i64 - 6).to_string().into_bytes(),
        60..85 => (random.below(300) as i64 - 30).to_string().into_bytes(),
        85..96 => any_integer(random).to_string().into_bytes(),
        _ => pick(random, NEARLY_NUMBERS).into(),
    }
}

/// How many of something: positive most of the time.
pub fn count(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..70 => random.below(12).to_string().into_bytes(),
        70..90 => random.below(300).to_string().into_bytes(),
        _ => integer(random),
    }
}

/// A number with fraction.
pub fn number(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..50 => (random.below(30) as i64 - 8).to_string().into_bytes(),
        50..70 => (random.below(4000) as f64 / 16.0 - 100.0).to_string().into_bytes(),
        70..78 => (random.unit() * 1000.0).to_string().into_bytes(),
        78..82 => f64::from_bits(random.next_u64()).to_string().into_bytes(),
        82..90 => any_integer(random).to_string().into_bytes(),
        90..94 => pick(random, &["inf", "-inf", "+inf", "1e10", "-1e-5", "1e20", "0"]).into(),
        _ => pick(random, NEARLY_NUMBERS).into(),
    }
}

/// A bound of scores.
pub fn score_bound(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..2 => pick(random, &["-inf", "+inf", "(-inf", "(+inf", "inf"]).into(),
        2..5 => [b"(".as_slice(), &number(random)].concat(),
        _ => number(random),
    }
}

/// A bound of members.
pub fn member_bound(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..8 => pick(random, &["-", "+"]).into(),
        8..13 => [b"[".as_slice(), &word(random)].concat(),
        13..18 => [b"(".as_slice(), &word(random)].concat(),
        18 => word(random),
        _ => pick(random, &["[", "(", "-x", "+x", ""]).into(),
    }
}

pub fn pattern(random: &mut Random) -> Vec<u8> {
    const PATTERNS: &[&str] = &[
        "*", "*a*", "?", "[a-c]*", "[^a]*", "1?", "*:*", "h*llo*", "\\*", "[", "[a", "a[", "**a", "s*:?", "",
        "*\0*", "[z-a]", "[\\]]", "list:*", "1*",
    ];
    if chance(random, 85) { pick(random, PATTERNS).into() } else { word(random) }
}

/// The text in a mixture of upper and lower case.
pub fn in_some_case(random: &mut Random, text: &str) -> Vec<u8> {
    match random.below(8) {
        0 => text.to_ascii_lowercase().into_bytes(),
        1 => text.bytes().map(|b| if chance(random, 50) { b.to_ascii_lowercase() } else { b }).collect(),
        _ => text.as_bytes().to_vec(),
    }
}
