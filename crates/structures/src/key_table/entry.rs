//! An entry: one allocation with header, value, expiry and key.
//!
//! ```text
//!  short   | flags u8 | access u24 | key len u8 | value len u8 |                     6 bytes
//!  long    | flags u8 | access u24 | key len u32 | value len u32 |                  12 bytes
//!
//!  header | integer i64 or object T | expiry i64, or room for it | key | inline value
//!           ^ offset 6 or 12; the next multiple of its alignment for an object
//! ```
//! An inline value may be *compressed* (the compressed form of other bytes) or *embedded* (the serialized form of an
//! object); a flag marks either. Their owner encodes and decodes them.
//!
//! A *bulky* entry, whose key and inline value are longer than two lines, has room for an expiry from the beginning if its
//! size class is the same with it: setting and removing the expiry then does not move the bytes behind it.
//!
//! The header alone determines all offsets and the size of the allocation: the sum, rounded up to a size class of jemalloc
//! with quantum 8. Other allocators would have wasted the same bytes; in exchange a new value of the same class is written
//! in place.

use crate::size_class::size_class;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::{KeyTable, slot};

/// The value of an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Value<'a, T> {
    /// Bytes embedded in the entry.
    Inline(&'a [u8]),
    /// Bytes embedded in the entry that the owner has compressed, as they were put.
    Compressed(&'a [u8]),
    /// Bytes embedded in the entry that are the serialized form of an object, as they were put.
    Embedded(&'a [u8]),
    /// A number in a field of fixed width, so that arithmetic happens in place.
    Integer(i64),
    /// An object outside of the entry, which owns it through one pointer.
    Object(&'a T),
}

/// A value to put. Keys and inline values are shorter than 2^32 bytes.
#[derive(Debug)]
pub enum NewValue<'a, T> {
    /// Bytes to embed in the entry.
    Inline(&'a [u8]),
    /// Bytes to embed that the owner has compressed: they come back as [`Value::Compressed`].
    Compressed(&'a [u8]),
    /// Bytes to embed that are an object's serialized form: they come back as [`Value::Embedded`].
    Embedded(&'a [u8]),
    /// A number, stored in 8 bytes.
    Integer(i64),
    /// An object, which the entry then owns.
    Object(T),
}

// The kinds are disjoint bits so that offsets are sums.
const INTEGER: u8 = 1;
const OBJECT: u8 = 2;
const EXPIRES: u8 = 4;
const LONG: u8 = 8;
/// Instead of [`EXPIRES`]: there is room for an expiry, but no expiry.
const ROOM: u8 = 16;
/// The flags that determine the layout.
const ALL_FLAGS: u8 = 31;
/// Kinds of inline values, at most one set; they do not affect the layout.
const COMPRESSED: u8 = 32;
const EMBEDDED: u8 = 64;

const SHORT_HEADER: usize = 6;
const LONG_HEADER: usize = 12;
const EXPIRY_LEN: usize = 8;
const INTEGER_LEN: usize = 8;
const ALIGNMENT: usize = 8;
/// Largest sum of the lengths of key and inline value of an entry that is not bulky.
const CONTENT_LEN_MAX: usize = 128;

/// Size and alignment of the objects in a table, in bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    len: usize,
    alignment: usize,
}

impl Shape {
    #[inline]
    const fn of<T>() -> Shape {
        Shape { len: size_of::<T>(), alignment: align_of::<T>() }
    }
}

/// Everything that determines an entry's layout.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EntryLayout {
    flags: u8,
    object: Shape,
    key_len: usize,
    value_len: usize,
}

impl EntryLayout {
    #[inline]
    fn new<T>(value: &NewValue<T>, key_len: usize, expires: bool) -> EntryLayout {
        let (kind, value_len) = match value {
            NewValue::Inline(bytes) => (0, bytes.len()),
            NewValue::Compressed(bytes) => (COMPRESSED, bytes.len()),
            NewValue::Embedded(bytes) => (EMBEDDED, bytes.len()),
            NewValue::Integer(_) => (INTEGER, 0),
            NewValue::Object(_) => (OBJECT, 0),
        };
        EntryLayout::of_kind::<T>(kind, key_len, value_len, expires)
    }

    #[inline]
    fn of_kind<T>(kind: u8, key_len: usize, value_len: usize, expires: bool) -> EntryLayout {
        assert!(key_len <= u32::MAX as usize && value_len <= u32::MAX as usize, "a key or value of 4 GiB");
        let long = key_len > u8::MAX as usize || value_len > u8::MAX as usize;
        let flags = kind | if long { LONG } else { 0 };
        EntryLayout { flags, object: Shape::of::<T>(), key_len, value_len }.with_expiry(expires)
    }

    #[inline]
    fn with_expiry(self, expires: bool) -> EntryLayout {
        let without = EntryLayout { flags: self.flags & !(EXPIRES | ROOM), ..self };
        let with = |flag: u8| EntryLayout { flags: without.flags | flag, ..self };
        match expires {
            true => with(EXPIRES),
            false if without.is_bulky() && without.size() == with(ROOM).size() => with(ROOM),
            false => without,
        }
    }

    #[inline]
    fn is_bulky(self) -> bool {
        self.flags & OBJECT == 0 && self.key_len + self.value_len > CONTENT_LEN_MAX
    }

    #[inline]
    fn slot_flags(self) -> usize {
        let expires = if self.flags & EXPIRES != 0 { slot::EXPIRES } else { 0 };
        let kind = match self.flags & OBJECT {
            0 if self.is_bulky() => slot::BULKY,
            0 => 0,
            _ => slot::OBJECT,
        };
        expires | kind
    }

    #[inline]
    fn value_at(self) -> usize {
        key_at(self.flags, self.object) + self.key_len
    }

    #[inline]
    fn size(self) -> usize {
        size_class(self.value_at() + self.value_len)
    }

    #[inline]
    fn layout(self) -> Layout {
        layout_of(self.size())
    }
}

#[inline]
fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNMENT).expect("key and value are below 4 GiB each")
}

#[inline]
const fn payload_at(flags: u8, object: Shape) -> usize {
    match flags & (LONG | OBJECT) {
        0 => SHORT_HEADER,
        OBJECT => SHORT_HEADER.next_multiple_of(object.alignment),
        LONG => LONG_HEADER,
        _ => LONG_HEADER.next_multiple_of(object.alignment),
    }
}

#[inline]
const fn expiry_at(flags: u8, object: Shape) -> usize {
    let integer = if flags & INTEGER != 0 { INTEGER_LEN } else { 0 };
    let object_len = if flags & OBJECT != 0 { object.len } else { 0 };
    payload_at(flags, object) + integer + object_len
}

#[inline]
const fn key_at(flags: u8, object: Shape) -> usize {
    expiry_at(flags, object) + if flags & (EXPIRES | ROOM) != 0 { EXPIRY_LEN } else { 0 }
}

/// The address of a live entry, taken from a slot or just allocated.
///
/// Invariants, which every SAFETY line here cites:
/// 1. The allocation is alive and has the layout of its own header's [`EntryLayout`].
/// 2. Key, payload, expiry and value are initialised and lie where the layout says.
/// 3. Nothing else writes while a reference into it lives: the public types borrow the table.
/// 4. An allocation is aligned to 8, and has at least 8 bytes and its header's 6 or 12.
pub(super) struct Entry<T> {
    at: NonNull<u8>,
    object: PhantomData<*mut T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<T> {}

impl<T> Entry<T> {
    const KEY_AT: [u32; ALL_FLAGS as usize + 1] = {
        assert!(align_of::<T>() <= ALIGNMENT, "objects are aligned to at most 8 bytes");
        let mut table = [0; ALL_FLAGS as usize + 1];
        let mut flags = 0;
        while flags <= ALL_FLAGS {
            table[flags as usize] = key_at(flags, Shape::of::<T>()) as u32;
            flags += 1;
        }
        table
    };

    /// # Safety
    /// `at` must be the address of a live entry of this `T`.
    #[inline]
    pub(super) unsafe fn from_address(at: *mut u8) -> Entry<T> {
        debug_assert!(!at.is_null());
        // SAFETY: invariant 1: a live entry is not at null.
        Entry { at: unsafe { NonNull::new_unchecked(at) }, object: PhantomData }
    }

    #[inline]
    pub(super) fn new(key: &[u8], value: NewValue<T>, expiry_ms: Option<i64>, access: u32) -> Entry<T> {
        let entry_layout = EntryLayout::new(&value, key.len(), expiry_ms.is_some());
        let entry = Entry::allocate(entry_layout);
        entry.fill(entry_layout, key, value, expiry_ms, access);
        entry
    }

    #[inline]
    fn allocate(entry_layout: EntryLayout) -> Entry<T> {
        Entry::allocate_bytes(entry_layout.size())
    }

    /// `size` must be an entry's.
    #[inline]
    fn allocate_bytes(size: usize) -> Entry<T> {
        let layout = layout_of(size);
        // SAFETY: invariant 4: the size is at least 8.
        let at = unsafe { alloc(layout) };
        let at = NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout));
        Entry { at, object: PhantomData }
    }

    /// Writes all parts into an allocation of `entry_layout`'s size that holds no object.
    #[inline]
    fn fill(
        self,
        entry_layout: EntryLayout,
        key: &[u8],
        value: NewValue<T>,
        expiry_ms: Option<i64>,
        access: u32,
    ) {
        self.write_header(entry_layout, access);
        if let Some(ms) = expiry_ms {
            self.write_expiry(entry_layout, ms);
        }
        // SAFETY: invariant 1: `key_at + key_len` is within the layout's size; the key is borrowed by
        // callers who cannot borrow this entry at the same time, or from another one, so nothing overlaps.
        unsafe {
            let key_to = self.at.add(key_at(entry_layout.flags, entry_layout.object));
            key_to.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
        self.write_value(entry_layout, value);
    }

    /// Writes the value into an allocation of `entry_layout`'s size that holds no object.
    #[inline]
    fn write_value(self, entry_layout: EntryLayout, value: NewValue<T>) {
        // SAFETY: invariant 1: `value_at + value_len` is within the layout's size, as is the payload before
        // the key; bytes are borrowed by callers who cannot borrow this entry at the same time, so nothing
        // overlaps.
        unsafe {
            let payload = self.at.add(payload_at(entry_layout.flags, entry_layout.object));
            match value {
                NewValue::Inline(bytes) | NewValue::Compressed(bytes) | NewValue::Embedded(bytes) => {
                    let to = self.at.add(entry_layout.value_at());
                    to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
                }
                NewValue::Integer(number) => payload.cast().write_unaligned(number),
                NewValue::Object(object) => payload.cast().write(object),
            }
        }
    }

    #[inline]
    fn write_header(self, entry_layout: EntryLayout, access: u32) {
        let word = (entry_layout.flags as u32 | access << 8).to_le_bytes();
        // SAFETY: invariant 4: a short header is 6 bytes, a long one 12, and every allocation holds its
        // header.
        unsafe {
            self.at.cast().write(word);
            if entry_layout.flags & LONG == 0 {
                self.at.add(4).write(entry_layout.key_len as u8);
                self.at.add(5).write(entry_layout.value_len as u8);
            } else {
                self.at.add(4).cast().write(entry_layout.key_len as u32);
                self.at.add(8).cast().write(entry_layout.value_len as u32);
            }
        }
    }

    #[inline]
    fn write_expiry(self, entry_layout: EntryLayout, ms: i64) {
        // SAFETY: invariant 1: the layout has an expiry, which lies within the allocation.
        unsafe { self.at.add(expiry_at(entry_layout.flags, entry_layout.object)).cast().write_unaligned(ms) }
    }

    #[inline]
    fn flags(self) -> u8 {
        // SAFETY: invariant 2.
        unsafe { self.at.read() }
    }

    #[inline]
    fn entry_layout(self) -> EntryLayout {
        let (flags, object) = (self.flags(), Shape::of::<T>());
        // SAFETY: invariant 2; a long header has its lengths at 4 and 8, and the allocation is aligned to 8.
        unsafe {
            if flags & LONG == 0 {
                let (key_len, value_len) = (self.at.add(4).read() as usize, self.at.add(5).read() as usize);
                return EntryLayout { flags, object, key_len, value_len };
            }
            let (key_len, value_len) =
                (self.at.add(4).cast::<u32>().read(), self.at.add(8).cast::<u32>().read());
            EntryLayout { flags, object, key_len: key_len as usize, value_len: value_len as usize }
        }
    }

    #[inline]
    pub(super) fn address(self) -> NonNull<u8> {
        self.at
    }

    #[inline]
    pub(super) fn slot_flags(self) -> usize {
        self.entry_layout().slot_flags()
    }

    #[inline]
    pub(super) fn access(self) -> u32 {
        // SAFETY: invariant 2; every allocation is aligned to 8 and holds at least 8 bytes.
        u32::from_le(unsafe { self.at.cast::<u32>().read() }) >> 8
    }

    #[inline]
    fn set_access(self, access: u32) {
        let word = (self.flags() as u32 | access << 8).to_le();
        // SAFETY: invariants 3 and 4: EntryMut, the only caller, borrows the table mutably.
        unsafe { self.at.cast::<u32>().write(word) }
    }

    /// The caller chooses the lifetime, which must not exceed the borrow of the table (invariant 3).
    #[inline]
    pub(super) fn key<'a>(self) -> &'a [u8] {
        let flags = self.flags();
        let at = Self::KEY_AT[(flags & ALL_FLAGS) as usize] as usize;
        // SAFETY: invariants 2 and 3.
        unsafe {
            let len = if flags & LONG == 0 {
                self.at.add(4).read() as usize
            } else {
                self.at.add(4).cast::<u32>().read() as usize
            };
            NonNull::slice_from_raw_parts(self.at.add(at), len).as_ref()
        }
    }

    /// The caller chooses the lifetime, as in [`Entry::key`].
    #[inline]
    fn value<'a>(self) -> Value<'a, T> {
        let entry_layout = self.entry_layout();
        // SAFETY: invariants 2 and 3.
        unsafe {
            match entry_layout.flags & (INTEGER | OBJECT) {
                0 => {
                    let at = self.at.add(entry_layout.value_at());
                    let bytes = NonNull::slice_from_raw_parts(at, entry_layout.value_len).as_ref();
                    match entry_layout.flags & (COMPRESSED | EMBEDDED) {
                        0 => Value::Inline(bytes),
                        COMPRESSED => Value::Compressed(bytes),
                        _ => Value::Embedded(bytes),
                    }
                }
                INTEGER => Value::Integer(
                    self.at.add(payload_at(entry_layout.flags, entry_layout.object)).cast().read_unaligned(),
                ),
                _ => Value::Object(self.object().as_ref()),
            }
        }
    }

    /// The address of the object. Only for entries that hold one.
    #[inline]
    pub(super) fn object(self) -> NonNull<T> {
        // SAFETY: invariant 1: both offsets are within the allocation.
        unsafe { self.at.add(payload_at(self.flags() | OBJECT, Shape::of::<T>())).cast() }
    }

    #[inline]
    pub(super) fn expiry_ms(self) -> Option<i64> {
        let flags = self.flags();
        if flags & EXPIRES == 0 {
            return None;
        }
        // SAFETY: invariant 2.
        Some(unsafe { self.at.add(expiry_at(flags, Shape::of::<T>())).cast().read_unaligned() })
    }

    /// Overwrites the old value if it is not an object and the size class is the same.
    #[inline]
    pub(super) fn overwrite<'v>(
        self,
        key: &[u8],
        value: NewValue<'v, T>,
        expiry_ms: Option<i64>,
        access: u32,
    ) -> Result<(), NewValue<'v, T>> {
        let old = self.entry_layout();
        let new = EntryLayout::new(&value, key.len(), expiry_ms.is_some());
        if old.flags & OBJECT != 0 || old.size() != new.size() {
            return Err(value);
        }
        self.fill(new, key, value, expiry_ms, access);
        Ok(())
    }

    /// Replaces bytes by bytes. Returns the entry, which may have moved, and whether its slot must be rewritten. Does
    /// nothing if the old or new value is not bytes, or if the parts before the value would have to move.
    #[inline]
    pub(super) fn with_value<'v>(self, value: NewValue<'v, T>) -> Result<(Entry<T>, bool), NewValue<'v, T>> {
        let old = self.entry_layout();
        let new = EntryLayout::new(&value, old.key_len, old.flags & EXPIRES != 0);
        if (old.flags | new.flags) & (INTEGER | OBJECT) != 0 || old.value_at() != new.value_at() {
            return Err(value);
        }
        let (access, old_size, new_size) = (self.access(), old.size(), new.size());
        let mut entry = self;
        if old_size != new_size {
            entry = Entry::allocate_bytes(new_size);
            // SAFETY: invariants 1 and 2: both allocations hold the parts before the value, which have
            // the same length in both; the old one has the layout of its header and is not used again.
            unsafe {
                entry.at.copy_from_nonoverlapping(self.at, old.value_at());
                dealloc(self.at.as_ptr(), layout_of(old_size));
            }
        }
        entry.write_header(new, access);
        entry.write_value(new, value);
        Ok((entry, old_size != new_size || old.slot_flags() != new.slot_flags()))
    }

    /// Sets, changes or removes the expiry. Returns the entry, which may have moved.
    pub(super) fn set_expiry(self, expiry_ms: Option<i64>) -> Entry<T> {
        let (old, new) = (self.entry_layout(), self.entry_layout().with_expiry(expiry_ms.is_some()));
        let entry = if old.size() == new.size() { self } else { Entry::allocate(new) };
        let payload_len = expiry_at(old.flags, old.object);
        // SAFETY: invariants 1 and 2: both forms fit their allocations. Header and payload keep their offset
        // and size; key and value are adjacent and move by the expiry's length or not at all, with `copy`
        // because the ranges may overlap.
        unsafe {
            let (from, to) =
                (self.at.add(key_at(old.flags, old.object)), entry.at.add(key_at(new.flags, new.object)));
            if from != to {
                from.copy_to(to, old.key_len + old.value_len);
            }
            if entry.at != self.at {
                self.at.copy_to_nonoverlapping(entry.at, payload_len);
                // The object, if any, has moved bitwise: only the memory is freed.
                dealloc(self.at.as_ptr(), old.layout());
            }
        }
        let access = entry.access();
        entry.write_header(new, access);
        if let Some(ms) = expiry_ms {
            entry.write_expiry(new, ms);
        }
        entry
    }

    #[inline]
    pub(super) fn allocation_bytes(self) -> usize {
        self.entry_layout().size()
    }

    /// Drops the object and frees the memory.
    ///
    /// # Safety
    /// The caller owns the entry and does not use it again.
    pub(super) unsafe fn free(self) {
        let entry_layout = self.entry_layout();
        // SAFETY: invariants 1 and 2, and the caller gives up the entry.
        unsafe {
            if entry_layout.flags & OBJECT != 0 {
                self.object().drop_in_place();
            }
            dealloc(self.at.as_ptr(), entry_layout.layout());
        }
    }

    /// Moves the object out, if there is one, and frees the memory.
    ///
    /// # Safety
    /// As for [`Entry::free`].
    unsafe fn free_keeping_object(self) -> Option<T> {
        let entry_layout = self.entry_layout();
        // SAFETY: invariants 1 and 2, as in `free`; the object is read before the memory is freed.
        unsafe {
            let object = (entry_layout.flags & OBJECT != 0).then(|| self.object().read());
            dealloc(self.at.as_ptr(), entry_layout.layout());
            object
        }
    }
}

