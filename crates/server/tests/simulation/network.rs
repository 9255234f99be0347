//! Several servers in one process, with connections that are late, stall, are blocked and cut, and servers that stop,
//! lose power and are given other roles; all of it from a seed.
//!
//! ```text
//! WARMLINE_NETWORK_EPISODES=n cargo test -p warmline-server --test simulation network   more of it
//! WARMLINE_NETWORK_SEED=n cargo test -p warmline-server --test simulation network       one episode again
//! ```
//!
//! What must be so, whatever happens:
//!
//! 1. When the network is well and no client writes, all servers have the primary's data after a while, by its digest.
//! 2. What WAIT has said that replicas have they have, unless they were stopped or are loading another snapshot.
//! 3. What the primary has accepted is there as long as it lives and keeps its role; a FAILOVER that waits for
//!    the replica loses nothing either.
//! 4. A transaction or script is applied whole: no replica shows half of it.
//! 5. A server with nothing to do rests, and does not connect again and again.
//! 6. Each client is answered, or finds its connection closed.

mod client;
mod node;
mod wires;

use crate::world::{End as ProcessEnd, Weather};
use client::{Asked, Client, Heard};
use node::{Attempt, Context, Node, PORT, node_of};
use server::config::{Config, ProtectedAction, ReplDisklessLoad, SavePoint};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use structures::random::Random;
use wires::Wires;

const CLIENTS: usize = 4;
/// How long there is trouble, and how long it may take until all is well.
const TROUBLE_US_MAX: u64 = 15_000_000;
const QUIET_US_MAX: u64 = 90_000_000;
/// Turns of the loop at one instant in which nothing passes.
const IDLE_TURNS_MAX: u32 = 1000;
/// Connections that a server begins within ten seconds.
const ATTEMPTS_MAX: usize = 150;
const EPISODES: u64 = 8;

/// What has come of all that was tried.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    requests: u64,
    acknowledged: u64,
    turns: u64,
    full_syncs: u64,
    partial_syncs: u64,
    failovers: u64,
    crashes: u64,
    attempts: u64,
}

struct Network {
    random: Random,
    now_us: u64,
    nodes: Vec<Node>,
    wires: Wires,
    clients: Vec<Client>,
    /// Connections under way: when they are established or refused, from where, and what was asked for.
    attempts: Vec<(u64, usize, Attempt)>,
    /// When each server has begun its last connections.
    begun: Vec<Vec<u64>>,
    /// When servers that are down start again.
    starts: Vec<(u64, usize)>,
    idle_turns: Vec<u32>,
    /// The highest number of each client that the primary has accepted; `None`: its role has been given away, or it was
    /// stopped.
    promised: Option<Vec<u64>>,
    trouble_us: u64,
    totals: Totals,
}

fn config_of(random: &mut Random) -> Config {
    let load = [ReplDisklessLoad::Disabled, ReplDisklessLoad::SwapDb, ReplDisklessLoad::FlushBeforeLoad];
    Config {
        port: PORT,
        save: (random.below(3) == 0).then_some(SavePoint { seconds: 2, changes: 1 }).into_iter().collect(),
        appendonly: random.below(3) == 0,
        repl_diskless_sync: random.below(3) > 0,
        repl_diskless_sync_delay_seconds: random.below(2) as u32,
        repl_diskless_load: load[random.below(3) as usize],
        dual_channel_replication_enabled: random.below(3) == 0,
        repl_ping_replica_period_seconds: 1,
        repl_timeout_seconds: 3 + random.below(3) as u32,
        repl_backlog_size_bytes: [20_000, 100_000, 10 << 20][random.below(3) as usize],
        rdb_del_sync_files: random.below(4) == 0,
        replica_ignore_disk_write_errors: true,
        replica_serve_stale_data: random.below(4) > 0,
        enable_debug_command: ProtectedAction::Yes,
        ..Config::default()
    }
}

