//! Every engine, and configs by their names. An engine is a folder here with a `mod` line and a row.

mod attention;
mod attention_backward;
mod chain;
mod direct;
mod scalar;
mod warp_attention;
mod warp_attention_backward;
mod warp_mma;
mod warpgroup_mma;

use std::str::FromStr;

use super::config::settings;
use super::{Engine, EngineConfig, Offer};
use crate::error::Reason;
use crate::support::Supported;

/// Every engine, the preferred first.
pub static ENGINES: &[&dyn Engine] = &[
    &warpgroup_mma::WarpgroupMma,
    &attention::WarpgroupAttention,
    &attention_backward::WarpgroupAttentionBackward,
    &warp_attention::WarpAttention,
    &warp_attention_backward::WarpAttentionBackward,
    &chain::Chain,
    &direct::Direct,
    &warp_mma::WarpMma,
    &scalar::Scalar,
];

/// What is offered for a graph without a core, whatever engine is asked for what reads its results.
///
/// # Errors
/// Why it is not computed.
pub(super) fn passes(supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
    scalar::Scalar.take(supported)
}

impl FromStr for EngineConfig {
    type Err = String;

    /// Reads what `Display` writes. That the engine offers the config for a graph is not checked.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let engine =
            ENGINES.iter().find(|engine| engine.name() == name).ok_or(format!("there is no engine '{name}'"))?;
        Ok(Self { engine: engine.name(), knobs: settings(words)? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Programs store engine numbers and config texts: neither ever changes its meaning.
    #[test]
    fn engines_keep_their_numbers_and_names() {
        let engines: BTreeSet<(i64, &str)> = ENGINES.iter().map(|engine| (engine.id(), engine.name())).collect();
        assert_eq!(
            engines,
            BTreeSet::from([
                (0, "warpgroup_mma"),
                (1, "warp_mma"),
                (2, "scalar"),
                (3, "direct"),
                (4, "warpgroup_attention"),
                (5, "warpgroup_attention_backward"),
                (6, "warp_attention"),
                (7, "warp_attention_backward"),
                (8, "chain"),
            ])
        );
        assert_eq!(engines.len(), ENGINES.len());
    }
}
