//! Application of CONFIG SET to the process outside the executor.

use super::files::allow_clients;
use super::http::{Http, PreparedHttp};
use super::listeners::{Listeners, PreparedListeners, Protocol};
use super::process_title::show_title;
use super::tls_context::{PreparedTls, TlsContext};
use crate::config::{Change, Config, NO_RDMA, OptionId, SetError};
use crate::observe::log as server_log;
use crate::server::{PreparedSettings, ProcessSettings};
use crate::sys::crash;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tls::ClientConfig;

/// Applies options to this process.
#[derive(Clone)]
pub struct LiveProcessSettings {
    /// The listening sockets.
    pub listeners: Rc<RefCell<Listeners>>,
    /// The TLS configuration.
    pub tls: Rc<RefCell<TlsContext>>,
    /// The HTTP server.
    pub http: Rc<RefCell<Http>>,
}

impl ProcessSettings for LiveProcessSettings {
    fn prepare(
        &mut self,
        current: &Config,
        next: &Config,
        changes: &[Change],
    ) -> Result<Box<dyn PreparedSettings>, SetError> {
        let exchange = Exchange { current, next, changes };
        exchange.refuse_what_is_missing()?;
        // Relative paths of the other options are resolved in it.
        let directory = exchange.enter_directory()?;
        exchange.raise_file_limit()?;
        Ok(Box::new(Prepared {
            directory,
            tls: exchange.prepare_tls(&self.tls.borrow())?,
            listeners: exchange.prepare_listeners(&mut self.listeners.borrow_mut())?,
            http: exchange.prepare_http(&self.http.borrow())?,
            options: changes.iter().map(|change| change.option).collect(),
            process: self.clone(),
        }))
    }

    fn tls_client(&self) -> Option<Arc<ClientConfig>> {
        self.tls.borrow().client()
    }
}

/// A change of the configuration that may fail. Each step prepares one group of options; on failure, and when the result
/// is dropped, the process is unchanged.
struct Exchange<'a> {
    current: &'a Config,
    next: &'a Config,
    changes: &'a [Change],
}

impl Exchange<'_> {
    /// Returns the first changed option of this group.
    fn first(&self, is_one: impl Fn(OptionId) -> bool) -> Option<&Change> {
        self.changes.iter().find(|change| is_one(change.option))
    }

    fn refuse_what_is_missing(&self) -> Result<(), SetError> {
        let is_missing = |option| match option {
            OptionId::activedefrag => self.next.activedefrag,
            OptionId::rdma_bind => true,
            _ => false,
        };
        match self.first(is_missing) {
            Some(change) if change.option == OptionId::rdma_bind => {
                Err(SetError::not_applied(change, NO_RDMA))
            }
            Some(change) => Err(SetError::not_applied(change, "active defragmentation is not supported yet")),
            None => Ok(()),
        }
    }

    fn enter_directory(&self) -> Result<Option<EnteredDirectory>, SetError> {
        let Some(change) = self.first(|option| option == OptionId::dir) else { return Ok(None) };
        let entered = EnteredDirectory::enter(&self.next.dir);
        entered.map(Some).map_err(|error| SetError::not_applied(change, error.to_string()))
    }

    /// Raises the limit of open files for the options. A raised limit stays if a later step fails; a limit that cannot be
    /// raised far enough is restored.
    fn raise_file_limit(&self) -> Result<(), SetError> {
        let starts_http = self.current.http_port == 0;
        let needs_files = |option| {
            matches!(option, OptionId::maxclients | OptionId::io_threads)
                || option == OptionId::http_port && starts_http
        };
        let Some(change) = self.first(needs_files) else { return Ok(()) };
        allow_clients(self.next).map_err(|shortage| {
            shortage.restore();
            let clients = shortage.clients_possible();
            let reason = match change.option {
                OptionId::maxclients => format!(
                    "The operating system is not able to handle the specified number of clients, try with {clients}"
                ),
                OptionId::io_threads => shortage.option_refusal("io-threads"),
                _ => shortage.option_refusal("http-port"),
            };
            SetError::not_applied(change, reason)
        })
    }

    fn prepare_tls(&self, tls: &TlsContext) -> Result<Option<PreparedTls>, SetError> {
        let Some(change) = self.first(configures_tls) else { return Ok(None) };
        tls.prepare(self.next).map(Some).map_err(|error| {
            log::warn!("{error}");
            SetError::not_applied(change, "Unable to update TLS configuration. Check server logs.")
        })
    }

    fn prepare_listeners(&self, listeners: &mut Listeners) -> Result<Option<PreparedListeners>, SetError> {
        let is_address = |option| matches!(option, OptionId::port | OptionId::tls_port | OptionId::bind);
        let Some(first) = self.first(is_address) else { return Ok(None) };
        listeners.prepare(self.next).map(Some).map_err(|(protocol, error)| {
            log::warn!("{error}");
            let port_option = match protocol {
                Protocol::Plain => OptionId::port,
                Protocol::Tls => OptionId::tls_port,
            };
            let change =
                self.first(|option| option == port_option || option == OptionId::bind).unwrap_or(first);
            let is_bind = change.option == OptionId::bind;
            SetError::not_applied(change, if is_bind { BIND_REFUSAL } else { PORT_REFUSAL })
        })
    }

    fn prepare_http(&self, http: &Http) -> Result<Option<PreparedHttp>, SetError> {
        let Some(change) = self.first(configures_http) else { return Ok(None) };
        http.prepare(self.next).map(Some).map_err(|error| {
            log::warn!("{error}");
            SetError::not_applied(change, PORT_REFUSAL)
        })
    }
}

