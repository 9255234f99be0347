//! What must be so: at each turn, at each answer, and when the network is well.

use super::client::{Heard, database_of};
use super::node::node_of;
use super::{CLIENTS, Network};
use crate::peer::encode;
use crate::requests::words;
use server::observe::replication::ReplicaState;

/// How long servers with nothing to do are watched.
const REST_US: u64 = 3_000_000;
/// Turns of a server's loop in that time: its timers run ten times a second, each other server is heard once a second.
const REST_TURNS_MAX: u64 = 300;
/// What the stream may grow by in that time: a PING a second, and keys that expire.
const REST_BYTES_MAX: u64 = 1000;
/// How long a write takes at most until a replica has acknowledged it.
const ACKNOWLEDGED_US_MAX: u64 = 250_000;
/// What WAIT adds to the stream at most: one REPLCONF GETACK, if a PING comes at the same time.
const WAIT_BYTES_MAX: u64 = 37 + 14;
/// How long it takes at most until all servers have it, behind other replicas too.
const SPREAD_US_MAX: u64 = 1_000_000;

/// What a replica logs of a stream that it cannot apply.
const STREAM_IS_BROKEN: [&str; 3] =
    ["Protocol error", "cannot be applied", "sending an error to its primary"];

/// What a server that rests does not change.
#[derive(Clone, Copy)]
struct Figures {
    turns: u64,
    offset: u64,
    attempts: u64,
    full_syncs: u64,
    partial_syncs: u64,
}

impl Network {
    /// Each unit sets a client's two numbers to the same, the first one first; some set the last one alone.
    pub(super) fn check_whole(&mut self, index: usize) {
        if self.nodes[index].executor.as_ref().is_none_or(|executor| executor.is_loading()) {
            return;
        }
        let client = self.random.below(CLIENTS as u64);
        let [first, last] = ["first", "last"].map(|name| self.number_of(index, name, client as usize));
        assert!(first <= last, "server {index} shows half a unit of client {client}: {first}, {last}");
    }

    /// A replica that finds the stream broken would mend that with a snapshot; but among these servers it never is.
    pub(super) fn check_log(&self, index: usize) {
        for warning in crate::take_warnings() {
            assert!(!STREAM_IS_BROKEN.iter().any(|text| warning.contains(text)), "server {index}: {warning}");
        }
    }

