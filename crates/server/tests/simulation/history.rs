//! What has been done, in the order in which it was done, and what of it must be found again.

use crate::server_of;
use server::command::args::OwnedArgs;
use server::config::Config;
use server::engine::Executor;
use server::session::ClientHandle;

pub type Words = Vec<Vec<u8>>;

/// What is done as one: its last command sets the key `unit` to its number.
pub struct Unit {
    pub number: u64,
    pub commands: Vec<Words>,
    pub unix_us: i64,
}

/// A server that keeps nothing, and has been sent the history up to some place.
struct Model {
    executor: Box<Executor>,
    client: ClientHandle,
    sent: usize,
}

#[derive(Default)]
pub struct History {
    units: Vec<Unit>,
    /// So many must be found after a power cut, and after the process was killed.
    pub safe: usize,
    pub safe_from_kills: usize,
    model: Option<Model>,
}

pub fn ask(executor: &mut Executor, client: ClientHandle, words: &[&[u8]]) -> Vec<u8> {
    let args = OwnedArgs::new(words.iter().copied());
    let mut reply = executor.borrow_output(client);
    let start = reply.len();
    let request = executor.request(args.view());
    executor.execute_into(client, request, &mut reply);
    let answer = reply.copy_from(start);
    reply.truncate(start);
    executor.return_output(client, reply);
    answer
}

fn content(executor: &mut Executor, client: ClientHandle, key: &[u8]) -> Vec<u8> {
    let asked: [&[&[u8]]; 6] = [
        &[b"GET", key],
        &[b"LRANGE", key, b"0", b"-1"],
        &[b"SMEMBERS", key],
        &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        &[b"HGETALL", key],
        &[b"XRANGE", key, b"-", b"+"],
    ];
    let answers = asked.map(|words| ask(executor, client, words));
    answers.into_iter().find(|answer| !answer.starts_with(b"-")).unwrap_or_default()
}

impl History {
    pub fn len(&self) -> usize {
        self.units.len()
    }

    pub fn push(&mut self, unit: Unit) {
        self.units.push(unit);
    }

    /// The last unit was refused.
    pub fn take_back(&mut self) {
        self.units.pop();
    }

    /// Where the unit of this number stands: how many there are up to it. 0 is none.
    pub fn position_of(&self, number: u64) -> Option<usize> {
        if number == 0 {
            return Some(0);
        }
        self.units.iter().rposition(|unit| unit.number == number).map(|index| index + 1)
    }

    /// What is found is the history up to here, and what came behind it has never been.
    pub fn end_at(&mut self, position: usize) {
        self.units.truncate(position);
        self.safe = self.safe.min(position);
        self.safe_from_kills = self.safe_from_kills.min(position);
    }

    /// The keys that differ between the server and the model.
    pub fn differences(&mut self, executor: &mut Executor) -> String {
        let model = self.model.as_mut().expect("its digest was asked for");
        let mut text = String::new();
        for index in 0..4 {
            let index = index.to_string();
            let client = crate::connect(executor);
            for (executor, client) in [(&mut *executor, client), (&mut model.executor, model.client)] {
                ask(executor, client, &[b"SELECT", index.as_bytes()]);
                let keys = ask(executor, client, &[b"KEYS", b"*"]);
                for key in keys.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
                    if !key.starts_with(b"$") && !key.starts_with(b"*") && !key.is_empty() {
                        let digest = ask(executor, client, &[b"DEBUG", b"DIGEST-VALUE", key]);
                        let expiry = ask(executor, client, &[b"PEXPIRETIME", key]);
                        let value = content(executor, client, key);
                        let shown = [key, &digest, &expiry, &value].map(String::from_utf8_lossy).join(" ");
                        let line =
                            format!("\n{index} {}", shown.split_whitespace().collect::<Vec<_>>().join(" "));
                        text = match text.contains(&line) {
                            true => text.replace(&line, ""),
                            false => text + &line,
                        };
                    }
                }
                ask(executor, client, &[b"SELECT", b"0"]);
            }
            executor.disconnect(client);
        }
        text
    }

    /// The digest of all data after `units` units.
    pub fn digest_at(&mut self, config: &Config, position: usize) -> Vec<u8> {
        let mut model = match self.model.take().filter(|model| model.sent <= position) {
            Some(model) => model,
            None => {
                let plain = Config { appendonly: false, save: Vec::new(), ..config.clone() };
                let mut executor = Box::new(server_of(plain, 0));
                let client = crate::connect(&mut executor);
                Model { executor, client, sent: 0 }
            }
        };
        for unit in &self.units[model.sent..position] {
            model.executor.clock.set_unix_us(unit.unix_us);
            model.executor.begin_tick();
            for command in &unit.commands {
                let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                ask(&mut model.executor, model.client, &words);
            }
            model.executor.end_tick();
        }
        model.sent = position;
        let digest = ask(&mut model.executor, model.client, &[b"DEBUG", b"DIGEST"]);
        self.model = Some(model);
        digest
    }
}
