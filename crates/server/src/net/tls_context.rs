//! The TLS configuration of new connections: read from files when the options change, and again when the files do.

use crate::config::{Config, TlsAuthClients};
use crate::observe::tls::{Certificates, TlsFigures};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tls::configs::{ClientAuthentication, ResumptionOptions, ServerContext, ServerOptions};
use tls::materials::IdentityFiles;
use tls::{ClientConfig, ServerConfig, TlsError};

/// The TLS configuration in use, and its reloading.
pub struct TlsContext {
    /// The context in use, and the options it was read with; `None`: TLS is off.
    current: Option<(ServerOptions, ServerContext)>,
    figures: Arc<TlsFigures>,
    /// Next check of the files, on the monotonic clock.
    reload_us: u64,
    reloading: Option<JoinHandle<Reloaded>>,
    published: Arc<Published<Arc<ServerConfig>>>,
    published_bus: Arc<Published<BusConfigs>>,
}

/// TLS configurations in use, for threads that open or accept their own connections; `None`: TLS is off.
#[derive(Debug)]
pub struct Published<T>(Mutex<Option<T>>);

impl<T> Default for Published<T> {
    fn default() -> Self {
        Published(Mutex::new(None))
    }
}

impl<T: Clone> Published<T> {
    /// Returns what is current.
    pub fn get(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, current: Option<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }
}

/// The two ends of a link between nodes. Both present a certificate.
#[derive(Clone, Debug)]
pub struct BusConfigs {
    /// For accepted links.
    pub server: Arc<ServerConfig>,
    /// For opened links.
    pub client: Arc<ClientConfig>,
}

/// The TLS context of a prepared configuration.
pub struct PreparedTls(Option<(ServerOptions, ServerContext)>);

/// Result of the thread that checked the files.
struct Reloaded {
    options: ServerOptions,
    /// The new context; `None`: the files have not changed.
    outcome: Result<Option<ServerContext>, TlsError>,
}

/// Returns whether any option enables TLS.
pub fn is_enabled(config: &Config) -> bool {
    enabling_option(config).is_some()
}

/// Returns the first option that enables TLS.
fn enabling_option(config: &Config) -> Option<&'static str> {
    let options = [
        (config.tls_port != 0, "tls-port"),
        (config.http_port != 0 && config.http_tls, "http-tls"),
        (config.tls_replication, "tls-replication"),
        (config.tls_cluster, "tls-cluster"),
    ];
    options.into_iter().find(|(is_on, _)| *is_on).map(|(_, option)| option)
}

impl TlsContext {
    /// Creates a context without TLS.
    pub fn new(figures: Arc<TlsFigures>) -> Self {
        TlsContext {
            current: None,
            figures,
            reload_us: 0,
            reloading: None,
            published: Arc::default(),
            published_bus: Arc::default(),
        }
    }

    /// Returns a shared reference to the configuration of [`TlsContext::server`].
    pub fn published(&self) -> Arc<Published<Arc<ServerConfig>>> {
        Arc::clone(&self.published)
    }

    /// Returns a shared reference to the configurations of the cluster bus.
    pub fn published_bus(&self) -> Arc<Published<BusConfigs>> {
        Arc::clone(&self.published_bus)
    }

