//! Work that structures do, counted where debug assertions are on: tests hold each operation to its bound by it (see
//! `tests/bounded_work.rs`). Elsewhere nothing is counted and nothing is left of the calls.
//!
//! The one exception to the rule that this crate keeps nothing globally: a count of the present thread.

/// What has been done since the last [`take`] by this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that went through the hash of keys and elements.
    pub hashed: u64,
    /// Bytes of elements, columns and tables moved to another place; what an allocator moves is left out.
    pub moved: u64,
    /// Buckets, pages, nodes and index entries looked at.
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

/// What has been done since the last call; nothing without debug assertions.
pub fn take() -> Work {
    #[cfg(debug_assertions)]
    return DONE.with(std::cell::Cell::take);
    #[cfg(not(debug_assertions))]
    Work::default()
}
