//! A session with a server: the connection, its setup after a reconnect, the state shown in the prompt, and the
//! execution of commands with their follow-ups.

mod replies;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{
    Address, ConnectError, ConnectSettings, append_request, authentication, print_bytes, printable,
};
use wire::response::Value;

use crate::connection::{Connection, ConnectionError};
use crate::format::{self, Style};
use crate::pager;
use crate::program::Program;
use replies::{invalidated_keys, is_subscription, is_unsubscription, is_verbatim, message_kind};

/// Interval at which waiting for messages checks for interrupts.
const INTERRUPT_POLL: Duration = Duration::from_millis(100);
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of redirections of a command.
const REDIRECTIONS_MAX: usize = 16;

pub struct Settings {
    pub user: Option<String>,
    pub password: Option<String>,
    pub connect: ConnectSettings,
    pub resp3: bool,
    /// Whether output depends on RESP3, but is possible without.
    pub resp3_is_optional: bool,
    pub follow_redirections: bool,
    pub show_pushes: bool,
    /// Whether errors are returned to the caller and not printed.
    pub errors_to_caller: bool,
    /// Whether it is interactive.
    pub interactive: bool,
    /// Delay between repetitions of a command.
    pub interval: Option<Duration>,
    pub style: Style,
    pub is_colored: bool,
    /// Whether replies that exceed the screen are shown in a pager.
    pub uses_pager: bool,
}

/// Number of subscriptions of a connection.
#[derive(Clone, Copy, Default)]
struct Subscriptions {
    /// Channels and patterns.
    channels: i64,
    shard_channels: i64,
}

pub struct Session {
    pub settings: Settings,
    pub address: Address,
    /// Database that new connections select.
    pub selected_database: i64,
    /// Database of the present connection.
    database: i64,
    in_transaction: bool,
    database_before_transaction: i64,
    subscriptions: Subscriptions,
    is_resp3: bool,
    /// The reply to HELLO.
    pub server_version: Option<String>,
    /// Ctrl-C was pressed.
    pub interrupted: Arc<AtomicBool>,
    /// Whether Ctrl-C ends the program instead of the current command.
    pub exit_on_interrupt: Arc<AtomicBool>,
    /// Time spent in the pager.
    pub paged: Cell<Duration>,
    connection: Option<Connection>,
}

/// Why a command did not complete.
#[derive(Debug)]
pub enum SessionError {
    Connection(ConnectionError),
    /// The server refused the setup of the connection, which stays open: the command and its reply.
    Setup(String, String),
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
    pub fn new(settings: Settings, address: Address, database: i64) -> Self {
        Self {
            settings,
            address,
            selected_database: database,
            database: 0,
            in_transaction: false,
            database_before_transaction: 0,
            subscriptions: Subscriptions::default(),
            is_resp3: false,
            server_version: None,
            interrupted: Arc::default(),
            exit_on_interrupt: Arc::new(AtomicBool::new(true)),
            paged: Cell::default(),
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
            Address::Unix(path) => {
                format!("{} {}", Program::current().server.to_lowercase(), path.display())
            }
            address => address.to_string(),
        };
        let database = if self.database == 0 { String::new() } else { format!("[{}]", self.database) };
        let transaction = if self.in_transaction { "(TX)" } else { "" };
        let subscribed = if self.is_subscribed() { "(subscribed mode)" } else { "" };
        format!("{name}{database}{transaction}{subscribed}> ")
    }

    /// Opens a connection, authenticates, and selects the database and the protocol. If the setup fails the connection stays
    /// open, since commands may repair it.
    pub fn connect(&mut self) -> Result<(), SessionError> {
        self.disconnect();
        self.connection = Some(Connection::connect(&self.address, &self.settings.connect)?);
        let Settings { user, password, .. } = &self.settings;
        if let Some(request) = authentication(user.as_deref(), password.as_deref()) {
            self.set_up("AUTH", &request)?;
        }
        self.select_database()?;
        self.switch_protocol()
    }

    /// Drops the connection and its state.
    pub fn disconnect(&mut self) {
        self.connection = None;
        (self.database, self.in_transaction, self.is_resp3) = (0, false, false);
        self.subscriptions = Subscriptions::default();
    }

    fn set_up<A: AsRef<[u8]>>(&mut self, step: &str, args: &[A]) -> Result<Value, SessionError> {
        match self.request(args)? {
            Value::Error(text) => {
                Err(SessionError::Setup(step.to_owned(), String::from_utf8_lossy(&text).into_owned()))
            }
            reply => Ok(reply),
        }
    }

    fn select_database(&mut self) -> Result<(), SessionError> {
        if self.selected_database != self.database {
            let number = self.selected_database.to_string();
            self.set_up(&format!("SELECT {number}"), &["SELECT", &number])?;
            self.database = self.selected_database;
        }
        Ok(())
    }

