//! Engines: candidates, choice, lowering.
