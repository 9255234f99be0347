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
        while let Some(record) = elements.next_record() {
            if is_canonical(record) {
                self.gather(&mut filling, record);
            } else {
                let element = Encoded::element(decode(record, 0).0);
                self.gather(&mut filling, &[element.head(), element.body()].concat());
            }
        }
        self.close(&mut filling);
    }

    #[inline]
    fn gather(&mut self, filling: &mut Filling, record: &[u8]) {
        if filling.add(record) {
            return;
        }
        self.close(filling);
        if !filling.add(record) {
            // No node of records holds it.
            self.push_encoded_back(Encoded::element(decode(record, 0).0));
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
    bytes: Vec<u8>,
    restarts: Vec<u16>,
    count: usize,
}

impl Filling {
    fn new(limits: Limits) -> Self {
        let bytes = Vec::with_capacity(limits.bytes.into());
        Filling { limits, bytes, restarts: Vec::new(), count: 0 }
    }

    /// Whether there was room for it.
    #[inline]
    fn add(&mut self, record: &[u8]) -> bool {
        let begins_interval = self.count.is_multiple_of(RESTART_INTERVAL);
        let end = self.bytes.len() + record.len();
        let restarts_bytes = (self.restarts.len() + usize::from(begins_interval)) * size_of::<u16>();
        if self.count >= self.limits.entries.into() || end + restarts_bytes > self.limits.bytes.into() {
            return false;
        }
        if begins_interval {
            self.restarts.push(self.bytes.len() as u16);
        }
        self.bytes.extend_from_slice(record);
        self.count += 1;
        true
    }

    fn take(&mut self) -> Option<Node> {
        let node = (self.count > 0).then(|| Node::from_parts(&self.bytes, &self.restarts, self.count));
        self.bytes.clear();
        self.restarts.clear();
        self.count = 0;
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
