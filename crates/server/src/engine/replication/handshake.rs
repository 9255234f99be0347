//! The handshake between a replica and its primary: the replica's identity, its capabilities, and the offset from which
//! it needs the stream.
//!
//! Replies are lines. The primary answers in order; empty lines keep the connection alive.

use super::super::Executor;
use super::channels::{Channels, Main};
use super::link::Stage;
use super::transfer::{Origin, Transfer};
use crate::commands::info::VALKEY_VERSION;
use crate::observe::supervisor;
use crate::session::ClientHandle;
use std::collections::VecDeque;
use wire::aof::write_command;

/// Maximum length of a primary's line.
pub(super) const LINE_BYTES_MAX: usize = 1024;
/// The reply to PSYNC that offers a full sync over a second connection.
const DUAL_CHANNEL: &[u8] = b"+DUALCHANNELSYNC";
/// Length of an id in +FULLRESYNC and +CONTINUE.
const ID_BYTES: usize = super::history::ID_LEN;

/// The request that the next reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Ping,
    Auth,
    /// An optional request: its refusal changes nothing.
    Option(&'static str),
    /// A request that a sync over two connections requires.
    Channel,
    /// The snapshot, over the second connection.
    Promise,
    Psync,
}

#[derive(Debug, Default)]
pub(super) struct Handshake {
    pub asked: VecDeque<Asked>,
    /// Stream position after a snapshot that comes over another connection.
    pub promised: Option<Origin>,
}

impl Handshake {
    /// Creates a handshake that awaits one reply.
    pub fn asking(asked: Asked) -> Self {
        Handshake { asked: [asked].into(), promised: None }
    }
}