impl Network {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = random.below(3) as usize + 2;
        let nodes = (0..count).map(|index| {
            let mut config = config_of(&mut random);
            let primary = if index > 1 && random.below(2) == 0 { 1 } else { 0 };
            config.replicaof = (index > 0).then(|| node::address_of(primary));
            Node::new(index, config, &mut random)
        });
        let nodes: Vec<Node> = nodes.collect();
        Network {
            now_us: 1_000_000,
            wires: Wires::default(),
            clients: (0..CLIENTS).map(Client::new).collect(),
            attempts: Vec::new(),
            begun: vec![Vec::new(); count],
            starts: (0..count).map(|index| (0, index)).collect(),
            idle_turns: vec![0; count],
            promised: Some(vec![0; CLIENTS]),
            trouble_us: 0,
            totals: Totals::default(),
            nodes,
            random,
        }
    }

    fn run(&mut self) {
        for _ in 0..3 {
            let end_us = self.now_us + self.random.below(TROUBLE_US_MAX);
            self.trouble_us = 50_000 + self.random.below(2_000_000);
            while self.now_us < end_us {
                self.step(true);
                if self.random.below(self.trouble_us) < 10_000 {
                    self.make_trouble();
                }
            }
            self.settle();
        }
        for node in &self.nodes {
            let statistics = &node.executor.as_ref().expect("all run").server.observed.statistics;
            self.totals.full_syncs += statistics.full_syncs;
            self.totals.partial_syncs += statistics.partial_syncs;
        }
        self.totals.requests = self.clients.iter().map(|client| client.requests).sum();
    }

    /// Goes to the next instant at which anything happens.
    fn step(&mut self, writes: bool) {
        let mut next_us = self.now_us + 20_000;
        for node in &self.nodes {
            next_us = next_us.min(node.next_us(&self.wires));
        }
        for (due_us, ..) in &self.attempts {
            next_us = next_us.min(*due_us);
        }
        for client in self.clients.iter().filter(|_| writes) {
            next_us = next_us.min(client.wants_us());
        }
        // Clocks advance in milliseconds.
        self.now_us = (next_us.div_ceil(1000) * 1000).max(self.now_us);
        self.start_due();
        self.connect_due();
        if writes {
            for client in &mut self.clients {
                client.act(&mut self.nodes, &mut self.random, self.now_us);
            }
        } else {
            self.clients.iter_mut().for_each(|client| client.send(&mut self.nodes, &mut self.random));
        }
        let first = self.random.below(self.nodes.len() as u64) as usize;
        for at in 0..self.nodes.len() {
            let index = (first + at) % self.nodes.len();
            if self.nodes[index].is_up() && self.nodes[index].next_us(&self.wires) <= self.now_us {
                self.turn(index);
            }
        }
        let up: Vec<bool> = self.nodes.iter().map(Node::is_up).collect();
        self.wires.reset_unknown(self.now_us, |index| up[index]);
    }

    fn turn(&mut self, index: usize) {
        self.totals.turns += 1;
        let node = &mut self.nodes[index];
        let (now_us, random) = (self.now_us, &mut self.random);
        let mut world = Context { wires: &mut self.wires, random, now_us };
        let has_passed = match catch_unwind(AssertUnwindSafe(|| node.tick(&mut world))) {
            Ok(has_passed) => has_passed,
            Err(panic) if panic.is::<ProcessEnd>() => return self.stop(index, ProcessEnd::Killed),
            Err(panic) => resume_unwind(panic),
        };
        self.idle_turns[index] = if has_passed { 0 } else { self.idle_turns[index] + 1 };
        for attempt in std::mem::take(&mut node.attempts) {
            let due_us = now_us + 500 + self.random.below(3000);
            self.attempts.push((due_us, index, attempt));
            self.note_attempt(index);
        }
        let is_idle = self.nodes[index].next_us(&self.wires) <= self.now_us;
        if !is_idle {
            self.idle_turns[index] = 0;
        }
        assert!(self.idle_turns[index] < IDLE_TURNS_MAX, "server {index} turns without doing anything");
        // Time passes even for a server that has something to do.
        if is_idle && self.random.below(3) == 0 {
            self.now_us += 1000;
        }
        self.hear_from(index);
        if self.random.below(8) == 0 {
            self.check_whole(index);
        }
    }

    /// Each unit sets a client's two numbers to the same, the first one first; some set the last one alone.
    fn check_whole(&mut self, index: usize) {
        if self.nodes[index].executor.as_ref().is_none_or(|executor| executor.is_loading()) {
            return;
        }
        let client = self.random.below(CLIENTS as u64);
        let [first, last] = ["first", "last"].map(|name| self.last_of(index, &format!("{name}:{client}")));
        assert!(first <= last, "server {index} shows half a unit of client {client}: {first}, {last}");
    }

    fn note_attempt(&mut self, index: usize) {
        self.totals.attempts += 1;
        let now_us = self.now_us;
        let begun = &mut self.begun[index];
        begun.retain(|&begun_us| begun_us + 10_000_000 > now_us);
        begun.push(now_us);
        assert!(begun.len() < ATTEMPTS_MAX, "server {index} connects again and again");
    }

    /// What the server has just sent its clients must be so now.
    fn hear_from(&mut self, index: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].node != index {
                continue;
            }
            match self.clients[client].hear(&mut self.nodes[index]) {
                None => {}
                Some(Heard::Written { number }) => {
                    if let Some(promised) = &mut self.promised {
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

    fn last_of(&mut self, index: usize, key: &str) -> u64 {
        let reply = self.nodes[index].ask(&["GET", key]);
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
        let key = format!("last:{client}");
        let figures = self.nodes[primary].executor().server.observed.replication.replicas.clone();
        let mut having = 0;
        let mut shown = String::new();
        for index in 0..self.nodes.len() {
            if index == primary {
                continue;
            }
            let is_excused = !self.nodes[index].is_up() || self.nodes[index].disturbed_us >= since_us;
            let last = if is_excused { 0 } else { self.last_of(index, &key) };
            // Until the primary finds out that one is dead, a server may have several connections, and all count.
            let connections =
                figures.iter().filter(|figures| node_of(figures.address.as_bytes()) == Some(index));
            having += i64::from(is_excused || last >= number) * connections.count().max(1) as i64;
            shown += &format!(" {index}: {last}{}", if is_excused { " (disturbed)" } else { "" });
        }
        assert!(having >= replicas, "{replicas} replicas have {number} of {key}, says {primary}:{shown}");
    }

    /// A connection is established when the target runs, and refused when it does not.
    fn connect_due(&mut self) {
        for (due_us, from, attempt) in std::mem::take(&mut self.attempts) {
            let target = node_of(&attempt.target.host).filter(|&target| target < self.nodes.len());
            let is_blocked = target.is_some_and(|target| {
                self.wires.is_blocked(from, target, self.now_us)
                    || self.wires.is_blocked(target, from, self.now_us)
            });
            if !self.nodes[from].is_up() || self.nodes[from].lives != attempt.life {
                continue;
            }
            if due_us > self.now_us || is_blocked {
                self.attempts.push((
                    due_us.max(self.now_us + u64::from(is_blocked) * 100_000),
                    from,
                    attempt,
                ));
                continue;
            }
            let target = target.filter(|&target| self.nodes[target].is_up());
            let end = target.map(|target| {
                let end = self.wires.open([from, target], &mut self.random);
                self.nodes[target].accept(end.other(), from);
                end
            });
            self.nodes[from].established.push((attempt.handle, end));
        }
    }

    fn start_due(&mut self) {
        for (due_us, index) in std::mem::take(&mut self.starts) {
            if due_us > self.now_us {
                self.starts.push((due_us, index));
                continue;
            }
            let seed = self.random.next_u64();
            self.nodes[index].start(self.now_us, seed);
        }
    }

    fn stop(&mut self, index: usize, end: ProcessEnd) {
        if !self.nodes[index].is_up() {
            return;
        }
        log::info!("---- server {index}: {end:?}");
        self.totals.crashes += 1;
        if self.nodes[index].primary().is_none() {
            self.promised = None;
        }
        let (now_us, random) = (self.now_us, &mut self.random);
        self.nodes[index].stop(end, &mut Context { wires: &mut self.wires, random, now_us });
        for client in self.clients.iter_mut().filter(|client| client.node == index) {
            client.lose();
        }
        let due_us = self.now_us + self.random.below(4_000_000);
        self.starts.push((due_us, index));
    }

    fn any_node(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    fn make_trouble(&mut self) {
        let (one, other) = (self.any_node(), self.any_node());
        let longest_us = if self.random.below(2) == 0 { 300_000 } else { 8_000_000 };
        let until_us = self.now_us + self.random.below(longest_us);
        match self.random.below(18) {
            0..=2 => {
                if let Some(wire) = self.wires.any(&mut self.random) {
                    log::info!("---- connection {wire} is cut");
                    self.wires.cut(wire, self.now_us);
                }
            }
            3 | 4 => {
                if let Some(wire) = self.wires.any(&mut self.random) {
                    let side = self.random.below(2) as usize;
                    self.wires.stall(wire, side, until_us);
                }
            }
            5 => self.wires.block(one, other, until_us),
            6 => {
                self.wires.block(one, other, until_us);
                self.wires.block(other, one, until_us);
            }
            7 => self.stop(one, ProcessEnd::Killed),
            8 => self.stop(one, ProcessEnd::PowerCut),
            9 => self.stop(one, ProcessEnd::Exited(0)),
            10 => self.nodes[one].disk.set_weather(Weather { fork: 300, child: 300, ..Weather::default() }),
            11 => self.promote(one),
            12 => self.rewire(one, other),
            13 | 14 => self.fail_over(one, other),
            _ => self.administer(one),
        }
    }

    fn ask(&mut self, index: usize, words: &[&str]) {
        if !self.nodes[index].is_up() {
            return;
        }
        let reply = self.nodes[index].ask(words);
        log::info!("---- server {index}: {words:?}: {}", reply.escape_ascii());
    }

    /// Replicas follow another server; the primary keeps its role.
    fn rewire(&mut self, replica: usize, primary: usize) {
        if replica != primary && self.nodes[replica].primary().is_some() {
            self.follow(replica, primary);
        }
    }

    fn follow(&mut self, replica: usize, primary: usize) {
        let (host, port) = (format!("10.0.0.{primary}"), PORT.to_string());
        self.ask(replica, &["REPLICAOF", &host, &port]);
    }

    /// One more primary; sooner or later the others follow it.
    fn promote(&mut self, index: usize) {
        self.promised = None;
        self.ask(index, &["REPLICAOF", "NO", "ONE"]);
        for other in 0..self.nodes.len() {
            if other != index && self.random.below(2) == 0 {
                self.follow(other, index);
            }
        }
    }

    fn fail_over(&mut self, one: usize, other: usize) {
        let host = format!("10.0.0.{other}");
        let port = PORT.to_string();
        let words: &[&str] = match self.random.below(5) {
            0 => &["FAILOVER", "TIMEOUT", "2000"],
            1 => &["FAILOVER", "TO", &host, &port],
            2 => &["FAILOVER", "ABORT"],
            3 => &["FAILOVER"],
            _ => &["FAILOVER", "TO", &host, &port, "TIMEOUT", "1000", "FORCE"],
        };
        if words.contains(&"FORCE") {
            self.promised = None;
        }
        self.totals.failovers += 1;
        self.ask(one, words);
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

    /// The network is well and no client writes: in a while all have the same.
    fn settle(&mut self) {
        log::info!("---- all is well");
        self.wires.heal();
        for index in 0..self.nodes.len() {
            self.nodes[index].disk.set_weather(Weather::default());
        }
        let deadline_us = self.now_us + QUIET_US_MAX;
        let mut arranged_us = 0;
        while !self.has_settled() {
            if self.now_us > arranged_us + 5_000_000 {
                arranged_us = self.now_us;
                self.arrange();
            }
            self.step(false);
            assert!(self.now_us < deadline_us, "{}", self.differences());
        }
        self.check_promised();
    }

    /// With two primaries, or none, an administrator decides.
    fn arrange(&mut self) {
        if self.nodes.iter().any(|node| !node.is_up()) {
            return;
        }
        for index in 0..self.nodes.len() {
            // A limit that no snapshot comes through is none to settle with.
            self.ask(index, &["CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0"]);
            let reply = self.nodes[index].ask(&["INFO", "replication"]);
            let text = String::from_utf8_lossy(&reply).into_owned();
            if text.contains("master_failover_state:waiting-for-sync") {
                // Without a timeout it waits forever for a replica that is not allowed to come back meanwhile.
                return self.ask(index, &["FAILOVER", "ABORT"]);
            }
            if !text.contains("master_failover_state:no-failover") {
                return;
            }
        }
        let primaries: Vec<usize> = self.primaries();
        let leads_there = |start: usize| {
            let mut at = start;
            for _ in 0..self.nodes.len() {
                match self.nodes[at].primary() {
                    None => return true,
                    Some(next) => at = next,
                }
            }
            false
        };
        if primaries.len() == 1 && (0..self.nodes.len()).all(leads_there) {
            return;
        }
        let first = primaries.first().copied().unwrap_or(0);
        if primaries.len() != 1 {
            self.promised = None;
        }
        self.ask(first, &["REPLICAOF", "NO", "ONE"]);
        for index in (0..self.nodes.len()).filter(|&index| index != first) {
            self.follow(index, first);
        }
    }

    fn primaries(&self) -> Vec<usize> {
        self.nodes.iter().filter(|node| node.primary().is_none()).map(|node| node.index).collect()
    }

    fn has_settled(&mut self) -> bool {
        let is_one = self.nodes.iter().all(Node::is_up) && self.primaries().len() == 1;
        let are_linked = self.nodes.iter().all(|node| node.primary().is_none() || node.is_linked());
        if !is_one || !are_linked || self.clients.iter().any(|client| self.is_owed(client)) {
            return false;
        }
        let digests: Vec<Vec<u8>> =
            self.nodes.iter_mut().map(|node| node.ask(&["DEBUG", "DIGEST"])).collect();
        digests.iter().all(|digest| *digest == digests[0])
    }

    /// It waits for what must come: for no more replicas than there are.
    fn is_owed(&self, client: &Client) -> bool {
        let executor = self.nodes[client.node].executor.as_ref();
        let replicas = executor.map_or(0, |executor| executor.server.observed.replication.replicas.len());
        match client.asked {
            None => false,
            Some((Asked::Wait { replicas: wanted }, _)) => wanted as usize <= replicas,
            Some((Asked::Write { .. } | Asked::Other, _)) => true,
        }
    }

    fn differences(&mut self) -> String {
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

    fn check_promised(&mut self) {
        let primary = self.primaries()[0];
        let promised = self.promised.take();
        let mut found = Vec::new();
        for client in 0..CLIENTS {
            let last = self.last_of(primary, &format!("last:{client}"));
            if let Some(promised) = &promised {
                assert!(
                    last >= promised[client],
                    "{last} of {} of client {client} are left",
                    promised[client]
                );
            }
            found.push(last);
        }
        self.promised = Some(found);
    }
}

fn play(seed: u64) -> Totals {
    let mut network = Network::new(seed);
    let played = catch_unwind(AssertUnwindSafe(|| network.run()));
    if let Err(panic) = played {
        println!("WARMLINE_NETWORK_SEED={seed} plays this again, up to {} ms", network.now_us / 1000);
        resume_unwind(panic);
    }
    network.totals
}

#[test]
fn servers_agree_when_the_network_is_well_again() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = variable("WARMLINE_NETWORK_SEED") {
        log::set_logger(&crate::PRINTED).expect("one test runs");
        log::set_max_level(log::LevelFilter::Debug);
        println!("{:?}", play(seed));
        return;
    }
    let first = variable("WARMLINE_NETWORK_FIRST").unwrap_or(1);
    let episodes = variable("WARMLINE_NETWORK_EPISODES").unwrap_or(EPISODES);
    for seed in first..first + episodes {
        let begun = std::time::Instant::now();
        let totals = play(seed);
        println!("{seed}: {:?} {totals:?}", begun.elapsed());
    }
}
