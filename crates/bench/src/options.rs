//! The command line, with the letters of the load generators that people know.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use tls::configs::ClientOptions;
use tls::materials::IdentityFiles;

use crate::load::Encryption;

/// A load generator for Warmline and other servers of the Redis protocol.
///
/// Runs a set of tests, or the command given. Several commands are separated by ';' and sent as one sequence; a
/// number before a command repeats it within the sequence. In arguments, __rand_int__ becomes a number of 12 digits
/// below -r, anew at each place; __rand_1st__ to __rand_9th__ are equal wherever they stand in one sequence; __data__
/// becomes -d bytes.
#[derive(Parser, Debug)]
#[command(version, disable_help_flag = true, disable_version_flag = true, max_term_width = 100)]
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
    /// Password; safer in the environment than on the command line
    #[arg(short = 'a', env = "REDISCLI_AUTH", hide_env_values = true)]
    pub password: Option<String>,
    /// User that the password belongs to
    #[arg(long)]
    pub user: Option<String>,
    /// Connections
    #[arg(short = 'c', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Requests of each test
    #[arg(short = 'n', default_value_t = 100_000)]
    pub requests: u64,
    /// Run each test for so many seconds, whatever -n says
    #[arg(long, value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Bytes of a value
    #[arg(short = 'd', default_value_t = 3)]
    pub data_len: usize,
    /// Database
    #[arg(long = "dbnum", default_value_t = 0)]
    pub database: u32,
    /// Speak RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// Threads that generate the load
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: u32,
    /// 1: connections live on; 0: a new one for each request
    #[arg(short = 'k', default_value_t = 1)]
    pub keep_alive: u8,
    /// Numbers that __rand_int__ and its like stand for are below this (without it they are left as they are)
    #[arg(short = 'r')]
    pub random_below: Option<u64>,
    /// Numbers in order instead of random ones
    #[arg(long, requires = "random_below")]
    pub sequential: bool,
    /// Requests sent before their replies are awaited
    #[arg(short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub pipeline: u32,
    /// Requests per second of all connections together (0: as many as the server takes)
    #[arg(long, default_value_t = 0)]
    pub rps: u64,
    /// Print one line per test
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Decimals of the latencies in milliseconds
    #[arg(long, default_value_t = 3)]
    pub precision: usize,
    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Run the tests for ever
    #[arg(short = 'l')]
    pub endless: bool,
    /// Tests to run, separated by commas
    #[arg(short = 't', value_delimiter = ',')]
    pub tests: Vec<String>,
    /// Take the last argument of the command from standard input
    #[arg(short = 'x')]
    pub last_from_stdin: bool,
    /// Seed of the random numbers
    #[arg(long)]
    pub seed: Option<u64>,
    /// Encrypt connections with TLS
    #[arg(long)]
    pub tls: bool,
    /// Name of the server to ask for
    #[arg(long)]
    pub sni: Option<String>,
    /// File with the certificates of the authorities to believe (default: those of the system)
    #[arg(long)]
    pub cacert: Option<PathBuf>,
    /// Directory with files of such certificates
    #[arg(long)]
    pub cacertdir: Option<PathBuf>,
    /// Believe every server
    #[arg(long)]
    pub insecure: bool,
    /// File with the certificate to show to the server
    #[arg(long, requires = "key")]
    pub cert: Option<PathBuf>,
    /// File with that certificate's key
    #[arg(long, requires = "cert")]
    pub key: Option<PathBuf>,
    /// Cipher suites of TLS 1.2, by OpenSSL's names
    #[arg(long)]
    pub tls_ciphers: Option<String>,
    /// Cipher suites of TLS 1.3
    #[arg(long)]
    pub tls_ciphersuites: Option<String>,
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
    /// How connections are encrypted, if they are.
    pub fn encryption(&self) -> Result<Option<Encryption>, String> {
        if !self.tls {
            return Ok(None);
        }
        let identity = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(IdentityFiles { certificate: certificate.clone(), key: key.clone(), key_password: None })
            }
            _ => None,
        };
        let options = ClientOptions {
            identity,
            authorities_file: self.cacert.clone(),
            authorities_directory: self.cacertdir.clone(),
            insecure: self.insecure,
            ciphers: self.tls_ciphers.clone(),
            ciphersuites: self.tls_ciphersuites.clone(),
        };
        let config = options.config().map_err(|error| error.to_string())?;
        Ok(Some(Encryption { config, name: self.sni.clone() }))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
