//! Routes of requests and their answers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use wire::response::Value;

use crate::api::{self, Asker};
use crate::authorization::Credentials;
use crate::history::{Figures, History};
use crate::metrics::{self, Form, Replies};
use crate::request::{self, API, Asks, Refusal};
use crate::session::{Session, SessionError};
use crate::{Server, console};

/// Time limit of the server for all commands of a request.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// Delay of the reply to a wrong password.
const WRONG_PASSWORD_TAKES: Duration = Duration::from_millis(500);

/// Maximum size of the replies for a scrape.
const REPLIES_BYTES_MAX: usize = 64 << 20;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The default policy forbids all content.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

type Answer = Response<Full<Bytes>>;

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Refusal::Unavailable(error.to_string())
    }
}

/// State of all routes.
pub struct Routes {
    /// Permitted host names, in lower case.
    hosts: Vec<String>,
    server: Arc<dyn Server>,
    history: Mutex<History>,
    room: api::Room,
}

impl Routes {
    /// Creates the routes.
    pub fn new(hosts: Vec<String>, server: Arc<dyn Server>) -> Self {
        Routes {
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            server,
            history: Mutex::default(),
            room: api::Room::default(),
        }
    }

    /// Adds the server's figures to the history.
    pub fn note(&self, figures: Figures) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).note(figures);
    }

    /// Answers a request.
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
        let asker = |credentials| Asker { server: &*self.server, credentials, peer, local };
        match request::read(request, &self.hosts)? {
            Asks::File(file) => Ok(page(file)),
            Asks::Commands { credentials } => {
                let text = api::commands(request.body_mut(), &asker(credentials), &self.room).await?;
                Ok(answer(StatusCode::OK, JSON, text))
            }
            Asks::History { credentials, since } => {
                let text = api::history(&self.history, since, &asker(credentials)).await?;
                Ok(answer(StatusCode::OK, JSON, text))
            }
            Asks::Options => Ok(answer(StatusCode::OK, JSON, api::options(&*self.server))),
            Asks::Metrics { credentials, form } => self.metrics(credentials, form, peer, local).await,
            Asks::Health => self.health(peer, local).await,
            Asks::Ready => Ok(self.ready()),
        }
    }

    async fn metrics(
        &self,
        credentials: Option<Credentials>,
        form: Form,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Answer, Refusal> {
        let asked = self.request_figures(credentials.as_ref(), peer, local);
        let replies = tokio::time::timeout(ANSWERED_WITHIN, asked)
            .await
            .map_err(|_| Refusal::Unavailable("the server does not respond in time".to_owned()))??;
        let text = metrics::exposition(&replies, form);
        Ok(answer(StatusCode::OK, form.content_type(), text))
    }

    async fn request_figures(
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
        // A part that the user may not request is left out.
        let mut next = || replies.next().filter(|value| !value.is_error());
        let (histograms, slow_len, slow_last) = (next(), next(), next());
        let of_cluster = metrics::cluster_commands(&info);
        let mut replies = session.ask(&of_cluster).await?.into_iter();
        let mut next = || replies.next().filter(|value| !value.is_error());
        let (cluster_nodes, cluster_links, slot_migrations) = (next(), next(), next());
        let slot_stats = replies.filter(|value| !value.is_error()).collect();
        Ok(Replies {
            info,
            histograms,
            slow_len,
            slow_last,
            cluster_nodes,
            cluster_links,
            slot_migrations,
            slot_stats,
        })
    }

    /// Returns whether the server answers, even with an error.
    async fn health(&self, peer: SocketAddr, local: SocketAddr) -> Result<Answer, Refusal> {
        let asked = async {
            let mut session = Session::open(&*self.server, peer, local, REPLIES_BYTES_MAX)?;
            session.ask(&[vec!["PING"]]).await
        };
        match tokio::time::timeout(ANSWERED_WITHIN, asked).await {
            Ok(Ok(_)) => Ok(answer(StatusCode::OK, TEXT, "ok\n".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Refusal::Unavailable("the server does not respond in time".to_owned())),
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

/// Returns the refusal for an error reply: by its first word, else `or`.
pub fn refusal_of(text: String, or: fn(String) -> Refusal) -> Refusal {
    match text.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS") => Refusal::Unauthorized(text),
        Some("NOPERM" | "DENIED") => Refusal::Forbidden(text),
        _ => or(text),
    }
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
        Refusal::Origin => (StatusCode::FORBIDDEN, "Requests of other origins are not permitted".to_owned()),
        Refusal::Method(methods) => {
            allowed = methods;
            (StatusCode::METHOD_NOT_ALLOWED, format!("Permitted methods: {methods}"))
        }
        Refusal::Unknown => (
            StatusCode::NOT_FOUND,
            "Not found. Paths are / (the console), /metrics, /health, /ready and /api".to_owned(),
        ),
        Refusal::Type => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json".to_owned())
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
            // Browsers prompt for a password by themselves if the scheme is basic; the console has its own prompt.
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

/// Returns a text with invalid UTF-8 replaced.
pub fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
