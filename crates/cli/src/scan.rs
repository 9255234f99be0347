//! Iterates over the keys with SCAN.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::print_bytes;
use wire::request::quoted;
use wire::response::Value;

use crate::Failure;
use crate::format::Style;
use crate::options::Options;
use crate::session::Session;

/// Number of SCAN calls between two pauses of `-i`, in modes whose output is not shown per call.
const CALLS_PER_PAUSE: u64 = 100;

/// A scan of one database, a SCAN call at a time, until its end or Ctrl-C.
pub struct Walk {
    pub cursor: u64,
    pattern: Option<Vec<u8>>,
    count: i64,
    key_type: Option<String>,
    interval: Option<Duration>,
    interrupted: Arc<AtomicBool>,
    calls: u64,
}

/// Makes Ctrl-C only set the flag.
pub fn catch_interrupts(flag: &Arc<AtomicBool>) -> Result<(), Failure> {
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(flag))
        .map(drop)
        .map_err(|error| Failure::Io("preparing for Ctrl-C", error))
}

impl Walk {
    pub fn new(session: &Session, options: &Options) -> Result<Self, Failure> {
        catch_interrupts(&session.interrupted)?;
        Ok(Self {
            cursor: 0,
            pattern: options.scan_pattern().map_err(Failure::Usage)?,
            count: options.count,
            key_type: options.key_type.clone(),
            interval: options.interval,
            interrupted: Arc::clone(&session.interrupted),
            calls: 0,
        })
    }

    /// Returns whether it visits only some of the keys.
    pub fn is_selective(&self) -> bool {
        self.pattern.is_some() || self.key_type.is_some()
    }

    pub fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns the next keys, which can be empty; `None` at the end.
    pub fn next(&mut self, session: &mut Session) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        if (self.calls > 0 && self.cursor == 0) || self.was_interrupted() {
            return Ok(None);
        }
        if let (Some(interval), true) =
            (self.interval, self.calls > 0 && self.calls.is_multiple_of(CALLS_PER_PAUSE))
        {
            std::thread::sleep(interval);
        }
        self.calls += 1;
        let mut args = vec![b"SCAN".to_vec(), self.cursor.to_string().into_bytes()];
        if let Some(pattern) = &self.pattern {
            args.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        args.extend([b"COUNT".to_vec(), self.count.to_string().into_bytes()]);
        if let Some(key_type) = &self.key_type {
            args.extend([b"TYPE".to_vec(), key_type.clone().into_bytes()]);
        }
        let reply = session.request(&args)?;
        if let Value::Error(text) = &reply {
            return Err(Failure::Reply(format!("SCAN error: {}", String::from_utf8_lossy(text))));
        }
        let malformed = || Failure::Reply("Non ARRAY response from SCAN!".to_owned());
        let [cursor, keys] = reply.as_list().ok_or_else(malformed)? else {
            return Err(Failure::Reply("Invalid element count from SCAN!".to_owned()));
        };
        let cursor = cursor.as_bytes().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        self.cursor = cursor.ok_or_else(malformed)?;
        let keys = keys.as_list().ok_or_else(malformed)?.iter();
        Ok(Some(keys.filter_map(|key| key.as_bytes().map(<[u8]>::to_vec)).collect()))
    }
}

/// Returns the number of keys, before a scan.
pub fn total_keys(session: &mut Session) -> Result<u64, Failure> {
    match session.request(&["DBSIZE"])? {
        Value::Integer(count) => Ok(count as u64),
        Value::Error(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            Err(Failure::Reply(format!("Couldn't determine DBSIZE: {text}")))
        }
        _ => Err(Failure::Reply("Non INTEGER response from DBSIZE!".to_owned())),
    }
}

/// Permits reads from a replica in a cluster (READONLY). Servers without cluster mode refuse the command, which is ignored.
pub fn allow_reads(session: &mut Session) -> Result<(), Failure> {
    match session.request(&["READONLY"])? {
        Value::Error(text) if text != b"ERR This instance has cluster support disabled" => {
            Err(Failure::Reply(format!("Error: {}", String::from_utf8_lossy(&text))))
        }
        _ => Ok(()),
    }
}

/// Formats a key with quotes and escapes.
pub fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(&quoted(key)).into_owned()
}

/// `--scan`: prints all keys, one per line.
pub fn list_keys(session: &mut Session, options: &Options) -> Result<(), Failure> {
    session.connect()?;
    let mut walk = Walk::new(session, options)?;
    // Pauses follow each call, whose output is shown.
    walk.interval = None;
    while let Some(keys) = walk.next(session)? {
        let mut text = Vec::new();
        for key in keys {
            match session.settings.style {
                Style::Terminal => text.extend_from_slice(&quoted(&key)),
                _ => text.extend_from_slice(&key),
            }
            text.push(b'\n');
        }
        print_bytes(&text);
        if let Some(interval) = options.interval {
            std::thread::sleep(interval);
        }
    }
    Ok(())
}
