//! Writing tensors in parallel.

use std::ops::Range;

use rayon::prelude::*;

use super::lanes::Lanes;
use super::traversal::{Traversal, split_at_all};
use super::{CHUNK, HostTensor};
use crate::graph::DataType;

/// Writes tensors of one common layout, block by block in parallel.
///
/// `produce(space, positions)` gives, per output, the values at these positions, converted to the output's type. In the
/// space, operand 0 is the outputs and operands 1, … have the strides of `sources` (in the axis order of the outputs'
/// extents). At most 4096 positions at a time are asked for.
pub(crate) fn store_outputs(
    outputs: &mut [&mut HostTensor],
    sources: &[Vec<usize>],
    produce: impl Fn(&Traversal, Range<usize>) -> Vec<Lanes> + Sync,
) {
    let Some(first) = outputs.first() else { return };
    let strides: Vec<_> = std::iter::once(first.strides()).chain(sources.iter().cloned()).collect();
    let space = Traversal::following(&first.extents(), 0, &strides);
    let any_bits = outputs.iter().any(|output| output.data_type == DataType::Boolean);
    let cuts = space.cuts(0, if any_bits { 8 } else { 1 });
    let mut blocks: Vec<Vec<Part>> = cuts.iter().skip(1).map(|_| Vec::new()).collect();
    for output in outputs {
        for (block, part) in blocks.iter_mut().zip(parts(output, &space, &cuts)) {
            block.push(part);
        }
    }
    blocks.into_par_iter().zip(cuts.par_windows(2)).for_each(|(mut parts, cut)| {
        for start in (cut[0]..cut[1]).step_by(CHUNK) {
            let range = start..cut[1].min(start + CHUNK);
            for (part, lanes) in parts.iter_mut().zip(produce(&space, range.clone())) {
                part.store(&space, range.clone(), &lanes);
            }
        }
    });
}

/// One block's part of an output's storage.
struct Part<'a> {
    data_type: DataType,
    image: &'a mut [u8],
    /// Linear offset of the part's first element in the whole storage.
    base: usize,
}

impl Part<'_> {
    fn store(&mut self, space: &Traversal, range: Range<usize>, lanes: &Lanes) {
        let (mut done, step) = (0, space.inner_stride(0));
        space.for_each_run(0, range, |start, len| {
            lanes.store(done, self.data_type, self.image, start - self.base, step, len);
            done += len;
        });
    }
}

/// An output's storage cut into the parts of the blocks between `cuts`.
fn parts<'a>(output: &'a mut HostTensor, space: &Traversal, cuts: &[usize]) -> Vec<Part<'a>> {
    let data_type = output.data_type;
    let starts = &cuts[..cuts.len() - 1];
    let bases: Vec<usize> = starts.iter().map(|&cut| space.offset(0, cut)).collect();
    let bytes: Vec<usize> = bases.iter().skip(1).map(|base| base * data_type.bits() as usize / 8).collect();
    let images = split_at_all(&mut output.bytes, &bytes);
    images.into_iter().zip(bases).map(|(image, base)| Part { data_type, image, base }).collect()
}
