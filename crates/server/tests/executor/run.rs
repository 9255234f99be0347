//! One run: a world with settings of its own, and random steps until they end.

use super::commands::Generator;
use super::random::Random;
use super::settings;
use super::world::{Step, World};
use wire::response::Value;

/// Between two looks at everything.
const STEPS_PER_CHECK: usize = 25;

pub struct Run {
    pub world: World,
    generator: Generator,
    /// What has been done so far, to be done again when it fails.
    pub beginning: Beginning,
}

/// Everything that a run depends on.
#[derive(Clone)]
pub struct Beginning {
    pub config: server::config::Config,
    pub steps: Vec<Step>,
}

impl Run {
    pub fn new(mut random: Random) -> Self {
        let config = settings::config(&mut random);
        let changes = settings::changes(&mut random);
        let steps: Vec<Step> = changes.into_iter().map(|args| Step::command(0, args)).collect();
        let mut world = World::new(config.clone());
        steps.iter().for_each(|step| drop(world.perform(step)));
        Run { world, generator: Generator::new(random), beginning: Beginning { config, steps } }
    }

    /// Up to `count` steps, fewer if the source of choices is used up. Steps are noted before they are taken.
    pub fn go(&mut self, count: usize) {
        for done in 0..count {
            if self.generator.source.random.is_used_up() {
                break;
            }
            let step = self.generator.step();
            self.beginning.steps.push(step.clone());
            let received = self.world.perform(&step);
            if is_dump(&step) {
                for value in &received {
                    if let Value::Bulk(payload) = value {
                        self.generator.keep_payload(payload);
                    }
                }
            }
            if done % STEPS_PER_CHECK == 0 {
                self.world.check();
            }
        }
        self.world.check();
        self.world.check_file();
    }
}

fn is_dump(step: &Step) -> bool {
    matches!(step, Step::Commands { commands, .. } if commands.len() == 1 && commands[0][0] == b"DUMP")
}

/// Does again what a run has done. Everything is looked at after each step.
pub fn replay(beginning: &Beginning) {
    let mut world = World::new(beginning.config.clone());
    for step in &beginning.steps {
        world.perform(step);
        world.check();
    }
    world.check_file();
}
