//! The owners of slots: ADDSLOTS, DELSLOTS, FLUSHSLOTS, SETSLOT.

use super::{answer_saved, node, refused, reply_saved, slot_at};
use crate::command::{Args, Context, Outcome};
use crate::db::slots;
use crate::error::ClientError;
use crate::session::SavedReply;
use cluster::SlotState;

/// The slots from argument 2 on, each a range of one.
fn singles(args: Args<'_>) -> Result<Vec<(u16, u16)>, ClientError> {
    (2..args.len()).map(|at| slot_at(args, at).map(|slot| (slot, slot))).collect()
}

/// The ranges from argument 2 on.
fn ranges(args: Args<'_>) -> Result<Vec<(u16, u16)>, ClientError> {
    if !args.len().is_multiple_of(2) {
        let command = format!("cluster|{}", String::from_utf8_lossy(args.at(1)).to_ascii_lowercase());
        return Err(ClientError::WrongArity { command });
    }
    (2..args.len()).step_by(2).map(|at| Ok((slot_at(args, at)?, slot_at(args, at + 1)?))).collect()
}

pub(super) fn add(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let node = node(ctx)?;
    let added = node.view.add_slots(&singles(args)?);
    answer_saved(ctx, added)
}

pub(super) fn add_ranges(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let node = node(ctx)?;
    let added = node.view.add_slots(&ranges(args)?);
    answer_saved(ctx, added)
}

pub(super) fn delete(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let node = node(ctx)?;
    let deleted = node.view.delete_slots(&singles(args)?);
    answer_saved(ctx, deleted)
}

pub(super) fn delete_ranges(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let node = node(ctx)?;
    let deleted = node.view.delete_slots(&ranges(args)?);
    answer_saved(ctx, deleted)
}

pub(super) fn flush(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let is_empty = slots::has_no_keys(ctx.db);
    let flushed = node(ctx)?.view.flush_slots(is_empty);
    answer_saved(ctx, flushed)
}

/// `SETSLOT slot MIGRATING id | IMPORTING id | NODE id | STABLE [TIMEOUT ms]`. The replicas of a primary get it by the
/// replication stream.
pub(super) fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    const ACTION: ClientError =
        ClientError::text("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");
    let slot = slot_at(args, 2)?;
    let (state, used) = match args.at(3).to_ascii_lowercase().as_slice() {
        b"migrating" if args.len() > 4 => (SlotState::Migrating(args.at(4)), 5),
        b"importing" if args.len() > 4 => (SlotState::Importing(args.at(4)), 5),
        b"node" if args.len() > 4 => (SlotState::Node(args.at(4)), 5),
        b"stable" => (SlotState::Stable, 4),
        _ => return Err(ACTION),
    };
    if args.is(used, "TIMEOUT") {
        if args.len() == used + 1 {
            return Err(ClientError::text("ERR Missing timeout value"));
        }
        let timeout = args.integer(used + 1).map_err(|_| ClientError::TimeoutNotInteger)?;
        if timeout < 0 {
            return Err(ClientError::TimeoutNegative);
        }
    }
    let keys = slots::keys_in(ctx.db, slot) as u64;
    let from_primary = ctx.server.clients[ctx.client].is_primary;
    node(ctx)?.view.set_slot(slot, state, keys, from_primary).map_err(refused)?;
    // Replicas know the same of the slot, should they take over.
    let db_index = ctx.db.selected();
    ctx.db.change_log.propagate_to_replicas(db_index, args.iter());
    reply_saved(ctx, SavedReply::Ok);
    Ok(())
}
