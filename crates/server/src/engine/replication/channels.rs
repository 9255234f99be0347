//! The replica's side of a full sync over two connections (protocol: see `rdb_channel`): the link's own connection is the
//! main channel, and a second one is opened for the snapshot.
//!
//! ```text
//!  stage of the link     rdb channel                       main channel
//!  OpensRdbChannel       connects, introduces itself, SYNC Idle
//!  Transfer              the snapshot                      Handshake -> Buffers -> Full
//!  Loading               may end                           the same
//!  Connected             closed                            the buffered stream is applied, then new input
//! ```
//!
//! 1. The link's `channels` exist from the primary's offer until the snapshot is loaded or the sync is abandoned.
//! 2. Until then the stream is buffered here, up to the hard limit of `client-output-buffer-limit replica`: beyond that
//!    the primary buffers it, and closes a replica that is too far behind.
//! 3. While buffered bytes remain, the primary's connection is not read: the stream stays in order.
//!
//! The buffered stream is in the blocks of a [`SharedLog`], not in the connection's own buffer: that is contiguous,
//! copied when it grows and moved at each command that is taken from its front.

use super::super::Executor;
use super::handshake::{Event, Handshake, id_of};
use super::link::{Stage, Upstream, connect_client_to, primary_target};
use super::transfer::Origin;
use crate::db::Garbage;
use crate::engine::reclaim::Reclaimer;
use crate::server::Server;
use crate::session::ClientHandle;
use structures::shared_log::SharedLog;

/// Maximum number of buffered bytes applied in one turn of the loop.
const PASSED_BYTES: usize = 256 << 10;
/// A buffer larger than this is freed in the background.
const FREED_AT_ONCE_BYTES: u64 = 1 << 20;

/// The two connections of a sync.
pub(super) struct Channels {
    /// The rdb channel; `None` once it has closed after the whole snapshot.
    pub rdb: Option<ClientHandle>,
    /// State of the main channel.
    pub main: Main,
}

/// State of the main channel.
pub(super) enum Main {
    /// Idle until the snapshot's offset is known.
    Idle,
    Handshake(Handshake),
    /// The stream is received and buffered.
    Buffers,
    /// The buffer has reached its limit.
    Full,
}

/// The received part of the stream, not applied yet.
pub(super) struct KeptStream {
    log: SharedLog,
    passed: u64,
}

impl KeptStream {
    fn new() -> Self {
        KeptStream { log: SharedLog::new(0), passed: 0 }
    }

    /// Returns the number of buffered bytes.
    pub fn len(&self) -> u64 {
        self.log.end() - self.passed
    }

    /// Returns the memory of the buffer.
    pub fn memory_bytes(&self) -> usize {
        self.log.memory_bytes()
    }

    /// Moves up to `bytes_max` bytes to the input that will be applied.
    fn pass(&mut self, bytes_max: usize, to: &mut Vec<u8>) {
        let mut left = bytes_max;
        for slice in self.log.slices(self.passed) {
            let taken = slice.len().min(left);
            to.extend_from_slice(&slice[..taken]);
            (self.passed, left) = (self.passed + taken as u64, left - taken);
            if left == 0 {
                break;
            }
        }
        self.log.trim_to(self.passed);
    }
}

/// The primary's `$ENDOFF` line, which precedes a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Promise {
    /// Position of the stream after the snapshot.
    pub origin: Origin,
    /// The id by which the main channel names the rdb channel.
    pub client_id: u64,
}

/// Parses `$ENDOFF:<offset> <id> <db> <client id>`; the database is in the snapshot too.
pub(super) fn promise_of(line: &[u8]) -> Option<Promise> {
    let words: Vec<&[u8]> = line.strip_prefix(b"$ENDOFF:")?.split(|&byte| byte == b' ').collect();
    let [offset, id, db, client_id] = words[..] else { return None };
    let number = |word| wire::number::parse_i64(word).and_then(|number| u64::try_from(number).ok());
    wire::number::parse_i64(db)?;
    let origin = Origin { id: id_of(id)?, offset: number(offset)? };
    Some(Promise { origin, client_id: number(client_id)? })
}

