//! The keyspace table: a hash table by linear hashing (Litwin, 1980), which grows one bucket at a time and never as a whole.
//! Unlike the textbook's it grows through the hashes in their order, and a bucket is one cache line of pointers with tags:
//! a lookup fetches one bucket line and one entry line, hit or miss.
//!
//! ```text
//!  directory   [ chunk | chunk | ... ]                    chunks of 256 buckets
//!  bucket      [ slot x 8 ]                               64 bytes, see `bucket`
//!  slot        | tag 16 | address 45 | kind 2, EXPIRES |      see `slot`
//!  entry       | header 6 | value | expiry | key | ...    one allocation, see `entry`
//!
//!  buckets     0           F*narrow        F*wide                 groups*wide
//!              | narrow groups  |    unused    |   wide groups         |
//!                     group 0..F                group F..groups
//! ```
//! The hash range is divided into groups, and each group into `width` buckets (see `shape`). A growing table widens one
//! group at a time by one bucket, from the last group to the first: the split pointer F moves down, and at 0 every group is
//! wide and the next phase begins. A shrinking table does the reverse, and may change direction at any time. Hence the
//! number of buckets follows the number of keys, the bytes per key are the same at every size, no step rearranges more than
//! seven buckets, and there is never a second table. Tags hold the position within the group, so moving an entry does not
//! read it.
//!
//! Invariants, verified by [`KeyTable::check`]:
//! 1. Every entry is in the bucket that the shape of its group (wide from F on) assigns to its key's hash.
//! 2. Every slot's tag is that shape's tag of the hash; its flags agree with the entry's header.
//! 3. Within a bucket: see `bucket`. No key occurs twice.
//! 4. Every bucket of a narrow or wide group is in an allocated chunk; unused buckets are empty, and a chunk of unused
//!    buckets only is not allocated.
//! 5. `len`, `expiring`, `buckets`, `overflow_bytes` and the chunks' counts are exact.
//! 6. A slot that is an entry's holds the address of a live entry of this table's `T`, which the table owns; references into
//!    it borrow the table.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#the-table-of-keys).

mod bucket;
mod directory;
mod entry;
mod expiring_counts;
mod in_use;
mod probe;
mod resize;
mod shape;
mod slot;
#[cfg(test)]
mod tests;
mod walk;

pub use entry::{EntryMut, EntryRef, NewValue, Removed, Value, inline_entry_bytes, object_entry_bytes};
pub use in_use::{Registration, TablesInUse};
pub use probe::{Probe, ProbeState};
pub use walk::Iter;

use crate::hash::HashSeed;
use crate::short_bytes::same_bytes;
use crate::work;
use bucket::{Bucket, SLOTS};
use directory::Directory;
use entry::Entry;
use shape::Shape;
use slot::Slot;
use std::marker::PhantomData;

/// A hash table from byte strings to bytes, integers or objects of type `T` (aligned to at most 8).
///
/// Every operation takes the key's hash ([`KeyTable::hash`]), so that a batch of commands can hash its keys before it
/// touches memory. With a wrong hash a key is not found; there is no other effect.
pub struct KeyTable<T> {
    directory: Directory,
    /// The shapes of groups below the split pointer and from the split pointer on.
    shapes: [Shape; 2],
    /// Number of narrow groups, counted in the narrow shape.
    split_pointer: usize,
    buckets: usize,
    len: usize,
    expiring: usize,
    overflow_bytes: usize,
    /// Upper bound of the entries in one bucket, where that is more than eight.
    crowd_max: usize,
    /// The same bound over the buckets that this phase has rearranged or added to; holds for the whole table once the phase
    /// is complete.
    phase_crowd_max: usize,
    /// The split pointer's position when the phase began: the phase is complete when it reaches the other end.
    phase_start: usize,
    seed: HashSeed,
    /// In a box, since most of many tables have none.
    registration: Option<Box<Registration>>,
    owns: PhantomData<T>,
}

