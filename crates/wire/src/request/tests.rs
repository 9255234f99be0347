use std::io::Write;

use super::*;
use crate::reference::{Random, Reference, scaled};

type Commands = Vec<Vec<Vec<u8>>>;

/// As [`read_pieces`], with each incomplete argument of at least this length gathered beside the buffer, if its command has
/// none of those yet.
fn read_pieces_with_apart(
    pieces: &[&[u8]],
    limits: &Limits,
    apart_len_min: usize,
) -> (Commands, Option<ProtocolError>) {
    let (mut buffer, mut parser, mut commands) = (Vec::new(), Parser::new(), Vec::new());
    let (mut apart, mut apart_len, mut was_apart) = (Vec::new(), None, false);
    for piece in pieces {
        let mut piece = *piece;
        if let Some(len) = apart_len {
            let (rest, behind) = piece.split_at(piece.len().min(len + 2 - apart.len()));
            apart.extend_from_slice(rest);
            if apart.len() < len + 2 {
                continue;
            }
            if let Err(error) = parser.accept_apart(&apart) {
                return (commands, Some(error));
            }
            assert!(parser.has_apart() && parser.argument_under_way().is_none());
            (piece, apart_len, was_apart) = (behind, None, true);
        }
        buffer.extend_from_slice(piece);
        let (mut position, mut args) = (0, Vec::new());
        loop {
            let args_before = args.len();
            match parser.parse(&mut buffer, &mut position, limits, &mut args) {
                Ok(Progress::Complete) => {
                    let command = args[args_before..].iter().map(|arg| match arg.is_apart() {
                        true => apart[..arg.len as usize].to_vec(),
                        false => arg.of(&buffer).to_vec(),
                    });
                    commands.push(command.collect());
                    was_apart = false;
                    assert!(!parser.has_apart());
                }
                Ok(Progress::Incomplete) => break,
                Err(error) => return (commands, Some(error)),
            }
        }
        buffer.drain(..position);
        if let Some((len, start)) = parser.argument_under_way().filter(|_| !was_apart)
            && len >= apart_len_min
            && buffer.len() - start <= len
        {
            (apart_len, apart) = (Some(len), buffer.split_off(start));
        }
    }
    (commands, None)
}

/// Reads all commands of a stream that arrives in the given pieces, as a connection would: the front is cut off
/// after each piece.
fn read_pieces(pieces: &[&[u8]], limits: &Limits) -> (Commands, Option<ProtocolError>) {
    let (mut buffer, mut parser, mut commands) = (Vec::new(), Parser::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let (mut position, mut args) = (0, Vec::new());
        loop {
            let (position_before, args_before) = (position, args.len());
            match parser.parse(&mut buffer, &mut position, limits, &mut args) {
                Ok(Progress::Complete) => {
                    assert!(position > position_before && position <= buffer.len());
                    commands.push(
                        args[args_before..].iter().map(|arg| arg.of(&buffer).to_vec()).collect::<Vec<_>>(),
                    );
                }
                Ok(Progress::Incomplete) => {
                    assert_eq!((position, args.len()), (position_before, args_before));
                    assert!(parser.wanted_bytes() <= limits.bulk_len_max + 2);
                    break;
                }
                Err(error) => {
                    assert_eq!((position, args.len()), (position_before, args_before));
                    return (commands, Some(error));
                }
            }
        }
        buffer.drain(..position);
    }
    (commands, None)
}

fn read(stream: &[u8]) -> (Commands, Option<ProtocolError>) {
    read_pieces(&[stream], &Limits::default())
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

const CORPUS: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$11\r\nhello\r\n*1\r\n\r\n*0\r\n*-1\r\n*2\r\n$0\r\n\r\n$2\r\n\r\n\r\n",
    b"PING\r\n\r\n\nset a \"b c\"  'd e'\n*1\r\n$4\r\nPING\r\n  echo \"\\x41\\n\\\"\"\r\n",
    b"*12\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n\
      $2\r\n10\r\n$2\r\n11\r\n*1\r\n$1\r\nx\r\n",
    b"*2\r\n$100\r\n0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
      \r\n$1\r\nx\r\nPING\n",
    b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nPING\r\n:4\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nPINGxx$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\rx",
    b"*1\r\n$4\r\nPING\r\n*1\rx",
    b"*1\r\n$4\rx",
    b"*1\r\n$01\r\nP\r\n",
    b"ping \"abc\r\n",
    b"ping \0abc\r\n",
];

#[test]
fn a_stream_means_the_same_however_it_is_split() {
    for stream in CORPUS {
        let whole = read(stream);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(
                    read_pieces(&pieces, &Limits::default()),
                    whole,
                    "{stream:?} at {first}, {second}"
                );
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read_pieces(&bytes, &Limits::default()), whole);
        for apart_len_min in [0, 1, 5, 50] {
            assert_eq!(read_pieces_with_apart(&bytes, &Limits::default(), apart_len_min), whole);
        }
    }
}