impl Upstream {
    /// Opens the second connection, which the primary has offered.
    pub(super) fn open_rdb_channel(&mut self, server: &mut Server) {
        log::info!("Dual channel replication: PSYNC is not possible, initialize RDB channel.");
        let Some(target) = primary_target(&server.config) else { return };
        let client = connect_client_to(server, target);
        if let Some(link) = &mut self.link {
            link.stage = Stage::OpensRdbChannel(Handshake::of_rdb_channel());
            link.channels = Some(Box::new(Channels { rdb: Some(client), main: Main::Idle }));
            link.note_input(server.now.monotonic_us);
        }
        self.note_link(server);
    }

    /// Returns whether a sync over two connections is running.
    pub(super) fn has_channels(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.channels.is_some())
    }

    pub(super) fn is_rdb_channel(&self, handle: ClientHandle) -> bool {
        let channels = self.link.as_ref().and_then(|link| link.channels.as_ref());
        channels.is_some_and(|channels| channels.rdb == Some(handle))
    }

    /// Begins to buffer the stream, which follows over the main channel.
    pub(super) fn keep_stream(&mut self, server: &mut Server) {
        let Some(link) = &mut self.link else { return };
        if let Some(channels) = &mut link.channels {
            channels.main = Main::Buffers;
        }
        link.kept = Some(KeptStream::new());
        server.observed.replication.kept_peak_bytes = 0;
        self.note_link(server);
    }

    /// Buffers the main channel's bytes until the snapshot is loaded; returns the number taken, `None` if they belong to
    /// the handshake.
    pub(super) fn keep_bytes(&mut self, server: &mut Server, bytes: &[u8]) -> Option<usize> {
        let limit_bytes = server.config.client_output_buffer_limit.replica.hard_bytes;
        let Some(link) = &mut self.link else { return Some(0) };
        let Some(channels) = &mut link.channels else { return Some(0) };
        match (&channels.main, &mut link.kept) {
            (Main::Idle | Main::Handshake(_), _) => None,
            (Main::Buffers, Some(kept)) => {
                kept.log.append(bytes);
                server.observed.replication.kept_peak_bytes =
                    kept.len().max(server.observed.replication.kept_peak_bytes);
                if limit_bytes > 0 && kept.len() > limit_bytes {
                    channels.main = Main::Full;
                    log::info!(
                        "Dual channel replication: Replication buffer limit reached ({limit_bytes} bytes), stopping buffering. Further accumulation will occur on primary side."
                    );
                }
                Some(bytes.len())
            }
            (Main::Buffers | Main::Full, _) => Some(0),
        }
    }

    /// Returns whether reading of this connection is suspended.
    #[inline]
    pub fn leaves_unread(&self, server: &Server, handle: ClientHandle) -> bool {
        server.clients[handle].is_primary && self.link_leaves_unread(handle)
    }

    #[cold]
    fn link_leaves_unread(&self, handle: ClientHandle) -> bool {
        self.link.as_ref().filter(|link| link.is_of(handle)).is_some_and(|link| match &link.channels {
            Some(channels) => matches!(channels.main, Main::Full),
            None => link.kept.is_some(),
        })
    }

    /// Ends the two-connection sync after the snapshot is loaded; the main channel continues with the stream.
    pub(super) fn end_channels(&mut self, server: &mut Server) -> Option<Main> {
        let channels = self.link.as_mut()?.channels.take()?;
        if let Some(rdb) = channels.rdb {
            server.close_asap(rdb);
        }
        Some(channels.main)
    }

    /// Abandons a sync over two connections, and the buffered stream.
    pub(super) fn abandon_channels(&mut self, server: &mut Server, reclaimer: &Reclaimer) {
        let Some(link) = &mut self.link else { return };
        if let Some(kept) = link.kept.take_if(|kept| kept.len() > FREED_AT_ONCE_BYTES) {
            reclaimer.free(Garbage::Stream(kept.log));
        }
        link.kept = None;
        if let Some(channels) = link.channels.take() {
            log::info!("Dual channel replication: Aborting dual channel sync");
            for handle in [link.client.take(), channels.rdb].into_iter().flatten() {
                server.close_asap(handle);
            }
        }
    }

    /// Returns whether stream bytes buffered during the load remain and may be applied.
    #[inline]
    fn has_kept_stream(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.kept.is_some() && link.channels.is_none())
    }

    /// Returns the memory of the buffered stream.
    pub(in crate::engine) fn kept_stream_bytes(&self) -> usize {
        let kept = self.link.as_ref().and_then(|link| link.kept.as_ref());
        kept.map_or(0, KeptStream::memory_bytes)
    }

    /// Applies more of the buffered stream.
    pub(in crate::engine) fn go_on_with_kept_stream(&self, server: &mut Server) {
        if self.has_kept_stream() {
            self.resume_primary(server);
        }
    }

    /// Moves a part of the buffered bytes to the input, before newly read bytes.
    pub fn pass_kept_stream(&mut self, server: &mut Server, input: &mut Vec<u8>) {
        let Some(link) = &mut self.link else { return };
        let Some(kept) = &mut link.kept else { return };
        kept.pass(PASSED_BYTES, input);
        if kept.len() == 0 {
            link.kept = None;
            log::info!("Dual channel replication: Successfully streamed replication data into memory");
        }
        link.note_input(server.now.monotonic_us);
        self.note_link(server);
    }
}

