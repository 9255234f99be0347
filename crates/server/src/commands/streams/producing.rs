//! Idempotent producers: messages that are added only once, however often they are sent. XADD's IDMP and IDMPAUTO,
//! XCFGSET and XIDMPRECORD.

use super::ids;
use crate::command::{Args, Context, Outcome};
use crate::db::stream::{MessageLimits, Stream, StreamId};
use crate::error::ClientError;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use wire::convert::low_u64;
use xxhash_rust::xxh3::Xxh3;

const TOO_MANY_PRODUCERS: ClientError =
    ClientError::text("ERR the stream remembers messages of 65536 producers and can remember no other's");

/// A producer's message.
pub(super) struct Message<'a> {
    producer: &'a [u8],
    /// `None`: the id is derived from its fields.
    id: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Parses IDMP or IDMPAUTO at `at`, if present; also returns the index after it.
    pub fn parse(args: Args<'a>, at: usize, is_second: bool) -> Result<Option<(Self, usize)>, ClientError> {
        let is_computed = args.is(at, "IDMPAUTO") && at + 1 < args.len();
        if !is_computed && !(args.is(at, "IDMP") && at + 2 < args.len()) {
            return Ok(None);
        }
        if is_second {
            return Err(ClientError::text("ERR syntax error, IDMP/IDMPAUTO specified multiple times"));
        }
        let producer = args.at(at + 1);
        if producer.is_empty() {
            return Err(ClientError::text(match is_computed {
                true => "ERR syntax error, IDMPAUTO requires a non-empty producer ID",
                false => "ERR syntax error, IDMP requires a non-empty producer ID",
            }));
        }
        if is_computed {
            return Ok(Some((Message { producer, id: None }, at + 2)));
        }
        let id = args.at(at + 2);
        if id.is_empty() {
            return Err(ClientError::text("ERR syntax error, IDMP requires a non-empty idempotent ID"));
        }
        Ok(Some((Message { producer, id: Some(id) }, at + 3)))
    }

    /// The message with its id, derived from `items` if it has none.
    pub fn identified(self, items: Args<'_>) -> IdentifiedMessage<'a> {
        let id = self.id.map_or_else(|| Cow::from(digest_of(items).to_vec()), Cow::from);
        IdentifiedMessage { producer: self.producer, id }
    }
}

/// A message with its id.
pub(super) struct IdentifiedMessage<'a> {
    /// Name of the producer.
    pub producer: &'a [u8],
    /// Id of the message, unique to the producer.
    pub id: Cow<'a, [u8]>,
}

impl IdentifiedMessage<'_> {
    /// The entry of a message that was added before, which is counted; an error if the message cannot be remembered.
    pub fn find(&self, stream: &mut Stream, now_ms: i64) -> Result<Option<StreamId>, ClientError> {
        let Some(producers) = stream.producers() else { return Ok(None) };
        let found = producers.find(self.producer, &self.id, now_ms.max(0) as u64);
        if found.is_none() && !producers.has_room_for(self.producer) {
            return Err(TOO_MANY_PRODUCERS);
        }
        Ok(found)
    }
}

/// The digest of fields and values, independent of their order and the same as in Redis: the 128 bits of XXH3 of each field,
/// its length and its value; of these the sums and the exclusive disjunctions, crossed.
fn digest_of(items: Args<'_>) -> [u8; 16] {
    let (mut sums, mut disjunctions) = ([0u64; 2], [0u64; 2]);
    let mut hasher = Xxh3::new();
    for at in (0..items.len()).step_by(2) {
        let (field, value) = (items.at(at), items.at(at + 1));
        hasher.reset();
        hasher.update(field);
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(value);
        let digest = hasher.digest128();
        for (half, bits) in [low_u64(digest), low_u64(digest >> 64)].into_iter().enumerate() {
            sums[half] = sums[half].wrapping_add(bits);
            disjunctions[half] ^= bits;
        }
    }
    let low = sums[0] ^ disjunctions[1].rotate_left(1);
    let high = sums[1] ^ disjunctions[0].rotate_left(1);
    ((high as u128) << 64 | low as u128).to_le_bytes()
}

