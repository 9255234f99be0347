//! Files that Valkey 9.1.2 has written, files of older servers, and files with a fault in each place.

use super::*;
use crate::cluster_bus::SLOTS;
use structures::random::Random;

const GOLDEN: [&str; 3] = [
    include_str!("golden_fields.conf"),
    include_str!("golden_open_slots.conf"),
    include_str!("golden_failed.conf"),
];

fn node<'a>(conf: &'a NodesConf, prefix: &str) -> &'a NodeRow {
    conf.nodes.iter().find(|node| node.id.as_str().starts_with(prefix)).unwrap()
}

#[test]
fn files_of_another_server_are_written_byte_for_byte() {
    for text in GOLDEN {
        let mut conf = read(text.as_bytes(), false).unwrap();
        // What is stored for a replica is the epoch of its primary.
        let epochs: Vec<_> = conf.nodes.iter().map(|node| (node.id, node.config_epoch)).collect();
        for node in &mut conf.nodes {
            let primary = epochs.iter().find(|(id, _)| Some(*id) == node.replica_of);
            node.config_epoch = primary.map_or(node.config_epoch, |(_, epoch)| *epoch);
        }
        assert_eq!(conf.text(), text);
    }
}

#[test]
fn fields_of_another_server_are_found() {
    let conf = read(GOLDEN[0].as_bytes(), false).unwrap();
    assert_eq!((conf.nodes.len(), conf.current_epoch, conf.last_vote_epoch), (4, 3, 0));
    let first = node(&conf, "4ef3");
    assert_eq!(first.flags, NodeFlags::MYSELF | NodeFlags::PRIMARY);
    assert_eq!(first.address, Address::parse("127.0.0.1"));
    assert_eq!((first.tcp_port, first.tls_port, first.bus_port), (7200, 0, 27200));
    assert_eq!((first.hostname.as_str(), first.nodename.as_str()), ("node-0.example.org", "first"));
    assert_eq!(first.availability_zone.as_str(), "zone-a");
    assert_eq!((first.client_tcp_port, first.client_tls_port), (6379, 6380));
    assert_eq!(first.client_ipv4, "10.1.2.3".parse().ok());
    assert_eq!(first.client_ipv6, "fd00::3".parse().ok());
    assert_eq!(first.slots.ranges().collect::<Vec<_>>(), [(0, 5460)]);
    let replica = node(&conf, "05a0");
    assert_eq!((replica.replica_of, replica.shard_id), (Some(first.id), first.shard_id));
    assert_eq!((replica.config_epoch, replica.pong_received_ms), (0, 1_795_807_857_653));

    let open = &read(GOLDEN[1].as_bytes(), false).unwrap().nodes[1].open_slots;
    assert_eq!((open.len(), open[0].slot, open[0].direction), (1, 16_000, Direction::Migrating));
    let conf = read(GOLDEN[2].as_bytes(), false).unwrap();
    assert_eq!(node(&conf, "4ef3").flags, NodeFlags::PRIMARY | NodeFlags::FAILED);
    assert_eq!((conf.current_epoch, conf.last_vote_epoch), (6, 6));
}

#[test]
fn a_line_for_clients_has_no_fields() {
    let conf = read(GOLDEN[1].as_bytes(), false).unwrap();
    let node = node(&conf, "44c5");
    let mut line = String::new();
    NodeLine {
        id: node.id,
        host: &"10.9.9.9",
        port: 1234,
        bus_port: node.bus_port,
        hostname: &Text::parse("host").unwrap(),
        flags: NodeFlags::HANDSHAKE | NodeFlags::EXTENSIONS,
        replica_of: None,
        ping_sent_ms: 7,
        pong_received_ms: 8,
        epoch: 9,
        is_connected: false,
        slots: &[1, 3, 4].into_iter().collect(),
        open_slots: &node.open_slots,
    }
    .append_to(&mut line);
    let expected = "44c5042b9edee705860ccb3306349c7704563353 10.9.9.9:1234@27202,host handshake - 7 8 9 \
                    disconnected 1 3-4 [16000->-6d942a230d1f863caa9df00bc3cc06e12f299654]";
    assert_eq!(line, expected);
}

const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn one(line: &str) -> NodeRow {
    read(format!("{ID} {line}\n").as_bytes(), false)
        .unwrap_or_else(|fault| panic!("{line}: {fault}"))
        .nodes
        .remove(0)
}

