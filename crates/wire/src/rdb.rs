//! The elements that RDB files and DUMP payloads are made of.
//!
//! ```text
//!  length   00llllll                              0..=63
//!           01llllll llllllll                     up to 14 bits
//!           10000000 + 4 bytes, 10000001 + 8      big-endian
//!  string   length + bytes
//!           11000000 + 1 byte, 11000001 + 2, 11000010 + 4    an integer, little-endian
//!           11000011 + length + length + bytes    LZF: compressed length, original length
//!  double   8 bytes, little-endian; before RDB 8 a text of up to 252 bytes after its length,
//!           253 for not-a-number, 254 for +inf, 255 for -inf
//!  time     8 bytes, little-endian milliseconds; before RDB 9 also in the writer's byte order, which is the same
//!
//!  file     "VALKEY080" | "REDIS0011"...   then opcodes and keys, see [`opcode`]   255   checksum, 8 bytes
//!  payload  type  value  version, 2 bytes  checksum, 8 bytes       (little-endian, over all before it)
//! ```
//! A checksum of 0 in a file means that none was calculated.
//!
//! Up to version 11 the format is one. Since then Redis has gone on to 12, 13... and Valkey to 80: types from 22 up and
//! opcode 243 have different meanings in files of either, which [`Origin`] distinguishes.

pub mod module;
pub mod read;
pub mod slot_import;
pub mod write;

pub use read::{OwnedString, ReadError, Reader, StringRef};
pub use slot_import::SlotImport;
pub use write::{PayloadWriter, Writer};

use std::ops::RangeInclusive;

/// The version that files and payloads are written in.
pub const VERSION: u16 = 80;

/// Versions that Redis has given, or can give, its own meaning.
pub const FOREIGN_VERSIONS: RangeInclusive<u16> = 12..=79;

/// Those of them whose format is known: Redis 7.4 to 8.8, the last from its description alone.
pub const REDIS_VERSIONS: RangeInclusive<u16> = 12..=14;

/// Types from here, and opcodes up to [`OWN_OPCODE_MAX`], mean something else in Redis than in Valkey.
pub const OWN_TYPE_MIN: u8 = 22;
/// See [`OWN_TYPE_MIN`].
pub const OWN_OPCODE_MAX: u8 = 243;

/// Which server's line a file's signature names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// `REDIS`, which Valkey wrote too before version 80.
    Redis,
    /// `VALKEY`, from version 80 on.
    Valkey,
    /// Payloads have none.
    Absent,
}

/// Whether data of this version can be read. Not `strict`: versions that are not known are tried.
pub fn accepts_version(version: u16, magic: Magic, strict: bool) -> bool {
    let is_known = version < *FOREIGN_VERSIONS.start()
        || REDIS_VERSIONS.contains(&version)
        || (version > *FOREIGN_VERSIONS.end() && version <= VERSION);
    match magic {
        _ if version < 1 => false,
        Magic::Valkey if version <= *FOREIGN_VERSIONS.end() => false,
        Magic::Redis if version > *FOREIGN_VERSIONS.end() => false,
        _ => !strict || is_known,
    }
}

/// Whose meaning types and opcodes have where there is more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From before there was more than one.
    Common,
    /// Redis, from version 12 on.
    Redis,
    /// Valkey.
    Valkey,
}

impl Origin {
    /// Whose meaning data has with this signature and of this version.
    pub fn of(magic: Magic, version: u16) -> Origin {
        match magic {
            Magic::Valkey => Origin::Valkey,
            _ if FOREIGN_VERSIONS.contains(&version) => Origin::Redis,
            Magic::Redis => Origin::Common,
            // The writer of a payload of an older version is unknown: types that came later are taken as Valkey's, as
            // Valkey does.
            Magic::Absent => Origin::Valkey,
        }
    }

