//! Geographic areas: whether a position lies within one, its distance from the centre, and the map cells that cover it.

use super::geohash::{Bounds, Cell, LATITUDE_MAX, LONGITUDE_MAX, Position, STEPS_MAX};
use std::f64::consts::PI;

/// The earth's mean radius.
const EARTH_RADIUS_M: f64 = 6_372_797.560856;
/// Half of the map's side length.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
/// Longitudes whose half difference has a smaller sine count as equal: some nanometres.
const SAME_LONGITUDE: f64 = 1e-15;

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// Metres between two latitudes on a meridian.
fn meridian_distance_m(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (radians(b) - radians(a)).abs()
}

/// Metres between two positions along the great circle, by the haversine formula.
pub fn distance_m(a: Position, b: Position) -> f64 {
    let v = ((radians(b.longitude) - radians(a.longitude)) / 2.0).sin();
    if v.abs() <= SAME_LONGITUDE {
        return meridian_distance_m(a.latitude, b.latitude);
    }
    let (a_latitude, b_latitude) = (radians(a.latitude), radians(b.latitude));
    let u = ((b_latitude - a_latitude) / 2.0).sin();
    let haversine = u * u + a_latitude.cos() * b_latitude.cos() * v * v;
    2.0 * EARTH_RADIUS_M * haversine.sqrt().asin()
}

/// A shape around a centre; lengths in metres.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Circle {
        radius_m: f64,
    },
    /// Its sides are curved: opposite points of the western and eastern ones are `width_m` apart at any latitude.
    Rectangle {
        width_m: f64,
        height_m: f64,
    },
    /// At least three corners.
    Polygon(Vec<Position>),
}

/// A shape with its centre.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// Centre, from which distances are measured.
    pub centre: Position,
    /// Shape around the centre.
    pub shape: Shape,
}

impl Area {
    /// A polygon; its centre is the mean of its corners in space, projected to the earth's surface.
    pub fn polygon(corners: Vec<Position>) -> Area {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for corner in &corners {
            let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let centre =
            Position { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) };
        Area { centre, shape: Shape::Polygon(corners) }
    }

    /// The distance of a position from the centre, in metres, if it lies within.
    pub fn distance_within_m(&self, place: Position) -> Option<f64> {
        match &self.shape {
            Shape::Circle { radius_m } => {
                Some(distance_m(self.centre, place)).filter(|distance| distance <= radius_m)
            }
            Shape::Rectangle { width_m, height_m } => {
                // The check of the latitude is cheaper.
                let same_latitude = Position { latitude: place.latitude, ..self.centre };
                let within = meridian_distance_m(place.latitude, self.centre.latitude) <= height_m / 2.0
                    && distance_m(place, same_latitude) <= width_m / 2.0;
                within.then(|| distance_m(self.centre, place))
            }
            Shape::Polygon(corners) => {
                is_within_polygon(corners, place).then(|| distance_m(self.centre, place))
            }
        }
    }

