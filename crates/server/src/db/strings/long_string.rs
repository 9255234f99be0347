//! A string in a buffer of its own, to which replies can refer instead of copying it.
//!
//! ```text
//!   Exact    | length, pointer | -> bytes                                       up to 16 KB, until it is changed
//!   Own      | pointer | -> | Vec: capacity, pointer, length | -> bytes
//!   Shared   | pointer | -> | pointer | -> | Arc: counts | Vec | -> bytes       any number of replies hold the Arc
//! ```
//!
//! A string is shared from the first reply that refers to it, which moves the head and not the bytes. A string stored in
//! the buffer in which it has arrived is shared from the beginning (`net/query_buffer/long_argument.rs`). It is changed
//! in place while the key alone holds it and copied otherwise, so a reply keeps its bytes. It remains shared afterwards:
//! alternating reads and changes do not move it.
//!
//! A vector created here uses all the room of its allocation: a first APPEND to a string of 1 MB then moves nothing, 1 us
//! instead of 30 to 60.
//!
//! Rejected: every long string shared from the beginning, which would cost 24 bytes more for each that is never read or
//! too short to be worth a reference.

use crate::db::object::REFERRED_LEN_MIN;
use std::ops::Deref;
use std::sync::Arc;
use structures::exact_bytes::ExactBytes;
use structures::prefetch::{prefetch, prefetch_bytes, prefetch_object};
use structures::size_class::usable_size;
use structures::unaligned_box::UnalignedBox;
use wire::reply::SharedBytes;

/// A string in a buffer of its own.
#[derive(Debug)]
pub enum LongString {
    /// Bytes without spare capacity.
    Exact(ExactBytes),
    /// Bytes with spare capacity, after a change in place.
    Own(UnalignedBox<Vec<u8>>),
    /// Bytes shared with replies that are being sent.
    Shared(UnalignedBox<SharedBytes>),
}

/// What an `Arc` stores beside its value: the strong and the weak count.
const ARC_COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl LongString {
    /// A string that can grow.
    pub fn new(bytes: Vec<u8>) -> Self {
        LongString::Own(UnalignedBox::new(bytes))
    }

    /// A string not expected to grow or to be referred to.
    pub fn exact(bytes: &[u8]) -> Self {
        match bytes.len() < REFERRED_LEN_MIN {
            true => LongString::Exact(ExactBytes::new(bytes.into())),
            false => {
                let mut vec = Vec::with_capacity(usable_size(bytes.len()));
                vec.extend_from_slice(bytes);
                LongString::new(vec)
            }
        }
    }

    /// A string in the buffer in which it arrived, to which others may refer too.
    pub fn shared(bytes: SharedBytes) -> Self {
        assert!(bytes.len() >= REFERRED_LEN_MIN, "shorter strings have no head");
        LongString::Shared(UnalignedBox::new(bytes))
    }

    /// Capacity of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        match self {
            LongString::Exact(bytes) => bytes.len(),
            LongString::Own(vec) => vec.capacity(),
            LongString::Shared(shared) => shared.capacity(),
        }
    }

    /// Adds a head to bytes without one. They are not moved.
    fn own(&mut self) {
        if let LongString::Exact(bytes) = self {
            *self = LongString::new(std::mem::take(bytes).into_boxed().into_vec());
        }
    }

    /// The string for changes; a copy, if a reply refers to it. The copy has as much room to grow as the original:
    /// otherwise its next growth would copy it once more.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        let is_exact = matches!(self, LongString::Exact(_));
        self.own();
        match self {
            LongString::Exact(_) => unreachable!("the head was just added"),
            LongString::Own(vec) => {
                if is_exact {
                    let room = usable_size(vec.len()) - vec.len();
                    vec.reserve_exact(room);
                }
                vec
            }
            LongString::Shared(shared) => {
                if Arc::get_mut(shared).is_none() {
                    let mut copy = Vec::with_capacity(shared.capacity());
                    copy.extend_from_slice(shared);
                    **shared = SharedBytes::new(copy);
                }
                Arc::get_mut(shared).expect("the new copy is not shared yet")
            }
        }
    }

    /// Replaces the bytes in place, if [`LongString::exact`] would give the new ones a buffer of the same size and no
    /// reply refers to this one. Returns whether it has.
    pub fn overwrite(&mut self, bytes: &[u8]) -> bool {
        let has_room = usable_size(self.capacity()) == usable_size(bytes.len());
        if !has_room || matches!(self, LongString::Exact(_)) != (bytes.len() < REFERRED_LEN_MIN) {
            return false;
        }
        let vec = match self {
            LongString::Exact(exact) => {
                exact.overwrite(bytes);
                return true;
            }
            LongString::Own(vec) => Some(&mut **vec),
            LongString::Shared(shared) => Arc::get_mut(shared),
        };
        let Some(vec) = vec else { return false };
        vec.clear();
        vec.extend_from_slice(bytes);
        true
    }

    /// Shares the bytes with a reply.
    pub fn share(&mut self) -> &SharedBytes {
        self.own();
        if let LongString::Own(vec) = self {
            let shared = SharedBytes::new(std::mem::take(&mut **vec));
            *self = LongString::Shared(UnalignedBox::new(shared));
        }
        match self {
            LongString::Shared(shared) => shared,
            LongString::Exact(_) | LongString::Own(_) => unreachable!("the string was just shared"),
        }
    }

    /// Memory held from the allocator beside the string's bytes.
    pub(super) fn head_bytes(&self) -> usize {
        match self {
            LongString::Exact(_) => 0,
            LongString::Own(_) => usable_size(size_of::<Vec<u8>>()),
            LongString::Shared(_) => {
                usable_size(size_of::<SharedBytes>()) + usable_size(ARC_COUNTS_BYTES + size_of::<Vec<u8>>())
            }
        }
    }

    /// Prefetches the memory the string's pointer points at: its head, or at most `len_max` of its bytes if it has none.
    /// Returns whether it has a head.
    #[inline]
    pub fn prefetch_target(&self, len_max: usize) -> bool {
        match self {
            LongString::Exact(_) => {
                self.prefetch_bytes(len_max);
                return false;
            }
            LongString::Own(vec) => prefetch_object::<Vec<u8>>(vec),
            LongString::Shared(shared) => prefetch_object::<SharedBytes>(shared),
        }
        true
    }

    /// Prefetches what a read touches after the fetched head, at most `len_max` bytes.
    #[inline]
    pub fn prefetch_bytes(&self, len_max: usize) {
        match self {
            LongString::Exact(bytes) => prefetch_bytes(&bytes[..bytes.len().min(len_max)]),
            LongString::Own(vec) => prefetch_bytes(&vec[..vec.len().min(len_max)]),
            // A reply that refers to the bytes changes the count and leaves the bytes to the kernel.
            LongString::Shared(shared) => prefetch(Arc::as_ptr(shared)),
        }
    }
}

