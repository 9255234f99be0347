//! Numbers and globs: no input makes them panic, and every number that was read survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::glob;
use wire::number::{Extended, f64_text, i64_text, parse_f64, parse_i64};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (first, second) = input;
    if let Some(value) = parse_i64(first) {
        assert_eq!(&*i64_text(value), first);
    }
    if let Some(value) = parse_f64(first) {
        assert_eq!(parse_f64(&f64_text(value)).map(f64::to_bits), Some(value.to_bits()));
    }
    let (a, b) = (Extended::parse(first), Extended::parse(second));
    if let (Some(a), Some(b)) = (a, b) {
        assert_eq!(a.add(b), b.add(a));
        if let Some(sum) = a.add(b) {
            let text = sum.text();
            // What is written has at most 17 digits behind the point; written again it stays.
            assert_eq!(Extended::parse(&text).map(Extended::text), Some(text));
        }
    }
    if first.len() * second.len() < 1 << 20 {
        glob::matches(first, second);
        glob::matches_ignoring_case(first, second);
    }
});
