//! What programs that speak to a server share: how it is named on a command line, and how bytes go to it and come back.
//!
//! 1. [`ServerUri`] and [`TlsOptions`] are parts of a command line; [`Address`] says where a server is.
//! 2. [`Stream`] is a connection there, over TCP, a Unix socket or TLS.
//! 3. [`append_request`] encodes commands, [`Replies`] reads what comes back.
//! 4. [`print_bytes`] and [`tell`] write to the terminal.

#![forbid(unsafe_code)]

mod address;
mod options;
mod output;
mod replies;
mod request;
mod stream;
mod uri;

pub use address::Address;
pub use options::{TlsOptions, seconds};
pub use output::{print_bytes, printable, tell};
pub use replies::{Replies, info_field};
pub use request::{append_bulk, append_request, authentication};
pub use stream::{ConnectError, ConnectSettings, Encryption, Family, Stream, system_text};
pub use uri::ServerUri;
