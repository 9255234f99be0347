//! The sources of commands that combine collections: removing duplicates, and choosing the fastest algorithm.

/// Up to this number sources are compared pairwise; of more, the addresses are sorted.
const COMPARED_MAX: usize = 16;

/// The sources without duplicates, which have the same `address`, in the order of their first occurrence.
pub(super) fn distinct<T: Copy>(mut sources: Vec<T>, address: impl Fn(T) -> *const ()) -> Vec<T> {
    if sources.len() <= COMPARED_MAX {
        for at in (1..sources.len()).rev() {
            if sources[..at].iter().any(|before| address(*before) == address(sources[at])) {
                sources.remove(at);
            }
        }
        return sources;
    }
    let mut named: Vec<(usize, T)> = sources.into_iter().enumerate().collect();
    // The sort is stable: the first occurrence of each source comes first.
    named.sort_by_key(|&(_, source)| address(source));
    named.dedup_by(|next, first| address(next.1) == address(first.1));
    named.sort_unstable_by_key(|&(at, _)| at);
    named.into_iter().map(|(_, source)| source).collect()
}

/// Whether a difference visits fewer members by looking up each member of the first source in the others, instead of
/// removing the others' members from a table of the first. On average half of the others are looked up.
pub(super) fn is_difference_asked(
    first_len: usize,
    other_lens: impl ExactSizeIterator<Item = usize>,
) -> bool {
    let asking = first_len.saturating_mul(other_lens.len() + 1) / 2;
    asking <= first_len.saturating_add(other_lens.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn sources_stay_in_the_order_in_which_they_were_first_named() {
        let texts: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        for count in [1, 5, 16, 17, 40] {
            let named: Vec<&String> =
                (0..count * 3).map(|at| &texts[(at * 7 + at / count) % count]).collect();
            let mut expected: Vec<&String> = Vec::new();
            for &text in &named {
                if !expected.contains(&text) {
                    expected.push(text);
                }
            }
            assert_eq!(distinct(named, |text| ptr::from_ref(text).cast()), expected);
        }
    }
}
