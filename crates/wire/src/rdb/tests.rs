use super::*;

fn written(work: impl FnOnce(&mut Writer<Vec<u8>>)) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), true, true);
    work(&mut writer);
    writer.finish_file().unwrap()
}

fn strings() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        ["", "0", "-1", "127", "128", "-129", "32767", "32768", "2147483647", "2147483648", "01", "+1", "a"]
            .map(|text| text.as_bytes().to_vec())
            .into();
    all.push(b"abcabcabcabcabcabcabcabc".to_vec());
    all.push(vec![b'x'; 100_000]);
    all.push((0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect());
    all
}

#[test]
fn strings_come_back() {
    let bytes = written(|writer| {
        for string in strings() {
            writer.string(&string).unwrap();
        }
    });
    let mut reader = Reader::new(&bytes[..]);
    for string in strings() {
        assert_eq!(reader.string().unwrap().to_vec(), string);
    }
    reader.file_checksum(true).unwrap();
    assert!(reader.is_at_end().unwrap());
}

#[test]
fn lengths_come_back_in_the_fewest_bytes() {
    for (length, bytes_wanted) in
        [(0, 1), (63, 1), (64, 2), (16383, 2), (16384, 5), (u32::MAX as u64, 5), (1 << 32, 9), (u64::MAX, 9)]
    {
        let bytes = written(|writer| writer.length(length).unwrap());
        assert_eq!(bytes.len(), bytes_wanted + 8);
        assert_eq!(Reader::new(&bytes[..]).length().unwrap(), length);
    }
}

#[test]
fn integers_are_written_as_their_texts_would_be() {
    for value in [0, 5, -128, 300, 70_000, i64::from(i32::MIN), 1 << 31, i64::MIN] {
        let as_text = written(|writer| writer.string(value.to_string().as_bytes()).unwrap());
        assert_eq!(written(|writer| writer.integer(value).unwrap()), as_text);
    }
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = written(|writer| {
        writer.string(&[b'y'; 300]).unwrap();
        writer.string(b"plain").unwrap();
        writer.integer(70_000).unwrap();
    });
    for len in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..len]);
        let outcome = (0..3).try_for_each(|_| reader.string().map(|_| ()));
        assert!(outcome.and_then(|()| reader.file_checksum(true)).is_err(), "{len} bytes");
    }
}

#[test]
fn a_flipped_bit_is_noticed() {
    let bytes = written(|writer| writer.string(b"something to protect").unwrap());
    for at in 0..bytes.len() - 8 {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        let mut reader = Reader::new(&flipped[..]);
        let outcome = reader.string().map(|_| ());
        assert!(outcome.and_then(|()| reader.file_checksum(true)).is_err(), "byte {at}");
    }
}

#[test]
fn hostile_lengths_take_no_memory() {
    for header in
        [&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0x80, 0xff, 0xff, 0xff, 0xff]]
    {
        assert!(Reader::new(header).string().is_err());
        let compressed = [&[0xc3, 5][..], header, b"short"].concat();
        assert!(Reader::new(&compressed[..]).string().is_err());
    }
}

#[test]
fn payloads_carry_version_and_checksum() {
    let mut writer = Writer::new(Vec::new(), false, true);
    writer.byte(kind::STRING).unwrap();
    writer.string(b"value").unwrap();
    let payload = writer.finish_payload().unwrap();
    assert_eq!(payload, b"\x00\x05value\x50\x00N\xdc\x08\xa9_\xf8\xfc\x9a".as_slice());
    assert_eq!(read::split_payload(&payload), Some((&payload[..7], VERSION)));
    let mut changed = payload.clone();
    changed[3] ^= 1;
    assert_eq!(read::split_payload(&changed), None);
    assert_eq!(read::split_payload(&payload[2..]), None);
    assert_eq!(read::split_payload(b""), None);
}

#[test]
fn versions_of_other_servers_are_refused() {
    assert!(accepts_version(11, Magic::Redis, true));
    assert!(accepts_version(80, Magic::Valkey, true));
    assert!(!accepts_version(80, Magic::Redis, true));
    assert!(!accepts_version(11, Magic::Valkey, false));
    assert!(!accepts_version(12, Magic::Redis, true));
    assert!(accepts_version(12, Magic::Absent, false));
    assert!(!accepts_version(81, Magic::Absent, true));
    assert!(!accepts_version(0, Magic::Absent, false));
}
