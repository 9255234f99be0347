//! A node's view of its cluster, as a state machine: which nodes there are, who owns which slot, who has failed, who
//! replaces whom. It is a full member of clusters of Valkey 9 and its predecessors.
//!
//! ```text
//!  commands (methods), Input: frames, links, ticks, facts of the server
//!     |
//!     v
//!  Cluster --- Effect: for the executor, at once (replicate, delete keys, pause, log, ...)
//!     |
//!     +------- BusAction: for the bus thread, at the turn's end (connect, send, save nodes.conf)
//! ```
//!
//! Nothing here reads a socket, a file or a clock, and nothing is `unsafe`. What comes from the bus is not trusted:
//!
//! 1. Nodes and links are named by ids and looked up where they are needed, so that any frame may end any of them.
//! 2. Tables are bounded: nodes and forgotten nodes by [`NODES_MAX`], failure reports of a node by the number of nodes, links
//!    by what the bus thread accepts. Effects and frames are bounded by the inputs of a turn.
//! 3. What a crash must not undo is saved before others learn of it: see [`BusAction::Save`].
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod action;
mod claims;
mod cluster;
mod commands;
mod election;
mod epochs;
mod failure;
mod frames;
mod gossip;
mod links;
mod manual_failover;
mod membership;
mod migration;
mod node;
mod nodes;
mod persistence;
mod receive;
mod refusal;
mod roles;
mod settings;
mod slot_migration;
mod slots;
mod state;
mod statistics;
mod taken_slots;
#[cfg(test)]
mod tests;
mod tick;

pub use action::{BusAction, Effect, Facts, Flush, Input, Level, LinkId, Now};
pub use cluster::Cluster;
pub use commands::{Bumped, SlotState};
pub use links::LinkInfo;
pub use manual_failover::Failover;
pub use node::{Endpoints, Node};
pub use nodes::NODES_MAX;
pub use refusal::Refusal;
pub use settings::{Faults, FrameFilter, Settings};
pub use slot_migration::{
    Job, JobId, JobState, MigrationAction, MigrationEvent, MigrationFacts, MigrationRequest, Operation,
    Ranges, Word,
};
pub use statistics::Info;
pub use tick::TICK_MS;
