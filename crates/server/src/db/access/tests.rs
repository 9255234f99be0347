use super::queues::{Queue, Survey};
use super::*;

fn lfu() -> AccessPolicy {
    let mut policy = AccessPolicy::default();
    policy.follow(Meaning::Frequency, false, || 0, 0);
    policy
}

fn s3fifo() -> AccessPolicy {
    let mut policy = AccessPolicy::default();
    policy.follow(Meaning::Queue, false, || 0, 0);
    policy
}

fn key(hash: u64) -> NewKey {
    NewKey { hash, db_index: 0, expires: false }
}

fn given(frequency: u8) -> GivenAccess {
    GivenAccess { frequency: Some(frequency), idle_s: None }
}

fn argument(argument: u32) -> UsedKey {
    UsedKey { hash: 1, argument }
}

#[test]
fn a_counter_decays_with_the_minutes() {
    let mut policy = lfu();
    let access = policy.restored(key(1), given(10), 60_000);
    assert_eq!(policy.bits.frequency(access, 60_000), 10);
    assert_eq!(policy.bits.frequency(access, 4 * 60_000), 7);
    assert_eq!(policy.bits.frequency(access, 60 * 60_000), 0);
}

#[test]
fn a_command_counts_once_for_each_argument_however_often_it_looks() {
    let mut policy = lfu();
    let mut random = Random::new(1);
    let new = policy.initial(key(1), 0);
    let first = policy.used(argument(8), new, 0, &mut random);
    assert_eq!(policy.bits.frequency(first, 0), LFU_INITIAL + 1, "the first use is certain to count");
    assert_eq!(policy.used(argument(8), first, 0, &mut random), first);
    // A counter that has fallen is certain to rise too.
    let fallen = policy.restored(key(1), given(1), 0);
    let risen = policy.restored(key(1), given(2), 0);
    assert_eq!(policy.used(argument(8), fallen, 0, &mut random), fallen);
    assert_eq!(policy.used(argument(9), fallen, 0, &mut random), risen, "the same key named again");
    let other = UsedKey { hash: 2, argument: 9 };
    assert_eq!(policy.used(other, fallen, 0, &mut random), risen, "another key in the same place");
    assert_eq!(policy.used(argument(9), fallen, 0, &mut random), fallen, "two in turn");
    policy.counted = [None; 2];
    assert_eq!(policy.used(other, fallen, 0, &mut random), risen, "another command");
}

#[test]
fn idle_time_survives_the_clock_wrapping() {
    let mut policy = AccessPolicy::default();
    let before_wrap_ms = ((1i64 << 24) - 5) * 1000;
    let access = policy.initial(key(1), before_wrap_ms);
    assert_eq!(policy.bits.idle_ms(access, before_wrap_ms + 10_000), 10_000);
}

#[test]
fn uses_are_counted_up_to_three_and_once_for_each_argument() {
    let mut policy = s3fifo();
    let mut random = Random::new(1);
    let mut access = policy.initial(key(1), 0);
    for expected in [1, 2, 3, 3] {
        policy.counted = [None; 2];
        access = policy.used(argument(8), access, 0, &mut random);
        assert_eq!(policy.bits.place(access).uses, expected);
        assert_eq!(policy.used(argument(8), access, 0, &mut random), access, "the same command again");
        assert_eq!(policy.bits.place(access).queue, Queue::Small);
    }
}

#[test]
fn a_frequency_stands_for_each_place_and_brings_it_back() {
    let mut policy = s3fifo();
    for frequency in 5..=12 {
        let access = policy.restored(key(1), given(frequency), 0);
        assert_eq!(policy.bits.frequency(access, 0), u32::from(frequency));
    }
    for (frequency, expected) in [(0, 5), (4, 5), (13, 12), (255, 12)] {
        let access = policy.restored(key(1), given(frequency), 0);
        assert_eq!(policy.bits.frequency(access, 0), expected, "an LFU counter of {frequency}");
    }
    let idle = GivenAccess { frequency: None, idle_s: Some(100) };
    let access = policy.restored(key(1), idle, 0);
    assert_eq!(policy.bits.frequency(access, 0), 5, "an idle time says nothing");
}

#[test]
fn a_key_that_was_evicted_from_small_comes_back_to_main() {
    let mut policy = s3fifo();
    let place = |policy: &AccessPolicy, access| policy.bits.place(access).queue;
    for (db_index, queue) in [(0, Queue::Main), (1, Queue::Small)] {
        let access = policy.initial(key(7), 0);
        assert_eq!(place(&policy, access), Queue::Small);
        policy.evicted(7, 0, policy.bits.place(access));
        let access = policy.initial(NewKey { hash: 7, db_index, expires: false }, 0);
        assert_eq!(place(&policy, access), queue, "database {db_index}");
        if queue == Queue::Main {
            policy.evicted(7, 0, policy.bits.place(access));
            let access = policy.initial(key(7), 0);
            assert_eq!(place(&policy, access), Queue::Small, "the ghost notes only what small loses");
        }
    }
}