// SAFETY: invariant 6: the table owns its entries as a HashMap<Box<[u8]>, T> would.
unsafe impl<T: Send> Send for KeyTable<T> {}
// SAFETY: invariant 6: shared access gives out only shared references; nothing is changed through &self.
unsafe impl<T: Sync> Sync for KeyTable<T> {}

/// See [`KeyTable::is_hash_of`].
const UNUSED_BITS: u64 = (1 << 19) - (1 << 5);

const NARROW: usize = 0;
const WIDE: usize = 1;

impl<T> KeyTable<T> {
    /// Creates an empty table, which owns no memory.
    pub const fn new(seed: HashSeed) -> Self {
        KeyTable {
            directory: Directory::new(),
            shapes: [Shape::SMALLEST; 2],
            split_pointer: 1,
            buckets: 0,
            len: 0,
            expiring: 0,
            overflow_bytes: 0,
            crowd_max: 0,
            phase_crowd_max: 0,
            phase_start: 1,
            seed,
            registration: None,
            owns: PhantomData,
        }
    }

    /// As [`KeyTable::new`], for one of many tables: registers `number` in `tables` when the first entry is inserted.
    pub fn numbered(seed: HashSeed, number: usize, tables: &TablesInUse) -> Self {
        let mut table = KeyTable::new(seed);
        table.registration = Some(Box::new(Registration::new(number, tables)));
        table
    }

    /// Gives the table another number, which belonged to another table before.
    pub fn renumber(&mut self, number: usize, tables: &TablesInUse) {
        let registration = Registration::new(number, tables);
        if self.buckets > 0 {
            registration.enter()
        } else {
            registration.leave()
        }
        self.registration = Some(Box::new(registration));
    }

    /// Returns a table without entries to the unused state: frees its last bucket and unregisters it. Returns false if it
    /// has entries or more than one bucket.
    pub fn leave_use(&mut self) -> bool {
        if self.len > 0 || self.buckets > 1 {
            return false;
        }
        let registration = self.registration.take();
        if let Some(registration) = &registration {
            registration.leave();
        }
        *self = KeyTable::new(self.seed);
        self.registration = registration;
        true
    }

    /// Called before the first bucket is allocated.
    #[cold]
    fn come_into_use(&self) {
        if let Some(registration) = &self.registration {
            registration.enter();
        }
    }

