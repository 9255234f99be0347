//! In-memory data structures whose cost is counted in cache-line fetches.
//!
//! No I/O, no clock, no configuration, no globals (except counts of work in debug builds): time, seeds and randomness are
//! arguments. Clever `unsafe` is confined to this crate; each block cites the invariant that makes it sound.
#![deny(missing_docs)]

pub mod bits;
mod byte_compare;
pub mod decimal;
pub mod exact_bytes;
pub mod expiring_list;
pub mod ghost;
pub mod hash;
pub mod hyperloglog;
pub mod integer_set;
pub mod key_slot;
pub mod key_table;
mod linear_hash;
pub mod listpack;
pub mod lzf;
#[cfg(test)]
mod model;
pub mod ordered_set;
pub mod packed_list;
pub mod packed_map;
pub mod prefetch;
pub mod radix_tree;
pub mod random;
pub mod record;
pub mod shared_log;
pub mod short_bytes;
pub mod size_class;
pub mod stream;
mod tag_order;
mod thin_bytes;
pub mod unaligned_box;
pub mod work;
