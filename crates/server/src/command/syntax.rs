//! The arguments of a command as a tree, read from the row's `syntax`: what COMMAND DOCS answers and what a client
//! draws hints from.
//!
//! ```text
//! name            a value                     TOKEN           a word that stands for itself
//! TOKEN name      a value behind its word     [ ... ]         may be left out
//! a | b           one of these                < a | b >       one of these, and one must be there
//! a [a ...]       once or more                a b [a b ...]   all together, once or more
//! TOKEN a [TOKEN a ...]   once or more, the word each time      [ ... | ... ...]   any of these, as often as wanted
//! ```

/// What a value is, by the names COMMAND DOCS has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgumentKind {
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

    /// Values are named for what they are.
    fn of_value(name: &str) -> Self {
        match name {
            "key" | "newkey" | "source" | "destination" | "destkey" | "sourcekey" | "key1" | "key2" => {
                ArgumentKind::Key
            }
            "pattern" => ArgumentKind::Pattern,
            "unix-time-seconds" | "unix-time-milliseconds" => ArgumentKind::UnixTime,
            "score" | "longitude" | "latitude" | "radius" | "width" | "height" | "weight" | "timeout" => {
                ArgumentKind::Double
            }
            "count"
            | "seconds"
            | "milliseconds"
            | "index"
            | "index1"
            | "index2"
            | "decrement"
            | "offset"
            | "bit"
            | "start"
            | "stop"
            | "end"
            | "len"
            | "numkeys"
            | "numfields"
            | "numreplicas"
            | "numlocal"
            | "cursor"
            | "db"
            | "protover"
            | "version"
            | "rank"
            | "maxlen"
            | "ms"
            | "frequency"
            | "bits"
            | "destination-db"
            | "port"
            | "entries-read"
            | "entries-added"
            | "milliseconds-timestamp" => ArgumentKind::Integer,
            _ => ArgumentKind::String,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub kind: ArgumentKind,
    /// The word before the value, or the word that this argument is.
    pub token: Option<String>,
    pub optional: bool,
    pub multiple: bool,
    /// When there are several, the word stands before each of them.
    pub token_each_time: bool,
    /// Of a block or a choice.
    pub parts: Vec<Argument>,
}

/// The arguments that `syntax` describes. Rows are constants, so a mistake in one is ours and shows in the tests.
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
    assert!(parser.at == words.len(), "a bracket too many in {syntax:?}");
    arguments
}

/// What may stand there several times: the last few arguments, each time with their first word or without it.
struct Repetition {
    arguments: usize,
    with_token: bool,
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).copied()
    }

    fn skip(&mut self, word: &str) {
        assert!(self.peek() == Some(word), "{word} is missing in {:?}", self.words);
        self.at += 1;
    }

    /// Arguments up to a closing bracket or a bar.
    fn sequence(&mut self) -> Vec<Argument> {
        let mut arguments: Vec<Argument> = Vec::new();
        let mut begins: Vec<usize> = Vec::new();
        while let Some(word) = self.peek() {
            if matches!(word, "]" | ">" | "|" | "...") {
                break;
            }
            if let Some(repeated) = self.repetition(&begins) {
                fold_repeated(&mut arguments, &mut begins, repeated);
                continue;
            }
            begins.push(self.at);
            arguments.push(self.argument());
        }
        arguments
    }

    /// If `[x y ...]` stands here and repeats the words just read, what it repeats; skips it.
    fn repetition(&mut self, begins: &[usize]) -> Option<Repetition> {
        let rest = &self.words[self.at..];
        let inner = rest.strip_prefix(&["["])?;
        let end = inner.iter().position(|word| *word == "...")?;
        let inner = &inner[..end];
        let read = |begin: usize| &self.words[begin..self.at];
        let last = *begins.last()?;
        let repetition = match begins.iter().rposition(|&begin| read(begin) == inner) {
            Some(first) => Repetition { arguments: begins.len() - first, with_token: is_token(inner[0]) },
            None if read(last + 1) == inner => Repetition { arguments: 1, with_token: false },
            None => return None,
        };
        self.at += inner.len() + 3;
        Some(repetition)
    }

    fn argument(&mut self) -> Argument {
        match self.peek() {
            Some("[") => {
                self.at += 1;
                let mut argument = self.group();
                self.skip("]");
                argument.optional = true;
                argument
            }
            Some("<") => {
                self.at += 1;
                let argument = self.group();
                self.skip(">");
                argument
            }
            _ => self.word(),
        }
    }

    /// What stands in brackets: one argument, several together, or a choice.
    fn group(&mut self) -> Argument {
        let mut choices = vec![together(self.sequence())];
        while self.peek() == Some("|") {
            self.at += 1;
            choices.push(together(self.sequence()));
        }
        let mut argument = match choices.len() {
            1 => choices.remove(0),
            _ => Argument {
                name: joined_name(&choices, "-or-"),
                parts: choices,
                ..plain(String::new(), ArgumentKind::OneOf)
            },
        };
        if self.peek() == Some("...") {
            self.at += 1;
            argument.multiple = true;
        }
        argument
    }

    /// A token, a token with its value, or a value.
    fn word(&mut self) -> Argument {
        let word = self.words[self.at].to_owned();
        self.at += 1;
        if !is_token(&word) {
            let kind = ArgumentKind::of_value(&word);
            return plain(word, kind);
        }
        let takes_value = self.peek().is_some_and(|next| {
            next == "<" || next.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_token(next)
        });
        if takes_value {
            let value = self.argument();
            return Argument { token: Some(word), ..value };
        }
        let name = match word.as_str() {
            "*" => "any".to_owned(),
            "=" => "equal".to_owned(),
            "~" => "approximately".to_owned(),
            word => word.to_ascii_lowercase(),
        };
        Argument { token: Some(word), ..plain(name, ArgumentKind::PureToken) }
    }
}

