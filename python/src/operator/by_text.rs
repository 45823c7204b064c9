//! What is made of a text once, and found by the text from then on.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::Outcome;

/// Values by a digest of their texts. None is given up: compiled code that calls an operator with a text may call it again.
pub(super) struct ByText<T>(RwLock<Option<HashMap<u64, Vec<Arc<T>>>>>);

impl<T> ByText<T> {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(None))
    }

    /// What was made of a text, which `is_it` knows among those of the same digest; made now where this is the first time.
    pub(super) fn of(
        &self,
        text: &[u8],
        is_it: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<Arc<T>> {
        let digest = digest(text);
        let known = |all: &HashMap<u64, Vec<Arc<T>>>| all.get(&digest)?.iter().find(|known| is_it(known)).cloned();
        if let Some(found) = self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(known) {
            return Ok(found);
        }
        // without the lock: it may compile
        let made = Arc::new(make()?);
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        if let Some(found) = known(all) {
            return Ok(found);
        }
        all.entry(digest).or_default().push(Arc::clone(&made));
        Ok(made)
    }
}

/// A digest of a text, eight bytes at a time in four independent sums: it is made at every execution. What it finds is compared.
fn digest(text: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut sums = [text.len() as u64, 1, 2, 3];
    let (blocks, rest) = text.as_chunks::<32>();
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = mixed(*sum, u64::from_le_bytes(*word));
        }
    }
    let whole = sums.into_iter().fold(0, mixed);
    rest.iter().fold(whole, |sum, byte| mixed(sum, u64::from(*byte)))
}
