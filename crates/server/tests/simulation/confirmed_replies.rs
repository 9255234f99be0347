//! Replies under `appendfsync always`: those that show what is not on disk wait, all others are sent at once.

use crate::world::{Disk, End};
use crate::{connect, server_of};
use server::command::args::OwnedArgs;
use server::config::{AppendFsync, Config};
use server::engine::{Executor, confirmation};
use server::session::ClientHandle;
use server::sys::world::World;
use std::sync::Arc;

/// Looks at the disk until a stalled fsync ends: more than any test makes.
const FOR_LONG: u64 = 5000;

struct Server {
    disk: Arc<Disk>,
    executor: Box<Executor>,
    now_us: u64,
}

fn config() -> Config {
    Config {
        appendonly: true,
        appendfsync: AppendFsync::Always,
        auto_aof_rewrite_percentage: 0,
        save: Vec::new(),
        ..Config::default()
    }
}

impl Server {
    fn on(disk: Arc<Disk>) -> Server {
        let mut executor = Box::new(server_of(config(), 0));
        executor.move_to(World::of(disk.clone()));
        disk.set_time(0);
        executor.begin_loading().unwrap();
        while executor.is_loading() {
            executor.begin_tick();
            executor.load_step().unwrap();
            executor.end_tick();
        }
        Server { disk, executor, now_us: 0 }
    }

    fn client(&mut self) -> ClientHandle {
        connect(&mut self.executor)
    }

    /// Runs a turn of the event loop with these commands; returns what each client is sent at its end.
    fn turn<const N: usize>(&mut self, commands: [(ClientHandle, &str); N]) -> [String; N] {
        self.executor.begin_tick();
        for (client, command) in commands {
            let args = OwnedArgs::new(command.split(' ').map(str::as_bytes));
            self.executor.execute(client, args.view());
        }
        self.executor.run_timers();
        self.executor.end_tick();
        let sent = commands.map(|(client, _)| self.receive(client));
        self.executor.server.clients.with_output.clear();
        sent
    }

    /// What a client is sent at the end of a turn.
    fn receive(&mut self, client: ClientHandle) -> String {
        confirmation::release(&mut self.executor, client);
        let client = &mut self.executor.server.clients[client];
        client.output_pending = false;
        String::from_utf8_lossy(&client.output.take().copy_from(0)).into_owned()
    }

    /// Lets what is under way on the disk end, in a turn without commands.
    fn settle(&mut self) {
        self.disk.stall(0);
        for _ in 0..3 {
            self.now_us += 100_000;
            self.executor.clock.advance_ms(100);
            self.disk.set_time(self.now_us);
            let [] = self.turn([]);
        }
    }
}

fn stalled() -> (Server, ClientHandle, ClientHandle) {
    let mut server = Server::on(Arc::new(Disk::new(1)));
    let (writer, other) = (server.client(), server.client());
    server.turn([(writer, "SET old 1"), (other, "PING")]);
    server.settle();
    server.receive(writer);
    server.disk.stall(FOR_LONG);
    (server, writer, other)
}

#[test]
fn a_write_is_answered_when_it_is_on_disk() {
    let (mut server, writer, other) = stalled();
    let sent = server.turn([(writer, "SET key 1"), (other, "GET old")]);
    assert_eq!(sent, ["", "$1\r\n1\r\n"], "reads of other keys do not wait");
    assert_eq!(server.turn([(writer, "GET old"), (other, "PING")]), ["", "+PONG\r\n"]);
    server.settle();
    assert_eq!(server.receive(writer), "+OK\r\n$1\r\n1\r\n", "replies stay in order");
    assert!(!confirmation::is_pending(&server.executor));
}

