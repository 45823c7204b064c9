//! The same value with the first two inputs the other way round, for operations whose inputs do not commute.

use crate::graph::{Attributes, Graph, Operation, Pointwise, PointwiseMode, Port, Tensor};

/// How an operation is written with its second input first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    /// What the second input becomes beforehand, where something.
    pub(super) before: Option<PointwiseMode>,
    /// The mode of the operation then.
    pub(super) mode: PointwiseMode,
    pub(super) is_exact: bool,
}

/// `None` for operations that have no such form, and for those that need none as they commute.
pub(super) fn mirror<T: Copy>(operation: &Operation<T>) -> Option<Mirror> {
    let Attributes::Pointwise(pointwise) = &operation.attributes else { return None };
    let swapped = |mode| Mirror { before: None, mode, is_exact: true };
    let of_one = |before, mode, is_exact| Mirror { before: Some(before), mode, is_exact };
    let mirror = match pointwise.mode {
        PointwiseMode::CmpGt => swapped(PointwiseMode::CmpLt),
        PointwiseMode::CmpGe => swapped(PointwiseMode::CmpLe),
        PointwiseMode::CmpLt => swapped(PointwiseMode::CmpGt),
        PointwiseMode::CmpLe => swapped(PointwiseMode::CmpGe),
        // a - b is -b + a to the bit, and a / b is rounded once where a · (1 / b) is twice
        PointwiseMode::Sub => of_one(PointwiseMode::Neg, PointwiseMode::Add, true),
        PointwiseMode::Div => of_one(PointwiseMode::Reciprocal, PointwiseMode::Mul, false),
        _ => return None,
    };
    (pointwise.alpha1 == pointwise.alpha2).then_some(mirror)
}

impl Mirror {
    /// Writes the operation at this place so; `None` where it has no two inputs, or whole numbers that would be negated.
    pub(super) fn apply(self, graph: &mut Graph, place: usize) -> Option<()> {
        let [(first_port, first), (second_port, second), ..] = graph.operations[place].inputs[..] else { return None };
        let second = match self.before {
            Some(mode) => {
                let source = &graph.tensors()[second.index()];
                let data_type = source.data_type.filter(|data_type| data_type.is_floating())?;
                let name = format!("{}::{}", source.name, mode.name().to_lowercase());
                let (dim, compute) = (source.dim.clone(), graph.operations[place].compute_data_type);
                let result = Tensor { data_type: Some(data_type), dim, is_virtual: true, ..Tensor::new(&name) };
                let result = graph.tensor(result);
                graph.operation(Operation {
                    name,
                    attributes: Attributes::Pointwise(Pointwise::new(mode)),
                    compute_data_type: compute,
                    inputs: vec![(Port::IN_0, second)],
                    outputs: vec![(Port::OUT_0, result)],
                });
                result
            }
            None => second,
        };
        let operation = &mut graph.operations[place];
        operation.inputs[..2].copy_from_slice(&[(first_port, second), (second_port, first)]);
        let Attributes::Pointwise(pointwise) = &mut operation.attributes else { return None };
        pointwise.mode = self.mode;
        Some(())
    }

    /// What is to be written of two inputs: `ADD of the NEG of B and A`.
    pub(super) fn describe(self, [first, second]: [&str; 2]) -> String {
        let second = self.before.map_or(second.to_owned(), |mode| format!("the {} of {second}", mode.name()));
        format!("{} of {second} and {first}", self.mode.name())
    }
}
