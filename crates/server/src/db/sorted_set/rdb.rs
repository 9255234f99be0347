//! Sorted sets in RDB files.

use super::compact::Compact;
use super::{Encoding, Insertion, SortedSet, listpack_of, record_of};
use crate::db::collection::Collection;
use crate::db::object::StringValue;
use crate::db::rdb::{
    FirstError, RdbType, ReadContext, ReadValue, Result, corrupt, unique_listpack, unique_ziplist, write_text,
};
use std::cmp::Ordering;
use std::io::{self, Read, Write};
use structures::listpack::Listpack;
use structures::ordered_set::fbtree::Loader;
use structures::unaligned_box::UnalignedBox;
use wire::rdb::{ReadError, Reader, Writer, kind};

/// Members read before they are added together.
const RUN_MEMBERS: usize = 8192;

/// Members stored back to back, with each one's end and score.
#[derive(Default)]
struct Run {
    members: Vec<u8>,
    ends: Vec<(usize, f64)>,
}

impl RdbType for SortedSet {
    const RDB_KINDS: &'static [u8] = &[kind::ZSET, kind::ZSET_2, kind::ZSET_LISTPACK, kind::ZSET_ZIPLIST];

    fn rdb_kind(&self) -> u8 {
        if self.is_compact() { kind::ZSET_LISTPACK } else { kind::ZSET_2 }
    }

    /// Large sets are written from the highest score down: the order in which this and other servers read them fastest.
    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        match &self.encoding {
            Encoding::Record(record) => return writer.string(listpack_of(record.view()).as_bytes()),
            Encoding::Compact(compact) => return writer.string(compact.as_bytes()),
            Encoding::Tree(_) | Encoding::SkipList(_) => {}
        }
        writer.length(self.len() as u64)?;
        let mut outcome = FirstError::new();
        self.for_range(0..self.len(), true, &mut |member, score| {
            outcome.then(|| {
                write_text(writer, member)?;
                writer.double(score)
            });
            outcome.0.is_ok()
        });
        outcome.0
    }

    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue> {
        Self::read(reader, kind, context).map(ReadValue::of)
    }
}

/// Members and scores of a compact list, in its order; `None` for a score that is not a number.
fn pairs(list: &Listpack) -> impl Iterator<Item = (StringValue<'_>, Option<f64>)> {
    let mut elements = list.iter().map(StringValue::from);
    std::iter::from_fn(move || {
        let (member, score) = (elements.next()?, elements.next()?);
        let score = match score {
            StringValue::Integer(score) => Some(score as f64),
            text => text.with_bytes(wire::number::parse_f64),
        };
        Some((member, score.filter(|score| !score.is_nan())))
    })
}

fn compare(a: StringValue<'_>, b: StringValue<'_>) -> Ordering {
    a.with_bytes(|a| b.with_bytes(|b| a.cmp(b)))
}

impl SortedSet {
    fn read<R: Read>(reader: &mut Reader<R>, kind: u8, context: &mut ReadContext<'_>) -> Result<SortedSet> {
        const LISTPACK: &str = "Zset listpack integrity check failed.";
        const ZIPLIST: &str = "Zset ziplist integrity check failed.";
        let list = match kind {
            kind::ZSET_LISTPACK => {
                reader.string()?.with_bytes(|bytes| unique_listpack(bytes, 2, LISTPACK))?
            }
            kind::ZSET_ZIPLIST => reader.string()?.with_bytes(|bytes| unique_ziplist(bytes, 2, ZIPLIST))?,
            _ => return Self::read_table(reader, kind, context),
        };
        Self::of_listpack(list, context)
    }

