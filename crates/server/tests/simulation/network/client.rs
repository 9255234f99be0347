//! A client beside a server: it sends one request after the other, checks what it is answered, and comes again when its
//! connection is closed.

use super::node::Node;
use crate::history::Words;
use crate::peer::encode;
use crate::requests::{self, Shape, words};
use server::session::ClientHandle;
use structures::random::Random;

/// A client that has not been answered for longer goes sooner or later.
const PATIENCE_US: u64 = 200_000;

/// What has been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A unit: its last command sets this client's number.
    Write {
        number: u64,
        replies: usize,
    },
    Wait {
        replicas: i64,
    },
    /// Anything that is answered once.
    Other,
}

/// What the answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Written {
        number: u64,
    },
    /// This number of replicas have the last write of this connection.
    Acknowledged {
        replicas: i64,
        number: u64,
        since_us: u64,
    },
}

pub struct Client {
    pub index: usize,
    pub node: usize,
    handle: Option<ClientHandle>,
    /// And since when it waits.
    pub asked: Option<(Asked, u64)>,
    answered: Vec<u8>,
    unsent: Vec<u8>,
    replies: usize,
    is_refused: bool,
    number: u64,
    /// The last write of this connection that was accepted, and when it was sent.
    written: Option<(u64, u64)>,
    next_us: u64,
    pub requests: u64,
}

/// The length of the first reply, if it is there.
fn reply_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    let len = match bytes[0] {
        b'$' => line + number().filter(|&len| len >= 0).map_or(0, |len| len as usize + 2),
        b'*' => {
            let mut len = line;
            for _ in 0..number()?.max(0) {
                len += reply_len(bytes.get(len..)?)?;
            }
            len
        }
        _ => line,
    };
    (bytes.len() >= len).then_some(len)
}

/// The database of a client. Two use the same, which is not the first: so a stream often stops and goes on in a database
/// that no command has selected in between.
pub fn database_of(client: usize) -> usize {
    [0, 1, 1, 2][client]
}

/// The units of this client's commands; the keys of clients of one database are the same, but for its own.
fn unit(random: &mut Random, client: usize, number: u64, shape: Shape) -> Vec<Words> {
    let mut commands = Vec::new();
    if shape != Shape::Alone {
        commands.push(words(&format!("SET first:{client} {number}")));
        for _ in 0..random.below(4) {
            let command = requests::data_command(random);
            // They would take the numbers away.
            if !matches!(&command[0][..], b"SWAPDB" | b"FLUSHALL") {
                commands.push(command);
            }
        }
        if random.below(4) == 0 {
            commands.push(words(&format!("SET short:{} x PX {}", random.below(5), random.below(3000) + 1)));
        }
        if random.below(8) == 0 {
            commands.push(words("SPOP m:1"));
        }
        if shape == Shape::Transaction && random.below(6) == 0 {
            commands.extend([words(&format!("SELECT {}", random.below(3) + 1)), words("SET other x")]);
            commands.push(words(&format!("SELECT {}", database_of(client))));
        }
    }
    commands.push(words(&format!("SET last:{client} {number}")));
    commands
}

impl Client {
    pub fn new(index: usize) -> Self {
        Client {
            index,
            node: 0,
            handle: None,
            asked: None,
            answered: Vec::new(),
            unsent: Vec::new(),
            replies: 0,
            is_refused: false,
            number: 0,
            written: None,
            next_us: 0,
            requests: 0,
        }
    }

    /// Its connection is gone, and with it what it waits for.
    pub fn lose(&mut self) {
        (self.handle, self.asked, self.written) = (None, None, None);
        self.answered.clear();
        self.unsent.clear();
    }

    /// Asks something new, if it waits for nothing.
    pub fn act(&mut self, nodes: &mut [Node], random: &mut Random, now_us: u64) {
        if let Some((_, since_us)) = self.asked
            && now_us > since_us + PATIENCE_US
            && random.below(50) == 0
        {
            self.leave(nodes, random);
        }
        if self.asked.is_some() || now_us < self.next_us {
            return self.send(nodes, random);
        }
        self.next_us = now_us + random.below(60_000);
        if random.below(20) == 0 {
            self.leave(nodes, random);
        }
        let node = &mut nodes[self.node];
        if !node.is_up() {
            return self.leave(nodes, random);
        }
        if self.handle.is_none() {
            self.handle = Some(node.connect(database_of(self.index)));
        }
        self.ask(random, now_us);
        self.send(nodes, random);
    }

    /// Goes to a server that has just been given another role, if it waits for nothing.
    pub fn go_to(&mut self, nodes: &mut [Node], node: usize) {
        if self.asked.is_none() {
            self.hang_up(nodes);
            self.node = node;
        }
    }

