//! `cjson.decode`: converts text to values. A NUL ends the text.

use super::Stack;
use super::json::{Setting, settings};
use crate::script::numbers::{NUMBER_BYTES_MAX, leading_number};
use crate::script::{PIECE_BYTES, Raise};

/// `cjson.decode`.
pub fn decode(stack: &mut Stack<'_>) -> Result<usize, Raise> {
    if stack.top() != 1 {
        return Err(stack.argument_error(1, "expected 1 argument"));
    }
    let text = stack.text_argument(1)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(stack.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let [depth_max, invalid_numbers] = settings(stack, [Setting::DecodeDepth, Setting::DecodeInvalid]);
    let mut reader =
        Reader { text: &text, at: 0, start: 0, depth: 0, depth_max, invalid_numbers: invalid_numbers != 0 };
    reader.document(stack)?;
    Ok(1)
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// The text of the error.
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(what) => what,
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// The position of the last token, or of the error.
    start: usize,
    depth: i32,
    depth_max: i32,
    invalid_numbers: bool,
}

impl Reader<'_> {
    fn document(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        let token = self.token(stack);
        self.value(stack, token)?;
        match self.token(stack) {
            Token::End => Ok(()),
            other => Err(self.unexpected(stack, "the end", &other)),
        }
    }

    fn unexpected(&self, stack: &mut Stack<'_>, expected: &str, found: &Token) -> Raise {
        let found = found.name();
        stack.error(&format!("Expected {expected} but found {found} at character {}", self.start + 1))
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn value(&mut self, stack: &mut Stack<'_>, token: Token) -> Result<(), Raise> {
        stack.step()?;
        match token {
            Token::String(bytes) => stack.push_bytes(&bytes),
            Token::Number(value) => stack.push_number(value),
            Token::Boolean(value) => stack.push_boolean(value),
            Token::Null => stack.push_null_pointer(),
            Token::ObjectBegin => return self.object(stack),
            Token::ArrayBegin => return self.array(stack),
            other => return Err(self.unexpected(stack, "value", &other)),
        }
        Ok(())
    }

    fn descend(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        self.depth += 1;
        if self.depth <= self.depth_max && stack.reserve(5) {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        Err(stack.error(&format!("Found too many nested data structures ({depth}) at character {at}")))
    }

    fn object(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        self.descend(stack)?;
        stack.push_table(0, 0);
        let mut token = self.token(stack);
        if matches!(token, Token::ObjectEnd) {
            self.depth -= 1;
            return Ok(());
        }
        loop {
            match token {
                Token::String(key) => stack.push_bytes(&key),
                other => return Err(self.unexpected(stack, "object key string", &other)),
            }
            match self.token(stack) {
                Token::Colon => {}
                other => return Err(self.unexpected(stack, "colon", &other)),
            }
            let value = self.token(stack);
            self.value(stack, value)?;
            stack.set(-3)?;
            match self.token(stack) {
                Token::ObjectEnd => break,
                Token::Comma => token = self.token(stack),
                other => return Err(self.unexpected(stack, "comma or object end", &other)),
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        self.descend(stack)?;
        stack.push_table(0, 0);
        let mut token = self.token(stack);
        if matches!(token, Token::ArrayEnd) {
            self.depth -= 1;
            return Ok(());
        }
        for number in 1.. {
            self.value(stack, token)?;
            stack.set_element(-2, number);
            match self.token(stack) {
                Token::ArrayEnd => break,
                Token::Comma => token = self.token(stack),
                other => return Err(self.unexpected(stack, "comma or array end", &other)),
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn token(&mut self, stack: &mut Stack<'_>) -> Token {
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
            if self.at.is_multiple_of(PIECE_BYTES) {
                stack.count_bytes(PIECE_BYTES);
            }
        }
        self.start = self.at;
        let single = match self.byte(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(stack),
            _ => return self.word(),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let is_number = matches!(rest[0], b'-' | b'0'..=b'9');
        if is_number && !self.invalid_numbers && is_invalid_number(rest) {
            return Token::Error("invalid number");
        }
        let (token, len) = if is_number {
            return self.number();
        } else if rest.starts_with(b"true") {
            (Token::Boolean(true), 4)
        } else if rest.starts_with(b"false") {
            (Token::Boolean(false), 5)
        } else if rest.starts_with(b"null") {
            (Token::Null, 4)
        } else if matches!(rest[0], b'i' | b'I' | b'n' | b'N' | b'+')
            && self.invalid_numbers
            && is_invalid_number(rest)
        {
            return self.number();
        } else {
            return Token::Error("invalid token");
        };
        self.at += len;
        token
    }

    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let (value, len) = leading_number(&rest[..rest.len().min(NUMBER_BYTES_MAX + 1)]);
        if len == 0 || len > NUMBER_BYTES_MAX {
            return Token::Error("invalid number");
        }
        self.at += len;
        Token::Number(value)
    }

    fn string(&mut self, stack: &mut Stack<'_>) -> Token {
        self.at += 1;
        let mut bytes = Vec::new();
        let mut counted = self.at;
        loop {
            if self.at - counted >= PIECE_BYTES {
                stack.count_bytes(self.at - counted);
                counted = self.at;
            }
            match self.byte(0) {
                b'"' => break,
                0 => return self.error("unexpected end of string"),
                b'\\' => match self.byte(1) {
                    b'u' => {
                        let Some((character, len)) = self.unicode() else {
                            return self.error("invalid unicode escape code");
                        };
                        push_utf8(&mut bytes, character);
                        self.at += len;
                        continue;
                    }
                    escaped => {
                        let byte = match escaped {
                            b'"' | b'\\' | b'/' => escaped,
                            b'b' => 8,
                            b't' => b'\t',
                            b'n' => b'\n',
                            b'f' => 12,
                            b'r' => b'\r',
                            _ => return self.error("invalid escape code"),
                        };
                        bytes.push(byte);
                        self.at += 2;
                    }
                },
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Token::String(bytes)
    }

    fn error(&mut self, what: &'static str) -> Token {
        self.start = self.at;
        Token::Error(what)
    }

    /// The character of `\u....`, including a second surrogate if it has one, and the length of the escape.
    fn unicode(&self) -> Option<(u32, usize)> {
        let first = self.hexadecimal(2)?;
        if first & 0xF800 != 0xD800 {
            return Some((first, 6));
        }
        let paired = first & 0x400 == 0 && self.byte(6) == b'\\' && self.byte(7) == b'u';
        let second = self.hexadecimal(8).filter(|second| paired && second & 0xFC00 == 0xDC00)?;
        Some((((first & 0x3FF) << 10 | second & 0x3FF) + 0x1_0000, 12))
    }

    fn hexadecimal(&self, ahead: usize) -> Option<u32> {
        (0..4)
            .try_fold(0, |value, digit| Some(value << 4 | char::from(self.byte(ahead + digit)).to_digit(16)?))
    }
}

fn push_utf8(bytes: &mut Vec<u8>, character: u32) {
    let character = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER);
    bytes.extend(character.encode_utf8(&mut [0; 4]).bytes());
}

/// Numbers that C's parser accepts and JSON does not: hexadecimal, leading zeros, infinities and NaN.
fn is_invalid_number(text: &[u8]) -> bool {
    let Some(rest) = (match text {
        [b'+', ..] => None,
        [b'-', rest @ ..] => Some(rest),
        _ => Some(text),
    }) else {
        return true;
    };
    match rest {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [first, ..] if *first <= b'9' => false,
        _ => rest
            .get(..3)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
    }
}
