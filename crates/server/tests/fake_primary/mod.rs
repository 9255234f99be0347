//! The primary's side of a link, played by hand.

// Each file of tests uses its part of this.
#![allow(dead_code)]

use super::process::{PATIENCE, Process};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use wire::aof::write_command;

pub const ID: &str = "0123456789abcdef0123456789abcdef01234567";
pub const OTHER_ID: &str = "89abcdef0123456789abcdef0123456789abcdef";
pub const MARK: &str = "mark mark mark mark mark mark mark mark ";

/// Where a replica is to find its primary.
pub struct Primary {
    listener: TcpListener,
    pub port: String,
}

/// The primary's end of a link.
pub struct Link {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Primary {
    pub fn listen() -> Primary {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        Primary { listener, port }
    }

    pub fn replica(&self, options: &[&str]) -> Process {
        Process::start(&[&["--replicaof", "127.0.0.1", &self.port][..], options].concat())
    }

    /// The replica's next connection.
    pub fn accept(&self) -> Link {
        let until = std::time::Instant::now() + PATIENCE;
        self.listener.set_nonblocking(true).unwrap();
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => {
                    assert!(std::time::Instant::now() < until, "the replica does not connect: {error}");
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Link { stream, received: Vec::new() }
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
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// As [`Link::send`]; `false` once the replica has closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    pub fn send_command(&mut self, words: &str) -> usize {
        let mut bytes = Vec::new();
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        write_command(&mut bytes, words.into_iter()).unwrap();
        self.send(&bytes);
        bytes.len()
    }

    /// The next command of the replica; empty lines before it are signs of life. `None` at the connection's end.
    pub fn try_command(&mut self) -> Option<Vec<String>> {
        loop {
            let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
            let first = self.received.iter().take_while(|byte| is_line_end(byte)).count();
            self.received.drain(..first);
            let mut reader = wire::aof::Reader::new(&self.received[..], 0);
            if let Ok(wire::aof::Item::Command(words)) = reader.read() {
                let end = reader.position() as usize;
                self.received.drain(..end);
                return Some(words.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect());
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the replica says nothing: {error}"),
            }
        }
    }

    pub fn command(&mut self) -> Vec<String> {
        self.try_command().expect("the replica sends a command")
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
    pub fn expect_acknowledged(&mut self, offset: u64) {
        loop {
            let command = self.command();
            assert_eq!(command[..2], ["REPLCONF", "ACK"]);
            if command[2] == offset.to_string() {
                return;
            }
        }
    }

    /// Waits until the replica has closed the connection.
    pub fn expect_closed(&mut self) {
        while self.try_command().is_some() {}
    }

    /// Another handle of the same connection.
    pub fn clone_of(link: &Link) -> Link {
        Link { stream: link.stream.try_clone().unwrap(), received: Vec::new() }
    }

    /// Ends the connection as a primary that vanishes.
    pub fn vanish(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
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

/// As [`snapshot`], of so many keys with values of 1,000 bytes.
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
