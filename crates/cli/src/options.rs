//! The command line, the same letters and names as the clients that people know.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use tls::configs::ClientOptions;
use tls::materials::IdentityFiles;

use crate::encrypted::Encryption;
use crate::format::Style;

/// A client for Warmline and other servers of the Redis protocol. Without a command it reads commands from the
/// terminal or from standard input.
#[derive(Parser, Debug)]
#[command(version, disable_help_flag = true, disable_version_flag = true, max_term_width = 100)]
pub struct Options {
    /// Server's host name or address
    #[arg(short = 'h', default_value = "127.0.0.1")]
    pub host: String,
    /// Server's port
    #[arg(short = 'p', default_value_t = 6379)]
    pub port: u16,
    /// Seconds to wait for a connection (0: as long as the system does)
    #[arg(short = 't', default_value = "0", value_parser = seconds)]
    pub timeout: Duration,
    /// Unix socket of the server, instead of host and port
    #[arg(short = 's')]
    pub socket: Option<PathBuf>,
    /// Password; safer in the environment than on the command line
    #[arg(
        short = 'a',
        long = "pass",
        visible_alias = "password",
        env = "REDISCLI_AUTH",
        hide_env_values = true
    )]
    pub password: Option<String>,
    /// User that the password belongs to
    #[arg(long)]
    pub user: Option<String>,
    /// Do not warn about passwords on the command line (there is no warning; accepted for scripts)
    #[arg(long)]
    pub no_auth_warning: bool,
    /// Server as redis://user:password@host:port/database; rediss:// is the same with --tls
    #[arg(short = 'u')]
    pub uri: Option<String>,
    /// Database
    #[arg(short = 'n', default_value_t = 0)]
    pub database: u32,
    /// Speak RESP2
    #[arg(short = '2', conflicts_with = "resp3")]
    pub resp2: bool,
    /// Speak RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// Take the last argument from standard input
    #[arg(short = 'x')]
    pub last_from_stdin: bool,
    /// Take the argument that equals this tag from standard input
    #[arg(short = 'X', conflicts_with = "last_from_stdin")]
    pub tag_from_stdin: Option<String>,
    /// Run the command so many times (negative: for ever)
    #[arg(short = 'r', default_value_t = 1, allow_negative_numbers = true)]
    pub repeat: i64,
    /// Seconds between repetitions, SCAN calls and rows of --stat
    #[arg(short = 'i', value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Text between elements in raw output
    #[arg(short = 'd', default_value = "\n")]
    pub element_delimiter: String,
    /// Text between replies in raw output
    #[arg(short = 'D', default_value = "\n")]
    pub reply_delimiter: String,
    /// Follow redirections to other nodes of a cluster
    #[arg(short = 'c')]
    pub cluster: bool,
    /// Exit with 1 when a command fails
    #[arg(short = 'e')]
    pub error_exit: bool,
    /// Plain replies (default unless the output is a terminal)
    #[arg(long)]
    pub raw: bool,
    /// Replies for people, even if the output is no terminal
    #[arg(long, conflicts_with = "raw")]
    pub no_raw: bool,
    /// Replies as comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Replies as JSON (in RESP3 unless -2 is given)
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// As --json, in ASCII only
    #[arg(long, conflicts_with = "csv")]
    pub quoted_json: bool,
    /// Print RESP3's push messages: yes or no (default: if the output is a terminal)
    #[arg(long)]
    pub show_pushes: Option<String>,
    /// Take arguments as quoted strings
    #[arg(long)]
    pub quoted_input: bool,
    /// List keys
    #[arg(long)]
    pub scan: bool,
    /// Pattern of the keys for --scan, --bigkeys and --memkeys
    #[arg(long, default_value = "*")]
    pub pattern: String,
    /// As --pattern, quoted
    #[arg(long)]
    pub quoted_pattern: Option<String>,
    /// COUNT of each SCAN
    #[arg(long, default_value_t = 10)]
    pub count: u64,
    /// Send what standard input holds, which is the protocol itself, as fast as the server takes it
    #[arg(long)]
    pub pipe: bool,
    /// Seconds that --pipe waits for the last replies (0: for ever)
    #[arg(long, default_value = "30", value_parser = seconds)]
    pub pipe_timeout: Duration,
    /// Print a row of statistics again and again
    #[arg(long)]
    pub stat: bool,
    /// Measure the time of a PING again and again
    #[arg(long)]
    pub latency: bool,
    /// As --latency, a row every 15 seconds or -i
    #[arg(long)]
    pub latency_history: bool,
    /// Find the largest key of each type, by elements
    #[arg(long)]
    pub bigkeys: bool,
    /// Find the largest key of each type, by memory
    #[arg(long)]
    pub memkeys: bool,
    /// Elements that the server samples to estimate a key's memory
    #[arg(long)]
    pub memkeys_samples: Option<u64>,
    /// Run the script in this file: key... , argument...
    #[arg(long)]
    pub eval: Option<PathBuf>,
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

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
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

    /// Settings that options decide together.
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

    pub fn wants_resp3(&self) -> bool {
        self.resp3 || ((self.json || self.quoted_json) && !self.resp2)
    }

    /// Puts the parts of `-u` where their own options are.
    pub fn apply_uri(&mut self) -> Result<(), String> {
        let Some(uri) = self.uri.take() else { return Ok(()) };
        self.tls |= ["rediss://", "valkeys://"].iter().any(|scheme| uri.starts_with(scheme));
        let rest = ["redis://", "rediss://", "valkey://", "valkeys://", "warmline://"]
            .iter()
            .find_map(|scheme| uri.strip_prefix(scheme))
            .ok_or("a URI begins with redis:// or valkey://")?;
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, address) = match authority.rsplit_once('@') {
            Some((credentials, address)) => (Some(credentials), address),
            None => (None, authority),
        };
        if let Some(credentials) = credentials {
            let (user, password) = credentials.split_once(':').unwrap_or(("", credentials));
            self.user = (!user.is_empty()).then(|| percent_decoded(user)).transpose()?;
            self.password = Some(percent_decoded(password)?);
        }
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (address, ""),
        };
        if !host.is_empty() {
            self.host = host.trim_matches(['[', ']']).to_string();
        }
        if !port.is_empty() {
            self.port = port.parse().map_err(|_| format!("no port: {port}"))?;
        }
        if !database.is_empty() {
            self.database = database.parse().map_err(|_| format!("no database number: {database}"))?;
        }
        Ok(())
    }
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        let hex = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16));
        out.push(match byte {
            b'%' => match (hex(bytes.next()), hex(bytes.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(format!("incomplete percent-encoding in {text}")),
            },
            byte => byte,
        });
    }
    String::from_utf8(out).map_err(|_| format!("{text} is not UTF-8 when decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        Options::try_parse_from(format!("warmline-cli {line}").split_whitespace()).unwrap()
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
    fn a_uri_sets_what_it_names() {
        let mut options = parse("-u redis://me:se%40cret@example.org:7001/5 ping");
        options.apply_uri().unwrap();
        assert_eq!((options.host.as_str(), options.port, options.database), ("example.org", 7001, 5));
        assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("me"), Some("se@cret")));
        let mut options = parse("-u valkey://secret@[::1] ping");
        options.apply_uri().unwrap();
        assert_eq!((options.host.as_str(), options.port), ("::1", 6379));
        assert_eq!((options.user, options.password.as_deref()), (None, Some("secret")));
        let mut options = parse("-u http://example ping");
        assert!(options.apply_uri().is_err());
    }
}
