//! Sockets: listening, reading requests, writing replies. The only module that knows what a connection is made
//! of; the executor sees clients.

mod accept;
pub mod connection;
pub mod host;
pub mod listener;
pub mod poller;
pub mod surroundings;
pub mod sweep;

pub use host::Host;
