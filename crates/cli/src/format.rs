//! Formats of replies: human-readable, raw, comma-separated values and JSON.

use anstyle::AnsiColor;
use client::printable;
use wire::request::quoted;
use wire::response::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Style {
    Terminal,
    Raw { element_delimiter: String, reply_delimiter: String },
    Csv,
    Json,
    QuotedJson,
}

impl Style {
    pub fn raw() -> Style {
        Style::Raw { element_delimiter: "\n".to_owned(), reply_delimiter: "\n".to_owned() }
    }
}

/// Returns whether the terminal supports colors and `NO_COLOR` is not set.
pub fn colors_are_welcome() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var("TERM").is_ok_and(|name| name != "dumb")
}

/// Colors of the parts of a formatted reply, or none.
struct Palette {
    error: anstyle::Style,
    /// Color of types and positions.
    label: anstyle::Style,
    text: anstyle::Style,
    number: anstyle::Style,
}

const PLAIN: Palette = Palette {
    error: anstyle::Style::new(),
    label: anstyle::Style::new(),
    text: anstyle::Style::new(),
    number: anstyle::Style::new(),
};

const COLORED: Palette = Palette {
    error: AnsiColor::Red.on_default(),
    label: AnsiColor::BrightBlack.on_default(),
    text: AnsiColor::Green.on_default(),
    number: AnsiColor::Cyan.on_default(),
};

/// Formats a reply with its line end. `verbatim` replies (INFO, CLIENT LIST and so on) are texts already.
pub fn reply(value: &Value, style: &Style, verbatim: bool, is_colored: bool) -> Vec<u8> {
    let mut out = Vec::new();
    match style {
        Style::Raw { element_delimiter, .. } if verbatim => raw(&mut out, value, element_delimiter),
        _ if verbatim => raw(&mut out, value, "\n"),
        Style::Terminal => terminal(&mut out, value, "", if is_colored { &COLORED } else { &PLAIN }),
        Style::Raw { element_delimiter, reply_delimiter } => {
            raw(&mut out, value, element_delimiter);
            out.extend_from_slice(reply_delimiter.as_bytes());
        }
        Style::Csv => {
            csv(&mut out, value);
            out.push(b'\n');
        }
        Style::Json | Style::QuotedJson => {
            json(&mut out, value, *style == Style::QuotedJson);
            out.push(b'\n');
        }
    }
    out
}

/// Returns a text in a color.
fn paint(out: &mut Vec<u8>, style: anstyle::Style, text: &[u8]) {
    out.extend_from_slice(style.render().to_string().as_bytes());
    out.extend_from_slice(text);
    out.extend_from_slice(style.render_reset().to_string().as_bytes());
}

/// Appends a reply, numbered, indented and with a line end. `prefix` precedes each further line.
fn terminal(out: &mut Vec<u8>, value: &Value, prefix: &str, palette: &Palette) {
    let mut line = |label: &str, style: anstyle::Style, text: &[u8]| {
        if !label.is_empty() {
            paint(out, palette.label, label.as_bytes());
        }
        paint(out, style, text);
        out.push(b'\n');
    };
    let Palette { error, label, text: quoted_text, number } = *palette;
    let plain = anstyle::Style::new();
    match value {
        // A human-readable text, which may contain colors.
        Value::Verbatim(_, text) => line("", plain, text),
        Value::Simple(text) => line("", plain, &harmless(text)),
        Value::Error(text) => line("", error, &[b"(error) ", harmless(text).as_slice()].concat()),
        Value::Integer(value) => line("(integer) ", number, value.to_string().as_bytes()),
        Value::Double(text) => line("(double) ", number, &harmless(text)),
        Value::BigNumber(text) => line("(big number) ", number, &harmless(text)),
        Value::Bulk(text) => line("", quoted_text, &quoted(text)),
        Value::Null | Value::NullArray => line("", label, b"(nil)"),
        Value::Boolean(value) => line("", number, if *value { b"(true)" } else { b"(false)" }),
        Value::Array(items) if items.is_empty() => line("", label, b"(empty array)"),
        Value::Set(items) if items.is_empty() => line("", label, b"(empty set)"),
        Value::Push(items) if items.is_empty() => line("", label, b"(empty push)"),
        Value::Map(pairs) if pairs.is_empty() => line("", label, b"(empty hash)"),
        Value::Array(items) | Value::Push(items) => terminal_list(out, items, ')', prefix, palette),
        Value::Set(items) => terminal_list(out, items, '~', prefix, palette),
        Value::Map(pairs) => terminal_map(out, pairs, prefix, palette),
        Value::Attributed(_, value) => terminal(out, value, prefix, palette),
    }
}

/// Returns a line of the server with its control characters escaped.
fn harmless(line: &[u8]) -> Vec<u8> {
    printable(&String::from_utf8_lossy(line)).into_bytes()
}

