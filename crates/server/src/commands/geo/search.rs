//! Searching an area: the cells that cover it are ranges of scores, and each is walked once.

use super::area::Area;
use super::geohash::Position;
use super::query::{Order, Query, Stored, Variant};
use crate::command::{Args, Context, Outcome};
use crate::commands::sorted_sets;
use crate::db::EventClasses;
use crate::db::collection::{Collection, CollectionContext};
use crate::db::sorted_set::{ScoreBound, SortedSet};
use crate::error::ClientError;
use std::ops::Range;
use wire::reply::ReplyBuffer;

/// A place within the area.
struct Match {
    position: Position,
    distance_m: f64,
    score: f64,
    /// Where its member is in [`Matches::members`].
    member: Range<usize>,
}

/// The places found. Their members are copied one behind another, for the set's own pages decode on the fly.
#[derive(Default)]
struct Matches {
    places: Vec<Match>,
    members: Vec<u8>,
}

impl Matches {
    /// Looks at each place of the cells that cover the area, until `limit` are found.
    fn find(set: &SortedSet, area: &Area, limit: usize) -> Matches {
        let mut found = Matches::default();
        for cell in area.cells() {
            let (first, end) = cell.scores();
            let ranks = set.score_range(ScoreBound::Inclusive(first), ScoreBound::Exclusive(end));
            set.for_range(ranks, false, &mut |member, score| {
                let position = Position::of_score(score);
                if let Some(distance_m) = area.distance_within_m(position) {
                    let start = found.members.len();
                    member.with_bytes(|bytes| found.members.extend_from_slice(bytes));
                    let member = start..found.members.len();
                    found.places.push(Match { position, distance_m, score, member });
                }
                found.places.len() < limit
            });
            if found.places.len() >= limit {
                break;
            }
        }
        found
    }

    /// Puts the first `count` in order and drops the rest. Equal distances stay in the order they were found in.
    fn arrange(&mut self, order: Option<Order>, count: usize) {
        if let Some(order) = order {
            let compare = |a: &Match, b: &Match| {
                let by_distance = match order {
                    Order::NearestFirst => a.distance_m.total_cmp(&b.distance_m),
                    Order::FarthestFirst => b.distance_m.total_cmp(&a.distance_m),
                };
                by_distance.then(a.member.start.cmp(&b.member.start))
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
            reply.bulk(&self.members[place.member.clone()]);
            if query.with_distance {
                answer_distance(reply, place.distance_m / query.unit_m);
            }
            if query.with_score {
                reply.integer(place.score as i64);
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
        let mut set = SortedSet::new(context.limits, context.seed);
        for place in &self.places {
            let score = match stored {
                Stored::Position => place.score,
                Stored::Distance => place.distance_m / unit_m,
            };
            set.insert(&self.members[place.member.clone()], score, context).map_err(sorted_sets::full)?;
        }
        Ok(set)
    }
}

/// A distance to four digits behind the point.
pub fn answer_distance(reply: &mut ReplyBuffer, distance: f64) {
    let parts = (distance * 10_000.0).round_ties_even() as u64;
    let (whole, fraction) = (parts / 10_000, parts % 10_000);
    reply.bulk(format!("{whole}.{fraction:04}").as_bytes());
}

/// A longitude and a latitude.
pub fn answer_position(reply: &mut ReplyBuffer, position: Position) {
    reply.array(2);
    reply.coordinate(position.longitude);
    reply.coordinate(position.latitude);
}

pub fn search(ctx: &mut Context<'_>, args: Args<'_>, variant: Variant) -> Outcome {
    let source = args.at(variant.source_at());
    let set = ctx.db.read_collection::<SortedSet>(source)?;
    let mut query = Query::parse(args, variant, set)?;
    let mut found = Matches::default();
    if let (Some(set), Some(area)) = (set, query.area()) {
        let count = query.count_max.unwrap_or(usize::MAX);
        found = Matches::find(set, &area, if query.any { count } else { usize::MAX });
        // The first so many of no order would be no answer to anything, unless any will do.
        let order = query.order.or((query.count_max.is_some() && !query.any).then_some(Order::NearestFirst));
        found.arrange(order, count);
    }
    match query.target {
        None => {
            found.answer(&query, ctx.reply);
            Ok(())
        }
        Some((target, stored)) => store(ctx, &found, target, stored, &query, variant),
    }
}

fn store(
    ctx: &mut Context<'_>,
    found: &Matches,
    target: &[u8],
    stored: Stored,
    query: &Query<'_>,
    variant: Variant,
) -> Outcome {
    let set = ctx.db.build(|context| found.to_set(stored, query.unit_m, &context))?;
    let count = set.len();
    if ctx.db.store_collection(target, set) {
        let event = if variant == Variant::SearchStore { "geosearchstore" } else { "georadiusstore" };
        ctx.db.changed_many(EventClasses::ZSET, event, target, count as u64);
    }
    ctx.reply.integer(count as i64);
    Ok(())
}

pub fn georadius(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::Radius { may_store: true })
}

pub fn georadius_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::Radius { may_store: false })
}

pub fn georadiusbymember(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::RadiusByMember { may_store: true })
}

pub fn georadiusbymember_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::RadiusByMember { may_store: false })
}

pub fn geosearch(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::Search)
}

pub fn geosearchstore(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    search(ctx, args, Variant::SearchStore)
}
