//! Loads a snapshot, some keys at a time: the server replies to clients in between.

use super::save::{OWN_VERSION, PlaceInStream, pause};
use crate::db::Db;
use crate::db::access::GivenAccess;
use crate::db::rdb::batch::Batch;
use crate::db::rdb::{Loaded, LoadedKey, ReadValue};
use crate::db::slots;
use crate::db::stream::MESSAGES;
use std::fmt;
use std::io::Read;
use wire::aof::write_command;
use wire::cluster_bus::SlotSet;
use wire::nodes_conf::{OPEN_SLOTS, OpenSlot, read_open_slots};
use wire::rdb::{
    Magic, OWN_OPCODE_MAX, OWN_TYPE_MIN, Origin, ReadError, Reader, SlotImport, accepts_version, kind,
    module, opcode,
};

/// Options for loading a file.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Unknown versions are refused.
    pub strict: bool,
    /// Whether the checksum is verified.
    pub verify_checksum: bool,
    /// Expired keys and fields are dropped: not those of an append-only file's base, whose commands depend on them, nor
    /// those of a file that names a history, unless [`Loader::record_left_out`] has requested commands for them.
    pub drop_expired: bool,
    /// Existing keys are replaced; otherwise they are an error.
    pub replaces: bool,
    /// Space is reserved for at most this number of keys, whatever the file says.
    pub keys_expected_max: usize,
    /// As [`super::Snapshot::key_delay_us`].
    pub key_delay_us: i32,
    /// Time with which expiries are compared.
    pub now_ms: i64,
}

/// Why a file cannot be loaded, and the offset of the error.
#[derive(Debug)]
pub struct LoadError {
    /// Offset in the file.
    pub at: u64,
    /// The error.
    pub reason: Reason,
}

/// Why a file cannot be loaded.
#[derive(Debug)]
pub enum Reason {
    /// Not an RDB file.
    Signature(Vec<u8>),
    /// A version that is not supported.
    Version(u16),
    /// A type or opcode of another server.
    ForeignType {
        /// The type or opcode.
        kind: u8,
        /// The version of the file.
        version: u16,
    },
    /// An unknown type or opcode.
    UnknownType {
        /// The type or opcode.
        kind: u8,
    },
    /// A database that this server does not have.
    Database {
        /// Number of the database.
        index: u64,
        /// Number of databases here.
        count: usize,
    },
    /// A key that exists already.
    Duplicate {
        /// The key.
        key: Vec<u8>,
    },
    /// Data of a module.
    Module {
        /// Name of the module.
        name: String,
    },
    /// A function library cannot be loaded.
    Library(String),
    /// Data of Redis that this server does not support.
    Unsupported {
        /// The key.
        key: Vec<u8>,
        /// The type.
        kind: u8,
        /// The unsupported feature.
        what: String,
    },
    /// Truncated or malformed data.
    Read(ReadError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Signature(bytes) => {
                write!(f, "Wrong signature trying to load DB from file: {}", String::from_utf8_lossy(bytes))
            }
            Reason::Version(version) => write!(f, "Can't handle RDB format version {version}"),
            Reason::ForeignType { kind, version } => {
                write!(f, "Can't handle foreign type or opcode {kind} in RDB with version {version}")
            }
            Reason::UnknownType { .. } => {
                f.write_str("Unknown type or opcode when loading DB. Unrecoverable error, aborting now.")
            }
            Reason::Database { index, count } => write!(
                f,
                "FATAL: Data file was created with a server configured to handle more than {count} databases: it has a database {index}."
            ),
            Reason::Duplicate { key } => {
                write!(f, "RDB has duplicated key '{}'", String::from_utf8_lossy(key))
            }
            Reason::Module { name } => {
                write!(f, "The RDB file contains AUX module data I can't load: no matching module '{name}'")
            }
            Reason::Library(error) => write!(f, "Failed loading library, {error}"),
            Reason::Unsupported { key, kind, what } => write!(
                f,
                "Can't load key '{}' of type {} ({}): {what}",
                String::from_utf8_lossy(key),
                kind::written(*kind),
                kind::name(*kind)
            ),
            Reason::Read(error) => write!(f, "Internal error in RDB reading offset {}: {error}", self.at),
        }
    }
}

