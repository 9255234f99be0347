//! The certificates in use, for INFO.

use std::sync::{Mutex, PoisonError};
use tls::certificate::Details;

/// The certificate in use of each role; of authorities the one that expires first.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// Certificate of accepted connections.
    pub server: Option<Details>,
    /// Certificate of outgoing connections.
    pub client: Option<Details>,
    /// Certificate of the trusted authorities.
    pub authority: Option<Details>,
}

/// The certificates in use, shared between threads.
#[derive(Debug, Default)]
pub struct TlsFigures(Mutex<Certificates>);

impl TlsFigures {
    /// Replaces the certificates in use.
    pub fn set(&self, certificates: Certificates) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// Returns the certificates in use.
    pub fn certificates(&self) -> Certificates {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
