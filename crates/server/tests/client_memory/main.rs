//! Whatever a client makes the server hold is in its `tot-mem`, within `maxmemory-clients`, and given back: for each such
//! holding (`docs/memory.md` has the table) a client makes the server hold much of it, and what its `tot-mem` has grown by is
//! compared with what the allocator has handed out.
//!
//! `holdings.rs` does so in this process, to the byte; `sockets.rs` with servers, whose connections hold what has been read.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod holdings;
#[path = "../process/mod.rs"]
mod process;
mod sockets;
mod world;
