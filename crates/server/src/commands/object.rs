//! OBJECT: the internal representation of a value.

use crate::command::flag::{LOADING, READONLY, STALE};
use crate::command::{Args, Command, Context, Group, KeySpec, Outcome, access};
use crate::db::Value;
use crate::error::ClientError;
use wire::convert::signed_count;

const LOOKS: [KeySpec; 1] = [KeySpec::one(2, access::RO)];
const CHANGING: &[&str] = &["nondeterministic_output"];

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[Command::new("object", -2, Group::Generic, help)
    .since("2.2.3", "Depends on the subcommand")
    .doc("Shows how a value is stored.", "")
    .subcommands(&[
        Command::new("object|encoding", 3, Group::Generic, encoding)
            .flags(READONLY)
            .keys(&LOOKS)
            .since("2.2.3", "O(1)")
            .doc("Returns the encoding that a reference server would use for the value.", "key")
            .tips(CHANGING),
        Command::new("object|freq", 3, Group::Generic, freq)
            .flags(READONLY)
            .keys(&LOOKS)
            .since("4.0.0", "O(1)")
            .doc("Returns a key's logarithmic access frequency.", "key")
            .tips(CHANGING),
        Command::new("object|help", 2, Group::Generic, help)
            .flags(LOADING | STALE)
            .since("6.2.0", "O(1)")
            .doc("Lists the subcommands.", ""),
        Command::new("object|idletime", 3, Group::Generic, idletime)
            .flags(READONLY)
            .keys(&LOOKS)
            .since("2.2.3", "O(1)")
            .doc("Returns the seconds since a key's last access.", "key")
            .tips(CHANGING),
        Command::new("object|layout", 3, Group::Generic, layout)
            .flags(READONLY)
            .keys(&LOOKS)
            .since("9.1.0", "O(N) where N is the number of pages or nodes")
            .doc("Returns the layout of a value in memory: structure, pages, fill and bytes.", "key"),
        Command::new("object|refcount", 3, Group::Generic, refcount)
            .flags(READONLY)
            .keys(&LOOKS)
            .since("2.2.3", "O(1)")
            .doc("Returns the value's reference count, which is always 1.", "key")
            .tips(CHANGING),
    ])];

fn help(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    super::help(ctx, args)
}

/// Passes the value to `shown`; replies null if there is none.
fn look(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    shown: impl FnOnce(Value<'_>) -> Result<Shown, ClientError>,
) -> Outcome {
    match ctx.db.describe(args.key(2)) {
        None => ctx.reply.null(),
        Some(value) => match shown(value)? {
            Shown::Word(word) => ctx.reply.bulk(word.as_bytes()),
            Shown::Number(n) => ctx.reply.integer(n),
        },
    }
    Ok(())
}

enum Shown {
    Word(&'static str),
    Number(i64),
}

fn encoding(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    look(ctx, args, |value| Ok(Shown::Word(value.encoding_name())))
}

/// Rounds a ratio to four decimal places.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn layout(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(value) = ctx.db.describe(args.key(2)) else {
        ctx.reply.null();
        return Ok(());
    };
    let (layout, elements, bytes) = (value.layout(), value.elements(), value.memory_bytes());
    let reply = &mut *ctx.reply;
    let pairs = 2
        + layout.parts.len()
        + usize::from(layout.packed.is_some())
        + if elements.is_some() { 2 } else { 0 };
    reply.map(pairs);
    reply.bulk(b"structure");
    reply.bulk(layout.structure.as_bytes());
    if let Some(elements) = elements {
        reply.bulk(b"elements");
        reply.count(elements);
    }
    for (name, count) in &layout.parts {
        reply.bulk(name.as_bytes());
        reply.count(*count);
    }
    if let Some(packed) = layout.packed {
        reply.bulk(b"fill");
        reply.double(rounded(packed.fill()));
    }
    if let Some(elements) = elements {
        reply.bulk(b"bytes-per-element");
        reply.double(rounded(bytes as f64 / elements.max(1) as f64));
    }
    reply.bulk(b"total-bytes");
    reply.count(bytes);
    Ok(())
}

fn refcount(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    look(ctx, args, |_| Ok(Shown::Number(1)))
}

fn idletime(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (access, now_ms) = (ctx.db.access.bits, ctx.db.now_ms());
    look(ctx, args, |value| {
        if access.count_uses() {
            return Err(ClientError::text(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Ok(Shown::Number(signed_count(access.idle_ms(value.entry().access(), now_ms) / 1000)))
    })
}

fn freq(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (access, now_ms) = (ctx.db.access.bits, ctx.db.now_ms());
    look(ctx, args, |value| {
        if !access.count_uses() {
            return Err(ClientError::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Ok(Shown::Number(access.frequency(value.entry().access(), now_ms).into()))
    })
}
