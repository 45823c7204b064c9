//! A graph of several products in parts, each of which an engine takes: products alone, and passes over what is between them.
//!
//! A value has the level of the most products one behind the other before it. All that is computed of values of one level, and is read by a product,
//! by what has a higher level, or by the caller, is a part; the products of the level follow. What two parts need that is kept nowhere both compute.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::values::{matrices, operands};
use crate::graph::{Attributes, FinalTensor, FinalizedGraph, Operation, OperationId, Port, TensorId};
use crate::kernel::{DropoutMaskKernel, Dropping};

/// A part of a chain.
pub(super) struct Part {
    /// What it computes, with all tensors of the whole in their places.
    pub(super) graph: Arc<FinalizedGraph>,
    pub(super) work: Work,
}

/// Who computes a part.
pub(super) enum Work {
    /// Passes over points.
    Passes,
    /// An engine of products.
    Product,
    /// The generator of random numbers.
    Mask(DropoutMaskKernel),
}

/// A graph in parts.
pub(super) struct Divided {
    /// Values between parts that lie in the workspace, with the words of four bytes that each has.
    pub(super) kept: Vec<(TensorId, i64)>,
    /// In the order of their launches.
    pub(super) parts: Vec<Part>,
}

/// Cuts a graph in parts.
///
/// # Errors
/// What no part computes, as a sentence.
pub(super) fn cut(whole: &FinalizedGraph) -> Result<Divided, String> {
    let cut = Cut::of(whole)?;
    let mut parts = cut.masks()?;
    for level in 0..=cut.levels.iter().copied().max().unwrap_or(0) {
        parts.extend(cut.passes(level));
        for id in whole.operation_ids().filter(|&id| cut.is_product(id)) {
            let [a, b, _] = operands(whole.operation(id))?;
            if cut.level(a).max(cut.level(b)) == level {
                parts.push(cut.product(id)?);
            }
        }
    }
    let kept = cut.kept().map(|id| (id, words(whole.tensor(id)))).collect();
    Ok(Divided { kept, parts })
}

/// Words of four bytes of a packed tensor.
fn words(tensor: &FinalTensor) -> i64 {
    (tensor.dim.iter().product::<i64>() * tensor.data_type.bits() as i64 + 31) / 32
}

struct Cut<'a> {
    whole: &'a FinalizedGraph,
    /// Of each tensor.
    levels: Vec<usize>,
    /// What lies in memory, for parts that read it.
    in_memory: BTreeSet<TensorId>,
}

impl<'a> Cut<'a> {
    fn of(whole: &'a FinalizedGraph) -> Result<Self, String> {
        let mut cut = Self { whole, levels: vec![0; whole.tensors().len()], in_memory: BTreeSet::new() };
        for id in whole.operation_ids() {
            let operation = whole.operation(id);
            let before = operation.input_tensors().map(|id| cut.level(id)).max().unwrap_or(0);
            let level = before + usize::from(cut.is_product(id));
            operation.output_tensors().for_each(|id| cut.levels[id.index()] = level);
        }
        for id in whole.tensor_ids() {
            let is_alone = whole.producer(id).is_some_and(|id| cut.is_product(id) || cut.draws(id));
            let is_computed = whole.producer(id).is_some() && !cut.is_transposed(id);
            if is_alone || is_computed && !whole.tensor(id).is_virtual {
                cut.in_memory.insert(id);
            }
        }
        let products: Vec<OperationId> = whole.operation_ids().filter(|&id| cut.is_product(id)).collect();
        for id in products {
            let [a, b, _] = operands(whole.operation(id))?;
            let read = [a, b].map(|operand| cut.untransposed(operand));
            cut.in_memory.extend(read.into_iter().filter(|&id| whole.producer(id).is_some()));
        }
        cut.transposes_are_read_by_products()?;
        Ok(cut)
    }

    fn level(&self, id: TensorId) -> usize {
        self.levels[id.index()]
    }

    fn is_product(&self, id: OperationId) -> bool {
        matches!(self.whole.operation(id).attributes, Attributes::Matmul(_))
    }

    fn draws(&self, id: OperationId) -> bool {
        matches!(self.whole.operation(id).attributes, Attributes::Bernoulli(_))
    }

    fn is_transposed(&self, id: TensorId) -> bool {
        let producer = self.whole.producer(id).map(|id| &self.whole.operation(id).attributes);
        matches!(producer, Some(Attributes::Transpose))
    }

    /// What is transposed, where an operand is.
    fn untransposed(&self, operand: TensorId) -> TensorId {
        let transpose = self.whole.producer(operand).filter(|_| self.is_transposed(operand));
        transpose.and_then(|id| self.whole.operation(id).input(Port::X)).unwrap_or(operand)
    }

