//! The command line, with the letters of `valkey-benchmark`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use client::{Address, ConnectSettings, ServerUri, TlsOptions, authentication, seconds};

use crate::cluster::ReadFrom;
use crate::connection::Setup;

/// Environment variables with a password, in the order of `warmline-cli`.
const PASSWORD_VARIABLES: [&str; 3] = ["WARMLINECLI_AUTH", "VALKEYCLI_AUTH", "REDISCLI_AUTH"];

/// A load generator for Warmline and other servers of the Redis protocol.
///
/// Runs a set of tests, or the command given. Several commands are separated by ';' and sent as one sequence; a
/// number before a command repeats it within the sequence. In arguments, __rand_int__ is replaced by a random number
/// of 12 digits below -r, different at each occurrence; __rand_1st__ to __rand_9th__ have the same number at each
/// occurrence in a sequence; __data__ is replaced by -d bytes.
#[derive(Parser, Debug)]
#[command(
    version,
    disable_help_flag = true,
    disable_version_flag = true,
    max_term_width = 100,
    after_help = "compare, spec and report as the first word are commands of their own; each has --help."
)]
pub struct Options {
    /// Server's host name or address
    #[arg(short = 'h', default_value = "127.0.0.1")]
    pub host: String,
    /// Server's port
    #[arg(short = 'p', default_value_t = 6379)]
    pub port: u16,
    /// Unix socket of the server, instead of host and port
    #[arg(short = 's')]
    pub socket: Option<PathBuf>,
    /// Password; preferably in the environment (WARMLINECLI_AUTH, VALKEYCLI_AUTH, REDISCLI_AUTH), not on the command
    /// line
    #[arg(short = 'a')]
    pub password: Option<String>,
    /// User name for the password
    #[arg(long)]
    pub user: Option<String>,
    /// Server, user and database: valkey://user:password@host:port/database; valkeys:// for TLS; unix:///path is a
    /// socket
    #[arg(short = 'u')]
    pub uri: Option<String>,
    /// Connections
    #[arg(short = 'c', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Requests per test (default 100000)
    #[arg(short = 'n')]
    pub requests: Option<u64>,
    /// Duration of each test in seconds, instead of -n
    #[arg(long, value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Warm-up of each test in seconds
    #[arg(long, value_parser = seconds, default_value = "0")]
    pub warmup: Duration,
    /// Length of a value, 1 to 1 GiB
    #[arg(short = 'd', default_value_t = 3)]
    pub data_len: usize,
    /// Database number
    #[arg(long = "dbnum", default_value_t = 0)]
    pub database: u32,
    /// Use RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// Threads that generate the load
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=500))]
    pub threads: Option<u32>,
    /// Distribute connections over the nodes of a cluster; keys of commands need {tag}, the hash tag of a node
    #[arg(long, conflicts_with = "socket")]
    pub cluster: bool,
    /// Nodes of the cluster that receive requests
    #[arg(long, value_enum, default_value_t = ReadFrom::No, requires = "cluster")]
    pub rfr: ReadFrom,
    /// Enable client tracking for all connections
    #[arg(long)]
    pub enable_tracking: bool,
    /// 1: keep connections open; 0: open one per request
    #[arg(short = 'k', default_value_t = 1)]
    pub keep_alive: u8,
    /// Upper bound of the numbers that replace __rand_int__ and similar words (without it the words are kept)
    #[arg(short = 'r')]
    pub random_below: Option<u64>,
    /// Use sequential numbers instead of random ones
    #[arg(long, requires = "random_below")]
    pub sequential: bool,
    /// Pipeline depth
    #[arg(short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub pipeline: u32,
    /// Requests per second of all connections together (0: without limit); latencies are then measured from the
    /// scheduled time of a request
    #[arg(long, default_value_t = 0)]
    pub rps: u64,
    /// Print one line per test
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Significant digits of latencies, at most 4
    #[arg(long, default_value_t = 3)]
    pub precision: u8,
    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Repeat the tests without end
    #[arg(short = 'l')]
    pub endless: bool,
    /// Open connections and leave them idle
    #[arg(short = 'I')]
    pub idle: bool,
    /// No effect: an error always ends the test
    #[arg(short = 'e')]
    pub shows_errors: bool,
    /// Functions in the library of the test function_load
    #[arg(long, default_value_t = 10)]
    pub num_functions: u32,
    /// Keys of the function that the test fcall calls
    #[arg(long, default_value_t = 1)]
    pub num_keys_in_fcall: u32,
    /// Multipath TCP
    #[arg(long, conflicts_with = "socket")]
    pub mptcp: bool,
    /// Tests to run, separated by commas
    #[arg(short = 't', value_delimiter = ',')]
    pub tests: Vec<String>,
    /// Take the last argument of the command from standard input
    #[arg(short = 'x')]
    pub last_from_stdin: bool,
    /// Seed of the random numbers
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub tls_options: TlsOptions,
    /// Print the manual page, or completions for a shell
    #[arg(long)]
    pub generate: Option<manual::Kind>,
    /// Print this help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    /// Command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

