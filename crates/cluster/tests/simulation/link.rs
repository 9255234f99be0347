//! Connections of slot migrations: each is a stream in both directions, which delays, stalls and breaks.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use cluster::{JobId, Ranges, Word};
use structures::random::Random;
use wire::cluster_bus::NodeId;

use crate::data::Change;
use crate::network::{Host, Network};

/// Ends of a connection.
pub const SOURCE: usize = 0;
pub const TARGET: usize = 1;

/// Messages that are under way at most in a direction.
const WINDOW: usize = 12;

#[derive(Clone, Debug)]
pub enum Message {
    /// The connection is established, or it cannot be.
    Connected,
    Refused,
    Authenticate,
    Establish {
        source: NodeId,
        name: NodeId,
        ranges: Ranges,
    },
    Reply(Vec<u8>),
    Change(Rc<Change>),
    Word(Word),
    /// The other end has closed the connection, or it is broken.
    Closed,
}

/// The connection of a job.
#[derive(Debug)]
pub struct Link {
    /// The hosts at the two ends.
    pub ends: [Host; 2],
    pub is_open: [bool; 2],
    pub export: JobId,
    pub import: Option<JobId>,
    /// What is under way to each end, and when it arrives.
    lanes: [VecDeque<(u64, Message)>; 2],
    /// What has arrived and was not read.
    arrived: [VecDeque<Message>; 2],
    pub stalls_until_ms: u64,
    /// Nothing that is sent arrives any more.
    is_broken: bool,
}

#[derive(Default)]
pub struct Links {
    pub links: BTreeMap<u64, Link>,
    opened: u64,
}

impl Links {
    /// Opens a connection at the source; the target's answer arrives later.
    pub fn open(&mut self, source: Host, target: Host, export: JobId) -> u64 {
        self.opened += 1;
        let link = Link {
            ends: [source, target],
            is_open: [true, true],
            export,
            import: None,
            lanes: [VecDeque::new(), VecDeque::new()],
            arrived: [VecDeque::new(), VecDeque::new()],
            stalls_until_ms: 0,
            is_broken: false,
        };
        self.links.insert(self.opened, link);
        self.opened
    }

    /// Sends a message to an end of a connection, behind those under way.
    pub fn send(
        &mut self,
        id: u64,
        to: usize,
        message: Message,
        now_ms: u64,
        medium: (&Network, &mut Random),
    ) {
        if self.links.get(&id).is_some_and(|link| !link.is_broken) {
            self.schedule(id, to, message, now_ms, medium);
        }
    }

    fn schedule(
        &mut self,
        id: u64,
        to: usize,
        message: Message,
        now_ms: u64,
        (network, random): (&Network, &mut Random),
    ) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (least, most) = network.weather.delay_ms;
        let at_ms = now_ms + least + random.below(most - least + 1);
        let last_ms = link.lanes[to].back().map_or(0, |(at_ms, _)| *at_ms);
        link.lanes[to].push_back((at_ms.max(last_ms), message));
    }

    /// Has messages arrive, unless the network is cut in their direction.
    pub fn deliver(&mut self, now_ms: u64, network: &Network) {
        for link in self.links.values_mut().filter(|link| link.stalls_until_ms <= now_ms) {
            for end in [SOURCE, TARGET] {
                if network.cuts.contains(&(link.ends[1 - end], link.ends[end])) {
                    continue;
                }
                while let Some((_, message)) = link.lanes[end].pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
                    link.arrived[end].push_back(message);
                }
            }
        }
    }

    /// Takes the next message that has arrived at an end.
    pub fn receive(&mut self, id: u64, end: usize) -> Option<Message> {
        let link = self.links.get_mut(&id).filter(|link| link.is_open[end])?;
        link.arrived[end].pop_front()
    }

    /// Returns whether the source's connection takes another message now.
    pub fn has_room(&self, id: u64) -> bool {
        self.links.get(&id).is_some_and(|link| link.lanes[TARGET].len() + link.arrived[TARGET].len() < WINDOW)
    }

    /// Closes an end.
    pub fn close(&mut self, id: u64, end: usize, now_ms: u64, medium: (&Network, &mut Random)) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if std::mem::take(&mut link.is_open[end]) {
            link.lanes[end].clear();
            link.arrived[end].clear();
            self.send(id, 1 - end, Message::Closed, now_ms, medium);
        }
        self.links.retain(|_, link| link.is_open.contains(&true));
    }

    /// Breaks a connection: a part of what is under way still arrives. Sometimes one end does not learn of it.
    pub fn break_off(&mut self, id: u64, now_ms: u64, (network, random): (&Network, &mut Random)) {
        let unaware = random.index(4);
        for end in [SOURCE, TARGET] {
            let Some(link) = self.links.get_mut(&id) else { return };
            let len = random.index(link.lanes[end].len() + 1);
            link.lanes[end].truncate(len);
            link.is_broken = true;
            if end != unaware {
                self.schedule(id, end, Message::Closed, now_ms, (network, random));
            }
        }
    }

    /// The open ends at a host.
    pub fn ends_at(&self, host: Host) -> Vec<(u64, usize)> {
        let ends = self.links.iter().flat_map(|(id, link)| [(*id, SOURCE, link), (*id, TARGET, link)]);
        let open = ends.filter(|(_, end, link)| link.is_open[*end] && link.ends[*end] == host);
        open.map(|(id, end, _)| (id, end)).collect()
    }
}
