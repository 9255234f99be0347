//! What is held for a client beyond its connection.

use super::world::World;
use server::session::ClientHandle;

/// How many of whatever it is.
const COUNT: usize = 2000;
/// How long their names are: where the name is nearly all, and where it is next to nothing.
const LONG: usize = 600;
const SHORT: usize = 12;
/// By what share of what was allocated `tot-mem` may differ: hash tables and trees are more or less full.
const TOLERANCE: usize = 3;
/// Buffers and tables that the server keeps for the next client, whatever that asks for.
const KEPT_BYTES: usize = 64 * 1024;
/// The same once the client has let go: what its own replies were written to is there for a while. A table of the names would
/// take more.
const LEFT_BYTES_MAX: usize = 160 * 1024;

/// A world with the client that is to hold something, and another.
struct Stage {
    world: World,
    holder: ClientHandle,
    other: ClientHandle,
    name_bytes: usize,
}

impl Stage {
    fn names(&self) -> Vec<Vec<u8>> {
        let width = self.name_bytes;
        (0..COUNT).map(|number| format!("{number:0width$}").into_bytes()).collect()
    }

    /// The holder's command, with all names among its words.
    fn with_names(&mut self, before: &str, behind: &str) {
        let names = self.names();
        self.with(before, &names, behind);
    }

    fn with(&mut self, before: &str, names: &[Vec<u8>], behind: &str) {
        let words = |line: &'static str| line.split(' ').filter(|word| !word.is_empty());
        let (before, behind) = (before.to_owned().leak(), behind.to_owned().leak());
        let mut all: Vec<&[u8]> = words(before).map(str::as_bytes).collect();
        all.extend(names.iter().map(Vec::as_slice));
        all.extend(words(behind).map(str::as_bytes));
        self.world.ask(self.holder, &all);
    }

    fn say(&mut self, line: &str) {
        self.world.say(self.holder, line);
    }

    fn other_says(&mut self, line: &str) {
        self.world.say(self.other, line);
    }

    fn queue(&mut self, command: &str) {
        self.say("MULTI");
        for name in self.names() {
            self.world.ask(self.holder, &[command.as_bytes(), &name]);
        }
    }
}

type Act = fn(&mut Stage);

struct Holding {
    name: &'static str,
    /// What is there before it holds anything.
    prepare: Act,
    hold: Act,
    /// Ways in which it is let go.
    releases: &'static [(&'static str, Act)],
    /// How much more than what was allocated counts: names that others hold too count for each.
    counts_shared: bool,
}

