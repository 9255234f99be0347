//! The history file of the interactive mode: one command per line, as in other clients, without secrets.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::session::is_command;

pub const LINES_MAX: usize = 1000;

/// The history file; `None`: no history is stored.
pub struct HistoryFile(Option<PathBuf>);

impl HistoryFile {
    pub fn new(path: Option<PathBuf>) -> HistoryFile {
        HistoryFile(path)
    }

    /// Returns the last [`LINES_MAX`] lines, oldest first, and removes earlier ones from the file.
    pub fn load(&self) -> Vec<String> {
        let Some(path) = &self.0 else { return Vec::new() };
        // At the first start there is no file.
        let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let excess = lines.len().saturating_sub(LINES_MAX);
        let last = lines[excess..].to_vec();
        if excess > 0 {
            let text: String = last.iter().map(|line| format!("{line}\n")).collect();
            // If the write fails, the file stays as it is.
            let _unwritable = fs::write(path, text);
        }
        last
    }

    /// Appends a line. Other clients may append to the file at the same time.
    pub fn add(&self, line: &str) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let mut file = File::options().append(true).create(true).mode(0o600).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Returns whether a command contains passwords, or reports them.
pub fn is_secret(words: &[Vec<u8>]) -> bool {
    let word_is = |index: usize, names: &[&str]| {
        words
            .get(index)
            .is_some_and(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())))
    };
    if is_command(words, "ACL") {
        return word_is(1, &["DELUSER", "SETUSER", "GETUSER"]);
    }
    if is_command(words, "CONFIG") && word_is(1, &["SET"]) {
        let secrets = [
            "masterauth",
            "masteruser",
            "primaryauth",
            "primaryuser",
            "requirepass",
            "tls-key-file-pass",
            "tls-client-key-file-pass",
        ];
        return (2..words.len()).step_by(2).any(|index| word_is(index, &secrets));
    }
    if is_command(words, "HELLO") {
        return (2..words.len()).any(|index| word_is(index, &["AUTH"]));
    }
    if is_command(words, "MIGRATE") {
        let options = (6..words.len()).take_while(|&index| !word_is(index, &["KEYS"]));
        return options.into_iter().any(|index| word_is(index, &["AUTH", "AUTH2"]));
    }
    if is_command(words, "SENTINEL") && words.len() > 4 {
        let is_own = word_is(1, &["CONFIG"]) && word_is(2, &["SET"]);
        let is_primary = word_is(1, &["SET"]);
        return (is_own && word_is(3, &["sentinel-pass", "sentinel-user"]))
            || (is_primary && word_is(3, &["auth-pass", "auth-user"]));
    }
    is_command(words, "AUTH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_the_last_lines() {
        let path = std::env::temp_dir().join(format!("warmline-cli-history-{}", std::process::id()));
        let history = HistoryFile::new(Some(path.clone()));
        assert!(history.load().is_empty());
        (0..LINES_MAX + 5).for_each(|number| history.add(&format!("get \"{number}\\n\"")).unwrap());
        let lines = history.load();
        assert_eq!((lines.len(), lines[0].as_str()), (LINES_MAX, "get \"5\\n\""));
        assert_eq!(history.load(), lines);
        fs::remove_file(path).unwrap();
        assert!(HistoryFile::new(None).add("get a").is_ok());
    }

    #[test]
    fn passwords_are_not_remembered() {
        let is_secret = |line: &str| is_secret(&wire::request::split_args(line.as_bytes()).unwrap());
        for line in [
            "auth x",
            "ACL setuser a >b",
            "acl getuser a",
            "hello 3 auth a b",
            "hello 3 setname x auth a b",
            "config set RequirePass x",
            "config set port 1 tls-key-file-pass x",
            "migrate h 1 k 0 1 AUTH x",
            "migrate h 1 '' 0 1 copy AUTH2 x y keys a",
            "sentinel set a auth-pass x",
            "sentinel config set sentinel-pass x",
        ] {
            assert!(is_secret(line), "{line}");
        }
        for line in
            ["set auth x", "config get requirepass", "acl list", "migrate h 1 '' 0 1 keys auth", "hello 3"]
        {
            assert!(!is_secret(line), "{line}");
        }
    }
}
