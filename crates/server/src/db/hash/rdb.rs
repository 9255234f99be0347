//! Hashes in RDB files.
//!
//! ```text
//!  HASH     fields | (field | value)...
//!  HASH_2   fields | (field | value | expiry, 8 bytes)...      -1: none
//!  LISTPACK a listpack of fields and values, as a string
//!
//!  by Redis, in two forms each: those of pre-releases of 7.4 have no earliest expiry, and absolute expiries
//!  METADATA [earliest expiry, 8 bytes] | fields | (expiry, a length | field | value)...     0: none; 1: the earliest
//!  LISTPACK [earliest expiry, 8 bytes] | a listpack of fields, values and expiries, as a string      0: none
//! ```

use super::{Encoding, FieldExpiry, Hash, Written, listpack_of, record_of};
use crate::db::collection::Collection;
use crate::db::object::StringValue;
use crate::db::rdb::{
    RdbType, ReadContext, ReadValue, Result, corrupt, unique_listpack, unique_ziplist, zipmap_elements,
};
use std::io::{self, Read, Write};
use structures::expiring_list::ExpiringList;
use structures::listpack::Listpack;
use wire::convert::signed_count;
use wire::rdb::{Reader, Writer, kind};

/// The expiry of a field that does not expire.
const NO_EXPIRY: i64 = -1;
/// The same in Redis's forms.
const REDIS_NO_EXPIRY: u64 = 0;
/// Latest expiry of a field in Redis.
const REDIS_EXPIRY_MS_MAX: u64 = (1 << 48) - 1;
const LISTPACK: &str = "Hash listpack integrity check failed.";