    /// What is transposed is so as products read it.
    fn transposes_are_read_by_products(&self) -> Result<(), String> {
        let is_read_otherwise = |id: &TensorId| {
            let tensor = self.whole.tensor(*id);
            !tensor.is_virtual || !self.whole.consumers(*id).iter().all(|&reader| self.is_product(reader))
        };
        let mut transposed = self.whole.tensor_ids().filter(|&id| self.is_transposed(id));
        match transposed.find(is_read_otherwise) {
            Some(id) => {
                let tensor = self.whole.describe_tensor(id);
                Err(format!("tensor {tensor}: no kernels for transposed values that products do not read"))
            }
            None => Ok(()),
        }
    }

    /// Values between parts that the caller does not have.
    fn kept(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.in_memory.iter().copied().filter(|&id| self.whole.tensor(id).is_virtual)
    }

    /// The tensors of every part: what is between parts lies in memory, packed.
    fn tensors(&self) -> Vec<FinalTensor> {
        let mut tensors: Vec<FinalTensor> = self.whole.tensors().cloned().collect();
        self.kept().for_each(|id| tensors[id.index()].is_virtual = false);
        tensors
    }

    fn part(&self, tensors: Vec<FinalTensor>, operations: Vec<Operation>, work: Work) -> Part {
        Part { graph: Arc::new(self.whole.in_parts(tensors, operations)), work }
    }

    /// What is drawn at random, of all elements.
    fn masks(&self) -> Result<Vec<Part>, String> {
        let drawn = self.whole.operation_ids().filter(|&id| self.draws(id));
        drawn.map(|id| self.mask(self.whole.operation(id))).collect()
    }

    fn mask(&self, operation: &Operation) -> Result<Part, String> {
        let slots = (operation.input(Port::SEED), operation.input(Port::OFFSET), operation.output(Port::Y));
        let (Attributes::Bernoulli(kept), (Some(seed), Some(offset), Some(output))) = (&operation.attributes, slots)
        else {
            return Err("random numbers of no seed".to_owned());
        };
        let Ok(extents) = <[i64; 4]>::try_from(&self.whole.tensor(output).dim[..]) else {
            return Err("random numbers of scores alone are drawn".to_owned());
        };
        let dropout = Dropping { threshold: kept.threshold(), state: [seed, offset], scale: seed };
        let work = Work::Mask(DropoutMaskKernel { output, dropout, extents });
        Ok(self.part(self.tensors(), vec![operation.clone()], work))
    }

    /// What is computed of values of a level, if anything is.
    fn passes(&self, level: usize) -> Option<Part> {
        let is_alone = |id: TensorId| self.whole.producer(id).is_some_and(|id| self.is_product(id) || self.draws(id));
        let wanted = self.in_memory.iter().copied().filter(|&id| self.level(id) == level && !is_alone(id));
        let (mut open, mut found) = (wanted.collect::<Vec<_>>(), BTreeSet::new());
        let is_given = |id: TensorId| is_alone(id) || self.in_memory.contains(&id) && self.level(id) < level;
        while let Some(id) = open.pop() {
            let producer = self.whole.producer(id).filter(|_| !is_given(id));
            if let Some(producer) = producer.filter(|&producer| found.insert(producer)) {
                open.extend(self.whole.operation(producer).input_tensors());
            }
        }
        let operations: Vec<Operation> = found.iter().map(|&id| self.whole.operation(id).clone()).collect();
        (!operations.is_empty()).then(|| self.part(self.tensors(), operations, Work::Passes))
    }

    /// A product, of matrices one behind the other.
    fn product(&self, id: OperationId) -> Result<Part, String> {
        let mut operation = self.whole.operation(id).clone();
        let [a, b, c] = operands(&operation)?;
        let mut tensors = self.tensors();
        let mut seen = BTreeSet::new();
        for (slot, operand) in [(Some(0), a), (Some(1), b), (None, c)] {
            let (memory, is_turned) = (self.untransposed(operand), self.is_transposed(operand));
            let tensor = &mut tensors[memory.index()];
            if is_turned {
                tensor.dim.swap(2, 3);
                tensor.stride.swap(2, 3);
            }
            let seen_before = !seen.insert(memory);
            let name = || self.whole.describe_tensor(memory);
            if seen_before {
                return Err(format!("tensor {} is both operands of a product", name()));
            }
            let [dim, stride] = matrices(&tensor.dim, &tensor.stride)
                .ok_or_else(|| format!("tensor {} is no line of matrices", name()))?;
            (tensor.dim, tensor.stride) = (dim.to_vec(), stride.to_vec());
            if let Some(slot) = slot {
                operation.inputs[slot].1 = memory;
            }
        }
        Ok(self.part(tensors, vec![operation], Work::Product))
    }
}
