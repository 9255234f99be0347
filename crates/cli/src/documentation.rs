//! Documentation of commands: from the server's COMMAND DOCS, or the table compiled into this program if the server
//! does not provide it. Help, completion and hints ([`crate::hints`]) use it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use wire::response::Value;
use wire::spelling::meant;

use crate::hints::full_syntax;
use crate::program::Program;
use crate::session::Session;

/// The commands of the server of this version; `tests/documentation.rs` keeps it current.
const BUILT_IN: &str = include_str!("../commands.json");

#[derive(Default)]
pub struct Documentation {
    /// Sorted by name.
    commands: Vec<Command>,
}

pub struct Command {
    /// In upper case; a subcommand follows a space.
    pub name: String,
    pub arguments: Vec<Argument>,
    /// The syntax of all arguments.
    syntax: String,
    summary: String,
    since: String,
    group: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ArgumentKind {
    #[default]
    Text,
    Integer,
    Double,
    /// A keyword without a value.
    PureToken,
    OneOf,
    Block,
}

#[derive(Debug, Default)]
pub struct Argument {
    /// The placeholder of the value in the syntax.
    pub display: String,
    /// The keyword before the value.
    pub token: Option<String>,
    pub kind: ArgumentKind,
    pub is_optional: bool,
    pub is_multiple: bool,
    /// The keyword is repeated with each value.
    pub repeats_token: bool,
    /// The arguments of a block or a choice.
    pub parts: Vec<Argument>,
}

/// Returns a field of a map in either protocol.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.entries().into_iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes())).map(|(_, value)| value)
}

