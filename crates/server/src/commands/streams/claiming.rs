//! Pending entries: XACK, XPENDING, XCLAIM, XAUTOCLAIM.

use super::reading::{
    Seen, note_pending, propagate_consumer, propagate_pending, propagate_position, see_consumer,
};
use super::{ids, no_group};
use crate::command::{Args, Context, Outcome};
use crate::db::stream::{ConsumerId, Entry, Group, Pending, Stream, StreamId, reply_entry, reply_id};
use crate::db::{Db, Key};
use crate::error::{ClientError, quoted};
use wire::convert::{signed_bits, signed_len, unsigned_len};
use wire::reply::ReplyBuffer;

fn no_key_or_group(args: Args<'_>) -> ClientError {
    no_group(format_args!("key '{}' or consumer group '{}'", quoted(args.at(1)), quoted(args.at(2))))
}

fn has_group(ctx: &mut Context<'_>, key: Key<'_>, group: &[u8]) -> Result<bool, ClientError> {
    let stream = ctx.db.read_collection::<Stream>(key)?;
    Ok(stream.and_then(|stream| stream.group(group)).is_some())
}

pub(super) fn xack(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, group) = (args.key(1), args.at(2));
    if !has_group(ctx, key, group)? {
        ctx.reply.integer(0);
        return Ok(());
    }
    let acknowledged = ids::all(args.from(3))?;
    let count = ctx.db.change(key, |stream: &mut Stream, _| {
        let mut group = stream.group_mut(group)?;
        Some(acknowledged.into_iter().filter(|&id| group.acknowledge(id)).count())
    })?;
    let count = count.flatten().unwrap_or(0);
    if count > 0 {
        ctx.db.changed_quietly(key, count as u64);
    }
    ctx.reply.count(count);
    Ok(())
}

/// The pending entries that XPENDING lists.
struct PendingRange<'a> {
    idle_ms_min: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingRange<'a> {
    /// `None` for the summary form.
    fn parse(args: Args<'a>) -> Result<Option<Self>, ClientError> {
        if args.len() == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&args.len()) {
            return Err(ClientError::Syntax);
        }
        let (mut idle_ms_min, mut at) = (0, 3);
        if args.is(3, "IDLE") {
            idle_ms_min = args.integer(4)?;
            if args.len() < 8 {
                return Err(ClientError::Syntax);
            }
            at = 5;
        }
        let count = unsigned_len(args.integer(at + 2)?.max(0));
        let (start, end) = (ids::lower_end(args.at(at))?, ids::upper_end(args.at(at + 1))?);
        Ok(Some(PendingRange { idle_ms_min, start, end, count, consumer: args.get(at + 3) }))
    }
}

pub(super) fn xpending(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let range = PendingRange::parse(args)?;
    let now_ms = ctx.db.now_ms();
    let stream = ctx.db.read_collection::<Stream>(args.key(1))?;
    let group = stream.and_then(|stream| stream.group(args.at(2))).ok_or_else(|| no_key_or_group(args))?;
    let Some(range) = range else {
        sum_up(group, ctx.reply);
        return Ok(());
    };
    let all: Box<dyn Iterator<Item = (StreamId, Pending)>> = match range.consumer {
        None => Box::new(group.pending_from(range.start)),
        Some(name) => {
            let Some(consumer) = group.find_consumer(name) else {
                ctx.reply.array(0);
                return Ok(());
            };
            let own = group.consumer(consumer).pending_from(range.start);
            Box::new(own.filter_map(|id| group.pending(id).map(|pending| (id, pending))))
        }
    };
    let listed = all
        .take_while(|&(id, _)| id <= range.end)
        .filter(|(_, pending)| {
            range.idle_ms_min == 0 || now_ms.wrapping_sub(pending.delivered_ms) >= range.idle_ms_min
        })
        .take(range.count);
    let mark = ctx.reply.begin_array();
    let mut count = 0;
    for (id, pending) in listed {
        count += 1;
        ctx.reply.array(4);
        reply_id(id, ctx.reply);
        ctx.reply.bulk(group.consumer(pending.consumer).name());
        ctx.reply.integer(now_ms.saturating_sub(pending.delivered_ms).max(0));
        ctx.reply.integer(signed_bits(pending.deliveries));
    }
    ctx.reply.end_array(mark, count);
    Ok(())
}

