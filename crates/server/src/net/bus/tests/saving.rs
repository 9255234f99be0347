//! The order of files and frames.

use super::*;

fn save(number: u64, text: &str, sync: bool) -> BusAction {
    BusAction::Save { number, text: text.to_owned(), sync }
}

impl Node {
    fn save(&mut self, number: u64, text: &str, sync: bool) {
        self.execute(save(number, text, sync));
    }

    fn content(&self) -> String {
        std::fs::read_to_string(self.directory.conf()).unwrap()
    }

    fn failure(&mut self) -> (String, bool) {
        self.wait_for("a failure", |event| match event {
            BusEvent::SaveFailed { error, is_fatal, .. } => Some((error.to_string(), *is_fatal)),
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
        node.bus.execute(save(number + 1, &format!("epoch {number}"), true));
        node.send(link, &ping(2 * number + 1));
        assert_eq!(read_frames(&mut peer, 2), [ping(2 * number), ping(2 * number + 1)]);
        assert_eq!(node.content(), format!("epoch {number}"));
        let saved = node.wait_for("the file", |event| match event {
            BusEvent::Saved(saved) => Some(*saved),
            _ => None,
        });
        assert_eq!(saved, number + 1);
    }
}

#[test]
fn the_last_content_wins() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    let saves = [("first", false), ("second", true), ("third", false), ("fourth", false)];
    for ((text, sync), number) in saves.into_iter().zip(1..) {
        node.bus.execute(save(number, text, sync));
    }
    node.send(link, &ping(1));
    assert_eq!(read_frames(&mut peer, 1), [ping(1)]);
    let begun = Instant::now();
    while node.content() != "fourth" {
        assert!(begun.elapsed() < PATIENCE, "{}", node.content());
    }
    assert_eq!(node.directory.names(), ["nodes.conf"]);
}

#[test]
fn a_bus_that_is_stopped_does_what_it_was_ordered() {
    let mut node = Node::new();
    let (mut peer, link) = node.peer();
    node.bus.execute(save(1, "last", false));
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
    node.save(1, "content", true);
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
    node.save(1, "content", true);
    node.send(link, &ping(2));
    assert!(!node.failure().1);
    assert_eq!(read_frames(&mut peer, 1), [ping(2)]);
    std::fs::remove_dir_all(node.directory.conf()).unwrap();
    node.save(2, "again", true);
    node.wait_for("the file", |event| matches!(event, BusEvent::Saved(2)).then_some(()));
    assert_eq!(node.content(), "again");
}

/// A disk on which opening the temporary file hangs, until it is released: then the first save fails.
struct HungDisk(PathBuf);

impl HungDisk {
    fn new(directory: &Directory) -> HungDisk {
        let path = directory.0.join(format!("nodes.conf.tmp-{}", std::process::id()));
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        HungDisk(path)
    }

    fn release(self) {
        drop(std::fs::File::open(self.0).unwrap());
    }
}

#[test]
fn of_the_saves_that_wait_for_the_disk_the_newest_is_written() {
    let mut node = Node::new();
    node.bus.configure(BusSettings { save_failure_is_fatal: false, ..settings() });
    let (mut peer, link) = node.peer();
    let disk = HungDisk::new(&node.directory);
    node.save(1, "content 1", true);
    let begun = Instant::now();
    while node.bus.unsaved.lock().is_some() {
        assert!(begun.elapsed() < PATIENCE);
    }
    for number in 2..10 {
        node.save(number, &format!("content {number}"), number % 3 == 0);
        node.send(link, &ping(number));
    }
    disk.release();
    let frames: Vec<Frame> = (2..10).map(ping).collect();
    assert_eq!(read_frames(&mut peer, 8), frames);
    assert_eq!(node.content(), "content 9");
    node.take_events();
    let saves: Vec<String> = node
        .events
        .iter()
        .filter_map(|event| match event {
            BusEvent::Saved(number) => Some(format!("saved {number}")),
            BusEvent::SaveFailed { number, .. } => Some(format!("failed {number}")),
            _ => None,
        })
        .collect();
    assert_eq!(saves, ["failed 1", "saved 9"]);
}

#[test]
fn a_disk_that_hangs_does_not_delay_the_end_for_ever() {
    let node = Node::with(Limits { end_us: 50_000, ..Limits::default() }, Arc::default());
    let disk = HungDisk::new(&node.directory);
    let Node { mut bus, directory, .. } = node;
    bus.execute(save(1, "content", true));
    bus.stop(|_| ());
    assert_eq!(std::fs::read_to_string(directory.conf()).unwrap(), "", "nothing was written");
    disk.release();
    // The thread ends now, and unlocks the file.
    let begun = Instant::now();
    while ConfFile::open(&directory.conf()).is_err() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}
