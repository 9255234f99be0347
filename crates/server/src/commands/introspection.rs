//! COMMAND: information about the server's commands.

use crate::command::flag::{self, LOADING, STALE};
use crate::command::key_spec::{Begin, Find};
use crate::command::syntax::{self, Argument, ArgumentKind};
use crate::command::{Access, Args, Command, Context, Flags, Group, KeySpec, Outcome, access, category};
use crate::error::ClientError;
use wire::convert::signed_len;
use wire::reply::ReplyBuffer;

const FLAGS: Flags = LOADING | STALE;
const CATEGORY: &[&str] = &["connection"];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];

const fn row(name: &'static str, arity: i32, handler: crate::command::Handler) -> Command {
    Command::new(name, arity, Group::Server, handler).flags(FLAGS).categories(CATEGORY)
}

/// The rows of this group's commands.
pub const COMMANDS: &[Command] = &[row("command", -1, all)
    .since("2.8.13", "O(N) where N is the total number of commands")
    .doc("Returns information about all commands.", "")
    .tips(ANY_ORDER)
    .subcommands(&[
        row("command|count", 2, count).since("2.8.13", "O(1)").doc("Returns the number of commands.", ""),
        row("command|docs", -2, docs)
            .since("7.0.0", "O(N) where N is the number of commands to look up")
            .doc("Returns the documentation of commands.", "[command-name ...]")
            .tips(ANY_ORDER),
        row("command|getkeys", -3, get_keys)
            .since("2.8.13", "O(N) where N is the number of arguments to the command")
            .doc("Returns the keys among a command's arguments.", "command [arg ...]"),
        row("command|getkeysandflags", -3, get_keys_and_flags)
            .since("7.0.0", "O(N) where N is the number of arguments to the command")
            .doc(
                "Returns the keys among a command's arguments, with their access flags.",
                "command [arg ...]",
            ),
        row("command|help", 2, super::help).since("5.0.0", "O(1)").doc("Lists the subcommands.", ""),
        row("command|info", -2, info)
            .since("2.8.13", "O(N) where N is the number of commands to look up")
            .doc("Returns the properties of commands.", "[command-name ...]")
            .history(&[("7.0.0", "Without names, returns all commands.")])
            .tips(ANY_ORDER),
        row("command|list", -2, list)
            .since("7.0.0", "O(N) where N is the total number of commands")
            .doc(
                "Returns the names of commands.",
                "[FILTERBY <filterby: MODULE module-name | ACLCAT category | PATTERN pattern>]",
            )
            .tips(ANY_ORDER),
    ])];

fn is_subcommand(row: &Command) -> bool {
    row.name.contains('|')
}

