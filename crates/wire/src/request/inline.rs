//! Inline commands and lines of configuration files: words with shell-like quotes.
//!
//! Inside `"..."`, `\xHH` is a byte and `\n \r \t \b \a` are control characters; a backslash before any other
//! character is that character. Inside `'...'` only `\'` is special. Quotes may open and close anywhere in a word.

use super::ArgRange;

/// A quote is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

impl std::fmt::Display for UnbalancedQuotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("unbalanced quotes")
    }
}

impl std::error::Error for UnbalancedQuotes {}

/// Splits a line into words. A NUL ends the line.
pub fn split_args(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut words = Words { line, cursor: 0, last_byte_escapable: true };
    let mut out = Vec::new();
    while words.skip_blanks() {
        let mut word = Vec::new();
        words.read_word(|_, byte| word.push(byte))?;
        out.push(word);
    }
    Ok(out)
}

/// Quotes bytes, and escapes everything except printable ASCII: [`split_args`] parses the result to the same bytes,
/// and MONITOR and the programs show strings in this form.
pub fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit)];
                out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(byte & 15)]);
            }
        }
    }
    out.push(b'"');
    out
}

/// Splits a line of a request, unquotes each word in place (unquoting never grows a word), and appends the ranges to
/// `args`, relative to `origin` bytes before the line.
pub(super) fn unquote_in_place(
    line: &mut [u8],
    origin: usize,
    args: &mut Vec<ArgRange>,
) -> Result<(), UnbalancedQuotes> {
    let args_before = args.len();
    // In requests the last byte of the line always closes a quote, even after a backslash: `"a\"` is `a\`.
    let mut words = Words { line, cursor: 0, last_byte_escapable: false };
    while words.skip_blanks() {
        let start = words.cursor;
        let mut len = 0;
        let read = words.read_word(|line, byte| {
            line[start + len] = byte;
            len += 1;
        });
        if let Err(error) = read {
            args.truncate(args_before);
            return Err(error);
        }
        args.push(ArgRange::new(origin + start, len));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Double,
    Single,
}

/// `L` is a read-only line, or one that is rewritten behind the cursor.
struct Words<L> {
    line: L,
    cursor: usize,
    last_byte_escapable: bool,
}

impl<L: AsRef<[u8]>> Words<L> {
    /// Moves to the next word. Returns false at the end of the line.
    fn skip_blanks(&mut self) -> bool {
        let rest = &self.line.as_ref()[self.cursor..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
        self.cursor += blanks;
        !matches!(rest.get(blanks), None | Some(0))
    }

    /// Passes each byte of the word at the cursor to `emit`, and moves past the word.
    fn read_word(&mut self, mut emit: impl FnMut(&mut L, u8)) -> Result<(), UnbalancedQuotes> {
        let mut quote = Quote::None;
        while let Some((byte, taken)) = self.next_byte(&mut quote) {
            self.cursor += taken;
            if let Some(byte) = byte {
                emit(&mut self.line, byte);
            }
        }
        if quote == Quote::None { Ok(()) } else { Err(UnbalancedQuotes) }
    }

    /// Returns the byte that the text at the cursor represents (none for a quote), and the text's length; `None` at
    /// the end of the word or line.
    fn next_byte(&self, quote: &mut Quote) -> Option<(Option<u8>, usize)> {
        let rest = &self.line.as_ref()[self.cursor..];
        let escapable_len = rest.len() - usize::from(!self.last_byte_escapable && !rest.is_empty());
        let closed = |quote: &mut Quote, to| {
            *quote = to;
            Some((None, 1))
        };
        match (*quote, *rest.first()?) {
            (_, 0) => None,
            (Quote::Double, b'\\') => Some(unescape(&rest[..escapable_len])),
            (Quote::Single, b'\\') if rest[..escapable_len].starts_with(b"\\'") => Some((Some(b'\''), 2)),
            (Quote::Double, b'"') | (Quote::Single, b'\'') => closed(quote, Quote::None),
            (Quote::None, b' ' | b'\n' | b'\r' | b'\t') => None,
            (Quote::None, b'"') => closed(quote, Quote::Double),
            (Quote::None, b'\'') => closed(quote, Quote::Single),
            (_, byte) => Some((Some(byte), 1)),
        }
    }
}

/// Returns the byte that an escape represents, and the escape's length. `text` starts at the backslash; it is empty
/// if the backslash is the last byte of the line, which then represents itself.
fn unescape(text: &[u8]) -> (Option<u8>, usize) {
    let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    if let [_, b'x', high, low, ..] = *text
        && let (Some(high), Some(low)) = (hex(high), hex(low))
    {
        return (Some(high * 16 + low), 4);
    }
    match text.get(1) {
        None | Some(0) => (Some(b'\\'), 1),
        Some(b'n') => (Some(b'\n'), 2),
        Some(b'r') => (Some(b'\r'), 2),
        Some(b't') => (Some(b'\t'), 2),
        Some(b'b') => (Some(8), 2),
        Some(b'a') => (Some(7), 2),
        Some(&other) => (Some(other), 2),
    }
}
