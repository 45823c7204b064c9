//! Edits that keep the mathematics of a graph.
//!
//! An edit names tensors by uid and operations by the uid of their first output: those of a graph keep their uids whatever else is
//! edited, while their ids are given anew each time a graph is finalized.

use serde_json::Value;

use super::mirror::{Mirror, mirror};
use super::number::loses;
use super::shape;
use crate::graph::{
    Attributes, DEFAULT_ALIGNMENT, DataType, FinalTensor, FinalizedGraph, Graph, OperationId, Pointwise, PointwiseMode,
    Port, Tensor, TensorHandle, TensorId, channels_last_order, packed_strides, row_major_order,
};
use crate::support::forms::dims_text;

/// A tensor, by its uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TensorUid(i64);

/// An operation, by the uid of its first output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OperationUid(i64);

/// How a tensor is to lie in memory, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// NHWC, NDHWC.
    ChannelsLast,
    /// The last axis is contiguous.
    RowMajor,
}

/// One edit, at one place or, where the same is wrong at several, at all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Edit {
    /// Swaps the first two inputs of a commutative operation.
    Swap(OperationUid),
    /// Writes an operation that does not commute with its second input first.
    Mirror(OperationUid),
    /// Raises the alignment of pointers to [`DEFAULT_ALIGNMENT`].
    Align(Vec<TensorUid>),
    /// Pads strides to multiples of [`DEFAULT_ALIGNMENT`] bytes.
    Pad(Vec<TensorUid>),
    /// Gives tensors another type.
    Retype(Vec<TensorUid>, DataType),
    /// Computes operations in another type.
    Compute(Vec<OperationUid>, DataType),
    /// Converts an operand before the operation that reads it.
    Convert { operation: OperationUid, operand: TensorUid, to: DataType },
    /// Lays tensors out anew.
    LayOut(Vec<TensorUid>, Layout),
    /// Gives every tensor an axis of 1: in front, or before the spatial axes of a convolution.
    AddAxis,
    /// Folds all but the last two axes of every tensor into one.
    FoldBatch,
    /// Gives every tensor that has the channels of a norm more of them, up to whole vectors.
    AddChannels,
}

/// What an edit changes at one place, as data.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EditRecord {
    /// What kind of edit it is: `swap_inputs`, `mirror`, `alignment`, `strides`, `data_type`, `compute_data_type`, `convert`, `rank`, `channels`, `cut`.
    pub kind: &'static str,
    /// Name of the tensor that is edited; for `cut` one that is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// Uid of that tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<i64>,
    /// Name of the operation that is edited; for `cut` the first of the next graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What is there now: a type, strides, extents, bytes.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub from: Value,
    /// What is to be there.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub to: Value,
}

impl TensorUid {
    pub(super) fn of(graph: &FinalizedGraph, id: TensorId) -> Self {
        Self(graph.tensor(id).uid)
    }

    pub(super) fn tensor(self, graph: &FinalizedGraph) -> Option<TensorId> {
        graph.tensor_by_uid(self.0)
    }

    fn handle_in(self, graph: &Graph) -> Option<TensorHandle> {
        graph.tensor_ids().find(|id| graph.tensors()[id.index()].uid == Some(self.0))
    }
}

impl OperationUid {
    /// `None` for an operation without outputs.
    pub(super) fn of(graph: &FinalizedGraph, id: OperationId) -> Option<Self> {
        graph.operation(id).output_tensors().next().map(|output| Self(graph.tensor(output).uid))
    }

    pub(super) fn operation(self, graph: &FinalizedGraph) -> Option<OperationId> {
        graph.producer(graph.tensor_by_uid(self.0)?)
    }

    fn mirror(self, graph: &FinalizedGraph) -> Option<Mirror> {
        mirror(graph.operation(self.operation(graph)?))
    }

    /// The operation with its second input first, in words.
    fn mirrored(self, graph: &FinalizedGraph) -> Option<String> {
        let mut inputs = graph.operation(self.operation(graph)?).input_tensors();
        let [first, second] = [inputs.next()?, inputs.next()?].map(|input| graph.describe_tensor(input));
        Some(self.mirror(graph)?.describe([&first, &second]))
    }

