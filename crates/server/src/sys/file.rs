//! Atomic replacement of files: written to a temporary file, forced to disk, renamed, and the directory forced to disk
//! too.

use super::world::{File, Open, World};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An operating system error with the operation and the file.
#[derive(Debug)]
pub struct FileError {
    /// The operation, for the error's text.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub source: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A relative path tells operators nothing: they do not know the working directory.
        let path = std::path::absolute(&self.path);
        let path = path.as_deref().unwrap_or(&self.path);
        write!(f, "{} {}: {}", self.doing, path.display(), system_text(&self.source))
    }
}

impl std::error::Error for FileError {}

/// Maps an error of the operation `doing` on `path`.
pub fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError { doing, path: path.clone(), source }
}

/// The system's text for an error, as C programs print it: without its number.
pub fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})")).unwrap_or_default();
    text.strip_suffix(&number).unwrap_or(&text).to_owned()
}

/// Permissions of data and log files, which the umask may reduce: keys, values and user names are not for every user of
/// the machine.
pub const DATA_MODE: u32 = 0o640;
/// Permissions of a directory of such files.
pub const DIRECTORY_MODE: u32 = 0o750;
/// Permissions of new files with passwords (`aclfile`, the configuration).
pub const SECRET_MODE: u32 = 0o600;

/// Opens a log file, creating it if necessary.
pub fn open_to_append(path: &Path) -> io::Result<std::fs::File> {
    std::fs::OpenOptions::new().create(true).append(true).mode(DATA_MODE).open(path)
}

const OPENING: &str = "Failed opening for writing";
/// Number of names tried for a temporary file.
const NAMES_TRIED_MAX: u32 = 100;
/// Bytes written before the kernel is asked to start writeback.
const WRITEBACK_BYTES: u64 = 4 << 20;

/// A file written back to disk continuously, so that the last fsync has little to do.
pub struct Written {
    file: File,
    bytes: u64,
    begun: u64,
    incremental: bool,
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        if self.incremental && self.bytes - self.begun >= WRITEBACK_BYTES {
            self.file.start_writeback(self.begun, self.bytes - self.begun);
            self.begun = self.bytes;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Replaces the contents of `target` by the output of `write`. On failure `target` is unchanged and `temporary` removed.
pub fn replace(
    world: &World,
    target: &Path,
    temporary: &Path,
    incremental: bool,
    write: impl FnOnce(Written) -> io::Result<Written>,
) -> Result<(), FileError> {
    let written = write_new(world, temporary, incremental, write);
    put_in_place(world, temporary, target, written)
}

/// As [`replace`], through a file beside `target` with an unused name. Permissions are kept, and a link stays a link.
pub fn replace_from_beside(world: &World, target: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let target = &world.resolved(target);
    let (temporary, file) = create_beside(world, target)?;
    world.take_permissions(&temporary, target).map_err(failed(OPENING, &temporary))?;
    let written = write_through(file, &temporary, false, |mut sink| {
        sink.write_all(bytes)?;
        Ok(sink)
    });
    put_in_place(world, &temporary, target, written)
}

/// Renames the written file, and removes it if that or the writing has failed.
fn put_in_place(
    world: &World,
    temporary: &Path,
    target: &Path,
    written: Result<(), FileError>,
) -> Result<(), FileError> {
    let result = written.and_then(|()| rename(world, temporary, target));
    if result.is_err() {
        // A failed removal has no remedy.
        let _ = world.remove(temporary);
    }
    result
}

fn create_beside(world: &World, target: &Path) -> Result<(PathBuf, File), FileError> {
    let mut attempt = 0;
    loop {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}-{attempt}", world.process_id()));
        let path = PathBuf::from(name);
        match world.open(&path, Open::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < NAMES_TRIED_MAX => {
                attempt += 1;
            }
            opened => return opened.map_err(failed(OPENING, &path)).map(|file| (path, file)),
        }
    }
}

/// Writes a file and forces it to disk.
pub fn write_new(
    world: &World,
    path: &Path,
    incremental: bool,
    write: impl FnOnce(Written) -> io::Result<Written>,
) -> Result<(), FileError> {
    let file = world.open(path, Open::Create).map_err(failed(OPENING, path))?;
    write_through(file, path, incremental, write)
}

fn write_through(
    file: File,
    path: &Path,
    incremental: bool,
    write: impl FnOnce(Written) -> io::Result<Written>,
) -> Result<(), FileError> {
    let written = write(Written { file, bytes: 0, begun: 0, incremental });
    let written = written.map_err(failed("Write error on", path))?;
    written.file.sync_all().map_err(failed("Forcing to disk", path))
}

/// Renames a file, and forces the directory to disk.
pub fn rename(world: &World, from: &Path, to: &Path) -> Result<(), FileError> {
    world.rename(from, to).map_err(failed("Error moving temp file to", to))?;
    sync_directory_of(world, to)
}

/// Forces the directory that holds `path` to disk.
pub fn sync_directory_of(world: &World, path: &Path) -> Result<(), FileError> {
    let directory = directory_of(path);
    world.sync_directory(directory).map_err(failed("Forcing to disk", directory))
}

/// Returns the directory that holds `path`.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
