//! A server in a process of its own, and the client as its users start it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that is merely busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What the server is given as arguments, one on a line, where this test binary is to be one.
const SERVE: &str = "WARMLINE_TEST_SERVE";

/// In their place: it is given them as any program is.
const BY_ARGUMENTS: &str = "by arguments";

static DIRECTORIES: AtomicUsize = AtomicUsize::new(0);

/// A running server; it is killed when this is dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    pub directory: PathBuf,
}

/// Serves until it is killed, if this process was started for that.
pub fn serve_if_asked() {
    let Ok(arguments) = std::env::var(SERVE) else { return };
    let arguments: Vec<OsString> = match arguments.as_str() {
        BY_ARGUMENTS => std::env::args_os().skip(1).collect(),
        lines => lines.lines().map(OsString::from).collect(),
    };
    server::start::serve(&arguments).unwrap();
    std::process::exit(0);
}

impl Server {
    pub fn start(options: &[&str]) -> Server {
        // A port of the system's, free a moment ago; if another process takes it meanwhile the server exits, and then
        // another one is tried.
        (0..5).find_map(|_| Self::try_start(options)).expect("no server starts")
    }

    fn try_start(options: &[&str]) -> Option<Server> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("warmline-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let port_text = port.to_string();
        let mut arguments = vec!["--port", &port_text, "--save", "", "--repl-diskless-sync-delay", "0"];
        arguments.extend(options);
        let child = Command::new(std::env::current_exe().unwrap())
            .env(SERVE, arguments.join("\n"))
            .current_dir(&directory)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Server { child, port, directory };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(started.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// The client for this server, not yet started.
    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut command = client();
        command.args(["-p", &self.port.to_string()]).args(arguments).env("HOME", &self.directory);
        command
    }

    /// Runs the client to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(&mut self.client(arguments), b"")
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        finish(&mut self.client(arguments), input)
    }

    /// What a command prints for scripts, without its line end.
    pub fn ask(&self, arguments: &[&str]) -> String {
        self.run(arguments).stdout.trim_end_matches('\n').to_owned()
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _shared = std::fs::remove_dir_all(&self.directory);
    }
}

/// The client, with nothing in its environment that tests do not put there.
pub fn client() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmline-cli"));
    for name in ["WARMLINECLI", "VALKEYCLI", "REDISCLI"] {
        for ending in ["AUTH", "HISTFILE", "RCFILE", "PAGER"] {
            command.env_remove(format!("{name}_{ending}"));
        }
    }
    command.env_remove("FAKETTY").env("TERM", "dumb");
    command
}

#[derive(Debug)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// Where the program starts this test binary, that is to be a server.
pub fn starting_servers(command: &mut Command) -> &mut Command {
    command.env(SERVE, BY_ARGUMENTS)
}

/// Waits until this is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: it does not come true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a program with this input to its end.
pub fn finish(command: &mut Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    let writer = std::thread::spawn(move || {
        // A program that ends before it has read everything is not at fault.
        let _ended = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// A client that goes on, whose output is read piece by piece; it is killed when this is dropped.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    pieces: Receiver<String>,
    text: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, pieces) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                loop {
                    let piece = String::from_utf8_lossy(stream.fill_buf().unwrap_or_default()).into_owned();
                    let len = stream.buffer().len();
                    stream.consume(len);
                    if len == 0 || sender.send(piece).is_err() {
                        break;
                    }
                }
            });
        }
        let stdin = child.stdin.take();
        Running { child, stdin, pieces, text: String::new() }
    }

    pub fn type_line(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    pub fn press(&mut self, keys: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits until the output has come to this text, and gives all up to its end.
    pub fn read_to(&mut self, wanted: &str) -> String {
        let begin = Instant::now();
        loop {
            if let Some(at) = self.text.find(wanted) {
                let rest = self.text.split_off(at + wanted.len());
                return std::mem::replace(&mut self.text, rest);
            }
            assert!(begin.elapsed() < PATIENCE, "no {wanted:?} in {:?}", self.text);
            if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(100)) {
                self.text += &piece;
            }
        }
    }

    pub fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// Closes its input and waits for its end.
    pub fn end(mut self) -> i32 {
        drop(self.stdin.take());
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begin.elapsed() < PATIENCE, "the client does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}
