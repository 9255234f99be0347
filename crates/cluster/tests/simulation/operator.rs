//! What happens to the servers: an operator's commands, and failures of machines and of the network.

use cluster::{Cluster, Failover, MigrationRequest, Now, Refusal, SlotState};
use structures::random::Random;
use wire::cluster_bus::{NodeId, SLOTS};

use crate::data::{has_keys, slots_with_keys};
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
    /// Servers crash and fail over.
    has_failures: bool,
}

impl Operator {
    pub fn new(seed: u64, has_failures: bool) -> Operator {
        let random = Random::new(seed ^ 0x6f70_6572_6174_6f72);
        Operator { seed, random, cuts: Vec::new(), down: Vec::new(), primaries: 3, has_failures }
    }

    /// Makes a cluster of three primaries and up to six replicas, as valkey-cli does.
    pub fn create_cluster(&mut self) -> World {
        let hosts = 3 + self.random.index(7);
        let mut world = World::new(self.seed, hosts, self.has_failures);
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
        50 + self.random.below(TIMEOUT_MS * 2 / 3)
    }

    pub fn rests(&mut self) -> bool {
        self.random.below(10) == 0
    }

    /// One accident or command.
    pub fn act(&mut self, world: &mut World) {
        self.end_what_is_over(world);
        let hosts = world.servers.len();
        let host = self.random.index(hosts);
        match self.random.below(32) {
            0..=2 => self.cut(world, host),
            3..=5 if self.has_failures => self.crash(world, host),
            6 => {
                let until = world.now_ms + self.random.below(3 * TIMEOUT_MS);
                world.note(host, "hangs");
                world.servers[host].hangs_until_ms = until;
            }
            7 => world.servers[host].date_offset_ms += self.random.below(120_000) as i64 - 60_000,
            8..=9 => self.change_weather(world),
            10..=12 if self.has_failures => self.fail_over(world, host),
            13..=15 => self.move_slots(world),
            16 => self.replicate_another(world, host),
            17 => {
                world.disk_ms_max = 1 << self.random.below(9);
            }
            18..=25 => {
                for _ in 0..=self.random.index(3) {
                    self.migrate_slots(world);
                }
            }
            26 => {
                // There may be no migrations.
                let cancelled =
                    world.command(host, |cluster, now| cluster.cancel_migrations("", now).is_ok());
                world.note(host, &format!("CANCELSLOTMIGRATIONS {cancelled:?}"));
            }
            27..=28 => self.delete_keys(world, host),
            29..=30 => self.disturb_migrations(world),
            _ => {}
        }
    }

    /// Lets time pass; where the end of a migration is near, an accident is more likely.
    pub fn wait(&mut self, world: &mut World, ms: u64) {
        for _ in 0..ms {
            world.run(1);
            for ends in std::mem::take(&mut world.handovers) {
                if self.random.below(5) == 0 {
                    self.act_at_handover(world, ends);
                }
            }
        }
    }

