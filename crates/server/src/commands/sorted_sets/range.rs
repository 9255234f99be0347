//! Ranges by rank, score or member: as a reply, stored, or removed.

use super::{answer_member, full};
use crate::command::{Args, Context, Outcome};
use crate::db::collection::Collection;
use crate::db::list::resolve_range;
use crate::db::sorted_set::ordered::Scored;
use crate::db::sorted_set::{LexBound, ScoreBound, SortedSet, SortedSetView};
use crate::db::{EventClasses, Key};
use crate::error::ClientError;
use std::ops::Range;

/// Parses a bound of a score range: a number, or `(` and a number.
fn score_bound(word: &[u8]) -> Result<ScoreBound, ClientError> {
    let (number, exclusive) = match word.strip_prefix(b"(") {
        Some(rest) => (rest, true),
        None => (word, false),
    };
    // Text after a NUL is ignored, and an empty text is 0.
    let number = number.split(|&byte| byte == 0).next().filter(|number| !number.is_empty()).unwrap_or(b"0");
    let score = wire::number::parse_f64_saturating(number)
        .filter(|score| !score.is_nan())
        .ok_or(ClientError::text("ERR min or max is not a float"))?;
    Ok(if exclusive { ScoreBound::Exclusive(score) } else { ScoreBound::Inclusive(score) })
}

pub(super) fn score_bounds(min: &[u8], max: &[u8]) -> Result<(ScoreBound, ScoreBound), ClientError> {
    Ok((score_bound(min)?, score_bound(max)?))
}

/// Parses a bound of a range of members: `-`, `+`, or `[` or `(` and a member.
fn lex_bound(word: &[u8]) -> Result<LexBound<'_>, ClientError> {
    match word {
        b"-" => Ok(LexBound::Min),
        b"+" => Ok(LexBound::Max),
        [b'[', member @ ..] => Ok(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Ok(LexBound::Exclusive(member)),
        _ => Err(ClientError::text("ERR min or max not valid string range item")),
    }
}

pub(super) fn lex_bounds<'a>(
    min: &'a [u8],
    max: &'a [u8],
) -> Result<(LexBound<'a>, LexBound<'a>), ClientError> {
    Ok((lex_bound(min)?, lex_bound(max)?))
}

