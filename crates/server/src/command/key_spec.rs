//! The positions of a command's keys among its arguments, and the command's access to them.

use super::Args;

/// A command's access to a key; the words of COMMAND INFO's key specifications.
pub mod access {
    /// A set of the constants below.
    pub type Access = u16;
    /// Only reads the key's value or metadata.
    pub const RO: Access = 1 << 0;
    /// Reads and changes the value.
    pub const RW: Access = 1 << 1;
    /// Overwrites, regardless of the old value.
    pub const OW: Access = 1 << 2;
    /// Removes.
    pub const RM: Access = 1 << 3;
    /// Returns, copies or uses data of the value.
    pub const ACCESS: Access = 1 << 4;
    /// Changes data of the value.
    pub const UPDATE: Access = 1 << 5;
    /// Adds data to the value.
    pub const INSERT: Access = 1 << 6;
    /// Deletes data of the value.
    pub const DELETE: Access = 1 << 7;
    /// Named like a key but holds none (a shard channel).
    pub const NOT_KEY: Access = 1 << 8;
    /// The specification does not find all keys.
    pub const INCOMPLETE: Access = 1 << 9;
    /// The access depends on the arguments.
    pub const VARIABLE_FLAGS: Access = 1 << 10;

    /// The names of these in COMMAND INFO.
    pub const NAMES: &[(Access, &str)] = &[
        (RO, "RO"),
        (RW, "RW"),
        (OW, "OW"),
        (RM, "RM"),
        (ACCESS, "access"),
        (UPDATE, "update"),
        (INSERT, "insert"),
        (DELETE, "delete"),
        (NOT_KEY, "not_key"),
        (INCOMPLETE, "incomplete"),
        (VARIABLE_FLAGS, "variable_flags"),
    ];
}
pub use access::Access;

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(usize),
    /// After the keyword, searched from argument `from` onwards (negative: backwards from that offset before the end).
    Keyword {
        /// The keyword.
        word: &'static str,
        /// First argument of the search.
        from: i32,
    },
    /// Cannot be described.
    Unknown,
}

/// How the following keys are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Up to `last` (relative to the beginning; negative: from the end), every `step`; with `limit` above 1,
    /// only the first 1/limit of what remains.
    Range {
        /// Offset of the last key.
        last: i32,
        /// Distance between keys.
        step: usize,
        /// Divisor of the remaining arguments.
        limit: usize,
    },
    /// A count at `count_at` and the first key at `first`, both relative to the beginning.
    Counted {
        /// Offset of the count.
        count_at: usize,
        /// Offset of the first key.
        first: usize,
        /// Distance between keys.
        step: usize,
    },
    /// Cannot be described.
    Unknown,
}

/// The specification of some or all keys of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// How the keys are accessed.
    pub access: Access,
    /// Where the keys begin.
    pub begin: Begin,
    /// How the keys are found from there.
    pub find: Find,
    /// Details that the access does not express; can be empty.
    pub notes: &'static str,
}

impl KeySpec {
    /// One key at argument `index`.
    pub const fn one(index: usize, access: Access) -> Self {
        KeySpec::range(index, 0, 1, access)
    }

    /// Keys from argument `first` on; `last` is relative to it, or, if negative, to the end.
    pub const fn range(first: usize, last: i32, step: usize, access: Access) -> Self {
        KeySpec { access, begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, notes: "" }
    }

    /// `numkeys key [key ...]` with the count at argument `index`.
    pub const fn counted(index: usize, access: Access) -> Self {
        KeySpec {
            access,
            begin: Begin::Index(index),
            find: Find::Counted { count_at: 0, first: 1, step: 1 },
            notes: "",
        }
    }

    /// The argument that [`KeySpec::positions`] visits first for all arguments; 0 if it depends on them.
    pub const fn first_key(&self) -> usize {
        match (self.begin, self.find) {
            (Begin::Index(at), Find::Range { .. }) if self.access & access::NOT_KEY == 0 => at,
            _ => 0,
        }
    }

    /// Whether [`KeySpec::positions`] visits only [`KeySpec::first_key`] for all arguments.
    pub const fn is_one_key(&self) -> bool {
        self.first_key() > 0 && matches!(self.find, Find::Range { last: 0, .. })
    }

    /// Keys that only a [`super::KeyFinder`] finds.
    pub const fn unknown(access: Access, notes: &'static str) -> Self {
        KeySpec { access, begin: Begin::Unknown, find: Find::Unknown, notes }
    }

    /// See [`KeySpec::notes`].
    pub const fn noted(mut self, notes: &'static str) -> Self {
        self.notes = notes;
        self
    }

    /// Calls `visit` with the position of every key that this specification finds in `args`. Malformed arguments have no
    /// keys, and the result is `false`: the handler then refuses them with its own error.
    pub fn positions(&self, args: Args<'_>, visit: &mut dyn FnMut(usize)) -> bool {
        match self.found(args) {
            Some(found) => {
                found.for_each(visit);
                true
            }
            None => false,
        }
    }

    /// The positions of the keys that this specification finds in `args`. `None`: the arguments are malformed.
    pub fn found(&self, args: Args<'_>) -> Option<impl Iterator<Item = usize> + use<>> {
        let (first, count, step) = match self.begin_at(args) {
            None if self.begin == Begin::Unknown => (0, 0, 0),
            None => return None,
            Some(begin) => match self.find {
                Find::Range { last, step, limit } => {
                    let end = match last {
                        0.. => begin + last as usize + 1,
                        _ if limit > 1 => begin + (args.len() - begin) / limit,
                        _ => (args.len() + 1).saturating_sub(last.unsigned_abs() as usize),
                    };
                    (begin, end.min(args.len()).saturating_sub(begin).div_ceil(step), step)
                }
                Find::Counted { count_at, first, step } => {
                    let count = args.get(begin + count_at).and_then(wire::number::parse_i64);
                    let fits = args.len().saturating_sub(begin + first).div_ceil(step);
                    let count = count.and_then(|count| usize::try_from(count).ok());
                    (begin + first, count.filter(|count| (1..=fits).contains(count))?, step)
                }
                Find::Unknown => (0, 0, 0),
            },
        };
        Some((0..count).map(move |index| first + index * step))
    }

    fn begin_at(&self, args: Args<'_>) -> Option<usize> {
        match self.begin {
            Begin::Index(index) => (index < args.len()).then_some(index),
            Begin::Keyword { word, from } if from >= 0 => (from as usize..args.len())
                .find(|&at| args[at].eq_ignore_ascii_case(word.as_bytes()))
                .map(|at| at + 1)
                .filter(|&at| at < args.len()),
            Begin::Keyword { word, from } => (1..=args.len().saturating_sub(from.unsigned_abs() as usize))
                .rev()
                .find(|&at| at < args.len() && args[at].eq_ignore_ascii_case(word.as_bytes()))
                .map(|at| at + 1)
                .filter(|&at| at < args.len()),
            Begin::Unknown => None,
        }
    }
}
