//! Strings: GET, SET and other commands that read and change them, whole or in part.

mod comparison;
mod lcs;
pub mod options;

use crate::command::flag::{DENY_OOM, FAST, READONLY, WRITE};
use crate::command::key_spec::{Begin, Find};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access, propagation};
use crate::db::object::REFERRED_LEN_MIN;
use crate::db::strings::NewText;
use crate::db::{EventClasses, Key, strings};
use crate::error::ClientError;
use comparison::{delex, delifeq, digest};
use options::{Condition, ExpiryOption, ExpiryUnit, For, Options};
use std::ops::Range;
use wire::convert::{signed_len, unsigned_len};
use wire::number::Extended;

const READS: KeySpec = KeySpec::one(1, access::RO | access::ACCESS);
const UPDATES: KeySpec = KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE);
const OVERWRITES: KeySpec = KeySpec::one(1, access::OW | access::UPDATE);

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("append", 3, Group::String, append)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::INSERT)])
        .since("2.0.0", "O(1) amortised")
        .doc("Appends to a string, creating it if it does not exist.", "key value"),
    Command::new("decr", 2, Group::String, decr)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES])
        .since("1.0.0", "O(1)")
        .doc("Decrements an integer by one; a missing key counts as 0.", "key"),
    Command::new("decrby", 3, Group::String, decrby)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES])
        .since("1.0.0", "O(1)")
        .doc("Decrements an integer by an amount.", "key decrement"),
    Command::new("delex", -2, Group::String, delex)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::DELETE | access::VARIABLE_FLAGS)
            .noted("reads only with a condition")])
        .finds_keys(delex_key)
        .propagated_as(propagation::deletion)
        .since("8.4.0", "O(1); O(N) with a digest, where N is the length of the string")
        .doc(
            "Deletes a key if its string meets the given condition.",
            "key [condition: IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest:integer | IFDNE \
                ifdne-digest:integer]",
        ),
    Command::new("delifeq", 3, Group::String, delifeq)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RM | access::DELETE)])
        .propagated_as(propagation::deletion)
        .since("9.0.0", "O(1)")
        .doc("Deletes a key if its string equals the given value.", "key value"),
    Command::new("digest", 2, Group::String, digest)
        .flags(READONLY | FAST)
        .keys(&[READS])
        .since("8.4.0", "O(N) where N is the length of the string")
        .doc("Returns the XXH3 digest of a string.", "key"),
    Command::new("get", 2, Group::String, get)
        .flags(READONLY | FAST)
        .keys(&[READS])
        .since("1.0.0", "O(1)")
        .doc("Returns the string at a key.", "key"),
    Command::new("getdel", 2, Group::String, getdel)
        .flags(WRITE | FAST)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::DELETE)])
        .propagated_as(propagation::deletion)
        .since("6.2.0", "O(1)")
        .doc("Returns a string and deletes its key.", "key"),
    Command::new("getex", -2, Group::String, getex)
        .flags(WRITE | FAST)
        .keys(&[UPDATES.noted("changes the expiry, with options that say so")])
        .propagated_as(propagation::expiry)
        .since("6.2.0", "O(1)")
        .doc(
            "Returns a string and sets or removes its expiry.",
            "key [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
                unix-time-milliseconds | PERSIST]",
        ),
    Command::new("getrange", 4, Group::String, getrange)
        .flags(READONLY)
        .keys(&[READS])
        .since("2.4.0", "O(N) where N is the length of the reply")
        .doc("Returns a substring.", "key start end"),
    Command::new("getset", 3, Group::String, getset)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES])
        .since("1.0.0", "O(1)")
        .doc("Sets a string and returns its previous value.", "key value"),
    Command::new("incr", 2, Group::String, incr)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES])
        .since("1.0.0", "O(1)")
        .doc("Increments an integer by one; a missing key counts as 0.", "key"),
    Command::new("incrby", 3, Group::String, incrby)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES])
        .since("1.0.0", "O(1)")
        .doc("Increments an integer by an amount.", "key increment:integer"),
    Command::new("incrbyfloat", 3, Group::String, incrbyfloat)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[UPDATES])
        .propagated_as(propagation::string_value)
        .since("2.6.0", "O(1)")
        .doc("Increments a decimal number by an amount.", "key increment:double"),
    Command::new("lcs", -3, Group::String, lcs::lcs)
        .flags(READONLY)
        .keys(&[KeySpec::range(1, 1, 1, access::RO | access::ACCESS)])
        .since("7.0.0", "O(N*M) where N and M are the lengths of the strings")
        .doc(
            "Finds the longest common subsequence of two strings.",
            "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len:integer] [WITHMATCHLEN]",
        ),
    Command::new("mget", -2, Group::String, mget)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::range(1, -1, 1, access::RO | access::ACCESS)])
        .since("1.0.0", "O(N) where N is the number of keys")
        .doc("Returns the strings at several keys.", "key ...")
        .tips(&["request_policy:multi_shard"]),
    Command::new("mset", -3, Group::String, mset)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::range(1, -1, 2, access::OW | access::UPDATE)])
        .since("1.0.1", "O(N) where N is the number of keys")
        .doc("Sets several strings.", "<data: key value> ...")
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Command::new("msetex", -4, Group::String, msetex)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec {
            access: access::OW | access::UPDATE,
            begin: Begin::Index(1),
            find: Find::Counted { count_at: 0, first: 1, step: 2 },
            notes: "",
        }])
        .propagated_as(propagation::pairs)
        .since("9.1.0", "O(N) where N is the number of keys")
        .doc(
            "Sets several strings with one expiry, if a condition holds for all of their keys.",
            "numkeys <data: key value> ... [condition: NX | XX] [expiration: EX seconds | PX milliseconds \
                | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        )
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Command::new("msetnx", -3, Group::String, msetnx)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::range(1, -1, 2, access::OW | access::INSERT)])
        .since("1.0.1", "O(N) where N is the number of keys")
        .doc("Sets several strings if none of their keys exists.", "<data: key value> ..."),
    Command::new("psetex", 4, Group::String, psetex)
        .flags(WRITE | DENY_OOM)
        .keys(&[OVERWRITES])
        .propagated_as(propagation::set_to_expire)
        .since("2.6.0", "O(1)")
        .doc("Sets a string with a time to live in milliseconds.", "key milliseconds value"),
    Command::new("set", -3, Group::String, set)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE | access::VARIABLE_FLAGS)
            .noted("reads only with `GET`")])
        .finds_keys(set_key)
        .propagated_as(propagation::set)
        .since("1.0.0", "O(1)")
        .doc(
            "Sets a string, overwriting any previous value.",
            "key value [condition: NX@2.6.12 | XX@2.6.12 | IFEQ comparison-value@8.1.0 | \
                IFNE ifne-value@8.4.0 | IFDEQ ifdeq-digest:integer@8.4.0 | IFDNE ifdne-digest:integer@8.4.0] \
                [GET@6.2.0] \
                [expiration: EX seconds@2.6.12 | PX milliseconds@2.6.12 | EXAT unix-time-seconds@6.2.0 | \
                PXAT unix-time-milliseconds@6.2.0 | KEEPTTL@6.0.0]",
        )
        .history(&[
            ("2.6.12", "`EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "`KEEPTTL`."),
            ("6.2.0", "`GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` together."),
            ("8.1.0", "`IFEQ`."),
            ("8.4.0", "`IFNE`, `IFDEQ` and `IFDNE`."),
        ]),
    Command::new("setex", 4, Group::String, setex)
        .flags(WRITE | DENY_OOM)
        .keys(&[OVERWRITES])
        .propagated_as(propagation::set_to_expire)
        .since("2.0.0", "O(1)")
        .doc("Sets a string with a time to live in seconds.", "key seconds value"),
    Command::new("setnx", 3, Group::String, setnx)
        .flags(WRITE | DENY_OOM | FAST)
        .keys(&[KeySpec::one(1, access::OW | access::INSERT)])
        .since("1.0.0", "O(1)")
        .doc("Sets a string if its key does not exist.", "key value"),
    Command::new("setrange", 4, Group::String, setrange)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RW | access::UPDATE)])
        .since("2.2.0", "O(1), or O(M) where M is the length of a long value")
        .doc("Overwrites part of a string, extending it as needed.", "key offset value"),
    Command::new("strlen", 2, Group::String, strlen)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO)])
        .since("2.2.0", "O(1)")
        .doc("Returns the length of a string.", "key"),
    Command::new("substr", 4, Group::String, getrange)
        .flags(READONLY)
        .keys(&[READS])
        .since("1.0.0", "O(N) where N is the length of the reply")
        .doc("Returns a substring; an older name of GETRANGE.", "key start end"),
];

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    answer(ctx, args.key(1))
}

