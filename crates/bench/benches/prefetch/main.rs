//! Makes the tables and plots of `docs/prefetch.md`: what a command costs the server's processor by the size of its
//! prefetch batches, by how many keys there are and how deep the pipelines are.
//!
//! ```text
//!   cargo bench -p warmline-bench --bench prefetch
//! ```
//! One server is loaded once for each number of keys; then all batch sizes take turns, several rounds of them, and the
//! median counts: what else the machine does then falls on all of them alike. The cost is the processor time that the
//! server says it has used, over the commands it has run.
//!
//! Environment: `WARMLINE_BENCH_QUICK=1` for a tenth of the commands and keys, to see that all runs.

#[path = "../../../structures/benches/summary/plot.rs"]
mod plot;

use plot::{Panel, Scale, Series};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PORT: u16 = 26_391;
/// Ready at the same time; a batch takes requests from all of them.
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
/// Off first: the yardstick.
const BATCH_SIZES: [usize; 6] = [0, 4, 16, 32, 64, 128];
const KEY_COUNTS: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 5_000_000];
const PIPELINES: [usize; 4] = [1, 10, 16, 100];
const COMMANDS_PER_ROUND: usize = 800_000;
const VALUE: &str = "0123456789";
/// `$10\r\n0123456789\r\n`
const REPLY_BYTES: usize = 17;

struct Server {
    process: Child,
}

