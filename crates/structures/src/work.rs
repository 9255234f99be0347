//! Counts of the work that structures do, in builds with debug assertions: tests check each operation's bounds with
//! them (see `tests/bounded_work.rs`). In other builds the calls compile to nothing.
//!
//! The one exception to the rule that this crate has no globals: a count for each thread.

/// The work since the last [`take`] by this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of keys and elements that were hashed.
    pub hashed: u64,
    /// Bytes of elements, columns and tables that were moved; without moves by the allocator.
    pub moved: u64,
    /// Buckets, pages, nodes and index entries visited.
    pub visited: u64,
}

#[cfg(debug_assertions)]
thread_local! {
    static DONE: std::cell::Cell<Work> = const { std::cell::Cell::new(Work { hashed: 0, moved: 0, visited: 0 }) };
}

#[cfg(debug_assertions)]
fn add(change: impl FnOnce(&mut Work)) {
    DONE.with(|done| {
        let mut work = done.get();
        change(&mut work);
        done.set(work);
    });
}

#[inline(always)]
pub(crate) fn hashed(bytes: usize) {
    #[cfg(debug_assertions)]
    add(|work| work.hashed += bytes as u64);
    let _ = bytes;
}

#[inline(always)]
pub(crate) fn moved(bytes: usize) {
    #[cfg(debug_assertions)]
    add(|work| work.moved += bytes as u64);
    let _ = bytes;
}

/// Counts visited elements. Code built upon structures counts its own visits here, too.
#[inline(always)]
pub fn visited(places: usize) {
    #[cfg(debug_assertions)]
    add(|work| work.visited += places as u64);
    let _ = places;
}

/// The work since the last call; zeros without debug assertions.
pub fn take() -> Work {
    #[cfg(debug_assertions)]
    return DONE.with(std::cell::Cell::take);
    #[cfg(not(debug_assertions))]
    Work::default()
}
