//! The command registry: the table in which every request's command is looked up by name.

use super::{Args, Command, Flags, Group, access, flag};
use crate::error::{ClientError, quoted};
use std::collections::HashMap;
use wire::convert::len_u16;

/// A command's index in the registry and in per-command counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandId(pub u16);

/// The longest name of a command or subcommand; a longer word is not looked up.
const NAME_LEN_MAX: usize = 32;
/// The capacity of command sets.
pub const COMMANDS_MAX: usize = 1024;
/// Bytes of an unknown command that the error repeats.
const SHOWN_LEN_MAX: usize = 128;

/// Why a command cannot be renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameError {
    /// There is no command of this name.
    Unknown,
    /// Another command has the new name.
    Taken,
    /// The new name is too long.
    TooLong,
}

impl RenameError {
    /// The text for the operator who wrote the directive.
    pub const fn text(self) -> &'static str {
        match self {
            RenameError::Unknown => "No such command in rename-command",
            RenameError::Taken => "Target command name already exists",
            RenameError::TooLong => "Target command name is too long",
        }
    }
}

/// All commands, subcommands included, by lower-case name.
#[derive(Clone)]
pub struct Registry {
    rows: Vec<&'static Command>,
    /// [`Registry::is_plain`] by id.
    plain: Vec<bool>,
    by_name: HashMap<&'static [u8], CommandId, foldhash::fast::RandomState>,
    /// `container|subcommand` rows by the container's id and the name after the bar.
    subcommands: HashMap<(CommandId, &'static [u8]), CommandId, foldhash::fast::RandomState>,
    /// Commands that have been renamed or removed.
    renamed: Vec<CommandId>,
}

impl Registry {
    /// Registers all rows of these groups, and their subcommands.
    pub fn new(groups: &[&'static [Command]]) -> Self {
        let mut registry = Registry {
            rows: Vec::new(),
            plain: Vec::new(),
            by_name: HashMap::default(),
            subcommands: HashMap::default(),
            renamed: Vec::new(),
        };
        for row in groups.iter().flat_map(|group| group.iter()) {
            let id = registry.add(row);
            for sub in row.subcommands {
                let sub_id = registry.add(sub);
                let (_, word) = sub.name.split_once('|').expect("subcommand names are `container|word`");
                registry.subcommands.insert((id, word.as_bytes()), sub_id);
            }
        }
        registry
    }

    fn add(&mut self, row: &'static Command) -> CommandId {
        assert!(row.name.len() <= NAME_LEN_MAX, "{} is longer than NAME_LEN_MAX", row.name);
        assert!(self.rows.len() < COMMANDS_MAX, "there are more commands than COMMANDS_MAX");
        let id = CommandId(len_u16(self.rows.len()));
        self.rows.push(row);
        self.plain.push(is_plain(row));
        let previous = self.by_name.insert(row.name.as_bytes(), id);
        assert!(previous.is_none(), "two rows are named {}", row.name);
        id
    }

    /// Renames a command; an empty name removes it. Meant for startup: the memory of a new name is never freed.
    pub fn rename(&mut self, name: &[u8], new_name: &[u8]) -> Result<(), RenameError> {
        let name = name.to_ascii_lowercase();
        let id = *self.by_name.get(&name[..]).ok_or(RenameError::Unknown)?;
        let new_name = new_name.to_ascii_lowercase();
        if new_name.len() > NAME_LEN_MAX {
            return Err(RenameError::TooLong);
        }
        if new_name != name && self.by_name.contains_key(&new_name[..]) {
            return Err(RenameError::Taken);
        }
        self.by_name.remove(&name[..]);
        self.renamed.push(id);
        if !new_name.is_empty() {
            self.by_name.insert(Box::leak(new_name.into_boxed_slice()), id);
        }
        Ok(())
    }

    /// Whether the command only reads and writes data: it does not change clients or the server, and its reply is complete
    /// when it returns. So what held before it for its client's next command holds after it.
    #[inline]
    pub fn is_plain(&self, id: CommandId) -> bool {
        self.plain[id.0 as usize]
    }

    /// The row of a command.
    #[inline]
    pub fn row(&self, id: CommandId) -> &'static Command {
        self.rows[id.0 as usize]
    }

