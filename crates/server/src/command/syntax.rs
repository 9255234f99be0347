//! The arguments of a command as a tree, read from the row's `syntax`: what COMMAND DOCS and HELP answer and what a
//! client draws hints from.
//!
//! ```text
//! name                a value, of the type that its name implies   name:integer     of another type
//! TOKEN               a keyword                                    name=TOKEN       with a name of its own
//! TOKEN name          a value after its keyword                    TOKEN < ... >    several, after a keyword
//! [ ... ]             optional                                     < ... >          required
//! a | b               one of these (in brackets)                   [label: ... ]    a named group
//! a ...               once or more                                 TOKEN... a       once or more, with its keyword
//! name(text)          shown as `text`                              name#1           in the second key specification
//! name@6.2.0          since a version                              name!6.2.0       deprecated since a version
//! ```
//!
//! What follows a name or a label comes in the order `(text):kind#1@6.2.0!6.2.0`.

/// The type of a value, with the names that COMMAND DOCS uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A key.
    Key,
    /// A glob.
    Pattern,
    /// A Unix time.
    UnixTime,
    /// A keyword without a value.
    PureToken,
    /// A choice of arguments.
    OneOf,
    /// A sequence of arguments.
    Block,
}

impl ArgumentKind {
    /// The name of the type in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            ArgumentKind::String => "string",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Double => "double",
            ArgumentKind::Key => "key",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::UnixTime => "unix-time",
            ArgumentKind::PureToken => "pure-token",
            ArgumentKind::OneOf => "oneof",
            ArgumentKind::Block => "block",
        }
    }

    const ALL: [ArgumentKind; 9] = [
        ArgumentKind::String,
        ArgumentKind::Integer,
        ArgumentKind::Double,
        ArgumentKind::Key,
        ArgumentKind::Pattern,
        ArgumentKind::UnixTime,
        ArgumentKind::PureToken,
        ArgumentKind::OneOf,
        ArgumentKind::Block,
    ];

    /// Derives the type from the value's name.
    fn of_value(name: &str) -> Self {
        match name {
            "key" | "newkey" | "source" | "destination" | "key1" | "key2" => ArgumentKind::Key,
            "pattern" => ArgumentKind::Pattern,
            "unix-time-seconds" | "unix-time-milliseconds" => ArgumentKind::UnixTime,
            "score" | "longitude" | "latitude" | "radius" | "width" | "height" | "timeout" => {
                ArgumentKind::Double
            }
            "count" | "seconds" | "milliseconds" | "index" | "index1" | "index2" | "decrement" | "offset"
            | "start" | "stop" | "end" | "len" | "numkeys" | "numfields" | "numreplicas" | "numlocal"
            | "cursor" | "weight" | "rank" | "maxlen" | "ms" | "client-id" | "entries-read" | "db" => {
                ArgumentKind::Integer
            }
            _ => ArgumentKind::String,
        }
    }
}

/// One argument, or a block or a choice of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Name of the argument.
    pub name: String,
    /// Type of its value.
    pub kind: ArgumentKind,
    /// The display name of the value, if not its name.
    pub display: Option<String>,
    /// The index of the key specification that finds the key, if not the next one in order.
    pub key_spec: Option<usize>,
    /// The keyword before the value, or the keyword that this argument is.
    pub token: Option<String>,
    /// The version that introduced it.
    pub since: Option<String>,
    /// The version that deprecated it.
    pub deprecated_since: Option<String>,
    /// Whether it can be omitted.
    pub optional: bool,
    /// Whether it can be repeated.
    pub multiple: bool,
    /// With several values, the keyword precedes each of them.
    pub token_each_time: bool,
    /// The arguments of a block or a choice.
    pub parts: Vec<Argument>,
}

