//! Conversion of commands and replies from and to JSON.
//!
//! | reply | JSON |
//! |---|---|
//! | string | `"text"`; `{"base64": "..."}` if it is not UTF-8; `{"simple": "OK"}` for a status |
//! | number | `1`; `{"integer": "..."}` beyond 2^53; `{"double": "1.5"}`; `{"bignumber": "..."}` |
//! | null, boolean | `null`, `true` |
//! | list, set, push | `[...]`, `{"set": [...]}`, `{"push": [...]}` |
//! | map | `{"map": [[key, value], ...]}`, in the order in which the server sent it |
//! | text with its format | `{"verbatim": "txt", "text": ...}` |
//! | error | `{"error": "ERR ..."}` |
//! | value with attributes | `{"attributes": [[key, value], ...], "value": ...}` |
//!
//! A command is a list of strings, or of `{"base64": "..."}` for arguments that are not UTF-8.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use wire::response::Value;

/// Largest integer that JSON parsers represent exactly.
const WHOLE_MAX: u64 = 1 << 53;
/// Maximum number of commands per request.
pub const COMMANDS_MAX: usize = 256;

/// The arguments of a command.
pub type Words = Vec<Vec<u8>>;

/// Parses the commands of a request: a list of lists of arguments.
///
/// # Errors
/// The body has another form, or too many commands.
pub fn commands(body: &[u8]) -> Result<Vec<Words>, String> {
    let read: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| format!("The body is not JSON: {error}"))?;
    let serde_json::Value::Array(commands) = read else {
        return Err("The body must be a list of commands".to_owned());
    };
    if commands.len() > COMMANDS_MAX {
        return Err(format!("More than {COMMANDS_MAX} commands"));
    }
    commands.into_iter().map(words).collect()
}

fn words(command: serde_json::Value) -> Result<Words, String> {
    match command {
        serde_json::Value::Array(words) if !words.is_empty() => words.into_iter().map(word).collect(),
        _ => Err("A command must be a list of at least one argument".to_owned()),
    }
}

fn word(word: serde_json::Value) -> Result<Vec<u8>, String> {
    match word {
        serde_json::Value::String(text) => Ok(text.into_bytes()),
        serde_json::Value::Object(fields) if fields.len() == 1 => {
            let encoded = fields.get("base64").and_then(|encoded| encoded.as_str());
            encoded
                .and_then(|encoded| STANDARD.decode(encoded).ok())
                .ok_or_else(|| "An argument that is not UTF-8 must be {\"base64\": \"...\"}".to_owned())
        }
        _ => Err("An argument must be a string or {\"base64\": \"...\"}".to_owned()),
    }
}