#[test]
fn what_shows_an_unsynced_change_waits() {
    let reads = [
        "GET key",
        "MGET old key",
        "EXISTS key",
        "DBSIZE",
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "SORT_RO list BY nosort GET *",
        "EVAL return{redis.call('GET',KEYS[1])} 1 key",
        "EVAL return{redis.call('GET','key')} 0",
        "SETNX key 2",
        "SET key 3 GET",
        "OBJECT ENCODING key",
        "DUMP key",
    ];
    for read in reads {
        let (mut server, writer, other) = stalled();
        let [_, sent] = server.turn([(writer, "SET key 1"), (other, read)]);
        assert_eq!(sent, "", "{read}, in the same turn");
        let [_, sent] = server.turn([(writer, "PING"), (other, "PING")]);
        assert_eq!(sent, "", "what follows {read} waits with it");
        server.settle();
        assert!(server.receive(other).ends_with("+PONG\r\n"), "{read}");
        assert!(server.receive(writer).starts_with("+OK\r\n"));
    }
}

#[test]
fn flushes_and_swaps_change_all_keys() {
    for change in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        let (mut server, writer, other) = stalled();
        assert_eq!(server.turn([(writer, change), (other, "GET old")]), ["", ""], "{change}");
        server.settle();
        assert_eq!(server.receive(other), "$-1\r\n", "{change}");
        assert_eq!(server.receive(writer), "+OK\r\n", "{change}");
    }
}

#[test]
fn transactions_and_scripts_wait_for_what_they_changed() {
    let (mut server, writer, other) = stalled();
    server.turn([(writer, "MULTI"), (other, "PING")]);
    server.turn([(writer, "SET key 1"), (other, "PING")]);
    let sent = server.turn([(writer, "EXEC"), (other, "EVAL return{redis.call('INCR',KEYS[1])} 1 n")]);
    assert_eq!(sent, ["", ""]);
    server.settle();
    assert_eq!(server.receive(writer), "*1\r\n+OK\r\n");
    assert_eq!(server.receive(other), "*1\r\n:1\r\n");
}

#[test]
fn messages_about_a_change_wait() {
    let (mut server, writer, other) = stalled();
    let (blocked, tracking) = (server.client(), server.client());
    server.turn([(other, "CONFIG SET notify-keyspace-events KEA")]);
    server.turn([(other, "SUBSCRIBE __keyevent@0__:set"), (blocked, "BLPOP list 0")]);
    server.turn([(tracking, "HELLO 3")]);
    server.turn([(tracking, "CLIENT TRACKING ON")]);
    server.turn([(tracking, "GET key")]);
    let sent =
        server.turn([(writer, "RPUSH list a"), (writer, "SET key 1"), (other, "PING"), (blocked, "PING")]);
    assert_eq!(sent, ["", "", "", ""]);
    assert_eq!(server.receive(tracking), "");
    server.settle();
    assert_eq!(server.receive(writer), ":1\r\n+OK\r\n");
    assert!(server.receive(other).contains("__keyevent@0__:set"));
    assert!(server.receive(blocked).starts_with("*2\r\n$4\r\nlist\r\n$1\r\na\r\n"));
    assert!(server.receive(tracking).contains("invalidate"));
}

#[test]
fn messages_about_no_change_are_sent_at_once() {
    let (mut server, writer, other) = stalled();
    server.turn([(other, "SUBSCRIBE channel")]);
    assert_eq!(server.turn([(writer, "SET key 1")]), [""]);
    let publisher = server.client();
    assert_eq!(server.turn([(publisher, "PUBLISH channel a")]), [":1\r\n"]);
    assert!(server.receive(other).contains("channel"));
    let script = "EVAL redis.call('PUBLISH','channel',redis.call('GET',KEYS[1])) 1 key";
    assert_eq!(server.turn([(publisher, script)]), [""]);
    assert_eq!(server.receive(other), "", "the message shows the change");
    server.settle();
    assert!(server.receive(other).ends_with("$1\r\n1\r\n"));
}

