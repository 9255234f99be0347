//! Nodes of a cluster in processes of their own: slots and redirections, joining, replication, failovers, slots that move,
//! and restarts.

use crate::process::{Client, Process, encode, eventually, free_port, shown};
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A node with a short timeout.
pub struct Node {
    pub process: Process,
    bus_port: u16,
}

impl Node {
    pub fn start(options: &[&str]) -> Node {
        let bus_port = free_port();
        let (port, own) =
            (bus_port.to_string(), ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"]);
        let all: Vec<&str> = own.iter().chain(&["--cluster-port", &port]).chain(options).copied().collect();
        Node { process: Process::start(&all), bus_port }
    }

    /// A node of its own cluster, with all slots.
    pub fn alone(options: &[&str]) -> (Node, Client<TcpStream>) {
        let node = Node::start(options);
        let mut client = node.process.connect();
        assert_eq!(client.ask("CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
        eventually("the state", || client.ask("CLUSTER INFO").contains("cluster_state:ok"));
        (node, client)
    }

    pub fn meet(&self, other: &Node) {
        let command = format!("CLUSTER MEET 127.0.0.1 {} {}", other.process.port, other.bus_port);
        assert_eq!(self.process.connect().ask(&command), "OK");
    }

    pub fn id(&self) -> String {
        self.process.connect().ask("CLUSTER MYID")
    }

    fn knows(&self, nodes: usize) -> bool {
        let lines = self.process.connect().ask("CLUSTER NODES");
        lines.lines().count() == nodes && !lines.contains("handshake")
    }

    pub fn is_ok(&self) -> bool {
        self.process.connect().ask("CLUSTER INFO").contains("cluster_state:ok")
    }
}

/// Three primaries with a third of the slots each, and this number of replicas of the first.
fn cluster(replicas: usize) -> Vec<Node> {
    cluster_with(replicas, &[])
}

/// As [`cluster`], of nodes with these options.
pub fn cluster_with(replicas: usize, options: &[&str]) -> Vec<Node> {
    let nodes: Vec<Node> = (0..3 + replicas).map(|_| Node::start(options)).collect();
    for (at, range) in ["0 5460", "5461 10922", "10923 16383"].iter().enumerate() {
        let mut client = nodes[at].process.connect();
        assert_eq!(client.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)), "OK");
        assert_eq!(client.ask(&format!("CLUSTER ADDSLOTSRANGE {range}")), "OK");
    }
    nodes[1..].iter().for_each(|node| nodes[0].meet(node));
    eventually("all nodes", || nodes.iter().all(|node| node.knows(nodes.len())));
    let first = nodes[0].id();
    for node in &nodes[3..] {
        eventually("the primary", || {
            node.process.connect().ask(&format!("CLUSTER REPLICATE {first}")) == "OK"
        });
    }
    eventually("the state", || nodes.iter().all(Node::is_ok));
    for node in &nodes[3..] {
        node.process.eventually_shows("master_link_status", "up");
    }
    nodes
}

#[test]
fn a_node_alone_serves_all_slots_one_at_a_time() {
    let (_node, mut client) = Node::alone(&["--cluster-databases", "4", "--appendonly", "yes"]);
    assert_eq!(client.ask("SET a 1"), "OK");
    assert_eq!(client.ask("MSET a 1 b 2"), "CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(client.ask("MSET {x}a 1 {x}b 2"), "OK");
    assert_eq!(client.ask("CLUSTER COUNTKEYSINSLOT 16287"), "2");
    client.ask("SELECT 3");
    assert_eq!(client.ask("SET {x}c 3"), "OK");
    assert_eq!(client.ask("KEYS {x}*"), "[{x}c]");
    assert_eq!(client.ask("SCAN 0 MATCH {x}* COUNT 100"), "[0 [{x}c]]");
    client.ask("MULTI");
    client.ask("SET a 1");
    assert_eq!(client.ask("SET b 1"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(client.ask("SWAPDB 0 1"), "ERR SWAPDB is not allowed in cluster mode");
    assert_eq!(client.ask("REPLICAOF 127.0.0.1 1"), "ERR REPLICAOF not allowed in cluster mode.");
    assert_eq!(client.ask("CLUSTER FLUSHSLOT 16287"), "OK");
    assert_eq!(client.ask("DBSIZE"), "0");
    client.ask("SELECT 0");
    assert_eq!(client.ask("DBSIZE"), "1");
    assert_eq!(client.ask("CLUSTER ADDSLOTS 5"), "ERR Slot 5 is already busy");
    assert_eq!(client.ask("CLUSTER DELSLOTS 15495"), "OK");
    assert_eq!(client.ask("GET a"), "CLUSTERDOWN Hash slot not served");
    eventually("the state", || client.ask("GET {x}a") == "CLUSTERDOWN The cluster is down");
    client.ask("CONFIG SET cluster-allow-reads-when-down yes");
    assert_eq!(client.ask("GET {x}a"), "Null");
    assert_eq!(client.ask("SET {x}a 1"), "CLUSTERDOWN The cluster is down and only accepts read commands");
}

#[test]
fn scripts_keep_to_slots_that_are_served() {
    let (_node, mut client) = Node::alone(&[]);
    let mut eval = |script: &str, keys: &str| {
        let words: Vec<&[u8]> =
            [b"EVAL", script.as_bytes()].into_iter().chain(keys.split(' ').map(str::as_bytes)).collect();
        client.send(&words);
        shown(&client.receive().unwrap())
    };
    assert_eq!(eval("return redis.call('SET', 'b', 1)", "1 a"), "OK");
    let other = eval("#!lua\nreturn redis.call('SET', 'b', 1)", "1 a");
    assert!(
        other.starts_with("ERR Script attempted to access keys that do not hash to the same slot"),
        "{other}"
    );
    assert_eq!(eval("#!lua flags=allow-cross-slot-keys\nreturn redis.call('SET', 'b', 1)", "1 a"), "OK");
    let none = eval("#!lua flags=no-cluster\nreturn 1", "0");
    assert_eq!(none, "ERR Can not run script on cluster, 'no-cluster' flag is set.");
}

#[test]
fn nodes_meet_redirect_and_agree() {
    let nodes = cluster(0);
    let mut client = nodes[0].process.connect();
    let port = nodes[2].process.port;
    assert_eq!(client.ask("GET foo"), format!("MOVED 12182 127.0.0.1:{port}"));
    assert_eq!(nodes[2].process.connect().ask("SET foo bar"), "OK");
    let slots = client.ask("CLUSTER SLOTS");
    for node in &nodes {
        assert!(slots.contains(&node.id()), "{slots}");
    }
    let shards = client.ask("CLUSTER SHARDS");
    assert_eq!(shards.matches("online").count(), 3, "{shards}");
    // Messages reach subscribers of all nodes.
    let mut listener = nodes[1].process.connect();
    listener.ask("SUBSCRIBE channel");
    assert_eq!(client.ask("PUBLISH channel hello"), "0");
    let message = listener.receive().map(|value| shown(&value));
    assert_eq!(message.as_deref(), Some("[message channel hello]"));
    // What a node forgets does not come back by gossip.
    let forgotten = nodes[1].id();
    for node in [&nodes[0], &nodes[2]] {
        assert_eq!(node.process.connect().ask(&format!("CLUSTER FORGET {forgotten}")), "OK");
    }
    eventually("both without it", || nodes[0].knows(2) && nodes[2].knows(2));
}

#[test]
fn a_replica_takes_over_from_a_primary_that_is_gone() {
    let mut nodes = cluster(1);
    let mut client = nodes[0].process.connect();
    for i in 0..100 {
        assert_eq!(client.ask(&format!("SET {{b}}{i} {i}")), "OK");
    }
    assert_eq!(client.ask("WAIT 1 5000"), "1");
    let mut reader = nodes[3].process.connect();
    assert_eq!(reader.ask("GET {b}5"), format!("MOVED 3300 127.0.0.1:{}", nodes[0].process.port));
    assert_eq!(reader.ask("READONLY"), "OK");
    assert_eq!(reader.ask("GET {b}5"), "5");
    nodes.remove(0).process.signal(rustix::process::Signal::KILL);
    eventually("the takeover", || nodes[2].process.connect().ask("ROLE").starts_with("[master"));
    eventually("the state", || nodes.iter().all(Node::is_ok));
    let mut client = nodes[2].process.connect();
    assert_eq!(client.ask("GET {b}5"), "5");
    assert_eq!(client.ask("SET {b}5 6"), "OK");
    let port = nodes[2].process.port;
    assert_eq!(nodes[0].process.connect().ask("GET {b}5"), format!("MOVED 3300 127.0.0.1:{port}"));
}

#[test]
fn a_manual_failover_loses_nothing() {
    let nodes = cluster(1);
    let mut client = nodes[0].process.connect();
    for i in 0..1000 {
        assert_eq!(client.ask(&format!("SET {{b}}{i} {i}")), "OK");
    }
    assert_eq!(nodes[3].process.connect().ask("CLUSTER FAILOVER"), "OK");
    eventually("the exchange", || {
        nodes[3].process.connect().ask("ROLE").starts_with("[master")
            && nodes[0].process.connect().ask("ROLE").starts_with("[slave")
    });
    assert_eq!(nodes[3].process.connect().ask("DBSIZE"), "1000");
    nodes[0].process.eventually_shows("master_link_status", "up");
}

/// Writes until the node refuses or redirects; returns how many writes it has acknowledged.
fn write_until_refused(mut client: Client<TcpStream>) -> u64 {
    let mut acknowledged = 0;
    loop {
        let answer = client.ask(&format!("SET {{b}}{acknowledged} {acknowledged}"));
        if answer != "OK" {
            assert!(answer.starts_with("MOVED 3300 "), "{answer}");
            return acknowledged;
        }
        acknowledged += 1;
    }
}

#[test]
fn a_manual_failover_loses_no_write_of_a_client_that_goes_on_writing() {
    let nodes = cluster(1);
    let client = nodes[0].process.connect();
    let writer = std::thread::spawn(move || write_until_refused(client));
    eventually("some writes", || nodes[3].process.connect().ask("DBSIZE").parse::<u64>().unwrap() > 100);
    assert_eq!(nodes[3].process.connect().ask("CLUSTER FAILOVER"), "OK");
    let acknowledged = writer.join().unwrap();
    let mut client = nodes[3].process.connect();
    eventually("the exchange", || client.ask("ROLE").starts_with("[master"));
    for number in 0..acknowledged {
        assert_eq!(client.ask(&format!("GET {{b}}{number}")), number.to_string(), "of {acknowledged}");
    }
    // The write that was redirected may follow here.
    assert_eq!(client.ask(&format!("SET {{b}}{acknowledged} x")), "OK");
}

#[test]
fn a_slot_moves_with_its_keys() {
    let nodes = cluster(0);
    let (mut from, mut to) = (nodes[0].process.connect(), nodes[1].process.connect());
    let (from_id, to_id, to_port) = (nodes[0].id(), nodes[1].id(), nodes[1].process.port);
    let from_port = nodes[0].process.port;
    from.ask("SET {b}1 1");
    from.ask("SET {b}2 2");
    assert_eq!(to.ask(&format!("CLUSTER SETSLOT 3300 IMPORTING {from_id}")), "OK");
    assert_eq!(from.ask(&format!("CLUSTER SETSLOT 3300 MIGRATING {to_id}")), "OK");
    assert_eq!(from.ask("GET {b}1"), "1");
    assert_eq!(from.ask("GET {b}3"), format!("ASK 3300 127.0.0.1:{to_port}"));
    assert_eq!(to.ask("SET {b}3 3"), format!("MOVED 3300 127.0.0.1:{from_port}"));
    assert_eq!(to.ask("ASKING"), "OK");
    assert_eq!(to.ask("SET {b}3 3"), "OK");
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {to_port} {{b}}1 0 5000")), "OK");
    assert_eq!(from.ask("MGET {b}1 {b}2"), "TRYAGAIN Multiple keys request during rehashing of slot");
    assert_eq!(from.ask(&format!("MIGRATE 127.0.0.1 {to_port} {{b}}2 0 5000")), "OK");
    assert_eq!(to.ask(&format!("CLUSTER SETSLOT 3300 NODE {to_id}")), "OK");
    assert_eq!(from.ask(&format!("CLUSTER SETSLOT 3300 NODE {to_id}")), "OK");
    assert_eq!(to.ask("MGET {b}1 {b}2 {b}3"), "[1 2 3]");
    assert_eq!(from.ask("GET {b}1"), format!("MOVED 3300 127.0.0.1:{to_port}"));
    eventually("all nodes", || {
        nodes[2].process.connect().ask("GET {b}1") == format!("MOVED 3300 127.0.0.1:{to_port}")
    });
}

/// A replica that comes while slots are moved by hand learns of them with its data.
#[test]
fn a_new_replica_learns_which_slots_are_open() {
    let nodes = cluster(0);
    let (mut from, from_id, to_id) = (nodes[0].process.connect(), nodes[0].id(), nodes[1].id());
    assert_eq!(from.ask(&format!("CLUSTER SETSLOT 3300 MIGRATING {to_id}")), "OK");
    assert_eq!(from.ask(&format!("CLUSTER SETSLOT 6000 IMPORTING {to_id}")), "OK");
    let own_line = |client: &mut Client<TcpStream>| {
        let lines = client.ask("CLUSTER NODES");
        lines.lines().find(|line| line.contains("myself")).unwrap_or_default().to_owned()
    };
    let directory = Directory::new();
    let options = ["--dir", directory.0.to_str().unwrap()];
    for diskless in ["yes", "no"] {
        from.ask(&format!("CONFIG SET repl-diskless-sync {diskless}"));
        let mut replica = Node::start(if diskless == "no" { &options } else { &[] });
        nodes[0].meet(&replica);
        let mut client = replica.process.connect();
        eventually("the primary", || client.ask(&format!("CLUSTER REPLICATE {from_id}")) == "OK");
        eventually("the open slots", || {
            let own = own_line(&mut client);
            own.contains(&format!("[3300->-{to_id}]")) && own.contains(&format!("[6000-<-{to_id}]"))
        });
        replica.process.signal(rustix::process::Signal::KILL);
        replica.process.wait();
    }
    // What was closed while it was away is closed when it is back.
    for slot in [3300, 6000] {
        let command = format!("CLUSTER SETSLOT {slot} STABLE");
        eventually("the end of the open slot", || from.ask(&command) == "OK");
    }
    let again = Node::start(&options);
    let mut client = again.process.connect();
    again.process.eventually_shows("master_link_status", "up");
    eventually("no open slot", || !own_line(&mut client).contains('['));
}

#[test]
fn what_a_node_knows_survives_it() {
    let directory = std::env::temp_dir().join(format!("warmline-nodes-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let options = ["--dir", directory.to_str().unwrap()];
    let (node, mut client) = Node::alone(&options);
    let id = node.id();
    client.ask("CLUSTER SAVECONFIG");
    // No other server can be the same node.
    let file = directory.join("nodes.conf");
    let held = std::fs::File::open(&file).unwrap();
    assert!(matches!(held.try_lock(), Err(std::fs::TryLockError::WouldBlock)));
    drop((node, held));
    let again = Node::start(&options);
    assert_eq!(again.id(), id);
    eventually("the state", || again.is_ok());
    drop(again);
    std::fs::write(&file, "nonsense\n").unwrap();
    let port = free_port().to_string();
    let output = std::process::Command::new(crate::process::program())
        .args(["--port", &port, "--cluster-enabled", "yes", "--cluster-port", &port])
        .args(options)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(!output.status.success() && text.contains("corrupted cluster config file"), "{text}");
    let _ = std::fs::remove_dir_all(directory);
}

/// A directory for a node's files, removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("warmline-cluster-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two nodes: a primary with all slots and some keys, and its replica, started with these options.
fn pair(options: &[&str]) -> (Node, Node) {
    let (primary, mut client) = Node::alone(&["--repl-diskless-sync-delay", "0"]);
    let replica = Node::start(options);
    primary.meet(&replica);
    let command = format!("CLUSTER REPLICATE {}", primary.id());
    eventually("the primary", || replica.process.connect().ask(&command) == "OK");
    replica.process.eventually_shows("master_link_status", "up");
    for i in 0..10 {
        assert_eq!(client.ask(&format!("SET {{b}}{i} {i}")), "OK");
    }
    let library = b"#!lua name=lib\nserver.register_function('f', function() end)";
    client.send(&[b"FUNCTION", b"LOAD", library]);
    assert_eq!(client.receive().map(|reply| shown(&reply)).as_deref(), Some("lib"));
    assert_eq!(client.ask("WAIT 1 5000"), "1");
    eventually("the state", || replica.is_ok());
    (primary, replica)
}

/// Sends these commands at once, and returns the replies.
fn pipeline(client: &mut Client<TcpStream>, commands: &[&str]) -> Vec<String> {
    let encode = |command: &&str| encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    client.stream.write_all(&commands.iter().flat_map(encode).collect::<Vec<u8>>()).unwrap();
    commands.iter().map(|_| shown(&client.receive().expect("a reply"))).collect()
}

#[test]
fn what_a_reset_removes_stays_removed_after_a_crash() {
    for command in ["CLUSTER RESET", "CLUSTER RESET HARD", "CLUSTER REPLICATE NO ONE"] {
        for files in [["--appendonly", "yes"], ["--save", "3600 1"]] {
            println!("{command} with {files:?}");
            let directory = Directory::new();
            let options = [&files[..], &["--dir", directory.0.to_str().unwrap()]].concat();
            let (_primary, mut replica) = pair(&options);
            let (mut client, mut watcher) = (replica.process.connect(), replica.process.connect());
            if files[0] == "--save" {
                client.ask("SAVE");
            }
            assert_eq!(watcher.ask("READONLY"), "OK");
            assert_eq!(watcher.ask("WATCH {b}1"), "OK");
            assert_eq!(client.ask(command), "OK");
            assert_eq!(pipeline(&mut watcher, &["MULTI", "PING", "EXEC"])[2], "NullArray");
            assert_eq!((client.ask("DBSIZE"), client.ask("FUNCTION LIST")), ("0".into(), "[]".into()));
            let file = directory.0.join("nodes.conf");
            let is_saved = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("myself,master"));
            eventually("the node's file", is_saved);
            replica.process.signal(rustix::process::Signal::KILL);
            replica.process.wait();
            drop(replica);
            let again = Node::start(&options);
            let mut client = again.process.connect();
            eventually("the end of the load", || !client.ask("DBSIZE").starts_with("LOADING"));
            assert_eq!((client.ask("DBSIZE"), client.ask("FUNCTION LIST")), ("0".into(), "[]".into()));
            let nodes = client.ask("CLUSTER NODES");
            let own = nodes.lines().find(|line| line.contains("myself,master")).expect("its own line");
            assert!(own.ends_with(" connected"), "{own}");
        }
    }
}

#[test]
fn what_a_command_decides_is_done_before_the_next_one_of_a_pipeline() {
    let (_primary, replica) = pair(&[]);
    let mut client = replica.process.connect();
    let commands = ["CLUSTER FAILOVER TAKEOVER", "SET {b}1 new", "GET {b}1"];
    assert_eq!(pipeline(&mut client, &commands), ["OK", "OK", "new"]);

    let (_primary, replica) = pair(&[]);
    let mut client = replica.process.connect();
    let commands = ["CLUSTER RESET", "CLUSTER ADDSLOTSRANGE 0 16383", "DBSIZE", "SET {b}1 new", "ROLE"];
    let replies = pipeline(&mut client, &commands);
    assert_eq!(
        (&replies[..3], replies[4].starts_with("[master")),
        (&["OK", "OK", "0"].map(String::from)[..], true)
    );
    // Whatever was acknowledged is there afterwards.
    let expected = if replies[3] == "OK" { "1" } else { "0" };
    assert_eq!(client.ask("DBSIZE"), expected, "{replies:?}");

    let (_primary, replica) = pair(&[]);
    let mut client = replica.process.connect();
    let commands = ["MULTI", "CLUSTER FAILOVER TAKEOVER", "EXEC", "SET {b}1 new"];
    assert_eq!(pipeline(&mut client, &commands), ["OK", "QUEUED", "[OK]", "OK"]);
}

/// A node whose directory is a test's own, so that the disk can be made to fail.
struct OwnDisk {
    directory: Directory,
    node: Node,
}

impl OwnDisk {
    fn new() -> OwnDisk {
        let directory = Directory::new();
        let dir = directory.0.to_str().unwrap();
        let node = Node::start(&["--dir", dir, "--cluster-config-save-behavior", "best-effort"]);
        OwnDisk { directory, node }
    }

    /// The file that a save writes first.
    fn temporary(&self) -> PathBuf {
        self.directory.0.join(format!("nodes.conf.tmp-{}", self.node.process.pid()))
    }

    fn content(&self) -> String {
        std::fs::read_to_string(self.directory.0.join("nodes.conf")).unwrap()
    }
}

#[test]
fn a_command_that_changes_the_cluster_is_answered_once_the_change_is_on_disk() {
    let disk = OwnDisk::new();
    let mut client = disk.node.process.connect();
    for (command, trace) in [
        ("CLUSTER SET-CONFIG-EPOCH 7", " 7 connected"),
        ("CLUSTER ADDSLOTS 5 6", " 5-6"),
        ("CLUSTER DELSLOTS 5", " 6\n"),
        ("CLUSTER SAVECONFIG", " 6\n"),
    ] {
        assert_eq!(client.ask(command), "OK");
        assert!(disk.content().contains(trace), "{command}: {}", disk.content());
    }
    let statistics = client.ask("INFO commandstats");
    assert!(statistics.contains("cmdstat_cluster|addslots:calls=1,"), "{statistics}");
    // While the disk hangs, other clients are served.
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, disk.temporary(), kind, mode, 0).unwrap();
    client.send(&[b"CLUSTER", b"ADDSLOTS", b"8"]);
    let mut other = disk.node.process.connect();
    eventually("a client that waits", || other.ask("INFO clients").contains("blocked_clients:1"));
    assert!(other.ask("CLUSTER NODES").contains(" 6 8"), "the view has changed");
    other.ask("MULTI");
    other.ask("CLUSTER ADDSLOTS 9");
    assert_eq!(other.ask("EXEC"), "[OK]", "a transaction does not wait");
    drop(std::fs::File::open(disk.temporary()).unwrap());
    assert_eq!(shown(&client.receive().unwrap()), "OK");
    eventually("the next save", || disk.content().contains(" 6 8-9"));
}

#[test]
fn a_failed_save_is_the_reply_to_saveconfig() {
    let disk = OwnDisk::new();
    let mut client = disk.node.process.connect();
    eventually("the end of the save at the start", || std::fs::create_dir(disk.temporary()).is_ok());
    let error =
        "ERR error saving the cluster node config: Could not open temp cluster config file: Is a directory";
    assert_eq!(client.ask("CLUSTER SAVECONFIG"), error);
    assert!(client.ask("INFO errorstats").contains("errorstat_ERR:count=1"));
    assert_eq!(client.ask("CLUSTER ADDSLOTS 5"), "OK");
    assert!(client.ask("CLUSTER BUMPEPOCH").starts_with("BUMPED "));
    std::fs::remove_dir(disk.temporary()).unwrap();
    assert_eq!(client.ask("CLUSTER SAVECONFIG"), "OK");
    assert!(disk.content().contains(" 5\n"), "{}", disk.content());
}

#[test]
fn a_slot_counts_replies_and_what_replicas_are_sent() {
    let (primary, replica) = pair(&[]);
    let (mut client, mut of_replica) = (primary.process.connect(), replica.process.connect());
    let mut subscriber = primary.process.connect();
    subscriber.ask("SSUBSCRIBE {b}c");
    for client in [&mut client, &mut of_replica] {
        assert_eq!(client.ask("CONFIG SET cluster-slot-stats-enabled yes"), "OK");
    }
    let mut sent = 0;
    let mut count = |commands: &[&str], expected: u64| {
        pipeline(&mut client, commands);
        let figures = client.ask("CLUSTER SLOT-STATS SLOTSRANGE 3300 3300");
        let (_, bytes) = figures.rsplit_once(' ').expect("figures");
        let total: u64 = bytes.trim_end_matches(']').parse().expect("a number");
        assert_eq!(total - sent, expected, "{commands:?}: {figures}");
        sent = total;
    };
    // As in the reference, with one replica.
    let set = "*3\r\n$3\r\nSET\r\n$4\r\n{b}1\r\n$1\r\nv\r\n".len() as u64;
    count(&["SET {b}1 v"], "+OK\r\n".len() as u64 + set);
    count(&["SET {b}1 v", "SET {b}1 v"], 2 * ("+OK\r\n".len() as u64 + set));
    count(&["GET {b}1"], "$1\r\nv\r\n".len() as u64);
    count(&["MULTI", "SET {b}1 v", "EXEC"], "+QUEUED\r\n*1\r\n+OK\r\n".len() as u64 + set);
    // A script that keeps to a slot counts for it; in a transaction, with the transaction.
    let script = "EVAL #!lua\nreturn(redis.call('GET','{b}1'))";
    count(&[&format!("{script} 0")], "$1\r\nv\r\n".len() as u64);
    count(&["MULTI", &format!("{script} 1 {{b}}1"), "EXEC"], "+QUEUED\r\n*1\r\n$1\r\nv\r\n".len() as u64);
    let message = "*3\r\n$8\r\nsmessage\r\n$4\r\n{b}c\r\n$1\r\nm\r\n";
    count(&["SPUBLISH {b}c m"], ":1\r\n".len() as u64 + message.len() as u64);
    // A replica does not reply to its primary.
    assert_eq!(pipeline(&mut client, &["SET {b}1 v", "WAIT 1 60000"]), ["OK", "1"]);
    let figures = of_replica.ask("CLUSTER SLOT-STATS SLOTSRANGE 3300 3300");
    assert!(
        figures.ends_with("network-bytes-out 0]]]") && !figures.contains("network-bytes-in 0 "),
        "{figures}"
    );
}

#[test]
fn what_has_changed_last_is_saved_when_the_process_ends() {
    // A tick may come between the two commands, but not each time.
    for port in 1001..1006 {
        let mut disk = OwnDisk::new();
        let mut client = disk.node.process.connect();
        let set = format!("CONFIG SET cluster-announce-port {port}");
        let commands = [set.as_str(), "SHUTDOWN NOSAVE"];
        let encoded =
            commands.map(|command| encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        client.stream.write_all(&encoded.concat()).unwrap();
        assert!(disk.node.process.wait().success());
        assert!(disk.content().contains(&format!(":{port}@")), "{}", disk.content());
    }
}

#[test]
fn a_primary_that_shuts_down_may_name_its_successor() {
    let (primary, mut client) =
        Node::alone(&["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"]);
    let replica = Node::start(&[]);
    primary.meet(&replica);
    let command = format!("CLUSTER REPLICATE {}", primary.id());
    eventually("the primary", || replica.process.connect().ask(&command) == "OK");
    replica.process.eventually_shows("master_link_status", "up");
    let name = |id: &str| format!("DEBUG REPLICATE CLUSTER FAILOVER TAKEOVER REPLICAID {id}");
    // As Valkey's primaries send it; replicas that it does not name go on.
    let replies = pipeline(&mut client, &[&name(&primary.id()), "SET {b}1 v", "WAIT 1 60000"]);
    assert_eq!(replies, ["OK", "OK", "1"]);
    assert_eq!(replica.process.info("master_link_status").as_deref(), Some("up"));
    assert_eq!(client.ask(&name(&replica.id())), "OK");
    eventually("the successor", || replica.process.connect().ask("ROLE").starts_with("[master"));
    eventually("writes", || replica.process.connect().ask("SET {b}2 v") == "OK");
    assert_eq!(replica.process.connect().ask("DBSIZE"), "2");
}

#[test]
fn a_primary_that_shuts_down_hands_its_slots_to_a_replica_that_has_all_data() {
    let mut nodes = cluster(1);
    let (primary, rest) = nodes.split_first_mut().unwrap();
    let replica = &rest[2];
    // Only what the primary sends can make it begin an election.
    assert_eq!(replica.process.connect().ask("CONFIG SET cluster-replica-no-failover yes"), "OK");
    let mut client = primary.process.connect();
    assert_eq!(client.ask("SHUTDOWN SAFE"), "ERR Errors trying to SHUTDOWN. Check logs.");
    for number in 0..100 {
        assert_eq!(client.ask(&format!("SET {{b}}{number} v")), "OK");
    }
    client.stream.write_all(&encode(&[b"SHUTDOWN", b"NOSAVE", b"FAILOVER"])).unwrap();
    assert!(primary.process.wait().success());
    eventually("the successor", || replica.process.connect().ask("ROLE").starts_with("[master"));
    eventually("writes", || replica.process.connect().ask("SET {b}0 w") == "OK");
    assert_eq!(replica.process.connect().ask("DBSIZE"), "100");
}

#[test]
fn a_slot_is_set_when_the_replicas_know_it() {
    let nodes = cluster(1);
    let (primary, other, replica) = (&nodes[0], nodes[1].id(), &nodes[3]);
    let mut client = primary.process.connect();
    let migrating = format!("[0->-{other}]");
    let shows = |node: &Node| node.process.connect().ask("CLUSTER NODES").contains(&migrating);
    replica.process.signal(Signal::STOP);
    let command = format!("CLUSTER SETSLOT 0 MIGRATING {other} TIMEOUT 300");
    assert_eq!(client.ask(&command), "NOREPLICAS Not enough good replicas to write.");
    assert!(!shows(primary));
    replica.process.signal(Signal::CONT);
    let command = format!("CLUSTER SETSLOT 0 MIGRATING {other} TIMEOUT 0");
    assert_eq!(client.ask(&command), "OK");
    assert!(shows(replica) && shows(primary));
    // What is refused is not sent to replicas, and has the same reply as without them.
    let replies =
        ["NODE", "IMPORTING"].map(|word| client.ask(&format!("CLUSTER SETSLOT 0 {word} {}", primary.id())));
    assert_eq!(replies, ["OK", "ERR I'm already the owner of hash slot 0"]);
    assert_eq!(client.ask("CLUSTER SETSLOT 0 STABLE"), "OK");
    assert!(!shows(replica) && !shows(primary));
    // Neither a transaction nor a script waits.
    let replies = pipeline(&mut client, &["MULTI", &command, "EXEC"]);
    assert_eq!(replies.last().unwrap(), "[OK]");
    eventually("the transaction's slot", || shows(replica));
}
