//! The keys of a slot: COUNTKEYSINSLOT, GETKEYSINSLOT, FLUSHSLOT.

use super::{node, slot_at, syntax_error};
use crate::command::{Args, Context, Outcome};
use crate::db::slots;
use crate::error::ClientError;
use crate::server::cluster_node::now;
use structures::key_slot::SLOTS;

fn lenient_slot(args: Args<'_>, error: ClientError) -> Result<u16, ClientError> {
    let slot = args.integer(2)?;
    u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOTS).ok_or(error)
}

pub(super) fn count(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let slot = lenient_slot(args, ClientError::text("ERR Invalid slot"))?;
    ctx.reply.count(ctx.db.selected_database().keys_in_slot(slot) as u64);
    Ok(())
}

pub(super) fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    const ERROR: ClientError = ClientError::text("ERR Invalid slot or number of keys");
    let (slot, count) = (args.integer(2)?, args.integer(3)?);
    let slot = u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOTS).ok_or(ERROR)?;
    let count = usize::try_from(count).map_err(|_| ERROR)?;
    let database = ctx.db.selected_database();
    ctx.reply.array(database.keys_in_slot(slot).min(count));
    for entry in database.iter_slot(slot).take(count) {
        ctx.reply.bulk(entry.key());
    }
    Ok(())
}

/// Of all databases, whether or not the slot is this node's.
pub(super) fn flush(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let slot = slot_at(args, 2)?;
    let in_background = match args.len() {
        3 => ctx.server.config.lazyfree_lazy_user_flush,
        4 if args.is(3, "ASYNC") => true,
        4 if args.is(3, "SYNC") => false,
        4 => return Err(ClientError::Syntax),
        _ => return Err(syntax_error(args)),
    };
    slots::clear(ctx.db, slot, in_background);
    // The other node would keep the keys, or not have them.
    let now = now(ctx.server.now);
    node(ctx)?.view.fail_migrations_of(slot, "Data was flushed", now);
    ctx.reply.ok();
    Ok(())
}
