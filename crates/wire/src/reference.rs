//! The server whose answers define ours, for tests: `host:port` in the variable `REFERENCE`. Without it the tests
//! that compare skip the comparison; what they found once is kept in tables beside them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub struct Reference {
    stream: BufReader<TcpStream>,
}

impl Reference {
    pub fn connect() -> Option<Self> {
        let address = std::env::var("REFERENCE").ok()?;
        let stream = TcpStream::connect(address).expect("REFERENCE names a running server");
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Some(Self { stream: BufReader::new(stream) })
    }

    /// Everything the server says to these bytes until it closes or falls silent.
    pub fn exchange_raw(request: &[u8]) -> Option<Vec<u8>> {
        let mut stream = Self::connect()?.stream.into_inner();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(request).unwrap();
        let mut reply = Vec::new();
        let _ended_by_timeout_or_reset = stream.read_to_end(&mut reply);
        Some(reply)
    }

    pub fn send(&mut self, args: &[&[u8]]) {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
    }

    /// One reply without its frame: the bulk's bytes, the line (its type byte kept for errors), or an array's
    /// elements with spaces between.
    pub fn receive(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        line.truncate(line.len() - 2);
        match line[0] {
            b'$' => {
                let len: usize = std::str::from_utf8(&line[1..]).unwrap().parse().expect("a bulk");
                let mut bulk = vec![0; len + 2];
                self.stream.read_exact(&mut bulk).unwrap();
                bulk.truncate(len);
                bulk
            }
            b'-' => line,
            b'*' => {
                let len: usize = std::str::from_utf8(&line[1..]).unwrap().parse().expect("an array");
                let elements: Vec<Vec<u8>> = (0..len).map(|_| self.receive()).collect();
                elements.join(&b' ')
            }
            _ => line.split_off(1),
        }
    }

    /// Sends many commands at once; their replies in order.
    pub fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        for batch in commands.chunks(200) {
            for command in batch {
                let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                self.send(&args);
            }
            replies.extend(batch.iter().map(|_| self.receive()));
        }
        replies
    }
}

/// A small generator for test inputs (Knuth's MMIX constants); the seed is in each test.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }
}

/// How many rounds a test runs: `base`, times `WARMLINE_TEST_SCALE`.
pub fn scaled(base: usize) -> usize {
    let scale = std::env::var("WARMLINE_TEST_SCALE").ok().and_then(|scale| scale.parse::<usize>().ok());
    base * scale.unwrap_or(1)
}
