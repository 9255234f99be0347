//! Crowds of clients and of what they make the server remember for them.

use super::world::{GROWTH, World, computed};
use server::config::Config;
use server::session::ClientHandle;
use std::time::Duration;

/// Members of the smaller crowd.
const MEMBERS: usize = 500;
/// What a cost may differ by that does not depend on the crowd: another step down a tree, a table that grows.
const COST_SLACK: u64 = 64;
/// What a time may differ by; that of a walk over the larger crowd is more.
const TIME_SLACK: Duration = Duration::from_micros(20);

/// As above, of what is about all members and is timed once.
const RELATED_TIME_SLACK: Duration = Duration::from_millis(20);

struct Crowd {
    name: &'static str,
    config: fn() -> Config,
    /// Makes a crowd of this size; returns its clients.
    build: fn(&mut World, usize) -> Vec<ClientHandle>,
    /// Beside the usual, what has nothing to do with it.
    unrelated: &'static [&'static str],
    /// Of all these, what has to do with it after all while it is there.
    excepted: &'static [&'static str],
    /// What is about all of its members, each of whom takes a part of the cost.
    related: fn(&mut World, &[ClientHandle]),
    /// What removes the data that it has left.
    clean: &'static [&'static str],
}

/// For a table of crowds: what they differ in is named.
const PLAIN: Crowd = Crowd {
    name: "",
    config: Config::default,
    build: |world, members| world.connect_many(members),
    unrelated: &[],
    excepted: &[],
    related: |_, _| (),
    clean: &[],
};

/// Commands of an unrelated client.
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

