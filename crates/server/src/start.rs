//! The start: from the command line to a serving process.

mod check;
mod cluster;
mod health;
mod machine;
mod presence;
mod summary;

use crate::clock::Clock;
use crate::commands::info::VALKEY_VERSION;
use crate::config::{Config, ConfigError, Directive, Flags, ROWS, Row, Startup};
use crate::engine::cluster::join;
use crate::engine::loading::RestoreError;
use crate::engine::shutdown::stop_requests;
use crate::engine::users::UsersError;
use crate::engine::users::warning_about_password;
use crate::engine::{Executor, Seeds};
use crate::net::EventLoop;
use crate::net::bus_turns::BusStartError;
use crate::net::files::{FileShortage, allow_clients};
use crate::net::listener::ListenError;
use crate::net::listeners;
use crate::net::process_title::show_title;
use crate::net::signals::Signals;
use crate::observe::{crash_report, log as server_log, supervisor};
use crate::persist::check_rdb;
use crate::server::Identity;
use crate::sys::file::{FileError, failed, system_text};
use crate::sys::{process, title};
pub use check::check;
pub use health::check_health;
use presence::PidFile;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use structures::hash::HashSeed;
use summary::{DataFiles, Loaded};

/// Period of looks for signals during the wait for a restart.
const RESTART_LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Why the process cannot serve, or has not ended well.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is not valid.
    Config(ConfigError),
    /// An address cannot be listened on.
    Listen(ListenError),
    /// The data cannot be loaded.
    Load(RestoreError),
    /// Invalid users in the configuration or their file.
    Users(String),
    /// The server cannot be a node of a cluster.
    Cluster(String),
    /// The process has served, and ends without changes that it should have saved.
    Unsaved,
    /// Too few files for a single client.
    Files(FileShortage),
    /// The operation that the operating system refused, on a file.
    File(FileError),
    /// The operation that the operating system refused.
    System {
        /// The operation, for the error's text.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Listen(error) => error.fmt(f),
            StartError::Load(error) => error.fmt(f),
            StartError::Users(text) | StartError::Cluster(text) => f.write_str(text),
            StartError::Unsaved => f.write_str("The server ends without the changes since the last save."),
            StartError::Files(shortage) => f.write_str(&shortage.start_refusal()),
            StartError::File(error) => error.fmt(f),
            StartError::System { doing, source } => write!(f, "{doing}: {}", system_text(source)),
        }
    }
}

impl std::error::Error for StartError {}

fn system(doing: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::System { doing, source }
}

/// The output of `--help`.
pub const USAGE: &str = "Usage: warmline-server [/path/to/warmline.conf | -] [--option value ...]
       warmline-server --check-config [/path/to/warmline.conf | -] [--option value ...]
       warmline-server --check-health [process-id]
       warmline-server --check-rdb file [--stats] [--format table|info|csv] [--output file]
       warmline-server --check-aof [--fix | --truncate-to-timestamp seconds] file
       warmline-server --print-config
       warmline-server --version
       warmline-server --help

A configuration file is in the format of valkey.conf; `-` reads one from standard input.
Every directive can be given as an option, and overrides the file. --check-config checks whether the server would
start with a configuration, as the user who asks and on this machine: the words, the users, the certificates, the
addresses and the directories. It listens nowhere, writes nothing and reads no data; a port that is in use is no error,
because the server may be running. --check-health checks whether the running server, or the given process, answers on
every port and socket that it listens on, with TLS or without. --check-rdb checks a snapshot, --check-aof the manifest
of an append-only file or one of its files, as warmline-check-rdb and warmline-check-aof do; a file that is not whole
makes the exit code 1. --print-config prints a file in which every option is explained.

Unless `bind` says otherwise, the server listens on all addresses. As long as it has no password, clients from other
machines are refused (`protected-mode`).

Examples:
       warmline-server                      (port 6379 of all addresses, for this machine's clients)
       warmline-server /etc/warmline.conf
       warmline-server --port 7777 --maxmemory 1gb --maxmemory-policy allkeys-lru
       warmline-server --check-config /etc/warmline.conf && systemctl restart warmline
";

/// Returns the output of `--version`. Clients and their tests read the version after ` v=` as that of the server whose
/// commands they may use; this server's own comes last.
pub fn version_line() -> String {
    format!(
        "Warmline server v={VALKEY_VERSION} sha=00000000:0 malloc=jemalloc bits={} build=0 warmline={}",
        usize::BITS,
        env!("CARGO_PKG_VERSION")
    )
}

/// Serves until stopped.
pub fn serve(arguments: &[OsString]) -> Result<(), StartError> {
    let directory = std::env::current_dir();
    let Some(_) = serve_once(arguments)?.filter(Restart::wait) else { return Ok(()) };
    // Names in the arguments are relative to the directory of the start.
    let source = match directory {
        Ok(directory) => process::start_again(&directory, arguments),
        Err(error) => error,
    };
    Err(StartError::System { doing: "Starting again", source })
}

/// The start of the server after its end.
struct Restart {
    after: Duration,
    /// Set by signals that end the process.
    stop_requests: [Arc<AtomicBool>; 2],
}

impl Restart {
    /// Returns whether the server is to start again, and when.
    fn of(executor: &Executor) -> Option<Restart> {
        let after = executor.server.restarts_after?;
        Some(Restart { after, stop_requests: stop_requests(executor) })
    }

    /// Waits for its time; `false`: a signal has requested that the process end.
    fn wait(&self) -> bool {
        let until = Instant::now() + self.after;
        loop {
            if self.stop_requests.iter().any(|request| request.load(Ordering::Relaxed)) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(RESTART_LOOK_PERIOD));
        }
    }
}

