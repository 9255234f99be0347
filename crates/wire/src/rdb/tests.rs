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
fn strings_to_keep_are_the_same_as_those_that_are_lent() {
    let written = written(|writer| strings().iter().for_each(|text| writer.string(text).unwrap()));
    let (mut in_memory, mut from_file) = (Reader::of_bytes(&written), Reader::new(written.as_slice()));
    let mut lent = Reader::of_bytes(&written);
    for _ in strings() {
        let expected = match lent.string().unwrap() {
            StringRef::Bytes(bytes) => OwnedString::Bytes(bytes.to_vec()),
            StringRef::Integer(n) => OwnedString::Integer(n),
        };
        assert_eq!(in_memory.owned_string().unwrap(), expected);
        let OwnedString::Bytes(kept) = from_file.owned_string().unwrap() else { continue };
        assert_eq!(kept.capacity(), kept.len());
        assert_eq!(OwnedString::Bytes(kept), expected);
    }
    from_file.file_checksum(true).unwrap();
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
    let mut writer = PayloadWriter::default();
    let mut payload_of = |compresses, text: &[u8]| {
        let written = |writer: &mut Writer<std::io::Sink>| {
            writer.byte(kind::STRING)?;
            writer.string(text)
        };
        writer.make(compresses, written, std::mem::take)
    };
    let payload = payload_of(false, b"value");
    assert_eq!(payload, b"\x00\x05value\x50\x00N\xdc\x08\xa9_\xf8\xfc\x9a".as_slice());
    assert_eq!(read::split_payload(&payload), Some((&payload[..7], VERSION)));
    let mut changed = payload.clone();
    changed[3] ^= 1;
    assert_eq!(read::split_payload(&changed), None);
    assert_eq!(read::split_payload(&payload[2..]), None);
    assert_eq!(read::split_payload(b""), None);
    // What is used again shows nothing of what was before.
    let long = payload_of(true, &[b'x'; 200_000]);
    assert!(long.len() < 10_000 && read::split_payload(&long).is_some());
    let uncompressed = payload_of(false, &[b'x'; 200_000]);
    assert!(uncompressed.len() > 200_000 && read::split_payload(&uncompressed).is_some());
    assert_eq!(payload_of(true, b"value"), payload);
}

#[test]
fn versions_that_are_not_known_are_refused_unless_asked_for() {
    for version in 1..=14 {
        assert!(
            accepts_version(version, Magic::Redis, true) && accepts_version(version, Magic::Absent, true)
        );
    }
    assert!(accepts_version(80, Magic::Valkey, true));
    assert!(!accepts_version(80, Magic::Redis, false));
    assert!(!accepts_version(11, Magic::Valkey, false) && !accepts_version(12, Magic::Valkey, false));
    for version in [15, 79] {
        assert!(
            !accepts_version(version, Magic::Redis, true) && !accepts_version(version, Magic::Absent, true)
        );
        assert!(
            accepts_version(version, Magic::Redis, false) && accepts_version(version, Magic::Absent, false)
        );
    }
    assert!(!accepts_version(81, Magic::Absent, true) && accepts_version(81, Magic::Valkey, false));
    assert!(!accepts_version(0, Magic::Absent, false));
}

#[test]
fn what_a_type_is_follows_from_whose_it_is() {
    assert_eq!(Origin::of(Magic::Redis, 11), Origin::Common);
    assert_eq!(Origin::of(Magic::Redis, 12), Origin::Redis);
    assert_eq!(Origin::of(Magic::Absent, 13), Origin::Redis);
    assert_eq!(Origin::of(Magic::Absent, 80), Origin::Valkey);
    assert_eq!(Origin::of(Magic::Valkey, 80), Origin::Valkey);
    for origin in [Origin::Common, Origin::Redis, Origin::Valkey] {
        assert_eq!(origin.kind(kind::STREAM_LISTPACKS_3), Some(kind::STREAM_LISTPACKS_3));
        assert_eq!(origin.kind(8), None);
        assert_eq!(origin.kind(34), None);
        assert_eq!(origin.kind(kind::REDIS_HASH_METADATA), None, "no file has numbers of our own");
    }
    assert_eq!(Origin::Common.kind(22), None);
    assert_eq!(Origin::Valkey.kind(22), Some(kind::HASH_2));
    assert_eq!(Origin::Redis.kind(22), Some(kind::REDIS_HASH_METADATA_PRE_GA));
    assert_eq!(Origin::Valkey.kind(24), None);
    assert_eq!(kind::written(kind::REDIS_STREAM_LISTPACKS_5), 27);
    assert_eq!(kind::name(kind::REDIS_STREAM_LISTPACKS_5), "stream-v5");
    assert_eq!(kind::name(kind::HASH_2), "hash-volatile-items");
    assert_eq!(kind::name(150), "unknown");
}

#[test]
fn what_modules_write_is_read_past() {
    let vectorset = b"vectorset".iter().fold(0, |id, character| {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        id << 6 | alphabet.iter().position(|known| known == character).unwrap() as u64
    });
    assert_eq!(module::type_name(vectorset << 10 | 1), "vectorset");
    let metadata = |class: u32| {
        written(|writer| {
            writer.length(1).unwrap();
            writer.raw(&class.to_le_bytes()).unwrap();
            for number in [1, 1 << 40, 2, 5, 0] {
                writer.length(number).unwrap();
            }
        })
    };
    let read = |bytes: &[u8]| module::skip_key_metadata(&mut Reader::new(bytes));
    assert_eq!(read(&metadata(1)).unwrap(), None);
    assert_eq!(read(&metadata(0)).unwrap().as_deref(), Some("AAAA"));
    let whole = metadata(1);
    for len in 0..whole.len() - 8 {
        assert!(read(&whole[..len]).is_err(), "{len} bytes");
    }
    assert!(read(b"\x01\0\0\0\0\x06").is_err() && read(b"\x08").is_err());
}
