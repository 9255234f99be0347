//! Sets in RDB files.

use super::{Encoding, Set, listpack_of, record_of};
use crate::db::collection::Collection;
use crate::db::rdb::{
    FirstError, RdbType, ReadContext, ReadValue, Result, corrupt, unique_listpack, write_text,
};
use std::io::{self, Read, Write};
use structures::integer_set::IntegerSet;
use wire::convert::usize_of;
use wire::rdb::{Reader, Writer, kind};

impl RdbType for Set {
    const RDB_KINDS: &'static [u8] = &[kind::SET, kind::SET_INTSET, kind::SET_LISTPACK];

    fn rdb_kind(&self) -> u8 {
        match &self.encoding {
            Encoding::Integers { outgrown: false, .. } => kind::SET_INTSET,
            Encoding::Record(_) | Encoding::Compact(_) => kind::SET_LISTPACK,
            Encoding::Integers { outgrown: true, .. } | Encoding::Packed(_) | Encoding::Mixed(_) => kind::SET,
        }
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        match &self.encoding {
            Encoding::Integers { set, outgrown: false } => writer.string(set.to_sorted().as_bytes()),
            Encoding::Record(members) => writer.string(listpack_of(members.view()).as_bytes()),
            Encoding::Compact(list) => writer.string(list.as_bytes()),
            Encoding::Integers { outgrown: true, .. } | Encoding::Packed(_) | Encoding::Mixed(_) => {
                writer.length(self.len() as u64)?;
                let mut outcome = FirstError::new();
                self.for_each(&mut |member| outcome.then(|| write_text(writer, member)));
                outcome.0
            }
        }
    }

    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue> {
        Self::read(reader, kind, context).map(ReadValue::of)
    }
}

impl Set {
    fn read<R: Read>(reader: &mut Reader<R>, kind: u8, context: &mut ReadContext<'_>) -> Result<Set> {
        match kind {
            kind::SET_INTSET => reader.string()?.with_bytes(|bytes| Self::of_integers(bytes, context)),
            kind::SET_LISTPACK => {
                const WHAT: &str = "Set listpack integrity check failed.";
                let list = reader.string()?.with_bytes(|bytes| unique_listpack(bytes, 1, WHAT))?;
                let packs = list.len() > context.limits.set_listpack_entries_max;
                if !packs && let Some(members) = record_of(&list) {
                    return Ok(Set::of_record(members));
                }
                let mut set = Set { encoding: Encoding::Compact(list) };
                if packs {
                    set.pack(context.seed);
                }
                Ok(set)
            }
            _ => Self::read_table(reader, context),
        }
    }

    fn of_integers(bytes: &[u8], context: &ReadContext<'_>) -> Result<Set> {
        let Ok(set) = IntegerSet::validate(bytes) else { return corrupt("Intset integrity check failed.") };
        let outgrown = usize_of(set.len()) > context.limits.set_intset_entries_max;
        Ok(Set { encoding: Encoding::Integers { set, outgrown } })
    }

    fn read_table<R: Read>(reader: &mut Reader<R>, context: &mut ReadContext<'_>) -> Result<Set> {
        let len = reader.length()?;
        let mut set = <Set as Collection>::new(context.limits, context.seed);
        let compact_max = context.limits.set_intset_entries_max.max(context.limits.set_listpack_entries_max);
        if let Encoding::Integers { outgrown, .. } = &mut set.encoding {
            *outgrown = len > compact_max as u64;
        }
        for _ in 0..len {
            let member = reader.string()?;
            let context = context.context();
            if !member.with_bytes(|member| set.add(member, &context)) {
                return corrupt("Duplicate set members detected");
            }
            if let Encoding::Packed(set) = &mut set.encoding {
                set.expect(len);
            }
        }
        Ok(set)
    }
}