/// A command, the places that it visits, and its shortest time.
type CostOfLine = (&'static str, u64, Duration);

/// What a crowd of one size costs those that have nothing to do with it, and those that have.
struct Costs {
    /// Of each command, while the crowd is there and once it has gone.
    there: Vec<CostOfLine>,
    gone: Vec<CostOfLine>,
    related: u64,
    related_time: Duration,
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
            // The keys that notify the crowd do not exist before and after it.
            let say = |world: &mut World| match USUAL.contains(line) {
                true => world.expect(other, line),
                false => drop(world.say(other, line)),
            };
            say(world);
            (*line, world.cost(say), world.shortest(say))
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
    crowd.clean.iter().for_each(|line| world.expect(other, line));
    let before_bytes = world.used_bytes();
    let handles = (crowd.build)(&mut world, members);
    let taken_bytes = world.used_bytes().saturating_sub(before_bytes);
    let there = measure(&mut world);
    let before = computed();
    let related = world.cost(|world| (crowd.related)(world, &handles));
    let related_time = computed() - before;
    handles.into_iter().for_each(|handle| world.leave(handle));
    crowd.clean.iter().for_each(|line| world.expect(other, line));
    world.advance_ms(1000);
    let gone = measure(&mut world);
    let left_bytes = world.used_bytes().saturating_sub(before_bytes);
    Costs { there, gone, related, related_time, taken_bytes, left_bytes }
}

/// Everything that is wrong with what the crowd costs.
fn faults_of(crowd: &Crowd) -> Vec<String> {
    let (small, large) = (costs_of(crowd, MEMBERS), costs_of(crowd, MEMBERS * GROWTH));
    let mut faults = Vec::new();
    let mut compare = |when: &str, few: &[CostOfLine], many: &[CostOfLine], excepted: &[&str]| {
        for (&(line, few, few_time), &(_, many, many_time)) in few.iter().zip(many) {
            if excepted.contains(&line) {
                continue;
            }
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
    compare("while they are there", &small.there, &large.there, crowd.excepted);
    compare("once they are gone", &small.gone, &large.gone, &[]);
    if large.related > (small.related + COST_SLACK) * GROWTH as u64 * 3 / 2 {
        faults.push(format!("what is about them visits {} places and {}", small.related, large.related));
    }
    if large.related_time > small.related_time * GROWTH as u32 * 4 + RELATED_TIME_SLACK {
        let (few, many) = (small.related_time, large.related_time);
        faults.push(format!("what is about them takes {few:?} and {many:?}"));
    }
    // The tables of clients keep a word for each place.
    if large.left_bytes > large.taken_bytes / 8 + (64 << 10) {
        faults.push(format!("of {} bytes {} stay", large.taken_bytes, large.left_bytes));
    }
    faults.into_iter().map(|fault| format!("{}: {fault}", crowd.name)).collect()
}

/// So many clients, each of whom says this; `{}` is another number for each.
fn clients_that(world: &mut World, members: usize, lines: &[&str]) -> Vec<ClientHandle> {
    let clients = world.connect_many(members);
    for &client in &clients {
        lines.iter().for_each(|line| world.expect(client, line));
    }
    clients
}

/// One client that sends this command `times` times.
fn client_that(world: &mut World, members: usize, line: &str) -> Vec<ClientHandle> {
    let client = world.connect();
    (0..members).for_each(|_| world.expect(client, line));
    vec![client]
}

/// Somebody who says these, and goes.
fn somebody_says(world: &mut World, lines: &[&str]) {
    let client = world.connect();
    lines.iter().for_each(|line| world.expect(client, line));
    world.leave(client);
}

/// Deletes the first entry, and has no space within a word.
const DELETE_FIRST: &str = "EVAL local\tfirst=redis.call('XRANGE','stream','-','+','COUNT',1)[1]\tif\tfirst\t\
    then\tredis.call('XDEL','stream',first[1])end 0";

const GROUP_READ: &str = "XREADGROUP GROUP group consumer CLAIM 1000000 BLOCK 0 STREAMS stream >";

const OF_ANOTHER_USER: &[&str] = &[
    "ACL SETUSER other on nopass allchannels",
    "ACL GETUSER other",
    "ACL SETUSER other resetchannels",
    "ACL DELUSER other",
];

const CROWDS: &[Crowd] = &[
    Crowd { name: "clients", related: |world, _| somebody_says(world, &["CLIENT LIST"]), ..PLAIN },
    Crowd {
        name: "clients that watch the same keys",
        build: |world, members| clients_that(world, members, &["WATCH a b c d"]),
        related: |world, clients| {
            somebody_says(world, &["SET a x"]);
            assert!(clients.iter().all(|&client| world.executor.server.clients[client].watch_broken));
            assert_eq!(world.executor.server.watch.keys(), 0);
        },
        clean: &["DEL a"],
        ..PLAIN
    },
    Crowd {
        name: "clients that watch the same keys, and stop",
        build: |world, members| clients_that(world, members, &["WATCH a b c d"]),
        related: |world, clients| clients.iter().for_each(|&client| world.expect(client, "UNWATCH")),
        ..PLAIN
    },
    Crowd {
        name: "watched keys",
        build: |world, members| client_that(world, members, "WATCH watched:{}"),
        related: |world, clients| world.expect(clients[0], "UNWATCH"),
        ..PLAIN
    },
    Crowd {
        name: "clients in a transaction",
        build: |world, members| clients_that(world, members, &["MULTI", "SET own:{} x"]),
        related: |world, clients| clients.iter().for_each(|&client| world.expect(client, "DISCARD")),
        ..PLAIN
    },
    Crowd {
        name: "listeners of a channel",
        build: |world, members| clients_that(world, members, &["SUBSCRIBE news"]),
        related: |world, _| somebody_says(world, &["PUBLISH news message"]),
        ..PLAIN
    },
    Crowd {
        name: "channels",
        build: |world, members| client_that(world, members, "SUBSCRIBE channel:{}"),
        related: |world, clients| world.expect(clients[0], "UNSUBSCRIBE"),
        ..PLAIN
    },
    Crowd {
        name: "channels of a shard",
        build: |world, members| client_that(world, members, "SSUBSCRIBE channel:{}"),
        related: |world, clients| world.expect(clients[0], "SUNSUBSCRIBE"),
        ..PLAIN
    },
    Crowd {
        name: "patterns",
        build: |world, members| {
            somebody_says(world, &["CONFIG SET notify-keyspace-events KEA"]);
            client_that(world, members, "PSUBSCRIBE pattern:{}:*")
        },
        // Each message is compared with each pattern, and each change is a message here.
        excepted: &[
            "SET other value",
            "INCR counter",
            "LPUSH other-list x",
            "LPOP other-list",
            "XADD other-stream MAXLEN 10 * f v",
            "DEL other",
            "PUBLISH other-channel message",
        ],
        related: |world, clients| world.expect(clients[0], "PUNSUBSCRIBE"),
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for a list where another type is",
        build: |world, members| {
            let clients = clients_that(world, members, &["BLPOP waited 0"]);
            somebody_says(world, &["SET waited 1"]);
            clients
        },
        unrelated: &["INCR waited"],
        related: |world, clients| {
            somebody_says(world, &["DEL waited"]);
            clients.iter().for_each(|_| somebody_says(world, &["RPUSH waited x"]));
            assert_eq!(world.executor.server.blocked.count(), 0);
        },
        clean: &["DEL waited"],
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for a list where a sorted set is",
        build: |world, members| {
            let clients = clients_that(world, members, &["BLPOP waited 0"]);
            somebody_says(world, &["ZADD waited 1 a"]);
            clients
        },
        unrelated: &["ZINCRBY waited 1 a"],
        clean: &["DEL waited"],
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for keys of their own, until a time",
        build: |world, members| clients_that(world, members, &["BLPOP waited:{} 100000"]),
        related: |world, _| {
            world.advance_ms(100_000_000);
            assert_eq!(world.executor.server.blocked.count(), 0);
        },
        ..PLAIN
    },
    Crowd {
        name: "keys that a client waits for",
        build: |world, members| {
            let client = world.connect();
            let names: Vec<String> = (0..members).map(|number| format!("waited:{number}")).collect();
            world.expect(client, &format!("BLPOP {} 0", names.join(" ")));
            vec![client]
        },
        related: |world, _| somebody_says(world, &["RPUSH waited:7 x"]),
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for replicas",
        build: |world, members| clients_that(world, members, &["WAIT 1 0"]),
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for replicas' files",
        build: |world, members| clients_that(world, members, &["WAITAOF 0 1 100000000"]),
        related: |world, _| {
            world.advance_ms(100_000_000);
            assert_eq!(world.executor.server.blocked.count(), 0);
        },
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for what nobody has left pending",
        build: |world, members| {
            somebody_says(world, &["XGROUP CREATE stream group $ MKSTREAM"]);
            clients_that(
                world,
                members,
                &["XREADGROUP GROUP group consumer CLAIM 1 BLOCK 0 STREAMS stream >"],
            )
        },
        clean: &["DEL stream"],
        ..PLAIN
    },
    Crowd {
        name: "clients that wait for what others have left pending",
        build: |world, members| {
            let reader = "XREADGROUP GROUP group reader STREAMS stream >";
            somebody_says(world, &["XADD stream 1-1 f v", "XGROUP CREATE stream group 0", reader]);
            clients_that(world, members, &[GROUP_READ])
        },
        related: |world, clients| {
            world.advance_ms(1_000_000);
            let waiting = world.executor.server.blocked.count();
            assert_eq!(waiting, clients.len() - 1, "one is given the entry, and the others wait on");
        },
        clean: &["DEL stream"],
        ..PLAIN
    },
    Crowd {
        name: "clients that read a stream",
        build: |world, members| {
            somebody_says(world, &["XADD stream 1-1 f v", "XGROUP CREATE stream group 0"]);
            client_that(world, 200, "XADD stream 1-* f v");
            clients_that(world, members, &["XREAD BLOCK 0 STREAMS stream $"])
        },
        unrelated: &[
            "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream 0",
            "XACK stream group 1-1",
            DELETE_FIRST,
        ],
        related: |world, _| {
            somebody_says(world, &["XADD stream 2-1 f v"]);
            assert_eq!(world.executor.server.blocked.count(), 0);
        },
        clean: &["DEL stream"],
        ..PLAIN
    },
    Crowd {
        name: "traced requests that wait",
        build: |world, members| {
            somebody_says(world, &["LATENCY TRACE START EVERY 1"]);
            clients_that(world, members, &["BLPOP waited:{} 0"])
        },
        related: |world, clients| clients.iter().for_each(|&client| world.leave(client)),
        clean: &["LATENCY TRACE STOP", "LATENCY TRACE RESET"],
        ..PLAIN
    },
    Crowd {
        name: "traced requests whose replies are unread",
        build: |world, members| {
            somebody_says(world, &["LATENCY TRACE START EVERY 1"]);
            let clients = world.connect_many(members);
            for &client in &clients {
                world.executor.clock.advance_ms(2);
                world.executor.begin_tick();
                world.run(client, &[b"PING"]);
                world.end_turn();
            }
            world.advance_ms(2);
            clients
        },
        related: |world, clients| {
            world.expect(clients[0], "LATENCY TRACE STOP");
            for &client in clients {
                assert!(world.executor.has_traces_under_way());
                assert!(world.received(client).ends_with(b"+PONG\r\n") || client == clients[0]);
                world.executor.note_written(client);
            }
            world.advance_ms(1);
            assert!(!world.executor.has_traces_under_way(), "all replies have been read");
        },
        clean: &["LATENCY TRACE STOP", "LATENCY TRACE RESET"],
        ..PLAIN
    },
    Crowd {
        name: "scripts that were loaded to stay",
        build: |world, members| {
            client_that(world, members, "SCRIPT LOAD return({})");
            // As many as are kept of those that were not: each that comes has another make room.
            client_that(world, 600, "EVAL return({}) 0")
        },
        unrelated: &["EVAL return({}) 0"],
        related: |world, _| somebody_says(world, &["SCRIPT FLUSH SYNC"]),
        ..PLAIN
    },
    Crowd {
        name: "users with a client each",
        build: |world, members| {
            let clients = world.connect_many(members);
            for (number, &client) in clients.iter().enumerate() {
                world.expect(
                    client,
                    &format!("ACL SETUSER user:{number} on nopass allkeys allchannels +@all"),
                );
                world.expect(client, &format!("AUTH user:{number} x"));
            }
            clients
        },
        unrelated: OF_ANOTHER_USER,
        related: |world, clients| {
            for (number, &client) in clients.iter().enumerate() {
                somebody_says(world, &[&format!("ACL DELUSER user:{number}")]);
                assert!(world.executor.server.clients.get(client).is_none());
            }
        },
        ..PLAIN
    },
    Crowd {
        name: "clients of the same user",
        build: |world, members| {
            somebody_says(world, &["ACL SETUSER user on nopass allkeys allchannels +@all"]);
            clients_that(world, members, &["AUTH user x"])
        },
        unrelated: OF_ANOTHER_USER,
        related: |world, clients| {
            somebody_says(world, &["ACL DELUSER user"]);
            assert!(clients.iter().all(|&client| world.executor.server.clients.get(client).is_none()));
        },
        ..PLAIN
    },
    Crowd {
        name: "prefixes that clients track",
        build: |world, members| {
            clients_that(world, members, &["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX prefix:{}:"])
        },
        unrelated: &["SET prefix:7:x value"],
        clean: &["DEL prefix:7:x"],
        ..PLAIN
    },
    Crowd {
        name: "clients that track the same key",
        build: |world, members| {
            somebody_says(world, &["SET tracked x"]);
            clients_that(world, members, &["HELLO 3", "CLIENT TRACKING ON", "GET tracked"])
        },
        related: |world, _| {
            somebody_says(world, &["DEL tracked"]);
            assert_eq!(world.executor.server.tracking.items(), 0);
        },
        ..PLAIN
    },
];

/// Names of crowds contain this word of the environment, if it is set.
fn is_wanted(crowd: &&Crowd) -> bool {
    std::env::var("CROWD").map_or(true, |word| crowd.name.contains(&word))
}

#[test]
fn what_has_nothing_to_do_with_a_crowd_does_not_pay_for_it() {
    let faults: Vec<String> = CROWDS.iter().filter(is_wanted).flat_map(faults_of).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// After the last traced client has gone, the ends of other clients' waits are not recorded.
#[test]
fn waits_leave_nothing_behind_once_tracing_is_over() {
    let mut world = World::new(Config::default());
    let (other, traced) = (world.connect(), world.connect());
    world.expect(other, "LATENCY TRACE START EVERY 1");
    world.end_turn();
    world.say(traced, "BLPOP list 0");
    world.end_turn();
    assert!(world.executor.server.blocked.notes_ended, "the traced request waits");
    world.expect(other, "LATENCY TRACE STOP");
    world.leave(traced);
    assert!(!world.executor.server.blocked.notes_ended);
}

/// Where the memory of clients is limited, it is known before each command: what was sent to others is counted once.
#[test]
fn what_others_were_sent_is_counted_once() {
    let costs = [MEMBERS, MEMBERS * GROWTH].map(|members| {
        let mut world = World::new(Config::default());
        let other = world.connect();
        world.expect(other, "CONFIG SET maxmemory-clients 1gb");
        let listeners = clients_that(&mut world, members, &["SUBSCRIBE news"]);
        let before_bytes = world.executor.server.clients.memory_bytes();
        world.executor.begin_tick();
        let told = world.cost(|world| world.run(other, &[b"PUBLISH", b"news", &[b'x'; 1000]]));
        let first = world.cost(|world| world.run(other, &[b"PING"]));
        let grown_bytes = world.executor.server.clients.memory_bytes() - before_bytes;
        assert!(grown_bytes > members * 1000, "{grown_bytes} of {members} clients");
        let second = world.cost(|world| world.run(other, &[b"PING"]));
        world.end_turn();
        listeners.into_iter().for_each(|listener| world.leave(listener));
        (told + first, second)
    });
    let [(few_first, few_second), (many_first, many_second)] = costs;
    assert!(many_second <= few_second + COST_SLACK, "{few_second} places, then {many_second}");
    assert!(many_first <= (few_first + COST_SLACK) * GROWTH as u64 * 3 / 2, "{few_first}, {many_first}");
}
