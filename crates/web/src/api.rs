//! The console's API: commands with replies in JSON, the history, and the table of options.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::response::Value;

use crate::authorization::Credentials;
use crate::history::{COUNTERS, GAUGES, History, LATENCY_FIRST_NS, Sample};
use crate::json::{self, Words};
use crate::request::Refusal;
use crate::routes::{refusal_of, shown};
use crate::session::{Session, SessionError};
use crate::{Server, Verdict};

/// Maximum size of a request's body.
const BODY_BYTES_MAX: usize = 1 << 20;
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of the replies to a request, in RESP.
const REPLIES_BYTES_MAX: usize = 8 << 20;
/// Maximum size of the replies as JSON: control characters take six times their size.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Limit of unread answers of all connections together, except small ones: those are sent even if other clients do
/// not read.
const UNREAD_BYTES_MAX: usize = 64 << 20;
const SMALL_ANSWER_BYTES: usize = 64 << 10;
/// Maximum number of requests that are processed at the same time: 8 MB of small arguments take 160 MB here. Others
/// wait.
const RUNNING_MAX: usize = 4;
/// Time limit of the server for a request's commands.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Memory that all requests to the API may take together.
pub struct Room {
    running: Semaphore,
    /// One permit per KB.
    unread: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            running: Semaphore::new(RUNNING_MAX),
            unread: Arc::new(Semaphore::new(UNREAD_BYTES_MAX >> 10)),
        }
    }
}

impl Room {
    /// Returns an answer that occupies its share of the memory until it is sent.
    fn hold(&self, mut text: String) -> Result<Bytes, Refusal> {
        if text.len() <= SMALL_ANSWER_BYTES {
            return Ok(Bytes::from(text));
        }
        if text.len() > ANSWER_BYTES_MAX {
            return Err(Refusal::TooLarge(format!("The replies as JSON exceed {ANSWER_BYTES_MAX} bytes")));
        }
        // Far below 4 GB.
        let room = Arc::clone(&self.unread).try_acquire_many_owned((text.len() >> 10) as u32);
        let room = room.map_err(|_| Refusal::Unavailable("too many answers are unread".to_owned()))?;
        text.shrink_to_fit();
        Ok(Bytes::from_owner(Held { text, _room: room }))
    }
}

struct Held {
    text: String,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// The sender of a request.
pub struct Asker<'a> {
    /// The server to send commands to.
    pub server: &'a dyn Server,
    /// The credentials in the request, if any.
    pub credentials: Option<Credentials>,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Address on which the request arrived.
    pub local: SocketAddr,
}

impl Asker<'_> {
    /// Opens an authenticated connection with RESP3.
    async fn session(&self) -> Result<Session, Refusal> {
        let mut session = Session::open(self.server, self.peer, self.local, REPLIES_BYTES_MAX)?;
        let mut words = vec!["HELLO", "3"];
        if let Some(Credentials { user, password }) = &self.credentials {
            words.extend(["AUTH", user.as_deref().unwrap_or("default"), password]);
        }
        // Waits for the reply: before authentication the server accepts only short requests.
        match session.ask(&[words]).await?.first() {
            Some(Value::Error(text)) => Err(refusal_of(shown(text), Refusal::Unavailable)),
            _ => Ok(session),
        }
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
    let late = |_| Refusal::Unavailable("the server does not respond in time".to_owned());
    tokio::time::timeout(ANSWERED_WITHIN, answer).await.map_err(late)?
}

/// Runs a request's commands in order on one connection, and returns the replies.
pub async fn commands<B>(body: &mut B, asker: &Asker<'_>, room: &Room) -> Result<Bytes, Refusal>
where
    B: Body + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let session = in_time(asker.session()).await?;
    let body = Limited::new(body, BODY_BYTES_MAX).collect();
    let body = tokio::time::timeout(BODY_WITHIN, body)
        .await
        .map_err(|_| Refusal::Bad("The body was not received in time".to_owned()))?
        .map_err(|error| match error.is::<LengthLimitError>() {
            true => Refusal::TooLarge(format!("The body exceeds {BODY_BYTES_MAX} bytes")),
            false => Refusal::Bad("The body is incomplete".to_owned()),
        })?;
    let body = body.to_bytes();
    let answer = in_time(async {
        let _place = room.running.acquire().await;
        let commands = json::commands(&body).map_err(Refusal::Bad)?;
        let replies = run(&commands, asker.server, session).await?;
        Ok(json::replies(&replies))
    });
    room.hold(answer.await?)
}