/// Serves until stopped; returns the restart, if the server is to start again.
fn serve_once(arguments: &[OsString]) -> Result<Option<Restart>, StartError> {
    // The log file is created as the configuration is loaded.
    process::keep_own_files_usable();
    let startup = Config::load(arguments).map_err(StartError::Config)?;
    refuse_modules(&startup)?;
    let config = &startup.config;
    // A supervised process stays in the foreground.
    if supervisor::detect(config.supervised).is_none() && config.daemonize {
        process::daemonize().map_err(system("Starting the background process"))?;
    }
    title::make_room();
    let logfile = config.logfile_path();
    server_log::set_format(config.log_format, config.log_timestamp_format);
    server_log::start(logfile.as_deref(), config.loglevel).map_err(system("Opening the log file"))?;
    log::info!("Warmline {} starts, PID: {}", env!("CARGO_PKG_VERSION"), std::process::id());
    without_effect(config).iter().for_each(|warning| log::warn!("{warning}"));
    let snapshot = (!config.appendonly).then(|| PathBuf::from(OsStr::from_bytes(&config.dbfilename)));
    let result = run(startup);
    match &result {
        Ok(_) => log::info!("Warmline is now ready to exit, bye bye..."),
        // Load errors always go to the log, where operators look for them.
        Err(StartError::Load(error)) => {
            log::warn!("{error}");
            if error.is_within_snapshot() {
                // Names the damaged key, and the intact keys before it.
                if let Some(path) = &snapshot {
                    check_rdb::check(path);
                }
                log::warn!("Terminating server after rdb file reading failure.");
            } else if error.is_of_snapshot() {
                log::warn!("Fatal error loading the DB, check server logs. Exiting.");
            }
        }
        Err(error) if logfile.is_some() => log::warn!("{error}"),
        Err(_) => {}
    }
    result
}

fn run(startup: Startup) -> Result<Option<Restart>, StartError> {
    let mut event_loop = open(startup)?;
    let config = &event_loop.executor.server.config;
    supervisor::notify_of_start(config.supervised);
    let pid_file = PidFile::write(config);
    show_title(config);
    log::info!("Server initialized");
    let files = DataFiles::find(config);
    let began_us = event_loop.executor.clock.monotonic_us();
    if !event_loop.load().map_err(StartError::Load)? {
        return Ok(Restart::of(&event_loop.executor));
    }
    let duration_us = event_loop.executor.clock.monotonic_us() - began_us;
    let loaded = Loaded::of(&mut event_loop.executor, Duration::from_micros(duration_us));
    summary::lines(&event_loop, &files, loaded).iter().for_each(|line| log::info!("{line}"));
    if let Some((level, text)) = summary::access_without_password(&event_loop) {
        log::log!(level, "{text}");
    }
    let config = &event_loop.executor.server.config;
    for kind in presence::listener_kinds(config) {
        log::info!("Ready to accept connections {kind}");
    }
    presence::notify_of_readiness(config);
    let result = event_loop.run().map_err(system("Serving"));
    drop(pid_file);
    match event_loop.executor.loses_changes() {
        true => result.and(Err(StartError::Unsaved)),
        false => result.map(|()| Restart::of(&event_loop.executor)),
    }
}

/// Returns warnings about configured options that this version does not implement.
fn without_effect(config: &Config) -> Vec<String> {
    let default = Config::default();
    let is_asked =
        |row: &&Row| row.flags.has(Flags::NO_EFFECT) && config.value_of(row) != default.value_of(row);
    ROWS.iter().filter(is_asked).map(|row| format!("{} has no effect. {}", row.name, row.doc)).collect()
}

/// Modules provide commands and types: starting without one would serve other data than configured.
fn refuse_modules(startup: &Startup) -> Result<(), StartError> {
    match startup.modules.iter().chain(&startup.module_options).next() {
        Some(directive) => {
            let error = ConfigError::at(&directive.place, "This server has no modules");
            Err(StartError::Config(error))
        }
        None => Ok(()),
    }
}

