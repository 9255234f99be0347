//! `compare`: the same requests to several servers, alternating, and the ratios of the results.

use std::time::Duration;

use clap::Parser;

use crate::cases::{self, Case, Load};
use crate::connection::{LoadError, Setup};
use crate::load::{Requests, Test};
use crate::run::{self, Measured};
use crate::server::{Pinned, Server};
use crate::template::{self, Claims, Numbers, Random, Repeated, Template};

/// Compares servers: starts each command for each case, stores the same data in each, and alternates between them. A
/// ratio above 1 in requests per second, or below 1 in processor time or memory, means that the later server is
/// better.
#[derive(Parser, Debug)]
#[command(name = "warmline-benchmark compare", max_term_width = 100)]
pub struct CompareOptions {
    /// Commands that start servers, with {port} for the port; ratios are relative to the first
    #[arg(required_unless_present = "list", num_args = 2..)]
    pub servers: Vec<String>,
    /// Only cases whose name contains one of these words, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub cases: Vec<String>,
    /// List the cases
    #[arg(long)]
    pub list: bool,
    /// A custom case: a command in the syntax of warmline-benchmark
    #[arg(long)]
    pub command: Option<String>,
    /// Keys of 16 bytes stored before --command, with values of -d bytes
    #[arg(short = 'r', default_value_t = 1_000_000)]
    pub keyspace: u64,
    /// Length of a value, for --command
    #[arg(short = 'd', default_value_t = 10)]
    pub data_len: usize,
    /// Pipeline depth, for --command
    #[arg(short = 'P', default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub pipeline: u64,
    /// Requests per run, for --command
    #[arg(short = 'n', default_value_t = 300_000)]
    pub requests: u64,
    /// Runs per server, after a warm-up run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Factor for the number of requests of all cases
    #[arg(long, default_value = "1", value_parser = scale)]
    pub scale: f64,
    /// Connections
    #[arg(short = 'c', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Threads that generate the load
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: u32,
    /// Core of the servers; the load generator uses the next one
    #[arg(long)]
    pub core: Option<usize>,
    /// Port of the first server; the others use the following ports
    #[arg(long, default_value_t = 27_000)]
    pub port: u16,
    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,
}

/// Factors for requests and data.
pub fn scale(text: &str) -> Result<f64, String> {
    const SCALE_MAX: f64 = 1000.0;
    let scale = text.parse().ok().filter(|scale| *scale > 0.0 && *scale <= SCALE_MAX);
    scale.ok_or_else(|| format!("not a number above 0, up to {SCALE_MAX}"))
}

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub clients: usize,
    pub threads: usize,
}

/// Medians of a server's runs, and its memory at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub per_second: f64,
    pub processor_us: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub resident_bytes: f64,
}

impl Figures {
    /// Result of a run, and the server's processor time during it.
    pub fn of(measured: &Measured, used: Duration) -> Self {
        Self {
            per_second: measured.per_second(),
            processor_us: used.as_secs_f64() * 1e6 / measured.commands as f64,
            p50_ms: measured.percentile(50.0),
            p99_ms: measured.percentile(99.0),
            resident_bytes: 0.0,
        }
    }
}

