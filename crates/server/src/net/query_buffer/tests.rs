use super::*;
use crate::db::strings::NewText;
use std::io::Write;
use std::os::unix::net::UnixStream;
use structures::random::Random;
use structures::size_class::usable_size;

fn connected() -> (UnixStream, Transport, QueryBuffer) {
    let (client, socket) = UnixStream::pair().unwrap();
    (client, Transport::Plain(socket.into()), QueryBuffer::new(ClientHandle::default()))
}

fn parse(query_buffer: &mut QueryBuffer) {
    query_buffer.parse(
        &Limits::default(),
        &Registry::new(&[]),
        KeySeed::new(structures::hash::HashSeed::new(1, 2), false),
    );
}

#[test]
fn room_for_an_announced_argument_is_kept_until_its_client_is_idle() {
    let (mut client, mut transport, mut query_buffer) = connected();
    for bytes in [&b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$1000000\r\n"[..], b"a"] {
        client.write_all(bytes).unwrap();
        assert!(matches!(query_buffer.read(&mut transport), Transfer::Bytes { .. }));
        parse(&mut query_buffer);
        query_buffer.consume();
    }
    assert!(!query_buffer.shrink(0));
    assert!(query_buffer.input_figures().1 > 900_000);
    assert!(!query_buffer.shrink(IDLE_US + 1));
    assert_eq!(query_buffer.input_figures(), (1, 0));
}

#[test]
fn the_keys_of_a_request_are_hashed_when_it_is_parsed() {
    let (registry, seed) =
        (Registry::new(crate::commands::GROUPS), KeySeed::new(structures::hash::HashSeed::new(1, 2), false));
    let mut query_buffer = QueryBuffer::new(ClientHandle::default());
    for (command, keys) in [
        ("GET k", &[1][..]),
        ("SET k v", &[1]),
        ("MGET a b a", &[1, 2, 3]),
        ("MSET a 1 b 2", &[1, 3]),
        ("ZUNIONSTORE to 2 a b WEIGHTS 1 2", &[1, 3, 4]),
        ("XREAD COUNT 1 STREAMS s t 0 0", &[4, 5]),
        ("EVAL script 1 k value", &[3]),
        ("OBJECT ENCODING k", &[2]),
        ("ZUNION 9 a b", &[]),
        ("PUBLISH channel message", &[]),
        ("GET", &[]),
        ("NOSUCH k", &[]),
    ] {
        query_buffer.input_mut().extend(format!("{command}\r\n").bytes());
        query_buffer.parse(&Limits::default(), &registry, seed);
        let args = query_buffer.next_request().unwrap().args;
        let copy = args.to_owned();
        for at in 0..args.len() {
            let known = keys.contains(&at).then(|| seed.hash(args.at(at)));
            assert_eq!(args.known_hash(at), known, "{command}: {at}");
            assert_eq!(copy.view().known_hash(at), known, "{command}: {at}");
            assert_eq!(args.with_seed(&seed).key(at).hash(), seed.hash(args.at(at)));
        }
        query_buffer.consume();
    }
}

/// Sends `all` in pieces of random lengths while reading; returns the requests, and how many arguments were in separate
/// buffers.
fn read_in_pieces(all: &[u8], random: &mut Random) -> (Vec<Vec<Vec<u8>>>, usize) {
    let (mut client, mut transport, mut query_buffer) = connected();
    let (mut rest, mut requests, mut apart) = (all, Vec::new(), 0);
    while !rest.is_empty() {
        let len_max = 1 << random.below(18);
        let (piece, behind) = rest.split_at((1 + random.below(len_max) as usize).min(rest.len()));
        client.write_all(piece).unwrap();
        rest = behind;
        let mut come = 0;
        while come < piece.len() {
            let Transfer::Bytes { count, .. } = query_buffer.read(&mut transport) else {
                panic!("it is there")
            };
            come += count;
            if random.below(10) == 0 {
                assert!(!query_buffer.shrink(IDLE_US + 1), "something is in it");
            }
            loop {
                query_buffer.consume_some();
                parse(&mut query_buffer);
                let Some(request) = query_buffer.next_request() else { break };
                apart += (0..request.args.len())
                    .filter(|&i| matches!(request.args.text(i), NewText::Shared(_)))
                    .count();
                requests.push(request.args.iter().map(<[u8]>::to_vec).collect());
            }
            query_buffer.consume();
        }
    }
    assert!(query_buffer.is_free() || query_buffer.unread_bytes() == 0);
    (requests, apart)
}