/// The bounds of a range.
#[derive(Clone, Copy, Debug)]
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(LexBound<'a>, LexBound<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

impl<'a> Bounds<'a> {
    fn parse(args: Args<'a>, min: usize, max: usize, by: By) -> Result<Self, ClientError> {
        Ok(match by {
            By::Rank => Bounds::Ranks(args.integer(min)?, args.integer(max)?),
            By::Score => {
                let (min, max) = score_bounds(args.at(min), args.at(max))?;
                Bounds::Scores(min, max)
            }
            By::Member => {
                let (min, max) = lex_bounds(args.at(min), args.at(max))?;
                Bounds::Members(min, max)
            }
        })
    }

    /// The ranks, counted from the lowest score; with `reverse`, bounds by rank count from the highest.
    fn ranks(&self, set: SortedSetView<'_>, reverse: bool) -> Range<usize> {
        let len = set.len();
        match *self {
            Bounds::Scores(min, max) => set.score_range(min, max),
            Bounds::Members(min, max) => set.lex_range(min, max),
            Bounds::Ranks(start, end) => match resolve_range(start, end, len) {
                None => 0..0,
                Some((start, end)) if reverse => len - 1 - end..len - start,
                Some((start, end)) => start..end + 1,
            },
        }
    }
}

/// The arguments of a range command: `min max [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    offset: i64,
    /// Negative is no limit.
    count: i64,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// `first` is the index of the bounds. `by` and `reverse` are given if the command's name implies them.
    fn parse(
        args: Args<'a>,
        first: usize,
        mut by: Option<By>,
        mut reverse: Option<bool>,
        stores: bool,
    ) -> Result<Self, ClientError> {
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        let mut at = first + 2;
        while at < args.len() {
            if !stores && args.is(at, "WITHSCORES") {
                with_scores = true;
            } else if args.is(at, "LIMIT") && at + 2 < args.len() {
                (offset, count) = (args.integer(at + 1)?, args.integer(at + 2)?);
                at += 2;
            } else if reverse.is_none() && args.is(at, "REV") {
                reverse = Some(true);
            } else if by.is_none() && args.is(at, "BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && args.is(at, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(ClientError::Syntax);
            }
            at += 1;
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if count != -1 && by == By::Rank {
            return Err(ClientError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Member {
            return Err(ClientError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let swapped = reverse && by != By::Rank;
        let (min, max) = if swapped { (first + 1, first) } else { (first, first + 1) };
        Ok(Query { bounds: Bounds::parse(args, min, max, by)?, reverse, offset, count, with_scores })
    }

    /// The ranks of the reply, after LIMIT is applied.
    fn ranks(&self, set: SortedSetView<'_>) -> Range<usize> {
        let ranks = match (self.bounds, usize::try_from(self.offset), usize::try_from(self.count)) {
            (Bounds::Scores(min, max), Ok(skipped), Ok(count)) if !self.reverse => {
                set.score_range_start(min, max, skipped.saturating_add(count))
            }
            _ => self.bounds.ranks(set, self.reverse),
        };
        if matches!(self.bounds, Bounds::Ranks(..)) {
            return ranks;
        }
        let Ok(skipped) = usize::try_from(self.offset) else { return 0..0 };
        let left = ranks.len().saturating_sub(skipped);
        let taken = usize::try_from(self.count).map_or(left, |count| count.min(left));
        if taken == 0 {
            return 0..0;
        }
        if self.reverse {
            ranks.end - skipped - taken..ranks.end - skipped
        } else {
            ranks.start + skipped..ranks.start + skipped + taken
        }
    }
}

fn answer(ctx: &mut Context<'_>, key: Key<'_>, query: &Query<'_>) -> Outcome {
    let reply = &mut *ctx.reply;
    let Some(set) = ctx.db.read_collection::<SortedSet>(key)? else {
        reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(set);
    let flat = query.with_scores && !super::nests_pairs(reply);
    reply.array(ranks.len() * if flat { 2 } else { 1 });
    if query.with_scores {
        set.for_range(ranks, query.reverse, &mut |member, score| {
            answer_member(reply, member, Some(score));
            true
        });
    } else {
        set.for_members(ranks, query.reverse, &mut |member| member.reply(reply));
    }
    Ok(())
}

fn range_command(ctx: &mut Context<'_>, args: Args<'_>, by: Option<By>, reverse: Option<bool>) -> Outcome {
    let query = Query::parse(args, 2, by, reverse, false)?;
    answer(ctx, args.key(1), &query)
}

pub(super) fn zrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range_command(ctx, args, None, None)
}

pub(super) fn zrevrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range_command(ctx, args, Some(By::Rank), Some(true))
}

pub(super) fn zrangebyscore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range_command(ctx, args, Some(By::Score), Some(false))
}

pub(super) fn zrevrangebyscore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range_command(ctx, args, Some(By::Score), Some(true))
}

pub(super) fn zrangebylex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range_command(ctx, args, Some(By::Member), Some(false))
}

pub(super) fn zrevrangebylex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range_command(ctx, args, Some(By::Member), Some(true))
}

pub(super) fn zrangestore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (target, source) = (args.key(1), args.key(2));
    let query = Query::parse(args, 3, None, None, true)?;
    let mut making = ctx.db.making(target.bytes());
    let built = ctx.db.read_collection_with::<SortedSet, _>(source, |set, _| {
        let ranks = query.ranks(set);
        let mut members: Vec<Scored<'_>> = Vec::with_capacity(ranks.len());
        set.for_range(ranks, false, &mut |member, score| {
            members.push((member, score));
            true
        });
        SortedSet::of_ordered(&members, &making.context())
    })?;
    let result = match built {
        Some(built) => built.map_err(full)?,
        None => ctx.db.build(target.bytes(), |context| SortedSet::new(context.limits, context.seed)),
    };
    let len = result.len();
    if ctx.db.store_collection(target, result) {
        ctx.db.changed(EventClasses::ZSET, "zrangestore", target);
    }
    ctx.reply.count(len);
    Ok(())
}

fn remove(ctx: &mut Context<'_>, args: Args<'_>, by: By, event: &'static str) -> Outcome {
    let key = args.key(1);
    let bounds = Bounds::parse(args, 2, 3, by)?;
    let removed = ctx.db.change(key, |set: &mut SortedSet, _| {
        let ranks = bounds.ranks(set.view(), false);
        set.drop_range(ranks)
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.db.changed_many(EventClasses::ZSET, event, key, removed as u64);
    }
    ctx.reply.count(removed);
    Ok(())
}

pub(super) fn zremrangebyrank(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(ctx, args, By::Rank, "zremrangebyrank")
}

pub(super) fn zremrangebyscore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(ctx, args, By::Score, "zremrangebyscore")
}

pub(super) fn zremrangebylex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    remove(ctx, args, By::Member, "zremrangebylex")
}
