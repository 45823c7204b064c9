//! A graph, and its plan, in the shapes that an execution gives its tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Plan, Session};
use crate::engine::{EngineConfig, Selection};
use crate::error::Error;
use crate::graph::{AxisClasses, FinalizedGraph, Tensor, TensorId};

/// Extents and strides that an execution gives a tensor in place of its graph's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorShape {
    /// The tensor, which is not virtual.
    pub uid: i64,
    /// Extents, of as many axes as the tensor has.
    pub dim: Vec<i64>,
    /// Strides, in elements.
    pub stride: Vec<i64>,
}

impl Session {
    /// The plan of a plan's graph in other shapes ([`with_shapes`]): with the config of the plan where that is offered for these, else with the first
    /// by the engine's model, of those that need no more workspace than the plan has. It is kept in memory as any other. Where the graph has dynamic
    /// shapes, binaries of shapes that were planned before are taken as far as kernels allow it.
    ///
    /// # Errors
    /// Those of [`with_shapes`], [`Self::check`] and [`Self::compile`]; [`Error::Input`] where every config needs more workspace than the plan has.
    pub fn plan_in_shapes(&self, plan: &Plan, shapes: &[TensorShape]) -> Result<Arc<Plan>, Error> {
        let chosen = || {
            let graph = with_shapes_in(plan.binary().graph(), plan.axes(), shapes)?;
            let selection = self.check(&Arc::new(graph))?;
            Ok((self.config_within(&selection, plan)?, selection))
        };
        self.planned(shapes_digest(plan, shapes), chosen, None)
    }

    /// The config of a plan for another shape, or the first that needs no more workspace.
    fn config_within(&self, selection: &Selection, plan: &Plan) -> Result<EngineConfig, Error> {
        let own = plan.binary().config();
        let bytes = |config: &EngineConfig| selection.lower(config, self.device()).workspace_bytes;
        let most = plan.workspace_bytes();
        if selection.offers(own, self.device()) && bytes(own) <= most {
            return Ok(own.clone());
        }
        let ranking: Vec<EngineConfig> =
            selection.candidates(self.device()).into_iter().map(|ranked| ranked.config).collect();
        let found = ranking.iter().find(|config| bytes(config) <= most);
        found.cloned().ok_or_else(|| {
            let least = ranking.iter().map(bytes).min().unwrap_or_default();
            let message = format!("an execution needs {least} bytes of workspace; the plan has {most}");
            Error::input("shapes of an execution", message)
        })
    }
}

/// What a plan in other shapes is found again by.
fn shapes_digest(plan: &Plan, shapes: &[TensorShape]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(plan.digest()).update(b"in other shapes");
    for TensorShape { uid, dim, stride } in shapes {
        hasher.update(&uid.to_le_bytes()).update(&(dim.len() as u64).to_le_bytes());
        dim.iter().chain(stride).for_each(|number| {
            hasher.update(&number.to_le_bytes());
        });
    }
    *hasher.finalize().as_bytes()
}

/// A graph with other extents and strides of its tensors in memory. Tensors that are not among those given stay as they are; virtual ones follow.
///
/// # Errors
/// [`Error::Input`] that names the tensor: the graph has none of the uid, it is virtual or given twice, has another number of axes, or is not given
/// although its extents follow from those that are. [`Error::Malformed`] where shapes do not fit each other.
///
/// ```
/// use fusewright::graph::{DataType, Graph, Tensor};
/// use fusewright::session::{TensorShape, with_shapes};
///
/// let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
/// let a = graph.tensor(Tensor::new("a").row_major([1, 64, 32]).uid(1));
/// let b = graph.tensor(Tensor::new("b").row_major([1, 32, 48]).uid(2));
/// let c = graph.matmul("mm", a, b);
/// graph.tensor_mut(c).uid = Some(3);
/// graph.set_output(c);
/// let graph = graph.finalize()?;
/// let rows = |uid, rows: i64, width: i64| TensorShape { uid, dim: vec![1, rows, width], stride: vec![rows * width, width, 1] };
///
/// let other = with_shapes(&graph, &[rows(1, 7, 32), rows(3, 7, 48)])?;
/// assert_eq!(other.tensor(other.tensor_by_uid(3).expect("an output")).dim, [1, 7, 48]);
///
/// let why = with_shapes(&graph, &[rows(1, 7, 32)]).unwrap_err().to_string();
/// assert!(why.contains("(uid 3)") && why.contains("has to be given, too"), "{why}");
/// # Ok::<(), fusewright::error::Error>(())
/// ```
pub fn with_shapes(graph: &FinalizedGraph, shapes: &[TensorShape]) -> Result<FinalizedGraph, Error> {
    with_shapes_in(graph, &AxisClasses::of(graph), shapes)
}

