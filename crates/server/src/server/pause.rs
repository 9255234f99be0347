//! Pauses of commands: by CLIENT PAUSE, during a shutdown, during a failover, and of writes to slots that are about to go to
//! another node. Each ends separately, and a command held by any of them waits.

use crate::clock::Reading;
use wire::cluster_bus::SlotSet;
use wire::convert::signed_count;

/// The reason of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausePurpose {
    /// CLIENT PAUSE.
    ClientCommand,
    /// A shutdown waits for replicas.
    Shutdown,
    /// A failover is in progress.
    Failover,
}

impl PausePurpose {
    const ALL: [PausePurpose; 3] =
        [PausePurpose::ClientCommand, PausePurpose::Shutdown, PausePurpose::Failover];

    /// Returns the name in INFO.
    fn name(self) -> &'static str {
        match self {
            PausePurpose::ClientCommand => "client_pause",
            PausePurpose::Shutdown => "shutdown_in_progress",
            PausePurpose::Failover => "failover_in_progress",
        }
    }
}

/// The commands held, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// On the monotonic clock; [`Pause::WITHOUT_END`]: until it is ended.
    pub until_us: u64,
    /// All commands, or only those that may write.
    pub all: bool,
}

impl Pause {
    /// The time of a pause that lasts until it is ended.
    pub const WITHOUT_END: u64 = u64::MAX;

    /// Holds commands that may write, until it is ended.
    pub const OF_WRITES: Pause = Pause { until_us: Pause::WITHOUT_END, all: false };
}

/// The pauses in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    by_purpose: [Option<Pause>; PausePurpose::ALL.len()],
    /// There is one: read by each command.
    are_any: bool,
    /// Pauses have eased since held clients were last checked.
    have_eased: bool,
    slots: Option<PausedSlots>,
}

/// Slots to which writes are held.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PausedSlots {
    slots: SlotSet,
    /// On the monotonic clock.
    until_us: u64,
}

impl Pauses {
    /// Holds writes to these slots, and to no others, until [`Pauses::end_slots`]: keys of all slots still expire and are
    /// evicted. Replaces the slots held before. INFO shows `until_us`; the job of the slots ends the pause.
    pub fn pause_slots(&mut self, slots: SlotSet, until_us: u64) {
        self.have_eased |= self.slots.is_some();
        self.slots = Some(PausedSlots { slots, until_us });
    }

    /// Ends the pause of slots.
    pub fn end_slots(&mut self) {
        self.have_eased |= self.slots.take().is_some();
    }

    /// Returns whether writes to some slots are held.
    #[inline]
    pub fn hold_slots(&self) -> bool {
        self.slots.is_some()
    }

    /// Returns whether writes to this slot are held.
    pub fn hold_slot(&self, slot: u16) -> bool {
        self.slots.as_ref().is_some_and(|paused| paused.slots.contains(slot))
    }

    /// Returns whether a pause is in force.
    #[inline]
    pub fn are_any(&self) -> bool {
        self.are_any
    }

    /// Returns whether commands that do not write are held too.
    pub fn hold_all(&self) -> bool {
        self.in_force().any(|(_, pause)| pause.all)
    }

