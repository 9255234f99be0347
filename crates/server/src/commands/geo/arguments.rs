//! The common arguments of the geographic commands: positions, units, lengths.

use super::geohash::Position;
use crate::command::Args;
use crate::db::sorted_set::SortedSetView;
use crate::error::{ClientError, quoted};

/// Parses a longitude at `at` and the latitude after it.
pub fn position(args: Args<'_>, at: usize) -> Result<Position, ClientError> {
    let position = Position { longitude: args.float(at)?, latitude: args.float(at + 1)? };
    if !position.is_on_map() {
        let Position { longitude, latitude } = position;
        return Err(ClientError::formatted(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        )));
    }
    Ok(position)
}

/// The length of a unit in metres.
pub fn unit_m(args: Args<'_>, at: usize) -> Result<f64, ClientError> {
    const UNITS: [(&str, f64); 4] = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let found = UNITS.iter().find(|(name, _)| args.is(at, name));
    found
        .map(|(_, metres)| *metres)
        .ok_or(ClientError::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// A number, or the error `otherwise`.
pub fn number(args: Args<'_>, at: usize, otherwise: &'static str) -> Result<f64, ClientError> {
    args.float(at).map_err(|_| ClientError::text(otherwise))
}

/// Parses a radius at `at` and the unit after it: the radius in that unit, and the unit in metres.
pub fn radius(args: Args<'_>, at: usize) -> Result<(f64, f64), ClientError> {
    let radius = number(args, at, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(ClientError::text("ERR radius cannot be negative"));
    }
    Ok((radius, unit_m(args, at + 1)?))
}

/// The position of a member.
pub fn member_position(set: SortedSetView<'_>, member: &[u8]) -> Result<Position, ClientError> {
    let score = set
        .score(member)
        .ok_or_else(|| ClientError::formatted(format!("ERR member {} does not exist", quoted(member))))?;
    Ok(Position::of_score(score))
}
