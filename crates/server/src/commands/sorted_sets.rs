//! Sorted sets: adding, looking up, counting.

mod algebra;
mod popping;
mod range;
mod rows;
mod sampling;

pub use rows::COMMANDS;

use crate::command::{Args, Context, Outcome};
use crate::db::StringValue;
use crate::db::sorted_set::{Full, Insertion, SortedSet, SortedSetView};
use crate::db::{EventClasses, Key};
use crate::error::ClientError;
use wire::reply::{Protocol, ReplyBuffer};

/// The error of a set with 2^32-1 members, the maximum.
pub(super) fn full(_: Full) -> ClientError {
    ClientError::text("ERR sorted set holds its maximum of 4294967295 members")
}

/// Whether members and scores are pairs in nested arrays.
fn nests_pairs(reply: &ReplyBuffer) -> bool {
    reply.protocol == Protocol::Resp3
}

/// Writes a member and, if wanted, its score: as a pair in RESP3.
fn answer_member(reply: &mut ReplyBuffer, member: StringValue<'_>, score: Option<f64>) {
    if score.is_some() && nests_pairs(reply) {
        reply.array(2);
    }
    member.reply(reply);
    if let Some(score) = score {
        reply.double(score);
    }
}

/// The options of ZADD.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddOptions {
    /// NX: existing members keep their scores.
    pub only_new: bool,
    /// XX: no members are added.
    pub only_present: bool,
    /// GT: an existing score changes only to a greater one.
    pub only_greater: bool,
    /// LT: an existing score changes only to a smaller one.
    pub only_less: bool,
    /// CH: the reply counts changed members too.
    pub count_changed: bool,
    /// INCR: the score is added to the existing one.
    pub increment: bool,
}

/// The result of adding one member.
enum Added {
    /// A condition was false, or the score was the same.
    No,
    New(f64),
    Changed(f64),
    Same(f64),
}

impl AddOptions {
    /// Parses the options before the first score; also returns its index.
    fn parse(args: Args<'_>) -> Result<(Self, usize), ClientError> {
        let mut options = AddOptions::default();
        let mut at = 2;
        loop {
            let flag = match args.get(at) {
                Some(word) if word.eq_ignore_ascii_case(b"NX") => &mut options.only_new,
                Some(word) if word.eq_ignore_ascii_case(b"XX") => &mut options.only_present,
                Some(word) if word.eq_ignore_ascii_case(b"GT") => &mut options.only_greater,
                Some(word) if word.eq_ignore_ascii_case(b"LT") => &mut options.only_less,
                Some(word) if word.eq_ignore_ascii_case(b"CH") => &mut options.count_changed,
                Some(word) if word.eq_ignore_ascii_case(b"INCR") => &mut options.increment,
                _ => break,
            };
            *flag = true;
            at += 1;
        }
        options.check(args.len() - at.min(args.len()))?;
        Ok((options, at))
    }