/// Returns the first line without its end, and the number of bytes it takes.
pub(super) fn line_of(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn shown(line: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(line)
}

impl Executor {
    pub(super) fn begin_handshake(&mut self, handle: ClientHandle) {
        self.expect(Handshake::asking(Asked::Ping));
        self.tell_primary(handle, &[b"PING"]);
    }

    pub(super) fn expect(&mut self, handshake: Handshake) {
        if let Some(link) = &mut self.link {
            link.stage = Stage::Handshake(handshake);
        }
        self.note_link();
    }

    pub(super) fn tell_primary(&mut self, handle: ClientHandle, words: &[&[u8]]) {
        let mut command = Vec::new();
        write_command(&mut command, words.iter().copied()).expect("writing to memory cannot fail");
        self.server.clients.push(handle, |output| output.raw(&command));
    }

    /// Handles a line, if it is complete; returns the number of bytes taken.
    pub(super) fn hear(&mut self, handle: ClientHandle, bytes: &[u8]) -> usize {
        let Some((line, taken)) = line_of(bytes) else {
            if bytes.len() > LINE_BYTES_MAX {
                log::warn!("Bad protocol from PRIMARY: a line without end");
                self.leave(handle);
            }
            return 0;
        };
        let handshake = self.handshake_of(handle).filter(|_| !line.is_empty());
        match handshake.and_then(|handshake| handshake.asked.pop_front()) {
            None => {}
            Some(Asked::Ping) => self.hear_pong(handle, line),
            Some(Asked::Auth) if line.starts_with(b"-") => {
                log::warn!("Unable to AUTH to PRIMARY: {}", shown(line));
                self.leave(handle);
            }
            Some(Asked::Option(name)) if line.starts_with(b"-") => {
                log::info!("(Non critical) Primary does not understand REPLCONF {name}: {}", shown(line));
            }
            Some(Asked::Channel) if line.starts_with(b"-") => {
                log::warn!(
                    "Dual channel replication: Primary refuses a sync over two connections: {}",
                    shown(line)
                );
                self.leave(handle);
            }
            Some(Asked::Promise) => self.hear_promise(handle, line),
            Some(Asked::Psync) if self.has_channels() => self.hear_main_channel(handle, line),
            Some(Asked::Psync) => self.hear_psync(handle, line),
            Some(Asked::Auth | Asked::Option(_) | Asked::Channel) => {}
        }
        self.go_on_asking(handle);
        taken
    }

    /// Sends the main request once all earlier ones are answered: a primary refuses to sync while replies are pending.
    fn go_on_asking(&mut self, handle: ClientHandle) {
        let Some(handshake) = self.handshake_of(handle).filter(|handshake| handshake.asked.is_empty()) else {
            return;
        };
        let promised = handshake.promised.clone();
        if self.is_rdb_channel(handle) {
            return self.ask_for_snapshot(handle);
        }
        if promised.is_some() {
            self.pause_after_fork_if_wanted();
        }
        let psync = match &promised {
            Some(origin) if self.has_channels() => {
                let next = origin.offset + 1;
                log::info!(
                    "Dual channel replication: Trying a partial resynchronization using main channel (request {}:{next}).",
                    origin.id
                );
                vec![b"PSYNC".to_vec(), origin.id.clone().into_bytes(), next.to_string().into_bytes()]
            }
            _ => self.psync(),
        };
        self.tell_primary_words(handle, &psync);
        if let Some(handshake) = self.handshake_of(handle) {
            *handshake = Handshake { promised, ..Handshake::asking(Asked::Psync) };
        }
    }

    /// Returns the handshake of this connection, if it belongs to the link and is in that stage.
    pub(super) fn handshake_of(&mut self, handle: ClientHandle) -> Option<&mut Handshake> {
        let link = self.link.as_mut()?;
        let is_main = link.is_of(handle);
        match (&mut link.stage, link.channels.as_deref_mut()) {
            (Stage::Handshake(handshake), None) if is_main => Some(handshake),
            (Stage::OpensRdbChannel(handshake), Some(channels)) if channels.rdb == Some(handle) => {
                Some(handshake)
            }
            (_, Some(Channels { main: Main::Asks(handshake), .. })) if is_main => Some(handshake),
            _ => None,
        }
    }

    pub(super) fn tell_primary_words(&mut self, handle: ClientHandle, words: &[Vec<u8>]) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.tell_primary(handle, &words);
    }

    fn hear_pong(&mut self, handle: ClientHandle, line: &[u8]) {
        const TAKEN: [&[u8]; 4] = [b"+", b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"];
        if !TAKEN.iter().any(|beginning| line.starts_with(beginning)) {
            log::warn!("Error reply to PING from primary: '{}'", shown(line));
            return self.leave(handle);
        }
        log::info!("Primary replied to PING, replication can continue...");
        self.introduce(handle);
    }

    /// Returns the authentication command, if configured.
    pub(super) fn proof_of_identity(&self) -> Option<Vec<Vec<u8>>> {
        let config = &self.server.config;
        let password = config.primaryauth.as_ref()?;
        let words = [Some(b"AUTH".to_vec()), config.primaryuser.clone(), Some(password.clone())];
        Some(words.into_iter().flatten().collect())
    }

    /// Returns the port that this replica announces.
    pub(super) fn announced_port(&self) -> i64 {
        let config = &self.server.config;
        i64::from(match config.replica_announce_port {
            0 if config.tls_replication && config.tls_port != 0 => config.tls_port,
            0 => config.port,
            announced => announced,
        })
    }

    /// Sends all requests that describe this replica at once.
    fn introduce(&mut self, handle: ClientHandle) {
        let config = &self.server.config;
        let mut asked = VecDeque::new();
        let mut commands: Vec<Vec<Vec<u8>>> = Vec::new();
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        if let Some(command) = self.proof_of_identity() {
            asked.push_back(Asked::Auth);
            commands.push(command);
        }
        asked.push_back(Asked::Option("listening-port"));
        let port = self.announced_port().to_string();
        commands.push(words(&[b"REPLCONF", b"listening-port", port.as_bytes()]));
        if let Some(address) = &config.replica_announce_ip {
            asked.push_back(Asked::Option("ip-address"));
            commands.push(words(&[b"REPLCONF", b"ip-address", address]));
        }
        asked.push_back(Asked::Option("capa"));
        let mut capabilities = words(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
        if config.dual_channel_replication_enabled {
            capabilities.extend(words(&[b"capa", b"dual-channel"]));
        }
        commands.push(capabilities);
        asked.push_back(Asked::Option("VERSION"));
        commands.push(words(&[b"REPLCONF", b"version", VALKEY_VERSION.as_bytes()]));
        for command in &commands {
            self.tell_primary_words(handle, command);
        }
        self.expect(Handshake { asked, promised: None });
    }

    /// Builds the PSYNC command.
    fn psync(&mut self) -> Vec<Vec<u8>> {
        let continues = self.link.as_ref().is_some_and(|link| link.continues);
        let (id, next) = if continues {
            let history = &self.replication.history;
            let next = (history.offset() + 1).to_string();
            log::info!("Trying a partial resynchronization (request {}:{next}).", history.id());
            (history.id().to_owned(), next)
        } else {
            log::info!("Partial resynchronization not possible (no cached primary)");
            ("?".to_owned(), "-1".to_owned())
        };
        let mut words = vec![b"PSYNC".to_vec(), id.into_bytes(), next.into_bytes()];
        if self.asks_to_take_over() {
            words.push(b"FAILOVER".to_vec());
        }
        words
    }

    fn hear_psync(&mut self, handle: ClientHandle, line: &[u8]) {
        let is_handing_over = self.is_handing_over();
        let begins_anew = [&b"+FULLRESYNC"[..], DUAL_CHANNEL].iter().any(|answer| line.starts_with(answer))
            && self.gives_way_to_target();
        if is_handing_over && !line.starts_with(b"+CONTINUE") && !begins_anew {
            return self.hear_failover_refused(handle, line);
        }
        self.follow_answer(handle, line);
        if is_handing_over {
            self.complete_failover();
        }
    }

    fn follow_answer(&mut self, handle: ClientHandle, line: &[u8]) {
        if let Some(rest) = line.strip_prefix(b"+FULLRESYNC") {
            let origin = origin_of(rest);
            match &origin {
                Some(origin) => log::info!("Full resync from primary: {}:{}", origin.id, origin.offset),
                None => log::warn!("Primary replied with wrong +FULLRESYNC syntax."),
            }
            self.begin_transfer(handle, origin);
        } else if line.starts_with(DUAL_CHANNEL) && self.server.config.dual_channel_replication_enabled {
            self.open_rdb_channel();
        } else if let Some(rest) = line.strip_prefix(b"+CONTINUE") {
            self.go_on_with_stream(handle, rest);
        } else if line.starts_with(b"-NOMASTERLINK") || line.starts_with(b"-LOADING") {
            log::info!("Primary is currently unable to PSYNC but should be in the future: {}", shown(line));
            self.leave(handle);
        } else {
            if line.starts_with(b"-ERR") {
                log::info!("Primary does not support PSYNC or is in error state (reply: {})", shown(line));
            } else {
                log::warn!("Unexpected reply to PSYNC from primary: {}", shown(line));
            }
            log::info!("Retrying with SYNC...");
            self.server.clients.push(handle, |output| output.raw(b"SYNC\r\n"));
            self.begin_transfer(handle, None);
        }
    }

    pub(super) fn begin_transfer(&mut self, handle: ClientHandle, origin: Option<Origin>) {
        let begun = match self.loads_while_receiving() {
            true => Ok(Transfer::to_databases(origin)),
            false => Transfer::to_file(&self.disk.world, origin),
        };
        match begun {
            Ok(transfer) => {
                if let Some(link) = &mut self.link {
                    link.stage = Stage::Transfer(Box::new(transfer));
                }
                self.note_link();
            }
            Err(error) => {
                log::warn!("{error}");
                self.leave(handle);
            }
        }
    }

    /// Continues the stream from the last offset; under another id, if the primary was promoted or follows another
    /// primary now.
    fn go_on_with_stream(&mut self, handle: ClientHandle, rest: &[u8]) {
        if !self.link.as_ref().is_some_and(|link| link.continues) {
            log::warn!("The primary continues a stream that is unknown here");
            return self.leave(handle);
        }
        if self.handshake_of(handle).is_some_and(|handshake| handshake.promised.is_some()) {
            log::debug!("Dual channel replication: Psync established after rdb load");
        }
        log::info!("Successful partial resynchronization with primary.");
        supervisor::tell(
            "STATUS=PRIMARY <-> REPLICA sync: Partial Resynchronization accepted. Ready to accept connections in read-write mode.\n",
        );
        if let Some(id) = id_of(rest.strip_prefix(b" ").unwrap_or(rest))
            && id != self.replication.history.id()
        {
            log::info!("Primary replication ID changed to {id}");
            self.replication.history.part(id);
            self.disconnect_replicas();
        }
        if !self.replication.has_backlog() {
            self.replication.create_backlog();
        }
        let db_index = self.link.as_ref().map_or(0, |link| link.db_index);
        self.server.clients[handle].db_index = db_index;
        self.follow_stream(handle);
    }
}

pub(super) fn id_of(word: &[u8]) -> Option<String> {
    let id = std::str::from_utf8(word).ok()?;
    (id.len() == ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric())).then(|| id.to_owned())
}

/// Parses ` <id> <offset>`.
fn origin_of(rest: &[u8]) -> Option<Origin> {
    let mut words = rest.strip_prefix(b" ")?.splitn(2, |&byte| byte == b' ');
    let id = id_of(words.next()?)?;
    let offset = wire::number::parse_i64(words.next()?)?;
    Some(Origin { id, offset: u64::try_from(offset).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_answers_to_psync_say_where_the_stream_begins() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let origin = |text: String| origin_of(text.as_bytes());
        assert_eq!(origin(format!(" {id} 7")), Some(Origin { id: id.to_owned(), offset: 7 }));
        for wrong in [
            String::new(),
            format!(" {id}"),
            format!(" {id} "),
            format!(" {id} -1"),
            format!(" {id} 9223372036854775808"),
            format!(" {id}0 7"),
            format!(" {} 7", &id[1..]),
            format!(" {} 7", id.replace('0', "\u{1}")),
            format!("{id} 7"),
        ] {
            assert_eq!(origin(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn a_line_ends_with_or_without_a_carriage_return() {
        assert_eq!(line_of(b"+OK\r\n+more"), Some((&b"+OK"[..], 5)));
        assert_eq!(line_of(b"\n"), Some((&b""[..], 1)));
        assert_eq!(line_of(b"+OK\r"), None);
    }
}