async fn run(commands: &[Words], server: &dyn Server, mut session: Session) -> Result<Vec<Value>, Refusal> {
    let verdicts: Vec<Verdict> = commands.iter().map(|words| server.judge(words)).collect();
    // If a command of a transaction is refused, the whole transaction is.
    let is_cut = verdicts.iter().any(|verdict| verdict.refusal.is_some())
        && verdicts.iter().any(|verdict| verdict.opens_transaction);
    let sent: Vec<&Words> = commands
        .iter()
        .zip(&verdicts)
        .filter(|(_, verdict)| verdict.refusal.is_none() && !is_cut)
        .map(|(words, _)| words)
        .collect();
    let mut replies = session.ask(&sent).await.map_err(|error| match error {
        SessionError::TooLong => Refusal::TooLarge(format!("The replies exceed {REPLIES_BYTES_MAX} bytes")),
        other => other.into(),
    })?;
    let mut replies = replies.drain(..);
    let refused = |text: String| Value::Error(text.into_bytes());
    Ok(verdicts
        .into_iter()
        .map(|verdict| match verdict.refusal {
            Some(text) => refused(text),
            None if is_cut => refused("EXECABORT another command of the transaction is refused".to_owned()),
            None => replies.next().unwrap_or(Value::Null),
        })
        .collect())
}

/// Returns the samples with a number above `since`, for users who may run INFO.
pub async fn history(history: &Mutex<History>, since: u64, asker: &Asker<'_>) -> Result<String, Refusal> {
    let permission = async { Ok(asker.session().await?.ask(&[vec!["INFO", "cluster"]]).await?) };
    if let Some(Value::Error(text)) = in_time(permission).await?.first() {
        return Err(refusal_of(shown(text), Refusal::Unavailable));
    }
    let history = history.lock().unwrap_or_else(PoisonError::into_inner);
    let samples: Vec<&Sample> = history.since(since).collect();
    let mut out =
        format!("{{\"number\":{},\"latency_first_ns\":{LATENCY_FIRST_NS},\"counters\":", history.number());
    let names = |out: &mut String, name: &&str| json::quote(out, name);
    json::list(&mut out, COUNTERS, names);
    out.push_str(",\"gauges\":");
    json::list(&mut out, GAUGES, names);
    out.push_str(",\"samples\":");
    json::list(&mut out, &samples, |out, sample| write_sample(out, sample));
    out.push('}');
    Ok(out)
}

/// Appends `[number, end_ms, span_ms, [counters], [gauges], [bucket, calls, ...]]`; empty buckets are omitted.
fn write_sample(out: &mut String, sample: &Sample) {
    let number = |out: &mut String, number: &u64| out.push_str(&number.to_string());
    let calls: Vec<u64> = sample
        .latencies
        .iter()
        .enumerate()
        .filter(|(_, calls)| **calls > 0)
        .flat_map(|(bucket, calls)| [bucket as u64, u64::from(*calls)])
        .collect();
    out.push_str(&format!("[{},{},{},", sample.number, sample.end_ms, sample.span_ms));
    json::list(out, &sample.counters.values(), number);
    out.push(',');
    json::list(out, &sample.gauges.values(), number);
    out.push(',');
    json::list(out, &calls, number);
    out.push(']');
}

/// Returns the documentation of all options.
pub fn options(server: &dyn Server) -> String {
    let mut out = String::from("{\"options\":");
    json::list(&mut out, &server.options(), |out, option| {
        let fields = [
            ("{\"name\":", &option.name),
            (",\"default\":", &option.default),
            (",\"section\":", &option.section),
            (",\"takes\":", &option.takes),
            (",\"text\":", &option.text),
        ];
        for (name, value) in fields {
            out.push_str(name);
            json::quote(out, value);
        }
        out.push_str(if option.is_fixed { ",\"fixed\":true}" } else { ",\"fixed\":false}" });
    });
    out.push('}');
    out
}
