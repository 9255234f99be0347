//! A server in a process of its own, and clients that speak to it over real sockets.

// Each file of tests uses its part of this.
#![allow(dead_code)]

pub mod certificates;
pub mod peer;

use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::response::{Reader, Value};

/// Longer than anything takes on a machine that is merely busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it is killed when this is dropped.
pub struct Process {
    child: Child,
    pub port: u16,
    pub directory: PathBuf,
}

/// Ports below the range of ephemeral ports, which outgoing connections use.
const PORTS: std::ops::Range<usize> = 10_000..32_000;
static PORTS_TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A port without a listener. No other test of this process gets it or the next one: programs that compare two servers take
/// both.
pub fn free_port() -> u16 {
    let first = std::process::id() as usize * 97;
    loop {
        let next = first + PORTS_TAKEN.fetch_add(2, Ordering::Relaxed);
        let port = (PORTS.start + next % PORTS.len()) as u16;
        if probe(port).is_ok() {
            return port;
        }
    }
}

/// A bound socket at a port without a listener. It does not listen either: a process that another test is about to start
/// has a copy of it until it runs its own program, and a connection must reach that server or be refused.
pub fn probe(port: u16) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // Two sockets may share a port as long as neither listens.
    socket.set_reuse_address(true)?;
    // Servers listen on all addresses.
    socket.bind(&SocketAddr::from(([0, 0, 0, 0], port)).into())?;
    Ok(socket)
}

thread_local! {
    /// What servers that this test starts are given as `io-threads`; 0: what the environment says, or nothing.
    pub static IO_THREADS: Cell<u32> = const { Cell::new(0) };
}

/// Makes tests of these functions, each with one, two and four threads that serve sockets.
#[macro_export]
macro_rules! tests_with_io_threads {
    ($($name:ident),* $(,)?) => {
        $crate::tests_with_io_threads!(@ one_io_thread 1 $($name)*);
        $crate::tests_with_io_threads!(@ two_io_threads 2 $($name)*);
        $crate::tests_with_io_threads!(@ four_io_threads 4 $($name)*);
    };
    (@ $module:ident $threads:literal $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                $crate::process::IO_THREADS.set($threads);
                super::$name();
            })*
        }
    };
}

/// The options that say how many threads serve sockets, if the test or the environment says it, and that they do so
/// although the main one has time for all that a test sends.
fn io_threads_option() -> Vec<String> {
    let threads = match IO_THREADS.get() {
        0 => std::env::var("WARMLINE_TEST_IO_THREADS").ok(),
        threads => Some(threads.to_string()),
    };
    let mut options = vec!["--io-threads-always-active".to_owned(), "yes".to_owned()];
    options.extend(threads.into_iter().flat_map(|threads| ["--io-threads".to_owned(), threads]));
    options
}

/// The server that is tested: `WARMLINE_TEST_SERVER` names another one than this build's.
pub fn program() -> String {
    let own = || option_env!("CARGO_BIN_EXE_warmline-server").map_or_else(server_beside_tests, str::to_owned);
    std::env::var("WARMLINE_TEST_SERVER").unwrap_or_else(|_| own())
}

/// Copies the server for another user. A process copies it: a file that this one has open for writing is open in each
/// process that another test starts meanwhile, and cannot be run.
pub fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(program()).arg(to).status().unwrap().success());
}

/// The server of the same build, for tests of programs that speak to it. It is there if all of the workspace is tested, and
/// built if it is not.
fn server_beside_tests() -> String {
    let test = std::env::current_exe().unwrap();
    let server = test.parent().and_then(Path::parent).unwrap().join("warmline-server");
    if !server.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "warmline-server", "--bin", "warmline-server"]);
        assert!(build.status().unwrap().success());
    }
    server.display().to_string()
}

static DIRECTORIES: AtomicUsize = AtomicUsize::new(0);

impl Process {
    /// Starts a server on a free port with further options, and waits until it answers.
    pub fn start(options: &[&str]) -> Process {
        Process::start_with_file("", options)
    }