fn open(mut startup: Startup) -> Result<EventLoop, StartError> {
    permit_files(&mut startup.config)?;
    let config = &startup.config;
    enter_directory(config)?;
    process::report_file_size_limits();
    crash_report::start(config.crash_log_enabled).map_err(system("Installing the crash handlers"))?;
    let signals = Signals::new().map_err(system("Setting up signals"))?;
    let without_huge_pages = config.disable_thp && process::disable_huge_pages().is_ok();
    machine::warnings(config, without_huge_pages).iter().for_each(|warning| log::warn!("{warning}"));
    let nodes = cluster::open_file(config)?;
    let executor = executor(startup, nodes.as_ref().map(|(_, text)| &text[..]))?;
    warning_about_password(&executor.server).inspect(|warning| log::warn!("{warning}"));
    let mut event_loop = EventLoop::new(executor, signals).map_err(system("Creating the event loop"))?;
    let listening = event_loop.listen();
    listening.map_err(|error| of_listening(&event_loop.executor.server.config, error))?;
    if let Some((file, _)) = nodes {
        event_loop.start_bus(file).map_err(|error| match error {
            BusStartError::Listen(error) => StartError::Listen(error),
            BusStartError::Thread(error) => system("Starting the thread of the cluster bus")(error),
        })?;
    }
    Ok(event_loop)
}

fn enter_directory(config: &Config) -> Result<(), StartError> {
    let failed = failed("Can't change to the working directory", &config.dir);
    std::env::set_current_dir(&config.dir).map_err(|error| StartError::File(failed(error)))
}

/// Where two options ask for one port, the system says no more than that it is in use.
fn of_listening(config: &Config, error: ListenError) -> StartError {
    StartError::Listen(match listeners::probe(config) {
        Err(shared @ ListenError::Shared { .. }) => shared,
        _ => error,
    })
}

/// Reduces the number of clients where the system permits too few files: the server's own files must be available even
/// with all clients connected.
fn permit_files(config: &mut Config) -> Result<(), StartError> {
    let Err(shortage) = allow_clients(config) else { return Ok(()) };
    let (needed, permitted, http) = (shortage.needed, shortage.permitted, shortage.own.http);
    let clients = shortage.clients_possible();
    if clients == 0 {
        return Err(StartError::Files(shortage));
    }
    log::warn!(
        "You requested maxclients of {} requiring at least {needed} max file descriptors.",
        config.maxclients
    );
    log::warn!(
        "Current maximum open files is {permitted}. maxclients has been reduced to {clients} to compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    );
    if http > 0 {
        log::warn!("http-port takes {http} of these open files.");
    }
    config.maxclients = clients;
    Ok(())
}

/// Creates the executor, without data but with users. `nodes`: the text of the file of a cluster's nodes, if there is a cluster.
fn executor(startup: Startup, nodes: Option<&[u8]>) -> Result<Executor, StartError> {
    let (config, clock) = (startup.config, Clock::machine());
    let identity = identity(&config, &clock).map_err(system("Reading random bytes"))?;
    let seeds = seeds(&config).map_err(system("Reading random bytes"))?;
    let view = nodes.map(|text| cluster::view(&config, &clock, text)).transpose()?;
    let mut executor = Executor::new(config, clock, identity, seeds);
    if let Some(view) = view {
        join(&mut executor, view);
    }
    rename_commands(&mut executor, &startup.rename_commands).map_err(StartError::Config)?;
    executor.load_users_at_start(&startup.users).map_err(|error| match error {
        UsersError::Config(error) => StartError::Config(error),
        UsersError::Text(text) => StartError::Users(text),
    })?;
    Ok(executor)
}

fn rename_commands(executor: &mut Executor, directives: &[Directive]) -> Result<(), ConfigError> {
    for directive in directives {
        let [_, name, new_name] = &directive.words[..] else {
            return Err(ConfigError::at(&directive.place, "wrong number of arguments"));
        };
        let renamed = executor.server.registry.rename(name, new_name);
        renamed.map_err(|error| ConfigError::at(&directive.place, error.text()))?;
    }
    Ok(())
}

fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn identity(config: &Config, clock: &Clock) -> io::Result<Identity> {
    Ok(Identity {
        run_id: hexadecimal(&random_bytes::<20>()?),
        process_id: std::process::id(),
        executable: std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
        config_file: config.config_file.as_deref().map(|path| path.display().to_string()).unwrap_or_default(),
        started: clock.read(),
    })
}

/// The hash's key comes from `hash-seed` if that is set, to make the order of SCAN repeatable.
fn seeds(config: &Config) -> io::Result<Seeds> {
    let bytes: [u8; 16] = match &config.hash_seed {
        Some(seed) => {
            let fixed = HashSeed::new(0, 0);
            let spread = |salt: u8| fixed.hash(&[&seed[..], &[salt]].concat()).to_le_bytes();
            [spread(0), spread(1)].concat().try_into().expect("twice eight bytes are sixteen")
        }
        None => random_bytes()?,
    };
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of sixteen bytes is eight"));
    let (random, secret) = (u64::from_le_bytes(random_bytes()?), random_bytes()?);
    Ok(Seeds { hash: HashSeed::new(word(&bytes[..8]), word(&bytes[8..])), random, secret })
}