#[test]
fn old_files_are_read() {
    let node = one("10.0.0.1:7000 myself,primary - 0 0 5 connected 0-9 11");
    assert_eq!((node.tcp_port, node.tls_port, node.bus_port), (7000, 0, 17_000));
    assert_eq!((node.shard_id, node.hostname.as_str(), node.config_epoch), (None, "", 5));
    assert_eq!(node.slots.len(), 11);
    let node = one("::1:7000@17001,name myself,MASTER,nofailover - 0 0 5 connected");
    assert_eq!((node.address, node.bus_port), (Address::parse("::1"), 17_001));
    assert_eq!(node.flags, NodeFlags::MYSELF | NodeFlags::PRIMARY | NodeFlags::NO_FAILOVER);
    let text = format!("{ID} 10.0.0.1:7000 myself,replica {OTHER} 0 0 5 connected\n\nvars currentEpoch 4");
    let conf = read(text.as_bytes(), true).unwrap();
    assert_eq!((conf.nodes[0].tcp_port, conf.nodes[0].tls_port, conf.nodes[0].bus_port), (0, 7000, 17_000));
    assert_eq!((conf.nodes[0].config_epoch, conf.current_epoch), (0, 4));
    // The highest epoch of a node is known even if the variables say otherwise.
    let conf =
        read(format!("vars\tCURRENTEPOCH 2 later 7\r\n{ID} :0@0 myself - 0 0 9 connected").as_bytes(), false);
    assert_eq!(conf.unwrap().current_epoch, 9);
}

#[test]
fn ports_are_in_the_address_or_in_the_fields() {
    let ports = |fields: &str| {
        let node = one(&format!("10.0.0.1:7000@1,,{fields} myself,master - 0 0 0 connected"));
        (node.tcp_port, node.tls_port)
    };
    assert_eq!(ports("tls-port=8000"), (7000, 8000));
    assert_eq!(ports("tcp-port=8000"), (8000, 7000));
    assert_eq!(ports("tcp-port=8000,tls-port=9000"), (8000, 9000));
}

#[test]
fn a_node_without_address_has_failed() {
    let node = one(":0@0 myself,master,noaddr - 0 0 0 disconnected");
    assert_eq!((node.address, node.is_connected), (None, false));
    assert!(node.flags.contains(NodeFlags::NO_ADDRESS | NodeFlags::FAILED));
    assert_eq!(one(":0@0, myself,noflags - 1 2 0 connected").flags, NodeFlags::MYSELF);
}

#[test]
fn each_fault_is_named_with_its_line() {
    let fault_of = |line: &str| {
        let text = format!("{OTHER} h:1@2 myself - 0 0 0 connected\n\n{line}\n");
        let fault = read(text.as_bytes(), false).unwrap_err();
        assert_eq!(fault.line, 3, "{line}");
        fault.kind
    };
    let with_id = |rest: &str| fault_of(&format!("{ID} {rest}"));
    assert_eq!(with_id("h:1@2 master - 0 0 0"), FaultKind::Fields);
    assert_eq!(fault_of("AAAA h:1@2 master - 0 0 0 connected"), FaultKind::Id);
    assert_eq!(fault_of(&format!("{OTHER} h:1@2 master - 0 0 0 connected")), FaultKind::DuplicateId);
    assert_eq!(with_id("h:1@2 master,myself - 0 0 0 connected"), FaultKind::SecondMyself);
    for place in ["h", "a;b:1@2"] {
        assert_eq!(with_id(&format!("{place} master - 0 0 0 connected")), FaultKind::Address);
    }
    for place in ["h:", "h:x@2", "h:1@", "h:1@65536", "h:-1@2", "h:60000", "h:1@2@3"] {
        assert_eq!(with_id(&format!("{place} master - 0 0 0 connected")), FaultKind::Port, "{place}");
    }
    assert_eq!(with_id("h:1@2,a=b master - 0 0 0 connected"), FaultKind::Hostname);
    assert_eq!(with_id("h:1@2,,zone master - 0 0 0 connected"), FaultKind::Field);
    assert_eq!(with_id("h:1@2,,zone=a master - 0 0 0 connected"), FaultKind::FieldName);
    for value in [
        "shard-id=a",
        "shard-id=",
        "tcp-port=x",
        "tls-port=65536",
        "client-ipv4=fd00::1",
        "client-ipv6=1.2.3.4",
        "client-tcp-port=",
        "client-tls-port=-1",
        "nodename=a=b",
        "availability-zone=a;b",
    ] {
        assert_eq!(
            with_id(&format!("h:1@2,,{value} master - 0 0 0 connected")),
            FaultKind::FieldValue,
            "{value}"
        );
    }
    assert_eq!(with_id("h:1@2 master,big - 0 0 0 connected"), FaultKind::Flag);
    assert_eq!(with_id("h:1@2 slave x 0 0 0 connected"), FaultKind::PrimaryId);
    assert_eq!(with_id("h:1@2 master - x 0 0 connected"), FaultKind::Time);
    assert_eq!(with_id("h:1@2 master - 0 -1 0 connected"), FaultKind::Time);
    assert_eq!(with_id("h:1@2 master - 0 0 9223372036854775808 connected"), FaultKind::Epoch);
    assert_eq!(with_id("h:1@2 master - 0 0 0 maybe"), FaultKind::LinkState);
    for slots in ["16384", "5-4", "0-16384", "-", "x", "1-2-3"] {
        assert_eq!(with_id(&format!("h:1@2 master - 0 0 0 connected {slots}")), FaultKind::Slots, "{slots}");
    }
    for open in ["[", "[]", "[1]", "[1->-x]", "[16384->-ID]", "[1-=-ID]", "[1->-ID", "[1>ID]"] {
        let word = open.replace("ID", ID);
        assert_eq!(with_id(&format!("h:1@2 master - 0 0 0 connected {word}")), FaultKind::OpenSlot, "{open}");
    }
    assert_eq!(fault_of("vars currentEpoch"), FaultKind::Variables);
    assert_eq!(fault_of("vars currentEpoch x"), FaultKind::Epoch);
}

