//! An ordered map with keys of 16 bytes: a path-compressed radix tree for stream ids.
//!
//! ```text
//!  inner node (24 bytes): depth u8 | count u16 | ──> | byte | byte | ... | link u32 | link u32 | ... |
//!                         the children differ first in key[depth]; bytes ascend, link i belongs to byte i
//!  leaf: key [u8; 16] | value
//!  link: number of an inner node, or of a leaf with the highest bit set
//! ```
//!
//! Invariants:
//! 1. An inner node has 2 to 256 children, their bytes ascend, and depths grow from parent to child.
//! 2. All keys below a child agree with each other before the child's depth, and have the child's byte at the parent's
//!    depth.
//! 3. Inner nodes and leaves fill their slabs without holes, and each is linked exactly once.
//! 4. `children_bytes` is the sum over all inner nodes, `runs` the number of links below which keys agree in one byte or
//!    more behind the link's own.
//!
//! Inner nodes do not store the bytes they skip: leaves have whole keys, so one comparison at the end verifies the
//! assumptions of the descent. A consecutive id costs 5 bytes besides its key and value.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#the-radix-tree).

mod slab;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use crate::size_class::{size_class, usable_size};
use crate::work;
use slab::Slab;

/// Length of a key.
pub const KEY_BYTES: usize = 16;
/// A key.
pub type Key = [u8; KEY_BYTES];

/// The bits are inverted, so that 0 means no link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Link(NonZeroU32);

const _: () = assert!(size_of::<Option<Link>>() == 4);

const LEAF_BIT: u32 = 1 << 31;
/// Most inner nodes, and most leaves.
const NUMBERS_MAX: usize = LEAF_BIT as usize - 1;
const LINK_BYTES: usize = 4;
const CHILD_BYTES: usize = 1 + LINK_BYTES;

enum Target {
    Inner(usize),
    Leaf(usize),
}

impl Link {
    #[inline]
    fn of_bits(bits: u32) -> Link {
        Link(NonZeroU32::new(!bits).expect("numbers are below the one whose link would be 0"))
    }

    fn inner(number: usize) -> Link {
        assert!(number < NUMBERS_MAX, "fewer inner nodes than links can number");
        Link::of_bits(number as u32)
    }

    fn leaf(number: usize) -> Link {
        assert!(number < NUMBERS_MAX, "fewer leaves than links can number");
        Link::of_bits(number as u32 | LEAF_BIT)
    }

    #[inline]
    fn target(self) -> Target {
        let bits = !self.0.get();
        if bits & LEAF_BIT != 0 {
            Target::Leaf((bits ^ LEAF_BIT) as usize)
        } else {
            Target::Inner(bits as usize)
        }
    }
}

#[derive(Clone)]
struct Inner {
    /// Capacity for `children.len() / 5` children: all bytes, then all links.
    children: Box<[u8]>,
    count: u16,
    depth: u8,
}

impl Inner {
    fn new(depth: usize, low: (u8, Link), high: (u8, Link)) -> Inner {
        let mut inner = Inner { children: Box::new([]), count: 0, depth: depth as u8 };
        inner.insert(0, low.0, low.1);
        inner.insert((high.0 > low.0) as usize, high.0, high.1);
        inner
    }

    fn depth(&self) -> usize {
        self.depth as usize
    }

    fn count(&self) -> usize {
        self.count as usize
    }

    fn children_bytes(&self) -> usize {
        usable_size(self.children.len())
    }

    fn bytes(&self) -> &[u8] {
        &self.children[..self.count()]
    }

    /// The number of children with a smaller byte.
    #[inline]
    fn rank(&self, byte: u8) -> usize {
        if self.count() == 256 {
            return byte as usize;
        }
        self.bytes().partition_point(|&other| other < byte)
    }

    /// The index of the child of `byte`.
    #[inline]
    fn find(&self, byte: u8) -> Option<usize> {
        let rank = self.rank(byte);
        (self.bytes().get(rank) == Some(&byte)).then_some(rank)
    }

    #[inline]
    fn link_at(&self, child: usize) -> usize {
        self.children.len() / CHILD_BYTES + child * LINK_BYTES
    }

    #[inline]
    fn link(&self, child: usize) -> Link {
        let at = self.link_at(child);
        let bytes = self.children[at..at + LINK_BYTES].try_into().expect("a slice of 4 bytes");
        Link::of_bits(u32::from_le_bytes(bytes))
    }

