//! Append-only files: no bytes make the reader panic, and what it accepts is written and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::aof::{Item, Reader, write_bytes_before, write_command, write_timestamp};

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes, 0);
    loop {
        let before = reader.position();
        match reader.read() {
            Ok(Item::End) | Err(_) => break,
            Ok(item) => {
                assert!(reader.position() > before && reader.position() <= bytes.len() as u64);
                let mut again = Vec::new();
                match &item {
                    Item::Command(arguments) => {
                        write_command(&mut again, arguments.iter().map(Vec::as_slice))
                    }
                    Item::Timestamp(unix_s) => write_timestamp(&mut again, *unix_s),
                    Item::BytesBefore(bytes) => write_bytes_before(&mut again, *bytes),
                    Item::Comment | Item::End => continue,
                }
                .expect("memory takes all that is written");
                assert_eq!(Reader::new(&again[..], 0).read().expect("it was written just now"), item);
            }
        }
    }
});
