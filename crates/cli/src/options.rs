//! The command line, with the letters and names of valkey-cli.

mod cluster;
mod sizing;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};
use client::{Address, ConnectSettings, Family, ServerUri, TlsOptions, seconds};
use wire::spelling::meant;

use crate::arguments::unquoted;
use crate::format::Style;
use crate::program::Program;
pub use cluster::ClusterOptions;

const EXAMPLES: &str = "Examples:
  warmline-cli set greeting hello
  warmline-cli -u valkey://default:PASSWORD@localhost:6379/0
  warmline-cli -x set page < index.html
  warmline-cli -D \"\" --raw dump key > key.dump && warmline-cli -X tag restore key2 0 tag replace < key.dump
  warmline-cli -r 100 -i 1 info | grep used_memory_human:
  warmline-cli --quoted-input set '\"null-\\x00-separated\"' value
  warmline-cli --eval script.lua key1 key2 , arg1 arg2
  warmline-cli --scan --pattern 'user:*'

Without a command, commands are read interactively; type \"help\" there.";

/// A client for Warmline and other servers of the Redis protocol. Without a command it reads commands from the
/// terminal or from standard input.
#[derive(Parser, Debug)]
#[command(
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = EXAMPLES
)]
pub struct Options {
    /// Server's host name or address
    #[arg(short = 'h', default_value = "127.0.0.1")]
    pub host: String,
    /// Server's port
    #[arg(short = 'p', default_value = "6379", value_parser = port)]
    pub port: u16,
    /// Timeout of the connection in seconds (0: that of the system)
    #[arg(short = 't', default_value = "0", value_parser = connect_timeout)]
    pub timeout: Duration,
    /// Unix socket of the server, instead of host and port
    #[arg(short = 's')]
    pub socket: Option<PathBuf>,
    /// Password; preferably in the environment (WARMLINECLI_AUTH, VALKEYCLI_AUTH, REDISCLI_AUTH), not on the command
    /// line
    #[arg(short = 'a', long = "pass", visible_alias = "password")]
    pub password: Option<String>,
    /// User name for the password
    #[arg(long)]
    pub user: Option<String>,
    /// Prompt for the password at the terminal
    #[arg(long)]
    pub askpass: bool,
    /// Do not warn about passwords on the command line
    #[arg(long)]
    pub no_auth_warning: bool,
    /// Server as valkey://user:password@host:port/database (also redis://, warmline://); valkeys:// and rediss://
    /// imply --tls; unix:///path is a socket
    #[arg(short = 'u')]
    pub uri: Option<String>,
    /// Database number
    #[arg(short = 'n', default_value_t = 0)]
    pub database: i64,
    /// Use RESP2
    #[arg(short = '2')]
    pub resp2: bool,
    /// Use RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// Read the last argument from standard input
    #[arg(short = 'x')]
    pub last_from_stdin: bool,
    /// Read the argument that equals this tag from standard input
    #[arg(short = 'X', value_name = "TAG")]
    pub tag_from_stdin: Option<String>,
    /// Run the command this number of times (negative: forever)
    #[arg(short = 'r', default_value_t = 1)]
    pub repeat: i64,
    /// Interval in seconds between repetitions, calls of --scan and rows of --stat; between every hundred calls of
    /// the other scans
    #[arg(short = 'i', value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Delimiter of elements in raw output
    #[arg(short = 'd', default_value = "\n")]
    pub element_delimiter: String,
    /// Delimiter of replies in raw output
    #[arg(short = 'D', default_value = "\n")]
    pub reply_delimiter: String,
    /// Follow redirections to other nodes of a cluster
    #[arg(short = 'c')]
    pub cluster: bool,
    /// Exit with 1 when a command fails
    #[arg(short = 'e')]
    pub error_exit: bool,
    /// Prefer a name's IPv4 addresses
    #[arg(short = '4')]
    pub ipv4: bool,
    /// Prefer a name's IPv6 addresses
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Use multipath TCP
    #[arg(long)]
    pub mptcp: bool,
    /// Raw replies (default unless the output is a terminal)
    #[arg(long)]
    pub raw: bool,
    /// Formatted replies, even if the output is not a terminal
    #[arg(long, overrides_with = "raw")]
    pub no_raw: bool,
    /// Replies as comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Replies as JSON (in RESP3 unless -2 is given)
    #[arg(long)]
    pub json: bool,
    /// Like --json, in ASCII only
    #[arg(long)]
    pub quoted_json: bool,
    /// Print push messages of RESP3: yes or no (default: if the output is a terminal)
    #[arg(long)]
    pub show_pushes: Option<String>,
    /// Parse arguments as quoted strings
    #[arg(long)]
    pub quoted_input: bool,
    /// List keys
    #[arg(long)]
    pub scan: bool,
    /// Pattern of keys in all modes that scan
    #[arg(long)]
    pub pattern: Option<String>,
    /// Like --pattern, quoted
    #[arg(long)]
    pub quoted_pattern: Option<String>,
    /// COUNT of each SCAN
    #[arg(long, default_value_t = 10)]
    pub count: i64,
    /// Only keys of this type
    #[arg(long = "type")]
    pub key_type: Option<String>,
    /// Send standard input, which must be in the protocol's encoding, at full speed
    #[arg(long)]
    pub pipe: bool,
    /// Timeout of --pipe for the last replies in seconds (0: none)
    #[arg(long, default_value = "30", value_parser = seconds)]
    pub pipe_timeout: Duration,
    /// Print rows of statistics continuously
    #[arg(long)]
    pub stat: bool,
    /// Measure the round-trip time of PINGs continuously
    #[arg(long)]
    pub latency: bool,
    /// Like --latency, with a row every 15 seconds or -i
    #[arg(long)]
    pub latency_history: bool,
    /// Show the distribution of latencies as a spectrum, in 256 colors
    #[arg(long)]
    pub latency_dist: bool,
    /// Show the spectrum in grey
    #[arg(long, hide = true)]
    pub mono: bool,
    /// Measure scheduling latency of the system for this number of seconds
    #[arg(long, value_name = "SECONDS")]
    pub intrinsic_latency: Option<u64>,
    /// Simulate a cache of this number of keys, with 80 % of requests for 20 % of the keys
    #[arg(long, value_name = "KEYS")]
    pub lru_test: Option<u64>,
    /// Find the largest key of each type, by elements
    #[arg(long)]
    pub bigkeys: bool,
    /// Find the largest key of each type, by memory
    #[arg(long)]
    pub memkeys: bool,
    /// Like --memkeys, with this number of sampled elements per key
    #[arg(long, value_name = "ELEMENTS")]
    pub memkeys_samples: Option<u64>,
    /// Find the most used keys (requires a maxmemory-policy that ends in lfu or s3fifo)
    #[arg(long)]
    pub hotkeys: bool,
    /// Like --hotkeys, with this number of keys instead of 16
    #[arg(long, value_name = "KEYS")]
    pub hotkeys_count: Option<usize>,
    /// Show sizes and name lengths of all keys: the largest, by type, and distributions
    #[arg(long)]
    pub keystats: bool,
    /// Like --keystats, with this number of sampled elements per key
    #[arg(long, value_name = "ELEMENTS")]
    pub keystats_samples: Option<u64>,
    /// Cursor at which --keystats continues
    #[arg(long, default_value_t = 0)]
    pub cursor: u64,
    /// Number of the largest keys that --keystats shows
    #[arg(long, default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub sizing_options: sizing::SizingOptions,
    /// Print the commands that a replica receives
    #[arg(long, visible_alias = "slave")]
    pub replica: bool,
    /// Write a snapshot of the server's data to this file (-: standard output)
    #[arg(long, value_name = "FILE")]
    pub rdb: Option<PathBuf>,
    /// Like --rdb, with functions only
    #[arg(long, value_name = "FILE")]
    pub functions_rdb: Option<PathBuf>,
    /// Run the script in this file; arguments: key... , argument...
    #[arg(long, value_name = "FILE")]
    pub eval: Option<PathBuf>,
    /// Run the script in the server's debugger, which is not supported
    #[arg(long, hide = true)]
    pub ldb: bool,
    /// Like --ldb, synchronously: the server is blocked for other clients
    #[arg(long, hide = true)]
    pub ldb_sync_mode: bool,
    /// Verbose output
    #[arg(long)]
    pub verbose: bool,
    /// Print the hint for this input
    #[arg(long = "test_hint", hide = true)]
    pub test_hint: Option<String>,
    /// Compare hints with those in this file
    #[arg(long = "test_hint_file", hide = true)]
    pub test_hint_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls_options: TlsOptions,
    /// Print the manual page, or completions for a shell
    #[arg(long)]
    pub generate: Option<manual::Kind>,
    /// Print this help
    #[arg(long, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'v', long)]
    pub version: bool,
    /// Command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
    #[command(flatten)]
    pub cluster_options: ClusterOptions,
}