impl Deref for LongString {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            LongString::Exact(bytes) => bytes,
            LongString::Own(vec) => vec,
            LongString::Shared(shared) => shared,
        }
    }
}

/// Copies the bytes: memory shared by two keys could not be counted for either.
impl Clone for LongString {
    fn clone(&self) -> Self {
        LongString::exact(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_gets_a_head_when_it_is_changed_and_keeps_its_bytes_in_place() {
        for len in [129, REFERRED_LEN_MIN - 1, REFERRED_LEN_MIN] {
            let mut text = LongString::exact(&vec![b'x'; len]);
            let has_head = len >= REFERRED_LEN_MIN;
            assert_eq!(matches!(text, LongString::Own(_)), has_head);
            let room = if has_head { usable_size(len) } else { len };
            assert_eq!((text.head_bytes(), text.capacity()), (if has_head { 24 } else { 0 }, room));
            let (copy, address) = (text.clone(), text.as_ptr());
            text.to_mut()[0] = b'y';
            assert_eq!((text.as_ptr(), text.len(), text.head_bytes()), (address, len, 24));
            assert_eq!((text[0], copy[0]), (b'y', b'x'));
            let mut copy = copy;
            let address = copy.as_ptr();
            assert_eq!((copy.share().as_ptr(), copy.head_bytes()), (address, 8 + 40));
        }
    }

    #[test]
    fn what_a_reply_refers_to_is_changed_in_place_only_by_its_last_holder() {
        let mut text = LongString::new(Vec::with_capacity(100));
        text.to_mut().extend_from_slice(b"before");
        let address = text.as_ptr();
        let reply = SharedBytes::clone(text.share());
        assert_eq!((text.as_ptr(), reply.as_ptr()), (address, address));
        text.to_mut().extend_from_slice(b" and after");
        assert_eq!((&reply[..], &text[..]), (&b"before"[..], &b"before and after"[..]));
        assert_eq!(text.capacity(), 100);
        let address = text.as_ptr();
        drop(reply);
        drop(SharedBytes::clone(text.share()));
        text.to_mut().push(b'!');
        assert_eq!(text.as_ptr(), address);
        let copy = text.clone();
        assert!(matches!(copy, LongString::Exact(_)) && copy[..] == text[..] && copy.as_ptr() != address);
    }

    #[test]
    fn other_bytes_are_taken_in_place_where_they_would_be_given_such_a_buffer() {
        let taken = |from: usize, to: usize| {
            let mut text = LongString::exact(&vec![b'x'; from]);
            let (address, bytes) = (text.as_ptr(), vec![b'y'; to]);
            let is_taken = text.overwrite(&bytes);
            assert!(
                !is_taken || text[..] == bytes[..] && text.as_ptr() == address && text.head_bytes() <= 24
            );
            assert!(is_taken || text.len() == from && text.iter().all(|&byte| byte == b'x'));
            is_taken
        };
        for (from, to) in
            [(10_000, 10_000), (10_000, 10_240), (10_240, 8193), (16_383, 15_000), (16_384, 16_384)]
        {
            assert!(taken(from, to), "{to} bytes over {from}");
        }
        let large = (1 << 20, (1 << 20) - 4095);
        assert!(taken(large.0, large.1) && taken(large.1, large.0));
        for (from, to) in
            [(10_000, 10_241), (10_241, 10_240), (16_384, 16_383), (16_383, 16_384), (20_480, 20_481)]
        {
            assert!(!taken(from, to), "{to} bytes over {from}");
        }
        let mut text = LongString::exact(&[b'x'; REFERRED_LEN_MIN]);
        let reply = SharedBytes::clone(text.share());
        assert!(!text.overwrite(&[b'y'; REFERRED_LEN_MIN]) && text[0] == b'x');
        drop(reply);
        assert!(text.overwrite(&[b'y'; REFERRED_LEN_MIN]) && text[0] == b'y');
    }
}