    /// What the server has just sent its clients must be so now.
    pub(super) fn hear_from(&mut self, index: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].node != index {
                continue;
            }
            match self.clients[client].hear(&mut self.nodes[index]) {
                None => {}
                Some(Heard::Written { number }) => {
                    // A primary that has been replaced, and does not know it yet, promises nothing.
                    let is_replaced = self.to_follow.iter().any(|&(_, replaced, _)| replaced == index);
                    if let Some(promised) = self.promised.as_mut().filter(|_| !is_replaced) {
                        promised[client] = number;
                    }
                }
                Some(Heard::Acknowledged { replicas, number, since_us }) => {
                    self.totals.acknowledged += 1;
                    self.check_acknowledged(index, client, replicas, number, since_us);
                }
            }
        }
    }

    /// One of the client's two numbers, as the server has it.
    pub(super) fn number_of(&mut self, index: usize, name: &str, client: usize) -> u64 {
        let key = format!("{name}:{client}");
        let reply = self.nodes[index].ask_in(database_of(client), &["GET", &key]);
        let text = String::from_utf8_lossy(&reply).into_owned();
        text.lines().nth(1).map_or(0, |number| number.parse().unwrap_or(0))
    }

    fn check_acknowledged(
        &mut self,
        primary: usize,
        client: usize,
        replicas: i64,
        number: u64,
        since_us: u64,
    ) {
        let figures = self.nodes[primary].executor().server.observed.replication.replicas.clone();
        let mut having = 0;
        let mut shown = String::new();
        for index in 0..self.nodes.len() {
            if index == primary {
                continue;
            }
            let is_excused = !self.nodes[index].is_up() || self.nodes[index].disturbed_us >= since_us;
            let last = if is_excused { 0 } else { self.number_of(index, "last", client) };
            // Until the primary finds out that one is dead, a server may have several connections, and all count.
            let connections =
                figures.iter().filter(|figures| node_of(figures.address.as_bytes()) == Some(index));
            having += i64::from(is_excused || last >= number) * connections.count().max(1) as i64;
            shown += &format!(" {index}: {last}{}", if is_excused { " (disturbed)" } else { "" });
            if last >= number {
                self.nodes[index].safe[client] = last;
            }
        }
        assert!(
            having >= replicas,
            "{replicas} replicas have {number} of client {client}, says {primary}:{shown}"
        );
    }

    /// What the primary has accepted, or its successor had, is there.
    pub(super) fn check_promised(&mut self) {
        let primary = self.primaries()[0];
        let promised = self.promised.take();
        let mut found = Vec::new();
        for client in 0..CLIENTS {
            let last = self.number_of(primary, "last", client);
            if let Some(promised) = &promised {
                let number = promised[client];
                assert!(last >= number, "{last} of {number} of client {client} are left");
            }
            found.push(last);
        }
        self.promised = Some(found);
    }

    fn figures_of(&self, index: usize) -> Figures {
        let node = &self.nodes[index];
        let observed = &node.executor.as_ref().expect("all run").server.observed;
        Figures {
            turns: node.turns,
            offset: observed.replication.offset,
            attempts: self.totals.attempts,
            full_syncs: observed.statistics.full_syncs,
            partial_syncs: observed.statistics.partial_syncs,
        }
    }

    /// Servers with nothing to do turn for their timers alone, keep their links, and make no stream.
    pub(super) fn check_rest(&mut self) {
        let before: Vec<Figures> = (0..self.nodes.len()).map(|index| self.figures_of(index)).collect();
        let end_us = self.now_us + REST_US;
        while self.now_us < end_us {
            self.step(false);
        }
        for (index, before) in before.iter().enumerate() {
            let after = self.figures_of(index);
            let turns = after.turns - before.turns;
            self.totals.rest_turns_max = self.totals.rest_turns_max.max(turns);
            assert!(turns <= REST_TURNS_MAX, "server {index} turns {turns} times with nothing to do");
            let bytes = after.offset - before.offset;
            assert!(bytes <= REST_BYTES_MAX, "the stream of {index} grows by {bytes} bytes by itself");
            assert_eq!(after.attempts, before.attempts, "servers connect with nothing to do");
            assert_eq!(after.full_syncs, before.full_syncs, "server {index} sends snapshots");
            assert_eq!(after.partial_syncs, before.partial_syncs, "replicas of {index} come again");
            self.check_replicas_online(index);
        }
    }

    /// Each server that follows this one is known here as one that receives the stream.
    fn check_replicas_online(&mut self, primary: usize) {
        let figures = self.nodes[primary].executor().server.observed.replication.replicas.clone();
        for replica in self.nodes.iter().filter(|node| node.primary() == Some(primary)) {
            let is_online = figures.iter().any(|figures| {
                node_of(figures.address.as_bytes()) == Some(replica.index)
                    && figures.state == ReplicaState::Online
            });
            assert!(is_online, "server {primary} does not know {}: {figures:?}", replica.index);
        }
    }

    /// A write is acknowledged by all replicas at once, and soon all servers have it.
    pub(super) fn check_writes(&mut self) {
        let primary = self.primaries()[0];
        let replicas = self.nodes.iter().filter(|node| node.primary() == Some(primary)).count();
        // The first of the writes selects the database.
        for number in 0..2 {
            let begun_us = self.now_us;
            let offset = self.offset_of(primary);
            let set = format!("SET probe {number}");
            self.write_acknowledged(primary, &[&set, &format!("WAIT {replicas} 0")]);
            let mut encoded = Vec::new();
            encode(&words(&set), &mut encoded);
            let bytes = self.offset_of(primary) - offset - encoded.len() as u64;
            assert!(
                number == 0 || bytes <= WAIT_BYTES_MAX,
                "WAIT adds {bytes} bytes to the stream of server {primary}"
            );
            let took_us = self.now_us - begun_us;
            self.totals.acknowledged_us_max = self.totals.acknowledged_us_max.max(took_us);
        }
        let deadline_us = self.now_us + SPREAD_US_MAX;
        while !self.has_settled() {
            self.step(false);
            assert!(self.now_us < deadline_us, "a write does not spread: {}", self.differences());
        }
    }

    /// Sends requests to a server, and waits for the answer to each.
    fn write_acknowledged(&mut self, index: usize, requests: &[&str]) {
        let deadline_us = self.now_us + ACKNOWLEDGED_US_MAX;
        let handle = self.nodes[index].connect(0);
        let (sent, _) = self.nodes[index].line(handle).expect("it has just been connected");
        requests.iter().for_each(|request| encode(&words(request), sent));
        loop {
            self.step(false);
            let (_, received) = self.nodes[index].line(handle).expect("no client is disconnected");
            if received.iter().filter(|&&byte| byte == b'\n').count() == requests.len() {
                assert!(!received.starts_with(b"-"), "{requests:?}: {}", received.escape_ascii());
                break;
            }
            assert!(
                self.now_us < deadline_us,
                "server {index} does not answer {requests:?} in time: {}",
                self.differences()
            );
        }
        self.nodes[index].hang_up(handle);
    }

    pub(super) fn differences(&mut self) -> String {
        let mut text = String::from("not settled:\n");
        for index in 0..self.nodes.len() {
            if !self.nodes[index].is_up() {
                text += &format!("server {index} is down\n");
                continue;
            }
            let digest = self.nodes[index].ask(&["DEBUG", "DIGEST"]);
            let info = self.nodes[index].ask(&["INFO", "replication"]);
            text += &format!(
                "server {index}: {}{}\n",
                String::from_utf8_lossy(&digest),
                String::from_utf8_lossy(&info)
            );
        }
        for client in self.clients.iter().filter(|client| self.is_owed(client)) {
            text += &format!("client {} waits at {} for {:?}\n", client.index, client.node, client.asked);
        }
        text
    }
}
