//! docs/reference/configuration.md, from the table of options.

use server::config::{Flags, ROWS, Row, default_lines, takes};
use std::fmt::Write as _;

const HEAD: &str = "\
# Options

All options with their defaults and permitted values, generated from the server's table (`crates/server/src/config/table.rs`).
[Configuration](../configuration.md) describes files, arguments and `CONFIG`. `warmline-server --print-config` prints this list as a
configuration file.

Sizes may have a unit: `1k` is 1,000 bytes, `1kb` is 1,024; `m`, `mb`, `g`, `gb` likewise. \"Later\" says whether `CONFIG
SET` changes the option at run time; *protected*: only if `enable-protected-configs` permits it. Options marked *no effect* are
accepted and returned by `CONFIG GET`, so that files of Valkey work; the log names them at the start if they are set.
";

pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut sections: Vec<&str> = ROWS.iter().map(|row| row.section).collect();
    sections.dedup();
    let link = |section: &&str| format!("[{section}](#{})", anchor(section));
    let links: Vec<String> = sections.iter().map(link).collect();
    write!(page, "\n{}\n", links.join(" · ")).unwrap();
    for section in sections {
        write!(page, "\n## {section}\n\n| option | default | takes | later | |\n|---|---|---|---|---|\n")
            .unwrap();
        ROWS.iter().filter(|row| row.section == section).for_each(|row| page += &line(row));
    }
    page
}

fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-").replace(',', "")
}

fn line(row: &Row) -> String {
    let alias = row.alias.map(|alias| format!("<br>also `{alias}`")).unwrap_or_default();
    let defaults: Vec<String> = default_lines(row).iter().map(|line| format!("`{line}`")).collect();
    let later = match () {
        () if row.flags.has(Flags::IMMUTABLE) => "no",
        () if row.flags.has(Flags::PROTECTED) => "protected",
        () if row.flags.has(Flags::DENIED_WHILE_LOADING) => "yes, but not while data is loaded",
        () => "yes",
    };
    let no_effect = if row.flags.has(Flags::NO_EFFECT) { "*No effect.* " } else { "" };
    let hidden = if row.flags.has(Flags::HIDDEN) { " `CONFIG GET` shows it only by its name." } else { "" };
    format!(
        "| `{}`{alias} | {} | {} | {later} | {no_effect}{}{hidden} |\n",
        row.name,
        defaults.join("<br>"),
        takes(row),
        row.doc
    )
}