    /// Returns the hash of `key` that all operations take.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash(key)
    }

    /// Returns whether `hash` is the key's. The middle bits, which no table of less than 2^35 buckets uses, may differ: see
    /// [`crate::key_slot`].
    pub fn is_hash_of(&self, hash: u64, key: &[u8]) -> bool {
        (hash ^ self.hash(key)) & !UNUSED_BITS == 0
    }

    /// The seed of the hash.
    pub fn seed(&self) -> HashSeed {
        self.seed
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of entries with an expiry.
    #[inline]
    pub fn expiring_len(&self) -> usize {
        self.expiring
    }

    /// Bytes of the table, without the entries.
    pub fn table_bytes(&self) -> usize {
        self.directory.bytes() + self.overflow_bytes
    }

    /// The number of 64-byte buckets, a measure of the cost of a full scan.
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    #[inline]
    fn shape_of(&self, hash: u64) -> &Shape {
        &self.shapes[(self.shapes[NARROW].group(hash) >= self.split_pointer) as usize]
    }

    /// Returns the entry of `key`.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<EntryRef<'_, T>> {
        self.find(hash, key).map(EntryRef::new)
    }

    /// Returns the entry of `key` for changing it.
    #[inline]
    pub fn get_mut(&mut self, hash: u64, key: &[u8]) -> Option<EntryMut<'_, T>> {
        self.find(hash, key).map(|entry| EntryMut::new(entry, hash, self))
    }

    /// Returns whether `key` is in the table.
    #[inline]
    pub fn contains(&self, hash: u64, key: &[u8]) -> bool {
        self.find(hash, key).is_some()
    }

    /// Inlined in each caller: a call costs 15 instructions, 0.6 % of a SET.
    #[inline(always)]
    fn find(&self, hash: u64, key: &[u8]) -> Option<Entry<T>> {
        if self.len == 0 {
            return None;
        }
        work::visited(1);
        let shape = self.shape_of(hash);
        let tag = shape.tag(hash);
        let bucket = self.directory.bucket(shape.bucket(hash));
        for at in bucket.matching(tag) {
            if let Some(entry) = self.entry_if_key(bucket.slots[at], key) {
                return Some(entry);
            }
        }
        if !bucket.slots[SLOTS - 1].is_link() {
            return None;
        }
        self.find_overflowed(&bucket.slots, tag, key)
    }

    #[inline]
    fn entry_if_key(&self, slot: Slot, key: &[u8]) -> Option<Entry<T>> {
        if !slot.is_entry() {
            return None;
        }
        // SAFETY: invariant 6.
        let entry = unsafe { Entry::from_address(slot.address()) };
        same_bytes(entry.key(), key).then_some(entry)
    }

    #[cold]
    fn find_overflowed(&self, slots: &[Slot; SLOTS], tag: u16, key: &[u8]) -> Option<Entry<T>> {
        let mut near = bucket::overflow_near(slots, tag).iter().filter(|slot| slot.tag() == tag);
        near.find_map(|&slot| self.entry_if_key(slot, key))
    }

    /// Inserts the entry, or replaces the one with this key, including its expiry and access bits.
    ///
    /// Returns the old entry only if it held an object, so that the caller can choose where to free it: old bytes and
    /// integers are overwritten in place when the size class allows. To find out whether the key was new, compare `len`
    /// before and after.
    pub fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<T>,
        expiry_ms: Option<i64>,
        access: u32,
    ) -> Option<Removed<T>> {
        self.put_over(hash, key, value, expiry_ms, |_| access)
    }

    /// As [`KeyTable::put`]; `access` computes the access bits from the replaced entry, if there is one.
    #[inline]
    pub fn put_over(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<T>,
        expiry_ms: Option<i64>,
        access: impl FnOnce(Option<EntryRef<'_, T>>) -> u32,
    ) -> Option<Removed<T>> {
        debug_assert!(self.is_hash_of(hash, key), "the hash is another key's");
        match self.find(hash, key) {
            Some(old) => {
                let access = access(Some(EntryRef::new(old)));
                self.replace(hash, old, key, value, expiry_ms, access)
            }
            None => {
                let entry = Entry::new(key, value, expiry_ms, access(None));
                self.insert(hash, entry);
                None
            }
        }
    }

    /// As [`KeyTable::put`], for a key that is not in the table.
    #[inline]
    pub fn put_new(
        &mut self,
        hash: u64,
        key: &[u8],
        value: NewValue<T>,
        expiry_ms: Option<i64>,
        access: u32,
    ) {
        debug_assert!(self.is_hash_of(hash, key), "the hash is another key's");
        debug_assert!(!self.contains(hash, key), "the key is in the table");
        self.insert(hash, Entry::new(key, value, expiry_ms, access));
    }

    fn replace(
        &mut self,
        hash: u64,
        old: Entry<T>,
        key: &[u8],
        value: NewValue<T>,
        expiry_ms: Option<i64>,
        access: u32,
    ) -> Option<Removed<T>> {
        let old_flags = old.slot_flags();
        match old.overwrite(key, value, expiry_ms, access) {
            Ok(()) => {
                if old.slot_flags() != old_flags {
                    self.repoint(hash, old.address().as_ptr(), old);
                }
                None
            }
            Err(value) => {
                let entry = Entry::new(key, value, expiry_ms, access);
                self.repoint(hash, old.address().as_ptr(), entry);
                let removed = Removed::new(old);
                (old_flags & slot::BULKY == slot::OBJECT).then_some(removed)
            }
        }
    }

    /// Replaces the value of `old`, which is in the table. Returns the entry at its new address.
    fn replace_value(&mut self, hash: u64, old: Entry<T>, value: NewValue<T>) -> Entry<T> {
        let old_address = old.address();
        match old.with_value(value) {
            Ok((entry, is_repointed)) => {
                if is_repointed {
                    self.repoint(hash, old_address.as_ptr(), entry);
                }
                entry
            }
            Err(value) => {
                let entry = Entry::new(old.key(), value, old.expiry_ms(), old.access());
                self.repoint(hash, old_address.as_ptr(), entry);
                drop(Removed::new(old));
                entry
            }
        }
    }

    /// Adds an entry whose key is not in the table.
    fn insert(&mut self, hash: u64, entry: Entry<T>) {
        if self.buckets == 0 {
            self.come_into_use();
            self.directory.set_end(1);
            self.directory.ensure(0..1);
            self.buckets = 1;
        }
        let shape = self.shape_of(hash);
        let slot = Slot::entry(entry.address(), shape.tag(hash), entry.slot_flags());
        let crowd = self.push(shape.bucket(hash), slot);
        self.len += 1;
        self.expiring += slot.expires() as usize;
        self.grow_if_crowded();
        if crowd > resize::RELIEVED_CROWD {
            self.relieve();
        }
    }

    /// Adds the slot to `bucket`, which must be the right one. Returns the number of entries in it if it overflows, else 0.
    #[inline]
    fn push(&mut self, bucket: usize, slot: Slot) -> usize {
        let slots = &mut self.directory.bucket_mut(bucket).slots;
        let mut crowd = 0;
        if let Some(added) = bucket::push(slots, slot) {
            crowd = bucket::entry_count(slots);
            self.overflow_bytes += added;
            self.note_crowd(crowd);
        }
        if slot.expires() {
            self.directory.count_expiring(bucket, 1);
        }
        crowd
    }

    #[inline]
    fn note_crowd(&mut self, crowd: usize) {
        self.phase_crowd_max = self.phase_crowd_max.max(crowd);
        self.crowd_max = self.crowd_max.max(crowd);
    }

    /// Makes the slot of the entry at `old` point to `entry`, which has the same key.
    fn repoint(&mut self, hash: u64, old: *mut u8, entry: Entry<T>) {
        let shape = *self.shape_of(hash);
        let bucket = shape.bucket(hash);
        let slot = bucket::slot_of(&mut self.directory.bucket_mut(bucket).slots, shape.tag(hash), old);
        let expired_before = slot.expires();
        *slot = Slot::entry(entry.address(), slot.tag(), entry.slot_flags());
        let change = slot.expires() as i32 - expired_before as i32;
        if change != 0 {
            self.directory.count_expiring(bucket, change);
            self.expiring = self.expiring.wrapping_add_signed(change as isize);
        }
    }

    /// Removes the entry and returns it.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Removed<T>> {
        let entry = self.find(hash, key)?;
        let shape = self.shape_of(hash);
        let (bucket, tag) = (shape.bucket(hash), shape.tag(hash));
        let slots = &mut self.directory.bucket_mut(bucket).slots;
        self.overflow_bytes -= bucket::remove(slots, tag, entry.address().as_ptr());
        self.len -= 1;
        if entry.expiry_ms().is_some() {
            self.directory.count_expiring(bucket, -1);
            self.expiring -= 1;
        }
        self.shrink_if_sparse();
        Some(Removed::new(entry))
    }

    /// Sets or (`None`) removes the expiry of a key; returns `false` if the key is not in the table.
    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expiry_ms: Option<i64>) -> bool {
        let Some(old) = self.find(hash, key) else { return false };
        let old_address = old.address().as_ptr();
        let had_expiry = old.expiry_ms().is_some();
        let entry = old.set_expiry(expiry_ms);
        if had_expiry != expiry_ms.is_some() {
            self.repoint(hash, old_address, entry);
        }
        true
    }

    /// Verifies every documented invariant, reading every entry; panics on the first violation.
    pub fn check(&self) {
        self.directory.check();
        self.check_shape();
        let (mut len, mut expiring, mut overflow_bytes) = (0, 0, 0);
        for bucket in self.bucket_numbers() {
            let slots = &self.directory.bucket(bucket).slots;
            overflow_bytes += check_slots(slots);
            let crowd = bucket::entry_count(slots);
            assert!(crowd <= SLOTS || crowd <= self.crowd_max, "crowd_max");
            bucket::for_each_entry(slots, |slot| {
                len += 1;
                expiring += slot.expires() as usize;
                self.check_entry(bucket, slot);
            });
        }
        assert_eq!((len, expiring, overflow_bytes), (self.len, self.expiring, self.overflow_bytes));
        self.check_unused();
    }

    fn check_shape(&self) {
        let [narrow, wide] = self.shapes;
        if self.buckets == 0 {
            return assert_eq!((self.len, narrow, self.split_pointer), (0, Shape::SMALLEST, 1));
        }
        assert!(self.split_pointer <= narrow.groups());
        assert_eq!(self.buckets, self.bucket_numbers().count());
        if self.split_pointer < narrow.groups() {
            assert_eq!(narrow.wider(), Some(wide));
        }
    }

    fn check_entry(&self, bucket: usize, slot: Slot) {
        // SAFETY: invariant 6: the slot is an entry's.
        let entry = unsafe { Entry::<T>::from_address(slot.address()) };
        let hash = self.hash(entry.key());
        let shape = self.shape_of(hash);
        assert_eq!(shape.bucket(hash), bucket, "invariant 1");
        assert_eq!(shape.tag(hash), slot.tag(), "invariant 2");
        assert_eq!(slot.flags(), entry.slot_flags(), "invariant 2");
        assert_eq!(
            self.find(hash, entry.key()).map(|found| found.address()),
            Some(entry.address()),
            "invariant 3"
        );
    }

    fn check_unused(&self) {
        let unused = self.unused_buckets();
        for bucket in self.bucket_numbers() {
            assert!(self.directory.is_present(bucket) && !unused.contains(&bucket), "invariant 4");
        }
        for bucket in unused.filter(|&bucket| self.directory.is_present(bucket)) {
            assert!(self.directory.bucket(bucket).slots[0].is_empty(), "invariant 4");
        }
        self.directory.check_expiring(|bucket| {
            let mut expiring = 0;
            if self.is_used(bucket) {
                let slots = &self.directory.bucket(bucket).slots;
                bucket::for_each_entry(slots, |slot| expiring += slot.expires() as usize);
            }
            expiring
        });
    }
}

