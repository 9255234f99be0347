//! The arguments of `memtier_benchmark`, as far as definitions use them, and what they mean.

use std::time::Duration;

use wire::request::split_args;

const KEY: &str = "__key__";
const DATA: &str = "__data__";
const REQUESTS_DEFAULT: u64 = 10_000;

/// How the numbers of keys follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    Random,
    Gaussian,
    Zipf,
    /// One after the other, each connection through the whole range.
    Sequential,
    /// One after the other, each connection through a share of the range.
    Parallel,
}

impl Pattern {
    fn of(text: &str) -> Result<Self, String> {
        Ok(match text {
            "R" => Self::Random,
            "G" => Self::Gaussian,
            "Z" => Self::Zipf,
            "S" => Self::Sequential,
            "P" => Self::Parallel,
            _ => return Err(format!("no key pattern: {text}")),
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    Fixed(Vec<u8>),
    /// A key between two texts.
    Key(Vec<u8>, Vec<u8>),
    Data,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCommand {
    pub arguments: Vec<Argument>,
    /// How often it is sent before the next command's turn.
    pub ratio: u64,
    pub pattern: Pattern,
}

impl PlannedCommand {
    fn parse(line: &str) -> Result<Self, String> {
        let words = split_args(line.as_bytes()).map_err(|_| format!("quotes do not match in {line}"))?;
        let argument = |word: Vec<u8>| {
            let text = String::from_utf8_lossy(&word);
            if text == DATA {
                return Ok(Argument::Data);
            }
            if text.contains(DATA) {
                return Err(format!("{DATA} beside other text in {text}"));
            }
            Ok(match text.split_once(KEY) {
                Some((before, behind)) => {
                    Argument::Key(before.as_bytes().to_vec(), behind.as_bytes().to_vec())
                }
                None => Argument::Fixed(word),
            })
        };
        let arguments: Vec<Argument> = words.into_iter().map(argument).collect::<Result<_, _>>()?;
        match arguments.first() {
            Some(Argument::Fixed(_)) => Ok(Self { arguments, ratio: 1, pattern: Pattern::Random }),
            _ => Err(format!("no command: {line}")),
        }
    }
}

/// Requests of each connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Requests {
    Count(u64),
    /// As many as there are keys.
    AllKeys,
}

/// What some connections send.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub connections: usize,
    pub threads: usize,
    /// Of each connection; none: until the time is over.
    pub requests: Option<Requests>,
    pub duration: Option<Duration>,
    pub pipeline: u64,
    pub commands: Vec<PlannedCommand>,
    pub key_prefix: Vec<u8>,
    pub key_min: u64,
    pub key_max: u64,
    /// None: a sixth of the range, around its middle.
    pub key_deviation: Option<f64>,
    pub key_median: Option<f64>,
    pub zipf_exponent: f64,
    pub data_len_min: usize,
    pub data_len_max: usize,
    /// Lengths grow with the key instead of being random.
    pub data_len_grows: bool,
    pub has_random_data: bool,
    /// Requests a second of each connection.
    pub rate: Option<f64>,
    pub reconnect_after: Option<u64>,
    pub follows_cursor: bool,
    pub database: u32,
    pub seed: u64,
    /// Whether connections draw different random numbers.
    pub has_seeds: bool,
}

/// Options with what they mean, while they are read.
struct Parser {
    plan: Plan,
    clients: usize,
    ratio: (u64, u64),
    key_pattern: (Pattern, Pattern),
}

impl Plan {
    /// Reads words of a command line; what of them is not understood is an error.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut parser = Parser::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
                _ => (word.as_str(), None),
            };
            if !parser.flag(name) {
                let value = value.or_else(|| words.next().cloned());
                let value = value.ok_or_else(|| format!("{name} has no value"))?;
                parser.option(name, &value).map_err(|error| match error {
                    Refusal::Name => format!("{name} is not understood"),
                    Refusal::Value => format!("{name} {value} is not understood"),
                    Refusal::Because(text) => text,
                })?;
            } else if value.is_some() {
                return Err(format!("{name} takes no value"));
            }
        }
        parser.finish()
    }

    /// The first word of each command.
    pub fn command_names(&self) -> impl Iterator<Item = Vec<u8>> {
        self.commands.iter().filter_map(|command| match command.arguments.first() {
            Some(Argument::Fixed(name)) => Some(name.clone()),
            _ => None,
        })
    }

    /// The keys of one connection.
    pub fn key_range(&self, connection: usize) -> (u64, u64) {
        if self.commands[0].pattern != Pattern::Parallel {
            return (self.key_min, self.key_max);
        }
        let share = (self.key_max - self.key_min) / self.connections as u64 + 1;
        let first = self.key_min + share * connection as u64;
        let is_last = connection + 1 == self.connections;
        let last = if is_last { self.key_max } else { first + share - 1 };
        (first.min(self.key_max), last.min(self.key_max))
    }

    /// How many requests one connection sends, unless a time ends them.
    pub fn requests_of(&self, connection: usize) -> Option<u64> {
        match self.requests {
            Some(Requests::Count(count)) => Some(count),
            Some(Requests::AllKeys) => {
                let (first, last) = self.key_range(connection);
                Some((last - first + 1).min((self.key_max - self.key_min).max(1)))
            }
            None => self.duration.is_none().then_some(REQUESTS_DEFAULT),
        }
    }
}

