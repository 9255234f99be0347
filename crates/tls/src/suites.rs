//! Versions and cipher suites of TLS by OpenSSL's names.

use crate::TlsError;
use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::aws_lc_rs::cipher_suite as suite;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, Tls12CipherSuite, version};
use std::sync::LazyLock;

/// Permitted versions and cipher suites.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Permitted versions.
    pub versions: Vec<&'static SupportedProtocolVersion>,
    /// Permitted suites, in order of preference.
    pub suites: Vec<SupportedCipherSuite>,
    /// Names of suites that are not supported.
    pub unknown: Vec<String>,
}

/// The cipher suites of TLS 1.2: name, key, encryption.
const TLS12: [(&str, &str, &str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDSA", "AES256", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", "RSA", "AES256", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDSA",
        "CHACHA20",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("ECDHE-RSA-CHACHA20-POLY1305", "RSA", "CHACHA20", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDSA", "AES128", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", "RSA", "AES128", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
];

/// Maximum number of AES-GCM blocks per key of TLS 1.2: as many as 2^24 records of maximum length have.
pub(crate) const TLS12_BLOCKS_MAX: u64 = 1 << 34;

/// The suites of [`TLS12`], without rustls's limit of 2^24 AES-GCM records of any length per connection. The security
/// bound is on the number of blocks, which the session counts.
static TLS12_OF_BLOCKS: LazyLock<[Tls12CipherSuite; TLS12.len()]> = LazyLock::new(|| {
    TLS12.map(|(.., suite)| {
        let SupportedCipherSuite::Tls12(suite) = suite else { unreachable!("they are of TLS 1.2") };
        let CipherSuiteCommon { suite: number, hash_provider, confidentiality_limit } = suite.common;
        let confidentiality_limit = confidentiality_limit.max(TLS12_BLOCKS_MAX);
        let common = CipherSuiteCommon { suite: number, hash_provider, confidentiality_limit };
        let Tls12CipherSuite { prf_provider, kx, sign, aead_alg, .. } = *suite;
        Tls12CipherSuite { common, prf_provider, kx, sign, aead_alg }
    })
});

/// Returns whether the suite is of TLS 1.2 with a limited number of blocks per key.
pub(crate) fn has_limit(suite: SupportedCipherSuite) -> bool {
    matches!(suite, SupportedCipherSuite::Tls12(suite) if suite.common.confidentiality_limit <= TLS12_BLOCKS_MAX)
}

const TLS13: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
];

/// OpenSSL's names for classes of cipher suites, none of which are supported.
const WITHOUT_SUITES: &[&str] = &[
    "3DES",
    "ADH",
    "AECDH",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "DES",
    "DH",
    "DHE",
    "DHEPSK",
    "DSS",
    "ECDHEPSK",
    "EDH",
    "EXP",
    "EXPORT",
    "GOST89MAC",
    "GOST94",
    "IDEA",
    "LOW",
    "MD5",
    "MEDIUM",
    "NULL",
    "PSK",
    "RC2",
    "RC4",
    "RSA",
    "RSAPSK",
    "SEED",
    "SHA",
    "SHA1",
    "SHA256",
    "SHA384",
    "SRP",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "aDH",
    "aDSS",
    "aGOST",
    "aNULL",
    "aPSK",
    "eNULL",
    "kDHE",
    "kDHEPSK",
    "kECDHEPSK",
    "kEDH",
    "kGOST",
    "kPSK",
    "kRSA",
    "kRSAPSK",
    "kSRP",
];

/// Parses the options; `None` is the default.
pub fn choose(
    protocols: Option<&str>,
    ciphers: Option<&str>,
    ciphersuites: Option<&str>,
) -> Result<Choice, TlsError> {
    let versions = protocols.map_or(Ok(vec![&version::TLS12, &version::TLS13]), versions)?;
    let mut suites = ciphersuites.map_or(Ok(TLS13.map(|(_, suite)| suite).to_vec()), tls13)?;
    let (selected, unknown) = ciphers.map_or(((0..TLS12.len()).collect(), Vec::new()), tls12);
    if let (Some(ciphers), []) = (ciphers, &selected[..]) {
        let reason = "none of them exists here; only suites with ECDHE and AES-GCM or CHACHA20 do";
        return Err(TlsError(format!("Failed to configure ciphers: {ciphers}: {reason}")));
    }
    suites.extend(selected.into_iter().map(|index| SupportedCipherSuite::Tls12(&TLS12_OF_BLOCKS[index])));
    Ok(Choice { versions, suites, unknown })
}

fn versions(words: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let mut chosen: Vec<&'static SupportedProtocolVersion> = Vec::new();
    for word in words.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => chosen.push(&version::TLS12),
            "tlsv1.3" => chosen.push(&version::TLS13),
            "tlsv1" | "tlsv1.1" => {
                let text = format!("{word} is specified in tls-protocols but not supported: it is not safe");
                return Err(TlsError(text));
            }
            _ => {
                let text = "Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and 'TLSv1.3'.";
                return Err(TlsError(text.to_owned()));
            }
        }
    }
    Ok(chosen)
}

