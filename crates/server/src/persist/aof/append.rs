//! Appends commands to the last increment.

use super::fsync::{Fsyncer, Wake};
use crate::sys::world::{File, World};
use std::io;
use std::sync::Arc;
use wire::aof::{write_bytes_before, write_command, write_timestamp};
use wire::convert::signed_len;
use wire::number::i64_text;

/// An open increment, and the commands not written to it yet.
pub struct Appender {
    file: Arc<File>,
    /// Bytes of complete commands in the file.
    file_bytes: u64,
    buffer: Vec<u8>,
    /// Bytes appended since the process started, without those in the buffer.
    appended: u64,
    synced: u64,
    /// Database of the last command; `None` makes the next command select its own.
    selected: Option<usize>,
    noted_s: i64,
    fsyncer: Fsyncer,
    /// The previous file is being forced to disk.
    switching: bool,
}

/// Capacity kept of an empty buffer.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

impl Appender {
    /// Appends to a file of `file_bytes` bytes. `wake` is called in another thread when a background sync has ended.
    pub fn new(world: &World, file: File, file_bytes: u64, wake: Option<Wake>) -> io::Result<Self> {
        Ok(Appender {
            file: Arc::new(file),
            file_bytes,
            buffer: Vec::new(),
            appended: 0,
            synced: 0,
            selected: None,
            noted_s: 0,
            fsyncer: Fsyncer::start(world, wake)?,
            switching: false,
        })
    }

    /// Continues in another file, which is empty. The buffer must have been written.
    pub fn switch(&mut self, file: File) {
        assert!(self.buffer.is_empty(), "the buffer is written before the file is switched");
        // The old file's last bytes are forced to disk too, whatever the policy. Until then a crash may leave a gap,
        // which the next start detects by the noted length of the old file.
        if self.synced() < self.appended {
            self.fsyncer.sync(&self.file, self.appended);
            self.switching = true;
            let noted = write_bytes_before(&mut self.buffer, self.file_bytes);
            noted.expect("memory takes all that is written");
        }
        self.file = Arc::new(file);
        self.file_bytes = 0;
        self.selected = None;
    }

    /// Bytes of complete commands in the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes in the buffer.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Memory of the buffer in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes appended in all, including the buffered ones.
    pub fn end(&self) -> u64 {
        self.appended + self.buffer.len() as u64
    }

    /// Position up to which everything is on disk, on the scale of [`Appender::end`].
    pub fn synced(&self) -> u64 {
        self.synced.max(self.fsyncer.synced())
    }

    /// Adds complete encoded commands for one database to the buffer.
    pub fn add(&mut self, db_index: usize, timestamp_s: Option<i64>, commands: &[u8]) {
        self.note_time(timestamp_s);
        if self.selected != Some(db_index) {
            self.selected = Some(db_index);
            let select = [&b"SELECT"[..], &i64_text(signed_len(db_index))];
            write_command(&mut self.buffer, select.into_iter()).expect("memory takes all that is written");
        }
        self.buffer.extend_from_slice(commands);
    }

    /// Adds an encoded MULTI or EXEC, which have no database.
    pub fn add_bracket(&mut self, timestamp_s: Option<i64>, command: &[u8]) {
        self.note_time(timestamp_s);
        self.buffer.extend_from_slice(command);
    }

    #[inline]
    fn note_time(&mut self, timestamp_s: Option<i64>) {
        if let Some(unix_s) = timestamp_s.filter(|&unix_s| unix_s > self.noted_s) {
            self.noted_s = unix_s;
            write_timestamp(&mut self.buffer, unix_s).expect("memory takes all that is written");
        }
    }

    /// Writes the buffer to the file. After an error the file ends where it did before, and the buffer is kept.
    pub fn write(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut written = 0;
        while written < self.buffer.len() {
            match self.file.write_some(&self.buffer[written..]) {
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.take_back(written);
                    return Err(error);
                }
            }
        }
        self.note_written(written);
        Ok(())
    }

    /// Truncates a partial write, or if that fails counts it as written.
    fn take_back(&mut self, written: usize) {
        if written == 0 {
            return;
        }
        if let Err(error) = self.file.set_len(self.file_bytes) {
            log::warn!("Could not remove short write from the append-only file: {error}");
            self.note_written(written);
        }
    }

    fn note_written(&mut self, written: usize) {
        self.file_bytes += written as u64;
        self.appended += written as u64;
        self.buffer.drain(..written);
        if self.buffer.is_empty() {
            self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        }
    }

    /// Forces the written bytes to disk now, including the previous file if its sync is still under way. Reports an error
    /// that occurred in the background since the last [`Appender::take_sync_failure`]: the kernel reports each once.
    pub fn sync(&mut self) -> io::Result<()> {
        self.finish_syncing();
        if self.synced() < self.appended {
            self.file.sync_data()?;
            self.synced = self.appended;
        }
        if self.take_sync_failure() {
            return Err(io::Error::other(self.background_error().unwrap_or_default()));
        }
        Ok(())
    }

    /// Starts forcing the written bytes to disk in the background, if there are any and no sync is under way; returns whether
    /// it has started.
    pub fn sync_in_background(&mut self) -> bool {
        let starts = self.synced() < self.appended && !self.fsyncer.is_pending();
        if starts {
            self.fsyncer.sync(&self.file, self.appended);
        }
        starts
    }

    /// Whether an fsync is under way.
    pub fn is_syncing(&mut self) -> bool {
        let is_pending = self.fsyncer.is_pending();
        self.switching &= is_pending;
        is_pending
    }

    /// As [`Appender::is_syncing`], without a look at a simulated thread.
    pub fn has_pending_sync(&self) -> bool {
        self.fsyncer.has_pending()
    }

    /// Whether an fsync of this file is under way: the kernel may delay writes to it until then.
    pub fn is_file_syncing(&mut self) -> bool {
        self.is_syncing() && !self.switching
    }

    /// Whether the end of the previous file may not be on disk.
    pub fn is_switching(&mut self) -> bool {
        self.switching && self.is_syncing()
    }

    /// Error of the last background fsync, if it failed.
    pub fn background_error(&self) -> Option<String> {
        self.fsyncer.error()
    }

    /// Waits until no background fsync is under way.
    fn finish_syncing(&mut self) {
        while self.is_syncing() {
            self.fsyncer.let_work();
        }
    }

    /// Clears the error: the data that could not be forced to disk is in another file.
    pub fn forget_sync_error(&mut self) {
        self.fsyncer.forget_error();
    }

    /// Whether an fsync has failed since the last call.
    pub fn take_sync_failure(&mut self) -> bool {
        self.fsyncer.take_failure()
    }
}
