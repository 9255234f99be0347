//! SORT: sorts the elements of a list, set or sorted set, by themselves or by other keys that they refer to.

mod pattern;

use super::scan::pattern_slot;
use crate::acl::Call;
use crate::command::flag::{DENY_OOM, READONLY, WRITE};
use crate::command::{Access, Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::collection::Collection;
use crate::db::list::{End, List};
use crate::db::set::Set;
use crate::db::sorted_set::SortedSet;
use crate::db::{Db, EventClasses, Key, Kind, StringValue};
use crate::error::ClientError;
use pattern::Pattern;
use std::cmp::Ordering;
use std::ops::Range;
use wire::aof::Part;

/// Keys that depend on the sorted elements.
const LED_TO: KeySpec =
    KeySpec::unknown(access::RO | access::ACCESS, "what `BY` and `GET` lead to depends on the elements");
const STORED: KeySpec =
    KeySpec::unknown(access::OW | access::UPDATE, "`STORE` may stand anywhere behind the first key");
const CATEGORIES: &[&str] = &["set", "sortedset", "list", "dangerous"];
const COMPLEXITY: &str =
    "O(N+M*log(M)) where N is the number of elements and M the number of those that are answered";

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("sort", -2, Group::Generic, sort)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS), LED_TO, STORED])
        .finds_keys(find_keys)
        .categories(CATEGORIES)
        .outside_category()
        .since("1.0.0", COMPLEXITY)
        .doc(
            "Sorts the elements of a list, set or sorted set, and returns or stores them.",
            "key [BY by-pattern(pattern):pattern#1] [LIMIT <limit: offset count>] [GET... \
                get-pattern(pattern):pattern#1] [order: ASC | DESC] [sorting=ALPHA] [STORE destination#2]",
        ),
    Command::new("sort_ro", -2, Group::Generic, sort_ro)
        .flags(READONLY)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS), LED_TO])
        .finds_keys(|_| vec![(1, access::RO | access::ACCESS)])
        .categories(CATEGORIES)
        .outside_category()
        .since("7.0.0", COMPLEXITY)
        .doc(
            "Sorts the elements of a list, set or sorted set and returns them.",
            "key [BY by-pattern(pattern):pattern#1] [LIMIT <limit: offset count>] [GET... \
                get-pattern(pattern):pattern#1] [order: ASC | DESC] [sorting=ALPHA]",
        ),
];

/// The sorted key, and the one after the last STORE, which overrides earlier ones.
fn find_keys(args: Args<'_>) -> Vec<(usize, Access)> {
    let mut found = vec![(1, access::RO | access::ACCESS)];
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "STORE") && at + 1 < args.len() {
            found.truncate(1);
            found.push((at + 1, access::OW | access::UPDATE));
        }
        at += match () {
            () if args.is(at, "LIMIT") => 3,
            // The following argument is not an option, even if it is spelled like one.
            () if args.is(at, "GET") || args.is(at, "BY") || args.is(at, "STORE") => 2,
            () => 1,
        };
    }
    found
}

fn sort(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, true, may_read_any_key(ctx, args), slot_of_patterns(ctx, args))?;
    sort_with(ctx, args.key(1), options)
}

fn sort_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, false, may_read_any_key(ctx, args), slot_of_patterns(ctx, args))?;
    sort_with(ctx, args.key(1), options)
}

/// Whether the client's user has permission to run this with any key, and to read it: BY and GET can refer to any key.
fn may_read_any_key(ctx: &Context<'_>, args: Args<'_>) -> bool {
    let (server, user) = (&ctx.server, ctx.server.clients[ctx.client].user());
    server.users.permits_all(user)
        || server.registry.find(args).is_ok_and(|id| {
            let (db_index, database_count) = (ctx.db.selected(), ctx.db.database_count());
            let call = Call { id, row: ctx.command, args, db_index, database_count };
            server.users.permits_any_key(user, &call, access::ACCESS)
        })
}

/// The slot in which all keys that BY and GET lead to must be: that of the sorted key, in a cluster.
fn slot_of_patterns(ctx: &Context<'_>, args: Args<'_>) -> Option<u16> {
    ctx.server.cluster.is_some().then(|| args.key(1).slot())
}

