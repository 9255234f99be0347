//! The commands of a slot migration's connection: on the target those of the source, which change keys of the job's slots, and on
//! both ends the words of SYNCSLOTS.

use super::{fail, note};
use crate::command::{Control, Group, Request, flag};
use crate::engine::Executor;
use crate::engine::call::Call;
use crate::engine::memory::Room;
use crate::engine::redirection::Redirections;
use crate::session::ClientHandle;
use crate::session::client::SlotLink;
use cluster::{JobId, MigrationEvent, Word};
use wire::reply::ReplyBuffer;

/// Runs a command of the other node, without a reply.
pub fn apply(executor: &mut Executor, handle: ClientHandle, request: Request<'_>, reply: &mut ReplyBuffer) {
    let now_reading = executor.server.now;
    let client = &mut executor.server.clients[handle];
    (client.last_interaction, client.last_command) = (now_reading, request.id);
    let Some(link) = client.routing.slot_link else { return };
    let args = request.args;
    let Some(id) = request.id.or_else(|| executor.server.registry.find(args).ok()) else {
        return fail(executor, link, "an unknown command");
    };
    let call = Call::new(&executor.server.registry, handle, id, args);
    if !call.row.accepts(args.len()) {
        return fail(executor, link, "a wrong number of arguments");
    }
    if call.row.control == Control::SlotMigration {
        return take_word(executor, link, &call);
    }
    if link.is_export {
        return fail(executor, link, "a command of the target");
    }
    let start = reply.len();
    apply_change(executor, link, &call, reply);
    reply.truncate(start);
}

fn take_word(executor: &mut Executor, link: SlotLink, call: &Call<'_>) {
    if call.args.is(2, "CAPA") {
        return;
    }
    note(executor, link.job, MigrationEvent::Received(Word::parse(call.args.at(2))));
}

/// Runs a change of the source.
fn apply_change(executor: &mut Executor, link: SlotLink, call: &Call<'_>, reply: &mut ReplyBuffer) {
    let selects = call.row.control == Control::SelectsDatabase;
    if !selects && !changes_slots_of(executor, link.job, call) {
        return fail(executor, link, "a command that changes no key of the job's slots");
    }
    if call.row.is(flag::DENY_OOM) && !has_room(executor) {
        return note(executor, link.job, MigrationEvent::OutOfMemory);
    }
    let errors = executor.server.observed.statistics.errors;
    let next = executor.call(call, reply);
    executor.do_next(call, next, reply);
    executor.serve_ready();
    if executor.server.observed.statistics.errors > errors {
        fail(executor, link, call.row.name);
    }
}

fn has_room(executor: &mut Executor) -> bool {
    executor.server.config.maxmemory_bytes == 0
        || executor.needs_no_room()
        || executor.make_room() != Room::None
}

fn changes_slots_of(executor: &Executor, job: JobId, call: &Call<'_>) -> bool {
    let Some(node) = executor.server.cluster.as_deref() else { return false };
    let slot = Redirections::of(executor).slot_of_call(call);
    let is_of_job = |slot| node.view.migration(job).is_some_and(|job| job.slots().contains(slot));
    // Sources send what a command did to the slots' keys, never what may do more.
    let may_do_more = call.row.group == Group::Scripting
        || call.row.is(flag::MOVES_KEYS | flag::TOUCHES_ARBITRARY_KEYS | flag::ADMIN);
    call.row.is(flag::WRITE)
        && call.row.control == Control::None
        && !may_do_more
        && slot.is_some_and(is_of_job)
}
