//! Connections between servers: bytes come late, in other pieces than they were sent in, and in order within one
//! connection. Across connections there is no order. A connection can stall, be blocked one way or both, and be cut with
//! what is on its way.

use std::collections::{BTreeMap, VecDeque};
use structures::random::Random;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub wire: u64,
    pub side: usize,
}

impl End {
    pub fn other(self) -> End {
        End { side: 1 - self.side, ..self }
    }
}

#[derive(Default)]
struct Direction {
    /// What is on its way, and when it arrives at the earliest.
    chunks: VecDeque<(u64, Vec<u8>)>,
    len: usize,
    /// The sender has closed: when that arrives.
    closed_us: Option<u64>,
    /// Nothing arrives before.
    stalled_until_us: u64,
    last_us: u64,
}

impl Direction {
    /// Loses what is on its way beyond the first `len` bytes.
    fn truncate(&mut self, len: usize) {
        let mut left = len;
        for (_, chunk) in &mut self.chunks {
            chunk.truncate(left);
            left -= chunk.len();
        }
        self.chunks.retain(|(_, chunk)| !chunk.is_empty());
        self.len = len;
    }
}

struct Wire {
    nodes: [usize; 2],
    /// How many bytes can be on their way.
    window: usize,
    latency_us: u64,
    /// `directions[side]` is what that side sends.
    directions: [Direction; 2],
    /// That side is closed: it reads nothing, and what it is sent is answered with a reset.
    is_closed: [bool; 2],
    /// What is sent from now on is lost.
    is_cut: bool,
}

/// What a side finds when it reads.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    Bytes(Vec<u8>),
    Nothing,
    Closed,
}

#[derive(Default)]
pub struct Wires {
    wires: BTreeMap<u64, Wire>,
    last: u64,
    /// Pairs of servers, from and to, between which nothing passes until then.
    blocked: BTreeMap<(usize, usize), u64>,
}

impl Wires {
    /// A connection from one server to another.
    pub fn open(&mut self, nodes: [usize; 2], random: &mut Random) -> End {
        self.last += 1;
        let window = [2000, 20_000, 300_000][random.below(3) as usize];
        let latency_us = 500 + random.below(5000);
        let wire = Wire {
            nodes,
            window,
            latency_us,
            directions: Default::default(),
            is_closed: [false; 2],
            is_cut: false,
        };
        self.wires.insert(self.last, wire);
        End { wire: self.last, side: 0 }
    }

    pub fn block(&mut self, from: usize, to: usize, until_us: u64) {
        self.blocked.insert((from, to), until_us);
    }

    pub fn is_blocked(&self, from: usize, to: usize, now_us: u64) -> bool {
        self.blocked.get(&(from, to)).is_some_and(|&until_us| now_us < until_us)
    }

    pub fn heal(&mut self) {
        self.blocked.clear();
        for wire in self.wires.values_mut() {
            wire.directions.iter_mut().for_each(|direction| direction.stalled_until_us = 0);
        }
    }

    /// How many bytes can be sent now.
    pub fn room(&self, end: End) -> usize {
        let Some(wire) = self.wires.get(&end.wire) else { return usize::MAX };
        wire.window.saturating_sub(wire.directions[end.side].len)
    }