/// Replies with the string at the key. Inlined in GET: a call cost 1 % of it.
#[inline(always)]
fn answer(ctx: &mut Context<'_>, key: Key<'_>) -> Outcome {
    match ctx.db.read_string(key)? {
        Some(text) if text.is_worth_a_reference() => refer(ctx, key),
        Some(text) => text.reply(ctx.reply),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// Replies with the long string that was just read, without a copy if the reply can hold a reference.
#[cold]
fn refer(ctx: &mut Context<'_>, key: Key<'_>) {
    let there = "a string that was just read exists";
    if ctx.reply.takes_references() {
        ctx.reply.bulk_shared(ctx.db.share_string(key).expect(there));
    } else {
        let value = ctx.db.find(key).and_then(|value| value.text());
        value.expect(there).reply(ctx.reply);
    }
}

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    if args.len() == 3 {
        store(ctx, key, args.text(2), None);
        ctx.reply.ok();
        return Ok(());
    }
    let options = options::parse(args, 3, For::Set, ctx.db.now_ms(), "set")?;
    let start = ctx.reply.len();
    if options.get {
        answer(ctx, key)?;
    }
    let stored = match set_if(ctx, key, args.text(2), &options) {
        Ok(stored) => stored,
        Err(error) => {
            ctx.reply.truncate(start);
            return Err(error);
        }
    };
    match (options.get, stored) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// Stores the value and publishes the event.
#[inline]
fn store(ctx: &mut Context<'_>, key: Key<'_>, value: NewText<'_>, expiry_ms: Option<i64>) {
    ctx.db.put_text(key, value, expiry_ms);
    ctx.db.changed(EventClasses::STRING, "set", key);
}

/// Stores the value and returns whether the condition was true. A time to live in the past removes the key instead.
fn set_if(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    value: NewText<'_>,
    options: &Options<'_>,
) -> Result<bool, ClientError> {
    let holds = match options.condition {
        Condition::Always => true,
        Condition::IfAbsent => ctx.db.read_for_write(key).is_none(),
        Condition::IfPresent => ctx.db.read_for_write(key).is_some(),
        Condition::If(comparison) => match ctx.db.read_string_for_write(key)? {
            Some(text) => comparison.holds(&text)?,
            None => comparison.holds_of_nothing(),
        },
    };
    if holds {
        store_with(ctx, key, value, options.expiry);
    }
    Ok(holds)
}

fn store_with(ctx: &mut Context<'_>, key: Key<'_>, value: NewText<'_>, expiry: ExpiryOption) {
    match expiry {
        ExpiryOption::At { unix_ms, .. } if ctx.db.is_expired(unix_ms) => ctx.db.remove_as_expired(key),
        ExpiryOption::At { unix_ms, .. } => store_until(ctx, key, value, unix_ms),
        ExpiryOption::Keep => {
            let expiry_ms = ctx.db.read_for_write(key).and_then(|there| there.expiry_ms());
            store(ctx, key, value, expiry_ms);
        }
        ExpiryOption::Unsaid | ExpiryOption::Persist => store(ctx, key, value, None),
    }
}

fn store_until(ctx: &mut Context<'_>, key: Key<'_>, value: NewText<'_>, unix_ms: i64) {
    store(ctx, key, value, Some(unix_ms));
    ctx.db.event(EventClasses::GENERIC, "expire", key);
}

fn setnx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options { condition: Condition::IfAbsent, ..Options::default() };
    let stored = set_if(ctx, args.key(1), args.text(2), &options)?;
    ctx.reply.integer(stored.into());
    Ok(())
}

fn setex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_for(ctx, args, ExpiryUnit { in_seconds: true, absolute: false }, "setex")
}

