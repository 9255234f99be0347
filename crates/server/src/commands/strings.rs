//! Strings.

use crate::command::flag::{DENY_OOM, FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::EventClasses;

pub const COMMANDS: &[Command] = &[
    Command::new("get", 2, Group::String, get)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::one(1, access::RO | access::ACCESS)])
        .since("1.0.0", "O(1)")
        .doc("Answers the string at a key.", "key"),
    Command::new("set", -3, Group::String, set)
        .flags(WRITE | DENY_OOM)
        .keys(&[KeySpec::one(1, access::RW | access::ACCESS | access::UPDATE | access::VARIABLE_FLAGS)])
        .since("1.0.0", "O(1)")
        .doc("Stores a string at a key, whatever was there.", "key value"),
];

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match ctx.db.read_text(args.at(1))? {
        Some(text) => text.reply(ctx.reply),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    ctx.db.put_text(key, args.at(2), None);
    ctx.db.changed(EventClasses::STRING, "set", key);
    ctx.reply.ok();
    Ok(())
}
