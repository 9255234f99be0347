use super::*;
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;

/// Encodes a text, verifies all that holds for its form, and returns the form's first byte and length.
fn round_trip(text: &[u8]) -> (u8, usize) {
    let encoded = Encoded::of(text);
    let mut bytes = vec![7];
    encoded.write(&mut bytes);
    assert_eq!(bytes.len(), 1 + encoded.len(), "{}", text.escape_ascii());
    let (first, len) = (bytes[1], encoded.len());
    bytes.extend([0xEE; 3]);
    let (value, behind) = Value::at(&bytes, 1);
    assert_eq!((behind, end(&bytes, 1)), (1 + len, 1 + len), "{}", text.escape_ascii());
    assert_eq!(value.text_bytes(), text.len(), "{}", text.escape_ascii());
    let mut buffer = TextBuffer::default();
    let shown = value.text(&mut buffer);
    assert_eq!(shown, text, "{} {}", shown.escape_ascii(), text.escape_ascii());
    assert!(len <= Encoded::bytes(text).len());
    (first, len)
}

#[test]
fn forms_have_the_lengths_of_the_table() {
    let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let upper = uuid.to_uppercase();
    let long_hex = "ab".repeat(127) + "c";
    let cases = [
        ("", 216, 1),
        ("0", 0, 1),
        ("199", 199, 1),
        ("200", 201, 3),
        ("00", 218, 3),
        ("-1", 200, 2),
        ("127", 127, 1),
        ("128", 128, 1),
        ("-128", 200, 2),
        ("-129", 201, 3),
        ("32767", 201, 3),
        ("32768", 202, 4),
        ("1764240000", 203, 5),
        ("1764240000123", 205, 7),
        ("9223372036854775807", 207, 9),
        ("-9223372036854775808", 207, 9),
        ("9223372036854775808", 210, 12),
        ("12.50", 213, 4),
        ("0.5", 213, 3),
        ("-0.05", 213, 3),
        ("-0.0", 220, 5),
        ("0.000000000000001", 213, 3),
        ("0.0000000000000001", 216 + 18, 19),
        ("9223372036854775.807", 213, 10),
        ("9223372036854775.808", 216 + 20, 21),
        ("00.5", 220, 5),
        (".5", 218, 3),
        ("5.", 218, 3),
        ("1.2.3", 221, 6),
        ("1e5", 219, 4),
        ("192.168.0.1", 212, 5),
        ("1.2.3.4", 212, 5),
        ("01.2.3.4", 224, 9),
        ("256.2.3.4", 225, 10),
        ("1.2.3.4.5", 225, 10),
        ("1.2.-3.4", 224, 9),
        (uuid, 208, 17),
        (&upper, 209, 17),
        ("0f8fad5b-d9cb-469f-a165-70867728950E", 252, 37),
        ("0f8fad5b-d9cb-469f-a16-570867728950e", 252, 37),
        ("deadbeef", 210, 6),
        ("DEADBEEF", 211, 6),
        ("DEADbeef", 224, 9),
        ("beef", 210, 4),
        ("bee", 219, 4),
        ("0049123456789", 210, 9),
        (&long_hex, 210, 130),
    ];
    for (text, first, len) in cases {
        assert_eq!(round_trip(text.as_bytes()), (first, len), "{text}");
    }
}

#[test]
fn bytes_of_every_length_are_kept() {
    for len in (0..300).chain([65_535, 65_536, 70_000]) {
        let text: Vec<u8> = (0..len).map(|at| (at * 7 + 200) as u8).collect();
        round_trip(&text);
        round_trip(&vec![b'a'; len]);
        round_trip(&vec![b'7'; len]);
    }
}

/// Texts that look like numbers, addresses and digits, some broken by one byte.
#[test]
fn every_text_comes_back() {
    with_seeds(0..4, |random| {
        for _ in 0..scaled(50_000) {
            round_trip(&likely_text(random));
        }
    });
}

fn likely_text(random: &mut Random) -> Vec<u8> {
    let alphabets: [&[u8]; 6] =
        [b"0123456789", b"0123456789.-", b"0123456789abcdef", b"0123456789ABCDEF", b"01.", b"0f-A.9"];
    let alphabet = alphabets[random.index(alphabets.len())];
    let len = random.index(40);
    let mut text: Vec<u8> = (0..len).map(|_| alphabet[random.index(alphabet.len())]).collect();
    match random.below(8) {
        0 => text = random_text(random),
        1 => {
            let value = (random.next_u64() >> random.below(64)) as i64;
            let scale = random.index(17);
            text = format!("{:.scale$}", value as f64 / 1000.0).into_bytes();
        }
        2 if len == 36 => UUID_DASHES.iter().for_each(|&at| text[at] = b'-'),
        3 if len > 0 => text[random.index(len)] = random.next_u64() as u8,
        _ => {}
    }
    text
}

#[test]
fn values_follow_each_other() {
    let texts: [&[u8]; 6] = [b"mail@example.org", b"41", b"", b"10.0.0.1", b"19.99", b"cafe0123"];
    let mut bytes = Vec::new();
    for text in texts {
        Encoded::of(text).write(&mut bytes);
    }
    let (mut at, mut read) = (0, Vec::new());
    while at < bytes.len() {
        let (value, behind) = Value::at(&bytes, at);
        read.push(value.text(&mut TextBuffer::default()).to_vec());
        at = behind;
    }
    assert_eq!(read, texts);
}
