//! Sets in files.

use super::{Form, Set};
use crate::db::collection::Collection;
use crate::db::rdb::{FirstError, ReadMeans, Result, corrupt, unique_listpack, write_text};
use std::io::{self, Read, Write};
use structures::integer_set::IntegerSet;
use wire::rdb::{Reader, Writer, kind};

impl Set {
    pub(in crate::db) fn rdb_kind(&self) -> u8 {
        match &self.form {
            Form::Integers { outgrown: false, .. } => kind::SET_INTSET,
            Form::Compact(_) => kind::SET_LISTPACK,
            Form::Integers { outgrown: true, .. } | Form::Packed(_) | Form::Mixed(_) => kind::SET,
        }
    }

    pub(in crate::db) fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        match &self.form {
            Form::Integers { set, outgrown: false } => writer.string(set.to_sorted().as_bytes()),
            Form::Compact(list) => writer.string(list.as_bytes()),
            Form::Integers { outgrown: true, .. } | Form::Packed(_) | Form::Mixed(_) => {
                writer.length(self.len() as u64)?;
                let mut outcome = FirstError::new();
                self.for_each(&mut |member| outcome.then(|| write_text(writer, member)));
                outcome.0
            }
        }
    }

    pub(in crate::db) fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        means: &mut ReadMeans<'_>,
    ) -> Result<Set> {
        match kind {
            kind::SET_INTSET => reader.string()?.with_bytes(|bytes| Self::of_integers(bytes, means)),
            kind::SET_LISTPACK => {
                const WHAT: &str = "Set listpack integrity check failed.";
                let list = reader.string()?.with_bytes(|bytes| unique_listpack(bytes, 1, WHAT))?;
                let packs = list.len() > means.limits.set_listpack_entries_max;
                let mut set = Set { form: Form::Compact(list) };
                if packs {
                    set.pack(means.seed);
                }
                Ok(set)
            }
            _ => Self::read_table(reader, means),
        }
    }

    fn of_integers(bytes: &[u8], means: &ReadMeans<'_>) -> Result<Set> {
        let Ok(set) = IntegerSet::validate(bytes) else { return corrupt("Intset integrity check failed.") };
        let outgrown = set.len() as usize > means.limits.set_intset_entries_max;
        Ok(Set { form: Form::Integers { set, outgrown } })
    }

    fn read_table<R: Read>(reader: &mut Reader<R>, means: &mut ReadMeans<'_>) -> Result<Set> {
        let len = reader.length()?;
        let mut set = <Set as Collection>::new(means.limits, means.seed);
        let compact_max = means.limits.set_intset_entries_max.max(means.limits.set_listpack_entries_max);
        if let Form::Integers { outgrown, .. } = &mut set.form {
            *outgrown = len > compact_max as u64;
        }
        for _ in 0..len {
            let member = reader.string()?;
            let means = means.means();
            if !member.with_bytes(|member| set.add(member, &means)) {
                return corrupt("Duplicate set members detected");
            }
        }
        Ok(set)
    }
}
