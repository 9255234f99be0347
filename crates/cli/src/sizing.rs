//! `--sizing`: what a server's data would take in Warmline. Keys of a sample are copied (DUMP) into a Warmline server that
//! is started for this; it says what each takes (MEMORY USAGE), and the sum is extrapolated to all keys.
//!
//! 1. `sample` asks what keys are and copies them, `pieces` some elements of those that are large.
//! 2. `own_server` is the server that measures.
//! 3. `estimate` sums up and extrapolates, `report` prints.
//!
//! SCAN meets keys in the order of their hashes, which has nothing to do with what they are: those that come first are a
//! random sample. A model of bytes by type and length was rejected: there are as many formulas as encodings and sizes of
//! the allocator, each true until the next change of a structure.

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
use crate::scan::{Walk, allow_reads, heed_interrupts, total_keys};
use crate::session::Session;
use estimate::{Database, Sizes};
use own_server::{OwnServer, Request, request};
use report::About;
use sample::Copier;

/// Keys that are asked about together.
const BATCH_KEYS: usize = 128;

/// Options that decide how collections are stored, by the names of all servers' versions.
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
    // Servers that do not know it count what is read as used.
    session.request(&["CLIENT", "NO-TOUCH", "ON"])?;
    let info = info(session)?;
    // The server that is started is to end with this, whenever it is interrupted.
    heed_interrupts(&session.interrupted)?;
    let mut here = OwnServer::start(options.sizing_options.sizing_server.as_deref())?;
    let has_options = copy_options(session, &mut here)?;
    let databases = numbers_and_keys(&info);
    let samples = options.sizing_options.sizing_samples;
    let bar =
        Progress::keys(databases.iter().map(|(_, keys)| (*keys).min(samples)).fold(0, u64::saturating_add));
    let read_bytes_each = (options.sizing_options.sizing_bytes / databases.len().max(1) as u64).max(1);

    let mut copier = Copier { there: session, here: &mut here, read_bytes: 0 };
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
        there: format!("{} at {}", name_and_version(&info), copier.there.address),
        here_version: copier.here.version.clone(),
        there_used_bytes: info_field(&info, "used_memory").and_then(|bytes| bytes.parse().ok()),
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

/// The databases that have keys: `db0:keys=5,...` and its like.
fn numbers_and_keys(info: &str) -> Vec<(u64, u64)> {
    let of_line = |line: &str| -> Option<(u64, u64)> {
        let (number, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        Some((number.parse().ok()?, rest.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(of_line).collect()
}

/// Gives our server the options there that decide how collections are stored; whether they could be read.
fn copy_options(session: &mut Session, here: &mut OwnServer) -> Result<bool, Failure> {
    let questions: Vec<Request> =
        ENCODING_OPTIONS.iter().map(|name| request(&[b"CONFIG", b"GET", name.as_bytes()])).collect();
    let settings = settings(&session.pipeline(&questions)?);
    here.ask(&settings)?;
    Ok(!settings.is_empty())
}

/// What sets our options to what was answered for [`ENCODING_OPTIONS`], in their order. Nothing is set that was not asked
/// for: a server there could have ours listen to the network.
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

/// How the sample of one database is taken.
struct DatabaseSample<'a> {
    samples: u64,
    /// The copier's reading ends here.
    read_bytes_max: u64,
    bar: &'a Progress,
}

impl DatabaseSample<'_> {
    /// Whether Ctrl-C came meanwhile.
    fn take(
        &mut self,
        number: u64,
        copier: &mut Copier<'_>,
        sizes: &mut Sizes,
        options: &Options,
    ) -> Result<bool, Failure> {
        select(copier.there, number)?;
        let stats = copier.there.request(&["MEMORY", "STATS"])?;
        let keys = total_keys(copier.there)?;
        let there_table_bytes = own_server::table_bytes(&stats, number).unwrap_or(0);
        sizes.databases.push(Database::new(number));

        let mut walk = Walk::new(copier.there, options)?;
        let mut met = 0;
        let (mut batch, mut is_full) = (Vec::new(), false);
        loop {
            let found = walk.next(copier.there)?;
            let is_over = found.is_none();
            let found = found.unwrap_or_default();
            met += found.len() as u64;
            if !is_full {
                batch.extend(found);
            }
            if batch.len() >= BATCH_KEYS || is_over {
                is_full = !self.measure(std::mem::take(&mut batch), copier, sizes)?;
            }
            // The number of matching keys is known only after a full scan.
            if is_over || (is_full && !walk.is_selective()) {
                break;
            }
        }
        let Some(database) = sizes.databases.last_mut() else { return Ok(false) };
        (database.keys, database.there_table_bytes) = if walk.is_selective() {
            (met, (there_table_bytes as f64 * met as f64 / keys.max(1) as f64) as u64)
        } else {
            (keys.max(database.sampled()), there_table_bytes)
        };
        database.here_table_bytes = copier.here.measure_table(database.measurable_keys() as u64)?;
        Ok(walk.was_interrupted())
    }

    /// Adds keys to the sample; whether there is room for more.
    fn measure(
        &self,
        mut keys: Vec<Vec<u8>>,
        copier: &mut Copier<'_>,
        sizes: &mut Sizes,
    ) -> Result<bool, Failure> {
        let sampled = sizes.databases.last().map_or(0, Database::sampled);
        keys.truncate((self.samples - sampled.min(self.samples)) as usize);
        let keys = sample::describe(copier.there, &keys)?;
        let interrupted = Arc::clone(&copier.there.interrupted);
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