fn plain(name: String, kind: ArgumentKind) -> Argument {
    Argument {
        name,
        kind,
        token: None,
        optional: false,
        multiple: false,
        token_each_time: false,
        parts: Vec::new(),
    }
}

fn is_token(word: &str) -> bool {
    // "ID" is the name that values of streams have.
    word != "ID" && is_upper_case(word)
}

fn is_upper_case(word: &str) -> bool {
    matches!(word, "*" | "=" | "~" | "$") || !word.contains(|c: char| c.is_ascii_lowercase()) && word != "..."
}

/// Several arguments as one: a block, behind the word that stands before the first of them.
fn together(mut arguments: Vec<Argument>) -> Argument {
    if arguments.len() == 1 {
        return arguments.remove(0);
    }
    let leads =
        arguments.first().is_some_and(|first| first.kind != ArgumentKind::PureToken && !first.optional);
    let only = arguments.iter().skip(1).all(|argument| argument.token.is_none());
    let token = if leads && only { arguments[0].token.take() } else { None };
    Argument { token, parts: arguments.clone(), ..plain(joined_name(&arguments, "-"), ArgumentKind::Block) }
}

fn joined_name(arguments: &[Argument], separator: &str) -> String {
    arguments.iter().map(|argument| argument.name.as_str()).collect::<Vec<_>>().join(separator)
}

/// Marks arguments as what may stand there several times.
fn fold_repeated(arguments: &mut Vec<Argument>, begins: &mut Vec<usize>, repetition: Repetition) {
    let first = arguments.len() - repetition.arguments;
    let begin = begins[first];
    let mut repeated = together(arguments.split_off(first));
    begins.truncate(first);
    repeated.multiple = true;
    repeated.token_each_time = repetition.with_token && repeated.kind != ArgumentKind::PureToken;
    arguments.push(repeated);
    begins.push(begin);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(syntax: &str) -> String {
        fn show(argument: &Argument) -> String {
            let parts: Vec<String> = argument.parts.iter().map(show).collect();
            let token = argument.token.as_deref().map_or_else(String::new, |token| format!("={token}"));
            format!(
                "{}:{}{token}{}{}{}{}",
                argument.name,
                argument.kind.name(),
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
            ("key [key ...]", "key:key+"),
            ("key value [key value ...]", "key-value:block+(key:key value:string)"),
            ("[NX | XX]", "nx-or-xx:oneof?(nx:pure-token=NX xx:pure-token=XX)"),
            (
                "key [EX seconds | KEEPTTL]",
                "key:key seconds-or-keepttl:oneof?(seconds:integer=EX keepttl:pure-token=KEEPTTL)",
            ),
            ("[GET pattern [GET pattern ...]]", "pattern:pattern=GET?+t"),
            ("[WEIGHTS weight [weight ...]]", "weight:double=WEIGHTS?+"),
            ("key FIELDS numfields field [field ...]", "key:key numfields:integer=FIELDS field:string+"),
            (
                "[GET offset | SET offset value ...]",
                "offset-or-offset-value:oneof?+(offset:integer=GET offset-value:block=SET(offset:integer value:string))",
            ),
            (
                "[OVERFLOW <WRAP | FAIL>] value",
                "wrap-or-fail:oneof=OVERFLOW?(wrap:pure-token=WRAP fail:pure-token=FAIL) value:string",
            ),
            ("[LIMIT offset count]", "offset-count:block=LIMIT?(offset:integer count:integer)"),
            ("STREAMS key [key ...] ID [ID ...]", "key:key=STREAMS+ ID:string+"),
            ("count <slow | large>", "count:integer slow-or-large:oneof(slow:string large:string)"),
            ("[command [command ...]]", "command:string?+"),
            (
                "<MAXLEN | MINID> [= | ~] threshold",
                "maxlen-or-minid:oneof(maxlen:pure-token=MAXLEN minid:pure-token=MINID) equal-or-approximately:oneof?(equal:pure-token== approximately:pure-token=~) threshold:string",
            ),
        ];
        for (syntax, expected) in cases {
            assert_eq!(shape(syntax), expected, "{syntax}");
        }
    }
}
