//! Client sessions: one [`Client`] each, and the tables that connect them (channels, watched keys, tracked keys,
//! blocked commands). Pure state: no sockets, no data.

pub mod blocked;
pub mod claimed;
pub mod client;
pub mod clients;
pub mod held_output;
pub mod members;
pub mod name_table;
pub mod pubsub;
pub mod tracking;
pub mod watch;

pub use blocked::{BlockRequest, BlockedOn, SavedReply, TimeoutReply};
pub use client::{Client, ReplyMode};
pub use clients::{ClientHandle, ClientId, Clients};
