//! The order of files and frames.

use super::*;

impl Node {
    fn save(&mut self, text: &str, sync: bool) {
        self.execute(BusAction::Save { text: text.to_owned(), sync });
    }

    fn content(&self) -> String {
        std::fs::read_to_string(self.directory.conf()).unwrap()
    }

    fn failure(&mut self) -> (String, bool) {
        self.wait_for("a failure", |event| match event {
            BusEvent::SaveFailed { error, is_fatal } => Some((error.to_string(), *is_fatal)),
            _ => None,
        })
    }

    /// Makes replacing the file fail, with a directory in its place.
    fn block_file(&self) {
        std::fs::remove_file(self.directory.conf()).unwrap();
        std::fs::create_dir_all(self.directory.conf().join("inside")).unwrap();
    }
}

#[test]
fn what_follows_a_save_with_sync_waits_for_it() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    for number in 0..50 {
        node.bus.execute(BusAction::Send(link, Arc::new(ping(2 * number))));
        node.bus.execute(BusAction::Save { text: format!("epoch {number}"), sync: true });
        node.send(link, &ping(2 * number + 1));
        let saves = node.bus.saves();
        assert_eq!(read_frames(&mut peer, 2), [ping(2 * number), ping(2 * number + 1)]);
        assert_eq!(node.content(), format!("epoch {number}"));
        let saved = node.wait_for("the file", |event| match event {
            BusEvent::Saved(saved) => Some(*saved),
            _ => None,
        });
        assert_eq!(saved, saves);
    }
}

#[test]
fn the_last_content_wins() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    for (text, sync) in [("first", false), ("second", true), ("third", false), ("fourth", false)] {
        node.bus.execute(BusAction::Save { text: text.to_owned(), sync });
    }
    node.send(link, &ping(1));
    assert_eq!(read_frames(&mut peer, 1), [ping(1)]);
    let begun = Instant::now();
    while node.content() != "fourth" {
        assert!(begun.elapsed() < PATIENCE, "{}", node.content());
    }
    // The first is replaced by the second, the third by the fourth.
    assert_eq!(node.bus.saves(), 2);
    assert_eq!(node.directory.names(), ["nodes.conf"]);
}

#[test]
fn a_bus_that_is_stopped_does_what_it_was_ordered() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    node.bus.execute(BusAction::Save { text: "last".to_owned(), sync: false });
    node.bus.execute(BusAction::Send(link, Arc::new(ping(9))));
    let Node { bus, directory, .. } = node;
    bus.stop(|event| panic!("{event:?}"));
    assert_eq!(std::fs::read_to_string(directory.conf()).unwrap(), "last");
    assert_eq!(read_frames(&mut peer, 1), [ping(9)]);
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    assert!(ConfFile::open(&directory.conf()).is_ok(), "the file is no longer in use");
}

#[test]
fn nothing_is_sent_after_a_fatal_failure() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    node.block_file();
    node.send(link, &ping(1));
    node.save("content", true);
    node.send(link, &ping(2));
    let (error, is_fatal) = node.failure();
    assert_eq!(
        (error.as_str(), is_fatal),
        ("Could not rename tmp cluster config file: Is a directory", true)
    );
    drop(node);
    assert_eq!(read_frames(&mut peer, 1), [ping(1)]);
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "the vote was not sent");
}

#[test]
fn a_failure_that_is_not_fatal_delays_nothing() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    node.bus.configure(BusSettings { save_failure_is_fatal: false, ..settings() });
    node.block_file();
    node.save("content", true);
    node.send(link, &ping(2));
    assert!(!node.failure().1);
    assert_eq!(read_frames(&mut peer, 1), [ping(2)]);
    std::fs::remove_dir_all(node.directory.conf()).unwrap();
    node.save("again", true);
    node.wait_for("the file", |event| matches!(event, BusEvent::Saved(2)).then_some(()));
    assert_eq!(node.content(), "again");
}
