//! Reads certificates and keys from files.

use crate::certificate::Details;
use crate::{TlsError, error_text};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Locations of the system's trusted authorities; the first that exists is used.
const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Maximum size of a file with certificates or keys.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match count as u64 > FILE_BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Paths of a certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityFiles {
    /// Path of the certificate chain, in PEM.
    pub certificate: PathBuf,
    /// Path of the key, in PEM.
    pub key: PathBuf,
    /// Password of an encrypted key.
    pub key_password: Option<Vec<u8>>,
}

/// A certificate chain with its key.
#[derive(Debug)]
pub struct Identity {
    /// The own certificate, then the intermediate ones.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the own certificate.
    pub key: PrivateKeyDer<'static>,
    /// Paths, for error messages.
    certificate_path: PathBuf,
    key_path: PathBuf,
}

impl Identity {
    /// Reads certificate and key.
    pub fn read(files: &IdentityFiles) -> Result<Self, TlsError> {
        let failed = |reason: String| {
            TlsError(format!("Failed to load certificate: {}: {reason}", files.certificate.display()))
        };
        let pem = read_file(&files.certificate).map_err(|error| failed(error.to_string()))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| failed(error_text::of_pem(&error, "certificate")))?;
        if chain.is_empty() {
            return Err(failed("there is no certificate in it".to_owned()));
        }
        let key = read_key(&files.key, files.key_password.as_deref())
            .map_err(|reason| key_failed(&files.key, &reason))?;
        Ok(Identity { chain, key, certificate_path: files.certificate.clone(), key_path: files.key.clone() })
    }

    /// Returns the error for a certificate or key that rustls has refused.
    pub fn refused(&self, error: &rustls::Error) -> TlsError {
        let certificate = self.certificate_path.display();
        let reason = match error {
            rustls::Error::InconsistentKeys(_) => {
                let reason = format!("it is not the key of the certificate {certificate}");
                return key_failed(&self.key_path, &reason);
            }
            // The library's text for a key of an unknown type.
            rustls::Error::General(reason) => return key_failed(&self.key_path, reason),
            rustls::Error::InvalidCertificate(why) => error_text::of_certificate(why),
            other => error_text::of_connection(other),
        };
        TlsError(format!("Failed to load certificate: {certificate}: {reason}"))
    }

    /// Returns details of the own certificate.
    pub fn details(&self) -> Option<Details> {
        Details::of(self.chain.first()?)
    }
}

fn key_failed(path: &Path, reason: &str) -> TlsError {
    TlsError(format!("Failed to load private key: {}: {reason}", path.display()))
}

fn read_key(path: &Path, password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read_file(path).map_err(|error| error.to_string())?;
    let pem = String::from_utf8(pem).map_err(|_| "it is not in the PEM format")?;
    if let Some(document) = encrypted(&pem)? {
        let password = password.ok_or("it is encrypted, and there is no password for it")?;
        let info =
            EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|error| error.to_string())?;
        let key = info.decrypt(password).map_err(|_| "it cannot be decrypted with this password")?;
        return Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into());
    }
    if pem.contains("Proc-Type: 4,ENCRYPTED") {
        let way = "`openssl pkcs8 -topk8` makes one that can";
        return Err(format!("it is encrypted in a way that cannot be read; {way}"));
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| error_text::of_pem(&error, "private key"))
}

/// Returns the encrypted key in a PEM file, if there is one.
fn encrypted(pem: &str) -> Result<Option<pkcs8::SecretDocument>, String> {
    const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
    let Some(start) = pem.find(BEGIN) else { return Ok(None) };
    let end = pem[start..].find(END).ok_or("it has no end")? + start + END.len();
    let document = pkcs8::SecretDocument::from_pem(&pem[start..end]);
    document.map(|(_, document)| Some(document)).map_err(|error| error.to_string())
}

/// Trusted authorities.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// The trusted certificates.
    pub roots: Arc<RootCertStore>,
    /// Details of the certificate that expires first.
    pub details: Option<Details>,
}

impl Authorities {
    /// Reads the authorities in a file and in the files of a directory.
    pub fn read(file: Option<&Path>, directory: Option<&Path>) -> Result<Self, TlsError> {
        let mut reading = Reading { roots: RootCertStore::empty(), details: None, seen: HashSet::new() };
        if let Some(path) = file {
            let failed = |reason: String| failed(path, &reason);
            let pem = read_file(path).map_err(|error| failed(error.to_string()))?;
            if reading.add_all(&pem) == 0 {
                return Err(failed("there is no certificate in it".to_owned()));
            }
        }
        if let Some(path) = directory {
            let failed = |error: std::io::Error| failed(path, &error.to_string());
            for entry in fs::read_dir(path).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                // An entry that is not a file or not a certificate cannot be a trusted authority.
                if path.is_file()
                    && let Ok(pem) = read_file(&path)
                {
                    reading.add_all(&pem);
                }
            }
        }
        Ok(Authorities { roots: Arc::new(reading.roots), details: reading.details })
    }

    /// Reads the authorities that the system trusts.
    pub fn of_system() -> Result<Self, TlsError> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (file, directory) = (variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR"));
        if file.is_some() || directory.is_some() {
            return Self::read(file.as_deref(), directory.as_deref());
        }
        let file = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.is_file());
        Self::read(file, None)
    }
}

fn failed(path: &Path, reason: &str) -> TlsError {
    TlsError(format!("Failed to configure CA certificate(s) file/directory: {}: {reason}", path.display()))
}

struct Reading {
    roots: RootCertStore,
    details: Option<Details>,
    seen: HashSet<Vec<u8>>,
}

impl Reading {
    /// Returns the number of certificates in a PEM text.
    fn add_all(&mut self, pem: &[u8]) -> usize {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem).flatten() {
            count += 1;
            if !self.seen.insert(certificate.to_vec()) {
                continue;
            }
            let details = Details::of(&certificate);
            // Certificates that cannot be authorities are skipped.
            if self.roots.add(certificate).is_ok()
                && let Some(details) = details
                && self.details.as_ref().is_none_or(|first| details.expires_s < first.expires_s)
            {
                self.details = Some(details);
            }
        }
        count
    }
}

/// Detects changes of files: by content for certificates, by inode and modification time for keys and directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(Vec<(PathBuf, Option<Vec<u8>>, u64, i64, i64)>);

impl Fingerprint {
    /// Takes the fingerprint of the current files.
    pub fn of<'a>(
        certificates: impl Iterator<Item = &'a Path>,
        others: impl Iterator<Item = &'a Path>,
    ) -> Self {
        let content = |path: &Path| (path.to_owned(), read_file(path).ok(), 0, 0, 0);
        let place = |path: &Path| {
            let found = fs::metadata(path).ok();
            let (inode, modified_s, modified_ns) =
                found.map_or((0, 0, 0), |found| (found.ino(), found.mtime(), found.mtime_nsec()));
            (path.to_owned(), None, inode, modified_s, modified_ns)
        };
        Fingerprint(certificates.map(content).chain(others.map(place)).collect())
    }
}
