//! Loading an append-only file: its base, then its commands, replayed in order.

use super::Executor;
use super::aof::log_names;
use super::call::Call;
use super::cluster::note_loaded;
use super::loading::{RestoreError, empty_all, keys_in, libraries_loaded, load_options};
use super::persistence::{Answer, Disk};
use super::{peers, slot_migration};
use crate::acl::UserHandle;
use crate::command::args::{OwnedArgs, TooLong};
use crate::command::registry::{CommandId, Registry};
use crate::command::{Next, Origin};
use crate::config::Config;
use crate::db::Db;
use crate::error::{ClientError, on_the_wire};
use crate::persist::aof::Manifest;
use crate::persist::aof::manifest::{self, Names};
use crate::persist::rdb::Loader;
use crate::server::{Loading, Server};
use crate::session::client::ConnectionFigures;
use crate::session::{BlockedOn, Client, ClientHandle};
use crate::sys::file::{self, failed};
use crate::sys::world::{File, Open, World};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, BufReader, Read};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wire::aof::{self, Item, ReadError};
use wire::reply::ReplyBuffer;
use wire::request::REQUEST_LEN_MAX;

/// Commands run between two readings of the clock.
const COMMANDS_PER_LOOK: usize = 64;
const BUFFER_BYTES: usize = 256 * 1024;
/// Limit of the discarded replies of replayed commands.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A running load of the append-only file.
pub(crate) struct LogLoading {
    client: ClientHandle,
    /// The client blocked until the load ends.
    requested_by: Option<ClientHandle>,
    /// Files not begun yet.
    paths: VecDeque<PathBuf>,
    /// The first file is the base.
    begins_with_base: bool,
    /// The current file is the base.
    in_base: bool,
    current: Option<(PathBuf, Source)>,
    /// Commands that are read and must run before more is read: a script among them may take long.
    ready: VecDeque<(CommandId, OwnedArgs)>,
    /// The open transaction, and the position where it began.
    transaction: Option<(Vec<(CommandId, OwnedArgs)>, u64)>,
    /// End of the last whole command in the current file.
    valid_up_to: u64,
    /// Total size of the files before the current one.
    passed_bytes: u64,
    /// The increment before the current file, and its size.
    previous: Option<(PathBuf, u64)>,
    opened: Option<(Manifest, File)>,
}

impl LogLoading {
    /// Returns the client blocked until the load ends.
    pub(super) fn requested_by(&self) -> Option<ClientHandle> {
        self.requested_by
    }

    /// Returns whether the current file notes the size of the previous one, and some of those bytes are missing.
    fn lacks_before(&self, note: &Item) -> bool {
        let found = self.previous.as_ref().filter(|_| self.valid_up_to == 0).map(|&(_, bytes)| bytes);
        matches!((note, found), (&Item::BytesBefore(bytes), Some(found)) if found < bytes)
    }

    /// Returns the total size of the files not begun yet.
    fn bytes_to_load(&self, disk: &Disk) -> u64 {
        self.paths.iter().map(|path| disk.bytes_of(path)).sum()
    }

    fn open_next(&mut self, disk: &Disk, server: &Server) -> Result<bool, RestoreError> {
        let Some(path) = self.paths.pop_front() else { return Ok(false) };
        let open = failed("Can't open the append-only file", &path);
        let mut file = disk.world().open(&path, Open::Read).map_err(open).map_err(RestoreError::File)?;
        let mut signature = [0; 6];
        let read = read_up_to(&mut file, &mut signature)
            .and_then(|read| file.rewind().map(|()| read))
            .map_err(failed("Reading the append-only file", &path))
            .map_err(RestoreError::File)?;
        let is_snapshot = matches!(&signature[..read], [b'R', b'E', b'D', b'I', b'S', ..] | b"VALKEY");
        let source = if is_snapshot {
            let mut options = load_options(server, false, false);
            options.keys_expected_max = keys_in(disk.bytes_of(&path));
            Source::Snapshot(Box::new(Loader::open(file, options).map_err(RestoreError::Rdb)?))
        } else {
            Source::Commands(commands_of(Box::new(file), 0))
        };
        self.in_base = std::mem::take(&mut self.begins_with_base);
        self.valid_up_to = 0;
        self.current = Some((path, source));
        Ok(true)
    }