    fn bounds(&self) -> Bounds {
        let (half_width_m, half_height_m) = match &self.shape {
            Shape::Circle { radius_m } => (*radius_m, *radius_m),
            Shape::Rectangle { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
            Shape::Polygon(corners) => return bounds_of(corners),
        };
        let Position { longitude, latitude } = self.centre;
        let latitude_reach = degrees(half_height_m / EARTH_RADIUS_M);
        // Degrees of longitude are shortest on the side that is nearer to a pole.
        let polewards = if latitude < 0.0 { latitude - latitude_reach } else { latitude + latitude_reach };
        let longitude_reach = degrees(half_width_m / EARTH_RADIUS_M / radians(polewards).cos());
        Bounds {
            min: Position { longitude: longitude - longitude_reach, latitude: latitude - latitude_reach },
            max: Position { longitude: longitude + longitude_reach, latitude: latitude + latitude_reach },
        }
    }

    /// An upper bound of the distance of the area's points from the centre.
    fn reach_m(&self, bounds: &Bounds) -> f64 {
        match &self.shape {
            Shape::Circle { radius_m } => *radius_m,
            Shape::Rectangle { width_m, height_m } => {
                ((width_m / 2.0) * (width_m / 2.0) + (height_m / 2.0) * (height_m / 2.0)).sqrt()
            }
            Shape::Polygon(_) => {
                let Bounds { min, max } = *bounds;
                [
                    Position { longitude: min.longitude, latitude: max.latitude },
                    max,
                    min,
                    Position { longitude: max.longitude, latitude: min.latitude },
                ]
                .iter()
                .map(|&corner| distance_m(self.centre, corner))
                .fold(0.0, f64::max)
            }
        }
    }

    /// Cells that cover the area: the centre's and those of its eight neighbours that can overlap with it, without duplicates,
    /// in search order.
    pub fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let centre = self.centre.clamped();
        let mut steps = steps_for(self.reach_m(&bounds), centre.latitude);
        if steps > 1 && !neighbours_cover(Cell::containing(centre, steps), &bounds) {
            steps -= 1;
        }
        let middle = Cell::containing(centre, steps);
        let inner = middle.bounds();
        // With fewer than four cells per side, the neighbours on both sides are the same.
        let may_skip = steps >= 2;
        let skipped = |east: i64, north: i64| {
            may_skip
                && (east < 0 && inner.min.longitude < bounds.min.longitude
                    || east > 0 && inner.max.longitude > bounds.max.longitude
                    || north < 0 && inner.min.latitude < bounds.min.latitude
                    || north > 0 && inner.max.latitude > bounds.max.latitude)
        };
        const ORDER: [(i64, i64); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::with_capacity(ORDER.len());
        for (east, north) in ORDER {
            let cell = middle.neighbour(east, north);
            if !skipped(east, north) && !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

/// The resolution of the map to search within `reach_m`: cells are at least that long, so that a cell and its
/// neighbours cover the area.
fn steps_for(reach_m: f64, latitude: f64) -> u8 {
    if reach_m == 0.0 {
        return STEPS_MAX;
    }
    let mut doubled_m = reach_m;
    let mut steps = -1i8;
    while doubled_m < MERCATOR_MAX_M && steps < 100 {
        doubled_m *= 2.0;
        steps += 1;
    }
    // Cells get narrower towards the poles.
    steps -= i8::from(latitude.abs() > 66.0) + i8::from(latitude.abs() > 80.0);
    steps.max(1).unsigned_abs().min(STEPS_MAX)
}

/// Whether a cell and its neighbours cover the bounds.
fn neighbours_cover(cell: Cell, bounds: &Bounds) -> bool {
    cell.neighbour(0, 1).bounds().max.latitude >= bounds.max.latitude
        && cell.neighbour(0, -1).bounds().min.latitude <= bounds.min.latitude
        && cell.neighbour(1, 0).bounds().max.longitude >= bounds.max.longitude
        && cell.neighbour(-1, 0).bounds().min.longitude <= bounds.min.longitude
}

fn bounds_of(corners: &[Position]) -> Bounds {
    let nothing = Bounds {
        min: Position { longitude: LONGITUDE_MAX, latitude: LATITUDE_MAX },
        max: Position { longitude: -LONGITUDE_MAX, latitude: -LATITUDE_MAX },
    };
    corners.iter().fold(nothing, |Bounds { min, max }, corner| Bounds {
        min: Position {
            longitude: min.longitude.min(corner.longitude),
            latitude: min.latitude.min(corner.latitude),
        },
        max: Position {
            longitude: max.longitude.max(corner.longitude),
            latitude: max.latitude.max(corner.latitude),
        },
    })
}

/// Whether a ray from the position to the east crosses the polygon's sides an odd number of times.
fn is_within_polygon(corners: &[Position], place: Position) -> bool {
    let previous = corners.iter().cycle().skip(corners.len() - 1);
    let crossings = corners.iter().zip(previous).filter(|(a, b)| {
        (a.latitude > place.latitude) != (b.latitude > place.latitude)
            && place.longitude
                < (b.longitude - a.longitude) * (place.latitude - a.latitude) / (b.latitude - a.latitude)
                    + a.longitude
    });
    crossings.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    #[test]
    fn distances_are_known_ones() {
        let distance = distance_m(PALERMO, CATANIA);
        assert!((distance - 166_274.15).abs() < 0.5, "{distance}");
        assert_eq!(distance_m(PALERMO, PALERMO), 0.0);
        let quarter = distance_m(Position::default(), Position { longitude: 90.0, latitude: 0.0 });
        assert!((quarter - EARTH_RADIUS_M * PI / 2.0).abs() < 1e-3, "{quarter}");
    }

    #[test]
    fn a_triangle_holds_its_middle_and_nothing_beside_it() {
        let at = |longitude, latitude| Position { longitude, latitude };
        let area = Area::polygon(vec![at(0.0, 0.0), at(10.0, 0.0), at(5.0, 10.0)]);
        assert!(area.distance_within_m(at(5.0, 3.0)).is_some());
        assert!(area.distance_within_m(at(1.0, 5.0)).is_none());
        assert!(area.distance_within_m(at(5.0, -0.1)).is_none());
        assert!((area.centre.longitude - 5.0).abs() < 1e-9);
    }

    /// Every position within an area lies in one of its cells: a search by cells is complete. Areas whose bounds
    /// cross the date line or come near a pole are excluded; they are searched as in the reference, which can be incomplete.
    #[test]
    fn cells_cover_their_area() {
        let mut random = Random::new(17);
        for _ in 0..2000 {
            let centre = Position {
                longitude: (random.unit() * 2.0 - 1.0) * 150.0,
                latitude: (random.unit() * 2.0 - 1.0) * 60.0,
            };
            let size_m = 10f64.powf(random.unit() * 5.0);
            let shape = match random.below(2) {
                0 => Shape::Circle { radius_m: size_m },
                _ => Shape::Rectangle { width_m: size_m, height_m: size_m * (0.1 + random.unit()) },
            };
            let area = Area { centre, shape };
            let cells = area.cells();
            let bounds = area.bounds();
            for _ in 0..50 {
                let along = |min: f64, max: f64, part: f64| min + (max - min) * part;
                let place = Position {
                    longitude: along(bounds.min.longitude, bounds.max.longitude, random.unit()),
                    latitude: along(bounds.min.latitude, bounds.max.latitude, random.unit()),
                };
                if area.distance_within_m(place).is_none() {
                    continue;
                }
                let score = place.score();
                let found = cells.iter().any(|cell| (cell.scores().0..cell.scores().1).contains(&score));
                assert!(found, "{place:?} of {area:?} is in none of {cells:?}");
            }
        }
    }
}
