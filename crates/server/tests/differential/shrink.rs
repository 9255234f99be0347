//! From a long history to the commands that matter: parts of it are left out as long as the replies still differ.

use super::compare::Comparer;
use super::generate::{Traits, expires_soon, takes_a_random_part};
use super::link::Pair;
use super::{Settings, Step, reset};
use std::time::{Duration, Instant};

/// Shrinking ends here, however short the history is.
const TIME_MAX: Duration = Duration::from_secs(10);

/// `steps`, whose last command's replies differ, without what is not needed for any reply to differ.
pub fn shrink(pair: &mut Pair, settings: &Settings, traits: Traits, steps: Vec<Step>) -> Vec<Step> {
    let started = Instant::now();
    let mut steps = about_the_same_keys(pair, settings, traits, steps);
    let mut chunk = steps.len() / 2;
    while chunk > 0 && started.elapsed() < TIME_MAX {
        let mut begin = 0;
        let mut removed_any = false;
        while begin + 1 < steps.len() && started.elapsed() < TIME_MAX {
            let end = (begin + chunk).min(steps.len() - 1);
            let without = [&steps[..begin], &steps[end..]].concat();
            match still_differs(pair, settings, traits, &without) {
                Some(shorter) => {
                    steps = shorter;
                    removed_any = true;
                }
                None => begin = end,
            }
        }
        if !removed_any || chunk > 1 {
            chunk /= 2;
        }
    }
    steps
}

/// The steps up to the first whose replies differ.
fn still_differs(pair: &mut Pair, settings: &Settings, traits: Traits, steps: &[Step]) -> Option<Vec<Step>> {
    if !is_comparable(steps) {
        return None;
    }
    reset(pair, settings);
    let mut comparer = Comparer::new(settings.same_encodings, traits);
    let mut differs_at = None;
    pair.run(steps, |at, command, here, there| {
        let agree = comparer.agree(command, here, there);
        if !agree {
            differs_at = Some(at);
        }
        agree
    });
    differs_at.map(|at| steps[..=at].to_vec())
}

/// Whether no step relies on another that was left out: what a server has chosen is deleted, what is to expire has
/// expired before it is looked at.
fn is_comparable(steps: &[Step]) -> bool {
    let is_short = |step: &Step| {
        let name = |args: &[Vec<u8>]| args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        step.command().is_some_and(|args| expires_soon(&name(args), args))
    };
    steps.iter().enumerate().all(|(at, step)| {
        let next = steps.get(at + 1);
        let chosen_from = step.command().and_then(|args| takes_a_random_part(args));
        let deleted = next
            .and_then(Step::command)
            .is_some_and(|args| args[0] == b"DEL" && args.get(1).map(Vec::as_slice) == chosen_from);
        let expired = || next.is_some_and(|next| is_short(next) || matches!(next, Step::Pause));
        (chosen_from.is_none() || deleted || next.is_none()) && (!is_short(step) || expired())
    })
}

/// The steps that name a key (or whatever else) that the last one names, if those suffice.
fn about_the_same_keys(pair: &mut Pair, settings: &Settings, traits: Traits, steps: Vec<Step>) -> Vec<Step> {
    let Some(Step::Command(last)) = steps.last() else { return steps };
    let looks_like_key = |arg: &&Vec<u8>| arg.contains(&b':');
    let keys: Vec<&Vec<u8>> = last.iter().filter(looks_like_key).collect();
    let names_one = |step: &Step| match step {
        Step::Command(args) => args.iter().any(|arg| keys.contains(&arg)) || args.len() <= 2,
        Step::Pause => true,
    };
    let named: Vec<Step> = steps.iter().filter(|step| names_one(step)).cloned().collect();
    still_differs(pair, settings, traits, &named).unwrap_or(steps)
}
