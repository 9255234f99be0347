//! Geographic positions: members of a sorted set whose scores are positions ([`geohash`]).

mod area;
mod arguments;
mod geohash;
mod query;
mod search;

use super::sorted_sets::{self, AddOptions};
use crate::command::flag::{DENY_OOM, READONLY, WRITE};
use crate::command::key_spec::{Begin, Find};
use crate::command::{Access, Args, Command, Context, Group, KeySpec, Outcome, PrefetchHint, access};
use crate::db::sorted_set::SortedSet;
use crate::error::ClientError;
use geohash::Position;
use search::{answer_distance, answer_position};

const READ_KEY: KeySpec = KeySpec::one(1, access::RO | access::ACCESS);
const READS: &[KeySpec] = &[READ_KEY];

/// The key after a keyword at any index from `from` on.
const fn stored_after(word: &'static str, from: i32) -> KeySpec {
    KeySpec {
        access: access::OW | access::UPDATE | access::VARIABLE_FLAGS,
        begin: Begin::Keyword { word, from },
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: "",
    }
}

const RADIUS_COMPLEXITY: &str =
    "O(N+log(M)) where N is the number of members near the circle and M that of all members";
const SEARCH_COMPLEXITY: &str =
    "O(N+log(M)) where N is the number of members near the shape and M that of all members";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("geoadd", -5, Group::Geo, geoadd)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RW | access::UPDATE)])
        .since("3.2.0", "O(log(N)) for each place, where N is the number of members")
        .doc(
            "Adds or updates members with coordinates.",
            "key [condition@6.2.0: NX | XX] [change=CH@6.2.0] <data: longitude latitude member> ...",
        )
        .history(&[("6.2.0", "`CH`, `NX` and `XX`.")]),
    Command::new("geodist", -4, Group::Geo, geodist)
        .flags(READONLY)
        .keys(READS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("3.2.0", "O(1)")
        .doc("Returns the distance between two members.", "key member1 member2 [unit: M | KM | FT | MI]"),
    Command::new("geohash", -2, Group::Geo, geohash)
        .flags(READONLY)
        .keys(READS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("3.2.0", "O(1) for each member")
        .doc("Returns the geohashes of members.", "key [member ...]"),
    Command::new("geopos", -2, Group::Geo, geopos)
        .flags(READONLY)
        .keys(READS)
        .prefetch_hint(PrefetchHint::Element(2))
        .since("3.2.0", "O(1) for each member")
        .doc("Returns the coordinates of members.", "key [member ...]"),
    Command::new("georadius", -6, Group::Geo, search::georadius)
        .flags(WRITE | DENY_OOM)
        .keys(&[READ_KEY, stored_after("STORE", 6), stored_after("STOREDIST", 6)])
        .finds_keys(find_keys)
        .since("3.2.0", RADIUS_COMPLEXITY)
        .doc(
            "Returns or stores the members within a circle.",
            "key longitude latitude radius <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
                [count-block: COUNT count [ANY@6.2.0]] [order: ASC | DESC] [store: STORE storekey(key):key | \
                STOREDIST storedistkey(key):key]",
        )
        .history(&[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Units in upper case.")]),
    Command::new("georadius_ro", -6, Group::Geo, search::georadius_ro)
        .flags(READONLY)
        .keys(READS)
        .since("3.2.10", RADIUS_COMPLEXITY)
        .doc(
            "Returns the members within a circle.",
            "key longitude latitude radius <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
                [count-block: COUNT count [ANY@6.2.0]] [order: ASC | DESC]",
        )
        .history(&[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Units in upper case.")]),
    Command::new("georadiusbymember", -5, Group::Geo, search::georadiusbymember)
        .flags(WRITE | DENY_OOM)
        .keys(&[READ_KEY, stored_after("STORE", 5), stored_after("STOREDIST", 5)])
        .finds_keys(find_keys)
        .since("3.2.0", RADIUS_COMPLEXITY)
        .doc(
            "Returns or stores the members within a circle around a member.",
            "key member radius <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: \
                COUNT count [ANY]] [order: ASC | DESC] [store: STORE storekey(key):key | STOREDIST \
                storedistkey(key):key]",
        )
        .history(&[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Units in upper case.")]),
    Command::new("georadiusbymember_ro", -5, Group::Geo, search::georadiusbymember_ro)
        .flags(READONLY)
        .keys(READS)
        .since("3.2.10", RADIUS_COMPLEXITY)
        .doc(
            "Returns the members within a circle around a member.",
            "key member radius <unit: M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count-block: \
                COUNT count [ANY]] [order: ASC | DESC]",
        )
        .history(&[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Units in upper case.")]),
    Command::new("geosearch", -7, Group::Geo, search::geosearch)
        .flags(READONLY)
        .keys(READS)
        .since("6.2.0", SEARCH_COMPLEXITY)
        .doc(
            "Returns the members within a circle, a rectangle or a polygon.",
            "key [from: FROMMEMBER member | FROMLONLAT <fromlonlat: longitude latitude>] <by: <circle: \
                BYRADIUS radius <unit: M | KM | FT | MI>> | <box: BYBOX width height <unit: M | KM | FT | \
                MI>> | <polygon@9.0.0: BYPOLYGON num-vertices:integer <vertices: longitude latitude> ...>> \
                [order: ASC | DESC] [count-block: COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        )
        .history(&[("7.0.0", "Units in upper case."), ("9.0.0", "`BYPOLYGON`.")]),
    Command::new("geosearchstore", -8, Group::Geo, search::geosearchstore)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::OW | access::UPDATE), KeySpec::one(2, access::RO | access::ACCESS)])
        .since("6.2.0", SEARCH_COMPLEXITY)
        .doc(
            "Stores the members within a circle, a rectangle or a polygon.",
            "destination source [from: FROMMEMBER member | FROMLONLAT <fromlonlat: longitude latitude>] \
                <by: <circle: BYRADIUS radius <unit: M | KM | FT | MI>> | <box: BYBOX width height <unit: M \
                | KM | FT | MI>> | <polygon@9.0.0: BYPOLYGON num-vertices:integer <vertices: longitude \
                latitude> ...>> [order: ASC | DESC] [count-block: COUNT count [ANY]] [STOREDIST]",
        )
        .history(&[("7.0.0", "Units in upper case."), ("9.0.0", "`BYPOLYGON`.")]),
];

/// The sorted set, and the last target.
fn find_keys(args: Args<'_>) -> Vec<(usize, Access)> {
    let mut found = vec![(1, access::RO | access::ACCESS)];
    let mut at = 5;
    while at + 1 < args.len() {
        if args.is(at, "STORE") || args.is(at, "STOREDIST") {
            at += 1;
            found.truncate(1);
            found.push((at, access::OW | access::UPDATE));
        }
        at += 1;
    }
    found
}

fn geoadd(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut options = AddOptions::default();
    let mut first = 2;
    loop {
        match () {
            () if args.is(first, "NX") => options.only_new = true,
            () if args.is(first, "XX") => options.only_present = true,
            () if args.is(first, "CH") => options.count_changed = true,
            () => break,
        }
        first += 1;
    }
    let places = args.from(first);
    if places.is_empty() || !places.len().is_multiple_of(3) || options.only_new && options.only_present {
        return Err(ClientError::Syntax);
    }
    let members = (0..places.len()).step_by(3).map(|at| {
        let position = arguments::position(places, at)?;
        Ok((position.score(), places.at(at + 2)))
    });
    sorted_sets::add(ctx, args.key(1), options, members)
}

fn geodist(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let unit_m = match args.len() {
        4 => 1.0,
        5 => arguments::unit_m(args, 4)?,
        _ => return Err(ClientError::Syntax),
    };
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let mut places = [None; 2];
    if let Some(set) = set {
        let mut place = places.iter_mut();
        set.scores(&[args.at(2), args.at(3)], &mut |score| {
            *place.next().expect("one score for each member") = score.map(Position::of_score);
        });
    }
    match places {
        [Some(a), Some(b)] => answer_distance(ctx.reply, area::distance_m(a, b) / unit_m),
        _ => ctx.reply.null(),
    }
    Ok(())
}

fn geohash(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let reply = &mut *ctx.reply;
    reply.array(args.len() - 2);
    sorted_sets::for_each_score(set, args.from(2), &mut |score| match score {
        Some(score) => reply.bulk(&Position::of_score(score).text()),
        None => reply.null(),
    });
    Ok(())
}

fn geopos(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = ctx.db.read_collection::<SortedSet>(args.key(1))?;
    let reply = &mut *ctx.reply;
    reply.array(args.len() - 2);
    sorted_sets::for_each_score(set, args.from(2), &mut |score| match score {
        Some(score) => answer_position(reply, Position::of_score(score)),
        None => reply.null_array(),
    });
    Ok(())
}