    fn place_in(self, graph: &Graph) -> Option<usize> {
        let is_own = |tensor: TensorHandle| graph.tensors()[tensor.index()].uid == Some(self.0);
        graph.operations().iter().position(|operation| operation.output_tensors().next().is_some_and(is_own))
    }
}

impl Edit {
    /// How much an edit asks of whoever makes it, among changes of as many edits: nothing but the graph's own text, then what the
    /// caller's memory holds, then what the caller's data are.
    pub(super) fn weight(&self, graph: &FinalizedGraph) -> u32 {
        let is_stored = |uid: &TensorUid| uid.tensor(graph).is_some_and(|id| !graph.tensor(id).is_virtual);
        match self {
            Self::Swap(_) => 1,
            Self::Align(_) => 2,
            Self::Retype(tensors, _) if tensors.iter().any(is_stored) => 12,
            Self::Retype(..) => 3,
            Self::Compute(..) | Self::Mirror(_) => 4,
            Self::Pad(_) => 5,
            Self::Convert { .. } => 6,
            Self::AddAxis | Self::FoldBatch => 7,
            Self::LayOut(..) => 8,
            Self::AddChannels => 13,
        }
    }

    /// Whether both edits set the same thing of some place, so that the later would undo the earlier.
    pub(super) fn collides_with(&self, other: &Self) -> bool {
        fn meet<T: PartialEq>(places: &[T], others: &[T]) -> bool {
            places.iter().any(|place| others.contains(place))
        }
        match (self, other) {
            (Self::Swap(place) | Self::Mirror(place), Self::Swap(same) | Self::Mirror(same)) => place == same,
            (Self::Align(places), Self::Align(others))
            | (Self::Pad(places), Self::Pad(others))
            | (Self::Retype(places, _), Self::Retype(others, _))
            | (Self::LayOut(places, _), Self::LayOut(others, _)) => meet(places, others),
            (Self::Compute(places, _), Self::Compute(others, _)) => meet(places, others),
            (Self::Convert { operand, .. }, Self::Convert { operand: same, .. }) => operand == same,
            (Self::AddAxis | Self::FoldBatch, Self::AddAxis | Self::FoldBatch) => true,
            // strides are packed for the channels that a tensor has
            (Self::AddChannels, Self::AddChannels | Self::Pad(_) | Self::LayOut(..)) => true,
            (Self::Pad(_) | Self::LayOut(..), Self::AddChannels) => true,
            _ => false,
        }
    }

    /// The edit with each place but one left out; empty where there is only one place.
    pub(super) fn thinned(&self) -> Vec<Self> {
        fn without<T: Copy>(places: &[T], of: impl Fn(Vec<T>) -> Edit) -> Vec<Edit> {
            let all = 0..places.len();
            let rest = |left_out| all.clone().filter(|&place| place != left_out).map(|place| places[place]).collect();
            if places.len() < 2 { Vec::new() } else { all.clone().map(rest).map(of).collect() }
        }
        match self {
            Self::Align(tensors) => without(tensors, Self::Align),
            Self::Pad(tensors) => without(tensors, Self::Pad),
            Self::Retype(tensors, to) => without(tensors, |rest| Self::Retype(rest, *to)),
            Self::Compute(operations, to) => without(operations, |rest| Self::Compute(rest, *to)),
            Self::LayOut(tensors, layout) => without(tensors, |rest| Self::LayOut(rest, *layout)),
            Self::Swap(_) | Self::Mirror(_) | Self::Convert { .. } => Vec::new(),
            Self::AddAxis | Self::FoldBatch | Self::AddChannels => Vec::new(),
        }
    }

