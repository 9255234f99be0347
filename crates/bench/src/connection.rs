//! Connections to a server, set up before their first request, and connections for single commands.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use client::{
    Address, ConnectError, ConnectSettings, Replies, Stream, append_request, info_field, system_text,
};
use wire::response::{ResponseError, Value};

/// Pipeline depth of a bulk load.
const BULK_COMMANDS: u64 = 500;

/// Commands that set up a connection.
#[derive(Clone)]
pub struct Setup {
    pub address: Address,
    pub connect: ConnectSettings,
    pub commands: Vec<Vec<String>>,
}

impl Setup {
    pub fn of_port(port: u16) -> Self {
        Self {
            address: Address::Tcp("127.0.0.1".to_string(), port),
            connect: ConnectSettings::default(),
            commands: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub enum LoadError {
    Connect(Address, ConnectError),
    /// An error reply.
    Answer(String),
    Poll(io::Error),
    Transfer(io::Error),
    Closed,
    Malformed(ResponseError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(address, error @ ConnectError::Socket(_)) => {
                write!(f, "Could not connect to server at {address}: {error}")
            }
            Self::Connect(_, error) => write!(f, "Error: {error}"),
            Self::Answer(answer) => write!(f, "Error from server: {answer}"),
            Self::Poll(error) => write!(f, "Error: cannot wait for events: {}", system_text(error)),
            Self::Transfer(error) => write!(f, "Error: {}", system_text(error)),
            Self::Closed => f.write_str("Error: Server closed the connection"),
            Self::Malformed(error) => write!(f, "Error: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Opens a connection and sets it up.
pub fn prepared(setup: &Setup) -> Result<Stream, LoadError> {
    let refused = |error| LoadError::Connect(setup.address.clone(), error);
    let stream = Stream::connect(&setup.address, &setup.connect).map_err(refused)?;
    let mut conversation = Conversation { stream, replies: Replies::default() };
    for command in &setup.commands {
        conversation.ask(command)?;
    }
    Ok(conversation.stream)
}

/// A connection for one command at a time.
pub struct Conversation {
    stream: Stream,
    replies: Replies,
}

impl Conversation {
    pub fn new(setup: &Setup) -> Result<Self, LoadError> {
        Ok(Self { stream: prepared(setup)?, replies: Replies::default() })
    }

    /// Connects to a server that may have just been started: retries until the time is over.
    pub fn with_patience(setup: &Setup, patience: Duration) -> Result<Self, LoadError> {
        let start = std::time::Instant::now();
        loop {
            let answer = Self::new(setup).and_then(|mut conversation| {
                conversation.ask(&["PING"])?;
                Ok(conversation)
            });
            match answer {
                Err(_) if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(20)),
                answer => return answer,
            }
        }
    }

    /// Returns the reply to a command; an error reply is [`LoadError::Answer`].
    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, LoadError> {
        let mut request = Vec::new();
        append_request(&mut request, args);
        self.stream.write_all(&request).map_err(LoadError::Transfer)?;
        self.stream.flush().map_err(LoadError::Transfer)?;
        self.answer()
    }

    /// Sends this number of commands, each encoded by `append`; stops at the first error reply.
    pub fn load(&mut self, count: u64, mut append: impl FnMut(u64, &mut Vec<u8>)) -> Result<(), LoadError> {
        let mut request = Vec::new();
        for first in (0..count).step_by(BULK_COMMANDS as usize) {
            let behind = count.min(first + BULK_COMMANDS);
            request.clear();
            (first..behind).for_each(|number| append(number, &mut request));
            self.stream.write_all(&request).map_err(LoadError::Transfer)?;
            self.stream.flush().map_err(LoadError::Transfer)?;
            for _ in first..behind {
                self.answer()?;
            }
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<Value, LoadError> {
        loop {
            match self.replies.whole().map_err(LoadError::Malformed)? {
                Some(Value::Error(text)) => {
                    return Err(LoadError::Answer(String::from_utf8_lossy(&text).into_owned()));
                }
                Some(answer) => return Ok(answer),
                None => {}
            }
            if self.replies.read_from(&mut self.stream).map_err(LoadError::Transfer)? == 0 {
                return Err(LoadError::Closed);
            }
        }
    }

    /// Returns a field of INFO, such as `used_memory`.
    pub fn info(&mut self, section: &str, field: &str) -> Result<Option<String>, LoadError> {
        let answer = self.ask(&["INFO", section])?;
        let text = String::from_utf8_lossy(answer.as_bytes().unwrap_or_default()).into_owned();
        Ok(info_field(&text, field).map(|value| value.trim().to_string()))
    }
}
