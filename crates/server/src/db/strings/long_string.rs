//! A string in a buffer of its own, which replies can refer to instead of copying it.
//!
//! ```text
//!   Own      | pointer | -> | Vec: capacity, pointer, length | -> bytes
//!   Shared   | pointer | -> | pointer | -> | Arc: counts | Vec | -> bytes       any number of replies hold the Arc
//! ```
//!
//! A string is shared from the first time that a reply refers to it, which moves the head and leaves the bytes where
//! they are. It is changed in place while nobody else holds it and copied otherwise, so a reply keeps the bytes that it
//! was written with. It remains shared afterwards: read and changed in turn, it is not moved back and forth.
//!
//! Rejected: every long string shared from the beginning, which would cost 24 bytes more for each that is never read
//! or too short to be worth a reference.

use std::ops::Deref;
use std::sync::Arc;
use structures::prefetch::{prefetch, prefetch_bytes, prefetch_object};
use structures::size_class::usable_size;
use structures::unaligned_box::UnalignedBox;
use wire::reply::SharedBytes;

#[derive(Debug)]
pub enum LongString {
    Own(UnalignedBox<Vec<u8>>),
    Shared(UnalignedBox<SharedBytes>),
}

/// What an `Arc` keeps beside its value: how many hold it, strongly and weakly.
const ARC_COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl LongString {
    pub fn new(bytes: Vec<u8>) -> Self {
        LongString::Own(UnalignedBox::new(bytes))
    }

    #[inline]
    fn vec(&self) -> &Vec<u8> {
        match self {
            LongString::Own(vec) => vec,
            LongString::Shared(shared) => shared,
        }
    }

    pub fn capacity(&self) -> usize {
        self.vec().capacity()
    }

    /// The string to be changed at will; a copy, if a reply refers to it. The copy has as much room to grow as the
    /// original: otherwise its next growth would copy it once more.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        match self {
            LongString::Own(vec) => vec,
            LongString::Shared(shared) => {
                if Arc::get_mut(shared).is_none() {
                    let mut copy = Vec::with_capacity(shared.capacity());
                    copy.extend_from_slice(shared);
                    **shared = SharedBytes::new(copy);
                }
                Arc::get_mut(shared).expect("nobody else holds what has just been copied")
            }
        }
    }

    /// The bytes for a reply to refer to.
    pub fn share(&mut self) -> &SharedBytes {
        if let LongString::Own(vec) = self {
            let shared = SharedBytes::new(std::mem::take(&mut **vec));
            *self = LongString::Shared(UnalignedBox::new(shared));
        }
        match self {
            LongString::Shared(shared) => shared,
            LongString::Own(_) => unreachable!("it has just been shared"),
        }
    }

    /// Bytes held from the allocator beside those of the string.
    pub(super) fn head_bytes(&self) -> usize {
        match self {
            LongString::Own(_) => usable_size(size_of::<Vec<u8>>()),
            LongString::Shared(_) => {
                usable_size(size_of::<SharedBytes>()) + usable_size(ARC_COUNTS_BYTES + size_of::<Vec<u8>>())
            }
        }
    }

    /// Asks for what the string's pointer points at.
    #[inline]
    pub fn prefetch_target(&self) {
        match self {
            LongString::Own(vec) => prefetch_object::<Vec<u8>>(vec),
            LongString::Shared(shared) => prefetch_object::<SharedBytes>(shared),
        }
    }

    /// Its head has come: asks for what a read touches next, at most `len_max` bytes.
    #[inline]
    pub fn prefetch_bytes(&self, len_max: usize) {
        match self {
            LongString::Own(vec) => prefetch_bytes(&vec[..vec.len().min(len_max)]),
            // A reply that refers to the bytes counts itself and leaves them to the kernel.
            LongString::Shared(shared) => prefetch(Arc::as_ptr(shared)),
        }
    }
}

impl Deref for LongString {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.vec()
    }
}

/// Bytes of its own: memory that two keys share could be counted for neither.
impl Clone for LongString {
    fn clone(&self) -> Self {
        LongString::new(self.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(matches!(copy, LongString::Own(_)) && copy[..] == text[..] && copy.as_ptr() != address);
    }
}
