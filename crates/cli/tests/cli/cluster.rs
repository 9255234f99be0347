//! `--cluster`: where there is none, and clusters of servers that it makes, changes and mends.

use std::net::TcpListener;
use std::thread;

use crate::process::{Output, Running, Server, eventually};

const PASSWORD: &str = "secret";

/// Nodes of no cluster yet.
fn nodes(count: usize) -> Vec<Server> {
    let node = |_| {
        let bus_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let options = ["--cluster-enabled", "yes", "--cluster-port", &bus_port];
        let password =
            ["--requirepass", PASSWORD, "--primaryauth", PASSWORD, "--enable-debug-command", "yes"];
        Server::start(&[options.as_slice(), &password].concat())
    };
    (0..count).map(node).collect()
}

fn address(node: &Server) -> String {
    format!("127.0.0.1:{}", node.port)
}

/// Runs a client for the node with the nodes' password.
fn run(node: &Server, arguments: &[&str], input: &str) -> Output {
    let all = [&["-a", PASSWORD, "--no-auth-warning"], arguments].concat();
    node.run_with_input(&all, input.as_bytes())
}

fn ask(node: &Server, command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    run(node, &words, "").stdout.trim_end().to_owned()
}

/// Runs `--cluster`, which succeeds.
#[track_caller]
fn manage(node: &Server, arguments: &[&str], input: &str) -> String {
    let output = run(node, &[&["--cluster"], arguments].concat(), input);
    assert_eq!(output.code, 0, "{arguments:?} {output:?}");
    output.stdout
}

fn id(node: &Server) -> String {
    ask(node, "cluster myid")
}

fn create(nodes: &[Server], options: &[&str]) -> String {
    let addresses: Vec<String> = nodes.iter().map(address).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let shown = manage(&nodes[0], &[&["create"], addresses.as_slice(), options].concat(), "");
    eventually("the state", || {
        nodes.iter().all(|node| ask(node, "cluster info").contains("cluster_state:ok"))
    });
    shown
}

/// The number of slots of each of these nodes, as the first one knows it.
fn slots(nodes: &[Server]) -> Vec<usize> {
    let info = manage(&nodes[0], &["info", &address(&nodes[0])], "");
    let of = |node: &Server| {
        let line = info.lines().find(|line| line.starts_with(&address(node)))?;
        line.split(" | ").nth(1)?.strip_suffix(" slots")?.parse().ok()
    };
    nodes.iter().map(|node| of(node).unwrap_or(0)).collect()
}

/// Checks a cluster as soon as what was changed is known to all nodes.
fn is_sound(nodes: &[Server]) {
    eventually("agreement", || run(&nodes[0], &["--cluster", "check", &address(&nodes[0])], "").code == 0);
}

pub fn clusters_are_made_and_nodes_come_and_go() {
    let nodes = nodes(8);
    let (first, last) = (address(&nodes[0]), address(&nodes[7]));
    let addresses: Vec<String> = nodes[..6].iter().map(address).collect();
    let words: Vec<&str> =
        ["--cluster", "create"].into_iter().chain(addresses.iter().map(String::as_str)).collect();
    let refused = run(&nodes[0], &[words.as_slice(), &["--cluster-replicas", "1"]].concat(), "no\n");
    assert!(refused.code == 0 && refused.stdout.ends_with("(type 'yes' to accept): "), "{refused:?}");
    assert!(ask(&nodes[0], "cluster info").contains("cluster_slots_assigned:0"));
    let two = run(&nodes[0], &[&words[..4], &["--cluster-replicas", "1"]].concat(), "no\n");
    assert!(two.code == 1 && two.stdout.contains("with 1 primaries and 1 replicas per primary."), "{two:?}");

    let shown = create(&nodes[..6], &["--cluster-replicas", "1", "--cluster-yes"]);
    assert!(shown.contains("Primary[2] -> Slots 10923 - 16383\nAdding replica "), "{shown}");
    assert!(shown.ends_with("[OK] All 16384 slots covered.\n"), "{shown}");
    assert_eq!(slots(&nodes[..4]), [5461, 5462, 5461, 0]);
    let again = run(&nodes[0], &words, "");
    assert!(again.code == 1 && again.stdout.contains(" is not empty. Either "), "{again:?}");

    // A primary with the functions of the others, and a replica of it.
    assert_eq!(
        run(
            &nodes[0],
            &["-x", "function", "load"],
            "#!lua name=l\nserver.register_function('f', function() return 7 end)"
        )
        .stdout,
        "l\n"
    );
    let shown = manage(&nodes[0], &["add-node", &address(&nodes[6]), &first], "");
    assert!(shown.ends_with("[OK] New node added correctly.\n"), "{shown}");
    assert_eq!(ask(&nodes[6], "fcall f 0"), "7");
    let primary = id(&nodes[6]);
    manage(&nodes[0], &["add-node", &last, &first, "--cluster-slave", "--cluster-master-id", &primary], "");
    assert!(ask(&nodes[7], "role").starts_with("slave"));
    is_sound(&nodes);

    let taken = run(&nodes[0], &["--cluster", "del-node", &first, &id(&nodes[1])], "");
    assert!(taken.code == 1 && taken.stdout.contains("is not empty! Reshard data away"), "{taken:?}");
    // Its replica gets another primary before it goes.
    let shown = manage(&nodes[0], &["del-node", &first, &primary], "");
    assert!(shown.contains(&format!(">>> {last} as replica of ")), "{shown}");
    assert_eq!(ask(&nodes[6], "cluster nodes").lines().count(), 1);
}

