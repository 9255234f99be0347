//! The commands, one file per group: each command is a row beside its handler.

pub mod command_log;
pub mod config;
pub mod connection;
pub mod expiry;
pub mod generic;
pub mod hashes;
pub mod info;
pub mod latency;
pub mod object;
pub mod scan;
pub mod sets;
pub mod info;
pub mod object;
pub mod scan;
pub mod strings;
pub mod transactions;

use crate::command::{Args, Command, Context, Outcome};
use crate::error::ClientError;

/// Every row there is; the registry is built from it.
pub const GROUPS: &[&[Command]] = &[
    command_log::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    expiry::COMMANDS,
    generic::COMMANDS,
    hashes::COMMANDS,
    info::COMMANDS,
    latency::COMMANDS,
    object::COMMANDS,
    scan::COMMANDS,
    sets::COMMANDS,
    object::COMMANDS,
    scan::COMMANDS,
    strings::COMMANDS,
    transactions::COMMANDS,
];

/// The HELP of every command that has subcommands: what its rows say of them.
pub fn help(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let container = args.at(0).to_ascii_lowercase();
    let container = ctx.server.registry.named(&container).map(|id| ctx.server.registry.row(id));
    let Some(row) = container else { return Ok(ctx.reply.array(0)) };
    let mut lines = vec![format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        row.name.to_ascii_uppercase()
    )];
    for sub in row.subcommands {
        let word = sub.name.split_once('|').map_or(sub.name, |(_, word)| word).to_ascii_uppercase();
        lines.push(format!("{word} {}", sub.syntax).trim_end().to_owned());
        lines.push(format!("    {}", sub.summary));
    }
    ctx.reply.array(lines.len());
    for line in lines {
        ctx.reply.simple(&line);
    }
    Ok(())
}

/// A command that is only its subcommands: alone it has too few arguments.
/// A command that is only its subcommands: it has no meaning alone.
pub fn container(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    Err(ClientError::WrongArity { command: ctx.command.name.to_owned() })
}