/// As [`with_shapes`], of a graph of which it is known which axes have one extent.
fn with_shapes_in(graph: &FinalizedGraph, axes: &AxisClasses, shapes: &[TensorShape]) -> Result<FinalizedGraph, Error> {
    let given = given(graph, shapes)?;
    let mut classes = axes.clone();
    let extents = changed(graph, &given, &mut classes);
    let mut other = graph.to_graph();
    for id in graph.tensor_ids() {
        let before = other.tensors()[id.index()].clone();
        let tensor = match given.get(&id) {
            Some(shape) => Tensor { dim: shape.dim.clone(), stride: shape.stride.clone(), ..before },
            None => {
                let tensor = classes.resized(id.handle(), &before, |class| extents.get(&class).copied());
                require_following(graph, id, &tensor)?;
                tensor
            }
        };
        *other.tensor_mut(id.handle()) = tensor;
    }
    Ok(other.finalize()?)
}

/// The tensors that shapes are about.
fn given<'a>(graph: &FinalizedGraph, shapes: &'a [TensorShape]) -> Result<BTreeMap<TensorId, &'a TensorShape>, Error> {
    let mut given = BTreeMap::new();
    for shape in shapes {
        let none = || Error::input(format!("shape of uid {}", shape.uid), "the graph has no tensor of that uid");
        let id = graph.tensor_by_uid(shape.uid).ok_or_else(none)?;
        let (tensor, [dims, strides]) = (graph.tensor(id), [shape.dim.len(), shape.stride.len()]);
        let axes = tensor.dim.len();
        let fault = match () {
            () if tensor.is_virtual => "it is virtual: its shape follows from that of others".to_owned(),
            () if dims != axes || strides != axes => {
                format!("found: {dims} extents and {strides} strides; required: {axes} of each, one for each axis")
            }
            () if given.insert(id, shape).is_some() => "its shape is given twice".to_owned(),
            () => continue,
        };
        return Err(Error::input(format!("shape of {}", graph.describe_tensor(id)), fault));
    }
    Ok(given)
}

/// The extents of classes of axes that are others by the shapes given.
fn changed(
    graph: &FinalizedGraph,
    given: &BTreeMap<TensorId, &TensorShape>,
    classes: &mut AxisClasses,
) -> BTreeMap<usize, i64> {
    let mut extents = BTreeMap::new();
    for (&id, shape) in given {
        let axes = graph.tensor(id).dim.iter().zip(&shape.dim).enumerate();
        for (axis, (_, &extent)) in axes.filter(|(_, (before, now))| before != now) {
            extents.entry(classes.class(id.handle(), axis)).or_insert(extent);
        }
    }
    extents
}