    fn check(&self, scores_and_members: usize) -> Result<(), ClientError> {
        if scores_and_members == 0 || scores_and_members % 2 == 1 {
            return Err(ClientError::Syntax);
        }
        if self.only_new && self.only_present {
            return Err(ClientError::text("ERR XX and NX options at the same time are not compatible"));
        }
        let comparisons = usize::from(self.only_greater) + usize::from(self.only_less);
        if comparisons == 2 || comparisons == 1 && self.only_new {
            return Err(ClientError::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increment && scores_and_members > 2 {
            return Err(ClientError::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    fn add(
        &self,
        set: &mut SortedSet,
        member: &[u8],
        score: f64,
        context: &crate::db::collection::CollectionContext<'_>,
    ) -> Result<Added, ClientError> {
        // Without conditions one descent is enough.
        let conditional = self.only_new || self.only_present || self.only_greater || self.only_less;
        if !conditional && !self.increment {
            return Ok(added(set.insert(member, score, context).map_err(full)?, score));
        }
        let mut wanted = score;
        let insertion = set.insert_if(member, context, &mut |there| {
            let Some(there) = there else { return (!self.only_present).then_some(score) };
            if self.increment {
                wanted = there + score;
            }
            let is_refused = self.only_new
                || wanted.is_nan()
                || self.only_greater && wanted <= there
                || self.only_less && wanted >= there;
            (!is_refused).then_some(wanted)
        });
        match insertion.map_err(full)? {
            Some(insertion) => Ok(added(insertion, wanted)),
            None if wanted.is_nan() && !self.only_new => {
                Err(ClientError::text("ERR resulting score is not a number (NaN)"))
            }
            None => Ok(Added::No),
        }
    }
}

fn added(insertion: Insertion, score: f64) -> Added {
    match insertion {
        Insertion::Added => Added::New(score),
        Insertion::Updated { .. } => Added::Changed(score),
        Insertion::Unchanged => Added::Same(score),
    }
}

fn zadd(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (options, first) = AddOptions::parse(args)?;
    add(ctx, args.key(1), options, scored(args.from(first)))
}

fn zincrby(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = AddOptions { increment: true, ..AddOptions::default() };
    add(ctx, args.key(1), options, scored(args.from(2))).map_err(|error| {
        // As ZADD with INCR, which this is a form of: an option in place of the increment leaves no pair to add.
        let is_option = ["NX", "XX", "GT", "LT", "CH", "INCR"].iter().any(|option| args.is(2, option));
        if is_option && matches!(error, ClientError::NotFloat) { ClientError::Syntax } else { error }
    })
}

/// The arguments as `score member` pairs.
fn scored<'a>(
    args: Args<'a>,
) -> impl Iterator<Item = Result<(f64, &'a [u8]), ClientError>> + Clone + use<'a> {
    (0..args.len()).step_by(2).map(move |at| Ok((args.float(at)?, args.at(at + 1))))
}

/// Adds members as ZADD does; adds none if one of the scores is not a number.
pub(super) fn add<'a>(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    options: AddOptions,
    members: impl Iterator<Item = Result<(f64, &'a [u8]), ClientError>> + Clone,
) -> Outcome {
    let (mut count, mut longest_bytes) = (0, 0);
    for member in members.clone() {
        longest_bytes = longest_bytes.max(member?.1.len());
        count += 1;
    }
    let (mut new, mut changed, mut error, mut result) = (0, 0, None, None);
    let mut run = |set: &mut SortedSet, context: crate::db::collection::CollectionContext<'_>| {
        set.expect(count, longest_bytes, &context);
        for member in members.clone() {
            let added = member.and_then(|(score, member)| options.add(set, member, score, &context));
            match added {
                Ok(Added::No) => {}
                Ok(Added::New(score)) => (new, result) = (new + 1, Some(score)),
                Ok(Added::Changed(score)) => (changed, result) = (changed + 1, Some(score)),
                Ok(Added::Same(score)) => result = Some(score),
                Err(refused) => {
                    error = Some(refused);
                    break;
                }
            }
        }
    };
    if options.only_present {
        ctx.db.change(key, &mut run)?;
    } else {
        ctx.db.change_or_create(key, &mut run)?;
    }
    if new + changed > 0 {
        ctx.db.changed_many(
            EventClasses::ZSET,
            if options.increment { "zincr" } else { "zadd" },
            key,
            new + changed,
        );
    }
    if let Some(error) = error {
        return Err(error);
    }
    match (options.increment, result) {
        (true, Some(score)) => ctx.reply.double(score),
        (true, None) => ctx.reply.null(),
        (false, _) => ctx.reply.count(new + if options.count_changed { changed } else { 0 }),
    }
    Ok(())
}

fn zrem(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let removed = ctx.db.change(key, |set: &mut SortedSet, _| {
        args.from(2).iter().filter(|member| set.remove(member).is_some()).count()
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.db.changed_many(EventClasses::ZSET, "zrem", key, removed as u64);
    }
    ctx.reply.count(removed);
    Ok(())
}

fn zcard(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = ctx.db.read(args.key(1)).map_or(Ok(0), |value| value.len_of::<SortedSet>())?;
    ctx.reply.count(len);
    Ok(())
}

fn zscore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    match set.and_then(|set| set.score(args.at(2))) {
        Some(score) => ctx.reply.double(score),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn zmscore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let reply = &mut *ctx.reply;
    reply.array(args.len() - 2);
    let mut answer = |score: Option<f64>| match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    };
    for_each_score(set, args.from(2), &mut answer);
    Ok(())
}

/// Calls `visit` with the score of each member, in order.
pub fn for_each_score(set: Option<SortedSetView<'_>>, members: Args<'_>, visit: &mut dyn FnMut(Option<f64>)) {
    match (set, members.len()) {
        (Some(set), 1) => visit(set.score(members.at(0))),
        (Some(set), _) => set.scores(&members.iter().collect::<Vec<&[u8]>>(), visit),
        (None, _) => members.iter().for_each(|_| visit(None)),
    }
}

fn zrank(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rank(ctx, args, false)
}

fn zrevrank(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rank(ctx, args, true)
}

fn rank(ctx: &mut Context<'_>, args: Args<'_>, reverse: bool) -> Outcome {
    if args.len() > 4 {
        return Err(ClientError::WrongArity { command: ctx.command.name.to_owned() });
    }
    let with_score = args.is(3, "WITHSCORE");
    if args.len() == 4 && !with_score {
        return Err(ClientError::Syntax);
    }
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let found = set.and_then(|set| set.rank(args.at(2)).map(|found| (set.len(), found)));
    let Some((len, (rank, score))) = found else {
        if with_score {
            ctx.reply.null_array();
        } else {
            ctx.reply.null();
        }
        return Ok(());
    };
    if with_score {
        ctx.reply.array(2);
    }
    ctx.reply.count(if reverse { len - 1 - rank } else { rank });
    if with_score {
        ctx.reply.double(score);
    }
    Ok(())
}

fn zcount(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (min, max) = range::score_bounds(args.at(2), args.at(3))?;
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let count = set.map_or(0, |set| set.score_range(min, max).len());
    ctx.reply.count(count);
    Ok(())
}

fn zlexcount(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (min, max) = range::lex_bounds(args.at(2), args.at(3))?;
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let count = set.map_or(0, |set| set.lex_range(min, max).len());
    ctx.reply.count(count);
    Ok(())
}