/// Returns the label of each element and the indentation of its contents.
fn labels<'a>(len: usize, separator: char, prefix: &'a str) -> (impl Fn(usize) -> String + 'a, String) {
    let width = len.to_string().len();
    let label = move |index: usize| {
        let before = if index == 0 { "" } else { prefix };
        format!("{before}{:>width$}{separator} ", index + 1)
    };
    (label, format!("{prefix}{}", " ".repeat(width + 2)))
}

fn terminal_list(out: &mut Vec<u8>, items: &[Value], separator: char, prefix: &str, palette: &Palette) {
    let (label, inner) = labels(items.len(), separator, prefix);
    for (index, item) in items.iter().enumerate() {
        paint(out, palette.label, label(index).as_bytes());
        terminal(out, item, &inner, palette);
    }
}

fn terminal_map(out: &mut Vec<u8>, pairs: &[(Value, Value)], prefix: &str, palette: &Palette) {
    let (label, inner) = labels(pairs.len(), '#', prefix);
    for (index, (key, value)) in pairs.iter().enumerate() {
        paint(out, palette.label, label(index).as_bytes());
        terminal(out, key, &inner, palette);
        out.pop();
        paint(out, palette.label, b" => ");
        if takes_lines(value) {
            out.push(b'\n');
            out.extend_from_slice(inner.as_bytes());
        }
        terminal(out, value, &inner, palette);
    }
}

fn takes_lines(value: &Value) -> bool {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => match items.as_slice() {
            [] => false,
            [only] => takes_lines(only),
            _ => true,
        },
        Value::Map(pairs) => match pairs.as_slice() {
            [] => false,
            [(_, only)] => takes_lines(only),
            _ => true,
        },
        Value::Attributed(_, value) => takes_lines(value),
        _ => false,
    }
}

/// Appends the bytes, elements separated by a delimiter.
fn raw(out: &mut Vec<u8>, value: &Value, delimiter: &str) {
    let delimit = |out: &mut Vec<u8>, index: usize| {
        if index > 0 {
            out.extend_from_slice(delimiter.as_bytes());
        }
    };
    match value {
        Value::Null | Value::NullArray => {}
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"(true)" } else { b"(false)" }),
        Value::Error(text) => {
            out.extend_from_slice(text);
            out.push(b'\n');
        }
        Value::Simple(text)
        | Value::Bulk(text)
        | Value::Verbatim(_, text)
        | Value::Double(text)
        | Value::BigNumber(text) => out.extend_from_slice(text),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            for (index, item) in items.iter().enumerate() {
                delimit(out, index);
                raw(out, item, delimiter);
            }
        }
        Value::Map(pairs) => {
            for (index, (key, value)) in pairs.iter().enumerate() {
                delimit(out, index);
                raw(out, key, delimiter);
                out.push(b' ');
                raw(out, value, delimiter);
            }
        }
        Value::Attributed(_, value) => raw(out, value, delimiter),
    }
}

fn csv(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Error(text) => {
            out.extend_from_slice(b"ERROR,");
            out.extend_from_slice(&quoted(text));
        }
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim(_, text) => {
            out.extend_from_slice(&quoted(text))
        }
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double(text) | Value::BigNumber(text) => out.extend_from_slice(text),
        Value::Null | Value::NullArray => out.extend_from_slice(b"NULL"),
        Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => joined(out, items.iter(), csv),
        Value::Map(pairs) => joined(out, pairs.iter().flat_map(|(key, value)| [key, value]), csv),
        Value::Attributed(_, value) => csv(out, value),
    }
}

fn joined<'a>(out: &mut Vec<u8>, items: impl Iterator<Item = &'a Value>, one: impl Fn(&mut Vec<u8>, &Value)) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        one(out, item);
    }
}

fn json(out: &mut Vec<u8>, value: &Value, ascii: bool) {
    match value {
        Value::Error(text) => {
            out.extend_from_slice(b"error:");
            json_string(out, text, ascii);
        }
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim(_, text) => json_string(out, text, ascii),
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double(text) | Value::BigNumber(text) => out.extend_from_slice(text),
        Value::Null | Value::NullArray => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            out.push(b'[');
            joined(out, items.iter(), |out, item| json(out, item, ascii));
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json_key(out, key, ascii);
                out.push(b':');
                json(out, value, ascii);
            }
            out.push(b'}');
        }
        Value::Attributed(_, value) => json(out, value, ascii),
    }
}

/// Keys must be strings: other values are quoted.
fn json_key(out: &mut Vec<u8>, key: &Value, ascii: bool) {
    if let Value::Simple(text) | Value::Bulk(text) | Value::Verbatim(_, text) = key {
        return json_string(out, text, ascii);
    }
    let mut text = Vec::new();
    json(&mut text, key, ascii);
    json_string(out, &text, ascii);
}

fn json_string(out: &mut Vec<u8>, bytes: &[u8], ascii: bool) {
    if ascii {
        // The client's own quotes, with backslashes doubled for JSON.
        let text = quoted(bytes);
        return out
            .extend(text.iter().flat_map(|&byte| if byte == b'\\' { vec![byte, byte] } else { vec![byte] }));
    }
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..32 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
