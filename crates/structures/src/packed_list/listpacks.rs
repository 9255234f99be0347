//! Nodes as files have them: listpacks, and elements that are too large for one.

use super::PackedList;
use super::node::{Limits, Node, RESTART_INTERVAL, View};
use crate::listpack::Iter;
use crate::listpack::encoding::{Encoded, decode, is_canonical};
use crate::listpack::writer::Writer;

/// One node as it is saved.
#[derive(Debug)]
pub enum NodeContents<'a> {
    /// A listpack.
    Packed(&'a [u8]),
    /// One large element.
    Plain(&'a [u8]),
}

impl PackedList {
    /// Node `index` as it is saved. `scratch` is where that is made, unless it lies in the list so.
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

    /// The same elements as one listpack, whatever its size, in place of what is in `to`.
    pub fn write_listpack(&self, to: &mut Vec<u8>) {
        let mut writer = Writer::new(to);
        self.nodes.iter().for_each(|node| write_node(&mut writer, node));
        writer.finish();
    }

    /// Appends the elements of a listpack, which has `bytes` bytes: as nodes of their own, unless they are few.
    pub fn append_listpack(&mut self, mut elements: Iter<'_>, bytes: usize) {
        if bytes < usize::from(self.limits.bytes) / 2 {
            return elements.for_each(|element| self.push_encoded_back(Encoded::element(element)));
        }
        let mut filling = Filling::new(self.limits);
        while let Some((rest, len)) = elements.next_record() {
            if is_canonical(&rest[..len]) {
                self.gather(&mut filling, rest, len);
            } else {
                let element = Encoded::element(decode(rest, 0).0);
                self.gather(&mut filling, &[element.head(), element.body()].concat(), element.size());
            }
        }
        self.close(&mut filling);
    }

    /// The record is the first `len` bytes of `rest`.
    #[inline]
    fn gather(&mut self, filling: &mut Filling, rest: &[u8], len: usize) {
        if filling.add(rest, len) {
            return;
        }
        self.close(filling);
        if !filling.add(rest, len) {
            // No node of records holds it.
            self.push_encoded_back(Encoded::element(decode(rest, 0).0));
        }
    }

    /// Makes a node of what has been gathered.
    fn close(&mut self, filling: &mut Filling) {
        let Some(node) = filling.take() else { return };
        self.len += node.count() as u64;
        self.add_node(self.nodes.len(), node);
    }
}

/// Records on their way into a node.
struct Filling {
    limits: Limits,
    /// As many as a node may have, and [`COPIED_BYTES`] more.
    bytes: Vec<u8>,
    /// Of the records.
    len: usize,
    restarts: Vec<u16>,
    count: usize,
}

/// Records of most lists are no longer, and copied at once. With calls that copied as many bytes as each has, and integers
/// decoded to see whether they are canonical, RESTORE of 10,000 integers took 150 us in place of 132.
const COPIED_BYTES: usize = 16;

impl Filling {
    fn new(limits: Limits) -> Self {
        let bytes = vec![0; usize::from(limits.bytes) + COPIED_BYTES];
        Filling { limits, bytes, len: 0, restarts: Vec::new(), count: 0 }
    }

    /// Adds the first `len` bytes of `rest`; whether there was room for them.
    #[inline]
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
