//! The append-only file: a directory with a snapshot of the data (the base), the commands since (increments, in
//! sequence), and a manifest that lists these files.

pub mod append;
pub mod fsync;
pub mod manifest;
pub mod rewrite;

pub use append::Appender;
pub use fsync::Wake;
pub use manifest::{FileKind, Manifest};
