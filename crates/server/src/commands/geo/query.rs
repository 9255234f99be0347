//! The arguments of a search, in the old form (GEORADIUS) and in its replacement (GEOSEARCH).

use super::area::{Area, Shape};
use super::arguments::{member_position, number, position, radius, unit_m};
use super::geohash::Position;
use crate::command::Args;
use crate::db::Key;
use crate::db::sorted_set::SortedSetView;
use crate::error::{ClientError, quoted};

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// GEORADIUS: around coordinates.
    Radius { may_store: bool },
    /// GEORADIUSBYMEMBER
    RadiusByMember { may_store: bool },
    /// GEOSEARCH
    Search,
    /// GEOSEARCHSTORE
    SearchStore,
}

/// The order of matches in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    NearestFirst,
    FarthestFirst,
}

/// The stored score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Position,
    Distance,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Centre {
    /// The position of a member.
    OfMember(Position),
    At(Position),
}

/// The parsed arguments of a search.
pub struct Query<'a> {
    args: Args<'a>,
    variant: Variant,
    centre: Option<Centre>,
    shape: Option<Shape>,
    /// The unit of distances in replies.
    pub unit_m: f64,
    /// WITHDIST.
    pub with_distance: bool,
    /// WITHHASH.
    pub with_score: bool,
    /// WITHCOORD.
    pub with_position: bool,
    /// ASC or DESC, by distance; `None`: unordered.
    pub order: Option<Order>,
    /// COUNT: maximum number of matches.
    pub count_max: Option<usize>,
    /// ANY: the search stops at COUNT matches, which need not be the nearest.
    pub any: bool,
    /// STORE or STOREDIST: the destination, and the stored scores.
    pub target: Option<(Key<'a>, Stored)>,
}

impl Variant {
    /// The index of the sorted set's key.
    pub fn source_at(self) -> usize {
        if self == Variant::SearchStore { 2 } else { 1 }
    }

    fn is_search(self) -> bool {
        matches!(self, Variant::Search | Variant::SearchStore)
    }

    /// Whether STORE and STOREDIST, followed by a key, are options of the command.
    fn stores_by_option(self) -> bool {
        matches!(self, Variant::Radius { may_store: true } | Variant::RadiusByMember { may_store: true })
    }
}

impl<'a> Query<'a> {
    /// `set` is the searched set, if it exists: members in the arguments are looked up in it.
    pub fn parse(
        args: Args<'a>,
        variant: Variant,
        set: Option<SortedSetView<'_>>,
    ) -> Result<Self, ClientError> {
        let mut query = Query {
            args,
            variant,
            centre: None,
            shape: None,
            unit_m: 1.0,
            with_distance: false,
            with_score: false,
            with_position: false,
            order: None,
            count_max: None,
            any: false,
            target: (variant == Variant::SearchStore).then(|| (args.key(1), Stored::Position)),
        };
        let mut at = query.fixed(set)?;
        while at < args.len() {
            let taken = match query.word(at)? {
                0 => query.storing_word(at),
                taken => taken,
            };
            let taken = match taken {
                0 if variant.is_search() => query.area_word(at, set)?,
                taken => taken,
            };
            if taken == 0 {
                return Err(ClientError::Syntax);
            }
            at += taken;
        }
        query.check()?;
        Ok(query)
    }

    /// Parses the arguments with fixed positions; returns the index of the first option.
    fn fixed(&mut self, set: Option<SortedSetView<'_>>) -> Result<usize, ClientError> {
        let args = self.args;
        match self.variant {
            Variant::Radius { .. } => {
                self.centre = Some(Centre::At(position(args, 2)?));
                self.circle(4)?;
                Ok(6)
            }
            Variant::RadiusByMember { .. } => {
                // Without a set, the radius is not checked: nothing is found in any case.
                if let Some(set) = set {
                    self.centre = Some(Centre::OfMember(member_position(set, args.at(2))?));
                    self.circle(3)?;
                }
                Ok(5)
            }
            Variant::Search => Ok(2),
            Variant::SearchStore => Ok(3),
        }
    }

    fn circle(&mut self, at: usize) -> Result<(), ClientError> {
        let (radius, unit_m) = radius(self.args, at)?;
        self.unit_m = unit_m;
        self.shape = Some(Shape::Circle { radius_m: radius * unit_m });
        Ok(())
    }

    /// Parses an option of the reply; returns the number of its arguments, or 0 if it is another option.
    fn word(&mut self, at: usize) -> Result<usize, ClientError> {
        let args = self.args;
        match () {
            () if args.is(at, "WITHDIST") => self.with_distance = true,
            () if args.is(at, "WITHHASH") => self.with_score = true,
            () if args.is(at, "WITHCOORD") => self.with_position = true,
            () if args.is(at, "ANY") => self.any = true,
            () if args.is(at, "ASC") => self.order = Some(Order::NearestFirst),
            () if args.is(at, "DESC") => self.order = Some(Order::FarthestFirst),
            () if args.is(at, "COUNT") && at + 1 < args.len() => {
                let count = args.integer(at + 1)?;
                if count <= 0 {
                    return Err(ClientError::text("ERR COUNT must be > 0"));
                }
                self.count_max = Some(usize::try_from(count).unwrap_or(usize::MAX));
                return Ok(2);
            }
            () => return Ok(0),
        }
        Ok(1)
    }