    /// Continues with the commands after a snapshot: servers of versions 4 to 6 wrote both into one file.
    fn go_on_behind_snapshot(&mut self) {
        let Some((path, Source::Snapshot(loader))) = self.current.take() else { return };
        let position = loader.position();
        let (rest, file) = loader.into_rest();
        let source = commands_of(Box::new(io::Cursor::new(rest).chain(file)), position);
        self.valid_up_to = position;
        self.current = Some((path, Source::Commands(source)));
    }

    /// Adds a command to those to run, or to the open transaction.
    fn take_up(
        &mut self,
        registry: &Registry,
        arguments: Vec<Vec<u8>>,
        path: &Path,
    ) -> Result<(), RestoreError> {
        let refused = |reason: String| RestoreError::LogCommand { path: path.to_owned(), reason };
        let args = OwnedArgs::from_file(arguments).map_err(|TooLong { bytes }| {
            let at = self.valid_up_to;
            refused(format!(
                "the command at offset {at} has {bytes} bytes besides its longest argument; the limit is {REQUEST_LEN_MAX}"
            ))
        })?;
        let id = registry.find(args.view()).map_err(|error| refused(error.to_string()))?;
        let row = registry.row(id);
        if !row.accepts(args.view().len()) {
            return Err(refused(format!("wrong number of arguments for '{}' command", row.name)));
        }
        match (row.name, &mut self.transaction) {
            // The server that wrote it replied with an error, and the transaction continued.
            ("multi", Some(_)) => {}
            ("multi", None) => self.transaction = Some((Vec::new(), self.valid_up_to)),
            ("exec", open) => {
                self.ready.extend(open.take().unwrap_or_default().0);
            }
            (_, Some((queued, _))) => queued.push((id, args)),
            (_, None) => self.ready.push_back((id, args)),
        }
        Ok(())
    }

    /// Handles a file that ends within a command or a transaction, as after a crash: truncates it, if it is the last
    /// file and the configuration allows that.
    fn cut_off(&mut self, world: &World, config: &Config, path: &Path) -> Result<(), RestoreError> {
        if self.transaction.take().is_some() {
            log::warn!("Revert incomplete MULTI/EXEC transaction in AOF file {}", path.display());
        }
        if self.must_be_whole(world) {
            log::warn!("Fatal error: the truncated file is not the last file");
        } else if config.aof_load_truncated {
            log::warn!("!!! Warning: short read while loading the AOF file {}!!!", path.display());
            // Later files were written before this file was on disk, and follow the missing part.
            self.empty_rest(world)?;
            truncate(world, path, self.valid_up_to)?;
            log::warn!("AOF {} loaded anyway because aof-load-truncated is enabled", path.display());
            return Ok(());
        }
        Err(RestoreError::LogEnd { path: path.to_owned() })
    }

    /// Returns whether something follows the current file that is only written once it is on disk. A base is synced
    /// before anything follows it. An empty increment belongs to a rewrite that was about to begin; one with content
    /// notes the size of the previous one, if that was not on disk.
    fn must_be_whole(&self, world: &World) -> bool {
        let mut bytes_before = self.valid_up_to;
        for path in &self.paths {
            match first_item(world, path) {
                _ if self.in_base => return true,
                None => bytes_before = 0,
                Some(Item::BytesBefore(bytes)) => return bytes <= bytes_before,
                Some(_) => return true,
            }
        }
        false
    }