    /// Makes the edit on a complete description of the graph; `None` where it cannot be made, or changes nothing.
    pub(super) fn apply(&self, edited: &mut Graph) -> Option<()> {
        match self {
            Self::Swap(operation) => {
                let place = operation.place_in(edited)?;
                let [(_, first), (_, second), ..] = edited.operations[place].inputs.as_mut_slice() else { return None };
                std::mem::swap(first, second);
                Some(())
            }
            Self::Mirror(operation) => {
                let place = operation.place_in(edited)?;
                mirror(&edited.operations[place])?.apply(edited, place)
            }
            Self::Align(tensors) => {
                on_each(tensors, edited, |tensor| replaced(&mut tensor.alignment, DEFAULT_ALIGNMENT))
            }
            Self::Pad(tensors) => on_each(tensors, edited, |tensor| {
                let stride = padded(&tensor.dim, &tensor.stride, tensor.data_type?)?;
                replaced(&mut tensor.stride, stride)
            }),
            Self::LayOut(tensors, layout) => on_each(tensors, edited, |tensor| {
                let stride = laid_out(&tensor.dim, *layout)?;
                replaced(&mut tensor.stride, stride)
            }),
            Self::Retype(tensors, to) => on_each(tensors, edited, |tensor| replaced(&mut tensor.data_type, Some(*to))),
            Self::Compute(operations, to) => operations.iter().try_for_each(|operation| {
                let place = operation.place_in(edited)?;
                replaced(&mut edited.operations[place].compute_data_type, Some(*to))
            }),
            Self::Convert { operation, operand, to } => {
                let place = operation.place_in(edited)?;
                convert(edited, place, operand.handle_in(edited)?, *to);
                Some(())
            }
            Self::AddAxis => shape::add_axes(edited),
            Self::FoldBatch => shape::fold_batch(edited),
            Self::AddChannels => shape::add_channels(edited),
        }
    }

    /// The edit as an instruction.
    pub(super) fn describe(&self, graph: &FinalizedGraph) -> String {
        let tensors =
            |tensors: &[TensorUid]| named("tensor", tensors, |uid| uid.tensor(graph), |id| graph.describe_tensor(id));
        let operations = |operations: &[OperationUid]| {
            named("operation", operations, |uid| uid.operation(graph), |id| graph.describe_operation(id))
        };
        let current = |uid: &TensorUid| uid.tensor(graph).map(|id| graph.tensor(id));
        match self {
            Self::Swap(operation) => format!("swap the first two inputs of {}", operations(&[*operation])),
            Self::Mirror(operation) => {
                let mirror = operation.mirrored(graph).unwrap_or_default();
                format!("write {} as {mirror}", operations(&[*operation]))
            }
            Self::Align(all) => {
                let pointers = if all.len() == 1 { "the pointer" } else { "the pointers" };
                format!("align {pointers} of {} to {DEFAULT_ALIGNMENT} bytes", tensors(all))
            }
            Self::Pad(all) => {
                let strides = all.iter().filter_map(current).filter_map(padding).map(|stride| dims_text(&stride));
                format!("pad the strides of {} to {}", tensors(all), strides.collect::<Vec<_>>().join(", "))
            }
            Self::Retype(all, to) => {
                let is_virtual = all.iter().filter_map(current).all(|tensor| tensor.is_virtual);
                let word = if is_virtual { "virtual " } else { "" };
                format!("make {word}{} {to} instead of {}", tensors(all), types(all.iter().filter_map(current)))
            }
            Self::Compute(all, to) => {
                let mut types: Vec<String> = Vec::new();
                for id in all.iter().filter_map(|uid| uid.operation(graph)) {
                    let name = graph.compute_type(id).to_string();
                    if !types.contains(&name) {
                        types.push(name);
                    }
                }
                format!("compute {} in {to} instead of {}", operations(all), types.join(" and "))
            }
            Self::Convert { operation, operand, to } => {
                let (operand, operation) = (tensors(&[*operand]), operations(&[*operation]));
                format!("convert {operand} to {to} with a Pointwise IDENTITY before {operation}")
            }
            Self::LayOut(all, layout) => {
                let strides = all.iter().filter_map(current).filter_map(|tensor| laid_out(&tensor.dim, *layout));
                let strides: Vec<String> = strides.map(|stride| dims_text(&stride)).collect();
                format!("lay out {} {layout}: strides {}", tensors(all), strides.join(", "))
            }
            Self::AddAxis => shape::added_axes_text(graph),
            Self::FoldBatch => "fold all axes before the last two of every tensor into one batch axis".to_owned(),
            Self::AddChannels => shape::added_channels_text(graph),
        }
    }