    /// As [`Query::word`], for the options that store the result.
    fn storing_word(&mut self, at: usize) -> usize {
        let args = self.args;
        let distance = args.is(at, "STOREDIST");
        if self.variant == Variant::SearchStore && distance {
            self.target = Some((args.key(1), Stored::Distance));
            return 1;
        }
        if self.variant.stores_by_option() && (distance || args.is(at, "STORE")) && at + 1 < args.len() {
            let stored = if distance { Stored::Distance } else { Stored::Position };
            self.target = Some((args.key(at + 1), stored));
            return 2;
        }
        0
    }

    /// As [`Query::word`], for GEOSEARCH's centre and shape. A polygon is both, and only one shape is permitted.
    fn area_word(&mut self, at: usize, set: Option<SortedSetView<'_>>) -> Result<usize, ClientError> {
        let args = self.args;
        let left = args.len() - at - 1;
        let is_polygon = matches!(self.shape, Some(Shape::Polygon(_)));
        let no_shape_but = |same: bool| self.shape.is_none() || same;
        if args.is(at, "FROMMEMBER") && left >= 1 {
            if is_polygon || matches!(self.centre, Some(Centre::At(_))) {
                return Ok(0);
            }
            let position = match set {
                Some(set) => member_position(set, args.at(at + 1))?,
                None => Position::default(),
            };
            self.centre = Some(Centre::OfMember(position));
            Ok(2)
        } else if args.is(at, "FROMLONLAT") && left >= 2 {
            if is_polygon || matches!(self.centre, Some(Centre::OfMember(_))) {
                return Ok(0);
            }
            self.centre = Some(Centre::At(position(args, at + 1)?));
            Ok(3)
        } else if args.is(at, "BYRADIUS") && left >= 2 {
            if !no_shape_but(matches!(self.shape, Some(Shape::Circle { .. }))) {
                return Ok(0);
            }
            self.circle(at + 1)?;
            Ok(3)
        } else if args.is(at, "BYBOX") && left >= 3 {
            if !no_shape_but(matches!(self.shape, Some(Shape::Rectangle { .. }))) {
                return Ok(0);
            }
            self.rectangle(at + 1)?;
            Ok(4)
        } else if args.is(at, "BYPOLYGON") && left >= 2 {
            if !no_shape_but(is_polygon) || self.centre.is_some() {
                return Ok(0);
            }
            self.polygon(at + 1)
        } else {
            Ok(0)
        }
    }

    fn rectangle(&mut self, at: usize) -> Result<(), ClientError> {
        let width = number(self.args, at, "ERR need numeric width")?;
        let height = number(self.args, at + 1, "ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err(ClientError::text("ERR height or width cannot be negative"));
        }
        self.unit_m = unit_m(self.args, at + 2)?;
        self.shape = Some(Shape::Rectangle { width_m: width * self.unit_m, height_m: height * self.unit_m });
        Ok(())
    }

    /// Parses the number of corners at `at`, and the corners; returns the number of arguments, the keyword included.
    fn polygon(&mut self, at: usize) -> Result<usize, ClientError> {
        let args = self.args;
        let count = args
            .integer(at)
            .ok()
            .and_then(|count| i32::try_from(count).ok())
            .ok_or(ClientError::text("ERR invalid number of vertices"))?;
        let given = (args.len() - at - 1) / 2;
        let count = usize::try_from(count)
            .ok()
            .filter(|count| (3..=given).contains(count))
            .ok_or(ClientError::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"))?;
        let corners: Result<Vec<Position>, ClientError> =
            (0..count).map(|corner| position(args, at + 1 + 2 * corner)).collect();
        self.unit_m = 1.0;
        self.shape = Some(Shape::Polygon(corners?));
        Ok(2 + 2 * count)
    }

    /// Checks the combination of the options.
    fn check(&self) -> Result<(), ClientError> {
        if self.target.is_some() && (self.with_distance || self.with_score || self.with_position) {
            return Err(ClientError::text(if self.variant == Variant::SearchStore {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            }));
        }
        if self.variant.is_search() {
            let missing = if self.centre.is_none() && !matches!(self.shape, Some(Shape::Polygon(_))) {
                Some("FROMMEMBER or FROMLONLAT")
            } else if self.shape.is_none() {
                Some("BYRADIUS, BYBOX and BYPOLYGON")
            } else {
                None
            };
            if let Some(missing) = missing {
                let name = quoted(self.args.at(0));
                return Err(ClientError::formatted(format!(
                    "ERR exactly one of {missing} can be specified for {name}"
                )));
            }
        }
        if self.any && self.count_max.is_none() {
            return Err(ClientError::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The area to search; `None` if the set, and therefore the central member, does not exist.
    pub fn area(&mut self) -> Option<Area> {
        match (self.shape.take()?, self.centre) {
            (Shape::Polygon(corners), _) => Some(Area::polygon(corners)),
            (shape, Some(Centre::OfMember(centre) | Centre::At(centre))) => Some(Area { centre, shape }),
            (_, None) => None,
        }
    }
}
