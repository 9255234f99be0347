//! Certificates for servers and clients of tests, and connections that use them.

use super::{Client, PATIENCE, Process};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tls::configs::ClientOptions;
use tls::materials::IdentityFiles;
use tls::{ClientConfig, ServerName, TlsStream};

/// An authority and what it has signed, in a directory that goes with this: `ca.crt`, and `NAME.crt` and `NAME.key` of
/// each name.
pub struct Certificates {
    pub directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

static DIRECTORIES: AtomicUsize = AtomicUsize::new(0);

impl Certificates {
    /// With certificates for `server` and `client`.
    pub fn new() -> Self {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("warmline-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let certificates = Certificates { directory, issuer };
        certificates.write("ca.crt", &certificates.issuer.pem());
        certificates.issue("server", &[]);
        certificates.issue("client", &[]);
        certificates
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.join(name), text).unwrap();
    }

    /// Signs a certificate for a name, in place of an earlier one.
    pub fn issue(&self, name: &str, uris: &[&str]) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = uris.iter().map(|&uri| SanType::URI(uri.try_into().unwrap())).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = file_name(name);
        self.write(&format!("{file}.crt"), &certificate.pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// A server's options beside the port.
    pub fn options(&self) -> Vec<String> {
        let options = [
            ("--tls-cert-file", "server.crt"),
            ("--tls-key-file", "server.key"),
            ("--tls-client-cert-file", "client.crt"),
            ("--tls-client-key-file", "client.key"),
            ("--tls-ca-cert-file", "ca.crt"),
        ];
        options.iter().flat_map(|(option, file)| [(*option).to_owned(), self.path(file)]).collect()
    }

    /// What a client goes by that shows the certificate of this name, if any.
    pub fn client_config(&self, name: Option<&str>) -> Arc<ClientConfig> {
        let path = |file: String| self.directory.join(file);
        let identity = name.map(|name| IdentityFiles {
            certificate: path(format!("{}.crt", file_name(name))),
            key: path(format!("{}.key", file_name(name))),
            key_password: None,
        });
        let authorities_file = Some(path("ca.crt".to_owned()));
        ClientOptions { identity, authorities_file, ..ClientOptions::default() }.config().unwrap()
    }
}

fn file_name(name: &str) -> String {
    name.replace('\0', "-")
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub type TlsClient = Client<TlsStream<TcpStream>>;

/// A server with TLS, beside its other port.
pub struct TlsProcess {
    pub process: Process,
    pub certificates: Certificates,
    pub tls_port: u16,
    config: Arc<ClientConfig>,
}

impl TlsProcess {
    pub fn start(options: &[&str]) -> Self {
        Self::start_with(Certificates::new(), options)
    }

    pub fn start_with(certificates: Certificates, options: &[&str]) -> Self {
        let tls_port = super::free_port();
        let mut all = certificates.options();
        all.extend(["--tls-port".to_owned(), tls_port.to_string()]);
        all.extend(options.iter().map(|option| (*option).to_owned()));
        let process = Process::start(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let config = certificates.client_config(Some("client"));
        TlsProcess { process, certificates, tls_port, config }
    }

    pub fn connect(&self) -> TlsClient {
        self.try_connect(&self.config).unwrap()
    }

    pub fn try_connect(&self, config: &Arc<ClientConfig>) -> std::io::Result<TlsClient> {
        connect(self.tls_port, config)
    }

    /// A connection on which nothing has been said.
    pub fn socket(&self) -> TcpStream {
        socket(self.tls_port)
    }
}

/// A server listens at its other port a moment before it does at this one.
fn socket(port: u16) -> TcpStream {
    let started = Instant::now();
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            connected => break connected.unwrap(),
        }
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub fn connect(port: u16, config: &Arc<ClientConfig>) -> std::io::Result<TlsClient> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsStream::connect(socket(port), Arc::clone(config), name).map(Client::new)
}
