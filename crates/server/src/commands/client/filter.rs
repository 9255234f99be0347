//! The filters of CLIENT LIST and CLIENT KILL: a list of conditions, each optionally negated by `NOT-`.

use crate::acl::UserHandle;
use crate::command::{Args, Context};
use crate::error::{ClientError, quoted};
use crate::server::client_line;
use crate::session::Client;
use wire::convert::signed_count;

/// The letters of the FLAGS filter, whether or not a client of this server can have them.
const FLAG_LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";
const CAPABILITY_LETTERS: &[u8] = b"r";

/// One condition with its operand.
enum Condition<'a> {
    /// Any of these ids.
    Id(Vec<i64>),
    Type(&'static str),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    User(UserHandle),
    AgeAtLeast(i64),
    IdleAtLeast(i64),
    /// All of these letters.
    Flags(&'a [u8]),
    Name(&'a [u8]),
    LibraryName(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Database(usize),
    Capabilities(&'a [u8]),
    Ip(&'a [u8]),
}

struct Criterion<'a> {
    condition: Condition<'a>,
    negated: bool,
}

/// A conjunction of conditions.
#[derive(Default)]
pub struct Filter<'a> {
    criteria: Vec<Criterion<'a>>,
    skip_me: Option<bool>,
}

impl<'a> Filter<'a> {
    /// The old form of CLIENT KILL: one address.
    pub fn by_address(address: &'a [u8]) -> Self {
        let criteria = Criterion { condition: Condition::Address(address), negated: false };
        Filter { criteria: vec![criteria], skip_me: None }
    }

    /// Parses the conditions in `args`.
    pub fn parse(ctx: &Context<'_>, args: Args<'a>) -> Result<Self, ClientError> {
        let mut filter = Filter::default();
        let mut at = 0;
        while at < args.len() {
            at += filter.parse_option(ctx, args.from(at))?;
        }
        Ok(filter)
    }

    /// Parses the first option; returns the number of its arguments.
    fn parse_option(&mut self, ctx: &Context<'_>, args: Args<'a>) -> Result<usize, ClientError> {
        let word = args.at(0).to_ascii_lowercase();
        let (word, negated) = match word.strip_prefix(b"not-") {
            Some(rest) => (rest, true),
            None => (&word[..], false),
        };
        if word == b"id" {
            return self.parse_ids(args, negated);
        }
        let Some(value) = args.get(1) else { return Err(ClientError::Syntax) };
        if word == b"skipme" && !negated {
            self.skip_me = match value.to_ascii_lowercase().as_slice() {
                b"yes" => Some(true),
                b"no" => Some(false),
                _ => return Err(ClientError::Syntax),
            };
            return Ok(2);
        }
        let condition = condition(ctx, word, negated, value)?;
        let same_kind = |other: &Criterion<'_>| {
            other.negated == negated
                && std::mem::discriminant(&other.condition) == std::mem::discriminant(&condition)
        };
        // Of repeated options the last one applies.
        self.criteria.retain(|other| !same_kind(other));
        self.criteria.push(Criterion { condition, negated });
        Ok(2)
    }

    /// Parses all numbers after the keyword; several ID options add up.
    fn parse_ids(&mut self, args: Args<'a>, negated: bool) -> Result<usize, ClientError> {
        let mut ids = Vec::new();
        for arg in args.from(1).iter() {
            let Some(id) = wire::number::parse_i64(arg) else { break };
            if id < 1 {
                return Err(ClientError::text("ERR client-id should be greater than 0"));
            }
            ids.push(id);
        }
        let taken = 1 + ids.len();
        let known = self.criteria.iter_mut().find_map(|criteria| match &mut criteria.condition {
            Condition::Id(ids) if criteria.negated == negated => Some(ids),
            _ => None,
        });
        match known {
            Some(known) => known.extend(ids),
            None => self.criteria.push(Criterion { condition: Condition::Id(ids), negated }),
        }
        Ok(taken)
    }

    /// The clients that meet all conditions, oldest first. `skip_me`: whether the current client is skipped without a SKIPME
    /// option.
    pub fn matching<'c>(&self, ctx: &'c Context<'_>, skip_me: bool) -> impl Iterator<Item = &'c Client> {
        let skipped = self.skip_me.unwrap_or(skip_me).then_some(ctx.client);
        let clients = ctx.server.clients.by_age().filter(|client| !client.is_linking);
        let clients = clients.filter(move |client| Some(client.handle) != skipped);
        clients.filter(|client| self.criteria.iter().all(|w| w.condition.holds(ctx, client) != w.negated))
    }
}

fn condition<'a>(
    ctx: &Context<'_>,
    word: &[u8],
    negated: bool,
    value: &'a [u8],
) -> Result<Condition<'a>, ClientError> {
    Ok(match (word, negated) {
        (b"type", _) => Condition::Type(client_type(value)?),
        (b"addr", _) => Condition::Address(value),
        (b"laddr", _) => Condition::LocalAddress(value),
        (b"user", _) => Condition::User(known_user(ctx, value)?),
        (b"maxage", false) => Condition::AgeAtLeast(positive("maxage", value)?),
        (b"idle", false) => Condition::IdleAtLeast(positive("idle", value)?),
        (b"flags", _) => {
            let place = if negated { "NOT-FLAGS" } else { "provided" };
            Condition::Flags(letters("flags", FLAG_LETTERS, place, value)?)
        }
        (b"name", _) => Condition::Name(value),
        (b"lib-name", _) => Condition::LibraryName(value),
        (b"lib-ver", _) => Condition::LibraryVersion(value),
        (b"db", _) => Condition::Database(database(ctx, negated, value)?),
        (b"capa", _) => {
            let place = if negated { "NOT-CAPA" } else { "provided" };
            Condition::Capabilities(letters("capa", CAPABILITY_LETTERS, place, value)?)
        }
        (b"ip", _) => Condition::Ip(value),
        _ => return Err(ClientError::Syntax),
    })
}

