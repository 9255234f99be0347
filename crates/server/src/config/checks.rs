//! Syntax checks for the text of particular options.

use crate::sys::locale;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Accepts a text or returns why not.
pub(super) type Check = fn(&[u8]) -> Result<(), &'static str>;

const HOSTNAME_BYTES_MAX: usize = 255;
const IP_TEXT_BYTES_MAX: usize = 45;
const HASH_SEED_BYTES_MAX: usize = 256;

fn require(holds: bool, refusal: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(refusal) }
}

/// Whether the text can be an address or a host name, and is safe to show in INFO's lines and lists, and in the log.
pub fn is_host(text: &[u8]) -> bool {
    text.len() <= HOSTNAME_BYTES_MAX && text.iter().all(|&byte| byte.is_ascii_graphic() && byte != b',')
}

/// The address at which others reach a server; empty text is none.
pub(super) fn host(text: &[u8]) -> Result<(), &'static str> {
    require(is_host(text), "argument must be an address or a host name")
}

/// Text that is shown on a line of its own.
pub(super) fn one_line(text: &[u8]) -> Result<(), &'static str> {
    require(!text.iter().any(u8::is_ascii_control), "argument must not contain control characters")
}

pub(super) fn anything(_text: &[u8]) -> Result<(), &'static str> {
    Ok(())
}

/// The name of a locale of the machine; empty text is that of the environment.
pub(super) fn locale(text: &[u8]) -> Result<(), &'static str> {
    require(text.is_empty() || locale::is_known(text), "Invalid locale name")
}

/// A name without a path.
fn is_base_name(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'/' | b'\\'))
}

pub(super) fn dbfilename(text: &[u8]) -> Result<(), &'static str> {
    require(!text.is_empty(), "dbfilename can't be empty")?;
    require(is_base_name(text), "dbfilename can't be a path, just a filename")
}

pub(super) fn appendfilename(text: &[u8]) -> Result<(), &'static str> {
    require(!text.is_empty(), "appendfilename can't be empty")?;
    require(is_base_name(text), "appendfilename can't be a path, just a filename")
}

pub(super) fn appenddirname(text: &[u8]) -> Result<(), &'static str> {
    require(!text.is_empty(), "appenddirname can't be empty")?;
    require(is_base_name(text), "appenddirname can't be a path, just a dirname")
}

pub(super) fn cluster_config_file(text: &[u8]) -> Result<(), &'static str> {
    require(!text.is_empty(), "cluster-config-file can't be empty")
}

/// Whether all bytes are free of special meaning in the cluster's node file, to which these texts are written.
fn fits_node_file(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte > b',' && *byte != 0x7f && !b";<=>?@[]^{|}~\\".contains(byte))
}

pub(super) fn cluster_announce_ip(text: &[u8]) -> Result<(), &'static str> {
    require(text.len() <= IP_TEXT_BYTES_MAX, "cluster-announce-ip is too long")?;
    require(fits_node_file(text), "cluster-announce-ip contains invalid character")
}

pub(super) fn human_nodename(text: &[u8]) -> Result<(), &'static str> {
    require(fits_node_file(text), "Announced human node name contained invalid character")
}

pub(super) fn hostname(text: &[u8]) -> Result<(), &'static str> {
    require(text.len() <= HOSTNAME_BYTES_MAX, "Hostnames must be less than 256 characters")?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    require(text.iter().all(allowed), "Hostnames may only contain alphanumeric characters, hyphens or dots")
}

fn parses_as<T: std::str::FromStr>(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<T>().is_ok())
}

pub(super) fn ipv4(text: &[u8]) -> Result<(), &'static str> {
    require(text.is_empty() || parses_as::<Ipv4Addr>(text), "Invalid IPv4 address")
}

pub(super) fn ipv6(text: &[u8]) -> Result<(), &'static str> {
    require(text.is_empty() || parses_as::<Ipv6Addr>(text), "Invalid IPv6 address")
}

pub(super) fn hash_seed(text: &[u8]) -> Result<(), &'static str> {
    require(text.len() <= HASH_SEED_BYTES_MAX, "hash-seed must be less than or equal to 256 characters")
}

/// Checks that all `{variable}`s exist, and that the title is not empty even if title, mode and socket are; `{{` is a brace.
pub(super) fn proc_title_template(text: &[u8]) -> Result<(), &'static str> {
    require(shows_something(text) == Some(true), "template format is invalid or contains unknown variables")
}

/// `None` when the template is malformed.
fn shows_something(mut rest: &[u8]) -> Option<bool> {
    let mut shown = false;
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        shown |= rest[..open].iter().any(|byte| *byte != b' ');
        rest = &rest[open + 1..];
        if let Some(after) = rest.strip_prefix(b"{") {
            shown = true;
            rest = after;
            continue;
        }
        let close = rest.iter().position(|byte| *byte == b'}')?;
        match &rest[..close] {
            b"title" | b"server-mode" | b"unixsocket" => {}
            b"listen-addr" | b"config-file" | b"port" | b"tls-port" => shown = true,
            _ => return None,
        }
        rest = &rest[close + 1..];
    }
    Some(shown || rest.iter().any(|byte| *byte != b' '))
}
