//! Elements in the order of their tags, a byte of each one's hash: an order that growing and shrinking keep, in
//! which a scan can stop within a page.

pub(crate) const TAGS: usize = 256;

/// The tag before which `wanted` of `tags` lie, those below `first` left out; [`TAGS`] if none is left from there.
pub(crate) fn tags_end(tags: &[u8], first: usize, wanted: usize) -> usize {
    let mut counts = [0u16; TAGS];
    tags.iter().for_each(|&tag| counts[usize::from(tag)] += 1);
    let mut left = wanted.max(1);
    let mut tags = (first..TAGS).filter(|&tag| counts[tag] > 0);
    for tag in tags.by_ref() {
        left = left.saturating_sub(usize::from(counts[tag]));
        if left == 0 {
            break;
        }
    }
    tags.next().unwrap_or(TAGS)
}
