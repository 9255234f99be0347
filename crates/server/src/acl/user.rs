//! A user: authentication and selectors.

use super::passwords::Digest;
use super::rule::{RuleError, Rules};
use super::selector::Selector;
use super::{DEFAULT_NAME, SUPERUSER_NAME};

const PASSWORDS_MAX: usize = 1 << 10;
const SELECTORS_MAX: usize = 1 << 10;

/// The credentials of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Any password is accepted.
    pub needs_no_password: bool,
    passwords: Vec<Digest>,
}

impl Credentials {
    /// A single password, or none required.
    pub fn of(password: Option<&[u8]>) -> Self {
        Credentials {
            needs_no_password: password.is_none(),
            passwords: password.map(Digest::of).into_iter().collect(),
        }
    }
}

/// A user with credentials and selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: Vec<u8>,
    /// Login is enabled. Existing connections are not affected.
    pub is_enabled: bool,
    /// The passwords.
    pub credentials: Credentials,
    /// The permissions outside brackets.
    pub root: Selector,
    /// Selectors in brackets.
    pub others: Vec<Selector>,
}

impl User {
    /// A user that cannot log in and has no permissions, except for channels if `all_channels`.
    pub fn new(name: &[u8], all_channels: bool) -> Self {
        User {
            name: name.to_vec(),
            is_enabled: false,
            credentials: Credentials::default(),
            root: Selector::new(all_channels),
            others: Vec::new(),
        }
    }

    /// The initial `default`: all permissions, and no password required.
    pub(super) fn default_user() -> Self {
        let root = Selector::of_all();
        User { is_enabled: true, credentials: Credentials::of(None), root, ..User::new(DEFAULT_NAME, true) }
    }

    pub(super) fn superuser() -> Self {
        User { root: Selector::of_all(), ..User::new(SUPERUSER_NAME, true) }
    }

    /// Whether some selector permits everything.
    pub fn permits_all(&self) -> bool {
        self.selectors().any(Selector::permits_all)
    }

    /// The root selector, and then the others.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.others)
    }

    /// The digests of the user's passwords.
    pub fn passwords(&self) -> impl ExactSizeIterator<Item = &Digest> {
        self.credentials.passwords.iter()
    }

    /// Whether login with this password is permitted.
    pub fn accepts(&self, password: &Digest) -> bool {
        let Credentials { needs_no_password, passwords } = &self.credentials;
        let is_right = passwords.iter().fold(false, |accepted, digest| accepted | digest.is(password));
        self.is_enabled && (*needs_no_password || is_right)
    }

    /// Applies a rule; a refused rule can be half applied, so apply it to a copy.
    pub fn apply(&mut self, rule: &[u8], rules: Rules<'_>) -> Result<(), RuleError> {
        match (rule, rule.to_ascii_lowercase().as_slice()) {
            ([], _) | (_, b"sanitize-payload" | b"skip-sanitize-payload") => Ok(()),
            (_, b"on") => {
                self.is_enabled = true;
                Ok(())
            }
            (_, b"off") => {
                self.is_enabled = false;
                Ok(())
            }
            (_, b"nopass") => {
                self.credentials = Credentials::of(None);
                Ok(())
            }
            (_, b"resetpass") => {
                self.credentials = Credentials::default();
                Ok(())
            }
            (_, b"clearselectors") => {
                self.others = Vec::new();
                Ok(())
            }
            (_, b"reset") => {
                *self = User::new(&self.name, rules.all_channels);
                Ok(())
            }
            ([b'>', password @ ..], _) => self.add_password(Digest::of(password)),
            ([b'#', digest @ ..], _) => self.add_password(Digest::parse(digest).ok_or(RuleError::NoDigest)?),
            ([b'<', password @ ..], _) => self.remove_password(&Digest::of(password)),
            ([b'!', digest @ ..], _) => {
                self.remove_password(&Digest::parse(digest).ok_or(RuleError::NoDigest)?)
            }
            ([b'(', inner @ .., b')'], _) => self.add_selector(inner, rules),
            _ => self.root.apply(rule, rules),
        }
    }

    fn add_password(&mut self, digest: Digest) -> Result<(), RuleError> {
        self.credentials.needs_no_password = false;
        if self.credentials.passwords.contains(&digest) {
            return Ok(());
        }
        if self.credentials.passwords.len() >= PASSWORDS_MAX {
            return Err(RuleError::TooMany);
        }
        self.credentials.passwords.push(digest);
        Ok(())
    }

    fn remove_password(&mut self, digest: &Digest) -> Result<(), RuleError> {
        let at = self.credentials.passwords.iter().position(|other| other == digest);
        self.credentials.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Adds a selector. The rules are words in the syntax of a configuration line; with unmatched quotes there are none.
    fn add_selector(&mut self, inner: &[u8], rules: Rules<'_>) -> Result<(), RuleError> {
        if self.others.len() >= SELECTORS_MAX {
            return Err(RuleError::TooMany);
        }
        let mut selector = Selector::new(rules.all_channels);
        for rule in wire::request::split_args(inner).unwrap_or_default() {
            selector.apply(&rule, rules)?;
        }
        self.others.push(selector);
        Ok(())
    }

    /// Flags in the notation of rules.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_enabled { "on" } else { "off" }];
        flags.extend(self.credentials.needs_no_password.then_some("nopass"));
        flags
    }

    /// All rules: applied to a new user, they reproduce this one.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for digest in &self.credentials.passwords {
            text.extend_from_slice(format!("#{digest} ").as_bytes());
        }
        self.root.describe(&mut text);
        for selector in &self.others {
            let mut rules = Vec::new();
            selector.describe(&mut rules);
            text.extend_from_slice(b" (");
            // A closing bracket at the end of a word would end the selector.
            let needs_quotes = |word: &[u8]| has_quotes(word) || word.ends_with(b")");
            text.extend_from_slice(&with_quotes(&rules, needs_quotes));
            text.push(b')');
        }
        text
    }

    /// Name and rules as words of a configuration line.
    pub fn config_line(&self) -> Vec<u8> {
        with_quotes(&[&self.name[..], b" ", &self.describe()].concat(), has_quotes)
    }

    /// The channels and patterns that are still permitted, compared with `before`; `None` if none was lost.
    pub(super) fn channels_left_of(&self, before: &User) -> Option<Vec<Vec<u8>>> {
        if self.selectors().any(|selector| selector.all_channels) {
            return None;
        }
        let left: Vec<Vec<u8>> = self.selectors().flat_map(|selector| selector.channels.clone()).collect();
        let is_kept = |selector: &Selector| {
            !selector.all_channels && selector.channels.iter().all(|channel| left.contains(channel))
        };
        if before.selectors().all(is_kept) { None } else { Some(left) }
    }
}

fn has_quotes(word: &[u8]) -> bool {
    word.iter().any(|byte| matches!(byte, b'"' | b'\''))
}

/// Puts the words that need it in quotes, for a syntax with quotes.
fn with_quotes(text: &[u8], needs_quotes: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let is_plain = |word: &[u8]| !word.is_empty() && !needs_quotes(word);
    let words = text.split(|&byte| byte == b' ');
    let words = words.map(|word| if is_plain(word) { word.to_vec() } else { crate::config::quoted(word) });
    words.collect::<Vec<_>>().join(&b' ')
}