impl Holding {
    const fn new(name: &'static str, hold: Act, releases: &'static [(&'static str, Act)]) -> Holding {
        Holding { name, prepare: |_| (), hold, releases, counts_shared: false }
    }
}

/// A long text, which is most of what a client with one of them holds.
fn long_text() -> Vec<u8> {
    vec![b'x'; COUNT * LONG]
}

const TIME_OUT: (&str, Act) = ("its time is up", |stage| {
    stage.world.pass_ms(1200);
    stage.world.receive(stage.holder);
});

const HOLDINGS: &[Holding] = &[
    Holding::new(
        "watched keys",
        |stage| stage.with_names("WATCH", ""),
        &[
            ("UNWATCH", |stage| stage.say("UNWATCH")),
            ("EXEC", |stage| ["MULTI", "EXEC"].iter().for_each(|line| stage.say(line))),
            ("DISCARD", |stage| ["MULTI", "DISCARD"].iter().for_each(|line| stage.say(line))),
        ],
    ),
    Holding::new(
        "queued commands",
        |stage| stage.queue("GET"),
        &[("EXEC", |stage| stage.say("EXEC")), ("DISCARD", |stage| stage.say("DISCARD"))],
    ),
    Holding::new(
        "channels",
        |stage| stage.with_names("SUBSCRIBE", ""),
        &[("UNSUBSCRIBE", |stage| stage.say("UNSUBSCRIBE"))],
    ),
    Holding::new(
        "patterns",
        |stage| stage.with_names("PSUBSCRIBE", ""),
        &[("PUNSUBSCRIBE", |stage| stage.say("PUNSUBSCRIBE"))],
    ),
    Holding::new(
        "channels of a shard",
        |stage| stage.with_names("SSUBSCRIBE", ""),
        &[("SUNSUBSCRIBE", |stage| stage.say("SUNSUBSCRIBE"))],
    ),
    Holding::new(
        "tracked prefixes",
        |stage| {
            for name in stage.names() {
                stage.world.ask(
                    stage.holder,
                    &[b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", name.as_slice()],
                );
            }
        },
        &[("CLIENT TRACKING OFF", |stage| stage.say("CLIENT TRACKING OFF"))],
    ),
    Holding::new(
        "tracked keys",
        |stage| {
            stage.say("CLIENT TRACKING ON");
            stage.with_names("MGET", "");
        },
        &[
            ("CLIENT TRACKING OFF", |stage| {
                stage.say("CLIENT TRACKING OFF");
                stage.world.pass_ms(1000);
            }),
            ("FLUSHALL", |stage| {
                stage.other_says("FLUSHALL");
                stage.world.receive(stage.holder);
            }),
        ],
    ),
    Holding::new(
        "keys that BLPOP waits for",
        |stage| stage.with_names("BLPOP", "1"),
        &[
            TIME_OUT,
            ("CLIENT UNBLOCK", |stage| {
                let id = stage.world.executor.server.clients[stage.holder].id;
                stage.other_says(&format!("CLIENT UNBLOCK {id}"));
                stage.world.receive(stage.holder);
            }),
            ("an element comes", |stage| {
                let key = stage.names().pop().unwrap();
                stage.world.ask(stage.other, &[b"RPUSH", &key, b"x"]);
                stage.world.receive(stage.holder);
            }),
        ],
    ),
    Holding::new(
        "keys that BLMPOP waits for",
        |stage| stage.with_names("BLMPOP 1 2000", "LEFT"),
        &[TIME_OUT],
    ),
    Holding::new("keys that BZPOPMIN waits for", |stage| stage.with_names("BZPOPMIN", "1"), &[TIME_OUT]),
    Holding::new("keys that BZMPOP waits for", |stage| stage.with_names("BZMPOP 1 2000", "MIN"), &[TIME_OUT]),
    Holding::new(
        "keys that XREAD waits for",
        |stage| {
            let ids = " $".repeat(COUNT);
            stage.with_names("XREAD BLOCK 1000 STREAMS", ids.trim());
        },
        &[TIME_OUT],
    ),
    Holding {
        name: "keys that XREADGROUP waits to claim of",
        prepare: |stage| {
            for name in stage.names() {
                stage.world.ask(stage.other, &[b"XGROUP", b"CREATE", &name, b"group", b"$", b"MKSTREAM"]);
                stage.world.ask(stage.other, &[b"XGROUP", b"CREATECONSUMER", &name, b"group", b"consumer"]);
            }
        },
        hold: |stage| {
            let ids = " >".repeat(COUNT);
            let before = "XREADGROUP GROUP group consumer BLOCK 1000 CLAIM 100000 STREAMS";
            stage.with_names(before, ids.trim());
        },
        releases: &[TIME_OUT],
        counts_shared: false,
    },
    Holding::new(
        "a long argument of a command that waits for a pause to end",
        |stage| {
            stage.other_says("CLIENT PAUSE 1000000 WRITE");
            stage.with("SETRANGE key -1", &[long_text()], "");
        },
        &[("CLIENT UNPAUSE", |stage| {
            stage.other_says("CLIENT UNPAUSE");
            stage.world.receive(stage.holder);
        })],
    ),
    Holding::new(
        "unsent replies",
        |stage| stage.world.tell(stage.holder, &[b"ECHO", &long_text()]),
        &[("they are sent", |stage| stage.world.receive(stage.holder))],
    ),
    Holding::new(
        "unsent messages",
        |stage| {
            stage.say("SUBSCRIBE channel");
            for name in stage.names() {
                stage.world.ask(stage.other, &[b"PUBLISH", b"channel", &name]);
            }
        },
        &[("they are sent", |stage| stage.world.receive(stage.holder))],
    ),
    Holding::new(
        "what MONITOR shows",
        |stage| {
            stage.say("MONITOR");
            for name in stage.names() {
                stage.world.ask(stage.other, &[b"GET", &name]);
            }
        },
        &[("it is sent", |stage| stage.world.receive(stage.holder))],
    ),
    Holding::new(
        "a name",
        |stage| stage.with("CLIENT SETNAME", &[long_text()], ""),
        &[("another name", |stage| stage.say("CLIENT SETNAME x"))],
    ),
    Holding::new(
        "the name of a library",
        |stage| stage.with("CLIENT SETINFO LIB-NAME", &[long_text()], ""),
        &[("another name", |stage| stage.say("CLIENT SETINFO LIB-NAME x"))],
    ),
    Holding {
        name: "keys that others wait for as well",
        prepare: |_| (),
        hold: |stage| {
            let names = stage.names();
            let mut words: Vec<&[u8]> = vec![b"BLPOP"];
            words.extend(names.iter().map(Vec::as_slice));
            words.push(b"0");
            stage.world.ask(stage.other, &words);
            stage.with_names("BLPOP", "1");
        },
        releases: &[],
        counts_shared: true,
    },
];

/// A world in which what the server keeps for all is there already.
fn stage(name_bytes: usize) -> Stage {
    let mut world = World::new();
    let (holder, other) = (world.connect(), world.connect());
    for client in [holder, other] {
        for line in ["PING", "WATCH key", "UNWATCH", "SUBSCRIBE channel", "UNSUBSCRIBE channel"] {
            world.say(client, line);
        }
    }
    world.pass_ms(200);
    Stage { world, holder, other, name_bytes }
}

/// Everything that is wrong with what is counted and given back.
fn faults_of(holding: &Holding) -> Vec<String> {
    let mut faults = Vec::new();
    for name_bytes in [LONG, SHORT] {
        let mut ways: Vec<Option<&(&str, Act)>> = holding.releases.iter().map(Some).collect();
        ways.push(None);
        for way in ways {
            let mut stage = stage(name_bytes);
            (holding.prepare)(&mut stage);
            let (used_before, counted_before) =
                (stage.world.used_bytes(), stage.world.counted_bytes(stage.holder));
            (holding.hold)(&mut stage);
            let used = stage.world.used_bytes().saturating_sub(used_before);
            let counted = stage.world.counted_bytes(stage.holder).saturating_sub(counted_before);
            let slack = used / TOLERANCE + KEPT_BYTES;
            if counted + slack < used || counted > used + slack && !holding.counts_shared {
                faults.push(format!("with names of {name_bytes}: {counted} counted, {used} allocated"));
            }
            let what = match way {
                Some((what, release)) => {
                    release(&mut stage);
                    let counted = stage.world.counted_bytes(stage.holder);
                    if counted > counted_before + counted_before / 2 {
                        faults.push(format!("after {what}, {counted} are counted, {counted_before} before"));
                    }
                    what
                }
                None if name_bytes == SHORT || holding.counts_shared => continue,
                None => {
                    stage.world.limit_clients(used / 2);
                    stage.world.pass_ms(1000);
                    if stage.world.is_connected(stage.holder) || !stage.world.is_connected(stage.other) {
                        faults.push("it is not closed although all hold too much".to_owned());
                    }
                    "its client is evicted"
                }
            };
            let left = stage.world.used_bytes().saturating_sub(used_before);
            if left > LEFT_BYTES_MAX {
                faults.push(format!("after {what}, {left} of {used} bytes are left"));
            }
        }
    }
    faults.into_iter().map(|fault| format!("{}: {fault}", holding.name)).collect()
}

#[test]
fn what_a_client_makes_the_server_hold_is_counted_limited_and_given_back() {
    let faults: Vec<String> = HOLDINGS.iter().flat_map(faults_of).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// CLIENT LIST shows unsent output in whole chunks (`omem`), which are part of the sum (`tot-mem`).
#[test]
fn unsent_output_that_is_shown_is_part_of_the_sum() {
    let mut stage = stage(SHORT);
    for len in (16_000..80_000).step_by(1000) {
        stage.world.tell(stage.holder, &[b"ECHO", &vec![b'x'; len]]);
        stage.world.tell(stage.other, &[b"CLIENT", b"LIST"]);
        let list = stage.world.executor.server.clients[stage.other].output.take().copy_from(0);
        let list = String::from_utf8(list).unwrap();
        let holder = list.lines().find(|line| line.contains("cmd=echo")).unwrap();
        let field = |name: &str| -> usize {
            let value = holder.split(' ').find_map(|word| word.strip_prefix(name)).unwrap();
            value.parse().unwrap()
        };
        let (shown, sum) = (field("omem="), field("tot-mem="));
        assert!(shown <= sum && (shown > 0 || len < 17_000), "{len} unsent bytes: {holder}");
        stage.world.receive(stage.holder);
    }
}

/// The same name again and again is held once.
#[test]
fn a_key_that_is_named_often_is_held_once() {
    let mut stage = stage(SHORT);
    let names = vec![vec![b'k'; 2000]; COUNT];
    let used_before = stage.world.used_bytes();
    stage.with("BLPOP", &names, "0");
    let used = stage.world.used_bytes() - used_before;
    assert!(used < COUNT * 2000 / 20, "{used}");
}
