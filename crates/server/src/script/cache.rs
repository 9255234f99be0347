//! Compiled scripts, by their text and by its SHA-1 digest.
//!
//! EVAL leaves scripts behind that nobody may ever ask for again: of those, the least lately used make room once there
//! are [`PASSING_MAX`]. What SCRIPT LOAD has loaded stays until SCRIPT FLUSH.

use super::Reference;
use super::flags::ScriptFlags;
use sha1::{Digest as _, Sha1};
use std::collections::HashMap;
use std::rc::Rc;

/// Scripts that came by EVAL.
const PASSING_MAX: usize = 500;

/// 40 hexadecimal digits, in lower case.
pub type Sha1Text = [u8; 40];

#[derive(Debug)]
pub struct CachedScript {
    pub digest: Rc<str>,
    pub body: Rc<[u8]>,
    pub flags: Option<ScriptFlags>,
    pub function: Reference,
    /// It was loaded to stay.
    lasting: bool,
    last_use: u64,
}

#[derive(Debug, Default)]
pub struct Cache {
    scripts: Vec<Option<CachedScript>>,
    free: Vec<u32>,
    by_body: HashMap<Rc<[u8]>, u32, foldhash::quality::RandomState>,
    by_digest: HashMap<Rc<str>, u32, foldhash::quality::RandomState>,
    /// Places of those that came by EVAL, at most [`PASSING_MAX`]: what SCRIPT LOAD has left is not looked at to evict one.
    passing: Vec<u32>,
    uses: u64,
    body_bytes: usize,
}

impl Cache {
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// What the cache occupies beside the interpreter.
    pub fn used_bytes(&self) -> usize {
        self.body_bytes + self.scripts.len() * (size_of::<CachedScript>() + 40 + 64)
    }

    pub fn get(&self, at: u32) -> &CachedScript {
        self.scripts[at as usize].as_ref().expect("tables hold places of cached scripts only")
    }

    #[inline]
    pub fn find_body(&self, body: &[u8]) -> Option<u32> {
        self.by_body.get(body).copied()
    }

    /// By a digest in any case.
    pub fn find_digest(&self, digest: &[u8]) -> Option<u32> {
        let mut lower: Sha1Text = digest.try_into().ok()?;
        lower.make_ascii_lowercase();
        self.by_digest.get(std::str::from_utf8(&lower).ok()?).copied()
    }

    /// The script has been used: others are evicted before it.
    #[inline]
    pub fn touch(&mut self, at: u32) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(Some(script)) = self.scripts.get_mut(at as usize) {
            script.last_use = uses;
        }
    }

    pub fn make_lasting(&mut self, at: u32) {
        let script = self.scripts[at as usize].as_mut().expect("as in `get`");
        if !std::mem::replace(&mut script.lasting, true) {
            self.passing.retain(|&passing| passing != at);
        }
    }

    pub fn insert(
        &mut self,
        body: &[u8],
        flags: Option<ScriptFlags>,
        function: Reference,
        lasting: bool,
    ) -> u32 {
        let digest: Rc<str> = Rc::from(std::str::from_utf8(&sha1_text(body)).expect("digits are text"));
        let body: Rc<[u8]> = body.into();
        let at = self.free.pop().unwrap_or_else(|| {
            self.scripts.push(None);
            self.scripts.len() as u32 - 1
        });
        self.uses += 1;
        self.body_bytes += body.len();
        self.by_body.insert(Rc::clone(&body), at);
        self.by_digest.insert(Rc::clone(&digest), at);
        if !lasting {
            self.passing.push(at);
        }
        let last_use = self.uses;
        self.scripts[at as usize] = Some(CachedScript { digest, body, flags, function, lasting, last_use });
        at
    }

    /// Makes room for one more passing script: answers the function of one that was dropped for it.
    pub fn evict_if_full(&mut self) -> Option<Reference> {
        if self.passing.len() < PASSING_MAX {
            return None;
        }
        structures::work::visited(self.passing.len());
        let oldest = self.passing.iter().enumerate().min_by_key(|&(_, &at)| self.get(at).last_use);
        let at = self.passing.swap_remove(oldest?.0);
        let script = self.scripts[at as usize].take()?;
        self.by_body.remove(&script.body);
        self.by_digest.remove(&script.digest);
        self.body_bytes -= script.body.len();
        self.free.push(at);
        Some(script.function)
    }
}

/// The SHA-1 digest as scripts are named by it.
pub fn sha1_text(bytes: &[u8]) -> Sha1Text {
    sha1_text_of([bytes].into_iter())
}

/// As [`sha1_text`], of pieces that follow one another.
pub fn sha1_text_of<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Sha1Text {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = pieces.fold(Sha1::new(), |digest, piece| digest.chain_update(piece)).finalize();
    let mut text = [0; 40];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Interpreter, Interrupt, Turn};

    fn reference() -> Reference {
        let mut interpreter = Interpreter::new(1 << 20, |_| Turn {
            interrupt: Interrupt::GoOn,
            gives_way: false,
            lasted_us: 0,
        });
        let mut stack = interpreter.stack();
        stack.push_boolean(true);
        stack.keep()
    }

    #[test]
    fn scripts_of_eval_make_room_for_each_other_and_loaded_ones_stay() {
        let (mut cache, function) = (Cache::default(), reference());
        let lasting = cache.insert(b"return 0", None, function, true);
        let first = cache.insert(b"return 1", None, function, false);
        for i in 2..=PASSING_MAX {
            assert_eq!(cache.evict_if_full(), None);
            cache.insert(format!("return {i}").as_bytes(), None, function, false);
        }
        cache.touch(first);
        assert!(cache.evict_if_full().is_some());
        assert_eq!(cache.find_body(b"return 2"), None, "the least lately used goes");
        assert_eq!(cache.find_body(b"return 1"), Some(first));
        assert_eq!(cache.find_body(b"return 0"), Some(lasting));
        assert_eq!(cache.len(), PASSING_MAX);
        cache.make_lasting(first);
        assert_eq!(cache.evict_if_full(), None);
    }

    #[test]
    fn a_digest_is_found_in_any_case() {
        let mut cache = Cache::default();
        let at = cache.insert(b"return 1", None, reference(), true);
        assert_eq!(cache.get(at).digest.as_ref(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(cache.find_digest(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"), Some(at));
        assert_eq!(cache.find_digest(b"e0e1"), None);
    }
}