pub fn run(options: &CompareOptions) -> Result<(), String> {
    let cases = match &options.command {
        Some(command) => vec![Case {
            name: command.clone(),
            load: Load::Strings { count: options.keyspace, len: options.data_len },
            command: command.clone(),
            pipeline: options.pipeline,
            requests: options.requests,
            keyspace: options.keyspace,
            data_len: options.data_len,
        }],
        None => cases::all(options.scale),
    };
    let is_wanted = |case: &&Case| {
        options.cases.is_empty() || options.cases.iter().any(|part| case.name.contains(part.as_str()))
    };
    let wanted: Vec<&Case> = cases.iter().filter(is_wanted).collect();
    if options.list {
        wanted.iter().for_each(|case| print_line!("{}", case.name));
        return Ok(());
    }
    if wanted.is_empty() {
        return Err("no case has such a name; see --list".to_string());
    }
    if options.servers.len() > usize::from(u16::MAX - options.port) {
        return Err("there are not enough ports".to_string());
    }
    let manner = Manner { clients: options.clients as usize, threads: options.threads as usize };
    print_line!("{}", heading(options.csv));
    let mut ratios: Vec<Vec<Ratios>> = options.servers.iter().map(|_| Vec::new()).collect();
    for case in wanted {
        let figures = measure(case, options, manner).map_err(|error| format!("{}: {error}", case.name))?;
        for (server, found) in figures.iter().enumerate() {
            print_line!("{}", line(options.csv, &case.name, server, found, &figures[0]));
            ratios[server].push(Ratios::of(found, &figures[0]));
        }
    }
    if !options.csv {
        for (server, ratios) in ratios.iter().enumerate().skip(1) {
            let mean = Ratios::mean(ratios);
            print_line!(
                "{} to A, geometric mean of {} cases: {:.2} requests/s, {:.2} processor time, {:.2} memory",
                letter(server),
                ratios.len(),
                mean.per_second,
                mean.processor,
                mean.memory
            );
        }
    }
    Ok(())
}

/// Runs a case on all servers, alternating.
fn measure(case: &Case, options: &CompareOptions, manner: Manner) -> Result<Vec<Figures>, String> {
    let mut servers = Vec::new();
    for (command, port) in options.servers.iter().zip(options.port..) {
        let server = Server::start(command, port, options.core)?;
        let stored = server.conversation().and_then(|mut conversation| case.load.store(&mut conversation));
        stored.map_err(|error| format!("{command}: {error}"))?;
        servers.push(server);
    }
    let _load_core = options.core.map(|core| Pinned::to(core + 1));
    let mut runs = vec![Vec::new(); servers.len()];
    for turn in 0..=options.runs {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let figures = measure_turn(server, case, manner, turn)?;
            if turn > 0 {
                runs.push(figures);
            }
        }
    }
    let figures = |(server, runs): (&Server, Vec<Figures>)| Figures {
        resident_bytes: server.resident_bytes() as f64,
        ..medians(&runs)
    };
    Ok(servers.iter().zip(runs).map(figures).collect())
}

/// Runs a case on a server, without measuring memory. The first run is short and can be discarded.
pub fn measure_turn(server: &Server, case: &Case, manner: Manner, turn: u32) -> Result<Figures, String> {
    let requests = if turn == 0 { case.requests.div_ceil(10) } else { case.requests };
    let before = server.processor_time();
    let measured = requests_to(&server.setup, case, Requested::Count(requests), manner, u64::from(turn))?;
    Ok(Figures::of(&measured, server.processor_time_since(before)))
}

/// Number of requests, or number and duration of runs.
#[derive(Clone, Copy, Debug)]
pub enum Requested {
    Count(u64),
    AtRate(f64, Duration),
}

/// Sends the requests of a case to a server.
pub fn requests_to(
    setup: &Setup,
    case: &Case,
    requested: Requested,
    manner: Manner,
    seed: u64,
) -> Result<Measured, String> {
    let words = shlex::split(&case.command).ok_or("the quotes of the command do not match")?;
    let data = String::from_utf8_lossy(&template::data(case.data_len)).into_owned();
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.replace("__data__", &data).into_bytes()).collect();
    let template = Template::sequence(&words)?;
    let claims = Claims::new(match requested {
        Requested::Count(requests) => requests.div_ceil(template.commands),
        Requested::AtRate(..) => u64::MAX,
    });
    let make = |connection: usize| -> Box<dyn Requests + '_> {
        let seed = (seed << 32) + connection as u64;
        let numbers = Numbers::Random(Random::new(case.keyspace, seed.wrapping_mul(0xd1b5_4a32_d192_ed03)));
        Box::new(Repeated::new(&template, &claims, case.pipeline, numbers))
    };
    let test = Test {
        setups: std::slice::from_ref(setup),
        requests: &make,
        connections: manner.clients,
        threads: manner.threads.clamp(1, manner.clients),
        reconnect_after: None,
        rate: if let Requested::AtRate(rate, _) = requested { Some(rate) } else { None },
        warmup: Duration::ZERO,
        duration: if let Requested::AtRate(_, duration) = requested { Some(duration) } else { None },
        stops_at_errors: true,
        precision: 3,
    };
    let measured = run::run(&test, |_| ()).map_err(|error: LoadError| error.to_string())?;
    match &measured.first_error {
        Some(text) => Err(format!("Error from server: {text}")),
        None => Ok(measured),
    }
}