    fn set_link(&mut self, child: usize, link: Link) {
        let at = self.link_at(child);
        self.children[at..at + LINK_BYTES].copy_from_slice(&(!link.0.get()).to_le_bytes());
    }

    fn resize(&mut self, room: usize) {
        let old = self.link_at(0)..self.link_at(self.count());
        let mut children = vec![0; room * CHILD_BYTES].into_boxed_slice();
        children[..self.count()].copy_from_slice(self.bytes());
        children[room..room + old.len()].copy_from_slice(&self.children[old]);
        self.children = children;
    }

    fn insert(&mut self, child: usize, byte: u8, link: Link) {
        let count = self.count();
        if (count + 1) * CHILD_BYTES > self.children.len() {
            self.resize((size_class((count + 1) * CHILD_BYTES) / CHILD_BYTES).min(256));
        }
        self.children.copy_within(child..count, child + 1);
        let (from, to) = (self.link_at(child), self.link_at(count));
        self.children.copy_within(from..to, from + LINK_BYTES);
        self.children[child] = byte;
        self.count += 1;
        self.set_link(child, link);
    }

    fn remove(&mut self, child: usize) {
        let count = self.count();
        self.children.copy_within(child + 1..count, child);
        let (from, to) = (self.link_at(child + 1), self.link_at(count));
        self.children.copy_within(from..to, from - LINK_BYTES);
        self.count -= 1;
        let needed = size_class(self.count() * CHILD_BYTES);
        if needed * 2 <= self.children.len() {
            self.resize(needed / CHILD_BYTES);
        }
    }
}

#[derive(Clone)]
struct Leaf<V> {
    key: Key,
    value: V,
}

/// An ordered map. See the [module](self) for the layout.
#[derive(Clone)]
pub struct RadixTree<V> {
    root: Option<Link>,
    /// Links to nodes that decide on a byte other than the next: see [`RadixTree::plain_node_count`].
    runs: u32,
    inner: Slab<Inner>,
    /// Allocated size of the lists of children of all inner nodes.
    children_bytes: usize,
    leaves: Slab<Leaf<V>>,
}

/// The inner nodes above a position, and the child taken at each.
#[derive(Clone, Copy)]
struct Path {
    steps: [(u32, u16); KEY_BYTES],
    len: usize,
}

impl Path {
    fn new() -> Path {
        Path { steps: [(0, 0); KEY_BYTES], len: 0 }
    }

    #[inline]
    fn push(&mut self, inner: usize, child: usize) {
        self.steps[self.len] = (inner as u32, child as u16);
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<(usize, usize)> {
        self.len = self.len.checked_sub(1)?;
        let (inner, child) = self.steps[self.len];
        Some((inner as usize, child as usize))
    }
}

fn first_difference(a: &Key, b: &Key) -> Option<usize> {
    let difference = u128::from_be_bytes(*a) ^ u128::from_be_bytes(*b);
    (difference != 0).then_some((difference.leading_zeros() / 8) as usize)
}

impl<V> RadixTree<V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        RadixTree { root: None, runs: 0, inner: Slab::new(), children_bytes: 0, leaves: Slab::new() }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Allocated bytes, without those that the values own.
    pub fn memory_bytes(&self) -> usize {
        self.children_bytes + self.inner.memory_bytes() + self.leaves.memory_bytes()
    }

    /// The number of nodes of a tree with a node of its own for each branch, each run of bytes without one, and each key:
    /// the nodes that XINFO counts. An empty tree has its root.
    pub fn plain_node_count(&self) -> usize {
        let Some(root) = self.root else { return 1 };
        self.leaves.len() + self.inner.len() + self.runs as usize + usize::from(self.depth(root) > 0)
    }

    /// The byte that a node decides on; for a leaf, the key's length.
    fn depth(&self, link: Link) -> usize {
        match link.target() {
            Target::Leaf(_) => KEY_BYTES,
            Target::Inner(number) => self.inner.get(number).depth(),
        }
    }

    /// 1 if keys below `link`, in a node that decides on byte `above`, agree in bytes behind that one.
    fn run(&self, above: usize, link: Link) -> u32 {
        (self.depth(link) > above + 1).into()
    }

