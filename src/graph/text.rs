//! Canonical text of a finalized graph.
