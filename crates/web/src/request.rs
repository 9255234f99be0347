//! Parses the head of a request, without access to the server.

use std::net::IpAddr;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request};

use crate::authorization::Credentials;
use crate::console;
use crate::metrics::Form;

/// Path prefix of the console's API.
pub const API: &str = "/api/";

/// The target of a request.
pub enum Asks {
    /// A file of the console.
    File(&'static console::File),
    /// Commands to run.
    Commands {
        /// The credentials in the request, if any.
        credentials: Option<Credentials>,
    },
    /// Samples of the history.
    History {
        /// The credentials in the request, if any.
        credentials: Option<Credentials>,
        /// Only samples with a greater number.
        since: u64,
    },
    /// Metrics.
    Metrics {
        /// The credentials in the request, if any.
        credentials: Option<Credentials>,
        /// The accepted format.
        form: Form,
    },
    /// The table of options.
    Options,
    /// Whether the server responds.
    Health,
    /// Whether the server should receive traffic.
    Ready,
}

/// Why a request is refused.
pub enum Refusal {
    /// The host name is not configured.
    Host,
    /// The request is from a page of another origin.
    Origin,
    /// The method is not supported; the permitted ones.
    Method(&'static str),
    /// Unknown path.
    Unknown,
    /// The body's type is not JSON.
    Type,
    /// Invalid request, with the reason.
    Bad(String),
    /// A body or a reply exceeds its limit.
    TooLarge(String),
    /// Missing or wrong credentials.
    Unauthorized(String),
    /// The user lacks a permission, with the server's error.
    Forbidden(String),
    /// The server does not respond, with the reason.
    Unavailable(String),
}

/// Parses the head of a request. `hosts` are the permitted host names in lower case, in addition to addresses and
/// `localhost`.
///
/// # Errors
/// The host is unknown, the origin is another site, or the path is unknown.
pub fn read<B>(request: &Request<B>, hosts: &[String]) -> Result<Asks, Refusal> {
    let headers = request.headers();
    check_host(headers, hosts)?;
    check_origin(headers)?;
    let path = request.uri().path();
    if path == "/api/commands" {
        if request.method() != Method::POST {
            return Err(Refusal::Method("POST"));
        }
        let credentials = credentials(headers)?;
        check_content_type(headers)?;
        return Ok(Asks::Commands { credentials });
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method("GET, HEAD"));
    }
    if let Some(file) = console::file(path) {
        return Ok(Asks::File(file));
    }
    match path {
        "/api/history" => {
            Ok(Asks::History { credentials: credentials(headers)?, since: since(request.uri().query())? })
        }
        "/api/options" => Ok(Asks::Options),
        "/metrics" => {
            let form = Form::accepted(headers.get(header::ACCEPT).map(HeaderValue::as_bytes));
            Ok(Asks::Metrics { credentials: credentials(headers)?, form })
        }
        "/health" => Ok(Asks::Health),
        "/ready" => Ok(Asks::Ready),
        _ => Err(Refusal::Unknown),
    }
}

/// Checks the host. A page of another site can use a DNS name that resolves to this machine, but not an address or a
/// configured name.
fn check_host(headers: &HeaderMap, hosts: &[String]) -> Result<(), Refusal> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let name = host_name(host.ok_or(Refusal::Host)?).ok_or(Refusal::Host)?;
    let is_known = name.parse::<IpAddr>().is_ok() || name == "localhost" || hosts.contains(&name);
    if is_known { Ok(()) } else { Err(Refusal::Host) }
}

/// Returns the name in `name:port`, in lower case; an IPv6 address without its brackets.
fn host_name(host: &str) -> Option<String> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => match host.split_once(':') {
            Some((name, _)) => (name, &host[name.len()..]),
            None => (host, ""),
        },
    };
    let is_port = |digits: &str| digits.len() <= 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    is_whole.then(|| name.to_ascii_lowercase())
}

/// Checks the origin, which browsers send with requests of pages.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_own = ["http://", "https://"]
        .iter()
        .any(|scheme| origin.as_bytes().strip_prefix(scheme.as_bytes()).is_some_and(|site| site == host));
    if is_own { Ok(()) } else { Err(Refusal::Origin) }
}