/// Writes the number of pending entries, their range of ids, and their consumers.
fn sum_up(group: &crate::db::stream::Group, reply: &mut ReplyBuffer) {
    reply.array(4);
    reply.count(group.pending_len());
    let Some((first, last)) = group.pending_bounds() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(first, reply);
    reply_id(last, reply);
    let mark = reply.begin_array();
    let mut count = 0;
    for (_, consumer) in group.consumers().filter(|(_, consumer)| consumer.pending_len() > 0) {
        count += 1;
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(signed_len(consumer.pending_len()));
    }
    reply.end_array(mark, count);
}

/// The options with which XCLAIM and XAUTOCLAIM assign an entry to the consumer.
#[derive(Default)]
struct Claim {
    idle_ms_min: i64,
    /// `None` is now.
    delivered_ms: Option<i64>,
    /// The new number of deliveries; `None` increments it, or keeps it with `only_ids`.
    deliveries: Option<u64>,
    /// Also claims entries that are not pending.
    force: bool,
    only_ids: bool,
    /// Loaded from a file: entries that do not exist can be pending too.
    replayed: bool,
}

/// The result of claiming an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claimed {
    /// Unchanged: it is not pending, or not idle for long enough.
    Left,
    Taken,
    /// It was pending but no longer exists: it was removed from the pending entries.
    Gone,
}

/// The change that a claim makes.
enum Verdict {
    Assigned(Pending),
    Left,
    Forgotten,
}

impl Verdict {
    fn apply(self, group: &mut Group, id: StreamId, now_ms: i64) -> Claimed {
        match self {
            Verdict::Left => Claimed::Left,
            Verdict::Forgotten => {
                group.acknowledge(id);
                Claimed::Gone
            }
            Verdict::Assigned(pending) => {
                group.assign(id, pending);
                group.consumer_mut(pending.consumer).active_ms = Some(now_ms);
                Claimed::Taken
            }
        }
    }
}

impl Claim {
    /// Claims one entry for the consumer, which exists, and writes it to the reply.
    fn take(
        &self,
        stream: &mut Stream,
        names: (&[u8], &[u8]),
        id: StreamId,
        now_ms: i64,
        reply: &mut ReplyBuffer,
    ) -> Option<Claimed> {
        let (group_name, consumer_name) = names;
        let group = stream.group(group_name)?;
        let consumer = group.find_consumer(consumer_name)?;
        let verdict = self.judge(group, consumer, (id, stream.get(id)), now_ms, reply);
        Some(verdict.apply(&mut *stream.group_mut(group_name)?, id, now_ms))
    }