fn containers(ctx: &Context<'_>) -> Vec<&'static Command> {
    ctx.server.registry.iter().map(|(_, row)| row).filter(|row| !is_subcommand(row)).collect()
}

fn all(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let rows = containers(ctx);
    ctx.reply.array(rows.len());
    for row in rows {
        describe(ctx.reply, row);
    }
    Ok(())
}

fn count(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let count = containers(ctx).len();
    ctx.reply.count(count);
    Ok(())
}

fn info(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() == 2 {
        return all(ctx, args);
    }
    ctx.reply.array(args.len() - 2);
    for name in args.from(2).iter() {
        match ctx.server.registry.named(name) {
            Some(id) => describe(ctx.reply, ctx.server.registry.row(id)),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// The ten fields of COMMAND INFO.
fn describe(reply: &mut ReplyBuffer, row: &'static Command) {
    let range = legacy_range(row.keys);
    reply.array(10);
    reply.bulk(row.name.as_bytes());
    reply.integer(row.arity.into());
    let movable = row.keys.iter().any(|spec| !is_plain_range(spec));
    let flags = row.flags | if movable { flag::MOVABLE_KEYS } else { 0 };
    simple_set(reply, flag::NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name));
    for number in [range.first, range.last, range.step] {
        reply.integer(number);
    }
    let categories: Vec<String> = category::of(row).map(|name| format!("@{name}")).collect();
    simple_set(reply, categories.iter().map(String::as_str));
    reply.set(row.tips.len());
    row.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(row.keys.len());
    row.keys.iter().for_each(|spec| describe_keys(reply, spec));
    reply.array(row.subcommands.len());
    row.subcommands.iter().for_each(|sub| describe(reply, sub));
}

fn simple_set<'a>(reply: &mut ReplyBuffer, words: impl Iterator<Item = &'a str>) {
    let mark = reply.begin();
    let mut len = 0;
    for word in words {
        reply.simple(word);
        len += 1;
    }
    reply.end_set(mark, len);
}

/// First, last and step of the keys, the format of old clients.
#[derive(Clone, Copy, Default)]
struct LegacyRange {
    first: i64,
    last: i64,
    step: i64,
}

fn is_plain_range(spec: &KeySpec) -> bool {
    matches!((spec.begin, spec.find), (Begin::Index(_), Find::Range { .. }))
}

/// The range of the longest sequence of specifications without a gap.
fn legacy_range(specs: &[KeySpec]) -> LegacyRange {
    let ranges = specs.iter().filter_map(|spec| match (spec.begin, spec.find) {
        (Begin::Index(first), Find::Range { last, step, .. }) => {
            let first = signed_len(first);
            let last = i64::from(last) + if last >= 0 { first } else { 0 };
            Some(LegacyRange { first, last, step: signed_len(step) })
        }
        _ => None,
    });
    let joined = |whole: LegacyRange, next: LegacyRange| match whole {
        LegacyRange { first: 0, .. } => next,
        LegacyRange { last, step: 1, .. } if next.step == 1 && last == next.first - 1 => {
            LegacyRange { last: next.last, ..whole }
        }
        _ => whole,
    };
    ranges.fold(LegacyRange::default(), joined)
}

fn describe_keys(reply: &mut ReplyBuffer, spec: &KeySpec) {
    reply.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(spec.notes.as_bytes());
    }
    reply.bulk(b"flags");
    describe_access(reply, spec.access);
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => method(reply, "index", &[("index", signed_len(index))]),
        Begin::Keyword { word, from } => {
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(from.into());
        }
        Begin::Unknown => method(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => method(
            reply,
            "range",
            &[("lastkey", last.into()), ("keystep", signed_len(step)), ("limit", signed_len(limit))],
        ),
        Find::Counted { count_at, first, step } => method(
            reply,
            "keynum",
            &[
                ("keynumidx", signed_len(count_at)),
                ("firstkey", signed_len(first)),
                ("keystep", signed_len(step)),
            ],
        ),
        Find::Unknown => method(reply, "unknown", &[]),
    }
}

fn method(reply: &mut ReplyBuffer, name: &str, numbers: &[(&str, i64)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(name.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(*number);
    }
}

fn describe_access(reply: &mut ReplyBuffer, bits: Access) {
    simple_set(reply, access::NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name));
}

fn docs(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let rows: Vec<&'static Command> = match args.len() {
        2 => containers(ctx),
        _ => {
            let registry = &ctx.server.registry;
            args.from(2).iter().filter_map(|name| registry.named(name)).map(|id| registry.row(id)).collect()
        }
    };
    ctx.reply.map(rows.len());
    for row in rows {
        ctx.reply.bulk(row.name.as_bytes());
        document(ctx.reply, row);
    }
    Ok(())
}

fn document(reply: &mut ReplyBuffer, row: &Command) {
    let arguments = syntax::parse(row.syntax);
    let texts = [
        ("summary", row.summary),
        ("since", row.since),
        ("group", row.group.name()),
        ("complexity", row.complexity),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let (mut pairs, mark) = (0, reply.begin());
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
        pairs += 1;
    }
    let doc_flag = row.deprecated.map(|_| "deprecated").or(row.internal.then_some("syscmd"));
    if let Some(doc_flag) = doc_flag {
        reply.bulk(b"doc_flags");
        simple_set(reply, std::iter::once(doc_flag));
        pairs += 1;
    }
    if let Some((since, replaced_by)) = row.deprecated {
        for text in ["deprecated_since", since, "replaced_by", replaced_by] {
            reply.bulk(text.as_bytes());
        }
        pairs += 2;
    }
    if !row.history.is_empty() {
        reply.bulk(b"history");
        reply.set(row.history.len());
        for (version, change) in row.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
        pairs += 1;
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        let mut keys = 0;
        document_arguments(reply, &arguments, row.keys.len(), &mut keys);
        pairs += 1;
    }
    if !row.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(row.subcommands.len());
        for sub in row.subcommands {
            reply.bulk(sub.name.as_bytes());
            document(reply, sub);
        }
        pairs += 1;
    }
    reply.end_map(mark, pairs);
}

