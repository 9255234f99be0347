//! The header: a tower of full height before the first member, and the list's length, tail and height.

use super::LEVELS_MAX;
use super::node::{self, Level, Node};
use std::ptr;

/// A node's shape, with the length and the tail instead of the score and the back pointer.
#[repr(C)]
struct Header {
    length: u64,
    tail: *mut Node,
    levels: [Level; LEVELS_MAX],
}

const _: () = assert!(size_of::<Header>() == size_of::<Node>() + LEVELS_MAX * size_of::<Level>());
const _: () = assert!(std::mem::offset_of!(Header, levels) == size_of::<Node>());
const _: () = assert!(align_of::<Header>() == align_of::<Node>());

impl Default for Header {
    fn default() -> Self {
        let levels = std::array::from_fn(|level| Level::empty(if level == 0 { 1 } else { 0 }));
        Header { length: 0, tail: ptr::null_mut(), levels }
    }
}

/// The storage of a list's header. Sealed: this module is private.
pub trait HeaderPlace {
    /// The header as the node from which all searches start: its levels may be used, its score and back
    /// pointer not.
    fn top(&self) -> *const Node;
    /// As `top`, for writing; valid until the header is next borrowed mutably.
    fn top_mut(&mut self) -> *mut Node;
    fn length(&self) -> usize;
    fn set_length(&mut self, length: usize);
    fn tail(&self) -> *const Node;
    fn set_tail(&mut self, tail: *mut Node);
    /// Levels in use, at least 1.
    fn height(&self) -> usize;
    fn set_height(&mut self, height: usize);
    /// Bytes that the header allocates.
    fn allocated_bytes(&self) -> usize;
}

/// A header within the list's own value, with the rest of the list's state where a node has its own.
#[derive(Default)]
pub struct EmbeddedHeader(Header);

impl HeaderPlace for EmbeddedHeader {
    #[inline]
    fn top(&self) -> *const Node {
        (&raw const self.0).cast()
    }
    #[inline]
    fn top_mut(&mut self) -> *mut Node {
        (&raw mut self.0).cast()
    }
    #[inline]
    fn length(&self) -> usize {
        self.0.length as usize
    }
    fn set_length(&mut self, length: usize) {
        self.0.length = length as u64;
    }
    #[inline]
    fn tail(&self) -> *const Node {
        self.0.tail
    }
    fn set_tail(&mut self, tail: *mut Node) {
        self.0.tail = tail;
    }
    #[inline]
    fn height(&self) -> usize {
        // SAFETY: invariant 1 of `node`: the header is a tower with a level 0.
        unsafe { node::height(self.top()) }
    }
    fn set_height(&mut self, height: usize) {
        // SAFETY: invariant 1 of `node`: the header is a tower with a level 0.
        unsafe { node::set_height(self.top_mut(), height) }
    }
    fn allocated_bytes(&self) -> usize {
        0
    }
}

/// A header in an allocation of its own, with the state beside the pointer to it. For comparison.
pub struct SeparateHeader {
    header: Box<Header>,
    length: usize,
    tail: *mut Node,
    height: usize,
}

impl Default for SeparateHeader {
    fn default() -> Self {
        SeparateHeader { header: Box::default(), length: 0, tail: ptr::null_mut(), height: 1 }
    }
}

impl HeaderPlace for SeparateHeader {
    #[inline]
    fn top(&self) -> *const Node {
        (&raw const *self.header).cast()
    }
    #[inline]
    fn top_mut(&mut self) -> *mut Node {
        (&raw mut *self.header).cast()
    }
    #[inline]
    fn length(&self) -> usize {
        self.length
    }
    fn set_length(&mut self, length: usize) {
        self.length = length;
    }
    #[inline]
    fn tail(&self) -> *const Node {
        self.tail
    }
    fn set_tail(&mut self, tail: *mut Node) {
        self.tail = tail;
    }
    #[inline]
    fn height(&self) -> usize {
        self.height
    }
    fn set_height(&mut self, height: usize) {
        self.height = height;
    }
    fn allocated_bytes(&self) -> usize {
        size_of::<Header>()
    }
}
