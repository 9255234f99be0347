//! The clients of the measurement, all in one thread: each sends a pipeline, waits for the answers, and sends the next.
//! What they send is parsed beforehand, so that this one thread can deliver what several I/O threads would. It reads what
//! it delivers, so that the executor finds it where I/O threads have it: in a cache of another core.

use server::net::query_buffer::{QueryBuffer, QueryBuffers};
use server::net::stand_in::StandIn;
use server::session::ClientHandle;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Requests of one kind.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    /// What a request looks like: `#` stands for a number below the number of keys, of twelve digits, and `~` for one of
    /// seven.
    words: &'static [&'static str],
    /// Requests in a query buffer.
    pub depth: usize,
    /// The numbers are not drawn, but go up from 0.
    pub is_load: bool,
    /// How many times less often it is sent than the cheapest.
    pub cost: usize,
    /// What the answer to each request is in bytes; 0 where that varies.
    reply_bytes: usize,
}

const MGET_10: &[&str] =
    &["MGET", "key:#", "key:#", "key:#", "key:#", "key:#", "key:#", "key:#", "key:#", "key:#", "key:#"];

impl Case {
    const fn new(name: &'static str, words: &'static [&'static str], depth: usize, cost: usize) -> Case {
        Case { name, words, depth, is_load: false, cost, reply_bytes: 0 }
    }

    const fn load(words: &'static [&'static str]) -> Case {
        Case { is_load: true, ..Case::new("", words, 100, 1) }
    }

    const fn answered_by(self, reply: &str) -> Case {
        Case { reply_bytes: reply.len(), ..self }
    }

    pub const FLUSH: Case = Case::new("", &["FLUSHALL", "SYNC"], 1, 1).answered_by("+OK\r\n");
    pub const LOAD_STRINGS: Case = Case::load(&["SET", "key:#", "0123456789"]).answered_by("+OK\r\n");
    pub const LOAD_SORTED_SET: Case = Case::load(&["ZADD", "z", "~", "member:#"]).answered_by(":1\r\n");
    pub const LOAD_HASH: Case = Case::load(&["HSET", "h", "field:#", "0123456789"]).answered_by(":1\r\n");
}

const KEY_DIGITS: usize = 12;
const SCORE_DIGITS: usize = 7;
const VALUE: &str = "$10\r\n0123456789\r\n";
const UPDATED: &str = ":0\r\n";

pub const CASES: &[Case] = &[
    Case::new("GET", &["GET", "key:#"], 16, 1).answered_by(VALUE),
    Case::new("SET", &["SET", "key:#", "0123456789"], 16, 1).answered_by("+OK\r\n"),
    Case::new("ZADD", &["ZADD", "z", "~", "member:#"], 16, 4).answered_by(UPDATED),
    Case::new("HSET", &["HSET", "h", "field:#", "0123456789"], 16, 2).answered_by(UPDATED),
    Case::new("MGET 10", MGET_10, 16, 8),
    Case::new("GET, pipeline 1", &["GET", "key:#"], 1, 4).answered_by(VALUE),
    Case::new("SET, pipeline 1", &["SET", "key:#", "0123456789"], 1, 4).answered_by("+OK\r\n"),
    Case::new("GET, pipeline 100", &["GET", "key:#"], 100, 1).answered_by(VALUE),
];

#[derive(Clone, Copy)]
pub struct Job {
    pub case: Case,
    pub keys: usize,
    /// The first number where they are not drawn.
    pub first: usize,
    pub requests: usize,
}

/// A request with places for numbers in it.
struct Template {
    bytes: Vec<u8>,
    /// Where each number stands, and how many digits it has.
    numbers: Vec<(usize, usize)>,
}

impl Template {
    fn of(words: &[&str]) -> Template {
        let mut template =
            Template { bytes: format!("*{}\r\n", words.len()).into_bytes(), numbers: Vec::new() };
        for word in words {
            let digits = match word.bytes().last() {
                Some(b'#') => KEY_DIGITS,
                Some(b'~') => SCORE_DIGITS,
                _ => 0,
            };
            let text = word.trim_end_matches(['#', '~']);
            let bytes = &mut template.bytes;
            bytes.extend(format!("${}\r\n{text}", text.len() + digits).as_bytes());
            if digits > 0 {
                template.numbers.push((bytes.len(), digits));
                bytes.resize(bytes.len() + digits, b'0');
            }
            bytes.extend(b"\r\n");
        }
        template
    }
}

