//! Golden scripts: commands and the exact bytes of their replies, run against an executor in this process with a
//! clock that the script turns. The same scripts replay against a reference server to prove them right:
//!
//! ```text
//! cargo test -p warmline-server --test golden                          in process
//! UPDATE=1 cargo test -p warmline-server --test golden                 write the replies that were seen
//! REFERENCE=127.0.0.1:7000 cargo test -p warmline-server --test golden against a server, flushed for each script
//! GOLDEN=strings cargo test ...                                        only scripts whose name contains a word
//! ```
//!
//! A script (`tests/golden/*.golden`) is a list of steps, separated by blank lines:
//!
//! ```text
//! # a comment
//! SET key "a value\x00"        one command a line, words and quotes as in redis-cli
//! @b GET key                   by another client, named b; clients connect when first named
//! ~HELLO 3                     a command whose reply is not recorded
//! advance 1500                 turns the clock by milliseconds (against a reference: sleeps)
//! ---
//! $7                           what all clients received, protocol lines as they are, other bytes escaped;
//! a value\x00                  what others than the first client received begins with @name
//! ```
//! A line `--- like` instead takes the expected lines as glob patterns, for what differs from run to run. A script
//! whose first line is `# not for the reference: why` is not replayed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod script;

use script::{Player, Script};
use std::path::Path;

#[test]
fn golden_scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let wanted = std::env::var("GOLDEN").unwrap_or_default();
    let reference = std::env::var("REFERENCE").ok();
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the folder of scripts is part of the source")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "golden"))
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains(&wanted))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no golden script matches {wanted:?}");
    let mut failures = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if reference.is_some() && script.not_for_reference {
            continue;
        }
        let mut player = match &reference {
            Some(address) => Player::against_server(address),
            None => Player::in_process(),
        };
        let (seen, differences) = script.play(&mut player);
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(path, seen).unwrap();
        } else {
            failures.extend(differences.into_iter().map(|d| format!("{}:{d}", path.display())));
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}
