//! TLS for Warmline's programs: converts certificates, keys and options to configurations of rustls, and runs a
//! [`Session`] for each connection. This crate opens no socket.
//!
//! 1. [`materials`] reads certificates and keys, [`suites`] OpenSSL's names of versions and cipher suites.
//! 2. [`configs`] builds the configurations of a server and a client; [`resumption`] implements session resumption.
//! 3. [`session`] encrypts and decrypts on a socket of its caller, [`stream`] on a blocking socket.
//! 4. [`certificate`] reads fields of a certificate.

#![deny(missing_docs)]
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

/// An invalid TLS configuration, as text for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(pub String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}