/// Parses the arguments that `syntax` describes. Rows are constants, so a mistake in one is a bug and fails the tests.
pub fn parse(syntax: &str) -> Vec<Argument> {
    let spaced: String = syntax
        .chars()
        .flat_map(|c| match c {
            '[' | ']' | '<' | '>' | '|' => vec![' ', c, ' '],
            _ => vec![c],
        })
        .collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, at: 0 };
    let arguments = parser.sequence();
    assert!(parser.at == words.len(), "unmatched closing bracket in {syntax:?}");
    arguments
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    /// Skips `word` if it comes next; returns whether it did.
    fn takes(&mut self, word: &str) -> bool {
        let here = self.peek() == Some(word);
        self.at += usize::from(here);
        here
    }

    fn skip(&mut self, word: &str) {
        assert!(self.takes(word), "{word} is missing in {:?}", self.words);
    }

    /// Parses arguments up to a closing bracket or a bar.
    fn sequence(&mut self) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = Vec::new();
        while self.peek().is_some_and(|word| !matches!(word, "]" | ">" | "|")) {
            let mut argument = self.argument();
            argument.multiple |= self.takes("...");
            arguments.push(argument);
        }
        arguments
    }

    fn argument(&mut self) -> Argument {
        if self.takes("[") {
            let group = self.group();
            self.skip("]");
            return Argument { optional: true, ..group };
        }
        if self.takes("<") {
            let group = self.group();
            self.skip(">");
            return group;
        }
        self.word()
    }

    /// Parses the contents of brackets: one argument, several together, or a choice.
    fn group(&mut self) -> Argument {
        let label = self.peek().and_then(|word| word.strip_suffix(':'));
        self.at += usize::from(label.is_some());
        let mut choices = vec![together(self.sequence())];
        while self.takes("|") {
            choices.push(together(self.sequence()));
        }
        let group = match choices.len() {
            1 => choices.remove(0),
            _ => Argument {
                name: joined_name(&choices, "-or-"),
                parts: choices,
                ..plain(String::new(), ArgumentKind::OneOf)
            },
        };
        match label {
            Some(label) => Argument { kind: group.kind, parts: group.parts, ..named(label) },
            None => group,
        }
    }

    /// Parses a token, a token with its arguments, or a value.
    fn word(&mut self) -> Argument {
        let word = self.words[self.at];
        self.at += 1;
        let argument = named(word.strip_suffix("...").unwrap_or(word));
        if argument.kind != ArgumentKind::PureToken {
            return argument;
        }
        let takes_value = self.peek().is_some_and(|next| {
            next == "<" || next.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_token(next)
        });
        if !takes_value {
            return argument;
        }
        let each_time = word.ends_with("...");
        let value = self.argument();
        Argument { token: argument.token, multiple: each_time, token_each_time: each_time, ..value }
    }
}

fn plain(name: String, kind: ArgumentKind) -> Argument {
    Argument {
        name,
        kind,
        display: None,
        key_spec: None,
        token: None,
        since: None,
        deprecated_since: None,
        optional: false,
        multiple: false,
        token_each_time: false,
        parts: Vec::new(),
    }
}

/// Parses a token or a value with the attributes after its name.
fn named(word: &str) -> Argument {
    let (word, deprecated_since) = split_off(word, '!');
    let (word, since) = split_off(word, '@');
    let (word, key_spec) = split_off(word, '#');
    let described = Argument {
        key_spec: key_spec.map(|index| index.parse().expect("'#' precedes a key specification's index")),
        since,
        deprecated_since,
        ..plain(String::new(), ArgumentKind::PureToken)
    };
    if is_token(word) {
        let (name, token) = match word {
            "=" => ("equal".to_owned(), word),
            "~" => ("approximately".to_owned(), word),
            "*" => ("auto-id".to_owned(), word),
            "$" => ("new-id".to_owned(), word),
            "\"\"" => ("empty-string".to_owned(), ""),
            word => match word.split_once('=') {
                Some((name, token)) => (name.to_owned(), token),
                None => (word.to_ascii_lowercase(), word),
            },
        };
        return Argument { name, token: Some(token.to_owned()), ..described };
    }
    let (word, kind) = match word.rsplit_once(':') {
        Some((word, kind)) if !kind.ends_with(')') => (word, Some(kind)),
        _ => (word, None),
    };
    let (name, display) = match word.strip_suffix(')').and_then(|word| word.split_once('(')) {
        Some((name, display)) => (name, Some(display.to_owned())),
        None => (word, None),
    };
    let kind = kind.map_or_else(
        || ArgumentKind::of_value(name),
        |kind| ArgumentKind::ALL.into_iter().find(|known| known.name() == kind).expect("a kind follows ':'"),
    );
    Argument { name: name.to_owned(), kind, display, ..described }
}

/// Splits at the last `mark`: the text before it, and the text after it.
fn split_off(word: &str, mark: char) -> (&str, Option<String>) {
    word.rsplit_once(mark).map_or((word, None), |(word, rest)| (word, Some(rest.to_owned())))
}

/// A token: without its attributes, and from its `=` on, the word has no lower-case letters.
fn is_token(word: &str) -> bool {
    let word = word.split(['@', '!', '#']).next().unwrap_or_default();
    let token = if word == "=" { word } else { word.rsplit('=').next().unwrap_or_default() };
    !token.contains(|c: char| c.is_ascii_lowercase()) && word != "..."
}

/// Combines several arguments into one.
fn together(mut arguments: Vec<Argument>) -> Argument {
    if arguments.len() == 1 {
        return arguments.remove(0);
    }
    Argument { parts: arguments.clone(), ..plain(joined_name(&arguments, "-"), ArgumentKind::Block) }
}

fn joined_name(arguments: &[Argument], separator: &str) -> String {
    arguments.iter().map(|argument| argument.name.as_str()).collect::<Vec<_>>().join(separator)
}

