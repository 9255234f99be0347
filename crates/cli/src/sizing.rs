//! `--sizing`: estimates the memory of a server's data in Warmline. A sample of keys is copied (DUMP) to a temporary
//! Warmline server, measured there (MEMORY USAGE), and extrapolated to all keys.
//!
//! 1. `sample` describes and copies keys, `pieces` copies some elements of large ones.
//! 2. `own_server` is the temporary server, *Warmline* in the report; the other one is the *source*.
//! 3. `estimate` sums and extrapolates, `report` formats.
//!
//! SCAN returns keys in the order of their hashes, which is independent of their contents: the first keys are a random
//! sample. Rejected: a model of bytes by type and length, which would need a formula for each encoding and size class, and
//! a new one at each change of a structure.

mod estimate;
mod own_server;
mod pieces;
mod report;
mod sample;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::{info_field, printable};
use wire::response::Value;

use crate::Failure;
use crate::options::Options;
use crate::progress::Progress;
use crate::scan::{Walk, allow_reads, catch_interrupts, total_keys};
use crate::session::Session;
use estimate::{Database, Sizes};
use own_server::{OwnServer, Request, request};
use report::About;
use sample::Copier;

/// Number of keys described in one pipeline.
const BATCH_KEYS: usize = 128;

/// Options of encodings, with the names of all versions.
const ENCODING_OPTIONS: [&str; 17] = [
    "hash-max-ziplist-entries",
    "hash-max-ziplist-value",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "list-max-ziplist-size",
    "list-max-listpack-size",
    "list-compress-depth",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "zset-max-ziplist-entries",
    "zset-max-ziplist-value",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "hll-sparse-max-bytes",
];

pub fn run(session: &mut Session, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    allow_reads(session)?;
    // Servers without this command count the reads as accesses.
    session.request(&["CLIENT", "NO-TOUCH", "ON"])?;
    let info = info(session)?;
    // The temporary server must end with this program at any interrupt.
    catch_interrupts(&session.interrupted)?;
    let mut own = OwnServer::start(options.sizing_options.sizing_server.as_deref())?;
    let has_options = copy_options(session, &mut own)?;
    let databases = numbers_and_keys(&info);
    let samples = options.sizing_options.sizing_samples;
    let bar =
        Progress::keys(databases.iter().map(|(_, keys)| (*keys).min(samples)).fold(0, u64::saturating_add));
    let read_bytes_each = (options.sizing_options.sizing_bytes / databases.len().max(1) as u64).max(1);

    let mut copier = Copier { source: session, own: &mut own, read_bytes: 0 };
    let mut sizes = Sizes::default();
    let mut was_interrupted = false;
    for (number, _) in databases {
        let mut database = DatabaseSample {
            samples,
            read_bytes_max: copier.read_bytes.saturating_add(read_bytes_each),
            bar: &bar,
        };
        was_interrupted = database.take(number, &mut copier, &mut sizes, options)?;
        if was_interrupted {
            break;
        }
    }
    drop(bar);
    let about = About {
        source: format!("{} at {}", name_and_version(&info), copier.source.address),
        own_version: copier.own.version.clone(),
        source_used_bytes: info_field(&info, "used_memory").and_then(|bytes| bytes.parse().ok()),
        read_bytes: copier.read_bytes,
        has_options,
        is_of_all_keys: options.pattern.is_none()
            && options.quoted_pattern.is_none()
            && options.key_type.is_none(),
        was_interrupted,
    };
    print_text!("{}", report::text(&sizes, &about));
    Ok(())
}

fn info(session: &mut Session) -> Result<String, Failure> {
    let reply = session.request(&["INFO"])?;
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
    if reply.is_error() { Err(Failure::Reply(format!("INFO returned an error: {text}"))) } else { Ok(text) }
}

fn name_and_version(info: &str) -> String {
    let names = ["warmline", "valkey", "redis"];
    let known = names.iter().find_map(|name| Some((*name, info_field(info, &format!("{name}_version"))?)));
    known.map_or("the server".to_owned(), |(name, version)| printable(&format!("{name} {version}")))
}

