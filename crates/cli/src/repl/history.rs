//! What no history keeps.

use crate::session::is_command;

/// Whether a command has passwords in it, or tells of them.
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
