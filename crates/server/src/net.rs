//! Sockets: listening, reading requests, writing replies. The only module that knows what a connection is made
//! of; the executor sees clients.

mod accept;
pub mod connection;
pub mod host;
pub mod intake;
mod io_thread;
pub mod listener;
pub mod poller;
mod post;
mod remote;
pub mod signals;
pub mod surroundings;
pub mod sweep;
mod threads;

pub use host::Host;