    /// Commands and subcommands, in registration order.
    pub fn iter(&self) -> impl Iterator<Item = (CommandId, &'static Command)> + '_ {
        self.rows.iter().enumerate().map(|(i, row)| (CommandId(len_u16(i)), *row))
    }

    /// The subcommands of a container.
    pub fn subcommands_of(&self, id: CommandId) -> impl Iterator<Item = CommandId> + '_ {
        // Subcommands are registered directly after their container.
        let count = len_u16(self.row(id).subcommands.len());
        (id.0 + 1..=id.0 + count).map(CommandId)
    }

    /// The number of commands, subcommands included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row named `name`, ignoring case; `container|subcommand` is also a name.
    pub fn named(&self, name: &[u8]) -> Option<CommandId> {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = lower_case(name, &mut lower)?;
        self.by_name.get(lower).copied()
    }

    /// As [`Registry::named`], by the command's name before `rename-command`: a permission for one name of a command
    /// applies to its other name.
    pub fn named_originally(&self, name: &[u8]) -> Option<CommandId> {
        let has_name = |id: &CommandId| self.row(*id).name.as_bytes().eq_ignore_ascii_case(name);
        self.named(name).filter(has_name).or_else(|| self.renamed.iter().copied().find(has_name))
    }

    /// Whether the first word of a request is enough to identify this command.
    #[inline]
    pub fn is_known_by_name(&self, id: CommandId) -> bool {
        let row = self.row(id);
        row.subcommands.is_empty() && !row.name.contains('|')
    }

    /// The command that `args` call: the subcommand's row if the first word is a container.
    pub fn find(&self, args: Args<'_>) -> Result<CommandId, ClientError> {
        let id = match self.named(args.at(0)) {
            Some(id) if !args.at(0).contains(&b'|') => id,
            _ => return Err(unknown_command(args)),
        };
        let row = self.row(id);
        if row.subcommands.is_empty() || args.len() < 2 {
            return Ok(id);
        }
        let mut lower = [0; NAME_LEN_MAX];
        lower_case(args.at(1), &mut lower)
            .and_then(|word| self.subcommands.get(&(id, word)).copied())
            .ok_or_else(|| ClientError::UnknownSubcommand {
                command: row.name.to_ascii_uppercase(),
                subcommand: shown(args.at(1), SHOWN_LEN_MAX),
            })
    }
}

/// See [`Registry::is_plain`].
fn is_plain(row: &Command) -> bool {
    const SPECIAL: Flags = flag::ADMIN
        | flag::PUBSUB
        | flag::NO_SCRIPT
        | flag::BLOCKING
        | flag::NO_AUTH
        | flag::MAY_REPLICATE
        | flag::PROTECTED
        | flag::NO_MULTI
        | flag::TOUCHES_ARBITRARY_KEYS;
    let is_about_data = matches!(
        row.group,
        Group::Generic
            | Group::String
            | Group::Bitmap
            | Group::HyperLogLog
            | Group::List
            | Group::Set
            | Group::SortedSet
            | Group::Hash
            | Group::Geo
            | Group::Stream
    );
    // MIGRATE requests an action after its reply.
    let is_answered = row.keys.iter().all(|spec| spec.access & access::INCOMPLETE == 0);
    is_about_data
        && row.is(flag::READONLY | flag::WRITE)
        && !row.is(SPECIAL)
        && !row.keys.is_empty()
        && is_answered
        && row.subcommands.is_empty()
}

fn lower_case<'a>(name: &[u8], buffer: &'a mut [u8; NAME_LEN_MAX]) -> Option<&'a [u8]> {
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    Some(lower)
}

/// The beginning of a word, as shown in errors.
fn shown(bytes: &[u8], max: usize) -> String {
    quoted(&bytes[..bytes.len().min(max)])
}

fn unknown_command(args: Args<'_>) -> ClientError {
    let mut beginning = String::new();
    let mut len = 0;
    for arg in args.iter().skip(1) {
        if len >= SHOWN_LEN_MAX {
            break;
        }
        let arg = format!("'{}' ", shown(arg, SHOWN_LEN_MAX - len));
        len += arg.chars().count();
        beginning += &arg;
    }
    ClientError::UnknownCommand { name: shown(args.at(0), SHOWN_LEN_MAX), beginning }
}
