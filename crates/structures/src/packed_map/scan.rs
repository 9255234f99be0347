//! Scanning a table some elements at a time, by cursors that are independent of its size.
//!
//! ```text
//!  cursor: | position, 42 bits | tag, 8 bits |
//!          tag 0:  the page that covers the position is still to come, and all after it
//!          else:   position = start of a page + half its interval; of that page, tags below are done
//! ```
//!
//! Pages are visited in the order of their positions (see [`super::directory`]), the elements of a page in the
//! order of their tags; neither growing nor shrinking changes these orders. The lowest bit of the position within
//! a page gives the length of the page's interval: of a page that was split since, both halves are done up to the
//! tag; one that was merged with another is visited from its beginning again.

use super::directory::CURSOR_BITS;
use super::table::{Format, Table, VisitColumns};
use crate::tag_order::{TAGS, tags_end};
use crate::work;

const TAG_BITS: u32 = 8;

/// Upper limit of cursors, exclusive.
pub const CURSORS_END: u64 = 1 << (CURSOR_BITS + TAG_BITS);

/// Where a scan continues: the start of a page, or a tag within a page of this depth.
struct Place {
    position: u64,
    inside: Option<(u8, u32)>,
}

impl Place {
    fn of(cursor: u64) -> Place {
        let position = cursor >> TAG_BITS & ((1 << CURSOR_BITS) - 1);
        let tag = cursor as u8;
        if tag == 0 || position == 0 {
            return Place { position, inside: None };
        }
        let half = position & position.wrapping_neg();
        Place { position: position - half, inside: Some((tag, CURSOR_BITS - 1 - half.trailing_zeros())) }
    }
}

impl<F: Format> Table<F> {
    /// Visits `wanted` elements of the page at `cursor`, and those whose tags equal the last one's; all remaining
    /// ones if there are no more. Returns the next cursor, 0 at the end.
    pub(super) fn scan(&self, cursor: u64, wanted: usize, visit: &mut VisitColumns<'_>) -> u64 {
        if self.directory.len() == 0 {
            return 0;
        }
        work::visited(1);
        let place = Place::of(cursor);
        let index = self.directory.page_at_cursor(place.position);
        let page = self.directory.page(index);
        let depth = self.directory.shape().depth_of(index);
        let first = match place.inside {
            Some((tag, then)) if depth >= then => usize::from(tag),
            _ => 0,
        };
        let end =
            if first == 0 && page.count() <= wanted { TAGS } else { tags_end(page.tags(), first, wanted) };
        for slot in page.slots() {
            if (first..end).contains(&usize::from(page.tag(slot.index))) {
                let (key, value) = F::read(page.record(slot));
                visit(key, value, page.expiry(slot.index));
            }
        }
        let (start, next) = self.directory.cursor_range(index);
        if end == TAGS {
            return next << TAG_BITS;
        }
        let half = 1 << (CURSOR_BITS - 1 - depth);
        (start + half) << TAG_BITS | end as u64
    }
}