    /// What the edit costs, as a phrase; `None` where it costs nothing.
    pub(super) fn price(&self, graph: &FinalizedGraph) -> Option<String> {
        let find = |uid: &TensorUid| uid.tensor(graph).map(|id| graph.tensor(id));
        match self {
            Self::Swap(_) | Self::AddAxis | Self::FoldBatch => None,
            Self::Mirror(operation) => operation
                .mirror(graph)
                .filter(|mirror| !mirror.is_exact)
                .map(|_| "the quotient is rounded twice".to_owned()),
            Self::Align(_) => Some("the caller allocates so".to_owned()),
            Self::Pad(tensors) => {
                let more = |tensor: &FinalTensor| {
                    let padded = bytes(&tensor.dim, &padding(tensor)?, tensor.data_type);
                    Some(padded - bytes(&tensor.dim, &tensor.stride, tensor.data_type))
                };
                let bytes: i64 = tensors.iter().filter_map(find).filter_map(more).sum();
                Some(format!("{bytes} bytes of padding"))
            }
            Self::Retype(tensors, to) => retype_price(&tensors.iter().filter_map(find).collect::<Vec<_>>(), *to),
            Self::Compute(operations, to) => {
                // whole numbers stay what they are
                let is_whole = |id: &OperationId| {
                    graph.operation(*id).input_tensors().all(|input| graph.tensor(input).data_type.is_integer())
                };
                let edited = operations.iter().filter_map(|uid| uid.operation(graph)).filter(|id| !is_whole(id));
                let from = edited.map(|id| graph.compute_type(id));
                let mut losses = from.filter_map(|from| loses(from, *to));
                losses.next().map(|loss| format!("arithmetic in {to} {loss}"))
            }
            Self::Convert { operand, to, .. } => {
                let loss = find(operand).and_then(|tensor| loses(tensor.data_type, *to));
                Some(loss.map_or("converted in the kernel, exactly".to_owned(), |loss| format!("{to} {loss}")))
            }
            Self::LayOut(..) => Some("the caller's memory is laid out so".to_owned()),
            Self::AddChannels => Some("the caller's data have channels of zeros at the end".to_owned()),
        }
    }

    /// What the edit changes, place by place.
    pub(super) fn records(&self, graph: &FinalizedGraph) -> Vec<EditRecord> {
        match self {
            Self::Swap(operation) => vec![EditRecord::of_operation("swap_inputs", *operation, graph)],
            Self::Mirror(operation) => {
                let record = EditRecord::of_operation("mirror", *operation, graph);
                let to = operation.mirrored(graph).map_or(Value::Null, Value::from);
                vec![EditRecord { to, ..record }]
            }
            Self::Align(tensors) => EditRecord::of_tensors("alignment", tensors, graph, |tensor| {
                Some([tensor.alignment.into(), DEFAULT_ALIGNMENT.into()])
            }),
            Self::Pad(tensors) => EditRecord::of_tensors("strides", tensors, graph, |tensor| {
                Some([tensor.stride.clone().into(), padding(tensor)?.into()])
            }),
            Self::LayOut(tensors, layout) => EditRecord::of_tensors("strides", tensors, graph, |tensor| {
                Some([tensor.stride.clone().into(), laid_out(&tensor.dim, *layout)?.into()])
            }),
            Self::Retype(tensors, to) => EditRecord::of_types("data_type", tensors, *to, graph),
            Self::Compute(operations, to) => {
                let from = |uid: &OperationUid| Some(graph.compute_type(uid.operation(graph)?).name().into());
                let record = |uid: &OperationUid| {
                    let record = EditRecord::of_operation("compute_data_type", *uid, graph);
                    Some(EditRecord { from: from(uid)?, to: to.name().into(), ..record })
                };
                operations.iter().filter_map(record).collect()
            }
            Self::Convert { operation, operand, to } => {
                let name = EditRecord::of_operation("convert", *operation, graph).operation;
                let records = EditRecord::of_types("convert", &[*operand], *to, graph);
                records.into_iter().map(|record| EditRecord { operation: name.clone(), ..record }).collect()
            }
            Self::AddAxis | Self::FoldBatch => self.dims("rank", graph),
            Self::AddChannels => {
                let records = self.dims("channels", graph).into_iter();
                records.filter(|record| record.from != record.to).collect()
            }
        }
    }

