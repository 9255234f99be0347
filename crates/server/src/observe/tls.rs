//! The certificates in use, for INFO.

use std::sync::{Mutex, PoisonError};
use tls::certificate::Details;

/// The certificate in use of each role; of authorities the one that expires first.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    pub server: Option<Details>,
    pub client: Option<Details>,
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
