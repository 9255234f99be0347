//! XDEL, XDELEX and XACKDEL, and the propagation of removed entries, in commands that replicas of all kinds support.

use super::ids;
use crate::command::{Args, Context, Outcome};
use crate::db::stream::{References, Stream, StreamId, Trimmed, Unreferenced};
use crate::db::{Db, EventClasses, Key};
use crate::error::ClientError;

pub(super) fn xdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    if ctx.db.read_collection_for_write::<Stream>(key)?.is_none() {
        ctx.reply.integer(0);
        return Ok(());
    }
    let wanted = ids::all(args.from(2))?;
    let deleted = ctx
        .db
        .change(key, |stream: &mut Stream, _| wanted.into_iter().filter(|&id| stream.delete(id)).count())?;
    let deleted = deleted.unwrap_or(0);
    if deleted > 0 {
        ctx.db.changed_many(EventClasses::STREAM, "xdel", key, deleted as u64);
    }
    ctx.reply.count(deleted);
    Ok(())
}

/// The reference option at `at`, if it is one.
pub(super) fn references(args: Args<'_>, at: usize) -> Option<References> {
    let words =
        [("KEEPREF", References::Keep), ("DELREF", References::Remove), ("ACKED", References::Respect)];
    words.into_iter().find(|(word, _)| args.is(at, word)).map(|(_, references)| references)
}

/// The options of XDELEX and XACKDEL.
struct Removal<'a> {
    references: References,
    ids: Args<'a>,
}

impl<'a> Removal<'a> {
    fn parse(args: Args<'a>, first: usize) -> Result<Self, ClientError> {
        let (mut said, mut given) = (None, None);
        let mut at = first;
        while at < args.len() {
            if let (None, Some(references)) = (said, references(args, at)) {
                said = Some(references);
                at += 1;
            } else if args.is(at, "IDS") && at + 1 < args.len() {
                let invalid = ClientError::text("ERR Number of IDs must be a positive integer");
                let count = args.count_in(at + 1, 1, usize::MAX, invalid)?;
                if count > args.len() - at - 2 {
                    return Err(ClientError::text(
                        "ERR The `numids` parameter must match the number of arguments",
                    ));
                }
                given = Some(args.from(at + 2).first(count));
                at += 2 + count;
            } else {
                return Err(ClientError::Syntax);
            }
        }
        let ids = given.ok_or(ClientError::text("ERR IDS option is required"))?;
        Ok(Removal { references: said.unwrap_or_default(), ids })
    }
}

/// The reply for each id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Not in the stream, or not pending in the group.
    Absent = -1,
    Deleted = 1,
    /// Kept, because a group still refers to it.
    Referenced = 2,
}

/// The changes to a stream.
#[derive(Default)]
struct Removed {
    fates: Vec<Fate>,
    acknowledged: Vec<StreamId>,
    deleted: Vec<StreamId>,
    unreferenced: Unreferenced,
}

impl Removed {
    /// Deletes one entry; `is_there`: it counts as deleted even if it no longer exists.
    fn remove(&mut self, stream: &mut Stream, id: StreamId, references: References, is_there: bool) {
        let stays = references == References::Respect && stream.is_referenced(id);
        if references == References::Remove {
            stream.remove_references(id, &mut self.unreferenced);
        }
        let deleted = !stays && stream.delete(id);
        self.deleted.extend(deleted.then_some(id));
        self.fates.push(match stays {
            true => Fate::Referenced,
            false if deleted || is_there => Fate::Deleted,
            false => Fate::Absent,
        });
    }

    fn finish(self, ctx: &mut Context<'_>, args: Args<'_>) {
        let key = args.key(1);
        if !self.acknowledged.is_empty() {
            propagate_ids(ctx.db, &[b"XACK", key.bytes(), args.at(2)], &self.acknowledged);
        }
        propagate_unreferenced(ctx.db, key, &self.unreferenced);
        if !self.deleted.is_empty() {
            propagate_ids(ctx.db, &[b"XDEL", key.bytes()], &self.deleted);
            ctx.db.changed_many(EventClasses::STREAM, "xdel", key, self.deleted.len() as u64);
        }
        let unreferenced: usize = self.unreferenced.iter().map(|(_, ids)| ids.len()).sum();
        let quiet = (self.acknowledged.len() + unreferenced) as u64;
        if quiet > 0 {
            ctx.db.changed_quietly(key, quiet);
        }
        ctx.reply.array(self.fates.len());
        self.fates.iter().for_each(|&fate| ctx.reply.integer(fate as i64));
    }
}

fn reply_absent(ctx: &mut Context<'_>, count: usize) -> Outcome {
    ctx.reply.array(count);
    (0..count).for_each(|_| ctx.reply.integer(Fate::Absent as i64));
    Ok(())
}

pub(super) fn xdelex(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.key(1);
    let is_there = ctx.db.read_collection_for_write::<Stream>(key)?.is_some();
    let removal = Removal::parse(args, 2)?;
    if !is_there {
        return reply_absent(ctx, removal.ids.len());
    }
    let wanted = ids::all(removal.ids)?;
    let mut removed = Removed::default();
    ctx.db.change(key, |stream: &mut Stream, _| {
        wanted.into_iter().for_each(|id| removed.remove(stream, id, removal.references, false));
    })?;
    removed.finish(ctx, args);
    Ok(())
}

pub(super) fn xackdel(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, group) = (args.key(1), args.at(2));
    let stream = ctx.db.read_collection_for_write::<Stream>(key)?;
    let has_group = stream.is_some_and(|stream| stream.group(group).is_some());
    let removal = Removal::parse(args, 3)?;
    if !has_group {
        return reply_absent(ctx, removal.ids.len());
    }
    let wanted = ids::all(removal.ids)?;
    let mut removed = Removed::default();
    ctx.db.change(key, |stream: &mut Stream, _| {
        for id in wanted {
            if stream.group_mut(group).is_some_and(|mut group| group.acknowledge(id)) {
                removed.acknowledged.push(id);
                removed.remove(stream, id, removal.references, true);
            } else {
                removed.fates.push(Fate::Absent);
            }
        }
    })?;
    removed.finish(ctx, args);
    Ok(())
}

fn propagate_ids(db: &mut Db, words: &[&[u8]], ids: &[StreamId]) {
    if !db.change_log.is_recording() {
        return;
    }
    let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
    db.propagate_as_list(words, ids.iter().map(String::as_bytes));
}

fn propagate_unreferenced(db: &mut Db, key: Key<'_>, unreferenced: &Unreferenced) {
    for (group, ids) in unreferenced {
        propagate_ids(db, &[b"XACK", key.bytes(), group], ids);
    }
}

/// Propagates the result of a trim: node boundaries can differ on another server.
pub(super) fn propagate_trimmed(db: &mut Db, key: Key<'_>, trimmed: &Trimmed) {
    if !db.change_log.is_recording() {
        return;
    }
    if trimmed.leading > 0 {
        let len = db.stored_collection::<Stream>(key).map_or(0, |stream| stream.len())
            + trimmed.behind.len() as u64;
        db.propagate_as(&[b"XTRIM", key.bytes(), b"MAXLEN", b"=", len.to_string().as_bytes()]);
    }
    if !trimmed.behind.is_empty() {
        propagate_ids(db, &[b"XDEL", key.bytes()], &trimmed.behind);
    }
    propagate_unreferenced(db, key, &trimmed.unreferenced);
}
