//! Streams: appending and trimming, reading and blocking, consumer groups.

mod appending;
mod claiming;
mod groups;
mod ids;
mod inspecting;
mod producing;
mod reading;
mod removing;

use crate::command::flag::{BLOCKING, DENY_OOM, FAST, LOADING, READONLY, STALE, WRITE};
use crate::command::key_spec::{Begin, Find};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::stream::{Direction, Stream, reply_entry};
use crate::error::{ClientError, quoted};
use wire::convert::unsigned_len;

const LOOKS: [KeySpec; 1] = [KeySpec::one(1, access::RO)];
const READS: [KeySpec; 1] = [KeySpec::one(1, access::RO | access::ACCESS)];
const UPDATES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::UPDATE)];
const DELETES: [KeySpec; 1] = [KeySpec::one(1, access::RW | access::DELETE)];
const GROUP_INSERTS: [KeySpec; 1] = [KeySpec::one(2, access::RW | access::INSERT)];
const GROUP_UPDATES: [KeySpec; 1] = [KeySpec::one(2, access::RW | access::UPDATE)];
const GROUP_DELETES: [KeySpec; 1] = [KeySpec::one(2, access::RW | access::DELETE)];
const INSPECTS: [KeySpec; 1] = [KeySpec::one(2, access::RO | access::ACCESS)];
const CHANGING: &[&str] = &["nondeterministic_output"];

/// The keys are the first half of the arguments after STREAMS.
const fn listed_streams(from: i32) -> KeySpec {
    KeySpec {
        access: access::RO | access::ACCESS,
        begin: Begin::Keyword { word: "STREAMS", from },
        find: Find::Range { last: -1, step: 1, limit: 2 },
        notes: "",
    }
}