/// Formats arguments as HELP shows them: `<value>`, `TOKEN <value>`, `[<optional>]`, `(ONE|OF)`.
pub fn usage(arguments: &[Argument]) -> String {
    arguments.iter().map(usage_of).collect::<Vec<_>>().join(" ")
}

fn usage_of(argument: &Argument) -> String {
    let of_value = match argument.kind {
        ArgumentKind::PureToken => argument.token.clone().unwrap_or_default(),
        ArgumentKind::OneOf => {
            let choices = argument.parts.iter().map(usage_of).collect::<Vec<_>>().join("|");
            let alone = argument.optional && argument.token.is_none() && !argument.multiple;
            if alone { choices } else { format!("({choices})") }
        }
        ArgumentKind::Block => usage(&argument.parts),
        _ => format!("<{}>", argument.display.as_ref().unwrap_or(&argument.name)),
    };
    let with_token = match &argument.token {
        Some(token) if argument.kind != ArgumentKind::PureToken => format!("{token} {of_value}"),
        _ => of_value.clone(),
    };
    let repeated = if argument.token_each_time { &with_token } else { &of_value };
    let whole = if argument.multiple { format!("{with_token} [{repeated} ...]") } else { with_token.clone() };
    match argument.optional {
        true if argument.multiple && with_token == of_value => format!("[{with_token} ...]"),
        true => format!("[{whole}]"),
        false => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(syntax: &str) -> String {
        fn show(argument: &Argument) -> String {
            let parts: Vec<String> = argument.parts.iter().map(show).collect();
            let after = |mark: &str, text: &Option<String>| {
                text.as_deref().map_or_else(String::new, |text| format!("{mark}{text}"))
            };
            format!(
                "{}{}:{}{}{}{}{}{}{}{}",
                argument.name,
                after("/", &argument.display),
                argument.kind.name(),
                after("=", &argument.token),
                after("@", &argument.since),
                after("!", &argument.deprecated_since),
                if argument.optional { "?" } else { "" },
                if argument.multiple { "+" } else { "" },
                if argument.token_each_time { "t" } else { "" },
                if parts.is_empty() { String::new() } else { format!("({})", parts.join(" ")) }
            )
        }
        parse(syntax).iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn syntax_becomes_a_tree() {
        let cases = [
            ("", ""),
            ("key", "key:key"),
            ("key ...", "key:key+"),
            ("<data: key value> ...", "data:block+(key:key value:string)"),
            ("[NX | XX]", "nx-or-xx:oneof?(nx:pure-token=NX xx:pure-token=XX)"),
            (
                "key [expiration: EX seconds@2.6.12 | KEEPTTL@6.0.0]",
                "key:key expiration:oneof?(seconds:integer=EX@2.6.12 keepttl:pure-token=KEEPTTL@6.0.0)",
            ),
            ("[GET... get-pattern(pattern):pattern#1]", "get-pattern/pattern:pattern=GET?+t"),
            ("[WEIGHTS weight ...]", "weight:integer=WEIGHTS?+"),
            (
                "key FIELDS <fields: numfields field ...>",
                "key:key fields:block=FIELDS(numfields:integer field:string+)",
            ),
            ("[get-block: a b | c] ...", "get-block:oneof?+(a-b:block(a:string b:string) c:string)"),
            ("[LIMIT <limit@6.2.0: offset count>]", "limit:block=LIMIT@6.2.0?(offset:integer count:integer)"),
            (
                "[change=CH] [=|~] * $ \"\"",
                "change:pure-token=CH? equal-or-approximately:oneof?(equal:pure-token== approximately:pure-token=~) auto-id:pure-token=* new-id:pure-token=$ empty-string:pure-token=",
            ),
            ("old-format(ip:port)!2.8.12", "old-format/ip:port:string!2.8.12"),
        ];
        for (syntax, expected) in cases {
            assert_eq!(shape(syntax), expected, "{syntax}");
        }
    }

    #[test]
    fn usage_is_what_help_shows() {
        let cases = [
            ("", ""),
            ("[count]", "[<count>]"),
            ("key [SAMPLES count]", "<key> [SAMPLES <count>]"),
            ("username ...", "<username> [<username> ...]"),
            ("[event ...]", "[<event> ...]"),
            ("<ON | OFF>", "(ON|OFF)"),
            ("[ASYNC | SYNC]", "[ASYNC|SYNC]"),
            ("[PREFIX... prefix]", "[PREFIX <prefix> [PREFIX <prefix> ...]]"),
            ("[ID client-id ...]", "[ID <client-id> [<client-id> ...]]"),
            ("[TYPE <NORMAL | PUBSUB>]", "[TYPE (NORMAL|PUBSUB)]"),
        ];
        for (syntax, expected) in cases {
            assert_eq!(usage(&parse(syntax)), expected, "{syntax}");
        }
    }
}
