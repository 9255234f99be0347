//! The data as the fewest commands that create it: a base without RDB (`aof-use-rdb-preamble no`).

use crate::db::{Db, Object};
use std::io::{self, Write};
use structures::key_table::EntryRef;
use wire::aof::{write_command, write_timestamp};

/// Keys between two calls of `progress`.
pub(in crate::persist) const KEYS_PER_PROGRESS: u64 = 1024;

pub(in crate::persist) fn command<W: Write>(sink: &mut W, arguments: &[&[u8]]) -> io::Result<()> {
    write_command(sink, arguments.iter().copied())
}

/// Writes all of `db` and the sources of function libraries, after a timestamp of `timestamp_s`, if given. `progress`
/// receives the number of keys written.
pub fn write_commands<W: Write>(
    sink: &mut W,
    db: &Db,
    libraries: &[Vec<u8>],
    timestamp_s: Option<i64>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    if let Some(unix_s) = timestamp_s {
        write_timestamp(sink, unix_s)?;
    }
    for library in libraries {
        command(sink, &[b"FUNCTION", b"LOAD", library])?;
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
