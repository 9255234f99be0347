//! Unions, intersections and differences of sorted sets and sets, with weights, as a reply or stored.

use super::{answer_member, full};
use crate::command::{Args, Context, Outcome};
use crate::commands::sources::is_difference_asked;
use crate::db::hashed_value::{HashedValue, KeptHash};
use crate::db::set::{Set, SetView};
use crate::db::sorted_set::ordered::{self, Scored};
use crate::db::sorted_set::{SortedSet, SortedSetView};
use crate::db::{Db, EventClasses, Kind, StringValue};
use crate::error::ClientError;
use indexmap::IndexMap;
use structures::hash::HashSeed;
use wire::convert::unsigned_len;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The combination of the same member's scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// Combines `a`, a number, and `b`, which can be NaN: a sum with it is 0, like that of opposite infinities,
    /// and minimum and maximum ignore it.
    fn combine(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(a + b),
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One of the combined collections: the members of a plain set have the score 1.
#[derive(Clone, Copy)]
enum Source<'a> {
    Absent,
    Sorted(SortedSetView<'a>),
    Plain(SetView<'a>),
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Source::Absent => 0,
            Source::Sorted(set) => set.len(),
            Source::Plain(set) => set.len(),
        }
    }

    /// The address of the collection, which identifies its key.
    fn address(&self) -> *const () {
        match self {
            Source::Absent => std::ptr::null(),
            Source::Sorted(set) => set.address(),
            Source::Plain(set) => set.address(),
        }
    }

    /// Whether both have the same key.
    fn is_same(&self, other: &Source<'_>) -> bool {
        !self.address().is_null() && self.address() == other.address()
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Absent => None,
            Source::Sorted(set) => set.score(member),
            Source::Plain(set) => set.contains(member).then_some(1.0),
        }
    }

    /// As [`Source::score`], for a member of another source.
    fn score_of(&self, member: &StringValue<'_>) -> Option<f64> {
        match self {
            Source::Plain(set) => set.contains_value(*member).then_some(1.0),
            _ => member.with_bytes(|bytes| self.score(bytes)),
        }
    }
}

impl<'a> Source<'a> {
    /// Visits members until `visit` returns `false`.
    fn for_each(self, visit: &mut dyn FnMut(StringValue<'a>, f64) -> bool) {
        match self {
            Source::Absent => {}
            Source::Sorted(set) => set.for_range(0..set.len(), false, visit),
            Source::Plain(set) => {
                set.any(&mut |member| !visit(member, 1.0));
            }
        }
    }
}

/// `numkeys key [key ...] [WEIGHTS ...] [AGGREGATE ...] [WITHSCORES] [LIMIT n]`.
struct Query<'a> {
    keys: Args<'a>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// 0 is no limit.
    limit: usize,
}