    fn switch_protocol(&mut self) -> Result<(), SessionError> {
        if !self.settings.resp3 {
            return Ok(());
        }
        match self.set_up("HELLO 3", &["HELLO", "3"]) {
            Ok(reply) => {
                let version =
                    reply.entries().into_iter().find(|(name, _)| name.as_bytes() == Some(b"version"));
                self.server_version = version
                    .and_then(|(_, version)| Some(String::from_utf8_lossy(version.as_bytes()?).into_owned()));
                self.is_resp3 = true;
                Ok(())
            }
            Err(error @ SessionError::Setup(..)) if self.settings.resp3_is_optional => {
                eprint_line!("{error}");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the connection, opened if there is none.
    pub fn connection(&mut self) -> Result<&mut Connection, SessionError> {
        if self.connection.is_none() {
            self.connect()?;
        }
        Ok(self.connection.as_mut().expect("connect leaves a connection or an error"))
    }

    /// Sends a command and returns its reply without printing it. Messages before the reply are dropped.
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

    /// As [`Self::request`], but reconnects until there is a reply.
    pub fn request_with_retries(&mut self, args: &[&str]) -> Result<Value, SessionError> {
        let mut tries = 0;
        let outcome = loop {
            match self.request(args) {
                Err(SessionError::Connection(ConnectionError::Connect(_, ConnectError::Socket(_))))
                    if tries > 0 => {}
                Err(SessionError::Connection(error)) if error.is_loss() => self.disconnect(),
                outcome => break outcome,
            }
            tries += 1;
            print_bytes(format!("\r\x1b[0KReconnecting... {tries}\r").as_bytes());
            std::thread::sleep(RECONNECT_PAUSE);
        };
        if tries > 0 {
            print_bytes(b"\r\x1b[0K");
        }
        outcome
    }

    /// Sends all commands before it reads their replies.
    pub fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, SessionError> {
        let connection = self.connection()?;
        let mut requests = Vec::new();
        for command in commands {
            append_request(&mut requests, command);
        }
        connection.send_bytes(&requests)?;
        let mut replies = Vec::new();
        while replies.len() < commands.len() {
            match connection.receive()? {
                Value::Push(_) => {}
                value => replies.push(value),
            }
        }
        Ok(replies)
    }

    /// Runs a command this number of times (negative: forever), follows redirections and prints the replies; returns the last
    /// one. A command whose connection is lost is not repeated, since it may have run; the next one reconnects.
    pub fn run(&mut self, args: &[Vec<u8>], repeat: i64) -> Result<Value, SessionError> {
        if !self.is_connected() {
            self.connect()?;
        }
        let (mut left, mut last) = (repeat, Value::Null);
        while left != 0 {
            left -= i64::from(left > 0);
            last = match self.run_once(args) {
                Err(SessionError::Connection(error)) => {
                    self.disconnect();
                    return Err(error.into());
                }
                outcome => outcome?,
            };
            if last.is_error() && self.settings.errors_to_caller {
                break;
            }
            if let Some(interval) = self.settings.interval {
                std::thread::sleep(interval);
            }
        }
        Ok(last)
    }

    fn run_once(&mut self, args: &[Vec<u8>]) -> Result<Value, SessionError> {
        for _ in 0..REDIRECTIONS_MAX {
            self.connection()?.send(args)?;
            let value = self.read_replies(args)?;
            if !self.follow(&value)? {
                self.note_effects(args, &value)?;
                return Ok(value);
            }
        }
        Err(SessionError::TooManyRedirections)
    }

    /// Prints replies up to the command's own reply.
    fn read_replies(&mut self, args: &[Vec<u8>]) -> Result<Value, SessionError> {
        let is_subscription = is_subscription(args) || is_unsubscription(args);
        let mut confirmations = if is_subscription { (args.len() - 1).max(1) } else { 0 };
        loop {
            let value = self.connection()?.receive()?;
            let message = message_kind(&value, self.is_resp3).map(<[u8]>::to_vec);
            if let Some(kind) = message
                && (is_subscription || self.is_subscribed())
            {
                self.count_subscriptions(&kind, &value);
                self.print(&value, false);
                if kind.eq_ignore_ascii_case(&args[0]) && confirmations > 0 {
                    confirmations -= 1;
                    if confirmations == 0 {
                        return Ok(value);
                    }
                }
            } else if matches!(value, Value::Push(_)) {
                if self.settings.show_pushes || self.is_subscribed() {
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

    /// Prints a reply. `verbatim`: it is a human-readable text.
    pub fn print(&self, value: &Value, verbatim: bool) {
        let text = match invalidated_keys(value) {
            Some(text) if self.settings.style == Style::Terminal && !self.is_subscribed() => text,
            _ => format::reply(value, &self.settings.style, verbatim, self.settings.is_colored),
        };
        let may_page = self.settings.interactive && self.settings.uses_pager && !self.is_subscribed();
        let start = Instant::now();
        if may_page && pager::show(&text, &self.exit_on_interrupt) {
            self.paged.set(self.paged.get() + start.elapsed());
        } else {
            print_bytes(&text);
        }
    }

    fn count_subscriptions(&mut self, kind: &[u8], value: &Value) {
        let Some(Value::Integer(count)) = value.as_list().and_then(|items| items.get(2)) else { return };
        match kind {
            b"subscribe" | b"psubscribe" | b"unsubscribe" | b"punsubscribe" => {
                self.subscriptions.channels = *count;
            }
            b"ssubscribe" | b"sunsubscribe" => self.subscriptions.shard_channels = *count,
            _ => {}
        }
    }

    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.channels + self.subscriptions.shard_channels > 0
    }

    /// Prints a push message.
    pub fn print_message(&mut self, value: &Value) {
        self.print(value, false);
        if let Some(kind) = message_kind(value, self.is_resp3).map(<[u8]>::to_vec) {
            self.count_subscriptions(&kind, value);
        }
    }

    /// Prints messages until the last subscription ends. Outside the interactive mode, Ctrl-C ends the program.
    pub fn print_messages(&mut self) -> Result<(), SessionError> {
        while self.is_subscribed() {
            let value = self.connection()?.receive()?;
            self.print_message(&value);
        }
        Ok(())
    }

    /// Prints the output of MONITOR until Ctrl-C, which also closes the connection.
    pub fn print_monitor(&mut self) -> Result<(), SessionError> {
        self.exit_on_interrupt.store(!self.settings.interactive, Ordering::Relaxed);
        self.interrupted.store(false, Ordering::Relaxed);
        let outcome = loop {
            if self.interrupted.load(Ordering::Relaxed) {
                break self.connect();
            }
            match self.connection()?.receive_within(INTERRUPT_POLL) {
                Ok(None) => {}
                Ok(Some(value)) => self.print(&value, false),
                Err(error) => {
                    self.disconnect();
                    break Err(error.into());
                }
            }
        };
        self.exit_on_interrupt.store(true, Ordering::Relaxed);
        outcome
    }

    fn is_redirection(&self, value: &Value) -> bool {
        let Value::Error(text) = value else { return false };
        self.settings.follow_redirections && (text.starts_with(b"MOVED ") || text.starts_with(b"ASK "))
    }

    /// Follows a redirection; returns whether the reply is one.
    fn follow(&mut self, value: &Value) -> Result<bool, SessionError> {
        if !self.is_redirection(value) {
            return Ok(false);
        }
        let text = String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned();
        let mut words = text.split(' ');
        let (kind, slot, target) =
            (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
        let Some((host, Ok(port))) = target.rsplit_once(':').map(|(host, port)| (host, port.parse())) else {
            return Ok(false);
        };
        let host = match (&self.address, host) {
            (Address::Tcp(current, _), "") => current.clone(),
            _ => host.to_string(),
        };
        if self.settings.interactive {
            let text = format!("-> Redirected to slot [{slot}] located at {host}:{port}\n");
            print_bytes(printable(&text).as_bytes());
        }
        self.address = Address::Tcp(host, port);
        self.connect()?;
        if kind == "ASK" {
            self.set_up("ASKING", &["ASKING"])?;
        }
        Ok(true)
    }

    /// Updates the state of the prompt (database, transaction, subscriptions) after a command.
    fn note_effects(&mut self, args: &[Vec<u8>], reply: &Value) -> Result<(), SessionError> {
        let failed = reply.is_error();
        if is_command(args, "SELECT") && args.len() == 2 && !failed {
            self.database = std::str::from_utf8(&args[1]).ok().and_then(|arg| arg.parse().ok()).unwrap_or(0);
            self.selected_database = self.database;
        } else if is_command(args, "AUTH") && (args.len() == 2 || args.len() == 3) && !failed {
            self.select_database()?;
        } else if is_command(args, "MULTI") && args.len() == 1 && !failed {
            self.in_transaction = true;
            self.database_before_transaction = self.database;
        } else if is_command(args, "EXEC") && args.len() == 1 && self.in_transaction {
            self.in_transaction = false;
            if failed || matches!(reply, Value::Null | Value::NullArray) {
                self.return_to_database_before_transaction();
            }
        } else if is_command(args, "DISCARD") && args.len() == 1 && !failed {
            self.in_transaction = false;
            self.return_to_database_before_transaction();
        } else if is_command(args, "RESET") && args.len() == 1 && !failed {
            (self.in_transaction, self.is_resp3) = (false, false);
            (self.database, self.selected_database) = (0, 0);
            self.subscriptions = Subscriptions::default();
        } else if is_command(args, "HELLO") {
            match reply {
                Value::Map(_) => self.is_resp3 = true,
                Value::Array(_) => self.is_resp3 = false,
                _ => {}
            }
        }
        Ok(())
    }

    fn return_to_database_before_transaction(&mut self) {
        self.database = self.database_before_transaction;
        self.selected_database = self.database;
    }
}

pub fn is_command(args: &[Vec<u8>], name: &str) -> bool {
    args.first().is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()))
}
