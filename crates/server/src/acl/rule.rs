//! The context in which rules are parsed, and why a rule is refused.

use crate::command::registry::Registry;
use std::borrow::Cow;
use std::fmt;

/// The context in which rules are parsed.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The commands that rules can name.
    pub registry: &'a Registry,
    /// New users and selectors have access to all channels (`acl-pubsub-default`).
    pub all_channels: bool,
}

/// Why a rule is refused; `Display` is the text for clients and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// Unknown or malformed rule.
    Syntax,
    /// Unknown command or category.
    UnknownCommand,
    /// A pattern of keys beside `~*`.
    BesideAllKeys,
    /// A channel beside `&*`.
    BesideAllChannels,
    /// The password to remove does not exist.
    NoSuchPassword,
    /// The digest is not 64 lower-case hexadecimal digits.
    NoDigest,
    /// `+command|subcommand|argument`.
    ArgumentOfSubcommand,
    /// There is no database with this number.
    DatabaseOutOfRange,
    /// A user has the maximum number of something.
    TooMany,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Syntax => "Syntax error",
            RuleError::UnknownCommand => "Unknown command or category name in ACL",
            RuleError::BesideAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::BesideAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::NoDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::DatabaseOutOfRange => "The provided database ID is out of range",
            RuleError::TooMany => "The user would have too many rules",
        })
    }
}

/// Why the rules of a user are refused, with the refused rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentError {
    /// A rule is refused.
    Rule {
        /// The rule.
        rule: Vec<u8>,
        /// Why it is refused.
        error: RuleError,
    },
    /// A selector that begins here has no closing bracket.
    Unmatched {
        /// The argument.
        rule: Vec<u8>,
        /// The index of the argument.
        at: usize,
    },
    /// There are too many users.
    TooManyUsers,
}

/// Joins the arguments of selectors that span several; the other arguments stay as they are.
pub fn join_selectors<'a>(arguments: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, ArgumentError> {
    let mut joined: Vec<Cow<'a, [u8]>> = Vec::with_capacity(arguments.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, &argument) in arguments.iter().enumerate() {
        let ends = argument.ends_with(b")");
        match &mut open {
            None if argument.starts_with(b"(") && !ends => open = Some((at, argument.to_vec())),
            None => joined.push(Cow::Borrowed(argument)),
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(argument);
                if ends {
                    joined.extend(open.take().map(|(_, selector)| Cow::Owned(selector)));
                }
            }
        }
    }
    match open {
        None => Ok(joined),
        Some((at, _)) => Err(ArgumentError::Unmatched { rule: arguments[at].to_vec(), at }),
    }
}

/// Whether the bytes are a C string without blanks, as names and patterns must be: lines separate them with blanks.
pub fn is_word(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| matches!(byte, 0 | 9..=13 | b' '))
}
