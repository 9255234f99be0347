//! Conversion of nodes to and from the form of files: listpacks, and elements that are too large for one.

use super::PackedList;
use super::node::{Limits, Node, RESTART_INTERVAL, View};
use crate::listpack::encoding::{Encoded, decode, is_canonical};
use crate::listpack::writer::Writer;
use crate::listpack::{Invalid, UncheckedRecords};

/// The saved form of a node.
#[derive(Debug)]
pub enum NodeContents<'a> {
    /// A listpack.
    Packed(&'a [u8]),
    /// One large element.
    Plain(&'a [u8]),
}

impl PackedList {
    /// The saved form of node `index`, built in `scratch` unless the list already holds it.
    pub fn node_contents<'a>(&'a self, index: usize, scratch: &'a mut Vec<u8>) -> NodeContents<'a> {
        let node = &self.nodes[index];
        if node.is_plain() && !node.is_compressed() {
            return NodeContents::Plain(node.plain_bytes());
        }
        if node.is_plain() {
            node.view(scratch);
            return NodeContents::Plain(scratch);
        }
        let mut writer = Writer::new(scratch);
        write_node(&mut writer, node);
        writer.finish();
        NodeContents::Packed(scratch)
    }

    /// Writes all elements to `to` as one listpack of any size, replacing its contents.
    pub fn write_listpack(&self, to: &mut Vec<u8>) {
        let mut writer = Writer::new(to);
        self.nodes.iter().for_each(|node| write_node(&mut writer, node));
        writer.finish();
    }

    /// Appends the elements of an untrusted listpack, validating it in the same pass: as nodes of their own, unless they
    /// are few and there are others. After an error some of them may have been appended.
    pub fn append_listpack(&mut self, bytes: &[u8]) -> Result<(), Invalid> {
        let mut elements = UncheckedRecords::new(bytes)?;
        if self.len > 0 && bytes.len() < usize::from(self.limits.bytes) / 2 {
            while let Some((rest, _)) = elements.next_record()? {
                self.push_encoded_back(Encoded::element(decode(rest, 0).0));
            }
            return Ok(());
        }
        let mut filling = Filling::new(self.limits, bytes.len());
        while let Some((rest, len)) = elements.next_record()? {
            if is_canonical(rest, len) {
                self.gather(&mut filling, rest, len);
            } else {
                let element = Encoded::element(decode(rest, 0).0);
                self.gather(&mut filling, &[element.head(), element.body()].concat(), element.size());
            }
        }
        self.close(&mut filling);
        Ok(())
    }

    /// Adds a record, the first `len` bytes of `rest`.
    #[inline(always)]
    fn gather(&mut self, filling: &mut Filling, rest: &[u8], len: usize) {
        if filling.add(rest, len) {
            return;
        }
        self.close(filling);
        if !filling.add(rest, len) {
            // The record exceeds the limits of a node of records.
            self.push_encoded_back(Encoded::element(decode(rest, 0).0));
        }
    }

    /// Makes a node of the gathered records.
    fn close(&mut self, filling: &mut Filling) {
        let Some(node) = filling.take() else { return };
        self.len += node.count() as u64;
        self.add_node(self.nodes.len(), node);
    }
}

/// Records gathered for a node.
struct Filling {
    limits: Limits,
    /// Room for the largest node and [`COPIED_BYTES`] more.
    bytes: Vec<u8>,
    /// Bytes of the records.
    len: usize,
    restarts: Vec<u16>,
    count: usize,
}

/// Most lists' records are no longer, and are copied at once: with calls that copied exactly the bytes of each, and
/// integers decoded to check that they are canonical, RESTORE of 10,000 integers took 150 us instead of 132. Nodes of
/// 10,000 integers, 10,000 short elements, 10,000 of 100 bytes, and 100 integers: 94, 78, 208 and 1.7 us when all were
/// checked first and then read again, tags distinguished by branches, and few elements pushed one by one; 64, 62, 120 and
/// 0.7 without branches on tags and with few elements of a new list gathered too; 35, 32, 101 and 0.4 in one pass.
const COPIED_BYTES: usize = 16;

impl Filling {
    /// Prepares for records of `bytes` bytes in all.
    fn new(limits: Limits, bytes: usize) -> Self {
        let bytes = vec![0; bytes.min(limits.bytes.into()) + COPIED_BYTES];
        Filling { limits, bytes, len: 0, restarts: Vec::new(), count: 0 }
    }

    /// Adds the first `len` bytes of `rest`; returns whether there was room for them.
    #[inline(always)]
    fn add(&mut self, rest: &[u8], len: usize) -> bool {
        let begins_interval = self.count.is_multiple_of(RESTART_INTERVAL);
        let end = self.len + len;
        let restarts_bytes = (self.restarts.len() + usize::from(begins_interval)) * size_of::<u16>();
        if self.count >= self.limits.entries.into() || end + restarts_bytes > self.limits.bytes.into() {
            return false;
        }
        if begins_interval {
            self.restarts.push(self.len as u16);
        }
        let to = &mut self.bytes[self.len..];
        match (len <= COPIED_BYTES, rest.first_chunk::<COPIED_BYTES>(), to.first_chunk_mut()) {
            (true, Some(from), Some(to)) => *to = *from,
            _ => to[..len].copy_from_slice(&rest[..len]),
        }
        self.len = end;
        self.count += 1;
        true
    }

    fn take(&mut self) -> Option<Node> {
        let records = &self.bytes[..self.len];
        let node = (self.count > 0).then(|| Node::from_parts(records, &self.restarts, self.count));
        self.restarts.clear();
        (self.len, self.count) = (0, 0);
        node
    }
}

fn write_node(writer: &mut Writer<'_>, node: &Node) {
    match node.view(&mut Vec::new()) {
        View::Plain(element) => {
            let element = Encoded::string(element);
            writer.add(&[element.head(), element.body()].concat(), 1);
        }
        View::Records(records) => writer.add(records.bytes(), records.count),
    }
}
