//! Samples of fields: HRANDFIELD and HSCAN.

use crate::command::repetition::{self, Repetition};
use crate::command::{Args, Context, Outcome};
use crate::commands::scan::{Found, ScanOptions, Walked, answer_end, parse_cursor};
use crate::db::hash::{Cell, Hash, HashView};
use crate::error::ClientError;
use structures::random::Random;
use wire::reply::{Protocol, ReplyBuffer};

/// The number of fields for HRANDFIELD, and whether values are included.
#[derive(Clone, Copy)]
struct SampleOptions {
    count: i64,
    with_values: bool,
}

impl SampleOptions {
    /// `None` for the form with one field.
    fn parse(args: Args<'_>) -> Result<Option<Self>, ClientError> {
        if args.len() == 2 {
            return Ok(None);
        }
        let (count, with_values) = repetition::count_and_word(args, "WITHVALUES")?;
        Ok(Some(SampleOptions { count, with_values }))
    }

    fn answer(
        &self,
        hash: HashView<'_>,
        random: &mut Random,
        at_ms: i64,
        repetition: Repetition,
        reply: &mut ReplyBuffer,
    ) {
        let mark = reply.begin_array();
        let mut answered = 0;
        let pairs = self.with_values && reply.protocol == Protocol::Resp3;
        // Writes one field; returns whether more can be written.
        let mut one = |field: Cell<'_>, value: Cell<'_>| {
            answered += 1;
            if pairs {
                reply.array(2);
            }
            field.reply(reply);
            if self.with_values {
                value.reply(reply);
            }
            repetition.goes_on(reply)
        };
        if let Ok(count) = usize::try_from(self.count) {
            hash.random_distinct(count, random, at_ms, &mut |field, value| _ = one(field, value));
        } else if repetition::is_worth_listing(hash.len(), self.count) {
            // A compact hash is scanned to find a field: one scan collects all of them.
            let mut pairs = Vec::with_capacity(hash.len());
            hash.for_each(at_ms, &mut |field, value| pairs.push((field, value)));
            // All fields can be expired.
            let draws = if pairs.is_empty() { 0 } else { self.count.unsigned_abs() };
            (0..draws).all(|_| {
                let at = usize::try_from(random.below(pairs.len() as u64)).unwrap_or_default();
                pairs.get(at).is_some_and(|&(field, value)| one(field, value))
            });
        } else {
            (0..self.count.unsigned_abs())
                .all(|_| hash.random(random, at_ms).is_some_and(|(field, value)| one(field, value)));
        }
        let elements = if self.with_values && !pairs { answered * 2 } else { answered };
        reply.end_array(mark, elements);
    }
}

pub(super) fn hrandfield(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = SampleOptions::parse(args)?;
    let repetition = ctx.begin_repetition(wanted.map_or(0, |wanted| wanted.count))?;
    let (reply, at_ms) = (&mut *ctx.reply, ctx.db.fields_at_ms());
    let answered =
        ctx.db.read_collection_with::<Hash, _>(args.key(1), |hash: HashView<'_>, random| match wanted {
            Some(wanted) => wanted.answer(hash, random, at_ms, repetition, reply),
            None => match hash.random(random, at_ms) {
                Some((field, _)) => field.reply(reply),
                None => reply.null(),
            },
        })?;
    match (answered, wanted) {
        (Some(()), _) => {}
        (None, None) => ctx.reply.null(),
        (None, Some(_)) => ctx.reply.array(0),
    }
    ctx.end_repetition(repetition)
}

pub(super) fn hscan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    let at_ms = ctx.db.fields_at_ms();
    let Some(hash) = ctx.db.read_collection::<Hash>(args.key(1))? else {
        answer_end(ctx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Walked::Hash)?;
    let mut found = Found::default();
    let next = options.walk(cursor, |cursor, wanted| {
        let mut visited = 0;
        let next = hash.scan(cursor, wanted, at_ms, &mut |field, value| {
            visited += 1;
            if options.matches_value(&field) {
                field.with_bytes(|bytes| found.push(bytes));
                if !options.only_names {
                    value.with_bytes(|bytes| found.push(bytes));
                }
            }
        });
        (next, visited)
    });
    found.answer(next, ctx.reply);
    Ok(())
}