    /// Determines the change for a claimed entry; writes the entry to the reply if it is assigned.
    fn judge(
        &self,
        group: &Group,
        consumer: ConsumerId,
        (id, entry): (StreamId, Option<Entry<'_>>),
        now_ms: i64,
        reply: &mut ReplyBuffer,
    ) -> Verdict {
        let pending = group.pending(id);
        // Files of other servers remove deleted entries from the pending ones by claiming them; ours never do.
        let was_gone = self.replayed && self.force && pending.is_none();
        if entry.is_none() && !was_gone {
            return if pending.is_some() { Verdict::Forgotten } else { Verdict::Left };
        }
        let before = match pending {
            Some(pending) if self.is_idle(&pending, now_ms) => pending,
            None if self.force => Pending { consumer, delivered_ms: now_ms, deliveries: 1 },
            _ => return Verdict::Left,
        };
        match entry {
            Some(entry) if !self.only_ids => reply_entry(&entry, reply),
            _ => reply_id(id, reply),
        }
        let deliveries = match self.deliveries {
            Some(deliveries) => deliveries,
            None => before.deliveries.wrapping_add(u64::from(!self.only_ids)),
        };
        let delivered_ms = self.delivered_ms.unwrap_or(now_ms);
        Verdict::Assigned(Pending { consumer, delivered_ms, deliveries })
    }

    fn is_idle(&self, pending: &Pending, now_ms: i64) -> bool {
        self.idle_ms_min == 0 || now_ms.wrapping_sub(pending.delivered_ms) >= self.idle_ms_min
    }

    /// Parses XCLAIM's options from `at` on; returns LASTID.
    fn parse_options(
        &mut self,
        args: Args<'_>,
        mut at: usize,
        now_ms: i64,
    ) -> Result<Option<StreamId>, ClientError> {
        let mut last_id = None;
        while at < args.len() {
            let has_value = at + 1 < args.len();
            let number =
                |error: &'static str| args.integer_in(at + 1, i64::MIN, i64::MAX, ClientError::text(error));
            if args.is(at, "FORCE") {
                self.force = true;
            } else if args.is(at, "JUSTID") {
                self.only_ids = true;
            } else if args.is(at, "IDLE") && has_value {
                let idle_ms = number("ERR Invalid IDLE option argument for XCLAIM")?;
                self.delivered_ms = Some(now_ms.wrapping_sub(idle_ms));
                at += 1;
            } else if args.is(at, "TIME") && has_value {
                self.delivered_ms = Some(number("ERR Invalid TIME option argument for XCLAIM")?);
                at += 1;
            } else if args.is(at, "RETRYCOUNT") && has_value {
                let count = number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                self.deliveries = u64::try_from(count).ok();
                at += 1;
            } else if args.is(at, "LASTID") && has_value {
                last_id = Some(ids::strict(args.at(at + 1), 0)?);
                at += 1;
            } else {
                let option = quoted(args.at(at));
                return Err(ClientError::formatted(format!("ERR Unrecognized XCLAIM option '{option}'")));
            }
            at += 1;
        }
        // An invalid time counts as now, because clients compute it from their own clocks.
        self.delivered_ms = self.delivered_ms.filter(|ms| (0..=now_ms).contains(ms));
        Ok(last_id)
    }
}

pub(super) fn xclaim(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, group, consumer) = (args.key(1), args.at(2), args.at(3));
    if !has_group(ctx, key, group)? {
        return Err(no_key_or_group(args));
    }
    let now_ms = ctx.db.now_ms();
    let invalid = ClientError::text("ERR Invalid min-idle-time argument for XCLAIM");
    let idle_ms_min = args.integer_in(4, i64::MIN, i64::MAX, invalid)?.max(0);
    let claimed_ids: Vec<StreamId> =
        args.from(5).iter().map_while(|text| ids::strict(text, 0).ok()).collect();
    let mut claim = Claim { idle_ms_min, replayed: ctx.origin.replayed, ..Claim::default() };
    let last_id = claim.parse_options(args, 5 + claimed_ids.len(), now_ms)?;
    let who = see_consumer(ctx, key, group, consumer)?;
    let mark = ctx.reply.begin_array();
    let reply = &mut *ctx.reply;
    let (mut taken, mut changed) = (0, 0);
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    ctx.db.change(key, |stream: &mut Stream, _| {
        let mut group_state = stream.group_mut(group)?;
        let advances = last_id.filter(|&last_id| last_id > group_state.last_id);
        group_state.last_id = advances.unwrap_or(group_state.last_id);
        drop(group_state);
        for &id in &claimed_ids {
            let outcome = claim.take(stream, (group, consumer), id, now_ms, reply)?;
            gone.extend((outcome == Claimed::Gone).then_some(id));
            claimed.extend((outcome == Claimed::Taken).then_some(id));
            taken += usize::from(outcome == Claimed::Taken);
            changed += u64::from(outcome != Claimed::Left);
        }
        changed = changed.max(u64::from(advances.is_some()));
        Some(())
    })?;
    ctx.reply.end_array(mark, taken);
    propagate_claimed(ctx.db, key, &who, &claimed, &gone);
    propagate_position(ctx.db, key, group);
    ctx.db.changed_quietly(key, changed);
    Ok(())
}

/// Propagates the entries that became pending for the consumer, and those that are no longer pending.
fn propagate_claimed(db: &mut Db, key: Key<'_>, who: &Seen<'_>, taken: &[StreamId], gone: &[StreamId]) {
    propagate_consumer(db, key, who, !taken.is_empty());
    propagate_pending(db, key, who.group, taken);
    if !taken.is_empty() {
        note_pending(db, key, who.group, true);
    }
    for id in gone {
        db.propagate_as(&[b"XACK", key.bytes(), who.group, id.to_string().as_bytes()]);
    }
}

