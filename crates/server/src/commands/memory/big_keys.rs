//! MEMORY BIGKEYS: the largest known keys, with their current sizes.

use super::prefixes::count;
use crate::command::{Args, Context, Outcome};

const COUNT_DEFAULT: i64 = 10;

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
        reply.integer(big.db_index as i64);
        reply.bulk(b"type");
        reply.bulk(big.kind.name().as_bytes());
        reply.bulk(b"encoding");
        reply.bulk(big.encoding.as_bytes());
        reply.bulk(b"bytes");
        reply.integer(big.bytes as i64);
        reply.bulk(b"elements");
        reply.integer(big.elements as i64);
    }
    Ok(())
}
