//! Names that a mistyped word was probably meant to be.

/// Beginnings shorter than this many bytes are those of too many names.
const BEGINNING_BYTES_MIN: usize = 4;
/// Longer words are like no name; comparing takes time in proportion to their length.
const WORD_BYTES_MAX: usize = 128;

/// Returns the name that `word` was probably meant to be: the one with the fewest typing errors, one for each three
/// letters, or else the shortest that begins with it. Case does not matter. `None`: no name is near, or `word` is one.
pub fn meant<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let mut nearest: Option<(usize, &str)> = None;
    let mut longer: Option<&str> = None;
    for name in names {
        let lower = name.to_lowercase();
        // Two letters in the wrong order are one error.
        let errors = strsim::osa_distance(&word, &lower);
        if errors == 0 {
            return None;
        }
        if 3 * errors <= letters + 1 && nearest.is_none_or(|(fewest, _)| errors < fewest) {
            nearest = Some((errors, name));
        }
        if lower.starts_with(&word) && longer.is_none_or(|found| name.len() < found.len()) {
            longer = Some(name);
        }
    }
    let longer = longer.filter(|_| word.len() >= BEGINNING_BYTES_MIN);
    nearest.map(|(_, name)| name).or(longer)
}

#[cfg(test)]
mod tests {
    use super::meant;

    const NAMES: [&str; 8] =
        ["maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "GET", "SET", "GETEX", "a"];

    fn of(word: &str) -> Option<&'static str> {
        meant(word, NAMES)
    }

    #[test]
    fn typing_errors_are_seen_through() {
        for (word, name) in [
            ("maxmemry", "maxmemory"),
            ("MaxMemoryy", "maxmemory"),
            ("maxmemory_policy", "maxmemory-policy"),
            ("apendonyl", "appendonly"),
            ("gte", "GET"),
            ("gtex", "GETEX"),
            ("se", "SET"),
        ] {
            assert_eq!(of(word), Some(name), "{word}");
        }
    }

    #[test]
    fn beginnings_become_the_shortest_name() {
        assert_eq!(of("maxmem"), Some("maxmemory"));
        assert_eq!(of("appendf"), Some("appendfsync"));
        // Three letters say too little.
        assert_eq!(of("app"), None);
    }

    #[test]
    fn what_is_far_from_all_names_or_one_of_them_is_left_alone() {
        for word in ["", "x", "b", "timeout", "get", "appendonly", "maxclients"] {
            assert_eq!(of(word), None, "{word}");
        }
        assert_eq!(meant("x", []), None);
    }
}
