//! TLS for Warmline's programs: certificates, keys and options become rustls's configurations, and a [`Session`] is what
//! happens on one connection. Nothing here opens a socket.
//!
//! 1. [`materials`] reads certificates and keys, [`suites`] the names that OpenSSL has for versions and cipher suites.
//! 2. [`configs`] makes a server's and a client's configuration of them; [`resumption`] is how sessions go on later.
//! 3. [`session`] encrypts and decrypts on whatever socket it is lent, [`stream`] does so where reading may block.
//! 4. [`certificate`] reads fields of a certificate.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod configs;
mod error_text;
pub mod materials;
mod resumption;
pub mod session;
pub mod stream;
pub mod suites;
#[cfg(test)]
mod tests;
mod verification;

pub use rustls::pki_types::ServerName;
pub use rustls::{ClientConfig, ServerConfig};
pub use session::Session;
pub use stream::TlsStream;

use std::fmt;

/// Why TLS cannot be had as it is asked for, in words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(pub String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}
