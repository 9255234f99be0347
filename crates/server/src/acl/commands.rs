//! Sets of commands, and the properties of each command that the check needs.

use super::patterns::{WRITE, needed};
use crate::command::key_spec::{Begin, Find};
use crate::command::registry::{COMMANDS_MAX, CommandId, Registry};
use crate::command::{Command, KeySpec, access, category};

const WORDS: usize = COMMANDS_MAX / 64;

/// One bit for each possible command or subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSet([u64; WORDS]);

impl CommandSet {
    /// The empty set.
    pub const NONE: Self = CommandSet([0; WORDS]);
    /// All commands.
    pub const ALL: Self = CommandSet([u64::MAX; WORDS]);

    /// Whether the command is in the set.
    #[inline]
    pub fn has(&self, id: CommandId) -> bool {
        let id = usize::from(id.0);
        self.0[id / 64 % WORDS] >> (id % 64) & 1 != 0
    }

    /// The intersection.
    pub fn and(&self, other: &CommandSet) -> CommandSet {
        CommandSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Adds or removes a command.
    pub fn set(&mut self, id: CommandId, value: bool) {
        let id = usize::from(id.0);
        let bit = 1 << (id % 64);
        let word = &mut self.0[id / 64 % WORDS];
        *word = if value { *word | bit } else { *word & !bit };
    }
}

/// Properties that are derived from the commands' rows once, not in every check.
#[derive(Clone, Debug)]
pub struct CommandFacts {
    /// The only key is argument 1, and read permission is enough.
    pub reads_single_key: CommandSet,
    /// The only key is argument 1, and more than read permission is needed.
    pub single_key: CommandSet,
    /// Needs permission for its client's database.
    pub of_database: CommandSet,
}

impl CommandFacts {
    /// Derives the sets from the rows of all commands.
    pub fn of(registry: &Registry) -> Self {
        let none = CommandSet::NONE;
        let mut facts = CommandFacts { reads_single_key: none, single_key: none, of_database: none };
        for (id, row) in registry.iter() {
            facts.reads_single_key.set(id, has_single_key(row) && only_reads(row));
            facts.single_key.set(id, has_single_key(row) && !only_reads(row));
            facts.of_database.set(id, is_of_database(row));
        }
        facts
    }
}

fn has_single_key(row: &Command) -> bool {
    let [spec] = row.keys else { return false };
    let KeySpec { access, begin: Begin::Index(1), find: Find::Range { last: 0, .. }, .. } = spec else {
        return false;
    };
    // If the arguments determine more than the access to the key, they can also name other keys.
    let is_whole = access & (access::NOT_KEY | access::INCOMPLETE) == 0;
    let is_found = row.key_finder.is_none() || access & access::VARIABLE_FLAGS != 0;
    is_whole && is_found && row.channels.is_none()
}

fn only_reads(row: &Command) -> bool {
    let needs_no_more =
        |spec: &KeySpec| spec.access & access::VARIABLE_FLAGS == 0 && needed(spec.access) & WRITE == 0;
    row.keys.iter().all(needs_no_more)
}

fn is_of_database(row: &Command) -> bool {
    row.has_keys() || ["keyspace", "read", "write"].iter().any(|name| category::contains(row, name))
}