impl std::error::Error for LoadError {}

/// Counts of the data read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadFigures {
    /// Keys that were loaded.
    pub keys_loaded: u64,
    /// Keys that had expired.
    pub keys_expired: u64,
    /// Keys with an expiry.
    pub keys_expiring: u64,
    /// Keys whose fields were all expired.
    pub keys_emptied: u64,
    /// Keys with empty collections, which were skipped.
    pub keys_empty: u64,
}

/// Attributes that precede a key.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    expiry_ms: Option<i64>,
    access: GivenAccess,
}

/// Receives a file's contents when it is only checked.
pub trait Observer {
    /// An attribute of the file.
    fn about(&mut self, name: &[u8], value: &[u8], at: u64);
    /// The keys of some slots are being imported.
    fn slot_import(&mut self, import: &SlotImport, at: u64);
    /// The following keys are in this database.
    fn database(&mut self, index: u64, at: u64);
    /// A key and its value.
    fn key(&mut self, db_index: usize, key: &[u8], value: &ReadValue, expiry_ms: Option<i64>);
}

/// A load under way.
pub struct Loader<R> {
    reader: Reader<R>,
    options: LoadOptions,
    magic: Magic,
    origin: Origin,
    version: u16,
    db_index: usize,
    prefix: Prefix,
    key: Vec<u8>,
    kind: u8,
    has_read_keys: bool,
    /// The file was written by this server's software.
    is_own: bool,
    /// The last key is stored in the database.
    is_loaded: bool,
    doing: &'static str,
    batch: Batch,
    /// Counts of the data read so far.
    pub figures: LoadFigures,
    /// Sources of function libraries, to be compiled by the caller.
    pub libraries: Vec<Vec<u8>>,
    /// Selected database of the change stream after the snapshot, if stated.
    pub stream_db: Option<usize>,
    /// Id of the history of changes, and the position in it.
    stream_id: Option<String>,
    stream_offset: Option<u64>,
    left_out: Option<LeftOut>,
    open_slots: Option<Vec<OpenSlot>>,
    slot_imports: Vec<SlotImport>,
    /// The slots of all imports.
    imported: SlotSet,
}

/// Expired keys and fields, for replicas that continue from the file and have them.
struct LeftOut {
    /// Name of the command that removes a key.
    removal: &'static [u8],
    /// Encoded commands, joined with the previous ones for the same database.
    commands: Vec<(usize, Vec<u8>)>,
}

impl LeftOut {
    fn push_key(&mut self, db_index: usize, key: &[u8]) {
        self.push(db_index, [self.removal, key].into_iter());
    }

    fn push_fields(&mut self, db_index: usize, key: &[u8], fields: &[Vec<u8>]) {
        for fields in wire::aof::parts(fields, FIELDS_PER_COMMAND) {
            let head: [&[u8]; 2] = [b"HDEL", key];
            let words: Vec<&[u8]> = head.into_iter().chain(fields.iter().map(Vec::as_slice)).collect();
            self.push(db_index, words.into_iter());
        }
    }

    fn push<'a>(&mut self, db_index: usize, command: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.commands.last().is_none_or(|&(last, _)| last != db_index) {
            self.commands.push((db_index, Vec::new()));
        }
        if let Some((_, commands)) = self.commands.last_mut() {
            write_command(commands, command).expect("memory takes all that is written");
        }
    }
}

/// Forty digits or letters: other servers choose ids freely.
fn is_history_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

const READS_VALUE: &str = "read-object-value";
/// Number of empty keys whose names are logged.
const EMPTY_KEYS_TOLD: u64 = 10;
/// Dropped fields per command.
const FIELDS_PER_COMMAND: usize = 64;
/// Elements read between two readings of the clock.
const KEYS_PER_LOOK: usize = 64;

