//! Several servers in one process, with connections that are late, stall, are blocked and cut, and servers that stop,
//! lose power and are given other roles; all of it from a seed.
//!
//! ```text
//! WARMLINE_NETWORK_EPISODES=n cargo test -p warmline-server --test simulation network   seeds 1 to n
//! WARMLINE_NETWORK_FIRST=n cargo test -p warmline-server --test simulation network      seeds from n on
//! WARMLINE_NETWORK_SEED=n cargo test -p warmline-server --test simulation network       one episode again, with its log
//! ```
//!
//! Checked in every episode:
//!
//! 1. When the network is well and no client writes, all servers have the primary's data after a while, by its digest, and
//!    the same offset.
//! 2. Replicas have the writes that WAIT has counted, unless they were stopped or have loaded another snapshot; the replica
//!    with the highest offset has them when it replaces a lost primary.
//! 3. A primary keeps the writes that it has accepted while it runs and keeps its role; a FAILOVER that waits for the
//!    replica loses none either.
//! 4. A transaction or script is applied whole: no replica shows half of it.
//! 5. An idle server runs its timers only, keeps its links, and sends only PINGs.
//! 6. A stream continues at the replica's offset: no replica receives a stream that it cannot apply.
//! 7. Each client is answered, or finds its connection closed. When the network is well, replicas acknowledge a write at
//!    once, and WAIT asks them once.

mod checks;
mod client;
mod node;
mod troubles;
mod wires;

use crate::world::{End as ProcessEnd, Weather};
use client::{Asked, Client};
use node::{Attempt, Context, Node, PORT, node_of};
use server::config::{Config, ProtectedAction, ReplDisklessLoad, SavePoint};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use structures::random::Random;
use troubles::Trouble;
use wires::Wires;

const CLIENTS: usize = 4;
/// How long there is trouble, and how long it may take until all is well.
const TROUBLE_US_MAX: u64 = 8_000_000;
const QUIET_US_MAX: u64 = 90_000_000;
/// Time without failures before the checks: a lost connection is noticed later.
const CALM_US: u64 = 2_000_000;
/// Turns of the loop at one instant in which nothing passes.
const IDLE_TURNS_MAX: u32 = 1000;
/// Connections that a server begins within ten seconds.
const ATTEMPTS_MAX: usize = 150;
const EPISODES: u64 = 12;

/// What has come of all that was tried.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    requests: u64,
    acknowledged: u64,
    turns: u64,
    full_syncs: u64,
    partial_syncs: u64,
    failovers: u64,
    replaced: u64,
    crashes: u64,
    attempts: u64,
    rest_turns_max: u64,
    acknowledged_us_max: u64,
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
    /// Servers that will follow another, and when: until then they have another primary's stream.
    to_follow: Vec<(u64, usize, usize)>,
    idle_turns: Vec<u32>,
    /// The highest number of each client that the primary has accepted; `None`: its role has been given away, or it was
    /// stopped.
    promised: Option<Vec<u64>>,
    /// What goes wrong for now, and how often.
    troubles: Vec<Trouble>,
    trouble_us: u64,
    totals: Totals,
}

fn config_of(random: &mut Random) -> Config {
    let load = [ReplDisklessLoad::Disabled, ReplDisklessLoad::SwapDb, ReplDisklessLoad::FlushBeforeLoad];
    Config {
        port: PORT,
        hz: [2, 10][random.below(2) as usize],
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
            to_follow: Vec::new(),
            idle_turns: vec![0; count],
            promised: Some(vec![0; CLIENTS]),
            troubles: Vec::new(),
            trouble_us: 0,
            totals: Totals::default(),
            nodes,
            random,
        }
    }

    fn run(&mut self) {
        for _ in 0..3 {
            let end_us = self.now_us + self.random.below(TROUBLE_US_MAX);
            self.trouble_us = 30_000 + self.random.below(800_000);
            self.choose_troubles();
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
            self.follow_due();
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
        self.nodes[index].turns += 1;
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
        self.check_log(index);
        self.hear_from(index);
        if self.random.below(8) == 0 {
            self.check_whole(index);
        }
    }

    fn note_attempt(&mut self, index: usize) {
        self.totals.attempts += 1;
        let now_us = self.now_us;
        let begun = &mut self.begun[index];
        begun.retain(|&begun_us| begun_us + 10_000_000 > now_us);
        begun.push(now_us);
        assert!(begun.len() < ATTEMPTS_MAX, "server {index} connects again and again");
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

    /// The network is well and no client writes: in a while all have the same, and stay so.
    fn settle(&mut self) {
        log::info!("---- all is well");
        self.to_follow.clear();
        self.wires.heal();
        for index in 0..self.nodes.len() {
            self.nodes[index].disk.set_weather(Weather::default());
        }
        let deadline_us = self.now_us + QUIET_US_MAX;
        let mut arranged_us = 0;
        let mut settled_us = None;
        while settled_us.is_none_or(|settled_us| self.now_us < settled_us + CALM_US) || !self.has_settled() {
            if self.now_us > arranged_us + 5_000_000 {
                arranged_us = self.now_us;
                self.arrange();
            }
            self.step(false);
            match settled_us {
                None if self.has_settled() => settled_us = Some(self.now_us),
                Some(since_us) if self.now_us >= since_us + CALM_US && !self.has_settled() => {
                    settled_us = None
                }
                _ => {}
            }
            assert!(self.now_us < deadline_us, "{}", self.differences());
        }
        self.check_promised();
        self.check_rest();
        self.check_writes();
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
                self.ask(index, &["FAILOVER", "ABORT"]);
                return;
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
        // Any of them: the others may have more of a former primary's stream than it has in common with them.
        let first = match primaries.len() as u64 {
            0 => 0,
            count => primaries[self.random.below(count) as usize],
        };
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
        if !is_one || !are_linked || self.has_failover() {
            return false;
        }
        let is_behind = |index| self.offset_of(index) != self.offset_of(0);
        if (1..self.nodes.len()).any(is_behind) || self.clients.iter().any(|client| self.is_owed(client)) {
            return false;
        }
        let digests: Vec<Vec<u8>> =
            self.nodes.iter_mut().map(|node| node.ask(&["DEBUG", "DIGEST"])).collect();
        digests.iter().all(|digest| *digest == digests[0])
    }

    /// It waits for what must come: for no more replicas than there are, and for none where none may be waited for.
    fn is_owed(&self, client: &Client) -> bool {
        let executor = self.nodes[client.node].executor.as_ref();
        let replicas = executor.map_or(0, |executor| executor.server.observed.replication.replicas.len());
        match client.asked {
            None => false,
            Some((Asked::Wait { .. }, _)) if self.nodes[client.node].primary().is_some() => true,
            Some((Asked::Wait { replicas: wanted }, _)) => wanted as usize <= replicas,
            Some((Asked::Write { .. } | Asked::Other, _)) => true,
        }
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
        crate::listen(log::LevelFilter::Debug);
        println!("{:?}", play(seed));
        return;
    }
    crate::listen(log::LevelFilter::Warn);
    let first = variable("WARMLINE_NETWORK_FIRST").unwrap_or(1);
    let episodes = variable("WARMLINE_NETWORK_EPISODES").unwrap_or(EPISODES);
    for seed in first..first + episodes {
        let begun = std::time::Instant::now();
        let totals = play(seed);
        println!("{seed}: {:?} {totals:?}", begun.elapsed());
    }
}
