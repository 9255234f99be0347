//! What the server knows about its own commands (COMMAND DOCS), as hints while typing, completions and help.

use std::borrow::Cow;
use std::fmt::Write as _;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use wire::request::split_args;
use wire::response::Value;

use crate::session::Session;

#[derive(Default)]
pub struct Documentation {
    /// In the order of their names.
    commands: Vec<Command>,
}

struct Command {
    /// Upper case, a subcommand behind a space.
    name: String,
    /// The syntax of each argument.
    arguments: Vec<String>,
    summary: String,
    since: String,
    group: String,
}

/// The value of a field, in a map of either protocol.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.entries().into_iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes())).map(|(_, value)| value)
}

fn text_of(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

fn text_field(map: &Value, name: &str) -> String {
    field(map, name).map(text_of).unwrap_or_default()
}

/// An argument's syntax: `key`, `[NX|XX]`, `member [member ...]`, `[LIMIT offset count]`.
fn argument_syntax(argument: &Value) -> String {
    let parts: Vec<String> = field(argument, "arguments")
        .and_then(Value::as_list)
        .unwrap_or(&[])
        .iter()
        .map(argument_syntax)
        .collect();
    let has_flag = |flag: &str| {
        let flags = field(argument, "flags").and_then(Value::as_list).unwrap_or(&[]);
        flags.iter().any(|value| value.as_bytes() == Some(flag.as_bytes()))
    };
    let token = text_field(argument, "token");
    let value = match text_field(argument, "type").as_str() {
        "oneof" => parts.join("|"),
        "block" => parts.join(" "),
        "pure-token" => String::new(),
        _ => match text_field(argument, "display_text") {
            display if display.is_empty() => text_field(argument, "name"),
            display => display,
        },
    };
    let mut syntax = match (token.is_empty(), value.is_empty()) {
        (true, _) => value.clone(),
        (false, true) => token.clone(),
        (false, false) => format!("{token} {value}"),
    };
    if has_flag("multiple") {
        let again = if has_flag("multiple_token") { syntax.clone() } else { value };
        let _infallible = write!(syntax, " [{again} ...]");
    }
    if has_flag("optional") { format!("[{syntax}]") } else { syntax }
}

impl Documentation {
    /// Asks the server. Without an answer there are no hints.
    pub fn load(session: &mut Session) -> Self {
        let mut commands = Vec::new();
        if let Ok(reply) = session.request(&["COMMAND", "DOCS"]) {
            collect(&reply, &mut commands);
        }
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        Self { commands }
    }

    /// The command that these words begin with, a subcommand rather than its container, and how many words its
    /// name takes.
    fn find(&self, words: &[Vec<u8>]) -> Option<(&Command, usize)> {
        [2, 1].into_iter().filter(|&len| words.len() >= len).find_map(|len| {
            let name = words[..len].join(&b' ').to_ascii_uppercase();
            self.commands.iter().find(|command| command.name.as_bytes() == name).map(|command| (command, len))
        })
    }

    /// What may follow a line that ends with a whole word.
    fn hint(&self, line: &str) -> Option<String> {
        let words = split_args(line.as_bytes()).ok()?;
        let (command, name_len) = self.find(&words)?;
        let mut rest: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        for word in &words[name_len..] {
            let word = String::from_utf8_lossy(word).to_ascii_uppercase();
            let names_token = |syntax: &&str| {
                syntax.starts_with('[') && syntax.split(['[', '|', ' ', ']']).any(|token| token == word)
            };
            if let Some(index) = rest.iter().position(names_token) {
                rest.remove(index);
            } else if rest.first().is_some_and(|syntax| !syntax.starts_with('[') && !syntax.ends_with("...]"))
            {
                rest.remove(0);
            }
        }
        (!rest.is_empty()).then(|| rest.join(" "))
    }

    /// Names that a beginning can become, in the case of that beginning.
    fn completions(&self, beginning: &str) -> Vec<String> {
        let is_lower = beginning.chars().any(|letter| letter.is_ascii_lowercase());
        let wanted = beginning.to_ascii_uppercase();
        let matching = self.commands.iter().filter(|command| command.name.starts_with(&wanted));
        matching
            .map(|command| if is_lower { command.name.to_lowercase() } else { command.name.clone() })
            .collect()
    }

    /// The answer to `help` with these words behind it.
    pub fn help(&self, words: &[Vec<u8>]) -> String {
        let mut out = String::new();
        let text = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        if text.is_empty() {
            out += "To get help about commands type:\n      \"help @<group>\" to get a list of commands in <group>\n      \
                    \"help <command>\" for help on <command>\n      \"help <tab>\" to get a list of possible help topics\n      \
                    \"quit\" to exit\n";
            return out;
        }
        let is_wanted = |command: &&Command| match text.strip_prefix('@') {
            Some(group) => command.group.eq_ignore_ascii_case(group),
            None => {
                let name = text.to_ascii_uppercase();
                command.name == name
                    || command.name.strip_prefix(&name).is_some_and(|rest| rest.starts_with(' '))
            }
        };
        for command in self.commands.iter().filter(is_wanted) {
            let Command { name, arguments, summary, since, group } = command;
            let _infallible = write!(
                out,
                "\n  \x1b[1m{name}\x1b[0m \x1b[90m{}\x1b[0m\n  \x1b[33msummary:\x1b[0m {summary}\n  \
                 \x1b[33msince:\x1b[0m {since}\n  \x1b[33mgroup:\x1b[0m {group}\n",
                arguments.join(" ")
            );
        }
        out.push('\n');
        out
    }
}

/// Adds the commands of a reply to COMMAND DOCS, subcommands included.
fn collect(docs: &Value, out: &mut Vec<Command>) {
    for (name, about) in docs.entries() {
        let arguments = field(about, "arguments").and_then(Value::as_list).unwrap_or(&[]);
        out.push(Command {
            name: text_of(name).to_ascii_uppercase().replace('|', " "),
            arguments: arguments.iter().map(argument_syntax).collect(),
            summary: text_field(about, "summary"),
            since: text_field(about, "since"),
            group: text_field(about, "group"),
        });
        if let Some(subcommands) = field(about, "subcommands") {
            collect(subcommands, out);
        }
    }
}

/// What the line editor asks while a line is typed.
pub struct LineHelper {
    pub documentation: Documentation,
    pub hints_on: bool,
}

impl Hinter for LineHelper {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        if !self.hints_on || position < line.len() || line.is_empty() {
            return None;
        }
        let hint = self.documentation.hint(line)?;
        Some(if line.ends_with(' ') { hint } else { format!(" {hint}") })
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let start = if typed.to_ascii_lowercase().starts_with("help ") { 5 } else { 0 };
        Ok((start, self.documentation.completions(&typed[start..])))
    }
}

