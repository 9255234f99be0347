//! What the server answers over HTTP: metrics, whether it lives, whether it is ready, and a console with its API.
//!
//! ```text
//!  scraper, browser -- HTTP --> this thread: TLS if it is spoken, limits, host, method, route
//!                        | a connection as any client's, with the user that the request names
//!                        v
//!                      the server's event loop: INFO, LATENCY HISTOGRAM, SLOWLOG; what a request to the API names
//! ```
//!
//! 1. Everything that is answered about the server's data and clients comes from commands, asked for as the user that the
//!    request names: permissions are the server's, and have no second home here. The history alone is made of figures that
//!    this thread receives each second; it is for users who may run INFO.
//! 2. Nothing here runs on the thread that runs commands, and each connection, request and answer has a limit.
//! 3. A page of another site learns nothing: the host that a request names must be known, and none may ask for it.

#![forbid(unsafe_code)]

mod api;
mod authorization;
mod console;
mod history;
mod info;
pub mod json;
mod listener;
mod metrics;
pub mod request;
mod routes;
mod rows;
mod session;

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

pub use history::{Counters, Figures, Gauges, LATENCY_BUCKETS, LATENCY_FIRST_NS};
pub use hyper::Request;
pub use info::{is_measure, metric_of};
pub use listener::{Thread, start};
pub use tokio_rustls::rustls::ServerConfig;

/// What this needs of the server whose figures it shows.
pub trait Server: Send + Sync + 'static {
    /// A connection to it, for somebody at `peer` who has come to `local`.
    ///
    /// # Errors
    /// The server accepts no more connections, or the process has no more files.
    fn connect(&self, peer: SocketAddr, local: SocketAddr) -> io::Result<UnixStream>;

    /// What those who come now speak TLS by, where that is spoken; `None`: there is nothing to speak it by.
    fn tls(&self) -> Option<Arc<ServerConfig>>;

    /// Has a line logged; may forget it where there are many.
    fn warn(&self, text: String);

    /// Why clients should not be sent there now; empty when they may be.
    fn unready(&self) -> Vec<&'static str>;

    /// Returns whether a command may be run over HTTP by any user.
    fn judge(&self, words: &[Vec<u8>]) -> Verdict;

    /// Has the server call `answer` with what it has done; it may also drop it.
    fn ask_figures(&self, answer: Box<dyn FnOnce(Figures) + Send>);

    /// What the manual says of each option.
    fn options(&self) -> Vec<OptionText>;
}

/// What is to become of a command that has come over HTTP.
pub struct Verdict {
    /// The error that is its reply: it could change something, or would not be answered as others are.
    pub refusal: Option<String>,
    /// Those behind it are a transaction, by whatever name it has been called.
    pub opens_transaction: bool,
}

/// An option, for a person.
pub struct OptionText {
    pub name: String,
    /// As CONFIG GET has it.
    pub default: String,
    pub section: String,
    /// Which values it takes.
    pub takes: String,
    pub text: String,
    /// It can only be set at the start.
    pub is_fixed: bool,
}

/// What people choose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names of this machine by which it may be asked for; addresses and `localhost` always may.
    pub hosts: Vec<String>,
    /// TLS is spoken, and nothing else.
    pub speaks_tls: bool,
    /// Connections at a time; more are closed at once.
    pub connections_max: usize,
}
