//! The title that `ps` shows of the process: the arguments it was started with, which lie where the kernel has put them,
//! followed by the environment. A title overwrites both, once the environment has been moved.
//!
//! Invariants:
//! 1. The kernel placed the arguments and the environment in `area`, which stays mapped and writable while the process lives,
//!    and nothing reads them any more once `make_room` has copied what is needed.
//! 2. Titles are set, and the environment is moved, by the one thread that there is then.

use super::process::threads;
use std::ffi::{CStr, OsStr, OsString, c_char};
use std::ops::Range;
use std::sync::OnceLock;

unsafe extern "C" {
    /// The C library's list of pointers to variables.
    static mut environ: *mut *mut c_char;
}

struct Place {
    /// Name by which the process was started.
    program: OsString,
    /// Addresses that may be overwritten; empty if unknown.
    area: Range<usize>,
}

static PLACE: OnceLock<Place> = OnceLock::new();

/// Finds the memory for titles and makes it as large as possible. To be called before a second thread is started.
pub fn make_room() {
    assert!(threads() <= 1, "no other thread may read the environment while it moves");
    PLACE.get_or_init(|| {
        let program = std::env::args_os().next().unwrap_or_default();
        let Some([arguments_start, arguments_end, environment_start, environment_end]) = bounds() else {
            return Place { program, area: 0..0 };
        };
        let has_environment = environment_start == arguments_end && environment_start < environment_end;
        if has_environment {
            move_environment(environment_start..environment_end);
        }
        let end = if has_environment { environment_end } else { arguments_end };
        Place { program, area: arguments_start..end }
    });
}

/// The name by which the process was started.
pub fn program() -> &'static OsStr {
    PLACE.get().map_or(OsStr::new(""), |place| &place.program)
}

/// Shows the title, truncated to the room there is.
pub fn show(title: &[u8]) {
    let Some(Place { area, .. }) = PLACE.get() else { return };
    let Some(room) = area.len().checked_sub(1) else { return };
    let kept = title.len().min(room);
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(area.start);
    // SAFETY: invariants 1 and 2: `make_room` has kept the program's name and moved the environment, and the
    // other arguments were copied when the process started. Titles are set by one thread.
    unsafe {
        std::ptr::copy_nonoverlapping(title.as_ptr(), start, kept);
        std::ptr::write_bytes(start.add(kept), 0, area.len() - kept);
    }
}

/// Bounds of the arguments and of the environment: the fields 48 to 51 of /proc/self/stat.
fn bounds() -> Option<[usize; 4]> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses that may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(45);
    let mut next = || fields.next()?.parse::<usize>().ok();
    let bounds = [next()?, next()?, next()?, next()?];
    (bounds[0] != 0 && bounds[0] < bounds[1]).then_some(bounds)
}

/// Moves the variables within `area` to leaked memory.
fn move_environment(area: Range<usize>) {
    // SAFETY: invariant 2: `environ` is null or a list of pointers to strings that ends with a null pointer; the
    // one thread that there is changes pointers of it to other strings, which are never freed.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            if area.contains(&(*entry).addr()) {
                *entry = CStr::from_ptr(*entry).to_owned().into_raw();
            }
            entry = entry.add(1);
        }
    }
}
