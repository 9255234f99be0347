//! The nodes of the cluster and this node's role: MEET, FORGET, REPLICATE, FAILOVER, RESET, and epochs.

use super::{answer, answer_saved, node, reply_saved, syntax_error};
use crate::command::{Args, Context, Outcome};
use crate::db::slots;
use crate::error::{ClientError, quoted};
use crate::server::cluster_node::now;
use crate::session::SavedReply;
use cluster::{Bumped, Failover};
use wire::nodes_conf::BUS_PORT_OFFSET;

/// The client, as the log names it.
pub(super) fn requested_by(ctx: &Context<'_>) -> String {
    let client = &ctx.server.clients[ctx.client];
    let name = ctx.server.users.name(client.user());
    format!("id={} addr={} user={}", client.id, client.connection.address, name.escape_ascii())
}

pub(super) fn meet(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 5 {
        return Err(syntax_error(args));
    }
    let invalid = |which: &str, at| {
        ClientError::formatted(format!("ERR Invalid {which} port specified: {}", quoted(args.at(at))))
    };
    let port = args.integer(3).map_err(|_| invalid("base", 3))?;
    let port_number = u16::try_from(port).ok().filter(|port| *port > 0);
    let port_number = port_number.ok_or(ClientError::text("ERR Port number is out of range"))?;
    let bus_port = match args.len() {
        5 => args.integer(4).map_err(|_| invalid("bus", 4))?,
        _ => port + i64::from(BUS_PORT_OFFSET),
    };
    let bus_port = u16::try_from(bus_port).ok().filter(|port| *port > 0);
    let bus_port = bus_port.ok_or(ClientError::text("ERR Cluster bus port number is out of range"))?;
    let (by, now) = (requested_by(ctx), now(ctx.server.now));
    let address = quoted(args.at(2));
    let met = node(ctx)?.view.meet(&address, port_number, bus_port, &by, now);
    answer(ctx, met)
}

pub(super) fn forget(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (by, now) = (requested_by(ctx), now(ctx.server.now));
    let forgotten = node(ctx)?.view.forget(args.at(2), &by, now);
    answer_saved(ctx, forgotten)
}

pub(super) fn replicate(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (is_empty, by, now) = (slots::has_no_keys(ctx.db), requested_by(ctx), now(ctx.server.now));
    let node = node(ctx)?;
    let done = match args.len() {
        3 => node.view.replicate(args.at(2), is_empty, now),
        4 if args.is(2, "NO") && args.is(3, "ONE") => {
            node.view.replicate_no_one(&by, now);
            Ok(())
        }
        _ => return Err(syntax_error(args)),
    };
    answer_saved(ctx, done)
}

/// `FAILOVER [FORCE | TAKEOVER] [REPLICAID id]`, the latter from the primary's stream only.
pub(super) fn failover(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let from_primary = ctx.server.clients[ctx.client].is_primary;
    let (mut kind, mut replica) = (Failover::Agreed, None);
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "FORCE") {
            kind = if kind == Failover::Takeover { kind } else { Failover::Force };
        } else if args.is(at, "TAKEOVER") {
            kind = Failover::Takeover;
        } else if from_primary && args.is(at, "REPLICAID") && at + 1 < args.len() {
            at += 1;
            replica = Some(args.at(at));
        } else {
            return Err(ClientError::Syntax);
        }
        at += 1;
    }
    let (by, now) = (requested_by(ctx), now(ctx.server.now));
    let node = node(ctx)?;
    let is_for_other = replica.is_some_and(|id| node.view.my_id().to_string().as_bytes() != id);
    let done = match is_for_other {
        true => Ok(()),
        false => node.view.failover(kind, &by, from_primary, now),
    };
    answer_saved(ctx, done)
}

pub(super) fn reset(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hard = match args.len() {
        2 => false,
        3 if args.is(2, "HARD") => true,
        3 if args.is(2, "SOFT") => false,
        3 => return Err(ClientError::Syntax),
        _ => return Err(syntax_error(args)),
    };
    let (is_empty, by, now) = (slots::has_no_keys(ctx.db), requested_by(ctx), now(ctx.server.now));
    let done = node(ctx)?.view.reset(hard, is_empty, &by, now);
    answer_saved(ctx, done)
}

pub(super) fn set_config_epoch(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let node = node(ctx)?;
    let done = node.view.set_config_epoch(args.integer(2)?);
    answer_saved(ctx, done)
}

pub(super) fn bump_epoch(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    match node(ctx)?.view.bump_epoch() {
        Bumped::Bumped(epoch) => reply_saved(ctx, SavedReply::Bumped(epoch)),
        Bumped::Still(epoch) => ctx.reply.simple(&format!("STILL {epoch}")),
    }
    Ok(())
}

pub(super) fn save_config(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    node(ctx)?.view.save_config();
    reply_saved(ctx, SavedReply::Outcome);
    Ok(())
}
