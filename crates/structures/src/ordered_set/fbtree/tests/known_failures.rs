//! The known failures of trees like this one, a test each.

use super::super::leaf::NO_LEAF;
use super::*;

const TALL: Shape = SHAPES[1];

fn numbered(count: usize, score: impl Fn(usize) -> f64) -> FbTree {
    let mut tree = FbTree::with_shape(SEED, TALL);
    for i in 0..count {
        tree.insert(format!("{i:06}").as_bytes(), score(i)).unwrap();
    }
    tree.check();
    tree
}

fn remove_ranks(tree: &mut FbTree, range: RankRange) -> Vec<String> {
    let mut removed = Vec::new();
    tree.remove_range(range, &mut |member, _| removed.push(String::from_utf8(member.to_vec()).unwrap()));
    tree.check();
    removed
}

fn name(tree: &FbTree, rank: usize) -> String {
    String::from_utf8(tree.at(rank).unwrap().0.to_vec()).unwrap()
}

#[test]
fn a_run_of_equal_scores_over_several_leaves_with_exclusive_bounds() {
    let third = sized(1_000, 150);
    let tree = numbered(3 * third, |i| (1 + i / third) as f64);
    use ScoreBound::{Exclusive, Inclusive};
    assert_eq!(tree.score_range(Exclusive(1.0), Exclusive(3.0)), third..2 * third);
    assert_eq!(tree.score_range(Inclusive(1.0), Exclusive(2.0)), 0..third);
    assert_eq!(tree.score_range(Exclusive(2.0), Inclusive(3.0)), 2 * third..3 * third);
    assert_eq!(tree.score_range(Exclusive(1.0), Exclusive(2.0)), third..third);
    assert!(tree.score_range(Exclusive(2.0), Exclusive(2.0)).is_empty());
    assert_eq!(tree.score_range(Inclusive(2.0), Inclusive(2.0)), third..2 * third);
}

#[test]
fn whole_leaves_go_while_both_boundary_leaves_stay_untouched() {
    let count = sized(2_000, 600);
    let mut tree = numbered(count, |i| i as f64);
    let mut starts = vec![0];
    let mut leaf = tree.first;
    while tree.pages.leaves[leaf].next != NO_LEAF {
        starts.push(starts.last().unwrap() + tree.pages.leaves[leaf].count());
        leaf = tree.pages.leaves[leaf].next;
    }
    assert!(starts.len() > sized(10, 6));
    let (from, to) = (starts[2], starts[starts.len() - 3]);
    let removed = remove_ranks(&mut tree, from..to);
    assert_eq!(removed.len(), to - from);
    assert_eq!((name(&tree, from - 1), name(&tree, from)), (format!("{:06}", from - 1), format!("{to:06}")));
    assert_eq!(tree.len(), count - removed.len());
}

#[test]
fn every_range_of_leaf_borders_can_go() {
    for from in (0..600).step_by(37) {
        for to in (from..=600).step_by(41) {
            if cfg!(miri) && (from, to) != (37, 119) {
                continue;
            }
            let mut tree = numbered(600, |i| (i / 3) as f64);
            let removed = remove_ranks(&mut tree, from..to);
            assert_eq!(removed, (from..to).map(|i| format!("{i:06}")).collect::<Vec<_>>());
            let left: Vec<usize> = (0..from).chain(to..600).collect();
            assert_eq!(tree.len(), left.len());
            for (rank, i) in left.iter().enumerate().step_by(29) {
                assert_eq!(tree.rank(format!("{i:06}").as_bytes()), Some((rank, (i / 3) as f64)));
            }
        }
    }
}

#[test]
fn a_lower_bound_past_the_end_of_a_child() {
    let count = sized(2_000, 200);
    let tree = numbered(count, |i| (i * 10) as f64);
    for i in 0..count {
        let between = ScoreBound::Inclusive((i * 10 + 5) as f64);
        assert_eq!(tree.score_range(between, ScoreBound::Inclusive(f64::INFINITY)), i + 1..count);
    }
    let above = ScoreBound::Inclusive(1e9);
    assert_eq!(tree.score_range(above, ScoreBound::Inclusive(f64::INFINITY)), count..count);
}

