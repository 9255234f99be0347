//! Patterns of SORT: `weight_*` is the string at the key with the element in place of the star, `user_*->age` a field
//! of the hash there, and `#` the element itself.

use crate::db::hash::Hash;
use crate::db::{Db, StringValue};

/// A parsed pattern of BY or GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern<'a> {
    Itself,
    /// A pattern without a star refers to no key.
    Constant,
    Key {
        before: &'a [u8],
        after: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    /// Parses a pattern.
    pub fn new(pattern: &'a [u8]) -> Self {
        if pattern == b"#" {
            return Pattern::Itself;
        }
        let Some(star) = pattern.iter().position(|&byte| byte == b'*') else { return Pattern::Constant };
        let (before, rest) = (&pattern[..star], &pattern[star + 1..]);
        match rest.windows(2).position(|pair| pair == b"->") {
            Some(arrow) if arrow + 2 < rest.len() => {
                Pattern::Key { before, after: &rest[..arrow], field: Some(&rest[arrow + 2..]) }
            }
            _ => Pattern::Key { before, after: rest, field: None },
        }
    }

    /// Whether the pattern is the same for all elements, as far as sorting is concerned.
    pub fn is_constant(&self) -> bool {
        !matches!(self, Pattern::Key { .. })
    }

    /// Passes the string that the pattern refers to for `element` to `found`, if there is one.
    pub fn follow<R>(
        &self,
        db: &mut Db,
        element: &[u8],
        found: impl FnOnce(Option<StringValue<'_>>) -> R,
    ) -> R {
        match self {
            Pattern::Itself => found(Some(StringValue::Bytes(element))),
            Pattern::Constant => found(None),
            Pattern::Key { before, after, field } => {
                let name = [before, element, after].concat();
                let key = db.key(&name);
                match field {
                    None => found(db.read_string(key).ok().flatten()),
                    Some(field) => {
                        let at_ms = db.fields_at_ms();
                        let hash = db.read_collection::<Hash>(key).ok().flatten();
                        found(hash.and_then(|hash| hash.get(field, at_ms)))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_cut_at_star_and_arrow() {
        let key = |before, after, field| Pattern::Key { before, after, field };
        let cases: [(&[u8], Pattern<'_>); 7] = [
            (b"#", Pattern::Itself),
            (b"nosort", Pattern::Constant),
            (b"w_*", key(b"w_", b"", None)),
            (b"a*b*c", key(b"a", b"b*c", None)),
            (b"u*->f", key(b"u", b"", Some(b"f"))),
            (b"u*x->f->g", key(b"u", b"x", Some(b"f->g"))),
            (b"u*->", key(b"u", b"->", None)),
        ];
        for (pattern, expected) in cases {
            assert_eq!(Pattern::new(pattern), expected, "{}", String::from_utf8_lossy(pattern));
        }
    }
}
