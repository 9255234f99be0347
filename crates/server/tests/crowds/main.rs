//! Crowds: the cost of a command does not grow with what it is not about. A crowd is anything of which clients can make
//! many: waiting clients, watched keys, patterns, scripts, databases, consumers, sources of a command. Each is built in two
//! sizes, N and 16 N, in an executor in this process, and three things are compared:
//!
//! 1. A command that has nothing to do with the crowd costs the same.
//! 2. A command about all of it costs in proportion.
//! 3. Once the crowd has gone, so have its cost and its memory.
//!
//! Cost is counted: debug builds count the elements that are visited, moved and hashed ([`structures::work`]).
#![cfg(debug_assertions)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clients;
mod data;
mod world;
