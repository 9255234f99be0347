//! Addresses of servers.

use std::fmt;
use std::path::PathBuf;

/// Address of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    /// A host's name or address, and a port.
    Tcp(String, u16),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Brackets separate an IPv6 address from the port.
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_stand_apart() {
        assert_eq!(Address::Tcp("example.org".to_owned(), 6379).to_string(), "example.org:6379");
        assert_eq!(Address::Tcp("::1".to_owned(), 6379).to_string(), "[::1]:6379");
        assert_eq!(Address::Unix("/run/a.sock".into()).to_string(), "/run/a.sock");
    }
}
