//! The option `memory-prefixes`: how keys are counted by what they begin with.

use super::option::{Kind, Occurrence, Refusal, RewrittenLine};
use super::special::{always_written, is_bare};

/// Given prefixes.
const PREFIXES_MAX: usize = 256;
/// Longer prefixes are neither given nor learnt.
pub const PREFIX_LEN_MAX: usize = 128;
const LEARN: &[u8] = b"learn";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrefixRule {
    #[default]
    Off,
    /// Up to the first separator.
    Learn,
    /// Each may end with a `*`.
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
            // A pattern's other signs would be taken for what they are not.
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