fn shown(bytes: &[u8]) -> String {
    quoted(bytes)
}

fn client_type(value: &[u8]) -> Result<&'static str, ClientError> {
    match value.to_ascii_lowercase().as_slice() {
        b"normal" => Ok("normal"),
        b"slave" | b"replica" => Ok("replica"),
        b"master" | b"primary" => Ok("primary"),
        b"pubsub" => Ok("pubsub"),
        _ => Err(ClientError::formatted(format!("ERR Unknown client type '{}'", shown(value)))),
    }
}

fn known_user(ctx: &Context<'_>, value: &[u8]) -> Result<UserHandle, ClientError> {
    let unknown = || ClientError::formatted(format!("ERR No such user '{}'", shown(value)));
    ctx.server.users.named(value).ok_or_else(unknown)
}

fn positive(word: &str, value: &[u8]) -> Result<i64, ClientError> {
    match wire::number::parse_i64(value) {
        None => Err(ClientError::formatted(format!("ERR {word} is not an integer or out of range"))),
        Some(..=0) => Err(ClientError::formatted(format!("ERR {word} should be greater than 0"))),
        Some(number) => Ok(number),
    }
}

fn letters<'a>(word: &str, known: &[u8], place: &str, value: &'a [u8]) -> Result<&'a [u8], ClientError> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(value);
    }
    let text = format!("ERR Unknown {word} found in the {place} filter: {}", shown(value));
    Err(ClientError::formatted(text))
}

fn database(ctx: &Context<'_>, negated: bool, value: &[u8]) -> Result<usize, ClientError> {
    let word = if negated { "NOT-DB" } else { "DB" };
    let index = wire::number::parse_i64(value)
        .and_then(|index| i32::try_from(index).ok())
        .ok_or_else(|| ClientError::formatted(format!("ERR {word} is not an integer or out of range")))?;
    let count = ctx.db.database_count();
    usize::try_from(index).ok().filter(|&index| index < count).ok_or_else(|| {
        ClientError::formatted(format!("ERR {word} number should be between 0 and {}", count - 1))
    })
}

impl Condition<'_> {
    fn holds(&self, ctx: &Context<'_>, client: &Client) -> bool {
        let now_us = ctx.server.now.monotonic_us;
        let seconds_since = |us: u64| signed_count(now_us.saturating_sub(us) / 1_000_000);
        match self {
            Condition::Id(ids) => ids.contains(&signed_count(client.id.0)),
            Condition::Type(criteria) => *criteria == type_of(client),
            Condition::Address(address) => client.connection.address.as_bytes() == *address,
            Condition::LocalAddress(address) => client.connection.local_address.as_bytes() == *address,
            Condition::User(user) => client.user() == *user,
            Condition::AgeAtLeast(age_s) => seconds_since(client.created.monotonic_us) >= *age_s,
            Condition::IdleAtLeast(idle_s) => seconds_since(client.last_interaction.monotonic_us) >= *idle_s,
            Condition::Flags(criteria) => has_flags(client, criteria),
            Condition::Name(name) => !client.name.is_empty() && client.name == *name,
            Condition::LibraryName(name) => !client.library.name.is_empty() && client.library.name == *name,
            Condition::LibraryVersion(version) => {
                !client.library.version.is_empty() && client.library.version == *version
            }
            Condition::Database(index) => client.db_index == *index,
            Condition::Capabilities(letters) => letters.is_empty() || client.capabilities_redirect,
            Condition::Ip(ip) => ip_of(&client.connection.address).is_some_and(|own| own.as_bytes() == *ip),
        }
    }
}

fn type_of(client: &Client) -> &'static str {
    match client {
        client if client.is_replica => "replica",
        client if client.is_primary => "primary",
        client if client.subscriptions.is_empty() => "normal",
        _ => "pubsub",
    }
}

fn has_flags(client: &Client, criteria: &[u8]) -> bool {
    let flags = client_line::flags(client);
    criteria.iter().all(|&letter| match letter {
        // A monitor counts as a replica.
        b'S' if client.is_monitor => true,
        _ => flags.as_bytes().contains(&letter),
    })
}

/// The address without its port; `None` for a Unix socket.
fn ip_of(address: &str) -> Option<&str> {
    let (ip, port) = address.rsplit_once(':')?;
    (port != "0").then(|| ip.trim_start_matches('[').trim_end_matches(']'))
}
