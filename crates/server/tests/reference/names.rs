//! Options and commands that pages name exist, take the values that stand beside them, and do something.

use super::root;
use server::command::Command;
use server::command::syntax::{Argument, parse};
use server::commands::GROUPS;
use server::config::{Config, Flags, ROWS, Row, takes};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Pages that name crates and variables of tests.
const FOR_DEVELOPERS: &[&str] = &["docs/dependencies.md", "docs/testing.md"];

/// Dashed words in the pages that are no options.
const OTHER_WORDS: &[(&str, &[&str])] = &[
    (
        "programs and their commands",
        &[
            "add-node",
            "del-node",
            "redis-benchmark",
            "redis-cli",
            "redis-server",
            "set-timeout",
            "valkey-benchmark",
            "valkey-cli",
            "valkey-server",
            "warmline-benchmark",
            "warmline-check-aof",
            "warmline-check-rdb",
            "warmline-cli",
            "warmline-server",
        ],
    ),
    ("values of options", &["flush-before-load", "on-empty-db"]),
    ("options of Sentinel", &["down-after-milliseconds", "failover-timeout"]),
    ("options of other servers that are left out here", &["hash-min-template-entries", "volatile-lrm"]),
    ("options of Valkey's suite", &["latency-monitor", "replication-4", "stream-idmp"]),
    ("events of LATENCY, and stages", &["aof-fsync-always", "append-only-file", "query-buffer"]),
    (
        "fields of replies",
        &[
            "compress-values",
            "compressed-plain-bytes",
            "compressed-stored-bytes",
            "compressed-values",
            "compression-refused",
            "dictionary-bytes",
            "dictionary-version",
            "max-deleted-entry-id",
            "radix-tree-keys",
            "radix-tree-nodes",
            "saved-bytes",
            "tot-mem",
            "tot-net-in",
            "tot-net-out",
            "total-us",
        ],
    ),
    (
        "published definitions of benchmarks",
        &[
            "bcast-listener",
            "bullmq-bench",
            "celery-bench",
            "pubsub-sub-bench",
            "resque-bench",
            "sidekiq-bench",
        ],
    ),
    ("runbooks, and what browsers read", &["memory-near-limit", "script-src"]),
];

/// Words in capitals in the pages that are neither commands nor words of commands' arguments.
const OTHER_CAPITALS: &[(&str, &[&str])] = &[
    (
        "beginnings of errors and of lines of the log",
        &[
            "AOF",
            "BUSY",
            "DENIED",
            "ERR",
            "EXECABORT",
            "LOADING",
            "MASTERDOWN",
            "MISCONF",
            "NOAUTH",
            "NOPERM",
            "NOREPLICAS",
            "NOSCRIPT",
            "OOM",
            "WARMLINE",
            "WRONGPASS",
            "WRONGTYPE",
        ],
    ),
    (
        "variables of the environment, and of tests",
        &[
            "NO_COLOR",
            "PAGER",
            "PATH",
            "REDISCLI_...",
            "REFERENCE",
            "TZ",
            "VALKEYCLI_...",
            "VALKEY_BIN_DIR",
            "WARMLINECLI_AUTH",
            "WARMLINECLI_HISTFILE",
            "WARMLINECLI_PAGER",
            "WARMLINECLI_RCFILE",
        ],
    ),
    ("words of DEBUG, whose arguments no table has", &["LOADAOF"]),
    ("words of XADD, which the table describes by a choice", &["IDMPAUTO"]),
    ("parts of certificates and their files", &["BEGIN", "CN", "URI"]),
    (
        "names in source, in files and of the system",
        &["REDIS0012", "REFERRED_LEN_MIN", "RLIMIT_FSIZE", "TCP_NODELAY", "VALKEY080"],
    ),
    ("methods of HTTP", &["POST"]),
];

/// What pages name to say that it is not there, has no effect, or is refused.
const NOT_THERE: &[(&str, &[&str])] = &[
    ("README.md", &["MODULE LOAD", "activedefrag", "cluster-enabled yes"]),
    ("docs/benchmark.md", &["ARGET", "ARRING", "ARSET", "HIMPORT", "JSON.GET", "JSON.SET"]),
    (
        "docs/configuration.md",
        &[
            "activedefrag",
            "cluster-enabled yes",
            "dynamic-hz",
            "events-per-io-thread",
            "io-threads-do-reads",
            "list-max-ziplist-entries",
            "list-max-ziplist-value",
            "locale-collate",
            "lua-replicate-commands",
            "oom-score-adj",
            "rdma-bind",
            "sanitize-dump-payload",
            "syslog-ident",
        ],
    ),
    ("docs/differences.md", &["MODULE LOAD", "SCRIPT DEBUG", "syslog-ident"]),
    ("docs/migrating.md", &["cluster-enabled yes", "oom-score-adj"]),
    ("docs/persistence.md", &["XNACK"]),
    ("docs/threads.md", &["io-threads-do-reads"]),
    ("docs/tls.md", &["tls-dh-params-file"]),
];

