//! Atomic slot migration: MIGRATESLOTS, CANCELSLOTMIGRATIONS, GETSLOTMIGRATIONS, and SYNCSLOTS, the words by which source
//! and target agree.

use super::membership::requested_by;
use super::{node, refused, slot_at};
use crate::acl::UserHandle;
use crate::command::{Args, Context, Outcome};
use crate::error::ClientError;
use crate::server::cluster_node::now;
use crate::session::client::SlotLink;
use cluster::{Cluster, Job, JobId, MigrationEvent, MigrationRequest, Operation, Ranges, Refusal, Word};
use wire::cluster_bus::NodeId;
use wire::convert::signed_count;
use wire::reply::ReplyBuffer;

/// Parses ranges of slots from argument `at` on, to the first that is no number. Returns the ranges, the owner of their slots
/// and the position after them. `checks_owner`: they must have one owner.
fn ranges_at(
    view: &Cluster,
    args: Args<'_>,
    mut at: usize,
    checks_owner: bool,
) -> Result<(Ranges, Option<NodeId>, usize), ClientError> {
    let (mut ranges, mut owner) = (Ranges::new(), None);
    while at < args.len() && args.integer(at).is_ok() {
        let first = slot_at(args, at)?;
        if at + 1 == args.len() {
            return Err(refused(Refusal::NoLastSlot));
        }
        let range = (first, slot_at(args, at + 1)?);
        match checks_owner {
            true => view.check_range(range, &mut owner).map_err(refused)?,
            false if range.0 > range.1 => return Err(refused(Refusal::MigrationReversed(range.0, range.1))),
            false => {}
        }
        if let Some(earlier) = ranges.iter().find(|earlier| overlap(range, **earlier)) {
            return Err(refused(Refusal::RangesOverlap(range, *earlier)));
        }
        ranges.push(range);
        at += 2;
    }
    if ranges.is_empty() {
        return Err(refused(Refusal::NoRanges));
    }
    Ok((ranges, owner, at))
}