/// Appends a string in quotes.
pub fn quote(out: &mut String, text: &str) {
    // Every string has a representation in JSON.
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// The reply to a request's commands.
pub fn replies(replies: &[Value]) -> String {
    let mut out = String::from("{\"replies\":");
    list(&mut out, replies, reply);
    out.push('}');
    out
}

/// Appends a reply. The depth was limited when it was parsed.
pub fn reply(out: &mut String, value: &Value) {
    match value {
        Value::Bulk(bytes) => text(out, bytes),
        Value::Simple(bytes) => tagged(out, "simple", |out| text(out, bytes)),
        Value::Error(bytes) => tagged(out, "error", |out| quote(out, &String::from_utf8_lossy(bytes))),
        Value::Integer(number) if number.unsigned_abs() <= WHOLE_MAX => out.push_str(&number.to_string()),
        Value::Integer(number) => tagged(out, "integer", |out| quote(out, &number.to_string())),
        Value::Double(bytes) => tagged(out, "double", |out| text(out, bytes)),
        Value::BigNumber(bytes) => tagged(out, "bignumber", |out| text(out, bytes)),
        Value::Verbatim(format, bytes) => {
            out.push_str("{\"verbatim\":");
            text(out, format);
            out.push_str(",\"text\":");
            text(out, bytes);
            out.push('}');
        }
        Value::Null | Value::NullArray => out.push_str("null"),
        Value::Boolean(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Array(items) => list(out, items, reply),
        Value::Set(items) => tagged(out, "set", |out| list(out, items, reply)),
        Value::Push(items) => tagged(out, "push", |out| list(out, items, reply)),
        Value::Map(pairs) => tagged(out, "map", |out| list(out, pairs, pair)),
        Value::Attributed(attributes, value) => {
            out.push_str("{\"attributes\":");
            list(out, attributes, pair);
            out.push_str(",\"value\":");
            reply(out, value);
            out.push('}');
        }
    }
}

fn text(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => quote(out, text),
        Err(_) => tagged(out, "base64", |out| quote(out, &STANDARD.encode(bytes))),
    }
}

fn tagged(out: &mut String, tag: &str, write: impl FnOnce(&mut String)) {
    out.push_str("{\"");
    out.push_str(tag);
    out.push_str("\":");
    write(out);
    out.push('}');
}

fn pair(out: &mut String, (key, value): &(Value, Value)) {
    out.push('[');
    reply(out, key);
    out.push(',');
    reply(out, value);
    out.push(']');
}

/// Appends items between brackets.
pub fn list<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(resp: &[u8]) -> String {
        let value = wire::response::Reader::new().read(resp, &mut 0).unwrap().unwrap();
        let mut out = String::new();
        reply(&mut out, &value);
        // The output can be parsed.
        let _: serde_json::Value = serde_json::from_str(&out).unwrap();
        out
    }

    #[test]
    fn replies_of_all_kinds() {
        for (resp, json) in [
            (&b"+OK\r\n"[..], r#"{"simple":"OK"}"#),
            (b"-ERR \"x\"\r\n", r#"{"error":"ERR \"x\""}"#),
            (b":-5\r\n", "-5"),
            (b":9223372036854775807\r\n", r#"{"integer":"9223372036854775807"}"#),
            (b"$5\r\na\"\n</\r\n", "\"a\\\"\\n</\""),
            (b"$2\r\n\xff\x00\r\n", r#"{"base64":"/wA="}"#),
            (b"$1\r\n\x00\r\n", "\"\\u0000\""),
            (b"$-1\r\n", "null"),
            (b"_\r\n", "null"),
            (b"#t\r\n", "true"),
            (b",inf\r\n", r#"{"double":"inf"}"#),
            (b"(12345678901234567890123\r\n", r#"{"bignumber":"12345678901234567890123"}"#),
            (b"=6\r\ntxt:hi\r\n", r#"{"verbatim":"txt","text":"hi"}"#),
            (b"*2\r\n*0\r\n:1\r\n", "[[],1]"),
            (b"~1\r\n:1\r\n", r#"{"set":[1]}"#),
            (b"%1\r\n$1\r\na\r\n:1\r\n", r#"{"map":[["a",1]]}"#),
            (b"|1\r\n+a\r\n:1\r\n:2\r\n", r#"{"attributes":[[{"simple":"a"},1]],"value":2}"#),
        ] {
            assert_eq!(shown(resp), json);
        }
    }

    #[test]
    fn commands_are_lists_of_words() {
        let read = commands(br#"[["GET", {"base64": "/wA="}], ["PING"]]"#).unwrap();
        assert_eq!(read, [vec![b"GET".to_vec(), vec![0xff, 0]], vec![b"PING".to_vec()]]);
        assert_eq!(commands(b"[]").unwrap(), Vec::<Words>::new());
        for bad in [
            "",
            "{}",
            "1",
            "[1]",
            "[[]]",
            "[[1]]",
            "[[\"a\", null]]",
            "[[{}]]",
            "[[{\"base64\": 1}]]",
            "[[{\"base64\": \"?\"}]]",
            "[[{\"base64\": \"\", \"x\": 1}]]",
            "[\"PING\"]",
            "[[\"a\"]] x",
            "[[\"\\ud800\"]]",
        ] {
            assert!(commands(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(commands("[".repeat(100_000).as_bytes()).is_err());
        let many = format!("[{}]", vec!["[\"PING\"]"; COMMANDS_MAX + 1].join(","));
        assert!(commands(many.as_bytes()).is_err());
    }
}
