//! `cjson.encode`: converts values to text.

use super::Stack;
use super::TEXT_BYTES_MAX;
use super::json::{Setting, settings};
use crate::script::numbers::general_text;
use crate::script::{Kind, PIECE_BYTES, Raise};
use wire::convert::{whole_i32, whole_i64};

/// `cjson.encode`.
pub fn encode(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if stack.top() != 1 {
        return Err(stack.argument_error(1, "expected 1 argument"));
    }
    use Setting::{EncodeDepth, EncodeInvalid, Precision, SparseConvert, SparseRatio, SparseSafe};
    let wanted = [SparseConvert, SparseRatio, SparseSafe, EncodeDepth, EncodeInvalid, Precision];
    let [convert, sparse_ratio, sparse_safe, depth_max, invalid_numbers, precision] = settings(stack, wanted);
    let mut writer = Writer {
        text: Vec::new(),
        converts_sparse: convert != 0,
        sparse_ratio,
        sparse_safe,
        depth_max,
        invalid_numbers,
        precision,
    };
    writer.value(stack, 0)?;
    stack.push_bytes(&writer.text);
    Ok(1)
}

struct Writer {
    text: Vec<u8>,
    converts_sparse: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    depth_max: i32,
    invalid_numbers: i32,
    precision: i32,
}

/// The escape of a byte in a string; empty if it needs none, `None` for `\u....`.
fn escape(byte: u8) -> Option<&'static [u8]> {
    Some(match byte {
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        b'/' => b"\\/",
        8 => b"\\b",
        9 => b"\\t",
        10 => b"\\n",
        12 => b"\\f",
        13 => b"\\r",
        0..=31 | 127 => return None,
        _ => b"",
    })
}

impl Writer {
    /// Writes the value on top without popping it.
    fn value(&mut self, stack: &mut Stack<'_>, depth: i32) -> Result<(), Raise> {
        stack.step()?;
        match stack.kind(-1) {
            Kind::String => return self.string(stack, -1),
            Kind::Number => return self.number(stack, -1),
            Kind::Boolean if stack.truth(-1) => self.text.extend(b"true"),
            Kind::Boolean => self.text.extend(b"false"),
            Kind::Nil => self.text.extend(b"null"),
            Kind::Pointer if stack.is_null_pointer(-1) => self.text.extend(b"null"),
            Kind::Table => return self.table(stack, depth + 1),
            _ => return Err(refusal(stack, -1, "type not supported")),
        }
        if self.text.len() > TEXT_BYTES_MAX { Err(stack.out_of_memory()) } else { Ok(()) }
    }

    fn string(&mut self, stack: &mut Stack<'_>, index: i32) -> Result<(), Raise> {
        self.text.push(b'"');
        let len = stack.bytes(index).map_or(0, <[u8]>::len);
        for start in (0..len).step_by(PIECE_BYTES) {
            let end = len.min(start + PIECE_BYTES);
            let mut rest = stack.bytes(index).map_or(&[][..], |bytes| &bytes[start..end]);
            while let Some(at) = rest.iter().position(|&byte| escape(byte) != Some(b"")) {
                self.text.extend(&rest[..at]);
                self.escaped(rest[at]);
                rest = &rest[at + 1..];
            }
            self.text.extend(rest);
            stack.count_bytes(end - start);
            if self.text.len() > TEXT_BYTES_MAX {
                break;
            }
        }
        self.text.push(b'"');
        if self.text.len() > TEXT_BYTES_MAX { Err(stack.out_of_memory()) } else { Ok(()) }
    }

    fn escaped(&mut self, byte: u8) {
        match escape(byte) {
            Some(escaped) => self.text.extend(escaped),
            None => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
                self.text.extend([b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
            }
        }
    }

    fn number(&mut self, stack: &mut Stack<'_>, index: i32) -> Result<(), Raise> {
        let value = stack.number(index).unwrap_or_default();
        if !value.is_finite() {
            match self.invalid_numbers {
                0 => return Err(refusal(stack, index, "must not be NaN or Inf")),
                1 if value.is_nan() => self.text.extend(b"nan"),
                1 => self.text.extend(general_text(value, 14).bytes()),
                _ => self.text.extend(b"null"),
            }
            return Ok(());
        }
        let is_short = value.abs() < 10f64.powi(self.precision) && value == value.trunc() && value != 0.0;
        if is_short {
            wire::number::push_i64(&mut self.text, whole_i64(value));
        } else {
            self.text.extend(general_text(value, self.precision as usize).bytes());
        }
        Ok(())
    }

    fn table(&mut self, stack: &mut Stack<'_>, depth: i32) -> Result<(), Raise> {
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(stack.out_of_memory());
        }
        if depth > self.depth_max || !stack.reserve(4) {
            return Err(stack.error(&format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len(stack)? {
            Some(len) if len > 0 => self.array(stack, depth, len),
            _ => self.object(stack, depth),
        }
    }

    /// The greatest index of the table on top; `None` if it has other keys or is too sparse for an array.
    fn array_len(&self, stack: &mut Stack<'_>) -> Result<Option<i32>, Raise> {
        let (mut max, mut elements) = (0i32, 0i64);
        stack.push_nil();
        while stack.next(-2) {
            let number = if stack.kind(-2) == Kind::Number { stack.number(-2) } else { None };
            match number.filter(|key| *key >= 1.0 && key.floor() == *key) {
                Some(key) => {
                    max = max.max(whole_i32(key));
                    elements += 1;
                    stack.pop(1);
                }
                None => {
                    stack.pop(2);
                    return Ok(None);
                }
            }
        }
        let max_len = i64::from(max);
        let sparse = self.sparse_ratio > 0 && max_len > elements * i64::from(self.sparse_ratio);
        if sparse && max > self.sparse_safe {
            if !self.converts_sparse {
                return Err(refusal(stack, -1, "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(max))
    }

    fn array(&mut self, stack: &mut Stack<'_>, depth: i32, len: i32) -> Result<(), Raise> {
        self.text.push(b'[');
        for number in 1..=len {
            if number > 1 {
                self.text.push(b',');
            }
            stack.get_element(-1, number);
            self.value(stack, depth)?;
            stack.pop(1);
        }
        self.text.push(b']');
        Ok(())
    }

    fn object(&mut self, stack: &mut Stack<'_>, depth: i32) -> Result<(), Raise> {
        self.text.push(b'{');
        let mut is_first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !std::mem::replace(&mut is_first, false) {
                self.text.push(b',');
            }
            match stack.kind(-2) {
                Kind::Number => {
                    self.text.push(b'"');
                    self.number(stack, -2)?;
                    self.text.push(b'"');
                }
                Kind::String => self.string(stack, -2)?,
                _ => return Err(refusal(stack, -2, "table key must be a number or string")),
            }
            self.text.push(b':');
            self.value(stack, depth)?;
            stack.pop(1);
        }
        self.text.push(b'}');
        Ok(())
    }
}

fn refusal(stack: &mut Stack<'_>, index: i32, reason: &str) -> Raise {
    stack.error(&format!("Cannot serialise {}: {reason}", stack.kind(index).name()))
}
