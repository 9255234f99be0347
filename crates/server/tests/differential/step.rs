//! What a generator of commands makes.

/// Name and arguments.
pub type Command = Vec<Vec<u8>>;

#[derive(Clone, Debug)]
pub enum Step {
    Command(Command),
    /// Until what was to expire has expired.
    Pause,
}

impl Step {
    pub fn words(words: &[&str]) -> Step {
        Step::Command(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    }

    pub fn command(&self) -> Option<&Command> {
        match self {
            Step::Command(command) => Some(command),
            Step::Pause => None,
        }
    }
}
