//! Open slots as one text, which snapshots for replicas have as an attribute: a replica that takes over goes on with them.
//!
//! ```text
//!  <slot>< (from) or > (to)<id>, ...
//! ```

use super::line::{Direction, OpenSlot};
use super::read::slot;
use crate::cluster_bus::{NodeId, SLOTS};

/// Name of the attribute.
pub const OPEN_SLOTS: &str = "cluster-slot-states";

/// Each slot may leave and come.
const OPEN_SLOTS_MAX: usize = 2 * SLOTS as usize;

/// Returns the text of these slots.
pub fn open_slots_text(open_slots: &[OpenSlot]) -> String {
    let texts = open_slots
        .iter()
        .map(|OpenSlot { slot, direction, node }| format!("{slot}{}{node},", direction.sign()));
    texts.collect()
}

/// Reads such a text; `None` if it is invalid.
pub fn read_open_slots(text: &[u8]) -> Option<Vec<OpenSlot>> {
    let mut open_slots = Vec::new();
    let mut rest = std::str::from_utf8(text).ok()?;
    while !rest.is_empty() {
        let (one, behind) = rest.split_once(',')?;
        let at = one.find(['<', '>'])?;
        let direction = match one.as_bytes()[at] {
            b'<' => Direction::Importing,
            _ => Direction::Migrating,
        };
        let node = NodeId::parse(&one.as_bytes()[at + 1..])?;
        if open_slots.len() == OPEN_SLOTS_MAX {
            return None;
        }
        open_slots.push(OpenSlot { slot: slot(&one[..at])?, direction, node });
        rest = behind;
    }
    Some(open_slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn open_slots_are_read_as_they_are_written() {
        let node = NodeId::parse(ID.as_bytes()).unwrap();
        let open = |slot, direction| OpenSlot { slot, direction, node };
        let all = [open(0, Direction::Importing), open(16_383, Direction::Migrating)];
        let text = open_slots_text(&all);
        assert_eq!(text, format!("0<{ID},16383>{ID},"));
        assert_eq!(read_open_slots(text.as_bytes()).unwrap(), all);
        assert_eq!(read_open_slots(b"").unwrap(), []);
        for len in 1..text.len() {
            let read = read_open_slots(&text.as_bytes()[..len]);
            assert_eq!(read.is_some(), len == text.len() / 2 - 2, "{len}");
        }
    }

    #[test]
    fn what_no_server_writes_is_refused() {
        for text in ["16384", "-1", "", "x", "1<"] {
            assert_eq!(read_open_slots(format!("{text}<{ID},").as_bytes()), None, "{text}");
        }
        for text in [format!("1{ID},"), format!("1<{},", &ID[1..]), format!("1<{ID}0,"), format!("1<{ID},,")]
        {
            assert_eq!(read_open_slots(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read_open_slots(b"\xff"), None);
        assert_eq!(read_open_slots(format!("1<{ID},").repeat(OPEN_SLOTS_MAX + 1).as_bytes()), None);
    }
}
