//! Files for people that are made from the server's tables, held current: `UPDATE=1 cargo test -p warmline-server --test
//! reference` writes them anew.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod commands;
mod configuration;
mod links;
mod manual_pages;
mod names;
#[path = "../script/mod.rs"]
mod script;

use server::config::{Config, Flags, ROWS, explained_file};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const HOW: &str = "run `UPDATE=1 cargo test -p warmline-server --test reference`";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file of the repository with what it is to be, or writes it.
#[track_caller]
fn expect_current(path: &str, wanted: &str) {
    let file = root().join(path);
    if std::env::var("UPDATE").is_ok() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        return std::fs::write(file, wanted).unwrap();
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    let difference = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    let line = difference.unwrap_or(found.lines().count().min(wanted.lines().count())) + 1;
    assert!(found == wanted, "{path} is not current from line {line} on: {HOW}");
}

#[test]
fn the_reference_of_options_is_current() {
    expect_current("docs/reference/configuration.md", &configuration::page());
}

#[test]
fn the_reference_of_commands_is_current() {
    expect_current("docs/reference/commands.md", &commands::page());
}

#[test]
fn manual_pages_and_completions_are_current() {
    for (name, text) in manual_pages::files() {
        expect_current(&format!("packaging/generated/{name}"), &text);
    }
}

#[test]
fn every_option_is_explained_in_a_sentence() {
    for row in ROWS {
        assert!(row.doc.len() > 8 && row.doc.ends_with('.'), "{}: {:?}", row.name, row.doc);
        assert!(row.doc.starts_with(|c: char| c.is_uppercase() || c == '`'), "{}: {:?}", row.name, row.doc);
    }
}

/// The file is accepted as it is, and with every default in it taken for a value.
#[test]
fn the_configuration_file_is_current_and_says_what_holds_without_it() {
    expect_current("warmline.conf", &explained_file());
    let options = |line: &str| match line.strip_prefix('#') {
        Some(option) if option.starts_with(|c: char| c.is_ascii_lowercase()) => option.to_owned() + "\n",
        _ => String::new(),
    };
    let uncommented: String = explained_file().lines().map(options).collect();
    assert!(uncommented.lines().count() > 100, "{uncommented}");
    let default = Config::default();
    for text in [explained_file(), uncommented] {
        let arguments = [OsString::from("-")];
        let config = Config::load_with_input(&arguments, &mut text.as_bytes()).unwrap().config;
        for row in ROWS {
            assert_eq!(config.value_of(row), default.value_of(row), "{}", row.name);
        }
    }
}

#[test]
fn the_manual_names_what_is_new() {
    let text = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    for row in ROWS.iter().filter(|row| !row.flags.has(Flags::NO_EFFECT)) {
        let is_new = ["tcp-nodelay", "zset-index"].contains(&row.name);
        assert_eq!(text.contains(&format!("| `{}` |", row.name)), is_new, "{}", row.name);
    }
}