    /// Empties all files not begun, last one first: after an interruption, the next start finds a consistent state.
    fn empty_rest(&mut self, world: &World) -> Result<(), RestoreError> {
        let mut filled = self.paths.drain(..).rev().filter(|path| world.len_of(path).unwrap_or(0) > 0);
        filled.try_for_each(|path| truncate(world, &path, 0))
    }

    /// Handles an increment that ends at a command but lacks later ones: the files after it are left out too, if the
    /// configuration allows that.
    fn leave_out(&mut self, world: &World, config: &Config, path: &Path) -> Result<(), RestoreError> {
        let (previous, bytes) = self.previous.clone().unwrap_or_default();
        log::warn!("!!! Warning: the AOF file {} lacks its end after offset {bytes} !!!", previous.display());
        if !config.aof_load_truncated {
            return Err(RestoreError::LogEnd { path: previous });
        }
        self.empty_rest(world)?;
        truncate(world, path, 0)?;
        log::warn!("AOF {} loaded anyway because aof-load-truncated is enabled", previous.display());
        Ok(())
    }
}

enum Source {
    Snapshot(Box<Loader<File>>),
    Commands(aof::Reader<BufReader<Box<dyn Read>>>),
}

impl Executor {
    /// Begins loading the append-only file; without one, opens a new one at once.
    pub(super) fn begin_log_loading(&mut self) -> Result<(), RestoreError> {
        let names = log_names(&self.disk, &self.server);
        let directory = manifest::lock(&names).map_err(RestoreError::File)?;
        let mut manifest = Manifest::load(&names).map_err(RestoreError::Manifest)?;
        take_over_single_file(&names, &mut manifest)?;
        if manifest.is_empty() {
            return self
                .aof
                .open_log(&self.disk, &self.db, &mut self.server, manifest, directory)
                .map_err(RestoreError::File);
        }
        let mut loading = self.open_parts(&names, &manifest)?;
        loading.opened = Some((manifest, directory));
        self.loads.loading_begins(
            &mut self.server,
            &self.clock,
            Loading::InPlace,
            loading.bytes_to_load(&self.disk),
        );
        self.loads.begin_log(loading);
        Ok(())
    }

    /// Prepares reading all files that the manifest names.
    pub(super) fn open_parts(
        &mut self,
        names: &Names,
        manifest: &Manifest,
    ) -> Result<LogLoading, RestoreError> {
        let paths: VecDeque<PathBuf> = manifest.parts().map(|part| names.path(&part.name)).collect();
        if let Some(missing) = paths.iter().find(|path| !names.world.exists(path)) {
            return Err(RestoreError::LogMissing { path: missing.clone() });
        }
        let now = self.server.now;
        let connection = ConnectionFigures::default();
        let client =
            self.server.clients.add_unlisted(|id, handle| Client::new(id, handle, connection, now, true));
        // The commands were checked when they first ran.
        self.server.clients.set_user(client, UserHandle::SUPERUSER);
        self.db.importing = true;
        self.loads.begin_replay();
        Ok(LogLoading {
            client,
            requested_by: None,
            paths,
            begins_with_base: manifest.base.is_some(),
            in_base: false,
            current: None,
            ready: VecDeque::new(),
            transaction: None,
            valid_up_to: 0,
            passed_bytes: 0,
            previous: None,
            opened: None,
        })
    }

    /// Ends the replay, complete or not.
    pub(super) fn end_replay(&mut self, loading: LogLoading) -> Option<(Manifest, File)> {
        self.loads.end_replay();
        self.db.importing = self.leaves_expiry_to_source();
        self.disconnect(loading.client);
        loading.opened
    }