fn tls13(names: &str) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let one = |name: &str| {
        let known = TLS13.iter().find(|(known, _)| *known == name);
        let failed = || TlsError(format!("Failed to configure ciphersuites: {names}: there is no {name}"));
        known.map(|(_, suite)| *suite).ok_or_else(failed)
    };
    names.split(':').filter(|name| !name.is_empty()).map(one).collect()
}

/// Returns the positions in [`TLS12`] that a list selects, and unknown names. As in OpenSSL, a word adds to the list,
/// `-` removes, `!` removes permanently, and `+` moves to the end.
fn tls12(list: &str) -> (Vec<usize>, Vec<String>) {
    let (mut selected, mut banned, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty() && !word.starts_with('@')) {
        let operation = word.as_bytes()[0];
        let name = word.trim_start_matches(['!', '-', '+']);
        let Some(members) = members(name) else {
            if !matches!(operation, b'!' | b'-') {
                unknown.push(name.to_owned());
            }
            continue;
        };
        match operation {
            b'!' => {
                selected.retain(|index| !members.contains(index));
                banned.extend(members);
            }
            b'-' => selected.retain(|index| !members.contains(index)),
            b'+' => {
                let moved: Vec<usize> = selected.extract_if(.., |index| members.contains(index)).collect();
                selected.extend(moved);
            }
            _ => {
                let is_new = |index: &usize| !selected.contains(index) && !banned.contains(index);
                let added: Vec<usize> = members.into_iter().filter(is_new).collect();
                selected.extend(added);
            }
        }
    }
    (selected, unknown)
}

/// Returns the suites that match all words between plus signs; `None` if a word is unknown.
fn members(name: &str) -> Option<Vec<usize>> {
    let mut members: Vec<usize> = (0..TLS12.len()).collect();
    for word in name.split('+') {
        let keep = |&index: &usize| {
            let (name, key, encryption, _) = TLS12[index];
            match word {
                "ALL" | "DEFAULT" | "COMPLEMENTOFNULL" | "HIGH" | "FIPS" | "TLSv1.2" | "ECDHE" | "EECDH"
                | "ECDH" | "kECDHE" | "kEECDH" => true,
                "ECDSA" | "aECDSA" => key == "ECDSA",
                "aRSA" => key == "RSA",
                "AES" | "AESGCM" => encryption != "CHACHA20",
                _ => word == encryption || word == name,
            }
        };
        let kept: Vec<usize> = (0..TLS12.len()).filter(keep).collect();
        if kept.is_empty() && !WITHOUT_SUITES.contains(&word) {
            return None;
        }
        members.retain(|index| kept.contains(index));
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        tls12(list).0.into_iter().map(|index| TLS12[index].0).collect()
    }

    #[test]
    fn a_list_of_ciphers_reads_as_with_openssl() {
        assert_eq!(names("DEFAULT").len(), 6);
        assert_eq!(names("DEFAULT:-AES128-SHA256:!MEDIUM").len(), 6);
        assert_eq!(names("ECDHE+AESGCM:!AES128").len(), 2);
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384"),
            ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]
        );
        assert_eq!(names("aRSA:+AES256:!CHACHA20")[1], "ECDHE-RSA-AES256-GCM-SHA384");
        // Permanently removed suites are not added again.
        assert_eq!(names("!ECDSA:ALL:ECDSA").len(), 3);
        assert_eq!(names("-ECDSA:ALL").len(), 6);
        assert!(names("AES128-SHA256:kRSA").is_empty());
        assert_eq!(tls12("ALL:AES128-SHA256").1, ["AES128-SHA256"]);
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let error = |protocols, ciphers, ciphersuites| {
            choose(protocols, ciphers, ciphersuites).expect_err("it does not exist").0
        };
        assert!(error(Some("TLSv1.2 TLSv1.1"), None, None).contains("TLSv1.1"));
        assert!(error(Some("SSLv3"), None, None).starts_with("Invalid tls-protocols specified."));
        assert!(
            error(None, Some("AES128-SHA256"), None)
                .starts_with("Failed to configure ciphers: AES128-SHA256")
        );
        let error = error(None, None, Some("TLS_AES_128_CCM_SHA256"));
        assert!(error.starts_with("Failed to configure ciphersuites: TLS_AES_128_CCM_SHA256"));
        assert_eq!(choose(Some(" TLSv1.2  TLSv1.3 "), None, None).unwrap().versions.len(), 2);
        let limited = |name| {
            choose(None, Some(name), None)
                .unwrap()
                .suites
                .into_iter()
                .filter(|&suite| has_limit(suite))
                .count()
        };
        assert_eq!((limited("AES"), limited("CHACHA20")), (4, 0));
        let chosen = choose(Some("TLSv1.3"), None, Some("TLS_AES_128_GCM_SHA256")).unwrap();
        assert_eq!((chosen.versions.len(), chosen.suites.len()), (1, 7));
    }
}
