//! What CONFIG SET changes in the world around the executor.

use super::http::{HTTP_FILES_MAX, Http};
use super::listener::{ListenError, Listener, SocketOwners};
use super::process_title::show_title;
use super::tls_context::{Replaced, TlsContext};
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
use std::sync::Arc;
use tls::ClientConfig;

/// Open files that are no client's: listeners, the log, and what persistence and replication need.
const OTHER_FILES: u64 = 32;

/// The sockets that accept clients. Shared by the loop that serves them and by CONFIG SET, which exchanges them.
#[derive(Default)]
pub struct Listeners {
    unix: Option<Listener>,
    tcp: Vec<Listener>,
    tls: Vec<Listener>,
    /// They have been exchanged since the loop last looked.
    pub changed: bool,
}

impl Listeners {
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.unix.iter().chain(&self.tcp).chain(&self.tls)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.unix.iter_mut().chain(&mut self.tcp).chain(&mut self.tls)
    }

    pub fn get(&self, index: usize) -> Option<&Listener> {
        self.iter().nth(index)
    }

    pub fn close(&mut self) {
        self.unix = None;
        self.tcp.clear();
        self.tls.clear();
    }

    /// Opens all sockets that `config` names. The Unix socket is opened once and stays: its path cannot be changed, and a
    /// second one there would take the place of the first.
    pub fn open(&mut self, config: &Config) -> Result<(), ListenError> {
        self.unix = open_unix(config)?;
        self.exchange(Protocol::Plain, config, config)?;
        self.exchange(Protocol::Tls, config, config)
    }

    /// Opens the TCP sockets of a kind that `config` names, in place of those open now. On failure these stay.
    pub fn exchange(
        &mut self,
        protocol: Protocol,
        current: &Config,
        config: &Config,
    ) -> Result<(), ListenError> {
        let listeners = match protocol {
            Protocol::Plain => &mut self.tcp,
            Protocol::Tls => &mut self.tls,
        };
        let opened = match open_tcp(protocol, config) {
            Ok(opened) => opened,
            // The new addresses may overlap with the old ones.
            Err(_) if !listeners.is_empty() => {
                listeners.clear();
                self.changed = true;
                match open_tcp(protocol, config) {
                    Ok(opened) => opened,
                    Err(error) => {
                        *listeners = open_tcp(protocol, current)?;
                        return Err(error);
                    }
                }
            }
            Err(error) => return Err(error),
        };
        *listeners = opened;
        self.changed = true;
        Ok(())
    }
}

/// What is spoken at a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Plain,
    Tls,
}

fn open_tcp(protocol: Protocol, config: &Config) -> Result<Vec<Listener>, ListenError> {
    let (port, has_tls) = match protocol {
        Protocol::Plain => (config.port, false),
        Protocol::Tls => (config.tls_port, true),
    };
    let hosts = if port == 0 { &[][..] } else { &config.bind };
    open_hosts(hosts, port, has_tls, config.tcp_backlog as i32)
}

