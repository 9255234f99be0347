//! Converts errors of the TLS library to text: the library's own texts contain names of Rust variants and lists of
//! bytes.

use rustls::CertificateError;
use rustls::pki_types::pem;

/// Returns the text of a connection error.
pub fn of_connection(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => {
            format!("invalid peer certificate: {}", of_certificate(why))
        }
        rustls::Error::PeerIncompatible(why) => format!("peer is incompatible: {}", words(why)),
        rustls::Error::PeerMisbehaved(why) => format!("peer misbehaved: {}", words(why)),
        rustls::Error::AlertReceived(alert) => format!("received fatal alert: {}", words(alert)),
        rustls::Error::InvalidMessage(kind) => format!("received corrupt message: {}", words(kind)),
        other => other.to_string(),
    }
}

/// Returns the text of a certificate error.
pub fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::BadEncoding => "it is damaged, or no X.509 certificate".to_owned(),
        CertificateError::UnknownIssuer => "no trusted authority has signed it".to_owned(),
        other => {
            let text = other.to_string();
            if text.contains(' ') { text } else { words(other) }
        }
    }
}

/// Returns the text of a PEM error in a file that should contain `wanted`.
pub fn of_pem(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            let label = String::from_utf8_lossy(end_marker);
            format!("it has no line `-----END {}-----`", label.trim())
        }
        pem::Error::IllegalSectionStart { line } => {
            let line = String::from_utf8_lossy(line);
            format!("its line `{}` does not end in five hyphens", line.trim().escape_debug())
        }
        pem::Error::Base64Decode(_) => "what stands between its BEGIN and END is not Base64".to_owned(),
        pem::Error::NoItemsFound => format!("there is no {wanted} in it"),
        other => other.to_string(),
    }
}

/// Converts a variant's name to words: `NoCipherSuitesInCommon` becomes "no cipher suites in common".
fn words(variant: &dyn std::fmt::Debug) -> String {
    let name = format!("{variant:?}");
    let mut text = String::with_capacity(name.len() + 8);
    for (at, c) in name.char_indices() {
        let begins_word =
            c.is_ascii_uppercase() && name[..at].ends_with(|before: char| before.is_alphanumeric());
        if begins_word {
            text.push(' ');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{Error, PeerIncompatible};

    #[test]
    fn errors_are_told_in_words() {
        let text = of_connection(&Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon));
        assert_eq!(text, "peer is incompatible: no cipher suites in common");
        let text = of_connection(&CertificateError::UnknownIssuer.into());
        assert_eq!(text, "invalid peer certificate: no trusted authority has signed it");
        assert_eq!(of_certificate(&CertificateError::NotValidYet), "not valid yet");
        let text = of_pem(&pem::Error::MissingSectionEnd { end_marker: b"CERTIFICATE".to_vec() }, "");
        assert_eq!(text, "it has no line `-----END CERTIFICATE-----`");
        assert_eq!(of_pem(&pem::Error::NoItemsFound, "private key"), "there is no private key in it");
    }
}
