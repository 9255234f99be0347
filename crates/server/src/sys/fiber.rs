//! Work on a stack of its own: it can be left in the middle of whatever it does and gone on with later.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::io;

/// Address space, of which only what is touched is memory.
const STACK_BYTES: usize = 1 << 20;

/// What the work leaves its stack by.
pub struct Suspender<'a>(&'a Yielder<(), ()>);

impl Suspender<'_> {
    /// Leaves the work here; returns when it is gone on with.
    pub fn suspend(&self) {
        self.0.suspend(());
    }
}

/// Work that has begun and not ended. Its stack cannot be taken away from under it: it is to run to its end before this
/// is dropped.
pub struct Fiber<T: 'static> {
    coroutine: Coroutine<(), (), T, DefaultStack>,
}

impl<T: 'static> Fiber<T> {
    /// Nothing of the work is done before [`Fiber::resume`].
    pub fn new(work: impl FnOnce(Suspender<'_>) -> T + 'static) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        Ok(Fiber { coroutine: Coroutine::with_stack(stack, |yielder, ()| work(Suspender(yielder))) })
    }

    /// Goes on until the work is left again, or has ended: then its result. Panics if it has ended before.
    pub fn resume(&mut self) -> Option<T> {
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(()) => None,
            CoroutineResult::Return(result) => Some(result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn work_goes_on_where_it_was_left() {
        let seen = Rc::new(Cell::new(0));
        let inside = Rc::clone(&seen);
        let mut fiber = Fiber::new(move |suspender| {
            for step in 1..=3 {
                inside.set(step);
                suspender.suspend();
            }
            "done"
        })
        .unwrap();
        for step in 1..=3 {
            assert_eq!(fiber.resume(), None);
            assert_eq!(seen.get(), step);
        }
        assert_eq!(fiber.resume(), Some("done"));
    }
}
