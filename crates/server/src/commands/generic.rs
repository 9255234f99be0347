//! Keys, whatever they hold: DEL, EXISTS, and their like.

use crate::command::flag::{FAST, READONLY, WRITE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::EventClasses;

pub const COMMANDS: &[Command] = &[
    Command::new("del", -2, Group::Generic, del)
        .flags(WRITE)
        .keys(&[KeySpec::range(1, -1, 1, access::RM | access::DELETE)])
        .since("1.0.0", "O(N) where N is the number of keys")
        .doc("Removes keys.", "key [key ...]")
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    Command::new("exists", -2, Group::Generic, exists)
        .flags(READONLY | FAST)
        .keys(&[KeySpec::range(1, -1, 1, access::RO)])
        .since("1.0.0", "O(N) where N is the number of keys")
        .doc("Counts how many of the keys exist; one named twice counts twice.", "key [key ...]")
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
];

fn del(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut removed = 0;
    for key in args.from(1).iter() {
        if ctx.db.remove(key) {
            ctx.db.changed(EventClasses::GENERIC, "del", key);
            removed += 1;
        }
    }
    ctx.reply.integer(removed);
    Ok(())
}

fn exists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = args.from(1).iter().filter(|key| ctx.db.exists(key)).count();
    ctx.reply.integer(found as i64);
    Ok(())
}