#[test]
fn nothing_that_was_sent_is_lost_by_a_power_cut() {
    let mut lost = 0;
    for seed in 0..200 {
        let disk = Arc::new(Disk::new(seed));
        let mut server = Server::on(disk.clone());
        let (writer, reader) = (server.client(), server.client());
        let (mut acknowledged, mut seen) = (0, 0);
        for n in 1..=20_u64 {
            if n % 5 == seed % 5 {
                server.disk.stall(seed % 7 * 10);
            }
            let [sent, read] = server.turn([(writer, &format!("SET n {n}")), (reader, "GET n")]);
            acknowledged += sent.matches("+OK").count() as u64;
            seen = read.lines().filter_map(|line| line.parse().ok()).fold(seen, u64::max);
            if n == seed % 20 + 1 {
                break;
            }
        }
        drop(server);
        disk.restart(End::PowerCut);
        let mut server = Server::on(disk);
        let reader = server.client();
        let [found] = server.turn([(reader, "GET n")]);
        let found: u64 = found.lines().nth(1).map_or(0, |text| text.parse().unwrap());
        assert!(found >= acknowledged && found >= seen, "{seed}: {found}, {acknowledged}, {seen}");
        lost += u64::from(found < seed % 20 + 1);
    }
    assert!(lost > 20, "the disk keeps everything: {lost}");
}

#[test]
fn an_option_is_in_force_for_the_rest_of_its_turn() {
    let disk = Arc::new(Disk::new(1));
    let mut server = Server::on(disk.clone());
    let client = server.client();
    server.turn([(client, "CONFIG SET appendfsync everysec")]);
    let sent = server.turn([(client, "CONFIG SET appendfsync always"), (client, "SET key 1")]);
    assert_eq!(sent[0], "+OK\r\n+OK\r\n");
    drop(server);
    disk.restart(End::PowerCut);
    let mut server = Server::on(disk);
    let reader = server.client();
    assert_eq!(server.turn([(reader, "GET key")]), ["$1\r\n1\r\n"]);
}

#[test]
fn what_shows_more_than_keys_waits() {
    let (mut server, writer, other) = stalled();
    server.turn([(other, "WATCH key")]);
    server.turn([(other, "MULTI")]);
    server.turn([(writer, "SET key 1")]);
    assert_eq!(server.turn([(other, "EXEC")]), [""], "that a watched key has changed");
    let third = server.client();
    assert_eq!(server.turn([(third, "FUNCTION LIST")]), [""]);
    server.settle();
    assert_eq!(server.receive(other), "*-1\r\n");
}

#[test]
fn switched_off_all_is_on_disk_first() {
    for change in ["CONFIG SET appendfsync no", "CONFIG SET appendfsync everysec", "CONFIG SET appendonly no"]
    {
        let (mut server, writer, other) = stalled();
        assert_eq!(server.turn([(writer, "SET key 1")]), [""]);
        assert_eq!(server.turn([(other, change)]), ["+OK\r\n"], "{change}");
        assert_eq!(server.receive(writer), "+OK\r\n", "{change}");
        let disk = server.disk.clone();
        drop(server);
        disk.restart(End::PowerCut);
        let mut server = Server::on(disk);
        let reader = server.client();
        assert_eq!(server.turn([(reader, "GET key")]), ["$1\r\n1\r\n"], "{change}");
    }
}

#[test]
fn a_rewrite_makes_nobody_wait_and_loses_nothing() {
    let (mut server, writer, other) = stalled();
    server.turn([(writer, "SET key 1"), (other, "BGREWRITEAOF")]);
    server.disk.take_waits();
    let sent = server.turn([(writer, "SET more 2"), (other, "GET old")]);
    assert_eq!(sent[0], "");
    assert!(sent[1].ends_with("$1\r\n1\r\n"), "{}", sent[1]);
    assert_eq!(server.disk.take_waits(), []);
    server.settle();
    assert_eq!(server.receive(writer), "+OK\r\n+OK\r\n");
    let disk = server.disk.clone();
    drop(server);
    disk.restart(End::PowerCut);
    let mut server = Server::on(disk);
    let reader = server.client();
    assert_eq!(server.turn([(reader, "EXISTS old key more")]), [":3\r\n"]);
}
