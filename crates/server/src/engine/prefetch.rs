//! Prefetch of the keys that a batch of requests will look up, together and before the first request runs.
//!
//! A window takes requests in the order in which they will run, from one connection after another, until it holds
//! `prefetch-batch-max-size` keys. A request of more keys than that gets a window of its own, with its first keys;
//! the rest are announced to the database when the command runs.
//!
//! A window is a prediction: if a request is refused, queued, or uses another database, the prefetch of its keys is
//! wasted.

use super::Executor;
use crate::command::{Args, Command, PrefetchHint, Request};
use crate::db::prefetch::{Lookup, PrefetchTarget};
use crate::session::ClientHandle;

/// Minimum number of lookups for which prefetching saves time.
const KEYS_MIN: usize = 2;

/// The keys of some requests, whose buckets are being prefetched.
pub struct Window<'a> {
    wanted: Vec<Lookup<'a>>,
    keys_max: usize,
}

/// The database in which a client's requests look up their keys.
#[derive(Clone, Copy)]
pub struct Place {
    db_index: usize,
    /// The buckets are cached; only the values are worth prefetching.
    is_in_cache: bool,
}

impl Executor {
    /// Returns where the client's next requests look up keys.
    #[inline]
    pub fn place_of_lookups(&self, handle: ClientHandle) -> Place {
        let db_index = self.server.clients[handle].db_index;
        Place { db_index, is_in_cache: self.db.is_in_cache(db_index) }
    }

    /// Opens an empty window, unless prefetching is disabled.
    #[inline]
    pub fn open_window<'a>(&self) -> Option<Window<'a>> {
        let keys_max = self.server.config.prefetch_batch_max_size as usize;
        (keys_max > 0).then(|| Window { wanted: Vec::new(), keys_max })
    }

    /// Records that the tick has waited since `began_us` on the monotonic clock.
    pub fn note_wait(&mut self, began_us: u64) {
        self.db.note_wait(self.server.now.monotonic_us.saturating_sub(began_us));
    }

    /// Prefetches what the window's requests will look up.
    pub fn fetch(&mut self, window: Window<'_>) {
        if self.is_tracing() {
            return self.fetch_traced(window);
        }
        self.fetch_window(window);
    }

    #[cold]
    fn fetch_traced(&mut self, window: Window<'_>) {
        let (began_ns, keys) = (self.clock.stopwatch_ns(), window.wanted.len());
        self.fetch_window(window);
        self.tracing.note_fetch(&self.clock, began_ns, if keys >= KEYS_MIN { keys } else { 0 });
    }

    #[inline]
    fn fetch_window(&mut self, window: Window<'_>) {
        if window.wanted.len() >= KEYS_MIN {
            self.db.prefetch(window.wanted);
            self.start_stopwatch();
        }
    }

    /// Announces the keys of a command that may have more of them than a window holds.
    #[cold]
    pub(super) fn announce_keys(&mut self, command: &Command, args: Args<'_>) {
        let keys_max = self.server.config.prefetch_batch_max_size as usize;
        let seed = self.db.key_seed();
        let args = args.with_seed(&seed);
        let beyond = command.key_positions(args).skip(keys_max).map(|at| args.key(at));
        self.db.announce(beyond, keys_max);
    }
}

impl<'a> Window<'a> {
    /// Adds the keys of a request; false if it has to wait for the next window.
    #[inline]
    pub fn add(&mut self, executor: &Executor, place: Place, request: Request<'a>) -> bool {
        let Request { id: Some(id), args } = request else { return true };
        let command = executor.server.registry.row(id);
        if self.wanted.len() >= self.keys_max {
            return false;
        }
        let target = match command.prefetch_hint {
            PrefetchHint::Element(at) => args.get(at).map_or(PrefetchTarget::Value, PrefetchTarget::Element),
            _ if place.is_in_cache => return true,
            PrefetchHint::Value => PrefetchTarget::Value,
            PrefetchHint::Ranks { reversed } => target_of_ranks(args, reversed),
            PrefetchHint::Bounds => target_of_bound(args.get(2)),
            PrefetchHint::Front => PrefetchTarget::Front,
            PrefetchHint::Back => PrefetchTarget::Back,
        };
        if !command.one_key {
            return self.add_all(executor, place, command, args, target);
        }
        if let Some(hash) = args.known_hash(command.first_key) {
            self.want(executor, place, hash, target);
        }
        true
    }

