//! How a server that runs shows itself to the machine: its pid file, a word to systemd.

use crate::config::{Config, Supervised};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// Where a daemon without a `pidfile` leaves its number.
const PID_FILE: &str = "/var/run/warmline.pid";

/// The file that holds the process's number; removed when the server stops.
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file if the configuration asks for one. Failing to is worth a line in the log, no more.
    pub fn write(config: &Config) -> Option<Self> {
        let path = match &config.pidfile {
            Some(path) => PathBuf::from(OsStr::from_bytes(path)),
            None if config.daemonize => PathBuf::from(PID_FILE),
            None => return None,
        };
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(PidFile { path }),
            Err(error) => {
                log::warn!("Writing the pid file {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Nothing is lost if it is gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The kinds of sockets that the server listens on.
pub fn listener_kinds(config: &Config) -> impl Iterator<Item = &'static str> {
    let tcp = (config.port != 0).then_some("tcp");
    let tls = (config.tls_port != 0).then_some("tls");
    let unix = config.unixsocket.is_some().then_some("unix");
    tcp.into_iter().chain(unix).chain(tls)
}

/// Tells systemd that the server is ready, where it waits for that.
pub fn notify_supervisor(config: &Config) {
    if !matches!(config.supervised, Supervised::Systemd | Supervised::Auto) {
        return;
    }
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to(b"STATUS=Ready to accept connections\nREADY=1\n", &address));
    if let Err(error) = sent {
        log::warn!("Telling systemd that the server is ready: {error}");
    }
}
