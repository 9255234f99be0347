//! How fast requests are read: `cargo bench -p warmline-wire`. Prints nanoseconds per command and GB/s, best of
//! several rounds.

use std::hint::black_box;
use std::time::Instant;

use wire::request::{Limits, Parser, Progress};

const ROUNDS: usize = 30;
const BUFFER_LEN: usize = 16 * 1024;

fn command(args: &[String]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len());
    args.iter().for_each(|arg| out += &format!("${}\r\n{arg}\r\n", arg.len()));
    out.into_bytes()
}

/// A read buffer's worth of commands.
fn stream(make: impl Fn(usize) -> Vec<String>) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0.. {
        let next = command(&make(i));
        if out.len() + next.len() > BUFFER_LEN && i > 0 {
            break;
        }
        out.extend_from_slice(&next);
    }
    out
}

fn measure(name: &str, stream: &[u8], batch: usize) {
    let mut buffer = stream.to_vec();
    let (limits, mut args, mut best, mut commands) = (Limits::default(), Vec::new(), f64::MAX, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        commands = 0;
        for _ in 0..100 {
            let (mut parser, mut position) = (Parser::new(), 0);
            while parser.parse(&mut buffer, &mut position, &limits, &mut args) == Ok(Progress::Complete) {
                commands += 1;
                if commands % batch == 0 {
                    black_box(&args);
                    args.clear();
                }
            }
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    let nanoseconds = best * 1e9 / commands as f64;
    let gigabytes = stream.len() as f64 * 100.0 / best / 1e9;
    println!("{name:<28} {nanoseconds:8.1} ns/command {gigabytes:8.2} GB/s");
}

fn main() {
    let words = |text: String| text.split(' ').map(str::to_string).collect::<Vec<_>>();
    measure("PING", &stream(|_| words("PING".into())), 16);
    measure("GET key:16", &stream(|i| words(format!("GET key:{i:012}"))), 16);
    measure("SET key:16 value:10", &stream(|i| words(format!("SET key:{i:012} {i:010}"))), 16);
    measure("ZADD k score member", &stream(|i| words(format!("ZADD key:{i:012} {i}.5 member:{i:09}"))), 16);
    let keys = |i| (0..100).map(|j| format!(" key:{:012}", i * 100 + j)).collect::<String>();
    measure("MGET of 100", &stream(|i| words(format!("MGET{}", keys(i)))), 4);
    measure("SET with 4 KiB", &stream(|i| words(format!("SET key:{i:012} {}", "x".repeat(4096)))), 16);
    measure(
        "inline GET",
        &(0..500).flat_map(|i| format!("GET key:{i:012}\r\n").into_bytes()).collect::<Vec<_>>(),
        16,
    );
}
