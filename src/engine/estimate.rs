//! What an engine's model adds up to the time of a config: the terms, so that a ranking can be explained.

/// What takes time in an engine's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Bound {
    /// Bytes through device memory.
    Memory,
    /// Bytes through the L2 cache.
    L2,
    /// Rows of boxes that the tensor memory accelerator brings.
    Boxes,
    /// Bytes from shared memory to the matrix units.
    SharedMemory,
    /// Multiply-adds, of tensor cores or of plain arithmetic units.
    MatrixRate,
    /// Operands that are computed, copied or turned on their way to the core.
    Operands,
    /// Operands that are copied to another layout before the core.
    Copies,
    /// Values that are stored before the core, by launches of their own.
    Stored,
    /// Multiprocessors without a tile, in waves that are not full.
    Waves,
    /// From a block's start to its first full stage.
    Fill,
    /// Epilogues beside which nothing is multiplied.
    Epilogue,
    /// Accumulators through the workspace, added up by launches of their own.
    Workspace,
}

impl Bound {
    /// What it is, as part of a sentence: `memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::L2 => "L2 cache",
            Self::Boxes => "rows of boxes",
            Self::SharedMemory => "shared memory",
            Self::MatrixRate => "matrix rate",
            Self::Operands => "operands computed or copied on their way",
            Self::Copies => "operands copied first",
            Self::Stored => "values stored before the core",
            Self::Waves => "waves that are not full",
            Self::Fill => "latency of the first tiles",
            Self::Epilogue => "epilogue",
            Self::Workspace => "sums through the workspace",
        }
    }
}

/// A term of a model: what takes how long, in the unit of the [`Estimate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// What takes the time.
    pub bound: Bound,
    /// How long.
    pub time: f64,
}

/// Tiles, each with its part of k, for multiprocessors that take one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waves {
    /// Times that multiprocessors take a tile, the last time perhaps not all of them.
    pub count: f64,
    /// Share of the multiprocessors' turns that have a tile, above 0 and at most 1.
    pub filled: f64,
}

impl Waves {
    /// The waves of so many tiles on so many multiprocessors.
    pub(super) fn of(tiles: f64, multiprocessors: f64) -> Self {
        let count = (tiles / multiprocessors).ceil();
        Self { count, filled: tiles / (count * multiprocessors) }
    }
}

/// The terms of a config's expected time. What goes on at once costs as much as the longest of it; the rest comes on top, one after
/// the other. Times are microseconds in a ranking, and a unit of the engine's own in its model.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// What goes on at once, each with the time that it would take alone.
    pub at_once: Vec<Term>,
    /// What nothing hides.
    pub on_top: Vec<Term>,
    /// Waves of tiles, where there are tiles: times at once but that of memory are of whole waves.
    pub waves: Option<Waves>,
}

impl Estimate {
    /// A graph that is done when its tensors have been moved.
    pub(super) fn of_memory(time: f64) -> Self {
        Self { at_once: vec![Term { bound: Bound::Memory, time }], on_top: Vec::new(), waves: None }
    }

    /// The time of all terms together.
    pub fn total(&self) -> f64 {
        let longest = self.at_once.iter().map(|term| term.time).fold(0.0, f64::max);
        self.on_top.iter().fold(longest, |sum, term| sum + term.time)
    }

    /// The parts of the total, the longest first: the longest of what goes on at once, without the share of it in which
    /// multiprocessors have no tile; that share ([`Bound::Waves`]); and what comes on top.
    pub fn parts(&self) -> Vec<Term> {
        let longest = self.at_once.iter().max_by(|a, b| a.time.total_cmp(&b.time)).copied();
        let mut parts = Vec::new();
        if let Some(Term { bound, time }) = longest {
            let waves = self.waves.filter(|_| bound != Bound::Memory);
            let filled = waves.map_or(1.0, |waves| waves.filled);
            parts.push(Term { bound, time: time * filled });
            parts.push(Term { bound: Bound::Waves, time: time * (1.0 - filled) });
        }
        for &Term { bound, time } in &self.on_top {
            match parts.iter_mut().find(|part| part.bound == bound) {
                Some(part) => part.time += time,
                None => parts.push(Term { bound, time }),
            }
        }
        parts.retain(|term| term.time > 0.0);
        parts.sort_by(|a, b| b.time.total_cmp(&a.time));
        parts
    }

    /// The longest of the [`Self::parts`]: what the config is bound by.
    pub fn longest(&self) -> Option<Term> {
        self.parts().into_iter().next()
    }

    /// The estimate with a term more that nothing hides.
    pub(super) fn and(mut self, term: Term) -> Self {
        self.on_top.push(term);
        self
    }

    /// The estimate with every time multiplied.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.at_once.iter_mut().chain(&mut self.on_top).for_each(|term| term.time *= factor);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(at_once: &[(Bound, f64)], on_top: &[(Bound, f64)], waves: Option<Waves>) -> Estimate {
        let terms = |terms: &[(Bound, f64)]| terms.iter().map(|&(bound, time)| Term { bound, time }).collect();
        Estimate { at_once: terms(at_once), on_top: terms(on_top), waves }
    }

    #[test]
    fn the_longest_of_what_goes_on_at_once_counts_and_the_rest_comes_on_top() {
        let all = estimate(
            &[(Bound::Memory, 3.0), (Bound::MatrixRate, 8.0)],
            &[(Bound::Fill, 1.0), (Bound::Epilogue, 1.5), (Bound::Epilogue, 0.5), (Bound::Workspace, 0.0)],
            Some(Waves::of(12.0, 8.0)),
        );
        assert_eq!(all.total(), 11.0);
        let parts: Vec<(Bound, f64)> = all.parts().into_iter().map(|term| (term.bound, term.time)).collect();
        let expected = [(Bound::MatrixRate, 6.0), (Bound::Waves, 2.0), (Bound::Epilogue, 2.0), (Bound::Fill, 1.0)];
        assert_eq!(parts, expected);
        assert_eq!(all.scaled(0.5).total(), 5.5);
    }

    #[test]
    fn a_wave_that_is_nearly_empty_is_what_bounds() {
        let few = estimate(&[(Bound::MatrixRate, 8.0)], &[], Some(Waves::of(2.0, 8.0)));
        assert_eq!(few.longest(), Some(Term { bound: Bound::Waves, time: 6.0 }));
        // memory is not a matter of waves
        let moved = estimate(&[(Bound::Memory, 9.0), (Bound::MatrixRate, 8.0)], &[], Some(Waves::of(2.0, 8.0)));
        assert_eq!(moved.parts(), [Term { bound: Bound::Memory, time: 9.0 }]);
        assert_eq!(Estimate::of_memory(4.0).total(), 4.0);
    }
}
