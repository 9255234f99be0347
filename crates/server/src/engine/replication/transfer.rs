//! The primary's data on its way here: received into a file, which then takes the place of the RDB file and is loaded in
//! steps, with clients answered in between.
//!
//! ```text
//! $<length>\r\n <so many bytes>                        a file of the primary's
//! $EOF:<mark of 40 bytes>\r\n <bytes> <the mark>       written while it is sent
//! ```
//!
//! 1. Until the snapshot has come whole and its beginning makes sense, the data and files here are as they were.
//! 2. `tail` is what may be the beginning of the mark; all before it is in the file.

use super::super::Executor;
use super::super::loading::RestoreError;
use super::handshake::{LINE_BYTES_MAX, line_of};
use super::link::Stage;
use crate::command::args::OwnedArgs;
use crate::observe::replication::TransferFigures;
use crate::persist::rdb::Loader;
use crate::session::BlockedOn;
use crate::session::blocked::{Arrival, Blocked};
use crate::session::{ClientHandle, TimeoutReply};
use crate::sys::file::{self, FileError, failed};
use crate::sys::world::{File, Open, World};
use memchr::memmem;
use std::io;
use std::path::{Path, PathBuf};

const MARK_BYTES: usize = 40;
/// So much is written before the kernel is asked to begin bringing it to disk.
const WRITEBACK_BYTES: u64 = 8 << 20;
/// Between two signs of life to the primary while loading.
const SIGN_PERIOD_US: u64 = 1_000_000;

/// Where the stream begins that follows the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub id: String,
    pub offset: u64,
}

/// A snapshot that was received whole and is being loaded.
pub(super) struct Snapshot {
    /// `None`: the primary has not told; nothing can be gone on with.
    pub origin: Option<Origin>,
    /// When the primary was last told that this replica lives, on the monotonic clock.
    signed_us: u64,
}

enum Extent {
    /// The line that tells has not come.
    Unknown,
    Bytes(u64),
    Mark([u8; MARK_BYTES]),
}

pub(super) struct Transfer {
    file: File,
    path: PathBuf,
    origin: Option<Origin>,
    extent: Extent,
    tail: Vec<u8>,
    written_bytes: u64,
    begun_bytes: u64,
    is_whole: bool,
}

/// What has come of taking bytes in.
enum Taken {
    /// So many of them, and more is to come.
    Some(usize),
    /// So many, and the snapshot is whole.
    Last(usize),
}

/// Why a transfer cannot go on.
enum TransferError {
    File(FileError),
    Protocol(String),
}

fn temporary_path(process: u32) -> PathBuf {
    PathBuf::from(format!("temp-sync-{process}.rdb"))
}

impl Transfer {
    pub fn begin(world: &World, origin: Option<Origin>) -> Result<Self, FileError> {
        let path = temporary_path(world.process_id());
        let opening = failed("Opening the temp file needed for PRIMARY <-> REPLICA synchronization", &path);
        let file = world.open(&path, Open::Create).map_err(opening)?;
        Ok(Transfer {
            file,
            path,
            origin,
            extent: Extent::Unknown,
            tail: Vec::new(),
            written_bytes: 0,
            begun_bytes: 0,
            is_whole: false,
        })
    }

