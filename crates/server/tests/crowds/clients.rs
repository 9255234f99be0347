//! Crowds of clients and of what they make the server remember for them.

use super::world::{GROWTH, World};
use server::config::Config;
use server::session::ClientHandle;
use std::time::Duration;

/// Members of the smaller crowd.
const MEMBERS: usize = 500;
/// What a cost may differ by that does not depend on the crowd: another step down a tree, a table that grows.
const COST_SLACK: u64 = 64;
/// What a time may differ by; that of a walk over the larger crowd is more.
const TIME_SLACK: Duration = Duration::from_micros(20);

struct Crowd {
    name: &'static str,
    config: fn() -> Config,
    /// Makes a crowd of so many.
    build: fn(&mut World, usize) -> Vec<ClientHandle>,
    /// Beside the usual, what has nothing to do with it.
    unrelated: &'static [&'static str],
    /// What is about all of its members, each of whom takes a part of the cost.
    related: fn(&mut World, &[ClientHandle]),
}

/// What any client may ask for, whoever else is there.
const USUAL: &[&str] = &[
    "PING",
    "SET other value",
    "GET other",
    "INCR counter",
    "LPUSH other-list x",
    "LPOP other-list",
    "XADD other-stream MAXLEN 10 * f v",
    "DEL other",
    "PUBLISH other-channel message",
    "SUBSCRIBE other-channel",
    "UNSUBSCRIBE other-channel",
    "WATCH other",
    "UNWATCH",
];

/// What a crowd of one size costs those that have nothing to do with it, and those that have.
struct Costs {
    /// Of each command, while the crowd is there and once it has gone.
    there: Vec<(&'static str, u64, Duration)>,
    gone: Vec<(&'static str, u64, Duration)>,
    related: u64,
    /// Memory that the crowd takes, and that is left of it.
    taken_bytes: u64,
    left_bytes: u64,
}

fn costs_of(crowd: &Crowd, members: usize) -> Costs {
    let mut world = World::new((crowd.config)());
    let other = world.connect();
    let mut lines = USUAL.to_vec();
    lines.extend(crowd.unrelated);
    let measure = |world: &mut World| -> Vec<_> {
        let line_costs = lines.iter().map(|line| {
            world.expect(other, line);
            let cost = world.cost(|world| world.expect(other, line));
            (*line, cost, world.shortest(|world| world.expect(other, line)))
        });
        let mut costs: Vec<_> = line_costs.collect();
        let cost = world.cost(|world| world.advance_ms(1));
        costs.push(("a turn without requests", cost, world.shortest(|world| world.advance_ms(1))));
        let passer_by = |world: &mut World| {
            let client = world.connect();
            world.leave(client);
        };
        costs.push(("a client that comes and goes", world.cost(passer_by), world.shortest(passer_by)));
        costs
    };
    measure(&mut world);
    let before_bytes = world.used_bytes();
    let handles = (crowd.build)(&mut world, members);
    let taken_bytes = world.used_bytes().saturating_sub(before_bytes);
    let there = measure(&mut world);
    let related = world.cost(|world| (crowd.related)(world, &handles));
    handles.into_iter().for_each(|handle| world.leave(handle));
    world.advance_ms(1000);
    let gone = measure(&mut world);
    let left_bytes = world.used_bytes().saturating_sub(before_bytes);
    Costs { there, gone, related, taken_bytes, left_bytes }
}

/// Everything that is wrong with what the crowd costs.
fn faults_of(crowd: &Crowd) -> Vec<String> {
    let (small, large) = (costs_of(crowd, MEMBERS), costs_of(crowd, MEMBERS * GROWTH));
    let mut faults = Vec::new();
    let mut compare = |when: &str, few: &[(&str, u64, Duration)], many: &[(&str, u64, Duration)]| {
        for (&(line, few, few_time), &(_, many, many_time)) in few.iter().zip(many) {
            if many > few + COST_SLACK {
                faults.push(format!(
                    "{when}, {line:?} visits {few} places and {many} with {GROWTH} times as many"
                ));
            }
            if many_time > few_time * 4 + TIME_SLACK {
                faults.push(format!("{when}, {line:?} takes {few_time:?} and {many_time:?}"));
            }
        }
    };
    compare("while they are there", &small.there, &large.there);
    compare("once they are gone", &small.gone, &large.gone);
    if large.related > (small.related + COST_SLACK) * GROWTH as u64 * 3 / 2 {
        faults.push(format!("what is about them visits {} places and {}", small.related, large.related));
    }
    // The tables of clients keep a word for each place.
    if large.left_bytes > large.taken_bytes / 8 + (64 << 10) {
        faults.push(format!("of {} bytes {} stay", large.taken_bytes, large.left_bytes));
    }
    faults.into_iter().map(|fault| format!("{}: {fault}", crowd.name)).collect()
}

const CROWDS: &[Crowd] = &[Crowd {
    name: "clients that watch the same keys",
    config: Config::default,
    build: |world, members| {
        let clients = world.connect_many(members);
        clients.iter().for_each(|&client| world.expect(client, "WATCH a b c d"));
        clients
    },
    unrelated: &[],
    related: |world, clients| {
        let setter = world.connect();
        world.expect(setter, "SET a x");
        world.leave(setter);
        assert!(clients.iter().all(|&client| world.executor.server.clients[client].watch_broken));
    },
}];

#[test]
fn what_has_nothing_to_do_with_a_crowd_does_not_pay_for_it() {
    let faults: Vec<String> = CROWDS.iter().flat_map(faults_of).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
