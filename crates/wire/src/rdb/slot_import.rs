//! Slots of a cluster that a node is being sent, as RDB files of Valkey from version 80 on name them: their keys in the file
//! are part of what another node owns until it has handed the slots over.
//!
//! ```text
//!  243 (the opcode, read by the caller)   name, a string of 40   number of ranges   for each: first slot, last slot
//! ```

use super::read::{ReadError, Reader};
use super::write::Writer;
use crate::cluster_bus::{NodeId, SLOTS, SlotSet};
use crate::convert::short_len;
use std::io::{self, Read, Write};

/// Slots that a node is being sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotImport {
    /// Name of the migration.
    pub name: NodeId,
    /// The slots.
    pub slots: SlotSet,
}

/// Length of a job's name, which is written like a node's id.
const NAME_LEN: usize = 40;

impl SlotImport {
    /// Reads an import behind its opcode. Its slots occur once each.
    pub fn read<R: Read>(reader: &mut Reader<R>) -> Result<SlotImport, ReadError> {
        let text = reader.string()?.to_vec();
        let Some(name) = NodeId::parse(&text) else {
            return Err(ReadError::Corrupt(match text.len() {
                NAME_LEN => "Invalid slot import job name in RDB",
                _ => "Invalid slot import job name length in RDB",
            }));
        };
        let (ranges, mut slots) = (reader.length()?, SlotSet::new());
        if !(1..=u64::from(SLOTS)).contains(&ranges) {
            return Err(ReadError::Corrupt("Invalid number of slot import ranges in RDB"));
        }
        for _ in 0..ranges {
            let (first, last) = (reader.length()?, reader.length()?);
            if first > last || last >= u64::from(SLOTS) {
                return Err(ReadError::Corrupt("Invalid slot import range in RDB"));
            }
            let mut range = (first..=last).filter_map(|slot| u16::try_from(slot).ok());
            if !range.all(|slot| slots.insert(slot)) {
                return Err(ReadError::Corrupt("Overlapping slot import ranges in RDB"));
            }
        }
        Ok(SlotImport { name, slots })
    }

    /// Writes the import behind its opcode.
    pub fn write<W: Write>(&self, writer: &mut Writer<W>) -> io::Result<()> {
        writer.string(self.name.as_str().as_bytes())?;
        writer.length(short_len(self.slots.ranges().count()).into())?;
        for (first, last) in self.slots.ranges() {
            writer.length(first.into())?;
            writer.length(last.into())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "0123456789abcdef0123456789abcdef01234567";

    fn written(work: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), false, false);
        work(&mut writer).unwrap();
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<SlotImport, ReadError> {
        let mut reader = Reader::new(bytes);
        let import = SlotImport::read(&mut reader)?;
        assert!(reader.is_at_end()?, "all is read");
        Ok(import)
    }

    fn import(slots: &[std::ops::RangeInclusive<u16>]) -> SlotImport {
        SlotImport {
            name: NodeId::parse(NAME.as_bytes()).unwrap(),
            slots: slots.iter().cloned().flatten().collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for slots in [&[0..=0][..], &[0..=16_383], &[1..=2, 4..=5, 64..=200, 16_383..=16_383]] {
            let import = import(slots);
            let bytes = written(|writer| import.write(writer));
            assert_eq!(read(&bytes).unwrap(), import);
            for len in 0..bytes.len() {
                assert!(matches!(read(&bytes[..len]), Err(ReadError::UnexpectedEnd)), "{len} bytes");
            }
        }
    }

    /// As Valkey 9.1 writes two ranges.
    #[test]
    fn the_bytes_are_valkeys() {
        let bytes = [&[40][..], NAME.as_bytes(), &[2, 1, 2, 0x40 | 0x3f, 0xff, 0x40 | 0x3f, 0xff]].concat();
        let import = import(&[1..=2, 16_383..=16_383]);
        assert_eq!(written(|writer| import.write(writer)), bytes);
        assert_eq!(read(&bytes).unwrap(), import);
    }

    #[test]
    fn what_no_server_writes_is_refused() {
        let long_name = "0".repeat(NodeId::LEN + 1);
        let odd_name = format!("{}\n", &NAME[1..]);
        let all = [(1, &[0, 0][..]), (2, &[0, 5, 7, 9])];
        for name in [&NAME[1..], &long_name, &odd_name, &NAME.to_uppercase()] {
            for (ranges, slots) in all {
                assert!(refused(name, ranges, slots), "{name}");
            }
        }
        for (ranges, slots) in [
            (0, &[][..]),
            (16_385, &[0, 0][..]),
            (u64::MAX, &[0, 0]),
            (1, &[5, 4]),
            (1, &[0, 16_384]),
            (1, &[u64::MAX, u64::MAX]),
            (1, &[1 << 16, 1 << 16]),
            (2, &[0, 5, 5, 6]),
            (2, &[5, 5, 5, 5]),
        ] {
            assert!(refused(NAME, ranges, slots), "{ranges} {slots:?}");
        }
    }

    fn refused(name: &str, ranges: u64, slots: &[u64]) -> bool {
        let bytes = written(|writer| {
            writer.string(name.as_bytes())?;
            writer.length(ranges)?;
            slots.iter().try_for_each(|slot| writer.length(*slot))
        });
        matches!(read(&bytes), Err(ReadError::Corrupt(_)))
    }
}
