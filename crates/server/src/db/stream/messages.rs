//! Messages that producers add idempotently (at most once), in files.
//!
//! ```text
//!  seconds | greatest number | producers | (name | messages | (message | id)...)... | ever added | ever refused
//! ```
//! This is the end of a stream in Redis since version 4 of its form. This server writes version 3, which all servers
//! read, and these data after the stream in fields that other servers skip; a field holds a part of the producers.

use super::rdb::{read_id, write_id};
use super::{Stream, StreamId, log};
use crate::db::rdb::{AsideSink, ReadValue, Result, corrupt, unsupported};
use crate::db::{Db, Key};
use std::io::{self, Read};
use std::ops::RangeInclusive;
use structures::hash::HashSeed;
use structures::stream::{MessageLimits, Producers};
use wire::rdb::{Reader, Writer};

/// Name of the fields.
pub const MESSAGES: &str = "stream-idmp";
/// A field ends after the message with which it exceeds this size.
const PART_BYTES: usize = 256 * 1024;
/// Producers that a search for old messages visits before it yields.
const PRODUCERS_PER_ROUND: usize = 64;

type Part<'a> = Vec<(&'a [u8], Vec<(&'a [u8], StreamId)>)>;

impl Stream {
    /// See [`crate::db::rdb::RdbType::write_asides`].
    pub(super) fn write_messages(&self, sink: &mut AsideSink<'_>) -> io::Result<()> {
        let Some(producers) = self.log.producers() else { return Ok(()) };
        let (mut part, mut bytes) = (Part::new(), 0);
        for (name, messages) in producers.iter() {
            part.push((name, Vec::new()));
            bytes += name.len();
            for (message, id) in messages {
                if let Some((_, listed)) = part.last_mut() {
                    listed.push((message, id));
                }
                bytes += message.len() + size_of::<StreamId>();
                if bytes > PART_BYTES {
                    write_part(producers, &part, sink)?;
                    part.clear();
                    part.push((name, Vec::new()));
                    bytes = 0;
                }
            }
        }
        write_part(producers, &part, sink)
    }

    /// Reads a field that follows the stream.
    pub fn read_messages(&mut self, content: &[u8], now_ms: i64, seed: HashSeed) -> Result<()> {
        // A stream without messages and limits of its own has no such field.
        self.log.producers_mut(seed);
        let mut reader = Reader::of_bytes(content);
        read_messages(&mut reader, &mut self.log, now_ms, seed)
    }

    /// Drops expired messages of some producers.
    pub fn forget_some(&mut self, now_ms: i64) {
        self.log.forget_messages(now_ms.max(0) as u64, PRODUCERS_PER_ROUND);
    }
}

impl ReadValue {
    /// As [`Stream::read_messages`], for a stream; other types have no such field.
    pub fn read_messages(&mut self, content: &[u8], now_ms: i64, seed: HashSeed) -> Result<()> {
        use crate::db::object::ObjectVariant;
        let ReadValue::Object(object) = self else { return corrupt(NO_STREAM) };
        match Stream::of_mut(object) {
            Some(stream) => stream.read_messages(content, now_ms, seed),
            None => corrupt(NO_STREAM),
        }
    }
}

const NO_STREAM: &str = "Messages of producers stand behind a key that is no stream";

impl Db {
    /// As [`Stream::read_messages`], for the stream loaded last.
    pub fn load_messages(&mut self, key: Key<'_>, content: &[u8]) -> Result<()> {
        let (now_ms, seed) = (self.turn.now_ms, self.seed);
        match self.change_unasked(key, |stream: &mut Stream, _| stream.read_messages(content, now_ms, seed)) {
            Ok(Some(read)) => read,
            Ok(None) => Ok(()),
            Err(_) => corrupt(NO_STREAM),
        }
    }
}

fn write_part(producers: &Producers, part: &Part<'_>, sink: &mut AsideSink<'_>) -> io::Result<()> {
    let mut writer = Writer::new(Vec::new(), false, false);
    let limits = producers.limits();
    writer.length(limits.kept_s.into())?;
    writer.length(limits.messages_max.into())?;
    writer.length(part.len() as u64)?;
    for (name, messages) in part {
        writer.string(name)?;
        writer.length(messages.len() as u64)?;
        for (message, id) in messages {
            writer.string(message)?;
            write_id(&mut writer, *id)?;
        }
    }
    let (added, duplicates) = producers.counts();
    writer.length(added)?;
    writer.length(duplicates)?;
    sink(MESSAGES, &writer.finish()?)
}

fn limit(read: u64, allowed: RangeInclusive<u32>, what: &'static str) -> Result<u32> {
    match u32::try_from(read) {
        Ok(limit) if allowed.contains(&limit) => Ok(limit),
        _ => corrupt(what),
    }
}

pub(super) fn read_messages<R: Read>(
    reader: &mut Reader<R>,
    stream: &mut log::Stream,
    now_ms: i64,
    seed: HashSeed,
) -> Result<()> {
    let limits = MessageLimits {
        kept_s: limit(reader.length()?, MessageLimits::KEPT_S, "Stream IDMP duration out of range")?,
        messages_max: limit(
            reader.length()?,
            MessageLimits::MESSAGES_MAX,
            "Stream IDMP max entries out of range",
        )?,
    };
    stream.set_message_limits(limits, seed);
    let now_ms = now_ms.max(0) as u64;
    for _ in 0..reader.length()? {
        let producer = reader.string()?.to_vec();
        for _ in 0..reader.length()? {
            let message = reader.string()?.to_vec();
            let id = read_id(reader)?;
            if id.ms.saturating_add(u64::from(limits.kept_s) * 1000) <= now_ms {
                continue;
            }
            if !stream.producers_mut(seed).record(&producer, &message, id, now_ms) {
                return unsupported("more producers have had messages added once than a stream remembers");
            }
        }
    }
    let (added, duplicates) = (reader.length()?, reader.length()?);
    if stream.producers().is_some() || added > 0 || duplicates > 0 {
        stream.producers_mut(seed).set_counts(added, duplicates);
    }
    Ok(())
}
