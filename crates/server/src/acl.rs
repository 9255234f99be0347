//! Access control: users, their rules, and the check of a command against them.
//!
//! A client stores its user's [`UserHandle`], so that ACL SETUSER also applies to connected clients. The table of handles is
//! dense and small: one word of an entry shows that its user is unrestricted, and then no other data of the user is read
//! before a command.
//!
//! 1. `default` always exists, and has [`UserHandle::DEFAULT`].
//! 2. No connection can become [`UserHandle::SUPERUSER`]: its name cannot be authenticated.
//! 3. The handle of a removed user resolves to no user, and has no permissions.
//! 4. Rules apply all or not at all: to a copy of the user, which then replaces the user.

use crate::command::registry::Registry;
use std::collections::BTreeMap;
use wire::convert::short_len;

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

/// Identifies a client's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserHandle {
    index: u32,
    /// The number of earlier users of this index.
    generation: u32,
}

impl UserHandle {
    /// The user of new connections.
    pub const DEFAULT: UserHandle = UserHandle { index: 0, generation: 0 };
    /// The user of commands from the append-only file or the primary, which were checked where they ran first.
    pub const SUPERUSER: UserHandle = UserHandle { index: 1, generation: 0 };
}

const DEFAULT_NAME: &[u8] = b"default";
const SUPERUSER_NAME: &[u8] = b"(superuser)";
/// A generation that no handle has.
const NOBODY: u32 = u32::MAX;
/// The maximum number of users: each uses memory, and ACL LIST shows all of them in one reply.
pub const USERS_MAX: usize = 1 << 20;

/// An entry of the table of handles.
#[derive(Debug)]
struct Place {
    /// The generation of the user of this entry, if it is unrestricted; otherwise [`NOBODY`].
    unrestricted: u32,
    generation: u32,
    occupant: Option<Box<Occupant>>,
}

#[derive(Debug)]
struct Occupant {
    /// Commands that need only read permission on their single key.
    reads_single_key: CommandSet,
    /// Other commands with a single key, which need full permission on it.
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
    /// Unused indexes.
    free: Vec<u32>,
    by_name: BTreeMap<Vec<u8>, UserHandle>,
    facts: CommandFacts,
    /// What users were denied, the latest first: ACL LOG.
    pub log: DenialLog,
    /// Draws passwords for ACL GENPASS.
    pub generator: PasswordGenerator,
}

/// A user whose rules have changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed {
    /// The user.
    pub user: UserHandle,
    /// The permitted channels and patterns, if any were lost: subscribers of others must be disconnected.
    pub channels_left: Option<Vec<Vec<u8>>>,
}

/// The changes when all users were replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Users that no longer exist: their clients must be disconnected.
    pub removed: Vec<UserHandle>,
    /// Users that have lost channels.
    pub changed: Vec<Changed>,
}

impl Users {
    /// Creates `default` as the only user, with all permissions and with this password if there is one.
    /// `secret` is the seed of generated passwords.
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

    /// Whether the user is unrestricted: then no check is needed.
    #[inline]
    pub fn permits_all(&self, user: UserHandle) -> bool {
        self.places.get(user.index as usize).is_some_and(|place| place.unrestricted == user.generation)
    }

    /// The user of a handle, if it still exists.
    pub fn get(&self, user: UserHandle) -> Option<&User> {
        self.occupant(user).map(|occupant| &occupant.user)
    }

    #[inline]
    fn occupant(&self, user: UserHandle) -> Option<&Occupant> {
        let place = self.places.get(user.index as usize)?;
        place.occupant.as_deref().filter(|_| place.generation == user.generation)
    }

    /// The handle of the user with this name.
    pub fn named(&self, name: &[u8]) -> Option<UserHandle> {
        self.by_name.get(name).copied()
    }

    /// The name; empty if the user no longer exists.
    pub fn name(&self, user: UserHandle) -> &[u8] {
        self.get(user).map_or(b"", |user| &user.name)
    }

    /// All users, ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &User> {
        self.by_name.values().map(|&handle| self.get(handle).expect("every name has a user"))
    }

    /// The user with this name and password, if login is enabled.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<UserHandle> {
        // Computed before the name is looked up, so that the duration does not reveal whether the user exists.
        let password = Digest::of(password);
        let handle = self.named(name)?;
        self.get(handle).filter(|user| user.accepts(&password)).map(|_| handle)
    }

    /// Whether connections are `default` without authentication.
    #[inline]
    pub fn default_is_open(&self) -> bool {
        self.default_user().is_some_and(|user| user.credentials.needs_no_password && user.is_enabled)
    }

    /// Whether `default` accepts any password.
    pub fn default_needs_no_password(&self) -> bool {
        self.default_user().is_some_and(|user| user.credentials.needs_no_password)
    }

    fn default_user(&self) -> Option<&User> {
        self.get(UserHandle::DEFAULT)
    }

    /// `requirepass`: sets the only password of `default`, or none.
    pub fn set_default_password(&mut self, password: Option<&[u8]>) {
        let place = &mut self.places[UserHandle::DEFAULT.index as usize];
        if let Some(occupant) = &mut place.occupant {
            occupant.user.credentials = Credentials::of(password);
        }
    }

    /// Applies rules to the user of that name; creates the user if there is none.
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
                UserHandle { index: short_len(self.places.len() - 1), generation: 0 }
            }
        };
        self.by_name.insert(name, handle);
        handle
    }

    /// Replaces all users; `default` gets its initial rules if `users` does not contain it. Returns the removed and the
    /// changed users.
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

    /// Removes a user; its connections lose all permissions. `default` cannot be removed.
    pub fn remove(&mut self, name: &[u8]) -> Option<UserHandle> {
        let handle = self.named(name).filter(|&handle| handle != UserHandle::DEFAULT)?;
        self.by_name.remove(name);
        let place = &mut self.places[handle.index as usize];
        place.occupant = None;
        place.unrestricted = NOBODY;
        // A place with the maximum generation is not reused.
        place.generation += 1;
        if place.generation != NOBODY {
            self.free.push(handle.index);
        }
        Some(handle)
    }
}

#[cfg(test)]
mod tests;
