//! Keys of the sample: their description by the source, and their copies in the temporary server.

use client::printable;
use wire::response::Value;

use super::own_server::{OwnServer, Request, request};
use super::pieces;
use crate::Failure;
use crate::key_sizes::size_command;
use crate::session::Session;

/// Number of elements that the source samples for MEMORY USAGE.
const ELEMENTS_LOOKED_AT: &[u8] = b"1000";
/// Memory from which a key is copied in part: a DUMP of the whole could block the source for too long.
const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// Maximum memory of the keys that are copied in one pipeline.
const TOGETHER_BYTES_MAX: u64 = 8 << 20;
/// Time to live of the copies of expiring keys and fields, longer than any measurement.
pub const TTL_MS: &[u8] = b"31536000000";

/// A key with its description by the source.
#[derive(Debug)]
pub struct SampledKey {
    pub name: Vec<u8>,
    pub type_name: String,
    pub encoding: String,
    /// Elements, or bytes of a string; `None` where no command reports it.
    pub len: Option<u64>,
    /// Memory in the source.
    pub bytes: u64,
    pub expires: bool,
}

/// Result of a measurement.
#[derive(Debug)]
pub enum Measured {
    Bytes(u64),
    /// Warmline refuses the key with this error.
    Refused(String),
    /// The key does not exist any more.
    Gone,
}

fn text(value: &Value) -> Option<String> {
    if value.is_error() { None } else { Some(printable(&String::from_utf8_lossy(value.as_bytes()?))) }
}

fn refusal(value: &Value) -> String {
    printable(&String::from_utf8_lossy(value.as_bytes().unwrap_or(b"unexpected reply")))
}

/// Converts a length or size in a reply, which is not trusted; negative values are 0.
fn figure(said: i64) -> u64 {
    u64::try_from(said).unwrap_or_default()
}

/// Describes the keys that exist.
pub fn describe(session: &mut Session, keys: &[Vec<u8>]) -> Result<Vec<SampledKey>, Failure> {
    let questions = |key: &Vec<u8>| -> [Request; 4] {
        [
            request(&[b"TYPE", key]),
            request(&[b"OBJECT", b"ENCODING", key]),
            request(&[b"MEMORY", b"USAGE", key, b"SAMPLES", ELEMENTS_LOOKED_AT]),
            request(&[b"PTTL", key]),
        ]
    };
    let replies = session.pipeline(&keys.iter().flat_map(questions).collect::<Vec<_>>())?;
    let mut found = Vec::new();
    for (key, replies) in keys.iter().zip(replies.chunks_exact(4)) {
        let [type_name, encoding, memory, ttl] = replies else { continue };
        if let (Value::Error(_), true) = (memory, type_name.as_bytes() != Some(b"none")) {
            return Err(Failure::Reply(format!("MEMORY USAGE returned an error: {}", refusal(memory))));
        }
        let Value::Integer(bytes) = memory else { continue };
        let Some(type_name) = text(type_name).filter(|name| name != "none") else { continue };
        found.push(SampledKey {
            name: key.clone(),
            type_name,
            encoding: text(encoding).unwrap_or_else(|| "?".to_owned()),
            len: None,
            bytes: figure(*bytes),
            expires: matches!(ttl, Value::Integer(ttl) if *ttl >= 0),
        });
    }
    find_lens(session, &mut found)?;
    Ok(found)
}

fn find_lens(session: &mut Session, keys: &mut [SampledKey]) -> Result<(), Failure> {
    let mut asked: Vec<(&mut SampledKey, Request)> = Vec::new();
    for key in keys {
        if let Some(command) = size_command(&key.type_name) {
            let request = request(&[command.as_bytes(), &key.name]);
            asked.push((key, request));
        }
    }
    let (keys, requests): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    for (key, reply) in keys.into_iter().zip(session.pipeline(&requests)?) {
        if let Value::Integer(len) = reply {
            key.len = Some(figure(len));
        }
    }
    Ok(())
}

/// Copies keys from the source to the temporary server.
pub struct Copier<'a> {
    pub source: &'a mut Session,
    pub own: &'a mut OwnServer,
    /// Total number of bytes of values read.
    pub read_bytes: u64,
}

impl Copier<'_> {
    /// Measures keys in order. `more` is called before each batch and returns whether to continue; the result is shorter if it
    /// returns false.
    pub fn measure(
        &mut self,
        keys: &[SampledKey],
        mut more: impl FnMut(u64) -> bool,
    ) -> Result<Vec<Measured>, Failure> {
        let mut measured = Vec::with_capacity(keys.len());
        while measured.len() < keys.len() && more(self.read_bytes) {
            let rest = &keys[measured.len()..];
            if rest[0].bytes > WHOLE_BYTES_MAX {
                measured.push(pieces::measure(self, &rest[0])?);
                continue;
            }
            let mut total = 0;
            let is_together = |key: &&SampledKey| {
                total = u64::saturating_add(total, key.bytes);
                key.bytes <= WHOLE_BYTES_MAX && total <= TOGETHER_BYTES_MAX
            };
            let count = rest.iter().take_while(is_together).count().max(1);
            measured.extend(self.measure_whole(&rest[..count])?);
        }
        Ok(measured)
    }

    fn measure_whole(&mut self, keys: &[SampledKey]) -> Result<Vec<Measured>, Failure> {
        let dumps: Vec<Request> = keys.iter().map(|key| request(&[b"DUMP", &key.name])).collect();
        let payloads = self.source.pipeline(&dumps)?;
        let mut requests = Vec::new();
        for (key, payload) in keys.iter().zip(&payloads) {
            if let Value::Error(_) = payload {
                return Err(Failure::Reply(format!("DUMP returned an error: {}", refusal(payload))));
            }
            let payload = payload.as_bytes().unwrap_or_default();
            self.read_bytes += payload.len() as u64;
            let ttl = if key.expires { TTL_MS } else { b"0" };
            requests.push(request(&[b"RESTORE", &key.name, ttl, payload]));
            requests.push(request(&[b"MEMORY", b"USAGE", &key.name]));
            requests.push(request(&[b"DEL", &key.name]));
        }
        let replies = self.own.pipeline(&requests)?;
        let measured = payloads.iter().zip(replies.chunks_exact(3)).map(|(payload, replies)| match replies {
            _ if payload.as_bytes().is_none() => Measured::Gone,
            [Value::Error(_), ..] => Measured::Refused(refusal(&replies[0])),
            [_, Value::Integer(bytes), _] => Measured::Bytes(*bytes as u64),
            // All fields of the hash have expired.
            _ => Measured::Gone,
        });
        Ok(measured.collect())
    }
}
