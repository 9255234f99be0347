//! Notifications to a service manager: loading, ready, stopping (`supervised`).

use crate::config::Supervised;
use crate::sys::process;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

const UPSTART_JOB: &str = "UPSTART_JOB";
/// The variable that names systemd's socket; an address with `@` is in the abstract namespace.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// A supported service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// upstart.
    Upstart,
    /// systemd.
    Systemd,
}

static SUPERVISOR: OnceLock<Option<Supervisor>> = OnceLock::new();

/// Detects the configured supervisor of the process: once, at the start.
pub fn detect(wanted: Supervised) -> Option<Supervisor> {
    let has = |variable: &str| std::env::var_os(variable).is_some();
    let found = match wanted {
        Supervised::Upstart | Supervised::Auto if has(UPSTART_JOB) => Some(Supervisor::Upstart),
        Supervised::Systemd | Supervised::Auto if has(NOTIFY_SOCKET) => Some(Supervisor::Systemd),
        _ => None,
    };
    *SUPERVISOR.get_or_init(|| found)
}

/// Returns the name in INFO.
pub fn name() -> &'static str {
    match supervisor() {
        Some(Supervisor::Upstart) => "upstart",
        Some(Supervisor::Systemd) => "systemd",
        None => "no",
    }
}

fn supervisor() -> Option<Supervisor> {
    SUPERVISOR.get().copied().flatten()
}

/// Notifies the supervisor of the start, before the data is loaded. `mode`: the option `supervised`.
pub fn notify_of_start(mode: Supervised) {
    match (supervisor(), mode) {
        (Some(Supervisor::Systemd), _) => {
            notify("STATUS=Warmline is loading...\n");
            log::info!(
                "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and TimeoutStopSec in your service unit."
            );
        }
        (Some(Supervisor::Upstart), _) => {
            log::info!("supervised by upstart, will stop to signal readiness.");
            process::stop();
        }
        (None, Supervised::Systemd) => {
            log::warn!("systemd supervision error: NOTIFY_SOCKET not found!");
        }
        (None, Supervised::Upstart) => {
            log::warn!("upstart supervision requested, but UPSTART_JOB not found!");
        }
        (None, Supervised::Auto | Supervised::No) => {}
    }
}

/// Sends lines of the form `STATUS=...` to systemd. Nothing depends on their arrival.
pub fn notify(lines: &str) {
    if supervisor() != Some(Supervisor::Systemd) {
        return;
    }
    let sent =
        address().and_then(|address| UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address));
    if let Err(error) = sent {
        log::warn!("systemd supervision error: {error}");
    }
}

fn address() -> io::Result<SocketAddr> {
    let name = std::env::var_os(NOTIFY_SOCKET).unwrap_or_default();
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    }
}
