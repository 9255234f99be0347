//! The option `memory-prefixes`: the prefixes for which keys are counted.

use super::option::{Kind, Occurrence, Refusal, RewrittenLine};
use super::special::{always_written, is_bare};

/// The maximum number of configured prefixes.
const PREFIXES_MAX: usize = 256;
/// The maximum length of configured and learnt prefixes.
pub const PREFIX_LEN_MAX: usize = 128;
const LEARN: &[u8] = b"learn";

/// The value of `memory-prefixes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrefixRule {
    /// No prefixes are counted.
    #[default]
    Off,
    /// Prefixes up to the first separator, learnt from keys.
    Learn,
    /// Configured prefixes; each can end with a `*`.
    Given(Vec<Vec<u8>>),
}

pub(super) struct Prefixes;

impl Kind<PrefixRule> for Prefixes {
    fn parse(&self, words: &[&[u8]], _: &PrefixRule, _: Occurrence) -> Result<PrefixRule, Refusal> {
        match words {
            [] | [[]] => return Ok(PrefixRule::Off),
            [word] if word.eq_ignore_ascii_case(LEARN) => return Ok(PrefixRule::Learn),
            _ => {}
        }
        if words.len() > PREFIXES_MAX {
            return Err(format!("no more than {PREFIXES_MAX} prefixes can be counted").into());
        }
        let prefix = |word: &&[u8]| {
            let text = word.strip_suffix(b"*").unwrap_or(word);
            if text.len() > PREFIX_LEN_MAX {
                return Err(format!("a prefix has no more than {PREFIX_LEN_MAX} bytes").into());
            }
            // The other special characters of globs would have no effect.
            if !is_bare(word) || text.iter().any(|byte| b"*?[".contains(byte)) {
                return Err(
                    "a prefix is printable text without *, ?, [ and quotes, and may end with one *".into()
                );
            }
            Ok(word.to_vec())
        };
        words.iter().map(prefix).collect::<Result<_, _>>().map(PrefixRule::Given)
    }

    fn format(&self, value: &PrefixRule) -> Vec<u8> {
        match value {
            PrefixRule::Off => Vec::new(),
            PrefixRule::Learn => LEARN.to_vec(),
            PrefixRule::Given(prefixes) => prefixes.join(&b' '),
        }
    }

    fn accepts(&self) -> String {
        "prefixes, or `learn`".to_owned()
    }

    fn rewritten(&self, value: &PrefixRule, default: &PrefixRule) -> Vec<RewrittenLine> {
        if value == default { Vec::new() } else { vec![always_written(self.format(value))] }
    }
}
