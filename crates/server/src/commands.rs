//! The commands, one file per group: each command is a row beside its handler.

pub mod acl;
pub mod bitmap;
pub mod client;
pub mod cluster;
pub mod command_log;
pub mod config;
pub mod connection;
pub mod debug;
pub mod expiry;
pub mod functions;
pub mod generic;
pub mod geo;
pub mod hashes;
pub mod hot_keys;
pub mod hyperloglog;
pub mod info;
pub mod introspection;
pub mod latency;
pub mod lists;
pub mod memory;
pub mod migrate;
pub mod modules;
mod multi_pop;
pub mod object;
pub mod persistence;
pub mod policy;
pub mod pubsub;
pub mod replication;
pub mod scan;
pub mod scripting;
pub mod server;
pub mod sets;
pub mod sort;
pub mod sorted_sets;
mod sources;
pub mod streams;
pub mod strings;
pub mod timeout;
pub mod transactions;

use crate::command::{Args, Command, Context, Outcome, syntax};
use crate::error::ClientError;

/// All rows; the registry is built from them.
pub const GROUPS: &[&[Command]] = &[
    acl::COMMANDS,
    bitmap::COMMANDS,
    client::COMMANDS,
    cluster::COMMANDS,
    command_log::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    expiry::COMMANDS,
    functions::COMMANDS,
    generic::COMMANDS,
    geo::COMMANDS,
    hashes::COMMANDS,
    hot_keys::COMMANDS,
    hyperloglog::COMMANDS,
    info::COMMANDS,
    introspection::COMMANDS,
    latency::COMMANDS,
    lists::COMMANDS,
    memory::COMMANDS,
    object::COMMANDS,
    migrate::COMMANDS,
    modules::COMMANDS,
    persistence::COMMANDS,
    policy::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    scan::COMMANDS,
    scripting::COMMANDS,
    server::COMMANDS,
    sets::COMMANDS,
    sort::COMMANDS,
    sorted_sets::COMMANDS,
    streams::COMMANDS,
    strings::COMMANDS,
    transactions::COMMANDS,
];

/// The HELP reply of every command with subcommands, generated from their rows.
pub fn help(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let container = args.at(0).to_ascii_lowercase();
    let container = ctx.server.registry.named(&container).map(|id| ctx.server.registry.row(id));
    let Some(row) = container else {
        ctx.reply.array(0);
        return Ok(());
    };
    let mut lines = vec![format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        row.name.to_ascii_uppercase()
    )];
    // HELP is the last entry.
    let word_of = |sub: &Command| sub.name.rsplit('|').next().unwrap_or_default().to_ascii_uppercase();
    let (help, others): (Vec<&Command>, Vec<&Command>) =
        row.subcommands.iter().partition(|sub| word_of(sub) == "HELP");
    for sub in others.into_iter().chain(help) {
        lines.extend(wrapped(&format!("{} {}", word_of(sub), syntax::usage(&syntax::parse(sub.syntax)))));
        lines.push(format!("    {}", sub.summary));
    }
    ctx.reply.array(lines.len());
    for line in lines {
        ctx.reply.simple(&line);
    }
    Ok(())
}

/// Wraps a long syntax over several lines, the later ones indented.
fn wrapped(call: &str) -> Vec<String> {
    const WIDTH: usize = 90;
    let mut lines = vec![String::new()];
    for word in call.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < WIDTH => *line += &format!(" {word}"),
            _ => lines.push(format!("         {word}")),
        }
    }
    lines
}

/// The handler of a command that has only subcommands: without one it has too few arguments.
pub fn container(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    Err(ClientError::WrongArity { command: ctx.command.name.to_owned() })
}

/// The error for a subcommand with invalid arguments.
pub fn unknown_subcommand(command: &Command, args: Args<'_>) -> ClientError {
    let container = command.name.split('|').next().unwrap_or(command.name);
    ClientError::UnknownSubcommand {
        command: container.to_ascii_uppercase(),
        subcommand: String::from_utf8_lossy(args.at(1)).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::GROUPS;
    use crate::command::args::OwnedArgs;
    use crate::command::registry::{Registry, RenameError};

    #[test]
    fn every_row_has_a_syntax_that_can_be_read() {
        for row in GROUPS.iter().flat_map(|group| group.iter()) {
            crate::command::syntax::parse(row.syntax);
            row.subcommands.iter().for_each(|sub| drop(crate::command::syntax::parse(sub.syntax)));
        }
    }

    #[test]
    fn a_command_of_one_key_has_no_other_whatever_its_arguments_are() {
        let rows = GROUPS.iter().flat_map(|group| group.iter());
        for row in rows.flat_map(|row| std::iter::once(row).chain(row.subcommands)).filter(|row| row.one_key)
        {
            for len in 1..8 {
                let args = OwnedArgs::new((0..len).map(|_| &b"3"[..]));
                let mut found = Vec::new();
                for spec in row.keys {
                    spec.positions(args.view(), &mut |at| found.push(at));
                }
                let expected = (len > row.first_key).then_some(row.first_key);
                assert_eq!(found, Vec::from_iter(expected), "{} with {len} words", row.name);
            }
        }
    }

    #[test]
    fn what_only_reads_and_writes_data_is_plain() {
        let registry = Registry::new(GROUPS);
        let is_plain = |name: &str| registry.is_plain(registry.named(name.as_bytes()).unwrap());
        let plain = "get set del mget mset incr expire ttl rename copy move object|encoding append bitcount pfadd geosearch \
            hset hget hgetall hexpire lpush lpop lmpop sadd spop sunionstore zadd zmpop zrange xadd xrange xgroup|create sort";
        assert!(plain.split_whitespace().all(is_plain));
        // Their handlers request a [`Next`], or change clients, other keys or the server.
        let others = "migrate blpop blmove bzmpop xread xreadgroup scan keys randomkey select multi exec watch subscribe \
            publish eval fcall client|reply client|tracking config|set debug flushall swapdb wait waitaof memory|usage hello \
            auth reset quit monitor replicaof failover sync acl|setuser script|kill function|load shutdown bgsave info ping";
        assert_eq!(others.split_whitespace().find(|name| is_plain(name)), None);
    }

    #[test]
    fn renamed_commands_are_found_by_their_new_names_only() {
        let mut registry = Registry::new(GROUPS);
        let ping = registry.named(b"ping").unwrap();
        assert_eq!(registry.rename(b"PING", b"Knock"), Ok(()));
        assert_eq!((registry.named(b"ping"), registry.named(b"KNOCK")), (None, Some(ping)));
        assert_eq!(registry.rename(b"ping", b"x"), Err(RenameError::Unknown));
        assert_eq!(registry.rename(b"echo", b"knock"), Err(RenameError::Taken));
        assert_eq!(registry.rename(b"echo", &[b'x'; 100]), Err(RenameError::TooLong));
        assert_eq!(registry.rename(b"echo", b""), Ok(()));
        assert_eq!((registry.named(b"echo"), registry.named(b"")), (None, None));
    }
}
