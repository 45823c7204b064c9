//! Signals: one thread waits for flags before the first launch, and sets flags after the last.
//!
//! A launch of one thread leaves the rest of the device to whoever sets the flag, and the order of launches on a stream
//! gives both directions: what comes after a wait has not begun, what comes before a set is written.

use std::collections::BTreeSet;

use crate::engine::builder::{KernelBuilder, Shape};
use crate::fusion::{Fusion, Stage};
use crate::graph::{Attributes, FinalizedGraph, Operation, OperationId, Port, SignalMode, TensorId};
use crate::kernel::{Body, FlagAction, Parameter, SignalKernel};

/// Lowers the work of a graph between its waits and its sets.
pub(super) fn around_signals(fusion: &Fusion, builder: &mut KernelBuilder, lower: impl FnOnce(&mut KernelBuilder)) {
    let order = SignalOrder::new(fusion);
    push(order.before, builder);
    lower(builder);
    push(order.after, builder);
}

/// The flags of a graph in the order in which one thread treats them.
#[derive(Debug, Default, PartialEq)]
struct SignalOrder {
    before: Vec<FlagAction>,
    after: Vec<FlagAction>,
}

impl SignalOrder {
    /// Signals of g1 come before all work, as their X lies in memory; of the others, sets come after it, and so do
    /// waits that depend on such a set.
    fn new(fusion: &Fusion) -> Self {
        let graph = fusion.graph();
        let mut order = Self::default();
        let late = behind_sets(fusion);
        for id in graph.operation_ids() {
            let Some(action) = action(graph.operation(id)) else { continue };
            if late.contains(&id) { order.after.push(action) } else { order.before.push(action) }
        }
        order
    }
}

fn action(operation: &Operation) -> Option<FlagAction> {
    let Attributes::Signal(signal) = &operation.attributes else { return None };
    Some(FlagAction { mode: signal.mode, flag: operation.input(Port::FLAG)?, value: signal.value })
}

/// Sets of the epilogue, and all that depends on them.
fn behind_sets(fusion: &Fusion) -> BTreeSet<OperationId> {
    let graph = fusion.graph();
    let (mut operations, mut tensors) = (BTreeSet::new(), BTreeSet::<TensorId>::new());
    for id in fusion.operations(Stage::After) {
        let operation = graph.operation(id);
        let sets = action(operation).is_some_and(|action| action.mode == SignalMode::Set);
        if sets || operation.input_tensors().any(|input| tensors.contains(&input)) {
            operations.insert(id);
            tensors.extend(operation.output_tensors());
        }
    }
    operations
}

/// Whether the signals of a fusion have an order among launches: flags are integers in memory that can have the value
/// and that the graph does not compute, and nothing but signals depends on a set of g2.
pub(super) fn signals_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.operation_ids() {
        if let Some(action) = action(graph.operation(id)) {
            flag_is_taken(graph, action).map_err(|reason| format!("{}: {reason}", graph.describe_operation(id)))?;
        }
    }
    let is_signal = |id: &OperationId| action(graph.operation(*id)).is_some();
    match behind_sets(fusion).into_iter().find(|id| !is_signal(id)) {
        Some(id) => Err(format!("{}: it depends on a signal that sets a flag", graph.describe_operation(id))),
        None => Ok(()),
    }
}

fn flag_is_taken(graph: &FinalizedGraph, action: FlagAction) -> Result<(), String> {
    use crate::graph::DataType as T;
    let flag = graph.tensor(action.flag);
    let name = graph.describe_tensor(action.flag);
    let holds_value = match flag.data_type {
        T::Int8 => i8::try_from(action.value).is_ok(),
        T::UInt8 => u8::try_from(action.value).is_ok(),
        T::Int32 => i32::try_from(action.value).is_ok(),
        data_type => data_type == T::Int64,
    };
    if flag.is_pass_by_value || graph.producer(action.flag).is_some() {
        return Err(format!("the flag {name} is no input in device memory"));
    }
    if !holds_value {
        return Err(format!("the flag {name} of type {} cannot have the value {}", flag.data_type, action.value));
    }
    Ok(())
}