#[test]
fn every_truncation_is_incomplete_and_gives_the_commands_before_it() {
    for stream in CORPUS {
        let (commands, error) = read(stream);
        for len in 0..stream.len() {
            let (before, error_before) = read(&stream[..len]);
            assert!(commands.starts_with(&before));
            assert!(error_before.is_none() || error_before == error, "{stream:?} cut to {len}");
        }
    }
}

#[test]
fn commands_of_both_forms() {
    assert_eq!(read(CORPUS[0]), (vec![words(&["PING"])], None));
    let expected = vec![words(&["SET", "key", "hello\r\n*1\r\n"]), vec![], vec![], words(&["", "\r\n"])];
    assert_eq!(read(CORPUS[1]), (expected, None));
    let expected = vec![
        words(&["PING"]),
        vec![],
        vec![],
        words(&["set", "a", "b c", "d e"]),
        words(&["PING"]),
        words(&["echo", "A\n\""]),
    ];
    assert_eq!(read(CORPUS[2]), (expected, None));
    let (commands, error) = read(CORPUS[3]);
    assert_eq!((commands[0].len(), commands[0][11].as_slice(), error), (12, b"11".as_slice(), None));
}

#[test]
fn lengths_are_checked() {
    use ProtocolError::*;
    let cases: &[(&[u8], ProtocolError)] = &[
        (b"*x\r\n", MultibulkLen),
        (b"*\r\n", MultibulkLen),
        (b"*01\r\n", MultibulkLen),
        (b"*+1\r\n", MultibulkLen),
        (b"*-0\r\n", MultibulkLen),
        (b"*2147483648\r\n", MultibulkLen),
        (b"*9223372036854775808\r\n", MultibulkLen),
        (b"*1\r\n$\r\n", BulkLen),
        (b"*1\r\n$-1\r\n", BulkLen),
        (b"*1\r\n$00\r\n", BulkLen),
        (b"*1\r\n$536870913\r\n", BulkLen),
        (b"*1\r\n$18446744073709551616\r\n", BulkLen),
        (b"*1\r\n$9223372036854775807\r\n", BulkLen),
        (b"*1\r\nPING\r\n", ExpectedBulk(b'P')),
        (b"*1\r\n\r\n", ExpectedBulk(b'\r')),
        (b"*1\r\nPING\rx", ExpectedBulk(b'P')),
    ];
    for (stream, error) in cases {
        assert_eq!(read(stream), (vec![], Some(*error)), "{stream:?}");
    }
    let huge = Limits { bulk_len_max: usize::MAX, ..Limits::default() };
    for stream in
        [b"*1\r\n$4294967296\r\n".as_slice(), b"*1\r\n$9223372036854775807\r\n", b"*1\r\n$4294967290\r\n"]
    {
        assert_eq!(read_pieces(&[stream], &huge), (vec![], Some(RequestTooLong)));
    }
}

#[test]
fn lines_without_end_are_refused_and_never_scanned_twice() {
    let long = vec![b'1'; INLINE_LEN_MAX + 1];
    let cases = [
        (b"".as_slice(), ProtocolError::InlineTooLong),
        (b"\0", ProtocolError::InlineTooLong),
        (b"*", ProtocolError::MultibulkCountTooLong),
        (b"*1\r\n$", ProtocolError::BulkCountTooLong),
    ];
    for (start, error) in cases {
        let stream = [start, &long].concat();
        assert_eq!(read(&stream), (vec![], Some(error)));
        let pieces: Vec<&[u8]> = stream.chunks(1000).collect();
        assert_eq!(read_pieces(&pieces, &Limits::default()), (vec![], Some(error)));
        assert_eq!(read(&stream[..INLINE_LEN_MAX]), (vec![], None));
    }
    let mut line = vec![b'x'; INLINE_LEN_MAX];
    line.push(b'\n');
    assert_eq!(read(&line).0[0][0].len(), INLINE_LEN_MAX);
}

#[test]
fn unauthenticated_clients_are_held_to_small_commands() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let parse = |stream: &[u8]| read_pieces(&[stream], &limits).1;
    assert_eq!(parse(b"*10\r\n$16384\r\n"), None);
    assert_eq!(parse(b"*11\r\n"), Some(ProtocolError::UnauthenticatedMultibulkLen));
    assert_eq!(parse(b"*1\r\n$16385\r\n"), Some(ProtocolError::UnauthenticatedBulkLen));
    assert_eq!(parse(b"*1\r\n$536870913\r\n"), Some(ProtocolError::BulkLen));
}

