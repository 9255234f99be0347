//! The append-only file: a directory with the data at one instant (the base), the commands since (increments, one
//! after the other), and a manifest that says which files those are.

pub mod append;
pub mod fsync;
pub mod manifest;
pub mod rewrite;

pub use append::Appender;
pub use manifest::{FileKind, Manifest};
