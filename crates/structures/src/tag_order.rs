//! Elements in the order of their tags, one byte of each hash: growing and shrinking keep this order, so that a
//! scan can stop within a page.

pub(crate) const TAGS: usize = 256;

/// The tag before which `wanted` of `tags` lie, ignoring those below `first`; [`TAGS`] if there are no more.
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
