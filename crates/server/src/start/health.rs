//! `--check-health [PID]`: checks whether a running server answers on each socket that it listens on. These are read from
//! /proc, so that the check follows every option, also those that CONFIG SET has changed, without credentials.
//!
//! A socket answers if it replies to PING with anything that RESP allows (an error too: a server that asks for a password
//! or loads its data is in good health), as HTTP does, or with TLS's part of a handshake. That TLS may then ask for a
//! certificate is no fault.

use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::configs::ClientOptions;
use tls::{ServerName, TlsStream};

/// How long one socket may take for each step of its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The state of a socket that listens, in /proc/net/tcp.
const TCP_LISTEN: &str = "0A";
/// The flag of a socket that listens (`__SO_ACCEPTCON`), in /proc/net/unix.
const UNIX_LISTENS: &str = "00010000";

/// Why a server is not in good health.
#[derive(Debug)]
pub enum HealthError {
    /// No other process of this program listens, as far as this user sees.
    NoServer,
    /// The process does not exist, or this user may not read its files.
    Unreadable { process_id: u32, source: io::Error },
    /// The process listens on nothing.
    NoListener { process_id: u32 },
    /// A socket does not answer.
    NoAnswer { listener: Listener, source: io::Error },
}

impl fmt::Display for HealthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HealthError::NoServer => f.write_str("No server is running"),
            HealthError::Unreadable { process_id, source } => {
                write!(f, "Reading the sockets of process {process_id}: {source}")
            }
            HealthError::NoListener { process_id } => write!(f, "Process {process_id} listens on no socket"),
            HealthError::NoAnswer { listener, source } => write!(f, "No answer on {listener}: {source}"),
        }
    }
}

impl std::error::Error for HealthError {}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listener {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Tcp(address) => address.fmt(f),
            Listener::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Checks the process, or all other processes of this program that this user sees. Returns the sockets that answered.
///
/// # Errors
/// The first fault.
pub fn check_health(process_id: Option<u32>) -> Result<Vec<Listener>, HealthError> {
    let is_given = process_id.is_some();
    let servers = process_id.map_or_else(others, |process_id| vec![process_id]);
    let mut answered = Vec::new();
    for process_id in servers {
        let listeners = match listeners_of(process_id) {
            Ok(listeners) => listeners,
            // It has ended.
            Err(_) if !is_given => continue,
            Err(source) => return Err(HealthError::Unreadable { process_id, source }),
        };
        // Tools run this program too, and listen on nothing.
        if listeners.is_empty() && is_given {
            return Err(HealthError::NoListener { process_id });
        }
        for listener in listeners {
            if !answered.contains(&listener) {
                ask(&listener)
                    .map_err(|source| HealthError::NoAnswer { listener: listener.clone(), source })?;
                answered.push(listener);
            }
        }
    }
    if answered.is_empty() { Err(HealthError::NoServer) } else { Ok(answered) }
}

/// Processes whose program is this one's, except this one and children of others, which save data.
fn others() -> Vec<u32> {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let Some(own) = identity(Path::new("/proc/self/exe")) else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: HashSet<u32> = numbers
        .filter(|&number| number != std::process::id())
        .filter(|number| identity(&PathBuf::from(format!("/proc/{number}/exe"))) == Some(own))
        .collect();
    let is_child = |number: &u32| parent(*number).is_some_and(|parent| found.contains(&parent));
    let mut servers: Vec<u32> = found.iter().copied().filter(|number| !is_child(number)).collect();
    servers.sort_unstable();
    servers
}

fn parent(process_id: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process_id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// The sockets that a process listens on.
fn listeners_of(process_id: u32) -> io::Result<Vec<Listener>> {
    let root = PathBuf::from(format!("/proc/{process_id}"));
    let mut sockets = HashSet::new();
    for entry in fs::read_dir(root.join("fd"))? {
        let target = fs::read_link(entry?.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
        sockets.extend(inode.map(str::to_owned));
    }
    let table = |name: &str| fs::read_to_string(root.join("net").join(name));
    let mut listeners = HashMap::new();
    for name in ["tcp", "tcp6"] {
        // Absent on a machine without this version of IP.
        let text = table(name).unwrap_or_default();
        listeners.extend(text.lines().filter_map(listener_of_tcp));
    }
    let directory = root.join("cwd");
    listeners.extend(table("unix")?.lines().filter_map(|line| listener_of_unix(line, &directory)));
    let mut own: Vec<(String, Listener)> =
        listeners.into_iter().filter(|(inode, _)| sockets.contains(inode)).collect();
    own.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(own.into_iter().map(|(_, listener)| listener).collect())
}

/// The inode and the address of a line of /proc/net/tcp, if its socket listens.
fn listener_of_tcp(line: &str) -> Option<(String, Listener)> {
    let mut fields = line.split_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    let inode = fields.nth(5)?;
    (state == TCP_LISTEN).then_some(())?;
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let address = match hexadecimal_address(address)? {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        // Connecting needs the interface, which is not in the file.
        IpAddr::V6(local) if local.is_unicast_link_local() => return None,
        other => other,
    };
    Some((inode.to_owned(), Listener::Tcp(SocketAddr::new(address, port))))
}

/// An address in words of 32 bits, each in the order of this machine.
fn hexadecimal_address(digits: &str) -> Option<IpAddr> {
    let word =
        |at: usize| u32::from_str_radix(digits.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match digits.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            <[u8; 16]>::try_from(words.concat()).ok().map(IpAddr::from)
        }
        _ => None,
    }
}

/// The inode and the path of a line of /proc/net/unix, if its socket listens; `directory` is what paths begin in.
fn listener_of_unix(line: &str, directory: &Path) -> Option<(String, Listener)> {
    let mut fields = line.split_whitespace();
    let (flags, inode) = (fields.nth(3)?, fields.nth(2)?);
    (flags == UNIX_LISTENS).then_some(())?;
    // The path may have spaces.
    let path = line.split_once(&format!(" {inode} "))?.1;
    Some((inode.to_owned(), Listener::Unix(directory.join(path))))
}

fn ask(listener: &Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(address) => match answers_in_plain_text(connect(address)?)? {
            true => Ok(()),
            false => shake_hands(connect(address)?, address.ip()),
        },
        Listener::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            // Connecting waits as long too: the queue of a server that hangs may be full.
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.connect(&SockAddr::unix(path)?).map_err(in_words)?;
            let stream = UnixStream::from(OwnedFd::from(socket));
            match answers_in_plain_text(stream)? {
                true => Ok(()),
                false => Err(io::Error::new(ErrorKind::InvalidData, "the answer is no RESP")),
            }
        }
    }
}

