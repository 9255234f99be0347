//! Bytes on the heap behind one word: their length is stored in the address's unused bits.
//!
//! ```text
//!  63         48 47              0
//! | length      | address         | -> bytes, exactly as many
//! ```
//!
//! Invariants:
//! 1. The address and the length are those of a `Box<[u8]>`, which this value alone owns.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#buffers-behind-one-word).

use std::ops::Deref;
use std::ptr::NonNull;

/// Owns up to [`ExactBytes::LEN_MAX`] bytes; aligned to one byte, as
/// [`UnalignedBox`](crate::unaligned_box::UnalignedBox) is and for the same reason.
#[repr(C, packed)]
pub struct ExactBytes {
    word: *mut u8,
}

// SAFETY: invariant 1: it owns the bytes as a Box<[u8]> does.
unsafe impl Send for ExactBytes {}
// SAFETY: invariant 1: a shared reference gives out only &[u8].
unsafe impl Sync for ExactBytes {}

const LEN_SHIFT: u32 = 48;
const ADDRESS_MASK: usize = (1 << LEN_SHIFT) - 1;

impl ExactBytes {
    /// The greatest length.
    pub const LEN_MAX: usize = u16::MAX as usize;

    /// Takes the bytes. Panics if there are more than [`ExactBytes::LEN_MAX`].
    pub fn new(bytes: Box<[u8]>) -> ExactBytes {
        assert!(bytes.len() <= Self::LEN_MAX, "the length has 16 bits");
        let len = bytes.len();
        let address = Box::into_raw(bytes).cast::<u8>();
        assert!(address.addr() & !ADDRESS_MASK == 0, "the allocator returned an address beyond 48 bits");
        ExactBytes { word: address.map_addr(|bits| bits | len << LEN_SHIFT) }
    }

    /// Returns the same bytes, at the same address.
    pub fn into_boxed(self) -> Box<[u8]> {
        let bytes = self.slice();
        std::mem::forget(self);
        // SAFETY: invariant 1, and `self`, which owned them, is not used or dropped again.
        unsafe { Box::from_raw(bytes.as_ptr()) }
    }

    /// Replaces the bytes: in the same allocation, if the allocator has one size for both.
    pub fn overwrite(&mut self, bytes: &[u8]) {
        if bytes.len() == self.len() {
            // SAFETY: invariant 1, and the borrow of `self` is the only one.
            return unsafe { self.slice().as_mut() }.copy_from_slice(bytes);
        }
        let mut vec = std::mem::take(self).into_boxed().into_vec();
        vec.clear();
        vec.reserve_exact(bytes.len());
        vec.extend_from_slice(bytes);
        *self = ExactBytes::new(vec.into_boxed_slice());
    }

    #[inline]
    fn slice(&self) -> NonNull<[u8]> {
        let word = self.word;
        let address = word.map_addr(|bits| bits & ADDRESS_MASK);
        // SAFETY: invariant 1: the address of a box is not null.
        NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, word.addr() >> LEN_SHIFT)
    }
}

impl Deref for ExactBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: invariant 1.
        unsafe { self.slice().as_ref() }
    }
}

impl Drop for ExactBytes {
    fn drop(&mut self) {
        // SAFETY: invariant 1; nothing uses the bytes after this.
        drop(unsafe { Box::from_raw(self.slice().as_ptr()) });
    }
}

impl Default for ExactBytes {
    fn default() -> Self {
        ExactBytes::new(Box::default())
    }
}

impl std::fmt::Debug for ExactBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        <[u8]>::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::ExactBytes;

    #[test]
    fn bytes_of_every_length_stay_what_and_where_they_are() {
        assert_eq!((size_of::<ExactBytes>(), align_of::<ExactBytes>()), (8, 1));
        for len in [0, 1, 7, 8, 255, 256, 32_767, 32_768, ExactBytes::LEN_MAX] {
            let bytes: Box<[u8]> = (0..len).map(|i| (i * 31) as u8).collect();
            let (copy, address) = (bytes.clone(), bytes.as_ptr());
            let exact = ExactBytes::new(bytes);
            assert_eq!((&exact[..], exact.as_ptr()), (&copy[..], address));
            let mut grown = exact.into_boxed().into_vec();
            assert_eq!((grown.as_ptr(), grown.capacity()), (address, len));
            grown.push(1);
            assert_eq!(grown[..len], copy[..]);
        }
        assert!(ExactBytes::default().is_empty());
    }

    #[test]
    fn bytes_are_overwritten_whatever_their_number() {
        for len in [0, 1, 8, 255, 10_000, ExactBytes::LEN_MAX] {
            for other in [0, 1, 8, 255, 9_999, 10_000, 10_001, ExactBytes::LEN_MAX] {
                let mut exact = ExactBytes::new(vec![1; len].into_boxed_slice());
                let bytes: Vec<u8> = (0..other).map(|i| (i * 31) as u8).collect();
                exact.overwrite(&bytes);
                assert_eq!(exact[..], bytes[..]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "16 bits")]
    fn more_bytes_than_the_length_can_say_are_refused() {
        ExactBytes::new(vec![0; ExactBytes::LEN_MAX + 1].into_boxed_slice());
    }
}
