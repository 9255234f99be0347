//! Frames of another server byte for byte, frames that are written and read again, and malformed frames.

use super::layout;
use super::*;
use crate::cluster_bus::read::EXTENSIONS_BYTES_MAX;
use structures::random::Random;

/// Enough for all messages of these tests.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

struct Golden {
    name: &'static str,
    bytes: Vec<u8>,
}

/// Reads the file of frames, whose head describes it.
fn golden() -> Vec<Golden> {
    let mut frames: Vec<Golden> = Vec::new();
    let file = include_str!("golden_frames.txt");
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((len, name)) = line.strip_prefix("frame ").and_then(|rest| rest.split_once(' ')) {
            frames.push(Golden { name, bytes: vec![0; len.parse().unwrap()] });
            continue;
        }
        let (offset, text) = line.split_once(' ').unwrap();
        let (digits, times) = text.split_once('*').unwrap_or((text, "1"));
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let bytes = bytes.repeat(times.parse().unwrap());
        let (offset, frame) = (offset.parse::<usize>().unwrap(), frames.last_mut().unwrap());
        frame.bytes[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    frames
}

fn golden_frame(name: &str) -> Frame {
    let golden = golden().into_iter().find(|golden| golden.name == name).unwrap();
    read(&golden.bytes, MESSAGE_BYTES_MAX).unwrap()
}

#[test]
fn frames_of_another_server_are_written_byte_for_byte() {
    let golden = golden();
    let mut kinds = std::collections::HashSet::new();
    for Golden { name, bytes } in &golden {
        let frame = read(bytes, MESSAGE_BYTES_MAX).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let encoded = frame.encode();
        let difference = encoded.as_bytes().iter().zip(bytes).position(|(ours, theirs)| ours != theirs);
        assert_eq!((difference, encoded.as_bytes().len()), (None, bytes.len()), "{name}");
        kinds.insert((frame.kind(), matches!(frame, Frame::Full(..))));
    }
    assert_eq!(kinds.len(), Kind::ALL.len() + 3, "each type, and the light ones");
}

#[test]
fn fields_of_another_server_are_found() {
    let Frame::Full(header, Body::Ping(gossip)) = golden_frame("a PING with all extensions of a node") else {
        panic!("no PING");
    };
    assert_eq!((header.port, header.bus_port, header.current_epoch), (7200, 27200, 3));
    assert_eq!(header.slots.ranges().collect::<Vec<_>>(), [(0, 5460)]);
    assert_eq!((header.replica_of, header.address, header.is_state_ok), (None, None, false));
    let reads = NodeFlags::EXTENSIONS | NodeFlags::LIGHT_PUBLISH | NodeFlags::LIGHT_MODULE;
    assert_eq!(header.flags, NodeFlags::PRIMARY | NodeFlags::MYSELF | reads);
    let addresses: Vec<_> =
        gossip.entries.iter().map(|entry| (entry.port, entry.bus_port, entry.flags)).collect();
    assert_eq!(
        addresses,
        [(7201, 27201, NodeFlags::PRIMARY | reads), (7202, 27202, NodeFlags::PRIMARY | reads)]
    );
    assert_eq!(gossip.entries[0].address, Address::parse("127.0.0.1"));
    let extensions = gossip.extensions;
    assert_eq!(extensions.hostname.as_str(), "node-0.example.org");
    assert_eq!((extensions.nodename.as_str(), extensions.availability_zone.as_str()), ("first", "zone-a"));
    assert_eq!((extensions.client_port, extensions.client_tls_port), (Some(6379), Some(6380)));
    assert_eq!(extensions.client_ipv4, "10.1.2.3".parse().ok());
    assert_eq!(extensions.client_ipv6, "fd00::3".parse().ok());
    assert!(extensions.shard_id.is_some() && extensions.forgotten.is_empty());
}

#[test]
fn messages_of_another_server_are_found() {
    let Frame::Full(_, Body::Pong(gossip)) = golden_frame("a PONG with gossip about a failed node") else {
        panic!("no PONG");
    };
    assert!(gossip.entries.iter().any(|entry| entry.flags.contains(NodeFlags::FAILED)));
    let Frame::Full(_, Body::Ping(gossip)) = golden_frame("a PING with a forgotten node") else {
        panic!("no PING");
    };
    assert_eq!(gossip.extensions.forgotten.len(), 1);
    assert!((1..=60).contains(&gossip.extensions.forgotten[0].ttl_s));
    let Frame::Light(Light::PublishShard(message)) = golden_frame("PUBLISHSHARD, light") else {
        panic!("no PUBLISHSHARD");
    };
    assert_eq!((message.channel, message.message), (b"channel-8".to_vec(), b"shard hello".to_vec()));
    let Frame::Full(header, Body::FailoverAuthRequest) =
        golden_frame("FAILOVER_AUTH_REQUEST of a manual failover")
    else {
        panic!("no FAILOVER_AUTH_REQUEST");
    };
    assert!(header.mflags.forces_vote && header.replica_of.is_some());
}

fn random_id(random: &mut Random) -> NodeId {
    NodeId::from_random(std::array::from_fn(|_| random.below(256) as u8))
}

fn random_text(random: &mut Random) -> Text {
    const NAMES: &[&str] = &["", "a", "node-1", "node-12", "node-1.example.org", "a.b-c.d"];
    Text::parse(NAMES[random.index(NAMES.len())]).unwrap()
}

fn random_address(random: &mut Random) -> Option<Address> {
    const TEXTS: &[&str] =
        &["", "127.0.0.1", "::1", "node-1", "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"];
    Address::parse(TEXTS[random.index(TEXTS.len())])
}

fn random_bytes(random: &mut Random) -> Vec<u8> {
    let len = [0, 1, 7, 100, 3000][random.index(5)];
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn random_flag(random: &mut Random) -> bool {
    random.below(2) == 0
}

fn random_entry(random: &mut Random) -> GossipEntry {
    GossipEntry {
        id: random_id(random),
        ping_sent_s: random.next_u64() as u32,
        pong_received_s: random.next_u64() as u32,
        address: random_address(random),
        port: random.next_u64() as u16,
        other_port: random.next_u64() as u16,
        bus_port: random.next_u64() as u16,
        flags: NodeFlags::from_bits(random.next_u64() as u16),
    }
}

fn random_extensions(random: &mut Random) -> Extensions {
    let port = |random: &mut Random| Some(random.below(3) as u16).filter(|port| *port != 0);
    Extensions {
        hostname: random_text(random),
        nodename: random_text(random),
        client_ipv4: random_flag(random).then_some([10, 0, 0, 1].into()),
        client_ipv6: random_flag(random).then(|| "1::0".parse().unwrap()),
        client_port: port(random),
        client_tls_port: port(random),
        availability_zone: random_text(random),
        forgotten: (0..random.below(3)).map(|ttl_s| Forgotten { id: random_id(random), ttl_s }).collect(),
        shard_id: random_flag(random).then_some(random_id(random)),
    }
}

fn random_header(random: &mut Random) -> Header {
    let first = random.below(16_384) as u16;
    Header {
        sender: random_id(random),
        port: random.next_u64() as u16,
        other_port: random.next_u64() as u16,
        bus_port: random.next_u64() as u16,
        current_epoch: random.next_u64() >> 1,
        config_epoch: random.below(100),
        offset: random.next_u64(),
        slots: (first..first.saturating_add(2000)).collect(),
        replica_of: random_flag(random).then_some(random_id(random)),
        address: random_address(random),
        flags: NodeFlags::from_bits(random.next_u64() as u16),
        is_state_ok: random_flag(random),
        mflags: MessageFlags {
            is_paused: random_flag(random),
            forces_vote: random_flag(random),
            has_extensions: random_flag(random),
        },
    }
}

fn random_frame(random: &mut Random) -> Frame {
    let header = Box::new(random_header(random));
    let gossip = Gossip {
        entries: (0..random.below(5)).map(|_| random_entry(random)).collect(),
        extensions: match header.mflags.has_extensions {
            true => random_extensions(random),
            false => Extensions::default(),
        },
    };
    let publication = Publication { channel: random_bytes(random), message: random_bytes(random) };
    let message = ModuleMessage {
        module: random.next_u64().to_be_bytes(),
        kind: random.below(256) as u8,
        payload: random_bytes(random),
    };
    let body = match Kind::ALL[random.index(11)] {
        Kind::Ping => Body::Ping(gossip),
        Kind::Pong => Body::Pong(gossip),
        Kind::Meet => Body::Meet(gossip),
        Kind::Fail => Body::Fail(random_id(random)),
        Kind::Publish if random_flag(random) => return Frame::Light(Light::Publish(publication)),
        Kind::Publish => Body::Publish(publication),
        Kind::PublishShard if random_flag(random) => return Frame::Light(Light::PublishShard(publication)),
        Kind::PublishShard => Body::PublishShard(publication),
        Kind::FailoverAuthRequest => Body::FailoverAuthRequest,
        Kind::FailoverAuthAck => Body::FailoverAuthAck,
        Kind::Update => Body::Update(Update {
            id: random_id(random),
            config_epoch: random.below(1000),
            slots: header.slots.clone(),
        }),
        Kind::ManualFailoverStart => Body::ManualFailoverStart,
        Kind::Module if random_flag(random) => return Frame::Light(Light::Module(message)),
        Kind::Module => Body::Module(message),
    };
    Frame::Full(header, body)
}

#[test]
fn what_is_written_is_read_again() {
    let mut random = Random::new(41);
    for _ in 0..2000 {
        let frame = random_frame(&mut random);
        assert_eq!(read(frame.encode().as_bytes(), MESSAGE_BYTES_MAX).as_ref(), Ok(&frame));
    }
}

/// A frame that announces the length that it has.
fn with_own_len(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    bytes[layout::LENGTH..layout::LENGTH + 4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn no_truncation_is_a_frame() {
    for Golden { name, bytes } in golden() {
        let step = if bytes.len() > layout::HEADER_LEN + 200 { 7 } else { 1 };
        for len in (0..bytes.len()).step_by(step).chain([bytes.len() - 1]) {
            assert!(read(&bytes[..len], MESSAGE_BYTES_MAX).is_err(), "{name}: {len}");
            if len >= layout::PREFIX_LEN {
                // A truncation that is honest about its length lacks a part all the same.
                let honest = with_own_len(bytes[..len].to_vec());
                assert!(read(&honest, MESSAGE_BYTES_MAX).is_err(), "{name}: {len}");
            }
        }
        let longer = with_own_len([&bytes[..], &[0; 8]].concat());
        assert!(read(&longer, MESSAGE_BYTES_MAX).is_err(), "{name} and more");
    }
}

#[test]
fn no_changed_byte_stops_the_reader() {
    let mut random = Random::new(7);
    for Golden { bytes, .. } in golden() {
        for at in (0..120).chain(2100..bytes.len()).filter(|at| *at < bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 + random.below(255) as u8;
            if let Ok(frame) = read(&changed, MESSAGE_BYTES_MAX) {
                let again = read(frame.encode().as_bytes(), MESSAGE_BYTES_MAX);
                assert_eq!(again, Ok(frame));
            }
        }
    }
}

/// The fault of a frame in which these bytes are replaced.
fn fault(name: &str, at: usize, replacement: &[u8]) -> Fault {
    let mut bytes = golden().into_iter().find(|golden| golden.name == name).unwrap().bytes;
    bytes[at..at + replacement.len()].copy_from_slice(replacement);
    read(&bytes, MESSAGE_BYTES_MAX).unwrap_err()
}

#[test]
fn each_lie_has_its_fault() {
    const PING: &str = "a PING with all extensions of a node";
    let extensions_at = layout::HEADER_LEN + 2 * layout::GOSSIP_LEN;
    assert_eq!(fault(PING, 0, b"RCmc"), Fault::Signature);
    assert_eq!(fault(PING, layout::LENGTH, &100_u32.to_be_bytes()), Fault::LengthBelowHeader(100));
    assert_eq!(fault(PING, layout::LENGTH, &[0xff; 4]), Fault::LengthBeyondLimit(u32::MAX));
    assert_eq!(fault(PING, layout::VERSION_AT, &[0, 2]), Fault::Version(2));
    assert_eq!(fault(PING, layout::TYPE, &[0, 11]), Fault::Type(11));
    assert_eq!(fault(PING, layout::TYPE, &[0x80, 0]), Fault::LightType(Kind::Ping));
    assert_eq!(fault(PING, layout::COUNT, &[0, 8]), Fault::Length, "gossip beyond the end");
    assert_eq!(fault(PING, layout::COUNT, &[0xff; 2]), Fault::Length);
    assert_eq!(fault(PING, layout::CURRENT_EPOCH, &[0x80]), Fault::Epoch);
    assert_eq!(fault(PING, layout::CONFIG_EPOCH, &[0xff]), Fault::Epoch);
    assert_eq!(fault(PING, layout::SENDER, b"A"), Fault::Id);
    assert_eq!(fault(PING, layout::REPLICA_OF, b"x"), Fault::Id);
    assert_eq!(fault(PING, layout::ADDRESS, &[b'1'; layout::ADDRESS_LEN]), Fault::Text);
    assert_eq!(fault(PING, layout::HEADER_LEN + 48, &[b'1'; layout::ADDRESS_LEN]), Fault::Text);
    assert_eq!(fault(PING, layout::EXTENSIONS, &[0xff; 2]), Fault::Length, "too few extensions");
    assert_eq!(fault(PING, layout::EXTENSIONS, &[0, 7]), Fault::Length, "an extension too many");
    assert_eq!(fault(PING, extensions_at, &[0; 4]), Fault::Extension(0), "length 0");
    assert_eq!(fault(PING, extensions_at, &31_u32.to_be_bytes()), Fault::Extension(0));
    assert_eq!(fault(PING, extensions_at, &[0xff, 0xff, 0xff, 0xf8]), Fault::Length);
    assert_eq!(fault(PING, extensions_at + 8, &[b'h'; 24]), Fault::Text, "a name without end");
    assert_eq!(fault(PING, extensions_at + 4, &[0, 2]), Fault::Extension(2), "a name is no id");
    assert_eq!(fault(PING, extensions_at + 4, &[0, 3]), Fault::Extension(3));
    assert_eq!(fault(PING, extensions_at + 4, &[0, 6]), Fault::Extension(6));
    assert_eq!(fault("a PING with a forgotten node", 2256 + 104 + 8, b"!"), Fault::Id);
    assert_eq!(fault("FAIL", layout::HEADER_LEN, &[0]), Fault::Id);
    assert_eq!(fault("UPDATE", layout::HEADER_LEN, &[0x80]), Fault::Epoch);
    assert_eq!(fault("UPDATE", layout::HEADER_LEN + 8, &[0]), Fault::Id);
    for (name, at) in [("PUBLISH", 2256), ("PUBLISH", 2260), ("PUBLISH, light", 16), ("PUBLISH, light", 20)] {
        for len in [[0xff; 4], [0, 0, 0, 99], [0; 4]] {
            assert_eq!(fault(name, at, &len), Fault::Length, "{name}, {at}");
        }
    }
    for (name, at) in [("MODULE", 2264), ("MODULE, light", 24)] {
        assert_eq!(fault(name, at, &[0xff; 4]), Fault::Length, "{name}");
    }
    assert!(Fault::Signature.closes_link() && Fault::LengthBelowHeader(1).closes_link());
    assert!(!Fault::Length.closes_link() && !Fault::Version(2).closes_link());
}

#[test]
fn what_is_only_strange_is_left_out() {
    const PING: &str = "a PING with all extensions of a node";
    let bytes = golden().into_iter().find(|golden| golden.name == PING).unwrap().bytes;
    let extensions_at = layout::HEADER_LEN + 2 * layout::GOSSIP_LEN;
    let changed = |at: usize, replacement: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + replacement.len()].copy_from_slice(replacement);
        match read(&bytes, MESSAGE_BYTES_MAX) {
            Ok(Frame::Full(header, Body::Ping(gossip))) => (header, gossip),
            other => panic!("{other:?}"),
        }
    };
    // Gossip in which one id is none is not believed at all, but its sender is.
    let (header, gossip) = changed(layout::HEADER_LEN + layout::GOSSIP_LEN, b"?");
    assert!(gossip.entries.is_empty() && !gossip.extensions.hostname.is_empty());
    assert_eq!(header.port, 7200);
    let (_, gossip) = changed(extensions_at + 8, b"a b");
    assert!(gossip.extensions.hostname.is_empty() && !gossip.extensions.nodename.is_empty());
    let (_, gossip) = changed(extensions_at + 4, &[0, 99]);
    assert!(gossip.extensions.hostname.is_empty() && gossip.extensions.shard_id.is_some());
    let (header, _) = changed(layout::ADDRESS, b"a b\0");
    assert_eq!(header.address, None);
    let (header, _) = changed(layout::FLAGS, &[0xff; 2]);
    assert_eq!(header.flags, NodeFlags::known());
    let (header, _) = changed(layout::MESSAGE_FLAGS, &[0xff; 3]);
    assert!(header.mflags.is_paused && header.mflags.forces_vote && header.mflags.has_extensions);
}

/// All that comes of a stream in pieces of this length.
fn received(stream: &[u8], piece_len: usize) -> (Vec<Received>, Option<Fault>, usize) {
    let mut incoming = Incoming::new(MESSAGE_BYTES_MAX);
    let (mut all, mut held_bytes_max) = (Vec::new(), 0);
    for mut piece in stream.chunks(piece_len) {
        loop {
            match incoming.next(&mut piece) {
                Ok(Some(received)) => all.push(received),
                Ok(None) => break,
                Err(fault) => return (all, Some(fault), held_bytes_max),
            }
            held_bytes_max = held_bytes_max.max(incoming.held_bytes());
        }
        assert!(piece.is_empty(), "what is left over is held");
        held_bytes_max = held_bytes_max.max(incoming.held_bytes());
    }
    (all, None, held_bytes_max)
}

#[test]
fn pieces_of_any_length_make_the_same_frames() {
    let stream: Vec<u8> = golden().into_iter().flat_map(|golden| golden.bytes).collect();
    let (whole, fault, held) = received(&stream, stream.len());
    assert_eq!((whole.len(), fault, held), (golden().len(), None, 0), "nothing is held of whole frames");
    for (received, golden) in whole.iter().zip(golden()) {
        assert_eq!(received.frame, read(&golden.bytes, MESSAGE_BYTES_MAX));
        assert_eq!(received.bytes as usize, golden.bytes.len());
    }
    for piece_len in [1, 2, 15, 16, 17, 1000, 2256, 4096] {
        assert_eq!(received(&stream, piece_len).0, whole, "{piece_len}");
    }
}

#[test]
fn dropped_frames_take_no_memory_and_leave_the_next_one_whole() {
    let ping = golden().swap_remove(1).bytes;
    let mut strange = [&ping[..layout::PREFIX_LEN], &[0xaa; 3_000_000]].concat();
    strange[layout::TYPE..layout::TYPE + 2].copy_from_slice(&[0, 77]);
    let mut old = ping.clone();
    old[layout::VERSION_AT + 1] = 0;
    let mut huge = [&ping[..], &vec![0; EXTENSIONS_BYTES_MAX]].concat();
    huge[layout::TYPE + 1] = 3;
    let stream = [with_own_len(strange), old, with_own_len(huge), ping.clone()].concat();
    for piece_len in [5, 16, 8192, stream.len()] {
        let (all, fault, held) = received(&stream, piece_len);
        let faults: Vec<_> = all.iter().map(|received| received.frame.as_ref().err().copied()).collect();
        let huge_len = (ping.len() + EXTENSIONS_BYTES_MAX) as u32;
        let expected =
            [Some(Fault::Type(77)), Some(Fault::Version(0)), Some(Fault::LengthBeyondLimit(huge_len)), None];
        assert_eq!((&faults[..], fault), (&expected[..], None));
        assert_eq!((all[0].kind, all[1].kind, all[2].kind), (None, Some(Kind::Ping), Some(Kind::Fail)));
        assert!(held <= 2 * ping.len(), "{held}");
    }
}

#[test]
fn an_announced_length_takes_no_memory() {
    let publish = golden().into_iter().find(|golden| golden.name == "PUBLISH, light").unwrap().bytes;
    let mut incoming = Incoming::new(1 << 30);
    let mut start = publish[..20].to_vec();
    start[layout::LENGTH..layout::LENGTH + 4].copy_from_slice(&(1_u32 << 30).to_be_bytes());
    assert_eq!(incoming.next(&mut &start[..]), Ok(None));
    assert!(incoming.held_bytes() < 100);
    assert_eq!(incoming.next(&mut &[0; 10_000][..]), Ok(None));
    assert!(incoming.held_bytes() <= 2 * 10_020);
}

#[test]
fn a_stream_that_is_none_is_refused_at_once() {
    let (all, fault, _) = received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 5);
    assert_eq!((all, fault), (Vec::new(), Some(Fault::Signature)));
}
