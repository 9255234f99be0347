//! Iterating over keys: KEYS and SCAN, and the options that SCAN shares with HSCAN, SSCAN and ZSCAN.

use crate::command::flag::{READONLY, TOUCHES_ARBITRARY_KEYS};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::db::object::kind_of;
use crate::db::{Kind, Object, StringValue, cursor_of_slot, slot_of_cursor, slots};
use crate::error::{ClientError, quoted};
use structures::key_slot::key_slot;
use structures::key_table::EntryRef;
use wire::glob::Pattern;
use wire::reply::ReplyBuffer;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("keys", 2, Group::Generic, keys)
        .flags(READONLY | TOUCHES_ARBITRARY_KEYS)
        .categories(&["dangerous"])
        .since("1.0.0", "O(N) where N is the number of keys in the database")
        .doc("Lists all keys that match a pattern.", "pattern")
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    Command::new("scan", -2, Group::Generic, scan)
        .flags(READONLY | TOUCHES_ARBITRARY_KEYS)
        .since("2.8.0", "O(1) for every call, O(N) for a complete iteration")
        .doc(
            "Iterates over the keys of the database.",
            "cursor [MATCH pattern] [COUNT count] [TYPE type@6.0.0]",
        )
        .history(&[("6.0.0", "`TYPE`.")])
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
];

fn keys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let word = args.at(1);
    let (pattern, all) = (Pattern::new(word), word == b"*");
    let mark = ctx.reply.begin_array();
    let mut found = 0;
    let (db, reply) = (&*ctx.db, &mut *ctx.reply);
    let mut visit = |entry: EntryRef<'_, Object>| {
        if !db.hides(entry.expiry_ms()) && (all || pattern.matches(entry.key())) {
            reply.bulk(entry.key());
            found += 1;
        }
    };
    match Some(word).filter(|_| db.key_seed().by_slot()).and_then(pattern_slot) {
        Some(slot) if slots::is_hidden(db, slot) => {}
        Some(slot) => db.selected_database().iter_slot(slot).for_each(&mut visit),
        None => db.selected_database().iter_shown().for_each(&mut visit),
    }
    ctx.reply.end_array(mark, found);
    Ok(())
}

/// Returns the slot of all keys that a pattern can match, if it can match keys of one slot only: it has a complete tag before
/// any special character, or no special character at all.
pub fn pattern_slot(pattern: &[u8]) -> Option<u16> {
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    let open = pattern.iter().position(|&byte| byte == b'{');
    let close =
        open.and_then(|open| pattern[open..].iter().position(|&byte| byte == b'}').map(|at| open + at));
    let has_tag = open.zip(close).is_some_and(|(open, close)| close > open + 1 && close < special);
    (has_tag || special == pattern.len()).then(|| key_slot(pattern))
}

/// The number of elements per call without COUNT.
const COUNT_DEFAULT: usize = 10;

/// Options of SCAN and similar commands.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// MATCH: elements that do not match are left out of the reply.
    pub pattern: Option<Pattern<'a>>,
    /// COUNT: approximate number of elements to visit per call; 1 or more.
    pub count: usize,
    /// TYPE: keys of other types are left out of the reply.
    pub kind: Option<Kind>,
    /// NOVALUES or NOSCORES.
    pub only_names: bool,
    /// The text of the pattern.
    text: Option<&'a [u8]>,
}

/// The scanned object, which determines the available options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// A database (SCAN).
    Keys,
    /// A set (SSCAN).
    Set,
    /// A hash (HSCAN).
    Hash,
    /// A sorted set (ZSCAN).
    SortedSet,
}

impl<'a> ScanOptions<'a> {
    /// Parses the options from `first` on.
    pub fn parse(args: Args<'a>, first: usize, walked: Walked) -> Result<Self, ClientError> {
        Self::parse_with(args, first, walked, &mut |_| Ok(0))
    }

    /// As [`ScanOptions::parse`], with options of the command's own: `own` returns the number of arguments that it takes from
    /// a position on.
    pub fn parse_with(
        args: Args<'a>,
        first: usize,
        walked: Walked,
        own: &mut dyn FnMut(usize) -> Result<usize, ClientError>,
    ) -> Result<Self, ClientError> {
        let mut options =
            ScanOptions { pattern: None, count: COUNT_DEFAULT, kind: None, only_names: false, text: None };
        let mut at = first;
        while at < args.len() {
            let has_next = at + 1 < args.len();
            if args.is(at, "COUNT") && has_next {
                options.count = usize::try_from(args.integer(at + 1)?)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(ClientError::Syntax)?;
                at += 2;
            } else if args.is(at, "MATCH") && has_next {
                options.text = Some(args.at(at + 1)).filter(|&text| text != b"*");
                options.pattern = options.text.map(Pattern::new);
                at += 2;
            } else if args.is(at, "TYPE") && has_next && walked == Walked::Keys {
                options.kind = Some(kind_named(args.at(at + 1))?);
                at += 2;
            } else if args.is(at, "NOVALUES") {
                only_for(walked == Walked::Hash, "ERR NOVALUES option can only be used in HSCAN")?;
                options.only_names = true;
                at += 1;
            } else if args.is(at, "NOSCORES") {
                only_for(walked == Walked::SortedSet, "ERR NOSCORES option can only be used in ZSCAN")?;
                options.only_names = true;
                at += 1;
            } else {
                let taken = own(at)?;
                if taken == 0 {
                    return Err(ClientError::Syntax);
                }
                at += taken;
            }
        }
        Ok(options)
    }

