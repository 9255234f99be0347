//! Lists in RDB files.

use super::{End, List, Outgrown, Packed, Single, Small};
use crate::db::collection::{Collection, EncodingLimits};
use crate::db::rdb::{RdbType, ReadContext, ReadValue, Result, corrupt, ziplist_elements};
use std::io::{self, Read, Write};
use structures::listpack::Listpack;
use structures::packed_list::{NodeContents, SmallList};
use wire::rdb::{Reader, Writer, kind, node};

impl RdbType for List {
    const RDB_KINDS: &'static [u8] =
        &[kind::LIST, kind::LIST_ZIPLIST, kind::LIST_QUICKLIST, kind::LIST_QUICKLIST_2];

    fn rdb_kind(&self) -> u8 {
        List::RDB_KIND
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        let mut scratch = Vec::new();
        match &self.encoding {
            Small(list) => list.view().write_listpack(&mut scratch),
            Single(list) => list.view().write_listpack(&mut scratch),
            Packed(list) => list.write_listpack(&mut scratch),
            Outgrown(list) => {
                writer.length(list.node_count() as u64)?;
                for index in 0..list.node_count() {
                    let (container, bytes) = match list.node_contents(index, &mut scratch) {
                        NodeContents::Packed(listpack) => (node::PACKED, listpack),
                        NodeContents::Plain(element) => (node::PLAIN, element),
                    };
                    writer.length(container)?;
                    writer.string(bytes)?;
                }
                return Ok(());
            }
        }
        writer.length(1)?;
        writer.length(node::PACKED)?;
        writer.string(&scratch)
    }

    fn read_rdb<R: Read>(
        reader: &mut Reader<R>,
        kind: u8,
        context: &mut ReadContext<'_>,
    ) -> Result<ReadValue> {
        Self::read(reader, kind, context).map(ReadValue::of)
    }
}

impl List {
    /// The type of value that lists are written as.
    pub const RDB_KIND: u8 = kind::LIST_QUICKLIST_2;

    fn read<R: Read>(reader: &mut Reader<R>, kind: u8, context: &mut ReadContext<'_>) -> Result<List> {
        const ZIPLIST: &str = "List ziplist integrity check failed.";
        let mut list = <List as Collection>::new(context.limits, context.seed);
        // A list in more than one node of a reference server stays so, however short it is.
        let mut nodes = 1;
        match kind {
            kind::LIST => {
                for _ in 0..reader.length()? {
                    reader.string()?.with_bytes(|element| list.push(End::Right, element, context.limits));
                }
            }
            kind::LIST_ZIPLIST => {
                let elements = reader.string()?.with_bytes(|bytes| ziplist_elements(bytes, ZIPLIST))?;
                list.append_listpack(elements.as_bytes(), context.limits)?;
                nodes = 2;
            }
            _ => nodes = list.read_nodes(reader, kind, context.limits)?,
        }
        list.completed(nodes, context.limits);
        Ok(list)
    }

    /// Appends the elements of a listpack, if the bytes are one.
    fn append_listpack(&mut self, bytes: &[u8], limits: &EncodingLimits) -> Result<()> {
        const MALFORMED: &str = "Listpack integrity check failed.";
        if let Small(list) = &mut self.encoding
            && SmallList::may_hold(bytes.len())
        {
            let Ok(elements) = Listpack::validated(bytes) else { return corrupt(MALFORMED) };
            if list.append_listpack(elements, limits.list_listpack_size) {
                return Ok(());
            }
        }
        self.change(limits, |list| list.append_listpack(bytes)).or_else(|_| corrupt(MALFORMED))
    }

    fn read_nodes<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        kind: u8,
        limits: &EncodingLimits,
    ) -> Result<u64> {
        const ZIPLIST: &str = "Ziplist integrity check failed.";
        let nodes = reader.length()?;
        for _ in 0..nodes {
            let container = if kind == kind::LIST_QUICKLIST_2 { reader.length()? } else { node::PACKED };
            let contents = reader.string()?;
            match (container, kind) {
                (node::PLAIN, _) => contents.with_bytes(|element| {
                    if element.is_empty() {
                        return corrupt("Quicklist integrity check failed.");
                    }
                    self.push(End::Right, element, limits);
                    Ok(())
                })?,
                (node::PACKED, kind::LIST_QUICKLIST) => {
                    let elements = contents.with_bytes(|bytes| ziplist_elements(bytes, ZIPLIST))?;
                    self.append_listpack(elements.as_bytes(), limits)?;
                }
                (node::PACKED, _) => contents.with_bytes(|bytes| self.append_listpack(bytes, limits))?,
                _ => return corrupt("Quicklist integrity check failed."),
            }
        }
        Ok(nodes)
    }
}