pub fn a_node_that_is_gone_is_removed() {
    let mut nodes = nodes(4);
    create(&nodes, &["--cluster-yes"]);
    let removed = id(&nodes[3]);
    let rest: Vec<String> = nodes[..3].iter().map(id).collect();
    let slots_of_last = slots(&nodes)[3].to_string();
    let words = ["reshard", &address(&nodes[0]), "--cluster-from", &removed, "--cluster-to", &rest[0]];
    manage(
        &nodes[0],
        &[words.as_slice(), &["--cluster-slots", &slots_of_last, "--cluster-yes"]].concat(),
        "",
    );
    is_sound(&nodes);
    drop(nodes.pop());
    let shown = manage(&nodes[0], &["del-node", &address(&nodes[0]), &removed], "");
    assert!(shown.contains("unable to send CLUSTER RESET.\n[OK] Node "), "{shown}");
    eventually("oblivion", || nodes.iter().all(|node| ask(node, "cluster nodes").lines().count() == 3));
}

pub fn slots_move_while_clients_write() {
    let nodes = nodes(4);
    let first = address(&nodes[0]);
    create(&nodes[..3], &["--cluster-yes"]);
    let lines = |client: usize| -> String {
        (0..4000).map(|line| format!("incr counter:{}\n", (line * 7 + client) % 200)).collect()
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|client| {
                let (node, lines) = (&nodes[client], lines(client));
                scope.spawn(move || run(node, if client == 0 { &["-c", "-3"] } else { &["-c"] }, &lines))
            })
            .collect();
        let (from, to) = (id(&nodes[0]), id(&nodes[1]));
        let answers = format!("0\n300\n{to}\n{to}\n{from}\ndone\nyes\n");
        let shown = manage(&nodes[0], &["reshard", &first], &answers);
        assert!(shown.contains("It is not possible to use the target node as source node."), "{shown}");
        assert!(shown.contains(&format!("    Moving slot range 0-299 from {from}\n")), "{shown}");
        assert_eq!(shown.matches("\n#").count(), 300, "{shown}");
        manage(&nodes[0], &["add-node", &address(&nodes[3]), &first], "");
        let shown = manage(
            &nodes[0],
            &["rebalance", &first, "--cluster-use-empty-masters", "--cluster-weight"]
                .into_iter()
                .chain([format!("{from}=0.25").as_str(), format!("{}=0.1", id(&nodes[3])).as_str()])
                .collect::<Vec<_>>(),
            "",
        );
        assert!(shown.contains(">>> Rebalancing across 4 nodes. Total weight = 2.35"), "{shown}");
        for writer in writers {
            let output = writer.join().unwrap();
            assert!(!output.stdout.contains("ERR") && output.stderr.is_empty(), "{output:?}");
        }
    });
    is_sound(&nodes);
    assert_eq!(slots(&nodes), [1742, 6972, 6972, 698]);
    // No write is lost or done twice.
    let gets: String = (0..200).map(|counter| format!("get counter:{counter}\n")).collect();
    let counted = run(&nodes[3], &["-c"], &gets);
    let values: Vec<&str> = counted.stdout.lines().filter(|line| !line.starts_with("-> ")).collect();
    assert_eq!(values, ["60"; 200]);
    let again = manage(&nodes[0], &["rebalance", &first, "--cluster-simulate"], "");
    assert!(again.contains("Moving ") && again.ends_with("#\n"), "{again}");
}

