//! The timeouts of blocking commands.

use crate::command::Args;
use crate::error::ClientError;
use wire::convert::whole_u64;
use wire::number::Extended;

/// Parses a timeout in seconds with a fraction; returns microseconds, rounded up to whole milliseconds. `None` (from 0) is
/// for ever.
pub fn seconds(args: Args<'_>, index: usize) -> Result<Option<u64>, ClientError> {
    let text = args.at(index);
    // The wider float type supports more formats and larger numbers.
    let seconds = wire::number::parse_f64(text).or_else(|| Extended::parse(text).map(Extended::to_f64));
    let seconds = seconds.ok_or(ClientError::TimeoutNotFloat)?;
    let ms = (seconds * 1000.0).ceil();
    if ms >= i64::MAX as f64 {
        return Err(ClientError::TimeoutOutOfRange);
    }
    if ms < 0.0 {
        return Err(ClientError::TimeoutNegative);
    }
    in_us(whole_u64(ms))
}

/// Parses a timeout in milliseconds; returns microseconds. `None` (from 0) is for ever.
pub fn milliseconds(args: Args<'_>, index: usize) -> Result<Option<u64>, ClientError> {
    let ms = wire::number::parse_i64(args.at(index)).ok_or(ClientError::TimeoutNotInteger)?;
    in_us(u64::try_from(ms).map_err(|_| ClientError::TimeoutNegative)?)
}

fn in_us(ms: u64) -> Result<Option<u64>, ClientError> {
    match ms {
        0 => Ok(None),
        // A longer timeout would overflow the clock.
        ms => ms
            .checked_mul(1000)
            .filter(|&us| us < i64::MAX as u64)
            .map(Some)
            .ok_or(ClientError::TimeoutOutOfRange),
    }
}