    /// Iterates over all keys with their values in memory order, which needs no lookups.
    pub fn iter_unordered(&self) -> impl Iterator<Item = (Key, &V)> {
        self.leaves.iter().map(|leaf| (leaf.key, &leaf.value))
    }

    /// Iterates over all values in memory order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.leaves.iter().map(|leaf| &leaf.value)
    }

    fn find(&self, key: &Key) -> Option<usize> {
        let mut link = self.root?;
        loop {
            match link.target() {
                Target::Leaf(leaf) => return (self.leaves.get(leaf).key == *key).then_some(leaf),
                Target::Inner(inner) => {
                    work::visited(1);
                    let inner = self.inner.get(inner);
                    link = inner.link(inner.find(key[inner.depth()])?);
                }
            }
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.find(key).map(|leaf| &self.leaves.get(leaf).value)
    }

    /// The value of `key`, for changing it.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.find(key).map(|leaf| &mut self.leaves.get_mut(leaf).value)
    }

    /// Returns whether `key` is in the map.
    pub fn contains(&self, key: &Key) -> bool {
        self.find(key).is_some()
    }

    /// A leaf whose key has the longest common prefix with `key`.
    fn nearest(&self, root: Link, key: &Key) -> usize {
        let mut link = root;
        loop {
            match link.target() {
                Target::Leaf(leaf) => return leaf,
                Target::Inner(inner) => {
                    let inner = self.inner.get(inner);
                    link = inner.link(inner.find(key[inner.depth()]).unwrap_or(0));
                }
            }
        }
    }

    /// Follows `key` while nodes decide on bytes before `depth`; returns the link reached and the path to it.
    fn descend_to(&self, root: Link, key: &Key, depth: usize) -> (Link, Path) {
        let (mut link, mut path) = (root, Path::new());
        while let Target::Inner(number) = link.target() {
            work::visited(1);
            let inner = self.inner.get(number);
            if inner.depth() >= depth {
                break;
            }
            let child = inner.find(key[inner.depth()]).expect("the key agrees up to the depth");
            path.push(number, child);
            link = inner.link(child);
        }
        (link, path)
    }

    /// Sets the value of `key` and returns the old one.
    pub fn insert(&mut self, key: &Key, value: V) -> Option<V> {
        let new = Link::leaf(self.leaves.len());
        let Some(root) = self.root else {
            self.leaves.push(Leaf { key: *key, value });
            self.root = Some(new);
            return None;
        };
        let nearest = self.nearest(root, key);
        let other = self.leaves.get(nearest).key;
        let Some(depth) = first_difference(key, &other) else {
            return Some(std::mem::replace(&mut self.leaves.get_mut(nearest).value, value));
        };
        self.leaves.push(Leaf { key: *key, value });
        let (link, mut path) = self.descend_to(root, key, depth);
        if let Target::Inner(number) = link.target()
            && self.inner.get(number).depth() == depth
        {
            let inner = self.inner.get_mut(number);
            let before_bytes = inner.children_bytes();
            let rank = inner.rank(key[depth]);
            inner.insert(rank, key[depth], new);
            self.children_bytes += inner.children_bytes() - before_bytes;
            self.runs += self.run(depth, new);
            return None;
        }
        let split = Link::inner(self.inner.len());
        let inner = Inner::new(depth, (other[depth], link), (key[depth], new));
        self.children_bytes += inner.children_bytes();
        self.inner.push(inner);
        self.runs += self.run(depth, link) + self.run(depth, new);
        self.relink(path.pop(), split);
        None
    }

    /// Replaces the child at the end of a path, or the root, by `link`.
    fn relink(&mut self, parent: Option<(usize, usize)>, link: Link) {
        let Some((number, child)) = parent else {
            self.root = Some(link);
            return;
        };
        let inner = self.inner.get(number);
        let (above, before) = (inner.depth(), inner.link(child));
        self.runs = self.runs + self.run(above, link) - self.run(above, before);
        self.inner.get_mut(number).set_link(child, link);
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let leaf = self.find(key)?;
        let (_, path) = self.descend_to(self.root?, key, KEY_BYTES);
        Some(self.remove_at(path, leaf))
    }

    /// Removes the first key and returns its value. Not looking it up saves a quarter of the time of XTRIM of half a
    /// million entries (docs/growth.md).
    pub fn pop_first(&mut self) -> Option<V> {
        let first = self.first();
        let (path, leaf) = (first.path, first.leaf?);
        Some(self.remove_at(path, leaf))
    }

    /// Removes the leaf at the end of this path.
    fn remove_at(&mut self, mut path: Path, leaf: usize) -> V {
        match path.pop() {
            None => self.root = None,
            Some((number, child)) => {
                let parent = self.inner.get_mut(number);
                let (above, before_bytes) = (parent.depth(), parent.children_bytes());
                parent.remove(child);
                self.children_bytes -= before_bytes - parent.children_bytes();
                let only = (parent.count() == 1).then(|| parent.link(0));
                self.runs -= u32::from(KEY_BYTES > above + 1);
                if let Some(only) = only {
                    self.runs -= self.run(above, only);
                    self.relink(path.pop(), only);
                    self.remove_inner(number);
                }
            }
        }
        let last = self.leaves.len() - 1;
        let removed = self.leaves.swap_remove(leaf);
        if leaf != last {
            let key = self.leaves.get(leaf).key;
            self.renumber(&key, Link::leaf(last), Link::leaf(leaf));
        }
        removed.value
    }

    /// Removes an inner node without links to it.
    fn remove_inner(&mut self, number: usize) {
        let last = self.inner.len() - 1;
        self.children_bytes -= self.inner.swap_remove(number).children_bytes();
        if number != last {
            let key = self.leaves.get(self.nearest(Link::inner(number), &[0; KEY_BYTES])).key;
            self.renumber(&key, Link::inner(last), Link::inner(number));
        }
    }

    /// Replaces link `from`, which is on the path to `key`, by `to`.
    fn renumber(&mut self, key: &Key, from: Link, to: Link) {
        let Some(mut link) = self.root else { return };
        let mut parent = None;
        while link != from {
            work::visited(1);
            let Target::Inner(number) = link.target() else {
                unreachable!("every node is on the path to its keys")
            };
            let inner = self.inner.get(number);
            let child = inner.find(key[inner.depth()]).expect("every node is on the path to its keys");
            link = inner.link(child);
            parent = Some((number, child));
        }
        match parent {
            Some((inner, child)) => self.inner.get_mut(inner).set_link(child, to),
            None => self.root = Some(to),
        }
    }

    /// A cursor at the first key.
    pub fn first(&self) -> Cursor<'_, V> {
        let mut cursor = Cursor { tree: self, path: Path::new(), leaf: None };
        if let Some(root) = self.root {
            cursor.descend(root, false);
        }
        cursor
    }

    /// A cursor at the last key.
    pub fn last(&self) -> Cursor<'_, V> {
        let mut cursor = Cursor { tree: self, path: Path::new(), leaf: None };
        if let Some(root) = self.root {
            cursor.descend(root, true);
        }
        cursor
    }

    /// The last key, and its value for changing it.
    pub fn last_mut(&mut self) -> Option<(Key, &mut V)> {
        let leaf = self.last().leaf?;
        let leaf = self.leaves.get_mut(leaf);
        Some((leaf.key, &mut leaf.value))
    }

    /// A cursor at the least key that is not below `key`.
    pub fn at_or_after(&self, key: &Key) -> Cursor<'_, V> {
        let mut cursor = Cursor { tree: self, path: Path::new(), leaf: None };
        let Some(root) = self.root else { return cursor };
        let other = self.leaves.get(self.nearest(root, key)).key;
        let depth = first_difference(key, &other).unwrap_or(KEY_BYTES);
        let (link, path) = self.descend_to(root, key, depth);
        cursor.path = path;
        if depth == KEY_BYTES {
            cursor.descend(link, false);
            return cursor;
        }
        match link.target() {
            Target::Inner(number) if self.inner.get(number).depth() == depth => {
                let inner = self.inner.get(number);
                let rank = inner.rank(key[depth]);
                if rank < inner.count() {
                    cursor.path.push(number, rank);
                    cursor.descend(inner.link(rank), false);
                } else {
                    cursor.climb(true);
                }
            }
            _ if other[depth] > key[depth] => cursor.descend(link, false),
            _ => cursor.climb(true),
        }
        cursor
    }

    /// A cursor at the greatest key that is not above `key`.
    pub fn at_or_before(&self, key: &Key) -> Cursor<'_, V> {
        let mut cursor = self.at_or_after(key);
        match cursor.get() {
            Some((found, _)) if found == *key => {}
            Some(_) => cursor.move_back(),
            None => cursor = self.last(),
        }
        cursor
    }

    /// Iterates over keys and values in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        let mut cursor = self.first();
        std::iter::from_fn(move || {
            let item = cursor.get();
            cursor.move_next();
            item
        })
    }

    /// Panics unless every documented invariant holds.
    pub fn check(&self) {
        let (mut inner_seen, mut leaves_seen) = (0, 0);
        if let Some(root) = self.root {
            self.check_below(root, None, &mut inner_seen, &mut leaves_seen);
        }
        assert_eq!((inner_seen, leaves_seen), (self.inner.len(), self.leaves.len()));
        let runs_below = |inner: &Inner| -> u32 {
            (0..inner.count()).map(|child| self.run(inner.depth(), inner.link(child))).sum()
        };
        assert_eq!(self.inner.iter().map(runs_below).sum::<u32>(), self.runs);
        self.inner.check();
        self.leaves.check();
        assert_eq!(self.inner.iter().map(Inner::children_bytes).sum::<usize>(), self.children_bytes);
        assert!(self.iter().map(|(key, _)| key).is_sorted_by(|a, b| a < b));
    }

    /// Checks a subtree and returns one of its keys.
    fn check_below(
        &self,
        link: Link,
        above: Option<usize>,
        inner_seen: &mut usize,
        leaves_seen: &mut usize,
    ) -> Key {
        let number = match link.target() {
            Target::Leaf(leaf) => {
                *leaves_seen += 1;
                return self.leaves.get(leaf).key;
            }
            Target::Inner(number) => number,
        };
        *inner_seen += 1;
        let inner = self.inner.get(number);
        assert!(inner.count() >= 2 && inner.bytes().is_sorted_by(|a, b| a < b));
        assert!(above.is_none_or(|above| above < inner.depth()));
        let keys: Vec<Key> = (0..inner.count())
            .map(|child| self.check_below(inner.link(child), Some(inner.depth()), inner_seen, leaves_seen))
            .collect();
        for (key, byte) in keys.iter().zip(inner.bytes()) {
            assert_eq!(key[..inner.depth()], keys[0][..inner.depth()]);
            assert_eq!(key[inner.depth()], *byte);
        }
        keys[0]
    }
}

