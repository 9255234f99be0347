//! How a command that has changed data is propagated to replicas and the append-only file. Most are propagated verbatim;
//! relative times become points in time, and floating-point computations are replaced by their results.

use crate::command::Args;
use crate::command::args::OwnedArgs;
use crate::db::{Db, Hash, Key, StringValue};
use wire::number::i64_text;

/// Records the replacement for a command with these arguments, after it has run ([`Db::propagate_as`]); records nothing
/// if the command is propagated verbatim.
pub type PropagateAs = fn(Args<'_>, &mut Db);

/// The removal of the key.
pub fn deletion(args: Args<'_>, db: &mut Db) {
    db.propagate_as(&[b"DEL", args.at(1)]);
}

/// SET with an expiry as a point in time.
pub fn set(args: Args<'_>, db: &mut Db) {
    let is_lasting = args.len() == 4 && args.is(3, "KEEPTTL");
    let is_absolute = args.len() == 5 && args.is(3, "PXAT") && db.is_stored(db.selected(), args.key(1));
    if args.len() > 3 && !is_lasting && !is_absolute {
        set_with_expiry(args.key(1), args.at(2), db);
    }
}

/// As [`set`], for SETEX and PSETEX.
pub fn set_to_expire(args: Args<'_>, db: &mut Db) {
    set_with_expiry(args.key(1), args.at(3), db);
}

/// SET with the string's current value.
pub fn string_value(args: Args<'_>, db: &mut Db) {
    if let Ok(Some(text)) = db.read_string_for_write(args.key(1)) {
        let text = text.to_vec();
        db.propagate_as(&[b"SET", args.at(1), &text, b"KEEPTTL"]);
    }
}

/// SET with the string stored at the key, which has no expiry, or the deletion of the key if there is none.
pub fn string_or_deletion(key: Key<'_>, db: &mut Db) {
    match db.read_string_for_write(key) {
        Ok(Some(text)) => {
            let text = text.to_vec();
            db.propagate_as(&[b"SET", key.bytes(), &text]);
        }
        _ => db.propagate_as(&[b"DEL", key.bytes()]),
    }
}

/// MSETEX with its expiry, which follows the pairs, as a point in time. With an expiry in the past the keys were removed,
/// and the removal was recorded.
pub fn pairs(args: Args<'_>, db: &mut Db) {
    let pairs = args.integer(1).ok().and_then(|pairs| usize::try_from(pairs).ok());
    let first = pairs.map_or(args.len(), |pairs| 2 + 2 * pairs);
    match pairs {
        Some(1..) if !db.is_stored(db.selected(), args.key(2)) => db.change_log.not_verbatim(),
        _ => _ = absolute(args, first, db),
    }
}

/// HGETEX with its expiry as a point in time.
pub fn fields(args: Args<'_>, db: &mut Db) {
    _ = absolute(args, 2, db);
}

/// HSETEX with its expiry as a point in time, and without its conditions: they were true.
pub fn set_fields(args: Args<'_>, db: &mut Db) {
    let options = 2..fields_at(args, 2);
    let is_condition =
        |at: usize| options.contains(&at) && ["NX", "XX", "FNX", "FXX"].iter().any(|word| args.is(at, word));
    if !options.clone().any(is_condition) {
        _ = absolute(args, 2, db);
        return;
    }
    let kept = (0..args.len()).filter(|&at| !is_condition(at)).map(|at| args.at(at));
    let unconditional = OwnedArgs::new(kept);
    if !absolute(unconditional.view(), 2, db) {
        db.propagate_as_list(&[], unconditional.view().iter());
    }
}

fn set_with_expiry(key: Key<'_>, value: &[u8], db: &mut Db) {
    if !db.is_stored(db.selected(), key) {
        return db.change_log.not_verbatim();
    }
    match db.stored_expiry_ms(key) {
        Some(at_ms) => db.propagate_as(&[b"SET", key.bytes(), value, b"PXAT", &i64_text(at_ms)]),
        None => db.propagate_as(&[b"SET", key.bytes(), value]),
    }
}

/// The expiry as a point in time. With an expiry in the past the key was removed, and the removal was recorded.
pub fn expiry(args: Args<'_>, db: &mut Db) {
    let key = args.key(1);
    if !db.is_stored(db.selected(), key) {
        return db.change_log.not_verbatim();
    }
    match db.stored_expiry_ms(key) {
        Some(at_ms) => db.propagate_as(&[b"PEXPIREAT", key.bytes(), &i64_text(at_ms)]),
        None => db.propagate_as(&[b"PERSIST", key.bytes()]),
    }
}

/// HSET, or HSETEX if the field has an expiry, with the field's current value.
pub fn field_value(args: Args<'_>, db: &mut Db) {
    let (key, field) = (args.key(1), args.at(2));
    let hash = db.stored_collection::<Hash>(key);
    let found = hash.and_then(|hash| hash.get_with_expiry(field, i64::MIN));
    match found.map(|(value, expiry_ms)| (StringValue::to_vec(&value), expiry_ms)) {
        Some((value, None)) => db.propagate_as(&[b"HSET", key.bytes(), field, &value]),
        Some((value, Some(at_ms))) => {
            db.propagate_as(&[
                b"HSETEX",
                key.bytes(),
                b"PXAT",
                &i64_text(at_ms),
                b"FIELDS",
                b"1",
                field,
                &value,
            ]);
        }
        None => {}
    }
}

/// RESTORE with its time to live as a point in time.
pub fn restored(args: Args<'_>, db: &mut Db) {
    restored_from(args, None, db);
}

/// As [`restored`], with a different payload.
pub fn restored_from(args: Args<'_>, payload: Option<&[u8]>, db: &mut Db) {
    let key = args.key(1);
    if !db.is_stored(db.selected(), key) {
        return db.propagate_as(&[db.lazy_freeing.removal_of_replaced(), key.bytes()]);
    }
    let is_absolute = args.from(4).iter().any(|word| word.eq_ignore_ascii_case(b"ABSTTL"));
    let at_ms = db.stored_expiry_ms(key).filter(|_| !is_absolute).map(i64_text);
    if at_ms.is_none() && payload.is_none() {
        return;
    }
    let mut arguments: Vec<&[u8]> = args.iter().collect();
    if let Some(at_ms) = &at_ms {
        arguments[2] = at_ms;
        arguments.push(b"ABSTTL");
    }
    arguments[3] = payload.unwrap_or(arguments[3]);
    db.propagate_as(&arguments);
}

/// The position of FIELDS at or after `first`; the number of arguments if it is missing.
fn fields_at(args: Args<'_>, first: usize) -> usize {
    (first..args.len()).find(|&at| args.is(at, "FIELDS")).unwrap_or(args.len())
}

/// The arguments with EX, PX or EXAT, which can be at or after `first` and before FIELDS, as PXAT; `false`, and nothing
/// recorded, if none of them is present.
fn absolute(args: Args<'_>, first: usize, db: &mut Db) -> bool {
    let fields_at = fields_at(args, first);
    let scale = |word: &str| match word {
        "EX" => (1000, db.now_ms()),
        "PX" => (1, db.now_ms()),
        _ => (1000, 0),
    };
    for word in ["EX", "PX", "EXAT"] {
        let Some(at) = (first..fields_at).find(|&at| args.is(at, word)) else { continue };
        let (unit_ms, base_ms) = scale(word);
        let Some(Ok(amount)) = args.get(at + 1).map(|_| args.integer(at + 1)) else { continue };
        let at_ms = i64_text(amount.saturating_mul(unit_ms).saturating_add(base_ms));
        let mut arguments: Vec<&[u8]> = args.iter().collect();
        (arguments[at], arguments[at + 1]) = (b"PXAT", &at_ms);
        db.propagate_as(&arguments);
        return true;
    }
    false
}

/// The expiry of fields, given in `unit_ms` after `base_ms`, as a point in time.
fn field_expiry(args: Args<'_>, unit_ms: i64, base_ms: i64, db: &mut Db) {
    let Ok(amount) = args.integer(2) else { return };
    let at_ms = i64_text(amount.saturating_mul(unit_ms).saturating_add(base_ms));
    db.propagate_as_list(&[b"HPEXPIREAT", args.at(1), &at_ms], args.from(3).iter());
}

/// HEXPIRE with its expiry as a point in time.
pub fn field_expiry_in_s(args: Args<'_>, db: &mut Db) {
    field_expiry(args, 1000, db.now_ms(), db);
}

/// HPEXPIRE with its expiry as a point in time.
pub fn field_expiry_in_ms(args: Args<'_>, db: &mut Db) {
    field_expiry(args, 1, db.now_ms(), db);
}

/// HEXPIREAT with its expiry in milliseconds.
pub fn field_expiry_at_s(args: Args<'_>, db: &mut Db) {
    field_expiry(args, 1000, 0, db);
}
