//! The temporary Warmline server that measures keys. It listens on a Unix socket in a directory with access for its user
//! only, stores no data on disk, and ends with this program, or when a signal other than SIGKILL ends this program.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use client::{Address, ConnectSettings, append_request, info_field, system_text};
use wire::response::Value;

use crate::Failure;
use crate::connection::Connection;

const PROGRAM: &str = "warmline-server";
const OPTIONS: &str = "--port 0 --unixsocketperm 700 --appendonly no --maxmemory 0 --enable-debug-command local \
                       --rdb-version-check relaxed";
/// Timeout of the server's start, long enough for a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(10);
const DIRECTORY_TRIES: u32 = 100;
/// From this number of keys on, the bytes of the key table per key are constant.
const KEYS_OF_A_LARGE_TABLE: u64 = 100_000;

/// A command and its arguments.
pub type Request = Vec<Vec<u8>>;

pub fn request(words: &[&[u8]]) -> Request {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The server's process and its directory; the drop ends and removes them.
struct Process {
    child: Child,
    directory: PathBuf,
    /// Signals of the thread that ends the server when a signal ends this program.
    signals: Handle,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signals.close();
        let _gone_already = self.child.kill().and_then(|()| self.child.wait());
        let _remains = fs::remove_dir_all(&self.directory);
    }
}

pub struct OwnServer {
    connection: Connection,
    _process: Process,
    pub version: String,
}

/// Creates a directory with access for its owner only.
fn private_directory() -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let name = format!("warmline-sizing-{}-{tries}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < DIRECTORY_TRIES => {
                tries += 1
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the server program in this program's directory, or the name to find in `PATH`.
fn default_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM))
}

impl Process {
    fn start(program: &Path) -> Result<Process, Failure> {
        let directory = private_directory().map_err(|error| Failure::Io("making a directory", error))?;
        let spawn = || {
            let mut signals = Signals::new([SIGTERM, SIGHUP])?;
            let log = File::create(directory.join("log"))?;
            let child = Command::new(program)
                .args(OPTIONS.split_whitespace())
                .args(["--save", "", "--unixsocket"])
                .arg(directory.join("socket"))
                .current_dir(&directory)
                .stdin(Stdio::null())
                .stderr(log.try_clone()?)
                .stdout(log)
                // Ctrl-C at the terminal must not reach the server.
                .process_group(0)
                .spawn()?;
            let (handle, server) = (signals.handle(), Pid::from_child(&child));
            let directory = directory.clone();
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    let _gone_already = kill_process(server, Signal::KILL);
                    let _remains = fs::remove_dir_all(&directory);
                    let _ends = emulate_default_handler(signal);
                }
            });
            Ok((child, handle))
        };
        match spawn() {
            Ok((child, signals)) => Ok(Process { child, directory, signals }),
            Err(error) => {
                let _remains = fs::remove_dir_all(&directory);
                let text = system_text(&error);
                Err(Failure::Usage(format!("Cannot start {} (--sizing-server): {text}", program.display())))
            }
        }
    }

    fn connect(&mut self) -> Result<Connection, Failure> {
        let address = Address::Unix(self.directory.join("socket"));
        let begin = Instant::now();
        loop {
            let error = match Connection::connect(&address, &ConnectSettings::default()) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let has_ended = !matches!(self.child.try_wait(), Ok(None));
            if has_ended || begin.elapsed() > START_PATIENCE {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                let last = log.lines().last().map_or_else(|| error.to_string(), str::to_owned);
                return Err(Failure::Usage(format!("The server that was started for --sizing: {last}")));
            }
            std::thread::sleep(START_POLL);
        }
    }
}

impl OwnServer {
    /// Starts the server. `program`: its path; `None`: the default.
    pub fn start(program: Option<&Path>) -> Result<OwnServer, Failure> {
        let mut process = Process::start(&program.map_or_else(default_program, Path::to_path_buf))?;
        let connection = process.connect()?;
        let mut server = OwnServer { connection, _process: process, version: String::new() };
        server.version = server.read_version()?;
        Ok(server)
    }

    /// Sends all commands before it reads their replies.
    pub fn pipeline(&mut self, requests: &[Request]) -> Result<Vec<Value>, Failure> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| append_request(&mut bytes, request));
        self.connection.send_bytes(&bytes)?;
        requests.iter().map(|_| self.connection.receive().map_err(Failure::from)).collect()
    }

    fn read_version(&mut self) -> Result<String, Failure> {
        let replies = self.pipeline(&[request(&[b"INFO", b"server"])])?;
        let info = String::from_utf8_lossy(replies[0].as_bytes().unwrap_or_default()).into_owned();
        info_field(&info, "warmline_version").map(str::to_owned).ok_or_else(|| {
            Failure::Usage(
                "--sizing-server: this is no Warmline server (INFO has no warmline_version)".to_owned(),
            )
        })
    }

    /// Returns the memory of a key table with this number of keys.
    pub fn measure_table(&mut self, keys: u64) -> Result<f64, Failure> {
        let count = keys.clamp(1, KEYS_OF_A_LARGE_TABLE);
        let replies = self.pipeline(&[
            request(&[b"DEBUG", b"POPULATE", count.to_string().as_bytes()]),
            request(&[b"MEMORY", b"STATS"]),
            request(&[b"FLUSHALL", b"SYNC"]),
        ])?;
        let bytes = table_bytes(&replies[1], 0).ok_or_else(|| {
            Failure::Usage("--sizing-server: MEMORY STATS does not report the size of a table".to_owned())
        })?;
        Ok(bytes as f64 * keys as f64 / count as f64)
    }

    /// Returns the memory of a key, `None` if it does not exist, and removes all data.
    pub fn measure(&mut self, key: &[u8]) -> Result<Option<u64>, Failure> {
        let replies = self.pipeline(&[request(&[b"MEMORY", b"USAGE", key]), request(&[b"DEL", key])])?;
        Ok(match replies[0] {
            Value::Integer(bytes) => Some(bytes as u64),
            _ => None,
        })
    }
}

/// Returns the memory of a database's tables of keys by MEMORY STATS.
pub fn table_bytes(memory_stats: &Value, database: u64) -> Option<u64> {
    let name = format!("db.{database}");
    let tables =
        memory_stats.entries().into_iter().find(|(field, _)| field.as_bytes() == Some(name.as_bytes()))?.1;
    let bytes = tables.entries().into_iter().map(|(field, value)| match (field.as_bytes(), value) {
        (Some(b"overhead.hashtable.main" | b"overhead.hashtable.expires"), Value::Integer(bytes)) => {
            *bytes as u64
        }
        _ => 0,
    });
    Some(bytes.fold(0, u64::saturating_add))
}