    /// Calls `step` until enough elements were visited, and returns the cursor for the client. `step` gets a cursor and the
    /// number of elements still wanted, visits about that many, and returns the next cursor and the number visited.
    pub fn walk(&self, cursor: u64, mut step: impl FnMut(u64, usize) -> (u64, usize)) -> u64 {
        let (mut cursor, mut visited) = (cursor, 0);
        for _ in 0..self.count.saturating_mul(STEPS_PER_ELEMENT_MAX) {
            let (next, more) = step(cursor, self.count - visited);
            cursor = next;
            visited += more;
            if cursor == 0 || visited >= self.count {
                break;
            }
        }
        cursor
    }

    /// The only slot whose keys can match the pattern, if there is one; see [`pattern_slot`].
    pub fn pattern_slot(&self) -> Option<u16> {
        self.text.and_then(pattern_slot)
    }

    /// Whether a name matches the pattern.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| pattern.matches(name))
    }

    /// As [`ScanOptions::matches`], for a string value.
    pub fn matches_value(&self, name: &StringValue<'_>) -> bool {
        self.pattern.is_none_or(|pattern| match name {
            StringValue::Integer(_) if !pattern.may_match_integers() => false,
            name => name.with_bytes(|bytes| pattern.matches(bytes)),
        })
    }
}

/// The elements that a scan has found, all texts in one buffer, because the reply begins with the final cursor.
#[derive(Default)]
pub struct Found {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Found {
    /// Appends a text.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Replies with the cursor and the texts.
    pub fn answer(&self, cursor: u64, reply: &mut ReplyBuffer) {
        self.answer_with(cursor.to_string().as_bytes(), reply);
    }

    /// As [`Found::answer`], with a cursor of another form.
    pub fn answer_with(&self, cursor: &[u8], reply: &mut ReplyBuffer) {
        reply.array(2);
        reply.bulk(cursor);
        reply.array(self.ends.len());
        let mut start = 0;
        for &end in &self.ends {
            reply.bulk(&self.bytes[std::mem::replace(&mut start, end)..end]);
        }
    }
}

/// Replies that the scan is complete, without elements.
pub fn answer_end(reply: &mut ReplyBuffer) {
    reply.array(2);
    reply.bulk(b"0");
    reply.array(0);
}

fn only_for(allowed: bool, error: &'static str) -> Result<(), ClientError> {
    if allowed { Ok(()) } else { Err(ClientError::text(error)) }
}

fn kind_named(name: &[u8]) -> Result<Kind, ClientError> {
    Kind::ALL
        .iter()
        .copied()
        .find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
        .ok_or_else(|| ClientError::formatted(format!("ERR unknown type name '{}'", quoted(name))))
}

/// Parses a cursor: any unsigned 64-bit number.
pub fn parse_cursor(word: &[u8]) -> Result<u64, ClientError> {
    wire::number::parse_u64_leniently(word).ok_or(ClientError::InvalidCursor)
}

/// The maximum number of table steps per wanted element, before an empty part is returned to the client.
const STEPS_PER_ELEMENT_MAX: usize = 10;

fn scan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = parse_cursor(args.at(1))?;
    let options = ScanOptions::parse(args, 2, Walked::Keys)?;
    let slot = if ctx.db.key_seed().by_slot() { options.pattern_slot() } else { None };
    // With the cursor of a call with another pattern the scan of the slot begins, or has ended.
    let cursor = match slot {
        Some(slot) if slot_of_cursor(cursor) < slot => cursor_of_slot(slot),
        Some(slot) if slot_of_cursor(cursor) > slot => {
            answer_end(ctx.reply);
            return Ok(());
        }
        _ => cursor,
    };
    let (cursor, found) = visit_keys(ctx, cursor, &options, slot);
    found.answer(cursor, ctx.reply);
    Ok(())
}

/// Visits keys from the cursor on, in a cluster up to those of the slot `last`; returns the next cursor and the keys found.
/// Expired keys are removed.
pub fn visit_keys(
    ctx: &mut Context<'_>,
    cursor: u64,
    options: &ScanOptions<'_>,
    last: Option<u16>,
) -> (u64, Found) {
    let (mut found, mut expired): (Found, Vec<Box<[u8]>>) = Default::default();
    let is_behind = |slot| last.is_some_and(|last| slot > last);
    let first = ctx.db.selected_database().next_slot(slot_of_cursor(cursor));
    if last.is_some() && first.is_none_or(is_behind) {
        return (0, found);
    }
    let cursor = options.walk(cursor, |cursor, _| {
        let mut visited = 0;
        let next = ctx.db.selected_database().scan_shown(cursor, &mut |entry| {
            visited += 1;
            let wanted =
                options.kind.is_none_or(|kind| kind_of(entry) == kind) && options.matches(entry.key());
            match wanted {
                true if ctx.db.hides(entry.expiry_ms()) => expired.push(entry.key().into()),
                true => found.push(entry.key()),
                false => {}
            }
        });
        (if is_behind(slot_of_cursor(next)) { 0 } else { next }, visited)
    });
    for key in expired {
        ctx.db.exists(ctx.db.key(&key));
    }
    (cursor, found)
}