enum Refusal {
    Name,
    Value,
    Because(String),
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, Refusal> {
    text.parse().map_err(|_| Refusal::Value)
}

/// Two numbers with something between them.
fn pair<N: std::str::FromStr>(text: &str, between: char) -> Result<(N, N), Refusal> {
    let (one, other) = text.split_once(between).ok_or(Refusal::Value)?;
    Ok((number(one)?, number(other)?))
}

impl Parser {
    fn new() -> Self {
        let plan = Plan {
            connections: 0,
            threads: 4,
            requests: None,
            duration: None,
            pipeline: 1,
            commands: Vec::new(),
            key_prefix: b"memtier-".to_vec(),
            key_min: 0,
            key_max: 10_000_000,
            key_deviation: None,
            key_median: None,
            zipf_exponent: 1.0,
            data_len_min: 32,
            data_len_max: 32,
            data_len_grows: false,
            has_random_data: false,
            rate: None,
            reconnect_after: None,
            follows_cursor: false,
            database: 0,
            seed: 0,
            has_seeds: false,
        };
        Self { plan, clients: 50, ratio: (1, 10), key_pattern: (Pattern::Random, Pattern::Random) }
    }

    /// Takes an option that has no value; false if it is none.
    fn flag(&mut self, name: &str) -> bool {
        match name {
            "--random-data" | "-R" => self.plan.has_random_data = true,
            "--distinct-client-seed" => self.plan.has_seeds = true,
            "--randomize" => {
                use std::hash::{BuildHasher, RandomState};
                self.plan.seed = RandomState::new().hash_one(0);
            }
            "--scan-incremental-iteration" => self.plan.follows_cursor = true,
            // What they concern is not written here.
            "--hide-histogram" => {}
            _ => return false,
        }
        true
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        let plan = &mut self.plan;
        match name {
            "-c" | "--clients" => self.clients = number(value)?,
            "-t" | "--threads" => plan.threads = number(value)?,
            "-n" | "--requests" if value == "allkeys" => plan.requests = Some(Requests::AllKeys),
            "-n" | "--requests" => plan.requests = Some(Requests::Count(number(value)?)),
            "--test-time" => plan.duration = Some(Duration::from_secs(number(value)?)),
            "--pipeline" => plan.pipeline = number(value)?,
            "--ratio" => self.ratio = pair(value, ':')?,
            "--key-pattern" => {
                let (store, load) = value.split_once(':').ok_or(Refusal::Value)?;
                let pattern = |text| Pattern::of(text).map_err(Refusal::Because);
                self.key_pattern = (pattern(store)?, pattern(load)?);
            }
            "--key-prefix" => plan.key_prefix = value.as_bytes().to_vec(),
            "--key-minimum" => plan.key_min = number(value)?,
            "--key-maximum" => plan.key_max = number(value)?,
            "--key-stddev" => plan.key_deviation = Some(number(value)?),
            "--key-median" => plan.key_median = Some(number(value)?),
            "--key-zipf-exp" => plan.zipf_exponent = number(value)?,
            "-d" | "--data-size" => {
                plan.data_len_min = number(value)?;
                plan.data_len_max = plan.data_len_min;
            }
            "--data-size-range" => {
                (plan.data_len_min, plan.data_len_max) = pair(value, '-')?;
                if plan.data_len_min > plan.data_len_max {
                    return Err(Refusal::Value);
                }
            }
            "--data-size-pattern" => match value {
                "R" => plan.data_len_grows = false,
                "S" => plan.data_len_grows = true,
                _ => return Err(Refusal::Value),
            },
            "--rate-limiting" => plan.rate = Some(number(value)?),
            "--reconnect-interval" => plan.reconnect_after = Some(number(value)?),
            "--select-db" => plan.database = number(value)?,
            "--command" => plan.commands.push(PlannedCommand::parse(value).map_err(Refusal::Because)?),
            "--command-ratio" => last(plan)?.ratio = number(value)?,
            "--command-key-pattern" => last(plan)?.pattern = Pattern::of(value).map_err(Refusal::Because)?,
            "-x" | "--run-count" if value == "1" => {}
            // All percentiles are known; connections are made before measuring begins.
            "--print-percentiles" | "--thread-conn-start-max-jitter-micros" => {}
            _ if !name.starts_with('-') => {
                return Err(Refusal::Because(format!("a word that is no option: {name}")));
            }
            _ => return Err(Refusal::Name),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Plan, String> {
        let plan = &mut self.plan;
        if plan.commands.is_empty() {
            let command = |line: &str, ratio: u64, pattern: Pattern| {
                PlannedCommand::parse(line).map(|command| PlannedCommand { ratio, pattern, ..command })
            };
            plan.commands = vec![
                command("SET __key__ __data__", self.ratio.0, self.key_pattern.0)?,
                command("GET __key__", self.ratio.1, self.key_pattern.1)?,
            ];
        }
        plan.commands.retain(|command| command.ratio > 0);
        plan.connections = self.clients.saturating_mul(plan.threads);
        let is_none =
            [plan.connections == 0, plan.commands.is_empty(), plan.pipeline == 0, plan.data_len_max == 0];
        if is_none.contains(&true) {
            return Err("it sends nothing".to_string());
        }
        if plan.key_min > plan.key_max {
            return Err(format!("no keys from {} to {}", plan.key_min, plan.key_max));
        }
        if plan.follows_cursor {
            let name = plan.command_names().next().unwrap_or_default();
            if plan.commands.len() != 1 || plan.pipeline != 1 || !name.eq_ignore_ascii_case(b"SCAN") {
                return Err("--scan-incremental-iteration is for one SCAN at a time".to_string());
            }
        }
        Ok(self.plan)
    }
}

fn last(plan: &mut Plan) -> Result<&mut PlannedCommand, Refusal> {
    plan.commands
        .last_mut()
        .ok_or(Refusal::Because("it says something of a command before there is one".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Plan, String> {
        Plan::parse(&shlex::split(line).unwrap())
    }

    #[test]
    fn commands_with_keys_and_data() {
        let plan = parse(
            "--command 'HSET user:__key__:x \"a \\x00b\" __data__' --command-ratio=3 --command-key-pattern=Z \
             --command \"DEL __key__\" -c 2 -t 3 --test-time 5 --data-size-range=4-8",
        )
        .unwrap();
        assert_eq!((plan.connections, plan.threads, plan.requests_of(0)), (6, 3, None));
        assert_eq!((plan.data_len_min, plan.data_len_max), (4, 8));
        let arguments = [
            Argument::Fixed(b"HSET".to_vec()),
            Argument::Key(b"user:".to_vec(), b":x".to_vec()),
            Argument::Fixed(b"a \x00b".to_vec()),
            Argument::Data,
        ];
        assert_eq!(plan.commands[0].arguments, arguments);
        assert_eq!((plan.commands[0].ratio, plan.commands[0].pattern), (3, Pattern::Zipf));
        assert_eq!((plan.commands[1].ratio, plan.commands[1].pattern), (1, Pattern::Random));
        assert_eq!(plan.command_names().collect::<Vec<_>>(), [b"HSET".to_vec(), b"DEL".to_vec()]);
    }

    #[test]
    fn connections_share_the_keys() {
        let plan = parse(
            "--ratio 1:0 --key-pattern P:P --key-minimum 1 --key-maximum 1000000 -n allkeys -c 50 -t 2",
        );
        let plan = plan.unwrap();
        assert_eq!(plan.commands.len(), 1);
        let shares: Vec<(u64, u64)> = (0..100).map(|connection| plan.key_range(connection)).collect();
        assert!(shares.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        assert_eq!((shares[0].0, shares[99].1), (1, 1_000_000));
        assert_eq!((0..100).filter_map(|connection| plan.requests_of(connection)).sum::<u64>(), 1_000_000);

        let line = "--command 'RPUSH __key__ a' --command-key-pattern=P --key-minimum=1 --key-maximum=101 -n allkeys";
        let plan = parse(&format!("{line} -c 1 -t 1")).unwrap();
        assert_eq!(plan.requests_of(0), Some(100));
        assert_eq!(parse("-c 1").unwrap().requests_of(0), Some(10_000));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, why) in [
            ("--fly 3", "--fly is not understood"),
            ("-c many", "-c many is not understood"),
            ("-n", "-n has no value"),
            ("__key__ b", "a word that is no option: __key__"),
            ("--command 'SET a x__data__'", "__data__ beside other text"),
            ("--command-ratio 3", "before there is one"),
            ("--key-pattern X:X", "no key pattern: X"),
            ("--command '__key__'", "no command"),
            ("--ratio 0:0", "sends nothing"),
            ("--key-minimum 5 --key-maximum 4", "no keys from 5 to 4"),
            ("--command 'GET a' --scan-incremental-iteration", "one SCAN at a time"),
            ("--hide-histogram=3", "takes no value"),
            ("--data-size-range 8-4", "is not understood"),
        ] {
            let refusal = parse(line).err().unwrap_or_default();
            assert!(refusal.contains(why), "{line}: {refusal}");
        }
    }
}
