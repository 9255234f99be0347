//! Walking over the keys with SCAN.

use std::io::{self, Write};

use wire::request::quoted;
use wire::response::Value;

use crate::format::Style;
use crate::options::Options;
use crate::session::Session;
use crate::{Failure, unquoted};

/// Calls of SCAN between two pauses of `-i`, where the calls themselves are the work.
const CALLS_PER_PAUSE: usize = 100;

/// The keys of one database, one SCAN call's worth at a time.
pub struct Walk {
    cursor: Vec<u8>,
    pattern: Vec<u8>,
    count: u64,
    started: bool,
}

impl Walk {
    pub fn new(options: &Options) -> Result<Self, Failure> {
        let pattern = match &options.quoted_pattern {
            Some(pattern) => unquoted(pattern)?,
            None => options.pattern.clone().into_bytes(),
        };
        Ok(Self { cursor: b"0".to_vec(), pattern, count: options.count, started: false })
    }

    /// The next keys, perhaps none; `None` when all have been seen.
    pub fn next(&mut self, session: &mut Session) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        if self.started && self.cursor == b"0" {
            return Ok(None);
        }
        self.started = true;
        let mut args = vec![b"SCAN".to_vec(), self.cursor.clone()];
        if self.pattern != b"*" {
            args.extend([b"MATCH".to_vec(), self.pattern.clone()]);
        }
        args.extend([b"COUNT".to_vec(), self.count.to_string().into_bytes()]);
        let reply = session.request(&args)?;
        if let Value::Error(text) = &reply {
            return Err(Failure::Reply(format!("ERROR: {}", String::from_utf8_lossy(text))));
        }
        let malformed = || Failure::Reply("ERROR: the reply to SCAN is no cursor and keys".to_string());
        let [cursor, keys] = reply.as_list().ok_or_else(malformed)? else { return Err(malformed()) };
        self.cursor = cursor.as_bytes().ok_or_else(malformed)?.to_vec();
        let keys = keys.as_list().ok_or_else(malformed)?.iter();
        Ok(Some(keys.filter_map(|key| key.as_bytes().map(<[u8]>::to_vec)).collect()))
    }
}

/// `--scan`: all keys, one on a line.
pub fn list_keys(session: &mut Session, options: &Options) -> Result<(), Failure> {
    let mut walk = Walk::new(options)?;
    while let Some(keys) = walk.next(session)? {
        let mut text = Vec::new();
        for key in keys {
            match session.settings.style {
                Style::Terminal => text.extend_from_slice(&quoted(&key)),
                _ => text.extend_from_slice(&key),
            }
            text.push(b'\n');
        }
        let mut out = io::stdout().lock();
        out.write_all(&text)
            .and_then(|()| out.flush())
            .map_err(|error| Failure::Io("writing to standard output", error))?;
        if let Some(interval) = options.interval {
            std::thread::sleep(interval);
        }
    }
    Ok(())
}

/// Waits for `-i` once in so many calls.
pub fn pause(options: &Options, calls: usize) {
    if let (Some(interval), true) = (options.interval, calls.is_multiple_of(CALLS_PER_PAUSE)) {
        std::thread::sleep(interval);
    }
}
