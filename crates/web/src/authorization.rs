//! The `Authorization` header of a request: RFC 7617 (basic) and RFC 6750 (bearer).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// User name and password for AUTH.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `None` is the user `default`.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

/// The header does not contain valid credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownScheme;

impl Credentials {
    /// Parses the header's value: `Basic` with the base64 of `user:password`, or `Bearer` with `user:password` or
    /// with a password of the user `default`.
    pub fn parse(header: &[u8]) -> Result<Self, UnknownScheme> {
        let text = std::str::from_utf8(header).map_err(|_| UnknownScheme)?;
        let (scheme, rest) = text.trim().split_once(' ').ok_or(UnknownScheme)?;
        let token = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Self::of(token));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(UnknownScheme);
        }
        let decoded = STANDARD.decode(token).map_err(|_| UnknownScheme)?;
        let pair = String::from_utf8(decoded).map_err(|_| UnknownScheme)?;
        if pair.contains(':') { Ok(Self::of(&pair)) } else { Err(UnknownScheme) }
    }

    fn of(pair: &str) -> Self {
        let (user, password) = pair.split_once(':').unwrap_or(("", pair));
        let user = (!user.is_empty()).then(|| user.to_owned());
        Credentials { user, password: password.to_owned() }
    }

    /// Returns the AUTH command.
    pub fn command(&self) -> Vec<&str> {
        ["AUTH"].into_iter().chain(self.user.as_deref()).chain([self.password.as_str()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(header: &str) -> Option<Vec<String>> {
        let credentials = Credentials::parse(header.as_bytes()).ok()?;
        Some(credentials.command().into_iter().map(str::to_owned).collect())
    }

    fn words(words: &[&str]) -> Option<Vec<String>> {
        Some(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn basic_and_bearer() {
        // me:se:cret
        assert_eq!(parsed("Basic bWU6c2U6Y3JldA=="), words(&["AUTH", "me", "se:cret"]));
        // :secret
        assert_eq!(parsed("basic   OnNlY3JldA== "), words(&["AUTH", "secret"]));
        assert_eq!(parsed("Bearer me:secret"), words(&["AUTH", "me", "secret"]));
        assert_eq!(parsed("BEARER secret"), words(&["AUTH", "secret"]));
        assert_eq!(parsed("Bearer me:"), words(&["AUTH", "me", ""]));
    }

    #[test]
    fn what_names_nobody() {
        for header in ["", "Basic", "Basic !", "Basic bWU=", "Basic /w==", "Digest x", "Bearer"] {
            assert_eq!(parsed(header), None, "{header}");
        }
        assert!(Credentials::parse(b"Bearer \xff").is_err());
    }
}
