//! The commands, one file per group: each command is a row beside its handler.

pub mod connection;
pub mod generic;
pub mod strings;
pub mod transactions;

use crate::command::Command;

/// Every row there is; the registry is built from it.
pub const GROUPS: &[&[Command]] =
    &[connection::COMMANDS, generic::COMMANDS, strings::COMMANDS, transactions::COMMANDS];
