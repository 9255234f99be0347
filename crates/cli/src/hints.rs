//! Hints: the arguments of a command that can still be typed.
//!
//! 1. Words are matched against arguments from the left; consecutive optional arguments match in any order.
//! 2. The last word is matched once a space follows it.
//! 3. If a word does not match, there is no hint.

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use wire::request::split_args;

use crate::documentation::{Argument, ArgumentKind, Documentation};

/// How far the words have matched an argument.
struct Matching<'a> {
    argument: &'a Argument,
    /// Number of words that matched.
    words: usize,
    has_token: bool,
    has_value: bool,
    is_whole: bool,
    parts: Vec<Matching<'a>>,
}

/// Returns whether a word starts with a number; the server checks the rest.
fn starts_with_number(word: &[u8], with_fraction: bool) -> bool {
    let unsigned = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(word);
    match unsigned {
        [b'0'..=b'9', ..] => true,
        [b'.', b'0'..=b'9', ..] => with_fraction,
        _ => {
            with_fraction
                && unsigned.get(..3).is_some_and(|start| {
                    start.eq_ignore_ascii_case(b"inf") || start.eq_ignore_ascii_case(b"nan")
                })
        }
    }
}

/// Returns a keyword or name; an empty one as it would be typed.
fn push_word(hint: &mut String, word: &str) {
    hint.push_str(if word.is_empty() { "\"\"" } else { word });
}

impl<'a> Matching<'a> {
    fn new(argument: &'a Argument) -> Self {
        let parts = argument.parts.iter().map(Matching::new).collect();
        Matching { argument, words: 0, has_token: false, has_value: false, is_whole: false, parts }
    }

    fn clear(&mut self) {
        *self = Matching::new(self.argument);
    }

    /// Matches as many repetitions as possible, and returns the number of words.
    fn take(&mut self, words: &[Vec<u8>]) -> usize {
        let mut taken = self.take_once(words);
        if !self.argument.is_multiple {
            return taken;
        }
        while self.is_whole && taken < words.len() {
            self.clear();
            let rest = &words[taken..];
            taken += if self.argument.token.is_some() && !self.argument.repeats_token {
                let more = self.take_value(rest);
                self.has_token = self.words > 0;
                more
            } else {
                self.take_once(rest)
            };
        }
        // More repetitions can follow.
        self.is_whole = false;
        taken
    }

    fn take_once(&mut self, mut words: &[Vec<u8>]) -> usize {
        if let Some(token) = &self.argument.token {
            if !words[0].eq_ignore_ascii_case(token.as_bytes()) {
                return 0;
            }
            (self.has_token, self.words) = (true, 1);
            if self.argument.kind == ArgumentKind::PureToken {
                self.is_whole = true;
                return 1;
            }
            if words.len() == 1 {
                return 1;
            }
            words = &words[1..];
        }
        self.take_value(words)
    }

    fn take_value(&mut self, words: &[Vec<u8>]) -> usize {
        let is_fitting = match self.argument.kind {
            ArgumentKind::Block => {
                self.words += take_all(&mut self.parts, words);
                self.is_whole = self.parts.iter().all(|part| part.is_whole);
                return self.words;
            }
            ArgumentKind::OneOf => {
                if let Some(part) =
                    self.parts.iter_mut().find_map(|part| (part.take(words) > 0).then_some(part))
                {
                    self.words += part.words;
                    self.is_whole = part.is_whole;
                }
                return self.words;
            }
            ArgumentKind::Integer => starts_with_number(&words[0], false),
            ArgumentKind::Double => starts_with_number(&words[0], true),
            ArgumentKind::Text | ArgumentKind::PureToken => true,
        };
        (self.has_value, self.is_whole) = (is_fitting, is_fitting);
        self.words = if is_fitting { self.words + 1 } else { 0 };
        self.words
    }

    fn hint(&mut self, hint: &mut String) {
        if self.is_whole {
            return;
        }
        // An argument that has begun is not optional.
        if self.argument.is_optional && self.words == 0 {
            hint.push('[');
        }
        if let (Some(token), false) = (&self.argument.token, self.has_token) {
            push_word(hint, token);
            if self.argument.kind != ArgumentKind::PureToken {
                hint.push(' ');
            }
        }
        match self.argument.kind {
            ArgumentKind::OneOf if self.words > 0 => {
                self.parts.iter_mut().filter(|part| part.words > 0).for_each(|part| part.hint(hint));
            }
            ArgumentKind::OneOf => hint_all(&mut self.parts, hint, "|"),
            ArgumentKind::Block => hint_all(&mut self.parts, hint, " "),
            ArgumentKind::PureToken => {}
            _ if self.has_value => {}
            _ => push_word(hint, &self.argument.display),
        }
        self.hint_repetition(hint);
        if self.argument.is_optional && self.words == 0 {
            hint.push(']');
        }
    }

