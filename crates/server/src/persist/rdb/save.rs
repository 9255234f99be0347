//! Writes a snapshot of all databases.

use crate::db::keyspace::Database;
use crate::db::object::Value;
use crate::db::rdb::{kind_of, write_asides, write_value};
use crate::db::{Db, Object};
use crate::error::quoted;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;
use structures::key_slot::key_slot;
use structures::key_table::EntryRef;
use wire::nodes_conf::{OPEN_SLOTS, OpenSlot, open_slots_text};
use wire::rdb::{PayloadWriter, SlotImport, VERSION, Writer, kind, opcode};

/// Attributes and options of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Release that defines the format.
    pub release: &'static str,
    /// Time of the snapshot.
    pub created_s: i64,
    /// Memory used at the time of the snapshot.
    pub used_memory_bytes: u64,
    /// Whether long strings are compressed.
    pub compresses: bool,
    /// Whether a checksum is written.
    pub checksummed: bool,
    /// The file is the base of an append-only file.
    pub aof_base: bool,
    /// Idle times are written with the keys.
    pub with_idle_times: bool,
    /// Frequencies are written with the keys.
    pub with_frequencies: bool,
    /// Sources of function libraries.
    pub libraries: Vec<Vec<u8>>,
    /// A pause after each key, in microseconds, for tests; a negative number: one microsecond each time that number of
    /// keys.
    pub key_delay_us: i32,
    /// Time with which expiries are compared.
    pub now_ms: i64,
    /// Writes the form for servers without expiry of hash fields.
    pub for_7_2: bool,
    /// Keys without such a form may be logged.
    pub logs_keys: bool,
    /// Only libraries are written.
    pub without_data: bool,
    /// Slots of the cluster that are moved by hand: for replicas, which have no others open from then on.
    pub open_slots: Option<Vec<OpenSlot>>,
    /// Slots of the cluster that are being imported.
    pub slot_imports: Vec<SlotImport>,
    /// Position in the replication stream, if there is one.
    pub place: Option<PlaceInStream>,
}

/// Position in the change stream that the data results from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceInStream {
    /// Selected database of the stream.
    pub db_index: usize,
    /// Id of the history.
    pub id: String,
    /// Offset in the history.
    pub offset: u64,
}

/// Name of the attribute with this server's version. Other servers skip unknown names, and read `valkey-ver` as the
/// version of the format.
pub const OWN_VERSION: &str = "warmline-ver";

/// Version of the format for releases before 9.0.
pub const VERSION_OF_7_2: u16 = 11;

/// Why a snapshot of that version was not written: it has a value that only the newest version represents.
#[derive(Debug)]
struct Unrepresentable;

impl fmt::Display for Unrepresentable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that this version of the format has no form for")
    }
}

impl std::error::Error for Unrepresentable {}

/// Whether a snapshot was not written for a value that its version of the format does not represent.
pub fn is_unrepresentable(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unrepresentable>())
}

/// The newest type of value in it.
const KIND_MAX_OF_7_2: u8 = kind::STREAM_LISTPACKS_3;

/// Keys between two calls of `progress`.
const KEYS_PER_PROGRESS: u64 = 1024;

