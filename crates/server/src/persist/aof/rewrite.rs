//! The data as the fewest commands that make it: a base without RDB (`aof-use-rdb-preamble no`).

use crate::db::hash::Hash;
use crate::db::object::{Object, StringValue, Value};
use crate::db::sorted_set::SortedSet;
use crate::db::stream::{Group, Stream, StreamId};
use crate::db::{Db, Set};
use std::io::{self, Write};
use structures::key_table::Value as Stored;
use wire::aof::{write_command, write_timestamp};

/// Elements in one command.
const ELEMENTS_MAX: usize = 64;
/// Keys between two calls of `progress`.
const KEYS_PER_PROGRESS: u64 = 1024;

/// Gathers elements into commands of bounded length.
struct Batch<'a, W> {
    sink: &'a mut W,
    head: [&'a [u8]; 2],
    arguments: Vec<Vec<u8>>,
    arguments_max: usize,
    outcome: io::Result<()>,
}

impl<'a, W: Write> Batch<'a, W> {
    fn new(sink: &'a mut W, name: &'a [u8], key: &'a [u8], per_element: usize) -> Self {
        let arguments_max = ELEMENTS_MAX * per_element;
        Batch { sink, head: [name, key], arguments: Vec::new(), arguments_max, outcome: Ok(()) }
    }

    fn add(&mut self, argument: Vec<u8>) {
        if self.arguments.len() == self.arguments_max {
            self.send();
        }
        self.arguments.push(argument);
    }

    fn send(&mut self) {
        if self.arguments.is_empty() || self.outcome.is_err() {
            return;
        }
        let arguments: Vec<&[u8]> =
            self.head.into_iter().chain(self.arguments.iter().map(Vec::as_slice)).collect();
        self.outcome = write_command(self.sink, arguments.into_iter());
        self.arguments.clear();
    }

    fn finish(mut self) -> io::Result<()> {
        self.send();
        self.outcome
    }
}

fn command<W: Write>(sink: &mut W, arguments: &[&[u8]]) -> io::Result<()> {
    write_command(sink, arguments.iter().copied())
}

/// Writes all of `db` and the sources of function libraries; `timestamp_s` is noted in front, if given. `progress`
/// hears how many keys have been written.
pub fn write_commands<W: Write>(
    sink: &mut W,
    db: &Db,
    libraries: &[Vec<u8>],
    timestamp_s: Option<i64>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    if let Some(unix_s) = timestamp_s {
        write_timestamp(sink, unix_s)?;
    }
    for library in libraries {
        command(sink, &[b"FUNCTION", b"LOAD", library])?;
    }
    let mut keys = 0;
    for index in (0..db.database_count()).filter(|&index| !db.database(index).is_empty()) {
        command(sink, &[b"SELECT", index.to_string().as_bytes()])?;
        for entry in db.database(index).iter() {
            let value = Value::new(entry);
            write_value(sink, entry.key(), &value)?;
            if let Some(expiry_ms) = entry.expiry_ms() {
                command(sink, &[b"PEXPIREAT", entry.key(), expiry_ms.to_string().as_bytes()])?;
            }
            keys += 1;
            if keys % KEYS_PER_PROGRESS == 0 {
                progress(keys);
            }
        }
    }
    progress(keys);
    Ok(())
}

fn write_value<W: Write>(sink: &mut W, key: &[u8], value: &Value<'_>) -> io::Result<()> {
    match value.entry().value() {
        Stored::Inline(bytes) => command(sink, &[b"SET", key, bytes]),
        Stored::Integer(n) => command(sink, &[b"SET", key, &StringValue::Integer(n).to_vec()]),
        Stored::Object(Object::String(text)) => command(sink, &[b"SET", key, text]),
        Stored::Object(Object::List(list)) => {
            let mut batch = Batch::new(sink, b"RPUSH", key, 1);
            list.for_each(0, list.len(), &mut |element| batch.add(element.to_vec()));
            batch.finish()
        }
        Stored::Object(Object::Set(set)) => write_set(sink, key, set),
        Stored::Object(Object::SortedSet(set)) => write_sorted_set(sink, key, set),
        Stored::Object(Object::Hash(hash)) => write_hash(sink, key, hash),
        Stored::Object(Object::Stream(stream)) => write_stream(sink, key, stream),
    }
}

fn write_set<W: Write>(sink: &mut W, key: &[u8], set: &Set) -> io::Result<()> {
    let mut batch = Batch::new(sink, b"SADD", key, 1);
    set.for_each(&mut |member| batch.add(member.to_vec()));
    batch.finish()
}

