//! `key-policy`: options with different values for the keys that a glob matches.
//!
//! A rule's settings are rows of the table that are flagged `BY_KEY`, checked and printed by their own kinds, and
//! `compress-values`, which is not an option. A rule is applied by setting these options in a configuration, so code that
//! copies options from a configuration copies a rule's in the same way.

use super::option::{Flags, Kind, Occurrence, Refusal, RewrittenLine};
use super::quote::quoted;
use super::{Config, ROWS, Row, find};

/// The maximum number of rules.
pub const RULES_MAX: usize = 128;
/// The maximum length of a rule's glob.
pub const GLOB_BYTES_MAX: usize = 256;
/// The separator of rules in one text.
const SEPARATOR: &[u8] = b";";
/// The setting that is not an option of the server.
const COMPRESS_VALUES: &str = "compress-values";

/// A rule: its settings apply to the keys that its glob matches and no earlier rule's does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPolicy {
    /// The glob that keys must match.
    pub glob: Vec<u8>,
    /// Names in the table's spelling, and values as CONFIG GET shows them.
    settings: Vec<(&'static str, Vec<u8>)>,
}

impl KeyPolicy {
    /// Parses a glob and its settings, as pairs.
    pub fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        let Some((&glob, pairs)) = words.split_first() else {
            return Err("a rule begins with a glob".into());
        };
        if glob == SEPARATOR {
            return Err("a glob of this name is written \\;".into());
        }
        if glob.len() > GLOB_BYTES_MAX {
            return Err(format!("a glob has {GLOB_BYTES_MAX} bytes at most").into());
        }
        if pairs.is_empty() || pairs.len() % 2 == 1 {
            return Err("a glob is followed by pairs of setting and value".into());
        }
        let mut policy = KeyPolicy { glob: glob.to_vec(), settings: Vec::new() };
        let mut scratch = Config::default();
        for pair in pairs.chunks_exact(2) {
            let (name, value) = checked(pair[0], pair[1], &mut scratch)?;
            if policy.settings.iter().any(|(other, _)| *other == name) {
                return Err(format!("{name} is set twice").into());
            }
            policy.settings.push((name, value));
        }
        Ok(policy)
    }

    /// The settings' names and values.
    pub fn settings(&self) -> impl ExactSizeIterator<Item = (&'static str, &[u8])> + Clone {
        self.settings.iter().map(|(name, value)| (*name, value.as_slice()))
    }

    /// Whether string values are stored compressed.
    pub fn compresses_values(&self) -> bool {
        self.settings.iter().any(|(name, value)| *name == COMPRESS_VALUES && value == b"yes")
    }

    /// Calls `read` with the configuration after setting the rule's options in it, and restores it afterwards.
    pub fn with_applied<R>(&self, config: &mut Config, read: impl FnOnce(&Config) -> R) -> R {
        let rows = || self.settings.iter().filter_map(|(name, value)| Some((row_of(name)?, value)));
        let before: Vec<(&Row, Vec<u8>)> = rows().map(|(row, _)| (row, config.value_of(row))).collect();
        for (row, value) in rows() {
            let set = (row.set)(config, &[value], Occurrence::First);
            debug_assert!(set.is_ok(), "a checked value is accepted");
        }
        let result = read(config);
        for (row, value) in before {
            let set = (row.set)(config, &[&value], Occurrence::First);
            debug_assert!(set.is_ok(), "the previous value is accepted");
        }
        result
    }

    /// The rule as a line of a file.
    fn text(&self) -> Vec<u8> {
        let mut text = if is_bare(&self.glob) { self.glob.clone() } else { quoted(&self.glob) };
        for (name, value) in &self.settings {
            text.extend([b" ", name.as_bytes(), b" ", value].concat());
        }
        text
    }
}

/// The names of all settings.
pub fn settings() -> impl Iterator<Item = &'static str> {
    let options = ROWS.iter().filter(|row| row.flags.has(Flags::BY_KEY)).map(|row| row.name);
    options.chain([COMPRESS_VALUES])
}

