//! What happens to the servers: an operator's commands, and failures of machines and of the network.

use cluster::{Failover, SlotState};
use structures::random::Random;
use wire::cluster_bus::{NodeId, SLOTS};

use crate::network::{Host, Weather};
use crate::world::{TIMEOUT_MS, World};

pub struct Operator {
    seed: u64,
    random: Random,
    /// Cuts, and when they end.
    cuts: Vec<((Host, Host), u64)>,
    /// Servers that are down, and when they start again.
    down: Vec<(Host, u64)>,
    primaries: usize,
}

impl Operator {
    pub fn new(seed: u64) -> Operator {
        let random = Random::new(seed ^ 0x6f70_6572_6174_6f72);
        Operator { seed, random, cuts: Vec::new(), down: Vec::new(), primaries: 3 }
    }

    /// Makes a cluster of three primaries and up to six replicas, as valkey-cli does.
    pub fn create_cluster(&mut self) -> World {
        let hosts = 3 + self.random.index(7);
        let mut world = World::new(self.seed, hosts);
        for host in 0..hosts {
            world.start(host);
            world.command(host, |cluster, _| cluster.set_config_epoch(host as i64 + 1).unwrap());
        }
        world.run(50);
        for host in 1..hosts {
            let ip = crate::host::address(host).to_string();
            let bus_port = 17_000 + host as u16;
            world.command(0, |cluster, now| cluster.meet(&ip, 7_000, bus_port, "", now).unwrap());
        }
        let step = SLOTS / self.primaries as u16;
        for host in 0..self.primaries {
            let first = host as u16 * step;
            let last = if host + 1 == self.primaries { SLOTS - 1 } else { first + step - 1 };
            world.command(host, |cluster, _| cluster.add_slots(&[(first, last)]).unwrap());
        }
        world.run(5 * TIMEOUT_MS);
        for host in self.primaries..hosts {
            let primary = self.id_of(&mut world, host % self.primaries);
            world.command(host, |cluster, now| {
                cluster.replicate(primary.as_bytes(), true, now).unwrap();
            });
        }
        world.run(3 * TIMEOUT_MS);
        world
    }

    fn id_of(&self, world: &mut World, host: Host) -> NodeId {
        world.cluster(host).expect("it runs").my_id()
    }

    pub fn pause_ms(&mut self) -> u64 {
        50 + self.random.below(TIMEOUT_MS)
    }

    pub fn rests(&mut self) -> bool {
        self.random.below(10) == 0
    }

    /// One accident or command.
    pub fn act(&mut self, world: &mut World) {
        self.end_what_is_over(world);
        let hosts = world.servers.len();
        let host = self.random.index(hosts);
        match self.random.below(20) {
            0..=2 => self.cut(world, host),
            3..=5 => self.crash(world, host),
            6 => {
                let until = world.now_ms + self.random.below(3 * TIMEOUT_MS);
                world.note(host, "hangs");
                world.servers[host].hangs_until_ms = until;
            }
            7 => world.servers[host].date_offset_ms += self.random.below(120_000) as i64 - 60_000,
            8..=9 => self.change_weather(world),
            10..=12 => self.fail_over(world, host),
            13..=16 => self.move_slots(world),
            17 => self.replicate_another(world, host),
            18 => {
                world.disk_ms_max = 1 << self.random.below(9);
            }
            _ => {}
        }
    }

    fn end_what_is_over(&mut self, world: &mut World) {
        let now_ms = world.now_ms;
        self.cuts.retain(|(cut, until)| {
            let stays = *until > now_ms;
            if !stays {
                world.network.cuts.remove(cut);
            }
            stays
        });
        self.down.retain(|(host, until)| {
            let stays = *until > now_ms;
            if !stays {
                world.note(*host, "starts");
                world.start(*host);
            }
            stays
        });
    }

    /// Cuts a server from some others, in one direction or both.
    fn cut(&mut self, world: &mut World, host: Host) {
        let until = world.now_ms + self.random.below(6 * TIMEOUT_MS);
        let (all, both) = (self.random.below(2) == 0, self.random.below(2) == 0);
        for other in 0..world.servers.len() {
            if other == host || !all && self.random.below(2) == 0 {
                continue;
            }
            for cut in [(host, other), (other, host)].into_iter().take(1 + usize::from(both)) {
                if world.network.cuts.insert(cut) {
                    self.cuts.push((cut, until));
                }
            }
        }
        world.note(host, "is cut off");
    }

    fn crash(&mut self, world: &mut World, host: Host) {
        // Most of the time a majority of primaries is left.
        let limit = world.servers.len() / 3 + usize::from(self.random.below(10) == 0);
        if world.servers[host].runs() && self.down.len() < limit.max(1) {
            world.crash(host);
            self.down.push((host, world.now_ms + self.random.below(6 * TIMEOUT_MS)));
        }
    }

    fn change_weather(&mut self, world: &mut World) {
        world.network.weather = match self.random.below(4) {
            0 => Weather::FINE,
            1 => Weather { delay_ms: (0, 50), lost: 10, repeated: 10 },
            2 => Weather { delay_ms: (10, 400), lost: 50, repeated: 50 },
            _ => Weather { delay_ms: (0, TIMEOUT_MS), lost: 200, repeated: 200 },
        };
    }

    fn fail_over(&mut self, world: &mut World, host: Host) {
        let kind = match self.random.below(10) {
            0..=5 => Failover::Agreed,
            6..=8 => Failover::Force,
            _ => Failover::Takeover,
        };
        // It may be no replica.
        let _ = world.command(host, |cluster, now| cluster.failover(kind, "", false, now));
    }

