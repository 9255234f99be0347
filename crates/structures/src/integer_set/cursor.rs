//! Cursors of scans over integers: a cursor encodes a bound, below which all values have been visited.
//!
//! | cursor | bound |
//! |---|---|
//! | 2^51 + b + 2^50 | b itself, for -2^50 <= b < 2^50 |
//! | 2^52 + p | the multiple of 8,192 at position 8,192 p, counted from the least integer |
//! | 2^62 + p | the multiple of 4 at position 4 p, likewise |
//!
//! Any bound above the last value visited and not above the next one is valid, so the first of the three forms that
//! can express one is used. All cursors are below 2^63, and below 2^53, where clients that store numbers as doubles
//! read them exactly, unless a scan stops between two values far from zero and less than 8,192 apart: those are
//! more than 2^53 positions. None is below [`FIRST`], which distinguishes them from those of packed pages.

/// The lowest cursor of integers, except 0, which starts and ends every scan.
pub const FIRST: u64 = NEAR;

const NEAR: u64 = 1 << 51;
const NEAR_MAX: i64 = 1 << 50;
const ROUND: u64 = 1 << 52;
const ROUND_BITS: u32 = 13;
const DENSE: u64 = 1 << 62;
const DENSE_BITS: u32 = 2;

/// The cursor before all integers.
pub const START: u64 = ROUND;

/// The position of a value among all integers.
fn position(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

/// A cursor for a bound above `last` and not above `next`, or `None` if there is none: then one of the three values
/// after `next` has one.
pub(super) fn between(last: i64, next: i64) -> Option<u64> {
    if (-NEAR_MAX..NEAR_MAX).contains(&next) {
        return Some(NEAR + (next + NEAR_MAX) as u64);
    }
    let bound = |bits: u32| {
        let number = position(next) >> bits;
        (number << bits > position(last)).then_some(number)
    };
    bound(ROUND_BITS).map(|number| ROUND + number).or_else(|| bound(DENSE_BITS).map(|number| DENSE + number))
}

/// The least value that is still to be visited. Any number is a cursor; those that no scan returned start at the
/// beginning or at some other value.
pub(super) fn bound(cursor: u64) -> i64 {
    match cursor {
        NEAR..ROUND => (cursor - NEAR) as i64 - NEAR_MAX,
        ROUND..DENSE => from_position((cursor - ROUND) << ROUND_BITS),
        DENSE.. => from_position((cursor - DENSE) << DENSE_BITS),
        _ => i64::MIN,
    }
}

fn from_position(position: u64) -> i64 {
    (position ^ 1 << 63) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_back_and_lie_between() {
        let ends = [i64::MIN, -NEAR_MAX, -1 << 20, 0, 1 << 20, NEAR_MAX, 1 << 60, i64::MAX];
        for end in ends {
            for gap in [1u64, 2, 3, 4, 5, 8191, 8192, 8193, 1 << 30] {
                for beside in -5i64..=5 {
                    let last = end.saturating_add(beside);
                    let Some(next) = last.checked_add_unsigned(gap) else { continue };
                    let Some(cursor) = between(last, next) else {
                        assert!(gap < 4);
                        continue;
                    };
                    assert!((FIRST..1 << 63).contains(&cursor));
                    assert!(last < bound(cursor) && bound(cursor) <= next, "{last} {next} {cursor}");
                    assert!(cursor < 1 << 53 || gap < 8192);
                }
            }
        }
        assert_eq!(bound(START), i64::MIN);
        assert_eq!(bound(0), i64::MIN);
        for cursor in [1, u64::MAX, 1 << 63, FIRST, FIRST - 1, DENSE - 1] {
            bound(cursor);
        }
    }
}
