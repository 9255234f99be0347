//! Simulation of clusters: three to nine servers on a bad network, with slow disks and wrong clocks, that crash, hang,
//! fail over and move slots, with and without their keys, while clients write. Everything follows from a seed, which is printed.
//!
//! Checked all the time: an epoch has at most one winner; a node votes for at most one candidate in an epoch, whatever
//! crashes in between; a manual failover whose primary waits loses no write; the target of a slot migration takes slots with
//! all acknowledged writes, and the source acknowledges none after that; pauses are bounded; no key of another's slot is seen;
//! the machine's own invariants. Checked after everything has been repaired: all slots have an owner, on which all agree;
//! primaries have different epochs; no migration is unfinished, and none has left hidden keys; each acknowledged write exists
//! once, but for those that `ledger` excuses. Half of the seeds have no crashes and failovers, and excuse next to nothing.
//!
//! `WARMLINE_CLUSTER_SEEDS=1000` runs that many seeds in place of a few, `WARMLINE_CLUSTER_SEED=7` those from 7 on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clients;
mod data;
mod host;
mod ledger;
mod link;
mod migration;
mod network;
mod operator;
mod world;

use operator::Operator;
use world::{TIMEOUT_MS, World};

/// Seeds of the everyday run.
const SEEDS: u64 = 10;
/// How long the network is bad.
const CHAOS_MS: u64 = 60_000;
/// How long servers may need to agree after everything has been repaired: 30 node timeouts, which has room for expired
/// elections and for FAIL flags to be cleared.
const REPAIR_MS: u64 = 30 * TIMEOUT_MS;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Waits until all agree.
fn wait_for_agreement(world: &mut World, ms: u64) {
    for _ in 0..ms / 100 {
        if world.disagreement().or_else(|| world.migration_left()).is_none() {
            return;
        }
        world.run(100);
    }
    let what = world.disagreement().or_else(|| world.migration_left()).unwrap_or_default();
    panic!("{}", world.report(&format!("no agreement: {what}")));
}

fn simulate(seed: u64) -> world::Figures {
    let mut operator = Operator::new(seed, seed.is_multiple_of(2));
    let mut world = operator.create_cluster();
    wait_for_agreement(&mut world, REPAIR_MS);
    let mut until_ms = world.now_ms + CHAOS_MS;
    while world.now_ms < until_ms {
        operator.act(&mut world);
        let pause_ms = operator.pause_ms();
        operator.wait(&mut world, pause_ms);
        if operator.rests() {
            // Long enough for elections to be won.
            operator.wait(&mut world, 3 * TIMEOUT_MS);
            until_ms += TIMEOUT_MS;
        }
    }
    operator.repair(&mut world);
    world.run(10 * TIMEOUT_MS);
    operator.fix(&mut world);
    wait_for_agreement(&mut world, REPAIR_MS);
    // And it stays so, but for a replica that has just gone to a primary without one.
    world.run(5 * TIMEOUT_MS);
    wait_for_agreement(&mut world, TIMEOUT_MS);
    world.has_writers = false;
    world.run(10 * TIMEOUT_MS);
    world.check_writes();
    world.figures.writes_excused = world.ledger.excused();
    world.figures
}

#[test]
fn servers_agree_after_chaos() {
    let seeds = match (number("WARMLINE_CLUSTER_SEED"), number("WARMLINE_CLUSTER_SEEDS")) {
        (Some(seed), seeds) => seed..seed + seeds.unwrap_or(1),
        (None, Some(seeds)) => 1_000..1_000 + seeds,
        (None, None) => 1..1 + SEEDS,
    };
    let mut total = world::Figures::default();
    for seed in seeds {
        println!("seed {seed}");
        total.add(simulate(seed));
    }
    println!("{total:?}");
    assert!(total.turns > 0 && total.frames > 0);
    let has_tested = total.elections_won > 0 && total.slot_claims > 0;
    assert!(has_tested || number("WARMLINE_CLUSTER_SEED").is_some(), "nothing was tested: {total:?}");
}

#[test]
fn a_manual_failover_in_fine_weather_loses_no_write() {
    for seed in 1..=5 {
        let mut operator = Operator::new(seed, true);
        let mut world = operator.create_cluster();
        wait_for_agreement(&mut world, REPAIR_MS);
        for _ in 0..3 {
            let before = world.figures.manual_failovers;
            operator.fail_over_agreed(&mut world);
            world.run(2 * TIMEOUT_MS);
            assert_eq!(world.figures.manual_failovers, before + 1, "{}", world.report("no failover"));
            assert_eq!(world.figures.unprotected, 0, "{}", world.report("the old primary did not wait"));
        }
        wait_for_agreement(&mut world, REPAIR_MS);
        // What was acknowledged by any primary is where its slots are now.
        world.has_writers = false;
        world.run(TIMEOUT_MS);
        world.check_writes();
    }
}

#[test]
fn a_primary_that_crashes_is_replaced() {
    for seed in 1..=5 {
        let mut operator = Operator::new(seed, true);
        let mut world = operator.create_cluster();
        wait_for_agreement(&mut world, REPAIR_MS);
        let host = operator.a_primary_with_replicas(&world);
        let before = world.figures.elections_won;
        world.crash(host);
        world.run(5 * TIMEOUT_MS);
        assert_eq!(world.figures.elections_won, before + 1, "{}", world.report("no election"));
        world.start(host);
        wait_for_agreement(&mut world, REPAIR_MS);
        let cluster = world.cluster(host).unwrap();
        assert!(cluster.myself().is_replica(), "{}", world.report("the old primary is no replica"));
    }
}
