//! Who may do what: users, their rules, and the check of a command against them.
//!
//! A client holds the [`UserHandle`] of its user, so that what ACL SETUSER changes holds for those connected too. The
//! table of handles is dense and small: who may do everything is known from one word of it, and nothing else of a user
//! is looked at before a command of theirs.
//!
//! 1. `default` always exists, and has [`UserHandle::DEFAULT`].
//! 2. [`UserHandle::SUPERUSER`] is nobody's who connects: it has no name that can be authenticated as.
//! 3. A handle that has outlived its user finds nobody, and nobody may do anything.
//! 4. Rules apply all or not at all: to a copy of the user, which then takes its place.

use crate::command::registry::Registry;
use std::collections::BTreeMap;

mod check;
mod commands;
pub mod file;
mod log;
mod passwords;
mod patterns;
mod rule;
mod selector;
mod user;

pub use check::{Call, Denied, Reason, permits_channel};
pub use log::{DenialContext, DenialLog, Entry, Refusal};
pub use passwords::PasswordGenerator;
pub use rule::{ArgumentError, RuleError, Rules, is_word, join_selectors};
pub use selector::Selector;
use user::Credentials;
pub use user::User;

use commands::{CommandFacts, CommandSet};
use passwords::Digest;

/// Which user a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserHandle {
    index: u32,
    /// So many users have had this place before.
    generation: u32,
}

impl UserHandle {
    /// The one that connections begin as.
    pub const DEFAULT: UserHandle = UserHandle { index: 0, generation: 0 };
    /// Whose commands come from the append-only file or from the primary, and were checked where they ran first.
    pub const SUPERUSER: UserHandle = UserHandle { index: 1, generation: 0 };
}

const DEFAULT_NAME: &[u8] = b"default";
const SUPERUSER_NAME: &[u8] = b"(superuser)";
/// The generation that no handle has.
const NOBODY: u32 = u32::MAX;
/// More users than this are refused: each costs memory, and ACL LIST shows them all at once.
pub const USERS_MAX: usize = 1 << 20;

/// A place in the table of handles.
#[derive(Debug)]
struct Place {
    /// The generation of whoever is here and may do everything; otherwise [`NOBODY`].
    unrestricted: u32,
    generation: u32,
    occupant: Option<Box<Occupant>>,
}

#[derive(Debug)]
struct Occupant {
    /// Commands for which the right to read their one key is all that is needed.
    reads_single_key: CommandSet,
    /// Others, for which the right to do anything with it is.
    single_key: CommandSet,
    user: User,
}

impl Place {
    fn of(user: User, facts: &CommandFacts) -> Self {
        let mut place = Place { unrestricted: NOBODY, generation: 0, occupant: None };
        place.put(user, facts);
        place
    }

    fn put(&mut self, user: User, facts: &CommandFacts) {
        self.unrestricted = if user.permits_all() { self.generation } else { NOBODY };
        let permitted = match user.root.all_databases {
            true => user.root.commands,
            false => CommandSet::NONE,
        };
        let reads_single_key = permitted.and(&facts.reads_single_key);
        let single_key = permitted.and(&facts.single_key);
        self.occupant = Some(Box::new(Occupant { reads_single_key, single_key, user }));
    }
}

/// All users, by handle and by name.
#[derive(Debug)]
pub struct Users {
    places: Vec<Place>,
    /// Places that nobody has.
    free: Vec<u32>,
    by_name: BTreeMap<Vec<u8>, UserHandle>,
    facts: CommandFacts,
    pub log: DenialLog,
    pub generator: PasswordGenerator,
}

/// A user whose rules have changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed {
    pub user: UserHandle,
    /// Channels and patterns that the user may still listen to, where others than before: who listens to anything else
    /// is to be closed.
    pub channels_left: Option<Vec<Vec<u8>>>,
}

/// What has become of users when others took their place.
#[derive(Debug, PartialEq, Eq)]
pub struct Replaced {
    pub removed: Vec<UserHandle>,
    /// Those who may listen to other channels than before.
    pub changed: Vec<Changed>,
}

impl Users {
    /// Only `default`, who may do everything, with this password if there is one.
    /// `secret` is what passwords are made up from.
    pub fn new(registry: &Registry, password: Option<&[u8]>, secret: [u8; 32]) -> Self {
        let facts = CommandFacts::of(registry);
        let mut users = Users {
            places: vec![Place::of(User::default_user(), &facts), Place::of(User::superuser(), &facts)],
            free: Vec::new(),
            by_name: BTreeMap::from([(DEFAULT_NAME.to_vec(), UserHandle::DEFAULT)]),
            facts,
            log: DenialLog::default(),
            generator: PasswordGenerator::new(secret),
        };
        if password.is_some() {
            users.set_default_password(password);
        }
        users
    }

    /// Whether the user may do everything: then there is nothing to check.
    #[inline]
    pub fn permits_all(&self, user: UserHandle) -> bool {
        self.places.get(user.index as usize).is_some_and(|place| place.unrestricted == user.generation)
    }