/// Returns the credentials of a request, if there are any.
fn credentials(headers: &HeaderMap) -> Result<Option<Credentials>, Refusal> {
    let unknown = |_| Refusal::Unauthorized("Authorization is neither Basic nor Bearer".to_owned());
    let header = headers.get(header::AUTHORIZATION);
    header.map(|value| Credentials::parse(value.as_bytes()).map_err(unknown)).transpose()
}

/// Checks the content type: pages of other sites cannot send JSON without a preflight request.
fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let named = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = named.split(|&byte| byte == b';').next().unwrap_or_default();
    if essence.trim_ascii().eq_ignore_ascii_case(b"application/json") { Ok(()) } else { Err(Refusal::Type) }
}

fn since(query: Option<&str>) -> Result<u64, Refusal> {
    match query.unwrap_or("since=0").strip_prefix("since=").map(str::parse) {
        Some(Ok(number)) => Ok(number),
        _ => Err(Refusal::Bad("The query must be since=NUMBER".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Asks, Refusal> {
        let start = Request::builder().method(method).uri(path);
        let built = headers.iter().fold(start, |request, (name, value)| request.header(*name, *value));
        read(&built.body(()).unwrap(), &["example.org".to_owned()])
    }

    #[test]
    fn names_of_hosts() {
        for (host, name) in [
            ("localhost", Some("localhost")),
            ("LocalHost:80", Some("localhost")),
            ("[::1]:9121", Some("::1")),
            ("[::1]", Some("::1")),
            ("127.0.0.1:", Some("127.0.0.1")),
            ("a:b", None),
            ("a:1:2", None),
            ("[::1", None),
            ("[::1]x", None),
            ("a:123456", None),
        ] {
            assert_eq!(host_name(host).as_deref(), name, "{host}");
        }
        for (host, is_known) in [
            ("Example.ORG:1", true),
            ("127.0.0.1", true),
            ("[::1]:1", true),
            ("example.net", false),
            ("", false),
        ] {
            let answer = asked("GET", "/health", &[("host", host)]);
            assert_eq!(matches!(answer, Ok(Asks::Health)), is_known, "{host}");
            assert_eq!(matches!(answer, Err(Refusal::Host)), !is_known, "{host}");
        }
        assert!(matches!(asked("GET", "/health", &[]), Err(Refusal::Host)));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let refuses = |origin: &str| {
            let headers = [("host", "localhost:1"), ("origin", origin)];
            matches!(asked("GET", "/metrics", &headers), Err(Refusal::Origin))
        };
        assert!(!refuses("http://localhost:1") && !refuses("https://localhost:1"));
        for origin in ["http://localhost", "http://localhost:2", "null", "http://evil", "localhost:1", ""] {
            assert!(refuses(origin), "{origin}");
        }
    }

    #[test]
    fn each_path_is_asked_for_in_its_way() {
        let here = ("host", "localhost");
        let json = ("content-type", "Application/JSON; charset=utf-8");
        assert!(matches!(asked("POST", "/api/commands?x", &[here, json]), Ok(Asks::Commands { .. })));
        assert!(matches!(asked("POST", "/api/commands", &[here]), Err(Refusal::Type)));
        assert!(matches!(asked("GET", "/api/commands", &[here, json]), Err(Refusal::Method("POST"))));
        assert!(matches!(asked("HEAD", "/", &[here]), Ok(Asks::File(_))));
        assert!(matches!(asked("POST", "/", &[here]), Err(Refusal::Method("GET, HEAD"))));
        assert!(matches!(asked("GET", "/nothing", &[here]), Err(Refusal::Unknown)));
        assert!(matches!(asked("GET", "/api/history", &[here]), Ok(Asks::History { since: 0, .. })));
        assert!(matches!(asked("GET", "/api/history?since=7", &[here]), Ok(Asks::History { since: 7, .. })));
        assert!(matches!(asked("GET", "/api/history?since=-7", &[here]), Err(Refusal::Bad(_))));
        let login = ("authorization", "Bearer me:secret");
        let Ok(Asks::Metrics { credentials: Some(credentials), .. }) =
            asked("GET", "/metrics", &[here, login])
        else {
            panic!("metrics for somebody");
        };
        assert_eq!(credentials.command(), ["AUTH", "me", "secret"]);
        let unknown = ("authorization", "Digest x");
        assert!(matches!(asked("GET", "/metrics", &[here, unknown]), Err(Refusal::Unauthorized(_))));
        // Paths without authentication ignore the header.
        assert!(matches!(asked("GET", "/ready", &[here, unknown]), Ok(Asks::Ready)));
    }
}