/// `keys` counts the key arguments so far: the n-th belongs to the n-th specification of the row, unless it names
/// another.
fn document_arguments(reply: &mut ReplyBuffer, arguments: &[Argument], specs: usize, keys: &mut usize) {
    reply.array(arguments.len());
    for argument in arguments {
        document_argument(reply, argument, specs, keys);
    }
}

fn document_argument(reply: &mut ReplyBuffer, argument: &Argument, specs: usize, keys: &mut usize) {
    let mark = reply.begin();
    let mut pairs = 2;
    reply.bulk(b"name");
    reply.bulk(argument.name.as_bytes());
    reply.bulk(b"type");
    reply.bulk(argument.kind.name().as_bytes());
    let has_parts = matches!(argument.kind, ArgumentKind::OneOf | ArgumentKind::Block);
    if !has_parts {
        reply.bulk(b"display_text");
        reply.bulk(argument.display.as_ref().unwrap_or(&argument.name).as_bytes());
        pairs += 1;
    }
    let mut key_spec = argument.key_spec;
    if argument.kind == ArgumentKind::Key && specs > 0 {
        key_spec = key_spec.or(Some((*keys).min(specs - 1)));
        *keys += 1;
    }
    if let Some(index) = key_spec {
        reply.bulk(b"key_spec_index");
        reply.count(index);
        pairs += 1;
    }
    let texts = [
        ("token", &argument.token),
        ("since", &argument.since),
        ("deprecated_since", &argument.deprecated_since),
    ];
    for (name, text) in texts {
        let Some(text) = text else { continue };
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
        pairs += 1;
    }
    let flags = [
        (argument.optional, "optional"),
        (argument.multiple, "multiple"),
        (argument.token_each_time, "multiple_token"),
    ];
    if flags.iter().any(|(set, _)| *set) {
        reply.bulk(b"flags");
        simple_set(reply, flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name));
        pairs += 1;
    }
    if has_parts {
        reply.bulk(b"arguments");
        document_arguments(reply, &argument.parts, specs, keys);
        pairs += 1;
    }
    reply.end_map(mark, pairs);
}

fn list(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let filter: Box<dyn Fn(&Command) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if args.is(2, "FILTERBY") => {
            let wanted = args.at(4);
            if args.is(3, "MODULE") {
                Box::new(|_| false)
            } else if args.is(3, "ACLCAT") {
                let wanted = String::from_utf8_lossy(wanted).to_ascii_lowercase();
                Box::new(move |row| category::contains(row, &wanted))
            } else if args.is(3, "PATTERN") {
                Box::new(move |row| wire::glob::matches_ignoring_case(wanted, row.name.as_bytes()))
            } else {
                return Err(ClientError::Syntax);
            }
        }
        _ => return Err(ClientError::Syntax),
    };
    let names = ctx.server.registry.iter().map(|(_, row)| row).filter(|row| filter(row));
    let names: Vec<&str> = names.map(|row| row.name).collect();
    ctx.reply.array(names.len());
    for name in names {
        ctx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn get_keys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let command = args.from(2);
    let keys = keys_of(ctx, command)?;
    ctx.reply.array(keys.len());
    for (at, _) in keys {
        ctx.reply.bulk(command.at(at));
    }
    Ok(())
}

fn get_keys_and_flags(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let command = args.from(2);
    let keys = keys_of(ctx, command)?;
    ctx.reply.array(keys.len());
    for (at, bits) in keys {
        ctx.reply.array(2);
        ctx.reply.bulk(command.at(at));
        describe_access(ctx.reply, bits);
    }
    Ok(())
}

/// The positions of the keys in a complete command.
fn keys_of(ctx: &Context<'_>, command: Args<'_>) -> Result<Vec<(usize, Access)>, ClientError> {
    let Ok(id) = ctx.server.registry.find(command) else {
        return Err(ClientError::text("ERR Invalid command specified"));
    };
    let row = ctx.server.registry.row(id);
    if row.keys.iter().all(|spec| spec.access & access::NOT_KEY != 0) {
        return Err(ClientError::text("ERR The command has no key arguments"));
    }
    if !row.accepts(command.len()) {
        return Err(ClientError::text("ERR Invalid number of arguments specified for command"));
    }
    let keys = row.find_keys(command);
    if keys.is_empty() && !row.is(flag::NO_MANDATORY_KEYS) {
        return Err(ClientError::text("ERR Invalid arguments specified for command"));
    }
    Ok(keys)
}