fn write_sorted_set<W: Write>(sink: &mut W, key: &[u8], set: &SortedSet) -> io::Result<()> {
    let mut batch = Batch::new(sink, b"ZADD", key, 2);
    set.for_range(0..set.len(), false, &mut |member, score| {
        batch.add(wire::number::f64_text(score).to_vec());
        batch.add(member.to_vec());
        true
    });
    batch.finish()
}

/// Fields that expire are written one by one, each with its time.
fn write_hash<W: Write>(sink: &mut W, key: &[u8], hash: &Hash) -> io::Result<()> {
    let mut expiring = Vec::new();
    let mut batch = Batch::new(sink, b"HMSET", key, 2);
    hash.for_each(i64::MIN, &mut |field, value| {
        let field = field.to_vec();
        let expiry_ms = hash.get_with_expiry(&field, i64::MIN).and_then(|(_, expiry_ms)| expiry_ms);
        match expiry_ms.filter(|_| hash.has_expiring()) {
            Some(at_ms) => expiring.push((field, value.to_vec(), at_ms)),
            None => {
                batch.add(field);
                batch.add(value.to_vec());
            }
        }
    });
    batch.finish()?;
    expiring.iter().try_for_each(|(field, value, at_ms)| {
        let at_ms = at_ms.to_string();
        command(sink, &[b"HSETEX", key, b"PXAT", at_ms.as_bytes(), b"FIELDS", b"1", field, value])
    })
}

fn write_stream<W: Write>(sink: &mut W, key: &[u8], stream: &Stream) -> io::Result<()> {
    let mut outcome = Ok(());
    stream.for_each(&mut |id, fields| {
        let mut arguments = vec![b"XADD".to_vec(), key.to_vec(), id.to_string().into_bytes()];
        arguments.extend(fields.flat_map(|(field, value)| [field.to_vec(), value.to_vec()]));
        if outcome.is_ok() {
            outcome = write_command(sink, arguments.iter().map(Vec::as_slice));
        }
    });
    outcome?;
    let state = stream.state();
    let (last_id, deleted) = (state.last_id.to_string(), state.max_deleted_id.to_string());
    if state.len == 0 {
        // A stream without entries is made by adding one and trimming it away at once.
        let id = state.last_id.max(StreamId { ms: 0, seq: 1 }).to_string();
        command(sink, &[b"XADD", key, b"MAXLEN", b"0", id.as_bytes(), b"x", b"y"])?;
    }
    let added = state.entries_added.to_string();
    command(
        sink,
        &[
            b"XSETID",
            key,
            last_id.as_bytes(),
            b"ENTRIESADDED",
            added.as_bytes(),
            b"MAXDELETEDID",
            deleted.as_bytes(),
        ],
    )?;
    stream.groups().try_for_each(|(name, group)| write_group(sink, key, name, group))
}

fn write_group<W: Write>(sink: &mut W, key: &[u8], name: &[u8], group: &Group) -> io::Result<()> {
    let last_id = group.last_id.to_string();
    let read = group.entries_read.map_or(-1, |read| read as i64).to_string();
    command(sink, &[b"XGROUP", b"CREATE", key, name, last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()])?;
    for (_, consumer) in group.consumers() {
        command(sink, &[b"XGROUP", b"CREATECONSUMER", key, name, consumer.name()])?;
    }
    for (id, pending) in group.pending_from(StreamId::MIN) {
        let consumer = group.consumer(pending.consumer).name();
        let claim = claim(key, name, consumer, id, pending.delivered_ms, pending.deliveries);
        write_command(sink, claim.iter().map(Vec::as_slice))?;
    }
    Ok(())
}

/// The command that makes an entry pending exactly so.
pub fn claim(
    key: &[u8],
    group: &[u8],
    consumer: &[u8],
    id: StreamId,
    delivered_ms: i64,
    deliveries: u64,
) -> Vec<Vec<u8>> {
    let (id, time, count) = (id.to_string(), delivered_ms.to_string(), deliveries.to_string());
    let arguments: [&[u8]; 12] = [
        b"XCLAIM",
        key,
        group,
        consumer,
        b"0",
        id.as_bytes(),
        b"TIME",
        time.as_bytes(),
        b"RETRYCOUNT",
        count.as_bytes(),
        b"JUSTID",
        b"FORCE",
    ];
    arguments.iter().map(|argument| argument.to_vec()).collect()
}
