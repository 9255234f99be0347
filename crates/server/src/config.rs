//! The configuration: each option is defined once, as a row of [`table`] and as a plain field of [`Config`].
//!
//! 1. `Config::load` reads the startup configuration: file, standard input, `--option value` arguments.
//! 2. The engine owns the only `Config` and passes `&Config`; a hot path reads a field.
//! 3. CONFIG GET is [`Config::get`].
//! 4. CONFIG SET is [`Config::prepare`], which checks everything and returns a new `Config`. The owner applies the external
//!    changes (a port, a directory), then assigns it; if that fails, it drops it and nothing has changed.
//! 5. CONFIG REWRITE is [`Config::rewrite`].

mod buffer_limits;
mod checks;
mod choices;
mod events;
mod explained;
pub mod key_policy;
mod kinds;
mod load;
mod option;
mod prefixes;
mod quote;
mod rewrite;
mod special;
mod table;

pub use buffer_limits::{OutputBufferLimit, OutputBufferLimits};
pub use checks::is_host;
pub use choices::*;
pub use events::EventClasses;
pub use explained::{default_lines, default_value, explained_file, takes};
pub use key_policy::KeyPolicy;
pub use kinds::{MemoryLimit, parse_memory};
pub use load::{ConfigError, Directive, Place, Source, Startup, split_line};
pub use option::{Flags, Occurrence, Refusal};
pub use prefixes::{PREFIX_LEN_MAX, PrefixRule};
pub use quote::quoted;
pub use rewrite::{RewriteError, RewriteRequest, UsersOf};
pub use special::{OomScoreAdjValues, ReplicaOf, SavePoint};
pub use table::{Config, NO_RDMA, OptionId, ROWS};

/// A row of the table of options.
pub type Row = option::Row<Config, OptionId>;

/// The row with this name or alias, ignoring case, and the name in the table's spelling.
pub fn find(name: &[u8]) -> Option<(&'static Row, &'static str)> {
    ROWS.iter().find_map(|row| row.name_matching(name).map(|spelled| (row, spelled)))
}

/// Whether the value of this option must be redacted wherever commands are shown.
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|(row, _)| row.flags.has(Flags::SENSITIVE))
}

/// The origin and the time of a CONFIG SET.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOrigin {
    /// The dataset is being loaded.
    pub loading: bool,
    /// The client came over loopback or a Unix socket.
    pub local: bool,
}

/// An option that CONFIG SET gave a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row of the option.
    pub option: OptionId,
    /// The option's name, or its alias if the client used that.
    pub name: &'static str,
}

/// Why CONFIG SET did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The reply is the server's LOADING error.
    Loading,
    /// There is no option of this name.
    Unknown {
        /// Name in the request.
        name: Vec<u8>,
    },
    /// The option does not accept the value.
    Refused {
        /// Name of the option.
        name: Vec<u8>,
        /// Why the value is refused.
        reason: Refusal,
    },
}

impl SetError {
    /// For the owner: applying `change` outside of the configuration failed.
    pub fn not_applied(change: &Change, reason: impl Into<Refusal>) -> Self {
        Self::refused(change.name, reason)
    }

    fn refused(name: impl Into<Vec<u8>>, reason: impl Into<Refusal>) -> Self {
        Self::Refused { name: name.into(), reason: reason.into() }
    }

    /// The error for the client, with its code; `None` for `Loading`, whose text belongs to the engine.
    pub fn text(&self) -> Option<Vec<u8>> {
        match self {
            Self::Loading => None,
            Self::Unknown { name } => Some(
                [b"ERR Unknown option or number of arguments for CONFIG SET - '", &name[..], b"'"].concat(),
            ),
            Self::Refused { name, reason } => Some(
                [
                    b"ERR CONFIG SET failed (possibly related to argument '",
                    &name[..],
                    b"') - ",
                    reason.as_bytes(),
                ]
                .concat(),
            ),
        }
    }
}

