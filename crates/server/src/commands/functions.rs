//! FUNCTION, as far as it concerns a server that holds no function libraries: there are none to list, and flushing
//! leaves none. Loading one is not offered yet and answers as an unknown subcommand.

use crate::command::flag::{NO_SCRIPT, WRITE};
use crate::command::{Args, Command, Context, Group, Outcome};
use crate::error::ClientError;

pub const COMMANDS: &[Command] = &[Command::new("function", -2, Group::Scripting, super::container)
    .since("7.0.0", "Depends on the subcommand")
    .doc("Libraries of functions.", "")
    .subcommands(&[
        Command::new("function|flush", -2, Group::Scripting, flush)
            .flags(NO_SCRIPT | WRITE)
            .since("7.0.0", "O(N) where N is the number of functions")
            .doc("Removes all libraries.", "[ASYNC | SYNC]")
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
        Command::new("function|help", 2, Group::Scripting, super::help)
            .since("7.0.0", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("function|list", -2, Group::Scripting, list)
            .flags(NO_SCRIPT)
            .since("7.0.0", "O(N) where N is the number of functions")
            .doc("Describes all libraries.", "[LIBRARYNAME library-name-pattern] [WITHCODE]")
            .tips(&["nondeterministic_output_order"]),
    ])];

fn flush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 || args.len() == 3 && !args.is(2, "ASYNC") && !args.is(2, "SYNC") {
        return Err(ClientError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    ctx.reply.ok();
    Ok(())
}

fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "LIBRARYNAME") && at + 1 < args.len() {
            at += 1;
        } else if args.is(at, "LIBRARYNAME") {
            return Err(ClientError::text("ERR library name argument was not given"));
        } else if !args.is(at, "WITHCODE") {
            let word = String::from_utf8_lossy(args.at(at));
            return Err(ClientError::formatted(format!("ERR Unknown argument {word}")));
        }
        at += 1;
    }
    ctx.reply.array(0);
    Ok(())
}
