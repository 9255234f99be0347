//! The owners of slots: ADDSLOTS, DELSLOTS, FLUSHSLOTS, SETSLOT.

use super::{answer_saved, node, refused, reply_saved, slot_at};
use crate::command::{Args, Context, Outcome};
use crate::db::slots;
use crate::error::ClientError;
use crate::session::{BlockRequest, BlockedOn, SavedReply, TimeoutReply};
use cluster::SlotState;

/// How long SETSLOT waits for the replicas if it does not say.
const SETSLOT_TIMEOUT_US: u64 = 2_000_000;

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
/// replication stream first: should it fail as soon as other nodes know of the change, its successor knows it too.
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
    let timeout_us = timeout_us(args, used)?;
    let keys = slots::keys_in(ctx.db, slot) as u64;
    let from_primary = ctx.server.clients[ctx.client].is_primary;
    let node = node(ctx)?;
    node.view.check_set_slot(slot, state, keys, from_primary).map_err(refused)?;
    let is_primary = node.view.myself().is_primary();
    if !ctx.server.clients[ctx.client].routing.replicas_know_slot {
        let db_index = ctx.db.selected();
        ctx.db.change_log.propagate_to_replicas(db_index, args.iter());
        if is_primary && waits_for_replicas(ctx, timeout_us) {
            return Ok(());
        }
    }
    super::node(ctx)?.view.set_slot(slot, state, keys, from_primary).map_err(refused)?;
    reply_saved(ctx, SavedReply::Ok);
    Ok(())
}

/// Reads `[TIMEOUT ms]` at this argument; `None`: for ever.
fn timeout_us(args: Args<'_>, at: usize) -> Result<Option<u64>, ClientError> {
    if !args.is(at, "TIMEOUT") {
        return Ok(Some(SETSLOT_TIMEOUT_US));
    }
    if args.len() == at + 1 {
        return Err(ClientError::text("ERR Missing timeout value"));
    }
    let timeout_ms = args.integer(at + 1).map_err(|_| ClientError::TimeoutNotInteger)?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| ClientError::TimeoutNegative)?;
    Ok(Some(timeout_ms.saturating_mul(1_000)).filter(|timeout_us| *timeout_us > 0))
}

/// Blocks the client until all replicas that are online have run its SETSLOT; the command then runs here. Returns whether
/// the client waits: there may be no replica, and transactions and scripts do not wait.
fn waits_for_replicas(ctx: &mut Context<'_>, timeout_us: Option<u64>) -> bool {
    let replicas = ctx.server.replicas.know_slots;
    let timeout_reply = TimeoutReply::TooFewReplicas;
    let request =
        BlockRequest { on: BlockedOn::SlotReplicas(replicas), timeout_us, timeout_reply, claim: None };
    let waits = replicas > 0 && !ctx.is_repeated() && ctx.block(request);
    ctx.server.replicas.acknowledgements_requested |= waits;
    waits
}
