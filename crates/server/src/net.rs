//! Sockets: listening, reading requests, writing replies. Connections are private to this module; the executor handles
//! clients.

mod accept;
pub mod bus;
pub mod bus_turns;
mod by_handle;
mod channel;
pub mod clients_cron;
pub mod connection;
pub mod event_loop;
pub mod files;
mod handshakes;
mod http;
mod inline;
mod io_thread;
pub mod listener;
pub mod listeners;
pub mod listening;
mod outgoing;
pub mod poller;
pub mod process_settings;
pub mod process_title;
pub mod query_buffer;
mod remote;
mod replicas;
pub mod signals;
mod sockets;
pub mod stand_in;
mod threads;
pub mod tls_context;
pub mod transport;

pub use event_loop::EventLoop;
