//! Responses: no input makes the reader panic, splitting changes nothing, and skipping finds the same ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::response::{Reader, ResponseError, Skipper, Value};

type Outcome = (Vec<Value>, Option<ResponseError>);

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let (mut reader, mut buffer, mut values) = (Reader::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut position = 0;
        loop {
            match reader.read(&buffer, &mut position) {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => return (values, Some(error)),
            }
        }
        buffer.drain(..position);
    }
    (values, None)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece_len, stream) = input;
    let whole = read(std::iter::once(stream));
    assert_eq!(read(stream.chunks(usize::from(piece_len).max(1))), whole);
    let (mut skipper, mut position, mut ends) = (Skipper::new(), 0, 0);
    while ends < whole.0.len() {
        assert!(skipper.skip(stream, &mut position).is_ok_and(|end| end.is_some()));
        ends += 1;
    }
});