#[test]
fn requests_with_long_arguments_are_what_was_sent() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    eprintln!("SEED={seed}");
    let random = &mut Random::new(seed);
    let mut stood_apart = 0;
    for _ in 0..20 {
        let (mut requests, mut all) = (Vec::new(), Vec::new());
        for _ in 0..1 + random.below(4) {
            let words = 1 + random.below(5) as usize;
            let request: Vec<Vec<u8>> = (0..words)
                .map(|_| {
                    let len = match random.below(4) {
                        0 => LONG_ARGUMENT_BYTES_MIN - 2 + random.below(4) as usize,
                        1 => random.below(3 * LONG_ARGUMENT_BYTES_MIN as u64) as usize,
                        _ => random.below(20) as usize,
                    };
                    let first = random.below(256) as usize;
                    (0..len).map(|i| (first + i * 7 + i / 251) as u8).collect()
                })
                .collect();
            all.extend_from_slice(format!("*{words}\r\n").as_bytes());
            for word in &request {
                all.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                all.extend_from_slice(word);
                all.extend_from_slice(b"\r\n");
            }
            requests.push(request);
        }
        let (read, apart) = read_in_pieces(&all, random);
        // Not assert_eq: its message would be too long.
        assert!(read == requests, "SEED={seed}");
        stood_apart += apart;
    }
    assert!(stood_apart > 10, "{stood_apart}");
}

#[test]
fn a_long_argument_keeps_the_room_of_a_copy() {
    for len in [LONG_ARGUMENT_BYTES_MIN, 600_000, 1 << 20, (1 << 20) + 1, 3_000_000] {
        let (mut client, mut transport, mut query_buffer) = connected();
        let writer = std::thread::spawn(move || {
            client.write_all(format!("*2\r\n${len}\r\n").as_bytes()).unwrap();
            client.write_all(&vec![b'x'; len]).unwrap();
            client.write_all(b"\r\n$3\r\nend\r\n").unwrap();
        });
        while !query_buffer.has_requests() {
            assert!(matches!(query_buffer.read(&mut transport), Transfer::Bytes { .. }));
            parse(&mut query_buffer);
            let held = query_buffer.memory_bytes();
            assert!(held <= 2 * len + ANNOUNCED_BYTES_MAX, "{held} bytes for {len}");
        }
        let request = query_buffer.next_request().unwrap();
        let NewText::Shared(bytes) = request.args.text(0) else { panic!("{len} bytes do not stand apart") };
        assert_eq!((bytes.len(), bytes.capacity()), (len, usable_size(len)));
        assert_eq!(request.args.at(1), b"end");
        let kept = SharedBytes::clone(bytes);
        query_buffer.consume();
        assert_eq!((SharedBytes::strong_count(&kept), query_buffer.unread_bytes()), (1, 0));
        writer.join().unwrap();
    }
}

#[test]
fn a_long_argument_without_its_line_end_ends_the_requests() {
    let (mut client, mut transport, mut query_buffer) = connected();
    let writer = std::thread::spawn(move || {
        client.write_all(format!("*1\r\n${LONG_ARGUMENT_BYTES_MIN}\r\n").as_bytes()).unwrap();
        client.write_all(&[b'x'; LONG_ARGUMENT_BYTES_MIN + 1]).unwrap();
        client.write_all(b"\n").unwrap();
    });
    while query_buffer.broken().is_none() {
        assert!(matches!(query_buffer.read(&mut transport), Transfer::Bytes { .. }));
        parse(&mut query_buffer);
    }
    assert_eq!((query_buffer.broken(), query_buffer.has_requests()), (Some(ProtocolError::LineEnd), false));
    query_buffer.discard();
    assert_eq!(query_buffer.unread_bytes(), 0);
    writer.join().unwrap();
}

#[test]
fn a_client_that_sends_much_is_read_in_larger_pieces_and_each_request_once() {
    let (mut client, mut transport, mut query_buffer) = connected();
    let request =
        |i: u32| format!("*2\r\n$4\r\necho\r\n$6\r\n{i:06}\r\n{}", &"\r\n\r\n"[..i as usize % 3 * 2]);
    let all: String = (0..20_000).map(request).collect();
    let writer = std::thread::spawn(move || client.write_all(all.as_bytes()).unwrap());
    let (mut seen, mut largest) = (0, 0);
    while seen < 20_000 {
        let transfer = query_buffer.read(&mut transport);
        let Transfer::Bytes { count, .. } = transfer else { panic!("{transfer:?} after {seen}") };
        largest = largest.max(count);
        loop {
            query_buffer.consume_some();
            parse(&mut query_buffer);
            if !query_buffer.has_requests() {
                break;
            }
            assert!(query_buffer.request_count() <= BATCH_REQUESTS_MAX);
            while let Some((found, bytes)) = query_buffer.next_request_and_bytes() {
                let number = format!("{seen:06}").into_bytes();
                assert_eq!(
                    (found.args.at(1), &bytes[bytes.len() - 8..bytes.len() - 2]),
                    (&number[..], &number[..])
                );
                assert!(bytes.starts_with(b"*2") || seen > 0 && bytes.starts_with(b"\r\n"));
                seen += 1;
            }
        }
        query_buffer.consume();
        assert!(query_buffer.input.capacity() <= INPUT_KEPT_BYTES_MAX);
    }
    writer.join().unwrap();
    assert!(largest > INPUT_KEPT_BYTES_MAX / 2, "{largest}");
}
