//! Session resumption: by tickets that the client stores and only this server can decrypt, and by a session cache for
//! clients of TLS 1.2 without tickets.

use crate::TlsError;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::{ProducesTickets, StoresServerSessions};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Longer sessions are not cached. Most are shorter, even with a client's certificate and its intermediate ones.
const SESSION_BYTES_MAX: usize = 8 * 1024;

/// Tickets with an expiry.
#[derive(Debug)]
pub struct Tickets {
    sealed: Arc<dyn ProducesTickets>,
    timeout_s: u32,
}

impl Tickets {
    /// Creates a key for tickets that expire after `timeout_s`.
    pub fn new(timeout_s: u32) -> Result<Self, TlsError> {
        let sealed = Ticketer::new()
            .map_err(|error| TlsError(format!("Failed to make a key for tickets: {error}")))?;
        Ok(Tickets { sealed, timeout_s })
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.timeout_s
    }

    /// The creation time precedes the ticket's content.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.sealed.encrypt(&[&UnixTime::now().as_secs().to_le_bytes()[..], plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut opened = self.sealed.decrypt(cipher)?;
        let made_s = u64::from_le_bytes(*opened.first_chunk()?);
        is_recent(made_s, self.timeout_s).then(|| opened.split_off(size_of::<u64>()))
    }
}

fn is_recent(made_s: u64, timeout_s: u32) -> bool {
    UnixTime::now().as_secs().saturating_sub(made_s) <= u64::from(timeout_s)
}

/// Sessions by id; the oldest are evicted.
pub struct SessionCache {
    sessions: Mutex<Sessions>,
    size: usize,
    timeout_s: u32,
}

#[derive(Default)]
struct Sessions {
    /// Creation time and content of each.
    by_id: HashMap<Vec<u8>, (u64, Vec<u8>)>,
    /// Ids in order of creation.
    order: VecDeque<Vec<u8>>,
}

impl SessionCache {
    /// Creates a cache for `size` sessions that expire after `timeout_s`.
    pub fn new(size: usize, timeout_s: u32) -> Self {
        SessionCache { sessions: Mutex::default(), size, timeout_s }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self, (made_s, session): (u64, Vec<u8>)) -> Option<Vec<u8>> {
        is_recent(made_s, self.timeout_s).then_some(session)
    }
}

impl std::fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionCache").field("size", &self.size).finish_non_exhaustive()
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        if value.len() > SESSION_BYTES_MAX {
            return false;
        }
        let mut sessions = self.sessions();
        let made = (UnixTime::now().as_secs(), value);
        if let Some(known) = sessions.by_id.get_mut(&key) {
            *known = made;
            return true;
        }
        while sessions.order.len() >= self.size {
            let Some(oldest) = sessions.order.pop_front() else { return false };
            sessions.by_id.remove(&oldest);
        }
        sessions.order.push_back(key.clone());
        sessions.by_id.insert(key, made);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.sessions().by_id.get(key).cloned()?;
        self.current(found)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut sessions = self.sessions();
        let found = sessions.by_id.remove(key)?;
        // Rare: peers that can resume a session by ticket receive one.
        sessions.order.retain(|id| id != key);
        self.current(found)
    }

    fn can_cache(&self) -> bool {
        self.size > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sessions_make_room() {
        let cache = SessionCache::new(2, 60);
        for id in [b"a", b"b", b"c", b"c"] {
            assert!(cache.put(id.to_vec(), id.to_vec()));
        }
        assert_eq!(cache.get(b"a"), None);
        assert_eq!(cache.take(b"b"), Some(b"b".to_vec()));
        assert_eq!((cache.take(b"b"), cache.get(b"c")), (None, Some(b"c".to_vec())));
        assert!(!cache.put(b"d".to_vec(), vec![0; SESSION_BYTES_MAX + 1]));
        assert!(!SessionCache::new(0, 60).put(b"a".to_vec(), Vec::new()));
    }

    #[test]
    fn tickets_are_good_for_their_time_and_for_their_server() {
        let tickets = Tickets::new(60).unwrap();
        let ticket = tickets.encrypt(b"secret").unwrap();
        assert_eq!(tickets.decrypt(&ticket).unwrap(), b"secret");
        assert_eq!(Tickets::new(60).unwrap().decrypt(&ticket), None);
        for end in 0..ticket.len() {
            assert_eq!(tickets.decrypt(&ticket[..end]), None);
        }
        assert!(is_recent(UnixTime::now().as_secs() - 5, 60));
        assert!(!is_recent(UnixTime::now().as_secs() - 61, 60));
    }
}
