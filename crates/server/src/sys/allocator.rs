//! Figures and switches of jemalloc that have no typed interface.

use tikv_jemalloc_ctl::raw;

/// The index that stands for all arenas together.
const ALL_ARENAS: usize = 4096;

fn read<T: Copy>(name: &str) -> Option<T> {
    let name = format!("{name}\0");
    // SAFETY: the callers below name values of the type they ask for, as jemalloc's manual gives it; a name that is
    // unknown or of another size is an error and nothing is written.
    unsafe { raw::read(name.as_bytes()) }.ok()
}

/// Bytes of small size classes that sit in slabs without being in use: what defragmentation could win. As of the
/// last epoch.
pub fn small_bin_waste_bytes() -> Option<usize> {
    let bins: u32 = read("arenas.nbins")?;
    let mut waste = 0;
    for bin in 0..bins {
        let size: usize = read(&format!("arenas.bin.{bin}.size"))?;
        let regions_per_slab: u32 = read(&format!("arenas.bin.{bin}.nregs"))?;
        let regions: usize = read(&format!("stats.arenas.{ALL_ARENAS}.bins.{bin}.curregs"))?;
        let slabs: usize = read(&format!("stats.arenas.{ALL_ARENAS}.bins.{bin}.curslabs"))?;
        waste += (slabs * regions_per_slab as usize).saturating_sub(regions) * size;
    }
    Some(waste)
}

/// Bytes that the allocator has offered to the kernel and that it may still take back. As of the last epoch.
pub fn muzzy_bytes() -> Option<usize> {
    let pages: usize = read(&format!("stats.arenas.{ALL_ARENAS}.pmuzzy"))?;
    let page_bytes: usize = read("arenas.page")?;
    Some(pages * page_bytes)
}

/// Gives unused pages of all arenas back to the kernel; whether the allocator agreed.
pub fn purge() -> bool {
    let name = format!("arena.{ALL_ARENAS}.purge\0");
    // SAFETY: the name is terminated, and this control neither reads nor writes a value.
    let result = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr().cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        )
    };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_exist_in_this_build_of_the_allocator() {
        tikv_jemalloc_ctl::epoch::advance().unwrap();
        assert!(small_bin_waste_bytes().is_some());
        assert!(muzzy_bytes().is_some());
        assert!(purge());
    }
}
