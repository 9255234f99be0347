//! Converts words of the command line to the arguments of a command.

use std::io::{self, Read};
use std::path::Path;

use client::system_text;
use wire::request::split_args;

use crate::Failure;
use crate::options::Options;

/// Parses a word with quotes and escapes; `None` if it is not one word.
pub fn unquoted(word: &str) -> Option<Vec<u8>> {
    let mut words = split_args(word.as_bytes()).ok()?;
    if words.len() == 1 { words.pop() } else { None }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::Io("Reading from standard input", error))?;
    Ok(bytes)
}

/// Returns the words, unquoted if requested, with the arguments read from standard input.
pub fn command(options: &Options, words: &[String]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut args = Vec::new();
    for word in words {
        args.push(if options.quoted_input {
            unquoted(word).ok_or_else(|| {
                print_line!("Invalid quoted string");
                Failure::Reported
            })?
        } else {
            word.clone().into_bytes()
        });
    }
    if options.last_from_stdin {
        args.push(read_stdin()?);
    } else if let Some(tag) = &options.tag_from_stdin {
        let place = args.iter_mut().find(|arg| arg.as_slice() == tag.as_bytes());
        let place =
            place.ok_or_else(|| Failure::Usage("Using -X option but stdin tag not match.".to_owned()))?;
        *place = read_stdin()?;
    }
    Ok(args)
}

/// Reads the file of a script.
pub fn script(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::Usage(format!("Can't open file '{}': {}", path.display(), system_text(&error)))
    })
}

/// Builds `EVAL` of a script: words before the first comma are keys, words after it arguments.
pub fn eval(script: Vec<u8>, words: &[String]) -> Vec<Vec<u8>> {
    let keys = words.iter().position(|word| word == ",").unwrap_or(words.len());
    let mut args = vec![b"EVAL".to_vec(), script, keys.to_string().into_bytes()];
    let others = words[..keys].iter().chain(words.iter().skip(keys + 1));
    args.extend(others.map(|word| word.clone().into_bytes()));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_divides_keys_from_arguments() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let args = |line: &str| eval(b"return 1".to_vec(), &words(line))[2..].join(&b' ');
        assert_eq!(args("a b , c , d"), b"2 a b c , d");
        assert_eq!(args("a b"), b"2 a b");
        assert_eq!(args(", c"), b"0 c");
        assert_eq!(args(""), b"0");
    }

    #[test]
    fn quoted_words_are_single() {
        assert_eq!(unquoted(r#""a\x00 b""#).as_deref(), Some(b"a\0 b".as_slice()));
        assert_eq!(unquoted("\"\"").as_deref(), Some(b"".as_slice()));
        for wrong in ["", "\"a", "a b"] {
            assert_eq!(unquoted(wrong), None, "{wrong}");
        }
    }
}