impl Config {
    /// The options that match any of `patterns`, sorted by name, without duplicates. A word without wildcards names one
    /// option or alias, and is returned as it was typed. A pattern matches names and aliases, but no hidden option.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, &Row)> = Vec::new();
        for wanted in patterns {
            if wanted.iter().any(|byte| matches!(byte, b'[' | b'*' | b'?')) {
                let visible = ROWS.iter().filter(|row| !row.flags.has(Flags::HIDDEN));
                for (row, name) in visible.flat_map(|row| row.names().map(move |name| (row, name))) {
                    if wire::glob::matches_ignoring_case(wanted, name.as_bytes()) {
                        add_once(&mut found, name.as_bytes(), row);
                    }
                }
            } else if let Some((row, _)) = find(wanted) {
                add_once(&mut found, wanted, row);
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.into_iter().map(|(name, row)| (name, (row.get)(self))).collect()
    }

    /// The value of one option as CONFIG GET shows it.
    pub fn value_of(&self, row: &Row) -> Vec<u8> {
        (row.get)(self)
    }

    /// This configuration with every pair set, and the options that this changes. An error refuses all of them.
    pub fn prepare(
        &self,
        pairs: &[(&[u8], &[u8])],
        origin: SetOrigin,
    ) -> Result<(Config, Vec<Change>), SetError> {
        let rows = self.settable(pairs, origin)?;
        let mut next = self.clone();
        let mut changes = Vec::new();
        for ((row, name), (_, value)) in rows.into_iter().zip(pairs) {
            let unquoted = match row.flags.has(Flags::QUOTED) {
                true => split_line(value).map_err(|reason| SetError::refused(name, reason))?,
                false => Vec::new(),
            };
            let words: Vec<&[u8]> = match () {
                () if row.flags.has(Flags::QUOTED) => unquoted.iter().map(Vec::as_slice).collect(),
                () if !row.flags.has(Flags::MULTI) => vec![value],
                () if value.is_empty() => Vec::new(),
                () => value.split(|byte| *byte == b' ').collect(),
            };
            let changed = (row.set)(&mut next, &words, Occurrence::First)
                .map_err(|reason| SetError::refused(name, reason))?;
            if changed || row.flags.has(Flags::VOLATILE) {
                changes.push(Change { option: row.id, name });
            }
        }
        Ok((next, changes))
    }

    /// `prepare` and assign, for owners that apply nothing else.
    pub fn set(&mut self, pairs: &[(&[u8], &[u8])], origin: SetOrigin) -> Result<Vec<Change>, SetError> {
        let (next, changes) = self.prepare(pairs, origin)?;
        *self = next;
        Ok(changes)
    }

    /// The rows that `pairs` name, if all of them can be set now.
    fn settable(
        &self,
        pairs: &[(&[u8], &[u8])],
        origin: SetOrigin,
    ) -> Result<Vec<(&'static Row, &'static str)>, SetError> {
        let mut rows: Vec<(&'static Row, &'static str)> = Vec::with_capacity(pairs.len());
        for (typed, _) in pairs {
            let Some((row, name)) = find(typed) else {
                return Err(SetError::Unknown { name: typed.to_vec() });
            };
            if row.flags.has(Flags::IMMUTABLE) {
                return Err(SetError::refused(*typed, "can't set immutable config"));
            }
            if row.flags.has(Flags::PROTECTED) && !self.enable_protected_configs.allows(origin.local) {
                return Err(SetError::refused(*typed, "can't set protected config"));
            }
            if row.flags.has(Flags::DENIED_WHILE_LOADING) && origin.loading {
                return Err(SetError::Loading);
            }
            // A name and its alias are not duplicates of each other: the last one wins.
            if rows.iter().any(|(_, other)| *other == name) {
                return Err(SetError::refused(*typed, "duplicate parameter"));
            }
            rows.push((row, name));
        }
        Ok(rows)
    }
}

/// Shows option names and values, without secrets.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |row: &Row| match row.flags.has(Flags::SENSITIVE) {
            true => "(redacted)".to_owned(),
            false => String::from_utf8_lossy(&(row.get)(self)).into_owned(),
        };
        f.debug_map().entries(ROWS.iter().map(|row| (row.name, shown(row)))).finish()
    }
}

fn add_once(found: &mut Vec<(Vec<u8>, &'static Row)>, name: &[u8], row: &'static Row) {
    if !found.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
        found.push((name.to_vec(), row));
    }
}

#[cfg(test)]
mod tests;
