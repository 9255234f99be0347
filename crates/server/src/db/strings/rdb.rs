//! Strings in RDB files.

use super::long_string::LongString;
use crate::db::object::{ObjectVariant, REFERRED_LEN_MIN};
use crate::db::rdb::{RdbType, ReadContext, ReadValue, Result};
use std::io::{self, Read, Write};
use wire::rdb::{OwnedString, Reader, Writer, kind};

impl RdbType for LongString {
    const RDB_KINDS: &'static [u8] = &[kind::STRING];

    fn rdb_kind(&self) -> u8 {
        kind::STRING
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        writer.string(self)
    }

    /// Reads a string into its smallest encoding, which may be in the entry.
    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        _kind: u8,
        _context: &mut ReadContext<'_>,
    ) -> Result<ReadValue> {
        Ok(match reader.owned_string()? {
            OwnedString::Integer(n) => ReadValue::Integer(n),
            OwnedString::Bytes(bytes) => match wire::number::parse_i64(&bytes) {
                Some(n) => ReadValue::Integer(n),
                None if bytes.len() < REFERRED_LEN_MIN => ReadValue::Bytes(bytes),
                None => ReadValue::Object(LongString::new(bytes).into_object()),
            },
        })
    }
}
