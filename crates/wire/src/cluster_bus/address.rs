//! Texts by which nodes announce themselves, checked.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A name that `nodes.conf` and CLUSTER NODES can hold: visible characters without those that separate fields. It may
/// be empty, which stands for a name that is not known. A clone is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// Limit of a text's length.
    pub const BYTES_MAX: usize = 1024;

    /// Takes a text, unless it is too long or has a character that no name has.
    pub fn parse(text: &str) -> Option<Text> {
        (text.len() <= Text::BYTES_MAX && text.bytes().all(is_plain)).then(|| Text(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether host names may have these characters: letters, digits, hyphens and dots, up to 255.
    pub fn is_host_name(&self) -> bool {
        let is_of_hosts = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        self.0.len() < 256 && self.0.bytes().all(is_of_hosts)
    }
}

/// Control characters, spaces and what separates or closes something are not in names.
fn is_plain(byte: u8) -> bool {
    byte > b',' && byte != 0x7f && !b";<=>?@[]^{|}~\\".contains(&byte)
}

impl Default for Text {
    fn default() -> Text {
        Text("".into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a node is reached: an address, or a name where one was set in place of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An address.
    Ip(IpAddr),
    /// Anything else that the node calls itself.
    Name(Text),
}

impl Address {
    /// Limit of an address's length as text: its field in frames also holds a NUL.
    pub const BYTES_MAX: usize = 45;

    /// Reads an address, unless it is empty, too long or has a character that no name has.
    pub fn parse(text: &str) -> Option<Address> {
        if text.is_empty() || text.len() > Address::BYTES_MAX {
            return None;
        }
        text.parse().map(Address::Ip).ok().or_else(|| Text::parse(text).map(Address::Name))
    }

    /// Returns the address, unless it is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Address::Ip(ip) => Some(*ip),
            Address::Name(_) => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Address {
        Address::Ip(ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(ip) => ip.fmt(f),
            Address::Name(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_nothing_that_separates_fields() {
        for text in ["", "node-1.example.org", "zone/a", "fe80::1", "Zürich"] {
            assert_eq!(Text::parse(text).unwrap().as_str(), text);
        }
        for text in ["a b", "a,b", "a=b", "a\nb", "a@b", "[1-<-x]", "a\u{7f}", "\0", &"x".repeat(1025)] {
            assert_eq!(Text::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn host_names_have_fewer_characters() {
        let is_host_name = |text: &str| Text::parse(text).unwrap().is_host_name();
        assert!(is_host_name("a.b-c.D1") && is_host_name("") && is_host_name(&"a".repeat(255)));
        assert!(!is_host_name("a/b") && !is_host_name("ü") && !is_host_name(&"a".repeat(256)));
    }

    #[test]
    fn an_address_is_an_ip_or_a_name() {
        assert_eq!(Address::parse("10.0.0.1").unwrap().ip().unwrap().to_string(), "10.0.0.1");
        assert_eq!(Address::parse("2001:DB8:0::1").unwrap().to_string(), "2001:db8::1");
        let name = Address::parse("node-1").unwrap();
        assert_eq!((name.ip(), name.to_string()), (None, "node-1".to_string()));
        for text in ["", "a b", "1.2.3.4 ", &"a".repeat(46)] {
            assert_eq!(Address::parse(text), None, "{text:?}");
        }
    }
}
