//! Runs the tests of `valkey-benchmark`, or a command, against one server.

use std::io::{self, IsTerminal, Read};

use client::{Address, print_bytes};
use wire::response::Value;

use crate::cluster::{self, Node, ReadFrom, Tags};
use crate::connection::{Conversation, LoadError, Setup};
use crate::load::{self, Requests, Test};
use crate::options::Options;
use crate::run::{self, Measured, Progress};
use crate::summary::{CSV_HEADING, Circumstances};
use crate::template::{self, Claims, Numbers, Random, Repeated, Route, Sequence, Template};
use crate::workloads::{self, Ingredients, Workload};

const REQUESTS_DEFAULT: u64 = 100_000;

pub fn run(options: &Options) -> Result<(), String> {
    let setup = options.setup()?;
    if options.shows_errors {
        eprint_line!(
            "WARNING: -e option has no effect. An error always ends the test, to avoid false results."
        );
    }
    if options.idle {
        let clients = options.clients;
        print_line!("Creating {clients} idle connections and waiting forever (Ctrl+C when done)");
        return load::idle(&setup, clients as usize).map_err(|error| error.to_string());
    }
    let workloads = workloads(options)?;
    let place = Place::find(options, setup)?;
    let server = match &place.nodes {
        Some(_) => None,
        None => server_configuration(&place.setups[0])?,
    };
    if options.csv {
        print_line!("{CSV_HEADING}");
    }
    let seed = options.seed.unwrap_or_else(|| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    });
    loop {
        for workload in &workloads {
            let measured = measure(options, &place, workload, seed).map_err(|error| error.to_string())?;
            if let Some(text) = &measured.first_error {
                return Err(format!("Error from server: {text}"));
            }
            show(options, workload, &measured, &place, server.as_ref());
        }
        if !options.csv && options.command.is_empty() {
            print_line!("");
        }
        if !options.endless {
            return Ok(());
        }
    }
}

/// The target of requests: a server, or the nodes of a cluster.
struct Place {
    setups: Vec<Setup>,
    nodes: Option<(Vec<Node>, Tags)>,
}

impl Place {
    fn find(options: &Options, setup: Setup) -> Result<Self, String> {
        if !options.cluster {
            return Ok(Self { setups: vec![setup], nodes: None });
        }
        let nodes = cluster::nodes(&setup, options.rfr)?;
        print_line!("Cluster has {} {} nodes:\n", nodes.len(), options.rfr.roles());
        for (number, Node { host, port, id, is_replica, .. }) in nodes.iter().enumerate() {
            let role = if *is_replica { "Replica" } else { "Primary" };
            print_line!("Node {number}({role}): {id} {host}:{port}");
        }
        print_line!("");
        let mut commands = setup.commands.clone();
        if options.rfr != ReadFrom::No {
            commands.push(vec!["READONLY".to_string()]);
        }
        let to = |node: &Node| {
            let address = Address::Tcp(node.host.clone(), node.port);
            Setup { address, commands: commands.clone(), ..setup.clone() }
        };
        Ok(Self { setups: nodes.iter().map(to).collect(), nodes: Some((nodes, Tags::new())) })
    }

    /// By default one thread per node.
    fn threads(&self, options: &Options) -> Option<u32> {
        let each = self.nodes.as_ref().map(|(nodes, _)| nodes.len() as u32);
        options.threads.filter(|threads| *threads > 0).or(each)
    }

    fn route(&self, connection: usize, seed: u64) -> Option<Route<'_>> {
        let (nodes, tags) = self.nodes.as_ref()?;
        let slots = &nodes[connection % nodes.len()].slots;
        Some(Route { tags, slots, random: Random::new(slots.len() as u64, seed) })
    }
}

fn workloads(options: &Options) -> Result<Vec<Workload>, String> {
    let data = template::data(options.data_len);
    if !options.command.is_empty() {
        if !options.tests.is_empty() {
            eprint_line!("WARNING: Option -t is ignored.");
        }
        return Ok(vec![of_command(options, &data)?]);
    }
    let ingredients = Ingredients {
        data,
        is_random: options.random_below.is_some(),
        is_cluster: options.cluster,
        functions: options.num_functions,
        function_keys: options.num_keys_in_fcall,
    };
    workloads::selected(&options.tests, &ingredients)
}

