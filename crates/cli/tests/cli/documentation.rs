//! What is known about commands, with a server and without.

use serde_json::{Map, Value, json};

use crate::process::{Server, client, finish};

/// The parts of an argument's description that hints are made of.
fn argument(about: &Value) -> Value {
    let mut out = Map::new();
    for field in ["name", "display_text", "type", "token", "since"] {
        let is_name = field == "display_text" && about.get(field) == about.get("name");
        if let (Some(value), false) = (about.get(field), is_name) {
            out.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(flags) = about.get("flags").and_then(Value::as_array) {
        let mut flags: Vec<&str> = flags.iter().filter_map(Value::as_str).collect();
        flags.sort_unstable();
        out.insert("flags".to_owned(), json!(flags));
    }
    if let Some(parts) = about.get("arguments").and_then(Value::as_array) {
        out.insert("arguments".to_owned(), parts.iter().map(argument).collect());
    }
    Value::Object(out)
}

fn command(about: &Value) -> Value {
    let mut out = Map::new();
    for field in ["summary", "since", "group"] {
        if let Some(value) = about.get(field) {
            out.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(arguments) = about.get("arguments").and_then(Value::as_array) {
        out.insert("arguments".to_owned(), arguments.iter().map(argument).collect());
    }
    if let Some(subcommands) = about.get("subcommands").and_then(Value::as_object) {
        let subcommands = subcommands.iter().map(|(name, about)| (name.clone(), command(about)));
        out.insert("subcommands".to_owned(), Value::Object(subcommands.collect()));
    }
    Value::Object(out)
}

/// The commands that the client was built with are those of this server. `WARMLINE_WRITE_COMMANDS=1` makes them so.
pub fn built_in_commands_are_current() {
    let server = Server::start(&[]);
    let docs: Value = serde_json::from_str(&server.ask(&["--json", "command", "docs"])).unwrap();
    let lines: Vec<String> = docs
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, about)| format!("{}: {}", json!(name), command(about)))
        .collect();
    let current = format!("{{\n{}\n}}\n", lines.join(",\n"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/commands.json");
    if std::env::var_os("WARMLINE_WRITE_COMMANDS").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    let differing = written.lines().zip(current.lines()).find(|(written, current)| written != current);
    assert_eq!(differing, None, "WARMLINE_WRITE_COMMANDS=1 writes them anew");
    assert_eq!(written.len(), current.len());
}

pub fn hints_need_no_server() {
    let server = Server::start(&[]);
    let file = server.path("hints.txt");
    let cases = "# Lines and their hints.\n\"GET \" \"key\"\n\"GET abc \" \"\"\n\"zrandmember k 3 \" \"[WITHSCORES]\"\n";
    std::fs::write(&file, cases).unwrap();
    for output in [
        server.run(&["--test_hint_file", &file]),
        finish(client().args(["-p", "1", "--test_hint_file", &file]), b""),
    ] {
        assert_eq!((output.stdout.as_str(), output.code), ("SUCCESS: 3/3 passed\n", 0), "{output:?}");
    }
    // A user who may not ask is served from the built-in table.
    server.ask(&["acl", "setuser", "asker", "on", "nopass", "+@all", "-command|docs"]);
    let user = ["--user", "asker", "-a", "x", "--no-auth-warning", "--test_hint_file", &file];
    assert_eq!(server.run(&user).code, 0);
    std::fs::write(&file, "\"GET \" \"value\"\n").unwrap();
    let wrong = server.run(&["--test_hint_file", &file, "--verbose"]);
    assert_eq!(wrong.stdout, "Input: 'GET ', Expected: 'value', Hint: 'key'\nFAILURE: 0/1 passed\n");
    assert_eq!(wrong.stderr, "Test case 'GET ' FAILED: expected 'value', got 'key'\n");
    assert_eq!(wrong.code, 1);
}
