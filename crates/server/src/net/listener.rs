//! A listening socket: TCP or Unix.

use super::listeners::Protocol;
use crate::sys::file::system_text;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Access;
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Why listening failed.
#[derive(Debug)]
pub enum ListenError {
    /// A name could not be resolved.
    Resolve {
        /// The name.
        address: String,
        /// The error.
        source: io::Error,
    },
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// The error.
        source: io::Error,
    },
    /// Two options name the same address, or one option names it twice.
    Shared {
        /// The address.
        address: SocketAddr,
        /// The options that have it.
        options: [&'static str; 2],
    },
    /// Invalid TLS configuration.
    Tls(tls::TlsError),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::Resolve { address, source } => {
                write!(f, "Could not resolve the address to listen on, {address}: {source}")
            }
            ListenError::Listen { address, source } => {
                write!(f, "Could not listen on {address}: {}", system_text(source))?;
                match source.kind() {
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str(" (no network interface of this machine has it)")
                    }
                    _ => Ok(()),
                }
            }
            ListenError::Shared { address, options: [first, second] } if first == second => {
                write!(f, "Could not listen on {address}: {first} has this address twice")
            }
            ListenError::Shared { address, options: [first, second] } => {
                write!(f, "Could not listen on {address}: {first} and {second} have the same port")
            }
            ListenError::Tls(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ListenError {}

/// One listening socket.
pub struct Listener {
    socket: Socket,
    /// The path of a Unix socket, removed with the listener.
    path: Option<PathBuf>,
    /// `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// The protocol of accepted connections.
    pub protocol: Protocol,
    /// Identifies it in the poller; 0 while it is not watched.
    pub id: u32,
}

/// A client just accepted.
pub struct Accepted {
    /// The socket.
    pub socket: OwnedFd,
    /// Address of the peer.
    pub address: String,
    /// Address on this machine.
    pub local_address: String,
    /// `None` for a Unix socket.
    pub peer: Option<IpAddr>,
}

/// Access to a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct SocketOwners<'a> {
    /// `None`: decided by the process's umask.
    pub permissions: Option<u32>,
    /// The name or number of the group that owns the socket.
    pub group: Option<&'a [u8]>,
}

/// Options of accepted TCP sockets.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// Idle time before keepalive probes; 0 sends none.
    pub keepalive_s: u64,
    /// Whether Nagle's algorithm is disabled.
    pub nodelay: bool,
}

impl Listener {
    /// Returns the addresses of `host:port`; a host of `*` is every IPv4 address, `::*` every IPv6 one.
    pub fn resolve(host: &str, port: u16) -> Result<impl Iterator<Item = SocketAddr>, ListenError> {
        let host = match host {
            "*" => "0.0.0.0",
            "::*" => "::",
            other => other,
        };
        let resolved = (host, port).to_socket_addrs();
        resolved.map_err(|source| ListenError::Resolve { address: format!("{host}:{port}"), source })
    }