/// Creates a cluster and starts to move 5,000 slots from its first node to its second.
fn start_reshard(nodes: &[Server]) -> Running {
    let first = address(&nodes[0]);
    create(nodes, &["--cluster-yes"]);
    let (from, to) = (id(&nodes[0]), id(&nodes[1]));
    let words =
        ["-a", PASSWORD, "--cluster", "reshard", &first, "--cluster-from", &from, "--cluster-to", &to];
    let more = ["--cluster-slots", "5000", "--cluster-yes"];
    Running::start(&mut nodes[0].client(&[words.as_slice(), &more].concat()))
}

pub fn an_interrupted_reshard_leaves_no_slot_open() {
    let nodes = nodes(3);
    let mut running = start_reshard(&nodes);
    running.read_to("Moving slot 100 ");
    running.interrupt();
    running.read_to("no slot is left open.");
    running.read_to(" of 5000 slots were moved from ");
    assert_eq!(running.end(), 1);
    is_sound(&nodes);
    assert!(slots(&nodes)[0] < 5361);
}

pub fn a_node_that_vanishes_leaves_one_slot_to_be_mended() {
    let mut nodes = nodes(3);
    let first = address(&nodes[0]);
    let mut running = start_reshard(&nodes);
    running.read_to("Moving slot 50 ");
    drop(nodes.remove(1));
    running.read_to(&format!(" may be open: migrating in {first}, importing in "));
    running.read_to(&format!("'warmline-cli --cluster fix {first}' completes the move;"));
    running.read_to(" of 5000 slots were moved from ");
    assert_eq!(running.end(), 1);
    let open = |text: &str| {
        let line =
            text.lines().find_map(|line| line.strip_prefix("[WARNING] The following slots are open: "));
        line.map_or(0, |slots| slots.split(',').count())
    };
    let found = run(&nodes[0], &["--cluster", "check", &first], "");
    assert!(found.code == 1 && open(&found.stdout) <= 1, "{found:?}");
    // What the lost node has is not given to others unasked.
    let refused = run(&nodes[0], &["--cluster", "fix", &first], "yes\nyes\nyes\n");
    assert!(
        refused.code == 1 && refused.stdout.contains("with 1 unreachable primaries is dangerous"),
        "{refused:?}"
    );
    let take = ["--cluster", "fix", &first, "--cluster-fix-with-unreachable-masters"];
    let taken = run(&nodes[0], &take, "yes\nyes\nyes\n");
    assert_eq!(taken.code, 0, "{taken:?}");
    eventually("coverage", || {
        let found = run(&nodes[0], &["--cluster", "check", &first], "").stdout;
        found.contains("[OK] All 16384 slots covered.") && open(&found) == 0
    });
}

