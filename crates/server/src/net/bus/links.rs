//! The links of the bus thread, and what is to be done with them in this turn.
//!
//! 1. A link that is removed leaves the poller and all sums; its number may still be on a list, where it is not found.
//! 2. The sums of figures are those of all links in the table.

use super::super::poller::Poller;
use super::link::Link;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(super) struct Links {
    /// By number.
    table: BTreeMap<u64, Link>,
    /// Links that may have unread input.
    listed: VecDeque<u64>,
    /// Links with frames that have not been offered to the socket, or whose backlog has changed.
    dirty: Vec<u64>,
    /// Accepted links that have not sent a frame yet, the oldest first, and when they were accepted.
    silent: VecDeque<(u64, u64)>,
    /// Accepted links that are not known to be a node's, the oldest first.
    unbound: VecDeque<u64>,
    accepted: usize,
    held_bytes: usize,
    queued_bytes: usize,
}

impl Links {
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Link> {
        self.table.get_mut(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of accepted links.
    pub(super) fn accepted(&self) -> usize {
        self.accepted
    }

    /// Memory of partial frames.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes that sockets have not taken.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Adds a link that this node opens.
    pub(super) fn add_opened(&mut self, link: Link) {
        self.table.insert(link.number(), link);
    }

    /// Adds a link that another node has opened.
    pub(super) fn add_accepted(&mut self, link: Link, now_us: u64) {
        self.accepted += 1;
        self.silent.push_back((link.number(), now_us));
        // The list has numbers of links that are gone or bound: not more of them than there are links.
        if self.unbound.len() > 2 * self.accepted {
            self.unbound.retain(|number| self.table.get(number).is_some_and(|link| !link.is_bound));
        }
        self.unbound.push_back(link.number());
        self.table.insert(link.number(), link);
    }

    /// Removes a link; its socket is closed when it is dropped.
    pub(super) fn remove(&mut self, number: u64, poller: &Poller) -> Option<Link> {
        let link = self.table.remove(&number)?;
        link.leave(poller);
        self.accepted -= usize::from(link.is_accepted);
        self.held_bytes -= link.incoming.held_bytes();
        self.queued_bytes -= link.outgoing.bytes();
        Some(link)
    }

    /// Has the link read in this turn or the next.
    pub(super) fn list(&mut self, number: u64) {
        if let Some(link) = self.table.get_mut(&number)
            && !std::mem::replace(&mut link.is_listed, true)
        {
            self.listed.push_back(number);
        }
    }

    /// Returns the number of listed links.
    pub(super) fn listed(&self) -> usize {
        self.listed.len()
    }

    /// Takes the next listed link.
    pub(super) fn next_listed(&mut self) -> Option<u64> {
        let number = self.listed.pop_front()?;
        if let Some(link) = self.table.get_mut(&number) {
            link.is_listed = false;
        }
        Some(number)
    }

    /// Has the link written at the end of the turn, or earlier.
    pub(super) fn touch(&mut self, number: u64) {
        if let Some(link) = self.table.get_mut(&number)
            && !std::mem::replace(&mut link.is_dirty, true)
        {
            self.dirty.push(number);
        }
    }

    /// Takes the links to be written.
    pub(super) fn take_dirty(&mut self) -> Vec<u64> {
        let dirty = std::mem::take(&mut self.dirty);
        for number in &dirty {
            if let Some(link) = self.table.get_mut(number) {
                link.is_dirty = false;
            }
        }
        dirty
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Runs `work` on a link, and corrects the sums by what it has changed.
    pub(super) fn change<T>(&mut self, number: u64, work: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let link = self.table.get_mut(&number)?;
        let (held, queued) = (link.incoming.held_bytes(), link.outgoing.bytes());
        let result = work(link);
        self.held_bytes = self.held_bytes - held + link.incoming.held_bytes();
        self.queued_bytes = self.queued_bytes - queued + link.outgoing.bytes();
        Some(result)
    }

    /// The oldest accepted link that has not sent a frame, and when it was accepted.
    pub(super) fn oldest_silent(&mut self) -> Option<(u64, u64)> {
        while let Some((number, since_us)) = self.silent.front().copied() {
            if self.table.get(&number).is_some_and(|link| !link.has_spoken) {
                return Some((number, since_us));
            }
            self.silent.pop_front();
        }
        None
    }

    /// The other end of a link is a known node.
    pub(super) fn bind(&mut self, number: u64) {
        if let Some(link) = self.table.get_mut(&number) {
            link.is_bound = true;
        }
    }

    /// The oldest accepted link that is not known to be a node's.
    pub(super) fn oldest_unbound(&mut self) -> Option<u64> {
        while let Some(number) = self.unbound.front().copied() {
            if self.table.get(&number).is_some_and(|link| !link.is_bound) {
                return Some(number);
            }
            self.unbound.pop_front();
        }
        None
    }

    /// The link that holds most of partial frames.
    pub(super) fn largest_held(&self) -> Option<u64> {
        let largest = self.table.values().max_by_key(|link| link.incoming.held_bytes());
        largest.map(Link::number)
    }
}