    /// The extents that an edit of every tensor gives them.
    fn dims(&self, kind: &'static str, graph: &FinalizedGraph) -> Vec<EditRecord> {
        let mut edited = graph.to_graph();
        if self.apply(&mut edited).is_none() {
            return Vec::new();
        }
        let record = |(before, after): (&FinalTensor, &Tensor)| {
            EditRecord::of_tensor(kind, before, [before.dim.clone().into(), after.dim.clone().into()])
        };
        graph.tensors().zip(edited.tensors()).map(record).collect()
    }
}

impl EditRecord {
    fn of_operation(kind: &'static str, uid: OperationUid, graph: &FinalizedGraph) -> Self {
        let operation = uid.operation(graph).map(|id| graph.operation(id).name.clone());
        Self { kind, tensor: None, uid: None, operation, from: Value::Null, to: Value::Null }
    }

    fn of_tensor(kind: &'static str, tensor: &FinalTensor, [from, to]: [Value; 2]) -> Self {
        Self { kind, tensor: Some(tensor.name.clone()), uid: Some(tensor.uid), operation: None, from, to }
    }

    /// A record for each tensor that has such values.
    fn of_tensors(
        kind: &'static str,
        tensors: &[TensorUid],
        graph: &FinalizedGraph,
        values: impl Fn(&FinalTensor) -> Option<[Value; 2]>,
    ) -> Vec<Self> {
        let tensors = tensors.iter().filter_map(|uid| uid.tensor(graph)).map(|id| graph.tensor(id));
        tensors.filter_map(|tensor| Some(Self::of_tensor(kind, tensor, values(tensor)?))).collect()
    }

    fn of_types(kind: &'static str, tensors: &[TensorUid], to: DataType, graph: &FinalizedGraph) -> Vec<Self> {
        Self::of_tensors(kind, tensors, graph, |tensor| Some([tensor.data_type.name().into(), to.name().into()]))
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ChannelsLast => "channels last (NHWC)",
            Self::RowMajor => "row-major",
        })
    }
}

/// Edits every one of these tensors; `None` where one is not there, or stays as it is.
fn on_each(tensors: &[TensorUid], edited: &mut Graph, edit: impl Fn(&mut Tensor) -> Option<()>) -> Option<()> {
    tensors.iter().try_for_each(|uid| {
        let id = uid.handle_in(edited)?;
        edit(edited.tensor_mut(id))
    })
}

/// Gives a field another value; `None` where it has that value.
fn replaced<T: PartialEq>(field: &mut T, value: T) -> Option<()> {
    (*field != value).then(|| *field = value)
}

/// `tensor 'a' (uid 1)`, `tensors 'a' (uid 1) and 'b' (uid 2)`.
fn named<T: Copy, I>(noun: &str, uids: &[T], find: impl Fn(T) -> Option<I>, describe: impl Fn(I) -> String) -> String {
    let names: Vec<String> = uids.iter().filter_map(|&uid| find(uid)).map(describe).collect();
    match names.as_slice() {
        [one] => format!("{noun} {one}"),
        [others @ .., last] => format!("{noun}s {} and {last}", others.join(", ")),
        [] => noun.to_owned(),
    }
}