pub fn medians(runs: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
    Figures {
        per_second: of(|run| run.per_second),
        processor_us: of(|run| run.processor_us),
        p50_ms: of(|run| run.p50_ms),
        p99_ms: of(|run| run.p99_ms),
        resident_bytes: of(|run| run.resident_bytes),
    }
}

/// Returns the median; of two figures, the greater.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

struct Ratios {
    per_second: f64,
    processor: f64,
    memory: f64,
}

impl Ratios {
    fn of(figures: &Figures, yardstick: &Figures) -> Self {
        Self {
            per_second: figures.per_second / yardstick.per_second,
            processor: figures.processor_us / yardstick.processor_us,
            memory: figures.resident_bytes / yardstick.resident_bytes,
        }
    }

    /// Geometric means.
    fn mean(ratios: &[Self]) -> Self {
        let mean = |ratio: fn(&Self) -> f64| {
            (ratios.iter().map(|each| ratio(each).ln()).sum::<f64>() / ratios.len() as f64).exp()
        };
        Self {
            per_second: mean(|each| each.per_second),
            processor: mean(|each| each.processor),
            memory: mean(|each| each.memory),
        }
    }
}

/// Ratios of the first server are empty.
fn letter(server: usize) -> char {
    char::from(b'A' + (server % 26) as u8)
}

fn heading(csv: bool) -> String {
    if csv {
        return "case,server,rps,cpu_us,p50_ms,p99_ms,rss_bytes,rps_ratio,cpu_ratio,rss_ratio".to_string();
    }
    format!(
        "{:<24} {:>2} {:>10} {:>7} | {:>9} {:>7} | {:>8} {:>8} | {:>9} {:>7}",
        "case", "", "requests/s", "ratio", "cpu us", "ratio", "p50 ms", "p99 ms", "memory", "ratio"
    )
}

fn line(csv: bool, case: &str, server: usize, figures: &Figures, yardstick: &Figures) -> String {
    let Figures { per_second, processor_us, p50_ms, p99_ms, resident_bytes } = figures;
    let ratios = Ratios::of(figures, yardstick);
    let letter = letter(server);
    if csv {
        return format!(
            "\"{case}\",{letter},{per_second:.0},{processor_us:.3},{p50_ms:.3},{p99_ms:.3},{resident_bytes:.0},{:.3},{:.3},{:.3}",
            ratios.per_second, ratios.processor, ratios.memory
        );
    }
    let case = if server == 0 { case } else { "" };
    let mebibytes = resident_bytes / f64::from(1 << 20);
    format!(
        "{case:<24} {letter:>2} {per_second:>10.0} {:>6.2}x | {processor_us:>9.3} {:>6.2}x | {p50_ms:>8.3} {p99_ms:>8.3} | \
         {mebibytes:>8.1}M {:>6.2}x",
        ratios.per_second, ratios.processor, ratios.memory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_first() {
        let one = Figures { per_second: 100.0, processor_us: 2.0, resident_bytes: 1e6, ..Figures::default() };
        let two = Figures { per_second: 200.0, processor_us: 1.0, resident_bytes: 5e5, ..Figures::default() };
        let ratios = [Ratios::of(&two, &one), Ratios::of(&one, &one)];
        let mean = Ratios::mean(&ratios);
        assert!((mean.per_second - 2f64.sqrt()).abs() < 1e-9 && (mean.memory - 0.5f64.sqrt()).abs() < 1e-9);
        let shown = line(false, "get", 1, &two, &one);
        assert!(shown.contains(" B ") && shown.contains("2.00x") && shown.contains("0.50x"), "{shown}");
        assert_eq!(line(true, "get", 1, &two, &one).split(',').count(), heading(true).split(',').count());
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
