//! The server, as a library: the binary is a thin shell around it, and tests run it in process.
//!
//! The life of a command, in the order of the modules that it meets:
//!
//! 1. [`net`] reads bytes from a socket and cuts them into requests (`wire::request`): arguments are slices of the
//!    connection's input buffer.
//! 2. [`engine`] looks the command up in the registry, passes it through the gate, which may refuse it, and calls the
//!    handler.
//! 3. [`commands`] has the handlers. A handler parses its arguments, reads and changes data through [`db`], writes one
//!    reply (`wire::reply`), and records its changes.
//! 4. [`command`] is between the two: the rows that describe commands, and the context of a handler.
//! 5. [`db`] finds the key, hides it if it is expired, and chooses how values are stored in `structures`.
//! 6. Back in [`engine`], effects follow from the recorded changes: broken transactions, stale client caches,
//!    notifications, unblocked clients.
//! 7. [`net`] writes each client's output once, when all requests of the tick have run.
//!
//! Besides these: [`session`] (state of clients), [`acl`] (users and permissions), [`persist`] (files), [`config`],
//! [`clock`], [`observe`] (counters and logs), and [`server`], which connects them.

// A length that is cut is another length. What is converted all the same says why: see `wire::convert`.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap))]
#![deny(missing_docs)]

pub mod acl;
pub mod clock;
pub mod command;
pub mod commands;
pub mod config;
pub mod db;
pub mod engine;
pub mod error;
pub mod net;
pub mod observe;
pub mod persist;
pub mod script;
pub mod server;
pub mod session;
pub mod start;
pub mod sys;
