//! Geohashes: latitude and longitude, each as a binary fraction of its range, with interleaved bits.
//!
//! ```text
//!   bit:   51  50  49  48  ...   1   0
//!          lon lat lon lat ... lon lat          26 bits ("steps") of each
//! ```
//! The 52 bits fit a double exactly and are the score of a position's member, so a sorted set stores positions with
//! common leading bits, which share a cell of the map, next to each other. A cell of `s` steps is the range of scores that
//! begin with its `2 * s` bits; neighbours are found by adding one to the bits of a single coordinate.

use wire::convert::{low_u32, usize_of, whole_i64, whole_u32, whole_u64};

/// Bits of each coordinate in a score.
pub const STEPS_MAX: u8 = 26;

/// In degrees. The map uses the Mercator projection, which excludes the poles.
pub const LONGITUDE_MAX: f64 = 180.0;
/// In degrees.
pub const LATITUDE_MAX: f64 = 85.05112878;

/// The bits of longitudes, and below of latitudes.
const LONGITUDE_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;

/// A position on earth, in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// East of Greenwich, -180 to 180.
    pub longitude: f64,
    /// North of the equator, -85.05112878 to 85.05112878 for stored positions.
    pub latitude: f64,
}

/// A rectangle of the map, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// South-western corner.
    pub min: Position,
    /// North-eastern corner.
    pub max: Position,
}

/// The map of scores.
const MERCATOR: Bounds = Bounds {
    min: Position { longitude: -LONGITUDE_MAX, latitude: -LATITUDE_MAX },
    max: Position { longitude: LONGITUDE_MAX, latitude: LATITUDE_MAX },
};

/// The map of geohashes in text form.
const WHOLE_EARTH: Bounds = Bounds {
    min: Position { longitude: -180.0, latitude: -90.0 },
    max: Position { longitude: 180.0, latitude: 90.0 },
};

/// One of the 4^`steps` equal parts of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Interleaved bits of longitude and latitude, two for each step.
    pub bits: u64,
    /// Number of times that the map was divided into four.
    pub steps: u8,
}