/// Parses the databases and their numbers of keys from lines such as `db0:keys=5,...`.
fn numbers_and_keys(info: &str) -> Vec<(u64, u64)> {
    let of_line = |line: &str| -> Option<(u64, u64)> {
        let (number, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        Some((number.parse().ok()?, rest.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(of_line).collect()
}

/// Copies the options of encodings from the source to Warmline; returns whether they could be read.
fn copy_options(session: &mut Session, own: &mut OwnServer) -> Result<bool, Failure> {
    let questions: Vec<Request> =
        ENCODING_OPTIONS.iter().map(|name| request(&[b"CONFIG", b"GET", name.as_bytes()])).collect();
    let settings = settings(&session.pipeline(&questions)?);
    own.pipeline(&settings)?;
    Ok(!settings.is_empty())
}

/// Returns the commands that set the replies for [`ENCODING_OPTIONS`], in their order. Other options in a reply are
/// ignored: a malicious source could make the temporary server listen on the network.
fn settings(replies: &[Value]) -> Vec<Request> {
    let mut settings = Vec::new();
    for (asked, reply) in ENCODING_OPTIONS.iter().zip(replies) {
        for (name, value) in reply.entries() {
            if let (Some(name), Some(value)) = (name.as_bytes(), value.as_bytes())
                && name == asked.as_bytes()
            {
                settings.push(request(&[b"CONFIG", b"SET", name, value]));
            }
        }
    }
    settings
}

/// The sampling of one database.
struct DatabaseSample<'a> {
    samples: u64,
    /// Number of read bytes at which the sample ends.
    read_bytes_max: u64,
    bar: &'a Progress,
}

impl DatabaseSample<'_> {
    /// Takes the sample; returns whether Ctrl-C interrupted it.
    fn take(
        &mut self,
        number: u64,
        copier: &mut Copier<'_>,
        sizes: &mut Sizes,
        options: &Options,
    ) -> Result<bool, Failure> {
        select(copier.source, number)?;
        let stats = copier.source.request(&["MEMORY", "STATS"])?;
        let keys = total_keys(copier.source)?;
        let source_table_bytes = own_server::table_bytes(&stats, number).unwrap_or(0);
        sizes.databases.push(Database::new(number));

        let mut walk = Walk::new(copier.source, options)?;
        let mut met = 0;
        let (mut batch, mut is_full) = (Vec::new(), false);
        loop {
            let found = walk.next(copier.source)?;
            let is_over = found.is_none();
            let found = found.unwrap_or_default();
            met += found.len() as u64;
            if !is_full {
                batch.extend(found);
            }
            if batch.len() >= BATCH_KEYS || is_over {
                is_full = !self.measure(std::mem::take(&mut batch), copier, sizes)?;
            }
            // Only a full scan counts the matching keys.
            if is_over || (is_full && !walk.is_selective()) {
                break;
            }
        }
        let Some(database) = sizes.databases.last_mut() else { return Ok(false) };
        (database.keys, database.source_table_bytes) = if walk.is_selective() {
            (met, (source_table_bytes as f64 * met as f64 / keys.max(1) as f64) as u64)
        } else {
            (keys.max(database.sampled()), source_table_bytes)
        };
        database.own_table_bytes = copier.own.measure_table(database.measurable_keys() as u64)?;
        Ok(walk.was_interrupted())
    }

    /// Adds keys to the sample; returns whether it may grow further.
    fn measure(
        &self,
        mut keys: Vec<Vec<u8>>,
        copier: &mut Copier<'_>,
        sizes: &mut Sizes,
    ) -> Result<bool, Failure> {
        let sampled = sizes.databases.last().map_or(0, Database::sampled);
        keys.truncate((self.samples - sampled.min(self.samples)) as usize);
        let keys = sample::describe(copier.source, &keys)?;
        let interrupted = Arc::clone(&copier.source.interrupted);
        let measured = copier.measure(&keys, |read_bytes| {
            read_bytes < self.read_bytes_max && !interrupted.load(Ordering::Relaxed)
        })?;
        for (key, measured) in keys.iter().zip(&measured) {
            sizes.add(key, measured);
        }
        self.bar.add(measured.len() as u64);
        let sampled = sizes.databases.last().map_or(0, Database::sampled);
        Ok(sampled < self.samples && copier.read_bytes < self.read_bytes_max)
    }
}

fn select(session: &mut Session, number: u64) -> Result<(), Failure> {
    match session.request(&["SELECT", &number.to_string()])? {
        Value::Error(text) => {
            Err(Failure::Reply(format!("SELECT {number} failed: {}", String::from_utf8_lossy(&text))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_were_asked_for_are_set() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let reply =
            |words: &[&str]| Value::Array(words.iter().map(|word| bulk(word)).collect::<Vec<Value>>());
        let replies = [
            reply(&["hash-max-ziplist-entries", "7", "port", "6379"]),
            reply(&["protected-mode", "no"]),
            reply(&[]),
            Value::Error(b"ERR".to_vec()),
        ];
        assert_eq!(settings(&replies), [request(&[b"CONFIG", b"SET", b"hash-max-ziplist-entries", b"7"])]);
    }

    #[test]
    fn databases_with_keys_are_found() {
        let info = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n# Keyspace\r\n\
                    db0:keys=5,expires=0,avg_ttl=0\r\ndb12:keys=7,expires=1\r\n";
        assert_eq!(numbers_and_keys(info), [(0, 5), (12, 7)]);
        assert_eq!(name_and_version(info), "valkey 9.1.2");
        assert_eq!(name_and_version(""), "the server");
    }
}