fn connect(address: &SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Whether PING is replied to in RESP, or as HTTP replies to what it does not know; TLS closes the connection.
fn answers_in_plain_text(mut stream: impl Read + Write) -> io::Result<bool> {
    stream.write_all(b"PING\r\n")?;
    let mut first = [0; 1];
    match stream.read(&mut first) {
        Ok(count) => Ok(count == 1 && matches!(first[0], b'+' | b'-' | b'H')),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(false),
        Err(error) => Err(in_words(error)),
    }
}

/// An alert is an answer too: the server may ask for a certificate.
fn shake_hands(stream: TcpStream, address: IpAddr) -> io::Result<()> {
    let options = ClientOptions { insecure: true, ..ClientOptions::default() };
    let config = options.config().map_err(|error| io::Error::other(error.to_string()))?;
    match TlsStream::connect(stream, config, ServerName::IpAddress(address.into())) {
        Ok(_) => Ok(()),
        Err(error) if error.to_string().starts_with("received fatal alert") => Ok(()),
        Err(error) => Err(in_words(error)),
    }
}

/// A time that has passed is reported by the system as something to try again.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            io::Error::new(ErrorKind::TimedOut, format!("nothing within {} s", PATIENCE.as_secs()))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_listening_tcp_sockets_are_read() {
        let line = "   0: 00000000:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0";
        let expected = Listener::Tcp("127.0.0.1:6379".parse().unwrap());
        assert_eq!(listener_of_tcp(line), Some(("4711".to_owned(), expected)));
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let digits = [word([0x20, 1, 0xd, 0xb8]), word([0; 4]), word([0; 4]), word([0, 0, 0, 7])].concat();
        let line = format!(" 1: {digits}:0050 {digits}:0000 0A 0:0 0:0 0 0 0 12 1 0");
        let expected = Listener::Tcp("[2001:db8::7]:80".parse().unwrap());
        assert_eq!(listener_of_tcp(&line), Some(("12".to_owned(), expected)));
        let connected = line.replace(" 0A ", " 01 ");
        assert_eq!(listener_of_tcp(&connected), None);
        assert_eq!(listener_of_tcp("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }

    #[test]
    fn lines_of_listening_unix_sockets_are_read() {
        let of = |line: &str| listener_of_unix(line, Path::new("/data"));
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 4712 a socket";
        assert_eq!(of(line), Some(("4712".to_owned(), Listener::Unix("/data/a socket".into()))));
        let line = line.replace("a socket", "/run/socket");
        assert_eq!(of(&line), Some(("4712".to_owned(), Listener::Unix("/run/socket".into()))));
        assert_eq!(of(&line.replace("00010000", "00000000")), None);
        assert_eq!(of("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }
}
