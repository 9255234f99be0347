//! The events of the trace of the plan of syncs:
//!
//! ```text
//! at MILLISECONDS                              the time from now on
//! config NAME VALUE                            an option
//! child snapshot | log | sync | none           what the running child writes
//! transfer BYTES | none                        a child's snapshot is sent, of which that number of bytes can be sent
//! busy | idle                                  whether the data is partial, so that no snapshot may begin
//! replica NUMBER PHASE [WORD ...]              a replica attaches, or its state changes
//! gone NUMBER                                  a replica is removed from the list, and the plan takes that event
//! attached NUMBER | tick | second | ready NUMBER ... | not-begun | file-ended [failed]
//! sync-ended CODE | sync-killed SIGNAL | sync-ended-here
//! ```
//!
//! The phases are `waiting`, `snapshot`, `file`, `piped:BYTES`, `rdb-channel`, `main-channel` and `online`, each since the
//! present time; the words are what the replica has said or what its connection is: `eof`, `psync2`, `old` (a release
//! before 9.0), `rdb-only`, `rdb-channel`, `without-data`, `sync` (it came with SYNC), `closing`, `output`.

use super::{Machine, follow_trace};
use crate::config::Config;
use crate::engine::replication::sync_plan::{Action, Event, Facts, Phase, SyncPlan, Syncing};
use crate::persist::child::Purpose;
use crate::session::ClientHandle;
use crate::session::client::ReplicaProfile;
use crate::sys::child::Ended;

struct Replica {
    number: u64,
    phase: Phase,
    profile: ReplicaProfile,
    is_closing: bool,
    has_output: bool,
}

struct Player {
    plan: SyncPlan,
    now_us: u64,
    config: Config,
    child: Option<Purpose>,
    transfer_end: Option<u64>,
    is_busy: bool,
    replicas: Vec<Replica>,
}

fn numbers(handles: &[ClientHandle]) -> String {
    handles.iter().map(|handle| handle.to_bits().to_string()).collect::<Vec<_>>().join(" ")
}

fn shown(action: &Action) -> String {
    match action {
        Action::Log(level, text) => format!("log {}: {text}", level.as_str().to_lowercase()),
        Action::Join(handle, other) => format!("Join {}", numbers(&[*handle, *other])),
        Action::Begin { format, target, group } => {
            format!("Begin {target:?}, version {}: {}", format.version, numbers(group))
        }
        Action::BeginChannels { format, group } => {
            format!("BeginChannels, version {}: {}", format.version, numbers(group))
        }
        Action::Refuse { group, text } => format!("Refuse {}: {text}", numbers(group)),
        Action::Close(handle) => format!("Close {}", numbers(&[*handle])),
        Action::SendFile(handle) => format!("SendFile {}", numbers(&[*handle])),
        Action::CloseAfterOutput(handle) => format!("CloseAfterOutput {}", numbers(&[*handle])),
        Action::ForgetReservation(handle) => format!("ForgetReservation {}", numbers(&[*handle])),
        Action::KeepAlive(handle) => format!("KeepAlive {}", numbers(&[*handle])),
        Action::CompleteTransfer | Action::DropTransfer | Action::KillChild(_) => format!("{action:?}"),
    }
}

impl Player {
    fn phase_of(&self, text: &str) -> Phase {
        let now_us = self.now_us;
        match text.split_once(':').unwrap_or((text, "0")) {
            ("waiting", _) => Phase::Waiting { since_us: now_us },
            ("snapshot", _) => Phase::Snapshot,
            ("file", _) => Phase::File,
            ("piped", position) => {
                Phase::Piped { position: position.parse().expect("a number"), progress_us: now_us }
            }
            ("rdb-channel", _) => Phase::RdbChannel,
            ("main-channel", _) => Phase::MainChannel { last_ack_us: now_us },
            ("online", _) => Phase::Online { last_ack_us: now_us },
            _ => panic!("{text:?} is no phase"),
        }
    }

    fn change(&mut self, text: &str) {
        let mut words = text.split(' ');
        let number: u64 = words.next().and_then(|word| word.parse().ok()).expect("a number");
        let phase = self.phase_of(words.next().expect("a phase"));
        if let Some(known) = self.replicas.iter_mut().find(|replica| replica.number == number) {
            known.phase = phase;
            return;
        }
        let profile = ReplicaProfile { version: 0x09_01_02, ..ReplicaProfile::default() };
        let mut replica = Replica { number, phase, profile, is_closing: false, has_output: false };
        let profile = &mut replica.profile;
        for word in words {
            match word {
                "eof" => profile.finds_end_mark = true,
                "psync2" => profile.takes_new_ids = true,
                "old" => profile.version = 0x07_02_04,
                "rdb-only" => profile.snapshot_only = true,
                "without-data" => profile.without_data = true,
                "sync" => profile.attached_with_sync = true,
                "rdb-channel" => {
                    profile.is_rdb_channel = true;
                    profile.snapshot_only = true;
                    profile.finds_end_mark = true;
                    profile.attached_with_sync = true;
                }
                "closing" => replica.is_closing = true,
                "output" => replica.has_output = true,
                _ => panic!("{word:?} is nothing that a replica says"),
            }
        }
        self.replicas.push(replica);
    }