    /// Nothing of it is to come any more.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub fn abandon(&self, world: &World) {
        // It takes room and does no other harm.
        let _ = world.remove(&self.path);
    }

    pub fn figures(&self) -> TransferFigures {
        let total_bytes = match self.extent {
            Extent::Bytes(bytes) => Some(bytes),
            Extent::Unknown | Extent::Mark(_) => None,
        };
        TransferFigures { total_bytes, read_bytes: self.written_bytes }
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<Taken, TransferError> {
        match self.extent {
            Extent::Unknown => self.read_extent(bytes),
            Extent::Bytes(total) => {
                let left = usize::try_from(total - self.written_bytes).unwrap_or(usize::MAX);
                let own = &bytes[..bytes.len().min(left)];
                self.write(own)?;
                let is_whole = self.written_bytes == total;
                Ok(if is_whole { Taken::Last(own.len()) } else { Taken::Some(own.len()) })
            }
            Extent::Mark(mark) => self.take_in_up_to(&mark, bytes),
        }
    }

    fn read_extent(&mut self, bytes: &[u8]) -> Result<Taken, TransferError> {
        let Some((line, taken)) = line_of(bytes) else {
            let is_endless = bytes.len() > LINE_BYTES_MAX;
            let error =
                || TransferError::Protocol("Bad protocol from PRIMARY: a line without end".to_owned());
            return if is_endless { Err(error()) } else { Ok(Taken::Some(0)) };
        };
        let shown = || String::from_utf8_lossy(line).into_owned();
        if let Some(mark) = line.strip_prefix(b"$EOF:").and_then(|rest| rest.first_chunk::<MARK_BYTES>()) {
            log::info!("PRIMARY <-> REPLICA sync: receiving streamed RDB from primary with EOF to disk");
            self.extent = Extent::Mark(*mark);
        } else if let Some(digits) = line.strip_prefix(b"$") {
            let bytes = wire::number::parse_i64(digits).and_then(|bytes| u64::try_from(bytes).ok());
            let bytes = bytes.filter(|&bytes| bytes > 0);
            let wrong = || TransferError::Protocol(format!("Bad bulk count from PRIMARY: '{}'", shown()));
            let bytes = bytes.ok_or_else(wrong)?;
            log::info!("PRIMARY <-> REPLICA sync: receiving {bytes} bytes from primary to disk");
            self.extent = Extent::Bytes(bytes);
        } else if line.starts_with(b"-") {
            return Err(TransferError::Protocol(format!(
                "PRIMARY aborted replication with an error: {}",
                &shown()[1..]
            )));
        } else if !line.is_empty() {
            return Err(TransferError::Protocol(format!(
                "Bad protocol from PRIMARY, the first byte is not '$' (we received '{}'), are you sure the host and port are right?",
                shown()
            )));
        }
        Ok(Taken::Some(taken))
    }

    fn take_in_up_to(&mut self, mark: &[u8; MARK_BYTES], bytes: &[u8]) -> Result<Taken, TransferError> {
        let before = self.tail.len();
        let mut all = std::mem::take(&mut self.tail);
        all.extend_from_slice(bytes);
        if let Some(end) = memmem::find(&all, mark) {
            self.write(&all[..end])?;
            return Ok(Taken::Last(end + MARK_BYTES - before));
        }
        let kept = all.len().min(MARK_BYTES - 1);
        self.write(&all[..all.len() - kept])?;
        all.drain(..all.len() - kept);
        self.tail = all;
        Ok(Taken::Some(bytes.len()))
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), TransferError> {
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

    /// Puts the snapshot into the place of the RDB file.
    fn put_in_place(&self, world: &World, target: &Path) -> Result<(), FileError> {
        self.file.sync_all().map_err(failed("Failed trying to sync the temp DB to disk", &self.path))?;
        file::rename(world, &self.path, target)
    }
}

impl Executor {
    /// Takes in bytes of the snapshot; how many.
    pub(super) fn take_in(&mut self, handle: ClientHandle, bytes: &[u8]) -> usize {
        let Some(Stage::Transfer(transfer)) = self.link.as_mut().map(|link| &mut link.stage) else {
            return 0;
        };
        match transfer.take_in(bytes) {
            Ok(Taken::Some(taken)) => taken,
            Ok(Taken::Last(taken)) => {
                transfer.is_whole = true;
                self.wait_for_loading(handle);
                taken
            }
            Err(error) => {
                match error {
                    TransferError::File(error) => log::warn!("{error}"),
                    TransferError::Protocol(text) => log::warn!("{text}"),
                }
                self.leave(handle);
                0
            }
        }
    }

    /// If a snapshot has come whole, it takes the place of the data here. Not while a script has been put aside.
    pub(crate) fn load_if_received(&mut self) {
        let now_us = self.server.now.monotonic_us;
        let Some(link) = &mut self.link else { return };
        let (Stage::Transfer(transfer), Some(handle)) = (&mut link.stage, link.client) else { return };
        if !transfer.is_whole {
            return;
        }
        let origin = transfer.origin.take();
        let snapshot = Stage::Loading(Snapshot { origin, signed_us: now_us });
        let Stage::Transfer(transfer) = std::mem::replace(&mut link.stage, snapshot) else { return };
        let (source, total_bytes) = match self.open_received(&transfer) {
            Ok(opened) => opened,
            Err(error) => {
                log::warn!("{error}");
                log::warn!(
                    "Failed trying to load the PRIMARY synchronization DB from disk, check server logs."
                );
                log::info!("PRIMARY <-> REPLICA sync: Skipping flush, no new data was loaded.");
                transfer.abandon(&self.disk.world);
                return self.desert(handle);
            }
        };
        // Before the child that writes for them is ended: another one would be begun for the next.
        self.disconnect_replicas();
        self.end_save();
        let placed = transfer.put_in_place(&self.disk.world, &self.rdb_path());
        if let Err(error) = placed {
            log::warn!("{error}");
            transfer.abandon(&self.disk.world);
            return self.leave(handle);
        }
        log::info!("PRIMARY <-> REPLICA sync: Loading DB in memory");
        self.begin_loading_snapshot(source, total_bytes);
        self.note_link();
    }

    /// The received file, if its beginning makes sense.
    fn open_received(&self, transfer: &Transfer) -> Result<(Loader<File>, u64), RestoreError> {
        let options = self.load_options(false, false);
        let missing =
            || RestoreError::Open { path: transfer.path.clone(), source: io::ErrorKind::NotFound.into() };
        self.open_rdb(&transfer.path, options)?.ok_or_else(missing)
    }

    /// Removes the data and begins to load what was received.
    fn begin_loading_snapshot(&mut self, source: Loader<File>, total_bytes: u64) {
        self.forget_history();
        if self.disk.aof.is_some() {
            self.stop_log();
        }
        self.empty_all();
        self.server.scripts.flush_functions();
        self.apply_effects(None);
        self.free_discarded();
        self.loading_begins(total_bytes);
        self.load_from(source);
    }

    /// Nobody can go on with what was here: neither this replica nor its own.
    fn forget_history(&mut self) {
        if let Some(link) = &mut self.link {
            link.continues = false;
        }
        self.disconnect_replicas();
        self.replication.remove_backlog();
    }

    /// The stream, which may come already, waits until the data is loaded.
    fn wait_for_loading(&mut self, handle: ClientHandle) {
        // By its row: its name may be another.
        let own = self.server.registry.iter().find(|(_, row)| row.name == "replicaof");
        let (command, _) = own.expect("a link is made by this command");
        let blocked = Blocked {
            on: BlockedOn::Loading,
            timeout_reply: TimeoutReply::Null,
            deadline_us: None,
            since_us: self.server.now.monotonic_us,
            command,
            args: OwnedArgs::new(std::iter::empty()),
            wants_absence: false,
            arrival: Arrival::default(),
        };
        self.server.blocked.block(&mut self.server.clients, handle, blocked);
    }

    /// Goes on with loading what the primary has sent.
    pub(crate) fn go_on_with_sync(&mut self) {
        let now_us = self.server.now.monotonic_us;
        let Some(link) = &mut self.link else { return };
        let Stage::Loading(snapshot) = &mut link.stage else { return };
        let client = link.client;
        if now_us - snapshot.signed_us >= SIGN_PERIOD_US {
            snapshot.signed_us = now_us;
            if let Some(handle) = client {
                // It is known as a sign of life from before the first acknowledgement.
                self.server.clients.push(handle, |output| output.raw(b"\n"));
            }
        }
        match self.load_step() {
            Ok(()) if self.is_loading() => {}
            Ok(()) => self.sync_ended(),
            Err(error) => {
                log::warn!("{error}");
                self.sync_failed();
            }
        }
    }

    fn sync_failed(&mut self) {
        log::warn!("Failed trying to load the PRIMARY synchronization DB from disk, check server logs.");
        log::info!("PRIMARY <-> REPLICA sync: Discarding the half-loaded data");
        self.end_loading();
        self.empty_all();
        self.server.scripts.flush_functions();
        self.apply_effects(None);
        self.free_discarded();
        match self.link.as_ref().and_then(|link| link.client) {
            Some(handle) => self.desert(handle),
            None => self.note_lost_link(),
        }
    }

    fn sync_ended(&mut self) {
        let db_index = self.disk.loaded_stream_db.take().unwrap_or(0);
        let Some(link) = &mut self.link else { return };
        let Stage::Loading(snapshot) = std::mem::replace(&mut link.stage, Stage::Connected) else { return };
        let (client, databases) = (link.client, self.db.database_count());
        link.continues = snapshot.origin.is_some();
        link.db_index = if db_index < databases { db_index } else { 0 };
        let db_index = link.db_index;
        match snapshot.origin {
            Some(origin) => self.replication.history.take_over(origin.id, origin.offset),
            None => {
                let id = self.replication.draw_id();
                self.replication.history.begin_anew(id);
            }
        }
        self.db.change_log.dirty = 0;
        self.server.clients.forget_stream();
        self.replication.create_backlog();
        log::info!("PRIMARY <-> REPLICA sync: Finished with success");
        self.restart_log(crate::command::Origin::default());
        match client {
            Some(handle) => {
                self.server.clients[handle].db_index = db_index;
                self.follow_stream(handle);
                self.server.wake(handle, |_| ());
            }
            None => self.note_lost_link(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(chunks: &[&[u8]]) -> (Vec<u8>, Option<usize>) {
        let name = format!("warmline-transfer-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let world = World::Machine;
        let file = world.open(&path, Open::Create).unwrap();
        let mut transfer = Transfer {
            file,
            path: path.clone(),
            origin: None,
            extent: Extent::Unknown,
            tail: Vec::new(),
            written_bytes: 0,
            begun_bytes: 0,
            is_whole: false,
        };
        let mut left = None;
        let mut pending = Vec::new();
        'all: for chunk in chunks {
            pending.extend_from_slice(chunk);
            while !pending.is_empty() {
                match transfer.take_in(&pending) {
                    Ok(Taken::Some(0)) => break,
                    Ok(Taken::Some(taken)) => drop(pending.drain(..taken)),
                    Ok(Taken::Last(taken)) => {
                        pending.drain(..taken);
                        left = Some(pending.len());
                        break 'all;
                    }
                    Err(_) => break 'all,
                }
            }
        }
        let written = world.read(&path).unwrap();
        world.remove(&path).unwrap();
        (written, left)
    }

    #[test]
    fn a_snapshot_ends_with_its_length_or_its_mark_however_it_is_cut() {
        let mark = "0123456789abcdefghijklmnopqrstuvwxyzABCD";
        let body = [b"body".repeat(100), mark.as_bytes()[..39].to_vec(), b"0123".to_vec()].concat();
        let by_mark = [format!("\n$EOF:{mark}\r\n").as_bytes(), &body, mark.as_bytes(), b"*1"].concat();
        let by_length = [format!("\r\n${}\r\n", body.len()).as_bytes(), &body, b"*1"].concat();
        for all in [by_mark, by_length] {
            for size in (1..=all.len()).step_by(7).chain([all.len()]) {
                let chunks: Vec<&[u8]> = all.chunks(size).collect();
                let (written, left) = received(&chunks);
                assert_eq!(written, body, "in pieces of {size}");
                assert!(left.is_some_and(|left| left <= 2), "in pieces of {size}");
            }
        }
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for wrong in ["$-1\r\n", "$0\r\n", "$x\r\n", "$EOF:short\r\n", "+OK\r\n", "-ERR no\r\n"] {
            assert_eq!(received(&[wrong.as_bytes(), b"more"]), (Vec::new(), None), "{wrong}");
        }
        assert_eq!(received(&[&[b'x'; LINE_BYTES_MAX + 1]]), (Vec::new(), None));
    }
}
