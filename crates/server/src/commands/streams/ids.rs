//! Ids as clients write them: `ms`, `ms-seq`, `ms-*`, `-`, `+`, and `(` before an end that is left out.

use crate::command::Args;
use crate::db::stream::StreamId;
use crate::error::ClientError;

const INVALID: ClientError = ClientError::text("ERR Invalid stream ID specified as stream command argument");
/// Longer texts are refused before they are looked at.
const TEXT_LEN_MAX: usize = 127;

/// An id whose sequence number may be left to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartialId {
    Whole(StreamId),
    /// `ms-*`
    Milliseconds(u64),
}

/// `ms-seq`, `ms-*`, or `ms` for `ms-0`.
pub(super) fn partial(text: &[u8]) -> Result<PartialId, ClientError> {
    let text = until_nul(text);
    if text.len() > TEXT_LEN_MAX {
        return Err(INVALID);
    }
    if let Some(ms) = text.strip_suffix(b"-*") {
        return number(ms).map(PartialId::Milliseconds).ok_or(INVALID);
    }
    strict(text, 0).map(PartialId::Whole)
}

/// `ms-seq`, or `ms` with `seq_missing` for the rest.
pub(super) fn strict(text: &[u8], seq_missing: u64) -> Result<StreamId, ClientError> {
    if text.len() > TEXT_LEN_MAX {
        return Err(INVALID);
    }
    let text = until_nul(text);
    let (ms, seq) = match text.iter().position(|&byte| byte == b'-') {
        Some(dash) => (&text[..dash], number(&text[dash + 1..]).ok_or(INVALID)?),
        None => (text, seq_missing),
    };
    Ok(StreamId::new(number(ms).ok_or(INVALID)?, seq))
}

fn number(text: &[u8]) -> Option<u64> {
    wire::number::parse_u64_leniently(text)
}

fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// As [`strict`], with `-` and `+` for the least and the greatest id.
pub(super) fn lenient(text: &[u8], seq_missing: u64) -> Result<StreamId, ClientError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => strict(text, seq_missing),
    }
}

/// All arguments as ids.
pub(super) fn all(args: Args<'_>) -> Result<Vec<StreamId>, ClientError> {
    args.iter().map(|text| strict(text, 0)).collect()
}

/// The id that a range begins with.
pub(super) fn lower_end(text: &[u8]) -> Result<StreamId, ClientError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, 0)?.next().ok_or(ClientError::text("ERR invalid start ID for the interval"))
        }
        text => lenient(text, 0),
    }
}

/// The id that a range ends with.
pub(super) fn upper_end(text: &[u8]) -> Result<StreamId, ClientError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, u64::MAX)?.previous().ok_or(ClientError::text("ERR invalid end ID for the interval"))
        }
        text => lenient(text, u64::MAX),
    }
}