    /// As [`Process::start`], with a file of configuration, if the path is not empty.
    pub fn start_with_file(config: &str, options: &[&str]) -> Process {
        let port = free_port();
        let name = format!("warmline-{}-{}", std::process::id(), DIRECTORIES.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let child = Command::new(program())
            .args((!config.is_empty()).then_some(config))
            .args(["--port", &port.to_string(), "--save", ""])
            .args(io_threads_option())
            .args(options)
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Process { child, port, directory };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(process.child.try_wait().unwrap().is_none(), "the server ended instead of starting");
            assert!(started.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        process
    }

    /// Takes a server that listens on the port already; its directory is somebody else's.
    pub fn adopt(child: Child, port: u16) -> Process {
        Process { child, port, directory: PathBuf::from("/nonexistent") }
    }

    pub fn connect(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client::new(stream)
    }

    /// A field of INFO, if there is one.
    pub fn info(&self, field: &str) -> Option<String> {
        field_of(&self.connect().ask("INFO everything"), field)
    }

    #[track_caller]
    pub fn eventually_shows(&self, field: &str, value: &str) {
        eventually(&format!("{field} {value}"), || self.info(field).as_deref() == Some(value));
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Limits the size of files that it writes, in bytes; `None`: no limit.
    pub fn limit_file_bytes(&self, bytes: Option<u64>) {
        let limit = rustix::process::Rlimit { current: bytes, maximum: None };
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).unwrap();
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the server does not end\n{}", threads_of(self.pid()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What each thread of a process is doing, and its open files, as far as the kernel says.
fn threads_of(pid: u32) -> String {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
    let entries =
        |name: &str| std::fs::read_dir(format!("/proc/{pid}/{name}")).into_iter().flatten().flatten();
    let threads = entries("task").map(|entry| {
        let file = |name| read(entry.path().join(name));
        let status = file("status");
        let state = status.lines().find(|line| line.starts_with("State")).unwrap_or_default();
        format!("{} {state} {}\n{}", file("comm").trim(), file("syscall"), file("stack"))
    });
    let links = entries("fd").filter_map(|entry| std::fs::read_link(entry.path()).ok());
    threads.chain(links.map(|path| format!("{path:?}"))).collect::<Vec<_>>().join("\n")
}

/// Words as an array of bulks.
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend(b"\r\n");
    }
    request
}

pub struct Client<S> {
    pub stream: S,
    reader: Reader,
    received: Vec<u8>,
    position: usize,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Self {
        Client { stream, reader: Reader::new(), received: Vec::new(), position: 0 }
    }

    pub fn send(&mut self, words: &[&[u8]]) {
        self.stream.write_all(&encode(words)).unwrap();
    }

    /// As [`Client::send`], then [`Client::receive`]; `None` as well when the server is gone already.
    pub fn try_ask(&mut self, words: &[&[u8]]) -> Option<Value> {
        self.stream.write_all(&encode(words)).ok()?;
        self.receive()
    }

    /// The next reply; `None` when the server has closed the connection.
    pub fn receive(&mut self) -> Option<Value> {
        loop {
            if let Some(value) = self.reader.read(&self.received, &mut self.position).unwrap() {
                return Some(value);
            }
            // A client that lives for an hour keeps no hour of replies.
            self.received.drain(..std::mem::take(&mut self.position));
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(n) => self.received.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Sends one command, given as words between blanks, and returns its reply as text.
    pub fn ask(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.send(&words);
        shown(&self.receive().expect("the server answers"))
    }

    /// Whether the server closes the connection; what it sends before that is ignored.
    pub fn is_closed_by_server(&mut self) -> bool {
        while self.receive().is_some() {}
        true
    }
}

/// A reply in short: texts as they are, lists in brackets.
pub fn shown(value: &Value) -> String {
    match (value.as_bytes(), value.as_list()) {
        (Some(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
        (_, Some(list)) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" ")),
        (None, None) => match value {
            Value::Integer(n) => n.to_string(),
            other => format!("{other:?}"),
        },
    }
}

/// A field of INFO, of whichever section.
#[track_caller]
pub fn info(client: &mut Client<TcpStream>, field: &str) -> String {
    field_of(&client.ask("INFO everything"), field).unwrap_or_else(|| panic!("no {field} in INFO"))
}

fn field_of(info: &str, field: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::to_owned)
}

/// By how much `WARMLINE_TEST_SCALE` multiplies the length of tests.
pub fn scale() -> usize {
    std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Tries until something is so.
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < PATIENCE, "{what} does not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}
