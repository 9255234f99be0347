//! MEMORY BIGKEYS: the largest known keys, with their current sizes.

use super::prefixes::count;
use crate::command::{Args, Context, Outcome};

const COUNT_DEFAULT: usize = 10;

pub(super) fn big_keys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = count(args, COUNT_DEFAULT)?;
    let found = ctx.db.big_keys(count);
    let reply = &mut *ctx.reply;
    reply.array(found.len());
    for big in &found {
        reply.map(6);
        reply.bulk(b"key");
        reply.bulk(&big.key);
        reply.bulk(b"db");
        reply.count(big.db_index);
        reply.bulk(b"type");
        reply.bulk(big.kind.name().as_bytes());
        reply.bulk(b"encoding");
        reply.bulk(big.encoding.as_bytes());
        reply.bulk(b"bytes");
        reply.count(big.bytes);
        reply.bulk(b"elements");
        reply.count(big.elements);
    }
    Ok(())
}
