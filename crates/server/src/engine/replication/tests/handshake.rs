//! The events of a handshake's trace:
//!
//! ```text
//! link | rdb-channel | main-channel       a new handshake, on a connection of this purpose
//! established | endless | line TEXT       what arrives
//! loaded                                  the snapshot has been loaded: the main channel becomes the link
//! config NAME VALUE                       an option; no value: its default
//! continues | begins-anew                 whether the data here is that of the history
//! handover [primary]                      a FAILOVER hands over to the primary, which is found to be one already
//! node ID                                 the server is a node of a cluster
//! ```

use super::{Machine, follow_trace};
use crate::config::Config;
use crate::engine::replication::channels::Promise;
use crate::engine::replication::handshake::{Action, Event, Facts, Handover, Handshake};
use crate::engine::replication::history::History;
use crate::engine::replication::transfer::Origin;
use wire::cluster_bus::NodeId;

struct Player {
    handshake: Handshake,
    config: Config,
    history: History,
    continues: bool,
    handover: Option<Handover>,
    node_id: Option<NodeId>,
}

fn shown(action: &Action) -> String {
    match action {
        Action::Log(level, text) => format!("log {}: {text}", level.as_str().to_lowercase()),
        Action::Send(words) => {
            let words = words.iter().map(|word| word.escape_ascii().to_string());
            format!("send {}", words.collect::<Vec<_>>().join(" "))
        }
        Action::SendSync => "send SYNC".to_owned(),
        Action::FailoverRefused(line) => format!("FailoverRefused {}", line.escape_ascii()),
        other => format!("{other:?}"),
    }
}

impl Machine for Player {
    fn new() -> Self {
        let mut history = History::new("a".repeat(40));
        history.advance(1000);
        let config = Config::default();
        let handshake = Handshake::of_link();
        Player { handshake, config, history, continues: false, handover: None, node_id: None }
    }

    fn play(&mut self, word: &str, rest: &str) -> Vec<String> {
        match word {
            "link" => self.handshake = Handshake::of_link(),
            "rdb-channel" => self.handshake = Handshake::of_rdb_channel(),
            "main-channel" => {
                let origin = Origin { id: "b".repeat(40), offset: 70 };
                self.handshake = Handshake::of_main_channel(Promise { origin, client_id: 7 });
            }
            "loaded" => {
                let handshake = std::mem::replace(&mut self.handshake, Handshake::of_link());
                self.handshake = handshake.after_load();
            }
            "config" => self.configure(rest),
            "continues" => self.continues = true,
            "begins-anew" => self.continues = false,
            "handover" => {
                let is_primary = rest == "primary";
                self.handover = Some(Handover { is_primary, gives_way: !is_primary });
            }
            "node" => self.node_id = NodeId::parse(rest.as_bytes()),
            "established" => return self.step(Event::Established),
            "endless" => return self.step(Event::EndlessLine),
            "line" => return self.step(Event::Line(rest.as_bytes())),
            _ => panic!("{word:?} is no event"),
        }
        Vec::new()
    }
}

impl Player {
    fn configure(&mut self, text: &str) {
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        let bytes = (!value.is_empty()).then(|| value.as_bytes().to_vec());
        match name {
            "primaryauth" => self.config.primaryauth = bytes,
            "primaryuser" => self.config.primaryuser = bytes,
            "replica-announce-ip" => self.config.replica_announce_ip = bytes,
            "dual-channel-replication-enabled" => {
                self.config.dual_channel_replication_enabled = value == "yes"
            }
            _ => panic!("{name:?} is no option of the handshake"),
        }
    }

    fn step(&mut self, event: Event<'_>) -> Vec<String> {
        let (config, history) = (&self.config, &self.history);
        let (continues, handover, node_id) = (self.continues, self.handover, self.node_id);
        let actions = self.handshake.step(event, &Facts { config, history, continues, handover, node_id });
        actions.iter().map(shown).collect()
    }
}

#[test]
fn the_handshake_does_what_its_traces_show() {
    follow_trace::<Player>("handshake");
}