fn push(actions: Vec<FlagAction>, builder: &mut KernelBuilder) {
    if actions.is_empty() {
        return;
    }
    let flags: BTreeSet<TensorId> = actions.iter().map(|action| action.flag).collect();
    let shape = Shape { grid: [1; 2], block: [1; 3], shared_bytes: 0 };
    let parameters = flags.into_iter().map(Parameter::Tensor).collect();
    builder.push("signal", shape, parameters, Body::Signal(SignalKernel { actions }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{DataType, Graph, PointwiseMode, Signal, Tensor, TensorHandle};

    /// Adds a signal on X; its result.
    fn signal(graph: &mut Graph, mode: SignalMode, value: i64, x: TensorHandle, flag: TensorHandle) -> TensorHandle {
        let y = graph.tensor(Tensor { is_virtual: true, ..Tensor::new("y").data_type(DataType::Half) });
        graph.operation(Operation {
            name: format!("signal {value}"),
            attributes: Attributes::Signal(Signal { mode, value }),
            compute_data_type: None,
            inputs: vec![(Port::X, x), (Port::FLAG, flag)],
            outputs: vec![(Port::Y, y)],
        });
        y
    }

    fn flag(graph: &mut Graph, data_type: DataType) -> TensorHandle {
        graph.tensor(Tensor::new("flag").row_major([1, 1, 1]).data_type(data_type))
    }

    /// A matmul with signals on A and on C, in order; the fusion.
    fn fused(before: &[(SignalMode, i64)], after: &[(SignalMode, i64)], data_type: DataType, negated: bool) -> Fusion {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Half)
            .compute_data_type(DataType::Float);
        let flag = flag(&mut graph, data_type);
        let mut a = graph.tensor(Tensor::new("A").row_major([1, 8, 16]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 16, 8]));
        for &(mode, value) in before {
            a = signal(&mut graph, mode, value, a, flag);
        }
        let mut c = graph.matmul("mm", a, b);
        for &(mode, value) in after {
            c = signal(&mut graph, mode, value, c, flag);
        }
        if negated {
            c = graph.pointwise("neg", PointwiseMode::Neg, &[c]);
        }
        graph.set_output(c);
        crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul")
    }

    fn values(fusion: &Fusion) -> [Vec<i64>; 2] {
        let order = SignalOrder::new(fusion);
        [order.before, order.after].map(|actions| actions.iter().map(|action| action.value).collect())
    }

    #[test]
    fn waits_come_before_the_work_and_sets_after_it() {
        use SignalMode::{Set, Wait};
        let order = |before: &[_], after: &[_]| values(&fused(before, after, DataType::Int32, false));
        assert_eq!(order(&[(Wait, 1)], &[(Set, 2)]), [vec![1], vec![2]]);
        assert_eq!(order(&[], &[(Wait, 1), (Set, 2), (Wait, 3), (Set, 4)]), [vec![1], vec![2, 3, 4]]);
        assert_eq!(order(&[(Set, 1), (Wait, 2)], &[]), [vec![1, 2], vec![]], "A lies in memory from the start");
    }

    #[test]
    fn work_behind_a_set_is_refused() {
        let refusal = signals_are_taken(&fused(&[], &[(SignalMode::Set, 1)], DataType::Int32, true)).unwrap_err();
        assert_eq!(refusal, "'neg' (POINTWISE NEG): it depends on a signal that sets a flag");
        signals_are_taken(&fused(&[], &[(SignalMode::Wait, 1)], DataType::Int32, true)).unwrap();
    }

    #[test]
    fn flags_are_integers_that_can_have_the_value() {
        let taken = |value, data_type| signals_are_taken(&fused(&[(SignalMode::Wait, value)], &[], data_type, false));
        for (value, data_type, is_taken) in [
            (-128, DataType::Int8, true),
            (128, DataType::Int8, false),
            (255, DataType::UInt8, true),
            (i64::from(i32::MIN), DataType::Int32, true),
            (i64::from(i32::MAX) + 1, DataType::Int32, false),
            (i64::MAX, DataType::Int64, true),
            (1, DataType::Float, false),
        ] {
            assert_eq!(taken(value, data_type).is_ok(), is_taken, "{value} {data_type}");
        }
    }
}
