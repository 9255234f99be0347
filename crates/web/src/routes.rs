//! Paths and what each answers.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use wire::response::Value;

use crate::api::{self, Asker};
use crate::authorization::Credentials;
use crate::history::{Figures, History};
use crate::metrics::{self, Form, Replies};
use crate::session::{Session, SessionError};
use crate::{Server, console};

/// The server has so long to answer all that one request asks of it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Whoever guesses passwords waits so long for each.
const WRONG_PASSWORD_TAKES: Duration = Duration::from_millis(500);

/// What may be answered to a scrape.
const REPLIES_BYTES_MAX: usize = 64 << 20;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// Nothing that is answered here is a page, unless it says so.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// What paths of the console's API begin with.
const API: &str = "/api/";

type Answer = Response<Full<Bytes>>;

/// Why a request is not answered with what it asks for.
pub enum Refusal {
    Host,
    Origin,
    /// With those that are allowed.
    Method(&'static str),
    Unknown,
    /// A body that is no JSON.
    Type,
    Bad(String),
    TooLarge(String),
    /// Nobody, or somebody the server does not know.
    Unauthorized(String),
    /// Somebody who may not, in the server's words.
    Forbidden(String),
    Unavailable(String),
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Refusal::Unavailable(error.to_string())
    }
}

pub struct Routes {
    /// Lower-case names by which the machine may be asked for.
    hosts: Vec<String>,
    server: Arc<dyn Server>,
    history: Mutex<History>,
    room: api::Room,
}

impl Routes {
    pub fn new(hosts: Vec<String>, server: Arc<dyn Server>) -> Self {
        Routes {
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            server,
            history: Mutex::default(),
            room: api::Room::default(),
        }
    }

    /// Keeps what the server has done in the last second.
    pub fn note(&self, figures: Figures) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).note(figures);
    }

    pub async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Answer, Infallible> {
        let is_api = request.uri().path().starts_with(API);
        let answer = match self.route(&mut request, peer, local).await {
            Ok(answer) => answer,
            Err(refusal) => refused(refusal, is_api).await,
        };
        let (mut head, body) = answer.into_parts();
        for (name, value) in [
            (header::CACHE_CONTROL, "no-store"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ] {
            head.headers.insert(name, HeaderValue::from_static(value));
        }
        head.headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
        Ok(Response::from_parts(head, body))
    }

    async fn route(
        &self,
        request: &mut Request<Incoming>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Answer, Refusal> {
        self.check_host(request)?;
        check_origin(request)?;
        if request.uri().path() == "/api/commands" {
            if request.method() != Method::POST {
                return Err(Refusal::Method("POST"));
            }
            let asker = self.asker(request, peer, local)?;
            return Ok(answer(StatusCode::OK, JSON, api::commands(request, &asker, &self.room).await?));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Refusal::Method("GET, HEAD"));
        }
        if let Some(file) = console::file(request.uri().path()) {
            return Ok(page(file));
        }
        match request.uri().path() {
            "/api/history" => {
                let asker = self.asker(request, peer, local)?;
                let text = api::history(&self.history, request.uri().query(), &asker).await?;
                Ok(answer(StatusCode::OK, JSON, text))
            }
            "/api/options" => Ok(answer(StatusCode::OK, JSON, api::options(&*self.server))),
            "/metrics" => self.metrics(request, peer, local).await,
            "/health" => self.health(peer, local).await,
            "/ready" => Ok(self.ready()),
            _ => Err(Refusal::Unknown),
        }
    }

    /// A page of another site can be made to have a name that leads here, but it cannot choose an address or a name that
    /// is configured.
    fn check_host<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let name = host_name(host.ok_or(Refusal::Host)?).ok_or(Refusal::Host)?;
        let is_known = name.parse::<IpAddr>().is_ok() || name == "localhost" || self.hosts.contains(&name);
        if is_known { Ok(()) } else { Err(Refusal::Host) }
    }

    fn asker<B>(
        &self,
        request: &Request<B>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Asker<'_>, Refusal> {
        Ok(Asker { server: &*self.server, credentials: credentials(request)?, peer, local })
    }

    async fn metrics(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Answer, Refusal> {
        let credentials = credentials(request)?;
        let asked = self.ask_figures(credentials.as_ref(), peer, local);
        let replies = tokio::time::timeout(ANSWERED_WITHIN, asked)
            .await
            .map_err(|_| Refusal::Unavailable("the server does not answer in time".to_owned()))??;
        let form = Form::accepted(request.headers().get(header::ACCEPT).map(HeaderValue::as_bytes));
        let text = metrics::exposition(&replies, form);
        Ok(answer(StatusCode::OK, form.content_type(), text))
    }

    async fn ask_figures(
        &self,
        credentials: Option<&Credentials>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Replies, Refusal> {
        let mut session = Session::open(&*self.server, peer, local, REPLIES_BYTES_MAX)?;
        if let Some(credentials) = credentials {
            let replies = session.ask(&[credentials.command()]).await?;
            if let Some(Value::Error(text)) = replies.first() {
                return Err(refusal_of(shown(text), Refusal::Unauthorized));
            }
        }
        let mut replies = session.ask(&metrics::commands()).await?.into_iter();
        let mut info = String::new();
        for part in replies.by_ref().take(metrics::INFO_PARTS) {
            let text = shown(part.as_bytes().unwrap_or_default());
            match part {
                Value::Error(_) => return Err(refusal_of(text, Refusal::Unavailable)),
                _ => info.push_str(&text),
            }
        }
        // Who may not ask for one of these gets the rest.
        let mut next = || replies.next().filter(|value| !value.is_error());
        Ok(Replies { info, histograms: next(), slow_len: next(), slow_last: next() })
    }

    /// The server answers, be it with a refusal.
    async fn health(&self, peer: SocketAddr, local: SocketAddr) -> Result<Answer, Refusal> {
        let asked = async {
            let mut session = Session::open(&*self.server, peer, local, REPLIES_BYTES_MAX)?;
            session.ask(&[vec!["PING"]]).await
        };
        match tokio::time::timeout(ANSWERED_WITHIN, asked).await {
            Ok(Ok(_)) => Ok(answer(StatusCode::OK, TEXT, "ok\n".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Refusal::Unavailable("the server does not answer in time".to_owned())),
        }
    }

    fn ready(&self) -> Answer {
        match self.server.unready().as_slice() {
            [] => answer(StatusCode::OK, TEXT, "ready\n".to_owned()),
            reasons => {
                let lines = reasons.iter().map(|reason| format!("{reason}\n"));
                answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines.collect::<String>())
            }
        }
    }
}

/// Who asks, if the request says so.
fn credentials<B>(request: &Request<B>) -> Result<Option<Credentials>, Refusal> {
    let unknown = |_| Refusal::Unauthorized("Authorization is neither Basic nor Bearer".to_owned());
    let header = request.headers().get(header::AUTHORIZATION);
    header.map(|value| Credentials::parse(value.as_bytes()).map_err(unknown)).transpose()
}

/// What an error of the server means here, if its first word does not say, `or`.
pub fn refusal_of(text: String, or: fn(String) -> Refusal) -> Refusal {
    match text.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS") => Refusal::Unauthorized(text),
        Some("NOPERM" | "DENIED") => Refusal::Forbidden(text),
        _ => or(text),
    }
}

