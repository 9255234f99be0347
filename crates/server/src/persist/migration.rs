//! Migration of keys to another server. The transfer blocks everything else, as MIGRATE requires: clients never see a key
//! in both servers, or in none. Connections are kept for a while, since keys often follow one another.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{ClientConfig, ServerName, TlsStream};
use wire::aof::write_command;

/// Keys to send, and their destination.
#[derive(Clone, Debug)]
pub struct Parcel<'a> {
    /// Encryption of the connection.
    pub encryption: Encryption,
    /// Host of the target.
    pub host: &'a [u8],
    /// Port of the target.
    pub port: &'a [u8],
    /// Timeout of each step of the transfer.
    pub timeout: Duration,
    /// Database of the target.
    pub target_db: i64,
    /// First command, if any.
    pub authentication: Option<&'a [Vec<u8>]>,
    /// Number of keys.
    pub keys: usize,
    /// Encoded commands: one RESTORE for each key.
    pub commands: &'a [u8],
}

/// Encryption of the connection.
#[derive(Clone, Debug)]
pub enum Encryption {
    /// None.
    None,
    /// TLS.
    Tls(Arc<ClientConfig>),
    /// TLS is wanted, but no certificates are configured.
    Missing,
}

/// Why not all keys have arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection could not be established.
    Connecting,
    /// Writing failed or timed out.
    Writing,
    /// Reading failed or timed out.
    Reading,
    /// The other server's error.
    Refused(String),
}

/// Results for the keys, by their positions in [`Parcel::commands`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Keys that the target has accepted.
    pub accepted: Vec<usize>,
    /// Why the exchange ended early, if it did.
    pub failure: Option<Failure>,
}

/// A socket on which each step has a timeout, however many reads and writes it takes.
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    /// Remaining time of the step.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Stream {
    Plain(Timed),
    Tls(Box<TlsStream<Timed>>),
}