    /// An accident at the source or at the target of a migration, or between them.
    fn act_at_handover(&mut self, world: &mut World, ends: [Host; 2]) {
        let host = ends[self.random.index(2)];
        match self.random.below(9) {
            0..=1 if self.has_failures => self.crash(world, host),
            2 if self.has_failures => {
                let replica = world.servers.iter().find(|server| server.data.source == Some((host, false)));
                if let Some(replica) = replica.map(|server| server.host) {
                    self.fail_over(world, replica);
                }
            }
            3 => {
                world.note(host, "hangs");
                world.servers[host].hangs_until_ms = world.now_ms + self.random.below(6 * TIMEOUT_MS);
            }
            4 => self.cut(world, host),
            5 => {
                // The grant may arrive, and the claim not.
                let way = if self.random.below(2) == 0 { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
                if world.network.cuts.insert(way) {
                    self.cuts.push((way, world.now_ms + self.random.below(4 * TIMEOUT_MS)));
                }
            }
            6 => world.disk_ms_max = 1 << self.random.below(12),
            7 => {
                // The grant may arrive at a target that hangs.
                world.servers[ends[1]].hangs_until_ms = world.now_ms + self.random.below(6 * TIMEOUT_MS);
                world.note(ends[1], "hangs, and is cut off soon");
                world.run(10);
                self.cut(world, ends[0]);
            }
            _ => self.disturb_migrations(world),
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
        // A server refuses this for slots with keys: those are moved by MIGRATE before.
        let slots: Vec<u16> = cluster.myself().slots().iter().filter(|slot| !has_keys(*slot)).collect();
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

    /// MIGRATESLOTS: some ranges, each from a slot with keys on, or all slots.
    fn migrate_slots(&mut self, world: &mut World) {
        let all = 0..world.servers.len();
        let is_primary = |host: &Host| {
            let cluster = world.servers[*host].cluster.as_ref();
            cluster.is_some_and(|cluster| cluster.myself().is_primary())
        };
        let primaries: Vec<Host> = all.clone().filter(is_primary).collect();
        let hosts = if self.random.below(8) == 0 || primaries.is_empty() { all.collect() } else { primaries };
        let (from, to) = (hosts[self.random.index(hosts.len())], hosts[self.random.index(hosts.len())]);
        let Some(target) = world.servers[to].id.filter(|_| from != to) else { return };
        let Some(cluster) = world.cluster(from) else { return };
        let owned: Vec<u16> = slots_with_keys().filter(|slot| cluster.owns(*slot)).collect();
        if owned.len() < 2 {
            return;
        }
        let ranges = match self.random.below(30) {
            // The source becomes a replica of the target, or a primary without slots.
            0 => cluster.myself().slots().ranges().collect(),
            _ => self.ranges_of(&owned),
        };
        let started = world.command(from, |cluster, now| start_migration(cluster, ranges, target, now));
        world.note(from, &format!("MIGRATESLOTS to R{to}: {started:?}"));
    }

    fn ranges_of(&mut self, owned: &[u16]) -> Vec<(u16, u16)> {
        let mut ranges = Vec::new();
        for _ in 0..=self.random.index(3) {
            let first = owned[self.random.index(owned.len())];
            let last = (first + self.random.below(700) as u16).min(SLOTS - 1);
            let overlaps = |range: &(u16, u16)| range.0 <= last && first <= range.1;
            if !ranges.iter().any(overlaps) {
                ranges.push((first, last));
            }
        }
        ranges
    }

    /// FLUSHSLOT or FLUSHALL, which wait while writes to slots do.
    fn delete_keys(&mut self, world: &mut World, host: Host) {
        let server = &world.servers[host];
        let is_primary = server.cluster.as_ref().is_some_and(|cluster| cluster.myself().is_primary());
        let waits = !server.paused_slots.is_empty() || server.paused_until_ms > Some(world.now_ms);
        if !is_primary || waits || server.hangs_until_ms > world.now_ms {
            return;
        }
        let all = server.data.slots();
        if self.random.below(4) == 0 {
            world.note(host, "FLUSHALL");
            all.iter().for_each(|slot| world.note_deletion(host, *slot));
            world.delete_keys(host, all.into_iter());
            world.command(host, |cluster, now| cluster.fail_migrations("Data was flushed", now));
        } else if !all.is_empty() {
            let is_moving = |slot: &&u16| {
                let mut jobs = server.cluster.iter().flat_map(|cluster| cluster.migrations());
                jobs.any(|job| !job.state().is_finished() && job.slots().contains(**slot))
            };
            let moving: Vec<u16> = all.iter().filter(is_moving).copied().collect();
            let slots = if moving.is_empty() { all } else { moving };
            let slot = slots[self.random.index(slots.len())];
            world.note(host, &format!("FLUSHSLOT {slot}"));
            world.note_deletion(host, slot);
            world.delete_keys(host, [slot].into_iter());
            world.command(host, |cluster, now| cluster.fail_migrations_of(slot, "Data was flushed", now));
        }
    }

    /// Has connections of migrations break or stall.
    fn disturb_migrations(&mut self, world: &mut World) {
        for id in world.links.links.keys().copied().collect::<Vec<_>>() {
            match self.random.below(3) {
                0 => {
                    world.links.break_off(id, world.now_ms, (&world.network, &mut self.random));
                }
                1 => {
                    let until_ms = world.now_ms + self.random.below(6 * TIMEOUT_MS);
                    let link = world.links.links.get_mut(&id);
                    link.into_iter().for_each(|link| link.stalls_until_ms = until_ms);
                }
                _ => {}
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
        world.disk_ms_max = world.disk_ms_max.min(TIMEOUT_MS / 4);
        world.network.cuts.clear();
        self.cuts.clear();
        world.links.links.values_mut().for_each(|link| link.stalls_until_ms = 0);
        for (host, _) in std::mem::take(&mut self.down) {
            world.note(host, "starts");
            world.start(host);
        }
        for host in 0..world.servers.len() {
            world.servers[host].hangs_until_ms = 0;
        }
    }
}

/// MIGRATESLOTS for one target, with the checks of the command.
fn start_migration(
    cluster: &mut Cluster,
    ranges: Vec<(u16, u16)>,
    target: NodeId,
    now: Now,
) -> Result<(), Refusal> {
    cluster.check_may_migrate()?;
    let mut owner = None;
    ranges.iter().try_for_each(|range| cluster.check_range(*range, &mut owner))?;
    cluster.check_export(&ranges, owner)?;
    let target = cluster.find_target(target.as_bytes())?;
    cluster.migrate_slots(vec![MigrationRequest { ranges, target }], "", now);
    Ok(())
}

fn name(state: SlotState<'_>) -> &'static str {
    match state {
        SlotState::Migrating(_) => "MIGRATING",
        SlotState::Importing(_) => "IMPORTING",
        SlotState::Stable => "STABLE",
        SlotState::Node(_) => "NODE",
    }
}