fn connect_timeout(text: &str) -> Result<Duration, String> {
    seconds(text).map_err(|_| "Invalid connection timeout for -t.".to_string())
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "Invalid server port.".to_string())
}

/// The reason why no command runs.
#[derive(Debug, PartialEq)]
pub enum NoOptions {
    /// Help or version were requested.
    Text(String),
    Error(String),
}

impl Options {
    /// Returns the command line for parsing, manual pages and completions.
    pub fn definition() -> clap::Command {
        let takes_any_word = |arg: clap::Arg| {
            // An option's value can begin with a dash, such as a password or a delimiter.
            let is_single = arg.get_num_args().is_none_or(|count| count.max_values() == 1);
            if arg.get_action().takes_values() && is_single { arg.allow_hyphen_values(true) } else { arg }
        };
        Options::command().name(Program::current().name).mut_args(takes_any_word)
    }

    /// Parses `arguments`, which include the program's name.
    pub fn read(arguments: &[OsString]) -> Result<Options, NoOptions> {
        let mut definition = Options::definition();
        let parsed = definition.try_get_matches_from_mut(arguments);
        let mut options = match parsed.and_then(|matches| Options::from_arg_matches(&matches)) {
            Ok(options) => options,
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                return Err(NoOptions::Text(error.to_string()));
            }
            Err(_) if arguments.last().is_some_and(|last| last == "-h") => {
                return Err(NoOptions::Text(definition.render_help().to_string()));
            }
            Err(error) => return Err(NoOptions::Error(complaint(&error, &definition))),
        };
        if options.version {
            return Err(NoOptions::Text(format!("{}\n", Program::current().version_line())));
        }
        if let Some(first) = options.command.first().filter(|first| first.len() > 1 && first.starts_with('-'))
        {
            return Err(NoOptions::Error(unrecognized(first, &definition)));
        }
        options.apply_uri().map_err(NoOptions::Error)?;
        options.return_words();
        options.check().map_err(NoOptions::Error)?;
        Ok(options)
    }

    /// Applies the components of `-u` to the options that they replace.
    fn apply_uri(&mut self) -> Result<(), String> {
        let Some(uri) = self.uri.take() else { return Ok(()) };
        let uri = ServerUri::parse(&uri)?;
        self.tls_options.tls |= uri.is_encrypted;
        self.socket = uri.socket.or(self.socket.take());
        self.user = uri.user.or(self.user.take());
        self.password = uri.password.or(self.password.take());
        self.port = uri.port.unwrap_or(self.port);
        self.database = uri.database.map_or(self.database, i64::from);
        if let Some(host) = uri.host {
            self.host = host;
        }
        Ok(())
    }

    /// Returns words behind weights that are none to the command.
    fn return_words(&mut self) {
        let weights = &mut self.cluster_options.cluster_weight;
        if let Some(end) = weights.iter().position(|word| !word.contains('='))
            && self.command.is_empty()
        {
            self.command = weights.split_off(end);
        }
    }

    /// Checks combinations of options.
    fn check(&self) -> Result<(), String> {
        let exclusive: [(bool, &str); 8] = [
            (
                self.socket.is_some() && self.follows_redirections(),
                "Options -c and -s are mutually exclusive.",
            ),
            (self.resp2 && self.resp3, "Options -2 and -3 are mutually exclusive."),
            (
                (self.ldb || self.ldb_sync_mode) && self.eval.is_none(),
                "Options --ldb and --ldb-sync-mode require --eval.",
            ),
            (self.ldb || self.ldb_sync_mode, "Options --ldb and --ldb-sync-mode: there is no Lua debugger."),
            (
                self.functions_rdb.is_some() && self.rdb.is_some(),
                "Option --functions-rdb and --rdb are mutually exclusive.",
            ),
            (
                self.last_from_stdin && self.tag_from_stdin.is_some(),
                "Options -x and -X are mutually exclusive.",
            ),
            (self.ipv4 && self.ipv6, "Options -4 and -6 are mutually exclusive."),
            (self.mptcp && self.socket.is_some(), "Options --mptcp is only supported by TCP."),
        ];
        exclusive.iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, text)| Err((*text).to_owned()))
    }

    pub fn follows_redirections(&self) -> bool {
        self.cluster || self.cluster_options.cluster_command.is_some()
    }

    pub fn address(&self) -> Address {
        match &self.socket {
            Some(path) => Address::Unix(path.clone()),
            None => Address::Tcp(self.host.clone(), self.port),
        }
    }

    pub fn connect_settings(&self) -> Result<ConnectSettings, String> {
        let preferred_family = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        };
        Ok(ConnectSettings {
            timeout: self.timeout,
            preferred_family,
            multipath: self.mptcp,
            no_delay: true,
            keepalive: true,
            encryption: self.tls_options.encryption().map_err(|error| error.to_string())?,
        })
    }

    /// Returns whether push messages are printed.
    pub fn shows_pushes(&self, is_watched: bool) -> bool {
        match self.show_pushes.as_deref() {
            Some(choice) if choice.starts_with(['n', 'N']) => false,
            Some(choice) if choice.starts_with(['y', 'Y']) => true,
            Some(choice) => {
                eprint_line!("Unknown --show-pushes value '{choice}' (valid: '[y]es', '[n]o')");
                is_watched
            }
            None => is_watched,
        }
    }

    /// Returns the pattern of a scan, if there is one.
    pub fn scan_pattern(&self) -> Result<Option<Vec<u8>>, String> {
        match (&self.quoted_pattern, &self.pattern) {
            (Some(pattern), _) => unquoted(pattern)
                .map(Some)
                .ok_or_else(|| "Invalid quoted string specified for --quoted-pattern.".to_owned()),
            (None, Some(pattern)) => Ok(Some(pattern.clone().into_bytes())),
            (None, None) => Ok(None),
        }
    }

    /// Returns the settings that depend on several options.
    pub fn style(&self, is_terminal: bool) -> Style {
        match () {
            () if self.csv => Style::Csv,
            () if self.json => Style::Json,
            () if self.quoted_json => Style::QuotedJson,
            () if self.raw || (!is_terminal && !self.no_raw) => Style::Raw {
                element_delimiter: self.element_delimiter.clone(),
                reply_delimiter: self.reply_delimiter.clone(),
            },
            () => Style::Terminal,
        }
    }

    pub fn uses_resp3(&self) -> bool {
        self.resp3 || ((self.json || self.quoted_json) && !self.resp2)
    }
}

