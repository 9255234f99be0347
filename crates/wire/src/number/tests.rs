use super::*;
use crate::reference::{Random, Reference, scaled};

#[test]
fn integers_have_one_spelling() {
    for value in [0, 1, -1, 9, 10, -10, 99, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
        assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
    }
    let refused = [
        "",
        "-",
        "+1",
        "01",
        "-0",
        "-01",
        "00",
        " 1",
        "1 ",
        "1a",
        "a",
        "--1",
        "1-",
        "0x1",
        "1.0",
        "1e3",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "18446744073709551616",
        "-99999999999999999999",
    ];
    for text in refused {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn powers_of_ten_are_the_exact_ones_rounded() {
    for (power, significand, exponent) in shortest::powers() {
        // An exact power of ten read as an 80-bit float has the same 64-bit significand.
        let (ours, theirs) = (Extended::parse(format!("1e{power}").as_bytes()), (significand, exponent));
        assert_eq!(ours.and_then(Extended::parts), Some(theirs), "1e{power}");
    }
}

const F64_TEXTS: &[(f64, &str)] = &[
    (0.0, "0"),
    (-0.0, "-0"),
    (1.0, "1"),
    (-1.0, "-1"),
    (0.1, "0.1"),
    (3.0, "3"),
    (1.5, "1.5"),
    (-2.25, "-2.25"),
    (1e-5, "0.00001"),
    (1e-6, "0.000001"),
    (1e-7, "1e-7"),
    (1.5e-7, "1.5e-7"),
    (0.00012345678901234567, "1.2345678901234567e-4"),
    (0.001234567890123456, "0.001234567890123456"),
    (1e17, "100000000000000000"),
    (1e18, "1000000000000000000"),
    (4611686018427387904.0, "4611686018427387904"),
    (9007199254740993.0, "9007199254740992"),
    (1e19, "1e+19"),
    (1.2345678901234567e19, "12345678901234567000"),
    (1.2345678901234567e23, "123456789012345670000000"),
    (1.2345678901234567e24, "1.2345678901234568e+24"),
    (1e20, "1e+20"),
    (1e21, "1e+21"),
    (1e100, "1e+100"),
    (1e300, "1e+300"),
    (f64::MAX, "1.7976931348623157e+308"),
    (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
    (5e-324, "5e-324"),
    (f64::INFINITY, "inf"),
    (f64::NEG_INFINITY, "-inf"),
    (f64::NAN, "nan"),
];

#[test]
fn doubles_in_the_style_of_scores() {
    for &(value, text) in F64_TEXTS {
        assert_eq!(f64_text(value).as_str(), text);
    }
}

#[test]
fn doubles_with_17_digits() {
    let cases = [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.10000000000000001"),
        (2.3, "2.2999999999999998"),
        (-2.5, "-2.5"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (99999999999999984.0, "99999999999999984"),
        (-9007199254740993.0, "-9007199254740992"),
        (123456789012345678.0, "1.2345678901234568e+17"),
        (1e-4, "0.0001"),
        (1e-5, "1.0000000000000001e-05"),
        (1e300, "1.0000000000000001e+300"),
        (5e-324, "4.9406564584124654e-324"),
        (f64::NEG_INFINITY, "-inf"),
    ];
    for (value, text) in cases {
        assert_eq!(f64_text_17_digits(value).as_str(), text);
    }
}

/// Doubles of every kind: random bits, short decimals, integers, neighbours of powers of two and ten.
fn random_f64(random: &mut Random) -> f64 {
    match random.below(6) {
        0 => f64::from_bits(random.next()),
        1 => (random.next() as i32) as f64 / 10f64.powi(random.below(12) as i32),
        2 => random.next() as i64 as f64,
        3 => 10f64.powi(random.below(640) as i32 - 320),
        4 => f64::from_bits(((random.next() & 0x7ff) << 52).wrapping_add(random.next() & 3).wrapping_sub(1)),
        _ => random.below(1000) as f64 / 100.0,
    }
}

#[test]
fn every_text_of_a_double_reads_back() {
    let mut random = Random(2);
    for _ in 0..scaled(200_000) {
        let value = random_f64(&mut random);
        if value.is_nan() {
            continue;
        }
        for text in [f64_text(value), f64_text_17_digits(value)] {
            let back = parse_f64(&text).unwrap_or_else(|| panic!("{} is refused", text.as_str()));
            assert_eq!(back.to_bits(), value.to_bits(), "{}", text.as_str());
        }
    }
}

#[test]
fn which_texts_are_doubles() {
    let accepted = [
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "-.5",
        "1e5",
        "1E5",
        "1e+5",
        "1e-5",
        "00012",
        "inf",
        "-inf",
        "+inf",
        "INF",
        "Infinity",
        "-INFINITY",
        "1e308",
        "5e-324",
        "0e999",
        "0.000e-999",
        "1e-320",
        "+.5e1",
        "0.1e00001",
    ];
    let refused = [
        "",
        " 1",
        "1 ",
        "nan",
        "-nan",
        "NaN",
        "nan(x)",
        "1e400",
        "-1e400",
        "1e-400",
        "1e",
        "1e+",
        "e5",
        ".",
        "-",
        "+",
        "--1",
        "+-1",
        "0x10",
        "0x1p3",
        "1_000",
        "1,5",
        "infi",
        "infinityx",
        "1.5.5",
        "1\0",
        "\u{a0}1",
        "abc",
    ];
    for text in accepted {
        assert!(parse_f64(text.as_bytes()).is_some(), "{text:?}");
    }
    for text in refused {
        assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(parse_f64_saturating(b"1e400"), Some(f64::INFINITY));
    assert_eq!(parse_f64_saturating(b"-1e-400"), Some(-0.0));

    let Some(mut reference) = Reference::connect() else { return };
    for text in accepted.iter().chain(&refused) {
        reference.send(&[b"ZADD", b"number-test", text.as_bytes(), b"member"]);
        let taken = !reference.receive().starts_with(b"-");
        assert_eq!(taken, parse_f64(text.as_bytes()).is_some(), "{text:?}");
    }
    reference.send(&[b"DEL", b"number-test"]);
    reference.receive();
}

#[test]
fn scores_look_like_the_references() {
    let Some(mut reference) = Reference::connect() else { return };
    let mut random = Random(3);
    let values: Vec<f64> =
        (0..scaled(20_000)).map(|_| random_f64(&mut random)).filter(|v| !v.is_nan()).collect();
    let key = b"number-test-scores".to_vec();
    let commands: Vec<Vec<Vec<u8>>> = values
        .iter()
        .flat_map(|value| {
            let text = format!("{value:e}").into_bytes();
            let add = vec![b"ZADD".to_vec(), key.clone(), text, b"m".to_vec()];
            [add, vec![b"ZSCORE".to_vec(), key.clone(), b"m".to_vec()]]
        })
        .collect();
    let replies = reference.pipeline(&commands);
    for (value, reply) in values.iter().zip(replies.chunks(2)) {
        assert_eq!(String::from_utf8_lossy(&reply[1]), f64_text(*value).as_str(), "{value:e}");
    }
    reference.send(&[b"DEL", &key]);
    reference.receive();
}

fn sum(a: &str, b: &str) -> Option<String> {
    let sum = Extended::parse(a.as_bytes())?.add(Extended::parse(b.as_bytes())?)?;
    sum.is_finite().then(|| String::from_utf8(sum.text()).unwrap())
}

#[test]
fn extended_sums() {
    let cases = [
        ("0", "0.1", Some("0.1")),
        ("10.5", "0.1", Some("10.6")),
        ("5.0e3", "2.0e2", Some("5200")),
        ("3", "1.23", Some("4.23")),
        ("1", "-1.1", Some("-0.1")),
        ("0.1", "0.2", Some("0.3")),
        ("1", "-1", Some("0")),
        ("-0", "-0", Some("0")),
        ("0", "-1e-30", Some("0")),
        ("1e20", "1", Some("100000000000000000000")),
        ("17179869184", "1.5", Some("17179869185.5")),
        ("0x1.8p1", "0x10", Some("19")),
        ("1e17", "0.001", Some("100000000000000000")),
        ("0.00000000000000001", "0", Some("0.00000000000000001")),
        ("0.0000000000000000051", "0", Some("0.00000000000000001")),
        ("0.000000000000000005", "0", Some("0")),
        ("1e4932", "1e4932", None),
        ("inf", "1", None),
        ("inf", "-inf", None),
    ];
    for (a, b, expected) in cases {
        assert_eq!(sum(a, b).as_deref(), expected, "{a} + {b}");
        assert_eq!(sum(b, a).as_deref(), expected, "{b} + {a}");
    }
    let huge = sum("1e4931", "0").unwrap();
    assert_eq!(huge.len(), 4932);
    assert_eq!(Extended::parse(huge.as_bytes()), Extended::parse(b"1e4931"));
}

#[test]
fn which_texts_are_extended_floats() {
    let accepted = [
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "1e5",
        "1E-5",
        "0x10",
        "0X.8p-3",
        "0x1P+3",
        "inf",
        "-Infinity",
        "1e4932",
        "1.18973149535723176502e+4932",
        "1e-4950",
        "4e-4951",
        "00012",
        "0e99999999999999999999",
        "0x0p99999999999",
    ];
    let refused = [
        "",
        " 1",
        "1 ",
        "nan",
        "-nan",
        "nan(1)",
        "1e4933",
        "1e-4952",
        "1e",
        "0x",
        "0x.",
        "0x1p",
        "0xg",
        "--1",
        "1\0",
        "infin",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "0x1p99999999999",
        "0x1p-99999",
        ".",
        "e1",
        "1.18973149535723176509e+4932",
        "1e-4951",
    ];
    for text in accepted {
        assert!(Extended::parse(text.as_bytes()).is_some(), "{text:?}");
    }
    for text in refused {
        assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
    }
    let Some(mut reference) = Reference::connect() else { return };
    for text in accepted.iter().chain(&refused) {
        reference.send(&[b"SET", b"number-test-extended", b"0"]);
        reference.receive();
        reference.send(&[b"INCRBYFLOAT", b"number-test-extended", text.as_bytes()]);
        let reply = reference.receive();
        assert_eq!(
            reply != b"-ERR value is not a valid float",
            Extended::parse(text.as_bytes()).is_some(),
            "{text:?}"
        );
    }
    reference.send(&[b"DEL", b"number-test-extended"]);
    reference.receive();
}

/// An increment as clients send them, now and then an odd one.
fn random_increment(random: &mut Random) -> String {
    let sign = ["", "-"][random.below(2)];
    let digits = |random: &mut Random, len_max: usize| -> String {
        (0..1 + random.below(len_max)).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
    };
    match random.below(8) {
        0 => format!("{sign}{}", digits(random, 6)),
        1 | 2 => format!("{sign}{}.{}", digits(random, 5), digits(random, 5)),
        3 => format!("{sign}{}.{}", digits(random, 22), digits(random, 22)),
        4 => format!("{sign}{}e{}", digits(random, 20), random.below(60) as i32 - 30),
        5 => format!("{sign}{}.{}e{}", digits(random, 40), digits(random, 40), random.below(80) as i32 - 60),
        6 => {
            format!("{sign}0x{:x}.{:x}p{}", random.next() >> 20, random.next(), random.below(60) as i32 - 40)
        }
        _ => format!("{sign}{}", f64::from_bits((random.next() >> 12) | (960 + random.next() % 128) << 52)),
    }
}

/// Sums of sums: each step starts from the text of the last, as in the server.
#[test]
fn incrbyfloat_sequences_are_the_references() {
    let Some(mut reference) = Reference::connect() else { return };
    let mut random = Random(4);
    let (mut commands, mut expected) = (Vec::new(), Vec::new());
    for sequence in 0..scaled(500) {
        let key = format!("number-test-increment-{sequence}").into_bytes();
        let mut value = "0".to_string();
        for _ in 0..20 {
            let increment = match random.below(60) {
                0 => format!("{}e{}", random.below(100), random.below(4990)),
                1 => format!("{}e-{}", random.below(100), random.below(4990)),
                _ => random_increment(&mut random),
            };
            commands.push(vec![b"INCRBYFLOAT".to_vec(), key.clone(), increment.clone().into_bytes()]);
            let reply = match Extended::parse(increment.as_bytes()) {
                None => "-ERR value is not a valid float".to_string(),
                Some(_) => match sum(&value, &increment) {
                    None => "-ERR increment would produce NaN or Infinity".to_string(),
                    Some(next) => {
                        value.clone_from(&next);
                        next
                    }
                },
            };
            expected.push((increment, reply));
        }
        commands.push(vec![b"DEL".to_vec(), key]);
        expected.push((String::new(), "1".to_string()));
    }
    for ((increment, expected), reply) in expected.iter().zip(reference.pipeline(&commands)) {
        assert!(
            increment.is_empty() || reply == expected.as_bytes(),
            "{increment}: {expected} but {}",
            String::from_utf8_lossy(&reply)
        );
    }
}

#[test]
fn coordinates_have_seventeen_digits_behind_the_point() {
    let expected = |value: f64| {
        let text = format!("{value:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".to_owned() } else { text.to_owned() }
    };
    let mut random = Random(3);
    let mut values =
        vec![0.0, -0.0, 1.0, -180.0, 0.5, 1e-17, -5e-18, 4.9e-18, 1e-300, 5e-324, 0.1, 999_999.999];
    values.extend([1.0 - f64::EPSILON / 2.0, 0.000_000_000_000_000_015, 2f64.powi(-18), 2f64.powi(-60)]);
    for _ in 0..100_000 {
        let unit = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        values.push((unit - 0.5) * 360.0);
        values.push((unit - 0.5) * 10f64.powi(-(random.below(20) as i32)));
        // Ties: as many bits as end on a half of the last digit.
        values.push(random.below(1 << 20) as f64 / 2f64.powi(18 + random.below(4) as i32));
    }
    for value in values {
        assert_eq!(coordinate_text(value).as_str(), expected(value), "{value:e}");
    }
}

#[test]
fn lenient_integers_are_what_strtoull_reads() {
    let cases: &[(&[u8], Option<u64>)] = &[
        (b"0", Some(0)),
        (b"18446744073709551615", Some(u64::MAX)),
        (b"18446744073709551616", None),
        (b"-1", None),
        (b"-0", Some(0)),
        (b"-01", Some(u64::MAX)),
        (b"+5", Some(5)),
        (b" \t\x0b007", Some(7)),
        (b"7 ", None),
        (b"7\0x", Some(7)),
        (b"", None),
        (b"\0", None),
        (b"+", None),
        (b"0x10", None),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_u64_leniently(text), *expected, "{}", text.escape_ascii());
    }
}