fn psetex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_for(ctx, args, ExpiryUnit { in_seconds: false, absolute: false }, "psetex")
}

fn set_for(ctx: &mut Context<'_>, args: Args<'_>, unit: ExpiryUnit, command: &'static str) -> Outcome {
    let unix_ms = unit.resolve(args.integer(2)?, ctx.db.now_ms(), command)?;
    store_with(ctx, args.key(1), args.text(3), ExpiryOption::At { unix_ms, absolute: false });
    ctx.reply.ok();
    Ok(())
}

fn getdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    answer(ctx, key)?;
    if ctx.db.remove(key) {
        ctx.db.changed(EventClasses::GENERIC, "del", key);
    }
    Ok(())
}

fn getex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let options = options::parse(args, 2, For::GetEx, ctx.db.now_ms(), "getex")?;
    answer(ctx, key)?;
    let had_expiry_ms = match ctx.db.find(key) {
        Some(value) => value.expiry_ms(),
        None => return Ok(()),
    };
    match options.expiry {
        ExpiryOption::At { unix_ms, absolute: true } if ctx.db.is_expired(unix_ms) => {
            ctx.db.remove_as_expired(key)
        }
        ExpiryOption::At { unix_ms, .. } => {
            ctx.db.set_expiry(key, Some(unix_ms));
            ctx.db.changed(EventClasses::GENERIC, "expire", key);
        }
        ExpiryOption::Persist if had_expiry_ms.is_some() => {
            ctx.db.set_expiry(key, None);
            ctx.db.changed(EventClasses::GENERIC, "persist", key);
        }
        ExpiryOption::Persist | ExpiryOption::Unsaid | ExpiryOption::Keep => {}
    }
    Ok(())
}