    #[inline(always)]
    fn want(&mut self, executor: &Executor, place: Place, hash: u64, target: PrefetchTarget<'a>) {
        if self.wanted.capacity() == 0 {
            self.wanted.reserve_exact(self.keys_max);
        }
        self.wanted.push(executor.db.begin_lookup(place.db_index, hash, target));
    }

    /// As [`Window::add`], for a command that may have several keys; the target it reads is in the first.
    #[inline(never)]
    fn add_all(
        &mut self,
        executor: &Executor,
        place: Place,
        command: &Command,
        args: Args<'a>,
        first_target: PrefetchTarget<'a>,
    ) -> bool {
        let before = self.wanted.len();
        let mut target = first_target;
        for hash in command.key_positions(args).filter_map(|at| args.known_hash(at)) {
            if self.wanted.len() >= self.keys_max {
                if before > 0 {
                    self.wanted.truncate(before);
                }
                return before == 0;
            }
            self.want(executor, place, hash, target);
            target = PrefetchTarget::Value;
        }
        true
    }
}

/// Returns the end of the sorted set at which a range by rank begins, if it begins near that end and no option changes
/// its kind.
#[inline]
fn target_of_ranks<'a>(args: Args<'a>, reversed: bool) -> PrefetchTarget<'a> {
    let from_back = match args.get(2) {
        Some([b'0'..=b'9'] | [b'0'..=b'9', _]) => reversed,
        Some([b'-', _] | [b'-', _, _]) => !reversed,
        bound => return target_of_bound(bound),
    };
    let is_turned = args.is(4, "REV");
    if args.len() > 4 && !is_turned && !args.is(4, "WITHSCORES") {
        return PrefetchTarget::Value;
    }
    if from_back != is_turned { PrefetchTarget::Back } else { PrefetchTarget::Front }
}

/// Returns the end of the sorted set at which a range by score or member begins, if this first bound is beyond all of them.
#[inline]
fn target_of_bound<'a>(bound: Option<&[u8]>) -> PrefetchTarget<'a> {
    match bound {
        Some(b"-inf" | b"-") => PrefetchTarget::Front,
        Some(b"+inf" | b"inf" | b"+") => PrefetchTarget::Back,
        _ => PrefetchTarget::Value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::request::ArgRange;

    fn target(request: &str) -> PrefetchTarget<'static> {
        let (mut input, mut ranges) = (Vec::new(), Vec::<ArgRange>::new());
        for word in request.split(' ') {
            ranges.push(ArgRange { start: input.len() as u32, len: word.len() as u32, hash: None });
            input.extend(word.as_bytes());
        }
        match target_of_ranks(Args::new(&input, &ranges), request.starts_with("ZREVRANGE")) {
            PrefetchTarget::Front => PrefetchTarget::Front,
            PrefetchTarget::Back => PrefetchTarget::Back,
            PrefetchTarget::Value => PrefetchTarget::Value,
            PrefetchTarget::Element(_) => panic!("ranks name no element"),
        }
    }

    #[test]
    fn ranks_near_an_end_fetch_that_end() {
        use PrefetchTarget::{Back, Front, Value};
        for (request, expected) in [
            ("ZRANGE k 0 0", Front),
            ("ZRANGE k 42 -1", Front),
            ("ZRANGE k 420 -1", Value),
            ("ZRANGE k -1 -1", Back),
            ("ZRANGE k -10 -1 withscores", Back),
            ("ZRANGE k -100 -1", Value),
            ("ZRANGE k 0 9 rev WITHSCORES", Back),
            ("ZRANGE k -1 -1 REV", Front),
            ("ZRANGE k 0 9 BYSCORE", Value),
            ("ZRANGE k (1 9 BYSCORE", Value),
            ("ZRANGE k [a [b BYLEX", Value),
            ("ZRANGE k - + BYLEX", Front),
            ("ZRANGE k -inf 9 BYSCORE LIMIT 0 1", Front),
            ("ZRANGE k +inf -inf BYSCORE REV LIMIT 0 1", Back),
            ("ZRANGE k + - BYLEX REV", Back),
            ("ZREVRANGE k 0 9", Back),
            ("ZREVRANGE k -3 -1 WITHSCORES", Front),
            ("ZREVRANGE k  9", Value),
        ] {
            assert_eq!(target(request), expected, "{request}");
        }
    }
}