/// Bytes that the allocator spends on an entry with these lengths and an inline value, in a table of objects `T`.
#[inline]
pub fn inline_entry_bytes<T>(key_len: usize, value_len: usize, expires: bool) -> usize {
    EntryLayout::of_kind::<T>(0, key_len, value_len, expires).size()
}

/// Bytes that the allocator spends on an entry that holds an object, without the memory that the object owns.
#[inline]
pub fn object_entry_bytes<T>(key_len: usize, expires: bool) -> usize {
    EntryLayout::of_kind::<T>(OBJECT, key_len, 0, expires).size()
}

/// An entry of a borrowed table.
pub struct EntryRef<'a, T> {
    entry: Entry<T>,
    table: PhantomData<&'a T>,
}

impl<T> Clone for EntryRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for EntryRef<'_, T> {}

impl<'a, T> EntryRef<'a, T> {
    /// The entry must live, unchanged, for `'a`.
    #[inline]
    pub(super) fn new(entry: Entry<T>) -> Self {
        EntryRef { entry, table: PhantomData }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> Value<'a, T> {
        self.entry.value()
    }

    /// The expiry, if the entry has one: the number given to `put` or `set_expiry`.
    #[inline]
    pub fn expiry_ms(&self) -> Option<i64> {
        self.entry.expiry_ms()
    }

