use super::*;

const CORPUS: &[u8] = b"+OK\r\n-ERR no\r\n:-12\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n*-1\r\n_\r\n#t\r\n#f\r\n,1.5\r\n,inf\r\n\
    (123456789012345678901234567890\r\n=8\r\ntxt:a\r\nb\r\n!5\r\nERR x\r\n*0\r\n%0\r\n~0\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n\
    %2\r\n+a\r\n:1\r\n+b\r\n*2\r\n_\r\n%1\r\n:1\r\n:2\r\n~2\r\n:1\r\n:2\r\n>2\r\n+message\r\n+x\r\n\
    |1\r\n+ttl\r\n:5\r\n*1\r\n:7\r\n|0\r\n+y\r\n";

/// All responses of a stream that comes in pieces, the front being cut off after each.
fn read_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Value>, Option<ResponseError>) {
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

fn read(stream: &[u8]) -> (Vec<Value>, Option<ResponseError>) {
    read_pieces(std::iter::once(stream))
}

#[test]
fn every_type() {
    use Value::*;
    let bytes = |text: &str| text.as_bytes().to_vec();
    let simple = |text: &str| Simple(bytes(text));
    let expected = vec![
        simple("OK"),
        Error(bytes("ERR no")),
        Integer(-12),
        Bulk(bytes("a\r\nbc")),
        Bulk(vec![]),
        Null,
        NullArray,
        Null,
        Boolean(true),
        Boolean(false),
        Double(bytes("1.5")),
        Double(bytes("inf")),
        BigNumber(bytes("123456789012345678901234567890")),
        Verbatim(*b"txt", bytes("a\r\nb")),
        Error(bytes("ERR x")),
        Array(vec![]),
        Map(vec![]),
        Set(vec![]),
        Array(vec![Integer(1), Array(vec![Bulk(bytes("x"))])]),
        Map(vec![
            (simple("a"), Integer(1)),
            (simple("b"), Array(vec![Null, Map(vec![(Integer(1), Integer(2))])])),
        ]),
        Set(vec![Integer(1), Integer(2)]),
        Push(vec![simple("message"), simple("x")]),
        Attributed(vec![(simple("ttl"), Integer(5))], Box::new(Array(vec![Integer(7)]))),
        Attributed(vec![], Box::new(simple("y"))),
    ];
    assert_eq!(read(CORPUS), (expected, None));
}

#[test]
fn a_stream_means_the_same_however_it_is_split() {
    let whole = read(CORPUS);
    for len in 1..40 {
        assert_eq!(read_pieces(CORPUS.chunks(len)), whole);
    }
    for len in 0..CORPUS.len() {
        let (values, error) = read(&CORPUS[..len]);
        assert!(whole.0.starts_with(&values) && error.is_none());
        assert_eq!(read_pieces([&CORPUS[..len], &CORPUS[len..]].into_iter()), whole);
    }
}

#[test]
fn skipping_finds_the_same_ends() {
    for len in 0..=CORPUS.len() {
        let stream = &CORPUS[..len];
        let (mut skipper, mut position, mut errors) = (Skipper::new(), 0, Vec::new());
        while let Some(is_error) = skipper.skip(stream, &mut position).unwrap() {
            errors.push(is_error);
        }
        let expected: Vec<bool> = read(stream).0.iter().map(Value::is_error).collect();
        assert_eq!(errors, expected);
    }
}

#[test]
fn what_is_no_response_is_refused() {
    use ResponseError::*;
    let long = [b"+".as_slice(), &[b'x'; LINE_LEN_MAX]].concat();
    let cases: &[(&[u8], ResponseError)] = &[
        (b"hello\r\n", UnknownType(b'h')),
        (b":1x\r\n", Number),
        (b"$x\r\n", Number),
        (b"$-2\r\n", Number),
        (b"*-2\r\n", Number),
        (b"=3\r\nabc\r\n", Number),
        (b"=-1\r\n", Number),
        (b"%9223372036854775808\r\n", Number),
        (b"#x\r\n", Number),
        (b"$?\r\n", Number),
        (b"+OK\rx", LineEnd),
        (b"$1\r\nxyz", LineEnd),
        (&long, LineTooLong),
    ];
    for (stream, error) in cases {
        assert_eq!(read(stream), (vec![], Some(*error)), "{}", stream[..stream.len().min(20)].escape_ascii());
    }
}

/// What is too deep is an error in its place, wherever it is within a response, and what follows is read.
#[test]
fn behind_a_response_that_is_too_deep_is_the_next() {
    let nested = |opening: &[u8], depth: usize| [&opening.repeat(depth), &b":1\r\n"[..]].concat();
    let deepest = nested(b"*1\r\n", DEPTH_MAX);
    assert_eq!((read(&deepest).0.len(), read(&deepest).1), (1, None));
    for (opening, closing) in [
        (&b"*1\r\n"[..], &b""[..]),
        (b"%1\r\n+a\r\n", b""),
        (b"|1\r\n+a\r\n:1\r\n", b""),
        (b"~3\r\n:1\r\n", b"$2\r\nab\r\n"),
    ] {
        for depth in [DEPTH_MAX + 1, DEPTH_MAX + 2, 1000] {
            let deep = [nested(opening, depth), closing.repeat(depth)].concat();
            let stream = [b"*2\r\n+OK\r\n", &deep[..], b"+next\r\n"].concat();
            for len in [1, 7, stream.len()] {
                let (mut reader, mut buffer, mut results) = (Reader::new(), Vec::new(), Vec::new());
                for piece in stream.chunks(len) {
                    buffer.extend_from_slice(piece);
                    let mut position = 0;
                    while let Some(result) = reader.read(&buffer, &mut position).transpose() {
                        results.push(result);
                    }
                    buffer.drain(..position);
                }
                assert_eq!(results, [Err(ResponseError::TooDeep), Ok(Value::Simple(b"next".to_vec()))]);
            }
        }
    }
    // Lengths whose sum no number holds.
    let endless = b"*9223372036854775807\r\n".repeat(DEPTH_MAX + 1);
    assert_eq!(read(&endless), (vec![], Some(ResponseError::Number)));
    assert_eq!(read(&b"*1\r\n".repeat(DEPTH_MAX + 9)), (vec![], None));
}

#[test]
fn announced_lengths_take_no_memory() {
    let (mut reader, mut position) = (Reader::new(), 0);
    let stream = b"*9223372036854775807\r\n%4611686018427387903\r\n$9223372036854775000\r\nx";
    assert_eq!(reader.read(stream, &mut position), Ok(None));
    assert!(reader.open.iter().all(|frame| frame.items.capacity() < 16));
}