pub struct Clients {
    stand_in: StandIn,
    /// What each client sends next, the last one first.
    prepared: Vec<QueryBuffers>,
    /// By a client's handle, its place in `prepared`.
    places: HashMap<u64, usize>,
    handles: Vec<ClientHandle>,
    /// Emptied ones, for what is sent later.
    spare: QueryBuffers,
    random: u64,
}

impl Clients {
    /// Waits until this number of clients is connected.
    pub fn new(mut stand_in: StandIn, count: usize) -> Clients {
        let mut handles = Vec::new();
        while handles.len() < count {
            handles.extend(stand_in.receive().map(|query_buffer| query_buffer.handle));
        }
        let places = handles.iter().enumerate().map(|(place, handle)| (handle.to_bits(), place)).collect();
        let prepared = handles.iter().map(|_| Vec::new()).collect();
        Clients { stand_in, prepared, places, handles, spare: Vec::new(), random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Lets all clients send until this number of requests is answered; returns the time it took.
    pub fn perform(&mut self, job: Job) -> Duration {
        self.prepare(&job);
        let started = Instant::now();
        let mut waiting = 0;
        for place in 0..self.prepared.len() {
            waiting += self.send(place) as usize;
        }
        while waiting > 0 {
            self.stand_in.announce();
            while let Some(mut query_buffer) = self.stand_in.receive() {
                let place = self.places[&query_buffer.handle.to_bits()];
                waiting -= 1;
                waiting += self.send(place) as usize;
                read_answers(&mut query_buffer, &job);
                self.spare.push(query_buffer);
            }
            std::hint::spin_loop();
        }
        started.elapsed()
    }

    /// Sends a client's next pipeline; whether there was one.
    fn send(&mut self, place: usize) -> bool {
        let Some(query_buffer) = self.prepared[place].pop() else { return false };
        query_buffer.offer_cold(|request| {
            black_box((request.args.at(0).first(), request.args.known_hash(1)));
            true
        });
        self.stand_in.deliver(query_buffer);
        true
    }

    fn prepare(&mut self, job: &Job) {
        let template = Template::of(job.case.words);
        let mut next = job.first;
        let end = job.first + job.requests;
        for pipeline in 0.. {
            let depth = job.case.depth.min(end - next);
            if depth == 0 {
                break;
            }
            let place = pipeline % self.handles.len();
            let handle = self.handles[place];
            let mut query_buffer = self.spare.pop().unwrap_or_else(|| Box::new(QueryBuffer::new(handle)));
            query_buffer.handle = handle;
            for number in next..next + depth {
                self.push_request(query_buffer.input_mut(), &template, job, number);
            }
            next += depth;
            self.stand_in.parse(&mut query_buffer);
            self.prepared[place].push(query_buffer);
        }
    }

    fn push_request(&mut self, input: &mut Vec<u8>, template: &Template, job: &Job, number: usize) {
        let start = input.len();
        input.extend_from_slice(&template.bytes);
        for &(at, digits) in &template.numbers {
            let is_drawn = !job.case.is_load || digits < KEY_DIGITS;
            let number = if is_drawn { self.below(job.keys) } else { number };
            write_digits(&mut input[start + at..start + at + digits], number);
        }
    }

    /// Marsaglia, "Xorshift RNGs", 2003.
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 32) * bound as u64 >> 32) as usize
    }
}

fn write_digits(place: &mut [u8], mut number: usize) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return;
        }
    }
}

/// Sees to it that all requests are answered as they should be, and leaves the buffer for the next answers.
fn read_answers(query_buffer: &mut QueryBuffer, job: &Job) {
    let output = std::mem::take(&mut query_buffer.handover.output);
    let bytes = output.as_slice().expect("no answer is so long that it is only referred to");
    let errors = bytes.first() == Some(&b'-');
    let whole =
        job.case.reply_bytes == 0 || bytes.len().is_multiple_of(job.case.reply_bytes) && !bytes.is_empty();
    assert!(!errors && whole, "{} was answered by {}", job.case.name, String::from_utf8_lossy(bytes));
    // Who writes them to a socket reads every line of them.
    let sum = bytes.iter().step_by(64).fold(0, |sum: u8, &byte| sum.wrapping_add(byte));
    black_box(sum);
    query_buffer.handover.output = output.into_spare().into();
}
