//! A snapshot received into a file, which then replaces the RDB file.

use super::snapshot_frame::TransferError;
use crate::sys::file::{self, FileError, failed};
use crate::sys::world::{File, Open, World};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes between two requests to the kernel to start writeback.
const WRITEBACK_BYTES: u64 = 8 << 20;

pub(super) struct ReceivedFile {
    file: File,
    path: PathBuf,
    written_bytes: u64,
    /// Bytes for which the kernel has started writeback.
    begun_bytes: u64,
}

fn temporary_path(process: u32) -> PathBuf {
    PathBuf::from(format!("temp-sync-{process}.rdb"))
}

impl ReceivedFile {
    /// Creates the temporary file.
    pub fn create(world: &World) -> Result<Self, FileError> {
        let path = world.absolute(&temporary_path(world.process_id()));
        let opening = failed("Opening the temp file needed for PRIMARY <-> REPLICA synchronization", &path);
        let file = world.open(&path, Open::Create).map_err(opening)?;
        Ok(ReceivedFile { file, path, written_bytes: 0, begun_bytes: 0 })
    }

    /// Returns the temporary file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the temporary file.
    pub fn abandon(&self, world: &World) {
        // A remaining file only takes disk space.
        let _ = world.remove(&self.path);
    }

    /// Appends bytes of the snapshot.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), TransferError> {
        let failed = failed(
            "Write error or short write writing to the DB dump file needed for PRIMARY <-> REPLICA synchronization",
            &self.path,
        );
        while !bytes.is_empty() {
            match self.file.write_some(bytes) {
                Ok(0) => return Err(TransferError::File(failed(io::ErrorKind::WriteZero.into()))),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.written_bytes += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransferError::File(failed(error))),
            }
        }
        if self.written_bytes - self.begun_bytes >= WRITEBACK_BYTES {
            self.file.start_writeback(self.begun_bytes, self.written_bytes - self.begun_bytes);
            self.begun_bytes = self.written_bytes;
        }
        Ok(())
    }

    /// Renames the snapshot over the RDB file.
    pub fn put_in_place(&self, world: &World, target: &Path) -> Result<(), FileError> {
        self.file.sync_all().map_err(failed("Failed trying to sync the temp DB to disk", &self.path))?;
        let renaming = failed("Failed trying to rename the temp DB into", target);
        world.rename(&self.path, target).map_err(renaming)?;
        file::sync_directory_of(world, target)
    }
}
