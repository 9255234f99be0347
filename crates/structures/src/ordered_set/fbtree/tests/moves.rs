//! Members whose scores change: those that stay in their leaf move no record, and change neither nodes nor the index.

use super::*;

fn filled(shape: Shape, count: usize, score: impl Fn(usize) -> f64) -> Run {
    let mut run = Run::new(1, Kind::Plain, shape);
    for id in 0..count {
        let member = format!("m{id:04}").into_bytes();
        let expected = run.model.insert(&member, score(id));
        assert_eq!(run.tree.insert(&member, score(id)), Ok(expected));
    }
    run.check();
    run
}

/// From every rank to every rank: before another of the same score, behind it, and between two scores; in one leaf and in
/// several.
#[test]
fn every_member_moves_to_every_place() {
    for (shape_at, shape) in SHAPES.into_iter().enumerate() {
        // Codes of no width, of one byte and of more; those that cannot express scores between.
        for (of_scores, by) in [(0.0, 1.0), (1.0, 0.5), (1.0, 1.0), (1e9, 1.0), (0.1, 0.05)] {
            for sign in [1.0, -1.0] {
                let count = sized([150, 110][shape_at], 12);
                let made = filled(shape, count, |id| sign * of_scores * id as f64);
                for from in 0..count {
                    for to in (from % 5..count).step_by(5) {
                        let mut tree = made.tree.clone();
                        let at = |rank| made.model.at(rank).expect("a rank below the count");
                        let ((member, _), (_, score)) = (at(from), at(to));
                        for score in [score, score + by, score - by] {
                            tree.insert(member, score).unwrap();
                            let others = made.model.pairs().filter(|&(other, _)| other != member);
                            let mut expected: Vec<_> = others.chain([(member, score)]).collect();
                            expected.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
                            assert!(
                                tree.ascending(ALL_RANKS).eq(expected),
                                "{from} to {to}: {of_scores} by {by}"
                            );
                        }
                        tree.check();
                    }
                }
            }
        }
    }
}

/// A leaderboard: members in order, each of which gains a little, repeatedly.
#[test]
fn scores_that_grow_a_little_move_no_record() {
    for shape in SHAPES {
        let count = sized(3_000, 60);
        let mut run = filled(shape, count, |id| id as f64);
        let (bytes, rounds) = (run.tree.memory_bytes(), sized(6_000, 60));
        for step in 0..rounds {
            let id = run.random.below(count as u64);
            let member = format!("m{id:04}").into_bytes();
            let score = run.model.scores[&member] + 1.0;
            assert_eq!(run.tree.insert(&member, score), Ok(run.model.insert(&member, score)));
            if step % sized(200, 20) == 0 {
                run.check();
            }
        }
        run.check();
        // Only members that moved to the next leaf took room there.
        assert!(run.tree.memory_bytes() < bytes + bytes / 4, "{} from {bytes}", run.tree.memory_bytes());
    }
}