#[test]
fn ages_are_counted_in_created_keys_and_wrap_without_harm() {
    let mut policy = s3fifo();
    let arrival = |policy: &AccessPolicy, access| {
        let queues = policy.queues().unwrap();
        queues.arrival(queues.place_of(access))
    };
    for keys in [1usize, 5, 127, 128, 129, 1000] {
        policy.queues_mut().unwrap().count(keys);
        let first = policy.initial(key(1), 0);
        let before = arrival(&policy, first);
        for n in 0..keys {
            policy.queues_mut().unwrap().count(keys);
            policy.initial(key(n as u64), 0);
        }
        policy.queues_mut().unwrap().count(keys);
        let last = policy.initial(key(2), 0);
        let steps = arrival(&policy, last) - before;
        let expected = 128.min(keys as u64);
        assert!(steps.abs_diff(expected) <= 1 + expected / 6, "{steps} steps a turnover of {keys} keys");
    }
    let queues = policy.queues_mut().unwrap();
    queues.count(0);
    let old = policy.initial(key(1), 0);
    let first_arrival = arrival(&policy, old);
    // With no more than one key, each created key is a step.
    let mut youngest = first_arrival;
    for n in 1..(1u64 << 21) {
        policy.queues_mut().unwrap().count(0);
        let access = policy.initial(key(n), 0);
        assert!(arrival(&policy, access) > youngest, "{n}");
        youngest = arrival(&policy, access);
    }
    assert_eq!(arrival(&policy, old), first_arrival, "the oldest age that is told from a young one");
    policy.queues_mut().unwrap().count(0);
    policy.initial(key(1), 0);
    assert_eq!(arrival(&policy, old), first_arrival + (1 << 21), "one step more, and it is young");
}

#[test]
fn keys_of_the_policy_before_are_unused_keys_of_small_in_the_order_of_use() {
    // The seconds of the bits were 0 7 days, an hour and 2 seconds ago.
    for now_ms in [1_800_000_000_000, 1_770_000_000_000, (1 << 24) * 106_000 + 2000] {
        lru_keys_are_unused_keys_of_small(now_ms);
    }
}

#[test]
fn keys_of_lfu_are_unused_keys_of_small_whatever_their_counters() {
    let now_ms = 1_800_000_000_000;
    let mut policy = lfu();
    let ages_min = [0, 1, 60, 1440, 5 * 1440];
    let before: Vec<u32> = ages_min
        .iter()
        .flat_map(|age_min| [255, 5, 0].map(|counter| (age_min, counter)))
        .map(|(age_min, counter)| policy.restored(key(1), given(counter), now_ms - age_min * 60_000))
        .collect();
    policy.follow(Meaning::Queue, false, || 15, now_ms);
    let queues = policy.queues().unwrap();
    let places: Vec<_> = before.iter().map(|&access| queues.place_of(access)).collect();
    assert!(places.iter().all(|place| (place.queue, place.uses) == (Queue::Small, 0)), "{places:?}");
    let arrivals: Vec<u64> = places.iter().map(|&place| queues.arrival(place)).collect();
    assert!(arrivals.is_sorted_by(|a, b| a > b), "{arrivals:?}");
}

#[track_caller]
fn lru_keys_are_unused_keys_of_small(now_ms: i64) {
    let mut policy = AccessPolicy::default();
    let ages_s = [0, 1, 60, 3600, 86_400, 20 * 86_400];
    let before: Vec<u32> = ages_s.iter().map(|age_s| policy.initial(key(1), now_ms - age_s * 1000)).collect();
    policy.follow(Meaning::Queue, false, || 6, now_ms);
    let queues = policy.queues().unwrap();
    let places: Vec<_> = before.iter().map(|&access| queues.place_of(access)).collect();
    assert!(places.iter().all(|place| (place.queue, place.uses) == (Queue::Small, 0)), "{places:?}");
    let arrivals: Vec<u64> = places.iter().map(|&place| queues.arrival(place)).collect();
    assert!(arrivals.is_sorted_by(|a, b| a > b), "{arrivals:?}");
    assert_eq!((queues.figures().small_keys, queues.figures().main_keys), (6, 0));
    let new = policy.initial(key(9), now_ms);
    let queues = policy.queues().unwrap();
    assert!(queues.arrival(queues.place_of(new)) >= arrivals[0]);
    policy.follow(Meaning::LastUse, false, || 5, now_ms);
    assert!(policy.queues().is_none());
    assert_eq!(policy.bits.idle_ms(before[2], now_ms), 60_000, "bits not written since are as they were");
}

#[test]
fn the_count_of_small_follows_what_samples_show() {
    let mut policy = s3fifo();
    for hash in 0..1000 {
        policy.initial(key(hash), 0);
    }
    let queues = policy.queues_mut().unwrap();
    assert_eq!(queues.figures().small_keys, 1000);
    // Half of the keys are removed by commands, all of them of small; the rest moves to main.
    queues.count(500);
    for _ in 0..3000 {
        let mut survey = Survey::default();
        survey.add(500, 5, 1);
        queues.correct(&survey);
    }
    assert!(queues.figures().small_keys.abs_diff(100) <= 2, "{:?}", queues.figures());
    queues.count(0);
    assert_eq!((queues.figures().small_keys, queues.source()), (0, Queue::Small));
}