const LISTED: [KeySpec; 1] = [listed_streams(1)];
const LISTED_AFTER_GROUP: [KeySpec; 1] = [listed_streams(4)];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("xack", -4, Group::Stream, claiming::xack)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .since("5.0.0", "O(1) for each id")
        .doc("Acknowledges entries, which are then no longer pending.", "key group id ..."),
    Command::new("xackdel", -6, Group::Stream, removing::xackdel)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::UPDATE | access::DELETE)])
        .since("8.2.0", "O(1) for each id and group")
        .doc(
            "Acknowledges entries and deletes them.",
            "key group [condition: KEEPREF | DELREF | ACKED] <ids: IDS numids id ...>",
        ),
    Command::new("xadd", -5, Group::Stream, appending::xadd)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES[0].noted("may remove entries too")])
        .since("5.0.0", "O(1), and O(N) for trimming where N is the number of entries removed")
        .doc(
            "Appends an entry.",
            "key [NOMKSTREAM@6.2.0] [condition@8.2.0: KEEPREF | DELREF | ACKED] [idmp@8.6.0: \
                <idmpauto-with-pid: IDMPAUTO pid(producer-id)> | <idmp-with-pid-iid: IDMP pid(producer-id) iid(idempotent-id)>] [trim: <strategy: MAXLEN | MINID@6.2.0> [operator: = | ~] threshold \
                [LIMIT count@6.2.0]] <id-selector: * | id> <data: field value> ...",
        )
        .history(&[
            ("6.2.0", "`NOMKSTREAM`, `MINID` and `LIMIT`."),
            ("7.0.0", "Ids of which the time alone is given."),
            ("8.2.0", "`KEEPREF`, `DELREF` and `ACKED`."),
            ("8.6.0", "`IDMP` and `IDMPAUTO`."),
        ])
        .tips(CHANGING),
    Command::new("xautoclaim", -6, Group::Stream, claiming::xautoclaim)
        .flags(WRITE | FAST)
        .keys(&DELETES)
        .since("6.2.0", "O(1) if COUNT is small")
        .doc(
            "Transfers entries that have been pending for a minimum time to a consumer.",
            "key group consumer min-idle-time start:string [COUNT count] [JUSTID]",
        )
        .history(&[("7.0.0", "Returns the ids of deleted entries.")])
        .tips(CHANGING),
    Command::new("xcfgset", -2, Group::Stream, producing::xcfgset)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .since("8.6.0", "O(1)")
        .doc(
            "Sets how long, and how many per producer, a stream remembers idempotent messages.",
            "key [IDMP-DURATION duration:integer] [IDMP-MAXSIZE maxsize:integer]",
        ),
    Command::new("xclaim", -6, Group::Stream, claiming::xclaim)
        .flags(WRITE | FAST)
        .keys(&UPDATES)
        .since("5.0.0", "O(log N) where N is the number of entries pending for the group")
        .doc(
            "Transfers pending entries to a consumer.",
            "key group consumer min-idle-time id ... [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT \
                count] [FORCE] [JUSTID] [LASTID lastid]",
        )
        .tips(CHANGING),
    Command::new("xdel", -3, Group::Stream, removing::xdel)
        .flags(WRITE | FAST)
        .keys(&DELETES)
        .since("5.0.0", "O(1) for each entry, whatever the length of the stream")
        .doc("Deletes entries and returns how many existed.", "key id ..."),
    Command::new("xdelex", -5, Group::Stream, removing::xdelex)
        .flags(WRITE | FAST)
        .keys(&DELETES)
        .since("8.2.0", "O(1) for each id and group")
        .doc(
            "Deletes entries and handles references of consumer groups to them.",
            "key [condition: KEEPREF | DELREF | ACKED] <ids: IDS numids id ...>",
        ),
    Command::new("xgroup", -2, Group::Stream, super::container)
        .since("5.0.0", "Depends on the subcommand")
        .doc("Manages consumer groups.", "")
        .subcommands(GROUP_COMMANDS),
    Command::new("xidmprecord", 5, Group::Stream, producing::xidmprecord)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&UPDATES)
        .since("8.6.2", "O(1)")
        .doc("Records the producer's message of an entry; for copies of streams.", "key pid iid stream-id"),
    Command::new("xinfo", -2, Group::Stream, super::container)
        .since("5.0.0", "Depends on the subcommand")
        .doc("Shows information about a stream.", "")
        .subcommands(INFO_COMMANDS),
    Command::new("xlen", 2, Group::Stream, xlen)
        .flags(READONLY | FAST)
        .keys(&LOOKS)
        .since("5.0.0", "O(1)")
        .doc("Returns the number of entries.", "key"),
    Command::new("xpending", -3, Group::Stream, claiming::xpending)
        .flags(READONLY)
        .keys(&READS)
        .since("5.0.0", "O(N) where N is the number of entries returned")
        .doc(
            "Returns the pending entries of a consumer group.",
            "key group [filters: [IDLE min-idle-time:integer@6.2.0] start:string end:string count \
                [consumer]]",
        )
        .history(&[("6.2.0", "`IDLE`, and exclusive bounds.")])
        .tips(CHANGING),
    Command::new("xrange", -4, Group::Stream, xrange)
        .flags(READONLY)
        .keys(&READS)
        .since("5.0.0", "O(N) where N is the number of entries returned")
        .doc("Returns the entries within a range of ids.", "key start:string end:string [COUNT count]")
        .history(&[("6.2.0", "Exclusive bounds.")]),
    Command::new("xread", -4, Group::Stream, reading::xread)
        .flags(BLOCKING | READONLY)
        .keys(&LISTED)
        .since("5.0.0", "O(N) where N is the number of entries returned")
        .doc(
            "Returns entries of streams above the given ids; blocks if requested.",
            "[COUNT count] [BLOCK milliseconds] STREAMS <streams: key ... id ...>",
        ),
    Command::new("xreadgroup", -7, Group::Stream, reading::xreadgroup)
        .flags(BLOCKING | WRITE)
        .keys(&LISTED_AFTER_GROUP)
        .finds_keys(reading::find_keys_after_group)
        .since("5.0.0", "O(M) for each stream where M is the number of entries returned")
        .doc(
            "Delivers entries to a consumer of a group; blocks if requested.",
            "GROUP <group-block: group consumer> [COUNT count] [BLOCK milliseconds] \
                [CLAIM min-idle-time:integer@8.4.0] [NOACK] STREAMS <streams: key ... id ...>",
        )
        .history(&[("8.4.0", "`CLAIM`.")]),
    Command::new("xrevrange", -4, Group::Stream, xrevrange)
        .flags(READONLY)
        .keys(&READS)
        .since("5.0.0", "O(N) where N is the number of entries returned")
        .doc(
            "Returns the entries within a range of ids in reverse order.",
            "key end:string start:string [COUNT count]",
        )
        .history(&[("6.2.0", "Exclusive bounds.")]),
    Command::new("xsetid", -3, Group::Stream, groups::xsetid)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&UPDATES)
        .since("5.0.0", "O(1)")
        .doc(
            "Sets the counters of a stream; for copies of streams.",
            "key last-id [ENTRIESADDED entries-added:integer@7.0.0] [MAXDELETEDID max-deleted-id@7.0.0]",
        )
        .history(&[("7.0.0", "`ENTRIESADDED` and `MAXDELETEDID`.")]),
    Command::new("xtrim", -4, Group::Stream, appending::xtrim)
        .flags(WRITE)
        .keys(&DELETES)
        .since("5.0.0", "O(N) where N is the number of entries removed")
        .doc(
            "Removes the oldest entries.",
            "key <trim: <strategy: MAXLEN | MINID@6.2.0> [operator: = | ~] threshold [LIMIT count@6.2.0] \
                [condition@8.2.0: KEEPREF | DELREF | ACKED]>",
        )
        .history(&[("6.2.0", "`MINID` and `LIMIT`."), ("8.2.0", "`KEEPREF`, `DELREF` and `ACKED`.")])
        .tips(CHANGING),
];

