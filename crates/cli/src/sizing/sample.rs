//! Keys of the sample: what the server that has them says of them, and copies of them for one that measures them.

use client::printable;
use wire::response::Value;

use super::own_server::{OwnServer, Request, request};
use super::pieces;
use crate::Failure;
use crate::key_sizes::size_command;
use crate::session::Session;

/// Of more elements than this the server there looks at some, to say what a key takes.
const ELEMENTS_LOOKED_AT: &[u8] = b"1000";
/// A key that takes more is not copied whole: that could keep the server there from everything else for too long.
const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// Keys are copied together while they take no more there.
const TOGETHER_BYTES_MAX: u64 = 8 << 20;
/// Where a key or field has a time to live, its copy has one that does not end meanwhile.
pub const TTL_MS: &[u8] = b"31536000000";

/// A key and what the server that has it says of it.
#[derive(Debug)]
pub struct SampledKey {
    pub name: Vec<u8>,
    pub type_name: String,
    pub encoding: String,
    /// Elements, or bytes of a string; `None` where no command reports it.
    pub len: Option<u64>,
    /// What it takes there.
    pub bytes: u64,
    pub expires: bool,
}

/// What a key would take here.
#[derive(Debug)]
pub enum Measured {
    Bytes(u64),
    /// It cannot be had here, for this reason.
    Refused(String),
    /// There is no such key any more.
    Gone,
}

fn text(value: &Value) -> Option<String> {
    if value.is_error() { None } else { Some(printable(&String::from_utf8_lossy(value.as_bytes()?))) }
}

fn refusal(value: &Value) -> String {
    printable(&String::from_utf8_lossy(value.as_bytes().unwrap_or(b"no such reply is known")))
}

/// A length or size that a server says, which may say anything.
fn figure(said: i64) -> u64 {
    u64::try_from(said).unwrap_or_default()
}

/// Those of the keys that are there, with what the server says of them.
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

/// Reads from one server and has another measure.
pub struct Copier<'a> {
    pub there: &'a mut Session,
    pub here: &'a mut OwnServer,
    /// What has been read of values.
    pub read_bytes: u64,
}

impl Copier<'_> {
    /// What each of these keys would take here, in their order. `more` says whether to go on, before each batch that
    /// is copied together; the result may therefore be shorter.
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
        let payloads = self.there.pipeline(&dumps)?;
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
        let replies = self.here.ask(&requests)?;
        let measured = payloads.iter().zip(replies.chunks_exact(3)).map(|(payload, replies)| match replies {
            _ if payload.as_bytes().is_none() => Measured::Gone,
            [Value::Error(_), ..] => Measured::Refused(refusal(&replies[0])),
            [_, Value::Integer(bytes), _] => Measured::Bytes(*bytes as u64),
            // All its fields have expired.
            _ => Measured::Gone,
        });
        Ok(measured.collect())
    }
}
