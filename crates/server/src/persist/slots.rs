//! The keys of some slots as commands that create them, for the node to which the slots move.
//!
//! ```text
//!  for each database, for each of the slots that has keys: SELECT database | for each key: its commands [PEXPIREAT]
//! ```
//!
//! The commands are those of the append-only file's base. A key whose time has passed is written too: the receiver keeps
//! it until this node or the slot's next owner removes it.

use super::aof::rewrite::{KEYS_PER_PROGRESS, command, write_key};
use super::rdb::save::pause;
use crate::db::Db;
use std::io::{self, BufWriter, Write};
use wire::cluster_bus::SlotSet;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes the keys of `slots` in all databases; returns their number. `progress` receives the number of keys written so
/// far; `key_delay_us` is that of snapshots. Without a cluster there are no slots, and nothing is written.
pub fn write_slots(
    output: impl Write,
    db: &Db,
    slots: &SlotSet,
    key_delay_us: i32,
    progress: &mut dyn FnMut(u64),
) -> io::Result<u64> {
    let mut sink = BufWriter::with_capacity(BUFFER_BYTES, output);
    let mut keys = 0;
    for index in db.databases_in_use() {
        let database = db.database(index);
        for slot in slots.iter().filter(|slot| database.keys_in_slot(*slot) > 0) {
            command(&mut sink, &[b"SELECT", index.to_string().as_bytes()])?;
            for entry in database.iter_slot(slot) {
                write_key(&mut sink, db, entry)?;
                keys += 1;
                if key_delay_us != 0 {
                    sink.flush()?;
                    pause(key_delay_us, keys);
                }
                if keys % KEYS_PER_PROGRESS == 0 {
                    progress(keys);
                }
            }
        }
    }
    sink.flush()?;
    progress(keys);
    Ok(keys)
}