impl Highlighter for LineHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[90m{hint}\x1b[0m"))
    }
}

impl Validator for LineHelper {}
impl Helper for LineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    fn map(pairs: &[(&str, Value)]) -> Value {
        Value::Map(pairs.iter().map(|(key, value)| (text(key), value.clone())).collect())
    }

    fn documentation() -> Documentation {
        let flags = |names: &[&str]| Value::Set(names.iter().map(|name| text(name)).collect());
        let argument = |name: &str, kind: &str, rest: &[(&str, Value)]| {
            map(&[&[("name", text(name)), ("type", text(kind))], rest].concat())
        };
        let seconds = argument("seconds", "integer", &[("token", text("EX"))]);
        let keep = argument("keepttl", "pure-token", &[("token", text("KEEPTTL"))]);
        let expiry = argument(
            "expiration",
            "oneof",
            &[("arguments", Value::Array(vec![seconds, keep])), ("flags", flags(&["optional"]))],
        );
        let set = [argument("key", "key", &[]), argument("value", "string", &[]), expiry];
        let several = argument("key", "key", &[("flags", flags(&["multiple"]))]);
        let get = map(&[("summary", text("Gets options")), ("group", text("server"))]);
        let docs = map(&[
            (
                "set",
                map(&[
                    ("summary", text("Sets")),
                    ("group", text("string")),
                    ("arguments", Value::Array(set.to_vec())),
                ]),
            ),
            ("del", map(&[("arguments", Value::Array(vec![several]))])),
            ("config", map(&[("subcommands", map(&[("config|get", get)]))])),
        ]);
        let mut commands = Vec::new();
        collect(&docs, &mut commands);
        Documentation { commands }
    }

    #[test]
    fn hints_follow_what_is_typed() {
        let docs = documentation();
        assert_eq!(docs.hint("set").as_deref(), Some("key value [EX seconds|KEEPTTL]"));
        assert_eq!(docs.hint("SET k ").as_deref(), Some("value [EX seconds|KEEPTTL]"));
        assert_eq!(docs.hint("set k \"v w\" ").as_deref(), Some("[EX seconds|KEEPTTL]"));
        assert_eq!(docs.hint("set k v keepttl"), None);
        assert_eq!(docs.hint("del a b").as_deref(), Some("key [key ...]"));
        assert_eq!(docs.hint("nothing"), None);
    }

    #[test]
    fn names_are_completed_and_explained() {
        let docs = documentation();
        assert_eq!(docs.completions("conf"), ["config", "config get"]);
        assert_eq!(docs.completions("S"), ["SET"]);
        assert!(docs.help(&[b"config".to_vec()]).contains("Gets options"));
        assert!(docs.help(&[b"@string".to_vec()]).contains("SET"));
        assert!(!docs.help(&[b"set".to_vec()]).contains("CONFIG"));
    }
}
