//! The commands `:set` and `:get`, typed or in the preferences file.

use crate::program::Program;

/// A parsed command.
#[derive(Debug, PartialEq)]
pub enum Preference {
    Hints(bool),
    /// Replies that are longer than the screen go through a pager.
    Pager(bool),
    Color(bool),
    /// Print whether there are subscriptions.
    ShowSubscribed,
}

/// Parses a command. `Err`: the error message.
pub fn read(words: &[Vec<u8>], is_typed: bool) -> Result<Preference, String> {
    let program = Program::current();
    let word = |index: usize| words.get(index).map(|word| String::from_utf8_lossy(word).into_owned());
    let origin = if is_typed { String::new() } else { format!("{}: ", program.preferences_name()) };
    let name = program.name;
    let command = word(0).unwrap_or_default();
    match (command.to_lowercase().as_str(), word(1)) {
        (":set", Some(what)) => match what.to_lowercase().as_str() {
            "hints" => Ok(Preference::Hints(true)),
            "nohints" => Ok(Preference::Hints(false)),
            "pager" => Ok(Preference::Pager(true)),
            "nopager" => Ok(Preference::Pager(false)),
            "color" => Ok(Preference::Color(true)),
            "nocolor" => Ok(Preference::Color(false)),
            _ => Err(format!("{origin}unknown {name} preference '{what}'\n")),
        },
        (":get", Some(what)) if what.eq_ignore_ascii_case("pubsub") => Ok(Preference::ShowSubscribed),
        (":get", Some(what)) => Err(format!("{origin}unknown {name} get option '{what}'\n")),
        _ => Err(format!("{origin}unknown {name} internal command '{command}'\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read() {
        let read = |line: &str, is_typed| {
            super::read(&wire::request::split_args(line.as_bytes()).unwrap(), is_typed)
        };
        assert_eq!(read(":set nohints", true), Ok(Preference::Hints(false)));
        assert_eq!(read(":SET Pager", false), Ok(Preference::Pager(true)));
        assert_eq!(read(":get pubsub", true), Ok(Preference::ShowSubscribed));
        assert!(read(":set x", true).unwrap_err().starts_with("unknown "));
        assert!(read(":set x", false).unwrap_err().contains("rc: unknown "));
        assert!(read(":go", true).unwrap_err().contains("internal command ':go'"));
    }
}
