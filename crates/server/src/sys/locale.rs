//! The machine's locales.

use std::ffi::CString;
use std::ptr;

/// Returns whether the machine has a locale of this name for the order of text. It is not put in force.
pub fn is_known(name: &[u8]) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: invariant 2 of `sys`: the name ends in a zero byte; a null base asks for a new locale.
    let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), ptr::null_mut()) };
    if locale.is_null() {
        return false;
    }
    // SAFETY: invariant 2 of `sys`: the locale was made above, and no thread uses it.
    unsafe { libc::freelocale(locale) };
    true
}
