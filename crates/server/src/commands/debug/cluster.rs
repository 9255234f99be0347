//! DEBUG's switches of the cluster bus.

use super::switch_at;
use crate::command::{Args, Context, Outcome};
use crate::error::{ClientError, quoted};
use cluster::{Faults, FrameFilter};
use wire::cluster_bus::Kind;

/// Changes the switches. A server without a cluster accepts them without effect, as the reference does.
fn change(ctx: &mut Context<'_>, change: impl FnOnce(&mut Faults)) -> Outcome {
    if let Some(node) = &mut ctx.server.cluster {
        let mut faults = node.view.faults();
        change(&mut faults);
        node.view.set_faults(faults);
    }
    ctx.reply.ok();
    Ok(())
}

/// `DROP-CLUSTER-PACKET-FILTER type`: -1 drops nothing, -2 everything.
pub(super) fn drop_frames(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let number = args.integer(2)?;
    let kind = u16::try_from(number).ok().and_then(Kind::from_number);
    let filter = match (number, kind) {
        (-2, _) => FrameFilter::Everything,
        (_, Some(kind)) => FrameFilter::Kind(kind),
        _ => FrameFilter::Nothing,
    };
    change(ctx, |faults| faults.drop = filter)
}

pub(super) fn close_link_on_drop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let closes = switch_at(args, 2);
    change(ctx, |faults| faults.close_link_on_drop = closes)
}

pub(super) fn disable_reconnection(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let disables = switch_at(args, 2);
    change(ctx, |faults| faults.no_reconnection = disables)
}

pub(super) fn disable_random_ping(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let disables = switch_at(args, 2);
    change(ctx, |faults| faults.no_random_ping = disables)
}

/// `SLOTMIGRATION PREVENT-PAUSE | PREVENT-FAILOVER 0|1`.
pub(super) fn slot_migration(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let prevents = switch_at(args, 3);
    match () {
        () if args.is(2, "PREVENT-PAUSE") => change(ctx, |faults| faults.no_migration_pause = prevents),
        () if args.is(2, "PREVENT-FAILOVER") => change(ctx, |faults| faults.no_migration_failover = prevents),
        () => Err(ClientError::Syntax),
    }
}

/// `CLUSTERLINK KILL to|from|all node-id`.
pub(super) fn kill_link(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    const DISABLED: ClientError =
        ClientError::text("ERR Debug option only available for cluster mode enabled setup!");
    let node = ctx.server.cluster.as_deref_mut().ok_or(DISABLED)?;
    if !args.is(2, "KILL") {
        return Err(ClientError::Syntax);
    }
    let unknown = || ClientError::formatted(format!("ERR Unknown node {}", quoted(args.at(4))));
    let id = node.view.lookup(args.at(4)).ok_or_else(unknown)?.id();
    let (to, from) = match () {
        () if args.is(3, "TO") => (true, false),
        () if args.is(3, "FROM") => (false, true),
        () if args.is(3, "ALL") => (true, true),
        () => {
            let text = format!("ERR Unknown direction {}", quoted(args.at(3)));
            return Err(ClientError::formatted(text));
        }
    };
    node.view.kill_links(id, to, from);
    ctx.reply.ok();
    Ok(())
}
