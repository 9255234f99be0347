//! MODULE: extensions of the server. Loading is not supported; the script engine is listed as a module, as clients expect.

use crate::command::flag::{ADMIN, LOADING, NO_SCRIPT, STALE};
use crate::command::{Args, Command, Context, Group, Outcome};
use wire::reply::ReplyBuffer;

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("module", -2, Group::Server, super::container)
    .since("4.0.0", "Depends on subcommand.")
    .doc("Shows loaded modules.", "")
    .subcommands(&[
        Command::new("module|help", 2, Group::Server, super::help)
            .flags(LOADING | STALE)
            .since("5.0.0", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("module|list", 2, Group::Server, list)
            .flags(ADMIN | NO_SCRIPT)
            .since("4.0.0", "O(N) where N is the number of loaded modules.")
            .doc("Lists loaded modules.", "")
            .tips(&["nondeterministic_output_order"]),
    ])];

fn list(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    reply_modules(ctx.reply);
    Ok(())
}

/// Writes the list of modules for MODULE LIST and HELLO.
pub fn reply_modules(reply: &mut ReplyBuffer) {
    reply.array(1);
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(b"lua");
    reply.bulk(b"ver");
    reply.integer(1);
    reply.bulk(b"path");
    reply.bulk(b"lua");
    reply.bulk(b"args");
    reply.array(0);
}
