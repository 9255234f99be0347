//! The ACL categories of a command: derived from its flags and its group; few rows name further ones.

use super::{Command, flag};

/// In the order in which COMMAND INFO and ACL CAT list them.
pub const NAMES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Whether the command is in the category; `category` is the name without the `@`.
pub fn contains(row: &Command, category: &str) -> bool {
    let scripting = row.group == super::Group::Scripting;
    row.categories.contains(&category)
        || row.own_category() == Some(category)
        || match category {
            "write" => row.is(flag::WRITE),
            "read" => row.is(flag::READONLY) && !scripting,
            "admin" => row.is(flag::ADMIN),
            "dangerous" => row.is(flag::ADMIN),
            "pubsub" => row.is(flag::PUBSUB),
            "fast" => row.is(flag::FAST),
            "slow" => !row.is(flag::FAST),
            "blocking" => row.is(flag::BLOCKING),
            _ => false,
        }
}

/// The command's categories, in the order of [`NAMES`].
pub fn of(row: &Command) -> impl Iterator<Item = &'static str> + '_ {
    NAMES.iter().copied().filter(|category| contains(row, category))
}