/// The number of pending entries that XAUTOCLAIM examines for each that it may claim.
const LOOKED_AT_FOR_EACH: usize = 10;
const AUTOCLAIM_COUNT_DEFAULT: usize = 100;
const AUTOCLAIM_COUNT_MAX: usize = isize::MAX as usize / 16;

/// XAUTOCLAIM's arguments after the names.
struct AutoClaim {
    claim: Claim,
    start: StreamId,
    count: usize,
}

impl AutoClaim {
    fn parse(args: Args<'_>) -> Result<Self, ClientError> {
        let invalid = ClientError::text("ERR Invalid min-idle-time argument for XAUTOCLAIM");
        let idle_ms_min = args.integer_in(4, i64::MIN, i64::MAX, invalid)?.max(0);
        let start = ids::lower_end(args.at(5))?;
        let mut count = AUTOCLAIM_COUNT_DEFAULT;
        let mut only_ids = false;
        let mut at = 6;
        while at < args.len() {
            if args.is(at, "COUNT") && at + 1 < args.len() {
                let error = ClientError::text("ERR COUNT must be > 0");
                count = args.count_in(at + 1, 1, AUTOCLAIM_COUNT_MAX, error)?;
                at += 1;
            } else if args.is(at, "JUSTID") {
                only_ids = true;
            } else {
                return Err(ClientError::Syntax);
            }
            at += 1;
        }
        Ok(AutoClaim { claim: Claim { idle_ms_min, only_ids, ..Claim::default() }, start, count })
    }

    /// The entries to claim, deleted ones included, and the start id of the next call.
    fn choose(&self, stream: &Stream, group: &[u8], now_ms: i64) -> Option<(Vec<StreamId>, StreamId)> {
        let (mut pending, mut entries) = (stream.group(group)?.pending_from(self.start), stream.finder());
        let mut chosen = Vec::new();
        for (id, pending) in pending.by_ref().take(self.count.saturating_mul(LOOKED_AT_FOR_EACH)) {
            if self.claim.is_idle(&pending, now_ms) || entries.find(id).is_none() {
                chosen.push(id);
            }
            if chosen.len() == self.count {
                break;
            }
        }
        Some((chosen, pending.next().map_or(StreamId::MIN, |(id, _)| id)))
    }
}

pub(super) fn xautoclaim(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = AutoClaim::parse(args)?;
    let (key, group, consumer) = (args.key(1), args.at(2), args.at(3));
    if !has_group(ctx, key, group)? {
        return Err(no_key_or_group(args));
    }
    let now_ms = ctx.db.now_ms();
    let who = see_consumer(ctx, key, group, consumer)?;
    let reply = &mut *ctx.reply;
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    let changed = ctx.db.change(key, |stream: &mut Stream, _| {
        let (chosen, next) = wanted.choose(stream, group, now_ms)?;
        reply.array(3);
        reply_id(next, reply);
        let mark = reply.begin_array();
        let mut taken = 0;
        // The ids are distinct and ascending: the verdicts are independent, and each node is scanned once for all its
        // entries.
        let (holder, mut entries) = (stream.group(group)?, stream.finder());
        let consumer = holder.find_consumer(consumer)?;
        let verdicts: Vec<(StreamId, Verdict)> = chosen
            .into_iter()
            .map(|id| (id, wanted.claim.judge(holder, consumer, (id, entries.find(id)), now_ms, reply)))
            .collect();
        let mut holder = stream.group_mut(group)?;
        for (id, verdict) in verdicts {
            match verdict.apply(&mut holder, id, now_ms) {
                Claimed::Taken => {
                    claimed.push(id);
                    taken += 1;
                }
                Claimed::Gone => gone.push(id),
                Claimed::Left => {}
            }
        }
        reply.end_array(mark, taken);
        reply.array(gone.len());
        gone.iter().for_each(|&id| reply_id(id, reply));
        Some(taken + gone.len())
    })?;
    propagate_claimed(ctx.db, key, &who, &claimed, &gone);
    ctx.db.changed_quietly(key, changed.flatten().unwrap_or(0) as u64);
    Ok(())
}