impl Options {
    /// Resolves combinations of options, and refuses invalid ones.
    pub fn settle(&mut self) -> Result<(), String> {
        if self.requests.is_some() && self.duration.is_some() {
            return Err("Options -n and --duration are mutually exclusive.".to_string());
        }
        self.data_len = self.data_len.clamp(1, 1 << 30);
        self.precision = self.precision.clamp(1, 4);
        self.apply_uri()?;
        if self.password.is_none() {
            self.password = PASSWORD_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
        }
        Ok(())
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
        self.database = uri.database.unwrap_or(self.database);
        if let Some(host) = uri.host {
            self.host = host;
        }
        Ok(())
    }

    /// Returns the commands that set up a connection.
    pub fn setup(&self) -> Result<Setup, String> {
        let address = match &self.socket {
            Some(path) => Address::Unix(path.clone()),
            None => Address::Tcp(self.host.clone(), self.port),
        };
        let mut commands = Vec::new();
        commands.extend(authentication(self.user.as_deref(), self.password.as_deref()));
        let mut add = |args: &[&str]| commands.push(args.iter().map(|arg| arg.to_string()).collect());
        if self.resp3 {
            add(&["HELLO", "3"]);
        }
        if self.enable_tracking {
            add(&["CLIENT", "TRACKING", "ON"]);
        }
        if self.database != 0 {
            add(&["SELECT", &self.database.to_string()]);
        }
        let encryption = self.tls_options.encryption().map_err(|error| error.to_string())?;
        let connect = ConnectSettings { multipath: self.mptcp, encryption, ..ConnectSettings::default() };
        Ok(Setup { address, connect, commands })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words = format!("warmline-benchmark {line}");
        let mut options =
            Options::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
        options.settle().map(|()| options)
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options = parse("-h example -p 7000 -n 3 -r 10 --threads 2 set key -1 -x").unwrap();
        assert_eq!((options.host.as_str(), options.port, options.requests), ("example", 7000, Some(3)));
        assert_eq!((options.random_below, options.threads), (Some(10), Some(2)));
        assert_eq!(options.command, ["set", "key", "-1", "-x"]);
        assert_eq!(parse("-n 2 -- -odd").unwrap().command, ["-odd"]);
        assert_eq!(
            parse("-d 0 --precision 9").map(|options| (options.data_len, options.precision)),
            Ok((1, 4))
        );
        assert!(parse("-n 5 --duration 1").unwrap_err().contains("mutually exclusive"));
        assert!(parse("--warmup 0.5 -n 5").is_ok());
    }

    #[test]
    fn a_uri_stands_for_the_options_that_it_names() {
        let options = parse("-h other --dbnum 3 --user me -u rediss://secret@example.org:7001").unwrap();
        assert_eq!((options.host.as_str(), options.port, options.database), ("example.org", 7001, 3));
        assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("me"), Some("secret")));
        assert!(options.tls_options.tls && options.socket.is_none());
        let setup = parse("-u unix:///run/a.sock").unwrap().setup().unwrap();
        assert_eq!(setup.address, Address::Unix("/run/a.sock".into()));
        assert!(parse("-u example").is_err());
    }
}
