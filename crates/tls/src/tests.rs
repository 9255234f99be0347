//! Certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// An authority that signs what it is asked to.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub certificate: Vec<u8>,
    pub pem: String,
}

/// A certificate and the key that belongs to it.
pub struct Signed {
    pub certificate: Vec<u8>,
    pub pem: String,
    pub key: KeyPair,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let (certificate, pem) = (issuer.der().to_vec(), issuer.pem());
        Authority { issuer, certificate, pem }
    }

    pub fn sign(&self, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed { certificate: certificate.der().to_vec(), pem: certificate.pem(), key }
    }
}
