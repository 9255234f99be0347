//! XADD and XTRIM.

use super::ids::{self, PartialId};
use super::producing::{IdentifiedMessage, Message};
use super::removing::{self, propagate_trimmed};
use crate::command::{Args, Context, Outcome};
use crate::db::collection::{Collection, CollectionContext};
use crate::db::stream::{AppendError, References, Stream, StreamId, TrimTo, Trimmed, reply_id};
use crate::db::{Db, EventClasses, Key};
use crate::error::ClientError;

/// The maximum number of nodes whose entries an approximate trim without LIMIT removes, and its bounds in entries.
const NODES_TRIMMED_MAX: u64 = 100;
const TRIMMED_MAX_WITHOUT_NODE_LIMIT: u64 = 10_000;
const TRIMMED_MAX: u64 = 1_000_000;

const BOTH_STRATEGIES: ClientError =
    ClientError::text("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const LIMIT_WITHOUT_APPROXIMATION: ClientError =
    ClientError::text("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// MAXLEN or MINID with their options.
#[derive(Clone, Copy)]
struct Trim {
    to: TrimTo,
    approximate: bool,
    /// 0 is no limit.
    limit: u64,
    references: References,
}

impl Trim {
    fn apply(self, stream: &mut Stream) -> Trimmed {
        match self.references {
            References::Keep => {
                let leading = stream.trim(self.to, self.approximate, self.limit);
                Trimmed { leading, ..Trimmed::default() }
            }
            references => stream.trim_with(self.to, self.limit, references),
        }
    }
}

/// The arguments before the id of XADD, and all arguments of XTRIM.
#[derive(Default)]
struct Options {
    trim: Option<Trim>,
    limit: Option<u64>,
    references: Option<References>,
    only_if_there: bool,
}

impl Options {
    /// Parses MAXLEN or MINID at `at`; returns the index after it.
    fn parse_trim(&mut self, args: Args<'_>, mut at: usize) -> Result<usize, ClientError> {
        if self.trim.is_some() {
            return Err(BOTH_STRATEGIES);
        }
        let by_length = args.is(at, "MAXLEN");
        at += 1;
        let has_sign = at + 1 < args.len() && matches!(args.at(at), b"~" | b"=");
        let approximate = has_sign && args.at(at) == b"~";
        at += usize::from(has_sign);
        let to = if by_length {
            let length = u64::try_from(args.integer(at)?)
                .map_err(|_| ClientError::text("ERR The MAXLEN argument must be >= 0."))?;
            TrimTo::Length(length)
        } else {
            TrimTo::Id(ids::strict(args.at(at), 0)?)
        };
        self.trim = Some(Trim { to, approximate, limit: 0, references: References::Keep });
        Ok(at + 1)
    }

    /// Parses an option that both commands have at `at`; returns the index after it, or `None`.
    fn parse_one(&mut self, args: Args<'_>, at: usize) -> Result<Option<usize>, ClientError> {
        let has_value = at + 1 < args.len();
        if has_value && (args.is(at, "MAXLEN") || args.is(at, "MINID")) {
            return self.parse_trim(args, at).map(Some);
        }
        if has_value && args.is(at, "LIMIT") {
            let limit = u64::try_from(args.integer(at + 1)?)
                .map_err(|_| ClientError::text("ERR The LIMIT argument must be >= 0."))?;
            self.limit = Some(limit);
            return Ok(Some(at + 2));
        }
        if let (None, Some(references)) = (self.references, removing::references(args, at)) {
            self.references = Some(references);
            return Ok(Some(at + 1));
        }
        Ok(None)
    }

    /// Determines the limit of a trim.
    fn finish(&mut self, node_entries_max: u64) -> Result<(), ClientError> {
        let Some(trim) = &mut self.trim else {
            return match self.limit {
                None => Ok(()),
                Some(0) => Err(LIMIT_WITHOUT_APPROXIMATION),
                Some(_) => Err(ClientError::text(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
            };
        };
        trim.references = self.references.unwrap_or_default();
        trim.limit = match self.limit {
            Some(_) if !trim.approximate => return Err(LIMIT_WITHOUT_APPROXIMATION),
            Some(limit) => limit,
            None if !trim.approximate => 0,
            None if node_entries_max == 0 => TRIMMED_MAX_WITHOUT_NODE_LIMIT,
            None => node_entries_max.saturating_mul(NODES_TRIMMED_MAX).min(TRIMMED_MAX),
        };
        Ok(())
    }
}

/// XADD's options and id; the id is `None` for `*`.
struct Addition<'a> {
    options: Options,
    message: Option<Message<'a>>,
    id: Option<PartialId>,
    /// The index of the first field.
    items_at: usize,
}

impl<'a> Addition<'a> {
    /// `is_repeated`: the command has run at its origin, which has assigned the id.
    fn parse(args: Args<'a>, is_repeated: bool) -> Result<Self, ClientError> {
        let (mut options, mut message) = (Options::default(), None);
        let mut at = 2;
        while at < args.len() {
            if args.at(at) == b"*" {
                return Ok(Addition { options, message, id: None, items_at: at + 1 });
            }
            if let Some(next) = options.parse_one(args, at)? {
                at = next;
            } else if args.is(at, "NOMKSTREAM") {
                options.only_if_there = true;
                at += 1;
            } else if let Some((named, next)) = Message::parse(args, at, message.is_some())? {
                message = Some(named);
                at = next;
            } else {
                let id = Some(ids::partial(args.at(at))?);
                if message.is_some() && !is_repeated {
                    return Err(ClientError::text(
                        "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs",
                    ));
                }
                return Ok(Addition { options, message, id, items_at: at + 1 });
            }
        }
        // The id is missing: the caller finds too few arguments.
        Ok(Addition { options, message, id: None, items_at: args.len() })
    }
}

/// The id of the new entry.
fn resolve(stream: &Stream, id: Option<PartialId>, now_ms: i64) -> Result<StreamId, ClientError> {
    let taken =
        ClientError::text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    if stream.state().last_id == StreamId::MAX {
        return Err(ClientError::text(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ));
    }
    match id {
        None => stream.next_id(now_ms as u64).ok_or(taken),
        Some(PartialId::Milliseconds(ms)) => stream.next_id_in(ms).ok_or(taken),
        Some(PartialId::Whole(id)) if id > stream.state().last_id => Ok(id),
        Some(PartialId::Whole(_)) => Err(taken),
    }
}

/// The result of an addition.
enum Added {
    New(StreamId, Trimmed),
    /// The message had been added before.
    Before(StreamId),
}

/// An addition whose arguments have been checked.
struct Entry<'a> {
    id: Option<PartialId>,
    items: Args<'a>,
    message: Option<IdentifiedMessage<'a>>,
    trim: Option<Trim>,
    is_repeated: bool,
}

impl Entry<'_> {
    fn add(&self, stream: &mut Stream, context: &CollectionContext<'_>) -> Result<Added, ClientError> {
        if let Some(message) = self.message.as_ref().filter(|_| !self.is_repeated)
            && let Some(id) = message.find(stream, context.now_ms)?
        {
            stream.producers_mut(context.seed).count_duplicate();
            return Ok(Added::Before(id));
        }
        let id = resolve(stream, self.id, context.now_ms)?;
        let items: Vec<&[u8]> = self.items.iter().collect();
        stream.add(id, &items, context.limits).map_err(|error| match error {
            AppendError::TooLarge => ClientError::text("ERR Elements are too large to be stored"),
            AppendError::NotAboveLast => unreachable!("the resolved id is above the last one"),
        })?;
        if let Some(message) = &self.message {
            let now_ms = context.now_ms.max(0) as u64;
            stream.producers_mut(context.seed).record(message.producer, &message.id, id, now_ms);
        }
        Ok(Added::New(id, self.trim.map_or(Trimmed::default(), |trim| trim.apply(stream))))
    }
}

pub(super) fn xadd(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let is_repeated = ctx.is_repeated();
    let mut addition = Addition::parse(args, is_repeated)?;
    addition.options.finish(ctx.db.policies.of_key(args.at(1)).limits.stream_node_entries_max)?;
    let items = args.from(addition.items_at);
    if items.len() < 2 || items.len() % 2 == 1 {
        return Err(ClientError::WrongArity { command: "xadd".to_owned() });
    }
    if addition.id == Some(PartialId::Whole(StreamId::MIN)) {
        return Err(ClientError::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = args.key(1);
    let is_new = ctx.db.read_collection_for_write::<Stream>(key)?.is_none();
    // A repeated command has an id, unless the message had been added before.
    let was_before = is_repeated && addition.message.is_some() && addition.id.is_none();
    if is_new && addition.options.only_if_there || was_before {
        ctx.reply.null();
        return Ok(());
    }
    let message = addition.message.map(|message| message.identified(items));
    let entry = Entry { id: addition.id, items, message, trim: addition.options.trim, is_repeated };
    let added = if is_new {
        let (stream, added) = ctx.db.build(key.bytes(), |context| {
            let mut stream = Stream::new(context.limits, context.seed);
            let added = entry.add(&mut stream, &context)?;
            Ok::<_, ClientError>((stream, added))
        })?;
        ctx.db.store_collection(key, stream);
        added
    } else {
        let added = ctx.db.change(key, |stream: &mut Stream, context| entry.add(stream, &context))?;
        added.expect("the stream existed just before")?
    };
    let id = match added {
        Added::New(id, trimmed) => {
            propagate_added(ctx.db, key, id, &entry);
            propagate_trimmed(ctx.db, key, &trimmed);
            ctx.db.changed(EventClasses::STREAM, "xadd", key);
            if trimmed.count() > 0 {
                ctx.db.event(EventClasses::STREAM, "xtrim", key);
            }
            id
        }
        Added::Before(id) => id,
    };
    reply_id(id, ctx.reply);
    Ok(())
}

/// Propagates the entry with its assigned id.
fn propagate_added(db: &mut Db, key: Key<'_>, id: StreamId, entry: &Entry<'_>) {
    if !db.change_log.is_recording() {
        return;
    }
    let id = id.to_string();
    match &entry.message {
        None => db.propagate_as_list(&[b"XADD", key.bytes(), id.as_bytes()], entry.items.iter()),
        Some(message) => {
            let head = [b"XADD", key.bytes(), b"IDMP", message.producer, &message.id, id.as_bytes()];
            db.propagate_as_list(&head, entry.items.iter());
        }
    }
}

pub(super) fn xtrim(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut options = Options::default();
    let mut at = 2;
    while at < args.len() {
        at = options.parse_one(args, at)?.ok_or(ClientError::Syntax)?;
    }
    if options.trim.is_none() && matches!(options.limit, None | Some(0)) {
        return Err(ClientError::text("ERR syntax error, XTRIM must be called with a trimming strategy"));
    }
    options.finish(ctx.db.policies.of_key(args.at(1)).limits.stream_node_entries_max)?;
    let Some(trim) = options.trim else { return Err(ClientError::Syntax) };
    let key = args.key(1);
    let trimmed = ctx.db.change(key, |stream: &mut Stream, _| trim.apply(stream))?.unwrap_or_default();
    if trimmed.count() > 0 {
        propagate_trimmed(ctx.db, key, &trimmed);
        ctx.db.changed_many(EventClasses::STREAM, "xtrim", key, trimmed.count());
    }
    ctx.reply.count(trimmed.count());
    Ok(())
}