    /// Returns the configuration for accepted clients.
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.current.as_ref().map(|(_, context)| Arc::clone(&context.server))
    }

    /// Returns the configuration for outgoing connections.
    pub fn client(&self) -> Option<Arc<ClientConfig>> {
        self.current.as_ref().map(|(_, context)| Arc::clone(&context.client))
    }

    /// Reads the configured files.
    pub fn prepare(&self, config: &Config) -> Result<PreparedTls, TlsError> {
        let next = match is_enabled(config) {
            true => {
                let options = options_of(config)?;
                let context = ServerContext::read(&options)?;
                context.warnings.iter().for_each(|warning| log::warn!("{warning}"));
                Some((options, context))
            }
            false => None,
        };
        if next.is_some() && config.tls_dh_params_file.is_some() {
            log::warn!("tls-dh-params-file has no effect: there are no cipher suites with DHE");
        }
        Ok(PreparedTls(next))
    }

    /// Applies the prepared context to new connections.
    pub fn commit(&mut self, PreparedTls(next): PreparedTls) {
        // A running check may have read the files of the previous options.
        self.reloading = None;
        self.figures.set(next.as_ref().map_or_else(Certificates::default, |(_, context)| Certificates {
            server: context.server_certificate.clone(),
            client: context.client_certificate.clone(),
            authority: context.authority.clone(),
        }));
        self.published.set(next.as_ref().map(|(_, context)| Arc::clone(&context.server)));
        self.published_bus.set(next.as_ref().and_then(|(_, context)| {
            let server = Arc::clone(context.for_servers.as_ref()?);
            Some(BusConfigs { server, client: Arc::clone(&context.client) })
        }));
        self.current = next;
    }

    /// Checks the files every `interval_s` seconds, 0 being never, on a separate thread: disks may be slow.
    pub fn reload_if_due(&mut self, interval_s: u32, now_us: u64) {
        if let Some(thread) = self.reloading.take_if(|thread| thread.is_finished()) {
            match thread.join() {
                Ok(reloaded) => self.take_over(reloaded),
                Err(_) => log::warn!("Background TLS reload failed"),
            }
        }
        let Some((options, context)) = &self.current else { return };
        if interval_s == 0 || self.reloading.is_some() {
            self.reload_us = now_us;
            return;
        }
        if now_us - self.reload_us < u64::from(interval_s) * 1_000_000 {
            return;
        }
        self.reload_us = now_us;
        log::debug!("Background TLS reconfiguration started");
        let (options, before) = (options.clone(), context.fingerprint.clone());
        let reload = move || {
            let is_same = options.fingerprint() == before;
            let outcome = if is_same { Ok(None) } else { ServerContext::read(&options).map(Some) };
            Reloaded { options, outcome }
        };
        match std::thread::Builder::new().name("tls_reload".to_owned()).spawn(reload) {
            Ok(thread) => self.reloading = Some(thread),
            Err(error) => log::warn!("Cannot start the thread that checks certificates: {error}"),
        }
    }

    fn take_over(&mut self, Reloaded { options, outcome }: Reloaded) {
        match outcome {
            Ok(None) => log::debug!("TLS reload skipped: materials unchanged"),
            Ok(Some(context)) => {
                log::info!("TLS materials changed, reloading in background");
                context.warnings.iter().for_each(|warning| log::warn!("{warning}"));
                self.commit(PreparedTls(Some((options, context))));
                log::info!("TLS materials reloaded successfully");
            }
            Err(error) => {
                log::warn!("{error}");
                log::warn!("Background TLS reload failed");
            }
        }
    }
}

fn options_of(config: &Config) -> Result<ServerOptions, TlsError> {
    let missing = |text: &str| TlsError(text.to_owned());
    let none = |option: &str| {
        let option_in_use = enabling_option(config).unwrap_or("TLS");
        TlsError(format!("No {option} configured! {option_in_use} is on and needs it."))
    };
    let certificate = config.tls_cert_file.as_deref().ok_or_else(|| none("tls-cert-file"))?;
    let key = config.tls_key_file.as_deref().ok_or_else(|| none("tls-key-file"))?;
    let asks_clients = config.tls_auth_clients != TlsAuthClients::No;
    let has_authorities = config.tls_ca_cert_file.is_some() || config.tls_ca_cert_dir.is_some();
    if (asks_clients || config.tls_cluster || config.tls_replication) && !has_authorities {
        return Err(missing(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or tls-auth-clients are enabled!",
        ));
    }
    let files = |certificate: &[u8], key: &[u8], password: &Option<Vec<u8>>| IdentityFiles {
        certificate: path(certificate),
        key: path(key),
        key_password: password.clone(),
    };
    let client_identity = match (&config.tls_client_cert_file, &config.tls_client_key_file) {
        (Some(certificate), Some(key)) => Some(files(certificate, key, &config.tls_client_key_file_pass)),
        _ => None,
    };
    Ok(ServerOptions {
        identity: files(certificate, key, &config.tls_key_file_pass),
        client_identity,
        authorities_file: config.tls_ca_cert_file.as_deref().map(path),
        authorities_directory: config.tls_ca_cert_dir.as_deref().map(path),
        protocols: text(&config.tls_protocols),
        ciphers: text(&config.tls_ciphers),
        ciphersuites: text(&config.tls_ciphersuites),
        prefers_own_ciphers: config.tls_prefer_server_ciphers,
        client_authentication: match config.tls_auth_clients {
            TlsAuthClients::No => ClientAuthentication::No,
            TlsAuthClients::Yes => ClientAuthentication::Required,
            TlsAuthClients::Optional => ClientAuthentication::Optional,
        },
        accepts_servers: config.tls_cluster,
        resumption: config.tls_session_caching.then_some(ResumptionOptions {
            cache_size: config.tls_session_cache_size as usize,
            timeout_s: config.tls_session_cache_timeout_seconds,
        }),
    })
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the option as text; a name that is not valid text names no existing file.
fn text(option: &Option<Vec<u8>>) -> Option<String> {
    option.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}
