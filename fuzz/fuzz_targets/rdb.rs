//! RDB and DUMP: no bytes make the readers of elements, ziplists and zipmaps panic, nor take memory beyond what
//! they can stand for.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wire::rdb::read::split_payload;
use wire::rdb::{Reader, Writer};

#[derive(Arbitrary, Debug)]
enum Element {
    Byte,
    Length,
    String,
    Double,
    TextDouble,
    Checksum,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    elements: Vec<Element>,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let _ = wire::ziplist::parse(input.bytes);
    let _ = wire::zipmap::parse(input.bytes);
    let _ = split_payload(input.bytes);
    let mut reader = Reader::small(input.bytes, input.bytes.len());
    for element in &input.elements {
        let outcome = match element {
            Element::Byte => reader.byte().map(|_| ()),
            Element::Length => reader.length().map(|_| ()),
            Element::String => reader.string().map(|string| {
                let mut writer = Writer::new(Vec::new(), true, false);
                string.with_bytes(|bytes| writer.string(bytes)).expect("memory takes all that is written");
                let written = writer.finish_file().expect("memory takes all that is written");
                let mut again = Reader::small(&written[..], written.len());
                assert_eq!(again.string().expect("it was written just now").to_vec(), string.to_vec());
            }),
            Element::Double => reader.double().map(|_| ()),
            Element::TextDouble => reader.text_double().map(|_| ()),
            Element::Checksum => reader.file_checksum(true),
        };
        if outcome.is_err() {
            return;
        }
        assert!(reader.position() <= input.bytes.len() as u64);
    }
});