/// The types of tensors, each once.
fn types<'a>(tensors: impl Iterator<Item = &'a FinalTensor>) -> String {
    let mut types: Vec<DataType> = tensors.map(|tensor| tensor.data_type).collect();
    types.sort_by_key(|data_type| data_type.name());
    types.dedup();
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// What another type costs: what is lost and, where the caller stores the tensors, that they take more bytes.
fn retype_price(tensors: &[&FinalTensor], to: DataType) -> Option<String> {
    let loss = tensors.iter().find_map(|tensor| loses(tensor.data_type, to));
    let stored: Vec<&&FinalTensor> = tensors.iter().filter(|tensor| !tensor.is_virtual).collect();
    if stored.is_empty() {
        return loss.map(|loss| format!("{to} {loss}"));
    }
    let total = |of: &dyn Fn(&FinalTensor) -> DataType| {
        stored.iter().fold(0i64, |sum, tensor| sum.saturating_add(bytes(&tensor.dim, &tensor.stride, of(tensor))))
    };
    let (before, after) = (total(&|tensor| tensor.data_type), total(&|_| to));
    let more = if after > before { format!(" ({after} bytes, not {before})") } else { String::new() };
    let loss = loss.map(|loss| format!(", which {loss}")).unwrap_or_default();
    Some(format!("the caller's data are {to}{more}{loss}"))
}

/// Bytes from the first to the last element of a tensor.
fn bytes(dim: &[i64], stride: &[i64], data_type: DataType) -> i64 {
    let bits = i128::from(span(dim, stride)) * i128::from(data_type.bits());
    i64::try_from((bits + 7) / 8).unwrap_or(i64::MAX)
}

/// Elements from the first to the last of a tensor.
fn span(dim: &[i64], stride: &[i64]) -> i64 {
    let last = dim.iter().zip(stride).map(|(&extent, &stride)| (extent - 1).saturating_mul(stride));
    last.fold(1, i64::saturating_add)
}

/// Packed strides in an order; `None` for channels last where there are no channels.
fn laid_out(dim: &[i64], layout: Layout) -> Option<Vec<i64>> {
    match layout {
        Layout::ChannelsLast => (dim.len() >= 3).then(|| packed_strides(dim, &channels_last_order(dim.len()))),
        Layout::RowMajor => Some(packed_strides(dim, &row_major_order(dim.len()))),
    }
}

/// Strides in the same order, each stepping over all inner elements and, save the contiguous one, a multiple of
/// [`DEFAULT_ALIGNMENT`] bytes. `None` where no axis is contiguous, and on overflow.
fn padded(dim: &[i64], stride: &[i64], data_type: DataType) -> Option<Vec<i64>> {
    let unit = (8 * DEFAULT_ALIGNMENT).div_euclid(data_type.bits() as i64).max(1);
    let mut axes: Vec<usize> = (0..dim.len()).filter(|&axis| dim[axis] > 1).collect();
    axes.sort_by_key(|&axis| stride[axis]);
    let mut padded = stride.to_vec();
    let (&contiguous, outer) = axes.split_first()?;
    let mut span = Some(dim[contiguous]).filter(|_| stride[contiguous] == 1)?;
    for &axis in outer {
        padded[axis] = round_up(span.max(stride[axis]), unit)?;
        span = padded[axis].checked_mul(dim[axis])?;
    }
    Some(padded)
}

/// The strides that padding gives a tensor.
fn padding(tensor: &FinalTensor) -> Option<Vec<i64>> {
    padded(&tensor.dim, &tensor.stride, tensor.data_type)
}

fn round_up(value: i64, unit: i64) -> Option<i64> {
    let beyond = value.rem_euclid(unit);
    if beyond == 0 { Some(value) } else { value.checked_add(unit - beyond) }
}

/// Puts an IDENTITY before an operand of an operation, at every port that reads it.
fn convert(graph: &mut Graph, operation: usize, operand: TensorHandle, to: DataType) {
    let source = &graph.tensors()[operand.index()];
    let name = format!("{}::converted", source.name);
    let result = Tensor { data_type: Some(to), dim: source.dim.clone(), is_virtual: true, ..Tensor::new(&name) };
    let result = graph.tensor(result);
    let slots = graph.operations[operation].inputs.iter_mut().filter(|slot| slot.1 == operand);
    slots.for_each(|slot| slot.1 = result);
    graph.operation(crate::graph::Operation {
        name,
        attributes: Attributes::Pointwise(Pointwise::new(PointwiseMode::Identity)),
        compute_data_type: Some(DataType::Float),
        inputs: vec![(Port::IN_0, operand)],
        outputs: vec![(Port::OUT_0, result)],
    });
}
