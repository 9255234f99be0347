//! What `CONTAINER HELP` answers: one entry for each subcommand, made from its row.

use super::{Command, Context};

/// Answers with the subcommands of the container that the command at hand belongs to.
pub fn reply_subcommands(ctx: &mut Context<'_>) {
    let (container, _) = ctx.command.name.split_once('|').expect("HELP is a subcommand");
    let id = ctx.server.registry.named(container.as_bytes()).expect("a subcommand's container is registered");
    let row = ctx.server.registry.row(id);
    let mark = ctx.reply.begin_array();
    let mut lines = 1;
    let head = container.to_ascii_uppercase();
    ctx.reply.simple(&format!("{head} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for sub in row.subcommands.iter().filter(|sub| !is_help(sub)) {
        let word = sub.name.split_once('|').map_or(sub.name, |(_, word)| word).to_ascii_uppercase();
        ctx.reply.simple(format!("{word} {}", sub.syntax).trim_end());
        ctx.reply.simple(&format!("    {}", sub.summary));
        lines += 2;
    }
    ctx.reply.simple("HELP");
    ctx.reply.simple("    Print this help.");
    ctx.reply.end_array(mark, lines + 2);
}

/// Answers with lines given as pairs of a syntax and what it does, for containers whose words are not commands.
pub fn reply_words(ctx: &mut Context<'_>, words: &[(&str, &str)]) {
    ctx.reply.array(words.len() * 2 + 3);
    let head = ctx.command.name.to_ascii_uppercase();
    ctx.reply.simple(&format!("{head} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (syntax, effect) in words.iter().chain(&[("HELP", "Print this help.")]) {
        ctx.reply.simple(syntax);
        ctx.reply.simple(&format!("    {effect}"));
    }
}

fn is_help(row: &Command) -> bool {
    row.name.ends_with("|help")
}
