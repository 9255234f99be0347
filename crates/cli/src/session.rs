//! What one user does with one server: the connection and how it must be set up again when it breaks, the state that
//! the prompt shows, and running a command with everything that its replies lead to.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wire::response::Value;

use crate::connection::{Address, Connection, ConnectionError};
use crate::format::{self, Style};

/// How often a wait for messages looks whether it was interrupted.
const INTERRUPT_POLL: Duration = Duration::from_millis(100);
/// Redirections that one command may take before it is given up.
const REDIRECTIONS_MAX: usize = 16;

pub struct Settings {
    pub user: Option<String>,
    pub password: Option<String>,
    pub connect_timeout: Duration,
    pub encryption: Option<crate::encrypted::Encryption>,
    pub resp3: bool,
    pub follow_redirections: bool,
    pub show_pushes: bool,
    /// Errors are not printed: the caller tells them.
    pub errors_to_caller: bool,
    pub style: Style,
}

pub struct Session {
    pub settings: Settings,
    pub address: Address,
    pub database: u32,
    pub in_transaction: bool,
    /// Set by Ctrl-C while messages are awaited.
    pub interrupted: Arc<AtomicBool>,
    database_before_transaction: u32,
    subscriptions: i64,
    connection: Option<Connection>,
}

/// Why a command did not come to its end.
#[derive(Debug)]
pub enum SessionError {
    Connection(ConnectionError),
    /// The server refused to set up the connection: what was tried and its answer.
    Setup(&'static str, String),
    TooManyRedirections,
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Setup(step, answer) => write!(f, "{step} failed: {answer}"),
            Self::TooManyRedirections => write!(f, "Error: redirected more than {REDIRECTIONS_MAX} times"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<ConnectionError> for SessionError {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

impl Session {
    pub fn new(settings: Settings, address: Address, database: u32) -> Self {
        Self {
            settings,
            address,
            database,
            in_transaction: false,
            interrupted: Arc::default(),
            database_before_transaction: database,
            subscriptions: 0,
            connection: None,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    pub fn prompt(&self) -> String {
        if !self.is_connected() {
            return "not connected> ".to_string();
        }
        let name = match &self.address {
            Address::Unix(path) => format!("warmline {}", path.display()),
            address => address.to_string(),
        };
        let database = if self.database == 0 { String::new() } else { format!("[{}]", self.database) };
        let transaction = if self.in_transaction { "(TX)" } else { "" };
        let subscribed = if self.subscriptions > 0 { "(subscribed mode)" } else { "" };
        format!("{name}{database}{transaction}{subscribed}> ")
    }

    /// A new connection, authenticated, in the wanted database and protocol.
    pub fn connect(&mut self) -> Result<(), SessionError> {
        self.connection = None;
        self.in_transaction = false;
        self.subscriptions = 0;
        let mut connection = {
            let encryption = self.settings.encryption.as_ref();
            Connection::connect(&self.address, self.settings.connect_timeout, encryption)?
        };
        let mut step = |name, args: &[&str]| match connection.request(args)? {
            Value::Error(text) => Err(SessionError::Setup(name, String::from_utf8_lossy(&text).into_owned())),
            _ => Ok(()),
        };
        match (&self.settings.user, &self.settings.password) {
            (Some(user), Some(password)) => step("AUTH", &["AUTH", user, password])?,
            (None, Some(password)) => step("AUTH", &["AUTH", password])?,
            _ => {}
        }
        if self.settings.resp3 {
            step("HELLO 3", &["HELLO", "3"])?;
        }
        if self.database != 0 {
            step("SELECT", &["SELECT", &self.database.to_string()])?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// The connection, made if there is none.
    pub fn connection(&mut self) -> Result<&mut Connection, SessionError> {
        if self.connection.is_none() {
            self.connect()?;
        }
        Ok(self.connection.as_mut().expect("connect leaves a connection or an error"))
    }

    /// A command whose reply is not for the user. Messages that come first are dropped.
    pub fn request<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, SessionError> {
        let connection = self.connection()?;
        connection.send(args)?;
        loop {
            match connection.receive()? {
                Value::Push(_) => {}
                value => return Ok(value),
            }
        }
    }

    /// Runs a command and prints what comes of it, following redirections. A connection that turns out to be dead
    /// is made anew once. The last reply.
    pub fn run(&mut self, args: &[Vec<u8>]) -> Result<Value, SessionError> {
        let was_connected = self.is_connected();
        let reply = match self.run_here(args) {
            Err(SessionError::Connection(ConnectionError::Closed | ConnectionError::Write(_)))
                if was_connected && !is_command(args, "SHUTDOWN") =>
            {
                self.connect()?;
                self.run_here(args)
            }
            outcome => outcome,
        };
        if reply.is_err() {
            self.connection = None;
        }
        reply
    }

    fn run_here(&mut self, args: &[Vec<u8>]) -> Result<Value, SessionError> {
        for _ in 0..REDIRECTIONS_MAX {
            self.connection()?.send(args)?;
            let value = self.read_replies(args)?;
            if !self.follow(&value)? {
                self.note_effects(args, &value);
                return Ok(value);
            }
        }
        Err(SessionError::TooManyRedirections)
    }

    /// Prints replies until the one that answers this command.
    fn read_replies(&mut self, args: &[Vec<u8>]) -> Result<Value, SessionError> {
        let is_subscription = is_subscription(args);
        let mut confirmations = if is_subscription { (args.len() - 1).max(1) } else { 0 };
        loop {
            let value = self.connection()?.receive()?;
            let message = message_kind(&value).map(<[u8]>::to_vec);
            let is_confirmation =
                is_subscription && message.as_ref().is_some_and(|kind| kind.eq_ignore_ascii_case(&args[0]));
            if let Some(kind) = &message
                && (is_subscription || self.subscriptions > 0)
            {
                self.count_subscriptions(kind, &value);
                self.print(&value, false);
                confirmations -= usize::from(is_confirmation);
                if is_confirmation && confirmations == 0 {
                    return Ok(value);
                }
            } else if matches!(value, Value::Push(_)) {
                if self.settings.show_pushes {
                    self.print(&value, false);
                }
            } else {
                let is_silent = self.settings.errors_to_caller && value.is_error();
                if !is_silent && !self.is_redirection(&value) {
                    self.print(&value, !self.in_transaction && is_verbatim(args));
                }
                return Ok(value);
            }
        }
    }

    fn print(&self, value: &Value, verbatim: bool) {
        let text = match invalidated_keys(value) {
            Some(text) if self.settings.style == Style::Terminal => text,
            _ => format::reply(value, &self.settings.style, verbatim),
        };
        let mut out = io::stdout().lock();
        // Nobody is left to tell when standard output is closed.
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    }

    fn count_subscriptions(&mut self, kind: &[u8], value: &Value) {
        let count = value.as_list().and_then(|items| items.get(2));
        if let (true, Some(Value::Integer(count))) = (kind.ends_with(b"subscribe"), count) {
            self.subscriptions = *count;
        }
    }

    pub fn is_subscribed(&self) -> bool {
        self.subscriptions > 0
    }

    /// Prints messages until the last subscription ends or the user interrupts, which also ends the connection.
    pub fn print_messages(&mut self) -> Result<(), SessionError> {
        self.interrupted.store(false, Ordering::Relaxed);
        while !self.interrupted.load(Ordering::Relaxed) {
            let Some(value) = self.connection()?.receive_within(INTERRUPT_POLL)? else { continue };
            self.print(&value, false);
            if let Some(kind) = message_kind(&value).map(<[u8]>::to_vec) {
                self.count_subscriptions(&kind, &value);
                if self.subscriptions == 0 {
                    return Ok(());
                }
            }
        }
        self.connect()
    }

    fn is_redirection(&self, value: &Value) -> bool {
        let Value::Error(text) = value else { return false };
        self.settings.follow_redirections && (text.starts_with(b"MOVED ") || text.starts_with(b"ASK "))
    }

    /// Goes where a redirection points. False if the reply is none.
    fn follow(&mut self, value: &Value) -> Result<bool, SessionError> {
        if !self.is_redirection(value) {
            return Ok(false);
        }
        let text = String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned();
        let mut words = text.split(' ');
        let (kind, target) = (words.next().unwrap_or(""), words.nth(1).unwrap_or(""));
        let Some((host, Ok(port))) = target.rsplit_once(':').map(|(host, port)| (host, port.parse())) else {
            return Ok(false);
        };
        let host = match (&self.address, host) {
            (Address::Tcp(current, _), "") => current.clone(),
            _ => host.to_string(),
        };
        self.address = Address::Tcp(host, port);
        self.connect()?;
        if kind == "ASK" {
            self.request(&["ASKING"])?;
        }
        Ok(true)
    }

    /// Keeps what the prompt shows in step with what the server now believes.
    fn note_effects(&mut self, args: &[Vec<u8>], reply: &Value) {
        let failed = reply.is_error();
        if is_command(args, "SELECT") && !failed {
            self.database =
                args.get(1).and_then(|arg| std::str::from_utf8(arg).ok()?.parse().ok()).unwrap_or(0);
        } else if is_command(args, "MULTI") && !failed {
            self.in_transaction = true;
            self.database_before_transaction = self.database;
        } else if (is_command(args, "EXEC") || is_command(args, "DISCARD")) && self.in_transaction {
            self.in_transaction = false;
            if !is_command(args, "EXEC") || failed || matches!(reply, Value::Null | Value::NullArray) {
                self.database = self.database_before_transaction;
            }
        } else if is_command(args, "RESET") && !failed {
            (self.in_transaction, self.database, self.subscriptions) = (false, 0, 0);
        }
    }
}

pub fn is_command(args: &[Vec<u8>], name: &str) -> bool {
    args.first().is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()))
}

fn is_subscription(args: &[Vec<u8>]) -> bool {
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"]
        .iter()
        .any(|name| is_command(args, name))
}

/// Commands whose reply is a text for people.
fn is_verbatim(args: &[Vec<u8>]) -> bool {
    let subcommand = |names: &[&str]| {
        args.get(1).is_some_and(|arg| names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes())))
    };
    is_command(args, "INFO")
        || is_command(args, "LOLWUT")
        || (is_command(args, "DEBUG") && subcommand(&["HTSTATS", "HTSTATS-KEY", "CLIENT-EVICTION"]))
        || (is_command(args, "MEMORY") && subcommand(&["MALLOC-STATS", "DOCTOR"]))
        || (is_command(args, "CLUSTER") && args.len() == 2 && subcommand(&["NODES", "INFO"]))
        || (is_command(args, "CLIENT") && subcommand(&["LIST", "INFO"]))
        || (is_command(args, "LATENCY") && subcommand(&["GRAPH", "DOCTOR"]))
}

/// The first element of a message of publish and subscribe.
fn message_kind(value: &Value) -> Option<&[u8]> {
    let (Value::Push(items) | Value::Array(items)) = value else { return None };
    let kind = items.first()?.as_bytes()?;
    (items.len() >= 3 && (kind.ends_with(b"message") || kind.ends_with(b"subscribe"))).then_some(kind)
}

/// One line about keys that a tracking server says have changed.
fn invalidated_keys(value: &Value) -> Option<Vec<u8>> {
    let Value::Push(items) = value else { return None };
    let [kind, Value::Array(keys)] = items.as_slice() else { return None };
    if kind.as_bytes() != Some(b"invalidate") {
        return None;
    }
    let keys: Vec<String> = keys
        .iter()
        .map(|key| format!("'{}'", String::from_utf8_lossy(key.as_bytes().unwrap_or_default())))
        .collect();
    Some(format!("-> invalidate: {}\n", keys.join(", ")).into_bytes())
}
