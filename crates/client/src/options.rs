//! Options shared by several programs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tls::TlsError;
use tls::configs::ClientOptions;
use tls::materials::IdentityFiles;

use crate::Encryption;

const SECONDS_MAX: f64 = 100.0 * 366.0 * 24.0 * 3600.0;

/// Options for encryption.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsOptions {
    /// Encrypt connections with TLS
    #[arg(long)]
    pub tls: bool,
    /// Server name for TLS (SNI)
    #[arg(long)]
    pub sni: Option<String>,
    /// File with trusted certificate authorities (default: those of the system)
    #[arg(long)]
    pub cacert: Option<PathBuf>,
    /// Directory with trusted certificate authorities
    #[arg(long)]
    pub cacertdir: Option<PathBuf>,
    /// Do not verify the server's certificate
    #[arg(long)]
    pub insecure: bool,
    /// File with the client's certificate
    #[arg(long, requires = "key")]
    pub cert: Option<PathBuf>,
    /// File with the key of the client's certificate
    #[arg(long, requires = "cert")]
    pub key: Option<PathBuf>,
    /// Cipher suites of TLS 1.2, by OpenSSL's names
    #[arg(long)]
    pub tls_ciphers: Option<String>,
    /// Cipher suites of TLS 1.3
    #[arg(long)]
    pub tls_ciphersuites: Option<String>,
}

impl TlsOptions {
    /// Returns how connections are encrypted; `None` without TLS.
    ///
    /// # Errors
    /// A file cannot be read, or a cipher suite is not supported.
    pub fn encryption(&self) -> Result<Option<Encryption>, TlsError> {
        if !self.tls {
            return Ok(None);
        }
        let files = self.cert.clone().zip(self.key.clone());
        let options = ClientOptions {
            identity: files.map(|(certificate, key)| IdentityFiles { certificate, key, key_password: None }),
            authorities_file: self.cacert.clone(),
            authorities_directory: self.cacertdir.clone(),
            insecure: self.insecure,
            ciphers: self.tls_ciphers.clone(),
            ciphersuites: self.tls_ciphersuites.clone(),
        };
        Ok(Some(Encryption { config: options.config()?, name: self.sni.clone() }))
    }
}

/// Parses an option's value in seconds, which can be fractional.
///
/// # Errors
/// The value is not a number, negative, or longer than a century, which would overflow clocks.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if seconds > SECONDS_MAX {
        return Err("more than a hundred years".to_owned());
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_be_added_to_a_time() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(std::time::Instant::now().checked_add(seconds("3.1e9").unwrap()).is_some());
        for wrong in ["", "x", "-1", "nan", "inf", "1e300", "4e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