/// All settings with their values under a rule of the configuration, or under none.
pub fn in_force(config: &Config, rule: Option<usize>) -> Vec<(&'static str, Vec<u8>)> {
    let rule = rule.and_then(|index| config.key_policy.get(index));
    let by_rule = |name: &str| {
        let mut settings = rule.iter().flat_map(|rule| rule.settings());
        settings.find(|(other, _)| *other == name).map(|(_, value)| value.to_vec())
    };
    let by_server = |name| row_of(name).map_or(b"no".to_vec(), |row| config.value_of(row));
    settings().map(|name| (name, by_rule(name).unwrap_or_else(|| by_server(name)))).collect()
}

fn row_of(name: &str) -> Option<&'static Row> {
    find(name.as_bytes()).map(|(row, _)| row).filter(|row| row.flags.has(Flags::BY_KEY))
}

/// Checks a setting and returns it as a rule stores it.
fn checked(name: &[u8], value: &[u8], scratch: &mut Config) -> Result<(&'static str, Vec<u8>), Refusal> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    if name.eq_ignore_ascii_case(COMPRESS_VALUES.as_bytes()) {
        let value = value.to_ascii_lowercase();
        if !matches!(value.as_slice(), b"yes" | b"no") {
            return Err(format!("{}: argument must be 'yes' or 'no'", shown()).into());
        }
        return Ok((COMPRESS_VALUES, value));
    }
    let row = find(name).map(|(row, _)| row).filter(|row| row.flags.has(Flags::BY_KEY));
    let Some(row) = row else {
        return Err(format!("'{}' is no setting of a rule", shown()).into());
    };
    (row.set)(scratch, &[value], Occurrence::First).map_err(|reason| format!("{}: {reason}", shown()))?;
    Ok((row.name, scratch.value_of(row)))
}

/// Replaces the rule for the same glob, or inserts before the one at `before`, or appends.
pub fn put(rules: &mut Vec<KeyPolicy>, rule: KeyPolicy, before: Option<usize>) -> Result<(), Refusal> {
    let same = rules.iter().position(|other| other.glob == rule.glob);
    if let (Some(at), None) = (same, before) {
        rules[at] = rule;
        return Ok(());
    }
    let mut place = before.unwrap_or(rules.len());
    if place > rules.len() {
        return Err(format!("there are {} rules", rules.len()).into());
    }
    if let Some(at) = same {
        rules.remove(at);
        place -= usize::from(at < place);
    }
    if rules.len() >= RULES_MAX {
        return Err(format!("there are {RULES_MAX} rules at most").into());
    }
    rules.insert(place, rule);
    Ok(())
}

/// Removes the rule for a glob; returns whether there was one.
pub fn remove(rules: &mut Vec<KeyPolicy>, glob: &[u8]) -> bool {
    let before = rules.len();
    rules.retain(|rule| rule.glob != glob);
    rules.len() < before
}

/// Whether a word needs no quotes.
fn is_bare(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\#".contains(byte))
}

/// Rules, one per line or separated. In a file, the first line replaces the earlier value and later ones add to
/// it; of two rules for one glob, the later applies.
pub(super) struct KeyPolicies;

impl Kind<Vec<KeyPolicy>> for KeyPolicies {
    fn parse(
        &self,
        words: &[&[u8]],
        before: &Vec<KeyPolicy>,
        occurrence: Occurrence,
    ) -> Result<Vec<KeyPolicy>, Refusal> {
        let mut rules = match occurrence {
            Occurrence::First => Vec::new(),
            Occurrence::Again => before.clone(),
        };
        if matches!(words, [] | [[]]) {
            return Ok(Vec::new());
        }
        for rule in words.split(|word| *word == SEPARATOR) {
            put(&mut rules, KeyPolicy::parse(rule)?, None)?;
        }
        Ok(rules)
    }

    fn format(&self, value: &Vec<KeyPolicy>) -> Vec<u8> {
        value.iter().map(KeyPolicy::text).collect::<Vec<_>>().join(&b" ; "[..])
    }

    fn accepts(&self) -> String {
        "a glob, then pairs of setting and value; `;` between rules".to_owned()
    }

    fn rewritten(&self, value: &Vec<KeyPolicy>, _default: &Vec<KeyPolicy>) -> Vec<RewrittenLine> {
        value.iter().map(|rule| RewrittenLine { text: rule.text(), forced: true }).collect()
    }
}
