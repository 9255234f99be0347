//! Formats users with their rules, and the log of refusals.

use super::at_most;
use crate::acl::Selector;
use crate::command::{Args, Context, Outcome};
use wire::convert::signed_count;
use wire::reply::ReplyBuffer;

pub(super) fn users(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let users = ctx.server.users.iter();
    ctx.reply.array(users.len());
    users.for_each(|user| ctx.reply.bulk(&user.name));
    Ok(())
}

pub(super) fn list(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let users = ctx.server.users.iter();
    ctx.reply.array(users.len());
    users.for_each(|user| ctx.reply.bulk(&[b"user ", &user.name[..], b" ", &user.describe()].concat()));
    Ok(())
}

pub(super) fn get_user(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let users = &ctx.server.users;
    let Some(user) = users.named(args.at(2)).and_then(|user| users.get(user)) else {
        ctx.reply.null();
        return Ok(());
    };
    let reply = &mut *ctx.reply;
    reply.map(7);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().for_each(|digest| reply.bulk(digest.to_string().as_bytes()));
    reply_selector(reply, &user.root);
    reply.bulk(b"selectors");
    reply.array(user.others.len());
    for selector in &user.others {
        reply.map(4);
        reply_selector(reply, selector);
    }
    Ok(())
}

fn reply_selector(reply: &mut ReplyBuffer, selector: &Selector) {
    let fields: [(&str, Vec<u8>); 4] = [
        ("commands", selector.command_rules()),
        ("keys", selector.key_rules()),
        ("channels", selector.channel_rules()),
        ("databases", selector.database_rule()),
    ];
    for (name, rules) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(&rules);
    }
}

/// The number of entries shown by default.
const ENTRIES_SHOWN: i64 = 10;

pub(super) fn log(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    at_most(args, 3)?;
    if args.is(2, "RESET") {
        ctx.server.users.log.clear();
        ctx.reply.ok();
        return Ok(());
    }
    let count = if args.len() == 3 { args.integer(2)? } else { ENTRIES_SHOWN };
    let entries = ctx.server.users.log.iter();
    let count = entries.len().min(usize::try_from(count).unwrap_or(0));
    let now_ms = ctx.server.now.unix_ms();
    let reply = &mut *ctx.reply;
    reply.array(count);
    for entry in entries.take(count) {
        reply.map(10);
        reply.bulk(b"count");
        reply.count(entry.count);
        for (name, text) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.context.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user_name),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double((now_ms - entry.updated_unix_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(&entry.client_info);
        for (name, number) in [
            ("entry-id", signed_count(entry.id)),
            ("timestamp-created", entry.created_unix_ms),
            ("timestamp-last-updated", entry.updated_unix_ms),
        ] {
            reply.bulk(name.as_bytes());
            reply.integer(number);
        }
    }
    Ok(())
}