/// Returns the command of the command line.
fn of_command(options: &Options, data: &[u8]) -> Result<Workload, String> {
    let with_data = |word: &String| {
        let mut pieces = word.split("__data__");
        let first = pieces.next().unwrap_or_default().as_bytes().to_vec();
        pieces.fold(first, |out, piece| [out.as_slice(), data, piece.as_bytes()].concat())
    };
    let mut words: Vec<Vec<u8>> = options.command.iter().map(with_data).collect();
    if options.last_from_stdin {
        let mut last = Vec::new();
        io::stdin().read_to_end(&mut last).map_err(|error| format!("cannot read standard input: {error}"))?;
        words.push(last);
    }
    let template = Template::sequence(&words)?;
    Ok(Workload { title: options.command.join(" "), template, preparation: None })
}

/// Returns `save` and `appendonly` of the server, if CONFIG GET is permitted.
fn server_configuration(setup: &Setup) -> Result<Option<(String, String)>, String> {
    let ask = |name: &str| -> Result<Option<String>, LoadError> {
        match Conversation::new(setup)?.ask(&["CONFIG", "GET", name]) {
            Ok(answer) => {
                let entries = answer.entries();
                let value = entries.first().and_then(|(_, value)| value.as_bytes());
                Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
            }
            // A user without permission for CONFIG can run tests; a user without any permission cannot.
            Err(LoadError::Answer(text)) if !text.starts_with("NOAUTH") => Ok(None),
            Err(error) => Err(error),
        }
    };
    let save = ask("save").map_err(|error| error.to_string())?;
    let appendonly = ask("appendonly").map_err(|error| error.to_string())?;
    let found = save.zip(appendonly);
    if found.is_none() {
        eprint_line!("WARNING: Could not fetch server CONFIG");
    }
    Ok(found)
}

fn measure(options: &Options, place: &Place, workload: &Workload, seed: u64) -> Result<Measured, LoadError> {
    for setup in &place.setups {
        if let Some(command) = &workload.preparation {
            let _answer: Value = Conversation::new(setup)?.ask(command)?;
        }
    }
    let sequences = match options.duration {
        Some(_) => u64::MAX,
        None => options.requests.unwrap_or(REQUESTS_DEFAULT).div_ceil(workload.template.commands),
    };
    let (claims, sequential, pipeline) = (Claims::new(sequences), Sequence::default(), options.pipeline);
    let numbers = |seed: u64| match options.random_below {
        None => Numbers::None,
        Some(below) if options.sequential => Numbers::Sequential { below, next: &sequential },
        Some(below) => Numbers::Random(Random::new(below, seed)),
    };
    let requests = |connection: usize| -> Box<dyn Requests + '_> {
        let seed = seed.wrapping_add((connection as u64).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let repeated = Repeated::new(&workload.template, &claims, u64::from(pipeline), numbers(seed));
        Box::new(repeated.routed(place.route(connection, !seed)))
    };
    let test = Test {
        setups: &place.setups,
        requests: &requests,
        connections: options.clients as usize,
        threads: place.threads(options).unwrap_or(1).min(options.clients) as usize,
        reconnect_after: (options.keep_alive == 0).then_some(1),
        rate: (options.rps > 0).then_some(options.rps as f64),
        warmup: options.warmup,
        duration: options.duration,
        stops_at_errors: true,
        precision: options.precision,
    };
    let by_time = options.duration.is_some();
    let measured = run::run(&test, |progress| show_progress(options, &workload.title, progress, by_time));
    // The next output, also an error, begins on a new line after the progress.
    if shows_progress(options) {
        print_bytes(b"\r\x1b[2K");
    }
    measured
}

fn show(
    options: &Options,
    workload: &Workload,
    measured: &Measured,
    place: &Place,
    server: Option<&(String, String)>,
) {
    let title = &workload.title;
    if options.csv {
        return print_line!("{}", measured.csv(title));
    }
    if options.quiet {
        return print_line!("{}", measured.quiet(title));
    }
    let is_command = !options.command.is_empty();
    let circumstances = Circumstances {
        clients: options.clients as usize,
        data_len: if is_command { workload.template.bytes.len() } else { options.data_len },
        keep_alive: options.keep_alive != 0,
        threads: place.threads(options).map(|threads| threads as usize),
        server,
        cluster: place.nodes.as_ref().map(|(nodes, _)| (nodes.len(), options.rfr.roles())),
        rate: (options.rps > 0).then_some(options.rps as f64),
    };
    print_line!("{}\n", measured.long(title, &circumstances));
}

fn shows_progress(options: &Options) -> bool {
    !options.csv && io::stdout().is_terminal()
}

/// A line that is overwritten until the test ends.
fn show_progress(options: &Options, title: &str, progress: &Progress, by_time: bool) {
    if shows_progress(options) {
        print_bytes(format!("\r\x1b[2K{}", progress.line(title, by_time)).as_bytes());
    }
}
