//! The explained configuration file (`warmline.conf`): every option with its description, its values and its default.

use super::option::Flags;
use super::{Config, OptionId, ROWS, Row};

const WIDTH: usize = 80;

const HEAD: &str = "\
# The configuration of Warmline: every option with its description, its values, and its default after a single #.
# To change an option, remove that # and set the value. Options can also be given as arguments (--port 7000). Most can be
# changed at run time (CONFIG SET) and written to this file (CONFIG REWRITE).
#
# Sizes can have a unit: 1k is 1,000 bytes, 1kb is 1,024; likewise m, mb, g and gb. Values with spaces need quotes.
# `include FILE` includes a file, `user NAME RULE ...` defines an ACL user, and `rename-command NAME NEW-NAME` renames a
# command, or removes it if the new name is \"\".
";

/// Returns a configuration file with the defaults as comments, which is valid as it is. Omits options without effect and
/// options for tests.
pub fn explained_file() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    let shown = |row: &&Row| !row.flags.has(Flags::HIDDEN) && !row.flags.has(Flags::NO_EFFECT);
    for row in ROWS.iter().filter(shown) {
        if row.section != section {
            section = row.section;
            text += &format!("\n\n##### {section} #####\n");
        }
        text.push('\n');
        text += &commented(&row.doc.replace('`', ""));
        text += &commented(&format!("Values: {}.{}", takes(row), at_run_time(row)));
        for line in default_lines(row) {
            text += &format!("#{} {line}\n", row.name);
        }
    }
    text
}

/// Returns the permitted values of an option and their unit.
pub fn takes(row: &Row) -> String {
    let accepts = (row.accepts)();
    match unit(row) {
        Some(unit) if !accepts.contains("size") => format!("{accepts} {unit}"),
        _ => accepts,
    }
}

/// Returns the unit of the option's number, by the suffix of its field.
fn unit(row: &Row) -> Option<&'static str> {
    const UNITS: [(&str, &str); 6] = [
        ("_seconds", "seconds"),
        ("_minutes", "minutes"),
        ("_ms", "milliseconds"),
        ("_us", "microseconds"),
        ("_bytes", "bytes"),
        ("_percentage", "percent"),
    ];
    let field = format!("{:?}", row.id);
    UNITS.iter().find(|(suffix, _)| field.ends_with(suffix)).map(|(_, unit)| *unit)
}

fn at_run_time(row: &Row) -> &'static str {
    if row.flags.has(Flags::IMMUTABLE) {
        " Set at startup only."
    } else if row.flags.has(Flags::PROTECTED) {
        " Set at startup; at run time only with enable-protected-configs."
    } else {
        ""
    }
}

/// Returns the default as CONFIG GET shows it; defaults that depend on the environment are replaced by fixed text.
pub fn default_value(row: &Row) -> String {
    match row.id {
        OptionId::dir => ".".to_owned(),
        _ => String::from_utf8_lossy(&(row.get)(&Config::default())).into_owned(),
    }
}

/// Returns the default as lines of a file, without the option's name.
pub fn default_lines(row: &Row) -> Vec<String> {
    let config = Config::default();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match row.id {
        OptionId::dir => return vec![default_value(row)],
        OptionId::replicaof => return vec!["no one".to_owned()],
        _ => {}
    }
    let lines: Vec<String> =
        (row.rewritten)(&config, &config).into_iter().map(|line| text(line.text)).collect();
    let value = default_value(row);
    match (lines.is_empty(), value.is_empty()) {
        (false, _) => lines,
        (true, true) => vec!["\"\"".to_owned()],
        (true, false) => vec![value],
    }
}

/// Formats text as comment lines.
fn commented(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => *line += &format!(" {word}"),
            _ => lines.push(format!("# {word}")),
        }
    }
    lines.join("\n") + "\n"
}
