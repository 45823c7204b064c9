//! Configs of many shapes: so that the shapes of a layer share few binaries.
//!
//! Of graphs whose shapes are dynamic, a config comes first that is the best, or close to it, for many other shapes, too. Which these are was
//! chosen by the models, for an H200: of 12 layers of matmuls with 1 to 16384 rows (512² … 128256 × 4096, BF16), a config is taken that is
//! within [`SLACK`] for most shapes, then one that is for most of the rest, and so on; of 18 attentions with 1 to 32 batches of up to 16384 keys, a list was
//! searched for by which each takes few configs that lose little (`docs/performance-notes.md`, "Few binaries for many shapes").

use std::sync::LazyLock;

use super::{EngineConfig, Knob, RankedConfig};

/// What a config may take beyond the best one's time by the model.
const SLACK: f64 = 0.05;

/// In the order in which they are preferred.
static FAVOURITES: LazyLock<Vec<EngineConfig>> =
    LazyLock::new(|| CONFIGS.iter().filter_map(|text| text.parse().ok()).collect());

const CONFIGS: &[&str] = &[
    "warpgroup_mma tile_m=128 tile_n=128 stages=6 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=64 stages=12 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=128 stages=8 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=192 stages=6 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=128 stages=8 schedule=ping_pong tma_epilogue=1 stationary_b=1",
    "warpgroup_mma tile_m=128 tile_n=192 stages=4 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=64 stages=12 schedule=ping_pong split_k=4",
    "warpgroup_mma tile_m=64 tile_n=32 stages=12 schedule=ping_pong split_k=5",
    "warpgroup_mma tile_m=128 tile_n=160 stages=5 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=96 stages=10 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=256 stages=4 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=128 tile_n=128 stages=6 schedule=cooperative tma_epilogue=1",
    "warpgroup_mma tile_m=128 tile_n=64 stages=8 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=64 tile_n=64 stages=12 schedule=ping_pong split_k=5",
    "warpgroup_mma tile_m=256 tile_n=80 stages=5 schedule=cooperative tma_epilogue=1",
    "warpgroup_mma tile_m=128 tile_n=80 stages=8 schedule=ping_pong tma_epilogue=1",
    "warpgroup_mma tile_m=128 tile_n=192 stages=4 schedule=cooperative swap_ab=1",
    "warpgroup_attention tile_m=64 tile_n=160 stages=2 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=160 stages=2 split_k=3",
    "warpgroup_attention tile_m=128 tile_n=112 stages=3",
    "warpgroup_attention tile_m=64 tile_n=128 stages=3 pack_heads=1 split_k=16",
    "warpgroup_attention tile_m=64 tile_n=144 stages=2 pack_heads=1 split_k=2",
    "warpgroup_attention tile_m=64 tile_n=176 stages=2",
    "warpgroup_attention tile_m=192 tile_n=128 stages=4",
    "warpgroup_attention tile_m=192 tile_n=80 stages=4 pack_heads=1",
    "warpgroup_attention tile_m=192 tile_n=80 stages=4",
    "warpgroup_attention tile_m=64 tile_n=176 stages=4",
    "warpgroup_attention tile_m=128 tile_n=144 stages=2 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=96 stages=4 pack_heads=1 split_k=8",
    "warpgroup_attention tile_m=128 tile_n=32 stages=4 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=80 stages=4 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=176 stages=4 split_k=4",
    "warpgroup_attention tile_m=64 tile_n=48 stages=4 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=112 stages=3 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=144 stages=4",
    "warpgroup_attention tile_m=64 tile_n=176 stages=2 split_k=4",
    "warpgroup_attention tile_m=128 tile_n=176 stages=2",
    "warpgroup_attention tile_m=192 tile_n=96 stages=4",
    "warpgroup_attention tile_m=64 tile_n=128 stages=3 pack_heads=1 split_k=4",
    "warpgroup_attention tile_m=192 tile_n=48 stages=4 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=144 stages=2",
    "warpgroup_attention tile_m=64 tile_n=16 stages=4 pack_heads=1",
    "warpgroup_attention tile_m=64 tile_n=80 stages=4",
];

/// Moves the first favourite that is about as fast as the best config before the others.
pub(super) fn put_first(ranking: &mut [RankedConfig]) {
    let Some(best) = ranking.first() else { return };
    let most = best.estimated_us * (1.0 + SLACK);
    let are_fast = ranking.iter().take_while(|ranked| ranked.estimated_us <= most).count();
    let place = |config: &EngineConfig| ranking[..are_fast].iter().position(|ranked| has_shape(&ranked.config, config));
    if let Some(place) = FAVOURITES.iter().find_map(place) {
        ranking[..=place].rotate_right(1);
    }
}

/// Whether a config is another, however blocks come by their tiles: that depends on how many there are.
fn has_shape(config: &EngineConfig, of: &EngineConfig) -> bool {
    fn knobs(config: &EngineConfig) -> impl Iterator<Item = &(Knob, u32)> {
        config.knobs.iter().filter(|(knob, _)| *knob != Knob::TileScheduler)
    }
    config.engine == of.engine && knobs(config).eq(knobs(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::estimate::Estimate;

    fn ranking(configs: &[(&str, f64)]) -> Vec<RankedConfig> {
        let ranked = |&(text, estimated_us): &(&str, f64)| RankedConfig {
            config: text.parse().unwrap(),
            through_workspace: None,
            estimated_us,
            estimate: Estimate::of_memory(estimated_us),
        };
        configs.iter().map(ranked).collect()
    }

    #[test]
    fn favourites_are_configs() {
        assert_eq!(FAVOURITES.len(), CONFIGS.len());
    }

    #[test]
    fn the_first_favourite_that_is_fast_comes_first_and_the_others_keep_their_order() {
        let other = "warpgroup_mma tile_m=64 tile_n=80 stages=8 schedule=ping_pong";
        for (times, first) in [([10.0, 10.4, 10.5], 2), ([10.0, 10.4, 10.6], 1), ([10.0, 11.0, 12.0], 0)] {
            let texts = [other, CONFIGS[1], CONFIGS[0]];
            let mut configs = ranking(&texts.iter().copied().zip(times).collect::<Vec<_>>());
            put_first(&mut configs);
            let mut expected = texts.to_vec();
            expected[..=first].rotate_right(1);
            assert_eq!(configs.iter().map(|ranked| ranked.config.to_string()).collect::<Vec<_>>(), expected);
        }
        put_first(&mut []);
    }
}