    /// Which of [`kind`] a type in a file is; `None` if there is no such type.
    #[inline]
    pub fn kind(self, written: u8) -> Option<u8> {
        match self {
            _ if written < OWN_TYPE_MIN => kind::is_common(written).then_some(written),
            Origin::Redis if written <= kind::REDIS_TYPE_MAX => Some(written | kind::REDIS),
            Origin::Valkey if written == kind::HASH_2 => Some(written),
            _ => None,
        }
    }
}

/// What a key's value is, and how it is written.
pub mod kind {
    /// The bytes of a string, as a string of the file.
    pub const STRING: u8 = 0;
    /// A length, and that number of strings.
    pub const LIST: u8 = 1;
    /// A length, and that number of strings.
    pub const SET: u8 = 2;
    /// Scores as text.
    pub const ZSET: u8 = 3;
    /// A length, and that number of pairs of strings: field and value.
    pub const HASH: u8 = 4;
    /// Scores as doubles.
    pub const ZSET_2: u8 = 5;
    /// A module's value, as Redis 4.0 wrote it until its first release. Refused.
    pub const MODULE_PRE_GA: u8 = 6;
    /// A module's id, and opcodes with its values until an end opcode. Its type is not known here.
    pub const MODULE_2: u8 = 7;
    /// A string that is a zipmap of fields and values: Redis before 2.6.
    pub const HASH_ZIPMAP: u8 = 9;
    /// A string that is a ziplist of elements: Redis before 3.2.
    pub const LIST_ZIPLIST: u8 = 10;
    /// A string that is a sorted array of integers, of 2, 4 or 8 bytes each.
    pub const SET_INTSET: u8 = 11;
    /// A string that is a ziplist of members and scores in turn: Redis before 7.0.
    pub const ZSET_ZIPLIST: u8 = 12;
    /// A string that is a ziplist of fields and values in turn: Redis before 7.0.
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list of ziplists.
    pub const LIST_QUICKLIST: u8 = 14;
    /// Listpacks of entries by their first ids, the last id, and the groups.
    pub const STREAM_LISTPACKS: u8 = 15;
    /// A string that is a listpack of fields and values in turn.
    pub const HASH_LISTPACK: u8 = 16;
    /// A string that is a listpack of members and scores in turn.
    pub const ZSET_LISTPACK: u8 = 17;
    /// A list of listpacks and of elements on their own.
    pub const LIST_QUICKLIST_2: u8 = 18;
    /// With counters.
    pub const STREAM_LISTPACKS_2: u8 = 19;
    /// A string that is a listpack of members.
    pub const SET_LISTPACK: u8 = 20;
    /// With the time of each consumer's last success.
    pub const STREAM_LISTPACKS_3: u8 = 21;
    /// With an expiry for each field.
    pub const HASH_2: u8 = 22;

    /// Set in types that only Redis writes, and in no file: their numbers mean something else in Valkey.
    pub const REDIS: u8 = 0x40;
    /// The last that is known.
    pub(super) const REDIS_TYPE_MAX: u8 = 33;
    /// With an expiry before each field, as Redis 7.4 had it until its first release.
    pub const REDIS_HASH_METADATA_PRE_GA: u8 = REDIS | 22;
    /// A listpack of fields, values and expiries.
    pub const REDIS_HASH_LISTPACK_PRE_GA: u8 = REDIS | 23;
    /// With the earliest expiry first, and how much later each field expires.
    pub const REDIS_HASH_METADATA: u8 = REDIS | 24;
    /// The earliest expiry, and a listpack of fields, values and expiries.
    pub const REDIS_HASH_LISTPACK: u8 = REDIS | 25;
    /// With the messages that producers have asked to be added once.
    pub const REDIS_STREAM_LISTPACKS_4: u8 = REDIS | 26;
    /// With the pending entries of groups that have no consumer.
    pub const REDIS_STREAM_LISTPACKS_5: u8 = REDIS | 27;
    /// An array, a type of Redis 8.8 that is not known here.
    pub const REDIS_ARRAY: u8 = REDIS | 28;

