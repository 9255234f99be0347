//! Manual pages and completions of the server's programs. They read their command lines themselves, so that these are
//! described here.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use manual::Kind;
use server::config::{Flags, ROWS, Row, default_lines, takes};

const KINDS: [(Kind, &str); 4] =
    [(Kind::Man, "man"), (Kind::Bash, "bash"), (Kind::Zsh, "zsh"), (Kind::Fish, "fish")];

/// Names of files, and what they are to hold.
pub fn files() -> Vec<(String, String)> {
    let programs = [server(), check_rdb(), check_aof()];
    let of = |program: &Command| {
        let file = |(kind, suffix): (Kind, &str)| {
            let text = manual::text(program.clone(), kind);
            (format!("{}.{suffix}", program.get_name()), String::from_utf8(text).unwrap())
        };
        KINDS.map(file)
    };
    programs.iter().flat_map(of).collect()
}

fn program(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(
            Arg::new("version")
                .short('v')
                .long("version")
                .help("Print the version")
                .action(ArgAction::Version),
        )
}

fn server() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
    };
    let checked = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").help(help).value_hint(ValueHint::FilePath)
    };
    let shown = |row: &&Row| !row.flags.has(Flags::HIDDEN) && !row.flags.has(Flags::NO_EFFECT);
    program("warmline-server", "In-memory data-structure server, compatible with Redis and Valkey")
        .long_about(
            "Serves clients of Redis and Valkey. The configuration file is in the format of valkey.conf, and - reads one \
             from standard input; every option in it can be given as an argument too, where it counts more. Without any, \
             the defaults hold: port 6379, data in the working directory.",
        )
        .arg(Arg::new("file").help("Configuration file").value_hint(ValueHint::FilePath))
        .arg(Arg::new("help").short('h').long("help").help("Print how it is called").action(ArgAction::Help))
        .arg(switch("check-config", "Only check whether the server would start with this configuration"))
        .arg(switch("check-health", "Only check whether a running server answers on every socket that it listens on"))
        .arg(checked("check-rdb", "Only check whether this RDB file is sound, as warmline-check-rdb does"))
        .arg(checked("check-aof", "Only check whether this append-only file is sound, as warmline-check-aof does"))
        .arg(switch("print-config", "Print a configuration file in which every option is explained"))
        .args(ROWS.iter().filter(shown).map(option))
        .after_help(
            "A fault is reported with exit code 1. SIGTERM and SIGINT end the server as SHUTDOWN does: what has to be \
             saved is saved. Every option that changes while the server runs is changed by CONFIG SET.",
        )
}

fn option(row: &Row) -> Arg {
    // Descriptions of command lines live as long as the process.
    let takes: &'static str = takes(row).leak();
    let default = default_lines(row).join("; ");
    let argument = Arg::new(row.name)
        .long(row.name)
        .value_name("VALUE")
        .help_heading(row.section)
        .help(format!("{} Takes {takes}; default {default}", row.doc.replace('`', "")));
    let words: Vec<&str> = takes.split(", ").collect();
    let is_choice = words.len() > 1 && words.iter().all(|word| !word.contains(' '));
    match () {
        () if is_choice => argument.value_parser(PossibleValuesParser::new(words)).hide_possible_values(true),
        () if row.flags.has(Flags::MULTI) => argument.num_args(1..),
        () if row.name == "dir" || row.name.ends_with("-dir") => argument.value_hint(ValueHint::DirPath),
        () if row.name.ends_with("file") => argument.value_hint(ValueHint::FilePath),
        () => argument,
    }
}

fn check_rdb() -> Command {
    program("warmline-check-rdb", "Tells whether an RDB file is sound, and what is in it")
        .long_about(
            "Reads an RDB file as the server would, and says at which byte and key it is wrong, if it is. Files of \
             Valkey and Redis are read too. Exit code 0 says that the file is sound, 1 that it is not.",
        )
        .arg(Arg::new("file").required(true).help("RDB file").value_hint(ValueHint::FilePath))
        .arg(
            Arg::new("format")
                .long("format")
                .help("How statistics are printed")
                .value_parser(PossibleValuesParser::new(["table", "info", "csv"])),
        )
        .arg(Arg::new("stats").long("stats").help("Count keys, by type and size").action(ArgAction::SetTrue))
        .arg(
            Arg::new("output")
                .long("output")
                .value_name("FILE")
                .help("File to print to")
                .value_hint(ValueHint::FilePath),
        )
}

fn check_aof() -> Command {
    program("warmline-check-aof", "Tells whether an append-only file is sound, and cuts off what is not")
        .long_about(
            "Reads an append-only file, or all that a manifest names, and says where the first command begins that is \
             not whole. Exit code 0 says that all of it is sound, 1 that it is not.",
        )
        .arg(
            Arg::new("file")
                .required(true)
                .help("Manifest or append-only file")
                .value_hint(ValueHint::FilePath),
        )
        .arg(
            Arg::new("fix")
                .long("fix")
                .help("Cut off what is not whole, after asking")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("truncate-to-timestamp")
                .long("truncate-to-timestamp")
                .value_name("SECONDS")
                .help("Cut off what was done after this time (aof-timestamp-enabled)"),
        )
}
