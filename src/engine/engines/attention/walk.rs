//! When the last block is done that walks tiles of different lengths.

use crate::kernel::SectionTurns;

/// What blocks walk: sections of heads, of each a tile of all its heads, the longest first, then the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    /// Steps of each tile of a head, in the order of the walk.
    pub(super) steps: &'a [i64],
    /// Heads, and those of a section at most.
    pub(super) heads: i64,
    pub(super) section: i64,
    pub(super) blocks: i64,
}

/// What a tile takes beside its steps, in steps.
const STEPS_OF_TILE: i64 = 1;

impl Walk<'_> {
    /// Tiles that are walked at most: what further sections add is as of those before, and a section of half as many has so many turns that the last of them
    /// matters little.
    pub(super) const MOST_TILES: i64 = 1 << 14;

    /// Steps of the block that has most of them, where sections begin with a turn, or follow each other.
    pub(super) fn longest(&self, turns: Option<SectionTurns>) -> i64 {
        let mut sums = vec![0; usize::try_from(self.blocks).unwrap_or(0)];
        self.tiles(turns, |block, _, tile| {
            let sum = usize::try_from(block).ok().and_then(|block| sums.get_mut(block));
            if let Some((sum, steps)) = sum.zip(usize::try_from(tile).ok().and_then(|tile| self.steps.get(tile))) {
                *sum += steps + STEPS_OF_TILE;
            }
        });
        sums.into_iter().max().unwrap_or(0)
    }

    /// Calls a function with each block, head and tile of the walk.
    fn tiles(&self, turns: Option<SectionTurns>, mut visit: impl FnMut(i64, i64, i64)) {
        // sections that do not begin with a turn are as one that has all turns
        let order = turns.unwrap_or(SectionTurns { blocks: self.blocks, turns: SectionTurns::ALL });
        let tiles = self.steps.len() as i64;
        let (mut turn, mut at) = (0, 0);
        for first in (0..self.heads).step_by(usize::try_from(self.section).unwrap_or(1).max(1)) {
            let heads = self.section.min(self.heads - first);
            for tile in 0..tiles {
                for head in first..first + heads {
                    visit(if order.turns_back(turn) { self.blocks - 1 - at } else { at }, head, tile);
                    at += 1;
                    if at == self.blocks {
                        (turn, at) = (turn + 1, 0);
                    }
                }
            }
            if let Some(of_section) = turns {
                (turn, at) = ((first / self.section + 1) * of_section.turns, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A causal attention: tile `n` of a head has `n + 1` steps.
    fn slope(tiles: i64) -> Vec<i64> {
        (1..=tiles).rev().collect()
    }

    #[test]
    fn sections_that_begin_with_a_turn_end_even_where_turns_have_almost_all_of_their_tiles() {
        // 4 heads of 64 tiles are 8 fewer than two turns of 132 blocks: one after the other, a block has the longest of each
        let steps = slope(64);
        let walk = Walk { steps: &steps, heads: 32, section: 4, blocks: 132 };
        let turns = SectionTurns { blocks: 132, turns: 2 };
        let mean = 32 * (64 * 65 / 2 + 64) / 132;
        assert!(walk.longest(Some(turns)) * 100 < mean * 102, "{} of {mean}", walk.longest(Some(turns)));
        assert!(walk.longest(None) * 100 > mean * 150, "{} of {mean}", walk.longest(None));
    }

    #[test]
    fn every_tile_of_every_head_is_walked_once() {
        for (heads, section, tiles, blocks) in [(32, 4, 64, 132), (10, 4, 5, 7), (9, 3, 4, 4), (7, 3, 9, 5)] {
            let steps = slope(tiles);
            let walk = Walk { steps: &steps, heads, section, blocks };
            let turns = (section * tiles + blocks - 1) / blocks;
            for turns in [None, Some(SectionTurns { blocks, turns })] {
                let mut seen = Vec::new();
                walk.tiles(turns, |block, head, tile| {
                    assert!((0..blocks).contains(&block));
                    seen.push((head, tile));
                });
                seen.sort_unstable();
                let all: Vec<_> = (0..heads).flat_map(|head| (0..tiles).map(move |tile| (head, tile))).collect();
                assert_eq!(seen, all);
            }
        }
    }
}