/// Verifies the invariants of one bucket; returns its overflow bytes.
fn check_slots(slots: &[Slot; SLOTS]) -> usize {
    let occupied = slots.iter().take_while(|slot| !slot.is_empty()).count();
    assert!(slots[occupied..].iter().all(|slot| slot.is_empty()), "empty slots come last");
    assert!(slots[..SLOTS - 1].iter().all(|slot| !slot.is_link()), "only the last slot may be a link");
    let link = slots[SLOTS - 1];
    if !link.is_link() {
        return 0;
    }
    let beyond = bucket::overflow(slots);
    assert!(beyond.iter().all(|slot| slot.is_entry()), "the overflow has no links and no empty slots");
    if link.is_crowd_link() {
        assert!(beyond.len() > SLOTS && beyond.is_sorted_by_key(|slot| slot.tag()), "a crowd is in order");
    } else {
        assert!(beyond.len() >= 2, "a node has two slots or more");
        assert_eq!(bucket::filter_of(beyond), link.link_filter(), "a filter is exact");
    }
    bucket::overflow_bytes(link)
}

impl<T> Drop for KeyTable<T> {
    fn drop(&mut self) {
        for bucket in self.bucket_numbers() {
            let slots = std::mem::replace(&mut self.directory.bucket_mut(bucket).slots, [Slot::EMPTY; SLOTS]);
            bucket::dissolve(&slots, |slot| {
                if !slot.is_empty() {
                    // SAFETY: invariant 6: the slot is an entry's, and it has just been taken
                    // out of its bucket.
                    unsafe { Entry::<T>::from_address(slot.address()).free() }
                }
            });
        }
    }
}

const _: () = assert!(size_of::<Bucket>() == SLOTS * size_of::<Slot>());
