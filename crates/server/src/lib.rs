//! The server, as a library: the binary is a thin shell around it, and tests run it in process.

pub mod config;