    /// Appends the hint for a repetition of the argument.
    fn hint_repetition(&mut self, hint: &mut String) {
        if !self.argument.is_multiple {
            return;
        }
        self.clear();
        if !hint.is_empty() {
            hint.push(' ');
        }
        hint.push('[');
        if let (Some(token), true) = (&self.argument.token, self.argument.repeats_token) {
            push_word(hint, token);
            if self.argument.kind != ArgumentKind::PureToken {
                hint.push(' ');
            }
        }
        match self.argument.kind {
            ArgumentKind::OneOf => hint_all(&mut self.parts, hint, "|"),
            ArgumentKind::Block => hint_all(&mut self.parts, hint, " "),
            ArgumentKind::PureToken => {}
            _ => push_word(hint, &self.argument.display),
        }
        hint.push_str(" ...]");
    }
}

/// Returns the number of words that match these arguments in order; 0 if a required one does not match.
fn take_all(arguments: &mut [Matching<'_>], words: &[Vec<u8>]) -> usize {
    let (mut taken, mut index) = (0, 0);
    while taken < words.len() && index < arguments.len() {
        let rest = &words[taken..];
        let optional = optional_run(&arguments[index..]);
        if optional > 0 {
            taken += take_optional(&mut arguments[index..index + optional], rest);
            index += optional;
        } else {
            let more = arguments[index].take(rest);
            if more == 0 {
                return 0;
            }
            taken += more;
            index += 1;
        }
    }
    taken
}

/// Returns the number of optional arguments at the start.
fn optional_run(arguments: &[Matching<'_>]) -> usize {
    arguments.iter().take_while(|matching| matching.argument.is_optional).count()
}

fn take_optional(arguments: &mut [Matching<'_>], words: &[Vec<u8>]) -> usize {
    let (mut taken, mut last) = (0, None);
    while taken < words.len() {
        let rest = &words[taken..];
        let fitting = (0..arguments.len()).filter(|&index| arguments[index].words == 0).collect::<Vec<_>>();
        let found = fitting.into_iter().find_map(|index| match arguments[index].take(rest) {
            0 => None,
            more => Some((index, more)),
        });
        let Some((index, more)) = found else { break };
        // The next argument has begun, so the rest of the last one cannot follow.
        if let Some(last) = last.replace(index) {
            arguments[last].is_whole = true;
        }
        taken += more;
    }
    taken
}

fn hint_all(arguments: &mut [Matching<'_>], hint: &mut String, separator: &str) {
    let (count, mut index, mut len) = (arguments.len(), 0, hint.len());
    let mut add = |matching: &mut Matching<'_>, hint: &mut String, is_last: bool| {
        matching.hint(hint);
        if hint.len() > len && !is_last {
            hint.push_str(separator);
            len = hint.len();
        }
    };
    while index < count {
        let optional = optional_run(&arguments[index..]);
        if optional == 0 {
            add(&mut arguments[index], hint, index == count - 1);
            index += 1;
            continue;
        }
        let end = index + optional;
        let has_begun = |matching: &Matching<'_>| matching.words > 0 && !matching.is_whole;
        let begun = (index..end).rfind(|&at| has_begun(&arguments[at]));
        for matching in arguments[index..end].iter_mut().filter(|matching| has_begun(matching)) {
            add(matching, hint, index == count - 1);
        }
        // After the next required argument no optional one can follow.
        if end == count || arguments[end].words == 0 {
            for at in (index..end).filter(|&at| Some(at) != begun) {
                add(&mut arguments[at], hint, at == count - 1);
            }
        }
        index = end;
    }
}

/// Returns the syntax of all arguments.
pub fn full_syntax(arguments: &[Argument]) -> String {
    let (mut matchings, mut hint) = (arguments.iter().map(Matching::new).collect::<Vec<_>>(), String::new());
    hint_all(&mut matchings, &mut hint, " ");
    hint
}

impl Documentation {
    /// Returns the hint for a line; `None` if it does not begin with a command.
    pub fn hint(&self, line: &str) -> Option<String> {
        let mut words = split_args(line.as_bytes()).ok()?;
        if !line.ends_with(|last: char| last.is_ascii_whitespace()) {
            words.pop();
        }
        let (command, name_len) = self.find(&words)?;
        let mut matchings: Vec<Matching<'_>> = command.arguments.iter().map(Matching::new).collect();
        let mut hint = String::new();
        if take_all(&mut matchings, &words[name_len..]) == words.len() - name_len {
            hint_all(&mut matchings, &mut hint, " ");
        }
        Some(hint)
    }
}

/// The callbacks of the line editor.
pub struct LineHelper {
    pub documentation: Documentation,
    pub hints_on: bool,
}

impl Hinter for LineHelper {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        if !self.hints_on || position < line.len() || line.is_empty() {
            return None;
        }
        let ends_with_space = line.ends_with(|last: char| last.is_ascii_whitespace());
        let hint = self.documentation.hint(line)?;
        Some(if ends_with_space { hint } else { format!(" {hint}") })
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let is_help = typed.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("help "));
        let start = if is_help { typed.len() - typed[5..].trim_start().len() } else { 0 };
        Ok((start, self.documentation.completions(&typed[start..], is_help)))
    }
}

impl Highlighter for LineHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[90m{hint}\x1b[0m"))
    }
}

impl Validator for LineHelper {}
impl Helper for LineHelper {}

#[cfg(test)]
mod tests;
