//! The whole executor: commands, settings, payloads, time, all chosen by the fuzzer's bytes. See
//! `crates/server/tests/executor/main.rs`, which makes the same choices from seeds.
#![no_main]
#![allow(dead_code, reason = "what only the tests of these files use")]

#[path = "../../crates/server/tests/differential/arguments.rs"]
mod arguments;
#[path = "../../crates/server/tests/executor/commands.rs"]
mod commands;
#[path = "../../crates/server/tests/executor/payload.rs"]
mod payload;
#[path = "../../crates/server/tests/differential/random.rs"]
mod random;
#[path = "../../crates/server/tests/executor/run.rs"]
mod run;
#[path = "../../crates/server/tests/executor/settings.rs"]
mod settings;
#[path = "../../crates/server/tests/differential/words.rs"]
mod words;
#[path = "../../crates/server/tests/executor/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

type Command = Vec<Vec<u8>>;

const STEPS_MAX: usize = 2000;

fuzz_target!(init: world::enter_directory(), |bytes: &[u8]| {
    if !bytes.is_empty() {
        run::Run::new(random::Random::from_bytes(bytes)).go(STEPS_MAX);
    }
});
