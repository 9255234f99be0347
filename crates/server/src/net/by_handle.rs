//! A table of values by client handle. A value is found by its own handle only: a stale handle finds none, even if its
//! index is reused.

use crate::session::ClientHandle;

/// A value that belongs to a client.
pub trait OfClient {
    /// Returns the handle of the client.
    fn handle(&self) -> ClientHandle;
}

/// Values by the indexes of their handles, at most one each.
pub struct ByHandle<T>(Vec<Option<Box<T>>>);

impl<T> Default for ByHandle<T> {
    fn default() -> Self {
        ByHandle(Vec::new())
    }
}

impl<T: OfClient> ByHandle<T> {
    /// Returns the number of indexes, unused ones included.
    pub fn indexes(&self) -> usize {
        self.0.len()
    }

    /// Returns the client's value.
    #[inline]
    pub fn get(&self, handle: ClientHandle) -> Option<&T> {
        self.0.get(handle.index())?.as_deref().filter(|value| value.handle() == handle)
    }

    /// As [`Self::get`], mutably.
    #[inline]
    pub fn get_mut(&mut self, handle: ClientHandle) -> Option<&mut T> {
        self.0.get_mut(handle.index())?.as_deref_mut().filter(|value| value.handle() == handle)
    }

    /// Adds a client's value.
    pub fn insert(&mut self, value: Box<T>) {
        let index = value.handle().index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(value);
    }

    /// Removes and returns the client's value.
    pub fn remove(&mut self, handle: ClientHandle) -> Option<Box<T>> {
        self.0.get_mut(handle.index())?.take_if(|value| value.handle() == handle)
    }

    /// Iterates over all values by index.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// Removes and returns all values.
    pub fn take_all(&mut self) -> impl Iterator<Item = Box<T>> + use<T> {
        std::mem::take(&mut self.0).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{ByHandle, OfClient};
    use crate::session::ClientHandle;

    impl OfClient for ClientHandle {
        fn handle(&self) -> ClientHandle {
            *self
        }
    }

    #[test]
    fn a_handle_that_has_outlived_its_client_finds_nothing() {
        let first = ClientHandle::from_bits(0);
        let second = ClientHandle::from_bits(1 << 32);
        assert_eq!(first.index(), second.index(), "the index is reused");
        let mut values = ByHandle::default();
        values.insert(Box::new(second));
        assert!(values.get(first).is_none() && values.get_mut(first).is_none());
        assert!(values.remove(first).is_none());
        assert_eq!(values.get(second), Some(&second));
        assert_eq!(values.remove(second).as_deref(), Some(&second));
        assert!(values.get(second).is_none());
    }
}