/// Listens at each of `hosts`; going on without one is allowed if `-` stands in front.
pub(super) fn open_hosts(
    hosts: &[String],
    port: u16,
    has_tls: bool,
    backlog: i32,
) -> Result<Vec<Listener>, ListenError> {
    let mut listeners = Vec::new();
    for text in hosts {
        let (host, is_optional) = match text.strip_prefix('-') {
            Some(host) => (host, true),
            None => (text.as_str(), false),
        };
        match Listener::tcp(host, port, has_tls, backlog) {
            Ok(opened) => listeners.extend(opened),
            Err(error) if is_optional => log::warn!("{error}; going on without it"),
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

/// Applies options to this process.
pub struct LiveProcessSettings {
    pub listeners: Rc<RefCell<Listeners>>,
    pub tls: Rc<RefCell<TlsContext>>,
    pub http: Rc<RefCell<Http>>,
}

impl ProcessSettings for LiveProcessSettings {
    fn apply(&mut self, current: &Config, next: &Config, changes: &[Change]) -> Result<(), SetError> {
        // The files that options name together are read together.
        let first_tls = changes.iter().position(|change| configures_tls(change.option));
        let mut replaced = None;
        for (done, change) in changes.iter().enumerate() {
            let read = match first_tls == Some(done) {
                true => self.configure_tls(next).map(|before| replaced = Some(before)),
                false => Ok(()),
            };
            if let Err(reason) = read.and_then(|()| self.apply_one(current, next, change.option)) {
                if let Some(replaced) = replaced {
                    self.tls.borrow_mut().restore(replaced);
                }
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

    fn tls_client(&self) -> Option<Arc<ClientConfig>> {
        self.tls.borrow().client()
    }
}

impl LiveProcessSettings {
    fn apply_one(&mut self, current: &Config, next: &Config, option: OptionId) -> Result<(), String> {
        match option {
            OptionId::port => self.listen(Protocol::Plain, current, next, PORT_REFUSAL),
            OptionId::tls_port => self.listen(Protocol::Tls, current, next, PORT_REFUSAL),
            OptionId::bind => {
                self.listen(Protocol::Plain, current, next, BIND_REFUSAL)?;
                self.listen(Protocol::Tls, current, next, BIND_REFUSAL)
            }
            OptionId::http_port
            | OptionId::http_tls
            | OptionId::http_bind
            | OptionId::http_hosts
            | OptionId::http_commands => self.configure_http(current, next),
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
            OptionId::maxclients => allow_clients(next),
            OptionId::activedefrag if next.activedefrag => {
                Err("active defragmentation does not exist yet".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn listen(
        &mut self,
        protocol: Protocol,
        current: &Config,
        next: &Config,
        refusal: &str,
    ) -> Result<(), String> {
        self.listeners.borrow_mut().exchange(protocol, current, next).map_err(|error| {
            log::warn!("{error}");
            refusal.to_owned()
        })
    }

    fn configure_http(&mut self, current: &Config, next: &Config) -> Result<(), String> {
        if current.http_port == 0 {
            allow_clients(next)?;
        }
        let mut http = self.http.borrow_mut();
        http.configure(next).map_err(|error| {
            log::warn!("{error}");
            if let Err(error) = http.configure(current) {
                log::warn!("HTTP is answered no more: {error}");
            }
            PORT_REFUSAL.to_owned()
        })
    }

    fn configure_tls(&mut self, config: &Config) -> Result<Replaced, String> {
        self.tls.borrow_mut().configure(config).map_err(|error| {
            log::warn!("{error}");
            "Unable to update TLS configuration. Check server logs.".to_owned()
        })
    }
}

const PORT_REFUSAL: &str = "Unable to listen on this port. Check server logs.";
const BIND_REFUSAL: &str = "Failed to bind to specified addresses.";

/// Whether what connections speak TLS by depends on it.
fn configures_tls(option: OptionId) -> bool {
    matches!(
        option,
        OptionId::tls_port
            | OptionId::http_port
            | OptionId::http_tls
            | OptionId::tls_cluster
            | OptionId::tls_replication
            | OptionId::tls_auth_clients
            | OptionId::tls_cert_file
            | OptionId::tls_key_file
            | OptionId::tls_key_file_pass
            | OptionId::tls_client_cert_file
            | OptionId::tls_client_key_file
            | OptionId::tls_client_key_file_pass
            | OptionId::tls_dh_params_file
            | OptionId::tls_ca_cert_file
            | OptionId::tls_ca_cert_dir
            | OptionId::tls_protocols
            | OptionId::tls_ciphers
            | OptionId::tls_ciphersuites
            | OptionId::tls_prefer_server_ciphers
            | OptionId::tls_session_caching
            | OptionId::tls_session_cache_size
            | OptionId::tls_session_cache_timeout_seconds
            | OptionId::tls_auto_reload_interval_seconds
    )
}

/// Sees to it that the process may open a file for each client.
pub fn allow_clients(config: &Config) -> Result<(), String> {
    let other_files = OTHER_FILES + if config.http_port == 0 { 0 } else { HTTP_FILES_MAX };
    let needed = u64::from(config.maxclients) + other_files;
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
        possible.saturating_sub(other_files)
    ))
}
