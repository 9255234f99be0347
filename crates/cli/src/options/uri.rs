//! `-u scheme://user:password@host:port/database`: each part is the option of its own. `unix:///path` is a socket.

use std::path::PathBuf;

use super::Options;

const PLAIN: [&str; 3] = ["valkey://", "redis://", "warmline://"];
const ENCRYPTED: [&str; 3] = ["valkeys://", "rediss://", "warmlines://"];

impl Options {
    /// Puts the parts of `-u` where their own options are.
    pub fn apply_uri(&mut self) -> Result<(), String> {
        let Some(uri) = self.uri.take() else { return Ok(()) };
        if let Some(path) = uri.strip_prefix("unix://") {
            self.socket = Some(PathBuf::from(percent_decoded(path)?));
            return Ok(());
        }
        let behind = |schemes: &[&'static str]| {
            let scheme = schemes.iter().find(|scheme| {
                uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })?;
            uri.get(scheme.len()..)
        };
        let rest = match (behind(&PLAIN), behind(&ENCRYPTED)) {
            (Some(rest), _) => rest,
            (None, Some(rest)) => {
                self.tls = true;
                rest
            }
            (None, None) => return Err("Invalid URI scheme".to_owned()),
        };
        let (credentials, location) = match rest.split_once('@') {
            Some((credentials, location)) => (Some(credentials), location),
            None => (None, rest),
        };
        if let Some(credentials) = credentials {
            let password = match credentials.split_once(':') {
                Some((user, password)) => {
                    self.user = (!user.is_empty()).then(|| percent_decoded(user)).transpose()?;
                    password
                }
                None => credentials,
            };
            self.password = Some(percent_decoded(password)?);
        }
        let (address, database) = location.split_once('/').unwrap_or((location, ""));
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (address, ""),
        };
        if !host.is_empty() {
            self.host = host.trim_matches(['[', ']']).to_string();
        }
        if !port.is_empty() {
            self.port = port.parse().map_err(|_| "Invalid server port.".to_owned())?;
        }
        if !database.is_empty() {
            self.database = database.parse().map_err(|_| format!("no database number: {database}"))?;
        }
        Ok(())
    }
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

    fn read(uri: &str) -> Result<Options, super::super::NoOptions> {
        Options::read(&["warmline-cli", "-u", uri, "ping"].map(Into::into))
    }

    #[test]
    fn a_uri_sets_what_it_names() {
        let options = read("redis://me:se%40cret@example.org:7001/5").unwrap();
        assert_eq!((options.host.as_str(), options.port, options.database), ("example.org", 7001, 5));
        assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("me"), Some("se@cret")));
        assert!(!options.tls);
        let options = read("valkey://secret@[::1]").unwrap();
        assert_eq!((options.host.as_str(), options.port), ("::1", 6379));
        assert_eq!((options.user, options.password.as_deref()), (None, Some("secret")));
        assert!(read("rediss://example").unwrap().tls && read("VALKEYS://example").unwrap().tls);
        let options = read("unix:///run/a%20b.sock").unwrap();
        assert_eq!(options.socket.as_deref(), Some(std::path::Path::new("/run/a b.sock")));
        for wrong in ["http://example", "redis://a%2@b", "redis://a%zz@b", "redis://a:99999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