impl Stream {
    /// Begins a step of the transfer.
    fn begin_step(&mut self, timeout: Duration) {
        let until = Instant::now() + timeout;
        match self {
            Stream::Plain(timed) => timed.until = until,
            Stream::Tls(stream) => stream.socket.until = until,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

struct Connection {
    stream: BufReader<Stream>,
    /// The selected database, if known.
    db: Option<i64>,
    used: Instant,
}

/// Host, port, and whether the connection uses TLS.
type Name = (Vec<u8>, Vec<u8>, bool);

/// Cached connections to other servers.
#[derive(Default)]
pub struct Targets {
    connections: HashMap<Name, Connection>,
}

const CONNECTIONS_MAX: usize = 64;
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Maximum length of a reply, which is one line; a longer one is invalid.
const LINE_BYTES_MAX: u64 = 4096;
/// Bytes sent in a step.
const STEP_BYTES: usize = 64 * 1024;

/// A failed attempt.
struct Broken {
    failure: Failure,
    /// The other server has executed nothing, and did not time out.
    may_retry: bool,
}

fn broken(failure: Failure, error: &io::Error) -> Broken {
    let slow = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    Broken { failure, may_retry: !slow }
}

impl Targets {
    /// Number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Closes connections that have been idle for a while.
    pub fn close_idle(&mut self) {
        self.connections.retain(|_, connection| connection.used.elapsed() < IDLE_MAX);
    }

    /// Sends the keys. A cached connection that the other side has closed meanwhile is opened again.
    pub fn send(&mut self, parcel: &Parcel<'_>) -> Outcome {
        let is_plain = matches!(parcel.encryption, Encryption::None);
        let name = (parcel.host.to_vec(), parcel.port.to_vec(), !is_plain);
        let mut tries = 0..2;
        loop {
            let last = tries.next().is_none_or(|number| number == 1);
            let mut connection = match self.connections.remove(&name).map_or_else(|| connect(parcel), Ok) {
                Ok(connection) => connection,
                Err(failure) => return Outcome { accepted: Vec::new(), failure: Some(failure) },
            };
            let mut outcome = Outcome::default();
            match converse(&mut connection, parcel, &mut outcome) {
                Ok(()) => {
                    connection.used = Instant::now();
                    self.keep(name, connection);
                    return outcome;
                }
                Err(broken) if broken.may_retry && !last => {}
                Err(broken) => {
                    outcome.failure.get_or_insert(broken.failure);
                    return outcome;
                }
            }
        }
    }

    fn keep(&mut self, name: Name, connection: Connection) {
        if self.connections.len() >= CONNECTIONS_MAX {
            let oldest = self.connections.iter().min_by_key(|(_, connection)| connection.used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.connections.remove(&name);
            }
        }
        self.connections.insert(name, connection);
    }
}

fn connect(parcel: &Parcel<'_>) -> Result<Connection, Failure> {
    let timeout = parcel.timeout;
    // Port 0, on which no server listens, replaces an invalid port.
    let port = std::str::from_utf8(parcel.port).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let host = std::str::from_utf8(parcel.host).map_err(|_| Failure::Connecting)?;
    let mut failure = Failure::Connecting;
    let addresses = (host, port).to_socket_addrs().map_err(|_| Failure::Connecting)?;
    let stream = addresses.into_iter().find_map(|address| {
        let stream = TcpStream::connect_timeout(&address, timeout);
        if stream.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::TimedOut) {
            // Clients expect a refused connection as an error of the first write.
            failure = Failure::Writing;
        }
        stream.ok()
    });
    let stream = stream.ok_or(failure)?;
    stream.set_nodelay(true).map_err(|_| Failure::Writing)?;
    let stream = encrypted(stream, parcel, host).map_err(|_| Failure::Connecting)?;
    Ok(Connection { stream: BufReader::new(stream), db: None, used: Instant::now() })
}

fn encrypted(socket: TcpStream, parcel: &Parcel<'_>, host: &str) -> io::Result<Stream> {
    let address = socket.peer_addr()?.ip().into();
    let socket = Timed { socket, until: Instant::now() + parcel.timeout };
    let config = match &parcel.encryption {
        Encryption::None => return Ok(Stream::Plain(socket)),
        Encryption::Missing => return Err(io::Error::other("TLS is not configured")),
        Encryption::Tls(config) => Arc::clone(config),
    };
    let name = ServerName::try_from(host.to_owned()).unwrap_or(ServerName::IpAddress(address));
    Ok(Stream::Tls(Box::new(TlsStream::connect(socket, config, name)?)))
}

/// Sends all commands, then reads the replies.
fn converse(connection: &mut Connection, parcel: &Parcel<'_>, outcome: &mut Outcome) -> Result<(), Broken> {
    let selects = connection.db != Some(parcel.target_db);
    let mut head = Vec::new();
    let mut command = |arguments: &mut dyn ExactSizeIterator<Item = &[u8]>| {
        write_command(&mut head, arguments).expect("memory takes all that is written");
    };
    if let Some(words) = parcel.authentication {
        command(&mut words.iter().map(Vec::as_slice));
    }
    if selects {
        let db = parcel.target_db.to_string();
        command(&mut [&b"SELECT"[..], db.as_bytes()].into_iter());
    }
    let stream = connection.stream.get_mut();
    for piece in head.chunks(STEP_BYTES).chain(parcel.commands.chunks(STEP_BYTES)) {
        stream.begin_step(parcel.timeout);
        let written = stream.write_all(piece).and_then(|()| stream.flush());
        written.map_err(|error| broken(Failure::Writing, &error))?;
    }
    connection.db = None;
    let mut refusal = None;
    for _ in 0..usize::from(parcel.authentication.is_some()) + usize::from(selects) {
        let line = line(connection, parcel).map_err(|error| broken(Failure::Reading, &error))?;
        refusal = refusal.or(line.strip_prefix('-').map(str::to_owned));
    }
    for index in 0..parcel.keys {
        let line = match line(connection, parcel) {
            Ok(line) => line,
            Err(error) => {
                let Broken { failure, may_retry } = broken(Failure::Reading, &error);
                let may_retry = may_retry && index == 0;
                return Err(Broken { failure, may_retry });
            }
        };
        let refused = refusal.clone().or(line.strip_prefix('-').map(str::to_owned));
        match refused {
            Some(reason) => {
                outcome.failure.get_or_insert(Failure::Refused(reason));
            }
            None => outcome.accepted.push(index),
        }
    }
    if outcome.failure.is_none() {
        connection.db = Some(parcel.target_db);
    }
    Ok(())
}

fn line(connection: &mut Connection, parcel: &Parcel<'_>) -> io::Result<String> {
    connection.stream.get_mut().begin_step(parcel.timeout);
    let mut bytes = Vec::new();
    (&mut connection.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\r').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn commands(keys: usize) -> Vec<u8> {
        let mut commands = Vec::new();
        for _ in 0..keys {
            write_command(&mut commands, [&b"RESTORE"[..], b"key"].into_iter()).unwrap();
        }
        commands
    }

    fn send(host: &str, port: &str, keys: usize) -> Outcome {
        Targets::default().send(&Parcel {
            encryption: Encryption::None,
            host: host.as_bytes(),
            port: port.as_bytes(),
            timeout: Duration::from_secs(1),
            target_db: 0,
            authentication: None,
            keys,
            commands: &commands(keys),
        })
    }

    /// A server that sends these bytes to each connection in turn, whatever it receives, and closes it.
    fn answering(answers: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut heard = [0; 16];
                stream.read_exact(&mut heard).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                // Closing at once could reset the connection before the reply is read.
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        port
    }

    #[test]
    fn only_what_was_accepted_counts() {
        let port = answering(&["+OK\r\n+OK\r\n-BUSYKEY there\r\n+OK\r\n"]);
        let outcome = send("127.0.0.1", &port.to_string(), 3);
        assert_eq!(outcome.accepted, [0, 2]);
        assert_eq!(outcome.failure, Some(Failure::Refused("BUSYKEY there".to_owned())));
    }

    #[test]
    fn a_connection_that_breaks_before_the_first_key_is_made_again() {
        let port = answering(&["+OK\r\n", "+OK\r\n+OK\r\n"]);
        assert_eq!(send("127.0.0.1", &port.to_string(), 1), Outcome { accepted: vec![0], failure: None });
        let port = answering(&["+OK\r\n+OK\r\n", "+OK\r\n+OK\r\n+OK\r\n"]);
        let broken = Outcome { accepted: vec![0], failure: Some(Failure::Reading) };
        assert_eq!(send("127.0.0.1", &port.to_string(), 2), broken);
    }

    /// A target that sends single bytes slowly gets no more time than a silent one.
    #[test]
    fn a_slow_target_holds_nobody_beyond_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    // The beginning of a record of a handshake, or of a line.
                    for byte in [22, 3, 3, 0x40, 0, 2, 0, 0x3f].into_iter().chain([b'+'; 1000]) {
                        std::thread::sleep(Duration::from_millis(20));
                        if stream.write_all(&[byte]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let insecure = tls::configs::ClientOptions { insecure: true, ..Default::default() };
        let tls = Encryption::Tls(insecure.config().unwrap());
        for (encryption, failure) in [(Encryption::None, Failure::Reading), (tls, Failure::Connecting)] {
            let started = Instant::now();
            let outcome = Targets::default().send(&Parcel {
                encryption,
                host: b"127.0.0.1",
                port: port.to_string().as_bytes(),
                timeout: Duration::from_millis(300),
                target_db: 0,
                authentication: None,
                keys: 1,
                commands: &commands(1),
            });
            assert_eq!(outcome.failure, Some(failure));
            assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        }
    }

    #[test]
    fn what_cannot_be_reached_is_an_error() {
        for port in ["1", "no port", "70000"] {
            assert_eq!(send("127.0.0.1", port, 1).failure, Some(Failure::Writing));
        }
        assert_eq!(send("no host ", "1", 1).failure, Some(Failure::Connecting));
    }
}
