//! Compiled scripts, by their text and by its SHA-1 digest.
//!
//! EVAL caches scripts that may never be called again: once there are [`PASSING_MAX`] of them, the least recently used is
//! evicted. Scripts of SCRIPT LOAD stay until SCRIPT FLUSH.

use super::Reference;
use super::flags::ScriptFlags;
use sha1::{Digest as _, Sha1};
use std::collections::HashMap;
use std::rc::Rc;
use wire::convert::short_len;

/// The maximum of cached scripts that EVAL compiled.
const PASSING_MAX: usize = 500;

/// 40 hexadecimal digits, in lower case.
pub type Sha1Text = [u8; 40];

/// A compiled script.
#[derive(Debug)]
pub struct CachedScript {
    /// SHA1 digest of the source.
    pub digest: Rc<str>,
    /// The source.
    pub body: Rc<[u8]>,
    /// Flags of the first line, if it has one.
    pub flags: Option<ScriptFlags>,
    /// The compiled function.
    pub function: Reference,
    /// SCRIPT LOAD has loaded it: it is never evicted.
    lasting: bool,
    last_use: u64,
}

/// The cached scripts, identified by their index.
#[derive(Debug, Default)]
pub struct Cache {
    scripts: Vec<Option<CachedScript>>,
    free: Vec<u32>,
    by_body: HashMap<Rc<[u8]>, u32, foldhash::quality::RandomState>,
    by_digest: HashMap<Rc<str>, u32, foldhash::quality::RandomState>,
    /// Indexes of EVAL's scripts, at most [`PASSING_MAX`]: eviction does not scan the scripts of SCRIPT LOAD.
    passing: Vec<u32>,
    uses: u64,
    body_bytes: usize,
}

impl Cache {
    /// The number of scripts.
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Bytes that the cache occupies besides the interpreter.
    pub fn used_bytes(&self) -> usize {
        self.body_bytes + self.scripts.len() * (size_of::<CachedScript>() + 40 + 64)
    }

    /// The script at an index.
    pub fn get(&self, at: u32) -> &CachedScript {
        self.scripts[at as usize].as_ref().expect("the tables hold indexes of cached scripts only")
    }

    /// Finds a script by its text.
    #[inline]
    pub fn find_body(&self, body: &[u8]) -> Option<u32> {
        self.by_body.get(body).copied()
    }

    /// Finds a script by its digest, ignoring case.
    pub fn find_digest(&self, digest: &[u8]) -> Option<u32> {
        let mut lower: Sha1Text = digest.try_into().ok()?;
        lower.make_ascii_lowercase();
        self.by_digest.get(std::str::from_utf8(&lower).ok()?).copied()
    }

    /// Marks the script as used: others are evicted before it.
    #[inline]
    pub fn touch(&mut self, at: u32) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(Some(script)) = self.scripts.get_mut(at as usize) {
            script.last_use = uses;
        }
    }

    /// Exempts the script from eviction.
    pub fn make_lasting(&mut self, at: u32) {
        let script = self.scripts[at as usize].as_mut().expect("as in `get`");
        if !std::mem::replace(&mut script.lasting, true) {
            self.passing.retain(|&passing| passing != at);
        }
    }

    /// Adds a script; returns its index.
    pub fn insert(
        &mut self,
        body: &[u8],
        flags: Option<ScriptFlags>,
        function: Reference,
        lasting: bool,
    ) -> u32 {
        let digest: Rc<str> = Rc::from(std::str::from_utf8(&sha1_text(body)).expect("digits are UTF-8"));
        let body: Rc<[u8]> = body.into();
        let at = self.free.pop().unwrap_or_else(|| {
            self.scripts.push(None);
            short_len(self.scripts.len() - 1)
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

    /// Evicts a script of EVAL if the cache is full; returns the evicted script's function.
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

/// The SHA-1 digest that names a script.
pub fn sha1_text(bytes: &[u8]) -> Sha1Text {
    sha1_text_of([bytes].into_iter())
}

/// As [`sha1_text`], of concatenated pieces.
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
        assert_eq!(cache.find_body(b"return 2"), None, "the least recently used script is evicted");
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
