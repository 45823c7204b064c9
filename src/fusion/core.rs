//! Cores: the operations around which a graph is fused.

use super::{Attention, Mha, Side, Stage};
use crate::graph::{Attributes, ConvolutionDirection, FinalizedGraph, Operation, OperationId, Port, TensorId};

/// What a graph is fused around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Core {
    /// Nothing: the graph is pure g2.
    None,
    /// A matmul or convolution.
    Product(Product),
    /// Two matmuls with a softmax between them.
    Attention(Box<Attention>),
    /// The gradients of an attention.
    AttentionBackward(OperationId),
    /// Several matmuls with the probabilities of an attention, in memory, between them.
    Mha(Box<Mha>),
}

/// A core that sums products of two operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Which operation it is.
    pub kind: ProductKind,
    /// The operation.
    pub operation: OperationId,
    /// What it reads, after g1, in port order: A, B; X, W; DY, W; DY, X.
    pub operands: [CoreOperand; 2],
    /// What it writes: C, Y, DX or DW.
    pub result: TensorId,
    /// Groups of a convolution, read off the channel extents (CV-R1); 1 for a matmul.
    pub groups: i64,
}

/// Kinds of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProductKind {
    /// A matmul.
    Matmul,
    /// A convolution, or one of its gradients.
    Convolution(ConvolutionDirection),
}

/// An operand of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreOperand {
    /// The tensor the core reads.
    pub tensor: TensorId,
    /// Which side it is: operations before it have the stage [`Stage::Before`] of this side.
    pub side: Side,
    /// Whether the pattern's form keeps it as it is, without operations before it.
    pub is_bare: bool,
}

impl CoreOperand {
    /// Stage of the operations before it.
    pub fn stage(&self) -> Stage {
        Stage::Before(self.side)
    }
}

impl ProductKind {
    /// The product that an operation computes; `None` unless it is a matmul or convolution.
    pub(crate) fn of(operation: &Operation) -> Option<Self> {
        match &operation.attributes {
            Attributes::Matmul(_) => Some(Self::Matmul),
            Attributes::Convolution(convolution) => Some(Self::Convolution(convolution.direction)),
            Attributes::Pointwise(_) | Attributes::Reduction(_) | Attributes::GenStats => None,
            Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => None,
            Attributes::Concat(_) | Attributes::Signal(_) | Attributes::View => None,
            Attributes::Transpose | Attributes::AllGather(_) | Attributes::Bernoulli(_) => None,
            Attributes::PageGather | Attributes::BlockBits => None,
            Attributes::Composite(_) | Attributes::Other(_) => None,
        }
    }

    /// Side of each operand, in port order.
    fn sides(self) -> [Side; 2] {
        match self {
            Self::Convolution(ConvolutionDirection::BackwardFilter) => [Side::B, Side::A],
            _ => [Side::A, Side::B],
        }
    }

    /// Whether the form keeps the operand of a side bare.
    fn keeps_bare(self, side: Side) -> bool {
        self != Self::Matmul && side == Side::B
    }
}

impl Product {
    /// The product that an operation of a finalized graph computes; `None` unless it is a matmul or convolution.
    pub(super) fn of(graph: &FinalizedGraph, id: OperationId) -> Option<Self> {
        let operation = graph.operation(id);
        let kind = ProductKind::of(operation)?;
        let [first, second] = operands(operation)?;
        let [first_side, second_side] = kind.sides();
        let operand = |tensor, side| CoreOperand { tensor, side, is_bare: kind.keeps_bare(side) };
        Some(Self {
            kind,
            operation: id,
            operands: [operand(first, first_side), operand(second, second_side)],
            result: operation.result()?,
            groups: groups(graph, id),
        })
    }

    /// The tensors it reads, in port order.
    pub fn tensors(&self) -> [TensorId; 2] {
        self.operands.map(|operand| operand.tensor)
    }

    /// The operand of a side.
    pub fn operand(&self, side: Side) -> &CoreOperand {
        let [first, second] = &self.operands;
        if first.side == side { first } else { second }
    }
}

/// The two tensors a product reads, in port order; `None` for other operations.
pub(crate) fn operands(operation: &Operation) -> Option<[TensorId; 2]> {
    let [first, second] = match &operation.attributes {
        Attributes::Matmul(_) => [Port::A, Port::B],
        Attributes::Convolution(convolution) => convolution.ports().0,
        _ => return None,
    };
    Some([operation.input(first)?, operation.input(second)?])
}

/// Groups of a convolution (CV-R1): channels of the image over channels of one filter in the packed form, the extent
/// of the group axis in the explicit one.
pub(crate) fn groups(graph: &FinalizedGraph, core: OperationId) -> i64 {
    let operation = graph.operation(core);
    let Attributes::Convolution(convolution) = &operation.attributes else { return 1 };
    let (image, filter) = match convolution.direction {
        ConvolutionDirection::Forward => (operation.input(Port::X), operation.input(Port::W)),
        ConvolutionDirection::BackwardData => (operation.output(Port::DX), operation.input(Port::W)),
        ConvolutionDirection::BackwardFilter => (operation.input(Port::X), operation.output(Port::DW)),
    };
    let dim = |tensor: Option<TensorId>| tensor.map_or(&[][..], |id| graph.tensor(id).dim.as_slice());
    let has_group_axis = dim(image).len() > convolution.stride.len() + 2;
    match (dim(image).get(1), dim(filter).get(1)) {
        (Some(&groups), _) if has_group_axis => groups,
        (Some(image), Some(filter)) => (image / filter).max(1),
        _ => 1,
    }
}
