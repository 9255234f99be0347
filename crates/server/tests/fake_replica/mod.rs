//! The replica's side of replication, played by hand.

// Each file of tests uses its part of this.
#![allow(dead_code)]

use super::process::peer::{Deadline, Peer};
use super::process::{Process, encode};

/// A replica's end of a connection.
pub struct Replica(pub Peer);

/// What a primary sends before the stream.
pub struct Snapshot {
    pub id: String,
    pub offset: u64,
    pub rdb: Vec<u8>,
}

impl Replica {
    pub fn connect(server: &Process) -> Replica {
        Replica(Peer::connect(server.port))
    }

    /// One that says of itself what replicas of today do.
    pub fn introduced(server: &Process) -> Replica {
        let mut replica = Replica::connect(server);
        for words in [
            "PING",
            "REPLCONF listening-port 7777",
            "REPLCONF capa eof capa psync2",
            "REPLCONF version 9.1.2",
        ] {
            replica.send(words);
            replica.line();
        }
        replica
    }

    pub fn send(&mut self, words: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.0.send(&encode(&words));
    }

    #[track_caller]
    pub fn byte(&mut self) -> u8 {
        self.exactly(1)[0]
    }

    /// The next line that is not empty.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let deadline = Deadline::new();
        loop {
            let Some(end) = self.0.received().iter().position(|&byte| byte == b'\n') else {
                assert!(self.0.receive(deadline), "the primary has closed the connection");
                continue;
            };
            let line = String::from_utf8(self.0.take(end + 1)).unwrap();
            if line != "\n" {
                return line.trim_end().to_owned();
            }
        }
    }

    pub fn ask(&mut self, words: &str) -> String {
        self.send(words);
        self.line()
    }

    #[track_caller]
    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        self.0.exactly(len)
    }

    /// Takes a snapshot, whichever way it comes.
    pub fn snapshot(&mut self) -> Vec<u8> {
        let header = self.line();
        let Some(mark) = header.strip_prefix("$EOF:") else {
            return self.exactly(header.strip_prefix('$').unwrap().parse().unwrap());
        };
        assert_eq!(mark.len(), 40);
        self.0.up_to(mark.as_bytes())
    }

    pub fn full_sync(&mut self) -> Snapshot {
        let line = self.ask("PSYNC ? -1");
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[1].len()), ("+FULLRESYNC", 40), "{line}");
        let rdb = self.snapshot();
        Snapshot { id: words[1].to_owned(), offset: words[2].parse().unwrap(), rdb }
    }

    /// Has all data, and says so; how far the stream is then.
    pub fn go_online(&mut self) -> u64 {
        let offset = self.full_sync().offset;
        self.acknowledge(offset);
        // A stream begins with something.
        if offset == 0 { self.expect(&["PING"]) } else { offset }
    }

    pub fn acknowledge(&mut self, offset: u64) {
        self.send(&format!("REPLCONF ACK {offset}"));
    }

    /// The stream goes on with these commands.
    #[track_caller]
    pub fn expect(&mut self, commands: &[&str]) -> u64 {
        let mut count = 0;
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let wanted = encode(&words);
            let come = self.exactly(wanted.len());
            assert_eq!(String::from_utf8_lossy(&come), String::from_utf8_lossy(&wanted));
            count += come.len() as u64;
        }
        count
    }

    #[track_caller]
    pub fn is_closed(&mut self) -> bool {
        self.0.is_closed()
    }

    /// Whether the connection ends behind these bytes.
    #[track_caller]
    pub fn ends_with(&mut self, bytes: &str) -> bool {
        let deadline = Deadline::new();
        while self.0.receive(deadline) {}
        self.0.received().ends_with(bytes.as_bytes())
    }
}
