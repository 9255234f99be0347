//! The primary's side of a link, played by hand.

// Each file of tests uses its part of this.
#![allow(dead_code)]

use super::process::peer::{Deadline, Peer};
use super::process::{Client, Process, encode, eventually};
use std::net::{Shutdown, TcpListener, TcpStream};

pub const ID: &str = "0123456789abcdef0123456789abcdef01234567";
pub const OTHER_ID: &str = "89abcdef0123456789abcdef0123456789abcdef";
pub const MARK: &str = "mark mark mark mark mark mark mark mark ";

/// Where a replica is to find its primary.
pub struct Primary {
    listener: TcpListener,
    pub port: String,
}

/// The primary's end of a link.
pub struct Link(pub Peer);

impl Primary {
    pub fn listen() -> Primary {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        Primary { listener, port }
    }

    pub fn replica(&self, options: &[&str]) -> Process {
        Process::start(&[&["--replicaof", "127.0.0.1", &self.port][..], options].concat())
    }

    pub fn accept(&self) -> Link {
        Link(Peer::accept(&self.listener))
    }

    /// Up to the replica's PSYNC, whose arguments are returned.
    pub fn accept_and_greet(&self) -> (Link, Vec<String>) {
        let mut link = self.accept();
        link.greet();
        let psync = link.command();
        (link, psync)
    }
}

impl Link {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.send(bytes.as_ref());
    }

    pub fn send_command(&mut self, words: &str) -> usize {
        let bytes = encoded(words);
        self.send(&bytes);
        bytes.len()
    }

    /// The next command of the replica, which has come whole; empty lines before it are signs of life.
    fn received_command(&mut self) -> Option<Vec<String>> {
        let is_sign = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let signs = self.0.received().iter().take_while(|byte| is_sign(byte)).count();
        self.0.take(signs);
        let mut reader = wire::aof::Reader::new(self.0.received(), 0);
        let Ok(wire::aof::Item::Command(words)) = reader.read() else { return None };
        let words = words.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect();
        let end = reader.position() as usize;
        self.0.take(end);
        Some(words)
    }

    #[track_caller]
    fn command_before(&mut self, deadline: Deadline) -> Vec<String> {
        loop {
            if let Some(command) = self.received_command() {
                return command;
            }
            assert!(self.0.receive(deadline), "the replica has closed the link");
        }
    }

    #[track_caller]
    pub fn command(&mut self) -> Vec<String> {
        self.command_before(Deadline::new())
    }

    pub fn greet(&mut self) {
        assert_eq!(self.command(), ["PING"]);
        self.send("+PONG\r\n");
        loop {
            let command = self.command();
            assert_eq!(command[0], "REPLCONF");
            self.send("+OK\r\n");
            if command[1] == "version" {
                return;
            }
        }
    }

    /// Waits for an acknowledgement of this offset.
    #[track_caller]
    pub fn expect_acknowledged(&mut self, offset: u64) {
        self.expect_acknowledgement(|words| words[2] == offset.to_string());
    }

    #[track_caller]
    pub fn expect_acknowledgement(&mut self, is_awaited: impl Fn(&[String]) -> bool) {
        let deadline = Deadline::new();
        loop {
            let command = self.command_before(deadline);
            assert_eq!(command[..2], ["REPLCONF", "ACK"]);
            if is_awaited(&command) {
                return;
            }
        }
    }

    #[track_caller]
    pub fn is_closed(&mut self) -> bool {
        self.0.is_closed()
    }

    /// Ends the connection as a primary that vanishes.
    pub fn vanish(self) {
        let _ = self.0.stream.shutdown(Shutdown::Both);
    }
}

pub fn encoded(words: &str) -> Vec<u8> {
    encode(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

/// A snapshot of short strings in database 0; the stream behind it is about `stream_db`.
pub fn snapshot(stream_db: u8, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = head(stream_db);
    for (key, value) in pairs {
        bytes.extend([vec![0], text(key), text(value)].concat());
    }
    bytes.push(0xff);
    bytes.extend([0; 8]);
    bytes
}

/// As [`snapshot`], of `keys` keys with values of 1,000 bytes.
pub fn large_snapshot(keys: usize) -> Vec<u8> {
    let mut bytes = head(0);
    for number in 0..keys {
        bytes.push(0);
        bytes.extend(text(&format!("key:{number}")));
        bytes.extend([0x40 | (1000 >> 8) as u8, (1000 & 0xff) as u8]);
        bytes.extend([b'v'; 1000]);
    }
    bytes.push(0xff);
    bytes.extend([0; 8]);
    bytes
}

fn head(stream_db: u8) -> Vec<u8> {
    let mut bytes = b"REDIS0011\xfa".to_vec();
    bytes.extend([text("repl-stream-db"), text(&stream_db.to_string())].concat());
    bytes.extend([0xfe, 0]);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

pub fn by_length(snapshot: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", snapshot.len()).as_bytes(), snapshot].concat()
}

pub fn by_mark(snapshot: &[u8]) -> Vec<u8> {
    [format!("$EOF:{MARK}\r\n").as_bytes(), snapshot, MARK.as_bytes()].concat()
}

pub fn full_resync(id: &str, offset: u64) -> String {
    format!("+FULLRESYNC {id} {offset}\r\n")
}

pub fn eventually_answers(client: &mut Client<TcpStream>, command: &str, answer: &str) {
    eventually(&format!("{command} answers {answer}"), || client.ask(command) == answer);
}

/// A replica with `a` = 1, linked at offset 100.
pub fn linked(primary: &Primary, options: &[&str]) -> (Process, Link, Client<TcpStream>) {
    let replica = primary.replica(options);
    let (mut link, psync) = primary.accept_and_greet();
    assert_eq!(psync, ["PSYNC", "?", "-1"]);
    link.send(full_resync(ID, 100));
    link.send(by_length(&snapshot(0, &[("a", "1")])));
    link.expect_acknowledged(100);
    let client = replica.connect();
    (replica, link, client)
}
