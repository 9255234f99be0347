//! MEMORY PREFIXES: the number of keys with each prefix and their memory, counted when keys change.

use crate::command::{Args, Context, Outcome};
use crate::db::accounts::{Cell, Respect, Tally};
use crate::error::ClientError;
use wire::reply::ReplyBuffer;

const COUNT_DEFAULT: usize = 100;

/// The COUNT of subcommands that reply with the largest entries.
pub(super) fn count(args: Args<'_>, default: usize) -> Result<usize, ClientError> {
    let count = match args.len() {
        2 => default,
        4 if args.is(2, "COUNT") => {
            args.count_in(3, 1, usize::MAX, ClientError::text("ERR COUNT must be positive"))?
        }
        _ => return Err(ClientError::Syntax),
    };
    Ok(count)
}

pub(super) fn prefixes(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = count(args, COUNT_DEFAULT)?;
    let Some((tallies, is_exact)) = ctx.db.tallies(Respect::Prefix) else {
        return Err(ClientError::text("ERR no prefixes are configured: see the option memory-prefixes"));
    };
    let mut tallies: Vec<(Box<[u8]>, Tally)> = tallies.into_iter().collect();
    tallies.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.bytes()));
    tallies.truncate(count);
    ctx.reply.array(tallies.len());
    for (name, tally) in &tallies {
        write_tally(ctx.reply, name, tally, is_exact);
    }
    Ok(())
}

fn write_tally(reply: &mut ReplyBuffer, name: &[u8], tally: &Tally, is_exact: bool) {
    let (keys, bytes) = (tally.keys(), tally.bytes());
    reply.map(8);
    reply.bulk(b"prefix");
    reply.bulk(name);
    reply.bulk(b"keys");
    reply.count(keys);
    reply.bulk(b"bytes");
    reply.count(bytes);
    reply.bulk(b"mean_bytes");
    reply.double(bytes as f64 / keys as f64);
    reply.bulk(b"expiring");
    reply.double(tally.expiring() as f64 / keys as f64);
    reply.bulk(b"types");
    write_sums(reply, &sums(tally, |cell| cell.kind.name()));
    reply.bulk(b"encodings");
    write_sums(reply, &sums(tally, |cell| cell.encoding));
    reply.bulk(b"state");
    reply.bulk(if is_exact { b"exact" } else { b"counting" });
}

/// A name with the number of keys and bytes.
pub(in crate::commands) type Sum = (&'static str, u64, u64);

/// The sums for each name, the largest first.
pub(in crate::commands) fn sums(tally: &Tally, name: impl Fn(&Cell) -> &'static str) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    for cell in tally.cells() {
        let name = name(cell);
        match sums.iter_mut().find(|sum| sum.0 == name) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + cell.keys, sum.2 + cell.bytes),
            None => sums.push((name, cell.keys, cell.bytes)),
        }
    }
    sums.sort_by_key(|&(name, _, bytes)| (std::cmp::Reverse(bytes), name));
    sums
}

pub(in crate::commands) fn write_sums(reply: &mut ReplyBuffer, sums: &[Sum]) {
    reply.map(sums.len());
    for &(name, keys, bytes) in sums {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"keys");
        reply.count(keys);
        reply.bulk(b"bytes");
        reply.count(bytes);
    }
}
