//! A connection to the server on behalf of one request, as any other client's.

use std::borrow::Borrow;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wire::aof::{write_argument, write_count};
use wire::response::{Reader, ResponseError, Value};

use crate::Server;

const READ_BYTES: usize = 64 << 10;

/// Why the server could not be asked.
#[derive(Debug)]
pub enum SessionError {
    Connect(io::Error),
    Exchange(io::Error),
    /// It has closed the connection.
    Closed,
    TooLong,
    Reply(ResponseError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Connect(error) => write!(f, "connecting to the server: {error}"),
            SessionError::Exchange(error) => write!(f, "asking the server: {error}"),
            SessionError::Closed => f.write_str("the server has closed the connection"),
            SessionError::TooLong => f.write_str("the replies are longer than may be asked for"),
            SessionError::Reply(error) => write!(f, "reading the server's answer: {error}"),
        }
    }
}

impl std::error::Error for SessionError {}

pub struct Session {
    stream: UnixStream,
    reader: Reader,
    received: Vec<u8>,
    position: usize,
    received_bytes: usize,
    received_bytes_max: usize,
}

impl Session {
    /// All replies together may have `received_bytes_max`.
    pub fn open(
        server: &dyn Server,
        peer: SocketAddr,
        local: SocketAddr,
        received_bytes_max: usize,
    ) -> Result<Self, SessionError> {
        let stream = server.connect(peer, local).map_err(SessionError::Connect)?;
        stream.set_nonblocking(true).map_err(SessionError::Connect)?;
        Ok(Session {
            stream: UnixStream::from_std(stream).map_err(SessionError::Connect)?,
            reader: Reader::default(),
            received: Vec::new(),
            position: 0,
            received_bytes: 0,
            received_bytes_max,
        })
    }

    /// Sends commands together, and waits for the reply of each. One that has too many levels is an error in its place.
    pub async fn ask<C, W>(&mut self, commands: &[C]) -> Result<Vec<Value>, SessionError>
    where
        C: Borrow<Vec<W>>,
        W: AsRef<[u8]>,
    {
        let mut sent = Vec::new();
        for words in commands.iter().map(Borrow::borrow) {
            write_count(&mut sent, words.len()).map_err(SessionError::Exchange)?;
            for word in words {
                write_argument(&mut sent, word.as_ref()).map_err(SessionError::Exchange)?;
            }
        }
        // A server that turns somebody away says why and reads nothing.
        let written = self.stream.write_all(&sent).await;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            match self.reader.read(&self.received, &mut self.position) {
                // It answers no command, and may come between any two replies.
                Ok(Some(Value::Push(_))) => {}
                Ok(Some(reply)) => replies.push(reply),
                Err(error @ ResponseError::TooDeep) => {
                    replies.push(Value::Error(format!("ERR {error}").into_bytes()));
                }
                Err(error) => return Err(SessionError::Reply(error)),
                Ok(None) => self.receive().await.map_err(|error| match &written {
                    Err(_) if matches!(error, SessionError::Closed | SessionError::Exchange(_)) => {
                        SessionError::Closed
                    }
                    _ => error,
                })?,
            }
        }
        Ok(replies)
    }

    async fn receive(&mut self) -> Result<(), SessionError> {
        self.received.drain(..self.position);
        self.position = 0;
        self.received.reserve(READ_BYTES);
        let count = self.stream.read_buf(&mut self.received).await.map_err(SessionError::Exchange)?;
        self.received_bytes += count;
        match count {
            0 => Err(SessionError::Closed),
            _ if self.received_bytes > self.received_bytes_max => Err(SessionError::TooLong),
            _ => Ok(()),
        }
    }
}
