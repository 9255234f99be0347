//! Values written by modules. Each number or string carries its kind, so that a reader without the module can skip it.
//!
//! ```text
//!  value         id, a length (a name of 9 characters of 6 bits, 10 bits of version) | elements... | 0
//!  aux           id | elements... | 0
//!  key metadata  classes, a length | (class, 4 bytes (name of 4 characters, version of 5 bits, flags of 3) | elements... | 0)...
//!  element       what it is, a length | a length (1, 2), 4 bytes (3), 8 bytes (4) or a string (5)
//! ```

use super::{ReadError, Reader};
use std::io::Read;

const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NAME_CHARACTERS: usize = 9;
const NAME_SHIFT: u32 = 10;
const CLASS_NAME_CHARACTERS: usize = 4;
const CLASS_NAME_SHIFT: u32 = 8;
/// Of a class of key metadata: a reader that does not know the class may skip it.
const MAY_BE_IGNORED: u32 = 1;
/// Servers have no more classes of key metadata.
const CLASSES_MAX: u64 = 7;

/// What elements are.
mod element {
    pub const END: u64 = 0;
    pub const SIGNED: u64 = 1;
    pub const UNSIGNED: u64 = 2;
    pub const FLOAT: u64 = 3;
    pub const DOUBLE: u64 = 4;
    pub const STRING: u64 = 5;
}

/// The name of the type that a value belongs to.
pub fn type_name(id: u64) -> String {
    name_of(id >> NAME_SHIFT, NAME_CHARACTERS)
}

/// Characters of 6 bits each, the last in the lowest.
fn name_of(bits: u64, characters: usize) -> String {
    let character = |at: usize| CHARACTERS[(bits >> (6 * at) & 63) as usize];
    (0..characters).rev().map(|at| char::from(character(at))).collect()
}

/// Reads past the metadata of a key; the class that may not be left out, if there is one.
pub fn skip_key_metadata<R: Read>(reader: &mut Reader<R>) -> Result<Option<String>, ReadError> {
    let classes = reader.length()?;
    if classes > CLASSES_MAX {
        return Err(ReadError::Corrupt("A key has more metadata than there can be"));
    }
    let mut needed = None;
    for _ in 0..classes {
        let class = u32::from_le_bytes(reader.array()?);
        skip_elements(reader)?;
        if class & MAY_BE_IGNORED == 0 {
            needed = Some(name_of(u64::from(class >> CLASS_NAME_SHIFT), CLASS_NAME_CHARACTERS));
        }
    }
    Ok(needed)
}

/// Why a key with metadata of a class that may not be left out has no place here.
pub fn no_place_for(class: &str) -> String {
    format!("it has metadata of a module ('{class}'), which there is none for here")
}

fn skip_elements<R: Read>(reader: &mut Reader<R>) -> Result<(), ReadError> {
    loop {
        match reader.length()? {
            element::END => return Ok(()),
            element::SIGNED | element::UNSIGNED => {
                reader.length()?;
            }
            element::FLOAT => {
                reader.array::<4>()?;
            }
            element::DOUBLE => {
                reader.array::<8>()?;
            }
            element::STRING => {
                reader.string()?;
            }
            _ => return Err(ReadError::Corrupt("A module's value has an element of no known kind")),
        }
    }
}
