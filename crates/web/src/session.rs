//! A client connection to the server for one request.

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

/// Why a request to the server failed.
#[derive(Debug)]
pub enum SessionError {
    /// The connection could not be opened.
    Connect(io::Error),
    /// Reading or writing failed.
    Exchange(io::Error),
    /// The server has closed the connection.
    Closed,
    /// The replies exceed the limit.
    TooLong,
    /// Invalid reply.
    Reply(ResponseError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Connect(error) => write!(f, "connecting to the server: {error}"),
            SessionError::Exchange(error) => write!(f, "sending commands to the server: {error}"),
            SessionError::Closed => f.write_str("the server has closed the connection"),
            SessionError::TooLong => f.write_str("the replies exceed their limit"),
            SessionError::Reply(error) => write!(f, "reading the server's reply: {error}"),
        }
    }
}

impl std::error::Error for SessionError {}

/// A client connection.
pub struct Session {
    stream: UnixStream,
    reader: Reader,
    received: Vec<u8>,
    position: usize,
    received_bytes: usize,
    received_bytes_max: usize,
}

impl Session {
    /// Opens a connection; the limit applies to all replies together.
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

    /// Sends all commands, and reads a reply for each. A reply with too many levels is replaced by an error.
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
        // A server that rejects the connection sends one error, and reads nothing.
        let is_new = self.received_bytes == 0;
        let written = self.stream.write_all(&sent).await;
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            match self.reader.read(&self.received, &mut self.position) {
                // An out-of-band message that can arrive between replies.
                Ok(Some(Value::Push(_))) => {}
                Ok(Some(reply)) => replies.push(reply),
                Err(error @ ResponseError::TooDeep) => {
                    replies.push(Value::Error(format!("ERR {error}").into_bytes()));
                }
                Err(error) => return Err(SessionError::Reply(error)),
                Ok(None) => match self.receive().await {
                    Ok(()) => {}
                    Err(SessionError::TooLong) => return Err(SessionError::TooLong),
                    Err(error) => match replies.as_slice() {
                        [why @ Value::Error(_)] if is_new => return Ok(vec![why.clone(); commands.len()]),
                        _ if written.is_err() => return Err(SessionError::Closed),
                        _ => return Err(error),
                    },
                },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, OptionText, ServerConfig, Verdict};
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    /// Starts a server that answers connections with this text and closes them.
    struct Closed(&'static [u8], Mutex<Vec<std::os::unix::net::UnixStream>>);

    impl Server for Closed {
        fn connect(
            &self,
            _peer: SocketAddr,
            _local: SocketAddr,
        ) -> io::Result<std::os::unix::net::UnixStream> {
            let (ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
            theirs.write_all(self.0)?;
            theirs.shutdown(std::net::Shutdown::Write)?;
            // One server reads the requests, the other does not.
            if self.0.ends_with(b" \r\n") {
                self.1.lock().unwrap().push(theirs);
            }
            Ok(ours)
        }
        fn tls(&self) -> Option<Arc<ServerConfig>> {
            None
        }
        fn warn(&self, _text: String) {}
        fn unready(&self) -> Vec<&'static str> {
            Vec::new()
        }
        fn judge(&self, _words: &[Vec<u8>]) -> Verdict {
            Verdict { refusal: None, opens_transaction: false }
        }
        fn request_figures(&self, _answer: Box<dyn FnOnce(Figures) + Send>) {}
        fn options(&self) -> Vec<OptionText> {
            Vec::new()
        }
    }

    fn asked(answer: &'static [u8], commands: usize) -> Result<Vec<Value>, SessionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let address = SocketAddr::from(([192, 0, 2, 1], 1));
        runtime.block_on(async {
            let server = Closed(answer, Mutex::default());
            Session::open(&server, address, address, 1000).unwrap().ask(&vec![vec!["PING"]; commands]).await
        })
    }

    #[test]
    fn who_is_turned_away_is_told_why_whatever_was_asked() {
        for answer in [&b"-DENIED you\r\n"[..], b"-DENIED you \r\n"] {
            let why = Value::Error(answer[1..].trim_ascii_end().to_vec());
            for commands in [1, 4] {
                let replies = asked(answer, commands).unwrap();
                assert_eq!(replies.len(), commands);
                assert!(
                    replies
                        .iter()
                        .all(|reply| reply.as_bytes().unwrap().trim_ascii_end() == why.as_bytes().unwrap())
                );
            }
        }
        // Unknown text is not a reason.
        for answer in [&b""[..], b"-DEN", b"+PONG\r\n", b"-ERR one\r\n-ERR two\r\n"] {
            assert!(matches!(asked(answer, 4), Err(SessionError::Closed | SessionError::Exchange(_))));
        }
        assert!(matches!(asked(b"$5000\r\n", 1), Err(SessionError::Closed | SessionError::Exchange(_))));
    }
}
