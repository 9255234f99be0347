//! Reads fields of certificates.

use std::time::UNIX_EPOCH;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::{Certificate, der};

/// The object identifier of `commonName`.
const COMMON_NAME: der::asn1::ObjectIdentifier = der::asn1::ObjectIdentifier::new_unwrap("2.5.4.3");

/// Fields of a certificate shown to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Serial number in hexadecimal digits, two per byte.
    pub serial: String,
    /// End of validity in seconds since 1970.
    pub expires_s: i64,
}

impl Details {
    /// Parses a certificate. Returns `None` if it is malformed.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let certificate = certificate.tbs_certificate();
        let bytes = certificate.serial_number().as_bytes();
        let significant = &bytes[bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len())..];
        let serial = match significant {
            [] => "0".to_owned(),
            bytes => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        };
        let expires = certificate.validity().not_after.to_system_time();
        let expires_s = expires.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        Some(Details { serial, expires_s })
    }
}

/// Returns the first common name of the certificate's subject, byte for byte, including any zero bytes.
pub fn common_name(certificate: &[u8]) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut attributes = certificate.tbs_certificate().subject().iter();
    let name = attributes.find(|attribute| attribute.oid == COMMON_NAME)?.value.value().to_vec();
    (!name.is_empty()).then_some(name)
}

/// Returns the URIs among the certificate's alternative names, in order, except empty ones and those with a zero
/// byte.
pub fn uris(certificate: &[u8]) -> Vec<Vec<u8>> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some((_, SubjectAltName(names)))) = certificate.tbs_certificate().get_extension() else {
        return Vec::new();
    };
    let uri = |name: GeneralName| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str().as_bytes().to_vec()),
        _ => None,
    };
    names.into_iter().filter_map(uri).filter(|uri| !uri.is_empty() && !uri.contains(&0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Authority;
    use rcgen::{CertificateParams, DnType, SanType, SerialNumber};

    #[test]
    fn a_certificate_tells_its_serial_its_end_and_its_names() {
        let authority = Authority::new();
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from_slice(&[0x0a, 0xff, 0x00]));
        params.not_after = rcgen::date_time_ymd(2040, 1, 2);
        params.distinguished_name.push(DnType::CommonName, "admin\0attacker");
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        params.subject_alt_names = vec![uri("urn:first"), uri("urn:second")];
        let certificate = authority.sign(params).certificate;
        let details = Details::of(&certificate).unwrap();
        assert_eq!(details, Details { serial: "0AFF00".to_owned(), expires_s: 2_209_075_200 });
        assert_eq!(common_name(&certificate).unwrap(), b"admin\0attacker");
        assert_eq!(uris(&certificate), [b"urn:first".to_vec(), b"urn:second".to_vec()]);
    }

    #[test]
    fn what_is_no_certificate_tells_nothing() {
        let authority = Authority::new();
        for end in 0..authority.certificate.len() {
            let cut = &authority.certificate[..end];
            assert_eq!((Details::of(cut), common_name(cut), uris(cut)), (None, None, Vec::new()));
        }
    }
}