impl Executor {
    /// Handles the `$ENDOFF` line: the snapshot follows over the rdb channel, and the main channel requests the stream from the
    /// snapshot's offset on.
    pub(super) fn take_promise(&mut self, handle: ClientHandle, promise: Promise) {
        let Some(main) = self.replication.upstream.link_client() else { return };
        self.begin_transfer(handle, Some(promise.origin.clone()));
        let Some(link) = self.replication.upstream.link.as_mut().filter(|link| link.is_of(main)) else {
            return;
        };
        let Some(channels) = &mut link.channels else { return };
        channels.main = Main::Handshake(Handshake::of_main_channel(promise));
        self.go_on_with_handshake(main, Event::Established);
    }

    pub(in crate::engine) fn may_pass_kept_stream(&self) -> bool {
        let client =
            self.replication.upstream.link_client().filter(|_| self.replication.upstream.has_kept_stream());
        client.is_some_and(|handle| self.accepts_requests(handle))
    }

    /// Returns whether this client is the primary with buffered bytes that may be applied.
    pub fn has_kept_stream_for(&self, handle: ClientHandle) -> bool {
        self.may_pass_kept_stream() && self.replication.upstream.link_client() == Some(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn only_whole_promises_are_believed() {
        let promise = |text: String| promise_of(text.as_bytes());
        let origin = Origin { id: ID.to_owned(), offset: 7 };
        assert_eq!(
            promise(format!("$ENDOFF:7 {ID} -1 4711")),
            Some(Promise { origin: origin.clone(), client_id: 4711 })
        );
        assert_eq!(promise(format!("$ENDOFF:7 {ID} 3 0")), Some(Promise { origin, client_id: 0 }));
        for wrong in [
            String::new(),
            "$ENDOFF:".to_owned(),
            format!("$ENDOFF:7 {ID} 0"),
            format!("$ENDOFF:7 {ID} 0 1 2"),
            format!("$ENDOFF:-7 {ID} 0 1"),
            format!("$ENDOFF:7 {ID} x 1"),
            format!("$ENDOFF:7 {ID} 0 -1"),
            format!("$ENDOFF:7 {} 0 1", &ID[1..]),
            format!("$ENDOFF:9223372036854775808 {ID} 0 1"),
            format!("ENDOFF:7 {ID} 0 1"),
        ] {
            assert_eq!(promise(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_kept_comes_out_as_it_went_in_and_is_given_back() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
        let (mut kept, mut passed) = (KeptStream::new(), Vec::new());
        for chunk in bytes.chunks(777) {
            kept.log.append(chunk);
        }
        assert_eq!(kept.len(), 1_000_000);
        while kept.len() > 0 {
            kept.pass(100_001, &mut passed);
            assert!(kept.memory_bytes() < kept.len() as usize + 100_000);
        }
        assert_eq!(passed, bytes);
    }
}
