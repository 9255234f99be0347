//! Memory of a Lua state: counted, and limited while scripts run.

use std::ffi::c_void;

pub(super) struct Memory {
    /// Bytes allocated by Lua.
    pub used_bytes: usize,
    bytes_max: usize,
    /// A script runs: it gets at most `bytes_max`, and beyond that an error of its own. Native code is not limited,
    /// because a jump out of it is not possible.
    pub limited: bool,
}

impl Memory {
    /// Whether more than the scripts' limit is used, which only native code can do.
    pub fn is_overdrawn(&self) -> bool {
        self.used_bytes > self.bytes_max
    }

    /// Returns whether the remaining memory may not suffice for the next script.
    pub fn is_nearly_full(&self) -> bool {
        self.used_bytes > self.bytes_max / 4
    }

    /// No bytes in use.
    pub fn new(bytes_max: usize) -> Self {
        Memory { used_bytes: 0, bytes_max, limited: false }
    }
}

/// Lua's allocator: `new_len` of 0 frees, any other allocates, grows or shrinks.
pub(super) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    old_len: usize,
    new_len: usize,
) -> *mut c_void {
    let memory: *mut Memory = memory.cast();
    // SAFETY: invariant 5 of `lua`: Lua passes what the state was made with, a Memory at the beginning of its
    // Shared, and blocks with the lengths that it got them with; `realloc` and `free` take what they gave.
    unsafe {
        if new_len == 0 {
            (*memory).used_bytes -= old_len;
            tikv_jemalloc_sys::free(block);
            return std::ptr::null_mut();
        }
        let grows = new_len > old_len;
        let used_bytes = (*memory).used_bytes - old_len + new_len;
        if grows && (*memory).limited && used_bytes > (*memory).bytes_max {
            return std::ptr::null_mut();
        }
        let block = tikv_jemalloc_sys::realloc(block, new_len);
        if !block.is_null() {
            (*memory).used_bytes = used_bytes;
        }
        block
    }
}
