//! What HTTP reads: heads of requests, commands in their bodies, and replies that become JSON. None makes it panic, no
//! foreign page is let in, and what is written can be read.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use web::request::{self, Asks, Refusal};
use web::{Request, json};
use wire::response::{Reader, Value};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    method: u8,
    path: u8,
    query: &'a str,
    headers: Vec<(u8, &'a [u8])>,
    body: &'a [u8],
    words: Vec<Vec<&'a [u8]>>,
    replies: &'a [u8],
}

const METHODS: &[&str] = &["GET", "POST", "HEAD", "OPTIONS", "PUT"];
const PATHS: &[&str] = &[
    "/",
    "/metrics",
    "/health",
    "/ready",
    "/api/commands",
    "/api/history",
    "/api/options",
    "/console/main.js",
    "/console/../x",
    "",
];
/// The last ones begin as most values do, so that the fuzzer need not find that out.
const HEADERS: &[(&str, &[u8])] = &[
    ("host", b""),
    ("authorization", b""),
    ("origin", b""),
    ("content-type", b""),
    ("accept", b""),
    ("host", b"localhost"),
    ("host", b"[::1]:"),
    ("authorization", b"Basic "),
    ("authorization", b"Bearer "),
    ("origin", b"http://"),
    ("content-type", b"application/json"),
];

fn request(input: &Input<'_>) -> Option<Request<()>> {
    let chosen = |list: &[&'static str], number: u8| list[usize::from(number) % list.len()];
    let uri = format!("{}{}", chosen(PATHS, input.path), input.query);
    let mut request = Request::builder().method(chosen(METHODS, input.method)).uri(uri);
    for (number, value) in &input.headers {
        let (name, start) = HEADERS[usize::from(*number) % HEADERS.len()];
        request = request.header(name, [start, value].concat());
    }
    request.body(()).ok()
}

/// An address or `localhost` with a port perhaps; there is no other name here.
fn is_here(host: &str) -> bool {
    let port_at = host.rfind(':').filter(|at| host[at + 1..].bytes().all(|byte| byte.is_ascii_digit()));
    let is_name = |name: &str| {
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        bare.parse::<std::net::IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || bare.eq_ignore_ascii_case("localhost")
    };
    is_name(host) || port_at.is_some_and(|at| is_name(&host[..at]))
}

fn read_head(request: &Request<()>) {
    let text =
        |name: &str| request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let host = text("host").unwrap_or_default();
    let asks = match request::read(request, &[]) {
        Err(Refusal::Host) => return,
        asks => asks,
    };
    assert!(is_here(&host), "{host}");
    if matches!(asks, Err(Refusal::Origin)) {
        return;
    }
    assert!(
        text("origin").is_none_or(|origin| origin.split_once("://").is_some_and(|(_, site)| site == host))
    );
    match asks {
        Ok(Asks::Commands { credentials }) => {
            assert_eq!(request.method(), "POST");
            assert!(
                text("content-type")
                    .is_some_and(|named| named.to_ascii_lowercase().contains("application/json"))
            );
            assert_eq!(credentials.is_some(), text("authorization").is_some());
        }
        Ok(Asks::History { credentials, .. } | Asks::Metrics { credentials, .. }) => {
            assert_eq!(credentials.is_some(), text("authorization").is_some());
        }
        _ => {}
    }
}

/// Commands as JSON mean the same commands again.
fn write_commands(commands: &[Vec<Vec<u8>>]) {
    let list = |words: &Vec<Vec<u8>>| Value::Array(words.iter().cloned().map(Value::Bulk).collect());
    let text = json::replies(&commands.iter().map(list).collect::<Vec<_>>());
    let body = text.strip_prefix("{\"replies\":").and_then(|rest| rest.strip_suffix('}')).expect("its frame");
    assert_eq!(json::commands(body.as_bytes()).as_deref(), Ok(commands));
}

fuzz_target!(|input: Input<'_>| {
    if let Some(request) = request(&input) {
        read_head(&request);
    }
    if let Ok(commands) = json::commands(input.body) {
        write_commands(&commands);
    }
    let words = input.words.iter().filter(|words| !words.is_empty());
    let words = words.map(|words| words.iter().map(|word| word.to_vec()).collect());
    write_commands(&words.take(json::COMMANDS_MAX).collect::<Vec<_>>());
    let (mut reader, mut position, mut replies) = (Reader::new(), 0, Vec::new());
    while let Ok(Some(reply)) = reader.read(input.replies, &mut position) {
        replies.push(reply);
    }
    let text = json::replies(&replies);
    let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(read["replies"].as_array().map(Vec::len), Some(replies.len()));
});
