//! The error replies of clients: the only place for error texts of commands.

use std::borrow::Cow;
use std::fmt;

/// Encodes a client's bytes for an error's text: each byte becomes the character of its number, and [`on_the_wire`]
/// restores it. A NUL ends it.
pub fn quoted(bytes: &[u8]) -> String {
    bytes.iter().take_while(|byte| **byte != 0).map(|&byte| char::from(byte)).collect()
}

/// Returns the bytes of an error's line; see [`quoted`].
pub fn on_the_wire(line: &str) -> Cow<'_, [u8]> {
    if line.is_ascii() {
        return Cow::Borrowed(line.as_bytes());
    }
    let mut bytes = Vec::with_capacity(line.len());
    for character in line.chars() {
        match u8::try_from(character) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// A replica refuses writes except from its primary.
pub const READ_ONLY_REPLICA: ClientError =
    ClientError::text("READONLY You can't write against a read only replica.");

/// A replica without its primary may be stale.
pub const PRIMARY_DOWN: ClientError =
    ClientError::text("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

/// An error reply. `Display` gives the line after the `-`, code included, exactly as clients match on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The key holds a value of another type.
    WrongType,
    /// Invalid syntax of the arguments.
    Syntax,
    /// An argument is not an integer of 64 bits.
    NotInteger,
    /// An argument is not a number.
    NotFloat,
    /// A number is out of its range: `value is out of range`.
    OutOfRange,
    /// A number is negative: `value is out of range, must be positive`.
    MustBePositive,
    /// The index is beyond the ends of the list.
    IndexOutOfRange,
    /// The key does not exist.
    NoSuchKey,
    /// Source and destination are the same key in the same database.
    SourceIsDestination,
    /// There is no database with this number.
    DbIndexOutOfRange,
    /// The database's number is not an integer.
    InvalidDbIndex,
    /// The cursor of a scan is not an integer.
    InvalidCursor,
    /// The expiry is not positive, or overflows.
    InvalidExpire {
        /// Name of the command.
        command: &'static str,
    },
    /// The sum overflows 64 bits.
    IncrementOverflow,
    /// The decrement cannot be negated.
    DecrementOverflow,
    /// The sum is not finite.
    IncrementNotFinite,
    /// The resulting string exceeds `proto-max-bulk-len`.
    StringTooLong,
    /// The offset in a string is negative or too large.
    OffsetOutOfRange,
    /// The bit offset is not an integer, or too large.
    BitOffset,
    /// The bit is neither 0 nor 1.
    BitValue,
    /// Wrong number of arguments.
    WrongArity {
        /// Name of the command.
        command: String,
    },
    /// The command does not exist.
    UnknownCommand {
        /// Name in the request.
        name: String,
        /// The beginning of the arguments, quoted.
        beginning: String,
    },
    /// The subcommand does not exist.
    UnknownSubcommand {
        /// Name of the command, in upper case.
        command: String,
        /// Name of the subcommand in the request.
        subcommand: String,
    },
    /// A subcommand with invalid arguments.
    SubcommandSyntax {
        /// Name of the command, in upper case.
        command: &'static str,
        /// Name of the subcommand in the request.
        subcommand: String,
    },
    /// The client must authenticate first.
    NoAuth,
    /// Wrong user name or password, or a disabled user.
    WrongPassword,
    /// AUTH with a password only, while the default user has none.
    NoPasswordSet,
    /// HELLO with an unsupported protocol version.
    NoProtocol,
    /// The command needs memory while `maxmemory` is exceeded.
    OutOfMemory,
    /// A command of the transaction was refused when it was queued.
    ExecAborted,
    /// EXEC outside a transaction.
    ExecWithoutMulti,
    /// DISCARD outside a transaction.
    DiscardWithoutMulti,
    /// The command cannot be queued in a transaction.
    NotAllowedInTransaction {
        /// Name of the command.
        command: &'static str,
    },
    /// The command is not permitted while a RESP2 client is subscribed.
    SubscribedContext {
        /// Name of the command.
        command: String,
    },
    /// The timeout is not an integer.
    TimeoutNotInteger,
    /// The timeout is not a number.
    TimeoutNotFloat,
    /// The timeout is negative.
    TimeoutNegative,
    /// The timeout is too large.
    TimeoutOutOfRange,
    /// There is no client with this id or address.
    NoSuchClient,
    /// CLIENT UNBLOCK with ERROR.
    UnblockedByClient,
    /// The keys are in several slots of the cluster.
    CrossSlot,
    /// No node of the cluster owns the keys' slot.
    SlotUnserved,
    /// The cluster does not work.
    ClusterDown,
    /// The cluster does not work, and serves reads.
    ClusterDownForWrites,
    /// The slot is being moved, and its keys are on two nodes.
    TryAgain,
    /// The slot is being moved, and its keys are on another node.
    Ask {
        /// Slot of the keys.
        slot: u16,
        /// Endpoint of the other node.
        to: String,
    },
    /// Another node owns the slot.
    Moved {
        /// Slot of the keys.
        slot: u16,
        /// Endpoint of the other node.
        to: String,
    },
    /// A text of a single command, code included (`ERR ...`).
    Text(Cow<'static, str>),
}

impl ClientError {
    /// Creates a command's own error; `text` begins with its code.
    pub const fn text(text: &'static str) -> Self {
        ClientError::Text(Cow::Borrowed(text))
    }

    /// As [`ClientError::text`], formatted at run time.
    pub fn formatted(text: String) -> Self {
        ClientError::Text(Cow::Owned(text))
    }

    /// A background save has failed, and writes are refused until one succeeds. `server` is the name under which
    /// clients know this server.
    pub fn saves_fail(server: &str) -> Self {
        Self::formatted(format!(
            "MISCONF {server} is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the {server} logs for details about the RDB error."
        ))
    }

    /// Redirects the client to that server.
    pub fn redirect(host: &[u8], port: u16) -> Self {
        Self::formatted(format!("REDIRECT {}:{port}", quoted(host)))
    }

    fn write_redirection(&self, slot: u16, to: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if matches!(self, ClientError::Ask { .. }) { "ASK" } else { "MOVED" };
        write!(f, "{word} {slot} {to}")
    }

    /// The text of an error of the cluster that names nothing.
    fn cluster_text(&self) -> &'static str {
        match self {
            ClientError::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
            ClientError::SlotUnserved => "CLUSTERDOWN Hash slot not served",
            ClientError::ClusterDown => "CLUSTERDOWN The cluster is down",
            ClientError::ClusterDownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands"
            }
            _ => "TRYAGAIN Multiple keys request during rehashing of slot",
        }
    }

    /// Returns whether this redirects the client, or is the answer of a cluster in which it cannot be redirected.
    pub fn is_redirect(&self) -> bool {
        use ClientError::*;
        match self {
            CrossSlot | SlotUnserved | ClusterDown | ClusterDownForWrites | TryAgain => true,
            Ask { .. } | Moved { .. } => true,
            Text(text) => text.starts_with("REDIRECT "),
            _ => false,
        }
    }

    /// The data is still being loaded.
    pub fn loading(server: &str) -> Self {
        Self::formatted(format!("LOADING {server} is loading the dataset in memory"))
    }

    /// Returns the error's code, the word before the first space, which INFO errorstats counts.
    pub fn code(line: &str) -> &str {
        line.split(' ').next().unwrap_or(line)
    }
}

