//! Converts TLS options of servers and clients to configurations of rustls.

use crate::TlsError;
use crate::certificate::Details;
use crate::materials::{Authorities, Fingerprint, Identity, IdentityFiles};
use crate::resumption::{SessionCache, Tickets};
use crate::suites::{self, Choice};
use crate::verification::ChainVerifier;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a client must present a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// No certificate is requested.
    No,
    /// A certificate is requested, and verified if the client presents one.
    Optional,
    /// A valid certificate is required.
    #[default]
    Required,
}

/// TLS options of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Certificate and key of the server.
    pub identity: IdentityFiles,
    /// Certificate and key for outgoing connections; `identity` if absent.
    pub client_identity: Option<IdentityFiles>,
    /// File with trusted authorities.
    pub authorities_file: Option<PathBuf>,
    /// Directory with trusted authorities.
    pub authorities_directory: Option<PathBuf>,
    /// Permitted protocol versions, by OpenSSL's names.
    pub protocols: Option<String>,
    /// Permitted cipher suites of TLS 1.2, by OpenSSL's names.
    pub ciphers: Option<String>,
    /// Permitted cipher suites of TLS 1.3.
    pub ciphersuites: Option<String>,
    /// Whether the server's order of cipher suites takes precedence over the client's.
    pub prefers_own_ciphers: bool,
    /// Whether clients must present a certificate.
    pub client_authentication: ClientAuthentication,
    /// Whether servers connect to this one and must present a certificate, whatever clients must.
    pub accepts_servers: bool,
    /// Limits of session resumption; `None` disables it.
    pub resumption: Option<ResumptionOptions>,
}

/// Limits of session resumption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumptionOptions {
    /// Number of cached sessions.
    pub cache_size: usize,
    /// Seconds for which a session can be resumed.
    pub timeout_s: u32,
}

/// Configurations made from a server's files.
#[derive(Debug)]
pub struct ServerContext {
    /// Configuration for accepted connections.
    pub server: Arc<ServerConfig>,
    /// Configuration for accepted connections of other servers, if there are any.
    pub for_servers: Option<Arc<ServerConfig>>,
    /// Configuration for outgoing connections.
    pub client: Arc<ClientConfig>,
    /// Details of the server's certificate.
    pub server_certificate: Option<Details>,
    /// Details of the separate certificate for outgoing connections, if there is one.
    pub client_certificate: Option<Details>,
    /// Details of the trusted authority that expires first.
    pub authority: Option<Details>,
    /// Warnings to be logged.
    pub warnings: Vec<String>,
    /// Fingerprint of the files that were read.
    pub fingerprint: Fingerprint,
}

impl ServerContext {
    /// Reads the files and builds the configurations.
    pub fn read(options: &ServerOptions) -> Result<Self, TlsError> {
        // Taken before the files are read, so that a file changed meanwhile is read again.
        let fingerprint = options.fingerprint();
        let identity = Identity::read(&options.identity)?;
        let client_identity = options.client_identity.as_ref().map(Identity::read).transpose()?;
        let (file, directory) = (&options.authorities_file, &options.authorities_directory);
        let authorities = Authorities::read(file.as_deref(), directory.as_deref())?;
        let choice = suites::choose(
            options.protocols.as_deref(),
            options.ciphers.as_deref(),
            options.ciphersuites.as_deref(),
        )?;
        let warning = |name: &String| format!("tls-ciphers: there is no cipher suite {name} here");
        let warnings = choice.unknown.iter().map(warning).collect();
        let (server_certificate, authority) = (identity.details(), authorities.details.clone());
        let client_certificate = client_identity.as_ref().and_then(Identity::details);
        let own = client_identity.as_ref().unwrap_or(&identity);
        let provider = provider(&choice);
        let client = client_config(&choice, &provider, Some(authorities.roots.clone()), Some(own))?;
        let server = |authentication| {
            let roots = Arc::clone(&authorities.roots);
            server_config(options, authentication, &choice, &provider, roots, &identity).map(Arc::new)
        };
        let for_servers =
            options.accepts_servers.then(|| server(ClientAuthentication::Required)).transpose()?;
        Ok(ServerContext {
            server: server(options.client_authentication)?,
            for_servers,
            client: Arc::new(client),
            server_certificate,
            client_certificate,
            authority,
            warnings,
            fingerprint,
        })
    }
}