    /// 24 bits for the caller's use (LRU or LFU).
    #[inline]
    pub fn access(&self) -> u32 {
        self.entry.access()
    }

    /// The size requested from the allocator: always a size class of jemalloc with quantum 8. Does not include memory that
    /// an object owns.
    pub fn allocation_bytes(&self) -> usize {
        self.entry.allocation_bytes()
    }
}

/// An entry of a mutably borrowed table.
pub struct EntryMut<'a, T> {
    entry: Entry<T>,
    hash: u64,
    table: &'a mut KeyTable<T>,
}

impl<'a, T> EntryMut<'a, T> {
    /// `entry` must be in `table`, and `hash` its key's hash.
    #[inline]
    pub(super) fn new(entry: Entry<T>, hash: u64, table: &'a mut KeyTable<T>) -> Self {
        EntryMut { entry, hash, table }
    }

    /// Replaces the value and drops the old one. Key, expiry and access bits stay.
    #[inline]
    pub fn put(self, value: NewValue<'_, T>) -> EntryMut<'a, T> {
        let entry = self.table.replace_value(self.hash, self.entry, value);
        EntryMut { entry, ..self }
    }

    /// Borrows the entry for reading.
    #[inline]
    pub fn as_ref(&self) -> EntryRef<'_, T> {
        EntryRef::new(self.entry)
    }

