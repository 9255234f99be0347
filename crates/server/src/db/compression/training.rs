//! Trains a dictionary on a thread of its own.

use super::dictionary::{Dictionaries, Dictionary};
use super::family::Samples;
use super::{KEPT_PARTS, PARTS, TEXT_LEN_MAX};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// One of this many samples is held back to measure the dictionary on values that it was not trained on.
const KEPT_BACK: usize = 8;

/// A training that is under way.
pub struct Training {
    /// Glob of the family.
    pub glob: Box<[u8]>,
    receiver: Receiver<Trained>,
}

/// The result of a training.
pub struct Trained {
    /// `None` if the dictionary does not save enough.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Returned to the thread that allocated them, because each thread counts its memory.
    _samples: Samples,
}

impl Training {
    /// Starts a training. `None` if the thread cannot be created.
    pub fn start(glob: &[u8], samples: Samples, version: u32) -> Option<Training> {
        // The channel's buffer is allocated here, where it is freed too.
        let (sender, receiver) = sync_channel(1);
        let work = move || {
            let dictionary = train(&samples, version).map(Arc::new);
            // The receiver may have been dropped.
            let _ = sender.send(Trained { dictionary, _samples: samples });
        };
        match thread::Builder::new().name("dictionary".into()).spawn(work) {
            Ok(_) => Some(Training { glob: glob.into(), receiver }),
            Err(error) => {
                log::warn!("Cannot start the thread that trains dictionaries: {error}");
                None
            }
        }
    }

    /// The result, once training has ended.
    pub fn take(&self) -> Option<Trained> {
        self.receiver.try_recv().ok()
    }
}

fn train(samples: &Samples, version: u32) -> Option<Dictionary> {
    let kept_back = samples.lens.len() / KEPT_BACK;
    let (trained_on, tried_with) = samples.lens.split_at(samples.lens.len() - kept_back);
    let (content, mut rest) = samples.bytes.split_at(trained_on.iter().sum());
    let dictionary = Arc::new(Dictionary::train(content, trained_on, version)?);
    let mut alone = Dictionaries::default();
    let slot = alone.add(Arc::clone(&dictionary))?;
    let (mut stored_bytes, mut into) = (0, vec![0; 2 * TEXT_LEN_MAX]);
    for &len in tried_with {
        let (text, after) = rest.split_at(len);
        stored_bytes += alone.compress(slot, text, &mut into).unwrap_or(len).min(len);
        rest = after;
    }
    drop(alone);
    let plain_bytes: usize = tried_with.iter().sum();
    let is_worth_it = stored_bytes * PARTS <= plain_bytes * KEPT_PARTS;
    Arc::into_inner(dictionary).filter(|_| is_worth_it)
}