const GROUP_COMMANDS: &[Command] = &[
    Command::new("xgroup|create", -5, Group::Stream, groups::create)
        .flags(WRITE | DENY_OOM)
        .keys(&GROUP_INSERTS)
        .since("5.0.0", "O(1)")
        .doc(
            "Creates a consumer group that starts after an id.",
            "key group <id-selector: id | $> [MKSTREAM] [ENTRIESREAD entriesread(entries-read):integer]",
        )
        .history(&[("7.0.0", "`ENTRIESREAD`.")]),
    Command::new("xgroup|createconsumer", 5, Group::Stream, groups::create_consumer)
        .flags(WRITE | DENY_OOM)
        .keys(&GROUP_INSERTS)
        .since("6.2.0", "O(1)")
        .doc("Creates a consumer in a group.", "key group consumer"),
    Command::new("xgroup|delconsumer", 5, Group::Stream, groups::delete_consumer)
        .flags(WRITE)
        .keys(&GROUP_DELETES)
        .since("5.0.0", "O(1)")
        .doc("Deletes a consumer and its pending entries.", "key group consumer"),
    Command::new("xgroup|destroy", 4, Group::Stream, groups::destroy)
        .flags(WRITE)
        .keys(&GROUP_DELETES)
        .since("5.0.0", "O(N) where N is the number of entries pending for the group")
        .doc("Deletes a consumer group.", "key group"),
    Command::new("xgroup|help", 2, Group::Stream, super::help)
        .flags(LOADING | STALE)
        .since("5.0.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    Command::new("xgroup|setid", -5, Group::Stream, groups::set_id)
        .flags(WRITE)
        .keys(&GROUP_UPDATES)
        .since("5.0.0", "O(1)")
        .doc(
            "Sets the last delivered id of a group.",
            "key group <id-selector: id | $> [ENTRIESREAD entriesread(entries-read):integer]",
        )
        .history(&[("7.0.0", "`ENTRIESREAD`.")]),
];

const INFO_COMMANDS: &[Command] = &[
    Command::new("xinfo|consumers", 4, Group::Stream, inspecting::consumers)
        .flags(READONLY)
        .keys(&INSPECTS)
        .since("5.0.0", "O(1)")
        .doc("Lists the consumers of a group.", "key group").history(&[("7.2.0", "Shows `inactive`; `idle` counts attempts too.")])
        .tips(CHANGING),
    Command::new("xinfo|groups", 3, Group::Stream, inspecting::groups)
        .flags(READONLY)
        .keys(&INSPECTS)
        .since("5.0.0", "O(1)")
        .doc("Lists the groups of a stream.", "key").history(&[("7.0.0", "Shows `entries-read` and `lag`.")]),
    Command::new("xinfo|help", 2, Group::Stream, super::help)
        .flags(LOADING | STALE)
        .since("5.0.0", "O(1)")
        .doc("Lists the subcommands.", ""),
    Command::new("xinfo|stream", -3, Group::Stream, inspecting::stream)
        .flags(READONLY)
        .keys(&INSPECTS)
        .since("5.0.0", "O(1)")
        .doc("Returns the counters of a stream, or all details.", "key [full-block: FULL [COUNT count]]").history(&[("6.0.0", "`FULL`."), ("7.0.0", "Shows `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`."), ("7.2.0", "Shows `active-time`; `seen-time` counts attempts too.")]),
];

/// The error of subcommands with too many arguments or wrong options.
fn wrong_subcommand(args: Args<'_>) -> ClientError {
    let container = quoted(args.at(0)).to_ascii_uppercase();
    let shown = &args.at(1)[..args.at(1).len().min(128)];
    let shown = quoted(shown);
    ClientError::formatted(format!(
        "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try {container} HELP."
    ))
}

/// `NOGROUP` followed by the rest of the sentence.
fn no_group(sentence: std::fmt::Arguments<'_>) -> ClientError {
    ClientError::formatted(format!("NOGROUP No such {sentence}"))
}

fn xlen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = ctx.db.read_collection::<Stream>(args.key(1))?.map_or(0, |stream| stream.len());
    ctx.reply.count(len);
    Ok(())
}

fn xrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, (2, 3), Direction::Forward)
}

fn xrevrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, (3, 2), Direction::Backward)
}

/// `bounds`: the indexes of the lower and the upper end.
fn range(ctx: &mut Context<'_>, args: Args<'_>, bounds: (usize, usize), direction: Direction) -> Outcome {
    let start = ids::lower_end(args.at(bounds.0))?;
    let end = ids::upper_end(args.at(bounds.1))?;
    let mut count = None;
    let mut at = 4;
    while at < args.len() {
        if !args.is(at, "COUNT") || at + 1 >= args.len() {
            return Err(ClientError::Syntax);
        }
        count = Some(unsigned_len(args.integer(at + 1)?.max(0)));
        at += 2;
    }
    let Some(stream) = ctx.db.read_collection::<Stream>(args.key(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        ctx.reply.null_array();
        return Ok(());
    }
    let mark = ctx.reply.begin_array();
    let mut answered = 0;
    for entry in stream.range(start, end, direction).take(count.unwrap_or(usize::MAX)) {
        reply_entry(&entry, ctx.reply);
        answered += 1;
    }
    ctx.reply.end_array(mark, answered);
    Ok(())
}
