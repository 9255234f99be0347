//! The file of a cluster's nodes: the power fails at each call of a save.

use crate::world::{Disk, End};
use server::net::bus::ConfFile;
use server::sys::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// More than a save has.
const CALLS_MAX: u64 = 12;
/// What a power cut leaves is random.
const SEEDS: u64 = 40;

/// The content after a power cut at a call of the second save, and whether that save had succeeded.
fn left_by_power_cut(seed: u64, call: u64, sync: bool) -> (Vec<u8>, bool) {
    let disk = Arc::new(Disk::new(seed));
    let (world, path) = (World::of(disk.clone()), Path::new("nodes.conf"));
    let mut file = ConfFile::unlocked(world.clone(), path);
    file.save("before", true).unwrap();
    disk.end_after(call, End::PowerCut);
    let saved = catch_unwind(AssertUnwindSafe(|| file.save("after", sync))).is_ok_and(|saved| saved.is_ok());
    disk.restart(End::PowerCut);
    (world.read(path).unwrap(), saved)
}

#[test]
fn a_power_cut_leaves_one_of_the_contents_and_never_an_empty_file() {
    let mut were_seen = [false; 2];
    for (seed, call) in (0..SEEDS).flat_map(|seed| (1..=CALLS_MAX).map(move |call| (seed, call))) {
        for sync in [false, true] {
            let (content, saved) = left_by_power_cut(seed, call, sync);
            assert!(
                content == b"before" || content == b"after",
                "seed {seed}, call {call}, sync {sync}: {:?}",
                content.escape_ascii().to_string()
            );
            assert!(!saved || !sync || content == b"after", "seed {seed}: a synced save is lost");
            were_seen[usize::from(content == b"after")] = true;
        }
    }
    assert_eq!(were_seen, [true, true]);
}
