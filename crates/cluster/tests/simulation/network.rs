//! A network that delays, loses and repeats frames, and that can be cut in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::LinkId;
use structures::random::Random;
use wire::cluster_bus::Frame;

/// Index of a node of the simulation.
pub type Host = usize;

/// How bad the network is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub delay_ms: (u64, u64),
    /// Of a thousand frames.
    pub lost: u64,
    pub repeated: u64,
}

impl Weather {
    pub const FINE: Weather = Weather { delay_ms: (0, 3), lost: 0, repeated: 0 };
}

/// A connection: who opened it, whom it leads to, and its id on both sides.
#[derive(Clone, Debug)]
pub struct Connection {
    pub from: Host,
    pub to: Host,
    pub outbound: LinkId,
    pub inbound: Option<LinkId>,
    /// When the latest frame arrives, in each direction: frames of a connection stay in order.
    last_ms: [u64; 2],
}

/// What arrives somewhere.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// A connection is asked for.
    Open(u64),
    /// It was accepted.
    Opened(u64),
    /// A frame, and whether it goes to the one who opened the connection.
    Frame(u64, bool, Arc<Frame>),
    /// The other end has closed it; the flag as above.
    Closed(u64, bool),
}

pub struct Network {
    pub weather: Weather,
    pub connections: BTreeMap<u64, Connection>,
    opened: u64,
    /// Directions in which nothing gets through.
    pub cuts: BTreeSet<(Host, Host)>,
    arrivals: BTreeMap<(u64, u64), Arrival>,
    sequence: u64,
}

impl Network {
    pub fn new() -> Network {
        Network {
            weather: Weather::FINE,
            connections: BTreeMap::new(),
            opened: 0,
            cuts: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            sequence: 0,
        }
    }

    fn delay_ms(&self, random: &mut Random) -> u64 {
        let (least, most) = self.weather.delay_ms;
        least + random.below(most - least + 1)
    }

    fn schedule(&mut self, at_ms: u64, arrival: Arrival) {
        self.sequence += 1;
        self.arrivals.insert((at_ms, self.sequence), arrival);
    }

    /// The next thing that arrives up to this time.
    pub fn next(&mut self, now_ms: u64) -> Option<Arrival> {
        let (&(at_ms, _), _) = self.arrivals.first_key_value()?;
        (at_ms <= now_ms).then(|| self.arrivals.pop_first().expect("there is a first").1)
    }

    pub fn connect(
        &mut self,
        from: Host,
        to: Host,
        outbound: LinkId,
        now_ms: u64,
        random: &mut Random,
    ) -> u64 {
        self.opened += 1;
        let id = self.opened;
        let connection = Connection { from, to, outbound, inbound: None, last_ms: [0; 2] };
        self.connections.insert(id, connection);
        if !self.cuts.contains(&(from, to)) {
            let at_ms = now_ms + self.delay_ms(random);
            self.schedule(at_ms, Arrival::Open(id));
        }
        id
    }

    pub fn accepted(&mut self, id: u64, inbound: LinkId, now_ms: u64, random: &mut Random) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.inbound = Some(inbound);
        let ends = (connection.to, connection.from);
        if !self.cuts.contains(&ends) {
            let at_ms = now_ms + self.delay_ms(random);
            self.schedule_in_order(id, true, at_ms, Arrival::Opened(id));
        }
    }

    fn schedule_in_order(&mut self, id: u64, to_opener: bool, at_ms: u64, arrival: Arrival) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let last_ms = &mut connection.last_ms[usize::from(to_opener)];
        *last_ms = at_ms.max(*last_ms);
        let at_ms = *last_ms;
        self.schedule(at_ms, arrival);
    }

    pub fn send(&mut self, id: u64, by: Host, frame: &Arc<Frame>, now_ms: u64, random: &mut Random) {
        let Some(connection) = self.connections.get(&id) else { return };
        let to_opener = connection.to == by;
        let other = if to_opener { connection.from } else { connection.to };
        if self.cuts.contains(&(by, other)) || random.below(1_000) < self.weather.lost {
            return;
        }
        let copies = 1 + u64::from(random.below(1_000) < self.weather.repeated);
        for _ in 0..copies {
            let at_ms = now_ms + self.delay_ms(random);
            self.schedule_in_order(id, to_opener, at_ms, Arrival::Frame(id, to_opener, Arc::clone(frame)));
        }
    }

    pub fn close(&mut self, id: u64, by: Host, now_ms: u64, random: &mut Random) {
        let Some(connection) = self.connections.get(&id) else { return };
        let to_opener = connection.to == by;
        let other = if to_opener { connection.from } else { connection.to };
        if self.cuts.contains(&(by, other)) {
            // The other end does not learn of it.
            return;
        }
        let at_ms = now_ms + self.delay_ms(random);
        self.schedule_in_order(id, to_opener, at_ms, Arrival::Closed(id, to_opener));
    }
}