    /// Converts to a shared reference with the table's lifetime.
    #[inline]
    pub fn into_ref(self) -> EntryRef<'a, T> {
        EntryRef::new(self.entry)
    }

    /// The object, if the entry holds one.
    #[inline]
    pub fn object_mut(&mut self) -> Option<&mut T> {
        let holds_object = self.entry.flags() & OBJECT != 0;
        // SAFETY: the entry holds an object, and this borrow is the only one (invariant 3).
        holds_object.then(|| unsafe { self.entry.object().as_mut() })
    }

    /// The object, borrowed for as long as the table is.
    #[inline]
    pub fn into_object_mut(self) -> Option<&'a mut T> {
        let holds_object = self.entry.flags() & OBJECT != 0;
        // SAFETY: invariant 3: `self` is consumed, so nothing else can reach the entry for 'a.
        holds_object.then(|| unsafe { self.entry.object().as_mut() })
    }

    /// Replaces the number of an entry that holds one; returns `false` if it holds something else.
    #[inline]
    pub fn set_integer(&mut self, number: i64) -> bool {
        let flags = self.entry.flags();
        if flags & INTEGER == 0 {
            return false;
        }
        // SAFETY: the entry has an integer at that place (invariant 2).
        unsafe { self.entry.at.add(payload_at(flags, Shape::of::<T>())).cast().write_unaligned(number) };
        true
    }

    /// Replaces the bytes of an embedded value by as many others. Returns `false`, and changes nothing, if their number
    /// differs or the entry holds no embedded value.
    #[inline]
    pub fn overwrite_embedded(&mut self, bytes: &[u8]) -> bool {
        let layout = self.entry.entry_layout();
        if layout.flags & EMBEDDED == 0 || layout.value_len != bytes.len() {
            return false;
        }
        // SAFETY: invariants 1 and 3: the value has as many bytes, and `bytes`, which cannot be borrowed from this entry, do
        // not overlap it.
        unsafe {
            let to = self.entry.at.add(layout.value_at());
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        true
    }

    /// Sets the caller's 24 bits; higher bits of `access` are dropped.
    #[inline]
    pub fn set_access(&mut self, access: u32) {
        self.entry.set_access(access);
    }
}