#[test]
fn the_common_prefix_changes_when_the_first_or_last_anchor_goes() {
    // One member far below and one far above share few bytes with the many between.
    let (count, edge) = (sized(2_000, 600), sized(200, 120));
    let mut tree = numbered(count, |i| match i {
        0 => -1e200,
        i if i == count - 1 => 1e200,
        _ => 1e6 + i as f64,
    });
    let prefix_before = tree.inners[tree.root].prefix().len();
    let middle = tree.at(count / 2).map(|(member, _)| member.to_vec()).unwrap();
    tree.remove(b"000000").unwrap();
    tree.check();
    tree.remove(format!("{:06}", count - 1).as_bytes()).unwrap();
    tree.check();
    // Without the outliers' leaves, anchors share more.
    remove_ranks(&mut tree, 0..edge);
    let top = tree.len();
    remove_ranks(&mut tree, top - edge..top);
    assert!(tree.inners[tree.root].prefix().len() > prefix_before, "the prefix lengthens");
    assert_eq!(tree.rank(&middle).map(|(rank, _)| rank), Some(count / 2 - edge - 1));
    // And it shortens again.
    tree.insert(b"low", -5.0).unwrap();
    tree.insert(b"high", 1e300).unwrap();
    tree.check();
    assert_eq!(tree.rank(&middle).map(|(rank, _)| rank), Some(count / 2 - edge));
}

#[test]
fn prefixes_longer_than_a_node_can_hold() {
    for prefix_len in [30, 31, 32, 33, 100, 240, 300] {
        let mut run = Run::new(prefix_len as u64, Kind::Plain, TALL);
        for _ in 0..sized(300, 12) {
            let id = run.random.below(10_000);
            let member = [vec![b'p'; prefix_len], id.to_string().into_bytes()].concat();
            assert_eq!(run.tree.insert(&member, 1.0), Ok(run.model.insert(&member, 1.0)));
        }
        run.check();
        for (rank, (_, member)) in run.model.ordered.iter().enumerate() {
            assert_eq!(run.tree.rank(member), Some((rank, 1.0)));
        }
    }
}

#[test]
#[should_panic(expected = "never NaN")]
fn nan_scores_are_refused() {
    let _ = FbTree::new(SEED).insert(b"m", f64::NAN);
}

#[test]
#[should_panic(expected = "never NaN")]
fn nan_bounds_are_refused() {
    FbTree::new(SEED).score_range(ScoreBound::Inclusive(f64::NAN), ScoreBound::Inclusive(1.0));
}

#[test]
fn infinite_bounds_are_ordinary_bounds() {
    use ScoreBound::{Exclusive, Inclusive};
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    let tenth = sized(100, 20);
    let tree = numbered(10 * tenth, |i| match i / tenth {
        0..3 => low,
        7.. => high,
        _ => i as f64,
    });
    assert_eq!(tree.score_range(Inclusive(low), Inclusive(high)), 0..10 * tenth);
    assert_eq!(tree.score_range(Exclusive(low), Exclusive(high)), 3 * tenth..7 * tenth);
    assert_eq!(tree.score_range(Inclusive(low), Inclusive(low)), 0..3 * tenth);
    assert_eq!(tree.score_range(Inclusive(high), Inclusive(high)), 7 * tenth..10 * tenth);
    assert!(tree.score_range(Exclusive(high), Inclusive(high)).is_empty());
    assert!(tree.score_range(Inclusive(low), Exclusive(low)).is_empty());
    assert!(tree.score_range(Inclusive(high), Inclusive(low)).is_empty());
}

#[test]
fn negative_zero_is_zero() {
    let mut tree = FbTree::new(SEED);
    assert_eq!(tree.insert(b"b", 0.0), Ok(Insertion::Added));
    assert_eq!(tree.insert(b"a", -0.0), Ok(Insertion::Added));
    assert_eq!(tree.insert(b"b", -0.0), Ok(Insertion::Unchanged));
    assert_eq!(tree.at(0).unwrap().0, b"a");
    assert!(tree.score(b"a").unwrap().is_sign_positive());
    let zero = ScoreBound::Inclusive(-0.0);
    assert_eq!(tree.score_range(zero, zero), 0..2);
    assert!(tree.score_range(ScoreBound::Exclusive(-0.0), ScoreBound::Inclusive(0.0)).is_empty());
}

#[test]
fn lex_bounds_of_bytes_0xff() {
    let mut tree = FbTree::with_shape(SEED, TALL);
    let mut members: Vec<Vec<u8>> = Vec::new();
    for len in (0..=300).step_by(sized(1, 30)) {
        members.push(vec![0xff; len]);
        members.push([vec![0xff; len], vec![0]].concat());
    }
    members.sort();
    members.dedup();
    for member in &members {
        tree.insert(member, 1.0).unwrap();
    }
    tree.check();
    for member in members.iter().chain([&vec![0xff; 301], &vec![0xff; 1_000]]) {
        let below = members.iter().filter(|other| *other < member).count();
        let through = members.iter().filter(|other| *other <= member).count();
        let all = members.len();
        assert_eq!(tree.lex_range(LexBound::Inclusive(member), LexBound::Max), below..all);
        assert_eq!(tree.lex_range(LexBound::Exclusive(member), LexBound::Max), through..all);
        assert_eq!(tree.lex_range(LexBound::Min, LexBound::Inclusive(member)), 0..through);
        assert_eq!(tree.lex_range(LexBound::Min, LexBound::Exclusive(member)), 0..below);
    }
    assert!(tree.lex_range(LexBound::Max, LexBound::Min).is_empty());
}

