//! Hashes in files.

use super::{Encoding, FieldExpiry, Hash, Written};
use crate::db::collection::Collection;
use crate::db::object::StringValue;
use crate::db::rdb::{
    RdbType, ReadContext, ReadValue, Result, corrupt, unique_listpack, unique_ziplist, zipmap_elements,
};
use std::io::{self, Read, Write};
use structures::listpack::Listpack;
use wire::rdb::{Reader, Writer, kind};

/// What stands for a field that does not expire.
const NO_EXPIRY: i64 = -1;

impl RdbType for Hash {
    const RDB_KINDS: &'static [u8] =
        &[kind::HASH, kind::HASH_2, kind::HASH_LISTPACK, kind::HASH_ZIPLIST, kind::HASH_ZIPMAP];

    fn rdb_kind(&self) -> u8 {
        match &self.encoding {
            Encoding::Compact(_) => kind::HASH_LISTPACK,
            Encoding::Packed(map) if map.expiring_len() > 0 => kind::HASH_2,
            Encoding::Packed(_) => kind::HASH,
        }
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        let map = match &self.encoding {
            Encoding::Compact(list) => return writer.string(list.as_bytes()),
            Encoding::Packed(map) => map,
        };
        writer.length(map.len() as u64)?;
        if map.expiring_len() == 0 {
            return map.iter().try_for_each(|(field, value)| {
                writer.string(field)?;
                writer.string(value)
            });
        }
        map.iter_with_expiry().try_for_each(|(field, value, expiry_ms)| {
            writer.string(field)?;
            writer.string(value)?;
            writer.time_ms(expiry_ms.unwrap_or(NO_EXPIRY))
        })
    }

    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue> {
        Ok(Self::read(reader, kind, context)?.map_or(ReadValue::AllExpired, ReadValue::of))
    }
}

impl Hash {
    /// `None` if all fields were expired.
    fn read<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<Option<Hash>> {
        const LISTPACK: &str = "Hash listpack integrity check failed.";
        const ZIPLIST: &str = "Hash ziplist integrity check failed.";
        let list = match kind {
            kind::HASH => return Self::read_table(reader, context).map(Some),
            kind::HASH_2 => return Self::read_expiring(reader, context),
            kind::HASH_ZIPMAP => reader.string()?.with_bytes(zipmap_elements)?,
            kind::HASH_ZIPLIST => reader.string()?.with_bytes(|bytes| unique_ziplist(bytes, 2, ZIPLIST))?,
            _ => reader.string()?.with_bytes(|bytes| unique_listpack(bytes, 2, LISTPACK))?,
        };
        Ok(Some(Self::of_listpack(list, kind == kind::HASH_ZIPMAP, context)))
    }

    fn of_listpack(list: Listpack, check_lengths: bool, context: &mut ReadContext<'_>) -> Hash {
        let limits = context.limits;
        let is_long = |text: StringValue<'_>| text.len() > limits.hash_listpack_value_bytes_max;
        let unpacks = list.len() / 2 > limits.hash_listpack_entries_max
            || check_lengths && list.iter().any(|element| is_long(element.into()));
        let mut hash = Hash { encoding: Encoding::Compact(list) };
        if unpacks {
            hash.unpack(context.seed);
        }
        hash
    }

    fn read_table<R: Read>(reader: &mut Reader<R>, context: &mut ReadContext<'_>) -> Result<Hash> {
        let len = reader.length()?;
        let mut hash = <Hash as Collection>::new(context.limits, context.seed);
        if len > context.limits.hash_listpack_entries_max as u64 {
            hash.unpack(context.seed);
        }
        let mut field = Vec::new();
        for _ in 0..len {
            reader.string()?.copy_to(&mut field);
            let value = reader.string()?;
            let mut context = context.context();
            let written = value.with_bytes(|value| hash.set(&field, value, FieldExpiry::Clear, &mut context));
            if written == Written::Replaced {
                return corrupt("Duplicate hash fields detected");
            }
        }
        Ok(hash)
    }

    fn read_expiring<R: Read>(reader: &mut Reader<R>, context: &mut ReadContext<'_>) -> Result<Option<Hash>> {
        let len = reader.length()?;
        let mut hash = <Hash as Collection>::new(context.limits, context.seed);
        hash.unpack(context.seed);
        let (mut field, mut value) = (Vec::new(), Vec::new());
        for _ in 0..len {
            reader.string()?.copy_to(&mut field);
            reader.string()?.copy_to(&mut value);
            let expiry = match reader.time_ms()? {
                NO_EXPIRY => FieldExpiry::Clear,
                ..NO_EXPIRY => return corrupt("A hash field expires before time began"),
                at_ms if context.fields_expired_before_ms.is_some_and(|now_ms| at_ms < now_ms) => continue,
                at_ms => FieldExpiry::At(at_ms),
            };
            if hash.set_unless_there(&field, &value, expiry, &mut context.context()).is_err() {
                return corrupt("Duplicate hash fields detected");
            }
        }
        Ok((hash.len() > 0).then_some(hash))
    }

    /// A field that is there, expired or not, is an error.
    fn set_unless_there(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: FieldExpiry,
        context: &mut crate::db::collection::CollectionContext<'_>,
    ) -> std::result::Result<(), ()> {
        let before = self.len();
        self.set(field, value, expiry, context);
        if self.len() > before { Ok(()) } else { Err(()) }
    }
}