/// The name in `name:port`, in lower case; an address of IPv6 without its brackets.
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

/// Browsers say for which site's page they ask.
fn check_origin<B>(request: &Request<B>) -> Result<(), Refusal> {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_own = ["http://", "https://"]
        .iter()
        .any(|scheme| origin.as_bytes().strip_prefix(scheme.as_bytes()).is_some_and(|site| site == host));
    if is_own { Ok(()) } else { Err(Refusal::Origin) }
}

fn answer(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn page(file: &'static console::File) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(file.text.as_bytes())));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(console::POLICY));
    answer
}

async fn refused(refusal: Refusal, is_api: bool) -> Answer {
    let mut allowed = "";
    let (status, text) = match refusal {
        Refusal::Host => {
            (StatusCode::MISDIRECTED_REQUEST, "This host name is not configured (http-hosts)".to_owned())
        }
        Refusal::Origin => (StatusCode::FORBIDDEN, "Pages of other sites may not ask".to_owned()),
        Refusal::Method(methods) => {
            allowed = methods;
            (StatusCode::METHOD_NOT_ALLOWED, format!("Only {methods}"))
        }
        Refusal::Unknown => {
            (StatusCode::NOT_FOUND, "There are / (a page), /metrics, /health, /ready and /api".to_owned())
        }
        Refusal::Type => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type is to be application/json".to_owned())
        }
        Refusal::Bad(text) => (StatusCode::BAD_REQUEST, text),
        Refusal::TooLarge(text) => (StatusCode::PAYLOAD_TOO_LARGE, text),
        Refusal::Unauthorized(text) => {
            if text.starts_with("WRONGPASS") {
                tokio::time::sleep(WRONG_PASSWORD_TAKES).await;
            }
            (StatusCode::UNAUTHORIZED, text)
        }
        Refusal::Forbidden(text) => (StatusCode::FORBIDDEN, text),
        Refusal::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    };
    let mut answer = answer(status, TEXT, text + "\n");
    let headers = answer.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => {
            // Browsers ask for a password by themselves where it is basic; the console asks itself.
            let scheme = match is_api {
                true => "Bearer realm=\"warmline\"",
                false => "Basic realm=\"warmline\", charset=\"UTF-8\"",
            };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        _ => {}
    }
    answer
}

pub fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let asked = |origin: &str| {
            let request =
                Request::builder().header("host", "localhost:1").header("origin", origin).body(()).unwrap();
            check_origin(&request).is_ok()
        };
        assert!(asked("http://localhost:1") && asked("https://localhost:1"));
        for origin in ["http://localhost", "http://localhost:2", "null", "http://evil", "localhost:1", ""] {
            assert!(!asked(origin), "{origin}");
        }
    }
}