impl RdbType for Hash {
    const RDB_KINDS: &'static [u8] = &[
        kind::HASH,
        kind::HASH_2,
        kind::HASH_LISTPACK,
        kind::HASH_ZIPLIST,
        kind::HASH_ZIPMAP,
        kind::REDIS_HASH_METADATA_PRE_GA,
        kind::REDIS_HASH_METADATA,
        kind::REDIS_HASH_LISTPACK_PRE_GA,
        kind::REDIS_HASH_LISTPACK,
    ];

    fn rdb_kind(&self) -> u8 {
        match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => kind::HASH_LISTPACK,
            Encoding::Expiring(_) | Encoding::Packed(_) if self.has_expiring() => kind::HASH_2,
            Encoding::Expiring(_) | Encoding::Packed(_) => kind::HASH,
        }
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        let map = match &self.encoding {
            Encoding::Record(record) => return writer.string(listpack_of(record.view()).as_bytes()),
            Encoding::Compact(list) => return writer.string(list.as_bytes()),
            Encoding::Expiring(list) => return write_list(list, writer),
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
        const ZIPLIST: &str = "Hash ziplist integrity check failed.";
        let list = match kind {
            kind::HASH => return Self::read_table(reader, context).map(Some),
            kind::HASH_2 => return Self::read_expiring(reader, context),
            _ if kind & kind::REDIS != 0 => return Self::read_redis(reader, kind, context),
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
        if !unpacks && let Some(record) = record_of(&list) {
            return Hash::of_record(record);
        }
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
            hash.expect(len);
        }
        Ok(hash)
    }

    fn expect(&mut self, fields: u64) {
        if let Encoding::Packed(map) = &mut self.encoding {
            map.expect(fields);
        }
    }

    fn read_expiring<R: Read>(reader: &mut Reader<R>, context: &mut ReadContext<'_>) -> Result<Option<Hash>> {
        let len = reader.length()?;
        let mut hash = <Hash as Collection>::new(context.limits, context.seed);
        hash.prepare_to_expire(0, &context.context());
        if len > hash.listed_max(context.limits) as u64 {
            hash.unpack(context.seed);
        }
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
            hash.expect(len);
        }
        Ok((hash.len() > 0).then_some(hash))
    }

    /// Separate from the other forms, whose code stays short.
    #[cold]
    fn read_redis<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<Option<Hash>> {
        match kind {
            kind::REDIS_HASH_METADATA | kind::REDIS_HASH_METADATA_PRE_GA => {
                Self::read_redis_table(reader, kind, context)
            }
            _ => Self::read_redis_listpack(reader, kind, context),
        }
    }

    fn read_redis_table<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<Option<Hash>> {
        let earliest_ms = read_earliest(reader, kind == kind::REDIS_HASH_METADATA)?;
        let len = reader.length()?;
        let mut hash = <Hash as Collection>::new(context.limits, context.seed);
        if len > context.limits.hash_listpack_entries_max as u64 {
            hash.unpack(context.seed);
        }
        let mut field = Vec::new();
        for _ in 0..len {
            let expiry_ms = match (reader.length()?, earliest_ms) {
                (REDIS_NO_EXPIRY, _) => REDIS_NO_EXPIRY,
                (later_ms, Some(earliest_ms)) => (later_ms - 1).saturating_add(earliest_ms),
                (expiry_ms, None) => expiry_ms,
            };
            reader.string()?.copy_to(&mut field);
            reader.string()?.with_bytes(|value| hash.add_from_redis(&field, value, expiry_ms, context))?;
        }
        Ok((hash.len() > 0 || len == 0).then_some(hash))
    }

    fn read_redis_listpack<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<Option<Hash>> {
        // Each field is followed by its expiry.
        read_earliest(reader, kind == kind::REDIS_HASH_LISTPACK)?;
        let list = reader.string()?.with_bytes(|bytes| unique_listpack(bytes, 3, LISTPACK))?;
        let mut hash = <Hash as Collection>::new(context.limits, context.seed);
        let mut elements = list.iter().map(StringValue::from);
        while let (Some(field), Some(value), Some(expiry)) =
            (elements.next(), elements.next(), elements.next())
        {
            let StringValue::Integer(expiry_ms @ 0..) = expiry else { return corrupt(LISTPACK) };
            field.with_bytes(|field| {
                value.with_bytes(|value| hash.add_from_redis(field, value, expiry_ms as u64, context))
            })?;
        }
        Ok((hash.len() > 0 || list.is_empty()).then_some(hash))
    }

    /// Adds a field in Redis's form, unless it is expired and expired fields are dropped.
    fn add_from_redis(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry_ms: u64,
        context: &mut ReadContext<'_>,
    ) -> Result<()> {
        let expiry = match expiry_ms {
            REDIS_NO_EXPIRY => FieldExpiry::Clear,
            1..=REDIS_EXPIRY_MS_MAX => FieldExpiry::At(signed_count(expiry_ms)),
            _ => return corrupt("A hash field expires later than any can"),
        };
        if let (FieldExpiry::At(at_ms), Some(now_ms)) = (&expiry, context.fields_expired_before_ms)
            && *at_ms < now_ms
        {
            return Ok(());
        }
        match self.set_unless_there(field, value, expiry, &mut context.context()) {
            Ok(()) => Ok(()),
            Err(()) => corrupt("Duplicate hash fields detected"),
        }
    }

    /// Adds a field; an existing one, expired or not, is an error.
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

fn write_list<W: Write>(list: &ExpiringList, writer: &mut Writer<W>) -> io::Result<()> {
    let expires = list.earliest_ms().is_some();
    writer.length(list.len() as u64)?;
    list.iter().try_for_each(|(field, value, expiry_ms)| {
        StringValue::from(field).with_bytes(|field| writer.string(field))?;
        StringValue::from(value).with_bytes(|value| writer.string(value))?;
        if expires { writer.time_ms(expiry_ms.unwrap_or(NO_EXPIRY)) } else { Ok(()) }
    })
}

/// The earliest expiry of the fields, in forms that have it.
fn read_earliest<R: Read>(reader: &mut Reader<R>, is_there: bool) -> Result<Option<u64>> {
    if !is_there {
        return Ok(None);
    }
    let earliest_ms = reader.time_ms()? as u64;
    if earliest_ms > REDIS_EXPIRY_MS_MAX + 1 {
        return corrupt("The earliest expiry of a hash's fields is later than any can be");
    }
    Ok(Some(earliest_ms))
}