#[test]
fn a_file_without_this_node_or_without_text_is_refused() {
    let text = format!("{ID} h:1@2 master - 0 0 0 connected\nvars currentEpoch 1 lastVoteEpoch 0\n");
    let fault = read(text.as_bytes(), false).unwrap_err();
    assert_eq!(
        (fault, fault.to_string().as_str()),
        (Fault { line: 0, kind: FaultKind::NoMyself }, "no node with the flag myself")
    );
    let fault = read(b"\n\xff\n", false).unwrap_err();
    assert_eq!(fault.to_string(), "line 2: not UTF-8");
    assert_eq!(read(b"", false).unwrap_err().kind, FaultKind::NoMyself);
}

fn random_row(random: &mut Random) -> NodeRow {
    let id = |random: &mut Random| NodeId::from_random(std::array::from_fn(|_| random.below(256) as u8));
    let text = |random: &mut Random| Text::parse(["", "a", "zone-1/b"][random.index(3)]).unwrap();
    let (replica_of, first) = (id(random), random.below(u64::from(SLOTS)) as u16);
    let is_replica = random.below(2) == 0;
    let words = [NodeFlags::POSSIBLY_FAILED, NodeFlags::FAILED, NodeFlags::NO_FAILOVER, NodeFlags::HANDSHAKE];
    NodeRow {
        address: Address::parse(["", "10.0.0.1", "fd00::1", "name"][random.index(4)]),
        tcp_port: random.next_u64() as u16,
        tls_port: random.next_u64() as u16,
        bus_port: random.next_u64() as u16,
        hostname: text(random),
        nodename: text(random),
        shard_id: (random.below(2) == 0).then_some(id(random)),
        client_ipv4: (random.below(2) == 0).then_some([1, 2, 3, 4].into()),
        client_ipv6: (random.below(2) == 0).then(|| "::9".parse().unwrap()),
        client_tcp_port: random.below(3) as u16,
        client_tls_port: random.below(3) as u16,
        availability_zone: text(random),
        flags: words[random.index(4)] | if is_replica { NodeFlags::REPLICA } else { NodeFlags::PRIMARY },
        replica_of: is_replica.then_some(replica_of),
        ping_sent_ms: random.below(3),
        pong_received_ms: random.next_u64(),
        config_epoch: if is_replica { 0 } else { random.below(1 << 63) },
        is_connected: random.below(2) == 0,
        slots: (first..SLOTS).step_by(1 + random.index(3)).take(9).collect(),
        open_slots: Vec::new(),
        ..NodeRow::new(id(random))
    }
}

#[test]
fn what_is_written_is_read_again() {
    let mut random = Random::new(3);
    for _ in 0..300 {
        let mut nodes: Vec<_> = (0..1 + random.below(5)).map(|_| random_row(&mut random)).collect();
        let myself = random.index(nodes.len());
        nodes[myself].flags |= NodeFlags::MYSELF;
        let direction = [Direction::Migrating, Direction::Importing][random.index(2)];
        nodes[myself].open_slots = vec![OpenSlot { slot: 7, direction, node: nodes[0].id }];
        let current_epoch = nodes.iter().map(|node| node.config_epoch).max().unwrap();
        let conf = NodesConf { nodes, current_epoch, last_vote_epoch: random.below(1 << 63) };
        assert_eq!(read(conf.text().as_bytes(), random.below(2) == 0), Ok(conf));
    }
}

#[test]
fn no_cut_file_stops_the_reader() {
    for text in GOLDEN {
        for end in 0..text.len() {
            let _ = read(&text.as_bytes()[..end], false);
        }
        assert!(read(&text.as_bytes()[..150], false).is_err(), "half a line");
    }
}
