//! Wildcards in the names that CONFIG GET asks for.

/// `*`, `?`, `[a-c]`, `[^a-c]` and `\x` against a whole name, in any case.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    let (mut pattern_at, mut name_at) = (0, 0);
    // Behind the last `*`, and how much of the name it stands for up to now. Going back only to the last one is
    // enough, and keeps hostile patterns from taking exponential time.
    let mut star: Option<(usize, usize)> = None;
    while name_at < name.len() {
        let rest = &pattern[pattern_at..];
        if rest.first() == Some(&b'*') {
            pattern_at += 1;
            star = Some((pattern_at, name_at));
        } else if let Some(taken) = one_byte(rest, name[name_at].to_ascii_lowercase()) {
            pattern_at += taken;
            name_at += 1;
        } else if let Some((behind, until)) = star {
            (pattern_at, name_at) = (behind, until + 1);
            star = Some((behind, until + 1));
        } else {
            return false;
        }
    }
    pattern[pattern_at..].iter().all(|byte| *byte == b'*')
}

/// The length of what stands for one byte at the start of the pattern, if it stands for `byte`.
fn one_byte(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', class @ ..] => {
            let (found, taken) = in_class(class, byte);
            found.then_some(1 + taken)
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Whether a class holds the byte, and the class's length behind its `[`.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}