/// Returns a text of the server on one line.
fn text_of(value: &Value) -> String {
    let text = String::from_utf8_lossy(value.as_bytes().unwrap_or_default());
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn text_field(map: &Value, name: &str) -> Option<String> {
    field(map, name).map(text_of)
}

fn arguments(map: &Value, version: Option<&str>) -> Vec<Argument> {
    let all = field(map, "arguments").and_then(Value::as_list).unwrap_or(&[]);
    let known = all.iter().filter(|argument| is_supported(argument, version));
    known.map(|argument| Argument::read(argument, version)).collect()
}

impl Argument {
    fn read(about: &Value, version: Option<&str>) -> Argument {
        let flags = field(about, "flags").and_then(Value::as_list).unwrap_or(&[]);
        let has_flag = |flag: &str| flags.iter().any(|value| value.as_bytes() == Some(flag.as_bytes()));
        let kind = match text_field(about, "type").unwrap_or_default().as_str() {
            "integer" | "unix-time" => ArgumentKind::Integer,
            "double" => ArgumentKind::Double,
            "pure-token" => ArgumentKind::PureToken,
            "oneof" => ArgumentKind::OneOf,
            "block" => ArgumentKind::Block,
            _ => ArgumentKind::Text,
        };
        Argument {
            display: text_field(about, "display_text")
                .or_else(|| text_field(about, "name"))
                .unwrap_or_default(),
            token: text_field(about, "token"),
            kind,
            is_optional: has_flag("optional"),
            is_multiple: has_flag("multiple"),
            repeats_token: has_flag("multiple_token"),
            parts: arguments(about, version),
        }
    }
}

/// Returns whether a server of this version has the documented item.
fn is_supported(about: &Value, version: Option<&str>) -> bool {
    let numbers =
        |text: &str| -> Vec<u64> { text.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
    match (version, text_field(about, "since")) {
        (Some(version), Some(since)) => numbers(version) >= numbers(&since),
        _ => true,
    }
}

impl Documentation {
    /// Loads the documentation from the server; connects if necessary and possible.
    pub fn load(session: &mut Session) -> Self {
        if !session.is_connected() && session.connect().is_err() {
            return Self::built_in(None);
        }
        match session.request(&["COMMAND", "DOCS"]) {
            Ok(reply @ (Value::Map(_) | Value::Array(_))) => Self::read(&reply, None),
            _ => {
                let version = server_version(session);
                Self::built_in(version.as_deref())
            }
        }
    }

    /// Returns the built-in documentation for a server of this version.
    pub fn built_in(version: Option<&str>) -> Self {
        match serde_json::from_str(BUILT_IN) {
            Ok(docs) => Self::read(&from_json(docs), version),
            Err(_) => Self::default(),
        }
    }

    /// Reads a reply to COMMAND DOCS.
    pub fn read(docs: &Value, version: Option<&str>) -> Self {
        let mut commands = Vec::new();
        collect(docs, version, &mut commands);
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        Self { commands }
    }

    /// Returns the command at the start of these words, a subcommand before its container, and the number of words in
    /// its name.
    pub fn find(&self, words: &[Vec<u8>]) -> Option<(&Command, usize)> {
        [2, 1].into_iter().filter(|&len| words.len() >= len).find_map(|len| {
            let name = words[..len].join(&b' ').to_ascii_uppercase();
            self.commands.iter().find(|command| command.name.as_bytes() == name).map(|command| (command, len))
        })
    }

    /// Returns the command or subcommand closest to `words`, which are no command of the server.
    pub fn meant(&self, words: &[Vec<u8>]) -> Option<String> {
        let word = |index: usize| words.get(index).and_then(|word| std::str::from_utf8(word).ok());
        let container = word(0)?.to_ascii_uppercase();
        let names = self.commands.iter().map(|command| command.name.as_str());
        let subcommands: Vec<&str> =
            names.clone().filter_map(|name| name.strip_prefix(&container)?.strip_prefix(' ')).collect();
        match subcommands.is_empty() {
            true => meant(&container, names.filter(|name| !name.contains(' '))).map(str::to_owned),
            false => Some(format!("{container} {}", meant(word(1)?, subcommands)?)),
        }
    }

    /// Returns the names that complete a prefix, in the prefix's case.
    pub fn completions(&self, beginning: &str, with_groups: bool) -> Vec<String> {
        let is_lower = beginning.chars().any(|letter| letter.is_ascii_lowercase());
        let wanted = beginning.to_ascii_uppercase();
        let matching = self.commands.iter().filter(|command| command.name.starts_with(&wanted));
        let names =
            matching.map(|command| if is_lower { command.name.to_lowercase() } else { command.name.clone() });
        let groups: BTreeSet<String> = match with_groups {
            true => self.commands.iter().map(|command| format!("@{}", command.group)).collect(),
            false => BTreeSet::new(),
        };
        let groups = groups.into_iter().filter(|group| group.to_ascii_uppercase().starts_with(&wanted));
        groups.chain(names).collect()
    }

    pub fn general_help() -> String {
        let Program { name, server, .. } = Program::current();
        let (version, file) = (Program::current().version_line(), Program::current().preferences_name());
        format!(
            "{version}\nTo get help about {server} commands type:\n      \"help @<group>\" to get a list of commands in \
             <group>\n      \"help <command>\" for help on <command>\n      \"help <tab>\" to get a list of possible help \
             topics\n      \"quit\" to exit\n\nTo set {name} preferences:\n      \":set hints\" enable online hints\n      \
             \":set nohints\" disable online hints\n      \":set pager\" / \":set nopager\" long replies a page at a time\
             \n      \":set color\" / \":set nocolor\" replies in colors\nSet your preferences in ~/{file}\n"
        )
    }

    /// Returns the text for `help` with these arguments.
    pub fn help(&self, words: &[Vec<u8>]) -> String {
        let text = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        let group = text.strip_prefix('@');
        let name = text.to_ascii_uppercase();
        let is_wanted = |command: &&Command| match group {
            Some(group) => command.group.eq_ignore_ascii_case(group),
            None => {
                let rest = command.name.strip_prefix(&name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
        };
        let mut out = String::new();
        for command in self.commands.iter().filter(is_wanted) {
            let Command { name, syntax, summary, since, .. } = command;
            let _infallible = write!(
                out,
                "\r\n  \x1b[1m{name}\x1b[0m \x1b[90m{syntax}\x1b[0m\r\n  \x1b[33msummary:\x1b[0m {summary}\r\n"
            );
            if !since.is_empty() {
                let _infallible = write!(out, "  \x1b[33msince:\x1b[0m {since}\r\n");
            }
            if group.is_none() {
                let _infallible = write!(out, "  \x1b[33mgroup:\x1b[0m {}\r\n", command.group);
            }
        }
        out + "\r\n"
    }
}

/// Adds the commands of a reply to COMMAND DOCS, with subcommands.
fn collect(docs: &Value, version: Option<&str>, out: &mut Vec<Command>) {
    for (name, about) in docs.entries() {
        if !is_supported(about, version) {
            continue;
        }
        let arguments = arguments(about, version);
        out.push(Command {
            name: text_of(name).to_ascii_uppercase().replace('|', " "),
            syntax: full_syntax(&arguments),
            arguments,
            summary: text_field(about, "summary").unwrap_or_default(),
            since: text_field(about, "since").unwrap_or_default(),
            group: text_field(about, "group").unwrap_or_default(),
        });
        if let Some(subcommands) = field(about, "subcommands") {
            collect(subcommands, version, out);
        }
    }
}

/// Returns the version that Valkey servers report; Redis servers are versioned differently.
fn server_version(session: &mut Session) -> Option<String> {
    if let Some(version) = &session.server_version {
        return Some(version.clone());
    }
    let reply = session.request(&["INFO", "SERVER"]).ok()?;
    let text = String::from_utf8_lossy(reply.as_bytes()?).into_owned();
    text.lines().find_map(|line| line.strip_prefix("valkey_version:")).map(str::to_owned)
}

fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Object(fields) => Value::Map(
            fields
                .into_iter()
                .map(|(name, value)| (Value::Bulk(name.into_bytes()), from_json(value)))
                .collect(),
        ),
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(from_json).collect()),
        serde_json::Value::String(text) => Value::Bulk(text.into_bytes()),
        serde_json::Value::Number(number) => Value::Bulk(number.to_string().into_bytes()),
        serde_json::Value::Bool(value) => Value::Boolean(value),
        serde_json::Value::Null => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_explained() {
        let docs = Documentation::built_in(None);
        assert_eq!(docs.completions("config g", false), ["config get"]);
        assert_eq!(docs.completions("GETR", true), ["GETRANGE"]);
        assert_eq!(docs.completions("@STR", true), ["@stream", "@string"]);
        assert!(docs.completions("@str", false).is_empty());
        let help = |words: &str| docs.help(&wire::request::split_args(words.as_bytes()).unwrap());
        assert!(help("config").contains("CONFIG GET"));
        assert!(help("@string").contains("SETRANGE") && !help("@string").contains("group:"));
        assert!(help("get").contains("group:\x1b[0m string") && !help("get").contains("GETRANGE"));
        assert_eq!(help("nothing"), "\r\n");
    }

    #[test]
    fn mistyped_commands_are_seen_through() {
        let docs = Documentation::built_in(None);
        let meant = |words: &str| docs.meant(&wire::request::split_args(words.as_bytes()).unwrap());
        assert_eq!(meant("gte key").as_deref(), Some("GET"));
        assert_eq!(meant("ZRAGNE key 0 -1").as_deref(), Some("ZRANGE"));
        assert_eq!(meant("config gte maxmemory").as_deref(), Some("CONFIG GET"));
        assert_eq!(meant("clinet list").as_deref(), Some("CLIENT"));
        for words in ["get key", "config get maxmemory", "config", "nothing", "config nothing", ""] {
            assert_eq!(meant(words), None, "{words}");
        }
    }

    #[test]
    fn older_servers_have_less() {
        let docs = Documentation::built_in(Some("7.2.4"));
        let syntax = |name: &[u8]| docs.find(&[name.to_vec()]).map(|(command, _)| command.syntax.clone());
        assert!(syntax(b"SET").is_some_and(|syntax| !syntax.contains("IFEQ")));
        assert_eq!(syntax(b"HGETEX"), None);
        assert!(Documentation::built_in(None).find(&[b"HGETEX".to_vec()]).is_some());
    }
}