/// Refuses a pattern that may lead to keys of other slots.
fn check_slot(slot: Option<u16>, pattern: &[u8], option: &str) -> Result<(), ClientError> {
    match slot {
        Some(slot) if pattern_slot(pattern) != Some(slot) => Err(ClientError::formatted(format!(
            "ERR {option} option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."
        ))),
        _ => Ok(()),
    }
}

#[cold]
fn denied_option(option: &str) -> ClientError {
    ClientError::formatted(format!("ERR {option} option of SORT denied due to insufficient ACL permissions."))
}

#[derive(Default)]
struct Options<'a> {
    descending: bool,
    alphabetical: bool,
    /// Offset and count.
    limit: Option<(i64, i64)>,
    by: Option<Pattern<'a>>,
    get: Vec<Pattern<'a>>,
    store: Option<Key<'a>>,
}

impl<'a> Options<'a> {
    /// `may_read_any_key` and `slot`: BY and GET depend on them, as elements determine the keys.
    fn parse(
        args: Args<'a>,
        may_store: bool,
        may_read_any_key: bool,
        slot: Option<u16>,
    ) -> Result<Self, ClientError> {
        let mut options = Options::default();
        let mut at = 2;
        while at < args.len() {
            let following = args.len() - at - 1;
            if args.is(at, "ASC") {
                options.descending = false;
            } else if args.is(at, "DESC") {
                options.descending = true;
            } else if args.is(at, "ALPHA") {
                options.alphabetical = true;
            } else if args.is(at, "LIMIT") && following >= 2 {
                options.limit = Some((args.integer(at + 1)?, args.integer(at + 2)?));
                at += 2;
            } else if may_store && args.is(at, "STORE") && following >= 1 {
                options.store = Some(args.key(at + 1));
                at += 1;
            } else if args.is(at, "BY") && following >= 1 {
                if args[at + 1].contains(&b'*') {
                    check_slot(slot, args.at(at + 1), "BY")?;
                }
                if !may_read_any_key && args[at + 1].contains(&b'*') {
                    return Err(denied_option("BY"));
                }
                options.by = Some(Pattern::new(args.at(at + 1)));
                at += 1;
            } else if args.is(at, "GET") && following >= 1 {
                if args.at(at + 1) != b"#" {
                    check_slot(slot, args.at(at + 1), "GET")?;
                }
                if !may_read_any_key {
                    return Err(denied_option("GET"));
                }
                options.get.push(Pattern::new(args.at(at + 1)));
                at += 1;
            } else {
                return Err(ClientError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }

    /// Whether elements keep their order: BY has a pattern that refers to no key.
    fn keeps_order(&self) -> bool {
        self.by.as_ref().is_some_and(Pattern::is_constant)
    }

    /// The range of `len` sorted elements that LIMIT selects.
    fn range(&self, len: usize) -> Range<usize> {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(offset.max(0)).unwrap_or(usize::MAX).min(len);
        // A negative count is no limit.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

/// The sort key of an element.
enum Weight {
    Score(f64),
    /// A range of the arena.
    Text(Range<usize>),
    /// The element refers to no value.
    Missing,
}

struct Item {
    /// A range of the arena.
    element: Range<usize>,
    weight: Weight,
}

/// The elements while the reply is prepared, all their bytes in one buffer.
#[derive(Default)]
struct Sorting {
    arena: Vec<u8>,
    items: Vec<Item>,
}

impl Sorting {
    fn keep(&mut self, text: StringValue<'_>) -> Range<usize> {
        let start = self.arena.len();
        text.with_bytes(|bytes| self.arena.extend_from_slice(bytes));
        start..self.arena.len()
    }

    fn push(&mut self, text: StringValue<'_>) {
        let element = self.keep(text);
        self.items.push(Item { element, weight: Weight::Score(0.0) });
    }

    fn element(&self, index: usize) -> &[u8] {
        &self.arena[self.items[index].element.clone()]
    }
}

fn sort_with(ctx: &mut Context<'_>, key: Key<'_>, mut options: Options<'_>) -> Outcome {
    let kind = ctx.db.read(key).map(|value| value.kind());
    let mut sorts = !options.keeps_order();
    if !sorts && kind == Some(Kind::Set) && (options.store.is_some() || ctx.origin.in_script) {
        // A set has no order that could be stored, or that a script could rely on.
        (sorts, options.by, options.alphabetical) = (true, None, true);
    }
    let mut sorting = Sorting::default();
    if sorts {
        load(ctx, key, kind, &|len| 0..len, &mut sorting)?;
        weigh(ctx, &mut sorting, &options)?;
        let range = options.range(sorting.items.len());
        order(&mut sorting, &options, range.end);
        sorting.items.drain(..range.start);
        sorting.items.truncate(range.len());
    } else {
        let backwards = options.descending && kind != Some(Kind::Set);
        let wanted = |len| {
            let range = options.range(len);
            if backwards { len - range.end..len - range.start } else { range }
        };
        load(ctx, key, kind, &wanted, &mut sorting)?;
        if backwards {
            sorting.items.reverse();
        }
    }
    match options.store {
        Some(destination) => store(ctx, &sorting, &options, destination),
        None => {
            answer(ctx, &sorting, &options);
            Ok(())
        }
    }
}

/// Loads the elements of a key in their order there; of all `len` only those in the range that `wanted` returns.
fn load(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    kind: Option<Kind>,
    wanted: &dyn Fn(usize) -> Range<usize>,
    sorting: &mut Sorting,
) -> Result<(), ClientError> {
    match kind {
        None => {}
        Some(Kind::List) => {
            if let Some(list) = ctx.db.read_collection_for_write::<List>(key)? {
                let range = wanted(list.len());
                list.for_each(range.start, range.len(), &mut |element| sorting.push(element));
            }
        }
        Some(Kind::Set) => {
            if let Some(set) = ctx.db.read_collection_for_write::<Set>(key)? {
                let (range, mut index) = (wanted(set.len()), 0);
                set.any(&mut |member| {
                    if range.contains(&index) {
                        sorting.push(member);
                    }
                    index += 1;
                    index >= range.end
                });
            }
        }
        Some(Kind::SortedSet) => {
            if let Some(set) = ctx.db.read_collection_for_write::<SortedSet>(key)? {
                set.for_range(wanted(set.len()), false, &mut |member, _| {
                    sorting.push(member);
                    true
                });
            }
        }
        Some(Kind::String | Kind::Hash | Kind::Stream) => return Err(ClientError::WrongType),
    }
    Ok(())
}

/// The number in a text up to a NUL.
fn score(text: &[u8]) -> Option<Weight> {
    wire::number::parse_f64(text.split(|&byte| byte == 0).next()?).map(Weight::Score)
}

/// Determines the sort key of each element.
fn weigh(ctx: &mut Context<'_>, sorting: &mut Sorting, options: &Options<'_>) -> Result<(), ClientError> {
    if options.alphabetical && options.by.is_none() {
        return Ok(());
    }
    let mut all_numbers = true;
    for index in 0..sorting.items.len() {
        let weight = match &options.by {
            None => score(sorting.element(index)),
            Some(by) => {
                let element = sorting.arena[sorting.items[index].element.clone()].to_vec();
                by.follow(ctx.db, &element, |found| match found {
                    None if options.alphabetical => Some(Weight::Missing),
                    None => Some(Weight::Score(0.0)),
                    Some(text) if options.alphabetical => Some(Weight::Text(sorting.keep(text))),
                    Some(text) => text.with_bytes(score),
                })
            }
        };
        match weight {
            Some(weight) => sorting.items[index].weight = weight,
            None => all_numbers = false,
        }
    }
    if all_numbers {
        return Ok(());
    }
    Err(ClientError::text("ERR One or more scores can't be converted into double"))
}

/// Sorts the first `wanted` elements.
fn order(sorting: &mut Sorting, options: &Options<'_>, wanted: usize) {
    let Sorting { arena, items } = sorting;
    let text = |range: &Range<usize>| &arena[range.clone()];
    let by_weight = !options.alphabetical || options.by.is_some();
    let compare = |a: &Item, b: &Item| {
        let elements = || text(&a.element).cmp(text(&b.element));
        let ordering = match (&a.weight, &b.weight) {
            _ if !by_weight => elements(),
            (Weight::Score(a), Weight::Score(b)) => {
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(elements)
            }
            (Weight::Text(a), Weight::Text(b)) => text(a).cmp(text(b)),
            (Weight::Missing, Weight::Missing) => Ordering::Equal,
            (Weight::Missing, _) => Ordering::Less,
            (_, Weight::Missing) => Ordering::Greater,
            (Weight::Score(_), Weight::Text(_)) | (Weight::Text(_), Weight::Score(_)) => {
                unreachable!("all weights have the same type")
            }
        };
        let ordering = if options.descending { ordering.reverse() } else { ordering };
        // Equal elements keep the order in which they were loaded, also if only some of them are wanted.
        ordering.then_with(|| (a.element.start, a.element.end).cmp(&(b.element.start, b.element.end)))
    };
    if wanted > 0 && wanted < items.len() {
        items.select_nth_unstable_by(wanted - 1, compare);
        items.truncate(wanted);
    }
    items.sort_by(compare);
}

fn answer(ctx: &mut Context<'_>, sorting: &Sorting, options: &Options<'_>) {
    ctx.reply.array(sorting.items.len() * options.get.len().max(1));
    for index in 0..sorting.items.len() {
        let element = sorting.element(index);
        if options.get.is_empty() {
            ctx.reply.bulk(element);
        }
        let reply = &mut *ctx.reply;
        for get in &options.get {
            get.follow(ctx.db, element, |found| match found {
                Some(text) => text.reply(reply),
                None => reply.null(),
            });
        }
    }
}

fn store(ctx: &mut Context<'_>, sorting: &Sorting, options: &Options<'_>, destination: Key<'_>) -> Outcome {
    let limits = ctx.db.policies.of_key(destination.bytes()).limits.clone();
    let mut list = List::new(&limits, ctx.db.key_seed().seed());
    let mut push = |element: &[u8]| -> Outcome {
        check_element_bytes(element.len())?;
        list.push(End::Right, element, &limits);
        Ok(())
    };
    for index in 0..sorting.items.len() {
        let element = sorting.element(index);
        if options.get.is_empty() {
            push(element)?;
        }
        for get in &options.get {
            get.follow(ctx.db, element, |found| match found {
                Some(text) => text.with_bytes(&mut push),
                None => push(b""),
            })?;
        }
    }
    list.completed(1, &limits);
    let len = list.len();
    propagate_stored(ctx.db, &list, destination);
    if ctx.db.store_collection(destination, list) {
        ctx.db.changed_many(EventClasses::LIST, "sortstore", destination, len as u64);
    }
    ctx.reply.count(len);
    Ok(())
}

/// Lists store lengths in 32 bits, and clients cannot send longer elements. A string that a pattern refers to can be
/// longer.
fn check_element_bytes(bytes: usize) -> Result<(), ClientError> {
    match bytes <= wire::request::REQUEST_LEN_MAX - REQUEST_REST_BYTES {
        true => Ok(()),
        false => Err(ClientError::text("ERR a string of 4 GiB or more cannot be stored in a list")),
    }
}

/// The minimum size of a request that pushes an element to a list, without the element.
const REQUEST_REST_BYTES: usize = b"*3\r\n$5\r\nRPUSH\r\n$0\r\n\r\n$4294967295\r\n\r\n".len();

/// The maximum number of short elements in one propagated command.
const PROPAGATED_ELEMENTS_MAX: usize = 1024;

/// Propagates the stored elements: the order of equal elements depends on the encoding of
/// their set, and fields that patterns refer to can expire.
fn propagate_stored(db: &mut Db, list: &List, destination: Key<'_>) {
    if !db.change_log.is_recording() {
        return;
    }
    db.propagate_as(&[b"DEL", destination.bytes()]);
    let (mut elements, mut part) = (Vec::new(), Part::new(PROPAGATED_ELEMENTS_MAX));
    let mut push = |elements: &mut Vec<Vec<u8>>| {
        db.propagate_as_list(&[b"RPUSH", destination.bytes()], elements.iter().map(Vec::as_slice));
        elements.clear();
    };
    list.for_each(0, list.len(), &mut |element| {
        let element = element.to_vec();
        if part.add(element.len()) {
            push(&mut elements);
        }
        elements.push(element);
    });
    if !elements.is_empty() {
        push(&mut elements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_cannot_hold_is_refused() {
        for bytes in [0, 1 << 31, (1 << 32) - 100] {
            assert!(check_element_bytes(bytes).is_ok(), "{bytes}");
        }
        for bytes in [(1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 40] {
            assert!(check_element_bytes(bytes).is_err(), "{bytes}");
        }
    }
}