    /// Checks whether a socket can have the address, without listening. A port that another socket listens on is no
    /// error.
    pub fn probe(address: SocketAddr) -> io::Result<()> {
        match bind_tcp(address, false) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes an address. Clients are refused until [`Listener::listen`].
    pub fn bind(address: SocketAddr, protocol: Protocol) -> io::Result<Self> {
        Ok(of_tcp(bind_tcp(address, false)?, address, protocol))
    }

    /// Listens, unless it does already.
    pub fn listen(&self, backlog: u32) -> io::Result<()> {
        listen(&self.socket, backlog)
    }

    /// Returns an error that names the address.
    pub fn failure(&self, source: io::Error) -> ListenError {
        let address = self.address.map_or_else(String::new, |address| address.to_string());
        ListenError::Listen { address, source }
    }

    /// Listens on an address that overlaps with those of `left`, which keep listening until they are closed.
    pub fn tcp_in_place_of(
        left: &[&Listener],
        address: SocketAddr,
        protocol: Protocol,
        backlog: u32,
    ) -> io::Result<Self> {
        // The kernel lets sockets of one user share a port if all of them agree. They do so only for this moment: two
        // servers started with the same port must not share it.
        let shared: io::Result<()> =
            left.iter().try_for_each(|listener| listener.socket.set_reuse_port(true));
        let opened = shared.and_then(|()| listen_sharing(address, protocol, backlog));
        for listener in left {
            listener.socket.set_reuse_port(false)?;
        }
        opened
    }

    /// Returns whether this socket would also accept connections to `address`.
    pub fn overlaps(&self, address: SocketAddr) -> bool {
        self.address.is_some_and(|own| overlap(own, address))
    }

    /// Duplicates the file; the socket listens until all of its files are closed.
    pub fn try_clone(&self) -> io::Result<Self> {
        assert!(self.path.is_none(), "a path has one owner");
        let (address, protocol) = (self.address, self.protocol);
        Ok(Listener { socket: self.socket.try_clone()?, path: None, address, protocol, id: 0 })
    }

    /// Listens on a path; a stale socket of an earlier process is replaced.
    pub fn unix(path: &Path, owners: SocketOwners<'_>, backlog: u32) -> Result<Self, ListenError> {
        listen_unix(path, owners, backlog).map_err(of_path(path))
    }

    /// Checks what [`Listener::unix`] needs, without touching the path.
    pub fn probe_unix(path: &Path, owners: SocketOwners<'_>) -> Result<(), ListenError> {
        probe_unix(path, owners).map_err(of_path(path))
    }

    /// Returns the path of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the socket's file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Duplicates the socket, for accepting in another thread.
    pub fn to_tcp_listener(&self) -> io::Result<TcpListener> {
        Ok(self.socket.try_clone()?.into())
    }

    /// Accepts the next waiting client, if any.
    pub fn accept(&self, options: SocketOptions) -> io::Result<Option<Accepted>> {
        let (socket, peer) = match self.socket.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        socket.set_nonblocking(true)?;
        if let Some(path) = &self.path {
            let address = format!("{}:0", path.display());
            return Ok(Some(Accepted {
                socket: socket.into(),
                address: address.clone(),
                local_address: address,
                peer: None,
            }));
        }
        if options.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        if options.keepalive_s > 0 {
            keep_alive(&socket, options.keepalive_s)?;
        }
        let peer = peer.as_socket();
        let local = socket.local_addr()?.as_socket();
        let shown = |address: Option<SocketAddr>| address.map_or_else(String::new, |a| a.to_string());
        Ok(Some(Accepted {
            socket: socket.into(),
            address: shown(peer),
            local_address: shown(local),
            peer: peer.map(|address| address.ip()),
        }))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The file may have been removed.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns whether sockets with these addresses cannot both listen.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip) = (one.ip(), other.ip());
    let is_any = ip.is_unspecified() || other_ip.is_unspecified();
    one.port() == other.port() && ip.is_ipv4() == other_ip.is_ipv4() && (is_any || ip == other_ip)
}

/// Makes a socket with the address, which does not listen yet.
fn bind_tcp(address: SocketAddr, shares: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    if shares {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Listens on an address beside sockets that permit it.
fn listen_sharing(address: SocketAddr, protocol: Protocol, backlog: u32) -> io::Result<Listener> {
    let socket = bind_tcp(address, true)?;
    listen(&socket, backlog)?;
    socket.set_reuse_port(false)?;
    Ok(of_tcp(socket, address, protocol))
}

fn of_tcp(socket: Socket, address: SocketAddr, protocol: Protocol) -> Listener {
    Listener { socket, path: None, address: Some(address), protocol, id: 0 }
}

fn listen(socket: &Socket, backlog: u32) -> io::Result<()> {
    // The kernel's limit is far lower.
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)
}

/// Upper bound of a Unix socket's permissions by umask: users other than the owner and the group may connect only if
/// the configuration permits it.
const SOCKET_MODE: u32 = 0o770;

/// An error about a path, which is shown whole: it may be relative to `dir`.
fn of_path(path: &Path) -> impl Fn(io::Error) -> ListenError {
    let address = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    move |source| ListenError::Listen { address: address.clone(), source }
}

fn listen_unix(path: &Path, owners: SocketOwners<'_>, backlog: u32) -> io::Result<Listener> {
    // Before the socket exists, which a failure would leave behind.
    let group = owners.group.map(find_group).transpose()?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    if group.is_some() {
        std::os::unix::fs::chown(path, None, group)?;
    }
    // No client can connect before the socket listens.
    let mode = match owners.permissions {
        Some(mode) => mode,
        None => fs::metadata(path)?.permissions().mode() & SOCKET_MODE,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listen(&socket, backlog)?;
    Ok(Listener { socket, path: Some(path.to_owned()), address: None, protocol: Protocol::Plain, id: 0 })
}

fn probe_unix(path: &Path, owners: SocketOwners<'_>) -> io::Result<()> {
    SockAddr::unix(path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name `.` exists in directories only.
    rustix::fs::access(parent.join("."), Access::EXISTS | Access::WRITE_OK | Access::EXEC_OK)?;
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    owners.group.map(find_group).transpose().map(|_| ())
}

fn find_group(group: &[u8]) -> io::Result<u32> {
    let id = group_id(group, &fs::read("/etc/group")?);
    id.ok_or_else(|| io::Error::other(format!("there is no group '{}'", String::from_utf8_lossy(group))))
}

/// Looks up a group's number in the system's group table: lines of `name:password:number:members`.
fn group_id(group: &[u8], table: &[u8]) -> Option<u32> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    let named = table.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        (fields.next() == Some(group)).then(|| fields.nth(1)).flatten()
    });
    named.and_then(number).or_else(|| number(group))
}

/// The longest keepalive times that Linux accepts (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`).
const KEEPALIVE_S_MAX: u64 = 32_767;

/// Sends the first probe after `idle_s`, or as late as the system permits, then every third of that, three times.
fn keep_alive(socket: &Socket, idle_s: u64) -> io::Result<()> {
    let idle_s = idle_s.min(KEEPALIVE_S_MAX);
    let interval_s = (idle_s / 3).max(1);
    let settings = socket2::TcpKeepalive::new()
        .with_time(std::time::Duration::from_secs(idle_s))
        .with_interval(std::time::Duration::from_secs(interval_s))
        .with_retries(3);
    socket.set_tcp_keepalive(&settings)
}

#[cfg(test)]
mod tests {
    use super::group_id;

    #[test]
    fn groups_are_found_by_name_and_number() {
        let table = b"root:x:0:\nwheel:x:10:alice,bob\nempty::77:\n";
        assert_eq!(group_id(b"wheel", table), Some(10));
        assert_eq!(group_id(b"empty", table), Some(77));
        assert_eq!(group_id(b"1234", table), Some(1234));
        assert_eq!(group_id(b"whee", table), None);
        assert_eq!(group_id(b"", table), None);
    }
}