const PORT_REFUSAL: &str = "Unable to listen on this port. Check server logs.";
const BIND_REFUSAL: &str = "Failed to bind to specified addresses.";

/// The prepared parts of a change, which can no longer fail.
struct Prepared {
    process: LiveProcessSettings,
    options: Vec<OptionId>,
    directory: Option<EnteredDirectory>,
    tls: Option<PreparedTls>,
    listeners: Option<PreparedListeners>,
    http: Option<PreparedHttp>,
}

impl PreparedSettings for Prepared {
    fn commit(self: Box<Self>, config: &Config) {
        if let Some(directory) = self.directory {
            directory.stay();
        }
        if let Some(tls) = self.tls {
            self.process.tls.borrow_mut().commit(tls);
        }
        if let Some(listeners) = self.listeners {
            self.process.listeners.borrow_mut().commit(listeners);
        }
        if let Some(http) = self.http {
            self.process.http.borrow_mut().commit(http);
        }
        for option in self.options {
            match option {
                OptionId::loglevel => server_log::set_level(config.loglevel),
                OptionId::log_format | OptionId::log_timestamp_format => {
                    server_log::set_format(config.log_format, config.log_timestamp_format);
                }
                OptionId::crash_log_enabled => crash::watch_fatal(config.crash_log_enabled),
                OptionId::proc_title_template => show_title(config),
                _ => {}
            }
        }
    }
}

/// The new working directory, until the change is certain; the drop restores the previous one.
struct EnteredDirectory {
    /// The previous directory; `None`: unchanged.
    before: Option<OwnedFd>,
}

impl EnteredDirectory {
    fn enter(path: &Path) -> io::Result<Self> {
        // Requires neither read permission nor that the directory still has a name.
        let before = fs::open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        std::env::set_current_dir(path)?;
        Ok(EnteredDirectory { before: Some(before) })
    }

    fn stay(mut self) {
        self.before = None;
    }
}

impl Drop for EnteredDirectory {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = rustix::process::fchdir(before)
        {
            log::warn!("Cannot return to the previous working directory: {error}");
        }
    }
}

/// Returns whether the option configures HTTP.
fn configures_http(option: OptionId) -> bool {
    matches!(
        option,
        OptionId::http_port
            | OptionId::http_tls
            | OptionId::http_bind
            | OptionId::http_hosts
            | OptionId::http_commands
    )
}

/// Returns whether the TLS settings of connections depend on the option.
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
