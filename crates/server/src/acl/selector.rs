//! A selector: commands, keys, channels and databases that are permitted together. Every user has the root selector, which
//! contains the rules outside brackets, and can have others.

use super::commands::CommandSet;
use super::patterns::{KeyPatterns, READ, READ_WRITE, Rights, WRITE};
use super::rule::{RuleError, Rules, is_word};
use crate::command::category;
use crate::command::registry::{CommandId, Registry};

/// The maximum number of key patterns, channels, databases or command rules, each: every addition scans the existing ones.
const RULES_MAX: usize = 1 << 14;

/// A set of permissions that apply together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Whether all commands are permitted.
    pub all_commands: bool,
    /// Whether all keys are permitted.
    pub all_keys: bool,
    /// Whether all channels are permitted.
    pub all_channels: bool,
    /// Whether all databases are permitted.
    pub all_databases: bool,
    /// The permitted commands.
    pub commands: CommandSet,
    /// Permits commands of future versions too: the rules begin with `+@all`.
    begins_with_all: bool,
    /// The rules that produced `commands`, without those that later rules have undone.
    command_rules: Vec<CommandRule>,
    /// Commands that are permitted with this first argument only, regardless of `commands`.
    first_arguments: Vec<(CommandId, Vec<u8>)>,
    /// The permitted keys.
    pub keys: KeyPatterns,
    /// The permitted channels, as globs.
    pub channels: Vec<Vec<u8>>,
    /// Sorted.
    pub databases: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandRule {
    permits: bool,
    /// In lower case, such as `get`, `config|set`, `@read`, `select|0`.
    subject: Vec<u8>,
}

impl Selector {
    /// A selector without permissions, except for channels if `all_channels`.
    pub fn new(all_channels: bool) -> Self {
        Selector {
            all_commands: false,
            all_keys: false,
            all_channels,
            all_databases: true,
            commands: CommandSet::NONE,
            begins_with_all: false,
            command_rules: Vec::new(),
            first_arguments: Vec::new(),
            keys: KeyPatterns::default(),
            channels: Vec::new(),
            databases: Vec::new(),
        }
    }

    /// A selector that permits everything.
    pub fn of_all() -> Self {
        let mut selector = Selector::new(true);
        selector.all_keys = true;
        selector.set_all_commands(true);
        selector
    }

    /// Whether it permits everything.
    pub fn permits_all(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.all_databases
    }

    /// Whether a command that is not in `commands` is permitted by its first argument.
    pub fn permits_first_argument(&self, id: CommandId, argument: Option<&[u8]>) -> bool {
        let Some(argument) = argument else { return false };
        self.first_arguments
            .iter()
            .any(|(command, permitted)| *command == id && permitted.eq_ignore_ascii_case(argument))
    }

