//! SLOT-STATS: keys, processor time and traffic by slot.

use super::{slot_at, syntax_error, view};
use crate::command::{Args, Context, Outcome};
use crate::db::slots;
use crate::error::ClientError;
use crate::server::cluster_node::SlotFigures;
use structures::key_slot::SLOTS;

/// What slots are ordered by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Metric {
    Keys,
    CpuUs,
    BytesIn,
    BytesOut,
}

/// How slots are chosen.
enum Filter {
    Range(u16, u16),
    Order { metric: Metric, limit: usize, ascending: bool },
}

pub(super) fn answer(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let with_figures = ctx.server.config.cluster_slot_stats_enabled;
    let filter = parse(args, with_figures)?;
    let mut slots = own_slots(ctx)?;
    match filter {
        Filter::Range(first, last) => slots.retain(|slot| (first..=last).contains(slot)),
        Filter::Order { metric, limit, ascending } => {
            let mut ranked: Vec<(u64, u16)> =
                slots.iter().map(|&slot| (value_of(ctx, slot, metric), slot)).collect();
            let compare = |a: &(u64, u16), b: &(u64, u16)| {
                let order = a.0.cmp(&b.0);
                (if ascending { order } else { order.reverse() }).then(a.1.cmp(&b.1))
            };
            // Of a few, only these are sorted.
            if limit < ranked.len() {
                ranked.select_nth_unstable_by(limit, compare);
                ranked.truncate(limit);
            }
            ranked.sort_unstable_by(compare);
            slots = ranked.into_iter().map(|(_, slot)| slot).collect();
        }
    }
    ctx.reply.array(slots.len());
    for slot in slots {
        let (keys, figures) = (slots::keys_in(ctx.db, slot), figures_of(ctx, slot));
        let reply = &mut *ctx.reply;
        reply.array(2);
        reply.integer(slot.into());
        reply.map(if with_figures { 4 } else { 1 });
        reply.bulk(b"key-count");
        reply.count(keys);
        if with_figures {
            reply.bulk(b"cpu-usec");
            reply.count(figures.cpu_ns / 1000);
            reply.bulk(b"network-bytes-in");
            reply.count(figures.bytes_in);
            reply.bulk(b"network-bytes-out");
            reply.count(figures.bytes_out);
        }
    }
    Ok(())
}

fn parse(args: Args<'_>, with_figures: bool) -> Result<Filter, ClientError> {
    if args.len() == 5 && args.is(2, "SLOTSRANGE") {
        let (first, last) = (slot_at(args, 3)?, slot_at(args, 4)?);
        if first > last {
            let text = format!("ERR Start slot number {first} is greater than end slot number {last}");
            return Err(ClientError::formatted(text));
        }
        return Ok(Filter::Range(first, last));
    }
    if !args.is(2, "ORDERBY") {
        return Err(syntax_error(args));
    }
    let metrics = [
        ("KEY-COUNT", Metric::Keys),
        ("CPU-USEC", Metric::CpuUs),
        ("NETWORK-BYTES-IN", Metric::BytesIn),
        ("NETWORK-BYTES-OUT", Metric::BytesOut),
    ];
    let metric = metrics.into_iter().find(|(word, _)| args.is(3, word)).map(|(_, metric)| metric);
    let metric = metric.filter(|metric| with_figures || *metric == Metric::Keys);
    let metric = metric.ok_or(ClientError::text("ERR Unrecognized sort metric for ORDERBY."))?;
    let (mut limit, mut ascending) = (None, None);
    let mut at = 4;
    while at < args.len() {
        let is_repeated = if args.is(at, "LIMIT") && at + 1 < args.len() {
            const RANGE: ClientError =
                ClientError::text("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
            at += 1;
            limit.replace(args.count_in(at, 1, SLOTS, RANGE)?).is_some()
        } else if args.is(at, "ASC") || args.is(at, "DESC") {
            ascending.replace(args.is(at, "ASC")).is_some()
        } else {
            return Err(ClientError::Syntax);
        };
        if is_repeated {
            return Err(ClientError::text("ERR Multiple filters of the same type are disallowed."));
        }
        at += 1;
    }
    Ok(Filter::Order { metric, limit: limit.unwrap_or(SLOTS), ascending: ascending.unwrap_or(false) })
}

/// The slots of this node's shard.
fn own_slots(ctx: &Context<'_>) -> Result<Vec<u16>, ClientError> {
    Ok(view(ctx.server)?.my_primary().slots().iter().collect())
}

fn figures_of(ctx: &Context<'_>, slot: u16) -> SlotFigures {
    ctx.server.cluster.as_deref().map(|node| node.figures(slot)).unwrap_or_default()
}

fn value_of(ctx: &Context<'_>, slot: u16, metric: Metric) -> u64 {
    match metric {
        Metric::Keys => slots::keys_in(ctx.db, slot) as u64,
        Metric::CpuUs => figures_of(ctx, slot).cpu_ns / 1000,
        Metric::BytesIn => figures_of(ctx, slot).bytes_in,
        Metric::BytesOut => figures_of(ctx, slot).bytes_out,
    }
}
