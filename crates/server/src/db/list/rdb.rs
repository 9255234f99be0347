//! Lists in files.

use super::{End, List};
use crate::db::collection::Collection;
use crate::db::rdb::{RdbType, ReadContext, ReadValue, Result, corrupt, ziplist_elements};
use std::io::{self, Read, Write};
use structures::listpack::Listpack;
use structures::packed_list::NodeContents;
use wire::rdb::{Reader, Writer, kind, node};

impl RdbType for List {
    const RDB_KINDS: &'static [u8] =
        &[kind::LIST, kind::LIST_ZIPLIST, kind::LIST_QUICKLIST, kind::LIST_QUICKLIST_2];

    fn rdb_kind(&self) -> u8 {
        kind::LIST_QUICKLIST_2
    }

    fn write_rdb<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        let mut scratch = Vec::new();
        if !self.outgrown {
            writer.length(1)?;
            writer.length(node::PACKED)?;
            self.packed.write_listpack(&mut scratch);
            return writer.string(&scratch);
        }
        writer.length(self.packed.node_count() as u64)?;
        for index in 0..self.packed.node_count() {
            let (container, bytes) = match self.packed.node_contents(index, &mut scratch) {
                NodeContents::Packed(listpack) => (node::PACKED, listpack),
                NodeContents::Plain(element) => (node::PLAIN, element),
            };
            writer.length(container)?;
            writer.string(bytes)?;
        }
        Ok(())
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
    fn read<R: Read>(reader: &mut Reader<R>, kind: u8, context: &mut ReadContext<'_>) -> Result<List> {
        const ZIPLIST: &str = "List ziplist integrity check failed.";
        let mut list = <List as Collection>::new(context.limits, context.seed);
        // What a reference server keeps in more than one node stays so, however little it is.
        let mut nodes = 1;
        match kind {
            kind::LIST => {
                for _ in 0..reader.length()? {
                    reader.string()?.with_bytes(|element| list.push(End::Right, element));
                }
            }
            kind::LIST_ZIPLIST => {
                let elements = reader.string()?.with_bytes(|bytes| ziplist_elements(bytes, ZIPLIST))?;
                list.packed.append_listpack(elements.iter(), elements.total_bytes());
                nodes = 2;
            }
            _ => nodes = list.read_nodes(reader, kind)?,
        }
        list.completed(context.limits);
        list.outgrown |= nodes > 1;
        Ok(list)
    }

    fn read_nodes<R: Read>(&mut self, reader: &mut Reader<R>, kind: u8) -> Result<u64> {
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
                    self.push(End::Right, element);
                    Ok(())
                })?,
                (node::PACKED, kind::LIST_QUICKLIST) => {
                    let elements = contents.with_bytes(|bytes| ziplist_elements(bytes, ZIPLIST))?;
                    self.packed.append_listpack(elements.iter(), elements.total_bytes());
                }
                (node::PACKED, _) => contents.with_bytes(|bytes| {
                    let Ok(elements) = Listpack::validated(bytes) else {
                        return corrupt("Listpack integrity check failed.");
                    };
                    self.packed.append_listpack(elements, bytes.len());
                    Ok(())
                })?,
                _ => return corrupt("Quicklist integrity check failed."),
            }
        }
        Ok(nodes)
    }
}