impl<V> Default for RadixTree<V> {
    fn default() -> Self {
        RadixTree::new()
    }
}

/// A position in the order of keys: at a key, or at none once it was moved beyond either end.
pub struct Cursor<'a, V> {
    tree: &'a RadixTree<V>,
    path: Path,
    leaf: Option<usize>,
}

impl<V> Clone for Cursor<'_, V> {
    fn clone(&self) -> Self {
        Cursor { tree: self.tree, path: self.path, leaf: self.leaf }
    }
}

impl<'a, V> Cursor<'a, V> {
    /// The key and its value; none beyond either end.
    #[inline]
    pub fn get(&self) -> Option<(Key, &'a V)> {
        let leaf = self.tree.leaves.get(self.leaf?);
        Some((leaf.key, &leaf.value))
    }

    /// Moves to the next key.
    pub fn move_next(&mut self) {
        if self.leaf.is_some() {
            self.climb(true);
        }
    }

    /// Moves to the previous key.
    pub fn move_back(&mut self) {
        if self.leaf.is_some() {
            self.climb(false);
        }
    }

    /// Moves to the first or the last leaf below `link`.
    fn descend(&mut self, mut link: Link, last: bool) {
        loop {
            match link.target() {
                Target::Leaf(leaf) => {
                    self.leaf = Some(leaf);
                    return;
                }
                Target::Inner(number) => {
                    let inner = self.tree.inner.get(number);
                    let child = if last { inner.count() - 1 } else { 0 };
                    self.path.push(number, child);
                    link = inner.link(child);
                }
            }
        }
    }

    /// Moves to the nearest leaf after (or before) everything below the end of the path.
    fn climb(&mut self, forward: bool) {
        self.leaf = None;
        while let Some((number, child)) = self.path.pop() {
            let inner = self.tree.inner.get(number);
            let sibling = if forward { Some(child + 1) } else { child.checked_sub(1) };
            if let Some(sibling) = sibling.filter(|&sibling| sibling < inner.count()) {
                self.path.push(number, sibling);
                self.descend(inner.link(sibling), !forward);
                return;
            }
        }
    }
}