fn getset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    answer(ctx, key)?;
    store(ctx, key, args.text(2), None);
    // Propagated without reading the old value.
    ctx.db.propagate_as(&[b"SET", args.at(1), args.at(2)]);
    Ok(())
}

fn mget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.array(args.len() - 1);
    for key in args.from(1).keys() {
        match ctx.db.read(key).and_then(|value| value.text()) {
            Some(text) if text.is_worth_a_reference() => refer(ctx, key),
            Some(text) => text.reply(ctx.reply),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// The pairs of keys and values in MSET's arguments.
fn pairs<'a>(args: Args<'a>, first: usize, count: usize) -> impl Iterator<Item = (Key<'a>, NewText<'a>)> {
    (0..count).map(move |i| (args.key(first + 2 * i), args.text(first + 2 * i + 1)))
}

fn mset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    require_pairs(args, "mset")?;
    for (key, value) in pairs(args, 1, args.len() / 2) {
        store(ctx, key, value, None);
    }
    ctx.reply.ok();
    Ok(())
}

fn require_pairs(args: Args<'_>, command: &str) -> Result<(), ClientError> {
    if args.len() % 2 == 1 { Ok(()) } else { Err(ClientError::WrongArity { command: command.to_owned() }) }
}

fn msetnx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    require_pairs(args, "msetnx")?;
    if pairs(args, 1, args.len() / 2).any(|(key, _)| ctx.db.read_for_write(key).is_some()) {
        ctx.reply.integer(0);
        return Ok(());
    }
    for (key, value) in pairs(args, 1, args.len() / 2) {
        store(ctx, key, value, None);
    }
    ctx.reply.integer(1);
    Ok(())
}

fn msetex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let invalid = ClientError::text("ERR invalid numkeys value or out of range");
    let count = args.count_in(1, 1, i32::MAX as usize, invalid)?;
    let first_option = 2 + count * 2;
    if first_option > args.len() {
        return Err(ClientError::Syntax);
    }
    let options = options::parse(args, first_option, For::MSetEx, ctx.db.now_ms(), "msetex")?;
    let refused = pairs(args, 2, count).any(|(key, _)| match options.condition {
        Condition::IfAbsent => ctx.db.read_for_write(key).is_some(),
        Condition::IfPresent => ctx.db.read_for_write(key).is_none(),
        Condition::Always | Condition::If(_) => false,
    });
    if refused {
        ctx.reply.integer(0);
        return Ok(());
    }
    for (key, value) in pairs(args, 2, count) {
        match options.expiry {
            // An expiry in the past is stored too, and the key expires as others do.
            ExpiryOption::At { unix_ms, .. } => store_until(ctx, key, value, unix_ms),
            expiry => store_with(ctx, key, value, expiry),
        }
    }
    ctx.reply.integer(1);
    Ok(())
}

fn incr(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args.key(1), 1)
}

fn decr(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args.key(1), -1)
}

fn incrby(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args.key(1), args.integer(2)?)
}

fn decrby(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let amount = args.integer(2)?.checked_neg().ok_or(ClientError::DecrementOverflow)?;
    add(ctx, args.key(1), amount)
}

fn add(ctx: &mut Context<'_>, key: Key<'_>, amount: i64) -> Outcome {
    let before = match ctx.db.read_string_for_write(key)? {
        None => 0,
        Some(text) => text.integer().ok_or(ClientError::NotInteger)?,
    };
    let after = before.checked_add(amount).ok_or(ClientError::IncrementOverflow)?;
    ctx.db.put_integer_keeping_expiry(key, after);
    ctx.db.changed(EventClasses::STRING, "incrby", key);
    ctx.reply.integer(after);
    Ok(())
}

