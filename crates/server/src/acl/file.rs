//! The file of users (`aclfile`): a line `user <name> <rule>...` for each. It is applied as a whole or not at all, and all
//! errors are reported together.

use super::rule::{ArgumentError, RuleError, Rules, is_word, join_selectors};
use super::{USERS_MAX, User, Users};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of reported errors.
const ERRORS_MAX: usize = 100;
const NOTHING_CHANGED: &str =
    "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";

/// Users by name, as read from a file.
pub type NamedUsers = BTreeMap<Vec<u8>, User>;

impl Users {
    /// The text of a file that describes these users.
    pub fn to_file(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|user| [b"user ", &user.name[..], b" ", &user.describe(), b"\n"].concat())
            .collect()
    }
}

/// Parses a file's text; `file` is its name, for errors.
pub fn read(text: &[u8], file: &str, rules: Rules<'_>) -> Result<NamedUsers, String> {
    let mut users = NamedUsers::new();
    let mut errors = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = trimmed(line, b" \t\r");
        if line.is_empty() {
            continue;
        }
        if let Err(error) = read_line(line, &format!("{file}:{}", index + 1), index + 1, rules, &mut users) {
            errors.push(error);
        }
        if errors.len() >= ERRORS_MAX {
            break;
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(errors.concat() + NOTHING_CHANGED) }
}

/// The text after `user ` for each user that lines of a configuration describe, by name; the last line of a user counts.
/// Invalid lines are skipped.
pub fn configured_users<'a>(
    descriptions: impl Iterator<Item = &'a [Vec<u8>]>,
    rules: Rules<'_>,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut lines = BTreeMap::new();
    for words in descriptions {
        let Some((name, words)) = words.split_first() else { continue };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut user = User::new(name, rules.all_channels);
        let is_applied = |rule: Cow<'_, [u8]>| user.apply(&rule, rules).is_ok();
        if join_selectors(&words).is_ok_and(|joined| joined.into_iter().all(is_applied)) {
            lines.insert(name.clone(), user.config_line());
        }
    }
    lines
}

fn read_line(
    line: &[u8],
    place: &str,
    number: usize,
    rules: Rules<'_>,
    users: &mut NamedUsers,
) -> Result<(), String> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("{place} should start with user keyword followed by the username. "));
    };
    let shown = String::from_utf8_lossy(name);
    if !is_word(name) {
        return Err(format!("'{place}: username '{shown}' contains invalid characters. "));
    }
    if users.contains_key(name) {
        return Err(format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
    }
    if users.len() >= USERS_MAX {
        return Err(format!("{place}: There are too many users. "));
    }
    let words: Vec<&[u8]> = words.collect();
    let joined = match join_selectors(&words) {
        Ok(joined) => joined,
        Err(ArgumentError::Unmatched { .. } | ArgumentError::Rule { .. } | ArgumentError::TooManyUsers) => {
            return Err(format!("{place}: Unmatched parenthesis in selector definition."));
        }
    };
    let mut user = User::new(name, rules.all_channels);
    let mut errors = String::new();
    let mut is_known_wrong = false;
    for rule in joined {
        let rule = trimmed(&rule, b"\t\r\n");
        match user.apply(rule, rules) {
            Ok(()) => {}
            // Names of commands are not secret.
            Err(error @ RuleError::UnknownCommand) => {
                let shown = String::from_utf8_lossy(rule);
                errors += &format!("{place}: Error in applying operation '{shown}': {error}. ");
            }
            // Further errors can be consequences of the first.
            Err(error) if !is_known_wrong => {
                is_known_wrong = true;
                errors += &format!("{place}: {error}. ");
            }
            Err(_) => {}
        }
    }
    users.insert(name.to_vec(), user);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn trimmed<'a>(text: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let is_text = |byte: &u8| !blanks.contains(byte);
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}
