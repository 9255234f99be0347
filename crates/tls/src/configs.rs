//! What a server and a client of TLS go by, as rustls wants it.

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

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuthentication {
    No,
    /// Those that show one must show a good one.
    Optional,
    #[default]
    Required,
}

/// TLS options of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    pub identity: IdentityFiles,
    /// For connections that the server makes itself; without it, `identity` is used there too.
    pub client_identity: Option<IdentityFiles>,
    pub authorities_file: Option<PathBuf>,
    pub authorities_directory: Option<PathBuf>,
    pub protocols: Option<String>,
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
    pub prefers_own_ciphers: bool,
    pub client_authentication: ClientAuthentication,
    pub resumption: Option<ResumptionOptions>,
}

/// How long and how many sessions go on in later connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumptionOptions {
    pub cache_size: usize,
    pub timeout_s: u32,
}

/// What a server has read of files, and what follows from it.
#[derive(Debug)]
pub struct ServerContext {
    pub server: Arc<ServerConfig>,
    /// For connections that the server makes itself.
    pub client: Arc<ClientConfig>,
    pub server_certificate: Option<Details>,
    /// `None`: there is none of its own.
    pub client_certificate: Option<Details>,
    pub authority: Option<Details>,
    /// Worth a word in the log.
    pub warnings: Vec<String>,
    pub fingerprint: Fingerprint,
}

impl ServerContext {
    pub fn read(options: &ServerOptions) -> Result<Self, TlsError> {
        // Before the files are read, so that what changes meanwhile is read again.
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
        let server = server_config(options, &choice, &provider, authorities.roots, &identity)?;
        Ok(ServerContext {
            server: Arc::new(server),
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
    /// Of the files, as they are now.
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
    choice: &Choice,
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    identity: &Identity,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&choice.versions)
        .map_err(of_rustls)?;
    let builder = if options.client_authentication == ClientAuthentication::No {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let verifier = match options.client_authentication {
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
    // A peer is verified again on each connection.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// TLS options on a client's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    pub identity: Option<IdentityFiles>,
    pub authorities_file: Option<PathBuf>,
    pub authorities_directory: Option<PathBuf>,
    /// Everybody is believed.
    pub insecure: bool,
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
}

impl ClientOptions {
    /// Without authorities of its own, those of the system are believed.
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
