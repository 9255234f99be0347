//! The common part of commands that pop from the first of several keys with elements: LMPOP, ZMPOP, BLPOP, BZPOPMIN and
//! similar commands.

use crate::command::{Args, Context};
use crate::db::{Key, Kind};
use crate::error::ClientError;

/// The arguments `numkeys key [key ...] end [COUNT count]`, where `End` is an end of a list or of a sorted set.
pub(super) struct MultiPop<'a, End> {
    /// The keys; the first one that holds elements is popped.
    pub keys: Args<'a>,
    /// End of the collection that is popped.
    pub end: End,
    /// Most elements to pop; 1 or more.
    pub count: usize,
}

impl<'a, End> MultiPop<'a, End> {
    /// Parses the arguments from `first` on; `end_at` parses the end among them.
    pub fn parse(
        args: Args<'a>,
        first: usize,
        end_at: impl FnOnce(Args<'_>, usize) -> Result<End, ClientError>,
    ) -> Result<Self, ClientError> {
        let few = ClientError::text("ERR numkeys should be greater than 0");
        let keys = args.count_in(first, 1, usize::MAX, few)?;
        let end_index =
            first.checked_add(1 + keys).filter(|&at| at < args.len()).ok_or(ClientError::Syntax)?;
        let end = end_at(args, end_index)?;
        let mut count = None;
        let mut at = end_index + 1;
        while at < args.len() {
            if count.is_some() || !args.is(at, "COUNT") || at + 1 >= args.len() {
                return Err(ClientError::Syntax);
            }
            let few = ClientError::text("ERR count should be greater than 0");
            count = Some(args.count_in(at + 1, 1, usize::MAX, few)?);
            at += 2;
        }
        Ok(MultiPop { keys: args.from(first + 1).first(keys), end, count: count.unwrap_or(1) })
    }
}

/// The first of the keys that exists and holds a value of this kind. A key of another kind is an error, unless the command
/// has waited for its keys: then it goes on waiting for those.
pub(super) fn first_present<'a>(
    ctx: &mut Context<'_>,
    keys: Args<'a>,
    kind: Kind,
) -> Result<Option<Key<'a>>, ClientError> {
    for key in keys.keys() {
        let found = ctx.db.expect_kind(key, kind);
        if found.is_err() && ctx.origin.retried || !found? {
            continue;
        }
        return Ok(Some(key));
    }
    Ok(None)
}
