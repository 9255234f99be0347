//! XREAD and XREADGROUP: reading from several streams, optionally blocking.

use super::{ids, no_group};
use crate::command::args::OwnedArgs;
use crate::command::{Access, Args, Context, Outcome, access};
use crate::commands::timeout::milliseconds;
use crate::db::stream::{
    Claimable, ConsumerId, Direction, Entry, Pending, Stream, StreamId, reply_entry, reply_entry_parts,
    reply_id, with_claim,
};
use crate::db::{Db, EventClasses, Key, Kind};
use crate::error::{ClientError, quoted};
use crate::session::blocked::ClaimRequest;
use crate::session::claimed::Claimed;
use crate::session::{BlockRequest, BlockedOn, TimeoutReply};
use wire::convert::{signed_bits, signed_count, unsigned_len, usize_of};
use wire::reply::ReplyBuffer;

/// The keys of XREADGROUP. A group or a consumer can be named STREAMS too.
pub fn find_keys_after_group(args: Args<'_>) -> Vec<(usize, Access)> {
    let mut at = 1;
    while at < args.len() && !args.is(at, "STREAMS") {
        at += match () {
            () if args.is(at, "GROUP") => 3,
            () if ["COUNT", "BLOCK", "CLAIM"].iter().any(|word| args.is(at, word)) => 2,
            () => 1,
        };
    }
    let first = at + 1;
    let count = args.len().saturating_sub(first) / 2;
    (first..first + count).map(|at| (at, access::RO | access::ACCESS)).collect()
}

/// The options of both commands.
struct Reading<'a> {
    /// The maximum number of entries of each stream.
    count: usize,
    /// `None` without BLOCK; `Some(None)` blocks for ever.
    timeout_us: Option<Option<u64>>,
    no_acknowledge: bool,
    /// Entries that have been pending in the group for this time are read before new ones.
    claim_idle_ms: Option<i64>,
    /// The names of the group and the consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// The index of the first key; the ids follow the keys.
    streams_at: usize,
    keys: Args<'a>,
    ids: Args<'a>,
}