    fn hang_up(&mut self, nodes: &mut [Node]) {
        if let (Some(handle), true) = (self.handle, nodes[self.node].is_up())
            && nodes[self.node].line(handle).is_some()
        {
            // What was sent and is not read is dropped.
            nodes[self.node].hang_up(handle);
        }
        self.lose();
    }

    /// Goes to another server: to a primary, more often than not.
    fn leave(&mut self, nodes: &mut [Node], random: &mut Random) {
        self.hang_up(nodes);
        let primaries: Vec<usize> = nodes
            .iter()
            .filter(|node| node.is_up() && node.primary().is_none())
            .map(|node| node.index)
            .collect();
        self.node = match primaries.len() {
            0 => random.below(nodes.len() as u64) as usize,
            _ if random.below(6) == 0 => random.below(nodes.len() as u64) as usize,
            count => primaries[random.below(count as u64) as usize],
        };
    }

    fn ask(&mut self, random: &mut Random, now_us: u64) {
        let mut requests = Vec::new();
        let asked = match random.below(20) {
            0..=3 if self.written.is_some() => {
                let replicas = random.below(2) as i64 + 1;
                let timeout_ms = [0, 50, 3000][random.below(3) as usize];
                requests.push(words(&format!("WAIT {replicas} {timeout_ms}")));
                Asked::Wait { replicas }
            }
            4 => {
                requests.push(words(
                    ["BLPOP never 1", "BLPOP never 0.2", "BRPOP l:1 1"][random.below(3) as usize],
                ));
                Asked::Other
            }
            5 => {
                requests.push(words(&format!("GET last:{}", self.index)));
                Asked::Other
            }
            6 => {
                let filler = "f".repeat(random.below(30_000) as usize + 1);
                requests.push(words(&format!("SET big:{} {filler}", random.below(4))));
                Asked::Other
            }
            _ => {
                self.number += 1;
                let shape = [Shape::Alone, Shape::Transaction, Shape::Script][random.below(3) as usize];
                let commands = unit(random, self.index, self.number, shape);
                requests = requests::requests_of(&commands, shape);
                if shape == Shape::Script {
                    // The last command is answered: it may be refused.
                    requests[0][1].extend(b" return r");
                }
                Asked::Write { number: self.number, replies: requests.len() }
            }
        };
        self.requests += 1;
        requests.iter().for_each(|request| encode(request, &mut self.unsent));
        (self.replies, self.is_refused) = (requests.len(), false);
        self.asked = Some((asked, now_us));
    }

    /// Sends some of what it has to send.
    pub fn send(&mut self, nodes: &mut [Node], random: &mut Random) {
        let node = &mut nodes[self.node];
        let Some(handle) = self.handle.filter(|_| node.is_up()) else { return self.lose() };
        let Some((sent, _)) = node.line(handle) else { return self.lose() };
        let len = if random.below(3) == 0 { random.below(200) as usize } else { self.unsent.len() };
        sent.extend(self.unsent.drain(..len.min(self.unsent.len())));
    }

    pub fn wants_us(&self) -> u64 {
        if !self.unsent.is_empty() || self.asked.is_none() { self.next_us } else { u64::MAX }
    }

    /// Reads what the server has just sent.
    pub fn hear(&mut self, node: &mut Node) -> Option<Heard> {
        let (asked, since_us) = self.asked?;
        let handle = self.handle?;
        let Some((_, received)) = node.line(handle) else {
            self.lose();
            return None;
        };
        self.answered.append(received);
        while let Some(len) = reply_len(&self.answered) {
            let reply: Vec<u8> = self.answered.drain(..len).collect();
            self.replies -= 1;
            self.is_refused = reply.starts_with(b"-") || reply.starts_with(b"*-1");
            if self.replies > 0 {
                continue;
            }
            assert!(self.answered.is_empty(), "{asked:?} is answered more than once");
            self.asked = None;
            return self.conclude(asked, since_us, &reply);
        }
        None
    }

    fn conclude(&mut self, asked: Asked, since_us: u64, reply: &[u8]) -> Option<Heard> {
        match asked {
            _ if self.is_refused => None,
            Asked::Other => None,
            Asked::Write { number, .. } => {
                self.written = Some((number, since_us));
                Some(Heard::Written { number })
            }
            Asked::Wait { .. } => {
                let replicas = std::str::from_utf8(&reply[1..reply.len() - 2]).ok()?.parse().ok()?;
                let (number, since_us) = self.written?;
                Some(Heard::Acknowledged { replicas, number, since_us })
            }
        }
    }
}
