//! The check of one command against a user's rules.
//!
//! A command is permitted if one selector permits all of it. If none does, the reason is that of the selector that got
//! furthest: databases are checked before the command itself, then keys, then channels.

use super::commands::CommandFacts;
use super::patterns::{READ, READ_WRITE, needed};
use super::selector::Selector;
use super::{UserHandle, Users};
use crate::command::registry::CommandId;
use crate::command::scope::{Channels, Databases};
use crate::command::{Access, Args, Command, flag};

/// The command to check.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Id of the command.
    pub id: CommandId,
    /// Row of the command or subcommand.
    pub row: &'static Command,
    /// All arguments, with the command's name.
    pub args: Args<'a>,
    /// The selected database; in a transaction, the one that its last SELECT has selected.
    pub db_index: usize,
    /// Number of databases.
    pub database_count: usize,
}

/// Why something is refused, in the order of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The user may not access the database.
    Database,
    /// The user may not run the command.
    Command,
    /// The user may not access the key.
    Key,
    /// The user may not access the channel.
    Channel,
    /// Not from the check: a wrong name or password.
    Auth,
    /// Not from the check: a certificate that names no user.
    TlsCertificate,
}

impl Reason {
    /// The name in ACL LOG.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Database => "database",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
            Reason::TlsCertificate => "tls-cert",
        }
    }
}

/// A refused command. The greater of two got further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denied {
    /// Why it is refused.
    pub reason: Reason,
    /// The index of the refused argument; 0 is the command itself.
    pub at: usize,
}

impl Denied {
    const LEAST: Denied = Denied { reason: Reason::Database, at: 0 };

    /// The refused object as ACL LOG shows it: a key, a channel, the number of a database, or the command's name.
    pub fn object<'a>(&self, row: &'static Command, args: Args<'a>) -> &'a [u8] {
        match self.reason {
            Reason::Key | Reason::Channel => args.at(self.at),
            Reason::Database if self.at > 0 => args.at(self.at),
            _ => row.name.as_bytes(),
        }
    }

    /// The error for the client; ACL DRYRUN includes the object.
    pub fn text(&self, user: &[u8], row: &Command, args: Args<'_>, with_object: bool) -> Vec<u8> {
        let to_access = |before: &[u8], after: &[u8]| {
            let object = args.at(self.at);
            [b"User ", user, b" has no permissions to access ", before, object, after].concat()
        };
        match self.reason {
            Reason::Key if with_object => to_access(b"the '", b"' key"),
            Reason::Channel if with_object => to_access(b"the '", b"' channel"),
            Reason::Database if with_object => to_access(b"database ", b""),
            Reason::Key => b"No permissions to access a key".to_vec(),
            Reason::Channel => b"No permissions to access a channel".to_vec(),
            Reason::Database => b"No permissions to access database".to_vec(),
            _ => [b"User ", user, b" has no permissions to run the '", row.name.as_bytes(), b"' command"]
                .concat(),
        }
    }
}

impl Users {
    /// The fast path for users with restrictions: a command with a single key that the user has permission for. `false` does
    /// not mean that the command is refused.
    ///
    /// Not inlined: the registers it needs would be saved for every GET of a user without restrictions, 1 % of it. It
    /// makes no calls but the last, for the same reason: 16 instructions of 80 saved registers.
    #[inline(never)]
    pub fn permits_single_key(&self, user: UserHandle, id: CommandId, args: Args<'_>) -> bool {
        let (Some(occupant), Some(key)) = (self.occupant(user), args.get(1)) else { return false };
        let needed = match occupant.reads_single_key.has(id) {
            true => READ,
            false if occupant.single_key.has(id) => READ_WRITE,
            false => return false,
        };
        let root = &occupant.user.root;
        root.all_keys || root.keys.permit_by_first(key, needed) || root.keys.permit(key, needed)
    }

    /// Checks a command.
    pub fn check(&self, user: UserHandle, call: &Call<'_>) -> Result<(), Denied> {
        if self.permits_all(user) || self.permits_single_key(user, call.id, call.args) {
            return Ok(());
        }
        self.check_whole(user, call)
    }

    /// As [`Users::check`], for commands that [`Users::permits_single_key`] does not permit.
    pub fn check_whole(&self, user: UserHandle, call: &Call<'_>) -> Result<(), Denied> {
        let Some(user) = self.get(user) else {
            return Err(Denied { reason: Reason::Command, at: 0 });
        };
        let mut furthest = Denied::LEAST;
        for selector in user.selectors() {
            match selector.check(&self.facts, call) {
                Ok(()) => return Ok(()),
                Err(denied) => furthest = furthest.max(denied),
            }
        }
        Err(furthest)
    }