fn only_with_group(option: &str) -> ClientError {
    ClientError::formatted(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

impl<'a> Reading<'a> {
    fn parse(args: Args<'a>, with_group: bool) -> Result<Self, ClientError> {
        let mut reading = Reading {
            count: 0,
            timeout_us: None,
            no_acknowledge: false,
            claim_idle_ms: None,
            group: None,
            streams_at: 0,
            keys: args.first(0),
            ids: args.first(0),
        };
        let mut at = 1;
        while at < args.len() && reading.streams_at == 0 {
            at = reading.parse_option(args, at, with_group)?;
        }
        if reading.streams_at == 0 {
            return Err(ClientError::Syntax);
        }
        if with_group && reading.group.is_none() {
            return Err(ClientError::text("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(reading)
    }

    /// Parses the option at `at`; returns the index after it.
    fn parse_option(&mut self, args: Args<'a>, at: usize, with_group: bool) -> Result<usize, ClientError> {
        let values = args.len() - at - 1;
        if args.is(at, "CLAIM") && values >= 1 {
            if !with_group {
                return Err(only_with_group("CLAIM"));
            }
            self.claim_idle_ms = Some(idle_time(args, at + 1)?);
            return Ok(at + 2);
        }
        if args.is(at, "BLOCK") && values >= 1 {
            self.timeout_us = Some(milliseconds(args, at + 1)?);
            return Ok(at + 2);
        }
        if args.is(at, "COUNT") && values >= 1 {
            self.count = unsigned_len(args.integer(at + 1)?.max(0));
            return Ok(at + 2);
        }
        if args.is(at, "STREAMS") && values >= 1 {
            self.take_streams(args, at + 1, with_group)?;
            return Ok(args.len());
        }
        if args.is(at, "GROUP") && values >= 2 {
            if !with_group {
                return Err(only_with_group("GROUP"));
            }
            self.group = Some((args.at(at + 1), args.at(at + 2)));
            return Ok(at + 3);
        }
        if args.is(at, "NOACK") {
            if !with_group {
                return Err(only_with_group("NOACK"));
            }
            self.no_acknowledge = true;
            return Ok(at + 1);
        }
        Err(ClientError::Syntax)
    }

    fn take_streams(&mut self, args: Args<'a>, first: usize, with_group: bool) -> Result<(), ClientError> {
        let listed = args.from(first);
        if listed.len() % 2 == 1 {
            let (name, symbol) = if with_group { ("xreadgroup", '>') } else { ("xread", '$') };
            return Err(ClientError::formatted(format!(
                "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{symbol}' must be specified."
            )));
        }
        self.streams_at = first;
        self.keys = listed.first(listed.len() / 2);
        self.ids = listed.from(listed.len() / 2);
        Ok(())
    }

    /// The maximum number of entries of a stream.
    fn count_max(&self) -> usize {
        if self.count == 0 { usize::MAX } else { self.count }
    }

    /// Without entries: blocks if requested and permitted, else replies null. `args` run again when a key changes, or when a
    /// claim of `claims` is due.
    fn wait(&self, ctx: &mut Context<'_>, args: Option<OwnedArgs>, claims: Option<&Claims>) {
        let waits = self.timeout_us.is_some_and(|timeout_us| {
            let keys = self.streams_at..self.streams_at + self.keys.len();
            let db_index = ctx.db.selected();
            let claim = claims.and_then(|claims| self.claim_request(claims, db_index));
            let request = BlockRequest {
                on: BlockedOn::Keys { db_index, keys, kind: Kind::Stream },
                timeout_us,
                timeout_reply: TimeoutReply::NullArray,
                claim,
            };
            match args {
                Some(args) => ctx.block_as(request, args),
                None => ctx.block(request),
            }
        });
        if !waits {
            ctx.reply.null_array();
        }
    }
}

impl Reading<'_> {
    /// What the command waits to claim, of its keys.
    fn claim_request(&self, claims: &Claims, db_index: usize) -> Option<Box<ClaimRequest>> {
        let (idle_ms, (group, _)) = (claims.idle_ms?, self.group?);
        let keys = self.keys.iter().map(Box::from).collect();
        let claimed = Claimed { group: group.into(), db_index, idle_ms, keys };
        Some(Box::new(ClaimRequest { claimed, due_after_us: claims.due_after_us(idle_ms) }))
    }
}

fn idle_time(args: Args<'_>, at: usize) -> Result<i64, ClientError> {
    let no_number = ClientError::text("ERR min-idle-time is not an integer or out of range");
    let negative = ClientError::text("ERR min-idle-time must be a positive integer");
    let idle_ms = args.integer_in(at, i64::MIN, i64::MAX, no_number)?;
    if idle_ms < 0 { Err(negative) } else { Ok(idle_ms) }
}

/// The reply with the entries of several streams, started with the first that has any.
#[derive(Default)]
struct Answer {
    mark: Option<wire::reply::Mark>,
    streams: usize,
}

impl Answer {
    /// Starts the entries of one stream.
    fn stream(&mut self, ctx: &mut Context<'_>, key: Key<'_>) {
        self.mark.get_or_insert_with(|| ctx.reply.begin());
        self.streams += 1;
        if ctx.reply.protocol == wire::reply::Protocol::Resp2 {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(key.bytes());
    }

    /// Ends the reply; returns whether there were any entries.
    fn finish(self, ctx: &mut Context<'_>) -> bool {
        let Some(mark) = self.mark else { return false };
        if ctx.reply.protocol == wire::reply::Protocol::Resp2 {
            ctx.reply.end_array(mark, self.streams);
        } else {
            ctx.reply.end_map(mark, self.streams);
        }
        true
    }
}

/// The id after which XREAD reads; `$` is the last one.
fn read_after(stream: Option<&Stream>, text: &[u8]) -> Result<StreamId, ClientError> {
    match text {
        b"$" => Ok(stream.map_or(StreamId::MIN, |stream| stream.state().last_id)),
        b"+" => Ok(stream
            .filter(|stream| stream.last_live_id().is_some())
            .and_then(|stream| stream.state().last_id.previous())
            .unwrap_or(StreamId::MIN)),
        b">" => Err(ClientError::text(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        text => ids::strict(text, 0),
    }
}

pub(super) fn xread(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let reading = Reading::parse(args, false)?;
    let mut after = Vec::with_capacity(reading.keys.len());
    for (key, id) in reading.keys.keys().zip(reading.ids.iter()) {
        let stream = match ctx.db.read_collection::<Stream>(key) {
            // The stream that the client waited for was replaced by a value of another type.
            Err(ClientError::WrongType) if ctx.origin.retried => None,
            found => found?,
        };
        after.push(read_after(stream, id)?);
    }
    let mut answer = Answer::default();
    for (key, &after) in reading.keys.keys().zip(&after) {
        // This second access counts too: hits and misses are counted twice.
        let Ok(Some(stream)) = ctx.db.read_collection::<Stream>(key) else { continue };
        let above = after.next().filter(|_| stream.last_live_id().is_some_and(|last| last > after));
        let Some(start) = above else { continue };
        answer.stream(ctx, key);
        answer_range(ctx, key, start, reading.count_max())?;
    }
    if !answer.finish(ctx) {
        reading.wait(ctx, with_last_ids(args, &reading, &after), None);
    }
    Ok(())
}

/// Writes a stream's entries from `start` on.
fn answer_range(ctx: &mut Context<'_>, key: Key<'_>, start: StreamId, count_max: usize) -> Outcome {
    let Some(stream) = ctx.db.read_collection_for_write::<Stream>(key)? else { return Ok(()) };
    let mark = ctx.reply.begin_array();
    let mut answered = 0;
    for entry in stream.range(start, StreamId::MAX, Direction::Forward).take(count_max) {
        reply_entry(&entry, ctx.reply);
        answered += 1;
    }
    ctx.reply.end_array(mark, answered);
    Ok(())
}

/// The arguments with every `$` replaced by the current last id, if there is any.
fn with_last_ids(args: Args<'_>, reading: &Reading<'_>, after: &[StreamId]) -> Option<OwnedArgs> {
    if !reading.ids.iter().any(|id| id == b"$") {
        return None;
    }
    let meant = |(id, after): (&[u8], &StreamId)| match id {
        b"$" => after.to_string().into_bytes(),
        id => id.to_vec(),
    };
    let ids: Vec<Vec<u8>> = reading.ids.iter().zip(after).map(meant).collect();
    let before = args.first(reading.streams_at + reading.keys.len());
    Some(OwnedArgs::exactly(before.iter().chain(ids.iter().map(Vec::as_slice))))
}

/// The entries that XREADGROUP reads of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadFrom {
    /// `>`
    New,
    /// Entries after this id that are pending for the consumer.
    PendingAfter(StreamId),
}

fn wanted(text: &[u8]) -> Result<ReadFrom, ClientError> {
    let meaningless = |symbol: &str| {
        ClientError::formatted(format!(
            "ERR The {symbol} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The {symbol} ID would just return an empty result set."
        ))
    };
    match text {
        b"$" => Err(meaningless("$")),
        b"+" => Err(meaningless("+")),
        b">" => Ok(ReadFrom::New),
        text => Ok(match ids::strict(text, 0)? {
            // The greatest id is the former internal value of `>`, and still means it.
            StreamId::MAX => ReadFrom::New,
            id => ReadFrom::PendingAfter(id),
        }),
    }
}

pub(super) fn xreadgroup(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let reading = Reading::parse(args, true)?;
    let Some((group, consumer)) = reading.group else { return Err(ClientError::Syntax) };
    let mut all_wanted = Vec::with_capacity(reading.keys.len());
    for (key, id) in reading.keys.keys().zip(reading.ids.iter()) {
        let stream = ctx.db.read_collection::<Stream>(key)?;
        if stream.and_then(|stream| stream.group(group)).is_none() {
            return Err(no_group(format_args!(
                "key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
                quoted(key.bytes()),
                quoted(group)
            )));
        }
        all_wanted.push(wanted(id)?);
    }
    let mut answer = Answer::default();
    let mut claims = Claims::new(&reading, ctx.db.now_ms());
    for (key, wanted) in reading.keys.keys().zip(all_wanted) {
        // A second access, as in XREAD, which counts too.
        ctx.db.figures.hits += 1;
        let who = see_consumer(ctx, key, group, consumer)?;
        match wanted {
            ReadFrom::New => {
                let claimed = claims.choose(ctx.db, key, group)?;
                if who.has_any || !claimed.is_empty() {
                    answer.stream(ctx, key);
                    answer_claimed_and_new(ctx, key, &who, &reading, &claims, &claimed)?;
                } else {
                    propagate_consumer(ctx.db, key, &who, false);
                }
            }
            ReadFrom::PendingAfter(after) => {
                // As in the reference, nothing is claimed from here on.
                claims.idle_ms = None;
                answer.stream(ctx, key);
                answer_pending(ctx, key, &who, after, reading.count_max())?;
            }
        }
    }
    if !answer.finish(ctx) {
        reading.wait(ctx, None, Some(&claims));
    }
    Ok(())
}

/// The claims of XREADGROUP in several streams.
struct Claims {
    idle_ms: Option<i64>,
    count_max: usize,
    now_ms: i64,
    /// The earliest delivery time of entries that could not be claimed; `None`: nothing is pending.
    oldest_ms: Option<i64>,
}

impl Claims {
    fn new(reading: &Reading<'_>, now_ms: i64) -> Self {
        let (idle_ms, count_max) = (reading.claim_idle_ms, reading.count_max());
        Claims { idle_ms, count_max, now_ms, oldest_ms: None }
    }

    /// The entries to claim of a stream, the longest idle first.
    fn choose(&mut self, db: &mut Db, key: Key<'_>, group: &[u8]) -> Result<Vec<StreamId>, ClientError> {
        let Some(idle_ms) = self.idle_ms else { return Ok(Vec::new()) };
        let until_ms = self.now_ms.saturating_sub(idle_ms);
        let claimable =
            db.change(key, |stream: &mut Stream, _| stream.claimable(group, until_ms, self.count_max))?;
        let Claimable { ids, next_ms } = claimable.flatten().unwrap_or_default();
        self.oldest_ms = self.oldest_ms.into_iter().chain(next_ms).min();
        Ok(ids)
    }

    /// The time after which one of the currently pending entries can be claimed.
    fn due_after_us(&self, idle_ms: i64) -> Option<u64> {
        let due_ms = self.oldest_ms?.saturating_add(idle_ms);
        Some(u64::try_from(due_ms.saturating_sub(self.now_ms)).unwrap_or(0).max(1).saturating_mul(1000))
    }
}

/// A consumer that has accessed its group.
pub(super) struct Seen<'a> {
    /// The consumer group.
    pub group: &'a [u8],
    /// The consumer.
    pub consumer: &'a [u8],
    /// It was created, which has not been propagated yet.
    is_new: bool,
    /// There are entries that the group has not read.
    has_any: bool,
}

/// Updates the consumer's last access, and creates the consumer if it is new; call [`propagate_consumer`] afterwards.
pub(super) fn see_consumer<'a>(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    group: &'a [u8],
    consumer: &'a [u8],
) -> Result<Seen<'a>, ClientError> {
    let seen = ctx.db.change(key, |stream: &mut Stream, context| {
        let last = stream.last_live_id();
        let mut state = stream.group_mut(group)?;
        let has_any = last.is_some_and(|last| last > state.last_id);
        if let Some(known) = state.find_consumer(consumer) {
            state.consumer_mut(known).seen_ms = context.now_ms;
            return Some((has_any, false));
        }
        state.create_consumer(consumer, context.now_ms);
        Some((has_any, true))
    })?;
    let (has_any, is_new) = seen.flatten().unwrap_or_default();
    if is_new {
        ctx.db.event(EventClasses::STREAM, "xgroup-createconsumer", key);
    }
    // The time of the last access is a change too, although it is not propagated.
    ctx.db.changed_quietly(key, is_new.into());
    Ok(Seen { group, consumer, is_new, has_any })
}

/// Propagates a new consumer, unless `is_propagated`: the propagation of its entries creates it.
pub(super) fn propagate_consumer(db: &mut Db, key: Key<'_>, who: &Seen<'_>, is_propagated: bool) {
    if who.is_new && !is_propagated {
        db.propagate_as(&[b"XGROUP", b"CREATECONSUMER", key.bytes(), who.group, who.consumer]);
    }
}

/// Writes the claimed entries, followed by entries that the group has not read yet. With a claim, each entry has
/// its idle time and its number of deliveries.
fn answer_claimed_and_new(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    who: &Seen<'_>,
    reading: &Reading<'_>,
    claims: &Claims,
    claimed: &[StreamId],
) -> Outcome {
    let mark = ctx.reply.begin_array();
    let reply = &mut *ctx.reply;
    let Seen { group, consumer, .. } = *who;
    let (mut read, with_history) = (Vec::new(), claims.idle_ms.is_some());
    let count_max = (reading.count_max() - claimed.len()) as u64;
    let answered = ctx.db.change(key, |stream: &mut Stream, context| {
        let consumer = stream.group(group)?.find_consumer(consumer)?;
        claimed.iter().try_for_each(|&id| claim(stream, group, consumer, id, context.now_ms, reply))?;
        stream.read_new(group, consumer, count_max, reading.no_acknowledge, context.now_ms, |id, entry, _| {
            read.push(id);
            match with_history {
                true => reply_entry_with_history(&entry, 0, 0, reply),
                false => reply_entry(&entry, reply),
            }
        })
    })?;
    let answered = claimed.len() + usize_of(answered.flatten().unwrap_or(0));
    ctx.reply.end_array(mark, answered);
    propagate_consumer(ctx.db, key, who, !claimed.is_empty() || !read.is_empty() && !reading.no_acknowledge);
    propagate_pending(ctx.db, key, group, claimed);
    propagate_pending(ctx.db, key, group, &read);
    if !read.is_empty() && !reading.no_acknowledge {
        note_pending(ctx.db, key, group, false);
    }
    if claimed.is_empty() || !read.is_empty() {
        propagate_position(ctx.db, key, group);
    }
    ctx.db.changed_quietly(key, 1);
    Ok(())
}

/// Assigns an existing pending entry to a consumer, and writes it to the reply.
fn claim(
    stream: &mut Stream,
    group: &[u8],
    consumer: ConsumerId,
    id: StreamId,
    now_ms: i64,
    reply: &mut ReplyBuffer,
) -> Option<()> {
    let Pending { delivered_ms, deliveries, .. } = stream.group(group)?.pending(id)?;
    reply_entry_with_history(&stream.get(id)?, now_ms.saturating_sub(delivered_ms), deliveries, reply);
    let mut state = stream.group_mut(group)?;
    let deliveries = deliveries.wrapping_add(1);
    state.assign(id, Pending { consumer, delivered_ms: now_ms, deliveries });
    state.consumer_mut(consumer).active_ms = Some(now_ms);
    Some(())
}

fn reply_entry_with_history(entry: &Entry<'_>, idle_ms: i64, deliveries: u64, reply: &mut ReplyBuffer) {
    reply.array(4);
    reply_entry_parts(entry, reply);
    reply.integer(idle_ms);
    reply.integer(signed_bits(deliveries));
}

/// Notifies clients that wait to claim pending entries of the group: there may be new ones, or earlier ones.
pub(super) fn note_pending(db: &mut Db, key: Key<'_>, group: &[u8], may_be_due_earlier: bool) {
    let db_index = db.selected();
    db.change_log.became_pending(db_index, key.bytes(), group, may_be_due_earlier);
}

/// Propagates the consumers and delivery times of pending entries.
pub(super) fn propagate_pending(db: &mut Db, key: Key<'_>, group: &[u8], ids: &[StreamId]) {
    db.change_log.not_verbatim();
    if !db.change_log.is_recording() {
        return;
    }
    for &id in ids {
        let state = db.stored_collection::<Stream>(key).and_then(|stream| stream.group(group));
        let Some(state) = state else { return };
        let Some(pending) = state.pending(id) else { continue };
        let consumer = state.consumer(pending.consumer).name();
        let consumer = consumer.to_vec();
        with_claim(key.bytes(), group, &consumer, id, pending, |claim| db.propagate_as(claim));
    }
}

/// Propagates the read position of a group.
pub(super) fn propagate_position(db: &mut Db, key: Key<'_>, group: &[u8]) {
    db.change_log.not_verbatim();
    if !db.change_log.is_recording() {
        return;
    }
    let Some(state) = db.stored_collection::<Stream>(key).and_then(|stream| stream.group(group)) else {
        return;
    };
    let last_id = state.last_id.to_string();
    let read = state.entries_read.map_or(-1, signed_count).to_string();
    db.propagate_as(&[
        b"XGROUP",
        b"SETID",
        key.bytes(),
        group,
        last_id.as_bytes(),
        b"ENTRIESREAD",
        read.as_bytes(),
    ]);
}

/// Writes the consumer's pending entries again; deleted entries have no fields.
fn answer_pending(
    ctx: &mut Context<'_>,
    key: Key<'_>,
    who: &Seen<'_>,
    after: StreamId,
    count_max: usize,
) -> Outcome {
    let mark = ctx.reply.begin_array();
    let reply = &mut *ctx.reply;
    let Seen { group, consumer, .. } = *who;
    let mut read = Vec::new();
    let answered = ctx.db.change(key, |stream: &mut Stream, context| {
        let consumer = stream.group(group)?.find_consumer(consumer)?;
        stream.read_pending(group, consumer, after, count_max as u64, context.now_ms, |id, entry| match entry
        {
            Some(entry) => {
                read.push(id);
                reply_entry(&entry, reply);
            }
            None => {
                reply.array(2);
                reply_id(id, reply);
                reply.null_array();
            }
        })
    })?;
    let answered = answered.flatten().unwrap_or(0);
    ctx.reply.end_array(mark, usize_of(answered));
    propagate_consumer(ctx.db, key, who, false);
    propagate_pending(ctx.db, key, group, &read);
    ctx.db.changed_quietly(key, 1);
    Ok(())
}
