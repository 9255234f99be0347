//! The arguments `[file] [-] [--option value...]`, and their translation to configuration text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::super::quote::quoted;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The configuration file.
    pub file: Option<OsString>,
    /// Whether standard input is read too.
    pub reads_standard_input: bool,
    /// One directive per line.
    pub options: Vec<u8>,
}

/// Parses the arguments after the program's name. The first is a file unless it starts with `-`; a lone `-` as the
/// first or last one is standard input. `--name` starts an option once the option before it has a value; every
/// other argument is a value, even if it starts with `--`.
pub(super) fn parse(arguments: &[OsString]) -> CommandLine {
    let file = arguments.first().filter(|first| !first.as_bytes().starts_with(b"-")).cloned();
    let mut parsed = CommandLine { file: file.clone(), reads_standard_input: false, options: Vec::new() };
    let mut has_value = true;
    for (index, argument) in arguments.iter().enumerate().skip(usize::from(file.is_some())) {
        let text = argument.as_bytes();
        let next = arguments.get(index + 1).map(OsString::as_os_str);
        if text == b"-" && (index == 0 || next.is_none()) {
            parsed.reads_standard_input = true;
        } else if has_value && text.starts_with(b"--") {
            has_value = open_option(&mut parsed.options, &text[2..], next);
        } else {
            parsed.options.extend(quoted(text));
            parsed.options.push(b' ');
            has_value = true;
        }
    }
    parsed
}

/// Starts the line of an option. Returns whether the option needs no value from the following arguments.
fn open_option(options: &mut Vec<u8>, name: &[u8], next: Option<&OsStr>) -> bool {
    if !options.is_empty() {
        options.push(b'\n');
    }
    options.extend(name);
    options.push(b' ');
    // `--port 6380` can also be one argument.
    let words = wire::request::split_args(name).map_or(0, |words| words.len());
    if words != 1 {
        return true;
    }
    // Scripts that build a command line from a list pass `--save` without a value for an empty list.
    let next_is_option = next.is_some_and(|next| next.as_bytes().starts_with(b"--"));
    if name.eq_ignore_ascii_case(b"save") && (next.is_none() || next_is_option) {
        options.extend(b"\"\"");
        return true;
    }
    name.eq_ignore_ascii_case(b"sentinel") && next_is_option
}
