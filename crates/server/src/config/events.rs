//! `notify-keyspace-events`: the classes of published events, one letter each.

use super::option::{Kind, Occurrence, Refusal, RewrittenLine};
use super::quote::quoted;

/// Classes of keyspace events, as a set of bits. `KEYSPACE` and `KEYEVENT` select the channels, the others the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

impl EventClasses {
    /// No events.
    pub const NONE: Self = Self(0);
    /// Publishes on `__keyspace@<db>__` channels.
    pub const KEYSPACE: Self = Self(1);
    /// Publishes on `__keyevent@<db>__` channels.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// Commands for keys of any type.
    pub const GENERIC: Self = Self(1 << 2);
    /// String commands.
    pub const STRING: Self = Self(1 << 3);
    /// List commands.
    pub const LIST: Self = Self(1 << 4);
    /// Set commands.
    pub const SET: Self = Self(1 << 5);
    /// Hash commands.
    pub const HASH: Self = Self(1 << 6);
    /// Sorted set commands.
    pub const ZSET: Self = Self(1 << 7);
    /// Keys that expired.
    pub const EXPIRED: Self = Self(1 << 8);
    /// Keys that were evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// Stream commands.
    pub const STREAM: Self = Self(1 << 10);
    /// Accesses to missing keys.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// Events of modules.
    pub const MODULE: Self = Self(1 << 12);
    /// New keys.
    pub const NEW: Self = Self(1 << 13);
    /// The classes of `A`: all except key misses and new keys.
    pub const ALL: Self = Self(
        Self::GENERIC.0
            | Self::STRING.0
            | Self::LIST.0
            | Self::SET.0
            | Self::HASH.0
            | Self::ZSET.0
            | Self::EXPIRED.0
            | Self::EVICTED.0
            | Self::STREAM.0
            | Self::MODULE.0,
    );

    /// The letters, in output order. `n` is written only if `A` is not.
    const LETTERS: [(u8, Self); 14] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::ZSET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'n', Self::NEW),
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::KEY_MISS),
    ];

    /// Whether every class of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a class of `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether no class is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set of these letters; `None` if a letter is unknown.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self::NONE, |classes, letter| {
            if *letter == b'A' {
                return Some(classes.with(Self::ALL));
            }
            let (_, class) = Self::LETTERS.iter().find(|(name, _)| name == letter)?;
            Some(classes.with(*class))
        })
    }

    /// The letters of this set in canonical order, with `A` in place of its classes.
    pub fn letters(self) -> Vec<u8> {
        let all = self.has(Self::ALL);
        let shown = |class: Self| self.has(class) && !(all && Self::ALL.with(Self::NEW).has(class));
        let named = Self::LETTERS.iter().filter(|(_, class)| shown(*class)).map(|(letter, _)| *letter);
        all.then_some(b'A').into_iter().chain(named).collect()
    }
}

pub(super) struct EventLetters;

impl Kind<EventClasses> for EventLetters {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &EventClasses,
        _occurrence: Occurrence,
    ) -> Result<EventClasses, Refusal> {
        EventClasses::parse(words[0])
            .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into())
    }

    fn format(&self, value: &EventClasses) -> Vec<u8> {
        value.letters()
    }

    fn accepts(&self) -> String {
        "letters".to_owned()
    }

    fn rewritten(&self, value: &EventClasses, default: &EventClasses) -> Vec<RewrittenLine> {
        // CONFIG GET hides `n` after `A`, but a file must not lose it.
        let mut letters = value.letters();
        if value.has(EventClasses::ALL.with(EventClasses::NEW)) {
            letters.push(b'n');
        }
        vec![RewrittenLine { text: quoted(&letters), forced: value != default }]
    }
}