    fn in_force(&self) -> impl Iterator<Item = (PausePurpose, Pause)> + '_ {
        let pauses = PausePurpose::ALL.into_iter().zip(self.by_purpose);
        pauses.filter_map(|(purpose, pause)| Some((purpose, pause?)))
    }

    /// Begins a pause. Of two pauses for the same purpose, the longer and the stricter applies.
    pub fn begin(&mut self, purpose: PausePurpose, pause: Pause, now_us: u64) {
        self.end_those_due(now_us);
        let place = &mut self.by_purpose[purpose as usize];
        *place = Some(place.map_or(pause, |current| Pause {
            until_us: current.until_us.max(pause.until_us),
            all: current.all || pause.all,
        }));
        self.are_any = true;
    }

    /// Ends the pause of this purpose.
    pub fn end(&mut self, purpose: PausePurpose) {
        self.change(|by_purpose| by_purpose[purpose as usize] = None);
    }

    /// Requests a check of held clients: one was held for a reason other than a pause, which has ended.
    pub fn recheck_held(&mut self) {
        self.have_eased = true;
    }

    /// Ends expired pauses.
    pub fn end_those_due(&mut self, now_us: u64) {
        if self.next_end_us().is_some_and(|end_us| end_us <= now_us) {
            let is_due = |pause: &mut Pause| pause.until_us <= now_us;
            self.change(|by_purpose| {
                for pause in by_purpose {
                    pause.take_if(is_due);
                }
            });
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut [Option<Pause>; PausePurpose::ALL.len()])) {
        let before = (self.are_any, self.hold_all());
        change(&mut self.by_purpose);
        self.are_any = self.by_purpose.iter().any(Option::is_some);
        self.have_eased |= (self.are_any, self.hold_all()) != before;
    }

    /// Returns when the next pause ends. That of slots is ended by its job.
    pub fn next_end_us(&self) -> Option<u64> {
        self.in_force().map(|(_, pause)| pause.until_us).min()
    }

    /// Returns whether held clients may have become free since the last call.
    pub fn take_eased(&mut self) -> bool {
        std::mem::take(&mut self.have_eased)
    }

    /// For INFO: the purpose (of several, the longest), whether all commands are held, and milliseconds to the end.
    pub fn shown(&self, now: Reading) -> Option<(&'static str, bool, i64)> {
        let all = self.hold_all();
        let in_force = self.in_force().filter(|(_, pause)| pause.all == all);
        let longest = in_force.max_by_key(|(_, pause)| pause.until_us);
        let (purpose, until_us) = match (longest, &self.slots) {
            (Some((purpose, pause)), _) => (purpose.name(), pause.until_us),
            (None, Some(paused)) => ("slot_migration_in_progress", paused.until_us),
            (None, None) => return None,
        };
        let left_ms = match until_us {
            Pause::WITHOUT_END => i64::MAX - now.unix_ms(),
            until_us => signed_count(until_us.saturating_sub(now.monotonic_us) / 1000),
        };
        Some((purpose, all, left_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_pause_holds_back_another_s_end_does_not_let_go() {
        let mut pauses = Pauses::default();
        pauses.begin(PausePurpose::ClientCommand, Pause { until_us: 100, all: true }, 0);
        pauses.begin(PausePurpose::Failover, Pause::OF_WRITES, 0);
        assert!(pauses.are_any() && pauses.hold_all());
        assert_eq!(pauses.next_end_us(), Some(100));
        pauses.end_those_due(99);
        assert!(!pauses.take_eased());
        pauses.end_those_due(100);
        assert!(pauses.take_eased(), "reads may go on");
        assert!(pauses.are_any() && !pauses.hold_all());
        pauses.end(PausePurpose::Shutdown);
        assert!(!pauses.take_eased(), "there was none");
        pauses.begin(PausePurpose::Shutdown, Pause::OF_WRITES, 100);
        pauses.end(PausePurpose::Failover);
        assert!(pauses.are_any() && !pauses.take_eased());
        pauses.end(PausePurpose::Shutdown);
        assert!(!pauses.are_any() && pauses.take_eased());
    }

    #[test]
    fn of_two_pauses_the_longer_and_the_stricter_holds() {
        let mut pauses = Pauses::default();
        pauses.begin(PausePurpose::ClientCommand, Pause { until_us: 200, all: false }, 0);
        pauses.begin(PausePurpose::ClientCommand, Pause { until_us: 100, all: true }, 0);
        assert_eq!((pauses.next_end_us(), pauses.hold_all()), (Some(200), true));
        // An expired pause does not count.
        pauses.begin(PausePurpose::ClientCommand, Pause { until_us: 300, all: false }, 200);
        assert_eq!((pauses.next_end_us(), pauses.hold_all()), (Some(300), false));
    }

    #[test]
    fn a_pause_of_slots_holds_no_others() {
        let mut pauses = Pauses::default();
        pauses.pause_slots([3, 4].into_iter().collect(), 100);
        assert!(pauses.hold_slot(3) && !pauses.hold_slot(5) && !pauses.are_any());
        assert_eq!(pauses.next_end_us(), None);
        pauses.pause_slots([4].into_iter().collect(), 200);
        assert!(pauses.take_eased(), "slot 3 may be written to");
        pauses.end_those_due(200);
        assert!(pauses.hold_slot(4) && !pauses.take_eased(), "the job decides");
        pauses.end_slots();
        assert!(!pauses.hold_slots() && pauses.take_eased());
    }
}
