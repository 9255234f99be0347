//! Work on a stack of its own that can be suspended anywhere and resumed later.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::io;

/// Address space; only touched pages take memory.
const STACK_BYTES: usize = 1 << 20;

/// Suspends the work.
pub struct Suspender<'a>(&'a Yielder<(), ()>);

impl Suspender<'_> {
    /// Suspends the work; returns when it is resumed.
    pub fn suspend(&self) {
        self.0.suspend(());
    }
}

/// Suspended work. Its stack cannot be freed in the middle: it has to run to its end before this is dropped.
pub struct Fiber<T: 'static> {
    coroutine: Coroutine<(), (), T, DefaultStack>,
}

impl<T: 'static> Fiber<T> {
    /// Creates the work, which does not start before [`Fiber::resume`].
    pub fn new(work: impl FnOnce(Suspender<'_>) -> T + 'static) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        Ok(Fiber { coroutine: Coroutine::with_stack(stack, |yielder, ()| work(Suspender(yielder))) })
    }

    /// Runs until the work is suspended again, or has ended: then returns its result. Panics if it ended before.
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
