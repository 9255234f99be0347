//! `client-output-buffer-limit`: the limits of a client's unsent output, by class of client.

use super::kinds::{memory_with_unit, parse_memory};
use super::option::{Kind, Occurrence, Refusal, RewrittenLine};

/// A client is closed immediately above `hard_bytes`, and after `soft_seconds` above `soft_bytes`. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// The hard limit.
    pub hard_bytes: u64,
    /// The soft limit.
    pub soft_bytes: u64,
    /// Time for which the soft limit may be exceeded.
    pub soft_seconds: u64,
}

/// The limits of each class of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Limit of ordinary clients.
    pub normal: OutputBufferLimit,
    /// Limit of replicas.
    pub replica: OutputBufferLimit,
    /// Limit of subscribers.
    pub pubsub: OutputBufferLimit,
}

impl OutputBufferLimits {
    pub(super) const DEFAULT: Self = Self {
        normal: OutputBufferLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
        replica: OutputBufferLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_seconds: 60 },
        pubsub: OutputBufferLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 },
    };

    fn of_class(&mut self, class: &[u8]) -> Option<&mut OutputBufferLimit> {
        match class.to_ascii_lowercase().as_slice() {
            b"normal" => Some(&mut self.normal),
            b"replica" | b"slave" => Some(&mut self.replica),
            b"pubsub" => Some(&mut self.pubsub),
            _ => None,
        }
    }
}

/// Groups of `class hard soft seconds`; other classes keep their limits.
pub(super) struct BufferLimits;

impl Kind<OutputBufferLimits> for BufferLimits {
    fn parse(
        &self,
        words: &[&[u8]],
        before: &OutputBufferLimits,
        _occurrence: Occurrence,
    ) -> Result<OutputBufferLimits, Refusal> {
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        let mut limits = *before;
        for group in words.chunks_exact(4) {
            let Some(limit) = limits.of_class(group[0]) else {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            };
            *limit = parse_limit(&group[1..])
                .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        }
        Ok(limits)
    }

    fn format(&self, value: &OutputBufferLimits) -> Vec<u8> {
        // The old class name stays in CONFIG GET: clients parse it.
        let classes = [("normal", value.normal), ("slave", value.replica), ("pubsub", value.pubsub)];
        let text = classes.map(|(class, limit)| {
            format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
        });
        text.join(" ").into()
    }

    fn accepts(&self) -> String {
        "groups of class, size, size, seconds".to_owned()
    }

    fn rewritten(&self, value: &OutputBufferLimits, default: &OutputBufferLimits) -> Vec<RewrittenLine> {
        let classes = [
            ("normal", value.normal, default.normal),
            ("replica", value.replica, default.replica),
            ("pubsub", value.pubsub, default.pubsub),
        ];
        let line = |(class, limit, default): (&str, OutputBufferLimit, OutputBufferLimit)| {
            let (hard, soft) = (memory_with_unit(limit.hard_bytes), memory_with_unit(limit.soft_bytes));
            let text = format!("{class} {hard} {soft} {}", limit.soft_seconds);
            RewrittenLine { text: text.into(), forced: limit != default }
        };
        classes.map(line).into()
    }
}

fn parse_limit(words: &[&[u8]]) -> Option<OutputBufferLimit> {
    let seconds: u32 = std::str::from_utf8(words[2]).ok()?.parse().ok()?;
    Some(OutputBufferLimit {
        hard_bytes: parse_memory(words[0])?,
        soft_bytes: parse_memory(words[1])?,
        soft_seconds: seconds.into(),
    })
}