impl<R: Read> Loader<R> {
    /// Reads the signature.
    pub fn open(source: R, options: LoadOptions) -> Result<Self, LoadError> {
        let mut reader = Reader::new(source);
        let signature =
            reader.array::<9>().map_err(|error| LoadError { at: 0, reason: Reason::Read(error) })?;
        let magic = match &signature {
            [b'R', b'E', b'D', b'I', b'S', b'0', ..] => Magic::Redis,
            [b'V', b'A', b'L', b'K', b'E', b'Y', ..] => Magic::Valkey,
            _ => return Err(LoadError { at: 0, reason: Reason::Signature(signature.into()) }),
        };
        let digits = std::str::from_utf8(&signature[6..]).ok();
        let version = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        if !accepts_version(version, magic, options.strict) {
            return Err(LoadError { at: 6, reason: Reason::Version(version) });
        }
        Ok(Loader {
            reader,
            options,
            magic,
            origin: Origin::of(magic, version),
            version,
            db_index: 0,
            prefix: Prefix::default(),
            key: Vec::new(),
            kind: 0,
            has_read_keys: false,
            is_own: false,
            is_loaded: false,
            doing: "start",
            batch: Batch::default(),
            figures: LoadFigures::default(),
            libraries: Vec::new(),
            stream_db: None,
            stream_id: None,
            stream_offset: None,
            left_out: None,
            open_slots: None,
            slot_imports: Vec::new(),
            imported: SlotSet::new(),
        })
    }

    /// Drops expired keys and fields also if the file names a history: then [`Loader::take_left_out`] returns the
    /// commands that remove them, for replicas that continue the history; `removal` is the command for a key.
    pub fn record_left_out(&mut self, removal: &'static [u8]) {
        self.left_out = Some(LeftOut { removal, commands: Vec::new() });
    }

    /// Encoded commands with their databases for the keys and fields dropped since the last call.
    pub fn take_left_out(&mut self) -> Vec<(usize, Vec<u8>)> {
        self.left_out.as_mut().map(|left_out| std::mem::take(&mut left_out.commands)).unwrap_or_default()
    }

    /// The slots that SETSLOT had left open on the node that wrote the file, if it names them: for a replica's first data.
    pub fn take_open_slots(&mut self) -> Option<Vec<OpenSlot>> {
        self.open_slots.take()
    }

    /// The imports of slots that were read since the last call. Their slots are hidden in the databases, see
    /// [`slots::hide`].
    pub fn take_slot_imports(&mut self) -> Vec<SlotImport> {
        std::mem::take(&mut self.slot_imports)
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// The position in the change stream after the snapshot, if stated completely.
    pub fn place(&self) -> Option<PlaceInStream> {
        let (db_index, id) = (self.stream_db?, self.stream_id.clone()?);
        Some(PlaceInStream { db_index, id, offset: self.stream_offset? })
    }

    fn names_history(&self) -> bool {
        self.stream_db.is_some() && self.stream_id.is_some() && self.stream_offset.is_some()
    }

    /// The file's version.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// What is being read, in the checkers' terms.
    pub fn doing(&self) -> &'static str {
        self.doing
    }

    /// The key whose value is being read, and its type.
    pub fn unfinished_key(&self) -> Option<(&[u8], u8)> {
        (self.doing == READS_VALUE).then_some((&self.key, self.kind))
    }

