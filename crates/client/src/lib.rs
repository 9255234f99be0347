//! Shared code of programs that connect to a server: its address on a command line, connections, requests and
//! replies.
//!
//! 1. [`ServerUri`] and [`TlsOptions`] are parts of a command line; [`Address`] is a server's address.
//! 2. [`Stream`] is a connection over TCP, a Unix socket or TLS.
//! 3. [`append_request`] encodes commands, [`Replies`] decodes replies.
//! 4. [`print_bytes`] and [`eprint_line`] write to the terminal.

#![deny(missing_docs)]
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
pub use output::{eprint_line, print_bytes, printable};
pub use replies::{Replies, info_field};
pub use request::{append_bulk, append_request, authentication};
pub use stream::{ConnectError, ConnectSettings, Encryption, Family, Stream, system_text};
pub use uri::ServerUri;
