//! INFO: statistics and state of the server, as text in sections for clients and exporters.

mod activity;
mod process;
mod space;

pub use process::VALKEY_VERSION;
pub(super) use space::Breakdown;

use crate::command::flag::{LOADING, SENTINEL, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::db::Db;
use crate::server::Server;
use std::fmt::{Display, Write};

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("info", -1, Group::Server, info)
    .flags(LOADING | STALE | SENTINEL)
    .categories(&["dangerous"])
    .since("1.0.0", "O(1)")
    .doc("Returns information and statistics about the server.", "[section ...]")
    .history(&[("7.0.0", "Several sections at once.")])
    .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])];

/// The data that sections read.
struct Sources<'a> {
    db: &'a mut Db,
    server: &'a mut Server,
}

/// A section of INFO's text: `name:value` lines under a title.
struct Section {
    /// The section's name in the request.
    name: &'static str,
    title: &'static str,
    /// Shown if no section is requested.
    by_default: bool,
    write: fn(&mut Sources<'_>, &mut Lines),
}

const fn section(
    name: &'static str,
    title: &'static str,
    by_default: bool,
    write: fn(&mut Sources<'_>, &mut Lines),
) -> Section {
    Section { name, title, by_default, write }
}

/// In output order.
const SECTIONS: &[Section] = &[
    section("server", "Server", true, process::server),
    section("tls", "TLS", false, process::tls),
    section("clients", "Clients", true, activity::clients),
    section("memory", "Memory", true, space::memory),
    section("persistence", "Persistence", true, activity::persistence),
    section("threads", "Threads", false, process::threads),
    section("stats", "Stats", true, activity::stats),
    section("replication", "Replication", true, activity::replication),
    section("cpu", "CPU", true, process::cpu),
    section("modules", "Modules", true, process::modules),
    section("commandstats", "Commandstats", false, activity::command_statistics),
    section("errorstats", "Errorstats", true, activity::error_statistics),
    section("latencystats", "Latencystats", false, activity::latency_statistics),
    section("cluster", "Cluster", true, process::cluster),
    section("cluster_info", "Cluster Info", false, process::cluster_info),
    section("scriptingengines", "Scripting Engines", false, process::scripting_engines),
    section("keyspace", "Keyspace", true, space::keyspace),
    section("debug", "Debug", false, process::debug),
];

/// An alias of the section of modules.
const MODULE_LIST: &[u8] = b"module_list";

/// The lines of a section.
#[derive(Default)]
struct Lines(String);

impl Lines {
    /// Writes a line. Control characters in the value, line ends above all, are replaced by `_`.
    fn field(&mut self, name: &str, value: impl Display) {
        let start = self.0.len();
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{name}:{value}");
        if self.0.as_bytes()[start..].iter().any(u8::is_ascii_control) {
            let shown = self.0.split_off(start).replace(|c: char| c.is_ascii_control(), "_");
            self.0.push_str(&shown);
        }
        self.0.push_str("\r\n");
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    fn fields<V: Display>(&mut self, fields: &[(&str, V)]) {
        for (name, value) in fields {
            self.field(name, value);
        }
    }
}

fn info(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let asked = args.from(1);
    let has = |word: &str| asked.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let everything = has("everything");
    let all = everything || has("all");
    let defaults = asked.is_empty() || has("default");
    let wanted = |section: &Section| match section.name {
        "debug" => has("debug"),
        name => {
            (all || has(name))
                || (defaults && section.by_default)
                || (name == "modules" && asked.iter().any(|arg| arg.eq_ignore_ascii_case(MODULE_LIST)))
        }
    };
    let mut lines = Lines::default();
    let mut sources = Sources { db: &mut *ctx.db, server: &mut *ctx.server };
    for section in SECTIONS.iter().filter(|section| wanted(section)) {
        if !lines.0.is_empty() {
            lines.0.push_str("\r\n");
        }
        // Writing to a String cannot fail.
        let _ = write!(lines.0, "# {}\r\n", section.title);
        (section.write)(&mut sources, &mut lines);
    }
    ctx.reply.verbatim("txt", lines.0.as_bytes());
    Ok(())
}

/// Formats bytes with a unit: `1.50M`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A name without characters that would break INFO's format.
fn safe_name(name: &str) -> String {
    name.chars().map(|c| if matches!(c, '#' | ':' | '\n' | '\r') { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::human_bytes;

    #[test]
    fn bytes_in_words() {
        assert_eq!(human_bytes(0), "0B");
        assert_eq!(human_bytes(1023), "1023B");
        assert_eq!(human_bytes(1024), "1.00K");
        assert_eq!(human_bytes(971_712), "948.94K");
        assert_eq!(human_bytes(25_274_793_984), "23.54G");
    }

    #[test]
    fn a_field_is_one_line() {
        let mut lines = super::Lines::default();
        lines.field("config_file", "/a\r\nused_memory:1\u{7f}\u{e9}");
        lines.field("b", 2);
        assert_eq!(lines.0, "config_file:/a__used_memory:1_\u{e9}\r\nb:2\r\n");
    }
}