#[test]
fn announced_lengths_take_no_memory() {
    let (mut parser, mut args, mut position) = (Parser::new(), Vec::new(), 0);
    let mut buffer = b"*2147483647\r\n$3\r\nDEL\r\n$536870912\r\nx".to_vec();
    let progress = parser.parse(&mut buffer, &mut position, &Limits::default(), &mut args);
    assert_eq!(progress, Ok(Progress::Incomplete));
    assert_eq!(parser.wanted_bytes(), 536870912 + 2 - 1);
    assert!(parser.memory_bytes() < 1024 && args.capacity() < 128);
}

#[test]
fn an_argument_apart_counts_for_the_length_of_its_command() {
    let limits = Limits { bulk_len_max: usize::MAX, ..Limits::default() };
    let (len, before) = (1_usize << 31, format!("*3\r\n${}\r\n", 1_usize << 31));
    let next = |len: usize| format!("${len}\r\n");
    // Both arguments, what announces them, and the line ends before the last byte of the second.
    let rest = REQUEST_LEN_MAX - before.len() - (len + 2) - next(len).len();
    for (next_len, refused) in [(rest, false), (rest + 1, true)] {
        let (mut buffer, mut parser) = (before.clone().into_bytes(), Parser::new());
        let (mut position, mut args) = (0, Vec::new());
        assert_eq!(parser.parse(&mut buffer, &mut position, &limits, &mut args), Ok(Progress::Incomplete));
        // Only the last of these pages is touched.
        let mut apart = vec![0; len + 2];
        apart[len..].copy_from_slice(b"\r\n");
        parser.accept_apart(&apart).unwrap();
        buffer.extend_from_slice(next(next_len).as_bytes());
        let progress = parser.parse(&mut buffer, &mut position, &limits, &mut args);
        assert_eq!(progress == Err(ProtocolError::RequestTooLong), refused, "{next_len}: {progress:?}");
    }
}

#[test]
fn a_command_of_many_arguments_in_many_pieces_is_read_once() {
    let count = 300_000;
    let mut stream = format!("*{count}\r\n").into_bytes();
    (0..count).for_each(|i| write!(stream, "${}\r\n{i}\r\n", i.to_string().len()).unwrap());
    let pieces: Vec<&[u8]> = stream.chunks(777).collect();
    let (commands, error) = read_pieces(&pieces, &Limits::default());
    assert_eq!((commands.len(), error), (1, None));
    assert!(commands[0].iter().enumerate().all(|(i, word)| *word == i.to_string().as_bytes()));
}