pub(super) fn xcfgset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    ctx.db.read_collection_for_write::<Stream>(key)?.ok_or(ClientError::NoSuchKey)?;
    let (mut kept_s, mut messages_max) = (None, None);
    let mut at = 2;
    while at < args.len() {
        let has_value = at + 1 < args.len();
        if has_value && args.is(at, "IDMP-DURATION") {
            parse_limit(args, at, &mut kept_s, MessageLimits::KEPT_S, ("IDMP-DURATION", "seconds"))?;
        } else if has_value && args.is(at, "IDMP-MAXSIZE") {
            parse_limit(
                args,
                at,
                &mut messages_max,
                MessageLimits::MESSAGES_MAX,
                ("IDMP-MAXSIZE", "entries"),
            )?;
        } else {
            return Err(ClientError::Syntax);
        }
        at += 2;
    }
    if kept_s.is_none() && messages_max.is_none() {
        return Err(ClientError::text("ERR At least one parameter must be specified"));
    }
    let changed = ctx.db.change(key, |stream: &mut Stream, context| {
        let before = stream.message_limits();
        let limits = MessageLimits {
            kept_s: kept_s.unwrap_or(before.kept_s),
            messages_max: messages_max.unwrap_or(before.messages_max),
        };
        stream.keep_message_limits(limits, context.seed)
    })?;
    if changed == Some(true) {
        ctx.db.changed_quietly(key, 1);
    }
    ctx.reply.ok();
    Ok(())
}

/// Parses the number after the option at `at`, which can occur once.
fn parse_limit(
    args: Args<'_>,
    at: usize,
    limit: &mut Option<u32>,
    allowed: RangeInclusive<u32>,
    (name, unit): (&str, &str),
) -> Result<(), ClientError> {
    if limit.is_some() {
        return Err(ClientError::formatted(format!("ERR {name} specified multiple times")));
    }
    let number = u32::try_from(args.integer(at + 1)?).ok().filter(|number| allowed.contains(number));
    if number.is_none() {
        let (min, max) = (allowed.start(), allowed.end());
        return Err(ClientError::formatted(format!("ERR {name} must be between {min} and {max} {unit}")));
    }
    *limit = number;
    Ok(())
}

pub(super) fn xidmprecord(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let id = ids::strict(args.at(4), 0)?;
    let (key, producer, message) = (args.key(1), args.at(2), args.at(3));
    if producer.is_empty() {
        return Err(ClientError::text("ERR producer ID must be non-empty"));
    }
    if message.is_empty() {
        return Err(ClientError::text("ERR idempotent ID must be non-empty"));
    }
    let stream = ctx.db.read_collection_for_write::<Stream>(key)?.ok_or(ClientError::NoSuchKey)?;
    let has_entry = stream.get(id).is_some();
    // A message is still remembered after its entry was deleted.
    if !has_entry && !ctx.is_repeated() {
        return Err(ClientError::text("ERR No such message in stream"));
    }
    let message = IdentifiedMessage { producer, id: message.into() };
    // If the clock is behind the primary's, a message that has expired there is still remembered here.
    let may_differ = ctx.is_repeated();
    let recorded = ctx.db.change(key, |stream: &mut Stream, context| {
        match message.find(stream, context.now_ms)? {
            Some(known) if known == id => return Ok(false),
            Some(_) if !may_differ => {
                return Err(ClientError::text(
                    "ERR IID already exists for this producer with a different stream ID",
                ));
            }
            _ => {}
        }
        let now_ms = context.now_ms.max(0) as u64;
        Ok(stream.producers_mut(context.seed).record(producer, &message.id, id, now_ms))
    })?;
    if recorded.transpose()? == Some(true) {
        ctx.db.changed_quietly(key, 1);
    }
    ctx.reply.ok();
    Ok(())
}