    /// The window does not matter: the caller has asked for the room, or waits as a child does.
    pub fn send(&mut self, end: End, bytes: &[u8], now_us: u64, random: &mut Random) {
        let Some(wire) =
            self.wires.get_mut(&end.wire).filter(|wire| !wire.is_closed[end.side] && !wire.is_cut)
        else {
            return;
        };
        let jitter_us = if random.below(20) == 0 { random.below(40_000) } else { random.below(1000) };
        let direction = &mut wire.directions[end.side];
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = if random.below(3) == 0 { random.below(200) as usize + 1 } else { rest.len() };
            let (chunk, left) = rest.split_at(len.min(rest.len()));
            // A piece that is cut off comes later than what precedes it: a connection may end between the two.
            let gap_us = if len < rest.len() { random.below(3000) } else { 0 };
            direction.last_us = direction.last_us.max(now_us + wire.latency_us + jitter_us) + gap_us;
            direction.chunks.push_back((direction.last_us, chunk.to_vec()));
            direction.len += chunk.len();
            rest = left;
        }
    }

    /// Closes one side. With `resets` what is on its way both ways is lost.
    pub fn close(&mut self, end: End, resets: bool, now_us: u64) {
        let Some(wire) = self.wires.get_mut(&end.wire) else { return };
        wire.is_closed[end.side] = true;
        let own = &mut wire.directions[end.side];
        if resets {
            (own.chunks, own.len) = (VecDeque::new(), 0);
        }
        own.closed_us = Some(own.last_us.max(now_us + wire.latency_us));
        if wire.is_closed == [true, true] {
            self.wires.remove(&end.wire);
        }
    }

    /// One side is gone without a word: its machine is off.
    pub fn lose(&mut self, end: End) {
        let Some(wire) = self.wires.get_mut(&end.wire) else { return };
        wire.is_closed[end.side] = true;
        if wire.is_closed == [true, true] {
            self.wires.remove(&end.wire);
        }
    }

    /// Cuts a connection in the middle: both ends find it closed. Of what is on its way a part still arrives, which can end
    /// anywhere within a command or transaction.
    pub fn cut(&mut self, wire: u64, now_us: u64, random: &mut Random) {
        let Some(wire) = self.wires.get_mut(&wire) else { return };
        wire.is_cut = true;
        for direction in &mut wire.directions {
            let arrives = random.below(direction.len as u64 + 1) as usize;
            direction.truncate(arrives);
            direction.closed_us = Some(direction.chunks.back().map_or(now_us, |(arrival_us, _)| *arrival_us));
        }
    }

    pub fn stall(&mut self, wire: u64, side: usize, until_us: u64) {
        if let Some(wire) = self.wires.get_mut(&wire) {
            wire.directions[side].stalled_until_us = until_us;
        }
    }

    /// A connection between servers, any of them.
    pub fn any(&self, random: &mut Random) -> Option<u64> {
        let count = self.wires.len() as u64;
        self.wires.keys().nth(if count == 0 { 0 } else { random.below(count) as usize }).copied()
    }

    /// When the next thing arrives at this end.
    pub fn next_arrival_us(&self, end: End) -> Option<u64> {
        let wire = self.wires.get(&end.wire)?;
        let direction = &wire.directions[1 - end.side];
        let (from, to) = (wire.nodes[1 - end.side], wire.nodes[end.side]);
        let first_us = direction.chunks.front().map(|(us, _)| *us).or(direction.closed_us)?;
        let blocked_us = self.blocked.get(&(from, to)).copied().unwrap_or(0);
        Some(first_us.max(direction.stalled_until_us).max(blocked_us))
    }

    /// Reads up to `bytes_max` bytes.
    pub fn receive(&mut self, end: End, bytes_max: usize, now_us: u64) -> Arrived {
        if self.next_arrival_us(end).is_none_or(|arrival_us| arrival_us > now_us) {
            return Arrived::Nothing;
        }
        let Some(wire) = self.wires.get_mut(&end.wire) else { return Arrived::Closed };
        let direction = &mut wire.directions[1 - end.side];
        let mut bytes = Vec::new();
        while let Some((arrival_us, chunk)) = direction.chunks.front_mut()
            && *arrival_us <= now_us
            && bytes.len() < bytes_max
        {
            let taken = chunk.len().min(bytes_max - bytes.len());
            bytes.extend(chunk.drain(..taken));
            if chunk.is_empty() {
                direction.chunks.pop_front();
            }
        }
        direction.len -= bytes.len();
        if bytes.is_empty() { Arrived::Closed } else { Arrived::Bytes(bytes) }
    }

    /// What has arrived at servers that run again and know nothing of the connection is answered with a reset.
    pub fn reset_unknown(&mut self, now_us: u64, is_up: impl Fn(usize) -> bool) {
        let mut resets = Vec::new();
        for (&number, wire) in &self.wires {
            for side in 0..2 {
                let end = End { wire: number, side };
                let arrives = self.next_arrival_us(end).is_some_and(|us| us <= now_us);
                if wire.is_closed[side] && arrives && is_up(wire.nodes[side]) {
                    resets.push(end);
                }
            }
        }
        for end in resets {
            if let Some(wire) = self.wires.get_mut(&end.wire) {
                let [first, second] = &mut wire.directions;
                let (own, other) = if end.side == 0 { (first, second) } else { (second, first) };
                (other.chunks, other.len, other.closed_us) = (VecDeque::new(), 0, None);
                own.closed_us = own.closed_us.or(Some(now_us + wire.latency_us));
            }
        }
    }
}