    /// Applies a rule; a refused rule changes nothing.
    pub fn apply(&mut self, rule: &[u8], rules: Rules<'_>) -> Result<(), RuleError> {
        match (rule, rule.to_ascii_lowercase().as_slice()) {
            (_, b"allkeys" | b"~*") => self.set_all_keys(true),
            (_, b"resetkeys") => self.set_all_keys(false),
            (_, b"allchannels" | b"&*") => self.set_all_channels(true),
            (_, b"resetchannels") => self.set_all_channels(false),
            (_, b"alldbs") => self.set_all_databases(true),
            (_, b"resetdbs") => self.set_all_databases(false),
            (_, b"allcommands" | b"+@all") => self.set_all_commands(true),
            (_, b"nocommands" | b"-@all") => self.set_all_commands(false),
            (_, [b'd', b'b', b'=', ..]) => return self.set_databases(&rule[3..]),
            ([b'~' | b'%', ..], _) if self.all_keys => return Err(RuleError::BesideAllKeys),
            ([b'~', pattern @ ..], _) => return self.add_pattern(pattern, READ_WRITE),
            ([b'%', rest @ ..], _) => {
                let (rights, pattern) = rights_and_pattern(rest)?;
                return self.add_pattern(pattern, rights);
            }
            ([b'&', channel @ ..], _) => return self.add_channel(channel),
            ([sign @ (b'+' | b'-'), b'@', ..], subject) => {
                return self.change_category(&subject[1..], *sign == b'+', rules.registry);
            }
            ([b'+', subject @ ..], _) => return self.add_command(subject, rules.registry),
            ([b'-', subject @ ..], _) => {
                let id = rules.registry.named_originally(subject).ok_or(RuleError::UnknownCommand)?;
                return self.change_command(
                    id,
                    rules.registry.row(id).name.as_bytes(),
                    false,
                    rules.registry,
                );
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels = Vec::new();
    }

    fn set_all_databases(&mut self, all: bool) {
        self.all_databases = all;
        self.databases = Vec::new();
    }

    fn set_all_commands(&mut self, all: bool) {
        self.all_commands = all;
        self.begins_with_all = all;
        self.commands = if all { CommandSet::ALL } else { CommandSet::NONE };
        self.command_rules = Vec::new();
        self.first_arguments = Vec::new();
    }

    fn set_databases(&mut self, list: &[u8]) -> Result<(), RuleError> {
        let mut databases =
            list.split(|&byte| byte == b',').map(database).collect::<Result<Vec<u32>, RuleError>>()?;
        databases.sort_unstable();
        databases.dedup();
        if databases.len() > RULES_MAX {
            return Err(RuleError::TooMany);
        }
        self.all_databases = false;
        self.databases = databases;
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &[u8], rights: Rights) -> Result<(), RuleError> {
        if !is_word(pattern) {
            return Err(RuleError::Syntax);
        }
        self.keys.add(pattern, rights);
        limited(self.keys.len())
    }

    fn add_channel(&mut self, channel: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::BesideAllChannels);
        }
        if !is_word(channel) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|other| other == channel) {
            self.channels.push(channel.to_vec());
        }
        limited(self.channels.len())
    }

    /// Parses `+command`, `+container|subcommand` or `+command|argument`.
    fn add_command(&mut self, subject: &[u8], registry: &Registry) -> Result<(), RuleError> {
        let named = |name: &[u8]| registry.named_originally(name).ok_or(RuleError::UnknownCommand);
        let Some(bar) = subject.iter().rposition(|&byte| byte == b'|') else {
            let id = named(subject)?;
            return self.change_command(id, registry.row(id).name.as_bytes(), true, registry);
        };
        let (command, argument) = (named(&subject[..bar])?, &subject[bar + 1..]);
        let row = registry.row(command);
        if row.name.contains('|') {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if argument.is_empty() || !is_word(argument) {
            return Err(RuleError::Syntax);
        }
        if !row.subcommands.is_empty() {
            return self.change_command(named(subject)?, subject, true, registry);
        }
        log::warn!(
            "Deprecation warning: Allowing a first arg of an otherwise blocked command is a misuse of ACL and may get disabled in the future (offender: +{})",
            String::from_utf8_lossy(subject)
        );
        if !self.permits_first_argument(command, Some(argument)) {
            self.first_arguments.push((command, argument.to_vec()));
        }
        self.remember(subject, true)
    }

    fn change_command(
        &mut self,
        id: CommandId,
        subject: &[u8],
        permits: bool,
        registry: &Registry,
    ) -> Result<(), RuleError> {
        self.set_command(id, permits, registry);
        self.remember(subject, permits)
    }

    fn change_category(
        &mut self,
        subject: &[u8],
        permits: bool,
        registry: &Registry,
    ) -> Result<(), RuleError> {
        let name = category::NAMES.iter().find(|name| name.as_bytes() == &subject[1..]);
        let name = name.ok_or(RuleError::UnknownCommand)?;
        for (id, row) in registry.iter() {
            if category::contains(row, name) {
                self.set_command(id, permits, registry);
            }
        }
        self.remember(subject, permits)
    }

    /// Permits or refuses a command with all its subcommands, and removes its first-argument rules.
    fn set_command(&mut self, id: CommandId, permits: bool, registry: &Registry) {
        self.commands.set(id, permits);
        self.all_commands &= permits;
        self.first_arguments.retain(|(command, _)| *command != id);
        for sub in registry.subcommands_of(id) {
            self.commands.set(sub, permits);
        }
    }

    /// Records a rule for printing. It replaces earlier rules of the same subject or of its subcommands.
    fn remember(&mut self, subject: &[u8], permits: bool) -> Result<(), RuleError> {
        let subject = subject.to_ascii_lowercase();
        let is_undone = |earlier: &[u8]| match earlier.strip_prefix(&subject[..]) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"|"),
            None => false,
        };
        self.command_rules.retain(|rule| !is_undone(&rule.subject));
        self.command_rules.push(CommandRule { permits, subject });
        limited(self.command_rules.len())
    }

    /// The rules about commands.
    pub fn command_rules(&self) -> Vec<u8> {
        let mut text = if self.begins_with_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for rule in &self.command_rules {
            text.extend_from_slice(if rule.permits { b" +" } else { b" -" });
            text.extend_from_slice(&rule.subject);
        }
        text
    }

    /// The rules about keys, separated by spaces.
    pub fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        self.keys.rules()
    }

    /// The rules that add channels.
    pub fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|channel| [b"&", &channel[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// The rule about databases; empty if none is permitted.
    pub fn database_rule(&self) -> Vec<u8> {
        if self.all_databases {
            return b"alldbs".to_vec();
        }
        if self.databases.is_empty() {
            return Vec::new();
        }
        let numbers: Vec<String> = self.databases.iter().map(u32::to_string).collect();
        format!("db={}", numbers.join(",")).into()
    }

    /// Writes all rules: applied to a new selector, they reproduce this one.
    pub fn describe(&self, text: &mut Vec<u8>) {
        let mut add = |rules: Vec<u8>| {
            if !rules.is_empty() {
                text.extend_from_slice(&rules);
                text.push(b' ');
            }
        };
        add(self.key_rules());
        if !self.all_channels {
            add(b"resetchannels".to_vec());
        }
        add(self.channel_rules());
        match self.database_rule() {
            _ if self.all_databases => {}
            rule if rule.is_empty() => add(b"resetdbs".to_vec()),
            rule => add(rule),
        }
        text.extend_from_slice(&self.command_rules());
    }
}

fn limited(count: usize) -> Result<(), RuleError> {
    if count <= RULES_MAX { Ok(()) } else { Err(RuleError::TooMany) }
}

/// Parses the text after the `%`: letters of rights, and a pattern after a `~`.
fn rights_and_pattern(rest: &[u8]) -> Result<(Rights, &[u8]), RuleError> {
    let mut rights = 0;
    for (at, letter) in rest.iter().enumerate() {
        match letter.to_ascii_uppercase() {
            b'R' if rights & READ == 0 => rights |= READ,
            b'W' if rights & WRITE == 0 => rights |= WRITE,
            b'~' if rights != 0 => return Ok((rights, &rest[at + 1..])),
            _ => return Err(RuleError::Syntax),
        }
    }
    // Without a `~` the pattern is empty.
    if rights == 0 { Err(RuleError::Syntax) } else { Ok((rights, b"")) }
}

/// Parses the number of a database, which can have blanks and a sign before it.
fn database(text: &[u8]) -> Result<u32, RuleError> {
    let text = std::str::from_utf8(text).map_err(|_| RuleError::Syntax)?;
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RuleError::Syntax);
    }
    let number = text.parse::<i64>().map_err(|_| RuleError::DatabaseOutOfRange)?;
    u32::try_from(number)
        .ok()
        .filter(|&number| number <= i32::MAX as u32)
        .ok_or(RuleError::DatabaseOutOfRange)
}