pub fn open_slots_and_slots_without_owner_are_mended() {
    let nodes = nodes(3);
    let first = address(&nodes[0]);
    create(&nodes, &["--cluster-yes"]);
    let ids: Vec<String> = nodes.iter().map(id).collect();
    // 866 is the slot of "hello", 15495 that of "a".
    for key in ["hello", "{hello}2", "a"] {
        assert_eq!(run(&nodes[0], &["-c", "set", key, "1"], "").stdout, "OK\n");
    }
    // Opened at both sides, with a key that has moved already.
    ask(&nodes[1], &format!("cluster setslot 866 importing {}", ids[0]));
    ask(&nodes[0], &format!("cluster setslot 866 migrating {}", ids[1]));
    let migrate = format!("migrate 127.0.0.1 {} hello 0 5000 auth {PASSWORD}", nodes[1].port);
    assert_eq!(ask(&nodes[0], &migrate), "OK");
    // Opened at one side.
    ask(&nodes[0], &format!("cluster setslot 5 migrating {}", ids[1]));
    ask(&nodes[2], &format!("cluster setslot 6 importing {}", ids[0]));
    let found = run(&nodes[0], &["--cluster", "check", &first], "");
    assert!(
        found.code == 1 && found.stdout.contains("The following slots are open: 5,6,866.\n"),
        "{found:?}"
    );
    let refused = run(&nodes[0], &["--cluster", "reshard", &first], "");
    assert!(refused.code == 1 && refused.stderr.contains("Please fix your cluster problems"), "{refused:?}");
    let shown = manage(&nodes[0], &["fix", &first], "");
    assert!(
        shown.contains(">>> Case 4: Closing slot 5 on ") && shown.contains(">>> Case 1: Moving slot 866"),
        "{shown}"
    );
    is_sound(&nodes);
    assert_eq!(ask(&nodes[1], "get {hello}2"), "1");
    assert_eq!(run(&nodes[1], &["-c", "get", "hello"], "").stdout, "1\n");

    // Without an owner: one slot with a key, and empty ones.
    for node in &nodes {
        assert_eq!(ask(node, "cluster delslots 15495 100 101"), "OK");
    }
    let shown = run(&nodes[0], &["--cluster", "fix", &first, "--cluster-yes"], "yes\nno\n");
    assert!(
        shown.stdout.contains("have no keys across the cluster:\n[100-101]\n") && shown.code == 1,
        "{shown:?}"
    );
    assert!(shown.stdout.contains("have keys in just one node:\n[15495]\n"), "{shown:?}");
    let shown = manage(&nodes[0], &["fix", &first], "yes\n");
    assert!(shown.contains(&format!(">>> Covering slot 15495 with {}\n", address(&nodes[2]))), "{shown}");
    is_sound(&nodes);
    eventually("the state", || ask(&nodes[2], "get a") == "1");
    assert_eq!(slots(&nodes).iter().sum::<usize>(), 16384);
}

pub fn keys_left_behind_are_brought_to_their_owner() {
    let nodes = nodes(3);
    let first = address(&nodes[0]);
    create(&nodes, &["--cluster-yes"]);
    let ids: Vec<String> = nodes.iter().map(id).collect();
    // A key of the first node's slot 866 at the second, which does not own it.
    ask(&nodes[1], &format!("cluster setslot 866 importing {}", ids[0]));
    assert_eq!(run(&nodes[1], &[], "asking\nset hello 1\n").stdout, "OK\nOK\n");
    ask(&nodes[1], "cluster setslot 866 stable");
    let search = ["check", &first, "--cluster-search-multiple-owners"];
    let found = run(&nodes[0], &[&["--cluster"], search.as_slice()].concat(), "");
    assert!(found.code == 1 && found.stdout.contains("[WARNING] Slot 866 has 2 owners:\n"), "{found:?}");
    let shown = manage(&nodes[0], &[&["fix"], &search[1..]].concat(), "");
    assert!(shown.contains(">>> Fixing multiple owners for slot 866...\n"), "{shown}");
    is_sound(&nodes);
    manage(&nodes[0], &search, "");
    assert_eq!(run(&nodes[2], &["-c", "get", "hello"], "").stdout, "1\n");
}

pub fn keys_that_both_nodes_have_are_compared() {
    let nodes = nodes(3);
    let first = address(&nodes[0]);
    create(&nodes, &["--cluster-yes"]);
    let ids: Vec<String> = nodes.iter().map(id).collect();
    ask(&nodes[0], "set hello 1");
    ask(&nodes[1], &format!("cluster setslot 866 importing {}", ids[0]));
    run(&nodes[1], &[], "asking\nset hello 2\n");
    ask(&nodes[0], &format!("cluster setslot 866 migrating {}", ids[1]));
    let fix = ["--cluster", "fix", &first];
    let stopped = run(&nodes[0], &fix, "");
    assert!(stopped.code == 1 && stopped.stdout.contains("    Keys(s):\n    - hello\n"), "{stopped:?}");
    assert!(stopped.stdout.contains("*** Slot 866 may be open: migrating in "), "{stopped:?}");
    manage(&nodes[0], &["fix", &first, "--cluster-replace"], "");
    is_sound(&nodes);
    assert_eq!(run(&nodes[2], &["-c", "get", "hello"], "").stdout, "1\n");
}

