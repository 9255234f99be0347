//! Prefetching cache lines.
//!
//! Invariant 1: a prefetch never faults, whatever the address, and changes nothing that a program can see.

/// Prefetches all lines of `bytes`.
#[inline]
pub fn prefetch_bytes(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch(line.as_ptr());
    }
}

/// Prefetches all lines of a value itself, not what it points to.
#[inline]
pub fn prefetch_object<T>(object: &T) {
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        prefetch((&raw const *object).cast::<u8>().wrapping_add(offset));
    }
}

const LINE_BYTES: usize = 64;

/// Prefetches the line at `address` into every cache level. A hint: any address is allowed, none faults.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: invariant 1.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: invariant 1.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = address;
}
