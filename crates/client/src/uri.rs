//! URIs of servers: `scheme://user:password@host:port/database`, and `unix:///path` for a socket.

use std::path::PathBuf;

/// The components of a URI; `None` if absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerUri {
    /// Path of a Unix socket.
    pub socket: Option<PathBuf>,
    /// Host name or address.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// User name.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Number of the database.
    pub database: Option<u32>,
    /// Whether the scheme requires TLS.
    pub is_encrypted: bool,
}

impl ServerUri {
    /// Parses a URI. User, password and path may contain percent-encoded bytes.
    ///
    /// # Errors
    /// A line that describes the invalid component.
    pub fn parse(uri: &str) -> Result<Self, String> {
        let (scheme, rest) = uri.split_once("://").ok_or("Invalid URI scheme")?;
        let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
            "unix" => {
                let socket = Some(PathBuf::from(percent_decoded(rest)?));
                return Ok(Self { socket, ..Self::default() });
            }
            "valkey" | "redis" | "warmline" => false,
            "valkeys" | "rediss" | "warmlines" => true,
            _ => return Err("Invalid URI scheme".to_owned()),
        };
        // Passwords often contain an `@`, the components after the credentials never.
        let (credentials, location) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = credentials.split_once(':').unwrap_or(("", credentials));
        // The user name may be empty.
        let has_password = !password.is_empty() || !user.is_empty();
        let (authority, database) = location.split_once('/').unwrap_or((location, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, ""),
        };
        let number = named(database).map(str::parse).transpose();
        Ok(Self {
            socket: None,
            host: named(host.trim_matches(['[', ']'])).map(str::to_owned),
            port: named(port).map(str::parse).transpose().map_err(|_| "Invalid server port.")?,
            user: named(user).map(percent_decoded).transpose()?,
            password: has_password.then(|| percent_decoded(password)).transpose()?,
            database: number.map_err(|_| format!("no database number: {database}"))?,
            is_encrypted,
        })
    }
}

fn named(part: &str) -> Option<&str> {
    Some(part).filter(|part| !part.is_empty())
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else {
            return Err("Incomplete URI encoding".to_owned());
        };
        match (char::from(high).to_digit(16), char::from(low).to_digit(16)) {
            (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
            _ => return Err("Illegal character in URI encoding".to_owned()),
        }
    }
    String::from_utf8(out).map_err(|_| "Illegal character in URI encoding".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(part: &Option<String>) -> Option<&str> {
        part.as_deref()
    }

    #[test]
    fn all_parts_are_found() {
        let uri = ServerUri::parse("redis://me:se%40cret@example.org:7001/5").unwrap();
        assert_eq!((text(&uri.host), uri.port, uri.database), (Some("example.org"), Some(7001), Some(5)));
        assert_eq!((text(&uri.user), text(&uri.password)), (Some("me"), Some("se@cret")));
        assert!(!uri.is_encrypted);
        let uri = ServerUri::parse("unix:///run/a%20b.sock").unwrap();
        assert_eq!(uri, ServerUri { socket: Some("/run/a b.sock".into()), ..ServerUri::default() });
        for encrypted in ["rediss://example", "VALKEYS://example", "warmlines://example"] {
            assert!(ServerUri::parse(encrypted).unwrap().is_encrypted, "{encrypted}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_named() {
        assert_eq!(ServerUri::parse("valkey://"), Ok(ServerUri::default()));
        let uri = ServerUri::parse("valkey://secret@[::1]").unwrap();
        assert_eq!((text(&uri.host), uri.port, uri.database), (Some("::1"), None, None));
        assert_eq!((text(&uri.user), text(&uri.password)), (None, Some("secret")));
        assert_eq!(ServerUri::parse("valkey://[::1]:7").unwrap().port, Some(7));
        assert_eq!(ServerUri::parse("valkey:///3").unwrap().database, Some(3));
        let password = |uri: &str| ServerUri::parse(uri).unwrap().password;
        assert_eq!(password("valkey://:secret@host").as_deref(), Some("secret"));
        assert_eq!(password("valkey://me:@host").as_deref(), Some(""));
        assert_eq!((password("valkey://@host"), password("valkey://:@host")), (None, None));
        // Unencoded reserved characters are accepted.
        assert_eq!(password("valkey://me:a@b/c:d@host/1").as_deref(), Some("a@b/c:d"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (wrong, reason) in [
            ("http://example", "Invalid URI scheme"),
            ("example", "Invalid URI scheme"),
            ("redis://a%2@b", "Incomplete URI encoding"),
            ("redis://a%zz@b", "Illegal character in URI encoding"),
            ("redis://a%+1@b", "Illegal character in URI encoding"),
            ("redis://a%ff@b", "Illegal character in URI encoding"),
            ("unix:///%", "Incomplete URI encoding"),
            ("redis://a:99999", "Invalid server port."),
            ("redis://a:port", "Invalid server port."),
            ("redis://a/x", "no database number: x"),
            ("redis://a/-1", "no database number: -1"),
        ] {
            assert_eq!(ServerUri::parse(wrong), Err(reason.to_owned()), "{wrong}");
        }
    }
}
