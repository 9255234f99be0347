//! The data as the fewest commands that create it: a base without RDB (`aof-use-rdb-preamble no`).

use crate::db::Db;
use std::io::{self, Write};
use wire::aof::{write_command, write_timestamp};

/// Keys between two calls of `progress`.
const KEYS_PER_PROGRESS: u64 = 1024;

fn command<W: Write>(sink: &mut W, arguments: &[&[u8]]) -> io::Result<()> {
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
            db.value_of(entry).rewrite(&mut |arguments| command(sink, arguments))?;
            if let Some(expiry_ms) = entry.expiry_ms() {
                command(sink, &[b"PEXPIREAT", entry.key(), expiry_ms.to_string().as_bytes()])?;
            }
            keys += 1;
            if keys % KEYS_PER_PROGRESS == 0 {
                progress(keys);
            }
        }
    }
    progress(keys);
    Ok(())
}
