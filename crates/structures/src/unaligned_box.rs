//! A box whose pointer needs no alignment, so that an enum of such boxes takes nine bytes, not sixteen.
//!
//! ```text
//!  enum of Box<A>, Box<B>:                      | tag | 7 unused | pointer |
//!  enum of UnalignedBox<A>, UnalignedBox<B>:    | tag | pointer |
//! ```
//!
//! Invariants:
//! 1. The pointer comes from `Box::into_raw`, and this value alone owns its target.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#buffers-behind-one-word).

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owns a `T` on the heap; aligned to one byte.
#[repr(C, packed)]
pub struct UnalignedBox<T> {
    pointer: NonNull<T>,
}

// SAFETY: invariant 1: it owns the value as a Box<T> does.
unsafe impl<T: Send> Send for UnalignedBox<T> {}
// SAFETY: invariant 1: a shared reference gives out only &T.
unsafe impl<T: Sync> Sync for UnalignedBox<T> {}

impl<T> UnalignedBox<T> {
    /// Moves the value to the heap.
    pub fn new(value: T) -> Self {
        UnalignedBox { pointer: NonNull::from(Box::leak(Box::new(value))) }
    }
}

impl<T> Deref for UnalignedBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        let pointer = self.pointer;
        // SAFETY: invariant 1.
        unsafe { pointer.as_ref() }
    }
}

impl<T> DerefMut for UnalignedBox<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        let mut pointer = self.pointer;
        // SAFETY: invariant 1, and `self` is borrowed mutably.
        unsafe { pointer.as_mut() }
    }
}

impl<T> Drop for UnalignedBox<T> {
    fn drop(&mut self) {
        let pointer = self.pointer;
        // SAFETY: invariant 1; nothing uses the pointer after this.
        drop(unsafe { Box::from_raw(pointer.as_ptr()) });
    }
}

impl<T: Clone> Clone for UnalignedBox<T> {
    fn clone(&self) -> Self {
        UnalignedBox::new(T::clone(self))
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for UnalignedBox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        T::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::UnalignedBox;
    use std::rc::Rc;

    enum Either {
        Number(UnalignedBox<u64>),
        Shared(UnalignedBox<Rc<str>>),
    }

    #[test]
    fn enums_of_boxes_are_nine_bytes_and_own_their_values() {
        assert_eq!((size_of::<Either>(), align_of::<Either>()), (9, 1));
        let text: Rc<str> = "shared".into();
        let mut values =
            vec![Either::Number(UnalignedBox::new(7)), Either::Shared(UnalignedBox::new(text.clone()))];
        if let Either::Number(number) = &mut values[0] {
            **number += 1;
        }
        assert!(matches!(&values[0], Either::Number(number) if **number == 8));
        assert!(matches!(&values[1], Either::Shared(shared) if shared.len() == 6));
        assert_eq!(Rc::strong_count(&text), 2);
        drop(values);
        assert_eq!(Rc::strong_count(&text), 1);
    }
}