#[test]
fn the_last_member_of_first_middle_and_last_leaves_goes() {
    for which in 0..3 {
        let (count, removals) = (sized(1_500, 240), sized(60, 4));
        let mut tree = numbered(count, |i| i as f64);
        for _ in 0..removals {
            let mut leaves = vec![tree.first];
            while tree.pages.leaves[*leaves.last().unwrap()].next != NO_LEAF {
                leaves.push(tree.pages.leaves[*leaves.last().unwrap()].next);
            }
            let leaf = [leaves[0], leaves[leaves.len() / 2], leaves[leaves.len() - 1]][which];
            let slot = tree.pages.leaves[leaf].count() - 1;
            let member = tree.pages.key(leaf, slot).member.to_vec();
            assert!(tree.remove(&member).is_some());
            tree.check();
            assert_eq!(tree.score(&member), None);
        }
        assert_eq!(tree.len(), count - removals);
    }
}

#[test]
fn a_leaf_is_emptied_member_by_member() {
    let (count, kept) = (sized(1_500, 200), sized(1_200, 197));
    for rank in [0, count / 2, count - 1] {
        let mut tree = numbered(count, |i| i as f64);
        let mut left = count;
        while left > kept {
            let (member, _) =
                tree.at(rank.min(left - 1)).map(|(member, score)| (member.to_vec(), score)).unwrap();
            tree.remove(&member).unwrap();
            left -= 1;
            tree.check();
        }
    }
}

#[test]
fn a_score_update_crosses_leaves() {
    let mut run = Run::new(1, Kind::Plain, TALL);
    let count = sized(1_500, 200);
    for i in 0..count {
        let member = format!("{i:06}").into_bytes();
        assert_eq!(run.tree.insert(&member, i as f64), Ok(run.model.insert(&member, i as f64)));
    }
    for i in (0..count).step_by(sized(50, 80)) {
        for to in [i as f64 + count as f64 / 2.0 + 0.5, -1.0, 2_000.0, i as f64 + 0.5, i as f64] {
            let member = format!("{i:06}").into_bytes();
            assert_eq!(run.tree.insert(&member, to), Ok(run.model.insert(&member, to)));
            run.tree.check();
        }
    }
    run.check();
}

#[test]
fn an_outlier_widens_a_full_score_column() {
    // Very short members and equal scores fill a leaf with hundreds; one odd score then needs eight bytes for
    // each of its neighbours.
    let mut tree = FbTree::new(SEED);
    let count = sized(3_000, 600) as u16;
    for i in 0..count {
        tree.insert(&i.to_be_bytes(), 5.0).unwrap();
    }
    for (i, score) in [5.000_000_1, 4.999_999_9, -3.3, 1e-300, f64::INFINITY].into_iter().enumerate() {
        tree.insert(&[i as u8], score).unwrap();
        tree.insert(&((i as u16) * (count / 6)).to_be_bytes(), score).unwrap();
        tree.check();
    }
}

#[test]
fn members_out_of_line_are_kept_and_freed() {
    let mut tree = FbTree::new(SEED);
    let before = tree.memory_bytes();
    let len = if cfg!(miri) { 10_000 } else { 3 << 20 };
    let long = vec![7u8; len];
    for i in 0..20u8 {
        tree.insert(&[&[i], &long[..]].concat(), f64::from(i)).unwrap();
    }
    tree.check();
    assert!(tree.memory_bytes() > 20 * len);
    assert_eq!(tree.at(3).map(|(member, _)| (member.len(), member[0])), Some((len + 1, 3)));
    assert_eq!(tree.rank(&[&[5], &long[..]].concat()), Some((5, 5.0)));
    assert_eq!(tree.remove_range(0..19, &mut |_, _| {}), 19);
    tree.check();
    tree.remove(&[&[19], &long[..]].concat()).unwrap();
    assert_eq!(tree.memory_bytes(), before);
}

#[test]
fn a_full_set_refuses_new_members_and_loses_nothing() {
    let mut tree = numbered(3, |i| i as f64);
    tree.len = u32::MAX;
    assert_eq!(tree.insert(b"new", 1.0), Err(Full));
    assert_eq!(tree.insert(b"000001", 1.5), Ok(Insertion::Updated { previous: 1.0 }));
    tree.len = 3;
    tree.check();
    assert_eq!(tree.score(b"000001"), Some(1.5));
}
