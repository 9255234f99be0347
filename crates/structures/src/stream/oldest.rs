//! The pending entries of a group that were delivered first, for claims of entries that have been pending for long.
//!
//! ```text
//!  window: (time of delivery, id), ascending      bound: all that is pending and not in the window is at or behind it
//! ```
//! A group from which nothing was ever claimed has no window: it only maintains the bound's time, which each delivery
//! compares with its own. A claim takes from the front of the window; when that is exhausted, a scan of all pending entries
//! fills it with the first of those behind the bound, enough that a scan amounts to a few entries for each one taken.
//!
//! Invariants:
//! 1. `window` ascends strictly, and is before `bound`.
//! 2. An entry that is pending, exists, and sorts before `bound`, is in `window`. An entry in `window` may no longer be
//!    pending, have another delivery time, or not exist: to be checked when it is taken.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../../docs/structures.md#streams).

use super::StreamId;
use crate::size_class::usable_size;
use std::collections::VecDeque;

/// The window holds this number of entries, and one for each [`PENDING_PER_PLACE`] pending ones.
const PLACES_MIN: usize = 1024;
const PENDING_PER_PLACE: usize = 16;

/// A time of delivery and an id: ascends in the order of deliveries.
pub(super) type Delivered = (i64, StreamId);
const NONE: Delivered = (i64::MAX, StreamId::MAX);

/// Two words in each group, as few groups are claimed from.
#[derive(Clone)]
pub(super) struct Oldest {
    /// The bound's time; without a window, a lower bound of the delivery times of pending entries that exist.
    bound_ms: i64,
    window: Option<Box<Window>>,
}

#[derive(Clone)]
struct Window {
    window: VecDeque<Delivered>,
    bound: Delivered,
}

impl Oldest {
    /// The state without pending entries.
    pub fn new() -> Oldest {
        Oldest { bound_ms: NONE.0, window: None }
    }

    /// Records a delivery.
    #[inline]
    pub fn note(&mut self, delivered: Delivered) {
        if delivered.0 <= self.bound_ms {
            self.note_before_bound(delivered);
        }
    }

    fn note_before_bound(&mut self, delivered: Delivered) {
        self.bound_ms = match &mut self.window {
            None => self.bound_ms.min(delivered.0),
            Some(window) => {
                window.note(delivered);
                window.bound.0
            }
        };
    }

    /// Drops the window: an id before the bound that did not exist may exist again.
    pub fn forget(&mut self) {
        (self.window, self.bound_ms) = (None, i64::MIN);
    }

    /// As [`Window::take`], if an entry may be due.
    pub fn take(
        &mut self,
        until_ms: i64,
        count_max: usize,
        pending_len: usize,
        is_pending: impl Fn(Delivered) -> bool,
        walk: impl Fn(&mut dyn FnMut(Delivered)),
    ) -> (Vec<StreamId>, Option<i64>) {
        if self.window.is_none() && (self.bound_ms == NONE.0 || self.bound_ms > until_ms) {
            return (Vec::new(), (self.bound_ms != NONE.0).then_some(self.bound_ms));
        }
        let bound = (self.bound_ms, StreamId::MIN);
        let window = self.window.get_or_insert_with(|| Box::new(Window { window: VecDeque::new(), bound }));
        let taken = window.take(until_ms, count_max, pending_len, is_pending, walk);
        self.bound_ms = window.bound.0;
        taken
    }

    /// Allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        let of = |window: &Window| {
            usable_size(size_of::<Window>()) + usable_size(window.window.capacity() * size_of::<Delivered>())
        };
        self.window.as_deref().map_or(0, of)
    }

    /// Panics unless every documented invariant holds for these entries, which are pending and exist.
    pub fn check(&self, mut pending: impl Iterator<Item = Delivered>) {
        let Some(Window { window, bound }) = self.window.as_deref() else {
            assert!(pending.all(|delivered| delivered.0 >= self.bound_ms));
            return;
        };
        assert_eq!(bound.0, self.bound_ms);
        assert!(window.iter().is_sorted_by(|a, b| a < b));
        assert!(window.back().is_none_or(|last| last < bound));
        assert!(pending.all(|delivered| delivered >= *bound || window.binary_search(&delivered).is_ok()));
    }
}

impl Window {
    fn note(&mut self, delivered: Delivered) {
        if delivered >= self.bound {
            return;
        }
        if self.window.back().is_none_or(|last| *last < delivered) {
            self.bound = delivered;
        } else if let Err(at) = self.window.binary_search(&delivered) {
            if self.window.len() == self.window.capacity()
                && let Some(last) = self.window.pop_back()
            {
                self.bound = last;
            }
            self.window.insert(at.min(self.window.len()), delivered);
        }
    }

    /// A time before which nothing was delivered; `None` if nothing is pending.
    fn first_ms(&self) -> Option<i64> {
        let first = self.window.front().copied().unwrap_or(self.bound);
        (first != NONE).then_some(first.0)
    }

    /// The first entries, at most `count_max`, for which `is_pending` holds, all delivered at `until_ms` or before; and a
    /// time before which none of the others was delivered. They stay in the window. `walk` visits all pending entries,
    /// which are `pending_len`.
    fn take(
        &mut self,
        until_ms: i64,
        count_max: usize,
        pending_len: usize,
        is_pending: impl Fn(Delivered) -> bool,
        walk: impl Fn(&mut dyn FnMut(Delivered)),
    ) -> (Vec<StreamId>, Option<i64>) {
        let mut taken: Vec<Delivered> = Vec::new();
        while taken.len() < count_max {
            let Some(&first) = self.window.front() else {
                if self.bound == NONE || self.bound.0 > until_ms {
                    break;
                }
                self.fill(pending_len, &walk);
                continue;
            };
            if first.0 > until_ms {
                break;
            }
            self.window.pop_front();
            if is_pending(first) {
                taken.push(first);
            }
        }
        let next_ms = self.first_ms();
        for &delivered in taken.iter().rev() {
            self.window.push_front(delivered);
        }
        (taken.into_iter().map(|(_, id)| id).collect(), next_ms)
    }

    /// Fills the empty window with the first entries behind the bound.
    fn fill(&mut self, pending_len: usize, walk: &impl Fn(&mut dyn FnMut(Delivered))) {
        let places = PLACES_MIN + pending_len / PENDING_PER_PLACE;
        let (from, mut end, mut behind) = (self.bound, NONE, Vec::new());
        // Keeps the first entries so far, and drops the others when there are twice as many.
        let sort_out = |behind: &mut Vec<Delivered>| {
            let (_, first_left_out, _) = behind.select_nth_unstable(places);
            let end = *first_left_out;
            behind.truncate(places);
            end
        };
        walk(&mut |delivered| {
            if delivered >= from && delivered < end {
                behind.push(delivered);
                if behind.len() == 2 * places {
                    end = sort_out(&mut behind);
                }
            }
        });
        if behind.len() > places {
            end = sort_out(&mut behind);
        }
        self.bound = end;
        behind.sort_unstable();
        behind.shrink_to_fit();
        self.window = behind.into();
    }
}