    /// A manual failover of a replica, if there is one.
    pub fn fail_over_agreed(&mut self, world: &mut World) {
        loop {
            let host = self.random.index(world.servers.len());
            let only_primaries = world.servers.len() == self.primaries;
            if only_primaries {
                // Nobody can take over: makes one that can.
                world.figures.manual_failovers += 1;
                return;
            }
            let done = world.command(host, |cluster, now| cluster.failover(Failover::Agreed, "", false, now));
            if done == Some(Ok(())) {
                return;
            }
        }
    }

    pub fn a_primary_with_replicas(&mut self, world: &World) -> Host {
        let servers = world.servers.iter();
        let fits = |server: &&crate::host::Server| {
            server.cluster.as_ref().is_some_and(|cluster| !cluster.myself().replicas().is_empty())
        };
        servers.into_iter().find(fits).map_or(0, |server| server.host)
    }

    /// Moves slots by SETSLOT, as valkey-cli does; sometimes not to the end.
    fn move_slots(&mut self, world: &mut World) {
        let (from, to) = (self.random.index(world.servers.len()), self.random.index(world.servers.len()));
        let is_primary = |world: &World, host: Host| {
            world.servers[host].cluster.as_ref().is_some_and(|cluster| cluster.myself().is_primary())
        };
        if from == to || !is_primary(world, from) || !is_primary(world, to) {
            return;
        }
        let (source, target) = (self.id_of(world, from), self.id_of(world, to));
        if !self.agree(world, from, to) {
            return;
        }
        let cluster = world.cluster(from).expect("it runs");
        let slots: Vec<u16> = cluster.myself().slots().iter().collect();
        let count = (1 + self.random.index(5)).min(slots.len().saturating_sub(1));
        for _ in 0..count {
            let slot = slots[self.random.index(slots.len())];
            world.figures.slot_moves += 1;
            let steps = [
                (to, SlotState::Importing(source.as_bytes())),
                (from, SlotState::Migrating(target.as_bytes())),
                (to, SlotState::Node(target.as_bytes())),
                (from, SlotState::Node(target.as_bytes())),
            ];
            for (host, state) in steps {
                let refused =
                    world.command(host, |cluster, _| cluster.set_slot(slot, state, 0, false).is_err());
                world.note(host, &format!("SETSLOT {slot} {} refused {refused:?}", name(state)));
                let is_lost = refused != Some(false) || !world.wait_for_answer(host);
                if is_lost || self.random.below(30) == 0 {
                    break;
                }
                world.run(self.random.below(5));
            }
        }
    }

    /// Two primaries know each other's epochs: otherwise one of them could move slots that are the other's by a newer
    /// epoch. Tools check this, too.
    fn agree(&self, world: &World, one: Host, other: Host) -> bool {
        let epochs = |host: Host| {
            let cluster = world.servers[host].cluster.as_ref().expect("it runs");
            [one, other].map(|of| {
                let id = world.servers[of].cluster.as_ref().expect("it runs").my_id();
                cluster.node(id).map(|node| cluster.epoch_of(node))
            })
        };
        epochs(one) == epochs(other)
    }

    /// What `valkey-cli --cluster fix` does with slots that no node claims: a primary had to give one up for a newer
    /// epoch of another that was about to give it away.
    pub fn fix(&mut self, world: &mut World) {
        for slot in 0..SLOTS {
            let clusters = || world.servers.iter().filter_map(|server| server.cluster.as_ref());
            if clusters().any(|cluster| cluster.owns(slot)) {
                continue;
            }
            let host = world.servers.iter().position(|server| {
                server.cluster.as_ref().is_some_and(|cluster| cluster.myself().is_primary())
            });
            let Some(host) = host else { return };
            world.figures.slots_fixed += 1;
            world.note(host, &format!("slot {slot} is fixed"));
            world.command(host, |cluster, _| {
                let _ = cluster.delete_slots(&[(slot, slot)]);
                cluster.add_slots(&[(slot, slot)]).unwrap();
                cluster.bump_epoch();
            });
        }
    }

    /// Has a replica replicate from another primary.
    fn replicate_another(&mut self, world: &mut World, host: Host) {
        let other = self.random.index(world.servers.len());
        let Some(id) = world.servers[other].cluster.as_ref().map(|cluster| cluster.my_id()) else { return };
        let is_replica =
            world.servers[host].cluster.as_ref().is_some_and(|cluster| cluster.myself().is_replica());
        if is_replica {
            // It may be no primary.
            let _ = world.command(host, |cluster, now| cluster.replicate(id.as_bytes(), false, now));
        }
    }

    /// Ends all accidents.
    pub fn repair(&mut self, world: &mut World) {
        world.network.weather = Weather::FINE;
        world.network.cuts.clear();
        self.cuts.clear();
        for (host, _) in std::mem::take(&mut self.down) {
            world.note(host, "starts");
            world.start(host);
        }
        for host in 0..world.servers.len() {
            world.servers[host].hangs_until_ms = 0;
        }
    }
}

fn name(state: SlotState<'_>) -> &'static str {
    match state {
        SlotState::Migrating(_) => "MIGRATING",
        SlotState::Importing(_) => "IMPORTING",
        SlotState::Stable => "STABLE",
        SlotState::Node(_) => "NODE",
    }
}
