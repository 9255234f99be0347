//! HTTP server: metrics, health, readiness, and a console with its API.
//!
//! ```text
//!  scraper, browser -- HTTP --> this thread: TLS if enabled, limits, host, method, route
//!                        | a client's connection, with the user that the request names
//!                        v
//!                      the server's event loop: INFO, LATENCY HISTOGRAM, SLOWLOG; commands of requests to the API
//! ```
//!
//! 1. All information about data and clients is obtained by commands of the user that the request names, so the
//!    server checks the permissions. Only the history is made of counters that this thread receives each second; it
//!    requires the permission for INFO.
//! 2. Nothing here runs on the executor thread, and each connection, request and answer has a limit.
//! 3. Pages of other sites receive nothing: the host of a request must be known, and its origin must be the server's
//!    own.

#![deny(missing_docs)]
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

/// The interface to the server.
pub trait Server: Send + Sync + 'static {
    /// Opens a client connection for a peer at `peer` that is connected to `local`.
    ///
    /// # Errors
    /// The server accepts no more connections, or the process has too many open files.
    fn connect(&self, peer: SocketAddr, local: SocketAddr) -> io::Result<UnixStream>;

    /// Returns the TLS configuration for new connections; `None` if there is none.
    fn tls(&self) -> Option<Arc<ServerConfig>>;

    /// Logs a line; frequent lines may be dropped.
    fn warn(&self, text: String);

    /// Returns the reasons why the server should not receive traffic; empty if it should.
    fn unready(&self) -> Vec<&'static str>;

    /// Returns whether a command may be run over HTTP by any user.
    fn judge(&self, words: &[Vec<u8>]) -> Verdict;

    /// Asks the server to call `answer` with its figures; it may also drop the request.
    fn request_figures(&self, answer: Box<dyn FnOnce(Figures) + Send>);

    /// Returns the documentation of all options.
    fn options(&self) -> Vec<OptionText>;
}

/// The decision about a command received over HTTP.
pub struct Verdict {
    /// The error reply, if the command has side effects or cannot be answered as a single reply.
    pub refusal: Option<String>,
    /// The command starts a transaction, by any name.
    pub opens_transaction: bool,
}

/// The documentation of an option.
pub struct OptionText {
    /// Name of the option.
    pub name: String,
    /// Default in the syntax of CONFIG GET.
    pub default: String,
    /// Title of the section.
    pub section: String,
    /// Permitted values.
    pub takes: String,
    /// Description.
    pub text: String,
    /// Whether it can only be set at the start.
    pub is_fixed: bool,
}

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Permitted host names, in addition to addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether TLS is required.
    pub speaks_tls: bool,
    /// Maximum number of connections; further ones are closed at once.
    pub connections_max: usize,
}
