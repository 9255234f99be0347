//! A connection over which many commands are sent at once.

use super::process::{Client, encode};
use super::{Command, Step};
use std::net::TcpStream;
use std::time::Duration;
use wire::response::Value;

/// Commands sent before their replies are read.
const PIPELINE_COMMANDS: usize = 100;
/// Waiting no longer than this for one reply; a server that does not answer has failed.
const REPLY_TIMEOUT: Duration = Duration::from_secs(200);
/// Longer than any of the short expiries that stand before a pause.
const PAUSE: Duration = Duration::from_millis(4);

pub struct Link {
    pub name: &'static str,
    client: Client<TcpStream>,
}

impl Link {
    pub fn connect(name: &'static str, address: &str) -> Link {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("{name} at {address}: {error}"));
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Link { name, client: Client::new(stream) }
    }

    pub fn ask(&mut self, words: &[&str]) -> Value {
        self.client.send(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        self.receive()
    }

    pub fn ask_bytes(&mut self, words: &[&[u8]]) -> Value {
        self.client.send(words);
        self.receive()
    }

    fn send(&mut self, commands: &[&Command]) {
        let mut bytes = Vec::new();
        for command in commands {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            bytes.extend(encode(&words));
        }
        std::io::Write::write_all(&mut self.client.stream, &bytes).unwrap();
    }

    /// Sends one command; its reply, and what is pushed before it, are left to [`Link::receive`].
    pub fn send_words(&mut self, words: &[&[u8]]) {
        self.client.send(words);
    }

    pub fn receive(&mut self) -> Value {
        self.client.receive().unwrap_or_else(|| panic!("{} closed the connection", self.name))
    }
}

/// Both sides of a comparison.
pub struct Pair {
    pub here: Link,
    pub there: Link,
}

impl Pair {
    /// Runs steps on both sides and hands each command with its two replies to `compare`, in order, until that is
    /// false; the rest of what was already sent is read and dropped.
    pub fn run(&mut self, steps: &[Step], mut compare: impl FnMut(usize, &Command, Value, Value) -> bool) {
        let mut begin = 0;
        let mut agree = true;
        while begin < steps.len() && agree {
            let commands: Vec<&Command> =
                steps[begin..].iter().map_while(Step::command).take(PIPELINE_COMMANDS).collect();
            self.here.send(&commands);
            self.there.send(&commands);
            for (offset, command) in commands.iter().enumerate() {
                let (here, there) = (self.here.receive(), self.there.receive());
                agree = agree && compare(begin + offset, command, here, there);
            }
            begin += commands.len();
            if matches!(steps.get(begin), Some(Step::Pause)) {
                std::thread::sleep(PAUSE);
                begin += 1;
            }
        }
    }

    /// The same on both sides, whose replies do not matter.
    pub fn ask_both(&mut self, words: &[&str]) {
        self.here.ask(words);
        self.there.ask(words);
    }
}
