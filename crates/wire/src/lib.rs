//! Bytes to values and back. Every byte that comes from outside the process enters here and is not trusted.
//!
//! | module | bytes |
//! |---|---|
//! | [`request`] | what clients send: commands as ranges of the connection's buffer |
//! | [`reply`] | what clients get, in both versions of the protocol |
//! | [`response`] | what our own tools read from a server |
//! | [`number`] | integers, doubles and 80-bit floats as text |
//! | [`glob`] | patterns |
//! | [`spelling`] | names that a mistyped word was meant to be |
//! | [`aof`] | append-only files |
//! | [`cluster_bus`] | frames that the nodes of a cluster send each other |
//! | [`nodes_conf`] | the file that a node of a cluster keeps, and lines of CLUSTER NODES |
//! | [`rdb`] | the elements of RDB files and DUMP payloads |
//! | [`ziplist`], [`zipmap`] | compact collections as servers before version 7 wrote them |
//! | [`convert`] | none: conversions between integers, by name |
//! | [`crc64`] | the checksum of RDB and DUMP |
//!
//! Nothing here reads a socket, a file or a clock, and nothing is `unsafe`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// A length that is cut is another length. What is converted all the same says why: see `convert`.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap))]

pub mod aof;
pub mod cluster_bus;
pub mod convert;
pub mod crc64;
pub mod glob;
pub mod nodes_conf;
pub mod number;
pub mod rdb;
pub mod reply;
pub mod request;
pub mod response;
pub mod spelling;
pub mod ziplist;
pub mod zipmap;

#[cfg(test)]
mod reference;