    /// Loads until `out_of_time` returns true; returns whether everything is loaded.
    pub(super) fn load_parts(
        &mut self,
        loading: &mut LogLoading,
        out_of_time: &mut dyn FnMut() -> bool,
    ) -> Result<bool, RestoreError> {
        loop {
            if loading.current.is_none() && !loading.open_next(&self.disk, &self.server)? {
                return Ok(true);
            }
            let Some((path, source)) = &mut loading.current else { return Ok(true) };
            let path = path.clone();
            let done = match source {
                Source::Snapshot(loader) => {
                    let done = loader.step(&mut self.db, out_of_time).map_err(RestoreError::Rdb)?;
                    self.loads
                        .note_loading_progress(&mut self.server, loading.passed_bytes + loader.position());
                    if done {
                        libraries_loaded(&mut self.server, loader)?;
                        let imports = loader.take_slot_imports();
                        slot_migration::take_up(self, imports);
                        loading.go_on_behind_snapshot();
                        continue;
                    }
                    false
                }
                Source::Commands(_) => self.replay_some(loading, &path)?,
            };
            if done {
                log::info!("DB loaded from AOF file {}", path.display());
                let bytes = self.disk.bytes_of(&path);
                loading.passed_bytes += bytes;
                loading.previous = (!loading.in_base).then_some((path, bytes));
                loading.current = None;
            }
            if out_of_time() {
                return Ok(false);
            }
        }
    }

    /// Runs some commands; returns whether the file ended.
    fn replay_some(&mut self, loading: &mut LogLoading, path: &Path) -> Result<bool, RestoreError> {
        for _ in 0..COMMANDS_PER_LOOK {
            if !self.run_ready(loading) {
                return Ok(false);
            }
            let Some((_, Source::Commands(reader))) = &mut loading.current else { return Ok(true) };
            match reader.read() {
                Ok(Item::Command(arguments)) => {
                    let position = reader.position();
                    loading.take_up(&self.server.registry, arguments, path)?;
                    if loading.transaction.is_none() {
                        loading.valid_up_to = position;
                    }
                    self.loads.note_loading_progress(&mut self.server, loading.passed_bytes + position);
                }
                Ok(note @ (Item::Timestamp(_) | Item::BytesBefore(_) | Item::Comment)) => {
                    let position = reader.position();
                    if loading.lacks_before(&note) {
                        return loading
                            .leave_out(self.disk.world(), &self.server.config, path)
                            .map(|()| true);
                    }
                    if loading.transaction.is_none() {
                        loading.valid_up_to = position;
                    }
                }
                Ok(Item::End) if loading.transaction.is_none() => return Ok(true),
                Ok(Item::End) | Err(ReadError::UnexpectedEnd) => {
                    return loading.cut_off(self.disk.world(), &self.server.config, path).map(|()| true);
                }
                Err(ReadError::Format) if is_torn_to_zeros(self.disk.world(), path, loading.valid_up_to) => {
                    return loading.cut_off(self.disk.world(), &self.server.config, path).map(|()| true);
                }
                Err(ReadError::Format) => {
                    return Err(RestoreError::LogFormat { path: path.to_owned(), at: reader.position() });
                }
                Err(ReadError::Io(source)) => {
                    return Err(RestoreError::Open { path: path.to_owned(), source });
                }
            }
        }
        Ok(false)
    }

    /// Runs the commands that have been read; `false`: a script was suspended, and later commands must wait.
    fn run_ready(&mut self, loading: &mut LogLoading) -> bool {
        while !self.is_busy() {
            let Some((id, args)) = loading.ready.pop_front() else { return true };
            self.replay_one(loading.client, id, &args);
        }
        false
    }

    fn replay_one(&mut self, client: ClientHandle, id: CommandId, args: &OwnedArgs) {
        let protocol = self.server.clients[client].output.protocol;
        let mut reply = ReplyBuffer::new(protocol);
        reply.set_limit(NonZeroUsize::new(REPLY_BYTES_MAX));
        let origin = Origin { in_transaction: true, replayed: true, ..Origin::default() };
        // Servers before version 7 propagated scripts verbatim. All other requests of replayed commands are ignored:
        // nothing blocks during a load.
        let call = Call { origin, ..Call::new(&self.server.registry, client, id, args.view()) };
        if let Next::RunScript(script) = self.call(&call, &mut reply) {
            // The event loop continues a script that was suspended.
            let _ = self.run_script(&call, *script, &mut reply);
        }
        self.free_discarded();
    }