fn incrbyfloat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let there = ctx.db.read_string_for_write(key)?.map(|text| text.to_vec());
    let before = match there {
        None => Extended::from_i64(0),
        Some(text) => Extended::parse(&text).ok_or(ClientError::NotFloat)?,
    };
    let amount = Extended::parse(args.at(2)).ok_or(ClientError::NotFloat)?;
    let after = before.add(amount).filter(|sum| sum.is_finite()).ok_or(ClientError::IncrementNotFinite)?;
    let text = after.text();
    let expiry_ms = ctx.db.find(key).and_then(|value| value.expiry_ms());
    ctx.db.put_bytes(key, &text, expiry_ms);
    ctx.db.changed(EventClasses::STRING, "incrbyfloat", key);
    ctx.reply.bulk(&text);
    Ok(())
}

fn append(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.key(1), args.at(2));
    let length = match ctx.db.read_string_for_write(key)? {
        Some(text) => {
            let length = text.len();
            check_length(ctx, signed_len(length), value.len())?;
            ctx.db.edit_string(key, |text| {
                strings::reserve(text, value.len());
                text.extend_from_slice(value);
            })?;
            length + value.len()
        }
        None => {
            ctx.db.put_text(key, args.text(2), None);
            value.len()
        }
    };
    ctx.db.changed(EventClasses::STRING, "append", key);
    ctx.reply.count(length);
    Ok(())
}

/// Refuses to let a string grow above the maximum length of a bulk.
pub fn check_length(ctx: &Context<'_>, offset: i64, length: usize) -> Result<(), ClientError> {
    let end = offset.checked_add(signed_len(length));
    match end {
        Some(end) if unsigned_len(end) <= ctx.server.config.proto_max_bulk_len_bytes => Ok(()),
        _ => Err(ClientError::StringTooLong),
    }
}

fn setrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.key(1), args.at(3));
    let offset = args.integer(2)?;
    if offset < 0 {
        return Err(ClientError::OffsetOutOfRange);
    }
    let length = ctx.db.read_string_for_write(key)?.map_or(0, |text| text.len());
    if value.is_empty() {
        ctx.reply.count(length);
        return Ok(());
    }
    check_length(ctx, offset, value.len())?;
    let offset = unsigned_len(offset);
    let length = ctx.db.edit_string(key, |text| {
        strings::grow(text, offset + value.len());
        text[offset..offset + value.len()].copy_from_slice(value);
        text.len()
    })?;
    ctx.db.changed(EventClasses::STRING, "setrange", key);
    ctx.reply.count(length);
    Ok(())
}

fn getrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (start, end) = (args.integer(2)?, args.integer(3)?);
    let key = args.key(1);
    let Some(text) = ctx.db.read_string(key)? else {
        ctx.reply.bulk(b"");
        return Ok(());
    };
    if text.is_worth_a_reference() && ctx.reply.takes_references() {
        let range = resolved(start, end, text.len());
        // A reference to a small part would keep the whole string in memory.
        if range.len() >= REFERRED_LEN_MIN && range.len() >= text.len() / 2 {
            let shared = ctx.db.share_string(key).expect("a string that was just read exists");
            ctx.reply.bulk_shared_part(shared, range);
            return Ok(());
        }
    }
    text.with_bytes(|bytes| ctx.reply.bulk(&bytes[resolved(start, end, bytes.len())]));
    Ok(())
}

/// The positions from `start` to `end`, inclusive; negative ones count from the end of `length` bytes.
fn resolved(start: i64, end: i64, length: usize) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let length = signed_len(length);
    let from = if start < 0 { start.saturating_add(length).max(0) } else { start };
    let to = if end < 0 { end.saturating_add(length).max(0) } else { end.min(length - 1) };
    if from > to || length == 0 { 0..0 } else { unsigned_len(from)..unsigned_len(to) + 1 }
}

fn strlen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let length = ctx.db.read_string(args.key(1))?.map_or(0, |text| text.len());
    ctx.reply.count(length);
    Ok(())
}

/// SET reads the old value only with GET.
fn set_key(args: Args<'_>) -> Vec<(usize, access::Access)> {
    let reads = (3..args.len()).any(|at| args.is(at, "GET"));
    let bits = if reads { access::RW | access::ACCESS } else { access::OW };
    vec![(1, bits | access::UPDATE)]
}

/// DELEX reads the value only with a condition.
fn delex_key(args: Args<'_>) -> Vec<(usize, access::Access)> {
    let bits = if args.len() > 2 { access::RW | access::ACCESS } else { access::RM };
    vec![(1, bits | access::DELETE)]
}