/// Spans that begin like a line of the configuration and are none.
const NO_LINES: &[&str] =
    &["client-output-buffer-limit replica", "replicaof host port", "requirepass has no effect"];

/// Names of what pages may name, by kind.
struct Names {
    options: BTreeMap<&'static str, &'static Row>,
    commands: BTreeMap<String, &'static Command>,
    /// Words in capitals of commands' arguments.
    tokens: BTreeSet<String>,
    /// Words that options take.
    values: BTreeSet<String>,
}

impl Names {
    fn new() -> Self {
        let options = ROWS.iter().flat_map(|row| row.names().map(move |name| (name, row))).collect();
        let rows = || GROUPS.iter().flat_map(|rows| rows.iter());
        let commands = rows().map(|row| (row.name.to_uppercase(), row)).collect();
        let mut tokens = BTreeSet::new();
        let all = rows().flat_map(|row| std::iter::once(row).chain(row.subcommands.iter()));
        all.for_each(|row| {
            parse(row.syntax).iter().for_each(|argument| gather_tokens(argument, &mut tokens))
        });
        let values =
            ROWS.iter().flat_map(|row| takes(row).split(", ").map(str::to_owned).collect::<Vec<_>>());
        Names { options, commands, tokens, values: values.collect() }
    }
}

fn gather_tokens(argument: &Argument, tokens: &mut BTreeSet<String>) {
    tokens.extend(argument.token.clone());
    argument.parts.iter().for_each(|part| gather_tokens(part, tokens));
}

fn is_known(table: &[(&str, &[&str])], word: &str) -> bool {
    table.iter().any(|(_, words)| words.contains(&word))
}

fn is_dashed(word: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    word.contains('-') && word.starts_with(|c: char| c.is_ascii_lowercase()) && word.split('-').all(is_part)
}

fn is_capital(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"._".contains(&byte);
    word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.bytes().all(is_part)
}

/// Whether a word stands for others: `FILE`, `...`, `volatile-*`.
fn is_placeholder(word: &str) -> bool {
    let is_letter = word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
    is_letter || is_capital(word) || word.contains("...") || word.contains('*')
}

/// What is wrong with lines of configuration in a page.
fn fault_of_lines(names: &Names, page: &str, lines: &str) -> Option<String> {
    let arguments = [OsString::from("-")];
    if let Err(error) = Config::load_with_input(&arguments, &mut lines.as_bytes()) {
        return Some(error.to_string().replace('\n', " "));
    }
    lines.lines().find_map(|line| {
        let name = line.split_whitespace().next()?;
        let has_effect = !names.options.get(name)?.flags.has(Flags::NO_EFFECT);
        (!has_effect && !is_said_to_be_missing(page, name)).then(|| format!("{name} has no effect"))
    })
}

/// Whether the page says that there is no such thing.
fn is_said_to_be_missing(page: &str, name: &str) -> bool {
    NOT_THERE.iter().any(|(of, names)| *of == page && names.contains(&name))
}

/// A span of options and values, each option on a line of its own.
fn lines_of(names: &Names, words: &[&str]) -> String {
    let mut lines = String::new();
    for word in words {
        lines.push(if names.options.contains_key(word) { '\n' } else { ' ' });
        lines += word;
    }
    lines
}

/// What is wrong with a span of code in a page.
fn fault_of_span(names: &Names, page: &str, span: &str) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    let (first, rest) = words.split_first()?;
    if NO_LINES.contains(&span) || is_said_to_be_missing(page, span) {
        return None;
    }
    if names.options.contains_key(first) {
        let stands_for_others = rest.is_empty() || rest.iter().any(|word| is_placeholder(word));
        if !stands_for_others {
            return fault_of_lines(names, page, &lines_of(names, &words));
        }
        let has_effect = !names.options[first].flags.has(Flags::NO_EFFECT);
        return (!has_effect && !is_said_to_be_missing(page, first)).then(|| "has no effect".to_owned());
    }
    if is_dashed(first) {
        let is_known = is_known(OTHER_WORDS, first)
            || names.values.contains(*first)
            || is_said_to_be_missing(page, first);
        return (!is_known).then(|| "is no option".to_owned());
    }
    if !is_capital(first) {
        return None;
    }
    match names.commands.get(*first) {
        Some(command) => fault_of_command(names, page, command, rest),
        None if names.tokens.contains(*first) || is_known(OTHER_CAPITALS, first) => None,
        None if is_said_to_be_missing(page, first) => None,
        None => Some("is no command".to_owned()),
    }
}

