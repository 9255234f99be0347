//! The commands, one file per group: each command is a row beside its handler.

pub mod config;
pub mod connection;
pub mod generic;
pub mod info;
pub mod strings;
pub mod transactions;

use crate::command::{Args, Command, Context, Outcome};
use crate::error::ClientError;

/// Every row there is; the registry is built from it.
pub const GROUPS: &[&[Command]] = &[
    config::COMMANDS,
    connection::COMMANDS,
    generic::COMMANDS,
    info::COMMANDS,
    strings::COMMANDS,
    transactions::COMMANDS,
];

/// A command that is only its subcommands: it has no meaning alone.
pub fn container(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    Err(ClientError::WrongArity { command: ctx.command.name.to_owned() })
}