    /// The rest of the file after the snapshot.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.reader.into_rest()
    }

    /// Continues reading until `out_of_time` returns true; returns whether the end was reached.
    pub fn step(&mut self, db: &mut Db, out_of_time: &mut dyn FnMut() -> bool) -> Result<bool, LoadError> {
        loop {
            let keys = if self.options.key_delay_us == 0 { KEYS_PER_LOOK } else { 1 };
            for _ in 0..keys {
                pause(self.options.key_delay_us, self.figures.keys_loaded);
                if self.read_one_at(db, None)? {
                    return Ok(true);
                }
            }
            if out_of_time() {
                self.put_batch(db).map_err(|reason| LoadError { at: self.position(), reason })?;
                return Ok(false);
            }
        }
    }

    /// Reads everything, passing it to `observer` and keeping nothing.
    pub fn check(&mut self, db: &mut Db, observer: &mut dyn Observer) -> Result<(), LoadError> {
        while !self.read_one_at(db, Some(observer))? {}
        Ok(())
    }

    fn read_one_at(&mut self, db: &mut Db, observer: Option<&mut dyn Observer>) -> Result<bool, LoadError> {
        self.read_one(db, observer).map_err(|reason| {
            let reason = match reason {
                Reason::Read(ReadError::Unsupported(what)) => {
                    Reason::Unsupported { key: self.key.clone(), kind: self.kind, what: what.into() }
                }
                other => other,
            };
            LoadError { at: self.position(), reason }
        })
    }

    /// Reads an opcode with its data, or a key; returns whether that was the end.
    fn read_one(&mut self, db: &mut Db, observer: Option<&mut dyn Observer>) -> Result<bool, Reason> {
        self.doing = "read-type";
        let written = self.reader.byte()?;
        match written {
            opcode::EXPIRY_S => {
                let seconds = i32::from_le_bytes(self.reader.array()?);
                self.prefix.expiry_ms = Some(i64::from(seconds) * 1000);
            }
            opcode::EXPIRY_MS => {
                self.prefix.expiry_ms = Some(self.reader.time_ms()?).filter(|&at_ms| at_ms != -1);
            }
            opcode::FREQUENCY => self.prefix.access.frequency = Some(self.reader.byte()?),
            opcode::IDLE => self.prefix.access.idle_s = Some(self.reader.length()?),
            opcode::SELECT_DB => self.select(db, observer)?,
            opcode::RESIZE_DB => {
                let keys = self.reader.length()?;
                self.reader.length()?;
                if observer.is_none() {
                    let bounded =
                        usize::try_from(keys).unwrap_or(usize::MAX).min(self.options.keys_expected_max);
                    db.expect_keys(self.db_index, bounded);
                }
            }
            opcode::SLOT_INFO => {
                for _ in 0..3 {
                    self.reader.length()?;
                }
            }
            opcode::SLOT_IMPORT if self.origin == Origin::Valkey => self.read_slot_import(db, observer)?,
            opcode::AUX => self.read_about(db, observer)?,
            opcode::FUNCTION_2 => {
                self.doing = "read-functions";
                let source = self.reader.string()?.to_vec();
                self.libraries.push(source);
            }
            opcode::FUNCTION_PRE_GA => {
                return Err(ReadError::Corrupt("Pre-release function format not supported.").into());
            }
            opcode::MODULE_AUX => {
                return Err(Reason::Module { name: module::type_name(self.reader.length()?) });
            }
            opcode::EOF => {
                self.put_batch(db)?;
                // Checksums exist since version 5.
                self.doing = "check-sum";
                if self.version >= 5 {
                    self.reader.file_checksum(self.options.verify_checksum)?;
                }
                return Ok(true);
            }
            written => {
                let kind = match self.origin.kind(written) {
                    Some(kind) => kind,
                    None => self.kind_after(written)?,
                };
                self.read_key(db, kind, observer)?;
            }
        }
        Ok(false)
    }

    /// The type of a key preceded by opcodes that are not types: module data, which may be skipped if marked so.
    #[cold]
    fn kind_after(&mut self, written: u8) -> Result<u8, Reason> {
        let has_metadata = written == opcode::KEY_METADATA && self.origin == Origin::Redis;
        if !has_metadata {
            return Err(self.no_type(written));
        }
        self.doing = "read-key-meta";
        let needed = module::skip_key_metadata(&mut self.reader)?;
        let written = self.reader.byte()?;
        let kind = self.origin.kind(written).ok_or_else(|| self.no_type(written))?;
        let Some(class) = needed else { return Ok(kind) };
        let key = self.reader.string()?.to_vec();
        Err(Reason::Unsupported { key, kind, what: module::no_place_for(&class) })
    }

    fn no_type(&self, written: u8) -> Reason {
        match written {
            OWN_TYPE_MIN..=OWN_OPCODE_MAX if self.magic == Magic::Redis => {
                Reason::ForeignType { kind: written, version: self.version }
            }
            _ => Reason::UnknownType { kind: written },
        }
    }

    #[cold]
    fn read_slot_import(&mut self, db: &mut Db, observer: Option<&mut dyn Observer>) -> Result<(), Reason> {
        self.doing = "read-slot-import";
        let import = SlotImport::read(&mut self.reader)?;
        if self.slot_imports.iter().any(|other| other.name == import.name) {
            return Err(ReadError::Corrupt("Repeated slot import job name in RDB").into());
        }
        if self.imported.intersects(&import.slots) {
            return Err(ReadError::Corrupt("Overlapping slot imports in RDB").into());
        }
        self.imported.insert_all(&import.slots);
        match observer {
            Some(observer) => observer.slot_import(&import, self.position()),
            None => {
                slots::hide(db, &import.slots);
                self.slot_imports.push(import);
            }
        }
        Ok(())
    }

    /// Stores the batch in the database that it was read for.
    fn put_batch(&mut self, db: &mut Db) -> Result<(), Reason> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut duplicate = None;
        let batch = &mut self.batch;
        db.with_database(self.db_index, |db| {
            db.load_batch(batch, |key| duplicate = duplicate.take().or(Some(key.to_vec())));
        });
        match duplicate {
            Some(key) => Err(Reason::Duplicate { key }),
            None => Ok(()),
        }
    }

    /// Reads a string, into the batch if it is short.
    fn read_string(&mut self, db: &mut Db, about: LoadedKey) -> Result<Loaded, Reason> {
        let (reader, batch, key, index) = (&mut self.reader, &mut self.batch, &self.key, self.db_index);
        let value = reader.string()?;
        let loaded = db.with_database(index, |db| {
            if Batch::takes(key, &value) {
                db.gather(batch, db.key(key), &value, about);
                Loaded::Stored
            } else {
                db.load_string(db.key(key), &value, about)
            }
        });
        if self.batch.is_full() {
            self.put_batch(db)?;
        }
        Ok(loaded)
    }

    /// Reads a value that is not a string; with `drops` expired fields are dropped.
    fn read_collection(
        &mut self,
        db: &mut Db,
        kind: u8,
        about: LoadedKey,
        drops: bool,
    ) -> Result<Loaded, Reason> {
        let names_history = self.names_history();
        let before_ms = (drops && !names_history).then_some(self.options.now_ms);
        let mut value = db.read_value(&self.key, &mut self.reader, kind, before_ms)?;
        if let Some(left_out) = self.left_out.as_mut().filter(|_| drops && names_history) {
            let fields = value.leave_out_expired(self.options.now_ms);
            left_out.push_fields(self.db_index, &self.key, &fields);
        }
        Ok(db.with_database(self.db_index, |db| db.load_read(db.key(&self.key), value, about)))
    }

    fn select(&mut self, db: &mut Db, observer: Option<&mut dyn Observer>) -> Result<(), Reason> {
        self.doing = "read-len";
        self.put_batch(db)?;
        let (index, count) = (self.reader.length()?, db.database_count());
        if let Some(observer) = observer {
            observer.database(index, self.position());
        }
        self.db_index = usize::try_from(index)
            .ok()
            .filter(|&index| index < count)
            .ok_or(Reason::Database { index, count })?;
        Ok(())
    }

    /// Logs attributes of the file, or reads data of the last key.
    fn read_about(&mut self, db: &mut Db, observer: Option<&mut dyn Observer>) -> Result<(), Reason> {
        self.doing = "read-aux";
        let name = self.reader.string()?.to_vec();
        let value = self.reader.string()?.to_vec();
        if name == MESSAGES.as_bytes() {
            if self.is_loaded {
                db.with_database(self.db_index, |db| db.load_messages(db.key(&self.key), &value))?;
            }
            return Ok(());
        }
        if let Some(observer) = observer {
            observer.about(&name, &value, self.position());
            return Ok(());
        }
        let text = String::from_utf8_lossy(&value);
        let number = || wire::number::parse_i64(&value).unwrap_or(0);
        match name.to_ascii_lowercase().as_slice() {
            b"redis-ver" => log::info!("Loading RDB produced by Redis version {text}"),
            own if own == OWN_VERSION.as_bytes() => {
                self.is_own = true;
                log::info!("Loading RDB produced by Warmline version {text}");
            }
            // Follows OWN_VERSION, and is the version of the file's format.
            b"valkey-ver" if self.is_own => {}
            b"valkey-ver" => log::info!("Loading RDB produced by Valkey version {text}"),
            b"ctime" => {
                log::info!("RDB age {} seconds", (self.options.now_ms / 1000 - number()).max(0));
            }
            b"used-mem" => {
                log::info!("RDB memory usage when created {:.2} Mb", number() as f64 / (1024.0 * 1024.0));
            }
            // Replicas that continue from here would miss removals dropped before.
            b"repl-stream-db" | b"repl-id" | b"repl-offset" if self.has_read_keys => {}
            b"repl-stream-db" => self.stream_db = usize::try_from(number()).ok(),
            b"repl-id" if is_history_id(&text) => self.stream_id = Some(text.into_owned()),
            b"repl-offset" => self.stream_offset = u64::try_from(number()).ok(),
            b"aof-preamble" if number() != 0 => log::info!("RDB has an AOF tail"),
            b"aof-base" if number() != 0 => log::info!("RDB is base AOF"),
            open if open == OPEN_SLOTS.as_bytes() => {
                self.open_slots = read_open_slots(&value);
                if self.open_slots.is_none() {
                    log::warn!("The RDB has an invalid attribute {OPEN_SLOTS}, which is ignored");
                }
            }
            [b'%', ..] => log::info!("RDB '{}': {text}", String::from_utf8_lossy(&name)),
            _ => {}
        }
        Ok(())
    }

    fn read_key(&mut self, db: &mut Db, kind: u8, observer: Option<&mut dyn Observer>) -> Result<(), Reason> {
        self.doing = "read-key";
        self.reader.string()?.copy_to(&mut self.key);
        self.kind = kind;
        self.has_read_keys = true;
        self.is_loaded = false;
        self.doing = READS_VALUE;
        let prefix = std::mem::take(&mut self.prefix);
        let now_ms = self.options.now_ms;
        let about =
            LoadedKey { expiry_ms: prefix.expiry_ms, access: prefix.access, replaces: self.options.replaces };
        self.figures.keys_expiring += u64::from(prefix.expiry_ms.is_some());
        if let Some(observer) = observer {
            let value = db.read_value(&self.key, &mut self.reader, kind, None)?;
            observer.key(self.db_index, &self.key, &value, prefix.expiry_ms);
            self.figures.keys_loaded += 1;
            let expired = prefix.expiry_ms.is_some_and(|at_ms| at_ms < now_ms);
            self.figures.keys_expired += u64::from(expired);
            return Ok(());
        }
        let names_history = self.names_history();
        let drops = self.options.drop_expired && (!names_history || self.left_out.is_some());
        if drops && prefix.expiry_ms.is_some_and(|at_ms| at_ms < now_ms) {
            db.read_value(&self.key, &mut self.reader, kind, None)?;
            self.figures.keys_expired += 1;
            if let Some(left_out) = self.left_out.as_mut().filter(|_| names_history) {
                left_out.push_key(self.db_index, &self.key);
            }
            return Ok(());
        }
        let loaded = if kind == kind::STRING {
            self.read_string(db, about)?
        } else {
            self.read_collection(db, kind, about, drops)?
        };
        match loaded {
            Loaded::Stored => {
                self.figures.keys_loaded += 1;
                self.is_loaded = kind != kind::STRING;
            }
            Loaded::Duplicate => return Err(Reason::Duplicate { key: self.key.clone() }),
            Loaded::AllExpired => self.figures.keys_emptied += 1,
            Loaded::Empty => {
                self.figures.keys_empty += 1;
                if self.figures.keys_empty <= EMPTY_KEYS_TOLD {
                    let key = String::from_utf8_lossy(&self.key);
                    log::info!("rdbLoadObject skipping empty key: {key}");
                }
            }
        }
        Ok(())
    }
}

impl From<ReadError> for Reason {
    fn from(error: ReadError) -> Self {
        Reason::Read(error)
    }
}