fn fault_of_command(names: &Names, page: &str, command: &Command, rest: &[&str]) -> Option<String> {
    let second = rest.first()?;
    if !command.subcommands.is_empty() && is_capital(second) {
        let name = format!("{}|{}", command.name, second.to_lowercase());
        if !command.subcommands.iter().any(|row| row.name.eq_ignore_ascii_case(&name)) {
            return Some("is no subcommand".to_owned());
        }
    }
    if command.name.eq_ignore_ascii_case("config") && *second == "SET" {
        for name in rest[1..].iter().step_by(2).filter(|name| !is_placeholder(name) && **name != "option") {
            let Some(row) = names.options.get(name) else { return Some(format!("{name} is no option")) };
            if (row.flags.has(Flags::IMMUTABLE) || row.flags.has(Flags::NO_EFFECT))
                && !is_said_to_be_missing(page, name)
            {
                return Some(format!("{name} cannot be set"));
            }
        }
    }
    None
}

/// What is wrong with a line that calls one of the programs.
fn fault_of_call(names: &Names, line: &str) -> Option<String> {
    const FLAGS: [&str; 7] = [
        "--check-config",
        "--check-health",
        "--check-rdb",
        "--check-aof",
        "--print-config",
        "--version",
        "--help",
    ];
    // The name of a package, to cargo.
    if let Some((_, call)) = line.split_once("warmline-server ").filter(|_| !line.contains("cargo ")) {
        let call = call.split(['&', '|', '>', '#', '`']).next()?;
        let flags = call.split_whitespace().filter(|word| word.starts_with("--"));
        for flag in flags.filter(|flag| !FLAGS.contains(flag) && !is_placeholder(flag)) {
            let name = flag[2..].split('=').next()?;
            if !names.options.contains_key(name) && name != "option" {
                return Some(format!("{flag} is no option"));
            }
        }
    }
    let (_, call) = line.split_once("warmline-cli ")?;
    let word = call.split([' ', '`']).next().filter(|word| !word.is_empty())?;
    let is_name = word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_command = names.commands.contains_key(&word.to_uppercase());
    (is_name && !is_capital(word) && !is_command).then(|| format!("{word} is no command"))
}

/// Blocks between fences, and spans of code outside of them.
fn code_of(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    for (number, part) in text.split("\n```").enumerate() {
        match number % 2 {
            0 => prose += part,
            _ => blocks.push(part.split_once('\n').map_or("", |(_, block)| block).to_owned()),
        }
        prose.push('\n');
    }
    assert!(prose.matches('`').count() % 2 == 0, "a span of code has no end");
    let spans = prose.split('`').skip(1).step_by(2).map(|span| span.replace("\\|", "|")).collect();
    (blocks, spans)
}

fn files() -> Vec<(String, String)> {
    let mut names: Vec<String> =
        ["README.md", "SECURITY.md", "contrib/prometheus/alerts.yml"].map(str::to_owned).into();
    for directory in ["docs", "packaging/debian", "packaging/container", "packaging/systemd"] {
        for file in std::fs::read_dir(root().join(directory)).unwrap() {
            let file = file.unwrap();
            let name = format!("{directory}/{}", file.file_name().to_str().unwrap());
            if file.file_type().unwrap().is_file() && !FOR_DEVELOPERS.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    names
        .into_iter()
        .map(|name| (name.clone(), std::fs::read_to_string(root().join(&name)).unwrap()))
        .collect()
}

#[test]
fn what_pages_name_exists() {
    let names = Names::new();
    let mut faults = Vec::new();
    let (mut spans_seen, mut blocks_seen) = (0, 0);
    for (page, text) in files() {
        let mut report = |what: &str, fault: Option<String>| {
            faults.extend(fault.map(|fault| format!("{page}: `{what}` {fault}")));
        };
        for line in text.lines().filter(|line| page != "docs/cli.md" || line.starts_with('$')) {
            report(line, fault_of_call(&names, line));
        }
        if !page.ends_with(".md") {
            continue;
        }
        let (blocks, spans) = code_of(&text);
        for span in spans {
            spans_seen += 1;
            report(&span, fault_of_span(&names, &page, &span));
        }
        for block in blocks {
            let name_of = |line: &str| line.split_whitespace().next().map(str::to_owned);
            let mut first_words = block.lines().filter_map(name_of).filter(|name| !name.starts_with('#'));
            if first_words.all(|name| names.options.contains_key(name.as_str())) {
                blocks_seen += 1;
                report(&block, fault_of_lines(&names, &page, &block));
            }
        }
    }
    for row in ROWS.iter().filter(|row| !row.flags.has(Flags::NO_EFFECT)) {
        for span in row.doc.split('`').skip(1).step_by(2) {
            faults.extend(
                fault_of_span(&names, "warmline.conf", span)
                    .map(|fault| format!("{}: `{span}` {fault}", row.name)),
            );
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(spans_seen > 1000 && blocks_seen > 3, "{spans_seen} {blocks_seen}");
}