impl ServerOptions {
    /// Returns the fingerprint of the files in their current state.
    pub fn fingerprint(&self) -> Fingerprint {
        let identities = || [Some(&self.identity), self.client_identity.as_ref()].into_iter().flatten();
        let certificates = identities().map(|files| files.certificate.as_path());
        let keys = identities().map(|files| files.key.as_path());
        Fingerprint::of(
            certificates.chain(self.authorities_file.as_deref()),
            keys.chain(self.authorities_directory.as_deref()),
        )
    }
}

fn provider(choice: &Choice) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: choice.suites.clone(), ..aws_lc_rs::default_provider() })
}

fn of_rustls(error: rustls::Error) -> TlsError {
    TlsError(format!("Failed to configure TLS: {error}"))
}

fn server_config(
    options: &ServerOptions,
    client_authentication: ClientAuthentication,
    choice: &Choice,
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    identity: &Identity,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&choice.versions)
        .map_err(of_rustls)?;
    let builder = if client_authentication == ClientAuthentication::No {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let verifier = match client_authentication {
            ClientAuthentication::Optional => verifier.allow_unauthenticated(),
            ClientAuthentication::No | ClientAuthentication::Required => verifier,
        };
        let failed = |error| {
            let reason = match error {
                VerifierBuilderError::NoRootAnchors => "there is no certificate of an authority".to_owned(),
                other => other.to_string(),
            };
            TlsError(format!("Failed to configure CA certificate(s) file/directory: {reason}"))
        };
        builder.with_client_cert_verifier(verifier.build().map_err(failed)?)
    };
    let mut config = builder
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())
        .map_err(|error| identity.refused(&error))?;
    config.ignore_client_order = options.prefers_own_ciphers;
    match options.resumption {
        Some(ResumptionOptions { cache_size, timeout_s }) => {
            config.ticketer = Arc::new(Tickets::new(timeout_s)?);
            config.session_storage = Arc::new(SessionCache::new(cache_size, timeout_s));
        }
        None => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
    }
    Ok(config)
}

fn client_config(
    choice: &Choice,
    provider: &Arc<CryptoProvider>,
    roots: Option<Arc<RootCertStore>>,
    identity: Option<&Identity>,
) -> Result<ClientConfig, TlsError> {
    let verifier = ChainVerifier { roots, provider: Arc::clone(provider) };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&choice.versions)
        .map_err(of_rustls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| identity.refused(&error))?,
        None => builder.with_no_client_auth(),
    };
    // Without resumption the peer is verified on each connection.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// TLS options of a client's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// Certificate and key to present to the server.
    pub identity: Option<IdentityFiles>,
    /// File with trusted authorities.
    pub authorities_file: Option<PathBuf>,
    /// Directory with trusted authorities.
    pub authorities_directory: Option<PathBuf>,
    /// Whether verification of the server's certificate is skipped.
    pub insecure: bool,
    /// Permitted cipher suites of TLS 1.2, by OpenSSL's names.
    pub ciphers: Option<String>,
    /// Permitted cipher suites of TLS 1.3.
    pub ciphersuites: Option<String>,
}

impl ClientOptions {
    /// Builds the configuration. Without configured authorities those of the system are trusted.
    pub fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let choice = suites::choose(None, self.ciphers.as_deref(), self.ciphersuites.as_deref())?;
        let identity = self.identity.as_ref().map(Identity::read).transpose()?;
        let roots = match (&self.authorities_file, &self.authorities_directory) {
            _ if self.insecure => None,
            (None, None) => Some(Authorities::of_system()?.roots),
            (file, directory) => Some(Authorities::read(path(file), path(directory))?.roots),
        };
        client_config(&choice, &provider(&choice), roots, identity.as_ref()).map(Arc::new)
    }
}

fn path(option: &Option<PathBuf>) -> Option<&Path> {
    option.as_deref()
}
