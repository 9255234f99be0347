//! The handshake between a replica and its primary: the replica's identity, its capabilities, and the offset from which
//! it needs the stream. A state machine: [`Handshake::step`] takes an event and returns actions, without socket, file or
//! clock. `tests/traces` has its traces.
//!
//! ```text
//! purpose      requests                                    ends with
//! Link         PING | AUTH, REPLCONF ... | PSYNC           +FULLRESYNC, +CONTINUE, +DUALCHANNELSYNC, or SYNC
//! RdbChannel   AUTH, REPLCONF rdb-channel ... | SYNC       $ENDOFF
//! MainChannel  REPLCONF set-rdb-client-id | PSYNC          +CONTINUE
//! ```
//!
//! Replies are lines. The primary answers in order; empty lines keep the connection alive.
//!
//! 1. The requests after a `|` are sent once all earlier ones are answered: a primary refuses to sync while replies are
//!    pending.

use super::super::Executor;
use super::channels::{Channels, Main, Promise, promise_of};
use super::failover;
use super::full_sync::debug_pause_after_fork;
use super::history::History;
use super::link::{Link, Stage, Upstream};
use super::stream_load::loads_while_receiving;
use super::transfer::{Origin, Transfer};
use crate::commands::info::VALKEY_VERSION;
use crate::config::Config;
use crate::observe::supervisor;
use crate::server::Server;
use crate::session::ClientHandle;
use log::Level;
use std::borrow::Cow;
use std::collections::VecDeque;
use wire::aof::write_command;
use wire::cluster_bus::NodeId;

/// Maximum length of a primary's line.
pub(super) const LINE_BYTES_MAX: usize = 1024;

const ENDLESS_LINE: &str = "Bad protocol from PRIMARY: a line without end";
/// The replies to PSYNC that begin a full sync.
const FULL: &[u8] = b"+FULLRESYNC";
const DUAL_CHANNEL: &[u8] = b"+DUALCHANNELSYNC";
const CONTINUE: &[u8] = b"+CONTINUE";
/// Length of an id in +FULLRESYNC and +CONTINUE.
const ID_BYTES: usize = super::history::ID_LEN;

/// A request whose reply is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
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

#[derive(Debug)]
enum Purpose {
    Link,
    RdbChannel,
    MainChannel { rdb_client: u64 },
}

/// An event of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// The connection is established, or becomes available.
    Established,
    /// A line without its end.
    Line(&'a [u8]),
    /// More bytes than a line may have.
    EndlessLine,
}

/// An action; actions are carried out in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Log(Level, String),
    Send(Vec<Vec<u8>>),
    SendSync,
    /// Stop the process, if DEBUG requested it.
    DebugPause,
    /// Close the connection and reconnect.
    Leave,
    /// The snapshot follows on this connection.
    BeginTransfer(Option<Origin>),
    OpenRdbChannel,
    /// The snapshot follows on this connection, and its stream can be requested over the main channel.
    TakePromise(Promise),
    /// The stream follows while the snapshot comes.
    KeepStream,
    /// The stream follows, perhaps under another id.
    FollowStream {
        new_id: Option<String>,
    },
    CountTakeoverRequest,
    FailoverRefused(Vec<u8>),
    CompleteFailover,
}

/// A FAILOVER that transfers this server's role to the primary of this link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handover {
    /// The target is a primary already.
    pub is_primary: bool,
    /// The target's data may replace the data of this server.
    pub gives_way: bool,
}

/// State on which the handshake depends.
pub(super) struct Facts<'a> {
    /// Options of this server.
    pub config: &'a Config,
    /// This server's history, for a partial sync.
    pub history: &'a History,
    /// The data of this server is that of the history up to its offset.
    pub continues: bool,
    /// The failover that ends with this handshake.
    pub handover: Option<Handover>,
    /// The id of this server as a node of a cluster.
    pub node_id: Option<NodeId>,
}

#[derive(Debug)]
pub(super) struct Handshake {
    purpose: Purpose,
    pending: VecDeque<Request>,
    /// Stream position after a snapshot that comes over another connection.
    promised: Option<Origin>,
    is_over: bool,
}

