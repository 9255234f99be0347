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

pub mod read;
pub mod write;

pub use read::{ReadError, Reader, StringRef};
pub use write::Writer;

/// The version that files and payloads are written in.
pub const VERSION: u16 = 80;

/// Versions that other servers gave other meanings, as an inclusive range.
pub const FOREIGN_VERSIONS: std::ops::RangeInclusive<u16> = 12..=79;

/// Types and opcodes at and above this, up to [`FOREIGN_TYPE_MAX`], mean something else in `REDIS` files.
pub const FOREIGN_TYPE_MIN: u8 = 22;
pub const FOREIGN_TYPE_MAX: u8 = 243;

/// Which server's line a file's signature names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    Redis,
    Valkey,
    /// Payloads have none.
    Absent,
}

/// Whether data of this version can be read. Not `strict`: versions that are not known are tried.
pub fn accepts_version(version: u16, magic: Magic, strict: bool) -> bool {
    let foreign = FOREIGN_VERSIONS.contains(&version);
    match magic {
        _ if version < 1 => false,
        Magic::Valkey if version <= *FOREIGN_VERSIONS.end() => false,
        Magic::Redis if version > *FOREIGN_VERSIONS.end() => false,
        _ => !strict || (version <= VERSION && !foreign),
    }
}

/// What a key's value is, and how it is written.
pub mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    /// Scores as text.
    pub const ZSET: u8 = 3;
    pub const HASH: u8 = 4;
    /// Scores as doubles.
    pub const ZSET_2: u8 = 5;
    pub const MODULE_PRE_GA: u8 = 6;
    pub const MODULE_2: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const ZSET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list of ziplists.
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM_LISTPACKS: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const ZSET_LISTPACK: u8 = 17;
    /// A list of listpacks and of elements on their own.
    pub const LIST_QUICKLIST_2: u8 = 18;
    /// With counters.
    pub const STREAM_LISTPACKS_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    /// With the time of each consumer's last success.
    pub const STREAM_LISTPACKS_3: u8 = 21;
    /// With an expiry for each field.
    pub const HASH_2: u8 = 22;

    /// Whether a value of this type may stand in a file.
    pub fn is_known(kind: u8) -> bool {
        matches!(kind, STRING..=MODULE_2 | HASH_ZIPMAP..=HASH_2)
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
        NAMES.get(kind as usize).copied().unwrap_or("unknown")
    }
}

/// What stands in a file where a key's type could.
pub mod opcode {
    /// Of a cluster that moves slots.
    pub const SLOT_IMPORT: u8 = 243;
    /// Three lengths: a slot, and how many keys and expiries are in it.
    pub const SLOT_INFO: u8 = 244;
    /// A library's source, as a string.
    pub const FUNCTION_2: u8 = 245;
    pub const FUNCTION_PRE_GA: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    /// Seconds since the next key was used, as a length.
    pub const IDLE: u8 = 248;
    /// How often the next key was used, as a byte.
    pub const FREQUENCY: u8 = 249;
    /// Two strings about the file.
    pub const AUX: u8 = 250;
    /// Keys and expiries in the database that follows, as lengths.
    pub const RESIZE_DB: u8 = 251;
    pub const EXPIRY_MS: u8 = 252;
    /// Seconds, 4 bytes.
    pub const EXPIRY_S: u8 = 253;
    /// The database of the keys that follow, as a length.
    pub const SELECT_DB: u8 = 254;
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
