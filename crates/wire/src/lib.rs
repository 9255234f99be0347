//! Bytes to values and back. Every byte that comes from outside the process enters here and is not trusted.
#![forbid(unsafe_code)]

pub mod number;
pub mod reply;
pub mod request;

#[cfg(test)]
mod reference;
