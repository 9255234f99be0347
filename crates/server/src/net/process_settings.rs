//! What CONFIG SET changes in the world around the executor.

use super::listener::{ListenError, Listener, SocketOwners};
use super::process_title::show_title;
use crate::config::{Change, Config, OptionId, SetError};
use crate::observe::log as server_log;
use crate::server::ProcessSettings;
use crate::sys::crash;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Open files that are no client's: listeners, the log, and what persistence and replication need.
const OTHER_FILES: u64 = 32;

/// The sockets that accept clients. Shared by the loop that serves them and by CONFIG SET, which exchanges them.
#[derive(Default)]
pub struct Listeners {
    unix: Option<Listener>,
    tcp: Vec<Listener>,
    /// They have been exchanged since the loop last looked.
    pub changed: bool,
}

/// A socket that the configuration asks for.
struct BindAddress {
    host: String,
    /// Going on without it is allowed.
    optional: bool,
}

impl Listeners {
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.unix.iter().chain(&self.tcp)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.unix.iter_mut().chain(&mut self.tcp)
    }

    pub fn get(&self, index: usize) -> Option<&Listener> {
        self.iter().nth(index)
    }

    pub fn close(&mut self) {
        self.unix = None;
        self.tcp.clear();
    }

    /// Opens the sockets that `config` names, in place of those open now. On failure these stay. The Unix socket is
    /// opened once and stays: its path cannot be changed, and a second one there would take the place of the first.
    pub fn exchange(&mut self, current: &Config, config: &Config) -> Result<(), ListenError> {
        if self.unix.is_none() {
            self.unix = open_unix(config)?;
        }
        let opened = match open_tcp(config) {
            Ok(opened) => opened,
            // The new addresses may overlap with the old ones.
            Err(_) if !self.tcp.is_empty() => {
                self.tcp.clear();
                self.changed = true;
                match open_tcp(config) {
                    Ok(opened) => opened,
                    Err(error) => {
                        self.tcp = open_tcp(current)?;
                        return Err(error);
                    }
                }
            }
            Err(error) => return Err(error),
        };
        self.tcp = opened;
        self.changed = true;
        Ok(())
    }
}

fn open_tcp(config: &Config) -> Result<Vec<Listener>, ListenError> {
    let mut listeners = Vec::new();
    for BindAddress { host, optional } in wanted(config) {
        match Listener::tcp(&host, config.port, config.tcp_backlog as i32) {
            Ok(opened) => listeners.extend(opened),
            Err(error) if optional => log::warn!("{error}; going on without it"),
            Err(error) => return Err(error),
        }
    }
    Ok(listeners)
}

fn open_unix(config: &Config) -> Result<Option<Listener>, ListenError> {
    let Some(path) = &config.unixsocket else { return Ok(None) };
    let owners = SocketOwners {
        permissions: (config.unixsocketperm != 0).then_some(config.unixsocketperm),
        group: config.unixsocketgroup.as_deref(),
    };
    Listener::unix(Path::new(OsStr::from_bytes(path)), owners, config.tcp_backlog as i32).map(Some)
}

fn wanted(config: &Config) -> Vec<BindAddress> {
    let hosts = if config.port == 0 { &[][..] } else { &config.bind };
    let of = |host: &String| match host.strip_prefix('-') {
        Some(host) => BindAddress { host: host.to_owned(), optional: true },
        None => BindAddress { host: host.clone(), optional: false },
    };
    hosts.iter().map(of).collect()
}

/// Applies options to this process.
pub struct LiveProcessSettings {
    pub listeners: Rc<RefCell<Listeners>>,
}

impl ProcessSettings for LiveProcessSettings {
    fn apply(&mut self, current: &Config, next: &Config, changes: &[Change]) -> Result<(), SetError> {
        for (done, change) in changes.iter().enumerate() {
            if let Err(reason) = self.apply_one(current, next, change.option) {
                for undone in &changes[..done] {
                    if let Err(reason) = self.apply_one(next, current, undone.option) {
                        log::warn!("Could not undo the change of {}: {reason}", undone.name);
                    }
                }
                return Err(SetError::not_applied(change, reason));
            }
        }
        Ok(())
    }
}

impl LiveProcessSettings {
    fn apply_one(&mut self, current: &Config, next: &Config, option: OptionId) -> Result<(), String> {
        match option {
            OptionId::port => self.listen(current, next, "Unable to listen on this port. Check server logs."),
            OptionId::bind => self.listen(current, next, "Failed to bind to specified addresses."),
            OptionId::dir => std::env::set_current_dir(&next.dir).map_err(|error| error.to_string()),
            OptionId::loglevel => {
                server_log::set_level(next.loglevel);
                Ok(())
            }
            OptionId::log_format | OptionId::log_timestamp_format => {
                server_log::set_format(next.log_format, next.log_timestamp_format);
                Ok(())
            }
            OptionId::crash_log_enabled => {
                crash::watch_fatal(next.crash_log_enabled);
                Ok(())
            }
            OptionId::proc_title_template => {
                show_title(next);
                Ok(())
            }
            OptionId::maxclients => allow_clients(next.maxclients),
            OptionId::activedefrag if next.activedefrag => {
                Err("active defragmentation does not exist yet".to_owned())
            }
            OptionId::tls_port if next.tls_port != 0 => Err("TLS does not exist yet".to_owned()),
            _ => Ok(()),
        }
    }

    fn listen(&mut self, current: &Config, next: &Config, refusal: &str) -> Result<(), String> {
        self.listeners.borrow_mut().exchange(current, next).map_err(|error| {
            log::warn!("{error}");
            refusal.to_owned()
        })
    }
}

/// Sees to it that the process may open a file for each client.
pub fn allow_clients(clients: u32) -> Result<(), String> {
    let needed = u64::from(clients) + OTHER_FILES;
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = limits.maximum.map(|maximum| maximum.max(needed));
    if setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_ok() {
        return Ok(());
    }
    let possible = limits.maximum.unwrap_or(needed);
    // As many as there can be, though not all that are asked for.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum: limits.maximum });
    Err(format!(
        "The operating system is not able to handle the specified number of clients, try with {}",
        possible.saturating_sub(OTHER_FILES)
    ))
}