    /// Loads all files at once, for DEBUG LOADAOF in a transaction, where nothing blocks.
    pub(super) fn reload_aof(&mut self, handle: ClientHandle) -> Answer {
        // The transaction's earlier changes are part of the files to load.
        self.end_unit(handle);
        let Some(mut loading) = self.open_log_anew()? else { return Ok(()) };
        self.loads.replay_at_once();
        let result = self.load_parts(&mut loading, &mut || false);
        self.end_replay(loading);
        note_loaded(self);
        log_reloaded(&mut self.db, result.map(|_| ()))
    }

    /// Begins loading all files for DEBUG LOADAOF. Returns whether there are any, so that the client blocks.
    pub(super) fn begin_reloading_aof(&mut self, handle: ClientHandle) -> Result<bool, ClientError> {
        let Some(loading) = self.open_log_anew()? else { return Ok(false) };
        self.loads.loading_begins(
            &mut self.server,
            &self.clock,
            Loading::InPlace,
            loading.bytes_to_load(&self.disk),
        );
        self.loads.begin_log(LogLoading { requested_by: Some(handle), ..loading });
        Ok(true)
    }

    /// Removes all data, to be replaced by the files; `None`: there are no files.
    fn open_log_anew(&mut self) -> Result<Option<LogLoading>, ClientError> {
        if self.aof.log_waits_for_rewrite() {
            // The existing files are loaded; the first base must contain them, not the current data.
            self.aof.begin_first_rewrite_anew(&mut self.disk, &mut self.server);
        }
        if let Some(appender) = self.aof.appender()
            && let Err(error) = appender.write()
        {
            log::warn!("Error writing to the AOF file: {error}");
            return Err(RELOAD_FAILED);
        }
        empty_all(&mut self.db, false);
        slot_migration::data_is_replaced(self, "A new RDB is being loaded");
        self.server.scripts.flush_functions();
        let names = log_names(&self.disk, &self.server);
        let opened = Manifest::load(&names).map_err(RestoreError::Manifest).and_then(|manifest| {
            if manifest.is_empty() { Ok(None) } else { self.open_parts(&names, &manifest).map(Some) }
        });
        opened.map_err(reload_failed)
    }

    /// Continues a DEBUG LOADAOF.
    pub(super) fn go_on_reloading(&mut self) {
        if self.loads.is_reloading() {
            let result = self.load_step();
            assert!(result.is_ok(), "errors are reported to the client");
        }
    }

    /// Replies to the requesting client, if it is still connected.
    pub(super) fn end_reloading(&mut self, handle: ClientHandle, result: Result<(), RestoreError>) {
        let answer = log_reloaded(&mut self.db, result);
        self.apply_effects(None);
        note_loaded(self);
        let waits =
            |client: &Client| client.blocked.as_ref().is_some_and(|blocked| blocked.on == BlockedOn::Loading);
        if self.server.clients.get(handle).is_some_and(waits) {
            self.server.wake(handle, |reply| match &answer {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(on_the_wire(&error.to_string())),
            });
        }
        peers::resume(self);
        self.serve_ready();
    }
}

const RELOAD_FAILED: ClientError =
    ClientError::text("ERR Error trying to load the AOF files, check server logs.");

fn reload_failed(error: RestoreError) -> ClientError {
    log::warn!("{error}");
    RELOAD_FAILED
}

fn commands_of(source: Box<dyn Read>, position: u64) -> aof::Reader<BufReader<Box<dyn Read>>> {
    aof::Reader::new(BufReader::with_capacity(BUFFER_BYTES, source), position)
}

