//! Frames of the cluster bus: no bytes make the reader panic, splitting changes nothing, nothing is held beyond what has
//! come, and whatever is read is written as a frame that is read as the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::cluster_bus::{
    Body, Fault, Frame, Gossip, Header, Incoming, Kind, MessageFlags, NodeFlags, NodeId, Received, SlotSet,
    read,
};

const MESSAGE_BYTES_MAX: usize = 1 << 16;

fn received(stream: &[u8], piece_len: usize) -> (Vec<Received>, Option<Fault>) {
    let (mut incoming, mut all, mut come) = (Incoming::new(MESSAGE_BYTES_MAX), Vec::new(), 0);
    for mut piece in stream.chunks(piece_len) {
        come += piece.len();
        loop {
            match incoming.next(&mut piece) {
                Ok(Some(received)) => all.push(received),
                Ok(None) => break,
                Err(fault) => return (all, Some(fault)),
            }
        }
        assert!(incoming.held_bytes() <= 2 * come.max(64), "held: {}, come: {come}", incoming.held_bytes());
    }
    (all, None)
}

/// A frame with a header that passes, and whatever follows it.
fn with_header(kind: u16, counts: (u16, u16), flags: u8, change: (u16, u8), rest: &[u8]) -> Vec<u8> {
    let header = Header {
        sender: NodeId::from_random([7; 20]),
        port: 6379,
        other_port: 0,
        bus_port: 16379,
        current_epoch: 1,
        config_epoch: 1,
        offset: 0,
        slots: SlotSet::new(),
        replica_of: None,
        address: None,
        flags: NodeFlags::PRIMARY,
        is_state_ok: true,
        mflags: MessageFlags::default(),
    };
    let frame = Frame::Full(Box::new(header), Body::Ping(Gossip::default()));
    let mut bytes = [frame.encode().as_bytes(), rest].concat();
    let len = u32::try_from(bytes.len()).expect("inputs are short");
    let kind = kind % (Kind::ALL.len() as u16 + 1);
    bytes[4..8].copy_from_slice(&len.to_be_bytes());
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    bytes[14..16].copy_from_slice(&counts.0.to_be_bytes());
    bytes[2214..2216].copy_from_slice(&counts.1.to_be_bytes());
    bytes[2253] = flags;
    bytes[usize::from(change.0) % 2256] ^= change.1;
    bytes
}

fn check(stream: &[u8], piece_len: u8) {
    let whole = received(stream, stream.len().max(1));
    assert_eq!(received(stream, usize::from(piece_len).max(1)), whole);
    for received in whole.0 {
        if let Ok(frame) = received.frame {
            let encoded = frame.encode();
            assert_eq!(read(encoded.as_bytes(), MESSAGE_BYTES_MAX), Ok(frame));
        }
    }
}

/// Length of the pieces, type, counts, flags and a change of a frame's header, and the bytes behind it.
type Input<'a> = (u8, u16, (u16, u16), u8, (u16, u8), &'a [u8]);

fuzz_target!(|input: Input<'_>| {
    let (piece_len, kind, counts, flags, change, rest) = input;
    check(rest, piece_len);
    check(&[&with_header(kind, counts, flags, change, rest), rest].concat(), piece_len);
});