pub fn keys_of_a_single_server_are_imported() {
    let (nodes, source) = (nodes(3), Server::start(&["--requirepass", "other"]));
    create(&nodes, &["--cluster-yes"]);
    let sets: String = (0..500).map(|key| format!("set key:{key} {key}\n")).collect();
    source.run_with_input(&["-a", "other"], sets.as_bytes());
    let (first, from) = (address(&nodes[0]), address(&source));
    let words = ["import", &first, "--cluster-from", &from, "--cluster-from-pass", "other"];
    let shown = manage(&nodes[0], &[words.as_slice(), &["--cluster-copy"]].concat(), "");
    assert!(shown.contains("*** Importing 500 keys from DB 0\n"), "{shown}");
    assert_eq!(
        shown.lines().filter(|line| line.starts_with("Migrating key:") && line.ends_with(": OK")).count(),
        500
    );
    let busy = run(&nodes[0], &[&["--cluster"], words.as_slice()].concat(), "");
    assert!(busy.code == 1 && busy.stdout.contains("BUSYKEY"), "{busy:?}");
    manage(&nodes[0], &[words.as_slice(), &["--cluster-replace"]].concat(), "");
    assert_eq!(source.ask(&["-a", "other", "--no-auth-warning", "dbsize"]), "0");
    let info = manage(&nodes[0], &["info", &first], "");
    assert!(info.contains("[OK] 500 keys in 3 primaries.\n"), "{info}");
    assert_eq!(run(&nodes[0], &["-c", "get", "key:77"], "").stdout, "77\n");
    let other = run(
        &nodes[0],
        &["--cluster", "import", &first, "--cluster-from", &first, "--cluster-from-pass", PASSWORD],
        "",
    );
    assert!(other.code == 1 && other.stdout.contains("should not be a cluster node."), "{other:?}");
}

pub fn redirections_are_followed_and_shown() {
    let nodes = nodes(3);
    create(&nodes, &["--cluster-yes"]);
    let ids: Vec<String> = nodes.iter().map(id).collect();
    ask(&nodes[1], &format!("cluster setslot 866 importing {}", ids[0]));
    ask(&nodes[0], &format!("cluster setslot 866 migrating {}", ids[1]));
    for protocol in ["-2", "-3"] {
        let words = ["-a", PASSWORD, "--no-auth-warning", "-c", protocol];
        let mut user = Running::start(nodes[0].client(&words).env("FAKETTY", "1"));
        user.type_line("set a 1");
        user.read_to(&format!("-> Redirected to slot [15495] located at {}\nOK\n", address(&nodes[2])));
        user.type_line("set hello 1");
        user.read_to(&format!("-> Redirected to slot [866] located at {}\n", address(&nodes[0])));
        user.read_to(if protocol == "-2" { "\n" } else { "OK\n" });
        user.type_line("get hello");
        user.read_to("\"1\"\n");
        assert_eq!(user.end(), 0);
        assert_eq!(run(&nodes[2], &["-c", protocol, "set", "{hello}3", "3"], "").stdout, "OK\n");
        // It is where the slot goes to, although the owner is the source.
        assert_eq!(ask(&nodes[1], "cluster countkeysinslot 866"), "2");
    }
}

pub fn a_server_of_its_own_is_no_cluster() {
    let server = Server::start(&[]);
    let address = format!("127.0.0.1:{}", server.port);
    for command in [
        ["check", &address].as_slice(),
        &["info", &address],
        &["call", &address, "ping"],
        &["create", &address],
        &["fix", &address],
        &["reshard", &address],
        &["rebalance", &address],
    ] {
        let output = server.run(&[&["--cluster"], command].concat());
        let expected = format!("[ERR] Node {address} is not configured as a cluster node.\n");
        assert_eq!((output.stdout, output.code), (expected, 1), "{command:?}");
    }
    let help = server.run(&["--cluster", "help"]);
    assert!(help.stdout.starts_with("Cluster Manager Commands:\n  create ") && help.code == 0, "{help:?}");
    for (words, complaint) in [
        (["nothing", ""], "Unknown --cluster subcommand\n"),
        (["create", "here"], "Invalid address format: here\n"),
        (["call", &address], "[ERR] Wrong number of arguments for specified --cluster sub command\n"),
        (["info", "here"], "[ERR] Invalid arguments: you need to pass either a valid address"),
        (["set-timeout", "x"], "[ERR] Wrong number of arguments"),
    ] {
        let output = server.run(&["--cluster", words[0], words[1]]);
        assert!(output.stderr.starts_with(complaint) && output.code == 1, "{output:?}");
    }
}
