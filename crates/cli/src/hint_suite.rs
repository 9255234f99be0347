//! `--test_hint` and `--test_hint_file`: hints without a terminal, for tests.

use std::path::Path;

use client::system_text;
use wire::request::split_args;

use crate::Failure;
use crate::documentation::Documentation;
use crate::session::Session;

pub fn print(session: &mut Session, line: &str) -> Result<(), Failure> {
    print_line!("{}", Documentation::load(session).hint(line).unwrap_or_default());
    Ok(())
}

/// Parses the lines of the file: the input and its hint, both quoted.
pub fn run(session: &mut Session, path: &Path, is_verbose: bool) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!("Can't open file '{}': {}", path.display(), system_text(&error)))
    })?;
    let documentation = Documentation::load(session);
    let (mut passed, mut failed) = (0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words = split_args(line.as_bytes()).unwrap_or_default();
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let (input, expected) = match words.as_slice() {
            [] => continue,
            [input] => return Err(Failure::Usage(format!("Missing expected hint for input '{input}'"))),
            [input, expected, ..] => (input, expected),
        };
        let hint = documentation.hint(input);
        if is_verbose {
            print_line!(
                "Input: '{input}', Expected: '{expected}', Hint: '{}'",
                hint.as_deref().unwrap_or("(null)")
            );
        }
        match hint.as_deref().map(str::trim_end) {
            Some(hint) if hint == expected => passed += 1,
            other => {
                let got = other.unwrap_or("(null)");
                eprint_line!("Test case '{input}' FAILED: expected '{expected}', got '{got}'");
                failed += 1;
            }
        }
    }
    let verdict = if failed == 0 { "SUCCESS" } else { "FAILURE" };
    print_line!("{verdict}: {passed}/{} passed", passed + failed);
    if failed == 0 { Ok(()) } else { Err(Failure::Reported) }
}
