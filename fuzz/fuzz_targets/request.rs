//! Requests: no input makes the parser panic, and what it answers does not depend on how the input was split.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wire::request::{ArgRange, Limits, Parser, Progress, ProtocolError, split_args};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// How long the pieces are, used in turn.
    piece_lens: Vec<u8>,
    authenticated: bool,
    small_limits: bool,
    /// Whether the consumed front is cut off after each piece.
    cut: bool,
    /// Arguments from this length on are gathered beside the buffer, one of each command.
    apart_len_min: u8,
    stream: &'a [u8],
}

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn read<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    limits: &Limits,
    cut: bool,
    apart_len_min: Option<u8>,
) -> Outcome {
    let (mut buffer, mut parser, mut commands, mut position) = (Vec::new(), Parser::new(), Vec::new(), 0);
    let (mut apart, mut apart_len, mut was_apart) = (Vec::new(), None, false);
    for mut piece in pieces {
        if let Some(len) = apart_len {
            let (rest, behind) = piece.split_at(piece.len().min(len + 2 - apart.len()));
            apart.extend_from_slice(rest);
            if apart.len() < len + 2 {
                continue;
            }
            if let Err(error) = parser.accept_apart(&apart) {
                return (commands, Some(error));
            }
            (piece, apart_len, was_apart) = (behind, None, true);
        }
        buffer.extend_from_slice(piece);
        let mut args: Vec<ArgRange> = Vec::new();
        loop {
            let (position_before, args_before) = (position, args.len());
            match parser.parse(&mut buffer, &mut position, limits, &mut args) {
                Ok(Progress::Complete) => {
                    assert!(position > position_before && position <= buffer.len());
                    let command = args[args_before..].iter().map(|arg| match arg.is_apart() {
                        true => apart[..arg.len as usize].to_vec(),
                        false => arg.of(&buffer).to_vec(),
                    });
                    commands.push(command.collect());
                    was_apart = false;
                }
                Ok(Progress::Incomplete) => {
                    assert_eq!((position, args.len()), (position_before, args_before));
                    assert!(parser.wanted_bytes() <= limits.bulk_len_max + 2);
                    break;
                }
                Err(error) => {
                    assert_eq!((position, args.len()), (position_before, args_before));
                    assert!(!error.text().is_empty());
                    return (commands, Some(error));
                }
            }
        }
        // Memory follows the bytes received: an argument takes at least six.
        assert!(parser.memory_bytes() <= 1024 + (buffer.len() + apart.len()) * 4);
        if let (Some((len, start)), Some(len_min), false) =
            (parser.argument_under_way(), apart_len_min, was_apart)
            && len >= usize::from(len_min)
            && buffer.len() - (position + start) <= len
        {
            (apart_len, apart) = (Some(len), buffer.split_off(position + start));
        }
        if cut {
            buffer.drain(..position);
            position = 0;
        }
    }
    (commands, None)
}

fuzz_target!(|input: Input| {
    let defaults = Limits { authenticated: input.authenticated, ..Limits::default() };
    let limits = match input.small_limits {
        true => Limits { bulk_len_max: 20, inline_len_max: 30, multibulk_len_max: 12, ..defaults },
        false => defaults,
    };
    let whole = read(std::iter::once(input.stream), &limits, false, None);
    let mut lens = input.piece_lens.iter().cycle().map(|&len| usize::from(len).max(1));
    let mut rest = input.stream;
    let pieces = std::iter::from_fn(|| {
        let (piece, behind) = rest.split_at(lens.next().unwrap_or(1).min(rest.len()));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(read(pieces, &limits, input.cut, Some(input.apart_len_min)), whole);
    let _ = split_args(input.stream);
});