    pub fn get(&self, user: UserHandle) -> Option<&User> {
        self.occupant(user).map(|occupant| &occupant.user)
    }

    #[inline]
    fn occupant(&self, user: UserHandle) -> Option<&Occupant> {
        let place = self.places.get(user.index as usize)?;
        place.occupant.as_deref().filter(|_| place.generation == user.generation)
    }

    pub fn named(&self, name: &[u8]) -> Option<UserHandle> {
        self.by_name.get(name).copied()
    }

    /// Empty for one who no longer exists.
    pub fn name(&self, user: UserHandle) -> &[u8] {
        self.get(user).map_or(b"", |user| &user.name)
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &User> {
        self.by_name.values().map(|&handle| self.get(handle).expect("names lead to users"))
    }

    /// Who has this name and this password, and may log in.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<UserHandle> {
        // Before the name is looked at: how long it takes does not tell whether there is such a user.
        let password = Digest::of(password);
        let handle = self.named(name)?;
        self.get(handle).filter(|user| user.accepts(&password)).map(|_| handle)
    }

    /// Whether connections are `default` without having authenticated.
    #[inline]
    pub fn default_is_open(&self) -> bool {
        self.default_user().is_some_and(|user| user.credentials.needs_no_password && user.is_enabled)
    }

    /// Whether any password would do for `default`.
    pub fn default_needs_no_password(&self) -> bool {
        self.default_user().is_some_and(|user| user.credentials.needs_no_password)
    }

    fn default_user(&self) -> Option<&User> {
        self.get(UserHandle::DEFAULT)
    }

    /// `requirepass`: the one password of `default`, or none.
    pub fn set_default_password(&mut self, password: Option<&[u8]>) {
        let place = &mut self.places[UserHandle::DEFAULT.index as usize];
        if let Some(occupant) = &mut place.occupant {
            occupant.user.credentials = Credentials::of(password);
        }
    }

    /// Applies rules to the user of that name, who is made if there is none.
    pub fn set(
        &mut self,
        name: &[u8],
        arguments: &[&[u8]],
        rules: Rules<'_>,
    ) -> Result<Changed, ArgumentError> {
        let existing = self.named(name);
        if existing.is_none() && self.by_name.len() >= USERS_MAX {
            return Err(ArgumentError::TooManyUsers);
        }
        let before = existing.and_then(|handle| self.get(handle));
        let mut user = before.cloned().unwrap_or_else(|| User::new(name, rules.all_channels));
        for argument in join_selectors(arguments)? {
            user.apply(&argument, rules)
                .map_err(|error| ArgumentError::Rule { rule: argument.into_owned(), error })?;
        }
        let channels_left = before.and_then(|before| user.channels_left_of(before));
        let user = self.put(existing, user);
        Ok(Changed { user, channels_left })
    }

    fn put(&mut self, existing: Option<UserHandle>, user: User) -> UserHandle {
        if let Some(handle) = existing {
            self.places[handle.index as usize].put(user, &self.facts);
            return handle;
        }
        let name = user.name.clone();
        let handle = match self.free.pop() {
            Some(index) => {
                let place = &mut self.places[index as usize];
                place.put(user, &self.facts);
                UserHandle { index, generation: place.generation }
            }
            None => {
                self.places.push(Place::of(user, &self.facts));
                UserHandle { index: self.places.len() as u32 - 1, generation: 0 }
            }
        };
        self.by_name.insert(name, handle);
        handle
    }

    /// Makes these all users there are, with `default` as it is where nothing is said of it. Answers who has gone or
    /// changed.
    pub fn replace(&mut self, mut users: file::NamedUsers) -> Replaced {
        users.entry(DEFAULT_NAME.to_vec()).or_insert_with(User::default_user);
        let gone: Vec<Vec<u8>> =
            self.by_name.keys().filter(|&name| !users.contains_key(name)).cloned().collect();
        let removed = gone.iter().filter_map(|name| self.remove(name)).collect();
        let mut changed = Vec::new();
        for (name, user) in users {
            let existing = self.named(&name);
            let before = existing.and_then(|handle| self.get(handle));
            let channels_left = before.and_then(|before| user.channels_left_of(before));
            let handle = self.put(existing, user);
            changed.extend(channels_left.map(|left| Changed { user: handle, channels_left: Some(left) }));
        }
        Replaced { removed, changed }
    }

    /// Forgets a user; whoever was connected as such may do nothing from now on. `default` stays.
    pub fn remove(&mut self, name: &[u8]) -> Option<UserHandle> {
        let handle = self.named(name).filter(|&handle| handle != UserHandle::DEFAULT)?;
        self.by_name.remove(name);
        let place = &mut self.places[handle.index as usize];
        place.occupant = None;
        place.unrestricted = NOBODY;
        // A place that has been used so often is not used again.
        place.generation += 1;
        if place.generation != NOBODY {
            self.free.push(handle.index);
        }
        Some(handle)
    }
}

#[cfg(test)]
mod tests;
