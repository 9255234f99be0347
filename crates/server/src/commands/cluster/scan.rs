//! CLUSTERSCAN: iterates over the keys of a cluster, node after node.
//!
//! A cursor is `fingerprint-{tag}-position`. The tag's slot is the one in which to continue, so that clients send the
//! command to the node of that slot. The fingerprint identifies the hash function of the node that wrote the cursor: a
//! position means nothing to another node, which begins the slot again.

use super::{slot_at, view};
use crate::command::{Args, Context, Outcome};
use crate::commands::scan::{Found, ScanOptions, Walked, visit_keys};
use crate::db::{cursor_of_slot, slot_of_cursor};
use crate::error::ClientError;
use std::sync::LazyLock;
use structures::key_slot::{SLOTS, SLOTS_END, key_slot};

/// Where a call continues.
struct Position {
    slot: u16,
    cursor: u64,
}

pub(super) fn cluster_scan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (options, wanted) = parse_options(args)?;
    let matched = options.pattern_slot();
    let is_contradiction = wanted.is_some() && matched.is_some() && wanted != matched;
    if args.at(1) == b"0" {
        let slot = wanted.or(matched).unwrap_or(0);
        answer_position(ctx, (!is_contradiction).then_some(slot));
        return Ok(());
    }
    let fingerprint = fingerprint(ctx);
    let position = parse_cursor(args.at(1), &fingerprint).ok_or(ClientError::text("ERR Invalid cursor"))?;
    if wanted.is_some_and(|wanted| wanted != position.slot) {
        return Err(ClientError::text("ERR Cursor slot mismatch with SLOT argument"));
    }
    if let Some(matched) = matched.filter(|matched| *matched != position.slot) {
        answer_position(ctx, (!is_contradiction && matched > position.slot).then_some(matched));
        return Ok(());
    }
    let is_one_slot = wanted.is_some() || matched.is_some();
    let last = if is_one_slot { position.slot } else { end_of_run(ctx, position.slot)? };
    let (next, found) = visit_keys(ctx, position.cursor, &options, Some(last));
    let after = match next {
        0 if is_one_slot || usize::from(last) + 1 == SLOTS => "0".to_owned(),
        0 => format!("0-{{{}}}-0", tag(last + 1)),
        next => format!("{fingerprint}-{{{}}}-{next}", tag(slot_of_cursor(next))),
    };
    found.answer_with(after.as_bytes(), ctx.reply);
    Ok(())
}

/// The options of SCAN, and SLOT.
fn parse_options(args: Args<'_>) -> Result<(ScanOptions<'_>, Option<u16>), ClientError> {
    let mut wanted = None;
    let options = ScanOptions::parse_with(args, 2, Walked::Keys, &mut |at| {
        if !args.is(at, "SLOT") || at + 1 >= args.len() {
            return Ok(0);
        }
        if wanted.is_some() {
            return Err(ClientError::text("ERR SLOT option can only be specified once"));
        }
        wanted = Some(slot_at(args, at + 1)?);
        Ok(2)
    })?;
    Ok((options, wanted))
}

/// Replies with the beginning of a slot, or with the end, and no keys.
fn answer_position(ctx: &mut Context<'_>, slot: Option<u16>) {
    let cursor = slot.map_or_else(|| "0".to_owned(), |slot| format!("0-{{{}}}-0", tag(slot)));
    Found::default().answer_with(cursor.as_bytes(), ctx.reply);
}

/// The last slot of the run of slots that have the same owner.
fn end_of_run(ctx: &Context<'_>, slot: u16) -> Result<u16, ClientError> {
    let view = view(ctx.server)?;
    let owner = |slot| view.owner(slot).map(cluster::Node::id);
    Ok((slot..SLOTS_END).take_while(|next| owner(*next) == owner(slot)).last().unwrap_or(slot))
}

fn parse_cursor(text: &[u8], fingerprint: &str) -> Option<Position> {
    let mut parts = text.splitn(3, |&byte| byte == b'-');
    let (from, tag, cursor) = (parts.next()?, parts.next()?, parts.next()?);
    let cursor = std::str::from_utf8(cursor).ok()?.parse::<u64>().ok()?;
    let slot = key_slot(tag);
    let is_own = from == fingerprint.as_bytes() && slot_of_cursor(cursor) == slot;
    Some(Position { slot, cursor: if is_own { cursor } else { cursor_of_slot(slot) } })
}

/// Six characters from `0` to `o`, never the one of a slot's beginning.
fn fingerprint(ctx: &Context<'_>) -> String {
    let hash = ctx.db.key_seed().seed().hash(b"fingerprint").max(1);
    (0..6).map(|at| char::from(b'0' + (hash >> (6 * at) & 0x3f) as u8)).collect()
}

/// The shortest text of a slot, of several the first: the same as in the reference.
fn tag(slot: u16) -> &'static str {
    static TAGS: LazyLock<Vec<String>> = LazyLock::new(tags);
    &TAGS[usize::from(slot)]
}

fn tags() -> Vec<String> {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let (mut tags, mut missing) = (vec![String::new(); SLOTS], SLOTS);
    let (mut texts, mut next): (_, Vec<String>) = (vec![String::new()], Vec::new());
    // No slot needs more than three characters.
    while missing > 0 {
        for text in &texts {
            for &digit in DIGITS {
                let longer = format!("{text}{}", char::from(digit));
                let tag = &mut tags[usize::from(key_slot(longer.as_bytes()))];
                if tag.is_empty() {
                    tag.clone_from(&longer);
                    missing -= 1;
                }
                next.push(longer);
            }
        }
        texts = std::mem::take(&mut next);
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_tag_of_at_most_three_characters() {
        assert_eq!([0, 1, 2, 100].map(tag), ["06S", "Qi", "5L5", "0or"]);
        for slot in 0..SLOTS_END {
            assert_eq!(key_slot(tag(slot).as_bytes()), slot);
            assert!((1..=3).contains(&tag(slot).len()), "{}", tag(slot));
        }
    }
}