/// An entry removed from its table, now owned. Dropping it drops the object and frees the memory.
pub struct Removed<T> {
    entry: Entry<T>,
    object: PhantomData<T>,
}

// SAFETY: invariant 3: the entry is owned, as a Box<T> would be.
unsafe impl<T: Send> Send for Removed<T> {}
// SAFETY: invariant 3: shared access to it gives out only &T and plain bytes.
unsafe impl<T: Sync> Sync for Removed<T> {}

impl<T> Removed<T> {
    /// The entry must not be in any slot.
    #[inline]
    pub(super) fn new(entry: Entry<T>) -> Self {
        Removed { entry, object: PhantomData }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.entry.key()
    }

    /// The value.
    pub fn value(&self) -> Value<'_, T> {
        self.entry.value()
    }

    /// The expiry, if the entry has one.
    pub fn expiry_ms(&self) -> Option<i64> {
        self.entry.expiry_ms()
    }

    /// The caller's 24 bits.
    pub fn access(&self) -> u32 {
        self.entry.access()
    }

    /// The object; `None` if the entry held bytes or an integer.
    pub fn into_object(self) -> Option<T> {
        let removed = ManuallyDrop::new(self);
        // SAFETY: invariant 1: the entry is owned, and ManuallyDrop keeps `drop` from freeing it again.
        unsafe { removed.entry.free_keeping_object() }
    }
}

impl<T> Drop for Removed<T> {
    fn drop(&mut self) {
        // SAFETY: invariant 1: the entry is owned and this is its end.
        unsafe { self.entry.free() }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for EntryRef<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EntryRef")
            .field("key", &self.key().escape_ascii().to_string())
            .field("value", &self.value())
            .field("expiry_ms", &self.expiry_ms())
            .finish()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Removed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        EntryRef::new(self.entry).fmt(f)
    }
}