impl Server {
    fn start(binary: &Path) -> Server {
        let process = Command::new(binary)
            .args(["--port", &PORT.to_string(), "--save", "", "--loglevel", "warning"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        Server { process }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn connect() -> TcpStream {
    for _ in 0..100 {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", PORT)) {
            stream.set_nodelay(true).expect("a TCP socket");
            return stream;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no server answers on port {PORT}");
}

fn push_command(request: &mut Vec<u8>, words: &[&str]) {
    _ = write!(request, "*{}\r\n", words.len());
    for word in words {
        _ = write!(request, "${}\r\n{word}\r\n", word.len());
    }
}

/// Sends one command and returns what comes back at once.
fn ask(stream: &mut TcpStream, words: &[&str]) -> String {
    let mut request = Vec::new();
    push_command(&mut request, words);
    stream.write_all(&request).expect("the server reads");
    let mut reply = vec![0; 1 << 16];
    let len = stream.read(&mut reply).expect("the server answers");
    String::from_utf8_lossy(&reply[..len]).into_owned()
}

fn load(stream: &mut TcpStream, keys: usize) {
    ask(stream, &["FLUSHALL"]);
    let mut replies = vec![0; 5 * 1000];
    for first in (0..keys).step_by(1000) {
        let mut request = Vec::new();
        for key in first..first + 1000 {
            push_command(&mut request, &["SET", &format!("key:{key:012}"), VALUE]);
        }
        stream.write_all(&request).expect("the server reads");
        stream.read_exact(&mut replies).expect("the server answers each");
    }
}

/// Processor time that the server has used, in microseconds.
fn used_cpu_us(stream: &mut TcpStream) -> f64 {
    let info = ask(stream, &["INFO", "cpu"]);
    let field = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("INFO tells the time used");
        line.trim().parse().expect("a number of seconds")
    };
    (field("used_cpu_user:") + field("used_cpu_sys:")) * 1e6
}

struct Random(u64);

impl Random {
    /// Marsaglia, "Xorshift RNGs", 2003.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Microseconds of processor time a GET takes in the server.
fn measure(
    streams: &mut [TcpStream],
    keys: usize,
    pipeline: usize,
    commands: usize,
    random: &mut Random,
) -> f64 {
    let before = used_cpu_us(&mut streams[0]);
    let mut request = Vec::new();
    let mut replies = vec![0; REPLY_BYTES * pipeline];
    let turns = commands / (pipeline * streams.len());
    for _ in 0..turns {
        for stream in &mut *streams {
            request.clear();
            for _ in 0..pipeline {
                push_command(&mut request, &["GET", &format!("key:{:012}", random.below(keys))]);
            }
            stream.write_all(&request).expect("the server reads");
        }
        for stream in &mut *streams {
            stream.read_exact(&mut replies).expect("the server answers each");
        }
    }
    (used_cpu_us(&mut streams[0]) - before) / (turns * pipeline * streams.len()) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds a command by batch size.
type Costs = [f64; BATCH_SIZES.len()];

fn measure_batch_sizes(streams: &mut [TcpStream], keys: usize, pipeline: usize, commands: usize) -> Costs {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut rounds: [Vec<f64>; BATCH_SIZES.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (batch_size, round) in BATCH_SIZES.iter().zip(&mut rounds) {
            ask(&mut streams[0], &["CONFIG", "SET", "prefetch-batch-max-size", &batch_size.to_string()]);
            round.push(measure(streams, keys, pipeline, commands, &mut random));
        }
    }
    rounds.map(median)
}

fn count(keys: usize) -> String {
    match keys {
        1_000_000.. => format!("{} M", keys / 1_000_000),
        _ => format!("{} K", keys / 1_000),
    }
}

fn table(measured: &[(usize, usize, Costs)]) -> String {
    let mut text = String::from("| keys | pipeline | off, µs |");
    for batch_size in &BATCH_SIZES[1..] {
        _ = write!(text, " {batch_size} |");
    }
    text.push_str("\n|---|---|---|");
    text.push_str(&"---|".repeat(BATCH_SIZES.len() - 1));
    for (keys, pipeline, costs) in measured {
        _ = write!(text, "\n| {} | {pipeline} | {:.2} |", count(*keys), costs[0]);
        for cost in &costs[1..] {
            _ = write!(text, " {:.2} |", cost / costs[0]);
        }
    }
    text
}

fn picture(measured: &[(usize, usize, Costs)], key_counts: &[usize]) -> String {
    let names =
        BATCH_SIZES.map(|size| if size == 0 { "off".to_string() } else { format!("batches of {size}") });
    let panel = |pipeline: usize| Panel {
        title: format!("µs of processor time a GET, pipeline {pipeline}"),
        scale: Scale::Linear,
        series: (0..BATCH_SIZES.len())
            .filter(|&column| BATCH_SIZES[column] != 128 && BATCH_SIZES[column] != 32)
            .map(|column| Series {
                name: &names[column],
                points: key_counts
                    .iter()
                    .filter_map(|keys| measured.iter().find(|row| row.0 == *keys && row.1 == pipeline))
                    .map(|row| (row.0 as f64, row.2[column]))
                    .collect(),
            })
            .collect(),
    };
    plot::grid("What prefetching saves, by the number of keys", &PIPELINES.map(panel))
}

/// Replaces what stands between the page's marks.
fn write_page(path: &Path, table: &str) {
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (begin, end) = ("<!-- begin table -->\n", "\n<!-- end table -->");
    let from = page.find(begin).expect("the page has its marks") + begin.len();
    let to = page.find(end).expect("the page has its marks");
    std::fs::write(path, format!("{}{table}{}", &page[..from], &page[to..]))
        .expect("the page can be written");
}

fn build_server() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "-p", "warmline-server"])
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the server builds");
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("release").join("warmline-server")
}

fn main() {
    let quick = std::env::var("WARMLINE_BENCH_QUICK").is_ok_and(|value| value != "0");
    let tenth = if quick { 10 } else { 1 };
    let key_counts = KEY_COUNTS.map(|keys| (keys / tenth).max(1_000));
    let _server = Server::start(&build_server());
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect()).collect();
    let mut measured = Vec::new();
    for keys in key_counts {
        load(&mut streams[0], keys);
        for pipeline in PIPELINES {
            let commands = COMMANDS_PER_ROUND / tenth / if pipeline == 1 { 4 } else { 1 };
            let costs = measure_batch_sizes(&mut streams, keys, pipeline, commands);
            println!("{} keys, pipeline {pipeline}: {costs:.3?}", count(keys));
            measured.push((keys, pipeline, costs));
        }
    }
    if quick {
        return println!("{}", table(&measured));
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::write(docs.join("prefetch/get.svg"), picture(&measured, &key_counts))
        .expect("docs can be written");
    write_page(&docs.join("prefetch.md"), &table(&measured));
}