    /// Whether Redis and Valkey write values of this type.
    pub(super) fn is_common(kind: u8) -> bool {
        matches!(kind, STRING..=MODULE_2 | HASH_ZIPMAP..=STREAM_LISTPACKS_3)
    }

    /// The number that stands in files.
    pub fn written(kind: u8) -> u8 {
        kind & !REDIS
    }

    /// What checkers call it.
    pub fn name(kind: u8) -> &'static str {
        const NAMES: [&str; 23] = [
            "string",
            "list-linked",
            "set-hashtable",
            "zset-v1",
            "hash-hashtable",
            "zset-v2",
            "module-pre-release",
            "module-value",
            "",
            "hash-zipmap",
            "list-ziplist",
            "set-intset",
            "zset-ziplist",
            "hash-ziplist",
            "quicklist",
            "stream",
            "hash-listpack",
            "zset-listpack",
            "quicklist-v2",
            "stream-v2",
            "set-listpack",
            "stream-v3",
            "hash-volatile-items",
        ];
        const REDIS_NAMES: [&str; 12] = [
            "hash-hashtable-md-pre-release",
            "hash-listpack-md-pre-release",
            "hash-hashtable-md",
            "hash-listpack-md",
            "stream-v4",
            "stream-v5",
            "array",
            "hash-template-listpack",
            "hash-template-listpack-ref",
            "hash-template-array",
            "hash-template-array-ref",
            "gcra",
        ];
        let name = match kind.checked_sub(REDIS_HASH_METADATA_PRE_GA) {
            Some(index) => REDIS_NAMES.get(usize::from(index)),
            None => NAMES.get(usize::from(kind)),
        };
        name.copied().unwrap_or("unknown")
    }
}

/// What stands in a file where a key's type could.
pub mod opcode {
    /// In Redis: what modules keep of the next key.
    pub const KEY_METADATA: u8 = 243;
    /// In Valkey: slots that a node of a cluster is being sent, a [`SlotImport`](super::SlotImport).
    pub const SLOT_IMPORT: u8 = 243;
    /// Three lengths: a slot, and how many keys and expiries are in it.
    pub const SLOT_INFO: u8 = 244;
    /// A library's source, as a string.
    pub const FUNCTION_2: u8 = 245;
    /// A function, as Redis 7.0 wrote it until its first release. Refused.
    pub const FUNCTION_PRE_GA: u8 = 246;
    /// What a module keeps beside the keys, in the form of [`kind::MODULE_2`](super::kind::MODULE_2).
    pub const MODULE_AUX: u8 = 247;
    /// Seconds since the next key was used, as a length.
    pub const IDLE: u8 = 248;
    /// How often the next key was used, as a byte.
    pub const FREQUENCY: u8 = 249;
    /// Two strings about the file.
    pub const AUX: u8 = 250;
    /// Keys and expiries in the database that follows, as lengths.
    pub const RESIZE_DB: u8 = 251;
    /// The next key's expiry: milliseconds since 1970, 8 bytes, little-endian.
    pub const EXPIRY_MS: u8 = 252;
    /// Seconds, 4 bytes.
    pub const EXPIRY_S: u8 = 253;
    /// The database of the keys that follow, as a length.
    pub const SELECT_DB: u8 = 254;
    /// The end. From version 5 on, a checksum of 8 bytes follows.
    pub const EOF: u8 = 255;
}

/// How the nodes of [`kind::LIST_QUICKLIST_2`] hold elements.
pub mod node {
    /// One element, as it is.
    pub const PLAIN: u64 = 1;
    /// A listpack.
    pub const PACKED: u64 = 2;
}

/// How strings that are not plain bytes are written.
mod encoding {
    pub const INTEGER_8: u8 = 0;
    pub const INTEGER_16: u8 = 1;
    pub const INTEGER_32: u8 = 2;
    pub const LZF: u8 = 3;
}

#[cfg(test)]
mod tests;