impl Position {
    /// Whether the position is on the map.
    pub fn is_on_map(&self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The nearest position on the map.
    pub fn clamped(self) -> Position {
        Position {
            longitude: self.longitude.clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: self.latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The score of the position.
    pub fn score(self) -> f64 {
        Cell::containing(self, STEPS_MAX).bits as f64
    }

    /// The centre of a score's cell. Every number is a valid score.
    pub fn of_score(score: f64) -> Position {
        let bits = if score < 0.0 { whole_i64(score) as u64 } else { whole_u64(score) };
        let Bounds { min, max } = Cell { bits, steps: STEPS_MAX }.bounds();
        let middle = Position {
            longitude: (min.longitude + max.longitude) / 2.0,
            latitude: (min.latitude + max.latitude) / 2.0,
        };
        middle.clamped()
    }

    /// The standard geohash of eleven letters, over latitudes from pole to pole. The last letter represents bits
    /// beyond the available 52.
    pub fn text(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = bits_within(WHOLE_EARTH, self, STEPS_MAX);
        std::array::from_fn(|at| match at {
            10 => ALPHABET[0],
            _ => ALPHABET[usize_of(bits >> (52 - (at + 1) * 5)) & 31],
        })
    }
}

impl Cell {
    /// The cell that contains a position on the map.
    pub fn containing(position: Position, steps: u8) -> Cell {
        Cell { bits: bits_within(MERCATOR, position, steps), steps }
    }

    /// The rectangle of the cell on the map.
    pub fn bounds(self) -> Bounds {
        let parts = (1u64 << self.steps) as f64;
        let (x, y) = (gather(self.bits >> 1), gather(self.bits));
        let corner = |x: u32, y: u32| {
            let along = |min: f64, max: f64, part: u32| min + f64::from(part) / parts * (max - min);
            Position {
                longitude: along(MERCATOR.min.longitude, MERCATOR.max.longitude, x),
                latitude: along(MERCATOR.min.latitude, MERCATOR.max.latitude, y),
            }
        };
        Bounds { min: corner(x, y), max: corner(x.wrapping_add(1), y.wrapping_add(1)) }
    }

    /// The cell at this distance in cells to the east and to the north (negative: to the west and south); wraps around at the
    /// ends of the map.
    pub fn neighbour(self, east: i64, north: i64) -> Cell {
        let used = u64::MAX >> (64 - 2 * u32::from(self.steps));
        let moved = |mask: u64, by: i64| {
            // With the other coordinate's bits set, a carry passes through them to the next bit of this one.
            let step = mask & mask.wrapping_neg();
            let bits = self.bits & mask;
            match by {
                0 => bits,
                1.. => (bits | !mask).wrapping_add(step) & mask & used,
                _ => bits.wrapping_sub(step) & mask & used,
            }
        };
        Cell { bits: moved(LONGITUDE_BITS, east) | moved(LATITUDE_BITS, north), steps: self.steps }
    }

    /// The range of scores of positions in the cell, excluding the second.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

fn bits_within(map: Bounds, position: Position, steps: u8) -> u64 {
    let parts = (1u64 << steps) as f64;
    let part = |min: f64, max: f64, value: f64| whole_u32((value - min) / (max - min) * parts);
    let x = part(map.min.longitude, map.max.longitude, position.longitude);
    let y = part(map.min.latitude, map.max.latitude, position.latitude);
    spread(x) << 1 | spread(y)
}

/// Widths of the groups of bits that move together, and the masks of their bits.
const GROUPS: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];

/// Moves bit `i` to bit `2 * i`.
fn spread(value: u32) -> u64 {
    GROUPS.iter().fold(u64::from(value), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// Moves bit `2 * i` to bit `i`; the others are dropped.
fn gather(bits: u64) -> u32 {
    let wider = |at: usize| if at == 0 { u64::from(u32::MAX) } else { GROUPS[at - 1].1 };
    let start = bits & LATITUDE_BITS;
    low_u32((0..GROUPS.len()).rev().fold(start, |bits, at| (bits | bits >> GROUPS[at].0) & wider(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    fn anywhere(random: &mut Random) -> Position {
        Position {
            longitude: (random.unit() * 2.0 - 1.0) * LONGITUDE_MAX,
            latitude: (random.unit() * 2.0 - 1.0) * LATITUDE_MAX,
        }
    }

    #[test]
    fn known_places_have_their_known_scores_and_texts() {
        assert_eq!(PALERMO.score(), 3479099956230698.0);
        assert_eq!(CATANIA.score(), 3479447370796909.0);
        assert_eq!(&Position::of_score(PALERMO.score()).text(), b"sqc8b49rny0");
        assert_eq!(&Position::of_score(CATANIA.score()).text(), b"sqdtr74hyu0");
        assert_eq!(Position { longitude: -180.0, latitude: -LATITUDE_MAX }.score(), 0.0);
    }

    #[test]
    fn spreading_and_gathering_are_inverse() {
        let mut random = Random::new(7);
        for value in (0..1000).map(|_| random.below(1 << 32) as u32).chain([0, 1, u32::MAX]) {
            assert_eq!(gather(spread(value)), value);
            assert_eq!(gather(spread(value) << 1), 0);
            assert_eq!(spread(value) & LONGITUDE_BITS, 0);
        }
    }

    #[test]
    fn a_place_comes_back_within_its_cell() {
        let mut random = Random::new(11);
        for _ in 0..10_000 {
            let place = anywhere(&mut random);
            let back = Position::of_score(place.score());
            assert!(
                (back.longitude - place.longitude).abs() <= 360.0 / (1 << 26) as f64,
                "{place:?} {back:?}"
            );
            assert!((back.latitude - place.latitude).abs() <= 180.0 / (1 << 26) as f64, "{place:?} {back:?}");
            // The centre of a cell is in that cell: positions do not drift when they are stored again.
            assert_eq!(Position::of_score(back.score()), back);
            for steps in 1..=STEPS_MAX {
                let cell = Cell::containing(place, steps);
                let (first, end) = cell.scores();
                assert!((first..end).contains(&place.score()), "{place:?} {cell:?}");
                let Bounds { min, max } = cell.bounds();
                assert!(min.longitude <= place.longitude && place.longitude <= max.longitude);
                assert!(min.latitude <= place.latitude && place.latitude <= max.latitude);
            }
        }
    }

    #[test]
    fn neighbours_touch_and_lead_back() {
        let mut random = Random::new(13);
        for _ in 0..1000 {
            let steps = 2 + random.below(25) as u8;
            let cell = Cell::containing(anywhere(&mut random), steps);
            let east = cell.neighbour(1, 0);
            let north = cell.neighbour(0, 1);
            assert_eq!(east.neighbour(-1, 0), cell);
            assert_eq!(north.neighbour(0, -1), cell);
            assert_eq!(cell.neighbour(1, 1), east.neighbour(0, 1));
            assert_eq!(cell.neighbour(-1, 1), north.neighbour(-1, 0));
            if cell.bounds().max.longitude < 180.0 {
                assert_eq!(east.bounds().min.longitude, cell.bounds().max.longitude);
            } else {
                assert_eq!(east.bounds().min.longitude, -180.0);
            }
            if cell.bounds().max.latitude < LATITUDE_MAX {
                assert_eq!(north.bounds().min.latitude, cell.bounds().max.latitude);
            }
        }
    }
}
