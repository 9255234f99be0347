//! Searches an area: the cells that cover it are ranges of scores, and each is scanned once.

use super::area::Area;
use super::geohash::Position;
use super::query::{Order, Query, Stored, Variant};
use crate::command::{Args, Context, Outcome};
use crate::commands::sorted_sets;
use crate::db::collection::CollectionContext;
use crate::db::sorted_set::ordered::{self, Scored};
use crate::db::sorted_set::{ScoreBound, SortedSet, SortedSetView};
use crate::db::{EventClasses, StringValue};
use crate::error::ClientError;
use structures::decimal;
use wire::convert::whole_i64;
use wire::reply::ReplyBuffer;

/// A position within the area.
struct Match<'a> {
    member: StringValue<'a>,
    position: Position,
    distance_m: f64,
    score: f64,
    /// The number of matches found before it.
    number: usize,
}

/// The matches.
#[derive(Default)]
struct Matches<'a> {
    places: Vec<Match<'a>>,
}

impl<'a> Matches<'a> {
    /// Checks each position in the cells that cover the area, until `limit` matches are found.
    fn find(set: SortedSetView<'a>, area: &Area, limit: usize) -> Self {
        let mut places = Vec::new();
        let ranges: Vec<(ScoreBound, ScoreBound)> = area
            .cells()
            .into_iter()
            .map(|cell| {
                let (first, end) = cell.scores();
                (ScoreBound::Inclusive(first), ScoreBound::Exclusive(end))
            })
            .collect();
        set.for_score_ranges(&ranges, &mut |member, score| {
            let position = Position::of_score(score);
            if let Some(distance_m) = area.distance_within_m(position) {
                places.push(Match { member, position, distance_m, score, number: places.len() });
            }
            places.len() < limit
        });
        Matches { places }
    }

    /// Sorts the first `count` matches and drops the rest. Equal distances keep the order in which they were found.
    fn arrange(&mut self, order: Option<Order>, count: usize) {
        if let Some(order) = order {
            let compare = |a: &Match<'_>, b: &Match<'_>| {
                let by_distance = match order {
                    Order::NearestFirst => a.distance_m.total_cmp(&b.distance_m),
                    Order::FarthestFirst => b.distance_m.total_cmp(&a.distance_m),
                };
                by_distance.then(a.number.cmp(&b.number))
            };
            if count < self.places.len() {
                self.places.select_nth_unstable_by(count, compare);
                self.places.truncate(count);
            }
            self.places.sort_unstable_by(compare);
        }
        self.places.truncate(count);
    }

    fn answer(&self, query: &Query<'_>, reply: &mut ReplyBuffer) {
        let extras = [query.with_distance, query.with_score, query.with_position];
        let extras = extras.iter().filter(|wanted| **wanted).count();
        reply.array(self.places.len());
        for place in &self.places {
            if extras > 0 {
                reply.array(1 + extras);
            }
            place.member.reply(reply);
            if query.with_distance {
                answer_distance(reply, place.distance_m / query.unit_m);
            }
            if query.with_score {
                reply.integer(whole_i64(place.score));
            }
            if query.with_position {
                answer_position(reply, place.position);
            }
        }
    }

    fn to_set(
        &self,
        stored: Stored,
        unit_m: f64,
        context: &CollectionContext<'_>,
    ) -> Result<SortedSet, ClientError> {
        let score = |place: &Match<'_>| match stored {
            Stored::Position => place.score,
            Stored::Distance => place.distance_m / unit_m,
        };
        let mut members: Vec<Scored<'_>> =
            self.places.iter().map(|place| (place.member, score(place))).collect();
        ordered::sort(&mut members);
        SortedSet::of_ordered(&members, context).map_err(sorted_sets::full)
    }
}

/// Writes a distance with four decimal places.
pub fn answer_distance(reply: &mut ReplyBuffer, distance: f64) {
    const BEHIND_POINT: usize = 4;
    let parts = whole_i64((distance * 10_000.0).round_ties_even());
    let mut buffer = [0; decimal::TEXT_BYTES_MAX];
    let digits = decimal::format(parts, &mut buffer);
    let mut text = [b'0'; decimal::TEXT_BYTES_MAX + 2];
    // Values below 1 need leading zeros.
    let len = digits.len().max(BEHIND_POINT + 1);
    text[len - digits.len()..len].copy_from_slice(digits);
    text.copy_within(len - BEHIND_POINT..len, len - BEHIND_POINT + 1);
    text[len - BEHIND_POINT] = b'.';
    reply.bulk(&text[..len + 1]);
}

/// Writes a longitude and a latitude.
pub fn answer_position(reply: &mut ReplyBuffer, position: Position) {
    reply.array(2);
    reply.coordinate(position.longitude);
    reply.coordinate(position.latitude);
}

/// Runs a search of the given form.
pub fn search(ctx: &mut Context<'_>, args: Args<'_>, variant: Variant) -> Outcome {
    let source = args.key(variant.source_at());
    let is_there = ctx.db.read_collection::<SortedSet>(source)?.is_some();
    let db = &*ctx.db;
    let set = if is_there { db.stored_collection::<SortedSet>(source) } else { None };
    let mut query = Query::parse(args, variant, set)?;
    let mut found = Matches::default();
    if let (Some(set), Some(area)) = (set, query.area()) {
        let count = query.count_max.unwrap_or(usize::MAX);
        found = Matches::find(set, &area, if query.any { count } else { usize::MAX });
        // COUNT without ANY implies an order: otherwise the selected matches would be arbitrary.
        let order = query.order.or((query.count_max.is_some() && !query.any).then_some(Order::NearestFirst));
        found.arrange(order, count);
    }
    let Some((target, stored)) = query.target else {
        found.answer(&query, ctx.reply);
        return Ok(());
    };
    let result = found.to_set(stored, query.unit_m, &db.making(target.bytes()).context())?;
    let count = result.len();
    if ctx.db.store_collection(target, result) {
        let event = if variant == Variant::SearchStore { "geosearchstore" } else { "georadiusstore" };
        ctx.db.changed_many(EventClasses::ZSET, event, target, count as u64);
    }
    ctx.reply.count(count);
    Ok(())
}

/// GEORADIUS.
pub fn georadius(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::Radius { may_store: true })
}

/// GEORADIUS_RO.
pub fn georadius_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::Radius { may_store: false })
}

/// GEORADIUSBYMEMBER.
pub fn georadiusbymember(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::RadiusByMember { may_store: true })
}

/// GEORADIUSBYMEMBER_RO.
pub fn georadiusbymember_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::RadiusByMember { may_store: false })
}

/// GEOSEARCH.
pub fn geosearch(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::Search)
}

/// GEOSEARCHSTORE.
pub fn geosearchstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::SearchStore)
}
