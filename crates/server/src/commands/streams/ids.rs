//! Ids in clients' notation: `ms`, `ms-seq`, `ms-*`, `-`, `+`, and `(` before an exclusive end.

use crate::command::Args;
use crate::db::stream::StreamId;
use crate::error::ClientError;

const INVALID: ClientError = ClientError::text("ERR Invalid stream ID specified as stream command argument");
/// Longer texts are refused without parsing.
const TEXT_LEN_MAX: usize = 127;

/// An id whose sequence number can be assigned by the server.
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

/// Parses `ms-seq`, or `ms` with the sequence number `seq_missing`.
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

/// As [`strict`], with `-` and `+` for the smallest and the greatest id.
pub(super) fn lenient(text: &[u8], seq_missing: u64) -> Result<StreamId, ClientError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => strict(text, seq_missing),
    }
}

/// Parses all arguments as ids.
pub(super) fn all(args: Args<'_>) -> Result<Vec<StreamId>, ClientError> {
    args.iter().map(|text| strict(text, 0)).collect()
}

/// The first id of a range.
pub(super) fn lower_end(text: &[u8]) -> Result<StreamId, ClientError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, 0)?.next().ok_or(ClientError::text("ERR invalid start ID for the interval"))
        }
        text => lenient(text, 0),
    }
}

/// The last id of a range.
pub(super) fn upper_end(text: &[u8]) -> Result<StreamId, ClientError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict(id, u64::MAX)?.previous().ok_or(ClientError::text("ERR invalid end ID for the interval"))
        }
        text => lenient(text, u64::MAX),
    }
}