/// Returns where the zeros at a file's end begin, and the file's length.
fn zeros_at_end(mut file: File) -> io::Result<(u64, u64)> {
    let (mut zeros_from, mut end) = (0, 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = read_up_to(&mut file, &mut buffer)?;
        if let Some(last) = buffer[..read].iter().rposition(|&byte| byte != 0) {
            zeros_from = end + last as u64 + 1;
        }
        end += read as u64;
        if read < buffer.len() {
            return Ok((zeros_from, end));
        }
    }
}

/// Reads until `buffer` is full or the file ends; returns the number of bytes.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..])? {
            0 => break,
            n => len += n,
        }
    }
    Ok(len)
}

/// Converts the single file of servers before version 7, kept beside the RDB file: it becomes the base.
fn take_over_single_file(names: &Names, manifest: &mut Manifest) -> Result<(), RestoreError> {
    let single = Path::new(OsStr::from_bytes(&names.file));
    // The manifest is written before the move: a crash in between leaves it naming a file that has yet to be moved.
    let interrupted = manifest.increments.is_empty()
        && manifest.base.as_ref().is_some_and(|base| base.name == names.file)
        && !names.world.exists(&names.path(&names.file));
    if !names.world.exists(single) || !(manifest.is_empty() || interrupted) {
        return Ok(());
    }
    manifest.base = Some(crate::persist::aof::manifest::Part { name: names.file.clone(), sequence: 1 });
    manifest.base_sequence = 1;
    let target = names.path(&names.file);
    manifest
        .persist(names)
        .and_then(|()| file::rename(&names.world, single, &target))
        .map_err(RestoreError::File)?;
    log::info!(
        "Successfully migrated an old-style AOF file ({}) into the AOF directory ({}).",
        single.display(),
        names.directory.display()
    );
    Ok(())
}

/// Returns the first item of a file; `None`: no whole item.
fn first_item(world: &World, path: &Path) -> Option<Item> {
    let Ok(file) = world.open(path, Open::Read) else { return Some(Item::Comment) };
    match aof::Reader::new(BufReader::new(file), 0).read() {
        Ok(Item::End) | Err(ReadError::UnexpectedEnd) => None,
        Err(ReadError::Format) if is_torn_to_zeros(world, path, 0) => None,
        Ok(item) => Some(item),
        // The file must not count as empty.
        Err(ReadError::Format | ReadError::Io(_)) => Some(Item::Comment),
    }
}

fn truncate(world: &World, path: &Path, at: u64) -> Result<(), RestoreError> {
    log::warn!("!!! Truncating the AOF {} at offset {at} !!!", path.display());
    let cut = world.open(path, Open::Cut).and_then(|file| file.set_len(at));
    cut.map_err(failed("Error truncating the AOF file", path)).map_err(RestoreError::File)
}

/// Returns whether the file has an incomplete item from there on, followed by zeros to the end. After a power
/// failure a file may have its new length but not yet its content.
fn is_torn_to_zeros(world: &World, path: &Path, from: u64) -> bool {
    let open = || world.open(path, Open::Read);
    let (zeros_from, end) = match open().and_then(zeros_at_end) {
        Ok(found) => found,
        Err(_) => return false,
    };
    let Ok(file) = open() else { return false };
    if zeros_from == end || zeros_from < from {
        return zeros_from < end;
    }
    let mut whole = BufReader::with_capacity(BUFFER_BYTES, file.take(zeros_from));
    if io::copy(&mut whole.by_ref().take(from), &mut io::sink()).is_err() {
        return false;
    }
    let mut reader = aof::Reader::new(whole, from);
    loop {
        match reader.read() {
            Ok(Item::End) | Err(ReadError::UnexpectedEnd) => return true,
            Ok(_) => {}
            Err(ReadError::Format | ReadError::Io(_)) => return false,
        }
    }
}

fn log_reloaded(db: &mut Db, result: Result<(), RestoreError>) -> Answer {
    db.change_log.flushed(None);
    result.map_err(reload_failed)?;
    db.change_log.dirty = 0;
    log::info!("Append Only File loaded by DEBUG LOADAOF");
    Ok(())
}