#[test]
fn quotes() {
    type Words<'a> = Option<&'a [&'a [u8]]>;
    let cases: &[(&[u8], Words)] = &[
        (b"", Some(&[])),
        (b" \t\x0b\x0c ", Some(&[])),
        (b"a b\tc", Some(&[b"a", b"b", b"c"])),
        (b"a\x0bb", Some(&[b"a\x0bb"])),
        (b"\"\" ''", Some(&[b"", b""])),
        (b"a\"b c\"d'e f'", Some(&[b"ab cde f"])),
        (b"\"\\x41\\x4g\\q\\\\\\\"\\a\\b\\t\\r\\n\" x", Some(&[b"Ax4gq\\\"\x07\x08\t\r\n", b"x"])),
        (b"'\\x41\\'' x", Some(&[b"\\x41'", b"x"])),
        (b"\"\\xff\\xFF\" x", Some(&[b"\xff\xff", b"x"])),
        (b"\"abc", None),
        (b"ok 'abc", None),
        (b"\"abc\\", None),
        (b"\"\\x4", None),
    ];
    for (line, expected) in cases {
        let expected = expected.map(|words| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
        assert_eq!(split_args(line).ok(), expected, "{line:?}");
        let request = [line, b"\r\n".as_slice()].concat();
        match expected {
            Some(words) => assert_eq!(read(&request), (vec![words], None)),
            None => assert_eq!(read(&request), (vec![], Some(ProtocolError::UnbalancedQuotes))),
        }
    }
    // Where a file and a request differ, as in the reference.
    for line in [b"\"a\\\"".as_slice(), b"'a\\'"] {
        assert_eq!(split_args(line), Err(UnbalancedQuotes));
        assert_eq!(read(&[line, b"\n"].concat()), (vec![vec![b"a\\".to_vec()]], None));
    }
    assert_eq!(split_args(b"a \0b"), Ok(vec![b"a".to_vec()]));
}

#[test]
fn error_texts_are_the_references() {
    let long = [b'1'; INLINE_LEN_MAX + 2];
    let requests = [
        b"*x\r\n".to_vec(),
        b"*1\r\n$x\r\n".to_vec(),
        b"*1\r\n\xffx\r\n".to_vec(),
        b"*1\rx".to_vec(),
        b"*1\r\n$1\r\nxyz".to_vec(),
        b"ping 'x\r\n".to_vec(),
        long.to_vec(),
        [b"*", long.as_slice()].concat(),
        [b"*1\r\n$", long.as_slice()].concat(),
    ];
    for request in requests {
        let error = read(&request).1.expect("each is malformed");
        let expected = [b"-ERR Protocol error: ", error.text().as_slice(), b"\r\n"].concat();
        if let Some(reply) = Reference::exchange_raw(&request) {
            assert_eq!(reply, expected, "{:?}", String::from_utf8_lossy(&reply));
        }
    }
}

/// Words with quotes, escapes and blanks in random order: our words and the reference's are the same.
#[test]
fn inline_words_are_the_references() {
    let alphabet: &[&[u8]] =
        &[b"a", b"\"", b"'", b"\\", b" ", b"\\x", b"4", b"1", b"\\n", b"\x0b", b"\t", b"\xe9", b"\r"];
    let mut random = Random(1);
    for _ in 0..300 {
        let mut line = b"ECHO ".to_vec();
        for _ in 0..8 {
            line.extend_from_slice(alphabet[random.below(alphabet.len())]);
        }
        line.extend_from_slice(b"\r\n");
        let ours = match read(&line) {
            (_, Some(error)) => format!("-ERR Protocol error: {error}\r\n").into_bytes(),
            (commands, None) if commands[0].len() == 2 => {
                let word = &commands[0][1];
                [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat()
            }
            _ => b"-ERR wrong number of arguments for 'echo' command\r\n".to_vec(),
        };
        let request = [line.as_slice(), b"QUIT\r\n"].concat();
        let Some(mut reply) = Reference::exchange_raw(&request) else { return };
        if let Some(len) = reply.len().checked_sub(5)
            && reply.ends_with(b"+OK\r\n")
        {
            reply.truncate(len);
        }
        assert_eq!(reply, ours, "{line:?}");
    }
}

#[test]
fn quoted_words_read_back() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(split_args(&quoted(&all)), Ok(vec![all.clone()]));
    assert_eq!(
        split_args(&[quoted(b""), quoted(b"a b")].join(&b' ')),
        Ok(vec![b"".to_vec(), b"a b".to_vec()])
    );
    assert_eq!(quoted(b"\x00\xff\x07\x08\t\r\n\"\\ ~"), b"\"\\x00\\xff\\a\\b\\t\\r\\n\\\"\\\\ ~\"");
}

/// A stream of pieces of commands, sensible and not: more of them are valid than random bytes would be.
fn random_stream(random: &mut Random) -> Vec<u8> {
    let fragments: &[&[u8]] = &[
        b"*1\r\n",
        b"*2\r\n",
        b"*3\r\n",
        b"*11\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"$0\r\n\r\n",
        b"$1\r\nx\r\n",
        b"$3\r\nGET\r\n",
        b"$10\r\n0123456789\r\n",
        b"$3\r\n$1\r\r\n",
        b"$20000\r\n",
        b"PING\r\n",
        b"set \"a b\" 'c'\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"*",
        b"$",
        b"1",
        b"\"",
        b"\0",
        b"\xff",
        b"*01\r\n",
        b"$4\r\nPING\rx",
    ];
    let mut out = Vec::new();
    for _ in 0..random.below(12) {
        match random.below(4) {
            0 => out.extend_from_slice(fragments[random.below(fragments.len())]),
            _ => {
                let args = 1 + random.below(12);
                out.extend_from_slice(format!("*{args}\r\n").as_bytes());
                for _ in 0..args {
                    let arg = vec![b'a' + random.below(26) as u8; random.below(30)];
                    out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                    out.extend_from_slice(&arg);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }
    if let Some(byte) =
        (random.below(4) == 0).then(|| random.below(out.len().max(1))).and_then(|at| out.get_mut(at))
    {
        *byte ^= 1 << random.below(8);
    }
    out
}

#[test]
fn random_streams_mean_the_same_however_they_are_split() {
    for seed in 0..scaled(3000) as u64 {
        let random = &mut Random(seed);
        let stream = random_stream(random);
        let limits = Limits { authenticated: random.below(4) != 0, ..Limits::default() };
        let whole = read_pieces(&[&stream], &limits);
        let (mut pieces, mut rest, len_max) = (Vec::new(), stream.as_slice(), 1 + random.below(40));
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((1 + random.below(len_max)).min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        assert_eq!(read_pieces(&pieces, &limits), whole, "seed {seed}: {}", stream.escape_ascii());
        let apart = read_pieces_with_apart(&pieces, &limits, random.below(20));
        assert_eq!(apart, whole, "seed {seed}, with arguments apart: {}", stream.escape_ascii());
    }
}
