//! What goes wrong, and what administrators do meanwhile.

use super::node::{PORT, address_of};
use super::{CLIENTS, Network};
use crate::world::{End as ProcessEnd, Weather};
use server::observe::replication::FailoverState;

/// How long servers keep following another primary than the one that they will follow.
const PARTED_US_MAX: u64 = 3_000_000;

/// A kind of trouble.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Cut,
    Stall,
    Block,
    Isolate,
    Kill,
    PowerCut,
    Exit,
    FailingChildren,
    Promote,
    Rewire,
    FailOver,
    ReplacePrimary,
    Administer,
}

const TROUBLES: [Trouble; 13] = [
    Trouble::Cut,
    Trouble::Stall,
    Trouble::Block,
    Trouble::Isolate,
    Trouble::Kill,
    Trouble::PowerCut,
    Trouble::Exit,
    Trouble::FailingChildren,
    Trouble::Promote,
    Trouble::Rewire,
    Trouble::FailOver,
    Trouble::ReplacePrimary,
    Trouble::Administer,
];

impl Network {
    fn any_node(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    /// Connections are cut, and some other kinds of trouble come: what each leads to shows best where few others undo it.
    pub(super) fn choose_troubles(&mut self) {
        let random = &mut self.random;
        self.troubles = TROUBLES.iter().copied().filter(|_| random.below(4) == 0).collect();
        self.troubles.push(Trouble::Cut);
        log::info!("---- {:?}", self.troubles);
    }

    pub(super) fn make_trouble(&mut self) {
        let (one, other) = (self.any_node(), self.any_node());
        let longest_us = if self.random.below(2) == 0 { 300_000 } else { 8_000_000 };
        let until_us = self.now_us + self.random.below(longest_us);
        let trouble = self.troubles[self.random.below(self.troubles.len() as u64) as usize];
        match trouble {
            Trouble::Cut => {
                if let Some(wire) = self.wires.any(&mut self.random) {
                    log::info!("---- connection {wire} is cut");
                    self.wires.cut(wire, self.now_us, &mut self.random);
                }
            }
            Trouble::Stall => {
                if let Some(wire) = self.wires.any(&mut self.random) {
                    let side = self.random.below(2) as usize;
                    log::info!("---- connection {wire} stalls until {} ms", until_us / 1000);
                    self.wires.stall(wire, side, until_us);
                }
            }
            Trouble::Block => self.wires.block(one, other, until_us),
            Trouble::Isolate => self.isolate(one, until_us),
            Trouble::Kill => self.stop_for_long(one, ProcessEnd::Killed, until_us),
            Trouble::PowerCut => self.stop_for_long(one, ProcessEnd::PowerCut, until_us),
            Trouble::Exit => self.stop_for_long(one, ProcessEnd::Exited(0), until_us),
            Trouble::FailingChildren => {
                self.nodes[one].disk.set_weather(Weather { fork: 300, child: 300, ..Weather::default() });
            }
            Trouble::Promote => self.promote(one),
            Trouble::Rewire => self.rewire(one, other),
            Trouble::FailOver => self.fail_over(),
            Trouble::ReplacePrimary => self.replace_primary(),
            Trouble::Administer => self.administer(one),
        }
    }

    /// Stops a server. Sometimes others do not reach it before its clients have written more than it has lost.
    fn stop_for_long(&mut self, one: usize, end: ProcessEnd, until_us: u64) {
        self.stop(one, end);
        if self.random.below(3) == 0 {
            self.isolate(one, until_us);
        }
    }

    /// Nothing passes between a server and all others.
    fn isolate(&mut self, one: usize, until_us: u64) {
        log::info!("---- server {one} is isolated until {} ms", until_us / 1000);
        for other in (0..self.nodes.len()).filter(|&other| other != one) {
            self.wires.block(one, other, until_us);
            self.wires.block(other, one, until_us);
        }
    }

    /// Returns whether the server accepts the command.
    pub(super) fn ask(&mut self, index: usize, words: &[&str]) -> bool {
        if !self.nodes[index].is_up() {
            return false;
        }
        let reply = self.nodes[index].ask(words);
        log::info!("---- server {index}: {words:?}: {}", reply.escape_ascii());
        !reply.starts_with(b"-")
    }

    /// Replicas follow another server; the primary keeps its role.
    fn rewire(&mut self, replica: usize, primary: usize) {
        if replica != primary && self.nodes[replica].primary().is_some() {
            self.follow(replica, primary);
        }
    }

    pub(super) fn follow(&mut self, replica: usize, primary: usize) {
        let (host, port) = (format!("10.0.0.{primary}"), PORT.to_string());
        self.ask(replica, &["REPLICAOF", &host, &port]);
    }

    /// One more primary, to which some clients go; sooner or later the others follow it. Those that follow it later have
    /// more of the former primary's stream than the two have in common.
    fn promote(&mut self, index: usize) {
        if !self.to_follow.is_empty() {
            // A second id reaches back to one other stream.
            return;
        }
        self.promised = None;
        self.ask(index, &["REPLICAOF", "NO", "ONE"]);
        for client in &mut self.clients {
            if self.random.below(2) == 0 {
                client.go_to(&mut self.nodes, index);
            }
        }
        for other in (0..self.nodes.len()).filter(|&other| other != index) {
            match self.random.below(4) {
                0 => self.follow(other, index),
                1 | 2 => {
                    let due_us = self.now_us + self.random.below(PARTED_US_MAX);
                    self.to_follow.push((due_us, other, index));
                }
                _ => {}
            }
        }
    }

    /// Where the new stream has the replica's offset too, only the second id tells that the bytes differ: it is waited for
    /// that, and clients write to the new primary alone.
    pub(super) fn follow_due(&mut self) {
        for (due_us, replica, primary) in std::mem::take(&mut self.to_follow) {
            let is_behind = self.offset_of(primary) <= self.offset_of(replica);
            if due_us <= self.now_us && (!is_behind || due_us + PARTED_US_MAX <= self.now_us) {
                self.follow(replica, primary);
                continue;
            }
            self.to_follow.push((due_us, replica, primary));
            if due_us <= self.now_us {
                for client in self.clients.iter_mut().filter(|client| client.node == replica) {
                    client.go_to(&mut self.nodes, primary);
                }
            }
        }
    }

    pub(super) fn offset_of(&self, index: usize) -> u64 {
        let executor = self.nodes[index].executor.as_ref();
        executor.map_or(0, |executor| executor.server.observed.replication.offset)
    }

    fn history_of(&self, index: usize) -> Option<&str> {
        let executor = self.nodes[index].executor.as_ref()?;
        Some(&executor.server.observed.replication.id)
    }

    /// The only primary is lost, and the replica that has most of its stream takes its place, as a Sentinel would do it:
    /// nothing that WAIT has said that any replica has may be lost.
    fn replace_primary(&mut self) {
        let [lost] = self.primaries()[..] else { return };
        if !self.nodes[lost].is_up() || self.has_failover() || !self.to_follow.is_empty() {
            return;
        }
        let history = self.history_of(lost).map(str::to_owned);
        let is_replica = |&index: &usize| {
            index != lost && self.nodes[index].is_linked() && self.history_of(index) == history.as_deref()
        };
        let replicas: Vec<usize> = (0..self.nodes.len()).filter(is_replica).collect();
        let best = replicas.iter().copied().max_by_key(|&index| self.offset_of(index));
        let Some(best) = best else { return };
        let mut safe = vec![0; CLIENTS];
        for &index in &replicas {
            let known = self.nodes[index].safe;
            safe.iter_mut().zip(known).for_each(|(safe, known)| *safe = known.max(*safe));
        }
        self.lose_primary(lost, best);
        self.totals.replaced += 1;
        self.ask(best, &["REPLICAOF", "NO", "ONE"]);
        for index in (0..self.nodes.len()).filter(|&index| index != best) {
            if !self.nodes[index].is_up() {
                self.nodes[index].config.replicaof = Some(address_of(best));
            } else if index != lost {
                self.follow(index, best);
            }
        }
        for (client, &number) in safe.iter().enumerate() {
            let last = self.number_of(best, "last", client);
            assert!(last >= number, "server {best} takes over with {last} of {number} of client {client}");
            if self.random.below(2) == 0 {
                self.clients[client].go_to(&mut self.nodes, best);
            }
        }
        self.promised = Some(safe);
    }

    /// A primary stops, or is not reached for a while: it goes on with its clients until it follows its successor.
    fn lose_primary(&mut self, lost: usize, successor: usize) {
        let ends = [ProcessEnd::Killed, ProcessEnd::PowerCut, ProcessEnd::Exited(0)];
        match ends.get(self.random.below(6) as usize) {
            Some(&end) => self.stop(lost, end),
            None => {
                let until_us = self.now_us + self.random.below(PARTED_US_MAX);
                self.isolate(lost, until_us);
                self.to_follow.push((until_us, lost, successor));
            }
        }
    }

    pub(super) fn has_failover(&self) -> bool {
        self.nodes.iter().any(|node| {
            let executor = node.executor.as_ref();
            executor
                .is_some_and(|executor| executor.server.observed.replication.failover != FailoverState::None)
        })
    }

    /// The first primary hands its role over, to a replica of its own more often than not.
    fn fail_over(&mut self) {
        let one = self.primaries().first().copied().unwrap_or(0);
        let replicas: Vec<usize> =
            self.nodes.iter().filter(|node| node.primary() == Some(one)).map(|node| node.index).collect();
        let other = match replicas.len() as u64 {
            0 => self.any_node(),
            _ if self.random.below(8) == 0 => self.any_node(),
            count => replicas[self.random.below(count) as usize],
        };
        let (host, port) = (format!("10.0.0.{other}"), PORT.to_string());
        let words: &[&str] = match self.random.below(6) {
            0 => &["FAILOVER", "TIMEOUT", "2000"],
            1 => &["FAILOVER", "TO", &host, &port],
            2 => &["FAILOVER", "ABORT"],
            3 => &["FAILOVER"],
            4 => &["FAILOVER", "TO", &host, &port, "TIMEOUT", "3000"],
            _ => &["FAILOVER", "TO", &host, &port, "TIMEOUT", "1000", "FORCE"],
        };
        self.totals.failovers += 1;
        if self.ask(one, words) && words.contains(&"FORCE") {
            self.promised = None;
        }
    }

    fn administer(&mut self, index: usize) {
        let words: &[&[&str]] = &[
            &["CLIENT", "KILL", "TYPE", "replica"],
            &["CLIENT", "KILL", "TYPE", "primary"],
            &["CLIENT", "PAUSE", "100", "WRITE"],
            &["DEBUG", "CHANGE-REPL-ID"],
            &["BGSAVE", "SCHEDULE"],
            &["BGREWRITEAOF"],
            &["CONFIG", "SET", "repl-diskless-load", "swapdb"],
            &["CONFIG", "SET", "repl-diskless-load", "disabled"],
            &["CONFIG", "SET", "repl-diskless-sync", "no"],
            &["CONFIG", "SET", "dual-channel-replication-enabled", "yes"],
            &["CONFIG", "SET", "dual-channel-replication-enabled", "no"],
            &["CONFIG", "SET", "client-output-buffer-limit", "replica 100000 50000 1"],
            &["CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0"],
            &["CONFIG", "SET", "repl-backlog-ttl", "2"],
        ];
        let words = words[self.random.below(words.len() as u64) as usize];
        self.ask(index, words);
    }
}