/// Returns the error of an unknown option, and the option closest to it.
fn unrecognized(option: &str, definition: &clap::Command) -> String {
    let error = format!("Unrecognized option or bad number of args for: '{option}'");
    let visible = definition.get_arguments().filter(|arg| !arg.is_hide_set());
    let names: Vec<&str> = visible.filter_map(clap::Arg::get_long_and_visible_aliases).flatten().collect();
    match option.strip_prefix("--").and_then(|typed| meant(typed, names)) {
        Some(name) => format!("{error}\nDid you mean '--{name}'?"),
        None => error,
    }
}

/// Returns the error of an invalid command line on one line.
fn complaint(error: &clap::Error, definition: &clap::Command) -> String {
    if let (ErrorKind::ValueValidation, Some(source)) = (error.kind(), std::error::Error::source(error)) {
        let text = source.to_string();
        if text.ends_with('.') {
            return text;
        }
    }
    match error.get(ContextKind::InvalidArg) {
        // An option that another one requires.
        Some(ContextValue::Strings(missing)) => {
            let names: Vec<&str> = missing.iter().filter_map(|option| option.split(' ').next()).collect();
            format!("Option {} is missing.", names.join(" or "))
        }
        Some(ContextValue::String(arg)) => {
            let option = arg.split([' ', '=']).next().unwrap_or_default();
            unrecognized(option, definition)
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        read(line).unwrap()
    }

    fn read(line: &str) -> Result<Options, NoOptions> {
        let words: Vec<OsString> =
            format!("warmline-cli {line}").split_whitespace().map(OsString::from).collect();
        Options::read(&words)
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options = parse("-h example -p 7000 -n 3 -r -1 -i 0.5 set key -1 -x");
        assert_eq!(
            (options.host.as_str(), options.port, options.database, options.repeat),
            ("example", 7000, 3, -1)
        );
        assert_eq!(options.interval, Some(Duration::from_millis(500)));
        assert_eq!(options.command, ["set", "key", "-1", "-x"]);
        assert!(!options.last_from_stdin);
        assert!(parse("-x set key").last_from_stdin);
        assert!(parse("-3 ping").resp3 && parse("-2 ping").resp2);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let complaint = |line: &str| match read(line) {
            Err(NoOptions::Error(text)) => text,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(complaint("-x -X tag"), "Options -x and -X are mutually exclusive.");
        assert_eq!(complaint("-X"), "Unrecognized option or bad number of args for: '-X'");
        assert_eq!(complaint("--nothing ping"), "Unrecognized option or bad number of args for: '--nothing'");
        assert_eq!(
            complaint("--pattrn x --scan"),
            "Unrecognized option or bad number of args for: '--pattrn'\nDid you mean '--pattern'?"
        );
        assert_eq!(complaint("-p 70000 ping"), "Invalid server port.");
        assert_eq!(complaint("-t x ping"), "Invalid connection timeout for -t.");
        assert_eq!(complaint("-r x ping"), "Unrecognized option or bad number of args for: '-r'");
        assert_eq!(complaint("-4 -6"), "Options -4 and -6 are mutually exclusive.");
        assert_eq!(complaint("--cert file ping"), "Option --key is missing.");
        assert!(matches!(read("-h"), Err(NoOptions::Text(text)) if text.contains("--bigkeys")));
        assert!(
            matches!(read("-v"), Err(NoOptions::Text(text)) if text.ends_with(concat!(env!("CARGO_PKG_VERSION"), "\n")))
        );
    }

    #[test]
    fn a_uri_stands_for_the_options_that_it_names() {
        let options = parse("-h other -n 3 --user me -u rediss://secret@example.org:7001 ping");
        assert_eq!((options.host.as_str(), options.port, options.database), ("example.org", 7001, 3));
        assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("me"), Some("secret")));
        assert!(options.tls_options.tls && options.socket.is_none());
        let options = parse("-u unix:///run/a.sock ping");
        assert_eq!(options.address(), Address::Unix("/run/a.sock".into()));
        assert!(read("-u unix:///run/a.sock -c").is_err() && read("-u example").is_err());
    }

    #[test]
    fn commands_for_clusters_end_at_the_next_option() {
        let options = parse("--cluster call 127.0.0.1:7000 get key --cluster-only-masters -a -secret");
        let command = options.cluster_options.cluster_command.unwrap();
        assert_eq!(command, ["call", "127.0.0.1:7000", "get", "key"]);
        assert!(options.cluster_options.cluster_only_primaries);
        assert_eq!(options.password.as_deref(), Some("-secret"));
    }

    #[test]
    fn changes_of_clusters_have_the_spellings_of_all_releases() {
        let cluster = |line: &str| parse(line).cluster_options;
        let options = cluster("--cluster add-node a:1 b:2 --cluster-slave --cluster-master-id x");
        assert!(options.cluster_replica && options.cluster_primary_id.as_deref() == Some("x"));
        for name in ["primary", "primaries"] {
            let options =
                cluster(&format!("--cluster add-node a:1 b:2 --cluster-replica --cluster-{name}-id x"));
            assert_eq!(options.cluster_primary_id.as_deref(), Some("x"));
        }
        let options =
            cluster("--cluster rebalance a:1 --cluster-weight x=1 y=0.5 --cluster-use-empty-masters");
        assert!(options.cluster_use_empty_primaries);
        assert_eq!(options.cluster_weight, ["x=1", "y=0.5"]);
        assert!(
            cluster("--cluster fix a:1 --cluster-fix-with-unreachable-masters")
                .cluster_fix_with_unreachable_primaries
        );
        let options =
            cluster("--cluster reshard a:1 --cluster-from all --cluster-pipeline 3 --cluster-timeout 5");
        assert_eq!((options.cluster_pipeline, options.cluster_timeout), (3, 5));
        assert_eq!(options.cluster_from.as_deref(), Some("all"));
        assert!(read("--cluster reshard a:1 --cluster-pipeline 0").is_err());
        // Words without a weight are the command's, as elsewhere.
        let options = parse("--cluster rebalance --cluster-weight x=1 a:1");
        assert_eq!(
            (options.cluster_options.cluster_weight, options.command),
            (vec!["x=1".to_owned()], vec!["a:1".to_owned()])
        );
    }

    #[test]
    fn later_options_override() {
        assert_eq!(parse("-p 1 -p 2 ping").port, 2);
        assert_eq!(parse("--raw --no-raw").style(false), Style::Terminal);
        assert!(parse("--json -3").uses_resp3() && !parse("--json -2").uses_resp3());
    }
}