    /// Whether some selector permits this access to a key.
    pub fn permits_key(&self, user: UserHandle, key: &[u8], access: Access) -> bool {
        let permits = |selector: &Selector| selector.all_keys || selector.keys.permit(key, needed(access));
        self.permits_all(user) || self.get(user).is_some_and(|user| user.selectors().any(permits))
    }

    /// As [`Users::check`], for a command that may also `access` keys that its arguments do not name: one selector must
    /// permit both.
    pub fn permits_any_key(&self, user: UserHandle, call: &Call<'_>, access: Access) -> bool {
        let permits = |selector: &Selector| {
            let any_key = selector.all_keys || selector.keys.permit_any(needed(access));
            any_key && selector.check(&self.facts, call).is_ok()
        };
        self.permits_all(user) || self.get(user).is_some_and(|user| user.selectors().any(permits))
    }
}

impl Selector {
    fn check(&self, facts: &CommandFacts, call: &Call<'_>) -> Result<(), Denied> {
        self.check_databases(facts, call)?;
        let is_open = self.all_commands || call.row.is(flag::NO_AUTH) || self.commands.has(call.id);
        if !is_open && !self.permits_first_argument(call.id, call.args.get(1)) {
            return Err(Denied { reason: Reason::Command, at: 0 });
        }
        if !self.all_keys {
            self.check_keys(call)?;
        }
        match call.row.channels {
            Some(channels) if !self.all_channels => self.check_channels(channels, call),
            _ => Ok(()),
        }
    }

    fn check_databases(&self, facts: &CommandFacts, call: &Call<'_>) -> Result<(), Denied> {
        if self.all_databases {
            return Ok(());
        }
        let refused = |at| Err(Denied { reason: Reason::Database, at });
        let needs_own = match call.row.databases {
            Databases::Named(find) => {
                for (at, index) in named_databases(find, call).unwrap_or_default() {
                    if !self.permits_database(index, call) {
                        return refused(at);
                    }
                }
                call.row.has_keys()
            }
            Databases::All if self.databases_below(call.database_count) < call.database_count => {
                return refused(0);
            }
            Databases::All => false,
            Databases::Own => facts.of_database.has(call.id),
        };
        if needs_own && !self.permits_database(call.db_index, call) { refused(0) } else { Ok(()) }
    }

    fn permits_database(&self, index: usize, call: &Call<'_>) -> bool {
        let listed = |index| self.databases.binary_search(&index).is_ok();
        index < call.database_count && u32::try_from(index).is_ok_and(listed)
    }

    fn databases_below(&self, count: usize) -> usize {
        self.databases.partition_point(|&index| (index as usize) < count)
    }

    fn check_keys(&self, call: &Call<'_>) -> Result<(), Denied> {
        let mut refused = None;
        let valid = call.row.visit_keys(call.args, &mut |at, access| {
            // A command that is only checked, not run (ACL DRYRUN), can lack its keys.
            let is_refused = |key| !self.keys.permit(key, needed(access));
            if refused.is_none() && call.args.get(at).is_some_and(is_refused) {
                refused = Some(at);
            }
        });
        match refused {
            Some(at) if valid => Err(Denied { reason: Reason::Key, at }),
            _ => Ok(()),
        }
    }

    fn check_channels(&self, channels: Channels, call: &Call<'_>) -> Result<(), Denied> {
        let is_pattern = channels == Channels::Patterns;
        let mut positions = channels.positions(call.args);
        match positions.find(|&at| !permits_channel(&self.channels, call.args.at(at), is_pattern)) {
            Some(at) => Err(Denied { reason: Reason::Channel, at }),
            None => Ok(()),
        }
    }
}

/// Whether a channel matches one of these patterns; a pattern of channels must be equal to one.
pub fn permits_channel(permitted: &[Vec<u8>], channel: &[u8], is_pattern: bool) -> bool {
    permitted.iter().any(|pattern| match is_pattern {
        true => pattern == channel,
        false => wire::glob::matches(pattern, channel),
    })
}

/// Positions and numbers of the databases that the arguments name; `None` if one of them is not a database.
fn named_databases(find: fn(Args<'_>) -> Vec<usize>, call: &Call<'_>) -> Option<Vec<(usize, usize)>> {
    let number = |at: usize| {
        let index = call.args.get(at).and_then(wire::number::parse_i64)?;
        let index = usize::try_from(index).ok().filter(|&index| index < call.database_count)?;
        Some((at, index))
    };
    find(call.args).into_iter().map(number).collect()
}
