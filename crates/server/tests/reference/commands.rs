//! docs/reference/commands.md, from the table of commands, and from what golden scripts show of their replies.

use crate::script::{Player, Script};
use server::command::category;
use server::command::syntax::{Argument, ArgumentKind, parse};
use server::command::{Command, Group};
use server::commands::GROUPS;
use server::config::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "\
# Commands

All commands with their arguments, complexity, the version of Redis or Valkey that introduced them, ACL categories, and the
types of their replies besides errors. Generated from the server's table, which `COMMAND DOCS` and `COMMAND INFO` use too;
the types of replies are those in the golden scripts (`crates/server/tests/golden`), in both protocol versions.
[Differences](../differences.md) lists the differences from Valkey.

`[ ]` is optional, `< | >` is a choice, `...` can be repeated. Words in capitals are keywords.
";

const SECTIONS: [(Group, &str); 16] = [
    (Group::Generic, "Keys"),
    (Group::String, "Strings"),
    (Group::Bitmap, "Bitmaps"),
    (Group::HyperLogLog, "HyperLogLog"),
    (Group::List, "Lists"),
    (Group::Set, "Sets"),
    (Group::Hash, "Hashes"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Geo, "Geo"),
    (Group::Stream, "Streams"),
    (Group::PubSub, "Messages"),
    (Group::Transactions, "Transactions"),
    (Group::Scripting, "Scripts and functions"),
    (Group::Connection, "Connections"),
    (Group::Server, "Server"),
    (Group::Cluster, "Cluster"),
];

pub fn page() -> String {
    let replies = replies();
    let mut page = HEAD.to_owned();
    let links = SECTIONS.map(|(_, title)| format!("[{title}](#{})", title.to_lowercase().replace(' ', "-")));
    write!(page, "\n{}\n", links.join(" · ")).unwrap();
    for (group, title) in SECTIONS {
        // A subcommand stands with its container, whichever group it is of.
        let mut rows: Vec<&Command> =
            GROUPS.iter().flat_map(|rows| rows.iter()).filter(|row| row.group == group).collect();
        rows.sort_by_key(|row| row.name);
        write!(page, "\n## {title}\n").unwrap();
        for row in rows {
            page += &entry(row, &replies);
            row.subcommands.iter().for_each(|sub| page += &entry(sub, &replies));
        }
    }
    page
}

fn entry(row: &Command, replies: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let name = row.name.replace('|', " ").to_uppercase();
    let arguments: Vec<String> = parse(row.syntax).iter().map(shown).collect();
    let mut entry = format!("\n### {name}\n\n");
    if row.subcommands.is_empty() {
        let call = [vec![name], arguments].concat().join(" ");
        write!(entry, "`{}`\n\n", call.trim_end()).unwrap();
    }
    entry += row.summary;
    if let Some((since, other)) = row.deprecated {
        write!(entry, " Deprecated since {since}: {} does the same.", other.replace('`', "")).unwrap();
    }
    let cost = row.complexity.trim_end_matches('.');
    let categories: Vec<String> = category::of(row).map(|name| format!("`@{name}`")).collect();
    write!(entry, "\n\n- Since {}. {cost}. {}", row.since, categories.join(" ")).unwrap();
    if let Some(kinds) = replies.get(row.name) {
        write!(entry, "\n- Replies: {}", kinds.iter().copied().collect::<Vec<_>>().join(", ")).unwrap();
    }
    for (version, change) in row.history {
        write!(entry, "\n- {version}: {change}").unwrap();
    }
    entry + "\n"
}

/// An argument as people write it.
fn shown(argument: &Argument) -> String {
    let token = argument.token.as_deref();
    let several = |separator: &str| argument.parts.iter().map(shown).collect::<Vec<_>>().join(separator);
    let of_value = match argument.kind {
        ArgumentKind::PureToken if token == Some("") => "\"\"".to_owned(),
        ArgumentKind::PureToken => token.unwrap_or_default().to_owned(),
        ArgumentKind::OneOf if argument.optional && token.is_none() && !argument.multiple => several(" | "),
        ArgumentKind::OneOf => format!("<{}>", several(" | ")),
        ArgumentKind::Block => several(" "),
        _ => argument.display.clone().unwrap_or_else(|| argument.name.clone()),
    };
    let with_token = match token {
        Some(token) if argument.kind != ArgumentKind::PureToken => format!("{token} {of_value}"),
        _ => of_value.clone(),
    };
    let repeated = if argument.token_each_time { &with_token } else { &of_value };
    let whole = if argument.multiple { format!("{with_token} [{repeated} ...]") } else { with_token.clone() };
    if argument.optional { format!("[{whole}]") } else { whole }
}

/// By command, the kinds of reply that golden scripts show.
fn replies() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut replies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for path in files {
        let script = Script::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut player = Player::in_process(Config::default());
        script.play(&mut player);
        for (name, kinds) in player.answered {
            replies.entry(name).or_default().extend(kinds);
        }
    }
    replies
}