/// Returns the first line without its end, and its length including the end.
pub(super) fn line_of(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn shown(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

impl Facts<'_> {
    /// Returns the authentication command, if configured.
    fn authentication(&self) -> Option<Vec<Vec<u8>>> {
        let password = self.config.primaryauth.as_ref()?;
        let words = [Some(b"AUTH".to_vec()), self.config.primaryuser.clone(), Some(password.clone())];
        Some(words.into_iter().flatten().collect())
    }

    /// Returns the port that this replica announces.
    fn announced_port(&self) -> Vec<u8> {
        let port = match self.config.replica_announce_port {
            0 if self.config.tls_replication && self.config.tls_port != 0 => self.config.tls_port,
            0 => self.config.port,
            announced => announced,
        };
        port.to_string().into_bytes()
    }
}

impl Handshake {
    fn new(purpose: Purpose) -> Self {
        Handshake { purpose, pending: VecDeque::new(), promised: None, is_over: false }
    }

    /// Creates the handshake of the link's own connection.
    pub fn of_link() -> Self {
        Handshake::new(Purpose::Link)
    }

    /// Creates the handshake of an rdb channel, which requests a snapshot.
    pub fn of_rdb_channel() -> Self {
        Handshake::new(Purpose::RdbChannel)
    }

    /// Creates the handshake of a main channel, which requests the stream after such a snapshot.
    pub fn of_main_channel(Promise { origin, client_id }: Promise) -> Self {
        let purpose = Purpose::MainChannel { rdb_client: client_id };
        Handshake { promised: Some(origin), ..Handshake::new(purpose) }
    }

    /// Continues after the snapshot was loaded: the stream may follow at once.
    pub fn after_load(self) -> Self {
        Handshake { purpose: Purpose::Link, ..self }
    }

    /// Takes an event; returns the actions.
    pub fn step(&mut self, event: Event<'_>, facts: &Facts<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            _ if self.is_over => return actions,
            Event::Established => {
                self.begin(facts, &mut actions);
                return actions;
            }
            Event::EndlessLine => {
                self.leave(Level::Warn, ENDLESS_LINE.to_owned(), &mut actions);
            }
            Event::Line(b"") => {}
            Event::Line(line) => {
                if let Some(request) = self.pending.pop_front() {
                    self.handle_reply(request, line, facts, &mut actions);
                }
            }
        }
        if self.pending.is_empty() && !self.is_over {
            self.go_on(facts, &mut actions);
        }
        actions
    }

    fn leave(&mut self, level: Level, why: String, actions: &mut Vec<Action>) {
        self.is_over = true;
        actions.extend([Action::Log(level, why), Action::Leave]);
    }

    fn send(&mut self, request: Request, words: Vec<Vec<u8>>, actions: &mut Vec<Action>) {
        self.pending.push_back(request);
        actions.push(Action::Send(words));
    }

    fn begin(&mut self, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        match self.purpose {
            Purpose::Link => self.send(Request::Ping, words(&[b"PING"]), actions),
            Purpose::RdbChannel => self.introduce_rdb_channel(facts, actions),
            Purpose::MainChannel { rdb_client } => {
                let number = rdb_client.to_string();
                let command = words(&[b"REPLCONF", b"set-rdb-client-id", number.as_bytes()]);
                self.send(Request::Channel, command, actions);
            }
        }
    }

    fn handle_reply(&mut self, request: Request, line: &[u8], facts: &Facts<'_>, actions: &mut Vec<Action>) {
        let is_refused = line.starts_with(b"-");
        match request {
            Request::Ping => self.handle_pong(line, facts, actions),
            Request::Auth if is_refused => {
                self.leave(Level::Warn, format!("Unable to AUTH to PRIMARY: {}", shown(line)), actions);
            }
            Request::Option(name) if is_refused => {
                let text =
                    format!("(Non critical) Primary does not understand REPLCONF {name}: {}", shown(line));
                actions.push(Action::Log(Level::Info, text));
            }
            Request::Channel if is_refused => {
                let text = format!(
                    "Dual channel replication: Primary refuses a sync over two connections: {}",
                    shown(line)
                );
                self.leave(Level::Warn, text, actions);
            }
            Request::Auth | Request::Option(_) | Request::Channel => {}
            Request::Promise => self.handle_promise(line, actions),
            Request::Psync => match self.purpose {
                Purpose::MainChannel { .. } => self.handle_main_channel(line, actions),
                Purpose::Link | Purpose::RdbChannel => self.handle_psync(line, facts, actions),
            },
        }
    }

    fn handle_pong(&mut self, line: &[u8], facts: &Facts<'_>, actions: &mut Vec<Action>) {
        const TAKEN: [&[u8]; 4] = [b"+", b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"];
        // A target without a link, or whose disk fails, refuses PING until this server's PSYNC has made it the primary: the
        // reply to PSYNC decides. Other errors are retried, since they end by themselves.
        const REFUSED: [&[u8]; 2] = [b"-MASTERDOWN", b"-MISCONF"];
        let is_left_to_psync =
            facts.handover.is_some() && REFUSED.iter().any(|beginning| line.starts_with(beginning));
        if !is_left_to_psync && !TAKEN.iter().any(|beginning| line.starts_with(beginning)) {
            let text = format!("Error reply to PING from primary: '{}'", shown(line));
            return self.leave(Level::Warn, text, actions);
        }
        let text = "Primary replied to PING, replication can continue...".to_owned();
        actions.push(Action::Log(Level::Info, text));
        self.introduce(facts, actions);
    }

    /// Sends all requests that describe this replica at once.
    fn introduce(&mut self, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        if let Some(command) = facts.authentication() {
            self.send(Request::Auth, command, actions);
        }
        let port = facts.announced_port();
        let command = words(&[b"REPLCONF", b"listening-port", &port]);
        self.send(Request::Option("listening-port"), command, actions);
        if let Some(address) = &facts.config.replica_announce_ip {
            let command = words(&[b"REPLCONF", b"ip-address", address]);
            self.send(Request::Option("ip-address"), command, actions);
        }
        let mut capabilities = words(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
        if facts.config.dual_channel_replication_enabled {
            capabilities.extend(words(&[b"capa", b"dual-channel"]));
        }
        self.send(Request::Option("capa"), capabilities, actions);
        let command = words(&[b"REPLCONF", b"version", VALKEY_VERSION.as_bytes()]);
        self.send(Request::Option("VERSION"), command, actions);
        // A primary that shuts down names its successor by it.
        if let Some(id) = facts.node_id {
            let command = words(&[b"REPLCONF", b"set-cluster-node-id", id.as_bytes()]);
            self.send(Request::Option("SET-CLUSTER-NODE-ID"), command, actions);
        }
    }

    fn introduce_rdb_channel(&mut self, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        if let Some(command) = facts.authentication() {
            self.send(Request::Auth, command, actions);
        }
        let port = facts.announced_port();
        let command = words(&[
            b"REPLCONF",
            b"capa",
            b"eof",
            b"rdb-only",
            b"1",
            b"rdb-channel",
            b"1",
            b"listening-port",
            &port,
            b"version",
            VALKEY_VERSION.as_bytes(),
        ]);
        self.send(Request::Channel, command, actions);
        if let Some(address) = &facts.config.replica_announce_ip {
            self.send(Request::Channel, words(&[b"REPLCONF", b"ip-address", address]), actions);
        }
    }

    /// Sends the main request once all earlier ones are answered.
    fn go_on(&mut self, facts: &Facts<'_>, actions: &mut Vec<Action>) {
        if let Purpose::RdbChannel = self.purpose {
            self.pending.push_back(Request::Promise);
            return actions.push(Action::SendSync);
        }
        if self.promised.is_some() {
            actions.push(Action::DebugPause);
        }
        let command = match (&self.purpose, &self.promised) {
            (Purpose::MainChannel { .. }, Some(origin)) => {
                let next = (origin.offset + 1).to_string();
                let text = format!(
                    "Dual channel replication: Trying a partial resynchronization using main channel (request {}:{next}).",
                    origin.id
                );
                actions.push(Action::Log(Level::Info, text));
                words(&[b"PSYNC", origin.id.as_bytes(), next.as_bytes()])
            }
            _ => psync(facts, actions),
        };
        self.send(Request::Psync, command, actions);
    }

    fn handle_promise(&mut self, line: &[u8], actions: &mut Vec<Action>) {
        let Some(promise) = promise_of(line) else {
            let text =
                format!("Dual channel replication: Received unexpected $ENDOFF response: {}", shown(line));
            return self.leave(Level::Warn, text, actions);
        };
        self.is_over = true;
        actions.push(Action::TakePromise(promise));
    }

    /// Handles the main channel's reply to PSYNC, while the snapshot comes.
    fn handle_main_channel(&mut self, line: &[u8], actions: &mut Vec<Action>) {
        let promised = self.promised.take();
        let is_promised = |rest: &[u8]| {
            let id = id_of(rest.strip_prefix(b" ").unwrap_or(rest));
            rest.is_empty() || id.is_some_and(|id| promised.is_some_and(|promised| promised.id == id))
        };
        if !line.strip_prefix(CONTINUE).is_some_and(is_promised) {
            let text = format!(
                "Dual channel replication: Aborting dual channel sync. Main channel psync result {}",
                shown(line)
            );
            return self.leave(Level::Warn, text, actions);
        }
        self.is_over = true;
        let text = "Dual channel replication: PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization, RDB load in background.";
        actions.extend([Action::Log(Level::Info, text.to_owned()), Action::KeepStream]);
    }

    fn handle_psync(&mut self, line: &[u8], facts: &Facts<'_>, actions: &mut Vec<Action>) {
        self.is_over = true;
        if let Some(handover) = facts.handover {
            let begins_anew = [FULL, DUAL_CHANNEL].iter().any(|answer| line.starts_with(answer));
            if !line.starts_with(CONTINUE) && !(begins_anew && handover.gives_way) {
                return actions.push(Action::FailoverRefused(line.to_vec()));
            }
        }
        self.follow_answer(line, facts, actions);
        if facts.handover.is_some() {
            actions.push(Action::CompleteFailover);
        }
    }

    fn follow_answer(&mut self, line: &[u8], facts: &Facts<'_>, actions: &mut Vec<Action>) {
        let note = |level, text: String| Action::Log(level, text);
        if let Some(rest) = line.strip_prefix(FULL) {
            let origin = origin_of(rest);
            actions.push(match &origin {
                Some(Origin { id, offset }) => {
                    note(Level::Info, format!("Full resync from primary: {id}:{offset}"))
                }
                None => note(Level::Warn, "Primary replied with wrong +FULLRESYNC syntax.".to_owned()),
            });
            actions.push(Action::BeginTransfer(origin));
        } else if line.starts_with(DUAL_CHANNEL) && facts.config.dual_channel_replication_enabled {
            actions.push(Action::OpenRdbChannel);
        } else if let Some(rest) = line.strip_prefix(CONTINUE) {
            self.go_on_with_stream(rest, facts, actions);
        } else if line.starts_with(b"-NOMASTERLINK") || line.starts_with(b"-LOADING") {
            let text =
                format!("Primary is currently unable to PSYNC but should be in the future: {}", shown(line));
            self.leave(Level::Info, text, actions);
        } else {
            actions.push(match line.starts_with(b"-ERR") {
                true => note(
                    Level::Info,
                    format!("Primary does not support PSYNC or is in error state (reply: {})", shown(line)),
                ),
                false => {
                    note(Level::Warn, format!("Unexpected reply to PSYNC from primary: {}", shown(line)))
                }
            });
            actions.push(note(Level::Info, "Retrying with SYNC...".to_owned()));
            actions.extend([Action::SendSync, Action::BeginTransfer(None)]);
        }
    }

    /// Continues the stream from the last offset; under another id, if the primary was promoted or follows another
    /// primary now.
    fn go_on_with_stream(&mut self, rest: &[u8], facts: &Facts<'_>, actions: &mut Vec<Action>) {
        if !facts.continues {
            let text = "The primary continues a stream that is unknown here".to_owned();
            return self.leave(Level::Warn, text, actions);
        }
        let mut note = |level, text: String| actions.push(Action::Log(level, text));
        if self.promised.is_some() {
            note(Level::Debug, "Dual channel replication: Psync established after rdb load".to_owned());
        }
        note(Level::Info, "Successful partial resynchronization with primary.".to_owned());
        let id = id_of(rest.strip_prefix(b" ").unwrap_or(rest));
        let new_id = id.filter(|id| id != facts.history.id());
        if let Some(id) = &new_id {
            note(Level::Info, format!("Primary replication ID changed to {id}"));
        }
        actions.push(Action::FollowStream { new_id });
    }
}

/// Builds the PSYNC command.
fn psync(facts: &Facts<'_>, actions: &mut Vec<Action>) -> Vec<Vec<u8>> {
    let history = facts.history;
    let (text, mut command) = if facts.continues {
        let next = (history.offset() + 1).to_string();
        let text = format!("Trying a partial resynchronization (request {}:{next}).", history.id());
        (text, words(&[b"PSYNC", history.id().as_bytes(), next.as_bytes()]))
    } else {
        let text = "Partial resynchronization not possible (no cached primary)".to_owned();
        (text, words(&[b"PSYNC", b"?", b"-1"]))
    };
    actions.push(Action::Log(Level::Info, text));
    if let Some(handover) = facts.handover {
        actions.push(Action::CountTakeoverRequest);
        if !handover.is_primary {
            command.push(b"FAILOVER".to_vec());
        }
    }
    command
}

impl Link {
    /// Returns the handshake of this connection, if it belongs to the link and is in that stage.
    fn handshake_of(&mut self, handle: ClientHandle) -> Option<&mut Handshake> {
        let is_main = self.is_of(handle);
        match (&mut self.stage, self.channels.as_deref_mut()) {
            (Stage::Handshake(handshake), None) if is_main => Some(handshake),
            (Stage::OpensRdbChannel(handshake), Some(channels)) if channels.rdb == Some(handle) => {
                Some(handshake)
            }
            (_, Some(Channels { main: Main::Handshake(handshake), .. })) if is_main => Some(handshake),
            _ => None,
        }
    }
}

impl Upstream {
    /// Sets the stage of the link to a handshake.
    pub(super) fn expect(&mut self, server: &mut Server, handshake: Handshake) {
        if let Some(link) = &mut self.link {
            link.stage = Stage::Handshake(handshake);
        }
        self.note_link(server);
    }
}

impl Executor {
    /// Handles a line, if it is complete; returns the number of bytes taken.
    pub(super) fn handle_line(&mut self, handle: ClientHandle, bytes: &[u8]) -> usize {
        let Some((line, taken)) = line_of(bytes) else {
            if bytes.len() > LINE_BYTES_MAX && !self.go_on_with_handshake(handle, Event::EndlessLine) {
                // Between two handshakes of the main channel.
                log::warn!("{ENDLESS_LINE}");
                self.leave(handle);
            }
            return 0;
        };
        self.go_on_with_handshake(handle, Event::Line(line));
        taken
    }

    /// Passes an event to the connection's handshake; returns whether there is one.
    pub(super) fn go_on_with_handshake(&mut self, handle: ClientHandle, event: Event<'_>) -> bool {
        let handover = self.replication.failover.handover();
        let Some(link) = &mut self.replication.upstream.link else { return false };
        let continues = link.continues;
        let Some(handshake) = link.handshake_of(handle) else { return false };
        let (config, history) = (&self.server.config, self.replication.outgoing.history());
        let node_id = self.server.cluster.as_deref().map(|node| node.view.my_id());
        let actions = handshake.step(event, &Facts { config, history, continues, handover, node_id });
        actions.into_iter().for_each(|action| self.perform(handle, action));
        true
    }

    fn perform(&mut self, handle: ClientHandle, action: Action) {
        match action {
            Action::Log(level, text) => log::log!(level, "{text}"),
            Action::Send(words) => {
                let mut command = Vec::new();
                write_command(&mut command, words.iter().map(Vec::as_slice))
                    .expect("writing to memory cannot fail");
                self.server.clients.push(handle, |output| output.raw(&command));
            }
            Action::SendSync => self.server.clients.push(handle, |output| output.raw(b"SYNC\r\n")),
            Action::DebugPause => debug_pause_after_fork(&self.server),
            Action::Leave => self.leave(handle),
            Action::BeginTransfer(origin) => self.begin_transfer(handle, origin),
            Action::OpenRdbChannel => self.replication.upstream.open_rdb_channel(&mut self.server),
            Action::TakePromise(promise) => self.take_promise(handle, promise),
            Action::KeepStream => self.replication.upstream.keep_stream(&mut self.server),
            Action::FollowStream { new_id } => self.go_on_with_stream(handle, new_id),
            Action::CountTakeoverRequest => self.fail_over(Some(handle), failover::Event::RequestSent),
            Action::FailoverRefused(line) => {
                self.fail_over(Some(handle), failover::Event::Refused(&line));
            }
            Action::CompleteFailover => self.fail_over(Some(handle), failover::Event::TakenOver),
        }
    }

    pub(super) fn begin_transfer(&mut self, handle: ClientHandle, origin: Option<Origin>) {
        let begun = match loads_while_receiving(&self.db, &self.server.config) {
            true => Ok(Transfer::to_databases(origin)),
            false => Transfer::to_file(self.disk.world(), origin),
        };
        match begun {
            Ok(transfer) => {
                if let Some(link) = &mut self.replication.upstream.link {
                    link.stage = Stage::Transfer(Box::new(transfer));
                }
                self.replication.upstream.note_link(&mut self.server);
            }
            Err(error) => {
                log::warn!("{error}");
                self.leave(handle);
            }
        }
    }

    /// Continues the stream from the last offset.
    fn go_on_with_stream(&mut self, handle: ClientHandle, new_id: Option<String>) {
        supervisor::notify(
            "STATUS=PRIMARY <-> REPLICA sync: Partial Resynchronization accepted. Ready to accept connections in read-write mode.\n",
        );
        if let Some(id) = new_id {
            self.replication.outgoing.take_new_id(id);
            self.disconnect_replicas();
        }
        if !self.replication.outgoing.has_backlog() {
            self.replication.outgoing.create_backlog();
        }
        let db_index = self.replication.upstream.link.as_ref().map_or(0, |link| link.db_index);
        self.server.clients[handle].db_index = db_index;
        self.replication.follow_stream(&mut self.db, &mut self.server, &self.aof, handle);
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
