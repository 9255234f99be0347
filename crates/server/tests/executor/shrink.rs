//! A failing run without the steps that it fails without.

use super::Command;
use super::run::{Beginning, replay};
use super::world::Step;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// Maximum number of replays for shrinking a run.
const REPLAYS_MAX: usize = 600;

fn fails(beginning: &Beginning) -> bool {
    catch_unwind(AssertUnwindSafe(|| replay(beginning))).is_err()
}

/// The steps that lead to the failure, as few as can be found.
pub fn report(beginning: &Beginning) -> String {
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let mut beginning = beginning.clone();
    let mut text = String::new();
    if fails(&beginning) {
        shorten(&mut beginning);
    } else {
        writeln!(text, "(not when everything is looked at after each step)").unwrap();
    }
    set_hook(hook);
    writeln!(text, "zset-index {:?}", beginning.config.zset_index).unwrap();
    for step in &beginning.steps {
        writeln!(text, "{}", shown(step)).unwrap();
    }
    // For its message, which the hook prints.
    fails(&beginning);
    text
}

fn shorten(beginning: &mut Beginning) {
    let mut left = REPLAYS_MAX;
    let mut size = beginning.steps.len() / 2;
    while size > 0 && left > 0 {
        let mut at = 0;
        while at < beginning.steps.len() && left > 0 {
            let end = (at + size).min(beginning.steps.len());
            let mut shorter = beginning.clone();
            shorter.steps.drain(at..end);
            left -= 1;
            if fails(&shorter) { *beginning = shorter } else { at = end }
        }
        size /= 2;
    }
}

/// Words as redis-cli takes them.
pub fn shown(step: &Step) -> String {
    let word = |arg: &Vec<u8>| match arg.len() {
        0..300 => format!("\"{}\"", arg.escape_ascii()),
        len => format!("\"{}...({len} bytes)\"", arg[..40].escape_ascii()),
    };
    match step {
        Step::Commands { client, commands } => {
            let command = |args: &Command| args.iter().map(word).collect::<Vec<_>>().join(" ");
            format!("@{client} {}", commands.iter().map(command).collect::<Vec<_>>().join(" | "))
        }
        Step::Advance { ms } => format!("advance {ms}"),
        Step::Leave { client } => format!("@{client} leaves"),
    }
}