    fn configure(&mut self, text: &str) {
        let (name, value) = text.split_once(' ').expect("a name and a value");
        let number = || value.parse().expect("a number");
        match name {
            "repl-diskless-sync" => self.config.repl_diskless_sync = value == "yes",
            "repl-diskless-sync-delay" => self.config.repl_diskless_sync_delay_seconds = number(),
            "repl-diskless-sync-max-replicas" => self.config.repl_diskless_sync_max_replicas = number(),
            "repl-timeout" => self.config.repl_timeout_seconds = number(),
            "save" => self.config.save.clear(),
            _ => panic!("{name:?} is no option of syncs"),
        }
    }

    fn arrange(&mut self, word: &str, rest: &str) {
        match word {
            "at" => self.now_us = rest.parse::<u64>().expect("a number") * 1000,
            "config" => self.configure(rest),
            "child" => {
                self.child = match rest {
                    "snapshot" => Some(Purpose::Snapshot),
                    "log" => Some(Purpose::LogBase),
                    "sync" => Some(Purpose::Sync),
                    _ => None,
                }
            }
            "transfer" => self.transfer_end = rest.parse().ok(),
            "busy" => self.is_busy = true,
            "idle" => self.is_busy = false,
            "replica" => self.change(rest),
            _ => panic!("{word:?} is no event"),
        }
    }

    fn step(&mut self, event: Event<'_>) -> Vec<String> {
        let syncing = self.replicas.iter().map(|replica| Syncing {
            handle: ClientHandle::from_bits(replica.number),
            phase: replica.phase,
            profile: &replica.profile,
            is_closing: replica.is_closing,
            has_output: replica.has_output,
        });
        let syncing: Vec<Syncing<'_>> = syncing.collect();
        let facts = Facts {
            now_us: self.now_us,
            config: &self.config,
            child: self.child,
            transfer_end: self.transfer_end,
            is_busy: self.is_busy,
            replicas: &syncing,
        };
        let name_of = |handle: ClientHandle| format!("replica {}", handle.to_bits());
        let mut seen: Vec<String> = self.plan.step(event, &facts, &name_of).iter().map(shown).collect();
        let due = facts.channels_due();
        if matches!(event, Event::Tick) && !due.is_empty() {
            seen.push(format!("= channels due: {}", numbers(&due)));
        }
        seen
    }
}

impl Machine for Player {
    fn new() -> Self {
        Player {
            plan: SyncPlan::default(),
            now_us: 0,
            config: Config::default(),
            child: None,
            transfer_end: None,
            is_busy: false,
            replicas: Vec::new(),
        }
    }

    fn play(&mut self, word: &str, rest: &str) -> Vec<String> {
        let handle = |text: &str| ClientHandle::from_bits(text.parse().expect("a number"));
        match word {
            "attached" => self.step(Event::Attached(handle(rest))),
            "tick" => self.step(Event::Tick),
            "second" => self.step(Event::Second),
            "ready" => {
                let group: Vec<ClientHandle> = rest.split(' ').map(handle).collect();
                self.step(Event::ChannelsReady(&group))
            }
            "not-begun" => self.step(Event::NotBegun),
            "file-ended" => self.step(Event::FileEnded { succeeded: rest != "failed" }),
            "sync-ended" => self.step(Event::SyncEnded(Ended::Exited(rest.parse().expect("a code")))),
            "sync-killed" => {
                self.step(Event::SyncEnded(Ended::Killed { signal: rest.parse().expect("a signal") }))
            }
            "sync-ended-here" => self.step(Event::SyncKilled),
            "gone" => {
                let at = self.replicas.iter().position(|replica| replica.number.to_string() == rest);
                let gone = self.replicas.remove(at.expect("it is known"));
                self.step(Event::Left(gone.phase))
            }
            _ => {
                self.arrange(word, rest);
                Vec::new()
            }
        }
    }
}

#[test]
fn the_plan_of_syncs_does_what_its_traces_show() {
    follow_trace::<Player>("sync_plan");
}