impl<'a> Query<'a> {
    fn parse(
        ctx: &mut Context<'_>,
        args: Args<'a>,
        first: usize,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<Self, ClientError> {
        let count = args.integer(first)?;
        if count < 1 {
            return Err(ClientError::formatted(format!(
                "ERR at least 1 input key is needed for '{}' command",
                ctx.command.name
            )));
        }
        let count = unsigned_len(count);
        if count > args.len() - first - 1 {
            return Err(ClientError::Syntax);
        }
        let mut query = Query {
            keys: args.from(first + 1).first(count),
            weights: vec![1.0; count],
            aggregate: Aggregate::default(),
            with_scores: false,
            limit: 0,
        };
        // A wrong type of a key is reported before an invalid option.
        let is_wrong = |key| expect_members(ctx.db.read_for_write(key).map(|value| value.kind())).is_err();
        if let Some(wrong) = query.keys.keys().position(is_wrong) {
            // The keys up to it have been read: each is a hit or an announced miss.
            for key in query.keys.keys().take(wrong + 1) {
                ctx.db.probe(key);
            }
            return Err(ClientError::WrongType);
        }
        let mut at = first + 1 + count;
        while at < args.len() {
            at = query.option(args, at, operation, purpose)?;
        }
        Ok(query)
    }

    /// Parses the option at `at` and returns the index of the next one.
    fn option(
        &mut self,
        args: Args<'a>,
        at: usize,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<usize, ClientError> {
        let left = args.len() - at - 1;
        let weighs = operation != Operation::Difference && purpose != Purpose::Count;
        if weighs && args.is(at, "WEIGHTS") && left >= self.weights.len() {
            for (index, weight) in self.weights.iter_mut().enumerate() {
                *weight = args
                    .float(at + 1 + index)
                    .map_err(|_| ClientError::text("ERR weight value is not a float"))?;
            }
            return Ok(at + 1 + self.weights.len());
        }
        if weighs && args.is(at, "AGGREGATE") && left >= 1 {
            self.aggregate = match (args.is(at + 1, "SUM"), args.is(at + 1, "MIN"), args.is(at + 1, "MAX")) {
                (true, ..) => Aggregate::Sum,
                (_, true, _) => Aggregate::Min,
                (.., true) => Aggregate::Max,
                _ => return Err(ClientError::Syntax),
            };
            return Ok(at + 2);
        }
        if purpose == Purpose::Answer && args.is(at, "WITHSCORES") {
            self.with_scores = true;
            return Ok(at + 1);
        }
        if purpose == Purpose::Count && args.is(at, "LIMIT") && left >= 1 {
            let negative = ClientError::text("ERR LIMIT can't be negative");
            self.limit = args.count_in(at + 1, 0, usize::MAX, negative)?;
            return Ok(at + 2);
        }
        Err(ClientError::Syntax)
    }
}

/// The use of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Answer,
    Store,
    Count,
}

fn expect_members(kind: Option<Kind>) -> Result<(), ClientError> {
    match kind {
        None | Some(Kind::Set | Kind::SortedSet) => Ok(()),
        Some(_) => Err(ClientError::WrongType),
    }
}

fn sources<'a>(db: &'a mut Db, keys: Args<'_>) -> Result<Vec<Source<'a>>, ClientError> {
    let mut kinds = Vec::with_capacity(keys.len());
    for key in keys.keys() {
        // The access was recorded when the query was parsed.
        let kind = db.probe(key).map(|value| value.kind());
        expect_members(kind)?;
        kinds.push(kind);
    }
    let db = &*db;
    Ok(keys
        .keys()
        .zip(kinds)
        .map(|(key, kind)| match kind {
            Some(Kind::SortedSet) => {
                db.stored_collection::<SortedSet>(key).map_or(Source::Absent, Source::Sorted)
            }
            Some(_) => db.stored_collection::<Set>(key).map_or(Source::Absent, Source::Plain),
            None => Source::Absent,
        })
        .collect())
}

/// The smallest first: this needs the fewest look-ups, and determines the order in which sums are rounded.
fn by_size(sources: &[Source<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|&index| sources[index].len());
    order
}

/// Calls `emit` for each member of the intersection until it returns `false`. Infinity times a weight of 0 is 0 in the first
/// source only: in the others it makes the sum 0. In a union it is 0 in each source. This is the same in the reference.
fn intersect<'a>(
    query: &Query<'_>,
    sources: &[Source<'a>],
    emit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
) {
    let order = by_size(sources);
    let Some((&smallest, others)) = order.split_first() else { return };
    let first = sources[smallest];
    first.for_each(&mut |member, score| {
        let mut sum = number_or_zero(score * query.weights[smallest]);
        for &index in others {
            let other = &sources[index];
            let there = if other.is_same(&first) { Some(score) } else { other.score_of(&member) };
            let Some(score) = there else { return true };
            sum = query.aggregate.combine(sum, score * query.weights[index]);
        }
        emit(member, sum)
    });
}

/// The maximum number of distinct members of these sources, which can contain duplicates.
fn distinct_members_max<'s, 'a: 's>(sources: impl Iterator<Item = &'s Source<'a>>) -> usize {
    let mut lens: Vec<(*const (), usize)> = sources.map(|source| (source.address(), source.len())).collect();
    lens.sort_unstable();
    lens.dedup();
    lens.into_iter().map(|(_, len)| len).sum()
}

/// Calls `emit` for each member of the union, in no order. Members of the smaller sources are collected in a table; those
/// of the largest are only looked up there.
fn unite<'a>(
    query: &Query<'_>,
    sources: &[Source<'a>],
    seed: HashSeed,
    emit: &mut dyn FnMut(StringValue<'a>, f64) -> bool,
) {
    let order = by_size(sources);
    let Some((&largest, _)) = order.split_last() else { return };
    // The members of a repeated key are visited once, for all its weights.
    let (copies, others): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|&index| sources[index].is_same(&sources[largest]) || index == largest);
    let capacity = distinct_members_max(others.iter().map(|&index| &sources[index]));
    let mut table: IndexMap<HashedValue<'a>, f64, KeptHash> =
        IndexMap::with_capacity_and_hasher(capacity, KeptHash::default());
    for index in others {
        let weight = query.weights[index];
        sources[index].for_each(&mut |member, score| {
            let weighed = number_or_zero(score * weight);
            table
                .entry(HashedValue::new(member, seed))
                .and_modify(|sum| *sum = query.aggregate.combine(*sum, weighed))
                .or_insert(weighed);
            true
        });
    }
    let mut goes_on = true;
    sources[largest].for_each(&mut |member, score| {
        let weighed = copies.iter().map(|&index| number_or_zero(score * query.weights[index]));
        let in_table = if table.is_empty() { None } else { table.get_mut(&HashedValue::new(member, seed)) };
        let sum = |a, b| query.aggregate.combine(a, b);
        match in_table {
            Some(total) => *total = weighed.fold(*total, sum),
            None => goes_on = weighed.reduce(sum).is_none_or(|total| emit(member, total)),
        }
        goes_on
    });
    if goes_on {
        table.iter().all(|(hashed, score)| emit(hashed.value, *score));
    }
}