/// That a tensor whose extents are others by the shapes given is virtual.
fn require_following(graph: &FinalizedGraph, id: TensorId, tensor: &Tensor) -> Result<(), Error> {
    let before = graph.tensor(id);
    if before.is_virtual || tensor.dim == before.dim {
        return Ok(());
    }
    let message =
        format!("dims {:?} become {:?} by the shapes given; its shape has to be given, too", before.dim, tensor.dim);
    Err(Error::input(format!("shape of {}", graph.describe_tensor(id)), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, ReductionMode};

    fn shape(uid: i64, dim: &[i64], order: &[usize]) -> TensorShape {
        let mut stride = vec![0; dim.len()];
        let mut step = 1;
        for &axis in order.iter().rev() {
            stride[axis] = step;
            step *= dim[axis];
        }
        TensorShape { uid, dim: dim.to_vec(), stride }
    }

    /// A layer with a bias and a residual, and the largest value of each column.
    fn layer() -> FinalizedGraph {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Float);
        let a = graph.tensor(Tensor::new("a").row_major([1, 64, 32]).uid(1));
        let b = graph.tensor(Tensor::new("b").row_major([1, 32, 48]).uid(2));
        let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 48]).uid(3));
        let c = graph.matmul("mm", a, b);
        let sum = graph.pointwise("bias", PointwiseMode::Add, &[c, bias]);
        let most = graph.reduction("most", ReductionMode::Max, sum, [1, 1, 48]);
        for (tensor, uid) in [(sum, 4), (most, 5)] {
            graph.set_output(tensor);
            graph.tensor_mut(tensor).uid = Some(uid);
        }
        graph.finalize().unwrap()
    }

    #[test]
    fn virtual_tensors_follow_and_others_are_as_given() {
        let graph = layer();
        for rows in [2, 5, 128] {
            let gap = TensorShape { stride: vec![rows * 40, 40, 1], ..shape(1, &[1, rows, 32], &[0, 1, 2]) };
            let other = with_shapes(&graph, &[gap, shape(4, &[1, rows, 48], &[0, 1, 2])]).unwrap();
            let of = |uid| other.tensor(other.tensor_by_uid(uid).unwrap());
            assert_eq!(of(1).stride, [rows * 40, 40, 1]);
            assert_eq!((of(4).dim.clone(), of(5).dim.clone()), (vec![1, rows, 48], vec![1, 1, 48]));
            let product = other.tensors().find(|tensor| tensor.name == "mm::C").unwrap();
            assert_eq!(product.dim, [1, rows, 48]);
            assert_ne!(other.key(), graph.key());
        }
        assert_eq!(with_shapes(&graph, &[]).unwrap().key(), graph.key());
    }

    #[test]
    fn convolutions_have_pixels_of_other_numbers() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last([4, 16, 8, 8]).uid(1));
        let w = graph.tensor(Tensor::new("w").channels_last([16, 16, 3, 3]).uid(2));
        let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]), [x, w]);
        let z = graph.pointwise("relu", PointwiseMode::ReluFwd, &[y]);
        graph.set_output(z);
        graph.tensor_mut(z).uid = Some(3);
        let graph = graph.finalize().unwrap();
        let images = |uid, size| shape(uid, &[2, 16, size, size], &[0, 2, 3, 1]);
        let other = with_shapes(&graph, &[images(1, 12), images(3, 12)]).unwrap();
        assert_eq!(other.tensors().find(|tensor| tensor.name == "conv::Y").unwrap().dim, [2, 16, 12, 12]);
        let wrong = with_shapes(&graph, &[images(1, 12), images(3, 11)]).unwrap_err();
        assert!(matches!(wrong, Error::Malformed(_)), "{wrong}");
    }

    #[test]
    fn what_is_wrong_names_the_tensor() {
        let graph = layer();
        let why = |shapes: &[TensorShape]| with_shapes(&graph, shapes).unwrap_err().to_string();
        let a = || shape(1, &[1, 7, 32], &[0, 1, 2]);
        for (shapes, tensor, text) in [
            (vec![shape(9, &[1], &[0])], "uid 9", "no tensor of that uid"),
            (vec![shape(1, &[7, 32], &[0, 1])], "'a' (uid 1)", "found: 2 extents and 2 strides; required: 3"),
            (vec![a(), a()], "'a' (uid 1)", "given twice"),
            (vec![a()], "(uid 4)", "has to be given, too"),
            (vec![a(), shape(4, &[1, 8, 48], &[0, 1, 2])], "(uid 4)", "malformed"),
            (vec![shape(1, &[1, -7, 32], &[0, 1, 2]), shape(4, &[1, -7, 48], &[0, 1, 2])], "'a' (uid 1)", "malformed"),
        ] {
            let why = why(&shapes);
            assert!(why.contains(tensor) && why.contains(text), "{why}");
        }
        let product = graph.tensors().find(|tensor| tensor.is_virtual).unwrap().uid;
        let virtual_one = why(&[shape(product, &[1, 7, 48], &[0, 1, 2])]);
        assert!(virtual_one.contains("virtual"), "{virtual_one}");
    }
}
