//! The data as the fewest commands that create it: a base without RDB (`aof-use-rdb-preamble no`).

use crate::db::{Db, Object};
use crate::persist::rdb::Snapshot;
use std::io::{self, Write};
use structures::key_table::EntryRef;
use wire::aof::{write_command, write_timestamp};
use wire::rdb::SlotImport;

/// Keys between two calls of `progress`.
pub(in crate::persist) const KEYS_PER_PROGRESS: u64 = 1024;

pub(in crate::persist) fn command<W: Write>(sink: &mut W, arguments: &[&[u8]]) -> io::Result<()> {
    write_command(sink, arguments.iter().copied())
}

/// Writes all of `db` with the function libraries and the imports of slots of `snapshot`, after a timestamp of `timestamp_s`,
/// if given. `progress` receives the number of keys written.
pub fn write_commands<W: Write>(
    sink: &mut W,
    db: &Db,
    snapshot: &Snapshot,
    timestamp_s: Option<i64>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    if let Some(unix_s) = timestamp_s {
        write_timestamp(sink, unix_s)?;
    }
    for library in &snapshot.libraries {
        command(sink, &[b"FUNCTION", b"LOAD", library])?;
    }
    for import in &snapshot.slot_imports {
        establish_import(sink, import)?;
    }
    let mut keys = 0;
    for index in db.databases_in_use().filter(|&index| !db.database(index).is_empty()) {
        command(sink, &[b"SELECT", index.to_string().as_bytes()])?;
        for entry in db.database(index).iter() {
            write_key(sink, db, entry)?;
            keys += 1;
            if keys % KEYS_PER_PROGRESS == 0 {
                progress(keys);
            }
        }
    }
    progress(keys);
    Ok(())
}

/// Hides the slots of an import before its keys.
fn establish_import<W: Write>(sink: &mut W, import: &SlotImport) -> io::Result<()> {
    let words = ["CLUSTER", "SYNCSLOTS", "ESTABLISH", "NAME", import.name.as_str(), "SLOTSRANGE"];
    let slots: Vec<String> =
        import.slots.ranges().flat_map(|(first, last)| [first, last]).map(|slot| slot.to_string()).collect();
    let words: Vec<&[u8]> =
        words.into_iter().chain(slots.iter().map(String::as_str)).map(str::as_bytes).collect();
    command(sink, &words)
}

/// Writes the commands that create a key, its value and its expiry.
pub(in crate::persist) fn write_key<W: Write>(
    sink: &mut W,
    db: &Db,
    entry: EntryRef<'_, Object>,
) -> io::Result<()> {
    db.value_of(entry).rewrite(&mut |arguments| command(sink, arguments))?;
    match entry.expiry_ms() {
        Some(expiry_ms) => command(sink, &[b"PEXPIREAT", entry.key(), expiry_ms.to_string().as_bytes()]),
        None => Ok(()),
    }
}