    /// Keeps the list if it is small enough, its scores are numbers, and it is in order.
    fn of_listpack(list: Listpack, context: &mut ReadContext<'_>) -> Result<SortedSet> {
        const NAN: &str = "Zset listpack with NAN score detected";
        let mut stays = list.len() / 2 <= context.limits.sorted_set_listpack_entries_max;
        let mut last: Option<(StringValue<'_>, f64)> = None;
        for (member, score) in pairs(&list) {
            let Some(score) = score else { return corrupt(NAN) };
            let is_behind = |(other, other_score): (StringValue<'_>, f64)| {
                other_score.total_cmp(&score).then_with(|| compare(other, member)).is_lt()
            };
            // It is 0 here, and would sort before it.
            let is_minus_zero = score == 0.0 && score.is_sign_negative();
            stays &= !is_minus_zero && last.is_none_or(is_behind);
            last = Some((member, score));
        }
        if stays {
            let list = Compact::of_listpack(list);
            return Ok(match record_of(&list) {
                Some(record) => SortedSet::of_record(record),
                None => SortedSet { encoding: Encoding::Compact(list) },
            });
        }
        let mut set = <SortedSet as Collection>::new(context.limits, context.seed);
        for (member, score) in pairs(&list) {
            let Some(score) = score else { return corrupt(NAN) };
            member.with_bytes(|member| set.add_new(member, score, context))?;
        }
        Ok(set)
    }

    fn add_new(&mut self, member: &[u8], score: f64, context: &mut ReadContext<'_>) -> Result<()> {
        match self.insert(member, score, &context.context()) {
            Ok(Insertion::Added) => Ok(()),
            Ok(_) => corrupt("Duplicate zset fields detected"),
            Err(_) => corrupt("A sorted set has more members than it can"),
        }
    }

    fn read_table<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<SortedSet> {
        let len = reader.length()?;
        let mut set = <SortedSet as Collection>::new(context.limits, context.seed);
        let is_large = len > context.limits.sorted_set_listpack_entries_max as u64;
        let mut loader =
            (is_large && !context.limits.sorted_set_skip_list).then(|| Loader::new(context.seed));
        let mut run = Run::default();
        for _ in 0..len {
            reader.string()?.with_bytes(|member| run.members.extend_from_slice(member));
            let score = if kind == kind::ZSET_2 { reader.double()? } else { reader.text_double()? };
            if score.is_nan() {
                return Err(ReadError::Corrupt("Zset with NAN score detected"));
            }
            run.ends.push((run.members.len(), score));
            if run.ends.len() == RUN_MEMBERS {
                set.add_run(&mut loader, &mut run, context)?;
            }
        }
        set.add_run(&mut loader, &mut run, context)?;
        set.take_over(loader)?;
        Ok(set)
    }

    /// Adds the members read since the last call: files have sets in order, upwards or downwards. For a set in another
    /// order the loader is given up.
    fn add_run(
        &mut self,
        loader: &mut Option<Loader>,
        run: &mut Run,
        context: &mut ReadContext<'_>,
    ) -> Result<()> {
        let mut start = 0;
        let mut pairs: Vec<(&[u8], f64)> = Vec::with_capacity(run.ends.len());
        for &(end, score) in &run.ends {
            pairs.push((&run.members[start..end], score));
            start = end;
        }
        if let (Some(first), Some(last)) = (pairs.first(), pairs.last())
            && first.1.total_cmp(&last.1).then_with(|| first.0.cmp(last.0)).is_gt()
        {
            pairs.reverse();
        }
        if !loader.as_mut().is_some_and(|loader| loader.add(&pairs)) {
            self.take_over(loader.take())?;
            for (member, score) in pairs {
                self.add_new(member, score, context)?;
            }
        }
        run.members.clear();
        run.ends.clear();
        Ok(())
    }

    /// Takes over the loaded set, if any.
    fn take_over(&mut self, loader: Option<Loader>) -> Result<()> {
        let Some(loader) = loader else { return Ok(()) };
        let Ok(tree) = loader.finish() else { return corrupt("Duplicate zset fields detected") };
        self.encoding = Encoding::Tree(UnalignedBox::new(tree));
        Ok(())
    }
}