/// Writes all of `db`. `progress` receives the number of keys written now and then.
pub fn write_snapshot<W: Write>(
    sink: W,
    db: &Db,
    snapshot: &Snapshot,
    progress: &mut dyn FnMut(u64),
) -> io::Result<W> {
    let mut writer = Writer::new(sink, snapshot.compresses, snapshot.checksummed);
    let magic = match snapshot.for_7_2 {
        true => format!("REDIS{VERSION_OF_7_2:04}"),
        false => format!("VALKEY{VERSION:03}"),
    };
    writer.raw(magic.as_bytes())?;
    let mut about = vec![
        (OWN_VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        ("valkey-ver", snapshot.release.to_owned()),
        ("redis-bits", usize::BITS.to_string()),
        ("ctime", snapshot.created_s.to_string()),
        ("used-mem", snapshot.used_memory_bytes.to_string()),
    ];
    if let Some(place) = &snapshot.place {
        about.push(("repl-stream-db", place.db_index.to_string()));
        about.push(("repl-id", place.id.clone()));
        about.push(("repl-offset", place.offset.to_string()));
    }
    about.push(("aof-base", u8::from(snapshot.aof_base).to_string()));
    if let Some(open_slots) = &snapshot.open_slots {
        about.push((OPEN_SLOTS, open_slots_text(open_slots)));
    }
    for (name, value) in about {
        writer.byte(opcode::AUX)?;
        writer.string(name.as_bytes())?;
        writer.string(value.as_bytes())?;
    }
    for library in &snapshot.libraries {
        writer.byte(opcode::FUNCTION_2)?;
        writer.string(library)?;
    }
    if !snapshot.without_data {
        write_slot_imports(&mut writer, snapshot)?;
    }
    let mut keys = 0;
    for index in db.databases_in_use().filter(|_| !snapshot.without_data) {
        write_database(&mut writer, db, index, snapshot, &mut keys, progress)?;
    }
    writer.byte(opcode::EOF)?;
    progress(keys);
    writer.finish_file()
}

/// A reader that does not know the opcode refuses the file: it would serve keys that another node owns.
fn write_slot_imports<W: Write>(writer: &mut Writer<W>, snapshot: &Snapshot) -> io::Result<()> {
    if snapshot.for_7_2 && !snapshot.slot_imports.is_empty() {
        log::warn!("Can't store slot migrations in RDB version {VERSION_OF_7_2}");
        return Err(io::Error::other(Unrepresentable));
    }
    for import in &snapshot.slot_imports {
        writer.byte(opcode::SLOT_IMPORT)?;
        import.write(writer)?;
    }
    Ok(())
}

fn write_database<W: Write>(
    writer: &mut Writer<W>,
    db: &Db,
    index: usize,
    snapshot: &Snapshot,
    keys: &mut u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let table = db.database(index);
    if table.is_empty() {
        return Ok(());
    }
    writer.byte(opcode::SELECT_DB)?;
    writer.length(index as u64)?;
    writer.byte(opcode::RESIZE_DB)?;
    writer.length(table.len() as u64)?;
    writer.length(table.expiring_len() as u64)?;
    let (by_slot, mut slot) = (db.key_seed().by_slot(), None);
    for entry in table.iter() {
        if by_slot && slot != Some(key_slot(entry.key())) {
            slot = Some(key_slot(entry.key()));
            slot.map_or(Ok(()), |slot| write_slot_info(writer, table, slot))?;
        }
        write_key(writer, db, index, entry, snapshot)?;
        pause(snapshot.key_delay_us, *keys);
        *keys += 1;
        if keys.is_multiple_of(KEYS_PER_PROGRESS) {
            progress(*keys);
        }
    }
    Ok(())
}

/// Says how many keys of a slot follow, so that other servers size its tables at once.
fn write_slot_info<W: Write>(writer: &mut Writer<W>, table: &Database, slot: u16) -> io::Result<()> {
    let (keys, expiring) = (table.keys_in_slot(slot), table.expiring_in_slot(slot));
    writer.byte(opcode::AUX)?;
    writer.string(b"slot-info")?;
    writer.string(format!("{slot},{keys},{expiring}").as_bytes())
}

fn write_key<W: Write>(
    writer: &mut Writer<W>,
    db: &Db,
    db_index: usize,
    entry: EntryRef<'_, Object>,
    snapshot: &Snapshot,
) -> io::Result<()> {
    if let Some(expiry_ms) = entry.expiry_ms() {
        writer.byte(opcode::EXPIRY_MS)?;
        writer.time_ms(expiry_ms)?;
    }
    if snapshot.with_idle_times {
        writer.byte(opcode::IDLE)?;
        writer.length(db.access.bits.idle_ms(entry.access(), snapshot.now_ms) / 1000)?;
    }
    if snapshot.with_frequencies {
        let frequency = db.access.bits.frequency(entry.access(), snapshot.now_ms);
        writer.raw(&[opcode::FREQUENCY, u8::try_from(frequency).unwrap_or(u8::MAX)])?;
    }
    let value = db.value_of(entry);
    let kind = kind_of(&value);
    if snapshot.for_7_2 && kind > KIND_MAX_OF_7_2 {
        let (key, hidden) = match snapshot.logs_keys {
            true => (format!("'{}' ", quoted(entry.key())), ""),
            false => (String::new(), "; 'hide-user-data-from-log yes' hides its name"),
        };
        let kind = value.kind().name();
        log::warn!(
            "Can't store key {key}(db {db_index}) in RDB version {VERSION_OF_7_2}: this {kind} needs version {VERSION}{hidden}"
        );
        return Err(io::Error::other(Unrepresentable));
    }
    writer.byte(kind)?;
    writer.string(entry.key())?;
    write_value(writer, &value)?;
    write_asides(writer, &value)
}

pub(in crate::persist) fn pause(delay_us: i32, keys: u64) {
    match delay_us {
        0 => {}
        1.. => std::thread::sleep(Duration::from_micros(delay_us as u64)),
        _ if keys.is_multiple_of(u64::from(delay_us.unsigned_abs())) => {
            std::thread::sleep(Duration::from_micros(1));
        }
        _ => {}
    }
}

/// Passes a key's value in the form of DUMP to `read`.
pub fn dump_payload<R>(
    value: &Value<'_>,
    compresses: bool,
    writer: &mut PayloadWriter,
    read: impl FnOnce(&mut Vec<u8>) -> R,
) -> R {
    let write = |writer: &mut Writer<io::Sink>| {
        writer.byte(kind_of(value))?;
        write_value(writer, value)?;
        write_asides(writer, value)
    };
    writer.make(compresses, write, read)
}
