//! Bytes to values and back. Every byte that comes from outside the process enters here and is not trusted.
#![forbid(unsafe_code)]

pub mod glob;
pub mod number;
pub mod reply;
pub mod request;
pub mod response;

#[cfg(test)]
mod reference;