fn overlap(one: (u16, u16), other: (u16, u16)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

/// `MIGRATESLOTS <SLOTSRANGE first last [first last ...] NODE id> ...`
pub(super) fn migrate_slots(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let view = &node(ctx)?.view;
    view.check_may_migrate().map_err(refused)?;
    let mut requests: Vec<MigrationRequest> = Vec::new();
    let mut at = 2;
    while at < args.len() {
        // valkey-cli 9.1 counts the byte after the word's end with it.
        if !args.is(at, "SLOTSRANGE") && !args.is(at, "SLOTSRANGE\0") {
            return Err(ClientError::Syntax);
        }
        let (ranges, owner, next) = ranges_at(view, args, at + 1, true)?;
        view.check_export(&ranges, owner).map_err(refused)?;
        let mut earlier = requests.iter().flat_map(|request| &request.ranges);
        if earlier.any(|earlier| ranges.iter().any(|range| overlap(*range, *earlier))) {
            return Err(refused(Refusal::MigrationsOverlap));
        }
        if next + 1 >= args.len() || !args.is(next, "NODE") {
            return Err(ClientError::Syntax);
        }
        let target = view.find_target(args.at(next + 1)).map_err(refused)?;
        requests.push(MigrationRequest { ranges, target });
        at = next + 2;
    }
    let (by, now) = (requested_by(ctx), now(ctx.server.now));
    node(ctx)?.view.migrate_slots(requests, &by, now);
    ctx.reply.ok();
    Ok(())
}

pub(super) fn cancel(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let (by, now) = (requested_by(ctx), now(ctx.server.now));
    let cancelled = node(ctx)?.view.cancel_migrations(&by, now);
    super::answer(ctx, cancelled)
}

pub(super) fn list(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let Some(node) = ctx.server.cluster.as_deref() else { return Err(super::DISABLED) };
    let my_id = node.view.my_id();
    ctx.reply.array(node.view.migrations().count());
    for job in node.view.migrations() {
        write_job(ctx.reply, job, my_id, node.unsent_export_bytes(job.id()));
    }
    Ok(())
}

fn write_job(reply: &mut ReplyBuffer, job: &Job, my_id: NodeId, unsent_bytes: u64) {
    reply.map(if job.other().is_some() { 12 } else { 10 });
    let mut text = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("name", job.name().as_str());
    text("operation", job.operation().name());
    text("slot_ranges", &job.ranges_text());
    if let Some(other) = job.other() {
        let (source, target) = match job.operation() {
            Operation::Export => (my_id, other),
            Operation::Import => (other, my_id),
        };
        text("target_node", target.as_str());
        text("source_node", source.as_str());
    }
    let [created_s, updated_s, acknowledged_s] = job.times_s();
    let times =
        [("create_time", created_s), ("last_update_time", updated_s), ("last_ack_time", acknowledged_s)];
    for (name, number) in times {
        reply.bulk(name.as_bytes());
        reply.integer(signed_count(number));
    }
    reply.bulk(b"state");
    reply.bulk(job.state().name().as_bytes());
    reply.bulk(b"message");
    reply.bulk(job.message().unwrap_or_default().as_bytes());
    for (name, number) in [("cow_size", job.copied_bytes()), ("remaining_repl_size", unsent_bytes)] {
        reply.bulk(name.as_bytes());
        reply.integer(signed_count(number));
    }
}

/// `SYNCSLOTS ESTABLISH ... | FINISH ... | word`. The words come on the connection of a job, which the executor serves; here
/// they are refused.
pub(super) fn sync_slots(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    node(ctx)?;
    if args.is(2, "ESTABLISH") {
        return establish(ctx, args);
    }
    if args.is(2, "FINISH") {
        return finish(ctx, args);
    }
    if args.is(2, "CAPA") {
        return Ok(());
    }
    // A reference's primary passes on what its source has sent.
    if is_repeated(ctx) {
        return Ok(());
    }
    let Some(word) = Word::parse(args.at(2)) else { return Err(ClientError::Syntax) };
    Err(ClientError::formatted(format!(
        "ERR CLUSTER SYNCSLOTS {} should only be used by slot migration clients",
        word.name()
    )))
}

/// The command comes from this node's primary or from a file.
fn is_repeated(ctx: &Context<'_>) -> bool {
    ctx.server.clients[ctx.client].is_primary || ctx.origin.replayed
}

/// The words of ESTABLISH, in any order.
#[derive(Default)]
struct Establish {
    source: Option<NodeId>,
    name: Option<NodeId>,
    ranges: Option<(Ranges, Option<NodeId>)>,
}

impl Establish {
    fn parse(view: &Cluster, args: Args<'_>, is_repeated: bool) -> Result<Establish, ClientError> {
        let mut establish = Establish::default();
        let mut at = 3;
        while at < args.len() {
            let id = || args.get(at + 1).and_then(NodeId::parse).ok_or(ClientError::Syntax);
            if args.is(at, "SOURCE") && establish.source.is_none() {
                let source = id()?;
                // A copy of the data may know other nodes.
                if !is_repeated {
                    establish.source = Some(view.find_source(source.as_bytes()).map_err(refused)?);
                }
                at += 2;
            } else if args.is(at, "NAME") && establish.name.is_none() {
                establish.name = Some(id()?);
                at += 2;
            } else if args.is(at, "SLOTSRANGE") && establish.ranges.is_none() {
                // A copy of the data may know other owners.
                let (ranges, owner, next) = ranges_at(view, args, at + 1, !is_repeated)?;
                view.check_import(&ranges).map_err(refused)?;
                establish.ranges = Some((ranges, owner));
                at = next;
            } else {
                return Err(ClientError::Syntax);
            }
        }
        Ok(establish)
    }
}

/// `ESTABLISH SOURCE id NAME job SLOTSRANGE first last [first last ...]`: the client is the source of a migration from now on.
fn establish(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let is_repeated = is_repeated(ctx);
    let view = &node(ctx)?.view;
    if !is_repeated {
        view.check_may_migrate().map_err(refused)?;
    }
    let Establish { source, name, ranges } = Establish::parse(view, args, is_repeated)?;
    let (Some(name), Some((ranges, owner))) = (name, ranges) else { return Err(ClientError::Syntax) };
    if !is_repeated && source.is_none() {
        return Err(ClientError::Syntax);
    }
    if source.is_some() && source != owner {
        return Err(refused(Refusal::OtherOwner));
    }
    if ctx.origin.in_transaction && !is_repeated || ctx.origin.in_script {
        return Err(ClientError::text("ERR CLUSTER SYNCSLOTS ESTABLISH is not allowed in a transaction"));
    }
    node(ctx)?.view.check_name(name).map_err(refused)?;
    let now = now(ctx.server.now);
    let job = node(ctx)?.view.establish_import(name, source, ranges, now);
    if !is_repeated {
        become_source(ctx, job);
    }
    let db_index = ctx.db.selected();
    ctx.db.change_log.propagate_as_received(db_index, args.iter());
    ctx.reply.ok();
    Ok(())
}

/// Makes the client the source of an import: its commands were permitted where they first ran.
fn become_source(ctx: &mut Context<'_>, job: JobId) {
    ctx.server.clients.set_user(ctx.client, UserHandle::SUPERUSER);
    let client = &mut ctx.server.clients[ctx.client];
    client.routing.slot_link = Some(SlotLink { job, is_export: false });
    client.deny_blocking = true;
}

/// `FINISH STATE success | failed NAME job [MESSAGE text]`: the end of an import of this node's primary.
fn finish(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut state, mut name, mut message) = (None, None, None);
    let mut at = 3;
    while at < args.len() {
        let place = match () {
            () if args.is(at, "STATE") => &mut state,
            () if args.is(at, "NAME") => &mut name,
            () if args.is(at, "MESSAGE") => &mut message,
            () => return Err(ClientError::Syntax),
        };
        let value = args.get(at + 1).filter(|_| place.is_none()).ok_or(ClientError::Syntax)?;
        *place = Some(value);
        at += 2;
    }
    let (Some(state), Some(name)) = (state, name) else { return Err(ClientError::Syntax) };
    if name.len() != NodeId::LEN {
        return Err(ClientError::Syntax);
    }
    let succeeded = match () {
        () if state.eq_ignore_ascii_case(b"success") => true,
        () if state.eq_ignore_ascii_case(b"failed") => false,
        () => return Err(ClientError::Syntax),
    };
    let (is_repeated, now) = (is_repeated(ctx), now(ctx.server.now));
    let view = &mut node(ctx)?.view;
    let job = view.migrations().find(|job| job.name().as_bytes() == name).map(Job::id);
    if !is_repeated {
        let id = job.ok_or(ClientError::text("ERR No such slot migration job"))?;
        // A client cannot give slots to this node.
        view.migration_event(id, MigrationEvent::CommandFailed, now);
        ctx.reply.ok();
        return Ok(());
    }
    let message = message.map(String::from_utf8_lossy);
    view.finish_tracked_import(name, succeeded, message.as_deref(), now);
    let db_index = ctx.db.selected();
    ctx.db.change_log.propagate_as_received(db_index, args.iter());
    ctx.reply.ok();
    Ok(())
}