/// Calls `emit` for each member of the first source that is in no other, in no order. Either looks up each member of the
/// first in the others, or removes the members of the others from a table of the first.
fn subtract<'a>(sources: &[Source<'a>], seed: HashSeed, emit: &mut dyn FnMut(StringValue<'a>, f64)) {
    let Some((first, others)) = sources.split_first() else { return };
    if others.iter().any(|other| first.is_same(other)) {
        return;
    }
    if is_difference_asked(first.len(), others.iter().map(Source::len)) {
        first.for_each(&mut |member, score| {
            if !others.iter().any(|other| other.score_of(&member).is_some()) {
                emit(member, score);
            }
            true
        });
        return;
    }
    let mut left: IndexMap<HashedValue<'a>, f64, KeptHash> =
        IndexMap::with_capacity_and_hasher(first.len(), KeptHash::default());
    first.for_each(&mut |member, score| {
        left.insert(HashedValue::new(member, seed), score);
        true
    });
    for other in others {
        other.for_each(&mut |member, _| {
            left.swap_remove(&HashedValue::new(member, seed));
            !left.is_empty()
        });
        if left.is_empty() {
            return;
        }
    }
    left.iter().for_each(|(hashed, score)| emit(hashed.value, *score));
}

/// The members of the result, in the order of a sorted set.
fn combine<'a>(
    query: &Query<'_>,
    sources: &[Source<'a>],
    operation: Operation,
    seed: HashSeed,
) -> Vec<Scored<'a>> {
    let mut result = Vec::new();
    let mut add = |member: StringValue<'a>, score: f64| {
        result.push((member, score));
        true
    };
    match operation {
        Operation::Intersection => intersect(query, sources, &mut add),
        Operation::Union => unite(query, sources, seed, &mut add),
        Operation::Difference => subtract(sources, seed, &mut |member, score| {
            add(member, score);
        }),
    }
    ordered::sort(&mut result);
    result
}

fn run(ctx: &mut Context<'_>, args: Args<'_>, operation: Operation, event: Option<&'static str>) -> Outcome {
    let (first, purpose) = if event.is_some() { (2, Purpose::Store) } else { (1, Purpose::Answer) };
    let query = Query::parse(ctx, args, first, operation, purpose)?;
    let (seed, mut making) = (ctx.db.key_seed().seed(), ctx.db.making(args.at(1)));
    let result = combine(&query, &sources(ctx.db, query.keys)?, operation, seed);
    let Some(event) = event else {
        let flat = query.with_scores && !super::nests_pairs(ctx.reply);
        ctx.reply.array(result.len() * if flat { 2 } else { 1 });
        for (member, score) in result {
            answer_member(ctx.reply, member, query.with_scores.then_some(score));
        }
        return Ok(());
    };
    let result = SortedSet::of_ordered(&result, &making.context()).map_err(full)?;
    let len = result.len();
    let target = args.key(1);
    if ctx.db.store_collection(target, result) {
        ctx.db.changed(EventClasses::ZSET, event, target);
    }
    ctx.reply.count(len);
    Ok(())
}

pub(super) fn zunion(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, Operation::Union, None)
}

pub(super) fn zinter(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, Operation::Intersection, None)
}

pub(super) fn zdiff(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, Operation::Difference, None)
}

pub(super) fn zunionstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, Operation::Union, Some("zunionstore"))
}

pub(super) fn zinterstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, Operation::Intersection, Some("zinterstore"))
}

pub(super) fn zdiffstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, Operation::Difference, Some("zdiffstore"))
}

pub(super) fn zintercard(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let query = Query::parse(ctx, args, 1, Operation::Intersection, Purpose::Count)?;
    let mut count = 0;
    let sources = sources(ctx.db, query.keys)?;
    intersect(&query, &sources, &mut |_, _| {
        count += 1;
        query.limit == 0 || count < query.limit
    });
    ctx.reply.count(count);
    Ok(())
}
