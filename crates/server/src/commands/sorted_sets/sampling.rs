//! Random members, and incremental iteration over members.

use super::answer_member;
use crate::command::{Args, Context, Outcome, repetition};
use crate::commands::scan::{ScanOptions, Walked, answer_end, parse_cursor};
use crate::db::sorted_set::SortedSet;
use crate::db::{Key, StringValue};
use wire::convert::{unsigned_len, usize_of};

pub(super) fn zrandmember(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 2 {
        let reply = &mut *ctx.reply;
        let found = ctx.db.read_collection_with::<SortedSet, _>(args.key(1), |set, random| {
            set.random_each(1, random, &mut |member, _| {
                member.reply(reply);
                true
            });
        })?;
        if found.is_none() {
            ctx.reply.null();
        }
        return Ok(());
    }
    let (count, with_scores) = repetition::count_and_word(args, "WITHSCORES")?;
    answer_several(ctx, args.key(1), count, with_scores)
}

/// With a positive count the members are distinct; with a negative one they can repeat.
fn answer_several(ctx: &mut Context<'_>, key: Key<'_>, count: i64, with_scores: bool) -> Outcome {
    let repetition = ctx.begin_repetition(count)?;
    let reply = &mut *ctx.reply;
    let flat = with_scores && !super::nests_pairs(reply);
    let found = ctx.db.read_collection_with::<SortedSet, _>(key, |set, random| {
        let wanted =
            if count < 0 { usize_of(count.unsigned_abs()) } else { unsigned_len(count).min(set.len()) };
        reply.array(wanted * if flat { 2 } else { 1 });
        let mut answer = |member: StringValue<'_>, score: f64| {
            answer_member(reply, member, with_scores.then_some(score));
            repetition.goes_on(reply)
        };
        if count < 0 {
            set.random_each(wanted, random, &mut answer);
        } else {
            set.random_distinct(wanted, random, &mut answer);
        }
    })?;
    if found.is_none() {
        ctx.reply.array(0);
    }
    ctx.end_repetition(repetition)
}

pub(super) fn zscan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    let Some(set) = ctx.db.read_collection::<SortedSet>(args.key(1))? else {
        answer_end(ctx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Walked::SortedSet)?;
    let mut found: Vec<(StringValue<'_>, f64)> = Vec::new();
    let next = options.walk(cursor, |cursor, wanted| {
        let mut visited = 0;
        let next = set.scan(cursor, wanted, &mut |member, score| {
            visited += 1;
            if options.matches_value(&member) {
                found.push((member, score));
            }
        });
        (next, visited)
    });
    // The same digits as the reference, which uses different functions for the two encodings.
    let text = if set.is_compact() { wire::number::f64_text } else { wire::number::f64_text_17_digits };
    ctx.reply.array(2);
    ctx.reply.bulk(next.to_string().as_bytes());
    ctx.reply.array(found.len() * if options.only_names { 1 } else { 2 });
    for (member, score) in found {
        member.reply(ctx.reply);
        if !options.only_names {
            ctx.reply.bulk(&text(score));
        }
    }
    Ok(())
}