/// WAITAOF, without an append-only file.
pub const NO_LOG_TO_WAIT_FOR: ClientError =
    ClientError::text("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ClientError::*;
        f.write_str(match self {
            WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Syntax => "ERR syntax error",
            NotInteger => "ERR value is not an integer or out of range",
            NotFloat => "ERR value is not a valid float",
            OutOfRange => "ERR value is out of range",
            MustBePositive => "ERR value is out of range, must be positive",
            IndexOutOfRange => "ERR index out of range",
            NoSuchKey => "ERR no such key",
            SourceIsDestination => "ERR source and destination objects are the same",
            DbIndexOutOfRange => "ERR DB index is out of range",
            InvalidDbIndex => "ERR invalid DB index",
            InvalidCursor => "ERR invalid cursor",
            InvalidExpire { command } => {
                return write!(f, "ERR invalid expire time in '{command}' command");
            }
            IncrementOverflow => "ERR increment or decrement would overflow",
            DecrementOverflow => "ERR decrement would overflow",
            IncrementNotFinite => "ERR increment would produce NaN or Infinity",
            StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            OffsetOutOfRange => "ERR offset is out of range",
            BitOffset => "ERR bit offset is not an integer or out of range",
            BitValue => "ERR bit is not an integer or out of range",
            WrongArity { command } => {
                return write!(f, "ERR wrong number of arguments for '{command}' command");
            }
            UnknownCommand { name, beginning } => {
                return write!(f, "ERR unknown command '{name}', with args beginning with: {beginning}");
            }
            UnknownSubcommand { command, subcommand } => {
                return write!(f, "ERR unknown subcommand '{subcommand}'. Try {command} HELP.");
            }
            SubcommandSyntax { command, subcommand } => return write_subcommand_syntax(command, subcommand, f),
            NoAuth => "NOAUTH Authentication required.",
            WrongPassword => "WRONGPASS invalid username-password pair or user is disabled.",
            NoPasswordSet => {
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
            }
            NoProtocol => "NOPROTO unsupported protocol version",
            OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            ExecAborted => "EXECABORT Transaction discarded because of previous errors.",
            ExecWithoutMulti => "ERR EXEC without MULTI",
            DiscardWithoutMulti => "ERR DISCARD without MULTI",
            NotAllowedInTransaction { command } => {
                return write!(f, "ERR Command '{command}' not allowed inside a transaction");
            }
            SubscribedContext { command } => {
                return write!(
                    f,
                    "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
                );
            }
            TimeoutNotInteger => "ERR timeout is not an integer or out of range",
            TimeoutNotFloat => "ERR timeout is not a float or out of range",
            TimeoutNegative => "ERR timeout is negative",
            TimeoutOutOfRange => "ERR timeout is out of range",
            NoSuchClient => "ERR No such client",
            UnblockedByClient => "UNBLOCKED client unblocked via CLIENT UNBLOCK",
            Ask { slot, to } | Moved { slot, to } => return self.write_redirection(*slot, to, f),
            CrossSlot | SlotUnserved | ClusterDown | ClusterDownForWrites | TryAgain => self.cluster_text(),
            Text(text) => text,
        })
    }
}

impl std::error::Error for ClientError {}

fn write_subcommand_syntax(command: &str, subcommand: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try {command} HELP.")
}
